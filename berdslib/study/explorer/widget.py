"""The explorer in a notebook: ``berdslib.explore``. One widget that draws, thin controls, and a worker behind them."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
import pandas as pd
import traitlets

from berdslib.errors import BerdsError, InputError
from berdslib.files import StrPath, write_text
from berdslib.progress import StoppedError, stop_if_given_up
from berdslib.retrieval.retrievers import RETRIEVERS, is_dense
from berdslib.retrieval.systems import (
    DIVERSIFIER,
    EXPANSION,
    EXTRACT,
    PROJECTION,
    Part,
    System,
    kinds,
    offers,
    parse_system,
)
from berdslib.study import scoring
from berdslib.study.explorer import SETTINGS, STATIC
from berdslib.study.explorer.session import AS_LISTED, DEPTH, MOST_TELLING, QUESTION, Session, Wish, session_for
from berdslib.study.explorer.views import Change, csv_of, table_of, visible
from berdslib.study.explorer.worker import Worker
from berdslib.study.figures.lists import letter_of

NONE = "none"
FIRST = ("bm25", "minilm", "rank-bm25")  # what needs nothing that does not come along
MENUS = {PROJECTION: "Project:", EXPANSION: "Expand:", DIVERSIFIER: "Diversify:"}  # in their order in a string
MOST_PLACES = 20
WRITTEN = "Written:"
_STYLE: dict[str, Any] = {"style": {"description_width": "90px"}}
_WIDE: dict[str, Any] = {**_STYLE, "layout": {"width": "99%"}}
_HALF: dict[str, Any] = {
    "style": {"description_width": "64px"},
    "layout": {"flex": "1 1 0", "width": "auto", "min_width": "0"},
}
_WRAPPED = {"flex_flow": "row wrap"}
_LONGEST_LABEL = 110


# ---------------------------------------------------------------- the controls of one system


def part_of(system: System, group: str) -> Part | None:
    """Return the last part of a system that belongs to a group, or None."""
    return next((part for part in reversed(system.parts) if part.kind in kinds(group)), None)


def with_part(system: System, group: str, part: Part | None) -> System:
    """Return a system with its last part of a group replaced, added, or (None) taken away; other parts stay.

    >>> with_part(parse_system("minilm+mmr:0.9"), EXPANSION, Part("expand", "rule")).text
    'minilm+expand:rule+mmr:0.9'
    """
    parts, before = list(system.parts), part_of(system, group)
    if group == PROJECTION and part is None:
        parts = [one for one in parts if one.kind not in (*kinds(group), EXTRACT)]  # it cuts for the projection alone
    elif before is not None:
        place = len(parts) - 1 - parts[::-1].index(before)
        parts[place : place + 1] = [] if part is None else [part]
    elif part is not None:
        later = kinds(DIVERSIFIER) if group == EXPANSION else []
        place = 0 if group == PROJECTION else next((i for i, p in enumerate(parts) if p.kind in later), len(parts))
        parts.insert(place, part)
    return System(system.first, tuple(parts))


class _Hand(threading.local):
    """Tells changes by hand from those that this thread makes itself."""

    away = False

    @contextmanager
    def off(self) -> Iterator[None]:
        """Answer no change of this thread's meanwhile."""
        before, self.away = self.away, True
        try:
            yield
        finally:
            self.away = before

    def on(self, control: Any, do: Callable[[], None]) -> None:
        """Do something whenever a control is changed by hand."""
        control.observe(lambda _: None if self.away else do(), "value")


class SystemControls:
    """Menus for retriever, projection, expansion and diversifier, a dial, and the string that they make."""

    def __init__(self, name: str, system: str, own: Sequence[str], changed: Callable[[], None]) -> None:
        self.system, self._own, self._changed, self._hand = system, tuple(own), changed, _Hand()
        more = [n for n in RETRIEVERS.names() if ":" not in n and n not in FIRST]
        known = [(f"{n} (where it is installed)" if RETRIEVERS.is_built_in(n) else n, n) for n in more]
        firsts = [*((n, n) for n in (*self._own, *FIRST)), *known]
        self.first = widgets.Dropdown(description=f"{name}:", options=firsts, **_HALF)
        self.text = widgets.Text(description="As text:", continuous_update=False, **_HALF)
        self.menus = {
            group: widgets.Dropdown(description=called, options=[NONE, *offers(group)], **_HALF)
            for group, called in MENUS.items()
        }
        self.dial = widgets.BoundedFloatText(description="Dial:", value=0.75, max=1, step=0.05, **_HALF)
        projection, expansion, diversifier = self.menus.values()
        rows = [self.first, self.text], [projection, expansion], [diversifier, self.dial]
        self.box = widgets.VBox([widgets.HBox(row) for row in rows], layout=_HALF["layout"])
        self._show()
        self._hand.on(self.text, lambda: self._set(str(self.text.value).strip()))
        self._hand.on(self.first, lambda: self._set(self._with_first(str(self.first.value))))
        for group, control in (*self.menus.items(), (DIVERSIFIER, self.dial)):
            self._hand.on(control, lambda group=group: self._set(self._with(group)))  # type: ignore[misc]

    def _set(self, system: str) -> None:
        """Take over what a control says."""
        self.system = system
        self._show()
        self._changed()

    def _parsed(self) -> System | None:
        """Return the system, if it can be read; one of the user's own has no parts."""
        try:
            return System(self.system) if self.system in self._own else parse_system(self.system)
        except BerdsError:
            return None

    def _with_first(self, first: str) -> str:
        if first in self._own:
            return first
        system = System(first, (self._parsed() or System(first)).parts)
        return (system if is_dense(first) else with_part(system, PROJECTION, None)).text

    def _with(self, group: str) -> str:
        """Return the system with the part that a menu says; without the parts of one that cannot be read."""
        chosen = str(self.menus[group].value)
        kind, _, value = chosen.partition(":")
        system = self._parsed() or System(str(self.first.value))
        if group == DIVERSIFIER:
            before = part_of(system, group)
            by = f"@{before.encoder}" if before and before.kind == kind and before.encoder else ""
            value = f"{self.dial.value:g}{by}"
        part = Part(kind, value)
        return with_part(system, group, None if chosen == NONE else part).text

    def _show(self) -> None:
        """Set the controls to what the system is; what they cannot say stands in the string alone."""
        with self._hand.off():
            self.text.value = self.system
            if (parsed := self._parsed()) is None:
                return  # the list says what is wrong with it
            if parsed.first not in [value for _, value in self.first.options]:
                self.first.options = [*self.first.options, (parsed.first, parsed.first)]
            self.first.value = parsed.first
            for group, menu in self.menus.items():
                part = part_of(parsed, group)
                written = NONE if part is None else str(part)[1:] if group == EXPANSION else part.kind
                if written not in menu.options:
                    menu.options = [*menu.options, written]
                menu.value = written
                flat = group == PROJECTION and not is_dense(parsed.first)
                menu.disabled = flat or self.system in self._own
            diversifier = part_of(parsed, DIVERSIFIER)
            self.dial.value = diversifier.number if diversifier else self.dial.value
            self.dial.disabled = diversifier is None
            self.dial.layout.visibility = "hidden" if diversifier is None else "visible"


# ---------------------------------------------------------------- the explorer


class Face(anywidget.AnyWidget):
    """Draws views; see ``static/explorer.js`` for what it does with each of its traits."""

    _esm = STATIC / "explorer.js"
    _css = STATIC / "explorer.css"
    view = traitlets.Dict().tag(sync=True)
    opened = traitlets.Dict().tag(sync=True)
    status = traitlets.Dict().tag(sync=True)
    kept = traitlets.Dict().tag(sync=True)


class Explorer:
    """Two systems side by side on one question; display it in a notebook. Made by :func:`explore`."""

    def __init__(self, session: Session, wish: Wish, output: Path) -> None:
        self.session, self.output = session, output
        self.face = Face()
        self._worker = Worker(self._tell)
        self._hand = _Hand()
        self._complete = False
        self._order: list[Change] | None = None
        self._recorded = {q.qid: tuple(q.perspectives) for q in session.collection.questions}
        self._make_controls(wish)
        self.face.on_msg(self._on_message)
        self._list_questions(wish.qid)
        self._show()

    # ------------------------------------------------------------ controls

    def _make_controls(self, wish: Wish) -> None:
        self.order = widgets.Dropdown(description="Order by:", options=[AS_LISTED, MOST_TELLING], **_STYLE)
        self.question = widgets.Dropdown(description="Question:", **_WIDE)
        self.own = widgets.ToggleButton(description="Ask my own …", tooltip="type a question, or other perspectives")
        self.typed = widgets.Text(
            description="My question:", placeholder="type a question and press Enter", continuous_update=False, **_WIDE
        )
        self.perspectives = widgets.Textarea(
            description="Perspectives:", placeholder="one a line; they are judged live", continuous_update=False,
            rows=3, **_WIDE,
        )  # fmt: skip
        self.own_box = widgets.VBox([self.typed, self.perspectives], layout={"display": "none"})
        self.asked = widgets.Dropdown(description="Search with:", options=[("the question", QUESTION)], **_WIDE)
        self.k = widgets.BoundedIntText(description="Places, k:", min=1, max=MOST_PLACES, value=wish.k, **_STYLE)
        left, right = wish.systems
        own = list(self.session.own)
        self.left = SystemControls("Left", left, own, partial(self._answer, None))
        self.right = SystemControls("Right", right, own, partial(self._answer, None))
        saves: list[tuple[str, str, Callable[[], str]]] = [
            ("Save figure", WRITTEN, self._save_figure),
            ("Save table", WRITTEN, self._save_table),
            ("As a cell", "A cell for a notebook", lambda: self.session.cell(self.wish)),
            ("As a command", "A command for the shell", lambda: self.session.command(self.wish)),
        ]
        self.saves = [widgets.Button(description=name) for name, _, _ in saves]
        for button, (_, what, do) in zip(self.saves, saves, strict=True):
            button.on_click(lambda _, what=what, do=do: self._keep(what, do))
        self.widget = widgets.VBox(
            [
                widgets.HBox([self.order, self.k, self.own], layout=_WRAPPED),
                self.question,
                self.own_box,
                self.asked,
                widgets.HBox([self.left.box, self.right.box]),
                self.face,
                widgets.HBox(self.saves, layout=_WRAPPED),
            ]
        )
        self.widget.add_class("berds-explorer")  # by which the face knows what belongs to it
        mine = (self.order, self.question, self.own, self.typed, self.perspectives, self.asked, self.k)
        for control in mine:
            self._hand.on(control, partial(self._answer, control))

    def _set(self, control: Any, **values: Any) -> None:
        with self._hand.off():
            for name, value in values.items():
                setattr(control, name, value)

    @property
    def wish(self) -> Wish:
        """What the controls say."""
        typed = str(self.typed.value).strip() if self.own.value else ""
        lines = tuple(line.strip() for line in str(self.perspectives.value).splitlines() if line.strip())
        if not typed and lines == self._recorded[str(self.question.value)]:
            lines = ()
        return Wish(
            qid="" if typed else str(self.question.value),
            typed=typed,
            perspectives=lines if self.own.value else (),
            asked=int(self.asked.value),
            systems=(self.left.system, self.right.system),
            k=int(self.k.value),
        )

    def _list_questions(self, qid: str = "") -> None:
        """Fill the menu of questions, in the chosen order; of a finished order each says how the lists differ."""
        options = [(_label(q.text), q.qid) for q in self.session.collection.questions]
        if self._order is not None:
            options = [(_label(one.text, str(one)), one.qid) for one in self._order]
        qids = [value for _, value in options]
        self._set(self.question, options=options, value=qid if qid in qids else qids[0])
        self._list_sides()

    def _list_sides(self) -> None:
        """Fill the menu of what can be searched with: the question, and each perspective that it now has."""
        try:
            perspectives = self.session.question(self.wish._replace(asked=QUESTION)).perspectives
        except BerdsError:
            perspectives = ()
        options = [("the question", QUESTION)]
        options += [(_label(f"{letter_of(pid)}: {text}"), pid) for pid, text in enumerate(perspectives)]
        if list(self.asked.options) != options:
            at = int(self.asked.value) if int(self.asked.value) < len(perspectives) else QUESTION
            self._set(self.asked, options=options, value=at)

    def _answer(self, control: Any) -> None:
        """Bring the others in line with a control that was changed by hand (None: those of a system), and show it."""
        if control is self.order and self.order.value == MOST_TELLING:
            self._sort()
            return
        if control in (self.order, self.k, None) and self._order is not None:  # it was of other lists
            self._order = None
            self._set(self.order, value=AS_LISTED)
            self._list_questions(str(self.question.value))
        if control in (self.question, self.typed):
            self._set(self.asked, value=QUESTION)
        if control is self.question:
            self._set(self.typed, value="")
        self.own_box.layout.display = "" if self.own.value else "none"
        if self.own.value and (
            control in (self.question, self.typed) or (control is self.own and not self.typed.value)
        ):
            asked = self.session.question(self.wish._replace(perspectives=(), asked=QUESTION)).perspectives
            self._set(self.perspectives, value="\n".join(asked), rows=max(3, len(asked)))
        self._show()

    def _sort(self) -> None:
        """Order the questions by how the lists differ, and go to the first."""
        wish = self.wish

        def sort() -> None:
            try:
                order = self.session.ordered(wish)
                stop_if_given_up()
            except (StoppedError, BerdsError):
                self._set(self.order, value=AS_LISTED)
                raise
            self._order = order
            self._set(self.own, value=False)
            self.own_box.layout.display = "none"
            self._set(self.asked, value=QUESTION)
            self._list_questions(order[0].qid)
            self.face.opened = {}
            self._look()

        self._worker.do(sort, "Comparing all questions …")

    # ------------------------------------------------------------ what is shown

    def _show(self) -> None:
        """Show what the controls say, as soon as what is under way has stopped."""
        self._list_sides()
        self.face.opened = {}
        self._complete = False
        self._worker.do(self._look)

    def _look(self) -> None:
        for view in self.session.looks(self.wish):
            stop_if_given_up()
            self.face.view = view
        self._complete = True

    def _on_message(self, _: object, message: Mapping[str, Any], __: object) -> None:
        do = message.get("do")
        if do == "open":
            self.open(str(message.get("docno", "")))
        elif do == "close":
            self.face.opened = {}
        elif do == "cancel":
            self._worker.cancel()
        elif do == "shown":
            self.face.send_state(["view", "opened", "status", "kept"])

    def open(self, docno: str) -> None:
        """Show a listed passage in full, with what the judge says of it."""
        wish = self.wish
        self.face.opened = {"docno": docno, "asking": True}

        def ask() -> None:
            try:
                opened = self.session.opened(wish, docno)
            except BerdsError as error:
                opened = {"docno": docno, "problem": visible(str(error))}
            stop_if_given_up()  # what is not wanted any more is not shown: the view may be of another question by now
            self.face.opened = opened
            if not self._complete:  # the lists were still on their way, and this job has stopped that one
                self._look()

        self._worker.do(ask, "Asking the judge …")

    def _tell(self, text: str, busy: bool, problem: str) -> None:
        told = {"text": visible(text), "busy": busy, "problem": visible(problem)}
        if told != self.face.status:
            self.face.status = told

    def wait(self, timeout: float = 60) -> bool:
        """Wait until everything that was asked for is shown; return whether it is. For scripts and tests."""
        return self._worker.wait(timeout)

    def close(self) -> None:
        """Take the explorer from its page and let go of what it holds: indexes, lists and passages."""
        self._worker.cancel()
        for one in _with_children(self.widget):
            one.close()
        self.session.clear()

    # ------------------------------------------------------------ what is kept

    def _keep(self, what: str, do: Callable[[], str]) -> None:
        try:
            self.face.kept = {"what": what, "text": do(), "copy": what != WRITTEN}
        except (BerdsError, OSError) as error:
            self.face.kept = {"problem": visible(str(error))}

    def table(self) -> pd.DataFrame:
        """Return what is shown as a table, see :func:`berdslib.study.figures.rank_table`."""
        view = self.face.view
        unfinished = not view or not view["judged"] or any(one["searching"] for one in view["lists"])
        if unfinished or not view["perspectives"]:
            raise InputError("nothing is marked yet; wait for the lists, or give the question perspectives")
        return table_of(view)

    def _save_figure(self) -> str:
        from berdslib.study.figures import save_figure, use_style
        from berdslib.study.figures.lists import perspectives_by_rank

        table, wish = self.table(), self.wish
        use_style()
        by = f" (marked by {self.face.view['judge']})"
        labels = {str(system): f"{system}{by}" for system in table["system"].unique()}
        figure = perspectives_by_rank(self.session.question(wish), table, wish.k, labels)
        return "\n".join(visible(str(path)) for path in save_figure(figure, table, self.output, self._stem()))

    def _save_table(self) -> str:
        path = self.output / f"{self._stem()}.csv"
        with write_text(path) as file:
            file.write(csv_of(self.table()))
        return visible(str(path))

    def _stem(self) -> str:
        wish = self.wish
        name = wish.qid
        if not name:  # two typed questions are two files
            typed = hashlib.sha256("\n".join([wish.typed, *wish.perspectives]).encode()).hexdigest()[:8]
            name = f"typed_{typed}"
        kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in name)
        return f"explorer_{kept}" + ("" if wish.asked == QUESTION else f"_asked_{wish.asked}")

    # ------------------------------------------------------------ in a notebook

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)

    def __repr__(self) -> str:
        """Name what is compared."""
        return f"Explorer({visible(' | '.join(self.wish.systems))})"


def _label(text: str, behind: str = "") -> str:
    text = visible(" ".join(text.split()))
    short = text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"
    return f"{short}{behind}" or "(blank)"


def _with_children(widget: Any) -> list[Any]:
    return [widget, *(one for child in getattr(widget, "children", ()) for one in _with_children(child))]


_in_cells: dict[str, weakref.ref[Explorer]] = {}


def _replace_in_cell(explorer: Explorer) -> None:
    """Close the explorer that this cell made when it ran before: the kernel would keep it and all that it indexed."""
    from IPython.core.getipython import get_ipython

    parent = getattr(get_ipython(), "get_parent", dict)  # only a kernel has one
    request: dict[str, Any] = parent()
    cell = str((request.get("metadata") or {}).get("cellId", ""))
    before = _in_cells.get(cell)
    if cell:
        _in_cells[cell] = weakref.ref(explorer)
    if before is not None and (old := before()) is not None:
        old.close()


def explore(
    data: scoring.Data = "sample",
    systems: Sequence[scoring.System] | Mapping[str, scoring.System] = ("bm25", "minilm"),
    *,
    question: str | None = None,
    k: int = 5,
    judge: scoring.AnyJudge = None,
    aspect_judge: scoring.AnyJudge = "laptop",
    depth: int = DEPTH,
    recordings: StrPath | None = None,
    store: scoring.Store = None,
    output: StrPath = "papermill_runs/explorer",
) -> Explorer:
    """Show two systems' lists side by side, to see which perspectives each shows and which it hides.

    Args:
        data: a collection, or the name of one, which stands for the questions of all its splits.
        systems: the left one and the right one, as for :func:`berdslib.experiment`; a mapping name → system where they
            are finished runs, such as two TREC files by ``bd.read_run``.
        question: the qid to begin with; None for the first.
        k: places of each list, 1 to 20.
        judge: as for ``experiment``; None for recorded verdicts where there are any, and "laptop" elsewhere: for
            questions and perspectives that are typed in, and beside the labels of a passage that is opened.
        aspect_judge: as for ``experiment``.
        depth: how many candidates a diversifier chooses from.
        recordings: a file of a chat model's answers.
        store: where verdicts are kept; None for the user's cache.
        output: where figures and tables are saved, below the project root.

    Raises:
        InputError: not two systems, an unknown question, a k outside 1 to 20, or a collection that cannot be searched.
    """
    from berdslib.paths import project_root

    session, wish = session_for(
        data, systems, question=question, k=k, judge=judge, aspect_judge=aspect_judge, depth=depth,
        recordings=recordings, store=store,
    )  # fmt: skip
    if k > MOST_PLACES:
        raise InputError(f"at most {MOST_PLACES} places fit beside each other, not {k}", field="k")
    explorer = Explorer(session, wish, (project_root() or Path()) / output)
    _replace_in_cell(explorer)
    return explorer


def open_app() -> Any:
    """Return the explorer that the settings in the environment ask for; what the served notebook shows."""
    settings = json.loads(os.environ.get(SETTINGS, "{}"))
    if folder := settings.pop("folder", ""):  # the kernel starts in the folder of its notebook
        sys.path[:] = [place for place in sys.path if place]  # "" is where it is: modules that lie there are not ours
        os.chdir(folder)
    from berdslib.data.datasets import load

    questions, corpus, split = settings.pop("questions"), settings.pop("corpus", None), settings.pop("split", "all")
    return explore(load(questions, passages=corpus, split=split), **settings)
