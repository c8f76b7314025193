"""Experiments: score systems on collections by measures, in one table with intervals and tests."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from numbers import Integral
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pandas as pd

from berdslib.data.collection import Collection
from berdslib.data.records import Question, check_k, check_questions
from berdslib.data.scenario import Scenario
from berdslib.data.tables import read_json, read_jsonl, write_jsonl
from berdslib.data.trec import read_run, read_verdicts, write_trec_run, write_verdicts
from berdslib.errors import InputError, known, printable
from berdslib.evaluation import compare
from berdslib.evaluation import measures as measuring
from berdslib.evaluation.arguments import measures_of_scenario
from berdslib.evaluation.measures import Measure
from berdslib.evaluation.oracle import oracle
from berdslib.files import StrPath, atomic_path, write_text
from berdslib.judging.base import Judge, short_name
from berdslib.judging.baselines import Gold
from berdslib.retrieval.retrievers import OwnDense
from berdslib.study import scoring
from berdslib.study.metadata import metadata_path, record_of, write_ir_metadata
from berdslib.study.notebooks import environment
from berdslib.study.scoring import AnyJudge, AnySystem, Data, Settings, Store, Systems, is_recorded, judge_of
from berdslib.study.tables import (
    MACRO,
    WHY_NO_INTERVAL,
    Shown,
    as_latex,
    escape,
    file_stems,
    paper_table,
    score_table,
    splits,
    write_csv,
)
from berdslib.version import __version__

logger = logging.getLogger(__name__)
SETTINGS = "experiment.json"  # in a folder of results: its settings and the names of its files
_EACH = "per_question.csv"
_QUESTIONS = "questions.jsonl"
_TIME = "milliseconds"


@dataclass(frozen=True, eq=False, repr=False)
class Experiment(Shown):
    """The result of an experiment; it prints as the table of the paper.

    Args:
        table: one row per (system, dataset, measure) with n, mean, low, high and, against the baseline, difference and
            p_value (Holm-corrected over the systems); the dataset "macro" is the mean of the data sets' means. If the
            search was timed also milliseconds: the median over the questions, NaN for a finished run.
        scores: system → frame (qid x measure).
        runs: system → run. For p-Recall they also hold the lists of single perspectives, under the ids of
            :func:`berdslib.data.records.perspective_qid`.
        verdicts: the verdicts that scored all systems.
        judge: the judge's id; the caption shows its :func:`~berdslib.judging.base.short_name`.
        baseline: the system that the others were tested against, or None.
        questions: the scored questions, in the order of the scores.
        letters: measure → letters of the systems, see :meth:`with_letters`; None if they are not shown.
        notes: further sentences for readers: questions left out, places without verdicts, short lists.
        number_format: the number format of encoders and judges, such as "bfloat16"; "" without models.
        seed: the seed of the test.
    """

    table: pd.DataFrame
    scores: dict[str, pd.DataFrame]
    runs: dict[str, pd.DataFrame]
    verdicts: pd.DataFrame
    judge: str = ""
    baseline: str | None = None
    questions: tuple[Question, ...] = ()
    letters: Mapping[str, pd.Series] | None = None
    notes: tuple[str, ...] = ()
    number_format: str = ""
    seed: int = 0

    @property
    def shown(self) -> pd.DataFrame:
        """The table as the papers print it: one row per system, in percent, with intervals and stars."""
        wide = paper_table(self.table, intervals=True, letters=self.letters)
        if _TIME in self.table:
            times = self.table.groupby("system")[_TIME].first()
            wide[MACRO, "ms"] = times.map("{:.1f}".format, na_action="ignore").fillna("finished")
        if wide.columns.get_level_values(0).nunique() > 2:
            return wide
        return wide[[MACRO]].droplevel(0, axis=1)  # the mean over one data set repeats its scores

    @property
    def caption(self) -> str:
        """The questions, the judge and the meaning of all marks, in sentences."""
        sizes = ", ".join(f"{name} n = {n}" for name, n in self._sizes.items())
        split = splits(self.questions)
        sentences = [f"Percent with 95% intervals ({self._interval_kinds})"]
        sentences.append(f"{sizes}; split: {split}" if split else sizes)
        sentences.append(f"Verdicts: {short_name(self.judge)}")
        p_values = self.table["p_value"].dropna()
        if p_values.size:
            result = "* differs" if (p_values < 0.05).any() else "Nothing is shown to differ"
            sentences.append(f"{result} from {self.baseline} (paired test, Holm, p < .05)")
        if self.letters:
            sentences.append("Systems that share a letter are not shown to differ (all pairs, Holm)")
        if self.table["low"].isna().any():
            sentences.append(WHY_NO_INTERVAL)
        if _TIME in self.table:
            sentences.append("ms: milliseconds of a question that is searched alone, without judging it (median)")
        sentences.append(measuring.single_perspectives(self.questions, self.table["measure"].unique()))
        sentences += self.notes
        if self.number_format:
            sentences.append(f"Number format: {self.number_format}")
        return ". ".join(filter(None, sentences)) + "."

    @property
    def _interval_kinds(self) -> str:
        """Return the kinds of intervals that the scores need, see :func:`berdslib.stats.mean_interval`."""
        scores = pd.concat(self.scores.values())
        beyond = scores.columns[((scores < 0) | (scores > 1)).any()].tolist()
        kinds = ["Wilson"]
        if not scores.drop(columns=beyond).isin([0, 1]).all(axis=None):
            kinds.append("graded scores: an interval from their own variance")
        if beyond:
            kinds.append(f"{', '.join(beyond)}: Student's t")
        return "; ".join(kinds)

    @property
    def _sizes(self) -> dict[str, int]:
        """Return data set → number of questions."""
        table = self.table[self.table["dataset"] != MACRO]
        return dict(zip(table["dataset"], table["n"], strict=True))

    @property
    def longest_lists(self) -> dict[str, int]:
        """System → number of passages of its longest list."""
        return {name: int(run["rank"].max()) if len(run) else 0 for name, run in self.runs.items()}

    def pairs(
        self, measure: Measure | str, baselines: str | Iterable[str] | None = None, *, full: bool = False
    ) -> pd.DataFrame:
        """Compare all pairs of systems by a measure, or each system with several baselines.

        Args:
            measure: a measure of this experiment.
            baselines: names of systems; None for all pairs.
            full: also return effect sizes and the numbers of questions won, tied and lost.

        Returns:
            The frame of :func:`berdslib.evaluation.compare.all_pairs`, or its first six columns: differences with
            intervals and p-values; pandas' own ``to_latex`` prints it for a paper.

        Raises:
            InputError: an unknown measure or baseline, or a single system.
        """
        pairs = compare.all_pairs(self.scores, self.questions, measure, baselines=baselines)
        return pairs if full else pairs.loc[:, :"p_value"]

    def questions_for(
        self, measure: Measure | str, differences: Sequence[float], baselines: str | Iterable[str] | None = None
    ) -> pd.DataFrame:
        """Return how many questions like these are needed to detect a difference between systems.

        Args:
            measure: a measure of this experiment.
            differences: true differences to detect with 80 % power at the 5 % level, such as .02 and .05.
            baselines: names of systems; None for all pairs.

        Returns:
            The frame of :func:`berdslib.evaluation.compare.questions_for`: one row per pair, one column per difference.

        Raises:
            InputError: an unknown measure or baseline, a single system, or a difference of 0.
        """
        return compare.questions_for(self.scores, self.questions, measure, differences, baselines=baselines)

    def with_letters(self) -> Experiment:
        """Return this experiment with letters in its tables: systems that share a letter are not shown to differ.

        Raises:
            InputError: a single system.
        """
        measures = self.table["measure"].unique()
        letters = {measure: compare.letters(self.scores, self.questions, measure) for measure in measures}
        return replace(self, letters=letters)

    def to_latex(self, label: str = "tab:systems", caption: str = "") -> str:
        """Return the shown table as LaTeX (booktabs) with label and caption.

        The best of a column are in bold, unless no system was shown to differ from the baseline by that measure.
        """
        shown = self.shown.rename(index=escape, columns=escape)
        least_p = self.table.groupby("measure")["p_value"].min()
        undecided = {"ms", *least_p.index[least_p >= 0.05]}
        for i, (column, cells) in enumerate(self.shown.items()):
            means = cells.str.extract(r"^(-?[\d.]+)", expand=False).astype(float)  # without star and interval
            measure = str(column[-1] if isinstance(column, tuple) else column)
            best = means.min() if measuring.less_is_better(measure) else means.max()
            texts = cells.map(escape)
            in_bold = (means == best) & (measure not in undecided)
            shown.isetitem(i, texts.mask(in_bold, r"\textbf{" + texts + "}").to_numpy())
        if not caption:
            sizes = [f"{name}, {n} question{'s' * (n != 1)}" for name, n in self._sizes.items()]
            caption = f"Systems on {' and '.join(sizes)}. {self.caption}"
        return as_latex(shown, caption, index_names=False, label=label)

    def save(self, folder: StrPath, made_with: Mapping[str, Any] | None = None) -> None:
        """Write this experiment into a folder, replacing an earlier experiment; :func:`open` reads it back.

        The folder gets a TREC run for each system with its ir_metadata, verdicts.tsv, scores.csv, per_question.csv, the
        questions, and experiment.json: the settings, and the versions and the machine that made the results.

        Args:
            folder: is made; its parents, too.
            made_with: further settings for ir_metadata, such as the names of the data sets.

        Raises:
            InputError: a folder that cannot be written, or that holds other files.
        """
        check_folder(folder)
        stems = file_stems(self.runs)
        systems = {}
        for name, longest in self.longest_lists.items():
            systems[name] = {"file": f"{stems[name]}.trec", "passages": longest}
        runs = [f"{stem}.trec" for stem in stems.values()]
        files = [*runs, *(metadata_path(run).name for run in runs), "verdicts.tsv", "scores.csv", _EACH, _QUESTIONS]
        settings = {
            "berdslib": __version__,
            "systems": systems,
            "measures": self.table["measure"].unique().tolist(),
            "questions": self._sizes,
            "split": splits(self.questions),
            "judge": self.judge,
            "baseline": self.baseline,
            "number_format": self.number_format,
            "seed": self.seed,
            "notes": self.notes,
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "environment": environment(),
            "files": files,
        }
        each = [scores.assign(system=name) for name, scores in self.scores.items()]
        with atomic_path(Path(folder), marker=SETTINGS) as unfinished:
            unfinished.mkdir()
            for name, run in self.runs.items():
                written = unfinished / f"{stems[name]}.trec"
                write_trec_run(written, run, tag=stems[name])
                write_ir_metadata(written, record_of({**(made_with or {}), "system": name}), stems[name])
            write_verdicts(unfinished / "verdicts.tsv", self.verdicts)
            write_csv(unfinished / "scores.csv", self.table)
            write_csv(unfinished / _EACH, pd.concat(each).reset_index())
            write_jsonl(unfinished / _QUESTIONS, (question._asdict() for question in self.questions))
            with write_text(unfinished / SETTINGS) as file:
                json.dump(settings, file, indent=1, ensure_ascii=False)
            for path in Path(folder).glob("*"):  # files of the experiment that is replaced
                if path.name not in (*files, SETTINGS):
                    path.unlink()

    def titled(self) -> list[tuple[str, pd.DataFrame]]:
        """Return (title, table) pairs; with several data sets, only their mean has intervals, to fit a screen."""
        shown = self.shown
        if shown.columns.nlevels == 1:
            return [("", shown)]
        means = shown[[MACRO]].droplevel(0, axis=1)
        each = paper_table(self.table).drop(columns=MACRO, level=0)
        return [("Mean over the data sets", means), ("", each)]


def experiment(
    systems: Systems,
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
    list_length: int = 1,
    timed: bool = False,
) -> Experiment:
    """Run and score several systems on the same questions.

    With a judge, the passages of all systems are pooled and judged first, and all systems are scored against this pool.
    Otherwise measures with an ideal list (nDCG, alpha-nDCG, ERR-IA, StRecall) would favour a system whose list alone is
    judged. These measures remain relative to the pool, as does p-Recall with ``hit="recall"``; MRecall, Precision,
    Coverage and the paper's p-Recall do not depend on it. A passage that several systems list is judged once. Questions
    without any verdict are left out for all systems and counted in the caption.

    Args:
        systems: one or several: strings such as "minilm+mmr:0.9", retrievers of your own, or finished runs. A mapping
            name → system gives them names, which finished runs need.
        data: a collection or the name of one. Several collections are searched and judged separately and share a table.
        measures: one or several, such as ``MRecall @ 5`` or "MRecall@5". Lists are retrieved and judged to the largest
            cut-off (to `depth` for RR, AP and nDCG without one). ``pRecall @ 5`` also searches for each question from
            each of its perspectives.
        judge: judges the listed passages against the questions' perspectives: a name such as "laptop", a judge, or a
            function from pairs to probabilities; None for the recorded verdicts.
        baseline: name of the system that the others are tested against.
        aspect_judge: estimates how likely a passage argues a *generated* perspective, for systems that use these.
        depth: how many candidates a cross-encoder or a diversifier chooses from.
        recordings: a file of a chat model's answers; new answers are added, and known ones are not requested again.
        store: a store of the judges' verdicts, or its file; None for the user's cache.
        seed: the random seed of the test.
        list_length: number of passages in the lists of ``runs``, if the measures need fewer; scores do not change.
        timed: also search each question alone and take the time, with the question's encoding but without expansions
            and verdicts, which are made or read before.

    Raises:
        InputError: no systems, a data set called "macro", an unknown baseline, a measure without cut-off, neither a
            judge nor recorded verdicts, no question with a verdict, a question in two collections, or a system that
            returns an invalid run, which the message names.
    """
    named = scoring.named_systems(systems)  # first, so that a collection given in its place is reported as such
    wanted = measuring.parse_measures(measures)
    collections = scoring.collections_of(data)
    check_k(list_length, "list_length")
    k = scoring.deepest(wanted, depth)
    settings = Settings(judge, aspect_judge, depth, recordings, store)
    _check(collections, wanted, judge, named)
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise InputError(f"a whole number is needed, not {seed!r}", field="seed")
    if baseline is not None:
        baseline = known("baseline", scoring.named_as(baseline, named), named)
    scorer = None if is_recorded(judge) else judge_of(judge, collections[0])
    options: dict[str, Any] = {
        "aspect_judge": _shared_judge(settings, scorer, collections[0]),
        "scorers": {},
        "longer": list_length,
        "times": {} if timed else None,
        "questions": measuring.any_list(wanted),
        "perspectives": measuring.looks_at_perspectives(wanted),
    }
    parts = [_scored(named, collection, wanted, k, scorer, settings, options) for collection in collections]
    scores = {name: pd.concat([part.scores[name] for part in parts]) for name in named}
    runs = {name: pd.concat([part.runs[name] for part in parts], ignore_index=True) for name in named}
    verdicts = pd.concat([part.verdicts for part in parts])
    verdicts = verdicts.sort_values(["qid", "pid", "docno"], ignore_index=True)
    questions = [question for part in parts for question in part.questions]
    judge_id = scoring.recorded_by(verdicts) if scorer is None else scorer.id
    finished = [name for name, system in named.items() if isinstance(system, pd.DataFrame)]
    recorded = scorer is None or isinstance(scorer, Gold)
    table = score_table(scores, questions, baseline=baseline, seed=seed)
    if timed:
        table[_TIME] = table["system"].map({name: median(times) for name, times in options["times"].items()})
    notes = scoring.table_notes(runs, verdicts, questions, collections, wanted, finished=finished, recorded=recorded)
    return Experiment(
        table=table,
        scores=scores,
        runs=runs,
        verdicts=verdicts,
        judge=judge_id,
        baseline=baseline,
        questions=tuple(questions),
        notes=tuple(filter(None, [scoring.caution(short_name(judge_id) if scorer is None else judge), *notes])),
        number_format=scoring.number_formats(named, judge_id),
        seed=int(seed),
    )


class _Scored(NamedTuple):
    """The results on one collection, see :class:`Experiment`."""

    runs: dict[str, pd.DataFrame]
    verdicts: pd.DataFrame
    questions: list[Question]
    scores: dict[str, pd.DataFrame]


def _scored(
    named: Mapping[str, AnySystem],
    collection: Collection,
    measures: Sequence[Measure],
    k: int,
    scorer: Judge | None,
    settings: Settings,
    options: Mapping[str, Any],
) -> _Scored:
    """Search, judge and score one collection."""
    runs = scoring.run_systems(named, collection, k, settings, **options)
    verdicts = scoring.verdicts_on(runs, collection, scorer, k, settings.store)
    recorded = scorer is None or isinstance(scorer, Gold)
    asked = scoring.to_be_scored(collection, verdicts, [*runs.values()], recorded)
    scores = {}
    for name, run in runs.items():
        is_finished = isinstance(named[name], pd.DataFrame)
        top = run if is_finished else run[run["rank"] <= k]
        scores[name] = scoring.scored(top, verdicts, collection, asked, measures, name)
    questions = [question._replace(source=question.source or collection.name) for question in asked]
    return _Scored(runs, verdicts, questions, scores)


def _shared_judge(settings: Settings, scorer: Judge | None, collection: Collection) -> Callable[[], Judge]:
    """Return a function that makes the aspect judge, shared by all collections, when a system first needs it."""

    @cache
    def aspect_judge() -> Judge:
        same = isinstance(settings.judge, str) and settings.judge == settings.aspect_judge
        found = scorer if scorer is not None and same else judge_of(settings.aspect_judge, collection)
        if scorer is not None and found.id == scorer.id:
            logger.warning("%s both reorders lists and scores them, so what it gains by that is circular", scorer.id)
        return found

    return aspect_judge


class Choice(NamedTuple):
    """The system that :func:`choose` chose, the experiment on `dev`, and the experiment on `test`.

    ``dev`` compares all systems; ``test`` has the first and the chosen one. Of equal systems, the first is chosen.
    """

    system: str
    dev: Experiment
    test: Experiment

    def __repr__(self) -> str:
        """Show the chosen system and the table on `test`."""
        best = self.dev.table.query("dataset == @MACRO and system == @self.system").iloc[0]
        dev = f"{best['measure']} {100 * best['mean']:.1f}% on {best['n']} questions of dev"
        equal = self.dev.table.query("dataset == @MACRO and mean == @best['mean']")["system"].drop(best.name)
        tied = f"; as good: {', '.join(map(printable, equal))}" if len(equal) else ""
        return f"{printable(self.system)}: the best of {len(self.dev.scores)} systems, {dev}{tied}\n{self.test!r}"


def choose(
    systems: Systems, dev: Data, test: Data, measure: Measure | str = "MRecall@5", *, depth: int = 100, **options: Any
) -> Choice:
    """Choose the system with the best mean on `dev`, and score it and the first system once on `test`.

    If `test` has recorded verdicts, its table also has a row "oracle (…)": the best score that any order of the first
    system's `depth` candidates can reach. If several systems have the best mean, the first is chosen.

    Args:
        systems: at least two; the others compete with the first. A finished run covers one collection only.
        dev: a collection to choose on, or the name of one.
        test: another collection.
        measure: the measure to choose by.
        depth: number of candidates.
        options: further arguments of :func:`experiment`.

    Raises:
        InputError: a single system, several measures, a question in both collections, or as in :func:`experiment`.
    """
    named = scoring.named_systems(systems)
    chosen_on = scoring.collection_of(dev)
    scored_on = scoring.collection_of(test)
    if len(named) < 2:
        raise InputError("choosing needs at least two systems", field="systems")
    measures = measuring.parse_measures(measure)
    if len(measures) > 1:
        raise InputError("choosing needs exactly one measure", field="measure")
    in_both = {q.qid for q in chosen_on.questions} & {q.qid for q in scored_on.questions}
    if in_both:
        problem = f"{min(in_both)!r} is a question of both collections; score the chosen system on other questions"
        raise InputError(problem, field="test")
    k = scoring.deepest(measures)
    first = next(iter(named))
    options = {**options, "depth": depth}
    tried = experiment(named, chosen_on, measure, baseline=first, **options)
    means = tried.table[tried.table["dataset"] == MACRO].set_index("system")["mean"]
    best_of = min if measuring.less_is_better(str(measures[0])) else max
    best = best_of(named, key=means.__getitem__)
    rows: dict[str, AnySystem] = {first: named[first], best: named[best]}
    if is_recorded(options.get("judge")) and scored_on.gold is not None:
        candidates = experiment({first: named[first]}, scored_on, f"MRecall@{depth}", **options).runs[first]
        best_order = f"oracle (best order of {first}'s {depth}, knows the verdicts)"
        rows[best_order] = oracle(candidates, scored_on.gold, scored_on.questions, k, depth=depth)
    return Choice(best, tried, experiment(rows, scored_on, measure, baseline=first, **options))


def _check(
    collections: Sequence[Collection], measures: Sequence[Measure], judge: AnyJudge, named: Mapping[str, AnySystem]
) -> None:
    """Refuse, before the search, input that would fail or give meaningless scores after it."""
    for collection in collections:
        _check_scorable(collection, measures, judge)
    if len(collections) > 1:
        for name, system in named.items():
            if not isinstance(system, str | pd.DataFrame | OwnDense):
                problem = "searches one corpus, but there are several; register a function that makes the retriever"
                raise InputError(f"{name!r} {problem}: bd.register('retriever', …)", field="systems")
    questions = [question for collection in collections for question in collection.questions]
    check_questions(questions, need_perspectives=True)
    # The name of the collection distinguishes questions without a source.
    names = Counter[str]()
    for collection in collections:
        if any(not q.source for q in collection.questions):
            names[collection.name] += 1
    for name, count in names.items():
        if count > 1:
            raise InputError(f"two collections are called {name!r}; rename one of them", field="name")
    frames = {name: system for name, system in named.items() if isinstance(system, pd.DataFrame)}
    if isinstance(judge, Gold):
        frames["the judge"] = judge.verdicts
    for name, frame in frames.items():
        scoring.check_belongs(name, frame, questions)


def _check_scorable(collection: Collection, measures: Sequence[Measure], judge: AnyJudge) -> None:
    """Refuse measures or a judge that cannot score a collection."""
    if isinstance(collection, Scenario):
        if not is_recorded(judge):
            problem = f"{collection.name!r} is scored by the answers and profiles of its release, not by a judge"
            raise InputError(problem, field="judge")
        measures_of_scenario(measures)
        return
    measuring.check_without_groups(measures)
    if not is_recorded(judge):
        if not isinstance(judge, Gold):
            scoring.check_readable(collection)
    elif collection.gold is None:
        judge_of(None, collection)  # raises the error


def check_folder(folder: StrPath) -> None:
    """Refuse an existing folder with files that no experiment wrote.

    Raises:
        InputError: the folder holds a file that is not listed in its settings.
    """
    folder = Path(folder)
    if not folder.is_dir():
        return
    others = {path.name for path in folder.iterdir()} - _files_of(folder)
    if others:
        problem = f"holds {min(others)!r}, which is not a file of an experiment; name another folder"
        raise InputError(problem, path=folder)


def _files_of(folder: Path) -> set[str]:
    """Return the file names of the experiment in a folder; an empty set if the folder holds no experiment."""
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        return {SETTINGS, *settings["files"]}
    except FileNotFoundError:
        return set()
    except (ValueError, LookupError, TypeError):
        problem = "is not a settings file of an experiment; name another folder"
        raise InputError(problem, path=folder / SETTINGS) from None


def open(folder: StrPath) -> Experiment:
    """Return the experiment that `berds experiment -o` or :meth:`Experiment.save` wrote into a folder.

    Raises:
        InputError: a folder without an experiment, or of an earlier version, which wrote no scores by question.
    """
    folder = Path(folder)
    missing = [name for name in (SETTINGS, _EACH, _QUESTIONS) if not (folder / name).is_file()]
    if missing:
        raise InputError(f"holds no {missing[0]}; berds experiment -o writes one", path=folder)
    settings = read_json(folder / SETTINGS)
    each = pd.read_csv(folder / _EACH, dtype={"system": str, "qid": str}, keep_default_na=False)
    scores = {}
    for name, part in each.groupby("system", sort=False):
        scores[str(name)] = part.drop(columns="system").set_index("qid").astype(float)
    questions = []
    for _, row in read_jsonl(folder / _QUESTIONS):
        fields: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in row.items()}
        questions.append(Question(**fields))
    return Experiment(
        table=pd.read_csv(folder / "scores.csv"),
        scores=scores,
        runs={name: read_run(folder / about["file"]) for name, about in settings["systems"].items()},
        verdicts=read_verdicts(folder / "verdicts.tsv"),
        judge=settings["judge"],
        baseline=settings["baseline"],
        questions=tuple(questions),
        notes=tuple(settings["notes"]),
        number_format=settings["number_format"],
        seed=settings["seed"],
    )
