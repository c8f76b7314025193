"""The numbers printed in the BeRDS and PIR papers, and a page for each table and figure, ours beside them.

The numbers lie in data/published, one a row; its README.md says where they come from and which are suspicious.
"""

from __future__ import annotations

import html
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any

import pandas as pd

from berdslib.errors import InputError, known
from berdslib.paths import shipped
from berdslib.study.tables import escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What a version is called in a message, and the file that holds its numbers.
VERSIONS = {"v1": ("BeRDS v1", "berds_v1"), "v2": ("BeRDS v2", "berds_v2"), "pir": ("PIR", "pir")}
REAL = ("lists", "dial", "changes", "pir", "people", "projection")  # tables of data/real


def published_table(table: str, version: str = "v2") -> pd.DataFrame:
    """Return the numbers of one published table, one row a number, in the printed order and unit.

    Args:
        table: its number in that version of the paper, "3" or "Table 3".
        version: "v1" or "v2" of BeRDS, which number their tables differently, or "pir" for the PIR paper.

    Returns:
        The columns of the file as text, "" where one does not apply, but `k` (Int64) and `value` (float).
    """
    numbers = _numbers(known("version", version, VERSIONS))
    wanted = str(table).strip().removeprefix("Table").strip()
    name = known(f"table of {VERSIONS[version][0]}", wanted, numbers["table"].unique())
    return numbers[numbers["table"] == name].reset_index(drop=True)


def published_value(table: str, *, version: str = "v2", **where: str | float) -> float:
    """Return the one published number that the conditions, column = value, single out.

    >>> published_value("3", corpus="wikipedia", retriever="bm25", dataset="arguana", measure="MRecall", k=5)
    10.8
    """
    rows = published_table(table, version)
    for column, value in where.items():
        rows = rows[rows[known("column", column, rows.columns)].eq(value).fillna(False)]
    if len(rows) != 1:
        asked = ", ".join(f"{column}={value!r}" for column, value in where.items()) or "no condition"
        raise InputError(f"{len(rows)} numbers of Table {table} ({version}) match {asked}; exactly one must")
    return float(rows["value"].iloc[0])


@cache
def read_shipped(name: str) -> pd.DataFrame:
    """Return a table of data/published as text, by its name without the ending, such as "ours" or "figures"."""
    return pd.read_csv(shipped("published") / f"{name}.csv", dtype=str, keep_default_na=False)


def real_numbers(name: str) -> pd.DataFrame:
    """Return a table of data/real, figures from data whose texts may not be shipped; of ``REAL``.

    Its card says what the columns are. In the first three a list is a word with a letter a place: A for a passage that
    argues the supporting side, B the opposing one, X both, a dot neither.
    """
    return pd.read_csv(shipped("real") / f"{known('table of data/real', name, REAL)}.csv", keep_default_na=False)


# ---------------------------------------------------------------- one page for each table and figure

_TOLD = {  # fields of tables.toml, as a page calls them
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
class Page:
    """A table or figure of the papers: what was published, ours beside it, and how ours is made.

    `published` and `ours` are long tables of text, as the files have them; either may be empty. `told` has the fields
    of data/published/tables.toml.
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
        before = self.told.get("earlier", self.name.split()[-1])
        earlier = f" ({before} in the earlier version)" if before != self.name.split()[-1] else ""
        return f"{self.name if 'Figure' in self.name else self.name.replace(' ', ' Table ')}{earlier}: {self.title}"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What the page says beside its numbers, as pairs of a word and a text."""
        found = [("Status", f"{self.status}: {STATUS[self.status]}")]
        found += [(word, self.told[field]) for field, word in _TOLD.items() if self.told.get(field)]
        if (command := self.told["command"]).endswith(".yaml"):
            found.append(("Grid file", command.split()[-1]))
        found += [("The text says", one) for one in self.says]
        return found + [("Misprint or doubt", one) for one in self.misprints]

    def _shown(self) -> pd.DataFrame:
        both = pd.concat([self.published.assign(whose="published"), self.ours], ignore_index=True).fillna("")
        own = both["whose"] == ""
        both.loc[own, "whose"] = "ours, by " + both["judge"]
        return both.query(self.told["where"]) if self.told.get("where") and len(both) else both

    @property
    def beside(self) -> pd.DataFrame:
        """Published above ours, a column for each thing of a row; ours with intervals where there are any."""
        rows = self._shown()
        if rows.empty:
            return rows
        across = (self.told.get("across") or self.told.get("marks") or "").split()
        down = [c for part in ("panels", "lines") for c in self.told.get(part, "").split() if c not in across]
        interval = rows["low"].where(rows["low"] == "", " [" + rows["low"] + ", " + rows["high"] + "]")
        rows = rows.assign(value=rows["value"] + interval, _head=_joined(rows, across) if across else "value")
        sizes = ["n"] if rows["n"].any() and across != ["dataset"] else []
        index = ["whose", *sizes, *down]
        wide = rows.pivot(index=index, columns="_head", values="value").fillna("").rename_axis(columns=None)
        order = pd.MultiIndex.from_frame(rows[index].drop_duplicates())
        return wide.reindex(index=order, columns=list(dict.fromkeys(rows["_head"]))).reset_index()

    def figure(self) -> Figure:
        """Draw the numbers: what was published in pale grey, ours in the colour of its retriever or black."""
        import matplotlib.pyplot as plt
        from matplotlib.lines import Line2D

        from berdslib.study.figures import HUES, MARKERS

        rows = self._shown()
        rows = rows.query(self.told["drawn"]) if "drawn" in self.told else rows
        parts = {part: _joined(rows, self.told.get(part, "").split()) for part in ("panels", "lines", "marks")}
        rows = rows.assign(**parts, value=rows["value"].astype(float), own=rows["whose"] != "published")
        panels, marks = list(dict.fromkeys(rows["panels"])), list(dict.fromkeys(rows["marks"]))
        across = min(len(panels), self.told.get("columns", 3))
        down, most = -(-len(panels) // across), rows.groupby("panels")["lines"].nunique().max()
        size, free = (3.2 * across + 1, 0.8 + down * (0.6 + 0.3 * most)), self.told.get("free", False)
        figure, axes = plt.subplots(down, across, figsize=size, squeeze=False, sharex=not free, layout="constrained")
        shapes = dict(zip(marks, self.told.get("markers", MARKERS) * 2, strict=False))
        for axis, panel in zip(axes.flat, panels, strict=False):
            here = rows[rows["panels"] == panel]
            names = list(dict.fromkeys(here["lines"]))
            for (line, own), points in here.groupby(["lines", "own"], sort=False):
                y = names.index(line) + (0.2 if own and not here["own"].all() else 0)
                colour = HUES.get(points["retriever"].iloc[0], "black") if own else "0.7"
                axis.plot(points["value"], [y] * len(points), color=colour, lw=1.2, zorder=1)
                for point in points.itertuples():
                    axis.scatter(point.value, y, marker=shapes[point.marks], color=colour, s=34, zorder=2)
            axis.set_title(panel, fontsize=10, color="black" if here["own"].any() else "0.45")
            axis.set_yticks(range(len(names)), names, fontsize=9)
            axis.set_ylim(len(names) - 0.4, -0.6)
        for axis in axes.flat[len(panels) - across :]:
            axis.tick_params(labelbottom=True)  # the last of its column, also where the row below is not full
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        figure.supxlabel("" if free else self.told.get("unit", "%"), fontsize=10)
        looks = [("published", "0.7", "o"), ("ours, in colour or black", "black", "o")][: 1 + bool(rows["own"].any())]
        looks = looks[int(self.published.empty) :] + [(m, "0.4", shapes[m]) for m in marks if m]
        handles = [Line2D([], [], ls="", color=colour, marker=shape, label=label) for label, colour, shape in looks]
        figure.legend(handles=handles, loc="outside upper center", ncols=5, frameon=False, fontsize=9)
        return figure

    def to_csv(self) -> str:
        """Return all numbers, published and ours, a row each."""
        both = pd.concat([self.published.assign(whose="published"), self.ours.assign(whose="ours")], ignore_index=True)
        told = both.drop(columns=["table", "paper", "version"], errors="ignore")
        return str(told.to_csv(index=False, lineterminator="\n"))

    def to_latex(self) -> str:
        """Return what :attr:`beside` has as LaTeX (booktabs), with why not to compare in the caption."""
        caption = escape(f"{self.heading}. {self.told['differs']}")
        return str(self.beside.to_latex(index=False, escape=True, caption=caption))

    def _repr_html_(self) -> str:
        said = "".join(f"<li><b>{word}:</b> {html.escape(text)}</li>" for word, text in self.lines)
        table = self.beside.to_html(index=False, border=0) if len(self.beside) else ""
        return f"<p><b>{html.escape(self.heading)}</b></p><ul>{said}</ul>{table}"

    def __repr__(self) -> str:
        """Show the page as text."""
        table = [self.beside.to_string(index=False)] if len(self.beside) else []
        wrap = TextWrapper(shutil.get_terminal_size((100, 0)).columns, subsequent_indent="  ", break_on_hyphens=False)
        said = [(word, f"{word}: {text}") for word, text in self.lines]
        return "\n".join([self.heading, *table, *(line if word in CODE else wrap.fill(line) for word, line in said)])


def _joined(rows: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    if {"measure", "k"} <= set(columns):  # Precision@5
        rows = rows.assign(measure=rows["measure"] + "@" + rows["k"])
        columns = [column for column in columns if column != "k"]
    texts = rows[list(columns)].to_numpy(dtype=str)
    return pd.Series([" · ".join(filter(None, cells)) for cells in texts], index=rows.index, dtype=str)


@cache
def _entries() -> dict[str, dict[str, Any]]:
    book = tomllib.loads((shipped("published") / "tables.toml").read_text(encoding="utf-8"))
    return {one["name"]: {"notebook": "", **book["group"][one["group"]], **one} for one in book["table"]}


def census() -> pd.DataFrame:
    """Return every numbered table and figure of both papers once: name, title, status, our numbers, notebook."""
    counts = read_shipped("ours")["table"].value_counts()
    rows = [(name, e["title"], e["status"], counts.get(name, 0), e["notebook"]) for name, e in _entries().items()]
    return pd.DataFrame(rows, columns=["name", "title", "status", "ours", "notebook"])


def page(name: str) -> Page:
    """Return the page of a table or figure: "BeRDS 3", "pir4", "PIR Figure 2"; without a paper, BeRDS.

    BeRDS is numbered as in its later version.

    >>> page("3").heading
    'BeRDS Table 3: base retrievers, 5 documents'
    """
    words = re.findall(r"\d+|[^\W\d_]+", name.lower().replace("table", ""))
    words = words if words[:1] in (["berds"], ["pir"]) else ["berds", *words]
    wanted = " ".join(words).replace("berds", "BeRDS").replace("pir", "PIR").replace("figure", "Figure")
    entry = _entries()[known("table or figure", wanted, _entries())]
    paper, number, drawn = wanted.split()[0], wanted.split()[-1], "Figure" in wanted
    numbers = read_shipped("pir" if paper == "PIR" else "berds_v2")
    printed = numbers[(numbers["table"] == number) & (not drawn)].drop(columns=["title", "section", "note"])
    stated = read_shipped("figures").query("paper == @paper and version != 'v1' and figure == @number and @drawn")
    ours = read_shipped("ours").query("table == @wanted")
    told = tuple(stated["says"]), tuple(entry.get("misprints", ()))
    return Page(wanted, entry["title"], entry["status"], printed, ours, *told, entry)


@cache
def _numbers(version: str) -> pd.DataFrame:
    text = read_shipped(VERSIONS[version][1])
    return text.assign(k=pd.to_numeric(text["k"], errors="coerce").astype("Int64"), value=text["value"].astype(float))
