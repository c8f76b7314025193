"""Many questions at a time: in order, and what an error, a limit or an interrupt leaves behind."""

import _thread
import random
import re
import signal
import threading
import time
from concurrent.futures import as_completed

import pytest
from chat_server import chat_server, endpoint_at

from berdslib.errors import InputError
from berdslib.llm.answers import answer_of
from berdslib.llm.asking import Answer, ask_all, ask_until_end, read_all
from berdslib.llm.chat import ChatError, Reply, UnavailableError, UnreadError
from berdslib.llm.recorded import Recorded


@pytest.fixture(autouse=True)
def keyboard():
    """Heed the keyboard, which a process that a shell has put into the background is told to ignore."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, old)


def say(text):
    return [{"role": "user", "content": str(text)}]


class Model:
    """Answers after a moment with what it was asked; an error in `errors` comes instead."""

    id = "model"

    def __init__(self, errors=None, seconds=0.002):
        self.errors, self.seconds, self.asked, self.lock = errors or {}, seconds, [], threading.Lock()
        self.under_way = self.most = 0

    def complete(self, messages):
        text = messages[-1]["content"]
        with self.lock:
            self.asked.append(text)
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        time.sleep(self.seconds * random.random())
        with self.lock:
            self.under_way -= 1
        if text in self.errors:
            raise self.errors[text]
        return Reply(text.upper())


def test_a_model_that_takes_several_at_once_gets_them_and_one_that_is_bad_costs_itself_only(tmp_path):
    class Together(Model):
        together, groups = 4, []

        def complete_all(self, conversations):
            self.groups.append(len(conversations))
            return [self.complete(messages) for messages in conversations]

    model = Together({"q5": InputError("does not fit")})
    for _ in range(2):  # kept, the second time all but the bad one
        found = ask_all(Recorded(tmp_path / "said.jsonl", model), [say(f"q{i}") for i in range(10)], workers=1)
        assert [one.reply.text if one.reply else one.problem for one in found] == [
            "does not fit" if i == 5 else f"Q{i}" for i in range(10)
        ]
    assert model.groups == [4, 4, 2, 1]
    assert Recorded(tmp_path / "said.jsonl", model_id="model").complete(say("q9")).text == "Q9"


@pytest.mark.parametrize("workers", [1, 4])
def test_answers_come_in_the_order_of_the_questions(workers):
    model = Model()
    found = ask_all(model, [say(f"q{i}") for i in range(60)], workers=workers)
    assert [one.reply.text for one in found] == [f"Q{i}" for i in range(60)]
    assert model.most == workers and {one.problem for one in found} == {""}
    assert ask_all(model, []) == []
    with pytest.raises(InputError, match="workers"):
        ask_all(model, [say("q0")], workers=0)


def test_a_model_that_is_gone_is_not_asked_to_the_end():
    everything = {f"q{i}": UnavailableError("nobody there") for i in range(500)}
    model = Model(everything)
    with pytest.raises(UnavailableError, match="nobody there"):
        ask_all(model, [say(text) for text in everything])
    assert 20 <= len(model.asked) < 60
    del everything["q10"], everything["q25"]  # with an answer in between it is not gone
    model = Model({text: everything[text] for text in list(everything)[:35]})
    assert sum(one.reply is None for one in ask_all(model, [say(f"q{i}") for i in range(60)], workers=1)) == 35


def test_one_that_cannot_be_reached_or_is_refused_is_that_ones_problem():
    errors = {"q3": UnreadError("content_filter", "refused"), "q5": UnavailableError("503"), "q7": InputError("half")}
    model = Model(errors)
    found = ask_all(model, [say(f"q{i}") for i in range(10)])
    assert [i for i, one in enumerate(found) if one.unread] == [3, 7] and found[5] == Answer(None, "503")
    assert [found[i].problem for i in (3, 7)] == ["content_filter", "half"]
    assert sum(one.reply is not None for one in found) == 7


def test_a_model_that_refuses_everything_at_first_is_not_asked_to_the_end():
    everything = {f"q{i}": UnreadError("no such parameter", "refused") for i in range(80)}
    model = Model(everything)
    with pytest.raises(UnreadError, match="no such parameter"):
        ask_all(model, [say(text) for text in everything])
    assert 5 <= len(model.asked) < 20
    for answered in ("q0", "q4"):  # one answer among the first five, and the rest are the questions' own problem
        others = {text: error for text, error in everything.items() if text != answered}
        found = ask_all(Model(others), [say(text) for text in everything], workers=1)
        assert [bool(one.unread) for one in found] == [text != answered for text in everything]
    assert all(one.unread for one in ask_all(model, [say(f"q{i}") for i in range(4)]))
    assert len(ask_all(model, [say(text) for text in everything], proven=True)) == 80


class Mumbling(Model):
    """Says nothing but where `says` has an answer."""

    def complete(self, messages):
        text = messages[-1]["content"]
        self.asked.append(text)
        if isinstance(said := self.errors.get(text, ""), Exception):
            raise said
        return Reply(said)


def test_answers_that_cannot_be_read_end_it_as_refusals_do_and_failures_in_between_do_not_hide_them():
    asked = [say(f"q{i}") for i in range(80)]
    for errors in ({}, {"q1": UnavailableError("busy"), "q2": UnreadError("filter", "refused")}):
        model = Mumbling(errors)
        answers, end = ask_until_end(model, asked, workers=1)
        assert isinstance(end, UnreadError) and len(model.asked) < 20 and len(answers) == 80
    answers, end = ask_until_end(Mumbling({"q3": "Yes"}), asked, workers=1)
    assert end is None and [i for i, one in enumerate(answers) if not one.unread] == [3] and answers[3].read == "Yes"
    unread = [Answer(Reply(""), "empty", "empty")] * 5
    model = Mumbling()
    assert isinstance(ask_until_end(model, asked, before=unread)[1], UnreadError) and not model.asked
    assert ask_until_end(Mumbling(), asked, proven=True, workers=1)[1] is None


def read_number(text):
    if not text.strip().isdigit():
        raise InputError("a number was expected")
    return int(text)


BAD = [
    UnreadError("400", "content filter"),
    InputError("too long"),
    Reply("nine"),
    Reply(""),
    Reply("", finish="length"),
    Reply("<think>3", finish="length"),
    Reply("9", finish="content_filter"),
    Reply("I cannot.", finish="refusal"),
    Reply("", finish="tool_calls"),
]


class Counting(Model):
    """Answers q7 with 7, as one that thinks does; says otherwise what `errors` has."""

    def complete(self, messages):
        text = messages[-1]["content"]
        self.asked.append(text)
        said = self.errors.get(text, Reply(f"<think>{text}?</think>{text[1:]}"))
        if isinstance(said, Exception):
            raise said
        return said


@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_read_is_left_out_and_counted_and_the_rest_is_kept(bad, caplog):
    asked = {f"q{i}": say(f"q{i}") for i in range(40)}
    found = read_all(Counting({"q3": bad, "q9": bad}), asked, read_number, what="question")
    assert found == {f"q{i}": i for i in range(40) if i not in (3, 9)}
    assert re.search("2 of 40", caplog.text) and "q3" in caplog.text and "q9" in caplog.text
    model = Counting(dict.fromkeys(asked, bad))
    with pytest.raises(UnreadError):
        read_all(model, asked, read_number, what="question")
    assert len(model.asked) < 10
    with pytest.raises(UnreadError):
        read_all(model, {"q1": asked["q1"]}, read_number, what="question")


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply("<think>No?</think>\n\nYes", finish="stop"), "Yes"),
        (Reply("No?</think>Yes"), "Yes"),
        (Reply("[THINK]No?[/THINK]Yes"), "Yes"),
        (Reply("<thought>No?</thought> Yes"), "Yes"),
        (Reply("<seed:think>No?</seed:think>Yes"), "Yes"),
        (Reply("<|channel|>analysis<|message|>No?<|end|><|start|>assistant<|channel|>final<|message|>Yes"), "Yes"),
        (Reply("Yes", finish="length"), "Yes"),
        (Reply("Yes", finish="tool_calls"), "Yes"),
        *((reply, None) for reply in (
            Reply(""), Reply(" \n"), Reply("", finish="length"), Reply("<think>No?", finish="length"),
            Reply("<think>No?</think>", finish="length"), Reply("Yes", finish="content_filter"),
            Reply("I cannot help.", finish="refusal"), Reply("", finish="tool_calls"), Reply("[THINK]No?"))),
    ],
)  # fmt: skip
def test_an_answer_is_what_comes_after_the_thoughts(reply, text):
    if text is not None:
        assert answer_of(reply).strip() == text
        return
    with pytest.raises(InputError) as caught:
        answer_of(reply)
    assert caught.value.reason


def test_a_refusal_shows_that_somebody_is_there():
    errors = {f"q{i}": UnavailableError("busy") for i in range(30)} | {"q15": UnreadError("content_filter", "refused")}
    assert not any(one.reply for one in ask_all(Model(errors), [say(f"q{i}") for i in range(30)], workers=1))


def test_a_record_that_cannot_be_written_is_not_the_questions_fault(tmp_path):
    recording = Recorded(tmp_path / "said.jsonl", Model())
    (tmp_path / "said.jsonl").mkdir()
    with pytest.raises(InputError, match=r"said\.jsonl"):
        ask_all(recording, [say(f"q{i}") for i in range(3)])


@pytest.mark.slow
@pytest.mark.parametrize("way", ["interrupt", "refused"])
@pytest.mark.parametrize("failure", [(503, {}, {}), (429, {"Retry-After": "40"}, {}), (200, {}, b"<html>")])
def test_after_the_end_nothing_waits_and_nothing_is_tried_again(monkeypatch, way, failure):
    def step(body):
        if body["messages"][-1]["content"] != "the end":
            return failure
        time.sleep(0.5)  # the others have failed and wait by now
        ended.append((time.monotonic(), len(server.seen)))
        if way == "interrupt":
            _thread.interrupt_main()
        return 404, {}, {"error": {"message": "no such model"}}

    ended = []
    with chat_server() as server:
        server.script = [step]
        model = endpoint_at(server, monkeypatch)()
        monkeypatch.setattr("berdslib.llm.chat._FIRST_WAIT", 20.0)
        with pytest.raises(KeyboardInterrupt if way == "interrupt" else ChatError):
            ask_all(model, [say(text) for text in ("q0", "q1", "q2", "the end", "q3")], workers=4)
        left, sent = time.monotonic(), len(server.seen)
    assert left - ended[0][0] < 3 and sent == ended[0][1] == 4


@pytest.mark.parametrize("error", [ChatError("status 401"), ValueError("a bug")])
def test_after_an_error_nothing_new_is_sent_and_what_is_under_way_is_recorded(tmp_path, monkeypatch, error):
    class Held(Model):
        """The first three take longer than the error."""

        def complete(self, messages):
            text = messages[-1]["content"]
            self.asked.append(text)
            if text == "q3":
                raise error
            time.sleep(0.2 if text in ("q0", "q1", "q2") else 0)
            return Reply(text.upper())

    def looked_at_late(asked):  # the workers must not need anyone to stop them
        for one in as_completed(asked):
            time.sleep(0.1)
            yield one

    monkeypatch.setattr("berdslib.llm.asking.as_completed", looked_at_late)
    model = Held()
    with pytest.raises(type(error), match=str(error)):
        ask_all(Recorded(tmp_path / "said.jsonl", model), [say(f"q{i}") for i in range(200)], workers=4)
    assert sorted(model.asked) == ["q0", "q1", "q2", "q3"]
    recorded = Recorded(tmp_path / "said.jsonl")
    assert [recorded.complete(say(f"q{i}")).text for i in range(3)] == ["Q0", "Q1", "Q2"]


def test_an_interrupt_from_the_keyboard_ends_it_and_loses_nothing(tmp_path):
    class Interrupting(Model):
        def complete(self, messages):
            if messages[-1]["content"] == "q5":
                time.sleep(0.5)  # all is in the queue: Python's own pool may lock up when it is interrupted as it takes
                _thread.interrupt_main()
                time.sleep(0.3)
            return super().complete(messages)

    model = Interrupting(seconds=0.02)
    with pytest.raises(KeyboardInterrupt):
        ask_all(Recorded(tmp_path / "said.jsonl", model), [say(f"q{i}") for i in range(500)])
    assert "q5" in model.asked and len(model.asked) < 200
    recorded = Recorded(tmp_path / "said.jsonl")
    assert [recorded.complete(say(text)).text for text in model.asked] == [text.upper() for text in model.asked]
