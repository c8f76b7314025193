"""How `make book` makes a searchable site of the notebooks and docs, with Sphinx and MyST-NB, offline.

The notebooks are shown with the outputs that they are committed with; nothing is executed. Formulas become MathML,
which browsers draw by themselves, so no page asks another host for a script.
"""

import re
import sys
from importlib import import_module
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError

project = "berdslib"
author = "The berdslib maintainers"
copyright = author
html_title = "berdslib"

extensions = ["myst_nb"]
root_doc = "README"
include_patterns = [
    "README.md", "docs/*.md", "papers/*.md", "notebooks/[0-9][0-9]_*.ipynb", "data/README.md",
    "data/published/README.md", "data/real/README.md", "papermill_runs/README.md",
]  # fmt: skip
exclude_patterns = [".venv", ".cache", ".git", "build", "students", "tests", "berdslib"]
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # the README opens with a block of commands below its title
html_theme = "sphinx_book_theme"
html_theme_options = {"navbar_persistent": [], "show_toc_level": 2, "show_navbar_depth": 1, "home_page_in_toc": True}
html_math_renderer = "mathml"
html_copy_source = False

# The README is the front page; on GitHub it needs no table of contents, here it carries one for the side bar.
CONTENTS = """

```{{toctree}}
:caption: {caption}
:hidden:

{pages}
```
"""
NOTEBOOKS = "notebooks/*"
DOCS = (
    "everyday", "explorer", "teaching", "glossary",
    "paper_map", "results", "lists", "judges", "laptop_judge", "retrievers",
    "large_corpora", "cluster", "building", "extending", "gpu", "projection_rule", "rule_statements", "divergences",
)  # fmt: skip


def add_contents(_app, docname, source):
    """Give the front page its table of contents."""
    if docname == root_doc:
        pages = [f"docs/{name}" for name in DOCS] + [
            "data/README",
            "data/published/README",
            "data/real/README",
            "papermill_runs/README",
        ]
        source[0] += CONTENTS.format(caption="Notebooks", pages=NOTEBOOKS).replace(":hidden:", ":hidden:\n:glob:")
        source[0] += CONTENTS.format(caption="Docs", pages="\n".join(pages))
        source[0] += CONTENTS.format(caption="Tables of the papers", pages="papers/*").replace(
            ":hidden:", ":hidden:\n:glob:"
        )


def write_papers(app):
    """Write a page for each table and figure of the papers, before the pages are looked for."""
    sys.path.append(str(Path(app.srcdir) / "scripts"))
    import_module("paper_map").write_pages(Path(app.srcdir) / "papers")


def without_colab_cell(_app, docname, source):
    """Leave out the cell that only Colab needs."""
    if docname.startswith("notebooks/"):
        source[0] = re.sub(r'"tags": \[\s*"colab"\s*\]', '"tags": ["remove-cell"]', source[0])


# What GitHub and JupyterLab know and docutils does not, as what it knows. The browser chooses the size of brackets.
COMMANDS = {r"\\dots\b": r"\\ldots", r"\\tfrac\b": r"\\frac", r"\\[bB]ig{1,2}(?![a-z])": ""}


def mathml(node, as_block):
    """Return a formula as MathML; one that cannot be read stops the build and is named."""
    formula = node.astext()
    for command, known in COMMANDS.items():
        formula = re.sub(command, known, formula)
    try:
        return tex2mathml(formula, as_block=as_block)
    except MathError as error:
        raise ExtensionError(f"{node.source}: {error} In the formula {node.astext()!r}") from None


def inline_formula(self, node):
    """Write a formula within a line."""
    self.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def displayed_formula(self, node):
    """Write a formula on lines of its own."""
    self.body.append(f'<div class="math">{mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer of formulas, and what is changed in a page before it is read."""
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
    app.connect("builder-inited", write_papers)
    app.connect("source-read", add_contents)
    app.connect("source-read", without_colab_cell)
