"""Load what options name: questions with their corpus and gold verdicts, systems, judges and runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berdslib.cli.options import costs_itself_only, tell
from berdslib.errors import InputError, errors_in

if TYPE_CHECKING:  # the command line starts before pandas is loaded
    from berdslib.data.collection import Collection


def split_names(text: str) -> list[str]:
    """Split at commas, unless the text is the path of a file or folder."""
    if text and Path(text).exists():
        return [text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"{text!r} is not a comma-separated list of names")
    return names


def parsed_systems(text: str | None, index: str = "") -> dict[str, Any]:
    """Return each system string → itself; an invalid string is refused before anything is loaded."""
    from berdslib.retrieval.systems import parse_system

    systems = {}
    for name in split_names(text) if text is not None else ():
        system = parse_system(name).searched_by(index).text
        systems[system] = system
    if index and not any(f"+index:{index}" in system for system in systems):
        raise InputError("none of the systems is a dense retriever, such as minilm", field="index")
    return systems


def parsed_measures(text: str | None) -> list[Any]:
    """Return measures; "task" and "official" stand for those of PerspectiveArg."""
    from berdslib.evaluation.arguments import ARGUMENT_MEASURES, OFFICIAL_MEASURES
    from berdslib.evaluation.measures import parse_measures

    own = {"task": ARGUMENT_MEASURES, "official": OFFICIAL_MEASURES}
    return list(own.get(text or "") or parse_measures(text or "MRecall@5,Precision@5"))


def read_collections(given: dict[str, Any]) -> list[Collection]:
    """Take the options of questions out of `given`; return one collection over --corpus, or one for each data set."""
    text, corpus, options = _taken(given)
    names = split_names(text)
    groups: list[Any] = [names] if corpus else [*names]
    return [_loaded(group, text, passages=corpus, **options) for group in groups]


def read_collection(
    given: dict[str, Any], *, need_passages: bool | None = True, need_perspectives: bool = True, gold: str | None = None
) -> Collection:
    """Take the options of questions out of `given`; return all sets as one collection, which has what is needed.

    `need_passages` None: load the corpus if the questions have one.
    """
    from berdslib.data.scenario import SCENARIOS

    text, corpus, options = _taken(given)
    names = split_names(text)
    if len(names) > 1 and corpus is None and need_passages:
        raise InputError("--corpus is required, because the questions come from several data sets")
    options["gold"] = gold
    is_one_set = need_passages is not False and len(names) == 1
    has_corpus = is_one_set or text.rpartition(":")[2] in SCENARIOS
    passages = corpus if corpus is not None or has_corpus else ()
    collection = _loaded(names, text, need_perspectives, passages=passages, **options)
    if need_passages and not collection.passages:
        raise InputError(f"--corpus is required, because {text!r} holds questions only")
    return collection


def _taken(given: dict[str, Any]) -> tuple[str, str | None, dict[str, Any]]:
    """Remove the options of questions from `given`, and return names, corpus and the others."""
    text = given.pop("questions")
    corpus = given.pop("corpus", None)
    defaults = {"split": None, "limit": 0, "gold": None, "columns": None}
    return text, corpus, {name: given.pop(name, default) for name, default in defaults.items()}


def _loaded(names: Any, text: str, need_perspectives: bool = True, **options: Any) -> Collection:
    """Load data sets; describe a scenario on stderr, which says whether its authors are synthetic."""
    from berdslib.data.datasets import load
    from berdslib.data.records import check_questions
    from berdslib.data.scenario import Scenario

    collection = load(names, **options)
    if need_perspectives:
        with errors_in(text):
            check_questions(collection.questions, need_perspectives=True)
    if isinstance(collection, Scenario):
        tell(repr(collection))
    return collection


def read_run(path: str, found: Collection, **reading: Any) -> Any:
    """Read a run, or a predictions file of a scenario, and check that it answers at least one of the questions."""
    from berdslib.data import trec
    from berdslib.data.records import list_ids, numbered_hint
    from berdslib.data.scenario import Scenario, read_predictions

    if isinstance(found, Scenario) and is_predictions(path):
        return read_predictions(path, found, **reading)
    run = trec.read_run(path)
    questions = found.questions
    if not run["qid"].isin(list_ids(questions)).any():
        ids = f"their ids are like {questions[0].qid!r}, in the run {run['qid'].iloc[0]!r}"
        raise InputError(f"answers none of the questions: {ids}{numbered_hint(questions)}", path=path, field="qid")
    return run


def corpus_matters(found: Collection, runs: Iterable[Any]) -> bool:
    """Return whether the corpus is needed to score finished runs.

    It is needed if a list holds the question's own id, which may be the question itself, or if no listed passage has a
    verdict, so that the verdicts may be on another corpus.
    """
    judged = set() if found.gold is None else set(found.gold["docno"])
    listed = set[str]()
    for run in runs:
        if (run["qid"] == run["docno"]).any():
            return True
        listed |= set(run["docno"].unique())
    return not judged & listed


def is_predictions(path: str | Path) -> bool:
    """Return whether a file has the ending of a predictions file of PerspectiveArg."""
    return str(path).removesuffix(".gz").endswith(".jsonl")


def read_runs(
    runs: Sequence[str], found: Collection, failed: list[str] | None = None, **reading: Any
) -> dict[str, Any]:
    """Return name → run; with a list `failed`, errors are added to it and the other files are still read."""
    read = {}
    for name, path in named_files(runs).items():
        with nullcontext() if failed is None else costs_itself_only(failed):
            read[name] = read_run(path, found, **reading)
    return read


def named_files(runs: Sequence[str]) -> dict[str, str]:
    """Return name → path of [NAME=]FILE; the default name is the file's stem, or its path if two stems are equal."""
    parts = []
    for text in runs:
        name, _, path = text.rpartition("=")
        if Path(text).exists():
            name = ""
            path = text
        stem = Path(path).name.removesuffix(".gz").rpartition(".")[0]
        parts.append((name, name or stem or path, path))
    labels = [label for _, label, _ in parts]
    named: dict[str, str] = {}
    for name, label, path in parts:
        key = path if not name and labels.count(label) > 1 else label
        if key in named:
            raise InputError("is named twice", path=path)
        named[key] = path
    return named
