"""The front door: import berdslib as bd; search, judge, evaluate, register, names."""

import os
import re
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import berdslib as bd
from berdslib.data.catalogue import DATASETS
from berdslib.judging.baselines import Overlap
from berdslib.judging.registry import JUDGES
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.retrieval.bm25 import BM25
from berdslib.retrieval.retrievers import RETRIEVERS

QUESTIONS = [
    bd.Question("q", "Cats?", ("Cats purr.", "Cats bite.")),
    bd.Question("p", "Dogs?", ("Dogs bark loudly.",)),
]
PASSAGES = [bd.Passage("a", "Cats purr."), bd.Passage("b", "Cats bite."), bd.Passage("c", "Dogs bark loudly.")]
GOLD = pd.DataFrame({"qid": ["q", "q", "p"], "pid": [0, 1, 0], "docno": ["a", "b", "c"], "p_yes": 1.0})
PETS = bd.Collection("pets", QUESTIONS, PASSAGES, GOLD)


@pytest.fixture(autouse=True)
def own_places(user_cache, monkeypatch):
    """A cache of the test's own; names that it adds are gone after it."""
    for registry in (RETRIEVERS, JUDGES, DATASETS):
        monkeypatch.setattr(registry, "_things", dict(registry))


# ---------------------------------------------------------------- search, judge, evaluate


def test_search_is_what_the_retriever_finds():
    run = bd.search("bm25", PETS, 2)
    pd.testing.assert_frame_equal(run, BM25(PASSAGES).search(QUESTIONS, 2))
    pd.testing.assert_frame_equal(bd.search(BM25(PASSAGES), PETS, 2), run)
    assert bd.search("bm25", PETS.only(QUESTIONS[:1]), 1)["docno"].tolist() == ["a"]


def test_search_from_every_perspective_too():
    run = bd.search("bm25", PETS, 1, perspectives=True)
    assert dict(zip(run["qid"], run["docno"], strict=True)) == {"q": "a", "q#0": "a", "q#1": "b", "p": "c", "p#0": "c"}
    plain = bd.search("bm25", PETS, 1)
    assert run[run["qid"].isin(["q", "p"])][["qid", "docno"]].values.tolist() == plain[["qid", "docno"]].values.tolist()


def test_a_judge_says_of_the_first_passages_which_perspectives_they_support(tmp_path):
    run = pd.DataFrame({"qid": ["q", "q", "q", "p"], "docno": ["a", "b", "c", "c"], "score": [3.0, 2.0, 1.0, 1.0]})
    store = VerdictStore(tmp_path / "v.sqlite")
    verdicts = bd.judge(run, PETS, "overlap", k=2, store=store)
    asked = list(verdicts[["qid", "pid", "docno"]].itertuples(index=False, name=None))
    assert asked == [("p", 0, "c"), ("q", 0, "a"), ("q", 0, "b"), ("q", 1, "a"), ("q", 1, "b")]
    assert len(store) == 5
    text, statement = {p.docno: p for p in PASSAGES}, {q.qid: q.perspectives for q in QUESTIONS}
    from berdslib.judging.base import Pair

    pairs = [Pair(qid, pid, text[docno], statement[qid][pid]) for qid, pid, docno in asked]
    np.testing.assert_array_equal(verdicts["p_yes"], judge_pairs(Overlap(), pairs)[0])
    assert (verdicts["judge"] == Overlap().id).all()


def test_a_function_judges_and_its_verdicts_are_never_kept(tmp_path):
    asked, store = [], VerdictStore(tmp_path / "v.sqlite")

    def cats(pairs):
        asked.extend(pairs)
        return np.array([p.passage.text.startswith("Cats") for p in pairs], dtype=float)

    run = bd.search("bm25", PETS, 2)
    first, second = (bd.judge(run, PETS, cats, k=1, store=store) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)
    assert set(first["judge"]) == {"cats"} and len(asked) == 2 * len(first) and len(store) == 0


@pytest.mark.parametrize("data", [PETS, QUESTIONS, tuple(QUESTIONS)])
def test_a_run_is_scored_by_hand(data):
    run = pd.DataFrame({"qid": ["q", "q"], "docno": ["a", "c"], "rank": [1, 2]})
    scores = bd.evaluate(run, GOLD, data, [bd.MRecall @ 2, "Precision@2", bd.Coverage @ 1])
    assert scores.index.tolist() == ["q", "p"]
    assert scores.values.tolist() == [[0.0, 0.5, 0.5], [0.0, 0.0, 0.0]]
    assert bd.evaluate(run, GOLD, data).columns.tolist() == ["MRecall@5", "Precision@5"]


@pytest.mark.parametrize("data", [PETS, QUESTIONS])
def test_a_question_with_one_perspective_is_told(data, caplog):
    run = bd.search("bm25", PETS, 1)
    bd.evaluate(run, GOLD.assign(judge="gold"), data, "Precision@1")
    assert not caplog.records
    bd.evaluate(run, GOLD.assign(judge="gold"), data, "MRecall@1")
    told = ["1 of 2 questions have a single perspective, where MRecall amounts to a hit rate"]
    assert [record.getMessage() for record in caplog.records] == told


def test_the_steps_one_by_one_are_an_experiment():
    result = bd.experiment("bm25", PETS, "MRecall@2", judge="overlap")
    run = bd.search("bm25", PETS, 2)
    verdicts = bd.judge(run, PETS, "overlap", k=2)
    pd.testing.assert_frame_equal(result.runs["bm25"], run)
    pd.testing.assert_frame_equal(result.verdicts, verdicts)
    pd.testing.assert_frame_equal(result.scores["bm25"], bd.evaluate(run, verdicts, PETS, "MRecall@2"))


def test_a_run_file_of_anybody(tmp_path):
    (tmp_path / "run.txt").write_text("q Q0 b 1 2.5 theirs\nq Q0 a 2 1.5 theirs\n", encoding="utf-8")
    run = bd.read_run(tmp_path / "run.txt")
    assert run[["qid", "docno", "rank"]].values.tolist() == [["q", "b", 1], ["q", "a", 2]]
    assert bd.evaluate(run, GOLD, PETS, "MRecall@2")["MRecall@2"].tolist() == [1.0, 0.0]


# ---------------------------------------------------------------- names of one's own


class Last:
    """Lists the last passages first."""

    def __init__(self, passages, *, first=""):
        self.docnos = sorted((p.docno for p in passages), reverse=True)
        self.docnos.sort(key=lambda docno: docno != first)

    def search(self, questions, k):
        rows = [(q.qid, docno, -float(i)) for q in questions for i, docno in enumerate(self.docnos[:k])]
        return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def test_a_retriever_of_ones_own_is_named_in_chains():
    bd.register("retriever", "last", Last)
    assert "last" in bd.names("retriever")
    assert bd.search("last", PETS, 2)["docno"].tolist() == ["c", "b", "c", "b"]
    chained = bd.search("last+expand:rule+cover:1", PETS, 2, depth=2)
    assert chained["docno"].tolist() == ["c", "b", "c", "b"]
    result = bd.experiment(["last", "bm25"], [PETS, other_pets()], "MRecall@2")  # over each corpus anew
    assert result.runs["last"].groupby("qid")["docno"].agg(list).to_dict() == {
        "q": ["c", "b"], "p": ["c", "b"], "w": ["z", "y"],
    }  # fmt: skip
    bd.register("retriever", "last", lambda passages: Last(passages[:1]))
    assert bd.search("last", PETS, 2)["docno"].tolist() == ["a", "a"]


def other_pets():
    asked = [bd.Question("w", "Cows?", ("Cows moo.",), source="cows")]
    verdicts = pd.DataFrame({"qid": ["w"], "pid": [0], "docno": ["y"], "supports": [True]})
    return bd.Collection("cows", asked, [bd.Passage("y", "Cows moo."), bd.Passage("z", "Cows eat.")], verdicts)


def test_judges_of_ones_own_are_named(tmp_path):
    class Never:
        id, threshold = "never-1", 0.5

        def p_yes(self, pairs):
            return np.zeros(len(pairs))

    bd.register("judge", "never", Never)
    bd.register("judge", "always", lambda: lambda pairs: [1.0] * len(pairs))
    assert {"never", "always"} <= set(bd.names("judge"))
    run = bd.search("bm25", PETS, 1)
    for name, called, share in (("never", "never-1", 0.0), ("always", "always", 1.0)):
        verdicts = bd.judge(run, PETS, name, k=1)
        assert set(verdicts["judge"]) == {called} and verdicts["supports"].mean() == share
    store = VerdictStore(tmp_path / "v.sqlite")
    both = bd.judge(run, PETS, "overlap+always", k=1, store=store)
    assert both["judge"].str.startswith("committee(2 judges").all() and (both["p_yes"] >= 0.5).all()
    assert len(store) == len(verdicts) == 3  # of overlap; nothing tells the next version of a function apart
    bd.judge(run, PETS, "overlap+random", k=1, store=store)
    assert len(store) == 2 * len(verdicts)  # and of random: members keep their own verdicts


def test_a_data_set_of_ones_own_is_named_everywhere():
    bd.register("dataset", "pets", lambda: PETS)
    assert "pets" in bd.names("dataset")
    by_name, by_hand = (bd.experiment("bm25", data, "MRecall@2").table for data in ("pets", PETS))
    pd.testing.assert_frame_equal(by_name, by_hand)
    pd.testing.assert_frame_equal(bd.search("bm25", "pets", 1), bd.search("bm25", PETS, 1))
    run = bd.search("bm25", "pets", 1)
    assert bd.evaluate(run, GOLD, "pets").index.tolist() == bd.judge(run, "pets", None).groupby(
        "qid", sort=False).size().index.tolist()[::-1]  # fmt: skip
    bd.register("dataset", "pets", lambda: PETS.only(QUESTIONS[:1]))
    assert len(bd.load("pets").questions) == 1


# ---------------------------------------------------------------- the package itself


def python(code):
    root = str(Path(bd.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip


@pytest.mark.slow
def test_importing_the_package_loads_nothing_heavy():
    done = python("""
        import sys
        import berdslib as bd
        heavy = {"pandas", "numpy", "torch", "scipy", "transformers", "ir_measures", "click", "sqlite3"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
        assert {"load", "experiment", "MRecall"} <= set(dir(bd))
        assert not heavy & set(sys.modules), "dir() loads something"
        bd.Question("q", "Cats?")
        assert "torch" not in sys.modules and "transformers" not in sys.modules
    """)
    assert done.returncode == 0, done.stderr


FRONT_DOOR = {
    "Collection", "Coverage", "ERR_IA", "Experiment", "InputError", "MRecall", "MissingDataError", "P", "Passage",
    "Precision", "Question", "StRecall", "alpha_nDCG", "build", "check_answer", "evaluate", "experiment", "explore",
    "files_in", "judge", "load", "nDCG", "names", "figures", "output_folder", "pRecall", "rKL", "published", "read_run",
    "register", "search", "sides", "supports",
}  # fmt: skip


def test_the_names_of_the_front_door():
    assert set(bd.__all__) == {"__version__", *FRONT_DOOR} and set(bd.__all__) <= set(dir(bd))
    for name in FRONT_DOOR:
        assert getattr(bd, name) is not None
    star: dict[str, object] = {}
    exec("from berdslib import *", star)
    assert set(star) >= FRONT_DOOR
    with pytest.raises(AttributeError, match=r"berdslib has no 'serach'; it has Collection, Coverage, .*search"):
        bd.serach  # noqa: B018
    with pytest.raises(ImportError, match="serach"):
        exec("from berdslib import serach")


@pytest.mark.slow
def test_types_of_the_front_door_are_seen_by_a_type_checker(tmp_path):
    root = Path(bd.__file__).parents[1]
    # A name of its own each time: mypy's cache of a file of the same name tells where that one was.
    user = tmp_path / f"user_{uuid.uuid4().hex}.py"
    user.write_text(
        textwrap.dedent("""
            import berdslib as bd

            sample: bd.Collection = bd.load("sample")
            result: bd.Experiment = bd.experiment(["bm25"], sample, bd.MRecall @ 5, judge="laptop")
            reveal_type(bd.search("bm25", sample))
            reveal_type(sample.questions[0].perspectives)
            wrong: int = bd.load("sample")
            bd.experimnt("bm25", sample)
        """),
        encoding="utf-8",
    )
    # The cache of the type check of the package itself, which comes first in the test command.
    command = [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml"), str(user)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=root)
    ours = [line for line in done.stdout.splitlines() if line.startswith(str(user))]
    told = "\n".join(ours)
    assert "Revealed type is" in told and "DataFrame" in told.split("Revealed type is")[1], done.stdout + done.stderr
    assert re.search(r"tuple\[(builtins\.)?str, \.\.\.\]", told)
    assert 'expression has type "Collection", variable has type "int"' in told
    errors = [line for line in ours if ": error:" in line]
    assert len(errors) == 2 and 'Module has no attribute "experimnt"' in told, told


def test_texts_can_be_judged_without_a_collection():
    asked = ["Cats are good.", "Dogs are bad."]
    found = bd.supports(
        asked, "Cats are good, says everyone.", judge=lambda pairs: [0.9 if p.pid == 0 else 0.4 for p in pairs]
    )
    assert found["p_yes"].tolist() == [0.9, 0.4] and found["supports"].tolist() == [True, False]
    assert found["how_sure"].tolist() == ["sure", "unsure"] and found["perspective"].tolist() == asked
    overlap = bd.supports("Cats are good.", ["Cats are good.", "Bananas are yellow."], "overlap")
    assert overlap["supports"].tolist() == [True, False]
