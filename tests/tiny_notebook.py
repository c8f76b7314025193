"""A notebook of a few cells, for tests that run one; and what a notebook defines."""

import json

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def write_notebook(folder, parameters, *code, metadata=KERNEL):
    """Write 99_tiny.ipynb into a folder: a cell of parameters and cells of code; return its path."""
    cells = [
        {"cell_type": "code", "source": text, "metadata": {"tags": ["parameters"] * (i == 0)}, "outputs": [],
         "execution_count": None, "id": f"cell{i}"}
        for i, text in enumerate((parameters, *code))
    ]  # fmt: skip
    path = folder / "99_tiny.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))
    return path


def names_of(path):
    """Return what the code cells of a notebook define, but for the last one, which works with it."""
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    names = {"__name__": path.stem}
    for cell in cells[:-1]:
        exec("".join(cell["source"]), names)
    return names
