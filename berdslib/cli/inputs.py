"""What the values of the options name: questions, corpora, systems, runs, gold verdicts, measures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from berdslib.errors import InputError, errors_in


def split_names(text: str) -> list[str]:
    """Split at commas, unless the text is the path of a file or folder.

    Raises:
        InputError: no name is left.
    """
    if text and Path(text).exists():
        return [text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"{text!r} names nothing; names are needed, separated by commas")
    return names


def read_questions(names: str, split: str | None, limit: int, *, need_perspectives: bool = False) -> list[Any]:
    """Return the questions of all named sets.

    Raises:
        InputError: no questions, a repeated qid, or one without perspectives where they are needed.
    """
    from berdslib.data.datasets import load_questions
    from berdslib.data.records import check_questions

    found = [q for name in split_names(names) for q in load_questions(name, split, limit)]
    with errors_in(names):
        return list(check_questions(found, need_perspectives=need_perspectives))


def read_corpus(corpus: str | None, questions: str) -> Sequence[Any]:
    """Return the passages of the named corpus, or of the data set or BEIR folder that the questions are from."""
    from berdslib.data.datasets import load_passages
    from berdslib.data.formats import is_beir

    asked = split_names(questions)
    if corpus is None and (len(asked) != 1 or (Path(asked[0]).exists() and not is_beir(asked[0]))):
        raise InputError("--corpus is required, because the questions come from a file or from several data sets")
    return load_passages(corpus or asked[0])


def read_systems(
    names: Sequence[str],
    corpus: str | None,
    questions: str,
    split: str | None,
    asked: Sequence[Any],
    aspect_judge: str,
    depth: int,
    recordings: Path | None,
    store: Any = None,
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the corpus and the systems over it; system names are checked before the corpus is read."""
    from berdslib.retrieval.systems import uses_expansions
    from berdslib.study.named_systems import known_expansions, named_systems

    expands = [name for name in names if uses_expansions(name)]
    passages, sets = read_corpus(corpus, questions), split_names(questions)
    expansions = known_expansions(sets, split, asked, names, recordings=recordings) if expands else {}
    return passages, named_systems(names, passages, expansions, aspect_judge=aspect_judge, store=store, depth=depth)


def read_gold(questions: str, otherwise: str) -> Any:
    """Return the gold verdicts of all named sets, BEIR folders or files of verdicts.

    Args:
        questions: their names or paths.
        otherwise: what to do where one has none.
    """
    import pandas as pd

    from berdslib.data.datasets import dataset, names

    able = ", ".join(name for name in names() if "load_gold" in dataset(name).loaders)
    for name in split_names(questions):
        if name in names() and "load_gold" not in dataset(name).loaders:
            raise InputError(f"{name!r} has no gold verdicts (available for: {able}); {otherwise}")
    return pd.concat(
        [_gold_of(name, f"available for: {able}; {otherwise}") for name in split_names(questions)], ignore_index=True
    )


def _gold_of(name: str, otherwise: str) -> Any:
    from berdslib.data.datasets import load_gold

    try:
        return load_gold(name)
    except InputError as error:
        if not Path(name).is_file():
            raise
        problem = f"no gold verdicts can be read from it ({error.problem}); {otherwise}"
        raise InputError(problem, path=name, line=error.line, field=error.field) from None


def gold_for(judge: str, questions: str) -> Any:
    """Return the gold verdicts where the judge is "gold", else None."""
    return read_gold(questions, "choose another judge, such as -j similarity") if judge == "gold" else None


def read_run(path: str, asked: Sequence[Any]) -> Any:
    """Read a run and check that it answers at least one of the questions."""
    from berdslib.data.trec import read_trec_run

    run = read_trec_run(path)
    if not set(run["qid"]) & {q.qid for q in asked}:
        problem = (
            f"answers none of the questions: their ids are like {asked[0].qid!r}, in the run {run['qid'].iloc[0]!r}"
        )
        raise InputError(problem, path=path, field="qid")
    return run


def read_measures(text: str) -> list[Any]:
    """Read measures such as "Precision@5,alpha_nDCG(alpha=0.5)@10"."""
    from berdslib.evaluation.measures import parse_measure

    wanted = [parse_measure(part) for part in _split_outside_brackets(text)]
    if not wanted:
        raise InputError("at least one measure is needed, such as MRecall@5", field="measures")
    return wanted


def _split_outside_brackets(text: str) -> list[str]:
    """Split at commas that are not inside brackets: alpha_nDCG(alpha=0.5,rel=1)@5 is one measure."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [p.strip() for p in parts if p.strip()]
