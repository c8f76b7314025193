"""Which side lists show, whether they follow the query, and what is written from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.study.figures.style import MARKERS, NOTHING, PALETTE, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sides_figure(shares: pd.DataFrame) -> Figure:
    """Draw which sides lists show, as BeRDS Figure 2: a bar a system, the shares stacked; a panel for each data set.

    Args:
        shares: of :func:`berdslib.evaluation.sides.side_shares`, for one way of asking.
    """
    import matplotlib.pyplot as plt

    # Hatches tell the sides apart in grey; "neither" is pale, since there is nothing to see.
    looks = {
        "both": (PALETTE[2], ""),
        "only supporting": (PALETTE[0], "//"),
        "only opposing": (PALETTE[1], "\\\\"),
        "neither": (NOTHING, ""),
    }
    panels, systems = list(dict.fromkeys(shares["dataset"])), list(dict.fromkeys(shares["system"]))
    size = (2.2 + 2.6 * len(panels), 1.3 + 0.42 * len(systems))
    figure, axes = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for axis, dataset in zip(axes[0], panels, strict=True):
        part = shares[shares["dataset"] == dataset].set_index(["system", "side"])["share"] * 100
        start = np.zeros(len(systems))
        for side, (colour, hatch) in looks.items():
            width = np.array([part.get((system, side), 0.0) for system in systems])
            axis.barh(systems, width, left=start, color=colour, hatch=hatch, edgecolor="white", height=0.72, label=side)
            for y, (left, wide) in enumerate(zip(start, width, strict=True)):
                if wide >= 9:  # a narrower one has no room for its number
                    box = {"boxstyle": "round,pad=.15", "fc": "white", "ec": "none"}
                    axis.text(left + wide / 2, y, f"{wide:.0f}", ha="center", va="center", fontsize=8, bbox=box)
            start += width
        n = shares.loc[shares["dataset"] == dataset, "n"].iloc[0]
        axis.set_title(plain(f"{dataset} (n = {n})") if len(panels) > 1 else f"{n} questions", fontsize=10)
        axis.set_xlim(0, 100)
        axis.set_xlabel("share of questions, %")
    axes[0, 0].set_yticks(range(len(systems)), [plain(system) for system in systems])
    axes[0, 0].invert_yaxis()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def sycophancy_figure(table: pd.DataFrame) -> Figure:
    """Draw how far lists lean by what was searched with, as BeRDS Figure 3: three marks a system, with intervals.

    Args:
        table: of :func:`berdslib.evaluation.sides.leaning`, by system, dataset and asked.
    """
    import matplotlib.pyplot as plt

    looks = {"supporting": (PALETTE[0], "^"), "question": ("black", "o"), "opposing": (PALETTE[1], "v")}
    panels, systems = list(dict.fromkeys(table["dataset"])), list(dict.fromkeys(table["system"]))
    size = (2.8 + 2.6 * len(panels), 1.5 + 0.5 * len(systems))
    figure, axes = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for axis, dataset in zip(axes[0], panels, strict=True):
        axis.axvline(0, color="grey", lw=0.8)
        for shift, (asked, (colour, marker)) in zip((-0.22, 0, 0.22), looks.items(), strict=True):
            part = table[(table["dataset"] == dataset) & (table["asked"] == asked)].set_index("system")
            part = part.reindex(systems)
            y = np.arange(len(systems)) + shift
            x = part["leaning"].to_numpy()
            error = np.vstack([x - part["low"].to_numpy(), part["high"].to_numpy() - x])
            style = {"color": colour, "marker": marker, "ls": "none", "capsize": 3, "ms": 6, "lw": 1.2}
            axis.errorbar(x, y, xerr=error, label=asked, **style)
        if len(panels) > 1:
            axis.set_title(plain(dataset), fontsize=10)
        axis.set_xlabel("leaning, (p − n) / (p + n)")
    axes[0, 0].set_yticks(range(len(systems)), [plain(system) for system in systems])
    axes[0, 0].set_ylim(len(systems) - 0.5, -0.5)  # room for the lowest mark, above the axis
    handles, labels = axes[0, 0].get_legend_handles_labels()
    named = [f"searched with the {'question' if one == 'question' else f'{one} perspective'}" for one in labels]
    figure.legend(handles, named, loc="outside upper center", ncols=1 if len(panels) == 1 else 3, frameon=False)
    return figure


def correlations_figure(table: pd.DataFrame, targets: Sequence[str], systems: Sequence[str], title: str) -> Figure:
    """Draw correlations with their intervals: a row a system, a mark a target; the line is no correlation.

    Args:
        table: columns system, target, r, low and high.
        targets: which targets, two or three.
        systems: which systems, from the top.
        title: such as how many essays there are.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.4, 1.6 + 0.62 * len(systems)), layout="constrained")
    y = np.arange(len(systems))[::-1]
    for i, target in enumerate(targets):
        part = table[table["target"] == target].set_index("system").loc[list(systems)]
        r = part["r"].to_numpy()
        error = np.abs(np.vstack([r - part["low"].to_numpy(), part["high"].to_numpy() - r]))
        look: dict[str, Any] = {"fmt": MARKERS[i], "color": PALETTE[(0, 4, 2)[i]], "capsize": 4, "lw": 1.6, "ms": 7}
        axis.errorbar(r, y + 0.14 - 0.28 * i, xerr=error, label=f"with the {plain(target)}", **look)
    axis.axvline(0, color="black", lw=1.2, zorder=1)
    axis.set_yticks(y, [plain(system) for system in systems])
    axis.set_xlim(-1.02, 1.02)
    axis.set_xticks([-1, -0.5, 0, 0.5, 1])
    axis.grid(axis="x", color=NOTHING)
    axis.set_axisbelow(True)
    axis.set_xlabel(f"correlation r of the essays' polarity ({plain(title)})")
    axis.set_ylabel("how passages were found")
    figure.legend(loc="outside upper center", ncols=len(targets), frameon=False)
    return figure
