"""A corpus on disk: passages in a memory-mapped Arrow file.

Its folder holds ``passages.arrow`` (docno, text, title) and, to find docnos, ``hashes.npy`` and ``positions.npy``.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
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
from berdslib.files import StrPath, atomic_path, left_unfinished
from berdslib.progress import bar

_FORMAT = "2"  # incremented when the layout of the folder changes
_ROWS = 4096  # of each record batch but the last, so that a position tells the batch of a passage
_KEPT = 4096  # number of batches whose columns stay open
_PASSAGES = "passages.arrow"
_HASHES = "hashes.npy"  # of the docnos, sorted
_POSITIONS = "positions.npy"  # of the passages, in the order of the hashes
_CUTS = ("none", "words")
DUPLICATES = ("keep", "exact")


class RepeatedDocnoError(InputError):
    """Two passages have one docno."""

    def __init__(self, docno: str, first: int, second: int) -> None:
        super().__init__(f"docno {docno!r} occurs twice (passages {first} and {second}); each must be unique")
        self.docno = docno


# ---------------------------------------------------------------- reading


class Corpus(Sequence[Passage]):
    """The passages of a folder that :func:`write_corpus` made, as a sequence in the order in which they were written.

    ``cut`` says how documents became these passages: "words", or "none" if they were not cut or this is unknown.
    """

    def __init__(self, path: StrPath) -> None:
        import pyarrow as pa

        self.path = Path(path)
        reader: Any = _opened(self.path / _PASSAGES, lambda file: pa.ipc.open_file(pa.memory_map(file)))
        about = reader.schema.metadata or {}
        if about.get(b"berdslib") != _FORMAT.encode():
            raise InputError(f"is not a corpus of format {_FORMAT}; write it again", path=self.path / _PASSAGES)
        self.cut = about[b"cut"].decode()
        self._reader = reader
        # The columns of a batch are pointers into the mapped file.
        self._columns = lru_cache(_KEPT)(lambda batch: reader.get_batch(batch).columns)
        self._hashes = _mapped(self.path / _HASHES)
        self._positions = _mapped(self.path / _POSITIONS)
        rows = self._count_rows()
        for file, numbers in ((_HASHES, self._hashes), (_POSITIONS, self._positions)):
            if numbers.shape != (rows,):
                problem = f"does not fit the {rows:,} passages of {_PASSAGES}; write the corpus again"
                raise InputError(problem, path=self.path / file)

    def _count_rows(self) -> int:
        last = self._reader.num_record_batches - 1
        return last * _ROWS + self._reader.get_batch(last).num_rows if last >= 0 else 0

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = range(len(self))[index]  # handles negative indices, and raises IndexError
        columns = self._columns(position // _ROWS)
        return Passage(*(column[position % _ROWS].as_py() for column in columns))

    def __iter__(self) -> Iterator[Passage]:
        for batch in range(self._reader.num_record_batches):
            columns = self._columns(batch)
            yield from map(Passage, *(column.to_pylist() for column in columns))

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus, (self.path,)  # another process maps the same file

    def __repr__(self) -> str:
        return f"Corpus({str(self.path)!r}, {len(self):,} passages)"

    @property
    def by_docno(self) -> Mapping[str, Passage]:
        """The passages as a mapping from docno, which reads them on demand."""
        return _ByDocno(self)

    def docnos(self) -> Iterator[str]:
        """Yield the docnos in order, without reading texts."""
        for batch in range(self._reader.num_record_batches):
            yield from self._columns(batch)[0].to_pylist()

    def position(self, docno: str) -> int | None:
        """Return the position of the passage with this docno, or None."""
        key = _hash(docno)
        place = int(np.searchsorted(self._hashes, key))
        while place < len(self) and self._hashes[place] == key:  # docnos with equal hashes are adjacent
            position = int(self._positions[place])
            if self[position].docno == docno:
                return position
            place += 1
        return None


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


def _opened(file: Path, read: Callable[[str], Any]) -> Any:
    """Return an opened file of a corpus."""
    try:
        return read(str(file))
    except (OSError, ValueError, EOFError) as error:
        reason = str(error).partition("\n")[0]
        problem = f"cannot be opened ({reason}); delete its folder, and write the corpus again"
        raise InputError(problem, path=file) from None


def _mapped(file: Path) -> np.ndarray:
    numbers: np.ndarray = _opened(file, lambda name: np.load(name, mmap_mode="r"))
    return numbers


def _hash(docno: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(docno.encode(), digest_size=8).digest(), "little"))


def by_docno(passages: Sequence[Passage]) -> Mapping[str, Passage]:
    """Return docno → passage; a corpus on disk is read on demand."""
    return passages.by_docno if isinstance(passages, Corpus) else {p.docno: p for p in passages}


def is_corpus(path: StrPath) -> bool:
    """Return whether this is a folder written by :func:`write_corpus`."""
    return (Path(path) / _PASSAGES).is_file()


# ---------------------------------------------------------------- writing


def write_corpus(passages: Iterable[Passage], path: StrPath, cut: str = "none") -> Corpus:
    """Write a stream of passages as a corpus on disk, atomically, and open it.

    An existing corpus is replaced, unless its folder holds other files. Memory holds 4,096 passages, and about 32 bytes
    for each written passage.
    """
    known("cut", cut, _CUTS)
    path = Path(path)
    with atomic_path(path, marker=_PASSAGES) as folder:
        folder.mkdir()
        hashes = _write_passages(passages, folder / _PASSAGES, cut)
        if not len(hashes):
            raise InputError("there are no passages to write")
        order: Any = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        np.save(folder / _HASHES, hashes)
        np.save(folder / _POSITIONS, order)
        if (hashes[1:] == hashes[:-1]).any():  # opened only then: Windows cannot rename an open file
            _check_distinct(Corpus(folder))
    return Corpus(path)


def _write_passages(passages: Iterable[Passage], file: Path, cut: str) -> np.ndarray:
    """Write the Arrow file, and return the hashes of docnos, uint64 (n,)."""
    import pyarrow as pa

    # Texts with 64-bit offsets: a batch of whole web pages can be larger than 2 GiB.
    fields = [("docno", pa.large_string()), ("text", pa.large_string()), ("title", pa.large_string())]
    schema = pa.schema(fields, metadata={"berdslib": _FORMAT, "cut": cut})
    stream = iter(bar(passages, desc="writing passages", unit="passage"))
    hashes = [np.empty(0, dtype=np.uint64)]
    with pa.OSFile(str(file), "wb") as target, pa.ipc.new_file(target, schema) as writer:
        while True:
            chunk = list(islice(stream, _ROWS))
            if not chunk:
                break
            columns = [list(values) for values in zip(*(passage[:3] for passage in chunk), strict=True)]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            hashes.append(np.array([_hash(passage.docno) for passage in chunk], dtype=np.uint64))
    return np.concatenate(hashes)


def _check_distinct(corpus: Corpus) -> None:
    """Raise RepeatedDocnoError for a repeated docno; different docnos may share a hash."""
    hashes = corpus._hashes
    for place in np.flatnonzero(hashes[1:] == hashes[:-1]):
        second = int(corpus._positions[place + 1])
        docno = corpus[second].docno
        first = corpus.position(docno)
        if first is not None and first < second:
            raise RepeatedDocnoError(docno, first, second)


# ---------------------------------------------------------------- cutting, dropping repeats and writing


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
    columns: Mapping[str, str] | None = None,
) -> Written:
    """Write the passages of a file, BEIR folder, corpus on disk or list as a corpus, optionally cut and deduplicated.

    `cut` "words" cuts rows into passages of `words` words; `duplicates` "exact" drops equal texts; `limit` is the
    number of rows to read, 0 for all; `columns` is for a file, see :func:`berdslib.data.formats.iter_passages`.
    """
    known("treatment of duplicates", duplicates, DUPLICATES)
    passages, is_cut = cut_rows(source, cut, words, limit, columns)
    dropped: list[str] = []
    if duplicates == "exact":
        passages = without_duplicates(passages, dropped)
    try:
        written = write_corpus(passages, target, is_cut)
    except RepeatedDocnoError as error:
        if not isinstance(source, Path):
            raise
        raise _with_lines(error, source, cut, columns) from None
    size = sum(path.stat().st_size for path in target.iterdir())
    return Written(len(written), len(dropped), size)


def cut_rows(
    source: Path | Sequence[Passage],
    cut: str = "none",
    words: int = WORDS,
    limit: int = 0,
    columns: Mapping[str, str] | None = None,
) -> tuple[Iterable[Passage], str]:
    """Return the passages of the first rows (0: all) of a source, and how they are cut."""
    known("cut", cut, _CUTS)
    opened: Iterable[Passage]
    if not isinstance(source, Path):
        opened = source
    elif is_corpus(source):
        opened = Corpus(source)
    else:
        opened = iter_passages(source, columns)
    rows = islice(opened, limit or None)
    was_cut = opened.cut if isinstance(opened, Corpus) else "none"
    if cut == "none":
        return rows, was_cut
    if was_cut != "none":  # the end of a document is unknown in cut passages
        path = source if isinstance(source, Path) else None
        raise InputError(f"was cut before, by {was_cut}; cut its documents", path=path, field="cut")
    return cut_documents(rows, words), cut


def _with_lines(error: RepeatedDocnoError, source: Path, cut: str, columns: Mapping[str, str] | None) -> InputError:
    """Return the error with the two lines of the source that share a docno; in a cut source, a document's docno."""
    path = passage_table(source)
    if not path.is_file():
        return error  # a pipe, which cannot be read again
    wanted = error.docno if cut == "none" else error.docno.rpartition("-")[0]
    first, second, *_ = (line for line, passage in numbered_passages(path, columns) if passage.docno == wanted)
    return repeated(f"docno {wanted!r}", first, path, second, "docno")


def open_corpus(path: StrPath, cut: str = "none") -> Corpus:
    """Open a file or BEIR folder of passages as a corpus on disk, built in the user cache the first time.

    A corpus on disk is opened in its place. The cache holds one corpus for each size and modification time of the file,
    and each `cut` (see :func:`make_corpus`); delete the cache's folder ``corpora`` to remove old ones.
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
            for unfinished in left_unfinished(target):
                shutil.rmtree(unfinished)
            if not target.exists():  # else another process made it while this one waited
                with errors_in(source):
                    make_corpus(Path(path), target, cut=cut)
    return Corpus(target)


def _cache_name(source: Path, cut: str) -> str:
    """Return a name that depends on the file's size and modification time; its content is too large to hash."""
    state = source.stat()
    key = (_FORMAT, str(source), state.st_size, state.st_mtime_ns, cut, WORDS)
    digest = hashlib.sha256(repr(key).encode()).hexdigest()
    return f"{source.name.partition('.')[0][:40]}-{digest[:16]}"
