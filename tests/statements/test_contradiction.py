"""Whether two statements contradict each other: what the rule is sure of, and what it leaves open."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from berdslib.statements import negate, two_sides
from berdslib.statements.contradiction import are_opposites, contradict, same_text, stem

SUBJECTS = ["Zoos", "Public libraries", "Night trains", "School uniforms", "Short weeks"]
PREDICATES = ["be closed", "be paid for by the state", "have more rights than cars", "replace flights", "last longer"]


def test_what_the_rule_is_sure_of_and_what_it_leaves_open():
    lines = (Path(__file__).parent / "cases.tsv").read_text(encoding="utf-8").splitlines()
    for kind, *pair in (line.split("\t") for line in lines):
        if kind in (known := {"contradict": True, "agree": False, "open": None}):
            assert contradict(*pair) is known[kind] and contradict(*pair[::-1]) is known[kind], pair


@settings(deadline=None)  # the first one reads the lexicon
@given(st.sampled_from(SUBJECTS), st.sampled_from(PREDICATES))
def test_a_statement_and_its_negation_by_rule_contradict(subject, predicate):
    statement = f"{subject} should {predicate}."
    assert contradict(statement, negate(statement)) is True
    assert contradict(statement, negate(negate(statement))) is False


@given(st.sampled_from(SUBJECTS), st.sampled_from(PREDICATES))
def test_the_two_answers_to_a_question_contradict(subject, predicate):
    sides = two_sides(f"Should {subject.lower()} {predicate}?", choices=False)
    assert sides is None or contradict(*sides) is True


@given(st.sets(st.integers(0, 3)), st.sampled_from(["Some", "Many", "All", "No"]), st.booleans(), st.booleans())
def test_what_a_small_world_makes_true_twice_is_no_contradiction(free, quantity, one, other):
    """Of four libraries some are free: by counting, and not by words, says whether both statements hold."""
    n = {True: len(free), False: 4 - len(free)}
    some, most = {"Some": (1, 4), "Many": (2, 4), "All": (4, 4), "No": (0, 0)}[quantity]
    first, second = (f"{quantity} libraries are {'' if said else 'not '}free." for said in (one, other))
    if some <= n[one] <= most and some <= n[other] <= most:
        assert contradict(first, second) is not True


@given(st.text(), st.text())
def test_any_two_texts_are_judged_alike_in_either_order(first, second):
    assert contradict(first, second) is contradict(second, first)


@given(st.text(min_size=1))
def test_no_text_contradicts_itself(text):
    assert contradict(text, text) is not True


def test_opposites_are_found_by_list_and_by_prefix_and_on_both_sides():
    for one, other in (("raise", "reduce"), ("fair", "unfair"), ("banned", "allowed"), ("necessary", "unnecessary")):
        assert are_opposites(stem(one), stem(other)) and are_opposites(stem(other), stem(one))
    for one, other in (("port", "report"), ("come", "zoo"), ("be", "unbe"), ("fair", "fair")):
        assert not are_opposites(stem(one), stem(other))


def test_texts_are_the_same_whatever_their_case_and_punctuation():
    for first, second in (
        ("Zoos close.", "“zoos”  Close!"),
        ("Well-being.", "Well being"),
        ("ﬁrst ﬁrst", "First first"),
    ):
        assert same_text(first) == same_text(second)
    unlike = ("The best is C.", "The best is C++.", "The best is C#.", "Pay 5%.", "Pay 5.")
    assert len({same_text(text) for text in unlike}) == 5


def test_vowel_signs_are_part_of_a_word():
    """Hindi's "do it" and "are done" differ in nothing else."""
    assert contradict("काम करो", "काम करे") is None
    assert contradict("काम करो", "काम करो") is False
