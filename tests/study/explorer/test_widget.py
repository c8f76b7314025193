"""The explorer driven by hand, without a browser: nothing that was asked for is lost."""

import gc
import threading
import weakref
from contextlib import contextmanager

import pytest

import berdslib as bd
from berdslib.data.records import make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.progress import chunk_starts
from berdslib.retrieval.systems import parse_system
from berdslib.study.explorer.session import AS_ASKED
from berdslib.study.explorer.widget import suggestions

LONG = 60  # seconds after which a test gives up waiting

PASSAGES = [
    bd.Passage("cruel", "zoos are cruel to animals and must close"),
    bd.Passage("save", "zoos save rare species and must stay open"),
    bd.Passage("tea", "tea is a drink"),
    bd.Passage("coffee", "coffee is a drink that zoos sell"),
]
ZOOS = bd.Question("zoos", "Should zoos close?", ("zoos must close", "zoos must stay"), ("support", "oppose"), "toy")
TEA = bd.Question("te/a", "Which drink is best?", ("Tea.", "Coffee."), source="toy")
GOLD = make_verdicts([("zoos", 0, "cruel", 1.0, True), ("zoos", 1, "save", 1.0, True)], "gold")
TOY = bd.Collection("toy", [ZOOS, TEA], PASSAGES, GOLD, {"zoos": [("rare", "rare species")]})


def by_word(pairs):
    """A judge: does a passage hold the last word of the perspective?"""
    return [float(p.perspective.split()[-1].lower().strip(".") in p.passage.text) for p in pairs]


class Slow:
    """Lists what it is told, a chunk at a time; each search waits until it is let."""

    def __init__(self, name="slow", docnos=("tea", "cruel")):
        self.name, self.docnos, self.searches = name, docnos, 0
        self.begun, self.open = threading.Event(), threading.Event()

    def search(self, questions, k):
        self.searches += 1
        self.begun.set()
        assert self.open.wait(LONG)
        for _ in chunk_starts(3, 1, "searching"):
            pass
        return ranked_run({q.qid: self.docnos[:k] for q in questions})


def waits_at_tea(gate):
    """A judge that reads the passage on tea once it is let."""

    def judge(pairs):
        if any(p.passage.docno == "tea" for p in pairs):
            gate.begun.set()
            assert gate.open.wait(LONG)
        return by_word(pairs)

    return judge


@pytest.fixture
def explored(user_cache):
    """Make explorers; all of them have come to rest when the test ends."""
    made = []

    def explore(data=TOY, systems=("bm25", "bm25+expand:rule"), **options):
        one = bd.explore(data, systems, **{"k": 2, "judge": by_word} | options)
        made.append(one)
        return one

    yield explore
    for one in made:
        one._worker.cancel()
        assert one.wait(LONG)


def docnos(explorer):
    return [[row["docno"] for row in one["rows"]] for one in explorer.view["lists"]]


def ready(explorer):
    assert explorer.wait(LONG)
    assert not explorer.status.get("busy")
    return explorer.view


def ask(explorer, **change):
    """Change what is asked, as the page does."""
    explorer.set_state({"request": {**explorer.request, **change}})


def send(explorer, **message):
    explorer._handle_custom_msg(message, [])


@contextmanager
def released(*slow):
    """Let what is slow go on in the end, whatever happens."""
    try:
        yield
    finally:
        for one in slow:
            one.open.set()


def test_it_opens_with_the_first_question_and_shows_both_lists(explored):
    explorer = explored(judge=None)
    view = ready(explorer)
    assert view["question"]["qid"] == "zoos" and view["judge"] == "recorded verdicts"
    whole = bd.experiment(("bm25", "bm25+expand:rule"), TOY, "P@2").runs
    wanted = [run[run["qid"] == "zoos"]["docno"].tolist() for run in whole.values()]
    assert docnos(explorer) == wanted and all(one["figures"] for one in view["lists"])
    assert repr(explorer) == "Explorer(bm25 | bm25+expand:rule)"
    assert explorer.status == {"text": "", "busy": False, "problem": ""}
    assert "application/vnd.jupyter.widget-view+json" in explorer._repr_mimebundle_()[0]


def test_another_request_changes_the_view(explored):
    explorer = explored()
    ready(explorer)
    ask(explorer, k=1)
    assert ready(explorer)["k"] == 1 and list(map(len, docnos(explorer))) == [1, 1]
    ask(explorer, qid="te/a")
    assert ready(explorer)["question"]["text"] == TEA.text
    ask(explorer, asked=1)
    assert ready(explorer)["asked"] == "Coffee." and docnos(explorer) == [["coffee"], ["coffee"]]
    ask(explorer, systems=["bm25", "bm25+multi:recorded"], asked=AS_ASKED, qid="zoos")
    assert ready(explorer)["lists"][1]["system"] == "bm25+multi:recorded"
    ask(explorer, k=21)
    ready(explorer)
    assert "[k]" in explorer.status["problem"] and explorer.view["k"] == 1


def test_a_system_that_cannot_be_read_leaves_the_lists_as_they_were(explored):
    explorer = explored()
    before = ready(explorer)
    ask(explorer, systems=["bm25", "bm26"])
    assert ready(explorer) == before and explorer.problems[0] == "" and "'bm26'" in explorer.problems[1]
    ask(explorer, qid="te/a")  # the next question is searched by the system before
    view = ready(explorer)
    assert view["question"]["qid"] == "te/a" and all(docnos(explorer))
    assert view["lists"][1]["system"] == "bm25+expand:rule"
    ask(explorer, systems=["bm25", "bm25+multi:rule"])
    assert ready(explorer)["lists"][1]["system"] == "bm25+multi:rule" and explorer.problems == ["", ""]


def test_a_question_and_perspectives_of_ones_own(explored):
    explorer = explored(judge=by_word)
    ready(explorer)
    ask(explorer, qid="", typed="Should tea be sold?")
    view = ready(explorer)
    assert view["question"] == {"qid": "typed", "text": "Should tea be sold?"}
    assert [one["text"] for one in view["perspectives"]] == ["Tea should be sold.", "Tea should not be sold."]
    ask(explorer, perspectives=["rare", "drink"])
    view = ready(explorer)
    assert [one["text"] for one in view["perspectives"]] == ["rare", "drink"] and view["judge"] == "by_word"
    text = {p.docno: p.text for p in PASSAGES}
    for row in view["lists"][0]["rows"]:
        assert row["argues"] == [pid for pid, word in enumerate(("rare", "drink")) if word in text[row["docno"]]]
    ask(explorer, asked=1)
    assert set(docnos(explorer)[0] if ready(explorer) else ()) == {"tea", "coffee"}
    ask(explorer, qid="zoos", typed="", perspectives=[], asked=AS_ASKED)
    assert ready(explorer)["question"]["qid"] == "zoos"


def test_every_suggestion_is_a_system():
    offered = suggestions({"mine": None})
    assert offered["first"][:2] == ["mine", "bm25"] and "minilm" in offered["dense"] and "bm25" not in offered["dense"]
    for first in offered["first"][1:]:
        parse_system(first)
    for part in offered["parts"]:
        parse_system(f"bm25+{part}")
    for part in offered["projections"]:
        parse_system(f"minilm+{part}")


def test_a_judge_that_fails_is_told_in_the_status(explored):
    def judge(pairs):
        raise InputError("the judge is ill")

    explorer = explored(judge=judge)
    view = ready(explorer)
    assert "the judge is ill" in explorer.status["problem"]
    assert all(docnos(explorer)) and not view["judged"]  # the lists are there, unmarked


def test_a_bug_in_a_system_is_told_and_the_explorer_lives_on(explored, caplog):
    class Bug(Slow):
        def search(self, questions, k):
            raise KeyError("quark\u202e")

    explorer = explored(systems=[Bug("bug"), Slow()])
    ready(explorer)
    assert explorer.status["problem"].startswith("KeyError: ")
    ask(explorer, systems=["bm25", "bm25+expand:rule"])
    ready(explorer)
    assert all(docnos(explorer)) and explorer.status["problem"] == ""


def test_cancel_during_a_slow_search(explored):
    slow = Slow()
    other = Slow("other")
    explorer = explored(systems=[other, slow])
    with released(slow, other):
        other.open.set()
        assert slow.begun.wait(LONG) and explorer.status["busy"]
        send(explorer, do="cancel")
        slow.open.set()
        ready(explorer)
    assert explorer.status["text"] and not explorer.status["problem"]
    assert docnos(explorer) == [["tea", "cruel"], []]  # what was done is kept
    ask(explorer, k=1)  # and the next wish is done
    ready(explorer)
    assert docnos(explorer) == [["tea"], ["tea"]]


def test_opening_a_passage_while_a_list_is_searching_loses_neither(explored):
    slow = Slow()
    fast = Slow("fast")
    explorer = explored(systems=[fast, slow], judge=by_word)
    fast.open.set()
    with released(slow):
        assert slow.begun.wait(LONG)
        assert docnos(explorer)[0] == ["tea", "cruel"]
        send(explorer, do="open", docno="cruel")
        assert explorer.passage == {"docno": "cruel", "asking": True}
        slow.open.set()
        view = ready(explorer)
    assert explorer.passage["text"] == PASSAGES[0].text and len(explorer.passage["opinions"]) == 2
    assert docnos(explorer) == [["tea", "cruel"]] * 2 and view["judged"]
    send(explorer, do="close")
    assert explorer.passage == {}


def test_opening_a_passage_before_the_next_look_has_begun_loses_neither(explored):
    gate = Slow()
    explorer = explored(judge=waits_at_tea(gate))
    ready(explorer)
    with released(gate):
        explorer.open_passage("tea")
        assert gate.begun.wait(LONG)
        ask(explorer, k=1)  # waits for the judge,
        explorer.open_passage("cruel")  # and so does this
        gate.open.set()
        ready(explorer)
    assert explorer.passage["docno"] == "cruel"
    assert explorer.view["k"] == 1


def test_a_passage_of_the_question_before_is_not_shown_on_the_next(explored):
    gate = Slow()
    explorer = explored(judge=waits_at_tea(gate))
    ready(explorer)
    shown = []
    explorer.observe(lambda change: shown.append(change.new), "passage")
    with released(gate):
        explorer.open_passage("tea")
        assert gate.begun.wait(LONG)
        ask(explorer, qid=TEA.qid)
        gate.open.set()
        assert ready(explorer)["question"]["text"] == TEA.text
    assert shown == [{"docno": "tea", "asking": True}, {}]


def test_questions_in_the_order_of_their_differences(explored):
    explorer = explored(systems=("bm25", "bm25+expand:recorded"), k=1)
    ready(explorer)
    ask(explorer, qid="", typed="Should tea be sold?")
    send(explorer, do="order")
    view = ready(explorer)
    wanted = explorer.session.labelled_questions(explorer.asked)
    assert explorer.differences == {"systems": ["bm25", "bm25+expand:recorded"], "k": 1, "questions": wanted}
    assert view["question"]["qid"] == wanted[0][0] == explorer.request["qid"] and explorer.request["typed"] == ""


def test_what_explore_refuses():
    for options, named in (({"k": 21}, "21"), ({"k": 0}, "0")):
        with pytest.raises(InputError, match=named):
            bd.explore(TOY, **options)


# ---------------------------------------------------------------- a cell that runs again


def test_running_a_cell_again_closes_its_explorer_and_frees_what_it_held(explored, monkeypatch):
    class Shell:
        cell = "one"

        def get_parent(self):
            return {"metadata": {"cellId": self.cell}}

    shell = Shell()
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell)
    first = explored()
    ready(first)
    shell.cell = "two"
    other = explored()
    ready(other)
    session = weakref.ref(first.session)
    shell.cell = "one"
    again = explored()
    gc.collect()
    assert session() is None and first.comm is None
    assert ready(again)["question"] == ready(other)["question"]
