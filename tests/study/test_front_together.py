"""What the front door keeps apart when several things come together: data sets, perspectives, models, threads."""

import json
import threading

import pandas as pd
import pytest

import berdslib as bd
from berdslib.data.catalogue import DATASETS
from berdslib.errors import InputError
from berdslib.judging.registry import JUDGES
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.rerank import CrossEncoderRetriever
from berdslib.retrieval.retrievers import RETRIEVERS
from berdslib.study.scoring import build, named_systems


@pytest.fixture(autouse=True)
def own_places(user_cache, monkeypatch, tmp_path):
    """A cache and a folder of the test's own; names that it adds are gone after it."""
    for registry in (RETRIEVERS, JUDGES, DATASETS, DIVERSIFIERS):
        monkeypatch.setattr(registry, "_things", dict(registry))
    monkeypatch.chdir(tmp_path)


PASSAGES = [bd.Passage("a", "Tea is good."), bd.Passage("b", "Tea is bad."), bd.Passage("c", "Coffee is good.")]


def question(qid, *perspectives, **fields):
    return bd.Question(qid, "Is tea good?", perspectives or ("Tea is good.", "Tea is bad."), **fields)


def yes(pairs):
    return [1.0] * len(pairs)


# ---------------------------------------------------------------- several collections


def test_collections_from_files_are_data_sets_of_their_own(tmp_path):
    for name, n in (("first", 2), ("second", 6)):
        rows = [{"_id": f"{name}{i}", "question": "Tea?", "perspectives": ["Tea is good."]} for i in range(n)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = [bd.load(f"{name}.jsonl", passages=PASSAGES) for name in ("first", "second")]

    def only_the_first(pairs):
        return [float(pair.qid.startswith("first")) for pair in pairs]

    table = bd.experiment("bm25", data, "MRecall@3", judge=only_the_first).table.set_index("dataset")
    assert table["n"].to_dict() == {"first": 2, "second": 6, "macro": 8}
    assert table["mean"].to_dict() == {"first": 1.0, "second": 0.0, "macro": 0.5}


def test_two_collections_of_one_name_are_refused_where_nothing_else_tells_them_apart():
    one, two = (bd.Collection("mine", [question(qid)], PASSAGES) for qid in "xy")
    with pytest.raises(InputError, match="two collections are called 'mine'"):
        bd.experiment("bm25", [one, two], judge=yes)


def test_a_finished_run_of_one_collection_scores_nothing_in_the_other():
    data = [bd.Collection(name, [question(name)], PASSAGES) for name in "xy"]
    run = pd.DataFrame({"qid": "x", "docno": ["a", "b"], "score": [2.0, 1.0]})
    result = bd.experiment({"theirs": run}, data, "MRecall@2", judge=yes)
    assert result.scores["theirs"]["MRecall@2"].to_dict() == {"x": 1.0, "y": 0.0}


def test_an_id_of_another_questions_perspective_is_refused_in_one_collection_and_across_two():
    message = "'a#0' is also the id of a perspective of 'a'; give the question another id"
    with pytest.raises(InputError, match=message):
        bd.Collection("mine", [question("a"), question("a#0")], PASSAGES)
    data = [bd.Collection(name, [question(name)], PASSAGES) for name in ("a", "a#0")]
    with pytest.raises(InputError, match=message):
        bd.experiment("bm25", data, judge=yes)


def test_a_limit_and_a_part_may_hold_questions_without_gold():
    gold = pd.DataFrame({"qid": ["y"], "pid": [0], "docno": ["a"], "supports": [True]})
    both = bd.Collection("both", [question("x"), question("y")], PASSAGES, gold)
    part = both.only(both.questions[:1])
    assert [q.qid for q in part.questions] == ["x"] and len(part.gold) == 1
    assert bd.experiment("bm25", part, "MRecall@3").scores["bm25"]["MRecall@3"].tolist() == [0.0]


def test_gold_that_only_some_have_is_left_out_with_a_warning(caplog):
    bd.register("dataset", "unlabelled", lambda: bd.Collection("unlabelled", [question("x")], PASSAGES))
    assert bd.load(["sample", "unlabelled"], passages=PASSAGES).gold is None
    assert "unlabelled has no gold verdicts, so those of the others are left out" in caplog.text


def test_a_data_set_of_ones_own_is_loaded_by_its_dev_split_unless_told_otherwise():
    questions = [question("x", split="dev"), question("y", split="test")]
    bd.register("dataset", "splits", lambda: bd.Collection("splits", questions, PASSAGES))
    found = {split: [q.qid for q in bd.load("splits", split=split).questions] for split in (None, "test", "all")}
    assert found == {None: ["x"], "test": ["y"], "all": ["x", "y"]}


def test_a_data_set_of_ones_own_may_be_called_like_one_of_pir():
    bd.register("dataset", "pir-mine", lambda: bd.Collection("pir-mine", [question("x")], PASSAGES))
    assert bd.load("pir-mine").questions[0].qid == "x"


# ---------------------------------------------------------------- perspectives


def test_diversifiers_never_cover_the_perspectives_that_a_task_of_pir_is_scored_by():
    task, seen = bd.load("pir-sample:stories", limit=2), set()

    def spy(pairs):
        seen.update(pair.perspective for pair in pairs)
        return [0.5] * len(pairs)

    for system in ("bm25+coverage:0.5", "bm25+expand:recorded+coverage:0.5"):
        bd.search(system, task, 5, aspect_judge=spy)
    assert seen and not seen & {text for pairs in task.expansions.values() for pair in pairs for text in pair}


def test_full_queries_are_told_from_statements_question_by_question(monkeypatch):
    asked = []

    class Listens:
        def search(self, questions, k):
            asked.extend(questions)
            return {q.qid: ["a"] for q in questions}

    bd.register("retriever", "listens", lambda passages: Listens())
    plain, full = question("plain"), question("full")._replace(text="Coffee?")
    expansions = {"plain": [("Yes", "It is.")], "full": [(p, f"Who says: {p}") for p in full.perspectives]}
    bd.search("listens+expand:recorded", bd.Collection("c", [plain, full], PASSAGES, expansions=expansions), 3)
    assert [q.text for q in asked] == ["Is tea good? It is.", "Who says: Tea is good.", "Who says: Tea is bad."]
    assert [(q.root, *q.perspectives) for q in asked] == [
        ("Is tea good?", "It is."), ("Coffee?", "Tea is good."), ("Coffee?", "Tea is bad."),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_projected_full_query_finds_the_same_in_an_expansion_as_by_itself():
    task = bd.load("pir-sample:location", limit=1)
    by_itself = bd.search("minilm+pap:1.0", task, 1, perspectives=True)
    firsts = by_itself[by_itself["qid"].str.contains("#")]["docno"].tolist()
    fused = bd.search("minilm+pap:1.0+expand:recorded", task, len(firsts))["docno"].tolist()
    assert fused[: len(set(firsts))] == list(dict.fromkeys(firsts))


@pytest.mark.slow
def test_raw_queries_are_taken_apart_too(caplog):
    task = bd.load("pir-sample:location", limit=2)
    raw = bd.Collection("raw", [bd.Question(q.qid.replace("#", "-"), q.text) for q in task.queries], task.passages)
    found, plain = (bd.search(s, raw, 5)["docno"].tolist() for s in ("minilm+extract:rule+pap:1.0", "minilm"))
    known = bd.search("minilm+extract:rule+pap:1.0", task, 5, perspectives=True)
    assert found == known[known["qid"].str.contains("#")]["docno"].tolist() != plain
    bd.search("minilm+extract:rule+pap:1.0", bd.Collection("q", [bd.Question("x", "Is tea good?")], PASSAGES), 1)
    assert "no perspective can be cut out of 1 of 1 queries" in caplog.text


def test_a_run_with_lists_of_perspectives_only_is_no_run_of_the_questions():
    mine = bd.Collection("mine", [question("x")], PASSAGES)
    run = bd.search("bm25", mine, 3, perspectives=True)
    own = run[run["qid"] != "x"]
    with pytest.raises(InputError, match="lists of single perspectives only, such as 'x#0'; search the questions, too"):
        bd.evaluate(own, bd.judge(own, mine, yes), mine, "MRecall@3")
    assert bd.evaluate(own, bd.judge(own, mine, yes), mine, "pRecall@3").iloc[0, 0] == 1.0


# ---------------------------------------------------------------- names, models, threads


@pytest.mark.parametrize("name", ["pap", "expand", "cross", "extract", "tri-sum"])
def test_a_diversifier_cannot_be_called_like_another_part(name):
    with pytest.raises(InputError, match=f"'{name}' is a part of a system already; choose another name"):
        bd.register("diversifier", name, lambda vectors, scores, k, weight: range(k))


def test_the_depth_of_an_experiment_is_not_forced_on_a_retriever_of_ones_own():
    given = []

    class Found:
        def __init__(self, passages, depth=7):
            given.append(depth)

        def search(self, questions, k):
            return {q.qid: ["a"] for q in questions}

    bd.register("retriever", "mine", Found)
    bd.search("mine", bd.Collection("c", [question("x")], PASSAGES), 1, depth=33)
    assert given == [7]


def test_a_judge_is_made_once_for_all_collections_and_says_so_where_it_praises_itself(caplog):
    made = []

    def heavy():
        made.append(1)
        return yes

    bd.register("judge", "heavy", heavy)
    data = [bd.Collection(name, [question(name)], PASSAGES) for name in "xy"]
    systems = ["bm25+coverage:0.5", "bm25+xquad:0.5"]
    bd.experiment(systems, data, judge="heavy", aspect_judge="heavy")
    assert len(made) == 1
    assert caplog.text.count("heavy both reorders lists and scores them, so what it gains by that is circular") == 1


def test_a_cross_encoder_is_loaded_and_asked_once_however_many_systems_and_collections_use_it(monkeypatch):
    loaded, scored = [], []

    def load_scorer(checkpoint):
        loaded.append(checkpoint)

        def scorer(pairs):
            scored.extend(pairs)
            return [float(len(text)) for _, text in pairs]

        return scorer

    monkeypatch.setattr("berdslib.retrieval.systems.load_scorer", load_scorer)
    data = [bd.Collection(name, [question(name)], PASSAGES) for name in "xy"]
    systems = ["bm25+cross:m", "bm25+cross:m+cover:0.9"]
    scores = bd.experiment(systems, data, "MRecall@2", judge=yes).scores
    assert loaded == ["m"] and set(scores) == set(systems)
    assert len(scored) == 2 * len(set(scored)) == 6  # each passage once for each of the two questions


def test_what_a_cross_encoder_remembers_is_cut_to_what_is_asked_for(monkeypatch):
    monkeypatch.setattr("berdslib.retrieval.systems.load_scorer", lambda _: lambda pairs: [len(t) for _, t in pairs])
    mine = bd.Collection("mine", [question("x")], PASSAGES)
    (found,) = build(named_systems("bm25+cross:m"), mine, aspect_judge=None, store=None).values()
    first = bd.search("bm25", mine, 100)
    assert len(first) == 3
    bare = CrossEncoderRetriever(RETRIEVERS.find("bm25")[0].prepare("bm25")(PASSAGES), PASSAGES,
                                 lambda pairs: [len(t) for _, t in pairs])  # fmt: skip
    for k in (1, 2, 3, 100):
        assert found.search(mine.questions, k).equals(bare.search(mine.questions, k))


def test_a_search_needs_no_place_for_verdicts(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "file" / "x"))
    mine = bd.Collection("mine", [question("x")], PASSAGES)
    run = bd.search("bm25", mine, 3)
    with pytest.raises(InputError, match="cannot be used as a verdict store"):
        bd.judge(run, mine, "overlap")


def test_a_store_may_be_named_by_its_file(tmp_path):
    mine = bd.Collection("mine", [question("x")], PASSAGES)
    bd.judge(bd.search("bm25", mine, 3), mine, "overlap", store=str(tmp_path / "v.sqlite"))
    assert (tmp_path / "v.sqlite").stat().st_size > 0


def test_a_plugin_that_takes_its_time_is_waited_for_by_other_threads(monkeypatch, tmp_path):
    (tmp_path / "slow_plugin.py").write_text(
        "import time\nimport berdslib as bd\ntime.sleep(0.3)\n"
        "class Plugged:\n    def __init__(self, passages): pass\n"
        "    def search(self, questions, k): return {q.qid: ['a'] for q in questions}\n"
        "bd.register('retriever', 'plugged', Plugged)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("BERDS_PLUGINS", "slow_plugin")
    mine, found = bd.Collection("mine", [question("x")], PASSAGES), []

    def search():
        try:
            found.append(len(bd.search("plugged", mine, 1)))
        except InputError as error:
            found.append(str(error))

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1, 1, 1]
