"""One style for all figures, one palette, and one way to save."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by people with any kind of colour blindness; grey is kept for "none".
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#000000")
NOTHING = "#E3E3E3"
YELLOW = "#F0E442"  # too pale for a small mark
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def plain(text: object) -> str:
    """Return a text that matplotlib draws as it stands: between two dollars it would read a formula."""
    return str(text).replace("$", r"\$")


def use_style(page: bool = False) -> None:
    """Set fonts, colours and sizes for the screen, or for a printed page column."""
    import matplotlib as mpl
    import seaborn as sns

    sns.set_theme(context="paper" if page else "notebook", style="ticks", palette=list(PALETTE))
    mpl.rcParams.update(
        {
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.dpi": 150,
            "pdf.fonttype": 42,
            "svg.hashsalt": "berdslib",
        }
    )


def save_figure(figure: Figure, data: pd.DataFrame, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and PDF, and what it shows as CSV.

    Args:
        figure: the figure.
        data: the plotted numbers.
        folder: created if needed.
        name: file name without ending.

    Returns:
        The three paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{ending}" for ending in ("png", "pdf", "csv")]
    figure.savefig(paths[0], dpi=200, bbox_inches="tight", metadata={"Software": None})
    figure.savefig(paths[1], bbox_inches="tight", metadata={"CreationDate": None})
    data.to_csv(paths[2], index=False)
    return paths
