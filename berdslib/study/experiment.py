"""Systems x collections x measures → one table with intervals and tests."""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib.data.collection import Collection
from berdslib.data.records import Question, check_k, check_questions
from berdslib.data.scenario import Scenario
from berdslib.data.trec import write_trec_run, write_verdicts
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
from berdslib.study.scoring import AnyJudge, Data, Settings, Store, System, Systems, is_recorded, judge_of
from berdslib.study.tables import (
    MACRO,
    WHY_NO_INTERVAL,
    Shown,
    counted,
    escape,
    file_stems,
    paper_table,
    score_table,
    splits,
    write_csv,
)
from berdslib.version import __version__

logger = logging.getLogger(__name__)
SETTINGS = "experiment.json"  # in a folder of results: what they are of, and which files belong to them


@dataclass(frozen=True, eq=False, repr=False)
class Experiment(Shown):
    """What an experiment found; shown, it is the table of the paper.

    Args:
        table: one row per (system, dataset, measure) with n, mean, low, high and, against the baseline, difference and
            p_value (Holm-corrected over the systems); the dataset "macro" is the mean of the data sets' means.
        scores: system → frame (qid x measure).
        runs: system → run. Where p-Recall is asked for, the lists of single perspectives are there too, under the ids
            of :func:`berdslib.data.records.perspective_qid`.
        verdicts: what all systems were scored with.
        judge: id of whoever judged; a caption has its :func:`~berdslib.judging.base.short_name`.
        baseline: the system that the others were tested against, or None.
        questions: what was scored, in the order of the scores.
        letters: measure → letters of the systems, see :meth:`with_letters`; None where they are not shown.
        notes: what else a reader has to know, in sentences: questions left out, places that nobody judged, short lists.
        number_format: that of encoders and judges, such as "bfloat16"; "" where none took part.
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

    @property
    def shown(self) -> pd.DataFrame:
        """The table as the papers print it: a row a system, in percent, with intervals and stars."""
        wide = paper_table(self.table, intervals=True, letters=self.letters)
        several = wide.columns.get_level_values(0).nunique() > 2
        return wide if several else wide[[MACRO]].droplevel(0, axis=1)  # of one data set, the mean says the same again

    @property
    def caption(self) -> str:
        """How the table is to be read: how many questions, of what kind, who judged, what all its marks mean."""
        n = ", ".join(f"{name} n = {n}" for name, n in self._sizes.items())
        single = measuring.single_perspectives(self.questions, self.table["measure"].unique())
        scores = pd.concat(self.scores.values())
        beyond = scores.columns[((scores < 0) | (scores > 1)).any()].tolist()  # see berdslib.stats.mean_interval
        graded = not scores.drop(columns=beyond).isin([0, 1]).all(axis=None)
        kinds = "Wilson" + "; graded scores: an interval from their own variance" * graded
        kinds += f"; {', '.join(beyond)}: Student's t" if beyond else ""
        split = splits(self.questions)
        said = [f"Percent with 95% intervals ({kinds})", f"{n}; split: {split}" if split else n]
        said.append(f"Verdicts: {short_name(self.judge)}")
        if (tested := self.table["p_value"].dropna()).size:
            found = "* differs" if (tested < 0.05).any() else "Nothing is shown to differ"
            said.append(f"{found} from {self.baseline} (paired test, Holm, p < .05)")
        if self.letters:
            said.append("Systems that share a letter are not shown to differ (all pairs, Holm)")
        if self.table["low"].isna().any():
            said.append(WHY_NO_INTERVAL)
        number_format = f"Number format: {self.number_format}" if self.number_format else ""
        return ". ".join(filter(None, [*said, single, *self.notes, number_format])) + "."

    @property
    def _sizes(self) -> dict[str, int]:
        """Return data set → how many questions."""
        table = self.table[self.table["dataset"] != MACRO]
        return dict(zip(table["dataset"], table["n"], strict=True))

    @property
    def longest_lists(self) -> dict[str, int]:
        """System → how many passages its longest list has."""
        return {name: int(run["rank"].max()) if len(run) else 0 for name, run in self.runs.items()}

    def pairs(
        self, measure: Measure | str, baselines: str | Iterable[str] | None = None, *, full: bool = False
    ) -> pd.DataFrame:
        """Compare every two systems by a measure, or each with several baselines.

        Args:
            measure: one that was computed.
            baselines: systems; None for all pairs.
            full: also count the questions won, tied and lost, and tell effect sizes.

        Returns:
            The frame of :func:`berdslib.evaluation.compare.all_pairs`, or the first six columns of it: differences with
            intervals and p-values; pandas' own ``to_latex`` prints it for a paper.

        Raises:
            InputError: an unknown measure or baseline, or a single system.
        """
        found = compare.all_pairs(self.scores, self.questions, measure, baselines=baselines)
        return found if full else found.loc[:, :"p_value"]

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
        return compare.questions_for(self.scores, self.questions, measure, differences, baselines=baselines)

    def with_letters(self) -> Experiment:
        """Return this experiment shown with letters, also as LaTeX: systems that share one are not shown to differ.

        Raises:
            InputError: a single system.
        """
        measures = dict.fromkeys(self.table["measure"])
        return replace(self, letters={m: compare.letters(self.scores, self.questions, m) for m in measures})

    def to_latex(self, label: str = "tab:systems", caption: str = "") -> str:
        """Return the shown table as LaTeX (booktabs) with label and caption, the best of each column in bold."""
        shown = self.shown.rename(index=escape, columns=escape)
        for i, (column, cells) in enumerate(self.shown.items()):
            means = cells.str.extract(r"^(-?[\d.]+)", expand=False).astype(float)  # behind it may be a star
            fewest = measuring.less_is_better(str(column[-1] if isinstance(column, tuple) else column))
            best = means == (means.min() if fewest else means.max())
            bold = [rf"\textbf{{{escape(c)}}}" if b else escape(c) for c, b in zip(cells, best, strict=True)]
            shown.isetitem(i, bold)
        about = " and ".join(f"{name}, {n} question{'s' * (n != 1)}" for name, n in self._sizes.items())
        caption = escape(caption or f"Systems on {about}. {self.caption}")
        return str(shown.to_latex(escape=False, index_names=False, caption=caption, label=label))

    def titled(self) -> list[tuple[str, pd.DataFrame]]:
        """Return what is shown, with titles; intervals of several data sets for their mean only: no screen is wider."""
        shown = self.shown
        if shown.columns.nlevels == 1:
            return [("", shown)]
        each = paper_table(self.table).drop(columns=MACRO, level=0)
        return [("Mean over the data sets", shown[[MACRO]].droplevel(0, axis=1)), ("", each)]


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
) -> Experiment:
    """Run and score several systems on the same questions.

    With a judge, everything that any system lists is judged first, and all systems are scored against that one pool:
    measures with an ideal list (nDCG, alpha-nDCG, ERR-IA, StRecall) would otherwise flatter a system whose own list is
    all that is known. They remain relative to the pool, as does p-Recall with ``hit="recall"``; MRecall, Precision,
    Coverage and p-Recall as the paper has it do not depend on it.
    What several systems list is judged once, with a store or without. Questions without any verdict are left out, for
    all systems alike, and counted in the caption.

    Args:
        systems: one or several: strings such as "minilm+mmr:0.9", retrievers of your own, or finished runs; a mapping
            name → system where they should be called otherwise, which finished runs need.
        data: what is searched: a collection or the name of one; of several, each is searched and judged by itself, and
            one table shows all.
        measures: such as ``MRecall @ 5`` or "MRecall@5", one or several; the largest cut-off says how deep to retrieve
            and judge (`depth`, for RR, AP and nDCG without one). ``pRecall @ 5`` has every question searched from each
            of its perspectives, too.
        judge: judges what the systems list, against the questions' perspectives: a name such as "laptop", a judge, or a
            function from pairs to probabilities; None for the recorded verdicts.
        baseline: name of the system that the others are tested against.
        aspect_judge: who says how likely a passage argues a *generated* perspective, for systems that use it.
        depth: how many candidates a cross-encoder or a diversifier chooses from.
        recordings: a file of a chat model's answers: what is in it is not asked again, and what is new is added.
        store: where the judges' verdicts are kept, a store or its file; None for the user's cache.
        seed: of the test.
        list_length: how many passages the lists of ``runs`` have, where that is more than the measures look at. The
            scores do not depend on it.

    Raises:
        InputError: no systems, a data set called "macro", an unknown baseline, a measure without cut-off, neither a
            judge nor recorded verdicts, no question that was judged, a question that is in two collections, or a system
            that returns no run; the message names the system.
    """
    named = scoring.named_systems(systems)  # first: a collection in its place would be searched for systems
    wanted, collections = measuring.parse_measures(measures), scoring.collections_of(data)
    check_k(list_length, "list_length")
    k = scoring.deepest(wanted, depth)
    settings = Settings(judge, aspect_judge, depth, recordings, store)
    which = {"questions": measuring.any_list(wanted), "perspectives": measuring.looks_at_perspectives(wanted)}
    _check(collections, wanted, judge, named)
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise InputError(f"a whole number is needed, not {seed!r}", field="seed")
    if baseline is not None:
        baseline = known("baseline", scoring.named_as(baseline, named), named)
    who = None if is_recorded(judge) else judge_of(judge, collections[0])

    @cache  # one judge for all collections, and none where no system needs it
    def covering() -> Judge:
        same = isinstance(judge, str) and judge == aspect_judge
        found = who if who is not None and same else judge_of(aspect_judge, collections[0])
        if who is not None and found.id == who.id:
            logger.warning("%s both reorders lists and scores them, so what it gains by that is circular", who.id)
        return found

    options: dict[str, Any] = {"aspect_judge": covering, "scorers": {}, "longer": list_length, **which}
    recorded = who is None or isinstance(who, Gold)
    finished = [name for name, system in named.items() if isinstance(system, pd.DataFrame)]
    runs, verdicts, scores, questions = defaultdict(list), [], defaultdict(list), list[Question]()
    for one in collections:
        found = scoring.search(named, one, k, settings, **options)
        verdicts.append(scoring.verdicts_on(found, one, who, k, settings.store))
        asked = scoring.to_be_scored(one, verdicts[-1], [*found.values()], recorded)
        for name, run in found.items():
            runs[name].append(run)
            looked_at = run if name in finished else run[run["rank"] <= k]
            scores[name].append(scoring.scored(looked_at, verdicts[-1], one, asked, wanted, name))
        questions += [counted(q, one) for q in asked]
    scored = {name: pd.concat(frames) for name, frames in scores.items()}
    listed = {name: pd.concat(frames, ignore_index=True) for name, frames in runs.items()}
    said = pd.concat(verdicts).sort_values(["qid", "pid", "docno"], ignore_index=True)
    table, by = score_table(scored, questions, baseline=baseline, seed=seed), "gold" if who is None else who.id
    notes = scoring.table_notes(listed, said, questions, collections, wanted, finished=finished, recorded=recorded)
    number_format = scoring.number_formats(named, by)
    return Experiment(
        table, scored, listed, said, by, baseline, tuple(questions), notes=tuple(notes), number_format=number_format
    )


class Choice(NamedTuple):
    """What :func:`choose` found: the system, how all did on `dev`, and how it and the first one did on `test`."""

    system: str
    dev: Experiment
    test: Experiment

    def __repr__(self) -> str:
        """Show what was chosen, and the test's table."""
        best = self.dev.table.query("dataset == @MACRO and system == @self.system").iloc[0]
        dev = f"{best['measure']} {100 * best['mean']:.1f}% on {best['n']} questions of dev"
        return f"{printable(self.system)}: the best of {len(self.dev.scores)} systems, {dev}\n{self.test!r}"


def choose(
    systems: Systems, dev: Data, test: Data, measure: Measure | str = "MRecall@5", *, depth: int = 100, **options: Any
) -> Choice:
    """Choose the system with the best mean on `dev`, and score it once on `test`, beside the first one.

    Where `test` has recorded verdicts, the best that any order of the first system's `depth` candidates could reach
    stands beside them as "oracle (…)", which is no system. Of equal means the earlier system is chosen.

    Args:
        systems: at least two, the first of which the others have to beat; finished runs know one collection only.
        dev: a collection to choose on, or the name of one.
        test: another.
        measure: the one to choose by.
        depth: how many candidates there are.
        options: of :func:`experiment`.

    Raises:
        InputError: a single system, several measures, a question that is in both collections, or as for
            :func:`experiment`.
    """
    named = scoring.named_systems(systems)
    chosen_on, scored_on = scoring.collection_of(dev), scoring.collection_of(test)
    if len(named) < 2:
        raise InputError("at least two systems are needed to choose", field="systems")
    if len(by := measuring.parse_measures(measure)) > 1:
        raise InputError("one measure is needed to choose by", field="measure")
    if both := {q.qid for q in chosen_on.questions} & {q.qid for q in scored_on.questions}:
        raise InputError(f"{min(both)!r} is a question of both; what is chosen must be scored on others", field="test")
    k = scoring.deepest(by)
    first, options = next(iter(named)), {**options, "depth": depth}
    tried = experiment(named, chosen_on, measure, baseline=first, **options)
    means = tried.table[tried.table["dataset"] == MACRO].set_index("system")["mean"]
    best = (min if measuring.less_is_better(str(by[0])) else max)(named, key=means.__getitem__)
    once: dict[str, System] = {name: named[name] for name in dict.fromkeys([first, best])}
    if is_recorded(options.get("judge")) and scored_on.gold is not None:
        deep = experiment({first: named[first]}, scored_on, f"MRecall@{depth}", **options).runs[first]
        best_order = f"oracle (best order of {first}'s {depth}, knows the verdicts)"
        once[best_order] = oracle(deep, scored_on.gold, scored_on.questions, k, depth=depth)
    return Choice(best, tried, experiment(once, scored_on, measure, baseline=first, **options))


def _check(
    collections: Sequence[Collection], measures: Sequence[Measure], judge: AnyJudge, named: Mapping[str, System]
) -> None:
    """Refuse what would fail, or mean nothing, once everything has been searched."""
    for one in collections:
        if isinstance(one, Scenario):
            if not is_recorded(judge):
                problem = f"{one.name!r} is scored by the answers and profiles of its release, not by a judge"
                raise InputError(problem, field="judge")
            measures_of_scenario(measures)
        else:
            measuring.check_without_groups(measures)
            if is_recorded(judge) and one.gold is None:
                judge_of(None, one)  # says so
            if not is_recorded(judge) and not isinstance(judge, Gold):
                scoring.check_readable(one)
    bound = [name for name, system in named.items() if not isinstance(system, str | pd.DataFrame | OwnDense)]
    if len(collections) > 1 and bound:
        problem = "searches one corpus, and there are several; bd.register('retriever', …) a function that makes it"
        raise InputError(f"{bound[0]!r} {problem}", field="systems")
    everybody = [q for one in collections for q in one.questions]
    check_questions(everybody, need_perspectives=True)
    # Questions that name no source are told apart by their collection's name.
    names = Counter(one.name for one in collections if any(not q.source for q in one.questions))
    if twice := [name for name, count in names.items() if count > 1]:
        raise InputError(f"two collections are called {twice[0]!r}; give one another name", field="name")
    given = {name: system for name, system in named.items() if isinstance(system, pd.DataFrame)}
    for name, frame in (given | ({"the judge": judge.verdicts} if isinstance(judge, Gold) else {})).items():
        scoring.check_belongs(name, frame, everybody)


def check_folder(folder: StrPath) -> None:
    """Refuse a folder that holds anything but an experiment: its files would stand beside those of another.

    Raises:
        InputError: it holds a file that its settings do not name.
    """
    folder = Path(folder)
    others = sorted({path.name for path in folder.iterdir()} - _files_of(folder)) if folder.is_dir() else []
    if others:
        problem = f"holds {others[0]!r}, which belongs to no experiment that was written here; name another folder"
        raise InputError(problem, path=folder)


def _files_of(folder: Path) -> set[str]:
    """Return the names of the files of the experiment in a folder; an empty set without one."""
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        return {SETTINGS, *settings["files"]}
    except FileNotFoundError:
        return set()
    except (ValueError, LookupError, TypeError):
        raise InputError("is not as an experiment writes it; name another folder", path=folder / SETTINGS) from None


def write_experiment(folder: StrPath, result: Experiment) -> None:
    """Write an experiment into a folder, in place of one that is there: runs, verdicts, scores and settings.

    A TREC run for each system, verdicts.tsv, scores.csv and experiment.json, which says what they are of.

    Raises:
        InputError: a folder that cannot be written, or that holds other files.
    """
    check_folder(folder)
    stems, longest = file_stems(result.runs), result.longest_lists
    files = [*(f"{stem}.trec" for stem in stems.values()), "verdicts.tsv", "scores.csv"]
    settings = {
        "berdslib": __version__,
        "systems": {name: {"file": f"{stems[name]}.trec", "passages": longest[name]} for name in result.runs},
        "measures": result.table["measure"].unique().tolist(),
        "questions": result._sizes,
        "split": splits(result.questions),
        "judge": result.judge,
        "baseline": result.baseline,
        "number_format": result.number_format,
        "notes": result.notes,
        "files": files,
    }
    with atomic_path(Path(folder), marker=SETTINGS) as unfinished:
        unfinished.mkdir()
        for name, run in result.runs.items():
            write_trec_run(unfinished / f"{stems[name]}.trec", run, tag=stems[name])
        write_verdicts(unfinished / "verdicts.tsv", result.verdicts)
        write_csv(unfinished / "scores.csv", result.table)
        with write_text(unfinished / SETTINGS) as file:
            json.dump(settings, file, indent=1, ensure_ascii=False)
        for path in Path(folder).glob("*"):  # of systems that are not in this experiment
            if path.name not in (*files, SETTINGS):
                path.unlink()
