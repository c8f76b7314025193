"""System strings: a retriever and the parts behind it, read from left to right; what parts there are, and who builds.

``"minilm+expand:gpt-4+mmr:0.75"``: search with minilm, do so under every perspective that GPT-4 thought of, then
reorder the fused list by MMR. The other way round, ``"minilm+mmr:0.75+expand:gpt-4"``, each perspective's own list is
reordered before they are fused. The same string means the same in Python, in a notebook, in the shell and in a grid.
One system may be spelt in several ways, "BM25+mmr:.9" and "bm25 + mmr:0.90"; :func:`canonical` returns the one text
that all of them share.

============== ================================================================================================
part           what it does with what stands before it
============== ================================================================================================
+index:HOW     how, and where, vectors are searched: ivf-pq:FOLDER, milvus:FILE.db; directly behind a dense retriever
+pap:1.0       projects the perspective out of the query, with this strength; also pap+ and the other methods of
               :data:`berdslib.retrieval.projection.METHODS`, most of which take no value. Behind a dense retriever.
+instruct      encodes the root with the perspective as the instruction of an encoder that reads one, instructor-base
+extract:rule  has root and perspective cut out of the raw query, for the projection that follows; or chat:MODEL
+cross:MODEL   re-ranks by a cross-encoder
+expand:NAME   searches every expansion of that name, and the lists take turns: recorded, rule, chat:MODEL or hyde:MODEL
+multi:NAME    searches the question, too, and fuses its list and theirs by reciprocal ranks, as deep as the candidates
+profile:USE   looks at the author's property that a query names: filter, or template (behind the retriever); for
               scenarios of PerspectiveArg, see :mod:`berdslib.retrieval.authors`
+mmr:0.9       reorders by a diversifier with this relevance weight; 1 keeps the order. One that compares vectors may
               name the encoder: +mmr:0.9@uae-large, which is BeRDS'; else they are the retriever's own
============== ================================================================================================

A new kind of part is an entry of ``PARTS``: the parser, the :class:`Workshop` and the explorer read it there.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from berdslib.data.arguments import READER
from berdslib.data.collection import Collection, Expansions, are_full_queries
from berdslib.data.records import Passage, Question
from berdslib.data.scenario import Handout, Scenario
from berdslib.data.web import OwnCorpora
from berdslib.errors import InputError, known
from berdslib.llm.extraction import extract_by
from berdslib.models.chat import make_chat
from berdslib.retrieval import authors
from berdslib.retrieval.base import Ours, Retriever, checked_search
from berdslib.retrieval.diversify import (
    ASPECTS,
    DIVERSIFIERS,
    VECTORS,
    AspectsOf,
    Diversified,
    passage_vectors,
)
from berdslib.retrieval.expansion import SEARCHED, Expanded, expansions_by, template_expansions
from berdslib.retrieval.index import split_name
from berdslib.retrieval.projection import INSTRUCT, METHODS, OFFICIAL, PROJECTIONS, Projected
from berdslib.retrieval.rerank import CrossEncoderRetriever, Scorer, load_scorer
from berdslib.retrieval.retrievers import (
    RETRIEVERS,
    InOwnCorpora,
    check_dense,
    encoding_of,
    is_dense,
    make_retriever,
)

logger = logging.getLogger(__name__)

EXPAND, MULTI, CROSS, EXTRACT, PROFILE, INDEX = "expand", "multi", "cross", "extract", "profile", "index"
EXPANDING = (EXPAND, MULTI)  # both search expansions, named alike
# The baseline has no part: it is the retriever alone.
PROJECTED = tuple(method for method in (*METHODS, *OFFICIAL, INSTRUCT) if method != "baseline")
PROJECTION, EXPANSION, DIVERSIFIER = "projection", "expansion", "diversifier"  # menus
RECORDED, RULE = "recorded", "rule"
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_KEPT = 4  # searches that a system remembers
_Made = TypeVar("_Made")


class Part(NamedTuple):
    """One part of a system, such as ("mmr", "0.9"); the value is "" where there is none."""

    kind: str
    value: str

    @property
    def number(self) -> float:
        """The weight of a diversifier, or the strength of a projection, which is 1 where it is not said."""
        return float(self.value.partition("@")[0] or 1.0)

    @property
    def encoder(self) -> str:
        """The encoder by which a diversifier is told to compare passages; "" for the retriever's own."""
        return self.value.partition("@")[2].strip() if kind_of(self.kind) is _DIVERSIFYING else ""

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

    def searched_by(self, index: str) -> System:
        """The system with an index, where its retriever compares vectors and no other index is named."""
        fits = index and is_dense(self.first) and not self.values(INDEX)
        return parse_system(System(self.first, (Part(INDEX, index), *self.parts)).text) if fits else self

    def values(self, *kinds: str) -> list[str]:
        """Return the values of all parts of some kinds."""
        return [part.value for part in self.parts if part.kind in kinds]


@dataclass(frozen=True)
class PartKind:
    """What there is to know of a kind of part. Its functions are given the system that ends in the part.

    ``build`` goes from a :class:`Workshop` and the system to a retriever; ``check_value`` and ``may_follow`` say what
    is wrong, "" for nothing; ``needs`` gets what is needed before a search; ``offers`` are the parts that ``menu``
    names; a value that ``names`` something may hold a "+"; ``chooses`` says whether the part chooses among candidates.
    """

    build: Callable[[Workshop, System], Retriever]
    check_value: Callable[[Part], str]
    may_follow: Callable[[System], str] = lambda _: ""
    needs: Callable[[Workshop, Part, str], object] = lambda *_: None
    menu: str = ""
    offers: tuple[str, ...] = ()
    names: bool = False
    chooses: Callable[[str], bool] = lambda _: False


def kind_of(name: str) -> PartKind:
    """Return a kind of part by name; every diversifier is one."""
    return PARTS.get(name, _DIVERSIFYING)


def kinds(menu: str = "") -> list[str]:
    """Return the names of all kinds of part, or of those in a menu."""
    return [name for name in (*PARTS, *DIVERSIFIERS.spellings()) if menu in ("", kind_of(name).menu)]


def offers(menu: str) -> list[str]:
    """Return the parts of a menu that the explorer suggests."""
    return [text for name in kinds(menu) for text in kind_of(name).offers or (name,)]


def _covers(kind: str) -> bool:
    return kind in DIVERSIFIERS and DIVERSIFIERS[kind].needs == ASPECTS


# ---------------------------------------------------------------- reading


def parse_system(text: str) -> System:
    """Read a system string; a value that is a file may hold a "+", as long as no name of a part follows it.

    Capitals of names and blanks around parts do not matter, nor does how a number is written: two strings that mean the
    same system are read as the same. Names of models and files stay as they are.

    Raises:
        InputError: an unknown retriever or part, a part without its value, a value that is none, or an order that means
            nothing.

    >>> parse_system("MiniLM+pap+:0.50 + mmr:.75")
    System(first='minilm', parts=(Part(kind='pap+', value='0.5'), Part(kind='mmr', value='0.75')))
    """
    if not isinstance(text, str):
        raise InputError(f"a system is named by text such as 'minilm+mmr:0.9', not by {type(text).__name__}")
    # "+pap+:1" is the part "pap+"; "+pap+mmr:0.9" is "pap" and then "mmr": a kind ends at ":", "+" or the end.
    names = {name.casefold(): name for name in kinds()} | {name: name for name in kinds()}  # whatever its capitals
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    text = text.strip()
    first, *read = re.split(rf"\s*\+\s*({either})\s*(?=:|\+|$)(?::\s*)?", text, flags=re.IGNORECASE)
    parts = tuple(
        Part(names.get(kind) or names[kind.casefold()], value)
        for kind, value in zip(read[::2], read[1::2], strict=True)
    )
    name = first.partition("+")[0]
    RETRIEVERS.find(first if ":" in name else name)
    first = RETRIEVERS.spelt(first)
    if wrong := next(filter(None, _problems(first, parts)), ""):
        raise InputError(f"{text!r}: {wrong}")
    return System(first, tuple(Part(part.kind, _canonical_value(part, first)) for part in parts))


def canonical(text: str) -> str:
    """Return the one text of a system, however it is spelt: two texts mean the same system if theirs are equal.

    >>> canonical("BM25+MMR:.90"), canonical("minilm+pap:1.0")
    ('bm25+mmr:0.9', 'minilm+pap')
    """
    return parse_system(text).text


def _canonical_value(part: Part, first: str) -> str:
    """Write a number in the shortest way that is read back as the same; what no value means is left out.

    That is a strength of 1, and the retriever's own encoder.
    """
    if not part.encoder and (not part.value or kind_of(part.kind).names or not _NUMBER.fullmatch(part.value)):
        return part.value
    if part.kind in PROJECTED and part.number == 1:
        return ""
    # -0.0 + 0.0 is 0.0; a "+" in an exponent would begin a part.
    number = repr(part.number + 0.0).removesuffix(".0").replace("e+", "e")
    encoder = RETRIEVERS.spelt(part.encoder)
    return number if encoder in ("", first) else f"{number}@{encoder}"


def _problems(first: str, parts: tuple[Part, ...]) -> Iterator[str]:
    """Yield what is wrong with a retriever and each part behind it, "" where nothing is."""
    yield _stray(first, ":" in first.partition("+")[0])  # hf:FOLDER may hold a "+"
    for end, part in enumerate(parts, start=1):
        kind = kind_of(part.kind)
        yield _stray(part.value, kind.names or ":" in part.encoder.partition("+")[0])
        yield kind.check_value(part)
        yield kind.may_follow(System(first, parts[:end]))
    for part, behind in pairwise((*parts, Part("", ""))):
        if part.kind == EXTRACT and behind.kind not in PROJECTED:
            yield "extract is for the projection behind it, as in extract:rule+pap:1.0"


def _stray(name: str, is_path: bool) -> str:
    """Refuse a "+" that begins no part; of a path, which may hold one, where a number follows as behind a part."""
    found = re.search(r"\+([a-z][\w-]*):[\d.]+(?=\+|$)" if is_path else r"\+([^:+]*)", name, re.IGNORECASE)
    return _wrong(known, "part", found[1], kinds()) if found else ""


def _wrong(check: Callable[..., object], *arguments: object) -> str:
    """Return what a check refuses its arguments for, "" where it does not."""
    try:
        check(*arguments)
    except InputError as error:
        return error.problem
    return ""


def _number(part: Part, what: str, example: str) -> str:
    if _NUMBER.fullmatch(part.value) and abs(part.number) < float("inf"):
        return ""
    return f"{part.kind} needs a {what}, as in {part.kind}:{example}, not {part.value!r}"


def _name(example: str) -> Callable[[Part], str]:
    return lambda part: "" if part.value else f"{part.kind} needs a name, as in {example}"


# ---------------------------------------------------------------- building


def make_systems(systems: Sequence[str], collection: Collection, **options: Any) -> dict[str, Retriever]:
    """Build systems from their strings: one call of :meth:`Workshop.make`, with the arguments of :class:`Workshop`."""
    return Workshop(collection, **options).make(systems)


class Workshop:
    """Builds systems over one collection; what is here is made when it is first needed, and kept for later ones.

    Args:
        collection: what they search; of a scenario of PerspectiveArg, systems are given the handout.
        aspects_by: from generated perspectives and the corpus to how likely each passage argues them, see
            :func:`berdslib.judging.store.judged_aspects`. The perspectives are those that the chain expands by, else
            recorded ones, else by rule. Where queries name properties of authors, aspects are author groups instead.
        encoder: says how alike two passages are, behind a retriever without an encoder.
        depth: how many candidates a cross-encoder or a diversifier chooses from, and how far "multi" looks down each
            list.
        recordings: a file of a chat model's answers: what is in it is not asked again, and what is new is added.
        scorers: cross-encoders that are loaded already, by name; those of these systems are added.
    """

    def __init__(
        self,
        collection: Collection,
        *,
        aspects_by: Callable[[Expansions, Sequence[Passage]], AspectsOf] | None = None,
        encoder: str = "minilm",
        depth: int = 100,
        recordings: Path | None = None,
        scorers: dict[str, Scorer] | None = None,
    ) -> None:
        self._encoder, self._aspects_by, self.depth, self.recordings = encoder, aspects_by, depth, recordings
        # What is kept: cross-encoders; what is over the passages; and what is of the questions, too.
        self._scorers: dict[str, Scorer] = {} if scorers is None else scorers
        self._of_passages: dict[tuple[str, str], Any] = {}
        self._of_questions: dict[tuple[str, object], Any] = {}
        self._use(collection)

    def _use(self, collection: Collection) -> None:
        if isinstance(collection, Scenario):
            collection = collection.handout  # whoever measures knows more than a system may
        if not collection.passages:
            raise InputError(f"{collection.name!r} has questions only; name the corpus to search", field="passages")
        self.collection = collection
        self._handout = collection if isinstance(collection, Handout) and collection.asked else None

    def make(self, systems: Sequence[str]) -> dict[str, Retriever]:
        """Return system string → retriever; what several of them share is made once, also with those made before."""
        parsed = {text: parse_system(text) for text in systems}  # all are read before anything is built
        for system in parsed.values():
            self.gather(system)
        return {text: self.build(system) for text, system in parsed.items()}

    def over(self, questions: Sequence[Question], expansions: Expansions) -> Workshop:
        """Return a workshop for other questions, and their recorded expansions, on the same passages."""
        return self.beside(replace(self.collection, questions=questions, gold=None, expansions=expansions))

    def beside(self, collection: Collection) -> Workshop:
        """Return a workshop over another collection; models are shared, and indexes if the passages are the same."""
        other = copy(self)
        other._of_questions = {}
        if collection.passages is not self.collection.passages:
            other._of_passages = {}
        other._use(collection)
        return other

    def gather(self, system: System) -> None:
        """Get the expansions and load the models that a system needs: what is missing fails before a search."""
        for part in system.parts:
            kind_of(part.kind).needs(self, part, system.text)

    def build(self, system: System) -> Retriever:
        """Return a system; it, and those that others begin with, are made once and remember their last lists."""

        def make() -> _Remembering:
            made = kind_of(system.last.kind).build(self, system) if system.parts else self.first(system.first)
            # A cross-encoder reads all candidates however few are asked for: they are worth keeping.
            return _Remembering(made, system.text, self.depth if isinstance(made, CrossEncoderRetriever) else 0)

        return _once(self._of_questions, ("system", system), make)

    # ------------------------------------------------------------ what parts ask for

    def first(self, name: str, passages: Sequence[Passage] | None = None) -> Retriever:
        """Return the retriever of a name: the shared one over all passages, or one over others."""
        options = {"depth": self.depth} if RETRIEVERS.find(name)[0].reranks else {}
        make = partial(make_retriever, name, self.collection.passages if passages is None else passages, **options)
        return _once(self._of_passages, ("first", name), make) if passages is None else make()

    def scorer(self, checkpoint: str) -> Scorer:
        """Return a cross-encoder."""
        return _once(self._scorers, checkpoint, lambda: load_scorer(checkpoint))

    def expansions(self, name: str) -> Expansions:
        """Return the expansions of a name: recorded, rule, chat:MODEL or hyde:MODEL."""
        return _once(self._of_questions, ("expansions", name), lambda: self._make_expansions(name))

    def vectors(self, first: str) -> Callable[[list[str]], Any]:
        """Return the vectors of passages, by the retriever's own encoder if it has one."""
        name = self._encoder_for(first)
        return _once(
            self._of_passages,
            ("vectors", name),
            lambda: passage_vectors(self.collection.passages, *encoding_of(name)),
        )

    def aspects(self, system: System) -> AspectsOf:
        """Return what a diversifier in a system covers."""
        if self._handout:
            if self._handout.profiles is None:
                hidden = f"whose profiles the {self._handout.rule} scenario hides"
                raise InputError(f"{system.text!r} covers groups of authors, {hidden}")
            return authors.group_aspects(self.authors())
        aspects_by = self._aspects_by
        if aspects_by is None:
            raise InputError(f"{system.text!r} covers generated perspectives: aspects_by must say who argues them")
        # A hypothetical passage is one answer, and no list of perspectives.
        listed = next((name for name in system.values(*EXPANDING) if not name.startswith("hyde:")), "")
        return _once(
            self._of_questions,
            ("aspects", listed),
            lambda: aspects_by(self._perspectives(listed), self.collection.passages),
        )

    def authors(self) -> authors.Authors:
        """Return who wrote the passages of a handout."""
        handout = self._handout
        assert handout  # a system that needs them is refused where no query names a property
        return _once(self._of_questions, ("authors", ""), lambda: authors.Authors(handout))

    def _encoder_for(self, first: str) -> str:
        """Return the name of the retriever's own encoder, whose vectors of a list of passages are kept already."""
        return first if is_dense(first) else self._encoder

    def _make_expansions(self, name: str) -> Expansions:
        if name == RULE:
            return template_expansions(self.collection.questions)
        if ":" in name:
            return expansions_by(name, self.collection.questions, recordings=self.recordings)
        recorded = [RECORDED] if self.collection.expansions else []
        known("set of expansions", name, [RULE, *recorded, *(f"{kind}:MODEL" for kind in SEARCHED)])
        return self.collection.expansions

    def _perspectives(self, listed: str) -> Expansions:
        """Return those listed by a name; for "", or full queries of PIR, recorded ones, or those by rule."""
        questions, recorded = self.collection.questions, self.collection.expansions
        full = {q.qid for q in questions if are_full_queries(q, recorded.get(q.qid, ()))}
        if listed and not (listed == RECORDED and full):
            return self.expansions(listed)
        fit = {qid: pairs for qid, pairs in recorded.items() if qid not in full}
        without = [q.qid for q in questions if q.qid not in fit]
        if not without:
            return fit
        logger.warning("perspectives of %d of %d questions are made by rule, as none are recorded",
                       len(without), len(questions))  # fmt: skip
        return {**self.expansions(RULE), **fit}


def _once(kept: dict[Any, Any], key: object, make: Callable[[], _Made]) -> _Made:
    """Return what is kept under a key, made now if it is not there."""
    if key not in kept:
        kept[key] = make()
    return kept[key]


class _Remembering(Ours):
    """A retriever that does not repeat its last searches, and searches at least `whole` deep."""

    def __init__(self, retriever: Retriever, name: str, whole: int = 0) -> None:
        self.name, self._retriever, self._whole = name, retriever, whole
        # Compared, not hashed: a question of the user's may hold its perspectives in a list.
        self._last: deque[tuple[list[Question], int, pd.DataFrame]] = deque(maxlen=_KEPT)

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        asked, deep = list(questions), max(k, self._whole)
        found = next((run for before, depth, run in self._last if depth == deep and before == asked), None)
        if found is None:
            found = checked_search(self._retriever, questions, deep, self.name)
            self._last.append((asked, deep, found))
        return found[found["rank"] <= k].reset_index(drop=True) if deep > k else found.copy()


# ---------------------------------------------------------------- projections


def _behind_a_dense_retriever(system: System) -> str:
    kind, before = system.last.kind, [part.kind for part in system.before.parts]
    if not is_dense(system.first):
        return f"{kind} works on vectors; {system.first} has none. Use it with minilm"
    if kind in before:
        return f"{kind} stands twice; one of them is enough"
    if any(one != EXTRACT for one in before):
        return f"{kind} must follow the retriever" + ", and one projection is enough" * (kind != INDEX)
    return ""


def _strength(part: Part) -> str:
    having = (*PROJECTIONS, *OFFICIAL)
    if part.value and part.kind not in having:
        return f"{part.kind} takes no value; only {', '.join(having)} have a strength"
    return _number(part, "strength", "0.5") if part.value else ""


def _projected(shop: Workshop, system: System) -> Retriever:
    extract, (encoder, text_of) = next(iter(system.values(EXTRACT)), ""), encoding_of(system.first)
    make = partial(
        Projected,
        encoder=encoder,
        method=system.last.kind,
        strength=system.last.number,
        extract=partial(extract_by, extract, make_chat=make_chat, recordings=shop.recordings) if extract else None,
        name=system.text,
        text_of=text_of,
    )
    passages = shop.collection.passages
    return InOwnCorpora(system.text, make, passages) if isinstance(passages, OwnCorpora) else make(passages)


# ---------------------------------------------------------------- indexes


def _indexed(shop: Workshop, system: System) -> Retriever:
    return make_retriever(system.first, shop.collection.passages, index=system.last.value)


# ---------------------------------------------------------------- expansions, cross-encoders


def _own_perspectives_once(system: System) -> str:
    """Expanded queries are not the questions that other perspectives belong to."""
    kind = system.last.kind
    earlier = next((part.kind for part in system.before.parts if part.kind in EXPANDING or _covers(part.kind)), "")
    if kind == earlier:
        return f"{kind} stands twice; one of them is enough"
    if {kind, earlier} == set(EXPANDING):
        return "expand and multi both search expansions, and one of them is enough"
    return f"{kind} must come before {earlier}" if earlier else ""


def _expanded(shop: Workshop, system: System) -> Retriever:
    name = system.last.value
    options = SEARCHED.get(name.partition(":")[0], {}) if ":" in name else {}
    if system.last.kind == MULTI:
        options = options | {"original": True, "fuse": "rrf", "depth": shop.depth}
    return Expanded(shop.build(system.before), shop.expansions(name), name=system.text, **options)


def _cross(shop: Workshop, system: System) -> Retriever:
    scorer, passages = shop.scorer(system.last.value), shop.collection.passages
    return CrossEncoderRetriever(shop.build(system.before), passages, scorer, shop.depth, name=system.text)


# ---------------------------------------------------------------- profiles


def _template_first(system: System) -> str:
    if system.last.value == authors.TEMPLATE and system.before.parts:
        return "profile:template changes what the retriever reads, so it must follow it"
    return ""


def _by_profile(shop: Workshop, system: System) -> Retriever:
    use, name = system.last.value, system.text
    handout = authors.check_use(use, shop.collection, name)
    if handout.ranked_for == READER:
        logger.warning("%r looks at who wrote a passage, and queries name the property of its reader", name)
    if use == authors.TEMPLATE:
        return authors.Templated(shop.first(system.first, authors.templated(handout)), handout, name=name)
    deepens = not system.before.chooses
    return authors.Filtered(shop.build(system.before), shop.authors(), shop.depth, deepens=deepens, name=name)


# ---------------------------------------------------------------- diversifiers


def _weight(part: Part) -> str:
    weight, at, _ = part.value.partition("@")
    weighed = Part(part.kind, weight.strip())
    if wrong := _number(weighed, "relevance weight", "0.75"):
        return wrong
    if not 0 <= weighed.number <= 1:
        return f"the relevance weight of {part.kind} must be from 0 to 1, not {weighed.value}"
    if at and _covers(part.kind):
        return f"{part.kind} compares no vectors, so it takes no encoder"
    return _wrong(check_dense, part.encoder) if at else ""


def _load_encoder(shop: Workshop, part: Part, _: str) -> None:
    if part.encoder:  # it loads its model for the first text, which would be after the search
        shop.vectors(part.encoder)([shop.collection.passages[0].docno])


def _diversified(shop: Workshop, system: System) -> Retriever:
    kind = system.last.kind
    aspects = shop.aspects(system) if _covers(kind) else None  # what they cannot be made of is said first
    return Diversified(
        shop.build(system.before),
        kind,
        relevance_weight=system.last.number,
        vectors=shop.vectors(system.last.encoder or system.first) if DIVERSIFIERS[kind].needs == VECTORS else None,
        aspects=aspects,
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


_DIVERSIFYING = PartKind(
    _diversified,
    _weight,
    needs=_load_encoder,
    menu=DIVERSIFIER,
    chooses=lambda _: True,
)

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
    ),
    EXTRACT: PartKind(_projected, _name("extract:rule"), _behind_a_dense_retriever, names=True),
    INDEX: PartKind(_indexed, lambda part: _wrong(split_name, part.value), _behind_a_dense_retriever, names=True),
    PROFILE: PartKind(
        _by_profile,
        lambda part: _name("profile:filter")(part) or _wrong(known, "use of profiles", part.value, authors.USES),
        _template_first,
        lambda shop, part, text: authors.check_use(part.value, shop.collection, text),
    ),
    **dict.fromkeys(PROJECTED, PartKind(_projected, _strength, _behind_a_dense_retriever, menu=PROJECTION)),
}
