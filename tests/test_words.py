"""Words of all scripts: English as ever, others in a way that lets a question find what argues about it."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import berdslib as bd
from berdslib.data.datasets import load_passages, load_questions
from berdslib.retrieval.bm25 import ANALYSERS, BM25, RankBM25, analyser
from berdslib.words import compared_words, words

# A passage, a question that shares a word or a part of one with it, and one that does not.
ASKED = {
    "Chinese": ("市中心应当禁止私家车，因为空气污染严重。", "应当禁止私家车吗？", "公园的猫"),
    "Chinese beside Latin": ("用iPhone拍照", "IPHONE手机", "手机"),
    "a single character": ("税", "税", "费"),
    "Japanese": ("都心では自家用車を禁止すべきだ。", "自家用車は必要か", "猫"),
    "half-width kana": ("ﾊﾟﾝ屋を守る", "パンは高い", "猫"),
    "full-width Latin": ("ＡＩは危険だ", "ai", "ab"),
    "Korean with a particle": ("동물원은 문을 닫아야 한다", "동물원을", "고양이"),
    "Korean, decomposed": (unicodedata.normalize("NFD", "동물원"), "동물원", "고양이"),
    "Thai": ("สวนสัตว์ควรปิด", "ปิดสวนสัตว์", "แมว"),
    "Khmer": ("សួនសត្វគួរបិទ", "បិទសួនសត្វ", "ឆ្មា"),
    "Hindi": ("चिड़ियाघर बंद होने चाहिए", "क्या चिड़ियाघर अच्छे हैं", "चिड़"),
    "Tamil": ("பூங்கா மூட வேண்டும்", "பூங்கா", "பூ"),
    "Arabic, stretched": ("يجب إغلاق الحديقـــة", "الحديقة", "حديق"),
    "Arabic with vowel signs": ("كَتَبَ", "كَتَبَ", "كتاب"),
    "Persian with a joiner": ("نمی\u200cخواهم", "نمیخواهم", "خواهم"),
    "Hebrew with points": ("שָׁלוֹם", "שָׁלוֹם", "של"),
    "French, decomposed": ("un cafe\u0301 noir", "caf\u00e9", "caf"),
    "Vietnamese, decomposed": (unicodedata.normalize("NFD", "cấm xe hơi"), "CẤM", "ca"),
    "Turkish": ("İstanbul'da araba", "istanbul", "stanbul"),
}


@pytest.mark.parametrize("make", [BM25, RankBM25])
@pytest.mark.parametrize("name", [name for name in ANALYSERS if name != "whitespace"])
def test_a_question_finds_the_passage_of_its_language(make, name):
    passages = [bd.Passage(language, text) for language, (text, _, _) in ASKED.items()]
    found = make(passages, analyser=name)
    for language, (_, related, unrelated) in ASKED.items():
        run = found.search([bd.Question("yes", related), bd.Question("no", unrelated)], len(passages))
        assert language in run.loc[run["qid"] == "yes", "docno"].tolist()
        assert language not in run.loc[run["qid"] == "no", "docno"].tolist()


def test_pairs_are_those_of_lucenes_cjk_analyser():
    """The examples of its class CJKBigramFilter and its tests: runs of one kind, a single character alone."""
    assert words("一二三四五六七八九十") == ["一二", "二三", "三四", "四五", "五六", "六七", "七八", "八九", "九十"]
    assert words("一 二三") == ["一", "二三"]
    assert words("多くの学生が試験に落ちた。") == [
        *["多く", "くの", "の学", "学生", "生が", "が試", "試験", "験に", "に落", "落ち", "ちた"]
    ]
    assert words("𩬅艱鍟䇹愯瀛") == ["𩬅艱", "艱鍟", "鍟䇹", "䇹愯", "愯瀛"]  # beyond 16 bits
    assert words("ab あいうえおabc かきくけこ") == [
        *["ab", "あい", "いう", "うえ", "えお", "abc", "かき", "きく", "くけ", "けこ"]
    ]


def test_the_analyser_of_pir_stays_as_its_authors_have_it():
    assert analyser("whitespace")("市中心 Cafe\u0301  x") == ["市中心", "Cafe\u0301", "", "x"]


def test_words_of_english_are_those_that_they_always_were():
    texts = [p.full_text for p in load_passages("sample")] + [q.text for q in load_questions("sample", "all")]
    for text in texts:
        assert words(text) == re.findall(r"(?u)\b\w\w+\b", text.lower())


@given(st.text(alphabet=st.characters(max_codepoint=0x2AF)))
def test_words_of_latin_letters_are_those_of_the_regular_expression(text):
    assert words(text) == re.findall(r"(?u)\b\w\w+\b", text.replace("İ", "I").lower())


@given(st.text())
def test_composition_and_width_make_no_difference(text):
    for form in ("NFC", "NFD"):
        assert words(unicodedata.normalize(form, text)) == words(unicodedata.normalize("NFC", text))
    assert compared_words(unicodedata.normalize("NFKD", text)) == compared_words(text)


def test_a_search_says_how_many_questions_found_nothing(caplog):
    asked = [bd.Question("zh", "猫"), bd.Question("en", "Should zoos close?")]
    data = bd.Collection("two", asked, [bd.Passage("1", "Zoos are cruel."), bd.Passage("2", "动物园")])
    for system in ("bm25", "rank-bm25", "bm25+mmr:0.5"):
        caplog.clear()
        assert bd.search(system, data)["qid"].unique().tolist() == ["en"]
        [record] = caplog.records
        assert record.levelname == "WARNING" and "1 of 2" in record.getMessage() and system in record.getMessage()
    caplog.clear()
    bd.search("minilm", data)
    assert not caplog.records
