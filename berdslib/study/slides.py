"""Slides from a notebook, as one HTML page that opens offline: ``berds notebook slides``.

Cells carry Jupyter's ``slideshow.slide_type``: ``slide`` and ``subslide`` begin a slide, ``fragment`` and ``-``
continue it, and all other cells are left out. In a notebook without slide types, each section is a slide with its first
picture or table. A cell of text shows its heading and first paragraph, with a formula that follows it, and a cell of
code its outputs; one tagged ``whole`` shows all of its text, or its code, too.
"""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import bleach
import mistune
import nbformat

from berdslib.errors import InputError
from berdslib.files import StrPath, write_text
from berdslib.study.explorer import STATIC
from berdslib.study.explorer.export import closed_page
from berdslib.study.notebooks import find_notebook, read_notebook

WHOLE = "whole"  # tag of a cell that is not abridged
_LONG_NAMES = {"le": "leq", "ge": "geq", "ne": "neq", "lVert": "Vert", "rVert": "Vert"}  # those that matplotlib knows
_SHOWN = {
    *(
        "h1",
        "h2",
        "h3",
        "h4",
        "p",
        "ul",
        "ol",
        "li",
        "em",
        "strong",
        "code",
        "pre",
        "blockquote",
        "br",
        "sub",
        "sup",
        "img",
    ),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"th": ["colspan", "rowspan"], "td": ["colspan", "rowspan"], "img": ["alt", "src"]}

Cell = Mapping[str, Any]


def write_slides(name: str, path: StrPath) -> int:
    """Write the slides of a notebook, given as in :func:`find_notebook`; return their number.

    Raises:
        InputError: an unknown or invalid notebook, or one without headings and slide types.
    """
    source = find_notebook(name)
    notebook = read_notebook(source)
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        raise InputError(f"not a valid notebook: {error.message}", path=source) from None
    slides = slides_of(notebook["cells"])
    if not slides:
        raise InputError("no slide: neither a heading nor a cell with the slide type `slide`", path=source)
    script, style = ((STATIC / file).read_text(encoding="utf-8") for file in ("slides.js", "slides.css"))
    title = _heading(slides[0][0]) or source.stem
    page = closed_page(_body(slides), script, style, title, pictures=True)
    with write_text(path) as file:
        file.write(page)
    return len(slides)


def slides_of(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return the cells of each slide; a slide without a heading is preceded by that of its section."""
    kinds = [cell["metadata"].get("slideshow", {}).get("slide_type", "") for cell in cells]
    if not any(kinds):
        kinds = _kinds_by_section(cells)
    slides: list[list[Cell]] = []
    section = ""
    for cell, kind in zip(cells, kinds, strict=True):
        if kind in ("slide", "subslide"):
            heading: Cell = {"cell_type": "markdown", "metadata": {}, "source": f"## {section}"}
            slides.append([heading, cell] if section and not _heading(cell) else [cell])
        elif kind in ("fragment", "-") and slides:
            slides[-1].append(cell)
        section = [section, *_headings(cell)][-1]
    return slides


def _kinds_by_section(cells: Sequence[Cell]) -> list[str]:
    """Return slide types with a slide for each section, its heading and its first picture, else its first table."""
    kinds = ["slide" if _heading(cell) else "skip" for cell in cells]
    starts = [place for place, kind in enumerate(kinds) if kind == "slide"]
    for start, end in pairwise([*starts, len(cells)]):
        inside = range(start + 1, end)
        for format_of in ("image/png", "text/html"):
            shown = [
                place for place in inside if any(format_of in one.get("data", {}) for one in _outputs(cells[place]))
            ]
            if shown:
                kinds[shown[0]] = "-"
                break
    return kinds


def _heading(cell: Cell) -> str:
    """Return the heading with which a cell begins; "" if it begins with something else."""
    return "".join(_headings(cell)[:1]) if _source(cell).startswith("#") else ""


def _headings(cell: Cell) -> list[str]:
    """Return the titles of the sections that begin in a cell."""
    return re.findall(r"^##? +(.+)", _source(cell), re.MULTILINE) if cell["cell_type"] == "markdown" else []


def _source(cell: Cell) -> str:
    return "".join(cell["source"])


def _outputs(cell: Cell) -> list[Mapping[str, Any]]:
    outputs: list[Mapping[str, Any]] = cell.get("outputs", [])
    return outputs


# ---------------------------------------------------------------- HTML


def _body(slides: Sequence[Sequence[Cell]]) -> str:
    title = html.escape(_heading(slides[0][0]))
    sections = []
    for number, cells in enumerate(slides, start=1):
        parts = [part for cell in cells for part in _parts(cell)]
        place = f"<footer>{title} · {number} of {len(slides)}</footer>"
        sections.append("\n".join(["<section>", *parts, place, "</section>"]))
    return "\n".join(sections)


def _parts(cell: Cell) -> list[str]:
    """Return what a slide shows of a cell."""
    whole = WHOLE in cell["metadata"].get("tags", [])
    if cell["cell_type"] == "markdown":
        return [_text(_source(cell), whole)]
    code = [f'<pre class="code">{html.escape(_source(cell))}</pre>'] if whole else []
    return [*code, *map(_output, _outputs(cell))]


def _text(source: str, whole: bool) -> str:
    if not whole:
        first = r"(?:#+ .*\n+)?(?:.+\n?)*(?:\n+\$\$[^$]+\$\$)?"  # the heading, a paragraph and a formula
        source = re.match(first, source)[0]  # type: ignore[index]
    apart = re.sub(r"\$\$(.+?)\$\$", r"$$\n\1\n$$", source, flags=re.DOTALL)
    return _clean(str(_markdown()(apart)))


@cache
def _markdown() -> mistune.Markdown:
    markdown = mistune.create_markdown(escape=False, plugins=["table", "math"])
    assert isinstance(markdown.renderer, mistune.HTMLRenderer)
    markdown.renderer.register("inline_math", _inline_formula)
    markdown.renderer.register("block_math", _drawn_formula)
    return markdown


def _inline_formula(_: object, tex: str) -> str:
    r"""Return a short formula as HTML; one with braces stays TeX.

    >>> _inline_formula(None, r"\lambda x_i")
    '<em>&lambda; x<sub>i</sub></em>'
    """
    if "{" in tex:
        return f"<code>{html.escape(tex)}</code>"
    written = re.sub(r"\\([A-Za-z]+)", r"&\1;", html.escape(tex))  # many commands of TeX are entities of HTML
    lowered = re.sub(r"_(\w)", r"<sub>\1</sub>", written)
    raised = re.sub(r"\^(\w)", r"<sup>\1</sup>", lowered)
    return f"<em>{raised}</em>"


def _drawn_formula(_: object, tex: str) -> str:
    """Return a formula as a picture; one that matplotlib cannot draw stays TeX."""
    from matplotlib.mathtext import math_to_image

    picture = io.BytesIO()
    known = re.sub(r"\\([A-Za-z]+)", lambda name: f"\\{_LONG_NAMES.get(name[1], name[1])}", tex.strip())
    try:
        math_to_image(f"${known}$", picture, dpi=300, format="png")
    except ValueError:
        return f"<pre>{html.escape(tex)}</pre>"
    encoded = base64.b64encode(picture.getvalue()).decode()
    return f"<blockquote>{_picture(encoded, tex)}</blockquote>"


def _output(output: Mapping[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return _picture("".join(data["image/png"]))
    if "text/html" in data:
        without_style = re.sub(r"<style.*?</style>", "", "".join(data["text/html"]), flags=re.DOTALL)
        return f'<div class="table">{_clean(without_style)}</div>'
    text = "".join(data.get("text/plain", "") or output.get("text", ""))
    return f"<pre>{html.escape(text)}</pre>"


def _picture(encoded: str, alt: str = "The picture of this section") -> str:
    return f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{html.escape(encoded)}">'


def _clean(text: str) -> str:
    """Return HTML without scripts, links, comments and pictures from elsewhere; the texts stay."""
    return str(bleach.clean(text, tags=_SHOWN, attributes=_ATTRIBUTES, protocols=["data"], strip=True))
