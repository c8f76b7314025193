"""System strings: a retriever and its parts, read from left to right; the kinds of part; building of systems.

``"minilm+expand:gpt-4+mmr:0.75"`` searches with minilm for every perspective that GPT-4 generated, then reorders the
fused list by MMR. The reverse, ``"minilm+mmr:0.75+expand:gpt-4"``, reorders each perspective's list before they are
fused. A string has the same meaning in Python, in a notebook, in the shell and in a grid. A system has several
spellings, such as "BM25+mmr:.9" and "bm25 + mmr:0.90"; :func:`canonical` returns the text that they share.

============== ================================================================================================
part           what it does with the system before it
============== ================================================================================================
+index:HOW     how, and where, vectors are searched: ivf-pq:FOLDER, milvus:FILE.db; directly behind a dense retriever
+pap:1.0       projects the perspective out of the query, with this strength; also pap+ and the other methods of
               :data:`berdslib.retrieval.projection.METHODS`, most of which take no value. Behind a dense retriever.
+instruct      encodes the root with the perspective as instruction, for an encoder that reads one, as instructor-base
+extract:rule  extracts root and perspective from the raw query, for the projection that follows; or chat:MODEL
+cross:MODEL   re-ranks by a cross-encoder
+expand:NAME   searches every expansion of that name, and the lists take turns: recorded, rule, chat:MODEL or hyde:MODEL
+multi:NAME    searches the question, too, and fuses all lists by reciprocal ranks, as deep as the candidates
+profile:USE   uses the author's property that a query names: filter, or template (behind the retriever); for
               scenarios of PerspectiveArg, see :mod:`berdslib.retrieval.authors`
+mmr:0.9       reorders by a diversifier with this relevance weight; 1 keeps the order. One that compares vectors may
               name an encoder, as in +mmr:0.9@uae-large, which is BeRDS'; the default is the retriever's own
============== ================================================================================================

Every kind of part is a class in ``PARTS``, where the parser, the :class:`Workshop`, :func:`berdslib.show` and the
explorer look it up. A "+" begins a part, so names of models and files cannot contain one.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import pandas as pd

from berdslib.data.arguments import READER
from berdslib.data.collection import Collection, Expansions, are_full_queries, check_corpus
from berdslib.data.records import AnyQuery, Passage
from berdslib.data.scenario import Handout, Scenario
from berdslib.data.web import OwnCorpora
from berdslib.errors import InputError, known
from berdslib.llm.extraction import extract_by
from berdslib.models.cards import model_card
from berdslib.models.chat import make_chat
from berdslib.models.vectors import COMPUTE_ANYWAY
from berdslib.retrieval import authors
from berdslib.retrieval.base import Retriever
from berdslib.retrieval.dense import Dense
from berdslib.retrieval.diversify import (
    ASPECTS,
    DIVERSIFIERS,
    VECTORS,
    AspectsOf,
    Diversified,
    Vectors,
    passage_vectors,
)
from berdslib.retrieval.expansion import SEARCHED, Expanded, expansions_by, template_expansions
from berdslib.retrieval.index import split_name
from berdslib.retrieval.projection import INSTRUCT, METHODS, OFFICIAL, PROJECTIONS, Projected
from berdslib.retrieval.rerank import TART_FULL, CrossEncoderRetriever, Scorer, load_scorer
from berdslib.retrieval.retrievers import (
    RETRIEVERS,
    InOwnCorpora,
    check_dense,
    encoding_of,
    is_dense,
    make_retriever,
)

logger = logging.getLogger(__name__)

EXPAND = "expand"
MULTI = "multi"
CROSS = "cross"
EXTRACT = "extract"
PROFILE = "profile"
INDEX = "index"
EXPANDING = (EXPAND, MULTI)  # both search expansions, whose names are the same
# The baseline is the retriever alone, without a part.
PROJECTED = tuple(method for method in (*METHODS, *OFFICIAL, INSTRUCT) if method != "baseline")
# Menus of the explorer.
PROJECTION = "projection"
EXPANSION = "expansion"
DIVERSIFIER = "diversifier"
RECORDED = "recorded"
RULE = "rule"
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e-?\d+)?", re.ASCII | re.IGNORECASE)
# A part is "+name" or "+name:value"; a "+" is of the name, as in "pap+" and "pap+-rev", where ":", "+", "-" or the end
# follows.
_PART = re.compile(r"\+([^+:]*(?:\+(?=\s*[+:-]|\s*$)[^+:]*)?)(?:\s*:([^+]*))?")
_KEPT = 4  # searches that a system remembers
_Made = TypeVar("_Made")


class Description(NamedTuple):
    """What a part of a system does, what it needs, and what it computes once and keeps."""

    part: str
    does: str
    needs: str
    once: str


@dataclass(frozen=True)
class Part:
    """A part of a system, such as "+mmr:0.9"; a part without a value has "". Each kind of part is a class."""

    kind: str
    value: str = ""

    menu: ClassVar[str] = ""
    offers: ClassVar[tuple[str, ...]] = ()  # values in a menu of the explorer
    of_questions: ClassVar[bool] = False  # True if it depends on the questions
    chooses: ClassVar[bool] = False  # True if it chooses among `depth` candidates

    def parse(self, before: System) -> Self:  # noqa: ARG002 # for subclasses
        """Return the part in its canonical spelling; InputError if its value, or its place, is invalid."""
        if not self.value:
            raise InputError(f"{self.kind} needs a name, as in {self.kind}:NAME")
        return self

    def gather(self, shop: Workshop) -> None:
        """Load what the part needs, before a search."""

    def wrap(self, shop: Workshop, system: System) -> Retriever:
        """Return the retriever of the system that ends in this part."""
        raise NotImplementedError

    def describe(self) -> Description:
        """Describe the part."""
        return Description(str(self), "", "", "")

    @property
    def covers(self) -> bool:
        """Whether the part covers perspectives, as judged in passages, or groups of authors."""
        return False

    def __str__(self) -> str:
        """Return the part as in a system string."""
        return f"+{self.kind}:{self.value}" if self.value else f"+{self.kind}"


class System(NamedTuple):
    """A parsed system string: the name of its first retriever, and its parts."""

    first: str
    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """The system string."""
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
    def of_passages(self) -> System:
        """The longest beginning of the system that does not depend on the questions, as an expansion does."""
        depends = [part.of_questions or part.covers for part in self.parts]
        return System(self.first, self.parts[: [*depends, True].index(True)])

    @property
    def uses_aspects(self) -> bool:
        """Whether judged perspectives, or groups of authors, influence the order."""
        return any(part.covers for part in self.parts)

    @property
    def chooses(self) -> bool:
        """Whether a part chooses among `depth` candidates: a larger k then changes the list, or is refused."""
        return any(part.chooses for part in self.parts) or RETRIEVERS.find(self.first)[0].reranks

    @property
    def encoders(self) -> list[str]:
        """The encoders whose vectors the system compares."""
        encoders = [self.first] if is_dense(self.first) else []
        default = self.first if encoders else "minilm"
        for part in self.parts:
            if isinstance(part, DiversifierPart) and part.compares_vectors:
                encoders.append(part.encoder or default)
        return list(dict.fromkeys(encoders))

    def searched_by(self, index: str) -> System:
        """The system with an index, if its retriever is dense and has no index yet; else the system."""
        if not index or not is_dense(self.first) or self.values(INDEX):
            return self
        return parse_system(System(self.first, (Part(INDEX, index), *self.parts)).text)

    def values(self, *kinds: str) -> list[str]:
        """Return the values of all parts of some kinds."""
        return [part.value for part in self.parts if part.kind in kinds]


def kind_of(name: str) -> type[Part]:
    """Return a kind of part by name; every diversifier is one."""
    return PARTS.get(name, DiversifierPart)


def kinds(menu: str = "") -> list[str]:
    """Return the names of all kinds of part, or of those in a menu."""
    return [name for name in (*PARTS, *DIVERSIFIERS.spellings()) if menu in ("", kind_of(name).menu)]


def offers(menu: str) -> list[str]:
    """Return the parts of a menu that the explorer suggests."""
    parts = []
    for name in kinds(menu):
        values = kind_of(name).offers
        parts += [f"{name}:{value}" for value in values] or [name]
    return parts


# ---------------------------------------------------------------- reading


def parse_system(text: str) -> System:
    """Read a system string.

    Capitals of names, spaces around parts and the format of numbers are ignored: all spellings of a system are read as
    the same. Names of models and files stay as they are.

    Raises:
        InputError: an unknown retriever or part, a missing or invalid value, or parts in an invalid order.

    >>> parse_system("MiniLM+pap+:0.50 + mmr:.75").text
    'minilm+pap+:0.5+mmr:0.75'
    """
    if not isinstance(text, str):
        raise InputError(f"a system must be a string such as 'minilm+mmr:0.9', not {type(text).__name__}")
    text = text.strip()
    first, plus, parts = text.partition("+")
    RETRIEVERS.find(first.strip())
    system = System(RETRIEVERS.spelt(first.strip()))
    names = {name.casefold(): name for name in kinds()}
    try:
        for kind, value in _PART.findall(plus + parts):
            name = names.get(kind.strip().casefold()) or known("part", kind.strip(), kinds())
            part = kind_of(name)(name, value.strip()).parse(system)
            system = System(system.first, (*system.parts, part))
        for before, behind in pairwise((*system.parts, None)):
            if isinstance(before, ExtractPart) and not isinstance(behind, ProjectionPart):
                raise InputError("extract must precede a projection, as in extract:rule+pap:1.0")
    except InputError as error:
        raise InputError(f"{text!r}: {error.problem}") from None
    return system


def canonical(text: str) -> str:
    """Return the canonical text of a system, which all its spellings share.

    >>> canonical("BM25+MMR:.90"), canonical("minilm+pap:1.0")
    ('bm25+mmr:0.9', 'minilm+pap')
    """
    return parse_system(text).text


def _number(part: Part, text: str, what: str, example: str) -> float:
    if _NUMBER.fullmatch(text) and abs(float(text)) < float("inf"):
        return float(text)
    raise InputError(f"{part.kind} needs a {what}, as in {part.kind}:{example}, not {part.value!r}")


def _spelt(number: float) -> str:
    """Return the shortest text of a number that is read back as the same number."""
    return repr(number + 0.0).removesuffix(".0").replace("e+", "e")  # turns -0.0 into 0.0; a "+" would begin a part


def _once_only(part: Part, kinds_before: Sequence[str]) -> None:
    if part.kind in kinds_before:
        raise InputError(f"{part.kind} may appear only once")


def describe_first(name: str) -> Description:
    """Describe the retriever of a name."""
    if not RETRIEVERS.is_built_in(name):
        return Description(name, "ranks passages", "what its maker loads", "what its maker makes of the passages")
    if is_dense(name):
        needs = _weights_of(model_card(name).checkpoint)
        return Description(name, "ranks passages by their vectors", needs, "the vectors of the passages, an index")
    if RETRIEVERS.find(name)[0].reranks:
        return Description(
            name, "re-ranks what contriever finds", _weights_of(TART_FULL), "the vectors of the passages"
        )
    needs = "Pyserini and Java 21" if name.startswith("pyserini:") else "nothing"
    return Description(name, "ranks passages by their words", needs, "an index of words")


def _weights_of(checkpoint: str) -> str:
    if checkpoint.startswith("package:") or Path(checkpoint).exists():
        return f"the weights in {checkpoint.replace(':', ' ')}"
    return f"the weights of {checkpoint}, over the network unless they are on this machine"


def _needs_of(name: str) -> str:
    """Return what a set of expansions or an extraction needs: rule, recorded, chat:MODEL or hyde:MODEL."""
    kind, colon, model = name.partition(":")
    if not colon:
        return "nothing" if kind == RULE else "the recorded expansions of the collection"
    return f"{model}: a key and the network, or the model on this machine; nothing for answers in recordings"


# ---------------------------------------------------------------- building


class Workshop:
    """Builds systems over one collection; models, indexes and expansions are made on first use and shared.

    Args:
        collection: the collection to search; of a scenario of PerspectiveArg, systems get the handout.
        aspects_by: maps generated perspectives and the corpus to the probability that each passage argues them, see
            :func:`berdslib.judging.store.judged_aspects`. The perspectives are those that the system expands by, else
            recorded ones, else by rule. If queries name properties of authors, aspects are author groups instead.
        encoder: compares passages behind a retriever without an encoder.
        depth: the number of candidates of a cross-encoder or a diversifier, and the depth of the lists of "multi".
        recordings: a file of a chat model's answers, which are reused; new answers are added.
        scorers: loaded cross-encoders by name; new ones are added.
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
        self._encoder = encoder
        self._aspects_by = aspects_by
        self.depth = depth
        self.recordings = recordings
        # Caches: cross-encoders, objects that depend on the passages, and objects that also depend on the questions.
        self._scorers: dict[str, Scorer] = {} if scorers is None else scorers
        self._of_passages: dict[tuple[str, str], Any] = {}
        self._of_questions: dict[tuple[str, object], Any] = {}
        self._use(collection)

    def _use(self, collection: Collection) -> None:
        if isinstance(collection, Scenario):
            collection = collection.handout  # systems must not see the answers
        check_corpus(collection)
        self.collection = collection
        self._handout = collection if isinstance(collection, Handout) and collection.asked else None

    def make(self, systems: Sequence[str]) -> dict[str, Retriever]:
        """Return system string → retriever; systems share models, indexes and expansions, also with earlier ones."""
        parsed = {text: parse_system(text) for text in systems}  # an invalid string fails before anything is built
        for system in parsed.values():
            self.gather(system)
        return {text: self.build(system) for text, system in parsed.items()}

    def beside(self, collection: Collection) -> Workshop:
        """Return a workshop over another collection; models are shared, and indexes if the passages are the same."""
        other = copy(self)
        other._of_questions = {}
        if collection.passages is not self.collection.passages:
            other._of_passages = {}
        other._use(collection)
        return other

    def gather(self, system: System) -> None:
        """Get the expansions and load the models that a system needs, so that missing ones fail before a search."""
        for part in system.parts:
            part.gather(self)

    def build(self, system: System) -> Retriever:
        """Return a system's retriever; it and its beginnings are built once, and remember their last runs."""

        def make() -> _Remembering:
            retriever = system.last.wrap(self, system) if system.parts else self.first(system.first)
            # A cross-encoder scores all candidates for any k, so all of them are kept.
            whole = self.depth if isinstance(retriever, CrossEncoderRetriever) else 0
            return _Remembering(retriever, system.text, whole)

        return _once(self._of_questions, ("system", system), make)

    # ------------------------------------------------------------ for the parts

    def first(self, name: str, passages: Sequence[Passage] | None = None) -> Retriever:
        """Return the retriever of a name: the shared one over all passages, or a new one over `passages`."""
        options = {"depth": self.depth} if RETRIEVERS.find(name)[0].reranks else {}
        if passages is not None:
            return make_retriever(name, passages, **options)
        make = partial(make_retriever, name, self.collection.passages, **options)
        return _once(self._of_passages, ("first", name), make)

    def scorer(self, checkpoint: str) -> Scorer:
        """Return a cross-encoder."""
        return _once(self._scorers, checkpoint, lambda: load_scorer(checkpoint))

    def expansions(self, name: str) -> Expansions:
        """Return the expansions of a name: recorded, rule, chat:MODEL or hyde:MODEL."""
        return _once(self._of_questions, ("expansions", name), lambda: self._make_expansions(name))

    def vectors(self, first: str) -> Vectors:
        """Return the vectors of passages: of the retriever's index, or by its encoder, else by the workshop's."""
        name = self._encoder_for(first)
        retriever = self._of_passages.get(("first", name))
        if isinstance(retriever, Dense) and retriever.vectors:
            return retriever.vectors
        make = partial(passage_vectors, self.collection.passages, *encoding_of(name))
        return _once(self._of_passages, ("vectors", name), make)

    def aspects(self, system: System) -> AspectsOf:
        """Return the aspects that a diversifier in a system covers."""
        if self._handout:
            if self._handout.profiles is None:
                problem = f"the {self._handout.rule} scenario hides the profiles of authors"
                raise InputError(f"{system.text!r} covers groups of authors, but {problem}")
            return authors.group_aspects(self.authors())
        aspects_by = self._aspects_by
        if aspects_by is None:
            raise InputError(f"{system.text!r} covers generated perspectives, which needs aspects_by")
        # A hypothetical passage is one answer, not a list of perspectives.
        listed = next((name for name in system.values(*EXPANDING) if not name.startswith("hyde:")), "")
        return _once(
            self._of_questions,
            ("aspects", listed),
            lambda: aspects_by(self._perspectives(listed), self.collection.passages),
        )

    def authors(self) -> authors.Authors:
        """Return the authors of a handout's passages."""
        handout = self._handout
        assert handout  # without properties in the queries, systems that need authors are refused before
        return _once(self._of_questions, ("authors", ""), lambda: authors.Authors(handout))

    def _encoder_for(self, first: str) -> str:
        """Return the retriever's own encoder, whose vectors are cached already, or else the workshop's."""
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
        """Return the expansions of a name; for "", or full queries of PIR, those recorded or by rule."""
        questions = self.collection.questions
        recorded = self.collection.expansions
        full = {question.qid for question in questions if are_full_queries(question, recorded.get(question.qid, ()))}
        if listed and not (listed == RECORDED and full):
            return self.expansions(listed)
        usable = {qid: pairs for qid, pairs in recorded.items() if qid not in full}
        without = [question.qid for question in questions if question.qid not in usable]
        if not without:
            return usable
        message = "perspectives of %d of %d questions are made by rule, as none are recorded"
        logger.warning(message, len(without), len(questions))
        return {**self.expansions(RULE), **usable}


def _once(kept: dict[Any, Any], key: object, make: Callable[[], _Made]) -> _Made:
    """Return kept[key], and make it first if it is missing."""
    if key not in kept:
        kept[key] = make()
    return kept[key]


class _Remembering:
    """A retriever that remembers its last searches, and searches to a depth of at least `whole`."""

    def __init__(self, retriever: Retriever, name: str, whole: int = 0) -> None:
        self.name = name
        self._retriever = retriever
        self._whole = whole
        # A list, because a user's question may have its perspectives in a list, which cannot be hashed.
        self._last: deque[tuple[list[AnyQuery], int, pd.DataFrame]] = deque(maxlen=_KEPT)

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        asked = list(questions)
        deep = max(k, self._whole)
        last = () if COMPUTE_ANYWAY.get() else self._last
        run = next((run for before, depth, run in last if depth == deep and before == asked), None)
        if run is None:
            run = self._retriever.search(questions, deep)
            self._last.append((asked, deep, run))
        return run[run["rank"] <= k].reset_index(drop=True) if deep > k else run.copy()


# ---------------------------------------------------------------- projections and indexes


class _VectorPart(Part):
    """A part that uses the vectors of the retriever before it."""

    def parse(self, before: System) -> Self:
        """Refuse a retriever without vectors, and parts in between."""
        if not is_dense(before.first):
            raise InputError(f"{self.kind} needs a dense retriever such as 'minilm'; {before.first!r} is not one")
        kinds_before = [part.kind for part in before.parts]
        _once_only(self, kinds_before)
        if any(kind != EXTRACT for kind in kinds_before):
            once = "" if self.kind == INDEX else ", and only one projection is possible"
            raise InputError(f"{self.kind} must follow the retriever{once}")
        return self


class ProjectionPart(_VectorPart):
    """Projects the perspective out of a query, or sums vectors; the value is the strength, by default 1."""

    menu = PROJECTION

    @property
    def number(self) -> float:
        """The strength."""
        return float(self.value or 1.0)

    def parse(self, before: System) -> Self:
        """Leave out a strength of 1."""
        with_strength = (*PROJECTIONS, *OFFICIAL)
        if self.value and self.kind not in with_strength:
            raise InputError(f"{self.kind} takes no value; only {', '.join(with_strength)} have a strength")
        strength = _number(self, self.value, "strength", "0.5") if self.value else 1.0
        return replace(super().parse(before), value="" if strength == 1 else _spelt(strength))

    def wrap(self, shop: Workshop, system: System) -> Retriever:
        """Return the projected retriever."""
        extract = next(iter(system.values(EXTRACT)), "")
        encoder, text_of = encoding_of(system.first)
        make = partial(
            Projected,
            encoder=encoder,
            method=self.kind,
            strength=self.number,
            extract=partial(extract_by, extract, make_chat=make_chat, recordings=shop.recordings) if extract else None,
            name=system.text,
            text_of=text_of,
        )
        passages = shop.collection.passages
        return InOwnCorpora(system.text, make, passages) if isinstance(passages, OwnCorpora) else make(passages)

    def describe(self) -> Description:
        """Describe the part."""
        does = "changes the query's vector by its perspective"
        return Description(str(self), does, "the retriever's encoder", "the vectors of the passages")


class ExtractPart(_VectorPart):
    """Extracts root and perspective from the raw query, for the projection behind it."""

    def parse(self, before: System) -> Self:
        """Refuse a missing name."""
        if not self.value:
            raise InputError("extract needs a name, as in extract:rule")
        return super().parse(before)

    def describe(self) -> Description:
        """Describe the part."""
        return Description(str(self), "cuts root and perspective out of a query", _needs_of(self.value), "nothing")


class IndexPart(_VectorPart):
    """Sets how vectors are searched, and where their index is saved."""

    def parse(self, before: System) -> Self:
        """Refuse an unknown index."""
        split_name(self.value)
        return super().parse(before)

    def wrap(self, shop: Workshop, system: System) -> Retriever:
        """Return the retriever with this index."""
        return make_retriever(system.first, shop.collection.passages, index=self.value)

    def describe(self) -> Description:
        """Describe the part."""
        place = split_name(self.value)[1]
        return Description(str(self), "searches vectors by this index", place or "nothing", "the index")


# ---------------------------------------------------------------- expansions, cross-encoders


class ExpansionPart(Part):
    """Searches the expansions of a name; the lists take turns."""

    menu = EXPANSION
    offers = (RULE, RECORDED)
    of_questions = True

    how: ClassVar[str] = "searches every expansion of a question; the lists take turns"

    def parse(self, before: System) -> Self:
        """Refuse a missing name, and parts before that need the original questions."""
        if not self.value:
            raise InputError(f"{self.kind} needs a name, as in {self.kind}:{RULE}")
        earlier = next((part.kind for part in before.parts if part.kind in EXPANDING or part.covers), "")
        _once_only(self, [earlier])
        if {self.kind, earlier} == set(EXPANDING):
            raise InputError("expand and multi both search expansions; use one of them")
        if earlier:
            raise InputError(f"{self.kind} must come before {earlier}")
        return self

    def gather(self, shop: Workshop) -> None:
        """Get the expansions."""
        shop.expansions(self.value)

    def wrap(self, shop: Workshop, system: System) -> Retriever:
        """Return the expanded retriever."""
        options = SEARCHED.get(self.value.partition(":")[0], {}) if ":" in self.value else {}
        options = options | self.fusion(shop)
        return Expanded(shop.build(system.before), shop.expansions(self.value), name=system.text, **options)

    def fusion(self, shop: Workshop) -> dict[str, Any]:  # noqa: ARG002 # MultiPart reads its depth
        """Return options of :class:`~berdslib.retrieval.expansion.Expanded` for the fusion of the lists."""
        return {}

    def describe(self) -> Description:
        """Describe the part."""
        return Description(str(self), self.how, _needs_of(self.value), "the expansions of the questions")


class MultiPart(ExpansionPart):
    """Searches the question, too, and fuses all lists by reciprocal ranks."""

    chooses = True  # sums of reciprocal ranks depend on the depth of the lists
    how = "searches a question and its expansions; the lists are fused by reciprocal ranks"

    def fusion(self, shop: Workshop) -> dict[str, Any]:
        """Return how the lists are fused."""
        return {"original": True, "fuse": "rrf", "depth": shop.depth}


class CrossPart(Part):
    """Re-ranks by a cross-encoder."""

    chooses = True

    def gather(self, shop: Workshop) -> None:
        """Load the model."""
        shop.scorer(self.value)

    def wrap(self, shop: Workshop, system: System) -> Retriever:
        """Return the re-ranked retriever."""
        scorer = shop.scorer(self.value)
        passages = shop.collection.passages
        return CrossEncoderRetriever(shop.build(system.before), passages, scorer, shop.depth, name=system.text)

    def describe(self) -> Description:
        """Describe the part."""
        return Description(str(self), "re-ranks the candidates", _weights_of(self.value), "the model")


# ---------------------------------------------------------------- profiles


class ProfilePart(Part):
    """Uses the author's property that a query of PerspectiveArg names."""

    of_questions = True

    def parse(self, before: System) -> Self:
        """Refuse an unknown use, and a template anywhere but behind the retriever."""
        if not self.value:
            raise InputError("profile needs a name, as in profile:filter")
        known("use of profiles", self.value, authors.USES)
        if self.value == authors.TEMPLATE and before.parts:
            raise InputError("profile:template changes the texts of the retriever, so it must follow the retriever")
        return self

    def wrap(self, shop: Workshop, system: System) -> Retriever:
        """Return the retriever that uses profiles."""
        name = system.text
        handout = authors.check_use(self.value, shop.collection, name)
        if handout.ranked_for == READER:
            logger.warning("%r uses the author of a passage, but queries name a property of its reader", name)
        if self.value == authors.TEMPLATE:
            return authors.Templated(shop.first(system.first, authors.templated(handout)), handout, name=name)
        deepens = not system.before.chooses
        return authors.Filtered(shop.build(system.before), shop.authors(), shop.depth, deepens=deepens, name=name)

    def describe(self) -> Description:
        """Describe the part."""
        return Description(str(self), "looks at authors", "a scenario of PerspectiveArg with profiles", "nothing")


# ---------------------------------------------------------------- diversifiers


class DiversifierPart(Part):
    """Reorders by a diversifier; the value is the relevance weight, optionally with "@" and an encoder."""

    menu = DIVERSIFIER
    chooses = True

    @property
    def number(self) -> float:
        """The relevance weight."""
        return float(self.value.partition("@")[0])

    @property
    def encoder(self) -> str:
        """The encoder for comparing passages; "" for the retriever's own."""
        return self.value.partition("@")[2].strip()

    @property
    def covers(self) -> bool:
        """Whether the diversifier covers perspectives or groups."""
        return DIVERSIFIERS[self.kind].needs == ASPECTS

    @property
    def compares_vectors(self) -> bool:
        """Whether the diversifier compares vectors of passages."""
        return DIVERSIFIERS[self.kind].needs == VECTORS

    def parse(self, before: System) -> Self:
        """Refuse an invalid weight; leave out the retriever's own encoder."""
        text, at, _ = self.value.partition("@")
        weight = _number(self, text.strip(), "relevance weight", "0.75")
        if not 0 <= weight <= 1:
            raise InputError(f"the relevance weight of {self.kind} must be from 0 to 1, not {text.strip()}")
        if not at:
            return replace(self, value=_spelt(weight))
        if self.covers:
            raise InputError(f"{self.kind} does not compare vectors, so it takes no encoder")
        check_dense(self.encoder)
        encoder = RETRIEVERS.spelt(self.encoder)
        return replace(self, value=_spelt(weight) + ("" if encoder == before.first else f"@{encoder}"))

    def gather(self, shop: Workshop) -> None:
        """Load the encoder that it names; otherwise a missing model would fail only after the search."""
        if self.encoder:
            vectors = shop.vectors(self.encoder)
            if callable(vectors):
                vectors([shop.collection.passages[0].docno])

    def wrap(self, shop: Workshop, system: System) -> Retriever:
        """Return the diversified retriever."""
        aspects = shop.aspects(system) if self.covers else None  # first, since it may raise
        return Diversified(
            shop.build(system.before),
            self.kind,
            relevance_weight=self.number,
            vectors=shop.vectors(self.encoder or system.first) if self.compares_vectors else None,
            aspects=aspects,
            depth=shop.depth,
            name=system.text,
        )

    def describe(self) -> Description:
        """Describe the part."""
        if self.covers:
            needs = "the aspect judge, or groups of authors"
            once = "verdicts on candidates, in the store"
        else:
            needs = f"the vectors of {self.encoder or 'the retriever, or of minilm'}"
            once = "the vectors of passages"
        return Description(str(self), f"reorders the candidates by {self.kind}, 1 keeps their order", needs, once)


# The kinds of part except diversifiers.
PARTS: dict[str, type[Part]] = {
    EXPAND: ExpansionPart,
    MULTI: MultiPart,
    CROSS: CrossPart,
    EXTRACT: ExtractPart,
    INDEX: IndexPart,
    PROFILE: ProfilePart,
    **dict.fromkeys(PROJECTED, ProjectionPart),
}
