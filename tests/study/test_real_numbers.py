"""data/real: numbers alone, and those of docs/results.md."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import berdslib as bd
from berdslib.errors import InputError
from berdslib.evaluation.judges import auc
from berdslib.paths import shipped
from berdslib.study.published import REAL, real_numbers


@pytest.mark.parametrize("name", REAL)
def test_it_holds_numbers_and_letters_of_places_alone(name):
    path, table = shipped("real") / f"{name}.csv", real_numbers(name)
    assert path.stat().st_size < 50_000
    kinds = "yes or no|two answers|neither"
    words = {"asked": "question|supporting|opposing", "task": "[a-z-]+", "kind": kinds}
    for column in table:
        values = table[column]
        if not pd.api.types.is_numeric_dtype(values):
            assert values.str.fullmatch(words.get(column, "[ABX.]*")).all(), column


def test_an_unknown_table_is_refused_by_name():
    with pytest.raises(InputError, match="lists"):
        real_numbers("list")


def sides(word):
    return ("A" in word or "X" in word) and ("B" in word or "X" in word)


def test_lists_give_the_figures_of_the_results():
    """MRecall@5 and Precision@5 of theperspective, n = 134."""
    own = real_numbers("lists").query("asked == 'question'")
    assert len(own) == 134
    for name, recall, precision in (
        ("bm25", 77.6, 69.7),
        ("minilm", 85.1, 79.0),
        ("mpnet", 85.8, 83.9),
    ):
        first = own[name].str[:5]
        assert 100 * first.map(sides).mean() == pytest.approx(recall, abs=0.05)
        assert 100 * first.map(lambda w: 1 - w.count(".") / 5).mean() == pytest.approx(precision, abs=0.05)
    dial = real_numbers("dial").set_index("question")
    assert (dial["minilm"] == own.set_index("question")["minilm"].str[:10]).all()


def test_roots_and_people_give_the_figures_of_the_results():
    means = real_numbers("pir").groupby("task")[["minilm", "minilm+pap"]].mean().mul(100)
    expected = {"perspectrum": (55.5, 55.8), "ambigqa": (66.8, 69.0), "allsides": (20.8, 28.6), "exfever": (90.2, 92.2)}
    for task, row in expected.items():
        np.testing.assert_allclose(means.loc[task], row, atol=0.06)
    # PAP against the full query is significant by itself (a star in a table of the two), and not among three tests.
    roots = real_numbers("pir")
    weights = 1 / roots.groupby("task")["task"].transform("size") / 4
    draw = np.random.default_rng(0)
    raw = []
    for more, less in (("minilm+pap", "minilm"), ("minilm", "minilm+concat"), ("minilm+pap", "minilm+concat")):
        parts = (weights * (roots[more] - roots[less])).to_numpy()
        sums = draw.choice([-1, 1], (20_000, len(parts))) @ parts
        raw.append((np.abs(sums) >= abs(parts.sum()) - 1e-12).mean())
    assert raw[0] == pytest.approx(0.031, abs=0.005) and min(raw) == raw[0]
    assert 3 * raw[0] == pytest.approx(0.094, abs=0.015)
    people = real_numbers("people")
    assert len(people) == 274 and people["label"].sum() == 45 and people["question"].nunique() == 15
    label, said = people["label"] == 1, people["laptop"] >= 0.21
    assert 200 * (label & said).sum() / (label.sum() + said.sum()) == pytest.approx(43.1, abs=0.05)
    assert auc(label.to_numpy(), people["laptop-mpnet"].to_numpy()) == pytest.approx(0.799, abs=0.001)


def test_questions_that_are_there_twice_have_one_issue_and_find_the_same():
    lists = real_numbers("lists").query("asked == 'question'").set_index("question")
    twice = lists[lists["issue"] != lists.index]
    assert len(twice) == 8 and lists["issue"].nunique() == 126
    first = lists.loc[twice["issue"]]
    for name in ("bm25", "minilm", "mpnet"):  # in one pair, a passage and its copy differ in their apostrophes
        assert sum(a == b for a, b in zip(twice[name], first[name], strict=True)) >= 7


ROOT = Path(__file__).resolve().parents[2]
VALUE = r"([\d.]+ \[[\d., ]+\])[a-c ]*"
RESULTS = re.compile(rf"^\|[^|]*\| (bm25|minilm) \|(?: 134 \|)? {VALUE}\| {VALUE}\|", re.M)


@pytest.mark.slow
@pytest.mark.parametrize("retriever", ["bm25", "minilm"])
def test_readme_and_results_have_what_the_package_prints(real_data, warm_cache, retriever):
    """The first row of each retriever, theperspective's, to the digit; vectors are float32 in all tests."""
    shown = bd.experiment(retriever, "theperspective", ["MRecall@5", "Precision@5"]).shown.iloc[0].tolist()
    for page in ("README.md", "docs/results.md"):
        rows = RESULTS.findall((ROOT / page).read_text(encoding="utf-8"))
        assert next(told for name, *told in rows if name == retriever) == shown


@pytest.mark.real_data
def test_the_order_is_not_the_sources(real_data):
    found = bd.load("theperspective")
    yes = found.gold[found.gold["supports"]]
    run = bd.search("bm25", found, 20)
    argued = yes.groupby(["qid", "docno"])["pid"].agg(lambda p: "".join(sorted({"AB"[i] for i in p})))
    letters = [argued.get((q, d), ".") for q, d in zip(run["qid"], run["docno"], strict=True)]
    run["letter"] = ["X" if letter == "AB" else letter for letter in letters]
    in_order = run.sort_values("rank").groupby("qid")["letter"].agg("".join).reindex([q.qid for q in found.questions])
    ours = real_numbers("lists").query("asked == 'question'")["bm25"].tolist()
    assert sorted(in_order) == sorted(ours) and in_order.tolist() != ours
    assert not any(re.search(r"[a-z]{3}", word) for word in ours)


def test_prose_counts_the_ways_that_are_in_the_file():
    ways = pd.read_csv(ROOT / "docs" / "lists.csv").query("questions == 'theperspective'")["way"]
    count = len(set(ways) - {"none", "oracle"})
    told = re.findall(r"(?i)\bof (\w+) (?:ways|methods)\b", (ROOT / "docs" / "results.md").read_text(encoding="utf-8"))
    assert set(told) == {{5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten", 11: "eleven"}[count]}
