"""Judges as instruments, on a small world whose answers are known and on the sample; and beside labels."""

import weakref
from functools import partial

import matplotlib
import numpy as np
import pytest
from judge_tables import judge_report
from scipy.stats import kendalltau
from sklearn.metrics import f1_score, roc_auc_score
from stance import NEGATED, PROPOSAL, StancePair

from berdslib.data.collection import Collection
from berdslib.data.datasets import load
from berdslib.data.readers import LabelledPair
from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.errors import InputError, MissingDataError
from berdslib.evaluation.judges import calibration_error
from berdslib.evaluation.measures import parse_measures, score_run
from berdslib.judging.base import EachByItself
from berdslib.judging.baselines import Overlap, Random
from berdslib.judging.refit import save_refit
from berdslib.judging.registry import JUDGES, make_judge, own_judge
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.study.experiment import experiment
from berdslib.study.front import search
from berdslib.study.raters import (
    ALL_YES,
    GOLD,
    ORACLE,
    as_asked,
    corrected_scores,
    fit_judge,
    judge_systems,
    judge_table,
    most_doubtful,
    repeat_table,
    score_sheet,
)
from berdslib.study.scoring import caution

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
    best = score_run(result.runs[ORACLE], sample.gold, sample.questions, "MRecall@5")["MRecall@5"].to_numpy()
    assert (best >= gold.to_numpy().max(axis=1).round()).all()
    sheet = score_sheet(result).set_index("system")
    assert sheet["Precision@5 random"].to_dict() == result.scores["random", "Precision@5"].mean().to_dict()


def test_of_questions_that_all_overlap_there_are_no_intervals(small, runs, judges):
    first = small.questions[0]
    gold = [*small.gold.query("qid == @first.qid")[["qid", "pid", "docno"]].itertuples(index=False)]
    rows = [(qid, pid, docno, 1.0, True) for _, pid, docno in gold for qid in (first.qid, "again")]
    same = Collection("same", (first, first._replace(qid="again")), small.passages, make_verdicts(rows, "hand"))
    order = judge_systems(runs, same, ["knows"], "Coverage@2", labelled=(20,)).order.iloc[0]  # none is tried
    assert order["tau"] == 1 and order[["tau_low", "tau_high", "same_low", "kappa_high"]].isna().all()
    with pytest.raises(InputError, match="clusters"):
        judge_systems(runs, same, ["knows"], "Coverage@2", labelled=(2,))


@pytest.mark.parametrize(
    "change",
    [
        {"systems": "bm25"},
        {"judges": ["gold"]},
        {"measures": "pRecall@5"},
    ],
)
def test_what_cannot_be_compared_is_an_error(small, runs, judges, change):
    given = {"systems": runs, "judges": ["knows"], "measures": "Coverage@2", "labelled": (3,), "draws": 2} | change
    with pytest.raises(InputError) as caught:
        judge_systems(given.pop("systems"), small, given.pop("judges"), given.pop("measures"), **given)
    assert caught.value.field == next(iter(change))
    assert not judges["knows"]


PAIRS = [
    LabelledPair(f"q{i % 4}", f"Cats number {i} are {'kind' if i % 3 else 'loud'}.", "Cats are kind.", i % 5 == 0)
    for i in range(40)
]


def test_the_table_has_auc_calibration_and_the_judge_that_always_says_yes(tmp_path):
    table = judge_table(PAIRS, ["overlap", "random"], VerdictStore(tmp_path / "v.sqlite"))
    labels = np.array([p.label for p in PAIRS])
    p = Overlap().p_yes(as_asked(PAIRS))
    found = table.set_index(["judge", "measure"])["value"]
    assert found["overlap", "f1"] == pytest.approx(f1_score(labels, p >= Overlap().threshold))
    assert found["overlap", "auc"] == pytest.approx(roc_auc_score(labels, p))
    assert found["overlap", "calibration_error"] == pytest.approx(calibration_error(labels, p))
    assert found[ALL_YES, "f1"] == pytest.approx(f1_score(labels, np.ones(40)))
    assert found[ALL_YES].loc[["auc", "recall", "said_yes", "kappa", "accuracy"]].tolist() == [0.5, 1, 1, 0, 0.2]
    assert found[ALL_YES, "calibration_error"] == pytest.approx(0.8)
    assert list(dict.fromkeys(table["judge"])) == [ALL_YES, "overlap", "random"]
    assert list(table.columns) == ["judge", "threshold", "measure", "value", "low", "high"]
    ordered = table[table["measure"] != "calibration_error"]
    assert (ordered["low"] <= ordered["value"] + 1e-9).all() and (ordered["value"] <= ordered["high"] + 1e-9).all()


def test_names_are_checked_before_a_judge_is_asked_and_one_judge_is_in_memory_at_a_time(monkeypatch, tmp_path):
    """Table 4's ten have 250 GB of weights together, and GPT-4 is paid for."""
    made = []

    class Large:
        threshold = 0.5

        def __init__(self, name):
            assert not [one for one in made if one() is not None]
            self.id = name
            made.append(weakref.ref(self))

        def p_yes(self, pairs):
            return np.arange(len(pairs)) % 2

    for name in ("one", "two", "three"):
        monkeypatch.setitem(JUDGES._things, name, own_judge(partial(Large, name), name))
    for wrong in ("nobody", "causal:org/m@nothing", "overlap+chat:m@nothing"):
        with pytest.raises(InputError):
            judge_table(PAIRS, ["one", wrong], VerdictStore(tmp_path / "v.sqlite"))
    assert not made
    assert len(judge_table(PAIRS, ["one", "two", "three", "one"])["judge"].unique()) == 4 and len(made) == 3


@pytest.mark.parametrize("share", [0.1, 0.45])
def test_b20_random_says_yes_as_often_as_the_labels_of_its_set(share, tmp_path):
    # divergences.md B20: of labels that are known, their own share; elsewhere that of the paper's 542 pairs.
    n = 4000
    pairs = [LabelledPair(f"q{i % 40}", f"Cat {i}.", "Cats are kind.", i % 100 < 100 * share) for i in range(n)]
    found = judge_table(pairs, ["random"], VerdictStore(tmp_path / "v.sqlite")).set_index(["judge", "measure"])["value"]
    assert found["random", "said_yes"] == pytest.approx(share, abs=4 * (share * (1 - share) / n) ** 0.5)
    assert found["random", "accuracy"] == pytest.approx(share**2 + (1 - share) ** 2, abs=0.03)
    assert found["random", "f1"] == pytest.approx(share, abs=0.06)
    assert Random().p_yes(as_asked(pairs)).mean() == pytest.approx(0.168, abs=0.02)


def test_questions_without_a_verdict_are_left_out_of_the_order(small, runs, judges):
    part = Collection("part", small.questions, small.passages, small.gold.query("qid != 'cars' and qid != 'bees'"))
    found = judge_systems(runs, part, ["knows"], ["Coverage@2"], labelled=(3,), draws=2)
    want = judge_systems(runs, small.only(small.questions[1:4] + small.questions[5:]), ["knows"], ["Coverage@2"],
                         labelled=(3,), draws=2)  # fmt: skip
    assert set(found.table["n"]) == {4} and found.order.equals(want.order)


def test_pairs_that_a_judge_could_not_read_are_left_out_of_the_table(monkeypatch, caplog):
    class Half(EachByItself):
        id, threshold = "half", 0.5

        def p_yes_each(self, pairs):
            return np.array([np.nan if i % 2 else float(i % 5 == 0) for i in range(len(pairs))]), None

    monkeypatch.setitem(JUDGES._things, "half", own_judge(Half, "half"))
    pairs = [pair._replace(document=f"{i}: {pair.document}") for i, pair in enumerate(PAIRS)]
    found = judge_table(pairs, ["half"]).set_index(["judge", "measure"])["value"]
    assert found["half", "accuracy"] == 1.0 and "20 of 40" in caplog.text


KINDS = [
    StancePair("zoos", "Zoos are cruel.", "We should close zoos", True, PROPOSAL),
    StancePair("zoos", "Zoos are cruel.", "We should not close zoos", False, NEGATED),
    StancePair("zoos", "Zoos are fun for children.", "We should close zoos", False, PROPOSAL),
    StancePair("zoos", "Zoos are fun for children.", "We should not close zoos", True, NEGATED),
    StancePair("cars", "Cars stink. " * 40, "We should ban cars", True, PROPOSAL),
    StancePair("cars", "Cars stink. " * 40, "We should not ban cars", False, NEGATED),
    StancePair("cars", "A bus is not a car.", "We should ban cars", False, PROPOSAL),
]


def test_all_about_one_judge_by_hand(monkeypatch):
    # Says no to denials, yes to all else; so it is right about the cruel and the stinking, and wrong about the fun.
    def answer(pairs):
        return [0.2 if " not " in p.perspective else 0.8 for p in pairs]

    monkeypatch.setitem(JUDGES._things, "blunt", own_judge(lambda: answer, "blunt"))
    report = judge_report(KINDS, "blunt")
    assert (report.judge, report.threshold, report.n) == ("blunt", 0.5, 7)
    measures = report.measures.set_index("measure")["value"]
    assert measures[["precision", "recall", "said_yes"]].tolist() == pytest.approx([2 / 4, 2 / 3, 4 / 7])
    # Of 3 x 4 pairs of a yes and a no, 2 x 2 in order, 2 x 2 + 1 x 2 tied, 1 x 2 exchanged.
    assert measures["auc"] == pytest.approx((4 + 6 / 2) / 12)
    kinds = report.by_kind.set_index("kind")
    assert kinds.loc[PROPOSAL, ["n", "questions", "labelled_yes", "mean_p", "said_yes"]].tolist() == [4, 2, 0.5, 0.8, 1]
    assert kinds.loc[NEGATED, ["n", "labelled_yes", "mean_p", "said_yes"]].tolist() == pytest.approx([3, 1 / 3, 0.2, 0])
    lengths = report.by_length.set_index("length")
    assert lengths["n"].to_dict() == {"1-50 words": 5, "51-100 words": 2}
    assert lengths.loc["51-100 words", "f1"] == 1
    words = report.by_how_sure[
        ["said_yes", "how_sure", "n", "accuracy"]
    ].values.tolist()  # .2 and .8 are 60 % of the way
    assert words == [[False, "fairly sure", 3, pytest.approx(2 / 3)], [True, "fairly sure", 4, pytest.approx(1 / 2)]]
    assert report.calibration[["n", "mean_p"]].values.tolist() == [[3, pytest.approx(0.2)], [4, pytest.approx(0.8)]]
    negation = report.negation.set_index("measure")["value"]
    assert negation["right_higher"] == pytest.approx(2 / 3) and negation["sum_of_p"] == pytest.approx(1)
    assert negation[["both_yes", "both_no"]].tolist() == [0, 0]


# ---------------------------------------------------------------- fitted, corrected, repeated


@pytest.fixture
def add(monkeypatch):
    """Register a function as a judge until the test ends."""

    def register(name, judge):
        monkeypatch.setitem(JUDGES._things, name, own_judge(lambda: judge, name))

    return register


@pytest.fixture
def steep(add):
    """2,000 pairs of 40 questions whose label has probability p, and a judge that says the square of p's odds."""
    draw = np.random.default_rng(3)
    p = draw.uniform(0.02, 0.98, 2000)
    said = dict(zip((f"text {i}" for i in range(2000)), 1 / (1 + ((1 - p) / p) ** 2), strict=True))
    pairs = [LabelledPair(f"q{i % 40}", f"text {i}", "It is.", bool(draw.random() < p[i])) for i in range(2000)]
    add("steep", lambda asked: [said[pair.passage.text] for pair in asked])
    return pairs, p


def test_a_fitted_judge_undoes_what_squared_the_odds(steep, tmp_path):
    pairs, p = steep
    found = fit_judge("steep", pairs)
    slope, shift, threshold = found.judge.calibration
    assert slope == pytest.approx(0.5, abs=0.1) and shift == pytest.approx(0, abs=0.3)
    np.testing.assert_allclose(found.judge.p_yes(as_asked(pairs)), p, atol=0.08)
    table = found.table.set_index(["judge", "measure"])["value"]
    assert table["fitted", "calibration_error"] < table["as it is", "calibration_error"] / 2
    assert ("fitted", "auc") not in table.index  # the same: the fit keeps the order
    assert (
        found.thresholds[0] <= threshold <= found.thresholds[1] and found.gained[1] < found.gained[0] < found.gained[2]
    )


def test_a_fitted_judge_is_saved_and_knows_the_pairs_it_was_fitted_to(steep, tmp_path, caplog):
    pairs, p = steep
    fitted, fresh = pairs[:400], pairs[400:]
    found = fit_judge("steep", fitted, draws=5)
    measured = found.table.set_index(["judge", "measure"])["value"]
    assert measured["fitted", "calibration_error"] < measured["as it is", "calibration_error"]
    save_refit(tmp_path, "steep", found.judge)
    assert "text 5" not in (tmp_path / "judge.json").read_text()
    name = f"refit:{tmp_path}"
    again = make_judge(name)
    assert again.id == found.judge.id and again.pairs == found.judge.pairs and len(again.pairs) == 400
    assert again.note == found.judge.note and again.note in caution(name)
    asked = as_asked(fresh)
    np.testing.assert_array_equal(judge_pairs(again, asked)[0], found.judge.p_yes(asked))
    np.testing.assert_allclose(again.p_yes(asked), p[400:], atol=0.25)
    judge_table(fresh, [name])
    assert not caplog.messages
    judge_table([*fresh, *fitted[:7]], [name])
    assert len(caplog.messages) == 1 and "7 of" in caplog.text


def test_what_cannot_be_fitted(steep, tmp_path):
    pairs, _ = steep
    few = [pair for pair in pairs if not pair.label] + [pair for pair in pairs if pair.label][:9]
    upside_down = [pair._replace(label=not pair.label) for pair in pairs]
    for wrong in (few, [pair._replace(question="q") for pair in pairs], upside_down):
        with pytest.raises(InputError):
            fit_judge("steep", wrong)
    with pytest.raises(MissingDataError):
        make_judge(f"refit:{tmp_path}")
    (tmp_path / "judge.json").write_text(
        '{"judge": "overlap", "id": "another", "note": "", "slope": 1, "shift": 0, "threshold": 0.5, "pairs": []}'
    )
    with pytest.raises(InputError):
        make_judge(f"refit:{tmp_path}")
    (tmp_path / "judge.json").write_text('{"judge": "overlap", "slope": "steep"}')
    with pytest.raises(InputError):
        make_judge(f"refit:{tmp_path}")


def test_a_corrected_mean_is_gold_where_all_is_labelled_and_the_judge_where_it_never_errs(small, runs):
    measures = parse_measures("MRecall@2")
    gold = small.gold
    wrong = gold.assign(supports=gold["pid"] == 0, p_yes=(gold["pid"] == 0) * 1.0)
    whole = corrected_scores({"both": runs["both"]}, wrong, gold, small.questions, measures).iloc[0]
    assert (whole["judge"], whole["corrected"], whole["labelled"], whole["n"]) == (0, 1, 6, 6)
    part = gold[gold["qid"].isin(TOPICS[:3])]
    right = corrected_scores({"one": runs["one"]}, gold, part, small.questions, measures).iloc[0]
    assert (right["judge"], right["corrected"], right["labelled"]) == (0, 0, 3)
    assert 0 < right["corrected_high"] < 1  # three labels without an error are no proof
    with pytest.raises(InputError):
        corrected_scores({"one": runs["one"]}, gold, gold[gold["qid"] == "cars"], small.questions, measures)


def test_passages_that_the_judge_has_not_read_are_told(small, runs, caplog):
    """Of two places per question, verdicts on the first alone, and on none of another run."""
    first = runs["both"][runs["both"]["rank"] == 1][["qid", "docno"]]
    read = small.gold.merge(first, on=["qid", "docno"])
    elsewhere = ranked_run({q.qid: ["x", "y"] for q in small.questions})
    gold, lists = small.gold, {"both": runs["both"], "elsewhere": elsewhere}
    table = corrected_scores(lists, read, gold, small.questions, "MRecall@1,Precision@2")
    shares = table.set_index(["system", "measure"])["read"].to_dict()
    assert shares == {
        ("both", "MRecall@1"): 1, ("both", "Precision@2"): 0.5,
        ("elsewhere", "MRecall@1"): 0, ("elsewhere", "Precision@2"): 0,
    }  # fmt: skip
    told = [record.getMessage() for record in caplog.records if "judge" in record.getMessage()]
    assert len(told) == 3 and sum("both" in one and "50%" in one and "2" in one for one in told) == 1
    caplog.clear()
    corrected_scores({"both": runs["both"]}, gold, gold, small.questions, "Precision@2")
    assert not any("both" in record.getMessage() for record in caplog.records)


def test_a_corrected_share_is_no_less_than_none(small, runs):
    measures = parse_measures("Precision@2")
    part = small.gold[small.gold["qid"].isin(TOPICS[:2])]
    wrong = small.gold.assign(supports=False, p_yes=0.0)
    row = corrected_scores({"both": runs["both"], "none": runs["none"]}, wrong, part, small.questions, measures)
    bounds = row[["judge", "labels", "corrected", "corrected_low", "corrected_high"]]
    assert ((bounds >= 0) & (bounds <= 1)).all(axis=None) and row["labels"].tolist() == [1, 0]


def test_a_judge_that_is_asked_again_may_change_its_mind(steep, add):
    pairs, _ = steep
    draw = np.random.default_rng(0)
    add("moody", lambda asked: draw.random(len(asked)))
    table = repeat_table(pairs, ["steep", "moody"], 4).set_index("judge")
    assert table.loc["steep", "changed"] == 0 and table.loc["steep", "f1_low"] == table.loc["steep", "f1_high"]
    assert table.loc["moody", "changed"] == pytest.approx(1 - 2 * 0.5**4, abs=0.06)
    assert table.loc["moody", "f1_low"] < table.loc["moody", "f1_high"]


def test_the_pairs_that_judges_differ_about(steep, add):
    pairs, _ = steep
    asked = as_asked(pairs)
    odd = {"text 5", "text 80"}
    mind = make_judge("steep")

    def other(given):
        return [1 - p if pair.passage.text in odd else p for pair, p in zip(given, mind.p_yes(given), strict=True)]

    add("odd", other)
    found, doubts = most_doubtful(asked, ["steep", "odd"], 5)
    assert {pair.passage.text for pair in found[:2]} == odd
    assert doubts == sorted(doubts, reverse=True) and 0 < doubts[-1] < doubts[1] <= 1
    with pytest.raises(InputError):
        most_doubtful(asked, ["steep"], 2)
