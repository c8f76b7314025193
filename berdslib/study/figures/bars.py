"""Shares and counts: sides, steps that leave items out, perspectives found, groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from berdslib.study.figures.style import NOTHING, PALETTE, legend, panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sides_figure(shares: pd.DataFrame) -> Figure:
    """Draw which sides lists show, as BeRDS Figure 2, from :func:`berdslib.evaluation.sides.side_shares`."""
    # Hatches tell the sides apart in grey; "neither" is pale, since there is nothing to see.
    looks = {
        "both": (PALETTE[2], ""),
        "only supporting": (PALETTE[0], "//"),
        "only opposing": (PALETTE[1], "\\\\"),
        "neither": (NOTHING, ""),
    }
    box = {"boxstyle": "round,pad=.15", "fc": "white", "ec": "none"}
    names, systems = list(dict.fromkeys(shares["dataset"])), list(dict.fromkeys(shares["system"]))
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
            # A narrow one has no room for its number.
            written = [f"{wide:.0f}" if wide >= 9 else "" for wide in width]
            axis.bar_label(bars, written, label_type="center", fontsize=8, bbox=box)
            start += width
        n = part["n"].iloc[0]
        axis.set_title(plain(f"{dataset} (n = {n})") if len(names) > 1 else f"{n} questions", fontsize=10)
        axis.set(xlim=(0, 100), xlabel="share of questions, %")
    axes[0].set_yticks(range(len(systems)), [plain(system) for system in systems])
    axes[0].invert_yaxis()
    legend(figure, ncols=4, fontsize=9)
    return figure
