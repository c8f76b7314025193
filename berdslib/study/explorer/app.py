"""The explorer as a web page for people who do not code: ``berds app``, served by Voilà."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from berdslib.errors import InputError, MissingDataError

NOTEBOOK = Path(__file__).with_name("app.ipynb")
TEMPLATES = Path(__file__).with_name("share")  # Voilà's own asks a CDN for icons
SETTINGS = "BERDS_APP"
HERE = ("127.0.0.1", "localhost", "::1")


def serve(settings: dict[str, Any], *, port: int, host: str, browser: bool, idle: int) -> int:
    """Serve the explorer until it is stopped, and return Voilà's exit code.

    Each open page has a kernel of its own, which is ended `idle` seconds after its page is closed; one kernel is kept
    ready, so that a page opens at once.

    Args:
        settings: what :func:`open_app` gives to ``berdslib.explore``.
        port: 0 for any that is free.
        host: an address of this machine that is listened on.
        browser: open the page.
        idle: seconds.

    Raises:
        MissingDataError: Voilà is not installed.
    """
    if importlib.util.find_spec("voila") is None:
        raise MissingDataError("the app needs Voilà; pip install 'berdslib[app]'")
    return subprocess.call(command(port=port, host=host, browser=browser, idle=idle), env=environment(settings))


def command(*, port: int, host: str, browser: bool, idle: int) -> list[str]:
    """Return the command that serves the app."""
    options = {
        "port": port,
        "Voila.ip": host,
        "template": "berds",
        "preheat_kernel": True,
        "pool_size": 1,
        "VoilaConfiguration.show_tracebacks": False,
        "MappingKernelManager.cull_idle_timeout": idle,
        "MappingKernelManager.cull_interval": max(1, min(60, idle)),
        "VoilaConfiguration.file_allowlist": "[]",  # nothing beside the notebook is served
    }
    shown = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "voila", str(NOTEBOOK), *shown, *([] if browser else ["--no-browser"])]


def environment(settings: dict[str, Any]) -> dict[str, str]:
    """Return the environment that the app is served in: its settings, and where its template is."""
    paths = [str(TEMPLATES), *filter(None, [os.environ.get("JUPYTER_PATH")])]
    return {**os.environ, SETTINGS: json.dumps(settings), "JUPYTER_PATH": os.pathsep.join(paths)}


def open_app() -> Any:
    """Return the explorer that the settings in the environment ask for; what the app's notebook shows.

    Raises:
        InputError: as ``berdslib.explore``.
    """
    from berdslib.data.load import load
    from berdslib.study.explorer.widget import explore

    settings = json.loads(os.environ.get(SETTINGS, "{}"))
    names, corpus = settings.pop("questions", ["sample"]), settings.pop("corpus", None)
    split = settings.pop("split", "all")
    if not names:
        raise InputError("there are no questions to explore")
    return explore([load(name, passages=corpus, split=split) for name in names], **settings)
