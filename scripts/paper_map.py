"""Write docs/paper_map.md, which lists every table and figure of the papers; `make book` has a page for each.

Usage: python scripts/paper_map.py [--check]

All is made from data/published/tables.toml; --check fails where the list is not up to date.
"""

import argparse
import sys
from pathlib import Path

from berdslib.study.published import CODE, census, page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "paper_map.md"
OPENING = """\
# The papers' 40 tables and figures

Of these, {rebuilt} are rebuilt, the same measure or picture on other data; {drawn} (marked \\*) only show the published
values. Not rebuilt, mostly prompts and examples, whose texts are not copied: {nothing}. Of published numbers
only [a row and a figure of PIR](results.md#a-published-task-in-full) were reproduced. `berds table 3` or
`berds table pir 4` prints what is published, ours beside it, command, data, hours and misprints;
[notebook 12](../notebooks/12_paper_tables_and_figures.ipynb) draws it where there are numbers; the book has
a page for each. BeRDS is numbered as in its later version, the earlier one's number in brackets.

PerspectiveArg 2024 has no numbered tables; [notebook 09](../notebooks/09_perspective_argument.ipynb) rebuilds its
scenarios and measures.

`python scripts/paper_map.py` writes this page from [tables.toml](../data/published/tables.toml).

| table or figure | notebook |
|---|---|
"""


def listed():
    """Return the list of all."""
    table, counts, mark = census(), census()["status"].value_counts(), {"rebuilt": "", "drawn": " \\*"}
    rows = [
        f"| {page(e.name).heading}{mark[e.status]} | "
        + (f"[{e.notebook[:2]}](../notebooks/{e.notebook}.ipynb) |" if e.notebook else "|")
        for e in table[table["status"] != "not"].itertuples()
    ]
    left_out = ", ".join(table["name"][table["status"] == "not"]).replace(", BeRDS", ",").replace(", PIR F", ", F")
    told = {"rebuilt": counts["rebuilt"], "drawn": counts["drawn"], "nothing": left_out}
    return OPENING.format(**told) + "\n".join(rows).replace(" in the earlier version", "") + "\n"


def to_markdown(one, picture):
    """Return a page of the book, with a link to its picture, "" where it has none."""
    text, table = [f"# {one.heading}", f"![{one.title}]({picture})" if picture else ""], one.beside
    text += [f"- **{word}:** {f'`{said}`' if word in CODE else said}" for word, said in one.lines]
    if len(table):
        cells = [list(map(str, table)), ["---"] * table.shape[1], *table.to_numpy(dtype=str).tolist()]
        text += ["", *("| " + " | ".join(row) + " |" for row in cells)]
    return "\n".join(text) + "\n"


def write_pages(folder):
    """Write a page for each, with its picture where it has numbers."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    folder.mkdir(exist_ok=True)
    for i, name in enumerate(census()["name"]):
        one, stem = page(name), f"{i + 1:02}_{name.lower().replace(' ', '_')}"
        if len(one.beside):
            figure = one.figure()
            figure.savefig(folder / f"{stem}.png", dpi=80)
            pyplot.close(figure)
        text = to_markdown(one, f"{stem}.png" if len(one.beside) else "")
        (folder / f"{stem}.md").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where the list is not up to date")
    if not parser.parse_args().check:
        PAGE.write_text(listed(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != listed():
        sys.exit("docs/paper_map.md is not what tables.toml says; run scripts/paper_map.py")


if __name__ == "__main__":
    main()
