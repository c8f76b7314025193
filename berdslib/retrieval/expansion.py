"""Query expansion: a question is searched under several perspectives, and the lists found are made one.

Expansions are plain data, question id → [(name, statement), …], in the order in which they were generated: recorded
ones (:func:`berdslib.data.datasets.load_expansions`), made by rule, or asked of a chat model. BeRDS, section 6.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from berdslib.data.collection import Expansions, are_full_queries
from berdslib.data.records import Question, check_questions
from berdslib.errors import InputError, known
from berdslib.llm.answers import NESTED, parse_perspectives, strip_reasoning
from berdslib.llm.asking import read_all
from berdslib.llm.chat import ChatModel
from berdslib.llm.prompting import FORMS, Prompt, load_prompt
from berdslib.llm.recorded import Kept
from berdslib.llm.untrusted import defuse_tag
from berdslib.models.chat import make_chat
from berdslib.retrieval.base import Ours, Retriever, check_search, checked_search
from berdslib.retrieval.fusion import lists_of, reciprocal_rank_fusion, round_robin
from berdslib.statements.negation import two_sides, yes_and_no

logger = logging.getLogger(__name__)

MERGE = ("question first", "statement only")
FUSE: dict[str, Callable[..., pd.DataFrame]] = {"round robin": round_robin, "rrf": reciprocal_rank_fusion}
DUPLICATES = ("drop", "keep")


# ---------------------------------------------------------------- searching


@dataclass
class Expanded(Ours):
    """A retriever that searches every question under its expansions, all in one call, and fuses what is found.

    A question without expansions is searched as it is; how many there were is logged as a warning. So is a query that
    was made of a question: it has its perspective already. Multi-query retrieval, the question beside its rewordings,
    is ``original=True, fuse="rrf"``: "+multi:NAME".

    Args:
        retriever: searches the expanded queries, each under an id of its own.
        expansions: qid → [(name, statement), …]; those of other questions are not looked at.
        name: what it is called in tables; "" for the retriever's name and "+expansion".
        merge: "question first": the query is the question and behind it the statement, as in the recorded queries of
            the authors; "statement only": the statement alone, as the words of section 6 can also be read. Full queries
            of PIR contain their question and are searched as they are.
        duplicates: a passage that several lists bring to round robin. "drop": as in the paper, it is listed once, and k
            unique passages are listed. "keep": as in the official code, whose list of k names passages twice. A run
            cannot, so here it is shorter than k. What is covered, and so MRecall@k, is that list's; Precision@k counts
            a repeat as a miss, whereas the official list scores it like its first mention.
        number: use only the first so many expansions of a question; 0 = all.
        fuse: "round robin", one list after the other in the order of generation; or "rrf", reciprocal rank fusion.
        original: the question itself is one more query, the first.
        depth: passages of each list that reciprocal rank fusion looks at, at least k. Round robin needs k, no more.
    """

    retriever: Retriever
    expansions: Expansions
    name: str = ""
    merge: str = "question first"
    duplicates: str = "drop"
    number: int = 0
    fuse: str = "round robin"
    original: bool = False
    depth: int = 100

    def __post_init__(self) -> None:
        known("way to merge", self.merge, MERGE)
        known("treatment of duplicates", self.duplicates, DUPLICATES)
        known("fusion", self.fuse, FUSE)
        if self.duplicates == "keep" and self.fuse != "round robin":
            raise InputError("only round robin can keep duplicates; reciprocal rank fusion adds them up", field="fuse")
        if self.number < 0:
            raise InputError(f"{self.number} is not a number of expansions; 0 = all", field="number")
        if self.depth < 1:
            raise InputError(f"depth must be at least 1, not {self.depth}", field="depth")
        self.name = self.name or f"{self.retriever.name}+expansion"

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question; round robin scores them with the negated rank."""
        check_search(questions, k)
        _check_covered(questions, self.expansions)
        lists = self.lists(questions, max(k, self.depth) if self.fuse == "rrf" else k)
        if self.duplicates == "keep":
            return round_robin(lists, k)  # the official code's list (divergences.md B13)
        run = FUSE[self.fuse](lists)
        return run[run["rank"] <= k].reset_index(drop=True)

    def lists(self, questions: Sequence[Question], depth: int) -> list[dict[str, list[str]]]:
        """Search every question under each of its expansions, all in one call, and return what each search found.

        Returns:
            For the first search of each question, the second and so on: qid → docnos, best first; those that found
            nothing are left out.
        """
        queries: list[Question] = []
        owners: dict[str, tuple[str, int]] = {}  # the query's id → the question's id, and which of its queries it is
        for question in questions:
            asks = [] if question.owner else self._asks(question)[: self.number or None]
            for i, (text, perspective) in enumerate(
                [(question.text, ""), *asks] if self.original or not asks else asks
            ):
                qid = f"{len(queries)}:{question.qid}"
                queries.append(_query(question, qid, text, perspective))
                owners[qid] = question.qid, i
        lists: list[dict[str, list[str]]] = [{} for _ in range(1 + max(i for _, i in owners.values()))]
        for query, docnos in lists_of(checked_search(self.retriever, queries, depth)).items():
            owner, i = owners[query]
            lists[i][owner] = docnos
        return lists

    def _asks(self, question: Question) -> list[tuple[str, str]]:
        """Return what is searched for each expansion, and the perspective that it asks from, "" where it names none."""
        pairs = self.expansions.get(question.qid, ())
        if are_full_queries(question, pairs):  # they contain their question, and are named by their perspectives
            return [(text, name) for name, text in pairs]
        if self.merge == "statement only":  # such as a hypothetical passage: a query without a perspective
            return [(text, "") for _, text in pairs]
        return [(f"{question.text} {text}", text) for _, text in pairs]


def expanded_search(
    retriever: Retriever, questions: Sequence[Question], expansions: Expansions, k: int, **options: Any
) -> pd.DataFrame:
    """Search every question under each of its expansions, with the options of :class:`Expanded`."""
    return Expanded(retriever, expansions, name="expanded", **options).search(questions, k)


def _query(question: Question, qid: str, text: str, perspective: str) -> Question:
    """Return a query made of a question; one that asks from a perspective knows it, and the question's text."""
    query = question._replace(qid=qid, text=text, owner=question.owner or question.qid)
    if not perspective:
        return query
    return query._replace(root=question.text, perspectives=(perspective,), stances=(), labels=())


def _check_covered(questions: Sequence[Question], expansions: Expansions) -> None:
    own = [q for q in questions if not q.owner]
    without = [q.qid for q in own if not expansions.get(q.qid)]
    if own and len(without) == len(own):
        there = ", ".join(map(repr, list(expansions)[:3])) or "no question at all"
        raise InputError(f"no question has expansions: ids are like {without[0]!r}, but expansions exist for {there}")
    if without:
        logger.warning(
            "%d of %d questions have no expansions and are searched as they are: %s",
            len(without), len(own), ", ".join(without[:5]) + (" …" if len(without) > 5 else ""),
        )  # fmt: skip


# ---------------------------------------------------------------- made by rule


def template_expansions(questions: Sequence[Question]) -> dict[str, list[tuple[str, str]]]:
    """Return expansions that need no model: what says yes, what says no, and the search for arguments on either side.

    A yes/no question becomes a statement and its negation by rule, and "A or B?" its two answers
    (:func:`~berdslib.statements.negation.two_sides`); where the rule is not sure, and for other questions, there is a
    search for opinions in their place. Gold perspectives are not looked at.

    >>> template_expansions([Question("q", "Should zoos close?")])["q"][1]
    ('No', 'Zoos should not close.')
    """
    check_questions(questions)
    return {q.qid: list(_templates(q.text)) for q in questions}


@lru_cache(maxsize=4096)  # the same questions are asked by many systems
def _templates(text: str) -> tuple[tuple[str, str], ...]:
    answers = two_sides(text)
    names = ("Yes", "No") if yes_and_no(text) else ("One answer", "The other")
    bare = re.sub(r"^the perspective on\s+", "", " ".join(text.split()), flags=re.IGNORECASE)
    topic = (answers[0] if answers else bare).rstrip("?.! ")
    return (
        *zip(names, answers or (), strict=False),
        ("Arguments for", f"Arguments for: {topic}. Benefits, advantages and reasons in favour."),
        ("Arguments against", f"Arguments against: {topic}. Harms, drawbacks and reasons to oppose it."),
        *([] if answers else [("Opinions", f"Opinions and answers that differ: {topic}.")]),
    )


# ---------------------------------------------------------------- asked of a chat model


# Tokens of an answer: the paper's six perspectives of 44 words have some 400.
MAX_TOKENS = 1500
# What the prompt asks for: names and statements, as many as there are.
SCHEMA = FORMS["perspective_generation"].schema
# What expansions are for is part of how they are searched; these are the options of :class:`Expanded` that differ.
SEARCHED: dict[str, dict[str, Any]] = {"chat": {}, "hyde": {"merge": "statement only"}}


def expansions_by(
    name: str, questions: Sequence[Question], *, recordings: Path | None = None
) -> dict[str, list[tuple[str, str]]]:
    """Return the expansions that a chat model makes, by name: BeRDS, section 6, or HyDE.

    Search them with ``Expanded(…, **SEARCHED[kind])``, where the kind is what stands before the first colon.

    Args:
        name: "chat:MODEL" for perspectives, "hyde:MODEL" for a passage that could answer the question; MODEL as
            :func:`berdslib.models.chat.make_chat` reads it: "chat:gpt-4o", "hyde:local:FOLDER", or "chat:recorded:FILE"
            for answers from a file, without a network.
        questions: their texts are sent, and nothing else: no gold perspectives.
        recordings: a file of answers: what is in it is not asked again, and what is new is added at once.

    A question whose answer cannot be read is left out, with a warning, and then searched as it is;
    :class:`~berdslib.llm.asking.UnreadableAnswerError` where that is so of all.
    """
    kind, _, model = name.partition(":")
    known("way to ask for expansions", kind, SEARCHED)
    chat = make_chat(model, max_tokens=MAX_TOKENS, schema=SCHEMA if kind == "chat" else None)
    chat = Kept(chat, recordings) if recordings else chat
    return chat_expansions(questions, chat) if kind == "chat" else hyde_expansions(questions, chat)


def chat_expansions(
    questions: Sequence[Question], chat: ChatModel, wording: str = "ours", *, nested: str = "all"
) -> dict[str, list[tuple[str, str]]]:
    """Ask a chat model for the perspectives on each question, qid → [(name, statement), …] in the order of the answer.

    The model needs room, as :func:`expansions_by` gives it. Wrapped in :class:`~berdslib.llm.recorded.Kept`, every
    answer is on disk as soon as it is there. Questions whose answers cannot be read are left out, and a warning names
    them; :class:`~berdslib.llm.asking.UnreadableAnswerError` where that is so of all.

    Args:
        questions: their texts are sent, and nothing else: no gold perspectives.
        chat: who answers.
        wording: "ours", or "published" for the papers' own prompt, which the user has to import first.
        nested: see :func:`berdslib.llm.answers.parse_perspectives`.
    """
    prompt = load_prompt("perspective_generation", wording, needs=("question",), asked=chat.id)
    known("reading of nested answers", nested, NESTED)
    return _ask(questions, chat, prompt, lambda text: parse_perspectives(text, nested))


def hyde_expansions(questions: Sequence[Question], chat: ChatModel) -> dict[str, list[tuple[str, str]]]:
    """Ask a chat model for a passage that could answer each question, to search by: one expansion a question.

    Search it with ``merge="statement only"``, and ``original=True`` where the question should have its say too. Source:
    Gao et al. (2023), "Precise zero-shot dense retrieval without relevance labels" (HyDE), who average the vectors of
    several sampled passages; here it is one passage, so that any retriever can search by it.
    """
    prompt = load_prompt("hypothetical_passage", needs=("question",), asked=chat.id)
    return _ask(questions, chat, prompt, _passage)


def _passage(answer: str) -> list[tuple[str, str]]:
    text = " ".join(strip_reasoning(answer).split())
    if not text:
        raise InputError("it is empty")
    return [("hypothetical passage", text)]


def _ask(
    questions: Sequence[Question], chat: ChatModel, prompt: Prompt, read: Callable[[str], list[tuple[str, str]]]
) -> dict[str, list[tuple[str, str]]]:
    check_questions(questions)
    # A question is a text from elsewhere: it must not close the tags it stands between.
    asked = {q.qid: prompt.messages(question=defuse_tag(q.text, "question")) for q in questions}
    return read_all(chat, asked, read, what="question", desc="expanding")
