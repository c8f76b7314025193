"""Where the files of a data set are looked for on this machine, and how to download them.

A download has its name only when it is complete and its checksum is found right. What is cut is fetched anew.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import socket
import ssl
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from filelock import FileLock

from berdslib import paths
from berdslib.data.catalogue import Dataset, HubTable
from berdslib.errors import InputError, MissingDataError
from berdslib.files import atomic_path
from berdslib.progress import bar

logger = logging.getLogger(__name__)

LARGEST = 16 * 2**30  # bytes, where the size is not on record
BACK_OFF = 0.5  # seconds before the first new attempt; doubled for each further one
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses that may pass

_HUB_SPLITS = {"dev": ("dev", "validation", "val", "valid"), "test": ("test",)}

# ---------------------------------------------------------------- places


def cache_of(one: Dataset) -> Path:
    """Return the folder that downloads of a data set go to; it may not exist yet."""
    return paths.cache_dir() / "data" / one.name


def data_paths(local: Iterable[str]) -> list[Path]:
    """Return paths below BERDS_DATA; where that is not set, they start with its name, to be shown but never found."""
    folder = paths.local_data_dir()
    return [(folder if folder is not None else Path("$BERDS_DATA")) / one for one in local]


def candidate_paths(one: Dataset, local: Sequence[str]) -> list[Path]:
    """Return where a file is looked for, in this order: below BERDS_DATA, then in the cache."""
    cached = dict.fromkeys(cache_of(one) / Path(path).name for path in local)
    return [*data_paths(local), *cached]


def every_place(one: Dataset) -> list[Path]:
    """Return all places where files of a data set are looked for."""
    if one.shipped:
        return [paths.shipped(one.shipped)]
    if one.cached:
        return [*data_paths(one.local), *(cache_of(one) / name for name in one.cached)]
    return candidate_paths(one, one.local)


def marked(places: Iterable[Path]) -> list[str]:
    """Return a line for each path that says whether it exists."""

    def state(path: Path) -> str:
        if path.exists():
            return "there"
        return "BERDS_DATA is not set" if path.parts[0] == "$BERDS_DATA" else "not there"

    return [f"    {path}: {state(path)}" for path in places]


def there(places: Iterable[Path]) -> Path | None:
    """Return the first place that is there."""
    return next((path for path in places if path.exists()), None)


def first_existing(one: Dataset, places: Sequence[Path], what: str, more: Sequence[str] = ()) -> Path:
    """Return the first place that is there, or raise MissingDataError, which says where one was looked for."""
    path = there(places)
    if path is None:
        lines = [f"{one.name!r}, {what}: not on this machine. Looked for:", *marked(places), *more, fetch_hint(one)]
        raise MissingDataError("\n".join(lines))
    return path


def fetch_hint(one: Dataset) -> str:
    """Say how to get a data set."""
    if one.shipped:
        return "It comes with the package."
    if one.fetchable:
        return f"With a network: berds data fetch {one.name}"
    return f"{one.how} Source: {one.source}"


# ---------------------------------------------------------------- fetching


def fetch_files(one: Dataset) -> list[Path]:
    """Download the files of a data set into the cache, see :func:`berdslib.data.datasets.fetch`."""
    if one.shipped:
        return sorted(p for p in paths.shipped(one.shipped).iterdir() if p.is_file())
    if not one.fetchable:
        raise MissingDataError(f"{one.name!r} cannot be fetched by a command. {fetch_hint(one)}")
    fetched = []
    if one.hf_repo:
        fetched += _fetch_splits(one) if one.splits else _fetch_repository(one, one.hf_repo)
    fetched += [_fetch_table(one, table) for table in one.tables]
    for remote in one.files:
        fetched.append(download(remote.url, cache_of(one) / remote.name, sha256=remote.sha256, size=remote.bytes))
    return fetched


def _fetch_splits(one: Dataset) -> list[Path]:
    """Write each split of a repository as JSONL into the cache."""
    tables = _hub_tables(one, str(one.hf_repo))
    there = {split: next((name for name in names if name in tables), "") for split, names in _HUB_SPLITS.items()}
    if not any(there.values()):
        raise MissingDataError(f"{one.hf_repo} has neither a dev nor a test split; it has: {', '.join(tables)}")
    return [_write(tables[name], cache_of(one) / f"{split}.jsonl") for split, name in there.items() if name]


def _fetch_table(one: Dataset, table: HubTable) -> Path:
    """Write a table of a Hugging Face data set as JSONL into the cache."""
    tables = _hub_tables(one, table.repo, table.config)
    if table.split not in tables:
        problem = f"{table.repo}, {table.config}: there is no split {table.split!r}; it has: {', '.join(tables)}"
        raise MissingDataError(problem)
    return _write(tables[table.split], cache_of(one) / table.name)


def _write(table: Any, path: Path) -> Path:
    with atomic_path(path) as unfinished:
        table.to_json(unfinished, force_ascii=False)
    return path


def _hub_tables(one: Dataset, repo: str, config: str | None = None) -> Mapping[str, Any]:
    """Read a Hugging Face data set: split → table."""
    try:
        import datasets
    except ImportError:
        problem = f"{repo}: reading a data set of Hugging Face needs datasets; pip install 'berdslib[hub]'"
        raise MissingDataError(problem) from None
    source = str(_clone(repo) or repo)
    try:
        tables: Mapping[str, Any] = datasets.load_dataset(source, config, cache_dir=str(cache_of(one) / "hf"))
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        where = f"Hugging Face {repo}" if source == repo else source
        raise MissingDataError(f"{where} could not be read: {error}") from error
    return tables


def _fetch_repository(one: Dataset, repo: str) -> list[Path]:
    """Copy a Hugging Face repository as it is."""
    import huggingface_hub

    folder = cache_of(one)
    clone = _clone(repo)
    try:
        if clone is not None:
            shutil.copytree(clone, folder, ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True)
        else:
            huggingface_hub.snapshot_download(repo, repo_type="dataset", local_dir=folder)
    except (OSError, ValueError) as error:
        raise MissingDataError(f"Hugging Face {repo} could not be fetched to {folder}: {error}") from None
    files = (p for p in folder.rglob("*") if p.is_file())
    return sorted(p for p in files if not any(part.startswith(".") for part in p.relative_to(folder).parts))


def _clone(repo: str) -> Path | None:
    """Return the folder with a clone of a repository; where there is none, the hub must be reachable."""
    chosen = os.environ.get("BERDS_HF_DIR")
    folder = Path(chosen).expanduser() / repo if chosen else None
    if folder is not None and folder.is_dir():
        return folder
    require_hub(repo)
    return None


def require_hub(repo: str) -> None:
    """Say at once that there is no network; the hub's own client would try for half a minute."""
    from huggingface_hub import constants

    host = urlsplit(constants.ENDPOINT).hostname
    if constants.HF_HUB_OFFLINE or "https" in urllib.request.getproxies():
        return
    try:
        socket.getaddrinfo(host, 443)
    except OSError as error:
        hint = "check the network, or let BERDS_HF_DIR name a folder with a clone at OWNER/NAME"
        raise MissingDataError(f"Hugging Face {repo}: {host} is not reachable ({error}); {hint}") from None


# ---------------------------------------------------------------- one file


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
        timeout: seconds with nothing from the server after which an attempt is given up.
        retries: new attempts after failures that may pass.

    Returns:
        The path of the complete file.
    """
    target = Path(target)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock"), thread_local=False):
            if not target.exists():
                _retrieve(url, target, sha256, size, timeout, retries)
                return target
    if problem := _differs(target, sha256, size):
        raise InputError(f"is not the file on record: {problem}; remove it to have it fetched anew", path=target)
    return target


def _differs(path: Path, sha256: str | None, size: int | None) -> str:
    """Say how a file differs from the one that is on record; "" where it does not."""
    found = path.stat().st_size
    if size not in (None, found):
        return f"it has {found:,} bytes, and {size:,} are on record"
    if sha256 is None:
        return ""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return "" if digest == sha256.lower() else f"its sha256 is {digest}, and {sha256} is on record"


def _retrieve(url: str, target: Path, sha256: str | None, size: int | None, timeout: float, retries: int) -> None:
    """Fetch a file, again after failures that may pass."""
    import httpx
    import tenacity

    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_may_pass),
        wait=tenacity.wait_exponential(BACK_OFF),
        stop=tenacity.stop_after_attempt(retries + 1),
        reraise=True,
    )
    try:
        attempts(_fetch_once, url, target, sha256, size, timeout)
    except (httpx.HTTPError, httpx.InvalidURL) as error:  # the latter: a redirect to "data:,x"
        reason = (str(error) or type(error).__name__).splitlines()[0]
        hint = "Check the network (or the proxy in HTTPS_PROXY) and try again, or fetch it by hand and put it at"
        raise MissingDataError(f"{url} could not be fetched: {reason}. {hint} {target}") from None


def _may_pass(error: BaseException) -> bool:
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in TRANSIENT
    if isinstance(error, httpx.UnsupportedProtocol | httpx.TooManyRedirects):
        return False
    return isinstance(error, httpx.RequestError) and "CERTIFICATE_VERIFY_FAILED" not in str(error)


def _fetch_once(url: str, target: Path, sha256: str | None, size: int | None, timeout: float) -> None:
    """Write a file under its name once it is complete and found right."""
    with atomic_path(target) as unfinished:
        _stream(url, unfinished, size or LARGEST, timeout)
        if problem := _differs(unfinished, sha256, size):
            hint = "it has changed at its source, or something on the way (a proxy, a login page) answered"
            raise MissingDataError(f"{url}: {problem}. Not written to {target}: {hint}")


def _stream(url: str, path: Path, most: int, timeout: float) -> None:
    """Write what the server sends, unless it is more than `most` bytes."""
    import httpx

    headers = {"User-Agent": "berdslib", "Accept-Encoding": "identity"}
    options: dict[str, Any] = {"follow_redirects": True, "timeout": timeout, "verify": ssl.create_default_context()}
    with httpx.stream("GET", url, headers=headers, **options) as response:
        response.raise_for_status()
        if response.status_code != httpx.codes.OK:  # 206 is a part, 204 is nothing
            raise MissingDataError(f"{url}: the server answered {response.status_code}, which is not the whole file")
        if "html" in response.headers.get("content-type", "") and not url.endswith((".html", ".htm")):
            hint = "something on the way (a proxy, a login page) may have answered"
            raise MissingDataError(f"{url}: the server sent a web page in place of the file; {hint}")
        total = int(response.headers.get("content-length", 0))
        shown = bar(total=total or None, desc=url.rpartition("/")[2], unit="B", unit_scale=True)
        with shown, path.open("wb") as file:
            for chunk in response.iter_raw():
                if max(total, file.tell() + len(chunk)) > most:
                    raise MissingDataError(f"{url} has more than the {most:,} bytes that are expected; it was not kept")
                file.write(chunk)
                shown.update(len(chunk))
