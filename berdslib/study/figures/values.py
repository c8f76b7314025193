"""Figures of values with intervals, by system, judge and side, and of the shares of sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.errors import known
from berdslib.study.figures.style import MARKERS, NOTHING, PALETTE, legend, look, panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def intervals(
    table: pd.DataFrame,
    row: str,
    value: str = "mean",
    *,
    panel: str | None = None,
    hue: str | None = None,
    looks: Mapping[Any, Mapping[str, Any]] | None = None,
    scale: float = 100.0,
    apart: float = 0.28,
    xlabel: str = "%",
    xlim: tuple[float, float] | None = None,
    lines: float | Mapping[Any, float] | None = None,
    written: bool = False,
    size: tuple[float, float] = (3.6, 0.34),
    ncols: int = 3,
) -> Figure:
    """Draw values as marks with intervals, one line per row name, from top to bottom in the order of the table.

    Args:
        table: has the columns named below, and low and high.
        row: the column with the names of the lines.
        value: the column of the values.
        panel: the column with the names of the panels; None for a single panel without a title.
        hue: the column whose values differ in colour and marker; None for one look.
        looks: hue → options of matplotlib's errorbar; None for the colours and markers of the palette.
        scale: a factor for the values.
        apart: the distance between the marks of two hues, in lines.
        xlabel: label of the horizontal axis of each panel.
        xlim: limits of the horizontal axes.
        lines: position of a dashed reference line in all panels; or panel → position.
        written: write each value at the right end of its line.
        size: width of a panel and height of a line, both in inches.
        ncols: number of columns of the legend.
    """
    names = list(dict.fromkeys(table[panel])) if panel else [None]
    hues = list(dict.fromkeys(table[hue])) if hue else [None]
    looks = looks or {name: look(i) for i, name in enumerate(hues)}
    if hue:
        hues = [name for name in looks if name in hues]
    rows = list(dict.fromkeys(table[row]))
    height = 1.3 + size[1] * len(rows)
    if hue and apart:
        height += 0.3 * -(-len(hues) // ncols)
    figure, axes = panels(len(names), (1.8 + size[0] * len(names), height))
    for axis, name in zip(axes, names, strict=True):
        of_panel = table[table[panel] == name] if panel else table
        for i, colour in enumerate(hues):
            part = of_panel[of_panel[hue] == colour] if hue else of_panel
            if part.empty:
                continue
            part = part.drop_duplicates(row).set_index(row).reindex(rows)
            y = np.arange(len(rows)) + apart * (i - (len(hues) - 1) / 2)
            marks(axis, part, y, value, scale=scale, label=plain(colour), **looks[colour])
            if written:
                _write_values(axis, y, part[value] * scale)
        axis.grid(axis="x", color=NOTHING)
        axis.set_axisbelow(True)
        axis.set(xlabel=plain(xlabel), xlim=xlim)
        if panel:
            axis.set_title(plain(name), fontsize=11)
        line = lines.get(name) if isinstance(lines, Mapping) else lines
        if line is not None:
            axis.axvline(line, color="black", ls="--", lw=1.0, zorder=1)
        axis.set_yticks(range(len(rows)), [plain(name) for name in rows])
        axis.set_ylim(len(rows) - 0.5, -0.5)
    if hue and apart:
        legend(figure, ncols=min(ncols, len(hues)), fontsize=11)
    return figure


def _write_values(axis: Any, y: np.ndarray, values: pd.Series) -> None:
    for height, value in zip(y, values, strict=True):
        axis.annotate(f"{value:.1f}", (1.03, height), xycoords=("axes fraction", "data"), va="center", size=9)


def marks(
    axis: Any,
    part: pd.DataFrame,
    y: Any,
    value: str = "mean",
    *,
    scale: float = 100.0,
    **options: Any,
) -> None:
    """Draw the values of a table with their intervals at the heights y."""
    middle = part[value].to_numpy(float) * scale
    low = part["low"].to_numpy(float) * scale
    high = part["high"].to_numpy(float) * scale
    error = np.abs(np.vstack([middle - low, high - middle]))
    axis.errorbar(middle, y, xerr=error, **{"ls": "none", "capsize": 4, "elinewidth": 1.6, "ms": 7, **options})


# ---------------------------------------------------------------- systems


def compare_systems(
    table: pd.DataFrame,
    measures: Sequence[str],
    *,
    baseline: str | None = None,
) -> Figure:
    """Draw means with 95 % intervals, a panel per measure, a line per system; the best by the first measure is on top.

    Args:
        table: the table of an Experiment; the means over its data sets are drawn.
        measures: names of the measures to draw.
        baseline: a system whose mean every panel shows as a dashed line; None for no line.
    """
    rows = table[(table["dataset"] == "macro") & table["measure"].isin(measures)]
    wide = rows.pivot(index="system", columns="measure", values="mean")[list(measures)]
    if baseline is not None:
        known("system of the table", baseline, wide.index)
    upwards = rows.drop_duplicates("system")["system"].iloc[::-1]
    best_first = wide.reindex(upwards).sort_values(measures[0], ascending=False, kind="stable").index
    order = pd.MultiIndex.from_product([measures, best_first], names=["measure", "system"])
    ordered = rows.set_index(["measure", "system"]).reindex(order).reset_index()
    figure = intervals(
        ordered, "system", panel="measure", xlabel="", xlim=(0, 100), written=True,
        looks={None: {**look(0), "clip_on": False}},  # so that a mark at 0 or 100 is drawn in full
        lines=None if baseline is None else {m: wide[m][baseline] * 100 for m in measures},
    )  # fmt: skip
    scores = f"score, %, mean ({int(rows['n'].iloc[0])} questions)"
    figure.supxlabel(scores + ("" if baseline is None else f"; dashed: {plain(baseline)}"), fontsize=11)
    return figure


# ---------------------------------------------------------------- judges


def judged_systems_figure(table: pd.DataFrame, measure: str) -> Figure:
    """Plot each system's score by a judge against its score by gold, one panel per judge; the oracle is a star.

    `table` holds the rows of one measure of :class:`berdslib.study.raters.JudgedSystems`. If the points rise, the judge
    orders the systems as gold does, even if its scores are higher or lower.
    """
    gold = table[table["judge"] == "gold"].set_index("system")
    judges = [name for name in dict.fromkeys(table["judge"]) if name != "gold"]
    figure, axes = panels(len(judges), (3.6 * len(judges) + 2.6, 3.9), sharex=True)
    for axis, judge in zip(axes, judges, strict=True):
        judged = table[table["judge"] == judge].set_index("system")
        axis.plot([0, 100], [0, 100], color="grey", lw=1, ls="--", zorder=0)
        for i, system in enumerate(gold.index):
            style = {**look(i), "marker": MARKERS[(i + i // len(PALETTE)) % (len(MARKERS) - 1)]}
            if system == "oracle":  # the star, the last marker, is reserved for the oracle
                style = {"color": "black", "marker": "*", "ms": 12}
            x, left, right = 100 * gold.loc[system, ["mean", "low", "high"]]
            y, lower, upper = 100 * judged.loc[system, ["mean", "low", "high"]]
            spans = {"xerr": [[x - left], [right - x]], "yerr": [[y - lower], [upper - y]]}
            axis.errorbar(x, y, **spans, ls="none", elinewidth=0.5, label=plain(system), **style)
        axis.set_title(plain(judge), fontsize=11)
        axis.set(xlim=(-3, 103), ylim=(-3, 103), aspect="equal", xlabel=f"{plain(measure)} by gold, %")
    axes[0].set_ylabel(f"{plain(measure)} by the judge, %")
    legend(figure, "outside right upper", fontsize=9)
    return figure


# ---------------------------------------------------------------- sides


def sycophancy_figure(table: pd.DataFrame) -> Figure:
    """Draw the leaning of lists by query, as BeRDS Figure 3: three marks with intervals per system.

    `table` comes from :func:`berdslib.evaluation.sides.leaning`, grouped by system, dataset and asked.
    """
    names = {
        "supporting": "searched with the supporting perspective",
        "question": "searched with the question",
        "opposing": "searched with the opposing perspective",
    }
    styles = ({"color": PALETTE[0], "marker": "^"}, {"color": "black"}, {"color": PALETTE[1], "marker": "v"})
    looks = {name: {"marker": "o", "ms": 6, **style} for name, style in zip(names.values(), styles, strict=True)}
    several = table["dataset"].nunique() > 1
    return intervals(
        table.assign(asked=table["asked"].map(names)), "system", "leaning", hue="asked", looks=looks, apart=0.22,
        panel="dataset" if several else None, ncols=3 if several else 1, scale=1, size=(2.6, 0.5), lines=0,
        xlabel="leaning, (p − n) / (p + n)",
    )  # fmt: skip


def sides_figure(shares: pd.DataFrame) -> Figure:
    """Draw the shares of questions by the sides that their lists show, as BeRDS Figure 2.

    `shares` come from :func:`berdslib.evaluation.sides.side_shares`.
    """
    # Hatches distinguish the sides in greyscale; "neither" is pale, because such lists show no side.
    looks = {
        "both": (PALETTE[2], ""),
        "only supporting": (PALETTE[0], "//"),
        "only opposing": (PALETTE[1], "\\\\"),
        "neither": (NOTHING, ""),
    }
    box = {"boxstyle": "round,pad=.15", "fc": "white", "ec": "none"}
    names = list(dict.fromkeys(shares["dataset"]))
    systems = list(dict.fromkeys(shares["system"]))
    figure, axes = panels(len(names), (2.2 + 2.6 * len(names), 1.3 + 0.42 * len(systems)))
    for axis, dataset in zip(axes, names, strict=True):
        part = shares[shares["dataset"] == dataset]
        wide = part.pivot(index="system", columns="side", values="share").reindex(index=systems, columns=list(looks))
        start = np.zeros(len(systems))
        for side, (colour, hatch) in looks.items():
            width = 100 * wide[side].fillna(0).to_numpy()
            bars = axis.barh(
                range(len(systems)), width, left=start, color=colour, hatch=hatch, edgecolor="white", height=0.72,
                label=side,
            )  # fmt: skip
            # A narrow bar does not have room for its number.
            written = [f"{share:.0f}" if share >= 9 else "" for share in width]
            axis.bar_label(bars, written, label_type="center", fontsize=8, bbox=box)
            start += width
        n = part["n"].iloc[0]
        axis.set_title(plain(f"{dataset} (n = {n})") if len(names) > 1 else f"{n} questions", fontsize=10)
        axis.set(xlim=(0, 100), xlabel="share of questions, %")
    axes[0].set_yticks(range(len(systems)), [plain(system) for system in systems])
    axes[0].invert_yaxis()
    legend(figure, ncols=4, fontsize=9)
    return figure
