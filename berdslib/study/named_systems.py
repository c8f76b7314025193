"""Systems by name, for the shell: every chain gets the expansions, vectors and verdicts that its parts need."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from berdslib.data.catalogue import EXPANSIONS
from berdslib.data.datasets import load_expansions
from berdslib.data.records import Passage, Question
from berdslib.errors import MissingDataError, known
from berdslib.judging.aspects import judged_aspects
from berdslib.judging.registry import make_judge
from berdslib.judging.store import VerdictStore
from berdslib.models.cards import model_card
from berdslib.models.encoders import get_encoder
from berdslib.retrieval.base import Retriever
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.expansion import SEARCHED, Expansions, expansions_by, template_expansions
from berdslib.retrieval.retrievers import is_reranker, make_retriever
from berdslib.retrieval.systems import made_by_chat, make_system, passage_vectors, system_parts

logger = logging.getLogger(__name__)

RECORDED, RULE = "recorded", "rule"
WITH_EXPANSIONS = ("sample", *EXPANSIONS)


def known_expansions(
    datasets: Sequence[str],
    split: str | None,
    questions: Sequence[Question],
    systems: Sequence[str] = (),
    *,
    recordings: Path | None = None,
) -> dict[str, Expansions]:
    """Return what "+expand:NAME" may name: "rule" always, "recorded" where a data set has some, and what a model makes.

    Args:
        datasets: names of question sets; those that are files have no recorded expansions.
        split: as in :func:`berdslib.data.datasets.load_questions`.
        questions: the asked questions.
        systems: names of systems; the expansions in them that a chat model makes are asked for here, each once.
        recordings: a file of the model's answers: what is in it is not asked again, and what is new is added at once.

    Raises:
        InputError: an unknown part in a system's name, or what ``expansions_by`` refuses.
        MissingDataError: a model or a recorded answer that is not there.
        ChatError: the endpoint fails for good.
    """
    by_chat = dict.fromkeys(value for system in systems for value in made_by_chat(system))
    recorded: dict[str, list[tuple[str, str]]] = {}
    for name in datasets:
        try:
            recorded |= load_expansions(name, split) if name in WITH_EXPANSIONS else {}
        except MissingDataError as error:
            logger.warning("%s uses perspectives made by rule: %s", name, error)
    found: dict[str, Expansions] = {RULE: template_expansions(questions)}
    found |= {name: expansions_by(name, questions, recordings=recordings) for name in by_chat}
    return {RECORDED: recorded, **found} if recorded else found


def named_systems(
    names: Sequence[str],
    passages: Sequence[Passage],
    expansions: dict[str, Expansions],
    *,
    encoder: str = "minilm",
    aspect_judge: str = "laptop",
    store: VerdictStore | None = None,
    depth: int = 100,
) -> dict[str, Retriever]:
    """Return name → system; a retriever that several chains begin with is built once.

    Args:
        names: as :func:`berdslib.retrieval.systems.make_system` reads them.
        passages: the corpus.
        expansions: of :func:`known_expansions`. Diversifiers that need generated perspectives take those that the
            chain expands by; without, or with "hyde:MODEL", the recorded ones, and those by rule where a question has
            none.
        encoder: says how alike two passages are.
        aspect_judge: the judge that says, for such diversifiers, how likely a passage argues a generated perspective.
        store: where its verdicts are kept.
        depth: how many candidates a cross-encoder or a diversifier chooses from.

    Raises:
        InputError: an unknown retriever, part, expansion or judge.
    """
    taken_apart = {name: system_parts(name) for name in names}  # all names are checked before anything is built
    kinds = {DIVERSIFIERS[kind].needs for _, parts in taken_apart.values() for kind, _ in parts if kind in DIVERSIFIERS}
    vectors = (
        passage_vectors(passages, get_encoder(encoder), model_card(encoder).passage_text)
        if "vectors" in kinds
        else None
    )
    for _, parts in taken_apart.values():
        for value in (value for kind, value in parts if kind == "expand"):
            known("set of expansions", value, {*expansions, *(f"{kind}:MODEL" for kind in SEARCHED)})
    judge = make_judge(aspect_judge) if "aspects" in kinds else None
    either = {**expansions.get(RULE, {}), **expansions.get(RECORDED, {})}
    bases = {
        base: make_retriever(base, passages, **({"depth": depth} if is_reranker(base) else {}))
        for base, _ in taken_apart.values()
    }
    systems = {}
    for name, (base, parts) in taken_apart.items():
        # A hypothetical passage is one answer, and no list of perspectives.
        listed = [value for kind, value in parts if kind == "expand" and not value.startswith("hyde:")]
        generated = expansions[listed[0]] if listed else either
        aspects = judged_aspects(generated, passages, judge, store) if judge is not None else None
        systems[name] = make_system(
            name,
            passages,
            expansions=expansions,
            vectors=vectors,
            aspects=aspects,
            depth=depth,
            retriever=bases[base],
        )
    return systems


def uses_judge(name: str) -> bool:
    """Return whether a judge's verdicts influence the order of a chain's list."""
    return any(DIVERSIFIERS[kind].needs == "aspects" for kind, _ in system_parts(name)[1] if kind in DIVERSIFIERS)
