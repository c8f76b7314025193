"""Retrievers by name, so that a notebook parameter is a string."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from berdslib.data.records import Passage
from berdslib.data.web import OwnCorpora
from berdslib.errors import InputError
from berdslib.models.cards import CARDS, model_card
from berdslib.models.encoders import get_encoder
from berdslib.registry import Registry
from berdslib.retrieval.base import Retriever
from berdslib.retrieval.bm25 import BM25, RankBM25
from berdslib.retrieval.dense import Dense
from berdslib.retrieval.lucene import Lucene
from berdslib.retrieval.per_question import InOwnCorpora, Maker
from berdslib.retrieval.rerank import TART_FULL, TART_INSTRUCTION, CrossEncoderRetriever, load_scorer

_LUCENE = "pyserini:"
_FOR_ENCODER = {"cached", "engine", "number_format", "trust_remote_code"}


class RetrieverKind(NamedTuple):
    """How a retriever is made: ``prepare`` takes its name and options, loads what it needs, and returns a maker.

    ``reranks`` says that it re-ranks the candidates of another, as many as its option ``depth``.
    """

    prepare: Callable[..., Maker]
    options: frozenset[str]
    reranks: bool = False


def make_retriever(name: str, passages: Sequence[Passage], **options: Any) -> Retriever:
    """Build a retriever over a corpus.

    Args:
        name: in ``RETRIEVERS``; "hf:org/model" is a dense retriever on any sentence-transformers checkpoint;
            "pyserini:INDEX" a Lucene index in a folder or of Pyserini's prebuilt ones, whatever the corpus. Parts
            behind a retriever are read by :func:`berdslib.retrieval.system_strings.parse_system`.
        passages: the corpus; of :class:`~berdslib.data.web.OwnCorpora`, each question is searched in its
            own.
        options: passed on: ``analyser="english-stem"`` to BM25; ``index="faiss"`` and whatever else :class:`Dense` and
            :func:`~berdslib.models.encoders.get_encoder` take to dense retrievers; what your own maker takes to it.

    Raises:
        InputError: an unknown name, an option that this retriever does not take, an empty corpus, a repeated docno.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    kind, _ = RETRIEVERS.find(name)
    if stray := sorted(options.keys() - kind.options):
        problem = f"retriever {name!r} takes no such option; accepted: {', '.join(sorted(kind.options)) or 'none'}"
        raise InputError(problem, field=stray[0])
    make = kind.prepare(name, **options)
    if isinstance(passages, OwnCorpora) and not name.startswith(_LUCENE):
        if not isinstance(options.get("index", ""), str) or options.get("folder"):
            raise InputError("questions with their own corpora cannot share an index or a folder")
        return InOwnCorpora(name, make, passages)
    return make(passages)


def own_retriever(make: Callable[..., Retriever]) -> RetrieverKind:
    """Return a function of the user's, from passages (and options by name) to a retriever, as a kind."""

    def prepare(name: str, **options: Any) -> Maker:
        def checked(passages: Sequence[Passage]) -> Retriever:
            made = make(passages, **options)
            if not callable(getattr(made, "search", None)):
                problem = f"must make something with a method search(questions, k), not {type(made).__name__}"
                raise InputError(f"the retriever {name!r} {problem}")
            return made

        return checked

    if not callable(make):
        raise InputError(f"a retriever is added as a function from passages to it, not as {type(make).__name__}")
    named = list(inspect.signature(make).parameters.values())[1:]
    return RetrieverKind(prepare, frozenset(p.name for p in named if p.kind is not p.VAR_KEYWORD))


def _keywords(of: Callable[..., Any]) -> frozenset[str]:
    parameters = inspect.signature(of).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)


# ---------------------------------------------------------------- the kinds


def _lexical(of: Callable[..., Retriever]) -> RetrieverKind:
    return RetrieverKind(lambda _, **options: partial(of, **options), _keywords(of))


def _dense(name: str, **options: Any) -> Maker:
    model = get_encoder(name, **{key: options.pop(key) for key in _FOR_ENCODER & options.keys()})
    text_of = model_card(name).passage_text  # title and text, written as the encoder's authors do
    return partial(Dense, encoder=model, name=name, text_of=text_of, **options)


def _lucene(name: str, **options: Any) -> Maker:
    searcher = Lucene(name.removeprefix(_LUCENE), name=name, **options)
    return lambda _: searcher  # its index is its corpus


def _tart_full(name: str, *, instruction: str = TART_INSTRUCTION, depth: int = 100, **options: Any) -> Maker:
    # First, because a model that is missing should fail before a corpus is read.
    scorer = load_scorer(TART_FULL, query_prefix=f"{instruction} [SEP] ")
    make_first = _dense("contriever", **options)
    return lambda passages: CrossEncoderRetriever(make_first(passages), passages, scorer, depth, name=name)


_DENSE = RetrieverKind(_dense, (_keywords(Dense) | _FOR_ENCODER) - {"name", "text_of"})
RETRIEVERS: Registry[RetrieverKind] = Registry(
    "retriever",
    {
        "bm25": _lexical(BM25),
        "rank-bm25": _lexical(RankBM25),
        **dict.fromkeys(CARDS, _DENSE),
        "hf:": _DENSE,
        "tart-full": RetrieverKind(_tart_full, _DENSE.options | {"depth", "instruction"}, reranks=True),
        _LUCENE: RetrieverKind(_lucene, _keywords(Lucene) - {"name"}),
    },
)
