"""System strings: what is written is what is read, and every refusal says what would do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berdslib.errors import InputError
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.projection import METHODS, OFFICIAL, PROJECTIONS
from berdslib.retrieval.retrievers import RETRIEVERS, own_retriever
from berdslib.retrieval.systems import PROJECTED, Part, System, is_dense, parse_system

# ---------------------------------------------------------------- round trip

FIRST = ["bm25", "rank-bm25", "minilm", "tart-full", "hf:org/model", "hf:folder/a+b", "pyserini:some.index"]
WITH_STRENGTH = sorted({*PROJECTIONS, *OFFICIAL} & {*PROJECTED})
number = st.floats(0, 1).map(lambda x: f"{x:.3g}") | st.sampled_from(["0", "1", "1.0", ".5", "1e-3"])
covering = [name for name, one in DIVERSIFIERS.items() if one.needs == "aspects"]
others = [name for name in DIVERSIFIERS if name not in covering]
expand = st.sampled_from(["recorded", "rule", "chat:gpt-4o", "hyde:local:some/folder", "chat:recorded:a+b.jsonl"])
profile = st.sampled_from(["filter", "fusion"]).map(lambda use: Part("profile", use))
cross = st.sampled_from(["org/model", "folder+with/plus", "C:/models/x"]).map(lambda name: Part("cross", name))


@st.composite
def chains(draw):
    """A system whose parts stand in an order that means something."""
    first = draw(st.sampled_from(FIRST))
    parts = []
    if is_dense(first) and draw(st.booleans()):
        if draw(st.booleans()):
            parts.append(Part("extract", draw(st.sampled_from(["rule", "chat:gpt-4o"]))))
        kind = draw(st.sampled_from(PROJECTED))
        value = draw(number | st.just("")) if kind in WITH_STRENGTH else ""
        parts.append(Part(kind, value))
    elif draw(st.booleans()):
        parts.append(Part("profile", "template"))
    plain = cross | st.builds(Part, st.sampled_from(others), number)
    parts += draw(st.lists(plain, max_size=2))
    if draw(st.booleans()):
        parts.append(Part(draw(st.sampled_from(["expand", "multi"])), draw(expand)))
    anything = plain | st.builds(Part, st.sampled_from(covering), number)
    parts += draw(st.lists(anything, max_size=2))
    if draw(st.booleans()):  # behind all others, or before them
        parts.insert(draw(st.sampled_from([len(parts), _after_the_retriever(parts)])), draw(profile))
    return System(first, tuple(parts))


def _after_the_retriever(parts):
    changing = [part.kind in (*PROJECTED, "extract") or part == ("profile", "template") for part in parts]
    return sum(changing)


@given(chains())
@settings(deadline=None)
def test_what_is_written_is_what_is_read(system):
    read = parse_system(f"  {system.text}\n")
    assert read == system and read.text == system.text


@given(chains())
@settings(deadline=None)
def test_a_system_without_its_last_parts_is_a_system(system):
    while system.parts:
        system = system.before
        if system.parts[-1:] and system.parts[-1].kind == "extract":
            continue  # nothing stands behind it any more
        assert parse_system(system.text) == system


@pytest.mark.parametrize("kind", PROJECTED)
@pytest.mark.parametrize("behind", ["", "+mmr:0.9", "+expand:rule", "+cross:m"])
def test_the_plus_of_a_method_is_not_that_of_the_next_part(kind, behind):
    """`pap+` is one method and `pap` another: "+pap+mmr" is `pap` and then MMR, "+pap+:1" is `pap+`."""
    text = f"minilm+{kind}{behind}"
    read = parse_system(text)
    assert read.text == text and read.parts[0].kind == kind and len(read.parts) == 1 + bool(behind)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("bm25+expand:chat:recorded:a+b.jsonl", [("expand", "chat:recorded:a+b.jsonl")]),
        ("bm25+expand:chat:recorded:a+mmr.jsonl", [("expand", "chat:recorded:a+mmr.jsonl")]),
        ("bm25+expand:chat:recorded:a+b.jsonl+mmr:0.5", [("expand", "chat:recorded:a+b.jsonl"), ("mmr", "0.5")]),
        ("bm25+cross:folder+x/y", [("cross", "folder+x/y")]),
        ("bm25+cross:a:b", [("cross", "a:b")]),
        ("hf:my+model", []),
        ("hf:my+model+mmr:0.5", [("mmr", "0.5")]),
        # Here a name of a part follows the "+", and is read as one.
        ("bm25+expand:chat:recorded:a+mmr:0.5", [("expand", "chat:recorded:a"), ("mmr", "0.5")]),
    ],
)
def test_a_plus_in_a_name_stays(text, parts):
    read = parse_system(text)
    assert list(read.parts) == parts and read.text == text


def test_what_a_part_and_a_system_say_about_themselves():
    read = parse_system("minilm+pap+expand:rule+coverage:0.5+mmr:1")
    assert [part.number for part in read.parts if part.kind != "expand"] == [1.0, 0.5, 1.0]
    assert read.values("expand") == ["rule"] and read.values("cross") == []
    assert parse_system("minilm+multi:rule+mmr:1").values("expand", "multi") == ["rule"]
    assert read.uses_aspects and not parse_system("minilm+expand:rule+mmr:0.5").uses_aspects
    assert read.before.text == "minilm+pap+expand:rule+coverage:0.5" and read.before.before.parts[-1].value == "rule"


@pytest.mark.parametrize(
    ("text", "chooses"),
    [
        ("bm25", False),
        ("minilm+pap+profile:filter+expand:rule", False),
        ("bm25+profile:template", False),
        ("tart-full", True),
        ("bm25+cross:m", True),
        ("bm25+mmr:0.5+profile:filter", True),
        ("bm25+expand:rule", False),
        ("bm25+multi:rule", True),
        ("bm25+profile:fusion", True),
    ],
)
def test_some_systems_choose_among_candidates(text, chooses):
    assert parse_system(text).chooses == chooses


# ---------------------------------------------------------------- refusals

STRENGTHS = ", ".join((*PROJECTIONS, *OFFICIAL))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "unknown retriever ''"),
        ("bm26", "unknown retriever 'bm26'. Did you mean 'bm25'?"),
        ("hf:", "unknown retriever 'hf:'. Did you mean 'hf:…'?"),
        ("+mmr:0.5", "unknown retriever ''"),
        ("bm25+mrm:0.5", "'bm25+mrm:0.5': unknown part 'mrm'. Did you mean 'mmr'?"),
        ("bm25+", "'bm25+': unknown part ''. Known: "),
        ("bm25+expand:rule+mrm:0.5", "'bm25+expand:rule+mrm:0.5': unknown part 'mrm'. Did you mean 'mmr'?"),
        ("bm25+MMR:0.5", "'bm25+MMR:0.5': unknown part 'MMR'"),
        ("bm25 +mmr:0.5", "unknown retriever 'bm25 '. Did you mean 'bm25'?"),
        ("bm25+expand", "'bm25+expand': expand needs a name, as in expand:rule"),
        ("bm25+cross", "'bm25+cross': cross needs a name, as in cross:org/model"),
        ("minilm+extract:+pap", "'minilm+extract:+pap': extract needs a name, as in extract:rule"),
        ("bm25+mmr", "'bm25+mmr': mmr needs a relevance weight, as in mmr:0.75, not ''"),
        ("bm25+mmr:much", "'bm25+mmr:much': mmr needs a relevance weight, as in mmr:0.75, not 'much'"),
        ("bm25+mmr:nan", "'bm25+mmr:nan': mmr needs a relevance weight, as in mmr:0.75, not 'nan'"),
        ("bm25+mmr:0_9", "'bm25+mmr:0_9': mmr needs a relevance weight, as in mmr:0.75, not '0_9'"),
        ("bm25+mmr:\u0660.\u0669", "mmr needs a relevance weight, as in mmr:0.75, not "),
        ("bm25+mmr:1.01", "'bm25+mmr:1.01': the relevance weight of mmr must be from 0 to 1, not 1.01"),
        ("minilm+pap:some", "'minilm+pap:some': pap needs a strength, as in pap:0.5, not 'some'"),
        ("minilm+pap:inf", "'minilm+pap:inf': pap needs a strength, as in pap:0.5, not 'inf'"),
        ("minilm+add:0.5", f"'minilm+add:0.5': add takes no value; only {STRENGTHS} have a strength"),
        ("bm25+pap:1.0", "'bm25+pap:1.0': pap changes vectors, and 'bm25' has none; take minilm"),
        ("minilm+mmr:0.5+pap", "'minilm+mmr:0.5+pap': pap must follow the retriever, and one projection is enough"),
        ("minilm+extract:rule", "extract is for the projection behind it, as in extract:rule+pap:1.0"),
        ("minilm+extract:rule+mmr:1", "extract is for the projection behind it, as in extract:rule+pap:1.0"),
        ("bm25+expand:rule+expand:recorded", "expand must come before expand, and once only"),
        ("bm25+multi:rule+multi:rule", "'bm25+multi:rule+multi:rule': multi must come before multi, and once only"),
        ("bm25+expand:rule+multi:rule", "expand and multi both search expansions, and one of them is enough"),
        ("bm25+pm2:0.5+multi:rule", "'bm25+pm2:0.5+multi:rule': multi must come before pm2, and once only"),
        ("bm25+profile", "'bm25+profile': profile needs a name, as in profile:filter"),
        ("bm25+profile:filtr", "'bm25+profile:filtr': unknown use of profiles 'filtr'. Did you mean 'filter'?"),
        ("bm25+profiles:filter", "unknown part 'profiles'. Did you mean 'profile'?"),
        ("bm25+mmr:1+profile:template", "template changes what the retriever reads, so it must follow it"),
        ("bm25+profile:fusion+mmr:1+profile:fusion", "one profile:fusion is enough"),
        ("bm25+coverage:0.5+expand:rule", "expand must come before coverage, and once only"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(text, said):
    with pytest.raises(InputError) as caught:
        parse_system(text)
    assert said in str(caught.value)


@pytest.mark.parametrize("given", [None, 5, ["bm25"], {"a": "bm25"}])
def test_what_is_no_text_is_refused(given):
    with pytest.raises(InputError, match=r"a system is named by text such as 'minilm.mmr:0.9', not by "):
        parse_system(given)


@given(st.text(alphabet="bm25inlhf:+pae xr0.", max_size=25) | st.text(max_size=12).map("minilm+{}".format))
@settings(deadline=None)
def test_any_text_is_read_back_or_refused(text):
    """Nothing but an InputError comes of a text, and what is read is written as it was."""
    try:
        read = parse_system(text)
    except InputError:
        return
    assert read.text == text.strip()


def test_a_name_of_ones_own_begins_a_chain(monkeypatch):
    monkeypatch.setattr(RETRIEVERS, "_things", dict(RETRIEVERS))
    with pytest.raises(InputError, match=r"unknown retriever 'my-own.v2'"):
        parse_system("my-own.v2+mmr:0.5")
    RETRIEVERS.add("my-own.v2", own_retriever(lambda passages: None))
    assert parse_system("my-own.v2+mmr:0.5") == System("my-own.v2", (Part("mmr", "0.5"),))
    with pytest.raises(InputError, match=r"pap changes vectors, and 'my-own.v2' has none"):
        parse_system("my-own.v2+pap")


def test_every_method_and_diversifier_is_a_part():
    for kind in (*METHODS, *OFFICIAL):
        if kind == "baseline":
            with pytest.raises(InputError, match=r"'minilm.baseline': unknown part 'baseline'"):
                parse_system("minilm+baseline")
        else:
            assert parse_system(f"minilm+{kind}").parts == (Part(kind, ""),)
    for kind in DIVERSIFIERS:
        assert parse_system(f"bm25+{kind}:0.5").parts == (Part(kind, "0.5"),)
