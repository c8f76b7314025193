"""`berds judge-pairs`, `judge-eval`, `judge-systems`: pairs to be labelled, and judges measured against gold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from berdslib.cli.inputs import read_collection, read_run, split_names
from berdslib.cli.options import (
    ASPECT_JUDGE,
    CORPUS,
    DEPTH,
    FOLDER,
    JSON,
    MEASURES,
    POSITIVE,
    QUESTIONS,
    RECORDINGS,
    STORE,
    TITLE_POSITION,
    print_frame,
    print_tables,
    say,
)
from berdslib.cli.root import main
from berdslib.errors import InputError


@main.command("judge-pairs")
@QUESTIONS
@CORPUS
@click.option("-r", "--systems", help="Comma-separated, as for `berds experiment`. [bm25,minilm, without --run]")
@click.option("--run", "run_paths", multiple=True, type=click.Path(), help="TREC run file; may be repeated.")
@click.option("-k", default=5, show_default=True, type=POSITIVE, help="Documents of a question and run.")
@click.option(
    "--draw",
    type=POSITIVE,
    metavar="N",
    help="Only N questions from each data set, drawn among those with two perspectives. [all questions]",
)
@click.option("--seed", default=0, show_default=True, help="Of the draw.")
@click.option(
    "--near",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.8,
    show_default=True,
    help="Documents of a question that are this similar to an earlier one are left out.",
)
@click.option("-j", "--judge", help="Who labels, as for `berds judge`. [nobody: the column is left to people]")
@TITLE_POSITION
@STORE
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="TSV to write.")
@JSON
def judge_pairs(
    questions: str,
    split: str | None,
    limit: int,
    corpus: str | None,
    systems: str | None,
    run_paths: Sequence[str],
    k: int,
    draw: int | None,
    seed: int,
    near: float,
    judge: str | None,
    title_position: str | None,
    store: Path | None,
    output: Path,
    as_json: bool,
) -> None:
    """Write (question, document, perspective) pairs to be labelled, for `berds judge-eval --data`. BeRDS A.4.

    The documents are those that the retrievers or runs list, each with every perspective of its question. People fill
    in the last column with 1 or 0; labels of a judge can train another one, but say nothing about the judge itself.
    """
    from berdslib.data.corpus import by_docno
    from berdslib.judging.registry import make_judge
    from berdslib.judging.store import VerdictStore
    from berdslib.judging.training import detection_set
    from berdslib.study.front import search

    if systems and run_paths:
        raise click.UsageError("give systems or finished runs, not both")
    found = read_collection(questions, corpus, split, limit)
    found = found.only(detection_set.draw_questions(list(found.questions), draw, seed)) if draw else found
    asked = list(found.questions)
    chosen = make_judge(judge, found.gold, title_position) if judge else None
    kept = VerdictStore(store)
    if run_paths:
        runs = [read_run(path, asked) for path in run_paths]
    else:
        runs = [search(name, found, k, store=kept) for name in split_names(systems or "bm25,minilm")]
    looked_up = by_docno(found.passages)
    listed = detection_set.detection_pairs(asked, runs, looked_up, k=k, near=None)
    pairs = detection_set.detection_pairs(asked, runs, looked_up, k=k, near=near)
    place = title_position or "before"
    if chosen is None:
        detection_set.write_unlabelled(output, pairs, asked, title_position=place)
    else:
        labelled = detection_set.label_by_judge(pairs, asked, chosen, kept, title_position=place)
        detection_set.write_examples(output, labelled)
    summary = {
        "output": output,
        "questions": len(asked),
        "pairs": len(pairs),
        "left_out": len(listed) - len(pairs),
        "judge": chosen.id if chosen else None,
    }
    labels = f"labelled by {chosen.id}" if chosen else "to be labelled with 1 or 0"
    left_out = f"{summary['left_out']} with a repeated document left out"
    say(summary, f"{len(pairs)} pairs of {len(asked)} questions, {left_out}, {labels} → {output}", as_json)


@main.command("judge-eval")
@click.option(
    "--data",
    "path",
    required=True,
    help="Labelled pairs: pers-det, or a table with the columns question, document, perspective, label.",
)
@click.option("-j", "--judges", default="random,overlap,similarity,laptop", show_default=True, help="Comma-separated.")
@STORE
@JSON
def judge_eval(path: str, judges: str, store: Path | None, as_json: bool) -> None:
    """Evaluate judges against human labels; intervals are clustered by question. BeRDS Table 4.

    The first rows are those of a judge that says yes to everything: an F1 near its own is worth nothing.

    Use this only for evaluation: choose judges, prompts and thresholds on other data.
    """
    from berdslib.data.datasets import load_pairs
    from berdslib.judging.store import VerdictStore
    from berdslib.study.judges import judge_table

    pairs = load_pairs(path)
    table = judge_table(pairs, split_names(judges), VerdictStore(store))
    questions, positive = len({p.question for p in pairs}), sum(p.label for p in pairs) / len(pairs)
    click.echo(f"{len(pairs)} pairs, {questions} questions, {positive:.1%} positive", err=True)
    print_frame(table, as_json)


@main.command("judge-systems")
@QUESTIONS
@CORPUS
@click.option(
    "-r",
    "--systems",
    default="bm25,rank-bm25,bm25+mmr:0.75,bm25+mmr:0.5,bm25+expand:rule,minilm,minilm+mmr:0.9,minilm+mmr:0.75,"
    "minilm+mmr:0.5,minilm+mmr:0.25,minilm+dpp:0.5,minilm+expand:rule",
    show_default=True,
    help="Comma-separated, as for `berds experiment`; 12 or more.",
)
@click.option("--run", "run_paths", multiple=True, type=click.Path(), help="TREC run file, too; may be repeated.")
@click.option("-j", "--judges", default="overlap,similarity,laptop", show_default=True, help="Comma-separated.")
@MEASURES
@click.option("--labelled", default="20,40", show_default=True, help="Numbers of labelled questions to try out.")
@click.option("--draws", default=200, show_default=True, type=POSITIVE, help="Trials with each number.")
@ASPECT_JUDGE
@RECORDINGS
@DEPTH
@STORE
@click.option("-o", "--output", type=FOLDER, help="Folder for the tables and a figure for each measure.")
@JSON
def judge_systems(
    questions: str,
    split: str | None,
    limit: int,
    corpus: str | None,
    systems: str,
    run_paths: Sequence[str],
    judges: str,
    measures: str,
    labelled: str,
    draws: int,
    aspect_judge: str,
    recordings: Path | None,
    depth: int,
    store: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Does a judge order systems as gold does? Kendall's tau, and what a few labels add.

    The questions need gold verdicts. Every judge is asked what any system lists within the deepest cut-off of the
    measures, each pair once; of a slow judge, a smaller cut-off asks for less.

    \b
    berds judge-systems -q theperspective -j overlap,similarity,laptop -o judged
    """
    from berdslib.judging.store import VerdictStore
    from berdslib.retrieval.parts import parse_system
    from berdslib.study import instruments

    numbers = _whole_numbers(labelled)
    named = {name: name for name in dict.fromkeys(parse_system(name).text for name in split_names(systems))}
    found = read_collection(questions, corpus, split, limit)
    runs = {path: read_run(path, found.questions) for path in run_paths}
    result = instruments.judge_systems(
        {**named, **runs},
        found,
        split_names(judges),
        measures,
        labelled=numbers,
        draws=draws,
        aspect_judge=aspect_judge,
        depth=depth,
        recordings=recordings,
        store=VerdictStore(store),
    )
    asked, compared = len(found.questions), len(named) + len(runs)
    click.echo(f"{asked} questions, {compared} systems, {result.pairs} pairs for each judge", err=True)
    if as_json:
        print_tables({name: getattr(result, name) for name in ("order", "table", "labels")})
    else:
        print_frame(instruments.score_sheet(result), False)
        click.echo()
        print_frame(result.order, False)
        few = result.labels[result.labels["system"] == "all"].drop(columns="system")
        if len(few):
            click.echo()
            print_frame(few, False)
    if output:
        _write_judged(output, result)


def _write_judged(folder: Path, result: Any) -> None:
    from berdslib.study.experiment import file_stems
    from berdslib.study.figures import judged_systems_figure, save_figure, use_style

    folder.mkdir(parents=True, exist_ok=True)
    for name in ("order", "labels", "table"):
        getattr(result, name).to_csv(folder / f"{name}.csv", index=False)
    use_style()
    for measure, stem in file_stems(dict.fromkeys(result.table["measure"])).items():
        shown = result.table[result.table["measure"] == measure]
        save_figure(judged_systems_figure(shown, measure), shown, folder, f"systems_{stem}")


def _whole_numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"{text!r}: whole numbers were expected, separated by commas", field="labelled") from None
    if any(number < 2 for number in numbers):
        raise InputError(f"{text!r}: at least 2 questions have to be labelled", field="labelled")
    return numbers
