"""The shared task PerspectiveArg 2024 (Falk, Waldis and Gurevych): arguments of known authors, and queries.

Profiles are special-category personal data. Nothing here prints a profile: records hide it in their repr, and messages
name the wrong field, not its content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from berdslib.data.tables import Row, is_missing, read_json, read_jsonl, read_table
from berdslib.errors import InputError, errors_in, known
from berdslib.files import StrPath, read_lines

ISSUES = "political_issues"
# The author's eight properties; the last is a list, the others are single values.
PROPERTIES = (
    *("gender", "age", "residence", "education", "civil_status", "denomination", "political_attitude"), ISSUES,
)  # fmt: skip
SPLITS = ("train", "dev", "test")
AUTHOR = "author"
READER = "reader"
CORPUS = "corpus.jsonl"
MANIFEST = "release.json"
_MANIFEST_KEYS = ("name", "synthetic", "ranked_for", "seed")

# Names of a field in the two releases, the name of the task's description first.
_ASKED = ("demographic_properties", "demographic_property")
RELEVANT = "relevant_candidates"
_KINDS = ("baseline", "perspective")
_ALIASES = {"political_spectrum": "political_attitude", "important_political_issues": ISSUES, "issues": ISSUES}

# property → values, without unknown properties.
Profile = Mapping[str, tuple[str, ...]]
NOBODY: Profile = MappingProxyType({})


class Argument(NamedTuple):
    """One argument: ``docno``, ``text``, ``issue`` (the question it answers), ``stance``, its author's ``profile``."""

    docno: str
    text: str
    issue: str = ""
    stance: str = ""
    profile: Profile = NOBODY

    def __repr__(self) -> str:
        """Show the argument without its author."""
        return f"Argument({self.docno!r}, {self.text!r})"


class ArgumentQuery(NamedTuple):
    """A query; ``asked`` is empty in the baseline, ``relevant`` (docnos) None if the answers are withheld."""

    qid: str
    text: str
    split: str
    asked: Profile = NOBODY
    relevant: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Arguments and queries as the organisers hold them; a scenario is the part that a system may see.

    Perspective queries also name a property, of the "author" or, in the third test set, the "reader" (``ranked_for``).
    ``synthetic`` marks releases made by scripts/synthetic_release.py; ``number_ids`` says whether the ids of arguments
    and of queries are numbers in the files.
    """

    name: str
    arguments: tuple[Argument, ...]
    baseline: tuple[ArgumentQuery, ...] = ()
    perspective: tuple[ArgumentQuery, ...] = ()
    ranked_for: str = AUTHOR
    synthetic: bool = False
    number_ids: tuple[bool, bool] = (False, False)

    def __repr__(self) -> str:
        """Give the sizes, and whether the release is synthetic."""
        counts = f"{len(self.arguments):,} arguments, {len(self.baseline):,} baseline and "
        counts += f"{len(self.perspective):,} perspective queries"
        for_readers = ", ranked for the reader's properties" if self.ranked_for == READER else ""
        return f"Release {self.name!r}{' (SYNTHETIC)' if self.synthetic else ''}: {counts}{for_readers}"


def in_words(asked: Profile) -> str:
    """Return properties as a person would write them.

    >>> in_words({"political_attitude": ("left",), "age": ("18-34",)})
    'political attitude: left; age: 18-34'
    """
    return "; ".join(f"{name.replace('_', ' ')}: {', '.join(values)}" for name, values in asked.items())


# ---------------------------------------------------------------- reading


def is_release(path: StrPath) -> bool:
    """Return whether a folder looks like a release."""
    folder = Path(path)
    return _plain_or_gz(folder / CORPUS).is_file() and any((folder / f"{kind}-queries").is_dir() for kind in _KINDS)


def _plain_or_gz(path: Path) -> Path:
    zipped = path.with_name(f"{path.name}.gz")
    return zipped if zipped.is_file() and not path.is_file() else path


def read_release(folder: StrPath, name: str | None = None, *, problems: list[InputError] | None = None) -> Release:
    """Read a release's folder, with either of the published sets of field names; files may be compressed (.gz).

    A file ``release.json`` beside the corpus may set ``ranked_for`` and ``synthetic``. `problems` collects the first
    problem of each file of queries, which is then left out; without `problems`, it is raised.
    """
    folder = Path(folder)
    about = read_manifest(folder / MANIFEST)
    arguments, numbers = _read_corpus(_plain_or_gz(folder / CORPUS))
    docnos = {argument.docno for argument in arguments}
    found: dict[str, list[ArgumentQuery]] = {kind: [] for kind in _KINDS}
    query_numbers = True
    for kind in _KINDS:
        place = folder / f"{kind}-queries"
        with _collected(problems):
            _check_files(place)
        for split in SPLITS:
            path = _plain_or_gz(place / f"queries_{split}.jsonl")
            with _collected(problems):
                if path.is_file():
                    queries, are_numbers = _read_queries(path, split, docnos, kind)
                    found[kind] += queries
                    query_numbers &= are_numbers
    with _collected(problems):
        _check_splits(found, folder)
    if not any(found.values()) and not problems:
        tried = ", ".join(f"{kind}-queries/queries_{{{','.join(SPLITS)}}}.jsonl" for kind in _KINDS)
        raise InputError(f"holds no queries; looked for {tried}", path=folder)
    return Release(
        name or str(about.get("name", folder.resolve().name)),
        tuple(arguments),
        tuple(found["baseline"]),
        tuple(found["perspective"]),
        ranked_for=about.get("ranked_for", AUTHOR),
        synthetic=about.get("synthetic", False),
        number_ids=(numbers, query_numbers),
    )


def _check_splits(found: Mapping[str, list[ArgumentQuery]], folder: Path) -> None:
    """Refuse ids and issues of two splits: predictions name queries by id, and systems learn about issues."""
    split_of_issue: dict[str, str] = {}
    for kind, queries in found.items():
        place = folder / f"{kind}-queries"
        split_of: dict[str, str] = {}
        for query in queries:
            other = split_of.setdefault(query.qid, query.split)
            if other != query.split:
                problem = f"{query.qid!r} is a query of {other} and of {query.split}"
                raise InputError(problem, path=place, field="query_id")
            other = split_of_issue.setdefault(query.text, query.split)
            if other != query.split:
                problem = f"the issue of query {query.qid!r} ({query.split}) is also in {other}"
                raise InputError(f"{problem}; the splits of a release share no issue", path=place, field="text")


@contextmanager
def _collected(problems: list[InputError] | None) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        if problems is None:
            raise
        problems.append(error)


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a release; {} if the file does not exist."""
    if not path.is_file():
        return {}
    about = read_json(path)
    if not isinstance(about, dict):
        raise InputError(f"an object was expected, not {type(about).__name__}", path=path)
    with errors_in(path):
        for key in about:
            known("key", key, _MANIFEST_KEYS)
    if about.get("ranked_for", AUTHOR) not in (AUTHOR, READER):
        raise InputError(f"{AUTHOR!r} or {READER!r} was expected", path=path, field="ranked_for")
    if not isinstance(about.get("synthetic", False), bool):
        raise InputError("true or false was expected", path=path, field="synthetic")
    return about


def _check_files(folder: Path) -> None:
    """Refuse files of queries with an unknown split, which would not be read."""
    expected = [f"queries_{split}.jsonl" for split in SPLITS]
    for path in sorted(folder.glob("queries_*.jsonl*")):
        if path.name.removesuffix(".gz") not in expected:
            raise InputError(f"unknown file of queries; known: {', '.join(expected)}", path=path)


def _read_corpus(path: Path) -> tuple[list[Argument], bool]:
    """Return the arguments, and whether all their ids are numbers."""
    rows = _rows(path)
    arguments = []
    seen: dict[Any, int] = {}
    for row in rows:
        docno = row.text("argument_id")
        row.check_new(seen, docno, f"argument {docno!r}", "argument_id")
        argument = Argument(
            docno,
            text=row.text("text", "argument"),
            issue=row.text("target", "topic"),
            stance=row.text("stance", default=""),
            profile=_profile(row, "demographic_profile"),
        )
        arguments.append(argument)
    if not arguments:
        raise InputError("holds no arguments", path=path)
    return arguments, all(isinstance(row["argument_id"], int) for row in rows)


def _read_queries(path: Path, split: str, docnos: set[str], kind: str) -> tuple[list[ArgumentQuery], bool]:
    """Return the queries, with a property if `kind` is "perspective", and whether all their ids are numbers."""
    rows = _rows(path)
    queries = []
    seen: dict[Any, int] = {}
    for row in rows:
        qid = row.text("query_id")
        row.check_new(seen, qid, f"query {qid!r}", "query_id")
        field = next((name for name in _ASKED if not is_missing(row.get(name))), None)
        if kind == "baseline" and field is not None:
            raise row.wrong(field, "a baseline query names no property")
        asked = NOBODY if kind == "baseline" else _profile(row, *_ASKED)
        if kind == "perspective" and not asked:
            raise row.wrong(field, "names no property")
        relevant = None if is_missing(row.get(RELEVANT)) else listed_docnos(row, docnos)
        queries.append(ArgumentQuery(qid, row.text("text", "argument"), split, asked, relevant))
    if not queries:
        raise InputError("holds no queries", path=path)
    return queries, all(isinstance(row["query_id"], int) for row in rows)


# ---------------------------------------------------------------- rows and fields


def _rows(path: Path) -> list[Row]:
    """Return the objects of a JSONL file or of one JSON list, whose objects are counted like lines."""
    first = next((text.lstrip()[:1] for _, text in read_lines(path) if text.strip()), "")
    read = read_table if first == "[" else read_jsonl
    return [row for _, row in read(path)]


def property_name(name: str) -> str:
    """Return the name used here for a property of either release.

    >>> property_name("Civil Status"), property_name("important_political_issues")
    ('civil_status', 'political_issues')
    """
    return known("property", _common_name(name), PROPERTIES)


def _common_name(name: str) -> str:
    plain = "_".join(name.strip().lower().replace("-", " ").replace("_", " ").split())
    return _ALIASES.get(plain, plain)


def listed_docnos(row: Row, known_docnos: Container[str], *, once: bool = False) -> tuple[str, ...]:
    """Return a row's list of argument ids; a repeated id is an error, or counts at its first place if `once`."""
    counts = Counter(row.ids(RELEVANT))
    if not counts:
        raise row.wrong(RELEVANT, "is empty")
    for docno in counts:
        if docno not in known_docnos:
            raise row.wrong(RELEVANT, f"{docno!r} is not in the corpus")
    for docno, count in counts.items():
        if count > 1 and not once:
            raise row.wrong(RELEVANT, f"{docno!r} is listed twice")
    return tuple(counts)


def _profile(row: Row, *names: str) -> Profile:
    """Return the properties in the first of some fields, without unknown (empty) ones."""
    name, value = row.first(*names)
    if not isinstance(value, dict):
        raise row.wrong(name, f"an object was expected, not {type(value).__name__}")
    found: dict[str, tuple[str, ...]] = {}
    for given, content in value.items():
        own = _common_name(given)
        if own not in PROPERTIES:
            raise row.wrong(name, f"a key is not a property; known: {', '.join(sorted(PROPERTIES))}")
        if own in found:
            raise row.wrong(name, f"{own} is there twice")
        if is_missing(content) or content in ("", []):
            continue
        listed = content if own == ISSUES and isinstance(content, list) else [content]
        if not all(isinstance(text, str) and text.strip() for text in listed):
            expected = "a list of non-blank texts" if own == ISSUES else "text"
            raise row.wrong(f"{name}.{given}", f"{expected} was expected, not {type(content).__name__}")
        found[own] = tuple(dict.fromkeys(text.strip() for text in listed))
    return MappingProxyType(found)


# ---------------------------------------------------------------- sizes


def summarise(release: Release) -> dict[str, Any]:
    """Return the sizes of a release; "unknown" is property → number of arguments without it.

    "contradictions" counts relevant pairs (perspective query, answer), pairs whose author is known to lack the
    requested property, and queries with such a pair; it is None for a release ranked for the reader, to whom any
    author's argument may be relevant.
    """
    queries = []
    for kind, found in zip(_KINDS, (release.baseline, release.perspective), strict=True):
        for split in dict.fromkeys(q.split for q in found):
            answered = [q.relevant is not None for q in found if q.split == split]
            queries.append({"kind": kind, "split": split, "queries": len(answered), "with_answers": sum(answered)})
    profile_of = {argument.docno: argument.profile for argument in release.arguments}
    contradictions = []
    for query in release.perspective:
        profiles = [profile_of[docno] for docno in query.relevant or ()]
        contradictions.append([_contradicts(profile, query.asked) for profile in profiles])
    counts = {
        "relevant": sum(map(len, contradictions)),
        "contradicting": sum(map(sum, contradictions)),
        "queries": sum(map(any, contradictions)),
    }
    unknown = {name: sum(name not in profile for profile in profile_of.values()) for name in PROPERTIES}
    return {
        "release": release.name,
        "synthetic": release.synthetic,
        "ranked_for": release.ranked_for,
        "arguments": len(release.arguments),
        "issues": len({argument.issue for argument in release.arguments}),
        "queries": queries,
        "unknown": unknown,
        "contradictions": counts if release.ranked_for == AUTHOR else None,
    }


def _contradicts(profile: Profile, asked: Profile) -> bool:
    """Say whether a known property has none of the requested values; unknown values never contradict."""
    return any(name in profile and not set(values) & set(profile[name]) for name, values in asked.items())
