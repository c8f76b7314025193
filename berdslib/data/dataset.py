"""What a card says: the record of a data set and of a file on the web."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RemoteFile:
    """A file on the web.

    Args:
        url: its http or https address.
        sha256: its checksum, None where none is on record.
        bytes: its size, None where none is on record.
    """

    url: str
    sha256: str | None = None
    bytes: int | None = None

    @property
    def name(self) -> str:
        """The last part of the address: the name of the file in the cache."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class HubTable:
    """A table in a data set repository on Hugging Face, and the file that its rows become.

    Args:
        repo: the repository, OWNER/NAME.
        config: which of the repository's subsets.
        split: which of the subset's splits.
        name: of the JSONL file in the cache.
    """

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
        paper: "berds", "pir" or "perspectivearg"; "support" if it stands beside them.
        kind: "questions", "passages", "both" or "pairs" (of texts, with labels).
        source: web page or repository of its makers.
        licence: as its makers state it.
        size: in words.
        files: what `fetch` downloads.
        hf_repo: data set repository on Hugging Face.
        tables: those of such repositories that `fetch` writes as files, where their rows are all that is needed.
        splits: those it has; () = it is not split.
        local: paths of its files, relative to BERDS_DATA; the first that is there is taken.
        passages: those among `local` that hold passages.
        cached: names of its files and folders in the cache; () = those of `local`.
        shipped: folder that comes with the package and holds it.
        loaders: function of berdslib.data.datasets → the function that does its work for this data set. It is handed
            the card, and where there are splits to choose from, those that are asked for. What loads passages or
            pairs returns where they lie.
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
    files: tuple[RemoteFile, ...] = ()
    hf_repo: str | None = None
    tables: tuple[HubTable, ...] = ()
    splits: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    shipped: str = ""
    loaders: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    dev_starts_at: int = 0
    how: str = ""
    note: str = ""
    make: Callable[..., Any] | None = None

    @property
    def fetchable(self) -> bool:
        """Whether `fetch` has something to download."""
        return bool(self.files or self.hf_repo or self.tables)
