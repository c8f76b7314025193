"""Model selection: a setting is chosen on development questions and scored once on the others.

A *way* is the part of a system string after the retriever, without weights: "mmr", "mmr@mpnet", "expand:rule+mmr"; or
"none".
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
    """Split questions into two lists: questions to choose by, and questions to score once.

    Sources with both splits, "dev" and "test", are split by these, and others at random into halves.

    Raises:
        InputError: a source has only one question.
    """
    rng = np.random.default_rng(0)
    chosen: set[str] = set()
    for source in dict.fromkeys(question.source for question in questions):
        of_source = [question for question in questions if question.source == source]
        if len(of_source) < 2:
            raise InputError(f"source {source!r} has only one question, which cannot be split")
        if {"dev", "test"} <= {question.split for question in of_source}:
            chosen |= {question.qid for question in of_source if question.split != "test"}
        else:
            half = rng.permutation(len(of_source))[: len(of_source) // 2]
            chosen |= {of_source[place].qid for place in half}
    to_choose_by = [question for question in questions if question.qid in chosen]
    to_score = [question for question in questions if question.qid not in chosen]
    return to_choose_by, to_score


def systems_of(retriever: str, way: str, weights: Sequence[float] = ()) -> list[str]:
    """Return the systems of a way: one system per weight, or a single system if no part has a weight.

    >>> systems_of("bm25", "expand:rule+mmr", [0.5, 0.9])
    ['bm25+expand:rule+mmr:0.5', 'bm25+expand:rule+mmr:0.9']
    """
    parts = [] if way == NONE else way.split("+")
    if not any(part.partition("@")[0] in DIVERSIFIERS for part in parts):
        return [parse_system("+".join([retriever, *parts])).text]
    if not weights:
        raise InputError(f"{way!r} needs at least one relevance weight to try", field="weights")
    systems = []
    for weight in weights:
        weighted = [retriever]
        for part in parts:
            kind, at, encoder = part.partition("@")
            weighted.append(f"{kind}:{weight:g}{at}{encoder}" if kind in DIVERSIFIERS else part)
        systems.append(parse_system("+".join(weighted)).text)
    return list(dict.fromkeys(systems))
