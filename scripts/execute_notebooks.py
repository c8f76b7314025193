"""Execute every notebook from a fresh kernel on its default parameters and write it back with outputs, cleaned.

Usage: python scripts/execute_notebooks.py [NAME …]

Vectors are float32 here, whatever the processor is fastest with: what is committed then comes out the same elsewhere.
"""

import argparse
import base64
import hashlib
import io
import os
import re

import nbformat
from PIL import Image

from berdslib.study.notebooks import find_notebook, notebook_folder, run_notebook

# What differs between two runs of the same notebook, or would name the machine, does not belong into a commit.
VOLATILE = ("papermill", "execution", "widgets", "language_info", "kernelspec")


def with_palette(png):
    """Return a picture (base64) in 64 colours: our figures have few, and it is a quarter as large."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    written = io.BytesIO()
    picture.quantize(64, dither=Image.Dither.NONE).save(written, "png", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


def plain_table(html, number):
    """Return a pandas table without the ids of its style, which differ from run to run; the number stays where one has.

    Most tables that are styled only have their numbers formatted: no rule refers to their ids and classes.
    """
    html = re.sub(r"<style[^>]*>\s*</style>", "", html)
    if "<style" not in html:
        return re.sub(r' (?:id="T_|class="(?:col|row|data|blank|index|level))[^"]*"', "", html)
    return re.sub(r"\bT_[0-9a-f]{5}", f"T_{number}", html)


def clean(notebook):
    """Drop widget state, time stamps and papermill's own metadata, and make pictures smaller."""
    for key in VOLATILE:
        notebook.metadata.pop(key, None)
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.cells = [c for c in notebook.cells if "injected-parameters" not in c.metadata.get("tags", [])]
    for number, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), start=1):
        cell.execution_count = number
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    for cell in notebook.cells:
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.outputs = [
                o
                for o in cell.outputs
                if not any("widget" in kind for kind in o.get("data", {})) and o.get("name") != "stderr"
            ]
            for output in cell.outputs:
                if html := output.get("data", {}).get("text/html"):
                    output.data["text/html"] = plain_table(html, cell.execution_count)
                if plain := output.get("data", {}).get("text/plain"):
                    output.data["text/plain"] = re.sub(r" at 0x[0-9a-f]+>", ">", plain)
                if png := output.get("data", {}).get("image/png"):
                    output.data["image/png"] = with_palette(png)
    return notebook


def code_digests(notebook):
    """Return a short hash of the source of each code cell of a notebook (as JSON).

    Where those in the metadata, ``berdslib.executed``, differ from these, the outputs were made by other code.
    """
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [hashlib.sha256(source.encode()).hexdigest()[:8] for source in code]


def main():
    os.environ.setdefault("BERDS_NUMBER_FORMAT", "float32")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    in_order = [path.stem for path in sorted(notebook_folder().glob("[0-9][0-9]_*.ipynb"))]
    parser.add_argument("names", nargs="*", default=in_order, metavar="NAME", help="such as 07; all by default")
    for name in parser.parse_args().names:
        source = find_notebook(name)
        # Below the project root, so that the paths a notebook prints are relative.
        done = run_notebook(source.stem, output=notebook_folder().parent / "papermill_runs" / source.stem)
        executed = clean(nbformat.read(done.notebook, as_version=4))
        executed.metadata["berdslib"] = {"executed": code_digests(executed)}
        nbformat.write(executed, source)
        print(f"{source.stem}: {done.record['seconds']} s, {source.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
