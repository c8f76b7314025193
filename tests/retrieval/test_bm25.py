"""How BM25 reads words and weighs them, against bm25s' own `index` and the regular expression."""

import copy
import sys
import unicodedata
from itertools import pairwise

import bm25s
import numpy as np
import pytest
import Stemmer

from berdslib.data.datasets import load_passages
from berdslib.data.records import Passage, Question
from berdslib.retrieval import bm25
from berdslib.retrieval.bm25 import ANALYSERS, BM25, VARIANTS

STOP_WORDS = bm25s.tokenization.STOPWORDS_EN
# How the names of characters begin that are read in pairs.
IN_PAIRS = (
    *["CJK UNIFIED", "CJK COMPATIBILITY IDEO", "IDEOGRAPHIC ITERATION", "IDEOGRAPHIC CLOSING", "IDEOGRAPHIC NUMBER"],
    *["HANGZHOU", "VERTICAL IDEO", "HIRAGANA", "KATAKANA", "HENTAIGANA", "VERTICAL KANA", "MASU", "BOPOMOFO"],
    *["HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", "TAI", "NEW TAI"],
)


def kind_of(character):
    """Return "mark", "pair", "word" or "" for what is in none; by names and categories, not by ranges."""
    if unicodedata.category(character) in ("Mn", "Mc"):
        return "" if "VARIATION SELECTOR" in unicodedata.name(character) or character > "\uffff" else "mark"
    if not (character.isalnum() or character == "_"):
        return ""
    return "pair" if unicodedata.name(character, "").startswith(IN_PAIRS) else "word"


def words_of(text):
    """Read a text one character at a time."""
    wide = (unicodedata.normalize("NFKC", c) if "\uff01" <= c <= "\uffee" else c for c in text.lower())
    found, before = [], ""
    for character in unicodedata.normalize("NFC", "".join(wide).replace("i\u0307", "i")):
        kind = kind_of(character)
        if kind == "mark":
            if before:
                found[-1][-1] += character
            continue
        if kind and kind == before:
            found[-1].append(character)
        elif kind:
            found.append([character])
        before = kind
    words = []
    for run in found:
        if kind_of(run[0][0]) == "pair":
            words += ["".join(pair) for pair in pairwise(run)] or run
        elif len(word := "".join(run)) > 1:
            words.append(word)
    return words


def content_words_of(text):
    return [word for word in words_of(text) if word not in STOP_WORDS]


# What each analyser does, written out; "commas" is one that a user adds.
PLAIN = {
    "english": content_words_of,
    "english-stem": lambda text: Stemmer.Stemmer("english").stemWords(content_words_of(text)),
    "words": words_of,
    "whitespace": lambda text: text.split(" "),
    "commas": lambda text: text.split(","),
}


def mixed_passages(n=150, seed=4):
    """Words of several scripts, many of them often; stop words, single letters, no text, one word again and again."""
    rng = np.random.default_rng(seed)
    words = ["the", "Of", "cats", "cat", "running", "x", "7", "42", "a_b", "_", "don't", "naïve", "ΣΟΦΟΣ", "İstanbul"]
    words += [
        "straße",
        "日本語",
        "देवनागरी",
        "e\u0301t\u00e9",
        "x²",
        "Ⅻ",
        "🙂",
        "ไม่ดี",
        "AIの税",
        "Ｃａｔｓ",
        "ﾊﾟﾝ屋",
        "공원은",
    ]
    words += ["\u0301", "", "tab\tbed", "a,b"]
    shares = 1 / np.arange(1, len(words) + 1)
    shares /= shares.sum()
    drawn = [rng.permutation(rng.choice(words, rng.integers(0, 25), p=shares)) for _ in range(n)]
    passages = [Passage(f"d{i:03}", " ".join(row), "Of the title" if i % 3 else "") for i, row in enumerate(drawn)]
    return [*passages, Passage("none", ""), Passage("stop words", "the of"), Passage("again", "cats " * 300)]


@pytest.fixture(scope="module", params=["sample", "mixed"])
def passages(request):
    return load_passages("sample") if request.param == "sample" else mixed_passages()


@pytest.fixture
def small_parts(monkeypatch):
    """Let every seam be crossed: between batches of texts, short or long, and between parts that are weighed."""
    monkeypatch.setattr(bm25, "_BATCH", 7)
    monkeypatch.setattr(bm25, "_WEIGHED", 100)
    monkeypatch.setitem(ANALYSERS, "commas", lambda: PLAIN["commas"])


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_are_those_that_bm25s_computes_itself_to_the_last_bit(variant, name, passages, small_parts):
    numbers, lists = {}, []
    for passage in passages:
        lists.append([numbers.setdefault(word, len(numbers)) for word in PLAIN[name](passage.full_text)])
    peer = bm25s.BM25(k1=1.1, b=0.6, method=variant, dtype="float64")
    peer.index((lists, dict(numbers)), create_empty_token=False, show_progress=False)

    ours = BM25(passages, variant=variant, k1=1.1, b=0.6, analyser=name)

    assert ours._index.vocab_dict == numbers
    assert ours._index.unique_token_ids_set == peer.unique_token_ids_set
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(ours._index.scores[part], peer.scores[part], strict=True)
    assert ours._index.scores["num_docs"] == peer.scores["num_docs"] == len(passages)
    on_peer = copy.copy(ours)
    on_peer._index = peer
    asked = [Question(f"q{i}", p.full_text[:60]) for i, p in enumerate(passages[::5])]
    assert ours.search(asked, 20).equals(on_peer.search(asked, 20))


def assert_same_words(texts):
    words, counts = bm25._find_words(texts)
    lists = [words_of(text) for text in texts]
    assert words == [word for one in lists for word in one]
    assert counts.tolist() == [len(one) for one in lists]


@pytest.mark.slow
def test_every_character_is_read_as_its_name_and_category_say():
    """Alone, doubled, after a letter, before one, and between two; lower-casing can make two characters of one."""
    dropped = "\u0640\u200c\u200d"
    every = [c for c in map(chr, range(sys.maxunicode + 1)) if c not in dropped]
    known = [c for c in every if unicodedata.category(c) not in ("Cn", "Co", "Cs")] + every[::97]
    assert_same_words(
        ["".join(f"{c} {c}{c} a{c} {c}a a{c}a " for c in known[i : i + 2**14]) for i in range(0, len(known), 2**14)]
    )


def test_an_empty_word_that_no_passage_holds_finds_nothing(tmp_path):
    """Two blanks have an empty word between them, which bm25s' own index numbers although it has no column for it."""
    passages, asked = [Passage("a", "two blanks"), Passage("b", "two")], [Question("q", "two  blanks")]
    fresh = BM25(passages, analyser="whitespace")
    assert fresh.search(asked, 5)["docno"].tolist() == ["a", "b"]
    fresh.save(tmp_path / "index")
    opened = BM25.load(tmp_path / "index")
    opened._index.vocab_dict[""] = len(opened._index.vocab_dict)
    assert opened.search(asked, 5).equals(fresh.search(asked, 5))


def test_a_corpus_without_a_word_finds_nothing_also_once_saved(tmp_path):
    fresh = BM25([Passage("a", ""), Passage("b", "the of"), Passage("c", "x")])
    fresh.save(tmp_path / "index")
    for index in (fresh, BM25.load(tmp_path / "index")):
        assert index.search([Question("q1", "cats"), Question("q2", "x the")], 5).empty
        assert np.isfinite(index._index.scores["data"]).all()
