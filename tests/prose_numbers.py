"""Numbers in a notebook's prose that nothing beside them shows.

A number in a sentence must be found in the outputs of its section (below a "## " heading; in the takeaways: of the
notebook), rounded as the sentence has it, or stand as it is in the section's code or among the parameters. A share may
be told in percent. A number from elsewhere is named in a comment in the same cell, which does not show when the
notebook is read::

    <!-- numbers from docs/results.md: 12.3 3.1 -->
    <!-- numbers from BeRDS v2: 62.2 -->

where the source is a file of the project, which must hold them, or a paper. Signs, and numbers in words, are not looked
at, nor are the title, the plan, and the line that says how long a notebook takes.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

PAPERS = ("BeRDS v1", "BeRDS v2", "PIR", "PerspectiveArg")
COMMENT = re.compile(r"<!-- numbers from ([^:>]+): ([^>]*?) -->")
# What holds numbers that no result is: code, links, tags, formulas, places in papers, names of measures and models.
NO_RESULT = re.compile(
    r"\*\*Time:\*\*[^\n]*|`[^`\n]*`|\]\([^)]*\)|</?[A-Za-z][^<>]*>|\$\$.*?\$\$|(?<!\\)\$(?=\S)[^$\n]*?(?<=\S)\$(?!\d)"
    r"|95 ?%|p < \.05|\((?:19|20)\d\d\)|\bgpt-[\w.-]+"
    r"|\b(?:[Tt]ables?|[Ff]igures?|[Ss]ections?|[Aa]ppendix|[Ee]quations?|[Cc]ells?|[Nn]otebooks?|[Ee]xercises?)"
    r" [A-Z]?\.?\d+(?:\.\d+)*(?:(?:, | and | to |–|-)\d+(?![\d.]))*(?![.\d]*\d)|\b[A-Z]\.\d+|@\d+",
    re.S,
)
NUMBER = re.compile(r"(?<![\w.])(\d*\.?\d+)(?![\w])( ?%| percent)?")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
SMALLEST = 12  # whole numbers up to it are words


def unshown_numbers(notebook, root):
    """Return the numbers in prose that neither an output nor a named source has: cell, number, words around it."""
    found = []
    for i, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "markdown" or i <= 1:  # title and plan
            continue
        text = "".join(cell["source"])
        cited, problems = numbers_cited(text, root)
        found += [f"cell {i}: {number}: {problem}" for number, problem in problems]
        section = section_of(notebook["cells"], i)
        parameters = [c for c in notebook["cells"] if "parameters" in c["metadata"].get("tags", [])]
        shown, written = numbers_shown(section), numbers_written([*section, *parameters])
        for number, percent, around in numbers_told(text):
            is_written = float(number) in written or (percent and round(float(number) / 100, 9) in written)
            if number in cited or is_written or any(rounds_to(number, percent, value) for value in shown):
                continue
            found.append(f"cell {i}: {number}{percent} is not in the outputs or the code of this section: {around}")
    return found


def numbers_told(text):
    """Yield the numbers of prose that could be results: decimals, percentages, and whole numbers above twelve."""
    text = THOUSANDS.sub("", NO_RESULT.sub(" ", COMMENT.sub("", text)))
    for found in NUMBER.finditer(text):
        number, percent = found[1], found[2] or ""
        if "." in number or percent or float(number) > SMALLEST:
            yield number, percent, text[max(0, found.start() - 40) : found.end() + 20].replace("\n", " ")


def rounds_to(told, percent, value):
    """Say whether a value rounds to the number as it is told; a share also where it is told in percent."""
    half = 0.5 * 10 ** -len(told.partition(".")[2]) * 1.0001
    scales = (1, 100) if (percent or "." in told) and abs(value) <= 1 else (1,)
    return any(abs(scale * value - float(told)) <= half for scale in scales)


def section_of(cells, place):
    """Return the cells that a sentence can be about."""
    if "## Takeaways" in "".join(cells[place]["source"]):
        return cells
    headings = [
        i for i, c in enumerate(cells) if c["cell_type"] == "markdown" and re.match("## ", "".join(c["source"]))
    ]
    start = max((i for i in headings if i <= place), default=0)
    end = min((i for i in headings if i > place), default=len(cells))
    # The first section is about the data that was loaded above it.
    return cells[0 if start in headings[:1] else start : end]


def numbers_shown(cells):
    """Return the numbers in the outputs of cells."""
    outputs = [output_text(output) for cell in cells for output in cell.get("outputs", [])]
    return {
        float(n)
        for words in outputs
        for n in re.findall(r"(?<![A-Za-z_.\d])\d*\.?\d+(?:e-?\d+)?", THOUSANDS.sub("", words))
    }


def numbers_written(cells):
    """Return the numbers that stand in the code of cells, those in its texts and comments included."""
    values = set()
    for source in ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"):
        code = re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.M)
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.NUMBER:
                values.add(float(abs(ast.literal_eval(token.string))))
            elif token.type in (tokenize.STRING, tokenize.COMMENT):
                values |= {float(n) for n in re.findall(r"(?<![\w.])\d*\.?\d+(?!\w)", token.string)}
    return values


def output_text(output):
    """Return the words of an output: what it printed, and its tables without tags and style sheets."""
    data = output.get("data", {})
    plain = [
        "".join(part) for part in (output.get("text", ""), data.get("text/plain", ""), data.get("text/markdown", ""))
    ]
    html = re.sub(r"<style.*?</style>|<svg.*?</svg>", "", "".join(data.get("text/html", "")), flags=re.S)
    return "\n".join([*plain, re.sub(r"<[^>]*>", " ", html)])


def numbers_cited(text, root):
    """Return the numbers that a cell's comments name a source for, as written, and what is wrong with them."""
    values, problems = set(), []
    for source, numbers in COMMENT.findall(text):
        values |= set(numbers.split())
        if "/" in source and (Path(root) / source).is_file():
            held = (Path(root) / source).read_text(encoding="utf-8")
            missing = [
                n
                for n in numbers.split()
                if not re.search(rf"(?<![\d.]){re.escape(n)}(?!\.?\d)", THOUSANDS.sub("", held))
            ]
            problems += [(number, f"{source} does not hold it") for number in missing]
        elif source not in PAPERS:
            problems.append((numbers, f"there is no {source}"))
    return values, problems
