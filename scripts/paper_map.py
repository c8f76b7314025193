"""Write docs/paper_map.md: every table and figure of the papers, with the notebook and section where it is rebuilt.

Usage: python scripts/paper_map.py [--check]

The page is made from data/published/map.csv; --check fails where it is not up to date.
"""

import sys
from pathlib import Path

from berdslib.study.published import reproduction_map

PAGE = Path(__file__).resolve().parents[1] / "docs" / "paper_map.md"
OPENING = """\
# Where the papers' tables and figures are

*Rebuilt* means the same columns or the same picture on other data: the sample (BeRDS), small invented tasks (PIR) or
synthetic arguments (PerspectiveArg), and by [grids](../papermill_runs/README.md) on data of others. No published number
was reproduced. [Notebook 12](../notebooks/12_paper_tables_and_figures.ipynb) shows each beside the published values.
BeRDS is numbered as in its later version, with the earlier one's number in brackets where it differs.

The papers: Chen and Choi, *Open-World Evaluation for Retrieving Diverse Perspectives*
([BeRDS](https://timchen0618.github.io/berds/)); Zhao, Chen, Chen, Zhang and Wu, *Beyond Relevance: Evaluate and Improve
Retrievers on Perspective Awareness* ([PIR](https://arxiv.org/abs/2405.02714)); Falk, Waldis and Gurevych, *Overview of
PerpectiveArg2024* ([shared task](https://github.com/Blubberli/perspective-argument-retrieval)).

`python scripts/paper_map.py` writes this page from [map.csv](../data/published/map.csv), which also has
titles and data.

| rebuilt | notebook · section |
|---|---|
"""


def entries():
    """Return the map, with BeRDS' earlier version folded into the later one."""
    table = reproduction_map()
    earlier = table[(table["paper"] == "BeRDS") & (table["version"] == "v1")]
    then = {(e.kind, e.title): e.number for e in earlier.itertuples()}
    kept = table.drop(earlier.index)
    both = [(e.number, then.get((e.kind, e.title), e.number) if e.version else e.number) for e in kept.itertuples()]
    numbers = [now if now == before else f"{now} ({before})" for now, before in both]
    return kept.assign(number=numbers)


def names(group):
    """Return what a group of entries is called: its tables, then its figures, by their numbers; a list by its title."""
    called = [f": {title}" for title in group.loc[group["kind"] == "list", "title"]]
    for kind in ("table", "figure"):
        numbers = list(group.loc[group["kind"] == kind, "number"])
        called += [f" {kind.capitalize()}{'s' * (len(numbers) > 1)} {', '.join(numbers)}"] if numbers else []
    return ";".join(called)


def page():
    """Return the whole page."""
    table = entries()
    rebuilt = table["status"] == "rebuilt"
    rows = [
        f"| {paper}{names(group)} | [{notebook[:2]}](../notebooks/{notebook}.ipynb) · {section} |"
        for (paper, notebook, section), group in table[rebuilt].groupby(["paper", "notebook", "section"], sort=False)
    ]
    reasons = [
        f"- {paper}{names(group)}: {reason}"
        + (" Notebook 12 draws the published values." if (group["status"] == "published values drawn").all() else "")
        for (paper, reason), group in table[~rebuilt].groupby(["paper", "reason"], sort=False)
    ]
    return OPENING + "\n".join(rows) + "\n\n## Not rebuilt, and why\n\n" + "\n".join(reasons) + "\n"


def main():
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/paper_map.md is not what map.csv says; run scripts/paper_map.py")


if __name__ == "__main__":
    main()
