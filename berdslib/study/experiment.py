"""Systems x collections x measures → one table with intervals and tests."""

from __future__ import annotations

import hashlib
import html
import inspect
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data.collection import Collection, Expansions
from berdslib.data.corpus import by_docno
from berdslib.data.records import (
    Passage,
    Question,
    check_k,
    check_questions,
    check_verdicts,
    issue_of,
    list_ids,
    make_verdicts,
    ranked_run,
)
from berdslib.data.scenario import Handout, Scenario
from berdslib.data.trec import write_trec_run, write_verdicts
from berdslib.errors import InputError, known, says_what_it_takes
from berdslib.evaluation import compare
from berdslib.evaluation.argument_task import evaluate_arguments, measures_of_scenario
from berdslib.evaluation.measures import (
    Measure,
    any_list,
    check_without_groups,
    evaluate,
    looks_at_perspectives,
    parse_measures,
    single_perspectives,
)
from berdslib.files import StrPath, write_text
from berdslib.judging.aspects import judged_aspects
from berdslib.judging.base import Judge
from berdslib.judging.baselines import Gold
from berdslib.judging.registry import JUDGES
from berdslib.judging.store import VerdictStore, judge_run
from berdslib.retrieval.base import Retriever, checked_search, run_of
from berdslib.retrieval.diversify import AspectsOf
from berdslib.retrieval.rerank import Scorer
from berdslib.retrieval.systems import Workshop
from berdslib.stats import holm, macro_mean, mean_interval, paired_test
from berdslib.study.apart import Apart, is_ours
from berdslib.study.arguments import AnyJudge, Data, Store, collections_of, is_recorded, judge_of, store_of

logger = logging.getLogger(__name__)

MACRO = "macro"
_MEAN = "Mean over the data sets"
System = str | Retriever | pd.DataFrame


@dataclass(frozen=True, eq=False, repr=False)
class Experiment:
    """What an experiment found; shown, it is the table of the paper.

    Args:
        table: one row per (system, dataset, measure) with n, mean, low, high and, against the baseline, difference and
            p_value (Holm-corrected over the systems); the dataset "macro" is the mean of the data sets' means.
        scores: system → frame (qid x measure).
        runs: system → run. Where p-Recall is asked for, the lists of single perspectives are there too, under the ids
            of :func:`berdslib.data.records.perspective_qid`.
        verdicts: what all systems were scored with.
        judge: id of whoever judged.
        baseline: the system that the others were tested against, or None.
        questions: what was asked, in the order of the scores.
        letters: measure → letters of the systems, see :meth:`with_letters`; None where they are not shown.
    """

    table: pd.DataFrame
    scores: dict[str, pd.DataFrame]
    runs: dict[str, pd.DataFrame]
    verdicts: pd.DataFrame
    judge: str = ""
    baseline: str | None = None
    questions: tuple[Question, ...] = ()
    letters: Mapping[str, pd.Series] | None = None

    @property
    def shown(self) -> pd.DataFrame:
        """The table as the papers print it: a row a system, in percent, with intervals and stars."""
        wide = paper_table(self.table, intervals=True, letters=self.letters)
        several = wide.columns.get_level_values(0).nunique() > 2
        return wide if several else wide[[MACRO]].droplevel(0, axis=1)  # of one data set, the mean says the same again

    @property
    def caption(self) -> str:
        """How the table is to be read: how many questions, of what kind, who judged, what all its marks mean."""
        sizes = self.table[self.table["dataset"] != MACRO].drop_duplicates("dataset")
        n = ", ".join(f"{row.dataset} n = {row.n}" for row in sizes.itertuples())
        single = single_perspectives(self.questions, self.table["measure"].unique())
        n += f"; {single}" if single else ""
        stars = f"; * differs from {self.baseline} (paired test, Holm, p < .05)" if self.baseline else ""
        shared = "; systems that share a letter are not shown to differ (all pairs, Holm)" if self.letters else ""
        return f"Percent with 95% intervals ({self._kinds}); {n}; verdicts: {self.judge}{stars}{shared}."

    @property
    def _kinds(self) -> str:
        """Which intervals :func:`berdslib.stats.mean_interval` took."""
        scores = pd.concat(self.scores.values())
        beyond = scores.columns[((scores < 0) | (scores > 1)).any()].tolist()
        graded = not scores.drop(columns=beyond).isin([0, 1]).all(axis=None)
        wilson = "Wilson; graded scores with their own spread" if graded else "Wilson"
        return f"{wilson}; {', '.join(beyond)}: Student's t" if beyond else wilson

    def pairs(
        self, measure: Measure | str, baselines: str | Iterable[str] | None = None, *, seed: int = 0
    ) -> pd.DataFrame:
        """Compare every two systems by a measure, or each with several baselines.

        Args:
            measure: one that was computed.
            baselines: systems; None for all pairs.
            seed: of the test.

        Returns:
            The frame of :func:`berdslib.evaluation.compare.all_pairs`: differences with intervals and p-values, wins
            and losses, effect sizes; pandas' own ``to_latex`` prints it for a paper.

        Raises:
            InputError: an unknown measure or baseline, or a single system.
        """
        return compare.all_pairs(self.scores, self.questions, str(measure), baselines=baselines, seed=seed)

    def questions_for(
        self, measure: Measure | str, differences: Sequence[float], baselines: str | Iterable[str] | None = None
    ) -> pd.DataFrame:
        """Return how many questions like these would show a difference between systems.

        Args:
            measure: one that was computed.
            differences: true differences that are to be shown with 80 % power at 5 %, such as .02 and .05.
            baselines: systems; None for all pairs.

        Returns:
            The frame of :func:`berdslib.evaluation.compare.questions_for`: a row a pair, a column a difference.

        Raises:
            InputError: an unknown measure or baseline, a single system, or a difference of 0.
        """
        return compare.questions_for(self.scores, self.questions, str(measure), differences, baselines=baselines)

    def with_letters(self, *, seed: int = 0) -> Experiment:
        """Return this experiment shown, also as LaTeX, with letters: systems that share one do not differ.

        Args:
            seed: of the tests.

        Raises:
            InputError: a single system.
        """
        measures = dict.fromkeys(self.table["measure"])
        found = {m: compare.letters(self.scores, self.questions, m, seed=seed) for m in measures}
        return replace(self, letters=found)

    def to_latex(self) -> str:
        """Return the shown table as LaTeX (booktabs)."""
        return str(self.shown.to_latex(escape=True, caption=escape(self.caption), index_names=False))

    def __repr__(self) -> str:
        """Show the table as text."""
        first, *rest = [table.to_string() for table in self._tables()]
        heading = f"{_MEAN}\n" if rest else ""
        return "\n\n".join([heading + first, *rest]) + f"\n{self.caption}"

    def _repr_html_(self) -> str:
        tables = [table.to_html(escape=True) for table in self._tables()]
        heading = f"<p>{_MEAN}</p>" if len(tables) > 1 else ""
        return f"{heading}{''.join(tables)}<p>{html.escape(self.caption)}</p>"

    def _tables(self) -> list[pd.DataFrame]:
        """Return what is shown; of several data sets, intervals for their mean only, or no screen is wide enough."""
        if len(self.shown.columns.names) == 1:
            return [self.shown]
        return [self.shown[[MACRO]].droplevel(0, axis=1), paper_table(self.table).drop(columns=MACRO, level=0)]


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


@says_what_it_takes
def experiment(
    systems: System | Sequence[System] | Mapping[str, System],
    data: Data | Sequence[Data],
    measures: Measure | str | Iterable[Measure | str] = ("MRecall@5", "Precision@5"),
    *,
    judge: AnyJudge = None,
    baseline: str | None = None,
    aspect_judge: AnyJudge = "laptop",
    depth: int = 100,
    recordings: StrPath | None = None,
    store: Store = None,
    seed: int = 0,
) -> Experiment:
    """Run and score several systems on the same questions.

    With a judge, everything that any system lists is judged first, and all systems are scored against that one pool:
    measures with an ideal list (nDCG, alpha-nDCG, ERR-IA, StRecall) would otherwise flatter a system whose own list is
    all that is known. They remain relative to the pool, as does p-Recall with ``hit="recall"``; MRecall, Precision,
    Coverage and p-Recall as the paper has it do not depend on it.
    What several systems list is judged once, with a store or without.

    Args:
        systems: one or several: strings such as "minilm+mmr:0.9", retrievers of your own, or finished runs; a mapping
            name → system where they should be called otherwise, which finished runs need.
        data: what is searched: a collection or the name of one; of several, each is searched and judged by itself, and
            one table shows all.
        measures: such as ``MRecall @ 5`` or "MRecall@5", one or several; the largest cut-off says how deep to retrieve
            and judge. ``pRecall @ 5`` has every question searched from each of its perspectives, too.
        judge: judges what the systems list, against the questions' perspectives: a name such as "laptop", a judge, or a
            function from pairs to probabilities; None for the recorded verdicts.
        baseline: name of the system that the others are tested against.
        aspect_judge: who says how likely a passage argues a *generated* perspective, for systems that use it.
        depth: how many candidates a cross-encoder or a diversifier chooses from.
        recordings: a file of a chat model's answers: what is in it is not asked again, and what is new is added.
        store: where the judges' verdicts are kept, a store or its file; None for the user's cache.
        seed: of the test.

    Raises:
        InputError: no systems, a data set called "macro", an unknown baseline, a measure without cut-off, neither a
            judge nor recorded verdicts, a question that is in two collections, or a system that returns no run; the
            message names the system.
    """
    refuse_collections(systems)
    wanted, collections = parse_measures(measures), collections_of(data)
    named = named_systems(systems, guarded=any(map(hides_profiles, collections)))
    _check(collections, wanted, judge, baseline, named, seed)
    for one in collections:
        check_aspect_judge(aspect_judge, one)
    who = None if is_recorded(judge) else judge_of(judge, collections[0])
    kept, scorers = store_of(store), dict[str, Scorer]()

    @cache  # one judge, or one model, for all collections; and none where no system needs it
    def covering() -> Judge:
        same = who is not None and isinstance(judge, str) and judge == aspect_judge
        found = who if same and who is not None else judge_of(aspect_judge, collections[0])
        if who is not None and found.id == who.id:
            logger.warning("%s both reorders lists and scores them, so what it gains by that is circular", who.id)
        return found

    parts = []
    for one in collections:
        built = build(
            named, one, aspect_judge=covering, depth=depth, recordings=recordings, store=kept, scorers=scorers
        )
        runs = {name: _run(name, system, one, wanted) for name, system in built.items()}
        verdicts = _verdicts(runs, one, wanted, who, kept)
        parts.append((runs, verdicts, {name: scored(run, verdicts, one, wanted) for name, run in runs.items()}))
    # Data sets are told apart by their source; questions from a file of one's own belong to their collection.
    questions = [_counted(q, one) for one in collections for q in one.questions]
    runs = {name: _stacked([runs[name] for runs, _, _ in parts]) for name in named}
    verdicts = check_verdicts(_stacked([verdicts for _, verdicts, _ in parts]))
    scores = {name: pd.concat([scores[name] for _, _, scores in parts]) for name in named}
    table = score_table(scores, questions, baseline=baseline, seed=seed)
    who_judged = who.id if who is not None else "gold"
    return Experiment(table, scores, runs, verdicts, who_judged, baseline, tuple(questions))


def _counted(question: Question, collection: Collection) -> Question:
    """Return a question as the table counts it: with a data set, and in a scenario with the issue it asks about."""
    source = question.source or collection.name
    return question._replace(source=source, root=issue_of(question) if isinstance(collection, Scenario) else "")


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
    """Return systems ready to search a collection: those named by strings are built, the others are as they came.

    They are handed no more than the collection's ``handout``. Where a scenario hides profiles, systems that are not
    ours search in a process of their own, see :mod:`berdslib.study.apart`.

    Arguments and errors as :func:`experiment`, but that ``aspect_judge`` returns the judge, loaded when it is needed,
    and ``scorers`` are those of :func:`berdslib.retrieval.systems.make_systems`.
    """
    check_k(depth, "depth")
    kept = None if recordings is None else Path(recordings).resolve()
    options: dict[str, Any] = {"depth": depth, "recordings": kept}
    handout = collection.handout
    secret = hides_profiles(collection)
    guests = {name for name, s in named.items() if secret and not isinstance(s, pd.DataFrame) and not is_ours(s)}
    texts = [system for name, system in named.items() if isinstance(system, str) and name not in guests]
    making = partial(workshop, handout, aspect_judge=aspect_judge, store=store, scorers=scorers, **options)
    built = making().make(texts) if texts else {}
    ready: dict[str, Retriever | pd.DataFrame] = {}
    for name, system in named.items():
        if name in guests:
            assert not isinstance(system, pd.DataFrame)
            ready[name] = Apart(system, name, handout, kept=[collection.gold], **options)
        else:
            ready[name] = built[system] if isinstance(system, str) else system
    return ready


def workshop(
    collection: Collection, *, aspect_judge: Callable[[], Judge], store: VerdictStore, **options: Any
) -> Workshop:
    """Return a workshop of systems over a collection whose aspects a judge sees; for the options see there."""

    def aspects_by(generated: Expansions, passages: Sequence[Passage]) -> AspectsOf:
        return judged_aspects(generated, passages, aspect_judge(), store)

    return Workshop(collection, aspects_by=aspects_by, **options)


def hides_profiles(collection: Collection) -> bool:
    """Return whether a collection is a scenario whose systems may not see who wrote what."""
    return isinstance(collection, Handout) and collection.hides_profiles


def check_aspect_judge(judge: AnyJudge, collection: Collection) -> None:
    """Refuse a judge of the user's for a system that may not see profiles: it would run beside them.

    Raises:
        InputError: the collection hides profiles, and the judge is none of ours.
    """
    if not hides_profiles(collection):
        return
    ours = isinstance(judge, str) and all(map(JUDGES.is_built_in, (judge.strip(), *judge.strip().split("+"))[1:]))
    if not ours:
        problem = f"{collection.name!r} hides profiles, and a judge of your own would run where they lie"
        raise InputError(f"{problem}; name one that is built in, such as 'laptop'", field="aspect_judge")


def search(
    system: Retriever, collection: Collection, k: int, *, questions: bool = True, perspectives: bool = False
) -> pd.DataFrame:
    """Return what a system finds for the questions of a collection, for their perspectives, or for both, as one run.

    Args:
        system: a retriever.
        collection: whose questions are asked.
        k: passages of each list.
        questions: search each question.
        perspectives: search each question from each of its perspectives, see :attr:`Collection.queries`; these lists
            have ids of their own.

    Raises:
        InputError: k is no whole number from 1, or the system returns no run.
    """
    check_k(k)
    queries = collection.queries if perspectives else []
    asked = [part for part in (list(collection.questions) if questions else [], queries) if part]
    return _stacked([checked_search(system, part, k) for part in asked])


def _run(
    name: str, system: Retriever | pd.DataFrame, collection: Collection, measures: Sequence[Measure]
) -> pd.DataFrame:
    """Return the run of a system, as deep as the measures look, with the lists that they look at."""
    if isinstance(system, pd.DataFrame):
        run = run_of(name, system)
        return run[run["qid"].isin(list_ids(collection.questions))]
    depth = max(m["cutoff"] for m in measures)
    kinds = {"questions": any_list(measures), "perspectives": looks_at_perspectives(measures)}
    return search(system, collection, depth, **kinds)


def _verdicts(
    runs: Mapping[str, pd.DataFrame],
    collection: Collection,
    measures: Sequence[Measure],
    judge: Judge | None,
    store: VerdictStore,
) -> pd.DataFrame:
    """Return recorded verdicts, or those of a judge on everything that any system lists."""
    if isinstance(collection, Scenario) and collection.gold is None:
        return make_verdicts([], "gold")
    judge = judge or judge_of(None, collection)
    if isinstance(judge, Gold):
        return judge.verdicts[judge.verdicts["qid"].isin({q.qid for q in collection.questions})]
    return judged(runs.values(), collection, judge, max(m["cutoff"] for m in measures), store)


def scored(
    run: pd.DataFrame, verdicts: pd.DataFrame | None, collection: Collection, measures: Sequence[Measure]
) -> pd.DataFrame:
    """Return the scores of a run, a row a question; those of a scenario of PerspectiveArg come from its release.

    Raises:
        InputError: as :func:`berdslib.evaluation.measures.evaluate` or
            :func:`berdslib.evaluation.argument_task.evaluate_arguments`.
    """
    if isinstance(collection, Scenario):
        return evaluate_arguments(run, collection, measures)
    return evaluate(run, verdicts, collection.questions, measures)  # type: ignore[arg-type] # None is refused there


def judged(
    runs: Iterable[pd.DataFrame], collection: Collection, judge: Judge, k: int, store: VerdictStore
) -> pd.DataFrame:
    """Return a judge's verdicts on the top k of several runs, see :func:`pooled`.

    Raises:
        InputError: a collection without passages, or a run that lists one it does not have.
    """
    if not collection.passages:
        problem = f"{collection.name!r} has questions only; a judge reads passages: name the corpus"
        raise InputError(problem, field="passages")
    pool = pooled(runs, collection.questions, k)
    return judge_run(pool, collection.questions, by_docno(collection.passages), judge, k=max(1, len(pool)), store=store)


def pooled(runs: Iterable[pd.DataFrame], questions: Sequence[Question], k: int) -> pd.DataFrame:
    """Return the top k of several runs as one run, each passage of a question once.

    What a question found from one of its perspectives counts as found by the question.
    """
    owner = list_ids(questions)
    tops = pd.concat([run[(run["rank"] <= k) & run["qid"].isin(owner)] for run in runs])
    tops = tops.assign(qid=tops["qid"].map(owner)).drop_duplicates(["qid", "docno"])
    return ranked_run({str(qid): part["docno"].tolist() for qid, part in tops.groupby("qid", sort=False)})


def _stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


def named_systems(
    systems: System | Sequence[System] | Mapping[str, System], *, guarded: bool = False
) -> dict[str, System]:
    """Return name → system; a string is its own name, and a retriever says what it is called.

    Where they are `guarded`, none of a retriever's code is run for that.
    """
    if isinstance(systems, Mapping):
        found = dict(systems)
    else:
        several = [systems] if isinstance(systems, str | pd.DataFrame) or not isinstance(systems, Sequence) else systems
        names = [name_of(system, guarded=guarded) for system in several]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise InputError(f"two systems are called {twice[0]!r}; give a mapping, name → system")
        found = dict(zip(names, several, strict=True))
    if not found:
        raise InputError("at least one system is needed, such as 'bm25'", field="systems")
    for name, system in found.items():
        _check_system(name, system, look=inspect.getattr_static if guarded else getattr)
    return found


def refuse_collections(systems: System | Sequence[System] | Mapping[str, System]) -> None:
    """Raise InputError for a collection where a system is meant: they have been exchanged."""
    given: Any = systems.values() if isinstance(systems, Mapping) else systems
    for one in given if isinstance(given, Iterable) and not isinstance(given, str | pd.DataFrame) else [given]:
        if isinstance(one, Collection):
            _check_system(one.name, one, getattr)


def _check_system(name: object, system: object, look: Callable[..., Any]) -> None:
    kind = type(system).__name__
    if not isinstance(name, str):
        raise InputError(f"a system is called by text, not by {type(name).__name__}: {name!r}", field="systems")
    if isinstance(system, type):
        raise InputError(f"{system.__name__} is a class; give what it makes", field="systems")
    if not isinstance(system, str | pd.DataFrame) and not callable(look(system, "search", None)):
        problem = "a system is a string such as 'minilm+mmr:0.9', a finished run, or has a method search(questions, k)"
        raise InputError(f"{problem}; {name!r} is of type {kind}", field="systems")


def name_of(system: System, *, guarded: bool = False) -> str:
    """Return what a system is called in tables; where it is `guarded`, without running any code of its own.

    Raises:
        InputError: a finished run, which has no name.
    """
    if isinstance(system, str):
        return system.strip()
    if isinstance(system, pd.DataFrame):
        raise InputError("a finished run has no name; give a mapping, {'theirs': run}")
    name = inspect.getattr_static(system, "name", "") if guarded else getattr(system, "name", "")
    return str((name if isinstance(name, str) or not guarded else "") or type(system).__name__)


def _check(
    collections: Sequence[Collection],
    measures: Sequence[Measure],
    judge: AnyJudge,
    baseline: str | None,
    named: Mapping[str, System],
    seed: int,
) -> None:
    for one in collections:
        check_questions(one.questions, need_perspectives=True)
        if isinstance(one, Scenario) and not is_recorded(judge):
            problem = f"{one.name!r} is scored by the answers and profiles of its release, not by a judge"
            raise InputError(problem, field="judge")
        if isinstance(one, Scenario):
            measures_of_scenario(measures)
            continue
        check_without_groups(measures)
        if is_recorded(judge):
            judge_of(None, one)
    if len(collections) > 1 and (bound := [n for n, s in named.items() if not isinstance(s, str | pd.DataFrame)]):
        raise InputError(f"{bound[0]!r} searches one corpus, and there are several; bd.register('retriever', …) a "
                         "function that makes it", field="systems")  # fmt: skip
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise InputError(f"a whole number is needed, not {seed!r}", field="seed")
    everybody = [q for one in collections for q in one.questions]
    if twice := [qid for qid, count in Counter(q.qid for q in everybody).items() if count > 1]:
        raise InputError(f"question {twice[0]!r} is in two collections", field="qid")
    check_questions(everybody)
    _check_names(collections)
    ids = list_ids(everybody)
    given = {name: run_of(name, system) for name, system in named.items() if isinstance(system, pd.DataFrame)}
    given |= {"the judge": judge.verdicts} if isinstance(judge, Gold) else {}
    for name, frame in given.items():
        if len(frame) and not frame["qid"].isin(ids).any():
            there = f"{frame['qid'].iloc[0]!r} against {everybody[0].qid!r} …"
            raise InputError(f"{name} and the questions do not belong together: {there}", field="qid")
    for m in measures:
        if "cutoff" not in m.params:
            raise InputError(f"{m} needs a cut-off, such as {m}@5")
    if baseline is not None:
        known("baseline", baseline, named)


def _check_names(collections: Sequence[Collection]) -> None:
    """Refuse two collections that a table could not tell apart: their questions name no source, and they one name."""
    names = Counter(one.name for one in collections if any(not q.source for q in one.questions))
    if twice := [name for name, count in names.items() if count > 1]:
        raise InputError(f"two collections are called {twice[0]!r}; give one another name", field="name")


# ---------------------------------------------------------------- tables and files


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
        questions: the asked questions. Those made of the same one (a scenario's queries on an issue) are drawn together
            in intervals and tests: they are not independent.
        baseline: name of the system that the others are tested against.
        seed: of the test.

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
