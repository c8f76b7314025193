"""Encoding in shards: the same vectors whoever encodes, a killed run goes on, and no vectors of something else."""

import hashlib
import multiprocessing
import os
import pickle
import re
import resource
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from berdslib.data.corpus import write_corpus
from berdslib.data.records import Passage, Question
from berdslib.errors import BerdsError, InputError
from berdslib.models import corpus_vectors
from berdslib.models.cards import CARDS
from berdslib.models.corpus_vectors import encode_corpus, encode_part
from berdslib.models.vectors import CachedEncoder
from berdslib.retrieval import retrievers
from berdslib.retrieval.bm25 import BM25
from berdslib.retrieval.dense import Dense
from berdslib.retrieval.index import NumpyIndex, Rescored, make_index

PASSAGES = [Passage(f"d{i}", f"text number {i}", f"title {i % 7}" if i % 3 else "") for i in range(1000)]


class Fake:
    """A text's vector is its hash; each call appends a line to a file that all processes share."""

    def __init__(self, log: Path, model="fake", delay=0.0, wrong=None, deadly=None):
        self.log, self.id, self.delay, self.wrong, self.deadly = log, model, delay, wrong, deadly

    def encode_queries(self, texts):
        return true_vectors(texts)

    def encode_passages(self, texts):
        time.sleep(self.delay)
        if self.deadly is not None and not self.deadly.exists():
            self.deadly.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\t{texts[0]}\t{len(texts)}\n")
        return true_vectors(texts) if self.wrong is None else self.wrong(texts)


def true_vectors(texts):
    digests = b"".join(hashlib.sha256(text.encode()).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u4").astype(np.float32).reshape(len(texts), 8)


def in_shards(passages, encoder, folder, shard=2048, executor=None):
    with patch.object(corpus_vectors, "_SHARD", shard):
        return encode_corpus(passages, encoder, folder, executor)


def expected(passages):
    return true_vectors([p.full_text for p in passages])


def calls(log):
    return [line.split("\t") for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.tsv"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "vectors"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(PASSAGES, tmp_path_factory.mktemp("corpora") / "corpus")


@pytest.mark.slow
@pytest.mark.parametrize("shard", [1, 7, 999, 1000, 5000])
@pytest.mark.parametrize("kind", ["list", "corpus"])
def test_vectors_are_in_the_order_of_the_passages(kind, shard, corpus, log, folder):
    passages = corpus if kind == "corpus" else PASSAGES
    got = in_shards(passages, Fake(log), folder, shard)
    np.testing.assert_array_equal(got, expected(PASSAGES))
    assert got.dtype == np.float32 and not got.flags.writeable and isinstance(got.base, np.memmap)
    assert sum(int(n) for _, _, n in calls(log)) == 1000
    assert sorted(p.name for p in folder.iterdir()) == [".lock", "manifest.json", "vectors.npy"]


def test_what_is_encoded_is_not_encoded_again(corpus, log, folder):
    for passages, shard in ((corpus, 100), (PASSAGES, 100), (corpus, 33)):
        np.testing.assert_array_equal(in_shards(passages, Fake(log), folder, shard), expected(PASSAGES))
    assert len(calls(log)) == 10


def test_vectors_of_another_encoder_or_corpus_are_never_returned(log, folder):
    in_shards(PASSAGES, Fake(log, "one"), folder)
    others = [
        PASSAGES[:-1],
        PASSAGES[::-1],
        [*PASSAGES[:-1], Passage("d999", "text number 998")],
        [Passage(p.docno + "x", p.text, p.title) for p in PASSAGES],
    ]
    for other in others:
        with pytest.raises(InputError, match=r"'encoder': 'one'.*'passages': 1000"):
            in_shards(other, Fake(log, "one"), folder)
    with pytest.raises(InputError, match=r"'encoder': 'one'.*'encoder': 'two'"):
        in_shards(PASSAGES, Fake(log, "two"), folder)
    assert len(calls(log)) == 1


def stopped(folder, log, after):
    """Encode some shards of 100, then fail."""

    def wrong(texts):
        if len(calls(log)) > after:
            raise RuntimeError("stopped")
        return true_vectors(texts)

    with pytest.raises(RuntimeError, match="stopped"):
        in_shards(PASSAGES, Fake(log, wrong=wrong), folder, 100)


def test_a_run_that_failed_goes_on_where_it_stopped(log, folder):
    stopped(folder, log, 3)
    before = len(calls(log))
    np.testing.assert_array_equal(in_shards(PASSAGES, Fake(log), folder, 100), expected(PASSAGES))
    assert [first for _, first, _ in calls(log)[before:]] == [p.full_text for p in PASSAGES[300::100]]


def test_an_encoder_that_returns_something_else(log, folder):
    for wrong in (lambda t: true_vectors(t)[1:], lambda t: true_vectors(t).ravel()):
        with pytest.raises(InputError, match=r"returned vectors of shape .* not \(100, d\)"):
            in_shards(PASSAGES, Fake(log, wrong=wrong), folder, 100)
    with pytest.raises(InputError, match="4 numbers"):
        wide = Fake(log, wrong=lambda t: true_vectors(t)[:, : 8 if t[0].endswith(" 0") else 4])
        in_shards(PASSAGES, wide, folder.with_name("other"), 100)


def test_a_corpus_that_is_changed_meanwhile(tmp_path, log, folder):
    corpus = write_corpus(PASSAGES, tmp_path / "changing")
    changed = [Passage(p.docno, p.text.upper()) for p in PASSAGES]

    class Changing(ThreadPoolExecutor):
        def submit(self, function, /, *arguments):
            if not changed_already:
                changed_already.append(write_corpus(changed, corpus.path))
            return super().submit(*pickle.loads(pickle.dumps((function, *arguments))))  # noqa: S301  as processes do

    changed_already = []
    with Changing(1) as pool, pytest.raises(InputError, match="changed"):
        in_shards(corpus, Fake(log), folder, 100, pool)


@pytest.mark.parametrize("keep", [0, 100, 0.5])
def test_vectors_that_were_cut_short_are_refused(log, folder, keep):
    in_shards(PASSAGES, Fake(log), folder)
    size = (folder / "vectors.npy").stat().st_size
    os.truncate(folder / "vectors.npy", int(size * keep) if isinstance(keep, float) else keep)
    for use in (lambda: in_shards(PASSAGES, Fake(log), folder), lambda: NumpyIndex.open(folder)):
        with pytest.raises(InputError) as error:
            use()
        assert error.value.path == folder / "vectors.npy"


def test_parts_in_any_order_are_the_same_bytes_and_nothing_is_encoded_twice(corpus, log, folder, monkeypatch):
    monkeypatch.setattr(corpus_vectors, "_SHARD", 64)
    for i in (4, 1, 3, 4, 2):
        assert encode_part(corpus, Fake(log), (i, 4), folder) == folder
    got = in_shards(corpus, Fake(log), folder, 64)
    np.testing.assert_array_equal(got, expected(PASSAGES))
    assert len(calls(log)) == 16
    in_shards(corpus, Fake(log), folder.with_name("one"), 64)
    assert (folder / "vectors.npy").read_bytes() == (folder.with_name("one") / "vectors.npy").read_bytes()


def test_what_a_killed_run_left_unfinished_is_removed(log, folder):
    context = multiprocessing.get_context("fork")
    for _ in range(2):
        process = context.Process(target=_killed_while_joining, args=(log, folder))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        assert len(list(folder.glob(".vectors.npy.*"))) == 1
    np.testing.assert_array_equal(in_shards(PASSAGES, Fake(log), folder, 100), expected(PASSAGES))
    assert sorted(p.name for p in folder.iterdir()) == [".lock", "manifest.json", "vectors.npy"]
    assert len(calls(log)) == 10


def _killed_while_joining(log, folder):
    replace = os.replace
    os.replace = lambda old, new: (
        os.kill(os.getpid(), signal.SIGKILL) if new.name == "vectors.npy" else replace(old, new)
    )
    in_shards(PASSAGES, Fake(log), folder, 100)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what this process has open")
def test_nothing_is_open_when_it_gets_its_name(tmp_path, log, folder, monkeypatch):
    # Windows refuses to rename what is.
    replace, named = os.replace, []

    def strict(old, new):
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
        held = [*map(os.path.realpath, links), *Path("/proc/self/maps").read_text(encoding="utf-8").split()]
        assert not [path for path in held if path.startswith(str(old))]
        named.append(Path(new).name)
        replace(old, new)

    monkeypatch.setattr(os, "replace", strict)
    in_shards(write_corpus(PASSAGES, tmp_path / "corpus"), Fake(log), folder, 100)
    assert {"corpus", "vectors.npy"} <= {*named}


def test_of_a_cached_encoder_the_one_inside_is_used(tmp_path, log, folder):
    cached = CachedEncoder(Fake(log), tmp_path / "embeddings")
    np.testing.assert_array_equal(in_shards(PASSAGES, cached, folder), expected(PASSAGES))


@pytest.mark.parametrize(
    ("name", "text"),
    [("letter.txt", ""), *(("manifest.json", text) for text in ("{", "[]", "7", '{"encoder": "x"}', '{"format": 99}'))],
)
def test_folders_that_are_refused(folder, log, name, text):
    folder.mkdir()
    (folder / name).write_text(text)
    with pytest.raises(InputError) as error:
        in_shards(PASSAGES, Fake(log), folder)
    assert error.value.path == (folder / name if name == "manifest.json" else folder)
    with pytest.raises(InputError):
        in_shards([], Fake(log), folder)


# ---------------------------------------------------------------- the dense retriever


def test_dense_on_disk_finds_what_dense_in_memory_finds(user_cache, corpus, log, folder):
    asked = [Question("a", "text number 500"), Question("b", " "), Question("c", "something else")]
    in_memory = Dense(PASSAGES, Fake(log)).search(asked, 20)
    for passages, index in ((corpus, "numpy"), (PASSAGES, f"numpy:{folder}"), (corpus, "faiss")):
        run = Dense(passages, Fake(log), index=index).search(asked, 20)
        assert run["docno"].tolist() == in_memory["docno"].tolist()
        np.testing.assert_allclose(run["score"], in_memory["score"], rtol=1e-5)
    assert len(calls(log)) == 3  # in memory, in the user's cache, in the folder
    assert len(list((user_cache / "vectors").iterdir())) == 1


def test_dense_uses_an_index_that_holds_vectors_and_encodes_nothing(corpus, log, tmp_path):
    """Also ties are those of the docnos: d0, d1, d10, …, whatever index was opened."""
    vectors = np.ones((1000, 8), np.float32)
    filled = make_index("numpy")
    filled.add(vectors)
    filled.save(tmp_path / "index")
    exact = make_index("faiss-ivf")
    exact.add(vectors)
    for passages in (corpus, PASSAGES):
        opened = NumpyIndex.open(tmp_path / "index")
        run = Dense(passages, Fake(log), index=opened).search([Question("q", "what?")], 7)
        assert run["docno"].tolist() == sorted(p.docno for p in PASSAGES)[:7]
        rescored = Rescored(exact, np.load(tmp_path / "index" / "vectors.npy", mmap_mode="r"), depth=1000)
        run = Dense(passages, Fake(log), index=rescored).search([Question("q", "what?")], 7)
        assert run["docno"].tolist() == sorted(p.docno for p in PASSAGES)[:7]
    assert not calls(log)
    for few in (opened, rescored):
        with pytest.raises(InputError, match="holds 1000 vectors, and there are 999 passages"):
            Dense(PASSAGES[1:], Fake(log), index=few)


DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "large_corpora.md"


def test_the_steps_of_the_document_lead_to_a_run(user_cache, corpus, log, tmp_path, monkeypatch):
    """Its Python, as it stands there, on a small corpus: of rescored ones all are candidates, so the run is exact."""
    steps = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8").split("## The steps")[1], re.DOTALL)
    assert len(steps) == 2
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(retrievers, "get_encoder", lambda name: Fake(log))
    write_corpus(PASSAGES, "wikipedia")
    questions = [Question("a", "text number 500"), Question("b", "number 777")]
    runs = []
    for step in steps:  # each as if in a session of its own
        names = {"questions": questions}
        exec(step, names)
        runs.append(names["run"])
    want = Dense(PASSAGES, Fake(log), text_of=CARDS["minilm"].passage_text).search(questions, 100)
    assert runs[1].equals(want) and len(runs[0]) == len(want) == 200
    assert set(BM25.load("wikipedia.bm25").search(questions, 5)["docno"]) >= {"d500", "d777"}


# ---------------------------------------------------------------- several processes, killed


def _end_with_parent():
    """Else a worker whose parent was killed waits for ever."""
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def two_workers():
    return ProcessPoolExecutor(2, multiprocessing.get_context("spawn"), _end_with_parent)


@pytest.mark.slow
def test_a_killed_worker_is_an_error_that_keeps_what_is_done(corpus, log, folder, tmp_path):
    with two_workers() as pool, pytest.raises(BerdsError, match=r"worker process was killed.*call again to go on"):
        in_shards(corpus, Fake(log, delay=0.01, deadly=tmp_path / "dead"), folder, 50, pool)
    before = len(calls(log))
    with two_workers() as pool:
        got = in_shards(corpus, Fake(log, deadly=tmp_path / "dead"), folder, 50, pool)
    np.testing.assert_array_equal(got, expected(PASSAGES))
    assert before < 20 and 20 <= len(calls(log)) <= 22  # lost: what the two were at


@pytest.mark.slow
def test_two_runs_at_once_share_the_shards(corpus, log, folder):
    context = multiprocessing.get_context("fork")
    runs = [context.Process(target=in_shards, args=(corpus, Fake(log, delay=0.05), folder, 50)) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
    assert [run.exitcode for run in runs] == [0, 0]
    np.testing.assert_array_equal(in_shards(corpus, Fake(log), folder, 50), expected(PASSAGES))
    by = [pid for pid, _, _ in calls(log)]
    assert len(by) == 20 and len(set(by)) == 2
    assert sorted(p.name for p in folder.iterdir()) == [".lock", "manifest.json", "vectors.npy"]


def test_who_comes_to_a_shard_when_another_has_joined_them_all_is_done(log, folder, monkeypatch):
    """The folder of shards may go between any two steps, also of who takes a lock in it."""
    in_shards(PASSAGES, Fake(log), folder, 100)

    def gone(*_, **__):
        raise FileNotFoundError("shards")

    monkeypatch.setattr("filelock.FileLock.acquire", gone)
    job = (Fake(log), corpus_vectors.full_text, PASSAGES, range(100), "")
    corpus_vectors._encode_shard(*job, folder / "shards" / "0-x.npy", False)
    with pytest.raises(FileNotFoundError):
        corpus_vectors._encode_shard(*job, folder / "elsewhere" / "shards" / "0-x.npy", False)


@pytest.mark.parametrize("what", ["shard", "join", "numpy", "faiss"])
def test_a_file_that_the_system_does_not_let_grow_is_named_with_the_reason(log, folder, tmp_path, what):
    """By a limit on the size of files, which is told as a full disk is."""
    vectors = expected(PASSAGES)
    index = make_index("numpy" if what == "numpy" else "faiss")
    index.add(vectors)

    def full(limit=10_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            if what in ("numpy", "faiss"):
                index.save(folder)
            else:
                in_shards(PASSAGES, Fake(log), folder, 1000 if what == "shard" else 100)
        except InputError as error:
            os.write(told, str(error).encode())
        os._exit(0)

    read, told = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=full)
    process.start()
    process.join(60)
    os.close(told)
    said = os.read(read, 4096).decode()
    assert "cannot be written: File too large" in said and str(folder) in said
    assert not list(tmp_path.rglob(".vectors*")) and not list(tmp_path.glob(".*"))
    if what in ("shard", "join"):
        np.testing.assert_array_equal(in_shards(PASSAGES, Fake(log), folder, 100), expected(PASSAGES))


# ---------------------------------------------------------------- dask


class Deadly(Fake):
    def encode_passages(self, texts):
        os._exit(9)


@pytest.mark.slow
def test_dask_gives_the_same_and_a_worker_that_is_killed_again_and_again_is_an_error(corpus, log, folder, tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"processes": True, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=2, local_directory=str(tmp_path / "dask"), **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor(pure=False)
        np.testing.assert_array_equal(in_shards(corpus, Fake(log), folder, 100, executor), expected(PASSAGES))
        assert len(calls(log)) == 10 and str(os.getpid()) not in {pid for pid, _, _ in calls(log)}
        with pytest.raises(BerdsError, match=r"worker process was killed.*call again to go on"):
            in_shards(corpus, Deadly(log), tmp_path / "other", 500, executor)
