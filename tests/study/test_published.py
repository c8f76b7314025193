"""The published numbers against values typed by hand from the paper, and a page for each table and figure."""

import io
import re
import shutil
from itertools import pairwise

import click
import pandas as pd
import pytest
from matplotlib import pyplot
from paper_map import to_markdown
from shell import tried
from tex import caption_of

from berdslib import paths
from berdslib.cli import main
from berdslib.errors import InputError, MissingDataError
from berdslib.judging.registry import check_judge
from berdslib.retrieval.systems import parse_system
from berdslib.stats import mean_interval
from berdslib.study.grid import read_grid
from berdslib.study.notebooks import notebook_folder, read_notebook
from berdslib.study.published import (
    CODE,
    STATUS,
    census,
    page,
    published_table,
    published_value,
    read_shipped,
    real_numbers,
)


@pytest.mark.parametrize(
    ("version", "table", "where", "value"),
    [
        ("v2", "1", "dataset=kialo measure=perspectives_per_question", 2.9),
        ("v2", "3", "corpus=wikipedia retriever=bm25 dataset=arguana measure=MRecall", 10.8),
        ("v2", "3", "corpus=google-search retriever=tart dataset=macro measure=Precision k=1", 59.07),
        ("v2", "4", "system=mistral-7b-fine-tuned measure=f1", 62.2),
        ("v2", "5", "corpus=sphere retriever=dpr system=query-expansion measure=MRecall_change_percent", -48.0),
        ("v2", "16", "corpus=google-search retriever=bm25 dataset=arguana measure=Precision", 33.0),
        ("v2", "18", "corpus=google-search retriever=contriever measure=percent_positive", 24.3),
        ("v1", "3", "corpus=wikipedia retriever=dpr dataset=opinionqa measure=Precision", 13.63),
        ("v1", "5", "corpus=google-search retriever=contriever measure=MRecall", 76.2),
        ("pir", "3", "retriever=simcse-sup measure=share_support", 58.8),
        ("pir", "5", "system=baseline measure=correlation", -2.4),
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
        (lambda: published_table("42"), r"table of BeRDS v2 '42'.*Known: 1, 2, 3"),
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


EVERY = [*(f"BeRDS {n}" for n in range(1, 22)), *(f"BeRDS Figure {n}" for n in (1, 2, 3)),
         *(f"PIR {n}" for n in range(1, 11)), *(f"PIR Figure {n}" for n in range(1, 7))]  # fmt: skip


def test_the_census_has_every_table_and_figure_once():
    table = census()
    assert table["name"].tolist() == EVERY and len(table) == 40
    assert set(table["status"]) <= set(STATUS)
    assert set(read_shipped("ours")["table"]) == set(table.loc[table["ours"] > 0, "name"])
    assert table.loc[table["ours"] > 0, "status"].eq("rebuilt").all()
    notebooks = {path.stem for path in notebook_folder().glob("*.ipynb")}
    assert set(table["notebook"]) - {""} <= notebooks
    assert (table.loc[table["status"] == "rebuilt", "ours"] > 0).all()


def test_every_number_of_the_earlier_version_is_somebodys():
    with_earlier = [page(name) for name in EVERY if "earlier" in page(name).told or name == "BeRDS 1"]
    tables = {one.told.get("earlier", "1"): one.title for one in with_earlier if "Figure" not in one.name}
    # Table 2 has the same number in both.
    tables["2"] = page("2").title
    figures = {one.told["earlier"] for one in with_earlier if "Figure" in one.name}
    assert sorted(map(int, tables)) == list(range(1, 18)) and figures == {"1", "2", "3"}
    for number in ("1", "2", "3", "4", "5", "6", "7", "8", "17"):
        assert published_table(number, "v1")["title"].iloc[0] == tables[number]


@pytest.mark.parametrize("name", EVERY)
def test_each_page_shows_itself_in_every_form(name):
    found = page(name)
    if len(found.published):
        assert found.title == published_table(name.split()[-1], "pir" if "PIR" in name else "v2")["title"].iloc[0]
    for text in (repr(found), to_markdown(found, ""), found._repr_html_()):
        assert found.title in text and found.status in text
    assert re.search(r"measured|computed|paper says|[Nn]one|Not computed|Seconds|minutes|People's", found.told["hours"])
    assert caption_of(found.to_latex()) == f"{found.heading}. {found.told['differs']}"
    again = pd.read_csv(io.StringIO(found.to_csv()), dtype=str)
    assert len(again) == len(found.published) + len(found.ours)
    if len(found.beside):
        assert set(found.beside["whose"].str.partition(",")[0]) <= {"published", "ours"}
        pyplot.close(found.figure())


@pytest.mark.parametrize("name", ["PIR Figure 4", "BeRDS 3"])
def test_each_column_of_panels_has_numbers_below_its_last_one(name):
    figure = page(name).figure()
    figure.canvas.draw()
    last = {axis.get_subplotspec().colspan.start: axis for axis in figure.axes if axis.get_visible()}
    assert len(last) == 3 and all(any(label.get_text() for label in axis.get_xticklabels()) for axis in last.values())
    pyplot.close(figure)


def test_a_difference_of_shares_is_printed_and_not_drawn_as_a_share():
    found = page("PIR Figure 4")
    figure = found.figure()
    assert "difference" in found.beside.columns
    drawn = [float(x) for axis in figure.axes for line in axis.lines for x in line.get_xdata()]
    shares = found.ours[found.ours["measure"] != "difference"]["value"].astype(float)
    assert sorted(drawn) == sorted(shares)
    pyplot.close(figure)


def code_of_notebook_12():
    """Return the code of its cells but the one for Colab, the parameters and the exercises."""
    cells = read_notebook(notebook_folder() / "12_paper_tables_and_figures.ipynb")["cells"]
    left_out = {"colab", "parameters", "exercise"}
    return [
        "".join(cell["source"])
        for cell in cells
        if cell["cell_type"] == "code" and not left_out & set(cell["metadata"].get("tags", []))
    ]


@pytest.mark.parametrize(
    ("table", "has_numbers", "named"),
    [
        ("BeRDS Figure 1", False, "00_quickstart"),
        ("PIR Figure 3", True, ""),
        ("PIR Figure 6", True, ""),
        ("BeRDS 8", False, "BeRDS Table 8"),
        ("PIR 10", True, ""),
    ],
)
def test_notebook_12_draws_numbers_and_else_says_who_draws(table, has_numbers, named, tmp_path, capsys):
    room = {"table": table, "limit": 0, "output_dir": str(tmp_path)}
    for code in code_of_notebook_12():
        exec(compile(code, "notebook 12", "exec"), room)
    pyplot.close("all")
    said = capsys.readouterr().out
    made = {path.name for path in tmp_path.iterdir()}
    assert ({"scores.png", "scores.csv", "table.csv", "table.tex"} <= made) == has_numbers
    if not has_numbers:
        assert not made and named in said


LINES = [page(name).told.get(field, "") for name in EVERY for field in ("command", "settings", "row")]
TOLD = sorted({one for line in LINES for one in line.split(" && ")} - {""})


@pytest.mark.parametrize("command", TOLD)
def test_the_command_of_each_row_is_one(command):
    if command.endswith(".yaml") and " " not in command:  # a published setting: a grid that could start
        command = f"berds grid run {command}"
    program, *words = command.removeprefix("BERDS_NUMBER_FORMAT=float32 ").split()
    if words[:2] == ["grid", "run"]:
        assert read_grid(notebook_folder().parent / words[2]).runs
    elif program == "python":
        assert (notebook_folder().parent / words[0]).is_file()
    else:
        assert program == "berds"
        leaf, rest = main, list(words)
        while isinstance(leaf, click.Group):
            leaf = leaf.get_command(click.Context(leaf), rest.pop(0))
        leaf.make_context(program, list(rest))  # an error where it does not take these words
        given = {flag: value.split(",") for flag, value in pairwise(words)}
        for system in given.get("-r", []):
            parse_system(system)
        for judge in given.get("-j", []):
            check_judge(judge)
        if words[:2] == ["notebook", "run"]:
            assert (notebook_folder() / f"{words[2]}.ipynb").is_file()


def test_table_4_is_asked_in_the_papers_order_and_shows_what_the_paper_does():
    found = page("BeRDS 4")
    judges = found.told["settings"].split(" -j ")[1].split(",")
    printed = [name for name in dict.fromkeys(found.published["system"]) if "human" not in name]
    words = ["random", "nli", "13b", "70b", "zephyr", "gemma", "mistral", "gpt-4", "gpt-4", "berds"]
    assert len(printed) == len(judges) == len(words)
    assert all(word in judge.lower() for word, judge in zip(words, judges, strict=True))
    for system, judge in zip(printed, judges, strict=True):
        asked = judge.rpartition("@")[2] if "@" in judge else ""
        assert asked == ("published-one-shot" if "one-shot" in system else "published" * ("zero-shot" in system))
    table = found.beside.set_index("system")
    shown = ["percent_positive", "accuracy", "f1"]
    assert table.loc["gpt-4-one-shot", shown].tolist() == ["15.4", "89.1", "67.8"]
    whose = table["whose"].tolist()
    assert whose == sorted(whose, reverse=True)  # published, and below it ours
    assert (table.loc[table["whose"] != "published", shown] != "").all(axis=None)


def test_misprints_come_out_of_the_published_numbers_themselves():
    sizes = published_table("1").query("measure == 'questions_test'").set_index("dataset")["value"]
    assert sizes.pop("all") == 2407 and sizes.sum() == 2406
    shares = published_table("3", "pir").query("dataset == 'perspectrum'").groupby("retriever")["value"].sum()
    assert shares[(shares - 100).abs() > 1].to_dict() == {"tart": 107.5}
    assert not any(round(100 * hits / 750, 2) == 33.67 for hits in range(751))
    at = {"version": "v2", "corpus": "sphere", "retriever": "dpr", "measure": "MRecall"}
    before, after = (published_value("5", system=system, **at) for system in ("default", "query-expansion"))
    assert round(100 * (after / before - 1), 1) == -47.9
    tart = {"corpus": "sphere", "retriever": "tart", "measure": "MRecall", "k": 5}
    kialo = published_value("3", dataset="kialo", **tart)
    fits = [n for n in (750, 774) if any(round(100 * hits / n, 2) == kialo for hits in range(n + 1))]
    assert fits == [750] and kialo == 32.8 and published_value("3", dataset="macro", **tart) == 36.0
    alone = published_table("5", "pir").query("measure == 'correlation'").set_index("system")["value"]
    assert round(alone["pap+"] - alone["baseline"], 1) == 23.3
    assert round(100 * (alone["pap+"] / alone["no-retrieval"] - 1), 1) == 29.8


def scored(letters, measure, k):
    """Return a measure of each list of letters."""
    first = letters.str[:k].str.replace("X", "AB")
    if measure == "MRecall":
        return (first.str.contains("A") & first.str.contains("B")).to_numpy(float)
    return letters.str[:k].str.count("[ABX]").to_numpy() / k


def test_our_numbers_follow_from_the_lists_and_stand_in_the_results():
    ours, lists = read_shipped("ours"), real_numbers("lists").query("asked == 'question'")
    dial, ways = real_numbers("dial"), {"mmr": "+mmr:0.95", "query-expansion": "+expand:rule"}
    mine = ours[ours["table"].isin(["BeRDS 3", "BeRDS 5", "BeRDS 16"]) & (ours["corpus"] == "theperspective")]
    assert len(mine) == 24
    for row in mine.itertuples():
        words = dial if row.table == "BeRDS 5" else lists
        found = scored(words[row.retriever + ways.get(row.system, "")], row.measure, int(row.k))
        low, high = mean_interval(found)
        assert [f"{100 * x:.1f}" for x in (found.mean(), low, high)] == [row.value, row.low, row.high]
        assert row.n == str(len(found))
    for row in ours.query("table == 'BeRDS 18' and measure == 'percent_positive'").itertuples():
        yes = lists[row.retriever].str[:5].str.replace("X", "AB").str.count("[AB]").sum()
        assert int(row.n) == len(lists) * 5 * 2 and f"{100 * yes / int(row.n):.1f}" == row.value
    text = (notebook_folder().parent / "docs" / "results.md").read_text(encoding="utf-8")
    stated = ours[ours["table"].isin(["BeRDS 3", "BeRDS 4", "BeRDS 6", "BeRDS 17", "BeRDS Figure 2", "PIR 9"])]
    for value in stated["value"].astype(float):
        assert re.search(rf"(?<![\d.]){re.escape(f'{value:.1f}'.removeprefix('0').removesuffix('.0'))}", text), value


def test_a_page_has_published_and_ours_by_hand():
    rows = page("table 3").beside.set_index(["whose", "corpus", "retriever"])
    assert rows.loc[("published", "sphere", "bm25"), ["MRecall@5", "Precision@1"]].tolist() == ["24.74", "51.26"]
    ours = rows.loc[("ours, by the site's columns", "theperspective", "minilm"), ["MRecall@5", "n"]]
    assert ours.tolist() == ["85.1 [78.1, 90.1]", "134"]
    assert page("pir figure 2").name == "PIR Figure 2" and page("BeRDS Figure 2").says


def test_a_page_as_text_is_as_narrow_as_the_terminal_but_for_tables_and_commands(monkeypatch):
    for columns, width, name in (("60", 60, "3"), ("", 100, "3"), ("60", 60, "pir figure 2")):  # no terminal: 100
        monkeypatch.setenv("COLUMNS", columns)
        found = page(name)
        text = repr(found).removeprefix(found.heading).removeprefix("\n" + found.beside.to_string(index=False))
        lines = [line for line in text.splitlines() if not line.startswith(tuple(f"{word}: " for word in CODE))]
        assert all(len(line) <= width or " " not in line.strip() for line in lines)
        assert text.split() == "\n".join(f"{word}: {said}" for word, said in found.lines).split()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("table 3", 0, "BeRDS Table 3: base retrievers"),
        ("table PIR 4 --latex", 0, r"\toprule"),
        ("table PIR-Figure-2", 0, "PIR Figure 2: "),
        ("table berds 17 --csv", 0, "whose,low,high,n,judge"),
        ("table", 0, "PIR Figure 6"),
        ("table 42", 1, "unknown table or figure 'BeRDS 42'"),
        ("table pir figure 7", 1, "Did you mean 'PIR Figure"),
        ("table --csv", 2, "name a table"),
        ("table 3 --csv --latex", 2, "not both"),
    ],
)
def test_the_command_prints_or_refuses(words, code, said):
    done = tried(*words.split())
    assert done.exit_code == code and said in done.output


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
    with pytest.raises(InputError, match="BERDS_PROJECT"):
        paths.project_root()


@pytest.mark.usefixtures("installed_elsewhere")
def test_a_checkout_of_somebody_else_is_not_used(checkout, monkeypatch, caplog):
    monkeypatch.chdir(checkout / "notebooks")
    monkeypatch.setattr(paths.os, "getuid", lambda: checkout.stat().st_uid + 1)
    with caplog.at_level("WARNING"):
        assert paths.project_root() is None
    assert "belongs to another user" in caplog.text and "BERDS_PROJECT" in caplog.text


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
