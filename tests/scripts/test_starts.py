"""Scripts start as their first lines and the notebooks print them: from the project's folder, by their path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


STARTED = sorted(
    str(path.relative_to(ROOT))
    for folder in ("scripts", "scripts/training", "benchmarks")
    for path in (ROOT / folder).glob("*.py")
    if "__main__" in path.read_text(encoding="utf-8")
)


@pytest.mark.slow
@pytest.mark.parametrize("script", STARTED)
def test_a_script_answers_help_from_the_projects_folder(script):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}  # as after an installation: without scripts/
    done = subprocess.run(
        [sys.executable, script, "--help"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.startswith("usage:"), done.stderr


@pytest.mark.parametrize("script", ["scripts/training/lora.py", "scripts/training/pairs.py", "scripts/on_gpu.py"])
def test_a_script_is_printed_with_its_path(script):
    assert f"python {script} " in (ROOT / script).read_text(encoding="utf-8")
