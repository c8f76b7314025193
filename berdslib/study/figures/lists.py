"""Figures of the lists of one question: which perspective is argued at which rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import pandas as pd

from berdslib.data.records import Question, check_run, check_verdicts
from berdslib.errors import known
from berdslib.study.figures.style import NOTHING, PALETTE, looks_of_systems, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Where the headings of perspectives_by_rank start, in widths of a panel: above the row labels.
_LEFT = -0.46


def rank_table(
    question: Question,
    runs: Mapping[str, pd.DataFrame],
    verdicts: pd.DataFrame,
    k: int,
) -> pd.DataFrame:
    """Return one row per system, rank up to k, and perspective of a question: system, rank, docno, pid, supports."""
    verdicts = check_verdicts(verdicts)
    yes = verdicts[(verdicts["qid"] == question.qid) & verdicts["supports"]]
    supported = set(zip(yes["docno"], yes["pid"], strict=True))
    rows = []
    for system, run in runs.items():
        run = check_run(run)
        listed = run[(run["qid"] == question.qid) & (run["rank"] <= k)]
        for docno, rank in zip(listed["docno"], listed["rank"], strict=True):
            for pid in range(len(question.perspectives)):
                rows.append((system, int(rank), docno, pid, (docno, pid) in supported))
    return pd.DataFrame(rows, columns=["system", "rank", "docno", "pid", "supports"])


def perspectives_by_rank(
    question: Question,
    table: pd.DataFrame,
    k: int,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw which perspectives each system shows: a panel per system, a row per perspective, a tile per rank.

    A tile is ticked and has the retriever's colour if the passage at that rank argues the perspective. The number of a
    rank is pale if its passage argues no perspective, and ranks beyond the end of the list have no tile. `table` comes
    from :func:`rank_table`; `labels` maps a system to the name in the figure.
    """
    import matplotlib.pyplot as plt
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    systems = list(dict.fromkeys(table["system"]))
    looks = looks_of_systems(systems)
    m = len(question.perspectives)
    height = 1.1 + len(systems) * (0.75 + 0.62 * m)
    layout = ConstrainedLayoutEngine(h_pad=0.12)  # so that a heading is closer to the list below it
    figure, axes = plt.subplots(len(systems), 1, figsize=(10.5, height), squeeze=False, layout=layout)
    for axis, system in zip(axes[:, 0], systems, strict=True):
        listed = table[(table["system"] == system) & (table["rank"] <= k)]
        mine = listed[listed["supports"]]
        telling = set(mine["rank"])
        length = listed["rank"].nunique()
        colour = looks[system]["color"]
        for pid in range(m):
            _draw_row(axis, pid, sorted(mine.loc[mine["pid"] == pid, "rank"]), length, k, colour)
        axis.set(xlim=(0.4, k + 4.2), ylim=(m - 0.45, -0.55), xticks=range(1, k + 1))
        for rank, label in enumerate(axis.get_xticklabels(), start=1):
            label.set_color("black" if rank in telling else "#B5B5B5")
            label.set_visible(rank <= length)
        axis.set_yticks(range(m), [plain(fill(p, 42)) for p in question.perspectives], fontsize=10)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        none = f"{length - len(telling)} of {length} results argue none"
        shows = f"shows {mine['pid'].nunique()} of {m} perspectives ({none})"
        name = plain((labels or {}).get(system, system))
        axis.set_title(f"{name}  →  {shows}", x=_LEFT, ha="left", fontsize=12, pad=12)
    axes[-1, 0].set_xlabel("rank in the list (pale number: this passage argues none of the perspectives)")
    above: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes[0, 0].annotate(plain(fill(question.text, 90)), (_LEFT, 1), (0, 36), fontsize=15, fontweight="bold", **above)
    return figure


def _draw_row(axis: Any, pid: int, ranks: Sequence[int], length: int, k: int, colour: str) -> None:
    all_ranks = range(1, length + 1)
    colours = [colour if rank in ranks else NOTHING for rank in all_ranks]
    axis.bar(all_ranks, 0.68, 0.8, bottom=pid - 0.34, color=colours)
    for rank in ranks:  # the figure must be readable without its colours
        axis.text(rank, pid, "✓", ha="center", va="center", fontsize=13, color=ink_on(colour), fontweight="bold")
    summary = "HIDDEN: never shown"
    style = {"color": "#B00020", "fontweight": "bold"}
    if ranks:
        summary = f"{len(ranks)} of {length}, first at rank {ranks[0]}"
        style = {"color": "black"}
    axis.text(k + 0.75, pid, summary, va="center", fontsize=10.5, **style)


def ink_on(colour: str) -> str:
    """Return black or white, whichever contrasts more with a colour of the palette."""
    return "#ffffff" if colour in (PALETTE[0], PALETTE[7]) else "#000000"


def letter_of(pid: int) -> str:
    """Return the letter that marks a perspective beside its colour: A, B, …; from the 27th on, its index."""
    return chr(ord("A") + pid) if pid < 26 else str(pid)


def colour_of(pid: int) -> str:
    """Return the colour of a perspective, as #RRGGBB; the colours repeat from the ninth on."""
    return PALETTE[pid % len(PALETTE)]


# The steps of the pipeline: name → (place in the figure, what it is in short). Corpus and reader hang below the row.
_STEPS = {
    "question": ((0, 0), "with its perspectives"),
    "retriever": ((1, 0), "searches the corpus"),
    "list": ((2, 0), "ranked passages"),
    "judge": ((3, 0), "what does each argue?"),
    "measure": ((4, 0), "are all sides shown?"),
    "corpus": ((1, -1), "all passages"),
    "reader": ((2, -1), "a person or a model"),
}
_ARROWS = ("question retriever", "retriever list", "list judge", "judge measure", "corpus retriever", "list reader")
_HALF = 0.4, 0.3  # half the width and half the height of a step


def pipeline(*here: str) -> Figure:
    """Draw how a list is found and scored, and mark the steps `here`, such as "judge"."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    for step in here:
        known("step", step, _STEPS)
    figure, axis = plt.subplots(figsize=(10, 1.7), layout="constrained")
    axis.set(xlim=(-0.45, 4.45), ylim=(-1.35, 0.35))
    axis.set_axis_off()
    width, height = _HALF
    for arrow in _ARROWS:
        (x0, y0), (x1, y1) = (_STEPS[step][0] for step in arrow.split())
        start = (x0 + width * (x1 - x0), y0 + height * (y1 - y0))
        end = (x1 - width * (x1 - x0), y1 - height * (y1 - y0))
        style = {"arrowstyle": "-|>", "color": "#666666", "shrinkA": 0, "shrinkB": 0}
        axis.annotate("", end, start, arrowprops=style)
    for step, ((x, y), what) in _STEPS.items():
        fill_colour, ink = (PALETTE[0], "white") if step in here else ("#F2F2F2", "black")
        corner = (x - width, y - height)
        axis.add_patch(Rectangle(corner, 2 * width, 2 * height, facecolor=fill_colour, edgecolor="#666666"))
        axis.text(x, y + 0.1, step, ha="center", va="center", fontsize=12, color=ink, weight="bold")
        axis.text(x, y - 0.13, what, ha="center", va="center", fontsize=9, color=ink)
    return figure
