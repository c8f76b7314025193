"""Judges: agreement, calibration, and scores corrected for their errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.study.figures.style import MARKERS, NOTHING, PALETTE, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def calibration_curve_figure(tables: Mapping[str, pd.DataFrame], p_yes: Mapping[str, np.ndarray]) -> Figure:
    """Draw calibration curves of judges, and beside them how often they say what.

    On the diagonal a judge means what it says; below it, it is too generous with yes. The histograms have twenty bins
    of the same width.

    Args:
        tables: judge → table from :func:`berdslib.evaluation.judges.calibration_table`; the judges must have
            judged the same pairs to be compared.
        p_yes: judge → its probabilities, float (n,).
    """
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(9.6, max(4.6, 1.4 * len(tables))), layout="constrained")
    grid = figure.add_gridspec(len(tables), 2, width_ratios=[3, 2])
    top = figure.add_subplot(grid[:, 0])
    counts = [figure.add_subplot(grid[i, 1], sharex=top) for i in range(len(tables))]
    edges = np.linspace(0, 1, 21)
    most = max(int(np.histogram(p_yes[judge], edges)[0].max()) for judge in tables)
    top.plot([0, 1], [0, 1], color="grey", lw=1, ls="--", label="means what it says", zorder=1)
    for i, (axis, (judge, table)) in enumerate(zip(counts, tables.items(), strict=True)):
        look: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "ls": ("-", "--", "-.", ":")[i % 4], "lw": 2}
        mark = MARKERS[i % len(MARKERS)]
        top.plot(table["mean_p"], table["share_yes"], marker=mark, ms=7, label=plain(judge), **look)
        axis.hist(p_yes[judge], edges.tolist(), color=look["color"])
        axis.set_ylim(0, most * 1.1)
        axis.set_title(f"{plain(judge)}: {int(table['n'].sum())} pairs", loc="left", fontsize=10, pad=3)
        axis.tick_params(labelbottom=axis is counts[-1])
    top.set_ylim(-0.03, 1.03)
    top.set_xlim(-0.03, 1.03)
    top.set_ylabel("share of the bin's pairs that are a yes")
    top.set_xlabel("mean probability of yes in a bin")
    top.legend(loc="upper left", frameon=False)
    counts[len(counts) // 2].set_ylabel("pairs")
    counts[-1].set_xlabel("probability of yes")
    return figure


def judged_systems_figure(table: pd.DataFrame, measure: str) -> Figure:
    """Plot each system's score by a judge against that by gold, one panel a judge.

    On the diagonal a judge gives what gold gives. Whether the points rise tells whether it orders systems alike,
    wherever they lie. The oracle, which was chosen by gold, is a star.

    Args:
        table: of :class:`berdslib.study.instruments.JudgedSystems`, the rows of one measure: system, judge, mean, low,
            high.
        measure: its name, for the axes.
    """
    import matplotlib.pyplot as plt

    gold = table[table["judge"] == "gold"].set_index("system")
    judges = [name for name in dict.fromkeys(table["judge"]) if name != "gold"]
    columns = min(3, len(judges))
    rows = -(-len(judges) // columns)
    size = (3.6 * columns + 2.6, 3.6 * rows + 0.3)
    figure, axes = plt.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False,
                                layout="constrained")  # fmt: skip
    for axis in axes.flat[len(judges) :]:
        axis.set_visible(False)
    for axis, judge in zip(axes.flat, judges, strict=False):
        judged = table[table["judge"] == judge].set_index("system")
        axis.plot([0, 100], [0, 100], color="grey", lw=1, ls="--", zorder=0)
        for i, system in enumerate(gold.index):
            x, y = gold.loc[system], judged.loc[system]
            colour, mark = PALETTE[i % len(PALETTE)], MARKERS[(i + i // len(PALETTE)) % (len(MARKERS) - 1)]
            ends = [[[(one["mean"] - one["low"]) * 100], [(one["high"] - one["mean"]) * 100]] for one in (x, y)]
            look: dict[str, Any] = {"color": "black", "marker": "*", "ms": 12} if system == "oracle" else {
                "color": colour, "marker": mark, "ms": 7}  # fmt: skip
            axis.errorbar(x["mean"] * 100, y["mean"] * 100, ends[1], ends[0], elinewidth=0.5, ls="none",
                          label=plain(system), **look)  # fmt: skip
        axis.set_title(plain(judge), fontsize=11)
        axis.set_xlim(-3, 103)
        axis.set_ylim(-3, 103)
        axis.set_aspect("equal")
        axis.set_xlabel(f"{plain(measure)} by gold, %")
    for row in axes:
        row[0].set_ylabel(f"{plain(measure)} by the judge, %")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside right upper", fontsize=9)
    return figure


def judge_error_figure(table: pd.DataFrame) -> Figure:
    """Draw a system's scores as each judge has them and as corrected by people's labels, with intervals; a bar is gold.

    Args:
        table: columns measure (a panel each), judge, gold (the score by labels of everything) and the fields of
            :class:`berdslib.evaluation.judge_error.Corrected`.
    """
    import matplotlib.pyplot as plt

    measures, judges = list(dict.fromkeys(table["measure"])), list(dict.fromkeys(table["judge"]))
    size = (1.8 + 3.9 * len(measures), 1.6 + 0.62 * len(judges))
    figure, axes = plt.subplots(1, len(measures), figsize=size, sharey=True, squeeze=False, layout="constrained")
    trusting = ("the judge alone", "judge_value", "judge_low", "judge_high", 0.16, PALETTE[4], "s")
    corrected = ("corrected by people's labels", "value", "low", "high", -0.16, PALETTE[0], "o")
    for axis, measure in zip(axes[0], measures, strict=True):
        part = table[table["measure"] == measure].set_index("judge").loc[judges]
        y = np.arange(len(part))[::-1]  # the first judge is drawn at the top
        for label, value, low, high, shift, colour, marker in (trusting, corrected):
            middle = part[value].to_numpy()
            error = np.vstack([middle - part[low].to_numpy(), part[high].to_numpy() - middle]) * 100
            look: dict[str, Any] = {"fmt": marker, "color": colour, "capsize": 4, "lw": 1.6, "ms": 7}
            axis.errorbar(middle * 100, y + shift, xerr=error, label=label, **look)
        axis.vlines(part["gold"] * 100, y - 0.36, y + 0.36, color="black", lw=2.5, label="gold: everything labelled")
        labelled, n = (int(part[column].iloc[0]) for column in ("labelled", "n"))
        axis.set_title(f"{plain(measure)} (n = {n}, {labelled} labelled)", fontsize=11)
        axis.set_xlim(min(0, part["low"].min() * 100 - 2), max(102, part["high"].max() * 100 + 2))
        axis.set_ylim(-0.5, len(part) - 0.5)
        axis.grid(axis="x", color=NOTHING)
        axis.set_axisbelow(True)
        axis.set_xlabel("score, %")
    axes[0, 0].set_yticks(np.arange(len(judges))[::-1], [plain(judge) for judge in judges])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return figure


def judges_figure(table: pd.DataFrame) -> Figure:
    """Draw each judge's F1 against labels with its interval, and its share of yes; dashed: yes to all, and the labels.

    Args:
        table: columns judge, f1, f1_low, f1_high, said_yes, recall, precision and n, one row a judge.
    """
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.0, 1.6 + 0.5 * len(table)), sharey=True, layout="constrained", width_ratios=[3, 2]
    )
    y = np.arange(len(table))[::-1]
    f1 = table["f1"].to_numpy() * 100
    error = np.vstack([f1 - table["f1_low"].to_numpy() * 100, table["f1_high"].to_numpy() * 100 - f1])
    left.errorbar(f1, y, xerr=error, fmt="o", color=PALETTE[0], capsize=4, lw=1.6, ms=7)
    for value, end, at in zip(f1, table["f1_high"] * 100, y, strict=True):
        left.text(end + 2, at, f"{value:.1f}", va="center", fontsize=10)
    left.set_yticks(y, table["judge"].map(plain))
    left.set_xlim(0, 100)
    left.set_xlabel(f"F1 against labels, %, n = {int(table['n'].iloc[0])} pairs")
    right.barh(y, table["said_yes"] * 100, color=PALETTE[5], height=0.5)
    # precision * said yes = recall * is yes, so the labels' share of yes is in the table already.
    true = table[table["recall"] > 0]
    if len(true):
        share = float((true["precision"] * true["said_yes"] / true["recall"]).iloc[0]) * 100
        all_yes = 200 * share / (100 + share)  # its precision is the share, its recall 1
        for axis, at, what in ((left, all_yes, "yes to all"), (right, share, "the labels themselves")):
            axis.axvline(at, color="black", ls="--", lw=1.2)
            axis.set_title(f"dashed: {what}, {at:.1f} %", fontsize=10)
    right.set_xlim(0, 100)
    right.set_xlabel("says yes, % of pairs")
    for axis in (left, right):
        axis.set_ylim(-0.6, len(table) - 0.4)
        axis.grid(axis="x", color=NOTHING)
        axis.set_axisbelow(True)
    return figure


def judge_scores(table: pd.DataFrame) -> Figure:
    """Draw each judge's F1 and AUC with their intervals; dashed: saying yes to every pair.

    Args:
        table: columns judge, f1, f1_low, f1_high, auc, auc_low and auc_high (0 to 1), one row a judge; the one called
            "all yes" becomes the dashed lines.
    """
    import matplotlib.pyplot as plt

    floor, rows = table[table["judge"] == "all yes"], table[table["judge"] != "all yes"]
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 1.4 + 0.45 * len(rows)), sharey=True, layout="constrained")
    y = np.arange(len(rows))[::-1]
    for axis, measure, colour in zip(axes, ("f1", "auc"), PALETTE, strict=False):
        value = rows[measure].to_numpy() * 100
        error = np.vstack([value - rows[f"{measure}_low"] * 100, rows[f"{measure}_high"] * 100 - value]).clip(min=0)
        axis.errorbar(value, y, xerr=error, fmt="o", color=colour, capsize=4, lw=1.6, ms=7)
        for of_all_yes in floor[measure]:
            axis.axvline(of_all_yes * 100, color="black", ls="--", lw=1.2, zorder=0)
        axis.set_xlim(0, 100)
        axis.set_xlabel(f"{measure.upper()}, %  (dashed: yes to all)")
        axis.grid(axis="x", color=NOTHING)
        axis.set_axisbelow(True)
    axes[0].set_yticks(y, rows["judge"].map(plain))
    axes[0].set_ylim(-0.6, len(rows) - 0.4)
    return figure
