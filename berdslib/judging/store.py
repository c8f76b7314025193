"""The verdict store: a pair that has been judged is never judged again. And what is judged: runs, and aspects."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import re
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
from filelock import FileLock

from berdslib.data.corpus import by_docno
from berdslib.data.records import Passage, Question, check_run, make_verdicts
from berdslib.errors import InputError
from berdslib.files import Rows, write_transaction
from berdslib.judging.base import EachByItself, FunctionJudge, Judge, Pair, pairs_of, probabilities
from berdslib.judging.baselines import Committee, Gold
from berdslib.paths import cache_dir
from berdslib.progress import chunk_starts

logger = logging.getLogger(__name__)


class VerdictStore:
    """Verdicts on disk (SQLite), keyed by the hash of judge id, passage and perspective, never by position.

    Each chunk is committed before the next is judged, so that a kill loses no more than one; several processes may
    share a store. `path` None is ``verdicts.sqlite`` in the user cache.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_dir() / "verdicts.sqlite"
        self._rows = Rows(self.path, "a verdict store", "verdict", "p_yes REAL", "WITHOUT ROWID")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, float]:
        """Return key → p_yes for those of the keys (:func:`verdict_key`) that are there."""
        return self._rows.do(lambda table: self._rows.find(table, keys))

    def put(self, p_yes: Mapping[bytes, float]) -> None:
        """Add verdicts; existing ones are not changed."""

        def add(table: sqlite3.Connection) -> None:
            with write_transaction(table):
                there = self._rows.find(table, list(p_yes))
                self._rows.add(table, ((key, p) for key, p in p_yes.items() if key not in there))

        self._rows.do(add)

    def turn(self, judge_id: str) -> FileLock:
        """Return a lock for who judges by one judge on one device: others wait, and find what they need judged.

        Machines and GPUs do not wait for each other, and so may judge a pair twice.
        """
        who = f"{judge_id} {platform.node()} {os.environ.get('CUDA_VISIBLE_DEVICES', '')}"
        name = f".{self.path.name}.{hashlib.sha256(who.encode()).hexdigest()[:16]}.turn"
        return FileLock(self.path.with_name(name), poll_interval=0.01)

    def __len__(self) -> int:
        return self._rows.do(lambda table: int(table.execute("SELECT count(*) FROM verdict").fetchone()[0]))


def verdict_key(judge_id: str, pair: Pair) -> bytes:
    """Return the content hash under which a verdict is kept (32 bytes)."""
    parts = (judge_id, pair.passage.title, pair.passage.text, pair.perspective)
    try:
        # Lengths keep ("ab", "c") and ("a", "bc") apart.
        return hashlib.sha256("".join(f"{len(p)}:{p}" for p in parts).encode()).digest()
    except UnicodeEncodeError:
        problem = f"passage {pair.passage.docno!r} or its perspective holds half of a surrogate pair (\\ud…)"
        raise InputError(problem, field="text") from None


def judge_pairs(
    judge: Judge, pairs: Sequence[Pair], store: VerdictStore | None = None, *, chunk: int = 512
) -> tuple[np.ndarray, int]:
    """Judge pairs, equal ones once, from the store where known: (p_yes float64 (n,), number judged anew).

    A passage without a letter or digit supports nothing: no judge is asked. Of a committee each member is asked by
    itself. Gold verdicts and those of a plain function (:class:`berdslib.judging.base.FunctionJudge`) are never stored.

    NaN stands for an answer that could not be read. It is not stored, so that the pair is asked again next time; a
    committee of which one member's answer could not be read has none.

    Raises:
        InputError: a threshold that is not from 0 to 1, or the judge returned something that is not a probability, or
            stopped; what it said before is in the store.
    """
    check_threshold(judge)
    if isinstance(judge, Gold):
        return judge.p_yes(pairs), 0
    if isinstance(judge, Committee):
        asked_each = [judge_pairs(member, pairs, store, chunk=chunk) for member in judge.judges]
        return judge.mean([p_yes for p_yes, _ in asked_each]), max(new for _, new in asked_each)
    store = None if isinstance(judge, FunctionJudge) else store
    named = judge.id  # once: a model in memory is looked at for it
    keys = [None if _is_blank(p) else verdict_key(named, p) for p in pairs]  # hashing long texts takes time
    wanted = {key: pair for key, pair in zip(keys, pairs, strict=True) if key is not None}
    have = store.get(list(wanted)) if store is not None else {}
    missing, judged = [key for key in wanted if key not in have], 0
    if isinstance(judge, EachByItself):
        judge.proven = judge.proven or bool(have)
        has_new_id = bool(missing) and judge.try_first([wanted[key] for key in missing])
        if has_new_id:  # it says how the judge can be asked, and verdicts are stored under it
            return judge_pairs(judge, pairs, store, chunk=chunk)
    for start in chunk_starts(len(missing), chunk, "judging") if missing else ():
        part = missing[start : start + chunk]
        with store.turn(judge.id) if store is not None else nullcontext():
            have |= store.get(part) if store is not None else {}  # another process may have been faster
            new = [key for key in part if key not in have]
            p_yes, problem = _judged(judge, [wanted[key] for key in new]) if new else (np.empty(0), None)
            found = {key: p for key, p in zip(new, p_yes.tolist(), strict=True) if not np.isnan(p)}
            if store is not None:
                store.put(found)
        if problem is not None:
            raise problem
        have.update(found)
        judged += len(new)
    # An unread pair is not in `have`.
    return np.array([0.0 if key is None else have.get(key, np.nan) for key in keys], dtype=np.float64), judged


def _is_blank(pair: Pair) -> bool:
    return re.search(r"[^\W_]", pair.passage.text) is None


def _judged(judge: Judge, pairs: Sequence[Pair]) -> tuple[np.ndarray, BaseException | None]:
    """Return the answers, NaN where there is none, and why."""
    given, problem = judge.p_yes_each(pairs) if isinstance(judge, EachByItself) else (judge.p_yes(pairs), None)
    return probabilities(given, len(pairs), judge.id, missing=isinstance(judge, EachByItself)), problem


def judge_run(
    run: pd.DataFrame,
    questions: Sequence[Question],
    passages: Mapping[str, Passage],
    judge: Judge,
    *,
    k: int,
    store: VerdictStore | None = None,
) -> pd.DataFrame:
    """Return the verdicts on the top k of a run for every perspective of each question; see :func:`judge_pairs`.

    Of recorded verdicts, those that there are: a pair that nobody judged has none.
    """
    pairs = pairs_of(run, questions, passages, k)
    if isinstance(judge, Gold):
        there = pd.MultiIndex.from_frame(judge.verdicts[["qid", "pid", "docno"]])
        asked = there.isin([(pair.qid, pair.pid, pair.passage.docno) for pair in pairs])
        return judge.verdicts[asked].assign(judge=judge.id).reset_index(drop=True)
    started = time.monotonic()
    p_yes, new = judge_pairs(judge, pairs, store)
    said = "judged %d pairs with %s: %d new, %d from the store, %.1f s"
    logger.info(said, len(pairs), judge.id, new, len(pairs) - new, time.monotonic() - started)
    return verdicts_of(pairs, p_yes, judge)


def check_threshold(judge: Judge) -> Judge:
    """Return a judge; one whose threshold is no number from 0 to 1 would say no, or yes, to everything.

    Raises:
        InputError: the threshold is NaN, or not from 0 to 1.
    """
    if not 0 <= judge.threshold <= 1:
        problem = f"the judge {judge.id!r} has the threshold {judge.threshold!r}; a number from 0 to 1 is needed"
        raise InputError(problem, field="threshold")
    return judge


def verdicts_of(pairs: Sequence[Pair], p_yes: np.ndarray, judge: Judge) -> pd.DataFrame:
    """Return judged pairs as a verdict frame: support is a probability of at least the threshold, and a text not blank.

    Only people's verdicts, which belong to ids, may differ. An answer that could not be read (NaN) supports nothing.
    """

    def supports(pair: Pair, p: float) -> bool:
        return p >= judge.threshold and (isinstance(judge, Gold) or not _is_blank(pair))

    rows = zip(pairs, p_yes.tolist(), strict=True)
    return make_verdicts([(p.qid, p.pid, p.passage.docno, y, supports(p, y)) for p, y in rows], judge.id)


def judged_aspects(
    expansions: Mapping[str, Sequence[tuple[str, str]]],
    passages: Sequence[Passage],
    judge: Judge,
    store: VerdictStore | None = None,
) -> Callable[[pd.DataFrame, Sequence[Question]], pd.DataFrame]:
    """Return a function from a run and its questions to aspect probabilities: frame qid, pid, docno, p.

    `expansions` maps a qid to its [(name, statement), …], and pid is a place in these: the perspectives are generated
    ones, never those that a list is scored by.
    """
    if isinstance(judge, Gold):
        raise InputError("recorded verdicts cover only the perspectives used for scoring; choose another judge")
    corpus = by_docno(passages)
    table = pd.DataFrame(columns=["qid", "pid", "docno", "p"])

    def aspects(run: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
        nonlocal table
        run = check_run(run)
        generated = [
            q._replace(perspectives=tuple(text for _, text in expansions[q.qid]), stances=(), weights=())
            for q in questions
            if expansions.get(q.qid)
        ]
        asked = run[run["qid"].isin({q.qid for q in generated})]
        new = asked[~_pairs(asked).isin(_pairs(table))]
        if len(new):  # settings of one diversifier ask about the same passages again and again
            judged = judge_run(new, generated, corpus, judge, k=int(new["rank"].max()), store=store)
            judged = judged.rename(columns={"p_yes": "p"})[list(table.columns)]
            judged = judged.fillna({"p": 0.0})  # an unread answer covers nothing
            table = pd.concat([table, judged], ignore_index=True) if len(table) else judged
        return table[_pairs(table).isin(_pairs(asked))].reset_index(drop=True)

    return aspects


def _pairs(frame: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(frame[["qid", "docno"]])
