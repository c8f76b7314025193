"""Queries with a perspective: projection, its strength, and who comes up unasked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.errors import InputError
from berdslib.stats import difference_interval
from berdslib.study.figures.style import MARKERS, NOTHING, PALETTE, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from berdslib.study.experiment import Experiment


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
        slope.text(1.07, ranks[1][i], plain(name), va="center", fontsize=11)
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
            :func:`berdslib.evaluation.sides.root_versus_full`.
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
        axis.set(title=plain(task), xlim=(0, 122), xticks=[0, 50, 100], xlabel=f"found in the first {k}, %")
        axis.set_yticks(y, [plain(name) for name in part.index])
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
        axis.set_title(plain(dataset), fontsize=12)
    axes[0, 0].set_yticks(y, [plain((labels or {}).get(system, system)) for system in systems])
    axes[0, 0].invert_yaxis()
    figure.supxlabel(f"{plain(measure)}, difference from the baseline in points (filled: p < .05)", fontsize=12)
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
        axis.plot(curves.index, curves[name], color=PALETTE[i % len(PALETTE)], label=plain(name), lw=2, **look)
    axis.axvline(0, color="grey", lw=1, ls=":")
    axis.set(ylim=(0, 104), ylabel=f"{plain(measure)}, %")
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
        axis.set_yticks(np.arange(len(ordered)), [plain(name) for name in ordered.index], fontsize=9)
        axis.axvline(expected, color="black", lw=1.2, ls="--")
        axis.set_title(plain(system), fontsize=12)
        axis.set_xlabel(plain(xlabel), fontsize=11)
        axis.margins(y=0.01)
    return figure


def group_confusion(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw which groups fill the lists when another is asked for, one panel a system; PIR figure 6.

    Args:
        tables: system → of :func:`berdslib.evaluation.sides.group_heatmap`.
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
        axis.set_xticks(range(columns), [plain(name) for name in table.columns], rotation=90, fontsize=7)
        axis.set_yticks(range(rows), [plain(name) for name in table.index], fontsize=7)
        axis.set_title(plain(system), fontsize=11)
        axis.set_xlabel(plain(table.columns.name))
    axes[0, 0].set_ylabel(plain(table.index.name))
    figure.colorbar(image, ax=axes[0].tolist(), label="share of the places, %", shrink=0.8)
    return figure
