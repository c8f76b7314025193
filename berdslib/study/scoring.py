"""The one way from systems to scores: build, search, pool, judge once, score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from berdslib.data.collection import Collection, Expansions
from berdslib.data.corpus import by_docno
from berdslib.data.records import Passage, Question, check_k, list_ids, make_verdicts, ranked_run
from berdslib.data.scenario import Scenario
from berdslib.errors import InputError
from berdslib.evaluation.arguments import evaluate_arguments
from berdslib.evaluation.measures import Measure, evaluate
from berdslib.files import StrPath
from berdslib.judging.aspects import judged_aspects
from berdslib.judging.base import Judge
from berdslib.judging.baselines import Gold
from berdslib.judging.store import VerdictStore, judge_run
from berdslib.retrieval.base import Retriever, checked_search, run_of
from berdslib.retrieval.diversify import AspectsOf
from berdslib.retrieval.rerank import Scorer
from berdslib.retrieval.systems import Workshop

System = str | Retriever | pd.DataFrame
Systems = System | Sequence[System] | Mapping[str, System]


def named_systems(systems: Systems) -> dict[str, System]:
    """Return name → system; a string is its own name, and a retriever says what it is called."""
    if isinstance(systems, Mapping):
        found = dict(systems)
    else:
        several = [systems] if isinstance(systems, str | pd.DataFrame) or not isinstance(systems, Sequence) else systems
        names = [_name_of(system) for system in several]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise InputError(f"two systems are called {twice[0]!r}; give a mapping, name → system")
        found = dict(zip(names, several, strict=True))
    if not found:
        raise InputError("at least one system is needed, such as 'bm25'", field="systems")
    for name, system in found.items():
        _check_system(name, system)
    return found


def _name_of(system: System) -> str:
    if isinstance(system, str):
        return system.strip()
    if isinstance(system, pd.DataFrame):
        raise InputError("a finished run has no name; give a mapping, {'theirs': run}")
    return str(getattr(system, "name", "") or type(system).__name__)


def _check_system(name: object, system: object) -> None:
    kind = type(system).__name__
    if not isinstance(name, str):
        raise InputError(f"a system is called by text, not by {type(name).__name__}: {name!r}", field="systems")
    if isinstance(system, type):
        raise InputError(f"{system.__name__} is a class; give what it makes", field="systems")
    if not isinstance(system, str | pd.DataFrame) and not callable(getattr(system, "search", None)):
        problem = "a system is a string such as 'minilm+mmr:0.9', a finished run, or has a method search(questions, k)"
        raise InputError(f"{problem}; {name!r} is of type {kind}", field="systems")


# ---------------------------------------------------------------- runs


def build(
    named: Mapping[str, System],
    collection: Collection,
    *,
    aspect_judge: Callable[[], Judge],
    store: VerdictStore,
    depth: int = 100,
    recordings: StrPath | None = None,
    scorers: dict[str, Scorer] | None = None,
) -> dict[str, Retriever | pd.DataFrame]:
    """Return systems ready to search a collection: strings are built on its ``handout``, others are as they came.

    Arguments and errors as :func:`berdslib.study.experiment.experiment`, but that ``aspect_judge`` returns the judge,
    loaded when it is needed, and ``scorers`` are those of :func:`berdslib.retrieval.systems.make_systems`.
    """
    check_k(depth, "depth")
    texts = [system for system in named.values() if isinstance(system, str)]
    built: dict[str, Retriever] = {}
    if texts:
        kept = None if recordings is None else Path(recordings)
        options: dict[str, Any] = {"depth": depth, "recordings": kept, "scorers": scorers}
        built = workshop(collection.handout, aspect_judge=aspect_judge, store=store, **options).make(texts)
    return {name: built[system] if isinstance(system, str) else system for name, system in named.items()}


def workshop(
    collection: Collection, *, aspect_judge: Callable[[], Judge], store: VerdictStore, **options: Any
) -> Workshop:
    """Return a workshop of systems over a collection whose aspects a judge sees; for the options see there."""

    def aspects_by(generated: Expansions, passages: Sequence[Passage]) -> AspectsOf:
        return judged_aspects(generated, passages, aspect_judge(), store)

    return Workshop(collection, aspects_by=aspects_by, **options)


def search(
    system: Retriever, collection: Collection, k: int, *, questions: bool = True, perspectives: bool = False
) -> pd.DataFrame:
    """Return what a system finds for a collection's questions, for their perspectives, or for both, as one run.

    The lists of perspectives (:attr:`Collection.queries`) have ids of their own.
    """
    check_k(k)
    queries = collection.queries if perspectives else []
    asked = [part for part in (list(collection.questions) if questions else [], queries) if part]
    return stacked([checked_search(system, part, k) for part in asked])


def listed(name: str, system: Retriever | pd.DataFrame, collection: Collection, k: int, **which: bool) -> pd.DataFrame:
    """Return what a system finds (see :func:`search`), or a finished run as it is, without questions not asked."""
    if not isinstance(system, pd.DataFrame):
        return search(system, collection, k, **which)
    run = run_of(name, system)
    return run[run["qid"].isin(list_ids(collection.questions))]


def stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return frames as one, below each other."""
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


# ---------------------------------------------------------------- verdicts and scores


def pooled(runs: Iterable[pd.DataFrame], questions: Sequence[Question], k: int) -> pd.DataFrame:
    """Return the top k of several runs as one run, each passage of a question once.

    What a question found from one of its perspectives counts as found by the question.
    """
    owner = list_ids(questions)
    tops = pd.concat([run[(run["rank"] <= k) & run["qid"].isin(owner)] for run in runs])
    tops = tops.assign(qid=tops["qid"].map(owner)).drop_duplicates(["qid", "docno"])
    return ranked_run({str(qid): part["docno"].tolist() for qid, part in tops.groupby("qid", sort=False)})


def judged(
    runs: Iterable[pd.DataFrame], collection: Collection, judge: Judge, k: int, store: VerdictStore
) -> pd.DataFrame:
    """Return a judge's verdicts on the :func:`pooled` top k of several runs; a collection needs passages for that."""
    if not collection.passages:
        problem = f"{collection.name!r} has questions only; a judge reads passages: name the corpus"
        raise InputError(problem, field="passages")
    pool = pooled(runs, collection.questions, k)
    return judge_run(pool, collection.questions, by_docno(collection.passages), judge, k=max(1, len(pool)), store=store)


def verdicts_on(
    runs: Mapping[str, pd.DataFrame], collection: Collection, judge: Judge | None, k: int, store: VerdictStore
) -> pd.DataFrame:
    """Return recorded verdicts (no judge, or gold), or a judge's on the top k of all systems."""
    if judge is not None and not isinstance(judge, Gold):
        return judged(runs.values(), collection, judge, k, store)
    recorded = collection.gold if judge is None else judge.verdicts
    if recorded is None:  # only a scenario is scored without
        return make_verdicts([], "gold")
    return recorded[recorded["qid"].isin({q.qid for q in collection.questions})]


def scored(
    run: pd.DataFrame, verdicts: pd.DataFrame | None, collection: Collection, measures: Sequence[Measure]
) -> pd.DataFrame:
    """Return the scores of a run, a row a question; those of a scenario of PerspectiveArg come from its release."""
    if isinstance(collection, Scenario):
        return evaluate_arguments(run, collection, measures)
    return evaluate(run, verdicts, collection.questions, measures)  # type: ignore[arg-type] # None is refused there


def check_belongs(what: str, frame: pd.DataFrame, questions: Sequence[Question]) -> None:
    """Refuse a run or verdicts of which nothing is about the questions."""
    if len(frame) and not frame["qid"].isin(list_ids(questions)).any():
        there = f"{frame['qid'].iloc[0]!r} against {questions[0].qid!r} …"
        raise InputError(f"{what} and the questions do not belong together: {there}", field="qid")


def deepest(measures: Sequence[Measure]) -> int:
    """Return the largest cut-off: how deep is searched and judged."""
    if without := [str(m) for m in measures if "cutoff" not in m.params]:
        raise InputError(f"{without[0]} needs a cut-off, such as {without[0]}@5", field="measures")
    return max(int(m["cutoff"]) for m in measures)
