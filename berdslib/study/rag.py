"""Downstream use of retrieval: short answers and essays written from retrieved passages (PIR, section 3.3).

Answers are scored by exact match, essays by the correlation of their sentiment with the requested stance.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.collection import Collection
from berdslib.data.pir import PirQuery, pir_collection
from berdslib.data.records import OPPOSE, SUPPORT, AnyQuery, Passage, Query, Question, check_k, check_run, some_of
from berdslib.errors import InputError
from berdslib.llm.asking import read_all
from berdslib.llm.chat import ChatModel
from berdslib.llm.prompting import Prompt, load_prompt
from berdslib.llm.untrusted import defuse_tag, one_line, tell_hidden
from berdslib.stats import sum_by_cluster

_TITLE = "Title: "
# Words that name a side in the perspectives of PIR's Perspectrum and Ex-FEVER and of our questions.
_FOR = re.compile(r"\bsupport|\bspeaks? for\b|\bfollows? from\b", re.I)
_AGAINST = re.compile(r"\b(oppos|undermin|refut|contradict|against\b)", re.I)
_DENIED = re.compile(
    r"(\bnot|n't|n’t|\bnever)\s+(\w+\s+)?(support|speak|follow|oppos|undermin|refut|contradict|against)", re.I
)


class Correlation(NamedTuple):
    """Pearson's ``r`` with a bootstrap interval from ``low`` to ``high``; all NaN if one variable is constant.

    ``p_value`` is two-sided and, as in PIR Table 5, assumes that the ``n`` essays are independent.
    """

    r: float
    low: float
    high: float
    p_value: float
    n: int


# ---------------------------------------------------------------- short answers


def answer_questions(
    queries: Sequence[AnyQuery],
    run: pd.DataFrame | None,
    passages: Mapping[str, Passage],
    chat: ChatModel,
    golds: Mapping[str, Sequence[str]],
    *,
    depth: int = 1,
    wording: str = "ours",
    workers: int = 4,
) -> pd.DataFrame:
    """Answer every question from its first passages, and compare the answers with the accepted answers.

    Args:
        queries: the questions; the prompt contains the whole ``text`` of each.
        run: the retrieved passages; None to ask without passages.
        passages: docno → passage.
        chat: the model that answers.
        golds: qid → accepted answers.
        depth: number of passages in the prompt.
        wording: the wording of the prompt, "ours" or "published".
        workers: number of concurrent requests.

    Returns:
        One row per question: qid, docnos (of the shown passages, separated by spaces), answer, exact_match (1.0 or 0.0;
        NaN without an answer).

    Source: PIR, section 3.3 and appendix A.8.
    """
    without = [q.qid for q in queries if not golds.get(q.qid)]
    if without:
        some = some_of(len(without), len(queries), "question", "have")
        raise InputError(f"{some} no accepted answer, such as {without[0]!r}")
    for q in queries:
        if isinstance(golds[q.qid], str):
            raise InputError(f"the accepted answers to {q.qid!r} must be a list of texts, not one text", field="golds")
    prompt = load_prompt("question_answering", wording, needs=("k", "q"), asked=chat.id)
    shown = _shown(queries, run, passages, depth)
    slots = []
    for q, of_query in zip(queries, shown, strict=True):
        slots.append({"k": _block(of_query), "q": _line(q.text)})
    table = _answered(queries, shown, chat, prompt, slots, workers)
    table = table.rename(columns={"text": "answer"})
    matches = []
    for qid, answer in zip(table["qid"], table["answer"], strict=True):
        matches.append(exact_match(answer, golds[qid]) if answer else np.nan)
    return table.assign(exact_match=np.array(matches, dtype=float))


def exact_match(answer: str, golds: Iterable[str]) -> bool:
    """Return whether an answer equals an accepted answer after :func:`normalise_answer`.

    >>> exact_match("The Beatles.", ["Beatles", "Fab Four"])
    True
    """
    return normalise_answer(answer) in {normalise_answer(g) for g in golds}


def normalise_answer(text: str) -> str:
    """Return a text in lower case without punctuation, articles and extra spaces, as SQuAD's scorer does.

    >>> normalise_answer(" An  apple-tree, the tallest! ")
    'appletree tallest'
    """
    bare = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


# ---------------------------------------------------------------- essays


def write_essays(
    queries: Sequence[Query],
    run: pd.DataFrame | None,
    passages: Mapping[str, Passage],
    chat: ChatModel,
    *,
    depth: int = 5,
    wording: str = "ours",
    workers: int = 4,
) -> pd.DataFrame:
    """Write an essay for every query from its first passages: on its root, with the stance of its perspective.

    The root of a query is its question. The arguments are those of :func:`answer_questions`. Source: PIR, section 3.3
    and appendix A.8.

    Returns:
        One row per query: qid, root, stance (1 or -1), docnos, essay, words, and three polarities by TextBlob, -1 to 1:
        polarity (of the essay; NaN without an essay), pair_polarity (of the words "Topic: …; Stance: …"),
        passages_polarity (mean over the shown passages; NaN without passages).
    """
    prompt = load_prompt("essay_writing", wording, needs=("k", "q", "s"), asked=chat.id)
    for q in queries:
        if not isinstance(q, Query):
            problem = f"{q.qid!r} is not a query for one side of a topic; use the `queries` of a collection"
            raise InputError(problem, field="queries")
    shown = _shown(queries, run, passages, depth)
    roots = [q.question.text for q in queries]
    stances = [stance_of(q.perspective) for q in queries]
    slots = []
    of_pairs = []
    of_passages = []
    for root, of_query, stance in zip(roots, shown, stances, strict=True):
        name = "Support" if stance > 0 else "Oppose"
        slots.append({"k": _block(of_query), "q": _line(root), "s": name})
        of_pairs.append(polarity(f"Topic: {root}; Stance: {name}"))
        of_passages.append(np.mean([polarity(p.full_text) for p in of_query]) if of_query else np.nan)
    table = _answered(queries, shown, chat, prompt, slots, workers)
    table = table.rename(columns={"text": "essay"})
    table.insert(1, "root", roots)
    table.insert(2, "stance", stances)
    return table.assign(
        words=[len(essay.split()) for essay in table["essay"]],
        polarity=[polarity(essay) if essay else np.nan for essay in table["essay"]],
        pair_polarity=of_pairs,
        passages_polarity=of_passages,
    )


def polarity(text: str) -> float:
    """Return the sentiment of a text by TextBlob's word list, from -1 (negative) to 1; 0 without a known word.

    >>> polarity("A wonderful plan."), polarity("I oppose it.")
    (1.0, 0.0)
    """
    from textblob import TextBlob

    return float(TextBlob(text).sentiment.polarity)


def stance_of(perspective: str) -> int:
    """Return 1 for a perspective that supports its topic, -1 for one that opposes it.

    >>> stance_of("a claim that opposes the argument")
    -1
    """
    supports = _FOR.search(perspective) is not None
    opposes = _AGAINST.search(perspective) is not None
    problem = ""
    if supports and opposes:
        problem = "names both sides"
    elif not supports and not opposes:
        problem = "names no side"
    elif _DENIED.search(perspective):  # "does not support" need not mean "opposes"
        problem = "negates the side that it names"
    if problem:
        expected = "expected one of supports, opposes, undermines, refutes, against"
        raise InputError(f"perspective {perspective!r} {problem}; {expected}")
    return 1 if supports else -1


def correlation(
    x: np.ndarray,
    y: np.ndarray,
    groups: Sequence[str] | None = None,
    *,
    resamples: int = 2000,
) -> Correlation:
    """Return Pearson's correlation of x and y, (n,), with a 95 % percentile interval from a bootstrap of the groups."""
    from scipy.stats import pearsonr

    if len(x) != len(y) or (groups is not None and len(groups) != len(x)):
        raise InputError(f"x, y and groups must have the same length; x has {len(x)} and y {len(y)}")
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(np.nan, np.nan, np.nan, np.nan, len(x))
    test = pearsonr(x, y)
    clusters = [f"{i:09}" for i in range(len(x))] if groups is None else groups
    r = _resampled(x, y, clusters, resamples)
    low, high = np.nanquantile(r, [0.025, 0.975])
    return Correlation(float(test.statistic), float(low), float(high), float(test.pvalue), len(x))


def _resampled(x: np.ndarray, y: np.ndarray, clusters: Sequence[str], resamples: int) -> np.ndarray:
    """Return the correlations (resamples,) of x and y, (n,), in bootstrap samples; NaN where one is constant."""
    dx = (x - x.mean()) / x.std()
    dy = (y - y.mean()) / y.std()
    moments = np.column_stack([np.ones(len(x)), dx, dy, dx * dx, dy * dy, dx * dy])
    sums = sum_by_cluster(moments, clusters)
    drawn = np.random.default_rng(0).integers(0, len(sums), (resamples, len(sums)))
    counts = np.apply_along_axis(np.bincount, 1, drawn, minlength=len(sums))
    n, sx, sy, sxx, syy, sxy = (counts @ sums).T
    vx = sxx - sx * sx / n
    vy = syy - sy * sy / n
    constant = (vx < 1e-9) | (vy < 1e-9)  # rounding leaves a small variance in a constant sample
    covariance = sxy - sx * sy / n
    r: np.ndarray = np.where(constant, np.nan, covariance / np.sqrt(np.where(constant, 1.0, vx * vy)))
    return r


# ---------------------------------------------------------------- queries and prompts


def stance_task(questions: Sequence[Question], gold: pd.DataFrame, passages: Sequence[Passage]) -> Collection:
    """Return questions with two sides as a task in PIR's form, with one query for each side of a question.

    The root is the supporting perspective. Questions without two sides, or without passages for both, are left out.
    """
    supporting = gold[gold["supports"]].groupby(["qid", "pid"])["docno"].agg(tuple).to_dict()
    rows: list[PirQuery] = []
    for q in questions:
        docnos = {side: supporting.get((q.qid, pid), ()) for pid, side in enumerate(q.stances)}
        if len(q.stances) != 2 or set(docnos) != {SUPPORT, OPPOSE} or not all(docnos.values()):
            continue
        root = q.perspectives[q.stances.index(SUPPORT)]
        for side in (SUPPORT, OPPOSE):
            perspective = f"a claim that {side}s the argument"
            text = f"Find {perspective}: {root}"
            rows.append(PirQuery(f"{q.qid}-{side}", text, root, perspective, docnos[side], side))
    return pir_collection("stances", rows, passages)


def _shown(
    queries: Sequence[AnyQuery], run: pd.DataFrame | None, passages: Mapping[str, Passage], depth: int
) -> list[list[Passage]]:
    """Return the first passages of each query; an empty list for a query without passages."""
    check_k(depth, "depth")
    if run is None:
        return [[] for _ in queries]
    clean = check_run(run)  # sorted by rank
    best = clean[(clean["rank"] <= depth) & clean["qid"].isin([q.qid for q in queries])]
    if queries and len(clean) and best.empty:
        ids = f"{clean['qid'].iloc[0]!r} against {queries[0].qid!r} …"
        raise InputError(f"the run and the queries do not belong together: {ids}", field="qid")
    listed = best.groupby("qid", sort=False)["docno"].agg(list).to_dict()
    for docno in best["docno"]:
        if docno not in passages:
            raise InputError(f"the run lists passage {docno!r}, which is not in the corpus")
    tell_hidden({docno: passages[docno].full_text for docno in best["docno"]})
    return [[passages[docno] for docno in listed.get(q.qid, ())] for q in queries]


def _block(shown: Sequence[Passage]) -> str:
    """Wrap each passage in tags; a closing tag inside a passage is defused."""
    blocks = []
    for passage in shown:
        text = f"{_TITLE}{passage.title}\n{passage.text}" if passage.title else passage.text
        blocks.append(f"<passage>\n{defuse_tag(text, 'passage')}\n</passage>")
    return "\n".join(blocks)


def _line(text: str) -> str:
    """Return a question or topic on one line, so that it cannot start another field of the prompt."""
    return defuse_tag(one_line(text), "passage")


def _answered(
    queries: Sequence[AnyQuery],
    shown: Sequence[Sequence[Passage]],
    chat: ChatModel,
    prompt: Prompt,
    slots: Sequence[Mapping[str, str]],
    workers: int,
) -> pd.DataFrame:
    """Return a row for each query: qid, docnos (of the shown passages), text (by the model); `slots` fill the prompt.

    The text is "" if it cannot be read, the model refuses or the passages do not fit; a warning counts such queries.
    """
    requests = {str(i): prompt.messages(**values) for i, values in enumerate(slots)}
    answers = read_all(chat, requests, str.strip, what="question", workers=workers)
    docnos = [" ".join(passage.docno for passage in of_query) for of_query in shown]
    texts = [answers.get(i, "") for i in requests]
    return pd.DataFrame({"qid": [q.qid for q in queries], "docnos": docnos, "text": texts})
