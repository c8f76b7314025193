"""The record of a run's making, beside the run: ir_metadata 0.2 (Breuer et al., SIGIR 2022; www.ir-metadata.org)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from berdslib.files import StrPath, write_text
from berdslib.study.notebooks import code_version, environment, inputs_of
from berdslib.version import __version__

ENDING = ".ir_metadata.yaml"


def metadata_path(run: StrPath) -> Path:
    """Return the path of a run's record: that of the run, with another ending.

    >>> metadata_path("bm25.trec").name
    'bm25.ir_metadata.yaml'
    """
    run = Path(run)
    return run.with_name(run.name.removesuffix(".gz").removesuffix(".trec") + ENDING)


def record_of(parameters: Mapping[str, Any], began: datetime | None = None) -> dict[str, Any]:
    """Return the record of a run that was made just now, in the fields of a notebook's run.json.

    Args:
        parameters: what the run was made with; data sets and files that the values name are hashed; paths are relative
            to the current folder.
        began: when its making began, if that was measured.
    """
    record: dict[str, Any] = {
        "berdslib": __version__,
        "code": code_version(),
        "parameters": {name: _plain(value) for name, value in parameters.items() if value not in (None, "", [])},
        "inputs": inputs_of(parameters.values(), Path.cwd()),
        "environment": environment(),
    }
    if began:
        seconds = (datetime.now(UTC) - began).total_seconds()
        record |= {"started": began.isoformat(timespec="seconds"), "seconds": round(seconds, 1)}
    return record


def _plain(value: Any) -> Any:
    """Return a value as YAML can hold it: a path as text."""
    return value if isinstance(value, str | int | float | list) else str(value)


def write_ir_metadata(run: StrPath, record: Mapping[str, Any], tag: str) -> None:
    """Write the record of a run beside it; `tag` is that of its lines, `record` as in run.json or :func:`record_of`.

    The record is a file of its own, because trec_eval stops at a comment in a run.
    """
    env = record["environment"]
    libraries = [f"{name}=={version}" for name, version in env["versions"].items()]
    about: dict[str, Any] = {
        "schema version": "0.2",
        "tag": tag,
        "actor": {},
        "platform": {
            "hardware": {
                "cpu": {"model": env["processor"], "number of cores": env["cores"]},
                "ram": f"{env['ram']} GB",
            },
            "operating system": {"kernel": env["platform"]},
            "software": {
                "libraries": {"python": [f"python=={env['python']}", *libraries]},
                "retrieval toolkit": [f"berdslib=={record['berdslib']}"],
            },
        },
        "research goal": {},
        "implementation": {"source": {"lang": "python", "commit": env["commit"], "code": record["code"]}},
        "method": {
            "automatic": True,
            "parameters": dict(record["parameters"]),
            "number format": env["number_format"],
        },
        "data": {"checksums": dict(record["inputs"])},
    }
    if {"started", "seconds"} <= record.keys():
        runtime = {"start time": record["started"], "wallclock": f"{record['seconds']} s"}
        about["resources"] = {"runtime": runtime}
    with write_text(metadata_path(run)) as file:
        yaml.safe_dump(about, file, sort_keys=False, allow_unicode=True)
