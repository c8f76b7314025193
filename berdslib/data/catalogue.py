"""The data sets that are known by name: their cards (catalogue.toml), and those that the user registers."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berdslib.registry import Registry


@dataclass(frozen=True)
class RemoteFile:
    """A file on the web; its ``sha256`` and ``bytes`` are None where none are on record."""

    url: str
    sha256: str | None = None
    bytes: int | None = None

    @property
    def name(self) -> str:
        """The last part of the address: the name of the file in the cache."""
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
        name: what it is called everywhere.
        title: what it is, in one line.
        paper: "berds", "pir" or "perspectivearg"; "support" if it stands beside them, "own" if it is the user's.
        kind: "questions", "passages", "both" or "pairs" (of texts, with labels).
        source: web page or repository of its makers.
        licence: as its makers state it.
        size: in words.
        reader: how its files are read: a key of :data:`berdslib.data.readers.READERS`, "pir" or "perspectivearg".
        parts: what can be loaded of it alone: "questions", "passages", "gold", "expansions", "pairs".
        files: what `fetch` downloads.
        hf_repo: data set repository on Hugging Face.
        tables: those of such repositories that `fetch` writes as files, where their rows are all that is needed.
        splits: those it has, the one that is taken where none is named first; () = it is not split.
        local: paths of its files, relative to BERDS_DATA; the first that is there is taken.
        passages: those among `local` that hold passages.
        cached: names of its files and folders in the cache; () = those of `local`.
        shipped: folder that comes with the package and holds it.
        place: where one of the user's lies.
        verdicts_on_texts: gold verdicts hold for every passage of the same text, not only for the id that they name.
        dev_starts_at: number of the first dev question, where the questions of both splits are numbered through.
        how: how to get it where no command can.
        note: what a user should know before using it.
        make: for one of your own: the function that returns its Collection; see :func:`berdslib.register`.
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
        """The functions of berdslib.data.datasets that work with it."""
        return [f"load_{part}" for part in self.parts]


def _cards() -> dict[str, Dataset]:
    rows = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
    nested = {"files": RemoteFile, "tables": HubTable}

    def value(field: str, given: Any) -> Any:
        if field in nested:
            return tuple(nested[field](**one) for one in given)
        return tuple(given) if isinstance(given, list) else given

    return {name: Dataset(name, **{f: value(f, given) for f, given in row.items()}) for name, row in rows.items()}


# ---------------------------------------------------------------- those of the user


def dataset_at(name: str, place: str, **facts: Any) -> Dataset:
    """Return what lies at a path as a data set, with what is known of it."""
    unknown = {"title": "a data set of your own", "source": place, "licence": "unknown", "size": "unknown"}
    return Dataset(name, **{"paper": "own", "kind": "questions", "place": place, **unknown, **facts})


def own_dataset(make: Callable[..., Any], name: str) -> Dataset:
    """Return a function of the user's, which makes a Collection, as a data set."""
    title = (make.__doc__ or "registered by you").strip().splitlines()[0]
    about: dict[str, Any] = {"paper": "support", "kind": "both", "source": "yours", "licence": "", "size": ""}
    return Dataset(name=name, title=title, make=make, **about)


DATASETS: Registry[Dataset] = Registry("data set", _cards(), own=own_dataset)
