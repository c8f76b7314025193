"""Places of a data set's files on this machine, and downloads.

Downloads are atomic and verified; partial files are fetched again.
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

LARGEST = 16 * 2**30  # bytes, for files without a recorded size
BACK_OFF = 0.5  # seconds before the first retry; doubled for each further one
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses worth a retry

_HUB_SPLITS = {"dev": ("dev", "validation", "val", "valid"), "test": ("test",)}

# ---------------------------------------------------------------- places


def cache_of(dataset: Dataset) -> Path:
    """Return the folder for a data set's downloads, which may not exist yet."""
    return paths.cache_dir() / "data" / dataset.name


def data_paths(local: Iterable[str]) -> list[Path]:
    """Return paths below BERDS_DATA; if it is not set, paths with the variable's name, for messages only."""
    folder = paths.local_data_dir() or Path("$BERDS_DATA")
    return [folder / path for path in local]


def candidate_paths(dataset: Dataset, local: Sequence[str]) -> list[Path]:
    """Return the places of a file in the order of lookup: below BERDS_DATA, then in the cache."""
    cached = dict.fromkeys(cache_of(dataset) / Path(path).name for path in local)
    return [*data_paths(local), *cached]


def every_place(dataset: Dataset) -> list[Path]:
    """Return all places of a data set's files."""
    if dataset.shipped:
        return [paths.shipped(dataset.shipped)]
    if dataset.cached:
        return [*data_paths(dataset.local), *(cache_of(dataset) / name for name in dataset.cached)]
    return candidate_paths(dataset, dataset.local)


def marked(places: Iterable[Path]) -> list[str]:
    """Return a line for each path that says whether it exists."""

    def state(path: Path) -> str:
        if path.exists():
            return "there"
        return "BERDS_DATA is not set" if path.parts[0] == "$BERDS_DATA" else "not there"

    return [f"    {path}: {state(path)}" for path in places]


def there(places: Iterable[Path]) -> Path | None:
    """Return the first existing place, or None."""
    return next((path for path in places if path.exists()), None)


def first_existing(dataset: Dataset, places: Sequence[Path], what: str, more: Sequence[str] = ()) -> Path:
    """Return the first existing place, or raise a MissingDataError that lists all places."""
    path = there(places)
    if path is None:
        lines = [
            f"{dataset.name!r}, {what}: not on this machine. Looked for:",
            *marked(places),
            *more,
            fetch_hint(dataset),
        ]
        raise MissingDataError("\n".join(lines))
    return path


def fetch_hint(dataset: Dataset) -> str:
    """Say how to get a data set."""
    if dataset.shipped:
        return "It comes with the package."
    if dataset.fetchable:
        return f"With a network: berds data fetch {dataset.name}"
    return f"{dataset.how} Source: {dataset.source}"


# ---------------------------------------------------------------- fetching


def fetch_files(dataset: Dataset) -> list[Path]:
    """Download the files of a data set into the cache, see :func:`berdslib.data.datasets.fetch`."""
    if dataset.shipped:
        return sorted(p for p in paths.shipped(dataset.shipped).iterdir() if p.is_file())
    if not dataset.fetchable:
        raise MissingDataError(f"{dataset.name!r} cannot be fetched by a command. {fetch_hint(dataset)}")
    fetched = []
    if dataset.hf_repo:
        fetched += _fetch_splits(dataset) if dataset.splits else _fetch_repository(dataset, dataset.hf_repo)
    fetched += [_fetch_table(dataset, table) for table in dataset.tables]
    for remote in dataset.files:
        fetched.append(download(remote.url, cache_of(dataset) / remote.name, sha256=remote.sha256, size=remote.bytes))
    return fetched


def _fetch_splits(dataset: Dataset) -> list[Path]:
    """Write each split of a repository as JSONL into the cache."""
    tables = _hub_tables(dataset, str(dataset.hf_repo))
    found = {}
    for split, names in _HUB_SPLITS.items():
        name = next((name for name in names if name in tables), None)
        if name is not None:
            found[split] = tables[name]
    if not found:
        raise MissingDataError(f"{dataset.hf_repo} has neither a dev nor a test split; it has: {', '.join(tables)}")
    return [_write(table, cache_of(dataset) / f"{split}.jsonl") for split, table in found.items()]


def _fetch_table(dataset: Dataset, table: HubTable) -> Path:
    """Write a table of a Hugging Face data set as JSONL into the cache."""
    tables = _hub_tables(dataset, table.repo, table.config)
    if table.split not in tables:
        problem = f"{table.repo}, {table.config}: there is no split {table.split!r}; it has: {', '.join(tables)}"
        raise MissingDataError(problem)
    return _write(tables[table.split], cache_of(dataset) / table.name)


def _write(table: Any, path: Path) -> Path:
    with atomic_path(path) as unfinished:
        table.to_json(unfinished, force_ascii=False)
    return path


def _hub_tables(dataset: Dataset, repo: str, config: str | None = None) -> Mapping[str, Any]:
    """Read a Hugging Face data set: split → table."""
    try:
        import datasets
    except ImportError:
        problem = f"{repo}: reading a data set of Hugging Face needs datasets; pip install 'berdslib[hub]'"
        raise MissingDataError(problem) from None
    source = str(_clone(repo) or repo)
    try:
        tables: Mapping[str, Any] = datasets.load_dataset(source, config, cache_dir=str(cache_of(dataset) / "hf"))
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        where = f"Hugging Face {repo}" if source == repo else source
        raise MissingDataError(f"{where} could not be read: {error}") from error
    return tables


def _fetch_repository(dataset: Dataset, repo: str) -> list[Path]:
    """Copy a Hugging Face repository unchanged."""
    import huggingface_hub

    folder = cache_of(dataset)
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
    """Return the folder with a clone of a repository; None if there is no clone and the hub is reachable."""
    chosen = os.environ.get("BERDS_HF_DIR")
    folder = Path(chosen).expanduser() / repo if chosen else None
    if folder is not None and folder.is_dir():
        return folder
    require_hub(repo)
    return None


def require_hub(repo: str) -> None:
    """Fail at once without a network; the hub's own client would retry for half a minute."""
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

    Concurrent processes take turns, so that the file is fetched once.

    Args:
        url: an http or https address.
        target: the path of the file; missing folders are created.
        sha256: its checksum in hexadecimal; None = not checked.
        size: its size in bytes; None = not checked, and LARGEST at most.
        timeout: seconds without data from the server before an attempt fails.
        retries: number of further attempts after temporary failures.

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
    problem = _differs(target, sha256, size)
    if problem:
        raise InputError(f"is not the file on record: {problem}; remove it to fetch it again", path=target)
    return target


def _differs(path: Path, sha256: str | None, size: int | None) -> str:
    """Say how a file differs from its record; "" if it does not."""
    found = path.stat().st_size
    if size not in (None, found):
        return f"it has {found:,} bytes, and {size:,} are on record"
    if sha256 is None:
        return ""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return "" if digest == sha256.lower() else f"its sha256 is {digest}, and {sha256} is on record"


def _retrieve(url: str, target: Path, sha256: str | None, size: int | None, timeout: float, retries: int) -> None:
    """Fetch a file, with retries after temporary failures."""
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
    """Write a file atomically, after verifying it."""
    with atomic_path(target) as unfinished:
        _stream(url, unfinished, size or LARGEST, timeout)
        problem = _differs(unfinished, sha256, size)
        if problem:
            hint = "it has changed at its source, or something on the way (a proxy, a login page) answered"
            raise MissingDataError(f"{url}: {problem}. Not written to {target}: {hint}")


def _stream(url: str, path: Path, most: int, timeout: float) -> None:
    """Write the server's answer, up to `most` bytes."""
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
