"""The explorer as a web page for people who do not code: ``berds explore``, served by Voilà."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from berdslib.errors import InputError, MissingDataError

NOTEBOOK = Path(__file__).with_name("app.ipynb")
TEMPLATES = Path(__file__).with_name("share")  # Voilà's own asks a CDN for icons
SETTINGS = "BERDS_APP"


def serve(settings: dict[str, Any], *, port: int, host: str, browser: bool, idle: int) -> None:
    """Serve the explorer until it is stopped.

    Voilà runs in this process, so that the two end together, whatever ends them. Each open page has a kernel of its
    own, which is ended `idle` seconds after its page is closed; one kernel is kept ready, so that a page opens at once.

    Args:
        settings: what :func:`open_app` gives to ``berdslib.explore``.
        port: the first that is tried.
        host: an address of this machine that is listened on.
        browser: open the page.
        idle: seconds.

    Raises:
        MissingDataError: Voilà is not installed.
    """
    if importlib.util.find_spec("voila") is None:
        raise MissingDataError("the app needs Voilà; pip install 'berdslib[app]'")
    from berdslib.study.explorer.server import Server

    os.environ.update(environment(settings))
    Server.launch_instance(arguments(port=port, host=host, browser=browser, idle=idle))


def arguments(*, port: int, host: str, browser: bool, idle: int) -> list[str]:
    """Return Voilà's arguments."""
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
    return [str(NOTEBOOK), *shown, *([] if browser else ["--no-browser"])]


def environment(settings: dict[str, Any]) -> dict[str, str]:
    """Return what the environment gets: the settings, the folder that paths start from, and where templates are."""
    paths = [str(TEMPLATES), *filter(None, [os.environ.get("JUPYTER_PATH")])]
    return {SETTINGS: json.dumps({"folder": os.getcwd(), **settings}), "JUPYTER_PATH": os.pathsep.join(paths)}


def open_app() -> Any:
    """Return the explorer that the settings in the environment ask for; what the app's notebook shows.

    Raises:
        InputError: as ``berdslib.explore``.
    """
    settings = json.loads(os.environ.get(SETTINGS, "{}"))
    if folder := settings.pop("folder", ""):  # the kernel starts in the folder of its notebook
        sys.path[:] = [place for place in sys.path if place]  # "" is where it is: modules that lie there are not ours
        os.chdir(folder)
    from berdslib.data.datasets import load
    from berdslib.study.explorer.widget import explore

    names, corpus = settings.pop("questions", ["sample"]), settings.pop("corpus", None)
    split = settings.pop("split", "all")
    if not names:
        raise InputError("there are no questions to explore")
    return explore([load(name, passages=corpus, split=split) for name in names], **settings)
