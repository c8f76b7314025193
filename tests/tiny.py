"""What tests of language models as judges share: a tokenizer, learnt in a moment, and pairs to judge."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.records import Passage
from berdslib.judging.base import Pair


def mistral_tokenizer(texts, size=600, *, marks=(), words=(), starts=True):
    """Return a byte-level BPE with Mistral's special tokens.

    Args:
        texts: to learn from.
        size: of the vocabulary.
        marks: special tokens besides <unk>, <s> and </s>.
        words: tokens of their own, in every text.
        starts: <s> is put before a text.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<unk>", "<s>", "</s>", *marks], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    bpe.train_from_iterator(texts, trainer)
    bpe.add_tokens(list(words))
    if starts:
        bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def bert_classifier(tokenizer, outputs=1):
    """Return a small random BERT that scores pairs of texts."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.vocab_size, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, initializer_range=0.5, num_labels=outputs,
    )  # fmt: skip
    return BertForSequenceClassification(config).eval()


def sample_pairs(one_in):
    """Return one passage in so many of the sample, each with all perspectives of its question."""
    questions = {q.qid: q for q in load_questions("sample", "all")}
    corpus = {p.docno: p for p in load_passages("sample")}
    rows = load_gold("sample").itertuples()
    found = [Pair(r.qid, r.pid, corpus[r.docno], questions[r.qid].perspectives[r.pid]) for r in rows]
    return [p for p in found if int(p.passage.docno[1:]) % one_in == 3]


def pair(text="cats are kind", perspective="Cats are kind.", docno="d", title=""):
    return Pair("q", 0, Passage(docno, text, title), perspective)
