"""The explorer in a notebook: ``berdslib.explore``. One widget that draws, thin controls, and a worker behind them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
import pandas as pd
import traitlets

from berdslib.data.collection import Collection
from berdslib.errors import BerdsError, InputError, says_what_it_takes
from berdslib.files import StrPath, write_text
from berdslib.study.explorer.controls import SystemControls
from berdslib.study.explorer.session import AS_LISTED, DEPTH, QUESTION, Session, Wish
from berdslib.study.explorer.views import csv_of, in_words, table_of, visible
from berdslib.study.explorer.worker import Job, StoppedError, Worker
from berdslib.study.figures.lists import letter_of
from berdslib.study.scoring import AnyJudge, Data, Store, System, collections_of, named_systems, store_of

STATIC = Path(__file__).with_name("static")
MOST_TELLING = "where the lists differ most"
_STYLE: dict[str, Any] = {"style": {"description_width": "90px"}}
_WIDE: dict[str, Any] = {**_STYLE, "layout": {"width": "99%"}}
_LONGEST_LABEL = 110


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
        self._setting = threading.local()  # each thread knows whether it sets controls from here
        self._complete = False
        self._order: pd.DataFrame | None = None
        self._make_controls(wish)
        self.face.on_msg(self._on_message)
        self._list_questions(wish.qid)
        self._show()

    # ------------------------------------------------------------ controls

    def _make_controls(self, wish: Wish) -> None:
        names = list(self.session.collections)
        self.corpus = widgets.Dropdown(description="Corpus:", options=names, value=wish.corpus, **_STYLE)
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
        self.k = widgets.BoundedIntText(description="Places, k:", min=1, max=20, value=wish.k, **_STYLE)
        left, right = wish.systems
        own = list(self.session.own)
        self.left = SystemControls("Left", left, own, self._changed_systems)
        self.right = SystemControls("Right", right, own, self._changed_systems)
        saves: list[tuple[str, Callable[[], None]]] = [
            ("Save figure", self._save_figure),
            ("Save table", self._save_table),
            ("As a cell", lambda: self._keep_text("A cell for a notebook", self.session.cell)),
            ("As a command", lambda: self._keep_text("A command for the shell", self.session.command)),
        ]
        self.saves = [widgets.Button(description=name) for name, _ in saves]
        for button, (_, do) in zip(self.saves, saves, strict=True):
            button.on_click(lambda _, do=do: self._guarded(do))
        top = [self.corpus, self.order] if len(names) > 1 else [self.order]
        self.widget = widgets.VBox(
            [
                widgets.HBox([*top, self.k, self.own], layout={"flex_flow": "row wrap"}),
                self.question,
                self.own_box,
                self.asked,
                widgets.HBox([self.left.box, self.right.box]),
                self.face,
                widgets.HBox(self.saves, layout={"flex_flow": "row wrap"}),
            ]
        )
        self.widget.add_class("berds-explorer")  # by which the face knows what belongs to it
        reactions: dict[Any, Callable[[], None]] = {
            self.corpus: self._changed_corpus,
            self.order: self._changed_order,
            self.question: self._changed_question,
            self.own: self._changed_own,
            self.typed: self._changed_typed,
            self.k: self._changed_systems,
            self.perspectives: self._show,
            self.asked: self._show,
        }
        for control, do in reactions.items():
            control.observe(lambda _, do=do: self._react(do), "value")

    def _react(self, do: Callable[[], None]) -> None:
        """Do what a change by hand asks for, not one that is made from here."""
        if not getattr(self._setting, "now", False):
            do()

    def _set(self, control: Any, **values: Any) -> None:
        self._setting.now = True
        try:
            for name, value in values.items():
                setattr(control, name, value)
        finally:
            self._setting.now = False

    @property
    def wish(self) -> Wish:
        """What the controls say."""
        typed = str(self.typed.value).strip() if self.own.value else ""
        lines = tuple(line.strip() for line in str(self.perspectives.value).splitlines() if line.strip())
        wish = Wish(
            corpus=str(self.corpus.value),
            qid="" if typed else str(self.question.value),
            typed=typed,
            perspectives=lines if self.own.value else (),
            asked=int(self.asked.value),
            systems=(self.left.system, self.right.system),
            k=int(self.k.value),
        )
        return self.session.plain(wish)

    def _list_questions(self, qid: str = "") -> None:
        """Fill the menu of questions, in the chosen order; of a finished order each says how the lists differ."""
        questions = self.session.collections[str(self.corpus.value)].questions
        options = [(_label(q.text), q.qid) for q in questions]
        if self._order is not None:
            options = [(_label(str(row.text), in_words(row)), str(row.qid)) for row in self._order.itertuples()]
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

    def _changed_corpus(self) -> None:
        self._order = None
        self._set(self.order, value=AS_LISTED)
        self._set(self.asked, value=QUESTION)
        self._list_questions()
        self._show()

    def _changed_question(self) -> None:
        self._set(self.typed, value="")
        self._set(self.asked, value=QUESTION)
        if self.own.value:
            self._fill_perspectives()
        self._show()

    def _changed_own(self) -> None:
        self.own_box.layout.display = "" if self.own.value else "none"
        if self.own.value and not self.typed.value:
            self._fill_perspectives()
        self._show()

    def _fill_perspectives(self) -> None:
        question = self.session.question(self.wish._replace(perspectives=(), asked=QUESTION))
        self._set(self.perspectives, value="\n".join(question.perspectives), rows=max(3, len(question.perspectives)))

    def _changed_typed(self) -> None:
        self._set(self.asked, value=QUESTION)
        self._set(self.perspectives, value="")  # those of another question
        self._fill_perspectives()
        self._show()

    def _changed_systems(self) -> None:
        self._show()
        if self._order is not None:  # it was another pair's, or of lists of another length
            self._sort(str(self.question.value))

    def _changed_order(self) -> None:
        if self.order.value == AS_LISTED:
            self._order = None
            self._list_questions(str(self.question.value))
            self._show()  # also where all questions are still being compared
            return
        self._sort()

    def _sort(self, keep: str = "") -> None:
        """Order the questions by how the lists differ, and go to the first, or keep the one that is shown."""
        wish = self.wish

        def sort(job: Job) -> None:
            if keep:
                self._look(job)
            try:
                order = self.session.ordered(wish)
                job.check()
            except (StoppedError, BerdsError):
                if not keep:
                    self._set(self.order, value=AS_LISTED)
                raise
            self._order = order
            if keep:
                return self._list_questions(keep)
            self._set(self.own, value=False)
            self.own_box.layout.display = "none"
            self._set(self.asked, value=QUESTION)
            self._list_questions(str(order["qid"].iloc[0]))
            self.face.opened = {}
            return self._look(job)

        self._worker.do(sort, "Comparing all questions …")

    # ------------------------------------------------------------ what is shown

    def _show(self) -> None:
        """Show what the controls say, as soon as what is under way has stopped."""
        self._list_sides()
        self.face.opened = {}
        self._complete = False
        self._worker.do(self._look)

    def _look(self, job: Job) -> None:
        for view in self.session.looks(self.wish):
            job.check()
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

        def ask(job: Job) -> None:
            try:
                self.face.opened = self.session.opened(wish, docno)
            except BerdsError as error:
                self.face.opened = {"docno": docno, "problem": visible(str(error))}
            job.check()
            if not self._complete:  # the lists were still on their way, and this job has stopped that one
                self._look(job)

        self._worker.do(ask, "Asking the judge …")

    def _tell(self, text: str, share: float | None, busy: bool, problem: str) -> None:
        told = {"text": visible(text), "share": share, "busy": busy, "problem": visible(problem)}
        if told != self.face.status:
            self.face.status = told

    def wait(self, timeout: float = 60) -> bool:
        """Wait until everything that was asked for is shown; return whether it is. For scripts and tests."""
        return self._worker.wait(timeout)

    def close(self) -> None:
        """Take the explorer from its page and let go of what it holds: indexes, lists and passages.

        Running its cell again does so by itself, see :func:`_replace_in_cell`.
        """
        self._worker.cancel()
        for one in _with_children(self.widget):
            one.close()
        self.session.clear()

    # ------------------------------------------------------------ what is kept

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except (BerdsError, OSError) as error:
            self.face.kept = {"problem": visible(str(error))}

    def _keep_text(self, what: str, make: Callable[[Wish], str]) -> None:
        self.face.kept = {"what": what, "text": make(self.wish), "copy": True}

    def table(self) -> pd.DataFrame:
        """Return what is shown as a table, see :func:`berdslib.study.figures.rank_table`."""
        view = self.face.view
        unfinished = not view or not view["judged"] or any(one["searching"] for one in view["lists"])
        if unfinished or not view["perspectives"]:
            raise InputError("nothing is marked yet; wait for the lists, or give the question perspectives")
        return table_of(view)

    def _save_figure(self) -> None:
        from berdslib.study.figures import save_figure, use_style
        from berdslib.study.figures.lists import perspectives_by_rank

        table, wish = self.table(), self.wish
        use_style()
        by = f" (marked by {self.face.view['judge']})"
        labels = {str(system): f"{system}{by}" for system in table["system"].unique()}
        figure = perspectives_by_rank(self.session.question(wish), table, wish.k, labels)
        self._keep_files(save_figure(figure, table, self.output, self._stem()))

    def _save_table(self) -> None:
        path = self.output / f"{self._stem()}.csv"
        with write_text(path) as file:
            file.write(csv_of(self.table()))
        self._keep_files([path])

    def _stem(self) -> str:
        wish = self.wish
        kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in wish.qid or "typed")
        return f"explorer_{kept}" + ("" if wish.asked == QUESTION else f"_asked_{wish.asked}")

    def _keep_files(self, paths: Iterable[Path]) -> None:
        self.face.kept = {"what": "Written:", "text": "\n".join(visible(str(path)) for path in paths), "copy": False}

    # ------------------------------------------------------------ in a notebook

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)

    def __repr__(self) -> str:
        """Name what is compared."""
        return f"Explorer({' | '.join(self.wish.systems)})"


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


def _label(text: str, behind: str = "") -> str:
    text = visible(" ".join(text.split()))
    short = text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"
    return f"{short}{behind}" or "(blank)"


@says_what_it_takes
def explore(
    data: Data | Sequence[Data] = "sample",
    systems: Sequence[System] | Mapping[str, System] = ("bm25", "minilm"),
    *,
    question: str | None = None,
    k: int = 5,
    judge: AnyJudge = None,
    aspect_judge: AnyJudge = "laptop",
    depth: int = DEPTH,
    recordings: StrPath | None = None,
    store: Store = None,
    output: StrPath = "papermill_runs/explorer",
) -> Explorer:
    """Show two systems' lists side by side, to see which perspectives each shows and which it hides.

    Args:
        data: a collection or its name; of several, a menu chooses.
        systems: the left one and the right one, as for :func:`berdslib.experiment`; a mapping name → system where they
            are finished runs, such as two TREC files by ``bd.read_run``. Menus change them afterwards.
        question: the qid to begin with; None for the first.
        k: places of each list, 1 to 20.
        judge: as for ``experiment``; None for recorded verdicts where there are any, and "laptop" elsewhere: for
            questions and perspectives that are typed in, and beside the labels of a passage that is opened.
        aspect_judge: as for ``experiment``, as the next three.
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
    if k > 20:
        raise InputError(f"at most 20 places fit beside each other, not {k}", field="k")
    explorer = Explorer(session, wish, (project_root() or Path()) / output)
    _replace_in_cell(explorer)
    return explorer


def session_for(
    data: Data | Sequence[Data],
    systems: Sequence[System] | Mapping[str, System],
    *,
    question: str | None = None,
    k: int = 5,
    store: Store = None,
    **options: Any,
) -> tuple[Session, Wish]:
    """Return a session and the wish to begin with; arguments and errors as :func:`explore`."""
    from berdslib.data.records import check_k
    from berdslib.errors import known

    check_k(k)
    named = named_systems(systems)
    collections = _by_name(collections_of(data))
    if len(named) != 2:
        raise InputError(f"two systems stand side by side, not {len(named)}", field="systems")
    own = {name: one for name, one in named.items() if not isinstance(one, str)}
    if own and len(collections) > 1:
        raise InputError("a run or a retriever of your own belongs to one corpus; give one collection", field="data")
    strings = {name: one for name, one in named.items() if isinstance(one, str)}
    session = Session(collections, own=own, store=store_of(store), **options)
    left, right = (strings.get(name, name) for name in named)
    name, first = next(iter(collections.items()))
    qids = [q.qid for q in first.questions]
    qid = qids[0] if question is None else known("question", question, qids)
    return session, Wish(name, qid, systems=(left, right), k=k)


def _by_name(collections: Sequence[Collection]) -> dict[str, Collection]:
    named = {one.name: one for one in collections}
    if len(named) < len(collections):
        raise InputError("two collections have one name; give one another", field="data")
    return named
