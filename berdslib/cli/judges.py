"""`berds judge-pairs` and `judge-eval`: pairs to be labelled, and judges measured against the labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from berdslib.cli.inputs import read_collection, read_run, split_names
from berdslib.cli.options import CORPUS, JSON, POSITIVE, QUESTIONS, STORE, TITLE_POSITION, print_frame, say
from berdslib.cli.root import main


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
