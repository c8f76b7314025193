"""The steps from a user's arguments to scores: resolve names, build systems, search, pool, judge once, score."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as Collected
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import pandas as pd

from berdslib.data.collection import Collection, Expansions, check_corpus
from berdslib.data.corpus import by_docno
from berdslib.data.datasets import load
from berdslib.data.passages import without_duplicates
from berdslib.data.records import (
    AnyQuery,
    Passage,
    Query,
    Question,
    check_k,
    counted,
    ids_searched,
    list_ids,
    make_verdicts,
    no_repeats,
    perspective_qid,
    ranked_run,
    some_of,
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
    reads_texts,
    score_questions,
    tell_gaps,
)
from berdslib.files import StrPath
from berdslib.judging.base import Judge, contains_perspective, short_name
from berdslib.judging.baselines import Gold
from berdslib.judging.refit import Refit
from berdslib.judging.registry import as_judge, make_judge
from berdslib.judging.store import VerdictStore, check_threshold, judge_run, judged_aspects
from berdslib.models.cards import CARDS
from berdslib.models.vectors import computing_anyway
from berdslib.progress import bar, bars_are_seen, begin
from berdslib.retrieval.base import CheckedRetriever, Retriever, run_of, warn_of_empty_lists
from berdslib.retrieval.diversify import AspectsOf
from berdslib.retrieval.rerank import Scorer
from berdslib.retrieval.retrievers import OwnDense, encoding_of
from berdslib.retrieval.systems import System as Parsed
from berdslib.retrieval.systems import Workshop, canonical, parse_system
from berdslib.study.published import read_shipped

logger = logging.getLogger(__name__)

AnyJudge = Judge | Callable[..., Any] | str | None
Data = Collection | str | Path
Store = VerdictStore | str | Path | None
_OF_WHOLE_LISTS = ("RR", "AP", "nDCG")  # trec_eval computes these without a cut-off
_NUMBERED = re.compile(r"subtopic \d+")  # the name of a perspective of which only the number is known
UNASKED = (Question("", ""),)  # the questions of a collection with passages only
_OF_NETWORKS = re.compile(r"\||^(echo1:)?laptop\(")  # ids of our encoders and judges; they do not mention float32
AnySystem = str | Retriever | OwnDense | pd.DataFrame
Given = TypeVar("Given")
Systems = AnySystem | Sequence[AnySystem] | Mapping[str, AnySystem]


@dataclass(frozen=True)
class Settings:
    """How systems search and which judge is used: keyword arguments that several functions of the front door share."""

    judge: AnyJudge = None
    aspect_judge: AnyJudge = "laptop"
    depth: int = 100
    recordings: StrPath | None = None
    store: Store = None

    def __post_init__(self) -> None:
        check_k(self.depth, "depth")
        if self.store is not None:  # None: the store in the user's cache, opened when it is needed
            object.__setattr__(self, "store", store_of(self.store))


# ---------------------------------------------------------------- arguments of users


def named_systems(systems: Systems) -> dict[str, AnySystem]:
    """Return name → system: strings name themselves, retrievers have names, and runs are checked.

    If a list has a system twice, perhaps in two spellings ("bm25+mmr:.9", "BM25+mmr:0.90"), the first name is kept.
    """
    if isinstance(systems, Mapping):
        pairs = list(systems.items())
    else:
        several = systems if isinstance(systems, Sequence) and not isinstance(systems, str) else [systems]
        pairs = _without_repeats([(_name_of(system), system) for system in several])
    if not pairs:
        raise InputError("at least one system is needed, such as 'bm25'", field="systems")
    named: dict[str, AnySystem] = {}
    for name, system in pairs:
        if name in named:
            raise InputError(f"two systems are called {name!r}; give a mapping name → system")
        named[name] = _as_system(name, system)
    return named


def _without_repeats(named: Sequence[tuple[str, AnySystem]]) -> list[tuple[str, AnySystem]]:
    kept: dict[object, tuple[str, AnySystem]] = {}
    for place, (name, system) in enumerate(named):
        # Only strings can be compared; two other systems with the same name are refused later.
        meaning = canonical(name) if isinstance(system, str) else place
        if meaning in kept:
            logger.warning("%r and %r are the same system; the table has one row for both", kept[meaning][0], name)
        kept.setdefault(meaning, (name, system))
    return list(kept.values())


def named_as(name: str, named: Mapping[str, AnySystem]) -> str:
    """Return the name of the system that a string denotes, perhaps in another spelling; else the string itself."""
    if name in named:
        return name
    try:
        meaning = canonical(name)
    except InputError:
        return name
    for other, system in named.items():
        if isinstance(system, str) and canonical(other) == meaning:
            return other
    return name


def _as_system(name: object, system: Any) -> AnySystem:
    if not isinstance(name, str):
        problem = f"the name of a system must be a string, not {type(name).__name__}: {name!r}"
        raise InputError(problem, field="systems")
    if isinstance(system, type):
        raise InputError(f"{system.__name__} is a class; give an instance of it", field="systems")
    if isinstance(system, pd.DataFrame):
        return run_of(name, system)
    if isinstance(system, str | OwnDense):
        return system
    if _transforms(system):
        return CheckedRetriever(name, _Transformer(name, system))
    if _searches(system):
        return CheckedRetriever(name, system)
    kinds = "a string such as 'minilm+mmr:0.9', a finished run, or an object with a method search(questions, k)"
    problem = f"a system is {kinds}; {name!r} is of type {type(system).__name__}"
    if callable(system) or hasattr(system, "encode"):
        problem += "; register a model under a name first: bd.register('retriever', 'mine', bd.dense(model))"
    raise InputError(problem, field="systems")


def _searches(system: object) -> bool:
    return callable(getattr(system, "search", None))


def _transforms(system: object) -> bool:
    """Return whether a system ranks with `transform`: PyTerrier's own `search` takes a single text."""
    if not callable(getattr(system, "transform", None)):
        return False
    of_pyterrier = any(kind.__module__.startswith("pyterrier") for kind in type(system).__mro__)
    return of_pyterrier or not _searches(system)


def _name_of(system: AnySystem) -> str:
    if isinstance(system, str):
        return system.strip()
    if isinstance(system, pd.DataFrame):
        raise InputError("a finished run has no name; give a mapping such as {'theirs': run}")
    return str(getattr(system, "name", "") or type(system).__name__)


class _Transformer:
    """A PyTerrier transformer as a retriever: it takes topics (qid, query) and returns ranked documents."""

    def __init__(self, name: str, transformer: Any) -> None:
        self.name = name
        self._transformer = transformer

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:  # noqa: ARG002 # transformers ignore k
        """Return the transformer's lists in full, of any length."""
        topics = pd.DataFrame({"qid": [q.qid for q in questions], "query": [q.text for q in questions]})
        run: pd.DataFrame = self._transformer.transform(topics)
        return run


def are_questions(data: object) -> TypeGuard[Sequence[Question]]:
    """Return whether `data` is a list of questions, which may be empty."""
    return isinstance(data, list | tuple) and all(isinstance(item, Question) for item in data)


def _is_asked(data: object) -> bool:
    """Return whether `data` is a question or a list of at least one question."""
    return isinstance(data, Question) or (are_questions(data) and bool(data))


def collection_of(data: Data) -> Collection:
    """Return a collection, loading it if a name or a path is given."""
    if isinstance(data, Collection):
        return data
    if isinstance(data, str | Path):
        return load(data)
    problem = f"a collection or its name is needed, not {type(data).__name__}"
    if _is_asked(data):
        problem = "questions alone cannot be searched or judged"
    raise InputError(f"{problem}; bd.Collection(name, questions, passages) makes a collection", field="data")


def collections_of(data: Data | Sequence[Data]) -> list[Collection]:
    """Return one or several collections as a list."""
    if not isinstance(data, list | tuple) or _is_asked(data):
        return [collection_of(data)]  # type: ignore[arg-type] # refuses anything else
    if not data:
        raise InputError("at least one collection is needed, such as bd.load('sample')", field="data")
    return [collection_of(item) for item in data]


def store_of(store: Store) -> VerdictStore:
    """Return a store of verdicts: the given store, a store in a file, or by default the store in the user's cache."""
    if isinstance(store, VerdictStore):
        return store
    if store is not None and not isinstance(store, str | Path):
        raise InputError(f"a store of verdicts or its file is needed, not {type(store).__name__}", field="store")
    return VerdictStore(None if store is None else Path(store))


def is_recorded(judge: AnyJudge) -> bool:
    """Return whether a judge stands for the recorded verdicts: None or "gold"."""
    return judge is None or (isinstance(judge, str) and judge.strip() == "gold")


def judge_of(judge: AnyJudge, collection: Collection) -> Judge:
    """Return a judge from a name, a judge or a function; None stands for the recorded verdicts."""
    if is_recorded(judge):
        if collection.gold is None:
            raise InputError(f"{collection.name!r} has no recorded verdicts; name one, such as 'laptop'", field="judge")
        return Gold(collection.gold)
    found = make_judge(judge.strip(), collection.gold) if isinstance(judge, str) else as_judge(judge)
    return check_threshold(found)


def recorded_by(verdicts: pd.DataFrame) -> str:
    """Return the judge that recorded verdicts name; "gold" if they name several."""
    names = verdicts["judge"].unique()
    return str(names[0]) if len(names) == 1 else "gold"


def caution(judge: AnyJudge) -> str:
    """Say how well a judge that we or the user measured, given by name, agrees with people; "" for any other judge."""
    if isinstance(judge, str) and judge.startswith("refit:"):
        fitted = make_judge(judge)
        return f"{short_name(fitted.id)}: {fitted.note}" if isinstance(fitted, Refit) else ""
    name = judge.strip().casefold() if isinstance(judge, str) else ""
    ours = read_shipped("ours")
    measured = ours[(ours["table"] == "BeRDS 4") & (ours["measure"] == "f1") & (ours["system"] == name)]
    if measured.empty:
        return ""
    found = measured.iloc[0]
    return f"{name} often errs: F1 {found['value']} [{found['low']}, {found['high']}] against people's labels"


def check_readable(collection: Collection) -> None:
    """Refuse perspectives that are mere subtopic numbers, since a judge needs their texts."""
    numbered = [q for q in collection.questions if any(map(_NUMBERED.fullmatch, q.perspectives))]
    if numbered:
        some = some_of(len(numbered), len(collection.questions), "question", "have")
        hint = "a judge reads the texts of perspectives; add them, or score by recorded verdicts"
        problem = f"{some} numbered subtopics in place of perspectives, such as {numbered[0].qid!r}"
        raise InputError(f"{problem}; {hint}", field="perspectives")


# ---------------------------------------------------------------- runs


class HeldRetriever:
    """A system over a corpus, built once by :func:`berdslib.retriever`, with its index, vectors and models.

    ``built`` searches for the questions of the collection. If a system depends on the questions, for example because it
    expands them, the workshop builds another retriever for other questions.
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
        """Name the system and its corpus."""
        return f"{self.name} over {counted(len(self.collection.passages), 'passage')} of {self.collection.name}"

    def search(
        self,
        questions: Sequence[AnyQuery | str] | AnyQuery | str | None = None,
        k: int = 100,
        *,
        perspectives: bool = False,
    ) -> pd.DataFrame:
        """Return the run of some questions: frame qid, docno, rank, score.

        Args:
            questions: a question, a query made from a question, or a text, which is its own id; or a list of these;
                None for the questions of the collection.
            k: number of passages in each list.
            perspectives: also search for each question from each of its perspectives, as p-Recall needs it.

        Raises:
            InputError: no questions, a question that cannot be used, or k is not a positive whole number.
        """
        check_k(k)
        collection = self.collection
        asked: Sequence[AnyQuery] = collection.questions
        if isinstance(questions, str | Question | Query):
            questions = [questions]
        if questions is not None:
            asked = [Question(q, q) if isinstance(q, str) else q for q in questions]
            collection = collection.only(_questions_of(asked))
        elif collection.questions == UNASKED:
            raise InputError("the collection has passages only; give questions to search for", field="questions")
        queries = collection.queries if perspectives else ()
        no_repeats((query.qid for query in [*asked, *queries]), "query id", "qid")
        run = self.lists([asked, queries], k, collection)
        warn_of_empty_lists(run, [*asked, *queries], self.name)
        return run

    def lists(self, asked: Sequence[Sequence[AnyQuery]], k: int, collection: Collection | None = None) -> pd.DataFrame:
        """Search for each list of questions separately, and return the lists found as one run.

        The questions belong to `collection`; None for the collection of this retriever.
        """
        retriever = self._built
        own = self._own
        if collection is None:
            collection = self.collection
        if collection is not self.collection:
            retriever = self._over(collection)
            own = own_passages(collection)
        depth = k + bool(own)  # one more passage, in case a question's own passage is left out
        runs = [retriever.search(questions, depth) for questions in asked if questions]
        run = without_own(pd.concat(runs, ignore_index=True), own, collection.questions)
        return run[run["rank"] <= k].reset_index(drop=True)

    def milliseconds(self, asked: Sequence[AnyQuery], k: int) -> list[float]:
        """Return how long each query takes if it is searched alone, its encoding included."""
        times = []
        with computing_anyway():
            for query in asked:
                started = time.perf_counter()
                self.lists([[query]], k)
                times.append(1000 * (time.perf_counter() - started))
        return times

    def deepest(self, longest: int, depth: int) -> int:
        """Return the largest length of lists: a system that chooses among candidates lists at most `depth` passages."""
        return min(longest, depth) if self._system and self._system.chooses else longest

    def _over(self, collection: Collection) -> Retriever:
        """Return a retriever for the questions of another collection over the same corpus."""
        if self._shop is None or self._system is None or self._system == self._system.of_passages:
            return self._built
        own = {question.qid: question for question in self.collection.questions}
        if all(own.get(q.qid) == q for q in collection.questions):
            return self._built
        return self._shop.beside(collection).make([self._system.text])[self._system.text]


def _questions_of(asked: Sequence[AnyQuery]) -> list[Question]:
    """Return the questions in `asked`, then the questions that its queries were made from, each once."""
    questions = [question for question in asked if not isinstance(question, Query)]
    made_from = {query.question.qid: query.question for query in asked if isinstance(query, Query)}
    return questions + [question for question in made_from.values() if question not in questions]


def held(
    named: Mapping[str, AnySystem],
    collection: Collection,
    settings: Settings,
    *,
    aspect_judge: Callable[[], Judge] | None = None,
    scorers: dict[str, Scorer] | None = None,
) -> dict[str, HeldRetriever]:
    """Return a retriever over a collection for each system that searches; finished runs are left out.

    ``aspect_judge`` returns the aspect judge of the settings if several collections share it. ``scorers`` are loaded
    cross-encoders of :class:`berdslib.retrieval.systems.Workshop`, which builds once the parts that systems share.
    """
    began = time.monotonic()
    searching = {name: system for name, system in named.items() if not isinstance(system, pd.DataFrame)}
    parsed = {name: parse_system(system) for name, system in searching.items() if isinstance(system, str)}
    if searching:
        sizes = f"{counted(len(collection.questions), 'question')}, {counted(len(collection.passages), 'passage')}"
        begin(f"{collection.name}: {sizes}; preparing models and indexes for {', '.join(searching)}")
    shop = None
    built = dict[str, Retriever]()
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
        # Without questions, only the parts that depend on the passages can be built now.
        bare = collection.questions == UNASKED
        texts = {name: (system.of_passages if bare else system).text for name, system in parsed.items()}
        systems = shop.make([*texts.values()])
        built = {name: systems[text] for name, text in texts.items()}
        logger.info("models and indexes are ready: %.1f s", time.monotonic() - began)
    for name, system in searching.items():
        if not isinstance(system, str):
            built[name] = over_passages(system, name, collection)
    return {name: HeldRetriever(name, collection, built[name], shop, parsed.get(name)) for name in searching}


def run_systems(
    named: Mapping[str, AnySystem],
    collection: Collection,
    k: int,
    settings: Settings,
    *,
    questions: bool = True,
    perspectives: bool = False,
    longer: int = 0,
    times: dict[str, list[float]] | None = None,
    **options: Any,
) -> dict[str, pd.DataFrame]:
    """Return the run of each system: its lists for a collection's questions, for their perspectives, or for both.

    The lists of other questions are dropped from finished runs, and the passages of :func:`own_passages` from all runs.
    If ``longer`` exceeds k, lists have that length, and their first k passages are those of a search for k. ``times``
    gets the milliseconds of each query for each system that searches. The options are those of :func:`held`.
    """
    retrievers = held(named, collection, settings, **options)
    own = own_passages(collection)
    asked = [
        collection.questions if questions else (),
        collection.queries if perspectives else (),
    ]
    runs = {}
    for name, system in bar(named.items(), desc="systems", unit="system"):
        started = time.monotonic()
        if isinstance(system, pd.DataFrame):
            of_these = system[system["qid"].isin(list_ids(collection.questions))]
            runs[name] = without_own(of_these, own, collection.questions)
        else:
            runs[name] = retrievers[name].lists(asked, k)
            if times is not None:
                times.setdefault(name, []).extend(retrievers[name].milliseconds([*asked[0], *asked[1]], k))
            longest = retrievers[name].deepest(longer, settings.depth)
            if longest > k:
                runs[name] = _extended(runs[name], retrievers[name].lists(asked, longest))
            if not bars_are_seen():  # a line would break the bar
                begin(f"{name}: done, {time.monotonic() - started:.0f} s")
    return runs


@cache
def _tell_of_languages(retriever: str) -> None:
    """Warn, once, if an English encoder searches the arguments of PerspectiveArg."""
    if retriever in CARDS and not CARDS[retriever].multilingual:
        warning = "%s reads English, but the arguments are German, French and Italian: use multilingual-mpnet"
        logger.warning(warning, retriever)


def _extended(run: pd.DataFrame, deeper: pd.DataFrame) -> pd.DataFrame:
    """Return the lists of a run, each followed by the further passages of the deeper list."""
    keys = ["qid", "docno"]
    merged = deeper.merge(run[[*keys, "rank"]], on=keys, how="left", suffixes=("", "_of_run"))
    same_ranks = merged["rank_of_run"].fillna(merged["rank"]).eq(merged["rank"]).all()
    if same_ranks and run["docno"].isin(deeper["docno"]).all():
        return deeper
    # Some systems, such as those that fuse lists, order the first places differently in longer lists.
    return _reranked(pd.concat([run, deeper]).drop_duplicates(keys))


def _reranked(listed: pd.DataFrame) -> pd.DataFrame:
    """Return a run with the passages of each list in the order of the rows."""
    lists = listed.groupby("qid", sort=False)["docno"].agg(list)
    return ranked_run({str(qid): docnos for qid, docnos in lists.items()})


# ---------------------------------------------------------------- questions that retrieve themselves


def own_passages(collection: Collection) -> set[str]:
    """Return the ids of questions that are also passages of the corpus, as in ArguAna and Quora.

    A passage with the id and the text of the question is left out of the question's own list, as in BEIR
    (`ignore_identical_ids`), unless recorded verdicts say that it is relevant. Equal ids without equal texts do not
    count.
    """
    corpus = by_docno(collection.passages)
    own = set()
    for question in collection.questions:
        passage = corpus.get(question.qid)
        if passage is not None and _have_the_same_text(question, passage):
            own.add(question.qid)
    gold = collection.gold
    if own and gold is not None:
        own -= set(gold.loc[gold["supports"] & (gold["qid"] == gold["docno"]), "qid"])
    return own


def _have_the_same_text(question: Question, passage: Passage) -> bool:
    texts = []
    for text in (question.text, passage.text, passage.full_text):
        texts.append(" ".join(text.split()).casefold())
    return texts[0] in texts[1:]


def own_left_out(collection: Collection) -> str:
    """Describe how many questions are in the corpus; "" if no question is."""
    own = own_passages(collection)
    if not own:
        return ""
    where = some_of(len(own), len(collection.questions), "question", "stand")
    return f"{where} in the corpus under their own ids: left out of their own lists, as in BEIR"


def without_own(run: pd.DataFrame, own: Collected[str], questions: Sequence[Question]) -> pd.DataFrame:
    """Return a run without passages that equal their question; `own` comes from :func:`own_passages`."""
    owners = run["qid"].map(list_ids(questions))
    is_own = (run["docno"] == owners) & run["docno"].isin(own)
    if not is_own.any():
        return run
    rest = run[~is_own].reset_index(drop=True)
    return rest.assign(rank=rest.groupby("qid", sort=False).cumcount() + 1)


def over_passages(system: Given | OwnDense, name: str, collection: Collection) -> Given | Retriever:
    """Return a retriever unchanged, or a retriever over the passages for a user's model."""
    if isinstance(system, OwnDense):
        return system.over(collection.passages, name)
    return system


def workshop(
    collection: Collection, *, aspect_judge: Callable[[], Judge], store: Store = None, **options: Any
) -> Workshop:
    """Return a :class:`Workshop` for systems over a collection; `aspect_judge` judges generated perspectives."""

    def aspects_by(generated: Expansions, passages: Sequence[Passage]) -> AspectsOf:
        return judged_aspects(generated, passages, aspect_judge(), store_of(store))

    return Workshop(collection, aspects_by=aspects_by, **options)


# ---------------------------------------------------------------- verdicts and scores


def pooled(runs: Iterable[pd.DataFrame], questions: Sequence[Question], k: int) -> pd.DataFrame:
    """Pool the top k of runs, lists of perspectives included, into one run that repeats no passage of a question."""
    owner = list_ids(questions)
    tops = []
    for run in runs:
        tops.append(run[(run["rank"] <= k) & run["qid"].isin(owner)])
    pool = pd.concat(tops)
    pool = pool.assign(qid=pool["qid"].map(owner))
    return _reranked(pool.drop_duplicates(["qid", "docno"]))


def judged(runs: Iterable[pd.DataFrame], collection: Collection, judge: Judge, k: int, store: Store) -> pd.DataFrame:
    """Return a judge's verdicts on the :func:`pooled` top k of several runs; the collection must have passages."""
    check_corpus(collection)
    if not isinstance(judge, Gold):
        check_readable(collection)
    pool = pooled(runs, collection.questions, k)
    n = len(collection.questions)
    passages = by_docno(collection.passages)
    copies = _copies_in(pool, passages)
    repeated = f"; copies of another among them: {copies}" if copies else ""
    begin(f"{short_name(judge.id)} judges {len(pool):,} passages of {counted(n, 'question')}{repeated}")
    whole = max(1, len(pool))
    return judge_run(pool, collection.questions, passages, judge, k=whole, store=store_of(store))


def _copies_in(pool: pd.DataFrame, passages: Mapping[str, Passage]) -> int:
    """Return how many passages of a pool have the text of an earlier one of the same question."""
    copies = list[str]()
    for _, docnos in pool.groupby("qid")["docno"]:
        known_ones = [passages[docno] for docno in docnos if docno in passages]
        deque(without_duplicates(known_ones, copies), maxlen=0)
    return len(copies)


def warned_of_copies(verdicts: pd.DataFrame, collection: Collection) -> pd.DataFrame:
    """Return a judge's verdicts unchanged, and log how many yeses are for passages that contain the perspective."""
    perspectives = {q.qid: q.perspectives for q in collection.questions}
    passages = by_docno(collection.passages)
    yes = verdicts.loc[verdicts["supports"], ["qid", "pid", "docno"]].values.tolist()
    copies = []
    for qid, pid, docno in yes:
        if contains_perspective(passages[docno], perspectives[qid][pid]):
            copies.append(f"{docno} for {perspective_qid(qid, pid)}")
    if copies:
        problem = "contain the perspective's own words; a judge says yes to that, whatever the rest says"
        logger.warning("%d of %d yeses: the passages %s: %s", len(copies), len(yes), problem, ", ".join(copies[:3]))
    return verdicts


def verdicts_on(
    runs: Mapping[str, pd.DataFrame], collection: Collection, judge: Judge | None, k: int, store: Store
) -> pd.DataFrame:
    """Return the recorded verdicts (for no judge, or gold), or a judge's verdicts on the top k of all systems."""
    if judge is not None and not isinstance(judge, Gold):
        return warned_of_copies(judged(runs.values(), collection, judge, k, store), collection)
    recorded = collection.gold if judge is None else judge.verdicts
    if recorded is None:  # a scenario may be scored without verdicts
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
        judged = recorded_for  # the verdicts may cover some questions only
    is_foreign = bool(collection.passages and judged) and not judged & listed
    if is_foreign and not notes.in_corpus(judged, collection.passages):
        problem = f"none of the judged passages, such as {min(judged)!r}, is in the corpus or in a run"
        raise InputError(f"{problem}; the verdicts are on another corpus", field="docno")
    return judged_questions(collection.questions, verdicts, runs, recorded=recorded)


def scored(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    collection: Collection,
    questions: Sequence[Question],
    measures: Sequence[Measure],
    called: str = "the run",
) -> pd.DataFrame:
    """Return the scores of these questions, one row each; a scenario of PerspectiveArg is scored by its release."""
    if isinstance(collection, Scenario):
        return evaluate_arguments(run, collection, measures)
    run, verdicts = checked(run, verdicts, questions, measures)
    tell_gaps(run, verdicts, questions, measures, called)
    passages = by_docno(collection.passages) if collection.passages and any(map(reads_texts, measures)) else None
    return score_questions(run, verdicts, questions, measures, passages)


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
    """Return the notes below a table of scores, as sentences.

    Args:
        runs: system → run over all collections.
        verdicts: the verdicts that gave the scores.
        questions: the scored questions of all collections.
        collections: the collections that were searched.
        measures: the measures of the table.
        finished: the systems that were given as finished runs.
        recorded: whether the verdicts were recorded before the search.
    """
    number_asked = sum(len(collection.questions) for collection in collections)
    sentences = [*map(own_left_out, collections), _own_ids(runs, collections)]
    sentences.append(left_out(number_asked, len(questions)))
    if not set(runs) <= {*finished}:
        sentences.append(ids_searched(questions))
    scored_by = verdicts[verdicts["qid"].isin({q.qid for q in questions})]
    if not any(isinstance(collection, Scenario) for collection in collections):
        judged = notes.places_judged(runs, scored_by, questions, measures)
        sentences += [judged, notes.pairs_unread(verdicts), notes.grades_used(scored_by, measures)]
        if recorded:
            some_unjudged = bool(judged)
            sentences += _of_corpora(runs, scored_by, questions, collections, measures, some_unjudged=some_unjudged)
    largest = max(len(collection.passages) for collection in collections)
    short = notes.short_lists(runs, questions, measures, list(finished), largest)
    return [*filter(None, sentences), *short]


def _own_ids(runs: Mapping[str, pd.DataFrame], collections: Sequence[Collection]) -> str:
    """Describe lists with the question's own id, for collections without a corpus to compare texts with."""
    owner: dict[str, str] = {}
    for collection in collections:
        if not collection.passages:
            owner |= list_ids(collection.questions)
    count = 0
    for run in runs.values():
        count += int((run["docno"] == run["qid"].map(owner)).sum())
    if not count:
        return ""
    holds = "1 list holds" if count == 1 else f"{count} lists hold"
    hint = "BEIR leaves it out; with the corpus, it is left out where the texts are equal"
    return f"{holds} a passage with the question's own id ({hint})"


def _of_corpora(
    runs: Mapping[str, pd.DataFrame],
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    collections: Sequence[Collection],
    measures: Sequence[Measure],
    *,
    some_unjudged: bool,
) -> list[str]:
    """Return notes on recorded verdicts that need the corpora: copies of judged passages, and the ceiling."""
    copies = Counter[str]()
    reachable = []
    for collection in collections:
        qids = {q.qid for q in collection.questions}
        asked = [q for q in questions if q.qid in qids]
        if not collection.passages or not asked:
            return []
        if some_unjudged:
            copies.update(notes.copies_listed(runs, verdicts, asked, measures, collection.passages))
        reachable.append(notes.within_reach(asked, verdicts, collection.passages, runs))
    each = ", ".join(f"{name} {n}" for name, n in copies.items() if n)
    copied = f"Unjudged places that hold a copy of a judged passage: {each}" if each else ""
    return [copied, notes.ceiling(questions, pd.concat(reachable), measures)]


def number_formats(named: Mapping[str, AnySystem], judge_id: str) -> str:
    """Return the number format of encoders and judges; "" without models, or if the format is unknown."""
    formats = {_number_format(judge_id)}
    for system in named.values():
        if isinstance(system, str):
            for name in parse_system(system).encoders:
                encoder = encoding_of(name)[0]
                formats.add(_number_format(encoder.id))
    return ", ".join(sorted(filter(None, formats)))


def _number_format(model_id: str) -> str:
    """Read the number format, and the engine if it is not torch, from the id of an encoder or a judge."""
    match = re.search(r"\b(bfloat16|float16|4bit)\b", model_id)
    if match is None and not _OF_NETWORKS.search(model_id):
        return ""
    number_format = match[1] if match else "float32"
    return f"{number_format} (openvino)" if "openvino" in model_id else number_format


def check_belongs(what: str, frame: pd.DataFrame, questions: Sequence[Question]) -> None:
    """Refuse a run or verdicts that share no id with the questions."""
    if len(frame) and not frame["qid"].isin(list_ids(questions)).any():
        ids = f"{frame['qid'].iloc[0]!r} against {questions[0].qid!r} …"
        raise InputError(f"{what} and the questions do not belong together: {ids}", field="qid")


def deepest(measures: Sequence[Measure], depth: int | None = None) -> int:
    """Return the largest cut-off, at which lists end; measures of whole lists count as `depth`."""
    if depth is not None:
        check_k(depth, "depth")
    cutoffs = []
    for measure in measures:
        cutoff = cutoff_of(measure)
        if cutoff is None and (not depth or measure.NAME not in _OF_WHOLE_LISTS):
            hint = f"; only {', '.join(_OF_WHOLE_LISTS)} do without one" if depth else ""
            raise InputError(f"{measure} needs a cut-off, such as {measure}@5{hint}", field="measures")
        cutoffs.append(depth or 0 if cutoff is None else cutoff)
    return max(cutoffs)
