"""Words in all scripts, for BM25 and for comparing texts.

Chinese, Japanese, Thai and their neighbours are written without blanks between words. BM25 reads their text as
overlapping pairs of characters, as Lucene's CJKAnalyzer does; comparisons take each character for a word.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

# Scripts without blanks between words, as the inside of a character class.
_THAI_TO_KHMER = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
_HAN_AND_KANA = (
    "\u3005-\u3007\u3021-\u303c\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
_WITHOUT_BLANKS = _THAI_TO_KHMER + _HAN_AND_KANA
# Korean has blanks, but writes particles onto its words; Lucene's CJKAnalyzer reads it in pairs, too.
_HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
# Variation selectors are marks, too, but follow emoji as well as letters.
_VARIATION_SELECTORS = re.compile("[\u180b-\u180f\ufe00-\ufe0f]")
# `\w` lacks combining marks, such as the vowel signs of Hindi, which are part of a word. Marks of rare scripts beyond
# 16 bits are left out: `re` would compare each of them with every character.
_MARKS = _VARIATION_SELECTORS.sub(
    "", "".join(mark for mark in map(chr, range(0x300, 0x10000)) if unicodedata.category(mark) in ("Mn", "Mc"))
)

# Patterns of one character in a prepared text: a part of a word, and a complete word.
IN_WORD = rf"[\w{_MARKS}]"
SINGLE_WORD = rf"(?=\w)[{_WITHOUT_BLANKS}{_HANGUL}]"
_CHARACTER = re.compile(f"{SINGLE_WORD}[{_MARKS}]*")
_RUN = re.compile(f"(?:{SINGLE_WORD}[{_MARKS}]*)+")
_WORD = re.compile(f"{IN_WORD}{{2,}}|{SINGLE_WORD}")
_ASCII_WORD = re.compile(r"\w\w+")
_OF_OTHER_WIDTH = re.compile("[\uff01-\uffee]+")
_STRAY_MARKS = re.compile(f"(?<!{IN_WORD})[{_MARKS}]+")
# The tatweel only stretches an Arabic word, and joiners only change how their neighbours are drawn.
_DRAWING = re.compile(f"\u0640+|(?<={IN_WORD})[\u200c\u200d]+(?={IN_WORD})")
_SPECIAL = re.compile(f"[\u0640\u200c\u200d{_MARKS}{_WITHOUT_BLANKS}{_HANGUL}]")
_COMPARED = rf"(?=[^\W_])[{_WITHOUT_BLANKS}][{_MARKS}]*|(?:[^\W_{_WITHOUT_BLANKS}][{_MARKS}]*)+"


def prepare(text: str) -> str:
    """Lower-case a text and write it so that its words are runs of letters, digits and marks.

    Full-width and half-width forms become plain ones, letters and their marks are composed (NFC), and a run of
    characters of a script without blanks becomes its overlapping pairs; a single character stays alone.

    >>> prepare("Ｐ２Ｐ禁止私家车")
    'p2p 禁止 止私 私家 家车 '
    """
    text = text.lower()
    if text.isascii():
        return text
    text = text.replace("i\u0307", "i")  # of the Turkish capital, as in Lucene
    text = _OF_OTHER_WIDTH.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)
    text = unicodedata.normalize("NFC", text)
    if not _SPECIAL.search(text):
        return text
    text = _STRAY_MARKS.sub(" ", _DRAWING.sub("", text))
    return _RUN.sub(lambda run: f" {_in_pairs(_CHARACTER.findall(run[0]))} ", text)


def _in_pairs(characters: list[str]) -> str:
    pairs = [first + second for first, second in pairwise(characters)]
    return " ".join(pairs or characters)


def words(text: str) -> list[str]:
    """Return the words for BM25, in lower case, without single letters and digits.

    >>> words("A café in मुंबई, 市中心"), words("税")
    (['café', 'in', 'मुंबई', '市中', '中心'], ['税'])
    """
    prepared = prepare(text)
    return (_ASCII_WORD if prepared.isascii() else _WORD).findall(prepared)


def compared_words(text: str, ending: str = "") -> list[str]:
    """Return the words for comparing texts, without regard to case, width, punctuation and composition.

    Each character of a script without blanks is a word. ``ending`` is a pattern of other characters that end a word.

    >>> compared_words("Zoos—CLOSE them!"), compared_words("C++ in हिन्दी", r"[+#]*"), compared_words("動物園")
    (['zoos', 'close', 'them'], ['c++', 'in', 'हिन्दी'], ['動', '物', '園'])
    """
    return re.findall(f"(?:{_COMPARED}){ending}", unicodedata.normalize("NFKC", text).casefold())
