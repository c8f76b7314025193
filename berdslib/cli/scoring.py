"""`berds retrieve`, `judge`, `evaluate`, `experiment`, `sides`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berdslib.cli import inputs, options
from berdslib.cli.options import FOLDER, JSON, costs_itself_only, end, print_frame, refuse, say, tell, wants_json
from berdslib.cli.root import main
from berdslib.errors import InputError, errors_in
from berdslib.progress import begin

if TYPE_CHECKING:  # the command line starts before pandas is loaded
    import pandas as pd

    from berdslib.data.collection import Collection


_INDEX = options.text(
    "--index",
    "How vectors are searched, and where that is kept: ivf-pq:FOLDER, milvus:FILE.db, milvus:http://HOST:PORT.",
)


@main.command()
@options.questions()
@options.systems("bm25")
@_INDEX
@options.flag("--perspectives", "Also ask from each perspective, which pRecall looks at.")
@options.SEARCHING
@options.number("-k", 100, "Passages per question.")
@options.output(
    "TREC run to write (.gz too), or for RELEASE:SCENARIO a predictions file (.jsonl). Of several systems a file each, "
    "such as 'runs/{system}.trec'.",
    click.Path(dir_okay=False),
)
@JSON
def retrieve(systems: str, index: str | None, perspectives: bool, k: int, output: str, **given: Any) -> None:
    """Rank passages for questions and write a TREC run, or a predictions file of PerspectiveArg.

    Each file is written as soon as its system is done; a system that fails costs its own file only.

    \b
    berds retrieve -q sample -r minilm -o minilm.trec
    berds retrieve -q perspectivearg-sample:explicit -r bm25,minilm+profile:fusion -o 'predictions/{system}.jsonl'
    """
    from berdslib.data.trec import check_trec_ids
    from berdslib.study.front import search
    from berdslib.study.tables import file_stems

    named = file_stems(inputs.parsed_systems(systems, index or ""))  # before a corpus is read
    several_in_one = len(named) > 1 and "{system}" not in output
    refuse(several_in_one, "several systems need a file each: -o with {system} in it, such as 'runs/{system}.trec'")
    found = inputs.read_collection(given, need_perspectives=perspectives)
    if not inputs.is_predictions(output):
        check_trec_ids(found.questions, found.passages)
    failed, done = list[str](), list[dict[str, Any]]()
    for system, stem in named.items():
        with costs_itself_only(failed, system if len(named) > 1 else ""):
            run = search(system, found, k, perspectives=perspectives, **given)
            done.append(_written(output.replace("{system}", stem), run, found, system, stem))
    if wants_json() and done:
        say(done[0] if len(named) == 1 else done, "")
    end(failed)


def _written(path: str, run: pd.DataFrame, found: Collection, system: str, stem: str) -> dict[str, Any]:
    """Write a run in the form that the path asks for, and say so."""
    from berdslib.data.scenario import ENOUGH, Scenario, write_predictions
    from berdslib.data.trec import write_trec_run

    lengths = run["qid"].value_counts().reindex([q.qid for q in found.questions], fill_value=0)
    asked, answered, size = len(lengths), int((lengths > 0).sum()), len(found.passages)
    summary = {"output": path, "system": system, "questions": asked, "answered": answered}
    summary |= {"passages_listed": len(run), "corpus_size": size}
    few = ""
    if not inputs.is_predictions(path):
        write_trec_run(path, run, tag=stem)
    elif isinstance(found, Scenario):
        write_predictions(path, run, found)
        summary |= {"short": (short := int((lengths < ENOUGH).sum())), "synthetic": found.release.synthetic}
        few = f"; {short} of them got fewer than {ENOUGH}" if short else ""
    else:
        raise InputError("a predictions file is for a scenario of PerspectiveArg; a run ends otherwise", path=path)
    if not wants_json():
        tell(f"{len(run)} passages for {answered} of {asked} questions, from {size}{few} → {path}")
    return summary


@main.command()
@options.questions()
@options.RUNS
@options.judge()
@options.TITLE_POSITION
@options.number("-k", 5, "How deep to judge.")
@options.STORE
@options.output("Verdicts to write: .tsv, .csv or .qrels (.gz too).", click.Path(dir_okay=False))
@JSON
def judge(runs: tuple[str, ...], k: int, store: Path | None, output: str, **given: Any) -> None:
    """Judge the top k of runs against every perspective of their questions."""
    from berdslib.data.corpus import by_docno
    from berdslib.data.trec import write_trec_qrels, write_verdicts
    from berdslib.judging.base import pairs_of
    from berdslib.judging.registry import make_judge
    from berdslib.judging.store import VerdictStore, judge_pairs, verdicts_of
    from berdslib.study.scoring import pooled

    refuse(not runs, "give at least one --run")
    found = inputs.read_collection(given)
    read = inputs.read_runs(runs, found)
    chosen = make_judge(given["judge"], found.gold, given["title_position"])
    with errors_in(", ".join(runs)):
        pool = pooled(read.values(), found.questions, k)
        pairs = pairs_of(pool, found.questions, by_docno(found.passages), max(1, len(pool)))
    begin(f"{given['judge']} judges {len(pairs):,} pairs")
    p_yes, new = judge_pairs(chosen, pairs, VerdictStore(store))
    verdicts = verdicts_of(pairs, p_yes, chosen)
    (write_trec_qrels if output.removesuffix(".gz").endswith(".qrels") else write_verdicts)(output, verdicts)
    yes, known_before = int(verdicts["supports"].sum()), len(pairs) - new
    summary = {"output": output, "judge": chosen.id, "pairs": len(pairs), "judged_now": new, "yes": yes}
    source = "looked up" if given["judge"] == "gold" else f"{new} new, {known_before} from the store"
    say(summary, f"{len(pairs)} pairs by {chosen.id}: {source}; {yes} supported → {output}")


@main.command()
@click.argument("files", nargs=-1, metavar="[FILES]...", type=click.Path())
@options.questions(required=False)
@options.RUNS
@click.option("--verdicts", help="Verdicts (.tsv, .csv, .jsonl), diversity qrels or a BEIR folder. [the gold verdicts]")
@options.MEASURES
@options.READING
@click.option("--predictions", default="", help="Field of the verdicts of a BeRDS JSONL. [found in the file]")
@click.option(
    "--k",
    "cutoff",
    type=click.Choice(["official"]),
    help="Cut every measure where the published script does: at the number of passages of the file's first question "
    "(a BeRDS JSONL file only). [the cut-off of each measure]",
)
@options.flag("--per-question", "Print one row per question instead of means.")
@options.output("Folder for relevance.csv, diversity.csv and results.json (PerspectiveArg only).", FOLDER, False)
@JSON
def evaluate(
    files: tuple[str, ...], runs: tuple[str, ...], verdicts: str | None, measures: str | None, predictions: str,
    cutoff: str | None, per_question: bool, output: Path | None, least: int, repeats: str, **given: Any,
) -> None:  # fmt: skip
    """Score runs, or an official BeRDS JSONL with recorded predictions, without any model.

    Without -q, FILES is a BeRDS JSONL (what is in it: docs/everyday.md, "The official BeRDS JSONL"); with it, they are
    further runs. A run that cannot be used costs its own scores only. Of RELEASE:SCENARIO, the measures are by default
    those of the task, and -o writes the results as it reports them; its owners have not put the exact names of their
    columns on record, so these are ours. Of rKL less is better.

    \b
    berds evaluate outputs.jsonl                       (mistral-preds, gpt4-preds, … as found)
    berds evaluate outputs.jsonl --k official          (k as the published script takes it)
    berds evaluate -q sample --run run.trec --verdicts verdicts.tsv
    berds evaluate -q perspectivearg-sample:explicit predictions/*.jsonl -m official -o results
    """
    import pandas as pd

    from berdslib.data.records import issue_of
    from berdslib.data.scenario import Scenario
    from berdslib.evaluation.measures import single_perspectives
    from berdslib.study.scoring import scored
    from berdslib.study.tables import score_table, write_results

    from_file = given["questions"] is None
    refuse(from_file and (runs or len(files) != 1), "give either one BeRDS JSONL file, or --run with --questions")
    own = verdicts or given["split"] or given["corpus"] or output
    refuse(from_file and own, "a BeRDS JSONL file contains its own questions and verdicts")
    refuse(not from_file and (cutoff or predictions), "--k and --predictions are for a BeRDS JSONL file")
    refuse(not from_file and not (runs or files), "--questions needs a --run to score")
    failed, wanted = list[str](), inputs.parsed_measures(measures)
    if from_file:
        scenario, alone = None, files[0]
        asked, scores = _recorded(files[0], predictions, wanted, cutoff)
    else:
        text, found = given["questions"], inputs.read_collection(given, need_passages=False, gold=verdicts)
        scenario = found if isinstance(found, Scenario) else None
        refuse(output and not scenario, "-o is for the results of a scenario of PerspectiveArg; redirect the table")
        if found.gold is None and not scenario:
            raise InputError(f"{text!r} has no gold verdicts; give verdicts with --verdicts FILE")
        asked = list(found.questions)
        if scenario:  # the queries on an issue are drawn together
            asked = [q._replace(source=q.source or found.name, root=issue_of(q)) for q in asked]
            wanted = inputs.parsed_measures(measures or "task")
        alone = "" if scenario or len(runs) + len(files) > 1 else verdicts or "gold"
        # Verdicts of a file go by its name, also where it names no judge: what they leave out is said.
        gold = found.gold.assign(judge=verdicts) if verdicts else found.gold  # type: ignore[union-attr] # it has some
        scores = {}
        for name, path in inputs.named_files([*runs, *files]).items():
            with costs_itself_only(failed), errors_in(alone or name):
                run = inputs.read_run(path, found, least=least, repeats=repeats)
                scores[alone or name] = scored(run, gold, found, wanted)
    if not scores:
        end(failed)
    if said := single_perspectives(asked, map(str, wanted)):
        tell(f"berds: {said}")
    column = "verdicts" if alone else "system"
    if per_question:
        frames = [frame.reset_index().assign(**{column: name}) for name, frame in scores.items()]
        table = pd.concat(frames, ignore_index=True)
    else:
        table = score_table(scores, asked).rename(columns={"system": column})
        table = table.drop(columns=["difference", "p_value"])
        if scenario or table["dataset"].nunique() == 2:  # of one data set, the mean says the same again
            table = table[table["dataset"] != "macro"]
    if scenario:
        table = table.assign(synthetic=scenario.release.synthetic)
    print_frame(table, next(iter(scores.values())).columns if per_question else options.SCORES)
    if output and scenario:
        definitions = {None: "papers", "task": "papers", "official": "published script"}.get(measures, "as named")
        for written in write_results(output, scores, scenario, definitions):
            tell(f"→ {written}")
    end(failed)


def _recorded(
    path: str, predictions: str, wanted: list[Any], cutoff: str | None
) -> tuple[list[Any], dict[str, pd.DataFrame]]:
    """Read an official file once per recorded judge, and score it."""
    from berdslib.data.formats import prediction_fields, read_berds
    from berdslib.evaluation.measures import evaluate as score
    from berdslib.evaluation.measures import official_cutoff

    fields = [predictions] if predictions else prediction_fields(path)
    if not fields:
        raise InputError('no recorded predictions (fields ending in "-preds") in the first row', path=path)
    scores = {}
    for field in fields:
        asked, _, run, verdicts = read_berds(path, field)
        if cutoff is not None:
            with errors_in(path):
                wanted = [measure @ official_cutoff(run, asked) for measure in wanted]
        k = max((int(measure["cutoff"]) for measure in wanted if "cutoff" in measure.params), default=0)
        lengths = run["qid"].value_counts().reindex([q.qid for q in asked], fill_value=0)
        if field == fields[0] and (short := int((lengths < k).sum())):
            tell(f"berds: {short} of {len(asked)} questions list fewer than {k} passages; what is not listed is a no")
        with errors_in(field):
            scores[field] = score(run, verdicts, asked, wanted)  # type: ignore[arg-type] # a field has some
    return asked, scores


@main.command()
@options.questions()
@options.systems(None, " [bm25,minilm, without --run]")
@_INDEX
@options.RUNS
@options.READING
@options.SEARCHING
@options.judge()
@options.TITLE_POSITION
@options.MEASURES
@click.option("--gold", help="Verdicts or diversity qrels to score by. [those of the questions]")
@click.option("--baseline", help="System to test the others against. [the first]")
@options.output("Folder for runs, verdicts, table.", FOLDER, False)
@options.flag("--letters", "Systems that share a letter are not shown to differ.")
@click.option("--pairs", "as_pairs", is_flag=True, help="Print every two systems compared, in place of the table.")
@click.option("--long", "as_rows", is_flag=True, help="Print a row for each system, data set and measure.")
@JSON
def experiment(
    systems: str | None, runs: tuple[str, ...], least: int, repeats: str, measures: str | None, baseline: str | None,
    output: Path | None, letters: bool, as_pairs: bool, as_rows: bool, **given: Any,
) -> None:  # fmt: skip
    """Retrieve, judge and score: the paper's table, systems x measures, with intervals and paired tests.

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
    from berdslib.study.experiment import experiment as run_experiment
    from berdslib.study.experiment import write_experiment

    wanted = inputs.parsed_measures(measures)
    first = "bm25,minilm" if systems is None and not runs else systems
    named = inputs.parsed_systems(first, given.pop("index") or "")
    plain = as_pairs or as_rows or wants_json()
    refuse(letters and plain, "--letters are in the table, not in --pairs, --long or --json")
    few = len(named) + len(runs) < 2
    refuse((letters or as_pairs) and few, "--letters and --pairs compare systems; give at least two with -r")
    collections = inputs.read_collections(given)
    refuse(runs and len(collections) > 1, "finished runs are of one collection; name one, or a corpus for all sets")
    failed = list[str]()
    named |= inputs.read_runs(runs, collections[0], failed, least=least, repeats=repeats)
    if not named:
        end(failed)
    chosen = inputs.positioned(given)
    # A finished run may be told by its file, too.
    called = {path: name for name, path in inputs.named_files(runs).items()}
    base = called.get(baseline, baseline.strip()) if baseline else next(iter(named))
    if output:
        for one in collections:
            check_trec_ids(one.questions, one.passages)
    result = run_experiment(named, collections, wanted, judge=chosen, baseline=base, **given)
    asked, size = (sum(len(getattr(one, part)) for one in collections) for part in ("questions", "passages"))
    begin(f"{asked} questions, {size} passages, judge {result.judge}")
    if plain and (said := single_perspectives(result.questions, map(str, wanted))):
        tell(f"berds: {said}")
    if as_pairs:
        table = pd.concat([result.pairs(m, full=True).assign(measure=str(m)) for m in wanted], ignore_index=True)
        hidden = [] if wants_json() else ["effect", "effect_low", "effect_high"] + ["measure"] * (len(wanted) == 1)
        print_frame(table.drop(columns=hidden), options.SCORES)
    elif plain:
        print_frame(result.table, options.SCORES)  # first: a disk that is full costs the files, and not the result
    else:
        options.show(None, repr(result.with_letters() if letters else result))
    if output:
        write_experiment(output, result)
    end(failed)


@main.command("sides")
@options.questions()
@options.systems("bm25,minilm")
@options.RUNS
@options.judge()
@options.TITLE_POSITION
@options.number("-k", 5, "Passages of each list.")
@options.choice(
    "--stances", ["recorded", "by order"], "Which perspective supports: as recorded, or the first where nothing is."
)
@options.choice(
    "--form", ["statement", "question first"], "How a perspective is searched: by itself, or behind the question."
)
@options.SEARCHING
@options.output("Folder for the tables and both figures.", FOLDER, False)
@JSON
def sides_command(systems: str, runs: tuple[str, ...], k: int, output: Path | None, **given: Any) -> None:
    """Which side do lists show, and do they follow the query's? BeRDS section 8, Figures 2 and 3.

    Searches with every question and with each of its two perspectives; a finished run holds these lists if
    `berds retrieve --perspectives` wrote it.

    \b
    berds sides -q theperspective -r bm25,minilm -o sides
    berds sides -q arguana,kialo --split dev -c arguana-corpus -r bm25 -j laptop --stances "by order"
    """
    from berdslib.study.figures import save_figure, use_style
    from berdslib.study.figures.values import sides_figure, sycophancy_figure
    from berdslib.study.sides import sides

    named = inputs.parsed_systems(systems)
    found = inputs.read_collection(given)
    result = sides(named | inputs.read_runs(runs, found), found, k, judge=inputs.positioned(given), **given)
    tables = {name: getattr(result, name) for name in ("shares", "asymmetry", "leaning", "sycophancy", "flips")}
    if wants_json():
        options.print_tables(tables)
    else:
        options.show(None, repr(result))
    if output:
        options.write_tables(output, tables)
        use_style()
        shares = result.shares[result.shares["asked"] == "question"]
        save_figure(sides_figure(shares), shares, output, "figure_2_sides")
        save_figure(sycophancy_figure(result.leaning), result.leaning, output, "figure_3_sycophancy")
