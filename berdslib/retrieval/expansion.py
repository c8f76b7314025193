"""Query expansion: a question is searched under several perspectives, and the lists found are made one.

Expansions are plain data, question id → [(name, statement), …], in the order in which they were generated: recorded
ones (:func:`berdslib.data.datasets.load_expansions`), made by rule, or asked of a chat model. BeRDS, section 6.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
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
from berdslib.retrieval.fusion import Lists, fuse_in_turns, fuse_ranks, lists_of
from berdslib.statements.negation import two_sides, yes_and_no

logger = logging.getLogger(__name__)

MERGE: dict[str, Callable[[str, str], str]] = {
    "question first": lambda question, statement: f"{question} {statement}",
    "statement only": lambda question, statement: statement,  # noqa: ARG005 - one signature for all
}
FUSE: dict[str, Callable[[Sequence[Lists]], pd.DataFrame]] = {"round robin": fuse_in_turns, "rrf": fuse_ranks}
DUPLICATES = ("drop", "keep")


# ---------------------------------------------------------------- searching


class Expanded(Ours):
    """A retriever that searches every question under its expansions; a system like any other in an experiment.

    Multi-query retrieval, the question beside its rewordings, is ``original=True, fuse="rrf"``: "+multi:NAME".

    Args:
        retriever: searches the expanded queries.
        expansions: qid → [(name, statement), …].
        name: what it is called in tables; None for the retriever's name and "+expansion".
        options: as :func:`expanded_search` takes them.

    Raises:
        InputError: an option that is not known.
    """

    def __init__(
        self, retriever: Retriever, expansions: Expansions, *, name: str | None = None, **options: Any
    ) -> None:
        _check_options(**options)
        self.name = name or f"{retriever.name}+expansion"
        self._retriever, self._expansions, self._options = retriever, expansions, options

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question; see :func:`expanded_search`."""
        return expanded_search(self._retriever, questions, self._expansions, k, **self._options)


def expanded_search(
    retriever: Retriever,
    questions: Sequence[Question],
    expansions: Expansions,
    k: int,
    *,
    merge: str = "question first",
    duplicates: str = "drop",
    number: int = 0,
    fuse: str = "round robin",
    original: bool = False,
    depth: int = 100,
) -> pd.DataFrame:
    """Search every question under each of its expansions, all in one call, and fuse what is found.

    A question without expansions is searched as it is; how many there were is logged as a warning. So is a query that
    was made of a question: it has its perspective already.

    Args:
        retriever: searches the expanded queries, each under an id of its own.
        questions: the asked questions.
        expansions: qid → [(name, statement), …]; those of other questions are not looked at.
        k: passages a question.
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

    Returns:
        A run of at most k passages a question; round robin scores them with the negated rank.

    Raises:
        InputError: an unknown option, k < 1, unusable questions, or no expansions for any of the questions.
    """
    _check_options(merge=merge, duplicates=duplicates, number=number, fuse=fuse, depth=depth, original=original)
    check_search(questions, k)
    _check_covered(questions, expansions)
    deep = max(k, depth) if fuse == "rrf" else k
    lists = expanded_lists(retriever, questions, expansions, deep, merge=merge, number=number, original=original)
    if duplicates == "keep":
        return fuse_in_turns(lists, k)  # the official code's list (divergences.md B13)
    run = FUSE[fuse](lists)
    return run[run["rank"] <= k].reset_index(drop=True)


def expanded_lists(
    retriever: Retriever,
    questions: Sequence[Question],
    expansions: Expansions,
    depth: int,
    *,
    merge: str = "question first",
    number: int = 0,
    original: bool = False,
) -> list[dict[str, list[str]]]:
    """Search every question under each of its expansions, all in one call, and return what each search found.

    Args and errors as :func:`expanded_search`, with `depth` passages a search.

    Returns:
        For the first search of each question, the second and so on: qid → docnos, best first; those that found nothing
        are left out.
    """
    queries: list[Question] = []
    owners: dict[str, tuple[str, int]] = {}  # the query's id → the question's id, and which of its queries it is
    for question in questions:
        asks = [] if question.owner else _asks(question, expansions.get(question.qid, ()), merge)[: number or None]
        for i, (text, perspective) in enumerate([(question.text, ""), *asks] if original or not asks else asks):
            qid = f"{len(queries)}:{question.qid}"
            queries.append(_query(question, qid, text, perspective))
            owners[qid] = question.qid, i
    found = checked_search(retriever, queries, depth)
    lists: dict[int, dict[str, list[str]]] = {}
    for query, docnos in lists_of(found).items():
        owner, i = owners[query]
        lists.setdefault(i, {})[owner] = docnos
    return [lists.get(i, {}) for i in range(1 + max(i for _, i in owners.values()))]


def _asks(question: Question, pairs: Sequence[tuple[str, str]], merge: str) -> list[tuple[str, str]]:
    """Return what is searched for each expansion, and the perspective that it asks from, "" where it names none."""
    if are_full_queries(question, pairs):  # they contain their question, and are named by their perspectives
        return [(text, name) for name, text in pairs]
    # A statement by itself, such as a hypothetical passage, is a query without a perspective.
    return [(MERGE[merge](question.text, text), text if merge == "question first" else "") for _, text in pairs]


def _query(question: Question, qid: str, text: str, perspective: str) -> Question:
    """Return a query made of a question; one that asks from a perspective knows it, and the question's text."""
    query = question._replace(qid=qid, text=text, owner=question.owner or question.qid)
    if not perspective:
        return query
    return query._replace(root=question.text, perspectives=(perspective,), stances=(), labels=())


def _check_options(
    *,
    merge: str = "question first",
    duplicates: str = "drop",
    number: int = 0,
    fuse: str = "round robin",
    original: bool = False,  # noqa: ARG001 - accepted, and good either way
    depth: int = 100,
) -> None:
    known("way to merge", merge, MERGE)
    known("treatment of duplicates", duplicates, DUPLICATES)
    known("fusion", fuse, FUSE)
    if duplicates == "keep" and fuse != "round robin":
        raise InputError("only round robin can keep duplicates; reciprocal rank fusion adds them up", field="fuse")
    if number < 0:
        raise InputError(f"{number} is not a number of expansions; 0 = all", field="number")
    if depth < 1:
        raise InputError(f"depth must be at least 1, not {depth}", field="depth")


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

    Raises:
        InputError: no questions, or a repeated qid.

    >>> template_expansions([Question("q", "Should zoos close?")])["q"][1]
    ('No', 'Zoos should not close.')
    """
    check_questions(questions)
    return {q.qid: _templates(q.text) for q in questions}


def _templates(text: str) -> list[tuple[str, str]]:
    answers = two_sides(text)
    names = ("Yes", "No") if yes_and_no(text) else ("One answer", "The other")
    bare = re.sub(r"^the perspective on\s+", "", " ".join(text.split()), flags=re.IGNORECASE)
    topic = (answers[0] if answers else bare).rstrip("?.! ")
    return [
        *zip(names, answers or (), strict=False),
        ("Arguments for", f"Arguments for: {topic}. Benefits, advantages and reasons in favour."),
        ("Arguments against", f"Arguments against: {topic}. Harms, drawbacks and reasons to oppose it."),
        *([] if answers else [("Opinions", f"Opinions and answers that differ: {topic}.")]),
    ]


# ---------------------------------------------------------------- asked of a chat model


# Tokens of an answer: the paper's six perspectives of 44 words have some 400.
MAX_TOKENS = 1500
# What the prompt asks for: names and statements, as many as there are.
SCHEMA = FORMS["perspective_generation"].schema
# What expansions are for is part of how they are searched; these are the options of `expanded_search` that differ.
SEARCHED: dict[str, dict[str, Any]] = {"chat": {}, "hyde": {"merge": "statement only"}}


def expansions_by(
    name: str,
    questions: Sequence[Question],
    *,
    wording: str = "ours",
    recordings: Path | None = None,
    workers: int = 4,
) -> dict[str, list[tuple[str, str]]]:
    """Return the expansions that a chat model makes, by name: BeRDS, section 6, or HyDE.

    Search them with ``expanded_search(…, **SEARCHED[kind])``, where the kind is what stands before the first colon.

    Args:
        name: "chat:MODEL" for perspectives, "hyde:MODEL" for a passage that could answer the question; MODEL as
            :func:`berdslib.models.chat.make_chat` reads it: "chat:gpt-4o", "hyde:local:FOLDER", or "chat:recorded:FILE"
            for answers from a file, without a network.
        questions: their texts are sent, and nothing else: no gold perspectives.
        wording: of the prompt for perspectives, see :func:`chat_expansions`.
        recordings: a file of answers: what is in it is not asked again, and what is new is added at once.
        workers: requests in flight at a time.

    Returns:
        qid → [(name, statement), …], in the order of the answer. A question whose answer cannot be read is left out,
        with a warning, and then searched as it is.

    Raises:
        InputError: another name, or "hyde" with a published wording, which there is none of.
        UnreadableAnswerError: no answer can be read.
        MissingDataError: a model, a wording or a recorded answer that is not there.
        ChatError: the endpoint fails for good.
    """
    kind, _, model = name.partition(":")
    known("way to ask for expansions", kind, SEARCHED)
    if kind == "hyde" and wording != "ours":
        raise InputError("the prompt for hypothetical passages has one wording, ours", field="wording")
    chat = make_chat(model, max_tokens=MAX_TOKENS, schema=SCHEMA if kind == "chat" else None)
    chat = Kept(chat, recordings) if recordings else chat
    if kind == "hyde":
        return hyde_expansions(questions, chat, workers=workers)
    return chat_expansions(questions, chat, wording, workers=workers)


def chat_expansions(
    questions: Sequence[Question], chat: ChatModel, wording: str = "ours", *, nested: str = "all", workers: int = 4
) -> dict[str, list[tuple[str, str]]]:
    """Ask a chat model for the perspectives on each question.

    The model needs room, as :func:`expansions_by` gives it. Wrapped in :class:`~berdslib.llm.recorded.Kept`, every
    answer is on disk as soon as it is there.

    Args:
        questions: their texts are sent, and nothing else: no gold perspectives.
        chat: who answers.
        wording: "ours", or "published" for the papers' own prompt, which the user has to import first.
        nested: see :func:`berdslib.llm.answers.parse_perspectives`.
        workers: requests in flight at a time.

    Returns:
        qid → [(name, statement), …], in the order of the answer.

    Raises:
        UnreadableAnswerError: no answer can be read; else a warning names the questions that are left out.
        MissingDataError: the published wording has not been imported, or a recorded answer is not there.
        ChatError: the endpoint fails for good.
    """
    prompt = load_prompt("perspective_generation", wording, needs=("question",), asked=chat.id)
    known("reading of nested answers", nested, NESTED)
    return _ask(questions, chat, prompt, workers, lambda text: parse_perspectives(text, nested))


def hyde_expansions(
    questions: Sequence[Question], chat: ChatModel, *, workers: int = 4
) -> dict[str, list[tuple[str, str]]]:
    """Ask a chat model for a passage that could answer each question, to search by: one expansion a question.

    Search it with ``merge="statement only"``, and ``original=True`` where the question should have its say too. Source:
    Gao et al. (2023), "Precise zero-shot dense retrieval without relevance labels" (HyDE), who average the vectors of
    several sampled passages; here it is one passage, so that any retriever can search by it.

    Args:
        questions: their texts are sent, and nothing else.
        chat: who answers; see :func:`chat_expansions`.
        workers: requests in flight at a time.

    Raises:
        UnreadableAnswerError: all answers are empty; else a warning names the questions that are left out.
        ChatError: the endpoint fails for good.
    """
    return _ask(
        questions, chat, load_prompt("hypothetical_passage", needs=("question",), asked=chat.id), workers, _passage
    )


def _passage(answer: str) -> list[tuple[str, str]]:
    text = " ".join(strip_reasoning(answer).split())
    if not text:
        raise InputError("it is empty")
    return [("hypothetical passage", text)]


def _ask(
    questions: Sequence[Question],
    chat: ChatModel,
    prompt: Prompt,
    workers: int,
    read: Callable[[str], list[tuple[str, str]]],
) -> dict[str, list[tuple[str, str]]]:
    check_questions(questions)
    # A question is a text from elsewhere: it must not close the tags it stands between.
    asked = {q.qid: prompt.messages(question=defuse_tag(q.text, "question")) for q in questions}
    return read_all(chat, asked, read, what="question", workers=workers, desc="expanding")
