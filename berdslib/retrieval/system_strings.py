"""Systems as text: a retriever and the parts behind it, read from left to right.

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
               for scenarios of PerspectiveArg, see :mod:`berdslib.retrieval.profiles`
+mmr:0.9       reorders by a diversifier with this relevance weight; 1 keeps the order
============== ================================================================================================
"""

from __future__ import annotations

import re
from typing import NamedTuple

from berdslib.errors import InputError, known
from berdslib.models.cards import CARDS
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.profiles import FUSION, TEMPLATE, USES
from berdslib.retrieval.projection import METHODS, OFFICIAL, PROJECTIONS
from berdslib.retrieval.retrievers import RETRIEVERS

EXPAND, MULTI, CROSS, EXTRACT, PROFILE = "expand", "multi", "cross", "extract", "profile"
# Both search expansions, named alike.
EXPANDING = (EXPAND, MULTI)
# The baseline has no part: it is the retriever alone.
PROJECTED = tuple(method for method in (*METHODS, *OFFICIAL) if method != "baseline")
# What stands behind a retriever, beside diversifiers.
PARTS = (*EXPANDING, CROSS, EXTRACT, PROFILE, *PROJECTED)
_EXAMPLE = {
    EXPAND: "expand:rule",
    MULTI: "multi:rule",
    CROSS: "cross:org/model",
    EXTRACT: "extract:rule",
    PROFILE: "profile:filter",
}


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
    def uses_aspects(self) -> bool:
        """Whether a judge's opinion of generated perspectives, or what groups authors are of, influences the order."""
        return any(part.kind in DIVERSIFIERS and DIVERSIFIERS[part.kind].needs == "aspects" for part in self.parts)

    @property
    def chooses(self) -> bool:
        """Whether something in it chooses among so many candidates: asked for more, it lists others or refuses."""
        # Reciprocal ranks of deeper lists add up to another order.
        choosing = any(part.kind in (CROSS, MULTI, *DIVERSIFIERS) or part == (PROFILE, FUSION) for part in self.parts)
        return choosing or RETRIEVERS.find(self.first)[0].reranks

    def values(self, *kinds: str) -> list[str]:
        """Return the values of all parts of some kinds."""
        return [part.value for part in self.parts if part.kind in kinds]


def parse_system(text: str) -> System:
    """Read a system string.

    Args:
        text: "RETRIEVER", then any number of parts. A value that is a file may hold a "+", as long as no name of a part
            follows it.

    Raises:
        InputError: an unknown retriever or part, a part without its value, a value that is none, or an order that means
            nothing: a projection that does not follow a dense retriever; two expansions, or one behind a diversifier
            that covers generated perspectives, because the expanded queries are not the questions that these belong to;
            profile:template anywhere but behind the retriever, or profile:fusion twice.

    >>> parse_system("minilm+pap+:0.5+mmr:0.75")
    System(first='minilm', parts=(Part(kind='pap+', value='0.5'), Part(kind='mmr', value='0.75')))
    """
    if not isinstance(text, str):
        raise InputError(f"a system is named by text such as 'minilm+mmr:0.9', not by {type(text).__name__}")
    # "+pap+:1" is the part "pap+"; "+pap+mmr:0.9" is "pap" and then "mmr": a kind ends at ":", "+" or the end.
    kinds = sorted(_kinds(), key=len, reverse=True)
    at_part = re.compile(rf"\+({'|'.join(map(re.escape, kinds))})(?=:|\+|$)(?::?)")
    text = text.strip()
    found = list(at_part.finditer(text))
    starts = [match.start() for match in found] + [len(text)]
    parts = tuple(Part(m[1], text[m.end() : end]) for m, end in zip(found, starts[1:], strict=True))
    system = System(text[: starts[0]], parts)
    _check_first(system, text)
    for part in parts:
        _check_value(part, text)
    _check_order(system, text)
    return system


def _kinds() -> list[str]:
    return [*PARTS, *DIVERSIFIERS]


def _check_first(system: System, text: str) -> None:
    first, plus, rest = system.first.partition("+")
    if plus and ":" not in first:  # hf:FOLDER may hold one
        RETRIEVERS.find(first)
        _check_kind(rest, text)
    _check_misspelt(system.first, text)
    RETRIEVERS.find(system.first)


def _check_misspelt(name: str, text: str) -> None:
    """Refuse a name that ends like a part with a number; any other "+" may be that of a file."""
    if found := re.search(r"\+([a-z][\w-]*):[\d.]+(?=\+|$)", name, re.IGNORECASE):
        _check_kind(found[1], text)


def _check_kind(rest: str, text: str) -> None:
    """Refuse what begins with no name of a part."""
    try:
        known("part", rest.partition(":")[0].partition("+")[0], _kinds())
    except InputError as error:
        raise InputError(f"{text!r}: {error.problem}") from None


def _check_value(part: Part, text: str) -> None:
    kind, value = part
    if kind in _EXAMPLE:
        if not value:
            raise InputError(f"{text!r}: {kind} needs a name, as in {_EXAMPLE[kind]}")
        _check_misspelt(value, text)
        if kind == PROFILE:
            _check_use(value, text)
        return
    if "+" in value:
        _check_kind(value.partition("+")[2], text)
    if kind in DIVERSIFIERS:
        _check_number(part, text, "relevance weight", "0.75")
        if not 0 <= part.number <= 1:
            raise InputError(f"{text!r}: the relevance weight of {kind} must be from 0 to 1, not {value}")
    elif kind not in (*PROJECTIONS, *OFFICIAL) and value:
        raise InputError(
            f"{text!r}: {kind} takes no value; only {', '.join((*PROJECTIONS, *OFFICIAL))} have a strength"
        )
    elif value:
        _check_number(part, text, "strength", "0.5")


def _check_use(value: str, text: str) -> None:
    use, plus, rest = value.partition("+")
    if plus:
        _check_kind(rest, text)
    try:
        known("use of profiles", use, USES)
    except InputError as error:
        raise InputError(f"{text!r}: {error.problem}") from None


def _check_number(part: Part, text: str, what: str, example: str) -> None:
    try:
        finite = abs(float(part.value)) < float("inf")
    except ValueError:
        finite = False
    if not finite:
        problem = f"{part.kind} needs a {what}, as in {part.kind}:{example}, not {part.value!r}"
        raise InputError(f"{text!r}: {problem}")


def _check_order(system: System, text: str) -> None:
    before: list[str] = []
    for part in system.parts:
        if part.kind in (*PROJECTED, EXTRACT):
            if not is_dense(system.first):
                raise InputError(f"{text!r}: {part.kind} changes vectors, and {system.first!r} has none; take minilm")
            if [kind for kind in before if kind != EXTRACT] or part.kind in before:
                raise InputError(f"{text!r}: {part.kind} must follow the retriever, and one projection is enough")
        elif before[-1:] == [EXTRACT]:
            raise InputError(f"{text!r}: extract is for the projection behind it, as in extract:rule+pap:1.0")
        elif part.kind in EXPANDING and (earlier := _own_perspectives(before)):
            if {part.kind, earlier} == set(EXPANDING):
                raise InputError(f"{text!r}: expand and multi both search expansions, and one of them is enough")
            raise InputError(f"{text!r}: {part.kind} must come before {earlier}, and once only")
        elif part == (PROFILE, TEMPLATE) and before:
            raise InputError(f"{text!r}: profile:template changes what the retriever reads, so it must follow it")
        before.append(part.kind)
    if system.parts.count(Part(PROFILE, FUSION)) > 1:
        raise InputError(f"{text!r}: one profile:fusion is enough")
    if before[-1:] == [EXTRACT]:
        raise InputError(f"{text!r}: extract is for the projection behind it, as in extract:rule+pap:1.0")


def _own_perspectives(kinds: list[str]) -> str:
    """Return the first of some parts that works with perspectives of its own making, or ""."""
    covering = (kind for kind in DIVERSIFIERS if DIVERSIFIERS[kind].needs == "aspects")
    own = {*EXPANDING, *covering}
    return next((kind for kind in kinds if kind in own), "")


def is_dense(first: str) -> bool:
    """Return whether a retriever of this name compares vectors."""
    return first in CARDS or first.startswith("hf:")
