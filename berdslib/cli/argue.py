"""`berds argue`: the shared task PerspectiveArg 2024, its predictions files and its scores."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berdslib.cli.inputs import split_names
from berdslib.cli.options import DEPTH, FOLDER, JSON, POSITIVE, RECORDINGS, say, together
from berdslib.cli.root import main
from berdslib.errors import BerdsError, InputError, printable

if TYPE_CHECKING:  # the command line starts before pandas is loaded
    import pandas as pd

    from berdslib.data.arguments import Release
    from berdslib.data.scenario import Scenario

RELEASE = click.argument("release")
_FILES: dict[str, Any] = {"nargs": -1, "metavar": "PREDICTIONS...", "type": click.Path()}
PREDICTIONS = click.argument("predictions", required=True, **_FILES)
_SCENARIO: dict[str, Any] = {
    "type": click.Choice(["baseline", "explicit", "implicit"]),
    "help": "What systems see: the text alone; properties of queries and of authors; properties of queries only.",
}
SCENARIO = click.option("-s", "--scenario", required=True, **_SCENARIO)
SPLIT = click.option("--split", type=click.Choice(["train", "dev", "test"]), default="dev", show_default=True)
READING = together(
    click.option(
        "--least",
        type=click.IntRange(min=0),
        default=20,
        show_default=True,
        help="Arguments that each query must list; with 0 it may also have no answer, which scores as nothing found.",
    ),
    click.option(
        "--repeats",
        type=click.Choice(["error", "once"]),
        default="error",
        show_default=True,
        help="An id that a query lists twice: an error, or counted once, where it is first.",
    ),
)
OFFICIAL = click.option(
    "--official", is_flag=True, help="By the definitions of the published script (docs/divergences.md, rows A)."
)


@main.group()
def argue() -> None:
    """The shared task PerspectiveArg 2024: search, score, rank and check predictions files.

    RELEASE is a folder with corpus.jsonl, baseline-queries and perspective-queries, or the name of a data set.

    \b
    berds argue make release                                          (a synthetic one, to try things on)
    berds argue run release -s explicit -r bm25,minilm -o predictions
    berds argue evaluate release predictions/bm25.jsonl -s explicit
    berds argue compare release predictions/*.jsonl -s explicit
    """


@argue.command("make")
@click.argument("folder", type=FOLDER)
@click.option("--arguments", default=26_000, show_default=True, type=POSITIVE, help="How many.")
@click.option("--issues", default=300, show_default=True, type=POSITIVE, help="Questions that they answer.")
@click.option("--seed", default=0, show_default=True, help="The same seed makes the same release.")
@JSON
def make(folder: Path, arguments: int, issues: int, seed: int, as_json: bool) -> None:
    """Write a synthetic release to FOLDER: made-up arguments of made-up people, which say so wherever they are shown.

    \b
    berds argue make small --arguments 600 --issues 12
    """
    from berdslib.data.release_summary import summarise
    from berdslib.data.synthetic_arguments import make_release, write_release

    release = make_release(seed=seed, arguments=arguments, issues=issues)
    write_release(folder, release)
    say({"output": folder, **summarise(release)}, f"{release!r} → {folder}", as_json)


@argue.command("run")
@RELEASE
@SCENARIO
@SPLIT
@click.option(
    "-r",
    "--systems",
    default="bm25,minilm",
    show_default=True,
    help="Systems, comma-separated, such as bm25, minilm+mmr:0.9, minilm+profile:fusion.",
)
@click.option("--train", metavar="RELEASE", help="Whose training split systems may learn from. [the same]")
@RECORDINGS
@DEPTH
@click.option("-k", default=100, show_default=True, type=POSITIVE, help="Arguments per query; the task asks for 20.")
@click.option("-o", "--output", required=True, type=FOLDER, help="Folder that gets a predictions file a system.")
@JSON
def run(
    release: str,
    scenario: str,
    split: str,
    systems: str,
    train: str | None,
    recordings: Path | None,
    depth: int,
    k: int,
    output: Path,
    as_json: bool,
) -> None:
    """Search a release with systems and write a predictions file for each.

    A system sees what the scenario's rule allows, and no more. What several systems share is built once. Each file is
    written as soon as its system is done; one that fails costs its own file only.

    \b
    berds argue run release -s explicit --split dev -r bm25,minilm+profile:fusion -o predictions
    """
    from berdslib.data.predictions import ENOUGH, write_predictions
    from berdslib.data.releases import load_scenario
    from berdslib.retrieval.parts import parse_system
    from berdslib.study.experiment import file_stems, search
    from berdslib.study.leaderboard import settings

    stems = file_stems(dict.fromkeys(parse_system(name).text for name in split_names(systems)))
    opened = load_scenario(release, scenario, split, train=train)
    click.echo(printable(repr(opened)), err=True)
    rows, failed = [], list[str]()
    for system, built in _build(list(stems), opened, depth, recordings, failed).items():
        with _costs_itself_only(system, failed):
            found = search(built, opened, k)
            path = output / f"{stems[system]}.jsonl"
            write_predictions(path, found, opened)
            lengths = found["qid"].value_counts().reindex([q.qid for q in opened.questions], fill_value=0)
            answered, short = (int(n) for n in ((lengths > 0).sum(), (lengths < ENOUGH).sum()))
            rows.append({"system": system, "output": str(path), "answered": answered, "short": short})
            if not as_json:
                counts = f"{len(found)} arguments for {answered} of {len(lengths)} queries"
                few = f"; {short} of them got fewer than {ENOUGH}" if short else ""
                click.echo(printable(f"{system}: {counts}{few} → {path}"), err=True)
    if as_json:
        click.echo(json.dumps({"data": settings(opened), "systems": rows}, indent=1))
    _exit(failed)


@argue.command("evaluate")
@RELEASE
@PREDICTIONS
@SCENARIO
@SPLIT
@OFFICIAL
@click.option("-m", "--measures", help="Such as nDCG@20,rKL(step=2)@20. [nDCG, P, alpha_nDCG and rKL at 4, 8, 16, 20]")
@READING
@click.option("-o", "--output", type=FOLDER, help="Folder for relevance.csv, diversity.csv and results.json.")
@JSON
def evaluate(
    release: str,
    predictions: Sequence[str],
    scenario: str,
    split: str,
    official: bool,
    measures: str | None,
    least: int,
    repeats: str,
    output: Path | None,
    as_json: bool,
) -> None:
    """Score predictions files: relevance and diversity, at each cut-off.

    With -o FOLDER, results are written as the task reports them: relevance.csv (system, k, nDCG, P), diversity.csv
    (system, k, alpha_nDCG, rKL), and both with the settings in results.json. The task's owners have not put the exact
    names of their columns on record, so these are ours; the names of measures by their definitions (--official) begin
    with official_. Of rKL less is better. A file that cannot be used costs its own scores only.

    \b
    berds argue evaluate release bm25.jsonl minilm.jsonl -s explicit --split dev
    berds argue evaluate release bm25.jsonl -s baseline --official -o results
    """
    from berdslib.study.leaderboard import at_cutoffs, records, settings, write_results

    wanted = _measures(official, measures)
    opened, scores, failed = _scores(release, predictions, scenario, split, wanted, least, repeats)
    if scores:
        definitions = _definitions(official, measures)
        table = at_cutoffs(scores, opened)
        if as_json:
            click.echo(json.dumps({"data": settings(opened, definitions), "means": records(table)}, indent=1))
        else:
            click.echo(printable(f"{opened!r}; means over queries; definitions: {definitions}"))
            _print(table.drop(columns="synthetic"))
        if output:
            for path in write_results(output, scores, opened, definitions):
                click.echo(printable(f"→ {path}"), err=True)
    _exit(failed)


@argue.command("compare")
@RELEASE
@PREDICTIONS
@SCENARIO
@SPLIT
@OFFICIAL
@click.option("-m", "--measures", help="To rank by, a table each. [nDCG@20 and alpha_nDCG@20]")
@READING
@click.option("-o", "--output", type=FOLDER, help="Folder for leaderboard.csv.")
@JSON
def compare(
    release: str,
    predictions: Sequence[str],
    scenario: str,
    split: str,
    official: bool,
    measures: str | None,
    least: int,
    repeats: str,
    output: Path | None,
    as_json: bool,
) -> None:
    """Rank predictions files as on a leaderboard: by relevance (nDCG@20), and by diversity (alpha_nDCG@20).

    Means over queries with 95 % intervals, and a paired test of each system against the best, Holm-corrected.
    Intervals and tests take all queries about one issue together, since these are not independent; with a single issue
    there is no interval.

    \b
    berds argue compare release bm25.jsonl minilm.jsonl -s explicit --split dev
    berds argue compare release *.jsonl -s implicit --split test -m nDCG@4,rKL@20 -o results
    """
    import pandas as pd

    from berdslib.files import write_text
    from berdslib.study.leaderboard import leaderboard, records, settings, shown, track

    wanted = _measures(official, measures)
    if not measures:  # what the task ranks by
        deepest = max(m["cutoff"] for m in wanted)
        wanted = [m for m in wanted if m["cutoff"] == deepest and m.NAME.endswith("nDCG")]
    opened, scores, failed = _scores(release, predictions, scenario, split, wanted, least, repeats)
    if scores:
        tables = [leaderboard(scores, opened, by=name) for name in next(iter(scores.values())).columns]
        whole, about = pd.concat(tables, ignore_index=True), settings(opened, _definitions(official, measures))
        if as_json:
            click.echo(json.dumps({"data": about, "leaderboard": records(whole)}, indent=1))
        else:
            n = tables[0]["issues"].iloc[0]
            heading = f"{opened!r}, {n} issue{'' if n == 1 else 's'}; definitions: {about['definitions']}"
            heading += "; 95 % intervals; paired test against the best"
            click.echo(printable(heading))
            for table in tables:
                name = table["measure"].iloc[0]
                click.echo(printable(f"\n{track(name).capitalize()}, by {name}"))
                click.echo(printable(shown(table).to_string(index=False)))
        if output:
            path = output / "leaderboard.csv"
            whole = whole.assign(**{name: about[name] for name in ("release", "scenario", "split", "definitions")})
            with write_text(path) as file:
                whole.to_csv(file, index=False, lineterminator="\n")
            click.echo(printable(f"→ {path}"), err=True)
    _exit(failed)


@argue.command("validate")
@RELEASE
@click.argument("predictions", **_FILES)
@click.option("-s", "--scenario", **_SCENARIO)
@SPLIT
@READING
@JSON
def validate(
    release: str,
    predictions: Sequence[str],
    scenario: str | None,
    split: str,
    least: int,
    repeats: str,
    as_json: bool,
) -> None:
    """Check a release, and predictions files for it: what is there, or the first problem of each file.

    Prints counts only: arguments, queries, and how many arguments lack each property. The exit status is 1 where there
    is a problem.

    \b
    berds argue validate release
    berds argue validate release bm25.jsonl -s explicit --split test
    """
    from berdslib.data.arguments import is_release, read_release
    from berdslib.data.predictions import read_predictions
    from berdslib.data.release_summary import summarise
    from berdslib.data.releases import load_release
    from berdslib.data.scenario import open_scenario

    if predictions and scenario is None:
        raise click.UsageError("predictions are for a scenario; name it with -s")
    problems: list[InputError] = []
    found = read_release(release, problems=problems) if is_release(release) else load_release(release)
    summary, failed = summarise(found), [str(one) for one in problems]
    for one in failed:
        click.echo(printable(f"berds: {one}"), err=True)
    if not as_json:
        _print_summary(found, summary)
    checked = []
    if predictions and failed:
        click.echo("berds: predictions can be checked once the release is good", err=True)
    elif predictions and scenario:
        opened = open_scenario(found, scenario, split)
        for path in predictions:
            before = len(failed)
            with _costs_itself_only("", failed):
                answered = read_predictions(path, opened, least=least, repeats=repeats)["qid"].nunique()
                if not as_json:
                    click.echo(printable(f"{path}: good; {answered} of {len(opened.questions)} queries answered"))
            checked.append({"path": path, "problem": failed[-1] if len(failed) > before else None})
    if as_json:
        click.echo(json.dumps({**summary, "problems": list(map(str, problems)), "predictions": checked}, indent=1))
    wrong = summary["contradictions"]
    if wrong and wrong["contradicting"]:
        counts = f"{wrong['contradicting']} of {wrong['relevant']} relevant arguments, in {wrong['queries']} queries,"
        click.echo(f"berds: warning: {counts} are by authors known not to be what the query asks for", err=True)
    _exit(failed)


# ---------------------------------------------------------------- what the commands share


def _measures(official: bool, named: str | None) -> list[Any]:
    from berdslib.evaluation.argument_task import ARGUMENT_MEASURES, OFFICIAL_MEASURES
    from berdslib.evaluation.measures import parse_measures

    if official and named:
        raise click.UsageError("--official names its own measures; with -m name them, such as official_nDCG@20")
    if named:
        return list(parse_measures(named))
    return list(OFFICIAL_MEASURES if official else ARGUMENT_MEASURES)


def _definitions(official: bool, named: str | None) -> str:
    return "as named" if named else "published script" if official else "papers"


def _build(
    systems: Sequence[str], opened: Scenario, depth: int, recordings: Path | None, failed: list[str]
) -> dict[str, Any]:
    """Return system → what searches, for all systems that can be built."""
    from berdslib.study.arguments import judge_of, store_of
    from berdslib.study.experiment import build

    judge, store = cache(lambda: judge_of("laptop", opened)), store_of(None)

    def built(names: Sequence[str]) -> dict[str, Any]:
        named = {name: name for name in names}
        return build(named, opened, aspect_judge=judge, store=store, depth=depth, recordings=recordings)

    try:
        return built(systems)
    except BerdsError:  # of which system, only building one after the other tells
        found = dict[str, Any]()
        for system in systems:
            with _costs_itself_only(system, failed):
                found |= built([system])
        return found


def _scores(
    release: str, predictions: Sequence[str], rule: str, split: str, measures: list[Any], least: int, repeats: str
) -> tuple[Scenario, dict[str, pd.DataFrame], list[str]]:
    """Return the scores of all files that can be used, by system, and what is wrong with the others."""
    from tqdm.auto import tqdm

    from berdslib.data.predictions import read_predictions
    from berdslib.data.releases import load_scenario
    from berdslib.evaluation.argument_task import evaluate_arguments

    named = _system_names(predictions)
    opened = load_scenario(release, rule, split)
    scores, failed = dict[str, Any](), list[str]()
    for name, path in tqdm(named.items(), desc="scoring", unit="file", delay=2, leave=False):
        with _costs_itself_only("", failed):
            found = read_predictions(path, opened, least=least, repeats=repeats)
            scores[name] = evaluate_arguments(found, opened, measures)
    return opened, scores, failed


def _system_names(paths: Sequence[str]) -> dict[str, str]:
    """Return name → path: a system is called like its file, or where two files are called alike, like their path."""
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise InputError("is named twice", path=twice)
    stems = [Path(path).name.removesuffix(".gz").removesuffix(".jsonl") for path in paths]
    return {stem if stems.count(stem) == 1 else path: path for stem, path in zip(stems, paths, strict=True)}


@contextmanager
def _costs_itself_only(what: str, failed: list[str]) -> Iterator[None]:
    """Report an error of the block, and go on: what has been computed, and what comes later, is not lost."""
    try:
        yield
    except BerdsError as error:
        problem = f"{what}: {error}" if what else str(error)
        failed.append(problem)
        click.echo(printable(f"berds: {problem}"), err=True)


def _exit(failed: list[str]) -> None:
    if failed:
        sys.exit(1)


def _print(table: pd.DataFrame) -> None:
    click.echo(printable(table.to_string(index=False, na_rep="", float_format=lambda x: f"{x:.3f}")))


def _print_summary(release: Release, summary: dict[str, Any]) -> None:
    import pandas as pd

    click.echo(printable(repr(release)))
    if summary["queries"]:
        _print(pd.DataFrame(summary["queries"]).rename(columns={"with_answers": "with answers"}))
    unknown = summary["unknown"]
    _print(pd.DataFrame({"property": unknown.keys(), "unknown for": unknown.values()}))
