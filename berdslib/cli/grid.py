"""`berds grid`: one notebook over many settings, from the plan to the report."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berdslib.cli.options import (
    JSON,
    NATURAL,
    POSITIVE,
    end,
    flag,
    number,
    print_frame,
    refuse,
    say,
    show,
    text,
    together,
    wants_json,
)
from berdslib.cli.root import main

if TYPE_CHECKING:
    from berdslib.study.grid import Grid

_FILE = together(
    click.argument("path", metavar="FILE", type=click.Path(path_type=Path)),
    text("--profile", "Profile of the file, such as laptop.", ""),
    JSON,
)
_RUNNING = together(
    click.option("--workers", type=POSITIVE, help="Notebooks to run in parallel on this machine. [1]"),
    click.option("--scheduler", metavar="ADDRESS", help="Run on the dask cluster there, such as tcp://host:8786."),
    number("--limit", 0, "Begin at most so many runs; 0 for all.", NATURAL),
    click.option("--minutes", type=float, help="End a run that takes longer. [the file's, else 12 hours]"),
    click.option("--memory", type=float, help="End a run that takes more than so many GB. [the file's, else no limit]"),
    flag("--stop-on-error", "Start nothing new after the first failure."),
    flag("--keep-going", "Start all, whatever fails. [stop after three alike in a row]"),
)


@main.group()
def grid() -> None:
    """Grids: one notebook with many settings, see papermill_runs/README.md.

    Every command checks the whole file first.
    """


@grid.command("plan")
@_FILE
def grid_plan(path: Path, profile: str) -> None:
    """Check a grid file, and say what `run` would do; nothing is started."""
    from berdslib.study.grid import read_grid

    _plan(read_grid(path, profile))


@grid.command("run")
@_FILE
@_RUNNING
@flag("--dry-run", "Start nothing, only say what would be run: grid plan.")
def grid_run(path: Path, profile: str, dry_run: bool, **how: Any) -> None:
    """Run all unfinished runs of a grid, and collect.

    Failures are printed as they happen; after three in a row for the same reason nothing new starts. The exit code is 1
    if a run failed. Several calls at the same time share the work.
    """
    from berdslib.study.grid import read_grid

    asked = read_grid(path, profile)
    if dry_run:
        _plan(asked)
    else:
        _run(asked, **how)


@grid.command("retry")
@_FILE
@_RUNNING
def grid_retry(path: Path, profile: str, **how: Any) -> None:
    """Run only what failed or was broken off."""
    from berdslib.study.grid import read_grid

    _run(read_grid(path, profile), only_failed=True, **how)


@grid.command("status")
@_FILE
def grid_status(path: Path, profile: str) -> None:
    """List the runs: finished, running, failed (and why), broken off, not started."""
    import pandas as pd

    from berdslib.study.grid import read_grid, status

    rows = status(read_grid(path, profile))
    if wants_json():
        show(rows, "")
        return
    parameters = pd.DataFrame([row.pop("parameters") for row in rows])
    varied = [name for name in parameters if parameters[name].astype(str).nunique() > 1]
    frame = pd.concat([pd.DataFrame(rows), parameters[varied]], axis=1)
    print_frame(frame.assign(error=frame["error"].str.partition("\n")[0].str[:80]))
    click.echo(", ".join(f"{n} {state}" for state, n in Counter(frame["state"]).items()))


@grid.command("collect")
@_FILE
def grid_collect(path: Path, profile: str) -> None:
    """Write one table of all finished runs (CSV and Parquet), and their TREC runs with a header of ir_metadata."""
    from berdslib.study.grid import collect, read_grid

    asked = read_grid(path, profile)
    rows = len(collect(asked))
    say({"grid": asked.name, "rows": rows, "summary": asked.summary}, f"{rows} rows → {asked.summary}")


@grid.command("report")
@_FILE
def grid_report(path: Path, profile: str) -> None:
    """Collect, and sum up in a notebook: a table with letters, corpus by retriever, precision against recall."""
    from berdslib.study.grid import read_grid, report

    done = report(read_grid(path, profile))
    say({**done.record, "output": done.notebook}, f"→ {done.notebook}")


@grid.command("clean")
@_FILE
@flag("--all", "Also those of runs that are finished.")
@flag("--dry-run", "Delete nothing, only list.")
def grid_clean(path: Path, profile: str, dry_run: bool, **how: bool) -> None:
    """Delete the folders of runs that failed or were broken off."""
    from berdslib.study.grid import clean, read_grid

    folders = clean(read_grid(path, profile), everything=how["all"], dry_run=dry_run)
    word = "would be deleted" if dry_run else "deleted"
    show([str(folder) for folder in folders], "\n".join([*map(str, folders), f"{len(folders)} folders {word}"]))


def _plan(asked: Grid) -> None:
    from berdslib.study.grid import DONE, missing_data, status

    rows = status(asked)
    spent = [row["seconds"] for row in rows if row["state"] == DONE]
    left = len(rows) - len(spent)
    each = round(sum(spent) / len(spent), 1) if spent else None
    about: dict[str, Any] = {"grid": asked.name, "notebook": asked.notebook.path.stem, "runs": len(rows)}
    about |= {"finished": len(spent), "seconds_each": each}
    about |= {"resources": asked.resources._asdict(), "missing": missing_data(asked)}
    said = [f"{asked.name}: {len(rows)} runs of {about['notebook']}, {len(spent)} of them finished"]
    if each and left:
        said.append(f"those took {each} s each: about {each * left / 60:.0f} min for the {left} left, one at a time")
    if needed := {name: amount for name, amount in about["resources"].items() if amount}:
        said.append("a run may take " + ", ".join(f"{name} {amount:g}" for name, amount in needed.items()))
    if about["missing"]:
        said.append(f"not on this machine: {', '.join(about['missing'])}")
    show(about | {"plan": [row["parameters"] for row in rows]}, "\n".join(said))


def _run(
    asked: Grid, *, workers: int | None, scheduler: str | None, minutes: float | None, memory: float | None,
    stop_on_error: bool, keep_going: bool, **how: Any,
) -> None:  # fmt: skip
    from berdslib.study.grid import DONE, best_run, grid_table, status
    from berdslib.study.running import run_grid

    refuse(workers and scheduler, "give --workers for this machine or --scheduler for a cluster, not both")
    refuse(stop_on_error and keep_going, "give --stop-on-error or --keep-going, not both")
    limits = asked.resources
    limits = limits._replace(minutes=minutes or limits.minutes, memory=memory or limits.memory)
    asked = asked._replace(resources=limits)
    stop_after = 1 if stop_on_error else None if keep_going else 3
    failures = run_grid(asked, workers=workers or 1, scheduler=scheduler, stop_after=stop_after, **how)
    best = best_run(asked, grid_table(asked))
    finished = sum(row["state"] == DONE for row in status(asked))
    if best and not wants_json():
        who = f"{best['system']} of " if best["system"] else ""
        click.echo(f"best of {best['compared']}: {who}{best['run']}, {best['value']:.4f}, {best['parameters']}")
    summary = {"grid": asked.name, "runs": len(asked.runs), "finished": finished, "failures": failures}
    sentence = f"{finished} of {len(asked.runs)} runs finished, {len(failures)} failed → {asked.summary}"
    say(summary | {"summary": asked.summary, "best": best}, sentence)
    end(failures)
