"""Whole builds: from raw rows to a folder that loads; killed, resumed, and rehearsed."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter

import pytest
from chat_server import SECRET, Scheduled, chat_server
from debater import TOPICS, Debater, asks, labelled, says, write_arguments

import berdslib as bd
from berdslib.construction.build import EXCHANGES, FAILED_FILE, REJECTED, UNANSWERED_FILE, build, rehearse
from berdslib.construction.review import read_sources
from berdslib.data.saved import read_card
from berdslib.data.tables import read_jsonl
from berdslib.errors import InputError
from berdslib.llm.chat import Reply, UnavailableError, UnreadError
from berdslib.llm.prompting import TASKS, import_prompt


@pytest.fixture
def arguments(tmp_path):
    return write_arguments(tmp_path / "arguments.jsonl")


def test_a_build_from_arguments(arguments, tmp_path):
    built = build("arguana", arguments, tmp_path / "set", Debater(), licence="CC0-1.0", source="made up", title="Bans")
    assert built.counts.values.tolist() == [
        ["read", 9, 0, 1, 0],
        ["question", 8, 8, 0, 0],
        ["statements", 8, 8, 0, 0],
        ["checks", 8, 8, 0, 0],
        ["labels", 8, 8, 0, 0],
    ]
    loaded = bd.load(tmp_path / "set", split="all")
    assert loaded.questions == built.collection.questions
    zoos = next(q for q in loaded.questions if q.qid == "zoos-pro01")
    assert (zoos.text, zoos.perspectives, zoos.stances) == (asks("zoos"), says("zoos"), ("support", "oppose"))
    assert Counter(q.split for q in loaded.questions) == {"dev": 2, "test": 6}
    assert read_sources(tmp_path / "set" / "questions.jsonl")["zoos-pro01"] == ("zoos are good.", "zoos are bad.")
    card = read_card(tmp_path / "set")
    assert (card["title"], card["licence"], card["made"]["items"], card["made"]["answers"]) == (
        "Bans",
        "CC0-1.0",
        8,
        "debater",
    )
    assert [row["reason"] for _, row in read_jsonl(tmp_path / "set" / REJECTED)] == ["no counter-argument"]


def test_every_fault_is_kept_with_its_reason(arguments, tmp_path):
    model = Debater(
        faults={
            ("zoos", "question"): "Isn't it obvious that zoos must go?",
            ("trams", "statements"): "I would rather not.",
            ("phones", "statements"): "statement: Keep phones out.\nnegation: Keep phones out.",
            ("uniforms", "question"): "once",
            ("circuses", "labels"): "Neither.",
            ("lotteries", "question"): asks("airports"),
            ("lotteries", "statements"): labelled("airports"),
        }
    )
    built = build("arguana", arguments, tmp_path / "set", model)
    found = {r.draft.key: (r.step, r.reason) for r in built.rejected}
    assert found["lotteries-pro01"] == ("checks", "asked twice") and built.rejected[-1].detail == "as 'airports-pro01'"
    assert found["zoos-pro01"] == ("checks", "leading")
    assert found["trams-pro01"] == ("statements", "unreadable answer")
    assert found["phones-pro01"][0] == "checks"
    assert set(found) == {f"{topic}-pro01" for topic in ("lone", "zoos", "trams", "phones", "lotteries")}
    by_qid = {q.qid: q for q in built.collection.questions}
    assert by_qid["uniforms-pro01"].text == asks("uniforms")  # asked again, it was readable
    assert by_qid["circuses-pro01"].stances == ("support", "oppose")  # as made: the label was no answer
    rows = {row["key"]: row for _, row in read_jsonl(tmp_path / "set" / REJECTED)}
    assert rows["zoos-pro01"]["question"] == "Isn't it obvious that zoos must go?"


@pytest.mark.parametrize("finish", ["content_filter", "refusal"])
def test_an_item_that_is_filtered_is_left_out_and_not_asked_again(arguments, tmp_path, finish):
    model = Debater(faults={("zoos", "question"): Reply("I cannot help.", finish=finish)})
    built = build("arguana", arguments, tmp_path / "set", model)
    assert {r.draft.key: (r.step, r.reason) for r in built.rejected}["zoos-pro01"] == ("question", "refused")
    assert len(built.collection.questions) == 7 and set(model.asked.values()) == {1}


def test_a_model_that_only_thinks_is_not_asked_to_the_end(arguments, tmp_path):
    faults = {(topic, step): Reply("", finish="length") for topic in TOPICS for step in ("question", "statements")}
    model = Debater(faults=faults)
    with pytest.raises(UnreadError):
        build("arguana", arguments, tmp_path / "set", model, workers=1)
    assert sum(model.asked.values()) == 5


def test_a_second_run_asks_only_what_was_not_answered(arguments, tmp_path):
    faults = dict.fromkeys([("zoos", "question"), ("tuitions", "labels")], UnavailableError("503"))
    gone = Debater(faults=faults)
    first = build("arguana", arguments, tmp_path / "set", gone)
    assert sorted(r.draft.key for r in first.unanswered) == ["tuitions-pro01", "zoos-pro01"]
    assert len(list(read_jsonl(tmp_path / "set" / UNANSWERED_FILE))) == 2
    back = Debater()
    second = build("arguana", arguments, tmp_path / "set", back)
    assert sum(back.asked.values()) == 4  # zoos: three steps; tuitions: the label
    assert not second.unanswered
    assert len(second.collection.questions) == 8
    third = Debater()
    again = build("arguana", arguments, tmp_path / "set", third)
    assert not third.asked
    assert again.collection.questions == second.collection.questions


def test_a_rehearsal_asks_nothing_and_counts_what_a_build_asks(arguments, tmp_path):
    model = Debater()
    table = rehearse("arguana", arguments, tmp_path / "set", model)
    assert not model.asked
    assert not (tmp_path / "set").exists()
    assert table["step"].tolist() == ["question", "statements", "labels", "all"]
    assert table["to_ask"].tolist() == [8, 8, 8, 24]
    build("arguana", arguments, tmp_path / "set", model)
    asked = [row["messages"] for _, row in read_jsonl(tmp_path / "set" / EXCHANGES)]
    told = table["most_prompt_tokens"].tolist()
    # No prompt of the first step depends on an answer; later ones hold answers of usual length.
    assert told[0] == _bytes_of(messages for messages in asked if "stand two arguments" in messages[1]["content"])
    assert told[-1] == sum(told[:-1]) == pytest.approx(_bytes_of(asked), rel=0.25)
    again = rehearse("arguana", arguments, tmp_path / "set", model)
    assert again.iloc[-1].tolist() == ["all", 24, 0, 0]
    with pytest.raises(InputError):  # rules ask nobody
        rehearse("arguana", arguments, tmp_path / "set", "rule")


def _bytes_of(conversations):
    return sum(len(message["content"].encode()) for messages in conversations for message in messages)


def test_a_list_of_questions_by_rule(tmp_path):
    (tmp_path / "my.txt").write_text("Should zoos close?\nWill trams help?\nWhat is best?\nShould zoos  close?\n")
    built = bd.build("questions", tmp_path / "my.txt", tmp_path / "set")
    assert [(q.qid, q.perspectives) for q in built.collection.questions] == [
        ("my-1", ("Zoos should close.", "Zoos should not close.")),
        ("my-2", ("Trams will help.", "Trams will not help.")),
    ]
    left_out = {(r.reason, r.draft.question) for r in built.rejected}
    assert left_out == {("no rule", "What is best?"), ("asked twice", "Should zoos close?")}
    assert {q.split for q in built.collection.questions} == {""}
    assert read_card(tmp_path / "set")["made"]["answers"] == "rule"


def test_two_builds_in_one_folder_at_once(arguments, tmp_path):
    model = Debater()
    complete, inner = model.complete, []

    def while_another_starts(messages):
        if not inner:
            with pytest.raises(InputError):
                build("arguana", arguments, tmp_path / "set", Debater("second"))
            inner.append(True)
        return complete(messages)

    model.complete = while_another_starts
    assert build("arguana", arguments, tmp_path / "set", model, workers=1).collection.questions
    assert inner


def test_a_failed_build_leaves_the_finished_one(tmp_path):
    raw = tmp_path / "my.txt"
    raw.write_text("Should zoos close?\n")
    build("questions", raw, tmp_path / "set", passages=[bd.Passage("d1", "Zoos.")])
    finished = {p.name: p.read_bytes() for p in (tmp_path / "set").iterdir()}
    raw.write_text("What is best?\n")
    with pytest.raises(InputError):
        build("questions", raw, tmp_path / "set")
    after = {p.name: p.read_bytes() for p in (tmp_path / "set").iterdir()}
    assert finished.items() <= after.items()
    twice = [bd.Passage("d1", "A."), bd.Passage("d1", "B.")]
    with pytest.raises(InputError, match="'d1'"):
        build("questions", raw, tmp_path / "set", passages=twice)
    raw.write_text("Should zoos close?\n")
    assert (tmp_path / "set" / FAILED_FILE).exists()
    build("questions", raw, tmp_path / "set")
    assert not (tmp_path / "set" / FAILED_FILE).exists()


def test_a_corpus_of_an_earlier_build_is_no_part_of_a_later_one(tmp_path):
    (tmp_path / "my.txt").write_text("Should zoos close?\n")
    build("questions", tmp_path / "my.txt", tmp_path / "set", passages=[bd.Passage("d1", "Zoos.")])
    assert len(bd.load(tmp_path / "set").passages) == 1
    build("questions", tmp_path / "my.txt", tmp_path / "set")
    assert not bd.load(tmp_path / "set").passages
    assert (tmp_path / "set" / "corpus.jsonl").exists()  # but nothing is thrown away


def test_what_people_said_of_their_perspectives_stands(tmp_path):
    rows = [
        {"qid": "z", "question": "Should zoos close?", "perspectives": ["Zoos should stay.", "Zoos should close."],
         "stances": ["oppose", "support"], "split": "test"},
        {"qid": "t", "question": "Should trams go?", "perspectives": ["Trams should go.", "Trams should stay."],
         "split": "dev"},
        {"qid": "p", "question": "Which drink is best?", "perspectives": ["Tea is best.", "Milk is best."],
         "split": "dev"},
    ]  # fmt: skip
    (tmp_path / "my.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = Debater()
    model.complete = lambda _: Reply("1")
    built = build("questions", tmp_path / "my.jsonl", tmp_path / "set", model)
    assert {q.qid: (q.stances, q.split) for q in built.collection.questions} == {
        "z": (("oppose", "support"), "test"),
        "t": (("support", "oppose"), "dev"),
        "p": ((None, None), "dev"),
    }


SCHEDULE = ["ok", "slow", 429, "ok", "html", "ok", 500, "truncated"]
SCHEDULE += ["ok", "length", "ok", "empty", "cut", "ok", "untold"]
WORKERS = 3
COMMAND = "from berdslib.llm import chat; chat._FIRST_WAIT = 0.01; from berdslib.cli import main; main()"


class DebatingServer(Scheduled):
    """Answers what a debater says, and remembers every conversation that it was sent."""

    def __init__(self, schedule):
        super().__init__(schedule, says=lambda _: Debater().complete(self.body.messages).text)
        self.body, self.conversations, self.schedule = threading.local(), [], map(self.mild, self.schedule)

    def mild(self, outcome):
        """An answer that is sent back is readable the second time: what comes of the build is then known."""
        sent_back = any(message["role"] == "assistant" for message in self.body.messages)
        return "ok" if sent_back and outcome in ("length", "empty") else outcome

    def __call__(self, body):
        self.body.messages = body["messages"]
        self.conversations.append(json.dumps(body["messages"]))
        return super().__call__(body)


def recorded_in(folder):
    """The conversations that whole lines of the record answer."""
    path = folder / EXCHANGES
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return {json.dumps(json.loads(line)["messages"]) for line in lines}


@pytest.mark.slow
def test_a_build_that_is_killed_five_times(tmp_path):
    raw, folder = write_arguments(tmp_path / "arguments.jsonl"), tmp_path / "set"
    debating = DebatingServer(SCHEDULE)

    def run(moment, at):
        """Run the command; at the moment, "before" or "after" its so many-th request, the process is killed."""
        command = ["-c", COMMAND, "build", "arguana", raw, folder, "--model", "some-model", "--workers", WORKERS]
        start = len(debating.asked)
        variables = {**os.environ, "OPENAI_API_KEY": SECRET, "BERDS_CHAT_URL": url}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen([sys.executable, *map(str, command)], env=variables, **pipes)
        if moment:
            setattr(debating, moment, lambda number: process.kill() if number >= start + at else None)
        said = process.communicate(timeout=180)[1]
        debating.before = debating.after = lambda number: None
        return process.returncode, said, debating.conversations[start:]

    with chat_server() as server:
        server.script = [debating]
        url = f"http://127.0.0.1:{server.server_port}/v1"
        for moment, at in [("before", 1), ("after", 1), ("before", 6), ("after", 5), ("after", 8), ("", 0)]:
            kept = recorded_in(folder)
            code, said, asked = run(moment, at)
            assert not kept & set(asked)  # nothing is asked twice once it is written down
            assert kept <= recorded_in(folder)
            if moment:
                assert code == -signal.SIGKILL, said
                # At most the answers under way are lost.
                assert len(set(asked) - recorded_in(folder)) <= WORKERS
        while "run the same command again" in said:  # what the endpoint could not answer is asked in the next run
            code, said, _ = run("", 0)
        assert code == 0, said
        assert run("", 0)[2] == []
    held = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert len(held) > 3000 and SECRET.encode() not in held
    whole = build("arguana", raw, tmp_path / "whole", Debater(), name="set")
    assert (folder / "questions.jsonl").read_bytes() == (whole.folder / "questions.jsonl").read_bytes()


# ---------------------------------------------------------------- stances of questions that are there


def told_of(rows, path):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


ANSWERS = {"zoos": "2", "trams": "1", "phones": "Both do.", "lotteries": UnavailableError("503")}


class Sides(Debater):
    """Says which of two perspectives supports, by the topic, and counts what it is asked."""

    def complete(self, messages):
        topic = next(t for t in ANSWERS if any(asks(t) in m["content"] for m in messages))
        self.asked[topic] += 1
        if isinstance(ANSWERS[topic], Exception):
            raise ANSWERS[topic]
        return Reply(ANSWERS[topic])


def test_stances_of_questions_that_others_made(tmp_path):
    rows = [{"qid": t, "question": asks(t), "perspectives": says(t), "split": "test"} for t in (*ANSWERS, "airports")]
    rows[-1]["stances"] = ["oppose", "support"]
    rows.append({"qid": "drinks", "question": "Which is best?", "perspectives": ["Tea.", "Milk.", "Water."]})
    # Not as a build would have them, and they stay: no question, and twice the same.
    rows.append({"qid": "odd", "question": "Zoos.", "perspectives": ["Close.", "Close."], "stances": [None, "oppose"]})
    model = Sides()
    built = build("stances", told_of(rows, tmp_path / "set.jsonl"), tmp_path / "sided", model)
    found = {q.qid: q.stances for q in bd.load(tmp_path / "sided").questions}
    assert found == {
        "zoos": ("oppose", "support"),
        "trams": ("support", "oppose"),
        "airports": ("oppose", "support"),
        "drinks": (None, None, None),
        "odd": (None, "oppose"),
    }
    assert built.counts.values.tolist() == [["read", 7, 0, 0, 0], ["stances", 7, 4, 1, 1]]
    assert [(r.draft.key, r.reason) for r in built.rejected] == [("phones", "unreadable answer")]
    assert [r.draft.key for r in built.unanswered] == ["lotteries"]
    assert model.asked == {"zoos": 1, "trams": 1, "phones": 2, "lotteries": 1}
    again = Sides()
    build("stances", tmp_path / "set.jsonl", tmp_path / "sided", again)
    assert set(again.asked) == {"lotteries"}  # all else is recorded
    table = rehearse("stances", tmp_path / "set.jsonl", tmp_path / "fresh", Sides())
    assert table["to_ask"].tolist() == [4, 4]


def test_stances_of_data_sets_by_name(tmp_path, monkeypatch):
    """Of all that are named, in the split that is asked for; a rule knows the statements that it would make."""
    rows = [{"qid": t, "question": asks(t), "perspectives": says(t)} for t in ("zoos", "trams")]
    told_of(rows, tmp_path / "mine.jsonl")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):  # nobody knows, by rule, who says that it is right
        build("stances", "mine.jsonl", "sided")
    rows[0]["perspectives"] = ["Zoos should not be closed for good.", "Zoos should be closed for good."]
    told_of(rows, tmp_path / "mine.jsonl")
    built = build("stances", "mine.jsonl,sample", "sided", split="all")
    assert built.collection.questions[0].stances == ("oppose", "support")
    sample = bd.load("sample", split="all").questions
    theirs = {q.qid: (q.stances, q.split) for q in built.collection.questions[1:]}
    assert theirs == {q.qid: (q.stances, q.split) for q in sample}
    assert {q.split for q in build("stances", "sample", "dev", split="dev").collection.questions} == {"dev"}
    with pytest.raises(InputError) as wrong:
        build("questions", "mine.jsonl", "other", split="dev")
    assert wrong.value.field == "split"


def test_stances_in_the_papers_words(tmp_path, user_cache, papers):
    """Table 15, as the paper prints it: what it asks for is read."""
    printed = (papers / "berds_paper_v2.txt").read_text(encoding="utf-8")
    start = printed.index("Question: [Question] Perspective 1: [P1]")
    (tmp_path / "15.txt").write_text(printed[start : printed.index("\n", start)].rstrip(" |"))
    import_prompt("supporting_side", tmp_path / "15.txt", TASKS["supporting_side"])
    model, seen = Debater(), []
    model.complete = lambda messages: seen.append(messages[-1]["content"]) or Reply("Perspective 2")
    rows = [{"qid": "zoos", "question": asks("zoos"), "perspectives": says("zoos")}]
    raw = told_of(rows, tmp_path / "set.jsonl")
    built = build("stances", raw, tmp_path / "sided", model, wording="published")
    assert built.collection.questions[0].stances == ("oppose", "support")
    assert "which perspective is supporting" in seen[0] and all(text in seen[0] for text in says("zoos"))
