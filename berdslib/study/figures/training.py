"""Training a judge: losses, ranks, thresholds, and the tokens that it answers by."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.study.figures.style import MARKERS, NOTHING, PALETTE, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def loss_curves(table: pd.DataFrame) -> Figure:
    """Draw the loss while a model is trained, with a mark where that on validation is lowest; dotted: a coin's loss.

    Args:
        table: columns passes (so many were done) and training, and validation where there are such examples.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for column, colour, line in (("training", PALETTE[0], "-"), ("validation", PALETTE[4], "--")):
        axis.plot(table["passes"], table[column], color=colour, ls=line, lw=2, label=column)
    best = table.iloc[int(table["validation"].to_numpy().argmin())]
    label = f"lowest on validation: pass {best['passes']:.0f}"
    axis.plot(best["passes"], best["validation"], "o", color=PALETTE[4], ms=8, label=label)
    axis.axhline(np.log(2), color="grey", lw=1, ls=":", label="a coin: log 2", zorder=0)
    axis.set_xlabel("passes over the training pairs")
    axis.set_ylabel("loss (binary cross-entropy)")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, loc="lower left")
    return figure


def rank_errors(table: pd.DataFrame) -> Figure:
    """Draw how much of a matrix is lost when it is replaced by one of a lower rank.

    Args:
        table: the ranks as its index, one column a matrix: the length of what is lost over the length of all, 0 to 1.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for i, name in enumerate(table.columns):
        axis.plot(table.index, table[name] * 100, marker=MARKERS[i], color=PALETTE[i], label=plain(name))
    axis.set_xscale("log", base=2)
    axis.set_xticks(table.index, [str(rank) for rank in table.index])
    axis.set_xlabel("rank r")
    axis.set_ylabel("lost, % of the length")
    axis.set_ylim(0, 103)
    axis.legend(frameon=False, loc="lower left")
    return figure


def threshold_by_share(table: pd.DataFrame) -> Figure:
    """Draw the threshold with the best F1 against the share of positives, and that F1 beside that of yes to all.

    Args:
        table: columns judge, share, threshold and f1 (0 to 1), one row a judge and share.
    """
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.5), sharex=True, layout="constrained")
    for i, (judge, part) in enumerate(table.groupby("judge", sort=False)):
        look: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i % len(MARKERS)], "ms": 4}
        left.step(part["share"] * 100, part["threshold"], where="mid", label=plain(judge), **look)
        right.plot(part["share"] * 100, part["f1"] * 100, label=plain(judge), **look)
    share = np.unique(table["share"])
    right.plot(share * 100, 200 * share / (1 + share), color="black", ls="--", lw=1.2, label="yes to all: 2s / (1 + s)")
    left.set_ylabel("threshold with the best F1")
    left.set_ylim(bottom=0)
    right.set_ylabel("that F1, %")
    right.set_ylim(0, 100)
    for axis in (left, right):
        axis.set_xlabel("share s of pairs that are a yes, %")
        axis.legend(frameon=False)
    return figure


def labelled_tokens(rows: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return HTML of token sequences: each token in a box, coloured by its label; an answer is written out.

    Args:
        rows: for each sequence its tokens, each with its label: "ignored", or what the model has to say there. Tokens
            and labels are escaped.
    """
    ignored, answer = f"background:{NOTHING};color:#000", f"background:{PALETTE[0]};color:#FFF"
    parts = []
    for row in rows:
        boxes = []
        for token, label in row:
            look, said = (ignored, "") if label == "ignored" else (answer, f" → <b>{escape(label)}</b>")
            boxes.append(f'<span style="{look}">{escape(token)}{said}</span>')
        parts.append(f'<p style="font-family:monospace;font-size:11px;line-height:1.6">{" ".join(boxes)}</p>')
    return "\n".join(parts)
