"""Corpora from the shell: `berds data stats -c`, `export -c` and `web`, against local servers."""

import json
from functools import partial

import pytest
from nasty_server import SENTENCE, SMALL, FakeSerper, NastyServer, html, running
from shell import berds, tried

from berdslib.data import web
from berdslib.data.corpus import Corpus
from berdslib.data.datasets import load_passages, load_questions
from berdslib.data.formats import read_passages, write_passages
from berdslib.data.records import Passage
from berdslib.data.trec import read_trec_run
from berdslib.data.webpage import page_text
from berdslib.retrieval.retrievers import make_retriever

KEY = "k3y-of-a-test"


def said(*arguments):
    """What a command that must fail says, on one line."""
    result = tried(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture
def documents(tmp_path):
    """Two documents of 150 and 40 words, and the first again with one word in another place and in capitals."""
    words = [f"word{i}" for i in range(190)]
    path = tmp_path / "documents.jsonl"
    first, second = " ".join(words[:150]), " ".join(words[150:])
    write_passages(path, [Passage("a", first, "A"), Passage("b", second), Passage("c", f"{first.upper()} end", "A")])
    return path


def rows(*arguments):
    return json.loads(berds("data", "stats", "-c", ",".join(map(str, arguments)), "--json").stdout)


def test_table_2_by_hand(documents):
    whole, cut = rows(documents, f"{documents}:words")
    assert (whole["passages"], whole["documents"], whole["documents_by"]) == (3, 3, "passage")
    assert cut["documents_by"] == "docno"
    assert whole["mean_words"] == pytest.approx((150 + 40 + 151) / 3)
    assert (cut["passages"], cut["documents"]) == (5, 3)
    assert cut["mean_words"] == pytest.approx((100 + 50 + 40 + 100 + 51) / 5)
    shown = berds("data", "stats", "-c", "sample").stdout
    assert shown.split()[:5] == ["corpus", "passages", "documents", "mean_words", "documents_by"]
    assert str(len(load_passages("sample"))) in shown


def test_what_was_written_is_what_is_counted_and_searched(documents, tmp_path):
    folder = tmp_path / "corpus"
    done = json.loads(berds("data", "export", folder, "-c", documents, "--cut", "words", "--json").stdout)
    assert (done["passages"], done["output"]) == (5, str(folder))
    assert done["bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert [p.docno for p in Corpus(folder)] == ["a-0", "a-1", "b-0", "c-0", "c-1"]
    assert rows(folder)[0] == {**rows(f"{documents}:words")[0], "corpus": str(folder)}
    again = tmp_path / "again"
    berds("data", "export", again, "-c", folder)  # from one on disk
    assert list(Corpus(again)) == list(Corpus(folder))
    assert rows(again)[0]["documents"] == 3  # that it was cut is still known
    questions, found = tmp_path / "q.jsonl", tmp_path / "run.trec"
    questions.write_text('{"_id": "1", "text": "word160"}\n')
    result = tried("retrieve", "-q", questions, "-c", folder, "-o", found)
    assert result.exit_code == 0, result.output
    assert found.read_text().split()[2] == "b-0"


@pytest.fixture
def servers(monkeypatch):
    """Web pages, and a search engine that finds them; both the command's own but for their addresses."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "*")
    monkeypatch.setenv("SERPER_API_KEY", KEY)
    with running(NastyServer()) as pages, running(FakeSerper()) as serper:
        limits = SMALL._replace(allow={pages.address})
        local = partial(web.Web, service=serper.url, limits=limits)
        monkeypatch.setattr(web, "Web", local)
        yield pages, serper


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text('{"_id": "q1", "text": "Who pays?"}\n{"_id": "q2", "text": "Who decides?"}\n')
    return path


@pytest.mark.slow
def test_corpora_from_the_web_say_what_failed_and_the_same_command_again_asks_nobody(servers, questions, tmp_path):
    pages, serper = servers
    pages.pages["long"] = ({}, html(SENTENCE * 10))
    serper.links = [pages.url(p) for p in ("long", "not-found", "robots-disallowed")]
    command, folder = ("data", "web", "-q", questions, "--top", "3", "-o"), tmp_path / "a"
    *_, first, last = berds(*command, folder).stderr.strip().splitlines()  # a slow machine shows a bar before
    assert first.startswith("4 of 6 pages gave no text: 2 ") and "2 robots (robots.txt does not allow it)" in first
    assert last == f"4 passages for 2 of 2 questions → {folder}"
    words = len(page_text(html(SENTENCE * 10).encode(), "text/html").text.split())
    assert [len(p.text.split()) for p in read_passages(folder / "q1.jsonl")] == [100, words - 100]
    assert rows(folder)[0] | {"corpora": 2, "passages": 2, "documents": 1} == rows(folder)[0]
    asked = (len(pages.seen), len(serper.seen))
    berds(*command, tmp_path / "b")
    for name in ("q1.jsonl", "pages.csv"):
        assert (folder / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert (len(pages.seen), len(serper.seen)) == asked
    pages.pages["not-found"] = ({}, html(SENTENCE))
    again = json.loads(berds(*command, tmp_path / "d", "--limit", "1", "--retry-failed", "--json").stdout)
    assert (again["questions"], again["outcomes"]) == (1, {"ok": 2, "robots": 1})


def test_each_question_is_searched_in_the_web_corpus_of_its_own(tmp_path):
    questions, passages = load_questions("sample", "dev")[:2], load_passages("sample")
    pages = dict(zip((q.qid for q in questions), (passages[:40], []), strict=True))
    for qid, found in pages.items():
        write_passages(tmp_path / "web" / web.corpus_name(qid), found)
    (tmp_path / "web" / "pages.csv").write_text("qid\n")
    (tmp_path / "web" / "corpora.json").write_text(json.dumps({qid: web.corpus_name(qid) for qid in pages}))
    out = tmp_path / "run.trec"
    command = ("-q", "sample", "--split", "dev", "-c", tmp_path / "web", "-r", "bm25")
    done = json.loads(berds("retrieve", *command, "--limit", "2", "-k", "5", "-o", out, "--json").stdout)
    assert (done["questions"], done["answered"], done["corpus_size"]) == (2, 1, 40)
    alone = make_retriever("bm25", passages[:40]).search(questions[:1], 5)
    assert read_trec_run(out)[["qid", "docno"]].values.tolist() == alone[["qid", "docno"]].values.tolist()
    scored = berds("experiment", *command, "--limit", "2", "-j", "overlap", "--json")
    assert {row["n"] for row in json.loads(scored.stdout)} == {2}
    asked_more = tried("retrieve", *command, "--limit", "3", "-o", out)
    assert asked_more.exit_code == 1 and "has no corpus of its own" in asked_more.stderr
