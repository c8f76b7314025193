"""scripts/paper_pages.py: the papers' tables in printed shape, drawn, as files; and ours from a grid's folder."""

import io
import json

import pandas as pd
import pytest
from PIL import Image

from berdslib.errors import InputError
from berdslib.study.notebooks import load_script
from berdslib.study.published import BERDS_SETTING, Setting, beside, long_table, published_table

paper = load_script("paper_pages")

TABLES = [
    *(("v1", str(n)) for n in (1, 2, 3, 4, 5, 6, 7, 8, 17)),
    *(("v2", str(n)) for n in (1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19)),
    *(("pir", str(n)) for n in (1, 2, 3, 4, 5, 6, 8, 9, 10)),
]


def printed(version, table):
    rows = published_table(table, version)
    return paper.as_printed(rows, paper.layout_of(rows))


@pytest.mark.parametrize(
    ("version", "table", "row", "cells"),
    [  # typed by hand from the papers
        ("v2", "3", 5, ["Sphere", "BM25", 44.96, 27.6, 43.33, 24.16, 50.11, 22.45, 46.13, 24.74, 51.26]),
        ("v2", "5", 3, ["Sphere", "BM25", 46.13, 24.74, 45.43, -1.5, 25.38, 2.6, 44.16, -4.3, 26.24, 6.1]),
        ("v2", "1", 2, ["Kialo", 1032, 258, 774, 2.9, 12.49]),
        ("pir", "8", 9, ["PAP", 5.3, 86.2, 55.4, 52.9, 23.4, 52.6, 46.0]),
    ],
)
def test_a_table_has_the_rows_that_are_printed(version, table, row, cells):
    assert printed(version, table).iloc[row].tolist() == cells


def test_nothing_is_lost_or_invented_between_the_numbers_and_the_printed_shape():
    for version, table in TABLES:
        wide = printed(version, table)
        shown = pd.to_numeric(wide.stack(future_stack=True), errors="coerce").dropna().astype(float)
        assert sorted(shown) == sorted(published_table(table, version)["value"]), (version, table)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "table"), [("v1", "5"), ("v2", "3"), ("pir", "8")])
def test_every_table_is_drawn_and_written_in_four_forms(version, table, tmp_path):
    found = paper.page(tmp_path, table, version)
    assert sorted(path.suffix for path in found.files) == [".csv", ".pdf", ".png", ".tex"]
    assert all(path.stat().st_size > 20 for path in found.files)
    tex = next(path for path in found.files if path.suffix == ".tex").read_text(encoding="utf-8")
    assert "\\toprule" in tex and "The published values." in tex
    with Image.open(io.BytesIO(found.picture)) as image:
        assert len(image.getcolors()) <= 32


OURS = pd.DataFrame(
    [(s, "macro", m, 0.2) for s in ("bm25", "bm25+mmr:0.9") for m in ("Precision@5", "MRecall@5")],
    columns=["system", "dataset", "measure", "mean"],
)


@pytest.mark.slow
def test_a_page_has_ours_in_the_same_shape_and_beside(tmp_path):
    tables = {title: paper.rows_for(long_table(OURS), title) for title in map(paper.title_of, ("3", "5"))}
    ours = [paper.Ours("mine", Setting("one", "two", "three", "four"), tables)]
    found = paper.page(tmp_path, "3", ours=ours, earlier="3", drawn=False)
    names = {path.name for path in found.files}
    assert {"berds_v1_table_3.csv", "berds_v2_table_3_ours_mine.pdf", "berds_v2_table_3_beside_mine.tex"} <= names
    same_shape = pd.read_csv(tmp_path / "berds_v2_table_3_ours_mine.csv")
    assert same_shape.iloc[0].tolist() == ["mine", "BM25", 20.0, 20.0]  # no chain in a table of retrievers
    assert "Printed: the published values" in found.html and "Not comparable (6 of 126" in found.html
    chains = paper.page(tmp_path, "5", ours=ours)
    assert chains.besides[0].cells["ours"].count() == 12 and chains.picture is not None
    assert "<table" in chains.html and "sphere" in repr(chains)


def summary(folder, rows, notebook="03_retrieval", **parameters):
    columns = ["system", "dataset", "measure", "mean"]
    table = pd.DataFrame(rows, columns=columns).assign(run=f"{notebook}-0123456789", **parameters)
    table.to_csv(folder / "summary.csv", index=False)


ROWS = [
    ("bm25", "arguana", "MRecall@5", 0.12),
    ("bm25", "macro", "MRecall@100", 0.4),
    ("tart-full", "kialo", "Precision@5", 0.3),
]
PAPERS = {
    "datasets": json.dumps(["arguana", "kialo", "opinionqa"]),
    "split": "test",
    "corpus": "wikipedia",
    "judge": "mistral-berds",
    "limit": 0,
}


def test_a_grid_in_the_papers_setting_is_comparable(tmp_path):
    summary(tmp_path, ROWS, **PAPERS)
    (ours,) = paper.ours_of_grid(tmp_path)
    assert ours.setting == BERDS_SETTING._replace(corpus="wikipedia") and ours.name == "wikipedia-6789"
    found = beside("3", ours.tables[paper.title_of("3")], ours.setting)
    cells = found.cells.dropna(subset="ours")
    assert found.comparable and set(cells["corpus"]) == {"wikipedia"}
    assert dict(zip(cells["retriever"], cells["ours"], strict=True)) == {"bm25": 12.0, "tart": 30.0}
    needed = ours.tables["documents needed to cover every perspective"]
    assert needed["value"].tolist() == [40.0]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"split": "dev"}, "other questions (arguana, kialo, opinionqa, dev, not the test questions"),
        ({"limit": 40}, "other questions (arguana, kialo, opinionqa, test, the first 40 of each, not"),
        ({"corpus": "arguana-corpus"}, "another corpus (arguana-corpus, not Wikipedia, Sphere or Google's results)"),
    ],
)
def test_a_grid_in_another_setting_is_not(tmp_path, changed, words):
    summary(tmp_path, ROWS, **PAPERS | changed)
    (ours,) = paper.ours_of_grid(tmp_path)
    found = beside("3", ours.tables[paper.title_of("3")], ours.setting)
    assert not found.comparable and words in found.sentence


def test_a_grid_over_rerankers_takes_the_weight_that_was_chosen(tmp_path):
    rows = [("default", "macro", "MRecall@5", 0.3), ("mmr:0.75", "macro", "MRecall@5", 0.1),
            ("mmr:0.9", "macro", "MRecall@5", 0.2), ("oracle", "macro", "MRecall@5", 1.0)]  # fmt: skip
    summary(tmp_path, rows, "07_query_expansion", datasets='["theperspective"]', retriever="contriever")
    path = tmp_path / "summary.csv"
    table = pd.read_csv(path)
    table.assign(chosen=table["system"] == "mmr:0.9").to_csv(path, index=False)
    (ours,) = paper.ours_of_grid(tmp_path)
    (title,) = ours.tables
    assert title == paper.title_of("5")
    assert ours.tables[title].set_index("system")["value"].to_dict() == {"mmr": 20.0, "": 30.0}
    # What the grid's file does not set is the notebook's own default.
    assert ours.setting == Setting("theperspective, all", "sample", "gold", BERDS_SETTING.retrievers)


def test_a_folder_that_is_no_grids_is_refused(tmp_path):
    with pytest.raises(InputError, match="run the grid first"):
        paper.ours_of_grid(tmp_path)
    (tmp_path / "summary.csv").write_text("run,judge\na,gold\n")
    with pytest.raises(InputError, match="no column 'dataset'"):
        paper.ours_of_grid(tmp_path)
