"""Tables of scores: means with intervals and tests, as the papers print them, and as files."""

from __future__ import annotations

import hashlib
import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from berdslib.data.collection import Collection
from berdslib.data.records import Question, issue_of
from berdslib.data.scenario import Scenario
from berdslib.errors import InputError, printable
from berdslib.files import write_text
from berdslib.stats import holm, macro_mean, mean_interval, paired_test

MACRO = "macro"  # the mean of the data sets' means
NO_INTERVAL = "–"
WHY_NO_INTERVAL = f"{NO_INTERVAL}: no interval, since the questions are too few or all on one issue"


def counted(question: Question, collection: Collection) -> Question:
    """Return a question as a table counts it: with a data set, and in a scenario with the issue it asks about."""
    source = question.source or collection.name
    return question._replace(source=source, root=issue_of(question) if isinstance(collection, Scenario) else "")


def splits(questions: Sequence[Question]) -> str:
    """Say of which split questions are, and of several how many of each; "" where no question says.

    >>> splits([Question("a", "?", split="dev"), Question("b", "?", split="test"), Question("c", "?", split="test")])
    'all (dev 1, test 2)'
    """
    counts = Counter(q.split for q in questions)
    if not any(counts):
        return ""
    each = ", ".join(f"{split or 'none'} {n}" for split, n in sorted(counts.items()))
    return next(iter(counts)) if len(counts) == 1 else f"all ({each})"


def score_table(
    scores: Mapping[str, pd.DataFrame], questions: Sequence[Question], *, baseline: str | None = None, seed: int = 0
) -> pd.DataFrame:
    """Return means, intervals and tests of per-question scores; see :class:`Experiment` for the columns.

    Questions made of the same one (a scenario's queries on an issue) are drawn together.
    """
    sources = np.array([q.source or "questions" for q in questions])
    if MACRO in sources:
        problem = f"{MACRO!r} stands for the mean over all data sets; give this one another name"
        raise InputError(problem, field="source")
    about, rows = np.array([q.root or q.qid for q in questions]), []
    for dataset in (*dict.fromkeys(sources.tolist()), MACRO):
        mask = np.ones(len(sources), dtype=bool) if dataset == MACRO else sources == dataset
        inner, together = sources[mask].tolist(), about[mask].tolist()
        clusters = together if len(set(together)) < len(together) else None
        for measure in next(iter(scores.values())).columns:
            columns = {system: frame[measure].to_numpy()[mask] for system, frame in scores.items()}
            means = {system: macro_mean(values, inner) for system, values in columns.items()}
            base, p_values = np.nan, dict[str, float]()
            if baseline:
                base, others = means[baseline], [s for s in scores if s != baseline]
                pairs = ((columns[s], columns[baseline]) for s in others)
                raw = [paired_test(*pair, inner, clusters=clusters, seed=seed) for pair in pairs]
                p_values = dict(zip(others, holm(raw), strict=True))
            for system, mean in means.items():
                low, high = mean_interval(columns[system], inner, clusters=clusters)
                row = (system, dataset, measure, len(inner), mean, low, high)
                rows.append((*row, mean - base, p_values.get(system, np.nan)))
    names = ["system", "dataset", "measure", "n", "mean", "low", "high", "difference", "p_value"]
    return pd.DataFrame(rows, columns=names)


def paper_table(
    table: pd.DataFrame, *, intervals: bool = False, letters: Mapping[str, pd.Series] | None = None
) -> pd.DataFrame:
    """Reshape an experiment's table as BeRDS Tables 3 and 16: a row per system, columns data set x measure, in percent.

    With `intervals`, "63.2 [55.1, 70.9]", and a star where a difference has p < .05; `letters` stand behind those of
    the macro means.
    """
    shown = table.assign(cell=(table["mean"] * 100).round(1))
    if intervals:
        mean, low, high = ((table[column] * 100).map("{:.1f}".format) for column in ("mean", "low", "high"))
        stars = table["p_value"].lt(0.05).map({True: "*", False: ""})
        ends = (" [" + low + ", " + high + "]").where(table["low"].notna(), f" {NO_INTERVAL}")
        shown["cell"] = mean + stars + ends
        for measure, of_system in (letters or {}).items():
            here = (shown["dataset"] == MACRO) & (shown["measure"] == measure)
            shown.loc[here, "cell"] += " " + shown.loc[here, "system"].map(of_system)
    wide = shown.pivot(index="system", columns=["dataset", "measure"], values="cell")
    columns = shown[["dataset", "measure"]].drop_duplicates()
    return wide.reindex(index=shown["system"].unique(), columns=pd.MultiIndex.from_frame(columns, names=[None, None]))


class Shown:
    """Shows itself as its titled tables and a caption, as text and as HTML."""

    @property
    def caption(self) -> str:
        """How the tables are to be read."""
        raise NotImplementedError

    def titled(self) -> list[tuple[str, pd.DataFrame]]:
        """Return title → table, "" where a table needs none."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Show the tables as text."""
        parts = ["\n".join(filter(None, (title, table.to_string()))) for title, table in self.titled()]
        return printable("\n\n".join(parts) + f"\n{self.caption}")

    def _repr_html_(self) -> str:
        parts = [
            (f"<p>{html.escape(title)}</p>" if title else "") + table.to_html(escape=True)
            for title, table in self.titled()
        ]
        return f"{''.join(parts)}<p>{html.escape(self.caption)}</p>"


_SPELT = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX = str.maketrans({c: f"\\{c}" for c in "%&_$#{}"} | _SPELT)


def escape(text: str) -> str:
    r"""Return a text as LaTeX prints it; pandas escapes cells and headings, and no captions.

    >>> print(escape("50 % of a_b"))
    50 \% of a\_b
    """
    return " ".join(text.split()).translate(_TEX)  # a blank line would end the argument of \caption


# ---------------------------------------------------------------- files


def file_stems(names: Iterable[str]) -> dict[str, str]:
    """Return system name → file stem of letters, digits and ``_.+=-``; a hash tells apart what would be alike.

    >>> file_stems(["bm25", "minilm+mmr:0.9"])
    {'bm25': 'bm25', 'minilm+mmr:0.9': 'minilm+mmr-0.9'}
    """
    plain = {name: re.sub(r"[^A-Za-z0-9_.+=-]", "-", name).lstrip(".-")[:100] or "system" for name in names}
    users = Counter(stem.casefold() for stem in plain.values())
    apart = {name: f"{stem}-{hashlib.sha256(name.encode()).hexdigest()[:8]}" for name, stem in plain.items()}
    return {name: stem if users[stem.casefold()] == 1 else apart[name] for name, stem in plain.items()}


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table without its index, whole or not at all."""
    with write_text(path) as file:
        table.to_csv(file, index=False, lineterminator="\n")
