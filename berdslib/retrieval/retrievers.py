"""Retrievers by name, so that a notebook parameter is a string; own corpora for questions; Lucene."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import Passage, Question, make_run
from berdslib.data.web import OwnCorpora
from berdslib.errors import InputError, MissingDataError, known
from berdslib.models.cards import CARDS, Encoder, model_card
from berdslib.models.corpus_vectors import full_text
from berdslib.models.encoders import NAMELESS, get_encoder, own_encoder
from berdslib.progress import bar
from berdslib.registry import Registry
from berdslib.retrieval.base import CheckedRetriever, Retriever, joined
from berdslib.retrieval.bm25 import BM25, LuceneBM25, RankBM25
from berdslib.retrieval.dense import Dense
from berdslib.retrieval.rerank import TART_FULL, TART_INSTRUCTION, CrossEncoderRetriever, load_scorer

# From a corpus to a retriever over it; a model that it needs has been loaded, once for however many corpora.
Maker = Callable[[Sequence[Passage]], Retriever]

_LUCENE = "pyserini:"
_FOR_ENCODER = {"cached", "engine", "number_format"}


class Encoding(NamedTuple):
    """How a dense retriever makes vectors: its encoder, and what of a passage is encoded."""

    encoder: Encoder
    text_of: Callable[[Passage], str]


class RetrieverKind(NamedTuple):
    """How a retriever is made: ``prepare`` takes its name and options, loads what it needs, and returns a maker.

    One that ``reranks`` takes ``depth`` candidates from another. One that compares vectors has an ``encoding``, from
    its name and options.
    """

    prepare: Callable[..., Maker]
    options: frozenset[str]
    reranks: bool = False
    encoding: Callable[..., Encoding] | None = None


def encoding_of(name: str) -> Encoding:
    """Return how a retriever of this name makes vectors; one without is an error."""
    kind, _ = RETRIEVERS.find(name)
    if kind.encoding is None:
        raise InputError(f"{name} has no vectors; use minilm")
    return kind.encoding(name)


def is_dense(name: str) -> bool:
    """Return whether a retriever of this name compares vectors."""
    kind = RETRIEVERS.get(name) or RETRIEVERS.get(name.partition(":")[0] + ":")
    return kind is not None and kind.encoding is not None


def check_dense(name: str) -> None:
    """Raise InputError unless this names an encoder, as every dense retriever does."""
    if name.endswith(":") or not is_dense(RETRIEVERS.spelt(name)):
        known("encoder", name, filter(is_dense, RETRIEVERS.names()))


@dataclass(frozen=True)
class OwnDense:
    """A dense retriever of the user's, over any passages: what :func:`dense` returns."""

    encoding: Encoding
    index: str

    def __call__(self, passages: Sequence[Passage]) -> Dense:
        """Return it over these passages."""
        return self.over(passages)

    def over(self, passages: Sequence[Passage], name: str = "dense", index: str = "") -> Dense:
        """Return it over these passages, with a name, and perhaps another index."""
        encoder, text_of = self.encoding
        index = index or self.index
        if ":" in index and encoder.id == NAMELESS:
            raise InputError("what is kept in an index is known by its encoder; give yours an id", field="id")
        return Dense(passages, encoder, index=index, name=name, text_of=text_of)


def dense(encode: Any, *, queries: Any = None, id: str = "", index: str = "numpy") -> OwnDense:
    """Make a retriever of a model of yours: ``bd.register("retriever", "mine", bd.dense(encode))``.

    Its vectors are cached, and are those that "mine+mmr:0.9" and "mine+pap:1.0" use.

    Args:
        encode: a function from a list of texts to vectors, float (n, d), whose dot products rank passages (scale them
            to length 1 for cosines); a SentenceTransformer, used as its own files say; or the name of an encoder.
        queries: the same for questions, where they are encoded otherwise.
        id: names the vectors in the cache on disk; give another when the model changes. A SentenceTransformer is known
            by its weights; vectors of a function without an id are kept until Python ends.
        index: how vectors are searched: a key of :data:`berdslib.retrieval.index.INDEXES`; and where it is kept, as in
            "ivf-pq:FOLDER", "milvus:FILE.db" or "milvus:http://HOST:PORT".

    Raises:
        InputError: something that encodes no texts, or whose vectors of two short texts are none.

    >>> import numpy as np
    >>> letters = dense(lambda texts: np.array([[t.count(c) for c in "abc"] for t in texts]))
    >>> zoo = [Passage("1", "a cab"), Passage("2", "bob")]
    >>> letters(zoo).search([Question("q", "crab")], 1)["docno"].tolist()
    ['1']
    """
    if isinstance(encode, str):
        return OwnDense(encoding_of(encode), index)
    return OwnDense(Encoding(own_encoder(encode, queries, id=id), full_text), index)


def make_retriever(name: str, passages: Sequence[Passage], **options: Any) -> Retriever:
    """Build a retriever over a corpus.

    Args:
        name: in ``RETRIEVERS``; "hf:org/model" is a dense retriever on any sentence-transformers checkpoint;
            "pyserini:INDEX" a Lucene index in a folder or of Pyserini's prebuilt ones, whatever the corpus.
        passages: the corpus; of :class:`~berdslib.data.web.OwnCorpora`, each question is searched in its own.
        options: keyword arguments of the retriever's class and, if it is dense, of its encoder; or what your own maker
            takes.

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
        if not isinstance(index := options.get("index", ""), str) or ":" in index:
            raise InputError("questions with their own corpora cannot share an index")
        return InOwnCorpora(name, make, passages)
    return make(passages)


_HINT = "a model, or a function from texts to vectors, is registered as berdslib.dense(encode)"


def own_retriever(make: Callable[..., Retriever]) -> RetrieverKind:
    """Return a function of the user's, from passages (and options by name) to a retriever, as a kind."""
    if isinstance(make, OwnDense):
        encoding, over = make.encoding, make.over
        options = frozenset({"index"})
        return RetrieverKind(lambda name, **how: partial(over, name=name, **how), options, encoding=lambda _: encoding)

    if hasattr(make, "encode"):
        raise InputError(f"a retriever is made of passages; {_HINT}", field="make")

    def prepare(name: str, **options: Any) -> Maker:
        def checked(passages: Sequence[Passage]) -> Retriever:
            try:
                made = make(passages, **options)
            except AttributeError as error:
                if error.obj is not next(iter(passages), None):
                    raise
                problem = f"the retriever {name!r} takes passages for something else ({error}); {_HINT}"
                raise InputError(problem) from error
            if not callable(getattr(made, "search", None)):
                problem = f"must make something with a method search(questions, k), not {type(made).__name__}; {_HINT}"
                raise InputError(f"the retriever {name!r} {problem}")
            return CheckedRetriever(name, made)

        return checked

    if not callable(make):
        raise InputError(f"a retriever is added as a function from passages to it, not as {type(make).__name__}")
    named = list(inspect.signature(make).parameters.values())[1:]
    return RetrieverKind(prepare, frozenset(p.name for p in named if p.kind is not p.VAR_KEYWORD))


def _keywords(of: Callable[..., Any]) -> frozenset[str]:
    parameters = inspect.signature(of).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)


class InOwnCorpora:
    """Searches each question in its own corpus, with a retriever made over it anew in each search."""

    def __init__(self, name: str, make: Maker, corpora: OwnCorpora) -> None:
        self.name, self._make, self._corpora = name, make, corpora

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question; queries made from one question share its corpus."""
        queries: dict[str, list[Question]] = {}
        for question in questions:
            queries.setdefault(self._corpora.owner(question), []).append(question)
        each = bar(queries.values(), desc=f"{self.name}, a corpus a question", unit="corpus")
        corpora = ((self._corpora.of(asked[0]), asked) for asked in each)
        return joined([self._make(corpus).search(asked, k) for corpus, asked in corpora if corpus])


class Lucene:
    """Searches a Lucene index that others built, by BM25 and through Pyserini; its docnos are those of the index.

    `index` is a folder, or the name of one of Pyserini's prebuilt ones. Anserini's own analyser cuts the texts.
    """

    def __init__(self, index: str, name: str) -> None:
        try:
            from pyserini.search.lucene import LuceneSearcher
        except ImportError:
            raise MissingDataError("this needs Pyserini and Java 21: pip install 'berdslib[pyserini]'") from None
        is_folder = Path(index).is_dir()
        searcher = LuceneSearcher(index) if is_folder else LuceneSearcher.from_prebuilt_index(index)
        if searcher is None:  # what Pyserini returns for a name that it does not know
            raise MissingDataError(f"{index!r} is neither a folder nor a prebuilt index of Pyserini")
        searcher.set_bm25(k1=0.9, b=0.4)
        self.name, self._searcher = name, searcher

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question; a blank question finds nothing."""
        asked = [q for q in questions if q.text.strip()]
        texts, qids = [q.text for q in asked], [q.qid for q in asked]
        hits = self._searcher.batch_search(texts, qids, k=k, threads=2) if asked else {}
        rows = [(qid, hit) for qid in qids for hit in hits[qid]]
        return make_run([qid for qid, _ in rows], [hit.docid for _, hit in rows], [float(hit.score) for _, hit in rows])


# ---------------------------------------------------------------- the kinds


def _lexical(of: Callable[..., Retriever]) -> RetrieverKind:
    return RetrieverKind(lambda _, **options: partial(of, **options), _keywords(of))


def _encoding(name: str, **options: Any) -> Encoding:
    # Title and text are written as the encoder's authors do.
    return Encoding(get_encoder(name, **options), model_card(name).passage_text)


def _dense(name: str, **options: Any) -> Maker:
    encoder, text_of = _encoding(name, **{key: options.pop(key) for key in _FOR_ENCODER & options.keys()})
    return partial(Dense, encoder=encoder, name=name, text_of=text_of, **options)


def _lucene(name: str) -> Maker:
    searcher = Lucene(name.removeprefix(_LUCENE), name)
    return lambda _: searcher  # its index is its corpus


def _tart_full(name: str, *, depth: int = 100, **options: Any) -> Maker:
    # First, because a model that is missing should fail before a corpus is read.
    scorer, make_first = load_scorer(TART_FULL), _dense("contriever", **options)

    def instructed(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        return scorer([(f"{TART_INSTRUCTION} [SEP] {question}", passage) for question, passage in pairs])

    return lambda passages: CrossEncoderRetriever(make_first(passages), passages, instructed, depth, name=name)


_DENSE = RetrieverKind(_dense, (_keywords(Dense) | _FOR_ENCODER) - {"name", "text_of"}, encoding=_encoding)
RETRIEVERS: Registry[RetrieverKind] = Registry(
    "retriever",
    {
        "bm25": _lexical(BM25),
        "bm25-lucene": _lexical(LuceneBM25),
        "rank-bm25": _lexical(RankBM25),
        **dict.fromkeys(CARDS, _DENSE),
        "hf:": _DENSE,
        "tart-full": RetrieverKind(_tart_full, _DENSE.options | {"depth"}, reranks=True),
        _LUCENE: RetrieverKind(_lucene, frozenset()),
    },
    own=lambda make, _: own_retriever(make),
)
