"""The benchmark of encoders, on a processor that lacks a number format."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "bench_encoding.py"
# Python imports this by itself as it starts: it hides from every process here that this processor has bfloat16.
WITHOUT = """
from pathlib import Path
read = Path.read_text
Path.read_text = lambda path, *args, **kwargs: read(path, *args, **kwargs).replace("_bf16", "")
"""


@pytest.mark.slow
def test_a_format_that_the_processor_lacks_is_said_and_the_peer_is_measured(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    command = [sys.executable, BENCHMARK, "--passages=4", "--rounds=1", "--threads=1", "--only=openvino-bfloat16"]
    environment = {k: v for k, v in os.environ.items() if k != "BERDS_DATA"} | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "openvino-bfloat16     not on this processor: this CPU has no bfloat16" in done.stdout
    assert "texts/s" in next(line for line in done.stdout.splitlines() if "sentence-transformers" in line)
