"""Write docs/paper_map.md: every table and figure of the papers, with the notebook and section where it is rebuilt.

Usage: python scripts/paper_map.py [--check]

The page is made from data/published/map.csv; --check fails where it is not up to date.
"""

import sys
from pathlib import Path

from berdslib.study.published import reproduction_map

PAGE = Path(__file__).resolve().parents[1] / "docs" / "paper_map.md"
TITLES = {
    ("BeRDS", "v2"): "BeRDS, later version",
    ("BeRDS", "v1"): "BeRDS, earlier version",
    ("PIR", ""): "PIR",
    ("PerspectiveArg", ""): "PerspectiveArg 2024",
}
OPENING = """\
# Where the papers' tables and figures are

Every numbered table and figure of BeRDS (both versions) and PIR, and the measures of PerspectiveArg 2024, with the
notebook and section in which it is rebuilt. *Rebuilt* means the same columns or the same picture on other questions,
corpora and judges; no published number was reproduced.
[Notebook 12](../notebooks/12_paper_tables_and_figures.ipynb) shows each beside the published values.

The papers:

- Chen and Choi, *Open-World Evaluation for Retrieving Diverse Perspectives*
  ([BeRDS](https://timchen0618.github.io/berds/))
- Zhao, Chen, Chen, Zhang and Wu, *Beyond Relevance: Evaluate and Improve Retrievers on Perspective Awareness*
  ([PIR](https://arxiv.org/abs/2405.02714))
- Falk, Waldis and Gurevych, *Overview of PerpectiveArg2024*
  ([shared task](https://github.com/Blubberli/perspective-argument-retrieval))

`python scripts/paper_map.py` writes this page from [map.csv](../data/published/map.csv)."""


def row(entry):
    """Return one line of a table."""
    where = f"[{entry.notebook[:2]}](../notebooks/{entry.notebook}.ipynb) · {entry.section}" if entry.notebook else ""
    on = " ".join(part for part in (entry.data, entry.reason) if part)
    name = f"{entry.kind.capitalize()} {entry.number}".strip()
    return f"| {name} | {entry.title} | {entry.status} | {where} | {on} |"


def page():
    """Return the whole page."""
    parts = [OPENING]
    table = reproduction_map()
    for (paper, version), title in TITLES.items():
        entries = table[(table["paper"] == paper) & (table["version"] == version)]
        parts.append(
            f"\n## {title}\n\n| | what | status | notebook · section | on what, or why not |\n|---|---|---|---|---|"
        )
        parts.append("\n".join(map(row, entries.itertuples())))
    return "\n".join(parts) + "\n"


def main():
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/paper_map.md is not what map.csv says; run scripts/paper_map.py")


if __name__ == "__main__":
    main()
