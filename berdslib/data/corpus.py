"""A corpus on disk: passages in an Arrow file that is mapped into memory, never loaded.

Its folder holds ``passages.arrow`` (docno, text, title); to find a docno, ``hashes.npy`` and ``positions.npy``; and
checksums, ``sums.npy`` of each passage and ``blocks.npy`` of whole columns.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from berdslib import paths
from berdslib.data.formats import iter_passages, numbered_passages, passage_table
from berdslib.data.passages import WORDS, cut_documents, without_duplicates
from berdslib.data.records import Passage
from berdslib.data.tables import repeated
from berdslib.errors import InputError, errors_in, known
from berdslib.files import StrPath, atomic_path, left_unfinished, store_errors
from berdslib.progress import bar

_FORMAT = "2"  # raised whenever what is written changes
_ROWS = 4096  # of a record batch, all of them but the last: so a position says where a passage lies
_PASSAGES, _SIDE_FILES = "passages.arrow", ("hashes.npy", "positions.npy", "sums.npy", "blocks.npy")
_CUTS = ("none", "words")
DUPLICATES = ("keep", "exact")
_SURROGATE = re.compile("[\ud800-\udfff]")


class RepeatedDocnoError(InputError):
    """Two passages have one docno."""

    def __init__(self, docno: str, first: int, second: int) -> None:
        super().__init__(f"docno {docno!r} occurs twice (passages {first} and {second}); each must be unique")
        self.docno = docno


# ---------------------------------------------------------------- reading


class Corpus(Sequence[Passage]):
    """The passages of a folder that :func:`write_corpus` made, as a sequence in the order in which they were written.

    ``cut`` says how documents became these passages: "words", or "none" where they did not, or nobody knows.
    """

    def __init__(self, path: StrPath) -> None:
        import pyarrow as pa

        self.path = Path(path)
        with _damage_told(self.path, "holds no complete corpus"):
            self._reader = pa.ipc.open_file(pa.memory_map(str(self.path / _PASSAGES)))
            about = {name: value.decode() for name, value in (self._reader.schema.metadata or {}).items()}
            if (written := about.get(b"berdslib", "none")) != _FORMAT:
                raise ValueError(f"it is of format {written}, and {_FORMAT} is needed; write it again")
            self.cut = about[b"cut"]
            files = (np.load(self.path / name, mmap_mode="r") for name in _SIDE_FILES)
            # Sums: of each passage. Blocks: of the columns of each batch, and last of hashes and positions.
            self._hashes, self._positions, self._sums, self._blocks = files
        self._bytes = cache(partial(_bytes_of, self._reader))  # refers to the mapped file, and holds a few pointers
        self._checked = set[tuple[int, int]]()
        with _damage_told(self.path):
            fits = self._fits()
        if not fits:
            problem = "holds files of two corpora (hashes.npy and positions.npy do not fit passages.arrow)"
            raise InputError(f"{problem}; write it again", path=path)

    def _fits(self) -> bool:
        """Say whether the side files are as long as the table, and name the right passages at their two ends."""
        batches = self._reader.num_record_batches
        n = (batches - 1) * _ROWS + self._reader.get_batch(batches - 1).num_rows if batches else 0
        shapes = [one.shape for one in (self._hashes, self._positions, self._sums, self._blocks)]
        if shapes != [(n,), (n,), (n,), (batches + 1, 3)]:
            return False
        ends = [(self._hashes[i], int(self._positions[i])) for i in (0, -1)] if n else []
        return all(0 <= position < n and _hash(self._parts(position)[0]) == key for key, position in ends)

    def _parts(self, position: int) -> list[bytes]:
        """Return docno, text and title as they lie in the file; a slice ends where the file does, whatever is asked."""
        batch, row = divmod(position, _ROWS)
        return [bytes(data[ends[row] : ends[row + 1]]) for ends, data in self._bytes(batch)]

    def _column(self, batch: int, column: int) -> list[str]:
        """Return the docnos (0), texts (1) or titles (2) of a batch; the first time it is checked."""
        with _damage_told(self.path):
            found = self._reader.get_batch(batch).column(column)
            if (batch, column) not in self._checked:
                found.validate(full=True)
                if _sum_of(found) != self._blocks[batch, column]:
                    raise ValueError(f"passages from {batch * _ROWS} do not fit their checksum")
                self._checked.add((batch, column))
            return list(found.to_pylist())

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = range(len(self))[index]  # knows negative indices, and which are too large
        with _damage_told(self.path):
            parts = self._parts(position)
            if zlib.crc32(b"\0".join(parts)) != self._sums[position]:
                raise ValueError(f"passage {position} does not fit its checksum")
            return Passage(*(part.decode() for part in parts))

    def __iter__(self) -> Iterator[Passage]:
        for i in range(self._reader.num_record_batches):
            yield from map(Passage._make, zip(*(self._column(i, column) for column in range(3)), strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus, (self.path,)  # another process maps the same file

    def __repr__(self) -> str:
        return f"Corpus({str(self.path)!r}, {len(self):,} passages)"

    @property
    def by_docno(self) -> Mapping[str, Passage]:
        """The same passages as a mapping from docno, without any of them in memory."""
        return _ByDocno(self)

    def docnos(self) -> Iterator[str]:
        """Yield the docnos in order, without reading texts."""
        for i in range(self._reader.num_record_batches):
            yield from self._column(i, 0)

    def position(self, docno: str) -> int | None:
        """Return where the passage of this name is, or None."""
        coded = docno.encode("utf-8", "surrogatepass")
        key = _hash(coded)
        with _damage_told(self.path):
            for place in range(int(np.searchsorted(self._hashes, key)), len(self)):
                if self._hashes[place] != key:
                    break
                position = int(self._positions[place])
                if self._parts(position)[0] == coded:
                    return position
            if not self._found_whole:
                raise ValueError("hashes.npy and positions.npy do not fit their checksums")
        return None

    @cached_property
    def _found_whole(self) -> bool:
        """Whether the files by which a docno is found are whole, as one that is not found has to know."""
        return bool([zlib.crc32(self._hashes), zlib.crc32(self._positions)] == self._blocks[-1, :2].tolist())


class _ByDocno(Mapping[str, Passage]):
    """A corpus as a mapping: docno → passage."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __getitem__(self, docno: str) -> Passage:
        position = self._corpus.position(docno) if isinstance(docno, str) else None
        if position is None:
            raise KeyError(docno)
        found: Passage = self._corpus[position]
        return found

    def __iter__(self) -> Iterator[str]:
        return self._corpus.docnos()

    def __len__(self) -> int:
        return len(self._corpus)


@contextmanager
def _damage_told(
    path: Path, problem: str = "is damaged; delete this folder, and have it written again"
) -> Iterator[None]:
    """Say of whatever comes of bytes that are not as they were written that the corpus is damaged."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a damaged file raises errors of every kind
        raise InputError(f"{problem}: {str(error).partition(chr(10))[0] or type(error).__name__}", path=path) from None


def _hash(docno: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(docno, digest_size=8).digest(), "little"))


def _bytes_of(reader: Any, batch: int) -> list[tuple[np.ndarray, memoryview]]:
    """Return where the rows of each column of a batch end, and their bytes; nothing of either is looked at."""
    buffers = (column.buffers() for column in reader.get_batch(batch).columns)
    return [(np.frombuffer(ends, np.int64), memoryview(data or b"")) for _, ends, data in buffers]


def _sum_of(column: Any) -> int:
    """Return the checksum of a column's texts and of where they end."""
    _, ends, data = column.buffers()
    at: Any = np.frombuffer(ends, np.int64, len(column) + 1)
    return zlib.crc32(memoryview(data or b"")[at[0] : at[-1]], zlib.crc32(at))


# ---------------------------------------------------------------- writing


def by_docno(passages: Sequence[Passage]) -> Mapping[str, Passage]:
    """Return docno → passage; of a corpus on disk nothing is read until it is asked for."""
    return passages.by_docno if isinstance(passages, Corpus) else {p.docno: p for p in passages}


def is_corpus(path: StrPath) -> bool:
    """Return whether this is a folder written by :func:`write_corpus`."""
    return (Path(path) / _PASSAGES).is_file()


def write_corpus(passages: Iterable[Passage], path: StrPath, cut: str = "none") -> Corpus:
    """Write a stream of passages as a corpus on disk, which appears under its name only when complete, and open it.

    A corpus there is replaced, unless its folder holds other files too. What a writer that was killed has left beside
    `path` goes. In memory are 4,096 passages, and about 36 bytes for each that is written.
    """
    from filelock import FileLock

    known("cut", cut, _CUTS)
    path = Path(path)
    there = Path(os.path.realpath(path))
    with store_errors(there, "the place of a corpus"):
        there.parent.mkdir(parents=True, exist_ok=True)
        turn = FileLock(there.with_name(f".lock-{there.name[:200]}")).acquire()
    with turn, atomic_path(path, marker=_PASSAGES) as folder:
        for left in left_unfinished(there, _PASSAGES):
            shutil.rmtree(left)  # of a process that was killed: a living one would hold the lock
        folder.mkdir()
        hashes, sums, blocks = _write_passages(passages, folder / _PASSAGES, cut)
        if not len(hashes):
            raise InputError("there are no passages to write")
        order: Any = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        blocks.append([zlib.crc32(hashes), zlib.crc32(order), 0])
        for name, numbers in zip(_SIDE_FILES, (hashes, order, sums, np.array(blocks, np.uint32)), strict=True):
            np.save(folder / name, numbers)
        if (hashes[1:] == hashes[:-1]).any():  # not opened else: Windows renames nothing that is open
            _check_distinct(Corpus(folder))
    return Corpus(path)


def _write_passages(
    passages: Iterable[Passage], path: Path, cut: str
) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Write the Arrow file, and return hashes of docnos, uint64 (n,), and checksums: of passages, of their columns."""
    import pyarrow as pa

    # Texts with 64-bit offsets: a batch of whole web pages can be larger than 2 GiB.
    fields = [("docno", pa.large_string()), ("text", pa.large_string()), ("title", pa.large_string())]
    schema = pa.schema(fields, metadata={"berdslib": _FORMAT, "cut": cut})
    stream = iter(bar(passages, desc="writing passages", unit="passage"))
    hashes, sums, blocks = [np.empty(0, dtype=np.uint64)], [np.empty(0, dtype=np.uint32)], list[list[int]]()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        while chunk := list(islice(stream, _ROWS)):
            try:
                columns = [pa.array(values, pa.large_string()) for values in zip(*chunk, strict=True)]
            except UnicodeEncodeError:
                bad = next(p.docno for p in chunk if _SURROGATE.search(" ".join(p)))
                raise InputError(f"passage {bad!r} holds half of a surrogate pair (\\ud…)") from None
            writer.write_batch(pa.record_batch(columns, schema=schema))
            coded = [[part.encode() for part in passage] for passage in chunk]
            hashes.append(np.array([_hash(docno) for docno, *_ in coded], dtype=np.uint64))
            sums.append(np.array([zlib.crc32(b"\0".join(parts)) for parts in coded], dtype=np.uint32))
            blocks.append([_sum_of(column) for column in columns])
    return np.concatenate(hashes), np.concatenate(sums), blocks


def _check_distinct(corpus: Corpus) -> None:
    hashes, positions = corpus._hashes, corpus._positions
    for place in np.flatnonzero(hashes[1:] == hashes[:-1]):
        # Rare: two names with one hash are told apart, and `position` returns the first of two equal ones.
        second = int(positions[place + 1])
        first = corpus.position(corpus[second].docno)
        if first is not None and first < second:
            raise RepeatedDocnoError(corpus[second].docno, first, second)


# ---------------------------------------------------------------- from a file: cut, drop repeats, write


class Written(NamedTuple):
    """A corpus that was written: ``passages`` in it, ``repeats`` of their texts dropped, ``bytes`` on disk."""

    passages: int
    repeats: int
    bytes: int


def make_corpus(
    source: Path | Sequence[Passage],
    target: Path,
    *,
    cut: str = "none",
    words: int = WORDS,
    duplicates: str = "keep",
    limit: int = 0,
) -> Written:
    """Write the passages of a file, BEIR folder, corpus on disk or list as a corpus, cut and without repeats.

    `cut` "words" cuts rows into passages of so many `words`; `duplicates` "exact" drops equal texts; `limit` takes the
    first so many rows, 0 all.
    """
    known("treatment of duplicates", duplicates, DUPLICATES)
    passages, is_cut = cut_rows(source, cut, words, limit)
    dropped: list[str] = []
    if duplicates == "exact":
        passages = without_duplicates(passages, dropped)
    try:
        written = write_corpus(passages, target, is_cut)
    except RepeatedDocnoError as error:
        raise (_with_lines(error, source, cut) if isinstance(source, Path) else error) from None
    size = sum(path.stat().st_size for path in target.iterdir())
    return Written(len(written), len(dropped), size)


def cut_rows(
    source: Path | Sequence[Passage], cut: str = "none", words: int = WORDS, limit: int = 0
) -> tuple[Iterable[Passage], str]:
    """Return the passages of the first rows (0: all) of a source, and how they are cut."""
    known("cut", cut, _CUTS)
    opened: Iterable[Passage] = source if not isinstance(source, Path) else iter_passages(source)
    if isinstance(source, Path) and is_corpus(source):
        opened = Corpus(source)
    rows, was_cut = islice(opened, limit or None), opened.cut if isinstance(opened, Corpus) else "none"
    if cut == "none":
        return rows, was_cut
    if was_cut != "none":  # its documents could not be told from its first pieces
        path = source if isinstance(source, Path) else None
        raise InputError(f"was cut before, by {was_cut}; cut its documents", path=path, field="cut")
    return cut_documents(rows, words), cut


def _with_lines(error: RepeatedDocnoError, source: Path, cut: str) -> InputError:
    """Return the error that says which two lines of the source share a docno; where it was cut, that of a document."""
    path = passage_table(source)
    if not path.is_file():
        return error  # a pipe, which cannot be read again
    wanted = error.docno if cut == "none" else error.docno.rpartition("-")[0]
    first, second, *_ = (line for line, passage in numbered_passages(path) if passage.docno == wanted)
    return repeated(f"docno {wanted!r}", first, path, second, "docno")


def open_corpus(path: StrPath, cut: str = "none") -> Corpus:
    """Open a file or BEIR folder of passages as a corpus on disk, built in the user cache the first time.

    A corpus on disk is opened where it lies. One in the cache is made anew when the file's size or time of change, or
    `cut` (see :func:`make_corpus`), is another; old ones stay until the cache's folder ``corpora`` is emptied.
    """
    from filelock import FileLock

    known("cut", cut, _CUTS)
    if is_corpus(path) and cut == "none":
        return Corpus(path)
    source = Path(path) / _PASSAGES if is_corpus(path) else passage_table(path)
    if not source.is_file():
        raise InputError("no such file", path=source)
    target = paths.cache_dir() / "corpora" / _cache_name(source.resolve(), cut)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f"{target.name}.lock")):
            if not target.exists():  # else another process made it while this one waited
                with errors_in(source):
                    make_corpus(Path(path), target, cut=cut)
    return Corpus(target)


def _cache_name(source: Path, cut: str) -> str:
    """Return a name that changes with the file, by its size and time, as its content is too large to be read."""
    state = source.stat()
    # The last three were settings once.
    key = (_FORMAT, str(source), state.st_size, state.st_mtime_ns, cut, None if cut == "none" else WORDS, "keep", None)
    return f"{source.name.partition('.')[0][:40]}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}"
