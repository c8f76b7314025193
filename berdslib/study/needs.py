"""What the runs of a grid need: checks of the names in their parameters, and what this machine lacks for them."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from berdslib.data.catalogue import DATASETS
from berdslib.data.datasets import IR_DATASETS, load_expansions, load_questions
from berdslib.data.fetch import every_place, there
from berdslib.data.pir import load_task
from berdslib.data.scenario import SCENARIOS
from berdslib.errors import InputError, MissingDataError, errors_in, known
from berdslib.evaluation.arguments import measures_of_scenario
from berdslib.evaluation.measures import check_without_groups, parse_measure
from berdslib.judging.pairs import NLI_T5
from berdslib.judging.registry import EVALUATOR, EVALUATOR_BASE, TASK, check_judge, members
from berdslib.llm.prompting import OTHER, OURS, fetch_command, split_wording, wording_state
from berdslib.models.cards import CARDS, model_card
from berdslib.models.corpus_vectors import VECTORS_FILE
from berdslib.models.loading import how_to_get
from berdslib.models.manifest import MANIFEST_FILE
from berdslib.models.packaged import PACKAGED
from berdslib.retrieval.bm25 import ANALYSERS
from berdslib.retrieval.expansion import SEARCHED, TASK_OF
from berdslib.retrieval.index import missing_parts, split_name
from berdslib.retrieval.rerank import TART_FULL
from berdslib.retrieval.retrievers import LUCENE, check_dense
from berdslib.retrieval.systems import CROSS, EXPAND, EXTRACT, INDEX, MULTI, RECORDED, RULE, parse_system
from berdslib.study import notebooks
from berdslib.study.notebooks import work_folder
from berdslib.study.tuning import NONE, systems_of

# Readers of data sets whose names end in a colon and a task.
PIR = "pir"
SCENARIO = "perspectivearg"


# ---------------------------------------------------------------- checks of names


def check_names(path: Path, settings: Sequence[Mapping[str, Any]]) -> None:
    """Raise InputError for an unknown name, which would fail its run only after earlier runs have taken their time.

    `settings` are all parameters of each run; `path` is the grid file, for the message.
    """
    for field, check, *arguments in _all_lookups(settings):
        with errors_in(path, field):
            check(*arguments)


def _all_lookups(settings: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return list(dict.fromkeys(lookup for values in settings for lookup in _lookups(values)))


def _lookups(values: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield a check of each name that a run's parameters contain: the field, a function and its arguments."""

    def texts(name: str) -> list[str]:
        value = values.get(name, [])
        elements = value if isinstance(value, list) else [value]
        return [element for element in elements if element and isinstance(element, str)]

    data_sets = texts("data") + texts("datasets")
    corpora = texts("corpus") or data_sets or ["CORPUS"]  # which an index is of
    for name in data_sets:
        yield "data", _check_data, name, "data"
        if values.get("corpus") == "":  # the corpus of the questions is searched
            yield "own corpus", _check_data, name, "own corpus"
        for split in texts("split"):
            yield "split", _check_split, name, split
    for name in texts("corpus"):
        yield "corpus", _check_data, name, "corpus"
    for system in texts("systems"):
        yield "systems", _check_system, system, *corpora
    for retriever in texts("retriever"):
        for then in texts("then") or [""]:
            if values.get("weights"):  # the notebook tries these weights, so `then` has none
                yield "then", _check_way, retriever, then.removeprefix("+") or NONE, *corpora
            else:
                yield "retriever", _check_system, retriever + then, *corpora
        for way in texts("ways"):
            yield "ways", _check_way, retriever, way, *corpora
    for encoder in texts("encoder"):
        yield "encoder", check_dense, encoder
    for analyser in texts("analyser"):
        yield "analyser", known, "analyser", analyser, tuple(ANALYSERS)
    for judge in texts("judge") + texts("aspect_judge"):
        yield "judge", check_judge, judge
    cuts = values.get("ks")
    for measure, cut in itertools.product(texts("measures"), cuts if isinstance(cuts, list) else ()):
        for name in data_sets or [""]:
            yield "measures", _check_measure, name, f"{measure}@{cut}"


def _check_data(name: str, kind: str) -> None:
    """Raise InputError for an unknown data set, or for one without the questions or passages that the run needs."""
    head, _, behind = name.partition(":")
    folder = work_folder()
    if (
        (folder / name).exists()
        or (behind and (folder / name.rpartition(":")[0]).exists())
        or f"{head}:" == IR_DATASETS
    ):
        return
    if "/" in name:
        raise InputError(f"{name} does not exist; paths are relative to {folder}")
    dataset, _ = DATASETS.find(head)
    needed = "questions" if kind == "data" else "passages"
    if dataset.reader == SCENARIO and kind != "corpus":
        known("scenario", behind, SCENARIOS)
    elif dataset.reader == PIR and kind != "corpus":
        with suppress(MissingDataError):  # the tasks of a data set are unknown until it is on this machine
            load_task(dataset, behind)
    elif behind and (kind != "corpus" or behind != "words"):
        DATASETS.find(name)  # its error lists the known names
    elif not dataset.make and needed not in dataset.parts:
        raise InputError(f"{name!r} has no {needed}")


def _check_split(name: str, split: str) -> None:
    dataset = DATASETS.get(name.partition(":")[0])
    if dataset and dataset.reader == SCENARIO:
        known(f"split of {name!r},", split, dataset.splits)
    elif dataset and dataset.reader != PIR:
        known(f"split of {name!r},", split, (*dataset.splits, "all"))


def _check_measure(name: str, text: str) -> None:
    measure = parse_measure(text)
    dataset = DATASETS.get(name.partition(":")[0])
    if dataset and dataset.reader == SCENARIO:
        measures_of_scenario(measure)
    elif dataset and not dataset.make:
        check_without_groups([measure])


def _check_way(retriever: str, way: str, *_corpora: str) -> None:
    for system in systems_of(retriever, way, [1.0]):
        _check_system(system)


def _check_system(text: str, *_corpora: str) -> None:
    system = parse_system(text)
    for name in system.values(EXPAND, MULTI):
        kind, colon, _ = name.partition(":")
        known("set of expansions", kind if colon else name, SEARCHED if colon else (RECORDED, RULE))
    for name in system.values(EXTRACT):
        known("extraction method", name.partition(":")[0], ("chat", RULE))


# ---------------------------------------------------------------- what is missing


class Lack(NamedTuple):
    """What this machine lacks, how to get it (a command, mostly), and whether the runs cannot start without it."""

    what: str
    get: str
    stops: bool = True


def lacks(settings: Sequence[Mapping[str, Any]], gpus: int = 0) -> list[Lack]:
    """Return what the runs name that is not on this machine: data sets, prompts, weights, packages, keys and GPUs.

    Args:
        settings: all parameters of each run.
        gpus: the number of GPUs that a run asks for.
    """
    found: dict[Lack, None] = {}
    for values in settings:
        found |= dict.fromkeys(_lacks_of_run(values))
    for name, split, part in dict.fromkeys(needed for values in settings for needed in _other_splits(values)):
        found |= dict.fromkeys(_lacks_of_split(name, split, part))
    for _, check, *arguments in _all_lookups(settings):
        if check in _LACKS:
            with suppress(InputError):  # a name that the notebook registers is unknown here
                found |= dict.fromkeys(_LACKS[check](*arguments))
    if gpus and (shown := _gpus_here()) < gpus:
        found[Lack(f"{gpus} GPU for each run", f"torch sees {shown} here; docs/gpu.md", stops=False)] = None
    return list(found)


def in_lines(missing: Sequence[Lack]) -> str:
    """Return a line for each thing that is missing, with the command that gets it."""
    width = max(len(lack.what) for lack in missing)
    return "\n".join(f"  {lack.what:{width}}  {lack.get}" for lack in missing)


def _gpus_here() -> int:
    import torch

    return torch.cuda.device_count()


def _lacks_of_run(values: Mapping[str, Any]) -> Iterator[Lack]:
    """Yield the data sets and files that a run's parameters name, in whatever parameter, and that are not here."""
    inputs = notebooks.inputs_of(values.values())
    for name, digest in inputs.items():
        if name in DATASETS and not digest:  # an empty folder has no digest either
            yield Lack(name, _data_command(name))
            yield from _package("datasets", "hub", needed=bool(DATASETS[name].hf_repo or DATASETS[name].tables))
    for source in values.get("sources", []):
        if source != "sample" and source not in inputs:
            yield Lack(source, f"berds rate pairs … -o {source}")
    stances = str(values.get("stances", ""))
    if Path(stances).suffix and stances not in inputs:
        yield Lack(stances, f"berds build stances … {Path(stances).parent}")
    if values.get("profile") == "paper":  # of notebook 05
        yield from _weights(values["causal_model"])
        yield from _lacks_of_prompt(TASK, values["wording"])


def _other_splits(values: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield data set, split and part of what a run reads beside the questions of its own split."""
    for name in [*values.get("data", []), *values.get("datasets", [])]:
        if values.get("weights") and "then" in values:  # a weight is chosen on the development questions
            yield name, "dev", "questions"
        if f":{RECORDED}" in str(values):
            yield name, values.get("split", "all"), "expansions"


def _data_command(name: str) -> str:
    return f"berds data {'fetch' if DATASETS[name].fetchable else 'card'} {name}"


def _lacks_of_data(name: str, _: str) -> Iterator[Lack]:
    yield from _package("ir_datasets", "ir-datasets", needed=name.startswith(IR_DATASETS))


def _lacks_of_split(name: str, split: str | None, part: str = "questions") -> Iterator[Lack]:
    dataset = DATASETS.get(name)
    if dataset is None or not dataset.splits or part not in dataset.parts or not there(every_place(dataset)):
        return
    try:
        (load_questions if part == "questions" else load_expansions)(name, split)
    except MissingDataError:
        what = f"{name}, split {split}" if part == "questions" else f"{name}, recorded expansions of split {split}"
        yield Lack(what, _data_command(name))


def _lacks_of_way(retriever: str, way: str, *corpora: str) -> Iterator[Lack]:
    for system in systems_of(retriever, way, [1.0]):
        yield from _lacks_of_system(system, *corpora)


def _lacks_of_system(text: str, *corpora: str) -> Iterator[Lack]:
    system = parse_system(text)
    if system.first == "tart-full":
        yield from _weights(TART_FULL)
        yield from _lacks_of_encoder("contriever")
    yield from _package("pyserini", "pyserini", needed=system.first.startswith(LUCENE))
    for encoder in system.encoders:
        yield from _lacks_of_encoder(encoder)
    for checkpoint in system.values(CROSS):
        yield from _weights(TART_FULL if checkpoint == "tart-full" else checkpoint)
    for name in system.values(EXPAND, MULTI):
        kind, _, model = name.partition(":")
        if model:
            yield from _lacks_of_chat(TASK_OF[kind], model)
    for name in system.values(EXTRACT):
        if name != RULE:
            yield from _lacks_of_chat("perspective_extraction", name.partition(":")[2])
    for index in system.values(INDEX):
        kind, place = split_name(index)
        yield from _package("pymilvus", "milvus", needed=kind == "milvus")
        folder = work_folder() / place
        written = folder / {"numpy": VECTORS_FILE, "milvus": ""}.get(kind, MANIFEST_FILE)
        begun = missing_parts(folder)
        unfinished = bool(begun) and all(begun.values())
        if place and "://" not in place and (unfinished or not written.exists()):
            # A run that made it would change its own inputs.
            for corpus in corpora:
                command = f"berds data index {quote(corpus)} {quote(index)} -m {system.first}"
                if unfinished:
                    n, missing = min(begun.items())
                    command += f" --part {missing[0]}/{n}"
                if kind == "numpy":  # a search makes it
                    searched = f"{system.first}+index:{index}"
                    command = f"berds retrieve -q sample -c {quote(corpus)} -r {quote(searched)} -o first.trec"
                yield Lack(f"{place}, of {corpus}", command)


def _lacks_of_encoder(name: str) -> Iterator[Lack]:
    if name in CARDS or name.startswith("hf:"):
        card = model_card(name)
        yield from _weights(card.checkpoint)
        if card.passage_checkpoint:
            yield from _weights(card.passage_checkpoint)


def _lacks_of_judge(name: str) -> Iterator[Lack]:
    for member in members(name):
        kind, _, model = member.partition(":")
        match kind:
            case "echo":
                yield from _lacks_of_judge(model)
            case "mistral-berds":
                yield from _lacks_of_judge(f"causal:{EVALUATOR_BASE}+adapter:{EVALUATOR}@published")
            case "causal":
                model, wording = split_wording(TASK, model)
                checkpoint, _, adapter = model.removesuffix("+4bit").partition("+adapter:")
                yield from _weights(checkpoint)
                if adapter:
                    yield from _weights(adapter)
                yield from _lacks_of_prompt(TASK, wording)
            case "chat":
                yield from _lacks_of_chat(TASK, model)
            case "nli-t5":
                yield from _weights(model or NLI_T5)
            case "nli" | "cross":
                yield from _weights(model)
            case "similarity":
                yield from _lacks_of_encoder(model or "minilm")
            case "laptop-mpnet":
                yield from _lacks_of_encoder("mpnet")
            case "qwen-probe" | "qwen-stack":
                yield from _weights("qwen-coder")


def _lacks_of_chat(task: str, name: str) -> Iterator[Lack]:
    model, wording = split_wording(task, name)
    yield from _lacks_of_prompt(task, wording)
    model = model.partition("?")[0]  # settings follow
    kind, _, place = model.partition(":")
    if model in PACKAGED or kind == "local":
        yield from _weights(place or model)
    elif kind != "recorded" and not {"OPENAI_API_KEY", "BERDS_CHAT_URL"} & os.environ.keys():
        yield Lack(f"a key for {model}", "export OPENAI_API_KEY=…  (or BERDS_CHAT_URL=…)", stops=False)


def _lacks_of_prompt(task: str, wording: str) -> Iterator[Lack]:
    if not wording or wording in OURS:
        return
    what = f"{wording} wording of {task}"
    if not (state := wording_state(task, wording)):
        yield Lack(what, fetch_command(task, wording))
    elif state == OTHER:
        yield Lack(f"{what}: here, but not the authors' file", fetch_command(task, wording), stops=False)


def _weights(checkpoint: str) -> Iterator[Lack]:
    if command := how_to_get(checkpoint):
        yield Lack(f"weights of {checkpoint.removeprefix('package:')}", command, stops=False)


def _package(module: str, extra: str, *, needed: bool) -> Iterator[Lack]:
    if needed and importlib.util.find_spec(module) is None:
        yield Lack(f"the package {module}", f"pip install 'berdslib[{extra}]'", stops=False)


_LACKS: dict[Any, Callable[..., Iterator[Lack]]] = {
    _check_data: _lacks_of_data,
    _check_split: _lacks_of_split,
    _check_system: _lacks_of_system,
    _check_way: _lacks_of_way,
    check_dense: _lacks_of_encoder,
    check_judge: _lacks_of_judge,
}
