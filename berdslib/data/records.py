"""The one data model: questions and passages as records, runs and verdicts as pandas frames."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Integral
from reprlib import repr as shortened
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError

logger = logging.getLogger(__name__)

SUPPORT, OPPOSE = "support", "oppose"
MOST_PERSPECTIVES = 10**9  # of one question; a larger index is a mistake
LARGEST_SCORE = 3e38  # in size: trec_eval and its kin read scores in single precision
_RUN = {"qid": "str", "docno": "str", "rank": "int64", "score": "float64"}
_VERDICTS = {"qid": "str", "pid": "int64", "docno": "str", "p_yes": "float64", "supports": "bool", "judge": "str"}
RUN_COLUMNS, VERDICT_COLUMNS = [*_RUN], [*_VERDICTS]
GRADE = "grade"  # a further column of verdicts that were read from graded relevance
_REAL = int | float | np.integer | np.floating | np.bool_
# What a question lists: in words, and how one of them is told.
_LISTS = {
    "perspectives": ("texts", lambda one: isinstance(one, str)),
    "stances": ('"support", "oppose" or None', lambda one: one in (SUPPORT, OPPOSE, None)),
    "labels": ("texts", lambda one: isinstance(one, str)),
    "weights": ("numbers from 0, not all 0", lambda one: isinstance(one, _REAL) and 0 <= one < LARGEST_SCORE),
}


class Question(NamedTuple):
    """A contentious question and the perspectives a good list of passages would show.

    Fields: ``qid`` a unique id; ``text`` the question; ``perspectives`` its perspectives as full statements;
    ``stances`` for each perspective "support", "oppose" or None; ``source`` the data set; ``split`` "dev" or "test";
    ``labels`` for each perspective a short name ("left", "Brazil"), () where there are none. A query made of a question
    has ``owner``, the qid of that question, and ``root``, its text; both are "" for a question itself. ``weights`` say
    how much each perspective counts beside the others (BRIGHT-Pro's aspects), () for all alike.
    """

    qid: str
    text: str
    perspectives: tuple[str, ...] = ()
    stances: tuple[str | None, ...] = ()
    source: str = ""
    split: str = ""
    owner: str = ""
    root: str = ""
    labels: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()


def shares(question: Question) -> np.ndarray:
    """Return the weight of each perspective, float64 (m,), which sum to 1.

    >>> shares(Question("q", "Why?", ("a", "b"), weights=(1, 3))).tolist()
    [0.25, 0.75]
    """
    weights = np.asarray(question.weights or (1.0,) * len(question.perspectives), dtype=np.float64)
    return np.asarray(weights / weights.sum())


def issue_of(question: Question) -> str:
    """Return what a question is about: the text of the one that it was made of, or its own.

    Queries of one issue find the same passages and are not independent, whatever their ids; intervals and tests draw
    them together.

    >>> issue_of(Question("zoos", "Should zoos close?")), issue_of(Question("1", "Asks a man.", root="Tax sugar?"))
    ('Should zoos close?', 'Tax sugar?')
    """
    return question.root or question.text


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
    """Return `questions` unchanged if they are valid; raise an error that names the first invalid one.

    Args:
        questions: at least one question.
        need_perspectives: also require at least one perspective for each.

    Raises:
        InputError: no questions, a repeated qid, a field of another type, or a question without perspectives where they
            are needed.
    """
    if not questions:
        raise InputError("there are no questions")
    no_repeats((q.qid for q in questions), "question id", "qid")
    for q in questions:
        _check_text(q.text, "question", q.qid, "question")
        for field, (wanted, fits) in _LISTS.items():
            listed = getattr(q, field)
            # A single text is a sequence too, of one perspective a letter.
            usable = isinstance(listed, Sequence) and not isinstance(listed, str) and all(map(fits, listed))
            if not usable or (field == "weights" and listed and not any(listed)):
                raise InputError(f"question {q.qid!r} needs a list of {wanted}, not {shortened(listed)}", field=field)
            if listed and len(listed) != len(q.perspectives):
                problem = f"question {q.qid!r} has {len(q.perspectives)} perspectives and {len(listed)} {field}"
                raise InputError(problem, field=field)
        if need_perspectives and not q.perspectives:
            raise InputError(f"question {q.qid!r} has no perspectives, so it cannot be scored", field="perspectives")
    _check_apart(questions)
    return questions


def _check_apart(questions: Sequence[Question]) -> None:
    """Refuse a question whose id is that of another's perspective: their lists could not be told apart."""
    by_qid = {q.qid: q for q in questions}
    for qid in by_qid:
        head, mark, tail = qid.rpartition("#")
        other = mark and head in by_qid and by_qid[qid].owner != head  # a query made of it has its id by right
        if other and tail in map(str, range(len(by_qid[head].perspectives))):
            problem = f"{qid!r} is also the id of a perspective of {head!r}; give the question another id"
            raise InputError(problem, field="qid")


def perspective_qid(qid: str, pid: int) -> str:
    """Return the id under which a question is asked from its perspective number `pid`.

    >>> perspective_qid("zoos", 0)
    'zoos#0'
    """
    return f"{qid}#{pid}"


def list_ids(questions: Sequence[Question]) -> dict[str, str]:
    """Return the ids under which a run may list passages for questions, and for their perspectives: id → qid.

    >>> list_ids([Question("zoos", "Should zoos close?", ("Yes.", "No."))])
    {'zoos': 'zoos', 'zoos#0': 'zoos', 'zoos#1': 'zoos'}
    """
    own = {perspective_qid(q.qid, pid): q.qid for q in questions for pid in range(len(q.perspectives))}
    return {q.qid: q.qid for q in questions} | own


def check_passages(passages: Iterable[Passage]) -> None:
    """Raise InputError if a text is none, or a docno occurs twice: verdicts and runs would be ambiguous."""

    def docnos() -> Iterator[str]:
        for one in passages:
            _check_text(one.text, "passage", one.docno, "text")
            _check_text(one.title, "passage", one.docno, "title")
            yield one.docno

    no_repeats(docnos(), "docno", "docno")


def _check_text(text: object, what: str, name: str, field: str) -> None:
    if not isinstance(text, str):
        raise InputError(f"{what} {name!r} has {shortened(text)} where text is needed", field=field)
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} {name!r} holds half of a surrogate pair (\\ud…)", field=field) from None


def check_k(k: int, name: str = "k") -> None:
    """Raise InputError unless k, the length of a list, is a whole number from 1."""
    if isinstance(k, bool) or not isinstance(k, Integral) or not hasattr(k, "__index__"):  # a timedelta64 has none
        raise InputError(f"{name} must be a whole number, not {shortened(k)}", field=name)
    if k < 1:
        raise InputError(f"{name} must be at least 1, not {k}", field=name)


def no_repeats(ids: Iterable[str], what: str, field: str) -> None:
    """Raise InputError if an id is not text, or occurs twice."""
    seen: set[str] = set()
    for one in ids:
        if not isinstance(one, str):
            raise InputError(f"{shortened(one)} is no id; text is needed, such as {str(one)[:20]!r}", field=field)
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
    return _by_score(_unranked(qids, docnos, scores))


def make_run_as_trec_eval(qids: Sequence[str], docnos: Sequence[str], scores: Sequence[float]) -> pd.DataFrame:
    """Build a run from parallel columns in the order in which trec_eval ranks them.

    It reads scores in single precision, whatever their rank says, and of equal scores it takes the larger docno first.
    Otherwise as :func:`make_run`.

    >>> make_run_as_trec_eval(["q1", "q1"], ["a", "b"], [1.0, 1.0])["docno"].tolist()
    ['b', 'a']
    """
    frame = _unranked(qids, docnos, scores)
    frame["single"] = frame["score"].astype(np.float32)
    return _ranked(frame.sort_values(["qid", "single", "docno"], ascending=[True, False, False], kind="stable"))


def _unranked(qids: Iterable[Any], docnos: Iterable[Any], scores: Any, *, field: str = "score") -> pd.DataFrame:
    """Return the columns as a frame: ids as text, and scores that are finite, or an error about this field."""
    columns = {"qid": _ids(qids, "qid"), "docno": _ids(docnos, "docno"), "score": _numbers(scores).to_numpy()}
    frame = pd.DataFrame(columns)
    bad = ~(frame["score"].abs() <= LARGEST_SCORE)
    if bad.any():
        at = frame[bad].iloc[0]
        problem = f"{field} of passage {at.docno!r} for question {at.qid!r} is not a finite number"
        raise InputError(f"{problem} (of at most {LARGEST_SCORE} in size)", field=field)
    return frame


def _by_score(frame: pd.DataFrame) -> pd.DataFrame:
    return _ranked(frame.sort_values(["qid", "score", "docno"], ascending=[True, False, True], kind="stable"))


def _ranked(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a run in the order of its rows."""
    frame = frame.reset_index(drop=True)
    twice = frame.duplicated(["qid", "docno"])
    if twice.any():
        at = frame[twice].iloc[0]
        raise InputError(f"passage {at.docno!r} is listed twice for question {at.qid!r}")
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


def check_run(run: pd.DataFrame) -> pd.DataFrame:
    """Return a clean copy of a run, whoever made it: ids as text, sorted, ranks from 1.

    The order is that of `score` where the frame has one, and ranks are counted anew: those of PyTerrier start at 0.
    Without scores it is that of `rank`, wherever it starts. A run that is clean already is only looked through.

    Raises:
        InputError: no frame, a missing column, an id that is neither text nor a whole number, a score that is not a
            number, or a docno twice for one question.
    """
    run, needs = _under_our_names(run), "a run needs columns qid, docno and score (or rank)"
    _check_columns(run, RUN_COLUMNS, "a run is", needs, 2, "score", "rank")
    if _is_clean_run(run):
        return run.reset_index(drop=True)
    column = "score" if "score" in run.columns else "rank"
    scores = _numbers(run[column]).to_numpy()
    return _by_score(_unranked(run["qid"], run["docno"], scores if column == "score" else -scores, field=column))


def _under_our_names(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with ir_measures' and ir_datasets' columns, query_id and doc_id, as qid and docno."""
    theirs = {"query_id": "qid", "doc_id": "docno"}
    if isinstance(frame, pd.DataFrame) and not {*theirs.values()} & {*frame.columns}:
        return frame.rename(columns=theirs)
    return frame


def _check_columns(frame: object, columns: list[str], is_a: str, needs: str, required: int, *either: str) -> None:
    """Raise InputError unless this is a frame with the first of its columns, and with one or the other of two more."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{is_a} a data frame with columns {', '.join(columns)}, not {type(frame).__name__}")
    missing = [name for name in columns[:required] if name not in frame.columns]
    if missing or not {*either} & {*frame.columns}:
        raise InputError(f"{needs}; missing: {', '.join(missing) or ' or '.join(either)}")
    if twice := [name for name in columns if [*frame.columns].count(name) > 1]:
        raise InputError("two columns have this name; keep one", field=twice[0])


def _is_clean_run(run: pd.DataFrame) -> bool:
    """Say whether :func:`make_run` would return the same rows."""
    if not _is_clean(run, _RUN, ["qid", "rank"]):
        return False
    rank, score = run["rank"].to_numpy(), run["score"].to_numpy()
    counted = (rank == run.groupby("qid", sort=False).cumcount() + 1).all() and (np.abs(score) <= LARGEST_SCORE).all()
    falling = ((np.diff(score.astype(np.float32)) < 0) | (rank[1:] == 1)).all()
    return bool(counted and falling) and not run.duplicated(["qid", "docno"]).any()


def _is_clean(frame: pd.DataFrame, columns: Mapping[str, str], order: Sequence[str]) -> bool:
    """Say whether a frame has these columns (name → type), nothing empty, and rows that increase in an order."""
    types = [(name, str(kind)) for name, kind in frame.dtypes.items()]
    if types != [*columns.items()] or frame.drop(columns="p_yes", errors="ignore").isna().any(axis=None):
        return False
    keys = frame[[*order]]
    return bool(pd.MultiIndex.from_frame(keys).is_monotonic_increasing) and not keys.duplicated().any()


def make_verdicts(rows: Iterable[tuple[str, int, str, float, bool]], judge: str) -> pd.DataFrame:
    """Build the verdict frame, the perspective qrels.

    Args:
        rows: (qid, pid, docno, p_yes, supports), pid an index into the question's perspectives.
        judge: id of whoever judged.

    Returns:
        Frame with columns qid, pid, docno, p_yes, supports, judge; sorted by qid, pid, docno. A p_yes of NaN says that
        the judge's answer could not be read; it supports nothing, and the pair counts as not judged.

    Raises:
        InputError: as :func:`check_verdicts`.
    """
    return check_verdicts(pd.DataFrame(list(rows), columns=VERDICT_COLUMNS[:-1]).assign(judge=judge))


def check_verdicts(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return a clean, sorted copy of a verdict frame, whoever made it.

    `supports`, true and false or 1 and 0, is derived from p_yes >= 0.5 where the column is missing, and p_yes from
    `supports`. An empty p_yes is an answer that nobody could read: the pair is not judged (see :func:`read_pairs`). A
    column `grade`, the relevance that the verdict was made from, is kept. A frame that is clean already is only looked
    through.

    Raises:
        InputError: no frame, a missing column, an id that is neither text nor a whole number, p_yes outside 0..1, a pid
            that is no whole number from 0, a grade that is no number, an unread answer that supports something, or the
            same verdict twice.
    """
    verdicts = _from_qrels(_under_our_names(verdicts))
    needs = "verdicts need columns qid, pid, docno and p_yes (of qrels: query_id, iteration, doc_id and relevance)"
    _check_columns(verdicts, VERDICT_COLUMNS, "verdicts are", needs, 3, "p_yes", "supports")
    if _are_clean_verdicts(verdicts):
        return verdicts.reset_index(drop=True)
    frame = verdicts.reset_index(drop=True).copy()
    frame["qid"], frame["docno"] = _ids(frame["qid"], "qid"), _ids(frame["docno"], "docno")
    if "supports" in frame.columns:
        supports = _numbers(frame["supports"])
        wrong = ~supports.isin([0, 1])
        if wrong.any():
            found = shortened(frame["supports"][wrong].iloc[0])
            raise InputError(f"supports must be true or false (1 or 0), not {found}", field="supports")
        frame["supports"] = supports
    given = frame["p_yes" if "p_yes" in frame.columns else "supports"]
    frame["p_yes"] = _numbers(given)
    bad = ~frame["p_yes"].between(0.0, 1.0) & given.notna()
    if bad.any():
        raise InputError(f"p_yes of {_key(frame, bad)} is not a number from 0 to 1")
    pid = _numbers(frame["pid"])
    if (~pid.between(0, MOST_PERSPECTIVES - 1) | (pid % 1 != 0)).any():
        raise InputError("pid must be a whole number from 0, the index of the perspective", field="pid")
    frame["pid"] = pid.astype(np.int64)
    frame["supports"] = (frame["supports"] if "supports" in frame.columns else frame["p_yes"] >= 0.5).astype(bool)
    unread = frame["p_yes"].isna() & frame["supports"]
    if unread.any():
        raise InputError(
            f"the verdict {_key(frame, unread)} has no p_yes, so it cannot support anything", field="p_yes"
        )
    if "judge" not in frame.columns:
        frame["judge"] = "unknown"
    columns = list(VERDICT_COLUMNS)
    if GRADE in frame.columns:
        grade = _numbers(frame[GRADE])
        if (bad := ~np.isfinite(grade) & frame[GRADE].notna()).any():
            raise InputError(f"the grade of {_key(frame, bad)} is not a finite number", field=GRADE)
        frame[GRADE] = grade.fillna(frame["supports"].astype(float))  # of verdicts that were joined with graded ones
        columns.append(GRADE)
    frame = frame.sort_values(["qid", "pid", "docno"], kind="stable").reset_index(drop=True)
    twice = frame.duplicated(["qid", "pid", "docno"])
    if twice.any():
        raise InputError(f"two verdicts for {_key(frame, twice)}; keep one")
    return frame[columns]


def read_pairs(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the verdicts whose answer could be read: what was judged."""
    return verdicts[verdicts["p_yes"].notna()]


def _from_qrels(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of diversity qrels, as ir_measures and ir_datasets have them, as verdicts."""
    names = frame.columns if isinstance(frame, pd.DataFrame) else []
    subtopic = next((name for name in ("iteration", "subtopic_id") if name in names), "")
    if "pid" in names or "relevance" not in names or not subtopic:
        return frame
    pid, relevance = _numbers(frame[subtopic]), _numbers(frame["relevance"])
    if (wrong := relevance.isna().to_numpy()).any():
        raise InputError(f"{shortened(frame['relevance'][wrong].iloc[0])} is no number", field="relevance")
    pid -= lowest_subtopic(pid, "the qrels")
    return frame.reset_index(drop=True).assign(pid=pid, supports=relevance > 0, judge="gold")


def lowest_subtopic(numbers: Iterable[float], where: object) -> int:
    """Return the number of the first subtopic of all qrels: 1 where some line says 1 and none says 0, which is said."""
    if 1 not in (used := set(numbers)) or 0 in used:
        return 0
    logger.warning(
        "%s: subtopics are numbered from 1 (none is 0), and are read as perspectives from 0; if they are not, read "
        "them with first_subtopic=0 (berdslib.data.trec.read_verdicts), or call the column pid",
        where,
    )
    return 1


def _key(frame: pd.DataFrame, rows: pd.Series) -> str:
    """Return of which passage and perspective the first of some rows is."""
    at = frame[rows].iloc[0]
    return f"({at.qid}, {at.pid}, {at.docno})"


def _are_clean_verdicts(verdicts: pd.DataFrame) -> bool:
    """Say whether :func:`check_verdicts` would change nothing."""
    columns = _VERDICTS | {GRADE: "float64"} if GRADE in verdicts.columns else _VERDICTS
    if not _is_clean(verdicts, columns, ["qid", "pid", "docno"]):
        return False
    p_yes, pid = verdicts["p_yes"], verdicts["pid"]
    unread_supports = (p_yes.isna() & verdicts["supports"]).any()
    in_range = (p_yes.between(0, 1) | p_yes.isna()).all() and pid.between(0, MOST_PERSPECTIVES - 1).all()
    finite = GRADE not in verdicts.columns or np.isfinite(verdicts[GRADE]).all()
    return bool(in_range and finite and not unread_supports)


def _ids(values: Iterable[Any], field: str) -> pd.Series:
    """Return ids as text; whole numbers, which pandas makes of them, are taken too."""
    try:
        return pd.Series([v if type(v) is str else _id(v, field) for v in values], dtype="str")
    except UnicodeEncodeError as error:
        raise InputError(f"{error.object!r} holds half of a surrogate pair (\\ud…)", field=field) from None


def _id(value: Any, field: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | Integral):
        raise InputError(f"{shortened(value)} is no id; text or a whole number is needed", field=field)
    return str(value)


def _numbers(values: Any) -> pd.Series:
    """Return a column as float64, NaN where it holds no number that a float can: dates and complex numbers are none."""
    column = values if isinstance(values, pd.Series) else pd.Series(values)
    if column.dtype.kind not in "biuf":
        column = column.astype(object).map(_as_number)
    return pd.Series(pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan))


def _as_number(value: Any) -> Any:
    """Return a number as a float, a text, which may hold one, as it is, and NaN for all else."""
    try:
        if isinstance(value, str) and value.isascii():  # of others, half a character cannot even be held
            return value
        return float(value) if isinstance(value, _REAL | Decimal) else np.nan
    except (OverflowError, TypeError, ValueError):  # 10**400, a span of time, and a NaN that signals
        return np.nan


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
