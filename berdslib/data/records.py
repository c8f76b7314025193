"""The one data model: questions and passages as records, runs and verdicts as pandas frames."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from reprlib import repr as shortened
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError
from berdslib.files import StrPath, say_once

logger = logging.getLogger(__name__)

SUPPORT = "support"
OPPOSE = "oppose"
MOST_PERSPECTIVES = 10**9  # of one question; a larger index is a mistake
LARGEST_SCORE = 3e38  # in size: trec_eval and similar tools read scores in single precision
_RUN = {"qid": "str", "docno": "str", "rank": "int64", "score": "float64"}
_VERDICTS = {"qid": "str", "pid": "int64", "docno": "str", "p_yes": "float64", "supports": "bool", "judge": "str"}
RUN_COLUMNS = [*_RUN]
VERDICT_COLUMNS = [*_VERDICTS]
GRADE = "grade"  # an extra column of verdicts that were read from graded relevance
QRELS_COLUMNS = ["qid", "subtopic", "docno", "relevance"]
# What other tools call the columns of runs and of qrels, in the order in which they are looked for.
QID_NAMES = ("qid", "query_id", "query-id", "q_id", "topic_id", "topic")
DOCNO_NAMES = ("docno", "doc_id", "docid", "corpus-id", "corpus_id", "passage_id", "passage-id")
SUBTOPIC_NAMES = ("subtopic", "iteration", "subtopic_id", "iter")
RELEVANCE_NAMES = ("relevance", "label", "rel", "score")
_REAL = int | float | np.number


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_stance(value: object) -> bool:
    return value in (SUPPORT, OPPOSE, None)


def _is_weight(value: object) -> bool:
    return isinstance(value, _REAL) and bool(0 <= value < LARGEST_SCORE)


# The lists of a question: the expected elements in words, and the check of an element.
_LISTS = {
    "perspectives": ("texts", _is_text),
    "stances": ('"support", "oppose" or None', _is_stance),
    "labels": ("texts", _is_text),
    "weights": ("numbers from 0, not all 0", _is_weight),
}


class Question(NamedTuple):
    """A contentious question and the perspectives a good list of passages would show.

    Fields: ``qid`` a unique id; ``text`` the question; ``perspectives`` its perspectives as full statements;
    ``stances`` for each perspective "support", "oppose" or None; ``source`` the data set; ``split`` "dev" or "test";
    ``labels`` for each perspective a short name ("left", "Brazil"), or (); ``weights`` the relative weights of the
    perspectives (BRIGHT-Pro's aspects), or () if all weigh the same; ``issue`` the issue that several questions share,
    or "": intervals and tests draw questions with the same issue together. No file holds it.
    """

    qid: str
    text: str
    perspectives: tuple[str, ...] = ()
    stances: tuple[str | None, ...] = ()
    source: str = ""
    split: str = ""
    labels: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    issue: str = ""

    @property
    def question(self) -> Question:
        """The question itself, as a :class:`Query` has its question."""
        return self


class Query(NamedTuple):
    """A search query made from a question.

    Fields: ``qid`` a unique id; ``text`` what is searched for; ``question`` the question; ``pid`` the number of the
    perspective that the query asks for, among those of the question, or None; ``stated`` the text of any other
    perspective that it asks for, such as a generated one, or "".
    """

    qid: str
    text: str
    question: Question
    pid: int | None = None
    stated: str = ""

    @property
    def perspective(self) -> str:
        """The text of the perspective that the query asks for, "" for none."""
        return self.stated if self.pid is None else self.question.perspectives[self.pid]


AnyQuery = Question | Query  # what retrievers search for: `qid`, `text` and `question`


def shares(question: Question) -> np.ndarray:
    """Return the weights of the perspectives, float64 (m,), scaled to sum to 1.

    >>> shares(Question("q", "Why?", ("a", "b"), weights=(1, 3))).tolist()
    [0.25, 0.75]
    """
    given = question.weights or (1.0,) * len(question.perspectives)
    weights = np.asarray(given, dtype=np.float64)
    return np.asarray(weights / weights.sum())


def with_perspectives(question: Question, pids: Sequence[int]) -> Question:
    """Return a question with only some of its perspectives, and their stances, labels and weights.

    >>> with_perspectives(Question("q", "Who?", ("a", "b", "c"), labels=("x", "y", "z")), [0, 2]).labels
    ('x', 'z')
    """
    chosen: dict[str, Any] = {}
    for field in _LISTS:
        values = getattr(question, field)
        chosen[field] = tuple(values[pid] for pid in pids) if values else ()
    return question._replace(**chosen)


def issue_of(question: Question) -> str:
    """Return the issue of a question: the one that it shares with others, or its own text.

    >>> issue_of(Question("zoos", "Should zoos close?")), issue_of(Question("1", "Asks a man.", issue="Tax sugar?"))
    ('Should zoos close?', 'Tax sugar?')
    """
    return question.issue or question.text


class Passage(NamedTuple):
    """A piece of text that can be retrieved; ``title`` may be "".

    ``fields`` holds the further columns of its file, such as an author or a date; a corpus on disk does not keep them.
    """

    docno: str
    text: str
    title: str = ""
    fields: Mapping[str, Any] = {}

    def __hash__(self) -> int:
        """Ignore the fields: their values, such as lists, may have no hash."""
        return hash(self[:3])

    @property
    def full_text(self) -> str:
        """The text that retrievers index: the title, then the text."""
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
    for question in questions:
        qid = question.qid
        _check_text(qid, "question", qid, "qid")
        _check_text(question.text, "question", qid, "question")
        check_lists(question)
        if need_perspectives and not question.perspectives:
            raise InputError(f"question {qid!r} has no perspectives, so it cannot be scored", field="perspectives")
    _check_apart(questions)
    return questions


def check_lists(question: Question) -> None:
    """Raise InputError for a list of a question with a wrong element or a wrong length."""
    qid = question.qid
    for field, (expected, is_valid) in _LISTS.items():
        values = getattr(question, field)
        # A string is a sequence too: of letters.
        is_list = isinstance(values, Sequence) and not isinstance(values, str)
        are_valid = is_list and all(map(is_valid, values))
        all_zero = field == "weights" and values and not any(values)
        if not are_valid or all_zero:
            problem = f"question {qid!r} needs a list of {expected}, not {shortened(values)}"
            raise InputError(problem, field=field)
        n = len(question.perspectives)
        if values and len(values) != n:
            raise InputError(f"question {qid!r} has {n} perspectives and {len(values)} {field}", field=field)


def _check_apart(questions: Sequence[Question]) -> None:
    """Refuse a question whose id equals the id of another question's perspective: a run could mean either."""
    qids = {question.qid for question in questions}
    for question in questions:
        for pid in range(len(question.perspectives)):
            qid = perspective_qid(question.qid, pid)
            if qid in qids:
                problem = f"{qid!r} is also the id of a perspective of {question.qid!r}; give the question another id"
                raise InputError(problem, field="qid")


def numbered_hint(questions: Sequence[Question]) -> str:
    """Return, for ids that may be mere numbers of rows, a hint at the missing column; else ""."""
    if any(question.qid != str(i) for i, question in enumerate(questions)):
        return ""
    return "; questions without a column of ids are numbered from 0: add qid, or name yours, --columns qid=NAME"


def ids_searched(questions: Sequence[Question]) -> str:
    """Describe questions whose text is their id, as in short nugget banks; "" if there are none.

    >>> ids_searched([Question("T01", "T01", ("It is.",))])
    '1 of 1 question has no text, and its id was searched for'
    """
    n = sum(question.text == question.qid and " " not in question.qid for question in questions)
    if not n:
        return ""
    rest = "its id was" if n == 1 else "their ids were"
    return f"{some_of(n, len(questions), 'question', 'have')} no text, and {rest} searched for"


def perspective_qid(qid: str, pid: int) -> str:
    """Return the id under which a question is asked from its perspective number `pid`.

    >>> perspective_qid("zoos", 0)
    'zoos#0'
    """
    return f"{qid}#{pid}"


def list_ids(questions: Sequence[Question]) -> dict[str, str]:
    """Return the ids that a run may use for questions and for their perspectives: id → qid.

    >>> list_ids([Question("zoos", "Should zoos close?", ("Yes.", "No."))])
    {'zoos': 'zoos', 'zoos#0': 'zoos', 'zoos#1': 'zoos'}
    """
    of_questions = {question.qid: question.qid for question in questions}
    of_perspectives = {}
    for question in questions:
        for pid in range(len(question.perspectives)):
            of_perspectives[perspective_qid(question.qid, pid)] = question.qid
    return of_questions | of_perspectives


def check_passages(passages: Iterable[Passage]) -> None:
    """Raise InputError for a missing text, or for a duplicate docno, which would make verdicts and runs ambiguous."""

    def docnos() -> Iterator[str]:
        for passage in passages:
            _check_text(passage.text, "passage", passage.docno, "text")
            _check_text(passage.title, "passage", passage.docno, "title")
            yield passage.docno

    no_repeats(docnos(), "docno", "docno")


def _check_text(text: object, what: str, name: str, field: str) -> None:
    if not isinstance(text, str):
        raise InputError(f"{what} {name!r} has {shortened(text)} where text is needed", field=field)


def check_k(k: int, name: str = "k") -> None:
    """Raise InputError unless k, the length of a list, is a positive whole number."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise InputError(f"{name} must be a whole number, not {shortened(k)}", field=name)
    if k < 1:
        raise InputError(f"{name} must be at least 1, not {k}", field=name)


def no_repeats(ids: Iterable[str], what: str, field: str) -> None:
    """Raise InputError if an id is not text, or occurs twice."""
    seen: set[str] = set()
    for name in ids:
        if not isinstance(name, str):
            raise InputError(f"ids must be strings: got {shortened(name)}, use {str(name)[:20]!r}", field=field)
        if name in seen:
            raise InputError(f"{what} {name!r} occurs twice; each must be unique")
        seen.add(name)


def make_run(qids: Sequence[str], docnos: Sequence[str], scores: Sequence[float]) -> pd.DataFrame:
    """Build a run from parallel columns: ranked within each question, ties broken by docno.

    Equal scores are separated by the smallest possible step: scores then decrease strictly within a question, and
    every tool that sorts by score alone sees the order of `rank`.

    Args:
        qids: (n,) question ids, in any order.
        docnos: (n,) passage ids.
        scores: (n,) relevance, higher is better; NaN and infinities are errors.

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

    trec_eval reads scores in single precision, ignores the ranks, and puts the larger docno first among equal scores.
    Otherwise this is :func:`make_run`.

    >>> make_run_as_trec_eval(["q1", "q1"], ["a", "b"], [1.0, 1.0])["docno"].tolist()
    ['b', 'a']
    """
    frame = _unranked(qids, docnos, scores)
    frame["single"] = frame["score"].astype(np.float32)
    order = frame.sort_values(["qid", "single", "docno"], ascending=[True, False, False], kind="stable")
    return _ranked(order)


def _unranked(qids: Iterable[Any], docnos: Iterable[Any], scores: Any, *, field: str = "score") -> pd.DataFrame:
    """Return the columns as a frame of text ids and finite scores; an error names the field of the scores."""
    columns = {
        "qid": _ids(qids, "qid"),
        "docno": _ids(docnos, "docno"),
        "score": _numbers(scores).to_numpy(),
    }
    frame = pd.DataFrame(columns)
    bad = ~(frame["score"].abs() <= LARGEST_SCORE)
    if bad.any():
        row = frame[bad].iloc[0]
        problem = f"{field} of passage {row.docno!r} for question {row.qid!r} is not a finite number"
        raise InputError(f"{problem} (of at most {LARGEST_SCORE} in size)", field=field)
    return frame


def _by_score(frame: pd.DataFrame) -> pd.DataFrame:
    order = frame.sort_values(["qid", "score", "docno"], ascending=[True, False, True], kind="stable")
    return _ranked(order)


def _ranked(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a run in the order of its rows."""
    frame = frame.reset_index(drop=True)
    twice = frame.duplicated(["qid", "docno"])
    if twice.any():
        row = frame[twice].iloc[0]
        raise InputError(f"passage {row.docno!r} is listed twice for question {row.qid!r}")
    frame["rank"] = frame.groupby("qid", sort=False).cumcount() + 1
    frame["score"] = _strictly_decreasing(frame["score"].to_numpy(), frame["rank"].to_numpy())
    return frame[RUN_COLUMNS]


def ranked_run(lists: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Build a run from ordered lists of docnos; the score is the negated rank.

    >>> ranked_run({"q1": ["d3", "d1"]})[["docno", "rank", "score"]].values.tolist()
    [['d3', 1, -1.0], ['d1', 2, -2.0]]
    """
    qids: list[str] = []
    docnos: list[str] = []
    scores: list[float] = []
    for qid, listed in lists.items():
        for rank, docno in enumerate(listed, start=1):
            qids.append(qid)
            docnos.append(docno)
            scores.append(-float(rank))
    return make_run(qids, docnos, scores)


def check_run(run: pd.DataFrame) -> pd.DataFrame:
    """Return a clean copy of a run from any tool: ids as text, sorted, ranks from 1.

    Rows are ordered by `score`, or by `rank` if the frame has no scores. Ranks are recounted, since PyTerrier's ranks
    start at 0. A clean run is checked and returned.

    Raises:
        InputError: not a frame, a missing column, an id that is neither text nor a whole number, a score that is not a
            number, or a docno twice for one question.
    """
    run = _under_our_names(run)
    needs = "a run needs columns qid, docno and score (or rank)"
    _check_columns(run, RUN_COLUMNS, "a run is", needs, 2, "score", "rank")
    if _is_clean_run(run):
        return run.reset_index(drop=True)
    column = "score" if "score" in run.columns else "rank"
    scores = _numbers(run[column]).to_numpy()
    if column == "rank":
        scores = -scores
    return _by_score(_unranked(run["qid"], run["docno"], scores, field=column))


def _under_our_names(frame: Any) -> Any:
    """Rename the id columns of other tools (:data:`QID_NAMES`, :data:`DOCNO_NAMES`) to qid and docno."""
    if not isinstance(frame, pd.DataFrame):
        return frame
    names = {
        _first_of(QID_NAMES, frame): "qid",
        _first_of(DOCNO_NAMES, frame): "docno",
    }
    names.pop(None, None)  # no id column under any of the names
    return frame.rename(columns=names)


def _check_columns(frame: object, columns: list[str], is_a: str, needs: str, required: int, *either: str) -> None:
    """Raise InputError unless this is a frame with the first `required` columns and one of the columns `either`."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{is_a} a data frame with columns {', '.join(columns)}, not {type(frame).__name__}")
    missing = [name for name in columns[:required] if name not in frame.columns]
    if missing or not {*either} & {*frame.columns}:
        raise InputError(f"{needs}; missing: {', '.join(missing) or ' or '.join(either)}")
    names = [*frame.columns]
    for name in columns:
        if names.count(name) > 1:
            raise InputError("two columns have this name; keep one", field=name)


def _is_clean_run(run: pd.DataFrame) -> bool:
    """Say whether :func:`make_run` would return the same rows."""
    if not _is_clean(run, _RUN, ["qid", "rank"]):
        return False
    rank = run["rank"].to_numpy()
    score = run["score"].to_numpy()
    place = run.groupby("qid", sort=False).cumcount() + 1
    if (rank != place).any():
        return False
    if not (np.abs(score) <= LARGEST_SCORE).all():
        return False
    single = score.astype(np.float32)
    falls = single[1:] < single[:-1]
    begins = rank[1:] == 1
    if not (falls | begins).all():
        return False
    return not run.duplicated(["qid", "docno"]).any()


def _is_clean(frame: pd.DataFrame, columns: Mapping[str, str], order: Sequence[str]) -> bool:
    """Say whether a frame has these columns (name → type), no empty cell, and strictly increasing keys."""
    types = [(name, str(kind)) for name, kind in frame.dtypes.items()]
    if types != [*columns.items()]:
        return False
    needed = frame.drop(columns="p_yes", errors="ignore")
    if needed.isna().any(axis=None):
        return False
    keys = frame[[*order]]
    if keys.duplicated().any():
        return False
    return bool(pd.MultiIndex.from_frame(keys).is_monotonic_increasing)


def make_verdicts(rows: Iterable[tuple[str, int, str, float, bool]], judge: str) -> pd.DataFrame:
    """Build the frame of verdicts, which are qrels of perspectives.

    Args:
        rows: (qid, pid, docno, p_yes, supports), pid an index into the question's perspectives.
        judge: the judge's id.

    Returns:
        Frame with columns qid, pid, docno, p_yes, supports, judge; sorted by qid, pid, docno. A p_yes of NaN is an
        answer that could not be read: it supports nothing, and the pair counts as unjudged.

    Raises:
        InputError: as :func:`check_verdicts`.
    """
    frame = pd.DataFrame(list(rows), columns=VERDICT_COLUMNS[:-1])
    return check_verdicts(frame.assign(judge=judge))


def check_verdicts(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return a clean, sorted copy of a verdict frame from any source.

    A missing column `supports` (true and false, or 1 and 0) is derived from p_yes >= 0.5, and a missing `p_yes` from
    `supports`. An empty p_yes is an answer that could not be read: the pair is unjudged (see :func:`read_pairs`). A
    column `grade`, the relevance behind the verdict, is kept. A clean frame is checked and returned.

    Raises:
        InputError: not a frame, a missing column, an id that is neither text nor a whole number, p_yes outside 0..1, a
            pid that is not a whole number from 0, a grade that is not a number, an unread answer that supports
            something, or a repeated verdict.
    """
    verdicts = _verdicts_of(_under_our_names(verdicts))
    needs = "verdicts need columns qid, pid, docno and p_yes (of qrels: query_id, iteration, doc_id and relevance)"
    _check_columns(verdicts, VERDICT_COLUMNS, "verdicts are", needs, 3, "p_yes", "supports")
    if _are_clean_verdicts(verdicts):
        return verdicts.reset_index(drop=True)
    frame = verdicts.reset_index(drop=True).copy()
    frame["qid"] = _ids(frame["qid"], "qid")
    frame["docno"] = _ids(frame["docno"], "docno")
    frame = _with_answers(frame)
    if "judge" not in frame.columns:
        frame["judge"] = "unknown"
    columns = list(VERDICT_COLUMNS)
    if GRADE in frame.columns:
        frame[GRADE] = _clean_grades(frame)
        columns.append(GRADE)
    frame = frame.sort_values(["qid", "pid", "docno"], kind="stable")
    frame = frame.reset_index(drop=True)
    twice = frame.duplicated(["qid", "pid", "docno"])
    if twice.any():
        raise InputError(f"two verdicts for {_key(frame, twice)}; keep one")
    return frame[columns]


def _with_answers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return verdicts with checked columns p_yes, pid and supports."""
    if "supports" in frame.columns:
        supports = _numbers(frame["supports"])
        wrong = ~supports.isin([0, 1])
        if wrong.any():
            value = shortened(frame["supports"][wrong].iloc[0])
            raise InputError(f"supports must be true or false (1 or 0), not {value}", field="supports")
        frame["supports"] = supports
    given = frame["p_yes" if "p_yes" in frame.columns else "supports"]
    frame["p_yes"] = _numbers(given)
    bad = ~frame["p_yes"].between(0.0, 1.0) & given.notna()
    if bad.any():
        raise InputError(f"p_yes of {_key(frame, bad)} is not a number from 0 to 1")
    pid = _numbers(frame["pid"])
    in_range = pid.between(0, MOST_PERSPECTIVES - 1)
    if (~in_range | (pid % 1 != 0)).any():
        raise InputError("pid must be a whole number from 0, the index of the perspective", field="pid")
    frame["pid"] = pid.astype(np.int64)
    if "supports" not in frame.columns:
        frame["supports"] = frame["p_yes"] >= 0.5
    frame["supports"] = frame["supports"].astype(bool)
    unread = frame["p_yes"].isna() & frame["supports"]
    if unread.any():
        problem = f"the verdict {_key(frame, unread)} has no p_yes, so it cannot support anything"
        raise InputError(problem, field="p_yes")
    return frame


def _clean_grades(frame: pd.DataFrame) -> pd.Series:
    """Return the grades of verdicts; an ungraded verdict, joined with graded ones, has grade 1 or 0."""
    grade = _numbers(frame[GRADE])
    bad = ~np.isfinite(grade) & frame[GRADE].notna()
    if bad.any():
        raise InputError(f"the grade of {_key(frame, bad)} is not a finite number", field=GRADE)
    return grade.fillna(frame["supports"].astype(float))


def read_pairs(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the verdicts whose answer could be read: the judged pairs."""
    return verdicts[verdicts["p_yes"].notna()]


# ---------------------------------------------------------------- relevance of qrels


def verdicts_from_relevance(
    rows: Iterable[tuple[str, int, str, float]], relevance_level: float = 1.0, where: StrPath = ""
) -> pd.DataFrame:
    """Build verdicts from relevance; a passage supports a perspective if its relevance reaches a level.

    Args:
        rows: (qid, pid, docno, relevance), pid an index into the question's perspectives.
        relevance_level: the smallest relevance that is a yes, as trec_eval's option -l.
        where: the file or frame, for messages.

    Returns:
        Verdicts, see :func:`make_verdicts`; with the column `grade` if some relevance is neither 0 nor 1. A
        negative relevance (-2 is spam in TREC Web) is a no, as in trec_eval and ndeval.

    Raises:
        InputError: a relevance that is not a finite number, a level of 0 or less, or as :func:`check_verdicts`.
    """
    check_relevance_level(relevance_level)
    frame = pd.DataFrame(list(rows), columns=["qid", "pid", "docno", "relevance"])
    relevance = _numbers(frame.pop("relevance"))
    bad = ~np.isfinite(relevance)
    if bad.any():
        problem = f"{where or 'the qrels'}: the relevance of {_key(frame, bad)} is not a finite number"
        raise InputError(problem, field="relevance")
    supports = relevance >= relevance_level
    frame = frame.assign(p_yes=supports.astype(float), supports=supports, judge="gold")
    if not relevance.isin([0, 1]).all():
        frame = frame.assign(grade=relevance)
    return check_verdicts(frame)


def _verdicts_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of qrels, or of pid and relevance, as verdicts; return any other frame unchanged."""
    qrels = as_qrels(frame)
    if qrels is not None:
        return verdicts_from_qrels(qrels)[0]
    if not isinstance(frame, pd.DataFrame):
        return frame
    needed = ["qid", "pid", "docno", "relevance"]
    has_answers = "p_yes" in frame.columns or "supports" in frame.columns
    if has_answers or not {*needed} <= {*frame.columns}:
        return frame
    return verdicts_from_relevance(frame[needed].itertuples(index=False))


def check_relevance_level(level: float) -> None:
    """Raise InputError unless a level, the smallest relevance that is a yes, is a number above 0."""
    is_number = isinstance(level, _REAL) and not isinstance(level, bool)
    if not (is_number and 0 < level < LARGEST_SCORE):
        raise InputError(f"a number above 0 is needed, not {shortened(level)}", field="relevance_level")


def at_level(verdicts: pd.DataFrame, relevance_level: float, where: StrPath = "") -> pd.DataFrame:
    """Return verdicts whose yes is a grade of at least a level; without grades, a yes has grade 1.

    Raises:
        InputError: some grade is above 0, but none reaches the level.
    """
    check_relevance_level(relevance_level)
    are_read = verdicts["p_yes"].notna()
    supports = (_grades(verdicts) >= relevance_level) & are_read
    if not supports.equals(verdicts["supports"]):
        p_yes = supports.astype(float).where(are_read)
        verdicts = verdicts.assign(supports=supports, p_yes=p_yes)
    check_some_yes(verdicts, where)
    return verdicts


def check_some_yes(verdicts: pd.DataFrame, where: StrPath = "") -> None:
    """Raise InputError if some grade is above 0 but no verdict is a yes: the level is too high."""
    largest = _grades(verdicts).max()
    if largest > 0 and not verdicts["supports"].any():
        problem = f"nothing is a yes, as no relevance reaches the level; the largest is {largest:g}"
        hint = f"in Python, bd.load(…, relevance_level={largest:g}) sets another"
        raise InputError(f"{problem}; {hint}", path=where or None, field="relevance_level")


def _grades(verdicts: pd.DataFrame) -> pd.Series:
    if GRADE in verdicts.columns:
        return verdicts[GRADE]
    return verdicts["supports"].astype(float)


class Qrels(NamedTuple):
    """Qrels of TREC: a frame qid, subtopic, docno, relevance, with its file and the line of each row."""

    rows: pd.DataFrame
    where: StrPath = ""
    lines: Sequence[int] | None = None

    def wrong(self, row: int, field: str, problem: str) -> InputError:
        """Return the error for a field of a row."""
        line = row + 1 if self.lines is None else self.lines[row]
        return InputError(problem, path=self.where or None, line=line, field=field)

    def numbered(self) -> Qrels:
        """Return the qrels with whole numbers as subtopics; a column of one word ("Q0") becomes 0.

        Raises:
            InputError: another subtopic that is not a whole number from 0, or a relevance that is not a finite number.
        """
        rows = self.rows.reset_index(drop=True)
        relevance = _numbers(rows["relevance"])
        subtopic = _numbers(rows["subtopic"])
        if rows["subtopic"].nunique() == 1:
            word = str(rows["subtopic"][0])
            if not word.lstrip("-").isdecimal():
                subtopic = pd.Series(0, index=rows.index)
        self._refuse(~np.isfinite(relevance), "relevance", "a finite number was expected")
        expected = "a whole number from 0 was expected, or one word in the whole column, such as Q0"
        in_range = subtopic.between(0, MOST_PERSPECTIVES - 1)
        self._refuse(~in_range | (subtopic % 1 != 0), "subtopic", expected)
        rows = rows.assign(relevance=relevance, subtopic=subtopic.astype(np.int64))
        return self._replace(rows=rows[QRELS_COLUMNS])

    def _refuse(self, wrong: pd.Series, field: str, expected: str) -> None:
        """Raise the error for the first wrong row, if there is one."""
        if wrong.any():
            row = int(wrong.to_numpy().argmax())
            value = self.rows[field].iloc[row]
            raise self.wrong(row, field, f"{expected}, not {shortened(value)}")


def as_qrels(given: object) -> Qrels | None:
    """Return a frame of qrels from any tool; None for anything else."""
    frame = _under_our_names(given)
    if not isinstance(frame, pd.DataFrame):
        return None
    names = {*frame.columns}
    if names & {"pid", "p_yes", "supports"}:
        return None
    relevance = _first_of(RELEVANCE_NAMES, frame)
    subtopic = _first_of(SUBTOPIC_NAMES, frame)
    if relevance is None or not {"qid", "docno"} <= names:
        return None
    used = ["qid", "docno", relevance]
    if subtopic:
        used.append(subtopic)
    _check_columns(frame, used, "qrels are", "", 2, relevance)
    rows = pd.DataFrame(
        {
            "qid": _ids(frame["qid"], "qid"),
            "docno": _ids(frame["docno"], "docno"),
            "subtopic": frame[subtopic].tolist() if subtopic else 0,
            "relevance": frame[relevance].tolist(),
        }
    )
    return Qrels(rows).numbered()


def _first_of(names: Sequence[str], frame: pd.DataFrame) -> str | None:
    return next((name for name in names if name in frame.columns), None)


def verdicts_from_qrels(
    qrels: Qrels,
    listed: Mapping[str, int] | None = None,
    *,
    first_subtopic: int | None = None,
    relevance_level: float | None = 1.0,
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return qrels as verdicts, and qid → the number of its first subtopic, which became pid 0.

    The numbering is decided for each topic. A topic with the subtopic 0 alone has no subtopics, and its 0 is pid 0. In
    others the first subtopic is 0, as :func:`berdslib.data.trec.write_trec_qrels` numbers perspectives, or 1, as in
    TREC Web, where a 0 beside others stands for the whole topic (2010, 2011) and is not a perspective. Gaps stay. A
    passage that was judged for the whole topic alone counts as judged.

    Args:
        qrels: with numbers as subtopics.
        listed: qid → number of perspectives that the question lists, 0 for none; None if that is unknown.
        first_subtopic: 0 or 1 for all topics but those that have 0 alone; None to decide.
        relevance_level: see :func:`verdicts_from_relevance`; None for 1, even if no relevance reaches it, because
            :func:`at_level` will set another level.

    Raises:
        InputError: a subtopic that the question does not list, with its line; or no relevance reaches the level.
    """
    if first_subtopic not in (None, 0, 1) or isinstance(first_subtopic, bool):
        raise InputError(f"must be 0, 1 or None (decide), not {first_subtopic!r}", field="first_subtopic")
    rows = qrels.rows
    at_most_one = listed is not None and max(listed.values(), default=0) <= 1
    if at_most_one and rows["subtopic"].nunique() == 1:
        rows = rows.assign(subtopic=0)  # one number everywhere is TREC's iteration, not a subtopic
    topics = _numbering(rows, listed or {}, first_subtopic)
    if first_subtopic is None:
        _say_numbering(topics, listed, qrels.where)
    topic = topics.loc[rows["qid"]].reset_index()
    pid = rows["subtopic"].to_numpy() - topic["first"]
    too_large = (pid >= topic["m"]) & (topic["m"] > 0)
    impossible = too_large | topic["contradicts"]
    if impossible.any():
        raise _unlisted_subtopic(qrels, rows, topic, int(impossible.to_numpy().argmax()))
    numbered = rows.assign(pid=pid.to_numpy())
    whole_topic = numbered["pid"] < 0
    noes = numbered.assign(relevance=numbered["relevance"].clip(upper=0))
    judged = judged_still(numbered[~whole_topic], noes[whole_topic])
    relevance = judged[["qid", "pid", "docno", "relevance"]].itertuples(index=False)
    level = 1.0 if relevance_level is None else relevance_level
    verdicts = verdicts_from_relevance(relevance, level, qrels.where)
    if relevance_level is not None:
        check_some_yes(verdicts, qrels.where)
    firsts = {str(qid): int(first) for qid, first in topics["first"].items()}
    return verdicts, firsts


def _unlisted_subtopic(qrels: Qrels, rows: pd.DataFrame, topics: pd.DataFrame, row: int) -> InputError:
    """Return the error for a row whose subtopic its question does not list."""
    [topic] = topics.iloc[[row]].to_dict("records")
    listed = counted(topic["m"], "perspective")
    problem = f"{rows['subtopic'].iloc[row]}, but question {topic['qid']!r} lists {listed}"
    counts = f"subtopics count from {topic['first']} here"
    if topic["contradicts"]:
        counts = "0 alone is a topic without subtopics where those of others count from 1"
    return qrels.wrong(row, "subtopic", f"{problem}; {counts}")


def judged_still(kept: pd.DataFrame, left_out: pd.DataFrame) -> pd.DataFrame:
    """Return the kept rows, and a no on the first perspective for each passage that only a left-out row judges."""
    judged = pd.MultiIndex.from_frame(kept[["qid", "docno"]])
    others = left_out.drop_duplicates(["qid", "docno"])
    pairs = pd.MultiIndex.from_frame(others[["qid", "docno"]])
    others = others[~pairs.isin(judged)].assign(pid=0)
    return pd.concat([kept, others], ignore_index=True)


def counted(n: int, what: str) -> str:
    """Return a number with its noun in the singular or plural.

    >>> counted(1, "question"), counted(1200, "question")
    ('1 question', '1,200 questions')
    """
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def some_of(n: int, total: int, what: str, verb: str) -> str:
    """Return a part of a number of things as the subject of a verb, "have", "are" or a regular one, which agrees.

    >>> some_of(1, 12, "question", "have"), some_of(3, 1200, "pair", "list")
    ('1 of 12 questions has', '3 of 1,200 pairs list')
    """
    singular = {"have": "has", "are": "is"}.get(verb, f"{verb}s")
    return f"{n:,} of {counted(total, what)} {singular if n == 1 else verb}"


def _numbering(qrels: pd.DataFrame, listed: Mapping[str, int], first_subtopic: int | None) -> pd.DataFrame:
    """Return how the subtopics of each topic are numbered, one row per topic.

    `m` is the number of listed perspectives, `first` the number of the first subtopic; `zero_beside` says that 0 stands
    beside others, `contradicts` that 0 stands alone although several are listed and other topics count from 1.
    """
    by_topic = qrels.groupby("qid")["subtopic"]
    least = by_topic.min()
    most = by_topic.max()
    m = pd.Series([listed.get(qid, 0) for qid in least.index], index=least.index)
    zero_alone = most == 0
    zero_beside = (least == 0) & (most > 0)
    relevant_zeros = qrels[(qrels["subtopic"] == 0) & (qrels["relevance"] > 0)]
    zero_is_relevant = least.index.isin(relevant_zeros["qid"])
    if first_subtopic is not None:
        from_1 = first_subtopic == 1
        first = np.where(zero_alone, 0, first_subtopic)
    else:
        # Counted from 0, the last of m perspectives is m - 1: a subtopic m says that they count from 1.
        surely_from_1 = (most == m) & (most > 0)
        from_1 = bool(surely_from_1.any())
        all_whole = bool((surely_from_1 & zero_beside).any())
        listed_nowhere = not m[zero_beside].any()
        if listed_nowhere and not all_whole:
            all_whole = _zero_is_whole(qrels[qrels["qid"].map(zero_beside)])
        is_whole = surely_from_1 | all_whole | (from_1 & ~zero_is_relevant)  # such as spam of the whole topic
        from_0 = (zero_beside & ~is_whole) | (zero_alone & (m > 1))
        others = from_1 or ((least == 1).any() and not from_0.any())
        first = np.select([zero_alone, zero_beside], [0, is_whole.astype(int)], int(others))
    several_alone = zero_alone & (m > 1) & from_1
    first = np.where(several_alone & ~zero_is_relevant, 1, first)
    contradicts = several_alone & zero_is_relevant
    return pd.DataFrame({"m": m, "first": first, "zero_beside": zero_beside, "contradicts": contradicts})


def _zero_is_whole(qrels: pd.DataFrame) -> bool:
    """Whether a 0 beside other subtopics stands for the whole topic, as in TREC Web 2010 and 2011.

    Then each passage that is relevant to a subtopic is relevant to 0, in all of these topics. In a topic with a single
    other subtopic this may be chance.
    """
    relevant = qrels[qrels["relevance"] > 0]
    others = relevant[relevant["subtopic"] > 0]
    to_whole = pd.MultiIndex.from_frame(relevant.loc[relevant["subtopic"] == 0, ["qid", "docno"]])
    covered = pd.MultiIndex.from_frame(others[["qid", "docno"]]).isin(to_whole)
    subtopics = others.groupby("qid")["subtopic"].nunique()
    return bool(covered.all() and (subtopics > 1).any())


def _say_numbering(topics: pd.DataFrame, listed: Mapping[str, int] | None, where: StrPath) -> None:
    """Log how subtopics are numbered where this matters and is uncertain."""
    from_1 = topics["first"] == 1
    matters = topics["m"] > 0 if listed is not None else True
    remedy = "first_subtopic=0 in Python says so, or a table of verdicts, whose pid counts from 0"
    if (matters & from_1).any():
        problem = "subtopics count from 1, so subtopic 1 is the first perspective"
        say_once(where or "qrels", f"{problem}; if they count from 0, {remedy}")
    whole = topics["zero_beside"] & from_1
    if whole.any():
        problem = f"subtopic 0 of {counted(int(whole.sum()), 'topic')} stands for the whole topic and is no perspective"
        say_once(where or "qrels", f"{problem}; if it is one, {remedy}")


def _key(frame: pd.DataFrame, rows: pd.Series) -> str:
    """Return question, perspective and passage of the first of some rows."""
    row = frame[rows].iloc[0]
    return f"({row.qid}, {row.pid}, {row.docno})"


def _are_clean_verdicts(verdicts: pd.DataFrame) -> bool:
    """Say whether :func:`check_verdicts` would change nothing."""
    columns = _VERDICTS | {GRADE: "float64"} if GRADE in verdicts.columns else _VERDICTS
    if not _is_clean(verdicts, columns, ["qid", "pid", "docno"]):
        return False
    p_yes = verdicts["p_yes"]
    unread = p_yes.isna()
    if (unread & verdicts["supports"]).any():
        return False
    if not (p_yes.between(0, 1) | unread).all():
        return False
    if not verdicts["pid"].between(0, MOST_PERSPECTIVES - 1).all():
        return False
    return GRADE not in verdicts.columns or bool(np.isfinite(verdicts[GRADE]).all())


def _ids(values: Iterable[Any], field: str) -> pd.Series:
    """Return ids as text; whole numbers are accepted, because pandas reads such ids as numbers."""
    texts = [value if type(value) is str else _id(value, field) for value in values]
    return pd.Series(texts, dtype="str")


def _id(value: Any, field: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | Integral):
        raise InputError(f"{shortened(value)} is not an id; use text or a whole number", field=field)
    return str(value)


def _numbers(values: Any) -> pd.Series:
    """Return a column as float64, with NaN in place of anything but numbers."""
    numbers = pd.to_numeric(pd.Series(values), errors="coerce")
    return pd.Series(numbers.to_numpy(dtype=np.float64, na_value=np.nan))


def _strictly_decreasing(scores: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Lower each score that does not fall below the previous one, by the smallest visible step.

    The step is one in single precision: trec_eval and similar tools read scores so, and break ties by rules of their
    own.
    """
    single = scores.astype(np.float32)
    rises = (single[1:] >= single[:-1]) & (ranks[1:] > 1)
    if not rises.any():
        return scores
    lowered = scores.copy()
    for i in range(1, len(lowered)):
        if ranks[i] > 1 and single[i] >= single[i - 1]:
            single[i] = np.nextafter(single[i - 1], np.float32(-np.inf))
            lowered[i] = single[i]
    return lowered
