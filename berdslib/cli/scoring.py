"""`berds retrieve`, `judge`, `evaluate`, `experiment` and `sides`: the main commands."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berdslib.cli import inputs, options
from berdslib.cli.options import (
    FOLDER,
    JSON,
    costs_itself_only,
    end,
    print_frame,
    refuse,
    refuse_two_judges,
    say,
    tell,
    text,
    wants_json,
)
from berdslib.cli.root import main
from berdslib.errors import InputError, errors_in

if TYPE_CHECKING:  # the command line starts before pandas is loaded
    import pandas as pd

    from berdslib.data.collection import Collection


_LISTS = 100  # passages of each list that an experiment writes, as many as `berds retrieve` does
_INDEX = text("--index", "Kind and place of a vector index: ivf-pq:FOLDER, milvus:FILE.db, "
              "milvus:http://HOST:PORT.")  # fmt: skip


@main.command()
@options.questions()
@options.systems("bm25")
@_INDEX
@options.flag("--perspectives", "Also search from each perspective, as pRecall needs it.")
@options.SEARCHING
@options.number("-k", 100, "Passages per question.")
@options.output("TREC run to write (.gz too), or for RELEASE:SCENARIO a predictions file (.jsonl). Several systems "
                "need a file each, such as 'runs/{system}.trec'.", click.Path(dir_okay=False))  # fmt: skip
@JSON
def retrieve(systems: str, index: str | None, perspectives: bool, k: int, output: str, **given: Any) -> None:
    """Rank passages for questions and write a TREC run, or a predictions file of PerspectiveArg.

    Each file is written as soon as its system is done; if a system fails, the others still run.

    \b
    berds retrieve -q sample -r minilm -o minilm.trec
    berds retrieve -q perspectivearg-sample:explicit -r bm25,minilm+profile:filter -o 'predictions/{system}.jsonl'
    """
    from berdslib.data.trec import check_trec_ids
    from berdslib.study.front import search
    from berdslib.study.metadata import record_of, write_ir_metadata
    from berdslib.study.tables import file_stems

    named = file_stems(inputs.parsed_systems(systems, index or ""))  # before a corpus is read
    several_in_one = len(named) > 1 and "{system}" not in output
    refuse(several_in_one, "several systems need a file each: -o with {system} in it, such as 'runs/{system}.trec'")
    made_with = {"k": k, "perspectives": perspectives, **given}
    collection = inputs.read_collection(given, need_perspectives=perspectives)
    if not inputs.is_predictions(output):
        check_trec_ids(collection.questions, collection.passages)
    failed = list[str]()
    done = list[dict[str, Any]]()
    for system, stem in named.items():
        path = output.replace("{system}", stem)
        with costs_itself_only(failed, system if len(named) > 1 else ""):
            began = datetime.now(UTC)
            run = search(system, collection, k, perspectives=perspectives, **given)
            done.append(_written(path, run, collection, system, stem))
            if Path(path).is_file() and not inputs.is_predictions(path):
                write_ir_metadata(path, record_of(made_with | {"system": system}, began), stem)
    if wants_json() and done:
        say(done[0] if len(named) == 1 else done, "")
    end(failed)


def _written(path: str, run: pd.DataFrame, found: Collection, system: str, stem: str) -> dict[str, Any]:
    """Write a run in the format that the path's ending names, and return a summary."""
    from berdslib.data.scenario import ENOUGH, Scenario, write_predictions
    from berdslib.data.trec import write_trec_run

    lengths = run["qid"].value_counts().reindex([q.qid for q in found.questions], fill_value=0)
    answered = int((lengths > 0).sum())
    summary = {
        "output": path,
        "system": system,
        "questions": len(lengths),
        "answered": answered,
        "passages_listed": len(run),
        "corpus_size": len(found.passages),
    }
    few = ""
    if not inputs.is_predictions(path):
        write_trec_run(path, run, tag=stem)
    elif isinstance(found, Scenario):
        write_predictions(path, run, found)
        short = int((lengths < ENOUGH).sum())
        summary |= {"short": short, "synthetic": found.release.synthetic}
        few = f"; {short} of them got fewer than {ENOUGH}" if short else ""
    else:
        raise InputError(
            "only a scenario of PerspectiveArg has predictions files; name a run, such as .trec", path=path
        )
    if not wants_json():
        where = f"from {len(found.passages)}{few} → {path}"
        tell(f"{len(run)} passages for {answered} of {len(lengths)} questions, {where}")
    return summary


@main.command("judge")
@options.questions()
@options.RUNS
@options.judge_option()
@options.number("-k", 5, "Passages of each list to judge.")
@options.STORE
@options.output("Verdicts to write: .tsv, .csv or .qrels (.gz too).", click.Path(dir_okay=False))
@JSON
def judge_command(runs: tuple[str, ...], judge: str, k: int, store: Path | None, output: str, **given: Any) -> None:
    """Judge the top k of runs against every perspective of their questions."""
    from berdslib.data.trec import write_trec_qrels, write_verdicts
    from berdslib.judging.base import short_name
    from berdslib.judging.registry import make_judge
    from berdslib.judging.store import VerdictStore
    from berdslib.study.scoring import caution, judged, warned_of_copies

    refuse(not runs, "give at least one --run")
    collection = inputs.read_collection(given)
    read = inputs.read_runs(runs, collection)
    chosen = make_judge(judge, collection.gold)
    with errors_in(", ".join(runs)):
        verdicts = warned_of_copies(judged(read.values(), collection, chosen, k, VerdictStore(store)), collection)
    is_qrels = output.removesuffix(".gz").endswith(".qrels")
    write = write_trec_qrels if is_qrels else write_verdicts
    write(output, verdicts)
    yes = int(verdicts["supports"].sum())
    summary = {"output": output, "judge": chosen.id, "pairs": len(verdicts), "yes": yes}
    say(summary, f"{len(verdicts)} pairs by {short_name(chosen.id)}: {yes} supported → {output}")
    if warning := caution(judge):
        tell(warning)


@main.command("evaluate")
@click.argument("files", nargs=-1, metavar="[FILES]...", type=click.Path())
@options.questions(required=False)
@options.RUNS
@options.verdicts("--gold --verdicts verdicts")
@options.MEASURES
@options.READING
@text("--k cutoff", "Cut every measure as the published script does: at the number of passages of the file's first "
      "question (a BeRDS JSONL file only). [the cut-off of each measure]", type=click.Choice(["official"]))  # fmt: skip
@text("--judged", "A judge's verdicts on the same runs, from `berds judge`: print its means, corrected by the gold of "
      "the questions that have some; these must be a random draw.", metavar="FILE")  # fmt: skip
@options.flag("--per-question", "Print one row per question instead of means.")
@options.one_of("--format form", ["table", "trec"], "trec: a line of run, question, measure and value for each score, "
                "and the means as question `all`, which ir_measures, TIRA and AutoJudge read.")  # fmt: skip
@JSON
def evaluate_command(
    files: tuple[str, ...], runs: tuple[str, ...], verdicts: str | None, measures: str | None, cutoff: str | None,
    judged: str | None, per_question: bool, form: str, least: int, repeats: str, **given: Any,
) -> None:  # fmt: skip
    """Score runs, or an official BeRDS JSONL with recorded predictions, without any model.

    Without -q, FILES is a BeRDS JSONL (its fields: docs/everyday.md, "The official BeRDS JSONL"); with -q, they are
    further runs. If a run cannot be used, the others are still scored. For RELEASE:SCENARIO, the default measures are
    those of the task. For rKL, less is better.

    \b
    berds evaluate outputs.jsonl                       (mistral-preds, gpt4-preds, … if present)
    berds evaluate outputs.jsonl --k official          (k as in the published script)
    berds evaluate -q sample --run run.trec --gold verdicts.tsv
    berds evaluate -q mine.jsonl --run run.trec --gold my_20_questions.tsv --judged laptop.tsv
    berds evaluate -q perspectivearg-sample:explicit predictions/*.jsonl -m official --json
    """
    import pandas as pd

    from berdslib.data.scenario import Scenario
    from berdslib.evaluation.measures import reads_texts, single_perspectives
    from berdslib.study.raters import corrected_scores
    from berdslib.study.tables import WHY_NO_INTERVAL, score_table

    from_file = given["questions"] is None
    refuse(from_file and (runs or len(files) != 1), "give either one BeRDS JSONL file, or --run with --questions")
    own = verdicts or given["split"] or given["corpus"] or given["columns"]
    refuse(from_file and own, "a BeRDS JSONL file contains its own questions and verdicts")
    refuse(not from_file and cutoff, "--k is for a BeRDS JSONL file")
    refuse(judged and from_file, "--judged corrects the means of runs; give -q and --run")
    single = "--per-question" if per_question else "--format trec" if form == "trec" else ""
    refuse(judged and single, f"--judged corrects means, {single} prints the scores of each question; leave out one")
    refuse(not from_file and not (runs or files), "--questions needs a --run to score")
    failed = list[str]()
    wanted = inputs.parsed_measures(measures)
    scenario = None
    if from_file:
        questions, scores = _recorded(files[0], wanted, cutoff)
        alone = files[0]
    else:
        named = inputs.named_files([*runs, *files])
        found = inputs.read_collection({**given}, need_passages=False, gold=verdicts)
        other = inputs.read_collection({**given}, need_passages=False, gold=judged) if judged else None
        scenario = found if isinstance(found, Scenario) else None
        if found.gold is None and not scenario:
            raise InputError(f"{given['questions']!r} has no gold verdicts; give verdicts with --gold FILE")
        if scenario and measures is None:
            wanted = inputs.parsed_measures("task")
        alone = "" if scenario or len(named) > 1 or form == "trec" else verdicts or "gold"
        read = dict[str, Any]()
        for name, path in named.items():
            with costs_itself_only(failed), errors_in(alone or name):
                read[name] = inputs.read_run(path, found, least=least, repeats=repeats)
        if not read:
            end(failed)
        if other is not None and other.gold is not None and found.gold is not None:
            table = corrected_scores(read, other.gold, found.gold, found.questions, wanted)
            print_frame(table, [str(name) for name in table if name not in ("system", "measure", "n", "labelled")])
            end(failed)
        needs_corpus = any(map(reads_texts, wanted)) or inputs.corpus_matters(found, read.values())
        if not scenario and needs_corpus:
            found = inputs.read_collection(given, need_passages=None, gold=verdicts)
        questions, scores = _scored(read, found, wanted, verdicts, alone, failed)
    if not scores:
        end(failed)
    warning = single_perspectives(questions, map(str, wanted))
    if warning:
        tell(f"berds: {warning}")
    if form == "trec":
        for line in _four_columns(scores):
            click.echo(line)
        end(failed)
        return
    column = "verdicts" if alone else "system"
    if per_question:
        frames = [frame.reset_index().assign(**{column: name}) for name, frame in scores.items()]
        table = pd.concat(frames, ignore_index=True)
        shares = tuple(next(iter(scores.values())).columns)
    else:
        table = score_table(scores, questions).rename(columns={"system": column})
        table = table.drop(columns=["difference", "p_value"])
        if scenario or table["dataset"].nunique() == 2:  # the mean over one data set repeats its scores
            table = table[table["dataset"] != "macro"]
        if table["low"].isna().any():
            tell(f"berds: {WHY_NO_INTERVAL}")
        shares = options.SCORES
    if scenario:
        table = table.assign(synthetic=scenario.release.synthetic)
    print_frame(table, shares)
    end(failed)


def _four_columns(scores: dict[str, pd.DataFrame]) -> list[str]:
    """Return run, question, measure and value, tab-separated; a question that a measure leaves out has no line."""
    lines = []
    for name, frame in scores.items():
        run = "-".join(name.split())
        for qid, row in [*frame.iterrows(), ("all", frame.mean())]:
            lines += [f"{run}\t{qid}\t{measure}\t{value:.6f}" for measure, value in row.dropna().items()]
    return lines


def _scored(
    runs: dict[str, Any], found: Collection, wanted: list[Any], verdicts: str | None, alone: str, failed: list[str]
) -> tuple[list[Any], dict[str, pd.DataFrame]]:
    """Score runs by gold, tell the notes on the scores, and return the scored questions and the scores."""
    from berdslib.data.records import make_verdicts
    from berdslib.evaluation.measures import are_recorded
    from berdslib.study import scoring

    own = scoring.own_passages(found)
    runs = {name: scoring.without_own(run, own, found.questions) for name, run in runs.items()}
    gold = make_verdicts([], "gold") if found.gold is None else found.gold  # a scenario may keep its answers back
    recorded = None if verdicts else True
    questions = scoring.to_be_scored(found, gold, [*runs.values()], recorded)
    scores = {}
    for name, run in runs.items():
        with costs_itself_only(failed), errors_in(alone or name):
            scores[alone or name] = scoring.scored(run, gold, found, questions, wanted)
    if scores:
        are_gold = are_recorded(gold)
        for note in scoring.table_notes(runs, gold, questions, [found], wanted, finished=runs, recorded=are_gold):
            tell(f"berds: {note}")
    return questions, scores


def _recorded(path: str, wanted: list[Any], cutoff: str | None) -> tuple[list[Any], dict[str, pd.DataFrame]]:
    """Read an official file once per recorded judge, and score it."""
    from berdslib.data.formats import prediction_fields, read_berds
    from berdslib.data.records import some_of
    from berdslib.evaluation.measures import official_cutoff
    from berdslib.evaluation.measures import score_run as score

    fields = prediction_fields(path)
    if not fields:
        raise InputError('no recorded predictions (fields ending in "-preds") in the first row', path=path)
    scores = {}
    for field in fields:
        questions, _, run, verdicts = read_berds(path, field)
        if cutoff is not None:
            with errors_in(path):
                wanted = [measure @ official_cutoff(run, questions) for measure in wanted]
        k = max((int(measure["cutoff"]) for measure in wanted if "cutoff" in measure.params), default=0)
        lengths = run["qid"].value_counts().reindex([q.qid for q in questions], fill_value=0)
        short = int((lengths < k).sum())
        if short and field == fields[0]:
            some = some_of(short, len(questions), "question", "list")
            tell(f"berds: {some} fewer than {k} passages; missing ones count as no")
        with errors_in(field):
            scores[field] = score(run, verdicts, questions, wanted)  # type: ignore[arg-type] # a field has some
        questions = [q for q in questions if q.qid in scores[field].index]
    return questions, scores


@main.command("experiment")
@options.questions()
@options.systems(None, " [bm25,minilm, without --run]")
@_INDEX
@options.RUNS
@options.READING
@options.SEARCHING
@options.judge_option()
@options.MEASURES
@options.verdicts("--gold", " Not beside a judge.")
@text("--baseline", "System to test the others against. [the first]")
@options.output(f"Folder for runs (lists of {_LISTS}), verdicts, table and settings; replaces an earlier experiment.",
                FOLDER, False)  # fmt: skip
@options.flag("--time timed", "Also print the milliseconds of a search, each question alone (median).")
@options.flag("--latex", "Print the table as LaTeX, with its caption.")
@options.flag("--letters", "Systems that share a letter are not shown to differ.")
@options.flag("--pairs", "Instead of the table, compare every two systems (p-values by Holm).")
@JSON
def experiment_command(
    systems: str | None, runs: tuple[str, ...], least: int, repeats: str, measures: str | None, baseline: str | None,
    output: Path | None, latex: bool, letters: bool, pairs: bool, **given: Any,
) -> None:  # fmt: skip
    """Retrieve, judge and score: the paper's table, systems x measures, with intervals and paired tests.

    For the scores of each question see -o, which writes them, and `berds evaluate --format trec`.

    \b
    berds experiment -q sample -r bm25,minilm+mmr:0.9
    berds experiment -q pir-demo:allsides -r minilm,minilm+pap:1.0 -m pRecall@5,MRecall@5
    berds experiment -q sample -r bm25,minilm,minilm+mmr:0.9 --pairs
    berds experiment -q topics.jsonl --gold qrels.txt --run ours=a.trec --run theirs=b.trec --pairs
    berds experiment -q perspectivearg-sample:explicit --run a.jsonl --run b.jsonl -m nDCG@20,alpha_nDCG@20
    """
    import pandas as pd

    from berdslib.data.trec import check_trec_ids
    from berdslib.evaluation.measures import single_perspectives
    from berdslib.study.experiment import check_folder
    from berdslib.study.experiment import experiment as run_experiment

    refuse_two_judges(given["gold"], given["judge"])
    wanted = inputs.parsed_measures(measures)
    first = "bm25,minilm" if systems is None and not runs else systems
    named = inputs.parsed_systems(first, given.pop("index") or "")
    plain = pairs or wants_json()
    refuse(pairs and given["timed"], "--time is shown in the table; leave out --pairs")
    refuse(letters and plain, "--letters are shown in the table; leave out --pairs and --json")
    refuse(latex and plain, "--latex prints the table; leave out --pairs and --json")
    few = len(named) + len(runs) < 2
    refuse((letters or pairs) and few, "--letters and --pairs compare systems; give at least two with -r")
    made_with = {"runs": list(runs), **given}
    collections = inputs.read_collections(given)
    refuse(runs and len(collections) > 1, "finished runs need a single collection; name one, or a corpus for all sets")
    failed = list[str]()
    named |= inputs.read_runs(runs, collections[0], failed, least=least, repeats=repeats)
    if not named:
        end(failed)
    base = baseline.strip() if baseline else next(iter(named))
    if output:
        check_folder(output)
        for collection in collections:
            check_trec_ids(collection.questions, collection.passages)
    lists = _LISTS if output else 1
    result = run_experiment(named, collections, wanted, baseline=base, list_length=lists, **given)
    if plain:
        notes = [single_perspectives(result.questions, map(str, wanted)), *result.notes]
        for note in filter(None, notes):
            tell(f"berds: {note}")
    if pairs:
        compared = [result.pairs(measure, full=True).assign(measure=str(measure)) for measure in wanted]
        table = pd.concat(compared, ignore_index=True)
        if not wants_json():
            table = table.drop(columns=["effect", "effect_low", "effect_high"])
            if len(wanted) == 1:
                table = table.drop(columns="measure")
        print_frame(table, options.SCORES)
    elif plain:
        print_frame(result.table)  # printed before files are written, which may fail
    else:
        shown = result.with_letters() if letters else result
        options.print_result(None, shown.to_latex() if latex else repr(shown))
    if output:
        result.save(output, made_with)
        longest = max(result.longest_lists.values())
        tell(f"lists of up to {longest} passages, verdicts, table and settings → {output}")
    end(failed)


@main.command("sides")
@options.questions()
@options.systems("bm25,minilm")
@options.RUNS
@options.judge_option()
@options.verdicts("--gold", " Not beside a judge.")
@options.number("-k", 5, "Passages of each list.")
@text(
    "--stances",
    "Source of the supporting perspective: recorded stances; by order: without them, the first one; or a FILE with "
    "qid, perspective and stance, or from `berds build stances`.",
    "recorded",
    metavar="[recorded|by order|FILE]",
)
@options.one_of(
    "--form", ["statement", "question first"], "Search with the perspective alone, or with the question before it."
)
@options.SEARCHING
@options.output("Folder for the tables and both figures.", FOLDER, False)
@JSON
def sides_command(
    systems: str, runs: tuple[str, ...], gold: str | None, k: int, output: Path | None, **given: Any
) -> None:
    """Which side do lists show, and do they follow the side of the query? BeRDS section 8, Figures 2 and 3.

    Searches with every question and with each of its two perspectives; a finished run has these lists if
    `berds retrieve --perspectives` wrote it.

    \b
    berds sides -q theperspective -r bm25,minilm -o sides
    berds sides -q arguana,kialo --split dev -c arguana-corpus -r bm25 -j laptop --stances "by order"
    berds sides -q kialo --split test -c wikipedia -r bm25-lucene --stances sided/questions.jsonl -j mistral-berds
    """
    from berdslib.study.figures import save_figure, use_style
    from berdslib.study.figures.values import sides_figure, sycophancy_figure
    from berdslib.study.sides import sides

    refuse_two_judges(gold, given["judge"])
    named = inputs.parsed_systems(systems)
    collection = inputs.read_collection(given, gold=gold)
    named |= inputs.read_runs(runs, collection)
    result = sides(named, collection, k, **given)
    names = ("shares", "asymmetry", "leaning", "sycophancy", "flips")
    tables = {name: getattr(result, name) for name in names}
    if wants_json():
        options.print_tables(tables)
    else:
        options.print_result(None, repr(result))
    if output:
        options.write_tables(output, tables)
        use_style()
        shares = result.shares[result.shares["asked"] == "question"]
        save_figure(sides_figure(shares), shares, output, "figure_2_sides")
        save_figure(sycophancy_figure(result.leaning), result.leaning, output, "figure_3_sycophancy")
