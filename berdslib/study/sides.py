"""Which side do lists show, and do they follow the side that the query takes? ``berdslib.sides``; BeRDS section 8."""

from __future__ import annotations

from collections.abc import Sequence
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
from berdslib.study.scoring import AnyJudge, Data, Settings, Store, Systems, judge_of
from berdslib.study.tables import NO_INTERVAL, Shown, splits

STATEMENT, QUESTION_FIRST = "statement", "question first"
FORMS = (STATEMENT, QUESTION_FIRST)
RECORDED, BY_ORDER = "recorded", "by order"
FIGURE_2 = "Share of questions by what their lists show, %"
FIGURE_3 = "Leaning, (p - n) / (p + n), by what was searched with"


@dataclass(frozen=True, eq=False, repr=False)
class Sides(Shown):
    """Which sides lists show; shown, it is Figures 2 and 3 of BeRDS as tables.

    Args:
        listed: every listed passage and the sides it argues, see :func:`berdslib.evaluation.sides.listed_sides`.
        questions: those of two sides.
        runs: system → run, with the lists found from both perspectives under ids of their own.
        verdicts: what the lists were judged by.
        judge: id of whoever judged.
        k: how many passages of each list.
        form: what was searched with for a perspective, one of ``FORMS``.
        notes: what else a reader has to know, see :class:`berdslib.study.experiment.Experiment`.
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
        """How far lists lean, see :func:`~berdslib.evaluation.sides.leaning`."""
        return leaning.leaning(self.listed)

    @cached_property
    def sycophancy(self) -> pd.DataFrame:
        """Whether lists follow the query's side, see :func:`~berdslib.evaluation.sides.sycophancy`."""
        return leaning.sycophancy(self.listed)

    @cached_property
    def flips(self) -> pd.DataFrame:
        """What single questions do, see :func:`~berdslib.evaluation.sides.flips`."""
        return leaning.flips(self.listed, self.questions)

    @property
    def shown(self) -> dict[str, pd.DataFrame]:
        """The tables by title, as people read them: a row a system, of all data sets together."""
        whole = leaning.ALL if leaning.ALL in set(self.shares["dataset"]) else self.shares["dataset"].iloc[0]

        def of_whole(table: pd.DataFrame) -> pd.DataFrame:
            mine = table[table["dataset"] == whole]
            return mine[mine["asked"] == leaning.QUESTION] if "asked" in mine else mine

        first = of_whole(self.shares).pivot(index="system", columns="side", values="share").mul(100).round(1)
        first = first[list(leaning.SHOWN_SIDES)].rename_axis(columns=None).reindex(list(self.runs))
        tested = of_whole(self.asymmetry).set_index("system")["p_value"].round(3)
        rows = of_whole(self.sycophancy).set_index("system").reindex(list(self.runs))
        second = rows[[leaning.SUPPORTING, leaning.QUESTION, leaning.OPPOSING]].round(2)
        spans = rows[["follows", "follows_low", "follows_high"]].to_numpy()
        second["follows"] = [
            f"{value:.2f} {NO_INTERVAL}" if np.isnan(low) else f"{value:.2f} [{low:.2f}, {high:.2f}]"
            for value, low, high in spans
        ]
        first["p (one side as often as the other)"], second["p"] = tested, rows["p_value"].round(4)
        return {FIGURE_2: first, FIGURE_3: second}

    @property
    def caption(self) -> str:
        """How the tables are to be read."""
        n, unknown = len(self.questions), self.sycophancy["follows_low"].isna().any()
        split = splits(self.questions)
        said = [
            f"First {self.k} passages of {n:,} question{'' if n == 1 else 's'} with a supporting and an opposing "
            "perspective" + (f"; split: {split}" if split else ""),
            f"Searched with the question and with each perspective ({self.form})",
            f"Verdicts: {short_name(self.judge)}",
            "95% intervals over issues; p with Holm's correction over systems",
            f"{NO_INTERVAL}: no interval, since a data set has one issue only" if unknown else "",
        ]
        return ". ".join(filter(None, [*said, *self.notes])) + "."

    def titled(self) -> list[tuple[str, pd.DataFrame]]:
        """Return title → table."""
        return list(self.shown.items())


def sides(
    systems: Systems,
    data: Data,
    k: int = 5,
    *,
    judge: AnyJudge = None,
    stances: StrPath = RECORDED,
    form: str = STATEMENT,
    aspect_judge: AnyJudge = "laptop",
    depth: int = 100,
    recordings: StrPath | None = None,
    store: Store = None,
) -> Sides:
    """Search with questions and with each of their two perspectives, and see which side the lists show.

    Args:
        systems: as for :func:`berdslib.study.experiment.experiment`; a finished run must hold the lists of the
            perspectives under the ids of :func:`berdslib.data.records.perspective_qid`.
        data: a collection, or the name of one; questions without a supporting and an opposing perspective are left out.
        k: how many passages of each list.
        judge: as for ``experiment``; None for the recorded verdicts. One that shares its encoder with a retriever
            favours what that retriever finds.
        stances: "recorded"; "by order": where none are recorded, the first of two perspectives supports, see
            :func:`berdslib.evaluation.sides.sides_by_order`; or a file, see :func:`berdslib.data.formats.read_stances`.
        form: how a perspective is searched: "statement", by itself as in the paper; or "question first", the question
            and behind it the perspective (a task's own full query), which a projection needs. Recorded expansions of a
            question also expand its statements, but not its full queries.
        aspect_judge: see ``experiment``, as for the next three.
        depth: how many candidates a cross-encoder or a diversifier chooses from.
        recordings: a file of a chat model's answers.
        store: where verdicts are kept; None for the user's cache.

    Raises:
        InputError: no question of two sides, an unknown form or way to tell stances, or as for ``experiment``.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    check_k(k)
    known("form", form, FORMS)
    settings = Settings(judge, aspect_judge, depth, recordings, store)
    named = scoring.named_systems(systems)
    collection = scoring.collection_of(data)
    asked = with_stances(collection.questions, stances)
    collection = collection.only(leaning.two_sided(asked))
    who, stated_by, given = judge_of(judge, collection), statements(collection), dict(named)
    covering = partial(judge_of, aspect_judge, collection)
    runs = scoring.search(named, collection, k, settings, perspectives=form == QUESTION_FIRST, aspect_judge=covering)
    for name in [name for name, system in named.items() if isinstance(system, pd.DataFrame)]:
        del given[name]
        if runs[name]["qid"].isin([q.qid for q in collection.questions]).all():
            there = perspective_qid(collection.questions[0].qid, 0)
            raise InputError(f"{name!r} lists nothing for perspectives, such as {there!r}", field="qid")
    if form == STATEMENT:
        # Expansions are known to a system by the ids of the questions, so that statements need a system of their own.
        for name, run in scoring.search(given, stated_by, k, settings, aspect_judge=covering).items():
            runs[name] = pd.concat([runs[name], run], ignore_index=True)
    verdicts = scoring.verdicts_on(runs, collection, who, k, settings.store)
    recorded = isinstance(who, Gold)
    judged = scoring.to_be_scored(collection, verdicts, [*runs.values()], recorded)
    found = leaning.listed_sides(runs, verdicts, judged, k)
    finished, looked_at = named.keys() - given.keys(), [Precision @ k, pRecall @ k]
    notes = scoring.table_notes(runs, verdicts, judged, [collection], looked_at, finished=finished, recorded=recorded)
    if others := len(asked) - len(collection.questions):
        notes.append(f"{counted(others, 'question')} without both sides left out")
    return Sides(found, judged, runs, verdicts, who.id, k, form, tuple(notes))


def with_stances(questions: Sequence[Question], stances: StrPath) -> list[Question]:
    """Return questions with what `stances` says of their perspectives, see :func:`sides`."""
    if stances == RECORDED:
        return [*questions]
    if stances == BY_ORDER:
        return leaning.sides_by_order(questions)
    if not Path(stances).is_file():
        known("way to tell stances, or file,", str(stances), (RECORDED, BY_ORDER))
    return read_stances(stances, questions)


def statements(collection: Collection) -> Collection:
    """Return a collection whose questions are the perspectives, each by itself, with the expansions."""
    asked, expansions, corpora = [], {}, {}
    for q in collection.questions:
        for pid, text in enumerate(q.perspectives):
            asked.append(Question(perspective_qid(q.qid, pid), text, (text,), source=q.source))
            if q.qid in collection.expansions:
                expansions[asked[-1].qid] = collection.expansions[q.qid]
            if isinstance(collection.passages, OwnCorpora):
                corpora[asked[-1].qid] = collection.passages.of(q)
    passages = OwnCorpora(corpora) if corpora else collection.passages
    return replace(collection, questions=asked, passages=passages, gold=None, expansions=expansions)
