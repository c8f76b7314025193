"""`berds grid`: one notebook over many settings, from the plan to the report."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from berdslib.cli import options
from berdslib.cli.options import JSON, end, flag, print_frame, print_result, refuse, say, wants_json
from berdslib.cli.root import main

if TYPE_CHECKING:
    from berdslib.study.grid import Grid

_ROWS = 30  # of a report's table are printed
_RUNNING = options.together(
    options.PLACES,
    options.number("--limit", 0, "Start at most N runs; 0 for all.", options.NATURAL),
    flag("--stop-on-error", "Start nothing new after the first failure."),
)


def _of_file(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments FILE and --profile, and pass it the checked grid."""

    @click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
    @options.text("--profile", "Profile of the file, such as laptop.", "")
    @JSON
    @functools.wraps(command)
    def with_grid(path: Path, profile: str, **given: Any) -> None:
        from berdslib.study.grid import find_grid, read_grid

        command(read_grid(find_grid(path), profile), **given)

    return cast("Callable[..., None]", with_grid)


@main.group()
def grid() -> None:
    """Run one notebook with many settings; see papermill_runs/README.md.

    Every command first checks the whole grid file.
    """


@grid.command("plan")
@_of_file
def grid_plan(checked: Grid) -> None:
    """Check a grid file and show what `run` would do; nothing is started."""
    from berdslib.study.grid import DONE, status
    from berdslib.study.needs import in_lines

    rows = status(checked)
    seconds = [row["seconds"] for row in rows if row["state"] == DONE]
    missing = checked.lacks()
    lines = [f"{checked.name}: {len(rows)} runs of {checked.notebook.path.stem}, {len(seconds)} of them finished"]
    lines.append(f"results: {checked.summary}")
    left = len(rows) - len(seconds)
    if seconds and left:
        mean = sum(seconds) / len(seconds)
        lines.append(f"those took {mean:.1f} s each: about {mean * left / 60:.0f} min for {left} more, one at a time")
    if checked.gpus:
        lines.append(f"each run may use {checked.gpus} GPU")
    if missing:
        lines += ["not on this machine:", in_lines(missing)]
    about = {
        "grid": checked.name,
        "runs": len(rows),
        "finished": len(seconds),
        "missing": [lack.what for lack in missing],
        "commands": {lack.what: lack.get for lack in missing},
    }
    print_result(about | {"plan": [row["parameters"] for row in rows]}, "\n".join(lines))


@grid.command("run")
@_of_file
@_RUNNING
def grid_run(checked: Grid, **how: Any) -> None:
    """Run all unfinished runs of a grid, and collect the results.

    Failures are printed as they happen. The exit code is 1 if a run failed. Several simultaneous calls share the work.
    """
    _run(checked, **how)


@grid.command("retry")
@_of_file
@_RUNNING
def grid_retry(checked: Grid, **how: Any) -> None:
    """Run only the runs that failed or were interrupted."""
    _run(checked, only_failed=True, **how)


def _run(checked: Grid, *, workers: int | None, scheduler: str | None, **how: Any) -> None:
    from berdslib.study.grid import DONE, run_grid, status

    refuse(workers and scheduler, options.NOT_BOTH)
    failures = run_grid(checked, workers=workers or 1, scheduler=scheduler, **how)
    states = [row["state"] for row in status(checked)]
    finished = states.count(DONE)
    summary = {
        "grid": checked.name,
        "runs": len(checked.runs),
        "finished": finished,
        "failures": failures,
        "summary": checked.summary,
    }
    say(summary, f"{finished} of {len(checked.runs)} runs finished, {len(failures)} failed → {checked.summary}")
    end(failures)


@grid.command("status")
@_of_file
def grid_status(checked: Grid) -> None:
    """List the runs: finished, running (and at which cell), failed (and why), broken off, not started."""
    import pandas as pd

    from berdslib.study.grid import status

    rows = status(checked)
    if wants_json():
        print_result(rows, "")
        return
    parameters = pd.DataFrame([row.pop("parameters") for row in rows])
    varied = [name for name in parameters if parameters[name].astype(str).nunique() > 1]
    frame = pd.concat([pd.DataFrame(rows), parameters[varied]], axis=1)
    first_lines = frame["error"].str.partition("\n")[0]
    print_frame(frame.assign(error=first_lines.str[:80]).rename(columns={"error": "error or step"}))
    counts = Counter(frame["state"])
    click.echo(", ".join(f"{n} {state}" for state, n in counts.items()))


@grid.command("collect")
@_of_file
def grid_collect(checked: Grid) -> None:
    """Write one table of all finished runs as CSV, and their TREC runs, each with its ir_metadata beside it."""
    from berdslib.study.grid import collect

    rows = len(collect(checked))
    say({"grid": checked.name, "rows": rows, "summary": checked.summary}, f"{rows} rows → {checked.summary}")


@grid.command("report")
@_of_file
def grid_report(checked: Grid) -> None:
    """Collect results and summarise them in a notebook: a table, corpus by retriever, precision against recall.

    The table has letters if the runs keep per-question scores, as those of system.ipynb do. If the results are not
    means of measures, it shows the columns that they have.
    """
    import pandas as pd

    from berdslib.study.grid import report

    done = report(checked)
    if not wants_json():
        (table,) = (done.folder / name for name in ("letters.csv", "table.csv") if (done.folder / name).exists())
        shown = pd.read_csv(table, keep_default_na=False)
        print_frame(shown.head(_ROWS))
        if len(shown) > _ROWS:
            click.echo(f"and {len(shown) - _ROWS} more rows in {table}")
    say({**done.record, "output": done.notebook}, f"→ {done.notebook}, its pictures beside it")
