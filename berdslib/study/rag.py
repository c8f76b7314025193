"""What retrieval does downstream: short answers and essays written from retrieved passages (PIR, section 3.3).

Answers are scored by exact match, essays by how their sentiment goes with the stance that was asked for.
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
from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question, check_run
from berdslib.errors import InputError
from berdslib.evaluation.sides import listed_in_top
from berdslib.llm.asking import read_all
from berdslib.llm.chat import ChatModel
from berdslib.llm.prompting import Prompt, load_prompt
from berdslib.llm.untrusted import defuse_tag, one_line, tell_hidden
from berdslib.stats import sum_by_cluster

_TITLE = "Title: "
# Words of a perspective that name a side, as PIR's Perspectrum and Ex-FEVER and our questions have them.
_FOR = re.compile(r"\bsupport|\bspeaks? for\b|\bfollows? from\b", re.I)
_AGAINST = re.compile(r"\b(oppos|undermin|refut|contradict|against\b)", re.I)
_DENIED = re.compile(
    r"(\bnot|n't|n’t|\bnever)\s+(\w+\s+)?(support|speak|follow|oppos|undermin|refut|contradict|against)", re.I
)


class Correlation(NamedTuple):
    """Pearson's ``r`` with a bootstrap interval from ``low`` to ``high``; all NaN where one side never varies.

    ``p_value`` is two-sided and, as in PIR Table 5, takes the ``n`` essays for independent of each other.
    """

    r: float
    low: float
    high: float
    p_value: float
    n: int


# ---------------------------------------------------------------- short answers


def answer_questions(
    queries: Sequence[Question],
    run: pd.DataFrame | None,
    passages: Mapping[str, Passage],
    chat: ChatModel,
    golds: Mapping[str, Sequence[str]],
    *,
    depth: int = 1,
    wording: str = "ours",
    workers: int = 4,
) -> pd.DataFrame:
    """Have every question answered from its first passages and compare the answers with the accepted ones.

    Args:
        queries: the questions; each is asked by its whole ``text``.
        run: what was retrieved; None to ask without any passage.
        passages: docno → passage.
        chat: who answers.
        golds: qid → accepted answers.
        depth: how many passages to show.
        wording: of the prompt, "ours" or "published".
        workers: requests in flight at a time.

    Returns:
        One row a question: qid, docnos (shown passages, with blanks between), answer, exact_match (1.0 or 0.0; NaN
        where there is no answer).

    Source: PIR, section 3.3 and appendix A.8.
    """
    if without := [q.qid for q in queries if not golds.get(q.qid)]:
        raise InputError(f"{len(without)} questions have no accepted answer, the first is {without[0]!r}")
    if alone := [q.qid for q in queries if isinstance(golds[q.qid], str)]:
        raise InputError(f"the accepted answers to {alone[0]!r} must be a list of texts, not one text", field="golds")
    prompt = load_prompt("question_answering", wording, needs=("k", "q"), asked=chat.id)
    shown = _shown(queries, run, passages, depth)
    slots = [{"k": _block(found), "q": _line(q.text)} for q, found in zip(queries, shown, strict=True)]
    table = _answered(queries, shown, chat, prompt, slots, workers).rename(columns={"text": "answer"})
    answers = zip(table["qid"], table["answer"], strict=True)
    right = [exact_match(answer, golds[qid]) if answer else np.nan for qid, answer in answers]
    return table.assign(exact_match=np.array(right, dtype=float))


def exact_match(answer: str, golds: Iterable[str]) -> bool:
    """Return whether an answer equals one of the accepted ones after :func:`normalise_answer`.

    >>> exact_match("The Beatles.", ["Beatles", "Fab Four"])
    True
    """
    return normalise_answer(answer) in {normalise_answer(g) for g in golds}


def normalise_answer(text: str) -> str:
    """Return a text in lower case without punctuation, articles and surplus blanks, as SQuAD's scorer does it.

    >>> normalise_answer(" An  apple-tree, the tallest! ")
    'appletree tallest'
    """
    bare = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


# ---------------------------------------------------------------- essays


def write_essays(
    queries: Sequence[Question],
    run: pd.DataFrame | None,
    passages: Mapping[str, Passage],
    chat: ChatModel,
    *,
    depth: int = 5,
    wording: str = "ours",
    workers: int = 4,
) -> pd.DataFrame:
    """Have an essay written on every query's ``root``, for the stance of its perspective, from its first passages.

    The arguments are those of :func:`answer_questions`. Source: PIR, section 3.3 and appendix A.8.

    Returns:
        One row a query: qid, root, stance (1 or -1), docnos, essay, words, and three polarities by TextBlob, -1 to 1:
        polarity (of the essay; NaN where none was written), pair_polarity (of the words "Topic: …; Stance: …"),
        passages_polarity (mean over the shown passages; NaN without any).
    """
    prompt = load_prompt("essay_writing", wording, needs=("k", "q", "s"), asked=chat.id)
    if whole := [q.qid for q in queries if not q.root or len(q.perspectives) != 1]:
        raise InputError(
            f"{whole[0]!r} is no query for one side of a topic; a collection's `queries` are", field="root"
        )
    shown, stances = _shown(queries, run, passages, depth), [stance_of(q.perspectives[0]) for q in queries]
    names = ["Support" if stance > 0 else "Oppose" for stance in stances]
    slots = [{"k": _block(f), "q": _line(q.root), "s": name} for q, f, name in zip(queries, shown, names, strict=True)]
    table = _answered(queries, shown, chat, prompt, slots, workers).rename(columns={"text": "essay"})
    table.insert(1, "root", [q.root for q in queries])
    table.insert(2, "stance", stances)
    return table.assign(
        words=[len(essay.split()) for essay in table["essay"]],
        polarity=[polarity(essay) if essay else np.nan for essay in table["essay"]],
        pair_polarity=[polarity(f"Topic: {q.root}; Stance: {name}") for q, name in zip(queries, names, strict=True)],
        passages_polarity=[np.mean([polarity(p.full_text) for p in f]) if f else np.nan for f in shown],
    )


def polarity(text: str) -> float:
    """Return the sentiment of a text by TextBlob's word list, from -1 (negative) to 1; 0 where it knows no word of it.

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
    sides = bool(_FOR.search(perspective)), bool(_AGAINST.search(perspective))
    if sides[0] == sides[1] or _DENIED.search(perspective):  # not to support is not yet to oppose
        named = "a side only to deny it" if sides[0] != sides[1] else "both sides" if sides[0] else "no side"
        expected = "one of supports / opposes, undermines, refutes, against was expected"
        raise InputError(f"perspective {perspective!r} names {named}; {expected}")
    return 1 if sides[0] else -1


def correlation(
    x: np.ndarray,
    y: np.ndarray,
    groups: Sequence[str] | None = None,
    *,
    resamples: int = 2000,
) -> Correlation:
    """Return Pearson's correlation of x and y, (n,), with a 95 % percentile bootstrap interval, groups being drawn."""
    from scipy.stats import pearsonr

    if len(x) != len(y) or (groups is not None and len(groups) != len(x)):
        raise InputError(f"x, y and groups must be of one length; got {len(x)} and {len(y)}")
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(np.nan, np.nan, np.nan, np.nan, len(x))
    found = pearsonr(x, y)
    dx, dy = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    clusters = [f"{i:09}" for i in range(len(x))] if groups is None else groups
    sums = sum_by_cluster(np.column_stack([np.ones(len(x)), dx, dy, dx * dx, dy * dy, dx * dy]), clusters)
    drawn = np.random.default_rng(0).integers(0, len(sums), (resamples, len(sums)))
    counts = np.apply_along_axis(np.bincount, 1, drawn, minlength=len(sums))
    n, sx, sy, sxx, syy, sxy = (counts @ sums).T
    vx, vy = sxx - sx * sx / n, syy - sy * sy / n
    flat = (vx < 1e-9) | (vy < 1e-9)  # in units of the variance; rounding leaves a constant sample a little
    r = np.where(flat, np.nan, (sxy - sx * sy / n) / np.sqrt(np.where(flat, 1.0, vx * vy)))
    low, high = np.nanquantile(r, [0.025, 0.975])
    return Correlation(float(found.statistic), float(low), float(high), float(found.pvalue), len(x))


# ---------------------------------------------------------------- who answers


def stance_task(questions: Sequence[Question], gold: pd.DataFrame, passages: Sequence[Passage]) -> Collection:
    """Return questions with two sides as a task in PIR's form: for each question a query for either side.

    The root is the supporting perspective. Questions that lack a side, or passages for one, are left out.
    """
    yes = gold[gold["supports"]].groupby(["qid", "pid"])["docno"].agg(tuple).to_dict()
    rows: list[PirQuery] = []
    for q in questions:
        argued = {side: yes.get((q.qid, pid), ()) for pid, side in enumerate(q.stances)}
        if len(q.stances) != 2 or set(argued) != {SUPPORT, OPPOSE} or not all(argued.values()):
            continue
        root = q.perspectives[q.stances.index(SUPPORT)]
        for side in (SUPPORT, OPPOSE):
            perspective = f"a claim that {side}s the argument"
            text = f"Find {perspective}: {root}"
            rows.append(PirQuery(f"{q.qid}-{side}", text, root, perspective, argued[side], side))
    return pir_collection("stances", rows, passages)


def _shown(
    queries: Sequence[Question], run: pd.DataFrame | None, passages: Mapping[str, Passage], depth: int
) -> list[list[Passage]]:
    """Return the first passages of each query, none where nothing was retrieved."""
    if depth < 1:
        raise InputError(f"depth must be at least 1, not {depth}", field="depth")
    if run is None:
        return [[] for _ in queries]
    best = listed_in_top(check_run(run), depth, [q.qid for q in queries])  # sorted by rank
    listed = best.groupby("qid", sort=False)["docno"].agg(list).to_dict()
    if unknown := [d for docnos in listed.values() for d in docnos if d not in passages]:
        raise InputError(f"the run lists passage {unknown[0]!r}, which is not in the corpus")
    tell_hidden({d: passages[d].full_text for docnos in listed.values() for d in docnos})
    return [[passages[d] for d in listed.get(q.qid, ())] for q in queries]


def _block(shown: Sequence[Passage]) -> str:
    """Return passages between tags that nothing in them can close."""
    texts = (f"{_TITLE}{p.title}\n{p.text}" if p.title else p.text for p in shown)
    return "\n".join(f"<passage>\n{defuse_tag(text, 'passage')}\n</passage>" for text in texts)


def _line(text: str) -> str:
    """Return a question or topic as it stands behind its name in a prompt, on one line: it cannot begin another."""
    return defuse_tag(one_line(text), "passage")


def _answered(
    queries: Sequence[Question],
    shown: Sequence[Sequence[Passage]],
    chat: ChatModel,
    prompt: Prompt,
    slots: Sequence[Mapping[str, str]],
    workers: int,
) -> pd.DataFrame:
    """Return qid, docnos (what was shown) and the text that a model wrote, for each query and what fills its prompt.

    The text is "" where it cannot be read, the model refuses or the passages do not fit, which a warning counts.
    """
    asked = {str(i): prompt.messages(**filled) for i, filled in enumerate(slots)}
    found = read_all(chat, asked, str.strip, what="question", workers=workers)
    docnos = [" ".join(p.docno for p in one) for one in shown]
    return pd.DataFrame({"qid": [q.qid for q in queries], "docnos": docnos, "text": [found.get(i, "") for i in asked]})
