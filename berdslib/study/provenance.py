"""Where a result comes from: what a run reads, what it ran on, what it took, and a TREC run's header that says so."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import yaml

from berdslib.data.catalogue import DATASETS
from berdslib.data.fetch import every_place
from berdslib.models.loading import fastest_format
from berdslib.paths import PACKAGE

_HASHED = 2**28  # bytes; of a larger file the size and the time of its last change are taken
_EVERY = 0.25  # seconds between two looks at a kernel

# ---------------------------------------------------------------- what is read


def inputs_of(values: Iterable[Any], root: Path, looked: dict[str, str | None] | None = None) -> dict[str, str]:
    """Return name → hash of the content of each data set and file that values name, also inside a system string.

    "" stands for a data set of which nothing is on this machine. ``looked`` keeps what is known of a word, None if it
    names nothing: whoever asks for many runs at once looks at each file once.
    """
    looked = {} if looked is None else looked
    words = {word for value in values for text in _texts(value) for word in (text, *re.split("[:+,]", text))}
    for word in words - looked.keys():
        places = _places(word, root) if re.search(r"\w", word) else []
        looked[word] = _digest(places) if places else None
    return {word: digest for word in sorted(words) if (digest := looked[word]) is not None}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _places(word: str, root: Path) -> list[Path]:
    if word in DATASETS:  # a name comes before a folder of that name, as in loading
        return every_place(DATASETS[word])
    path = root / word
    return [path] if len(word) < 256 and "\0" not in word and path.exists() else []


def _digest(places: Iterable[Path]) -> str:
    digest, empty = hashlib.sha256(), True
    for place in places:
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file():
                empty, about = False, path.stat()
                digest.update(path.name.encode() + _content(path, about.st_size, about.st_mtime_ns))
    return "" if empty else digest.hexdigest()[:16]


@cache
def _content(path: Path, size: int, changed: int) -> bytes:
    if size > _HASHED:
        return f"{size} {changed}".encode()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


# ---------------------------------------------------------------- what it ran on


@cache
def environment() -> dict[str, Any]:
    """Return the commit ("-dirty": files differ), the machine, the number format of encoders, versions of libraries."""
    described = ["git", "-C", str(PACKAGE.parent), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    commit = subprocess.run(described, capture_output=True, text=True).stdout if shutil.which("git") else ""
    about = Path("/proc/cpuinfo")  # of Linux
    models = re.findall(r"model name\s*: (.*)", about.read_text(encoding="utf-8")) if about.exists() else []
    there = {one.name.lower(): one for one in importlib.metadata.distributions()}
    needed = (there["berdslib"].requires or []) if "berdslib" in there else []
    names = {re.split(r"[^\w.-]", line)[0].lower() for line in needed if "extra ==" not in line}
    return {
        "commit": commit.strip(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": models[0] if models else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "ram": round(psutil.virtual_memory().total / 2**30),
        "number_format": fastest_format(os.environ.get("BERDS_ENGINE") or "torch"),
        "versions": {name: there[name].version for name in sorted(names & there.keys())},
    }


def ir_metadata(record: Mapping[str, Any], tag: str) -> str:
    """Return what run.json says as a header of a TREC run, in the form of ir_metadata (Breuer et al., SIGIR 2022)."""
    env = record["environment"]
    cpu = {"model": env["processor"], "number of cores": env["cores"]}
    libraries = [f"{name}=={version}" for name, version in env["versions"].items()]
    software = {"libraries": {"python": libraries}, "retrieval toolkit": [f"berdslib=={record['berdslib']}"]}
    system = {"kernel": env["platform"]}
    hardware = {"cpu": cpu, "ram": f"{env['ram']} GB"}
    about = {
        "tag": tag,
        "platform": {"hardware": hardware, "operating system": system, "software": software},
        "implementation": {"source": {"lang": "python", "commit": env["commit"], "code": record["code"]}},
        "method": {"automatic": True, "parameters": record["parameters"], "number format": env["number_format"]},
        "data": {"checksums": record["inputs"]},
    }
    lines = yaml.safe_dump(about, sort_keys=False, allow_unicode=True).splitlines()
    return "".join(f"# {line}\n" for line in ("ir_metadata.start", *lines, "ir_metadata.end"))


# ---------------------------------------------------------------- what it took


@contextmanager
def watched_kernel(mark: str, seconds: float, gigabytes: float | None) -> Iterator[SimpleNamespace]:
    """Look at the kernel whose command line holds a mark, and end it when it takes too long or too much memory.

    Memory is what is resident (RSS) of the kernel and its children: a limit on addresses (RLIMIT_AS) would end a run
    that only maps a large corpus or asks for a GPU. Yields ``peak``, the most so far in bytes, and why it ``ended``.
    """
    seen, done, began = SimpleNamespace(peak=0, ended=""), threading.Event(), time.monotonic()

    def look() -> None:
        while not done.wait(_EVERY):
            with suppress(psutil.Error):  # one has just ended
                below = psutil.Process().children(recursive=True)
                kernels = [process for process in below if mark in " ".join(process.cmdline())]
                tree = [one for kernel in kernels for one in (kernel, *kernel.children(recursive=True))]
                memory = sum(process.memory_info().rss for process in tree)
                seen.peak = max(seen.peak, memory)
                if time.monotonic() - began > seconds:
                    seen.ended = f"it took longer than {seconds:g} s"
                elif gigabytes and memory > gigabytes * 2**30:
                    seen.ended = f"it took more than {gigabytes:g} GB of memory"
                for process in tree if seen.ended else ():
                    process.kill()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()
