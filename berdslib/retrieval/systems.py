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

Every kind of part is a class, an entry of ``PARTS``: the parser, the :class:`Workshop`, :func:`berdslib.show` and the
explorer read it there. A "+" begins a part, so that no name of a model or a file holds one.
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
from berdslib.data.collection import Collection, Expansions, are_full_queries
from berdslib.data.records import Passage, Question
from berdslib.data.scenario import Handout, Scenario
from berdslib.data.web import OwnCorpora
from berdslib.errors import InputError, known
from berdslib.llm.extraction import extract_by
from berdslib.models.cards import model_card
from berdslib.models.chat import make_chat
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

EXPAND, MULTI, CROSS, EXTRACT, PROFILE, INDEX = "expand", "multi", "cross", "extract", "profile", "index"
EXPANDING = (EXPAND, MULTI)  # both search expansions, named alike
# The baseline has no part: it is the retriever alone.
PROJECTED = tuple(method for method in (*METHODS, *OFFICIAL, INSTRUCT) if method != "baseline")
PROJECTION, EXPANSION, DIVERSIFIER = "projection", "expansion", "diversifier"  # menus
RECORDED, RULE = "recorded", "rule"
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e-?\d+)?", re.ASCII | re.IGNORECASE)
# A part is "+name" or "+name:value"; a "+" is of the name, as in "pap+" and "pap+-rev", where ":", "+", "-" or the end
# follows.
_PART = re.compile(r"\+([^+:]*(?:\+(?=\s*[+:-]|\s*$)[^+:]*)?)(?:\s*:([^+]*))?")
_KEPT = 4  # searches that a system remembers
_Made = TypeVar("_Made")


class Description(NamedTuple):
    """What a part of a system does, what it needs, and what is computed once and then held."""

    part: str
    does: str
    needs: str
    once: str


@dataclass(frozen=True)
class Part:
    """A part of a system, such as "+mmr:0.9"; the value is "" where there is none. Each kind of part is a class."""

    kind: str
    value: str = ""

    menu: ClassVar[str] = ""
    offers: ClassVar[tuple[str, ...]] = ()  # the values that a menu of the explorer offers
    of_questions: ClassVar[bool] = False  # it is made for certain questions
    chooses: ClassVar[bool] = False  # it chooses among so many candidates

    def parse(self, before: System) -> Self:  # noqa: ARG002 # which others look at
        """Return it in its one spelling, behind a system; raise InputError where its value or place means nothing."""
        if not self.value:
            raise InputError(f"{self.kind} needs a name, as in {self.kind}:NAME")
        return self

    def gather(self, shop: Workshop) -> None:
        """Get what it needs before a search."""

    def wrap(self, shop: Workshop, system: System) -> Retriever:
        """Return the retriever of the system that ends in it."""
        raise NotImplementedError

    def describe(self) -> Description:
        """Say what it does, what it needs, and what is computed once."""
        return Description(str(self), "", "", "")

    @property
    def covers(self) -> bool:
        """Whether it covers perspectives, by a judge's opinion of passages, or groups of authors."""
        return False

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
    def of_passages(self) -> System:
        """The longest beginning of it that depends on no question: an expansion knows those that it expands."""
        depends = [part.of_questions or part.covers for part in self.parts]
        return System(self.first, self.parts[: [*depends, True].index(True)])

    @property
    def uses_aspects(self) -> bool:
        """Whether a judge's opinion of generated perspectives, or what groups authors are of, influences the order."""
        return any(part.covers for part in self.parts)

    @property
    def chooses(self) -> bool:
        """Whether something in it chooses among so many candidates: asked for more, it lists others or refuses."""
        return any(part.chooses for part in self.parts) or RETRIEVERS.find(self.first)[0].reranks

    @property
    def encoders(self) -> list[str]:
        """The encoders whose vectors it compares."""
        own = [self.first] if is_dense(self.first) else []
        compared = [p.encoder for p in self.parts if isinstance(p, DiversifierPart) and p.compares_vectors]
        return list(dict.fromkeys([*own, *(name or (*own, "minilm")[0] for name in compared)]))

    def searched_by(self, index: str) -> System:
        """The system with an index, where its retriever compares vectors and no other index is named."""
        fits = index and is_dense(self.first) and not self.values(INDEX)
        return parse_system(System(self.first, (Part(INDEX, index), *self.parts)).text) if fits else self

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
    return [text for name in kinds(menu) for text in [f"{name}:{value}" for value in kind_of(name).offers] or [name]]


# ---------------------------------------------------------------- reading


def parse_system(text: str) -> System:
    """Read a system string.

    Capitals of names and blanks around parts do not matter, nor does how a number is written: two strings that mean the
    same system are read as the same. Names of models and files stay as they are.

    Raises:
        InputError: an unknown retriever or part, a part without its value, a value that is none, or an order that means
            nothing.

    >>> parse_system("MiniLM+pap+:0.50 + mmr:.75").text
    'minilm+pap+:0.5+mmr:0.75'
    """
    if not isinstance(text, str):
        raise InputError(f"a system is named by text such as 'minilm+mmr:0.9', not by {type(text).__name__}")
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
                raise InputError("extract is for the projection behind it, as in extract:rule+pap:1.0")
    except InputError as error:
        raise InputError(f"{text!r}: {error.problem}") from None
    return system


def canonical(text: str) -> str:
    """Return the one text of a system, however it is spelt: two texts mean the same system if theirs are equal.

    >>> canonical("BM25+MMR:.90"), canonical("minilm+pap:1.0")
    ('bm25+mmr:0.9', 'minilm+pap')
    """
    return parse_system(text).text


def _number(part: Part, text: str, what: str, example: str) -> float:
    if _NUMBER.fullmatch(text) and abs(float(text)) < float("inf"):
        return float(text)
    raise InputError(f"{part.kind} needs a {what}, as in {part.kind}:{example}, not {part.value!r}")


def _spelt(number: float) -> str:
    """Write a number in the shortest way that is read back as the same."""
    return repr(number + 0.0).removesuffix(".0").replace("e+", "e")  # -0.0 + 0.0 is 0.0; a "+" begins a part


def _once_only(part: Part, kinds_before: Sequence[str]) -> None:
    if part.kind in kinds_before:
        raise InputError(f"{part.kind} stands twice; one of them is enough")


def describe_first(name: str) -> Description:
    """Say what the retriever of a name needs, and what is computed once."""
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


def _asked_of(name: str) -> str:
    """Say what a model that is asked by "chat:MODEL" or "hyde:MODEL" needs."""
    kind, colon, model = name.partition(":")
    if not colon:
        return "nothing" if kind == RULE else "the recorded expansions of the collection"
    return f"{model}: a key and the network, or the model on this machine; nothing for answers in recordings"


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
            part.gather(self)

    def build(self, system: System) -> Retriever:
        """Return a system; it, and those that others begin with, are made once and remember their last lists."""

        def make() -> _Remembering:
            made = system.last.wrap(self, system) if system.parts else self.first(system.first)
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

    def vectors(self, first: str) -> Vectors:
        """Return the vectors of passages: those of the retriever's index, or made by its own encoder, if it has one."""
        name = self._encoder_for(first)
        retriever = self._of_passages.get(("first", name))
        if isinstance(retriever, Dense) and retriever.vectors:
            return retriever.vectors
        make = partial(passage_vectors, self.collection.passages, *encoding_of(name))
        return _once(self._of_passages, ("vectors", name), make)

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


class _Remembering:
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
            found = self._retriever.search(questions, deep)
            self._last.append((asked, deep, found))
        return found[found["rank"] <= k].reset_index(drop=True) if deep > k else found.copy()


# ---------------------------------------------------------------- projections and indexes


class _VectorPart(Part):
    """A part that works on the vectors of the retriever before it."""

    def parse(self, before: System) -> Self:
        """Refuse a retriever without vectors, and what stands between."""
        if not is_dense(before.first):
            raise InputError(f"{self.kind} works on vectors; {before.first} has none. Use it with minilm")
        kinds_before = [part.kind for part in before.parts]
        _once_only(self, kinds_before)
        if any(kind != EXTRACT for kind in kinds_before):
            enough = "" if self.kind == INDEX else ", and one projection is enough"
            raise InputError(f"{self.kind} must follow the retriever{enough}")
        return self


class ProjectionPart(_VectorPart):
    """Projects the perspective out of a query, or sums vectors; the value is the strength, 1 where it is not said."""

    menu = PROJECTION

    @property
    def number(self) -> float:
        """The strength."""
        return float(self.value or 1.0)

    def parse(self, before: System) -> Self:
        """Leave out a strength of 1."""
        having = (*PROJECTIONS, *OFFICIAL)
        if self.value and self.kind not in having:
            raise InputError(f"{self.kind} takes no value; only {', '.join(having)} have a strength")
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
        """Say what it does."""
        does = "changes the query's vector by its perspective"
        return Description(str(self), does, "the retriever's encoder", "the vectors of the passages")


class ExtractPart(_VectorPart):
    """Has root and perspective cut out of the raw query, for the projection behind it."""

    def parse(self, before: System) -> Self:
        """Refuse no name."""
        if not self.value:
            raise InputError("extract needs a name, as in extract:rule")
        return super().parse(before)

    def describe(self) -> Description:
        """Say what it needs."""
        return Description(str(self), "cuts root and perspective out of a query", _asked_of(self.value), "nothing")


class IndexPart(_VectorPart):
    """Says how, and where, vectors are searched."""

    def parse(self, before: System) -> Self:
        """Refuse an unknown index."""
        split_name(self.value)
        return super().parse(before)

    def wrap(self, shop: Workshop, system: System) -> Retriever:
        """Return the retriever with this index."""
        return make_retriever(system.first, shop.collection.passages, index=self.value)

    def describe(self) -> Description:
        """Say where it is kept."""
        place = split_name(self.value)[1]
        return Description(str(self), "searches vectors by this index", place or "nothing", "the index")


# ---------------------------------------------------------------- expansions, cross-encoders


class ExpansionPart(Part):
    """Searches the expansions of a name, and the lists take turns."""

    menu = EXPANSION
    offers = (RULE, RECORDED)
    of_questions = True

    how: ClassVar[str] = "searches every expansion of a question; the lists take turns"

    def parse(self, before: System) -> Self:
        """Refuse no name; expanded queries are not the questions that other perspectives belong to."""
        if not self.value:
            raise InputError(f"{self.kind} needs a name, as in {self.kind}:{RULE}")
        earlier = next((part.kind for part in before.parts if part.kind in EXPANDING or part.covers), "")
        _once_only(self, [earlier])
        if {self.kind, earlier} == set(EXPANDING):
            raise InputError("expand and multi both search expansions, and one of them is enough")
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

    def fusion(self, shop: Workshop) -> dict[str, Any]:  # noqa: ARG002 # whose depth another kind takes
        """Return how the lists are fused, as options of :class:`~berdslib.retrieval.expansion.Expanded`."""
        return {}

    def describe(self) -> Description:
        """Say what it needs."""
        return Description(str(self), self.how, _asked_of(self.value), "the expansions of the questions")


class MultiPart(ExpansionPart):
    """Searches the question, too, and fuses by reciprocal ranks."""

    chooses = True  # reciprocal ranks of deeper lists add up to another order
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
        scorer, passages = shop.scorer(self.value), shop.collection.passages
        return CrossEncoderRetriever(shop.build(system.before), passages, scorer, shop.depth, name=system.text)

    def describe(self) -> Description:
        """Say what it needs."""
        return Description(str(self), "re-ranks the candidates", _weights_of(self.value), "the model")


# ---------------------------------------------------------------- profiles


class ProfilePart(Part):
    """Looks at the author's property that a query of PerspectiveArg names."""

    of_questions = True

    def parse(self, before: System) -> Self:
        """Refuse an unknown use; a template changes what the retriever reads."""
        if not self.value:
            raise InputError("profile needs a name, as in profile:filter")
        known("use of profiles", self.value, authors.USES)
        if self.value == authors.TEMPLATE and before.parts:
            raise InputError("profile:template changes what the retriever reads, so it must follow it")
        return self

    def wrap(self, shop: Workshop, system: System) -> Retriever:
        """Return the retriever that looks at profiles."""
        name = system.text
        handout = authors.check_use(self.value, shop.collection, name)
        if handout.ranked_for == READER:
            logger.warning("%r looks at who wrote a passage, and queries name the property of its reader", name)
        if self.value == authors.TEMPLATE:
            return authors.Templated(shop.first(system.first, authors.templated(handout)), handout, name=name)
        deepens = not system.before.chooses
        return authors.Filtered(shop.build(system.before), shop.authors(), shop.depth, deepens=deepens, name=name)

    def describe(self) -> Description:
        """Say what it needs."""
        return Description(str(self), "looks at authors", "a scenario of PerspectiveArg with profiles", "nothing")


# ---------------------------------------------------------------- diversifiers


class DiversifierPart(Part):
    """Reorders by a diversifier; the value is the relevance weight, and may name an encoder behind "@"."""

    menu = DIVERSIFIER
    chooses = True

    @property
    def number(self) -> float:
        """The relevance weight."""
        return float(self.value.partition("@")[0])

    @property
    def encoder(self) -> str:
        """The encoder by which it is told to compare passages; "" for the retriever's own."""
        return self.value.partition("@")[2].strip()

    @property
    def covers(self) -> bool:
        """Whether it covers perspectives or groups."""
        return DIVERSIFIERS[self.kind].needs == ASPECTS

    @property
    def compares_vectors(self) -> bool:
        """Whether it compares vectors of passages."""
        return DIVERSIFIERS[self.kind].needs == VECTORS

    def parse(self, before: System) -> Self:
        """Refuse a weight that is none; leave out the retriever's own encoder."""
        text, at, _ = self.value.partition("@")
        weight = _number(self, text.strip(), "relevance weight", "0.75")
        if not 0 <= weight <= 1:
            raise InputError(f"the relevance weight of {self.kind} must be from 0 to 1, not {text.strip()}")
        if not at:
            return replace(self, value=_spelt(weight))
        if self.covers:
            raise InputError(f"{self.kind} compares no vectors, so it takes no encoder")
        check_dense(self.encoder)
        encoder = RETRIEVERS.spelt(self.encoder)
        return replace(self, value=_spelt(weight) + ("" if encoder == before.first else f"@{encoder}"))

    def gather(self, shop: Workshop) -> None:
        """Load the encoder that it names: else its model would be loaded for the first text, after the search."""
        if self.encoder:
            vectors = shop.vectors(self.encoder)
            if callable(vectors):
                vectors([shop.collection.passages[0].docno])

    def wrap(self, shop: Workshop, system: System) -> Retriever:
        """Return the diversified retriever."""
        aspects = shop.aspects(system) if self.covers else None  # what they cannot be made of is said first
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
        """Say what it needs."""
        if self.covers:
            needs, once = "the aspect judge, or groups of authors", "verdicts on candidates, in the store"
        else:
            needs = f"the vectors of {self.encoder or 'the retriever, or of minilm'}"
            once = "the vectors of passages"
        return Description(str(self), f"reorders the candidates by {self.kind}, 1 keeps their order", needs, once)


# What stands behind a retriever, beside diversifiers.
PARTS: dict[str, type[Part]] = {
    EXPAND: ExpansionPart,
    MULTI: MultiPart,
    CROSS: CrossPart,
    EXTRACT: ExtractPart,
    INDEX: IndexPart,
    PROFILE: ProfilePart,
    **dict.fromkeys(PROJECTED, ProjectionPart),
}
