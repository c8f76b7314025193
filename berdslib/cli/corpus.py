"""`berds corpus`: count, write, and make corpora from the web."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from berdslib.cli.inputs import read_collection
from berdslib.cli.options import FOLDER, JSON, POSITIVE, QUESTIONS, print_frame, say
from berdslib.cli.root import main


@main.group()
def corpus() -> None:
    """Corpora: statistics, writing one to disk, building one per question from the web."""


@corpus.command("stats")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--documents",
    type=click.Choice(["auto", "docno", "title", "passage"]),
    default="auto",
    show_default=True,
    help="What identifies the document of a passage: the docno without its -NUMBER, the title (use it for the DPR "
    "dump), or nothing: every passage is a document. auto: docno if `berds corpus` cut the rows, otherwise "
    "passage; the last column shows the choice.",
)
@JSON
def corpus_stats(names: Sequence[str], documents: str, as_json: bool) -> None:
    """Print the columns of BeRDS Table 2 for corpora, and the words of a passage.

    NAME is a data set, a file, a BEIR folder, or a folder from `berds corpus write`; NAME:words and NAME:sentences
    cut its rows into passages of 100 words first. Of a folder from `berds corpus web` the means over its questions
    are printed, as in the paper.
    """
    import pandas as pd

    from berdslib.data.corpora import describe_corpus

    print_frame(pd.DataFrame([describe_corpus(name, documents) for name in names]), as_json)


@corpus.command("write")
@click.argument("source")
@click.argument("folder", type=FOLDER)
@click.option(
    "--cut",
    type=click.Choice(["none", "words", "sentences"]),
    default="none",
    show_default=True,
    help="none: rows are passages. words, sentences: rows are documents, cut after any word or between sentences.",
)
@click.option("--words", type=POSITIVE, default=100, show_default=True, help="Of a passage, with --cut.")
@click.option(
    "--duplicates",
    type=click.Choice(["keep", "exact", "near"]),
    default="keep",
    show_default=True,
    help="Duplicates to drop; near also drops exact ones.",
)
@click.option("--near", type=click.FloatRange(0.5, 1), default=0.8, show_default=True, help="Similarity of near ones.")
@click.option("--limit", type=click.IntRange(min=0), default=0, help="Only the first N rows; 0 for all.")
@JSON
def corpus_write(
    source: str, folder: Path, cut: str, words: int, duplicates: str, near: float, limit: int, as_json: bool
) -> None:
    """Write passages as a corpus on disk, which opens memory-mapped: `berds retrieve -c FOLDER`.

    SOURCE is a data set, a file (JSONL, CSV, TSV, also with .gz) or a BEIR folder. A corpus in FOLDER is replaced.
    """
    from berdslib.data.corpora import write_source

    written = write_source(source, folder, cut=cut, words=words, duplicates=duplicates, near=near, limit=limit)
    dropped = "" if duplicates == "keep" else f" ({written.exact} exact and {written.near} near repeats dropped)"
    sentence = f"{written.passages} passages{dropped}, {written.bytes:,} bytes → {folder}"
    say({"output": folder, **written._asdict()}, sentence, as_json)


@corpus.command("web")
@QUESTIONS
@click.option("-o", "--output", required=True, type=FOLDER, help="Folder for QID.jsonl, pages.csv and corpora.json.")
@click.option("--top", default=100, show_default=True, type=POSITIVE, help="Search results for each question.")
@click.option(
    "--extractor", default="trafilatura", show_default=True, help="What takes a page's text: or readability+html2text."
)
@click.option("--workers", default=16, show_default=True, type=POSITIVE, help="Hosts that are asked at a time.")
@click.option("--offline", is_flag=True, help="Read from the cache only; ask nobody.")
@click.option("--retry-failed", is_flag=True, help="Fetch pages again that failed the last time.")
@JSON
def corpus_web(
    questions: str,
    split: str | None,
    limit: int,
    output: Path,
    top: int,
    extractor: str,
    workers: int,
    offline: bool,
    retry_failed: bool,
    as_json: bool,
) -> None:
    """Search the web for each question and make a corpus of the pages found; BeRDS section 4.2.

    The search goes through serper.dev with the key in the environment variable SERPER_API_KEY. What was answered is
    kept in the user cache: the same command later gives the same corpora and asks nobody. With -c FOLDER, other
    commands search each question in its own.
    """
    from berdslib.data.web import Web, failures, web_corpora
    from berdslib.data.webpage import check_extractor

    if offline and retry_failed:
        raise click.UsageError("--offline fetches nothing, so it cannot --retry-failed")
    found = read_collection(questions, None, split, limit, need_passages=False, need_perspectives=False)
    asked = list(found.questions)
    web = Web(
        num=top, extractor=check_extractor(extractor), workers=workers, offline=offline, retry_failed=retry_failed
    )
    report = web_corpora(asked, output, web)
    answered = report.loc[report["passages"] > 0, "qid"].nunique()
    summary = {
        "output": output,
        "questions": len(asked),
        "with_passages": answered,
        "pages": len(report),
        "passages": int(report["passages"].sum()),
        "outcomes": report["outcome"].value_counts().to_dict(),
    }
    sentence = f"{failures(report)}\n{summary['passages']} passages for {answered} of {len(asked)} questions → {output}"
    say(summary, sentence, as_json)
