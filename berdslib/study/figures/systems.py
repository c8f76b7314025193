"""Systems beside each other: means with intervals, dials, trade-offs and ways to fuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.errors import known
from berdslib.study.figures.style import MARKERS, NOTHING, PALETTE, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST_BARS = 5  # more systems are drawn as dots, one below the other


def compare_systems(
    table: pd.DataFrame, measures: Sequence[str], *, dataset: str = "macro", baseline: str | None = None
) -> Figure:
    """Draw means with their 95 % intervals: one panel a measure, one bar a system.

    More than five systems are dots, one line a system, sorted by the first measure.

    Args:
        table: the table of an Experiment.
        measures: which measures, by name.
        dataset: which rows.
        baseline: a system whose mean is a dashed line in every panel; None for no line.
    """
    import matplotlib.pyplot as plt

    rows = table[table["dataset"] == dataset]
    systems = list(dict.fromkeys(rows["system"]))
    if baseline is not None:
        known("system of the table", baseline, systems)
    sideways = len(systems) > MOST_BARS
    size = (1.8 + 3.6 * len(measures), 1.3 + 0.34 * len(systems)) if sideways else (3.4 * len(measures), 3.4)
    figure, axes = plt.subplots(1, len(measures), figsize=size, sharey=True, squeeze=False, layout="constrained")
    if sideways:  # the best system of the first measure on top, in all panels
        first = rows[rows["measure"] == measures[0]].set_index("system")["mean"]
        systems = first.reindex(systems).sort_values(kind="stable").index.tolist()
    for axis, measure in zip(axes[0], measures, strict=True):
        part = rows[rows["measure"] == measure].set_index("system").reindex(systems)
        value = part["mean"].to_numpy() * 100
        error = np.abs(np.vstack([value - part["low"] * 100, part["high"] * 100 - value]))
        draw = _dots if sideways else _bars
        draw(axis, systems, value, error, baseline)
        axis.set_title(plain(measure), fontsize=11)
    of = "mean" if dataset == "macro" else plain(dataset)
    scores = f"score, %, {of} ({int(rows['n'].iloc[0])} questions)"
    if sideways:
        figure.supxlabel(scores + ("" if baseline is None else f"; dashed: {plain(baseline)}"), fontsize=11)
    else:
        axes[0, 0].set_ylabel(scores)
    return figure


def _bars(axis, systems: Sequence[str], value: np.ndarray, error: np.ndarray, baseline: str | None) -> None:  # type: ignore[no-untyped-def]
    x = np.arange(len(systems))
    axis.bar(x, value, color=[PALETTE[i % len(PALETTE)] for i in x], width=0.65)
    axis.errorbar(x, value, yerr=error, fmt="none", ecolor="black", capsize=4, lw=1.2)
    for i, (mean, above) in enumerate(zip(value, error[1], strict=True)):
        axis.text(i, mean + above + 1.5, f"{mean:.1f}", ha="center", va="bottom", fontsize=9)
    if baseline is not None:
        axis.axhline(value[systems.index(baseline)], color="black", ls="--", lw=1.0, zorder=0)
    short = max(map(len, systems)) * len(systems) <= 24  # so that names stand side by side
    turned: dict[str, Any] = {} if short else {"rotation": 20, "ha": "right"}
    axis.set_xticks(x, [plain(system) for system in systems], **turned)
    axis.set_ylim(0, 109)
    axis.set_yticks(range(0, 101, 20))


def _dots(axis, systems: Sequence[str], value: np.ndarray, error: np.ndarray, baseline: str | None) -> None:  # type: ignore[no-untyped-def]
    y = np.arange(len(systems))
    axis.errorbar(value, y, xerr=error, fmt="o", color=PALETTE[0], ms=7, capsize=3, lw=1.6, clip_on=False)
    if baseline is not None:
        place = systems.index(baseline)
        axis.axvline(value[place], color="black", ls="--", lw=1.0, zorder=0)
        axis.plot(value[place], place, "D", color="black", ms=8, zorder=5)
    for place, mean in enumerate(value):
        axis.annotate(f"{mean:.1f}", (1.03, place), xycoords=("axes fraction", "data"), va="center", fontsize=9)
    axis.set_yticks(y, [plain(system) for system in systems])
    axis.set_xlim(0, 100)
    axis.grid(axis="x", color=NOTHING)
    axis.set_axisbelow(True)


def coverage_by_length(needed: pd.DataFrame, k: int, *, union: float | None = None) -> Figure:
    """Draw the share of questions whose perspectives all stand among the first passages, against how many these are.

    Args:
        needed: one column a system, one row a question: passages needed, NaN where k do not suffice; see
            :func:`berdslib.evaluation.coverage.documents_needed`.
        k: the longest list.
        union: share of questions that all lists together cover, drawn as a line.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.4, 4.4), layout="constrained")
    lengths = np.arange(1, k + 1)
    for i, system in enumerate(needed.columns):
        share = (needed[system].to_numpy()[:, None] <= lengths).mean(axis=0) * 100
        # Dashes tell the lines apart in grey; the first are wide, so that one shows below another that hides it.
        look: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "ls": ("-", "--", "-.", ":")[i % 4]}
        axis.step(lengths, share, where="post", label=plain(system), lw=max(1.8, 4.5 - 1.2 * i), **look)
    if union is not None:
        axis.axhline(union * 100, color="black", ls=(0, (1, 3)), lw=1.8, label=f"all together ({union * 100:.1f} %)")
    marks = [n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if n < k]
    axis.set_xscale("log")  # the tenth passage matters more to a reader than the hundredth
    axis.set_xticks([*marks, k], [str(n) for n in (*marks, k)])
    axis.minorticks_off()
    axis.set_xlim(1, max(k, 1.1))
    axis.set_ylim(0, 103)
    axis.set_xlabel("passages read (logarithmic)")
    axis.set_ylabel(f"all perspectives shown,\n% of {len(needed)} questions")
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def weight_sweep(table: pd.DataFrame, baseline: Mapping[str, float]) -> Figure:
    """Draw measures against the relevance weight, the undiversified list as a dashed line.

    Args:
        table: column weight, and one column a measure (0 to 1).
        baseline: measure → its value without diversification.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
    for i, measure in enumerate(baseline):
        mark, colour = MARKERS[(i + i // len(PALETTE)) % len(MARKERS)], PALETTE[i % len(PALETTE)]
        axis.plot(table["weight"], table[measure] * 100, marker=mark, color=colour, label=plain(measure))
        axis.axhline(baseline[measure] * 100, color=colour, ls="--", lw=1.2)
    axis.set_xlabel("relevance weight λ (1: the retriever's own order)")
    axis.set_ylabel("macro mean, %; dashed: the retriever")
    axis.set_ylim(0, 103)
    axis.legend(frameon=False, loc="lower right")
    return figure


def trade_off(table: pd.DataFrame, gain: str, cost: str, baseline: str, family: Mapping[str, str]) -> Figure:
    """Plot each system's gain against its cost, with the Pareto frontier; grey lines cross at the baseline.

    Args:
        table: of :func:`berdslib.study.tuning.gains_and_losses`.
        gain: the measure on the vertical axis.
        cost: the measure on the horizontal axis.
        baseline: the system that is named in the plot, as is "oracle" where there is one.
        family: system → its method, which has one colour and shape.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.4, 5.0), layout="constrained")
    named = table["system"].isin([baseline, "oracle"])
    methods = list(dict.fromkeys(family[s] for s in table.loc[~named, "system"]))
    for i, method in enumerate(methods):
        part = table[~named & (table["system"].map(family) == method)]
        mark = MARKERS[(i + i // len(PALETTE)) % len(MARKERS)]  # a colour that comes twice has another shape
        # Hollow, and later ones smaller, so that what lies at the same place is seen.
        look: dict[str, Any] = {"marker": mark, "ec": PALETTE[i % len(PALETTE)], "s": max(25, 210 * 0.62**i)}
        axis.scatter(part[cost] * 100, part[gain] * 100, fc="none", lw=2, label=plain(method), **look)
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
    axis.set_xlabel(f"{plain(cost)}, %")
    axis.set_ylabel(f"{plain(gain)}, %")
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=10)
    return figure


def similarity_by_side(table: pd.DataFrame) -> Figure:
    """Draw how similar pairs of passages are that argue the same perspective, and two different ones.

    Args:
        table: columns similarity and same (bool), one row a pair of passages of one question.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.6, 3.8), layout="constrained")
    edges = np.linspace(table["similarity"].min(), table["similarity"].max(), 13).tolist()
    looks = ((True, PALETTE[0], "", "same perspective"), (False, PALETTE[1], "//", "different perspectives"))
    for same, colour, hatch, label in looks:
        part = table.loc[table["same"] == same, "similarity"]
        share = np.full(len(part), 100 / max(1, len(part)))  # the two are unlike in number
        style: dict[str, Any] = {"histtype": "stepfilled", "fc": (colour, 0.35), "ec": colour, "lw": 2, "hatch": hatch}
        axis.hist(part, edges, weights=share, label=f"{label} (n = {len(part)})", **style)
        axis.axvline(part.median(), color=colour, lw=2, ls="-" if same else "--")
    axis.set_xlabel("cosine of two passages on one question; vertical lines: medians")
    axis.set_ylabel("share of the pairs, %")
    axis.legend(frameon=False)
    return figure


def fusion_curves(table: pd.DataFrame, measure: str) -> Figure:
    """Draw a measure over the number of expansions, a line for each fusion; without and with the question's own list.

    The band is the 95 % interval of taking turns.

    Args:
        table: of :func:`berdslib.study.fusing.fusion_sweep`. Where it has rows of no expansion, both panels show the
            question alone as a dashed line.
        measure: which of its measures.
    """
    import matplotlib.pyplot as plt

    rows = table[table["measure"] == measure]
    alone = rows.loc[rows["number"] == 0, "mean"]
    figure, axes = plt.subplots(1, 2, figsize=(10.0, 3.8), sharey=True, layout="constrained")
    rules = list(dict.fromkeys(rows["fusion"]))
    shades = plt.get_cmap("cividis")(np.linspace(0, 0.6, max(1, len(rules) - 1)))
    for axis, original in zip(axes, (False, True), strict=True):
        mine = rows[(rows["original"] == original) & (rows["number"] > 0)]
        for i, rule in enumerate(rules):
            part, turns = mine[mine["fusion"] == rule], rule == "round robin"
            look: dict[str, Any] = {"color": PALETTE[4] if turns else shades[i - 1], "lw": 2.4 if turns else 1.4}
            look["ls"] = "-" if turns else ("-", "--", "-.", ":")[(i - 1) % 4]
            # Later ones are smaller, so that what lies at the same place is seen.
            axis.plot(
                part["number"], part["mean"] * 100, marker=MARKERS[i % len(MARKERS)], ms=9 - i, label=rule, **look
            )
            if turns:
                label = "its 95 % interval"
                band = axis.fill_between(part["number"], part["low"] * 100, part["high"] * 100, label=label)
                band.set(color=NOTHING, zorder=-1)
        for value in alone[:1]:
            axis.axhline(value * 100, color="black", ls="--", lw=1.0, label="the question alone", zorder=0)
        axis.set_title("expansions and the question" if original else "expansions alone", fontsize=11)
        axis.set_xlabel("expansions that are searched")
        axis.set_xticks(sorted(set(rows.loc[rows["number"] > 0, "number"])))
    axes[0].set_ylabel(f"{plain(measure)}, %")
    axes[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    return figure
