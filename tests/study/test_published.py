"""The published numbers against values typed by hand from the paper, and the comparison with ours."""

import io
import re
import shutil

import pandas as pd
import pytest
from tex import caption_of

from berdslib import paths
from berdslib.errors import InputError, MissingDataError
from berdslib.study.notebooks import notebook_folder, read_notebook
from berdslib.study.published import (
    BERDS_SETTING,
    Setting,
    beside,
    long_table,
    published_table,
    published_value,
    reproduction_map,
)


@pytest.mark.parametrize(
    ("version", "table", "where", "value"),
    [
        ("v2", "1", "dataset=kialo measure=perspectives_per_question", 2.9),
        ("v2", "2", "corpus=google-search measure=documents_per_question", 74.2),
        ("v2", "3", "corpus=wikipedia retriever=bm25 dataset=arguana measure=MRecall", 10.8),
        ("v2", "3", "corpus=google-search retriever=tart dataset=macro measure=Precision k=1", 59.07),
        ("v2", "4", "system=mistral-7b-fine-tuned measure=f1", 62.2),
        ("v2", "5", "corpus=sphere retriever=dpr system=query-expansion measure=MRecall_change_percent", -48.0),
        ("v2", "6", "corpus=wikipedia dataset=opinionqa", 55.10),
        ("v2", "7", "corpus=google-search retriever=contriever", 0.95),
        ("v2", "16", "corpus=google-search retriever=bm25 dataset=arguana measure=Precision", 33.0),
        ("v2", "17", "corpus=sphere retriever=contriever measure=set_size", 17.8),
        ("v2", "18", "corpus=google-search retriever=contriever measure=percent_positive", 24.3),
        ("v2", "19", "dataset=opinionqa", 0),
        ("v1", "3", "corpus=wikipedia retriever=dpr dataset=opinionqa measure=Precision", 13.63),
        ("v1", "5", "corpus=google-search retriever=contriever measure=MRecall", 76.2),
        ("pir", "1", "dataset=allsides measure=words_per_document", 1089.2),
        ("pir", "3", "retriever=simcse-sup measure=share_support", 58.8),
        ("pir", "5", "system=baseline measure=correlation", -2.4),
        ("pir", "8", "system=add+ dataset=macro", 37.5),
        ("pir", "9", "retriever=simcse-large-sup system=pap+ measure=p-Recall_gain", 2.4),
    ],
)
def test_values_typed_by_hand(version, table, where, value):
    conditions = dict(pair.split("=") for pair in where.split())
    if "k" in conditions:
        conditions["k"] = int(conditions["k"])
    assert published_value(table, version=version, **conditions) == value


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: published_table("42"), r"table of BeRDS v2 '42'.*Known: 1, 16, 17"),
        (lambda: published_table("3", "v3"), "Known: pir, v1, v2"),
        (
            lambda: published_value("3", corpus="sphere"),
            r"^45 numbers of Table 3 \(v2\) match corpus='sphere'; exactly",
        ),
        (lambda: published_value("3", corpus="sphere", k=7), r"^0 numbers .* corpus='sphere', k=7"),
        (lambda: published_value("3", corpsu="sphere"), r"unknown column 'corpsu'\. Did you mean 'corpus'"),
    ],
)
def test_errors_say_what_there_is(call, words):
    with pytest.raises(InputError, match=words):
        call()


# ---------------------------------------------------------------- figures, readme, map


NUMBERED = {  # every numbered table and figure, counted by hand in the texts
    ("BeRDS", "v1", "table"): 17, ("BeRDS", "v2", "table"): 21, ("PIR", "", "table"): 10,
    ("BeRDS", "v1", "figure"): 3, ("BeRDS", "v2", "figure"): 3, ("PIR", "", "figure"): 6,
}  # fmt: skip


def test_the_map_has_every_table_and_figure_once_and_says_where_or_why_not():
    rows = reproduction_map()
    rebuilt = rows["status"] == "rebuilt"
    assert rows.loc[rebuilt, ["data", "notebook", "section"]].ne("").all(axis=None)
    assert rows.loc[~rebuilt, "reason"].str.endswith(".").all()
    assert set(rows["in_12"]) <= headings("12_paper_tables_and_figures")
    for (paper, version, kind), most in NUMBERED.items():
        mine = rows[(rows["paper"] == paper) & (rows["version"] == version) & (rows["kind"] == kind)]
        assert sorted(mine["number"].astype(int)) == list(range(1, most + 1)), (paper, version, kind)
    assert len(rows[rows["paper"] != "PerspectiveArg"]) == sum(NUMBERED.values()) == 60


def headings(name):
    cells = read_notebook(notebook_folder() / f"{name}.ipynb")["cells"]
    text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return set(re.findall(r"^#+ (.+)$", text, re.MULTILINE))


@pytest.mark.parametrize("name", sorted(set(reproduction_map()["notebook"]) - {""}))
def test_notebooks_sections_and_grids_of_the_map_exist(name):
    rows = reproduction_map().query("notebook == @name")
    assert set(rows["section"]) <= headings(name)
    for grid in set(rows["grid"]) - {""}:
        lines = (notebook_folder().parent / "papermill_runs" / "grids" / grid).read_text(encoding="utf-8").splitlines()
        assert f"notebook: {name}" in lines


# ---------------------------------------------------------------- a whole table beside ours

PAPERS = BERDS_SETTING._replace(corpus="wikipedia")


def table_of(*rows):
    return pd.DataFrame(rows, columns=["system", "dataset", "measure", "mean"])


def test_a_table_beside_ours_pairs_each_cell_by_hand():
    ours = table_of(
        ("bm25", "arguana", "MRecall@5", 0.12),
        ("minilm", "macro", "Precision@1", 0.5),
        ("bm25+mmr:0.9", "arguana", "MRecall@5", 0.99),  # Table 3 has no chains
    )
    found = beside("3", ours, PAPERS._replace(corpus="the sample"), stand_in={"minilm": "contriever"})
    cells = found.cells.dropna(subset="ours").set_index(["corpus", "retriever", "dataset", "measure", "k"])
    assert len(found.cells) == 126 and len(cells) == 6  # either number beside three corpora
    assert cells.loc[("wikipedia", "bm25", "arguana", "MRecall", 5)].tolist() == [10.8, 12.0, 1.2]
    assert cells.loc[("sphere", "contriever", "macro", "Precision", 1)].tolist() == [58.67, 50.0, -8.67]
    shown = found.shown.set_index(["corpus", "retriever"])  # means only
    assert shown.loc[("sphere", "contriever"), ("Precision@1", "difference")] == -8.67
    assert " 58.67 50 -8.7" in " ".join(repr(found).split())  # as printed, and ours with one decimal
    assert len(shown) == 3 and list(dict.fromkeys(c[0] for c in shown)) == ["Precision@1"]
    assert not found.comparable
    assert found.sentence == (
        "Not comparable (6 of 126 numbers have ours beside them): another corpus (the sample, not Wikipedia, Sphere or "
        "Google's results); with minilm for contriever."
    )


def test_a_table_is_comparable_only_where_all_of_the_setting_is_the_same():
    rows = [("wikipedia", "bm25", "arguana", "MRecall", 5, 11.0)]
    ours = pd.DataFrame(rows, columns=["corpus", "retriever", "dataset", "measure", "k", "value"])
    same = beside("3", ours, PAPERS)
    assert same.comparable
    assert same.sentence.startswith("Comparable (1 of 126 numbers have ours beside them)")
    for field, word in (("questions", "questions"), ("judge", "judge"), ("retrievers", "retrievers")):
        other = beside("3", ours, PAPERS._replace(**{field: "of mine"}))
        assert not other.comparable and f"other {word} (of mine, not " in other.sentence.replace("another", "other")


def test_chains_stand_beside_the_words_of_table_5_and_of_pir():
    ours = table_of(
        ("bm25", "macro", "MRecall@5", 0.3), ("bm25+mmr:0.9", "macro", "MRecall@5", 0.2),
        ("bm25+expand:recorded", "macro", "MRecall@5", 0.1),
    )  # fmt: skip
    ours = long_table(ours).drop(columns="dataset")
    shown = beside("5", ours, PAPERS).cells.query("corpus == 'sphere' and measure == 'MRecall'").set_index("system")
    assert shown["ours"].dropna().to_dict() == {"default": 30.0, "mmr": 20.0, "query-expansion": 10.0}
    pap = table_of(("minilm", "macro", "pRecall@5", 0.3), ("minilm+pap+", "macro", "pRecall@5", 0.25))
    pap = long_table(pap).drop(columns=["retriever", "dataset"])
    shown = beside("4", pap, Setting("mine"), version="pir").cells.set_index("system")
    assert shown["ours"].dropna().to_dict() == {"baseline": 30.0, "pap+": 25.0}


def test_a_comparison_shows_itself_as_html_latex_and_csv():
    ours = table_of(("bm25", "macro", "MRecall@5", 0.25))
    found = beside("3", ours, Setting("<b>mine</b> & 50 % more", "x_y", "j"))
    assert "&lt;b&gt;mine" in found._repr_html_() and "<b>mine" not in found._repr_html_()
    assert r"x\_y" in found.to_latex() and r"\& 50 \% more" in found.to_latex() and r"\toprule" in found.to_latex()
    again = pd.read_csv(io.StringIO(found.to_csv()))
    assert len(again) == 126 and again["ours"].count() == 3
    assert repr(found).endswith(found.sentence)
    found = beside("3", ours, Setting(r"c$\write18{id} 50% a&b_#~^\ }{ \end{table}"))
    assert caption_of(found.to_latex()) == f"{found.title}. {found.sentence}"


def test_a_chain_of_several_steps_has_no_cell_in_the_papers():
    chains = ["bm25+expand:rule+mmr:0.9", "contriever+mmr:0.9+expand:rule", "minilm+pap+:0.5+mmr:0.9"]
    ours = table_of(*((chain, "macro", "MRecall@5", 0.3) for chain in chains))
    assert long_table(ours)["system"].tolist() == ["expand:rule+mmr:0.9", "mmr:0.9+expand:rule", "pap+:0.5+mmr:0.9"]
    found = beside("5", long_table(ours).drop(columns="dataset"), PAPERS)
    assert found.cells["ours"].isna().all() and not found.comparable
    assert found.sentence == "Not comparable (0 of 80 numbers have ours beside them)."
    twice = table_of(("minilm", "macro", "MRecall@5", 0.3), ("mpnet", "macro", "MRecall@5", 0.4))
    with pytest.raises(InputError, match="two of our numbers stand for"):
        beside("3", twice, PAPERS, stand_in={"minilm": "contriever", "mpnet": "contriever"})


# ---------------------------------------------------------------- paths


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "berdslib"\n')
    (tmp_path / "data" / "sample").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def installed_elsewhere(tmp_path_factory, monkeypatch):
    """The package lies in no checkout."""
    monkeypatch.setattr(paths, "PACKAGE", tmp_path_factory.mktemp("site-packages") / "berdslib")


def test_the_checkout_of_the_package_goes_before_the_current_folder(checkout, tmp_path_factory, monkeypatch):
    planted = tmp_path_factory.mktemp("shared")
    (planted / "pyproject.toml").write_text('[project]\nname = "berdslib"\n')
    (planted / "notebooks").mkdir()
    monkeypatch.chdir(planted / "notebooks")
    monkeypatch.setattr(paths, "PACKAGE", checkout / "berdslib")
    assert paths.project_root() == checkout
    monkeypatch.setenv("BERDS_PROJECT", str(planted))  # said in so many words
    assert paths.project_root() == planted
    monkeypatch.setenv("BERDS_PROJECT", str(planted / "notebooks"))
    with pytest.raises(InputError, match="BERDS_PROJECT must name a checkout"):
        paths.project_root()


@pytest.mark.usefixtures("installed_elsewhere")
def test_a_checkout_of_somebody_else_is_not_used(checkout, monkeypatch, caplog):
    monkeypatch.chdir(checkout / "notebooks")
    monkeypatch.setattr(paths.os, "getuid", lambda: checkout.stat().st_uid + 1)
    with caplog.at_level("WARNING"):
        assert paths.project_root() is None
    assert "belongs to another user" in caplog.text and "BERDS_PROJECT" in caplog.text


@pytest.mark.usefixtures("installed_elsewhere")
@pytest.mark.parametrize("toml", ['[project]\nname = "other"\n', "project = 3\n", "not [toml"])
def test_the_root_is_found_from_the_current_folder_past_other_projects(checkout, monkeypatch, toml):
    inner = checkout / "data"
    (inner / "notebooks").mkdir()
    (inner / "pyproject.toml").write_text(toml)
    monkeypatch.chdir(inner / "notebooks")
    assert paths.project_root() == checkout


def test_shipped_goes_by_the_package_and_not_by_the_current_folder(checkout, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(paths, "PACKAGE", checkout / "berdslib")
    assert paths.shipped("sample") == checkout / "data" / "sample"
    installed = tmp_path_factory.mktemp("site-packages") / "berdslib"
    (installed / "_shipped" / "sample").mkdir(parents=True)
    monkeypatch.setattr(paths, "PACKAGE", installed)
    monkeypatch.chdir(checkout)  # a wheel reads its own files
    assert paths.shipped("sample") == installed / "_shipped" / "sample"
    shutil.rmtree(installed / "_shipped")
    with pytest.raises(MissingDataError, match=r"'sample'.*_shipped"):
        paths.shipped("sample")


def test_local_data_dir(tmp_path, monkeypatch):
    monkeypatch.delenv("BERDS_DATA", raising=False)
    assert paths.local_data_dir() is None
    monkeypatch.setenv("BERDS_DATA", str(tmp_path))
    assert paths.local_data_dir() == tmp_path
    monkeypatch.setenv("BERDS_DATA", str(tmp_path / "nothing"))
    with pytest.raises(InputError, match="BERDS_DATA"):
        paths.local_data_dir()
