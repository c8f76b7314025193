"""Whether two statements contradict each other: what the rule is sure of, and what it leaves open."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berdslib.statements.contradiction import are_opposites, contradict, same_text, stem
from berdslib.statements.negation import negate, yes_and_no

SUBJECTS = ["Zoos", "Public libraries", "Night trains", "School uniforms", "Short weeks"]
PREDICATES = ["be closed", "be paid for by the state", "have more rights than cars", "replace flights", "last longer"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Night trains should replace short flights.", "Night trains should not replace short flights."),
        ("Night trains can replace flights.", "Night trains can't replace flights."),
        ("Uniforms make school fairer.", "It is not true that uniforms make school fairer."),
        ("There is a duty to vote.", "There is no duty to vote."),
        ("Rent control helps tenants.", "Rent control does not help tenants."),
        ("Plastic bags should be banned.", "Plastic bags should be allowed."),
        ("Short weeks are beneficial for families.", "Short weeks are harmful for families."),
        ("The levy is fair.", "The levy is unfair."),
        ("Fireworks do more harm than good.", "Fireworks do more good than harm."),
        ("Trams are better than buses.", "Buses are better than trams."),
        ("Lessons should last longer.", "lessons should NOT last longer"),
        ("Many libraries are free.", "Not many libraries are free."),
        ("Some libraries are free.", "It is not true that some libraries are free."),
        ("Trams carry many people.", "Trams do not carry many people."),
        ("It is fair when many pay.", "It is unfair when many pay."),
    ],
)
def test_contradictions_are_recognised(first, second):
    assert contradict(first, second) is True and contradict(second, first) is True


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Night trains should replace flights.", "Night trains must replace flights."),
        ("The harbour should be closed.", "Harbours should be closed!"),
        ("Plastic bags should be banned.", "Plastic bags should not be allowed."),
        ("Uniforms make school fairer.", "It is true that uniforms make school fairer."),
        ("Uniforms should not be worn.", "It is not true that uniforms should be worn."),
        ("Uniforms should be worn.", "It is not true that uniforms should not be worn."),
        ("Fireworks do more harm than good.", "Fireworks do not do more good than harm."),
        ("Trams are better than buses.", "Buses are not better than trams."),
        ("The levy is not fair.", "The levy is unfair."),
    ],
)
def test_one_side_said_twice_is_no_contradiction(first, second):
    assert contradict(first, second) is False and contradict(second, first) is False


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Zoos should close.", "Zoos protect rare animals."),
        ("People who do not drive should pay.", "People who drive should not pay."),
        ("Not all zoos should close.", "All zoos should not close."),
        ("Visits should be free in winter.", "In winter visits should be free."),
        ("In winter trams are better than buses.", "Trams are not better than buses in winter."),
        ("Teachers should respect pupils.", "Pupils should respect teachers."),
        ("Hard work does not necessarily pay.", "Hard work pays."),
        ("Phones should not only be banned in class.", "Phones should be banned in class."),
        ("We should not tax tea and not tax milk.", "We should tax tea and tax milk."),
        ("Die Steuer sollte steigen.", "Die Steuer sollte nicht steigen."),
        ("Students may leave.", "Students must leave."),
        ("Some libraries are free.", "Some libraries are not free."),
        ("Some levies are fair.", "Some levies are unfair."),
        ("Some trams are better than buses.", "Some buses are better than trams."),
        ("Trams replace some flights.", "Trams do not replace some flights."),
        ("A few libraries are free.", "A few libraries are not free."),
        ("Robots might take over.", "Robots might not take over."),
        ("It is not true that nobody should not vote.", "Everybody should vote."),
        ("", "Zoos should close."),
        ("?", "!"),
    ],
)
def test_what_the_rule_cannot_tell_is_left_open(first, second):
    assert contradict(first, second) is None and contradict(second, first) is None


@settings(deadline=None)  # the first one reads the lexicon
@given(st.sampled_from(SUBJECTS), st.sampled_from(PREDICATES))
def test_a_statement_and_its_negation_by_rule_contradict(subject, predicate):
    statement = f"{subject} should {predicate}."
    assert contradict(statement, negate(statement)) is True
    assert contradict(statement, negate(negate(statement))) is False


@given(st.sampled_from(SUBJECTS), st.sampled_from(PREDICATES))
def test_the_two_answers_to_a_question_contradict(subject, predicate):
    sides = yes_and_no(f"Should {subject.lower()} {predicate}?")
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


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("Zoos should close.", "zoos should  close", True),
        ("“Zoos” should close", '"Zoos" should close!', True),
        ("Well-being counts.", "Well being counts.", True),
        ("ﬁrst things ﬁrst", "First things first.", True),
        ("The best language is C.", "The best language is C++.", False),
        ("The best language is C.", "The best language is C#.", False),
        ("Pay 5%.", "Pay 5.", False),
    ],
)
def test_texts_are_the_same_whatever_their_case_and_punctuation(first, second, same):
    assert (same_text(first) == same_text(second)) is same
