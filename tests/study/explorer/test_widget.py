"""The explorer driven by hand, without a browser: nothing that was asked for is lost."""

import gc
import threading
import weakref
from contextlib import contextmanager

import pandas as pd
import pytest

import berdslib as bd
from berdslib.data.records import make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.progress import chunk_starts
from berdslib.study.explorer.session import AS_LISTED, MOST_TELLING, QUESTION

LONG = 10  # seconds after which a test gives up waiting

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
def explored(user_cache, tmp_path):
    """Make explorers; all of them have come to rest when the test ends."""
    made = []

    def explore(data=TOY, systems=("bm25", "bm25+expand:rule"), **options):
        one = bd.explore(data, systems, **{"k": 2, "judge": by_word, "output": tmp_path / "kept"} | options)
        made.append(one)
        return one

    yield explore
    for one in made:
        one._worker.cancel()
        assert one.wait(LONG)


def docnos(explorer):
    return [[row["docno"] for row in one["rows"]] for one in explorer.face.view["lists"]]


def ready(explorer):
    assert explorer.wait(LONG)
    assert not explorer.face.status.get("busy")
    return explorer.face.view


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
    assert explorer.face.status == {"text": "", "busy": False, "problem": ""}
    assert "application/vnd.jupyter.widget-view+json" in explorer._repr_mimebundle_()


def test_changing_a_control_changes_the_view(explored):
    explorer = explored()
    ready(explorer)
    explorer.k.value = 1
    assert ready(explorer)["k"] == 1 and list(map(len, docnos(explorer))) == [1, 1]
    explorer.question.value = "te/a"
    assert ready(explorer)["question"]["text"] == TEA.text
    explorer.asked.value = 1
    assert ready(explorer)["asked"] == "Coffee." and docnos(explorer) == [["coffee"], ["coffee"]]
    explorer.question.value = "zoos"
    assert ready(explorer)["asked"] == "" and explorer.asked.value == QUESTION
    explorer.right.text.value = "bm26"
    assert "unknown retriever" in ready(explorer)["lists"][1]["problem"] and docnos(explorer)[0]
    explorer.right.text.value = "bm25+multi:recorded"
    assert ready(explorer)["lists"][1]["system"] == "bm25+multi:recorded"


def test_a_question_and_perspectives_of_ones_own(explored):
    explorer = explored()
    ready(explorer)
    explorer.own.value = True
    assert explorer.perspectives.value == "zoos must close\nzoos must stay" and explorer.own_box.layout.display == ""
    explorer.perspectives.value = "rare\n\n  drink \n"
    view = ready(explorer)
    assert [one["text"] for one in view["perspectives"]] == ["rare", "drink"] and view["judge"] == "by_word"
    text = {p.docno: p.text for p in PASSAGES}
    for row in view["lists"][0]["rows"]:
        assert row["argues"] == [pid for pid, word in enumerate(("rare", "drink")) if word in text[row["docno"]]]
    explorer.asked.value = 1
    assert set(docnos(explorer)[0] if ready(explorer) else ()) == {"tea", "coffee"}
    explorer.typed.value = "Should tea be sold?"
    view = ready(explorer)
    assert view["question"] == {"qid": "typed", "text": "Should tea be sold?"}
    assert [one["text"] for one in view["perspectives"]] == ["Tea should be sold.", "Tea should not be sold."]
    assert explorer.perspectives.value == "Tea should be sold.\nTea should not be sold."
    assert explorer.asked.value == QUESTION
    explorer.own.value = False
    assert ready(explorer)["question"]["qid"] == "zoos" and explorer.own_box.layout.display == "none"


def test_a_judge_that_fails_is_told_in_the_status(explored):
    def judge(pairs):
        raise InputError("the judge is ill")

    explorer = explored(judge=judge)
    view = ready(explorer)
    assert "the judge is ill" in explorer.face.status["problem"]
    assert all(docnos(explorer)) and not view["judged"]  # the lists are there, unmarked


def test_a_bug_in_a_system_is_told_and_the_explorer_lives_on(explored, caplog):
    class Bug(Slow):
        def search(self, questions, k):
            raise KeyError("quark\u202e")

    explorer = explored(systems=[Bug("bug"), Slow()])
    ready(explorer)
    assert explorer.face.status["problem"].startswith("KeyError: ")
    explorer.left.first.value = "bm25"
    explorer.right.first.value = "bm25"
    ready(explorer)
    assert all(docnos(explorer)) and explorer.face.status["problem"] == ""


def test_cancel_during_a_slow_search(explored):
    slow = Slow()
    explorer = explored(systems=[Slow("other"), slow])
    other = explorer.session.own["other"]
    with released(slow, other):
        other.open.set()
        assert slow.begun.wait(LONG) and explorer.face.status["busy"]
        explorer.face._handle_custom_msg({"do": "cancel"}, [])
        slow.open.set()
        ready(explorer)
    assert "Cancelled" in explorer.face.status["text"]
    assert docnos(explorer) == [["tea", "cruel"], []]  # what was done is kept
    explorer.k.value = 1  # and the next wish is done
    ready(explorer)
    assert docnos(explorer) == [["tea"], ["tea"]]


def test_opening_a_passage_while_a_list_is_searching_loses_neither(explored):
    slow = Slow()
    explorer = explored(systems=[Slow("fast"), slow], judge=by_word)
    explorer.session.own["fast"].open.set()
    with released(slow):
        assert slow.begun.wait(LONG)
        assert docnos(explorer)[0] == ["tea", "cruel"]
        explorer.face._handle_custom_msg({"do": "open", "docno": "cruel"}, [])
        assert explorer.face.opened == {"docno": "cruel", "asking": True}
        slow.open.set()
        view = ready(explorer)
    assert explorer.face.opened["text"] == PASSAGES[0].text and len(explorer.face.opened["opinions"]) == 2
    assert docnos(explorer) == [["tea", "cruel"]] * 2 and view["judged"]
    explorer.face._handle_custom_msg({"do": "close"}, [])
    assert explorer.face.opened == {}


def test_opening_a_passage_before_the_next_look_has_begun_loses_neither(explored):
    gate = Slow()
    explorer = explored(judge=waits_at_tea(gate))
    ready(explorer)
    with released(gate):
        explorer.open("tea")
        assert gate.begun.wait(LONG)
        explorer.k.value = 1  # waits for the judge,
        explorer.open("cruel")  # and so does this
        gate.open.set()
        ready(explorer)
    assert explorer.face.opened["docno"] == "cruel"
    assert explorer.face.view["k"] == 1


def test_a_passage_of_the_question_before_is_not_shown_on_the_next(explored):
    gate = Slow()
    explorer = explored(judge=waits_at_tea(gate))
    ready(explorer)
    shown = []
    explorer.face.observe(lambda change: shown.append(change.new), "opened")
    with released(gate):
        explorer.open("tea")
        assert gate.begun.wait(LONG)
        explorer.question.value = TEA.qid
        gate.open.set()
        assert ready(explorer)["question"]["text"] == TEA.text
    assert shown == [{"docno": "tea", "asking": True}, {}]


def test_questions_are_listed_by_difference_and_as_they_were_again(explored):
    explorer = explored(systems=("bm25", "bm25+expand:recorded"), k=1)
    ready(explorer)
    explorer.order.value = MOST_TELLING
    ready(explorer)
    wanted = explorer.session.ordered(explorer.wish)
    assert [qid for _, qid in explorer.question.options] == [one.qid for one in wanted]
    assert all("% alike]" in label for label, _ in explorer.question.options)
    assert explorer.face.view["question"]["qid"] == wanted[0].qid
    explorer.order.value = AS_LISTED
    assert explorer.question.options == ((ZOOS.text, "zoos"), (TEA.text, "te/a"))
    explorer.order.value = MOST_TELLING
    ready(explorer)
    shown = explorer.question.value
    explorer.left.text.value = "bm25+multi:rule"  # another pair: the order was not theirs, the question stays
    ready(explorer)
    assert explorer.order.value == AS_LISTED and explorer.question.value == shown
    assert explorer.face.view["lists"][0]["system"] == "bm25+multi:rule"


# ---------------------------------------------------------------- what is kept


def click(explorer, name):
    next(one for one in explorer.saves if one.description == name).click()


def test_a_table_is_saved_as_it_is_shown(explored, tmp_path):
    explorer = explored(systems=("bm25", "bm25+expand:recorded"), judge=None)
    ready(explorer)
    click(explorer, "Save table")
    path = tmp_path / "kept" / "explorer_zoos.csv"
    assert explorer.face.kept == {"what": "Written:", "text": str(path), "copy": False}
    saved = pd.read_csv(path)
    gold = {("cruel", 0), ("save", 1)}
    assert saved["supports"].tolist() == [pair in gold for pair in zip(saved["docno"], saved["pid"], strict=True)]
    for system, shown in zip(("bm25", "bm25+expand:recorded"), docnos(explorer), strict=True):
        mine = saved[(saved["system"] == system) & (saved["pid"] == 0)].sort_values("rank")
        assert mine["docno"].tolist() == shown and mine["rank"].tolist() == [1, 2]
    runs = bd.experiment(("bm25", "bm25+expand:recorded"), TOY, "P@2").runs
    from berdslib.study.figures.lists import rank_table

    table = explorer.table()
    assert set(table.pop("marked_by")) == {"recorded verdicts"}
    pd.testing.assert_frame_equal(table, rank_table(ZOOS, runs, GOLD, 2), check_dtype=False)


def test_two_typed_questions_are_saved_as_two_files(explored, tmp_path):
    explorer = explored(judge="overlap")
    for text in ("Should zoos close?", "Should zoos open?"):
        explorer.own.value = True
        explorer.typed.value = text
        ready(explorer)
        click(explorer, "Save table")
    assert len(list((tmp_path / "kept").glob("explorer_typed_*.csv"))) == 2


def test_what_explore_refuses():
    with pytest.raises(InputError, match="20"):
        bd.explore(TOY, k=21)


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
    assert first.session._workshops and first.face.comm is not None
    shell.cell = "one"
    again = explored()
    assert not first.session._workshops and first.face.comm is None
    assert ready(again)["question"] == ready(other)["question"]
    passages = weakref.ref(again.session)
    again.close()
    del again
    gc.collect()
    assert passages() is None or not passages()._workshops


class Meeting:
    """A control whose value takes its time: while it is set, a control of another thread is set too."""

    def __init__(self, begun, until):
        vars(self).update(begun=begun, until=until)

    def __setattr__(self, name, value):
        self.begun.set()
        assert self.until.wait(LONG)


def test_a_change_by_hand_counts_whatever_two_threads_set_before(explored):
    """The worker's setting begins within that of the main thread, and ends after it."""
    explorer = explored()
    assert explorer.wait(LONG)
    main, worker, over = threading.Event(), threading.Event(), threading.Event()
    other = threading.Thread(target=lambda: (main.wait(LONG), explorer._set(Meeting(worker, over), value=1)))
    other.start()
    explorer._set(Meeting(main, worker), value=1)
    over.set()
    other.join(LONG)
    explorer.k.value = 1
    assert explorer.wait(LONG) and explorer.face.view["k"] == 1
