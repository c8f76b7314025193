"""Predictions files of PerspectiveArg: for each query the ids of the arguments that a system lists, the best first.

Source: the task's published description. One JSON object a line, with the ids of the release::

    {"query_id": 0, "relevant_candidates": [2019017914, 201904055, …]}

A run has the docnos of its scenario, which are other ones where profiles are hidden; here one becomes the other.
"""

from __future__ import annotations

from collections.abc import Container

import pandas as pd

from berdslib.data.arguments import listed_docnos
from berdslib.data.records import check_run, ranked_run
from berdslib.data.scenario import BASELINE, Scenario
from berdslib.data.tables import read_jsonl, text_field, write_jsonl
from berdslib.errors import InputError, known
from berdslib.files import StrPath

ENOUGH = 20  # the deepest cut-off of the task's measures
REPEATS = ("error", "once")
_QUERY, _LISTED = "query_id", "relevant_candidates"


def write_predictions(path: StrPath, run: pd.DataFrame, scenario: Scenario) -> None:
    """Write a run as a predictions file: queries in the scenario's order, ids as the release has them.

    A query without an answer is left out; the file then needs ``least=0`` to be read.

    Args:
        path: the file to write (compressed if it ends in .gz); it appears under its name when it is complete.
        run: frame qid, docno and score (or rank) in the scenario's docnos.
        scenario: what was searched.

    Raises:
        InputError: a frame that is not a run, a query or an argument that is not the scenario's, or nothing can be
            written there.
    """
    run = check_run(run)
    qids = [q.qid for q in scenario.questions]
    _check_own(run["qid"], set(qids), "a query", scenario)
    _check_own(run["docno"], scenario.ids.keys(), "an argument", scenario)
    argument_numbers, query_numbers = scenario.release.number_ids
    lists = run["docno"].groupby(run["qid"], sort=False).agg(list)
    rows = (
        {
            _QUERY: _written(qid, query_numbers),
            _LISTED: [_written(scenario.ids[docno], argument_numbers) for docno in lists[qid]],
        }
        for qid in qids
        if qid in lists.index
    )
    write_jsonl(path, rows)


def read_predictions(path: StrPath, scenario: Scenario, *, least: int = ENOUGH, repeats: str = "error") -> pd.DataFrame:
    """Read a predictions file as a run.

    Args:
        path: JSONL, gzipped or not.
        scenario: whose queries it answers.
        least: how many different arguments each query must list, or all where the corpus has fewer; with 0 a query
            may also have no answer, and scores as if it found nothing; so may all.
        repeats: of an id that is listed twice: "error", or "once" to take the first and leave out the others
            (docs/divergences.md A9).

    Returns:
        Frame qid, docno, rank, score; docnos are the scenario's.

    Raises:
        InputError: a file that does not hold predictions, a query or an argument that is not the scenario's, one that
            is there twice, too short a list, or a query without an answer; the message names file, line and field.
    """
    known("treatment of repeats", repeats, REPEATS)
    if isinstance(least, bool) or not isinstance(least, int) or least < 0:
        raise InputError(f"must be a whole number from 0, not {least!r}", field="least")
    enough = min(least, len(scenario.passages))
    asked = {q.qid for q in scenario.questions}
    docno_of, line_of = scenario.docnos, dict[str, int]()
    lists: dict[str, list[str]] = {}
    for line, row in read_jsonl(path):
        qid = text_field(row, (_QUERY,), path, line)
        if qid in line_of:
            raise InputError(f"{qid!r} is on line {line_of[qid]} already", path=path, line=line, field=_QUERY)
        if qid not in asked:
            raise InputError(_whose(qid, scenario), path=path, line=line, field=_QUERY)
        found = listed_docnos(row, _LISTED, docno_of, path, line, repeats=repeats)
        if len(found) < enough:
            raise InputError(_too_few(len(found), enough), path=path, line=line, field=_LISTED)
        line_of[qid], lists[qid] = line, [docno_of[one] for one in found]
    if enough and not lists:
        raise InputError("holds no predictions", path=path)
    missing = [q.qid for q in scenario.questions if q.qid not in lists]
    if enough and missing:
        problem = f"answers {len(lists)} of {len(asked)} queries of {scenario.split!r}; the first without an answer is"
        raise InputError(f"{problem} {missing[0]!r}", path=path, field=_QUERY)
    return ranked_run(lists)


def _check_own(ids: pd.Series, own: Container[str], what: str, scenario: Scenario) -> None:
    strange = next((one for one in ids.unique() if one not in own), None)
    if strange is not None:
        problem = f"{strange!r} is not {what} of {scenario.name!r} ({scenario.split})"
        raise InputError(problem, field="qid" if what == "a query" else "docno")


def _written(own: str, is_number: bool) -> str | int:
    return int(own) if is_number else own


def _too_few(n: int, enough: int) -> str:
    return f"lists {n} different argument{'' if n == 1 else 's'}; at least {enough} are needed"


def _whose(qid: str, scenario: Scenario) -> str:
    """Say of which split or kind a query is that this scenario does not ask."""
    release = scenario.release
    kinds = {"baseline": release.baseline, "perspective": release.perspective}
    own = "baseline" if scenario.rule == BASELINE else "perspective"
    for kind in (own, *(kinds.keys() - {own})):
        split = next((query.split for query in kinds[kind] if query.qid == qid), None)
        if split is not None:
            return f"{qid!r} is a {kind} query of {split!r}; this scenario asks the {own} queries of {scenario.split!r}"
    return f"{qid!r} is not a query of the release"
