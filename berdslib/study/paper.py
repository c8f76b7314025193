"""The tables of the papers as pages: each drawn, written as LaTeX, CSV, PNG and PDF, and put beside ours.

How a table is printed and drawn is in :mod:`berdslib.study.paper_layouts`.
"""

from __future__ import annotations

import html
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from berdslib.errors import InputError, known
from berdslib.files import StrPath, write_text
from berdslib.study.figures import save_figure
from berdslib.study.notebooks import find_notebook, notebook_folder, read_parameters
from berdslib.study.paper_layouts import as_printed, dots, layout_of, title_of
from berdslib.study.published import (
    BERDS_SETTING,
    VERSIONS,
    Beside,
    Setting,
    beside,
    formats,
    latex,
    long_table,
    published_figure,
    published_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Ours", "Page", "dots", "figure_page", "ours_of_grid", "page", "rows_for", "title_of", "write_page"]


PICTURE_DPI = 110  # of the pictures on a page: a notebook shows many; the files are sharper

# ---------------------------------------------------------------- writing


def write_page(folder: Path, stem: str, table: pd.DataFrame, caption: str, figure: Figure) -> list[Path]:
    """Write a table and its figure: STEM.tex, STEM.csv, STEM.png and STEM.pdf.

    Args:
        folder: created if needed.
        stem: file name without ending.
        table: in the shape of the printed one.
        caption: of the LaTeX table; it says whose numbers they are.
        figure: the same numbers, drawn.

    Returns:
        The four paths.
    """
    import matplotlib.pyplot as plt

    figure.draw_without_rendering()  # the layout is found once, not again for every format
    figure.set_layout_engine("none")
    paths = save_figure(figure, table, folder, stem)
    plt.close(figure)  # it can still be drawn; a notebook shall not show it by itself
    with write_text(folder / f"{stem}.tex") as file:
        file.write(latex(table, caption, printed=True))
    return [folder / f"{stem}.tex", *paths]


@dataclass(frozen=True)
class Ours:
    """What we measured in one setting: title of a published table → our numbers, as :func:`beside` takes them."""

    name: str
    setting: Setting
    tables: Mapping[str, pd.DataFrame]
    stand_in: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Page:
    """A table or figure of a paper: what was published, and ours beside it; shown, it says which is which.

    Args:
        caption: what is shown.
        printed: the published table, in the printed shape; None for a figure, whose numbers the texts do not print.
        besides: the same table beside each of ours.
        says: what the text states of a published figure.
        files: what was written.
        picture: PNG with few colours, smaller than the file; None where the page shows none.
    """

    caption: str
    printed: pd.DataFrame | None
    besides: tuple[Beside, ...]
    says: tuple[str, ...]
    files: tuple[Path, ...]
    picture: bytes | None

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, Image, display

        display(HTML(self.html), *([] if self.picture is None else [Image(self.picture)]))

    @property
    def html(self) -> str:
        """The page without its picture."""
        table = ""
        if self.printed is not None and self.picture is None:
            table = self.printed.to_html(
                index=False, na_rep="", border=0, formatters=formats(self.printed, printed=True)
            )
        stated = "".join(f"<li>{html.escape(one)}</li>" for one in self.says)
        besides = "".join(one.html for one in self.besides)
        return f"<p>{html.escape(self.caption)}</p>{table}{stated and f'<ul>{stated}</ul>'}{besides}"

    def __repr__(self) -> str:
        """Show the page as text."""
        shown = (
            []
            if self.printed is None
            else [self.printed.to_string(index=False, na_rep="", formatters=formats(self.printed, printed=True))]
        )
        return "\n".join([self.caption, *shown, *self.says, *map(repr, self.besides)])


def _picture(figure: Figure) -> bytes:
    """Return a figure as PNG for a screen, in 32 colours: what dots, lines and a few hatches need."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight", dpi=PICTURE_DPI)
    small = io.BytesIO()
    # An octree keeps pure colours; the median cut merges blue and green where both are rare.
    plain = Image.open(buffer).convert("RGB").quantize(32, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    plain.save(small, "PNG", optimize=True)
    return small.getvalue()


def page(
    folder: Path,
    table: str,
    version: str = "v2",
    ours: Sequence[Ours] = (),
    *,
    earlier: str = "",
    drawn: bool = True,
) -> Page:
    """Draw a published table, write it, and put ours beside it.

    Each of ours that has numbers for the table is written too: in the same shape as STEM_ours_NAME, and beside the
    published numbers as STEM_beside_NAME.

    Args:
        folder: where files go.
        table: the table's number.
        version: "v1" or "v2" of BeRDS, or "pir".
        ours: what we measured.
        earlier: the number of the same table in v1, which is written and not shown.
        drawn: the page shows the published table as a picture, not as printed.

    Raises:
        InputError: an unknown table, or `earlier` is another table.
    """
    numbers = published_table(table, version)
    title, files = str(numbers["title"].iloc[0]), []
    if earlier:
        first = published_table(earlier, "v1")
        if first["title"].iloc[0] != title:
            raise InputError(f"Table {earlier} of BeRDS v1 is {first['title'].iloc[0]!r}, not {title!r}")
        files += _write_published(folder, first, "v1")[0]
    besides = []
    for one in (one for one in ours if title in one.tables):
        files += _write_ours(folder, numbers, version, one)
        besides.append(beside(table, one.tables[title], one.setting, version=version, stand_in=one.stand_in))
        files += _write_beside(folder / f"{_stem(version, numbers)}_beside_{one.name}", besides[-1])
    written, figure = _write_published(folder, numbers, version)
    caption = f"{_caption(numbers, version)}. {'Drawn' if drawn else 'Printed'}: the published values."
    printed = as_printed(numbers, layout_of(numbers))
    picture = _picture(figure) if drawn else None
    return Page(caption, printed, tuple(besides), (), (*files, *written), picture)


def _caption(numbers: pd.DataFrame, version: str) -> str:
    return f"{VERSIONS[version][0]}, Table {numbers['table'].iloc[0]}: {numbers['title'].iloc[0]}"


def _stem(version: str, numbers: pd.DataFrame) -> str:
    return f"{VERSIONS[version][1]}_table_{numbers['table'].iloc[0]}"


def _write_published(folder: Path, numbers: pd.DataFrame, version: str) -> tuple[list[Path], Figure]:
    layout = layout_of(numbers)
    caption = f"{_caption(numbers, version)}. The published values."
    figure = layout.draw(numbers)
    return write_page(folder, _stem(version, numbers), as_printed(numbers, layout), caption, figure), figure


def _write_ours(folder: Path, numbers: pd.DataFrame, version: str, ours: Ours) -> list[Path]:
    layout = layout_of(numbers)
    rows = long_table(ours.tables[str(numbers["title"].iloc[0])])
    if "corpus" not in rows:
        rows = rows.assign(corpus=ours.name)
    if "system" in rows:
        rows = rows.assign(system=rows["system"].replace("", "baseline" if version == "pir" else "default"))
    caption = f"Ours ({ours.name}), in the shape of {_caption(numbers, version)}."
    stem = f"{_stem(version, numbers)}_ours_{ours.name}"
    return write_page(folder, stem, as_printed(rows, layout), caption, layout.draw(rows))


def _write_beside(stem: Path, found: Beside) -> list[Path]:
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("csv", "tex")]
    for path, text in zip(paths, (found.to_csv(), found.to_latex()), strict=True):
        with write_text(path) as file:
            file.write(text)
    return paths


def figure_page(
    folder: Path, number: str, version: str, figure: Figure, rows: pd.DataFrame, whose: str, *, drawn: bool = True
) -> Page:
    """Write a figure drawn from ours, and say what the text states of the published one.

    Args:
        folder: where files go.
        number: the figure's number.
        version: "v1", "v2" or "pir".
        figure: ours.
        rows: the numbers that it shows.
        whose: what ours was measured on, for the caption.
        drawn: the page shows the figure; else it is written only.

    Raises:
        InputError: an unknown version.
    """
    stated = published_figure(number, version)
    caption = f"{VERSIONS[version][0]}, Figure {number}. {'Drawn' if drawn else 'Written'}: ours ({whose})."
    if len(stated):
        caption += " Of the published one the text states:"
    stem = f"{VERSIONS[version][1]}_figure_{number}"
    files = write_page(folder, stem, rows, f"Ours ({whose}), as {VERSIONS[version][0]}, Figure {number}.", figure)
    return Page(caption, None, (), tuple(stated["says"]), tuple(files), _picture(figure) if drawn else None)


# ---------------------------------------------------------------- ours, from a grid

# Our names of what the papers used, and what they say of it.
_PAPERS_NAMES = {"tart-full": "tart"}
_PAPERS_JUDGE = {"mistral-berds": BERDS_SETTING.judge}
_ENCODERS = {"bm25", "dpr", "contriever", "tart", "nv-embed-v2"}
_BASE = ("base retrievers, 5 documents", "base retrievers, 10 documents", "documents needed to cover every perspective")
_CHAINS = "re-ranking and query expansion, 5 documents"


def ours_of_grid(folder: StrPath, stand_in: Mapping[str, str] | None = None) -> list[Ours]:
    """Return what the finished runs of a grid over notebook 03, 06 or 07 measured, one for each run.

    A run of 03 has the base retrievers, and of the table of documents needed the share of questions covered; one of
    06 or 07 has re-ranking and query expansion, on the questions held out from choosing.

    Args:
        folder: of the grid's summary, papermill_runs/NAME; below the project root unless it is absolute.
        stand_in: our name → the published one that it stands for.

    Raises:
        InputError: there is no summary, or its runs are of other notebooks.
    """
    path = notebook_folder().parent / folder / "summary.csv"
    if not path.is_file():
        command = "berds notebook grid papermill_runs/grids/NAME.yaml"
        raise InputError(f"no summary.csv; run the grid first: {command}", path=path)
    table = pd.read_csv(path)
    if missing := {"run", "system", "dataset", "measure", "mean"} - set(table):
        raise InputError(f"a grid over notebook 03, 06 or 07 was expected; no column {min(missing)!r}", path=path)
    return [_ours_of_run(str(name), rows, stand_in or {}) for name, rows in table.groupby("run", sort=False)]


def _ours_of_run(name: str, rows: pd.DataFrame, stand_in: Mapping[str, str]) -> Ours:
    notebook, _, number = name.rpartition("-")
    run = _parameters(notebook, rows.iloc[0])
    reorders = "retriever" in run  # 06 and 07: every system reorders the list of this retriever
    if reorders:
        rows = rows.assign(system=[run["retriever"] + _chained(system) for system in rows["system"]])
        rows = rows.sort_values("chosen", ascending=False, kind="stable")
    numbers = long_table(rows).replace({"retriever": _PAPERS_NAMES})
    numbers = numbers.drop_duplicates(["retriever", "system", "dataset", "measure", "k"])
    if run["corpus"] in ("wikipedia", "sphere"):
        numbers = numbers.assign(corpus=run["corpus"])
    titles = (_CHAINS,) if reorders else _BASE
    tables = {title: part for title in titles if len(part := rows_for(numbers, title))}
    return Ours(f"{run['corpus']}-{number[-4:]}".replace(":", "-"), _setting(run, numbers), tables, stand_in)


def _parameters(notebook: str, row: pd.Series) -> dict[str, Any]:
    """Return a run's parameters: a grid's summary has those that its file sets, the others are the notebook's own."""
    own = {name: parameter.default for name, parameter in read_parameters(find_notebook(notebook)).items()}
    return own | {name: row[name] for name in own if name in row and pd.notna(row[name])}


def _chained(system: str) -> str:
    return "" if system == "default" else f"+{system}"


def rows_for(numbers: pd.DataFrame, title: str) -> pd.DataFrame:
    """Return the rows of a long table that a published table of BeRDS prints: its measures, cut-offs and systems.

    Args:
        numbers: of :func:`berdslib.study.published.long_table`.
        title: of a table of retrievers, documents needed, or re-ranking and query expansion.
    """
    known("title of such a table", title, (*_BASE, _CHAINS))
    scores = numbers[numbers["measure"].isin(["Precision", "MRecall"])]
    if title == _CHAINS:
        means = scores[(scores["dataset"] == "macro") & (scores["k"] == 5)].drop(columns="dataset")
        return means[means["system"].isin(["", "mmr", "query-expansion"])]
    scores = scores[scores["system"] == ""]
    if title == _BASE[2]:
        whole = (scores["dataset"] == "macro") & (scores["measure"] == "MRecall") & (scores["k"] == 100)
        return scores[whole].drop(columns="dataset")
    if title == _BASE[1]:
        return scores[scores["k"] == 10]
    first = (scores["k"] == 1) & (scores["measure"] == "Precision") & (scores["dataset"] == "macro")
    return scores[(scores["k"] == 5) | first]


def _setting(run: Mapping[str, Any], numbers: pd.DataFrame) -> Setting:
    """Return a run's setting in the words of the published one where they are the same."""
    given = run["datasets"]
    datasets = ", ".join(json.loads(given) if isinstance(given, str) else given)
    limit = int(run["limit"])
    questions = f"{datasets}, {run['split']}" + (f", the first {limit} of each" if limit else "")
    if (datasets, run["split"], limit) == ("arguana, kialo, opinionqa", "test", 0):
        questions = BERDS_SETTING.questions
    retrievers = list(dict.fromkeys(numbers["retriever"]))
    weights = BERDS_SETTING.retrievers if set(retrievers) <= _ENCODERS else ", ".join(retrievers)
    return Setting(questions, str(run["corpus"]), _PAPERS_JUDGE.get(run["judge"], str(run["judge"])), weights)
