"""Indexes against brute force: what they find, that they survive saving, and what they refuse to open; BM25's too."""

import json
import math
import tracemalloc

import faiss
import numpy as np
import pytest

from berdslib.data.records import Passage, Question
from berdslib.errors import InputError, MissingDataError
from berdslib.retrieval import bm25
from berdslib.retrieval import index as module
from berdslib.retrieval.bm25 import BM25, VARIANTS
from berdslib.retrieval.index import FaissIndex, MilvusIndex, NumpyIndex, Rescored, index_recall, make_index

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
    index = make_index(name, ties)
    index.add(vectors)
    return index


def numbers(hits):
    return [rows.tolist() for rows, _ in hits]


@pytest.fixture(params=[*LOCAL, "milvus"])
def name(request):
    if request.param == "milvus":
        pytest.importorskip("pymilvus")
        pytest.importorskip("milvus_lite")
    return request.param


def test_numpy_in_blocks_equals_a_full_sort_with_many_ties(monkeypatch):
    """Whole numbers, so that scores tie often and exactly; blocks of 7 vectors and 3 queries."""
    monkeypatch.setattr(module, "_ROWS", 7)
    monkeypatch.setattr(module, "_QUERIES", 3)
    rng = np.random.default_rng(1)
    for n in (1, 6, 7, 8, 50):
        vectors = rng.integers(-1, 2, (n, 3)).astype(np.float32)
        queries = rng.integers(-1, 2, (10, 3)).astype(np.float32)
        ties = rng.permutation(n)
        for k in (1, 5, 7, 20, 100):
            hits = filled("numpy", vectors, ties).search(queries, k)
            assert numbers(hits) == brute_force(vectors, queries, k, ties)
            for query, (rows, scores) in zip(queries, hits, strict=True):
                np.testing.assert_array_equal(scores, vectors[rows] @ query)


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


def test_numpy_refuses_numbers_that_cannot_be_compared():
    for wrong in (np.nan, np.inf):
        vectors = np.ones((3, 2), np.float32)
        vectors[1, 1] = wrong
        with pytest.raises(InputError, match="not finite, or too large"):
            filled("numpy", vectors).search(np.ones((1, 2), np.float32), 1)
    with pytest.raises(InputError, match="not finite, or too large"):
        filled("numpy", np.ones((3, 2), np.float32)).search(np.full((1, 2), np.nan, np.float32), 1)


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
def test_every_index_finds_what_brute_force_finds(name):
    vectors, queries = clustered(4000), clustered(50, seed=1)
    want = brute_force(vectors, queries, 10, range(4000))
    hits = filled(name, vectors).search(queries, 10)
    recall = np.mean([len(set(rows) & set(true)) / 10 for rows, true in zip(numbers(hits), want, strict=True)])
    assert recall == 1 if name in (*EXACT, "milvus") else recall > (0.6 if name == "faiss-ivf-pq" else 0.95)
    for query, (rows, scores) in zip(queries, hits, strict=True):
        assert len(set(rows.tolist())) == len(rows) == len(scores)
        assert (np.diff(scores) <= 0).all()
        tolerance = 0.2 if name == "faiss-ivf-pq" else 1e-5  # its vectors are approximate
        np.testing.assert_allclose(scores, vectors[rows] @ query, atol=tolerance)
    print(f"{name}: recall@10 {recall:.3f}")


@pytest.mark.slow
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
        assert index_recall(opened, index, queries, 15) > 0.98
    for (_, ours), (_, theirs) in zip(after, before, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    if name in EXACT:
        assert len(opened.search(queries[:1], 9999)[0][0]) == 2000


@pytest.mark.slow
def test_vectors_added_in_parts_are_numbered_in_their_order(name):
    vectors, queries = clustered(1500), clustered(10, seed=1)
    whole_, parts = filled(name, vectors), make_index(name)
    parts.add(vectors[:1000])
    parts.add(vectors[1000:])
    # The codes of "ivf-pq" are learned from the first part alone.
    assert index_recall(parts, whole_, queries, 10) > (0.4 if name == "faiss-ivf-pq" else 0.98)
    own = parts.search(vectors[1200:1210], 1)
    assert sum(rows[0] == 1200 + i for i, (rows, _) in enumerate(own)) >= (8 if name == "faiss-ivf-pq" else 10)


@pytest.mark.parametrize("name", ["numpy", "faiss", "faiss-hnsw"])
def test_equal_scores_are_in_tie_order_also_after_opening(name, tmp_path):
    vectors = np.repeat(np.eye(4, dtype=np.float32), 5, axis=0)
    ties = np.random.default_rng(0).permutation(20)
    index = filled(name, vectors, ties)
    index.save(tmp_path / "index")
    for one in (index, type(index).open(tmp_path / "index", ties)):
        rows = one.search(np.eye(4, dtype=np.float32)[1:2], 5)[0][0]
        assert rows.tolist() == sorted(range(5, 10), key=lambda i: ties[i])


def test_an_opened_file_is_mapped_and_not_read(tmp_path):
    vectors = clustered(1000)
    filled("numpy", vectors).save(tmp_path / "index")
    opened = NumpyIndex.open(tmp_path / "index")
    assert isinstance(opened._vectors, np.memmap) and not opened._vectors.flags.writeable


@pytest.mark.parametrize("name", LOCAL)
def test_a_file_that_was_cut_short_is_refused(name, tmp_path):
    index = filled(name, clustered(1000))
    path = tmp_path / "index"
    index.save(path)
    content = path.read_bytes()
    for keep in (0, 5, 200, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:keep])
        with pytest.raises(InputError, match=f"{path}: holds no"):
            type(index).open(path)


def test_what_is_no_index_is_refused(tmp_path):
    (tmp_path / "text").write_text("I am no index, but I am long enough to be one." * 50)
    np.save(tmp_path / "doubles.npy", np.zeros((3, 3)))
    np.save(tmp_path / "flat.npy", np.zeros(3, np.float32))
    faiss.write_index(faiss.IndexFlatL2(4), str(tmp_path / "distances"))
    for cls in (NumpyIndex, FaissIndex, MilvusIndex):
        for file in ("text", "missing"):
            with pytest.raises(InputError, match="holds no"):
                cls.open(tmp_path / file)
    for file in ("doubles.npy", "flat.npy"):
        with pytest.raises(InputError, match="float32"):
            NumpyIndex.open(tmp_path / file)
    with pytest.raises(InputError, match="dot products"):
        FaissIndex.open(tmp_path / "distances")


def test_index_recall_by_hand():
    class Fixed:
        def __init__(self, rows):
            self.rows = rows

        def search(self, queries, k):
            return [(np.array(r[:k]), np.zeros(len(r[:k]))) for r in self.rows]

    found, true = Fixed([[1, 2, 9], [7, 8]]), Fixed([[2, 3, 1], [4, 5, 6]])
    assert index_recall(found, true, np.zeros((2, 1)), 3) == pytest.approx((2 / 3 + 0) / 2)
    assert index_recall(found, true, np.zeros((2, 1)), 1) == 0
    assert index_recall(true, true, np.zeros((2, 1)), 3) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", APPROXIMATE)
def test_effort_is_given_by_name_and_kept_with_the_index(name, tmp_path):
    vectors, queries = clustered(8000, clusters=4000), clustered(40, clusters=4000, seed=1)
    found = []
    for effort in (3, 300):
        index = make_index(name, effort=effort)
        index.add(vectors)
        index.search(queries, 20)  # more than the effort of "hnsw", which is not to be what is saved
        index.save(tmp_path / "index")
        inside = faiss.read_index(str(tmp_path / "index"))
        assert effort == (inside.hnsw.efSearch if name == "faiss-hnsw" else inside.nprobe)
        opened = FaissIndex.open(tmp_path / "index")
        assert opened.effort == effort and len(opened) == 8000
        found.append(numbers(opened.search(queries, 3)))
        opened.effort = 300 if effort == 3 else 3
        found.append(numbers(opened.search(queries, 3)))
    assert found[0] == found[3] != found[1] == found[2] or name == "faiss-hnsw"  # its graph is not built the same twice
    assert found[0] != found[1]


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
    rescored = Rescored(index, np.load(tmp_path / "vectors.npy", mmap_mode="r"), depth=50, tie_order=ties)
    candidates = numbers(index.search(queries, 50))
    exact = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    for i, (rows, scores) in enumerate(rescored.search(queries, 10)):
        assert rows.tolist() == sorted(candidates[i], key=lambda row: (-exact[i, row], ties[row]))[:10]
        np.testing.assert_allclose(scores, exact[i, rows], rtol=1e-12)
    assert numbers(rescored.search(queries[:1], 2)) == [[3000, 7]]
    true = filled("numpy", vectors)
    assert index_recall(rescored, true, queries, 10) > index_recall(index, true, queries, 10) + 0.1
    assert len(rescored.search(queries, 60)[0][0]) == 60
    for wrong in (vectors[1:], vectors[:0]):
        with pytest.raises(InputError, match="given to rescore"):
            Rescored(index, wrong)
    with pytest.raises(InputError, match="given to rescore"):
        Rescored(make_index("faiss"), vectors[:0])


@pytest.mark.slow
def test_a_saved_milvus_index_that_lost_vectors_is_refused(tmp_path):
    pytest.importorskip("milvus_lite")
    filled("milvus", clustered(50)).save(tmp_path / "index")
    about = json.loads((tmp_path / "index" / "milvus.json").read_text())
    (tmp_path / "index" / "milvus.json").write_text(json.dumps(about | {"vectors": 60}))
    with pytest.raises(InputError, match=r"saved with 60 vectors, and collection .* holds 50"):
        MilvusIndex.open(tmp_path / "index")
    (tmp_path / "other" / "photos").mkdir(parents=True)
    with pytest.raises(InputError, match="has other content"):
        filled("milvus", clustered(50)).save(tmp_path / "other")


@pytest.fixture
def uri(tmp_path):
    """Of a Milvus that outlives an index, as a server does."""
    pytest.importorskip("milvus_lite")
    return f"milvus:{tmp_path / 'shared.db'}"


@pytest.mark.slow
def test_the_same_vectors_share_a_collection_on_a_server(uri, monkeypatch):
    vectors, sent = clustered(300), []
    for expected, added in ((300, vectors), (0, vectors.copy()), (50, vectors[:50]), (0, vectors)):
        index = make_index(uri)
        upsert = index._client.upsert
        monkeypatch.setattr(index._client, "upsert", lambda c, rows, u=upsert: (sent.append(len(rows)), u(c, rows)))
        index.add(added)
        assert sum(sent) == expected and len(index) == len(added)
        assert [rows[0] for rows in numbers(index.search(added[:20], 1))] == list(range(20))
        sent.clear()
    assert len(index._client.list_collections()) == 2
    with pytest.raises(InputError, match="at once"):
        index.add(vectors)
    index.drop()
    assert len(index._client.list_collections()) == 1 and len(index) == 0
    index.add(vectors)
    assert sum(sent) == 300 and numbers(index.search(vectors[:3], 1)) == [[0], [1], [2]]


def test_a_collection_that_is_not_complete_is_filled(uri):
    vectors = clustered(300)
    index = filled(uri, vectors)
    index._client.delete(index.collection, ids=list(range(0, 300, 7)))
    assert numbers(index.search(vectors[:1], 1)) != [[0]]
    again = filled(uri, vectors)
    assert numbers(again.search(vectors, 1)) == [[i] for i in range(300)]
    assert len(again._client.query(again.collection, filter="id >= 0", output_fields=["id"])) == 300


# ---------------------------------------------------------------- BM25


def zipf_passages(n, seed=0):
    rng = np.random.default_rng(seed)
    words = np.array([f"word{i}é" for i in range(300)])
    shares = 1 / np.arange(1, 301)
    drawn = rng.choice(words, (n, 12), p=shares / shares.sum())
    return [Passage(f"d{i:04}", " ".join(row), "A title" if i % 2 else "") for i, row in enumerate(drawn)]


ASKED = [Question(f"q{i}", f"word{i}é word{i * 7 % 300}é unknown title") for i in range(40)]


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("mmap", [True, False])
def test_bm25_that_was_saved_or_compiled_finds_the_same_with_the_same_scores(variant, mmap, tmp_path, monkeypatch):
    passages = zipf_passages(400)
    passages += [Passage(f"c{i}", passages[i].text, passages[i].title) for i in range(100)]  # ties
    fresh = BM25(passages, variant=variant, k1=1.1, b=0.3, analyser="english-stem")
    for _ in range(2):  # the second time it is replaced
        fresh.save(tmp_path / "index")
    monkeypatch.setattr(bm25, "_NUMBA_FROM", 0)  # compiled where numba is there
    opened = BM25.load(tmp_path / "index", mmap=mmap)
    assert opened.search(ASKED, 30).equals(fresh.search(ASKED, 30))
    data = opened._index.scores["data"]
    while isinstance(data, np.ndarray) and data.base is not None and not isinstance(data, np.memmap):
        data = data.base
    assert isinstance(data, np.memmap) == mmap


def test_bm25_that_is_not_whole_is_refused(tmp_path):
    BM25(zipf_passages(50)).save(tmp_path / "index")
    for file in sorted((tmp_path / "index").iterdir()):
        content = file.read_bytes()
        for broken in (b"", content[: len(content) // 2], None):
            file.unlink() if broken is None else file.write_bytes(broken)
            with pytest.raises(InputError, match="holds no complete BM25 index"):
                BM25.load(tmp_path / "index")
            file.write_bytes(content)
    np.save(tmp_path / "index" / "ties.npy", np.arange(49))
    with pytest.raises(InputError, match="sizes of its files disagree"):
        BM25.load(tmp_path / "index")
    (tmp_path / "index" / "berdslib.json").write_text(json.dumps({"format": 99, "analyser": "english"}))
    with pytest.raises(InputError, match="is of format 99"):
        BM25.load(tmp_path / "index")
    with pytest.raises(InputError, match="holds no complete"):
        BM25.load(tmp_path / "nothing")
    (tmp_path / "other" / "photos").mkdir(parents=True)
    with pytest.raises(InputError, match="has other content"):
        BM25(zipf_passages(5)).save(tmp_path / "other")


def test_a_link_to_a_saved_index_stays_a_link(tmp_path):
    BM25([Passage("a", "one two")]).save(tmp_path / "saved")
    (tmp_path / "link").symlink_to(tmp_path / "saved")
    BM25([Passage("a", "one two"), Passage("b", "two")]).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert json.loads((tmp_path / "saved" / "docnos.json").read_text()) == ["a", "b"]
    filled("numpy", clustered(5)).save(tmp_path / "vectors")
    (tmp_path / "name").symlink_to(tmp_path / "vectors")
    filled("numpy", clustered(6)).save(tmp_path / "name")
    assert (tmp_path / "name").is_symlink() and len(NumpyIndex.open(tmp_path / "vectors")) == 6
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "name", "saved", "vectors"]


NOTHING, THREE = np.zeros((1, 32), np.float32), clustered(3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_index("faisss"), "Did you mean 'faiss'"),
        (lambda: make_index("numpy", effort=5), "has no effort setting"),
        (lambda: make_index("milvus", effort=5), "has no effort setting"),
        (lambda: make_index("faiss-ivf", effort=0), "at least 1, not 0"),
        (lambda: filled("faiss-ivf-pq", THREE), "256 vectors or more, not 3"),
        (lambda: filled("numpy", THREE).search(np.zeros((1, 5), np.float32), 1), r"queries must be \(n, 32\)"),
        (lambda: filled("numpy", THREE).add(np.zeros((3, 5), np.float32)), r"vectors must be float32 \(n, 32\)"),
        (lambda: make_index("milvus:http://127.0.0.1:9"), "no Milvus at 'http://127.0.0.1:9'"),
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
