"""The generator of releases: always the same bytes, to the schema, and never over the owners' data."""

import gzip
import json
import subprocess
import sys
from dataclasses import fields

import pytest
from synthetic_release import SIGNALS, make_release, write_release
from tiny_release import release_files, write_files

from berdslib.data.arguments import Release, is_release, read_release
from berdslib.data.datasets import dataset
from berdslib.data.scenario import load_release, open_scenario
from berdslib.errors import InputError
from berdslib.paths import project_root, shipped

SAMPLE = "perspectivearg-sample"


def contents(folder):
    return {str(p.relative_to(folder)).removesuffix(".gz"): p for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_shipped_release_is_what_the_script_makes(tmp_path):
    script = project_root() / "scripts" / "synthetic_release.py"
    options = ["--arguments", "1800", "--issues", "60", "--seed", "0", "--name", SAMPLE]
    done = subprocess.run([sys.executable, script, tmp_path / "made", *options], capture_output=True, text=True)
    assert done.returncode == 0 and "(SYNTHETIC): 1,800 arguments, 60 baseline and" in done.stdout, done.stderr
    made, there = contents(tmp_path / "made"), contents(shipped(SAMPLE))
    assert made.keys() == there.keys() and len(there) == 8
    for name, path in there.items():
        kept = path.read_bytes()
        assert (gzip.decompress(kept) if path.suffix == ".gz" else kept) == made[name].read_bytes(), name
    assert is_release(shipped(SAMPLE)) and load_release(SAMPLE).arguments == read_release(tmp_path / "made").arguments


@pytest.mark.parametrize("ranked_for", ["author", "reader"])
def test_what_is_written_is_read_back(tmp_path, ranked_for):
    made = make_release(arguments=300, issues=10, seed=5, name="mine", ranked_for=ranked_for)
    write_release(tmp_path / "new" / "release", made)
    back = read_release(tmp_path / "new" / "release")
    for field in fields(Release):
        assert getattr(back, field.name) == getattr(made, field.name), field.name
    manifest = json.loads((tmp_path / "new" / "release" / "release.json").read_text())
    assert manifest == {"name": "mine", "synthetic": True, "ranked_for": ranked_for, "seed": 5}
    assert len(open_scenario(back, "implicit", "test").passages) == 300


@pytest.mark.parametrize("manifest", ['{"ranked_for": "reader"}', '{"synthetic": false}', "{"])
def test_the_owners_data_are_never_replaced(tmp_path, manifest):
    owners = write_files(tmp_path / "owners", release_files() | {"release.json": manifest})
    before = {file: file.read_bytes() for file in owners.rglob("*") if file.is_file()}
    with pytest.raises(InputError, match=r"is not synthetic; it is not replaced|release.json:1: not valid JSON"):
        write_release(owners, make_release(arguments=60, issues=4))
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_the_card_says_how_strong_each_signal_is():
    flat = " ".join(dataset(SAMPLE).note.split())
    for name, signal in SIGNALS.items():
        assert f"- {name.replace('_', ' ')} ({signal.strength:g}): {signal.how}" in flat
