"""`bd.fine_tune` and `berds finetune`, on a tiny random model: the door adds nothing to the training behind it."""

import inspect
import json
import math
from pathlib import Path

import click
import pandas as pd
import pytest
import torch
from shell import berds, tried
from tiny import mistral_tokenizer
from transformers import MistralConfig, MistralForCausalLM

import berdslib as bd
from berdslib.cli.finetune import finetune as command
from berdslib.data.datasets import load_passages
from berdslib.judging.causal import load_causal
from berdslib.judging.examples import build_examples, write_examples
from berdslib.judging.finetune import Recipe, fine_tune_causal, split_by_question
from berdslib.judging.registry import make_judge
from berdslib.models.loading import weights_hash

QUICK = {"learning_rate": 1e-3, "rank": 4, "batch_size": 6, "epochs": 1.0}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The folder of a small Mistral with random weights."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = mistral_tokenizer([p.full_text for p in load_passages("sample")], words=["Yes", "No", " Yes", " No"])
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2,
    )  # fmt: skip
    MistralForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch):
    """One thread and single precision, so that equal runs are equal to the bit on every machine."""
    monkeypatch.setattr("berdslib.judging.memory.has_bf16", lambda: False)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def pairs(tmp_path):
    """A table of pairs from three questions."""
    examples = build_examples(["sample"])
    topics = sorted({e.topic for e in examples})[:3]
    path = tmp_path / "pairs.tsv"
    write_examples(path, [e for topic in topics for e in [e for e in examples if e.topic == topic][:6]])
    return path


@pytest.mark.slow
def test_a_table_is_trained_on_as_its_examples_are(tiny, pairs, tmp_path):
    trained = bd.fine_tune(pairs, tmp_path / "door", str(tiny), held_out=0.3, **QUICK)
    learn, check = split_by_question(build_examples([pairs]), 0.3)
    assert len({e.topic for e in learn}) == 2 and len({e.topic for e in check}) == 1
    behind = fine_tune_causal(load_causal(str(tiny)), learn, Recipe(**QUICK), tmp_path / "behind", check)
    assert trained.losses == behind.losses and len(trained.held_out)
    pd.testing.assert_frame_equal(trained.held_out, behind.held_out)
    assert trained.steps == math.ceil(len(learn) / 6) == len(trained.losses)
    again = bd.fine_tune(learn, tmp_path / "list", load_causal(str(tiny)), held_out=check, **QUICK)
    assert again.losses == trained.losses


@pytest.mark.slow
def test_what_is_left_judges(tiny, pairs, tmp_path):
    tuned = bd.fine_tune(pairs, tmp_path / "lora", str(tiny), held_out=0, **QUICK)
    whole = bd.fine_tune(pairs, tmp_path / "whole", str(tiny), held_out=0, **QUICK | {"rank": 0})
    assert tuned.held_out.empty and whole.held_out.empty
    names = [f"causal:{tiny}", f"causal:{tiny}+adapter:{tuned.folder}", f"causal:{whole.folder}"]
    weights = {weights_hash(make_judge(name).model) for name in names}
    assert len(weights) == 3


def test_the_example_of_the_help_runs(tiny, pairs, monkeypatch):
    monkeypatch.chdir(pairs.parent)
    lines = [line.strip() for line in berds("finetune", "--help").output.splitlines()]
    train, measure = (line.replace("smollm2", str(tiny)).split()[1:] for line in lines if line.startswith("berds "))
    done = json.loads(berds(*train, "--json").stdout)
    assert done["steps"] == len(done["losses"]) and len(done["held_out"]) > 1
    assert done["judge"] == measure[-1] and Path(done["folder"]) == Path("tuned/model")
    assert json.loads(berds(*measure, "--json").stdout)[-1]["judge"].startswith("causal")


def test_the_defaults_of_the_command_are_the_papers():
    by_name = {param.name: param.default for param in command.params if isinstance(param, click.Option)}
    published = {"learning_rate": 1e-4, "warmup": 0.1, "epochs": 2.0, "weight_decay": 0.001}
    assert published.items() <= by_name.items()
    shared = by_name.keys() & vars(Recipe()).keys()
    assert len(shared) == 10 and all(by_name[name] == getattr(Recipe(), name) for name in shared)
    door = inspect.signature(bd.fine_tune).parameters
    assert all(by_name[name] == door[name].default for name in ("model", "held_out", "wording", "four_bit"))


def test_what_cannot_be_trained_on(tiny, pairs, tmp_path):
    rows = pairs.read_text(encoding="utf-8").splitlines(keepends=True)
    one_sided = tmp_path / "yes.tsv"
    one_sided.write_text("".join([rows[0], *(row for row in rows[1:] if row.rstrip().endswith('"1"'))]))
    with pytest.raises(bd.InputError):
        bd.fine_tune(one_sided, tmp_path / "out", str(tiny), held_out=0, **QUICK)
    with pytest.raises(bd.InputError) as caught:
        bd.fine_tune(pairs, tmp_path / "out", str(tiny), warmup=1.5)
    assert caught.value.field == "warmup"
    with pytest.raises(TypeError, match="epoch"):
        bd.fine_tune(pairs, tmp_path / "out", str(tiny), epoch=1)
    result = tried("finetune", tmp_path / "none.tsv", "-m", tiny, "-o", tmp_path / "out")
    assert result.exit_code == 1 and "none.tsv" in result.output
    assert not (tmp_path / "out" / "model").exists()
