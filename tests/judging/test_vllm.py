"""The vLLM judge on a stand-in with vLLM's interface and a tiny model: the same probabilities as the causal judge.

No real vLLM was at hand. The stand-in takes no argument that vLLM does not know, and answers in vLLM's shape.
"""

import itertools
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import mistral_tokenizer, sample_pairs
from transformers import MistralConfig, MistralForCausalLM

from berdslib.data.datasets import load_passages
from berdslib.data.records import Passage
from berdslib.errors import InputError, MissingDataError
from berdslib.judging.base import Judge, Pair
from berdslib.judging.causal import Causal
from berdslib.judging.registry import make_judge
from berdslib.judging.store import VerdictStore, judge_pairs, verdict_key
from berdslib.judging.vllm import Vllm, load_vllm, probability_of_yes


@pytest.fixture(scope="module")
def tokenizer():
    texts = [p.full_text for p in load_passages("sample")] + [" Yes No yes no" * 100]
    return mistral_tokenizer(texts, words=["Yes", "No"])


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=4096, initializer_range=0.5,
    )  # fmt: skip
    return MistralForCausalLM(config).eval()


@pytest.fixture(scope="module")
def pairs():
    return sorted(sample_pairs(20), key=lambda p: p.perspective)


@dataclass
class SamplingParams:
    max_tokens: int = 16
    temperature: float = 1.0
    logprobs: int | None = None


@dataclass
class LoRARequest:
    lora_name: str
    lora_int_id: int
    lora_path: str


@dataclass
class Engine:
    """``vllm.LLM``: reports the likeliest tokens after each prompt; the sampled one is always among them."""

    model: object
    enable_prefix_caching: bool = False
    max_logprobs: int = 20
    max_model_len: int = 4096
    enable_lora: bool = False
    max_lora_rank: int = 16
    tensor_parallel_size: int = 1
    asked: list = field(default_factory=list)

    def generate(self, prompts, sampling_params=None, *, use_tqdm=True, lora_request=None):
        assert sampling_params.max_tokens == 1 and sampling_params.temperature == 0
        assert sampling_params.logprobs <= self.max_logprobs
        self.asked.append((prompts, lora_request))
        return [self._answer(p["prompt_token_ids"], sampling_params.logprobs) for p in prompts]

    def _answer(self, ids, count):
        assert len(ids) < self.max_model_len
        with torch.inference_mode():
            logprobs = self.model(input_ids=torch.tensor([ids])).logits[0, -1].float().log_softmax(0)
        values, tokens = logprobs.topk(min(count, len(logprobs)))
        listed = {
            int(t): SimpleNamespace(logprob=float(v), rank=r + 1, decoded_token=f"token {t}")
            for r, (v, t) in enumerate(zip(values, tokens, strict=True))
        }
        return SimpleNamespace(prompt_token_ids=ids, outputs=[SimpleNamespace(logprobs=[listed])], finished=True)


@pytest.fixture
def vllm(monkeypatch):
    """The stand-in as an importable ``vllm``; ``vllm.LLM`` loads a checkpoint folder."""
    package, lora, request = ModuleType("vllm"), ModuleType("vllm.lora"), ModuleType("vllm.lora.request")
    package.SamplingParams, request.LoRARequest = SamplingParams, LoRARequest
    package.LLM = lambda model, **options: Engine(MistralForCausalLM.from_pretrained(model).eval(), **options)
    for module in (package, lora, request):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return package


@pytest.mark.slow
def test_probabilities_equal_the_causal_judge(vllm, model, tokenizer, pairs):
    everything = len(tokenizer)
    judge = Vllm(Engine(model, max_logprobs=everything), tokenizer, "tiny", top=everything)
    want = Causal(model, tokenizer, "tiny", reuse_prefix=False).p_yes(pairs)
    assert len(pairs) > 20 and np.ptp(want) > 0.05
    np.testing.assert_allclose(judge.p_yes(pairs), want, atol=1e-5)
    assert judge.slack < 1e-9 and judge.p_yes([]).shape == (0,)


@pytest.mark.slow
@pytest.mark.parametrize("top", [200, 300, 400])
def test_a_short_list_is_off_by_no_more_than_its_slack(vllm, model, tokenizer, pairs, top, caplog):
    """A random model spreads its probability over the whole vocabulary: far harder than one that answers."""
    want = Causal(model, tokenizer, "tiny", reuse_prefix=False).p_yes(pairs)
    errors, refused = [], 0
    for pair, p in zip(pairs, want, strict=True):
        judge = Vllm(Engine(model, max_logprobs=top), tokenizer, "tiny", top=top)
        try:
            got = judge.p_yes([pair])[0]
        except InputError:
            refused += 1
            continue
        errors.append(abs(got - p))
        # Both passes are in single precision, whose last digits differ between processors: 1.1e-6 was seen.
        assert errors[-1] <= judge.slack + 1e-5 and (got >= 0.5) == (p >= 0.5)
    assert len(errors) > 10 and refused > 0 and max(errors) > 0.01
    assert "are off by up to 0." in caplog.text


def test_a_list_that_does_not_tell_is_an_error_naming_the_pair(vllm, tokenizer):
    yes, no, other = tokenizer.convert_tokens_to_ids(["Yes", "No", "a"])
    pair = Pair("q", 0, Passage("d7", "Text."), "Cats are kind.")

    def judged(**probabilities):
        listed = {
            {"yes": yes, "no": no, "other": other}[t]: SimpleNamespace(logprob=float(np.log(p)))
            for t, p in probabilities.items()
        }
        output = SimpleNamespace(outputs=[SimpleNamespace(logprobs=[listed])])
        return Vllm(SimpleNamespace(generate=lambda *_, **__: [output]), tokenizer, "tiny").p_yes([pair])[0]

    assert judged(yes=0.6, no=0.2, other=0.001) == pytest.approx(0.75)
    assert judged(yes=0.9, other=0.01) == 1.0
    with pytest.raises(InputError, match=r"neither Yes nor No .*'d7' and 'Cats are kind.'; the likeliest is 'a'"):
        judged(other=0.9)
    with pytest.raises(InputError, match=r"'d7' and 'Cats are kind.' do not decide .*larger top"):
        judged(other=0.5, yes=0.01)


def test_the_verdicts_beside_a_list_that_does_not_tell_are_stored(vllm, tokenizer, tmp_path):
    yes, other = tokenizer.convert_tokens_to_ids(["Yes", "a"])

    def generate(prompts, *_, **__):
        tells = ["Nothing." not in tokenizer.decode(one["prompt_token_ids"]) for one in prompts]
        lists = [{yes if one else other: SimpleNamespace(logprob=-0.01)} for one in tells]
        return [SimpleNamespace(outputs=[SimpleNamespace(logprobs=[listed])]) for listed in lists]

    judge, store = Vllm(SimpleNamespace(generate=generate), tokenizer, "tiny"), VerdictStore(tmp_path / "v.sqlite")
    texts = ["One.", "Nothing.", "Two.", "Three."]
    pairs = [Pair("q", 0, Passage(str(i), text), "Cats are kind.") for i, text in enumerate(texts)]
    with pytest.raises(InputError, match=r"neither Yes nor No .*passage '1'"):
        judge_pairs(judge, pairs, store)
    assert sorted(store.get(judge.id, pairs)) == sorted(verdict_key(judge.id, pairs[i]) for i in (0, 2, 3))


@given(st.lists(st.floats(0.001, 1), min_size=8, max_size=8), st.integers(1, 8))
def test_the_bounds_hold_whatever_was_left_out(weights, shown):
    """Eight tokens, three of them Yes and three No: the answer from all of them lies in what a shorter list allows."""
    p = np.array(weights) / sum(weights)
    yes, no = [0, 1, 2], [3, 4, 5]
    listed = {int(t): float(p[t]) for t in np.argsort(-p)[:shown]}
    low, middle, high = probability_of_yes(listed, yes, no)
    if not set(listed) & {*yes, *no}:
        assert np.isnan([low, middle, high]).all()
        return
    true = p[yes].sum() / p[[*yes, *no]].sum()
    assert low - 1e-9 <= true <= high + 1e-9 and low <= middle <= high
    if shown == 8:
        assert low == high == pytest.approx(true)


@pytest.mark.slow
def test_pairs_of_a_document_follow_each_other(vllm, model, tokenizer, pairs):
    """The pairs come in by perspective; sent in that order, hardly any prompt would begin like the one before."""
    engine = Engine(model, max_logprobs=len(tokenizer))
    Vllm(engine, tokenizer, "tiny", top=len(tokenizer)).p_yes(pairs)
    texts = {p.passage.text[:60] for p in pairs}
    sent = [tokenizer.decode(p["prompt_token_ids"]) for p in engine.asked[0][0]]
    documents = [next(t for t in texts if t in prompt) for prompt in sent]
    changes = sum(a != b for a, b in itertools.pairwise(documents))
    came = [p.passage.text[:60] for p in pairs]
    assert changes == len(texts) - 1 < sum(a != b for a, b in itertools.pairwise(came))


def test_the_id_names_all_that_matters(model, tokenizer):
    base: Judge = Vllm(None, tokenizer, "tiny")
    others = [
        Vllm(None, tokenizer, "tiny2"), Vllm(None, tokenizer, "tiny", top=7), Vllm(None, tokenizer, "tiny", shots=1),
        Vllm(None, tokenizer, "tiny", max_length=512), Causal(model, tokenizer, "tiny"),
    ]  # fmt: skip
    assert len({j.id for j in [base, *others]}) == 6


@pytest.fixture(scope="module")
def folders(model, tokenizer, tmp_path_factory):
    """A checkpoint and a LoRA adapter of rank 20 on disk."""
    from peft import LoraConfig, get_peft_model

    folder = tmp_path_factory.mktemp("vllm")
    model.save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    fresh = MistralForCausalLM.from_pretrained(folder / "tiny")
    get_peft_model(fresh, LoraConfig(r=20, target_modules=["q_proj"])).save_pretrained(folder / "adapter")
    return folder


def test_loading_by_name(vllm, folders, pairs):
    judge = make_judge(f"vllm:{folders / 'tiny'}", title_position="none")
    assert judge.id.startswith("vllm(") and "title=none" in judge.id
    assert judge.engine.enable_prefix_caching and not judge.engine.enable_lora
    assert judge.engine.max_logprobs == judge.top == 100 and judge.engine.max_model_len == 2049
    small = load_vllm(str(folders / "tiny"), top=600, max_length=700, engine={"tensor_parallel_size": 4})
    assert small.engine.tensor_parallel_size == 4
    long = pairs[0]._replace(passage=Passage("d", "Ships carry grain. " * 400))
    assert 0 <= small.p_yes([long])[0] <= 1
    assert len(small.engine.asked[0][0][0]["prompt_token_ids"]) <= 700


def test_a_lora_adapter_goes_along_with_every_request(vllm, folders, pairs):
    adapter = str(folders / "adapter")
    judge = load_vllm(str(folders / "tiny"), adapter=adapter, top=600)
    judge.p_yes(pairs[:2])
    (_, request), engine = judge.engine.asked[0], judge.engine
    assert request.lora_path == adapter and request.lora_int_id > 0
    assert engine.enable_lora and engine.max_lora_rank == 32, "vLLM knows the ranks 8, 16, 32, …; its default is 16"
    assert judge.id != load_vllm(str(folders / "tiny"), top=600).id
    with pytest.raises(MissingDataError, match="no adapter_model"):
        load_vllm(str(folders / "tiny"), adapter=str(folders))


def test_without_vllm_the_error_says_how_to_install_it(monkeypatch, folders):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingDataError, match=r'pip install "berdslib\[vllm\]"'):
        make_judge(f"vllm:{folders / 'tiny'}")


def test_a_preset_brings_its_adapter_and_wording(monkeypatch, user_cache):
    with pytest.raises(MissingDataError, match="berds prompts fetch"):
        make_judge("vllm:mistral-berds")
    seen = {}
    monkeypatch.setattr(
        "berdslib.judging.registry.load_vllm", lambda checkpoint, **o: seen.update(o, checkpoint=checkpoint)
    )
    make_judge("vllm:mistral-berds")
    assert seen["checkpoint"].startswith("mistralai/Mistral-7B") and seen["wording"] == "published"
    assert seen["adapter"] == "timchen0618/Mistral_BERDS_evaluator"
