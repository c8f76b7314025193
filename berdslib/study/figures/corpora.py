"""Corpora and their making: repeats, ceilings, and what a build leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from berdslib.study.figures.style import NOTHING, PALETTE, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def banding_figure(measured: pd.DataFrame, rows: int, bands: int) -> Figure:
    """Draw how often banding makes candidates of two passages, against how alike they are.

    Args:
        measured: columns similarity and found, shares of 1, one row a kind of copy.
        rows: numbers in a band.
        bands: bands of a signature.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
    similarity = np.linspace(0, 1, 201)
    chance = 1 - (1 - similarity**rows) ** bands
    axis.plot(similarity, chance * 100, color=PALETTE[0], lw=2, label=f"$1 - (1 - J^{{{rows}}})^{{{bands}}}$")
    axis.plot(measured["similarity"], measured["found"] * 100, "o", color=PALETTE[4], ms=9, label="measured")
    axis.set_xlabel("Jaccard similarity of two passages")
    axis.set_ylabel("found as candidates, %")
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 104)
    axis.legend(frameon=False, loc="lower right")
    return figure


def ceilings_figure(scores: pd.DataFrame, measure: str) -> Figure:
    """Draw what each retriever reaches in each corpus under the most that it could reach there.

    Args:
        scores: columns retriever, corpus, mean, low, high and ceiling, in percent, one row a retriever and corpus.
        measure: what the means are of.
    """
    import matplotlib.pyplot as plt

    corpora, retrievers = (list(dict.fromkeys(scores[column])) for column in ("corpus", "retriever"))
    figure, axis = plt.subplots(figsize=(2.4 + 2.6 * len(corpora), 4.2), layout="constrained")
    width = 0.8 / len(retrievers)
    for i, (retriever, part) in enumerate(scores.groupby("retriever", sort=False)):
        x = part["corpus"].map(corpora.index) + (i - (len(retrievers) - 1) / 2) * width
        hatch = ("", "//", "..", "xx")[i % 4]  # told apart in grey, too
        axis.bar(x, part["mean"], width * 0.9, color=PALETTE[i % len(PALETTE)], hatch=hatch, edgecolor="white",
                 label=plain(retriever))  # fmt: skip
        error = [part["mean"] - part["low"], part["high"] - part["mean"]]
        axis.errorbar(x, part["mean"], yerr=error, fmt="none", ecolor="black", capsize=4, lw=1.2)
        for place, value in zip(x, part["mean"], strict=True):
            axis.text(place - 0.03, value + 2, f"{value:.1f}", ha="right", fontsize=11)
    for i, ceiling in enumerate(scores.drop_duplicates("corpus")["ceiling"]):
        axis.hlines(ceiling, i - 0.48, i + 0.48, color="black", ls="--", lw=2, label="" if i else "ceiling")
        axis.text(i - 0.48, ceiling + 2, f"ceiling {ceiling:.1f}", fontsize=11, fontweight="bold")
    axis.set_xticks(range(len(corpora)), [plain(corpus) for corpus in corpora])
    axis.set_ylim(0, 105)
    axis.set_xlabel("corpus")
    axis.set_ylabel(f"{plain(measure)}, %")
    axis.legend(frameon=False, loc="upper left")
    return figure


def funnel_figure(falls: pd.DataFrame) -> Figure:
    """Draw how many items are left after each step that leaves some out, one panel a source.

    Args:
        falls: columns source; row, what is counted there; left, the items that stay; and left_out. The first and the
            last row of a source are totals. All sources have the same rows, in the order in which they are drawn.
    """
    import matplotlib.pyplot as plt

    parts = dict(list(falls.groupby("source", sort=False)))
    labels = list(dict.fromkeys(falls["row"]))
    figure, axes = plt.subplots(
        1, len(parts), figsize=(2.4 + 3.0 * len(parts), 1.2 + 0.42 * len(labels)), sharex=True, sharey=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    y = np.arange(len(labels))
    for axis, (source, part) in zip(axes[0], parts.items(), strict=True):
        axis.barh(y, part["left"], color=[PALETTE[0], *[NOTHING] * (len(y) - 2), PALETTE[0]])
        axis.barh(y, part["left_out"], left=part["left"], color=PALETTE[4], hatch="///", edgecolor="white", lw=0)
        for place, left, out in zip(y, part["left"], part["left_out"], strict=True):
            end = left if place in (y[0], y[-1]) else f"−{out}"
            axis.text(left + out + 0.6, place, end, va="center", fontsize=11)
        axis.set_title(plain(source), fontsize=13)
        axis.set_xlabel("items")
    axes[0, 0].set_yticks(y, [plain(label) for label in labels])
    axes[0, 0].set_ylim(len(y) - 0.4, -0.6)
    axes[0, 0].set_xlim(right=falls["left"].max() * 1.12)
    return figure
