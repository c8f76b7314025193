"""The shared task PerspectiveArg 2024 (Falk, Waldis and Gurevych): arguments of known authors, and queries.

Profiles are special-category personal data. Nothing here prints one: records leave theirs out when they are shown, and
messages name the wrong field, not what an author wrote beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from berdslib.data.tables import Row, is_missing, read_json, read_jsonl
from berdslib.errors import InputError, errors_in, known
from berdslib.files import StrPath, read_lines

ISSUES = "political_issues"
# Eight of the author; the last is a list, all others are single values.
PROPERTIES = (
    *("gender", "age", "residence", "education", "civil_status", "denomination", "political_attitude"), ISSUES,
)  # fmt: skip
SPLITS = ("train", "dev", "test")
AUTHOR, READER = "author", "reader"
CORPUS, MANIFEST = "corpus.jsonl", "release.json"
_MANIFEST_KEYS = ("name", "synthetic", "ranked_for", "seed")

# What the two releases call a field, the name in the task's description first.
_ASKED = ("demographic_properties", "demographic_property")
RELEVANT = "relevant_candidates"
_KINDS = ("baseline", "perspective")
_ALIASES = {"political_spectrum": "political_attitude", "important_political_issues": ISSUES, "issues": ISSUES}

# property → values; a property that is not known is not there.
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
    """A query; ``asked`` is empty in the baseline, ``relevant`` (docnos) None where the answers are kept back."""

    qid: str
    text: str
    split: str
    asked: Profile = NOBODY
    relevant: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Arguments and queries as the organisers hold them; what a system may see of it is a scenario.

    Perspective queries also name a property, of the "author" or, in the third test set, the "reader" (``ranked_for``).
    ``synthetic`` means made by scripts/synthetic_release.py; ``number_ids`` that ids are numbers in the files.
    """

    name: str
    arguments: tuple[Argument, ...]
    baseline: tuple[ArgumentQuery, ...] = ()
    perspective: tuple[ArgumentQuery, ...] = ()
    ranked_for: str = AUTHOR
    synthetic: bool = False
    number_ids: tuple[bool, bool] = (False, False)

    def __repr__(self) -> str:
        """Say how much there is, and whether it is real."""
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
    """Read a release's folder, by either of the published sets of field names; files may be compressed (.gz).

    A file ``release.json`` beside the corpus may set ``ranked_for`` and ``synthetic``. `problems` gets the first
    problem of each file of queries, which is then left out; without it, that is raised.
    """
    folder = Path(folder)
    about = read_manifest(folder / MANIFEST)
    arguments, numbers = _read_corpus(_plain_or_gz(folder / CORPUS))
    docnos = {one.docno for one in arguments}
    found: dict[str, list[ArgumentQuery]] = {kind: [] for kind in _KINDS}
    query_numbers = True
    for kind in _KINDS:
        place = folder / f"{kind}-queries"
        with _collected(problems):
            _check_files(place)
        for split in SPLITS:
            path = _plain_or_gz(place / f"queries_{split}.jsonl")
            with _collected(problems):
                more, are_numbers = _read_queries(path, split, docnos, kind) if path.is_file() else ([], True)
                found[kind] += more
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
    """Refuse ids and issues that two splits share: predictions name queries by id, and systems learn of issues."""
    split_of_issue: dict[str, str] = {}
    for kind, queries in found.items():
        place, split_of = folder / f"{kind}-queries", dict[str, str]()
        for query in queries:
            if (other := split_of.setdefault(query.qid, query.split)) != query.split:
                problem = f"{query.qid!r} is a query of {other} and of {query.split}"
                raise InputError(problem, path=place, field="query_id")
            if (other := split_of_issue.setdefault(query.text, query.split)) != query.split:
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
    """Return what a manifest says of the release beside it; nothing if there is none."""
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
    """Refuse files of queries that would not be read: of a split by another name."""
    expected = [f"queries_{split}.jsonl" for split in SPLITS]
    for path in sorted(folder.glob("queries_*.jsonl*")):
        if path.name.removesuffix(".gz") not in expected:
            raise InputError(f"unknown file of queries; known: {', '.join(expected)}", path=path)


def _read_corpus(path: Path) -> tuple[list[Argument], bool]:
    """Return the arguments, and whether all their ids are numbers."""
    rows, arguments, seen = _rows(path), list[Argument](), dict[Any, int]()
    for row in rows:
        docno = row.text("argument_id")
        row.check_new(seen, docno, f"argument {docno!r}", "argument_id")
        text, issue, stance = row.text("text", "argument"), row.text("target", "topic"), row.text("stance", default="")
        arguments.append(Argument(docno, text, issue, stance, _profile(row, "demographic_profile")))
    if not arguments:
        raise InputError("holds no arguments", path=path)
    return arguments, all(isinstance(row["argument_id"], int) for row in rows)


def _read_queries(path: Path, split: str, docnos: set[str], kind: str) -> tuple[list[ArgumentQuery], bool]:
    """Return the queries, which name a property or not, and whether all their ids are numbers."""
    rows, queries, seen = _rows(path), list[ArgumentQuery](), dict[Any, int]()
    for row in rows:
        qid = row.text("query_id")
        row.check_new(seen, qid, f"query {qid!r}", "query_id")
        given = next((name for name in _ASKED if not is_missing(row.get(name))), None)
        if kind == "baseline" and given is not None:
            raise row.wrong(given, "a baseline query names no property")
        asked = NOBODY if kind == "baseline" else _profile(row, *_ASKED)
        if kind == "perspective" and not asked:
            raise row.wrong(given, "names no property")
        relevant = None if is_missing(row.get(RELEVANT)) else listed_docnos(row, docnos)
        queries.append(ArgumentQuery(qid, row.text("text", "argument"), split, asked, relevant))
    if not queries:
        raise InputError("holds no queries", path=path)
    return queries, all(isinstance(row["query_id"], int) for row in rows)


# ---------------------------------------------------------------- rows and fields


def _rows(path: Path) -> list[Row]:
    """Return the objects of a JSONL file, or those of one JSON list, which are counted in place of lines."""
    first = next((text.lstrip()[:1] for _, text in read_lines(path) if text.strip()), "")
    if first != "[":
        return [row for _, row in read_jsonl(path)]
    found = read_json(path)
    for line, cells in enumerate(found, start=1):
        if not isinstance(cells, dict):
            raise InputError(f"a JSON object was expected, not {type(cells).__name__}", path=path, line=line)
    return [Row(cells, path, line) for line, cells in enumerate(found, start=1)]


def property_name(name: str) -> str:
    """Return a property by the name that is used here, whichever release it is from.

    >>> property_name("Civil Status"), property_name("important_political_issues")
    ('civil_status', 'political_issues')
    """
    return known("property", _common_name(name), PROPERTIES)


def _common_name(name: str) -> str:
    plain = "_".join(name.strip().lower().replace("-", " ").replace("_", " ").split())
    return _ALIASES.get(plain, plain)


def listed_docnos(row: Row, known_docnos: Container[str], *, once: bool = False) -> tuple[str, ...]:
    """Return a row's list of argument ids; of one that is there twice, the first if `once`, else that is an error."""
    ids = Counter(row.ids(RELEVANT))
    if not ids:
        raise row.wrong(RELEVANT, "is empty")
    if unknown := [one for one in ids if one not in known_docnos]:
        raise row.wrong(RELEVANT, f"{unknown[0]!r} is not in the corpus")
    if not once and (twice := [one for one, times in ids.items() if times > 1]):
        raise row.wrong(RELEVANT, f"{twice[0]!r} is listed twice")
    return tuple(ids)


def _profile(row: Row, *names: str) -> Profile:
    """Return the properties that the first of some names holds; those that are not known are left out."""
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
        if not all(isinstance(one, str) and one.strip() for one in listed):
            expected = "a list of non-blank texts" if own == ISSUES else "text"
            raise row.wrong(f"{name}.{given}", f"{expected} was expected, not {type(content).__name__}")
        found[own] = tuple(dict.fromkeys(one.strip() for one in listed))
    return MappingProxyType(found)


# ---------------------------------------------------------------- in counts


def summarise(release: Release) -> dict[str, Any]:
    """Return how much of what a release holds; "unknown" is property → how many arguments lack it.

    "contradictions" counts relevant pairs (perspective query, answer), those whose author is known not to be what is
    asked for, and queries with one of these; it is None where the release is ranked for the reader, to whom anybody's
    argument may be relevant.
    """
    queries = []
    for kind, found in zip(_KINDS, (release.baseline, release.perspective), strict=True):
        for split in dict.fromkeys(q.split for q in found):
            answered = [q.relevant is not None for q in found if q.split == split]
            queries.append({"kind": kind, "split": split, "queries": len(answered), "with_answers": sum(answered)})
    of = {one.docno: one.profile for one in release.arguments}
    wrong = [[_contradicts(of[docno], q.asked) for docno in q.relevant or ()] for q in release.perspective]
    counts = {"relevant": sum(map(len, wrong)), "contradicting": sum(map(sum, wrong)), "queries": sum(map(any, wrong))}
    return {
        "release": release.name,
        "synthetic": release.synthetic,
        "ranked_for": release.ranked_for,
        "arguments": len(release.arguments),
        "issues": len({one.issue for one in release.arguments}),
        "queries": queries,
        "unknown": {name: sum(name not in one.profile for one in release.arguments) for name in PROPERTIES},
        "contradictions": counts if release.ranked_for == AUTHOR else None,
    }


def _contradicts(profile: Profile, asked: Profile) -> bool:
    """Say whether a property is known and none of its values is asked for; what is not known contradicts nothing."""
    return any(name in profile and not set(values) & set(profile[name]) for name, values in asked.items())
