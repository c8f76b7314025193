"""Choosing honestly: a setting is chosen on development questions, and scored once on others.

A *way* is what stands behind a retriever in a system string, weights left out: "mmr", "mmr@mpnet", "expand:rule+mmr";
or "none".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berdslib.data.records import Question
from berdslib.errors import InputError
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.systems import parse_system

NONE = "none"


def dev_test_split(questions: Sequence[Question]) -> tuple[list[Question], list[Question]]:
    """Split questions in (to choose by, to score once): sources with "dev" and "test" by these, others in half."""
    rng = np.random.default_rng(0)
    chosen: set[str] = set()
    for source in dict.fromkeys(question.source for question in questions):
        mine = [question for question in questions if question.source == source]
        if len(mine) < 2:
            raise InputError(f"source {source!r} has only one question, which cannot be split")
        if {"dev", "test"} <= {question.split for question in mine}:
            chosen |= {question.qid for question in mine if question.split != "test"}
        else:
            half = rng.permutation(len(mine))[: len(mine) // 2]
            chosen |= {mine[place].qid for place in half}
    to_choose_by = [question for question in questions if question.qid in chosen]
    return to_choose_by, [question for question in questions if question.qid not in chosen]


def systems_of(retriever: str, way: str, weights: Sequence[float] = ()) -> list[str]:
    """Return the systems of a way: one for each weight, or one where nothing in it has a weight.

    >>> systems_of("bm25", "expand:rule+mmr", [0.5, 0.9])
    ['bm25+expand:rule+mmr:0.5', 'bm25+expand:rule+mmr:0.9']
    """
    parts = [] if way == NONE else way.split("+")
    if not any(part.partition("@")[0] in DIVERSIFIERS for part in parts):
        return [parse_system("+".join([retriever, *parts])).text]
    if not weights:
        raise InputError(f"{way!r} has a relevance weight, and there are none to try", field="weights")

    def weighed(part: str, weight: float) -> str:
        kind, at, encoder = part.partition("@")
        return f"{kind}:{weight:g}{at}{encoder}" if kind in DIVERSIFIERS else part

    systems = ("+".join([retriever, *(weighed(part, weight) for part in parts)]) for weight in weights)
    return list(dict.fromkeys(parse_system(system).text for system in systems))
