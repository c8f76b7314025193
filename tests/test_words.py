"""Words of all languages: what BM25 searches by, by Lucene's rules, and English as it was cut before."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import berdslib as bd
from berdslib.retrieval.bm25 import _find_words
from berdslib.words import compared_words, words

ENGLISH_BEFORE = re.compile(r"(?u)\b\w\w+\b")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The cats' 2 toys, e.g. No_1", ["the", "cats", "toys", "no_1"]),
        ("市中心禁止", ["市中", "中心", "心禁", "禁止"]),
        ("税。禁止", ["税", "禁止"]),
        ("自家用車 is ＣＡＲ", ["自家", "家用", "用車", "is", "car"]),
        ("ｶﾞ", ["ガ"]),  # half-width, with its mark
        ("서울 시", ["서울", "시"]),
        ("मुंबई की हवा", ["मुंबई", "की", "हवा"]),
        ("cafe\u0301", ["café"]),
        ("ห้าม", ["ห้า", "าม"]),
        ("مُحَمَّد", ["مُحَمَّد"]),
        ("שָׁלוֹם", [unicodedata.normalize("NFC", "שָׁלוֹם")]),
        ("", []),
        ("…!", []),
    ],
)
def test_by_hand(text, found):
    assert words(text) == found


@given(st.text(st.characters(max_codepoint=0x2FF)))
def test_texts_in_latin_letters_are_cut_as_before(text):
    composed = unicodedata.normalize("NFC", text.lower())
    assert words(text) == ENGLISH_BEFORE.findall(composed)


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_many_texts_at_once_have_the_words_of_each(texts):
    found, counts = _find_words(texts)
    assert found == [word for text in texts for word in words(text)]
    assert counts.tolist() == [len(words(text)) for text in texts]


@given(st.text())
def test_composition_does_not_matter(text):
    assert words(unicodedata.normalize("NFD", text)) == words(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize("system", ["bm25", "rank-bm25"])
@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("市中心应当禁止私家车吗？", "市中心应当禁止私家车，因为空气污染严重。", "公园在夜间应当关闭。"),
        ("自家用車は禁止すべきか", "都心では自家用車を禁止すべきだ。", "公園は夜に閉めるべきだ。"),
        ("ควรห้ามรถยนต์ไหม", "ควรห้ามรถยนต์ในเมือง", "สวนสาธารณะปิดกลางคืน"),
        ("क्या कारों पर रोक लगे", "शहर में कारों पर रोक लगे", "पार्क रात में बंद हों"),
        ("자동차를 금지해야 하나", "도심에서 자동차를 금지해야 한다", "공원은 밤에 닫는다"),
    ],
)
def test_bm25_finds_what_shares_words(system, question, right, wrong):
    passages = [bd.Passage("right", right), bd.Passage("wrong", wrong), bd.Passage("other", "Trams are dear.")]
    data = bd.Collection("cars", [bd.Question("q", question, ("a", "b"))], passages)
    assert bd.search(system, data, k=1)["docno"].tolist() == ["right"]


def test_what_texts_are_compared_by_has_a_word_a_character_where_there_are_no_blanks():
    assert compared_words("Zoos—CLOSE them!") == ["zoos", "close", "them"]
    assert compared_words("動物園") == ["動", "物", "園"]
