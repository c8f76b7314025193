"""The explorer as a web page for people who do not code: ``berds explore``, served by Voilà.

It runs with JupyterLab's rules for who is answered, and without settings from anybody's folder.
"""

from __future__ import annotations

import json
import os
import threading
import webbrowser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jupyter_core.paths import jupyter_config_path
from traitlets import default

from berdslib.errors import MissingDataError
from berdslib.study.explorer import APP_SETTINGS, HERE

try:
    from voila.app import Voila  # type: ignore[import-untyped]
except ImportError as error:
    raise MissingDataError("the app needs Voilà; pip install 'berdslib[app]'") from error

NOTEBOOK = Path(__file__).with_name("app.ipynb")
TEMPLATES = Path(__file__).with_name("share")  # Voilà's own asks a CDN for icons


class Server(Voila):
    """Answers whoever has its token and, while it listens on this machine only, calls it by a name of this machine."""

    @default("auto_token")
    def _ask_for_a_token(self) -> bool:
        return True

    @default("tornado_settings")
    def _refuse_foreign_names(self) -> dict[str, Any]:
        # Else a page of another host, whose name comes to stand for this machine, could read what is served.
        return {"allow_remote_access": self.ip not in HERE}

    @default("config_file_paths")
    def _config_of_the_user_alone(self) -> list[str]:
        return [*jupyter_config_path()]  # Voilà would begin with the current folder, and run a voila.py that is there

    def launch_browser(self) -> None:
        """Open the page with its token, which Voilà's own leaves out."""
        # By a file, of this user alone, because whoever lists processes can read an address that is given to a browser.
        page = Path(self.connection_dir) / "open.html"
        address = f"{self.connection_url}?{urlencode({'token': self.identity_provider.token})}"
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">', "utf-8")
        threading.Thread(target=webbrowser.open, args=[page.as_uri()], daemon=True).start()


def serve(settings: dict[str, Any], *, port: int, host: str, browser: bool, idle: int) -> None:
    """Serve the explorer until it is stopped; `settings` are what ``open_app`` gives to ``berdslib.explore``.

    Each open page has a kernel of its own, which is ended `idle` seconds after its page is closed.
    """
    paths = [str(TEMPLATES), *filter(None, [os.environ.get("JUPYTER_PATH")])]
    os.environ["JUPYTER_PATH"] = os.pathsep.join(paths)
    os.environ[APP_SETTINGS] = json.dumps({"folder": os.getcwd(), **settings})  # the folder that paths start from
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
    Server.launch_instance([str(NOTEBOOK), *shown, *([] if browser else ["--no-browser"])])
