"""Retrievers by name, so that a notebook parameter can be a string; questions with their own corpora; Lucene."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import AnyQuery, Passage, make_run
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

# Builds a retriever over a corpus. Its models are loaded already, once for all corpora.
Maker = Callable[[Sequence[Passage]], Retriever]

LUCENE = "pyserini:"
_FOR_ENCODER = {"cached", "engine", "number_format"}


class Encoding(NamedTuple):
    """How a dense retriever makes vectors: its encoder, and the text that it encodes of a passage."""

    encoder: Encoder
    text_of: Callable[[Passage], str]


class RetrieverKind(NamedTuple):
    """How a kind of retriever is made: ``prepare`` takes a name and options, loads the models and returns a maker.

    A retriever that ``reranks`` takes ``depth`` candidates from another one. A dense retriever has an ``encoding``,
    a function of its name and options.
    """

    prepare: Callable[..., Maker]
    options: frozenset[str]
    reranks: bool = False
    encoding: Callable[..., Encoding] | None = None


def encoding_of(name: str) -> Encoding:
    """Return the encoding of a dense retriever by name; InputError for any other retriever."""
    kind, _ = RETRIEVERS.find(name)
    if kind.encoding is None:
        raise InputError(f"{name!r} is not a dense retriever; use one such as 'minilm'")
    return kind.encoding(name)


def is_dense(name: str) -> bool:
    """Return whether a retriever of this name compares vectors."""
    kind = RETRIEVERS.get(name) or RETRIEVERS.get(name.partition(":")[0] + ":")
    return kind is not None and kind.encoding is not None


def check_dense(name: str) -> None:
    """Raise InputError unless this is the name of a dense retriever."""
    if name.endswith(":") or not is_dense(RETRIEVERS.spelt(name)):
        known("encoder", name, filter(is_dense, RETRIEVERS.names()))


@dataclass(frozen=True)
class OwnDense:
    """A dense retriever of the user's that is not bound to a corpus yet; :func:`dense` returns it."""

    encoding: Encoding
    index: str

    def __call__(self, passages: Sequence[Passage]) -> Dense:
        """Build the retriever over these passages."""
        return self.over(passages)

    def over(self, passages: Sequence[Passage], name: str = "dense", index: str = "") -> Dense:
        """Build the retriever over these passages, with a name; `index` replaces the retriever's own index."""
        encoder, text_of = self.encoding
        index = index or self.index
        if ":" in index and encoder.id == NAMELESS:
            raise InputError("a saved index is found by the id of its encoder; set id", field="id")
        return Dense(passages, encoder, index=index, name=name, text_of=text_of)


def dense(encode: Any, *, queries: Any = None, id: str = "", index: str = "numpy") -> OwnDense:
    """Make a retriever from your own model: ``bd.register("retriever", "mine", bd.dense(encode))``.

    Its vectors are cached; "mine+mmr:0.9" and "mine+pap:1.0" use them, too.

    Args:
        encode: a function from a list of texts to vectors, float (n, d), whose dot products rank passages (scale them
            to length 1 for cosines); a SentenceTransformer, used as its own files say; or the name of an encoder.
        queries: a function for questions, if they are encoded differently.
        id: names the vectors in the cache on disk; change it when the model changes. A SentenceTransformer without an
            id is identified by its weights; vectors of a function without an id are deleted when Python ends.
        index: how vectors are searched: a key of :data:`berdslib.retrieval.index.INDEXES`, and where the index is
            saved, as in "ivf-pq:FOLDER", "milvus:FILE.db" or "milvus:http://HOST:PORT".

    Raises:
        InputError: `encode` fails on two short test texts, or returns invalid vectors for them.

    >>> import numpy as np
    >>> from berdslib.data.records import Question
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
            "pyserini:INDEX" searches a Lucene index, a folder or a prebuilt one of Pyserini, and ignores the corpus.
        passages: the corpus; in :class:`~berdslib.data.web.OwnCorpora`, each question has its own.
        options: keyword arguments of the retriever's class and, if it is dense, of its encoder; or of your own maker.

    Raises:
        InputError: an unknown name, an option that this retriever does not take, an empty corpus, a duplicate docno.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    kind, _ = RETRIEVERS.find(name)
    unknown = sorted(options.keys() - kind.options)
    if unknown:
        problem = f"retriever {name!r} takes no such option; accepted: {', '.join(sorted(kind.options)) or 'none'}"
        raise InputError(problem, field=unknown[0])
    make = kind.prepare(name, **options)
    if isinstance(passages, OwnCorpora) and not name.startswith(LUCENE):
        index = options.get("index", "")
        if not isinstance(index, str) or ":" in index:
            raise InputError("questions with their own corpora cannot share an index")
        return InOwnCorpora(name, make, passages)
    return make(passages)


_HINT = "register a model, or a function from texts to vectors, as berdslib.dense(encode)"


def own_retriever(make: Callable[..., Retriever]) -> RetrieverKind:
    """Return the kind of a user's function from passages (and options by name) to a retriever."""
    if isinstance(make, OwnDense):
        encoding = make.encoding
        over = make.over
        options = frozenset({"index"})
        return RetrieverKind(lambda name, **how: partial(over, name=name, **how), options, encoding=lambda _: encoding)

    if hasattr(make, "encode"):
        raise InputError(f"a retriever must be a function of passages; {_HINT}", field="make")

    def prepare(name: str, **options: Any) -> Maker:
        def checked(passages: Sequence[Passage]) -> Retriever:
            try:
                made = make(passages, **options)
            except AttributeError as error:
                if error.obj is not next(iter(passages), None):
                    raise
                problem = f"the retriever {name!r} fails on a passage ({error}); {_HINT}"
                raise InputError(problem) from error
            if not callable(getattr(made, "search", None)):
                problem = (
                    f"must return an object with a method search(questions, k), not {type(made).__name__}; {_HINT}"
                )
                raise InputError(f"the retriever {name!r} {problem}")
            return CheckedRetriever(name, made)

        return checked

    if not callable(make):
        raise InputError(f"a retriever must be a function of passages, not {type(make).__name__}")
    _, *others = inspect.signature(make).parameters.values()
    options = frozenset(parameter.name for parameter in others if parameter.kind is not parameter.VAR_KEYWORD)
    return RetrieverKind(prepare, options)


def _keywords(of: Callable[..., Any]) -> frozenset[str]:
    parameters = inspect.signature(of).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)


class InOwnCorpora:
    """Searches each question in its own corpus; each search builds the retrievers again."""

    def __init__(self, name: str, make: Maker, corpora: OwnCorpora) -> None:
        self.name = name
        self._make = make
        self._corpora = corpora

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question; queries made from one question share its corpus."""
        queries: dict[str, list[AnyQuery]] = {}
        corpora: dict[str, Sequence[Passage]] = {}
        for asked in questions:
            qid = asked.question.qid
            queries.setdefault(qid, []).append(asked)
            corpora[qid] = self._corpora.of(asked.question)
        runs = []
        for qid, same_corpus in bar(queries.items(), desc=f"{self.name}, a corpus a question", unit="corpus"):
            if corpora[qid]:
                runs.append(self._make(corpora[qid]).search(same_corpus, k))
        return joined(runs)


class Lucene:
    """Searches an existing Lucene index by BM25, through Pyserini; docnos are those of the index.

    `index` is a folder, or the name of one of Pyserini's prebuilt indexes. Anserini's analyser tokenises the texts.
    """

    def __init__(self, index: str, name: str) -> None:
        try:
            from pyserini.search.lucene import LuceneSearcher
        except ImportError:
            raise MissingDataError(
                "a Lucene index needs Pyserini and Java 21: pip install 'berdslib[pyserini]'"
            ) from None
        is_folder = Path(index).is_dir()
        searcher = LuceneSearcher(index) if is_folder else LuceneSearcher.from_prebuilt_index(index)
        if searcher is None:  # Pyserini does not know the name
            raise MissingDataError(f"{index!r} is neither a folder nor a prebuilt index of Pyserini")
        searcher.set_bm25(k1=0.9, b=0.4)
        self.name = name
        self._searcher = searcher

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question; a blank question finds nothing."""
        asked = [question for question in questions if question.text.strip()]
        texts = [question.text for question in asked]
        qids = [question.qid for question in asked]
        hits = self._searcher.batch_search(texts, qids, k=k, threads=2) if asked else {}
        rows = [(qid, hit) for qid in qids for hit in hits[qid]]
        docnos = [hit.docid for _, hit in rows]
        scores = [float(hit.score) for _, hit in rows]
        return make_run([qid for qid, _ in rows], docnos, scores)


# ---------------------------------------------------------------- the kinds


def _lexical(of: Callable[..., Retriever]) -> RetrieverKind:
    return RetrieverKind(lambda _, **options: partial(of, **options), _keywords(of))


def _encoding(name: str, **options: Any) -> Encoding:
    # Title and text are joined as by the encoder's authors.
    return Encoding(get_encoder(name, **options), model_card(name).passage_text)


def _dense(name: str, **options: Any) -> Maker:
    for_encoder = {key: options.pop(key) for key in _FOR_ENCODER & options.keys()}
    encoder, text_of = _encoding(name, **for_encoder)
    return partial(Dense, encoder=encoder, name=name, text_of=text_of, **options)


def _lucene(name: str) -> Maker:
    searcher = Lucene(name.removeprefix(LUCENE), name)
    return lambda _: searcher  # its index is its corpus


def _tart_full(name: str, *, depth: int = 100, **options: Any) -> Maker:
    # Loaded here, so that a missing model fails before a corpus is read.
    scorer = load_scorer(TART_FULL)
    make_first = _dense("contriever", **options)

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
        LUCENE: RetrieverKind(_lucene, frozenset()),
    },
    own=lambda make, _: own_retriever(make),
)
