"""Systems x questions x measures → one table with intervals and tests."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.corpus import by_docno
from berdslib.data.records import Passage, Question, check_verdicts, ranked_run
from berdslib.data.trec import write_trec_run, write_verdicts
from berdslib.errors import InputError, known
from berdslib.evaluation.measures import Measure, evaluate, parse_measure
from berdslib.files import StrPath, write_text
from berdslib.judging.base import Judge
from berdslib.judging.baselines import Gold
from berdslib.judging.store import VerdictStore, judge_run
from berdslib.retrieval.base import Retriever, run_of
from berdslib.stats import bootstrap_interval, holm, macro_mean, paired_test

MACRO = "macro"


class Experiment(NamedTuple):
    """What an experiment found.

    ``table``: one row per (system, dataset, measure) with n, mean, low, high and, against the baseline, difference and
    p_value (Holm-corrected over the systems); the dataset "macro" is the mean of the data sets' means.
    ``scores``: system → frame (qid x measure). ``runs``: system → run. ``verdicts``: what all systems were scored with.
    """

    table: pd.DataFrame
    scores: dict[str, pd.DataFrame]
    runs: dict[str, pd.DataFrame]
    verdicts: pd.DataFrame


def experiment(
    systems: Mapping[str, Retriever | pd.DataFrame],
    questions: Sequence[Question],
    measures: Measure | str | Iterable[Measure | str],
    *,
    verdicts: pd.DataFrame | None = None,
    judge: Judge | None = None,
    passages: Sequence[Passage] = (),
    store: VerdictStore | None = None,
    baseline: str | None = None,
    seed: int = 0,
) -> Experiment:
    """Run and score several systems on the same questions.

    With a judge, everything that any system lists is judged first, and all systems are scored against that one pool:
    measures with an ideal list (nDCG, alpha-nDCG, ERR-IA, StRecall) would otherwise flatter a system whose own list is
    all that is known. They remain relative to the pool; MRecall, Precision and Coverage do not depend on it. What
    several systems list is judged once, with a store or without.

    Args:
        systems: name → a retriever, or a finished run; what either holds is checked, and ranked anew by its scores.
        questions: the asked questions; their `source` groups them into data sets.
        measures: such as ``MRecall @ 5`` or "MRecall@5", one or several; the largest cut-off says how deep to retrieve
            and judge.
        verdicts: gold verdicts; or give a judge:
        judge: judges what the systems list, against the questions' perspectives.
        passages: the corpus, needed with a judge.
        store: where the judge's verdicts are kept.
        baseline: name of the system that the others are tested against.
        seed: of bootstrap and test.

    Raises:
        InputError: no systems or a list of them, a data set called "macro", an unknown baseline, neither or both of
            verdicts and judge, a measure without cut-off, verdicts that are none, or a system that returns no run; the
            message names the system.
    """
    named = [measures] if isinstance(measures, str | Measure) else measures
    wanted = list(dict.fromkeys(parse_measure(m) if isinstance(m, str) else m for m in named))
    _check(systems, wanted, verdicts, judge, baseline)
    depth = max(m["cutoff"] for m in wanted)
    runs = {
        name: run_of(name, system if isinstance(system, pd.DataFrame) else system.search(questions, depth))
        for name, system in systems.items()
    }
    if isinstance(judge, Gold):
        verdicts = judge.verdicts
    elif judge is not None:
        pool = _pool(runs.values(), depth)
        verdicts = judge_run(pool, questions, by_docno(passages), judge, k=max(1, len(pool)), store=store)
    assert verdicts is not None  # _check saw to it
    verdicts = check_verdicts(verdicts)
    scores = {name: evaluate(run, verdicts, questions, wanted) for name, run in runs.items()}
    table = score_table(scores, questions, baseline=baseline, seed=seed)
    return Experiment(table, scores, runs, verdicts)


def _pool(runs: Iterable[pd.DataFrame], k: int) -> pd.DataFrame:
    """Return the top k of several runs as one run, each passage of a question once."""
    tops = pd.concat([run[run["rank"] <= k] for run in runs]).drop_duplicates(["qid", "docno"])
    return ranked_run({str(qid): part["docno"].tolist() for qid, part in tops.groupby("qid", sort=False)})


def write_experiment(folder: StrPath, result: Experiment) -> None:
    """Write an experiment: a TREC run for each system, verdicts.tsv and scores.csv.

    Args:
        folder: made if it is not there; files of these names in it are replaced.
        result: what :func:`experiment` returned.

    Raises:
        InputError: an id that a TREC file cannot carry, see :func:`berdslib.data.trec.check_trec_ids`, or nothing can
            be written there.
    """
    folder, stems = Path(folder), file_stems(result.runs)
    for name, run in result.runs.items():
        write_trec_run(folder / f"{stems[name]}.trec", run, tag=stems[name])
    write_verdicts(folder / "verdicts.tsv", result.verdicts)
    with write_text(folder / "scores.csv") as file:
        result.table.to_csv(file, index=False, lineterminator="\n")


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


def score_table(
    scores: Mapping[str, pd.DataFrame], questions: Sequence[Question], *, baseline: str | None = None, seed: int = 0
) -> pd.DataFrame:
    """Return means, intervals and tests of per-question scores; see :class:`Experiment` for the columns.

    Args:
        scores: system → frame (qid x measure), the rows in the order of `questions`.
        questions: the asked questions.
        baseline: name of the system that the others are tested against.
        seed: of bootstrap and test.

    Raises:
        InputError: a data set with the name that the mean over all data sets has.
    """
    sources = np.array([q.source or "questions" for q in questions])
    if MACRO in sources:
        raise InputError(
            f"{MACRO!r} stands for the mean over all data sets; give this one another name", field="source"
        )
    groups: list[tuple[str, np.ndarray]] = [(s, sources == s) for s in dict.fromkeys(sources)]
    groups.append((MACRO, np.ones(len(sources), dtype=bool)))
    others = [s for s in scores if s != baseline]
    rows = []
    for dataset, mask in groups:
        inner = list(sources[mask])
        for measure in next(iter(scores.values())).columns:
            columns = {system: frame[measure].to_numpy()[mask] for system, frame in scores.items()}
            raw = [paired_test(columns[s], columns[baseline], inner, seed=seed) for s in others] if baseline else []
            p_values = dict(zip(others, holm(raw), strict=True)) if baseline else {}
            for system, values in columns.items():
                low, high = bootstrap_interval(values, inner, seed=seed)
                mean = macro_mean(values, inner)
                difference = mean - macro_mean(columns[baseline], inner) if baseline else np.nan
                p = p_values.get(system, np.nan)
                rows.append((system, dataset, measure, len(values), mean, low, high, difference, p))
    names = ["system", "dataset", "measure", "n", "mean", "low", "high", "difference", "p_value"]
    return pd.DataFrame(rows, columns=names)


def paper_table(table: pd.DataFrame, *, percent: bool = True, intervals: bool = False) -> pd.DataFrame:
    """Reshape an experiment's table as BeRDS Tables 3 and 16: a row per system, columns data set x measure.

    Args:
        table: the table of an :class:`Experiment`.
        percent: multiply by 100, as the paper does.
        intervals: add the interval, "63.2 [55.1, 70.9]"; a difference from the baseline with p < .05 gets a star.
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
    wide = shown.pivot(index="system", columns=["dataset", "measure"], values="cell")
    columns = list(dict.fromkeys(zip(shown["dataset"], shown["measure"], strict=True)))
    return wide.reindex(index=list(dict.fromkeys(shown["system"])), columns=pd.MultiIndex.from_tuples(columns))


def _check(
    systems: Mapping[str, Retriever | pd.DataFrame],
    measures: Sequence[Measure],
    verdicts: pd.DataFrame | None,
    judge: Judge | None,
    baseline: str | None,
) -> None:
    if not isinstance(systems, Mapping):
        raise InputError(f"systems must be a mapping, name → retriever or run, not a {type(systems).__name__}")
    if not systems or not measures:
        raise InputError("an experiment needs at least one system and one measure")
    if (verdicts is None) == (judge is None):
        raise InputError("give either verdicts or a judge")
    for m in measures:
        if "cutoff" not in m.params:
            raise InputError(f"{m} needs a cut-off, such as {m}@5")
    if baseline is not None:
        known("baseline", baseline, systems)
