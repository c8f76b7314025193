"""The form in a notebook through which a reviewer fills in a sheet, one item at a time."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from berdslib.construction.review import ANSWERS, ASKED, SheetRow, read_sheet, write_sheet
from berdslib.errors import BerdsError, InputError
from berdslib.files import StrPath

_BOX = "border:1px solid var(--jp-border-color1,#bbb);border-radius:4px;padding:6px 12px;line-height:1.45;"
_MUTED = "color:var(--jp-ui-font-color2,#555)"


class ReviewForm:
    """Shows a reviewer's own copy of a sheet, item by item, and writes every answer to its file at once."""

    def __init__(self, sheet: StrPath, reviewer: str) -> None:
        self.path, self.reviewer = Path(sheet), reviewer.strip()
        if not self.reviewer:
            raise InputError("a name is needed, so that two sheets can be told apart", field="reviewer")
        others = {row.reviewer for row in read_sheet(self.path)} - {"", self.reviewer}
        if others:
            problem = f"{min(others)!r} has begun this sheet; {self.reviewer!r} needs a copy of the drawn one"
            raise InputError(problem, path=self.path, field="reviewer")
        self.widget = self._made()
        self._show()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.widget)

    # ---------------------------------------------------------------- what is done

    def _go(self, place: int) -> None:
        try:
            self._show(place)
        except BerdsError as error:
            self._say(str(error), bad=True)

    def _answer(self, **change: str) -> None:
        """Write what was answered, and say so; where it cannot be written, say that."""
        try:
            rows = read_sheet(self.path)
            at = next((i for i, row in enumerate(rows) if row.qid == self._shown.qid), None)
            if at is None:
                raise InputError(f"no longer holds the item {self._shown.qid!r}", path=self.path, field="qid")
            rows[at] = rows[at]._replace(**change, reviewer=self.reviewer)
            write_sheet(self.path, rows)
        except BerdsError as error:
            self._say(f"Not saved: {error}", bad=True)
            return
        self._show(at)

    # ---------------------------------------------------------------- what is seen

    def _made(self) -> Any:
        import ipywidgets as w

        self._showing = False
        wide = w.Layout(width="auto")  # not 100 %: with the margins that would be too wide, and be clipped
        self._head, self._item, self._status = w.HTML(), w.HTML(layout=wide), w.HTML()
        self._moves = {step: w.Button(description=text) for step, text in ((-1, "Previous"), (1, "Next"))}
        for step, move in self._moves.items():
            move.on_click(lambda _, step=step: self._go(self._place + step))
        style = w.ToggleButtonsStyle(button_width="90px")
        answers = {name: w.ToggleButtons(options=one, value=None, style=style) for name, one in ANSWERS.items()}
        note = w.Textarea(placeholder="Note (optional)", continuous_update=False, rows=2, layout=wide)
        self._fields = {**answers, "note": note}
        for name, field in self._fields.items():
            field.observe(lambda change, name=name: self._changed(name, change["new"]), "value")
        grid = w.GridBox(
            [part for name, buttons in answers.items() for part in (w.HTML(escape(ASKED[name])), buttons)],
            layout=w.Layout(grid_template_columns="minmax(220px, 320px) 1fr", align_items="center"),
        )
        parts = [w.HBox([*self._moves.values()]), self._head, self._item, grid, note, self._status]
        return w.VBox(parts, layout=w.Layout(max_width="900px", grid_gap="6px"))

    def _changed(self, name: str, value: str | None) -> None:
        if not self._showing:
            self._answer(**{name: value or ""})

    def _show(self, place: int | None = None) -> None:
        """Put an item, by default the first that is not finished, and the progress of all into the form."""
        rows = read_sheet(self.path)
        finished, last = [row.is_finished for row in rows], len(rows) - 1
        if place is None:
            place = last if all(finished) else finished.index(False)
        self._place = min(max(place, 0), last)
        self._shown = row = rows[self._place]
        at, progress = f"{self._place + 1} of {len(rows)}", f"{sum(finished)} finished"
        self._head.value = f"<b>{at}</b> · {progress} · {escape(row.data_set)} · {escape(row.qid)}"
        self._item.value = _item_html(row)
        self._showing = True
        for name, field in self._fields.items():
            field.value = getattr(row, name) or ("" if name == "note" else None)
        self._showing = False
        if row.is_at_odds:
            self._say("An answer is no, but no error is named, or the other way round.", bad=True)
        else:
            self._say(f"Saved to {self.path.name}" if row.is_begun else "")

    def _say(self, text: str, bad: bool = False) -> None:
        colour = "color:var(--jp-error-color1,#b00020)" if bad else _MUTED
        self._status.value = f'<span style="{colour}">{escape(text)}</span>'


def _item_html(row: SheetRow) -> str:
    """Return an item as HTML; its texts come from others and hold no markup."""
    sources, statements = (
        "".join(f'<li style="margin:4px 0">{escape(text)}</li>' for text in texts.splitlines())
        for texts in (row.sources, row.perspectives)
    )
    numbers = 'style="margin:4px 0;padding-left:22px"'
    return (
        f'<div style="{_MUTED}">Sources</div>'
        f'<div style="{_BOX}max-height:240px;overflow-y:auto">'
        f"{f'<ol {numbers}>{sources}</ol>' if sources else 'None are on record.'}</div>"
        f'<div style="{_MUTED};margin-top:8px">Question and perspectives</div>'
        f'<div style="{_BOX}"><b>{escape(row.question)}</b><ol {numbers}>{statements}</ol></div>'
    )
