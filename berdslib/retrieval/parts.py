"""System strings: a retriever and the parts behind it, read from left to right; and what each kind of part is.

``"minilm+expand:gpt-4+mmr:0.75"``: search with minilm, do so under every perspective that GPT-4 thought of, then
reorder the fused list by MMR. The other way round, ``"minilm+mmr:0.75+expand:gpt-4"``, each perspective's own list is
reordered before they are fused. The same string means the same in Python, in a notebook, in the shell and in a grid.

============== ================================================================================================
part           what it does with what stands before it
============== ================================================================================================
+pap:1.0       projects the perspective out of the query, with this strength; also pap+ and the other methods of
               :data:`berdslib.retrieval.projection.METHODS`, most of which take no value. Behind a dense retriever.
+extract:rule  has root and perspective cut out of the raw query, for the projection that follows; or chat:MODEL
+cross:MODEL   re-ranks by a cross-encoder
+expand:NAME   searches every expansion of that name, and the lists take turns: recorded, rule, chat:MODEL or hyde:MODEL
+multi:NAME    searches the question, too, and fuses its list and theirs by reciprocal ranks, as deep as the candidates
+profile:USE   looks at the author's property that a query names: filter, template (behind the retriever) or fusion;
               for scenarios of PerspectiveArg, see :mod:`berdslib.retrieval.authors`
+mmr:0.9       reorders by a diversifier with this relevance weight; 1 keeps the order
============== ================================================================================================

A new kind of part is an entry of ``PARTS``: parser, workshop and the explorer's menus all read it there.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from berdslib.data.arguments import READER
from berdslib.data.web import OwnCorpora
from berdslib.errors import InputError, known
from berdslib.llm.extraction import extract_by
from berdslib.models.cards import CARDS, model_card
from berdslib.models.chat import make_chat
from berdslib.retrieval.authors import (
    DEEPER,
    FILTER,
    FUSION,
    TEMPLATE,
    USES,
    Filtered,
    Fused,
    Templated,
    check_use,
    learn_weights,
    lessons_of,
    templated,
)
from berdslib.retrieval.base import Retriever
from berdslib.retrieval.diversify import ASPECTS, DIVERSIFIERS, VECTORS, Diversified
from berdslib.retrieval.expansion import SEARCHED, Expanded
from berdslib.retrieval.projection import METHODS, OFFICIAL, PROJECTIONS, Projected
from berdslib.retrieval.rerank import CrossEncoderRetriever
from berdslib.retrieval.retrievers import RETRIEVERS, InOwnCorpora

logger = logging.getLogger(__name__)

EXPAND, MULTI, CROSS, EXTRACT, PROFILE = "expand", "multi", "cross", "extract", "profile"
EXPANDING = (EXPAND, MULTI)  # both search expansions, named alike
# The baseline has no part: it is the retriever alone.
PROJECTED = tuple(method for method in (*METHODS, *OFFICIAL) if method != "baseline")
PROJECTION, EXPANSION, DIVERSIFIER = "projection", "expansion", "diversifier"  # menus
RECORDED, RULE = "recorded", "rule"
_ORPHAN = "extract is for the projection behind it, as in extract:rule+pap:1.0"
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)


class Part(NamedTuple):
    """One part of a system, such as ("mmr", "0.9"); the value is "" where there is none."""

    kind: str
    value: str

    @property
    def number(self) -> float:
        """The weight of a diversifier, or the strength of a projection, which is 1 where it is not said."""
        return float(self.value or 1.0)

    def __str__(self) -> str:
        """Write it as it stands in a system."""
        return f"+{self.kind}:{self.value}" if self.value else f"+{self.kind}"


class System(NamedTuple):
    """A system string, read: the name of its first retriever, and its parts."""

    first: str
    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """The string that means this system."""
        return self.first + "".join(map(str, self.parts))

    @property
    def before(self) -> System:
        """The system without its last part."""
        return System(self.first, self.parts[:-1])

    @property
    def last(self) -> Part:
        """Its last part."""
        return self.parts[-1]

    @property
    def uses_aspects(self) -> bool:
        """Whether a judge's opinion of generated perspectives, or what groups authors are of, influences the order."""
        return any(_covers(part.kind) for part in self.parts)

    @property
    def chooses(self) -> bool:
        """Whether something in it chooses among so many candidates: asked for more, it lists others or refuses."""
        choosing = any(kind_of(part.kind).chooses(part.value) for part in self.parts)
        return choosing or RETRIEVERS.find(self.first)[0].reranks

    def values(self, *kinds: str) -> list[str]:
        """Return the values of all parts of some kinds."""
        return [part.value for part in self.parts if part.kind in kinds]


@dataclass(frozen=True)
class PartKind:
    """What there is to know of a kind of part. Its functions are given the system that ends in the part.

    Args:
        build: from a :class:`~berdslib.retrieval.systems.Workshop` and the system to a retriever.
        check_value: says what is wrong with a part's value, "" where nothing is.
        may_follow: says what is wrong with what stands before it, "" where nothing is.
        needs: gets what it needs from the workshop, so that what is missing fails before a search; it is given the part
            and the whole system's text.
        menu: the menu of the explorer that it stands in, and ``offers``, the parts that the menu names.
        names: whether the value is a name, in which a "+" may stand.
        chooses: says of a value whether the part chooses among candidates.
        reads_all: whether it reads all candidates however few are asked for, so that they are worth keeping.
    """

    build: Callable[[Any, System], Retriever]
    check_value: Callable[[Part], str]
    may_follow: Callable[[System], str] = lambda _: ""
    needs: Callable[[Any, Part, str], None] = lambda *_: None
    menu: str = ""
    offers: tuple[str, ...] = ()
    names: bool = False
    chooses: Callable[[str], bool] = lambda _: False
    reads_all: bool = False


def kind_of(name: str) -> PartKind:
    """Return a kind of part by name; every diversifier is one."""
    return PARTS.get(name, _DIVERSIFYING)


def kinds(menu: str = "") -> list[str]:
    """Return the names of all kinds of part, or of those in a menu."""
    return [name for name in (*PARTS, *DIVERSIFIERS) if menu in ("", kind_of(name).menu)]


def offers(menu: str) -> list[str]:
    """Return the parts that a menu of the explorer offers."""
    return [text for name in kinds(menu) for text in kind_of(name).offers or (name,)]


def is_dense(first: str) -> bool:
    """Return whether a retriever of this name compares vectors."""
    return first in CARDS or first.startswith("hf:")


def _covers(kind: str) -> bool:
    return kind in DIVERSIFIERS and DIVERSIFIERS[kind].needs == ASPECTS


# ---------------------------------------------------------------- reading


def parse_system(text: str) -> System:
    """Read a system string.

    Args:
        text: "RETRIEVER", then any number of parts. A value that is a file may hold a "+", as long as no name of a part
            follows it.

    Raises:
        InputError: an unknown retriever or part, a part without its value, a value that is none, or an order that means
            nothing.

    >>> parse_system("minilm+pap+:0.5+mmr:0.75")
    System(first='minilm', parts=(Part(kind='pap+', value='0.5'), Part(kind='mmr', value='0.75')))
    """
    if not isinstance(text, str):
        raise InputError(f"a system is named by text such as 'minilm+mmr:0.9', not by {type(text).__name__}")
    # "+pap+:1" is the part "pap+"; "+pap+mmr:0.9" is "pap" and then "mmr": a kind ends at ":", "+" or the end.
    names = sorted(kinds(), key=len, reverse=True)
    at_part = re.compile(rf"\+({'|'.join(map(re.escape, names))})(?=:|\+|$)(?::?)")
    text = text.strip()
    found = list(at_part.finditer(text))
    starts = [match.start() for match in found] + [len(text)]
    parts = tuple(Part(m[1], text[m.end() : end]) for m, end in zip(found, starts[1:], strict=True))
    system = System(text[: starts[0]], parts)
    _check_first(system.first, text)
    for part in parts:
        _check_value(part, text)
    for end in range(1, len(parts) + 1):
        if wrong := _wrong_order(System(system.first, parts[:end])):
            raise InputError(f"{text!r}: {wrong}")
    if parts and parts[-1].kind == EXTRACT:
        raise InputError(f"{text!r}: {_ORPHAN}")
    return system


def _check_first(name: str, text: str) -> None:
    first, plus, rest = name.partition("+")
    if plus and ":" not in first:  # hf:FOLDER may hold one
        RETRIEVERS.find(first)
        _check_kind(rest, text)
    _check_misspelt(name, text)
    RETRIEVERS.find(name)


def _check_misspelt(name: str, text: str) -> None:
    """Refuse a name that ends like a part with a number; any other "+" may be that of a file."""
    if found := re.search(r"\+([a-z][\w-]*):[\d.]+(?=\+|$)", name, re.IGNORECASE):
        _check_kind(found[1], text)


def _check_kind(rest: str, text: str) -> None:
    """Refuse what begins with no name of a part."""
    try:
        known("part", rest.partition(":")[0].partition("+")[0], kinds())
    except InputError as error:
        raise InputError(f"{text!r}: {error.problem}") from None


def _check_value(part: Part, text: str) -> None:
    kind = kind_of(part.kind)
    if kind.names:
        _check_misspelt(part.value, text)
    elif "+" in part.value:
        _check_kind(part.value.partition("+")[2], text)
    if wrong := kind.check_value(part):
        raise InputError(f"{text!r}: {wrong}")


def _wrong_order(system: System) -> str:
    changes_vectors = system.last.kind in (*PROJECTED, EXTRACT)
    if system.before.parts and system.before.last.kind == EXTRACT and not changes_vectors:
        return _ORPHAN
    return kind_of(system.last.kind).may_follow(system)


# ---------------------------------------------------------------- projections


def _behind_a_dense_retriever(system: System) -> str:
    kind, before = system.last.kind, [part.kind for part in system.before.parts]
    if not is_dense(system.first):
        return f"{kind} changes vectors, and {system.first!r} has none; take minilm"
    if kind in before or any(one != EXTRACT for one in before):
        return f"{kind} must follow the retriever, and one projection is enough"
    return ""


def _strength(part: Part) -> str:
    if part.kind in (*PROJECTIONS, *OFFICIAL):
        return _number(part, "strength", "0.5") if part.value else ""
    having = ", ".join((*PROJECTIONS, *OFFICIAL))
    return f"{part.kind} takes no value; only {having} have a strength" if part.value else ""


def _number(part: Part, what: str, example: str) -> str:
    if _NUMBER.fullmatch(part.value.strip()) and abs(part.number) < float("inf"):
        return ""
    return f"{part.kind} needs a {what}, as in {part.kind}:{example}, not {part.value!r}"


def _projected(shop: Any, system: System) -> Retriever:
    extract = next(iter(system.values(EXTRACT)), "")
    make = partial(
        Projected,
        encoder=shop.encoder(system.first),
        method=system.last.kind,
        strength=system.last.number,
        extract=partial(extract_by, extract, make_chat=make_chat, recordings=shop.recordings) if extract else None,
        name=system.text,
        text_of=model_card(system.first).passage_text,
    )
    passages = shop.collection.passages
    return InOwnCorpora(system.text, make, passages) if isinstance(passages, OwnCorpora) else make(passages)


# ---------------------------------------------------------------- expansions


def _name(example: str) -> Callable[[Part], str]:
    return lambda part: "" if part.value else f"{part.kind} needs a name, as in {example}"


def _own_perspectives_once(system: System) -> str:
    """Expanded queries are not the questions that other perspectives belong to."""
    kind = system.last.kind
    earlier = next((part.kind for part in system.before.parts if part.kind in EXPANDING or _covers(part.kind)), "")
    if {kind, earlier} == set(EXPANDING):
        return "expand and multi both search expansions, and one of them is enough"
    return f"{kind} must come before {earlier}, and once only" if earlier else ""


def _expanded(shop: Any, system: System) -> Retriever:
    name = system.last.value
    options = SEARCHED.get(name.partition(":")[0], {}) if ":" in name else {}
    if system.last.kind == MULTI:
        options = options | {"original": True, "fuse": "rrf", "depth": shop.depth}
    return Expanded(shop.build(system.before), shop.expansions(name), name=system.text, **options)


def _cross(shop: Any, system: System) -> Retriever:
    scorer, passages = shop.scorer(system.last.value), shop.collection.passages
    return CrossEncoderRetriever(shop.build(system.before), passages, scorer, shop.depth, name=system.text)


# ---------------------------------------------------------------- profiles


def _use(part: Part) -> str:
    try:
        known("use of profiles", part.value, USES)
    except InputError as error:
        return error.problem if part.value else _name("profile:filter")(part)
    return ""


def _once_or_first(system: System) -> str:
    if system.last.value == TEMPLATE and system.before.parts:
        return "profile:template changes what the retriever reads, so it must follow it"
    again = system.last.value == FUSION and system.last in system.before.parts
    return "one profile:fusion is enough" if again else ""


def _check_profiles(shop: Any, part: Part, text: str) -> None:
    handout = check_use(part.value, shop.collection, text)
    if handout.ranked_for == READER:
        logger.warning("%r looks at who wrote a passage, and queries name the property of its reader", text)


def _by_profile(shop: Any, system: System) -> Retriever:
    use, name = system.last.value, system.text
    handout = check_use(use, shop.collection, name)
    if use == TEMPLATE:
        return Templated(shop.first(system.first, templated(handout)), handout, name=name)
    before, authors, deepens = shop.build(system.before), shop.authors(system.first), not system.before.chooses
    if use == FILTER:
        return Filtered(before, handout, authors, depth=shop.depth, deepens=deepens, name=name)
    depth = shop.depth * DEEPER if deepens else shop.depth
    lessons = lessons_of(handout.training)
    there = shop.beside(lessons)
    there.gather(system.before)
    weights = learn_weights(there.build(system.before), lessons, there.authors(system.first), depth=depth)
    return Fused(before, handout, authors, weights, depth=depth, name=name)


# ---------------------------------------------------------------- diversifiers


def _weight(part: Part) -> str:
    if wrong := _number(part, "relevance weight", "0.75"):
        return wrong
    inside = 0 <= part.number <= 1
    return "" if inside else f"the relevance weight of {part.kind} must be from 0 to 1, not {part.value}"


def _check_groups(shop: Any, part: Part, text: str) -> None:
    if _covers(part.kind):
        shop.check_authors(text)


def _diversified(shop: Any, system: System) -> Retriever:
    kind = system.last.kind
    return Diversified(
        shop.build(system.before),
        kind,
        relevance_weight=system.last.number,
        vectors=shop.vectors(system.first) if DIVERSIFIERS[kind].needs == VECTORS else None,
        aspects=shop.aspects(system) if _covers(kind) else None,
        depth=shop.depth,
        name=system.text,
    )


# ---------------------------------------------------------------- the registry


def _expanding(kind: str) -> PartKind:
    return PartKind(
        _expanded,
        _name(f"{kind}:{RULE}"),
        _own_perspectives_once,
        lambda shop, part, _: shop.expansions(part.value),
        menu=EXPANSION,
        offers=(f"{kind}:{RULE}", f"{kind}:{RECORDED}"),
        names=True,
        chooses=lambda _: kind == MULTI,  # reciprocal ranks of deeper lists add up to another order
    )


_DIVERSIFYING = PartKind(_diversified, _weight, needs=_check_groups, menu=DIVERSIFIER, chooses=lambda _: True)

# What stands behind a retriever, beside diversifiers.
PARTS: dict[str, PartKind] = {
    EXPAND: _expanding(EXPAND),
    MULTI: _expanding(MULTI),
    CROSS: PartKind(
        _cross,
        _name("cross:org/model"),
        needs=lambda shop, part, _: shop.scorer(part.value),
        names=True,
        chooses=lambda _: True,
        reads_all=True,
    ),
    EXTRACT: PartKind(_projected, _name("extract:rule"), _behind_a_dense_retriever, names=True),
    PROFILE: PartKind(_by_profile, _use, _once_or_first, _check_profiles, chooses=lambda use: use == FUSION),
    **dict.fromkeys(PROJECTED, PartKind(_projected, _strength, _behind_a_dense_retriever, menu=PROJECTION)),
}
