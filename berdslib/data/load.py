"""Collections by name or from files: ``berdslib.load``."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from berdslib.data.catalogue import DATASETS, dataset
from berdslib.data.collection import Collection, Expansions
from berdslib.data.dataset import Dataset
from berdslib.data.datasets import (
    check_limit,
    is_path,
    load_expansions,
    load_gold,
    load_passages,
    load_questions,
    of_split,
)
from berdslib.data.formats import is_beir
from berdslib.data.own import is_own
from berdslib.data.pir import is_pir_file, is_pir_folder, place_of, read_task, task_names
from berdslib.data.pir_sample import location_task, story_task
from berdslib.data.records import Passage
from berdslib.data.releases import scenario_named
from berdslib.data.scenario import Scenario
from berdslib.errors import InputError, MissingDataError, known, says_what_it_takes

logger = logging.getLogger(__name__)

_PIR, _RELEASES = "pir-", "perspectivearg-"
_PIR_SAMPLE: Mapping[str, Callable[[], Collection]] = {"location": location_task, "stories": story_task}

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
        split: "dev", "test" or "all", but of PerspectiveArg "train", "dev" or "test"; None for "dev" where a data set
            has splits, else for everything.
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
    _tell_of_a_folder(name)
    # Of the data sets, those of PerspectiveArg have scenarios; of folders, nobody knows before they are looked at.
    may_be_scenario = not _is_name(name) or str(name).startswith(_RELEASES)
    if may_be_scenario and (scenario := scenario_named(name, split)) is not None:
        return scenario
    place, task = _task(name)
    if isinstance(place, Path):
        return _of_split(read_task(place, task), split)
    if place == f"{_PIR}sample":
        tasks = ", ".join(_PIR_SAMPLE)
        if task is None:
            raise InputError(f"{place!r} holds several tasks; name one of: {tasks}, as in {place}:location")
        return _of_split(_PIR_SAMPLE[known("task", task, _PIR_SAMPLE)](), split)
    if is_path(name):
        return _from_path(Path(name), shared, split)
    one = dataset(str(name))
    if one.make is not None:
        return _made(one, split)
    questions = load_questions(str(name), split)
    own = load_passages(str(name)) if shared is None and "load_passages" in one.loaders else ()
    verdicts = load_gold(str(name)) if "load_gold" in one.loaders else None
    return Collection(one.name, questions, own, verdicts, _recorded(one, split))


def _is_name(name: str | Path) -> bool:
    """Return whether a data set is named, with a task or a scenario behind its colon or without."""
    return isinstance(name, str) and name.partition(":")[0] in DATASETS


def _tell_of_a_folder(name: str | Path) -> None:
    """Say how to open a folder that has a data set's name; of one of your own, it is mostly the data set itself."""
    head = str(name).partition(":")[0]
    if _is_name(name) and Path(head).is_dir() and (DATASETS.is_built_in(head) or not is_own(head)):
        logger.warning("%r is a data set; a folder %r is here, too; to open it: './%s'", head, head, name)


def _task(name: str | Path) -> tuple[str | Path, str | None]:
    """Return where a task of PIR lies, a path, and which it is; for anything else the name as text, and None."""
    text, (head, _, task) = str(name), str(name).rpartition(":")
    for place, chosen in ((text, None), (head, task)):
        if not _is_name(name):
            if place and (is_pir_file(Path(place)) or is_pir_folder(Path(place))):
                return Path(place), chosen
        elif place == f"{_PIR}sample":
            return place, chosen
        elif place.startswith(_PIR) and place in DATASETS and dataset(place).make is None:
            one = dataset(place)
            if one.hf_repo:  # it holds one task, whatever its folder is called
                own = place.removeprefix(_PIR)
                chosen = known("PIR task", chosen or own, (own,))
            return place_of(one), chosen
    return text, None


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
    return whole.only(of_split(list(whole.questions), split or ("dev" if has_dev else "all"), whole.name))


def _recorded(one: Dataset, split: str | None) -> Expansions:
    """Return recorded expansions; of those that were never recorded, or are not on this machine, there are none."""
    if "load_expansions" not in one.loaders:
        return {}
    try:
        return load_expansions(one.name, split)
    except MissingDataError:
        return {}  # a system that needs them says so, and what there is instead


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


def tasks_in(name: str | Path) -> list[str]:
    """Return the names of the tasks of PIR that a data set, a JSON file or a folder holds.

    Raises:
        InputError: it holds none, or cannot be read.
        MissingDataError: it is neither on this machine nor reachable.
    """
    if name == f"{_PIR}sample":
        return list(_PIR_SAMPLE)
    place, task = _task(name)
    if not isinstance(place, Path):
        raise InputError(f"{str(name)!r} is no data set of PIR, and no file or folder of tasks")
    return [task] if task and place.is_dir() else task_names(place)
