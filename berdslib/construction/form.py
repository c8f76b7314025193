"""A notebook form in which a reviewer fills in a sheet, one item at a time."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from berdslib.construction.review import ANSWERS, ASKED, SheetRow, read_sheet, write_sheet
from berdslib.errors import BerdsError, InputError
from berdslib.files import StrPath


class ReviewForm:
    """Shows a reviewer's own copy of a sheet, item by item, and saves each answer to the file immediately."""

    def __init__(self, sheet: StrPath, reviewer: str) -> None:
        self.path = Path(sheet)
        self.reviewer = reviewer.strip()
        if not self.reviewer:
            raise InputError("a name is needed, so that two sheets can be told apart", field="reviewer")
        rows = read_sheet(self.path)
        if others := {row.reviewer for row in rows} - {"", self.reviewer}:
            problem = f"{min(others)!r} has begun this sheet; {self.reviewer!r} needs a copy of the drawn one"
            raise InputError(problem, path=self.path, field="reviewer")
        unfinished = [place for place, row in enumerate(rows) if not row.is_finished]
        self._place = unfinished[0] if unfinished else len(rows) - 1
        self.widget = self._layout()
        self._show(rows)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.widget)

    def _layout(self) -> Any:
        import ipywidgets

        self._filling = False  # True while code fills the fields, so that these changes are not saved as answers
        wide = ipywidgets.Layout(width="auto")
        self._head = ipywidgets.HTML()
        self._item = ipywidgets.HTML(layout=wide)
        self._status = ipywidgets.HTML()
        self._moves = {}
        for step, label in ((-1, "Previous"), (1, "Next")):
            self._moves[step] = ipywidgets.Button(description=label)
            self._moves[step].on_click(lambda _, step=step: self._move(step))
        self._fields: dict[str, Any] = {}
        labelled = []
        for column, choices in ANSWERS.items():
            self._fields[column] = ipywidgets.ToggleButtons(options=choices, value=None)
            labelled += [ipywidgets.HTML(escape(ASKED[column])), self._fields[column]]
        self._fields["note"] = ipywidgets.Textarea(placeholder="Note (optional)", continuous_update=False, layout=wide)
        for column, field in self._fields.items():
            field.observe(lambda change, column=column: self._answer(column, change["new"] or ""), "value")
        grid = ipywidgets.GridBox(labelled, layout=ipywidgets.Layout(grid_template_columns="300px 1fr"))
        moves = ipywidgets.HBox([*self._moves.values()])
        parts = [moves, self._head, self._item, grid, self._fields["note"], self._status]
        return ipywidgets.VBox(parts, layout=ipywidgets.Layout(max_width="900px"))

    def _move(self, step: int) -> None:
        try:
            rows = read_sheet(self.path)
        except BerdsError as error:
            self._say(str(error))
            return
        self._place = min(max(self._place + step, 0), len(rows) - 1)
        self._show(rows)

    def _answer(self, column: str, answer: str) -> None:
        """Save an answer to the file, which may have changed meanwhile; show an error if that fails."""
        if self._filling:
            return
        try:
            rows = read_sheet(self.path)
            places = [place for place, row in enumerate(rows) if row.qid == self._shown.qid]
            if not places:
                raise InputError(f"no longer holds the item {self._shown.qid!r}", path=self.path, field="qid")
            self._place = places[0]
            rows[self._place] = rows[self._place]._replace(reviewer=self.reviewer, **{column: answer})
            write_sheet(self.path, rows)
        except BerdsError as error:
            self._say(f"Not saved: {error}")
            return
        self._show(rows)
        odd = "An answer is no, but no error is named, or the other way round."
        self._say(odd if self._shown.is_at_odds else f"Saved to {self.path.name}")

    def _show(self, rows: list[SheetRow]) -> None:
        """Show the current item and the progress through the sheet."""
        row = rows[self._place]
        self._shown = row
        finished = sum(each.is_finished for each in rows)
        progress = f"{self._place + 1} of {len(rows)} · {finished} finished"
        self._head.value = f"<b>{progress}</b> · {escape(row.data_set)} · {escape(row.qid)}"
        self._item.value = _item_html(row)
        self._filling = True
        for column, field in self._fields.items():
            field.value = getattr(row, column) or ("" if column == "note" else None)
        self._filling = False
        self._say("")

    def _say(self, text: str) -> None:
        self._status.value = escape(text)


def _item_html(row: SheetRow) -> str:
    """Return an item as HTML; its texts are untrusted and are escaped."""
    lists = []
    for texts in (row.sources, row.perspectives):
        items = "".join(f"<li>{escape(text)}</li>" for text in texts.splitlines())
        lists.append(f"<ol>{items}</ol>" if items else "<p>None are on record.</p>")
    return (
        f'Sources<div style="max-height:240px;overflow-y:auto">{lists[0]}</div><b>{escape(row.question)}</b>{lists[1]}'
    )
