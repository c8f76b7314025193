"""The one data model: questions with their perspectives, what is searched, and what is known about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from reprlib import repr as shortened
from typing import NamedTuple, Self

import pandas as pd

from berdslib.data.corpus import by_docno
from berdslib.data.records import (
    Passage,
    Question,
    check_passages,
    check_questions,
    check_verdicts,
    counted,
    perspective_qid,
)
from berdslib.errors import InputError

Expansions = Mapping[str, Sequence[tuple[str, str]]]


class Missing(NamedTuple):
    """Counts of what recorded verdicts lack.

    ``questions`` are asked; ``unjudged`` of them have no verdict, ``unanswerable`` have some, and no relevant passage
    in the corpus. ``judged`` passages have a verdict; ``absent`` of them, such as ``such_as``, are not in the corpus.
    """

    questions: int
    unjudged: int = 0
    unanswerable: int = 0
    judged: int = 0
    absent: int = 0
    such_as: str = ""

    def in_words(self) -> list[str]:
        """Return a sentence for each count that is not 0."""
        said = []
        if self.unjudged:
            said.append(f"{self.unjudged:,} of {counted(self.questions, 'question')} have no verdict")
        if self.absent:
            such_as = f"such as {self.such_as!r}"
            said.append(f"{self.absent:,} of {counted(self.judged, 'judged passage')} are not in the corpus, {such_as}")
        if self.unanswerable:
            of = counted(self.questions, "question")
            said.append(f"{self.unanswerable:,} of {of} have no relevant passage in the corpus; no system answers them")
        return said


@dataclass(frozen=True, eq=False, repr=False)
class Collection:
    """Questions, the passages to search, and what is known about them.

    A task of PIR is one too: a root query is a question, its full queries are recorded expansions, one for each of its
    perspectives, and its gold texts are verdicts.

    Args:
        name: what it is called in messages.
        questions: at least one, ids unique.
        passages: the corpus; none where only the questions are there, as with BeRDS before a corpus is chosen.
        gold: recorded verdicts, or None.
        expansions: qid → (name of the perspective, text) pairs in the order in which they were generated. Where the
            names are exactly the question's own perspectives, the texts are its full queries; see :attr:`queries`.

    Raises:
        InputError: no questions, or unusable ones; passages that are none; gold that is no verdicts, or that is about
            none of the questions; expansions in another form.
    """

    name: str
    questions: Sequence[Question]
    passages: Sequence[Passage] = ()
    gold: pd.DataFrame | None = None
    expansions: Expansions = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            kind = type(self.name).__name__
            raise InputError(f"a name comes first, as text, not {kind}: Collection(name, questions, …)", field="name")
        _check_list(self.questions, Question, "questions")
        _check_list(self.passages, Passage, "passages", "; berdslib.load reads files")
        if isinstance(self.passages, list | tuple):  # a corpus on disk was checked when it was written
            check_passages(self.passages)
        _check_expansions(self.expansions)
        object.__setattr__(self, "questions", tuple(check_questions(self.questions)))
        if self.gold is not None:
            gold, qids = check_verdicts(self.gold), {q.qid for q in self.questions}
            if len(gold) and not qids & set(gold["qid"]):
                there = f"{gold['qid'].iloc[0]!r} against {self.questions[0].qid!r} …"
                raise InputError(f"the verdicts and the questions do not belong together: {there}", field="gold")
            object.__setattr__(self, "gold", gold)

    @property
    def queries(self) -> list[Question]:
        """Each question asked from each of its perspectives: what p-Recall searches.

        The text is the recorded full query where there is one (PIR), else the question and behind it the perspective.
        """
        return [query for q in self.questions for query in perspective_queries(q, self.expansions)]

    @property
    def handout(self) -> Collection:
        """What a system may see: everything, unless a scenario of PerspectiveArg says less."""
        return self

    def only(self, questions: Sequence[Question]) -> Self:
        """Return the same collection with only some of its questions; verdicts on the others stay where they are."""
        _check_list(questions, Question, "questions")
        part = copy(self)
        object.__setattr__(part, "questions", tuple(check_questions(questions)))
        return part

    @property
    def missing(self) -> Missing:
        """What the recorded verdicts on these questions lack."""
        asked = {q.qid for q in self.questions}
        if self.gold is None:
            return Missing(len(asked))
        gold = self.gold[self.gold["qid"].isin(asked)]
        judged = gold["docno"].unique()
        corpus = by_docno(self.passages)
        absent = {docno for docno in judged if docno not in corpus} if self.passages else set()
        answered = gold[gold["supports"] & ~gold["docno"].isin(absent)]["qid"].nunique()
        with_verdict = gold["qid"].nunique()
        return Missing(
            len(asked),
            len(asked) - with_verdict,
            with_verdict - answered,
            len(judged),
            len(absent),
            min(absent, default=""),
        )

    def __repr__(self) -> str:
        """Say how much of what there is, and what is missing."""
        questions, gold = counted(len(self.questions), "question"), "no gold verdicts"
        if self.gold is not None:
            asked = {q.qid for q in self.questions}
            gold = counted(int(self.gold["qid"].isin(asked).sum()), "gold verdict")
            lacking = self.missing
            if lacking.unjudged:
                questions += f" ({lacking.unjudged:,} without a verdict)"
            if lacking.absent:
                gold += f" ({lacking.absent:,} of {counted(lacking.judged, 'judged passage')} not in the corpus)"
        parts = [questions, counted(len(self.passages), "passage"), gold]
        if self.expansions:
            parts.append(f"expansions of {counted(len(self.expansions), 'question')}")
        return f"Collection {self.name!r}: {', '.join(parts)}"


def perspective_queries(question: Question, expansions: Expansions) -> list[Question]:
    """Return one query for each perspective of a question; see :attr:`Collection.queries`.

    Its qid is that of :func:`berdslib.data.records.perspective_qid`; it has one perspective, and it knows the question
    it was made of by id (`owner`) and text (`root`).
    """
    pairs = expansions.get(question.qid, ())
    full = [text for _, text in pairs] if are_full_queries(question, pairs) else None
    texts = [f"{question.text} {p}" for p in question.perspectives] if full is None else full
    return [
        question._replace(
            qid=perspective_qid(question.qid, pid),
            text=text,
            perspectives=question.perspectives[pid : pid + 1],
            stances=question.stances[pid : pid + 1],
            labels=question.labels[pid : pid + 1],
            weights=(),
            owner=question.qid,
            root=question.text,
        )
        for pid, text in enumerate(texts)
    ]


def _check_list(given: object, kind: type, field: str, hint: str = "") -> None:
    if isinstance(given, str | kind) or not isinstance(given, Sequence):
        problem = f"a list of {field} is needed, not {type(given).__name__}{hint if isinstance(given, str) else ''}"
        raise InputError(problem, field=field)
    # A corpus on disk makes its passages itself.
    stray = next((one for one in given if not isinstance(one, kind)), None) if isinstance(given, list | tuple) else None
    if stray is not None:
        raise InputError(f"a list of {field} is needed, and {shortened(stray)} is none", field=field)


def _check_expansions(given: object) -> None:
    if not isinstance(given, Mapping):
        problem = f"qid → [(name, text), …] is needed, not {type(given).__name__}"
        raise InputError(problem, field="expansions")
    for qid, pairs in given.items():
        listed = pairs if isinstance(pairs, list | tuple) else [None]
        if not all(isinstance(pair, list | tuple) and [*map(type, pair)] == [str, str] for pair in listed):
            raise InputError(f"those of {qid!r} must be (name, text) pairs", field="expansions")


def are_full_queries(question: Question, pairs: Sequence[tuple[str, str]]) -> bool:
    """Return whether expansions are a question's full queries, which contain it: named by exactly its perspectives."""
    return bool(pairs) and tuple(name for name, _ in pairs) == tuple(question.perspectives)
