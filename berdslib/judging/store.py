"""The verdict store, which keeps verdicts so that a pair is judged once; judging of runs and of aspects."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
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
from berdslib.judging.base import EachByItself, FunctionJudge, Judge, Pair, is_blank, pairs_of, probabilities
from berdslib.judging.baselines import Committee, Gold
from berdslib.judging.echo import Echo, without_echo
from berdslib.judging.refit import Refit
from berdslib.paths import cache_dir
from berdslib.progress import chunk_starts

logger = logging.getLogger(__name__)


class VerdictStore:
    """Verdicts on disk (SQLite), keyed by the hash of judge id, passage and perspective, never by position.

    Each chunk is committed before the next is judged, so that a killed process loses one chunk at most; several
    processes may share a store. `path` None is ``verdicts.sqlite`` in the user cache.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_dir() / "verdicts.sqlite"
        self._rows = Rows(self.path, "a verdict store", "verdict", "p_yes REAL", "WITHOUT ROWID")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, float]:
        """Return {key: p_yes} for the keys (:func:`verdict_key`) in the store."""
        return self._rows.do(lambda table: self._rows.find(table, keys))

    def put(self, p_yes: Mapping[bytes, float]) -> None:
        """Add verdicts; existing ones stay unchanged."""

        def add(table: sqlite3.Connection) -> None:
            with write_transaction(table):
                stored = self._rows.find(table, list(p_yes))
                self._rows.add(table, ((key, p) for key, p in p_yes.items() if key not in stored))

        self._rows.do(add)

    def turn(self, judge_id: str) -> FileLock:
        """Return a lock for one judge on one device: processes that wait find the verdicts in the store.

        Different machines and GPUs do not wait for each other, so they may judge a pair twice.
        """
        owner = f"{judge_id} {platform.node()} {os.environ.get('CUDA_VISIBLE_DEVICES', '')}"
        name = f".{self.path.name}.{hashlib.sha256(owner.encode()).hexdigest()[:16]}.turn"
        return FileLock(self.path.with_name(name), poll_interval=0.01)

    def __len__(self) -> int:
        return self._rows.do(lambda table: int(table.execute("SELECT count(*) FROM verdict").fetchone()[0]))


def verdict_key(judge_id: str, pair: Pair) -> bytes:
    """Return the key of a verdict, a hash of its content (32 bytes)."""
    parts = (judge_id, pair.passage.title, pair.passage.text, pair.perspective)
    try:
        # Lengths keep ("ab", "c") and ("a", "bc") apart.
        content = "".join(f"{len(part)}:{part}" for part in parts)
        return hashlib.sha256(content.encode()).digest()
    except UnicodeEncodeError:
        problem = f"passage {pair.passage.docno!r} or its perspective contains an unpaired surrogate (\\ud…)"
        raise InputError(problem, field="text") from None


def pair_key(pair: Pair) -> str:
    """Return a key of a pair's texts, by which a fitted judge knows it again without keeping the texts."""
    return verdict_key("", pair).hex()[:16]


def judge_pairs(
    judge: Judge, pairs: Sequence[Pair], store: VerdictStore | None = None, *, chunk: int = 512
) -> tuple[np.ndarray, int]:
    """Judge pairs, equal ones once, and reuse stored verdicts: (p_yes float64 (n,), number of pairs judged now).

    A passage without a letter or digit supports nothing and is not judged. Members of a committee judge one by one.
    Gold verdicts and those of a plain function (:class:`berdslib.judging.base.FunctionJudge`) are never stored.

    NaN is an unreadable answer. It is not stored, so the pair is judged again next time; a committee's answer is NaN
    if a member's is.

    Raises:
        InputError: a threshold that is not from 0 to 1, or a judge that returns something other than probabilities
            or fails; its earlier answers are in the store.
    """
    check_threshold(judge)
    if isinstance(judge, Gold):
        return judge.p_yes(pairs), 0
    if isinstance(judge, Echo):  # most pairs have no echo, and may have the judge's own verdict already
        return judge_pairs(judge.judge, [without_echo(pair) for pair in pairs], store, chunk=chunk)
    if isinstance(judge, Refit):
        p_yes, judged = judge_pairs(judge.judge, pairs, store, chunk=chunk)
        return judge.fitted(p_yes), judged
    if isinstance(judge, Committee):
        of_members = [judge_pairs(member, pairs, store, chunk=chunk) for member in judge.judges]
        return judge.mean([p_yes for p_yes, _ in of_members]), max(judged for _, judged in of_members)
    store = None if isinstance(judge, FunctionJudge) else store
    judge_id = judge.id  # read once: the property inspects a model in memory
    keys = [None if is_blank(pair) else verdict_key(judge_id, pair) for pair in pairs]  # hashing long texts is slow
    pair_of = {key: pair for key, pair in zip(keys, pairs, strict=True) if key is not None}
    verdicts = store.get(list(pair_of)) if store is not None else {}
    missing = [key for key in pair_of if key not in verdicts]
    if isinstance(judge, EachByItself):
        judge.proven = judge.proven or bool(verdicts)
        has_new_id = bool(missing) and judge.try_first([pair_of[key] for key in missing])
        if has_new_id:  # verdicts are stored under the new id
            return judge_pairs(judge, pairs, store, chunk=chunk)
    judged = 0
    for start in chunk_starts(len(missing), chunk, "judging") if missing else ():
        part = {key: pair_of[key] for key in missing[start : start + chunk]}
        judged += _judge_chunk(judge, part, verdicts, store)
    # A pair with an unreadable answer has no verdict.
    return np.array([0.0 if key is None else verdicts.get(key, np.nan) for key in keys], dtype=np.float64), judged


def _judge_chunk(
    judge: Judge, pair_of: Mapping[bytes, Pair], verdicts: dict[bytes, float], store: VerdictStore | None
) -> int:
    """Add the verdicts of a chunk to `verdicts` and the store; return how many pairs were judged."""
    with store.turn(judge.id) if store is not None else nullcontext():
        verdicts |= store.get(list(pair_of)) if store is not None else {}  # another process may have been faster
        new = [key for key in pair_of if key not in verdicts]
        if not new:
            return 0
        p_yes, problem = _judged(judge, [pair_of[key] for key in new])
        found = {key: p for key, p in zip(new, p_yes.tolist(), strict=True) if not np.isnan(p)}
        if store is not None:
            store.put(found)
    if problem is not None:
        raise problem
    verdicts |= found
    return len(new)


def _judged(judge: Judge, pairs: Sequence[Pair]) -> tuple[np.ndarray, BaseException | None]:
    """Return the answers, NaN where one is missing, and the error that ended the work, if any."""
    if isinstance(judge, EachByItself):
        answers, problem = judge.p_yes_each(pairs)
        return probabilities(answers, len(pairs), judge.id, missing=True), problem
    return probabilities(judge.p_yes(pairs), len(pairs), judge.id), None


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

    A gold judge returns its recorded verdicts; a pair without one has no row.
    """
    pairs = pairs_of(run, questions, passages, k)
    if isinstance(judge, Gold):
        recorded = pd.MultiIndex.from_frame(judge.verdicts[["qid", "pid", "docno"]])
        in_run = recorded.isin([(pair.qid, pair.pid, pair.passage.docno) for pair in pairs])
        return judge.verdicts[in_run].assign(judge=judge.id).reset_index(drop=True)
    started = time.monotonic()
    p_yes, new = judge_pairs(judge, pairs, store)
    message = "judged %d pairs with %s: %d new, %d from the store, %.1f s"
    logger.info(message, len(pairs), judge.id, new, len(pairs) - new, time.monotonic() - started)
    return verdicts_of(pairs, p_yes, judge)


def check_threshold(judge: Judge) -> Judge:
    """Return a judge with a threshold from 0 to 1; any other would make all its answers yes, or all no.

    Raises:
        InputError: the threshold is NaN, or not from 0 to 1.
    """
    if not 0 <= judge.threshold <= 1:
        problem = f"the judge {judge.id!r} has the threshold {judge.threshold!r}; it must be from 0 to 1"
        raise InputError(problem, field="threshold")
    return judge


def verdicts_of(pairs: Sequence[Pair], p_yes: np.ndarray, judge: Judge) -> pd.DataFrame:
    """Return judged pairs as a verdict frame: a passage supports from the threshold on, unless its text is blank.

    Gold verdicts, which people gave, also count for a blank text. An unreadable answer (NaN) is no support.
    """

    def supports(pair: Pair, p: float) -> bool:
        return p >= judge.threshold and (isinstance(judge, Gold) or not is_blank(pair))

    rows = [
        (pair.qid, pair.pid, pair.passage.docno, p, supports(pair, p))
        for pair, p in zip(pairs, p_yes.tolist(), strict=True)
    ]
    return make_verdicts(rows, judge.id)


def judged_aspects(
    expansions: Mapping[str, Sequence[tuple[str, str]]],
    passages: Sequence[Passage],
    judge: Judge,
    store: VerdictStore | None = None,
) -> Callable[[pd.DataFrame, Sequence[Question]], pd.DataFrame]:
    """Return a function from a run and its questions to aspect probabilities: a frame of qid, pid, docno, p.

    `expansions` maps a qid to its [(name, statement), …], and pid is a position in that list: these perspectives are
    generated, never those that lists are scored by.
    """
    if isinstance(judge, Gold):
        raise InputError("recorded verdicts cover only the perspectives used for scoring; choose another judge")
    corpus = by_docno(passages)
    table = pd.DataFrame(columns=["qid", "pid", "docno", "p"])

    def aspects(run: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
        nonlocal table
        run = check_run(run)
        generated = []
        for question in questions:
            statements = tuple(text for _, text in expansions.get(question.qid, ()))
            if statements:
                generated.append(question._replace(perspectives=statements, stances=(), weights=()))
        wanted = run[run["qid"].isin({question.qid for question in generated})]
        new = wanted[~_pairs(wanted).isin(_pairs(table))]
        if len(new):  # different settings of a diversifier need the same passages, which are judged once
            judged = judge_run(new, generated, corpus, judge, k=int(new["rank"].max()), store=store)
            judged = judged.rename(columns={"p_yes": "p"})[list(table.columns)]
            judged = judged.fillna({"p": 0.0})  # a passage with an unreadable answer covers nothing
            table = pd.concat([table, judged], ignore_index=True) if len(table) else judged
        return table[_pairs(table).isin(_pairs(wanted))].reset_index(drop=True)

    return aspects


def _pairs(frame: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(frame[["qid", "docno"]])
