"""The experiment table against the measures and statistics it is made of, on the shipped sample."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_scenarios import small_scenario
from tex import caption_of, printed

import berdslib as bd
from berdslib.data.collection import Collection
from berdslib.data.datasets import load
from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.data.trec import read_trec_run, read_verdicts
from berdslib.errors import InputError
from berdslib.evaluation.measures import MRecall, Precision, score_run
from berdslib.judging.base import EachByItself, Pair
from berdslib.judging.baselines import Overlap
from berdslib.judging.store import VerdictStore
from berdslib.models.cards import CARDS
from berdslib.models.encoders import get_encoder
from berdslib.paths import shipped
from berdslib.retrieval import systems as systems_module
from berdslib.retrieval.retrievers import RETRIEVERS, dense, make_retriever
from berdslib.retrieval.systems import parse_system
from berdslib.stats import mean_interval, paired_test
from berdslib.study import scoring
from berdslib.study.experiment import SETTINGS, Choice, check_folder, choose, experiment
from berdslib.study.front import evaluate as evaluate_at_the_door
from berdslib.study.front import register, search, supports
from berdslib.study.scoring import number_formats
from berdslib.study.tables import MACRO, escape, file_stems

MEASURES = ["MRecall@5", "Precision@10", "alpha_nDCG@10"]
COLUMNS = ["system", "dataset", "measure", "n", "mean", "low", "high", "difference", "p_value"]


def test_an_encoder_of_english_is_told_of_once_and_only_on_the_arguments(caplog, monkeypatch):
    scenario = small_scenario("ab", [0])
    other = Collection("other", scenario.questions, scenario.passages)
    scoring._tell_of_languages.cache_clear()

    def warned(*data):
        caplog.clear()
        for one in data:
            search("bm25", one, 1)
            search("minilm+mmr:0.9", one, 1)
        return sum(record.levelname == "WARNING" and "minilm" in record.getMessage() for record in caplog.records)

    assert warned(other) == 0
    assert warned(scenario, scenario) == 1
    card = CARDS["minilm"]._replace(multilingual=True)
    assert card.id == CARDS["minilm"].id  # its vectors are the same
    monkeypatch.setitem(CARDS, "minilm", card)
    scoring._tell_of_languages.cache_clear()
    assert warned(scenario) == 0


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
        scores = score_run(run, sample.gold, questions, MEASURES)
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
        pd.testing.assert_frame_equal(found.scores[name], score_run(run, found.verdicts, questions, [MRecall @ 5]))
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
    found.save(tmp_path / "out")
    stems = file_stems(systems)
    for name, run in found.runs.items():
        pd.testing.assert_frame_equal(read_trec_run(tmp_path / "out" / f"{stems[name]}.trec"), run)
    pd.testing.assert_frame_equal(read_verdicts(tmp_path / "out" / "verdicts.tsv"), found.verdicts)
    assert pd.read_csv(tmp_path / "out" / "scores.csv")["system"].tolist() == found.table["system"].tolist()
    settings = json.loads((tmp_path / "out" / SETTINGS).read_text())
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*settings["files"], SETTINGS}
    assert len(settings["files"]) == 8 and settings["questions"] == {"cats": 1} and settings["judge"] == "hand"
    assert settings["systems"]["hf:a/b-c"] == {"file": f"{stems['hf:a/b-c']}.trec", "passages": 2}
    assert settings["environment"]["versions"]["numpy"] == np.__version__ and settings["seed"] == 0


def test_an_experiment_is_opened_as_it_was(tmp_path, sample):
    found = experiment(["bm25", "rank-bm25"], sample, ["MRecall@5", "nDCG@10"], baseline="bm25", seed=3)
    found.save(tmp_path / "out")
    again = bd.open(tmp_path / "out")
    assert repr(again) == repr(found) and again.questions == found.questions and again.seed == 3
    pd.testing.assert_frame_equal(again.table, found.table)
    for name, scores in found.scores.items():
        pd.testing.assert_frame_equal(again.scores[name], scores)
    pd.testing.assert_frame_equal(again.pairs("nDCG@10", full=True), found.pairs("nDCG@10", full=True))
    for name in ("per_question.csv", SETTINGS):
        (tmp_path / "out" / name).rename(tmp_path / name)
        with pytest.raises(InputError):
            bd.open(tmp_path / "out")
        (tmp_path / name).rename(tmp_path / "out" / name)


def test_bold_needs_a_difference():
    runs = {"one": ranked_run({"q": ["a", "b"]}), "two": ranked_run({"q": ["c"]})}
    assert "textbf" in experiment(runs, CATS, "MRecall@2").to_latex()
    assert "textbf" not in experiment(runs, CATS, "MRecall@2", baseline="one").to_latex()


def test_an_experiment_replaces_another_as_a_whole_and_nothing_else(tmp_path):
    out, runs = tmp_path / "out", {"one": ranked_run({"q": ["a", "b"]}), "two": ranked_run({"q": ["c"]})}
    experiment(runs, CATS, "MRecall@2").save(out)
    experiment({"three": runs["one"]}, CATS, "P@1").save(out)
    assert {path.name for path in out.iterdir()} == {
        "three.trec", "three.ir_metadata.yaml",
        "verdicts.tsv", "scores.csv", "per_question.csv", "questions.jsonl", SETTINGS,
    }  # fmt: skip
    assert pd.read_csv(out / "scores.csv")["measure"].unique().tolist() == ["P@1"]
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InputError) as refused:
        experiment(runs, CATS, "MRecall@2").save(out)
    assert refused.value.path == out and "notes.txt" in str(refused.value)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before | {"notes.txt": b"mine"}
    (out / "notes.txt").unlink()
    for damaged in ("", "[]", '{"files": 5}', '{"files": [5]}'):
        (out / SETTINGS).write_text(damaged)
        with pytest.raises(InputError):
            check_folder(out)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "bm25.trec").write_text("")
    with pytest.raises(InputError):
        check_folder(tmp_path / "theirs")
    check_folder(tmp_path / "new")


def letters(texts):
    """How often each letter stands in a text: vectors that take no time."""
    return np.array([[text.lower().count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for text in texts], dtype=np.float32)


@pytest.mark.parametrize("parts", ["", "+mmr:0.5", "+expand:rule", "+multi:rule", "+multi:rule+mmr:0.9", "+cross:x"])
def test_longer_lists_change_no_score_and_begin_as_short_ones(sample, parts, monkeypatch):
    monkeypatch.setattr(RETRIEVERS, "_things", dict(RETRIEVERS))
    register("retriever", "letters", dense(letters))
    monkeypatch.setattr(systems_module, "load_scorer", lambda _: prefers_long)
    system, wanted = f"letters{parts}", ["MRecall@5", "nDCG@5"]
    short = experiment(system, sample, wanted)
    long = experiment(system, sample, wanted, list_length=100)
    assert long.table.equals(short.table) and long.caption == short.caption and long.verdicts.equals(short.verdicts)
    assert long.longest_lists[system] == 100 and short.longest_lists[system] == 5
    top = long.runs[system].query("rank <= 5").reset_index(drop=True)
    assert top[["qid", "docno", "rank"]].equals(short.runs[system][["qid", "docno", "rank"]])
    assert not long.runs[system].duplicated(["qid", "docno"]).any()
    assert experiment({"again": long.runs[system]}, sample, wanted).scores["again"].equals(short.scores[system])
    few = experiment(system, sample, wanted, list_length=100, depth=7)
    assert few.longest_lists[system] == (7 if parse_system(system).chooses else 100)


def prefers_long(pairs):
    """Score as a cross-encoder that prefers long passages."""
    return np.array([float(len(text)) for _, text in pairs])


def test_what_a_users_retriever_lists_beyond_k_is_cut():
    class Many:
        name = "many"

        def search(self, questions, k):
            return {q.qid: ["a", "b", "c"] for q in questions}

    assert len(experiment(Many(), CATS, "P@1").runs["many"]) == 1


# ---------------------------------------------------------------- questions without verdicts


def test_questions_without_a_verdict_are_left_out_for_all_systems_alike(sample):
    some = sample.questions[::3]
    gold = sample.gold[sample.gold["qid"].isin([q.qid for q in some])]
    part = Collection("part", sample.questions, sample.passages, gold)
    runs = {"bm25": "bm25", "theirs": ranked_run({some[0].qid: ["s001"], sample.questions[1].qid: ["s001"]})}
    measures = ["MRecall@5", "nDCG@10", "pRecall@5"]
    found = experiment({"bm25": "bm25"}, part, measures)
    want = experiment({"bm25": "bm25"}, sample.only(some), measures)
    assert found.scores["bm25"].equals(want.scores["bm25"]) and found.table["mean"].equals(want.table["mean"])
    assert list(found.questions) == list(want.questions)
    left = len(sample.questions) - len(some)
    assert f"{left} of {len(sample.questions)} questions" in found.caption and f"{left} of" not in want.caption
    both = experiment(runs, part, "P@1")
    assert both.scores["theirs"].index.tolist() == both.scores["bm25"].index.tolist() == [q.qid for q in some]
    with pytest.raises(InputError):
        experiment("bm25", sample.only([q for q in sample.questions if q not in some]), "P@1") and experiment(
            "bm25", part.only([q for q in sample.questions if q not in some]), "P@1"
        )
    judged = experiment(runs, part, "P@1", judge=lambda pairs: [1.0] * len(pairs))
    assert len(judged.questions) == len(sample.questions)  # somebody lists something for each


def test_of_a_judge_unanswered_questions_count_0_and_unread_ones_are_left_out():
    class Unreadable(EachByItself):
        id, threshold = "unreadable", 0.5

        def p_yes_each(self, pairs):
            return np.array([np.nan if "tea" in pair.perspective else 1.0 for pair in pairs]), None

    asked = [
        Question(qid, f"{qid}?", (f"{text} is good",)) for qid, text in (("a", "tea"), ("b", "rum"), ("c", "milk"))
    ]
    drinks = Collection("drinks", asked, CORPUS)
    found = experiment({"run": ranked_run({"a": ["a"], "b": ["b"]})}, drinks, "P@1", judge=Unreadable())
    assert found.scores["run"]["P@1"].to_dict() == {"b": 1.0, "c": 0.0}
    assert "1 of 3 questions" in found.caption and "1 of 2 pairs" in found.caption
    nothing = experiment({"run": ranked_run({})}, drinks, "P@1", judge=Unreadable())
    assert nothing.scores["run"]["P@1"].tolist() == [0, 0, 0]


def test_choosing_leaves_out_questions_without_a_verdict_also_in_the_oracle():
    dev, held_out = load("sample", split="dev"), load("sample", split="test")
    some = held_out.questions[:5]
    part = Collection(
        "part", held_out.questions, held_out.passages, held_out.gold[held_out.gold["qid"].isin([q.qid for q in some])]
    )
    choice, want = (choose(["bm25", "rank-bm25"], dev, data, "P@5") for data in (part, held_out.only(some)))
    assert choice.test.table["mean"].equals(want.test.table["mean"])
    assert "11 of 16 questions" in repr(choice) and "8 questions of dev" in repr(choice)


# ---------------------------------------------------------------- what captions say


def test_captions_name_splits_and_what_was_judged(sample):
    everything = load("sample", split="all")
    found = experiment(["bm25", "bm25+expand:rule"], everything, "MRecall@5")
    assert "all (dev 8, test 16)" in found.caption and "split: test" in experiment("bm25", sample, "P@1").caption
    for name, run in found.runs.items():
        judged = len(run.merge(everything.gold[["qid", "docno"]].drop_duplicates()))
        assert f"{name} {np.floor(1000 * judged / len(run)) / 10:g}%" in found.caption


def test_b3_scores_are_divided_by_the_largest_of_their_own_data_set_whatever_is_scored_beside_it():
    """Several data sets in several collections, or in one: MMR gives each the lists that it gives that one alone."""
    sample = load("sample", split="all")
    sources = list(dict.fromkeys(q.source for q in sample.questions))
    apart = [sample.only([q for q in sample.questions if q.source == source]) for source in sources]
    encoder = get_encoder("minilm")
    found = make_retriever("bm25", sample.passages).search(sample.questions, 100)
    vectors = {p.docno: encoder.encode_passages([p.full_text])[0] for p in sample.passages}

    def by_equation_1(candidates, largest):
        left, order = candidates.set_index("docno")["score"].to_dict(), []
        while left and len(order) < 5:
            worth = {
                d: 0.5 * s / largest - 0.5 * max((vectors[d] @ vectors[other] for other in order), default=0)
                for d, s in left.items()
            }
            order.append(max(worth, key=worth.get))
            del left[order[-1]]
        return order

    largest = {one.questions[0].source: found[found["qid"].isin([q.qid for q in one.questions])].score.max()
               for one in apart}  # fmt: skip
    lists = {q.qid: by_equation_1(found[found["qid"] == q.qid], largest[q.source]) for q in sample.questions}
    over_all = {q.qid: by_equation_1(found[found["qid"] == q.qid], found["score"].max()) for q in sample.questions}
    assert lists != over_all  # else it would make no difference here
    for data in (apart, sample):
        run = experiment("bm25+mmr:0.5", data, "MRecall@5").runs["bm25+mmr:0.5"]
        assert {qid: one["docno"].tolist() for qid, one in run.groupby("qid")} == lists


def test_number_formats_are_those_of_the_encoders_and_judges_that_took_part(monkeypatch):
    monkeypatch.setenv("BERDS_NUMBER_FORMAT", "bfloat16")
    for system in ("minilm", "bm25+mmr:0.5", "bm25+mmr:0.5@minilm", "minilm+pap:1"):
        assert number_formats({system: system}, "gold").split()[0] == "bfloat16"
    monkeypatch.setenv("BERDS_NUMBER_FORMAT", "float32")
    assert number_formats({"a": "bm25", "b": "minilm"}, "gold").split()[0] == "float32"
    assert number_formats({"a": "bm25"}, "laptop(1,bfloat16,calibration=1)") == "bfloat16"
    assert number_formats({"a": "bm25"}, "laptop(1,calibration=1)") == "float32"
    assert number_formats({"a": "bm25", "b": ranked_run({"q": ["a"]})}, "overlap(english-stem)") == ""


def test_lists_that_end_before_the_cutoff_are_named(sample):
    short = experiment("bm25", sample, "MRecall@5").runs["bm25"]
    found = experiment({"bm25": "bm25", "short": short}, sample, ["nDCG@10", "P@5"])
    assert any(note.startswith("short:") and "nDCG@10" in note and "P@5" not in note for note in found.notes)
    tiny = experiment({"bm25": "bm25", "whole": ranked_run({"q": ["a", "b", "c"]})}, CATS, "P@5")
    assert not any(note.startswith(("bm25:", "whole:")) for note in tiny.notes)  # the corpus has three


def test_spellings_of_one_system_have_one_row(sample, caplog):
    found = experiment(["bm25", "BM25", " bm25 "], sample, "P@5", baseline="Bm25")
    assert list(found.scores) == ["bm25"] and found.baseline == "bm25" and len(caplog.records) == 2
    named = experiment({"a": "bm25", "b": "BM25"}, sample, "p@5", baseline="a")
    assert list(named.scores) == ["a", "b"]
    assert named.pairs("p @ 5").equals(named.pairs("P@5")) and len(named.questions_for("p@5", [0.1])) == 1


# ---------------------------------------------------------------- questions that stand in the corpus


def arguments(same=True, gold_of_own=False):
    """Four questions that stand in the corpus, as in ArguAna, and what each should find."""
    words = ("trams", "parks", "zoos", "fairs")
    asked = [Question(w, f"Pay for {w}.", (f"Pay for {w}.",)) for w in words]
    passages = [Passage(w, f"pay  for {w}. " if same else f"All about {w}.", f"{w} title") for w in words]
    passages += [Passage(f"{w}-counter", f"Do not pay for {w}.") for w in words]
    rows = [(w, 0, f"{w}-counter", 1.0, True) for w in words] + [(w, 0, w, 1.0, True) for w in words] * gold_of_own
    return Collection("argu", asked, passages, make_verdicts(rows, "gold"))


def test_a_question_that_stands_in_the_corpus_does_not_find_itself(caplog):
    data = arguments()
    found = experiment(["bm25", "bm25+multi:rule"], data, ["P@1", "P@7"], list_length=8)
    for run in found.runs.values():
        assert not (run["qid"] == run["docno"]).any() and (run.groupby("qid").size() == 7).all()
        assert (run.groupby("qid")["rank"].max() == 7).all()
    assert found.scores["bm25"]["P@1"].tolist() == [1, 1, 1, 1] and "4 of 4 questions" in found.caption
    theirs = ranked_run({q.qid: [q.qid, f"{q.qid}-counter"] for q in data.questions})
    assert experiment({"theirs": theirs}, data, "P@1").table["mean"].tolist() == [1, 1]
    caplog.clear()
    assert evaluate_at_the_door(theirs, data.gold, data, "P@1")["P@1"].tolist() == [1, 1, 1, 1]
    run = search(" bm25", data, 3)
    assert (run.groupby("qid").size() == 3).all() and not (run["qid"] == run["docno"]).any()
    assert sum("4 of 4 questions" in record.getMessage() for record in caplog.records) == 2
    both = search("bm25", data, 3, perspectives=True)
    assert not (both["qid"].str.partition("#")[0] == both["docno"]).any()


@pytest.mark.parametrize("options", [{"same": False}, {"gold_of_own": True}])
def test_an_equal_id_alone_and_a_relevant_own_passage_stay(options):
    data = arguments(**options)
    theirs = ranked_run({q.qid: [q.qid, f"{q.qid}-counter"] for q in data.questions})
    found = experiment({"theirs": theirs}, data, "P@1")
    assert found.table["mean"].tolist() == [float(options.get("gold_of_own", False))] * 2
    assert (found.runs["theirs"]["qid"] == found.runs["theirs"]["docno"]).sum() == 4


def test_verdicts_of_another_corpus_are_refused_by_every_way_of_scoring():
    foreign = CATS.gold.assign(docno=["x", "y"])
    with pytest.raises(InputError):
        experiment("bm25", Collection("cats", ASKED, CORPUS, foreign), "P@1")
    with pytest.raises(InputError):
        evaluate_at_the_door(ranked_run({"q": ["a"]}), foreign, CATS, "P@1")


def test_a_part_of_the_questions_is_scored_though_none_of_its_judged_passages_is_there():
    both = (Question("q", "Cats?", ("Yes.",)), Question("lost", "Dogs?", ("Yes.",)))
    gold = make_verdicts([("q", 0, "a", 1.0, True), ("lost", 0, "elsewhere", 1.0, True)], "gold")
    part = Collection("pets", both, [Passage("a", "Cats purr.")], gold).only(both[1:])
    assert experiment("bm25", part, "P@1").table["mean"].tolist() == [0, 0]  # and its macro-average


def test_a_judge_that_reads_is_not_asked_about_numbers_of_subtopics():
    numbered = Collection("topics", [Question("q", "Cats?", ("subtopic 1", "subtopic 2"))], CORPUS, CATS.gold)
    assert experiment("bm25", numbered, "MRecall@2").table["mean"].tolist() == [1, 1]
    with pytest.raises(InputError):
        experiment("bm25", numbered, "MRecall@2", judge="overlap")


@pytest.mark.parametrize("threshold", [float("nan"), 5, -0.1])
def test_a_judge_with_a_threshold_that_is_none_is_refused(threshold):
    class Own:
        id = "own"

        def __init__(self):
            self.threshold = threshold

        def p_yes(self, pairs):
            raise AssertionError("asked")

    for ask in (lambda: experiment("bm25", CATS, judge=Own()), lambda: supports("a", "b", Own())):
        with pytest.raises(InputError) as refused:
            ask()
        assert refused.value.field == "threshold"


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
    assert "cats n = 1." in found.caption and "Verdicts: hand" in found.caption and "*" not in found.caption
    assert "from ab " in found.caption and "ab 100%, c <i> 0%" in found.caption
    assert caption_of(latex) == f"Systems on cats, 1 question. {found.caption}"
    assert caption_of(found.to_latex(caption="Mine & yours")) == "Mine & yours"
    assert "c &lt;i&gt;" in page and "<i>" not in page and "\\toprule" in latex
    two = experiment("bm25", [CATS, DOGS], "MRecall@2")
    assert two.shown.columns.tolist() == [(d, "MRecall@2") for d in ("cats", "dogs", MACRO)]
    assert "cats n = 1, dogs n = 1." in two.caption


HOSTILE = r"c$\write18{id} 50% a&b_#~^\\ }{ [x] \end{table}"


@given(st.text(alphabet=r"aZ %&_$#{}~^\[]<é≥→α−"))
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
    assert "100.0* [" in repr(found) and "* differs from no " in found.caption
    assert "*" not in experiment(runs, made, "P@1").caption
    with pd.option_context("display.width", 80, "display.max_columns", 0):
        assert "p_value" in repr(found.pairs("P@1"))
    assert found.pairs("P@1", full=True).loc[0, ["wins", "ties", "losses"]].tolist() == [12, 0, 0]


def test_a_run_of_another_corpus_is_named(sample, caplog):
    lists = {q.qid: ["nowhere"] for q in sample.questions[1:]}
    experiment({"bm25": "bm25", "theirs": ranked_run(lists)}, sample, "P@1")
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 2 and all("theirs" in one for one in told) and "1 of 16" in told[0]


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
    best_mean = cell(choice.dev.table, "minilm", MACRO, "Precision@5").mean
    assert repr(choice).startswith("minilm: ") and f"{100 * best_mean:.1f}% on 8 questions" in repr(choice)
    same = choose(["bm25", "bm25+mmr:1"], dev, held_out)  # as good as the first: the first
    assert same.system == "bm25" and list(same.test.scores) == ["bm25", ideal]
    judged = choose(names[:2], dev, held_out, "Precision@5", judge=lambda pairs: [0.9] * len(pairs))
    assert list(judged.test.scores) == ["bm25"]  # both have 100; nobody judged the candidates of an oracle
    everything = load("sample", split="all")
    for systems, other, measures, field in (
        (names, held_out, "MRecall@5,Precision@5", "measure"),
        (["bm25"], held_out, "MRecall@5", "systems"),
        (names, everything, "MRecall@5", "test"),
    ):
        with pytest.raises(InputError) as caught:
            choose(systems, dev, other, measures)
        assert caught.value.field == field


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
    assert judged.judge.startswith("overlap(english-stem") and "Verdicts: overlap." in judged.caption


def test_a_timed_search_takes_as_long_as_a_question_does(tmp_path, monkeypatch):
    """The median over questions, of which one is slow; the diversifier's time includes its retriever's."""
    clock = [0.0]

    class Slow(Fixed):
        def search(self, questions, k):
            clock[0] += sum(0.4 if q.qid == "0" else 0.05 for q in questions)
            return super().search(questions, k)

    monkeypatch.setattr(scoring.time, "perf_counter", lambda: clock[0])
    monkeypatch.setitem(RETRIEVERS._things, "slow", RETRIEVERS.own(lambda _: Slow("s", "a", "b"), "slow"))
    asked = [Question(str(i), f"Cats {i}?", ("Cats purr.",)) for i in range(3)]
    gold = make_verdicts([(q.qid, 0, "a", 1.0, True) for q in asked], "gold")
    systems = {"slow": "slow", "slow+mmr": "slow+mmr:0.5", "done": ranked_run({"0": ["a"]})}
    found = experiment(systems, Collection("cats", asked, CORPUS, gold), "P@1,RR@2", timed=True)
    times = found.table.groupby("system")["milliseconds"].first()
    assert times[["slow", "slow+mmr"]].tolist() == pytest.approx([50, 50]) and np.isnan(times["done"])
    assert found.shown["ms"].tolist() == ["50.0", "50.0", "finished"]
    assert "textbf{finished" not in found.to_latex() and "ms: " in found.caption
    found.save(tmp_path / "out")
    assert repr(bd.open(tmp_path / "out")) == repr(found)
    assert "ms" not in experiment(systems, Collection("cats", asked, CORPUS, gold), "P@1").shown


def test_all_that_share_the_best_mean_are_in_bold():
    asked = [Question(f"q{i}", f"{i}?", ("Yes.",)) for i in range(12)]
    made = Collection("many", asked, gold=make_verdicts([(q.qid, 0, "d", 1.0, True) for q in asked], "gold"))
    lists = {"none": ["x"], "one": ["d"], "other": ["d", "x"]}
    runs = {name: ranked_run({q.qid: docnos for q in asked}) for name, docnos in lists.items()}
    lines = experiment(runs, made, "P@1", baseline="none").to_latex().splitlines()
    assert [line.split(" &")[0] for line in lines if "textbf" in line] == ["one", "other"]
    assert lines[0].startswith("%") and "booktabs" in lines[0]


def test_a_table_by_a_shipped_judge_gives_its_f1_and_others_have_none(sample, tmp_path):
    """The F1 is that of data/published/ours.csv, whatever the capitals of the name."""
    ours = pd.read_csv(shipped("published") / "ours.csv")
    f1 = ours.query("table == 'BeRDS 4' and measure == 'f1' and system == 'overlap'")["value"].item()
    two = sample.only(sample.questions[:2])
    found = experiment("bm25", two, "P@2", judge="Overlap", store=tmp_path / "v.sqlite")
    assert f"F1 {f1} [" in found.caption and "overlap" in found.caption
    for judge in (None, "gold", lambda pairs: [1.0] * len(pairs)):
        assert "F1" not in experiment("bm25", two, "P@2", judge=judge).caption


def test_of_a_measure_of_unfairness_the_least_is_best():
    explicit = load("perspectivearg-sample:explicit")
    dev, held_out = (explicit.only(part) for part in (explicit.questions[:40], explicit.questions[40:80]))
    choice = choose(["bm25", "bm25+profile:filter"], dev, held_out, "rKL@4")
    tried = choice.dev.table[choice.dev.table["dataset"] == MACRO].set_index("system")["mean"]
    assert tried.nunique() == 2 and choice.system == tried.idxmin()
    alone = experiment("bm25", held_out, "rKL@4")  # without a baseline, the best is in bold
    assert "\\textbf{" in alone.to_latex()
