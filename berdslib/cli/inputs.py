"""What the values of the options name: questions with their corpus and gold verdicts, and runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berdslib.errors import InputError, errors_in

if TYPE_CHECKING:  # the command line starts before pandas is loaded
    from berdslib.data.collection import Collection


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


def read_collections(questions: str, corpus: str | None, split: str | None, limit: int) -> list[Collection]:
    """Return what is asked and searched: all sets of questions over one corpus, or each set over its own.

    Raises:
        InputError: a set without perspectives, or whatever :func:`berdslib.data.load.load` refuses.
    """
    from berdslib.data.load import load
    from berdslib.data.records import check_questions

    names = split_names(questions)
    joined: list[Any] = [names] if corpus else [*names]
    found = [load(one, passages=corpus, split=split, limit=limit) for one in joined]
    for one in found:
        with errors_in(questions):
            check_questions(one.questions, need_perspectives=True)
    return found


def read_collection(
    questions: str,
    corpus: str | None,
    split: str | None,
    limit: int,
    *,
    need_passages: bool = True,
    need_perspectives: bool = True,
    gold: str | None = None,
) -> Collection:
    """Return all sets of questions as one collection.

    Args:
        questions: names of sets, comma-separated, or a path.
        corpus: what they search; None for the corpus of the one set that is named.
        split: of each set.
        limit: of each set.
        need_passages: require a corpus.
        need_perspectives: require perspectives.
        gold: verdicts in place of those of the sets.

    Raises:
        InputError: what is required is not there, or whatever :func:`berdslib.data.load.load` refuses.
    """
    from berdslib.data.load import load
    from berdslib.data.records import check_questions

    names: list[str | Path] = [*split_names(questions)]
    if len(names) > 1 and corpus is None and need_passages:
        raise InputError("--corpus is required, because the questions come from several data sets")
    searched = corpus if corpus is not None or need_passages else ()
    found = load(names, passages=searched, split=split, limit=limit, gold=gold)
    if need_passages and not found.passages:
        raise InputError(f"--corpus is required, because {questions!r} holds questions only")
    with errors_in(questions):
        check_questions(found.questions, need_perspectives=need_perspectives)
    return found


def read_run(path: str, asked: Sequence[Any]) -> Any:
    """Read a run and check that it answers at least one of the questions."""
    from berdslib.data.records import list_ids
    from berdslib.data.trec import read_trec_run

    run = read_trec_run(path)
    if not run["qid"].isin(list_ids(asked)).any():
        problem = (
            f"answers none of the questions: their ids are like {asked[0].qid!r}, in the run {run['qid'].iloc[0]!r}"
        )
        raise InputError(problem, path=path, field="qid")
    return run
