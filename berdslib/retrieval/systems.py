"""Systems made of parts: a retriever, projected, expanded, its list diversified; each is a retriever again.

What a system string means is in :mod:`berdslib.retrieval.system_strings`; :func:`make_systems` builds what it says over
a collection, with the expansions, vectors and verdicts that its parts need.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.arguments import READER
from berdslib.data.collection import Collection, Expansions, are_full_queries
from berdslib.data.corpus import by_docno
from berdslib.data.records import RUN_COLUMNS, Passage, Question, check_run
from berdslib.data.scenario import Handout, Scenario
from berdslib.data.web import OwnCorpora
from berdslib.errors import InputError, known
from berdslib.llm.extraction import extract_by
from berdslib.models.base import Encoder
from berdslib.models.cards import model_card
from berdslib.models.corpus_vectors import full_text
from berdslib.models.encoders import get_encoder
from berdslib.retrieval.author_groups import AuthorClassifier
from berdslib.retrieval.base import Retriever, check_search, checked_search, run_of
from berdslib.retrieval.candidates import Vectors
from berdslib.retrieval.diversify import DIVERSIFIERS, diversify
from berdslib.retrieval.expansion import SEARCHED, Expanded, expansions_by, template_expansions
from berdslib.retrieval.per_question import InOwnCorpora
from berdslib.retrieval.profiles import (
    DEEPER,
    FILTER,
    TEMPLATE,
    Authors,
    AuthorsOf,
    Filtered,
    Fused,
    Templated,
    check_use,
    group_aspects,
    learn_weights,
    lessons_of,
    templated,
)
from berdslib.retrieval.projection import Projected
from berdslib.retrieval.rerank import CrossEncoderRetriever, Scorer, load_scorer
from berdslib.retrieval.retrievers import RETRIEVERS, make_retriever
from berdslib.retrieval.system_strings import (
    CROSS,
    EXPANDING,
    EXTRACT,
    MULTI,
    PROFILE,
    PROJECTED,
    Part,
    System,
    is_dense,
    parse_system,
)

logger = logging.getLogger(__name__)

# From a run and the questions to a table qid, pid, docno, p over *generated* perspectives.
AspectsOf = Callable[[pd.DataFrame, Sequence[Question]], pd.DataFrame]

RECORDED, RULE = "recorded", "rule"


def make_systems(
    systems: Sequence[str],
    collection: Collection,
    *,
    aspects_by: Callable[[Expansions, Sequence[Passage]], AspectsOf] | None = None,
    encoder: str = "minilm",
    depth: int = 100,
    recordings: Path | None = None,
    scorers: dict[str, Scorer] | None = None,
) -> dict[str, Retriever]:
    """Build systems from their strings; what several of them share is made once, and not asked the same twice.

    Args:
        systems: as :func:`~berdslib.retrieval.system_strings.parse_system` reads them.
        collection: what they search; its recorded expansions are "+expand:recorded" and "+multi:recorded". Those of a
            task of PIR are its full queries, which name the perspectives that the task is scored by. Of a scenario of
            PerspectiveArg, systems are given the handout.
        aspects_by: from generated perspectives and the corpus to how likely each passage argues them, for diversifiers
            that need it: a judge says so, see :func:`berdslib.judging.aspects.judged_aspects`. Such a diversifier takes
            the perspectives that its chain expands by; without, or with "hyde:MODEL", the recorded ones, and those by
            rule where a question has none, or has full queries: these name the perspectives that it is scored by.
            Where queries name properties of authors, nobody is asked: aspects are the groups of authors by all other
            properties, see :func:`berdslib.retrieval.profiles.group_aspects`.
        encoder: says how alike two passages are, and guesses who wrote them, behind a retriever without an encoder of
            its own.
        depth: how many candidates a cross-encoder or a diversifier chooses from, and how far "multi" looks down each
            list; "profile:fusion" chooses from ten times as many, and "profile:filter" looks as deep as it must, where
            what stands before them allows it.
        recordings: a file of a chat model's answers: what is in it is not asked again, and what is new is added.
        scorers: cross-encoders that are loaded already, by name; those of these systems are added.

    Returns:
        System string → retriever.

    Raises:
        InputError: what ``parse_system`` refuses, a collection without passages, expansions that are not there.
        MissingDataError: a model or a recorded answer that is not on this machine.
        ChatError: the endpoint fails for good.
    """
    workshop = Workshop(
        collection, aspects_by=aspects_by, encoder=encoder, depth=depth, recordings=recordings, scorers=scorers
    )
    return workshop.make(systems)


class _Kept(NamedTuple):
    """What systems over one collection share with those over its training split."""

    scorers: dict[str, Scorer]
    classifiers: dict[str, AuthorClassifier]
    firsts: dict[str, Retriever]


class Workshop:
    """Builds systems over one collection; what is here is made when it is first needed, and kept for later ones.

    Arguments and errors as :func:`make_systems`, which is one call of :meth:`make`.
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
        kept: _Kept | None = None,
    ) -> None:
        if isinstance(collection, Scenario):
            collection = collection.handout  # whoever measures knows more than a system may
        if not collection.passages:
            raise InputError(f"{collection.name!r} has questions only; name the corpus to search", field="passages")
        kept = kept or _Kept({} if scorers is None else scorers, {}, {})
        self._all, self._passages = collection, collection.passages
        self._encoder, self._depth, self._recordings = encoder, depth, recordings
        self._aspects_by = aspects_by
        self._expansions: dict[str, Expansions] = {}
        self._kept, self._scorers = kept, kept.scorers
        self._authors = None
        if isinstance(collection, Handout) and collection.asked:
            self._authors = AuthorsOf(collection, kept.classifiers)
        self._aspects: dict[str, AspectsOf] = {}
        self._vectors: dict[str, Vectors] = {}
        self._built: dict[str, Retriever] = {}

    def make(self, systems: Sequence[str]) -> dict[str, Retriever]:
        """Return system string → retriever; what several of them share is made once, also with those made before."""
        parsed = {text: parse_system(text) for text in systems}  # all are read before anything is built
        for system in parsed.values():
            self.gather(system)
        return {text: self.build(system) for text, system in parsed.items()}

    def over(self, questions: Sequence[Question], expansions: Expansions) -> Workshop:
        """Return a workshop for other questions on the same passages; indexes and models are shared.

        Args:
            questions: what is asked.
            expansions: recorded ones of these questions.
        """
        other = replace(self._all, questions=questions, gold=None, expansions=expansions)
        there = self._beside(other, self._kept)
        there._vectors = self._vectors  # of passages, whoever asks
        return there

    def _beside(self, collection: Collection, kept: _Kept) -> Workshop:
        return Workshop(
            collection,
            aspects_by=self._aspects_by,
            encoder=self._encoder,
            depth=self._depth,
            recordings=self._recordings,
            kept=kept,
        )

    def gather(self, system: System) -> None:
        """Get the expansions and load the models that a system needs: what is missing fails before a search."""
        for use in system.values(PROFILE):
            handout = check_use(use, self._all, system.text)
            if handout.ranked_for == READER:
                logger.warning(
                    "%r looks at who wrote a passage, and queries name the property of its reader", system.text
                )
        if system.uses_aspects and self._authors is not None:
            self._authors.check(system.text)
        for value in system.values(*EXPANDING):
            self._expansions_named(value)
        for checkpoint in system.values(CROSS):
            if checkpoint not in self._scorers:
                self._scorers[checkpoint] = load_scorer(checkpoint)

    def build(self, system: System) -> Retriever:
        """Return a system; one that another begins with is the same object, and remembers its last lists."""
        if system.text not in self._built:
            # A cross-encoder scores all candidates, however few are asked for: they are kept, to be cut.
            whole = self._depth if system.parts and system.parts[-1].kind == CROSS else 0
            self._built[system.text] = _Remembering(self._made(system), system.text, whole)
        return self._built[system.text]

    def _made(self, system: System) -> Retriever:
        if not system.parts:
            firsts = self._kept.firsts
            if system.first not in firsts:
                firsts[system.first] = self._first(system.first, self._passages)
            return firsts[system.first]
        *earlier, last = system.parts
        name = system.text
        if last.kind in PROJECTED:
            return self._projected(system.first, earlier, last, name)
        if last == (PROFILE, TEMPLATE):
            handout = check_use(TEMPLATE, self._all, name)
            return Templated(self._first(system.first, templated(handout)), handout, name=name)
        before = self.build(system.before)
        if last.kind == PROFILE:
            return self._by_profile(system, before)
        if last.kind in EXPANDING:
            options = SEARCHED.get(last.value.partition(":")[0], {}) if ":" in last.value else {}
            if last.kind == MULTI:
                options = options | {"original": True, "fuse": "rrf", "depth": self._depth}
            return Expanded(before, self._expansions_named(last.value), name=name, **options)
        if last.kind == CROSS:
            scorer = self._scorers[last.value]
            return CrossEncoderRetriever(before, self._passages, scorer, self._depth, name=name)
        needs = DIVERSIFIERS[last.kind].needs
        return Diversified(
            before,
            last.kind,
            relevance_weight=last.number,
            vectors=self._vectors_for(system) if needs == "vectors" else None,
            aspects=self._aspects_for(system) if needs == "aspects" else None,
            depth=self._depth,
            name=name,
        )

    def _first(self, name: str, passages: Sequence[Passage]) -> Retriever:
        options = {"depth": self._depth} if RETRIEVERS.find(name)[0].reranks else {}
        return make_retriever(name, passages, **options)

    def _by_profile(self, system: System, before: Retriever) -> Retriever:
        use, name, deepens = system.parts[-1].value, system.text, not system.before.chooses
        handout = check_use(use, self._all, name)
        if use == FILTER:
            authors = self._authors_for(system)
            return Filtered(before, handout, authors, depth=self._depth, deepens=deepens, name=name)
        depth = self._depth * DEEPER if deepens else self._depth
        lessons = lessons_of(handout.training)
        kept = self._kept if lessons.passages is handout.passages else self._kept._replace(firsts={})
        there = self._beside(lessons, kept)
        there.gather(system.before)
        weights = learn_weights(there.build(system.before), lessons, there._authors_for(system), depth=depth)
        return Fused(before, handout, self._authors_for(system), weights, depth=depth, name=name)

    def _authors_for(self, system: System) -> Authors:
        assert self._authors is not None  # a system that needs them is refused where no query names a property
        return self._authors.by(self._encoder_for(system))

    def _encoder_for(self, system: System) -> str:
        """Return the name of the retriever's own encoder, whose vectors of a list of passages are kept already."""
        return system.first if is_dense(system.first) else self._encoder

    def _projected(self, first: str, earlier: Sequence[Part], last: Part, name: str) -> Retriever:
        extract = next((part.value for part in earlier if part.kind == EXTRACT), "")
        make = partial(
            Projected,
            encoder=get_encoder(first),
            method=last.kind,
            strength=last.number,
            extract=partial(extract_by, extract, recordings=self._recordings) if extract else None,
            name=name,
            text_of=model_card(first).passage_text,
        )
        return (
            InOwnCorpora(name, make, self._passages) if isinstance(self._passages, OwnCorpora) else make(self._passages)
        )

    def _expansions_named(self, name: str) -> Expansions:
        if name not in self._expansions:
            self._expansions[name] = self._make_expansions(name)
        return self._expansions[name]

    def _make_expansions(self, name: str) -> Expansions:
        if name == RULE:
            return template_expansions(self._all.questions)
        if ":" in name:
            return expansions_by(name, self._all.questions, recordings=self._recordings)
        choices = [RULE, *([RECORDED] if self._all.expansions else []), *(f"{kind}:MODEL" for kind in SEARCHED)]
        known("set of expansions", name, choices)
        return self._all.expansions

    def _vectors_for(self, system: System) -> Vectors:
        name = self._encoder_for(system)
        if name not in self._vectors:
            self._vectors[name] = passage_vectors(self._passages, get_encoder(name), model_card(name).passage_text)
        return self._vectors[name]

    def _aspects_for(self, system: System) -> AspectsOf:
        if self._authors is not None:
            return group_aspects(self._authors.handout, self._authors_for(system))
        if self._aspects_by is None:
            raise InputError(f"{system.text!r} covers generated perspectives: aspects_by must say who argues them")
        # A hypothetical passage is one answer, and no list of perspectives.
        listed = next((name for name in system.values(*EXPANDING) if not name.startswith("hyde:")), "")
        if listed == RECORDED and self._full_queries():
            listed = ""
        if listed not in self._aspects:
            generated = self._expansions_named(listed) if listed else self._recorded_or_by_rule()
            self._aspects[listed] = self._aspects_by(generated, self._passages)
        return self._aspects[listed]

    def _full_queries(self) -> set[str]:
        """Return the qids of the questions whose recorded expansions are their full queries."""
        recorded = self._all.expansions
        return {q.qid for q in self._all.questions if are_full_queries(q, recorded.get(q.qid, ()))}

    def _recorded_or_by_rule(self) -> Expansions:
        # The full queries of PIR name the perspectives that lists are scored by; those must not order them, too.
        full = self._full_queries()
        recorded = {qid: pairs for qid, pairs in self._all.expansions.items() if qid not in full}
        without = [q.qid for q in self._all.questions if q.qid not in recorded]
        if without:
            logger.warning("perspectives of %d of %d questions are made by rule, as none are recorded",
                           len(without), len(self._all.questions))  # fmt: skip
        return {**self._expansions_named(RULE), **recorded} if without else recorded


class _Remembering:
    """A retriever that does not repeat its last searches: chains that begin alike ask the same of what they share.

    Args:
        retriever: does the searching.
        name: of the system.
        whole: search so deep whatever is asked for, and return the beginning.
    """

    kept = 4

    def __init__(self, retriever: Retriever, name: str, whole: int = 0) -> None:
        self.name, self._retriever, self._whole = name, retriever, whole
        # Compared, not hashed: a question of the user's may hold its perspectives in a list.
        self._last: deque[tuple[list[Question], int, pd.DataFrame]] = deque(maxlen=self.kept)

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        asked, deep = list(questions), max(k, self._whole)
        found = next((run for before, depth, run in self._last if depth == deep and before == asked), None)
        if found is None:
            found = self._retriever.search(questions, deep)
            run_of(self.name, found)  # it may be anybody's: a complaint names it
            self._last.append((asked, deep, found))
        return found[found["rank"] <= k].reset_index(drop=True) if deep > k else found.copy()


class Diversified:
    """A retriever whose lists are reordered; a system like any other in an experiment.

    Args:
        retriever: finds the candidates.
        method: a key of :data:`berdslib.retrieval.diversify.DIVERSIFIERS`.
        relevance_weight: from 0 to 1; 1 keeps the order.
        vectors: for documents, where the method compares by vectors; see :func:`passage_vectors`.
        aspects: makes the table of generated perspectives, where the method needs it.
        depth: how many candidates to choose from; the paper takes 100.
        normalise: see :func:`berdslib.retrieval.diversify.diversify`. "max_per_dataset" divides by the largest score
            of the questions that are searched together.
        name: what it is called in tables; None for the retriever's name, "+", the method and its weight.

    Raises:
        InputError: an unknown method, a weight outside 0..1, a depth below 1.
    """

    def __init__(
        self,
        retriever: Retriever,
        method: str = "mmr",
        *,
        relevance_weight: float = 0.75,
        vectors: Vectors | None = None,
        aspects: AspectsOf | None = None,
        depth: int = 100,
        normalise: str = "max_per_dataset",
        name: str | None = None,
    ) -> None:
        known("diversifier", method, DIVERSIFIERS)
        if not 0 <= relevance_weight <= 1:
            raise InputError(f"must be from 0 to 1, not {relevance_weight}", field="relevance_weight")
        if depth < 1:
            raise InputError(f"depth must be at least 1, not {depth}", field="depth")
        self.name = name or f"{retriever.name}+{method}:{relevance_weight:g}"
        # Having a judge read every candidate is slow; most methods do not need it, and none does at weight 1.
        uses_aspects = DIVERSIFIERS[method].needs == "aspects" and relevance_weight < 1
        self._retriever, self._aspects, self._depth = retriever, aspects if uses_aspects else None, depth
        self._options: dict[str, Any] = {
            "method": method,
            "relevance_weight": relevance_weight,
            "vectors": vectors,
            "normalise": normalise,
        }

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question, chosen among `depth` (or k, if that is more)."""
        check_search(questions, k)
        run = checked_search(self._retriever, questions, max(k, self._depth))
        if run.empty:
            return run
        if self._aspects is None:
            return diversify(run, k=k, **self._options)
        # A query that asks from one perspective has no others to cover: its list stays as it is.
        own = [q for q in questions if not q.owner]
        ours = run["qid"].isin({q.qid for q in own})
        covered = diversify(run[ours], aspects=self._aspects(run[ours], own), k=k, **self._options)
        return check_run(pd.concat([covered[RUN_COLUMNS], run[~ours & (run["rank"] <= k)]], ignore_index=True))


def passage_vectors(
    passages: Sequence[Passage], encoder: Encoder, text_of: Callable[[Passage], str] = full_text
) -> Callable[[list[str]], np.ndarray]:
    """Return the function from docnos to their vectors, float32 (n, d), that diversifiers compare documents by.

    The encoder's cache, if it has one, keeps them: another λ encodes nothing anew.

    Args:
        passages: the corpus.
        encoder: the paper's is UAE-Large-V1 with its "cls" pooling (A.6).
        text_of: what is encoded of a passage, such as ``card.passage_text``: with the text that the retriever encodes,
            the vectors in its cache serve here too.
    """
    corpus = by_docno(passages)

    def vectors_of(docnos: list[str]) -> np.ndarray:
        if unknown := [docno for docno in docnos if docno not in corpus]:
            raise InputError(f"passage {unknown[0]!r} is not in the corpus", field="docno")
        return encoder.encode_passages([text_of(corpus[docno]) for docno in docnos])

    return vectors_of
