"""`berds explore export` and `berds app`: the explorer as a file, and as a web page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from berdslib.cli.inputs import read_collection, split_names
from berdslib.cli.options import ASPECT_JUDGE, CORPUS, DEPTH, JSON, POSITIVE, QUESTIONS, RECORDINGS, SPLIT, STORE, say
from berdslib.cli.root import main
from berdslib.errors import InputError

_SYSTEMS = click.option(
    "-r", "--systems", help="Two systems, comma-separated, such as bm25,minilm+mmr:0.9.  [bm25,minilm]"
)
_JUDGE = click.option("-j", "--judge", help="Judge. [recorded verdicts where there are any, and laptop for all else]")


@main.group()
def explore() -> None:
    """Two systems side by side: which perspectives does each list show, and which does it hide?

    In JupyterLab: `import berdslib as bd; bd.explore()`. As a web page: `berds app`.
    """


@explore.command("export")
@QUESTIONS
@CORPUS
@_SYSTEMS
@click.option(
    "--run", "runs", multiple=True, nargs=2, metavar="NAME FILE", help="A TREC run as a system; once or twice."
)
@click.option(
    "--qrels", type=click.Path(exists=True, dir_okay=False), help="Verdicts of yours: TREC diversity qrels or TSV."
)
@click.option("-k", "k", default=5, show_default=True, type=POSITIVE, help="Places of each list.")
@click.option("--question", help="Id of the question to open at. [the first]")
@click.option("--sides/--no-sides", default=True, show_default=True, help="Also search with each perspective.")
@click.option("--opinions/--no-opinions", default=True, show_default=True, help="Have the judge read each passage.")
@_JUDGE
@ASPECT_JUDGE
@DEPTH
@RECORDINGS
@STORE
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Page, .html.")
@JSON
def explore_export(
    questions: str,
    split: str | None,
    limit: int,
    corpus: str | None,
    systems: str | None,
    runs: Sequence[tuple[str, str]],
    qrels: str | None,
    k: int,
    question: str | None,
    sides: bool,
    opinions: bool,
    judge: str | None,
    output: Path,
    as_json: bool,
    **options: Any,
) -> None:
    """Write the lists of two systems into one page, which opens without a network and can be mailed."""
    from berdslib.data.trec import read_trec_run
    from berdslib.study.explorer.export import export_page
    from berdslib.study.explorer.widget import session_for

    collection = read_collection(questions, corpus, split, limit, gold=qrels)
    named = {name: name for name in split_names(systems)} if systems else {}
    pair: dict[str, Any] = {**named, **{name: read_trec_run(path) for name, path in runs}}
    session, wish = session_for(collection, pair or ("bm25", "minilm"), question=question, k=k, judge=judge, **options)
    size = export_page(output, session, wish, sides=sides, opinions=opinions)
    n = len(collection.questions)
    summary = {"questions": n, "bytes": size, "output": output}
    say(summary, f"{n} question{'' if n == 1 else 's'}, {size / 1024:,.0f} KiB → {output}", as_json)


@main.command()
@click.option(
    "-q", "--questions", default="sample", show_default=True, help="Data set names, comma-separated, or a file."
)
@SPLIT
@CORPUS
@_SYSTEMS
@click.option("-k", "k", default=5, show_default=True, type=click.IntRange(1, 20), help="Places of each list.")
@_JUDGE
@click.option("--port", default=8866, show_default=True, type=click.IntRange(1, 65535))
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; see docs/explorer.md first."
)
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open the page.")
@click.option("--idle", default=600, show_default=True, type=POSITIVE, help="Seconds until an unused kernel is ended.")
def app(
    questions: str,
    split: str | None,
    corpus: str | None,
    systems: str | None,
    k: int,
    judge: str | None,
    port: int,
    host: str,
    browser: bool,
    idle: int,
) -> None:
    """Serve the explorer as a web page, on this machine only unless --host says otherwise."""
    from berdslib.study.explorer import HERE
    from berdslib.study.explorer.app import serve

    settings: dict[str, Any] = {"questions": split_names(questions), "split": split or "all", "k": k}
    settings |= {"corpus": corpus} if corpus else {}
    settings |= {"systems": split_names(systems)} if systems else {}
    settings |= {"judge": judge} if judge else {}
    if len(settings.get("systems", [1, 2])) != 2:
        raise InputError("two systems stand side by side, such as bm25,minilm", field="systems")
    if host in HERE:
        click.echo(f"Listening on {host} only: no other machine can reach it. Stop it with Ctrl+C.", err=True)
    else:
        click.echo(
            f"Listening on {host}: whoever reaches this machine and has the token can search, start kernels and use "
            "its models; nothing is encrypted. See docs/explorer.md.",
            err=True,
        )
    serve(settings, port=port, host=host, browser=browser, idle=idle)
