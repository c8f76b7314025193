"""Releases of PerspectiveArg by name or from folders, and their scenarios."""

from __future__ import annotations

from pathlib import Path

from berdslib.data.arguments import Release, is_release, read_release
from berdslib.data.catalogue import DATASETS, dataset
from berdslib.data.datasets import is_path
from berdslib.data.fetch import candidate_paths, first_existing
from berdslib.data.scenario import BASELINE, SCENARIOS, Scenario, open_scenario
from berdslib.errors import InputError, MissingDataError, known

_ARGUMENTS = "perspectivearg"
_SYNTHETIC, _OF_2019 = f"{_ARGUMENTS}-sample", f"{_ARGUMENTS}-2019"


def load_scenario(name: str, rule: str, split: str | None = None, *, train: str | None = None) -> Scenario:
    """Return a scenario of a release of PerspectiveArg.

    Args:
        name: a data set, such as "perspectivearg-sample", or a release's folder.
        rule: "baseline", "explicit" or "implicit".
        split: "train", "dev" or "test"; None for "dev", or the first that has queries for this scenario.
        train: another release, whose training split systems may learn from; None for the same, or for those of 2023
            that of 2019, if it is there.

    Raises:
        InputError: an unknown name, scenario or split, or a release that cannot be read.
        MissingDataError: it is not on this machine.
    """
    known("scenario", rule, SCENARIOS)
    release = load_release(name)
    queries = release.baseline if rule == BASELINE else release.perspective
    there = {query.split for query in queries}
    first = next((one for one in ("dev", "train", "test") if one in there), "dev")
    return open_scenario(release, rule, split or first, training=_training(name, train))


def load_release(name: str) -> Release:
    """Return a release of PerspectiveArg: a data set, or a folder.

    Raises:
        InputError: it is neither, or cannot be read.
        MissingDataError: it is not on this machine.
    """
    if name == _SYNTHETIC:
        from berdslib.data.synthetic_arguments import make_release  # its words, in three languages, load when needed

        return make_release(arguments=1_800, issues=60, name=_SYNTHETIC)
    if not name.startswith(_ARGUMENTS) or is_path(name):
        return read_release(Path(name))
    one = dataset(name)
    return read_release(first_existing(one, candidate_paths(one, one.local), "release").parent, name)


def _training(name: str, train: str | None) -> Release | None:
    if train is not None:
        return load_release(train)
    if name not in DATASETS or name in (_SYNTHETIC, _OF_2019):
        return None
    try:
        return load_release(_OF_2019)
    except MissingDataError:
        return None  # a system that learns says what it needs


def scenario_named(name: str | Path, split: str | None) -> Scenario | None:
    """Return the scenario that a name such as "RELEASE:explicit" stands for, or None if it stands for something else.

    Raises:
        InputError: a release without one of its scenarios, or as :func:`load_scenario`.
        MissingDataError: it is not on this machine.
    """
    head, _, rule = str(name).rpartition(":")
    for place, chosen in ((str(name), ""), (head, rule)):
        is_ours = place.startswith(_ARGUMENTS) and place in DATASETS
        if place and (is_ours or is_release(place)):
            if not chosen:
                raise InputError(f"name one of its scenarios: {', '.join(f'{place}:{one}' for one in SCENARIOS)}")
            return load_scenario(place, chosen, split)
    return None
