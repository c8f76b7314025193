"""One bit of a kept file is flipped, as a failing disk does: what comes of it is right, made again or told."""

import logging
import random
import shutil
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from berdslib.data.corpus import Corpus, write_corpus
from berdslib.data.records import Passage, Question
from berdslib.errors import BerdsError, MissingDataError
from berdslib.judging.store import VerdictStore
from berdslib.llm.chat import Reply
from berdslib.llm.recorded import Recorded
from berdslib.models.vectors import CachedEncoder
from berdslib.retrieval.bm25 import BM25

TEXTS = [f"text number {i}" for i in range(300)]
PASSAGES = [Passage(f"d{i}", f"The text of passage {i} " * (i % 7), f"Title {i}") for i in range(300)]


class Encoder:
    """A text's vector is its last number; it counts what it is asked."""

    id = "encoder"

    def __init__(self):
        self.asked = 0

    def encode_passages(self, texts):
        self.asked += len(texts)
        return np.array([[float(text.split()[-1]) + j for j in range(16)] for text in texts], dtype=np.float32)

    encode_queries = encode_passages


def vectors(folder):
    """Whether any was made again; AssertionError where one is another."""
    encoder = Encoder()
    found = CachedEncoder(encoder, folder).encode_passages(TEXTS)
    assert (found == Encoder().encode_passages(TEXTS)).all()
    return encoder.asked > 0


def verdicts(folder):
    """As judging does it: what is not there is made and put."""
    store, truth = VerdictStore(folder / "v.sqlite"), {text.encode().ljust(32): i / 299 for i, text in enumerate(TEXTS)}
    found = store.get(list(truth))
    assert found.items() <= truth.items()
    missing = truth.keys() - found.keys()
    store.put({key: truth[key] for key in missing})
    assert store.get(list(truth)).items() <= truth.items()
    return bool(missing)


class Echo:
    """Answers with what it was asked."""

    id = "echo"

    def complete(self, messages):
        return Reply(messages[-1]["content"].upper(), (("Yes", -0.5),), "stop", 7, 5)


def asked(text):
    return [{"role": "user", "content": text}]


def recording(folder):
    """An answer that is missing is asked again."""
    if not any(folder.iterdir()):
        kept = Recorded(folder / "said.jsonl", Echo())
        return [kept.complete(asked(text)) for text in TEXTS] == []
    recorded = Recorded(folder / "said.jsonl", model_id="echo")
    again = False
    for text in TEXTS:
        try:
            assert recorded.complete(asked(text)) == Echo().complete(asked(text))
        except MissingDataError:
            again = True
    return again


def corpus(folder):
    """All ways of reading it."""
    if not (folder / "c").exists():
        write_corpus(PASSAGES, folder / "c")
    found = Corpus(folder / "c")
    for i in range(0, len(PASSAGES), 3):
        assert found[i] == PASSAGES[i]
        assert found.by_docno[PASSAGES[i].docno] == PASSAGES[i]
    assert list(found.docnos()) == [p.docno for p in PASSAGES]
    assert list(found) == PASSAGES and "nobody" not in found.by_docno
    return False


def bm25(folder):
    """All postings: each word of the corpus is asked for."""
    asked = [Question(str(i), p.full_text) for i, p in enumerate(PASSAGES[::10])]
    fresh = BM25(PASSAGES)
    if not (folder / "i").exists():
        fresh.save(folder / "i")
    assert BM25.load(folder / "i").search(asked, len(PASSAGES)).equals(fresh.search(asked, len(PASSAGES)))
    return False


# What to look at, which file is flipped, and where what must not be lost is.
STORES = {
    "vectors": (vectors, "*.sqlite"),
    "verdicts": (verdicts, "*.sqlite"),
    "recording": (recording, "*.jsonl"),
    "corpus": (corpus, "c/*.arrow"),
    "corpus, side files": (corpus, "c/*.npy"),
    "bm25": (bm25, "i/*"),
    "bm25, manifest": (bm25, "i/*.json"),
}


def flipped(name, flips):
    """What came of so many flips, and how often."""
    logging.disable(logging.WARNING)
    use, pattern = STORES[name]
    outcomes = Counter()
    with tempfile.TemporaryDirectory() as place:
        (whole := Path(place) / "whole").mkdir()
        use(whole)
        for seed in range(flips):
            rng, damaged = random.Random(seed), Path(place) / f"{seed}"
            shutil.copytree(whole, damaged)
            files = sorted(damaged.glob(pattern))
            file = rng.choices(files, [path.stat().st_size for path in files])[0]
            content = bytearray(file.read_bytes())
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            file.write_bytes(content)
            try:
                outcomes["made again" if use(damaged) else "same"] += 1
            except BerdsError:
                outcomes["told"] += 1
            except AssertionError:
                outcomes[f"silently other, seed {seed}"] += 1
            shutil.rmtree(damaged)
    return outcomes


@pytest.mark.parametrize("name", STORES)
def test_a_flipped_bit_is_right_made_again_or_told(name):
    """In a process of its own, as damage may end it; that, or any other error, fails the test."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert {*pool.submit(flipped, name, 50).result()} <= {"same", "made again", "told"}
