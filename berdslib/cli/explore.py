"""`berds explore`: the explorer as a web page, or as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from berdslib.cli import options
from berdslib.cli.inputs import parsed_systems, read_collection, read_runs, split_names
from berdslib.cli.options import JSON, flag, number, refuse, refuse_two_judges, say, tell, text
from berdslib.cli.root import main
from berdslib.errors import InputError

_FILE = ("limit", "columns", "runs", "qrels", "question", "sides", "opinions", "aspect_judge", "recordings", "depth",
         "store", "json")  # fmt: skip
_SERVED = ("port", "host", "browser", "idle")


@main.command("explore")
@options.questions(required=False, default="sample", show_default=True)
@options.systems(None, " Two of them. [bm25,minilm]")
@number("-k", 5, "Places of each list; at most 20 in a served page.")
@options.judge_option(None, " [recorded verdicts if there are any, and laptop for the rest]")
@options.output("Write a page (.html) and serve nothing.", required=False)
@options.RUNS
@click.option(
    "--gold",
    "--qrels",
    "qrels",
    type=click.Path(exists=True, dir_okay=False),
    help="Your verdicts: TREC diversity qrels or TSV. Not beside a judge.",
)
@text("--question", "Id of the question to show first. [the first]")
@flag("--sides/--no-sides", "Also search with each perspective.")
@flag("--opinions/--no-opinions", "Have the judge read each passage.")
@options.SEARCHING
@number("--port", 8866, "First port to try.", click.IntRange(1, 65535))
@text("--host", "Address to listen on; see docs/explorer.md first.", "127.0.0.1")
@flag("--browser/--no-browser", "Open the page.")
@number("--idle", 600, "Seconds until an unused kernel is ended.")
@JSON
def explore_command(output: Path | None, **given: Any) -> None:
    """Compare two systems side by side: which perspectives does each list show, and which does it hide?

    Serves a web page, on this machine only unless --host says otherwise. With -o FILE.html the lists go into one page,
    which works offline and can be mailed. Without --split, the page has the questions of all splits. In
    JupyterLab: `import berdslib as bd; bd.explore()`.

    \b
    berds explore -q my_questions.jsonl -c my_corpus.jsonl -j laptop
    berds explore -q sample -r bm25,minilm+mmr:0.8 -o lists.html
    """
    ctx = click.get_current_context()
    for name in _FILE if output is None else _SERVED:
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            only = "a page (-o FILE.html)" if output is None else "a page that is served, without -o"
            refuse(True, f"--{name.replace('_', '-')} is for {only}")
    refuse_two_judges(given["qrels"], given["judge"])
    refuse(output is None and given["k"] > 20, f"a served page shows at most 20 places, not {given['k']}")
    if output is None:
        _serve(given)
    else:
        _write(output, {name: value for name, value in given.items() if name not in _SERVED})


def _serve(given: dict[str, Any]) -> None:
    from berdslib.study.explorer import HERE
    from berdslib.study.explorer.app import serve

    settings: dict[str, Any] = {"questions": split_names(given["questions"]), "split": given["split"] or "all"}
    if len(settings["questions"]) > 1 and not given["corpus"]:
        raise InputError("--corpus is required, because the questions come from several data sets")
    settings |= {name: given[name] for name in ("k", "corpus", "judge") if given[name]}
    if given["systems"]:
        settings["systems"] = split_names(given["systems"])
        if len(settings["systems"]) != 2:
            raise InputError("give two systems to compare, such as bm25,minilm", field="systems")
    host = given["host"]
    if host in HERE:
        tell(f"Listening on {host} only: no other machine can reach it. Stop it with Ctrl+C.")
    else:
        tell(
            f"Listening on {host}: anybody who reaches this machine and has the token can search, start kernels and "
            "use its models; nothing is encrypted. See docs/explorer.md."
        )
    serve(settings, **{name: given[name] for name in _SERVED})


def _write(path: Path, given: dict[str, Any]) -> None:
    from berdslib.study.explorer.export import export_page
    from berdslib.study.explorer.session import session_for

    shown = {name: given.pop(name) for name in ("sides", "opinions")}
    systems = parsed_systems(given.pop("systems"))
    runs = given.pop("runs")
    given["split"] = given["split"] or "all"
    collection = read_collection(given, gold=given.pop("qrels"))
    systems |= read_runs(runs, collection)
    session, request = session_for(collection, systems or ("bm25", "minilm"), **given)
    size = export_page(path, session, request, **shown)
    n = len(collection.questions)
    sentence = f"{n} question{'' if n == 1 else 's'}, {size / 1024:,.0f} KiB → {path}"
    say({"questions": n, "bytes": size, "output": path}, sentence)
