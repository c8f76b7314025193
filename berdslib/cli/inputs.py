"""What the values of the options name: questions with their corpus and gold verdicts, systems, judges and runs."""

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
        raise InputError(f"{text!r} names nothing; names are needed, separated by commas")
    return names


def parsed_systems(text: str | None, index: str = "") -> dict[str, Any]:
    """Return each system string once, by itself; what cannot be read is said before anything is loaded."""
    from berdslib.retrieval.systems import parse_system

    parsed = [] if text is None else [parse_system(name).searched_by(index).text for name in split_names(text)]
    if index and not any(f"+index:{index}" in name for name in parsed):
        raise InputError("none of the systems compares vectors, as minilm does", field="index")
    return dict(zip(parsed, parsed, strict=True))


def parsed_measures(text: str | None) -> list[Any]:
    """Return measures; of a scenario of PerspectiveArg, "task" and "official" stand for its own."""
    from berdslib.evaluation.arguments import ARGUMENT_MEASURES, OFFICIAL_MEASURES
    from berdslib.evaluation.measures import parse_measures

    own = {"task": ARGUMENT_MEASURES, "official": OFFICIAL_MEASURES}
    return list(own.get(text or "") or parse_measures(text or "MRecall@5,Precision@5"))


def read_collections(given: dict[str, Any]) -> list[Collection]:
    """Take the options of questions, and return them: all sets over one corpus, or each set over its own."""
    text, corpus, options = _taken(given)
    names = split_names(text)
    joined: list[Any] = [names] if corpus else [*names]
    return [_loaded(one, text, passages=corpus, **options) for one in joined]


def read_collection(
    given: dict[str, Any], *, need_passages: bool | None = True, need_perspectives: bool = True, gold: str | None = None
) -> Collection:
    """Take the options of questions, and return all sets as one collection, or say what is missing in it.

    `need_passages` None: with the corpus if the questions have one.
    """
    from berdslib.data.scenario import SCENARIOS

    text, corpus, options = _taken(given)
    names = split_names(text)
    if len(names) > 1 and corpus is None and need_passages:
        raise InputError("--corpus is required, because the questions come from several data sets")
    has_its_own = need_passages is not False and len(names) == 1
    comes_with_its_own = has_its_own or text.rpartition(":")[2] in SCENARIOS
    searched = corpus if corpus is not None or comes_with_its_own else ()
    found = _loaded(names, text, need_perspectives, passages=searched, **{**options, "gold": gold})
    if need_passages and not found.passages:
        raise InputError(f"--corpus is required, because {text!r} holds questions only")
    return found


def _taken(given: dict[str, Any]) -> tuple[str, str | None, dict[str, Any]]:
    text, corpus = given.pop("questions"), given.pop("corpus", None)
    defaults = {"split": None, "limit": 0, "gold": None}
    return text, corpus, {name: given.pop(name, default) for name, default in defaults.items()}


def _loaded(names: Any, text: str, need_perspectives: bool = True, **options: Any) -> Collection:
    """Load what is named, and say of a scenario on stderr which it is, and whether its people were made up."""
    from berdslib.data.datasets import load
    from berdslib.data.records import check_questions
    from berdslib.data.scenario import Scenario

    found = load(names, **options)
    if need_perspectives:
        with errors_in(text):
            check_questions(found.questions, need_perspectives=True)
    if isinstance(found, Scenario):
        tell(repr(found))
    return found


def read_run(path: str, found: Collection, **reading: Any) -> Any:
    """Read a run, or a predictions file of a scenario, and check that it answers at least one of the questions."""
    from berdslib.data import trec
    from berdslib.data.records import list_ids
    from berdslib.data.scenario import Scenario, read_predictions

    if isinstance(found, Scenario) and is_predictions(path):
        return read_predictions(path, found, **reading)
    run, asked = trec.read_run(path), found.questions
    if not run["qid"].isin(list_ids(asked)).any():
        problem = f"their ids are like {asked[0].qid!r}, in the run {run['qid'].iloc[0]!r}"
        raise InputError(f"answers none of the questions: {problem}", path=path, field="qid")
    return run


def corpus_matters(found: Collection, runs: Iterable[Any]) -> bool:
    """Return whether the corpus is needed to score finished runs.

    It is where a list holds the question's own id, which may be the question itself, or where no listed passage was
    judged, so that the verdicts may be about another corpus.
    """
    judged, listed = set() if found.gold is None else set(found.gold["docno"]), set[str]()
    for run in runs:
        if (run["qid"] == run["docno"]).any():
            return True
        listed |= set(run["docno"].unique())
    return not judged & listed


def is_predictions(path: str | Path) -> bool:
    """Return whether a file is named like the predictions files of PerspectiveArg."""
    return str(path).removesuffix(".gz").endswith(".jsonl")


def read_runs(
    runs: Sequence[str], found: Collection, failed: list[str] | None = None, **reading: Any
) -> dict[str, Any]:
    """Return name → run; where there is a list of what failed, a file that cannot be used costs itself only."""
    read = {}
    for name, path in named_files(runs).items():
        with nullcontext() if failed is None else costs_itself_only(failed):
            read[name] = read_run(path, found, **reading)
    return read


def named_files(runs: Sequence[str]) -> dict[str, str]:
    """Return name → path of [NAME=]FILE; without a name, a run is called like its file, or by its path if two are."""
    parts = [("", text) if Path(text).exists() else text.rpartition("=")[::2] for text in runs]
    stems = [name or Path(path).name.removesuffix(".gz").rpartition(".")[0] or path for name, path in parts]
    named: dict[str, str] = {}
    for stem, (name, path) in zip(stems, parts, strict=True):
        called = path if not name and stems.count(stem) > 1 else stem
        if called in named:
            raise InputError("is named twice", path=path)
        named[called] = path
    return named
