"""The explorer in a notebook: ``berdslib.explore``. A widget that sends requests, and a worker that answers them."""

from __future__ import annotations

import json
import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import anywidget
import traitlets

from berdslib.errors import BerdsError, InputError
from berdslib.files import StrPath
from berdslib.progress import stop_if_given_up
from berdslib.retrieval.retrievers import RETRIEVERS, is_dense
from berdslib.retrieval.systems import DIVERSIFIER, EXPANSION, PROJECTION, offers
from berdslib.study import scoring
from berdslib.study.explorer import APP_SETTINGS, STATIC
from berdslib.study.explorer.session import AS_ASKED, DEPTH, READING_JUDGE, Session, ViewRequest, session_for
from berdslib.study.explorer.views import short_text, visible
from berdslib.study.explorer.worker import Worker

MOST_PLACES = 20
FIRST = ("bm25", "minilm", "rank-bm25")  # retrievers whose models come with the package


class Explorer(anywidget.AnyWidget):
    """Two systems side by side on one question; display it in a notebook. Made by :func:`explore`.

    ``request`` holds the fields of a :class:`~.session.ViewRequest`; set it to change the lists. ``problems`` holds the
    problem of an invalid system, and the system before it stays. ``static/explorer.js`` draws the widget.
    """

    _esm = STATIC / "explorer.js"
    _css = STATIC / "explorer.css"
    request = traitlets.Dict().tag(sync=True)
    problems: traitlets.List[str] = traitlets.List().tag(sync=True)
    choices = traitlets.Dict().tag(sync=True)
    differences = traitlets.Dict().tag(sync=True)
    view = traitlets.Dict().tag(sync=True)
    passage = traitlets.Dict().tag(sync=True)
    status = traitlets.Dict().tag(sync=True)

    def __init__(self, session: Session, request: ViewRequest) -> None:
        self.session = session
        self.asked = request  # the last request whose systems could be read
        self._worker = Worker(self._tell)
        self._complete = False
        questions = [[question.qid, short_text(question.text)] for question in session.collection.questions]
        super().__init__(request=request._asdict(), choices={"questions": questions, **suggestions(session.own)})
        self.on_msg(self._on_message)
        self.observe(self._answer, "request")
        self._answer()

    def _answer(self, _: object = None) -> None:
        """Show what is asked, as soon as the job before has stopped."""
        asked: dict[str, Any] = dict(self.request)
        for name in ("perspectives", "systems"):
            asked[name] = tuple(asked[name])  # lists, where they come from the page
        request = ViewRequest(**asked)
        self.problems = [self.session.problem_of(system) for system in request.systems]
        systems = list(self.asked.systems)
        for place, problem in enumerate(self.problems):
            if not problem:
                systems[place] = request.systems[place]
        self.asked = request._replace(systems=(systems[0], systems[1]))
        self.passage = {}
        self._complete = False
        self._worker.do(self._show)

    def _show(self) -> None:
        request = self.asked
        check_places(request.k)
        for view in self.session.render_steps(request):
            stop_if_given_up()
            self.view = view
        self._complete = True

    def _on_message(self, _: object, message: Mapping[str, Any], __: object) -> None:
        action = message.get("do")
        if action == "open":
            self.open_passage(str(message.get("docno", "")))
        elif action == "close":
            self.passage = {}
        elif action == "order":
            self._worker.do(self._order, "Comparing all questions …")
        elif action == "cancel":
            self._worker.cancel()
        elif action == "shown":
            self.send_state(["request", "problems", "differences", "view", "passage", "status"])

    def open_passage(self, docno: str) -> None:
        """Show a listed passage in full, with the judge's opinion."""
        request = self.asked
        self.passage = {"docno": docno, "asking": True}

        def ask() -> None:
            try:
                passage = self.session.passage_details(request, docno)
            except BerdsError as error:
                passage = {"docno": docno, "problem": visible(str(error))}
            stop_if_given_up()  # the view may be of another question by now
            self.passage = passage
            if not self._complete:  # this job has stopped the one that was making the lists
                self._show()

        self._worker.do(ask, "Asking the judge …")

    def _order(self) -> None:
        """Order the questions by how the lists differ, and go to the first."""
        request = self.asked
        questions = self.session.labelled_questions(request)
        stop_if_given_up()
        self.differences = {"systems": list(request.systems), "k": request.k, "questions": questions}
        first = {"qid": questions[0][0], "typed": "", "perspectives": [], "asked": AS_ASKED}
        self.request = {**self.request, **first}

    def _tell(self, text: str, busy: bool, problem: str) -> None:
        self.status = {"text": visible(text), "busy": busy, "problem": visible(problem)}

    def wait(self, timeout: float = 60) -> bool:
        """Wait until everything that was asked for is shown; return whether it is. For scripts and tests."""
        return self._worker.wait(timeout)

    def close(self) -> None:
        """Take the explorer from its page and free its indexes, lists and passages."""
        self._worker.cancel()
        super().close()
        self.__dict__.pop("session", None)

    def __repr__(self) -> str:
        """Name what is compared."""
        return f"Explorer({visible(' | '.join(self.asked.systems))})"


def suggestions(own: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what is suggested where a system is typed: names to begin with, and parts that may follow."""
    names = dict.fromkeys([*own, *FIRST, *RETRIEVERS.names()])
    first = [name for name in names if ":" not in name]
    return {
        "first": first,
        "dense": [name for name in first if name not in own and is_dense(name)],
        "parts": [f"{name}:0.75" for name in offers(DIVERSIFIER)] + offers(EXPANSION),
        "projections": offers(PROJECTION),  # work on vectors
    }


def check_places(k: int) -> None:
    """Refuse lists that are too long to stand beside each other."""
    if not 1 <= k <= MOST_PLACES:
        raise InputError(f"1 to {MOST_PLACES} places fit beside each other, not {k}", field="k")


_in_cells: dict[str, weakref.ref[Explorer]] = {}


def _replace_in_cell(explorer: Explorer) -> None:
    """Close the explorer that this cell made when it ran before: the kernel would keep it and all that it indexed."""
    from IPython.core.getipython import get_ipython

    parent: dict[str, Any] = getattr(get_ipython(), "get_parent", dict)()  # only a kernel has one
    cell = str((parent.get("metadata") or {}).get("cellId", ""))
    before = _in_cells.get(cell, lambda: None)()
    if before is not None:
        before.close()
    if cell:
        _in_cells[cell] = weakref.ref(explorer)


def explore(
    data: scoring.Data = "sample",
    systems: Sequence[scoring.AnySystem] | Mapping[str, scoring.AnySystem] = ("bm25", "minilm"),
    *,
    question: str | None = None,
    k: int = 5,
    judge: scoring.AnyJudge = None,
    aspect_judge: scoring.AnyJudge = READING_JUDGE,
    depth: int = DEPTH,
    recordings: StrPath | None = None,
    store: scoring.Store = None,
) -> Explorer:
    """Show two systems' lists side by side, to see which perspectives each shows and which it hides.

    Args:
        data: a collection, or the name of one, which stands for the questions of all its splits.
        systems: the left one and the right one, as for :func:`berdslib.experiment`; a mapping name → system where they
            are finished runs, such as two TREC files by ``bd.read_run``.
        question: the qid to begin with; None for the first.
        k: places of each list, 1 to 20.
        judge: as for ``experiment``; None for recorded verdicts where there are any, and "laptop" elsewhere: for
            questions that are typed in, and beside the labels of a passage that is opened.
        aspect_judge: as for ``experiment``.
        depth: how many candidates a diversifier chooses from.
        recordings: a file of a chat model's answers.
        store: where verdicts are kept; None for the user's cache.

    Raises:
        InputError: not two systems, an unknown question, a k outside 1 to 20, or a collection that cannot be searched.
    """
    check_places(k)
    session, request = session_for(
        data, systems, question=question, k=k, judge=judge, aspect_judge=aspect_judge, depth=depth,
        recordings=recordings, store=store,
    )  # fmt: skip
    explorer = Explorer(session, request)
    _replace_in_cell(explorer)
    return explorer


def open_app() -> Explorer:
    """Return the explorer that the settings in the environment ask for; what the served notebook shows."""
    settings = json.loads(os.environ.get(APP_SETTINGS, "{}"))
    if folder := settings.pop("folder", ""):  # the kernel starts in the folder of its notebook
        sys.path[:] = [place for place in sys.path if place]  # "" is where it is: modules that lie there are not ours
        os.chdir(folder)
    from berdslib.data.datasets import load

    questions = settings.pop("questions")
    data = load(questions, passages=settings.pop("corpus", None), split=settings.pop("split", "all"))
    return explore(data, **settings)
