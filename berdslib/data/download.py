"""One file from the web onto the disk: resumed where it was cut, checked, and under its name only when complete."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import logging
import os
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from filelock import FileLock, Timeout
from tqdm import tqdm

from berdslib.errors import BerdsError, InputError, MissingDataError

logger = logging.getLogger(__name__)

CHUNK = 1 << 18
BACK_OFF = 0.5  # seconds before the first new attempt; doubled for each further failure in a row
_AGAIN = frozenset({408, 425, 429})  # and all from 500 on


class _CutError(Exception):
    """A failure that may pass: the next attempt goes on from what is already here."""


def download(
    url: str,
    target: str | Path,
    *,
    sha256: str | None = None,
    size: int | None = None,
    timeout: float = 30.0,
    retries: int = 3,
    progress: bool = True,
) -> Path:
    """Fetch `url` into the file `target`, unless it is already there.

    The bytes go to `target` + ".part" and move to `target` in one step when complete and checked. A cut download is
    resumed, by the next attempt or the next process, if a checksum is on record or the server can confirm that its
    file is still the same (If-Range); otherwise it starts anew. Two processes after the same file take turns at a lock
    rather than each keeping a part of its own: the second finds the file there, several gigabytes are fetched once,
    and what a killed process leaves behind can be resumed. The lock is the operating system's, so it dies with its
    holder.

    Args:
        url: an http or https address.
        target: where the file shall lie; missing folders are made.
        sha256: its checksum in hexadecimal, computed while writing; None = not checked.
        size: its size in bytes; None = not checked.
        timeout: seconds without a byte after which an attempt is given up.
        retries: new attempts after failures in a row; one that brought new bytes starts the count again.
        progress: show a progress bar if it takes longer than two seconds.

    Returns:
        The path of the complete file.

    Raises:
        MissingDataError: no network, no such file on the server, or not the file that is on record.
        InputError: not an http or https address, or a `target` that is a folder or has another size.
    """
    target = Path(target)
    if urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"{url!r} is not an http or https address", field="url")
    if _complete(target, size):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target):
        if not _complete(target, size):
            part = _Part(target, url, trusted=sha256 is not None)
            _fetch(url, part, size, timeout, retries, progress)
            _check(url, part, sha256, size)
            os.replace(part.path, target)
            part.remove()
    return target


def _complete(target: Path, size: int | None) -> bool:
    if target.is_dir():
        raise InputError("is a folder; a file is to be written here", path=target)
    if not target.exists():
        return False
    here = target.stat().st_size
    if size is not None and here != size:
        problem = f"holds {here:,} bytes, but {size:,} are on record; remove it to have it fetched anew"
        raise InputError(problem, path=target)
    return True


@contextlib.contextmanager
def _alone(target: Path) -> Iterator[None]:
    lock = FileLock(target.with_name(f".{target.name}.lock"), thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logger.info("waiting for another process that fetches %s", target)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


class _Part:
    """The unfinished file, with a note of what it is part of: address and version (ETag or date) on the server."""

    def __init__(self, target: Path, url: str, *, trusted: bool) -> None:
        self.target, self.url, self.trusted = target, url, trusted
        self.path = target.with_name(target.name + ".part")
        self.note = target.with_name(target.name + ".part.note")
        self.hash = hashlib.sha256()
        if not self.path.exists() or self._noted()[0] != url:
            self.remove()

    def _noted(self) -> tuple[str, str]:
        lines = self.note.read_text("utf-8").splitlines() if self.note.exists() else []
        return (lines[0], lines[1]) if len(lines) == 2 else ("", "")

    @property
    def version(self) -> str:
        return self._noted()[1]

    def length(self) -> int:
        """Bytes that the next attempt can build on: 0 if nobody could tell whether the rest still fits them."""
        here = self.path.stat().st_size if self.path.exists() else 0
        return here if self.trusted or self.version else 0

    def begin(self, version: str) -> None:
        self.remove()
        self.note.write_text(f"{self.url}\n{version}\n", "utf-8")

    def open(self, keep: int) -> IO[bytes]:
        """Open for appending after the first `keep` bytes, which the checksum then already covers."""
        self.hash = hashlib.sha256()
        if keep:
            with open(self.path, "rb") as file:
                while chunk := file.read(CHUNK):
                    self.hash.update(chunk)
        return open(self.path, "ab" if keep else "wb", buffering=0)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def _fetch(url: str, part: _Part, size: int | None, timeout: float, retries: int, progress: bool) -> None:
    failures, furthest = 0, part.length()
    while True:
        try:
            return _attempt(url, part, size, timeout, progress)
        except _CutError as error:
            here = part.length()
            failures = 1 if here > furthest else failures + 1
            furthest = max(furthest, here)
            if failures > retries:
                kept = f"The {here:,} bytes that arrived are kept. " if here else ""
                raise MissingDataError(
                    f"{url} could not be fetched to {part.target}: {error}. {kept}"
                    "Check the network (or the proxy in HTTPS_PROXY) and try again, or put the file there by hand."
                ) from None
            logger.warning("%s: %s; attempt %d of %d follows", url, error, failures + 1, retries + 1)
            time.sleep(BACK_OFF * 2 ** (failures - 1))


def _attempt(url: str, part: _Part, size: int | None, timeout: float, progress: bool) -> None:
    """Ask once for what is missing, and write it down as it comes."""
    here = part.length()
    try:
        response = _open(url, part, here, timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and here:
                # Nothing lies behind what is here: it is complete, or was never a part of this file.
                if _range_total(error.headers.get("Content-Range", "")) == here:
                    part.open(here).close()
                    return
                part.remove()
                raise _CutError("the part on the disk does not fit the file on the server") from None
            raise _refusal(url, part.target, error) from None
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise _no_answer(url, part.target, error) from None
    with response:
        start, total = _extent(response, here)
        if start not in (0, here):
            part.remove()
            raise _CutError(f"the server sent bytes from {start:,} on where {here:,} was asked for")
        if size is not None and total is not None and total != size:
            part.remove()
            raise MissingDataError(
                f"{url} now has {total:,} bytes, but {size:,} are on record: another version of the file, "
                f"not fetched to {part.target}"
            )
        _require_room(part.target, (total or 0) - start)
        if start == 0:
            part.begin(_version(response))
        _write(response, part, start, total, size, progress)


def _open(url: str, part: _Part, here: int, timeout: float) -> Any:
    request = urllib.request.Request(url, headers={"User-Agent": "berdslib"})
    if here:
        request.add_header("Range", f"bytes={here}-")
        if part.version:
            request.add_header("If-Range", part.version)
    return urllib.request.build_opener(_WebOnly).open(request, timeout=timeout)


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follow redirects to http and https only; urllib alone would also follow one to ftp."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise urllib.error.HTTPError(newurl, code, "a redirect away from http and https", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _write(response: Any, part: _Part, start: int, total: int | None, size: int | None, progress: bool) -> None:
    done = start
    bar = tqdm(
        total=total, initial=start, desc=part.target.name, unit="B", unit_scale=True, delay=2, disable=not progress
    )
    with part.open(start) as file, bar:
        while done != total:
            try:
                chunk = response.read1(CHUNK if total is None else min(CHUNK, total - done))
            except (http.client.HTTPException, OSError) as error:
                raise _CutError(f"the connection broke off ({_words(error)})") from None
            if not chunk:
                break
            file.write(chunk)
            part.hash.update(chunk)
            done += len(chunk)
            bar.update(len(chunk))
        os.fsync(file.fileno())
    expected = size if total is None else total
    if expected is not None and done < expected:
        raise _CutError(f"the connection broke off after {done:,} of {expected:,} bytes")


def _extent(response: Any, here: int) -> tuple[int, int | None]:
    """First byte that comes, and size of the whole file; a server that ignores Range sends everything (200)."""
    if response.status == 206:
        given = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip())
        if given is None:
            return here, None
        return int(given[1]), None if given[2] == "*" else int(given[2])
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else None


def _range_total(content_range: str) -> int | None:
    total = content_range.rpartition("/")[2]
    return int(total) if total.isdecimal() else None


def _version(response: Any) -> str:
    """What If-Range accepts: a strong ETag, else the date of the last change."""
    etag = response.headers.get("ETag", "")
    return etag if etag.startswith('"') else response.headers.get("Last-Modified", "")


def _require_room(target: Path, needed: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise BerdsError(f"{target} needs {needed:,} more bytes, but only {free:,} are free on that disk")


def _check(url: str, part: _Part, sha256: str | None, size: int | None) -> None:
    found, here = part.hash.hexdigest(), part.path.stat().st_size
    problem = ""
    if size is not None and here != size:
        problem = f"{here:,} bytes arrived, but {size:,} are on record"
    elif sha256 is not None and found != sha256.lower():
        problem = f"wrong checksum: sha256 {found}, on record {sha256.lower()}"
    if problem:
        part.remove()
        raise MissingDataError(
            f"{url}: {problem}. The download was removed and {part.target} not written: the file has changed at its "
            "source, or something on the way (a proxy, a login page) answered instead."
        )


def _refusal(url: str, target: Path, error: urllib.error.HTTPError) -> Exception:
    if error.code in _AGAIN or error.code >= 500:
        return _CutError(f"the server answered {error.code} {error.reason}")
    hint = {
        401: "It asks for a login: fetch it by hand",
        403: "It is not open to everyone: fetch it by hand",
        404: "It has moved or was withdrawn: look at its source page, fetch it by hand",
    }.get(error.code, "Look at its source page, fetch it by hand")
    return MissingDataError(f"{url}: the server answered {error.code} {error.reason}. {hint} and put it at {target}")


def _no_answer(url: str, target: Path, error: Exception) -> Exception:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return MissingDataError(
            f"{url}: the server's certificate is not trusted ({reason.verify_message}); not fetched to {target}"
        )
    return _CutError(f"no answer ({_words(reason)})")


def _words(error: object) -> str:
    return str(error) or type(error).__name__
