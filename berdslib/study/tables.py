"""Tables of scores: means with intervals and tests, as the papers print them, and as files."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ir_measures.measures import Measure

from berdslib.data.collection import Collection
from berdslib.data.records import Question, issue_of
from berdslib.data.scenario import Scenario
from berdslib.errors import InputError, known
from berdslib.evaluation.arguments import RELEVANCE_MEASURES
from berdslib.evaluation.measures import official_rKL, rKL
from berdslib.files import StrPath, write_text
from berdslib.stats import holm, macro_mean, mean_interval, paired_test
from berdslib.version import __version__

MACRO = "macro"
RELEVANCE, DIVERSITY = "relevance", "diversity"
_SMALLER_IS_BETTER = (rKL.NAME, official_rKL.NAME)


def counted(question: Question, collection: Collection) -> Question:
    """Return a question as a table counts it: with a data set, and in a scenario with the issue it asks about."""
    source = question.source or collection.name
    return question._replace(source=source, root=issue_of(question) if isinstance(collection, Scenario) else "")


def score_table(
    scores: Mapping[str, pd.DataFrame], questions: Sequence[Question], *, baseline: str | None = None, seed: int = 0
) -> pd.DataFrame:
    """Return means, intervals and tests of per-question scores; see :class:`Experiment` for the columns.

    Args:
        scores: system → frame (qid x measure), the rows in the order of `questions`.
        questions: the asked questions. Those made of the same one (a scenario's queries on an issue) are drawn together
            in intervals and tests: they are not independent.
        baseline: name of the system that the others are tested against.
        seed: of the test.

    Raises:
        InputError: a data set with the name that the mean over all data sets has.
    """
    sources = np.array([q.source or "questions" for q in questions])
    if MACRO in sources:
        problem = f"{MACRO!r} stands for the mean over all data sets; give this one another name"
        raise InputError(problem, field="source")
    groups: list[tuple[str, np.ndarray]] = [(s, sources == s) for s in dict.fromkeys(sources)]
    groups.append((MACRO, np.ones(len(sources), dtype=bool)))
    others = [s for s in scores if s != baseline]
    about = np.array([q.root or q.qid for q in questions])
    rows = []
    for dataset, mask in groups:
        inner = list(sources[mask])
        related = len(set(about[mask])) < len(inner)
        clusters = list(about[mask]) if related else None
        for measure in next(iter(scores.values())).columns:
            columns = {system: frame[measure].to_numpy()[mask] for system, frame in scores.items()}
            tests: dict[str, Any] = {"clusters": clusters, "seed": seed}
            raw = [paired_test(columns[s], columns[baseline], inner, **tests) for s in others] if baseline else []
            p_values = dict(zip(others, holm(raw), strict=True)) if baseline else {}
            for system, values in columns.items():
                low, high = mean_interval(values, inner, clusters=clusters)
                mean = macro_mean(values, inner)
                difference = mean - macro_mean(columns[baseline], inner) if baseline else np.nan
                p = p_values.get(system, np.nan)
                rows.append((system, dataset, measure, len(values), mean, low, high, difference, p))
    names = ["system", "dataset", "measure", "n", "mean", "low", "high", "difference", "p_value"]
    return pd.DataFrame(rows, columns=names)


def paper_table(
    table: pd.DataFrame,
    *,
    percent: bool = True,
    intervals: bool = False,
    letters: Mapping[str, pd.Series] | None = None,
) -> pd.DataFrame:
    """Reshape an experiment's table as BeRDS Tables 3 and 16: a row per system, columns data set x measure.

    Args:
        table: the table of an :class:`Experiment`.
        percent: multiply by 100, as the paper does.
        intervals: add the interval, "63.2 [55.1, 70.9]"; a difference from the baseline with p < .05 gets a star.
        letters: measure → letters of the systems (:func:`berdslib.evaluation.compare.letters`), shown behind the
            intervals of the macro means.
    """
    scale, digits = (100.0, 1) if percent else (1.0, 3)
    shown = table.copy()
    shown["cell"] = (shown["mean"] * scale).round(digits)
    if intervals:
        stars = np.where(shown["p_value"] < 0.05, "*", "")
        shown["cell"] = [
            f"{m * scale:.{digits}f}{star} [{low * scale:.{digits}f}, {high * scale:.{digits}f}]"
            for m, low, high, star in zip(shown["mean"], shown["low"], shown["high"], stars, strict=True)
        ]
        for measure, of_system in (letters or {}).items():
            here = (shown["dataset"] == MACRO) & (shown["measure"] == measure)
            shown.loc[here, "cell"] += " " + shown.loc[here, "system"].map(of_system)
    wide = shown.pivot(index="system", columns=["dataset", "measure"], values="cell")
    columns = list(dict.fromkeys(zip(shown["dataset"], shown["measure"], strict=True)))
    return wide.reindex(index=list(dict.fromkeys(shown["system"])), columns=pd.MultiIndex.from_tuples(columns))


_TEX = str.maketrans(
    {c: f"\\{c}" for c in "%&_$#{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def escape(text: str) -> str:
    r"""Return a text as LaTeX prints it; pandas escapes cells and headings, and no captions.

    >>> print(escape("50 % of a_b"))
    50 \% of a\_b
    """
    return " ".join(text.split()).translate(_TEX)  # a blank line would end the argument of \caption


# ---------------------------------------------------------------- files


def file_stems(names: Iterable[str]) -> dict[str, str]:
    """Return for each name of a system one for its file, without an ending; a run's tag can be the same.

    Letters, digits and ``_.+=-`` stay, everything else becomes "-". Names that would share a file, also where capitals
    are not told apart, get a few digits of their hash.

    >>> file_stems(["bm25", "minilm+mmr:0.9"])
    {'bm25': 'bm25', 'minilm+mmr:0.9': 'minilm+mmr-0.9'}
    """
    plain = {name: re.sub(r"[^A-Za-z0-9_.+=-]", "-", name).lstrip(".-")[:100] or "system" for name in names}
    users = Counter(stem.casefold() for stem in plain.values())
    return {
        name: stem if users[stem.casefold()] == 1 else f"{stem}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        for name, stem in plain.items()
    }


# ---------------------------------------------------------------- PerspectiveArg


def track(measure: Measure | str) -> str:
    """Return which of the task's two evaluations a measure belongs to, "relevance" or "diversity".

    >>> track("official_P@4"), track("alpha_nDCG@20")
    ('relevance', 'diversity')
    """
    return RELEVANCE if _name(measure) in RELEVANCE_MEASURES else DIVERSITY


def at_cutoffs(scores: Mapping[str, pd.DataFrame], scenario: Scenario) -> pd.DataFrame:
    """Return the means over all queries: system, k, the measures without their cut-off, synthetic (are the data?)."""
    _check(scores, scenario)
    rows: dict[tuple[str, int], dict[str, float]] = {}
    for system, frame in scores.items():
        for name in frame.columns:
            measure, at, k = str(name).rpartition("@")
            if not at:
                raise InputError(f"{name} needs a cut-off, such as {name}@20", field="measures")
            rows.setdefault((system, int(k)), {})[measure.strip()] = float(frame[name].mean())
    order = list(scores)
    ordered = sorted(rows.items(), key=lambda row: (order.index(row[0][0]), row[0][1]))
    means = [{"system": system, "k": k, **of} for (system, k), of in ordered]
    return pd.DataFrame(means).assign(synthetic=scenario.release.synthetic)


def leaderboard(
    scores: Mapping[str, pd.DataFrame], scenario: Scenario, by: Measure | str = "nDCG@20", *, seed: int = 0
) -> pd.DataFrame:
    """Rank systems by the mean of a measure, each tested against the best; of rKL less is better.

    Returns:
        Frame place (equal means share one), system, measure, mean, low and high, difference from the best and p_value
        (both NaN for the best), n queries, issues, synthetic. Intervals and tests draw whole issues.
    """
    _check(scores, scenario)
    name, questions = str(by), [counted(q, scenario) for q in scenario.questions]
    sign = -1 if _name(name) in _SMALLER_IS_BETTER else 1
    means = {s: sign * frame[known("measure", name, map(str, frame.columns))].mean() for s, frame in scores.items()}
    ordered = sorted(means, key=lambda system: (-means[system], system))
    table = score_table({s: scores[s][[name]] for s in ordered}, questions, baseline=ordered[0], seed=seed)
    table = table[table["dataset"] == MACRO].drop(columns="dataset").reset_index(drop=True)
    table["difference"] = table["difference"].where(table["system"] != ordered[0])
    place = [1 + sum(other > means[system] for other in means.values()) for system in ordered]
    about = {"issues": len({q.root for q in questions}), "synthetic": scenario.release.synthetic}
    columns = ["place", "system", "measure", "mean", "low", "high", "difference", "p_value", "n"]
    return table.assign(place=place)[columns].assign(**about)


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return a leaderboard as it is printed: mean and interval in one column, named after the measure."""
    spans = [f"{row.mean:.3f} [{row.low:.3f}, {row.high:.3f}]" for row in table.itertuples(name="Row")]
    best = table["p_value"].isna()
    short = pd.DataFrame({"place": table["place"], "system": table["system"], table["measure"].iloc[0]: spans})
    short["difference"] = np.where(best, "", table["difference"].map("{:+.3f}".format))
    short["p (Holm)"] = np.where(best, "", table["p_value"].map("{:.4f}".format))
    return short


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table for a JSON file, which knows no NaN: what was not computed is null."""
    found: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return found


def settings(scenario: Scenario, definitions: str | None = None) -> dict[str, Any]:
    """Return what figures of a scenario depend on, as it is written beside them."""
    return {
        "release": scenario.release.name,
        "synthetic": scenario.release.synthetic,
        "scenario": scenario.rule,
        "split": scenario.split,
        "ranked_for": scenario.ranked_for,
        "n": len(scenario.questions),
        **({} if definitions is None else {"definitions": definitions}),
        "berdslib": __version__,
    }


def write_results(
    folder: StrPath, scores: Mapping[str, pd.DataFrame], scenario: Scenario, definitions: str
) -> list[Path]:
    """Write relevance.csv, diversity.csv (each only where one of its measures is there) and results.json with both.

    Files of these names in the folder are replaced, or removed. `definitions` says whose measures these are.
    """
    folder, written = Path(folder), []
    found: dict[str, Any] = {"settings": settings(scenario, definitions)}
    for name in (RELEVANCE, DIVERSITY):
        own = {s: frame[[m for m in frame.columns if track(str(m)) == name]] for s, frame in scores.items()}
        path = folder / f"{name}.csv"
        if all(frame.columns.empty for frame in own.values()):
            path.unlink(missing_ok=True)  # another run's would look like this one's
            continue
        table = at_cutoffs(own, scenario)
        found[name] = records(table)
        with write_text(path) as file:
            table.to_csv(file, index=False, lineterminator="\n")
        written.append(path)
    with write_text(folder / "results.json") as file:
        json.dump(found, file, indent=1, ensure_ascii=False)
        file.write("\n")
    return [*written, folder / "results.json"]


def _name(measure: Measure | str) -> str:
    """Return what a measure is called without its parameters and its cut-off."""
    return str(measure).partition("@")[0].partition("(")[0].strip()


def _check(scores: Mapping[str, pd.DataFrame], scenario: Scenario) -> None:
    if not scores:
        raise InputError("at least one system's scores are needed", field="scores")
    qids = [q.qid for q in scenario.questions]
    for system, frame in scores.items():
        if frame.index.tolist() != qids:
            problem = f"those of {system!r} are not of the queries of {scenario.name!r} ({scenario.split}), in order"
            raise InputError(problem, field="scores")
