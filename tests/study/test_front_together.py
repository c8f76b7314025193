"""What the front door keeps apart when several things come together: data sets, perspectives, models, threads."""

import json
import threading

import pytest

import berdslib as bd
from berdslib.data.catalogue import DATASETS
from berdslib.errors import InputError
from berdslib.judging.registry import JUDGES
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.retrievers import RETRIEVERS


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


def test_an_id_of_another_questions_perspective_is_refused_in_one_collection_and_across_two():
    message = "'a#0' is also the id of a perspective of 'a'; give the question another id"
    with pytest.raises(InputError, match=message):
        bd.Collection("mine", [question("a"), question("a#0")], PASSAGES)
    data = [bd.Collection(name, [question(name)], PASSAGES) for name in ("a", "a#0")]
    with pytest.raises(InputError, match=message):
        bd.experiment("bm25", data, judge=yes)


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


def test_a_search_needs_no_place_for_verdicts(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "file" / "x"))
    mine = bd.Collection("mine", [question("x")], PASSAGES)
    run = bd.search("bm25", mine, 3)
    with pytest.raises(InputError, match="cannot be used as a verdict store"):
        bd.judge(run, mine, "overlap")


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
