"""The front door: the functions of ``import berdslib as bd``, beside :func:`~berdslib.study.experiment.experiment`.

One order of arguments everywhere: run, verdicts, data, measures.
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
    """Make a system over a corpus, once: what it returns holds the index and the vectors, and searches again and again.

    Args:
        system: such as "minilm+mmr:0.9", or a retriever of your own.
        data: a collection, the name of one, or passages.
        aspect_judge: see :func:`berdslib.study.experiment.experiment`, as for the next two.
        depth: how many candidates a cross-encoder or a diversifier chooses from.
        recordings: a file of a chat model's answers.
        store: where the aspect judge's verdicts are kept; None for the user's cache.

    Returns:
        An object with ``search(questions, k)``, see :meth:`berdslib.study.scoring.HeldRetriever.search`.

    Raises:
        InputError: an unknown system or collection, or one without passages.

    >>> pets = [Passage("a", "Cats purr."), Passage("b", "Dogs bark.")]
    >>> retriever("bm25", pets).search(["Do cats purr?"], k=1)["docno"].tolist()
    ['a']
    """
    if isinstance(system, pd.DataFrame | Mapping | list | tuple):
        problem = "one system that searches is needed; bd.experiment takes several, and a finished run goes to judge"
        raise InputError(problem, field="system")
    named = scoring.named_systems(system)  # first: a collection in its place would be searched for systems
    is_corpus = isinstance(data, Sequence) and len(data) and isinstance(data[0], Passage)
    collection = Collection("a corpus", scoring.UNASKED, data) if is_corpus else collection_of(data)  # type: ignore[arg-type]
    if said := scoring.own_left_out(collection):
        logger.warning("%s", said)
    settings = Settings(aspect_judge=aspect_judge, depth=depth, recordings=recordings, store=store)
    [held] = scoring.held(named, collection, settings).values()
    return held


def search(
    system: str | Retriever, data: Data, k: int = 100, *, perspectives: bool = False, **options: Any
) -> pd.DataFrame:
    """Return what a system finds for a collection's questions: a run, frame qid, docno, rank, score.

    It makes the system anew in each call; :func:`retriever` keeps it.

    Args:
        system: such as "minilm+mmr:0.9", or a retriever of your own.
        data: a collection, or the name of one.
        k: passages of each list.
        perspectives: also search each question from each of its perspectives, which p-Recall looks at.
        options: those of :func:`retriever`.

    Raises:
        InputError: an unknown system or collection, one without passages, or k is no whole number from 1.
    """
    check_k(k)
    return retriever(system, data, **options).search(k=k, perspectives=perspectives)


@dataclass(frozen=True, repr=False)
class ShownSystem(Shown):
    """What a system string means: its parts in order, what each needs, and what is computed once."""

    system: str
    parts: pd.DataFrame
    caption: str = (
        "What is computed once is held by bd.retriever, and vectors and verdicts are kept in the user's cache."
    )

    def titled(self) -> list[tuple[str, pd.DataFrame]]:
        """Return the table of the parts."""
        return [(self.system, self.parts)]


def show(system: str) -> ShownSystem:
    """Show what a system string means, as text or, in a notebook, as HTML; nothing is loaded.

    Args:
        system: such as "minilm+expand:rule+mmr:.9".

    Raises:
        InputError: a string that means nothing.

    >>> show("bm25+mmr:.90").parts["part"].tolist()
    ['bm25', '+mmr:0.9']
    """
    read = parse_system(system)
    described = [describe_first(read.first), *(part.describe() for part in read.parts)]
    table = pd.DataFrame(described, columns=["part", "what it does", "needs", "computed once"])
    return ShownSystem(read.text, table.set_axis(range(1, 1 + len(table))))


def judge(run: pd.DataFrame, data: Data, judge: AnyJudge = None, k: int = 5, *, store: Store = None) -> pd.DataFrame:
    """Judge the first k passages of each list against every perspective of its question.

    Args:
        run: frame qid, docno and score (or rank), whoever made it; see :func:`read_run`.
        data: a collection with the run's questions and passages, or the name of one.
        judge: a name, a judge, or a function from pairs to probabilities; None for recorded verdicts.
        k: how deep to judge.
        store: where verdicts are kept; None for the user's cache.

    Returns:
        Verdicts: frame qid, pid (which perspective), docno, p_yes, supports, judge.

    Raises:
        InputError: an unknown judge, a frame that is no run or of other questions, a passage that is not in the corpus,
            or k is no whole number from 1.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    check_k(k)
    collection, kept = collection_of(data), store_of(store)
    if isinstance(collection, Handout) and collection.asked and not is_recorded(judge):
        problem = f"{collection.name!r} asks who wrote a text, which no judge may be asked; its answers are recorded"
        raise InputError(problem, field="judge")
    clean = scoring.without_own(check_run(run), scoring.own_passages(collection), collection.questions)
    scoring.check_belongs("the run", clean, collection.questions)  # before a model is loaded
    verdicts = scoring.judged([clean], collection, judge_of(judge, collection), k, kept)
    return verdicts if is_recorded(judge) else scoring.warned_of_copies(verdicts, collection)


def supports(
    perspectives: str | Sequence[str], passages: str | Sequence[str], judge: AnyJudge = "laptop"
) -> pd.DataFrame:
    """Ask a judge about texts: does each passage support each perspective?

    Args:
        perspectives: one sentence, or several.
        passages: one text, or several.
        judge: a name, a judge, or a function from pairs to probabilities.

    Returns:
        Frame perspective, passage, p_yes (calibrated where the judge is; NaN where its answer could not be read),
        supports, how_sure (:func:`berdslib.judging.base.how_sure`, or "unread"); one row a pair.

    Raises:
        InputError: a text that is blank or holds half of a surrogate pair, none at all, an unknown judge, recorded
            verdicts, which know no texts, or a judge that returns anything but a probability for each pair.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    asked, read = _texts(perspectives, "perspectives"), _texts(passages, "passages")
    if is_recorded(judge):
        problem = "recorded verdicts belong to ids; name a judge that reads texts, such as 'laptop'"
        raise InputError(problem, field="judge")
    chosen = make_judge(judge) if isinstance(judge, str) else as_judge(judge)
    found = [Passage(str(i), text) for i, text in enumerate(read)]
    pairs = [Pair("texts", pid, passage, said) for passage in found for pid, said in enumerate(asked)]
    p_yes = judge_pairs(chosen, pairs)[0]
    texts = [(pair.perspective, pair.passage.text) for pair in pairs]
    table = pd.DataFrame(texts, columns=["perspective", "passage"]).assign(p_yes=p_yes)
    unread = np.isnan(p_yes)
    sure = how_sure(np.where(unread, 0.0, p_yes), chosen.threshold)
    return table.assign(supports=p_yes >= chosen.threshold, how_sure=np.where(unread, "unread", sure))


def evaluate(
    run: pd.DataFrame,
    verdicts: pd.DataFrame | None,
    data: Data | Sequence[Question],
    measures: measuring.Measure | str | Iterable[measuring.Measure | str] = ("MRecall@5", "Precision@5"),
) -> pd.DataFrame:
    """Score a run: one row per question, one column per measure; see :mod:`berdslib.evaluation.measures`.

    Questions that nobody judged are left out. What a reader of the scores has to know is logged: how many these are,
    what share of the first places was judged, lists that are shorter than a cut-off.

    Args:
        run: frame qid, docno and score (or rank).
        verdicts: frame qid, pid, docno and p_yes or supports, such as :func:`judge` or a collection's ``gold``; None
            for a scenario of PerspectiveArg, which is scored by its own answers.
        data: a collection, the name of one, or its questions.
        measures: one or several, as ``MRecall @ 5`` or by name, ``"MRecall@5"``.

    Raises:
        InputError: a frame that is no run or no verdicts, or is about other questions or another corpus, no question
            that was judged, or an unknown measure.
    """
    wanted = measuring.parse_measures(measures)
    collection = Collection("questions", data) if scoring.are_questions(data) else collection_of(data)  # type: ignore[arg-type]
    if said := measuring.single_perspectives(collection.questions, map(str, wanted)):
        logger.warning("%s", said)
    if isinstance(collection, Scenario) and verdicts is not None:
        own = collection.gold
        if own is None or not check_verdicts(verdicts).equals(own):
            problem = f"{collection.name!r} is scored by its own answers; give None, or its gold"
            raise InputError(problem, field="verdicts")
    if isinstance(collection, Scenario):
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
    """Read a run of anybody's.

    Args:
        path: a file, gzipped or not, of TREC's six columns; a .json of {qid: {docno: score}} or of mteb's predictions;
            a .jsonl of sentence-transformers' predictions; or {qid: {docno: score}} itself.

    Raises:
        InputError: a file that cannot be read; the message says where.
    """
    if not isinstance(path, str | Path | Mapping):
        raise InputError(f"a run file is named by text or a path, not by {type(path).__name__}", field="path")
    return trec.read_run(path)


# ---------------------------------------------------------------- names


# Where each kind is kept, and what the function that the user gives is called with.
_KINDS: dict[str, tuple[Registry[Any], tuple[str, ...]]] = {
    "retriever": (RETRIEVERS, ("the passages",)),
    "judge": (JUDGES, ()),
    "dataset": (DATASETS, ()),
    "diversifier": (DIVERSIFIERS, ("vectors", "scores", "k", "weight")),
    "measure": (measuring.MEASURES, ("the first k passages, bool (k, perspectives)", "k")),
}


def register(kind: str, name: str, make: Callable[..., Any]) -> None:
    """Give something of your own a name, which then works wherever names do: here, in notebooks and in system strings.

    The shell and the notebooks of a grid are other processes: name a module that registers it in ``BERDS_PLUGINS``.

    Args:
        kind: "retriever", "judge", "dataset", "diversifier" or "measure".
        name: letters, digits, ".", "_" and "-"; a name of yours may be used again, a built-in one may not.
        make: of a retriever, the function from passages (and options by name) to an object with ``search(questions,
            k)``, or what ``bd.dense`` makes of your model; of a judge, a function without arguments that returns it: an
            object, or a function from pairs to probabilities; of a data set, a function without arguments (or with
            ``split``) that returns a Collection; of a diversifier, the function ``(vectors, scores, k, weight) ->
            order`` itself; of a measure, the function ``(shown, k) -> score`` of one list, `shown` being bool (the
            first k passages or fewer, perspectives).

    Raises:
        InputError: an unknown kind, a name that is taken or cannot be used, or something that is no function.
    """
    registry, arguments = _KINDS[known("kind", kind, _KINDS)]
    if not callable(make):
        raise InputError(f"a {kind} is added as a function, not as {type(make).__name__}", field="make")
    hint = "; a judge is added by what returns it, such as lambda: yours" * (kind == "judge")
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
    """Return what can be named: all "retriever"s, "judge"s, "dataset"s, "diversifier"s or "measure"s.

    Raises:
        InputError: an unknown kind.
    """
    return _KINDS[known("kind", kind, _KINDS)][0].names()


def _texts(given: str | Sequence[str], field: str) -> list[str]:
    """Return one text or several as a list; none, or a blank one, is refused."""
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise InputError(f"a text or several are needed, not {type(given).__name__}", field=field)
    texts = [given] if isinstance(given, str) else list(given)
    for i, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"a text is needed, not {text!r} (number {i})", field=field)
    if not texts:
        raise InputError("a text or several are needed, not none", field=field)
    return texts
