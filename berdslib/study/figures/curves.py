"""Lines and clouds: dials, lengths, calibration, trade-offs, projections; and tokens with their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from berdslib.study.figures.style import DASHES, NOTHING, PALETTE, look, panels, plain

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
