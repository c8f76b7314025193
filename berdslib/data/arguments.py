"""The shared task PerspectiveArg 2024: arguments with profiles of their authors, and queries that ask for some of them.

Source: the task's published description (Falk, Waldis and Gurevych, 2024). A release is a folder::

    corpus.jsonl                               argument_id, text, target, stance, demographic_profile
    baseline-queries/queries_SPLIT.jsonl       query_id, text, relevant_candidates
    perspective-queries/queries_SPLIT.jsonl    the same with demographic_properties

Profiles are special-category personal data. Nothing here prints one: records leave theirs out when they are shown, and
messages say which field is wrong, not what an author wrote beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from berdslib.data.tables import check_new, first_field, is_missing, read_json, read_jsonl
from berdslib.errors import InputError, errors_in, known
from berdslib.files import StrPath, read_lines

ISSUES = "political_issues"
# Eight of the author; the last is a list, all others are single values.
PROPERTIES = (
    "gender",
    "age",
    "residence",
    "education",
    "civil_status",
    "denomination",
    "political_attitude",
    ISSUES,
)
SPLITS = ("train", "dev", "test")
AUTHOR, READER = "author", "reader"
CORPUS, MANIFEST = "corpus.jsonl", "release.json"
_MANIFEST_KEYS = ("name", "synthetic", "ranked_for", "seed")

# What the two releases call a field, the name in the task's description first.
_TEXT, _ISSUE = ("text", "argument"), ("target", "topic")
_PROFILE, _ASKED = ("demographic_profile",), ("demographic_properties", "demographic_property")
_RELEVANT = ("relevant_candidates",)
_ALIASES = {
    "political_spectrum": "political_attitude",
    "important_political_issues": ISSUES,
    "issues": ISSUES,
}

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
    """A query: ``qid``, ``text``, ``split``, the properties it asks for, and the docnos of the answers to it.

    ``asked`` is empty in the baseline queries; ``relevant`` is None in a test set whose answers are kept back.
    """

    qid: str
    text: str
    split: str
    asked: Profile = NOBODY
    relevant: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Arguments and queries as the organisers hold them; what a system may see of it is a scenario.

    Args:
        name: what it is called in messages and tables.
        arguments: the corpus.
        baseline: queries of text alone.
        perspective: queries that also name a property.
        ranked_for: whose properties the perspective queries name: "author", or "reader" as in the third test set.
        synthetic: made by scripts/synthetic_release.py, which everything that shows it then says.
        number_ids: ids of arguments, and of queries, are numbers in its files, and so in predictions.
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


_KINDS = ("baseline", "perspective")


def _plain_or_gz(path: Path) -> Path:
    zipped = path.with_name(f"{path.name}.gz")
    return zipped if zipped.is_file() and not path.is_file() else path


def read_release(folder: StrPath, name: str | None = None, *, problems: list[InputError] | None = None) -> Release:
    """Read a release; either of the published sets of field names will do.

    Files of one object a line are streamed; one that is a JSON list is read as a whole. Each may be compressed (.gz).

    A file ``release.json`` beside the corpus may say ``{"ranked_for": "reader"}`` (the third test set) and
    ``"synthetic": true``; the owners' own folders have none.

    Args:
        folder: holds ``corpus.jsonl`` and the folders of queries, of whichever splits there are.
        name: what to call it; None for the folder's name.
        problems: gets the first problem of each file of queries, which is then left out; None to raise it.
    """
    folder = Path(folder)
    about = read_manifest(folder / MANIFEST)
    arguments, are_numbers = _read_corpus(_plain_or_gz(folder / CORPUS))
    docnos = {one.docno for one in arguments}
    found: dict[str, list[ArgumentQuery]] = {}
    query_numbers = True
    for kind in _KINDS:
        found[kind] = []
        with _collected(problems):
            _check_files(folder / f"{kind}-queries")
        for split in SPLITS:
            path = _plain_or_gz(folder / f"{kind}-queries" / f"queries_{split}.jsonl")
            if path.is_file():
                with _collected(problems):
                    queries, numbers = _read_queries(path, split, docnos, named=kind == "perspective")
                    found[kind] += queries
                    query_numbers &= numbers
        with _collected(problems):
            _check_distinct(found[kind], folder / f"{kind}-queries")
    if not any(found.values()) and not problems:
        tried = ", ".join(f"{kind}-queries/queries_{{{','.join(SPLITS)}}}.jsonl" for kind in _KINDS)
        raise InputError(f"holds no queries; looked for {tried}", path=folder)
    with _collected(problems):
        _check_issues_apart(found, folder)
    return Release(
        name or str(about.get("name", folder.resolve().name)),
        tuple(arguments),
        tuple(found["baseline"]),
        tuple(found["perspective"]),
        about.get("ranked_for", AUTHOR),
        about.get("synthetic", False),
        (are_numbers, query_numbers),
    )


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
    for path in sorted([*folder.glob("queries_*.jsonl"), *folder.glob("queries_*.jsonl.gz")]):
        if path.name.removesuffix(".gz") not in expected:
            raise InputError(f"unknown file of queries; known: {', '.join(expected)}", path=path)


def _read_corpus(path: Path) -> tuple[list[Argument], bool]:
    arguments: list[Argument] = []
    lines: dict[Any, int] = {}
    numbers = True
    for line, row in _rows(path):
        docno, is_number = _id(row, ("argument_id",), path, line)
        check_new(lines, docno, f"argument {docno!r}", path, line, "argument_id")
        numbers &= is_number
        text, issue = (_text(row, names, path, line) for names in (_TEXT, _ISSUE))
        stance = _optional_text(row, "stance", path, line)
        profile = _profile(row, _PROFILE, path, line)
        arguments.append(Argument(docno, text, issue, stance, profile))
    if not arguments:
        raise InputError("holds no arguments", path=path)
    return arguments, numbers


def _read_queries(path: Path, split: str, docnos: set[str], *, named: bool) -> tuple[list[ArgumentQuery], bool]:
    queries, lines, numbers = [], dict[Any, int](), True
    for line, row in _rows(path):
        qid, is_number = _id(row, ("query_id",), path, line)
        check_new(lines, qid, f"query {qid!r}", path, line, "query_id")
        numbers &= is_number
        given = next((name for name in _ASKED if not is_missing(row.get(name))), None)
        if not named and given is not None:
            raise InputError("a baseline query names no property", path=path, line=line, field=given)
        asked = _profile(row, _ASKED, path, line) if named else NOBODY
        if named and not asked:
            raise InputError("names no property", path=path, line=line, field=given)
        relevant = _relevant(row, docnos, path, line)
        queries.append(ArgumentQuery(qid, _text(row, _TEXT, path, line), split, asked, relevant))
    if not queries:
        raise InputError("holds no queries", path=path)
    return queries, numbers


def _check_distinct(queries: list[ArgumentQuery], folder: Path) -> None:
    """Refuse a query id that two splits share: predictions name queries by id alone."""
    split_of: dict[str, str] = {}
    for query in queries:
        if query.qid in split_of:
            problem = f"{query.qid!r} is a query of {split_of[query.qid]} and of {query.split}"
            raise InputError(problem, path=folder, field="query_id")
        split_of[query.qid] = query.split


def _check_issues_apart(queries: Mapping[str, list[ArgumentQuery]], folder: Path) -> None:
    """Refuse an issue that two splits share: what was learnt on one would be known on the other.

    Args:
        queries: kind → queries; an issue is the same in both kinds.
        folder: of the release.
    """
    split_of: dict[str, str] = {}
    for kind, query in ((kind, query) for kind, found in queries.items() for query in found):
        if split_of.setdefault(query.text, query.split) != query.split:
            problem = f"the issue of query {query.qid!r} ({query.split}) is also in {split_of[query.text]}"
            problem += "; the splits of a release share no issue"
            raise InputError(problem, path=folder / f"{kind}-queries", field="text")


# ---------------------------------------------------------------- rows and fields


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line, object) of a JSONL file; or, as the task's description shows it, of one JSON list over many lines.

    In a list objects are counted in place of lines.
    """
    first = next((text.lstrip()[:1] for _, text in read_lines(path) if text.strip()), "")
    if first != "[":
        yield from read_jsonl(path)
        return
    listed = read_json(path)
    for number, row in enumerate(listed, start=1):
        if not isinstance(row, dict):
            raise InputError(f"a JSON object was expected, not {type(row).__name__}", path=path, line=number)
        yield number, row


def _id(row: Mapping[str, Any], names: tuple[str, ...], path: Path, line: int) -> tuple[str, bool]:
    """Return an id as text, and whether it was a number."""
    name, value = first_field(row, names, path, line)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        # Only its type is said of something larger, which may hold anything, also a profile.
        shown = type(value).__name__ if isinstance(value, list | dict) else repr(value)
        raise InputError(f"text or a whole number was expected, not {shown}", path=path, line=line, field=name)
    return str(value), isinstance(value, int)


def _text(row: Mapping[str, Any], names: tuple[str, ...], path: Path, line: int) -> str:
    name, value = first_field(row, names, path, line)
    if not isinstance(value, str):
        raise InputError(f"text was expected, not {type(value).__name__}", path=path, line=line, field=name)
    if not value.strip():
        raise InputError("is blank", path=path, line=line, field=name)
    return value


def _optional_text(row: Mapping[str, Any], name: str, path: Path, line: int) -> str:
    return "" if is_missing(row.get(name)) or row[name] == "" else _text(row, (name,), path, line)


def property_name(name: str) -> str:
    """Return a property by the name that is used here, whichever release it is from.

    >>> property_name("Civil Status"), property_name("important_political_issues")
    ('civil_status', 'political_issues')
    """
    return known("property", _common_name(name), PROPERTIES)


def _common_name(name: str) -> str:
    plain = "_".join(name.strip().lower().replace("-", " ").replace("_", " ").split())
    return _ALIASES.get(plain, plain)


def _profile(row: Mapping[str, Any], names: tuple[str, ...], path: Path, line: int) -> Profile:
    """Return the profile of a row; values, which may also be where a key should be, are never part of a message."""
    name, value = first_field(row, names, path, line)
    if not isinstance(value, Mapping):
        raise InputError(f"an object was expected, not {type(value).__name__}", path=path, line=line, field=name)
    found: dict[str, tuple[str, ...]] = {}
    for given, content in value.items():
        own = _common_name(given)
        if own not in PROPERTIES:
            problem = f"a key is not a property; known: {', '.join(sorted(PROPERTIES))}"
            raise InputError(problem, path=path, line=line, field=name)
        if own in found:
            raise InputError(f"{own} is there twice", path=path, line=line, field=name)
        if not is_missing(content) and content not in ("", []):
            found[own] = _values(own, content, path, line, f"{name}.{given}")
    return MappingProxyType(found)


def _values(name: str, content: Any, path: Path, line: int, field: str) -> tuple[str, ...]:
    if name == ISSUES:
        listed = [content] if isinstance(content, str) else content
        if not isinstance(listed, list) or not all(isinstance(one, str) and one.strip() for one in listed):
            raise InputError("a list of non-blank texts was expected", path=path, line=line, field=field)
        return tuple(dict.fromkeys(one.strip() for one in listed))
    if not isinstance(content, str) or not content.strip():
        raise InputError(f"text was expected, not {type(content).__name__}", path=path, line=line, field=field)
    return (content.strip(),)


def _relevant(row: Mapping[str, Any], docnos: set[str], path: Path, line: int) -> tuple[str, ...] | None:
    name = _RELEVANT[0]
    if is_missing(row.get(name)):
        return None
    return listed_docnos(row, name, docnos, path, line)


def listed_docnos(
    row: Mapping[str, Any], name: str, docnos: Container[str], path: StrPath, line: int, *, repeats: str = "error"
) -> tuple[str, ...]:
    """Return a row's list of argument ids, each of which is known and is there once.

    Args:
        row: of a file.
        name: the field that holds the list.
        docnos: ids of the corpus.
        path: the file.
        line: where the row is in it.
        repeats: of an id that is there twice: "error", or "once" to take the first and leave out the others.
    """
    _, value = first_field(row, (name,), path, line)
    if not isinstance(value, list):
        raise InputError(f"a list of argument ids was expected, not {type(value).__name__}", path=path, line=line,
                         field=name)  # fmt: skip
    if not value:
        raise InputError("is empty", path=path, line=line, field=name)
    ids = []
    for one in value:
        if isinstance(one, bool) or not isinstance(one, str | int):
            # Only its type is said of something larger, which may hold anything, also a profile.
            shown = type(one).__name__ if isinstance(one, list | dict) else repr(one)
            raise InputError(f"{shown} is not an argument id", path=path, line=line, field=name)
        ids.append(str(one))
    unknown = next((one for one in ids if one not in docnos), None)
    if unknown is not None:
        raise InputError(f"{unknown!r} is not in the corpus", path=path, line=line, field=name)
    if repeats == "error" and len(set(ids)) < len(ids):
        twice = next(one for one, times in Counter(ids).items() if times > 1)
        raise InputError(f"{twice!r} is listed twice", path=path, line=line, field=name)
    return tuple(dict.fromkeys(ids))


# ---------------------------------------------------------------- in counts


def summarise(release: Release) -> dict[str, Any]:
    """Return how much of what a release holds, and how much is not known.

    Args:
        release: arguments and queries.

    Returns:
        release, synthetic, ranked_for, arguments, issues; queries: a row for each kind and split with how many there
        are and how many come with their answers; unknown: property → how many arguments lack it; contradictions, see
        :func:`contradictions`, or None where the release is ranked for the reader.
    """
    kinds = {"baseline": release.baseline, "perspective": release.perspective}
    queries = [
        {
            "kind": kind,
            "split": split,
            "queries": sum(q.split == split for q in found),
            "with_answers": sum(q.split == split and q.relevant is not None for q in found),
        }
        for kind, found in kinds.items()
        for split in dict.fromkeys(q.split for q in found)
    ]
    return {
        "release": release.name,
        "synthetic": release.synthetic,
        "ranked_for": release.ranked_for,
        "arguments": len(release.arguments),
        "issues": len({one.issue for one in release.arguments}),
        "queries": queries,
        "unknown": {name: sum(name not in one.profile for one in release.arguments) for name in PROPERTIES},
        "contradictions": contradictions(release) if release.ranked_for == AUTHOR else None,
    }


def contradictions(release: Release) -> dict[str, int]:
    """Count relevant arguments whose author is known not to be what the query asks for.

    Args:
        release: ranked for the author; for a reader, an argument of anybody may be relevant.

    Returns:
        relevant: pairs of a perspective query and an argument that answers it; contradicting: those in which the
        profile has the property with none of the values asked for; queries: with such a pair.
    """
    profiles = {one.docno: one.profile for one in release.arguments}
    wrong = {
        q.qid: sum(_contradicts(profiles[docno], q.asked) for docno in q.relevant or ()) for q in release.perspective
    }
    return {
        "relevant": sum(len(q.relevant or ()) for q in release.perspective),
        "contradicting": sum(wrong.values()),
        "queries": sum(n > 0 for n in wrong.values()),
    }


def _contradicts(profile: Profile, asked: Profile) -> bool:
    """Say whether a property is known and none of its values is asked for; what is not known contradicts nothing."""
    return any(name in profile and not set(values) & set(profile[name]) for name, values in asked.items())
