"""The corpus on disk: what is written is read back, nothing half-written opens, and real layouts are read."""

import gzip
import os
import pickle
import shutil

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from layouts import jsonl

from berdslib.data import corpus as corpus_module
from berdslib.data.corpus import Corpus, make_corpus, open_corpus, write_corpus
from berdslib.data.datasets import describe_corpus, write_source
from berdslib.data.passages import cut_documents
from berdslib.data.records import Passage
from berdslib.errors import InputError

FEW = [Passage("b", "Tea is good.", "Tea"), Passage("a", "Coffee is better."), Passage("ü/1", "", "Only a title")]
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
lists = st.lists(
    st.builds(Passage, text, text, text, st.just({})), min_size=1, max_size=20, unique_by=lambda p: p.docno
)


@pytest.fixture
def few(tmp_path):
    return write_corpus(FEW, tmp_path / "few")


@pytest.fixture
def small_batches(monkeypatch):
    """Few rows in a batch, so that a small corpus has many."""
    monkeypatch.setattr(corpus_module, "_ROWS", 3)


def numbered(n):
    return [Passage(f"d{i}", f"text {i}", f"title {i}") for i in range(n)]


# ---------------------------------------------------------------- reading what was written


@settings(max_examples=50)
@example([Passage('"quoted"\t', 'line\nbreak \r\n "x" \\', ""), Passage("", "", ""), Passage("🫖", "𝒯ea \0", "日本")])
@given(lists)
def test_every_passage_comes_back_as_it_was(tmp_path_factory, passages):
    path = tmp_path_factory.mktemp("corpus") / "c"
    write_corpus(iter(passages), path)
    corpus = Corpus(path)
    assert list(corpus) == passages
    assert [corpus[i] for i in range(len(corpus))] == passages
    assert dict(corpus.by_docno) == {p.docno: p for p in passages}
    assert list(corpus.docnos()) == [p.docno for p in passages]


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("n", [1, 3, 4, 7])
def test_all_ways_of_reading_agree_across_batches(tmp_path, n):
    passages = numbered(n)
    corpus = write_corpus(passages, tmp_path / "c")
    assert pa.ipc.open_file(str(tmp_path / "c" / "passages.arrow")).num_record_batches == -(-n // 3)
    assert list(corpus) == passages == corpus[:]
    assert [corpus[i] for i in range(-n, n)] == passages * 2
    assert corpus[1:-1] == passages[1:-1]
    assert corpus[::-2] == passages[::-2]
    assert [corpus.position(p.docno) for p in passages] == list(range(n))
    assert [corpus.by_docno[p.docno] for p in passages] == passages
    assert passages[-1] in corpus and passages[-1]._replace(text="other") not in corpus
    for absent in ("c", "", None):
        assert absent not in corpus.by_docno
    for outside in (n, -n - 1):
        with pytest.raises(IndexError):
            corpus[outside]


def test_another_process_gets_it_by_its_path(few):
    assert len(pickle.dumps(few)) < 500
    assert list(pickle.loads(pickle.dumps(few))) == FEW  # noqa: S301  our own


def test_two_names_with_one_hash_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "_hash", lambda docno: np.uint64(len(docno)))
    passages = numbered(25)
    corpus = write_corpus(passages, tmp_path / "c")
    assert [corpus.position(p.docno) for p in passages] == list(range(25))
    assert corpus.position("d99") is None
    with pytest.raises(InputError, match=r"'d7' .*7 and 25"):
        write_corpus([*passages, passages[7]], tmp_path / "twice")


def test_documents_are_counted_by_what_is_known_of_the_cut(tmp_path, monkeypatch):
    named = [Passage(f"MED-{i}", "one two") for i in range(10, 15)]  # as in NFCorpus: not pieces of one document
    known = write_corpus(cut_documents(named, 1), tmp_path / "cut", "words")
    assert (known.cut, len(known), documents_of(known)) == ("words", 10, 5)
    unknown = write_corpus(named, tmp_path / "whole")
    assert (unknown.cut, documents_of(unknown)) == ("none", 5)
    with pytest.raises(InputError, match="'word'"):
        write_corpus(named, tmp_path / "x", "word")


def documents_of(corpus):
    return describe_corpus(str(corpus.path))["documents"]


# ---------------------------------------------------------------- writing


def everything_in(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_a_corpus_is_three_files_and_nothing_else_stays(few, tmp_path):
    files = ["few", "few/hashes.npy", "few/passages.arrow", "few/positions.npy"]
    assert everything_in(tmp_path) == files
    assert list(write_corpus(FEW[:1], few.path)) == FEW[:1]  # replaced
    assert list(few) == FEW, "what was open stays readable"
    assert everything_in(tmp_path) == files


@pytest.mark.parametrize(("passages", "named"), [([], "no passages"), ([*FEW, FEW[0]], "'b'")])
def test_what_cannot_be_written_leaves_what_was_there(few, tmp_path, passages, named):
    for path in (few.path, tmp_path / "new"):
        with pytest.raises(InputError, match=named):
            write_corpus(passages, path)
    assert list(Corpus(few.path)) == FEW
    assert len(everything_in(tmp_path)) == 4


# ---------------------------------------------------------------- what does not open


@pytest.mark.parametrize("name", ["passages.arrow", "hashes.npy", "positions.npy"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_a_file_that_cannot_be_opened_is_named(few, name, damage):
    file = few.path / name
    content = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes(content[: len(content) // 2 if damage == "cut" else 0])
    with pytest.raises(InputError) as error:
        Corpus(few.path)
    assert error.value.path == file


@pytest.mark.parametrize("name", ["hashes.npy", "positions.npy"])
def test_a_file_of_a_larger_corpus_is_named(few, tmp_path, name):
    larger = write_corpus([*FEW, Passage("d", "x")], tmp_path / "larger")
    shutil.copy(larger.path / name, few.path)
    with pytest.raises(InputError) as error:
        Corpus(few.path)
    assert error.value.path == few.path / name


def test_what_a_killed_writer_left_in_the_cache_goes_with_the_next(tmp_path, user_cache):
    path = put(tmp_path / "a.jsonl", jsonl({"_id": "a", "text": "one"}))
    corpus = open_corpus(path).path
    left = corpus.with_name(f".{corpus.name}.{'0123456789abcdef' * 2}")
    other = corpus.with_name(f".{corpus.name}.backup")
    for folder in (left, other):
        folder.mkdir()
    shutil.rmtree(corpus)
    assert list(open_corpus(path)) == [Passage("a", "one")]
    assert not left.exists() and other.exists()


def test_a_corpus_is_written_while_another_whose_name_begins_alike_is(tmp_path):
    def slow():
        yield FEW[0]
        write_corpus(FEW, tmp_path / "wiki")  # meanwhile
        yield from FEW[1:]

    write_corpus(slow(), tmp_path / "wiki.v2")
    assert list(Corpus(tmp_path / "wiki.v2")) == list(Corpus(tmp_path / "wiki")) == FEW


# ---------------------------------------------------------------- from files, once


def put(path, content):
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_a_file_is_converted_once_and_again_after_a_change(tmp_path, user_cache, monkeypatch):
    path = put(tmp_path / "articles.jsonl", jsonl({"_id": "a", "text": "one two three"}))
    written = []
    write = corpus_module.write_corpus
    monkeypatch.setattr(corpus_module, "write_corpus", lambda *a: written.append(a[1]) or write(*a))

    def docnos(**options):
        return list(open_corpus(path, **options).docnos())

    assert docnos() == docnos() == ["a"]
    assert len(written) == 1
    assert docnos(cut="words") == docnos(cut="words") == ["a-0"]
    assert len(written) == 2
    put(path, jsonl({"_id": "b", "text": "one two three"}))
    os.utime(path, ns=(1, 1))
    assert docnos() == ["b"]
    assert len(written) == len(set(written)) == 3
    folders = [p for p in (user_cache / "corpora").iterdir() if p.is_dir()]
    assert len(folders) == 3
    assert all(p.name.startswith("articles-") for p in folders)


def test_cut_and_duplicates(tmp_path, user_cache):
    words = [f"w{i}" for i in range(40)]
    rows = [
        {"_id": "a", "title": "A", "text": f"{' '.join(words)} and more."},
        {"_id": "b", "text": f"{' '.join(words).upper()} other."},
    ]
    path = put(tmp_path / "a.jsonl", jsonl(*rows))

    def kept(**options):
        written = make_corpus(path, tmp_path / "c", cut="words", words=40, **options)
        assert written.passages == len(Corpus(tmp_path / "c"))
        return list(Corpus(tmp_path / "c").docnos()), written.repeats

    assert kept() == (["a-0", "a-1", "b-0", "b-1"], 0)
    assert Corpus(tmp_path / "c")[0] == Passage("a-0", " ".join(words), "A")
    assert kept(duplicates="exact") == (["a-0", "a-1", "b-1"], 1)


@pytest.mark.usefixtures("user_cache")
@pytest.mark.parametrize(
    ("name", "content", "options", "line", "field"),
    [
        ("x.jsonl", '{"_id": "a", "text": "1"}\n\n{"_id": "a", "text": "3"}\n', {}, 3, "docno"),
        ("x.jsonl.gz", '{"_id": "a-1", "text": "1"}\n{"_id": "a-1", "text": "3"}\n', {"cut": "words"}, 2, "docno"),
        ("x.tsv", 'id\ttext\n1\t"two\nlines"\n2\tx\n1\ty\n', {}, 5, "docno"),
        ("x.jsonl", '{"_id": "a", "text": "1"}\n{"_id": "b"}\n', {}, 2, "text"),
        ("x.jsonl", "", {}, None, None),
        ("x.jsonl", '{"_id": "a", "text": " "}\n', {"cut": "words"}, None, None),
        ("none/x.jsonl", None, {}, None, None),
        ("x.txt", "hello", {}, 1, None),
        ("x.jsonl", '{"_id": "a", "text": "1"}\n', {"cut": "word"}, None, None),
        ("x.jsonl", '{"_id": "a", "text": "1"}\n', {"duplicates": "drop"}, None, None),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(tmp_path, name, content, options, line, field):
    path = tmp_path / name if content is None else put(tmp_path / name, content)
    calls = [lambda: make_corpus(path, tmp_path / "c", **options)]
    if options.keys() <= {"cut"}:
        calls.append(lambda: open_corpus(path, **options))
    for call in calls:
        with pytest.raises(InputError) as refused:
            call()
        assert (refused.value.line, refused.value.field) == (line, field)
    assert not (tmp_path / "c").exists()


def test_a_corpus_on_disk_is_cut_too(tmp_path, user_cache):
    folder = tmp_path / "whole"
    long = " ".join(["word"] * 150)
    whole = write_corpus([Passage("a", long, "A"), Passage("b", "four")], folder)
    assert open_corpus(folder).path == folder  # as it is: nothing is to be made
    cut = open_corpus(folder, cut="words")
    assert list(cut) == list(cut_documents(whole))
    assert (cut.cut, len(cut)) == ("words", 3)
    assert open_corpus(folder, cut="words").path == cut.path
    make_corpus(cut.path, tmp_path / "again", duplicates="exact")
    assert Corpus(tmp_path / "again").cut == "words"
    write_corpus([Passage("c", "five")], folder)  # another in its place
    assert list(open_corpus(folder, cut="words")) == [Passage("c-0", "five")]


def test_what_was_cut_is_not_cut_again(tmp_path, user_cache):
    """Its documents could not be told from its first pieces, and 3 would count as 6."""
    path = put(tmp_path / "a.jsonl", jsonl({"_id": "a", "text": "one two three"}, {"_id": "b", "text": "four"}))
    written = write_source(str(path), tmp_path / "cut", cut="words", words=2, limit=1)
    assert (written.passages, list(Corpus(tmp_path / "cut").docnos())) == (2, ["a-0", "a-1"])
    folder = tmp_path / "cut"
    for again in (lambda: open_corpus(folder, cut="words"), lambda: describe_corpus(f"{folder}:words")):
        with pytest.raises(InputError, match="words"):
            again()


def test_a_corpus_with_other_files_in_its_folder_is_not_replaced(few, tmp_path):
    (few.path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        write_corpus(FEW[:1], few.path)
    assert (few.path / "thesis.tex").read_text() == "years of work" and list(Corpus(few.path)) == FEW


def test_no_such_corpus_and_another_format(few, tmp_path, monkeypatch):
    with pytest.raises(InputError) as error:
        Corpus(tmp_path / "nowhere")
    assert error.value.path == tmp_path / "nowhere" / "passages.arrow"
    monkeypatch.setattr(corpus_module, "_FORMAT", "3")
    with pytest.raises(InputError) as error:
        Corpus(few.path)
    assert error.value.path == few.path / "passages.arrow"
