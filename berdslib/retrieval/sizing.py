"""What a large corpus takes: bytes, memory, hours, queries per second and cost, before anything is built.

Bytes are counted from how the files are laid out. Times and rates are figures measured at small sizes (``MEASURED``),
multiplied by how much more work the large size is. What a GPU does is arithmetic alone: operations needed over
operations possible; none of it was ever run. The plan that comes of this is docs/large_corpora.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, isnan, log2
from typing import TYPE_CHECKING, NamedTuple

from berdslib.errors import InputError, known
from berdslib.retrieval.index import _bytes_of_code, _cells

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "HARDWARE",
    "MEASURED",
    "MODELS",
    "SPHERE",
    "WIKIPEDIA",
    "Hardware",
    "Model",
    "bytes_of_index",
    "bytes_of_text",
    "bytes_of_vectors",
    "encoders",
    "hours_to_build",
    "hours_to_encode",
    "markdown",
    "measured",
    "memory_to_build",
    "passages_per_second",
    "plan",
    "queries_per_second",
    "readable",
    "scaling",
    "sizes",
]

WIKIPEDIA, SPHERE = 21_015_324, 906_000_000  # passages: the DPR dump psgs_w100; BeRDS Table 2

_BYTES_OF_NUMBER = {"float32": 4, "float16": 2}
_LINKS = 32  # of a node in each layer of "faiss-hnsw", and twice as many in the lowest
_PROBES = 128  # cells that a query looks into, the default of FaissIndex
_LEARNED_FROM = 256  # vectors that faiss learns a cell or a code from, at most
_ROUNDS_CELLS, _ROUNDS_CODES = 10, 25  # of k-means in faiss


class Measured(NamedTuple):
    """A figure that a benchmark printed: ``value`` in ``unit``, at ``n`` passages of ``dim`` numbers, ``by`` what."""

    value: float
    unit: str
    n: int
    dim: int
    by: str


# On one core of a virtual machine (AMD EPYC of 2024, one thread), in seconds of its CPU: other work went on beside.
MEASURED = {
    "bytes of a passage": Measured(627.7, "bytes of text", 32_828, 0, "Wikipedia articles cut by split_words"),
    "words of a passage": Measured(57.0, "different words but stop words", 31_813, 0, "the same, by BM25's analyser"),
    "tokens of a passage": Measured(131.5, "tokens", 2_000, 0, "the same, by MiniLM's tokenizer"),
    "tokenizing": Measured(4_540, "passages/s", 2_000, 0, "the same, by MiniLM's tokenizer"),
    "encoding": Measured(23.0, "passages/s", 512, 384, "the same, by MiniLM in float32"),
    "encoding, bfloat16": Measured(54.0, "passages/s", 1_024, 384, "the same, on a core with that format"),
    "writing": Measured(79_455, "passages/s", 200_000, 0, "bench_corpus.py"),
    "build bm25": Measured(39, "s", 300_000, 0, "bench_bm25_scale.py"),
    "memory to build bm25": Measured(5_390, "bytes a passage", 300_000, 0, "bench_bm25_scale.py"),
    "search bm25": Measured(1_245, "queries/s", 300_000, 0, "bench_bm25_scale.py"),
    "build faiss-ivf": Measured(10, "s", 100_000, 384, "bench_index.py"),
    "build faiss-hnsw": Measured(13, "s", 100_000, 384, "bench_index.py"),
    "build faiss-ivf-pq": Measured(21, "s", 100_000, 384, "bench_index.py"),
    "search numpy": Measured(158, "queries/s, one a call", 100_000, 384, "bench_index.py"),
    "search numpy, together": Measured(725, "queries/s, 200 a call", 100_000, 384, "bench_index.py"),
    "search faiss-ivf": Measured(1_076, "queries/s, one a call", 100_000, 384, "bench_index.py"),
    "search faiss-hnsw": Measured(3_512, "queries/s, one a call", 100_000, 384, "bench_index.py"),
    "search faiss-ivf-pq": Measured(1_363, "queries/s, one a call", 100_000, 384, "bench_index.py"),
}

# (figure, smaller n, larger n, how many times as long it took), 384 numbers a vector; see scaling()
_TWO_SIZES = (
    ("build bm25", 100_000, 300_000, 39 / 12),
    ("build faiss-hnsw", 20_000, 100_000, 14.1 / 1.16),
    ("build faiss-hnsw", 100_000, 300_000, 62.1 / 14.1),
    ("build faiss-ivf", 20_000, 100_000, 10.4 / 0.84),
    ("build faiss-ivf", 100_000, 300_000, 55.0 / 10.4),
    ("search bm25", 100_000, 300_000, 2274 / 1245),
    ("search numpy", 100_000, 300_000, 158 / 54),
    ("search faiss-hnsw", 100_000, 300_000, 3829 / 2469),
    ("search faiss-ivf", 100_000, 300_000, 1076 / 591),
    ("search faiss-ivf-pq", 20_000, 100_000, 3680 / 1707),
)


class Hardware(NamedTuple):
    """Machines: ``nodes``, and of each its ``cores``, ``memory`` and ``disk`` in bytes, ``flops`` of its GPU (0: none).

    The 989e12 below are the dense bfloat16 operations per second that NVIDIA's data sheet gives for an H100 SXM.
    """

    nodes: int
    cores: int
    memory: float
    disk: float
    flops: float = 0.0


HARDWARE = {
    "laptop": Hardware(nodes=1, cores=2, memory=16e9, disk=500e9),
    "gpu-node": Hardware(nodes=1, cores=16, memory=128e9, disk=4e12, flops=989e12),
    "cluster": Hardware(nodes=16, cores=16, memory=128e9, disk=4e12, flops=989e12),
}


class Model(NamedTuple):
    """An encoder: ``dim`` numbers a vector; ``parameters`` that a token is multiplied with, so without embeddings."""

    dim: int
    parameters: int


MODELS = {
    "minilm": Model(384, 6 * (12 * 384**2 + 13 * 384)),
    "contriever": Model(768, 12 * (12 * 768**2 + 13 * 768)),  # as DPR and every BERT-base
    "nv-embed-v2": Model(4096, 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096)),  # its Mistral 7B
}


# ---------------------------------------------------------------- bytes


def bytes_of_text(n: int, content: float = MEASURED["bytes of a passage"].value) -> float:
    """Return the bytes of a corpus on disk, as :func:`berdslib.data.corpus.write_corpus` writes it.

    Args:
        n: passages.
        content: bytes of docno, text and title of a passage, on average.

    Formula: n (content + 3 offsets of 8 bytes + 8 for the hash + 8 for the position).
    """
    return n * (content + 3 * 8 + 8 + 8)


def bytes_of_vectors(n: int, dim: int, number: str = "float32") -> float:
    """Return the bytes of n vectors.

    Args:
        n: vectors.
        dim: numbers in a vector.
        number: "float32" or "float16"; this package writes float32.

    Raises:
        InputError: another number format.

    >>> bytes_of_vectors(1_000_000, 384)
    1536000000
    """
    return n * dim * _BYTES_OF_NUMBER[known("number format", number, _BYTES_OF_NUMBER)]


def bytes_of_index(kind: str, n: int, dim: int = 0, words: float = MEASURED["words of a passage"].value) -> float:
    """Return the bytes of an index on disk; a small one has a few kilobytes more.

    Args:
        kind: "bm25", "numpy" (exact), "faiss-ivf", "faiss-hnsw" or "faiss-ivf-pq".
        n: passages.
        dim: numbers in a vector (not for "bm25").
        words: different words of a passage, stop words left out, on average ("bm25" only).

    Formulas, a passage: bm25, 12 bytes a word (position 4, weight 8), 8 for its order among ties and 18 for its name,
    the vocabulary left out (about 30 bytes for each word of the corpus); numpy, 4 dim; faiss-hnsw, 4 dim, 64
    links of 4 bytes in the lowest layer, 32 in each of the 1/31 higher layers that it is in on average, 12 for where
    they are; faiss-ivf, 4 dim, 8 for its number; faiss-ivf-pq, the code and 8. The two with cells also keep
    4 dim + 8 for each cell, and faiss-ivf-pq 256 vectors to decode with.

    Raises:
        InputError: an unknown kind, or one of vectors without their dim.
    """
    formulas = {
        "bm25": lambda: n * (12 * words + 8 + 18),
        "numpy": lambda: n * 4 * dim,
        "faiss-hnsw": lambda: n * (4 * dim + 4 * 2 * _LINKS + 4 * _LINKS / (_LINKS - 1) + 12),
        "faiss-ivf": lambda: n * (4 * dim + 8) + _cells(n) * (4 * dim + 8),
        "faiss-ivf-pq": lambda: n * (_bytes_of_code(dim) + 8) + _cells(n) * (4 * dim + 8) + 256 * 4 * dim,
    }
    formula = formulas[known("kind of index", kind, formulas)]
    if kind != "bm25" and dim < 1:
        raise InputError(f"an index of vectors needs their dim, not {dim}", field="dim")
    return formula()


def memory_to_build(kind: str, n: int, dim: int = 0) -> float:
    """Return the bytes of memory that building an index takes on one machine.

    Args:
        kind: as in :func:`bytes_of_index`.
        n: passages.
        dim: numbers in a vector.

    Formulas: bm25 as measured, n times; numpy nothing (the vectors stay on disk); faiss, the index itself, and of
    those with cells also the vectors that it learns them from.
    """
    size = bytes_of_index(kind, n, dim)
    if kind == "bm25":
        return n * MEASURED["memory to build bm25"].value
    if kind == "numpy":
        return 0
    learning = min(n, _LEARNED_FROM * _cells(n)) if "ivf" in kind else 0
    return size + learning * 4 * dim


# ---------------------------------------------------------------- time


def hours_to_encode(n: int, per_second: float, workers: int = 1) -> float:
    """Return the hours to turn n passages into vectors.

    Args:
        n: passages.
        per_second: passages per second of one worker.
        workers: that share the work (:func:`berdslib.retrieval.encoding.encode_corpus` lets them).

    >>> hours_to_encode(360_000, per_second=10, workers=2)
    5.0
    """
    return n / (per_second * workers) / 3600


def passages_per_second(model: str, hardware: Hardware, utilisation: float = 0.3) -> float:
    """Return how many passages of 100 words a node encodes per second.

    Args:
        model: a key of ``MODELS``.
        hardware: with a GPU, arithmetic that was never run; without, MiniLM's measured rate, by parameters.
        utilisation: the share of the GPU's operations per second that is reached, an assumption.

    Formula: a passage takes 2 x parameters x tokens operations (attention between tokens, under a tenth of that, is
    left out). A GPU does flops x utilisation a second, but the node's cores tokenize no faster than measured.
    """
    one = MODELS[known("model", model, MODELS)]
    if not hardware.flops:
        return hardware.cores * MEASURED["encoding"].value * MODELS["minilm"].parameters / one.parameters
    operations = 2 * one.parameters * MEASURED["tokens of a passage"].value
    return min(hardware.flops * utilisation / operations, hardware.cores * MEASURED["tokenizing"].value)


def hours_to_build(kind: str, n: int, dim: int = 0, workers: int = 1) -> float:
    """Return the hours to build an index: what was measured, times how much more work it is.

    Args:
        kind: as in :func:`bytes_of_index`.
        n: passages.
        dim: numbers in a vector.
        workers: cores that share the work evenly, an assumption.

    Work, in multiplications: bm25 in proportion to n; faiss-hnsw n log2(n) dim; cells are learned in 10 rounds over
    at most 256 vectors a cell, then each vector is compared with each cell; codes are learned in 25 rounds over at most
    65,536 vectors, and each part of a vector is compared with 256 others; numpy has nothing to build.
    """
    return _scaled(f"build {kind}", n, dim, _BUILDING[known("kind of index", kind, _BUILDING)]) / workers / 3600


def queries_per_second(kind: str, n: int, dim: int = 0, workers: int = 1) -> float:
    """Return the queries per second for the 100 best, asked one by one: what was measured, over how much more work.

    Of "numpy" a query alone waits for memory, all of which it reads: 200 in one call were answered at 725 instead of
    158 a second. For the same reason cores that share their memory will not reach `workers` times the rate of one.

    An approximate index of a larger corpus finds less at the same effort: recall@100 of faiss-hnsw fell from .975 at
    100,000 vectors to .922 at 500,000. How much is left of it at these sizes was not measured.

    Args:
        kind: as in :func:`bytes_of_index`.
        n: passages.
        dim: numbers in a vector.
        workers: cores that each answer queries of their own, as fast as one that works alone: an assumption.

    Work, in multiplications: bm25 in proportion to n; numpy n dim; faiss-hnsw log2(n) dim; faiss-ivf all cells, and the
    vectors in 128 of them; faiss-ivf-pq the same, but a number for each part of a vector's code.
    """
    return workers / _scaled(f"search {kind}", n, dim, _SEARCHING[known("kind of index", kind, _SEARCHING)])


def _scaled(figure: str, n: int, dim: int, work: Callable[[int, int], float]) -> float:
    """Return the seconds for (n, dim) from those for the size at which they were measured."""
    if figure not in MEASURED:  # nothing is built
        return 0.0
    measured = MEASURED[figure]
    seconds = measured.value if measured.unit == "s" else 1 / measured.value
    return seconds * work(n, dim) / work(measured.n, measured.dim)


def _work_of_cells(n: int, dim: int) -> float:
    return _cells(n) * (_ROUNDS_CELLS * min(n, _LEARNED_FROM * _cells(n)) + n) * dim


def _work_of_codes(n: int, dim: int) -> float:
    return 256 * (_ROUNDS_CODES * min(n, 256 * _LEARNED_FROM) + n) * dim


def _looked_at(n: int) -> float:
    return n * min(1, _PROBES / _cells(n))


# (n, dim) → multiplications, up to a factor; no matter which, as only ratios are used
_BUILDING: dict[str, Callable[[int, int], float]] = {
    "bm25": lambda n, _: n,
    "numpy": lambda n, dim: 0,  # noqa: ARG005
    "faiss-hnsw": lambda n, dim: n * log2(n) * dim,
    "faiss-ivf": _work_of_cells,
    "faiss-ivf-pq": lambda n, dim: _work_of_cells(n, dim) + _work_of_codes(n, dim),
}
_SEARCHING: dict[str, Callable[[int, int], float]] = {
    "bm25": lambda n, _: n,
    "numpy": lambda n, dim: n * dim,
    "faiss-hnsw": lambda n, dim: log2(n) * dim,
    "faiss-ivf": lambda n, dim: (_cells(n) + _looked_at(n)) * dim,
    "faiss-ivf-pq": lambda n, dim: _cells(n) * dim + _looked_at(n) * _bytes_of_code(dim),
}


# ---------------------------------------------------------------- the plan


def sizes(n: int, dims: Sequence[int] = (384, 768, 4096)) -> pd.DataFrame:
    """Return the bytes that a corpus and all its indexes take: one row for each of them, one column a dim.

    Args:
        n: passages.
        dims: numbers in a vector.
    """
    import pandas as pd

    rows = {"text (Arrow)": [bytes_of_text(n)] * len(dims), "bm25": [bytes_of_index("bm25", n)] * len(dims)}
    rows |= {f"vectors, {number}": [bytes_of_vectors(n, dim, number) for dim in dims] for number in _BYTES_OF_NUMBER}
    for kind in ("faiss-ivf", "faiss-hnsw", "faiss-ivf-pq"):
        rows[kind] = [bytes_of_index(kind, n, dim) for dim in dims]
    return pd.DataFrame.from_dict(rows, orient="index", columns=[f"bytes at {dim}" for dim in dims]).rename_axis("what")


def encoders(utilisation: float = 0.3) -> pd.DataFrame:
    """Return for each model what a passage takes, and how many a core and a GPU encode per second.

    Args:
        utilisation: of the GPU, see :func:`passages_per_second`.
    """
    import pandas as pd

    core, gpu = Hardware(1, 1, 0, 0), HARDWARE["gpu-node"]
    tokens = MEASURED["tokens of a passage"].value
    rows = {
        name: {
            "numbers": one.dim,
            "parameters, million": one.parameters / 1e6,
            "GFLOP a passage": 2 * one.parameters * tokens / 1e9,
            "passages/s, one core": passages_per_second(name, core),
            "passages/s, GPU alone": gpu.flops * utilisation / (2 * one.parameters * tokens),
            "passages/s, GPU node": passages_per_second(name, gpu, utilisation),
        }
        for name, one in MODELS.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


def plan(
    n: int, model: str = "minilm", hardware: str | Hardware = "laptop", price: float = 1.0, utilisation: float = 0.3
) -> pd.DataFrame:
    """Return what it takes to make a corpus searchable, step by step.

    With several nodes each holds an equal part of the corpus, and each query goes to all of them.

    Args:
        n: passages.
        model: a key of ``MODELS``.
        hardware: a key of ``HARDWARE``, or your own.
        price: of one node for one hour; with 1, cost is in node hours.
        utilisation: of the GPU, see :func:`passages_per_second`.

    Returns:
        One row a step: "bytes" on all disks, "bytes to build" in the memory of all nodes, "hours", "cost", "queries/s"
        (NaN for what is not searched, or not from memory: then the disk decides, which was not measured), "fits"
        ("yes", or what a node has too little of), and "basis" ("scaled" from what was measured, or "arithmetic").

    Raises:
        InputError: an unknown model or hardware.
    """
    import numpy as np
    import pandas as pd

    if n < 2:
        raise InputError(f"there must be at least two passages, not {n}", field="n")
    on = HARDWARE[known("hardware", hardware, HARDWARE)] if isinstance(hardware, str) else hardware
    dim, part = MODELS[known("model", model, MODELS)].dim, ceil(n / on.nodes)
    encoding = hours_to_encode(part, passages_per_second(model, on, utilisation))
    basis = "scaled" if model == "minilm" and not on.flops else "arithmetic"
    writing = part / MEASURED["writing"].value / 3600
    rows: list[tuple[str, float, float, float, float, str]] = [
        ("text (Arrow)", bytes_of_text(part), 32 * part, writing, float("nan"), "scaled"),
        (f"vectors ({model})", bytes_of_vectors(part, dim), 0, encoding, float("nan"), basis),
    ]
    for kind in _SEARCHING:
        hours = hours_to_build(kind, part, dim, 1 if kind == "bm25" else on.cores)  # bm25s builds in one thread
        size, memory = bytes_of_index(kind, part, dim), memory_to_build(kind, part, dim)
        rate = queries_per_second(kind, part, dim, on.cores) if size <= on.memory else float("nan")
        rows.append((kind, size, memory, hours, rate, "scaled"))
    columns = ["step", "bytes", "bytes to build", "hours", "queries/s", "basis"]
    table = pd.DataFrame(rows, columns=columns).set_index("step")
    too_large = [table["bytes to build"] > on.memory, table["bytes"] > on.disk]
    table["fits"] = np.select(too_large, ["no: memory", "no: disk"], default="yes")
    table[["bytes", "bytes to build"]] *= on.nodes
    table["cost"] = table["hours"] * on.nodes * price
    return table[["bytes", "bytes to build", "hours", "cost", "queries/s", "fits", "basis"]]


def measured() -> pd.DataFrame:
    """Return the figures that everything here rests on, one row each."""
    import pandas as pd

    return pd.DataFrame.from_dict(MEASURED, orient="index", columns=Measured._fields).rename_axis("figure")


def scaling() -> pd.DataFrame:
    """Return, for figures that were measured at two sizes, what the larger size changed and what the formulas say.

    Factors are times that a query or a build takes, the larger size over the smaller one.
    """
    import pandas as pd

    rows = []
    for figure, small, large, factor in _TWO_SIZES:
        task, kind = figure.split(" ")
        work = {"build": _BUILDING, "search": _SEARCHING}[task][kind]
        rows.append((figure, small, large, factor, work(large, 384) / work(small, 384)))
    columns = ["figure", "from", "to", "measured factor", "formula's factor"]
    return pd.DataFrame(rows, columns=columns).set_index("figure")


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of this module for a reader: GB instead of bytes, three digits, and a blank where there is none.

    Args:
        table: from :func:`sizes`, :func:`plan`, :func:`measured` or :func:`scaling`.
    """
    shown = {}
    for name in map(str, table.columns):
        unit = 1e9 if "bytes" in name else 1
        shown[name.replace("bytes", "GB")] = [_short(value, unit) for value in table[name]]
    return type(table)(shown, index=table.index)


def _short(value: object, unit: float) -> str:
    if not isinstance(value, float | int):
        return str(value)
    value = value / unit
    if isnan(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def markdown(table: pd.DataFrame) -> str:
    """Return a table as Markdown, its index first."""
    rows = [[str(table.index.name or ""), *map(str, table.columns)], ["---"] * (len(table.columns) + 1)]
    rows += [[str(name), *map(str, row)] for name, row in zip(table.index, table.to_numpy(), strict=True)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
