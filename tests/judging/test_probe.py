"""A probe answers by logistic regression on the state of the last token, however prompts are batched."""

import json

import numpy as np
import pytest
import torch
from tiny import mistral_tokenizer
from transformers import MistralConfig, MistralForCausalLM

from berdslib.data.records import Passage
from berdslib.errors import MissingDataError
from berdslib.judging.base import Pair
from berdslib.judging.causal import load_causal
from berdslib.judging.probe import WEIGHTS, load_probe, load_stack
from berdslib.judging.registry import check_judge, make_judge
from berdslib.models.packaged import PACKAGED
from berdslib.statements import negate

LAYER = 1
WIDTH = 32
STATEMENTS = ("Zoos should close.", "Zoos should stay.", "Ships are slow.")
PAIRS = [
    Pair("q", pid, Passage(f"d{i}", f"Text {i} says that zoos are small." * (i + 1)), statement)
    for i in range(4)
    for pid, statement in enumerate(STATEMENTS)
]


@pytest.fixture
def probe_file(tmp_path):
    """A probe with random weights on a tiny random language model."""
    tokenizer = mistral_tokenizer([pair.passage.text for pair in PAIRS], 300, words=["Yes", "No"])
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, initializer_range=0.5,
    )  # fmt: skip
    model = MistralForCausalLM(config)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    settings = {"model": str(tmp_path / "model"), "wording": "short", "layer": LAYER, "threshold": 0.4, "bias": 0.1}
    settings["weights"] = np.random.default_rng(0).normal(0, 0.3, WIDTH).tolist()
    stack = {"similarity": 0.5, "yes": 2.0, "no": -1.0, "probe": 1.5}
    settings["stack"] = {"judges": ["similarity"], "weights": stack, "bias": -0.2, "threshold": 0.3}
    path = tmp_path / "probe.json"
    path.write_text(json.dumps(settings))
    return path


@pytest.mark.parametrize("options", [{}, {"reuse_prefix": False}, {"batch_tokens": 300}])
def test_it_is_the_regression_on_the_states_of_one_plain_pass_per_pair(probe_file, options):
    probe = load_probe(probe_file, **options)
    settings = json.loads(probe_file.read_text())
    want = []
    for pair in PAIRS:
        with torch.inference_mode():
            out = probe.model(torch.tensor([probe.token_ids(pair)]), output_hidden_states=True)
        state = out.hidden_states[LAYER][0, -1].double().numpy()  # 0 is the embedding
        want.append(1 / (1 + np.exp(-(state @ np.array(settings["weights"]) + settings["bias"]))))
    assert np.ptp(want) > 0.01, "a probe that always says the same proves nothing"
    np.testing.assert_allclose(probe.p_yes(PAIRS), want, atol=1e-4)
    assert probe.threshold == 0.4


def test_a_stack_is_the_regression_on_the_logits_of_its_members(probe_file):
    stack = load_stack(make_judge, probe_file)
    causal = load_causal(json.loads(probe_file.read_text())["model"], wording="short")
    opposite = [pair._replace(perspective=negate(pair.perspective)) for pair in PAIRS]
    answers = [make_judge("similarity").p_yes(PAIRS), causal.p_yes(PAIRS), causal.p_yes(opposite)]
    answers.append(load_probe(probe_file).p_yes(PAIRS))
    logits = [np.log(p / (1 - p)) for p in answers]
    total = 0.5 * logits[0] + 2 * logits[1] - logits[2] + 1.5 * logits[3] - 0.2
    want = 1 / (1 + np.exp(-total))
    assert np.ptp(want) > 0.01
    np.testing.assert_allclose(stack.p_yes(PAIRS), want, atol=1e-4)
    assert stack.p_yes([]).shape == stack.probe.p_yes([]).shape == (0,)
    assert stack.threshold == 0.3 and stack.id.startswith("stack(")


def test_its_id_names_the_probe_and_the_model(probe_file):
    probe = load_probe(probe_file)
    causal = load_causal(json.loads(probe_file.read_text())["model"], wording="short")
    assert causal.id in probe.id and probe.id != causal.id
    changed = json.loads(probe_file.read_text())
    changed["weights"][0] += 0.1
    before = load_stack(make_judge, probe_file).id
    probe_file.write_text(json.dumps(changed))
    assert load_probe(probe_file).id != probe.id and load_stack(make_judge, probe_file).id != before


def test_the_shipped_one_fits_its_model(tmp_path):
    settings = json.loads(WEIGHTS.read_text())
    assert settings["model"] in PACKAGED and len(settings["weights"]) == 1536 and 1 <= settings["layer"] <= 28
    assert set(settings["stack"]["weights"]) == {*settings["stack"]["judges"], "yes", "no", "probe"}
    for name in ("qwen-probe", "qwen-stack", "echo:laptop-mpnet+qwen-probe"):
        check_judge(name)
    with pytest.raises(MissingDataError, match="absent"):
        load_probe(tmp_path / "absent.json")
