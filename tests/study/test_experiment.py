"""The experiment table against the measures and statistics it is made of, on the shipped sample."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tex import caption_of, printed

from berdslib.data.collection import Collection
from berdslib.data.datasets import load
from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.data.trec import read_trec_run, read_verdicts
from berdslib.errors import InputError
from berdslib.evaluation.measures import MRecall, Precision, evaluate
from berdslib.judging.base import Pair
from berdslib.judging.baselines import Overlap
from berdslib.judging.store import VerdictStore
from berdslib.retrieval.retrievers import dense, make_retriever
from berdslib.stats import mean_interval, paired_test
from berdslib.study.experiment import Choice, choose, experiment, write_experiment
from berdslib.study.tables import MACRO, escape, file_stems

MEASURES = ["MRecall@5", "Precision@10", "alpha_nDCG@10"]
COLUMNS = ["system", "dataset", "measure", "n", "mean", "low", "high", "difference", "p_value"]


@pytest.fixture(scope="module")
def sample():
    return load("sample", split="test")


@pytest.fixture(scope="module")
def questions(sample):
    return sample.questions


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


def test_means_are_those_of_evaluate_for_each_data_set_and_over_all(result, systems, sample, questions):
    sources = [q.source for q in questions]
    assert list(result.table.columns) == COLUMNS and len(result.table) == len(systems) * 4 * len(MEASURES)
    sizes = {MACRO: {len(questions)}} | {source: {sources.count(source)} for source in sources}
    assert result.table.groupby("dataset")["n"].agg(set).to_dict() == sizes and len(sizes) == 4
    for name, system in systems.items():
        run = system.search(questions, 10)
        pd.testing.assert_frame_equal(result.runs[name], run)
        scores = evaluate(run, sample.gold, questions, MEASURES)
        pd.testing.assert_frame_equal(result.scores[name], scores)
        by_dataset = scores.groupby(sources).mean()
        for measure in MEASURES:
            for dataset, mean in (by_dataset[measure].to_dict() | {MACRO: by_dataset[measure].mean()}).items():
                assert cell(result.table, name, dataset, measure).mean == pytest.approx(mean)
            assert abs(by_dataset[measure].mean() - scores[measure].mean()) > 1e-9  # data sets differ in size


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
    assert experiment(systems, sample, "P@1").table[["difference", "p_value"]].isna().all(axis=None)


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
    assert judge.asked == len(found.verdicts) and again.table.equals(found.table)


def test_a_finished_run_is_a_system(result, systems, sample, questions):
    shuffled = result.runs["bm25"].sample(frac=1.0, random_state=0).drop(columns="rank")
    mixed = experiment({"bm25": shuffled, "rank-bm25": systems["rank-bm25"]}, sample, MEASURES, baseline="rank-bm25")
    pd.testing.assert_frame_equal(mixed.table, result.table)
    # A run may lack questions, which then count 0, and hold questions that nobody asked.
    some = result.runs["bm25"][lambda r: r["qid"].isin([q.qid for q in questions[:4]])]
    found = experiment({"some": some}, sample.only(questions[2:]), [Precision @ 10]).scores["some"]["Precision@10"]
    assert found.index.tolist() == [q.qid for q in questions[2:]]
    assert (found.iloc[:2] == result.scores["bm25"]["Precision@10"].iloc[2:4]).all() and (found.iloc[2:] == 0).all()


ASKED = [Question("q", "Cats?", ("Cats purr.", "Cats bite."))]
CORPUS = [Passage("a", "Cats purr."), Passage("b", "Cats bite."), Passage("c", "Dogs bark.")]
YES = make_verdicts([("q", 0, "a", 1.0, True), ("q", 1, "b", 1.0, True)], "hand")
CATS = Collection("cats", ASKED, CORPUS, YES)


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
    alone = experiment(" bm25 ", CATS, "MRecall@2")
    pd.testing.assert_frame_equal(alone.runs["bm25"], make_retriever("bm25", CORPUS).search(ASKED, 2))
    assert systems_of(experiment(ab, CATS, "MRecall@2")) == ["ab"]
    listed = experiment(("bm25", ab), CATS, "MRecall@2", baseline="ab")
    assert systems_of(listed) == ["bm25", "ab"] and listed.scores["ab"].iloc[0, 0] == 1.0
    named = experiment({"ours": ab, "words": "bm25", "theirs": run}, CATS, "MRecall@2", baseline="theirs")
    assert systems_of(named) == ["ours", "words", "theirs"]
    pd.testing.assert_frame_equal(named.runs["theirs"], run)
    pd.testing.assert_frame_equal(named.runs["words"], alone.runs["bm25"])


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


def test_p_recall_searches_from_each_perspective():
    one = Fixed("one", "a")
    found = experiment(one, CATS, "pRecall@1")
    assert found.scores["one"].iloc[0, 0] == 0.5  # "a" answers the first perspective, and not the second
    assert [(qid, text) for qid, text, _ in one.asked] == [("q#0", "Cats? Cats purr."), ("q#1", "Cats? Cats bite.")]
    assert set(found.runs["one"]["qid"]) == {"q#0", "q#1"}
    both = Fixed("both", "a")
    mixed = experiment(both, CATS, ["MRecall@2", "pRecall@1"])
    assert sorted(qid for qid, _, _ in both.asked) == ["q", "q#0", "q#1"]
    assert mixed.scores["both"].iloc[0].tolist() == [0.0, 0.5]


def test_what_a_name_holds_cannot_steer_a_terminal():
    hostile = "\x1b[31mred\x07\u202e"
    found = experiment({hostile: Fixed("x", "a")}, Collection(hostile, CATS.questions, CATS.passages, CATS.gold))
    for shown in (repr(found), repr(Choice(hostile, found, found)), repr(CATS.only(CATS.questions))):
        assert not set(shown) & {"\x1b", "\x07", "\u202e"}
    assert "\\x1b[31mred\\x07\\u202e" in repr(found)


def test_an_experiment_shows_the_table_of_the_paper():
    found = experiment({"ab": Fixed("x", "a", "b"), "c <i>": Fixed("y", "c")}, CATS, "MRecall@2", baseline="ab")
    text, page, latex = repr(found), found._repr_html_(), found.to_latex()
    assert found.shown.columns.tolist() == ["MRecall@2"]  # of one data set the mean over all would say the same again
    assert found.shown.loc["ab", "MRecall@2"] == "100.0 [20.7, 100.0]"
    for shown in (text, page, latex):
        assert "100.0 [20.7, 100.0]" in shown and "n = 1" in shown
    untold = "nothing is shown to differ from ab (paired test, Holm, p < .05)"  # no star is in the table
    assert found.caption == f"Percent with 95% intervals (Wilson); cats n = 1; verdicts: gold; {untold}."
    assert caption_of(latex) == f"Systems on cats, 1 question. {found.caption}"
    assert caption_of(found.to_latex(caption="Mine & yours")) == "Mine & yours"
    assert "c &lt;i&gt;" in page and "<i>" not in page and "\\toprule" in latex
    two = experiment("bm25", [CATS, DOGS], "MRecall@2")
    assert two.shown.columns.tolist() == [(d, "MRecall@2") for d in ("cats", "dogs", MACRO)]
    assert two.caption == "Percent with 95% intervals (Wilson); cats n = 1, dogs n = 1; verdicts: gold."


HOSTILE = r"c$\write18{id} 50% a&b_#~^\\ }{ [x] \end{table}"


@given(st.text(alphabet=r"aZ %&_$#{}~^\[]<é"))
def test_tex_prints_what_was_escaped(text):
    assert printed(escape(text)) == " ".join(text.split())


def test_latex_holds_whatever_a_collection_is_called():
    asked = [q._replace(source="") for q in CATS.questions]
    hostile = Collection(HOSTILE, asked, CATS.passages, CATS.gold)
    for data in (hostile, [hostile, DOGS]):
        found = experiment(["bm25", "rank-bm25"], data, "MRecall@2", baseline="bm25")
        assert HOSTILE in found.caption and caption_of(found.to_latex()).endswith(f". {found.caption}")


def test_stars_are_explained_where_there_are_some_and_pairs_show_what_counts(sample):
    asked = [Question(f"q{i}", f"{i}?", ("Yes.",)) for i in range(12)]
    made = Collection("many", asked, gold=make_verdicts([(q.qid, 0, "d", 1.0, True) for q in asked], "gold"))
    runs = {name: ranked_run({q.qid: [docno] for q in asked}) for name, docno in (("minilm+mmr:0.9", "d"), ("no", "x"))}
    found = experiment(runs, made, "P@1", baseline="no")
    assert "100.0* [" in repr(found) and found.caption.endswith("* differs from no (paired test, Holm, p < .05).")
    assert "*" not in experiment(runs, made, "P@1").caption
    with pd.option_context("display.width", 80, "display.max_columns", 0):
        assert "p_value" in repr(found.pairs("P@1"))
    assert found.pairs("P@1", full=True).loc[0, ["wins", "ties", "losses"]].tolist() == [12, 0, 0]


def test_a_run_of_another_corpus_is_named(sample, caplog):
    lists = {q.qid: ["nowhere"] for q in sample.questions[1:]}
    experiment({"bm25": "bm25", "theirs": ranked_run(lists)}, sample, "P@1")
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == [
        "1 of 16 questions have no passage in theirs; they count as unanswered",
        "no verdict is about a passage in the top 10 of theirs; is it of another corpus?",
    ]


def test_a_model_is_a_system_over_every_corpus(sample):
    pair = experiment({"mine": dense("minilm"), "minilm": "minilm"}, [sample, CATS], "Precision@2")
    assert pair.scores["mine"].equals(pair.scores["minilm"]) and pair.scores["mine"].to_numpy().sum() > 0


def test_measures_of_whole_lists_are_those_of_trec_eval(sample):
    import ir_measures

    run = experiment("bm25", sample, "RR", depth=30).runs["bm25"]
    assert run.groupby("qid").size().max() == 30
    cut = run[run["rank"] <= 8]  # fewer than there are gold passages
    found = experiment({"cut": cut}, sample, [ir_measures.RR, ir_measures.AP, "nDCG"], depth=5)
    gains = sample.gold[sample.gold["qid"].isin(run["qid"])].groupby(["qid", "docno"], as_index=False)["supports"].sum()
    qrels = gains.rename(columns={"qid": "query_id", "docno": "doc_id", "supports": "relevance"})
    theirs = cut.rename(columns={"qid": "query_id", "docno": "doc_id"})
    for measure in (ir_measures.RR, ir_measures.AP, ir_measures.nDCG):
        want = {m.query_id: m.value for m in ir_measures.pytrec_eval.iter_calc([measure], qrels, theirs)}
        assert found.scores["cut"][str(measure)].to_dict() == pytest.approx(want, abs=1e-6), measure
    assert found.shown.columns.get_level_values(-1).unique().tolist() == ["RR", "AP", "nDCG"]
    with pytest.raises(InputError, match=r"MRecall needs a cut-off, such as MRecall@5; only RR, AP, nDCG do without"):
        experiment("bm25", sample, ["RR", MRecall])
    with pytest.raises(InputError, match="RR needs a cut-off"):
        choose(["bm25", "minilm"], load("sample", split="dev"), sample, "RR")


# ---------------------------------------------------------------- choosing, and systems of other tools


def test_what_is_best_on_dev_is_scored_once_on_test_beside_the_first_and_the_oracle():
    dev, held_out, names = load("sample", split="dev"), load("sample", split="test"), ["bm25", "minilm", "bm25+mmr:0.5"]
    choice = choose(names, dev, held_out, "Precision@5")
    tried = {name: experiment(name, dev, "Precision@5").scores[name].mean().iloc[0] for name in names}
    assert choice.system == max(tried, key=tried.get) == "minilm"
    ideal = "oracle (best order of bm25's 100, knows the verdicts)"
    assert list(choice.test.scores) == ["bm25", "minilm", ideal]
    alone = experiment("minilm", held_out, "Precision@5").scores["minilm"]
    assert choice.test.scores["minilm"].equals(alone)
    first, best = (choice.test.scores[name]["Precision@5"] for name in ("bm25", ideal))
    assert (best >= first).all() and best.mean() > first.mean()
    assert repr(choice).startswith("chosen of 3: minilm, ")
    same = choose(["bm25", "bm25+mmr:1"], dev, held_out)  # as good as the first: the first
    assert same.system == "bm25" and list(same.test.scores) == ["bm25", ideal]
    judged = choose(names[:2], dev, held_out, "Precision@5", judge=lambda pairs: [0.9] * len(pairs))
    assert list(judged.test.scores) == ["bm25"]  # both have 100; nobody judged the candidates of an oracle
    with pytest.raises(InputError, match="one measure is needed"):
        choose(names, dev, held_out, "MRecall@5,Precision@5")
    for systems, other, words in ((["bm25"], held_out, "two systems"), (names, load("sample", split="all"), "of both")):
        with pytest.raises(InputError, match=words):
            choose(systems, dev, other)


def test_a_pipeline_of_pyterrier_is_a_system(sample):
    import pyterrier as pt

    def search(topics):
        asked = [Question(row.qid, row.query) for row in topics.itertuples()]
        found = make_retriever("bm25", sample.passages).search(asked, 30)
        return found.merge(topics, on="qid").assign(rank=found["rank"] - 1)

    pipeline = pt.apply.generic(search) % 7
    both = experiment({"ours": "bm25", "theirs": pipeline}, sample, ["MRecall@5", "Precision@10"])
    ours, theirs = (both.runs[name] for name in ("ours", "theirs"))
    assert theirs.groupby("qid").size().max() == 7
    assert theirs[["qid", "docno"]].equals(ours[ours["rank"] <= 7][["qid", "docno"]].reset_index(drop=True))
    assert both.scores["ours"]["MRecall@5"].equals(both.scores["theirs"]["MRecall@5"])


def test_latex_has_a_label_short_names_of_judges_and_the_best_of_each_column_in_bold(sample):
    runs = {name: ranked_run({q.qid: list(docs) for q in sample.questions}) for name, docs in (("a", "x"), ("b", "xy"))}
    questions = [q._replace(source="one") for q in sample.questions]
    gold = make_verdicts([(q.qid, 0, "y", 1.0, True) for q in questions], "gold")
    text = experiment(runs, Collection("one", questions, gold=gold), ["Precision@2", "RR@2"]).to_latex("tab:mine")
    assert "\\label{tab:mine}" in text and text.count("\\textbf") == 2
    assert next(line for line in text.splitlines() if line.startswith("b &")).count("\\textbf{50.0 [") == 2
    starred = experiment(["bm25", "minilm"], sample, ["MRecall@5", "Precision@5"], baseline="bm25").to_latex()
    assert next(line for line in starred.splitlines() if line.startswith("minilm")).count("\\textbf{") >= 2
    assert "*" in starred
    judged = experiment("bm25", sample, "Precision@1", judge="overlap")
    assert judged.judge.startswith("overlap(english-stem") and "verdicts: overlap." in judged.caption


def test_of_a_measure_of_unfairness_the_least_is_best():
    explicit = load("perspectivearg-sample:explicit")
    dev, held_out = (explicit.only(part) for part in (explicit.questions[:40], explicit.questions[40:80]))
    choice = choose(["bm25", "bm25+profile:filter"], dev, held_out, "rKL@4")
    tried = choice.dev.table[choice.dev.table["dataset"] == MACRO].set_index("system")["mean"]
    assert tried.nunique() == 2 and choice.system == tried.idxmin()
    assert "\\textbf{" in choice.test.to_latex()
