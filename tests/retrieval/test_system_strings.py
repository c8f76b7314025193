"""System strings: what is written is what is read, and every refusal says what would do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berdslib.errors import InputError
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.projection import OFFICIAL, PROJECTIONS
from berdslib.retrieval.retrievers import is_dense
from berdslib.retrieval.systems import PROJECTED, System, canonical, kind_of, parse_system

FIRST = ["bm25", "rank-bm25", "minilm", "tart-full", "hf:org/model", "pyserini:some.index"]
WITH_STRENGTH = sorted({*PROJECTIONS, *OFFICIAL} & {*PROJECTED})
number = st.floats(0, 1).map(lambda x: f"{x:.3g}") | st.sampled_from(["0", "1", "1.0", ".5", "1e-3", "0.50"])
covering = [name for name, one in DIVERSIFIERS.items() if one.needs == "aspects"]
others = [name for name in DIVERSIFIERS if name not in covering]
expand = st.sampled_from(["recorded", "rule", "chat:gpt-4o", "hyde:local:some/folder", "chat:recorded:a-b.jsonl"])


def part(kind, value):
    """Return a part as its class, whatever its value."""
    return kind_of(kind)(kind, value)


profile = st.just(part("profile", "filter"))
cross = st.sampled_from(["org/model", "folder-with/dash", "C:/models/x"]).map(lambda name: part("cross", name))


@st.composite
def chains(draw):
    """A system whose parts stand in an order that means something."""
    first = draw(st.sampled_from(FIRST))
    parts = []
    if is_dense(first) and draw(st.booleans()):
        if draw(st.booleans()):
            parts.append(part("extract", draw(st.sampled_from(["rule", "chat:gpt-4o"]))))
        kind = draw(st.sampled_from(PROJECTED))
        value = draw(number | st.just("")) if kind in WITH_STRENGTH else ""
        parts.append(part(kind, value))
    elif draw(st.booleans()):
        parts.append(part("profile", "template"))
    weight = number | st.builds("{}@{}".format, number, st.sampled_from(["minilm", "uae-large", "hf:folder/a-b"]))
    plain = cross | st.builds(part, st.sampled_from(others), weight)
    parts += draw(st.lists(plain, max_size=2))
    if draw(st.booleans()):
        parts.append(part(draw(st.sampled_from(["expand", "multi"])), draw(expand)))
    anything = plain | st.builds(part, st.sampled_from(covering), number)
    parts += draw(st.lists(anything, max_size=2))
    if draw(st.booleans()):  # behind all others, or before them
        parts.insert(draw(st.sampled_from([len(parts), _after_the_retriever(parts)])), draw(profile))
    return System(first, tuple(parts))


def _after_the_retriever(parts):
    changing = [one.kind in (*PROJECTED, "extract") or one == part("profile", "template") for one in parts]
    return sum(changing)


@given(chains())
@settings(deadline=None)
def test_what_is_written_is_what_is_read(system):
    read = parse_system(f"  {system.text}\n")
    assert read.first == system.first
    for found, written in zip(read.parts, system.parts, strict=True):
        numeric = written.kind in DIVERSIFIERS or written.kind in PROJECTED
        assert found.kind == written.kind
        assert found.number == written.number if numeric else found.value == written.value
    assert parse_system(read.text) == read


@given(chains(), st.data())
@settings(deadline=None)
def test_the_spellings_of_a_system_are_one_system(system, data):
    """Capitals of names, blanks around what separates, and other ways to write the same number."""

    def spelt(part):
        value = part.value
        if part.kind in DIVERSIFIERS or part.kind in WITH_STRENGTH:
            value = data.draw(st.sampled_from([f"0{part.number!r}", f"{part.number:.400f}", f"{part.number:.25E}"]))
            value = value.replace("E+", "E")
            if encoder := getattr(part, "encoder", ""):
                name, colon, rest = encoder.partition(":")
                value += data.draw(st.sampled_from(["@", " @ "])) + name.upper() + colon + rest
        kind = data.draw(st.sampled_from([part.kind, part.kind.upper(), part.kind.title()]))
        blank = data.draw(st.sampled_from(["", " ", "\t"]))
        return f"{blank}+{blank}{kind}" + (f"{blank}:{blank}{value}" if value else "")

    head, colon, name = system.first.partition(":")
    text = "".join([head.upper(), colon, name, *map(spelt, system.parts)])
    assert canonical(text) == canonical(system.text) == canonical(canonical(text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bm25+cross:0.9", "bm25+cross:0.90"),
        ("hf:Org/Model", "hf:org/model"),
        ("minilm+pap:1", "minilm+pap+"),
        ("bm25+expand:chat:M 1.0", "bm25+expand:chat:M 1"),
        ("bm25+mmr:0.9", "bm25+mmr:0.9000001"),
        ("bm25+mmr:0.9", "bm25+mmr:0.9@minilm"),  # a workshop may have another encoder for bm25
        ("minilm+mmr:0.9", "minilm+mmr:0.9@mpnet"),
        ("minilm+mmr:0.9@hf:Org/Model", "minilm+mmr:0.9@hf:org/model"),
        ("minilm+index:flat:a/B", "minilm+index:flat:a/b"),
    ],
)
def test_what_may_name_two_things_stays_two_systems(one, other):
    assert canonical(one) != canonical(other)


# What is refused, and what the refusal has to name.
REFUSED = {
    "bm26": ["bm26", "bm25"],
    "bm25+mrm:0.5": ["mrm", "mmr"],
    "bm25+": ["mmr", "expand"],
    "bm25+expand": ["expand:rule"],
    "bm25+mmr:much": ["mmr:0.75", "much"],
    "bm25+mmr:nan": ["nan"],
    "bm25+mmr:0_9": ["0_9"],
    "bm25+mmr:1.01": ["0", "1", "1.01"],
    "bm25+mmr:1e999": ["1e999"],
    "bm25+mmr:0.9@uae-lage": ["uae-lage", "uae-large", "hf:"],
    "minilm+mmr:0.9@": ["minilm", "hf:"],
    "minilm+mmr:0.9@hf:": ["minilm", "hf:"],
    "minilm+mmr:0.9@bm25": ["bm25", "minilm"],  # has no vectors
    "minilm+mmr:0.9@mpnet+b": ["b", "mmr"],
    "bm25+cross:folder+x/y": ["x/y", "mmr"],
    "hf:my+model": ["model", "mmr"],
    "bm25+expand:chat:recorded:a+b.jsonl": ["b.jsonl", "mmr"],
    "minilm+mmr:1.2@mpnet": ["0", "1", "1.2"],
    "minilm+mmr:@mpnet": ["mmr:0.75"],
    "minilm+pm2:0.9@mpnet": ["pm2", "vectors"],
    "minilm+pap:0.9@mpnet": ["pap:0.5", "0.9@mpnet"],
    "minilm+pap:some": ["pap:0.5", "some"],
    "minilm+add:0.5": ["add", *PROJECTIONS, *OFFICIAL],
    "bm25+pap:1.0": ["pap", "bm25", "minilm"],
    "minilm+mmr:0.5+pap": ["pap", "retriever"],
    "minilm+pap+pap+:0.5": ["pap+", "retriever"],
    "minilm+pap+pap": ["pap", "once"],
    "minilm+extract:rule": ["extract:rule+pap"],
    "bm25+expand:rule+expand:recorded": ["expand", "once"],
    "bm25+multi:rule+multi:rule": ["multi", "once"],
    "bm25+xquad:0.5+expand:rule": ["expand", "before", "xquad"],
    "bm25+expand:rule+multi:rule": ["expand", "multi"],
    "bm25+profile:filtr": ["filtr", "filter"],
    "bm25+mmr:1+profile:template": ["profile:template", "retriever"],
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_means_nothing_is_refused(text):
    with pytest.raises(InputError) as caught:
        parse_system(text)
    for name in REFUSED[text]:
        assert name in caught.value.problem.removeprefix(repr(text)), name


def test_naming_the_encoder_of_the_retriever_changes_nothing():
    assert canonical("minilm+mmr:0.9@MiniLM") == "minilm+mmr:0.9"


@given(st.text(alphabet="bm25inlhf:+pae xr0.@", max_size=25) | st.text(max_size=12).map("minilm+{}".format))
@settings(deadline=None)
def test_any_text_is_read_back_or_refused(text):
    """Nothing but an InputError comes of a text, and what is read is written so that it is read as the same."""
    try:
        read = parse_system(text)
    except InputError:
        return
    assert parse_system(read.text) == read
