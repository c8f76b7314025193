"""Menus, dials and the string that they make: each is always what the others say."""

import pytest

from berdslib.retrieval.systems import DIVERSIFIER, EXPANSION, PROJECTION, Part, parse_system
from berdslib.study.explorer.widget import NONE, SystemControls, with_part


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
    assert parse_system(with_part(parse_system(text), group, part).text) == parse_system(made)


# ---------------------------------------------------------------- the controls


class Seen:
    """Controls, and what they were when they last told of a change."""

    def __init__(self, system, own=()):
        self.told = []
        self.controls = SystemControls("Left", system, own, lambda: self.told.append(self.controls.system))


def menus(controls):
    return [one.value for one in (controls.first, *controls.menus.values())]


@pytest.mark.parametrize(
    ("system", "shown", "dial"),
    [
        ("bm25", ["bm25", NONE, NONE, NONE], None),
        ("minilm+pap:0.5+expand:rule+mmr:0.35", ["minilm", "pap", "expand:rule", "mmr"], 0.35),
        ("bm25+multi:recorded+coverage:1", ["bm25", NONE, "multi:recorded", "coverage"], 1),
        ("hf:org/model+cast+dpp:0", ["hf:org/model", "cast", NONE, "dpp"], 0),
        ("bm25+expand:chat:m+cross:x", ["bm25", NONE, "expand:chat:m", NONE], None),
        ("bm25+mmr:0.9@mpnet", ["bm25", NONE, NONE, "mmr"], 0.9),
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
        assert seen.controls.menus[PROJECTION].disabled == (shown[0] == "bm25")
    assert not started.told and typed.told == [system]  # once, though several controls have changed


def test_menus_make_the_string():
    seen = Seen("minilm")
    controls = seen.controls
    for control, value, made in [
        (controls.menus[DIVERSIFIER], "mmr", "minilm+mmr:0.75"),
        (controls.dial, 0.5, "minilm+mmr:0.5"),
        (controls.menus[EXPANSION], "expand:rule", "minilm+expand:rule+mmr:0.5"),
        (controls.menus[PROJECTION], "pap", "minilm+pap+expand:rule+mmr:0.5"),
        (controls.first, "mpnet", "mpnet+pap+expand:rule+mmr:0.5"),
        (controls.menus[DIVERSIFIER], "coverage", "mpnet+pap+expand:rule+coverage:0.5"),
        (controls.first, "bm25", "bm25+expand:rule+coverage:0.5"),  # no vectors to project
        (controls.menus[EXPANSION], NONE, "bm25+coverage:0.5"),
        (controls.menus[DIVERSIFIER], NONE, "bm25"),
    ]:
        control.value = value
        assert controls.system == controls.text.value == made == seen.told[-1]
        again = Seen(made).controls
        assert menus(again) == menus(controls)
    assert len(seen.told) == 9


def test_the_dial_keeps_the_encoder_that_the_string_names():
    controls = Seen("minilm+expand:rule+mmr:0.9@mpnet").controls
    controls.dial.value = 0.5
    assert controls.system == "minilm+expand:rule+mmr:0.5@mpnet"
    controls.menus[DIVERSIFIER].value = "coverage"  # which compares no vectors
    assert controls.system == "minilm+expand:rule+coverage:0.5"


def test_runs_of_ones_own_have_no_parts():
    seen = Seen("theirs", own=["theirs", "mine+mmr:0.5"])
    controls = seen.controls
    parts = (controls.menus[PROJECTION], controls.menus[EXPANSION], controls.menus[DIVERSIFIER], controls.dial)
    assert controls.first.value == "theirs" and all(one.disabled for one in parts)
    controls.first.value = "mine+mmr:0.5"  # a name is a name, whatever it looks like
    assert controls.system == "mine+mmr:0.5" and all(one.disabled for one in parts)
    assert controls.menus[DIVERSIFIER].value == NONE
    controls.first.value = "minilm"
    assert controls.system == "minilm" and not any(one.disabled for one in parts[:3])
    controls.menus[DIVERSIFIER].value = "mmr"
    controls.first.value = "theirs"
    assert controls.system == "theirs" == seen.told[-1] and controls.menus[DIVERSIFIER].value == NONE
    controls.text.value = "bm25+mmr:0.5"
    assert not controls.dial.disabled and controls.first.value == "bm25"


@pytest.mark.parametrize("typed", ["bm26", "bm25+mmr:2", "bm25+pap", "", "minilm+expand"])
def test_a_string_that_cannot_be_read_stays_as_it_was_typed(typed):
    seen = Seen("minilm+mmr:0.5")
    before = menus(seen.controls)
    seen.controls.text.value = typed
    assert seen.controls.system == seen.controls.text.value == typed and seen.told == [typed]
    assert menus(seen.controls) == before
    seen.controls.menus[EXPANSION].value = "expand:rule"  # a menu begins anew with the retriever that it shows
    assert seen.controls.system == "minilm+expand:rule"
