"""Query expansion: a retriever searches a question under several perspectives, and the lists are fused.

Expansions are plain data, question id → [(name, statement), …], in the order in which they were generated.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import pandas as pd

from berdslib.data.collection import Expansions, are_full_queries, perspective_queries
from berdslib.data.records import (
    AnyQuery,
    Query,
    Question,
    check_k,
    check_questions,
    check_run,
    make_run,
    ranked_run,
    some_of,
)
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

RankedDocnos = Mapping[str, Sequence[str]]  # the lists of one search: qid → docnos, best first
CONSTANT = 60.0  # of reciprocal rank fusion
MERGE = ("question first", "statement only")


# ---------------------------------------------------------------- fusion


def reciprocal_rank_fusion(runs: Sequence[pd.DataFrame | RankedDocnos], *, constant: float = CONSTANT) -> pd.DataFrame:
    """Fuse runs by the sum of 1 / (constant + rank) over the runs that list a passage; scores do not matter.

    Sums are exact; ties are ordered by docno. Source: Cormack, Clarke and Büttcher (2009), constant 60.

    Args:
        runs: frames with columns qid, docno and score (or rank), or plain lists, qid → docnos with the best first.
        constant: at least 0; a larger one gives the first ranks less weight.
    """
    if not 0 <= constant < math.inf:
        problem = f"the constant of reciprocal rank fusion must be a number of at least 0, not {constant}"
        raise InputError(problem, field="constant")
    # Sums stay fractions until the end: rounded terms would decide exact ties.
    sums: dict[tuple[str, str], Fraction] = {}
    for lists in _as_lists(runs):
        for qid, docnos in lists.items():
            for rank, docno in enumerate(docnos, start=1):
                sums[qid, docno] = sums.get((qid, docno), 0) + 1 / (Fraction(constant) + rank)
    return make_run([qid for qid, _ in sums], [docno for _, docno in sums], list(map(float, sums.values())))


def round_robin(runs: Sequence[pd.DataFrame | RankedDocnos], turns: int | None = None) -> pd.DataFrame:
    """Fuse runs by taking turns, starting with the first run; a passage that is already listed uses up a turn.

    With `turns`, only so many turns are taken. Source: BeRDS, section 6 (divergences.md B13).
    """
    all_lists = _as_lists(runs)
    fused = {}
    for qid in dict.fromkeys(chain.from_iterable(all_lists)):
        rounds = zip_longest(*(lists.get(qid, ()) for lists in all_lists))
        taken = [docno for docno in chain.from_iterable(rounds) if docno is not None]
        fused[qid] = list(dict.fromkeys(taken[:turns]))
    return ranked_run(fused)


def fuse(lists: Sequence[Sequence[str]], k: int | None = None, *, by: str = "round robin") -> list[str]:
    """Return the first k different ids of several lists for one question, best first; None for all.

    `by` is a key of ``FUSE``: "round robin" takes turns, "rrf" sums 1 / (60 + rank).

    >>> fuse([["a", "b"], ["c", "b"]], k=3), fuse([["a", "b"], ["c", "b"]], k=1, by="rrf")
    (['a', 'c', 'b'], ['b'])
    """
    text = lists if isinstance(lists, str) else next((one for one in lists if isinstance(one, str)), None)
    if text is not None:  # its letters would be taken for ids
        raise InputError(f'must be lists of ids, such as [["d1", "d2"], ["d3"]], not the text {text!r}', field="lists")
    known("fusion", by, FUSE)
    if not len(lists):
        return []
    fused = FUSE[by]([{"list": listed} for listed in lists])
    ids: list[str] = fused["docno"].tolist()
    return ids[:k]


def _as_lists(runs: Sequence[pd.DataFrame | RankedDocnos]) -> list[RankedDocnos]:
    if not len(runs):
        raise InputError("there are no runs to fuse")
    return [lists_of(check_run(run)) if isinstance(run, pd.DataFrame) else run for run in runs]


def lists_of(run: pd.DataFrame) -> dict[str, list[str]]:
    """Return the lists of a clean run, qid → docnos."""
    return {str(qid): part["docno"].tolist() for qid, part in run.groupby("qid", sort=False)}


FUSE: dict[str, Callable[..., pd.DataFrame]] = {"round robin": round_robin, "rrf": reciprocal_rank_fusion}
DUPLICATE_RULES = ("drop", "keep")


@dataclass
class Expanded:
    """A retriever that searches every question under its expansions, all in one call, and fuses the lists.

    A question without expansions is searched unchanged, and so is a query that was made of a question.

    Args:
        retriever: searches the expanded queries, each under an id of its own.
        expansions: qid → [(name, statement), …].
        name: its name in tables; "" for the retriever's name and "+expansion".
        merge: "question first", then the statement, as in the authors' recorded queries; or "statement only".
        duplicates: "drop" lists a passage once, and k passages, as in the paper; "keep" lets it fill several places of
            round robin, as in the official code, so that the run is shorter than k (divergences.md B13).
        fuse: "round robin", one list after the other in the order of generation; or "rrf", reciprocal rank fusion.
        original: the question itself is an additional query, the first.
        depth: passages of each list that reciprocal rank fusion looks at, at least k.
    """

    retriever: Retriever
    expansions: Expansions
    name: str = ""
    merge: str = "question first"
    duplicates: str = "drop"
    fuse: str = "round robin"
    original: bool = False
    depth: int = 100

    def __post_init__(self) -> None:
        known("way to merge", self.merge, MERGE)
        known("treatment of duplicates", self.duplicates, DUPLICATE_RULES)
        known("fusion", self.fuse, FUSE)
        if self.duplicates == "keep" and self.fuse != "round robin":
            raise InputError("only round robin can keep duplicates; reciprocal rank fusion adds them up", field="fuse")
        check_k(self.depth, "depth")
        self.name = self.name or f"{self.retriever.name}+expansion"

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question; round robin scores them with the negated rank."""
        _check_covered(questions, self.expansions)
        depth = max(k, self.depth) if self.fuse == "rrf" else k
        lists = self.lists(questions, depth)
        if self.duplicates == "keep":
            return round_robin(lists, k)  # the official code's list (divergences.md B13)
        run = FUSE[self.fuse](lists)
        return run[run["rank"] <= k].reset_index(drop=True)

    def lists(self, questions: Sequence[AnyQuery], depth: int) -> list[dict[str, list[str]]]:
        """Return for each question's first search, the second and so on: qid → docnos found, best first."""
        queries: list[Query] = []
        origins: dict[str, tuple[str, int]] = {}  # the query's id → the question's id, and the number of the search
        for asked in questions:
            for i, query in enumerate(self._queries(asked)):
                qid = f"{len(queries)}:{asked.qid}"
                queries.append(query._replace(qid=qid))
                origins[qid] = (asked.qid, i)
        run = self.retriever.search(queries, depth)
        searches = 1 + max(i for _, i in origins.values())
        lists: list[dict[str, list[str]]] = [{} for _ in range(searches)]
        for query_id, docnos in lists_of(run).items():
            qid, i = origins[query_id]
            lists[i][qid] = docnos
        return lists

    def _queries(self, asked: AnyQuery) -> list[Query]:
        """Return the queries that are searched in place of a question, or a query itself; their ids are not final."""
        if isinstance(asked, Query):
            return [asked]
        expanded = self._expanded(asked)
        if self.original or not expanded:
            return [Query(asked.qid, asked.text, asked), *expanded]
        return expanded

    def _expanded(self, question: Question) -> list[Query]:
        qid = question.qid
        pairs = self.expansions.get(qid, ())
        if are_full_queries(question, pairs):  # the texts contain the question
            return perspective_queries(question, self.expansions)
        if self.merge == "statement only":  # such as a hypothetical passage, which states no perspective
            return [Query(qid, text, question) for _, text in pairs]
        return [Query(qid, f"{question.text} {text}", question, stated=text) for _, text in pairs]


def _check_covered(questions: Sequence[AnyQuery], expansions: Expansions) -> None:
    originals = [question for question in questions if isinstance(question, Question)]
    without = [question.qid for question in originals if not expansions.get(question.qid)]
    if originals and len(without) == len(originals):
        known_ids = ", ".join(map(repr, list(expansions)[:3])) or "no question at all"
        problem = f"no question has expansions: ids are like {without[0]!r}, but expansions exist for {known_ids}"
        raise InputError(problem)
    if without:
        named = ", ".join(without[:5]) + (" …" if len(without) > 5 else "")
        some = some_of(len(without), len(originals), "question", "have")
        logger.warning("%s no expansions, and the question itself is searched for: %s", some, named)


# ---------------------------------------------------------------- by rule


def template_expansions(questions: Sequence[Question]) -> dict[str, list[tuple[str, str]]]:
    """Return expansions without a model: statements that say yes and no, and searches for arguments on either side.

    If no rule finds the two statements, a search for opinions replaces them. Gold perspectives are not used.

    >>> template_expansions([Question("q", "Should zoos close?")])["q"][1]
    ('No', 'Zoos should not close.')
    """
    check_questions(questions)
    return {q.qid: list(_templates(q.text)) for q in questions}


@lru_cache(maxsize=4096)  # many systems search the same questions
def _templates(text: str) -> tuple[tuple[str, str], ...]:
    answers = two_sides(text)
    bare = re.sub(r"^the perspective on\s+", "", " ".join(text.split()), flags=re.IGNORECASE)
    topic = (answers[0] if answers else bare).rstrip("?.! ")
    searches = (
        ("Arguments for", f"Arguments for: {topic}. Benefits, advantages and reasons in favour."),
        ("Arguments against", f"Arguments against: {topic}. Harms, drawbacks and reasons to oppose it."),
    )
    if not answers:
        return (*searches, ("Opinions", f"Opinions and answers that differ: {topic}."))
    names = ("Yes", "No") if two_sides(text, choices=False) else ("One answer", "The other")
    return (*zip(names, answers, strict=False), *searches)


# ---------------------------------------------------------------- by a chat model


EXPANSION_TOKENS = 1500  # of an answer; the paper's six perspectives of 44 words have some 400
SCHEMA = FORMS["perspective_generation"].schema
# The options of :class:`Expanded` for each kind of expansion, where they are not the defaults.
SEARCHED: dict[str, dict[str, Any]] = {"chat": {}, "hyde": {"merge": "statement only"}}
# Kind of expansion → the task of its prompt.
TASK_OF = {"chat": "perspective_generation", "hyde": "hypothetical_passage"}


def expansions_by(
    name: str,
    questions: Sequence[Question],
    *,
    recordings: Path | None = None,
) -> dict[str, list[tuple[str, str]]]:
    """Return the expansions of a chat model; search them with ``Expanded(…, **SEARCHED[kind])``.

    `name` is "chat:MODEL" for perspectives (BeRDS, section 6), or "hyde:MODEL" for a passage that could answer. Another
    wording of the prompt may follow, as in "chat:MODEL@published". Only the questions' texts are sent. Answers in the
    file of recordings are reused, and new ones are added at once. A question with an unreadable answer is left out,
    with a warning, and then searched unchanged.
    """
    kind, _, model = name.partition(":")
    model, wording = split_wording(TASK_OF[known("way to ask for expansions", kind, SEARCHED)], model)
    chat = make_chat(model, max_tokens=EXPANSION_TOKENS, schema=SCHEMA if kind == "chat" else None)
    if recordings:
        chat = Recorded(recordings, chat)
    make = chat_expansions if kind == "chat" else hyde_expansions
    return make(questions, chat, wording or "ours")


def chat_expansions(
    questions: Sequence[Question],
    chat: ChatModel,
    wording: str = "ours",
    *,
    nested: str = "all",
) -> dict[str, list[tuple[str, str]]]:
    """Ask a chat model for the perspectives on each question, qid → [(name, statement), …] in the order of the answer.

    Only the questions' texts are sent. Questions with unreadable answers are left out, and a warning names them; it is
    an error if no answer can be read. `wording` is "ours", or "published" for the papers' prompt; `nested`: see
    :func:`berdslib.llm.answers.parse_perspectives`.
    """
    prompt = load_prompt("perspective_generation", wording, needs=("question",), asked=chat.id)
    known("reading of nested answers", nested, NESTED)
    return _ask(questions, chat, prompt, lambda text: parse_perspectives(text, nested))


def hyde_expansions(
    questions: Sequence[Question],
    chat: ChatModel,
    wording: str = "ours",
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
    questions: Sequence[Question],
    chat: ChatModel,
    prompt: Prompt,
    read: Callable[[str], list[tuple[str, str]]],
) -> dict[str, list[tuple[str, str]]]:
    check_questions(questions)
    messages = {}
    for question in questions:
        text = defuse_tag(question.text, "question")  # an untrusted text must not close the tags around it
        messages[question.qid] = prompt.messages(question=text)
    return read_all(chat, messages, read, what="question", desc="expanding")
