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

SUPPORT, OPPOSE = "support", "oppose"
MOST_PERSPECTIVES = 10**9  # of one question; a larger index is a mistake
LARGEST_SCORE = 3e38  # in size: trec_eval and its kin read scores in single precision
_RUN = {"qid": "str", "docno": "str", "rank": "int64", "score": "float64"}
_VERDICTS = {"qid": "str", "pid": "int64", "docno": "str", "p_yes": "float64", "supports": "bool", "judge": "str"}
RUN_COLUMNS, VERDICT_COLUMNS = [*_RUN], [*_VERDICTS]
GRADE = "grade"  # a further column of verdicts that were read from graded relevance
QRELS_COLUMNS = ["qid", "subtopic", "docno", "relevance"]
# What other tools call the columns of runs and of qrels, in the order in which they are looked for.
QID_NAMES = ("qid", "query_id", "query-id", "q_id", "topic_id", "topic")
DOCNO_NAMES = ("docno", "doc_id", "docid", "corpus-id", "corpus_id", "passage_id", "passage-id")
SUBTOPIC_NAMES = ("subtopic", "iteration", "subtopic_id", "iter")
RELEVANCE_NAMES = ("relevance", "label", "rel", "score")
_REAL = int | float | np.number
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


def with_perspectives(question: Question, pids: Sequence[int]) -> Question:
    """Return a question with some of its perspectives, and what it says of these.

    >>> with_perspectives(Question("q", "Who?", ("a", "b", "c"), labels=("x", "y", "z")), [0, 2]).labels
    ('x', 'z')
    """
    lists = {name: getattr(question, name) for name in _LISTS}
    some: dict[str, Any] = {name: tuple(of[pid] for pid in pids) if of else () for name, of in lists.items()}
    return question._replace(**some)


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
        _check_text(q.qid, "question", q.qid, "qid")
        _check_text(q.text, "question", q.qid, "question")
        check_lists(q)
        if need_perspectives and not q.perspectives:
            raise InputError(f"question {q.qid!r} has no perspectives, so it cannot be scored", field="perspectives")
    _check_apart(questions)
    return questions


def check_lists(question: Question) -> None:
    """Raise InputError for a list of a question that holds something else, or does not fit its perspectives."""
    for field, (wanted, fits) in _LISTS.items():
        listed = getattr(question, field)
        # A single text is a sequence too, of one perspective a letter.
        usable = isinstance(listed, Sequence) and not isinstance(listed, str) and all(map(fits, listed))
        if not usable or (field == "weights" and listed and not any(listed)):
            problem = f"question {question.qid!r} needs a list of {wanted}, not {shortened(listed)}"
            raise InputError(problem, field=field)
        if listed and len(listed) != len(question.perspectives):
            n = len(question.perspectives)
            raise InputError(f"question {question.qid!r} has {n} perspectives and {len(listed)} {field}", field=field)


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


def check_k(k: int, name: str = "k") -> None:
    """Raise InputError unless k, the length of a list, is a whole number from 1."""
    if isinstance(k, bool) or not isinstance(k, Integral):
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


def _under_our_names(frame: Any) -> Any:
    """Return a frame whose columns are called as other tools call them (:data:`QID_NAMES`) with qid and docno."""
    if not isinstance(frame, pd.DataFrame):
        return frame
    found = {_first_of(QID_NAMES, frame): "qid", _first_of(DOCNO_NAMES, frame): "docno"}
    return frame.rename(columns={theirs: ours for theirs, ours in found.items() if theirs is not None})


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
    single = score.astype(np.float32)
    falling = ((single[1:] < single[:-1]) | (rank[1:] == 1)).all()
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
    `supports`. An empty p_yes is an answer that could not be read: the pair is not judged (see :func:`read_pairs`). A
    column `grade`, the relevance that the verdict was made from, is kept. A frame that is clean already is only looked
    through.

    Raises:
        InputError: no frame, a missing column, an id that is neither text nor a whole number, p_yes outside 0..1, a pid
            that is no whole number from 0, a grade that is no number, an unread answer that supports something, or the
            same verdict twice.
    """
    verdicts = _verdicts_of(_under_our_names(verdicts))
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


# ---------------------------------------------------------------- relevance, as qrels have it


def verdicts_from_relevance(
    rows: Iterable[tuple[str, int, str, float]], relevance_level: float = 1.0, where: StrPath = ""
) -> pd.DataFrame:
    """Build verdicts from relevance; a passage supports a perspective if its relevance reaches a level.

    Args:
        rows: (qid, pid, docno, relevance), pid an index into the question's perspectives.
        relevance_level: the smallest relevance that is a yes, as trec_eval's option -l.
        where: the file or frame, for messages.

    Returns:
        Verdicts, see :func:`make_verdicts`; where some relevance is neither 0 nor 1, with the column `grade`. A
        negative relevance (-2 is spam in TREC Web) is a no, as in trec_eval and ndeval.

    Raises:
        InputError: a relevance that is no finite number, a level that is not above 0, or as :func:`check_verdicts`.
    """
    check_relevance_level(relevance_level)
    frame = pd.DataFrame(list(rows), columns=["qid", "pid", "docno", "relevance"])
    relevance = _numbers(frame.pop("relevance"))
    if (bad := ~np.isfinite(relevance)).any():
        raise InputError(
            f"{where or 'the qrels'}: the relevance of {_key(frame, bad)} is not a finite number", field="relevance"
        )
    supports = relevance >= relevance_level
    frame = frame.assign(p_yes=supports.astype(float), supports=supports, judge="gold")
    return check_verdicts(frame if relevance.isin([0, 1]).all() else frame.assign(grade=relevance))


def _verdicts_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of qrels, or one with pid and relevance, as verdicts, and others as they are."""
    qrels = as_qrels(frame)
    if qrels is not None:
        return verdicts_from_qrels(qrels)[0]
    has = {*frame.columns} if isinstance(frame, pd.DataFrame) else set()
    if {"qid", "pid", "docno", "relevance"} <= has and not {"p_yes", "supports"} & has:
        return verdicts_from_relevance(frame[["qid", "pid", "docno", "relevance"]].itertuples(index=False))
    return frame


def check_relevance_level(level: float) -> None:
    """Raise InputError unless a level, the smallest relevance that is a yes, is a number above 0."""
    if isinstance(level, bool) or not isinstance(level, _REAL) or not 0 < level < LARGEST_SCORE:
        raise InputError(f"a number above 0 is needed, not {shortened(level)}", field="relevance_level")


def at_level(verdicts: pd.DataFrame, relevance_level: float, where: StrPath = "") -> pd.DataFrame:
    """Return verdicts in which a yes is a grade that reaches a level; of verdicts without grades, a yes is grade 1.

    Raises:
        InputError: some grade is above 0, and none reaches the level.
    """
    check_relevance_level(relevance_level)
    supports = (_grades(verdicts) >= relevance_level) & verdicts["p_yes"].notna()
    if not supports.equals(verdicts["supports"]):
        p_yes = supports.astype(float).where(verdicts["p_yes"].notna())
        verdicts = verdicts.assign(supports=supports, p_yes=p_yes)
    check_some_yes(verdicts, where)
    return verdicts


def check_some_yes(verdicts: pd.DataFrame, where: StrPath = "") -> None:
    """Raise InputError if some grade is above 0, and nothing is a yes: the cut is another one."""
    largest = _grades(verdicts).max()
    if largest > 0 and not verdicts["supports"].any():
        problem = f"nothing is a yes, as no relevance reaches the level; the largest is {largest:g}"
        hint = f"in Python, bd.load(…, relevance_level={largest:g}) sets another"
        raise InputError(f"{problem}; {hint}", path=where or None, field="relevance_level")


def _grades(verdicts: pd.DataFrame) -> pd.Series:
    return verdicts[GRADE] if GRADE in verdicts.columns else verdicts["supports"].astype(float)


class Qrels(NamedTuple):
    """Relevance as TREC has it: a frame qid, subtopic, docno, relevance, with its file and the line of each row."""

    rows: pd.DataFrame
    where: StrPath = ""
    lines: Sequence[int] | None = None

    def wrong(self, row: int, field: str, problem: str) -> InputError:
        """Return the error for a field of a row."""
        line = row + 1 if self.lines is None else self.lines[row]
        return InputError(problem, path=self.where or None, line=line, field=field)

    def numbered(self) -> Qrels:
        """Return the same with whole numbers for subtopics; 0 where one word stands in the whole column ("Q0").

        Raises:
            InputError: another subtopic that is no whole number from 0, or a relevance that is no finite number.
        """
        rows = self.rows.reset_index(drop=True)
        relevance, subtopic = _numbers(rows["relevance"]), _numbers(rows["subtopic"])
        if rows["subtopic"].nunique() == 1 and not str(rows["subtopic"][0]).lstrip("-").isdecimal():
            subtopic = pd.Series(0, index=rows.index)
        no_relevance = ~np.isfinite(relevance)
        no_subtopic = ~subtopic.between(0, MOST_PERSPECTIVES - 1) | (subtopic % 1 != 0)
        expected = "a whole number from 0 was expected, or one word in the whole column, such as Q0"
        for field, wrong, wanted in (
            ("relevance", no_relevance, "a finite number was expected"),
            ("subtopic", no_subtopic, expected),
        ):
            if wrong.any():
                row = int(wrong.to_numpy().argmax())
                raise self.wrong(row, field, f"{wanted}, not {shortened(rows[field][row])}")
        rows = rows.assign(relevance=relevance, subtopic=subtopic.astype(np.int64))
        return self._replace(rows=rows[QRELS_COLUMNS])


def as_qrels(given: object) -> Qrels | None:
    """Return a frame of qrels from any tool; None for anything else."""
    frame = _under_our_names(given)
    if not isinstance(frame, pd.DataFrame) or {"pid", "p_yes", "supports"} & {*frame.columns}:
        return None
    relevance, subtopic = (_first_of(names, frame) for names in (RELEVANCE_NAMES, SUBTOPIC_NAMES))
    if relevance is None or not {"qid", "docno"} <= {*frame.columns}:
        return None
    used = ["qid", "docno", relevance] + ([subtopic] if subtopic else [])
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

    How subtopics are numbered is decided for each topic. A topic that has 0 alone has no subtopics, and its 0 is pid 0.
    In others the first is 0, as :func:`berdslib.data.trec.write_trec_qrels` numbers perspectives, or 1, as in TREC Web,
    where a 0 beside others stands for the whole topic (2010, 2011) and is no perspective. Gaps stay. A passage that was
    judged for the whole topic only counts as judged.

    Args:
        qrels: with subtopics that are numbers.
        listed: qid → how many perspectives the question lists, 0 for none; None where nobody knows.
        first_subtopic: 0 or 1 for all topics but those that have 0 alone; None to decide.
        relevance_level: see :func:`verdicts_from_relevance`; None for 1, also where nothing reaches it, since
            :func:`at_level` will set another.

    Raises:
        InputError: a subtopic that the question does not list, with its line; or no relevance that reaches the level.
    """
    if first_subtopic not in (None, 0, 1) or isinstance(first_subtopic, bool):
        raise InputError(f"must be 0, 1 or None (decide), not {first_subtopic!r}", field="first_subtopic")
    rows = qrels.rows
    if listed is not None and max(listed.values(), default=0) <= 1 and rows["subtopic"].nunique() == 1:
        rows = rows.assign(subtopic=0)  # the same number everywhere is an iteration, relevance alone
    topics = _numbering(rows, listed or {}, first_subtopic)
    if first_subtopic is None:
        _say_numbering(topics, listed, qrels.where)
    topic = topics.loc[rows["qid"]].reset_index()
    pid = rows["subtopic"].to_numpy() - topic["first"]
    impossible = ((pid >= topic["m"]) & (topic["m"] > 0)) | topic["contradicts"]
    if impossible.any():
        row = int(impossible.to_numpy().argmax())
        [of] = topic.iloc[[row]].to_dict("records")
        problem = f"{rows['subtopic'].iloc[row]}, but question {of['qid']!r} lists {counted(of['m'], 'perspective')}"
        counts = f"subtopics count from {of['first']} here"
        if of["contradicts"]:
            counts = "0 alone is a topic without subtopics where those of others count from 1"
        raise qrels.wrong(row, "subtopic", f"{problem}; {counts}")
    numbered = rows.assign(pid=pid.to_numpy())
    whole_topic = numbered["pid"] < 0
    noes = numbered.assign(relevance=numbered["relevance"].clip(upper=0))[whole_topic]
    found = judged_still(numbered[~whole_topic], noes)
    relevance = found[["qid", "pid", "docno", "relevance"]].itertuples(index=False)
    verdicts = verdicts_from_relevance(relevance, 1.0 if relevance_level is None else relevance_level, qrels.where)
    if relevance_level is not None:
        check_some_yes(verdicts, qrels.where)
    return verdicts, {str(qid): int(first) for qid, first in topics["first"].items()}


def judged_still(kept: pd.DataFrame, left_out: pd.DataFrame) -> pd.DataFrame:
    """Return the kept rows, and for each passage that only a row left out judges a no on the first perspective."""
    judged = pd.MultiIndex.from_frame(kept[["qid", "docno"]])
    others = left_out.drop_duplicates(["qid", "docno"])
    others = others[~pd.MultiIndex.from_frame(others[["qid", "docno"]]).isin(judged)].assign(pid=0)
    return pd.concat([kept, others], ignore_index=True)


def counted(n: int, what: str) -> str:
    """Return a number of things in words.

    >>> counted(1, "question"), counted(1200, "question")
    ('1 question', '1,200 questions')
    """
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _numbering(qrels: pd.DataFrame, listed: Mapping[str, int], first_subtopic: int | None) -> pd.DataFrame:
    """Return how the subtopics of each topic are numbered, a row a topic.

    `m` is how many perspectives are listed, `first` the number of the first subtopic; `zero_beside` says that 0 stands
    beside others, `contradicts` that it stands alone where several are listed and other topics count from 1.
    """
    by_topic = qrels.groupby("qid")["subtopic"]
    least, most = by_topic.min(), by_topic.max()
    m = pd.Series([listed.get(qid, 0) for qid in least.index], index=least.index)
    zero_alone, zero_beside = most == 0, (least == 0) & (most > 0)
    zero_is_relevant = least.index.isin(qrels.loc[(qrels["subtopic"] == 0) & (qrels["relevance"] > 0), "qid"])
    if first_subtopic is not None:
        from_1 = first_subtopic == 1
        first = np.where(zero_alone, 0, first_subtopic)
    else:
        # Counted from 0, the last of m perspectives is m - 1: a subtopic m says that they count from 1.
        surely_from_1 = (most == m) & (most > 0)
        from_1 = bool(surely_from_1.any())
        listed_nowhere = not m[zero_beside].any()
        all_whole = bool((surely_from_1 & zero_beside).any()) or (
            listed_nowhere and _zero_is_whole(qrels[qrels["qid"].map(zero_beside)])
        )
        is_whole = surely_from_1 | all_whole | (from_1 & ~zero_is_relevant)  # such as spam of the whole topic
        from_0 = (zero_beside & ~is_whole) | (zero_alone & (m > 1))
        others = from_1 or ((least == 1).any() and not from_0.any())
        first = np.select([zero_alone, zero_beside], [0, is_whole.astype(int)], int(others))
    several_alone = zero_alone & (m > 1) & from_1
    first = np.where(several_alone & ~zero_is_relevant, 1, first)
    contradicts = several_alone & zero_is_relevant
    return pd.DataFrame({"m": m, "first": first, "zero_beside": zero_beside, "contradicts": contradicts})


def _zero_is_whole(qrels: pd.DataFrame) -> bool:
    """Whether 0 stands for the whole topic in topics that have it beside others, as in TREC Web 2010 and 2011.

    Then what is relevant to a subtopic is relevant to 0, in all of these topics. One with a single other subtopic may
    be so by chance.
    """
    relevant = qrels[qrels["relevance"] > 0]
    others = relevant[relevant["subtopic"] > 0]
    to_whole = pd.MultiIndex.from_frame(relevant.loc[relevant["subtopic"] == 0, ["qid", "docno"]])
    covered = pd.MultiIndex.from_frame(others[["qid", "docno"]]).isin(to_whole)
    return bool(covered.all() and (others.groupby("qid")["subtopic"].nunique() > 1).any())


def _say_numbering(topics: pd.DataFrame, listed: Mapping[str, int] | None, where: StrPath) -> None:
    """Log how subtopics are numbered where that matters and is not certain."""
    matters = topics["m"] > 0 if listed is not None else True
    if (matters & (topics["first"] == 1)).any():
        problem = "subtopics count from 1, so subtopic 1 is the first perspective"
        say_once(where or "qrels", f"{problem}; if they count from 0, first_subtopic=0 (in Python) says so")
    if (whole := topics["zero_beside"] & (topics["first"] == 1)).any():
        problem = f"subtopic 0 of {counted(int(whole.sum()), 'topic')} stands for the whole topic and is no perspective"
        say_once(where or "qrels", f"{problem}; if it is one, first_subtopic=0 (in Python) says so")


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
    return pd.Series([v if type(v) is str else _id(v, field) for v in values], dtype="str")


def _id(value: Any, field: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | Integral):
        raise InputError(f"{shortened(value)} is no id; text or a whole number is needed", field=field)
    return str(value)


def _numbers(values: Any) -> pd.Series:
    """Return a column as float64, NaN where it holds no number."""
    numbers = pd.to_numeric(pd.Series(values), errors="coerce")
    return pd.Series(numbers.to_numpy(dtype=np.float64, na_value=np.nan))


def _strictly_decreasing(scores: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Lower each score that does not fall below the one before it, by the smallest step that shows.

    The step is one in single precision: trec_eval and its kin read scores as such, and break ties their own way.
    """
    single = scores.astype(np.float32)
    if not ((single[1:] >= single[:-1]) & (ranks[1:] > 1)).any():
        return scores
    out = scores.copy()
    for i in range(1, len(out)):
        if ranks[i] > 1 and single[i] >= single[i - 1]:
            single[i] = np.nextafter(single[i - 1], np.float32(-np.inf))
            out[i] = single[i]
    return out
