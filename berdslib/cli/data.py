"""`berds data`: list, describe, fetch, check and write data sets, corpora and releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from berdslib.cli import options
from berdslib.cli.inputs import is_predictions, read_collection, read_runs, split_names
from berdslib.cli.options import FOLDER, JSON, flag, number, one_of, print_result, refuse, say, tell, text, wants_json
from berdslib.cli.root import main
from berdslib.errors import InputError, printable


@main.group()
def data() -> None:
    """Data sets, corpora and releases: list, fetch, check and write them."""


@data.command("list")
@JSON
def data_list() -> None:
    """List the known data sets."""
    from berdslib.data.catalogue import DATASETS
    from berdslib.data.datasets import dataset

    sets = [dataset(name) for name in DATASETS]
    width = max(len(one.name) for one in sets)
    lines = [f"{one.name:{width}} {one.kind:10} {one.paper:15} {one.title}" for one in sets]
    fields = ("name", "kind", "paper", "title", "licence")
    rows = [{field: getattr(one, field) for field in fields} for one in sets]
    print_result(rows, "\n".join(lines))


@data.command("card")
@click.argument("name")
@JSON
def data_card(name: str) -> None:
    """Describe a data set: its content, its licence, and the places where its files are searched."""
    from dataclasses import asdict

    from berdslib.data.datasets import card, dataset

    described = dataset(name)
    print_result(asdict(described) | {"loaders": list(described.loaders)}, lambda: card(name))


@data.command("fetch")
@click.argument("name")
@JSON
def data_fetch(name: str) -> None:
    """Download a data set into the user cache; complete files are kept, partial files are fetched again."""
    from berdslib.data.datasets import fetch

    paths = [str(path) for path in fetch(name)]
    print_result(paths, "\n".join(paths))


@data.command("stats")
@options.questions(required=False)
@JSON
def data_stats(questions: str | None, corpus: str | None, columns: dict[str, str] | None, **given: Any) -> None:
    """Print the columns of BeRDS Table 1 for sets of questions (-q), or those of Table 2 for corpora (-c).

    For a corpus, the words of a passage are also counted; NAME:words first cuts its rows into passages of 100 words.
    For a folder from `berds data web`, means over its questions are printed, as in the paper. The last column says what
    counts as a document: the docno without its -NUMBER if `berds data` cut the document, else a passage.
    """
    import pandas as pd

    from berdslib.data.datasets import describe_corpus, statistics

    refuse((questions is None) == (corpus is None), "give either questions with -q, or corpora with -c")
    if corpus is not None:
        rows = [describe_corpus(name, columns) for name in split_names(corpus)]
    else:
        rows = []
        for name in split_names(questions or ""):
            named = {"questions": name, "columns": columns, **given}
            found = read_collection(named, need_passages=False, need_perspectives=False)
            rows.append({"questions": name, **statistics(found.questions)})
    options.print_frame(pd.DataFrame(rows))


@data.command("leaks")
@options.questions()
@number("--threshold", 0.8, "Overlap (Jaccard similarity) from which a pair is reported.", options.SHARE)
@flag("--across", "Print only pairs of different splits.")
@JSON
def data_leaks(threshold: float, across: bool, **given: Any) -> None:
    """Find questions that overlap across splits, and exit with 1 if there are any.

    Two questions overlap if their wording is equal or nearly so, judged by the stems of their content words.

    Exit status: 0 if no overlapping questions are in different splits, even if some overlap within a split; 1 if some
    are, or if input cannot be read (the error is on stderr); 2 for a wrong option. To compare dev with test, load both
    with --split all.

    \b
    berds data leaks -q sample --split all
    berds data leaks -q arguana,kialo,opinionqa
    """
    from berdslib.data.leaks import across_splits, leaks
    from berdslib.data.records import counted

    refuse(given["corpus"], "questions are compared by their wording alone; leave out -c")
    questions = read_collection(given, need_passages=False, need_perspectives=False).questions
    overlaps = leaks(questions, threshold)
    leaking = across_splits(overlaps)
    shown = leaking if across else overlaps
    if len(shown) and not wants_json():
        options.print_frame(shown)
    splits = sorted({question.split for question in questions})
    named = list(filter(None, splits))
    if len(named) > 1:
        where = f"{len(leaking)} across the splits {', '.join(named)}"
    elif named:
        where = f"all of the split {named[0]}"
    else:
        where = "without splits"
    summary = {"questions": len(questions), "splits": splits, "overlaps": len(overlaps), "across": len(leaking)}
    found = f"{counted(len(questions), 'question')}, {counted(len(overlaps), 'overlap')}"
    sentence = f"{found} of {threshold} or more, {where}"
    say({**summary, "pairs": shown.to_dict("records")}, sentence)
    options.end(len(leaking))


@data.command("export")
@click.argument("path", type=click.Path(path_type=Path))
@options.questions(required=False)
@options.verdicts("--gold")
@text("--layout", "A BEIR folder, the official BeRDS JSONL, or a folder with TREC's diversity qrels, with nugget "
      "banks or for the Hugging Face hub. [by PATH: .jsonl is berds, else beir]",
      type=click.Choice(["beir", "berds", "trec", "nuggets", "hf"]))  # fmt: skip
@options.RUNS
@one_of("--cut", ["none", "words"], "Keep rows as passages, or cut them after --words words.")
@number("--words", 100, "Words of a passage, with --cut words.")
@one_of("--duplicates", ["keep", "exact"], "Passages of a corpus with an equal text: exact drops all but the first.")
@JSON
def data_export(
    path: Path, gold: str | None, layout: str | None, runs: tuple[str, ...], cut: str, words: int, duplicates: str,
    **given: Any,
) -> None:  # fmt: skip
    """Write questions, passages and gold verdicts to PATH for other tools, or a corpus alone as a folder.

    BEIR has no perspectives: a passage's score there is the number of perspectives that it supports. Its qrels are
    named after the split of the questions, or "test" if they have none or several. A BeRDS JSONL lists the passages of
    a --run, or those with a verdict.

    Without -q, the passages of -c (a data set, a file or a BEIR folder) become a corpus on disk, which opens
    memory-mapped: `berds retrieve -c PATH`. An existing corpus is replaced.

    \b
    berds data export sample.beir -q sample
    berds data export wikipedia -c my_articles.jsonl --cut words --duplicates exact
    """
    from berdslib.data.datasets import write_source
    from berdslib.data.formats import export_collection
    from berdslib.data.records import counted

    if given["questions"] is None:
        more = gold or layout or runs or given["split"]
        refuse(more or given["corpus"] is None, "give questions with -q, or with -c alone a corpus to write")
        corpus = write_source(
            given["corpus"], path, limit=given["limit"], cut=cut, words=words, duplicates=duplicates,
            columns=given["columns"],
        )  # fmt: skip
        dropped = f" ({corpus.repeats} repeats dropped)" if duplicates != "keep" else ""
        sentence = f"{corpus.passages} passages{dropped}, {corpus.bytes:,} bytes → {path}"
        say({"output": path, **corpus._asdict()}, sentence)
        return
    is_berds = layout == "berds" or is_predictions(path)
    refuse(runs and not is_berds, "--run is only for a BeRDS JSONL")
    refuse(len(runs) > 1, "a BeRDS JSONL holds one run; give --run once")
    named = given["questions"]
    collection = read_collection(given, gold=gold)
    questions = collection.questions
    passages = collection.passages
    verdicts = collection.gold
    if verdicts is None:
        raise InputError(f"{named!r} has no gold verdicts; give a file of verdicts with --gold")
    run = next(iter(read_runs(runs, collection).values()), None)
    splits = {question.split for question in questions}
    split = splits.pop() if len(splits) == 1 else ""
    layout = layout or ("berds" if is_berds else "beir")
    written = export_collection(path, questions, passages, verdicts, layout=layout, split=split or "test", run=run)
    summary = {"output": path, "questions": len(questions), "corpus_size": len(passages), "gold": written}
    parts = [counted(len(questions), "question"), counted(len(passages), "passage")]
    parts.append(counted(written, "qrel" if layout == "beir" else "verdict"))
    say(summary, f"{', '.join(parts)} → {path}")


def _part(_: click.Context, __: click.Parameter, value: str) -> tuple[int, int]:
    """Parse a part, such as 3/16."""
    i, slash, n = value.partition("/")
    if not (slash and i.isdecimal() and n.isdecimal() and 1 <= int(i) <= int(n)):
        raise click.BadParameter(f"{value!r} is not a part; 3/16 is the third of sixteen")
    return int(i), int(n)


_ENCODING = options.together(
    click.argument("corpus"),
    text("-m --model", "Retriever that encodes; also hf:org/model.", "minilm"),
    text("--part", "Only this part, for a job array: 3/16 is the third of sixteen.", "1/1", callback=_part),
    text("--vectors", "Folder of the vectors, shared by all machines. [in the user cache]", type=FOLDER),
)


@data.command("encode")
@_ENCODING
@options.PLACES
@JSON
def data_encode(
    corpus: str, model: str, part: tuple[int, int], vectors: Path | None, workers: int | None, scheduler: str | None
) -> None:
    """Encode the passages of CORPUS, a data set, file or folder, in shards; finished shards are kept.

    The same command in two shells, or on two machines, shares the shards. `berds data index` joins them.

    \b
    berds data encode wikipedia --part $SLURM_ARRAY_TASK_ID/16 --vectors wikipedia.vectors
    """
    from contextlib import nullcontext

    from berdslib.data.datasets import load_passages
    from berdslib.models.corpus_vectors import encode_part
    from berdslib.retrieval.retrievers import encoding_of
    from berdslib.study.grid import cluster, processes

    refuse(workers and scheduler, options.NOT_BOTH)
    encoder, text_of = encoding_of(model)
    passages = load_passages(corpus)
    pools: Any = nullcontext()
    if scheduler:
        pools = cluster(scheduler)
    elif workers:
        pools = processes(workers)
    with pools as pool:
        folder = encode_part(passages, encoder, part, vectors, pool, text_of)
    say({"vectors": folder, "passages": len(passages), "part": part}, f"part {part[0]} of {part[1]} → {folder}")


@data.command("index")
@_ENCODING
@click.argument("index", metavar="KIND:PLACE")
@text("--effort", "Cells or candidates looked at for a query. [128]", type=options.POSITIVE)
@JSON
def data_index(
    corpus: str, model: str, part: tuple[int, int], vectors: Path | None, index: str, effort: int | None
) -> None:
    """Build an index of the vectors of CORPUS, encoding missing ones; `berds retrieve --index` uses it.

    KIND:PLACE is flat:FOLDER, hnsw:FOLDER, ivf:FOLDER, ivf-pq:FOLDER, milvus:FILE.db or milvus:http://HOST:PORT. Once
    all parts exist, they are searched as one index.

    \b
    berds data index wikipedia ivf-pq:wikipedia.index --vectors wikipedia.vectors --part 3/16
    """
    from berdslib.data.datasets import load_passages
    from berdslib.models.corpus_vectors import about_vectors, encode_corpus
    from berdslib.retrieval.index import build_kept, split_name
    from berdslib.retrieval.retrievers import encoding_of

    kind, place = split_name(index)
    refuse(kind == "numpy" or not place, f"{index!r} cannot be saved; take ivf-pq:FOLDER")
    encoder, text_of = encoding_of(model)
    passages = load_passages(corpus)
    encoded = encode_corpus(passages, encoder, vectors, text_of=text_of)
    build_kept(index, about_vectors(passages, encoder, text_of), encoded, part, effort)
    say({"index": index, "passages": len(passages), "part": part}, f"part {part[0]} of {part[1]} → {index}")


@data.command("web")
@options.questions()
@options.output("Folder for QID.jsonl, pages.csv and corpora.json.", FOLDER)
@number("--top", 100, "Search results for each question.")
@text("--extractor", "Extracts a page's text: trafilatura or readability+html2text.", "trafilatura")
@number("--workers", 16, "Pages fetched at the same time.")
@flag("--retry-failed", "Fetch pages again that failed last time.")
@JSON
def data_web(output: Path, top: int, extractor: str, **given: Any) -> None:
    """Search the web for each question and make a corpus of the pages found; BeRDS section 4.2.

    Searches go through serper.dev with the key in the environment variable SERPER_API_KEY. Results and pages are kept
    in the user cache, so the same command later gives the same corpora without network. With -c FOLDER, other commands
    search each question in its own corpus.
    """
    from berdslib.data.web import Web, failures, web_corpora

    questions = list(read_collection(given, need_passages=False, need_perspectives=False).questions)
    report = web_corpora(questions, output, Web(num=top, extractor=extractor, **given))
    with_passages = report.loc[report["passages"] > 0, "qid"].nunique()
    n = int(report["passages"].sum())
    summary = {
        "output": output,
        "questions": len(questions),
        "with_passages": with_passages,
        "pages": len(report),
        "passages": n,
        "outcomes": report["outcome"].value_counts().to_dict(),
    }
    say(summary, f"{failures(report)}\n{n} passages for {with_passages} of {len(questions)} questions → {output}")


@data.command("validate")
@click.argument("place", metavar="RELEASE[:SCENARIO]")
@click.argument("predictions", nargs=-1, type=click.Path())
@text("--split", "Of the scenario.", "dev", type=click.Choice(["train", "dev", "test"]))
@options.READING
@JSON
def data_validate(place: str, predictions: tuple[str, ...], split: str, **reading: Any) -> None:
    """Check a release of PerspectiveArg, and predictions files for one of its scenarios.

    Prints counts and the first problem of each file; exits with 1 if there is a problem.

    \b
    berds data validate perspectivearg-sample
    berds data validate my_release:explicit predictions/bm25.jsonl --split test
    """
    from berdslib.data.arguments import is_release
    from berdslib.data.catalogue import DATASETS
    from berdslib.data.scenario import SCENARIOS

    release, _, rule = place.rpartition(":")
    if rule not in SCENARIOS or not release:
        release = place
        rule = ""
    refuse(predictions and not rule, "predictions are for a scenario; name it, such as my_release:explicit")
    is_known = release.startswith("perspectivearg") and release in DATASETS
    refuse(not rule and not is_release(release) and not is_known, f"{printable(place)}: no such release")
    _validate_release(release, rule, split, predictions, **reading)


def _validate_release(release: str, rule: str, split: str, predictions: tuple[str, ...], **reading: Any) -> None:
    import pandas as pd

    from berdslib.data.arguments import is_release, read_release, summarise
    from berdslib.data.scenario import load_release, open_scenario, read_predictions

    problems: list[InputError] = []
    read = read_release(release, problems=problems) if is_release(release) else load_release(release)
    summary = summarise(read)
    failed = [str(problem) for problem in problems]
    for problem in failed:
        tell(f"berds: {problem}")
    if not wants_json():
        print_result(None, repr(read))
        unknown = pd.Series(summary["unknown"], name="unknown for").rename_axis("property").reset_index()
        options.print_tables({"queries": pd.DataFrame(summary["queries"]), "unknown": unknown})
    checked = list[dict[str, Any]]()
    if predictions and failed:
        tell("berds: predictions can be checked once the release is good")
    elif predictions:
        scenario = open_scenario(read, rule, split)
        for path in predictions:
            of_file = list[str]()
            with options.costs_itself_only(of_file):
                answered = read_predictions(path, scenario, **reading)["qid"].nunique()
                if not wants_json():
                    print_result(None, f"{path}: good; {answered} of {len(scenario.questions)} queries answered")
            checked.append({"path": path, "problem": of_file[0] if of_file else None})
            failed += of_file
    if wants_json():
        print_result({**summary, "problems": list(map(str, problems)), "predictions": checked}, "")
    wrong = summary["contradictions"]
    if wrong and wrong["contradicting"]:
        counts = f"{wrong['contradicting']} of {wrong['relevant']} relevant arguments, in {wrong['queries']} queries,"
        tell(f"berds: warning: {counts} are by authors known not to be what the query asks for")
    options.end(failed)
