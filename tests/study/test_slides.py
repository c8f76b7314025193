"""Slides: which cells they show, and that no cell acts or loads anything; then in a browser, by keys and clicks."""

import base64
import hashlib
import json
import re

import pytest
from browser import chromium, needs_chromium, ran
from bs4 import BeautifulSoup
from shell import berds

from berdslib.errors import InputError
from berdslib.study.notebooks import numbered_notebooks, read_notebook
from berdslib.study.slides import slides_of, write_slides

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
TABLE = "<style>td {color: red}</style><table><tr><th colspan=2>k</th></tr><tr><td>5</td><td>10</td></tr></table>"
HOSTILE = [
    "</section><script>hit()</script>",
    "<img src=x onerror=hit()><svg onload=hit()></svg><iframe srcdoc='<script>hit()</script>'></iframe>",
    "<img src='https://example.org/x.png'><link rel=stylesheet href='https://example.org/x.css'>",
    "[a link](javascript:hit()) ![a picture](https://example.org/y.png)",
    "<a href='https://example.org' onclick=hit()>x</a>",
    "$<script>hit()</script>$",
    "$$\n\\begin{x}<script>hit()</script>\n$$",
    "<table><tr><td style='background: url(https://example.org/z)' onmouseover=hit()>x</td></tr></table>",
    "<!--><script>hit()</script>-->",
]


def text(source, kind="", *tags):
    return cell("markdown", source, kind, tags)


def code(source, *outputs, kind="", tags=()):
    return {**cell("code", source, kind, tags), "outputs": list(outputs), "execution_count": 1}


def cell(cell_type, source, kind, tags):
    metadata = {"tags": list(tags)} | ({"slideshow": {"slide_type": kind}} if kind else {})
    return {"cell_type": cell_type, "id": f"c{abs(hash(source))}", "metadata": metadata, "source": source}


def shown(**data):
    return {"output_type": "display_data", "metadata": {}, "data": {k.replace("_", "/"): v for k, v in data.items()}}


def page_of(cells, folder):
    """Return the written page as a tree."""
    made = folder / "made.ipynb"
    made.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    write_slides(str(made), folder / "made.html")
    return BeautifulSoup((folder / "made.html").read_text(encoding="utf-8"), "html.parser")


def assert_closed(tree):
    """Nothing but the page's own script can run, and nothing is loaded."""
    (script,) = tree.find_all("script")
    digest = base64.b64encode(hashlib.sha256(script.string.encode()).digest()).decode()
    policy = tree.find("meta", {"http-equiv": True})["content"]
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}';" in policy
    assert not tree.find_all(["a", "link", "iframe", "object", "embed", "base", "form", "svg"])
    for tag in tree.find_all(True):
        assert not [
            name for name in tag.attrs if name.startswith("on") or name in ("href", "srcdoc", "action", "style")
        ]
        assert tag.get("src", "data:").startswith("data:")
    assert "url(" not in tree.style.string and "@import" not in tree.style.string


@pytest.mark.parametrize("path", numbered_notebooks().values(), ids=lambda path: path.stem)
def test_every_notebook_has_slides_that_load_nothing(path, tmp_path):
    count = write_slides(path.stem, tmp_path / "slides.html")
    tree = BeautifulSoup((tmp_path / "slides.html").read_text(encoding="utf-8"), "html.parser")
    assert_closed(tree)
    sections = tree.find_all("section")
    assert len(sections) == count >= 5 and all(section.find(["h1", "h2"]) for section in sections)
    pictures = [base64.b64decode(img["src"].partition(",")[2], validate=True) for img in tree.find_all("img")]
    assert pictures and all(picture.startswith(b"\x89PNG") for picture in pictures)


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("kind", ["slide", ""])
def test_texts_and_outputs_of_others_are_inert(hostile, kind, tmp_path):
    outputs = [
        shown(text_html=hostile),
        shown(text_plain=hostile),
        shown(image_png=f'"{hostile}'),
        {"output_type": "stream", "name": "stdout", "text": hostile},
    ]
    cells = [text(f"# {hostile}\n\n{hostile}", kind, "whole"), code(hostile, *outputs, kind=kind, tags=["whole"])]
    assert_closed(page_of(cells, tmp_path))


def test_slide_types_choose_the_cells():
    cells = [
        text("# Title", "slide"),
        text("no type"),
        text("## Section\n\nText"),
        code("a", kind="subslide"),
        code("b", kind="-"),
        code("c", kind="skip"),
        code("d", kind="fragment"),
        text("a note", "notes"),
    ]
    title, section = slides_of(cells)
    assert title == [cells[0]]
    assert section[0]["source"] == "## Section" and section[1:] == [cells[3], cells[4], cells[6]]


def test_without_slide_types_a_section_shows_its_first_picture_else_its_first_table():
    picture, table = code("p", shown(image_png=PNG)), code("t", shown(text_html=TABLE))
    cells = [text("# A"), table, picture, text("words"), text("## B"), table, table, text("## C"), code("c")]
    assert [len(slide) for slide in slides_of(cells)] == [2, 2, 1]
    assert slides_of(cells)[0][1] is picture


def test_a_cell_is_abridged_unless_it_is_tagged_whole(tmp_path):
    source = "## Head\n\nFirst $x_i$ and $\\lambda$.\n\nSecond.\n\n$$\\frac{a}{b}$$"
    stream = {"output_type": "stream", "name": "stdout", "text": "out"}
    tree = page_of([text(source, "slide"), code("secret = 1", stream, kind="-")], tmp_path)
    assert tree.h2.text == "Head" and [p.text for p in tree.find_all("p")] == ["First xi and λ."]
    assert tree.sub.text == "i" and [pre.text for pre in tree.find_all("pre")] == ["out"] and not tree.img

    tree = page_of([text(source, "slide", "whole"), code("secret = 1", stream, kind="-", tags=["whole"])], tmp_path)
    assert [p.text for p in tree.find_all("p")][1] == "Second." and tree.img["alt"].strip() == "\\frac{a}{b}"
    assert [pre.text for pre in tree.find_all("pre")] == ["secret = 1", "out"]


def test_a_formula_stands_with_the_paragraph_before_it(tmp_path):
    source = "## Head\n\nThe first:\n\n$$a \\le b \\ne \\lVert c \\rVert$$\n\nThe second:\n\n$$d$$"
    tree = page_of([text(source, "slide")], tmp_path)
    assert [p.text for p in tree.find_all("p")] == ["The first:"]
    (picture,) = tree.find_all("img")
    assert picture["alt"].strip().startswith("a \\le b") and not tree.pre


def test_a_table_keeps_its_cells_and_loses_its_style(tmp_path):
    tree = page_of([text("# A", "slide"), code("t", shown(text_html=TABLE), kind="-")], tmp_path)
    assert tree.th["colspan"] == "2" and [td.text for td in tree.find_all("td")] == ["5", "10"]
    assert "color: red" not in tree.body.text


@pytest.mark.parametrize("cells", [[], [code("a")], [{"cell_type": "markdown", "source": "# no metadata"}]])
def test_a_notebook_without_headings_or_with_damaged_cells_is_an_error(cells, tmp_path):
    with pytest.raises(InputError, match=r"made\.ipynb"):
        page_of(cells, tmp_path)


def test_the_lecture_plan_names_notebooks_with_slide_types():
    tagged = [
        name[:2] for name, path in numbered_notebooks().items()
        if any("slideshow" in cell["metadata"] for cell in read_notebook(path)["cells"])
    ]  # fmt: skip
    assert tagged == ["00", "04", "06", "10"]


def test_the_command_writes_a_page(tmp_path):
    done = berds("notebook", "slides", "06", "-o", str(tmp_path / "six.html"), "--json")
    made = json.loads(done.stdout)
    assert made["slides"] == (tmp_path / "six.html").read_text(encoding="utf-8").count("<section>")


@pytest.mark.slow
@needs_chromium
def test_keys_and_clicks_turn_slides_and_each_is_a_printed_page(tmp_path):
    count = write_slides("00", tmp_path / "slides.html")
    with chromium() as page:
        page.set_viewport_size({"width": 1280, "height": 720})
        page.goto((tmp_path / "slides.html").as_uri())

        def place():
            (seen,) = [one for one in page.locator("section").all() if one.is_visible()]
            assert seen.evaluate("s => s.scrollHeight <= s.clientHeight && s.scrollWidth <= s.clientWidth")
            return int(re.search(r"(\d+) of", seen.locator("footer").inner_text())[1])

        assert place() == 1
        for key, expected in [("ArrowRight", 2), (" ", 3), ("ArrowLeft", 2), ("End", count), ("ArrowRight", count),
                              ("Home", 1), ("ArrowLeft", 1)]:  # fmt: skip
            page.keyboard.press(key)
            assert place() == expected
        page.mouse.click(1000, 300)
        assert place() == 2
        page.mouse.click(100, 300)
        assert place() == 1
        for _ in range(count - 1):  # every slide fits
            page.keyboard.press("PageDown")
            place()
        assert page.url.endswith(f"#{count}")
        printed = page.pdf(prefer_css_page_size=True)
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) == count
        assert not ran(page) and not page.problems
