"""What the explorer finds: the lists and verdicts of the front door's own functions, each searched once."""

import itertools
import json
import re

import numpy as np
import pytest
from shell import berds
from small_scenarios import small_scenario

import berdslib as bd
from berdslib.data.records import make_verdicts, ranked_run
from berdslib.models.cards import CARDS, ModelCard
from berdslib.retrieval import retrievers as retrievers_module
from berdslib.retrieval import systems as systems_module
from berdslib.retrieval.retrievers import RETRIEVERS, own_retriever
from berdslib.study.explorer.session import Session, ViewRequest, session_for

PASSAGES = [
    bd.Passage("cruel", "zoos are cruel to animals and must close"),
    bd.Passage("cruel2", "zoos are cruel to all animals and must close now"),
    bd.Passage("save", "zoos save rare species and must stay open"),
    bd.Passage("tea", "tea is a drink", "Tea"),
    bd.Passage("coffee", "coffee is a drink that zoos sell"),
]
CLOSE, STAY = "zoos must close, they are cruel", "zoos must stay, they save species"
ZOOS = bd.Question("zoos", "Should zoos close?", (CLOSE, STAY), ("support", "oppose"), "toy")
BEST = bd.Question("best", "Which drink is best?", ("Tea.", "Coffee.", "Milk."), (None, None, None), "toy")
GOLD = make_verdicts(
    [
        ("zoos", 0, "cruel", 1.0, True),
        ("zoos", 1, "save", 1.0, True),
        ("best", 0, "tea", 1.0, True),
        ("zoos", 1, "cruel", 0.0, False),
    ],
    "gold",
)
RECORDED = {"zoos": [("tea", "tea drink"), ("rare", "rare species")]}
TOY = bd.Collection("toy", [ZOOS, BEST], PASSAGES, GOLD, RECORDED)
UNLABELLED = bd.Collection("toy", [ZOOS, BEST], PASSAGES, expansions=RECORDED)


class Letters:
    """Counts letters, so that texts with the same words have the same vector."""

    id = "letters"

    def encode_passages(self, texts):
        counts = np.array([[t.lower().count(chr(97 + i)) for i in range(26)] for t in texts], dtype=np.float32)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1)

    encode_queries = encode_passages


class Counting:
    """Lists what it is told, and keeps what it was asked."""

    name = "counting"

    def __init__(self, docnos=("tea", "save", "cruel")):
        self.docnos, self.asked = docnos, []

    def search(self, questions, k):
        self.asked.append([q.text for q in questions])
        return ranked_run({q.qid: self.docnos[:k] for q in questions})


def by_word(pairs):
    """A judge: does a passage hold the first word of the perspective?"""
    return [float(p.perspective.split()[0].lower().strip(".,") in p.passage.text) for p in pairs]


@pytest.fixture(autouse=True)
def _letters(monkeypatch, user_cache):
    """The encoder "letters", which loads nothing, also in place of minilm; retrievers of a test are gone after it."""
    monkeypatch.setitem(CARDS, "letters", ModelCard("letters", "nowhere"))
    made = {"letters": Letters(), "minilm": Letters()}
    monkeypatch.setattr(retrievers_module, "get_encoder", lambda name, **_: made[name])
    monkeypatch.setattr(RETRIEVERS, "_things", {**RETRIEVERS, "letters": RETRIEVERS["minilm"]})


@pytest.fixture
def counting():
    one = Counting()
    RETRIEVERS.add("counting", own_retriever(lambda passages: one))
    return one


def session(collection=TOY, **options):
    return Session(collection, **options)


def request_of(*systems, **options):
    return ViewRequest(**{"qid": "zoos", "systems": systems or ("bm25", "letters"), "k": 3} | options)


def last(here, request, **options):
    return list(here.render_steps(request, **options))[-1]


def docnos(view):
    return [[row["docno"] for row in one["rows"]] for one in view["lists"]]


def lists_of(run, qid, k):
    return run[(run["qid"] == qid) & (run["rank"] <= k)].sort_values("rank")["docno"].tolist()


# ---------------------------------------------------------------- the same lists as everywhere

STRINGS = [
    "bm25",
    "letters",
    "bm25+expand:rule",
    "bm25+expand:recorded",
    "bm25+multi:recorded",
    "bm25+mmr:0.5",
    "letters+mmr:0.3",
    "letters+pap:1.0",
    "letters+expand:rule+mmr:0.5",
    "letters+mmr:0.5+expand:recorded",
]


def test_lists_of_questions_are_those_of_an_experiment():
    whole = bd.experiment(STRINGS, TOY, ["MRecall@3", "Coverage@3", "Precision@3"])
    here = session()
    for system in STRINGS:
        for qid in ("zoos", "best"):
            view = last(here, request_of(system, "bm25", qid=qid))
            assert docnos(view)[0] == lists_of(whole.runs[system], qid, 3), (system, qid)
            figures = {one["name"]: one["value"] for one in view["lists"][0]["figures"]}
            figures.pop("leaning", None)
            assert figures == whole.scores[system].loc[qid].to_dict()


def test_lists_of_statements_are_those_of_sides():
    plain = [system for system in STRINGS if "pap" not in system]
    # Sides leaves out questions without stances, and a diversifier weighs by all that is searched together.
    two_sided = TOY.only([ZOOS])
    sides = bd.sides(plain, two_sided, 3)
    here = session(two_sided)
    for system in plain:
        for pid in (0, 1):
            view = last(here, request_of(system, "bm25", asked=pid))
            assert docnos(view)[0] == lists_of(sides.runs[system], f"zoos#{pid}", 3), (system, pid)
            assert view["asked"] == (CLOSE, STAY)[pid]


# ---------------------------------------------------------------- views come as they are ready


def test_views_become_ever_more_complete():
    views = list(session(UNLABELLED, judge=by_word).render_steps(request_of()))
    assert [[one["searching"] for one in view["lists"]] for view in views] == [
        [True, True],
        [False, True],
        [False, False],
        [False, False],
    ]
    assert [view["judged"] for view in views] == [False, False, False, True]
    assert views[-1]["judge"] == "by_word" and not views[2]["judge"]
    for before, after in itertools.pairwise(views):
        for one, later in zip(docnos(before), docnos(after), strict=True):
            assert not one or one == later


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("system", "named"),
    [("bm26", "bm26"), ("bm25+mmr:2", "2"), ("bm25+expand:yours", "yours"), ("bm25+pap", "bm25")],
)
@pytest.mark.parametrize("asked", [-1, 0])
def test_a_system_that_fails_has_its_problem_and_the_other_list_is_there(system, named, place, asked):
    systems = [system, "bm25"] if place == 0 else ["bm25", system]
    view = last(session(), request_of(*systems, asked=asked))
    failed, fine = view["lists"][place], view["lists"][1 - place]
    assert named in failed["problem"] and not failed["rows"] and not failed["searching"]
    assert not fine["problem"] and fine["figures"]


def test_what_is_wrong_with_a_typed_system():
    here = session(own={"mine": THEIRS})
    for system in ("bm26", "bm25+mmr:2", "bm25+pap", "", "minilm+expand"):
        assert here.problem_of(system)
    for system in ("mine", "bm25", " BM25 + mmr:.5"):
        assert here.problem_of(system) == ""


# ---------------------------------------------------------------- questions of one's own


def test_a_typed_question_is_searched_alone_and_its_sides_are_read_by_the_judge():
    here = session(judge=lambda pairs: [float("cruel" in p.passage.text and p.pid == 0) for p in pairs])
    view = last(here, request_of("bm25", "bm25", qid="", typed="Should zoos close?"))
    alone = bd.search("bm25", bd.Collection("x", [bd.Question("t", "Should zoos close?")], PASSAGES), 3)
    assert docnos(view)[0] == lists_of(alone, "t", 3)
    assert [one["text"] for one in view["perspectives"]] == ["Zoos should close.", "Zoos should not close."]
    argues = {row["docno"]: row["argues"] for row in view["lists"][0]["rows"]}
    assert argues == {docno: [0] if "cruel" in docno else [] for docno in argues} and "cruel" in argues
    assert view["lists"][0]["figures"][-1]["name"] == "leaning"


def test_typed_perspectives_are_judged_and_never_marked_by_what_is_recorded():
    here = session(TOY)
    here._reader = session(UNLABELLED, judge=by_word).reader
    mine = ("Tea is best.", "Coffee is best.")
    texts = {p.docno: p.text for p in PASSAGES}
    typed = request_of("bm25", "letters", qid="", typed=BEST.text, perspectives=mine, k=5)
    for request in (typed, typed._replace(asked=0)):
        view = last(here, request)
        for row in (row for shown in view["lists"] for row in shown["rows"]):
            assert row["argues"] == [pid for pid, word in enumerate(("tea", "coffee")) if word in texts[row["docno"]]]
        assert not view["recorded"] and not here.is_recorded(request)
        assert [(one["text"], one["stance"]) for one in view["perspectives"]] == [(text, "") for text in mine]


# ---------------------------------------------------------------- finished runs

THEIRS = ranked_run({"zoos": ["tea", "save"], "best": ["tea", "coffee"], "zoos#0": ["cruel2"]})
OTHERS = ranked_run({"zoos": ["cruel", "save", "coffee", "cruel2"]})


def finished(**options):
    return session_for(TOY, {"theirs": THEIRS, "others": OTHERS}, k=3, **options)


def test_a_run_without_a_list_says_which_is_missing():
    here, first = finished()
    with_perspective = last(here, first._replace(asked=0))
    assert docnos(with_perspective)[0] == ["cruel2"]
    assert "'zoos#0'" in with_perspective["lists"][1]["problem"]
    other = last(here, first._replace(qid="best"))
    assert docnos(other)[0] == ["tea", "coffee"] and "'best'" in other["lists"][1]["problem"]
    typed = last(here, first._replace(qid="", typed="Zoos?"))
    assert all(listing["problem"] and not listing["rows"] for listing in typed["lists"])


def test_a_run_that_lists_an_unknown_passage_has_it_as_its_problem():
    here, first = session_for(TOY, {"theirs": ranked_run({"zoos": ["tea", "quark"]}), "others": OTHERS}, k=1)
    assert docnos(last(here, first))[0] == ["tea"]  # it stands below the first place
    view = last(here, first._replace(k=2))
    assert "'quark'" in view["lists"][0]["problem"]
    assert view["lists"][1]["rows"] and "quark" not in view["passages"]


# ---------------------------------------------------------------- searched once, alone or together


def test_a_second_look_searches_nothing(counting):
    here = session()
    request = request_of("counting", "counting+mmr:1")
    first = last(here, request)
    n = len(counting.asked)
    assert counting.asked[0] == [ZOOS.text, BEST.text]  # all questions at once
    assert last(here, request) == first
    last(here, request._replace(qid="best"))
    last(here, request._replace(systems=("counting+mmr:1", "counting")))
    assert len(counting.asked) == n


def test_a_cross_encoder_reads_for_one_question_only(counting, monkeypatch):
    read = []

    def scorer(pairs):
        read.extend(query for query, _ in pairs)
        return np.array([len(text) for _, text in pairs], dtype=np.float64)

    monkeypatch.setattr(systems_module, "load_scorer", lambda name: scorer)
    here = session(depth=3)
    view = last(here, request_of("counting+cross:m", "bm25"))
    assert counting.asked == [[ZOOS.text]] and set(read) == {ZOOS.text}
    assert docnos(view)[0] == ["save", "cruel", "tea"]  # the longest text first
    assert view["lists"][0]["note"] == ""  # its scores depend on nothing but its own question
    last(here, request_of("counting+cross:m", "bm25", asked=1))
    assert set(read) == {ZOOS.text, CLOSE, STAY}
    last(here, request_of("counting+cross:m", "bm25", asked=0))
    last(here, request_of("counting+cross:m", "bm25"))
    assert counting.asked == [[ZOOS.text], [CLOSE, STAY]]
    other = last(here, request_of("counting+cross:m", "bm25", qid="best"))  # it is not in the run of the first
    assert docnos(other)[0] == ["save", "cruel", "tea"] and counting.asked[2:] == [[BEST.text]]
    here.differences(request_of("counting+cross:m", "bm25"))
    assert counting.asked[3:] == [[ZOOS.text, BEST.text]]
    last(here, request_of("counting+cross:m", "bm25", qid="best"))  # now it is in a run of all questions
    assert len(counting.asked) == 4


def test_an_opened_passage_has_its_labels_and_what_the_judge_says():
    here = session()
    here._reader = session(judge=lambda pairs: [0.9 if p.pid else 0.45 for p in pairs]).reader
    found = here.passage_details(request_of(), "cruel")
    assert (found["docno"], found["title"], found["text"]) == ("cruel", "", PASSAGES[0].text)
    assert found["judge"] == "laptop" and found["labelled"]
    assert found["opinions"] == [
        {"p": 0.45, "says": False, "sure": "unsure", "label": True},
        {"p": 0.9, "says": True, "sure": "sure", "label": False},
    ]
    nobody = here.passage_details(request_of(), "tea")["opinions"]
    assert [one["label"] for one in nobody] == [None, None]
    with pytest.raises(bd.InputError, match="'quark'"):
        here.passage_details(request_of(), "quark")
    mine = here.passage_details(request_of(qid="", typed="Zoos?", perspectives=("Mine.",)), "cruel")
    assert not mine["labelled"] and [one["label"] for one in mine["opinions"]] == [None]


def test_questions_in_order_of_their_difference():
    here, first = session_for(TOY, ("bm25", "letters"), k=2)
    found = here.differences(first)
    whole = bd.experiment(("bm25", "letters"), TOY, ["MRecall@2", "Coverage@2"])
    change = whole.scores["letters"] - whole.scores["bm25"]
    assert found[["MRecall", "Coverage"]].values.tolist() == change.loc[found.index].values.tolist()
    assert sorted(found.index) == ["best", "zoos"]
    sizes = [(abs(row.MRecall), abs(row.Coverage), -row.overlap) for row in found.itertuples()]
    assert sizes == sorted(sizes, reverse=True)
    assert here.differences(first._replace(qid="", typed="Zoos?", asked=1)).equals(found)
    (qid, label), _ = here.labelled_questions(first)
    assert qid == found.index[0] and label.startswith(found["text"].iloc[0])


# ---------------------------------------------------------------- what cannot be explored


@pytest.mark.parametrize(
    ("data", "systems", "options", "named"),
    [
        (TOY, ("bm25",), {}, "1"),
        (TOY, ("bm25", "minilm", "mpnet"), {}, "3"),
        (TOY, ("bm25", "minilm"), {"question": "zoo"}, "'zoo'"),
        (TOY, ("bm25", "minilm"), {"k": 0}, "k"),
        (TOY, ("bm25", TOY), {}, "Collection"),
        (small_scenario("ab", [0], rule="baseline"), ("bm25", "minilm"), {}, "PerspectiveArg"),
        (small_scenario("ab", [0]).handout, ("bm25", "minilm"), {}, "PerspectiveArg"),
        (bd.Collection("toy", [ZOOS]), ("bm25", "minilm"), {}, "toy"),
    ],
)
def test_arguments_that_cannot_be_used(data, systems, options, named):
    with pytest.raises(bd.InputError, match=re.escape(named)):
        session_for(data, systems, **options)


# ---------------------------------------------------------------- what a name stands for


def test_a_name_stands_for_the_questions_of_all_splits():
    session, request = session_for("sample", ["bm25", "minilm+mmr:0.8"], question="k03", k=10)
    assert request.qid == "k03"
    assert {q.split for q in session.collection.questions} == {"dev", "test"}


def test_a_page_without_a_split_holds_all_questions_and_with_one_only_its_own(tmp_path):
    options = ["-r", "bm25,rank-bm25", "--no-opinions", "--no-sides", "--json"]
    both = json.loads(berds("explore", "-q", "sample", "-o", tmp_path / "all.html", *options).stdout)
    test = json.loads(berds("explore", "-q", "sample", "--split", "test", "-o", tmp_path / "t.html", *options).stdout)
    assert (both["questions"], test["questions"]) == (24, 16)
