"""`berds grid`: one notebook over many settings."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from berdslib.cli.options import JSON, POSITIVE, print_frame, say
from berdslib.cli.root import main

GRID_FILE = click.argument("path", metavar="FILE", type=click.Path(path_type=Path))


@main.group()
def grid() -> None:
    """Grids: one notebook with many settings; see papermill_runs/README.md for the file format."""


@grid.command("run")
@GRID_FILE
@click.option("--workers", type=POSITIVE, help="Notebooks to run in parallel on this machine. [1]")
@click.option("--scheduler", metavar="ADDRESS", help="Run on the dask cluster there, such as tcp://host:8786.")
@click.option("--stop-on-error", is_flag=True, help="Start nothing new after the first failure.")
@click.option("--keep-going", is_flag=True, help="Start all, whatever fails. [stop after three alike in a row]")
@JSON
def grid_run(
    path: Path, workers: int | None, scheduler: str | None, stop_on_error: bool, keep_going: bool, as_json: bool
) -> None:
    """Run all unfinished runs; all parameters are checked before anything starts.

    The scores of all runs go to papermill_runs/NAME/summary.csv. Failures are printed as they happen; after three in a
    row for the same reason nothing new starts. The exit code is 1 if a run failed.
    """
    from berdslib.study.grid import best_run, grid_table, read_grid, run_grid, status

    if workers and scheduler:
        raise click.UsageError("give --workers for this machine or --scheduler for a cluster, not both")
    if stop_on_error and keep_going:
        raise click.UsageError("give --stop-on-error or --keep-going, not both")
    asked = read_grid(path)
    stop_after = 1 if stop_on_error else None if keep_going else 3
    failures = run_grid(asked, workers=workers or 1, scheduler=scheduler, stop_after=stop_after)
    best = best_run(asked, grid_table(asked))
    finished = sum(row["state"] == "finished" for row in status(asked))
    summary = {
        "grid": path.stem,
        "runs": len(asked.runs),
        "finished": finished,
        "failures": failures,
        "summary": asked.summary,
        "best": best,
    }
    if best and not as_json:
        click.echo(f"best of {best['compared']}: {best['run']}, {best['value']:.4f}, {best['parameters']}")
    say(summary, f"{finished} of {len(asked.runs)} runs finished, {len(failures)} failed → {asked.summary}", as_json)
    if failures:
        sys.exit(1)


@grid.command("status")
@GRID_FILE
@JSON
def grid_status(path: Path, as_json: bool) -> None:
    """List the runs of a grid: finished, unfinished (running, failed or interrupted) or not started."""
    import pandas as pd

    from berdslib.study.grid import read_grid, status

    rows = status(read_grid(path))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    parameters = pd.DataFrame([row.pop("parameters") for row in rows])
    varied = [name for name in parameters if parameters[name].astype(str).nunique() > 1]
    print_frame(pd.concat([pd.DataFrame(rows), parameters[varied]], axis=1), as_json)
