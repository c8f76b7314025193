"""The experiment table against the measures and statistics it is made of, on the shipped sample."""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tex import caption_of, printed

from berdslib.data.collection import Collection
from berdslib.data.datasets import load
from berdslib.data.records import Passage, Question, make_run, make_verdicts, ranked_run
from berdslib.data.trec import read_trec_run, read_verdicts
from berdslib.errors import InputError
from berdslib.evaluation import compare
from berdslib.evaluation.measures import MRecall, Precision, evaluate, parse_measure
from berdslib.judging.base import Pair
from berdslib.judging.baselines import Overlap
from berdslib.judging.store import VerdictStore
from berdslib.retrieval.retrievers import RETRIEVERS, make_retriever, own_retriever
from berdslib.stats import mean_interval, paired_test
from berdslib.study.experiment import Experiment, experiment, write_experiment
from berdslib.study.tables import MACRO, escape, file_stems, paper_table, score_table

MEASURES = ["MRecall@5", "Precision@10", "alpha_nDCG@10"]
COLUMNS = ["system", "dataset", "measure", "n", "mean", "low", "high", "difference", "p_value"]


@pytest.fixture(scope="module")
def sample():
    return load("sample", split="test")


@pytest.fixture(scope="module")
def questions(sample):
    return list(sample.questions)


@pytest.fixture(scope="module")
def systems(sample):
    return {name: make_retriever(name, sample.passages) for name in ("bm25", "rank-bm25")}


@pytest.fixture(scope="module")
def result(systems, sample):
    return experiment(systems, sample, MEASURES, baseline="rank-bm25")


@pytest.fixture(autouse=True)
def _own_cache(user_cache):
    """Verdicts are kept in a store of the test's own."""


def cell(table, system, dataset, measure):
    (row,) = table[(table.system == system) & (table.dataset == dataset) & (table.measure == measure)].itertuples()
    return row


def test_the_table_has_a_row_per_system_data_set_and_measure(result, questions):
    datasets = list(dict.fromkeys(q.source for q in questions))
    assert datasets == ["sample-arguana", "sample-kialo", "sample-opinionqa"]
    assert list(result.table.columns) == COLUMNS
    assert len(result.table) == 2 * (len(datasets) + 1) * len(MEASURES)
    assert list(dict.fromkeys(result.table["dataset"])) == [*datasets, MACRO]
    assert not result.table.duplicated(["system", "dataset", "measure"]).any()
    sizes = result.table.groupby("dataset")["n"].agg(set).to_dict()
    assert sizes == {**{d: {sum(q.source == d for q in questions)} for d in datasets}, MACRO: {len(questions)}}
    assert result.table[["mean", "low", "high"]].stack().between(0, 1).all()
    assert (result.table["low"] <= result.table["mean"]).all() and (result.table["mean"] <= result.table["high"]).all()


def test_means_are_those_of_evaluate(result, systems, sample, questions):
    measures = [parse_measure(m) for m in MEASURES]
    for name, system in systems.items():
        run = system.search(questions, 10)
        pd.testing.assert_frame_equal(result.runs[name], run)
        scores = evaluate(run, sample.gold, questions, measures)
        pd.testing.assert_frame_equal(result.scores[name], scores)
        by_dataset = scores.groupby([q.source for q in questions]).mean()
        for measure in MEASURES:
            for dataset, mean in by_dataset[measure].items():
                assert cell(result.table, name, dataset, measure).mean == pytest.approx(mean)
            macro = cell(result.table, name, MACRO, measure).mean
            assert macro == pytest.approx(by_dataset[measure].mean())
    assert any(  # the data sets differ in size, so that the macro mean is another number than the mean
        abs(cell(result.table, n, MACRO, m).mean - result.scores[n][m].mean()) > 1e-3 for n in systems for m in MEASURES
    )


def test_intervals_tests_and_differences_are_those_of_the_statistics(result, systems, sample, questions):
    sources = [q.source for q in questions]
    kialo = np.array(sources) == "sample-kialo"
    for measure in MEASURES:
        a, b = (result.scores[s][measure].to_numpy() for s in ("bm25", "rank-bm25"))
        for dataset, mask, groups in ((MACRO, slice(None), sources), ("sample-kialo", kialo, None)):
            row = cell(result.table, "bm25", dataset, measure)
            assert (row.low, row.high) == mean_interval(a[mask], groups)
            assert row.p_value == pytest.approx(paired_test(a[mask], b[mask], groups))
    ours, base = (result.table[result.table.system == s].set_index(["dataset", "measure"]) for s in systems)
    np.testing.assert_allclose(ours["difference"], ours["mean"] - base["mean"], atol=1e-12)
    assert (base["difference"] == 0).all() and base["p_value"].isna().all()
    assert ours["p_value"].between(0, 1).all()
    alone = experiment(systems, sample, MEASURES)
    assert alone.table[["difference", "p_value"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(alone.table[COLUMNS[:7]], result.table[COLUMNS[:7]])


def test_a_judge_that_is_named_goes_before_recorded_verdicts(systems, sample):
    nobody = sample.gold.assign(p_yes=0.0, supports=False)
    told = Collection("told", sample.questions, sample.passages, nobody)
    found = experiment(systems, told, "Precision@5", judge=Overlap())
    assert set(found.verdicts["judge"]) == {Overlap().id} == {found.judge}
    assert found.table["mean"].max() > 0 == experiment(systems, told, "Precision@5").table["mean"].max()


def test_a_judge_is_asked_once_for_what_several_systems_list(systems, sample, questions, tmp_path):
    class Counting(Overlap):
        asked = 0

        def p_yes(self, pairs):
            self.asked += len(pairs)
            return super().p_yes(pairs)

    judge, store = Counting(), VerdictStore(tmp_path / "v.sqlite")
    found = experiment(systems, sample, [MRecall @ 5], judge=judge, store=store)
    listed = pd.concat(found.runs.values()).drop_duplicates(["qid", "docno"])
    perspectives = {q.qid: len(q.perspectives) for q in questions}
    assert judge.asked == len(found.verdicts) == listed["qid"].map(perspectives).sum() == len(store)
    for name, run in found.runs.items():
        pd.testing.assert_frame_equal(found.scores[name], evaluate(run, found.verdicts, questions, [MRecall @ 5]))
    again = experiment(systems, sample, [MRecall @ 5], judge=judge, store=store)
    assert judge.asked == len(found.verdicts)
    pd.testing.assert_frame_equal(again.table, found.table)


def test_a_finished_run_is_a_system(result, systems, sample, questions):
    shuffled = result.runs["bm25"].sample(frac=1.0, random_state=0).drop(columns="rank")
    mixed = experiment({"bm25": shuffled, "rank-bm25": systems["rank-bm25"]}, sample, MEASURES, baseline="rank-bm25")
    pd.testing.assert_frame_equal(mixed.table, result.table)
    # A run may lack questions, which then count 0, and hold questions that nobody asked.
    some = result.runs["bm25"][lambda r: r["qid"].isin([q.qid for q in questions[:4]])]
    found = experiment({"some": some}, sample.only(questions[2:]), [Precision @ 10]).scores["some"]["Precision@10"]
    assert found.index.tolist() == [q.qid for q in questions[2:]]
    assert (found.iloc[:2] == result.scores["bm25"]["Precision@10"].iloc[2:4]).all() and (found.iloc[2:] == 0).all()


def test_the_largest_cut_off_says_how_deep_to_retrieve(systems, sample):
    found = experiment(systems, sample, ["MRecall@3", MRecall @ 7, "MRecall@7"])
    assert {run["rank"].max() for run in found.runs.values()} == {7}
    assert list(found.scores["bm25"].columns) == ["MRecall@3", "MRecall@7"]


def test_inputs_are_left_as_they_are(result, systems, sample, questions):
    asked, run = list(questions), result.runs["bm25"].copy()
    verdicts, measures, given = sample.gold.copy(), list(MEASURES), {"run": run, **systems}
    experiment(given, Collection("mine", asked, sample.passages, verdicts), measures, baseline="run")
    assert asked == questions and measures == MEASURES and list(given) == ["run", *systems]
    pd.testing.assert_frame_equal(run, result.runs["bm25"])
    pd.testing.assert_frame_equal(verdicts, sample.gold)


# ---------------------------------------------------------------- the paper's shape


def test_paper_table_has_systems_as_rows_and_data_sets_by_measures_as_columns(result):
    before = result.table.copy()
    wide = paper_table(result.table)
    assert wide.index.tolist() == ["bm25", "rank-bm25"]
    datasets = ["sample-arguana", "sample-kialo", "sample-opinionqa", MACRO]
    assert wide.columns.tolist() == [(d, m) for d in datasets for m in MEASURES]
    for system, dataset, measure in [("bm25", MACRO, "MRecall@5"), ("rank-bm25", "sample-kialo", "Precision@10")]:
        mean = cell(result.table, system, dataset, measure).mean
        assert wide.loc[system, (dataset, measure)] == round(100 * mean, 1)
        assert paper_table(result.table, percent=False).loc[system, (dataset, measure)] == round(mean, 3)
    pd.testing.assert_frame_equal(result.table, before)


def test_paper_table_shows_intervals_and_stars():
    rows = [
        ("z", "d", "M@5", 9, 0.63213, 0.5512, 0.7088, 0.2, 0.049),
        ("a", "d", "M@5", 9, 0.43213, 0.3512, 0.5088, 0.0, np.nan),
        ("m", "d", "M@5", 9, 0.5, 0.4, 0.6, 0.07, 0.05),
    ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    assert paper_table(table, intervals=True)[("d", "M@5")].to_dict() == {
        "z": "63.2* [55.1, 70.9]",
        "a": "43.2 [35.1, 50.9]",
        "m": "50.0 [40.0, 60.0]",
    }
    assert paper_table(table, percent=False, intervals=True).iloc[0, 0] == "0.632* [0.551, 0.709]"
    assert paper_table(table).index.tolist() == ["z", "a", "m"]  # as given, not by the alphabet


# ---------------------------------------------------------------- whatever a system returns


class Own:
    """A user's own retriever, which returns what it was told to."""

    name = "own"

    def __init__(self, frame):
        self.frame = frame

    def search(self, questions, k):
        return self.frame


ASKED = [Question("q", "Cats?", ("Cats purr.", "Cats bite."))]
CORPUS = [Passage("a", "Cats purr."), Passage("b", "Cats bite."), Passage("c", "Dogs bark.")]
YES = make_verdicts([("q", 0, "a", 1.0, True), ("q", 1, "b", 1.0, True)], "hand")
CATS = Collection("cats", ASKED, CORPUS, YES)


def test_a_retriever_that_counts_from_0_is_ranked_by_its_scores():
    frame = pd.DataFrame({"qid": "q", "docno": list("cab"), "rank": [2, 0, 1], "score": [1.0, 3.0, 2.0]})
    found = experiment({"own": Own(frame)}, CATS, ["MRecall@2", "Precision@2"], judge=Overlap())
    pd.testing.assert_frame_equal(found.runs["own"], make_run(["q"] * 3, list("abc"), [3.0, 2.0, 1.0]))
    assert found.verdicts["docno"].unique().tolist() == ["a", "b"]
    assert found.scores["own"].iloc[0].tolist() == [1.0, 1.0]


def test_names_of_files_are_safe_and_never_shared():
    names = ["bm25", "minilm+mmr:0.9", "hf:a/b-c", "hf:a-b/c", "../x", "a b", "A B", "x" * 300, ""]
    stems = file_stems(names)
    assert stems["bm25"] == "bm25" and stems["minilm+mmr:0.9"] == "minilm+mmr-0.9"
    assert len({stem.casefold() for stem in stems.values()}) == len(names)
    assert all(re.fullmatch(r"[\w+=][\w.+=-]*", stem) and len(stem) <= 120 for stem in stems.values())
    assert file_stems(reversed(names)) == {name: stems[name] for name in reversed(names)}


def test_an_experiment_is_written_and_read_back(tmp_path):
    systems = {"hf:a/b-c": ranked_run({"q": ["a", "b"]}), "hf:a-b/c": ranked_run({"q": ["c"]})}
    found = experiment(systems, CATS, ["MRecall@2"])
    write_experiment(tmp_path / "out", found)
    stems = file_stems(systems)
    for name, run in found.runs.items():
        pd.testing.assert_frame_equal(read_trec_run(tmp_path / "out" / f"{stems[name]}.trec"), run)
    pd.testing.assert_frame_equal(read_verdicts(tmp_path / "out" / "verdicts.tsv"), found.verdicts)
    assert pd.read_csv(tmp_path / "out" / "scores.csv")["system"].tolist() == found.table["system"].tolist()
    assert len(list((tmp_path / "out").iterdir())) == 4


def test_a_data_set_named_as_the_mean_of_all_is_refused(systems, sample):
    renamed = [q._replace(source="macro") for q in sample.questions]
    with pytest.raises(InputError, match="'macro' stands for the mean over all data sets"):
        experiment(systems, sample.only(renamed), MEASURES)


# ---------------------------------------------------------------- ways to name systems


class Fixed:
    """Lists the same passages for everything that it is asked, and keeps what that was."""

    def __init__(self, name, *docnos):
        self.name, self.docnos, self.asked = name, docnos, []

    def search(self, questions, k):
        self.asked += [(q.qid, q.text, k) for q in questions]
        return ranked_run({q.qid: self.docnos[:k] for q in questions})


def systems_of(found):
    return list(dict.fromkeys(found.table["system"]))


def test_one_system_a_list_and_a_mapping():
    ab, run = Fixed("ab", "a", "b"), ranked_run({"q": ["c"]})
    alone = experiment("bm25", CATS, "MRecall@2")
    assert systems_of(alone) == ["bm25"]
    pd.testing.assert_frame_equal(alone.runs["bm25"], make_retriever("bm25", CORPUS).search(ASKED, 2))
    assert systems_of(experiment(ab, CATS, "MRecall@2")) == ["ab"]
    listed = experiment(["bm25", ab], CATS, "MRecall@2", baseline="ab")
    assert systems_of(listed) == ["bm25", "ab"] and listed.baseline == "ab"
    assert listed.scores["ab"].iloc[0, 0] == 1.0
    named = experiment({"ours": ab, "words": "bm25", "theirs": run}, CATS, "MRecall@2", baseline="theirs")
    assert systems_of(named) == ["ours", "words", "theirs"]
    pd.testing.assert_frame_equal(named.runs["theirs"], run)
    pd.testing.assert_frame_equal(named.runs["words"], alone.runs["bm25"])
    assert systems_of(experiment(("bm25", "rank-bm25"), CATS, "MRecall@2")) == ["bm25", "rank-bm25"]
    assert systems_of(experiment(" bm25 ", CATS, "MRecall@2")) == ["bm25"]


def test_systems_that_share_a_beginning_search_it_once(own_names):
    first = Fixed("mine", "b", "a")
    RETRIEVERS.add("mine", own_retriever(lambda passages: first))
    names = ["mine", "mine+mmr:1", "mine+cover:1"]
    found = experiment(names, CATS, "MRecall@2", depth=2)
    assert first.asked == [("q", "Cats?", 2)]
    assert all(run["docno"].tolist() == ["b", "a"] for run in found.runs.values())
    assert systems_of(found) == names


@pytest.fixture
def own_names(monkeypatch):
    """What a test adds to the retrievers is gone after it."""
    monkeypatch.setattr(RETRIEVERS, "_things", dict(RETRIEVERS))


# ---------------------------------------------------------------- several collections

DOGS = Collection(
    "dogs",
    [Question("w", "Dogs?", ("Dogs bark.", "Dogs sleep."), source="dogs")],
    [Passage("a", "Dogs bark."), Passage("z", "Dogs sleep.")],
    make_verdicts([("w", 0, "a", 1.0, True), ("w", 1, "z", 1.0, True)], "hand"),
)


def test_each_collection_is_searched_and_judged_by_itself():
    """Two corpora may use the same docno: a run belongs to the questions of its collection."""
    both = experiment("bm25", [CATS, DOGS], ["MRecall@2", "Precision@1"])
    alone = [experiment("bm25", one, ["MRecall@2", "Precision@1"]) for one in (CATS, DOGS)]
    pd.testing.assert_frame_equal(both.runs["bm25"], pd.concat([one.runs["bm25"] for one in alone], ignore_index=True))
    pd.testing.assert_frame_equal(both.scores["bm25"], pd.concat([one.scores["bm25"] for one in alone]))
    assert both.table["dataset"].unique().tolist() == ["cats", "dogs", MACRO]
    means = both.table[both.table["measure"] == "MRecall@2"].set_index("dataset")["mean"]
    assert means[MACRO] == pytest.approx((means["cats"] + means["dogs"]) / 2)
    judged = experiment("bm25", [CATS, DOGS], "MRecall@2", judge="overlap")
    texts = {("q", p.docno): p.text for p in CORPUS} | {("w", p.docno): p.text for p in DOGS.passages}
    asked = {q.qid: q.perspectives for q in (*ASKED, *DOGS.questions)}
    for row in judged.verdicts.itertuples():
        passage = Passage(row.docno, texts[row.qid, row.docno])
        assert row.p_yes == Overlap().p_yes([Pair(row.qid, row.pid, passage, asked[row.qid][row.pid])])[0]
    assert set(judged.verdicts["qid"]) == {"q", "w"}


def test_what_several_collections_cannot_share():
    with pytest.raises(InputError, match=r"'ab' searches one corpus, and there are several; bd.register"):
        experiment([Fixed("ab", "a")], [CATS, DOGS], "MRecall@2")
    with pytest.raises(InputError, match="question id 'q' occurs twice"):
        experiment("bm25", [CATS, CATS], "MRecall@2")
    bare = Collection("bare", DOGS.questions, DOGS.passages)
    with pytest.raises(InputError, match="'bare' has no recorded verdicts"):
        experiment("bm25", [CATS, bare], "MRecall@2")


# ---------------------------------------------------------------- p-Recall: a list for each perspective


def test_p_recall_searches_from_each_perspective():
    one = Fixed("one", "a")
    found = experiment(one, CATS, "pRecall@1")
    assert found.scores["one"].iloc[0, 0] == 0.5  # "a" answers the first perspective, and not the second
    assert [(qid, text) for qid, text, _ in one.asked] == [("q#0", "Cats? Cats purr."), ("q#1", "Cats? Cats bite.")]
    assert set(found.runs["one"]["qid"]) == {"q#0", "q#1"}
    both = Fixed("both", "a")
    mixed = experiment(both, CATS, ["MRecall@2", "pRecall@1"])
    assert Counter(qid for qid, _, _ in both.asked) == Counter(["q", "q#0", "q#1"])
    assert mixed.scores["both"].iloc[0].tolist() == [0.0, 0.5]
    only = Fixed("only", "a")
    experiment(only, CATS, "MRecall@2")
    assert [qid for qid, _, _ in only.asked] == ["q"]


def test_p_recall_of_a_run_needs_the_lists_of_perspectives():
    with pytest.raises(InputError, match="perspective"):
        experiment({"theirs": ranked_run({"q": ["a", "b"]})}, CATS, "pRecall@2")
    lists = ranked_run({"q#0": ["b", "a"], "q#1": ["b"]})
    assert experiment({"theirs": lists}, CATS, "pRecall@2").scores["theirs"].iloc[0, 0] == 1.0
    assert experiment({"theirs": lists}, CATS, "pRecall@1").scores["theirs"].iloc[0, 0] == 0.5


# ---------------------------------------------------------------- what is shown


def test_an_experiment_shows_the_table_of_the_paper():
    found = experiment({"ab": Fixed("x", "a", "b"), "c <i>": Fixed("y", "c")}, CATS, "MRecall@2", baseline="ab")
    text, page, latex = repr(found), found._repr_html_(), found.to_latex()
    assert found.shown.columns.tolist() == ["MRecall@2"]  # of one data set the mean over all would say the same again
    assert found.shown.loc["ab", "MRecall@2"] == "100.0 [20.7, 100.0]"
    for shown in (text, page, latex):
        assert "100.0 [20.7, 100.0]" in shown and "n = 1" in shown
    assert found.caption == (
        "Percent with 95% intervals (Wilson); cats n = 1; verdicts: gold; "
        "* differs from ab (paired test, Holm, p < .05)."
    )
    assert "c &lt;i&gt;" in page and "<i>" not in page
    assert "\\toprule" in latex
    assert "*" not in experiment("bm25", CATS, "MRecall@2", baseline="bm25").caption  # nothing is tested
    two = experiment("bm25", [CATS, DOGS], "MRecall@2")
    assert two.shown.columns.tolist() == [(d, "MRecall@2") for d in ("cats", "dogs", MACRO)]
    assert two.caption == "Percent with 95% intervals (Wilson); cats n = 1, dogs n = 1; verdicts: gold."


def test_systems_that_share_a_letter_do_not_differ(systems, sample, result):
    shown = result.with_letters()
    of = compare.letters(result.scores, result.questions, "Precision@10")
    plain, lettered = result.shown[MACRO], shown.shown[MACRO]
    for system in systems:
        assert lettered.loc[system, "Precision@10"] == f"{plain.loc[system, 'Precision@10']} {of[system]}"
    assert "share a letter" in shown.caption and "share a letter" not in result.caption
    for text in (repr(shown), shown._repr_html_(), shown.to_latex()):
        assert lettered.iloc[0, 0] in text
    assert shown.shown.drop(columns=MACRO, level=0).equals(result.shown.drop(columns=MACRO, level=0))
    with pytest.raises(InputError, match="two systems"):
        experiment("bm25", sample, "MRecall@5").with_letters()


def test_pairs_and_questions_needed_are_those_of_the_scores(result):
    measure = parse_measure("Precision@10")
    for found in (result.pairs(measure), result.pairs("Precision@10")):
        pd.testing.assert_frame_equal(found, compare.all_pairs(result.scores, result.questions, "Precision@10"))
    assert result.pairs(measure, "bm25")["second"].tolist() == ["bm25"]
    assert "\\toprule" in result.pairs(measure).to_latex()
    needed = result.questions_for(measure, [0.05], baselines="bm25")
    pd.testing.assert_frame_equal(
        needed, compare.questions_for(result.scores, result.questions, "Precision@10", [0.05], baselines="bm25")
    )
    with pytest.raises(InputError, match="measure"):
        result.pairs("Precision@3")


def test_the_caption_says_which_intervals():
    graded, wide = [0.2, 1.0], [0.0, 1.7]
    questions = [Question(f"q{i}", f"{i}?", ("Yes.",)) for i in range(2)]

    def caption(**columns):
        scores = {"s": pd.DataFrame(columns, index=["q0", "q1"])}
        table = score_table(scores, questions)
        return Experiment(table, scores, {}, make_verdicts([], "gold")).caption

    assert "intervals (Wilson);" in caption(M=[0.0, 1.0])
    assert "intervals (Wilson; graded scores with their own spread);" in caption(M=[0.0, 1.0], P=graded)
    assert "intervals (Wilson; rKL@2: Student's t);" in caption(M=[0.0, 1.0], **{"rKL@2": wide})


HOSTILE = r"c$\write18{id} 50% a&b_#~^\\ }{ [x] \end{table}"


@given(st.text(alphabet=r"aZ %&_$#{}~^\[]<é"))
def test_tex_prints_what_was_escaped(text):
    assert printed(escape(text)) == " ".join(text.split())


def test_latex_holds_whatever_a_collection_is_called():
    asked = [q._replace(source="") for q in CATS.questions]
    hostile = Collection(HOSTILE, asked, CATS.passages, CATS.gold)
    for data in (hostile, [hostile, DOGS]):
        found = experiment(["bm25", "rank-bm25"], data, "MRecall@2", baseline="bm25")
        assert HOSTILE in found.caption and caption_of(found.to_latex()) == found.caption
