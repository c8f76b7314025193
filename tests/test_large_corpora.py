"""The formulas of docs/large_corpora.md, as printed there, against the files of real indexes."""

import re
from pathlib import Path

import numpy as np
import pytest

from berdslib.data.corpus import write_corpus
from berdslib.data.records import Passage
from berdslib.retrieval.bm25 import BM25
from berdslib.retrieval.index import make_index

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "large_corpora.md"
N = 20_000


@pytest.fixture(scope="module")
def formulas():
    names = {}
    exec(re.search(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)[1], names)
    return names


@pytest.fixture(scope="module")
def passages():
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(2_000)])[rng.integers(0, 2_000, (N, 40))]
    return [Passage(f"document-{i:05}-0", " ".join(row)) for i, row in enumerate(words)]


def size_of(folder):
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "formula", "dim"),
    [
        ("numpy", "vectors", 64),
        ("faiss-ivf", "ivf", 64),
        ("faiss-hnsw", "hnsw", 8),
        ("faiss-hnsw", "hnsw", 64),
        ("faiss-ivf-pq", "ivf_pq", 16),
    ],
)
def test_an_index_of_vectors_has_the_computed_size(formulas, tmp_path, kind, formula, dim):
    index = make_index(kind)
    index.add(np.random.default_rng(0).standard_normal((N, dim), dtype=np.float32))
    index.save(tmp_path / "index")
    assert formulas[formula](N, dim) == pytest.approx(size_of(tmp_path / "index"), rel=0.01)


@pytest.mark.slow
def test_an_index_of_words_has_the_computed_size(formulas, passages, tmp_path):
    BM25(passages).save(tmp_path / "bm25")
    words = np.mean([len(set(p.text.split())) for p in passages])
    assert formulas["bm25"](N, words) == pytest.approx(size_of(tmp_path / "bm25"), rel=0.1)


def test_a_corpus_has_the_computed_size(formulas, passages, tmp_path):
    write_corpus(passages, tmp_path / "corpus")
    content = np.mean([len(p.docno) + len(p.text) for p in passages])
    assert formulas["text"](N, content) == pytest.approx(size_of(tmp_path / "corpus"), rel=0.01)
