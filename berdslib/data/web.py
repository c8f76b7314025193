"""A corpus from the web for each question: search, fetch the pages, take their text, cut it into passages.

What the search engine and the pages answered is kept in the user's cache, failures and their reasons included. The
same call later reads from there and gives the same passages; ``offline=True`` makes sure that nothing else happens.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urlsplit

import pandas as pd

from berdslib.data.formats import iter_passages, write_passages
from berdslib.data.passages import corpus_statistics, split_words
from berdslib.data.records import Passage, Question, check_questions
from berdslib.data.textio import StrPath, write_text
from berdslib.data.webcache import Kept, cache_path, keep, recall, web_cache
from berdslib.data.webfetch import Fetcher, Limits, Page
from berdslib.data.websearch import Result, SearchProvider, Serper
from berdslib.data.webtext import PageText, TextReader
from berdslib.errors import InputError, MissingDataError

logger = logging.getLogger(__name__)

REPORT_COLUMNS = [
    "qid", "position", "url", "outcome", "status", "seconds", "words", "passages", "docid", "final_url", "fetched",
    "reason",
]  # fmt: skip
MISSING = "missing"  # the outcome of a page that is not in the cache, offline


@dataclass(frozen=True)
class Web:
    """How the web is asked.

    Args:
        provider: the search engine.
        num: results asked for, for each question; the paper takes 100.
        extractor: "trafilatura", or the paper's "readability+html2text" (an extra).
        split: cuts a page's text into passages; the paper takes disjoint pieces of 100 words.
        limits: of a page, see there.
        cache: folder for what was answered; None = "web" in the user's cache.
        offline: read from the cache only.
        retry_failed: fetch pages again whose last attempt failed.
        workers: hosts that are asked at the same time; each gets one request at a time.
        text_seconds: to take the text out of a page.

    Raises:
        InputError: num or workers < 1.

    Source: BeRDS section 4.2.
    """

    provider: SearchProvider = field(default_factory=Serper)
    num: int = 100
    extractor: str = "trafilatura"
    split: Callable[[str], list[str]] = split_words
    limits: Limits = field(default_factory=Limits)
    cache: Path | None = None
    offline: bool = False
    retry_failed: bool = False
    workers: int = 16
    text_seconds: float = 20.0

    def __post_init__(self) -> None:
        for name in ("num", "workers"):
            if getattr(self, name) < 1:
                raise InputError(f"must be at least 1, not {getattr(self, name)}", field=name)

    @property
    def folder(self) -> Path:
        """The cache."""
        return self.cache or web_cache()


def web_corpus(question: str, web: Web | None = None) -> list[Passage]:
    """Return the passages of the pages that a search engine finds for a question.

    Args:
        question: the query, as it is.
        web: how the web is asked.

    Returns:
        Passages in the order of the results; docno is a hash of the page's address and a number from 0.

    Raises:
        SearchError: the search engine refuses or fails.
        MissingDataError: offline, and this question was never asked; or the extractor is not installed.

    Source: BeRDS section 4.2.
    """
    web = web or Web()
    with TextReader(web.extractor, web.text_seconds) as reader:
        passages, rows = _corpus(Question("", question), web, Fetcher(web.limits), reader)
    _tell(pd.DataFrame(rows, columns=REPORT_COLUMNS))
    return passages


def web_corpora(questions: Sequence[Question], folder: StrPath, web: Web | None = None) -> pd.DataFrame:
    """Write a corpus for each question, QID.jsonl, and pages.csv with what came of each page.

    Args:
        questions: at least one; an empty corpus is written for one without any text, with a warning.
        folder: to write to.
        web: how the web is asked.

    Returns:
        The report, one row per page: qid, position, url, outcome (see :class:`Page` and :class:`PageText`), status,
        seconds, words, passages, docid (what the page's docnos begin with), final_url, fetched, reason.

    Raises:
        SearchError: the search engine refuses or fails; what was fetched so far is in the cache.
        MissingDataError: offline, and some questions were never asked; or the extractor is not installed.
    """
    from tqdm.auto import tqdm

    check_questions(questions)
    web, folder = web or Web(), Path(folder)
    _require_searches(questions, web)
    fetcher = Fetcher(web.limits)
    rows: list[tuple[Any, ...]] = []
    with TextReader(web.extractor, web.text_seconds) as reader:
        for question in tqdm(questions, desc="web corpora", unit="question", delay=2):
            passages, pages = _corpus(question, web, fetcher, reader)
            rows += pages
            if not passages:
                logger.warning("no page for question %r gave any text", question.qid)
            write_passages(folder / corpus_name(question.qid), passages)
    report = pd.DataFrame(rows, columns=REPORT_COLUMNS)
    with write_text(folder / "pages.csv") as file:
        report.to_csv(file, index=False, lineterminator="\n")
    _tell(report)
    return report


def corpus_name(qid: str) -> str:
    """Return the name of a question's file: its id, made safe for a file system where needed.

    >>> corpus_name("kialo-7")
    'kialo-7.jsonl'
    """
    if re.fullmatch(r"\w[\w.-]{0,99}", qid, re.ASCII):
        return f"{qid}.jsonl"
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', qid)[:60]}-{_hash(qid)[:8]}.jsonl"


def summary(report: pd.DataFrame) -> pd.DataFrame:
    """Return, for each outcome, the number of pages, their share, and their words and passages; most frequent first.

    Args:
        report: from :func:`web_corpora`.
    """
    table = report.groupby("outcome").agg(
        pages=("url", "size"), words=("words", "sum"), passages=("passages", "sum"), seconds=("seconds", "mean")
    )
    table.insert(1, "share", table["pages"] / max(len(report), 1))
    return table.sort_values("pages", ascending=False, kind="stable")


def failures(report: pd.DataFrame) -> str:
    """Say how many pages gave no text, and why: for each outcome, how many, and the reason that most of them have.

    Args:
        report: from :func:`web_corpora`.

    >>> row = {"outcome": "status", "reason": "status 404"}
    >>> failures(pd.DataFrame([row, row, {"outcome": "ok", "reason": ""}]))
    '2 of 3 pages gave no text: 2 status (status 404)'
    """
    failed = report[report["outcome"] != "ok"]
    parts = []
    for outcome, n in failed["outcome"].value_counts().items():
        reasons = failed.loc[failed["outcome"] == outcome, "reason"].value_counts()
        usual = str(reasons.index[0]) if reasons.index[0] else "fetched, but nothing could be taken out"
        rarer = f", and {len(reasons) - 1} other reasons" if len(reasons) > 1 else ""
        parts.append(f"{n} {outcome} ({usual}{rarer})")
    return f"{len(failed)} of {len(report)} pages gave no text" + (f": {'; '.join(parts)}" if parts else "")


def web_statistics(folder: StrPath) -> dict[str, float]:
    """Return the columns of BeRDS Table 2 for a folder that :func:`web_corpora` wrote: the means over its questions.

    A question without any passage counts in the first two means, and has no length to count in the third.

    Returns:
        corpora (number), passages, documents, mean_words (per passage); NaN where no question has a passage.

    Raises:
        InputError: no corpora in the folder, or a row that cannot be read.

    Source: BeRDS Table 2, last row.
    """
    files = sorted(Path(folder).glob("*.jsonl"))
    if not files:
        raise InputError("holds no corpora (QID.jsonl)", path=folder)
    rows = [corpus_statistics(iter_passages(path)) if path.stat().st_size else _NOTHING for path in files]
    means = pd.DataFrame(rows).mean()
    return {"corpora": len(files), **{column: float(means[column]) for column in _NOTHING}}


_NOTHING = {"passages": 0, "documents": 0, "mean_words": float("nan")}


# ---------------------------------------------------------------- one question


def _corpus(
    question: Question, web: Web, fetcher: Fetcher, reader: TextReader
) -> tuple[list[Passage], list[tuple[Any, ...]]]:
    results = search(question.text, web)
    pages = _pages([r.url for r in results], web, fetcher)
    passages: list[Passage] = []
    rows = []
    for result, page in zip(results, pages, strict=True):
        text = _text(page, reader)
        pieces = web.split(text.text) if text.text else []
        docid, title = _hash(result.url)[:16], text.title or result.title
        passages += [Passage(f"{docid}-{i}", piece, title) for i, piece in enumerate(pieces)]
        outcome = page.outcome if page.outcome != "ok" else text.outcome
        row = (question.qid, result.position, page.url, outcome, page.status, page.seconds, len(text.text.split()))
        rows.append((*row, len(pieces), docid, page.final_url, page.fetched, " ".join(page.reason.split())))
    return passages, rows


def _text(page: Page, reader: TextReader) -> PageText:
    if page.outcome != "ok":
        return PageText(page.outcome)
    return reader.read(page.body, page.headers.get("content-type", ""))


def search(query: str, web: Web | None = None) -> list[Result]:
    """Return the results for a query, from the cache if it was asked before; each page once, without fragments.

    Raises:
        SearchError: the search engine refuses or fails.
        MissingDataError: offline, and it was never asked.
    """
    web = web or Web()
    path = _search_path(query, web)
    kept = recall(path)
    if kept is None:
        if web.offline:
            raise MissingDataError(f"offline, and {web.provider.id} was never asked for {web.num} x {query!r}")
        answer = web.provider.ask(query, web.num)
        web.provider.read(answer)  # an answer that cannot be read is not kept
        kept = keep(path, Kept({"provider": web.provider.id, "query": query, "num": web.num}, answer))
    found: dict[str, Result] = {}
    for result in web.provider.read(kept.body)[: web.num]:
        url = urldefrag(result.url).url if "#" in result.url else result.url
        found.setdefault(url, result._replace(url=url))
    if len(found) < web.num:
        logger.info("%d of %d results for %r", len(found), web.num, query)
    return list(found.values())


def _search_path(query: str, web: Web) -> Path:
    return cache_path(web.folder, "search", web.provider.id, query, web.num)


def _require_searches(questions: Sequence[Question], web: Web) -> None:
    """Say at once, offline, which questions were never asked."""
    if not web.offline:
        return
    missing = [q.qid for q in questions if not _search_path(q.text, web).exists()]
    if missing:
        shown = ", ".join(missing[:10]) + (" …" if len(missing) > 10 else "")
        raise MissingDataError(
            f"offline, and {web.provider.id} was never asked {len(missing)} of {len(questions)} questions "
            f"(num={web.num}): {shown}"
        )


# ---------------------------------------------------------------- its pages


def _pages(urls: Sequence[str], web: Web, fetcher: Fetcher) -> list[Page]:
    """Return the pages in order, from the cache or the web; each is in the cache as soon as it is there."""
    pages = {url: page for url in urls if (page := _recalled(url, web)) is not None}
    needed = [url for url in urls if url not in pages or (web.retry_failed and pages[url].outcome != "ok")]
    if web.offline:
        pages |= {url: Page(url, MISSING, "offline, and not in the cache") for url in urls if url not in pages}
    elif needed:
        pages |= _fetched(needed, web, fetcher)
    return [pages[url] for url in urls]


def _fetched(urls: Sequence[str], web: Web, fetcher: Fetcher) -> dict[str, Page]:
    """Fetch pages: hosts side by side, the pages of one host one after the other."""
    from tqdm.auto import tqdm

    hosts: dict[str, list[str]] = {}
    for url in urls:
        hosts.setdefault(_host(url), []).append(url)
    stop = threading.Event()

    def fetch(one_host: list[str]) -> list[Page]:
        return [_kept(fetcher.fetch(url), web) for url in one_host if not stop.is_set()]

    pages: dict[str, Page] = {}
    with (
        ThreadPoolExecutor(min(web.workers, len(hosts)), "fetch") as pool,
        tqdm(total=len(urls), desc="pages", unit="page", delay=2, leave=False) as bar,
    ):
        jobs = [pool.submit(fetch, one_host) for one_host in hosts.values()]
        try:
            for job in as_completed(jobs):
                pages |= {page.url: page for page in job.result()}
                bar.update(len(job.result()))
        except BaseException:
            stop.set()  # an interrupt must not wait for all the rest
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return pages


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _recalled(url: str, web: Web) -> Page | None:
    kept = recall(cache_path(web.folder, "page", url))
    return None if kept is None else Page(**kept.note, body=kept.body)


def _kept(page: Page, web: Web) -> Page:
    note = page._asdict()
    body = note.pop("body")
    kept = keep(cache_path(web.folder, "page", page.url), Kept(note, body), replace=web.retry_failed)
    return Page(**kept.note, body=kept.body)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _tell(report: pd.DataFrame) -> None:
    outcomes = ", ".join(f"{n} {outcome}" for outcome, n in report["outcome"].value_counts().items())
    logger.info("%d pages, %d passages: %s", len(report), report["passages"].sum(), outcomes or "none")
    missing = report.loc[report["outcome"] == MISSING, "url"].tolist()
    if missing:
        shown = ", ".join(missing[:10]) + (" …" if len(missing) > 10 else "")
        logger.warning("offline, and %d of %d pages are not in the cache: %s", len(missing), len(report), shown)
