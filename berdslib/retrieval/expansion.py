"""Query expansion: a question is searched under several perspectives, and the lists found are made one.

Expansions are plain data, question id → [(name, statement), …], in the order in which they were generated.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import pandas as pd

from berdslib.data.collection import Expansions, are_full_queries
from berdslib.data.records import Question, check_k, check_questions, check_run, make_run, ranked_run
from berdslib.errors import InputError, known
from berdslib.llm.answers import NESTED, parse_perspectives, strip_reasoning
from berdslib.llm.asking import read_all
from berdslib.llm.chat import ChatModel
from berdslib.llm.prompting import FORMS, Prompt, load_prompt, split_wording
from berdslib.llm.recorded import Recorded
from berdslib.llm.untrusted import defuse_tag
from berdslib.models.chat import make_chat
from berdslib.retrieval.base import Retriever
from berdslib.statements import two_sides

logger = logging.getLogger(__name__)

Lists = Mapping[str, Sequence[str]]  # what one search found: qid → docnos, best first
CONSTANT = 60.0  # of reciprocal rank fusion
MERGE = ("question first", "statement only")


# ---------------------------------------------------------------- several lists made one


def reciprocal_rank_fusion(runs: Sequence[pd.DataFrame | Lists], *, constant: float = CONSTANT) -> pd.DataFrame:
    """Fuse runs by the sum of 1 / (constant + rank) over the runs that list a passage; scores play no part.

    Sums are exact; ties are ordered by docno. Source: Cormack, Clarke and Büttcher (2009), constant 60.

    Args:
        runs: frames with columns qid, docno and score (or rank), or plain lists, qid → docnos with the best first.
        constant: how little the first ranks stand out, at least 0.
    """
    if not 0 <= constant < math.inf:
        problem = f"the constant of reciprocal rank fusion must be a number of at least 0, not {constant}"
        raise InputError(problem, field="constant")
    lists = _lists(runs)
    # Sums stay fractions of whole numbers until the end: rounded terms would decide exact ties.
    above, below = float(constant).as_integer_ratio()
    longest = max((len(docnos) for one in lists for docnos in one.values()), default=0)
    divisors = [above + below * rank for rank in range(1, longest + 1)]  # a term is below / divisor
    sums: dict[str, dict[str, tuple[int, int]]] = {}
    for one in lists:
        for qid, docnos in one.items():
            of_question = sums.setdefault(qid, {})
            for docno, divisor in zip(docnos, divisors, strict=False):
                numerator, denominator = of_question.get(docno, (0, 1))
                of_question[docno] = numerator * divisor + denominator * below, denominator * divisor
    qids = [qid for qid, of_question in sums.items() for _ in of_question]
    fractions = chain.from_iterable(of_question.values() for of_question in sums.values())
    return make_run(qids, list(chain.from_iterable(sums.values())), [top / bottom for top, bottom in fractions])


def round_robin(runs: Sequence[pd.DataFrame | Lists], turns: int | None = None) -> pd.DataFrame:
    """Fuse runs by taking turns, the first run beginning; what is listed already uses up its run's turn.

    Only what `turns` turns name is listed. Source: BeRDS, section 6 (divergences.md B13).
    """
    lists, fused = _lists(runs), {}
    for qid in dict.fromkeys(qid for one in lists for qid in one):
        taken = (docno for turn in zip_longest(*(one.get(qid, ()) for one in lists)) for docno in turn)
        fused[qid] = list(dict.fromkeys(islice((docno for docno in taken if docno is not None), turns)))
    return ranked_run(fused)


def _lists(runs: Sequence[pd.DataFrame | Lists]) -> list[Lists]:
    if not len(runs):
        raise InputError("there are no runs to fuse")
    return [lists_of(check_run(run)) if isinstance(run, pd.DataFrame) else run for run in runs]


def lists_of(run: pd.DataFrame) -> dict[str, list[str]]:
    """Return the lists of a clean run, qid → docnos."""
    return {str(qid): part["docno"].tolist() for qid, part in run.groupby("qid", sort=False)}


FUSE: dict[str, Callable[..., pd.DataFrame]] = {"round robin": round_robin, "rrf": reciprocal_rank_fusion}
DUPLICATES = ("drop", "keep")


@dataclass
class Expanded:
    """A retriever that searches every question under its expansions, all in one call, and fuses what is found.

    A question without expansions is searched as it is, and so is a query that was made of a question.

    Args:
        retriever: searches the expanded queries, each under an id of its own.
        expansions: qid → [(name, statement), …].
        name: what it is called in tables; "" for the retriever's name and "+expansion".
        merge: "question first", then the statement, as in the authors' recorded queries; or "statement only".
        duplicates: "drop" lists a passage once, and k passages, as in the paper; "keep" lets it fill several places of
            round robin, as in the official code, so that the run is shorter than k (divergences.md B13).
        number: use only the first so many expansions of a question; 0 = all.
        fuse: "round robin", one list after the other in the order of generation; or "rrf", reciprocal rank fusion.
        original: the question itself is one more query, the first.
        depth: passages of each list that reciprocal rank fusion looks at, at least k.
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
        check_k(self.depth, "depth")
        self.name = self.name or f"{self.retriever.name}+expansion"

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question; round robin scores them with the negated rank."""
        _check_covered(questions, self.expansions)
        lists = self.lists(questions, max(k, self.depth) if self.fuse == "rrf" else k)
        if self.duplicates == "keep":
            return round_robin(lists, k)  # the official code's list (divergences.md B13)
        run = FUSE[self.fuse](lists)
        return run[run["rank"] <= k].reset_index(drop=True)

    def lists(self, questions: Sequence[Question], depth: int) -> list[dict[str, list[str]]]:
        """Return for each question's first search, the second and so on: qid → docnos found, best first."""
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
        for query, docnos in lists_of(self.retriever.search(queries, depth)).items():
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


def _query(question: Question, qid: str, text: str, perspective: str) -> Question:
    """Return a query made of a question; one that asks from a perspective knows it, and the question's text."""
    query = question._replace(qid=qid, text=text, owner=question.owner or question.qid)
    if not perspective:
        return query
    return query._replace(root=question.text, perspectives=(perspective,), stances=(), labels=(), weights=())


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

    Where no rule is sure of the answers, a search for opinions takes their place. Gold perspectives are not looked at.

    >>> template_expansions([Question("q", "Should zoos close?")])["q"][1]
    ('No', 'Zoos should not close.')
    """
    check_questions(questions)
    return {q.qid: list(_templates(q.text)) for q in questions}


@lru_cache(maxsize=4096)  # the same questions are asked by many systems
def _templates(text: str) -> tuple[tuple[str, str], ...]:
    answers = two_sides(text)
    names = ("Yes", "No") if two_sides(text, choices=False) else ("One answer", "The other")
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
    """Return the expansions that a chat model makes, by name; search them with ``Expanded(…, **SEARCHED[kind])``.

    `name` is "chat:MODEL" for perspectives (BeRDS, section 6), or "hyde:MODEL" for a passage that could answer. Another
    wording of the prompt may follow, as in "chat:MODEL@published". Only the questions' texts are sent; what is in the
    file of recordings is not asked again, and what is new is added at once. A question whose answer cannot be read is
    left out, with a warning, and then searched as it is.
    """
    kind, _, model = name.partition(":")
    known("way to ask for expansions", kind, SEARCHED)
    task = "perspective_generation" if kind == "chat" else "hypothetical_passage"
    model, wording = split_wording(task, model)
    chat = make_chat(model, max_tokens=MAX_TOKENS, schema=SCHEMA if kind == "chat" else None)
    chat = Recorded(recordings, chat) if recordings else chat
    make = chat_expansions if kind == "chat" else hyde_expansions
    return make(questions, chat, wording or "ours")


def chat_expansions(
    questions: Sequence[Question], chat: ChatModel, wording: str = "ours", *, nested: str = "all"
) -> dict[str, list[tuple[str, str]]]:
    """Ask a chat model for the perspectives on each question, qid → [(name, statement), …] in the order of the answer.

    Only the questions' texts are sent. Questions whose answers cannot be read are left out, and a warning names them;
    it is an error only where that is so of all. `wording` is "ours", or "published" for the papers' prompt; `nested`:
    see :func:`berdslib.llm.answers.parse_perspectives`.
    """
    prompt = load_prompt("perspective_generation", wording, needs=("question",), asked=chat.id)
    known("reading of nested answers", nested, NESTED)
    return _ask(questions, chat, prompt, lambda text: parse_perspectives(text, nested))


def hyde_expansions(
    questions: Sequence[Question], chat: ChatModel, wording: str = "ours"
) -> dict[str, list[tuple[str, str]]]:
    """Ask a chat model for a passage that could answer each question, to search by: one expansion a question.

    Source: Gao et al. (2023), HyDE, who average the vectors of several passages. Search with ``merge="statement
    only"``.
    """
    prompt = load_prompt("hypothetical_passage", wording, needs=("question",), asked=chat.id)
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
