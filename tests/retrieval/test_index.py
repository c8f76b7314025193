"""Indexes against brute force: what they find, that they survive saving, and what they refuse to open; BM25's too."""

import json
import math
import tracemalloc

import numpy as np
import pytest

from berdslib.data.records import Passage, Question
from berdslib.errors import InputError, MissingDataError
from berdslib.models.manifest import MANIFEST_FILE
from berdslib.retrieval import bm25
from berdslib.retrieval import index as module
from berdslib.retrieval.bm25 import BM25, VARIANTS
from berdslib.retrieval.index import FaissIndex, MilvusIndex, Rescored, make_index

EXACT = ("numpy", "faiss")
APPROXIMATE = ("faiss-ivf", "faiss-hnsw", "faiss-ivf-pq")
LOCAL = EXACT + APPROXIMATE


def clustered(n, dim=32, clusters=40, seed=0):
    """Unit vectors around random centres, as those of texts on some topics are."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((clusters, dim))
    vectors = centres[rng.integers(0, clusters, n)] + 0.6 * rng.standard_normal((n, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def brute_force(vectors, queries, k, ties):
    """Sort everything, in Python."""
    scores = queries.astype(np.float64) @ vectors.astype(np.float64).T
    return [sorted(range(len(vectors)), key=lambda i: (-row[i], ties[i]))[:k] for row in scores]


def filled(name, vectors, ties=None):
    index = make_index(name)
    index.tie_order = None if ties is None else ties.__getitem__
    index.add(vectors)
    return index


def numbers(hits):
    return [rows.tolist() for rows, _ in hits]


def recall(index, exact, queries, k):
    """The mean share of the k nearest vectors that an index finds."""
    pairs = zip(numbers(index.search(queries, k)), numbers(exact.search(queries, k)), strict=True)
    return np.mean([len({*found} & {*true}) / len(true) for found, true in pairs])


@pytest.mark.parametrize("scale", [1, 1e-30, 1e15])
def test_numpy_is_exact_where_float32_is_not(monkeypatch, scale):
    """Scores that differ in the seventh digit, and twins: against a sort of sums that are rounded once."""
    monkeypatch.setattr(module, "_ROWS", 500)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal(384) + 1e-5 * rng.standard_normal((1203, 384))
    vectors = (scale * vectors).astype(np.float32)
    vectors[[5, 700, 1201, 1202]] = vectors[3]
    queries, ties = rng.standard_normal((5, 384)).astype(np.float32), rng.permutation(1203)
    index = filled("numpy", vectors, ties)
    together = index.search(queries, 40)
    for query, (rows, scores) in zip(queries, together, strict=True):
        exact = [math.fsum(products) for products in vectors.astype(np.float64) * query.astype(np.float64)]
        assert rows.tolist() == sorted(range(1203), key=lambda i: (-exact[i], ties[i]))[:40]
        np.testing.assert_allclose(scores, np.array(exact)[rows], rtol=1e-12)
        alone = index.search(query[None], 40)[0]
        assert rows.tolist() == alone[0].tolist() and scores.tolist() == alone[1].tolist()


def test_numpy_searches_vectors_on_disk_in_bounded_memory(tmp_path, monkeypatch):
    """20,000 vectors of 5 MB in blocks of 1,000: the scores of all of them at once would be 16 MB."""
    monkeypatch.setattr(module, "_ROWS", 1000)
    vectors, queries = clustered(20_000, 64), clustered(200, 64, seed=1)
    np.save(tmp_path / "v.npy", vectors)
    index = filled("numpy", np.load(tmp_path / "v.npy", mmap_mode="r"))
    tracemalloc.start()
    hits = index.search(queries, 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6
    scores = queries @ vectors.T
    for row, (_, best) in zip(scores, hits, strict=True):
        np.testing.assert_allclose(best, np.sort(row)[::-1][:10], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCAL)
def test_every_index_finds_what_brute_force_finds(name):
    vectors, queries = clustered(4000), clustered(50, seed=1)
    want = brute_force(vectors, queries, 10, range(4000))
    hits = filled(name, vectors).search(queries, 10)
    recall = np.mean([len(set(rows) & set(true)) / 10 for rows, true in zip(numbers(hits), want, strict=True)])
    assert recall == 1 if name in EXACT else recall > (0.6 if name == "faiss-ivf-pq" else 0.95)
    for query, (rows, scores) in zip(queries, hits, strict=True):
        assert len(set(rows.tolist())) == len(rows) == len(scores)
        assert (np.diff(scores) <= 0).all()
        tolerance = 0.2 if name == "faiss-ivf-pq" else 1e-5  # its vectors are approximate
        np.testing.assert_allclose(scores, vectors[rows] @ query, atol=tolerance)
    print(f"{name}: recall@10 {recall:.3f}")


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCAL)
def test_every_index_survives_saving(name, tmp_path):
    vectors, queries = clustered(2000), clustered(20, seed=1)
    index = filled(name, vectors)
    before = index.search(queries, 15)
    for _ in range(2):  # the second time it is replaced
        index.save(tmp_path / "deep" / "index")
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["index"]
    opened = type(index).open(tmp_path / "deep" / "index")
    after = opened.search(queries, 15)
    if name != "faiss-ivf-pq":
        assert numbers(after) == numbers(before)
    else:  # a table of sums is not kept, so sums are rounded otherwise
        assert recall(opened, index, queries, 15) > 0.98
    for (_, ours), (_, theirs) in zip(after, before, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    if name in EXACT:
        assert len(opened.search(queries[:1], 9999)[0][0]) == 2000


@pytest.mark.parametrize("name", ["numpy", "faiss", "faiss-hnsw"])
def test_equal_scores_are_in_tie_order_also_after_opening(name, tmp_path):
    vectors = np.repeat(np.eye(4, dtype=np.float32), 5, axis=0)
    ties = np.random.default_rng(0).permutation(20)
    index = filled(name, vectors, ties)
    index.save(tmp_path / "index")
    opened = type(index).open(tmp_path / "index")
    opened.tie_order = index.tie_order
    for one in (index, opened):
        rows = one.search(np.eye(4, dtype=np.float32)[1:2], 5)[0][0]
        assert rows.tolist() == sorted(range(5, 10), key=lambda i: ties[i])


@pytest.mark.parametrize("name", LOCAL)
def test_a_file_that_was_cut_short_is_refused(name, tmp_path):
    index = filled(name, clustered(1000))
    index.save(tmp_path / "index")
    path = tmp_path / "index" / index._FILE
    content = path.read_bytes()
    for keep in (0, 5, 200, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:keep])
        for place in (path.parent, path):  # also as a file alone
            with pytest.raises(InputError) as error:
                type(index).open(place)
            assert error.value.path == path
    path.unlink()
    with pytest.raises(InputError) as error:
        type(index).open(path.parent)
    assert error.value.path == path


@pytest.mark.parametrize("name", ["faiss", *APPROXIMATE])
def test_an_opened_faiss_index_refuses_to_grow_and_can_be_saved_again(name, tmp_path):
    """Faiss itself ends the process, or a notebook's kernel; of mapped cells it would save only the file's name."""
    vectors = clustered(400)
    filled(name, vectors).save(tmp_path / "first")
    opened = FaissIndex.open(tmp_path / "first")
    with pytest.raises(InputError, match="an opened index is mapped from its file and cannot grow"):
        opened.add(vectors)
    opened.effort = 32
    opened.save(tmp_path / "second")
    again = FaissIndex.open(tmp_path / "second")
    assert len(again) == 400 and (again.effort == 32 or name == "faiss")  # which knows no effort
    assert numbers(again.search(vectors[:5], 7)) == numbers(opened.search(vectors[:5], 7))


@pytest.mark.slow
def test_rescored_sorts_the_candidates_by_the_vectors_on_disk(tmp_path):
    vectors, queries = clustered(4000), clustered(30, seed=1)
    vectors[7] = vectors[3000]
    queries[0] = vectors[7]
    np.save(tmp_path / "vectors.npy", vectors)
    index, ties = filled("faiss-ivf-pq", vectors), np.arange(4000)[::-1]
    rescored = Rescored(index, np.load(tmp_path / "vectors.npy", mmap_mode="r"), depth=50)
    rescored.tie_order = ties.__getitem__
    candidates = numbers(index.search(queries, 50))
    exact = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    for i, (rows, scores) in enumerate(rescored.search(queries, 10)):
        assert rows.tolist() == sorted(candidates[i], key=lambda row: (-exact[i, row], ties[row]))[:10]
        np.testing.assert_allclose(scores, exact[i, rows], rtol=1e-12)
    assert numbers(rescored.search(queries[:1], 2)) == [[3000, 7]]
    true = filled("numpy", vectors)
    assert recall(rescored, true, queries, 10) > recall(index, true, queries, 10) + 0.1
    assert len(rescored.search(queries, 60)[0][0]) == 60
    for wrong in (vectors[1:], vectors[:0]):
        with pytest.raises(InputError, match=str(len(wrong))):
            Rescored(index, wrong)
    with pytest.raises(InputError, match="0 vectors"):
        Rescored(make_index("faiss"), vectors[:0])


def zipf_passages(n, seed=0):
    rng = np.random.default_rng(seed)
    words = np.array([f"word{i}é" for i in range(300)])
    shares = 1 / np.arange(1, 301)
    drawn = rng.choice(words, (n, 12), p=shares / shares.sum())
    return [Passage(f"d{i:04}", " ".join(row), "A title" if i % 2 else "") for i, row in enumerate(drawn)]


ASKED = [Question(f"q{i}", f"word{i}é word{i * 7 % 300}é unknown title") for i in range(40)]


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_bm25_that_was_saved_or_compiled_finds_the_same_with_the_same_scores(variant, tmp_path, monkeypatch):
    passages = zipf_passages(400)
    passages += [Passage(f"c{i}", passages[i].text, passages[i].title) for i in range(100)]  # ties
    fresh = BM25(passages, variant=variant, k1=1.1, b=0.3, analyser="english-stem")
    for _ in range(2):  # the second time it is replaced
        fresh.save(tmp_path / "index")
    monkeypatch.setattr(bm25, "_NUMBA_FROM", 0)  # compiled where numba is there
    opened = BM25.load(tmp_path / "index")
    assert opened.search(ASKED, 30).equals(fresh.search(ASKED, 30))
    data = opened._index.scores["data"]
    while data.base is not None and not isinstance(data, np.memmap):
        data = data.base
    assert isinstance(data, np.memmap)


def test_bm25_that_is_not_whole_is_refused(tmp_path):
    BM25(zipf_passages(50)).save(tmp_path / "index")
    for file in sorted((tmp_path / "index").iterdir()):
        content = file.read_bytes()
        for broken in (b"", content[: len(content) // 2], None):
            file.unlink() if broken is None else file.write_bytes(broken)
            with pytest.raises(InputError) as caught:
                BM25.load(tmp_path / "index")
            assert caught.value.path in (tmp_path / "index", file)
            file.write_bytes(content)
    made = json.loads((tmp_path / "index" / MANIFEST_FILE).read_text())
    for wrong in ({"bm25": 99}, {"bm25": None}, {"format": 99}, {"analyser": "gone"}, {"analyser": None}):
        (tmp_path / "index" / MANIFEST_FILE).write_text(json.dumps(made | wrong))
        with pytest.raises(InputError) as caught:
            BM25.load(tmp_path / "index")
        assert caught.value.path == tmp_path / "index" / MANIFEST_FILE
    with pytest.raises(InputError):
        BM25.load(tmp_path / "nothing")
    (tmp_path / "other" / "photos").mkdir(parents=True)
    with pytest.raises(InputError, match="has other content"):
        BM25(zipf_passages(5)).save(tmp_path / "other")


NOTHING, THREE = np.zeros((1, 32), np.float32), clustered(3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_index("faisss"), "Did you mean 'faiss'"),
        (lambda: make_index("numpy", effort=5), "has no effort setting"),
        (lambda: make_index("milvus"), "milvus:FILE.db"),
        (lambda: make_index("faiss-ivf", effort=0), "at least 1, not 0"),
        (lambda: filled("numpy", np.nan * THREE).search(NOTHING, 1), "not finite, or too large"),
        (lambda: filled("faiss-ivf-pq", THREE), "256 vectors or more, not 3"),
        (lambda: filled("numpy", THREE).search(np.zeros((1, 5), np.float32), 1), r"queries must be \(n, 32\)"),
        (lambda: filled("numpy", THREE).add(np.zeros((3, 5), np.float32)), r"vectors must be float32 \(n, 32\)"),
        (lambda: MilvusIndex("http://127.0.0.1:9", {}), "no Milvus at 'http://127.0.0.1:9'"),
        (lambda: make_index("ivf:folder"), "'ivf:folder'"),
        *[(lambda name=name: make_index(name).search(NOTHING, 3), "empty") for name in LOCAL],
        *[(lambda name=name: make_index(name).add(np.zeros((300, 32))), "float32") for name in LOCAL],
    ],
)
def test_what_is_refused(call, words, monkeypatch):
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")
    if "Milvus" in words:
        pytest.importorskip("pymilvus")
    with pytest.raises((InputError, MissingDataError), match=words):
        call()
