"""The experiment table against the measures and statistics it is made of, on the shipped sample."""

import re

import numpy as np
import pandas as pd
import pytest

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.records import Passage, Question, make_run, make_verdicts, ranked_run
from berdslib.data.trec import read_trec_run, read_verdicts
from berdslib.errors import InputError
from berdslib.evaluation.measures import MRecall, Precision, alpha_nDCG, evaluate, parse_measure
from berdslib.judging.baselines import Gold, Overlap
from berdslib.judging.store import VerdictStore
from berdslib.retrieval.retrievers import make_retriever
from berdslib.stats import bootstrap_interval, holm, paired_test
from berdslib.study.experiment import MACRO, experiment, file_stems, paper_table, score_table, write_experiment

MEASURES = ["MRecall@5", "Precision@10", "alpha_nDCG@10"]
COLUMNS = ["system", "dataset", "measure", "n", "mean", "low", "high", "difference", "p_value"]


@pytest.fixture(scope="module")
def questions():
    return load_questions("sample", "test")


@pytest.fixture(scope="module")
def gold():
    return load_gold("sample")


@pytest.fixture(scope="module")
def passages():
    return load_passages("sample")


@pytest.fixture(scope="module")
def systems(passages):
    return {name: make_retriever(name, passages) for name in ("bm25", "rank-bm25")}


@pytest.fixture(scope="module")
def result(systems, questions, gold):
    return experiment(systems, questions, MEASURES, verdicts=gold, baseline="rank-bm25")


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


def test_means_are_those_of_evaluate(result, systems, questions, gold):
    measures = [parse_measure(m) for m in MEASURES]
    for name, system in systems.items():
        run = system.search(questions, 10)
        pd.testing.assert_frame_equal(result.runs[name], run)
        scores = evaluate(run, gold, questions, measures)
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


def test_intervals_and_tests_are_those_of_the_significance_module(result, questions):
    sources = [q.source for q in questions]
    kialo = np.array(sources) == "sample-kialo"
    for measure in MEASURES:
        ours, base = (result.scores[s][measure].to_numpy() for s in ("bm25", "rank-bm25"))
        for dataset, a, b, groups in (
            (MACRO, ours, base, sources),
            ("sample-kialo", ours[kialo], base[kialo], None),
        ):
            row = cell(result.table, "bm25", dataset, measure)
            assert (row.low, row.high) == pytest.approx(bootstrap_interval(a, groups))
            assert row.p_value == pytest.approx(paired_test(a, b, groups))


def test_the_difference_is_to_the_baseline(result, systems, questions, gold):
    ours, base = (result.table[result.table.system == s].set_index(["dataset", "measure"]) for s in systems)
    np.testing.assert_allclose(ours["difference"], ours["mean"] - base["mean"], atol=1e-12)
    assert (base["difference"] == 0).all() and base["p_value"].isna().all()
    assert ours["p_value"].between(0, 1).all()
    alone = experiment(systems, questions, MEASURES, verdicts=gold)
    assert alone.table[["difference", "p_value"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(alone.table[COLUMNS[:7]], result.table[COLUMNS[:7]])


def test_p_values_are_corrected_over_the_systems(result, questions):
    rng = np.random.default_rng(0)
    names = ["base", "a", "b", "c"]
    scores = {
        name: pd.DataFrame({"M": np.clip(rng.random(16) + 0.15 * i, 0, 1)}, index=[q.qid for q in questions])
        for i, name in enumerate(names)
    }
    table = score_table(scores, questions, baseline="base")
    raw = [paired_test(scores[n]["M"], scores["base"]["M"], [q.source for q in questions]) for n in names[1:]]
    assert [cell(table, n, MACRO, "M").p_value for n in names[1:]] == pytest.approx(holm(raw))
    assert holm(raw) != pytest.approx(raw)


def test_gold_as_a_judge_scores_as_gold_verdicts_do(result, systems, questions, passages, gold):
    judged = experiment(systems, questions, MEASURES, judge=Gold(gold), passages=passages, baseline="rank-bm25")
    pd.testing.assert_frame_equal(judged.table, result.table)


def test_a_judge_is_asked_once_for_what_several_systems_list(systems, questions, passages, tmp_path):
    class Counting(Overlap):
        asked = 0

        def p_yes(self, pairs):
            self.asked += len(pairs)
            return super().p_yes(pairs)

    judge, store = Counting(), VerdictStore(tmp_path / "v.sqlite")
    found = experiment(systems, questions, [MRecall @ 5], judge=judge, passages=passages, store=store)
    listed = pd.concat(found.runs.values()).drop_duplicates(["qid", "docno"])
    perspectives = {q.qid: len(q.perspectives) for q in questions}
    assert judge.asked == len(found.verdicts) == listed["qid"].map(perspectives).sum() == len(store)
    for name, run in found.runs.items():
        pd.testing.assert_frame_equal(found.scores[name], evaluate(run, found.verdicts, questions, [MRecall @ 5]))
    again = experiment(systems, questions, [MRecall @ 5], judge=judge, passages=passages, store=store)
    assert judge.asked == len(found.verdicts)
    pd.testing.assert_frame_equal(again.table, found.table)


def test_with_a_judge_all_systems_face_the_same_ideal_list():
    """Scored against its own list alone, the system that found the lesser passage would be called perfect."""
    asked = [Question("q", "Cats?", ("Cats purr.", "Cats bite."))]
    passages = [Passage("one", "Cats purr."), Passage("both", "Cats purr. Cats bite.")]
    lists = {"good": ranked_run({"q": ["both"]}), "lesser": ranked_run({"q": ["one"]})}
    found = experiment(lists, asked, [alpha_nDCG @ 1], judge=Overlap(threshold=1.0), passages=passages)
    assert found.scores["good"].iloc[0, 0] == 1.0
    assert found.scores["lesser"].iloc[0, 0] == 0.5


def test_a_finished_run_is_a_system(result, systems, questions, gold):
    shuffled = result.runs["bm25"].sample(frac=1.0, random_state=0).drop(columns="rank")
    mixed = experiment(
        {"bm25": shuffled, "rank-bm25": systems["rank-bm25"]}, questions, MEASURES, verdicts=gold, baseline="rank-bm25"
    )
    pd.testing.assert_frame_equal(mixed.table, result.table)
    # A run may lack questions, which then count 0, and hold questions that nobody asked.
    some = result.runs["bm25"][lambda r: r["qid"].isin([q.qid for q in questions[:4]])]
    found = experiment({"some": some}, questions[2:], [Precision @ 10], verdicts=gold).scores["some"]["Precision@10"]
    assert found.index.tolist() == [q.qid for q in questions[2:]]
    assert (found.iloc[:2] == result.scores["bm25"]["Precision@10"].iloc[2:4]).all() and (found.iloc[2:] == 0).all()


def test_the_largest_cut_off_says_how_deep_to_retrieve(systems, questions, gold):
    found = experiment(systems, questions, ["MRecall@3", MRecall @ 7, "MRecall@7"], verdicts=gold)
    assert {run["rank"].max() for run in found.runs.values()} == {7}
    assert list(found.scores["bm25"].columns) == ["MRecall@3", "MRecall@7"]


def test_questions_without_a_source_are_one_data_set(systems, questions, gold):
    asked = [q._replace(source="") for q in questions]
    table = experiment(systems, asked, [MRecall @ 5], verdicts=gold).table
    assert table["dataset"].tolist() == ["questions"] * 2 + [MACRO] * 2
    assert table["mean"].tolist()[:2] == table["mean"].tolist()[2:]


def test_errors_say_what_is_missing(systems, questions, passages, gold):
    def run(these=systems, measures=(MRecall @ 5,), **options):
        return experiment(these, questions, measures, **options)

    with pytest.raises(InputError, match="at least one system"):
        run({}, verdicts=gold)
    with pytest.raises(InputError, match="one measure"):
        run(measures=[], verdicts=gold)
    with pytest.raises(InputError, match="either verdicts or a judge"):
        run()
    with pytest.raises(InputError, match="either verdicts or a judge"):
        run(verdicts=gold, judge=Gold(gold))
    with pytest.raises(InputError, match=r"unknown baseline 'bm52'. Did you mean 'bm25'\?"):
        run(verdicts=gold, baseline="bm52")
    with pytest.raises(InputError, match="MRecall needs a cut-off, such as MRecall@5"):
        run(measures=["Precision@5", "MRecall"], verdicts=gold)
    with pytest.raises(InputError, match="unknown measure 'MRecal'"):
        run(measures=["MRecal@5"], verdicts=gold)
    with pytest.raises(InputError, match="which is not in the corpus"):
        run(judge=Overlap(), passages=passages[:3])
    with pytest.raises(InputError, match="no questions"):
        experiment(systems, [], [MRecall @ 5], verdicts=gold)


def test_inputs_are_left_as_they_are(result, systems, questions, gold):
    asked, run = list(questions), result.runs["bm25"].copy()
    verdicts, measures, given = gold.copy(), list(MEASURES), {"run": run, **systems}
    experiment(given, asked, measures, verdicts=verdicts, baseline="run")
    assert asked == questions and measures == MEASURES and list(given) == ["run", *systems]
    pd.testing.assert_frame_equal(run, result.runs["bm25"])
    pd.testing.assert_frame_equal(verdicts, gold)


def test_the_same_seed_gives_the_same_table(result, systems, questions, gold):
    for seed, same in ((0, True), (1, False)):
        table = experiment(systems, questions, MEASURES, verdicts=gold, baseline="rank-bm25", seed=seed).table
        assert table.equals(result.table) == same
        assert table["mean"].equals(result.table["mean"])


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


def test_verdicts_that_support_nothing_score_zero(systems, questions):
    none = make_verdicts([(questions[0].qid, 0, "d", 0.0, False)], "gold")
    table = experiment(systems, questions, [MRecall @ 5], verdicts=none, baseline="bm25").table
    assert (table[["mean", "low", "high", "difference"]] == 0).all(axis=None)
    assert (table.loc[table.system == "rank-bm25", "p_value"] == 1).all()
    other = make_verdicts([("elsewhere", 0, "d", 1.0, True)], "gold")
    with pytest.raises(InputError, match="do not belong together: 'elsewhere'"):
        experiment(systems, questions, [MRecall @ 5], verdicts=other)


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


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame({"qid": "q", "docno": ["a"] * 3, "score": [3.0, 2.0, 1.0]}), "own: passage 'a' is listed twice"),
        (pd.DataFrame({"qid": "q", "docno": ["a"], "score": [np.nan]}), "own: score of passage 'a'"),
        (pd.DataFrame({"query": ["q"]}), "own: a run needs columns"),
        (None, "own: .*not NoneType"),
    ],
)
def test_a_retriever_of_ones_own_is_checked(frame, words):
    with pytest.raises(InputError, match=words):
        experiment({"own": Own(frame)}, ASKED, ["nDCG@3"], verdicts=YES)


def test_a_retriever_that_counts_from_0_is_ranked_by_its_scores():
    frame = pd.DataFrame({"qid": "q", "docno": list("cab"), "rank": [2, 0, 1], "score": [1.0, 3.0, 2.0]})
    found = experiment({"own": Own(frame)}, ASKED, ["MRecall@2", "Precision@2"], judge=Overlap(), passages=CORPUS)
    pd.testing.assert_frame_equal(found.runs["own"], make_run(["q"] * 3, list("abc"), [3.0, 2.0, 1.0]))
    assert found.verdicts["docno"].unique().tolist() == ["a", "b"]
    assert found.scores["own"].iloc[0].tolist() == [1.0, 1.0]


def test_verdicts_as_0_and_1_or_as_probabilities():
    run = ranked_run({"q": list("abc")})
    want = experiment({"own": run}, ASKED, MEASURES, verdicts=YES).table
    for same in (YES.assign(supports=YES["supports"].astype(int)), YES.drop(columns="supports")):
        pd.testing.assert_frame_equal(experiment({"own": run}, ASKED, MEASURES, verdicts=same).table, want)


def test_without_a_store_too_the_union_is_judged_once():
    class Counting(Overlap):
        asked = 0

        def p_yes(self, pairs):
            self.asked += len(pairs)
            return super().p_yes(pairs)

    judge, run = Counting(), ranked_run({"q": ["a", "b"]})
    found = experiment({f"s{i}": run for i in range(5)}, ASKED, ["MRecall@2"], judge=judge, passages=CORPUS)
    assert judge.asked == 4 == len(found.verdicts)
    judge = Counting()
    longer = ranked_run({"q": ["c", "a", "b"]})
    found = experiment({"one": run, "two": longer}, ASKED, ["MRecall@2"], judge=judge, passages=CORPUS)
    assert judge.asked == 6 == len(found.verdicts)  # the top two of both


def test_names_of_files_are_safe_and_never_shared():
    names = ["bm25", "minilm+mmr:0.9", "hf:a/b-c", "hf:a-b/c", "../x", "a b", "A B", "x" * 300, ""]
    stems = file_stems(names)
    assert stems["bm25"] == "bm25" and stems["minilm+mmr:0.9"] == "minilm+mmr-0.9"
    assert len({stem.casefold() for stem in stems.values()}) == len(names)
    assert all(re.fullmatch(r"[\w+=][\w.+=-]*", stem) and len(stem) <= 120 for stem in stems.values())
    assert file_stems(reversed(names)) == {name: stems[name] for name in reversed(names)}


def test_an_experiment_is_written_and_read_back(tmp_path):
    systems = {"hf:a/b-c": ranked_run({"q": ["a", "b"]}), "hf:a-b/c": ranked_run({"q": ["c"]})}
    found = experiment(systems, ASKED, ["MRecall@2"], verdicts=YES)
    write_experiment(tmp_path / "out", found)
    stems = file_stems(systems)
    for name, run in found.runs.items():
        pd.testing.assert_frame_equal(read_trec_run(tmp_path / "out" / f"{stems[name]}.trec"), run)
    pd.testing.assert_frame_equal(read_verdicts(tmp_path / "out" / "verdicts.tsv"), found.verdicts)
    assert pd.read_csv(tmp_path / "out" / "scores.csv")["system"].tolist() == found.table["system"].tolist()
    assert len(list((tmp_path / "out").iterdir())) == 4


def test_a_list_of_systems_is_refused(systems, questions, gold):
    with pytest.raises(InputError, match="systems must be a mapping, name → retriever or run, not a list"):
        experiment(list(systems.values()), questions, MEASURES, verdicts=gold)


def test_one_measure_needs_no_list(systems, questions, gold):
    several = experiment(systems, questions, ["MRecall@5"], verdicts=gold)
    for one in ("MRecall@5", MRecall @ 5):
        pd.testing.assert_frame_equal(experiment(systems, questions, one, verdicts=gold).table, several.table)


def test_a_data_set_named_as_the_mean_of_all_is_refused(systems, questions, gold):
    renamed = [q._replace(source="macro") for q in questions]
    with pytest.raises(InputError, match="'macro' stands for the mean over all data sets"):
        experiment(systems, renamed, MEASURES, verdicts=gold)
