"""From what a user gives to scores: names become things, then build, search, pool, judge once, score."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as Collected
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import pandas as pd

from berdslib.data.collection import Collection, Expansions
from berdslib.data.corpus import by_docno
from berdslib.data.datasets import load
from berdslib.data.records import (
    Passage,
    Question,
    check_k,
    counted,
    list_ids,
    make_verdicts,
    perspective_qid,
    ranked_run,
)
from berdslib.data.scenario import Scenario
from berdslib.errors import InputError
from berdslib.evaluation import notes
from berdslib.evaluation.arguments import evaluate_arguments
from berdslib.evaluation.measures import (
    Measure,
    checked,
    cutoff_of,
    judged_questions,
    left_out,
    score_questions,
    tell_gaps,
)
from berdslib.files import StrPath
from berdslib.judging.base import Judge, contains_perspective, short_name
from berdslib.judging.baselines import Gold
from berdslib.judging.registry import as_judge, make_judge
from berdslib.judging.store import VerdictStore, check_threshold, judge_run, judged_aspects
from berdslib.models.cards import CARDS
from berdslib.progress import bar, bars_are_seen, begin
from berdslib.retrieval.base import CheckedRetriever, Retriever, run_of, warn_of_empty_lists
from berdslib.retrieval.diversify import AspectsOf
from berdslib.retrieval.rerank import Scorer
from berdslib.retrieval.retrievers import OwnDense, encoding_of
from berdslib.retrieval.systems import System as Parsed
from berdslib.retrieval.systems import Workshop, canonical, parse_system

logger = logging.getLogger(__name__)

AnyJudge = Judge | Callable[..., Any] | str | None
Data = Collection | str | Path
Store = VerdictStore | str | Path | None
_OF_WHOLE_LISTS = ("RR", "AP", "nDCG")  # as trec_eval has them
_NUMBERED = re.compile(r"subtopic \d+")  # what loading calls a perspective of which only the number is known
UNASKED = (Question("", ""),)  # those of a collection that is passages only
_OF_NETWORKS = re.compile(r"\||^laptop\(")  # the ids of our encoders, and of judges: they name no float32
System = str | Retriever | OwnDense | pd.DataFrame
Given = TypeVar("Given")
Systems = System | Sequence[System] | Mapping[str, System]


@dataclass(frozen=True)
class Settings:
    """How systems search, and who judges: the keyword arguments that the functions of the front door share."""

    judge: AnyJudge = None
    aspect_judge: AnyJudge = "laptop"
    depth: int = 100
    recordings: StrPath | None = None
    store: Store = None

    def __post_init__(self) -> None:
        check_k(self.depth, "depth")
        if self.store is not None:  # else that of the user's cache, where one is needed
            object.__setattr__(self, "store", store_of(self.store))


# ---------------------------------------------------------------- what a user gives


def named_systems(systems: Systems) -> dict[str, System]:
    """Return name → system; a string is its own name, a retriever says what it is called, and a run is checked here.

    A system that a list names twice, perhaps in two spellings ("bm25+mmr:.9", "BM25+mmr:0.90"), is one system, under
    the first.
    """
    if isinstance(systems, Mapping):
        named = list(systems.items())
    else:
        several = systems if isinstance(systems, Sequence) and not isinstance(systems, str) else [systems]
        named = _without_repeats([(_name_of(system), system) for system in several])
    if not named:
        raise InputError("at least one system is needed, such as 'bm25'", field="systems")
    if twice := [name for name, count in Counter(name for name, _ in named).items() if count > 1]:
        raise InputError(f"two systems are called {twice[0]!r}; give a mapping, name → system")
    return {name: _as_system(name, system) for name, system in named}


def _without_repeats(named: Sequence[tuple[str, System]]) -> list[tuple[str, System]]:
    kept: dict[object, tuple[str, System]] = {}
    for place, (name, system) in enumerate(named):
        # Only strings say what a system is: of other systems with one name, each is kept, and refused later.
        meaning = canonical(name) if isinstance(system, str) else place
        if meaning in kept:
            logger.warning("%r and %r are the same system, which has one row", kept[meaning][0], name)
        kept.setdefault(meaning, (name, system))
    return list(kept.values())


def named_as(name: str, named: Mapping[str, System]) -> str:
    """Return the name of the system that a string means, which may be spelt in another way; else the string."""
    if name in named:
        return name
    try:
        meaning = canonical(name)
    except InputError:
        return name
    texts = {other: canonical(other) for other, system in named.items() if isinstance(system, str)}
    return next((other for other, text in texts.items() if text == meaning), name)


def _as_system(name: object, system: Any) -> System:
    if not isinstance(name, str):
        raise InputError(f"a system is called by text, not by {type(name).__name__}: {name!r}", field="systems")
    if isinstance(system, type):
        raise InputError(f"{system.__name__} is a class; give what it makes", field="systems")
    if isinstance(system, pd.DataFrame):
        return run_of(name, system)
    if isinstance(system, str | OwnDense):
        return system
    if _transforms(system):
        return CheckedRetriever(name, _Transformer(name, system))
    if _searches(system):
        return CheckedRetriever(name, system)
    problem = "a string such as 'minilm+mmr:0.9', a finished run, or has a method search(questions, k)"
    is_model = callable(system) or hasattr(system, "encode")
    hint = "; register a model under a name first: bd.register('retriever', 'mine', bd.dense(model))" * is_model
    raise InputError(f"a system is {problem}; {name!r} is of type {type(system).__name__}{hint}", field="systems")


def _searches(system: object) -> bool:
    return callable(getattr(system, "search", None))


def _transforms(system: object) -> bool:
    """Whether it is a transformer of PyTerrier, whose `search` takes a text, or of another that works as these do."""
    theirs = any(kind.__module__.startswith("pyterrier") for kind in type(system).__mro__)
    return callable(getattr(system, "transform", None)) and (theirs or not _searches(system))


def _name_of(system: System) -> str:
    if isinstance(system, str):
        return system.strip()
    if isinstance(system, pd.DataFrame):
        raise InputError("a finished run has no name; give a mapping, {'theirs': run}")
    return str(getattr(system, "name", "") or type(system).__name__)


class _Transformer:
    """A transformer of PyTerrier as a retriever: from topics, qid and query, to ranked documents."""

    def __init__(self, name: str, made: Any) -> None:
        self.name = name
        self._made = made

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:  # noqa: ARG002 # it knows its own length
        """Return what it finds, however many passages a question that is."""
        topics = pd.DataFrame({"qid": [q.qid for q in questions], "query": [q.text for q in questions]})
        found: pd.DataFrame = self._made.transform(topics)
        return found


def are_questions(data: object) -> TypeGuard[Sequence[Question]]:
    """Return whether these are questions, in a list; none at all are too."""
    return isinstance(data, list | tuple) and all(isinstance(one, Question) for one in data)


def collection_of(data: Data) -> Collection:
    """Return a collection, or the one that a name or a path stands for."""
    if isinstance(data, Collection):
        return data
    if isinstance(data, str | Path):
        return load(data)
    problem = f"one collection or its name is needed, not {type(data).__name__}"
    if isinstance(data, Question) or (are_questions(data) and data):
        problem = "questions alone cannot be searched or judged"
    raise InputError(f"{problem}; bd.Collection(name, questions, passages) makes one", field="data")


def collections_of(data: Data | Sequence[Data]) -> list[Collection]:
    """Return one or several collections as a list."""
    if not isinstance(data, list | tuple) or isinstance(data, Question) or (are_questions(data) and data):
        return [collection_of(data)]  # type: ignore[arg-type] # anything else is refused there
    if not data:
        raise InputError("at least one collection is needed, such as bd.load('sample')", field="data")
    return [collection_of(one) for one in data]


def store_of(store: Store) -> VerdictStore:
    """Return a store of verdicts: as it is, that of a file, or where none is given that in the user's cache."""
    if isinstance(store, VerdictStore):
        return store
    if store is not None and not isinstance(store, str | Path):
        raise InputError(f"a store of verdicts or its file is needed, not {type(store).__name__}", field="store")
    return VerdictStore(None if store is None else Path(store))


def is_recorded(judge: AnyJudge) -> bool:
    """Return whether recorded verdicts are meant: nobody is named, or "gold" is."""
    return judge is None or (isinstance(judge, str) and judge.strip() == "gold")


def judge_of(judge: AnyJudge, collection: Collection) -> Judge:
    """Return a judge by name, as it is, or made of a function; recorded verdicts where none is named."""
    if is_recorded(judge):
        if collection.gold is None:
            raise InputError(f"{collection.name!r} has no recorded verdicts; name one, such as 'laptop'", field="judge")
        return Gold(collection.gold)
    return check_threshold(make_judge(judge.strip(), collection.gold) if isinstance(judge, str) else as_judge(judge))


def check_readable(collection: Collection) -> None:
    """Refuse perspectives that are numbers of subtopics only, which say nothing to a judge that reads."""
    numbered = [q for q in collection.questions if any(map(_NUMBERED.fullmatch, q.perspectives))]
    if numbered:
        some = f"{len(numbered)} of {len(collection.questions)} questions, such as {numbered[0].qid!r},"
        hint = "a judge reads perspectives: give the questions some, or score by recorded verdicts"
        raise InputError(f"{some} have numbered subtopics in place of perspectives; {hint}", field="perspectives")


# ---------------------------------------------------------------- runs


class HeldRetriever:
    """A system over a corpus, made once by :func:`berdslib.retriever`: it holds its index, vectors and models.

    ``built`` searches the questions of the collection; a system that also depends on the questions, such as one that
    expands them, is made by the workshop for others.
    """

    def __init__(
        self, name: str, collection: Collection, built: Retriever, shop: Workshop | None, system: Parsed | None
    ) -> None:
        self.name = name
        self.collection = collection
        self._own = own_passages(collection)
        self._built = built
        self._shop = shop
        self._system = system

    def __repr__(self) -> str:
        """Say what searches what."""
        return f"{self.name} over {counted(len(self.collection.passages), 'passage')} of {self.collection.name}"

    def search(
        self,
        questions: Sequence[Question | str] | Question | str | None = None,
        k: int = 100,
        *,
        perspectives: bool = False,
    ) -> pd.DataFrame:
        """Return the run of some questions: frame qid, docno, rank, score.

        Args:
            questions: one or several: records, or texts, each of which is its own id; None for those of the collection.
            k: passages of each list.
            perspectives: also search each question from each of its perspectives, which p-Recall looks at.

        Raises:
            InputError: no questions, a question that cannot be used, or k is no whole number from 1.
        """
        check_k(k)
        collection = self.collection
        if isinstance(questions, str | Question):
            questions = [questions]
        if questions is not None:
            collection = collection.only([Question(q, q) if isinstance(q, str) else q for q in questions])
        elif collection.questions == UNASKED:
            raise InputError("the passages came without questions; give some", field="questions")
        asked = [collection.questions, collection.queries if perspectives else ()]
        run = self.lists(asked, k, collection)
        warn_of_empty_lists(run, [question for part in asked for question in part], self.name)
        return run

    def lists(self, asked: Sequence[Sequence[Question]], k: int, collection: Collection | None = None) -> pd.DataFrame:
        """Return the run of the parts of questions, each searched by itself, of this collection or of another."""
        retriever, own = self._built, self._own
        if collection is not None and collection is not self.collection:
            retriever, own = self._over(collection), own_passages(collection)
        questions = (collection or self.collection).questions
        deep = k + bool(own)  # the place of the passage that is left out
        found = pd.concat([retriever.search(part, deep) for part in asked if part], ignore_index=True)
        found = without_own(found, own, questions)
        return found[found["rank"] <= k].reset_index(drop=True)

    def deepest(self, longest: int, depth: int) -> int:
        """Return how long the lists may be: a system that chooses among `depth` candidates lists no more of them."""
        return min(longest, depth) if self._system and self._system.chooses else longest

    def _over(self, collection: Collection) -> Retriever:
        mine = {question.qid: question for question in self.collection.questions}
        known = all(mine.get(q.qid) == q or (q.owner and q.owner in mine) for q in collection.questions)
        if known or self._shop is None or self._system is None or self._system == self._system.of_passages:
            return self._built
        return self._shop.beside(collection).make([self._system.text])[self._system.text]


def held(
    named: Mapping[str, System],
    collection: Collection,
    settings: Settings,
    *,
    aspect_judge: Callable[[], Judge] | None = None,
    scorers: dict[str, Scorer] | None = None,
) -> dict[str, HeldRetriever]:
    """Return each system that searches over a collection; finished runs are left out.

    ``aspect_judge`` returns that of the settings, where several collections share it; ``scorers`` are those of
    :class:`berdslib.retrieval.systems.Workshop`, which makes what several systems share once.
    """
    began = time.monotonic()
    searching = {name: system for name, system in named.items() if not isinstance(system, pd.DataFrame)}
    parsed = {name: parse_system(system) for name, system in searching.items() if isinstance(system, str)}
    if searching:
        sizes = f"{len(collection.questions):,} questions, {len(collection.passages):,} passages"
        begin(f"{collection.name}: {sizes}; making models and indexes ready for {', '.join(searching)}")
    shop, built = None, dict[str, Retriever]()
    if isinstance(collection, Scenario):
        for read in parsed.values():
            _tell_of_languages(read.first)
    if parsed:
        shop = workshop(
            collection,
            aspect_judge=aspect_judge or partial(judge_of, settings.aspect_judge, collection),
            store=settings.store,
            depth=settings.depth + bool(own_passages(collection)),
            recordings=Path(settings.recordings) if settings.recordings else None,
            scorers=scorers,
        )
        # Of passages without questions, what depends on the questions is made for those that are asked.
        bare = collection.questions == UNASKED
        made = {name: (system.of_passages if bare else system).text for name, system in parsed.items()}
        systems = shop.make([*made.values()])
        built = {name: systems[text] for name, text in made.items()}
        logger.info("models and indexes are ready: %.1f s", time.monotonic() - began)
    for name, system in searching.items():
        if not isinstance(system, str):
            built[name] = over_passages(system, name, collection)
    return {name: HeldRetriever(name, collection, built[name], shop, parsed.get(name)) for name in searching}


def search(
    named: Mapping[str, System],
    collection: Collection,
    k: int,
    settings: Settings,
    *,
    questions: bool = True,
    perspectives: bool = False,
    longer: int = 0,
    **options: Any,
) -> dict[str, pd.DataFrame]:
    """Return the run of each system: its lists for a collection's questions, for their perspectives, or for both.

    Of a finished run, what was not asked is left out; of all runs, the passages of :func:`own_passages`. ``longer``:
    how long lists are, where that is more than k; their first k places are those of a search for k. The options are
    those of :func:`held`.
    """
    retrievers = held(named, collection, settings, **options)
    own = own_passages(collection)
    asked = [collection.questions if questions else (), collection.queries if perspectives else ()]
    runs = {}
    for name, system in bar(named.items(), desc="systems", unit="system"):
        started = time.monotonic()
        if isinstance(system, pd.DataFrame):
            of_these = system[system["qid"].isin(list_ids(collection.questions))]
            runs[name] = without_own(of_these, own, collection.questions)
        else:
            runs[name] = retrievers[name].lists(asked, k)
            if (most := retrievers[name].deepest(longer, settings.depth)) > k:
                runs[name] = _extended(runs[name], retrievers[name].lists(asked, most))
            if not bars_are_seen():  # a line would cut through them
                begin(f"{name}: done, {time.monotonic() - started:.0f} s")
    return runs


@cache
def _tell_of_languages(retriever: str) -> None:
    """Warn, once, of an encoder of English that searches the arguments of PerspectiveArg."""
    if retriever in CARDS and not CARDS[retriever].multilingual:
        told = "%s reads English, and the arguments are German, French and Italian: take multilingual-mpnet"
        logger.warning(told, retriever)


def _extended(run: pd.DataFrame, deeper: pd.DataFrame) -> pd.DataFrame:
    """Return the lists of a run, and behind them what deeper lists hold besides."""
    first = deeper.merge(run[["qid", "docno", "rank"]], on=["qid", "docno"], how="left", suffixes=("", "_of_run"))
    if first["rank_of_run"].fillna(first["rank"]).eq(first["rank"]).all() and run["docno"].isin(deeper["docno"]).all():
        return deeper
    # Some systems, such as those that fuse lists, order the first places in another way when asked for more.
    both = pd.concat([run, deeper]).drop_duplicates(["qid", "docno"])
    return ranked_run({str(qid): part["docno"].tolist() for qid, part in both.groupby("qid", sort=False)})


# ---------------------------------------------------------------- questions that find themselves


def own_passages(collection: Collection) -> set[str]:
    """Return the ids of the questions that stand in the corpus, as in ArguAna and Quora.

    A passage with the id and the text of the question is left out of the question's own list, as BEIR does it
    (`ignore_identical_ids`), unless recorded verdicts say that it is relevant. An equal id alone means nothing.
    """
    corpus = by_docno(collection.passages)
    found = {q.qid for q in collection.questions if (own := corpus.get(q.qid)) is not None and _says_the_same(q, own)}
    if found and collection.gold is not None:
        gold = collection.gold
        found -= set(gold.loc[gold["supports"] & (gold["qid"] == gold["docno"]), "qid"])
    return found


def _says_the_same(question: Question, passage: Passage) -> bool:
    texts = [" ".join(text.split()).casefold() for text in (question.text, passage.text, passage.full_text)]
    return texts[0] in texts[1:]


def own_left_out(collection: Collection) -> str:
    """Say how many questions stand in the corpus; "" for none."""
    if not (own := own_passages(collection)):
        return ""
    verb = "stands" if len(own) == 1 else "stand"
    where = f"{len(own)} of {len(collection.questions)} questions {verb} in the corpus under their own ids"
    return f"{where}: left out of their own lists, as in BEIR"


def without_own(run: pd.DataFrame, own: Collected[str], questions: Sequence[Question]) -> pd.DataFrame:
    """Return a run without the passages that are the question itself; `own` is of :func:`own_passages`."""
    is_own = (run["docno"] == run["qid"].map(list_ids(questions))) & run["docno"].isin(own)
    if not is_own.any():
        return run
    rest = run[~is_own].reset_index(drop=True)
    return rest.assign(rank=rest.groupby("qid", sort=False).cumcount() + 1)


def over_passages(system: Given | OwnDense, name: str, collection: Collection) -> Given | Retriever:
    """Return a system as it is, or a model of the user's as a retriever over the passages."""
    return system.over(collection.passages, name) if isinstance(system, OwnDense) else system


def workshop(
    collection: Collection, *, aspect_judge: Callable[[], Judge], store: Store = None, **options: Any
) -> Workshop:
    """Return a workshop of systems over a collection whose aspects a judge sees; for the options see there."""

    def aspects_by(generated: Expansions, passages: Sequence[Passage]) -> AspectsOf:
        return judged_aspects(generated, passages, aspect_judge(), store_of(store))

    return Workshop(collection, aspects_by=aspects_by, **options)


# ---------------------------------------------------------------- verdicts and scores


def pooled(runs: Iterable[pd.DataFrame], questions: Sequence[Question], k: int) -> pd.DataFrame:
    """Return the top k of several runs, lists of perspectives included, as one run, each passage of a question once."""
    owner = list_ids(questions)
    tops = pd.concat([run[(run["rank"] <= k) & run["qid"].isin(owner)] for run in runs])
    tops = tops.assign(qid=tops["qid"].map(owner)).drop_duplicates(["qid", "docno"])
    return ranked_run({str(qid): part["docno"].tolist() for qid, part in tops.groupby("qid", sort=False)})


def judged(runs: Iterable[pd.DataFrame], collection: Collection, judge: Judge, k: int, store: Store) -> pd.DataFrame:
    """Return a judge's verdicts on the :func:`pooled` top k of several runs; a collection needs passages for that."""
    if not collection.passages:
        problem = f"{collection.name!r} has questions only; a judge reads passages: name the corpus"
        raise InputError(problem, field="passages")
    if not isinstance(judge, Gold):
        check_readable(collection)
    pool = pooled(runs, collection.questions, k)
    n = len(collection.questions)
    begin(f"{short_name(judge.id)} judges {len(pool):,} passages of {n:,} question{'s' * (n != 1)}")
    k = max(1, len(pool))
    return judge_run(pool, collection.questions, by_docno(collection.passages), judge, k=k, store=store_of(store))


def warned_of_copies(verdicts: pd.DataFrame, collection: Collection) -> pd.DataFrame:
    """Return a judge's verdicts as they are, and log how many yeses a copied perspective may have brought about."""
    said, passages = {q.qid: q.perspectives for q in collection.questions}, by_docno(collection.passages)
    yes = verdicts.loc[verdicts["supports"], ["qid", "pid", "docno"]].values.tolist()
    copies = [f"{d} for {perspective_qid(q, p)}" for q, p, d in yes if contains_perspective(passages[d], said[q][p])]
    if copies:
        what = "contain the perspective's own words; a judge says yes to that, whatever the rest says"
        logger.warning("%d of %d yeses: the passages %s: %s", len(copies), len(yes), what, ", ".join(copies[:3]))
    return verdicts


def verdicts_on(
    runs: Mapping[str, pd.DataFrame], collection: Collection, judge: Judge | None, k: int, store: Store
) -> pd.DataFrame:
    """Return recorded verdicts (no judge, or gold), or a judge's on the top k of all systems."""
    if judge is not None and not isinstance(judge, Gold):
        return warned_of_copies(judged(runs.values(), collection, judge, k, store), collection)
    recorded = collection.gold if judge is None else judge.verdicts
    if recorded is None:  # only a scenario is scored without
        return make_verdicts([], "gold")
    return recorded[recorded["qid"].isin({q.qid for q in collection.questions})]


def to_be_scored(
    collection: Collection, verdicts: pd.DataFrame, runs: Sequence[pd.DataFrame], recorded: bool | None
) -> list[Question]:
    """Return the questions that are scored, see :func:`~berdslib.evaluation.measures.judged_questions`.

    The answers of a scenario of PerspectiveArg are complete: all of its questions are scored.

    Raises:
        InputError: no question was judged, or the verdicts are about another corpus.
    """
    if isinstance(collection, Scenario):
        return list(collection.questions)
    listed = {docno for run in runs for docno in run["docno"].unique()}
    judged = set(verdicts["docno"].unique())
    recorded_for = set() if collection.gold is None else set(collection.gold["docno"].unique())
    if judged and judged <= recorded_for:
        judged = recorded_for  # of all questions, as these may be a part of them
    if collection.passages and judged and not judged & listed and not notes.in_corpus(judged, collection.passages):
        problem = f"none of the judged passages, such as {min(judged)!r}, is in the corpus or in a run"
        raise InputError(f"{problem}; they are of another corpus", field="docno")
    return judged_questions(collection.questions, verdicts, runs, recorded=recorded)


def scored(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    collection: Collection,
    questions: Sequence[Question],
    measures: Sequence[Measure],
    called: str = "the run",
) -> pd.DataFrame:
    """Return the scores of these questions, a row each; those of a scenario of PerspectiveArg come from its release."""
    if isinstance(collection, Scenario):
        return evaluate_arguments(run, collection, measures)
    run, verdicts = checked(run, verdicts, questions, measures)
    tell_gaps(run, verdicts, questions, measures, called)
    return score_questions(run, verdicts, questions, measures)


def table_notes(
    runs: Mapping[str, pd.DataFrame],
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    collections: Sequence[Collection],
    measures: Sequence[Measure],
    *,
    finished: Iterable[str],
    recorded: bool,
) -> list[str]:
    """Return sentences that belong below a table of scores.

    Args:
        runs: system → run, of all collections.
        verdicts: what they were scored by.
        questions: those that were scored, of all collections.
        collections: what was searched.
        measures: what was computed.
        finished: the systems that did not search here.
        recorded: whether the verdicts were there before.
    """
    asked = [q for one in collections for q in one.questions]
    said = [*map(own_left_out, collections), _own_ids(runs, collections), left_out(len(asked), len(questions))]
    scored_by = verdicts[verdicts["qid"].isin({q.qid for q in questions})]
    if not any(isinstance(one, Scenario) for one in collections):
        judged = notes.places_judged(runs, scored_by, questions, measures)
        said += [judged, notes.pairs_unread(verdicts), notes.grades_used(scored_by, measures)]
        if recorded:
            said += _of_corpora(runs, scored_by, questions, collections, measures, some_unjudged=bool(judged))
    most = max(len(one.passages) for one in collections)
    return [*filter(None, said), *notes.short_lists(runs, questions, measures, list(finished), most)]


def _own_ids(runs: Mapping[str, pd.DataFrame], collections: Sequence[Collection]) -> str:
    """Say how many lists hold the question's own id where no corpus tells whether it is the question itself."""
    owner = {id: qid for one in collections if not one.passages for id, qid in list_ids(one.questions).items()}
    found = sum(int((run["docno"] == run["qid"].map(owner)).sum()) for run in runs.values())
    holds = "1 list holds" if found == 1 else f"{found} lists hold"
    hint = "BEIR leaves it out; with the corpus, it is left out where the texts are equal"
    return f"{holds} a passage with the question's own id ({hint})" if found else ""


def _of_corpora(
    runs: Mapping[str, pd.DataFrame],
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    collections: Sequence[Collection],
    measures: Sequence[Measure],
    *,
    some_unjudged: bool,
) -> list[str]:
    """Say what recorded verdicts and corpora have to do with each other: copies of judged passages, and the ceiling."""
    copies, reachable = Counter[str](), []
    for one in collections:
        mine = [q for q in questions if q.qid in {asked.qid for asked in one.questions}]
        if not one.passages or not mine:
            return []
        if some_unjudged:
            copies.update(notes.copies_listed(runs, verdicts, mine, measures, one.passages))
        reachable.append(notes.within_reach(mine, verdicts, one.passages, runs))
    each = ", ".join(f"{name} {n}" for name, n in copies.items() if n)
    told = f"Unjudged places that hold a copy of a judged passage: {each}" if each else ""
    return [told, notes.ceiling(questions, pd.concat(reachable), measures)]


def number_formats(named: Mapping[str, System], judge_id: str) -> str:
    """Return in which number format encoders and judges computed, "" where none took part or nobody knows."""
    texts = [system for system in named.values() if isinstance(system, str)]
    names = {name for text in texts for name in parse_system(text).encoders}
    ids = [encoding_of(name)[0].id for name in names] + [judge_id]
    return ", ".join(sorted(set(filter(None, map(_number_format, ids)))))


def _number_format(model_id: str) -> str:
    """Return the number format, and the engine if it is not torch, that an encoder's or a judge's id says."""
    if not (found := re.search(r"\b(bfloat16|float16|4bit)\b", model_id)) and not _OF_NETWORKS.search(model_id):
        return ""
    engine = " (openvino)" if "openvino" in model_id else ""
    return (found[1] if found else "float32") + engine


def check_belongs(what: str, frame: pd.DataFrame, questions: Sequence[Question]) -> None:
    """Refuse a run or verdicts of which nothing is about the questions."""
    if len(frame) and not frame["qid"].isin(list_ids(questions)).any():
        there = f"{frame['qid'].iloc[0]!r} against {questions[0].qid!r} …"
        raise InputError(f"{what} and the questions do not belong together: {there}", field="qid")


def deepest(measures: Sequence[Measure], depth: int | None = None) -> int:
    """Return the largest cut-off: how deep is searched and judged; `depth` for those that look at the whole list."""
    if depth is not None:
        check_k(depth, "depth")
    without = [m for m in measures if cutoff_of(m) is None]
    if bad := [str(m) for m in without if not depth or m.NAME not in _OF_WHOLE_LISTS]:
        hint = f"; only {', '.join(_OF_WHOLE_LISTS)} do without one" if depth else ""
        raise InputError(f"{bad[0]} needs a cut-off, such as {bad[0]}@5{hint}", field="measures")
    return max(depth or 0 if k is None else k for k in map(cutoff_of, measures))
