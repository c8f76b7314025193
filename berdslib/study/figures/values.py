"""Values with their intervals: systems, judges, sides, groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.errors import InputError, known
from berdslib.stats import difference_interval
from berdslib.study.figures.style import MARKERS, NOTHING, PALETTE, YELLOW, legend, look, panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from berdslib.study.experiment import Experiment

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
    xlim: tuple[float, float] | None = None,
    lines: float | Mapping[Any, float] | None = None,
    written: bool = False,
    own_rows: bool = False,
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
        xlim: ends of the horizontal axes.
        lines: where a dashed line shows what all are to be compared with; or panel → where.
        written: each value is written at the right end of its line.
        own_rows: each panel has lines of its own.
        size: width of a panel and height of a line, in inches.
        ncols: of the legend.
    """
    names, hues = (list(dict.fromkeys(table[c])) if c else [None] for c in (panel, hue))
    looks = looks or {one: look(i) for i, one in enumerate(hues)}
    hues = [one for one in looks if one in hues] if hue else hues
    parts = {name: table[table[panel] == name] if panel else table for name in names}
    rows = {name: list(dict.fromkeys((part if own_rows else table)[row])) for name, part in parts.items()}
    height = 1.3 + size[1] * max(map(len, rows.values())) + (0.3 * -(-len(hues) // ncols) if hue and apart else 0)
    width = 1.8 + (size[0] + 1.8 * own_rows) * len(names)
    figure, axes = panels(len(names), (width, height), sharey=not own_rows)
    for axis, name in zip(axes, names, strict=True):
        mine = rows[name]
        for i, one in enumerate(hues):
            part = parts[name][parts[name][hue] == one] if hue else parts[name]
            if part.empty:
                continue
            part = part.drop_duplicates(row).set_index(row).reindex(mine)
            y = np.arange(len(mine)) + apart * (i - (len(hues) - 1) / 2)
            marks(axis, part, y, value, scale=scale, label=plain(one), **looks[one])
            for place, number in zip(y, part[value] * scale, strict=True) if written else ():
                axis.annotate(f"{number:.1f}", (1.03, place), xycoords=("axes fraction", "data"), va="center", size=9)
        axis.grid(axis="x", color=NOTHING)
        axis.set_axisbelow(True)
        axis.set(xlabel=plain(xlabel), xlim=xlim)
        if panel:
            axis.set_title(plain(name), fontsize=11)
        if (line := lines.get(name) if isinstance(lines, Mapping) else lines) is not None:
            axis.axvline(line, color="black", ls="--", lw=1.0, zorder=1)
        axis.set_yticks(range(len(mine)), [plain(one) for one in mine])
        axis.set_ylim(len(mine) - 0.5, -0.5)
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
    """Draw means with their 95 % intervals: a panel a measure, a line a system, the best by the first measure on top.

    Args:
        table: the table of an Experiment.
        measures: which measures, by name.
        dataset: which rows.
        baseline: a system whose mean is a dashed line in every panel; None for no line.
    """
    rows = table[(table["dataset"] == dataset) & table["measure"].isin(measures)]
    wide = rows.pivot(index="system", columns="measure", values="mean")[list(measures)]
    if baseline is not None:
        known("system of the table", baseline, wide.index)
    upwards = rows.drop_duplicates("system")["system"].iloc[::-1]
    best_first = wide.reindex(upwards).sort_values(measures[0], ascending=False, kind="stable").index
    order = pd.MultiIndex.from_product([measures, best_first], names=["measure", "system"])
    ordered = rows.set_index(["measure", "system"]).reindex(order).reset_index()
    figure = intervals(
        ordered, "system", panel="measure", xlabel="", xlim=(0, 100), written=True,
        looks={None: {**look(0), "clip_on": False}},  # a mark at 0 or 100, too
        lines=None if baseline is None else {m: wide[m][baseline] * 100 for m in measures},
    )  # fmt: skip
    scores = f"score, %, {'mean' if dataset == 'macro' else plain(dataset)} ({int(rows['n'].iloc[0])} questions)"
    figure.supxlabel(scores + ("" if baseline is None else f"; dashed: {plain(baseline)}"), fontsize=11)
    return figure


def ceilings_figure(scores: pd.DataFrame, measure: str) -> Figure:
    """Draw what each retriever reaches in each corpus, and dashed, the most that it could reach there.

    `scores` has the columns retriever, corpus, mean, low, high and ceiling, in percent.
    """
    named = scores["corpus"] + scores["ceiling"].map(" (ceiling {:.1f})".format)
    options: dict[str, Any] = {"scale": 1, "xlim": (0, 105), "xlabel": f"{measure}, %", "written": True}
    lines = dict(zip(named, scores["ceiling"], strict=True))
    return intervals(scores.assign(named=named), "retriever", panel="named", lines=lines, size=(3.0, 0.5), **options)


def difference_table(result: Experiment, measure: str) -> pd.DataFrame:
    """Return each system's difference from the baseline on each data set: dataset, system, difference, low, high, star.

    The interval is that of :func:`berdslib.stats.difference_interval`; star: the corrected p-value is below .05.
    """
    if result.baseline is None:
        raise InputError("differences need an experiment with a baseline", field="baseline")
    values = pd.DataFrame({name: table[measure].to_numpy() for name, table in result.scores.items()})
    gains = values.drop(columns=result.baseline).sub(values[result.baseline], axis=0)
    p_values = result.table[result.table["measure"] == measure].set_index(["dataset", "system"])["p_value"].to_dict()
    rows = [
        (dataset, system, gain.mean(), *difference_interval(gain.to_numpy()), bool(p_values[dataset, system] < 0.05))
        for dataset, part in gains.groupby([q.source for q in result.questions], sort=False)
        for system, gain in part.items()
    ]
    return pd.DataFrame(rows, columns=["dataset", "system", "difference", "low", "high", "star"])


def differences_figure(table: pd.DataFrame, measure: str, labels: Mapping[str, str] | None = None) -> Figure:
    """Draw each system's difference from the baseline, from :func:`difference_table`; filled marks have a star."""
    named = table.replace({"system": dict(labels or {})})
    common = {"color": PALETTE[4], "marker": "o", "ecolor": "grey", "capsize": 0}
    ends = 105 * min(0, table["low"].min()), 105 * max(0, table["high"].max())
    figure = intervals(
        named, "system", "difference", panel="dataset", hue="star", apart=0, size=(3.2, 0.3), xlabel="",
        looks={True: common, False: {**common, "mfc": "white"}}, lines=0, xlim=ends,
    )  # fmt: skip
    figure.supxlabel(f"{plain(measure)}, difference from the baseline in points (filled: p < .05)", fontsize=12)
    return figure


def fairness_against_relevance(
    table: pd.DataFrame, relevance: str, fairness: Sequence[str], *, dataset: str = "macro"
) -> Figure:
    """Draw what each system gains in relevance against how fair its lists are: one panel a measure of fairness.

    `table` is that of an Experiment. Of rKL less is better, so its axis is turned over: the upper right is always best.
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

    `tables` are system → table of :func:`berdslib.evaluation.arguments.group_shares`.
    """
    table = pd.concat([one.assign(system=system) for system, one in tables.items()])
    sizes = next(iter(tables.values()))["property"].value_counts(sort=False)
    # Two panels where one would be too long to read; a property is not torn apart.
    first = sizes.index[sizes.cumsum() - sizes / 2 < sizes.sum() / 2] if sizes.sum() > MOST_ROWS else sizes.index
    named = {True: f"{first[0]} … {first[-1]}", False: f"… {sizes.index[-1]}"}
    table = table.assign(
        group=table["property"].str.replace("_", " ") + ": " + table["group"],
        part=table["property"].isin(first).map(named).str.replace("_", " "),
    )
    options: dict[str, Any] = {"scale": 1, "lines": 1.0, "xlabel": "", "own_rows": True}
    figure = intervals(table, "group", "ratio", panel="part", hue="system", **options)
    figure.supxlabel("share of the first places / share of the corpus  (1 = neither favoured nor hidden)", fontsize=12)
    return figure


# ---------------------------------------------------------------- judges


def judged_systems_figure(table: pd.DataFrame, measure: str) -> Figure:
    """Plot each system's score by a judge against that by gold, one panel a judge; the oracle is a star.

    `table` holds the rows of one measure of :class:`berdslib.study.raters.JudgedSystems`. Whether the points rise tells
    whether a judge orders systems as gold does, wherever they lie.
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

    `table` has the columns measure (a panel each), judge, gold (the score by labels of everything) and the fields of
    :class:`berdslib.evaluation.judge_error.Corrected`.
    """
    named = [f"{row.measure} (n = {row.n}, {row.labelled} labelled)" for row in table.itertuples()]
    table = table.assign(panel=named, kind="corrected by people's labels")
    theirs = {f"judge_{name}": name for name in ("value", "low", "high")}
    alone = table.drop(columns=list(theirs.values())).rename(columns=theirs).assign(kind="the judge alone")
    looks = {"the judge alone": {"color": PALETTE[4], "marker": "s"}, table["kind"].iloc[0]: look(0)}
    both = pd.concat([alone, table])
    ends = min(0, table["low"].min() * 100 - 2), max(102, table["high"].max() * 100 + 2)
    options: dict[str, Any] = {"looks": looks, "apart": 0.32, "size": (3.9, 0.62), "xlabel": "score, %", "xlim": ends}
    figure = intervals(both, "judge", "value", panel="panel", hue="kind", **options)
    for axis, (_, part) in zip(figure.axes, table.groupby("panel", sort=False), strict=True):
        y = np.arange(len(part))
        axis.vlines(part["gold"] * 100, y - 0.36, y + 0.36, color="black", lw=2.5, label="gold: everything labelled")
    figure.legends[0].remove()
    legend(figure, ncols=3)
    return figure


def judges_figure(table: pd.DataFrame) -> Figure:
    """Draw each judge's F1 against labels with its interval, and its share of yes; dashed: yes to all, and the labels.

    `table` has the columns judge, f1, f1_low, f1_high, said_yes, recall, precision and n, one row a judge.
    """
    f1, yes = f"F1 against labels, %, n = {int(table['n'].iloc[0])} pairs", "says yes, % of pairs"
    left = table.assign(what=f1, mean=table["f1"], low=table["f1_low"], high=table["f1_high"])
    right = table.assign(what=yes, mean=table["said_yes"], low=table["said_yes"], high=table["said_yes"])
    # precision * said yes = recall * is yes, so the labels' share of yes is in the table already.
    true = table[table["recall"] > 0]
    share = float((true["precision"] * true["said_yes"] / true["recall"]).head(1).sum()) * 100
    lines = {f1: 200 * share / (100 + share), yes: share}  # of yes to all, the precision is the share, the recall 1
    options: dict[str, Any] = {"xlim": (0, 100), "written": True, "size": (3.9, 0.5), "lines": lines}
    figure = intervals(pd.concat([left, right]), "judge", panel="what", xlabel="", **options)
    for axis, line, what in zip(figure.axes, lines.values(), ("yes to all", "the labels themselves"), strict=True):
        axis.set_xlabel(f"dashed: {what}, {line:.1f} %")
    return figure


def judge_scores(table: pd.DataFrame) -> Figure:
    """Draw each judge's F1 and AUC with their intervals; dashed: saying yes to every pair.

    `table` has the columns judge, f1, f1_low, f1_high, auc, auc_low and auc_high (0 to 1), one row a judge; the one
    called "all yes" becomes the dashed lines.
    """
    parts = [
        table[["judge"]].assign(measure=m.upper(), mean=table[m], low=table[f"{m}_low"], high=table[f"{m}_high"])
        for m in ("f1", "auc")
    ]
    both = pd.concat(parts)
    floor, rows = both[both["judge"] == "all yes"], both[both["judge"] != "all yes"]
    lines = dict(zip(floor["measure"], floor["mean"] * 100, strict=True))
    options: dict[str, Any] = {"lines": lines, "apart": 0, "size": (3.6, 0.45), "xlim": (0, 100)}
    return intervals(rows, "judge", panel="measure", hue="measure", xlabel="%  (dashed: yes to all)", **options)


# ---------------------------------------------------------------- sides


def sycophancy_figure(table: pd.DataFrame) -> Figure:
    """Draw how far lists lean by what was searched with, as BeRDS Figure 3: three marks a system, with intervals.

    `table` is that of :func:`berdslib.evaluation.sides.leaning`, by system, dataset and asked.
    """
    names = {
        "supporting": "searched with the supporting perspective",
        "question": "searched with the question",
        "opposing": "searched with the opposing perspective",
    }
    styles = ({"color": PALETTE[0], "marker": "^"}, {"color": "black"}, {"color": PALETTE[1], "marker": "v"})
    looks = {name: {"marker": "o", "ms": 6, **style} for name, style in zip(names.values(), styles, strict=True)}
    several = table["dataset"].nunique() > 1
    return intervals(
        table.assign(asked=table["asked"].map(names)), "system", "leaning", hue="asked", looks=looks, apart=0.22,
        panel="dataset" if several else None, ncols=3 if several else 1, scale=1, size=(2.6, 0.5), lines=0,
        xlabel="leaning, (p − n) / (p + n)",
    )  # fmt: skip


def correlations_figure(table: pd.DataFrame, targets: Sequence[str], systems: Sequence[str], title: str) -> Figure:
    """Draw correlations (system, target, r, low, high): a row a system, a mark for each of two or three targets."""
    looks = {
        f"with the {target}": {"color": PALETTE[(0, 4, 2)[i]], "marker": MARKERS[i]} for i, target in enumerate(targets)
    }
    shown = table[table["target"].isin(targets)].set_index("system").loc[list(systems)].reset_index()
    return intervals(
        shown.assign(target="with the " + shown["target"]), "system", "r", hue="target", looks=looks, scale=1, lines=0,
        size=(6.6, 0.62), xlim=(-1.02, 1.02), xlabel=f"correlation r of the essays' polarity ({title})",
    )  # fmt: skip
