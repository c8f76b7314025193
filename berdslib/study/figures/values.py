"""Values with their intervals: systems, judges, sides, groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.errors import InputError, known
from berdslib.stats import difference_interval
from berdslib.study.figures.style import HATCHES, MARKERS, NOTHING, PALETTE, YELLOW, legend, look, panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from berdslib.study.experiment import Experiment

MOST_BARS = 5  # more systems are drawn as dots, one below the other
MOST_ROWS = 20  # of one column of groups


def intervals(
    table: pd.DataFrame,
    row: str,
    value: str = "mean",
    *,
    panel: str | None = None,
    hue: str | None = None,
    looks: Mapping[Any, Mapping[str, Any]] | None = None,
    scale: float = 100.0,
    apart: float = 0.28,
    xlabel: str = "%",
    size: tuple[float, float] = (3.6, 0.34),
    ncols: int = 3,
) -> Figure:
    """Draw values as marks with their intervals: a line a row, from the top; everything in the order of the table.

    Args:
        table: the columns named here, and low and high.
        row: the column that names a line.
        value: the column that is drawn.
        panel: the column that names a panel; None for one without a name.
        hue: the column that names a colour and shape.
        looks: hue → options of matplotlib's errorbar; None for those of the palette.
        scale: what values are multiplied by.
        apart: how far the marks of two hues stand apart, in lines.
        xlabel: of each panel.
        size: width of a panel and height of a line, in inches.
        ncols: of the legend.
    """
    rows, names, hues = (list(dict.fromkeys(table[c])) if c else [None] for c in (row, panel, hue))
    looks = looks or {one: look(i) for i, one in enumerate(hues)}
    hues = [one for one in looks if one in hues] if hue else hues
    height = 1.3 + size[1] * len(rows) + (0.3 * -(-len(hues) // ncols) if hue and apart else 0)
    figure, axes = panels(len(names), (1.8 + size[0] * len(names), height))
    for axis, name in zip(axes, names, strict=True):
        for i, one in enumerate(hues):
            part = table[(table[panel] == name) if panel else slice(None)]
            part = part[part[hue] == one] if hue else part
            if part.empty:
                continue
            part = part.drop_duplicates(row).set_index(row).reindex(rows)
            y = np.arange(len(rows)) + apart * (i - (len(hues) - 1) / 2)
            marks(axis, part, y, value, scale=scale, label=plain(one), **looks[one])
        axis.grid(axis="x", color=NOTHING)
        axis.set_axisbelow(True)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlabel(plain(xlabel))
        if panel:
            axis.set_title(plain(name), fontsize=11)
    axes[0].set_yticks(range(len(rows)), [plain(one) for one in rows])
    if hue and apart:
        legend(figure, ncols=min(ncols, len(hues)), fontsize=11)
    return figure


def marks(axis: Any, part: pd.DataFrame, y: Any, value: str = "mean", *, scale: float = 100.0, **options: Any) -> None:
    """Draw the values of a table, with their intervals, at the heights y."""
    middle, low, high = (part[column].to_numpy(float) * scale for column in (value, "low", "high"))
    error = np.abs(np.vstack([middle - low, high - middle]))
    axis.errorbar(middle, y, xerr=error, **{"ls": "none", "capsize": 4, "elinewidth": 1.6, "ms": 7, **options})


def _crossed(axis: Any, x: pd.Series, y: pd.Series, **options: Any) -> None:
    """Draw one mark with its intervals in both directions, in percent; x and y have mean, low and high."""
    ends = {
        f"{name}err": [[100 * (v["mean"] - v["low"])], [100 * (v["high"] - v["mean"])]]
        for name, v in (("x", x), ("y", y))
    }
    axis.errorbar(100 * x["mean"], 100 * y["mean"], **ends, **{"ls": "none", **options})


# ---------------------------------------------------------------- systems


def compare_systems(
    table: pd.DataFrame, measures: Sequence[str], *, dataset: str = "macro", baseline: str | None = None
) -> Figure:
    """Draw means with their 95 % intervals: a panel a measure; more than five systems are dots, the best on top.

    Args:
        table: the table of an Experiment.
        measures: which measures, by name.
        dataset: which rows.
        baseline: a system whose mean is a dashed line in every panel; None for no line.
    """
    rows = table[(table["dataset"] == dataset) & table["measure"].isin(measures)]
    systems = list(dict.fromkeys(rows["system"]))
    if baseline is not None:
        known("system of the table", baseline, systems)
    sideways = len(systems) > MOST_BARS
    wide = rows.pivot(index="system", columns="measure", values="mean")[list(measures)].reindex(systems)
    scores = f"score, %, {'mean' if dataset == 'macro' else plain(dataset)} ({int(rows['n'].iloc[0])} questions)"
    if sideways:
        wide = wide.iloc[::-1].sort_values(measures[0], ascending=False, kind="stable")
        order = pd.MultiIndex.from_product([measures, wide.index], names=["measure", "system"])
        ordered = rows.set_index(["measure", "system"]).reindex(order).reset_index()
        whole = {None: {**look(0), "clip_on": False}}  # a mark at 0 or 100, too
        figure = intervals(ordered, "system", panel="measure", xlabel="", looks=whole)
        figure.supxlabel(scores + ("" if baseline is None else f"; dashed: {plain(baseline)}"), fontsize=11)
    else:
        figure, axes = panels(len(measures), (3.4 * len(measures), 3.4))
        axes[0].set_ylabel(scores)
    for axis, measure in zip(figure.axes, measures, strict=True):
        value = wide[measure] * 100
        line = None if baseline is None else value[baseline]
        if not sideways:
            _bars(axis, rows[rows["measure"] == measure].set_index("system").reindex(systems), line)
            axis.set_title(plain(measure), fontsize=11)
            continue
        axis.set_xlim(0, 100)
        for place, mean in enumerate(value):
            axis.annotate(f"{mean:.1f}", (1.03, place), xycoords=("axes fraction", "data"), va="center", fontsize=9)
        if line is not None:
            axis.axvline(line, color="black", ls="--", lw=1.0, zorder=0)
            axis.plot(line, list(wide.index).index(baseline), "D", color="black", ms=8, zorder=5)
    return figure


def _bars(axis: Any, part: pd.DataFrame, line: float | None) -> None:
    x, value, high = np.arange(len(part)), part["mean"].to_numpy() * 100, part["high"].to_numpy() * 100
    axis.bar(x, value, color=[PALETTE[i % len(PALETTE)] for i in x], width=0.65)
    error = np.abs(np.vstack([value - part["low"] * 100, high - value]))
    axis.errorbar(x, value, yerr=error, fmt="none", ecolor="black", capsize=4, lw=1.2)
    for i, (mean, end) in enumerate(zip(value, high, strict=True)):
        axis.text(i, end + 1.5, f"{mean:.1f}", ha="center", va="bottom", fontsize=9)
    if line is not None:
        axis.axhline(line, color="black", ls="--", lw=1.0, zorder=0)
    short = max(map(len, part.index)) * len(part) <= 24  # so that names stand side by side
    turned: dict[str, Any] = {} if short else {"rotation": 20, "ha": "right"}
    axis.set_xticks(x, [plain(system) for system in part.index], **turned)
    axis.set_ylim(0, 109)
    axis.set_yticks(range(0, 101, 20))


def ceilings_figure(scores: pd.DataFrame, measure: str) -> Figure:
    """Draw what each retriever reaches in each corpus under the most that it could reach there.

    Args:
        scores: columns retriever, corpus, mean, low, high and ceiling, in percent, one row a retriever and corpus.
        measure: what the means are of.
    """
    corpora, retrievers = (list(dict.fromkeys(scores[column])) for column in ("corpus", "retriever"))
    figure, (axis,) = panels(1, (2.4 + 2.6 * len(corpora), 4.2))
    width = 0.8 / len(retrievers)
    for i, (retriever, part) in enumerate(scores.groupby("retriever", sort=False)):
        x = part["corpus"].map(corpora.index) + (i - (len(retrievers) - 1) / 2) * width
        style: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "hatch": HATCHES[i % 4], "edgecolor": "white"}
        axis.bar(x, part["mean"], width * 0.9, label=plain(retriever), **style)
        error = [part["mean"] - part["low"], part["high"] - part["mean"]]
        axis.errorbar(x, part["mean"], yerr=error, fmt="none", ecolor="black", capsize=4, lw=1.2)
        for place, value in zip(x, part["mean"], strict=True):
            axis.text(place - 0.03, value + 2, f"{value:.1f}", ha="right", fontsize=11)
    for i, ceiling in enumerate(scores.drop_duplicates("corpus")["ceiling"]):
        axis.hlines(ceiling, i - 0.48, i + 0.48, color="black", ls="--", lw=2, label="" if i else "ceiling")
        axis.text(i - 0.48, ceiling + 2, f"ceiling {ceiling:.1f}", fontsize=11, fontweight="bold")
    axis.set_xticks(range(len(corpora)), [plain(corpus) for corpus in corpora])
    axis.set(ylim=(0, 105), xlabel="corpus", ylabel=f"{plain(measure)}, %")
    axis.legend(frameon=False, loc="upper left")
    return figure


def difference_table(result: Experiment, measure: str) -> pd.DataFrame:
    """Return each system's difference from the baseline on each data set: dataset, system, difference, low, high, star.

    The interval is that of :func:`berdslib.stats.difference_interval`; star: the corrected p-value is below .05.
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
                star = bool(p_values[dataset, system] < 0.05)
                rows.append((dataset, system, gain.mean(), *difference_interval(gain), star))
    return pd.DataFrame(rows, columns=["dataset", "system", "difference", "low", "high", "star"])


def differences_figure(table: pd.DataFrame, measure: str, labels: Mapping[str, str] | None = None) -> Figure:
    """Draw each system's difference from the baseline with its interval, a panel a data set; filled: it has a star.

    Args:
        table: of :func:`difference_table`.
        measure: its name, for the axis.
        labels: system → what to call it; its name where there is no label.
    """
    named = table.assign(system=[(labels or {}).get(system, system) for system in table["system"]])
    common = {"color": PALETTE[4], "marker": "o", "ecolor": "grey", "capsize": 0}
    looks = {True: common, False: {**common, "mfc": "white"}}
    options: dict[str, Any] = {"looks": looks, "apart": 0, "size": (3.2, 0.3), "xlabel": ""}
    figure = intervals(named, "system", "difference", panel="dataset", hue="star", **options)
    ends = 105 * min(0, table["low"].min()), 105 * max(0, table["high"].max())
    for axis in figure.axes:
        axis.axvline(0, color="black", lw=1)
        axis.set_xlim(*ends)
    figure.supxlabel(f"{plain(measure)}, difference from the baseline in points (filled: p < .05)", fontsize=12)
    return figure


def fairness_against_relevance(
    table: pd.DataFrame, relevance: str, fairness: Sequence[str], *, dataset: str = "macro"
) -> Figure:
    """Draw what each system gains in relevance against how fair its lists are: one panel a measure of fairness.

    Of rKL less is better, so its axis is turned over: the upper right is the best place in every panel.

    Args:
        table: the table of an Experiment.
        relevance: the measure on the horizontal axis, such as "nDCG@20".
        fairness: measures on the vertical axes.
        dataset: which rows.
    """
    rows = table[table["dataset"] == dataset].set_index(["measure", "system"])
    for measure in (relevance, *fairness):
        known("measure of the table", measure, rows.index.get_level_values("measure").unique())
    colours = tuple(colour for colour in PALETTE if colour != YELLOW)
    figure, axes = panels(len(fairness), (4.2 * len(fairness) + 1.6, 4.4), sharey=False)
    for axis, measure in zip(axes, fairness, strict=True):
        for i, system in enumerate(dict.fromkeys(rows.index.get_level_values("system"))):
            style = {**look(i, colours), "mec": "black", "ms": 10, "ecolor": "#B0B0B0", "elinewidth": 1.0}
            _crossed(axis, rows.loc[(relevance, system)], rows.loc[(measure, system)], label=plain(system), **style)
        less = "rKL" in measure
        axis.set_xlabel(f"{plain(relevance)}, %  (relevance →)")
        axis.set_ylabel(f"{plain(measure)}, %  ({'fairer' if less else 'more groups'} →)")
        if less:
            axis.invert_yaxis()
    legend(figure, "outside lower center", ncols=2, fontsize=10)
    return figure


def groups_shown(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw how often each group of authors is shown, as a multiple of its share of the corpus, with intervals.

    Args:
        tables: system → table of :func:`berdslib.evaluation.arguments.group_shares`.
    """
    first = next(iter(tables.values()))
    starts = first["property"] != first["property"].shift()
    # Two columns where one would be too long to read; a property is not torn apart.
    half, places = len(first), np.flatnonzero(starts)
    if len(first) > MOST_ROWS:
        half = int(places[np.abs(places - len(first) / 2).argmin()])
    columns = [part for part in (slice(0, half), slice(half, None)) if len(first.iloc[part])]
    most = max(len(first.iloc[part]) for part in columns)
    figure, axes = panels(len(columns), (6.6 * len(columns), 1.6 + 0.34 * most), sharey=False, sharex=True)
    for axis, part in zip(axes, columns, strict=True):
        y = -np.arange(len(first.iloc[part])) - starts.iloc[part].cumsum().to_numpy()  # a line between two properties
        for i, (system, table) in enumerate(tables.items()):
            shift = (i - (len(tables) - 1) / 2) * 0.27
            style: dict[str, Any] = {**look(i), "ms": 6, "capsize": 0, "elinewidth": 1.0}
            marks(axis, table.iloc[part], y - shift, "ratio", scale=1, label=plain(system), **style)
        axis.axvline(1.0, color="black", lw=0.8, zorder=0)
        names = first.iloc[part]["property"].str.replace("_", " ") + ": " + first.iloc[part]["group"]
        axis.set_yticks(y, names.map(plain), fontsize=10)
        axis.margins(y=0.02)
    axes[0].set_xlim(left=0)  # of both, once both are drawn
    figure.supxlabel("share of the first places / share of the corpus  (1 = neither favoured nor hidden)", fontsize=12)
    legend(figure, ncols=len(tables), fontsize=11)
    return figure


# ---------------------------------------------------------------- judges


def judged_systems_figure(table: pd.DataFrame, measure: str) -> Figure:
    """Plot each system's score by a judge against that by gold, one panel a judge.

    On the diagonal a judge gives what gold gives. Whether the points rise tells whether it orders systems alike,
    wherever they lie. The oracle, which was chosen by gold, is a star.

    Args:
        table: of :class:`berdslib.study.raters.JudgedSystems`, the rows of one measure: system, judge, mean, low, high.
        measure: its name, for the axes.
    """
    gold = table[table["judge"] == "gold"].set_index("system")
    judges = [name for name in dict.fromkeys(table["judge"]) if name != "gold"]
    figure, axes = panels(len(judges), (3.6 * len(judges) + 2.6, 3.9), sharex=True)
    for axis, judge in zip(axes, judges, strict=True):
        judged = table[table["judge"] == judge].set_index("system")
        axis.plot([0, 100], [0, 100], color="grey", lw=1, ls="--", zorder=0)
        for i, system in enumerate(gold.index):
            style = {**look(i), "marker": MARKERS[(i + i // len(PALETTE)) % (len(MARKERS) - 1)]}  # the star is its own
            if system == "oracle":
                style = {"color": "black", "marker": "*", "ms": 12}
            _crossed(axis, gold.loc[system], judged.loc[system], elinewidth=0.5, label=plain(system), **style)
        axis.set_title(plain(judge), fontsize=11)
        axis.set(xlim=(-3, 103), ylim=(-3, 103), aspect="equal", xlabel=f"{plain(measure)} by gold, %")
    axes[0].set_ylabel(f"{plain(measure)} by the judge, %")
    legend(figure, "outside right upper", fontsize=9)
    return figure


def judge_error_figure(table: pd.DataFrame) -> Figure:
    """Draw a system's scores as each judge has them and as corrected by people's labels, with intervals; a bar is gold.

    Args:
        table: columns measure (a panel each), judge, gold (the score by labels of everything) and the fields of
            :class:`berdslib.evaluation.judge_error.Corrected`.
    """
    named = [f"{row.measure} (n = {row.n}, {row.labelled} labelled)" for row in table.itertuples()]
    table = table.assign(panel=named, kind="corrected by people's labels")
    theirs = {f"judge_{name}": name for name in ("value", "low", "high")}
    alone = table.drop(columns=list(theirs.values())).rename(columns=theirs).assign(kind="the judge alone")
    looks = {"the judge alone": {"color": PALETTE[4], "marker": "s"}, table["kind"].iloc[0]: look(0)}
    both = pd.concat([alone, table])
    options: dict[str, Any] = {"looks": looks, "apart": 0.32, "size": (3.9, 0.62), "xlabel": "score, %"}
    figure = intervals(both, "judge", "value", panel="panel", hue="kind", **options)
    for axis, (_, part) in zip(figure.axes, table.groupby("panel", sort=False), strict=True):
        y = np.arange(len(part))
        axis.vlines(part["gold"] * 100, y - 0.36, y + 0.36, color="black", lw=2.5, label="gold: everything labelled")
        axis.set_xlim(min(0, part["low"].min() * 100 - 2), max(102, part["high"].max() * 100 + 2))
    figure.legends[0].remove()
    legend(figure, ncols=3)
    return figure


def judges_figure(table: pd.DataFrame) -> Figure:
    """Draw each judge's F1 against labels with its interval, and its share of yes; dashed: yes to all, and the labels.

    Args:
        table: columns judge, f1, f1_low, f1_high, said_yes, recall, precision and n, one row a judge.
    """
    figure, (left, right) = panels(2, (9.0, 1.6 + 0.5 * len(table)), width_ratios=[3, 2])
    y = np.arange(len(table))
    marks(left, table.assign(low=table["f1_low"], high=table["f1_high"]), y, "f1", **look(0))
    for value, end, at in zip(table["f1"] * 100, table["f1_high"] * 100, y, strict=True):
        left.text(end + 2, at, f"{value:.1f}", va="center", fontsize=10)
    right.barh(y, table["said_yes"] * 100, color=PALETTE[5], height=0.5)
    # precision * said yes = recall * is yes, so the labels' share of yes is in the table already.
    true = table[table["recall"] > 0]
    if len(true):
        share = float((true["precision"] * true["said_yes"] / true["recall"]).iloc[0]) * 100
        all_yes = 200 * share / (100 + share)  # its precision is the share, its recall 1
        for axis, line, what in ((left, all_yes, "yes to all"), (right, share, "the labels themselves")):
            axis.axvline(line, color="black", ls="--", lw=1.2)
            axis.set_title(f"dashed: {what}, {line:.1f} %", fontsize=10)
    left.set(xlim=(0, 100), xlabel=f"F1 against labels, %, n = {int(table['n'].iloc[0])} pairs")
    left.set_yticks(y, table["judge"].map(plain))
    right.set(xlim=(0, 100), ylim=(len(table) - 0.4, -0.6), xlabel="says yes, % of pairs")
    for axis in (left, right):
        axis.grid(axis="x", color=NOTHING)
        axis.set_axisbelow(True)
    return figure


def judge_scores(table: pd.DataFrame) -> Figure:
    """Draw each judge's F1 and AUC with their intervals; dashed: saying yes to every pair.

    Args:
        table: columns judge, f1, f1_low, f1_high, auc, auc_low and auc_high (0 to 1), one row a judge; the one called
            "all yes" becomes the dashed lines.
    """
    parts = [
        table[["judge"]].assign(measure=m, mean=table[m], low=table[f"{m}_low"], high=table[f"{m}_high"])
        for m in ("f1", "auc")
    ]
    both = pd.concat(parts)
    floor, rows = both[both["judge"] == "all yes"], both[both["judge"] != "all yes"]
    looks = {measure: {"color": PALETTE[i], "marker": "o"} for i, measure in enumerate(("f1", "auc"))}
    options: dict[str, Any] = {"looks": looks, "apart": 0, "size": (3.6, 0.45)}
    figure = intervals(rows, "judge", panel="measure", hue="measure", **options)
    for axis, measure in zip(figure.axes, looks, strict=True):
        for of_all_yes in floor.loc[floor["measure"] == measure, "mean"]:
            axis.axvline(of_all_yes * 100, color="black", ls="--", lw=1.2)
        axis.set(title="", xlim=(0, 100), xlabel=f"{measure.upper()}, %  (dashed: yes to all)")
    return figure


# ---------------------------------------------------------------- sides


def sycophancy_figure(table: pd.DataFrame) -> Figure:
    """Draw how far lists lean by what was searched with, as BeRDS Figure 3: three marks a system, with intervals.

    Args:
        table: of :func:`berdslib.evaluation.sides.leaning`, by system, dataset and asked.
    """
    names = {
        "supporting": "searched with the supporting perspective",
        "question": "searched with the question",
        "opposing": "searched with the opposing perspective",
    }
    styles = ({"color": PALETTE[0], "marker": "^"}, {"color": "black"}, {"color": PALETTE[1], "marker": "v"})
    looks = {name: {"marker": "o", "ms": 6, **style} for name, style in zip(names.values(), styles, strict=True)}
    several = table["dataset"].nunique() > 1
    options: dict[str, Any] = {"looks": looks, "apart": 0.22, "scale": 1, "size": (2.6, 0.5)}
    options |= {"panel": "dataset" if several else None, "xlabel": "leaning, (p − n) / (p + n)"}
    options["ncols"] = 3 if several else 1
    figure = intervals(table.assign(asked=table["asked"].map(names)), "system", "leaning", hue="asked", **options)
    for axis in figure.axes:
        axis.axvline(0, color="grey", lw=0.8, zorder=0)
    return figure


def correlations_figure(table: pd.DataFrame, targets: Sequence[str], systems: Sequence[str], title: str) -> Figure:
    """Draw correlations with their intervals: a row a system, a mark a target; the line is no correlation.

    Args:
        table: columns system, target, r, low and high.
        targets: which targets, two or three.
        systems: which systems, from the top.
        title: such as how many essays there are.
    """
    looks = {
        f"with the {target}": {"color": PALETTE[(0, 4, 2)[i]], "marker": MARKERS[i]} for i, target in enumerate(targets)
    }
    shown = table[table["target"].isin(targets)].set_index("system").loc[list(systems)].reset_index()
    options: dict[str, Any] = {"looks": looks, "scale": 1, "size": (6.6, 0.62)}
    options["xlabel"] = f"correlation r of the essays' polarity ({title})"
    figure = intervals(shown.assign(target="with the " + shown["target"]), "system", "r", hue="target", **options)
    (axis,) = figure.axes
    axis.axvline(0, color="black", lw=1.2, zorder=1)
    axis.set(xlim=(-1.02, 1.02), xticks=[-1, -0.5, 0, 0.5, 1], ylabel="how passages were found")
    return figure
