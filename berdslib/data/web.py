"""A corpus from the web for each question: search, fetch the pages, take their text, cut it into passages.

What the search engine and the pages answered is kept in the user's cache, failures and their reasons included. The
same call later reads from there and gives the same passages; ``offline=True`` makes sure that nothing else happens.
When none of the pages that a call fetches is answered, the network was away rather than they: that is not kept, and
the next call asks again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urlsplit

import pandas as pd

from berdslib.data.formats import iter_passages, read_passages, write_passages
from berdslib.data.passages import corpus_statistics, split_words
from berdslib.data.records import Passage, Question, check_questions
from berdslib.data.webcache import Kept, cache_path, keep, recall, web_cache
from berdslib.data.webfetch import Fetcher, Limits, Page
from berdslib.data.websearch import Result, SearchProvider, Serper
from berdslib.data.webtext import PageText, TextReader
from berdslib.errors import InputError, MissingDataError
from berdslib.files import StrPath, write_text

logger = logging.getLogger(__name__)

REPORT_COLUMNS = [
    "qid", "position", "url", "outcome", "status", "seconds", "words", "passages", "docid", "final_url", "fetched",
    "reason",
]  # fmt: skip
MISSING = "missing"  # the outcome of a page that is not in the cache, offline
_REPORT, _LIST = "pages.csv", "corpora.json"  # the second is written last: with it, a folder is complete


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
    """Write a corpus for each question, QID.jsonl, pages.csv with what came of each page, and corpora.json.

    The last one lists the questions with their files, and is written last: without it, a folder is not complete. In a
    folder that was written before, everything is replaced; corpora of questions that are not asked now are removed, or,
    after a run that did not end, left there and not listed.

    Args:
        questions: at least one; an empty corpus is written for one without any text, with a warning.
        folder: to write to; see :func:`open_web_corpora`.
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
    listing = folder / _LIST
    before = _listed(folder) if listing.exists() else {}
    fetcher = Fetcher(web.limits)
    rows: list[tuple[Any, ...]] = []
    with TextReader(web.extractor, web.text_seconds) as reader:
        for question in tqdm(questions, desc="web corpora", unit="question", delay=2):
            passages, pages = _corpus(question, web, fetcher, reader)
            rows += pages
            if not passages:
                logger.warning("no page for question %r gave any text", question.qid)
            if listing.exists():
                listing.unlink()  # until the end, the folder holds some of both runs
            if not is_web_corpora(folder):
                _write_report(folder, pd.DataFrame(columns=REPORT_COLUMNS))  # so that one can tell what began here
            write_passages(folder / corpus_name(question.qid), passages)
    report = pd.DataFrame(rows, columns=REPORT_COLUMNS)
    files = {q.qid: corpus_name(q.qid) for q in questions}
    for qid in before:
        if qid not in files:
            (folder / corpus_name(qid)).unlink(missing_ok=True)
    _write_report(folder, report)
    with write_text(listing) as file:
        json.dump(files, file, ensure_ascii=False, indent=1)
    _tell(report)
    return report


def _write_report(folder: Path, report: pd.DataFrame) -> None:
    with write_text(folder / _REPORT) as file:
        report.to_csv(file, index=False, lineterminator="\n")


def _listed(folder: Path) -> dict[str, str]:
    """Return the questions whose corpora a folder holds: qid → name of the file."""
    path = folder / _LIST
    try:
        files = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        files = None
    # The names are for readers elsewhere: what is opened or removed here must not be up to this file.
    if not isinstance(files, dict) or any(files[qid] != corpus_name(qid) for qid in files):
        raise InputError("is no list of corpora from the web, {qid: file}", path=path)
    return files


def is_web_corpora(path: StrPath) -> bool:
    """Say whether this is a folder that :func:`web_corpora` wrote, be it complete or not."""
    return (Path(path) / _REPORT).is_file()


def open_web_corpora(folder: StrPath) -> WebCorpora:
    """Return the corpora of a folder that :func:`web_corpora` wrote, by the ids of their questions.

    Raises:
        InputError: no such folder, or one that a run began and did not complete.
    """
    return WebCorpora(folder)


class WebCorpora(Mapping[str, list[Passage]]):
    """The corpora of questions, qid → passages, in the order of the questions; each is read when it is asked for.

    A question without any text has an empty list. Nothing is held in memory but the ids.

    Args:
        folder: that :func:`web_corpora` wrote.

    Raises:
        InputError: no such folder, or one that a run began and did not complete.
    """

    def __init__(self, folder: StrPath) -> None:
        self.folder = Path(folder)
        if not is_web_corpora(folder):
            raise InputError(f"holds no corpora from the web ({_REPORT})", path=folder)
        if not (self.folder / _LIST).is_file():
            raise InputError(
                f"holds no {_LIST}, which comes last: a run did not end here, or was one of an earlier version; again, "
                "it goes on from the cache",
                path=folder,
            )
        self._files = _listed(self.folder)

    def __getitem__(self, qid: str) -> list[Passage]:
        path = self.file(qid)
        return read_passages(path) if path.stat().st_size else []

    def __contains__(self, qid: object) -> bool:
        return qid in self._files  # reading nothing

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        return f"WebCorpora({str(self.folder)!r}, {len(self):,} questions)"

    def file(self, qid: str) -> Path:
        """Return where a question's corpus lies.

        Raises:
            KeyError: no such question.
            InputError: it is not there any more.
        """
        path = self.folder / self._files[qid]
        if not path.is_file():
            raise InputError(f"is missing, the corpus of question {qid!r}", path=path)
        return path


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
        InputError: see :func:`open_web_corpora`; or a row that cannot be read.

    Source: BeRDS Table 2, last row.
    """
    corpora = open_web_corpora(folder)
    files = [corpora.file(qid) for qid in corpora]
    rows = [corpus_statistics(iter_passages(path)) if path.stat().st_size else _NOTHING for path in files]
    means = pd.DataFrame(rows).mean()
    return {"corpora": len(corpora), **{column: float(means[column]) for column in _NOTHING}}


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
    """Return the pages in order, from the cache or the web."""
    pages = {url: page for url in urls if (page := _recalled(url, web)) is not None}
    needed = [url for url in urls if url not in pages or (web.retry_failed and pages[url].outcome != "ok")]
    if web.offline:
        pages |= {url: Page(url, MISSING, "offline, and not in the cache") for url in urls if url not in pages}
    elif needed:
        pages |= _fetched(needed, web, fetcher)
    return [pages[url] for url in urls]


def _fetched(urls: Sequence[str], web: Web, fetcher: Fetcher) -> dict[str, Page]:
    """Fetch pages: hosts side by side, the pages of one host one after the other.

    Each is in the cache as soon as it is there. What nobody answered is put there at the end, and only if there was
    somebody who did answer: else it is our network that failed.
    """
    from tqdm.auto import tqdm

    hosts: dict[str, list[str]] = {}
    for url in urls:
        hosts.setdefault(_host(url), []).append(url)
    stop = threading.Event()

    def fetch(one_host: list[str]) -> list[Page]:
        found = (fetcher.fetch(url) for url in one_host if not stop.is_set())
        return [page if _silent(page) else _kept(page, web) for page in found]

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
    silent = [page for page in pages.values() if _silent(page)]
    if any(page.status or page.outcome == "robots" for page in pages.values()):
        pages |= {page.url: _kept(page, web) for page in silent}
    elif silent:
        logger.warning("no answer from any of %d pages; this is not kept (is there a network?)", len(silent))
    return pages


def _silent(page: Page) -> bool:
    """Say whether nobody answered."""
    return page.outcome in ("network", "timeout") and not page.status


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _recalled(url: str, web: Web) -> Page | None:
    kept = recall(cache_path(web.folder, "page", url))
    return None if kept is None else _page(kept, url)


def _page(kept: Kept, url: str) -> Page:
    """Return a page from the cache; what another version noted besides is passed over."""
    note = {name: value for name, value in kept.note.items() if name in Page._fields}
    return Page(**{**note, "url": url, "body": kept.body})


def _kept(page: Page, web: Web) -> Page:
    note = page._asdict()
    body = note.pop("body")
    kept = keep(cache_path(web.folder, "page", page.url), Kept(note, body), replace=web.retry_failed)
    return _page(kept, page.url)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _tell(report: pd.DataFrame) -> None:
    outcomes = ", ".join(f"{n} {outcome}" for outcome, n in report["outcome"].value_counts().items())
    logger.info("%d pages, %d passages: %s", len(report), report["passages"].sum(), outcomes or "none")
    missing = report.loc[report["outcome"] == MISSING, "url"].tolist()
    if missing:
        shown = ", ".join(missing[:10]) + (" …" if len(missing) > 10 else "")
        logger.warning("offline, and %d of %d pages are not in the cache: %s", len(missing), len(report), shown)
