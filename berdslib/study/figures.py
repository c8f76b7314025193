"""Figures: one style, one way to save, and the plots that the notebooks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from textwrap import fill, shorten
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_run, check_verdicts
from berdslib.errors import InputError, known
from berdslib.stats import difference_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from berdslib.study.experiment import Experiment

# Okabe and Ito's palette, told apart by people with any kind of colour blindness; grey is kept for "none".
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#000000")
NOTHING = "#E3E3E3"
YELLOW = "#F0E442"  # too pale for a small mark
MOST_ROWS = 20  # of one column of groups
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LIGHT = (1, 5, 6)  # colours of the palette that black letters are read on
MOST_BARS = 5  # more systems are drawn as dots, one below the other
# Where the headings of perspectives_by_rank start, in widths of a panel: above the row labels.
_LEFT = -0.46


def _plain(text: object) -> str:
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


def rank_table(question: Question, runs: Mapping[str, pd.DataFrame], verdicts: pd.DataFrame, k: int) -> pd.DataFrame:
    """Return for one question what each system shows at each rank: system, rank, docno, pid, supports.

    Args:
        question: the question.
        runs: system → run.
        verdicts: verdicts on the listed passages.
        k: how many ranks.
    """
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
    question: Question, table: pd.DataFrame, k: int, labels: Mapping[str, str] | None = None
) -> Figure:
    """Draw which perspective each system shows at each rank.

    One panel a system, one row a perspective, one tile a rank: coloured and ticked where that passage argues the
    perspective, pale where it does not. A rank whose passage argues no perspective at all has a pale number. At the
    end of each row stands what a reader should take away.

    Args:
        question: the question.
        table: from :func:`rank_table`.
        k: how many ranks to draw.
        labels: system → what to call it; its name where there is no label.
    """
    import matplotlib.pyplot as plt
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    systems = list(dict.fromkeys(table["system"]))
    m = len(question.perspectives)
    figure, axes = plt.subplots(
        len(systems),
        1,
        figsize=(10.5, 1.1 + len(systems) * (0.75 + 0.62 * m)),
        squeeze=False,
        layout=ConstrainedLayoutEngine(h_pad=0.12),  # so that a heading stands with the list below it
    )
    for axis, system in zip(axes[:, 0], systems, strict=True):
        _draw_list(axis, question, table[table["system"] == system], k)
        name = (labels or {}).get(system, system)
        summary = _summary(table[table["system"] == system], m, k)
        axis.set_title(f"{_plain(name)}  →  {summary}", x=_LEFT, ha="left", fontsize=12, pad=12)
    axes[-1, 0].set_xlabel("rank in the list (pale number: this passage argues none of the perspectives)")
    axes[0, 0].annotate(
        _plain(fill(question.text, 90)),
        (_LEFT, 1),
        (0, 36),
        "axes fraction",
        "offset points",
        fontsize=15,
        fontweight="bold",
    )
    return figure


def _draw_list(axis, question: Question, mine: pd.DataFrame, k: int) -> None:  # type: ignore[no-untyped-def]
    m = len(question.perspectives)
    shown = set(zip(mine.loc[mine["supports"], "rank"], mine.loc[mine["supports"], "pid"], strict=True))
    for pid in range(m):
        y, colour = m - 1 - pid, PALETTE[pid % len(PALETTE)]
        ranks = sorted(r for r, p in shown if p == pid)
        for rank in range(1, k + 1):
            axis.add_patch(_tile(rank, y, colour if rank in ranks else NOTHING))
            if rank in ranks:  # so that nobody has to tell colours apart
                axis.text(rank, y, "✓", ha="center", va="center", fontsize=13, color=_on(colour), fontweight="bold")
        take_away = f"{len(ranks)} of {k}, first at rank {ranks[0]}" if ranks else "HIDDEN: never shown"
        axis.text(k + 0.75, y, take_away, va="center", fontsize=10.5, color="black" if ranks else "#B00020",
                  fontweight="normal" if ranks else "bold")  # fmt: skip
    axis.set_xlim(0.4, k + 4.2)
    axis.set_ylim(-0.55, m - 0.45)
    axis.set_xticks(range(1, k + 1))
    for rank, label in enumerate(axis.get_xticklabels(), start=1):
        label.set_color("black" if any(r == rank for r, _ in shown) else "#B5B5B5")
    axis.set_yticks(range(m), [_plain(fill(p, 42)) for p in reversed(question.perspectives)], fontsize=10)
    axis.tick_params(length=0)
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)


def _tile(rank: int, y: int, colour: str):  # type: ignore[no-untyped-def]
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(
        (rank - 0.4, y - 0.34),
        0.8,
        0.68,
        boxstyle="round,pad=0,rounding_size=0.12",
        facecolor=colour,
        edgecolor="white",
    )


def _on(colour: str) -> str:
    """Return black or white, whichever is easier to read on a colour."""
    from matplotlib.colors import to_rgb

    return "white" if np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) < 0.5 else "black"


def _summary(mine: pd.DataFrame, m: int, k: int) -> str:
    covered = mine.loc[mine["supports"], "pid"].nunique()
    silent = k - mine.loc[mine["supports"], "rank"].nunique()
    return f"shows {covered} of {m} perspectives ({silent} of {k} results argue none)"


def lists_beside(question: Question, table: pd.DataFrame, titles: Mapping[str, str]) -> Figure:
    """Draw the lists of several systems side by side, with what came in and lines between what stayed.

    A column for each system, a box for each place with the title of its passage. A box has a letter for each
    perspective that its passage argues, and is pale where there is none. Lines join the same passage in
    neighbouring lists; a passage that the list to its left has not is framed and marked "new".

    Args:
        question: the question.
        table: from :func:`rank_table`.
        titles: docno → title.
    """
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    systems, k = list(dict.fromkeys(table["system"])), int(table["rank"].max())
    figure, axis = plt.subplots(figsize=(3.6 * len(systems), 1.6 + 0.72 * k), layout="constrained")
    before: dict[str, int] = {}
    for column, system in enumerate(systems):
        mine = table[table["system"] == system]
        places = dict(zip(mine["docno"], mine["rank"], strict=True))
        for docno, rank in places.items():
            argued = mine.loc[(mine["docno"] == docno) & mine["supports"], "pid"].tolist()
            new = column > 0 and docno not in before
            _draw_box(axis, column, rank, titles[docno], argued, new=new)
            if docno in before:  # from the right edge of its box on the left
                axis.plot([column - 0.57, column - 0.43], [before[docno], rank], color="#777777", lw=1.6, zorder=0)
        before = places
    axis.set_xlim(-0.5, len(systems) - 0.5)
    axis.set_ylim(k + 0.5, 0.5)
    axis.set_xticks(range(len(systems)), [_plain(system) for system in systems], fontsize=12)
    axis.xaxis.tick_top()
    axis.set_yticks(range(1, k + 1), [str(rank) for rank in range(1, k + 1)])
    axis.tick_params(length=0)
    for side in axis.spines.values():
        side.set_visible(False)
    axis.set_title(_plain(fill(question.text, 30 * len(systems))), fontsize=13, fontweight="bold", loc="left", pad=12)
    marks = [
        Line2D([], [], ls="none", marker="s", ms=9, color=_colour(pid)) for pid in range(len(question.perspectives))
    ]
    names = [_plain(f"{_letter(pid)}: {text}") for pid, text in enumerate(question.perspectives)]
    figure.legend(marks, names, loc="outside lower left", frameon=False, fontsize=10)
    return figure


def _draw_box(axis, column: int, rank: int, title: str, argued: Sequence[int], *, new: bool) -> None:  # type: ignore[no-untyped-def]
    from matplotlib.patches import FancyBboxPatch

    edge: dict[str, Any] = {"ec": "black", "lw": 2.0} if new else {"ec": "#B5B5B5", "lw": 0.8}
    box = FancyBboxPatch((column - 0.42, rank - 0.36), 0.84, 0.72, boxstyle="round,pad=0,rounding_size=0.05",
                         facecolor="white" if argued else NOTHING, **edge)  # fmt: skip
    axis.add_patch(box)
    words = fill(shorten(title, 50, placeholder=" …"), 27)
    axis.text(column - 0.40, rank, _plain(words), va="center", fontsize=9.5, color="black" if argued else "#555555")
    if new:
        axis.text(column + 0.40, rank - 0.25, "new", ha="right", va="center", fontsize=8, fontweight="bold")
    for i, pid in enumerate(argued):
        chip = {"boxstyle": "square,pad=.25", "fc": _colour(pid), "ec": "white"}
        axis.text(column + 0.38 - 0.09 * i, rank + 0.12, _letter(pid), ha="right", va="center", fontsize=9,
                  fontweight="bold", color="black" if pid % len(PALETTE) in _LIGHT else "white", bbox=chip)  # fmt: skip


def _letter(pid: int) -> str:
    return chr(ord("A") + pid) if pid < 26 else str(pid)


def _colour(pid: int) -> str:
    return PALETTE[pid % len(PALETTE)]


def compare_systems(
    table: pd.DataFrame, measures: Sequence[str], *, dataset: str = "macro", baseline: str | None = None
) -> Figure:
    """Draw means with their 95 % intervals: one panel a measure, one bar a system.

    More than five systems are dots, one line a system, sorted by the first measure.

    Args:
        table: the table of an Experiment.
        measures: which measures, by name.
        dataset: which rows.
        baseline: a system whose mean is a dashed line in every panel; None for no line.
    """
    import matplotlib.pyplot as plt

    rows = table[table["dataset"] == dataset]
    systems = list(dict.fromkeys(rows["system"]))
    if baseline is not None:
        known("system of the table", baseline, systems)
    sideways = len(systems) > MOST_BARS
    size = (1.8 + 3.6 * len(measures), 1.3 + 0.34 * len(systems)) if sideways else (3.4 * len(measures), 3.4)
    figure, axes = plt.subplots(1, len(measures), figsize=size, sharey=True, squeeze=False, layout="constrained")
    if sideways:  # the best system of the first measure on top, in all panels
        first = rows[rows["measure"] == measures[0]].set_index("system")["mean"]
        systems = first.reindex(systems).sort_values(kind="stable").index.tolist()
    for axis, measure in zip(axes[0], measures, strict=True):
        part = rows[rows["measure"] == measure].set_index("system").reindex(systems)
        value = part["mean"].to_numpy() * 100
        error = np.abs(np.vstack([value - part["low"] * 100, part["high"] * 100 - value]))
        draw = _dots if sideways else _bars
        draw(axis, systems, value, error, baseline)
        axis.set_title(_plain(measure), fontsize=11)
    of = "mean" if dataset == "macro" else _plain(dataset)
    scores = f"score, %, {of} ({int(rows['n'].iloc[0])} questions)"
    if sideways:
        figure.supxlabel(scores + ("" if baseline is None else f"; dashed: {_plain(baseline)}"), fontsize=11)
    else:
        axes[0, 0].set_ylabel(scores)
    return figure


def _bars(axis, systems: Sequence[str], value: np.ndarray, error: np.ndarray, baseline: str | None) -> None:  # type: ignore[no-untyped-def]
    x = np.arange(len(systems))
    axis.bar(x, value, color=[PALETTE[i % len(PALETTE)] for i in x], width=0.65)
    axis.errorbar(x, value, yerr=error, fmt="none", ecolor="black", capsize=4, lw=1.2)
    for i, (mean, above) in enumerate(zip(value, error[1], strict=True)):
        axis.text(i, mean + above + 1.5, f"{mean:.1f}", ha="center", va="bottom", fontsize=9)
    if baseline is not None:
        axis.axhline(value[systems.index(baseline)], color="black", ls="--", lw=1.0, zorder=0)
    short = max(map(len, systems)) * len(systems) <= 24  # so that names stand side by side
    turned: dict[str, Any] = {} if short else {"rotation": 20, "ha": "right"}
    axis.set_xticks(x, [_plain(system) for system in systems], **turned)
    axis.set_ylim(0, 109)
    axis.set_yticks(range(0, 101, 20))


def _dots(axis, systems: Sequence[str], value: np.ndarray, error: np.ndarray, baseline: str | None) -> None:  # type: ignore[no-untyped-def]
    y = np.arange(len(systems))
    axis.errorbar(value, y, xerr=error, fmt="o", color=PALETTE[0], ms=7, capsize=3, lw=1.6, clip_on=False)
    if baseline is not None:
        place = systems.index(baseline)
        axis.axvline(value[place], color="black", ls="--", lw=1.0, zorder=0)
        axis.plot(value[place], place, "D", color="black", ms=8, zorder=5)
    for place, mean in enumerate(value):
        axis.annotate(f"{mean:.1f}", (1.03, place), xycoords=("axes fraction", "data"), va="center", fontsize=9)
    axis.set_yticks(y, [_plain(system) for system in systems])
    axis.set_xlim(0, 100)
    axis.grid(axis="x", color=NOTHING)
    axis.set_axisbelow(True)


def coverage_by_length(needed: pd.DataFrame, k: int, *, union: float | None = None) -> Figure:
    """Draw the share of questions whose perspectives all stand among the first passages, against how many these are.

    Args:
        needed: one column a system, one row a question: passages needed, NaN where k do not suffice; see
            :func:`berdslib.evaluation.coverage.documents_needed`.
        k: the longest list.
        union: share of questions that all lists together cover, drawn as a line.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.4, 4.4), layout="constrained")
    lengths = np.arange(1, k + 1)
    for i, system in enumerate(needed.columns):
        share = (needed[system].to_numpy()[:, None] <= lengths).mean(axis=0) * 100
        # Dashes tell the lines apart in grey; the first are wide, so that one shows below another that hides it.
        look: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "ls": ("-", "--", "-.", ":")[i % 4]}
        axis.step(lengths, share, where="post", label=_plain(system), lw=max(1.8, 4.5 - 1.2 * i), **look)
    if union is not None:
        axis.axhline(union * 100, color="black", ls=(0, (1, 3)), lw=1.8, label=f"all together ({union * 100:.1f} %)")
    marks = [n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if n < k]
    axis.set_xscale("log")  # the tenth passage matters more to a reader than the hundredth
    axis.set_xticks([*marks, k], [str(n) for n in (*marks, k)])
    axis.minorticks_off()
    axis.set_xlim(1, max(k, 1.1))
    axis.set_ylim(0, 103)
    axis.set_xlabel("passages read (logarithmic)")
    axis.set_ylabel(f"all perspectives shown,\n% of {len(needed)} questions")
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def weight_sweep(table: pd.DataFrame, baseline: Mapping[str, float]) -> Figure:
    """Draw measures against the relevance weight, the undiversified list as a dashed line.

    Args:
        table: column weight, and one column a measure (0 to 1).
        baseline: measure → its value without diversification.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
    for i, measure in enumerate(baseline):
        mark, colour = MARKERS[(i + i // len(PALETTE)) % len(MARKERS)], PALETTE[i % len(PALETTE)]
        axis.plot(table["weight"], table[measure] * 100, marker=mark, color=colour, label=_plain(measure))
        axis.axhline(baseline[measure] * 100, color=colour, ls="--", lw=1.2)
    axis.set_xlabel("relevance weight λ (1: the retriever's own order)")
    axis.set_ylabel("macro mean, %; dashed: the retriever")
    axis.set_ylim(0, 103)
    axis.legend(frameon=False, loc="lower right")
    return figure


def trade_off(table: pd.DataFrame, gain: str, cost: str, baseline: str, family: Mapping[str, str]) -> Figure:
    """Plot each system's gain against its cost, with the Pareto frontier; grey lines cross at the baseline.

    Args:
        table: of :func:`berdslib.study.tuning.gains_and_losses`.
        gain: the measure on the vertical axis.
        cost: the measure on the horizontal axis.
        baseline: the system that is named in the plot, as is "oracle" where there is one.
        family: system → its method, which has one colour and shape.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.4, 5.0), layout="constrained")
    named = table["system"].isin([baseline, "oracle"])
    methods = list(dict.fromkeys(family[s] for s in table.loc[~named, "system"]))
    for i, method in enumerate(methods):
        part = table[~named & (table["system"].map(family) == method)]
        mark = MARKERS[(i + i // len(PALETTE)) % len(MARKERS)]  # a colour that comes twice has another shape
        # Hollow, and later ones smaller, so that what lies at the same place is seen.
        look: dict[str, Any] = {"marker": mark, "ec": PALETTE[i % len(PALETTE)], "s": max(25, 210 * 0.62**i)}
        axis.scatter(part[cost] * 100, part[gain] * 100, fc="none", lw=2, label=_plain(method), **look)
    frontier = table[table["frontier"]].sort_values(cost)
    axis.plot(frontier[cost] * 100, frontier[gain] * 100, "k:.", lw=1.0, label="not beaten")
    start = table[table["system"] == baseline].iloc[0]
    axis.axvline(start[cost] * 100, color="#B5B5B5", zorder=0)
    axis.axhline(start[gain] * 100, color="#B5B5B5", zorder=0)
    for _, one in table[named].iterrows():
        x, y = one[cost] * 100, one[gain] * 100
        mark, size = ("*", 17) if one["system"] == "oracle" else ("o", 20)
        axis.plot(x, y, mark, ms=size, mec="black", mew=2, mfc="none")
        axis.annotate(
            _plain(one["system"]), (x, y), (0, 16), textcoords="offset points", ha="center", fontweight="bold"
        )
    axis.margins(0.08, 0.1)
    axis.set_xlabel(f"{_plain(cost)}, %")
    axis.set_ylabel(f"{_plain(gain)}, %")
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=10)
    return figure


def similarity_by_side(table: pd.DataFrame) -> Figure:
    """Draw how similar pairs of passages are that argue the same perspective, and two different ones.

    Args:
        table: columns similarity and same (bool), one row a pair of passages of one question.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.6, 3.8), layout="constrained")
    edges = np.linspace(table["similarity"].min(), table["similarity"].max(), 13).tolist()
    looks = ((True, PALETTE[0], "", "same perspective"), (False, PALETTE[1], "//", "different perspectives"))
    for same, colour, hatch, label in looks:
        part = table.loc[table["same"] == same, "similarity"]
        share = np.full(len(part), 100 / max(1, len(part)))  # the two are unlike in number
        style: dict[str, Any] = {"histtype": "stepfilled", "fc": (colour, 0.35), "ec": colour, "lw": 2, "hatch": hatch}
        axis.hist(part, edges, weights=share, label=f"{label} (n = {len(part)})", **style)
        axis.axvline(part.median(), color=colour, lw=2, ls="-" if same else "--")
    axis.set_xlabel("cosine of two passages on one question; vertical lines: medians")
    axis.set_ylabel("share of the pairs, %")
    axis.legend(frameon=False)
    return figure


def group_confusion(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw which groups fill the lists when another is asked for, one panel a system; PIR figure 6.

    Args:
        tables: system → of :func:`berdslib.evaluation.bias.group_heatmap`.
    """
    import matplotlib.pyplot as plt

    rows, columns = next(iter(tables.values())).shape
    figure, axes = plt.subplots(
        1, len(tables), figsize=(0.9 + len(tables) * (1.0 + 0.17 * columns), 1.4 + 0.17 * rows), sharey=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    most = max(table.to_numpy().max() for table in tables.values()) * 100
    for axis, (system, table) in zip(axes[0], tables.items(), strict=True):
        image = axis.imshow(table.to_numpy() * 100, cmap="cividis", vmin=0, vmax=most, aspect="auto")
        axis.set_xticks(range(columns), [_plain(name) for name in table.columns], rotation=90, fontsize=7)
        axis.set_yticks(range(rows), [_plain(name) for name in table.index], fontsize=7)
        axis.set_title(_plain(system), fontsize=11)
        axis.set_xlabel(_plain(table.columns.name))
    axes[0, 0].set_ylabel(_plain(table.index.name))
    figure.colorbar(image, ax=axes[0].tolist(), label="share of the places, %", shrink=0.8)
    return figure


def projection_figure(
    query: np.ndarray, perspective: np.ndarray, projected: np.ndarray, texts: Mapping[str, Sequence[float]]
) -> Figure:
    """Draw a projection in two dimensions, and the places that each text has before and after it.

    Args:
        query: (2,).
        perspective: (2,), what is projected out.
        projected: (2,) the query without it.
        texts: "A  what it says" → (2,); the plane shows the first letter alone.
    """
    import matplotlib.pyplot as plt

    figure, (plane, slope) = plt.subplots(1, 2, figsize=(9.0, 3.9), layout="constrained", width_ratios=[5, 4])
    arrows = ((perspective, "p", 4, "left", (0.03, 0.0)), (query, "q", 0, "left", (0.03, -0.02)),
              (projected, "q′", 2, "right", (-0.05, 0.0)))  # fmt: skip
    plane.plot(*zip(query, projected, strict=True), ":", color="grey")
    points = np.array(list(texts.values()), dtype=float)
    for name, point in zip(texts, points, strict=True):
        plane.plot([0, point[0]], [0, point[1]], color="grey", lw=1, marker="o", markevery=[1])
        plane.text(point[0], point[1] + 0.03, name[0], ha="center", va="bottom", fontsize=12)
    for tip, name, colour, side, shift in arrows:
        plane.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "lw": 2.5, "color": PALETTE[colour]})
        place = tip + np.array(shift)
        plane.text(*place, name, color=PALETTE[colour], fontweight="bold", fontsize=14, ha=side, va="center")
    plane.set(xlabel="sounds like the perspective", ylabel="is about the topic")
    plane.set_aspect("equal")  # so that an angle looks like what it is
    plane.set(xticks=[-0.5, 0, 0.5, 1], yticks=[0, 0.5, 1])
    plane.margins(0.12)
    ranks = [_ranks(points, vector) for vector in (query, projected)]
    for i, name in enumerate(texts):
        slope.plot([0, 1], [r[i] for r in ranks], f"{MARKERS[i]}-", color=PALETTE[i], lw=2)
        slope.text(-0.07, ranks[0][i], name[0], va="center", ha="right", fontsize=12)
        slope.text(1.07, ranks[1][i], _plain(name), va="center", fontsize=11)
    slope.set(xlim=(-0.25, 2.4), ylim=(len(texts) + 0.4, 0.6), ylabel="place in the list")
    slope.set_yticks(range(1, len(texts) + 1))
    slope.set_xticks([0, 1], ["by q", "by q′"])
    return figure


def _ranks(points: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return the place of each point by its cosine with a vector, 1 the nearest."""
    cosines = points @ vector / np.linalg.norm(points, axis=1)
    return np.asarray((-cosines).argsort(kind="stable").argsort(kind="stable") + 1)


def root_and_full_figure(table: pd.DataFrame, k: int) -> Figure:
    """Draw what root queries and full queries find, a panel a task; PIR figures 2 and 4.

    Args:
        table: index (task, retriever); columns root_any, root and full of
            :func:`berdslib.evaluation.bias.root_versus_full`.
        k: the depth, for the axis.
    """
    import matplotlib.pyplot as plt

    tasks = list(dict.fromkeys(table.index.get_level_values(0)))
    looks = (
        ("root_any", "root query, anybody's gold text", NOTHING, ""),
        ("root", "root query, each perspective's own gold", PALETTE[5], "///"),
        ("full", "full query, its own gold", PALETTE[0], ""),
    )
    most = max(len(table.loc[task]) for task in tasks)
    figure, axes = plt.subplots(
        1, len(tasks), figsize=(3.4 * len(tasks), 1.5 + 0.85 * most), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, task in zip(axes[0], tasks, strict=True):
        part = table.loc[task] * 100
        y = np.arange(len(part))
        for i, (column, label, colour, hatch) in enumerate(looks):
            bars = axis.barh(
                y + (i - 1) * 0.27, part[column], 0.25, color=colour, hatch=hatch, edgecolor="black", lw=0.6
            )
            axis.bar_label(bars, fmt="%.1f", padding=2, fontsize=10)
            if task == tasks[0]:
                bars.set_label(label)
        axis.set(title=_plain(task), xlim=(0, 122), xticks=[0, 50, 100], xlabel=f"found in the first {k}, %")
        axis.set_yticks(y, [_plain(name) for name in part.index])
    axes[0, 0].invert_yaxis()
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=10)
    return figure


def difference_table(result: Experiment, measure: str) -> pd.DataFrame:
    """Return each system's difference from the baseline on each data set: dataset, system, difference, low, high, star.

    Args:
        result: an experiment with a baseline.
        measure: one of its measures, by name.

    Returns:
        One row a data set and system but the baseline; the interval is that of
        :func:`berdslib.stats.difference_interval`, `star` says whether the corrected p-value is below .05.

    Raises:
        InputError: no baseline.
    """
    if result.baseline is None:
        raise InputError("differences need an experiment with a baseline", field="baseline")
    base, rows = result.scores[result.baseline][measure], []
    by_dataset: dict[str, list[str]] = {}
    for question in result.questions:
        by_dataset.setdefault(question.source, []).append(question.qid)
    p_values = result.table[result.table["measure"] == measure].set_index(["dataset", "system"])["p_value"]
    for dataset, qids in by_dataset.items():
        for system, scores in result.scores.items():
            if system != result.baseline:
                gain = (scores.loc[qids, measure] - base[qids]).to_numpy()
                low, high = difference_interval(gain)
                star = bool(p_values[dataset, system] < 0.05)
                rows.append((dataset, system, gain.mean(), low, high, star))
    return pd.DataFrame(rows, columns=["dataset", "system", "difference", "low", "high", "star"])


def differences_figure(table: pd.DataFrame, measure: str, labels: Mapping[str, str] | None = None) -> Figure:
    """Draw each system's difference from the baseline with its interval, a panel a data set; filled: it has a star.

    Args:
        table: of :func:`difference_table`.
        measure: its name, for the axis.
        labels: system → what to call it; its name where there is no label.
    """
    import matplotlib.pyplot as plt

    datasets, systems = (list(dict.fromkeys(table[column])) for column in ("dataset", "system"))
    figure, axes = plt.subplots(
        1, len(datasets), figsize=(3.2 * len(datasets) + 0.6, 1.2 + 0.3 * len(systems)), sharex=True, sharey=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    y = np.arange(len(systems))
    for axis, dataset in zip(axes[0], datasets, strict=True):
        part = table[table["dataset"] == dataset].set_index("system").loc[systems]
        values = 100 * part[["difference", "low", "high"]].to_numpy()
        axis.axvline(0, color="black", lw=1)
        axis.hlines(y, values[:, 1], values[:, 2], color="grey", lw=1.5)
        face = np.where(part["star"], PALETTE[4], "white")
        axis.scatter(values[:, 0], y, c=face, edgecolors=PALETTE[4], s=50, zorder=3)
        axis.set_title(_plain(dataset), fontsize=12)
    axes[0, 0].set_yticks(y, [_plain((labels or {}).get(system, system)) for system in systems])
    axes[0, 0].invert_yaxis()
    figure.supxlabel(f"{_plain(measure)}, difference from the baseline in points (filled: p < .05)", fontsize=12)
    return figure


def strength_figure(curves: pd.DataFrame, measure: str) -> Figure:
    """Draw a score against how much of the perspective is projected out, a line a task.

    Args:
        curves: index strength, a column a task, in percent.
        measure: its name, for the axis.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.2, 3.6), layout="constrained")
    for i, name in enumerate(curves):
        look: dict[str, Any] = {"marker": MARKERS[i % len(MARKERS)], "ls": ("-", "--", "-.", ":")[i % 4]}
        axis.plot(curves.index, curves[name], color=PALETTE[i % len(PALETTE)], label=_plain(name), lw=2, **look)
    axis.axvline(0, color="grey", lw=1, ls=":")
    axis.set(ylim=(0, 104), ylabel=f"{_plain(measure)}, %")
    axis.set_xlabel("strength γ:  −1 perspective doubled  ·  0 query as it is  ·  1 perspective gone (PAP)")
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def group_bars_figure(tables: Mapping[str, pd.Series], expected: float, xlabel: str) -> Figure:
    """Draw a number of each group as sorted bars, a panel a system, with a line where all would be alike; PIR figure 5.

    Args:
        tables: system → group → number.
        expected: what each group would have if none were preferred.
        xlabel: what the number is.
    """
    import matplotlib.pyplot as plt

    most = max(len(table) for table in tables.values())
    figure, axes = plt.subplots(
        1, len(tables), figsize=(4.2 * len(tables), 0.9 + 0.21 * most), sharex=True, squeeze=False, layout="constrained"
    )
    for axis, (system, table) in zip(axes[0], tables.items(), strict=True):
        ordered = table.sort_values(kind="stable")
        axis.barh(np.arange(len(ordered)), ordered, color=PALETTE[5])
        axis.set_yticks(np.arange(len(ordered)), [_plain(name) for name in ordered.index], fontsize=9)
        axis.axvline(expected, color="black", lw=1.2, ls="--")
        axis.set_title(_plain(system), fontsize=12)
        axis.set_xlabel(_plain(xlabel), fontsize=11)
        axis.margins(y=0.01)
    return figure


def fairness_against_relevance(
    table: pd.DataFrame, relevance: str, fairness: Sequence[str], *, dataset: str = "macro"
) -> Figure:
    """Draw what each system gains in relevance against how fair its lists are: one panel a measure of fairness.

    Args:
        table: the table of an Experiment.
        relevance: the measure on the horizontal axis, such as "nDCG@20".
        fairness: measures on the vertical axes. Of rKL less is better, so its axis is turned over: the upper right is
            the best place in every panel.
        dataset: which rows.
    """
    import matplotlib.pyplot as plt

    rows = table[table["dataset"] == dataset].set_index(["measure", "system"])
    systems = list(dict.fromkeys(rows.index.get_level_values("system")))
    for measure in (relevance, *fairness):
        known("measure of the table", measure, rows.index.get_level_values("measure").unique())
    percent = rows[["mean", "low", "high"]] * 100
    colours = [colour for colour in PALETTE if colour != YELLOW]
    n = len(fairness)
    figure, axes = plt.subplots(1, n, figsize=(4.2 * n + 1.6, 4.4), squeeze=False, layout="constrained")
    for axis, measure in zip(axes[0], fairness, strict=True):
        for i, system in enumerate(systems):
            x, y = percent.loc[(relevance, system)], percent.loc[(measure, system)]
            spread = {f"{a}err": [[v["mean"] - v["low"]], [v["high"] - v["mean"]]] for a, v in (("x", x), ("y", y))}
            look: dict[str, Any] = {
                "fmt": MARKERS[i % len(MARKERS)],
                "color": colours[i % len(colours)],
                "mec": "black",
            }
            axis.errorbar(
                x["mean"], y["mean"], **spread, **look, ms=10, ecolor="#B0B0B0", elinewidth=1.0, label=_plain(system)
            )
        less = "rKL" in measure
        axis.set_xlabel(f"{_plain(relevance)}, %  (relevance →)")
        axis.set_ylabel(f"{_plain(measure)}, %  ({'fairer' if less else 'more groups'} →)")
        if less:
            axis.invert_yaxis()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=10)
    return figure


def groups_shown(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw how often each group of authors is shown, as a multiple of its share of the corpus, with intervals.

    Args:
        tables: system → table of :func:`berdslib.evaluation.argument_task.group_shares`.
    """
    import matplotlib.pyplot as plt

    first = next(iter(tables.values()))
    rows, starts = len(first), np.flatnonzero(first["property"] != first["property"].shift())
    # Two columns where one would be too long to read; a property is not torn apart.
    half = int(starts[np.abs(starts - rows / 2).argmin()]) if rows > MOST_ROWS else rows
    columns = [slice(0, half), slice(half, rows)] if 0 < half < rows else [slice(0, rows)]
    most = max(part.stop - part.start for part in columns)
    figure, axes = plt.subplots(
        1, len(columns), figsize=(6.6 * len(columns), 1.6 + 0.34 * most), sharex=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, part in zip(axes[0], columns, strict=True):
        _draw_groups(axis, {system: table.iloc[part] for system, table in tables.items()})
    axes[0, 0].set_xlim(left=0)  # of both, once both are drawn
    figure.supxlabel("share of the first places / share of the corpus  (1 = neither favoured nor hidden)", fontsize=12)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(tables), frameon=False, fontsize=11)
    return figure


def _draw_groups(axis, tables: Mapping[str, pd.DataFrame]) -> None:  # type: ignore[no-untyped-def]
    first = next(iter(tables.values()))
    names = [f"{p.replace('_', ' ')}: {g}" for p, g in zip(first["property"], first["group"], strict=True)]
    # A line of space between two properties.
    y = -np.arange(len(first)) - (first["property"] != first["property"].shift()).cumsum().to_numpy()
    for i, (system, table) in enumerate(tables.items()):
        shift = (i - (len(tables) - 1) / 2) * 0.27
        error = np.vstack([table["ratio"] - table["low"], table["high"] - table["ratio"]]).clip(min=0)
        look: dict[str, Any] = {"fmt": MARKERS[i % len(MARKERS)], "color": PALETTE[i % len(PALETTE)], "ms": 6}
        axis.errorbar(table["ratio"], y - shift, xerr=error, elinewidth=1.0, label=_plain(system), **look)
    axis.axvline(1.0, color="black", lw=0.8, zorder=0)
    axis.set_yticks(y, [_plain(name) for name in names], fontsize=10)
    axis.margins(y=0.02)


def guesses_figure(bins: pd.DataFrame) -> Figure:
    """Draw whether guesses mean what they say: the share that is right against the mean guess of each bin.

    Args:
        bins: of :func:`berdslib.evaluation.calibration.calibration_table`.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5.0, 4.2), layout="constrained")
    axis.plot([0, 1], [0, 1], color="grey", lw=1, ls="--", label="means what it says")
    axis.plot(bins["mean_p"], bins["share_yes"], marker="o", color=PALETTE[0], label="guesses, in bins of equal size")
    axis.set(xlabel="mean guess of a bin", ylabel="share of its authors who have the value")
    axis.set(xlim=(-0.02, 1), ylim=(-0.02, 1))
    axis.legend(frameon=False, loc="lower right", fontsize=11)
    return figure


def calibration_curve_figure(tables: Mapping[str, pd.DataFrame], p_yes: Mapping[str, np.ndarray]) -> Figure:
    """Draw calibration curves of judges, and beside them how often they say what.

    On the diagonal a judge means what it says; below it, it is too generous with yes. The histograms have twenty bins
    of the same width.

    Args:
        tables: judge → table from :func:`berdslib.evaluation.calibration.calibration_table`; the judges must have
            judged the same pairs to be compared.
        p_yes: judge → its probabilities, float (n,).
    """
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(9.6, max(4.6, 1.4 * len(tables))), layout="constrained")
    grid = figure.add_gridspec(len(tables), 2, width_ratios=[3, 2])
    top = figure.add_subplot(grid[:, 0])
    counts = [figure.add_subplot(grid[i, 1], sharex=top) for i in range(len(tables))]
    edges = np.linspace(0, 1, 21)
    most = max(int(np.histogram(p_yes[judge], edges)[0].max()) for judge in tables)
    top.plot([0, 1], [0, 1], color="grey", lw=1, ls="--", label="means what it says", zorder=1)
    for i, (axis, (judge, table)) in enumerate(zip(counts, tables.items(), strict=True)):
        look: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "ls": ("-", "--", "-.", ":")[i % 4], "lw": 2}
        mark = MARKERS[i % len(MARKERS)]
        top.plot(table["mean_p"], table["share_yes"], marker=mark, ms=7, label=_plain(judge), **look)
        axis.hist(p_yes[judge], edges.tolist(), color=look["color"])
        axis.set_ylim(0, most * 1.1)
        axis.set_title(f"{_plain(judge)}: {int(table['n'].sum())} pairs", loc="left", fontsize=10, pad=3)
        axis.tick_params(labelbottom=axis is counts[-1])
    top.set_ylim(-0.03, 1.03)
    top.set_xlim(-0.03, 1.03)
    top.set_ylabel("share of the bin's pairs that are a yes")
    top.set_xlabel("mean probability of yes in a bin")
    top.legend(loc="upper left", frameon=False)
    counts[len(counts) // 2].set_ylabel("pairs")
    counts[-1].set_xlabel("probability of yes")
    return figure


def judged_systems_figure(table: pd.DataFrame, measure: str) -> Figure:
    """Plot each system's score by a judge against that by gold, one panel a judge.

    On the diagonal a judge gives what gold gives. Whether the points rise tells whether it orders systems alike,
    wherever they lie. The oracle, which was chosen by gold, is a star.

    Args:
        table: of :class:`berdslib.study.instruments.JudgedSystems`, the rows of one measure: system, judge, mean, low,
            high.
        measure: its name, for the axes.
    """
    import matplotlib.pyplot as plt

    gold = table[table["judge"] == "gold"].set_index("system")
    judges = [name for name in dict.fromkeys(table["judge"]) if name != "gold"]
    columns = min(3, len(judges))
    rows = -(-len(judges) // columns)
    size = (3.6 * columns + 2.6, 3.6 * rows + 0.3)
    figure, axes = plt.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False,
                                layout="constrained")  # fmt: skip
    for axis in axes.flat[len(judges) :]:
        axis.set_visible(False)
    for axis, judge in zip(axes.flat, judges, strict=False):
        judged = table[table["judge"] == judge].set_index("system")
        axis.plot([0, 100], [0, 100], color="grey", lw=1, ls="--", zorder=0)
        for i, system in enumerate(gold.index):
            x, y = gold.loc[system], judged.loc[system]
            colour, mark = PALETTE[i % len(PALETTE)], MARKERS[(i + i // len(PALETTE)) % (len(MARKERS) - 1)]
            ends = [[[(one["mean"] - one["low"]) * 100], [(one["high"] - one["mean"]) * 100]] for one in (x, y)]
            look: dict[str, Any] = {"color": "black", "marker": "*", "ms": 12} if system == "oracle" else {
                "color": colour, "marker": mark, "ms": 7}  # fmt: skip
            axis.errorbar(x["mean"] * 100, y["mean"] * 100, ends[1], ends[0], elinewidth=0.5, ls="none",
                          label=_plain(system), **look)  # fmt: skip
        axis.set_title(_plain(judge), fontsize=11)
        axis.set_xlim(-3, 103)
        axis.set_ylim(-3, 103)
        axis.set_aspect("equal")
        axis.set_xlabel(f"{_plain(measure)} by gold, %")
    for row in axes:
        row[0].set_ylabel(f"{_plain(measure)} by the judge, %")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside right upper", fontsize=9)
    return figure


def judge_error_figure(table: pd.DataFrame) -> Figure:
    """Draw a system's scores as each judge has them and as corrected by people's labels, with intervals; a bar is gold.

    Args:
        table: columns measure (a panel each), judge, gold (the score by labels of everything) and the fields of
            :class:`berdslib.evaluation.judge_error.Corrected`.
    """
    import matplotlib.pyplot as plt

    measures, judges = list(dict.fromkeys(table["measure"])), list(dict.fromkeys(table["judge"]))
    size = (1.8 + 3.9 * len(measures), 1.6 + 0.62 * len(judges))
    figure, axes = plt.subplots(1, len(measures), figsize=size, sharey=True, squeeze=False, layout="constrained")
    trusting = ("the judge alone", "judge_value", "judge_low", "judge_high", 0.16, PALETTE[4], "s")
    corrected = ("corrected by people's labels", "value", "low", "high", -0.16, PALETTE[0], "o")
    for axis, measure in zip(axes[0], measures, strict=True):
        part = table[table["measure"] == measure].set_index("judge").loc[judges]
        y = np.arange(len(part))[::-1]  # the first judge is drawn at the top
        for label, value, low, high, shift, colour, marker in (trusting, corrected):
            middle = part[value].to_numpy()
            error = np.vstack([middle - part[low].to_numpy(), part[high].to_numpy() - middle]) * 100
            look: dict[str, Any] = {"fmt": marker, "color": colour, "capsize": 4, "lw": 1.6, "ms": 7}
            axis.errorbar(middle * 100, y + shift, xerr=error, label=label, **look)
        axis.vlines(part["gold"] * 100, y - 0.36, y + 0.36, color="black", lw=2.5, label="gold: everything labelled")
        labelled, n = (int(part[column].iloc[0]) for column in ("labelled", "n"))
        axis.set_title(f"{_plain(measure)} (n = {n}, {labelled} labelled)", fontsize=11)
        axis.set_xlim(min(0, part["low"].min() * 100 - 2), max(102, part["high"].max() * 100 + 2))
        axis.set_ylim(-0.5, len(part) - 0.5)
        axis.grid(axis="x", color=NOTHING)
        axis.set_axisbelow(True)
        axis.set_xlabel("score, %")
    axes[0, 0].set_yticks(np.arange(len(judges))[::-1], [_plain(judge) for judge in judges])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return figure


def judges_figure(table: pd.DataFrame) -> Figure:
    """Draw each judge's F1 against labels with its interval, and its share of yes; dashed: yes to all, and the labels.

    Args:
        table: columns judge, f1, f1_low, f1_high, said_yes, recall, precision and n, one row a judge.
    """
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.0, 1.6 + 0.5 * len(table)), sharey=True, layout="constrained", width_ratios=[3, 2]
    )
    y = np.arange(len(table))[::-1]
    f1 = table["f1"].to_numpy() * 100
    error = np.vstack([f1 - table["f1_low"].to_numpy() * 100, table["f1_high"].to_numpy() * 100 - f1])
    left.errorbar(f1, y, xerr=error, fmt="o", color=PALETTE[0], capsize=4, lw=1.6, ms=7)
    for value, end, at in zip(f1, table["f1_high"] * 100, y, strict=True):
        left.text(end + 2, at, f"{value:.1f}", va="center", fontsize=10)
    left.set_yticks(y, table["judge"].map(_plain))
    left.set_xlim(0, 100)
    left.set_xlabel(f"F1 against labels, %, n = {int(table['n'].iloc[0])} pairs")
    right.barh(y, table["said_yes"] * 100, color=PALETTE[5], height=0.5)
    # precision * said yes = recall * is yes, so the labels' share of yes is in the table already.
    true = table[table["recall"] > 0]
    if len(true):
        share = float((true["precision"] * true["said_yes"] / true["recall"]).iloc[0]) * 100
        all_yes = 200 * share / (100 + share)  # its precision is the share, its recall 1
        for axis, at, what in ((left, all_yes, "yes to all"), (right, share, "the labels themselves")):
            axis.axvline(at, color="black", ls="--", lw=1.2)
            axis.set_title(f"dashed: {what}, {at:.1f} %", fontsize=10)
    right.set_xlim(0, 100)
    right.set_xlabel("says yes, % of pairs")
    for axis in (left, right):
        axis.set_ylim(-0.6, len(table) - 0.4)
        axis.grid(axis="x", color=NOTHING)
        axis.set_axisbelow(True)
    return figure


def judge_scores(table: pd.DataFrame) -> Figure:
    """Draw each judge's F1 and AUC with their intervals; dashed: saying yes to every pair.

    Args:
        table: columns judge, f1, f1_low, f1_high, auc, auc_low and auc_high (0 to 1), one row a judge; the one called
            "all yes" becomes the dashed lines.
    """
    import matplotlib.pyplot as plt

    floor, rows = table[table["judge"] == "all yes"], table[table["judge"] != "all yes"]
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 1.4 + 0.45 * len(rows)), sharey=True, layout="constrained")
    y = np.arange(len(rows))[::-1]
    for axis, measure, colour in zip(axes, ("f1", "auc"), PALETTE, strict=False):
        value = rows[measure].to_numpy() * 100
        error = np.vstack([value - rows[f"{measure}_low"] * 100, rows[f"{measure}_high"] * 100 - value]).clip(min=0)
        axis.errorbar(value, y, xerr=error, fmt="o", color=colour, capsize=4, lw=1.6, ms=7)
        for of_all_yes in floor[measure]:
            axis.axvline(of_all_yes * 100, color="black", ls="--", lw=1.2, zorder=0)
        axis.set_xlim(0, 100)
        axis.set_xlabel(f"{measure.upper()}, %  (dashed: yes to all)")
        axis.grid(axis="x", color=NOTHING)
        axis.set_axisbelow(True)
    axes[0].set_yticks(y, rows["judge"].map(_plain))
    axes[0].set_ylim(-0.6, len(rows) - 0.4)
    return figure


# ---------------------------------------------------------------- training


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
        axis.plot(table.index, table[name] * 100, marker=MARKERS[i], color=PALETTE[i], label=_plain(name))
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
        left.step(part["share"] * 100, part["threshold"], where="mid", label=_plain(judge), **look)
        right.plot(part["share"] * 100, part["f1"] * 100, label=_plain(judge), **look)
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


def sides_figure(shares: pd.DataFrame) -> Figure:
    """Draw which sides lists show, as BeRDS Figure 2: a bar a system, the shares stacked; a panel for each data set.

    Args:
        shares: of :func:`berdslib.evaluation.leaning.side_shares`, for one way of asking.
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
        axis.set_title(_plain(f"{dataset} (n = {n})") if len(panels) > 1 else f"{n} questions", fontsize=10)
        axis.set_xlim(0, 100)
        axis.set_xlabel("share of questions, %")
    axes[0, 0].set_yticks(range(len(systems)), [_plain(system) for system in systems])
    axes[0, 0].invert_yaxis()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def sycophancy_figure(table: pd.DataFrame) -> Figure:
    """Draw how far lists lean by what was searched with, as BeRDS Figure 3: three marks a system, with intervals.

    Args:
        table: of :func:`berdslib.evaluation.leaning.leaning`, by system, dataset and asked.
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
            axis.set_title(_plain(dataset), fontsize=10)
        axis.set_xlabel("leaning, (p − n) / (p + n)")
    axes[0, 0].set_yticks(range(len(systems)), [_plain(system) for system in systems])
    axes[0, 0].set_ylim(len(systems) - 0.5, -0.5)  # room for the lowest mark, above the axis
    handles, labels = axes[0, 0].get_legend_handles_labels()
    named = [f"searched with the {'question' if one == 'question' else f'{one} perspective'}" for one in labels]
    figure.legend(handles, named, loc="outside upper center", ncols=1 if len(panels) == 1 else 3, frameon=False)
    return figure


# ---------------------------------------------------------------- fusion


def fusion_curves(table: pd.DataFrame, measure: str) -> Figure:
    """Draw a measure over the number of expansions, a line for each fusion; without and with the question's own list.

    The band is the 95 % interval of taking turns.

    Args:
        table: of :func:`berdslib.study.fusing.fusion_sweep`. Where it has rows of no expansion, both panels show the
            question alone as a dashed line.
        measure: which of its measures.
    """
    import matplotlib.pyplot as plt

    rows = table[table["measure"] == measure]
    alone = rows.loc[rows["number"] == 0, "mean"]
    figure, axes = plt.subplots(1, 2, figsize=(10.0, 3.8), sharey=True, layout="constrained")
    rules = list(dict.fromkeys(rows["fusion"]))
    shades = plt.get_cmap("cividis")(np.linspace(0, 0.6, max(1, len(rules) - 1)))
    for axis, original in zip(axes, (False, True), strict=True):
        mine = rows[(rows["original"] == original) & (rows["number"] > 0)]
        for i, rule in enumerate(rules):
            part, turns = mine[mine["fusion"] == rule], rule == "round robin"
            look: dict[str, Any] = {"color": PALETTE[4] if turns else shades[i - 1], "lw": 2.4 if turns else 1.4}
            look["ls"] = "-" if turns else ("-", "--", "-.", ":")[(i - 1) % 4]
            # Later ones are smaller, so that what lies at the same place is seen.
            axis.plot(
                part["number"], part["mean"] * 100, marker=MARKERS[i % len(MARKERS)], ms=9 - i, label=rule, **look
            )
            if turns:
                label = "its 95 % interval"
                band = axis.fill_between(part["number"], part["low"] * 100, part["high"] * 100, label=label)
                band.set(color=NOTHING, zorder=-1)
        for value in alone[:1]:
            axis.axhline(value * 100, color="black", ls="--", lw=1.0, label="the question alone", zorder=0)
        axis.set_title("expansions and the question" if original else "expansions alone", fontsize=11)
        axis.set_xlabel("expansions that are searched")
        axis.set_xticks(sorted(set(rows.loc[rows["number"] > 0, "number"])))
    axes[0].set_ylabel(f"{_plain(measure)}, %")
    axes[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    return figure


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
                 label=_plain(retriever))  # fmt: skip
        error = [part["mean"] - part["low"], part["high"] - part["mean"]]
        axis.errorbar(x, part["mean"], yerr=error, fmt="none", ecolor="black", capsize=4, lw=1.2)
        for place, value in zip(x, part["mean"], strict=True):
            axis.text(place - 0.03, value + 2, f"{value:.1f}", ha="right", fontsize=11)
    for i, ceiling in enumerate(scores.drop_duplicates("corpus")["ceiling"]):
        axis.hlines(ceiling, i - 0.48, i + 0.48, color="black", ls="--", lw=2, label="" if i else "ceiling")
        axis.text(i - 0.48, ceiling + 2, f"ceiling {ceiling:.1f}", fontsize=11, fontweight="bold")
    axis.set_xticks(range(len(corpora)), [_plain(corpus) for corpus in corpora])
    axis.set_ylim(0, 105)
    axis.set_xlabel("corpus")
    axis.set_ylabel(f"{_plain(measure)}, %")
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
        axis.set_title(_plain(source), fontsize=13)
        axis.set_xlabel("items")
    axes[0, 0].set_yticks(y, [_plain(label) for label in labels])
    axes[0, 0].set_ylim(len(y) - 0.4, -0.6)
    axes[0, 0].set_xlim(right=falls["left"].max() * 1.12)
    return figure


# ---------------------------------------------------------------- what is written from passages


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
        axis.errorbar(r, y + 0.14 - 0.28 * i, xerr=error, label=f"with the {_plain(target)}", **look)
    axis.axvline(0, color="black", lw=1.2, zorder=1)
    axis.set_yticks(y, [_plain(system) for system in systems])
    axis.set_xlim(-1.02, 1.02)
    axis.set_xticks([-1, -0.5, 0, 0.5, 1])
    axis.grid(axis="x", color=NOTHING)
    axis.set_axisbelow(True)
    axis.set_xlabel(f"correlation r of the essays' polarity ({_plain(title)})")
    axis.set_ylabel("how passages were found")
    figure.legend(loc="outside upper center", ncols=len(targets), frameon=False)
    return figure
