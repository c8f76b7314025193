"""`berds grid`: one notebook over many settings, from the plan to the report."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from berdslib.cli import options
from berdslib.cli.options import JSON, end, flag, print_frame, refuse, say, show, wants_json
from berdslib.cli.root import main

if TYPE_CHECKING:
    from berdslib.study.grid import Grid

_RUNNING = options.together(
    options.PLACES,
    options.number("--limit", 0, "Begin at most so many runs; 0 for all.", options.NATURAL),
    options.text("--minutes", "End a run that takes longer. [the file's, else 12 hours]", type=float),
    options.text("--memory", "End a run that takes more than so many GB. [the file's, else no limit]", type=float),
    flag("--stop-on-error", "Start nothing new after the first failure."),
    flag("--keep-going", "Start all, whatever fails. [stop after three alike in a row]"),
)


def _of_file(command: Callable[..., None]) -> Callable[..., None]:
    """Have a command take a grid file and a profile, and give it the checked grid."""

    @click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
    @options.text("--profile", "Profile of the file, such as laptop.", "")
    @JSON
    @functools.wraps(command)
    def reads(path: Path, profile: str, **given: Any) -> None:
        from berdslib.study.grid import read_grid
        from berdslib.study.notebooks import find_grid

        command(read_grid(find_grid(path), profile), **given)

    return cast("Callable[..., None]", reads)


@main.group()
def grid() -> None:
    """Grids: one notebook with many settings, see papermill_runs/README.md.

    Every command checks the whole file first.
    """


@grid.command("plan")
@_of_file
def grid_plan(asked: Grid) -> None:
    """Check a grid file, and say what `run` would do; nothing is started."""
    _plan(asked)


def _plan(asked: Grid) -> None:
    from berdslib.study.grid import DONE, missing_data, status

    rows = status(asked)
    spent, missing = [row["seconds"] for row in rows if row["state"] == DONE], missing_data(asked)
    about = {"grid": asked.name, "runs": len(rows), "finished": len(spent), "missing": missing}
    said = [f"{asked.name}: {len(rows)} runs of {asked.notebook.path.stem}, {len(spent)} of them finished"]
    said.append(f"results: {asked.summary}")
    if spent and len(spent) < len(rows):
        each, left = sum(spent) / len(spent), len(rows) - len(spent)
        said.append(f"those took {each:.1f} s each: about {each * left / 60:.0f} min for {left} more, one at a time")
    said += [f"each may take {name} {amount:g}" for name, amount in asked.resources._asdict().items() if amount]
    said += [f"not on this machine: {', '.join(missing)}"] if missing else []
    show(about | {"plan": [row["parameters"] for row in rows]}, "\n".join(said))


@grid.command("run")
@_of_file
@_RUNNING
@flag("--dry-run", "Start nothing, only say what would be run: grid plan.")
def grid_run(asked: Grid, dry_run: bool, **how: Any) -> None:
    """Run all unfinished runs of a grid, and collect.

    Failures are printed as they happen; after three in a row for the same reason nothing new starts. The exit code is 1
    if a run failed. Several calls at the same time share the work.
    """
    if dry_run:
        _plan(asked)
    else:
        _run(asked, **how)


@grid.command("retry")
@_of_file
@_RUNNING
def grid_retry(asked: Grid, **how: Any) -> None:
    """Run only what failed or was broken off."""
    _run(asked, only_failed=True, **how)


def _run(
    asked: Grid, *, minutes: float | None, memory: float | None, stop_on_error: bool, keep_going: bool, **how: Any
) -> None:
    from berdslib.study.grid import DONE, best_run, grid_table, status
    from berdslib.study.running import run_grid

    refuse(how["workers"] and how["scheduler"], options.NOT_BOTH)
    refuse(stop_on_error and keep_going, "give --stop-on-error or --keep-going, not both")
    limits = asked.resources
    limits = limits._replace(minutes=minutes or limits.minutes, memory=memory or limits.memory)
    how |= {"workers": how["workers"] or 1, "stop_after": 1 if stop_on_error else None if keep_going else 3}
    failures = run_grid(asked._replace(resources=limits), **how)
    best, finished = best_run(asked, grid_table(asked)), sum(row["state"] == DONE for row in status(asked))
    if best and not wants_json():
        who = f"{best['system']} of " if best["system"] else ""
        mean = f"mean of {best['tasks']} tasks " if best["tasks"] > 1 else ""
        where = f"{who}{', '.join(best['runs'])}"
        click.echo(f"best of {best['compared']}: {where}, {mean}{best['value']:.4f}, {best['parameters']}")
    summary = {"grid": asked.name, "runs": len(asked.runs), "finished": finished, "failures": failures}
    sentence = f"{finished} of {len(asked.runs)} runs finished, {len(failures)} failed → {asked.summary}"
    say(summary | {"summary": asked.summary, "best": best}, sentence)
    end(failures)


@grid.command("status")
@_of_file
def grid_status(asked: Grid) -> None:
    """List the runs: finished, running, failed (and why), broken off, not started."""
    import pandas as pd

    from berdslib.study.grid import status

    rows = status(asked)
    if wants_json():
        show(rows, "")
        return
    parameters = pd.DataFrame([row.pop("parameters") for row in rows])
    varied = [name for name in parameters if parameters[name].astype(str).nunique() > 1]
    frame = pd.concat([pd.DataFrame(rows), parameters[varied]], axis=1)
    print_frame(frame.assign(error=frame["error"].str.partition("\n")[0].str[:80]))
    click.echo(", ".join(f"{n} {state}" for state, n in Counter(frame["state"]).items()))


@grid.command("collect")
@_of_file
def grid_collect(asked: Grid) -> None:
    """Write one table of all finished runs (CSV and Parquet), and their TREC runs with a header of ir_metadata."""
    from berdslib.study.grid import collect

    rows = len(collect(asked))
    say({"grid": asked.name, "rows": rows, "summary": asked.summary}, f"{rows} rows → {asked.summary}")


@grid.command("report")
@_of_file
def grid_report(asked: Grid) -> None:
    """Collect, and sum up in a notebook: a table, corpus by retriever, precision against recall.

    The table has letters where the runs keep scores of questions, as those of system.ipynb do. Of runs whose results
    are no means of measures it shows the columns that they have.
    """
    from berdslib.study.grid import report

    done = report(asked)
    say({**done.record, "output": done.notebook}, f"→ {done.notebook}, its pictures beside it")


@grid.command("clean")
@_of_file
@flag("--all", "Also those of runs that are finished.")
@flag("--dry-run", "Delete nothing, only list.")
def grid_clean(asked: Grid, dry_run: bool, **how: bool) -> None:
    """Delete the folders of runs that failed or were broken off."""
    from berdslib.study.grid import clean

    folders = [str(folder) for folder in clean(asked, everything=how["all"], dry_run=dry_run)]
    show(folders, "\n".join([*folders, f"{len(folders)} folders {'would be ' if dry_run else ''}deleted"]))
