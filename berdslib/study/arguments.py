"""What the functions of the front door take: names where things are meant, one where several are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from berdslib.data.collection import Collection
from berdslib.data.datasets import load
from berdslib.data.records import Question
from berdslib.errors import InputError
from berdslib.judging.base import Judge
from berdslib.judging.baselines import Gold
from berdslib.judging.registry import as_judge, make_judge
from berdslib.judging.store import VerdictStore

Data = Collection | str | Path
Store = VerdictStore | str | Path | None
AnyJudge = Judge | Callable[..., Any] | str | None


def are_questions(data: object) -> TypeGuard[Sequence[Question]]:
    """Return whether these are questions, in a list; none at all are too."""
    return isinstance(data, list | tuple) and all(isinstance(one, Question) for one in data)


def collection_of(data: Data) -> Collection:
    """Return a collection, or the one that a name or a path stands for."""
    if isinstance(data, Collection):
        return data
    if isinstance(data, str | Path):
        return load(data)
    if isinstance(data, Question) or (are_questions(data) and data):
        problem = "questions alone cannot be searched or judged"
    else:
        problem = f"one collection or its name is needed, not {type(data).__name__}"
    raise InputError(f"{problem}; bd.Collection(name, questions, passages) makes one", field="data")


def collections_of(data: Data | Sequence[Data]) -> list[Collection]:
    """Return one or several collections as a list."""
    if not isinstance(data, list | tuple) or isinstance(data, Question) or (are_questions(data) and data):
        return [collection_of(data)]  # type: ignore[arg-type] # anything else is refused there
    if not data:
        raise InputError("at least one collection is needed, such as bd.load('sample')", field="data")
    return [collection_of(one) for one in data]


def store_of(store: Store) -> VerdictStore:
    """Return a store of verdicts: as it is, that of a file, or where none is given that in the user's cache."""
    if isinstance(store, VerdictStore):
        return store
    if store is not None and not isinstance(store, str | Path):
        raise InputError(f"a store of verdicts or its file is needed, not {type(store).__name__}", field="store")
    return VerdictStore(None if store is None else Path(store))


def is_recorded(judge: AnyJudge) -> bool:
    """Return whether recorded verdicts are meant: nobody is named, or "gold" is."""
    return judge is None or (isinstance(judge, str) and judge.strip() == "gold")


def judge_of(judge: AnyJudge, collection: Collection) -> Judge:
    """Return a judge by name, as it is, or made of a function; recorded verdicts where none is named."""
    if is_recorded(judge):
        if collection.gold is None:
            raise InputError(f"{collection.name!r} has no recorded verdicts; name one, such as 'laptop'", field="judge")
        return Gold(collection.gold)
    return make_judge(judge.strip(), collection.gold) if isinstance(judge, str) else as_judge(judge)
