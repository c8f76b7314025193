"""Collections by name or from files: ``berdslib.load``."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from berdslib.data.arguments import is_release
from berdslib.data.catalogue import DATASETS, Dataset
from berdslib.data.collection import Collection
from berdslib.data.datasets import (
    check_limit,
    find,
    load_gold,
    load_passages,
    load_questions,
    of_split,
    recorded_expansions,
)
from berdslib.data.formats import is_beir
from berdslib.data.own import is_own
from berdslib.data.pir import is_pir, place_of, read_task
from berdslib.data.records import Passage
from berdslib.data.scenario import Scenario, load_scenario
from berdslib.errors import InputError, known, says_what_it_takes

logger = logging.getLogger(__name__)

# A corpus or verdicts: a data set's name, a file or folder, or what is there already.
Corpus = str | Path | Sequence[Passage]
Gold = str | Path | pd.DataFrame


@says_what_it_takes
def load(
    name: str | Path | Sequence[str | Path],
    *,
    passages: Corpus | None = None,
    split: str | None = None,
    gold: Gold | None = None,
    limit: int = 0,
) -> Collection:
    """Return questions with their corpus and what is known about them.

    Args:
        name: a data set ("sample", "theperspective", "kialo", …); a task of PIR ("pir-demo:allsides",
            "pir-sample:location", or a JSON file in the authors' layout, "FILE.json:TASK"); a scenario of
            PerspectiveArg ("perspectivearg-sample:explicit", or a release's folder, "FOLDER:implicit"); a file of
            questions (JSONL, TSV or CSV); a BEIR folder; or several of these, which need `passages`. A known name
            comes before a folder of that name beside you: "./theperspective" is the folder.
        passages: a data set, file or folder to search, or a list of passages; None for the data set's own.
        split: a split of the data set, or "all", which PerspectiveArg has not; None for "dev" where there is one, else
            for its first ("test" of a BEIR folder); for everything of what is not split, and of a file.
        gold: verdicts to score by: a file, a data set, or a frame; None for the data set's own, where it has some.
        limit: only the first so many questions of each; 0 for all.

    Raises:
        InputError: an unknown name or split, or a file that cannot be read.
        MissingDataError: a data set that is neither on this machine nor reachable.
    """
    check_limit(limit)
    several = _names(name)
    if len(several) > 1 and passages is None:
        raise InputError("several data sets are searched together only in a corpus that you name", field="passages")
    shared = _passages(passages)
    loaded = [_load_one(one, shared, split, limit) for one in several]
    for one in loaded:
        if isinstance(one, Scenario) and (passages is not None or gold is not None or len(loaded) > 1):
            problem = f"{one.name!r} comes with its own arguments and answers, and stands alone"
            raise InputError(problem, field="passages" if gold is None else "gold")
    whole = loaded[0] if len(loaded) == 1 else _joined(loaded, shared or ())
    if gold is None:
        return whole
    return replace(whole, gold=load_gold(gold) if isinstance(gold, str | Path) else gold)


def _names(given: str | Path | Sequence[str | Path]) -> list[str | Path]:
    several: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
    if not several:
        raise InputError("no data set is named; such as 'sample'", field="name")
    for one in several:
        if not isinstance(one, str | Path):
            problem = f"a data set or a file is named by text, such as 'sample', not by {type(one).__name__}"
            raise InputError(problem, field="name")
    return several


def _load_one(name: str | Path, shared: Sequence[Passage] | None, split: str | None, limit: int) -> Collection:
    found = _whole(name, shared, split)
    if shared is not None and not isinstance(found, Scenario):
        found = replace(found, passages=shared)
    return found.only(found.questions[:limit]) if limit else found


def _whole(name: str | Path, shared: Sequence[Passage] | None, split: str | None) -> Collection:
    """Return everything that a name stands for; its own corpus is read only where no other takes its place."""
    text, (head, _, task) = str(name), str(name).rpartition(":")
    is_known = isinstance(name, str) and text.partition(":")[0] in DATASETS
    if is_known:
        _tell_of_a_folder(text.partition(":")[0])
    # A name or a path, or one with a task or a scenario of it behind a colon. Of paths, their content tells.
    for place, chosen in ((text, ""), (head, task)):
        one = DATASETS.get(place) if is_known else None
        reader = one.reader if one else ""
        if reader == "perspectivearg" or (not is_known and place and is_release(place)):
            return load_scenario(place, chosen, split)
        if reader == "pir" or (not is_known and place and is_pir(Path(place))):
            return _pir_task(one or Path(place), chosen, split)
    found = find(name)
    if isinstance(found, Path):
        return _from_path(found, shared, split)
    if found.make is not None:
        return _made(found, split)
    questions = load_questions(name, split)
    own = load_passages(name) if shared is None and "passages" in found.parts else ()
    gold = load_gold(name) if "gold" in found.parts else None
    return Collection(found.name, questions, own, gold, recorded_expansions(found, split))


def _tell_of_a_folder(name: str) -> None:
    """Say how to open a folder that has a data set's name; of one of your own, it is mostly the data set itself."""
    if Path(name).is_dir() and (DATASETS.is_built_in(name) or not is_own(name)):
        logger.warning("%r is a data set; a folder %r is here, too; to open it: './%s'", name, name, name)


def _pir_task(place: Dataset | Path, task: str, split: str | None) -> Collection:
    if isinstance(place, Path):
        return _of_split(read_task(place, task or None), split)
    if place.hf_repo:  # it holds one task, whatever its folder is called
        own = place.name.removeprefix("pir-")
        task = known("PIR task", task or own, (own,))
    return _of_split(read_task(place_of(place), task or None), split)


def _from_path(path: Path, shared: Sequence[Passage] | None, split: str | None) -> Collection:
    name = path.name.partition(".")[0] or path.name
    questions = [q if q.source else q._replace(source=name) for q in load_questions(path, split)]
    if not is_beir(path):
        return Collection(name, questions)
    return Collection(name, questions, load_passages(path) if shared is None else (), load_gold(path))


def _made(one: Dataset, split: str | None) -> Collection:
    """Return what a function of the user's returns; it may take the split, or hold questions of all."""
    assert one.make is not None
    takes_split = "split" in inspect.signature(one.make).parameters
    made = one.make(split=split) if takes_split else one.make()
    if not isinstance(made, Collection):
        raise InputError(f"the data set {one.name!r} must make a Collection, not {type(made).__name__}")
    return made if takes_split else _of_split(made, split)


def _of_split(whole: Collection, split: str | None) -> Collection:
    """Return the part of a collection that is of a split; where it has splits, "dev" if none is named."""
    has_dev = any(q.split == "dev" for q in whole.questions)
    return whole.only(of_split(whole.questions, split or ("dev" if has_dev else "all"), whole.name))


def _passages(given: Corpus | None) -> Sequence[Passage] | None:
    return load_passages(given) if isinstance(given, str | Path) else given


def _joined(parts: Sequence[Collection], passages: Sequence[Passage]) -> Collection:
    verdicts = [one.gold for one in parts if one.gold is not None]
    if verdicts and len(verdicts) < len(parts):
        without = ", ".join(one.name for one in parts if one.gold is None)
        logger.warning("%s has no gold verdicts, so those of the others are left out", without)
    expansions = {qid: pairs for one in parts for qid, pairs in one.expansions.items()}
    questions = [q for one in parts for q in one.questions]
    gold = pd.concat(verdicts, ignore_index=True) if len(verdicts) == len(parts) else None
    return Collection(",".join(one.name for one in parts), questions, passages, gold, expansions)
