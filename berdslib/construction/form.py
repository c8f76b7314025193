"""The form in a notebook through which a reviewer fills in a sheet, one item at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from berdslib.construction.review import ANSWERS, ASKED, SheetRow, read_sheet, summary, write_sheet
from berdslib.errors import BerdsError, InputError
from berdslib.files import StrPath

_CLEAR = dict.fromkeys((*ANSWERS, "note", "reviewer"), "")
_BOX = "border:1px solid var(--jp-border-color1,#bbb);border-radius:4px;padding:6px 12px;line-height:1.45;"


class ReviewForm:
    """Shows a sheet item by item and writes every answer to its file at once; display it in a notebook.

    It opens at the first item that is not finished. The tab key goes from button to button, and space presses one. The
    file is read again before every change, so that what was filled in elsewhere stays.

    Args:
        sheet: a file drawn with :func:`berdslib.construction.review.draw_sheet`, this reviewer's own copy.
        reviewer: who answers; written beside each answer.
    """

    def __init__(self, sheet: StrPath, reviewer: str) -> None:
        self.path, self.reviewer = Path(sheet), reviewer.strip()
        if not self.reviewer:
            raise InputError("a name is needed, so that two sheets can be told apart", field="reviewer")
        others = {row.reviewer for row in self.rows} - {"", self.reviewer}
        if others:
            problem = f"{min(others)!r} has begun this sheet; {self.reviewer!r} needs a copy of the drawn one"
            raise InputError(problem, path=self.path, field="reviewer")
        self._place = self._first_unfinished()
        self._widgets: _Widgets | None = None

    @property
    def rows(self) -> list[SheetRow]:
        """The sheet as it is in the file."""
        return read_sheet(self.path)

    def summary(self) -> pd.DataFrame:
        """Return the errors of each data set so far; what a notebook without a reader shows in place of the form."""
        return summary(self.rows)

    @property
    def widget(self) -> Any:
        """The form itself, an ipywidgets box."""
        return self._made().box

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.widget)

    def _made(self) -> _Widgets:
        if self._widgets is None:
            self._widgets = _Widgets(self._answer, self._go)
            self._show()
        return self._widgets

    def _first_unfinished(self) -> int:
        rows = self.rows
        return next((i for i, row in enumerate(rows) if not row.is_finished), len(rows) - 1)

    def _go(self, where: str) -> None:
        try:
            places = {"previous": self._place - 1, "next": self._place + 1, "unfinished": self._first_unfinished()}
            self._place = min(max(places[where], 0), len(self.rows) - 1)
            self._show()
        except BerdsError as error:
            self._made().say(str(error), bad=True)

    def _answer(self, change: dict[str, str]) -> None:
        """Write what was answered, and say so; where it cannot be written, say that."""
        widgets = self._made()
        try:
            rows = self.rows
            at = next((i for i, row in enumerate(rows) if row.qid == widgets.shown.qid), None)
            if at is None:
                raise InputError(f"no longer holds the item {widgets.shown.qid!r}", path=self.path, field="qid")
            row = rows[at]._replace(**{**change, "reviewer": self.reviewer})
            rows[at] = row if row.is_begun else row._replace(**_CLEAR)
            write_sheet(self.path, rows)
        except BerdsError as error:
            widgets.say(f"Not saved: {error}", bad=True)
            return
        self._place = at
        self._show()

    def _show(self) -> None:
        assert self._widgets is not None
        rows = self.rows
        self._widgets.show(rows, self._place, self.path.name)


class _Widgets:
    """The parts of the form, and how an item is put into them; what is done with an answer is not decided here."""

    def __init__(self, answer: Callable[[dict[str, str]], None], go: Callable[[str], None]) -> None:
        import ipywidgets as w

        self._answer, self._showing = answer, False
        wide = w.Layout(width="auto")  # not 100 %: with the margins that would be too wide, and be clipped
        self.head, self.item, self.status = w.HTML(), w.HTML(layout=wide), w.HTML()
        self.bar = w.IntProgress(min=0, bar_style="success", layout=w.Layout(width="180px"))
        self.done = w.HTML()
        self.moves = {
            "previous": _button("Previous", "arrow-left", 120),
            "next": _button("Next", "arrow-right", 120, "primary"),
            "unfinished": _button("First unfinished", "forward", 160),
        }
        for where, button in self.moves.items():
            button.on_click(lambda _, where=where: go(where))
        self.answers = {
            name: w.ToggleButtons(options=choices, value=None, style=w.ToggleButtonsStyle(button_width="90px"))
            for name, choices in ANSWERS.items()
        }
        self.note = w.Textarea(placeholder="Note (optional)", continuous_update=False, rows=2, layout=wide)
        for name, widget in {**self.answers, "note": self.note}.items():
            widget.observe(lambda change, name=name: self._changed(name, change["new"]), "value")
        self.clear = _button("Clear answers", "eraser", 140)
        self.clear.on_click(lambda _: answer(dict(_CLEAR)))
        grid = w.GridBox(
            [part for name, buttons in self.answers.items() for part in (w.HTML(escape(ASKED[name])), buttons)],
            layout=w.Layout(grid_template_columns="minmax(220px, 320px) 1fr", align_items="center"),
        )
        row = w.Layout(align_items="center", flex_flow="row wrap")
        # The buttons are not behind the note, where a tab and a space too many would erase what was just answered.
        buttons = w.HBox([*self.moves.values(), self.clear, self.bar, self.done], layout=row)
        parts = [buttons, self.head, self.item, grid, self.note, self.status]
        self.box = w.VBox(parts, layout=w.Layout(max_width="900px", grid_gap="6px"))

    def _changed(self, name: str, value: str | None) -> None:
        if not self._showing:
            self._answer({name: value or ""})

    def show(self, rows: Sequence[SheetRow], place: int, file: str) -> None:
        """Put an item and the progress of all into the form."""
        row, n = rows[place], len(rows)
        finished = sum(one.is_finished for one in rows)
        self.shown, self._showing = row, True
        self.head.value = f"<b>{place + 1} of {n}</b> · {escape(row.data_set)} · {escape(row.qid)}"
        self.item.value = _item_html(row)
        self.bar.max, self.bar.value = n, finished
        self.done.value = f"{finished} of {n} finished"
        for name, buttons in self.answers.items():
            buttons.value = getattr(row, name) or None
        self.note.value = row.note
        self.moves["previous"].disabled, self.moves["next"].disabled = place == 0, place == n - 1
        self._showing = False
        if row.is_at_odds:
            self.say("An answer is no, but no error is named, or the other way round.", bad=True)
        elif row.is_begun:
            self.say(f"Saved to {file}")
        else:
            self.say("")

    def say(self, text: str, bad: bool = False) -> None:
        """Show a line below the answers."""
        colour = "var(--jp-error-color1,#b00020)" if bad else "var(--jp-ui-font-color2,#555)"
        self.status.value = f'<span style="color:{colour}">{escape(text)}</span>'


def _button(text: str, icon: str, width: int, style: str = "") -> Any:
    import ipywidgets as w

    return w.Button(description=text, icon=icon, button_style=style, layout=w.Layout(width=f"{width}px"))


def _item_html(row: SheetRow) -> str:
    """Return an item as HTML; its texts come from others and hold no markup."""
    sources, statements = (
        "".join(f'<li style="margin:4px 0">{escape(text)}</li>' for text in texts.splitlines())
        for texts in (row.sources, row.perspectives)
    )
    numbers = 'style="margin:4px 0;padding-left:22px"'
    muted = "color:var(--jp-ui-font-color2,#555)"
    return (
        f'<div style="{muted}">Sources</div>'
        f'<div style="{_BOX}max-height:240px;overflow-y:auto">'
        f"{f'<ol {numbers}>{sources}</ol>' if sources else 'None are on record.'}</div>"
        f'<div style="{muted};margin-top:8px">Question and perspectives</div>'
        f'<div style="{_BOX}"><b>{escape(row.question)}</b><ol {numbers}>{statements}</ol></div>'
    )
