"""Groups of authors: fairness against relevance, who is shown, and what a text gives away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.errors import known
from berdslib.study.figures.style import MARKERS, PALETTE, YELLOW, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST_ROWS = 20  # of one column of groups


def fairness_against_relevance(
    table: pd.DataFrame, relevance: str, fairness: Sequence[str], *, dataset: str = "macro"
) -> Figure:
    """Draw what each system gains in relevance against how fair its lists are: one panel a measure of fairness.

    Args:
        table: the table of an Experiment.
        relevance: the measure on the horizontal axis, such as "nDCG@20".
        fairness: measures on the vertical axes. Of rKL less is better, so its axis is turned over: the upper right is
            the best place in every panel.
        dataset: which rows.
    """
    import matplotlib.pyplot as plt

    rows = table[table["dataset"] == dataset].set_index(["measure", "system"])
    systems = list(dict.fromkeys(rows.index.get_level_values("system")))
    for measure in (relevance, *fairness):
        known("measure of the table", measure, rows.index.get_level_values("measure").unique())
    percent = rows[["mean", "low", "high"]] * 100
    colours = [colour for colour in PALETTE if colour != YELLOW]
    n = len(fairness)
    figure, axes = plt.subplots(1, n, figsize=(4.2 * n + 1.6, 4.4), squeeze=False, layout="constrained")
    for axis, measure in zip(axes[0], fairness, strict=True):
        for i, system in enumerate(systems):
            x, y = percent.loc[(relevance, system)], percent.loc[(measure, system)]
            spread = {f"{a}err": [[v["mean"] - v["low"]], [v["high"] - v["mean"]]] for a, v in (("x", x), ("y", y))}
            look: dict[str, Any] = {
                "fmt": MARKERS[i % len(MARKERS)],
                "color": colours[i % len(colours)],
                "mec": "black",
            }
            axis.errorbar(
                x["mean"], y["mean"], **spread, **look, ms=10, ecolor="#B0B0B0", elinewidth=1.0, label=plain(system)
            )
        less = "rKL" in measure
        axis.set_xlabel(f"{plain(relevance)}, %  (relevance →)")
        axis.set_ylabel(f"{plain(measure)}, %  ({'fairer' if less else 'more groups'} →)")
        if less:
            axis.invert_yaxis()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=10)
    return figure


def groups_shown(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw how often each group of authors is shown, as a multiple of its share of the corpus, with intervals.

    Args:
        tables: system → table of :func:`berdslib.evaluation.arguments.group_shares`.
    """
    import matplotlib.pyplot as plt

    first = next(iter(tables.values()))
    rows, starts = len(first), np.flatnonzero(first["property"] != first["property"].shift())
    # Two columns where one would be too long to read; a property is not torn apart.
    half = int(starts[np.abs(starts - rows / 2).argmin()]) if rows > MOST_ROWS else rows
    columns = [slice(0, half), slice(half, rows)] if 0 < half < rows else [slice(0, rows)]
    most = max(part.stop - part.start for part in columns)
    figure, axes = plt.subplots(
        1, len(columns), figsize=(6.6 * len(columns), 1.6 + 0.34 * most), sharex=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, part in zip(axes[0], columns, strict=True):
        _draw_groups(axis, {system: table.iloc[part] for system, table in tables.items()})
    axes[0, 0].set_xlim(left=0)  # of both, once both are drawn
    figure.supxlabel("share of the first places / share of the corpus  (1 = neither favoured nor hidden)", fontsize=12)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(tables), frameon=False, fontsize=11)
    return figure


def _draw_groups(axis, tables: Mapping[str, pd.DataFrame]) -> None:  # type: ignore[no-untyped-def]
    first = next(iter(tables.values()))
    names = [f"{p.replace('_', ' ')}: {g}" for p, g in zip(first["property"], first["group"], strict=True)]
    # A line of space between two properties.
    y = -np.arange(len(first)) - (first["property"] != first["property"].shift()).cumsum().to_numpy()
    for i, (system, table) in enumerate(tables.items()):
        shift = (i - (len(tables) - 1) / 2) * 0.27
        error = np.vstack([table["ratio"] - table["low"], table["high"] - table["ratio"]]).clip(min=0)
        look: dict[str, Any] = {"fmt": MARKERS[i % len(MARKERS)], "color": PALETTE[i % len(PALETTE)], "ms": 6}
        axis.errorbar(table["ratio"], y - shift, xerr=error, elinewidth=1.0, label=plain(system), **look)
    axis.axvline(1.0, color="black", lw=0.8, zorder=0)
    axis.set_yticks(y, [plain(name) for name in names], fontsize=10)
    axis.margins(y=0.02)


def guesses_figure(bins: pd.DataFrame) -> Figure:
    """Draw whether guesses mean what they say: the share that is right against the mean guess of each bin.

    Args:
        bins: of :func:`berdslib.evaluation.judges.calibration_table`.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5.0, 4.2), layout="constrained")
    axis.plot([0, 1], [0, 1], color="grey", lw=1, ls="--", label="means what it says")
    axis.plot(bins["mean_p"], bins["share_yes"], marker="o", color=PALETTE[0], label="guesses, in bins of equal size")
    axis.set(xlabel="mean guess of a bin", ylabel="share of its authors who have the value")
    axis.set(xlim=(-0.02, 1), ylim=(-0.02, 1))
    axis.legend(frameon=False, loc="lower right", fontsize=11)
    return figure
