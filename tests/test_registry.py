"""Things by name: what a name may be, whose it is, and modules that add some."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import berdslib
from berdslib.errors import InputError
from berdslib.registry import Registry


@pytest.fixture
def pets():
    return Registry("pet", {"cat": "Felis", "dog:": "Canis", "dog-9": "Lupus"})


@pytest.mark.parametrize("name", ["cow", "dog", "dog:", "cat:black", "", ":", "dog-9:x", " cat"])
def test_an_unknown_name_lists_those_that_are_known(pets, name):
    with pytest.raises(InputError) as caught:
        pets.find(name)
    assert all(there in caught.value.problem for there in ("cat", "dog-9", "dog:…"))


def test_a_name_of_ones_own_may_be_used_again(pets):
    pets.add("cow", "Bos")
    assert pets.find("cow") == ("Bos", "") and pets.names()[-1] == "cow"
    pets.add("cow", "Bos taurus")  # as running a notebook's cell twice does
    assert pets["cow"] == "Bos taurus" and pets.names().count("cow") == 1


@pytest.mark.parametrize("name", ["a:b", "a+b", "a,b", "a b", "", " a", "a\n", "-a", ".a", "_a", "a/b", 5, None])
def test_a_name_that_could_not_be_told_apart_in_a_system_is_refused(pets, name):
    with pytest.raises(InputError) as caught:
        pets.add(name, "mine")
    assert caught.value.field == "name"


PLUGIN = '''
"""Somebody's own retriever, judge and data set."""
import berdslib as bd

class Last:
    """Lists the last passages first."""
    name = "last"
    def __init__(self, passages):
        self.docnos = sorted((p.docno for p in passages), reverse=True)
    def search(self, questions, k):
        import pandas as pd
        rows = [(q.qid, d, -i) for q in questions for i, d in enumerate(self.docnos[:k])]
        return pd.DataFrame(rows, columns=["qid", "docno", "score"])

def pets(split=None):
    """Two questions on pets."""
    import pandas as pd
    asked = [bd.Question("q", "Cats?", ("Cats purr.", "Cats bite.")), bd.Question("p", "Dogs?", ("Dogs bark.",))]
    passages = [bd.Passage("a", "Cats purr."), bd.Passage("b", "Cats bite.")]
    gold = pd.DataFrame({"qid": ["q", "q"], "pid": [0, 1], "docno": ["a", "b"], "p_yes": [1.0, 1.0]})
    return bd.Collection("pets", asked, passages, gold)

assert "bm25" in bd.names("retriever")  # a module that adds names may look some up
bd.register("retriever", "last", Last)
bd.register("judge", "purring", lambda: lambda pairs: [float("purr" in p.passage.text) for p in pairs])
bd.register("dataset", "pets", pets)
'''


def in_a_process(folder, code, **variables):
    """Run a line of Python, as another process would that knows of the module by BERDS_PLUGINS only."""
    root = str(Path(berdslib.__file__).parents[1])
    path = os.pathsep.join([str(folder), root, os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False, cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "BERDS_CACHE": str(folder / "cache"), **variables},
    )  # fmt: skip


@pytest.mark.slow
def test_a_module_of_ones_own_adds_names_in_another_process(tmp_path):
    (tmp_path / "my_pets.py").write_text(PLUGIN, encoding="utf-8")
    code = (
        "import berdslib as bd\n"
        "found = bd.experiment('last', 'pets', ['MRecall@2'], judge='purring')\n"
        "print(found.judge, found.runs['last']['docno'].tolist(), 'last' in bd.names('retriever'))\n"
    )
    done = in_a_process(tmp_path, code, BERDS_PLUGINS=" my_pets , ")
    assert done.stdout == "purring ['b', 'a', 'b', 'a'] True\n", done.stderr
    unaware = in_a_process(tmp_path, "import berdslib as bd; bd.load('pets')", BERDS_PLUGINS="")
    assert unaware.returncode == 1 and "unknown data set 'pets'" in unaware.stderr


BROKEN = {
    "needs_another": "import nothing_of_this_name",
    "fails": "raise RuntimeError('\x1b[31mred')",
    "ends": "import sys; sys.exit(3)",
    "wrong": "def",
}


@pytest.mark.parametrize("name", ["no_such_module_of_mine", ".", "a..b", "..up", "os.nothing", "a b", *BROKEN])
def test_a_module_that_cannot_be_imported_is_named_whenever_it_is_wanted(pets, name, tmp_path, monkeypatch):
    for module, text in BROKEN.items():
        (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("BERDS_PLUGINS", name)
    for look in (lambda: pets.find("cat"), pets.names, lambda: "cat" in pets, lambda: pets["cat"], lambda: len(pets)):
        with pytest.raises(InputError) as caught:
            look()
        assert caught.value.field == "BERDS_PLUGINS" and repr(name) in caught.value.problem
        assert "\x1b" not in str(caught.value)


def test_capitals_do_not_matter(pets):
    assert [pets.spelt(name) for name in ("Cat", "DOG:Poodle", "cow")] == ["cat", "dog:Poodle", "cow"]
    for again in ("Cow", "cow", "COW"):
        pets.add(again, f"the {again}")
        assert pets.find("cOw") == (f"the {again}", "") and pets.names()[3:] == [again]


@pytest.mark.parametrize("name", ["Cat", "CAT", "DOG", "Dog-9"])
def test_a_built_in_name_is_taken_in_any_capitals(pets, name):
    assert pets.is_built_in(name)
    with pytest.raises(InputError) as caught:
        pets.add(name, "mine")
    assert caught.value.field == "name"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Five entry points of an installed package: one that works, and four that do not."""
    for module, text in {**BROKEN, "works": "thing = 'Bos'"}.items():
        (tmp_path / f"{module}.py").write_text(text)
    about = tmp_path / "theirs-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    points = "".join(f"{name} = {name}:thing\n" for name in ("works", *BROKEN))
    (about / "entry_points.txt").write_text(f"[berdslib.pet]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)
    yield Registry("pet", {"cat": "Felis"}, own=lambda thing, _: thing)
    for module in ("works", *BROKEN):
        sys.modules.pop(module, None)


def test_an_entry_point_is_loaded_when_its_name_is_asked_for(installed, caplog):
    assert installed.find("cat") == ("Felis", "") and installed.find("works") == ("Bos", "")
    assert "ends" not in sys.modules and not caplog.records
    for name in BROKEN:
        for _ in range(2):
            with pytest.raises(InputError) as caught:
                installed.find(name.upper())
            assert caught.value.field == "entry point" and "'theirs'" in caught.value.problem
            assert "\x1b" not in str(caught.value)


def test_a_list_of_names_leaves_out_what_cannot_be_loaded_and_says_so_once(installed, caplog):
    for _ in range(2):
        assert installed.names() == ["cat", "works"]
    assert len(caplog.records) == len(BROKEN)
    assert all(record.levelname == "WARNING" and "'theirs'" in record.getMessage() for record in caplog.records)


PACKAGE = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "theirs"
version = "1.0"
[tool.setuptools]
py-modules = ["theirs"]
[project.entry-points."berdslib.retriever"]
backwards = "theirs:Backwards"
[project.entry-points."berdslib.judge"]
nobody = "theirs:nobody"
[project.entry-points."berdslib.dataset"]
zoo = "theirs:zoo"
[project.entry-points."berdslib.measure"]
First = "theirs:first"
"""
MODULE = """
import berdslib as bd

class Backwards:
    def __init__(self, passages):
        self.docnos = sorted((p.docno for p in passages), reverse=True)
    def search(self, questions, k):
        import pandas as pd
        return pd.DataFrame([(q.qid, d, -i) for q in questions for i, d in enumerate(self.docnos[:k])],
                            columns=["qid", "docno", "score"])

def nobody():
    return lambda pairs: [0.0] * len(pairs)

def zoo():
    "Two passages of another package."
    gold = [("q", 0, "b", 1.0, True)]
    return bd.Collection("zoo", [bd.Question("q", "Zoos?", ("Yes.", "No."))],
                         [bd.Passage("a", "x"), bd.Passage("b", "y")], make(gold))

def make(rows):
    from berdslib.data.records import make_verdicts
    return make_verdicts(rows, "gold")

def first(shown, k):
    return float(shown.any())
"""


@pytest.mark.slow
def test_an_installed_package_adds_its_own(tmp_path):
    """One of another maker, installed by pip: retriever, judge, data set and measure by name, also in the shell."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "pyproject.toml").write_text(PACKAGE)
    (tmp_path / "theirs" / "theirs.py").write_text(MODULE)
    site, root = tmp_path / "site", Path(berdslib.__file__).parents[1]
    pip = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", site]
    subprocess.run([sys.executable, "-m", *pip, tmp_path / "theirs"], check=True, timeout=300)

    def python(*command):
        places = os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{root}"}
        options = {"env": places, "cwd": tmp_path, "capture_output": True, "text": True, "timeout": 300}
        return subprocess.run([sys.executable, *command], **options)

    done = python(
        *[
            "-m",
            "berdslib.cli",
            "experiment",
            "-q",
            "zoo",
            "-c",
            "zoo",
            "-r",
            "bm25,backwards",
            "-m",
            "First@1",
            "--json",
        ]
    )
    assert done.returncode == 0 and '"backwards"' in done.stdout and '"First@1"' in done.stdout, done.stderr
    code = "import berdslib as bd; print(bd.experiment('backwards', 'zoo', 'First@1', judge='nobody').judge)"
    done = python("-c", code)
    assert done.stdout.split() == ["nobody"], done.stderr
    (site / "theirs.py").write_text("import nothing_of_this_name")
    assert "'theirs'" in (said := python("-c", code).stderr) and "nothing_of_this_name" in said
    shell = ["-m", "berdslib.cli", "experiment", "-q", "sample", "-r", "bm25", "-j", "overlap", "-m", "MRecall@5"]
    done = python(*shell)
    assert done.returncode == 0 and "theirs" not in done.stderr, done.stderr
