"""A corpus for each question, as a web search gives: search, fetch the pages, take their text, cut it into passages.

What the search engine and the pages answered, failures included, is kept in the user's cache and read from there later.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import os
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib.data import fetch
from berdslib.data.formats import read_passages, write_passages
from berdslib.data.passages import split_words
from berdslib.data.records import Passage, Question, check_questions
from berdslib.data.tables import read_json
from berdslib.data.webpage import Fetcher, Limits, Page, PageText, TextReader
from berdslib.errors import BerdsError, InputError, MissingDataError
from berdslib.files import StrPath, atomic_path, write_text
from berdslib.paths import cache_dir
from berdslib.progress import bar

logger = logging.getLogger(__name__)

REPORT_COLUMNS = [
    "qid", "position", "url", "outcome", "status", "seconds", "words", "passages", "docid", "final_url", "fetched",
    "reason",
]  # fmt: skip
MISSING = "missing"  # the outcome of a page that is not in the cache, offline
_REPORT, _LIST = "pages.csv", "corpora.json"


# ---------------------------------------------------------------- searching

_KEY = "SERPER_API_KEY"  # the environment variable that holds it


class SearchError(BerdsError):
    """A search engine that refuses, fails for good, or answers in another form."""


class Result(NamedTuple):
    """A search result: ``url`` without a fragment, ``title``, and ``position`` from 1."""

    url: str
    title: str
    position: int


class Serper:
    """Google results through serper.dev (BeRDS section 4.2); the key is read from the environment when it is needed.

    `retries` are further attempts after a failure that may pass (no answer, 429, 5xx).
    """

    def __init__(self, url: str = "https://google.serper.dev/search", retries: int = 3) -> None:
        self.url, self.retries, self.id = url, retries, f"serper({url})"

    def ask(self, query: str, num: int) -> bytes:
        """Return the service's answer without the key; waits and tries again after failures that may pass."""
        import httpx

        key = os.environ.get(_KEY, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            state = "holds characters that no key has" if key else "is not set"
            raise SearchError(f"{self.url} asks for a key; the variable {_KEY} {state}")
        for attempt in range(self.retries + 1):
            time.sleep(fetch.BACK_OFF * (2**attempt - 1))
            try:
                answer = httpx.post(self.url, json={"q": query, "num": num}, headers={"X-API-KEY": key}, timeout=30)
            except httpx.RequestError as error:
                problem = f"no answer ({error or type(error).__name__})"
                continue
            if answer.is_success:
                return answer.content.replace(key.encode(), b"[key]")
            problem = f"status {answer.status_code}: {answer.text.replace(key, '[key]')[:300]}"
            if answer.status_code in (401, 403):
                problem = f"status {answer.status_code}; the key in the variable {_KEY} is refused"
            if answer.status_code not in fetch.TRANSIENT:
                break
        raise SearchError(f"{self.url}: {problem}")

    def read(self, answer: bytes) -> list[Result]:
        """Return the organic results in their order."""
        try:
            # Half of a surrogate pair is legal JSON, but no text: it cannot be written.
            rows = json.loads(json.dumps(json.loads(answer)["organic"], ensure_ascii=False).encode("utf-8", "replace"))
            found = [(row["link"].partition("#")[0], str(row.get("title") or "")) for row in rows]
            return [Result(url, title, place) for place, (url, title) in enumerate(found, start=1)]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            problem = f"{self.url} answered in another form than serper's ({type(error).__name__})"
            raise SearchError(problem) from None


# ---------------------------------------------------------------- the corpora of questions


@dataclass(frozen=True)
class Web:
    """How the web is asked: `num` results a question (the paper takes 100), and up to `workers` hosts at a time.

    The extractor is "trafilatura", or the paper's "readability+html2text"; ``offline`` reads from the cache only,
    ``retry_failed`` fetches pages again whose last attempt failed.
    """

    provider: Serper = field(default_factory=Serper)
    num: int = 100
    extractor: str = "trafilatura"
    limits: Limits = field(default_factory=Limits)
    offline: bool = False
    retry_failed: bool = False
    workers: int = 16


def web_corpora(questions: Sequence[Question], folder: StrPath, web: Web | None = None) -> pd.DataFrame:
    """Write a corpus for each question, QID.jsonl, pages.csv with what came of each page, and corpora.json (BeRDS 4.2).

    The last one lists the questions' files. The folder appears when all is done, and replaces an earlier one that holds
    no more than it. Returned is what pages.csv holds: qid, position, url, outcome (see :class:`Page` and
    :class:`PageText`), status, seconds, words, passages, docid (what the page's docnos begin with), final_url, fetched,
    reason.
    """
    check_questions(questions)
    web, rows = web or Web(), list[tuple[Any, ...]]()
    files = {q.qid: corpus_name(q.qid) for q in questions}
    fetcher = Fetcher(web.limits, web.workers)
    with atomic_path(Path(folder), marker=_LIST) as unfinished, TextReader(web.extractor) as reader:
        for question in bar(questions, desc="web corpora", unit="question"):
            passages, pages = _corpus(question, web, fetcher, reader)
            rows += pages
            if not passages:
                logger.warning("no page for question %r gave any text", question.qid)
            write_passages(unfinished / files[question.qid], passages)
        report = pd.DataFrame(rows, columns=REPORT_COLUMNS)
        report.to_csv(unfinished / _REPORT, index=False, lineterminator="\n")
        (unfinished / _LIST).write_text(json.dumps(files, ensure_ascii=False, indent=1), encoding="utf-8")
    missing = report.loc[report["outcome"] == MISSING, "url"].tolist()
    if missing:
        some = ", ".join(missing[:10]) + (" …" if len(missing) > 10 else "")
        logger.warning("offline, and %d of %d pages are not in the cache: %s", len(missing), len(report), some)
    return report


def corpus_name(qid: str) -> str:
    """Return the name of a question's file: its id, or where that could be taken for another's, part of it and a hash.

    >>> corpus_name("kialo-7"), corpus_name("Kialo/7")
    ('kialo-7.jsonl', 'Kialo_7-6bdbef9017370ed5.jsonl')
    """
    # Small letters only, as some file systems do not tell them from capitals; and nothing that ends like a hash.
    if re.fullmatch(r"[a-z0-9_][a-z0-9_.-]{0,99}", qid) and not re.search(r"-[0-9a-f]{16}$", qid):
        return f"{qid}.jsonl"
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', qid)[:60]}-{_hash(qid)[:16]}.jsonl"


def failures(report: pd.DataFrame) -> str:
    """Say how many pages of a report gave no text, and for each outcome the reason that most of them have.

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
    if not isinstance(qids := read_json(folder / _LIST), dict):
        raise InputError("is no list of corpora from the web, {qid: file}", path=folder / _LIST)
    # Which file is opened is up to the question's id, not to what a list from elsewhere says.
    return {qid: _read_corpus(qid, folder / corpus_name(qid)) for qid in qids}


def _read_corpus(qid: str, path: Path) -> list[Passage]:
    if not path.is_file():
        raise InputError(f"is missing, the corpus of question {qid!r}", path=path)
    return read_passages(path) if path.stat().st_size else []


class OwnCorpora(list[Passage]):
    """Corpora by question, each searched in its own; as a list all their passages, each once.

    A page that was found for two questions has the same docnos in both, and its text is that of the first.
    """

    def __init__(self, corpora: Mapping[str, Sequence[Passage]]) -> None:
        by_docno: dict[str, Passage] = {}
        for passage in chain.from_iterable(corpora.values()):
            by_docno.setdefault(passage.docno, passage)
        super().__init__(by_docno.values())
        self._corpora = corpora

    def of(self, question: Question) -> Sequence[Passage]:
        """Return the passages of a question; see :meth:`owner`."""
        return self._corpora[self.owner(question)]

    def owner(self, question: Question) -> str:
        """Return the qid of the question whose corpus is searched: its own, or that of the one a query was made of."""
        qid = question.owner or question.qid
        if qid not in self._corpora:
            there = ", ".join(map(repr, list(self._corpora)[:3]))
            raise InputError(f"question {qid!r} has no corpus of its own; these have: {there} …", field="qid")
        return qid


# ---------------------------------------------------------------- one question


def _corpus(
    question: Question, web: Web, fetcher: Fetcher, reader: TextReader
) -> tuple[list[Passage], list[tuple[Any, ...]]]:
    results = search(question.text, web)
    pages = _pages([r.url for r in results], web, fetcher)
    passages: list[Passage] = []
    rows = []
    for result, page in zip(results, pages, strict=True):
        text = PageText(page.outcome)
        if page.outcome == "ok":
            text = reader.read(page.body, page.headers.get("content-type", ""))
        pieces = split_words(text.text) if text.text else []
        docid, title = _hash(result.url)[:16], text.title or result.title
        passages += [Passage(f"{docid}-{i}", piece, title) for i, piece in enumerate(pieces)]
        row = (question.qid, result.position, page.url, text.outcome, page.status, page.seconds, len(text.text.split()))
        rows.append((*row, len(pieces), docid, page.final_url, page.fetched, " ".join(page.reason.split())))
    return passages, rows


def search(query: str, web: Web | None = None) -> list[Result]:
    """Return the results for a query, from the cache if it was asked before; each page once."""
    web = web or Web()
    path, provider = cache_path("search", web.provider.id, query, web.num), web.provider
    if kept := _recall(path):
        results = provider.read(kept[1])
    elif web.offline:
        raise MissingDataError(f"offline, and {provider.id} was never asked for {web.num} x {query!r}")
    else:
        answer = provider.ask(query, web.num)
        results = provider.read(answer)  # an answer that cannot be read is not kept
        _keep(path, {"provider": provider.id, "query": query, "num": web.num}, answer)
    found: dict[str, Result] = {}
    for result in results[: web.num]:
        found.setdefault(result.url, result)
    return list(found.values())


def _pages(urls: Sequence[str], web: Web, fetcher: Fetcher) -> list[Page]:
    """Return the pages in order, from the cache or the web."""
    pages = {url: page for url in urls if (page := _recalled(url)) is not None}
    if web.offline:
        return [pages.get(url) or Page(url, MISSING, "offline, and not in the cache") for url in urls]
    needed = [url for url in urls if url not in pages or (web.retry_failed and pages[url].outcome != "ok")]
    for page in bar(fetcher.fetch_all(needed), desc="pages", total=len(needed), unit="page"):
        pages[page.url] = page
        _keep_page(page)
    if needed and all(pages[url].outcome == "network" for url in needed):
        logger.warning("no answer from any of %d pages (is there a network?); --retry-failed asks again", len(needed))
    return [pages[url] for url in urls]


# ---------------------------------------------------------------- the cache


def cache_path(kind: str, *key: object) -> Path:
    """Return where an answer is kept: one file for each, by a hash of what was asked for."""
    name = _hash(json.dumps(key, ensure_ascii=False))
    return cache_dir() / "web" / kind / name[:2] / f"{name}.gz"


def _recalled(url: str) -> Page | None:
    kept = _recall(cache_path("page", url))
    if kept is None:
        return None
    return Page(**{**kept[0], "body": kept[1]})


def _keep_page(page: Page) -> None:
    note = page._asdict()
    _keep(cache_path("page", page.url), note, note.pop("body"))


def _recall(path: Path) -> tuple[dict[str, Any], bytes] | None:
    """Return the note and the answer that are kept there; None if nothing is, or if the file is damaged."""
    try:
        with gzip.open(path, "rb") as file:
            return dict(json.loads(file.readline())), file.read()
    except FileNotFoundError:
        return None
    except (OSError, EOFError, ValueError, TypeError, zlib.error) as error:
        logger.warning("%s is damaged (%s); it counts as not there", path, error)
        return None


def _keep(path: Path, note: dict[str, Any], body: bytes) -> None:
    """Write a line of JSON and an answer to the disk; the file appears under its name only when complete."""
    with write_text(path) as file:
        file.buffer.write(json.dumps(note).encode() + b"\n" + body)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
