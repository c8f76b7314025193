"""The front door: the functions of ``import berdslib as bd``, except :func:`~berdslib.study.experiment.experiment`.

All functions take their arguments in the same order: run, verdicts, data, measures.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data import trec
from berdslib.data.catalogue import DATASETS
from berdslib.data.collection import Collection
from berdslib.data.records import Passage, Question, check_k, check_run, check_verdicts
from berdslib.data.scenario import Handout, Scenario
from berdslib.errors import InputError, check_call, known
from berdslib.evaluation import measures as measuring
from berdslib.evaluation.arguments import evaluate_arguments
from berdslib.files import StrPath
from berdslib.judging.base import Pair, how_sure
from berdslib.judging.registry import JUDGES, as_judge, make_judge
from berdslib.judging.store import judge_pairs
from berdslib.registry import Registry
from berdslib.retrieval.base import Retriever
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.retrievers import RETRIEVERS
from berdslib.retrieval.systems import PARTS, describe_first, parse_system
from berdslib.study import scoring
from berdslib.study.scoring import (
    AnyJudge,
    Data,
    HeldRetriever,
    Settings,
    Store,
    collection_of,
    is_recorded,
    judge_of,
    store_of,
)
from berdslib.study.tables import Shown

logger = logging.getLogger(__name__)


def retriever(
    system: str | Retriever,
    data: Data | Sequence[Passage],
    *,
    aspect_judge: AnyJudge = "laptop",
    depth: int = 100,
    recordings: StrPath | None = None,
    store: Store = None,
) -> HeldRetriever:
    """Build a system over a corpus once; the returned object keeps index and vectors for any number of searches.

    Args:
        system: such as "minilm+mmr:0.9", or a retriever of your own.
        data: a collection, the name of one, or passages.
        aspect_judge: see :func:`berdslib.study.experiment.experiment`, as for the next two.
        depth: how many candidates a cross-encoder or a diversifier chooses from.
        recordings: a file of a chat model's answers.
        store: a store of the aspect judge's verdicts, or its file; None for the user's cache.

    Returns:
        An object with ``search(questions, k)``, see :meth:`berdslib.study.scoring.HeldRetriever.search`.

    Raises:
        InputError: an unknown system or collection, or one without passages.

    >>> pets = [Passage("a", "Cats purr."), Passage("b", "Dogs bark.")]
    >>> retriever("bm25", pets).search(["Do cats purr?"], k=1)["docno"].tolist()
    ['a']
    """
    if isinstance(system, pd.DataFrame | Mapping | list | tuple):
        problem = "one system that searches is needed; bd.experiment takes several, and bd.judge takes a finished run"
        raise InputError(problem, field="system")
    named = scoring.named_systems(system)  # first, so that a collection given in its place is reported as such
    is_corpus = isinstance(data, Sequence) and len(data) and isinstance(data[0], Passage)
    collection = Collection("a corpus", scoring.UNASKED, data) if is_corpus else collection_of(data)  # type: ignore[arg-type]
    warning = scoring.own_left_out(collection)
    if warning:
        logger.warning("%s", warning)
    settings = Settings(aspect_judge=aspect_judge, depth=depth, recordings=recordings, store=store)
    [held] = scoring.held(named, collection, settings).values()
    return held


def search(
    system: str | Retriever, data: Data, k: int = 100, *, perspectives: bool = False, **options: Any
) -> pd.DataFrame:
    """Return a system's run for a collection's questions: frame qid, docno, rank, score.

    Each call builds the system; :func:`retriever` builds it once for several searches.

    Args:
        system: such as "minilm+mmr:0.9", or a retriever of your own.
        data: a collection, or the name of one.
        k: passages of each list.
        perspectives: also search for each question from each of its perspectives, as p-Recall needs it.
        options: those of :func:`retriever`.

    Raises:
        InputError: an unknown system or collection, one without passages, or k is not a positive whole number.
    """
    check_k(k)
    return retriever(system, data, **options).search(k=k, perspectives=perspectives)


@dataclass(frozen=True, repr=False)
class ShownSystem(Shown):
    """The meaning of a system string: its parts in order, what each needs and computes once."""

    system: str
    parts: pd.DataFrame
    caption: str = (
        "What is computed once is held by bd.retriever, and vectors and verdicts are kept in the user's cache."
    )

    def titled(self) -> list[tuple[str, pd.DataFrame]]:
        """Return the table of the parts."""
        return [(self.system, self.parts)]


def show(system: str) -> ShownSystem:
    """Explain a system string, as text or, in a notebook, as HTML; nothing is loaded.

    Args:
        system: such as "minilm+expand:rule+mmr:.9".

    Raises:
        InputError: an invalid string.

    >>> show("bm25+mmr:.90").parts["part"].tolist()
    ['bm25', '+mmr:0.9']
    """
    parsed = parse_system(system)
    rows = [describe_first(parsed.first), *(part.describe() for part in parsed.parts)]
    table = pd.DataFrame(rows, columns=["part", "what it does", "needs", "computed once"])
    return ShownSystem(parsed.text, table.set_axis(range(1, 1 + len(table))))


def judge(run: pd.DataFrame, data: Data, judge: AnyJudge = None, k: int = 5, *, store: Store = None) -> pd.DataFrame:
    """Judge the first k passages of each list against every perspective of its question.

    Args:
        run: frame qid, docno and score (or rank), from any program; see :func:`read_run`.
        data: a collection with the run's questions and passages, or the name of one.
        judge: a name, a judge, or a function from pairs to probabilities; None for recorded verdicts.
        k: number of passages to judge in each list.
        store: a store of verdicts, or its file; None for the user's cache.

    Returns:
        Verdicts: frame qid, pid (index of the perspective), docno, p_yes, supports, judge.

    Raises:
        InputError: an unknown judge, a frame that is not a run or has other questions, a passage that is not in the
            corpus, or k is not a positive whole number.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    check_k(k)
    collection = collection_of(data)
    store = store_of(store)
    if isinstance(collection, Handout) and collection.asked and not is_recorded(judge):
        problem = (
            f"{collection.name!r} asks who wrote a text; a judge must not guess that, and the answers are recorded"
        )
        raise InputError(problem, field="judge")
    checked = scoring.without_own(check_run(run), scoring.own_passages(collection), collection.questions)
    scoring.check_belongs("the run", checked, collection.questions)  # before a model is loaded
    verdicts = scoring.judged([checked], collection, judge_of(judge, collection), k, store)
    if is_recorded(judge):
        return verdicts
    return scoring.warned_of_copies(verdicts, collection)


def supports(
    perspectives: str | Sequence[str], passages: str | Sequence[str], judge: AnyJudge = "laptop"
) -> pd.DataFrame:
    """Ask a judge about texts: does each passage support each perspective?

    Args:
        perspectives: one sentence, or several.
        passages: one text, or several.
        judge: a name, a judge, or a function from pairs to probabilities.

    Returns:
        Frame perspective, passage, p_yes (calibrated if the judge is; NaN if its answer could not be read), supports,
        how_sure (:func:`berdslib.judging.base.how_sure`, or "unread"); one row per pair.

    Raises:
        InputError: no text, a blank text or one with an unpaired surrogate, an unknown judge, recorded verdicts, which
            cannot judge new texts, or a judge that does not return a probability for each pair.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    perspective_texts = _texts(perspectives, "perspectives")
    passage_texts = _texts(passages, "passages")
    if is_recorded(judge):
        problem = "recorded verdicts belong to ids; name a judge that reads texts, such as 'laptop'"
        raise InputError(problem, field="judge")
    chosen = make_judge(judge) if isinstance(judge, str) else as_judge(judge)
    pairs = []
    for i, text in enumerate(passage_texts):
        passage = Passage(str(i), text)
        pairs += [Pair("texts", pid, passage, perspective) for pid, perspective in enumerate(perspective_texts)]
    p_yes = judge_pairs(chosen, pairs)[0]
    unread = np.isnan(p_yes)
    sure = how_sure(np.where(unread, 0.0, p_yes), chosen.threshold)
    columns = {
        "perspective": [pair.perspective for pair in pairs],
        "passage": [pair.passage.text for pair in pairs],
        "p_yes": p_yes,
        "supports": p_yes >= chosen.threshold,
        "how_sure": np.where(unread, "unread", sure),
    }
    return pd.DataFrame(columns)


def evaluate(
    run: pd.DataFrame,
    verdicts: pd.DataFrame | None,
    data: Data | Sequence[Question],
    measures: measuring.Measure | str | Iterable[measuring.Measure | str] = ("MRecall@5", "Precision@5"),
) -> pd.DataFrame:
    """Score a run: one row per question, one column per measure; see :mod:`berdslib.evaluation.measures`.

    Questions without verdicts are left out. The log says how many these are, which share of the first places was judged
    and which lists are shorter than a cut-off.

    Args:
        run: frame qid, docno and score (or rank).
        verdicts: frame qid, pid, docno and p_yes or supports, such as :func:`judge` or a collection's ``gold``; None
            for a scenario of PerspectiveArg, which is scored by its own answers.
        data: a collection, the name of one, or its questions.
        measures: one or several, as ``MRecall @ 5`` or by name, ``"MRecall@5"``.

    Raises:
        InputError: a frame that is not a run or not verdicts, or has other questions or another corpus, no question
            with a verdict, or an unknown measure.
    """
    wanted = measuring.parse_measures(measures)
    collection = Collection("questions", data) if scoring.are_questions(data) else collection_of(data)  # type: ignore[arg-type]
    warning = measuring.single_perspectives(collection.questions, map(str, wanted))
    if warning:
        logger.warning("%s", warning)
    if isinstance(collection, Scenario):
        gold = collection.gold
        if verdicts is not None and (gold is None or not check_verdicts(verdicts).equals(gold)):
            problem = f"{collection.name!r} is scored by its own answers; give None, or its gold"
            raise InputError(problem, field="verdicts")
        return evaluate_arguments(run, collection, wanted)
    run, verdicts = measuring.checked(run, verdicts, collection.questions, wanted)  # type: ignore[arg-type] # None is refused
    run = scoring.without_own(run, scoring.own_passages(collection), collection.questions)
    asked = scoring.to_be_scored(collection, verdicts, [run], None)
    scores = scoring.scored(run, verdicts, collection, asked, wanted)
    runs = {"the run": run}
    recorded = measuring.are_recorded(verdicts)
    for note in scoring.table_notes(runs, verdicts, asked, [collection], wanted, finished=runs, recorded=recorded):
        logger.warning("%s", note)
    return scores


def read_run(path: str | Path | Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Read a run that another program may have written.

    Args:
        path: a file, gzipped or not, of TREC's six columns; a .json of {qid: {docno: score}} or of mteb's predictions;
            a .jsonl of sentence-transformers' predictions; or {qid: {docno: score}} itself.

    Raises:
        InputError: a file that cannot be read; the message names the line.
    """
    if not isinstance(path, str | Path | Mapping):
        raise InputError(f"expected a file name, a path or a mapping, not {type(path).__name__}", field="path")
    return trec.read_run(path)


# ---------------------------------------------------------------- names


# Kind → its registry, and the arguments of the registered function.
_KINDS: dict[str, tuple[Registry[Any], tuple[str, ...]]] = {
    "retriever": (RETRIEVERS, ("the passages",)),
    "judge": (JUDGES, ()),
    "dataset": (DATASETS, ()),
    "diversifier": (DIVERSIFIERS, ("vectors", "scores", "k", "weight")),
    "measure": (measuring.MEASURES, ("the first k passages, bool (k, perspectives)", "k")),
}


def register(kind: str, name: str, make: Callable[..., Any]) -> None:
    """Register a component of your own under a name, which works everywhere, also in notebooks and system strings.

    The shell and the notebooks of a grid are other processes: for these, name a module that registers the component in
    the environment variable ``BERDS_PLUGINS``.

    Args:
        kind: "retriever", "judge", "dataset", "diversifier" or "measure".
        name: letters, digits, ".", "_" and "-"; a name of yours may be used again, a built-in one may not.
        make: of a retriever, the function from passages (and options by name) to an object with ``search(questions,
            k)``, or what ``bd.dense`` makes of your model; of a judge, a function without arguments that returns it: an
            object, or a function from pairs to probabilities; of a data set, a function without arguments (or with
            ``split``) that returns a Collection; of a diversifier, the function ``(vectors, scores, k, weight) ->
            order`` itself; of a measure, the function ``(shown, k) -> score`` of one list, `shown` being bool (the
            first k passages or fewer, perspectives), or ``(shown, k, passages) -> score``.

    Raises:
        InputError: an unknown kind, a name that is taken or invalid, or a `make` that is not a function.
    """
    registry, arguments = _KINDS[known("kind", kind, _KINDS)]
    if kind == "measure" and callable(make) and measuring.takes_passages(make):
        arguments = (*arguments, "the passages")
    if not callable(make):
        raise InputError(f"a {kind} is registered as a function, not as {type(make).__name__}", field="make")
    hint = "; register a function that returns the judge, such as lambda: yours" if kind == "judge" else ""
    try:
        check_call(f"the {kind} {name!r}", make, *arguments)
    except InputError as error:
        raise InputError(error.problem + hint, field=error.field) from None
    if kind == "diversifier" and name in PARTS:
        raise InputError(f"{name!r} is a part of a system already; choose another name", field="name")
    registry.check_name(name)
    assert registry.own is not None
    registry.add(name, registry.own(make, name))


def names(kind: str) -> list[str]:
    """Return the names of a kind: "retriever", "judge", "dataset", "diversifier" or "measure".

    Raises:
        InputError: an unknown kind.
    """
    return _KINDS[known("kind", kind, _KINDS)][0].names()


def _texts(value: str | Sequence[str], field: str) -> list[str]:
    """Return one text or several as a list; an empty list or a blank text is refused."""
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise InputError(f"expected a text or a list of texts, not {type(value).__name__}", field=field)
    texts = [value] if isinstance(value, str) else list(value)
    for i, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"expected a text that is not blank, got {text!r} (number {i})", field=field)
    if not texts:
        raise InputError("at least one text is needed", field=field)
    return texts
