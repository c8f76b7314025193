"""`berds rate`: people and judges label pairs and read questions; how far they agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from berdslib.cli import options
from berdslib.cli.inputs import parsed_systems, read_collection, read_runs, split_names
from berdslib.cli.options import FILE, FOLDER, JSON, NATURAL, number, print_frame, print_tables, refuse, say, tell
from berdslib.cli.root import main
from berdslib.errors import InputError, errors_in


@main.group()
def rate() -> None:
    """How far can raters be trusted? Sheets for people, judges against labels, judges as rankers of systems.

    \b
    berds rate pairs      writes pairs to be labelled,        berds rate judge    measures judges against the labels
    berds rate questions  writes made questions to be read,   berds rate summary  counts the errors found in them
    berds rate systems    compares a judge's order of systems with gold's
    """


def _judges(default: str) -> options.Option:
    return options.text("-j --judges", "Comma-separated.", default, shell_complete=options.completes("judge", ",+"))


@rate.command("pairs")
@options.questions()
@options.systems(None, " [bm25,minilm, without --run]")
@options.RUNS
@number("-k", 5, "Documents of a question and run.")
@number("--draw", 0, "Only N questions of each data set, drawn among those with two perspectives; 0 for all.", NATURAL)
@number("--pairs size", 0, "Only N pairs, drawn from all; 0 for all.", NATURAL)
@options.SEED
@number("--near", 0.8, "Documents of a question that are this similar to an earlier one are left out.", options.SHARE)
@options.judge(None, " [nobody: the column is left to people]")
@options.STORE
@options.output("TSV to write.")
@JSON
def rate_pairs(
    systems: str | None, runs: tuple[str, ...], k: int, draw: int, size: int, seed: int, near: float,
    judge: str | None, store: Path | None, output: Path, **given: Any,
) -> None:  # fmt: skip
    """Write (question, document, perspective) pairs to be labelled, for `berds rate judge --data`. BeRDS A.4.

    The documents are those that the retrievers or runs list, each with every perspective of its question. People fill
    in the last column with 1 or 0; labels of a judge can train another one, but say nothing about the judge itself.

    \b
    berds rate pairs -q sample -r bm25 --pairs 30 -j laptop -o pairs.tsv      (BeRDS B.3: 300 pairs of a setting)
    berds rate judge --data pairs.tsv -j overlap                              (one judge against the other: Table 18)
    """
    from berdslib.data.corpus import by_docno
    from berdslib.judging import examples
    from berdslib.judging.registry import make_judge
    from berdslib.judging.store import VerdictStore
    from berdslib.study.front import search

    refuse(systems and runs, "give systems or finished runs, not both")
    found = read_collection(given)
    found = found.only(examples.draw_questions(list(found.questions), draw, seed)) if draw else found
    asked = list(found.questions)
    chosen, kept = make_judge(judge, found.gold) if judge else None, VerdictStore(store)
    searched = [] if runs else parsed_systems(systems or "bm25,minilm")
    listing = [*read_runs(runs, found).values(), *(search(name, found, k, store=kept) for name in searched)]
    listed, pairs = (
        examples.detection_pairs(asked, listing, by_docno(found.passages), k=k, near=most) for most in (None, near)
    )
    left_out = len(listed) - len(pairs)
    pairs = examples.draw_pairs(pairs, size, seed) if size else pairs
    written, about, judged_by = len(pairs), len({p.qid for p in pairs}), chosen.id if chosen else None
    if chosen is None:
        examples.write_unlabelled(output, pairs, asked)
    else:
        labelled = examples.label_by_judge(pairs, asked, chosen, kept)
        examples.write_examples(output, labelled)
        written = len(labelled)
    summary = {"output": output, "questions": about, "pairs": written, "left_out": left_out, "judge": judged_by}
    labels = f"labelled by {judged_by}" if chosen else "to be labelled with 1 or 0"
    repeated = f"{left_out} with a repeated document left out"
    say(summary, f"{written} pairs of {about} questions, {repeated}, {labels} → {output}")


@rate.command("judge")
@options.text("--data path", "Labelled pairs: pers-det, or a table with the columns question, document, perspective, "
              "label.", required=True)  # fmt: skip
@_judges("random,overlap,similarity,laptop")
@options.text("--against", "Another judge, whose answers stand in for the labels.")
@options.STORE
@JSON
def rate_judge(path: str, judges: str, against: str | None, store: Path | None) -> None:
    """Evaluate judges against human labels; intervals are clustered by question. BeRDS Tables 4 and 18.

    The first row is that of a judge that says yes to everything: an F1 near its own is worth nothing. `random` says yes
    as often as the labels do. --json has more: kappa, and the thresholds.

    Use this only for evaluation: choose judges, prompts and thresholds on other data.
    """
    from berdslib.data.datasets import load_pairs
    from berdslib.judging.registry import check_judge
    from berdslib.judging.store import VerdictStore
    from berdslib.study.raters import judge_table, labelled_by

    pairs, kept = load_pairs(path), VerdictStore(store)
    names = split_names(judges)
    for name in names:
        check_judge(name)  # before another judge is asked
    pairs = labelled_by(against, pairs, kept) if against else pairs
    table = judge_table(pairs, names, kept)
    questions, positive = len({p.question for p in pairs}), sum(p.label for p in pairs) / len(pairs)
    tell(f"{len(pairs)} pairs, {questions} questions, {positive:.1%} positive")
    print_frame(table if options.wants_json() else _wide(table))


def _wide(table: Any) -> Any:
    """Return a row a judge, a column a measure, each with its interval."""
    names = ["said_yes", "accuracy", "f1", "precision", "recall", "auc", "calibration_error"]
    shown = table[table["measure"].isin(names)]
    parts = [(100 * shown[c]).map("{:.1f}".format).where(shown["measure"] != "auc", shown[c].map("{:.3f}".format))
             for c in ("value", "low", "high")]  # fmt: skip
    text = parts[0] + (" [" + parts[1] + ", " + parts[2] + "]").where(shown["low"] < shown["high"], "")
    wide = shown.assign(text=text).pivot(index="judge", columns="measure", values="text")
    wide = wide.reindex(index=shown["judge"].unique(), columns=names).rename_axis(columns=None)
    return wide.rename(columns={name: f"{name}, %" for name in names if name != "auc"}).reset_index()


@rate.command("systems")
@options.questions()
@options.systems(
    "bm25,rank-bm25,bm25+mmr:0.75,bm25+mmr:0.5,bm25+expand:rule,minilm,minilm+mmr:0.9,minilm+mmr:0.75,minilm+mmr:0.5,"
    "minilm+mmr:0.25,minilm+dpp:0.5,minilm+expand:rule",
    " 12 or more.",
)
@options.RUNS
@_judges("overlap,similarity,laptop")
@options.MEASURES
@options.SEARCHING
@options.output("Folder for the tables and a figure for each measure.", FOLDER, False)
@JSON
def rate_systems(
    systems: str, runs: tuple[str, ...], judges: str, measures: str | None, output: Path | None, **given: Any
) -> None:
    """Does a judge order systems as gold does? Kendall's tau, and what labels on 20 or 40 questions add.

    The questions need gold verdicts. Every judge is asked what any system lists within the deepest cut-off of the
    measures, each pair once; of a slow judge, a smaller cut-off asks for less.

    \b
    berds rate systems -q theperspective -j overlap,similarity,laptop -o judged
    """
    from berdslib.study import raters
    from berdslib.study.figures import save_figure, use_style
    from berdslib.study.figures.values import judged_systems_figure
    from berdslib.study.tables import file_stems

    named = parsed_systems(systems)
    found = read_collection(given)
    named |= read_runs(runs, found)
    chosen, wanted = split_names(judges), measures or "MRecall@5,Precision@5"
    result = raters.judge_systems(named, found, chosen, wanted, **given)
    tell(f"{len(found.questions)} questions, {len(named)} systems, {result.pairs} pairs for each judge")
    tables = {name: getattr(result, name) for name in ("order", "table", "labels")}
    few = result.labels[result.labels["system"] == "all"].drop(columns="system")
    readable = {"scores": raters.score_sheet(result), "order": result.order, "labels": few}
    shares = {"same", "same_low", "same_high", "alike", "reversed", "tied", "bias", "error", "width", "coverage"}
    print_tables(tables if options.wants_json() else readable, shares=shares | {*readable["scores"].columns[1:]})
    if output:
        options.write_tables(output, tables)
        use_style()
        for measure, stem in file_stems(dict.fromkeys(result.table["measure"])).items():
            shown = result.table[result.table["measure"] == measure]
            save_figure(judged_systems_figure(shown, measure), shown, output, f"systems_{stem}")


@rate.command("questions")
@click.argument("questions")
@options.split("dev", "test", "all")
@number("-n", 20, "Questions from each data set.")
@options.SEED
@options.output("CSV to write.")
@JSON
def rate_questions(n: int, seed: int, output: Path, **given: Any) -> None:
    """Draw N of the QUESTIONS from each data set for people to read, or all if there are fewer. BeRDS B.4.

    Where QUESTIONS is JSONL, or a data set that `berds build` made, the texts in its field `sources` stand beside them.
    Give each reviewer a copy. It opens in a spreadsheet, or in a notebook with
    `berdslib.construction.form.ReviewForm("sheet.csv", "name")`.
    """
    from berdslib.construction.review import draw_sheet, read_sources, write_sheet
    from berdslib.data import saved

    if output.exists():
        raise InputError("is there already, and may hold answers; name another file", path=output)
    text = given["questions"]
    found = read_collection(given, need_passages=False)
    built = Path(text) / saved.QUESTIONS if saved.is_saved(text) else Path(text)
    with errors_in(text):
        rows = draw_sheet(found.questions, read_sources(built) if built.suffix == ".jsonl" else {}, n, seed)
    write_sheet(output, rows)
    with_sources = sum(bool(row.sources) for row in rows)
    summary = {"output": output, "items": len(rows), "with_sources": with_sources, "seed": seed}
    say(summary, f"{len(rows)} items, {with_sources} of them with sources → {output}")


@rate.command("summary")
@click.argument("sheet", type=FILE)
@click.argument("second", type=FILE, required=False)
@JSON
def rate_summary(sheet: Path, second: Path | None) -> None:
    """Count the errors that a reviewer found in each data set (BeRDS Table 19), or compare two reviewers.

    Of two filled-in copies of a sheet it prints in how many answers they agree, with the exact interval, Cohen's kappa,
    and where they differ.
    """
    from berdslib.construction import review

    first = review.read_sheet(sheet)
    if second is None:
        print_frame(review.summary(first))
        return
    other = review.read_sheet(second)
    tables = {"agreement": review.reviewer_agreement(first, other), "differences": review.disagreements(first, other)}
    print_tables(tables)
