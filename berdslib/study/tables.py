"""Tables of scores: means with intervals and tests, as the papers print them, and as files."""

from __future__ import annotations

import hashlib
import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data.records import Question
from berdslib.errors import InputError, printable
from berdslib.files import write_text
from berdslib.stats import holm, macro_mean, mean_interval, paired_test

MACRO = "macro"  # the mean of the data sets' means
NO_INTERVAL = "–"
WHY_NO_INTERVAL = f"{NO_INTERVAL}: no interval, since the questions are too few or all on one issue"


def splits(questions: Sequence[Question]) -> str:
    """Name the split of questions; for several splits, count the questions of each; "" if no question has a split.

    >>> splits([Question("a", "?", split="dev"), Question("b", "?", split="test"), Question("c", "?", split="test")])
    'all (dev 1, test 2)'
    """
    counts = Counter(q.split for q in questions)
    if not any(counts):
        return ""
    if len(counts) == 1:
        return next(iter(counts))
    each = ", ".join(f"{split or 'none'} {n}" for split, n in sorted(counts.items()))
    return f"all ({each})"


def score_table(
    scores: Mapping[str, pd.DataFrame], questions: Sequence[Question], *, baseline: str | None = None, seed: int = 0
) -> pd.DataFrame:
    """Return means, intervals and tests of per-question scores; see :class:`Experiment` for the columns.

    Questions with the same issue (a scenario's queries) are resampled together.
    """
    sources = np.array([q.source or "questions" for q in questions])
    if MACRO in sources:
        problem = f"{MACRO!r} stands for the mean over all data sets; rename this data set"
        raise InputError(problem, field="source")
    issues = np.array([q.issue or q.qid for q in questions])
    rows = []
    for dataset in (*dict.fromkeys(sources.tolist()), MACRO):
        mask = np.ones(len(sources), dtype=bool) if dataset == MACRO else sources == dataset
        for measure in next(iter(scores.values())).columns:
            columns = {system: frame[measure].to_numpy()[mask] for system, frame in scores.items()}
            for row in _score_rows(columns, sources[mask].tolist(), issues[mask].tolist(), baseline, seed):
                rows.append((row[0], dataset, measure, *row[1:]))
    names = ["system", "dataset", "measure", "n", "mean", "low", "high", "difference", "p_value"]
    return pd.DataFrame(rows, columns=names)


def _score_rows(
    columns: Mapping[str, np.ndarray], sources: list[str], issues: list[str], baseline: str | None, seed: int
) -> Sequence[tuple[object, ...]]:
    """Return system, n, mean, low, high, difference and p-value for each system's scores (questions,)."""
    clusters = issues if len(set(issues)) < len(issues) else None
    means = {system: macro_mean(values, sources) for system, values in columns.items()}
    base = np.nan
    p_values = dict[str, float]()
    if baseline:
        base = means[baseline]
        others = [system for system in columns if system != baseline]
        of_baseline = columns[baseline]
        raw = [paired_test(columns[system], of_baseline, sources, clusters=clusters, seed=seed) for system in others]
        p_values = dict(zip(others, holm(raw), strict=True))
    rows = []
    for system, mean in means.items():
        low, high = mean_interval(columns[system], sources, clusters=clusters)
        rows.append((system, len(sources), mean, low, high, mean - base, p_values.get(system, np.nan)))
    return rows


def paper_table(
    table: pd.DataFrame, *, intervals: bool = False, letters: Mapping[str, pd.Series] | None = None
) -> pd.DataFrame:
    """Reshape an experiment's table as BeRDS Tables 3 and 16: a row per system, columns data set x measure, in percent.

    With `intervals`, a cell reads "63.2 [55.1, 70.9]", with a star if the difference has p < .05. `letters` are
    appended to the macro means.
    """
    shown = table.assign(cell=(table["mean"] * 100).round(1))
    if intervals:
        shown["cell"] = _with_intervals(table)
        for measure, letters_of in (letters or {}).items():
            is_macro = (shown["dataset"] == MACRO) & (shown["measure"] == measure)
            shown.loc[is_macro, "cell"] += " " + shown.loc[is_macro, "system"].map(letters_of)
    wide = shown.pivot(index="system", columns=["dataset", "measure"], values="cell")
    order = shown[["dataset", "measure"]].drop_duplicates()
    columns = pd.MultiIndex.from_frame(order, names=[None, None])
    return wide.reindex(index=shown["system"].unique(), columns=columns)


def _with_intervals(table: pd.DataFrame) -> pd.Series:
    """Return the means in percent as text, with stars and intervals."""
    percent = (table[["mean", "low", "high"]] * 100).map("{:.1f}".format)
    stars = table["p_value"].lt(0.05).map({True: "*", False: ""})
    interval = " [" + percent["low"] + ", " + percent["high"] + "]"
    return percent["mean"] + stars + interval.where(table["low"].notna(), f" {NO_INTERVAL}")


class Shown:
    """Base of results that print as titled tables with a caption, as text and as HTML."""

    @property
    def caption(self) -> str:
        """An explanation of the tables."""
        raise NotImplementedError

    def titled(self) -> list[tuple[str, pd.DataFrame]]:
        """Return (title, table) pairs; the title is "" if the table needs no title."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Show the tables as text."""
        parts = []
        for title, table in self.titled():
            text = table.to_string()
            parts.append(f"{title}\n{text}" if title else text)
        return printable("\n\n".join(parts) + f"\n{self.caption}")

    def _repr_html_(self) -> str:
        parts = []
        for title, table in self.titled():
            if title:
                parts.append(f"<p>{html.escape(title)}</p>")
            parts.append(table.to_html(escape=True))
        return f"{''.join(parts)}<p>{html.escape(self.caption)}</p>"


_SPELT = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}",
}  # fmt: skip
# Characters that pdfLaTeX cannot print as they are.
_MATHS = {
    "≥": "geq", "≤": "leq", "≠": "neq", "≈": "approx", "→": "to", "←": "gets", "×": "times", "±": "pm", "−": "-",
    "α": "alpha", "β": "beta", "κ": "kappa", "λ": "lambda", "τ": "tau", "ρ": "rho", "Δ": "Delta",
}  # fmt: skip
_AS_MATHS = {c: f"${name}$" if name == "-" else f"$\\{name}$" for c, name in _MATHS.items()}
_TEX = str.maketrans({c: f"\\{c}" for c in "%&_$#{}"} | _SPELT | _AS_MATHS)


def escape(text: str) -> str:
    r"""Escape a text for LaTeX; pandas escapes cells and headings, but not captions.

    >>> print(escape("50 % of a_b"))
    50 \% of a\_b
    """
    return " ".join(text.split()).translate(_TEX)  # a blank line would end the argument of \caption


def as_latex(cells: pd.DataFrame, caption: str, **options: Any) -> str:
    """Return a table whose cells and headings are escaped as LaTeX, with a caption; options are those of pandas."""
    table = cells.to_latex(escape=False, caption=escape(caption), **options)
    return f"% needs \\usepackage{{booktabs}}\n{table}"


# ---------------------------------------------------------------- files


def file_stems(names: Iterable[str]) -> dict[str, str]:
    """Return system name → file stem of letters, digits and ``_.+=-``; a hash is added where two stems would be equal.

    >>> file_stems(["bm25", "minilm+mmr:0.9"])
    {'bm25': 'bm25', 'minilm+mmr:0.9': 'minilm+mmr-0.9'}
    """
    stems = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_.+=-]", "-", name).lstrip(".-")
        stems[name] = plain[:100] or "system"
    users = Counter(stem.casefold() for stem in stems.values())
    for name, stem in stems.items():
        if users[stem.casefold()] > 1:
            stems[name] = f"{stem}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return stems


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table without its index, atomically."""
    with write_text(path) as file:
        table.to_csv(file, index=False, lineterminator="\n")
