"""Menus, dials and the string that they make: each is always what the others say."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from berdslib.errors import InputError
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.systems import (
    DIVERSIFIER,
    EXPANDING,
    EXPANSION,
    PROJECTED,
    PROJECTION,
    Part,
    System,
    is_dense,
    offers,
    parse_system,
)
from berdslib.study.explorer.widget import (
    NONE,
    SystemControls,
    part_of,
    with_part,
)

# ---------------------------------------------------------------- parts of a string

EXPANSIONS = offers(EXPANSION)
GROUPS = {PROJECTION: PROJECTED, EXPANSION: EXPANDING, DIVERSIFIER: tuple(DIVERSIFIERS)}
weights = st.floats(0, 1).map("{:g}".format)
strengths = st.sampled_from(["", "0.5", "1"])
projections = st.one_of(
    st.builds(Part, st.sampled_from(["pap", "pap+"]), strengths), st.sampled_from([Part("cast", ""), Part("add+", "")])
)
expansions = st.sampled_from([Part(*text.split(":")) for text in EXPANSIONS])
diversifiers = st.builds(Part, st.sampled_from(list(DIVERSIFIERS)), weights)
others = st.sampled_from([Part("cross", "org/model"), Part("profile", "filter")])
firsts = st.sampled_from(["bm25", "minilm", "hf:org/model"])
parts = {PROJECTION: projections, EXPANSION: expansions, DIVERSIFIER: diversifiers}


@st.composite
def systems(draw):
    """Any system that can be read; all parts are there but extract, which a projection must follow."""
    first = draw(firsts)
    first_parts = draw(st.lists(projections, max_size=1)) if is_dense(first) else []
    rest = draw(st.lists(st.one_of(expansions, diversifiers, others), max_size=3))
    system = System(first, (*first_parts, *rest))
    try:
        return parse_system(system.text)
    except InputError:
        assume(False)


def covering_before(system):
    """Whether an expansion stands behind the last diversifier, where not every diversifier may stand."""
    last = max((i for i, one in enumerate(system.parts) if one.kind in DIVERSIFIERS), default=-1)
    return any(one.kind in EXPANDING for one in system.parts[last + 1 :]) and last >= 0


@settings(deadline=None)
@given(systems(), st.sampled_from(list(GROUPS)), st.data())
def test_a_part_that_fits_makes_a_system_that_can_be_read(system, group, data):
    part = data.draw(parts[group])
    assume(group != PROJECTION or is_dense(system.first))
    assume(group != DIVERSIFIER or not covering_before(system) or DIVERSIFIERS[part.kind].needs != "aspects")
    made = with_part(system, group, part)
    assert parse_system(made.text) == made
    assert part_of(made, group) == part and made.first == system.first
    replaced = [i for i, one in enumerate(system.parts) if one.kind in GROUPS[group]][-1:]
    kept = [one for i, one in enumerate(system.parts) if i not in replaced]
    # Without the part, those that stay are there in their order.
    places = [i for i, one in enumerate(made.parts) if one == part]
    assert any([*made.parts[:i], *made.parts[i + 1 :]] == kept for i in places)
    assert with_part(made, group, part) == made


@settings(deadline=None)
@given(systems(), st.sampled_from(list(GROUPS)))
def test_a_part_taken_away_leaves_the_others_as_they_are(system, group):
    last, made = part_of(system, group), with_part(system, group, None)
    assert parse_system(made.text) == made
    places = [i for i, one in enumerate(system.parts) if one.kind in GROUPS[group]]
    if last is None:
        assert made == system and not places
    else:
        at = places[-1]
        assert made.parts == system.parts[:at] + system.parts[at + 1 :] and system.parts[at] == last


@pytest.mark.parametrize(
    ("text", "group", "part", "made"),
    [
        ("bm25", DIVERSIFIER, Part("mmr", "0.5"), "bm25+mmr:0.5"),
        ("minilm+mmr:0.9", PROJECTION, Part("pap", ""), "minilm+pap+mmr:0.9"),
        ("minilm+expand:rule+mmr:0.9", PROJECTION, Part("pap", "0.5"), "minilm+pap:0.5+expand:rule+mmr:0.9"),
        ("bm25+mmr:0.9+msd:0.5", DIVERSIFIER, Part("dpp", "1"), "bm25+mmr:0.9+dpp:1"),
        ("bm25+mmr:0.9+msd:0.5", EXPANSION, Part("expand", "rule"), "bm25+expand:rule+mmr:0.9+msd:0.5"),
        ("bm25+mmr:0.9+expand:rule", EXPANSION, Part("multi", "rule"), "bm25+mmr:0.9+multi:rule"),
        ("bm25+cross:m", EXPANSION, Part("multi", "rule"), "bm25+cross:m+multi:rule"),
        ("minilm+extract:rule+pap:1", PROJECTION, Part("cast", ""), "minilm+extract:rule+cast"),
        ("bm25+mmr:0.9+expand:rule", DIVERSIFIER, None, "bm25+expand:rule"),
    ],
)
def test_where_a_part_goes(text, group, part, made):
    assert with_part(parse_system(text), group, part) == parse_system(made)


# ---------------------------------------------------------------- the controls


class Seen:
    """Controls, and what they were when they last told of a change."""

    def __init__(self, system, own=()):
        self.told = []
        self.controls = SystemControls("Left", system, own, lambda: self.told.append(self.controls.system))


def menus(controls):
    return [one.value for one in (controls.first, controls.projection, controls.expansion, controls.diversifier)]


@pytest.mark.parametrize(
    ("system", "shown", "dial"),
    [
        ("bm25", ["bm25", NONE, NONE, NONE], None),
        ("minilm+pap:0.5+expand:rule+mmr:0.35", ["minilm", "pap", "expand:rule", "mmr"], 0.35),
        ("bm25+multi:recorded+coverage:1", ["bm25", NONE, "multi:recorded", "coverage"], 1),
        ("hf:org/model+cast+dpp:0", ["hf:org/model", "cast", NONE, "dpp"], 0),
        ("bm25+expand:chat:m+cross:x", ["bm25", NONE, "expand:chat:m", NONE], None),
        ("bm25+mmr:0.9+msd:0.123", ["bm25", NONE, NONE, "msd"], 0.123),
    ],
)
def test_a_string_is_shown_in_the_menus(system, shown, dial):
    started = Seen(system)
    typed = Seen("bm25")
    typed.controls.text.value = f" {system} "
    for seen in (started, typed):
        assert menus(seen.controls) == shown and seen.controls.text.value == seen.controls.system == system
        assert seen.controls.dial.disabled == (dial is None)
        assert dial is None or seen.controls.dial.value == dial
        assert seen.controls.projection.disabled == (shown[0] == "bm25")
    assert not started.told and typed.told == [system]  # once, though several controls have changed


def test_menus_make_the_string():
    seen = Seen("minilm")
    controls = seen.controls
    for control, value, made in [
        (controls.diversifier, "mmr", "minilm+mmr:0.75"),
        (controls.dial, 0.5, "minilm+mmr:0.5"),
        (controls.expansion, "expand:rule", "minilm+expand:rule+mmr:0.5"),
        (controls.projection, "pap", "minilm+pap+expand:rule+mmr:0.5"),
        (controls.first, "mpnet", "mpnet+pap+expand:rule+mmr:0.5"),
        (controls.diversifier, "coverage", "mpnet+pap+expand:rule+coverage:0.5"),
        (controls.first, "bm25", "bm25+expand:rule+coverage:0.5"),  # no vectors to project
        (controls.expansion, NONE, "bm25+coverage:0.5"),
        (controls.diversifier, NONE, "bm25"),
    ]:
        control.value = value
        assert controls.system == controls.text.value == made == seen.told[-1]
        again = Seen(made).controls
        assert menus(again) == menus(controls)
    assert len(seen.told) == 9


def test_runs_of_ones_own_have_no_parts():
    seen = Seen("theirs", own=["theirs", "mine+mmr:0.5"])
    controls = seen.controls
    parts = (controls.projection, controls.expansion, controls.diversifier, controls.dial)
    assert controls.first.value == "theirs" and all(one.disabled for one in parts)
    controls.first.value = "mine+mmr:0.5"  # a name is a name, whatever it looks like
    assert controls.system == "mine+mmr:0.5" and all(one.disabled for one in parts)
    assert controls.diversifier.value == NONE
    controls.first.value = "minilm"
    assert controls.system == "minilm" and not any(one.disabled for one in parts[:3])
    controls.diversifier.value = "mmr"
    controls.first.value = "theirs"
    assert controls.system == "theirs" == seen.told[-1] and controls.diversifier.value == NONE
    controls.text.value = "bm25+mmr:0.5"
    assert not controls.dial.disabled and controls.first.value == "bm25"


@pytest.mark.parametrize("typed", ["bm26", "bm25+mmr:2", "bm25+pap", "", "minilm+expand"])
def test_a_string_that_cannot_be_read_stays_as_it_was_typed(typed):
    seen = Seen("minilm+mmr:0.5")
    before = menus(seen.controls)
    seen.controls.text.value = typed
    assert seen.controls.system == seen.controls.text.value == typed and seen.told == [typed]
    assert menus(seen.controls) == before
    seen.controls.expansion.value = "expand:rule"  # a menu begins anew with the retriever that it shows
    assert seen.controls.system == "minilm+expand:rule"


def test_every_retriever_and_diversifier_can_be_chosen():
    controls = Seen("bm25").controls
    said = {name: label for label, name in controls.first.options}
    assert {"bm25", "minilm", "mpnet", "contriever"} <= set(said)
    assert said["minilm"] == "minilm" and said["mpnet"] == "mpnet (where it is installed)"
    assert set(controls.diversifier.options) == {NONE, *DIVERSIFIERS}
    assert not [name for name in said if name.endswith((":", "…"))]  # a family is not offered without a name
