"""The book: what `make book` builds, offline, and the pages of docs that are made from data."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_the_map_of_the_papers_is_up_to_date():
    done = subprocess.run(
        [sys.executable, "scripts/paper_map.py", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The whole site; a warning, such as of a link that leads nowhere, is an error."""
    target = tmp_path_factory.mktemp("book")
    build = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-b", "html", "-c", "docs"]
    done = subprocess.run(
        [*build, "-d", str(target / "doctrees"), ".", str(target / "html")],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return target / "html"


@pytest.mark.slow
def test_every_notebook_and_page_is_in_it(book):
    for source in [*ROOT.glob("notebooks/[0-9]*.ipynb"), *ROOT.glob("docs/*.md")]:
        page = book / source.relative_to(ROOT).with_suffix(".html")
        assert page.is_file() and "README" in page.read_text(encoding="utf-8")  # the side bar
    assert len(list(book.glob("papers/*.html"))) == 40  # the papers' tables and figures


@pytest.mark.slow
def test_no_page_asks_another_host(book):
    asked = re.compile(r'(?:<script[^>]* src|<link[^>]* href|<img[^>]* src|<iframe[^>]* src)="(?:https?:)?//[^"]+')
    for page in book.rglob("*.html"):
        assert not asked.findall(page.read_text(encoding="utf-8")), page
    for sheet in book.rglob("*.css"):
        assert not re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet


@pytest.mark.slow
def test_outputs_formulas_and_search_are_there(book):
    quickstart = (book / "notebooks" / "00_quickstart.html").read_text(encoding="utf-8")
    assert "_images/" in quickstart and "<table" in quickstart and "<math" in quickstart and "$$" not in quickstart
    assert "COLAB_RELEASE_TAG" not in quickstart
    assert "leaning" in (book / "searchindex.js").read_text(encoding="utf-8")
