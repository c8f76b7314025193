"""What the functions of the front door take: names where things are meant, one where several are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from berdslib.data.collection import Collection
from berdslib.data.load import load
from berdslib.data.records import Question
from berdslib.errors import InputError
from berdslib.judging.base import Judge
from berdslib.judging.baselines import Gold
from berdslib.judging.registry import as_judge, make_judge

Data = Collection | str | Path
AnyJudge = Judge | Callable[..., Any] | str | None
Function = TypeVar("Function", bound=Callable[..., Any])


def says_what_it_takes(function: Function) -> Function:
    """Have a function answer a wrong or missing argument with an InputError that lists what it accepts."""
    accepted = inspect.signature(function)

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        try:
            accepted.bind(*args, **options)
        except TypeError as error:
            names = ", ".join(accepted.parameters)
            raise InputError(f"{function.__name__}: {error}; it takes {names}") from None
        return function(*args, **options)

    return cast("Function", called)


def collection_of(data: Data) -> Collection:
    """Return a collection, or the one that a name or a path stands for.

    Raises:
        InputError: neither; or what :func:`berdslib.data.load.load` refuses.
    """
    if isinstance(data, Collection):
        return data
    if isinstance(data, str | Path):
        return load(data)
    problem = f"a collection or the name of one is needed, not {type(data).__name__}"
    raise InputError(f"{problem}; bd.Collection(name, questions, passages) makes one", field="data")


def collections_of(data: Data | Sequence[Data]) -> list[Collection]:
    """Return one or several collections as a list.

    Raises:
        InputError: none at all, or as :func:`collection_of`.
    """
    several = [data] if isinstance(data, Collection | str | Path) else data
    if isinstance(several, Sequence) and len(several) and isinstance(several[0], Question):
        raise InputError(
            "questions alone cannot be searched; bd.Collection(name, questions, passages) can", field="data"
        )
    found = [collection_of(one) for one in several] if isinstance(several, Sequence) else [collection_of(several)]
    if not found:
        raise InputError("at least one collection is needed, such as bd.load('sample')", field="data")
    return found


def judge_of(judge: AnyJudge, collection: Collection) -> Judge:
    """Return a judge by name, as it is, or made of a function; recorded verdicts where none is named.

    Raises:
        InputError: an unknown name, something that is no judge, or no recorded verdicts.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    if judge is None or (isinstance(judge, str) and judge.strip() == "gold"):
        if collection.gold is None:
            raise InputError(f"{collection.name!r} has no recorded verdicts; name one, such as 'laptop'", field="judge")
        return Gold(collection.gold)
    return make_judge(judge.strip(), collection.gold) if isinstance(judge, str) else as_judge(judge)
