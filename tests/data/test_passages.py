"""Cutting documents, dropping equal texts, counting: worked examples and properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.data.passages import (
    corpus_statistics,
    cut_documents,
    split_words,
    without_duplicates,
)
from berdslib.data.records import Passage
from berdslib.errors import InputError

# Text with what trips splitters: full stops, quotes, blank lines, white space that is not ASCII.
documents = st.lists(
    st.one_of(
        st.sampled_from([" ", "\n", "\n\n", "\t", " ", "\x1c", ". ", "! ", "? ", '."', "Mr. ", "U.S. ", "...", "é"]),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    ),
    max_size=60,
).map("".join)


# ---------------------------------------------------------------- cutting


@given(documents, st.integers(1, 7))
def test_words_are_all_there_in_order_and_only_the_last_piece_is_short(text, words):
    pieces = split_words(text, words)
    assert [w for p in pieces for w in p.split()] == text.split()
    assert all(len(p.split()) == words for p in pieces[:-1])
    assert all(1 <= len(p.split()) <= words for p in pieces)


def test_passages_are_named_after_their_document_and_keep_its_title():
    given = [Passage("a", "one two three", "T"), Passage("blank", " "), Passage("a-0", "four")]
    assert list(cut_documents(given, words=2)) == [
        Passage("a-0", "one two", "T"),
        Passage("a-1", "three", "T"),
        Passage("a-0-0", "four"),
    ]


# ---------------------------------------------------------------- repeats


def test_exact_repeats_by_hand():
    given = [
        Passage("a", "Tea is good."),
        Passage("b", "TEA  is\ngood.", "other title"),
        Passage("c", "Tea is good!"),
        Passage("d", "", "Only a title"),
        Passage("e", " ", "Another title"),
        Passage("f", "", "only a TITLE"),
    ]
    dropped = []
    assert [p.docno for p in without_duplicates(given, dropped)] == ["a", "c", "d", "e"]
    assert dropped == ["b", "f"]


# ---------------------------------------------------------------- counting


def test_statistics_by_hand():
    passages = [Passage("a-0", "one two three", "T"), Passage("a-1", "four", "T"), Passage("b-0", "five six", "T")]
    assert corpus_statistics(passages) == {"passages": 3, "documents": 2, "mean_words": 2.0}
    assert corpus_statistics(passages, cut=False)["documents"] == 3
    # Names that do not end in a number are names of documents.
    assert corpus_statistics([Passage("x-1a", "w"), Passage("x-2a", "w")])["documents"] == 2
    with pytest.raises(InputError):
        corpus_statistics([])
