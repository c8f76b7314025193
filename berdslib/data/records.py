"""The one data model: questions and passages as records, runs and verdicts as pandas frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError

SUPPORT, OPPOSE = "support", "oppose"
RUN_COLUMNS = ["qid", "docno", "rank", "score"]
MOST_PERSPECTIVES = 10**9  # of one question; a larger index is a mistake
LARGEST_SCORE = 3e38  # in size: trec_eval and its kin read scores in single precision
VERDICT_COLUMNS = ["qid", "pid", "docno", "p_yes", "supports", "judge"]


class Question(NamedTuple):
    """A contentious question and the perspectives a good list of passages would show.

    Fields: ``qid`` a unique id; ``text`` the question; ``perspectives`` its perspectives as full statements;
    ``stances`` for each perspective "support", "oppose" or None; ``source`` the data set; ``split`` "dev" or "test".
    """

    qid: str
    text: str
    perspectives: tuple[str, ...] = ()
    stances: tuple[str | None, ...] = ()
    source: str = ""
    split: str = ""


class Passage(NamedTuple):
    """A piece of text that can be retrieved; ``title`` is "" where there is none."""

    docno: str
    text: str
    title: str = ""

    @property
    def full_text(self) -> str:
        """Title and text, the title first: what retrievers index."""
        return f"{self.title} {self.text}" if self.title else self.text


def check_questions(questions: Sequence[Question], *, need_perspectives: bool = False) -> Sequence[Question]:
    """Return `questions` unchanged if they are usable, else say which one is not.

    Args:
        questions: at least one question.
        need_perspectives: also require at least one perspective for each.

    Raises:
        InputError: no questions, a repeated qid, or a question without perspectives where they are needed.
    """
    if not questions:
        raise InputError("there are no questions")
    _no_repeats((q.qid for q in questions), "question id")
    for q in questions:
        if need_perspectives and not q.perspectives:
            raise InputError(f"question {q.qid!r} has no perspectives to be scored against", field="perspectives")
    return questions


def check_passages(passages: Iterable[Passage]) -> None:
    """Raise InputError if a docno occurs twice: verdicts and runs would be ambiguous."""
    _no_repeats((p.docno for p in passages), "docno")


def _no_repeats(ids: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise InputError(f"{what} {one!r} occurs twice; each must be unique")
        seen.add(one)


def make_run(qids: Sequence[str], docnos: Sequence[str], scores: Sequence[float]) -> pd.DataFrame:
    """Build a run from parallel columns: ranked within each question, ties broken by docno.

    Equal scores are set apart by the smallest possible step, so that scores are strictly decreasing within a
    question and every tool that sorts by score alone sees the same order as `rank`.

    Args:
        qids: (n,) question ids, in any order.
        docnos: (n,) passage ids.
        scores: (n,) relevance, higher is better; NaN is an error, infinities too.

    Returns:
        Frame with columns qid, docno, rank (from 1), score; sorted by qid and rank.

    Raises:
        InputError: a score that is not finite, or a docno twice for one question.

    >>> make_run(["q1", "q1"], ["b", "a"], [1.0, 1.0])["docno"].tolist()
    ['a', 'b']
    """
    frame = pd.DataFrame(
        {"qid": _strings(qids), "docno": _strings(docnos), "score": np.asarray(scores, dtype=np.float64)}
    )
    _require_finite(frame["score"], frame)
    # A stable sort on the ids first, then on the score: ties keep the order of the ids.
    frame = frame.sort_values(["qid", "score", "docno"], ascending=[True, False, True], kind="stable")
    frame = frame.reset_index(drop=True)
    _require_distinct(frame)
    frame["rank"] = frame.groupby("qid", sort=False).cumcount() + 1
    frame["score"] = _strictly_decreasing(frame["score"].to_numpy(), frame["rank"].to_numpy())
    return frame[RUN_COLUMNS]


def ranked_run(lists: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Build a run from ordered lists of docnos; the score is the negated rank.

    >>> ranked_run({"q1": ["d3", "d1"]})[["docno", "rank", "score"]].values.tolist()
    [['d3', 1, -1.0], ['d1', 2, -2.0]]
    """
    rows = [(qid, docno, -float(r)) for qid, docnos in lists.items() for r, docno in enumerate(docnos, start=1)]
    qids, docnos, scores = zip(*rows, strict=True) if rows else ((), (), ())
    return make_run(qids, docnos, scores)


def check_run(run: pd.DataFrame, *, path: str | None = None) -> pd.DataFrame:
    """Return a clean copy of a run that came from elsewhere: ids as strings, sorted, ranks from 1.

    The order is that of `score` where the frame has one, else that of `rank`.

    Raises:
        InputError: a missing column, a score that is not a number, a docno twice for one question.
    """
    missing = [c for c in ("qid", "docno") if c not in run.columns]
    if missing or not {"score", "rank"} & set(run.columns):
        need = missing or ["score or rank"]
        raise InputError(f"a run needs columns qid, docno and score (or rank); missing: {', '.join(need)}", path=path)
    column = "score" if "score" in run.columns else "rank"
    scores = pd.to_numeric(run[column], errors="coerce").to_numpy(dtype=np.float64)
    if column == "rank":
        scores = -scores
    _require_finite(pd.Series(scores), run.reset_index(drop=True), field=column, path=path)
    return make_run(run["qid"].tolist(), run["docno"].tolist(), scores.tolist())


def make_verdicts(rows: Iterable[tuple[str, int, str, float, bool]], judge: str) -> pd.DataFrame:
    """Build the verdict frame, the perspective qrels.

    Args:
        rows: (qid, pid, docno, p_yes, supports), pid an index into the question's perspectives.
        judge: id of whoever judged.

    Returns:
        Frame with columns qid, pid, docno, p_yes, supports, judge; sorted by qid, pid, docno.

    Raises:
        InputError: p_yes outside 0..1, or the same (qid, pid, docno) twice.
    """
    frame = pd.DataFrame(list(rows), columns=VERDICT_COLUMNS[:-1])
    frame = frame.astype({"pid": np.int64, "p_yes": np.float64, "supports": bool})
    frame["qid"], frame["docno"] = _strings(frame["qid"]), _strings(frame["docno"])
    frame["judge"] = judge
    return check_verdicts(frame)


def check_verdicts(verdicts: pd.DataFrame, *, path: str | None = None) -> pd.DataFrame:
    """Return a clean, sorted copy of a verdict frame.

    `supports` is derived from p_yes >= 0.5 where the column is missing, and p_yes from `supports`.

    Raises:
        InputError: a missing column, p_yes outside 0..1, a negative pid, or the same verdict twice.
    """
    missing = [c for c in ("qid", "pid", "docno") if c not in verdicts.columns]
    if missing or not {"p_yes", "supports"} & set(verdicts.columns):
        need = missing or ["p_yes or supports"]
        raise InputError(f"verdicts need columns qid, pid, docno and p_yes; missing: {', '.join(need)}", path=path)
    frame = verdicts.reset_index(drop=True).copy()
    frame["qid"], frame["docno"] = _strings(frame["qid"]), _strings(frame["docno"])
    if "supports" in frame.columns:
        supports = pd.to_numeric(frame["supports"], errors="coerce")
        if not supports.isin([0, 1]).all():
            raise InputError("supports must be true or false (1 or 0)", path=path, field="supports")
        frame["supports"] = supports
    if "p_yes" not in frame.columns:
        frame["p_yes"] = frame["supports"].astype(np.float64)
    frame["p_yes"] = pd.to_numeric(frame["p_yes"], errors="coerce")
    bad = ~frame["p_yes"].between(0.0, 1.0)
    if bad.any():
        at = frame[bad].iloc[0]
        raise InputError(f"p_yes of ({at.qid}, {at.pid}, {at.docno}) is not a number from 0 to 1", path=path)
    pid = pd.to_numeric(frame["pid"], errors="coerce")
    if (~pid.between(0, MOST_PERSPECTIVES - 1) | (pid % 1 != 0)).any():
        raise InputError("pid must be a whole number from 0, the index of the perspective", path=path, field="pid")
    frame["pid"] = pid.astype(np.int64)
    if "supports" not in frame.columns:
        frame["supports"] = frame["p_yes"] >= 0.5
    frame["supports"] = frame["supports"].astype(bool)
    if "judge" not in frame.columns:
        frame["judge"] = "unknown"
    frame = frame.sort_values(["qid", "pid", "docno"], kind="stable").reset_index(drop=True)
    twice = frame.duplicated(["qid", "pid", "docno"])
    if twice.any():
        at = frame[twice].iloc[0]
        raise InputError(f"two verdicts for ({at.qid}, {at.pid}, {at.docno}); keep one", path=path)
    return frame[VERDICT_COLUMNS]


def _strings(values: Sequence[object] | pd.Series) -> pd.Series:
    return pd.Series([str(v) for v in values], dtype="str")


def _require_finite(scores: pd.Series, frame: pd.DataFrame, *, field: str = "score", path: str | None = None) -> None:
    bad = ~(np.abs(scores.to_numpy()) <= LARGEST_SCORE)
    if bad.any():
        at = frame.iloc[int(np.flatnonzero(bad)[0])]
        raise InputError(
            f"{field} of passage {at['docno']!r} for question {at['qid']!r} is not a finite number "
            f"(of at most {LARGEST_SCORE} in size)",
            field=field,
            path=path,
        )


def _require_distinct(frame: pd.DataFrame) -> None:
    twice = frame.duplicated(["qid", "docno"])
    if twice.any():
        at = frame[twice].iloc[0]
        raise InputError(f"passage {at.docno!r} is listed twice for question {at.qid!r}")


def _strictly_decreasing(scores: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Lower each score that does not fall below the one before it, by the smallest step that shows.

    The step is one in single precision: trec_eval and its kin read scores as such, and break ties their own way.
    """
    single = scores.astype(np.float32)
    if not ((np.diff(single) >= 0) & (ranks[1:] > 1)).any():
        return scores
    out = scores.copy()
    for i in range(1, len(out)):
        if ranks[i] > 1 and single[i] >= single[i - 1]:
            single[i] = np.nextafter(single[i - 1], np.float32(-np.inf))
            out[i] = single[i]
    return out
