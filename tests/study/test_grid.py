"""Grids: what a file may say, what runs, what is kept, and what the summary says."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import tiny_notebook
import yaml
from shell import tried

import berdslib as bd
from berdslib.data.formats import write_passages
from berdslib.data.records import ranked_run
from berdslib.data.tables import write_jsonl
from berdslib.data.trec import read_trec_run, write_trec_run
from berdslib.data.web import corpus_name
from berdslib.errors import InputError
from berdslib.paths import PACKAGE
from berdslib.retrieval.bm25 import RankBM25
from berdslib.study import grid as grids
from berdslib.study import notebooks
from berdslib.study.grid import collect, finished, grid_table, read_grid, report, run_grid, status
from berdslib.study.notebooks import environment

PARAMETERS = """\
i = 0  # a number
x = 0.5  # another
name = "a"  # a text
ks = [5]  # a list
free = []  # a list of anything
spare = 0  # of no use
output_dir = "out"  # where to
"""
# Each execution leaves a line in log.txt; the scores are worked out from the parameters.
LOG = 'used = name, ks, free\nfrom pathlib import Path\nwith open("log.txt", "a") as log:\n    log.write(f"{i}\\n")\n'
SCORES = 'Path(output_dir, "scores.csv").write_text(f"measure,mean\\nf1,{i * x}\\nf1,{i}\\nloss,{-i}\\n")'


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A checkout of its own, with one tiny notebook."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "berdslib"\n')
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERDS_PROJECT", str(tmp_path))
    write_notebook(tmp_path, LOG + SCORES)
    return tmp_path


def write_notebook(project, *code):
    return tiny_notebook.write_notebook(project / "notebooks", PARAMETERS, *code)


def write_grid(project, text, name="small.yaml"):
    path = project / name
    path.write_text(text)
    return path


def grid_of(project, text):
    return read_grid(write_grid(project, "notebook: 99_tiny\n" + text))


def grid_of_code(project, code, text):
    write_notebook(project, code)
    return grid_of(project, text)


def executed(project):
    """The `i` of each execution, in order of their start."""
    path = project / "log.txt"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


# ---------------------------------------------------------------- the file


def test_every_combination_once_and_typed(project):
    grid = grid_of(
        project,
        "fixed: {x: 1}\ngrid: {i: [1, '2', 2], ks: [[5], [10, 20]]}\nruns: [{i: 1, ks: [5]}, {i: 9, x: 1e-4}]\n",
    )
    got = [run.parameters for run in grid.runs]
    want = [{"x": 1.0, "i": i, "ks": ks} for i in (1, 2) for ks in ([5], [10, 20])]
    assert got == [*want, {"x": 0.0001, "i": 9}]  # 1e-4 is text to YAML, and a number to the notebook
    assert all(type(p["x"]) is float and type(p["i"]) is int for p in got)
    assert len({run.folder for run in grid.runs}) == 5
    write_notebook(project, LOG + SCORES + "\n# changed")
    other = grid_of(project, "runs:\n- {i: 1, ks: [5], x: 1}\n- {x: 1, ks: [5], i: 1}\n- {}\n").runs
    assert len(other) == 2 and other[0].folder not in {run.folder for run in grid.runs}
    assert {run.folder.parent for run in grid.runs} == {project / "papermill_runs"}


def test_a_profile_replaces_settings_and_adds_to_what_is_fixed(project):
    path = write_grid(
        project,
        "notebook: 99_tiny\nfixed: {x: 1, name: b}\ngrid: {i: [1, 2], ks: [[5], [9]]}\nexclude: [{i: 1, ks: [9]}]\n"
        "resources: {gpu: 1}\nprofiles: {laptop: {fixed: {x: 2}, runs: [{i: 3}], resources: {gpu: 2}}, less: {}}\n",
    )
    whole, laptop, less = (read_grid(path, profile) for profile in ("", "laptop", "less"))
    assert [(run.parameters["i"], run.parameters["ks"]) for run in whole.runs] == [(1, [5]), (2, [5]), (2, [9])]
    assert [run.parameters for run in laptop.runs] == [{"x": 2.0, "name": "b", "i": 3}]
    assert (whole.gpus, laptop.gpus) == (1, 2) and less.runs == whole.runs
    assert laptop.summary == project / "papermill_runs" / "small-laptop" / "summary.csv"
    with pytest.raises(InputError, match="'lapto'") as told:
        read_grid(path, "lapto")
    assert told.value.path == path


def test_another_text_in_a_file_or_a_data_set_that_a_parameter_names_is_another_run(project):
    folders = []
    for text in ("one", "two", "one"):
        (project / "mine.jsonl").write_text(text)
        folders.append(grid_of(project, "runs: [{name: 'bm25+cross:mine.jsonl'}, {name: other}]\n").runs)
    (one, same), (two, still), (again, _) = folders
    assert one.folder == again.folder != two.folder and same.folder == still.folder


def test_other_code_or_another_prompt_is_another_version(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "PACKAGE", tmp_path)
    versions = []
    for name in ("measures.py", "README.md", "prompts/a.txt", "measures.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(path.read_text() + "# more\n" if path.exists() else "# new\n")
        versions.append(notebooks.code_version.__wrapped__())
    assert versions[0] == versions[1] and len(set(versions)) == 3  # what is told of it computes nothing


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("\n- 1", None),
        ("\nnotebook: 99_tinny\ngrid: {i: [1]}", "notebook"),
        ("grid: {ii: [1]}", "grid"),
        ("grid: {i: [1, x]}", "grid.i"),
        ("grid: {i: [1]}\nfixed: {i: 1}", "grid.i"),
        ("grid: {i: 1}", "grid.i"),
        ("runs: [{i: 1}, {i: two}]", "runs, entry 2.i"),
        ("grid: {output_dir: [a]}", "grid.output_dir"),
        ("grid: {x: [.nan]}", "grid.x"),
        ("grid: {free: [[2020-01-01]]}", "grid.free"),
        ("fixed: {i: 1}", None),
        ("gird: {i: [1]}", None),
        ("grid: !!python/name:os.system", None),
        ("grid: {spare: [1, 2]}", "grid.spare"),
        ("grid: {i: [1, 2]}\nexclude: [{i: 3}]", "exclude, entry 1"),
        ("grid: {i: [1, 2]}\nexclude: [{i: a}]", "exclude, entry 1.i"),
        ("grid: {i: [1]}\nresources: {gpu: 0.5}", "resources.gpu"),
        ("grid: {i: [1]}\nprofiles: {laptop: {notebook: a}}", None),
    ],
)
def test_what_a_file_cannot_say(project, text, field):
    with pytest.raises(InputError) as told:
        read_grid(write_grid(project, text if text.startswith("\n") else "notebook: 99_tiny\n" + text))
    assert (told.value.path, told.value.field) == (project / "small.yaml", field)
    assert not (project / "papermill_runs").exists()  # nothing is begun


def test_a_name_that_stands_twice_is_told_with_its_line(project):
    with pytest.raises(InputError, match="'i'") as told:
        grid_of(project, "grid:\n  i: [1]\n  i: [2]")
    assert (told.value.path, told.value.line) == (project / "small.yaml", 4)


@pytest.mark.parametrize(
    ("text", "field", "name"),
    [
        ("grid: {data: [[sampel]]}", "data", "'sampel'"),
        ("grid: {data: [[sample], [mine/q.tsv]]}", "data", "mine/q.tsv"),
        ("grid: {corpus: ['', wikipdia]}", "corpus", "'wikipdia'"),
        ("fixed: {split: dev}\ngrid: {data: [[sample], [theperspective]]}", "split", "'theperspective'"),
        ("grid: {retriever: [bm25, mimilm]}", "retriever", "'mimilm'"),
        ("grid: {then: ['', '+mmr:8']}", "retriever", "'bm25+mmr:8'"),
        ("grid: {judge: [laptop, laptopp]}", "judge", "'laptopp'"),
        ("grid: {measures: [[MRecal]]}", "measures", "'MRecal'"),
    ],
)
def test_a_name_that_nothing_has_is_told_before_anything_runs(project, text, field, name):
    shutil.copy(PACKAGE.parent / "papermill_runs" / "system.ipynb", project)
    with pytest.raises(InputError, match=re.escape(name)) as told:
        read_grid(write_grid(project, f"notebook: {project}/system.ipynb\n{text}"))
    assert (told.value.path, told.value.field) == (project / "small.yaml", field)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("grid: {then: ['', '+expand:rulee']}", "retriever"),
        ("grid: {then: ['', '+multi:chatt:m']}", "retriever"),
        ("fixed: {retriever: minilm}\ngrid: {then: ['', '+extract:rulee+pap']}", "retriever"),
        ("grid: {then: ['', '+mmr']}", "retriever"),  # without a weight, and none are tried
        ("fixed: {weights: [0.5]}\ngrid: {then: ['+mrm']}", "then"),
        ("grid: {analyser: ['', whitespce]}", "analyser"),
        ("grid: {judge: [laptop, overlap+similarityy]}", "judge"),
        ("grid: {judge: ['overlap+causal:m@published', 'causal:m@wrong']}", "judge"),
        ("fixed: {split: dev}\ngrid: {data: [['perspectivearg-sample:implict']]}", "data"),
        ("grid: {data: [['perspectivearg-sample:implicit']]}", "split"),  # which is never "all"
        ("grid: {data: [['pir-sample:location'], ['pir-sample:locaton']]}", "data"),
        ("grid: {data: [['sample:words']]}", "data"),
        ("grid: {data: [[wikipedia]], corpus: [sample]}", "data"),  # it has no questions
        ("grid: {corpus: [kialo]}", "corpus"),  # it has no passages
        ("grid: {corpus: ['sample:wordss']}", "corpus"),
        ("grid: {data: [[sample], [kialo]]}", "own corpus"),  # which is what is searched where none is named
        ("grid: {measures: [[MRecall, rKL]]}", "measures.measures"),  # of scenarios only
    ],
)
def test_all_that_a_run_names_is_looked_up(project, text, field):
    shutil.copy(PACKAGE.parent / "papermill_runs" / "system.ipynb", project)
    with pytest.raises(InputError) as told:
        read_grid(write_grid(project, f"notebook: {project}/system.ipynb\n{text}"))
    assert told.value.field == field


def test_ways_and_encoders_are_looked_up_and_what_is_right_is_let_through(project):
    tiny_notebook.write_notebook(
        project / "notebooks",
        'retriever = "bm25"  # a\nways = []  # b\nencoder = "minilm"  # c\njudge = "gold"  # d\n'
        'corpus = "sample"  # e\n',
        "used = retriever, ways, encoder, judge, corpus",
    )
    for text in ("ways: [[expand:rulee]]", "ways: [[mrm]]", "encoder: [bm25]", "encoder: [mimilm]"):
        with pytest.raises(InputError):
            grid_of(project, f"grid: {{{text}}}\n")
    right = "ways: [[mmr, expand:rule+mmr, multi:chat:m]], encoder: [mpnet], judge: ['overlap+similarity:mpnet']"
    assert len(grid_of(project, f"grid: {{{right}, corpus: [sample, 'wikipedia-articles:words']}}\n").runs) == 2


BOMB = "notebook: 99_tiny\nfixed:\n  a: &a [1, 1]\n" + "".join(
    f"  {b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in itertools.pairwise("abcdefghij")
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "notebook: 99_tiny\nfixed: &f {i: 1}\ngrid:\n  <<: *f\n",  # a merge key needs an alias
        "notebook: 99_tiny\nruns: [{i: 1}]\n" + "# filler\n" * 200_000,
        "notebook: 99_tiny\nfixed: {x: " + "1:" * 50_000 + "1}\n",
        "notebook: 99_tiny\nfixed: {" + ", ".join(f"k{i}: 1" for i in range(20_000)) + "}\n",
        "notebook: " + "[1, 2]" * 20_000,
        "notebook: 99_tiny\ngrid: {i: [" + "1, " * 1_000 + "1]}\n",
    ],
    ids=["bomb", "merge", "large", "base 60", "keys", "notebook", "runs"],
)
def test_a_hostile_file_is_refused_at_once_and_briefly(project, text):
    with pytest.raises(InputError) as told:
        read_grid(write_grid(project, text))
    assert told.value.path == project / "small.yaml" and len(str(told.value)) < 1000


def test_a_time_of_day_stays_text(project):
    [run] = read_grid(write_grid(project, "notebook: 99_tiny\nruns: [{name: 1:30}]\n")).runs
    assert run.parameters == {"name": "1:30"}


# ---------------------------------------------------------------- the summary, from folders made by hand


def done(parameters):
    return {"finished": True, "parameters": parameters, "seconds": 1.5, "files": {}, "environment": {"commit": "c0"}}


def finish(run, scores=None):
    run.folder.mkdir(parents=True)
    (run.folder / "run.json").write_text(json.dumps(done(run.parameters)))
    if scores is not None:
        (run.folder / "scores.csv").write_text(scores)


def test_a_run_json_that_is_broken_or_of_another_run_or_whose_files_were_cut_does_not_count(project):
    grid = grid_of(project, "grid: {i: [1, 2, 3, 4, 5, 6]}\n")
    for run, text in zip(grid.runs, ["{", '{"finished": true, "parameters": {"i": 7}}', "[]"], strict=False):
        run.folder.mkdir(parents=True)
        (run.folder / "run.json").write_text(text)
    assert grid_table(grid).empty
    for run, scores in zip(grid.runs[3:5], ["f1\n", "f1\n1\n"], strict=True):
        finish(run, scores)
        (run.folder / "run.json").write_text(json.dumps(done(run.parameters) | {"files": {"scores.csv": 5}}))
    assert [row["state"] for row in status(grid)] == ["broken off"] * 4 + ["finished", "not started"]


def test_a_record_without_its_environment_or_nested_deeply_does_not_count(project):
    grid = read_grid(write_grid(project, "notebook: 99_tiny\nruns: [{i: 1}]\n"))
    run_grid(grid)
    [run] = grid.runs
    whole = (run.folder / "run.json").read_text()
    for record in ({**json.loads(whole), "environment": None}, None):
        text = json.dumps(record) if record else "[" * 100_000
        (run.folder / "run.json").write_text(text)
        assert [row["state"] for row in status(grid)] == ["broken off"] and len(collect(grid)) == 0
    run_grid(grid)
    assert [row["state"] for row in status(grid)] == ["finished"]


def test_a_list_of_a_run_that_is_a_link_or_no_text_is_told(project):
    grid = grid_of(project, "runs: [{i: 1}]\n")
    finish(grid.runs[0])
    place = grid.runs[0].folder / "a.trec"
    place.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError) as told:
        collect(grid)
    assert told.value.path == place
    place.unlink()
    place.symlink_to("/etc/hostname")
    with pytest.raises(InputError) as told:
        collect(grid)
    assert told.value.path == place


TASKS = """\
fixed: {measures: [pRecall]}
grid: {data: [["pir-sample:location"], ["pir-sample:stories"]], then: ["", "+mmr:0.5"]}
runs: [{data: ["pir-sample:location"], then: "+mmr:0.9"}]
"""


def finish_tasks(project, n=5):
    """A grid over two tasks, the first so many of its runs finished; the easy task is location."""
    shutil.copytree(PACKAGE.parent / "papermill_runs", project / "papermill_runs", ignore=shutil.ignore_patterns("*-*"))
    grid = read_grid(write_grid(project, f"notebook: {project}/papermill_runs/system.ipynb\n{TASKS}"))
    for run, mean in list(zip(grid.runs, (0.9, 0.8, 0.1, 0.4, 1.0), strict=True))[:n]:
        system = "bm25" + run.parameters["then"]
        rows = [f"{system},{name},pRecall@5,9,{mean},{mean - 0.05},{mean}" for name in ("pir", "macro")]
        finish(run, "\n".join(["system,dataset,measure,n,mean,low,high", *rows]))
        record = json.loads((run.folder / "run.json").read_text())
        (run.folder / "run.json").write_text(json.dumps(record | {"inputs": {}}))
    return grid


def test_a_report_shows_the_mean_over_tasks(project):
    grid = finish_tasks(project)
    of_one_issue = grid.runs[-1].folder / "scores.csv"
    pd.read_csv(of_one_issue).assign(low=np.nan, high=np.nan).to_csv(of_one_issue, index=False)
    for run in grid.runs:  # one system finds everything that the others miss
        scores = [float("0.9" in run.parameters["then"])] * 12
        asked = pd.DataFrame(
            {"qid": [f"q{i}" for i in range(12)], "dataset": "pir", "issue": None, "pRecall@5": scores}
        )
        asked.to_csv(run.folder / "questions.csv", index=False)
    folder = report(grid).folder
    shown = pd.read_csv(folder / "corpus_by_system.csv", index_col=0)
    assert shown.iloc[:, -1].round().fillna(-1).to_dict() == {"bm25": 50, "bm25+mmr:0.5": 60, "bm25+mmr:0.9": -1}
    letters = pd.read_csv(folder / "letters.csv", dtype=str)
    assert letters.shape == (3, 4) and not letters.stack().str.contains("nan").any()
    location = letters.set_index(letters.columns[0]).iloc[:, 0].str.split().str[-1]
    assert location["bm25"] == location["bm25+mmr:0.5"] != location["bm25+mmr:0.9"]


def test_a_report_of_other_columns_shows_these(project):
    shutil.copytree(PACKAGE.parent / "papermill_runs", project / "papermill_runs", ignore=shutil.ignore_patterns("*-*"))
    grid = grid_of(project, "grid: {x: [0.1, 0.3]}\n")
    with pytest.raises(InputError):
        report(grid)  # nothing is finished
    for run, loss in zip(grid.runs, (0.5, 0.7), strict=True):
        finish(run, f"step,judge,loss,dev_f1\n1,a,{loss},0.5\n2,a,{loss - 0.2},0.5\n1,b,,0.75\n")
    folder = report(grid).folder
    shown = pd.read_csv(folder / "table.csv")
    assert shown[["x", "judge", "rows"]].values.tolist() == [[0.1, "a", 2], [0.1, "b", 1], [0.3, "a", 2], [0.3, "b", 1]]
    assert shown["loss"].round(6).fillna(-1).tolist() == [0.4, -1, 0.6, -1]
    assert shown["dev_f1"].tolist() == [0.5, 0.75] * 2 and "step" not in shown
    assert (folder / "columns.png").exists()


def test_the_table_has_defaults_and_where_its_rows_come_from(project):
    grid = grid_of(project, "runs: [{i: 1, name: b}, {i: 2, x: 2, name: c}]\n")
    finish(grid.runs[0], "i,name,mean,note\n1,b,0.25,a\n")
    finish(grid.runs[1], "i,name,mean,note\n7,c,0.5,3\n")
    table = collect(grid)
    assert table["x"].tolist() == [0.5, 2.0] and table["run_commit"].tolist() == ["c0", "c0"]
    assert table["scores_i"].tolist() == [1, 7] and "scores_name" not in table
    folder = project / "papermill_runs" / "small"
    again = pd.read_csv(folder / "summary.csv")
    assert again["mean"].tolist() == [0.25, 0.5] and again["note"].tolist() == ["a", "3"]
    assert again.columns.tolist() == table.columns.tolist()


def test_a_collected_run_says_where_it_comes_from_and_reads_as_before(project):
    grid = grid_of(project, "runs: [{i: 1}]\n")
    finish(grid.runs[0])
    made = ranked_run({"#q": ["d1", "d2"]})
    write_trec_run(grid.runs[0].folder / "bm25.trec", made)
    about = done(grid.runs[0].parameters) | {"berdslib": "1", "code": "c", "inputs": {"sample": "0a"}}
    about["environment"] = environment()
    (grid.runs[0].folder / "run.json").write_text(json.dumps(about))
    collect(grid)
    beside, path = sorted((project / "papermill_runs" / "small" / "runs").iterdir())
    assert path.name == f"{grid.runs[0].folder.name}-bm25.trec"
    assert path.read_text() == (grid.runs[0].folder / "bm25.trec").read_text()  # trec_eval stops at a comment
    assert beside.name == f"{grid.runs[0].folder.name}-bm25.ir_metadata.yaml"
    told = yaml.safe_load(beside.read_text())
    assert told["data"]["checksums"] == {"sample": "0a"} and told["method"]["parameters"] == {"i": 1}
    assert f"pandas=={pd.__version__}" in told["platform"]["software"]["libraries"]["python"]
    parts = {"actor", "platform", "research goal", "implementation", "method", "data"}
    assert parts < told.keys() and told["actor"] == told["research goal"] == {}


def test_two_files_of_one_name_keep_their_own_results(project):
    grids = []
    for folder, i in (("a", 1), ("b", 2)):
        (project / folder).mkdir()
        grids.append(read_grid(write_grid(project / folder, f"notebook: 99_tiny\nruns: [{{i: {i}}}]\n")))
        finish(grids[-1].runs[0], f"mean\n0.{i}\n")
        collect(grids[-1])
    assert [pd.read_csv(grid.summary)["mean"].tolist() for grid in grids] == [[0.1], [0.2]]
    assert grids[0].folder.name == "small" and grids[1].folder.name.startswith("small-")
    shutil.rmtree(project / "a")  # a file that was moved or deleted no longer holds the name
    assert grids[1].folder.name == "small"


# ---------------------------------------------------------------- running


@pytest.mark.slow
def test_two_workers_run_all_once_and_a_second_call_nothing(project):
    path = write_grid(
        project,
        "notebook: 99_tiny\nfixed: {x: 3}\ngrid: {i: [1, 2]}\nruns: [{i: 2}]\n",
    )
    before = json.loads(tried("grid", "status", path, "--json").stdout)
    assert [row["state"] for row in before] == ["not started"] * 2

    done = json.loads(tried("grid", "run", path, "--workers", "2", "--json").stdout)
    assert (done["grid"], done["runs"], done["finished"], done["failures"]) == ("small", 2, 2, {})
    assert sorted(executed(project)) == [1, 2]
    table = pd.read_csv(project / "papermill_runs" / "small" / "summary.csv")
    want = [[3.0, i, measure, mean] for i in (1, 2) for measure, mean in (("f1", 3.0 * i), ("f1", i), ("loss", -i))]
    assert table[["x", "i", "measure", "mean"]].to_numpy().tolist() == want

    again = tried("grid", "run", path)
    assert again.exit_code == 0 and "2 of 2 runs finished, 0 failed" in again.stderr
    assert sorted(executed(project)) == [1, 2]
    assert all(row["state"] == "finished" and row["seconds"] > 0 for row in status(read_grid(path)))
    printed = tried("grid", "status", path).stdout
    assert "finished" in printed and " i" in printed.splitlines()[0] and " x" not in printed.splitlines()[0]

    # Another grid that asks for one of these runs finds it there.
    other = write_grid(project, "notebook: 99_tiny\nruns: [{x: 3, i: 1}]\n", "other.yaml")
    assert json.loads(tried("grid", "run", other, "--json").stdout)["finished"] == 1
    assert sorted(executed(project)) == [1, 2]


@pytest.mark.slow
def test_a_failure_stops_nobody_is_reported_and_tried_again(project):
    write_notebook(project, LOG + 'assert i != 1 or Path("mended").exists(), "one is odd"\n' + SCORES)
    path = write_grid(project, "notebook: 99_tiny\ngrid: {i: [1, 2]}\n")
    assert tried("grid", "run", path, "--stop-on-error").exit_code == 1 and executed(project) == [1]
    assert [row["state"] for row in status(read_grid(path))] == ["failed", "not started"]
    result = tried("grid", "run", path, "--json")
    said = json.loads(result.stdout)
    assert result.exit_code == 1 and said["finished"] == 1
    ((run, problem),) = said["failures"].items()
    assert "AssertionError: one is odd" in problem and f"{run}: 99_tiny failed in cell" in result.stderr
    assert executed(project) == [1, 1, 2]
    assert [row["state"] for row in status(read_grid(path))] == ["failed", "finished"]
    assert grid_table(read_grid(path))["i"].unique().tolist() == [2]
    (project / "mended").touch()
    assert tried("grid", "run", path).exit_code == 0
    assert executed(project) == [1, 1, 2, 1]


@pytest.mark.slow
def test_what_is_kept_of_a_run(project):
    grid = grid_of(project, "grid: {i: [1]}\n")
    assert run_grid(grid) == {}
    [run] = grid.runs
    record = json.loads((run.folder / "run.json").read_text())
    assert record["inputs"] == {} and record["parameters"] == {"i": 1} and record["seconds"] > 0
    assert record["files"] == {"scores.csv": (run.folder / "scores.csv").stat().st_size}


@pytest.mark.slow
def test_a_run_is_of_the_notebook_as_planned_and_not_of_data_that_change_meanwhile(project):
    (project / "mine.jsonl").write_text("one")
    change = 'if i == 2:\n    Path("mine.jsonl").write_text("two")\n'
    grid = grid_of_code(project, LOG + change + SCORES, "fixed: {name: mine.jsonl}\ngrid: {i: [1, 2, 3]}\n")
    write_notebook(project, "1 / 0")  # after it was planned
    failures = run_grid(grid)
    assert [row["state"] for row in status(grid)] == ["finished", "failed", "broken off"]
    changed, planned = (failures[run.folder.name] for run in grid.runs[1:])
    assert (
        "99_tiny: mine.jsonl changed while it was run" in changed and "not as it was when this was planned" in planned
    )


@pytest.fixture
def held(project):
    """A call in a process of its own that is at the second of three runs; the kernel's id stands in a file "pid"."""
    hold = 'import os, time\nif i == 2 and not Path("go").exists():\n    Path("pid").write_text(str(os.getpid()))\n'
    hold += '    while not Path("go").exists():\n        time.sleep(0.05)\n'
    write_notebook(project, LOG + hold + SCORES)
    path, pid = write_grid(project, "notebook: 99_tiny\ngrid: {i: [1, 2, 3]}\n"), project / "pid"
    command = [sys.executable, "-m", "berdslib.cli", "grid", "run", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until(lambda: pid.exists() and pid.read_text())
    yield process, path
    process.kill()


def assert_it_ended_in_the_second(project, path):
    # Nobody goes on in the background: the kernel of the run at hand ends, and the one after it never starts.
    until(lambda: not alive(int((project / "pid").read_text())))
    assert executed(project) == [1, 2]
    assert [row["state"] for row in status(read_grid(path))] == ["finished", "broken off", "not started"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_second_call_goes_on_after_sigkill(project, held):
    process, path = held
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert_it_ended_in_the_second(project, path)
    (project / "go").touch()
    assert run_grid(read_grid(path)) == {}
    assert executed(project) == [1, 2, 2, 3]
    assert all(row["state"] == "finished" for row in status(read_grid(path)))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
def test_two_interrupts_end_it_and_what_is_finished_stays(project, held):
    process, path = held
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert "1 of 3" in process.communicate(timeout=10)[1].splitlines()[-1] and process.returncode == 130
    assert_it_ended_in_the_second(project, path)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
def test_one_interrupt_lets_a_run_end_and_starts_no_other(project, held):
    process, path = held
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    (project / "go").touch()
    assert "2 of 3" in process.communicate(timeout=60)[1].splitlines()[-1] and process.returncode == 130
    assert executed(project) == [1, 2]
    assert [row["state"] for row in status(read_grid(path))] == ["finished", "finished", "not started"]


@pytest.mark.slow
def test_two_calls_at_once_share_the_work(project):
    # A run ends when both calls are at work, or never will be; a kernel's parent is the worker of a call.
    hold = 'import os, time\nlog = Path("workers.txt")\nuntil = time.monotonic() + 15\n'
    hold += 'with log.open("a") as file:\n    file.write(f"{os.getppid()}\\n")\n'
    hold += "while len(set(log.read_text().split())) < 2 and time.monotonic() < until:\n    time.sleep(0.05)\n"
    write_notebook(project, LOG + hold + SCORES)
    path = write_grid(project, "notebook: 99_tiny\ngrid: {i: [1, 2]}\n")
    command = [sys.executable, "-m", "berdslib.cli", "grid", "run", str(path)]
    assert [process.wait(120) for process in [subprocess.Popen(command) for _ in "ab"]] == [0, 0]
    assert sorted(executed(project)) == [1, 2]
    assert len(set((project / "workers.txt").read_text().split())) == 2


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended may still be listed until somebody asks how it ended.
    stat = f"/proc/{pid}/stat"
    return not (os.path.exists(stat) and open(stat).read().rpartition(")")[2].split()[0] == "Z")


# ---------------------------------------------------------------- a cluster


def test_a_scheduler_that_is_not_there_or_without_dask(project, monkeypatch):
    path = write_grid(project, "notebook: 99_tiny\ngrid: {i: [1]}\n")
    with pytest.raises(InputError, match="'nonsense'") as told:
        run_grid(read_grid(path), scheduler="nonsense")
    assert told.value.field == "scheduler"
    monkeypatch.setitem(sys.modules, "distributed", None)  # import raises ImportError
    result = tried("grid", "run", path, "--scheduler", "tcp://127.0.0.1:1")
    assert result.exit_code == 1 and "pip install 'berdslib[cluster]'" in result.stderr


@pytest.mark.slow
def test_on_a_dask_cluster(project):
    distributed = pytest.importorskip("distributed")
    write_notebook(project, LOG + 'assert i != 3, "three"\n' + SCORES)
    grid = grid_of(project, "grid: {i: [1, 2, 3]}\n")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        failures = run_grid(grid, scheduler=cluster.scheduler_address)
        again = run_grid(grid, scheduler=cluster.scheduler_address)
    assert list(failures) == list(again) == [grid.runs[2].folder.name]
    assert "AssertionError: three" in failures[grid.runs[2].folder.name]
    assert sorted(executed(project)) == [1, 2, 3, 3]
    assert [row["state"] for row in status(grid)] == ["finished", "finished", "failed"]
    assert grid_table(grid)["i"].unique().tolist() == [1, 2]


# ---------------------------------------------------------------- the shipped one


SHIPPED = PACKAGE.parent / "papermill_runs"


def test_shipped_grids_are_valid():
    shipped = sorted((SHIPPED / "grids").glob("*.yaml"))
    assert "smoke" in [path.stem for path in shipped]
    for path in shipped:
        for profile in ("", *yaml.safe_load(path.read_text()).get("profiles", ())):
            assert len(read_grid(path, profile).runs) > 1, (path, profile)


@pytest.mark.parametrize(("name", "table"), [("berds_retrievers", "3"), ("berds_diversity", "5")])
def test_grids_of_tables_have_each_row_that_is_printed(name, table):
    rows = pd.read_csv(PACKAGE.parent / "data" / "published" / "berds_v2.csv", dtype=str)
    printed = rows[(rows["table"] == table) & rows["retriever"].notna()]
    ours = {"bm25-lucene": "bm25", "tart-full": "tart"}
    runs = [run.parameters for run in read_grid(SHIPPED / "grids" / f"{name}.yaml").runs]
    planned = {(one["corpus"], ours.get(one["retriever"], one["retriever"])) for one in runs}
    assert planned == set(zip(printed["corpus"], printed["retriever"], strict=True))


@pytest.fixture
def pages(project, monkeypatch):
    """Passages for each of two questions of the sample, as `berds data web` leaves them, and as a data set's name."""
    sample = bd.load("sample", split="all")
    asked = [q for q in sample.questions if len(q.perspectives) == 2][:2]
    folder = project / "data" / "google-search"
    folder.mkdir(parents=True)
    corpora = {}
    for start, question in enumerate(asked):
        judged = set(sample.gold.loc[sample.gold["qid"] == question.qid, "docno"])
        # A part of what is judged, and what would be found for the other question, too.
        corpora[question.qid] = [p for p in sample.passages if p.docno in judged][start::2] + sample.passages[::20]
        write_passages(folder / corpus_name(question.qid), corpora[question.qid])
    (folder / "corpora.json").write_text(json.dumps({qid: corpus_name(qid) for qid in corpora}))
    (folder / "pages.csv").write_text("qid\n")
    write_jsonl(
        project / "asked.jsonl", ({"qid": q.qid, "question": q.text, "perspectives": q.perspectives} for q in asked)
    )
    monkeypatch.setenv("BERDS_DATA", str(project / "data"))
    return asked, corpora


@pytest.mark.slow
def test_a_run_over_pages_searches_each_question_in_its_own(project, pages):
    asked, corpora = pages
    fixed = "fixed: {data: [asked.jsonl], corpus: google-search, judge: overlap}"
    text = f"{fixed}\ngrid: {{retriever: [bm25-lucene]}}\n"
    grid = read_grid(write_grid(project, f"notebook: {SHIPPED}/system.ipynb\n{text}"))
    assert run_grid(grid) == {}
    for run in grid.runs:
        name = run.parameters["retriever"]
        listed = read_trec_run(run.folder / f"{name}.trec").groupby("qid")["docno"].agg(list).to_dict()
        for question in asked:
            mine = listed[question.qid]
            alone = bd.search(name, bd.Collection("alone", [question], corpora[question.qid]), k=len(mine))
            assert len(mine) >= 5 and mine == alone["docno"].tolist()
        scores = pd.read_csv(run.folder / "scores.csv")
        assert set(scores["n"]) == {2} and set(scores["measure"]) == {"MRecall@5", "Precision@5"}


@pytest.mark.slow
def test_a_run_of_sides_over_pages_and_its_report(project, pages):
    asked, corpora = pages
    (project / "told.tsv").write_text("qid\tperspective\tstance\n" + "".join(
        f"{q.qid}\t{text}\t{stance}\n" for q in asked for text, stance in zip(q.perspectives, q.stances, strict=True)
    ))  # fmt: skip
    fixed = "fixed: {data: [asked.jsonl], corpus: google-search, judge: overlap, stances: told.tsv}"
    text = f"{fixed}\ngrid: {{retriever: [bm25], k: [3]}}\n"
    (project / "papermill_runs").mkdir()
    shutil.copy(SHIPPED / "report_columns.ipynb", project / "papermill_runs")
    grid = read_grid(write_grid(project, f"notebook: {SHIPPED}/sides.ipynb\n{text}"))
    assert run_grid(grid) == {}
    for run in grid.runs:
        # Each question in a collection of its own, which has no other corpus.
        each = [bd.Collection("alone", [question], corpora[question.qid]) for question in asked]
        alone = [bd.sides("bm25", one, run.parameters["k"], judge="overlap") for one in each]
        counts = pd.concat([one.listed for one in alone]).groupby("asked")[["supporting", "opposing"]].sum()
        scores = pd.read_csv(run.folder / "scores.csv").set_index("asked")
        for way, (p, n) in counts.iterrows():
            assert tuple(scores.loc[way, ["supporting", "opposing"]]) == (p, n)
            assert scores.loc[way, "leaning"] == pytest.approx((p - n) / (p + n))
            both = sum((one.shares.set_index(["asked", "side"])["count"][way, "both"]) for one in alone)
            assert scores.loc[way, "both"] == pytest.approx(both / 2)
        assert scores["follows"].unique() == pytest.approx(
            [scores.loc["supporting", "leaning"] - scores.loc["opposing", "leaning"]]
        )
    shown = pd.read_csv(report(grid).folder / "table.csv")
    assert shown["leaning"].tolist() == pytest.approx(scores["leaning"].tolist())


@pytest.mark.slow
def test_a_run_of_one_system_keeps_its_experiment_beside_its_notebook(project):
    shutil.copy(PACKAGE.parent / "papermill_runs" / "system.ipynb", project)
    text = "fixed: {retriever: rank-bm25}\nruns: [{analyser: whitespace}, {analyser: english}]\n"
    grid = read_grid(write_grid(project, f"notebook: {project}/system.ipynb\n{text}"))
    assert run_grid(grid) == {}
    sample = bd.load("sample", split="all")
    for run in grid.runs:
        own = RankBM25(sample.passages, analyser=run.parameters["analyser"])
        want = bd.experiment({"own": own}, sample, ["MRecall@5", "Precision@5"], judge="gold")
        assert pd.read_csv(run.folder / "scores.csv")["mean"].tolist() == pytest.approx(want.table["mean"].tolist())
        assert read_trec_run(run.folder / "rank-bm25.trec")["docno"].tolist() == want.runs["own"]["docno"].tolist()
        assert {"system.ipynb", "questions.csv", "verdicts.tsv"} <= {path.name for path in run.folder.iterdir()}
        (run.folder / "run.json").unlink()  # broken off at the very end: it runs again in the same folder
    assert run_grid(grid) == {} and all(finished(run) for run in grid.runs)
    endings = sorted(path.name.partition(".")[2] for path in (grid.summary.parent / "runs").iterdir())
    assert endings == ["ir_metadata.yaml"] * 2 + ["trec"] * 2


@pytest.mark.slow
def test_a_weight_is_chosen_on_the_development_questions_and_scored_on_the_others(project):
    shutil.copy(PACKAGE.parent / "papermill_runs" / "system.ipynb", project)
    weights = [0.1, 0.9]
    text = f"fixed: {{split: test, weights: {weights}}}\ngrid: {{retriever: [bm25], then: ['', '+mmr']}}\n"
    grid = read_grid(write_grid(project, f"notebook: {project}/system.ipynb\n{text}"))
    assert run_grid(grid) == {}
    dev, test = (bd.load("sample", split=split) for split in ("dev", "test"))
    for run in grid.runs:
        retriever, then = run.parameters["retriever"], run.parameters["then"]
        chosen = retriever
        assert (run.folder / "tried.csv").exists() == bool(then)
        if then:
            systems = [f"{retriever}{then}:{weight}" for weight in weights]
            tables = [bd.experiment(system, dev, "MRecall@5").table.set_index("dataset") for system in systems]
            means = [table["mean"]["macro"] for table in tables]
            assert pd.read_csv(run.folder / "tried.csv")["mean"].tolist() == pytest.approx(means)
            chosen = systems[means.index(max(means))]
        want = bd.experiment(chosen, test, ["MRecall@5", "Precision@5"]).table
        found = pd.read_csv(run.folder / "scores.csv")
        assert found["system"].unique().tolist() == [chosen]
        assert found["mean"].tolist() == pytest.approx(want["mean"].tolist())


def test_a_grid_that_came_with_the_package_is_found_and_one_of_the_user_goes_before_it(tmp_path, monkeypatch):
    brought = tmp_path / "berdslib" / "_shipped" / "grids" / "lists.yaml"
    brought.parent.mkdir(parents=True)
    brought.touch()
    monkeypatch.setattr(grids, "PACKAGE", tmp_path / "berdslib")
    asked = tmp_path / "papermill_runs" / "grids" / "lists.yaml"
    assert grids.find_grid(asked) == brought
    assert grids.find_grid(asked.with_name("other.yaml")) == asked.with_name("other.yaml")
    asked.parent.mkdir(parents=True)
    asked.touch()
    assert grids.find_grid(asked) == asked


def test_a_run_replaces_neither_its_notebook_nor_what_is_not_a_run(project):
    path = next((project / "notebooks").glob("*.ipynb"))
    before = path.read_bytes()
    with pytest.raises(InputError) as told:
        notebooks.run_notebook(str(path), output=path.parent)
    assert told.value.path == path.parent and path.read_bytes() == before
    for name in ("run.json", "failed.json"):
        (project / name).write_text('{"my": "notes"}')
        with pytest.raises(InputError) as told:
            notebooks.run_notebook(str(path), output=project)
        assert told.value.path == project / name and (project / name).read_text() == '{"my": "notes"}'
        (project / name).unlink()


def test_a_kernel_runs_no_module_of_the_current_folder(project):
    for name in ("pandas", "ipykernel", "ipykernel_launcher"):
        (project / f"{name}.py").write_text("raise AssertionError")
    write_notebook(project, "import pandas\nassert pandas.DataFrame")
    assert notebooks.run_notebook("99_tiny", output=project / "done").record["finished"]
