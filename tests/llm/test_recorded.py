"""Answers that are recorded, replayed and kept."""

import json
import multiprocessing
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from chat_server import ASK, Saying, chat_server, endpoint_at

from berdslib.errors import InputError, MissingDataError
from berdslib.llm.chat import Reply
from berdslib.llm.recorded import Recorded, _turn, exchange_key
from berdslib.models.chat import make_chat


@pytest.fixture
def server():
    with chat_server() as web:
        yield web


@pytest.fixture
def endpoint(server, monkeypatch):
    return endpoint_at(server, monkeypatch)


def test_half_a_character_is_refused_in_a_message_and_kept_in_a_record(tmp_path, endpoint, server):
    with pytest.raises(InputError):
        endpoint().complete([{"role": "user", "content": "so \ud800 it is"}])
    server.script = [(200, {}, b'{"choices": [{"message": {"content": "so \\ud800"}}]}')]
    model = endpoint()
    assert Recorded(tmp_path / "said.jsonl", model).complete(ASK).text == "so \ud800"
    assert Recorded(tmp_path / "said.jsonl", model_id=model.id).complete(ASK).text == "so \ud800"


def test_a_recording_that_was_cut_off_loses_only_its_last_line(tmp_path, caplog):
    (tmp_path / "said.jsonl").write_text('{"key": "k", "text": "Yes"}\n{"key": "l", "te')
    Recorded(tmp_path / "said.jsonl", model_id="m")
    assert "cut off" in caplog.text
    Recorded(tmp_path / "said.jsonl", Saying("No")).complete(ASK)
    assert Recorded(tmp_path / "said.jsonl", model_id="saying").complete(ASK).text == "No"
    (tmp_path / "said.jsonl").write_text('{"key": "k", "te\n{"key": "l", "text": "No"}\n')
    with pytest.raises(InputError, match=r"said.jsonl:1"):
        Recorded(tmp_path / "said.jsonl", model_id="m")
    with pytest.raises(InputError, match=r"none\.jsonl"):
        Recorded(tmp_path / "none.jsonl", model_id="m")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InputError, match=r"empty\.jsonl"):
        make_chat(f"recorded:{tmp_path / 'empty.jsonl'}")


FOREIGN = ['{"my": "thesis, one line"}', '{"my": "thesis"', "one\n", "\xff\xfe"]


@pytest.mark.parametrize("content", FOREIGN)
def test_a_foreign_file_is_named_and_stays_as_it_was(tmp_path, content):
    path = tmp_path / "thesis.txt"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"thesis\.txt:1"):
        Recorded(path, Saying("No"))
    assert path.read_bytes() == content.encode("latin-1")


def test_a_paid_answer_whose_line_lacks_only_its_end_is_kept(tmp_path):
    path, first = tmp_path / "said.jsonl", Parrot()
    for text in "ab":
        Recorded(path, first).complete(say(text))
    whole = path.read_bytes()
    path.write_bytes(whole.removesuffix(b"\n"))
    second = Parrot()
    kept = Recorded(path, second)
    assert [kept.complete(say(t)).text for t in "abc"] == ["A", "B", "C"] and second.asked == ["c"]
    assert path.read_bytes().startswith(whole) and len(path.read_bytes().splitlines()) == 3


@pytest.mark.parametrize("char", ["\u2028", "\x85", "\x1c", "\r"])
def test_s6_lines_of_a_recording_end_at_line_feeds_only(tmp_path, char):
    path = tmp_path / "said.jsonl"
    Recorded(path, Saying(f"No{char}No")).complete(ASK)
    Recorded(path, Saying("Yes")).complete([{"role": "user", "content": f"And{char}now?"}])
    recorded = Recorded(path, model_id="saying")
    assert recorded.complete(ASK).text == f"No{char}No"
    assert recorded.complete([{"role": "user", "content": f"And{char}now?"}]).text == "Yes"
    assert make_chat(f"recorded:{path}").complete(ASK).text == f"No{char}No"


@pytest.fixture
def small_disk(tmp_path):
    """A limit on the size of files: what is beyond it is written in part, as on a full disk."""
    old, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size or old[0], old[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, old)
    signal.signal(signal.SIGXFSZ, handler)


def test_s18_a_full_disk_leaves_whole_lines(tmp_path, small_disk):
    path = tmp_path / "said.jsonl"
    recording = Recorded(path, Saying("fine"))
    recording.complete(ASK)
    small_disk(path.stat().st_size + 20)
    with pytest.raises(InputError, match=r"said\.jsonl"):
        recording.complete([{"role": "user", "content": "And now?"}])
    small_disk(None)
    recording.complete([{"role": "user", "content": "And then?"}])
    recorded = Recorded(path, model_id="saying")
    assert [recorded.complete([{"role": "user", "content": t}]).text for t in ("Well?", "And then?")] == ["fine"] * 2
    with pytest.raises(MissingDataError):
        recorded.complete([{"role": "user", "content": "And now?"}])


@pytest.mark.parametrize(
    "row",
    ["[" * 100_000, '{"key": "k", "text": 5}', '{"key": ["k"], "text": "x"}',
     '{"key": "k", "text": "x", "first_token": 3}', '{"key": "k", "text": "x", "first_token": [["Yes", 1e400]]}',
     '{"key": "k", "text": "x", "first_token": [["Yes", -1' + "0" * 400 + "]]}",
     '{"key": "k", "text": "x", "first_token": [[5, -1]]}', '{"key": "k", "text": "x", "usage": 3}', "{}",
     *(f'{{"key": "k", "text": "x", "usage": {{"prompt_tokens": {n}}}}}' for n in (-1, '"7"', "1e3"))],
)  # fmt: skip
def test_s11_a_hostile_recording_is_named_by_file_and_line(tmp_path, row):
    (tmp_path / "said.jsonl").write_text(f'{row}\n{{"key": "l", "text": "No"}}\n')
    with pytest.raises(InputError, match=r"said\.jsonl:1"):
        Recorded(tmp_path / "said.jsonl", model_id="m")


class Parrot:
    """Answers with what it was asked, and counts; fails where `fails` says so."""

    id = "parrot"

    def __init__(self, fails=()):
        self.asked, self.fails = [], fails

    def complete(self, messages):
        text = messages[-1]["content"]
        self.asked.append(text)
        if text in self.fails:
            raise ConnectionError(text)
        return Reply(text.upper(), ((text[0], -0.5),))


def test_what_a_process_was_killed_at_while_another_records_spoils_no_other_answer(tmp_path):
    path, model = tmp_path / "said.jsonl", Parrot()
    kept = Recorded(path, model)
    kept.complete(say("a"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"key": "cut o')
    kept.complete(say("b"))
    assert path.read_bytes().startswith(whole) and len(Recorded(path)._replies) == 2
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))  # killed between a line and its end
    kept.complete(say("c"))
    assert [Recorded(path).complete(say(text)).text for text in "abc"] == ["A", "B", "C"]


class Long(Parrot):
    def complete(self, messages):
        return Reply(messages[-1]["content"] * 10_000)


def record(path, name, n, together):
    together.wait()
    for i in range(n):
        Recorded(path, Long()).complete(say(f"{name}{i:03} "))  # which opens and mends the file each time


@pytest.mark.slow
def test_r1_processes_that_share_a_file_lose_none_of_what_was_paid_for(tmp_path):
    start = multiprocessing.get_context("spawn")
    for number in range(3):
        path, together = tmp_path / f"{number}.jsonl", start.Barrier(4)
        workers = [start.Process(target=record, args=(path, name, 20, together)) for name in "abcd"]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0] * 4
        recorded = Recorded(path)
        for name in "abcd":
            for i in range(20):
                assert len(recorded.complete(say(f"{name}{i:03} ")).text) == 50_000


def test_a_line_that_another_process_is_writing_is_not_removed(tmp_path):
    path = tmp_path / "said.jsonl"
    Recorded(path, Parrot()).complete(say("a"))
    whole = path.read_bytes()
    with ThreadPoolExecutor(1) as pool, _turn(path), open(path, "ab", buffering=0) as other:
        other.write(whole[:40])
        opened = pool.submit(Recorded, path, Parrot())
        time.sleep(0.1)
        assert not opened.done() and path.read_bytes() == whole + whole[:40]
        other.write(whole[40:])
    assert opened.result() and path.read_bytes() == whole * 2


def say(text):
    return [{"role": "user", "content": text}]


def test_after_a_failure_only_the_rest_is_asked(tmp_path):
    path = tmp_path / "deep" / "kept.jsonl"
    first = Recorded(path, Parrot(fails={"c"}))
    assert [first.complete(say(t)).text for t in "ab"] == ["A", "B"]
    with pytest.raises(ConnectionError):
        first.complete(say("c"))
    path.write_text(path.read_text() + '{"key": "cut o')  # and the process was killed while writing
    parrot = Parrot()
    second = Recorded(path, parrot)
    assert [second.complete(say(t)).text for t in "abcd"] == ["A", "B", "C", "D"]
    assert parrot.asked == ["c", "d"]
    assert second.complete(say("a")).first_token == (("a", -0.5),)
    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == ["A", "B", "C", "D"]


def test_a_line_that_was_changed_is_told_and_asked_again_once_it_is_removed(tmp_path):
    path = tmp_path / "kept.jsonl"
    for text in "abc":
        Recorded(path, Parrot()).complete(say(text))
    path.write_text(path.read_text().replace('"B"', '"P"'))
    for use in (lambda: Recorded(path), lambda: Recorded(path, Parrot())):
        with pytest.raises(InputError, match=r"kept\.jsonl:2"):
            use()
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[2])
    parrot = Parrot()
    assert [Recorded(path, parrot).complete(say(t)).text for t in "abc"] == ["A", "B", "C"] and parrot.asked == ["b"]


def test_recorded_answers_by_name(tmp_path):
    path = tmp_path / "a.jsonl"
    Recorded(path, Parrot()).complete(say("a"))
    path.write_text(path.read_text() + '{"key": "cut o')
    chat = make_chat(f"recorded:{path}")
    assert chat.id == "parrot" and chat.complete(say("a")).text == "A"
    with pytest.raises(MissingDataError, match="parrot"):
        chat.complete(say("b"))
    other = Parrot()
    other.id = "other"
    Recorded(path, other).complete(say("a"))  # which is asked, since answers of another model do not count
    with pytest.raises(InputError, match="other, parrot"):
        make_chat(f"recorded:{path}")


def test_threads_that_ask_the_same_ask_once(tmp_path):
    class Slow(Parrot):
        def complete(self, messages):
            time.sleep(0.1)
            return super().complete(messages)

    model = Slow()
    kept = Recorded(tmp_path / "kept.jsonl", model)
    with ThreadPoolExecutor(8) as pool:
        texts = [reply.text for reply in pool.map(kept.complete, [say(t) for t in "aaaabbbb"])]
    assert texts == list("AAAABBBB") and sorted(model.asked) == ["a", "b"]


def test_a_conversation_in_two_batches_at_once_is_asked_once(tmp_path):
    class Slow:
        id = "slow"
        together = 2

        def __init__(self):
            self.batches = []

        def complete_all(self, conversations):
            self.batches.append([messages[0]["content"] for messages in conversations])
            time.sleep(0.1)
            return [Reply(messages[0]["content"]) for messages in conversations]

    model = Slow()
    kept = Recorded(tmp_path / "said.jsonl", model)
    batches = [[[{"role": "user", "content": text}] for text in texts] for texts in ("ab", "bc", "ab")]
    with ThreadPoolExecutor(3) as pool:
        replies = list(pool.map(kept.complete_all, batches))
    assert [[reply.text for reply in batch] for batch in replies] == [["a", "b"], ["b", "c"], ["a", "b"]]
    assert sorted(text for batch in model.batches for text in batch) == ["a", "b", "c"]
    assert len((tmp_path / "said.jsonl").read_text().splitlines()) == 3


def test_what_was_used_and_why_it_ended_is_recorded_and_recordings_of_old_are_read(tmp_path):
    class Counting:
        id = "counting"

        def complete(self, messages):
            return Reply("né", (), "length", 70, 5)

    path = tmp_path / "said.jsonl"
    Recorded(path, Counting()).complete(say("a"))
    row = json.loads(path.read_text())
    assert row["usage"] == {"prompt_tokens": 70, "completion_tokens": 5} and row["finish"] == "length"
    assert Recorded(path).complete(say("a")) == Reply("né", (), "length", 70, 5)
    row = {"key": exchange_key("m", say("a")), "model": "m", "messages": say("a"), "text": "Yes"}
    path.write_text(json.dumps({**row, "first_token": [["Yes", -0.1]]}) + "\n")
    assert Recorded(path).complete(say("a")) == Reply("Yes", (("Yes", -0.1),))
