"""Systems made of parts: a retriever, projected, expanded, its list diversified; each is a retriever again.

What a system string means is in :mod:`berdslib.retrieval.parts`; :func:`make_systems` builds what it says over a
collection, with the expansions, vectors and verdicts that its parts need.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib.data.collection import Collection, Expansions, are_full_queries
from berdslib.data.records import Passage, Question
from berdslib.data.scenario import Handout, Scenario
from berdslib.errors import InputError, known
from berdslib.models.base import Encoder
from berdslib.models.cards import model_card
from berdslib.models.encoders import get_encoder
from berdslib.retrieval.authors import AuthorClassifier, Authors, group_aspects, known_answers
from berdslib.retrieval.base import Ours, Retriever, checked_search
from berdslib.retrieval.diversify import AspectsOf, Vectors, passage_vectors
from berdslib.retrieval.expansion import SEARCHED, expansions_by, template_expansions
from berdslib.retrieval.parts import EXPANDING, RECORDED, RULE, System, is_dense, kind_of, parse_system
from berdslib.retrieval.rerank import Scorer, load_scorer
from berdslib.retrieval.retrievers import RETRIEVERS, make_retriever

logger = logging.getLogger(__name__)


def make_systems(systems: Sequence[str], collection: Collection, **options: Any) -> dict[str, Retriever]:
    """Build systems from their strings: one call of :meth:`Workshop.make`, with the arguments of :class:`Workshop`."""
    return Workshop(collection, **options).make(systems)


class _Kept(NamedTuple):
    """What systems over one collection share with those over its training split."""

    scorers: dict[str, Scorer]
    classifiers: dict[str, AuthorClassifier]
    firsts: dict[str, Retriever]


class Workshop:
    """Builds systems over one collection; what is here is made when it is first needed, and kept for later ones.

    Args:
        collection: what they search; its recorded expansions are "+expand:recorded" and "+multi:recorded". Those of a
            task of PIR are its full queries, which name the perspectives that the task is scored by. Of a scenario of
            PerspectiveArg, systems are given the handout.
        aspects_by: from generated perspectives and the corpus to how likely each passage argues them, for diversifiers
            that need it: a judge says so, see :func:`berdslib.judging.aspects.judged_aspects`. Such a diversifier takes
            the perspectives that its chain expands by; without, or with "hyde:MODEL", the recorded ones, and those by
            rule where a question has none, or has full queries: these name the perspectives that it is scored by.
            Where queries name properties of authors, nobody is asked: aspects are the groups of authors by all other
            properties, see :func:`berdslib.retrieval.authors.group_aspects`.
        encoder: says how alike two passages are, and guesses who wrote them, behind a retriever without an encoder of
            its own.
        depth: how many candidates a cross-encoder or a diversifier chooses from, and how far "multi" looks down each
            list; "profile:fusion" chooses from ten times as many, and "profile:filter" looks as deep as it must, where
            what stands before them allows it.
        recordings: a file of a chat model's answers: what is in it is not asked again, and what is new is added.
        scorers: cross-encoders that are loaded already, by name; those of these systems are added.

    Raises:
        InputError: a collection without passages; on use, what ``parse_system`` refuses, expansions that are not there.
        MissingDataError: on use, a model or a recorded answer that is not on this machine.
        ChatError: on use, the endpoint fails for good.
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
        self.collection, self.depth, self.recordings = collection, depth, recordings
        self._options: dict[str, Any] = {
            "aspects_by": aspects_by, "encoder": encoder, "depth": depth, "recordings": recordings,
        }  # fmt: skip
        self._encoder, self._aspects_by = encoder, aspects_by
        names_properties = isinstance(collection, Handout) and collection.asked
        self._handout: Handout | None = collection if names_properties else None  # type: ignore[assignment]
        self._kept = kept or _Kept({} if scorers is None else scorers, {}, {})
        self._expansions: dict[str, Expansions] = {}
        self._authors: dict[str, Authors] = {}
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
        other = replace(self.collection, questions=questions, gold=None, expansions=expansions)
        there = self.beside(other)
        there._vectors = self._vectors  # of passages, whoever asks
        return there

    def beside(self, collection: Collection) -> Workshop:
        """Return a workshop like this one over another collection; indexes are shared if the passages are the same."""
        same = collection.passages is self.collection.passages
        return Workshop(collection, kept=self._kept if same else self._kept._replace(firsts={}), **self._options)

    def gather(self, system: System) -> None:
        """Get the expansions and load the models that a system needs: what is missing fails before a search."""
        for part in system.parts:
            kind_of(part.kind).needs(self, part, system.text)

    def build(self, system: System) -> Retriever:
        """Return a system; one that another begins with is the same object, and remembers its last lists."""
        if system.text not in self._built:
            kind = kind_of(system.last.kind) if system.parts else None
            made = kind.build(self, system) if kind else self.first(system.first)
            self._built[system.text] = _Remembering(made, system.text, self.depth if kind and kind.reads_all else 0)
        return self._built[system.text]

    # ------------------------------------------------------------ what parts ask for

    def first(self, name: str, passages: Sequence[Passage] | None = None) -> Retriever:
        """Return the retriever of a name: the shared one over all passages, or one over others."""
        options = {"depth": self.depth} if RETRIEVERS.find(name)[0].reranks else {}
        if passages is not None:
            return make_retriever(name, passages, **options)
        if name not in self._kept.firsts:
            self._kept.firsts[name] = make_retriever(name, self.collection.passages, **options)
        return self._kept.firsts[name]

    def encoder(self, name: str) -> Encoder:
        """Return an encoder by name."""
        return get_encoder(name)

    def scorer(self, checkpoint: str) -> Scorer:
        """Return a cross-encoder."""
        if checkpoint not in self._kept.scorers:
            self._kept.scorers[checkpoint] = load_scorer(checkpoint)
        return self._kept.scorers[checkpoint]

    def expansions(self, name: str) -> Expansions:
        """Return the expansions of a name: recorded, rule, chat:MODEL or hyde:MODEL."""
        if name not in self._expansions:
            self._expansions[name] = self._make_expansions(name)
        return self._expansions[name]

    def vectors(self, first: str) -> Vectors:
        """Return the vectors of passages, by the retriever's own encoder if it has one."""
        name = self._encoder_for(first)
        if name not in self._vectors:
            passages, text_of = self.collection.passages, model_card(name).passage_text
            self._vectors[name] = passage_vectors(passages, self.encoder(name), text_of)
        return self._vectors[name]

    def aspects(self, system: System) -> AspectsOf:
        """Return what a diversifier in a system covers."""
        if self._handout:
            return group_aspects(self._handout, self.authors(system.first))
        if self._aspects_by is None:
            raise InputError(f"{system.text!r} covers generated perspectives: aspects_by must say who argues them")
        # A hypothetical passage is one answer, and no list of perspectives.
        listed = next((name for name in system.values(*EXPANDING) if not name.startswith("hyde:")), "")
        if listed == RECORDED and self._full_queries():
            listed = ""
        if listed not in self._aspects:
            generated = self.expansions(listed) if listed else self._recorded_or_by_rule()
            self._aspects[listed] = self._aspects_by(generated, self.collection.passages)
        return self._aspects[listed]

    def authors(self, first: str) -> Authors:
        """Return who wrote the passages of a handout, as its rule has it: known, or guessed by an encoder."""
        handout = self._handout
        assert handout  # a system that needs them is refused where no query names a property
        if handout.profiles is not None:
            return self._authors.setdefault("", Authors.known(handout.passages, handout.profiles))
        name = self._encoder_for(first)
        if name not in self._authors:
            learnt = self._kept.classifiers
            if name not in learnt:
                text_of = model_card(name).passage_text
                learnt[name] = AuthorClassifier.learn(handout.training, self.encoder(name), text_of=text_of)
            self._authors[name] = Authors.guessed(handout.passages, learnt[name])
        return self._authors[name]

    def check_authors(self, system: str) -> None:
        """Raise InputError if a system covers groups of authors, and nothing is there to guess them from."""
        if self._handout and self._handout.profiles is None:
            known_answers(self._handout.training, f"{system!r} covers groups of authors, and guesses them")

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

    def _full_queries(self) -> set[str]:
        """Return the qids of the questions whose recorded expansions are their full queries."""
        recorded = self.collection.expansions
        return {q.qid for q in self.collection.questions if are_full_queries(q, recorded.get(q.qid, ()))}

    def _recorded_or_by_rule(self) -> Expansions:
        # The full queries of PIR name the perspectives that lists are scored by; those must not order them, too.
        full, questions = self._full_queries(), self.collection.questions
        recorded = {qid: pairs for qid, pairs in self.collection.expansions.items() if qid not in full}
        if without := [q.qid for q in questions if q.qid not in recorded]:
            logger.warning("perspectives of %d of %d questions are made by rule, as none are recorded",
                           len(without), len(questions))  # fmt: skip
        return {**self.expansions(RULE), **recorded} if without else recorded


class _Remembering(Ours):
    """A retriever that does not repeat its last searches: chains that begin alike ask the same of what they share.

    Args:
        retriever: does the searching; it may be anybody's, and a complaint of what it found names the system.
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
            found = checked_search(self._retriever, questions, deep, self.name)
            self._last.append((asked, deep, found))
        return found[found["rank"] <= k].reset_index(drop=True) if deep > k else found.copy()
