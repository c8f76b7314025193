"""`berds data`: what data sets, corpora and releases there are, what they are, and how to get, check and write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from berdslib.cli import options
from berdslib.cli.inputs import is_predictions, read_collection, read_runs, split_names
from berdslib.cli.options import FOLDER, JSON, choice, flag, number, refuse, say, show, tell, text, wants_json
from berdslib.cli.root import main
from berdslib.errors import InputError, printable


@main.group()
def data() -> None:
    """Data sets, corpora and releases: list, fetch, check and write them."""


@data.command("list")
@JSON
def data_list() -> None:
    """List the known data sets."""
    from berdslib.data.datasets import dataset, names

    rows = [dataset(name) for name in names()]
    width = max(len(row.name) for row in rows)
    lines = "\n".join(f"{row.name:{width}} {row.kind:10} {row.paper:15} {row.title}" for row in rows)
    show([{f: getattr(row, f) for f in ("name", "kind", "paper", "title", "licence")} for row in rows], lines)


@data.command("card")
@click.argument("name")
@JSON
def data_card(name: str) -> None:
    """Say what a data set is, its licence, and where it is looked for."""
    from dataclasses import asdict

    from berdslib.data.datasets import card, dataset

    one = dataset(name)
    show(asdict(one) | {"loaders": list(one.loaders)}, lambda: card(name))


@data.command("fetch")
@click.argument("name")
@JSON
def data_fetch(name: str) -> None:
    """Download a data set into the user cache; what is complete is kept, and an interrupted file is fetched anew."""
    from berdslib.data.datasets import fetch

    paths = [str(path) for path in fetch(name)]
    show(paths, "\n".join(paths))


@data.command("stats")
@options.questions(required=False)
@JSON
def data_stats(questions: str | None, corpus: str | None, split: str | None, limit: int) -> None:
    """Print the columns of BeRDS Table 1 for sets of questions (-q), or those of Table 2 for corpora (-c).

    Of a corpus, the words of a passage are counted, too; NAME:words cuts its rows into passages of 100 words first. Of
    a folder from `berds data web` the means over its questions are printed, as in the paper. The last column says what
    counts as a document: the docno without its -NUMBER where `berds data` cut it, or a passage.
    """
    import pandas as pd

    from berdslib.data.datasets import describe_corpus, load_questions, statistics

    refuse((questions is None) == (corpus is None), "give either questions with -q, or corpora with -c")
    if corpus is not None:
        rows = [describe_corpus(name) for name in split_names(corpus)]
    else:
        names = split_names(questions or "")
        rows = [{"questions": name, **statistics(load_questions(name, split, limit))} for name in names]
    options.print_frame(pd.DataFrame(rows))


@data.command("leaks")
@options.questions()
@number("--threshold", 0.8, "Overlap (Jaccard similarity) from which a pair is reported.", options.SHARE)
@flag("--across", "Print only pairs that stand across splits.")
@JSON
def data_leaks(threshold: float, across: bool, **given: Any) -> None:
    """Find questions that must not stand on both sides of a split, and exit with 1 where some do.

    Two questions overlap if their wording is equal or nearly so: by the stems of the words that carry meaning.

    The exit status is that of a check: 0 if no two overlapping questions are of different splits, whatever overlaps
    within one; 1 if some are, or if something cannot be read, which an error on stderr says; 2 for a wrong option. To
    compare dev with test, ask for both: --split all.

    \b
    berds data leaks -q sample --split all
    berds data leaks -q arguana,kialo,opinionqa
    """
    from berdslib.data.leaks import across_splits, leaks

    refuse(given["corpus"], "questions are compared by their wording alone; leave out -c")
    asked = read_collection(given, need_passages=False, need_perspectives=False).questions
    found = leaks(asked, threshold)
    leaking = across_splits(found)
    shown = leaking if across else found
    if len(shown) and not wants_json():
        options.print_frame(shown)
    splits = sorted({q.split for q in asked})
    counts = {"questions": len(asked), "splits": splits, "overlaps": len(found), "across": len(leaking)}
    named = list(filter(None, splits))
    within = f"all of the split {named[0]}" if named else "without splits"
    across_them = f"{len(leaking)} across the splits {', '.join(named)}" if len(named) > 1 else within
    told = f"{len(asked)} questions, {len(found)} overlaps of {threshold} or more, {across_them}"
    say({**counts, "pairs": shown.to_dict("records")}, told)
    options.end(len(leaking))


@data.command("export")
@click.argument("path", type=click.Path(path_type=Path))
@options.questions(required=False)
@options.verdicts("--gold")
@text("--layout", "A BEIR folder, the official BeRDS JSONL, or a folder with TREC's diversity qrels. [by PATH: .jsonl "
      "is berds, else beir]", type=click.Choice(["beir", "berds", "trec"]))  # fmt: skip
@options.RUNS
@choice("--cut", ["none", "words"], "Rows are passages, or documents: cut after so many words.")
@number("--words", 100, "Of a passage, with --cut.")
@choice("--duplicates", ["keep", "exact"], "Passages of a corpus with an equal text: exact drops all but the first.")
@JSON
def data_export(
    path: Path, gold: str | None, layout: str | None, runs: tuple[str, ...], cut: str, words: int, duplicates: str,
    **given: Any,
) -> None:  # fmt: skip
    """Write questions, passages and gold verdicts to PATH for other tools, or a corpus alone as a folder.

    BEIR knows no perspectives: a passage's score there is the number of perspectives that it supports. Its qrels are
    named after the split of the questions, or "test" where they have none or several. A BeRDS JSONL lists a --run, or
    what has a verdict.

    Without -q, the passages of -c (a data set, a file or a BEIR folder) become a corpus on disk, which opens
    memory-mapped: `berds retrieve -c PATH`. A corpus that is there is replaced.

    \b
    berds data export sample.beir -q sample
    berds data export wikipedia -c my_articles.jsonl --cut words --duplicates exact
    """
    from berdslib.data.datasets import write_source
    from berdslib.data.formats import export_collection

    if given["questions"] is None:
        more = gold or layout or runs or given["split"]
        refuse(more or given["corpus"] is None, "give questions with -q, or with -c alone a corpus to write")
        shape: dict[str, Any] = {"cut": cut, "words": words, "duplicates": duplicates}
        made = write_source(given["corpus"], path, limit=given["limit"], **shape)
        dropped = f" ({made.repeats} repeats dropped)" * (duplicates != "keep")
        say({"output": path, **made._asdict()}, f"{made.passages} passages{dropped}, {made.bytes:,} bytes → {path}")
        return
    is_berds = layout == "berds" or is_predictions(path)
    refuse(runs and (len(runs) > 1 or not is_berds), "only a BeRDS JSONL lists a run, and one")
    named = given["questions"]
    found = read_collection(given, gold=gold)
    asked, passages, verdicts = found.questions, found.passages, found.gold
    if verdicts is None:
        raise InputError(f"{named!r} has no gold verdicts; give a file of verdicts with --gold")
    run = next(iter(read_runs(runs, found).values()), None)
    splits = {q.split for q in asked}
    part = splits.pop() if len(splits) == 1 else ""
    export_collection(path, asked, passages, verdicts, layout=layout, split=part or "test", run=run)
    told = int(verdicts["qid"].isin([q.qid for q in asked]).sum())
    summary = {"output": path, "questions": len(asked), "corpus_size": len(passages), "gold": told}
    say(summary, f"{len(asked)} questions, {len(passages)} passages, {told} verdicts → {path}")


def _part(_: click.Context, __: click.Parameter, said: str) -> tuple[int, int]:
    """Read a part, such as 3/16."""
    i, slash, n = said.partition("/")
    if not (slash and i.isdecimal() and n.isdecimal() and 1 <= int(i) <= int(n)):
        raise click.BadParameter(f"{said!r} is no part; 3/16 is the third of sixteen")
    return int(i), int(n)


_ENCODING = options.together(
    click.argument("corpus"),
    text("-m --model", "Retriever that encodes; hf:org/model, too.", "minilm"),
    text("--part", "Only this part, for a job array: 3/16 is the third of sixteen.", "1/1", callback=_part),
    text("--vectors", "Folder of the vectors, which all machines see. [in the user cache]", type=FOLDER),
)


@data.command("encode")
@_ENCODING
@options.PLACES
@JSON
def data_encode(
    corpus: str, model: str, part: tuple[int, int], vectors: Path | None, workers: int | None, scheduler: str | None
) -> None:
    """Encode the passages of CORPUS, a data set, file or folder, in shards; what is there is not encoded again.

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
    (encoder, text_of), passages = encoding_of(model), load_passages(corpus)
    with cluster(scheduler) if scheduler else processes(workers) if workers else nullcontext() as pool:
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
    """Build an index of the vectors of CORPUS, which are encoded if need be; `berds retrieve --index` uses it.

    KIND:PLACE is flat:FOLDER, hnsw:FOLDER, ivf:FOLDER, ivf-pq:FOLDER, milvus:FILE.db or milvus:http://HOST:PORT. Parts
    are searched as one once all are there.

    \b
    berds data index wikipedia ivf-pq:wikipedia.index --vectors wikipedia.vectors --part 3/16
    """
    from berdslib.data.datasets import load_passages
    from berdslib.models.corpus_vectors import about_vectors, encode_corpus
    from berdslib.retrieval.index import build_kept, split_name
    from berdslib.retrieval.retrievers import encoding_of

    refuse(split_name(index)[0] == "numpy" or not split_name(index)[1], f"{index!r} keeps nothing; take ivf-pq:FOLDER")
    (encoder, text_of), passages = encoding_of(model), load_passages(corpus)
    made = encode_corpus(passages, encoder, vectors, text_of=text_of)
    build_kept(index, about_vectors(passages, encoder, text_of), made, part, effort)
    say({"index": index, "passages": len(passages), "part": part}, f"part {part[0]} of {part[1]} → {index}")


@data.command("web")
@options.questions()
@options.output("Folder for QID.jsonl, pages.csv and corpora.json.", FOLDER)
@number("--top", 100, "Search results for each question.")
@text("--extractor", "What takes a page's text: or readability+html2text.", "trafilatura")
@number("--workers", 16, "Pages that are fetched at a time.")
@flag("--retry-failed", "Fetch pages again that failed the last time.")
@JSON
def data_web(output: Path, top: int, extractor: str, **given: Any) -> None:
    """Search the web for each question and make a corpus of the pages found; BeRDS section 4.2.

    The search goes through serper.dev with the key in the environment variable SERPER_API_KEY. What was answered is
    kept in the user cache: the same command later gives the same corpora and asks nobody. With -c FOLDER, other
    commands search each question in its own.
    """
    from berdslib.data.web import Web, failures, web_corpora

    asked = list(read_collection(given, need_passages=False, need_perspectives=False).questions)
    report = web_corpora(asked, output, Web(num=top, extractor=extractor, **given))
    answered, n = report.loc[report["passages"] > 0, "qid"].nunique(), int(report["passages"].sum())
    summary = {"output": output, "questions": len(asked), "with_passages": answered, "pages": len(report)}
    summary |= {"passages": n, "outcomes": report["outcome"].value_counts().to_dict()}
    say(summary, f"{failures(report)}\n{n} passages for {answered} of {len(asked)} questions → {output}")


@data.command("validate")
@click.argument("place", metavar="RELEASE[:SCENARIO]")
@click.argument("predictions", nargs=-1, type=click.Path())
@text("--split", "Of the scenario.", "dev", type=click.Choice(["train", "dev", "test"]))
@options.READING
@JSON
def data_validate(place: str, predictions: tuple[str, ...], split: str, **reading: Any) -> None:
    """Check a release of PerspectiveArg, and predictions files for one of its scenarios.

    Counts are printed, and the first problem of each file; exits with 1 where something must be mended.

    \b
    berds data validate perspectivearg-sample
    berds data validate my_release:explicit predictions/bm25.jsonl --split test
    """
    from berdslib.data.arguments import is_release
    from berdslib.data.catalogue import DATASETS
    from berdslib.data.scenario import SCENARIOS

    head, _, scenario = place.rpartition(":")
    release, rule = (head, scenario) if scenario in SCENARIOS and head else (place, "")
    refuse(predictions and not rule, "predictions are for a scenario; name it, such as my_release:explicit")
    is_known = release.startswith("perspectivearg") and release in DATASETS
    refuse(not rule and not is_release(release) and not is_known, f"{printable(place)}: no such release")
    _validate_release(release, rule, split, predictions, **reading)


def _validate_release(release: str, rule: str, split: str, predictions: tuple[str, ...], **reading: Any) -> None:
    import pandas as pd

    from berdslib.data.arguments import is_release, read_release, summarise
    from berdslib.data.scenario import load_release, open_scenario, read_predictions

    problems: list[InputError] = []
    found = read_release(release, problems=problems) if is_release(release) else load_release(release)
    summary, failed, checked = summarise(found), [str(one) for one in problems], list[dict[str, Any]]()
    for one in failed:
        tell(f"berds: {one}")
    if not wants_json():
        show(None, repr(found))
        unknown = pd.Series(summary["unknown"], name="unknown for").rename_axis("property").reset_index()
        options.print_tables({"queries": pd.DataFrame(summary["queries"]), "unknown": unknown})
    if predictions and failed:
        tell("berds: predictions can be checked once the release is good")
    elif predictions:
        opened = open_scenario(found, rule, split)
        for path in predictions:
            said = list[str]()
            with options.costs_itself_only(said):
                answered = read_predictions(path, opened, **reading)["qid"].nunique()
                if not wants_json():
                    show(None, f"{path}: good; {answered} of {len(opened.questions)} queries answered")
            checked.append({"path": path, "problem": said[0] if said else None})
            failed += said
    if wants_json():
        show({**summary, "problems": list(map(str, problems)), "predictions": checked}, "")
    wrong = summary["contradictions"]
    if wrong and wrong["contradicting"]:
        counts = f"{wrong['contradicting']} of {wrong['relevant']} relevant arguments, in {wrong['queries']} queries,"
        tell(f"berds: warning: {counts} are by authors known not to be what the query asks for")
    options.end(failed)
