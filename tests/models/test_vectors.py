"""The disk cache of vectors: each text is encoded once, whoever asks, and a killed process leaves nothing wrong."""

import hashlib
import multiprocessing
import os
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from berdslib.errors import InputError
from berdslib.models.vectors import CachedEncoder, computing_anyway

CHUNK = 100
TEXTS = [f"text number {i:04}" for i in range(2000)]  # of one length, so encoded as they come


class Fake:
    """A text's vector is its hash; every text that is encoded becomes a line of a file that all processes share."""

    def __init__(self, log: Path, model="fake", delay=0.0):
        self.log, self.id, self.delay = log, model, delay

    def encode_queries(self, texts):
        return self._encode("q", texts)

    def encode_passages(self, texts):
        return self._encode("p", texts)

    def _encode(self, role, texts):
        time.sleep(self.delay)
        with open(self.log, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join(f"{os.getpid()}\t{role}\t{text}\n" for text in texts))
        return true_vectors(texts, role)


def true_vectors(texts, role="p"):
    digests = b"".join(hashlib.sha256(f"{role} {text}".encode("utf-8", "surrogatepass")).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u4").astype(np.float32).reshape(len(texts), 8)


def encoded(log):
    """The texts that were encoded, in order, by whichever process."""
    return [line.split("\t")[2] for line in log.read_text().splitlines()] if log.exists() else []


def assert_whole(folder, texts, role="p"):
    """Return how many vectors are kept, sure that each is that of its text."""
    by_key = {hashlib.sha256(f"{role}\0{text}".encode()).digest(): text for text in texts}
    (path,) = folder.glob("*.sqlite")
    with sqlite3.connect(path) as table:
        kept = table.execute("SELECT key, numbers FROM vector").fetchall()
    for key, numbers in kept:
        assert numbers == true_vectors([by_key[key]], role).tobytes()
    return len(kept)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "encoded.tsv"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "embeddings"


def cached(log, folder, **options):
    return CachedEncoder(Fake(log, **options), folder, chunk=CHUNK)


# ---------------------------------------------------------------- one process


def test_a_text_is_encoded_once(log, folder, caplog):
    caplog.set_level("INFO", "berdslib")
    for _ in range(3):
        np.testing.assert_array_equal(cached(log, folder).encode_passages(TEXTS[:350]), true_vectors(TEXTS[:350]))
    got = cached(log, folder).encode_passages(TEXTS[300:450])  # 50 of them are known
    np.testing.assert_array_equal(got, true_vectors(TEXTS[300:450]))
    assert encoded(log) == TEXTS[:450]
    assert caplog.messages[-1] == "fake: 50 of 150 different texts from the cache"
    assert assert_whole(folder, TEXTS) == 450


def test_repeats_within_a_call_and_texts_that_nearly_repeat(log, folder):
    asked = ["b", "a", "b", "", "a ", "A", "a", "ä\0", "ä", "broken \ud83d smile"]
    got = cached(log, folder).encode_passages(asked)
    np.testing.assert_array_equal(got, true_vectors(asked))
    assert got.dtype == np.float32
    assert len(log.read_text().splitlines()) == len(set(asked))


def test_each_model_has_its_own_file(log, folder):
    for model in ("one", "two", "one"):
        encoder = cached(log, folder, model=model)
        assert encoder.id == model
        encoder.encode_passages(["same"])
    assert encoded(log) == ["same", "same"] and len(list(folder.glob("*.sqlite"))) == 2


def test_an_encoder_that_fails_leaves_the_chunks_before_it(log, folder):
    class Failing(Fake):
        def encode_passages(self, texts):
            if "text number 0150" in texts:
                raise RuntimeError("out of memory")
            return super().encode_passages(texts)

    with pytest.raises(RuntimeError, match="out of memory"):
        CachedEncoder(Failing(log), folder, chunk=CHUNK).encode_passages(TEXTS[:300])
    assert assert_whole(folder, TEXTS) == 100
    np.testing.assert_array_equal(cached(log, folder).encode_passages(TEXTS[:300]), true_vectors(TEXTS[:300]))
    assert encoded(log) == TEXTS[:300]


def test_a_vector_that_is_not_finite_is_not_kept(log, folder):
    broken = CachedEncoder(Broken(), folder)
    with pytest.raises(InputError, match="not finite"):
        broken.encode_passages(["a", "b"])
    broken.encoder.value = 1.0
    np.testing.assert_array_equal(broken.encode_passages(["a", "b"]), np.ones((2, 3), dtype=np.float32))
    with pytest.raises(InputError, match="no texts"):
        broken.encode_queries([])


class Broken:
    """An encoder that returns NaN, until it is mended."""

    id, value = "broken", np.nan

    def encode_passages(self, texts):
        return np.full((len(texts), 3), self.value, dtype=np.float32)

    encode_queries = encode_passages


def test_a_damaged_cache_is_named_as_what_it_is(log, folder):
    cached = CachedEncoder(Broken(), folder)
    folder.mkdir()
    cached._path.write_bytes(b"no database at all" * 100)
    with pytest.raises(InputError) as error:
        cached.encode_passages(["a"])
    assert error.value.path == cached._path


def test_a_text_that_comes_again_far_behind_is_encoded_once(log, folder, caplog):
    for _ in range(2):
        cached(log, folder).encode_passages([*TEXTS, *TEXTS[:5]])
    assert encoded(log) == TEXTS and not caplog.text


def test_a_file_that_sqlite_cannot_read_is_named(log, folder):
    path = cached(log, folder)._path
    cached(log, folder).encode_passages(TEXTS)
    content = bytearray(path.read_bytes())
    pages = range(len(content) // 2 // 4096 * 4096, len(content), 4096)
    content[next(page for page in pages if content[page] == 10)] = 0  # the kind of a leaf, behind the middle
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        cached(log, folder).encode_passages(TEXTS)
    assert error.value.path == path and path.read_bytes() == content
    path.unlink()
    np.testing.assert_array_equal(cached(log, folder).encode_passages(TEXTS), true_vectors(TEXTS))


@pytest.mark.parametrize("width", [7, 9])
def test_vectors_of_another_shape_are_an_error(log, folder, width):
    class Reshaped(Fake):
        def encode_passages(self, texts):
            return np.zeros((len(texts), width), dtype=np.float32)

    class Short(Fake):
        def encode_passages(self, texts):
            return super().encode_passages(texts)[1:]

    cached(log, folder).encode_passages(TEXTS[:10])
    for wrong in (Reshaped(log), Short(log)):
        with pytest.raises(InputError, match="shape"):
            CachedEncoder(wrong, folder).encode_passages(TEXTS[:20])
    assert assert_whole(folder, TEXTS) == 10


# ---------------------------------------------------------------- several processes


def _meet(room, n):
    """Wait until n processes have come here."""
    room.mkdir(exist_ok=True)
    (room / str(os.getpid())).touch()
    until = time.monotonic() + 60
    while len(list(room.iterdir())) < n:
        assert time.monotonic() < until
        time.sleep(0.001)


def _encode(log, folder, texts, room, answer):
    encoder = cached(log, folder, delay=0.05)
    _meet(room, 2)
    np.save(answer, encoder.encode_passages(texts))


def _start(target, *arguments):
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    return process


def _finish(*processes):
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * len(processes)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, -1], ids=["same-order", "from-both-ends"])
def test_two_processes_encode_every_text_once_and_take_turns(tmp_path, log, folder, step):
    asked, answers = [TEXTS, TEXTS[::step]], [tmp_path / "0.npy", tmp_path / "1.npy"]
    _finish(*[_start(_encode, log, folder, asked[i], tmp_path / "room", answers[i]) for i in range(2)])
    for texts, answer in zip(asked, answers, strict=True):
        np.testing.assert_array_equal(np.load(answer), true_vectors(texts))
    assert sorted(encoded(log)) == sorted(TEXTS)
    assert assert_whole(folder, TEXTS) == len(TEXTS)
    shares = Counter(line.split("\t")[0] for line in log.read_text().splitlines())
    assert len(shares) == 2 and min(shares.values()) >= 3 * CHUNK  # half each, were it not for chance


def _open_again_and_again(folders):
    for folder in folders:
        _meet(folder.parent / f"{folder.name}.room", 3)
        CachedEncoder(Fake(folder.parent / f"{folder.name}.tsv"), folder, chunk=10).encode_passages(TEXTS[:20])


@pytest.mark.slow
def test_processes_may_create_the_cache_at_the_same_moment(tmp_path):
    """With SQLite's write-ahead log 1 of 30 such openings failed with "database is locked"."""
    folders = [tmp_path / f"cache{i}" for i in range(15)]
    _finish(*[_start(_open_again_and_again, folders) for _ in range(3)])
    for folder in folders:
        assert assert_whole(folder, TEXTS) == 20
        assert len(encoded(tmp_path / f"{folder.name}.tsv")) == 20


class Stopping(Fake):
    """Stands still at its n-th call, inside the transaction, and says so by a file, to be killed there."""

    def __init__(self, log, nth, here):
        super().__init__(log, delay=0.05)
        self.left, self.here = nth, here

    def encode_passages(self, texts):
        self.left -= 1
        vectors = super().encode_passages(texts)
        if not self.left:
            self.here.touch()
            time.sleep(600)
        return vectors


def _encode_and_stop(log, folder, texts, room, nth, here):
    encoder = CachedEncoder(Stopping(log, nth, here), folder, chunk=CHUNK)
    _meet(room, 2)
    encoder.encode_passages(texts)


@pytest.mark.slow
def test_sigkill_leaves_the_cache_whole(tmp_path, log, folder):
    """Of two processes that take turns one is killed, holding the lock, while the other waits for it."""
    here, answer, nth = tmp_path / "here", tmp_path / "survivor.npy", 5
    # The first 800 texts are the victim's own, so that it gets to its 5th chunk however fast the survivor is.
    first, second = TEXTS[:1000], TEXTS[:799:-1]
    victim = _start(_encode_and_stop, log, folder, first, tmp_path / "room", nth, here)
    survivor = _start(_encode, log, folder, second, tmp_path / "room", answer)
    until = time.monotonic() + 60
    while not here.exists():
        assert victim.is_alive() and time.monotonic() < until
        time.sleep(0.01)
    assert survivor.is_alive() and not answer.exists()
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    _finish(survivor)
    np.testing.assert_array_equal(np.load(answer), true_vectors(second))

    kept, before = assert_whole(folder, TEXTS), len(encoded(log))
    assert kept == len(second) + (nth - 1) * CHUNK == before - CHUNK  # lost: the chunk that was not committed
    np.testing.assert_array_equal(cached(log, folder).encode_passages(TEXTS), true_vectors(TEXTS))
    assert encoded(log)[before:] == TEXTS[(nth - 1) * CHUNK : 800]
    assert assert_whole(folder, TEXTS) == len(TEXTS)


def test_a_timed_search_encodes_questions_that_the_cache_has(tmp_path):
    log = tmp_path / "log"
    encoder = CachedEncoder(Fake(log), tmp_path)
    first = encoder.encode_queries(TEXTS[:2])
    with computing_anyway():
        assert (encoder.encode_queries(TEXTS[:2]) == first).all()
    assert (encoder.encode_queries(TEXTS[:2]) == first).all() and len(encoded(log)) == 4
