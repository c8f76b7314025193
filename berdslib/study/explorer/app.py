"""The explorer as a web page for people who do not code: ``berds explore``, served by Voilà.

As in JupyterLab, a request needs a token, and a local server accepts only local host names. Settings in the current
folder are ignored.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import webbrowser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jupyter_core.paths import jupyter_config_path
from traitlets import default
from traitlets.config import Config

from berdslib.errors import MissingDataError
from berdslib.study.explorer import APP_SETTINGS, HERE

try:
    from voila.app import Voila  # type: ignore[import-untyped]
except ImportError as error:
    raise MissingDataError("the app needs Voilà; pip install 'berdslib[app]'") from error

NOTEBOOK = Path(__file__).with_name("app.ipynb")
TEMPLATES = Path(__file__).with_name("share")  # Voilà's own template fetches icons from a CDN


class Server(Voila):
    """A Voilà server that requires a token and, while it listens on this machine only, one of its local host names."""

    @default("auto_token")
    def _ask_for_a_token(self) -> bool:
        return True

    @default("tornado_settings")
    def _refuse_foreign_names(self) -> dict[str, Any]:
        # Otherwise a foreign page could read the served pages by DNS rebinding.
        return {"allow_remote_access": self.ip not in HERE}

    @default("config_file_paths")
    def _config_of_the_user_alone(self) -> list[str]:
        return [*jupyter_config_path()]  # Voilà would also read the current folder, and run a voila.py in it

    def launch_browser(self) -> None:
        """Open the page in a browser, with its token, which Voilà's own method omits."""
        # Other users can read the arguments of a process, so the address is in a file that only this user can read.
        page = Path(self.connection_dir) / "open.html"
        address = f"{self.connection_url}?{urlencode({'token': self.identity_provider.token})}"
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">', "utf-8")
        threading.Thread(target=webbrowser.open, args=[page.as_uri()], daemon=True).start()


def serve(settings: dict[str, Any], *, port: int, host: str, browser: bool, idle: int) -> None:
    """Serve the explorer until the process is stopped.

    `settings` are the arguments that :func:`~.widget.open_app` passes to ``berdslib.explore``. Each open page has its
    own kernel, which ends `idle` seconds after the page is closed.
    """
    paths = [str(TEMPLATES), *filter(None, [os.environ.get("JUPYTER_PATH")])]
    os.environ["JUPYTER_PATH"] = os.pathsep.join(paths)
    os.environ[APP_SETTINGS] = json.dumps({"folder": os.getcwd(), **settings})  # relative paths start from this folder
    options = {
        "port": port,
        "Voila.ip": host,
        "template": "berds",
        "preheat_kernel": True,
        "pool_size": 1,
        "VoilaConfiguration.show_tracebacks": False,
        "MappingKernelManager.cull_idle_timeout": idle,
        "MappingKernelManager.cull_interval": max(1, min(60, idle)),
        "KernelManager.transport_encryption": "auto",  # otherwise each kernel warns
    }
    shown = [f"--{name}={value}" for name, value in options.items()]
    lists = Config({"VoilaConfiguration": {"file_allowlist": []}})  # do not serve files beside the notebook
    # Trust concerns outputs from elsewhere, and our notebook has none.
    logging.getLogger(Server.__name__).addFilter(lambda record: "is not trusted" not in str(record.msg))
    Server.launch_instance([str(NOTEBOOK), *shown, *([] if browser else ["--no-browser"])], config=lists)
