"""Shares and counts: sides, steps that leave items out, perspectives found, groups."""

from __future__ import annotations

from collections.abc import Mapping
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


def funnel_figure(falls: pd.DataFrame) -> Figure:
    """Draw how many items are left after each step that leaves some out, one panel a source.

    `falls` has the columns source, row (what is counted there), left and left_out; the first and the last row of a
    source are totals, and all sources have the same rows, in the order in which they are drawn.
    """
    parts, labels = dict(list(falls.groupby("source", sort=False))), list(dict.fromkeys(falls["row"]))
    figure, axes = panels(len(parts), (2.4 + 3.0 * len(parts), 1.2 + 0.42 * len(labels)), sharex=True)
    y = np.arange(len(labels))
    for axis, (source, part) in zip(axes, parts.items(), strict=True):
        axis.barh(y, part["left"], color=[PALETTE[0], *[NOTHING] * (len(y) - 2), PALETTE[0]])
        bars = axis.barh(y, part["left_out"], left=part["left"], color=PALETTE[4], hatch="///", edgecolor="white", lw=0)
        left, out = part["left"].tolist(), part["left_out"].tolist()
        axis.bar_label(bars, [left[0], *(f"−{n}" for n in out[1:-1]), left[-1]], padding=4, fontsize=11)
        axis.set_title(plain(source), fontsize=13)
        axis.set_xlabel("items")
    axes[0].set_yticks(y, [plain(label) for label in labels])
    axes[0].set(ylim=(len(y) - 0.4, -0.6))
    axes[0].set_xlim(right=falls["left"].max() * 1.12)
    return figure


def root_and_full_figure(table: pd.DataFrame, k: int) -> Figure:
    """Draw what root and full queries find at depth `k`, a panel a task; PIR figures 2 and 4.

    `table` has the index (task, retriever) and the columns of :func:`berdslib.evaluation.sides.root_versus_full`.
    """
    looks = (
        ("root_any", "root query, anybody's gold text", NOTHING, ""),
        ("root", "root query, each perspective's own gold", PALETTE[5], "///"),
        ("full", "full query, its own gold", PALETTE[0], ""),
    )
    tasks = list(dict.fromkeys(table.index.get_level_values(0)))
    most = max(len(table.loc[task]) for task in tasks)
    figure, axes = panels(len(tasks), (3.4 * len(tasks), 1.5 + 0.85 * most))
    for axis, task in zip(axes, tasks, strict=True):
        part = table.loc[task] * 100
        y = np.arange(len(part))
        for i, (column, label, colour, hatch) in enumerate(looks):
            style = {"color": colour, "hatch": hatch, "edgecolor": "black", "lw": 0.6, "label": label}
            bars = axis.barh(y + (i - 1) * 0.27, part[column], 0.25, **style)
            axis.bar_label(bars, fmt="%.1f", padding=2, fontsize=10)
        axis.set(title=plain(task), xlim=(0, 122), xticks=[0, 50, 100], xlabel=f"found in the first {k}, %")
        axis.set_yticks(y, [plain(name) for name in part.index])
    axes[0].invert_yaxis()
    legend(figure, ncols=3, fontsize=10)
    return figure


def group_bars_figure(tables: Mapping[str, pd.Series], expected: float, xlabel: str) -> Figure:
    """Draw a number of each group (system → group → number), with a line where all would be alike; PIR figure 5."""
    most = max(len(table) for table in tables.values())
    figure, axes = panels(len(tables), (4.2 * len(tables), 0.9 + 0.21 * most), sharey=False, sharex=True)
    for axis, (system, table) in zip(axes, tables.items(), strict=True):
        ordered = table.sort_values(kind="stable")
        axis.barh(np.arange(len(ordered)), ordered, color=PALETTE[5])
        axis.set_yticks(np.arange(len(ordered)), [plain(name) for name in ordered.index], fontsize=9)
        axis.axvline(expected, color="black", lw=1.2, ls="--")
        axis.set_title(plain(system), fontsize=12)
        axis.set_xlabel(plain(xlabel), fontsize=11)
        axis.margins(y=0.01)
    return figure


def group_confusion(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw which groups fill the lists when another is asked for, a panel a system; PIR figure 6.

    `tables` are system → table of :func:`berdslib.evaluation.sides.group_heatmap`.
    """
    rows, columns = next(iter(tables.values())).shape
    size = (0.9 + len(tables) * (1.0 + 0.17 * columns), 1.4 + 0.17 * rows)
    figure, axes = panels(len(tables), size)
    most = max(table.to_numpy().max() for table in tables.values()) * 100
    for axis, (system, table) in zip(axes, tables.items(), strict=True):
        image = axis.imshow(table.to_numpy() * 100, cmap="cividis", vmin=0, vmax=most, aspect="auto")
        axis.set_xticks(range(columns), [plain(name) for name in table.columns], rotation=90, fontsize=7)
        axis.set_yticks(range(rows), [plain(name) for name in table.index], fontsize=7)
        axis.set_title(plain(system), fontsize=11)
        axis.set_xlabel(plain(table.columns.name))
    axes[0].set_ylabel(plain(table.index.name))
    figure.colorbar(image, ax=axes, label="share of the places, %", shrink=0.8)
    return figure
