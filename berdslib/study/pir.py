"""PIR's main table: methods x tasks, with intervals over roots."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from berdslib.data.pir import PirTask, load_pir, tasks_in
from berdslib.data.records import Passage, make_run
from berdslib.errors import InputError, known
from berdslib.evaluation.perspective_recall import extend_gold, mean_p_recall, p_recall
from berdslib.llm.extraction import extract_by
from berdslib.models.base import Encoder
from berdslib.models.cards import model_card
from berdslib.models.corpus_vectors import full_text
from berdslib.models.encoders import get_encoder
from berdslib.retrieval.base import docno_order, top_k
from berdslib.retrieval.projection import METHODS, OFFICIAL, scores

logger = logging.getLogger(__name__)

GOLD = ("own", "official")


def score_methods(
    source: str,
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    *,
    encoder: str = "minilm",
    k: int = 5,
    single_root: str = "keep",
    difference: Sequence[str] = ("ambigqa",),
    extract: str = "",
    recordings: Path | None = None,
    gold: str = "own",
) -> pd.DataFrame:
    """Score projection methods on tasks of PIR, as Tables 4 and 8.

    Args:
        source: as :func:`berdslib.data.pir.load_pir` takes it.
        tasks: which of its tasks; none for all.
        methods: keys of ``METHODS`` or ``OFFICIAL``; none for all of ``METHODS``.
        encoder: see :func:`berdslib.models.encoders.get_encoder`.
        k: cut-off.
        single_root: see :func:`berdslib.evaluation.perspective_recall.p_recall`.
        difference: tasks in which query - root stands for the perspective (divergences.md P5).
        extract: how root and perspective are cut out of the raw query, see
            :func:`berdslib.llm.extraction.extract_by`; "" for those of the data set. Roots are scored as the data set
            has them, either way.
        recordings: a file of a chat model's answers, as there.
        gold: "own" for each query's gold texts; "official" for what the authors' notebook makes of them, where the
            first query of a root has the gold of all (divergences.md P1).

    Returns:
        Frame task, method, roots, mean, low, high (p-Recall@k and its 95 % interval over roots).

    Raises:
        InputError: an unknown task, method, encoder or option; an answer that cannot be read; a task whose
            perspectives are its queries (AmbigQA) and that `difference` does not name: projecting a query out of itself
            leaves nothing.
        MissingDataError: the data, the weights or a recorded answer are not on this machine.
    """
    wanted = list(dict.fromkeys(known("method", m, {**METHODS, **OFFICIAL}) for m in methods)) or list(METHODS)
    known("gold", gold, GOLD)
    encode, rows = get_encoder(encoder), []
    for name in dict.fromkeys(tasks or tasks_in(source)):
        task = load_pir(source, name)
        asked = extend_gold(task.queries) if gold == "official" else task.queries
        task = taken_apart(task, extract, recordings) if extract else task
        parts = task_vectors(task, encode, model_card(encoder).passage_text)
        kind = "difference" if name in difference else "text"
        if kind == "text" and all(q.perspective == q.text for q in task.queries):
            raise InputError(f"in {name!r} the perspective is the query itself; name it there", field="difference")
        for method in wanted:
            run = ranked(task, scores(method, *parts, source=kind), k)
            found = mean_p_recall(p_recall(run, asked, k, single_root=single_root))
            rows.append((name, method, int(found["roots"]), found["mean"], found["low"], found["high"]))
    return pd.DataFrame(rows, columns=["task", "method", "roots", "mean", "low", "high"])


def taken_apart(task: PirTask, extract: str, recordings: Path | None = None) -> PirTask:
    """Return a task with the roots and perspectives that are cut out of its raw queries.

    Args:
        task: whose queries.
        extract: see :func:`berdslib.llm.extraction.extract_by`.
        recordings: see there.

    Raises:
        InputError: an unknown way, or an answer that cannot be read.
    """
    found = extract_by(extract, [q.text for q in task.queries], recordings=recordings)
    whole = sum(one.perspective == q.text for one, q in zip(found, task.queries, strict=True))
    if 0 < whole < len(found):
        logger.warning("%s: %d of %d queries are their own perspective", task.name, whole, len(found))
    queries = (
        q._replace(root=one.root, perspective=one.perspective) for one, q in zip(found, task.queries, strict=True)
    )
    return task._replace(queries=tuple(queries))


def task_vectors(
    task: PirTask, encoder: Encoder, text_of: Callable[[Passage], str] = full_text
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the vectors of queries, roots and perspectives, (n, d) each, and of the passages, (m, d)."""
    texts = ([q.text for q in task.queries], [q.root for q in task.queries], [q.perspective for q in task.queries])
    query, root, perspective = (encoder.encode_queries(part) for part in texts)
    return query, root, perspective, encoder.encode_passages([text_of(p) for p in task.passages])


def ranked(task: PirTask, values: np.ndarray, k: int) -> pd.DataFrame:
    """Return the run of the k best passages of each query.

    Args:
        task: whose queries and passages.
        values: (n, m) score of each passage for each query.
        k: how many.
    """
    docnos = [p.docno for p in task.passages]
    order = docno_order(docnos)
    best = [(q.qid, row, top_k(row, k, order)) for q, row in zip(task.queries, values, strict=True)]
    return make_run(
        [qid for qid, _, rows in best for _ in rows],
        [docnos[i] for _, _, rows in best for i in rows],
        [float(row[i]) for _, row, rows in best for i in rows],
    )
