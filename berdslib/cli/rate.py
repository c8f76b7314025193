"""`berds rate`: label pairs, review questions, and measure how far people and judges agree."""

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
@number("--draw", 0, "Questions with two perspectives to draw from each source (a field); 0 for all.", NATURAL)
@number("--pairs size", 0, "Draw N pairs from all; 0 for all.", NATURAL)
@options.text("--doubt", "With --pairs: not a random draw, but the N pairs on which these judges, such as "
              "similarity,laptop, differ most, sorted by the column doubt (0 to 1).")  # fmt: skip
@options.SEED
@number(
    "--near",
    0.8,
    "Similarity from which a document repeats an earlier one of its question and is left out.",
    options.SHARE,
)
@options.judge_option(None, " [none: people fill in the labels]")
@options.STORE
@options.output("TSV to write.")
@JSON
def rate_pairs(
    systems: str | None, runs: tuple[str, ...], k: int, draw: int, size: int, doubt: str | None, seed: int, near: float,
    judge: str | None, store: Path | None, output: Path, **given: Any,
) -> None:  # fmt: skip
    """Write (question, document, perspective) pairs to be labelled, for `berds rate judge --data`. BeRDS A.4.

    The documents are those that the retrievers or runs list, each with every perspective of its question. People fill
    in the last column with 1 or 0. A judge's labels can train another judge, but cannot evaluate the judge itself.

    \b
    berds rate pairs -q sample -r bm25 --pairs 30 -j laptop -o pairs.tsv      (BeRDS B.3: 300 pairs of a setting)
    berds rate judge --data pairs.tsv -j overlap                              (one judge against the other: Table 18)
    """
    from berdslib.data.corpus import by_docno
    from berdslib.judging import examples
    from berdslib.judging.registry import make_judge
    from berdslib.judging.store import VerdictStore
    from berdslib.study.front import search
    from berdslib.study.raters import most_doubtful

    refuse(systems and runs, "give systems or finished runs, not both")
    refuse(doubt and not size, "--doubt needs --pairs N")
    collection = read_collection(given)
    if draw:
        collection = collection.only(examples.draw_questions(list(collection.questions), draw, seed))
    questions = list(collection.questions)
    chosen = make_judge(judge, collection.gold) if judge else None
    verdicts = VerdictStore(store)
    lists = list(read_runs(runs, collection).values())
    if not runs:
        for name in parsed_systems(systems or "bm25,minilm"):
            lists.append(search(name, collection, k, store=verdicts))
    passages = by_docno(collection.passages)
    listed = examples.detection_pairs(questions, lists, passages, k=k, near=None)
    pairs = examples.detection_pairs(questions, lists, passages, k=k, near=near)
    left_out = len(listed) - len(pairs)
    doubts = None
    if doubt:
        pairs, doubts = most_doubtful(pairs, split_names(doubt), size, verdicts)
    elif size:
        pairs = examples.draw_pairs(pairs, size, seed)
    written = len(pairs)
    labels = "to be labelled with 1 or 0"
    if chosen is None:
        examples.write_unlabelled(output, pairs, questions, doubts=doubts)
    else:
        labelled = examples.label_by_judge(pairs, questions, chosen, verdicts)
        examples.write_examples(output, labelled)
        written = len(labelled)
        labels = f"labelled by {chosen.id}"
    asked = len({pair.qid for pair in pairs})
    summary = {"output": output, "questions": asked, "pairs": written, "left_out": left_out}
    summary["judge"] = chosen.id if chosen else None
    repeated = f"{left_out} with a repeated document left out"
    say(summary, f"{written} pairs of {asked} questions, {repeated}, {labels} → {output}")


@rate.command("judge")
@options.text("--data path", "Labelled pairs: pers-det, or a table with the columns question, document, perspective, "
              "label.", required=True)  # fmt: skip
@_judges("random,overlap,similarity,laptop")
@options.text("--against", "Another judge, whose answers replace the labels.")
@number("--repeat", 1, "Ask each judge N times, and show how much its answers vary.")
@options.STORE
@JSON
def rate_judge(path: str, judges: str, against: str | None, repeat: int, store: Path | None) -> None:
    """Evaluate judges against human labels; intervals are clustered by question. BeRDS Tables 4 and 18.

    The first row is a judge that says yes to everything: an F1 close to its own is worthless. `random` says yes as
    often as the labels do. --json also has kappa and the thresholds.

    Use this only for evaluation: choose judges, prompts and thresholds on other data.
    """
    from berdslib.data.datasets import load_pairs
    from berdslib.judging.registry import check_judge
    from berdslib.judging.store import VerdictStore
    from berdslib.study.raters import judge_table, labelled_by, repeat_table

    pairs = load_pairs(path)
    verdicts = VerdictStore(store)
    names = split_names(judges)
    for name in names:
        check_judge(name)  # before the judge of --against runs
    if against:
        pairs = labelled_by(against, pairs, verdicts)
    if repeat > 1:
        print_frame(repeat_table(pairs, names, repeat), ("changed", "f1_low", "f1_high"))
        return
    table = judge_table(pairs, names, verdicts)
    questions = len({pair.question for pair in pairs})
    positive = sum(pair.label for pair in pairs) / len(pairs)
    tell(f"{len(pairs)} pairs, {questions} questions, {positive:.1%} positive")
    print_frame(table if options.wants_json() else _wide(table))


def _wide(table: Any) -> Any:
    """Return one row per judge and one column per measure, with intervals."""
    names = ["said_yes", "accuracy", "f1", "precision", "recall", "auc", "calibration_error"]
    shown = table[table["measure"].isin(names)]
    text = {}
    for column in ("value", "low", "high"):
        percent = (100 * shown[column]).map("{:.1f}".format)
        text[column] = percent.where(shown["measure"] != "auc", shown[column].map("{:.3f}".format))
    interval = " [" + text["low"] + ", " + text["high"] + "]"
    cells = text["value"] + interval.where(shown["low"] < shown["high"], "")
    wide = shown.assign(cell=cells).pivot(index="judge", columns="measure", values="cell")
    wide = wide.reindex(index=shown["judge"].unique(), columns=names).rename_axis(columns=None)
    wide = wide.dropna(axis="columns", how="all")
    return wide.rename(columns={name: f"{name}, %" for name in names if name != "auc"}).reset_index()


@rate.command("fit")
@click.argument("labels")
@options.judge_option("laptop")
@options.text("--share", "Share of yes where the judge will be used. [that of the labels]", type=options.SHARE)
@options.STORE
@options.SEED
@options.output("Folder of the fitted judge.", FOLDER)
@JSON
def rate_fit(labels: str, judge: str, share: float | None, store: Path | None, seed: int, output: Path) -> None:
    """Fit a judge's probabilities and threshold to labels of yours: pairs as `berds rate pairs` writes them.

    The table compares both judges on questions held out in turn: each fifth of them by a fit to the other four. Use
    `refit:FOLDER` as a judge; it cannot be evaluated on the same labels.

    \b
    berds rate pairs -q theperspective -r bm25 --draw 30 --pairs 60 -o to_label.tsv     (fill in the last column)
    berds rate fit to_label.tsv -j laptop -o mine
    berds experiment -q theperspective -r bm25,minilm -j refit:mine
    """
    from berdslib.data.datasets import load_pairs
    from berdslib.judging.refit import save_refit
    from berdslib.judging.store import VerdictStore
    from berdslib.study.raters import fit_judge

    pairs = load_pairs(labels)
    found = fit_judge(judge, pairs, VerdictStore(store), positive_share=share, seed=seed)
    save_refit(output, judge, found.judge)
    print_frame(found.table if options.wants_json() else _wide(found.table))
    advice = "use it" if found.gained[1] > 0 else f"keep {judge}"
    spread = " to ".join(f"{value:.2f}" for value in found.thresholds)
    questions = len({pair.question for pair in pairs})
    tell(
        f"{len(pairs)} pairs, {questions} questions: threshold {found.judge.threshold:.2f} ({spread} on other draws of "
        f"the questions), {found.judge.note}: {advice}; -j refit:{output} is the fitted judge"
    )


@rate.command("systems")
@options.questions()
@options.systems(
    "bm25,rank-bm25,bm25+mmr:0.75,bm25+mmr:0.5,bm25+expand:rule,minilm,minilm+mmr:0.9,minilm+mmr:0.75,minilm+mmr:0.5,"
    "minilm+mmr:0.25,minilm+dpp:0.5,minilm+expand:rule",
    " 12 or more.",
)
@options.RUNS
@_judges("overlap,similarity,laptop")
@options.verdicts("--gold")
@options.MEASURES
@options.SEARCHING
@options.output("Folder for the tables and a figure for each measure.", FOLDER, False)
@JSON
def rate_systems(
    systems: str,
    runs: tuple[str, ...],
    judges: str,
    gold: str | None,
    measures: str | None,
    output: Path | None,
    **given: Any,
) -> None:
    """Does a judge order systems as gold does? Kendall's tau, and what labels on 20 or 40 questions add.

    The questions need gold verdicts. Every judge judges each pair once that any system lists within the deepest cut-off
    of the measures; a smaller cut-off saves a slow judge's time.

    \b
    berds rate systems -q theperspective -j overlap,similarity,laptop -o judged
    """
    from berdslib.study import raters
    from berdslib.study.figures import save_figure, use_style
    from berdslib.study.figures.values import judged_systems_figure
    from berdslib.study.tables import file_stems

    named = parsed_systems(systems)
    collection = read_collection(given, gold=gold)
    named |= read_runs(runs, collection)
    wanted = measures or "MRecall@5,Precision@5"
    result = raters.judge_systems(named, collection, split_names(judges), wanted, **given)
    tell(f"{len(collection.questions)} questions, {len(named)} systems, {result.pairs} pairs for each judge")
    tables = {name: getattr(result, name) for name in ("order", "table", "labels")}
    if options.wants_json():
        print_tables(tables)
    else:
        scores = raters.score_sheet(result)
        labels = result.labels[result.labels["system"] == "all"].drop(columns="system")
        shares = {"same", "same_low", "same_high", "alike", "reversed", "tied", "bias", "error", "width", "coverage"}
        shares |= set(scores.columns[1:])
        print_tables({"scores": scores, "order": result.order, "labels": labels}, shares=shares)
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

    If QUESTIONS is JSONL, or a data set from `berds build`, the sheet also shows the texts in its field `sources`. Give
    each reviewer a copy. It opens in a spreadsheet, or in a notebook with
    `berdslib.construction.form.ReviewForm("sheet.csv", "name")`.
    """
    from berdslib.construction.review import draw_sheet, read_sources, write_sheet
    from berdslib.data import saved

    if output.exists():
        raise InputError("exists and may hold answers; name another file", path=output)
    text = given["questions"]
    collection = read_collection(given, need_passages=False)
    path = Path(text) / saved.QUESTIONS if saved.is_saved(text) else Path(text)
    with errors_in(text):
        sources = read_sources(path) if path.suffix == ".jsonl" else {}
        rows = draw_sheet(collection.questions, sources, n, seed)
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

    For two filled-in copies of a sheet, it prints the share of equal answers with its exact interval, Cohen's kappa and
    the differences.
    """
    from berdslib.construction import review

    first = review.read_sheet(sheet)
    if second is None:
        print_frame(review.summary(first))
        return
    other = review.read_sheet(second)
    agreement = review.reviewer_agreement(first, other)
    print_tables({"agreement": agreement, "differences": review.disagreements(first, other)})
