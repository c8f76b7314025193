"""How each table of the papers is printed and drawn: its rows, its columns, its figure.

It is said once for each table, by its title, which both versions of BeRDS share: the published numbers and ours take
the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.errors import known
from berdslib.study.figures import MARKERS, NOTHING, PALETTE
from berdslib.study.published import published_table

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


@dataclass(frozen=True)
class Layout:
    """How a table is printed and drawn: the columns that name its rows and those across, and its drawing."""

    rows: tuple[str, ...]
    across: tuple[str, ...]
    draw: Callable[[pd.DataFrame], Figure]


def _dots(*args: Any, **options: Any) -> Callable[[pd.DataFrame], Figure]:
    return lambda rows: dots(rows, *args, **options)


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


LAYOUTS = {
    "questions and perspectives per data set": Layout(
        ("dataset",), ("measure",), _dots(["dataset"], panel=["measure"], same_axis=False, unit="")
    ),
    "size of the three corpora": Layout(("corpus",), ("measure",), _sizes),
    "base retrievers, 5 documents": Layout(("corpus", "retriever"), ("dataset", "measure"), _retrievers),
    "base retrievers, 10 documents": Layout(("corpus", "retriever"), ("dataset", "measure"), _retrievers),
    "perspective detection against human labels": Layout(
        ("system",), ("measure",), _dots(["system"], panel=["measure"])
    ),
    "re-ranking and query expansion, 5 documents": Layout(("corpus", "retriever"), ("system", "measure"), arrows),
    "coverage of all retrievers together": Layout(("corpus",), ("dataset",), _dots(["corpus"], hue=["dataset"])),
    "relevance weight of MMR": Layout(
        ("corpus",), ("retriever",), _dots(["corpus"], hue=["retriever"], ends=(0.5, 1), unit="relevance weight λ")
    ),
    "documents needed to cover every perspective": Layout(("corpus", "retriever"), ("measure",), _needed),
    "tuned judge against GPT-4 on other settings": Layout(
        ("corpus", "retriever"), ("measure",), _dots(["corpus", "retriever"], panel=["measure"])
    ),
    "errors among 20 inspected examples a data set": Layout(
        ("dataset",), ("measure",), _dots(["dataset"], ends=(0, 20), unit="errors among 20")
    ),
    "queries and corpora": Layout(
        ("dataset",), ("measure",), _dots(["dataset"], panel=["measure"], columns=2, same_axis=False, unit="")
    ),
    "p-Recall of retrievers": Layout(("dataset",), ("retriever",), _dots(["dataset"], hue=["retriever"])),
    "perspectives that root queries find": Layout(("retriever",), ("dataset", "measure"), stacked_shares),
    "perspectives that root queries find, instruction-tuned": Layout(
        ("retriever",), ("dataset", "measure"), stacked_shares
    ),
    "ways to use the perspective": Layout(("system",), ("measure",), _means),
    "ways to use the perspective, by task": Layout(("system",), ("dataset",), _gains),
    "effect on generation": Layout(
        ("system",), ("measure",), _dots(["system"], panel=["measure"], same_axis=False, unit="")
    ),
    "perspectives extracted from queries": Layout(("dataset",), ("measure",), _dots(["dataset"], unit="QA-F1, %")),
    "other encoders and sizes": Layout(
        ("retriever",), ("system", "measure"), _dots(["retriever"], panel=["measure"], hue=["system"], same_axis=False)
    ),
}


def title_of(table: str, version: str = "v2") -> str:
    """Return our title of a published table, by which a :class:`Ours` names its numbers."""
    return str(published_table(table, version)["title"].iloc[0])


def layout_of(rows: pd.DataFrame) -> Layout:
    """Return how the table with these published rows is laid out."""
    return LAYOUTS[known("title of a table", str(rows["title"].iloc[0]), LAYOUTS)]


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
