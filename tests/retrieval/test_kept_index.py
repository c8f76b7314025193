"""An index by name and place: of one corpus only, whole or in parts, from Python, a system string and the shell."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import berdslib as bd
from berdslib.cli import main
from berdslib.data.corpus import write_corpus
from berdslib.data.records import Passage, Question
from berdslib.data.web import OwnCorpora
from berdslib.errors import InputError
from berdslib.retrieval import index as indexing
from berdslib.retrieval.dense import Dense
from berdslib.retrieval.index import NumpyIndex, build_kept, kept, make_index
from berdslib.retrieval.retrievers import RETRIEVERS, make_retriever
from berdslib.retrieval.systems import parse_system

SAMPLE = bd.load("sample", split="dev")
PASSAGES = [Passage(f"d{i}", f"text {i} of {i % 13} and {i % 7}") for i in range(600)]
ASKED = [Question("a", "text 5 of 5"), Question("b", "text 99")]
ABOUT = {"encoder": "e", "corpus": "c", "passages": 3000}


class Letters:
    """A text's vector is of the hash of each of its words; says how many texts it was given."""

    id = "letters"

    def __init__(self):
        self.texts = 0

    def __call__(self, texts):
        self.texts += len(texts)
        hashes = [[hashlib.sha256(word.encode()).digest() for word in text.split()] for text in texts]
        vectors = [np.mean([np.frombuffer(one, np.int8) for one in of_text], axis=0) for of_text in hashes]
        return np.stack(vectors).astype(np.float32)

    encode_queries = encode_passages = __call__


@pytest.fixture(autouse=True)
def own_names(monkeypatch, user_cache):
    monkeypatch.setattr(RETRIEVERS, "_things", dict(RETRIEVERS._things))


def random_vectors(n=3000, dim=16, seed=0):
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


@pytest.mark.parametrize("kind", ["flat", "ivf", "ivf-pq", "hnsw"])
def test_parts_find_what_one_index_finds(tmp_path, kind):
    vectors, queries = random_vectors(), random_vectors(20, seed=1)
    one = kept(f"{kind}:{tmp_path / 'one'}", ABOUT, lambda: vectors)
    name = f"{kind}:{tmp_path / 'parts'}"
    build_kept(name, ABOUT, vectors, (3, 3))
    with pytest.raises(InputError, match=r"1, 2.*--part 1/3") as error:
        kept(name, ABOUT, lambda: vectors)
    assert error.value.path == tmp_path / "parts"
    for i in (1, 2):
        build_kept(name, ABOUT, vectors, (i, 3))
    (tmp_path / "parts" / "1-of-3" / "mark").touch()
    build_kept(name, ABOUT, vectors, (1, 3))  # is there, and not made again
    assert (tmp_path / "parts" / "1-of-3" / "mark").exists()
    many = kept(name, ABOUT, lambda: pytest.fail("is there"))
    assert len(many) == len(one) == 3000
    for (rows, scores), (want, best) in zip(many.search(queries, 10), one.search(queries, 10), strict=True):
        if kind != "hnsw":  # whose graphs are others
            assert rows.tolist() == want.tolist()
            np.testing.assert_allclose(scores, best, atol=1e-5)
        assert len(set(rows.tolist()) & set(want.tolist())) >= 8


@pytest.mark.parametrize("how", ["numpy", "flat", "ivf", "milvus"])
def test_a_retriever_builds_its_index_once_and_refuses_another_corpus_or_encoder(tmp_path, how, monkeypatch):
    if how == "milvus":
        pytest.importorskip("milvus_lite")
    monkeypatch.setattr(indexing, "_EFFORT", 600)
    name, encoder = f"{how}:{tmp_path / 'kept.db'}", Letters()
    want = Dense(PASSAGES, Letters()).search(ASKED, 8)
    for _ in range(2):
        run = Dense(PASSAGES, encoder, index=name).search(ASKED, 8)
        assert run["docno"].tolist() == want["docno"].tolist()
        np.testing.assert_allclose(run["score"], want["score"], rtol=1e-5)
    assert encoder.texts == 600 + 4
    on_disk = write_corpus(PASSAGES, tmp_path / "corpus")  # the same passages
    assert Dense(on_disk, encoder, index=name).search(ASKED, 8).equals(run)
    assert encoder.texts == 600 + 6
    if how == "milvus":  # has room for several
        return
    other = Letters()
    other.id = "others"
    for passages, one in ((PASSAGES[::-1], encoder), (PASSAGES, other)):
        with pytest.raises(InputError) as error:
            Dense(passages, one, index=name)
        assert error.value.path == tmp_path / "kept.db"
    with pytest.raises(InputError, match="hnsw") as error:
        kept(f"hnsw:{tmp_path / 'kept.db'}", {}, random_vectors)
    assert error.value.path == tmp_path / "kept.db"


@pytest.mark.parametrize("name", ["numpy", "faiss-hnsw"])
def test_an_index_that_a_retriever_filled_knows_its_corpus_when_it_is_opened(tmp_path, name):
    """The case of a review: over the same passages in another order, docnos were those of others."""
    index = make_index(name)
    Dense(PASSAGES, Letters(), index=index)
    index.save(tmp_path / "index")
    opened = type(index).open(tmp_path / "index")
    assert Dense(PASSAGES, Letters(), index=opened).search(ASKED, 3)["docno"].tolist()
    for passages in (PASSAGES[::-1], [*PASSAGES[:-1], Passage("d599", "another text")]):
        with pytest.raises(InputError) as error:
            Dense(passages, Letters(), index=opened)
        assert error.value.field == "index"


def test_milvus_is_filled_in_parts(tmp_path):
    pytest.importorskip("milvus_lite")
    vectors, queries = random_vectors(), random_vectors(5, seed=1)
    name = f"milvus:{tmp_path / 'v.db'}"
    for i in (2, 1, 2):
        build_kept(name, ABOUT, vectors, (i, 2))
    index = kept(name, ABOUT, lambda: pytest.fail("is there"))
    found = index.search(queries, 10)
    exact = NumpyIndex()
    exact.add(vectors)
    want = [r.tolist() for r, _ in exact.search(queries, 10)]
    assert [r.tolist() for r, _ in found] == want
    index._client.delete(index.collection, ids=list(range(0, 3000, 7)))  # as an interrupted call leaves it
    again = kept(name, ABOUT, lambda: vectors)
    assert [r.tolist() for r, _ in again.search(queries, 10)] == want


def test_a_system_string_and_a_function_of_the_users_name_an_index(tmp_path):
    bd.register("retriever", "mine", bd.dense(Letters(), id="letters-1"))
    plain = bd.search("mine", SAMPLE, k=5)
    run = bd.search(f"mine+index:hnsw:{tmp_path / 'i'}+mmr:1.0", SAMPLE, k=5)
    assert run[["qid", "docno"]].equals(plain[["qid", "docno"]])
    made = bd.dense(Letters(), id="letters-1", index=f"hnsw:{tmp_path / 'i'}")
    assert made(SAMPLE.passages).search(SAMPLE.questions, 5)[["qid", "docno"]].equals(plain[["qid", "docno"]])
    with pytest.raises(InputError, match=r"\[id\]"):
        bd.dense(Letters(), index=f"hnsw:{tmp_path / 'i'}")(SAMPLE.passages)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("bm25+index:hnsw:x", "index"),
        ("minilm+index:hsnw:x", "hsnw"),
        ("minilm+mmr:0.9+index:hnsw:x", "index"),
        ("minilm+index:hnsw:x+pap:1.0", "pap"),
    ],
)
def test_strings_that_mean_nothing(text, wrong):
    with pytest.raises(InputError) as caught:
        parse_system(text)
    assert wrong in caught.value.problem.removeprefix(repr(text))


def test_questions_with_their_own_corpora_share_none():
    own = OwnCorpora({"q": PASSAGES})
    with pytest.raises(InputError, match="cannot share an index"):
        make_retriever("minilm", own, index="hnsw:x")


@pytest.fixture
def held(tmp_path):
    """A file of Milvus that another process has open."""
    pytest.importorskip("milvus_lite")
    code = f"import milvus_lite; open_ = milvus_lite.MilvusLite({str(tmp_path / 'held.db')!r}); print(); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        yield tmp_path / "held.db"
        other.communicate(b"\n")


def test_a_file_of_milvus_that_another_process_has_open_is_said_so(held, capfd):
    with pytest.raises(InputError) as caught:
        bd.search(f"minilm+index:milvus:{held}", SAMPLE, k=5)
    assert caught.value.path == str(held) and "another process" in caught.value.problem
    assert "Traceback" not in capfd.readouterr().err


def test_milvus_makes_its_folder(tmp_path):
    pytest.importorskip("milvus_lite")
    found = bd.search(f"minilm+index:milvus:{tmp_path / 'new' / 'folder' / 'm.db'}", SAMPLE, k=5)
    plain = bd.search("minilm", SAMPLE, k=5)
    assert found[["qid", "docno"]].equals(plain[["qid", "docno"]])


@pytest.mark.parametrize("place", ["m.txt", "a file/m.db", "file.db"])
def test_what_milvus_cannot_keep_vectors_in_is_named(tmp_path, place):
    pytest.importorskip("milvus_lite")
    for name in ("a file", "file.db"):
        (tmp_path / name).write_text("no vectors")
    with pytest.raises(InputError) as caught:
        bd.search(f"minilm+index:milvus:{tmp_path / place}", SAMPLE, k=5)
    assert caught.value.path == str(tmp_path / place)


def shell(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def test_the_shell_encodes_and_indexes_in_parts_and_searches(tmp_path, monkeypatch):
    bd.register("retriever", "mine", bd.dense(Letters(), id="letters-1"))
    corpus, vectors, index = tmp_path / "corpus", tmp_path / "vectors", f"flat:{tmp_path / 'index'}"
    write_corpus(SAMPLE.passages, corpus)
    for i in (2, 1):
        said = shell("data", "encode", corpus, "-m", "mine", "--vectors", vectors, "--part", f"{i}/2", "--json")
        assert json.loads(said.stdout) == {"vectors": str(vectors), "passages": len(SAMPLE.passages), "part": [i, 2]}
    for i in (1, 2):
        shell("data", "index", corpus, index, "-m", "mine", "--vectors", vectors, "--part", f"{i}/2")
    runs = []
    for more in ([], ["--index", index]):
        shell("retrieve", "-q", "sample", "-c", corpus, "-r", "mine", "-k", 5, "-o", tmp_path / "run", *more)
        runs.append([line.split()[:3] for line in (tmp_path / "run").read_text().splitlines()])
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data", "encode", "sample", "--part", "0/2"], "'0/2'"),
        (["data", "encode", "sample", "--workers", "2", "--scheduler", "tcp://x:1"], "not both"),
        (["data", "index", "sample", "hnsw"], "'hnsw'"),
        (["retrieve", "-q", "sample", "-r", "bm25", "--index", "hnsw:x", "-o", "x"], "[index]: "),
    ],
)
def test_what_the_shell_refuses(arguments, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in (1, 2) and words in result.output
