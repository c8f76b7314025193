"""`berds retrieve`, `judge`, `evaluate`, `experiment`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from berdslib.cli.inputs import read_collection, read_collections, read_run, split_names
from berdslib.cli.options import (
    ASPECT_JUDGE,
    CORPUS,
    DEPTH,
    FOLDER,
    JSON,
    JUDGE,
    MEASURES,
    POSITIVE,
    QUESTIONS,
    RECORDINGS,
    SPLIT,
    STORE,
    print_frame,
    say,
)
from berdslib.cli.root import main
from berdslib.errors import InputError, errors_in, printable


@main.command()
@QUESTIONS
@CORPUS
@click.option(
    "-r",
    "--system",
    default="bm25",
    show_default=True,
    help="A system: bm25, hf:org/model, minilm+mmr:0.9, minilm+pap:1.0, minilm+expand:recorded+coverage:0.5, "
    "minilm+expand:chat:MODEL (or hyde:MODEL), and multi in place of expand.",
)
@click.option("--perspectives", is_flag=True, help="Also ask from each perspective, which pRecall looks at.")
@ASPECT_JUDGE
@RECORDINGS
@DEPTH
@click.option("-k", default=100, show_default=True, type=POSITIVE, help="Passages per question.")
@STORE
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False), help="TREC run file to write (.gz too)."
)
@JSON
def retrieve(
    questions: str,
    split: str | None,
    limit: int,
    corpus: str | None,
    system: str,
    perspectives: bool,
    aspect_judge: str,
    recordings: Path | None,
    depth: int,
    k: int,
    store: Path | None,
    output: str,
    as_json: bool,
) -> None:
    """Rank passages for questions and write a TREC run."""
    from berdslib.data.trec import check_trec_ids, write_trec_run
    from berdslib.judging.store import VerdictStore
    from berdslib.retrieval.parts import parse_system
    from berdslib.study.experiment import file_stems
    from berdslib.study.front import search

    system = parse_system(system).text  # before a corpus is read
    found = read_collection(questions, corpus, split, limit, need_perspectives=perspectives)
    asked, passages = found.questions, found.passages
    check_trec_ids(asked, passages)
    run = search(
        system,
        found,
        k,
        perspectives=perspectives,
        aspect_judge=aspect_judge,
        depth=depth,
        recordings=recordings,
        store=VerdictStore(store),
    )
    write_trec_run(output, run, tag=file_stems([system])[system])
    summary = {
        "output": output,
        "system": system,
        "questions": len(asked),
        "answered": len({q.qid for q in asked} & set(run["qid"])),
        "passages_listed": len(run),
        "corpus_size": len(passages),
    }
    sentence = (
        f"{len(run)} passages for {summary['answered']} of {len(asked)} questions, from {len(passages)} → {output}"
    )
    say(summary, sentence, as_json)


@main.command()
@QUESTIONS
@CORPUS
@click.option("--run", "run_path", required=True, type=click.Path(), help="TREC run file.")
@JUDGE
@click.option("-k", default=5, show_default=True, type=POSITIVE, help="How deep to judge.")
@STORE
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False),
    help="Verdicts to write: .tsv, .csv or .qrels (.gz too).",
)
@JSON
def judge(
    questions: str,
    split: str | None,
    limit: int,
    corpus: str | None,
    run_path: str,
    judge: str,
    title_position: str | None,
    k: int,
    store: Path | None,
    output: str,
    as_json: bool,
) -> None:
    """Judge the top k of a run against every perspective of its question."""
    from berdslib.data.corpus import by_docno
    from berdslib.data.trec import write_trec_qrels, write_verdicts
    from berdslib.judging.base import pairs_of
    from berdslib.judging.registry import make_judge
    from berdslib.judging.store import VerdictStore, judge_pairs, verdicts_of
    from berdslib.study.experiment import pooled

    found = read_collection(questions, corpus, split, limit)
    asked, run = found.questions, read_run(run_path, found.questions)
    chosen = make_judge(judge, found.gold, title_position)
    with errors_in(run_path):
        pool = pooled([run], asked, k)
        pairs = pairs_of(pool, asked, by_docno(found.passages), max(1, len(pool)))
    p_yes, new = judge_pairs(chosen, pairs, VerdictStore(store))
    verdicts = verdicts_of(pairs, p_yes, chosen)
    (write_trec_qrels if output.removesuffix(".gz").endswith(".qrels") else write_verdicts)(output, verdicts)
    yes, known_before = int(verdicts["supports"].sum()), len(pairs) - new
    summary = {"output": output, "judge": chosen.id, "pairs": len(pairs), "judged_now": new, "yes": yes}
    source = "looked up" if judge == "gold" else f"{new} new, {known_before} from the store"
    say(summary, f"{len(pairs)} pairs by {chosen.id}: {source}; {yes} supported → {output}", as_json)


@main.command()
@click.argument("berds_jsonl", required=False, type=click.Path())
@click.option("--predictions", default="", help="Field of the recorded verdicts. [found in the file]")
@click.option("-q", "--questions", help="Data set names or a file (with --run and --verdicts).")
@SPLIT
@click.option("--run", "run_path", type=click.Path(), help="TREC run file.")
@click.option(
    "--verdicts", "verdicts_path", type=click.Path(), help="Verdicts (.tsv, .csv, .jsonl) or diversity qrels."
)
@MEASURES
@click.option(
    "--k",
    "cutoff",
    type=click.Choice(["official"]),
    help="Cut every measure where the published script does: at the number of passages of the file's first question "
    "(a BeRDS JSONL file only). [the cut-off of each measure]",
)
@click.option("--per-question", is_flag=True, help="Print one row per question instead of means.")
@JSON
def evaluate(
    berds_jsonl: str | None,
    predictions: str,
    questions: str | None,
    split: str | None,
    run_path: str | None,
    verdicts_path: str | None,
    measures: str,
    cutoff: str | None,
    per_question: bool,
    as_json: bool,
) -> None:
    """Score a run, or an official BeRDS JSONL with recorded predictions, without any model.

    \b
    berds evaluate outputs.jsonl                       (mistral-preds, gpt4-preds, … as found)
    berds evaluate outputs.jsonl --k official          (k as the published script takes it)
    berds evaluate -q sample --run run.trec --verdicts verdicts.tsv
    """
    import pandas as pd

    from berdslib.data.trec import read_verdicts
    from berdslib.evaluation.measures import evaluate as score
    from berdslib.evaluation.measures import official_cutoff, parse_measures, single_perspectives
    from berdslib.study.experiment import score_table

    wanted = parse_measures(measures)
    if (berds_jsonl is None) == (run_path is None):
        raise click.UsageError("give either a BeRDS JSONL file, or --run with --questions")
    if berds_jsonl is not None and (questions or verdicts_path or split):
        raise click.UsageError("a BeRDS JSONL file contains its own questions and verdicts")
    if cutoff is not None and berds_jsonl is None:
        raise click.UsageError("--k official is for a BeRDS JSONL file: it depends on which of its questions is first")
    if berds_jsonl is None and predictions:
        raise click.UsageError("--predictions is for a BeRDS JSONL file; a run is scored with --verdicts")
    if berds_jsonl is not None:
        asked, run, tables = _recorded(berds_jsonl, predictions)
        if cutoff is not None:
            with errors_in(berds_jsonl):
                wanted = [measure @ official_cutoff(run, asked) for measure in wanted]
    else:
        if questions is None:
            raise click.UsageError("--run needs --questions")
        found = read_collection(questions, None, split, 0, need_passages=False)
        asked, run = list(found.questions), read_run(str(run_path), found.questions)
        # Verdicts of a file go by its name, also where it names no judge: what they leave out is said.
        gold = read_verdicts(verdicts_path).assign(judge=verdicts_path) if verdicts_path else found.gold
        if gold is None:
            raise InputError(f"{questions!r} has no gold verdicts; give verdicts with --verdicts FILE")
        tables = {verdicts_path or "gold": gold}
    scores = {}
    for name, table in tables.items():
        with errors_in(name):
            scores[name] = score(run, table, asked, wanted)
    if said := single_perspectives(asked, map(str, wanted)):
        click.echo(f"berds: {said}", err=True)
    if per_question:
        frames = [frame.reset_index().assign(verdicts=name) for name, frame in scores.items()]
        print_frame(pd.concat(frames, ignore_index=True), as_json)
        return
    table = score_table(scores, asked).rename(columns={"system": "verdicts"})
    print_frame(table.drop(columns=["difference", "p_value"]), as_json)


def _recorded(path: str, predictions: str) -> tuple[list[Any], Any, dict[str, Any]]:
    """Read an official file once per recorded judge."""
    from berdslib.data.formats import prediction_fields, read_berds

    fields = [predictions] if predictions else prediction_fields(path)
    if not fields:
        raise InputError('no recorded predictions (fields ending in "-preds") in the first row', path=path)
    tables = {}
    for field in fields:
        asked, _, run, verdicts = read_berds(path, field)
        tables[field] = verdicts
    return asked, run, tables


@main.command()
@QUESTIONS
@CORPUS
@click.option(
    "-r",
    "--systems",
    default="bm25,minilm",
    show_default=True,
    help="Systems, comma-separated: a retriever and its parts, such as minilm+mmr:0.9, minilm+pap:1.0, "
    "bm25+expand:rule, bm25+multi:rule, minilm+expand:recorded+coverage:0.5, minilm+expand:chat:MODEL (or hyde).",
)
@ASPECT_JUDGE
@RECORDINGS
@DEPTH
@JUDGE
@MEASURES
@click.option("--baseline", help="System to test the others against. [the first]")
@STORE
@click.option("-o", "--output", type=FOLDER, help="Folder for runs, verdicts, table.")
@click.option("--letters", is_flag=True, help="Systems that share a letter are not shown to differ.")
@click.option("--pairs", "as_pairs", is_flag=True, help="Print every two systems compared, in place of the table.")
@click.option("--long", "as_rows", is_flag=True, help="Print a row for each system, data set and measure.")
@JSON
def experiment(
    questions: str,
    split: str | None,
    limit: int,
    corpus: str | None,
    systems: str,
    aspect_judge: str,
    recordings: Path | None,
    depth: int,
    judge: str,
    title_position: str | None,
    measures: str,
    baseline: str | None,
    store: Path | None,
    output: Path | None,
    letters: bool,
    as_pairs: bool,
    as_rows: bool,
    as_json: bool,
) -> None:
    """Retrieve, judge and score: the paper's table, systems x measures, with intervals and paired tests.

    \b
    berds experiment -q sample -r bm25,minilm+mmr:0.9
    berds experiment -q pir-demo:allsides -r minilm,minilm+pap:1.0 -m pRecall@5,MRecall@5
    berds experiment -q sample -r bm25,minilm,minilm+mmr:0.9 --pairs
    """
    import pandas as pd

    from berdslib.data.trec import check_trec_ids
    from berdslib.evaluation.measures import parse_measures, single_perspectives
    from berdslib.judging.registry import make_judge
    from berdslib.judging.store import VerdictStore
    from berdslib.retrieval.parts import parse_system
    from berdslib.study.experiment import experiment as run_experiment
    from berdslib.study.experiment import write_experiment

    wanted = parse_measures(measures)
    parsed = list(dict.fromkeys(parse_system(name).text for name in split_names(systems)))
    if letters and (as_pairs or as_rows or as_json):
        raise click.UsageError("--letters are in the table; they are not printed with --pairs, --long or --json")
    if (letters or as_pairs) and len(parsed) < 2:
        raise click.UsageError("--letters and --pairs compare systems; give at least two with -r")
    collections = read_collections(questions, corpus, split, limit)
    # A name goes on as it is: recorded verdicts are of a collection. They read no titles, so make_judge refuses both.
    chosen = make_judge(judge, title_position=title_position) if title_position else judge
    if output:
        for one in collections:
            check_trec_ids(one.questions, one.passages)
    result = run_experiment(
        parsed,
        collections,
        wanted,
        judge=chosen,
        baseline=baseline.strip() if baseline else parsed[0],
        aspect_judge=aspect_judge,
        depth=depth,
        recordings=recordings,
        store=VerdictStore(store),
    )
    asked, searched = (sum(len(getattr(one, part)) for one in collections) for part in ("questions", "passages"))
    click.echo(f"{asked} questions, {searched} passages, judge {result.judge}", err=True)
    captioned = not (as_pairs or as_rows or as_json)
    if not captioned and (said := single_perspectives(result.questions, map(str, wanted))):
        click.echo(f"berds: {said}", err=True)
    if as_pairs:
        frames = [result.pairs(m).assign(measure=str(m)) for m in wanted]
        print_frame(pd.concat(frames, ignore_index=True), as_json)
    elif as_rows or as_json:
        print_frame(result.table, as_json)  # first: a disk that is full costs the files, and not the result
    else:
        click.echo(printable(repr(result.with_letters() if letters else result)))
    if output:
        write_experiment(output, result)
