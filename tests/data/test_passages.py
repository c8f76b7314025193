"""Cutting documents, dropping repeats, counting: worked examples, properties, and brute force."""

import random
from collections import Counter
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from berdslib.data.passages import (
    corpus_statistics,
    cut_documents,
    split_sentences,
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


@example('He said "no."[1] She left.', 7)  # Punkt would cut the word in two
@given(documents, st.integers(1, 7))
def test_sentences_lose_and_move_no_word_and_fit(text, words):
    pieces = split_sentences(text, words)
    assert [w for p in pieces for w in p.split()] == text.split()
    assert all(1 <= len(p.split()) <= words for p in pieces)


@given(st.lists(st.integers(1, 12), max_size=20), st.integers(12, 30))
def test_plain_sentences_are_never_cut_and_fill_each_piece(lengths, words):
    text = " ".join(" ".join(["Word", *["word"] * (n - 1)]) + "." for n in lengths)
    pieces = [len(p.split()) for p in split_sentences(text, words)]
    expected = [0]
    for n in lengths:  # greedily, as many as fit
        if expected[-1] + n > words:
            expected.append(0)
        expected[-1] += n
    assert pieces == [n for n in expected if n]


def test_sentences_by_hand():
    text = 'Dr. Lee left the U.S. in May. "Why?" he asked. It cost $3.50, e.g. too much.\n\nA heading\n\nThe end.'
    assert split_sentences(text, 7) == [
        "Dr. Lee left the U.S. in May.",
        '"Why?" he asked.',
        "It cost $3.50, e.g. too much.",
        "A heading The end.",
    ]
    assert split_sentences("It was late. The U.S. Senate met.", 5) == ["It was late.", "The U.S. Senate met."]
    assert split_sentences('It is "so."[1][2] She left. He, too.', 4) == ['It is "so."[1][2]', "She left. He, too."]
    # A sentence of 7 words into pieces of 3: what is left starts the next piece.
    assert split_sentences("Short one. A b c d e f g. Last one.", 3) == ["Short one.", "A b c", "d e f", "g. Last one."]
    assert split_sentences("a b c d", 2) == ["a b", "c d"]


def test_passages_are_named_after_their_document_and_keep_its_title():
    given = [Passage("a", "one two three", "T"), Passage("blank", " "), Passage("a-0", "four")]
    assert list(cut_documents(given, partial(split_words, words=2))) == [
        Passage("a-0", "one two", "T"),
        Passage("a-1", "three", "T"),
        Passage("a-0-0", "four"),
    ]


# ---------------------------------------------------------------- repeats


def kept(passages, near):
    return [p.docno for p in without_duplicates(passages, near)]


def test_exact_repeats_by_hand():
    given = [
        Passage("a", "Tea is good."),
        Passage("b", "TEA  is\ngood.", "other title"),
        Passage("c", "Tea is good!"),
        Passage("d", "", "Only a title"),
        Passage("e", " ", "Another title"),
        Passage("f", "", "only a TITLE"),
    ]
    removed = Counter()
    assert [p.docno for p in without_duplicates(given, None, removed)] == ["a", "c", "d", "e"]
    assert removed == {"exact": 2}


def planted(rng, n, edits):
    """Texts of 100 random words, each followed somewhere by a copy with so many of its words replaced."""
    vocabulary = [f"word{i}" for i in range(5000)]
    texts = []
    for _ in range(n):
        words = rng.choices(vocabulary, k=100)
        copy = list(words)
        for place in rng.sample(range(100), rng.choice(edits)):
            copy[place] = rng.choice(vocabulary)
        texts += [words, copy]
    rng.shuffle(texts)
    return [Passage(str(i), " ".join(words)) for i, words in enumerate(texts)]


def kept_by_brute_force(passages, near):
    """Compare each passage with all that were kept, pair of words by pair of words."""
    shown = []
    for p in passages:
        words = p.text.lower().split()
        pairs = {(a, b) for a, b in pairwise(words)}
        if all(len(pairs & other) / len(pairs | other) < near for _, other in shown):
            shown.append((p.docno, pairs))
    return [docno for docno, _ in shown]


@pytest.mark.slow
@pytest.mark.parametrize("near", [0.5, 0.7, 0.8, 0.95, 1.0])
def test_near_repeats_against_brute_force(near):
    passages = planted(random.Random(7), 150, edits=range(1, 12))
    ours, truth = set(kept(passages, near)), set(kept_by_brute_force(passages, near))
    assert truth <= ours, "a passage below the threshold was dropped"
    to_drop = len(passages) - len(truth)
    assert len(ours - truth) <= 0.02 * to_drop + 1


# ---------------------------------------------------------------- counting


def test_statistics_by_hand():
    passages = [Passage("a-0", "one two three", "T"), Passage("a-1", "four", "T"), Passage("b-0", "five six", "T")]
    assert corpus_statistics(passages) == {"passages": 3, "documents": 2, "mean_words": 2.0}
    assert corpus_statistics(passages, "title")["documents"] == 1
    assert corpus_statistics(passages, "passage")["documents"] == 3
    # Names that do not end in a number are names of documents; without a title, a passage is a document.
    assert corpus_statistics([Passage("x-1a", "w"), Passage("x-2a", "w")])["documents"] == 2
    assert corpus_statistics([Passage("x", "w"), Passage("y", "w")], "title")["documents"] == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        *((partial(kept, [], near), r"from 0\.5 to 1 was") for near in (0.0, 0.49, 1.01, float("nan"))),
        (partial(corpus_statistics, []), "no passages"),
        (partial(corpus_statistics, [Passage("a", "b")], "url"), "docno, passage, title"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()
