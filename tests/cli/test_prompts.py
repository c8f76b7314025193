"""`berds prompts`: the authors' file is checked, another address is not, and says so."""

import hashlib
import http.server
import json
import threading

import pytest
from shell import berds, tried

from berdslib.llm.prompting import AUTHORS, OTHER, PUBLISHED, TASKS, UNCHECKED, Published, load_prompt

TEXT = "Doc: [Document] Claim: [Statement] Right?"


@pytest.fixture
def web(tmp_path, monkeypatch, user_cache):
    """A server of the folder web/; its address, and the paths it was asked for."""
    folder, asked = tmp_path / "web", []
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_request(self, *arguments):
            asked.append(self.path)

    monkeypatch.setenv("no_proxy", "*")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.fixture
def address(web):
    """The address of a file with a wording."""
    folder, url, _ = web
    (folder / "wording.txt").write_text(TEXT)
    return f"{url}/wording.txt"


def on_record(monkeypatch, address, text):
    raw = text.encode()
    found = Published(address, len(raw), hashlib.sha256(raw).hexdigest())
    monkeypatch.setitem(PUBLISHED["perspective_detection"], "published-no-chat", found)


def test_the_authors_file_is_fetched_by_wording_and_checked(address, monkeypatch):
    on_record(monkeypatch, address, TEXT)
    result = berds("prompts", "fetch", "perspective_detection", "--wording", "published-no-chat")
    assert result.stdout.strip().endswith("perspective_detection-no-chat.txt") and result.stderr == ""
    assert load_prompt("perspective_detection", "published-no-chat").user == "Doc: {document} Claim: {statement} Right?"


def test_what_cannot_be_fetched_replaces_nothing(web, address, monkeypatch, user_cache):
    on_record(monkeypatch, address, TEXT.replace("Right", "Wrong"))
    folder, url, _ = web
    (folder / "page.html").write_text("<html>log in first</html>")
    for source, words in (
        (("--wording", "published-no-chat"), address),  # another file under the authors' address
        ((f"{url}/none.txt",), "404"),
        ((f"{url}/page.html",), "{document}"),
    ):
        result = tried("prompts", "fetch", "perspective_detection", *source)
        assert result.exit_code == 1 and words in result.stderr
    assert not list((user_cache / "prompts").glob("*.txt"))


def test_the_list_says_which_wordings_are_here(tmp_path, user_cache):
    (tmp_path / "w.txt").write_text("Which? [Doc 1] or [Doc 2]")
    kept = berds("prompts", "fetch", "question_from_arguments", tmp_path / "w.txt").stdout.strip()
    assert kept.endswith("question_from_arguments-table-8.txt")
    rows = {row["task"]: row for row in json.loads(berds("prompts", "list", "--json").stdout)}
    assert list(rows) == list(TASKS)
    assert [task for task, row in rows.items() if row["imported"]] == ["question_from_arguments"]
    assert rows["question_from_arguments"]["imported"] == ["table-8"]
    assert rows["question_from_arguments"]["states"] == {"table-8": UNCHECKED}
    listed = berds("prompts", "list").stdout
    for row in rows.values():
        missing = set(row["states"]) - set(row["imported"])
        assert all(row["commands"][wording] in listed for wording in missing)
    # What the list says of each wording is what a fetch without a file does.
    for task, row in rows.items():
        for wording, command in row["commands"].items():
            on_record = wording in PUBLISHED.get(task, {})
            assert (" FILE" in command) != on_record
            if not on_record:
                assert tried("prompts", "fetch", task, "--wording", wording).exit_code == 1
    shown = berds("prompts", "show", "question_from_arguments", "--wording", "table-8").stdout
    assert shown.rstrip().endswith("Which? {first} or {second}")
    refused = tried("prompts", "fetch", "statements_of_question", tmp_path / "w.txt")
    assert refused.exit_code == 1 and "no published wording" in refused.stderr


def test_a_published_prompt_is_fetched_once_and_another_address_is_another_file(web, address, user_cache):
    folder, url, asked = web
    for _ in range(2):
        done = berds("prompts", "fetch", "perspective_detection", address)
    assert OTHER in done.stderr and asked == ["/wording.txt"]
    assert done.stdout.strip() == str(user_cache / "prompts" / "perspective_detection.txt")
    (folder / "new").mkdir()
    (folder / "new" / "wording.txt").write_text("[Document] says [Statement]?")
    berds("prompts", "fetch", "perspective_detection", f"{url}/new/wording.txt")
    shown = berds("prompts", "show", "perspective_detection", "--wording", "published").stdout
    assert shown.rstrip().endswith("{document} says {statement}?")


def test_a_file_is_compared_with_the_authors_checksum(tmp_path, user_cache, monkeypatch, caplog):
    on_record(monkeypatch, "http://nowhere", TEXT)
    for text, state in ((TEXT, AUTHORS), (TEXT + "!", OTHER)):
        (tmp_path / "copy.txt").write_text(text)
        wording = ("perspective_detection", "--wording", "published-no-chat")
        told = berds("prompts", "fetch", wording[0], tmp_path / "copy.txt", *wording[1:])
        assert (state in told.stderr) == (state == OTHER)
        (row,) = [row for row in json.loads(berds("prompts", "list", "--json").stdout) if row["task"] == wording[0]]
        assert row["states"]["published-no-chat"] == state and row["states"]["published"] == ""
        for _ in range(2):
            berds("prompts", "show", *wording)
        assert caplog.text.count(OTHER) == (state == OTHER)  # one warning, however often it is used
