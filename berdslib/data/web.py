"""A corpus for each question from a web search: search, fetch the pages, extract their text, cut it into passages.

Answers of the search engine and of pages, failures included, are kept in the user's cache and reused.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib.data.formats import read_passages, write_passages
from berdslib.data.passages import split_words
from berdslib.data.records import Passage, Question, check_questions
from berdslib.data.tables import read_json
from berdslib.data.webpage import Fetcher, Limits, Page, PageText, check_extractor, page_text
from berdslib.errors import BerdsError, InputError
from berdslib.files import StrPath, atomic_path, write_text
from berdslib.paths import cache_dir
from berdslib.progress import bar

logger = logging.getLogger(__name__)

REPORT_COLUMNS = [
    "qid", "position", "url", "outcome", "status", "seconds", "words", "passages", "docid", "final_url", "fetched",
    "reason",
]  # fmt: skip
SERPER = "https://google.serper.dev/search"
_REPORT = "pages.csv"
_LIST = "corpora.json"
_KEY = "SERPER_API_KEY"  # the environment variable that holds it


class SearchError(BerdsError):
    """A search engine refused, failed, or answered in an unknown layout."""


class Result(NamedTuple):
    """A search result: ``url`` without a fragment, ``title``, and ``position`` from 1."""

    url: str
    title: str
    position: int


@dataclass(frozen=True)
class Web:
    """Settings of a web search: `num` results per question (100 in the paper), up to `workers` pages at a time.

    ``service`` is the address of serper.dev, or of a compatible service. The extractor is "trafilatura", or the paper's
    "readability+html2text"; ``retry_failed`` fetches pages again whose last attempt failed.
    """

    service: str = SERPER
    num: int = 100
    extractor: str = "trafilatura"
    limits: Limits = field(default_factory=Limits)
    retry_failed: bool = False
    workers: int = 16


# ---------------------------------------------------------------- searching


def search_web(query: str, web: Web | None = None) -> list[Result]:
    """Return the results for a query, cached after the first search; each page once (BeRDS section 4.2)."""
    web = web or Web()
    service = f"serper({web.service})"
    path = cache_path("search", service, query, web.num)
    kept = _recall(path)
    if kept:
        results = _read_results(kept[1], web.service)
    else:
        answer = _ask(web.service, query, web.num)
        results = _read_results(answer, web.service)  # before it is kept: an unreadable answer is not
        _keep(path, {"provider": service, "query": query, "num": web.num}, answer)
    first: dict[str, Result] = {}
    for result in results[: web.num]:
        first.setdefault(result.url, result)
    return list(first.values())


def _ask(service: str, query: str, num: int) -> bytes:
    """Return the service's answer, with the key redacted."""
    import httpx

    key = os.environ.get(_KEY, "").strip()
    if not key:
        raise SearchError(f"{service} asks for a key; the variable {_KEY} is not set")
    try:
        answer = httpx.post(service, json={"q": query, "num": num}, headers={"X-API-KEY": key}, timeout=30)
    except httpx.RequestError as error:
        raise SearchError(f"{service}: no answer ({error or type(error).__name__})") from None
    if answer.status_code in (401, 403):
        raise SearchError(f"{service}: status {answer.status_code}; the key in the variable {_KEY} is refused")
    if not answer.is_success:
        raise SearchError(f"{service}: status {answer.status_code}: {answer.text.replace(key, '[key]')[:300]}")
    return answer.content.replace(key.encode(), b"[key]")


def _read_results(answer: bytes, service: str) -> list[Result]:
    """Return the organic results in their order."""
    try:
        rows = json.loads(answer)["organic"]
        return [
            Result(row["link"].partition("#")[0], str(row.get("title") or ""), position)
            for position, row in enumerate(rows, start=1)
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = f"{service} answered in another form than serper's ({type(error).__name__})"
        raise SearchError(problem) from None


# ---------------------------------------------------------------- the corpora of questions


def web_corpora(
    questions: Sequence[Question],
    folder: StrPath,
    web: Web | None = None,
    addresses: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame:
    """Write a corpus per question, QID.jsonl, pages.csv with the outcome of each page, and corpora.json (BeRDS 4.2).

    The pages come from a search, or from `addresses`, by qid. The folder is written atomically, and replaces an earlier
    one without other files. The content of pages.csv is returned: qid, position, url, outcome (see :class:`Page` and
    :class:`PageText`), status, seconds, words, passages, docid (the prefix of the page's docnos), final_url, fetched,
    reason.
    """
    check_questions(questions)
    web = web or Web()
    check_extractor(web.extractor)
    if addresses is not None:
        for question in questions:
            if question.qid not in addresses:
                raise InputError(f"there are no addresses for question {question.qid!r}", field="qid")
    fetcher = Fetcher(web.limits, web.workers)
    files = {question.qid: corpus_name(question.qid) for question in questions}
    rows: list[tuple[Any, ...]] = []
    with atomic_path(Path(folder), marker=_LIST) as unfinished:
        for question in bar(questions, desc="web corpora", unit="question"):
            if addresses is None:
                results = search_web(question.text, web)
            else:
                urls = dict.fromkeys(addresses[question.qid])
                results = [Result(url, "", position) for position, url in enumerate(urls, start=1)]
            passages: list[Passage] = []
            pages = _pages([result.url for result in results], web, fetcher)
            for result, page in zip(results, pages, strict=True):
                text, of_page = _passages(result, page, web.extractor)
                passages += of_page
                rows.append(_row(question.qid, result, page, text, len(of_page)))
            if not passages:
                logger.warning("no page for question %r gave any text", question.qid)
            write_passages(unfinished / files[question.qid], passages)
        report = pd.DataFrame(rows, columns=REPORT_COLUMNS)
        report.to_csv(unfinished / _REPORT, index=False, lineterminator="\n")
        (unfinished / _LIST).write_text(json.dumps(files, ensure_ascii=False, indent=1), encoding="utf-8")
    return report


def _passages(result: Result, page: Page, extractor: str) -> tuple[PageText, list[Passage]]:
    """Return the text of a page, and its passages of 100 words."""
    if page.outcome != "ok":
        return PageText(page.outcome), []
    text = page_text(page.body, page.headers.get("content-type", ""), extractor)
    pieces = split_words(text.text) if text.text else []
    title = text.title or result.title
    return text, [Passage(f"{_docid(result.url)}-{i}", piece, title) for i, piece in enumerate(pieces)]


def _row(qid: str, result: Result, page: Page, text: PageText, passages: int) -> tuple[Any, ...]:
    return (
        qid,
        result.position,
        page.url,
        text.outcome,
        page.status,
        page.seconds,
        len(text.text.split()),
        passages,
        _docid(result.url),
        page.final_url,
        page.fetched,
        " ".join(page.reason.split()),
    )


def corpus_name(qid: str) -> str:
    """Return the name of a question's file: its id, or part of it and a hash if two ids could give one name.

    >>> corpus_name("kialo-7"), corpus_name("Kialo/7")
    ('kialo-7.jsonl', 'Kialo_7-6bdbef9017370ed5.jsonl')
    """
    # Lower case only, since some file systems ignore case; and no id that ends like a hash.
    if re.fullmatch(r"[a-z0-9_][a-z0-9_.-]{0,99}", qid) and not re.search(r"-[0-9a-f]{16}$", qid):
        return f"{qid}.jsonl"
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', qid)[:60]}-{_hash(qid)[:16]}.jsonl"


def failures(report: pd.DataFrame) -> str:
    """Say how many pages of a report gave no text, with the most frequent reason for each outcome.

    >>> row = {"outcome": "status", "reason": "status 404"}
    >>> failures(pd.DataFrame([row, row, {"outcome": "ok", "reason": ""}]))
    '2 of 3 pages gave no text: 2 status (status 404)'
    """
    failed = report[report["outcome"] != "ok"]
    parts = [
        f"{len(part)} {outcome} ({part['reason'].mode()[0] or 'fetched, but nothing could be taken out'})"
        for outcome, part in failed.groupby("outcome")
    ]
    return f"{len(failed)} of {len(report)} pages gave no text" + (f": {'; '.join(parts)}" if parts else "")


# ---------------------------------------------------------------- a folder of them


def is_web_corpora(path: StrPath) -> bool:
    """Say whether this is a folder that :func:`web_corpora` wrote."""
    return all((Path(path) / name).is_file() for name in (_LIST, _REPORT))


def open_web_corpora(folder: StrPath) -> dict[str, list[Passage]]:
    """Return the corpora of a folder that :func:`web_corpora` wrote, by the ids of their questions."""
    folder = Path(folder)
    if not is_web_corpora(folder):
        raise InputError(f"holds no corpora from the web ({_LIST}, {_REPORT})", path=folder)
    qids = read_json(folder / _LIST)
    if not isinstance(qids, dict):
        raise InputError("is not a list of corpora from the web, {qid: file}", path=folder / _LIST)
    # The question's id decides which file is opened; the list may come from an untrusted source.
    return {qid: _read_corpus(qid, folder / corpus_name(qid)) for qid in qids}


def _read_corpus(qid: str, path: Path) -> list[Passage]:
    if not path.is_file():
        raise InputError(f"is missing, the corpus of question {qid!r}", path=path)
    return read_passages(path) if path.stat().st_size else []


class OwnCorpora(list[Passage]):
    """Corpora by question, each question searched in its own; as a list, all distinct passages.

    A page of two questions has the same docnos in both corpora, and the text of the first.
    """

    def __init__(self, corpora: Mapping[str, Sequence[Passage]]) -> None:
        by_docno: dict[str, Passage] = {}
        for passage in chain.from_iterable(corpora.values()):
            by_docno.setdefault(passage.docno, passage)
        super().__init__(by_docno.values())
        self._corpora = corpora

    def of(self, question: Question) -> Sequence[Passage]:
        """Return the passages of a question."""
        qid = question.qid
        if qid not in self._corpora:
            examples = ", ".join(map(repr, list(self._corpora)[:3]))
            raise InputError(f"question {qid!r} has no corpus of its own; these have: {examples} …", field="qid")
        return self._corpora[qid]


# ---------------------------------------------------------------- pages and their cache


def _pages(urls: Sequence[str], web: Web, fetcher: Fetcher) -> list[Page]:
    """Return the pages in order, from the cache or the web."""
    pages = {page.url: page for page in map(_recalled, urls) if page is not None}
    needed = [url for url in urls if url not in pages or (web.retry_failed and pages[url].outcome != "ok")]
    for page in bar(fetcher.fetch_all(needed), desc="pages", total=len(needed), unit="page"):
        pages[page.url] = page
        _keep_page(page)
    if needed and all(pages[url].outcome == "network" for url in needed):
        logger.warning("no answer from any of %d pages (is there a network?); --retry-failed asks again", len(needed))
    return [pages[url] for url in urls]


def cache_path(kind: str, *key: object) -> Path:
    """Return the file of an answer, named by a hash of its request."""
    name = _hash(json.dumps(key, ensure_ascii=False))
    return cache_dir() / "web" / kind / name[:2] / f"{name}.gz"


def _recalled(url: str) -> Page | None:
    kept = _recall(cache_path("page", url))
    return Page(**kept[0], body=kept[1]) if kept else None


def _keep_page(page: Page) -> None:
    note = page._asdict()
    _keep(cache_path("page", page.url), note, note.pop("body"))


def _recall(path: Path) -> tuple[dict[str, Any], bytes] | None:
    """Return the note and the answer in a file; None if it is missing or damaged."""
    try:
        with gzip.open(path, "rb") as file:
            return dict(json.loads(file.readline())), file.read()
    except FileNotFoundError:
        return None
    except (OSError, EOFError, ValueError, TypeError, zlib.error) as error:
        logger.warning("%s is damaged (%s); it counts as not there", path, error)
        return None


def _keep(path: Path, note: dict[str, Any], body: bytes) -> None:
    """Write a line of JSON and an answer to a file, atomically."""
    with write_text(path) as file:
        file.buffer.write(json.dumps(note).encode() + b"\n" + body)


def _docid(url: str) -> str:
    return _hash(url)[:16]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
