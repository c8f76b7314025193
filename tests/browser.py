"""A real browser for tests: Debian's chromium driven by Playwright, and what serves pages to it."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = os.environ.get("BERDS_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="needs chromium on the PATH (Debian: apt install chromium)"
)


@contextmanager
def chromium(**options):
    """Yield a page, whose ``others`` are requests to other hosts and ``problems`` what scripts complained of."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        # No name is looked up: whatever asks another host fails at once, and is on record.
        rules = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", rules])
        context = browser.new_context(viewport={"width": 1280, "height": 1150}, **options)
        context.set_default_timeout(120_000)  # a busy machine takes its time
        page = context.new_page()
        page.others, page.problems, page.dialogs, page.hits = [], [], [], []
        page.expose_function("hit", lambda: page.hits.append(1))  # in every frame
        page.on("request", lambda request: None if _is_here(request.url) else page.others.append(request.url))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("dialog", lambda dialog: (page.dialogs.append(dialog.message), dialog.dismiss()))
        yield page
        browser.close()


def _is_here(url):
    return url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "file:", "data:", "blob:", "about:"))


def ran(page):
    """Return how often anything of anybody's ran, or asked another host."""
    return len(page.hits) + len(page.others) + len(page.dialogs)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def served(command, address, environment, log):
    """Run a server until the block ends; yield when it answers at an address, whatever it says."""
    with open(log, "wb") as file:
        server = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    try:
        for _ in range(240):
            if server.poll() is not None:
                break
            try:
                urllib.request.urlopen(address, timeout=2).close()
                break
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.25)
        assert server.poll() is None, Path(log).read_text(errors="replace")[-2000:]
        yield server
    finally:
        server.terminate()
        server.wait(timeout=30)


@contextmanager
def lab(folder, *cells):
    """Serve JupyterLab with a notebook of these cells; yield the address of the notebook."""
    settings = folder / ".settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"fetchNews": "false", "checkForUpdates": false}')  # else it asks, in front of the page
    code = [
        {"cell_type": "code", "id": f"cell-{i}", "execution_count": None, "metadata": {}, "outputs": [], "source": cell}
        for i, cell in enumerate(cells)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": code, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "explore.ipynb").write_text(json.dumps(notebook))
    port, token = free_port(), secrets.token_hex(16)
    command = [sys.executable, "-m", "jupyter", "lab", f"--ServerApp.root_dir={folder}", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", "--no-browser", "--allow-root"]
    own = {"JUPYTER_TOKEN": token, "JUPYTERLAB_SETTINGS_DIR": str(folder / ".settings")}
    base = f"http://127.0.0.1:{port}"
    with served(command, f"{base}/api?token={token}", {**os.environ, **own}, folder / "lab.log"):
        yield f"{base}/lab/tree/explore.ipynb?reset&token={token}"


def run_first_cell(page, address):
    """Open a notebook in JupyterLab and run its first cell."""
    page.goto(address)
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    # Before there is a session, JupyterLab goes on to the next cell and never runs this one.
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()
    page.keyboard.press("Shift+Enter")
    page.locator(".berds-list button").first.wait_for()


def settle(page):
    """Wait until the explorer has nothing under way."""
    page.wait_for_function("!document.querySelector('.berds-status progress')")
