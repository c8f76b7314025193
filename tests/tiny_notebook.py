"""A notebook of a few cells, for tests that run one."""

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
