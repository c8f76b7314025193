"""Line plots of tables, and token sequences with their labels as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from berdslib.study.figures.style import NOTHING, PALETTE, look, panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def lines(
    table: pd.DataFrame,
    xlabel: str,
    ylabel: str,
    *,
    colours: tuple[str, ...] = PALETTE,
    ylim: tuple[float, float] | None = (0, 103),
) -> Figure:
    """Draw each column of a table as a line over the index, in its own colour and marker.

    With `ylim` None, the axis fits the numbers.
    """
    figure, (axis,) = panels(1, (7.2, 4.2))
    for i, name in enumerate(table):
        style = look(i) | {"color": colours[i % len(colours)]}
        axis.plot(table.index, table[name], label=plain(name), lw=2, **style)
    axis.set(xlabel=plain(xlabel), ylabel=plain(ylabel), ylim=ylim)
    axis.legend(frameon=False)
    return figure


def labelled_tokens(rows: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return HTML of token sequences: each token in a box with its label, "ignored" or the token to predict."""
    parts = []
    for row in rows:
        boxes = []
        for token, label in row:
            style = f"background:{PALETTE[0]};color:#FFF"
            target = f" → <b>{escape(label)}</b>"
            if label == "ignored":
                style = f"background:{NOTHING};color:#000"
                target = ""
            boxes.append(f'<span style="{style}">{escape(token)}{target}</span>')
        parts.append(f'<p style="font-family:monospace;font-size:11px;line-height:1.6">{" ".join(boxes)}</p>')
    return "\n".join(parts)
