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


@pytest.mark.slow
def test_the_book_has_every_page_and_asks_no_other_host(tmp_path):
    """A warning, such as of a link that leads nowhere, is an error."""
    book, options = tmp_path / "html", ["-q", "-E", "-W", "--keep-going", "-b", "html", "-c", "docs"]
    build = [sys.executable, "-m", "sphinx", *options, "-d", str(tmp_path / "doctrees"), ".", str(book)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for source in [*ROOT.glob("notebooks/[0-9]*.ipynb"), *ROOT.glob("docs/*.md")]:
        page = book / source.relative_to(ROOT).with_suffix(".html")
        assert page.is_file() and "README" in page.read_text(encoding="utf-8")  # the side bar
    assert len(list(book.glob("papers/*.html"))) == 40  # the papers' tables and figures
    asked = {
        ".html": r'(?:<script[^>]* src|<link[^>]* href|<img[^>]* src|<iframe[^>]* src)="(?:https?:)?//',
        ".css": r"(?:@import|url\()\s*[\"']?(?:https?:)?//",
    }
    for page in book.rglob("*.*"):
        assert page.suffix not in asked or not re.search(asked[page.suffix], page.read_text(encoding="utf-8")), page
    quickstart = (book / "notebooks" / "00_quickstart.html").read_text(encoding="utf-8")
    assert "_images/" in quickstart and "<table" in quickstart and "<math" in quickstart and "$$" not in quickstart
    assert "COLAB_RELEASE_TAG" not in quickstart
    assert "leaning" in (book / "searchindex.js").read_text(encoding="utf-8")
