"""The list for a GPU: every part runs at toy size, is recorded, and is not run twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "scripts" / "on_gpu.py"
TRAININGS = ("training-bf16", "training-bf16-small", "training-4bit", "training-4bit-small")
PARTS = ("judging-bf16", "judging-4bit", *TRAININGS, "lora", "lora-qwen", "encoding", "vllm", "mpnet-judge")


def call(*arguments):
    environment = os.environ | {"PYTHONPATH": f"{SCRIPT.parents[1]}{os.pathsep}{SCRIPT.parent}"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, env=environment, check=False
    )


@pytest.mark.slow
def test_a_rehearsal_runs_every_part_once(tmp_path):
    first = call("--rehearse", "-o", str(tmp_path))
    assert first.returncode == 0, first.stderr
    found = {part: json.loads((tmp_path / f"{part}.json").read_text()) for part in PARTS}
    assert all(one["toy"] and ("found" in one or "skipped" in one) for one in found.values())
    assert found["judging-bf16"]["found"]["largest_difference"] < 1e-4
    assert found["judging-4bit"]["found"]["pairs_a_second"] > 0
    for part in TRAININGS:
        assert found[part]["found"]["steps"] == 2 and found[part]["found"]["gigabytes_computed"] > 0, part
    assert len(found["lora"]["found"]["held_out_scores"]) > 1 and not found["lora"]["found"]["people"]
    assert found["mpnet-judge"]["found"]["held_out"]["n"] > 0 and "people" not in found["mpnet-judge"]["found"]
    (tmp_path / "encoding.json").unlink()
    again = call("--rehearse", "-o", str(tmp_path))
    assert again.returncode == 0
    for part in PARTS:
        same = json.loads((tmp_path / f"{part}.json").read_text())["at"] == found[part]["at"]
        assert same is (part != "encoding"), part


@pytest.mark.slow
def test_what_cannot_run_is_said_at_once():
    if not torch.cuda.is_available():
        assert "there is no GPU here" in call("-o", "x").stderr
    assert "no such part: nothing" in call("--rehearse", "--only", "nothing").stderr
