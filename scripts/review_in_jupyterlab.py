"""Review 20 items of the sample in a real JupyterLab, by real clicks, as two reviewers; needs a browser.

    python scripts/review_in_jupyterlab.py FOLDER [--chromium /usr/bin/chromium]

Needs Chromium and, in the Python that runs this script, playwright (`pip install playwright`; its own browsers are not
needed); `--jupyter` names the Python that has berdslib and JupyterLab, where that is another one. FOLDER gets the drawn
sheet, a sheet for each reviewer, a notebook and screenshots (start.png, middle.png, end.png). It fails if a sheet does
not hold what was clicked.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, sync_playwright

DRAW = """
import sys
import berdslib as bd
from berdslib.construction.review import draw_sheet, write_sheet

sample = bd.load("sample", split="all")
texts = {p.docno: p.text for p in sample.passages}
supporting = sample.gold[sample.gold["supports"]].drop_duplicates(["qid", "docno"], keep=False)  # one side only
supporting = supporting.drop_duplicates(["qid", "pid"])
sources = supporting.groupby("qid")["docno"].apply(lambda docnos: [texts[d] for d in docnos]).to_dict()
write_sheet(sys.argv[1], draw_sheet(sample.questions, sources, n=7, seed=0)[:20])
"""
CELL = """from berdslib.construction.form import ReviewForm

form = ReviewForm("{reviewer}.csv", "{reviewer}")
form"""
ASKED = {
    "belongs": "Does the question ask for an opinion?",
    "question_ok": "Is the question faithful to its sources?",
    "perspectives_ok": "Is each perspective right, and its stance?",
    "contradict": "Do the perspectives contradict each other?",
    "severity": "How grave is the error?",
}
FINE = ("yes", "yes", "yes", "yes", "none")
# What each reviewer clicks where it is not FINE, by the place of the item.
CHOICES = {
    "Ada": {
        3: ("yes", "no", "yes", "yes", "minor"),
        9: ("yes", "yes", "yes", "no", "major"),
        15: ("yes", "yes", "no", "yes", "minor"),
    },
    "Bo": {
        3: ("yes", "no", "yes", "yes", "minor"),
        9: ("yes", "yes", "no", "no", "minor"),
        17: ("no", "yes", "yes", "no", "minor"),
    },
}
NOTES = {
    ("Ada", 3): 'Too broad: "public transport", not trams.',
    ("Bo", 9): "Both may hold <at once>; see\nthe source.",
}


def write_notebook(path: Path, reviewer: str) -> None:
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    source = CELL.format(reviewer=reviewer)
    path.write_text(
        json.dumps({"cells": [{**cell, "source": source}], "metadata": kernel, "nbformat": 4, "nbformat_minor": 4})
    )


def start_lab(python: str, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start JupyterLab on a free port, and return it with the address of a notebook."""
    settings = folder / ".settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('{"fetchNews": "false"}')  # else it asks, in front of the form
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    options = [f"--ServerApp.root_dir={folder}", f"--port={port}", "--ServerApp.port_retries=0", "--no-browser"]
    own = {"JUPYTER_TOKEN": token, "JUPYTERLAB_SETTINGS_DIR": str(folder / ".settings")}
    with open(folder / "lab.log", "wb") as log:
        lab = subprocess.Popen(
            [python, "-m", "jupyter", "lab", *options, "--allow-root"],
            env={**os.environ, **own},
            stdout=log,
            stderr=log,
        )
    base = f"http://127.0.0.1:{port}"
    for _ in range(120):
        try:
            urllib.request.urlopen(f"{base}/api?token={token}", timeout=2).close()
        except OSError:
            time.sleep(0.5)
        else:
            return lab, f"{base}/lab/tree/NOTEBOOK?reset&token={token}"
    lab.terminate()
    raise SystemExit(f"JupyterLab did not start; see {folder / 'lab.log'}")


def review(page: Page, address: str, folder: Path, reviewer: str) -> None:
    """Open the notebook, run it, and click through all items."""
    page.goto(address.replace("NOTEBOOK", f"{reviewer}.ipynb"))
    page.locator(".jp-Notebook .jp-CodeCell").first.click(timeout=90_000)
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    # Before there is a session, JupyterLab goes on to the next cell and never runs this one.
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for(timeout=90_000)
    page.keyboard.press("Shift+Enter")
    form = page.locator(".jp-OutputArea-output")
    form.get_by_text("1 of 20", exact=True).wait_for(timeout=90_000)
    page.keyboard.press("Control+b")  # hides the file browser: more room
    shoot = lambda name: page.screenshot(path=folder / f"{reviewer}_{name}.png")  # noqa: E731
    shoot("start")
    for place in range(20):
        form.get_by_text(f"{place + 1} of 20", exact=True).wait_for()
        for asked, answer in zip(ASKED.values(), CHOICES[reviewer].get(place, FINE), strict=True):
            form.get_by_text(asked, exact=True).wait_for()
            buttons = form.locator(".widget-toggle-buttons").nth(list(ASKED.values()).index(asked))
            buttons.get_by_role("button", name=answer, exact=True).click()
        if (reviewer, place) in NOTES:
            form.locator("textarea").click()
            page.keyboard.type(NOTES[reviewer, place])  # key by key: none may be taken for a command of the notebook
            page.keyboard.press("Tab")
        form.get_by_text(f"{place + 1} of 20 finished", exact=True).wait_for()
        if place == 9:
            shoot("middle")
        if place < 19:
            form.locator("button", has_text="Next").click()  # its name has an icon too
    shoot("end")


def check(path: Path, reviewer: str) -> None:
    """Compare a sheet with what was clicked."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for place, row in enumerate(rows):
        found = tuple(row[name] for name in ASKED), row["note"], row["reviewer"]
        wanted = CHOICES[reviewer].get(place, FINE), NOTES.get((reviewer, place), ""), reviewer
        if found != wanted:
            raise SystemExit(f"{path}: item {place + 1} holds {found}, where {wanted} was clicked")
    print(f"{path}: {len(rows)} items as clicked")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    parser.add_argument("--jupyter", default=sys.executable, help="Python with berdslib and JupyterLab")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([given.jupyter, "-c", DRAW, str(folder / "drawn.csv")], check=True)
    for reviewer in CHOICES:
        shutil.copy(folder / "drawn.csv", folder / f"{reviewer}.csv")
        write_notebook(folder / f"{reviewer}.ipynb", reviewer)
    lab, address = start_lab(given.jupyter, folder)
    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=given.chromium, args=["--no-sandbox"])
            for reviewer in CHOICES:
                page = browser.new_page(viewport={"width": 1280, "height": 1000})
                try:
                    review(page, address, folder, reviewer)
                except PlaywrightError:
                    page.screenshot(path=folder / f"{reviewer}_failed.png")
                    raise
                page.close()
            browser.close()
    finally:
        lab.terminate()
        lab.wait(timeout=30)
    for reviewer in CHOICES:
        check(folder / f"{reviewer}.csv", reviewer)


if __name__ == "__main__":
    main()
