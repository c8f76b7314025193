"""The tables of the papers as pages: each drawn, written as LaTeX, CSV, PNG and PDF, and put beside ours.

Notebook 12 shows them. How a table is printed and drawn is said once for each, by its title, which both versions of
BeRDS share, in data/published/layouts.csv: the published numbers and ours take the same way.
"""

from __future__ import annotations

import html
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError, known
from berdslib.files import StrPath, write_text
from berdslib.study.figures import MARKERS, NOTHING, PALETTE, save_figure
from berdslib.study.notebooks import find_notebook, notebook_folder, open_notebook
from berdslib.study.published import (
    BERDS_SETTING,
    VERSIONS,
    Beside,
    Setting,
    beside,
    formats,
    latex,
    long_table,
    published_table,
    read_shipped,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How names of the published numbers are written in a figure; others stay as they are.
NAMES = {
    "wikipedia": "Wikipedia", "sphere": "Sphere", "google-search": "Google", "arguana": "ArguAna", "kialo": "Kialo",
    "opinionqa": "OpinionQA", "macro": "mean", "bm25": "BM25", "dpr": "DPR", "contriever": "Contriever", "tart": "Tart",
    "nv-embed-v2": "NV-Embed-v2", "agnews": "AGNews", "storyanalogy": "StoryAnalogy", "perspectrum": "Perspectrum",
    "ambigqa": "AmbigQA", "allsides": "AllSides", "ex-fever": "Ex-FEVER", "mmr": "re-ranked", "pap": "PAP",
    "pap+": "PAP+", "query-expansion": "expanded", "set_size": "passages needed", "percent_positive": "positive, %",
    "accuracy": "accuracy, %", "f1": "F1, %", "qa_f1": "QA-F1, %", "lambda": "λ", "correlation": "correlation x 100",
    "p-Recall_gain": "gain, points",
}  # fmt: skip
SHARES = ("share_support", "share_oppose", "share_undermine", "share_left", "share_center", "share_right")
PICTURE_DPI = 110  # of the pictures on a page: a notebook shows many; the files are sharper


def published_figure(figure: str, version: str = "v2") -> pd.DataFrame:
    """Return what a paper's text says of one of its figures: numbers, and in which direction a difference goes.

    One row a statement, with the columns of figures.csv as text; arguments as for :func:`published_table`.
    """
    paper = VERSIONS[known("version", version, VERSIONS)][0].split()[0]
    rows = read_shipped("figures")
    number = str(figure).strip().removeprefix("Figure").strip()
    mine = (rows["paper"] == paper) & (rows["version"] == version.replace("pir", "")) & (rows["figure"] == number)
    return rows[mine].reset_index(drop=True)


# ---------------------------------------------------------------- drawing


def _name(value: object) -> str:
    return NAMES.get(str(value), str(value).replace("_", " "))


def _joined(rows: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Return what tells rows apart by some columns, as one text each: "Wikipedia · BM25"."""
    joined = pd.Series("", index=rows.index)
    for column in (c for c in columns if c in rows):
        name = rows[column].map(_name)
        joined = joined + np.where((joined != "") & (name != ""), " · ", "") + name
    return joined


def _with_cutoffs(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose measures carry their cut-off, "MRecall@5"."""
    if "k" not in rows:
        return rows
    cut = rows["measure"].isin(["Precision", "MRecall", "p-Recall"]) & rows["k"].notna()
    return rows.assign(measure=rows["measure"].where(~cut, rows["measure"] + "@" + rows["k"].astype(str)))


def dots(
    rows: pd.DataFrame,
    row: Sequence[str],
    *,
    panel: Sequence[str] = (),
    hue: Sequence[str] = (),
    columns: int = 3,
    same_axis: bool = True,
    log: bool = False,
    ends: tuple[float, float] | None = None,
    unit: str = "%",
) -> Figure:
    """Draw numbers as dots, a line for each row of the table, in panels that share their lines.

    Dots of one line stand a little above each other, so that equal numbers do not hide each other.

    Args:
        rows: columns as in the published tables, and value.
        row: the columns that name a line.
        panel: the columns that name a panel.
        hue: the columns that name a colour and shape.
        columns: panels side by side.
        same_axis: the panels have one horizontal axis.
        log: that axis is logarithmic.
        ends: of that axis; None for 0 (or the least number, if that is below) and the largest.
        unit: its label.
    """
    import matplotlib.pyplot as plt

    rows = _with_cutoffs(rows)
    rows = rows.assign(_row=_joined(rows, row), _panel=_joined(rows, panel), _hue=_joined(rows, hue))
    lines, panels, hues = (list(dict.fromkeys(rows[c])) for c in ("_row", "_panel", "_hue"))
    across = min(columns, len(panels))
    down = -(-len(panels) // across)
    size = (2.3 + 2.4 * across, 0.5 + down * (0.75 + 0.29 * len(lines)))
    figure, axes = plt.subplots(
        down, across, figsize=size, sharey=True, sharex=same_axis, squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, panels, strict=False):
        for i, one in enumerate(hues):
            part = rows[(rows["_panel"] == name) & (rows["_hue"] == one)]
            y = [len(lines) - 1 - lines.index(line) - 0.13 * (i - (len(hues) - 1) / 2) for line in part["_row"]]
            look: dict[str, Any] = {"marker": MARKERS[i % len(MARKERS)], "color": PALETTE[i % len(PALETTE)], "s": 38}
            axis.scatter(part["value"], y, label=one, zorder=2, clip_on=False, **look)
        axis.set_title(name, fontsize=11)
        axis.grid(axis="y", color=NOTHING)
        axis.set_axisbelow(True)
        axis.set_ylim(-0.6, len(lines) - 0.4)
        if log:
            axis.set_xscale("log")
        else:
            axis.set_xlim(ends or _ends(rows if same_axis else rows[rows["_panel"] == name]))
    axes[0, 0].set_yticks(range(len(lines)), lines[::-1])
    figure.supxlabel(unit, fontsize=11)
    if len(hues) > 1:
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside upper center", ncols=min(3 + across, len(hues)), frameon=False, fontsize=10
        )
    return figure


def _ends(rows: pd.DataFrame) -> tuple[float, float]:
    low, high = min(0.0, float(rows["value"].min())), float(rows["value"].max())
    return low * 1.1, (high or 1.0) * 1.05


def arrows(rows: pd.DataFrame) -> Figure:
    """Draw where re-ranking and query expansion move each retriever (BeRDS Table 5): one panel a measure.

    Args:
        rows: columns retriever, system (default, mmr, query-expansion), measure, value, and corpus where there is one.
    """
    import matplotlib.pyplot as plt

    rows = rows[~rows["measure"].str.endswith("_change_percent")]
    rows = rows.assign(_row=_joined(rows, ["corpus", "retriever"]), system=rows["system"].replace("", "default"))
    lines, measures = list(dict.fromkeys(rows["_row"])), list(dict.fromkeys(rows["measure"]))
    size = (2.4 + 3.0 * len(measures), 1.2 + 0.42 * len(lines))
    figure, axes = plt.subplots(1, len(measures), figsize=size, sharey=True, squeeze=False, layout="constrained")
    steps = (("mmr", 0.17, 0, "o"), ("query-expansion", -0.17, 4, "s"))
    for axis, measure in zip(axes[0], measures, strict=True):
        for y, line in enumerate(lines[::-1]):
            at = rows[(rows["_row"] == line) & (rows["measure"] == measure)].set_index("system")["value"]
            axis.plot([at["default"]] * 2, [y - 0.3, y + 0.3], color="black", lw=2, label="as found")
            for system, shift, colour, marker in steps:
                if system in at:
                    look: dict[str, Any] = {"color": PALETTE[colour], "lw": 1.6, "marker": marker, "ms": 6}
                    ends = [at["default"], at[system]]
                    axis.plot(ends, [y + shift] * 2, markevery=[1], label=_name(system), **look)
        axis.set_title(f"{measure}@5, %", fontsize=11)
        axis.grid(axis="x", color=NOTHING)
        axis.set_axisbelow(True)
        axis.set_xlim(left=0)
    axes[0, 0].set_yticks(range(len(lines)), lines[::-1])
    handles = dict(zip(*axes[0, 0].get_legend_handles_labels()[::-1], strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=3, frameon=False)
    return figure


def stacked_shares(rows: pd.DataFrame) -> Figure:
    """Draw shares that make up a whole as bars, one panel a data set (PIR Tables 3 and 10); dotted: equal shares.

    Args:
        rows: columns retriever, dataset, measure ("share_…") and value, percent.
    """
    import matplotlib.pyplot as plt

    tasks, lines = list(dict.fromkeys(rows["dataset"])), list(dict.fromkeys(rows["retriever"]))
    size = (2.2 + 3.4 * len(tasks), 1.5 + 0.34 * len(lines))
    figure, axes = plt.subplots(1, len(tasks), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for axis, task in zip(axes[0], tasks, strict=True):
        part = rows[rows["dataset"] == task]
        sides = [s for s in SHARES if s in set(part["measure"])]
        left = np.zeros(len(lines))
        for i, side in enumerate(sides):
            width = part[part["measure"] == side].set_index("retriever")["value"].reindex(lines).fillna(0).to_numpy()
            look: dict[str, Any] = {"color": PALETTE[(0, 1, 2)[i]], "hatch": ("", "//", "..")[i], "edgecolor": "white"}
            axis.barh(range(len(lines))[::-1], width, left=left, height=0.7, label=side.removeprefix("share_"), **look)
            left += width
        for i in range(1, len(sides)):
            axis.axvline(100 * i / len(sides), color="black", ls=":", lw=1.2)
        axis.set_xlabel(f"{_name(task)}, % of what is found")
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=10)
    axes[0, 0].set_yticks(range(len(lines))[::-1], [_name(line) for line in lines])
    return figure


# ---------------------------------------------------------------- how each table is laid out


class Layout(NamedTuple):
    """How a table is printed and drawn: the columns that name its rows and those across, and its drawing."""

    rows: tuple[str, ...]
    across: tuple[str, ...]
    draw: Callable[[pd.DataFrame], Figure]


def _retrievers(rows: pd.DataFrame) -> Figure:
    """Draw Precision above MRecall, a panel for each corpus; the first document alone has a colour of its own."""
    first = rows["k"] == 1
    hue = rows["dataset"].where(~first, "mean, first document alone")
    rows = rows.assign(
        dataset=hue, measure=rows["measure"] + "@" + rows["k"].where(~first, rows["k"].max()).astype(str)
    )
    rows = rows.drop(columns="k").sort_values("measure", ascending=False, kind="stable")
    corpora = rows["corpus"].nunique() if "corpus" in rows else 0
    return dots(rows, ["retriever"], panel=["measure", "corpus"], hue=["dataset"], columns=max(2, corpora))


def _sizes(rows: pd.DataFrame) -> Figure:
    """Draw sizes of corpora on one axis: millions and counts of each question are counts all the same."""
    million = rows["measure"].str.endswith("_million")
    value = rows["value"].where(~million, rows["value"] * 1e6)
    kind = rows["measure"].str.partition("_")[0]
    unit = "how many (logarithmic); Google's are a corpus for each question"
    return dots(rows.assign(value=value, measure=kind), ["corpus"], hue=["measure"], log=True, unit=unit)


def _needed(rows: pd.DataFrame) -> Figure:
    named = rows["measure"].replace({"MRecall": "all within 100, %"})
    return dots(rows.assign(measure=named), ["retriever"], panel=["measure"], hue=["corpus"], unit="")


def _means(rows: pd.DataFrame) -> Figure:
    """Draw means that lie close together on an axis that does not begin at 0."""
    ends = (float(rows["value"].min()) - 2, float(rows["value"].max()) + 2)
    return dots(rows, ["system"], ends=ends, unit="p-Recall@5, % (the axis does not begin at 0)")


def _gains(rows: pd.DataFrame) -> Figure:
    """Draw what each way to use the perspective adds to the baseline of its task, whose value heads the panel."""
    rows = rows.assign(system=rows["system"].replace("", "baseline"))
    start = rows[rows["system"] == "baseline"].set_index("dataset")["value"]
    gain = rows["value"] - rows["dataset"].map(start)
    panel = rows["dataset"].map(lambda name: f"{_name(name)} ({start[name]:.1f})")
    gains = rows.assign(value=gain, panel=panel)[rows["system"] != "baseline"]
    most = float(gains["value"].abs().max()) * 1.1
    unit = "p-Recall@5, points above the baseline, whose value is in brackets"
    figure = dots(gains, ["system"], panel=["panel"], columns=4, ends=(-most, most), unit=unit)
    for axis in figure.axes:
        axis.axvline(0, color="black", lw=1, ls=":", zorder=0)
    return figure


# What a table's `draw` in layouts.csv may name beside "dots", whose options are the columns there ("-": no unit).
DRAWN = {"retrievers": _retrievers, "sizes": _sizes, "needed": _needed, "means": _means, "gains": _gains,
         "arrows": arrows, "stacked_shares": stacked_shares}  # fmt: skip


def title_of(table: str, version: str = "v2") -> str:
    """Return our title of a published table, by which a :class:`Ours` names its numbers."""
    return str(published_table(table, version)["title"].iloc[0])


def layout_of(rows: pd.DataFrame) -> Layout:
    """Return how the table with these published rows is laid out."""
    title, every = str(rows["title"].iloc[0]), read_shipped("layouts").set_index("title")
    one = every.loc[known("title of a table", title, every.index)]
    if one["draw"] != "dots":
        return Layout(tuple(one["rows"].split()), tuple(one["across"].split()), DRAWN[one["draw"]])
    options: dict[str, Any] = {name: one[name].split() for name in ("row", "panel", "hue")}
    options |= {"columns": int(one["columns"] or 3), "same_axis": one["same_axis"] != "no"}
    if one["ends"]:
        options["ends"] = tuple(map(float, one["ends"].split()))
    if one["unit"]:
        options["unit"] = one["unit"].removeprefix("-")
    return Layout(tuple(one["rows"].split()), tuple(one["across"].split()), partial(dots, **options))


def as_printed(rows: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Return a long table in the shape of the printed one: its row names as columns, then one column a heading.

    Args:
        rows: columns as in the published tables, and value.
        layout: what names rows and columns; names that `rows` does not have are left out.
    """
    rows = _with_cutoffs(rows)
    down, across = ([c for c in names if c in rows] for names in (layout.rows, layout.across))
    rows = rows.assign(**{c: rows[c].map(_name) for c in down})
    heads = _joined(rows, [c for c in across if rows[c].nunique() > 1 or len(across) == 1])
    wide = rows.assign(_head=heads).pivot(index=down, columns="_head", values="value")
    order = pd.MultiIndex.from_frame(rows[down].drop_duplicates()) if len(down) > 1 else rows[down[0]].unique()
    wide = wide.reindex(index=order, columns=list(dict.fromkeys(heads))).rename_axis(columns=None)
    wide = wide.reset_index(names=down)
    counts = [c for c in wide.columns[len(down) :] if (wide[c] % 1 == 0).all()]  # none of them is missing
    return wide.astype(dict.fromkeys(counts, int))


# ---------------------------------------------------------------- writing


def write_page(folder: Path, stem: str, table: pd.DataFrame, caption: str, figure: Figure) -> list[Path]:
    """Write a table and its figure: STEM.tex, STEM.csv, STEM.png and STEM.pdf.

    Args:
        folder: created if needed.
        stem: file name without ending.
        table: in the shape of the printed one.
        caption: of the LaTeX table; it says whose numbers they are.
        figure: the same numbers, drawn.

    Returns:
        The four paths.
    """
    import matplotlib.pyplot as plt

    figure.draw_without_rendering()  # the layout is found once, not again for every format
    figure.set_layout_engine("none")
    paths = save_figure(figure, table, folder, stem)
    plt.close(figure)  # it can still be drawn; a notebook shall not show it by itself
    with write_text(folder / f"{stem}.tex") as file:
        file.write(latex(table, caption, printed=True))
    return [folder / f"{stem}.tex", *paths]


@dataclass(frozen=True)
class Ours:
    """What we measured in one setting: title of a published table → our numbers, as :func:`beside` takes them."""

    name: str
    setting: Setting
    tables: Mapping[str, pd.DataFrame]
    stand_in: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Page:
    """A table or figure of a paper: what was published, and ours beside it; shown, it says which is which.

    Args:
        caption: what is shown.
        printed: the published table, in the printed shape; None for a figure, whose numbers the texts do not print.
        besides: the same table beside each of ours.
        says: what the text states of a published figure.
        files: what was written.
        picture: PNG with few colours, smaller than the file; None where the page shows none.
    """

    caption: str
    printed: pd.DataFrame | None
    besides: tuple[Beside, ...]
    says: tuple[str, ...]
    files: tuple[Path, ...]
    picture: bytes | None

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, Image, display

        display(HTML(self.html), *([] if self.picture is None else [Image(self.picture)]))

    @property
    def html(self) -> str:
        """The page without its picture."""
        table = ""
        if self.printed is not None and self.picture is None:
            table = self.printed.to_html(
                index=False, na_rep="", border=0, formatters=formats(self.printed, printed=True)
            )
        stated = "".join(f"<li>{html.escape(one)}</li>" for one in self.says)
        besides = "".join(one.html for one in self.besides)
        return f"<p>{html.escape(self.caption)}</p>{table}{stated and f'<ul>{stated}</ul>'}{besides}"

    def __repr__(self) -> str:
        """Show the page as text."""
        shown = (
            []
            if self.printed is None
            else [self.printed.to_string(index=False, na_rep="", formatters=formats(self.printed, printed=True))]
        )
        return "\n".join([self.caption, *shown, *self.says, *map(repr, self.besides)])


def _picture(figure: Figure) -> bytes:
    """Return a figure as PNG for a screen, in 32 colours: what dots, lines and a few hatches need."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight", dpi=PICTURE_DPI)
    small = io.BytesIO()
    # An octree keeps pure colours; the median cut merges blue and green where both are rare.
    plain = Image.open(buffer).convert("RGB").quantize(32, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    plain.save(small, "PNG", optimize=True)
    return small.getvalue()


def page(
    folder: Path,
    table: str,
    version: str = "v2",
    ours: Sequence[Ours] = (),
    *,
    earlier: str = "",
    drawn: bool = True,
) -> Page:
    """Draw a published table, write it, and put ours beside it.

    Each of ours that has numbers for the table is written too: in the same shape as STEM_ours_NAME, and beside the
    published numbers as STEM_beside_NAME.

    Args:
        folder: where files go.
        table: the table's number.
        version: "v1" or "v2" of BeRDS, or "pir".
        ours: what we measured.
        earlier: the number of the same table in v1, which is written and not shown.
        drawn: the page shows the published table as a picture, not as printed.

    Raises:
        InputError: an unknown table, or `earlier` is another table.
    """
    numbers = published_table(table, version)
    title, files = str(numbers["title"].iloc[0]), []
    if earlier:
        first = published_table(earlier, "v1")
        if first["title"].iloc[0] != title:
            raise InputError(f"Table {earlier} of BeRDS v1 is {first['title'].iloc[0]!r}, not {title!r}")
        files += _write_published(folder, first, "v1")[0]
    besides = []
    for one in (one for one in ours if title in one.tables):
        files += _write_ours(folder, numbers, version, one)
        besides.append(beside(table, one.tables[title], one.setting, version=version, stand_in=one.stand_in))
        files += _write_beside(folder / f"{_stem(version, numbers)}_beside_{one.name}", besides[-1])
    written, figure = _write_published(folder, numbers, version)
    caption = f"{_caption(numbers, version)}. {'Drawn' if drawn else 'Printed'}: the published values."
    printed = as_printed(numbers, layout_of(numbers))
    picture = _picture(figure) if drawn else None
    return Page(caption, printed, tuple(besides), (), (*files, *written), picture)


def _caption(numbers: pd.DataFrame, version: str) -> str:
    return f"{VERSIONS[version][0]}, Table {numbers['table'].iloc[0]}: {numbers['title'].iloc[0]}"


def _stem(version: str, numbers: pd.DataFrame) -> str:
    return f"{VERSIONS[version][1]}_table_{numbers['table'].iloc[0]}"


def _write_published(folder: Path, numbers: pd.DataFrame, version: str) -> tuple[list[Path], Figure]:
    layout = layout_of(numbers)
    caption = f"{_caption(numbers, version)}. The published values."
    figure = layout.draw(numbers)
    return write_page(folder, _stem(version, numbers), as_printed(numbers, layout), caption, figure), figure


def _write_ours(folder: Path, numbers: pd.DataFrame, version: str, ours: Ours) -> list[Path]:
    layout = layout_of(numbers)
    rows = long_table(ours.tables[str(numbers["title"].iloc[0])])
    if "corpus" not in rows:
        rows = rows.assign(corpus=ours.name)
    if "system" in rows:
        rows = rows.assign(system=rows["system"].replace("", "baseline" if version == "pir" else "default"))
    caption = f"Ours ({ours.name}), in the shape of {_caption(numbers, version)}."
    stem = f"{_stem(version, numbers)}_ours_{ours.name}"
    return write_page(folder, stem, as_printed(rows, layout), caption, layout.draw(rows))


def _write_beside(stem: Path, found: Beside) -> list[Path]:
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("csv", "tex")]
    for path, text in zip(paths, (found.to_csv(), found.to_latex()), strict=True):
        with write_text(path) as file:
            file.write(text)
    return paths


def figure_page(
    folder: Path, number: str, version: str, figure: Figure, rows: pd.DataFrame, whose: str, *, drawn: bool = True
) -> Page:
    """Write a figure drawn from ours, and say what the text states of the published one.

    Args:
        folder: where files go.
        number: the figure's number.
        version: "v1", "v2" or "pir".
        figure: ours.
        rows: the numbers that it shows.
        whose: what ours was measured on, for the caption.
        drawn: the page shows the figure; else it is written only.

    Raises:
        InputError: an unknown version.
    """
    stated = published_figure(number, version)
    caption = f"{VERSIONS[version][0]}, Figure {number}. {'Drawn' if drawn else 'Written'}: ours ({whose})."
    if len(stated):
        caption += " Of the published one the text states:"
    stem = f"{VERSIONS[version][1]}_figure_{number}"
    files = write_page(folder, stem, rows, f"Ours ({whose}), as {VERSIONS[version][0]}, Figure {number}.", figure)
    return Page(caption, None, (), tuple(stated["says"]), tuple(files), _picture(figure) if drawn else None)


# ---------------------------------------------------------------- ours, from a grid

# Our names of what the papers used, and what they say of it.
_PAPERS_NAMES = {"tart-full": "tart"}
_PAPERS_JUDGE = {"mistral-berds": BERDS_SETTING.judge}
_ENCODERS = {"bm25", "dpr", "contriever", "tart", "nv-embed-v2"}
_BASE = ("base retrievers, 5 documents", "base retrievers, 10 documents", "documents needed to cover every perspective")
_CHAINS = "re-ranking and query expansion, 5 documents"


def ours_of_grid(folder: StrPath, stand_in: Mapping[str, str] | None = None) -> list[Ours]:
    """Return what the finished runs of a grid over notebook 03, 06 or 07 measured, one for each run.

    A run of 03 has the base retrievers, and of the table of documents needed the share of questions covered; one of
    06 or 07 has re-ranking and query expansion, on the questions held out from choosing.

    Args:
        folder: of the grid's summary, papermill_runs/NAME; below the project root unless it is absolute.
        stand_in: our name → the published one that it stands for.

    Raises:
        InputError: there is no summary, or its runs are of other notebooks.
    """
    path = notebook_folder().parent / folder / "summary.csv"
    if not path.is_file():
        command = "berds notebook grid papermill_runs/grids/NAME.yaml"
        raise InputError(f"no summary.csv; run the grid first: {command}", path=path)
    table = pd.read_csv(path)
    if missing := {"run", "system", "dataset", "measure", "mean"} - set(table):
        raise InputError(f"a grid over notebook 03, 06 or 07 was expected; no column {min(missing)!r}", path=path)
    return [_ours_of_run(str(name), rows, stand_in or {}) for name, rows in table.groupby("run", sort=False)]


def _ours_of_run(name: str, rows: pd.DataFrame, stand_in: Mapping[str, str]) -> Ours:
    notebook, _, number = name.rpartition("-")
    run = _parameters(notebook, rows.iloc[0])
    reorders = "retriever" in run  # 06 and 07: every system reorders the list of this retriever
    if reorders:
        rows = rows.assign(system=[run["retriever"] + _chained(system) for system in rows["system"]])
        rows = rows.sort_values("chosen", ascending=False, kind="stable")
    numbers = long_table(rows).replace({"retriever": _PAPERS_NAMES})
    numbers = numbers.drop_duplicates(["retriever", "system", "dataset", "measure", "k"])
    if run["corpus"] in ("wikipedia", "sphere"):
        numbers = numbers.assign(corpus=run["corpus"])
    titles = (_CHAINS,) if reorders else _BASE
    tables = {title: part for title in titles if len(part := rows_for(numbers, title))}
    return Ours(f"{run['corpus']}-{number[-4:]}".replace(":", "-"), _setting(run, numbers), tables, stand_in)


def _parameters(notebook: str, row: pd.Series) -> dict[str, Any]:
    """Return a run's parameters: a grid's summary has those that its file sets, the others are the notebook's own."""
    own = {name: parameter.default for name, parameter in open_notebook(find_notebook(notebook)).parameters.items()}
    return own | {name: row[name] for name in own if name in row and pd.notna(row[name])}


def _chained(system: str) -> str:
    return "" if system == "default" else f"+{system}"


def rows_for(numbers: pd.DataFrame, title: str) -> pd.DataFrame:
    """Return the rows of a long table that a published table of BeRDS prints: its measures, cut-offs and systems.

    Args:
        numbers: of :func:`berdslib.study.published.long_table`.
        title: of a table of retrievers, documents needed, or re-ranking and query expansion.
    """
    known("title of such a table", title, (*_BASE, _CHAINS))
    scores = numbers[numbers["measure"].isin(["Precision", "MRecall"])]
    if title == _CHAINS:
        means = scores[(scores["dataset"] == "macro") & (scores["k"] == 5)].drop(columns="dataset")
        return means[means["system"].isin(["", "mmr", "query-expansion"])]
    scores = scores[scores["system"] == ""]
    if title == _BASE[2]:
        whole = (scores["dataset"] == "macro") & (scores["measure"] == "MRecall") & (scores["k"] == 100)
        return scores[whole].drop(columns="dataset")
    if title == _BASE[1]:
        return scores[scores["k"] == 10]
    first = (scores["k"] == 1) & (scores["measure"] == "Precision") & (scores["dataset"] == "macro")
    return scores[(scores["k"] == 5) | first]


def _setting(run: Mapping[str, Any], numbers: pd.DataFrame) -> Setting:
    """Return a run's setting in the words of the published one where they are the same."""
    given = run["datasets"]
    datasets = ", ".join(json.loads(given) if isinstance(given, str) else given)
    limit = int(run["limit"])
    questions = f"{datasets}, {run['split']}" + (f", the first {limit} of each" if limit else "")
    if (datasets, run["split"], limit) == ("arguana, kialo, opinionqa", "test", 0):
        questions = BERDS_SETTING.questions
    retrievers = list(dict.fromkeys(numbers["retriever"]))
    weights = BERDS_SETTING.retrievers if set(retrievers) <= _ENCODERS else ", ".join(retrievers)
    return Setting(questions, str(run["corpus"]), _PAPERS_JUDGE.get(run["judge"], str(run["judge"])), weights)
