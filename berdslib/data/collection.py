"""The collection: questions with their perspectives, a corpus, gold verdicts and recorded expansions."""

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
    Query,
    Question,
    check_passages,
    check_questions,
    check_verdicts,
    counted,
    numbered_hint,
    perspective_qid,
    some_of,
)
from berdslib.errors import InputError

Expansions = Mapping[str, Sequence[tuple[str, str]]]


class Missing(NamedTuple):
    """Counts of gaps in the recorded verdicts.

    Of ``questions`` questions, ``unjudged`` have no verdict, and ``unanswerable`` have verdicts but no relevant passage
    in the corpus. Of ``judged`` passages with a verdict, ``absent``, such as ``such_as``, are not in the corpus.
    """

    questions: int
    unjudged: int = 0
    unanswerable: int = 0
    judged: int = 0
    absent: int = 0
    such_as: str = ""

    def in_words(self) -> list[str]:
        """Return a sentence for each count that is not 0."""
        sentences = []
        if self.unjudged:
            sentences.append(f"{some_of(self.unjudged, self.questions, 'question', 'have')} no verdict")
        if self.absent:
            absent = some_of(self.absent, self.judged, "judged passage", "are")
            sentences.append(f"{absent} not in the corpus, such as {self.such_as!r}")
        if self.unanswerable:
            questions = some_of(self.unanswerable, self.questions, "question", "have")
            sentences.append(f"{questions} no passage judged relevant in the corpus, so every system scores 0")
        return sentences


@dataclass(frozen=True, eq=False, repr=False)
class Collection:
    """Questions, the passages to search, gold verdicts and recorded expansions.

    A task of PIR is a collection: a root query is a question, its full queries are recorded expansions, one for each of
    its perspectives, and its gold texts are verdicts.

    Args:
        name: the name in messages.
        questions: at least one, with unique ids.
        passages: the corpus; empty for questions alone, such as BeRDS before a corpus is chosen.
        gold: recorded verdicts, or None.
        expansions: qid → (name of the perspective, text) pairs in the order of generation. If the names are exactly the
            question's own perspectives, the texts are its full queries; see :attr:`queries`.

    Raises:
        InputError: no questions, or invalid ones; invalid passages; gold that is not a verdict table, or has no verdict
            on the questions; invalid expansions.
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
            gold = check_verdicts(self.gold)
            qids = {question.qid for question in self.questions}
            if len(gold) and qids.isdisjoint(gold["qid"]):
                ids = f"{gold['qid'].iloc[0]!r} against {self.questions[0].qid!r} …{numbered_hint(self.questions)}"
                raise InputError(f"the verdicts and the questions do not belong together: {ids}", field="gold")
            object.__setattr__(self, "gold", gold)

    @property
    def queries(self) -> list[Query]:
        """The queries of p-Recall: each question from each of its perspectives.

        The text is the recorded full query (PIR) if there is one, else the question followed by the perspective.
        """
        return [query for question in self.questions for query in perspective_queries(question, self.expansions)]

    @property
    def handout(self) -> Collection:
        """The part that a system may see: everything, except in scenarios of PerspectiveArg."""
        return self

    def only(self, questions: Sequence[Question]) -> Self:
        """Return the collection with only some of its questions; it keeps the verdicts on the others."""
        _check_list(questions, Question, "questions")
        part = copy(self)
        object.__setattr__(part, "questions", tuple(check_questions(questions)))
        return part

    @property
    def missing(self) -> Missing:
        """The gaps in the recorded verdicts on these questions."""
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
        """Summarise sizes and gaps."""
        questions = counted(len(self.questions), "question")
        gold = "no gold verdicts"
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


def check_corpus(collection: Collection) -> None:
    """Raise InputError for a collection without passages."""
    if not collection.passages:
        problem = f"{collection.name!r} has questions only; name the corpus to search, -c or in Python passages="
        raise InputError(problem, field="passages")


def perspective_queries(question: Question, expansions: Expansions) -> list[Query]:
    """Return one query for each perspective of a question; see :attr:`Collection.queries`.

    Its qid is that of :func:`berdslib.data.records.perspective_qid`.
    """
    pairs = expansions.get(question.qid, ())
    if are_full_queries(question, pairs):
        texts = [text for _, text in pairs]
    else:
        texts = [f"{question.text} {perspective}" for perspective in question.perspectives]
    return [Query(perspective_qid(question.qid, pid), text, question, pid) for pid, text in enumerate(texts)]


def _check_list(given: object, kind: type, field: str, hint: str = "") -> None:
    if isinstance(given, str | kind) or not isinstance(given, Sequence):
        problem = f"a list of {field} is needed, not {type(given).__name__}"
        raise InputError(problem + hint if isinstance(given, str) else problem, field=field)
    if not isinstance(given, list | tuple):
        return  # a corpus on disk makes its passages itself
    for element in given:
        if not isinstance(element, kind):
            problem = f"{field} must be {kind.__name__} objects: got {shortened(element)}"
            raise InputError(problem, field=field)


def _check_expansions(given: object) -> None:
    if not isinstance(given, Mapping):
        problem = f"qid → [(name, text), …] is needed, not {type(given).__name__}"
        raise InputError(problem, field="expansions")
    for qid, pairs in given.items():
        listed = pairs if isinstance(pairs, list | tuple) else [None]
        if not all(isinstance(pair, list | tuple) and [*map(type, pair)] == [str, str] for pair in listed):
            raise InputError(f"those of {qid!r} must be (name, text) pairs", field="expansions")


def are_full_queries(question: Question, pairs: Sequence[tuple[str, str]]) -> bool:
    """Return whether expansions are full queries of a question: their names are exactly its perspectives."""
    return bool(pairs) and tuple(name for name, _ in pairs) == tuple(question.perspectives)
