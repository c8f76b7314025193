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
    flag("--stop-on-error", "Start nothing new after the first failure."),
)


def _of_file(command: Callable[..., None]) -> Callable[..., None]:
    """Have a command take a grid file and a profile, and give it the checked grid."""

    @click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
    @options.text("--profile", "Profile of the file, such as laptop.", "")
    @JSON
    @functools.wraps(command)
    def reads(path: Path, profile: str, **given: Any) -> None:
        from berdslib.study.grid import find_grid, read_grid

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
    from berdslib.study.grid import DONE, missing_data, status

    rows = status(asked)
    seconds = [row["seconds"] for row in rows if row["state"] == DONE]
    missing = missing_data(asked)
    lines = [f"{asked.name}: {len(rows)} runs of {asked.notebook.path.stem}, {len(seconds)} of them finished"]
    lines.append(f"results: {asked.summary}")
    left = len(rows) - len(seconds)
    if seconds and left:
        mean = sum(seconds) / len(seconds)
        lines.append(f"those took {mean:.1f} s each: about {mean * left / 60:.0f} min for {left} more, one at a time")
    if asked.gpus:
        lines.append(f"each may take gpu {asked.gpus}")
    if missing:
        lines.append(f"not on this machine: {', '.join(missing)}")
    about = {"grid": asked.name, "runs": len(rows), "finished": len(seconds), "missing": missing}
    show(about | {"plan": [row["parameters"] for row in rows]}, "\n".join(lines))


@grid.command("run")
@_of_file
@_RUNNING
def grid_run(asked: Grid, **how: Any) -> None:
    """Run all unfinished runs of a grid, and collect.

    Failures are printed as they happen. The exit code is 1 if a run failed. Several calls at the same time share the
    work.
    """
    _run(asked, **how)


@grid.command("retry")
@_of_file
@_RUNNING
def grid_retry(asked: Grid, **how: Any) -> None:
    """Run only what failed or was broken off."""
    _run(asked, only_failed=True, **how)


def _run(asked: Grid, *, workers: int | None, scheduler: str | None, **how: Any) -> None:
    from berdslib.study.grid import DONE, run_grid, status

    refuse(workers and scheduler, options.NOT_BOTH)
    failures = run_grid(asked, workers=workers or 1, scheduler=scheduler, **how)
    finished = sum(row["state"] == DONE for row in status(asked))
    summary = {"grid": asked.name, "runs": len(asked.runs), "finished": finished, "failures": failures}
    sentence = f"{finished} of {len(asked.runs)} runs finished, {len(failures)} failed → {asked.summary}"
    say(summary | {"summary": asked.summary}, sentence)
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
    """Write one table of all finished runs as CSV, and their TREC runs with a header of ir_metadata."""
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
