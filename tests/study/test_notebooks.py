"""The form of the notebooks, and each one run by papermill on smoke parameters."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from execute_notebooks import code_digests
from prose_numbers import unshown_numbers
from shell import tried
from tiny_notebook import write_notebook

from berdslib.errors import BerdsError, InputError
from berdslib.study.exercises import ANSWER, blanked, is_exercise, student_copy
from berdslib.study.notebooks import (
    check_parameters,
    find_notebook,
    open_notebook,
    output_folder,
    read_notebook,
    run_folder,
    run_notebook,
)

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
OVERRIDES = yaml.safe_load((ROOT / "tests" / "notebook_overrides.yaml").read_text(encoding="utf-8"))

# The first code cell of every notebook.
OPENING = """\
# On Colab this fetches the project; anywhere else, Binder included, it does nothing.
import os

repository = ""  # the address of your copy of the project; for Colab only
if "COLAB_RELEASE_TAG" in os.environ:
    assert repository, "set `repository` to the address of your copy of the project"
    !git clone --quiet --depth 1 "{repository}" berdslib
    %cd berdslib
    %pip install --quiet ."""


def cells_of(path, kind=None):
    cells = read_notebook(path)["cells"]
    return [c for c in cells if kind in (None, c["cell_type"])]


def source(cell):
    return "".join(cell["source"])


def anchors(path):
    """The anchors of a page's headings, as GitHub makes them."""
    whole = path.read_text(encoding="utf-8")
    text = "\n".join(source(c) for c in cells_of(path, "markdown")) if path.suffix == ".ipynb" else whole
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
class TestForm:
    def test_it_opens_as_all_do(self, path):
        cells = cells_of(path)
        title, opening, imports, parameters = cells[:4]
        assert re.match(r"# \d\d · .+\?\n", source(title)), "the title is a question"
        assert source(opening) == OPENING
        assert all(re.match(r"(import|from) |\s|\)|$", line) for line in source(imports).splitlines())
        assert "parameters" in parameters["metadata"]["tags"] and source(parameters)
        assert parameters["metadata"]["jupyter"]["source_hidden"]
        picture = next(i for i, cell in enumerate(cells) if "image/png" in json.dumps(cell.get("outputs", [])))
        assert picture <= 7
        plan = next(source(c) for c in cells[:12] if "**You will**" in source(c))
        assert 3 <= plan.count("\n- ") <= 5

    def test_imports_stand_at_the_top(self, path):
        for cell in cells_of(path, "code")[2:]:
            if "if interactive" not in source(cell):
                assert not re.search(r"^(import|from) ", source(cell), re.M), source(cell)

    def test_parameters_are_plain_and_explained(self, path):
        parameters = open_notebook(path).parameters
        assert all(p.help for p in parameters.values())
        assert {"limit", "output_dir"} <= set(parameters)

    def test_links_lead_somewhere(self, path):
        text = "\n".join(source(c) for c in cells_of(path, "markdown"))
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if link.startswith("http"):
                continue
            target, _, anchor = link.partition("#")
            led = (path.parent / target).resolve() if target else path
            # What `berds lab` serves: the project, and in it nothing hidden.
            assert led.exists() and led.is_relative_to(ROOT), link
            assert not any(part.startswith(".") for part in led.relative_to(ROOT).parts), link
            assert not anchor or anchor in anchors(led), link
        assert re.search(r"(Previous|Next):(\*\*)? \[", text)

    def test_it_ends_with_files_takeaways_and_exercises(self, path):
        headings = [line for c in cells_of(path, "markdown") for line in source(c).splitlines() if line[:3] == "## "]
        assert headings[-2:] == ["## Takeaways", "## Exercises"]
        takeaways = next(c for c in cells_of(path, "markdown") if "## Takeaways" in source(c))
        assert "**Answer:**" in source(takeaways)  # to the question that it opens with

    def test_formulas_are_set_as_formulas(self, path):
        text = "\n".join(source(c) for c in cells_of(path, "markdown"))
        assert "$$" in text or path.stem.startswith("12"), "no formula"

    def test_lines_of_code_fit_a_screen(self, path):
        long = [line for c in cells_of(path, "code") for line in source(c).splitlines() if len(line) > 100]
        assert not long

    def test_outputs_were_made_by_this_code(self, path):
        notebook = read_notebook(path)
        made_by = notebook["metadata"].get("berdslib", {}).get("executed", [])
        assert made_by == code_digests(notebook), f"run scripts/execute_notebooks.py {path.stem}"

    def test_numbers_in_prose_are_shown_beside_it(self, path):
        problems = [str(problem) for problem in unshown_numbers(read_notebook(path), ROOT)]
        assert not problems, "\n".join(problems)

    def test_exercises_are_numbered_told_and_solved(self, path):
        cells = cells_of(path)
        places = [i for i, cell in enumerate(cells) if is_exercise(cell)]
        assert 3 <= len(places) <= 5
        for number, place in enumerate(places, start=1):
            assert re.match(rf"### Exercise {number} · .+ \((easy|medium|hard|research)\)\n", source(cells[place - 1]))
            assert f"bd.check_answer({number}, " in source(cells[place]).partition("# Check\n")[2]
            assert f"Exercise {number}: right." in json.dumps(cells[place]["outputs"], ensure_ascii=False)
            assert source(cells[place]).strip() != blanked(source(cells[place])).strip()

    def test_outputs_are_there_clean_and_small(self, path):
        raw = path.read_text(encoding="utf-8")
        assert path.stat().st_size <= 300 * 1024
        code = cells_of(path, "code")
        assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
        assert sum(bool(c["outputs"]) for c in code) >= len(code) / 2
        assert not any(o["output_type"] == "error" for c in code for o in c["outputs"])
        assert "widgets" not in json.loads(raw)["metadata"] and "widget-view" not in raw
        assert not re.search(r"(/home/|/root/|/Users/|/tmp/|/work/|[A-Z]:\\\\Users)", raw), "a machine path"
        assert not re.search(r"(sk-[A-Za-z0-9]{16,}|hf_[A-Za-z0-9]{16,})", raw), "a key"

    def test_prose_keeps_up_with_code(self, path):
        assert len(cells_of(path, "markdown")) >= len(cells_of(path, "code")) * 0.9

    def test_widgets_are_guarded(self, path):
        for cell in cells_of(path, "code"):
            if "ipywidgets" in source(cell) or "bd.explore(" in source(cell):
                assert source(cell).startswith("if interactive:")


def test_every_notebook_has_smoke_parameters():
    assert set(OVERRIDES) == {p.stem for p in NOTEBOOKS}


def with_blank_exercises_behind(path, folder):
    """Write a copy of a notebook that, once done, goes through its exercises again as a student first sees them."""
    notebook = read_notebook(path)
    blank = [
        cell
        for cell in student_copy(notebook)["cells"]
        if is_exercise(cell) or ANSWER in cell["metadata"].get("tags", [])
    ]
    notebook["cells"] += [cell | {"id": f"blank{number}"} for number, cell in enumerate(blank, start=1)]
    target = folder / path.name
    target.write_text(json.dumps(notebook), encoding="utf-8")
    return target


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_runs(path, tmp_path, warm_cache):
    done = run_notebook(
        str(with_blank_exercises_behind(path, tmp_path)), OVERRIDES[path.stem], output=tmp_path / "run", progress=False
    )
    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["finished"] and record["parameters"] == OVERRIDES[path.stem]
    assert (tmp_path / "run" / "scores.csv").exists() and (tmp_path / "run" / "scores.png").stat().st_size > 1000
    exercises = [cell for cell in read_notebook(done.notebook)["cells"] if is_exercise(cell)]
    said = ["".join(cell["outputs"][-1]["data"]["text/plain"]) for cell in exercises]
    half = len(said) // 2
    assert all(f"Exercise {n}: right." in answer for n, answer in enumerate(said[:half], start=1)), said
    assert all(f"Exercise {n} is blank." in answer for n, answer in enumerate(said[half:], start=1)), said


PLUGIN = """
import berdslib as bd

class Listed:  # as they are written below
    def __init__(self, passages):
        self.docnos = [p.docno for p in passages]
    def search(self, questions, k):
        return {q.qid: self.docnos[:k] for q in questions}

texts = {"a": "Horses need hooves.", "b": "Hooves in a myth.", "c": "Green tea.", "d": "Tea rooms.", "e": "Rain."}
passages = [bd.Passage(docno, text) for docno, text in texts.items()]
bd.register("retriever", "listed", Listed)
bd.register("dataset", "shelf", lambda: bd.Collection("shelf", [bd.Question("x", "Who?", ("One.",))], passages))
"""


@pytest.mark.slow
def test_questions_corpus_and_gold_of_ones_own_run_through_it(tmp_path, monkeypatch):
    """From the shell, in another process: files of questions and TREC qrels, and a corpus that a plugin registers."""
    (tmp_path / "my_shelf.py").write_text(PLUGIN)
    monkeypatch.setenv("BERDS_PLUGINS", "my_shelf")
    monkeypatch.syspath_prepend(tmp_path)  # the command, which is in this process here, looks at the data too
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")]))
    asked = [{"qid": f"t{i}", "query": text} for i, text in enumerate(("horse hooves", "green tea", "trams"))]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    (tmp_path / "qrels.txt").write_text("t0 1 a 1\nt0 2 b 1\nt0 2 a 0\nt1 1 c 1\nt1 2 d 2\nt2 1 f 1\nt2 2 g 1\n")
    notebook = read_notebook(find_notebook("03"))  # the set-up, and the section that looks at one's own
    cells = notebook["cells"]
    first = next(i for i, cell in enumerate(cells) if "bd.load(datasets" in source(cell))
    last = next(i for i, cell in enumerate(cells) if "## Takeaways" in source(cell))
    notebook["cells"] = cells[2:5] + cells[first:last]
    (tmp_path / "03_own.ipynb").write_text(json.dumps(notebook))
    files = {"datasets": tmp_path / "mine.jsonl", "corpus": "shelf", "gold": tmp_path / "qrels.txt"}
    files |= {"systems": "listed", "ks": "[2, 4]", "depth": "5"}
    parameters = [word for name, value in files.items() for word in ("-p", name, value)]
    done = tried("notebook", "run", tmp_path / "03_own.ipynb", "-o", tmp_path / "run", *parameters)
    assert done.exit_code == 0, done.output
    table = pd.read_csv(tmp_path / "run" / "scores.csv").drop_duplicates("measure").set_index("measure")["mean"]
    # listed shows a b c d e: both subtopics of t0 within two, of t1 within four; t2 has none within five.
    assert table[["MRecall@2", "MRecall@4"]].tolist() == pytest.approx([1 / 3, 2 / 3])


PARAMETERS = """\
k = 5  # how many
name = "bm25"
flag = False
x = 0.5
ks = [1, 2]
names = ["a"]
flags = [True]
xs = [0.5]
any = []
"""


def test_parameters_are_read_with_help_and_take_values_of_their_types(tmp_path):
    notebook = open_notebook(write_notebook(tmp_path, PARAMETERS))
    assert notebook.parameters["k"] == ("k", 5, "how many")
    for given, want in (
        ({"k": "7", "name": "minilm", "flag": "True", "x": "1"}, {"k": 7, "name": "minilm", "flag": True, "x": 1.0}),
        (
            {"ks": "[3]", "flags": "[true, false]", "xs": "[1, 2.5]"},
            {"ks": [3], "flags": [True, False], "xs": [1, 2.5]},
        ),
        ({"flags": "[True]", "names": "['b']", "ks": []}, {"flags": [True], "names": ["b"], "ks": []}),
        ({"any": "[null]"}, {"any": [None]}),
        ({"names": "bm25, minilm+mmr:0.9"}, {"names": ["bm25", "minilm+mmr:0.9"]}),
    ):
        found = check_parameters(notebook, given)
        assert found == want and all(type(found[name]) is type(want[name]) for name in want)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kk": "5"}, None),
        ({"k": "5.5"}, "k"),
        ({"flag": "yes"}, "flag"),
        ({"ks": ["x"]}, "ks"),
        ({"flags": "[true, False]"}, "flags"),  # half JSON, half Python
        ({"x": "1e999"}, "x"),
        ({"k": "9" * 5000}, "k"),
        ({"names": "['a', b]"}, "names"),
    ],
)
def test_a_wrong_parameter_is_refused_before_anything_starts(tmp_path, given, field):
    with pytest.raises(InputError) as refused:
        run_notebook(str(write_notebook(tmp_path, PARAMETERS)), given, output=tmp_path / "out")
    assert refused.value.field == field
    assert len(str(refused.value)) < 1000 and not (tmp_path / "out").exists()


@pytest.mark.parametrize("line", ["k = f'{1}'", "k: int = 5", "k = = 1", f"k = {'(' * 5000}", f"k = {'-' * 50_000}1"])
def test_a_parameters_cell_that_is_not_plain_is_an_error(tmp_path, line):
    path = write_notebook(tmp_path, line)
    with pytest.raises(InputError) as refused:
        open_notebook(path)
    assert refused.value.path == path


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"cells": 5}', '{"cells": [{"source": 5}]}', "\0"])
def test_a_file_that_is_no_notebook_is_an_error(tmp_path, text):
    path = tmp_path / "99_tiny.ipynb"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        open_notebook(path)
    assert refused.value.path == path


@pytest.mark.slow
def test_a_notebook_that_names_no_kernel_runs(tmp_path):
    path = write_notebook(tmp_path, "k = 5", "k", metadata={})
    assert run_notebook(str(path), {}, output=tmp_path / "out", progress=False).record["finished"]


@pytest.mark.slow
def test_widgets_leave_no_state_in_the_file(tmp_path):
    path = write_notebook(tmp_path, "k = 5", "import ipywidgets\nipywidgets.IntSlider(k)")
    done = run_notebook(str(path), output=tmp_path / "out", progress=False)
    written = read_notebook(done.notebook)
    assert "widget-view" in json.dumps(written["cells"]) and "widgets" not in written["metadata"]


EARLIER = json.dumps({"notebook": "99_tiny", "parameters": {}, "finished": True})  # what an earlier run left


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "words"),
    [("1 / (k - 5)", "cell 2: ZeroDivisionError"), ("import os\nos._exit(1)", "cell 2: the kernel died")],
)
def test_a_failure_is_a_clear_line_and_leaves_no_run_json(tmp_path, code, words):
    path, out = write_notebook(tmp_path, "k = 5", code, "k"), tmp_path / "out"
    out.mkdir()
    (out / "run.json").write_text(EARLIER)
    with pytest.raises(BerdsError, match=words) as failed:
        run_notebook(str(path), output=out, progress=False)
    assert str(failed.value).endswith(str(out / "99_tiny.ipynb"))  # where all outputs up to there are
    assert not (out / "run.json").exists() and (out / "failed.json").exists()


@pytest.mark.slow
def test_a_folder_that_another_run_writes_to_is_left_alone(tmp_path):
    path, out = write_notebook(tmp_path, "k = 5"), tmp_path / "out{k}"  # braces are part of the name
    out.mkdir()
    (out / "run.json").write_text(EARLIER)
    hold = "import sys; from filelock import FileLock\nwith FileLock(sys.argv[1]):\n    print(flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", hold, str(out / ".lock")], **pipes) as other:
        other.stdout.readline()
        result = tried("notebook", "run", path, "-o", out)
        other.communicate(b"\n")
    assert result.exit_code == 1 and f"{out}: another run is writing here" in result.stderr
    assert (out / "run.json").read_text() == EARLIER  # a run begins by removing it
    assert tried("notebook", "run", path, "-o", out).exit_code == 0
    assert sorted(p.name for p in out.iterdir()) == [".lock", "99_tiny.ipynb", "run.json"]


def test_notebooks_and_their_folders_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT / "notebooks")
    assert find_notebook("00_quickstart") == find_notebook("00") == find_notebook("00_quickstart.ipynb")
    assert find_notebook("system") == ROOT / "papermill_runs" / "system.ipynb"
    with pytest.raises(InputError, match="03_retrieval"):
        find_notebook("03_retrival")
    assert output_folder("papermill_runs") == ROOT / "papermill_runs"
    assert output_folder(str(tmp_path / "x")) == tmp_path / "x"


def test_without_a_checkout_they_come_with_the_package_and_write_into_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("berdslib.study.notebooks.project_root", lambda: None)
    monkeypatch.setattr("berdslib.study.notebooks.shipped", lambda name: ROOT / name)  # as the wheel has them
    monkeypatch.chdir(tmp_path)
    assert find_notebook("00") == ROOT / "notebooks" / "00_quickstart.ipynb"
    assert find_notebook("sides") == ROOT / "papermill_runs" / "sides.ipynb"
    assert output_folder("papermill_runs") == tmp_path / "papermill_runs"
    assert run_folder(open_notebook(find_notebook("00")), {}).parent == tmp_path / "papermill_runs"


@pytest.mark.parametrize("damage", [{"nbformat": ""}, {"nbformat_minor": ""}, {"metadata": ""}, {"cells": [1]}])
def test_a_damaged_notebook_is_told_before_a_kernel_starts(tmp_path, damage):
    path, cell = tmp_path / "damaged.ipynb", {"cell_type": "code", "id": "a", "source": "k = 1", "outputs": []}
    cells = [{**cell, "metadata": {"tags": ["parameters"]}, "execution_count": None}]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | damage))
    with pytest.raises(InputError) as refused:
        run_notebook(str(path), output=tmp_path / "out")
    assert refused.value.path == path
    assert not (tmp_path / "out").exists()


def test_the_teacher_reads_the_minutes_and_the_titles_of_the_notebooks():
    page = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    paths = {path.stem[:2]: path for path in NOTEBOOKS}
    course = re.findall(r"^\| \[(\d\d)\]\S+ · (.+?) \| (\d+) \| (\d+) \|", page, re.M)
    assert len(course) == 7
    for number, title, reading, exercises in course:
        text = "\n".join(source(cell) for cell in cells_of(paths[number], "markdown"))
        assert text.startswith(f"# {number} · {title}\n")
        assert f"**Time:** {reading} minutes to read, {exercises} to do the exercises" in text
    lecture = re.findall(r"^\| \d+–\d+ \| .+ \| (\d\d): (.+) \|$", page, re.M)
    assert len(lecture) == 6
    for number, sections in lecture:
        titles = re.findall(r"^## (.+)$", "\n".join(map(source, cells_of(paths[number], "markdown"))), re.M)
        assert set(re.findall(r"\*(.+?)\*", sections)) <= set(titles)
