"""The explorer in a notebook, ``berdslib.explore``: a widget sends requests, and a worker thread answers them."""

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
    """A widget that shows two systems side by side on one question; :func:`explore` makes it.

    ``request`` holds the fields of a :class:`~.session.ViewRequest`; set it to change the lists. ``problems`` holds the
    problem of each system string, "" if it is valid; the last valid system stays in place of an invalid one.
    ``static/explorer.js`` draws the widget.
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
        self.asked = request  # the last request, with the last valid systems
        self._worker = Worker(self._tell)
        self._complete = False
        questions = [[question.qid, short_text(question.text)] for question in session.collection.questions]
        super().__init__(request=request._asdict(), choices={"questions": questions, **suggestions(session.own)})
        self.on_msg(self._on_message)
        self.observe(self._answer, "request")
        self._answer()

    def _answer(self, _: object = None) -> None:
        """Show the lists of the current request, as soon as the job before has stopped."""
        asked: dict[str, Any] = dict(self.request)
        for name in ("perspectives", "systems"):
            asked[name] = tuple(asked[name])  # the page sends lists
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
        """Show a listed passage in full, with the judge's opinion on each perspective."""
        request = self.asked
        self.passage = {"docno": docno, "asking": True}

        def ask() -> None:
            try:
                passage = self.session.passage_details(request, docno)
            except BerdsError as error:
                passage = {"docno": docno, "problem": visible(str(error))}
            stop_if_given_up()  # the view may show another question by now
            self.passage = passage
            if not self._complete:  # this job has interrupted the search for the lists
                self._show()

        self._worker.do(ask, "Asking the judge …")

    def _order(self) -> None:
        """Order the questions by the differences between the lists, and show the first."""
        request = self.asked
        questions = self.session.labelled_questions(request)
        stop_if_given_up()
        self.differences = {"systems": list(request.systems), "k": request.k, "questions": questions}
        first = {"qid": questions[0][0], "typed": "", "perspectives": [], "asked": AS_ASKED}
        self.request = {**self.request, **first}

    def _tell(self, text: str, busy: bool, problem: str) -> None:
        self.status = {"text": visible(text), "busy": busy, "problem": visible(problem)}

    def wait(self, timeout: float = 60) -> bool:
        """Wait until the current request is answered; return whether it is. For scripts and tests."""
        return self._worker.wait(timeout)

    def close(self) -> None:
        """Remove the explorer from its page and free its indexes, lists and passages."""
        self._worker.cancel()
        super().close()
        self.__dict__.pop("session", None)

    def __repr__(self) -> str:
        """Name the systems that are compared."""
        return f"Explorer({visible(' | '.join(self.asked.systems))})"


def suggestions(own: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the suggestions for typing a system: names of retrievers, and parts that may follow."""
    names = dict.fromkeys([*own, *FIRST, *RETRIEVERS.names()])
    first = [name for name in names if ":" not in name]
    return {
        "first": first,
        "dense": [name for name in first if name not in own and is_dense(name)],
        "parts": [f"{name}:0.75" for name in offers(DIVERSIFIER)] + offers(EXPANSION),
        "projections": offers(PROJECTION),  # for dense retrievers only
    }


def check_places(k: int) -> None:
    """Raise InputError if lists of k places are too long to show side by side."""
    if not 1 <= k <= MOST_PLACES:
        raise InputError(f"expected 1 to {MOST_PLACES} places, got {k}", field="k")


_in_cells: dict[str, weakref.ref[Explorer]] = {}


def _replace_in_cell(explorer: Explorer) -> None:
    """Close the explorer of an earlier run of this cell; otherwise the kernel would keep it and its indexes."""
    from IPython.core.getipython import get_ipython

    parent: dict[str, Any] = getattr(get_ipython(), "get_parent", dict)()  # exists only in a kernel
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
    """Show two systems' lists side by side, and which perspectives each list shows and hides.

    Args:
        data: a collection, or its name, which loads the questions of all its splits.
        systems: the left and the right system, as for :func:`berdslib.experiment`; for finished runs, such as two TREC
            files read by ``bd.read_run``, a mapping name → run.
        question: qid of the first question to show; None for the first of the data.
        k: places of each list, 1 to 20.
        judge: as for ``experiment``; None for the recorded verdicts of the data. "laptop" then judges data without
            recorded verdicts and typed questions, and adds its opinion to an opened passage.
        aspect_judge: as for ``experiment``.
        depth: number of candidates that a diversifier chooses from.
        recordings: a file of a chat model's answers.
        store: a store of verdicts, or its file; None for the user's cache.

    Raises:
        InputError: not two systems, an unknown question, k outside 1 to 20, or a collection without passages.
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
    """Return the explorer for the settings in the environment variable ``BERDS_APP``; the served notebook shows it."""
    settings = json.loads(os.environ.get(APP_SETTINGS, "{}"))
    if folder := settings.pop("folder", ""):  # the kernel starts in the folder of its notebook
        sys.path[:] = [place for place in sys.path if place]  # "" is the current folder: do not import its modules
        os.chdir(folder)
    from berdslib.data.datasets import load

    questions = settings.pop("questions")
    data = load(questions, passages=settings.pop("corpus", None), split=settings.pop("split", "all"))
    return explore(data, **settings)
