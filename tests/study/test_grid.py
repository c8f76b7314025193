"""Grids: what a file may say, what runs, what is kept, and what the summary says."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest
from shell import tried

from berdslib.errors import BerdsError, InputError
from berdslib.study import notebooks
from berdslib.study.grid import best_run, grid_table, read_grid, run_grid, status

PARAMETERS = """\
i = 0  # a number
x = 0.5  # another
name = "a"  # a text
ks = [5]  # a list
free = []  # a list of anything
output_dir = "out"  # where to
"""
# Each execution leaves a line in log.txt; the scores are worked out from the parameters.
LOG = 'from pathlib import Path\nwith open("log.txt", "a") as log:\n    log.write(f"{i}\\n")\n'
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
    def cell(number, text):
        tags = [] if number else ["parameters"]
        return {
            "cell_type": "code", "source": text, "metadata": {"tags": tags}, "outputs": [],
            "execution_count": None, "id": f"cell{number}",
        }  # fmt: skip

    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [cell(number, text) for number, text in enumerate((PARAMETERS, *code))]
    path = project / "notebooks" / "99_tiny.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))
    return path


def write_grid(project, text, name="small.yaml"):
    path = project / name
    path.write_text(text)
    return path


def grid_of(project, text):
    return read_grid(write_grid(project, "notebook: 99_tiny\n" + text))


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
    ("text", "words"),
    [
        ("\n- 1", "a mapping with the fields notebook, fixed, grid, runs, best was expected"),
        ("\nnotebook: 99_tinny\ngrid: {i: [1]}", r"\[notebook\]: unknown notebook .*Did you mean '99_tiny'"),
        ("grid: {ii: [1]}", r"small.yaml \[grid\]: unknown parameter.*Did you mean 'i'"),
        ("grid: {i: [1, x]}", r"small.yaml \[grid.i\]: must be int \(default 0\), not 'x'"),
        ("grid: {i: 1}", r"\[grid.i\]: a list such as \[1, 2\] was expected, not 1"),
        ("grid: {i: [1]}\nfixed: {i: 1}", r"\[grid.i\]: is also in `fixed`"),
        ("runs: [{i: 1}, {i: two}]", r"\[runs, entry 2.i\]: must be int"),
        ("grid: {output_dir: [a]}", r"\[grid.output_dir\]: every run has its own folder"),
        ("grid: {x: [.nan]}", r"\[grid.x\]: must be float \(default 0.5\), not nan"),
        ("grid: {free: [[2020-01-01]]}", r"\[grid.free\]: only text.*date"),
        ("fixed: {i: 1}", "`grid` .* or `runs` .* is needed"),
        ("gird: {i: [1]}", "unknown field 'gird'. Did you mean 'grid'"),
        ("grid: {i: [1]}\nbest: {where: {a: 1}}", r"\[best.column\]: the name of a column"),
        ("grid:\n  i: [1]\n  i: [2]", r"small.yaml:4: .*'i' occurs twice here"),
        ("grid: !!python/name:os.system", "not usable YAML: could not determine a constructor"),
        (f"grid: {{i: {list(range(60))}, x: {list(range(60))}}}", "3600 runs are asked for; .* at most 1000"),
    ],
)
def test_what_a_file_cannot_say(project, text, words):
    with pytest.raises(InputError, match=words):
        read_grid(write_grid(project, text if text.startswith("\n") else "notebook: 99_tiny\n" + text))
    with pytest.raises(InputError, match="the name of a grid file"):
        read_grid(write_grid(project, text, "...yaml"))
    assert not (project / "papermill_runs").exists()  # nothing is begun


# ---------------------------------------------------------------- the summary, from folders made by hand


def finish(run, scores=None):
    run.folder.mkdir(parents=True)
    (run.folder / "run.json").write_text(json.dumps({"finished": True, "parameters": run.parameters, "seconds": 1.5}))
    if scores is not None:
        (run.folder / "scores.csv").write_text(scores)


def test_a_run_json_that_is_broken_or_of_another_run_does_not_count(project):
    grid = grid_of(project, "grid: {i: [1, 2, 3, 4]}\n")
    for run, text in zip(grid.runs, ["{", '{"finished": true, "parameters": {"i": 7}}', "[]"], strict=False):
        run.folder.mkdir(parents=True)
        (run.folder / "run.json").write_text(text)
    assert [row["state"] for row in status(grid)] == ["unfinished"] * 3 + ["not started"]
    assert grid_table(grid).empty


@pytest.mark.parametrize(
    ("best", "i", "value", "compared"),
    [
        ("{column: mean}", 2, 4.0, 3),  # means 3, (6 + 2) / 2 = 4, 1
        ("{column: mean, largest: false}", 3, 1.0, 3),
        ("{column: mean, where: {measure: f1}}", 2, 6.0, 2),
        ("{column: mean, where: {measure: f1, k: 5}, largest: false}", 1, 5.0, 1),
        ("{column: mean, where: {ks: [5], k: 5}}", 1, 3.0, 1),
    ],
)
def test_best_is_chosen_by_the_mean_over_the_rows_named(project, best, i, value, compared):
    grid = grid_of(project, f"grid: {{i: [1, 2, 3]}}\nfixed: {{ks: [5]}}\nbest: {best}\n")
    finish(grid.runs[0], "measure,mean,k\nf1,5,5\nloss,1,5\n")
    finish(grid.runs[1], "measure,mean,k\nf1,6,10\nloss,2,10\n")
    finish(grid.runs[2], "measure,mean\nloss,1\n")  # without k: in the summary, 5 becomes 5.0
    got = best_run(grid, grid_table(grid))
    assert (got["parameters"], got["value"], got["compared"]) == ({"ks": [5], "i": i}, value, compared)
    assert got["run"] == grid.runs[i - 1].folder.name


# ---------------------------------------------------------------- running


@pytest.mark.slow
def test_two_workers_run_all_once_and_a_second_call_nothing(project):
    path = write_grid(
        project, "notebook: 99_tiny\nfixed: {x: 3}\ngrid: {i: [1, 2]}\nruns: [{i: 2}]\nbest: {column: mean}\n"
    )
    before = json.loads(tried("notebook", "grid", path, "--status", "--json").stdout)
    assert [row["state"] for row in before] == ["not started"] * 2

    done = json.loads(tried("notebook", "grid", path, "--workers", "2", "--json").stdout)
    assert (done["grid"], done["runs"], done["finished"], done["failures"]) == ("small", 2, 2, {})
    assert sorted(executed(project)) == [1, 2]
    # i = 2, x = 3: the mean of 2 * 3, 2 and -2
    assert done["best"]["parameters"] == {"x": 3.0, "i": 2} and done["best"]["value"] == pytest.approx(2)
    table = pd.read_csv(project / "papermill_runs" / "small" / "summary.csv")
    assert table[["x", "i", "measure", "mean"]].to_numpy().tolist() == [
        [3.0, 1, "f1", 3.0], [3.0, 1, "f1", 1.0], [3.0, 1, "loss", -1.0],
        [3.0, 2, "f1", 6.0], [3.0, 2, "f1", 2.0], [3.0, 2, "loss", -2.0],
    ]  # fmt: skip

    again = tried("notebook", "grid", path)
    assert again.exit_code == 0 and "2 of 2 runs finished, 0 failed" in again.stderr
    assert "best of 2:" in again.stdout
    assert sorted(executed(project)) == [1, 2]
    after = json.loads(tried("notebook", "grid", path, "--status", "--json").stdout)
    assert all(row["state"] == "finished" and row["seconds"] > 0 for row in after)
    printed = tried("notebook", "grid", path, "--status").stdout
    assert "finished" in printed and " i" in printed.splitlines()[0] and " x" not in printed.splitlines()[0]

    # Another grid that asks for one of these runs finds it there.
    other = write_grid(project, "notebook: 99_tiny\nruns: [{x: 3, i: 1}]\n", "other.yaml")
    assert json.loads(tried("notebook", "grid", other, "--json").stdout)["finished"] == 1
    assert sorted(executed(project)) == [1, 2]


@pytest.mark.slow
def test_a_failure_stops_nobody_is_reported_and_tried_again(project):
    write_notebook(project, LOG + 'assert i != 1 or Path("mended").exists(), "one is odd"\n' + SCORES)
    path = write_grid(project, "notebook: 99_tiny\ngrid: {i: [1, 2]}\n")
    assert tried("notebook", "grid", path, "--stop-on-error").exit_code == 1 and executed(project) == [1]
    assert [row["state"] for row in status(read_grid(path))] == ["unfinished", "not started"]
    result = tried("notebook", "grid", path, "--json")
    said = json.loads(result.stdout)
    assert result.exit_code == 1 and said["finished"] == 1
    ((run, problem),) = said["failures"].items()
    assert "AssertionError: one is odd" in problem and f"{run}: 99_tiny failed in cell" in result.stderr
    assert "%|" not in result.stderr  # no bar where there is no terminal
    assert executed(project) == [1, 1, 2]
    assert [row["state"] for row in status(read_grid(path))] == ["unfinished", "finished"]
    assert grid_table(read_grid(path))["i"].unique().tolist() == [2]
    (project / "mended").touch()
    assert tried("notebook", "grid", path).exit_code == 0
    assert executed(project) == [1, 1, 2, 1]


@pytest.fixture
def held(project):
    """A call in a process of its own that is at the second of three runs; the kernel's id stands in a file "pid"."""
    hold = 'import os, time\nif i == 2 and not Path("go").exists():\n    Path("pid").write_text(str(os.getpid()))\n'
    write_notebook(project, LOG + hold + "    time.sleep(120)\n" + SCORES)
    path, pid = write_grid(project, "notebook: 99_tiny\ngrid: {i: [1, 2, 3]}\n"), project / "pid"
    process = subprocess.Popen([sys.executable, "-m", "berdslib.cli", "notebook", "grid", str(path)])
    until(lambda: pid.exists() and pid.read_text())
    yield process, path
    process.kill()


def assert_it_ended_in_the_second(project, path):
    # Nobody goes on in the background: the kernel of the run at hand ends, and the one after it never starts.
    until(lambda: not alive(int((project / "pid").read_text())))
    assert executed(project) == [1, 2]
    assert [row["state"] for row in status(read_grid(path))] == ["finished", "unfinished", "not started"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_second_call_goes_on_after_sigkill(project, held):
    process, path = held
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert_it_ended_in_the_second(project, path)
    (project / "go").touch()
    assert run_grid(read_grid(path), progress=False) == {}
    assert executed(project) == [1, 2, 2, 3]
    assert all(row["state"] == "finished" for row in status(read_grid(path)))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
def test_two_interrupts_end_it_and_what_is_finished_stays(project, held):
    process, path = held
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) != 0
    assert_it_ended_in_the_second(project, path)


@pytest.mark.slow
def test_two_calls_at_once_share_the_work(project):
    # A run ends when both calls are at work, or never will be; a kernel's parent is the worker of a call.
    hold = 'import os, time\nlog = Path("workers.txt")\nuntil = time.monotonic() + 15\n'
    hold += 'with log.open("a") as file:\n    file.write(f"{os.getppid()}\\n")\n'
    hold += "while len(set(log.read_text().split())) < 2 and time.monotonic() < until:\n    time.sleep(0.05)\n"
    write_notebook(project, LOG + hold + SCORES)
    path = write_grid(project, "notebook: 99_tiny\ngrid: {i: [1, 2]}\n")
    command = [sys.executable, "-m", "berdslib.cli", "notebook", "grid", str(path)]
    assert [process.wait(120) for process in [subprocess.Popen(command) for _ in "ab"]] == [0, 0]
    assert sorted(executed(project)) == [1, 2]
    assert len(set((project / "workers.txt").read_text().split())) == 2


# ---------------------------------------------------------------- failures, with threads in place of processes


def outcomes(project, monkeypatch, *errors, **options):
    """Run a grid whose i-th run fails with the i-th error, and return how many were begun."""
    begun = []

    def run_notebook(name, parameters, *, output, progress):
        begun.append(parameters["i"])
        if error := errors[parameters["i"]]:
            raise BerdsError(
                f"99_tiny failed in cell 3: {error.format(output.name)}\nThe notebook: {output}/99_tiny.ipynb"
            )
        output.mkdir(parents=True, exist_ok=True)
        (output / "run.json").write_text(json.dumps({"finished": True, "parameters": parameters}))

    monkeypatch.setattr("berdslib.study.grid.run_notebook", run_notebook)
    monkeypatch.setattr("berdslib.study.grid.ProcessPoolExecutor", lambda workers, **_: ThreadPoolExecutor(workers))
    failures = run_grid(grid_of(project, f"grid: {{i: {list(range(len(errors)))}}}\n"), progress=False, **options)
    assert len(failures) == sum(bool(errors[i]) for i in begun)
    return len(begun)


@pytest.mark.parametrize(
    ("errors", "begun"),
    [
        (["KeyError: a"] * 5, 3),
        (["no {}/x.json"] * 5, 3),  # alike but for the run's own folder
        (["a", "a", "b", "a", "a"], 5),
        (["a", "a", "", "a", "a"], 5),
        (["a", "", "b", "b", "b", "a"], 5),
        (["a", "b", "c", "d"], 4),
    ],
)
def test_three_alike_failures_in_a_row_stop_a_grid(project, monkeypatch, capsys, errors, begun):
    assert outcomes(project, monkeypatch, *errors) == begun
    assert ("3 runs in a row failed" in capsys.readouterr().err) == (begun < len(errors))


def test_a_grid_that_keeps_going_and_one_that_stops_at_once(project, monkeypatch, capsys):
    assert outcomes(project, monkeypatch, *"aaaaa", stop_after=None) == 5
    assert outcomes(project, monkeypatch, *"abcde", stop_after=1) == 1
    assert "in a row" not in capsys.readouterr().err


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
    with pytest.raises(InputError, match="no dask scheduler at 'nonsense'"):
        run_grid(read_grid(path), scheduler="nonsense", progress=False)
    monkeypatch.setitem(sys.modules, "distributed", None)  # import raises ImportError
    result = tried("notebook", "grid", path, "--scheduler", "tcp://127.0.0.1:1")
    assert result.exit_code == 1 and "pip install 'berdslib[cluster]'" in result.stderr


@pytest.mark.slow
def test_on_a_dask_cluster(project):
    distributed = pytest.importorskip("distributed")
    write_notebook(project, LOG + 'assert i != 3, "three"\n' + SCORES)
    grid = grid_of(project, "grid: {i: [1, 2, 3]}\n")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        failures = run_grid(grid, scheduler=cluster.scheduler_address, progress=False)
        again = run_grid(grid, scheduler=cluster.scheduler_address, progress=False)
    assert list(failures) == list(again) == [grid.runs[2].folder.name]
    assert "AssertionError: three" in failures[grid.runs[2].folder.name]
    assert sorted(executed(project)) == [1, 2, 3, 3]
    assert [row["state"] for row in status(grid)] == ["finished", "finished", "unfinished"]
    assert grid_table(grid)["i"].unique().tolist() == [1, 2]


# ---------------------------------------------------------------- the shipped one


def test_shipped_grids_are_valid():
    shipped = sorted((notebooks.notebook_folder().parent / "papermill_runs" / "grids").glob("*.yaml"))
    assert "sample_retrieval" in [path.stem for path in shipped]
    assert all(len(read_grid(path).runs) > 1 for path in shipped)


def test_a_grid_that_came_with_the_package_is_found_and_one_of_the_user_goes_before_it(tmp_path, monkeypatch):
    brought = tmp_path / "berdslib" / "_shipped" / "grids" / "lists.yaml"
    brought.parent.mkdir(parents=True)
    brought.touch()
    monkeypatch.setattr(notebooks, "PACKAGE", tmp_path / "berdslib")
    asked = tmp_path / "papermill_runs" / "grids" / "lists.yaml"
    assert notebooks.find_grid(asked) == brought
    assert notebooks.find_grid(asked.with_name("other.yaml")) == asked.with_name("other.yaml")
    asked.parent.mkdir(parents=True)
    asked.touch()
    assert notebooks.find_grid(asked) == asked
