"""The data sets known by name: their cards (catalogue.toml), and those that the user registers."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berdslib.registry import Registry


@dataclass(frozen=True)
class RemoteFile:
    """A file on the web; its ``sha256`` and ``bytes`` are None if not on record."""

    url: str
    sha256: str | None = None
    bytes: int | None = None

    @property
    def name(self) -> str:
        """The name of the file in the cache: the last part of the address."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class HubTable:
    """A table on Hugging Face: ``repo`` (OWNER/NAME), its subset ``config``, and the file ``name`` in the cache."""

    repo: str
    config: str
    split: str
    name: str


@dataclass(frozen=True)
class Dataset:
    """One data set.

    Args:
        name: the name used everywhere.
        title: a description in one line.
        paper: "berds", "pir" or "perspectivearg"; "support" for a supporting data set, "own" for the user's.
        kind: "questions", "passages", "both" or "pairs" (of texts, with labels).
        source: its makers' web page or repository.
        licence: as stated by its makers.
        size: in words.
        reader: the reader of its files: a key of :data:`berdslib.data.readers.READERS`, "pir" or "perspectivearg".
        parts: the parts that can be loaded separately: "questions", "passages", "gold", "expansions", "pairs".
        files: the files that `fetch` downloads.
        hf_repo: data set repository on Hugging Face.
        tables: the tables of Hugging Face repositories that `fetch` writes as files, if their rows suffice.
        splits: its splits, the default first; () for an unsplit data set.
        local: paths of its files, relative to BERDS_DATA; the first existing one is used.
        passages: the paths in `local` that hold passages.
        cached: names of its files and folders in the cache; () for those of `local`.
        shipped: its folder in the package.
        place: the location of a user's data set.
        verdicts_on_texts: gold verdicts hold for every passage with the same text, not only for the judged id.
        dev_starts_at: number of the first dev question, if both splits share one numbering.
        how: how to get it if no command can.
        note: what a user should know before using it.
        make: of a user's data set, the function that returns its Collection; see :func:`berdslib.register`.
    """

    name: str
    title: str
    paper: str
    kind: str
    source: str
    licence: str
    size: str
    reader: str = ""
    parts: tuple[str, ...] = ()
    files: tuple[RemoteFile, ...] = ()
    hf_repo: str | None = None
    tables: tuple[HubTable, ...] = ()
    splits: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    shipped: str = ""
    place: str = ""
    verdicts_on_texts: bool = False
    dev_starts_at: int = 0
    how: str = ""
    note: str = ""
    make: Callable[..., Any] | None = None

    @property
    def fetchable(self) -> bool:
        """Whether `fetch` has something to download."""
        return bool(self.files or self.hf_repo or self.tables)

    @property
    def loaders(self) -> list[str]:
        """The functions of berdslib.data.datasets that accept it."""
        return [f"load_{part}" for part in self.parts]


def _cards() -> dict[str, Dataset]:
    rows = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
    nested = {"files": RemoteFile, "tables": HubTable}

    def value(field: str, given: Any) -> Any:
        if field in nested:
            return tuple(nested[field](**facts) for facts in given)
        return tuple(given) if isinstance(given, list) else given

    cards = {}
    for name, row in rows.items():
        fields = {field: value(field, given) for field, given in row.items()}
        cards[name] = Dataset(name, **fields)
    return cards


# ---------------------------------------------------------------- data sets of the user


def dataset_at(name: str, place: str, **facts: Any) -> Dataset:
    """Return a file or folder as a data set, with known facts about it."""
    unknown = {"title": "a data set of your own", "source": place, "licence": "unknown", "size": "unknown"}
    return Dataset(name, **{"paper": "own", "kind": "questions", "place": place, **unknown, **facts})


def own_dataset(make: Callable[..., Any], name: str) -> Dataset:
    """Return a user's function that makes a Collection as a data set."""
    title = (make.__doc__ or "registered by you").strip().splitlines()[0]
    about: dict[str, Any] = {"paper": "support", "kind": "both", "source": "yours", "licence": "", "size": ""}
    return Dataset(name=name, title=title, make=make, **about)


DATASETS: Registry[Dataset] = Registry("data set", _cards(), own=own_dataset)
