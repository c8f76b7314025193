"""`berds build`, as a user meets it."""

import json
import re
from pathlib import Path

import pytest
from chat_server import SECRET, answer, chat_server
from debater import Debater, write_arguments
from shell import berds, tried

pytestmark = pytest.mark.usefixtures("own_place")


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "my.txt"
    path.write_text("Should zoos close?\nWill trams help?\nWhat is best?\n", encoding="utf-8")
    return path


def test_from_a_text_file_to_an_experiment_in_two_commands(questions):
    said = berds("build", "questions", questions, "mine", "--licence", "CC0-1.0", "--source", "us", "-c", "sample")
    assert "2 questions, 2.00 perspectives" in said.stderr
    (path,) = re.findall(r"left out: no rule \(1\) → (.*)\n", said.stderr)
    assert json.loads(Path(path).read_text())["reason"] == "no rule"
    shown = berds("experiment", "-q", "mine", "-r", "bm25", "-j", "overlap", "--json").stdout
    assert json.loads(shown)[0]["n"] == 2


def test_counts_and_examples(questions):
    said = berds("build", "questions", questions, "mine", "--examples", 2).output
    assert [line.split() for line in said.splitlines()[:3]] == [
        ["step", "items", "asked", "left_out", "unanswered"],
        ["read", "3", "0", "0", "0"],
        ["statements", "3", "2", "0", "0"],
    ]
    assert re.search(r"no rule \(positions\) my-3: .*\n    What is best\?", said)
    facts = json.loads(berds("build", "questions", questions, "mine", "--examples", 1, "--json").output)
    assert facts["questions"]["n"] == 2
    assert [row["reason"] for row in facts["examples"]] == ["no rule"]
    assert facts["steps"][-1] == {"step": "labels", "items": 2, "asked": 2, "left_out": 0, "unanswered": 0}


def test_texts_of_others_do_not_steer_the_terminal(tmp_path):
    (tmp_path / "my.txt").write_text("Should zoos close?\nWhat is \x1b[31mbest?\n", encoding="utf-8")
    said = berds("build", "questions", "my.txt", "mine", "--examples", 1).output
    assert "\x1b" not in said and "\\x1b[31m" in said


def test_a_dry_run_and_the_real_one(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    raw = write_arguments(tmp_path / "arguments.jsonl")
    options = ["build", "arguana", raw, "bans", "--model", "some-model"]
    rows = json.loads(berds(*options, "--dry-run", "--json").output)
    assert [row["to_ask"] for row in rows] == [8, 8, 8, 24]
    assert not (tmp_path / "bans").exists()
    with chat_server() as server:
        monkeypatch.setenv("BERDS_CHAT_URL", f"http://127.0.0.1:{server.server_port}/v1")
        server.script = [lambda body: answer(Debater().complete(body["messages"]).text)]
        said = berds(*options).stderr
    assert "8 questions (2 dev, 6 test)" in said
    rows = json.loads(berds(*options, "--dry-run", "--json").output)
    assert (rows[-1]["recorded"], rows[-1]["to_ask"]) == (24, 0)


def test_from_questions_without_stances_to_figures(tmp_path, monkeypatch):
    """BeRDS A.8: a chat model says which of two supports; sides are then known, and nothing is asked twice."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    rows = [
        {"qid": "zoos", "question": "Should zoos close?", "perspectives": ["They save species.", "They are cruel."]},
        {"qid": "tea", "question": "Which is best?", "perspectives": ["Tea.", "Milk.", "Water."]},
    ]
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = [{"docno": "a", "text": "zoos are cruel, and they must close"}, {"docno": "b", "text": "they save species"}]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    sides = ["sides", "-q", "asked.jsonl", "-c", "corpus.jsonl", "-r", "bm25", "-j", "overlap", "-k", 1, "--json"]
    assert tried(*sides).exit_code == 1
    asking = ["build", "stances", "asked.jsonl", "sided", "--model", "m"]
    with chat_server() as server:
        monkeypatch.setenv("BERDS_CHAT_URL", f"http://127.0.0.1:{server.server_port}/v1")
        server.script = [answer("2")]
        assert [row["to_ask"] for row in json.loads(berds(*asking, "--dry-run", "--json").output)] == [1, 1]
        berds(*asking)
        berds(*asking)
        assert len(server.seen) == 1
    found = json.loads(berds(*sides, "--stances", "sided/questions.jsonl").stdout)
    shown = {row["asked"]: row["leaning"] for row in found["leaning"]}
    assert (shown["supporting"], shown["opposing"]) == (1, -1)  # "They are cruel." supports the question
    assert {row["n"] for row in found["shares"]} == {1}
    assert tried("build", "stances", "no-such-set", "other").exit_code == 1
    assert tried("build", "arguana", "no-such-file", "other").exit_code == 2


def test_a_task_of_pir(tmp_path):
    raw = tmp_path / "claims.csv"
    claims = ["Cats like milk.,why,SUPPORT", "Cats like milk.,why,REFUTE", "Dogs bark.,why,NOT ENOUGH INFO"]
    raw.write_text("\n".join(["claim,explanation,label", *claims]), encoding="utf-8")
    refused = tried("build", "pir-exfever", raw, "cats", "--dev", 0.5)
    assert refused.exit_code == 2 and not Path("cats").exists()
    made = json.loads(berds("build", "pir-exfever", raw, "cats", "--json").stdout)
    assert [(row["queries"], row["documents"], row["words_per_document"]) for row in made] == [(2, 2, 3.0)]
    shown = berds("experiment", "-q", "./cats", "-r", "bm25", "-m", "pRecall@1", "--json").stdout
    assert json.loads(shown)[0]["n"] == 1
