"""Whole builds: from raw rows to a folder that loads; broken off, resumed, rehearsed, and held to a budget."""

import json
from collections import Counter

import pytest
from debater import TOPICS, Debater, asks, labelled, plainly, says, write_arguments

import berdslib as bd
from berdslib.construction.build import EXCHANGES, FAILED, REJECTED, UNANSWERED, build, reasons, rehearse
from berdslib.construction.review import read_sources
from berdslib.data.leaks import across_splits, leaks
from berdslib.data.own import read_card, validate
from berdslib.data.tables import read_jsonl
from berdslib.errors import InputError
from berdslib.llm.budget import BudgetError
from berdslib.llm.chat import Reply, UnavailableError


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
    assert (card.title, card.licence, card.made["items"], card.made["answers"]) == ("Bans", "CC0-1.0", 8, "debater")
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
    assert {reason for _, reason in found.values()} <= set(reasons("arguana"))
    by_qid = {q.qid: q for q in built.collection.questions}
    assert by_qid["uniforms-pro01"].text == asks("uniforms")  # asked again, it was readable
    assert by_qid["circuses-pro01"].stances == ("support", "oppose")  # as made: the label was no answer
    rows = {row["key"]: row for _, row in read_jsonl(tmp_path / "set" / REJECTED)}
    assert rows["zoos-pro01"]["question"] == "Isn't it obvious that zoos must go?"


def test_a_second_run_asks_only_what_was_not_answered(arguments, tmp_path):
    faults = dict.fromkeys([("zoos", "question"), ("tuitions", "labels")], UnavailableError("503"))
    gone = Debater(faults=faults)
    first = build("arguana", arguments, tmp_path / "set", gone)
    assert sorted(r.draft.key for r in first.unanswered) == ["tuitions-pro01", "zoos-pro01"]
    assert len(list(read_jsonl(tmp_path / "set" / UNANSWERED))) == 2
    back = Debater()
    second = build("arguana", arguments, tmp_path / "set", back)
    assert sum(back.asked.values()) == 4  # zoos: three steps; tuitions: the label
    assert not second.unanswered
    assert len(second.collection.questions) == 8
    third = Debater()
    again = build("arguana", arguments, tmp_path / "set", third)
    assert not third.asked
    assert again.collection.questions == second.collection.questions


def test_a_budget_stops_before_it_is_passed_and_holds_over_runs(arguments, tmp_path):
    prices = (10.0, 100.0)
    whole = build("arguana", arguments, tmp_path / "whole", Debater(), name="set", prices=prices)
    cost = _spent(tmp_path / "whole", prices)
    assert whole.counts["asked"].sum() > 20
    for _ in range(3):
        with pytest.raises(BudgetError, match="raise the limit"):
            build("arguana", arguments, tmp_path / "set", Debater(), prices=prices, budget=cost / 2)
        assert _spent(tmp_path / "set", prices) <= cost / 2
    finished = build("arguana", arguments, tmp_path / "set", Debater(), prices=prices, budget=cost * 2)
    assert finished.spent == pytest.approx(cost)
    assert finished.collection.questions == whole.collection.questions
    assert _spent(tmp_path / "set", prices) == pytest.approx(cost)


def _spent(folder, prices):
    rows = [row["usage"] for _, row in read_jsonl(folder / EXCHANGES)]
    return sum(u["prompt_tokens"] * prices[0] + u["completion_tokens"] * prices[1] for u in rows) / 1e6


def test_a_rehearsal_asks_nothing_and_foretells_the_cost(arguments, tmp_path):
    prices, model = (10.0, 100.0), Debater()
    table = rehearse("arguana", arguments, tmp_path / "set", model, prices=prices)
    assert not model.asked
    assert not (tmp_path / "set").exists()
    assert table["step"].tolist() == ["question", "statements", "labels", "all"]
    assert table["to_ask"].tolist() == [8, 8, 8, 24]
    build("arguana", arguments, tmp_path / "set", model, prices=prices)
    cost, told = _spent(tmp_path / "set", prices), table.iloc[-1]
    assert told["likely_cost"] == pytest.approx(cost, rel=0.25)
    assert cost < told["most_cost"]
    again = rehearse("arguana", arguments, tmp_path / "set", model, prices=prices)
    assert again.iloc[-1][["recorded", "to_ask", "likely_cost"]].tolist() == [24, 0, 0.0]
    with pytest.raises(InputError, match="ask nobody"):
        rehearse("arguana", arguments, tmp_path / "set", "rule")


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
    assert read_card(tmp_path / "set").made["answers"] == "rule"


def test_leaking_questions_share_a_split(tmp_path):
    rows = [
        {"qid": f"{topic}{twin}", "question": f"{text}: {TOPICS[topic]}?", "perspectives": plainly(topic)}
        for topic in TOPICS
        for twin, text in (("a", "Right or wrong"), ("b", "What would follow from this"))
    ]
    (tmp_path / "my.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for seed in range(5):
        built = bd.build("questions", tmp_path / "my.jsonl", tmp_path / f"set{seed}", dev=0.25, seed=seed)
        questions = built.collection.questions
        assert not len(across_splits(leaks(questions)))
        assert sum(q.split == "dev" for q in questions) in (2, 4)


# ---------------------------------------------------------------- folders, options, what people gave


def test_another_source_needs_another_folder(arguments, tmp_path):
    (tmp_path / "my.txt").write_text("Should zoos close?\n")
    build("questions", tmp_path / "my.txt", tmp_path / "set")
    with pytest.raises(InputError, match=r"made from my\.txt by questions; name another folder"):
        build("arguana", arguments, tmp_path / "set", Debater())
    (tmp_path / "my.txt").write_text("Should zoos close?\nWill trams help?\n")  # a list that has grown
    assert len(build("questions", tmp_path / "my.txt", tmp_path / "set").collection.questions) == 2


def test_two_builds_in_one_folder_at_once(arguments, tmp_path):
    model = Debater()
    complete, inner = model.complete, []

    def while_another_starts(messages):
        if not inner:
            with pytest.raises(InputError, match="another build is under way"):
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
    with pytest.raises(InputError, match="nothing is left"):
        build("questions", raw, tmp_path / "set")
    after = {p.name: p.read_bytes() for p in (tmp_path / "set").iterdir()}
    assert finished.items() <= after.items()
    twice = [bd.Passage("d1", "A."), bd.Passage("d1", "B.")]
    with pytest.raises(InputError, match="'d1' occurs twice"):
        build("questions", raw, tmp_path / "set", passages=twice)
    raw.write_text("Should zoos close?\n")
    assert (tmp_path / "set" / FAILED).exists()
    build("questions", raw, tmp_path / "set")
    assert not (tmp_path / "set" / FAILED).exists()


def test_a_corpus_of_an_earlier_build_is_no_part_of_a_later_one(tmp_path):
    (tmp_path / "my.txt").write_text("Should zoos close?\n")
    build("questions", tmp_path / "my.txt", tmp_path / "set", passages=[bd.Passage("d1", "Zoos.")])
    assert len(bd.load(tmp_path / "set").passages) == 1
    build("questions", tmp_path / "my.txt", tmp_path / "set")
    assert not bd.load(tmp_path / "set").passages
    assert (tmp_path / "set" / "corpus.jsonl").exists()  # but nothing is thrown away
    assert ["corpus.jsonl is there" in one.problem for one in validate(tmp_path / "set")].count(True) == 1


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
