"""Judges as instruments, on a small world whose answers are known and on the sample."""

import logging

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from berdslib.data.collection import Collection
from berdslib.data.datasets import load
from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.evaluation.measures import evaluate
from berdslib.judging.registry import JUDGES, own_judge
from berdslib.study.experiment import experiment
from berdslib.study.figures.values import judged_systems_figure
from berdslib.study.front import search
from berdslib.study.raters import GOLD, ORACLE, judge_systems, order_table, question_clusters, score_sheet

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _own_cache(user_cache):
    pass


TOPICS = ("cars", "zoos", "taxes", "schools", "bees", "trains")


@pytest.fixture
def small():
    """Six questions, each with a passage for, one against, and one that says nothing; and who sees through them."""
    questions, passages, gold = [], [], []
    for topic in TOPICS:
        questions.append(Question(topic, f"What of {topic}?", (f"More {topic}.", f"Fewer {topic}.")))
        passages += [Passage(f"{topic}-{kind}", f"{topic} {kind}") for kind in ("for", "against", "nothing", "more")]
        gold += [(topic, 0, f"{topic}-for", 1.0, True), (topic, 1, f"{topic}-against", 1.0, True)]
    return Collection("small", tuple(questions), passages, make_verdicts(gold, "hand"))


@pytest.fixture
def runs():
    def listing(*kinds):
        return ranked_run({t: [f"{t}-{kind}" for kind in kinds] for t in TOPICS})

    return {
        "both": listing("for", "against"),
        "one": listing("for", "nothing"),
        "late": listing("nothing", "against"),
        "none": listing("nothing", "more"),
    }


@pytest.fixture
def judges(monkeypatch):
    """One that knows, one that takes everything for its contrary; both keep what they are asked."""
    asked = {"knows": [], "contrary": []}

    def add(name, wrong):
        def answer(pairs):
            asked[name].extend(pairs)
            true = [p.passage.text.endswith(("for", "against")[p.pid]) for p in pairs]
            return [float(t != wrong) for t in true]

        monkeypatch.setitem(JUDGES._things, name, own_judge(lambda: answer, name))

    add("knows", False)
    add("contrary", True)
    return asked


def test_by_hand(small, runs, judges):
    result = judge_systems(runs, small, ["knows", "contrary"], ["Coverage@2"], labelled=(3,), draws=20)
    order = result.order.set_index("judge")
    # By gold 1, 1/2, 1/2, 0; by the contrary one 1, 1, 1, 1 (every passage fails to argue something): all are tied.
    assert order.loc["knows", ["systems", "tau", "same", "kappa", "alike", "reversed"]].tolist() == [4, 1, 1, 1, 1, 0]
    assert np.isnan(order.loc["contrary", "tau"]) and order.loc["contrary", "tied"] == 1
    assert order.loc["contrary", "same"] == pytest.approx(1 / 4)
    means = result.table.set_index(["system", "judge"])["mean"]
    assert means.xs(GOLD, level="judge").to_dict() == {"both": 1, "one": 0.5, "late": 0.5, "none": 0, ORACLE: 1}
    assert means["none", "contrary"] == 1 and len(result.scores[GOLD, "Coverage@2"].columns) == 5
    # Each pair once: four passages of each question, two perspectives.
    for pairs in judges.values():
        assert len(pairs) == result.pairs == 6 * 4 * 2 == len({(p.qid, p.pid, p.passage.docno) for p in pairs})
    few = result.labels[(result.labels["system"] == "all") & (result.labels["judge"] == "contrary")]
    few = few.set_index("estimate")
    assert few.loc["judge alone", "bias"] == pytest.approx(0.5) and few.loc["corrected", "bias"] == 0
    assert few.loc["corrected", "tau"] == 1


def test_pools_go_no_deeper_than_the_measures_look(small, runs, judges):
    result = judge_systems(runs, small, ["knows"], ["MRecall@1"], labelled=())
    assert result.pairs == 6 * 2 * 2 and result.labels.empty
    assert {p.passage.docno.partition("-")[2] for p in judges["knows"]} == {"for", "nothing"}


def test_the_scores_are_those_of_an_experiment(judges):
    sample = load("sample", split="dev")
    found = search("bm25", sample, 10)
    systems = {"bm25": "bm25", "rank-bm25": "rank-bm25", "places 6 to 10": found[found["rank"] > 5]}
    result = judge_systems(systems, sample, ["random"], ["MRecall@5", "Precision@5"], labelled=(4,), draws=5)
    for judge in (None, "random"):
        want = experiment(systems, sample, ["MRecall@5", "Precision@5"], judge=judge).scores
        for system in systems:
            for measure in ("MRecall@5", "Precision@5"):
                mine = result.scores[judge or GOLD, measure]
                np.testing.assert_array_equal(mine[system], want[system][measure])
    gold, judged = (result.scores[who, "Precision@5"][list(systems)] for who in (GOLD, "random"))
    row = result.order.set_index("measure").loc["Precision@5"]
    assert row["tau"] == pytest.approx(kendalltau(gold.mean(), judged.mean()).statistic)
    assert row["same"] == (gold == judged).to_numpy().mean()
    best = evaluate(result.runs[ORACLE], sample.gold, sample.questions, "MRecall@5")["MRecall@5"].to_numpy()
    assert (best >= gold.to_numpy().max(axis=1).round()).all()
    sheet = score_sheet(result)
    assert sheet["system"].tolist() == [*systems, ORACLE]
    assert sheet.columns[1:].tolist() == [f"{m} {j}" for j in (GOLD, "random") for m in ("MRecall@5", "Precision@5")]
    part = order_table(result.scores, question_clusters(sample), list(systems)[:2], ["random"], ["Precision@5"])
    assert part["systems"].tolist() == [2]


def test_questions_that_are_there_twice_are_drawn_together(small):
    twin = small.questions[0]._replace(qid="cars-again")
    doubled = Collection("doubled", (*small.questions, twin), small.passages, small.gold)
    assert question_clusters(doubled) == [*TOPICS, "cars"]


def test_doubled_questions_change_no_interval(small, runs, monkeypatch):
    """Twins of all questions are drawn with them, so that they add nothing."""

    def answer(pairs):  # right about half of the topics, and takes the other half for its contrary
        true = [p.passage.text.endswith(("for", "against")[p.pid]) for p in pairs]
        return [float(t == (p.passage.text.split()[0] in TOPICS[:3])) for t, p in zip(true, pairs, strict=True)]

    monkeypatch.setitem(JUDGES._things, "half right", own_judge(lambda: answer, "half right"))
    # Differs from "none" on five questions: one more with a coin of its own, and p would be below .05.
    most = runs["both"].merge(pd.DataFrame({"qid": TOPICS[1:]}))
    runs = {**runs, "most": most}
    twin = [table.assign(qid=table["qid"] + "-again") for table in (small.gold, *runs.values())]
    gold, *lists = (pd.concat(both) for both in zip((small.gold, *runs.values()), twin, strict=True))
    questions = (*small.questions, *(q._replace(qid=f"{q.qid}-again") for q in small.questions))
    doubled = Collection("doubled", questions, small.passages, gold)
    given = (["half right"], ["Coverage@2"])
    single = judge_systems(runs, small, *given, labelled=(3,), draws=10)
    twice = judge_systems(dict(zip(runs, lists, strict=True)), doubled, *given, labelled=(6,), draws=10)
    assert twice.table.pop("n").tolist() == [12] * 12 and single.table.pop("n").tolist() == [6] * 12
    assert twice.labels.pop("labelled").tolist() == [6] * 18 and single.labels.pop("labelled").tolist() == [3] * 18
    # With twins the design effect is estimated, which takes Student's quantile: 2.57 of six topics in place of 1.96.
    assert (twice.table["low"] <= single.table["low"]).all() and (twice.table["high"] >= single.table["high"]).all()
    ends = ["low", "high"]
    pd.testing.assert_frame_equal(twice.table.drop(columns=ends), single.table.drop(columns=ends), check_exact=False)
    for name in ("order", "labels"):
        pd.testing.assert_frame_equal(getattr(twice, name), getattr(single, name), check_exact=False)
    spread = single.table.set_index(["system", "judge"]).loc[("most", GOLD)]
    assert spread["low"] < spread["mean"] < spread["high"]
    assert single.order.iloc[0]["tau_low"] < single.order.iloc[0]["tau_high"]


def test_one_judge_may_be_named_without_a_list(small, runs, judges):
    one, several = (judge_systems(runs, small, who, "Coverage@2", labelled=()) for who in ("knows", ["knows"]))
    pd.testing.assert_frame_equal(one.order, several.order)


def test_questions_that_all_overlap_are_found_before_anything_is_judged(small, runs, judges):
    first = small.questions[0]
    same = Collection("same", (first, first._replace(qid="again")), small.passages, small.gold)
    with pytest.raises(InputError, match="all questions overlap"):
        judge_systems(runs, same, ["knows"], "Coverage@2", labelled=(2, 20))
    assert not judges["knows"]
    for labelled in ((), (20,)):  # none is tried
        order = judge_systems(runs, same, ["knows"], "Coverage@2", labelled=labelled).order.iloc[0]
        assert order["tau"] == 1 and order[["tau_low", "tau_high", "same_low", "kappa_high"]].isna().all()


def test_few_systems_and_few_questions_are_said(small, runs, judges, caplog):
    with caplog.at_level(logging.WARNING):
        judge_systems(runs, small, ["knows"], "Coverage@2", labelled=(3, 7), draws=2)
    assert "4 systems: a tau of fewer than 12" in caplog.text and "than there are: 6" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"systems": "bm25"}, "an order needs two systems at least"),
        ({"systems": {ORACLE: "bm25", "b": "bm25"}}, "'oracle' is what the best possible list is called"),
        ({"judges": []}, "name judges to be compared with gold"),
        ({"judges": ["gold"]}, "name judges to be compared with gold"),
        ({"judges": ["knows", "knows"]}, "'knows' is named twice"),
        ({"judges": ["knows", "kowns"]}, "unknown judge 'kowns'. Did you mean 'knows'"),
        ({"measures": "MRecall"}, "MRecall needs a cut-off, such as MRecall@5"),
        ({"measures": "pRecall@5"}, "measures of one list are compared here"),
        ({"draws": 0}, "in at least 1 draw; got .3. and 0"),
        ({"labelled": (20, 1)}, "at least 2 questions are labelled"),
    ],
)
def test_what_cannot_be_compared_is_an_error(small, runs, judges, change, message):
    given = {"systems": runs, "judges": ["knows"], "measures": "Coverage@2", "labelled": (3,), "draws": 2} | change
    with pytest.raises(InputError, match=message):
        judge_systems(given.pop("systems"), small, given.pop("judges"), given.pop("measures"), **given)
    assert not judges["knows"]


def test_a_collection_without_gold_is_refused(small, runs, judges):
    without = Collection("bare", small.questions, small.passages)
    with pytest.raises(InputError, match="'bare': judges are compared with recorded verdicts"):
        judge_systems(runs, without, ["knows"])


def test_runs_that_list_nothing_score_nothing(small, judges):
    nothing = pd.DataFrame({"qid": [], "docno": [], "score": []})
    result = judge_systems({"a": nothing, "b": nothing}, small, ["knows"], "Coverage@2", labelled=())
    assert result.pairs == 0 and (result.table["mean"] == 0).all() and np.isnan(result.order["tau"]).all()


def test_the_figure_has_a_panel_a_judge_and_a_point_a_system(small, runs, judges):
    result = judge_systems(runs, small, ["knows", "contrary"], ["Coverage@2"], labelled=())
    figure = judged_systems_figure(result.table, "Coverage@2")
    panels = [axis for axis in figure.axes if axis.get_visible()]
    assert [axis.get_title() for axis in panels] == ["knows", "contrary"]
    for axis, judge in zip(panels, ("knows", "contrary"), strict=True):
        drawn = [tuple(points.lines[0].get_xydata()[0]) for points in axis.containers]
        means = result.table.pivot(index="system", columns="judge", values="mean").reindex([*runs, ORACLE]) * 100
        assert drawn == list(zip(means[GOLD], means[judge], strict=True))
    assert [t.get_text() for t in figure.legends[0].get_texts()] == [*runs, ORACLE]
