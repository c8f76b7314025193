"""Numbers in a notebook's prose that nothing beside them shows.

A number in a sentence must be found in the code or the outputs of its section (below a "## " heading; in the takeaways:
of the notebook), rounded as the sentence has it; a share may be told in percent. A number from elsewhere is named in a
comment in the same cell, which does not show when the notebook is read::

    <!-- numbers from docs/results.md: 12.3 3.1 -->
    <!-- numbers from BeRDS v2: 62.2 -->

where the source is a file of the project, which must hold them, or a paper: "BeRDS v1", "BeRDS v2", "PIR",
"PerspectiveArg" or "Platt 1999" and the like, where nothing can be looked up.
"""

import re
from pathlib import Path
from typing import NamedTuple

COMMENT = re.compile(r"<!-- numbers from ([^:>]+): ([^>]*?) -->")
# What holds numbers that no result is: code, links, tags, places in papers, names of measures.
NO_RESULT = re.compile(
    r"`[^`]*`|\]\([^)]*\)|<[^>]*>|\$\$.*?\$\$|\$[^$]*\$"
    r"|95 %|p < \.05|\((?:19|20)\d\d\)|\bgpt-[\w.-]+"  # conventions, years of papers, models
    r"|\b(?:Tables?|Figures?|sections?|appendix|equations?|cells?|notebooks?) [A-Z]?\.?[\d., and–-]+|\b[A-Z]\.\d+|@\d+",
    re.S,
)
NUMBER = re.compile(r"(?<![\w.])(\d*\.?\d+)(?![\w])( ?%| percent)?")
SMALLEST = 12  # whole numbers up to it are words


class Unshown(NamedTuple):
    """A number that is shown nowhere: cell, the number, the words around it, and what is wrong."""

    cell: int
    number: str
    around: str
    problem: str


def unshown_numbers(notebook, root):
    """Return the numbers in prose that neither an output nor a named source has."""
    found = []
    for i, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "markdown" or i <= 1:  # title and plan
            continue
        text = "".join(cell["source"])
        shown = numbers_shown(notebook["cells"], i)
        cited, problems = numbers_cited(text, root)
        found += [Unshown(i, number, "", problem) for number, problem in problems]
        for number, percent, around in numbers_told(text):
            if not any(same(number, value) for value in [*shown, *cited]):
                found.append(Unshown(i, number + percent, around, "not in the code or outputs of this section"))
    return found


def numbers_told(text):
    """Yield the numbers of prose that could be results: decimals, percentages, and whole numbers above twelve."""
    text = NO_RESULT.sub(" ", COMMENT.sub("", text))
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    for found in NUMBER.finditer(text):
        number, percent = found[1], found[2] or ""
        if "." in number or percent or float(number) > SMALLEST:
            yield number, percent, text[max(0, found.start() - 40) : found.end() + 20].replace("\n", " ")


def same(told, value):
    """Say whether a value, or the percentage it stands for, rounds to the number as it is told."""
    half = 0.5 * 10 ** -len(told.partition(".")[2]) * 1.0001
    return any(abs(scale * value - float(told)) <= half for scale in (1, 100))


def numbers_shown(cells, place):
    """Return the numbers in the code and outputs that a sentence in a cell can be about."""
    headings = [
        i for i, c in enumerate(cells) if c["cell_type"] == "markdown" and re.match("## ", "".join(c["source"]))
    ]
    text = "".join(cells[place]["source"])
    if "## Takeaways" in text:
        start, end = 0, len(cells)
    else:
        start = max((i for i in headings if i <= place), default=0)
        end = min((i for i in headings if i > place), default=len(cells))
        start = 0 if start == headings[0] else start  # the first section is about the data that was loaded above it
    values = []
    for cell in cells[start:end]:
        if cell["cell_type"] == "code":
            for words in ["".join(cell["source"]), *map(output_text, cell.get("outputs", []))]:
                plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", words)
                values += [float(n) for n in re.findall(r"(?<![A-Za-z_.\d])\d*\.?\d+(?:e-?\d+)?", plain)]
    return values


def output_text(output):
    """Return the words of an output: what it printed, and its tables without their style sheets."""
    data = output.get("data", {})
    parts = [
        output.get("text", ""),
        data.get("text/plain", ""),
        data.get("text/html", ""),
        data.get("text/markdown", ""),
    ]
    return re.sub(r"<style.*?</style>|<svg.*?</svg>", "", "\n".join("".join(part) for part in parts), flags=re.S)


def numbers_cited(text, root):
    """Return the numbers that a cell's comments name a source for, and what is wrong with them."""
    values, problems = [], []
    for source, numbers in COMMENT.findall(text):
        if "/" in source and not (Path(root) / source).is_file():
            problems.append((numbers, f"there is no {source}"))
            continue
        held = (Path(root) / source).read_text(encoding="utf-8") if "/" in source else None
        for number in numbers.split():
            values.append(float(number))
            if held is not None and not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", held):
                problems.append((number, f"{source} does not hold it"))
    return values, problems
