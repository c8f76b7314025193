"""Lines and clouds: dials, lengths, calibration, trade-offs, projections; and tokens with their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.study.figures.style import DASHES, MARKERS, NOTHING, PALETTE, look, panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def lines(
    table: pd.DataFrame,
    xlabel: str,
    ylabel: str,
    *,
    dashed: Mapping[str, float] | None = None,
    dots: bool = True,
    ylim: tuple[float, float] | None = (0, 103),
) -> Figure:
    """Draw each column of a table against its index, told apart by colour and mark, or by dashes where without dots.

    `dashed` says for a column where a dashed line shows what it is compared with; `ylim` None fits the numbers.
    """
    figure, (axis,) = panels(1, (7.2, 4.2))
    for i, name in enumerate(table):
        style = look(i) if dots else {"color": PALETTE[i % len(PALETTE)], "ls": DASHES[i % 4]}
        axis.plot(table.index, table[name], label=plain(name), lw=2, **style)
        if name in (dashed or {}):
            axis.axhline((dashed or {})[str(name)], color=style["color"], ls="--", lw=1.2)
    axis.set(xlabel=plain(xlabel), ylabel=plain(ylabel), ylim=ylim)
    axis.legend(frameon=False)
    return figure


def loss_curves(table: pd.DataFrame) -> Figure:
    """Draw the training and validation loss by passes, marked where the latter is lowest; dotted: a coin's loss."""
    columns = table.set_index("passes")[["training", "validation"]]
    what = "passes over the training pairs", "loss (binary cross-entropy)"
    figure = lines(columns, *what, dots=False, ylim=None)
    (axis,) = figure.axes
    best = float(table.set_index("passes")["validation"].astype(float).idxmin())  # type: ignore[arg-type] # a number
    label = f"lowest on validation: pass {best:.0f}"
    axis.plot(best, columns["validation"].min(), "o", color=PALETTE[1], ms=8, label=label)
    axis.axhline(np.log(2), color="grey", lw=1, ls=":", label="a coin: log 2", zorder=0)
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, loc="lower left")
    return figure


def rank_errors(table: pd.DataFrame) -> Figure:
    """Draw how much of a matrix (a column), 0 to 1, is lost when one of a lower rank (the index) takes its place."""
    figure = lines(table * 100, "rank r", "lost, % of the length")
    figure.axes[0].set_xscale("log", base=2)
    figure.axes[0].set_xticks(table.index, [str(rank) for rank in table.index])
    return figure


def threshold_by_share(table: pd.DataFrame) -> Figure:
    """Draw the threshold with the best F1 against the share of positives, and that F1 beside that of yes to all.

    `table` has the columns judge, share, threshold and f1 (0 to 1), one row a judge and share.
    """
    figure, (left, right) = panels(2, (9.0, 3.5), sharey=False, sharex=True)
    for i, (judge, part) in enumerate(table.groupby("judge", sort=False)):
        left.step(part["share"] * 100, part["threshold"], where="mid", label=plain(judge), ms=4, **look(i))
        right.plot(part["share"] * 100, part["f1"] * 100, label=plain(judge), ms=4, **look(i))
    share = np.unique(table["share"])
    right.plot(share * 100, 200 * share / (1 + share), "k--", lw=1.2, label="yes to all: 2s / (1 + s)")
    left.set(ylabel="threshold with the best F1", ylim=(0, None))
    right.set(ylabel="that F1, %", ylim=(0, 100))
    for axis in (left, right):
        axis.set_xlabel("share s of pairs that are a yes, %")
        axis.legend(frameon=False)
    return figure


def coverage_by_length(needed: pd.DataFrame, k: int, *, union: float | None = None) -> Figure:
    """Draw the share of questions whose perspectives all stand among the first passages, against how many these are.

    `needed` has one column a system, one row a question: passages needed, NaN where k do not suffice
    (:func:`berdslib.evaluation.coverage.documents_needed`). `union` is the share that all lists together cover.
    """
    shares = pd.DataFrame({n: (needed <= n).mean() * 100 for n in range(1, k + 1)}).T
    what = "passages read (logarithmic)", f"all perspectives shown,\n% of {len(needed)} questions"
    figure = lines(shares, *what, dots=False)
    (axis,) = figure.axes
    for line in axis.lines:
        line.set_drawstyle("steps-post")
    if union is not None:
        axis.axhline(union * 100, color="black", ls=(0, (1, 3)), lw=1.8, label=f"all together ({union * 100:.1f} %)")
    marks = [*(n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if n < k), k]
    axis.set_xscale("log")  # the tenth passage matters more to a reader than the hundredth
    axis.set_xticks(marks, [str(n) for n in marks])
    axis.minorticks_off()
    axis.set_xlim(1, max(k, 1.1))
    axis.legend(frameon=False)
    return figure


def calibration_curve_figure(tables: Mapping[str, pd.DataFrame], p_yes: Mapping[str, np.ndarray]) -> Figure:
    """Draw calibration curves of judges, and beside them how often they say what, in twenty bins of the same width.

    `tables` are judge → table of :func:`berdslib.evaluation.judges.calibration_table`, `p_yes` judge → its
    probabilities (n,). On the diagonal a judge means what it says; below it, it is too generous with yes.
    """
    figure, (left, right) = panels(2, (9.6, 4.6), sharey=False, sharex=True, width_ratios=[3, 2])
    left.plot([0, 1], [0, 1], color="grey", lw=1, ls="--", label="means what it says", zorder=1)
    for i, (judge, table) in enumerate(tables.items()):
        named = plain(f"{judge} ({int(table['n'].sum())} pairs)")
        left.plot(table["mean_p"], table["share_yes"], label=named, ls=DASHES[i % 4], lw=2, ms=7, **look(i))
        style: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "ls": DASHES[i % 4], "histtype": "step", "lw": 2}
        right.hist(p_yes[judge], np.linspace(0, 1, 21).tolist(), **style)
    left.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="mean probability of yes in a bin")
    left.set_ylabel("share of the bin's pairs that are a yes")
    left.legend(loc="upper left", frameon=False)
    right.set(xlabel="probability of yes", ylabel="pairs")
    return figure


def trade_off(table: pd.DataFrame, gain: str, cost: str, baseline: str, family: Mapping[str, str]) -> Figure:
    """Plot each system's gain against its cost, two measures, with the Pareto frontier; grey lines cross at `baseline`.

    `table` is that of :func:`berdslib.study.tuning.gains_and_losses`; `family` says each system's method, its colour.
    """
    figure, (axis,) = panels(1, (8.4, 5.0))
    named = table["system"].isin([baseline, "oracle"])
    for i, method in enumerate(dict.fromkeys(family[s] for s in table.loc[~named, "system"])):
        part, style = table[~named & (table["system"].map(family) == method)], look(i)
        # Hollow, and later ones smaller, so that what lies at the same place is seen.
        options: dict[str, Any] = {"marker": style["marker"], "ec": style["color"], "s": max(25, 210 * 0.62**i)}
        axis.scatter(part[cost] * 100, part[gain] * 100, fc="none", lw=2, label=plain(method), **options)
    frontier = table[table["frontier"]].sort_values(cost)
    axis.plot(frontier[cost] * 100, frontier[gain] * 100, "k:.", lw=1.0, label="not beaten")
    start = table[table["system"] == baseline].iloc[0]
    axis.axvline(start[cost] * 100, color="#B5B5B5", zorder=0)
    axis.axhline(start[gain] * 100, color="#B5B5B5", zorder=0)
    for _, one in table[named].iterrows():
        x, y = one[cost] * 100, one[gain] * 100
        mark, size = ("*", 17) if one["system"] == "oracle" else ("o", 20)
        axis.plot(x, y, mark, ms=size, mec="black", mew=2, mfc="none")
        axis.annotate(plain(one["system"]), (x, y), (0, 16), textcoords="offset points", ha="center", fontweight="bold")
    axis.margins(0.08, 0.1)
    axis.set(xlabel=f"{plain(cost)}, %", ylabel=f"{plain(gain)}, %")
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=10)
    return figure


def fusion_curves(table: pd.DataFrame, measure: str) -> Figure:
    """Draw a measure over the number of expansions, from :func:`berdslib.study.tuning.fusion_sweep`; a line a fusion.

    The band is the 95 % interval of taking turns; dashed: the question alone.
    """
    rows = table[table["measure"] == measure]
    alone, several = rows[rows["number"] == 0], rows[rows["number"] > 0]
    figure, axes = panels(2, (10.0, 3.8))
    for axis, original in zip(axes, (False, True), strict=True):
        mine = several[several["original"] == original]
        for i, (rule, part) in enumerate(mine.groupby("fusion", sort=False)):
            axis.plot(part["number"], part["mean"] * 100, label=rule, lw=1.6, ls=DASHES[i % 4], ms=9 - i, **look(i))
            if rule == "round robin":
                band = axis.fill_between(part["number"], part["low"] * 100, part["high"] * 100, color=NOTHING)
                band.set(label="its 95 % interval", zorder=-1)
        for value in alone["mean"][:1]:
            axis.axhline(value * 100, color="black", ls="--", lw=1.0, label="the question alone", zorder=0)
        axis.set_title("expansions and the question" if original else "expansions alone", fontsize=11)
        axis.set_xlabel("expansions that are searched")
        axis.set_xticks(sorted(set(several["number"])))
    axes[0].set_ylabel(f"{plain(measure)}, %")
    axes[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    return figure


def projection_figure(
    query: np.ndarray, perspective: np.ndarray, projected: np.ndarray, texts: Mapping[str, Sequence[float]]
) -> Figure:
    """Draw a projection of vectors (2,), and the places that each text has before and after it.

    `texts` are "A  what it says" → vector; the plane shows the first letter alone.
    """
    figure, (plane, slope) = panels(2, (9.0, 3.9), sharey=False, width_ratios=[5, 4])
    plane.plot(*zip(query, projected, strict=True), ":", color="grey")
    points = np.array(list(texts.values()), dtype=float)
    for name, (x, y) in zip(texts, points, strict=True):
        plane.plot([0, x], [0, y], color="grey", lw=1, marker="o", markevery=[1])
        plane.text(x, y + 0.03, name[0], ha="center", va="bottom", fontsize=12)
    for name, tip, colour in (("p", perspective, PALETTE[4]), ("q", query, PALETTE[0]), ("q′", projected, PALETTE[2])):
        plane.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "lw": 2.5, "color": colour})
        side, shift = ("left", 0.03) if tip[0] > 0.1 else ("right", -0.05)
        plane.text(tip[0] + shift, tip[1], name, color=colour, fontweight="bold", fontsize=14, ha=side, va="center")
    plane.set(xlabel="sounds like the perspective", ylabel="is about the topic")
    plane.set(xticks=[-0.5, 0, 0.5, 1], yticks=[0, 0.5, 1], aspect="equal")  # so that an angle looks like what it is
    plane.margins(0.12)
    cosines = np.array([query, projected]) @ points.T / np.linalg.norm(points, axis=1)
    ranks = 1 + (-cosines).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    for i, name in enumerate(texts):
        slope.plot([0, 1], ranks[:, i], f"{MARKERS[i]}-", color=PALETTE[i], lw=2)
        slope.text(-0.07, ranks[0, i], name[0], va="center", ha="right", fontsize=12)
        slope.text(1.07, ranks[1, i], plain(name), va="center", fontsize=11)
    slope.set(
        xlim=(-0.25, 2.4), ylim=(len(texts) + 0.4, 0.6), ylabel="place in the list", yticks=range(1, len(texts) + 1)
    )
    slope.set_xticks([0, 1], ["by q", "by q′"])
    return figure


def labelled_tokens(rows: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return HTML of token sequences: each token in a box, with its label, "ignored" or what is to be said there."""
    parts = []
    for row in rows:
        boxes = []
        for token, label in row:
            look_of, said = f"background:{PALETTE[0]};color:#FFF", f" → <b>{escape(label)}</b>"
            if label == "ignored":
                look_of, said = f"background:{NOTHING};color:#000", ""
            boxes.append(f'<span style="{look_of}">{escape(token)}{said}</span>')
        parts.append(f'<p style="font-family:monospace;font-size:11px;line-height:1.6">{" ".join(boxes)}</p>')
    return "\n".join(parts)
