"""The numbers printed in the BeRDS and PIR papers, and a page for each table and figure with ours beside them.

The files in data/published hold one number per row; the README.md there gives their sources and the doubtful numbers.
"""

from __future__ import annotations

import html
import re
import shutil
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any

import pandas as pd

from berdslib.errors import InputError, known
from berdslib.paths import shipped
from berdslib.study.tables import as_latex, escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# The name of each version in messages, and the file with its numbers.
VERSIONS = {"v1": ("BeRDS v1", "berds_v1"), "v2": ("BeRDS v2", "berds_v2"), "pir": ("PIR", "pir")}
REAL = ("lists", "dial", "changes", "pir", "people", "projection")  # tables of data/real


def published_table(table: str, version: str = "v2") -> pd.DataFrame:
    """Return the numbers of one published table, one row per number, in the printed order and unit.

    Args:
        table: its number in that version of the paper, "3" or "Table 3".
        version: "v1" or "v2" of BeRDS, which number their tables differently, or "pir" for the PIR paper.

    Returns:
        A frame with the columns of the file: `k` is Int64, `value` float, and all others text, "" if not applicable.
    """
    numbers = _numbers(known("version", version, VERSIONS))
    wanted = str(table).strip().removeprefix("Table").strip()
    name = known(f"table of {VERSIONS[version][0]}", wanted, numbers["table"].unique())
    return numbers[numbers["table"] == name].reset_index(drop=True)


def published_value(table: str, *, version: str = "v2", **where: str | float) -> float:
    """Return the only published number that meets all conditions, column = value.

    >>> published_value("3", corpus="wikipedia", retriever="bm25", dataset="arguana", measure="MRecall", k=5)
    10.8
    """
    rows = published_table(table, version)
    for column, value in where.items():
        known("column", column, rows.columns)
        rows = rows[rows[column].eq(value).fillna(False)]
    if len(rows) != 1:
        conditions = ", ".join(f"{column}={value!r}" for column, value in where.items()) or "no condition"
        raise InputError(f"{len(rows)} numbers of Table {table} ({version}) match {conditions}; exactly one must match")
    return float(rows["value"].iloc[0])


@cache
def read_shipped(name: str) -> pd.DataFrame:
    """Return a table of data/published as text, by its name without the ending, such as "ours" or "figures"."""
    return pd.read_csv(shipped("published") / f"{name}.csv", dtype=str, keep_default_na=False)


def real_numbers(name: str) -> pd.DataFrame:
    """Return one of the tables ``REAL`` of data/real: results on data whose texts we may not redistribute.

    The README.md of data/real describes the columns. The first three tables write a list as a word with one letter per
    rank: A for a passage that argues the supporting side, B for the opposing side, X for both, a dot for neither.
    """
    known("table of data/real", name, REAL)
    return pd.read_csv(shipped("real") / f"{name}.csv", keep_default_na=False)


# ---------------------------------------------------------------- one page for each table and figure

_TOLD = {  # field of tables.toml → its label on a page
    "differs": "Why not compare", "command": "Command", "settings": "Published settings",
    "notebook": "Notebook", "data": "Data", "hours": "Hours", "laptop": "On a laptop", "row": "One row of ours",
}  # fmt: skip
CODE = ("Command", "Grid file", "Published settings", "One row of ours")
STATUS = {
    "rebuilt": "the same measure or picture on other data",
    "drawn": "only the published values are shown",
    "not": "not rebuilt",
}


@dataclass(frozen=True, eq=False, repr=False)
class PublishedPage:
    """A table or figure of the papers: the published numbers, ours beside them, and how we compute ours.

    `published` and `ours` have one row per number, all values as text as in the files; either may be empty. `told`
    holds the entry of data/published/tables.toml.
    """

    name: str
    title: str
    status: str
    published: pd.DataFrame
    ours: pd.DataFrame
    says: tuple[str, ...]
    misprints: tuple[str, ...]
    told: Mapping[str, Any]

    @property
    def heading(self) -> str:
        """Paper, number and title; in brackets the number in BeRDS' earlier version."""
        number = self.name.split()[-1]
        earlier = self.told.get("earlier", number)
        in_brackets = f" ({earlier} in the earlier version)" if earlier != number else ""
        label = self.name if "Figure" in self.name else self.name.replace(" ", " Table ")
        return f"{label}{in_brackets}: {self.title}"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The text of the page beside its numbers, as pairs of a label and a text."""
        pairs = [("Status", f"{self.status}: {STATUS[self.status]}")]
        for field, label in _TOLD.items():
            if self.told.get(field):
                pairs.append((label, self.told[field]))
        command = self.told["command"]
        if command.endswith(".yaml"):
            pairs.append(("Grid file", command.split()[-1]))
        pairs += [("The text says", statement) for statement in self.says]
        pairs += [("Misprint or doubt", misprint) for misprint in self.misprints]
        return pairs

    def _shown(self) -> pd.DataFrame:
        """Return the rows that the page shows: the published ones first."""
        published = self.published.assign(whose="published")
        rows = pd.concat([published, self.ours], ignore_index=True).fillna("")
        own = rows["whose"] == ""
        rows.loc[own, "whose"] = "ours, by " + rows["judge"]
        condition = self.told.get("where")
        return rows.query(condition) if condition and len(rows) else rows

    def _columns(self, part: str) -> list[str]:
        """Return the columns that tables.toml names for a part of the page, such as "panels"."""
        return str(self.told.get(part, "")).split()

    @property
    def beside(self) -> pd.DataFrame:
        """The published rows above ours, in the layout of the paper; ours have intervals if these are known."""
        rows = self._shown()
        if rows.empty:
            return rows
        across = self._columns("across") or self._columns("marks")
        down = [column for column in self._columns("panels") + self._columns("lines") if column not in across]
        heads = _joined(rows, across) if across else "value"
        interval = " [" + rows["low"] + ", " + rows["high"] + "]"
        values = rows["value"] + interval.where(rows["low"] != "", "")
        rows = rows.assign(value=values, _head=heads)
        sizes = ["n"] if rows["n"].any() and across != ["dataset"] else []
        index = ["whose", *sizes, *down]
        wide = rows.pivot(index=index, columns="_head", values="value").fillna("")
        row_order = pd.MultiIndex.from_frame(rows[index].drop_duplicates())
        wide = wide.reindex(index=row_order, columns=_distinct(rows["_head"]))
        return wide.rename_axis(columns=None).reset_index()

    def _drawn(self) -> pd.DataFrame:
        """Return the rows that :meth:`figure` draws, with their panel, line and mark."""
        rows = self._shown()
        if "drawn" in self.told:
            rows = rows.query(self.told["drawn"])
        parts = {part: _joined(rows, self._columns(part)) for part in ("panels", "lines", "marks")}
        own = rows["whose"] != "published"
        return rows.assign(**parts, value=rows["value"].astype(float), own=own)

    def figure(self) -> Figure:
        """Draw the published values in pale grey, and ours in the colour of the retriever or in black."""
        import matplotlib.pyplot as plt

        from berdslib.study.figures import MARKERS

        rows = self._drawn()
        panels = _distinct(rows["panels"])
        marks = _distinct(rows["marks"])
        shapes = dict(zip(marks, self.told.get("markers", MARKERS) * 2, strict=False))
        across = min(len(panels), self.told.get("columns", 3))
        down = -(-len(panels) // across)
        heights = [_height(rows[rows["panels"].isin(panels[i * across : (i + 1) * across])]) for i in range(down)]
        free = self.told.get("free", False)
        figure, axes = plt.subplots(
            down, across, figsize=(3.5 * across + 1, 0.8 + sum(heights) + 0.65 * down), height_ratios=heights,
            squeeze=False, sharex=not free, layout="constrained",
        )  # fmt: skip
        for axis, panel in zip(axes.flat, panels, strict=False):
            _draw_panel(axis, panel, rows[rows["panels"] == panel], shapes)
        for axis in axes.flat[len(panels) - across :]:
            axis.tick_params(labelbottom=True)  # the lowest panel of a column may stand above the last row
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        if not free:
            measures = _distinct(_joined(rows, ["measure", "k"]))
            unit = self.told.get("unit", f"{' and '.join(measures)} (%)" if len(measures) < 3 else "%")
            figure.supxlabel(unit, fontsize=11)
        handles = _legend(rows, shapes)
        figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False, fontsize=11)
        return figure

    def to_csv(self) -> str:
        """Return all numbers, published and ours, as CSV with one row per number."""
        published = self.published.assign(whose="published")
        rows = pd.concat([published, self.ours.assign(whose="ours")], ignore_index=True)
        rows = rows.drop(columns=["table", "paper", "version"], errors="ignore")
        return str(rows.to_csv(index=False, lineterminator="\n"))

    def to_latex(self) -> str:
        """Return the table :attr:`beside` as LaTeX (booktabs); the caption says why the numbers are not comparable."""
        cells = self.beside.rename(columns=escape).astype(str).map(escape)
        return as_latex(cells, f"{self.heading}. {self.told['differs']}", index=False)

    def _repr_html_(self) -> str:
        items = "".join(f"<li><b>{label}:</b> {html.escape(text)}</li>" for label, text in self.lines)
        table = self.beside.to_html(index=False, border=0) if len(self.beside) else ""
        return f"<p><b>{html.escape(self.heading)}</b></p><ul>{items}</ul>{table}"

    def __repr__(self) -> str:
        """Show the page as text."""
        width = shutil.get_terminal_size((100, 0)).columns
        wrap = TextWrapper(width, subsequent_indent="  ", break_on_hyphens=False)
        parts = [self.heading]
        if len(self.beside):
            parts.append(self.beside.to_string(index=False))
        for label, text in self.lines:
            line = f"{label}: {text}"
            parts.append(line if label in CODE else wrap.fill(line))
        return "\n".join(parts)


def _height(rows: pd.DataFrame) -> float:
    """Return the height in inches of panels that share a row: of the one with the most lines."""
    lines = rows.groupby("panels")["lines"].nunique().max()
    return float(lines * (0.34 if rows["own"].nunique() == 2 else 0.26))


def _legend(rows: pd.DataFrame, shapes: Mapping[str, str]) -> list[Line2D]:
    """Return the entries of the legend: whose the numbers are, then what the marks mean."""
    from matplotlib.lines import Line2D

    from berdslib.study.figures import HUES

    own = set(rows[rows["own"]]["retriever"])
    colours = {"published": "0.7"} if not rows["own"].all() else {}
    colours |= {f"ours, {name}": hue for name, hue in HUES.items() if name in own}
    if own - set(HUES):
        colours["ours, others" if own & set(HUES) else "ours"] = "black"
    handles = [Line2D([], [], ls="", marker="o", color=colour, label=label) for label, colour in colours.items()]
    for mark, shape in shapes.items():
        if mark:
            fill = _fill(mark, "0.4", shapes)
            handles.append(Line2D([], [], ls="", marker=shape, color="0.4", markerfacecolor=fill, label=mark))
    return handles


def _fill(mark: str, colour: str, shapes: Mapping[str, str]) -> str:
    """Return the face of a mark: of two marks, the second is open, so that it cannot hide the first."""
    return "white" if len(shapes) == 2 and mark == list(shapes)[1] else colour


def _draw_panel(axis: Axes, title: str, rows: pd.DataFrame, shapes: Mapping[str, str]) -> None:
    """Draw one panel of :meth:`PublishedPage.figure`; ours are a little below the published values of a line."""
    from berdslib.study.figures import HUES

    names = _distinct(rows["lines"])
    any_published = not rows["own"].all()
    any_own = rows["own"].any()
    for (line, own), points in rows.groupby(["lines", "own"], sort=False):
        y = float(names.index(str(line)))
        colour = "0.7"
        if own:
            y += 0.2 if any_published else 0
            colour = HUES.get(points["retriever"].iloc[0], "black")
        axis.plot(points["value"], [y] * len(points), color=colour, lw=1.2, zorder=1)
        for value, mark in zip(points["value"], points["marks"], strict=True):
            face = _fill(mark, colour, shapes)
            axis.scatter(value, y, marker=shapes[mark], s=34, facecolor=face, edgecolor=colour, linewidth=1.5, zorder=2)
    axis.set_title(title if any_own or not title else f"{title} (published)", fontsize=12, loc="left")
    axis.set_yticks(range(len(names)), names, fontsize=11)
    axis.tick_params(axis="x", labelsize=11)
    axis.set_ylim(len(names) - 0.4, -0.6)


def _distinct(values: Iterable[str]) -> list[str]:
    """Return the different values in the order of their first occurrence."""
    return list(dict.fromkeys(values))


def _joined(rows: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Return the texts of several columns as one label per row."""
    if {"measure", "k"} <= set(columns):  # Precision@5
        rows = rows.assign(measure=rows["measure"] + "@" + rows["k"])
        columns = [column for column in columns if column != "k"]
    texts = rows[list(columns)].to_numpy(dtype=str)
    return pd.Series([" · ".join(filter(None, cells)) for cells in texts], index=rows.index, dtype=str)


@cache
def _entries() -> dict[str, dict[str, Any]]:
    book = tomllib.loads((shipped("published") / "tables.toml").read_text(encoding="utf-8"))
    groups = book["group"]
    return {table["name"]: {"notebook": "", **groups[table["group"]], **table} for table in book["table"]}


def census() -> pd.DataFrame:
    """Return a frame with one row per numbered table and figure of both papers; `ours` counts our numbers."""
    counts = read_shipped("ours")["table"].value_counts()
    rows = [
        (name, entry["title"], entry["status"], counts.get(name, 0), entry["notebook"])
        for name, entry in _entries().items()
    ]
    return pd.DataFrame(rows, columns=["name", "title", "status", "ours", "notebook"])


def page(name: str) -> PublishedPage:
    """Return the page of a table or figure: "BeRDS 3", "pir4", "PIR Figure 2"; without a paper, BeRDS.

    BeRDS' tables and figures have the numbers of the later version.

    >>> page("3").heading
    'BeRDS Table 3: base retrievers, 5 documents'
    """
    words = re.findall(r"\d+|[^\W\d_]+", name.lower().replace("table", ""))
    if words[:1] not in (["berds"], ["pir"]):
        words = ["berds", *words]
    wanted = " ".join(words).replace("berds", "BeRDS").replace("pir", "PIR").replace("figure", "Figure")
    entry = _entries()[known("table or figure", wanted, _entries())]
    paper = wanted.split()[0]
    number = wanted.split()[-1]
    is_figure = "Figure" in wanted
    numbers = read_shipped("pir" if paper == "PIR" else "berds_v2")
    is_printed = (numbers["table"] == number) & (not is_figure)
    printed = numbers[is_printed].drop(columns=["title", "section", "note"])
    stated = read_shipped("figures").query("paper == @paper and version != 'v1' and figure == @number and @is_figure")
    ours = read_shipped("ours").query("table == @wanted")
    misprints = tuple(entry.get("misprints", ()))
    return PublishedPage(
        wanted, entry["title"], entry["status"], printed, ours, tuple(stated["says"]), misprints, entry
    )


@cache
def _numbers(version: str) -> pd.DataFrame:
    numbers = read_shipped(VERSIONS[version][1])
    cutoffs = pd.to_numeric(numbers["k"], errors="coerce").astype("Int64")
    return numbers.assign(k=cutoffs, value=numbers["value"].astype(float))
