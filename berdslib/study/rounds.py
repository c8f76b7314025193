"""An agent's search in rounds: what each round adds, and what a stop after fewer rounds would have hidden.

A trace is a frame qid, round (from 1), query, docno, rank (from 1), with a row for each passage that a round found.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from berdslib.data.corpus import by_docno
from berdslib.data.records import QID_NAMES, Query, Question, check_questions, check_verdicts, read_pairs
from berdslib.data.tables import Row, from_json, read_table
from berdslib.errors import InputError
from berdslib.files import StrPath
from berdslib.llm.answers import strip_reasoning
from berdslib.llm.asking import read_all
from berdslib.llm.chat import ChatModel, UnreadError
from berdslib.llm.prompting import load_prompt
from berdslib.llm.untrusted import defuse_tag
from berdslib.stats import mean_interval
from berdslib.study.front import retriever
from berdslib.study.scoring import Data, collection_of
from berdslib.study.tables import Shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

_FOUND = ("docnos", "docids", "doc_ids", "retrieved_docids", "documents", "docs", "results", "output")
_TASK = "next_query"
_EXCERPT = 60  # words of a passage that the chat model reads


def read_trace(path: StrPath) -> pd.DataFrame:
    """Read a trace from JSONL or another table.

    A row is a round: an id (`qid`, `query_id`, …), `round`, `query`, and the passages it found, best first (`docnos`,
    `doc_ids`, `documents`, …: ids, or objects with an id). Or a row is a question with `rounds`, a list of such
    objects, or with `result`, the calls of tools that BrowseComp-Plus records: each call of a search is a round. Rounds
    in such a list may lack `round`; they are then counted in their order.
    """
    rows = []
    seen = set[tuple[str, int]]()
    for _, row in read_table(path, QID_NAMES):
        qid = row.text(*QID_NAMES)
        steps = _steps(row)
        for number, step in enumerate(steps, start=1):
            counted = step is row or step.has("round")
            place = step.number("round") if counted else number
            round_ = int(place)
            if round_ < 1 or round_ != place:
                raise step.wrong("round", f"a whole number from 1 is expected, not {place:g}")
            if (qid, round_) in seen:
                raise step.wrong("round", f"question {qid!r} has round {round_} twice; number its rounds 1, 2, …")
            seen.add((qid, round_))
            query = step.text("query", "search_query", default="")
            docnos = list(dict.fromkeys(_docnos(step)))
            rows += [(qid, round_, query, docno, rank) for rank, docno in enumerate(docnos, start=1)]
    if not rows:
        raise InputError("no round found a passage", path=path)
    return pd.DataFrame(rows, columns=["qid", "round", "query", "docno", "rank"])


def _steps(row: Row) -> list[Row]:
    """Return the rounds of a row, which may be a round itself."""
    field = next((name for name in ("rounds", "result") if isinstance(row.get(name), list)), None)
    if field is None:
        return [row]
    steps = []
    for i, step in enumerate(row[field]):
        inner = Row(step, row.path, row.line, within=f"{field}[{i}].") if isinstance(step, dict) else None
        if inner is None:
            raise row.wrong(f"{field}[{i}]", "an object was expected for each round")
        if field == "result":
            if "search" not in str(inner.get("tool_name", "")):
                continue
            arguments = inner.get("arguments")
            inner |= from_json(arguments, row.path, row.line, field) if isinstance(arguments, str) else arguments or {}
        steps.append(inner)
    return steps


def _docnos(step: Row) -> list[str]:
    field, found = step.first(*_FOUND)
    if isinstance(found, str) and found.lstrip().startswith("["):  # a cell of a table
        found = from_json(found, step.path, step.line, field)
    if not isinstance(found, list):
        raise step.wrong(field, 'a list was expected, of ids or of objects with an id, such as ["d1", "d2"]')
    ids = []
    for each in found:
        named = Row(each, step.path, step.line, within=f"{field}.") if isinstance(each, dict) else None
        ids.append(named.text("docid", "docno", "doc_id", "id", "_id") if named else str(each))
    return ids


@dataclass(frozen=True, eq=False, repr=False)
class Rounds(Shown):
    """What the rounds of a search showed.

    Args:
        table: one row a round: `shown`, the mean share of a question's perspectives that it and the rounds before it
            found, with low and high; `all`, the share of questions with all perspectives (MRecall without a cut-off);
            `new`, the share that the round added; `passages`, the mean number found so far; `asked`, questions that
            had this round; `judged`, the share of the round's passages with a verdict on any perspective. A question
            whose search stopped keeps what it had.
        each: one row a question, round and perspective that the round was the first to show: qid, round, query, pid,
            perspective.
        n: number of questions.
        left_out: number of questions of the trace that the data set does not have, or has no verdict on.
    """

    table: pd.DataFrame
    each: pd.DataFrame
    n: int
    left_out: int = 0

    @property
    def shown(self) -> pd.DataFrame:
        """The table in percent."""
        percent = ["shown", "low", "high", "all", "all_low", "all_high", "new", "judged"]
        return self.table.assign(**(100 * self.table[percent]).round(1)).round({"passages": 1})

    @property
    def caption(self) -> str:
        """What the columns count."""
        asked = f"{self.n} question{'s' * (self.n != 1)}"
        if self.left_out:
            asked += f" ({self.left_out} of the trace left out: not in the data set, or without a verdict)"
        return f"{asked}; shares in percent with 95% intervals. A search that stopped keeps what it had."

    def hidden_after(self, rounds: int) -> pd.DataFrame:
        """Return the rows of `each` that a stop after so many rounds would have hidden."""
        return self.each[self.each["round"] > rounds].reset_index(drop=True)

    def titled(self) -> list[tuple[str, pd.DataFrame]]:
        """Return the shown table, without a title."""
        return [("", self.shown.set_index("round"))]

    def figure(self) -> Figure:
        """Draw the shares by round."""
        from berdslib.study.figures.curves import lines
        from berdslib.study.figures.style import PALETTE

        names = {"shown": "perspectives shown", "all": "questions with all of them"}
        drawn = 100 * self.table.set_index("round")[[*names]].rename(columns=names)
        figure = lines(drawn, "round", "percent", colours=(PALETTE[3], PALETTE[7]))  # no retriever's, no side's
        (axis,) = figure.axes
        for line, prefix in zip(axis.lines, ("", "all_"), strict=True):
            low, high = 100 * self.table[f"{prefix}low"], 100 * self.table[f"{prefix}high"]
            axis.fill_between(drawn.index, low, high, color=line.get_color(), alpha=0.15, lw=0)
        axis.lines[0].set(linewidth=5, markersize=11)  # seen behind the other where both coincide
        axis.lines[1].set_linestyle("--")
        axis.legend(frameon=False)
        axis.set_xticks(drawn.index)
        return figure


def coverage_by_round(trace: pd.DataFrame, verdicts: pd.DataFrame, questions: Sequence[Question]) -> Rounds:
    """Return which perspectives each round of a search was the first to show.

    Args:
        trace: from :func:`read_trace` or :func:`search_in_rounds`.
        verdicts: frame qid, pid, docno and p_yes or supports; questions without any verdict are left out.
        questions: those of the data set; a question that only one of them and the trace has is left out.

    Raises:
        InputError: the trace has no judged question, or none of its passages has a verdict.
    """
    check_questions(questions, need_perspectives=True)
    read = read_pairs(check_verdicts(verdicts))
    wanted = set(read["qid"]) & set(trace["qid"])
    asked = [question for question in questions if question.qid in wanted]
    if not asked:
        raise InputError("the trace has none of the judged questions", field="qid")
    if not trace["docno"].isin(read["docno"]).any():
        raise InputError(f"no passage of the trace, such as {trace['docno'].iloc[0]!r}, has a verdict", field="docno")
    of_trace = trace["qid"].nunique()
    trace = trace[trace["qid"].isin([question.qid for question in asked])]
    found = trace.merge(read.loc[read["supports"], ["qid", "pid", "docno"]], on=["qid", "docno"])
    first = found.sort_values(["round", "rank"], kind="stable").drop_duplicates(["qid", "pid"])
    each = first.sort_values(["qid", "round", "pid"])[["qid", "round", "query", "pid"]].reset_index(drop=True)
    statements = {question.qid: question.perspectives for question in asked}
    each["perspective"] = [statements[qid][pid] for qid, pid in zip(each["qid"], each["pid"], strict=True)]
    sizes = pd.Series({question.qid: len(question.perspectives) for question in asked})
    listed = pd.MultiIndex.from_frame(trace[["qid", "docno"]])
    has_verdict = listed.isin(pd.MultiIndex.from_frame(read[["qid", "docno"]]))
    rows = []
    before = 0.0
    for number in range(1, int(trace["round"].max()) + 1):
        seen = each[each["round"] <= number].groupby("qid").size().reindex(sizes.index, fill_value=0)
        share = (seen / sizes).to_numpy(dtype=np.float64)
        whole = (seen == sizes).to_numpy(dtype=np.float64)
        so_far = trace[trace["round"] <= number]
        passages = len(so_far.drop_duplicates(["qid", "docno"])) / len(sizes)
        of_round = trace["round"] == number
        row: dict[str, Any] = {"round": number, "asked": trace.loc[of_round, "qid"].nunique()}
        row |= dict(zip(("shown", "low", "high"), (share.mean(), *mean_interval(share)), strict=True))
        row |= dict(zip(("all", "all_low", "all_high"), (whole.mean(), *mean_interval(whole)), strict=True))
        judged = has_verdict[of_round].mean() if of_round.any() else np.nan
        rows.append(row | {"new": share.mean() - before, "passages": passages, "judged": judged})
        before = share.mean()
    return Rounds(pd.DataFrame(rows), each, len(asked), of_trace - len(asked))


def search_in_rounds(system: str, data: Data, chat: ChatModel, *, rounds: int = 3, k: int = 5) -> pd.DataFrame:
    """Search, show what was found to a chat model, and search again with the query that it writes.

    The first query is the question. The model reads the question, the queries so far and the first words of the
    passages that its question has found; the perspectives stay unknown to it. A question whose answer cannot be read
    has no further round.

    Returns:
        A trace, see the module.
    """
    collection = collection_of(data)
    held = retriever(system, collection)
    passages = by_docno(collection.passages)
    prompt = load_prompt(_TASK, "ours", needs=("question", "queries", "passages"), asked=chat.id)
    queries = {question.qid: [question.text] for question in collection.questions}
    going = list(collection.questions)
    parts = list[pd.DataFrame]()
    for number in range(1, rounds + 1):
        asked = [Query(question.qid, queries[question.qid][-1], question) for question in going]
        found = held.search(asked, k)[["qid", "docno", "rank"]]
        latest = found["qid"].map({query.qid: query.text for query in asked})
        parts.append(found.assign(round=number, query=latest))
        if number == rounds:
            break
        trace = pd.concat(parts)
        messages = {}
        for question in going:
            docnos = trace.loc[trace["qid"] == question.qid, "docno"].unique()
            texts = [" ".join(passages[docno].text.split()[:_EXCERPT]) for docno in docnos]
            values = {"question": question.text, "queries": "\n".join(queries[question.qid])}
            values["passages"] = "\n\n".join(texts)
            messages[question.qid] = prompt.messages(
                **{name: defuse_tag(text, "question", "queries", "passages") for name, text in values.items()}
            )
        try:
            written = read_all(chat, messages, _query, what="question", desc=f"round {number + 1}")
        except UnreadError as error:  # the rounds before it are kept
            logger.warning("no round after round %d: %s", number, error)
            break
        for qid, query in written.items():
            queries[qid].append(query)
        going = [question for question in going if len(queries[question.qid]) > number]
    return pd.concat(parts, ignore_index=True)[["qid", "round", "query", "docno", "rank"]]


def _query(answer: str) -> str:
    lines = strip_reasoning(answer).strip().splitlines()
    query = lines[0].strip().strip('"') if lines else ""
    if not query:
        raise InputError("it is empty")
    return query
