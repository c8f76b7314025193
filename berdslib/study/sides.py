"""``berdslib.sides``: which sides do lists show, and do they follow the side of the query? BeRDS section 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd

from berdslib.data.collection import Collection
from berdslib.data.formats import read_stances
from berdslib.data.records import Question, check_k, counted, perspective_qid
from berdslib.data.web import OwnCorpora
from berdslib.errors import InputError, known
from berdslib.evaluation import sides as leaning
from berdslib.evaluation.measures import Precision, pRecall
from berdslib.files import StrPath
from berdslib.judging.base import short_name
from berdslib.judging.baselines import Gold
from berdslib.study import scoring
from berdslib.study.scoring import AnyJudge, AnySystem, Data, Settings, Store, Systems, judge_of
from berdslib.study.tables import NO_INTERVAL, Shown, splits

STATEMENT = "statement"
QUESTION_FIRST = "question first"
_FORMS = (STATEMENT, QUESTION_FIRST)
_RECORDED = "recorded"
BY_ORDER = "by order"
FIGURE_2 = "Share of questions by what their lists show, %"
FIGURE_3 = "Leaning, (p - n) / (p + n), by what was searched with"


@dataclass(frozen=True, eq=False, repr=False)
class Sides(Shown):
    """The result of :func:`sides`; it prints as tables of Figures 2 and 3 of BeRDS.

    Args:
        listed: every listed passage and the sides it argues, see :func:`berdslib.evaluation.sides.listed_sides`.
        questions: the questions with two sides.
        runs: system → run; the lists of perspectives are under the ids of
            :func:`berdslib.data.records.perspective_qid`.
        verdicts: the verdicts on the listed passages.
        judge: the judge's id.
        k: number of passages counted in each list.
        form: the query for a perspective, "statement" or "question first".
        notes: further sentences for readers, see :class:`berdslib.study.experiment.Experiment`.
    """

    listed: pd.DataFrame
    questions: Sequence[Question]
    runs: dict[str, pd.DataFrame]
    verdicts: pd.DataFrame
    judge: str
    k: int
    form: str = STATEMENT
    notes: tuple[str, ...] = ()

    @cached_property
    def shares(self) -> pd.DataFrame:
        """How many lists show both sides, one, or neither; see :func:`~berdslib.evaluation.sides.side_shares`."""
        return leaning.side_shares(self.listed, self.questions)

    @cached_property
    def asymmetry(self) -> pd.DataFrame:
        """Tests of one-sided lists, see :func:`~berdslib.evaluation.sides.asymmetry`."""
        return leaning.asymmetry(self.listed, self.questions)

    @cached_property
    def leaning(self) -> pd.DataFrame:
        """The leaning of each list, see :func:`~berdslib.evaluation.sides.leaning`."""
        return leaning.leaning(self.listed)

    @cached_property
    def sycophancy(self) -> pd.DataFrame:
        """Whether lists follow the query's side, see :func:`~berdslib.evaluation.sides.sycophancy`."""
        return leaning.sycophancy(self.listed)

    @cached_property
    def flips(self) -> pd.DataFrame:
        """Changes of single questions, see :func:`~berdslib.evaluation.sides.flips`."""
        return leaning.flips(self.listed, self.questions)

    @property
    def shown(self) -> dict[str, pd.DataFrame]:
        """The tables by title, with one row per system, over all data sets together."""
        return {FIGURE_2: self._figure_2(), FIGURE_3: self._figure_3()}

    def _figure_2(self) -> pd.DataFrame:
        shares = self._overall(self.shares).pivot(index="system", columns="side", values="share")
        shares = shares.mul(100).round(1).rename_axis(columns=None)
        table = shares[list(leaning.SHOWN_SIDES)].reindex(list(self.runs))
        p_values = self._overall(self.asymmetry).set_index("system")["p_value"]
        table["p (one side as often as the other)"] = p_values.round(3)
        return table

    def _figure_3(self) -> pd.DataFrame:
        rows = self._overall(self.sycophancy).set_index("system").reindex(list(self.runs))
        table = rows[[leaning.SUPPORTING, leaning.QUESTION, leaning.OPPOSING]].round(2)
        follows = []
        for value, low, high in rows[["follows", "follows_low", "follows_high"]].to_numpy():
            interval = NO_INTERVAL if np.isnan(low) else f"[{low:.2f}, {high:.2f}]"
            follows.append(f"{value:.2f} {interval}")
        table["follows"] = follows
        table["p"] = rows["p_value"].round(4)
        return table

    def _overall(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table on all data sets together, and on the lists of questions."""
        datasets = self.shares["dataset"]
        dataset = leaning.ALL if leaning.ALL in set(datasets) else datasets.iloc[0]
        rows = table[table["dataset"] == dataset]
        return rows[rows["asked"] == leaning.QUESTION] if "asked" in rows else rows

    @property
    def caption(self) -> str:
        """How to read the tables."""
        n = len(self.questions)
        asked = f"{n:,} question{'' if n == 1 else 's'} with a supporting and an opposing perspective"
        split = splits(self.questions)
        sentences = [
            f"First {self.k} passages of {asked}" + (f"; split: {split}" if split else ""),
            f"Searched with the question and with each perspective ({self.form})",
            f"Verdicts: {short_name(self.judge)}",
            "95% intervals over issues; p with Holm's correction over systems",
        ]
        if self.sycophancy["follows_low"].isna().any():
            sentences.append(f"{NO_INTERVAL}: no interval, since a data set has one issue only")
        return ". ".join(filter(None, [*sentences, *self.notes])) + "."

    def titled(self) -> list[tuple[str, pd.DataFrame]]:
        """Return (title, table) pairs."""
        return list(self.shown.items())


def sides(
    systems: Systems,
    data: Data,
    k: int = 5,
    *,
    judge: AnyJudge = None,
    stances: StrPath = _RECORDED,
    form: str = STATEMENT,
    aspect_judge: AnyJudge = "laptop",
    depth: int = 100,
    recordings: StrPath | None = None,
    store: Store = None,
) -> Sides:
    """Search with questions and with each of their two perspectives, and count which sides the lists show.

    Args:
        systems: as for :func:`berdslib.study.experiment.experiment`; a finished run must hold the lists of the
            perspectives under the ids of :func:`berdslib.data.records.perspective_qid`.
        data: a collection, or the name of one; questions without a supporting and an opposing perspective are left out.
        k: number of passages counted in each list.
        judge: as for ``experiment``; None for the recorded verdicts. A judge that shares its encoder with a retriever
            favours that retriever's passages.
        stances: "recorded"; "by order", which marks the first of two perspectives as supporting if no stance is
            recorded, see :func:`berdslib.evaluation.sides.sides_by_order`; or a file, see
            :func:`berdslib.data.formats.read_stances`.
        form: the query for a perspective: "statement", the perspective alone as in the paper; or "question first", the
            question followed by the perspective (a task's own full query), which a projection needs. Recorded
            expansions of a question also expand its statements, but not its full queries.
        aspect_judge: see ``experiment``, as for the next three.
        depth: how many candidates a cross-encoder or a diversifier chooses from.
        recordings: a file of a chat model's answers.
        store: a store of verdicts, or its file; None for the user's cache.

    Raises:
        InputError: no question with two sides, an unknown form or source of stances, or as in ``experiment``.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    check_k(k)
    known("form", form, _FORMS)
    settings = Settings(judge, aspect_judge, depth, recordings, store)
    named = scoring.named_systems(systems)
    collection = scoring.collection_of(data)
    asked = with_stances(collection.questions, stances)
    collection = collection.only(leaning.two_sided(asked))
    scorer = judge_of(judge, collection)
    finished = {name for name, system in named.items() if isinstance(system, pd.DataFrame)}
    runs = _runs_of_sides(named, collection, k, settings, form)
    verdicts = scoring.verdicts_on(runs, collection, scorer, k, settings.store)
    recorded = isinstance(scorer, Gold)
    judged = scoring.to_be_scored(collection, verdicts, [*runs.values()], recorded)
    listed = leaning.listed_sides(runs, verdicts, judged, k)
    measures = [Precision @ k, pRecall @ k]
    notes = scoring.table_notes(runs, verdicts, judged, [collection], measures, finished=finished, recorded=recorded)
    left_out = len(asked) - len(collection.questions)
    if left_out:
        notes.append(f"{counted(left_out, 'question')} without both sides left out")
    notes = [*filter(None, [scoring.caution(judge)]), *notes]
    return Sides(listed, judged, runs, verdicts, scorer.id, k, form, tuple(notes))


def _runs_of_sides(
    named: Mapping[str, AnySystem], collection: Collection, k: int, settings: Settings, form: str
) -> dict[str, pd.DataFrame]:
    """Return each system's lists for the questions and for their perspectives."""
    judging = partial(judge_of, settings.aspect_judge, collection)
    runs = scoring.run_systems(
        named, collection, k, settings, perspectives=form == QUESTION_FIRST, aspect_judge=judging
    )
    searching = {}
    for name, system in named.items():
        if not isinstance(system, pd.DataFrame):
            searching[name] = system
        elif runs[name]["qid"].isin([q.qid for q in collection.questions]).all():
            missing = perspective_qid(collection.questions[0].qid, 0)
            raise InputError(f"{name!r} lists nothing for perspectives, such as {missing!r}", field="qid")
    if form == STATEMENT:
        # Systems look up expansions by question id, so statements need separate systems.
        of_statements = scoring.run_systems(searching, statements(collection), k, settings, aspect_judge=judging)
        for name, run in of_statements.items():
            runs[name] = pd.concat([runs[name], run], ignore_index=True)
    return runs


def with_stances(questions: Sequence[Question], stances: StrPath) -> list[Question]:
    """Return questions with stances from the source that `stances` names, see :func:`sides`."""
    if stances == _RECORDED:
        return [*questions]
    if stances == BY_ORDER:
        return leaning.sides_by_order(questions)
    if not Path(stances).is_file():
        known("source of stances (or missing file)", str(stances), (_RECORDED, BY_ORDER))
    return read_stances(stances, questions)


def statements(collection: Collection) -> Collection:
    """Return a collection whose questions are the perspectives, each with the expansions of its question."""
    questions = []
    expansions = {}
    corpora = {}
    for q in collection.questions:
        for pid, text in enumerate(q.perspectives):
            qid = perspective_qid(q.qid, pid)
            questions.append(Question(qid, text, (text,), source=q.source))
            if q.qid in collection.expansions:
                expansions[qid] = collection.expansions[q.qid]
            if isinstance(collection.passages, OwnCorpora):
                corpora[qid] = collection.passages.of(q)
    passages = OwnCorpora(corpora) if corpora else collection.passages
    return replace(collection, questions=questions, passages=passages, gold=None, expansions=expansions)
