"""Lucene through Pyserini: on a stand-in with its interface; on the real one where that extra is installed."""

import json
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from berdslib.data.records import Passage, Question
from berdslib.errors import MissingDataError
from berdslib.retrieval.bm25 import BM25
from berdslib.retrieval.retrievers import Lucene, make_retriever
from berdslib.retrieval.systems import Part, System, parse_system

PASSAGES = [Passage("a", "zoos are cruel"), Passage("b", "zoos save rare animals"), Passage("c", "tea is good")]
QUESTIONS = [Question("q1", "cruel zoos"), Question("q2", " "), Question("q3", "rare animals")]


@pytest.fixture
def stand_in(monkeypatch):
    """A module that answers as Pyserini does, by our own BM25, and remembers what it was told."""

    class LuceneSearcher:
        told = None

        def __init__(self, folder):
            self.folder = folder

        @classmethod
        def from_prebuilt_index(cls, name):
            return None if name == "unheard-of" else cls(name)

        def set_bm25(self, k1, b):
            LuceneSearcher.told = (self.folder, k1, b)

        def batch_search(self, queries, qids, k, threads):
            run = BM25(PASSAGES).search([Question(i, t) for i, t in zip(qids, queries, strict=True)], k)
            hits = {qid: [] for qid in qids}
            for row in run.itertuples():
                hits[row.qid].append(SimpleNamespace(docid=row.docno, score=row.score))
            return hits

    modules = {name: ModuleType(name) for name in ("pyserini", "pyserini.search", "pyserini.search.lucene")}
    modules["pyserini.search.lucene"].LuceneSearcher = LuceneSearcher
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return LuceneSearcher


def test_hits_become_a_run_and_a_blank_question_finds_nothing(stand_in):
    run = make_retriever("pyserini:wikipedia-dpr-100w", PASSAGES, k1=1.2, b=0.75).search(QUESTIONS, 2)
    assert stand_in.told == ("wikipedia-dpr-100w", 1.2, 0.75)
    expected = BM25(PASSAGES).search(QUESTIONS, 2)
    assert run[["qid", "docno", "rank"]].values.tolist() == expected[["qid", "docno", "rank"]].values.tolist()
    assert make_retriever("pyserini:x", PASSAGES).name == "pyserini:x"


def test_an_unknown_index_is_an_error(stand_in):
    with pytest.raises(MissingDataError, match="unheard-of"):
        Lucene("unheard-of")


def test_without_pyserini_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyserini.search.lucene", None)
    with pytest.raises(MissingDataError, match=r"berdslib\[pyserini\]"):
        Lucene("somewhere")
    assert parse_system("pyserini:anything") == System("pyserini:anything")
    assert parse_system("pyserini:a+b/index+mmr:0.9") == System("pyserini:a+b/index", (Part("mmr", "0.9"),))


@pytest.mark.slow
def test_on_an_index_that_lucene_built(tmp_path):
    pytest.importorskip("pyserini", reason="the extra berdslib[pyserini] is not installed")
    rows = [json.dumps({"id": p.docno, "contents": p.full_text}) for p in PASSAGES]
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "all.jsonl").write_text("\n".join(rows), encoding="utf-8")
    build = ["-m", "pyserini.index.lucene", "--collection", "JsonCollection", "--generator"]
    build += ["DefaultLuceneDocumentGenerator", "--input", str(tmp_path / "texts"), "--index", str(tmp_path / "index")]
    subprocess.run([sys.executable, *build, "--threads", "1"], check=True, capture_output=True, timeout=300)
    run = Lucene(str(tmp_path / "index")).search(QUESTIONS, 1)
    assert run[["qid", "docno"]].values.tolist() == [["q1", "a"], ["q3", "b"]]
