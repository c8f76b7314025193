"""What the explorer finds: the lists and verdicts of the front door's own functions, each searched once."""

import itertools
import json
import shlex

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
from berdslib.study.explorer import session as session_module
from berdslib.study.explorer.session import TYPED, Session, Wish, session_for, typed_question

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
    for module in (systems_module, retrievers_module):
        monkeypatch.setattr(module, "get_encoder", lambda name, **_: {"letters": Letters(), "minilm": Letters()}[name])
    monkeypatch.setattr(RETRIEVERS, "_things", {**RETRIEVERS, "letters": RETRIEVERS["minilm"]})


@pytest.fixture
def counting():
    one = Counting()
    RETRIEVERS.add("counting", own_retriever(lambda passages: one))
    return one


def session(collection=TOY, **options):
    return Session({"toy": collection}, **options)


def wish(*systems, **options):
    return Wish("toy", **{"qid": "zoos", "systems": systems or ("bm25", "letters"), "k": 3} | options)


def last(here, wished, **options):
    return list(here.looks(wished, **options))[-1]


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
            view = last(here, wish(system, "bm25", qid=qid))
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
            view = last(here, wish(system, "bm25", asked=pid))
            assert docnos(view)[0] == lists_of(sides.runs[system], f"zoos#{pid}", 3), (system, pid)
            assert view["asked"] == (CLOSE, STAY)[pid]


def test_a_projection_searches_full_queries_as_sides_does_with_the_question_first():
    two_sided = TOY.only([ZOOS])
    full = bd.sides("letters+pap:1.0", two_sided, 3, form="question first").runs["letters+pap:1.0"]
    plain = bd.sides("letters+pap:1.0", two_sided, 3).runs["letters+pap:1.0"]
    view = last(session(two_sided), wish("letters+pap:1.0", "letters", asked=1))
    assert docnos(view)[0] == lists_of(full, "zoos#1", 3)
    assert not full.equals(plain)


# ---------------------------------------------------------------- views come as they are ready


def test_views_become_ever_more_complete():
    views = list(session(UNLABELLED, judge=by_word).looks(wish()))
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
    ("system", "said"),
    [
        ("bm26", "unknown retriever 'bm26'"),
        ("bm25+mmr:2", "from 0 to 1"),
        ("bm25+expand:yours", "unknown set of expansions"),
        ("bm25+pap", "has none; take minilm"),
        ("", "unknown retriever"),
    ],
)
@pytest.mark.parametrize("asked", [-1, 0])
def test_a_system_that_fails_is_told_of_and_the_other_list_is_there(system, said, place, asked):
    systems = [system, "bm25"] if place == 0 else ["bm25", system]
    view = last(session(), wish(*systems, asked=asked))
    failed, fine = view["lists"][place], view["lists"][1 - place]
    assert said in failed["problem"] and not failed["rows"] and not failed["searching"]
    assert not fine["problem"] and fine["figures"]


# ---------------------------------------------------------------- questions of one's own


def test_a_typed_question_has_the_sides_that_a_rule_finds():
    found = typed_question("  Should   zoos close? ")
    assert found == bd.Question(
        TYPED, "Should zoos close?", ("Zoos should close.", "Zoos should not close."), ("support", "oppose")
    )
    assert typed_question("Zoos?").perspectives == () == typed_question("Zoos?").stances
    assert typed_question("Should zoos close?", ("Maybe.",)).perspectives == ("Maybe.",)
    for blank in ("", " \n\t"):
        with pytest.raises(bd.InputError, match="type a question first"):
            typed_question(blank)


def test_a_typed_question_is_searched_alone_and_read_by_the_judge():
    asked = []

    def judge(pairs):
        asked.extend(pairs)
        return [float("cruel" in p.passage.text and p.pid == 0) for p in pairs]

    here = session(judge=judge)
    view = last(here, wish("bm25", "bm25", qid="", typed="Should zoos close?"))
    alone = bd.experiment("bm25", bd.Collection("x", [bd.Question("t", "Should zoos close?", ("a",))], PASSAGES), "P@3",
                          judge=by_word)  # fmt: skip
    assert docnos(view)[0] == lists_of(alone.runs["bm25"], "t", 3)
    assert {p.perspective for p in asked} == {"Zoos should close.", "Zoos should not close."}
    argues = {row["docno"]: row["argues"] for row in view["lists"][0]["rows"]}
    assert argues == {docno: [0] if "cruel" in docno else [] for docno in argues} and "cruel" in argues
    assert view["lists"][0]["figures"][-1]["name"] == "leaning"


def test_perspectives_of_ones_own_are_judged_and_never_marked_by_what_is_recorded():
    here = session(UNLABELLED, judge=by_word)
    with_gold = session(TOY)  # recorded verdicts are there, and its judge is the function all the same
    with_gold._reading = here._reader
    mine = ("Tea is best.", "Coffee is best.")
    for one in (here, with_gold):
        for wished in (
            wish("bm25", "bm25", perspectives=mine, k=5),
            wish("bm25", "letters", perspectives=mine, asked=0),
        ):
            view = last(one, wished)
            for row in (row for shown in view["lists"] for row in shown["rows"]):
                text = {p.docno: p.text for p in PASSAGES}[row["docno"]]
                assert row["argues"] == [pid for pid, word in enumerate(("tea", "coffee")) if word in text]
            assert view["judge"] != "recorded verdicts" and not with_gold.is_recorded(wished)
            assert [one["text"] for one in view["perspectives"]] == list(mine)
            assert [one["stance"] for one in view["perspectives"]] == ["", ""]


def test_recorded_perspectives_typed_again_are_recorded_still():
    here = session()
    again = wish(perspectives=(CLOSE, STAY))
    assert here.is_recorded(again) and here.question(again) == ZOOS
    assert last(here, again) == last(here, wish())
    assert not here.is_recorded(wish(perspectives=(STAY, CLOSE)))  # their numbers would not be those of the verdicts
    assert not here.is_recorded(wish(qid="", typed=ZOOS.text))
    assert not session(judge=by_word).is_recorded(wish()) and session(judge="gold").is_recorded(wish())


def test_what_cannot_be_asked():
    here = session()
    with pytest.raises(bd.InputError, match="unknown question 'zoo'"):
        here.question(wish(qid="zoo"))
    with pytest.raises(bd.InputError, match="no perspective number 3"):
        here.question(wish(asked=2))
    with pytest.raises(bd.InputError, match="type a question first"):
        last(here, wish(qid=""))


# ---------------------------------------------------------------- finished runs

THEIRS = ranked_run({"zoos": ["tea", "save"], "best": ["tea", "coffee"], "zoos#0": ["cruel2"]})
OTHERS = ranked_run({"zoos": ["cruel", "save", "coffee", "cruel2"]})


def finished(**options):
    return session_for(TOY, {"theirs": THEIRS, "others": OTHERS}, k=3, **options)


def test_finished_runs_stand_side_by_side():
    here, first = finished()
    assert first.systems == ("theirs", "others")
    views = list(here.looks(first))
    assert len(views) == 1 and docnos(views[0]) == [["tea", "save"], ["cruel", "save", "coffee"]]
    assert [one["hidden"] for one in views[0]["lists"]] == [[0], []]


def test_a_run_without_a_list_says_which_is_missing():
    here, first = finished()
    with_perspective = last(here, first._replace(asked=0))
    assert docnos(with_perspective)[0] == ["cruel2"]
    assert "no list for this perspective (its id would be 'zoos#0')" in with_perspective["lists"][1]["problem"]
    other = last(here, first._replace(qid="best"))
    assert docnos(other)[0] == ["tea", "coffee"] and "no list for this question" in other["lists"][1]["problem"]
    typed = last(here, first._replace(qid="", typed="Zoos?"))
    assert all("answers its own questions only" in one["problem"] for one in typed["lists"])


def test_a_run_that_lists_an_unknown_passage_is_told_of():
    here, first = session_for(TOY, {"theirs": ranked_run({"zoos": ["tea", "quark"]}), "others": OTHERS}, k=1)
    assert docnos(last(here, first))[0] == ["tea"]  # it stands below the first place
    view = last(here, first._replace(k=2))
    assert "lists passage 'quark', which is not in the corpus" in view["lists"][0]["problem"]
    assert view["lists"][1]["rows"] and "quark" not in view["passages"]


# ---------------------------------------------------------------- searched once, alone or together


def test_a_second_look_searches_nothing(counting):
    here = session()
    wished = wish("counting", "counting+mmr:1")
    first = last(here, wished)
    n = len(counting.asked)
    assert counting.asked[0] == [ZOOS.text, BEST.text]  # all questions at once
    assert last(here, wished) == first
    last(here, wished._replace(qid="best"))
    last(here, wished._replace(systems=("counting+mmr:1", "counting")))
    assert len(counting.asked) == n


def test_another_depth_is_another_search_and_old_runs_are_forgotten_in_time(counting, monkeypatch):
    monkeypatch.setattr(session_module, "_KEPT_RUNS", 2)
    here = session(own={"mine": counting})
    for k, searches in ((1, 1), (2, 2), (1, 2), (3, 3), (1, 3), (2, 4)):  # of two kept, the oldest look goes first
        assert len(docnos(last(here, wish("mine", "mine", k=k)))[0]) == k
        assert len(counting.asked) == searches, k


def test_a_cross_encoder_reads_for_one_question_only(counting, monkeypatch):
    read = []

    def scorer(pairs):
        read.extend(query for query, _ in pairs)
        return np.array([len(text) for _, text in pairs], dtype=np.float64)

    monkeypatch.setattr(systems_module, "load_scorer", lambda name: scorer)
    here = session(depth=3)
    view = last(here, wish("counting+cross:m", "bm25"))
    assert counting.asked == [[ZOOS.text]] and set(read) == {ZOOS.text}
    assert docnos(view)[0] == ["save", "cruel", "tea"]  # the longest text first
    assert view["lists"][0]["note"] == ""  # its scores depend on nothing but its own question
    last(here, wish("counting+cross:m", "bm25", asked=1))
    assert set(read) == {ZOOS.text, STAY}
    last(here, wish("counting+cross:m", "bm25"))
    assert counting.asked == [[ZOOS.text], [STAY]]
    other = last(here, wish("counting+cross:m", "bm25", qid="best"))  # it is not in the run of the first
    assert docnos(other)[0] == ["save", "cruel", "tea"] and counting.asked[2:] == [[BEST.text]]


def test_what_a_judge_reads_for_is_searched_alone_and_says_so(counting):
    read = []

    def aspects(pairs):
        read.extend(p.qid for p in pairs)
        return [0.5 for _ in pairs]

    here = session(aspect_judge=aspects, depth=3)
    view = last(here, wish("counting+coverage:0.5", "counting+mmr:0.5"))
    assert set(read) == {"zoos"} and counting.asked == [[ZOOS.text], [ZOOS.text, BEST.text]]
    assert view["lists"][0]["note"].startswith("Searched by itself") and not view["lists"][1]["note"]


# ---------------------------------------------------------------- a passage that is opened


def test_an_opened_passage_has_its_labels_and_what_the_judge_says():
    here = session()
    here._reading = session(judge=lambda pairs: [0.9 if p.pid else 0.45 for p in pairs])._reader
    found = here.opened(wish(), "cruel")
    assert (found["docno"], found["title"], found["text"]) == ("cruel", "", PASSAGES[0].text)
    assert found["judge"] == "laptop" and found["labelled"]
    assert found["opinions"] == [
        {"p": 0.45, "says": False, "sure": "unsure", "label": True},
        {"p": 0.9, "says": True, "sure": "sure", "label": False},
    ]
    nobody = here.opened(wish(), "tea")["opinions"]
    assert [one["label"] for one in nobody] == [None, None]
    with pytest.raises(bd.InputError, match="no passage 'quark'"):
        here.opened(wish(), "quark")
    mine = here.opened(wish(perspectives=("Mine.",)), "cruel")
    assert not mine["labelled"] and [one["label"] for one in mine["opinions"]] == [None]


# ---------------------------------------------------------------- where the lists differ most


def test_questions_in_order_of_their_difference():
    here, first = session_for(TOY, ("bm25", "letters"), k=2)
    found = here.ordered(first)
    whole = bd.experiment(("bm25", "letters"), TOY, ["MRecall@2", "Coverage@2", "Precision@2"])
    for row in found:
        change = (whole.scores["letters"] - whole.scores["bm25"]).loc[row.qid]
        assert [row.MRecall, row.Coverage, row.Precision] == change.tolist()
    assert sorted(one.qid for one in found) == ["best", "zoos"]
    sizes = [(abs(one.MRecall), abs(one.Coverage), -one.overlap) for one in found]
    assert sizes == sorted(sizes, reverse=True)
    assert here.ordered(first._replace(asked=1, perspectives=("Mine.",))) == found


def test_an_order_needs_perspectives_and_searches_slow_systems_for_all_questions(counting, monkeypatch):
    monkeypatch.setattr(systems_module, "load_scorer", lambda _: lambda pairs: np.zeros(len(pairs)))
    session(judge=by_word).ordered(wish("counting+cross:m", "bm25"))
    assert counting.asked == [[ZOOS.text, BEST.text]]
    bare = bd.Collection("toy", [bd.Question("q", "Zoos?")], PASSAGES)
    with pytest.raises(bd.InputError, match="no question has perspectives to order them by"):
        session(bare).ordered(wish(qid="q"))


# ---------------------------------------------------------------- what is kept


def test_a_cell_names_what_is_seen():
    here, first = session_for("sample", ("bm25", "bm25+mmr:0.5"), k=4)
    named = {}
    exec(here.cell(first), named)  # ours
    assert (named["dataset"], named["question_id"]) == ("sample", first.qid)
    assert (named["systems"], named["k"]) == (["bm25", "bm25+mmr:0.5"], 4)


@pytest.mark.parametrize(
    "wished",
    [wish(qid="", typed="Zoos?"), wish(perspectives=("Mine.",)), wish("mine", "bm25"), wish("bm25", "mine")],
)
def test_what_fits_into_no_cell(wished):
    here = session(own={"mine": THEIRS})
    for keep in (here.cell, here.command):
        with pytest.raises(bd.InputError, match="can be opened again"):
            keep(wished)


def test_the_command_runs_and_writes_the_same_lists(tmp_path):
    here, first = session_for("sample", ("bm25", "bm25+expand:rule"), k=3)
    question = here.collections["sample"].questions[2]
    words = shlex.split(here.command(first._replace(qid=question.qid)))
    assert words[0] == "berds" and words[-2:] == ["-o", "lists.html"]
    page = tmp_path / "lists.html"
    berds(*words[1:-1], page, "--no-opinions", "--no-sides")
    text = page.read_text()
    data = json.loads(text.partition('<script type="application/json" id="data">')[2].partition("</script>")[0])
    assert data["first"] == question.qid
    wanted = last(here, first._replace(qid=question.qid), longest=0)
    wanted.pop("passages")
    assert data["views"][question.qid]["-1"] == wanted


def named_sample(**options):
    here, first = session_for("sample", ("bm25", "bm25+mmr:0.5"), **options)
    return here.command(first)


def test_the_command_names_judge_and_depth():
    assert "--depth 3" in named_sample(depth=3) and "--depth" not in named_sample()
    named = named_sample(judge="laptop")
    assert shlex.split(named)[shlex.split(named).index("-j") + 1] == "laptop"
    assert "-j" not in shlex.split(named_sample())
    assert "-j" not in shlex.split(named_sample(judge="gold"))


def test_a_judge_of_ones_own_has_no_name():
    with pytest.raises(bd.InputError, match="judge of your own"):
        named_sample(judge=lambda pairs: [0.5] * len(pairs))
    with pytest.raises(bd.InputError, match="that another session could load"):
        session().cell(wish())


# ---------------------------------------------------------------- what is refused


def test_collections_that_cannot_be_explored():
    for rule in ("baseline", "explicit"):
        options = {"asked": {"political_attitude": ("a",)}} if rule == "explicit" else {}
        scenario = small_scenario("ab", [0], rule=rule, **options)
        with pytest.raises(bd.InputError, match="is a scenario of PerspectiveArg"):
            session_for(scenario, ("bm25", "bm25+mmr:0.5"))
        with pytest.raises(bd.InputError, match="is a scenario of PerspectiveArg"):
            session_for(scenario.handout, ("bm25", "bm25+mmr:0.5"))
    with pytest.raises(bd.InputError, match="questions only; name the corpus to search"):
        session(bd.Collection("toy", [ZOOS]))


@pytest.mark.parametrize(
    ("data", "systems", "options", "said"),
    [
        (TOY, ("bm25",), {}, "two systems stand side by side, not 1"),
        (TOY, ("bm25", "minilm", "mpnet"), {}, "two systems stand side by side, not 3"),
        (TOY, ("bm25", "minilm"), {"question": "zoo"}, "unknown question 'zoo'"),
        (TOY, ("bm25", "minilm"), {"k": 0}, "at least 1"),
        (TOY, ("bm25", TOY), {}, "of type Collection"),
        ([TOY, TOY], ("bm25", "minilm"), {}, "two collections have one name"),
        ([TOY, "sample"], {"a": THEIRS, "b": OTHERS}, {}, "belongs to one corpus"),
    ],
)
def test_arguments_that_cannot_be_used(data, systems, options, said):
    with pytest.raises(bd.InputError, match=said):
        session_for(data, systems, **options)
