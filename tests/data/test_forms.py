"""A file is read by what it holds: every export of other libraries, under misleading names, and what is refused."""

import gzip
import json
import logging

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import berdslib as bd
from berdslib.data.formats import export_collection, read_berds, read_passages, read_questions
from berdslib.data.readers import read_labelled_pairs
from berdslib.data.records import Passage, Question, make_verdicts, verdicts_from_relevance
from berdslib.data.tables import Look, detect_layout, read_table
from berdslib.data.trec import read_verdicts
from berdslib.errors import InputError

pytestmark = pytest.mark.usefixtures("own_place")

# What tells one reader from another: commas, quotation marks of both kinds, line breaks, semicolons, other scripts.
LISTS = [["Yes, it's so.", 'No "way".'], ["They should.\nReally.", "No; never.", "ألف | 本"]]
QUESTIONS = pd.DataFrame(
    {
        "qid": ["q7", "q9"],
        "question": ["Should trams, buses be free?", 'May "parks" close; or not?'],
        "perspectives": LISTS,
    }
)
PASSAGES = pd.DataFrame({
    "docno": ["d1", "d2"], "title": ["A", "B; C"], "text": ["Free trams help, the poor.", 'They "cost"\nthe town.'],
})  # fmt: skip


def hugging_face(save):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    return lambda frame, name: save(datasets.Dataset.from_pandas(frame, preserve_index=False), name)


EXPORTS = {
    **{f"json {orient}": (lambda f, n, o=orient: f.to_json(n, orient=o))
       for orient in ("records", "index", "columns", "split", "table")},
    "json over lines": lambda f, n: f.to_json(n, orient="records", indent=1),
    "lines": lambda f, n: f.to_json(n, orient="records", lines=True),
    "below a key": lambda f, n: put(n, json.dumps({"version": 1, "data": f.to_dict("records")})),
    "columns of lists": lambda f, n: put(n, json.dumps(f.to_dict("list"))),
    **{f"csv {sep!r}": (lambda f, n, s=sep: f.to_csv(n, sep=s, index=s == ";")) for sep in ",;\t"},
    "csv crlf": lambda f, n: f.to_csv(n, index=False, lineterminator="\r\n"),
    "csv bom": lambda f, n: f.to_csv(n, index=False, encoding="utf-8-sig"),
    "csv of Excel": lambda f, n: put(n, "sep=;\n" + f.to_csv(sep=";", index=False)),
    "parquet": lambda f, n: f.to_parquet(n),
    "parquet with an index": lambda f, n: f.set_index(f.columns[1]).reset_index().to_parquet(n, index=True),
    "feather": lambda f, n: f.to_feather(n),
    "arrow stream": lambda f, n: stream(f, n),
    "datasets json": lambda f, n: hugging_face(lambda d, n: d.to_json(n))(f, n),
}  # fmt: skip


def put(name, content):
    with open(name, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return name


def stream(frame, name):
    table = pa.Table.from_pandas(frame)
    with pa.OSFile(str(name), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def endings(export):
    """Return names that a file of this form may have; the second misleads."""
    return ("x.parquet",) if export.endswith("parquet") or "parquet" in export else ("x.json", "x.csv")


@pytest.mark.parametrize("export", EXPORTS)
def test_any_export_of_questions_and_passages_is_read_back(export):
    for name in endings(export):
        EXPORTS[export](QUESTIONS, name)
        found = read_questions(name)
        assert [q.qid for q in found] == ["q7", "q9"]
        assert [q.text for q in found] == QUESTIONS["question"].tolist()
        assert [list(q.perspectives) for q in found] == LISTS
        EXPORTS[export](PASSAGES, name)
        assert read_passages(name) == [Passage(row.docno, row.text, row.title) for row in PASSAGES.itertuples()]
    with open(name, "rb") as file, gzip.open("x.gz", "wb") as zipped:
        zipped.write(file.read())
    if not set(export.split()) & {"parquet", "feather", "arrow"}:
        assert [p.docno for p in read_passages("x.gz")] == ["d1", "d2"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])).filter(str.strip), min_size=1, max_size=4))
def test_any_list_that_python_or_numpy_prints_is_read_back_or_refused(texts):
    for printed in (str(texts), str(tuple(texts)), str(np.array(texts, dtype=object))):
        [(_, row)] = read_table([{"texts": printed}])
        if "..." in printed and printed.startswith("[..."):
            continue
        assert list(row.texts("texts")) == texts


def test_numbers_and_nothing_in_printed_lists():
    frame = pd.DataFrame({"question": ["Q?"], "perspectives": [["a", "b"]], "stances": [["support", None]],
                          "weights": [np.array([0.5, 2.0])]})  # fmt: skip
    frame.to_csv("q.csv", index=False)
    [found] = read_questions("q.csv")
    assert (found.perspectives, found.stances, found.weights) == (("a", "b"), ("support", None), (0.5, 2.0))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "1\tShould trams be free?\n2\tMay parks close?\n",
            [("1", "Should trams be free?"), ("2", "May parks close?")],
        ),
        (
            '1,Should trams be free?\n2,"Trams, or buses?"\n',
            [("1", "Should trams be free?"), ("2", "Trams, or buses?")],
        ),
        (  # words that are names elsewhere, and quotation marks that nobody doubled
            '1\tWhat is the source of the question?\n2\t"No" is the title of the text?\n3\tSaid he "so\n',
            [
                ("1", "What is the source of the question?"),
                ("2", '"No" is the title of the text?'),
                ("3", 'Said he "so'),
            ],
        ),
    ],
)
def test_an_id_and_a_text_without_a_header_are_read_with_the_first_line(text, rows, caplog):
    name = put("topics.csv" if "," in text.split("\n")[0] else "topics.tsv", text)
    assert [(q.qid, q.text) for q in read_questions(name)] == rows
    assert [(p.docno, p.text) for p in read_passages(name)] == rows
    assert name in caplog.text  # it is said


def test_keys_of_an_object_are_ids():
    topics = {"101": {"title": "Free trams?"}, "102": {"title": "Closed parks?"}}  # as Pyserini's topics
    put("t.json", json.dumps(topics))
    assert [(q.qid, q.text) for q in read_questions("t.json")] == [("101", "Free trams?"), ("102", "Closed parks?")]
    put("t.json", json.dumps({"101": "Free trams?", "q2": "Closed parks?"}))  # as BEIR's loader has queries
    assert [(q.qid, q.text) for q in read_questions("t.json")] == [("101", "Free trams?"), ("q2", "Closed parks?")]
    put("c.json", json.dumps({"d1": {"title": "A", "text": "a"}, "d2": {"title": "", "text": "b"}}))
    assert read_passages("c.json") == [Passage("d1", "a", "A"), Passage("d2", "b", "")]
    put("q.json", '{\n"question": "A b?",\n"perspectives": ["a", "b"]\n}')  # one row over lines
    assert read_questions("q.json") == [Question("0", "A b?", ("a", "b"), (None, None))]
    put("c.json", json.dumps({"k": {"_id": "d1", "text": "a"}}))  # a row's own id goes before its key
    assert read_passages("c.json") == [Passage("d1", "a")]


def test_a_plain_text_is_a_question_a_line_and_no_corpus():
    put("q.txt", "# from a notebook\nShould trams, or buses, be free?\n\nDid it start in 1984?\n")
    assert [q.text for q in read_questions("q.txt")] == ["Should trams, or buses, be free?", "Did it start in 1984?"]
    with pytest.raises(InputError):
        read_passages("q.txt")


def test_a_beir_folder_as_hugging_face_has_it(tmp_path):
    for folder in ("corpus", "queries", "qrels"):
        (tmp_path / folder).mkdir()
    pd.DataFrame({"_id": ["d1"], "title": [""], "text": ["t"]}).to_parquet(
        tmp_path / "corpus" / "corpus-00000-of-00001.parquet"
    )
    pd.DataFrame({"_id": ["q1", "q2"], "text": ["Q?", "R?"]}).to_parquet(
        tmp_path / "queries" / "queries-00000-of-00001.parquet"
    )
    pd.DataFrame({"query-id": ["q1"], "corpus-id": ["d1"], "score": [2]}).to_parquet(
        tmp_path / "qrels" / "test-00000-of-00001.parquet"
    )
    found = bd.load(tmp_path)
    assert ([q.qid for q in found.questions], [p.docno for p in found.passages]) == (["q1"], ["d1"])
    expected = verdicts_from_relevance([("q1", 0, "d1", 2.0)])
    assert found.gold["grade"].tolist() == expected["grade"].tolist() == [2.0]


# ---------------------------------------------------------------- one look


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ('{"qid": "1", "x": 2}\n', Look("jsonl", "", ("qid", "x"), True)),
        ('{"x": 2}\n{"x": 3}\n', Look("jsonl", "", ("x",), False)),
        ('{"qid": {"0": "1"}}', Look("json")),
        ('{"q1": {"d1": 2}}', Look("json")),
        ("[\n{", Look("json")),
        ("7 0 d1 1\n8 0 d2 0\n", Look("blanks", "", ("7", "0", "d1", "1"))),
        ("# made by x\n7 Q0 d1 1 3.5 tag\n", Look("blanks", "", ("7", "Q0", "d1", "1", "3.5", "tag"))),
        ("7\tQ0\td1\t1\n", Look("table", "\t", ("7", "Q0", "d1", "1"))),
        ("qid;docno;relevance\nq;d;1,5\n", Look("table", ";", ("qid", "docno", "relevance"), True)),
        ("QID\tText\n1\ta\n", Look("table", "\t", ("QID", "Text"), True)),
        ("1\tthe qid of a docno\n", Look("table", "\t", ("1", "the qid of a docno"))),
        ('{"title": 1, "data": [{"qid": 1}]}', Look("json")),
        ("Should it?\nIt should.\n", Look("lines", "", ("Should it?",))),
        ("", Look("lines")),
    ],
)
def test_one_look_tells_the_form(text, seen):
    assert detect_layout(put("x", text), ("qid", "docno", "relevance")) == seen


def test_a_look_reads_the_beginning_alone():
    put("x.tsv", b"qid\ttext\n" + b"1\ta b\n" * 50_000 + b"\xff")
    assert detect_layout("x.tsv", ("qid",)).header
    put("x.jsonl", b'{"qid": 1, "text": "a"}\n' * 50_000 + b"\xff")
    assert detect_layout("x.jsonl", ("qid",)).form == "jsonl"


# ---------------------------------------------------------------- what is refused


def parquet(name, **columns):
    pq.write_table(pa.Table.from_arrays([*columns.values()], names=[*columns]), name)
    return name


def not_utf8():
    broken = pa.array([b"fine", b"caf\xe9"]).cast(pa.binary())
    return pa.Array.from_buffers(pa.string(), 2, broken.buffers())


def twice(name):
    ids = pa.array(["1", "2"])
    pq.write_table(pa.Table.from_arrays([ids, ids, ids], names=["qid", "question", "qid"]), name)
    return name


REFUSED = [
    (read_questions, lambda: put("q.tsv", "nummer\tfrage\n1\tSind Trams frei?\n"), 1, None),
    (read_questions, lambda: put("q.tsv", "1\ta b\tc d\n2\tc d\te f\n"), 1, None),
    (read_questions, lambda: put("q.txt", "7 0 d1 1\n7 0 d2 0\n"), 1, None),
    (read_questions, lambda: put("q.xml", "<top>\n<num> 1\n</top>\n"), 1, None),
    (read_questions, lambda: put("q.csv", "ID,Question\n1,Is it?\n"), 2, "question"),
    (read_questions, lambda: put("q.csv", 'question,perspectives\nQ?,"Yes.\nNo."\n'), 2, "perspectives"),
    (read_questions, lambda: put("q.csv", "question,perspectives\nQ?,\"['a', b']\"\n"), 2, "perspectives"),
    (read_questions, lambda: put("q.csv", "question,perspectives\nQ?,\"['a' 'b', 'c']\"\n"), 2, "perspectives"),
    (read_questions, lambda: put("q.csv", "question,perspective_1,perspective_2\nQ?,Yes.,No.\n"), 2, "perspective_2"),
    (read_questions, lambda: put("q.json", '[{"question": "Q?"},\n{"question": }]'), 2, None),
    (read_questions, lambda: put("q.json", '[["1", "Q?"]]'), 1, None),
    (read_questions, lambda: put("q.json", '{"question": ["Q?"], "qid": ["1", "2"]}'), None, None),
    (read_questions, lambda: put("q.json", '{\n"frage": "Is it?",\n"antwort": "It is so."}'), None, None),
    (read_questions, lambda: put("q.csv", "qid,question\n1,Is it?\n".encode("utf-16")), None, None),
    (read_questions, lambda: put("q.csv", b"PK\x03\x04rest"), None, None),
    (read_questions, lambda: put("q.csv", b"qid,question\r1,Is it?\r2,Is it so?\r"), 1, None),
    (read_questions, lambda: put("q.csv", ""), None, None),
    (read_passages, lambda: put("c.tsv", "nummer\ttext_x\n1\tSind Trams frei?\n"), 1, None),
    (read_passages, lambda: parquet("c.parquet", id=pa.array(["1", "2"]), text=not_utf8()), None, None),
    (read_passages, lambda: twice("c.parquet"), None, None),
    (read_labelled_pairs, lambda: put("p.tsv", "a\tb\tc\td\nQ?\tD.\tP.\t1\n"), 1, None),
]  # fmt: skip


@pytest.mark.parametrize(("read", "make", "line", "field"), REFUSED)
def test_what_is_no_table_is_refused_with_path_line_and_field(read, make, line, field):
    name = make()
    with pytest.raises(InputError) as refused:
        read(name)
    assert (str(refused.value.path), refused.value.line, refused.value.field) == (name, line, field)


def test_the_reader_of_another_layout_does_not_answer():
    for text in ('[{"question": "Q?", "qid": "1"}]', '{"data": [{"question": "Q?"}]}', '{"1": {"question": "Q?"}}'):
        assert [q.text for q in bd.load(put("questions.json", text)).questions] == ["Q?"]
    with pytest.raises(InputError) as refused:
        bd.load(put("questions.json", '[{"frage": "Q?"}]'))
    assert refused.value.field == "question"


# ---------------------------------------------------------------- what is said


def said(caplog, name):
    return [record.getMessage() for record in caplog.records if name in record.getMessage()]


def test_columns_that_are_not_read_are_said_once(caplog):
    frame = pd.DataFrame({"doc_id": ["d"], "heading": ["H"], "body": ["b"], "venue": ["v"], "url": ["u"]})
    frame.to_parquet("hers.parquet")
    for _ in range(2):
        assert read_passages("hers.parquet") == [Passage("d", "b", "H", {"venue": "v", "url": "u"})]
    [message] = said(caplog, "hers.parquet")
    for name in ("doc_id", "heading", "body", "venue", "url"):
        assert name in message
    [record] = [record for record in caplog.records if "hers.parquet" in record.getMessage()]
    assert record.levelno == logging.WARNING


@pytest.mark.parametrize("columns", [{"views": '["a"]'}, {"pro": "Yes.", "con": "No."}])
def test_columns_beside_questions_without_perspectives_are_said_also_with_gold(caplog, columns):
    pd.DataFrame({"qid": ["1"], "question": ["Q?"], **{name: [text] for name, text in columns.items()}}).to_csv(
        "views.csv", index=False
    )
    gold = pd.DataFrame({"qid": ["1"], "pid": [0], "docno": ["d"], "p_yes": [1.0]})
    bd.load("views.csv", passages=[Passage("d", "t")], gold=gold)
    [message] = said(caplog, "views.csv")
    assert all(name in message for name in (*columns, "perspectives"))


@pytest.mark.parametrize(
    "row",
    [{"_id": "d", "title": "", "text": "t", "metadata": {}}, {"docno": "d", "text": "t"}, {"id": "d", "text": "t"}],
)
def test_nothing_is_said_of_usual_columns(caplog, row):
    read_passages(put("c.jsonl", json.dumps(row)))
    assert not caplog.records


# ---------------------------------------------------------------- export, and labelled rows in other forms

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=8).filter(str.strip)


@st.composite
def any_question(draw):
    n = draw(st.integers(1, 3))
    perspectives = draw(st.lists(WORDS, min_size=n, max_size=n, unique=True))
    stances = draw(st.lists(st.sampled_from(["support", "oppose", None]), min_size=n, max_size=n))
    labels = draw(st.just([]) | st.lists(WORDS, min_size=n, max_size=n))
    weights = draw(st.just([]) | st.lists(st.floats(0.1, 9), min_size=n, max_size=n))
    return Question("q", draw(WORDS), tuple(perspectives), tuple(stances), draw(WORDS), draw(WORDS),
                    labels=tuple(labels), weights=tuple(weights))  # fmt: skip


@settings(max_examples=30)
@given(any_question(), st.booleans())
def test_a_berds_file_keeps_all_that_its_reader_takes(question, yes):
    gold = make_verdicts([("q", i, "d", float(yes), yes) for i in range(len(question.perspectives))], "gold-preds")
    export_collection("out.jsonl", [question], [Passage("d", "t", "T")], gold)
    questions, passages, _, verdicts = read_berds("out.jsonl", "gold-preds")
    assert (questions, passages) == ([question], [Passage("d", "t", "T")])
    pd.testing.assert_frame_equal(verdicts, gold)
    assert read_questions("out.jsonl") == [question]


def test_an_unread_answer_is_exported_as_a_no():
    gold = make_verdicts([("q", 0, "d", float("nan"), False), ("q", 1, "d", 1.0, True)], "j")
    export_collection("out.jsonl", [Question("q", "Q?", ("a", "b"))], [Passage("d", "t")], gold)
    assert read_berds("out.jsonl", "gold-preds")[3]["supports"].tolist() == [False, True]


def test_a_decimal_comma_is_read_where_it_is_no_thousand():
    [(_, row)] = read_table(put("r.csv", "qid;relevance;p_yes;n\nq;1,5;0,125;1,234\n"), ("qid", "relevance"))
    assert (row.number("relevance"), row.verdict("p_yes", row["p_yes"])) == (1.5, 0.125)
    with pytest.raises(InputError):
        row.number("n")
    assert read_verdicts(put("r.csv", "qid;docno;relevance\nq;d;1,5\n"))["grade"].tolist() == [1.5]
