"""NV-Embed on a tiny random checkpoint of its layout, against the formulae of the paper in loops, a text at a time."""

import json
import math
import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import mistral_tokenizer

from berdslib.data.datasets import load_passages
from berdslib.errors import InputError
from berdslib.models import loading
from berdslib.models.cards import CARDS
from berdslib.models.encoders import SentenceEncoder

# Of many lengths, in no order, so that batches are padded and their order is not that of the texts.
TEXTS = [f"{'cats sleep and dogs bark ' * (n * 7 % 5)}number {n}." for n in range(6)]
WIDTH, HEADS, KEYS, LAYERS, LATENTS, CROSS, HEAD, MULT = 64, 4, 2, 2, 5, 2, 16, 4
TEXT_CONFIG = {
    "_name_or_path": "nvidia/NV-Embed-v2", "model_type": "bidir_mistral",
    "architectures": ["BidirectionalMistralModel"],
    "hidden_size": WIDTH, "intermediate_size": 128, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": KEYS, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "sliding_window": 4, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
LATENT_CONFIG = {
    "model_type": "latent_attention", "hidden_dim": WIDTH, "latent_dim": WIDTH, "num_latents_value": LATENTS,
    "num_cross_heads": CROSS, "cross_dim_head": HEAD, "mult": MULT, "output_normalize": True,
}  # fmt: skip
BLOCKS = "latent_attention_model.cross_attend_blocks"


@pytest.fixture(scope="module")
def words():
    """A tokenizer as Mistral's is: <s> before a text, </s> in it is the end mark."""
    return mistral_tokenizer([p.full_text for p in load_passages("sample")[:80]])


def random_weights(words):
    torch.manual_seed(0)
    shapes = {"embedding_model.embed_tokens.weight": (len(words), WIDTH)}
    for i in range(LAYERS):
        layer = f"embedding_model.layers.{i}"
        part = WIDTH // HEADS * KEYS
        shapes |= {
            f"{layer}.self_attn.{name}_proj.weight": (n, WIDTH)
            for name, n in zip("qkv", (WIDTH, part, part), strict=True)
        }
        shapes |= {f"{layer}.self_attn.o_proj.weight": (WIDTH, WIDTH), f"{layer}.mlp.down_proj.weight": (WIDTH, 128)}
        shapes |= {f"{layer}.mlp.{name}_proj.weight": (128, WIDTH) for name in ("gate", "up")}
    shapes |= {
        "latent_attention_model.latents": (LATENTS, WIDTH),
        f"{BLOCKS}.0.fn.to_q.weight": (CROSS * HEAD, WIDTH),
        f"{BLOCKS}.0.fn.to_kv.weight": (2 * CROSS * HEAD, WIDTH),
        f"{BLOCKS}.0.fn.to_out.weight": (WIDTH, CROSS * HEAD),
        f"{BLOCKS}.1.fn.net.0.weight": (2 * MULT * WIDTH, WIDTH),
        f"{BLOCKS}.1.fn.net.0.bias": (2 * MULT * WIDTH,),
        f"{BLOCKS}.1.fn.net.2.weight": (WIDTH, MULT * WIDTH),
        f"{BLOCKS}.1.fn.net.2.bias": (WIDTH,),
    }
    weights = {name: torch.randn(shape) * 0.2 for name, shape in shapes.items()}
    norms = [f"embedding_model.layers.{i}.{n}_layernorm" for i in range(LAYERS) for n in ("input", "post_attention")]
    weights |= {f"{name}.weight": torch.rand(WIDTH) + 0.5 for name in [*norms, "embedding_model.norm"]}
    for norm in (f"{BLOCKS}.0.norm", f"{BLOCKS}.0.norm_context", f"{BLOCKS}.1.norm"):
        weights |= {f"{norm}.weight": torch.rand(WIDTH) + 0.5, f"{norm}.bias": torch.randn(WIDTH) * 0.2}
    return weights


@pytest.fixture
def folder(tmp_path, words):
    """A checkpoint with the files of the published one, less its code."""
    folder = tmp_path / "nv"
    words.save_pretrained(folder)
    own = {"AutoConfig": "configuration_nvembed.NVEmbedConfig", "AutoModel": "modeling_nvembed.NVEmbedModel"}
    config = {
        "model_type": "nvembed", "architectures": ["NVEmbedModel"], "auto_map": own, "add_eos": True,
        "add_pad_token": True, "is_mask_instruction": True, "mask_type": "b", "padding_side": "right",
        "latent_attention_config": LATENT_CONFIG,
        "text_config": TEXT_CONFIG | {"vocab_size": len(words)}, "torch_dtype": "float16",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    save_file(random_weights(words), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def on(folder, **changes):
    return SentenceEncoder(CARDS["nv-embed-v2"]._replace(checkpoint=str(folder), max_length=400, **changes))


# ---------------------------------------------------------------- the formulae, in loops


def attend(query, keys, values):
    weights = torch.stack([(query @ key / math.sqrt(len(query))).exp() for key in keys])
    return sum(w * v for w, v in zip(weights / weights.sum(), values, strict=True))


def rms(x, weight):
    return weight * x / (x.pow(2).mean() + 1e-5).sqrt()


def turned(x, position):
    """Rotary positions: numbers i and i + d/2 are a point that turns by position / 10000^(2i/d)."""
    half = len(x) // 2
    angles = position / 10000 ** (torch.arange(half) * 2 / len(x))
    points = torch.complex(x[:half], x[half:]) * torch.polar(torch.ones(half), angles)
    return torch.cat([points.real, points.imag])


def mistral(w, ids):
    """The last layer of each token; every token looks at every other."""
    hidden = [w["embedding_model.embed_tokens.weight"][i] for i in ids]
    for n in range(LAYERS):
        name = f"embedding_model.layers.{n}"
        normed = [rms(h, w[f"{name}.input_layernorm.weight"]) for h in hidden]
        q, k, v = ([w[f"{name}.self_attn.{x}_proj.weight"] @ h for h in normed] for x in "qkv")
        size = WIDTH // HEADS
        heads = [slice(i * size, (i + 1) * size) for i in range(HEADS)]
        keys = [[turned(one[own], position) for position, one in enumerate(k)] for own in heads[:KEYS]]
        for t, h in enumerate(hidden):
            mixed = []
            for i, own in enumerate(heads):
                shared = i * KEYS // HEADS  # several heads of questions share one of keys and values
                mixed.append(attend(turned(q[t][own], t), keys[shared], [one[heads[shared]] for one in v]))
            hidden[t] = h + w[f"{name}.self_attn.o_proj.weight"] @ torch.cat(mixed)
        for t, h in enumerate(hidden):
            x = rms(h, w[f"{name}.post_attention_layernorm.weight"])
            gate, up = w[f"{name}.mlp.gate_proj.weight"] @ x, w[f"{name}.mlp.up_proj.weight"] @ x
            hidden[t] = h + w[f"{name}.mlp.down_proj.weight"] @ (gate / (1 + (-gate).exp()) * up)
    return [rms(h, w["embedding_model.norm.weight"]) for h in hidden]


def layer_norm(w, name, x):
    centred = x - x.mean()
    return w[f"{name}.weight"] * centred / (centred.pow(2).mean() + 1e-5).sqrt() + w[f"{name}.bias"]


def latent(w, h):
    inner = CROSS * HEAD
    latents = [layer_norm(w, f"{BLOCKS}.0.norm_context", x) for x in w["latent_attention_model.latents"]]
    query = w[f"{BLOCKS}.0.fn.to_q.weight"] @ layer_norm(w, f"{BLOCKS}.0.norm", h)
    keys = [w[f"{BLOCKS}.0.fn.to_kv.weight"][:inner] @ x for x in latents]
    values = [w[f"{BLOCKS}.0.fn.to_kv.weight"][inner:] @ x for x in latents]
    parts = [slice(i * HEAD, (i + 1) * HEAD) for i in range(CROSS)]
    mixed = torch.cat([attend(query[p], [k[p] for k in keys], [v[p] for v in values]) for p in parts])
    h = h + w[f"{BLOCKS}.0.fn.to_out.weight"] @ mixed
    wide = w[f"{BLOCKS}.1.fn.net.0.weight"] @ layer_norm(w, f"{BLOCKS}.1.norm", h) + w[f"{BLOCKS}.1.fn.net.0.bias"]
    x, gate = wide[: MULT * WIDTH], wide[MULT * WIDTH :]
    gelu = gate * (1 + torch.erf(gate / math.sqrt(2))) / 2
    return h + w[f"{BLOCKS}.1.fn.net.2.weight"] @ (x * gelu) + w[f"{BLOCKS}.1.fn.net.2.bias"]


def by_hand(w, words, text, instruction=""):
    ids = words(instruction + text + "</s>")["input_ids"]
    assert ids[0] == words.bos_token_id and ids[-1] == words.eos_token_id
    left_out = len(words(instruction, add_special_tokens=False)["input_ids"]) if instruction else 0
    mean = torch.stack([latent(w, h) for h in mistral(w, ids)[left_out:]]).mean(dim=0)
    return (mean / mean.norm()).numpy()


# ---------------------------------------------------------------- against them


def test_vectors_are_those_of_the_formulae_with_the_instruction_before_questions_only(folder, words):
    weights, encoder = load_file(folder / "model.safetensors"), on(folder)
    texts = ["number 0.", "dogs bark at cats.", "ships"]
    assert len({len(words(t)["input_ids"]) for t in texts}) == 3
    want = np.stack([by_hand(weights, words, t) for t in texts])
    assert np.ptp(want, axis=0).max() > 0.05  # the texts do differ
    got = encoder.encode_passages(texts)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, atol=2e-5)
    instruction = "Find it\nQuery: "
    asked = on(folder, query_prefix=instruction).encode_queries(texts[:2])
    np.testing.assert_allclose(asked, [by_hand(weights, words, t, instruction) for t in texts[:2]], atol=2e-5)
    prompt = CARDS["nv-embed-v2"].query_prefix
    assert prompt.startswith("Instruct: ") and prompt.endswith("\nQuery: ")
    print(f"largest difference to the formulae: passages {np.abs(got - want).max():.1e}")


def test_the_instruction_is_not_averaged_but_for_its_last_piece(folder, words):
    """The mark of the beginning is a position: leaving out as many as the instruction has pieces leaves one in."""
    from berdslib.models.nv_embed import NvEmbed

    model = loading.load_weights(NvEmbed, str(folder), exactly=True)
    instruction, text = "Instruct: find it\nQuery: ", "cats sleep"
    ids = torch.tensor([words(instruction + text + "</s>")["input_ids"]])
    pieces = len(words.tokenize(instruction))
    got = on(folder, query_prefix=instruction).encode_queries([text])[0]
    averaged = {n: (torch.arange(ids.shape[1]) >= n).long()[None] for n in (0, pieces, pieces + 1)}
    with torch.no_grad():
        by = {n: model(ids, torch.ones_like(ids), mask)[0].numpy() for n, mask in averaged.items()}
    np.testing.assert_allclose(got, by[pieces], atol=1e-5)
    assert np.abs(got - by[0]).max() > 1e-3 and np.abs(got - by[pieces + 1]).max() > 1e-3
    with pytest.raises(InputError, match="leaves no room for a text in 5"):
        SentenceEncoder(on(folder, query_prefix=instruction).card._replace(max_length=5)).encode_queries([text])


# ---------------------------------------------------------------- what the checkpoint must hold


@pytest.mark.parametrize("name", ["embedding_model.layers.1.mlp.up_proj.weight", f"{BLOCKS}.0.norm_context.bias"])
def test_a_weight_that_is_missing_left_over_or_of_another_shape_is_named(folder, name):
    weights = load_file(folder / "model.safetensors")

    def refused(changed, what):
        save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(InputError, match=what):
            on(folder).encode_passages(TEXTS)

    refused({k: v for k, v in weights.items() if k != name}, name)
    refused(weights | {f"{name}_too": weights[name].clone()}, f"{name}_too")
    refused(weights | {name: weights[name][:-1].clone()}, name)


@pytest.mark.parametrize(
    "change",
    [{"padding_side": "left"}, {"latent_attention_config": {"latent_dim": 32}}, {"latent_attention_config": None}],
)
def test_a_config_that_asks_for_more_is_refused(folder, change):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=re.escape(str(folder))):
        on(folder).encode_passages(TEXTS)


# ---------------------------------------------------------------- numbers


def test_four_bits_are_the_rounded_weights_of_the_language_model(folder, words):
    bnb = pytest.importorskip("bitsandbytes")
    weights = load_file(folder / "model.safetensors")

    def rounded(name, weight):
        if not name.startswith("embedding_model.layers") or weight.ndim == 1:
            return weight
        small, state = bnb.functional.quantize_4bit(weight, quant_type="nf4", blocksize=64)
        return bnb.functional.dequantize_4bit(small, state)

    exact, got = on(folder).encode_passages(TEXTS), on(folder, number_format="4bit").encode_passages(TEXTS)
    changed = {name: rounded(name, weight) for name, weight in weights.items()}
    save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
    want = on(folder).encode_passages(TEXTS)
    to_rounded, to_exact = float(np.abs(got - want).mean()), float(np.abs(got - exact).mean())
    print(f"mean difference to the rounded weights {to_rounded:.5f}, to the float ones {to_exact:.5f}")
    assert to_rounded < 0.005 and to_exact > 5 * to_rounded  # some processors multiply 4 bits in bfloat16
