"""`berds notebook`, `table`, `demo` and `lab`: notebooks and the papers' tables from the shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from berdslib.cli import options
from berdslib.cli.options import FOLDER, JSON, flag, print_frame, print_tables, refuse, say, text, wants_json
from berdslib.cli.root import main


@main.group()
def notebook() -> None:
    """Notebooks: list them, show their parameters, run one in batch (over many settings: berds grid)."""


@notebook.command("list")
@JSON
def notebook_list() -> None:
    """List the notebooks with their parameters and defaults; those without a number are for batches and grids."""
    from berdslib.study.notebooks import batch_notebooks, numbered_notebooks, open_notebook

    lines = []
    summary = {}
    for stem, path in (numbered_notebooks() | batch_notebooks()).items():
        source = open_notebook(path)
        parameters = source.parameters.values()
        lines.append(f"{stem}: {source.title}")
        lines += [f"    {parameter.name} = {parameter.default!r}    {parameter.help}" for parameter in parameters]
        summary[stem] = [parameter._asdict() for parameter in parameters]
    options.print_result(summary, "\n".join(lines))


@notebook.command("run")
@click.argument("name")
@text("-p parameters", "A parameter; may be repeated. A path is absolute, or from the project's folder.",
      multiple=True, nargs=2, metavar="NAME VALUE")  # fmt: skip
@text("-o --output", "Folder. [papermill_runs/NAME-HASH]", type=FOLDER)
@flag("--show/--no-show", "Print the notebook's tables at the end.")
@JSON
def notebook_run(name: str, parameters: Sequence[tuple[str, str]], output: Path | None, show: bool) -> None:
    """Run a notebook with papermill; parameter names and types are checked first."""
    from berdslib.study.notebooks import run_notebook

    done = run_notebook(name, dict(parameters), output=output)
    if show and not wants_json():
        _show_results(done)
    say({**done.record, "output": done.notebook}, f"finished in {done.record['seconds']} s → {done.notebook}")


@notebook.command("slides")
@click.argument("name")
@text("-o --output", "File. [NAME.html]", type=options.FILE)
@JSON
def notebook_slides(name: str, output: Path | None) -> None:
    """Write the slides of a notebook: one page that opens offline. Arrow keys and clicks turn them; print for a PDF.

    Cells with the slide type "skip", or without any, are left out. In a notebook without slide types, each section is a
    slide with its first picture or table.
    """
    from berdslib.study.notebooks import find_notebook
    from berdslib.study.slides import write_slides

    path = output or Path(find_notebook(name).with_suffix(".html").name)
    count = write_slides(name, path)
    say({"slides": count, "output": path}, f"{count} slides → {path}")


@notebook.command("students")
@click.argument("folder", type=FOLDER, default="students")
@text("--repository", "Address of your copy of the project, for Colab to fetch.", "")
@flag("--overwrite", "Replace existing copies, and lose the answers in them.")
@JSON
def notebook_students(folder: Path, repository: str, overwrite: bool) -> None:
    """Write copies of the notebooks with blank exercises into FOLDER [students], for a class.

    An existing copy that has changed is kept, because it may hold a student's work.
    """
    from berdslib.study.exercises import write_students

    counts, kept = write_students(folder, repository=repository, overwrite=overwrite)
    for path in kept:
        options.tell(f"berds: {path} was kept, as it may hold answers; --overwrite replaces it")
    if not (folder.resolve().parent / "docs").is_dir():
        options.tell("the copies' links to ../docs and ../data work beside these folders of a checkout")
    lines = [f"{count:2}  {path}" for path, count in counts.items()]
    lines.append(f"{sum(counts.values())} exercises, all blank")
    written = {str(path): count for path, count in counts.items()}
    options.print_result({"written": written, "kept": [str(path) for path in kept]}, "\n".join(lines))


@notebook.command("check")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@flag("--csv", "Print the table of copies as CSV.")
@JSON
def notebook_check(folder: Path, csv: bool) -> None:
    """Tabulate a class's copies in FOLDER: which exercises are right, not yet, blank or not run.

    A copy is recognised by its name, ada/03_retrieval.ipynb or 03_retrieval_ada.ipynb, or else by its exercises. Of
    several by one student, the best counts. Only saved outputs are read; nothing is run. Totals
    for each exercise and each student follow. "changed" means that the check differs from the notebook's own, and
    "solution" that the cell is the notebook's own, with its solution.
    """
    from berdslib.files import guarded
    from berdslib.study.exercises import class_table

    refuse(csv and wants_json(), "give --csv or --json, not both")
    results = class_table(folder)
    if csv:
        safe = results.copies.map(lambda cell: guarded(cell) if isinstance(cell, str) else cell)
        click.echo(safe.to_csv(index=False, lineterminator="\n"), nl=False)
    else:
        tables = {"copies": results.copies, "exercises": results.exercises, "students": results.students}
        print_tables(tables, {"superseded": results.superseded, "left_out": results.left_out})
    if results.superseded:
        options.tell(f"not counted, since another copy has as much right or more: {', '.join(results.superseded)}")
    if results.left_out:
        options.tell(f"left out, since they are no copies of a notebook: {', '.join(results.left_out)}")


@main.command()
@click.argument("name", nargs=-1, shell_complete=options.completes("table"))
@flag("--latex", "Print its numbers as LaTeX.")
@flag("--csv", "Print all its numbers, published and ours, as CSV.")
def table(name: tuple[str, ...], latex: bool, csv: bool) -> None:
    """Show a table or figure of the papers: the published numbers, ours, and the command, data and hours for ours.

    Without NAME, all 40 are listed. BeRDS is numbered as in its later version.

    \b
    berds table 3
    berds table pir4 --latex
    berds table "BeRDS Figure 2" --csv
    """
    from berdslib.study.published import census, page

    refuse(latex and csv, "give --latex or --csv, not both")
    if not name:
        refuse(latex or csv, "name a table, such as berds table 3 --csv")
        print_frame(census())
        return
    wanted = page(" ".join(name))
    if latex:
        output = wanted.to_latex()
    elif csv:
        output = wanted.to_csv()
    else:
        output = repr(wanted)
    click.echo(output.rstrip("\n"))


@main.command()
@JSON
def demo() -> None:
    """Run the quickstart notebook on the shipped sample and print its table. No network needed."""
    from berdslib.study.notebooks import run_notebook

    done = run_notebook("00_quickstart")
    pictures = sorted(done.folder.glob("*.png"))
    if not wants_json():
        _show_results(done)
    lines = [f"finished in {done.record['seconds']} s", f"notebook: {done.notebook}"]
    lines += [f"picture:  {picture}" for picture in pictures]
    options.print_result({**done.record, "output": done.notebook, "pictures": pictures}, "\n".join(lines))


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def lab(arguments: Sequence[str]) -> None:
    """Open the project in JupyterLab, at notebook 00; further arguments go to `jupyter lab`.

    Outside a checkout, the package's notebooks are first copied into the folder notebooks here; existing files stay.
    """
    from berdslib.study.notebooks import notebook_folder, work_folder

    # The notebooks link to neighbours of their folder, which must be inside Jupyter's root to be opened.
    root = work_folder()
    (root / "notebooks").mkdir(exist_ok=True)
    for source in notebook_folder().glob("*.ipynb"):
        copy = root / "notebooks" / source.name
        if not copy.exists():
            shutil.copy(source, copy)
    places = [f"--ServerApp.root_dir={root}", "--LabApp.default_url=/lab/tree/notebooks/00_quickstart.ipynb"]
    os.chdir(root)
    command = [sys.executable, "-P", "-m", "jupyterlab", *places, *arguments]  # -P: no module of this folder
    if os.name == "posix":  # Jupyter replaces this process, so that signals reach it
        os.execv(sys.executable, command)
    sys.exit(subprocess.call(command))


def _show_results(done: Any) -> None:
    import pandas as pd

    from berdslib.study.tables import paper_table

    path = done.folder / "scores.csv"
    if not path.exists():
        return
    scores = pd.read_csv(path)
    if not {"system", "dataset", "measure", "mean", "low", "high", "p_value"} <= set(scores):
        click.echo(scores.round(3).to_string(index=False))  # not the table of an experiment
        return
    wide = paper_table(scores, intervals=True)
    # To fit a terminal, the data sets are stacked.
    datasets = dict.fromkeys(wide.columns.get_level_values(0))
    click.echo(pd.concat({d: wide[d] for d in datasets}, names=["dataset"]).to_string())
    click.echo("In percent, with 95 % intervals; *: p < .05 against the first system.")
