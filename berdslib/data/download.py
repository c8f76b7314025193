"""One file from the web onto the disk: checked, and under its name only when complete.

The library pooch keeps the file apart until its checksum is found right. It does not resume: what is cut is fetched
anew.
"""

from __future__ import annotations

import logging
import shutil
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from filelock import FileLock

from berdslib.errors import BerdsError, InputError, MissingDataError

logger = logging.getLogger(__name__)

LARGEST = 16 * 2**30  # bytes, where the size is not on record
LEAST = 1024.0  # bytes a second, over as long as a server may be silent
BACK_OFF = 0.5  # seconds before the first new attempt; doubled for each further one
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses that may pass


def download(
    url: str,
    target: str | Path,
    *,
    sha256: str | None = None,
    size: int | None = None,
    timeout: float = 30.0,
    retries: int = 3,
) -> Path:
    """Fetch `url` into the file `target`, unless it is already there.

    Two processes after the same file take turns, so that it is fetched once.

    Args:
        url: an http or https address.
        target: where the file shall lie; missing folders are made.
        sha256: its checksum in hexadecimal; None = not checked.
        size: its size in bytes; None = not checked, and LARGEST at most.
        timeout: seconds with nothing, or next to nothing, from the server after which an attempt is given up.
        retries: new attempts after failures that may pass.

    Returns:
        The path of the complete file.

    Raises:
        MissingDataError: no network, no such file on the server, or not the file that is on record.
        InputError: not an http or https address, or a `target` that is a folder or has another size.
        BerdsError: there is no room for it.
    """
    target = Path(target)
    if urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"{url!r} is not an http or https address", field="url")
    if _complete(target, size):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(f".{target.name}.lock"), thread_local=False):
        if not _complete(target, size):
            _retrieve(url, target, sha256, size, timeout, retries)
    return target


def _complete(target: Path, size: int | None) -> bool:
    if target.is_dir():
        raise InputError("is a folder; a file is to be written here", path=target)
    if target.exists() and size not in (None, target.stat().st_size):
        problem = (
            f"holds {target.stat().st_size:,} bytes, but {size:,} are on record; remove it to have it fetched anew"
        )
        raise InputError(problem, path=target)
    return target.exists()


def _retrieve(url: str, target: Path, sha256: str | None, size: int | None, timeout: float, retries: int) -> None:
    """Fetch a file, again after what may pass, and let pooch check it and move it to its place."""
    import httpx

    try:
        import pooch
    except ImportError:
        raise MissingDataError(f"{url}: a download needs pooch; pip install 'berdslib[hub]'") from None

    def fetch(url: str, path: str, _: object) -> None:
        _stream(url, Path(path), size, timeout)

    pooch.get_logger().setLevel(logging.WARNING)
    store = pooch.create(target.parent, "", registry={target.name: sha256}, urls={target.name: url})
    for attempt in range(retries + 1):
        try:
            store.fetch(target.name, downloader=fetch)
            target.chmod(0o644)  # pooch leaves it to its owner alone
            return
        except ValueError as error:
            raise MissingDataError(
                f"{url}: {error} Not written to {target}: the file has changed at its source, or something on the way "
                "(a proxy, a login page) answered instead."
            ) from None
        except httpx.HTTPStatusError as error:
            why = f"the server answered {error.response.status_code} {error.response.reason_phrase}"
            passes = error.response.status_code in TRANSIENT
        except httpx.RequestError as error:
            why = str(error) or type(error).__name__
            passes = not isinstance(error, httpx.UnsupportedProtocol | httpx.TooManyRedirects)
            passes = passes and "CERTIFICATE_VERIFY_FAILED" not in why
        if not passes or attempt == retries:
            break
        logger.warning("%s: %s; attempt %d of %d follows", url, why, attempt + 2, retries + 1)
        time.sleep(BACK_OFF * 2**attempt)
    hint = "Check the network (or the proxy in HTTPS_PROXY) and try again, or fetch it by hand and put it at"
    raise MissingDataError(f"{url} could not be fetched: {why}. {hint} {target}")


def _stream(url: str, path: Path, size: int | None, timeout: float) -> None:
    """Write what the server sends, unless it is too much, too little, or too slow.

    pooch's own downloader takes a kilobyte at a time: a server that sends a byte now and then keeps it for hours.
    """
    import httpx
    from tqdm import tqdm

    headers = {"User-Agent": "berdslib", "Accept-Encoding": "identity"}
    options: dict[str, Any] = {"follow_redirects": True, "timeout": timeout, "verify": ssl.create_default_context()}
    done = seen = 0
    with httpx.stream("GET", url, headers=headers, **options) as response:
        response.raise_for_status()
        total = int(response.headers.get("content-length", 0))
        if total > (size or LARGEST) or (size and 0 < total < size):
            raise _another_size(url, f"{total:,}", size)
        free = shutil.disk_usage(path.parent).free
        if total > free:
            raise BerdsError(f"{url} needs {total:,} bytes, but only {free:,} are free at {path.parent}")
        began = time.monotonic()
        bar = tqdm(total=total or None, desc=url.rpartition("/")[2], unit="B", unit_scale=True, delay=2)
        with bar, path.open("wb") as file:
            for chunk in response.iter_raw():
                done += len(chunk)
                if done > (size or LARGEST):
                    raise _another_size(url, f"more than {size or LARGEST:,}", size)
                if time.monotonic() - began > timeout:
                    if done - seen < LEAST * timeout:
                        raise httpx.ReadTimeout(f"only {done - seen:,} bytes in {timeout:g} s")
                    began, seen = time.monotonic(), done
                file.write(chunk)
                bar.update(len(chunk))
    if size not in (None, done):
        raise _another_size(url, f"{done:,}", size)


def _another_size(url: str, found: str, size: int | None) -> MissingDataError:
    accepted = f"{size:,} are on record: another version of the file" if size else f"{LARGEST:,} are accepted"
    return MissingDataError(f"{url} has {found} bytes, but {accepted}; it was not kept")
