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
from collections import UserDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, overload

import pandas as pd

from berdslib.data.formats import read_passages, write_passages
from berdslib.data.passages import corpus_statistics, split_words
from berdslib.data.records import Passage, Question, check_questions
from berdslib.data.webpage import Fetcher, Limits, Page, PageError, PageText, TextReader, back_off, status_error
from berdslib.errors import BerdsError, InputError, MissingDataError
from berdslib.files import StrPath, write_text
from berdslib.paths import cache_dir
from berdslib.progress import bar

logger = logging.getLogger(__name__)

REPORT_COLUMNS = [
    "qid", "position", "url", "outcome", "status", "seconds", "words", "passages", "docid", "final_url", "fetched",
    "reason",
]  # fmt: skip
MISSING = "missing"  # the outcome of a page that is not in the cache, offline
_REPORT, _LIST = "pages.csv", "corpora.json"  # the second is written last: with it, a folder is complete


# ---------------------------------------------------------------- searching

_KEY = "SERPER_API_KEY"  # the environment variable that holds it
_LONGEST_WAIT = 60.0  # seconds that the service may ask for; if it asks for more, that is an error


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
        if not url.startswith(("https://", "http://")):
            raise InputError(f"a search service must be an http or https address, not {url!r}")
        self.url, self.retries, self.id = url, retries, f"serper({url})"

    def ask(self, query: str, num: int) -> bytes:
        """Return the service's answer without the key; waits and tries again after failures that may pass."""
        import httpx

        key = os.environ.get(_KEY, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            state = "holds characters that no key has" if key else "is not set"
            raise SearchError(f"{self.url} asks for a key; the variable {_KEY} {state}")
        for attempt in range(self.retries + 1):
            hint = ""
            try:
                answer = httpx.post(self.url, json={"q": query, "num": num}, headers={"X-API-KEY": key}, timeout=30)
                if answer.is_success:
                    return answer.content.replace(key.encode(), b"[key]")
                failure = status_error(answer)
                if failure.status in (401, 403):
                    hint = f"; the key in the variable {_KEY} is refused"
                elif failure.status == 400:  # out of credits, for one
                    hint = f": {answer.text[:300].replace(key, '[key]')}"
            except httpx.RequestError as error:
                failure = PageError("network", f"no answer ({error or type(error).__name__})", again=True)
            if not failure.again or failure.wait > _LONGEST_WAIT or attempt == self.retries:
                break
            time.sleep(failure.wait or back_off(1.0, attempt))
        raise SearchError(f"{self.url}: {failure}{hint}")

    def read(self, answer: bytes) -> list[Result]:
        """Return the organic results in their order."""
        try:
            rows = json.loads(answer)["organic"]
            found = [(row["link"].partition("#")[0], str(row.get("title") or "")) for row in rows]
            # Half of a surrogate pair is legal JSON, but no text: it cannot be written.
            texts = [[text.encode("utf-8", "replace").decode() for text in pair] for pair in found]
            return [Result(url, title, place) for place, (url, title) in enumerate(texts, start=1)]
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

    def __post_init__(self) -> None:
        for name in ("num", "workers"):
            if getattr(self, name) < 1:
                raise InputError(f"must be at least 1, not {getattr(self, name)}", field=name)


def web_corpora(questions: Sequence[Question], folder: StrPath, web: Web | None = None) -> pd.DataFrame:
    """Write a corpus for each question, QID.jsonl, pages.csv with what came of each page, and corpora.json (BeRDS 4.2).

    The last one lists the questions' files and is written last: without it, a folder is not complete. In an older
    folder, what is asked again is replaced, and what is not is no longer listed. Returned is what pages.csv holds: qid,
    position, url, outcome (see :class:`Page` and :class:`PageText`), status, seconds, words, passages, docid (what the
    page's docnos begin with), final_url, fetched, reason.
    """
    check_questions(questions)
    web, folder = web or Web(), Path(folder)
    if folder.is_dir() and any(folder.iterdir()) and not is_web_corpora(folder):
        raise InputError("holds other files; name a new folder, or one with corpora from the web", path=folder)
    files = {q.qid: corpus_name(q.qid) for q in questions}
    fetcher, rows = Fetcher(web.limits, web.workers), []
    with TextReader(web.extractor) as reader:
        for question in bar(questions, desc="web corpora", unit="question"):
            passages, pages = _corpus(question, web, fetcher, reader)
            rows += pages
            if not passages:
                logger.warning("no page for question %r gave any text", question.qid)
            (folder / _LIST).unlink(missing_ok=True)  # until the end, the folder holds some of both runs
            if not is_web_corpora(folder):
                _write_report(folder, [])  # so that one can tell what began here
            write_passages(folder / files[question.qid], passages)
    report = _write_report(folder, rows)
    with write_text(folder / _LIST) as file:
        json.dump(files, file, ensure_ascii=False, indent=1)
    missing = report.loc[report["outcome"] == MISSING, "url"].tolist()
    if missing:
        some = ", ".join(missing[:10]) + (" …" if len(missing) > 10 else "")
        logger.warning("offline, and %d of %d pages are not in the cache: %s", len(missing), len(report), some)
    return report


def _write_report(folder: Path, rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    report = pd.DataFrame(rows, columns=REPORT_COLUMNS)
    with write_text(folder / _REPORT) as file:
        report.to_csv(file, index=False, lineterminator="\n")
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
    parts = []
    for outcome, n in failed["outcome"].value_counts().items():
        reasons = failed.loc[failed["outcome"] == outcome, "reason"].value_counts()
        usual = str(reasons.index[0]) or "fetched, but nothing could be taken out"
        rarer = f", and {len(reasons) - 1} other reasons" if len(reasons) > 1 else ""
        parts.append(f"{n} {outcome} ({usual}{rarer})")
    return f"{len(failed)} of {len(report)} pages gave no text" + (f": {'; '.join(parts)}" if parts else "")


# ---------------------------------------------------------------- a folder of them


def is_web_corpora(path: StrPath) -> bool:
    """Say whether this is a folder that :func:`web_corpora` wrote, be it complete or not."""
    report = Path(path) / _REPORT
    return report.is_file() and report.read_bytes()[:3] == b"qid"


def open_web_corpora(folder: StrPath) -> WebCorpora:
    """Return the corpora of a folder that :func:`web_corpora` wrote and completed, by the ids of their questions."""
    folder = Path(folder)
    if not is_web_corpora(folder):
        raise InputError(f"holds no corpora from the web ({_REPORT})", path=folder)
    path = folder / _LIST
    if not path.is_file():
        problem = f"holds no {_LIST}, which comes last: a run did not end here; again, it goes on from the cache"
        raise InputError(problem, path=folder)
    try:
        qids = list(dict(json.loads(path.read_bytes())))
    except (TypeError, ValueError, RecursionError):
        raise InputError("is no list of corpora from the web, {qid: file}", path=path) from None
    # Which file is opened is up to the question's id, not to what a list from elsewhere says.
    return WebCorpora({qid: folder / corpus_name(qid) for qid in qids})


class WebCorpora(UserDict[str, Any]):
    """The corpora of questions, qid → passages, in the order of the questions; each is read when it is asked for."""

    def __getitem__(self, qid: str) -> list[Passage]:
        path = self.data[qid]
        if not path.is_file():
            raise InputError(f"is missing, the corpus of question {qid!r}", path=path)
        return read_passages(path) if path.stat().st_size else []


class OwnCorpora(Sequence[Passage]):
    """Corpora by question, each searched in its own; as a sequence all their passages, each once, held in memory.

    A page that was found for two questions has the same docnos in both, and its text is that of the first.
    """

    def __init__(self, corpora: Mapping[str, Sequence[Passage]]) -> None:
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

    @cached_property
    def _all(self) -> list[Passage]:
        by_docno: dict[str, Passage] = {}
        for passage in chain.from_iterable(self._corpora.values()):
            by_docno.setdefault(passage.docno, passage)
        return list(by_docno.values())

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, index: int) -> Passage: ...

    @overload
    def __getitem__(self, index: slice) -> list[Passage]: ...

    def __getitem__(self, index: int | slice) -> Passage | list[Passage]:
        return self._all[index]


def web_statistics(folder: StrPath) -> dict[str, float]:
    """Return the last row of BeRDS Table 2 for a folder of :func:`web_corpora`: means over its questions.

    The keys are corpora (number), passages, documents and mean_words (per passage, of questions that have one).
    """
    corpora = open_web_corpora(folder)
    nothing = {"passages": 0, "documents": 0, "mean_words": float("nan")}
    means = pd.DataFrame([corpus_statistics(one) if one else nothing for one in corpora.values()]).mean()
    return {"corpora": len(corpora), **{column: float(means[column]) for column in nothing}}


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
    """Return the pages in order, from the cache or the web; silence is kept only if some page was answered."""
    pages = {url: page for url in urls if (page := _recalled(url)) is not None}
    if web.offline:
        return [pages.get(url) or Page(url, MISSING, "offline, and not in the cache") for url in urls]
    needed = [url for url in urls if url not in pages or (web.retry_failed and pages[url].outcome != "ok")]
    silent, somebody = [], False
    for page in bar(fetcher.fetch_all(needed), desc="pages", total=len(needed), unit="page"):
        pages[page.url] = page
        somebody |= bool(page.status) or page.outcome == "robots"
        if page.outcome in ("network", "timeout") and not page.status:
            silent.append(page)
        else:
            _keep_page(page)
    if somebody:
        for page in silent:
            _keep_page(page)
    elif silent:
        logger.warning("no answer from any of %d pages; this is not kept (is there a network?)", len(silent))
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
    note = {name: value for name, value in kept[0].items() if name in Page._fields}  # another version may note more
    return Page(**{**note, "url": url, "body": kept[1]})


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
