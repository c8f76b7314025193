"""The style and the palette of all figures, and saving to files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from berdslib.files import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which people with any kind of colour blindness can tell apart; grey always means "none".
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#000000")
# Fixed colours of retrievers, and of the supporting and the opposing side, which also have the marks ▲ and ▼.
HUES = dict(zip(("bm25", "minilm", "mpnet"), PALETTE, strict=False))
SIDES = PALETTE[5], PALETTE[4]
NOTHING = "#E3E3E3"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":")


def plain(text: object) -> str:
    """Return a text that matplotlib draws literally: it would read the text between two dollar signs as a formula."""
    return str(text).replace("$", r"\$")


def look(i: int) -> dict[str, Any]:
    """Return the colour and the marker of the i-th item; where colours repeat, the markers differ."""
    return {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[(i + i // len(PALETTE)) % len(MARKERS)]}


def looks_of_systems(systems: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return system → colour and marker: systems with the same retriever share a colour but no marker."""
    seen: dict[str, list[str]] = {}
    looks: dict[str, dict[str, Any]] = {}
    for system in systems:
        retriever = system.partition("+")[0]
        own = seen.setdefault(retriever, [])
        own.append(system)
        other_colours = [colour for colour in PALETTE if colour not in HUES.values()]
        colour = HUES.get(retriever) or other_colours[list(seen).index(retriever) % len(other_colours)]
        lap, place = divmod(len(own) - 1, len(MARKERS))
        looks[system] = {"color": colour, "marker": MARKERS[place]}
        if lap == 1:
            looks[system]["markerfacecolor"] = "none"
        elif lap > 1:  # stars with more and more points
            looks[system]["marker"] = (len(own) - 2 * len(MARKERS) + 3, 1, 0)
    return looks


def use_style() -> None:
    """Set fonts, colours and sizes."""
    import matplotlib as mpl
    import seaborn as sns

    sns.set_theme(style="ticks", palette=list(PALETTE))
    mpl.rcParams.update(
        {
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.dpi": 150,
            "pdf.fonttype": 42,
            "svg.hashsalt": "berdslib",
        }
    )


def panels(across: int, size: tuple[float, float], **options: Any) -> tuple[Figure, list[Any]]:
    """Return a figure and the axes of its panels, which are side by side and share their vertical axis."""
    import matplotlib.pyplot as plt

    options = {"sharey": True, "squeeze": False, "layout": "constrained", **options}
    figure, axes = plt.subplots(1, across, figsize=size, **options)
    return figure, list(axes[0])


def legend(figure: Figure, where: Any = "outside upper center", **options: Any) -> None:
    """Draw one legend for all panels, with the entries of the first panel."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc=where, frameon=False, **options)


def save_figure(figure: Figure, data: pd.DataFrame, folder: Path, name: str) -> list[Path]:
    """Write a figure as NAME.png and NAME.pdf and its data as NAME.csv; create the folder. Return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{ending}" for ending in ("png", "pdf", "csv")]
    figure.savefig(paths[0], dpi=200, bbox_inches="tight", metadata={"Software": None})
    figure.savefig(paths[1], bbox_inches="tight", metadata={"CreationDate": None})
    with write_text(paths[2]) as file:
        data.to_csv(file, index=False, lineterminator="\n")
    return paths
