"""Figures: one style, one way to save, and the plots that the notebooks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_run, check_verdicts
from berdslib.errors import known

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by people with any kind of colour blindness; grey is kept for "none".
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#000000")
NOTHING = "#E3E3E3"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
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

    One panel a system, one row a perspective, one tile a place in the list: coloured where that passage argues the
    perspective, pale where it does not; the number of a place whose passage argues nothing is pale too. Beside each
    row stands what a reader should take away.

    Args:
        question: the question.
        table: from :func:`rank_table`.
        k: how many places to draw.
        labels: system → what to call it; its name where there is no label.
    """
    import matplotlib.pyplot as plt

    systems = list(dict.fromkeys(table["system"]))
    m = len(question.perspectives)
    figure, axes = plt.subplots(
        len(systems), 1, figsize=(10.5, 1.1 + len(systems) * (0.75 + 0.62 * m)), squeeze=False, layout="constrained"
    )
    for axis, system in zip(axes[:, 0], systems, strict=True):
        _draw_list(axis, question, table[table["system"] == system], k)
        name = (labels or {}).get(system, system)
        summary = _summary(table[table["system"] == system], m, k)
        axis.set_title(f"{_plain(name)}  →  {summary}", x=_LEFT, ha="left", fontsize=12, pad=12)
    axes[-1, 0].set_xlabel("place in the list of results (1 = top; a pale number: argues none of the perspectives)")
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
            fill_colour = colour if rank in ranks else NOTHING
            axis.add_patch(_tile(rank, y, fill_colour))
        take_away = f"{len(ranks)} of {k}, first at place {ranks[0]}" if ranks else "HIDDEN: not once"
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


def _summary(mine: pd.DataFrame, m: int, k: int) -> str:
    covered = mine.loc[mine["supports"], "pid"].nunique()
    silent = k - mine.loc[mine["supports"], "rank"].nunique()
    return f"shows {covered} of {m} perspectives ({silent} of {k} results argue none)"


def compare_systems(table: pd.DataFrame, measures: Sequence[str], *, dataset: str = "macro") -> Figure:
    """Draw means with their 95 % intervals: one panel a measure, one bar a system.

    Args:
        table: the table of an Experiment.
        measures: which measures, by name.
        dataset: which rows.
    """
    import matplotlib.pyplot as plt

    rows = table[table["dataset"] == dataset]
    figure, axes = plt.subplots(
        1, len(measures), figsize=(3.4 * len(measures), 3.4), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, measure in zip(axes[0], measures, strict=True):
        part = rows[rows["measure"] == measure]
        x = np.arange(len(part))
        error = np.abs(np.vstack([part["mean"] - part["low"], part["high"] - part["mean"]])) * 100
        axis.bar(x, part["mean"] * 100, color=[PALETTE[i % len(PALETTE)] for i in x], width=0.65)
        axis.errorbar(x, part["mean"] * 100, yerr=error, fmt="none", ecolor="black", capsize=4, lw=1.2)
        for i, value in enumerate(part["mean"] * 100):
            axis.text(i + 0.05, value + 1.0, f"{value:.1f}", ha="left", va="bottom", fontsize=9)
        axis.set_xticks(x, part["system"].map(_plain).tolist(), rotation=20, ha="right")
        axis.set_title(_plain(measure), fontsize=11)
        axis.set_ylim(0, 105)
        axis.set_xlabel("retriever")
    axes[0, 0].set_ylabel(f"score, %, {_plain(dataset)} ({int(rows['n'].iloc[0])} questions)")
    return figure


def coverage_by_length(needed: pd.DataFrame, k: int, *, union: float | None = None) -> Figure:
    """Draw the share of questions whose perspectives all stand among the first passages, against how many these are.

    Args:
        needed: one column a system, one row a question: passages needed, NaN where k do not suffice; see
            :func:`berdslib.evaluation.coverage.documents_needed`.
        k: the longest list.
        union: share of questions that all lists together cover, drawn as a line.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    lengths = np.arange(k + 1)
    for i, system in enumerate(needed.columns):
        share = (needed[system].to_numpy()[:, None] <= lengths).mean(axis=0) * 100
        look: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "ls": ("-", "--", "-.", ":")[i // len(PALETTE) % 4]}
        axis.step(lengths, share, where="post", label=_plain(system), **look)
    if union is not None:
        axis.axhline(union * 100, color="black", ls="--", lw=1.2, label=f"all together ({union * 100:.0f} %)")
    axis.set_xlim(0, k)
    axis.set_ylim(0, 103)
    axis.set_xlabel("passages read")
    axis.set_ylabel(f"all perspectives shown, % of {len(needed)} questions")
    axis.legend(frameon=False, loc="lower right")
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
    """Plot each system's gain against its cost, with the Pareto frontier.

    Args:
        table: of :func:`berdslib.study.tuning.gains_and_losses`.
        gain: the measure on the vertical axis.
        cost: the measure on the horizontal axis.
        baseline: the system that is labelled in the plot.
        family: system → its method, which has one colour and shape.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.6, 5.0), layout="constrained")
    methods = list(dict.fromkeys(family[s] for s in table["system"]))
    for i, method in enumerate(methods):
        part = table[[family[s] == method for s in table["system"]]]
        mark = MARKERS[(i + i // len(PALETTE)) % len(MARKERS)]  # a colour that comes twice has another shape
        look: dict[str, Any] = {"marker": mark, "color": PALETTE[i % len(PALETTE)], "s": 46, "alpha": 0.85}
        axis.scatter(part[cost] * 100, part[gain] * 100, label=_plain(method), **look)
    frontier = table[table["frontier"]].sort_values(cost)
    axis.plot(frontier[cost] * 100, frontier[gain] * 100, color="black", lw=1.0, ls=":", zorder=0, label="not beaten")
    start = table[table["system"] == baseline].iloc[0]
    axis.axvline(start[cost] * 100, color=NOTHING, zorder=0)
    axis.axhline(start[gain] * 100, color=NOTHING, zorder=0)
    axis.set_xlabel(f"{_plain(cost)}, %")
    axis.set_ylabel(f"{_plain(gain)}, %")
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    return figure


def similarity_by_side(table: pd.DataFrame) -> Figure:
    """Draw how similar pairs of passages are that argue the same perspective, and two different ones.

    Args:
        table: columns similarity and same (bool), one row a pair of passages of one question.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    edges = np.linspace(table["similarity"].min(), table["similarity"].max(), 31).tolist()
    for same, colour, label in ((True, PALETTE[0], "same perspective"), (False, PALETTE[1], "different perspectives")):
        part = table.loc[table["same"] == same, "similarity"]
        axis.hist(part, edges, density=True, histtype="step", lw=2, color=colour, label=f"{label} (n = {len(part)})")
    axis.set_xlabel("cosine of two passages on one question")
    axis.set_ylabel("density")
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
    n = len(fairness)
    figure, axes = plt.subplots(1, n, figsize=(4.2 * n + 1.6, 4.0), squeeze=False, layout="constrained")
    for axis, measure in zip(axes[0], fairness, strict=True):
        for i, system in enumerate(systems):
            x, y = rows.loc[(relevance, system)], rows.loc[(measure, system)]
            spread = {f"{a}err": [[v["mean"] - v["low"]], [v["high"] - v["mean"]]] for a, v in (("x", x), ("y", y))}
            axis.errorbar(
                x["mean"],
                y["mean"],
                **spread,
                fmt=MARKERS[i % len(MARKERS)],
                color=PALETTE[i % len(PALETTE)],
                ms=8,
                elinewidth=1.0,
                label=_plain(system),
            )
        less = "rKL" in measure
        axis.set_xlabel(f"{_plain(relevance)}  (relevance →)")
        axis.set_ylabel(f"{_plain(measure)}  ({'fairer' if less else 'more groups'} →)")
        if less:
            axis.invert_yaxis()
    axes[0, -1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    return figure


def groups_shown(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw how often each group of authors is shown, as a multiple of its share of the corpus, with intervals.

    Args:
        tables: system → table of :func:`berdslib.evaluation.argument_task.group_shares`.
    """
    import matplotlib.pyplot as plt

    first = next(iter(tables.values()))
    names = [f"{p.replace('_', ' ')}: {g}" for p, g in zip(first["property"], first["group"], strict=True)]
    # A line of space between two properties.
    y = -np.arange(len(first)) - (first["property"] != first["property"].shift()).cumsum().to_numpy()
    figure, axis = plt.subplots(figsize=(7.6, 1.2 + 0.24 * len(first)), layout="constrained")
    for i, (system, table) in enumerate(tables.items()):
        shift = (i - (len(tables) - 1) / 2) * 0.22
        error = np.vstack([table["ratio"] - table["low"], table["high"] - table["ratio"]]).clip(min=0)
        look: dict[str, Any] = {"fmt": MARKERS[i % len(MARKERS)], "color": PALETTE[i % len(PALETTE)], "ms": 4.5}
        axis.errorbar(table["ratio"], y - shift, xerr=error, elinewidth=0.9, label=_plain(system), **look)
    axis.axvline(1.0, color="black", lw=0.8, zorder=0)
    axis.set_yticks(y, [_plain(name) for name in names], fontsize=8)
    axis.margins(y=0.01)
    axis.set_xlabel("share of the first places / share of the corpus\n(1 = neither favoured nor hidden)")
    axis.set_xlim(left=0)
    axis.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(tables), fontsize=9)
    return figure


def calibration_curve_figure(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw calibration curves of judges, with the number of pairs per bin below.

    On the diagonal a judge means what it says; below it, it is too generous with yes.

    Args:
        tables: judge → table from :func:`berdslib.evaluation.calibration.calibration_table`; the judges must have
            judged the same pairs to be compared.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1 + len(tables),
        1,
        figsize=(5.6, 5.0 + 0.8 * len(tables)),
        sharex=True,
        height_ratios=[5.0, *[0.8] * len(tables)],
        layout="constrained",
    )
    top, most = axes[0], max(int(table["n"].max()) for table in tables.values())
    top.plot([0, 1], [0, 1], color="grey", lw=1, ls="--", label="means what it says", zorder=1)
    for i, (judge, table) in enumerate(tables.items()):
        colour = PALETTE[i % len(PALETTE)]
        top.plot(
            table["mean_p"], table["share_yes"], marker=MARKERS[i % len(MARKERS)], color=colour, label=_plain(judge)
        )
        axes[1 + i].vlines(table["mean_p"], 0, table["n"], color=colour, lw=4)
        axes[1 + i].set_ylim(0, most * 1.1)
        axes[1 + i].set_title(f"{_plain(judge)}: {int(table['n'].sum())} pairs", loc="left", fontsize=10, pad=3)
    top.set_ylim(-0.03, 1.03)
    top.set_xlim(-0.03, 1.03)
    top.set_ylabel("share of the bin's pairs that are a yes")
    top.legend(loc="upper left", frameon=False)
    axes[1].set_ylabel("pairs\nper bin")
    axes[-1].set_xlabel("mean probability of yes in a bin, as the judge has it")
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


def judge_error_figure(table: pd.DataFrame, measure: str) -> Figure:
    """Draw each system's score as its judge has it and as corrected by people's labels, both with intervals.

    Args:
        table: columns system and the fields of :class:`berdslib.evaluation.judge_error.Corrected`.
        measure: its name, for the axis.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.0, 1.5 + 0.62 * len(table)), layout="constrained")
    y = np.arange(len(table))[::-1]
    trusting = ("the judge alone", "judge_value", "judge_low", "judge_high", 0.13, PALETTE[4], "s")
    corrected = ("corrected by people's labels", "value", "low", "high", -0.13, PALETTE[0], "o")
    for label, value, low, high, shift, colour, marker in (trusting, corrected):
        middle = table[value].to_numpy()
        error = np.vstack([middle - table[low].to_numpy(), table[high].to_numpy() - middle]) * 100
        axis.errorbar(
            middle * 100, y + shift, xerr=error, fmt=marker, color=colour, capsize=4, lw=1.6, ms=7, label=label
        )
    names = zip(table["system"], table["labelled"], table["n"], strict=True)
    axis.set_yticks(y, [f"{_plain(system)}\n{labelled} labels, n = {n}" for system, labelled, n in names])
    axis.set_ylim(-0.5, len(table) - 0.5)
    axis.grid(axis="x", color=NOTHING)
    axis.set_axisbelow(True)
    axis.set_xlabel(f"{_plain(measure)}, %")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return figure


def judges_figure(table: pd.DataFrame) -> Figure:
    """Draw each judge's F1 against labels with its interval, and its share of yes beside the labels' own.

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
    left.set_yticks(y, table["judge"].map(_plain))
    left.set_xlim(0, 100)
    left.set_xlabel(f"F1 against labels, %, n = {int(table['n'].iloc[0])} pairs")
    right.barh(y, table["said_yes"] * 100, color=PALETTE[5], height=0.5)
    # precision * said yes = recall * is yes, so the labels' share of yes is in the table already.
    true = table[table["recall"] > 0]
    if len(true):
        share = float((true["precision"] * true["said_yes"] / true["recall"]).iloc[0]) * 100
        right.axvline(share, color="black", ls="--", lw=1.2)
        right.set_title(f"dashed: the labels themselves, {share:.0f} %", fontsize=10)
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
    axes[0, 0].invert_yaxis()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    named = [f"searched with the {'question' if one == 'question' else f'{one} perspective'}" for one in labels]
    figure.legend(handles, named, loc="outside upper center", ncols=1 if len(panels) == 1 else 3, frameon=False)
    return figure


# ---------------------------------------------------------------- fusion


def fusion_curves(table: pd.DataFrame, measure: str) -> Figure:
    """Draw a measure over the number of expansions, a line for each fusion; without and with the question's own list.

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
    shades = plt.get_cmap("cividis")(np.linspace(0, 0.9, max(1, len(rules) - 1)))
    for axis, original in zip(axes, (False, True), strict=True):
        for i, rule in enumerate(rules):
            part = rows[(rows["fusion"] == rule) & (rows["original"] == original) & (rows["number"] > 0)]
            turns = rule == "round robin"
            look: dict[str, Any] = {"color": PALETTE[4] if turns else shades[i - 1], "lw": 2.4 if turns else 1.4}
            axis.plot(part["number"], part["mean"] * 100, marker=MARKERS[i % len(MARKERS)], ms=4, label=rule, **look)
        for value in alone[:1]:
            axis.axhline(value * 100, color="black", ls="--", lw=1.0, label="the question alone", zorder=0)
        axis.set_title("expansions and the question" if original else "expansions alone", fontsize=11)
        axis.set_xlabel("expansions that are searched")
        axis.set_xticks(sorted(set(rows.loc[rows["number"] > 0, "number"])))
    axes[0].set_ylabel(f"{_plain(measure)}, %")
    axes[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    return figure
