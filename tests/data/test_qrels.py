"""Relevance as other people's files hold it: subtopics, grades and every form, against trec_eval and ndeval."""

import gzip
import json

import numpy as np
import pandas as pd
import pyndeval
import pytest
import pytrec_eval
from hypothesis import example, given, settings
from hypothesis import strategies as st
from layouts import jsonl
from pandas.testing import assert_frame_equal

import berdslib as bd
from berdslib.data.records import (
    GRADE,
    Passage,
    Qrels,
    Question,
    make_run,
    make_verdicts,
    verdicts_from_qrels,
)
from berdslib.data.records import verdicts_from_relevance as from_relevance
from berdslib.data.trec import read_run, read_verdicts, write_trec_qrels, write_verdicts
from berdslib.errors import InputError

pytestmark = pytest.mark.usefixtures("own_place")  # the folder that one stands in is empty


def put(name, content):
    """Write a file, compressed if its name says so, and return its name."""
    with (gzip.open if name.endswith(".gz") else open)(name, "wt") as file:
        file.write(content)
    return name


def cells(rows, apart, *header):
    lines = [header, *rows] if header else rows
    return "".join(apart.join(map(str, row)) + "\n" for row in lines)


def asked(*sizes):
    """Questions q0, q1, … that list so many perspectives each."""
    return [Question(f"q{i}", f"Text {i}?", tuple(f"p{i}.{pid}" for pid in range(m))) for i, m in enumerate(sizes)]


def table(*questions):
    return [{"qid": q.qid, "question": q.text, "perspectives": list(q.perspectives)} for q in questions]


def judged(verdicts):
    return verdicts[["qid", "pid", "docno", "supports"]].values.tolist()


# ---------------------------------------------------------------- subtopics

WEB = "901 1 a 1\n901 1 x 0\n901 2 b 2\n901 3 c 1\n902 0 d 1\n902 0 e 0\n903 1 f 1\n903 2 g 1\n903 4 h 1\n"
PERFECT = {"901": "abc", "902": "d", "903": "fgh"}


@pytest.mark.parametrize("sizes", [(0, 0, 0), (3, 1, 4)])
@pytest.mark.parametrize("first_subtopic", [None, 1])
def test_subtopics_of_trec_web_topic_by_topic(sizes, first_subtopic):
    topics = table(*(q._replace(qid=qid) for q, qid in zip(asked(*sizes), PERFECT, strict=True)))
    found = bd.load(topics, gold=put("web.txt", WEB), first_subtopic=first_subtopic)
    assert [len(q.perspectives) for q in found.questions] == [3, 1, 3]
    if not sizes[0]:
        assert found.questions[1].perspectives == ("Text 1?",)
        assert found.questions[2].perspectives == ("subtopic 1", "subtopic 2", "subtopic 4")
    else:
        assert found.questions[2].perspectives == ("p2.0", "p2.1", "p2.3")
    run = make_run(*zip(*((qid, d, -i) for qid, docnos in PERFECT.items() for i, d in enumerate(docnos)), strict=True))
    scores = bd.evaluate(run, found.gold, found, ["MRecall@5", "StRecall@5", "Coverage@5", "alpha_nDCG@5"])
    assert (scores == 1).all(axis=None)


NUMBERED = [  # listed perspectives, (topic, subtopic) of each row → pid of each row
    ((3, 3), [(0, 0), (0, 2), (1, 1), (1, 3)], [0, 2, 0, 1]),  # one from 0, the other from 1, where 2 is none
    ((3, 3), [(0, 1), (0, 2), (1, 3)], [0, 1, 0]),  # what could be either is as the topic that is certain
    ((3, 3), [(0, 1), (0, 2), (1, 0), (1, 1)], [1, 2, 0, 1]),
    ((2, 2), [(0, 0), (1, 1)], [0, 1]),  # ours, sparse
    ((2, 1), [(0, 1), (0, 2), (1, 0)], [0, 1, 0]),  # 0 alone has no subtopics
    ((1, 1), [(0, 5), (1, 5)], [0, 0]),  # one number everywhere is an iteration
    ((2, 2), [(0, 1), (1, 1)], [0, 0]),  # nothing says 0: TREC Web
]


@pytest.mark.parametrize(("sizes", "rows", "pids"), NUMBERED)
def test_subtopics_are_numbered_by_what_a_topic_holds_and_lists(sizes, rows, pids):
    lines = [(f"q{topic}", subtopic, f"d{i}", 1) for i, (topic, subtopic) in enumerate(rows)]
    found = bd.load(table(*asked(*sizes)), gold=put("q.txt", cells(lines, " "))).gold
    assert found.set_index("docno")["pid"].to_dict() == {f"d{i}": pid for i, pid in enumerate(pids)}
    frame = pd.DataFrame(lines, columns=["query_id", "subtopic_id", "doc_id", "relevance"])
    before = frame.copy()
    for gold in (frame, frame.rename(columns={"subtopic_id": "iteration"}).to_dict("records")):
        assert_frame_equal(bd.load(table(*asked(*sizes)), gold=gold).gold, found)
    assert_frame_equal(frame, before)


@pytest.mark.parametrize("sizes", [(2, 3), (0, 0)])
def test_zero_beside_others_is_the_whole_topic_as_in_trec_web_2010(sizes, caplog):
    lines = "q0 0 a 1\nq0 1 a 1\nq0 0 b 2\nq0 2 b 1\nq0 0 spam -2\nq0 0 general 1\nq1 0 c 1\nq1 3 c 1\nq1 1 c 0\n"
    found = bd.load(table(*asked(*sizes)), gold=put("2010.txt", lines))
    assert [len(q.perspectives) for q in found.questions] == [2, 1]
    assert not found.gold.set_index("docno").loc[["spam", "general"], "supports"].any()  # judged, for no perspective
    assert judged(found.gold[found.gold["supports"]]) == [
        ["q0", 0, "a", True],
        ["q0", 1, "b", True],
        ["q1", 0, "c", True],
    ]
    assert "2010.txt" in caplog.text
    counted = bd.load(table(*asked(0, 0)), gold="2010.txt", first_subtopic=0)
    assert counted.questions[0].perspectives == ("subtopic 0", "subtopic 1", "subtopic 2")


def test_spam_of_the_whole_topic_is_no_perspective():
    lines = "q0 1 a 1\nq0 2 b 1\nq1 0 spam -2\nq1 1 c 1\nq1 2 d 1\nq2 0 spam -2\n"
    found = bd.load(table(*asked(2, 3, 3)), gold=put("spam.txt", lines))
    assert [q.perspectives for q in found.questions] == [("p0.0", "p0.1"), ("p1.0", "p1.1"), ("p2.0", "p2.1", "p2.2")]
    assert found.gold.loc[found.gold["supports"], "docno"].tolist() == [*"abcd"]
    bare = bd.load(table(*asked(0, 0)), gold="spam.txt")
    assert bare.questions[1].perspectives == ("subtopic 1", "subtopic 2")


IMPOSSIBLE = [
    ((2,), "q0 0 a 1\nq0 1 b 1\nq0 2 c 1\nq0 3 d 1\n", None, 3),  # counted from 0, 2 is the first
    ((3,), "q0 1 a 1\nq0 4 c 1\n", None, 2),
    ((2, 2), "q0 1 a 1\nq0 2 c 1\nq1 0 d 1\n", None, 3),  # counted from 1, 0 alone is a topic without subtopics
    ((2,), "q0 0 a 1\nq0 2 b 1\n", 0, 2),
    ((2,), "q0 1 a 1\n\nq0 3 b 1\n", 1, 3),
]


@pytest.mark.parametrize(("sizes", "lines", "first", "line"), IMPOSSIBLE)
def test_a_subtopic_that_the_question_does_not_list_is_refused_with_its_line(sizes, lines, first, line):
    with pytest.raises(InputError) as refused:
        bd.load(table(*asked(*sizes)), gold=put("q.txt", lines), first_subtopic=first)
    assert (refused.value.path, refused.value.line, refused.value.field) == ("q.txt", line, "subtopic")


@st.composite
def web_qrels(draw):
    """Qrels in the layout of TREC Web 2013: from 1, with gaps and grades, some topics with 0 alone."""
    rows = []
    for topic in range(draw(st.integers(1, 4))):
        numbers = draw(st.one_of(st.just({0}), st.sets(st.integers(1, 6), min_size=1)))
        for number in sorted(numbers):
            docnos = draw(st.sets(st.integers(0, 7), min_size=1))
            rows += [(f"q{topic}", number, f"d{d}", draw(st.sampled_from([-2, 0, 1, 2, 3]))) for d in sorted(docnos)]
    return rows


@settings(max_examples=60, deadline=None)
@given(web_qrels(), st.permutations(range(8)))
def test_trec_web_qrels_score_as_in_ndeval(rows, order):
    qids = sorted({qid for qid, _, _, relevance in rows if relevance > 0})
    if not qids:
        return
    topics = [{"qid": qid, "question": qid} for qid in qids]
    found = bd.load(topics, gold=pd.DataFrame(rows, columns=["query_id", "subtopic_id", "doc_id", "relevance"]))
    run = {qid: {f"d{d}": float(-place) for place, d in enumerate(order)} for qid in qids}
    ours = bd.evaluate(read_run(run), found.gold, found, ["StRecall@3", "alpha_nDCG@5", "ERR_IA@5"])
    theirs = pyndeval.ndeval(
        [pyndeval.SubtopicQrel(qid, str(n), d, r) for qid, n, d, r in rows if qid in qids],
        [pyndeval.ScoredDoc(qid, d, score) for qid, listed in run.items() for d, score in listed.items()],
        measures=["strec@3", "alpha-nDCG@5", "ERR-IA@5"],
    )
    expected = [[theirs[qid][m] for m in ("strec@3", "alpha-nDCG@5", "ERR-IA@5")] for qid in qids]
    np.testing.assert_allclose(ours.loc[qids].to_numpy(), expected, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), unique_by=lambda r: r, min_size=1))
@example([(0, 1, 0), (1, 0, 0)])
def test_what_is_written_is_read_back_for_questions_that_list_their_perspectives(pairs):
    """All that a file of ours must say is that it counts from 0: a verdict on perspective 0 of one question."""
    said = {(f"q{topic}", pid, f"d{d}") for topic, pid, d in pairs} | {("q0", 0, "d0"), ("q0", 2, "d0")}
    verdicts = make_verdicts([(qid, pid, d, 1.0, True) for qid, pid, d in said], "gold")
    write_trec_qrels("ours.txt", verdicts)
    assert_frame_equal(bd.load(table(*asked(3, 4, 4)), gold="ours.txt").gold, verdicts)


# ---------------------------------------------------------------- grades


@pytest.mark.parametrize("level", [None, 2, 0.5])
def test_a_yes_is_a_relevance_that_reaches_the_level_as_in_trec_eval(level):
    relevance = {"q0": {"a": 1, "b": 2, "c": 0, "d": 3, "e": -1, "f": -2}, "q1": {"a": 2, "c": 1, "d": 3}}
    run = {qid: {d: float(-i) for i, d in enumerate("fecxabd")} for qid in relevance}
    rows = [(qid, 0, d, r) for qid, of in relevance.items() for d, r in of.items()]
    found = bd.load(table(*asked(0, 0)), gold=put("q.txt", cells(rows, " ")), relevance_level=level)
    assert found.gold[GRADE].tolist() == [r for _, _, _, r in sorted(rows)]
    ours = bd.evaluate(read_run(run), found.gold, found, ["P@5", "AP", "RR", "R@5"])
    measures = {"P_5", "map", "recip_rank", "recall_5"}
    evaluator = pytrec_eval.RelevanceEvaluator(relevance, measures, relevance_level=max(1, int(level or 1)))
    theirs = evaluator.evaluate(run)
    expected = [[theirs[qid][m] for m in ("P_5", "map", "recip_rank", "recall_5")] for qid in relevance]
    np.testing.assert_allclose(ours.to_numpy(), expected)


def test_grades_are_told_once_where_no_cut_was_named(caplog):
    path = put("q.txt", "q0 0 a 3\nq0 0 b -2\nq0 0 c 1\n")
    bd.load(table(*asked(0)), gold=path, relevance_level=2)
    assert not caplog.records
    bd.load(table(*asked(0)), gold=path)
    assert len(caplog.records) == 1 and "relevance_level=3" in caplog.text and "-2" in caplog.text
    caplog.clear()
    bd.load(table(*asked(0)), gold=put("binary.txt", "q0 0 a 1\nq0 0 c 0\n"))
    assert not caplog.records


def test_relevance_that_never_reaches_the_cut_is_refused():
    fractions = put("q.tsv", "query-id\tcorpus-id\tscore\nq0\ta\t0.5\nq0\tb\t0.66\n")
    for wrong in (None, 2, 0.7):
        with pytest.raises(InputError) as refused:
            bd.load(table(*asked(0)), gold=fractions, relevance_level=wrong)
        assert refused.value.field == "relevance_level"
    found = bd.load(table(*asked(0)), gold=fractions, relevance_level=0.6).gold
    assert found[["supports", GRADE]].values.tolist() == [[False, 0.5], [True, 0.66]]
    for level in (0, -1, "2", True, float("nan")):
        with pytest.raises(InputError) as refused:
            bd.load(table(*asked(0)), gold=fractions, relevance_level=level)
        assert refused.value.field == "relevance_level"


def test_the_scores_of_a_beir_folder_are_grades(tmp_path):
    beir = tmp_path / "beir"
    (beir / "qrels").mkdir(parents=True)
    (beir / "queries.jsonl").write_text(jsonl({"_id": "q0", "text": "Trams?"}))
    (beir / "corpus.jsonl").write_text(jsonl(*({"_id": d, "text": d} for d in "abcd")))
    qrels = beir / "qrels" / "test.tsv"
    for scores, level, yeses in (([2, 1, 0, -1], None, "ab"), ([2, 1, 0, -1], 2, "a"), ([0.2, 0.5, 0.9, 0], 0.5, "bc")):
        qrels.write_text(cells([("q0", d, s) for d, s in zip("abcd", scores, strict=True)], "\t", *NAMED[0]))
        whole = bd.load(beir, relevance_level=level)
        assert whole.gold[GRADE].tolist() == scores
        assert "".join(whole.gold.loc[whole.gold["supports"], "docno"]) == yeses
        assert_frame_equal(bd.load(table(*asked(0)), gold=beir, relevance_level=level).gold, whole.gold)
    with pytest.raises(InputError) as refused:
        bd.load(beir)
    assert refused.value.field == "relevance_level"


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["q0", "q1"]), st.integers(0, 2), st.sampled_from("abc")),
        st.sampled_from([-2.0, 0.0, 1.0, 2.0, 3.0]),
        min_size=1,
    )
)
def test_grades_are_read_back_as_written(said):
    rows = {("q0", 0, "z"): 1.0, ("q0", 1, "z"): 2.0, ("q1", 0, "z"): 1.0, **said}
    verdicts = from_relevance([(*key, relevance) for key, relevance in rows.items()])
    write_trec_qrels("v.qrels", verdicts)
    assert_frame_equal(read_verdicts("v.qrels", first_subtopic=0), verdicts)
    write_verdicts("v.tsv", verdicts)
    assert_frame_equal(read_verdicts("v.tsv"), verdicts)


def test_an_unread_answer_and_a_fraction_are_read_back_from_a_table_and_kept_out_of_qrels():
    rows = [("q", 0, "a", 0.7, True), ("q", 0, "b", float("nan"), False), ("q", 1, "a", 0.2, False)]
    verdicts = make_verdicts(rows, "judge").assign(grade=[0.5, 0.0, 0.0])
    for name in ("v.tsv", "v.csv.gz"):
        write_verdicts(name, verdicts)
        assert_frame_equal(read_verdicts(name), verdicts)
    with pytest.raises(InputError) as refused:
        write_trec_qrels("v.qrels", verdicts)
    assert refused.value.field == GRADE
    write_trec_qrels("v.qrels", verdicts.drop(columns=GRADE))
    assert judged(read_verdicts("v.qrels")) == [["q", 0, "a", True], ["q", 1, "a", False]]


# ---------------------------------------------------------------- forms

ROWS = [("7", 0, "d#1", 1), ("7", 0, "d3", 0), ("9", 0, "d2", 2)]
THREE = [(qid, docno, relevance) for qid, _, docno, relevance in ROWS]
DICT = {"7": {"d#1": 1, "d3": 0}, "9": {"d2": np.int64(2)}}
NAMED = [dict(zip(("query-id", "corpus-id", "score"), row, strict=True)) for row in THREE]


def words(word):
    return [(qid, word, docno, relevance) for qid, _, docno, relevance in ROWS]


GOLD_FILES = {
    "blanks.txt": cells(words(0), " "),
    "named.csv": cells(words(0), "  "),
    "commas.csv": cells(words(0), ","),
    "q0.tsv": cells(words("Q0"), "\t"),
    "one.txt": cells(words(1), " "),
    "zipped.txt.gz": cells(words("ITER"), " "),
    "header.txt": cells(ROWS, " ", "qid", "iter", "docno", "rel"),
    "beir.tsv": cells(THREE, "\t", "query-id", "corpus-id", "score"),
    "bare.tsv": cells(THREE, "\t"),
    "semicolons.csv": cells(THREE, ";", "query_id", "doc_id", "relevance"),
    "Blanks.csv": cells(THREE, ",", "Query ID", " Doc ID", "Relevance"),
    "pyterrier.csv": cells([(i, *row) for i, row in enumerate(THREE)], ",", "", "qid", "docno", "label"),
    "dict.json": json.dumps(DICT, default=int),
    "rows.jsonl": jsonl(*NAMED),
    "columns.json": pd.DataFrame(NAMED).to_json(),
    "split.json": pd.DataFrame(NAMED).to_json(orient="split"),
    "nested.json": json.dumps({q: {d: {"0": int(r)} for d, r in of.items()} for q, of in DICT.items()}),
}


def as_expected(gold):
    topics = [{"qid": "7", "question": "Sundays?"}, {"qid": "9", "question": "Dogs?"}]
    found = bd.load(topics, gold=gold)
    assert [q.perspectives for q in found.questions] == [("Sundays?",), ("Dogs?",)]
    columns = ["qid", "pid", "docno", "supports", GRADE]
    expected = [["7", 0, "d#1", True, 1.0], ["7", 0, "d3", False, 0.0], ["9", 0, "d2", True, 2.0]]
    return found.gold[columns].values.tolist() == expected


@pytest.mark.parametrize("name", GOLD_FILES)
def test_qrels_of_any_form_are_read_by_what_they_hold(name):
    assert as_expected(put(name, GOLD_FILES[name]))


def test_qrels_in_parquet_and_in_memory():
    for i, names in enumerate(
        [("q_id", "doc_id", "score"), ("query-id", "corpus-id", "score"), ("qid", "docno", "label")]
    ):
        frame = pd.DataFrame(THREE, columns=names)
        frame.to_parquet(f"qrels{i}")  # told by what it holds
        for gold in (f"qrels{i}", frame, frame.to_dict("records"), frame.astype({names[0]: int})):
            assert as_expected(gold)
    assert as_expected(DICT)


RUN = [("7", "Q0", "d1", 1, 9.5, "x"), ("7", "Q0", "d2", 2, 3, "x"), ("9", "Q0", "d2", 1, 2, "x")]
SCORED = [(qid, docno, score) for qid, _, docno, _, score, _ in RUN]
RANKED = [(qid, docno, rank) for qid, _, docno, rank, _, _ in RUN]
RUNS = {
    "blanks.trec": cells(RUN, " "),
    "tabs.tsv": cells(RUN, "\t"),
    "header.txt": cells(RUN, " ", "qid", "Q0", "docno", "rank", "score", "tag"),
    "three.txt": cells(SCORED, " "),
    "msmarco.tsv": cells(RANKED, "\t"),
    "pyterrier.csv": cells(
        [(q, d, r - 1, s, '"a, b"') for q, _, d, r, s, _ in RUN], ",", "qid", "docno", "rank", "score", "query"
    ),
    "Blanks.csv": cells(SCORED, ",", "Query ID", "Doc ID", "Score"),
    "rank.csv": cells(RANKED, ",", "qid", "docno", "rank"),
    "ranx.json": json.dumps({"7": {"d1": 9.5, "d2": 3}, "9": {"d2": 2}}),
    "rows.jsonl": jsonl(*({"qid": q, "docno": d, "score": s} for q, d, s in SCORED)),
    "sentence-transformers": jsonl(
        {"query_id": "7", "query": "x", "results": [{"corpus_id": "d1", "score": 2}, {"corpus_id": "d2", "score": 1}]},
        {"query_id": "9", "query": "x", "results": [{"corpus_id": "d2", "score": 1}]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_runs_of_any_form_are_read_by_what_they_hold(name):
    assert read_run(put(name, RUNS[name]))[["qid", "docno", "rank"]].values.tolist() == [list(row) for row in RANKED]


def test_runs_in_parquet_and_with_the_numbers_of_numpy():
    frame = pd.DataFrame(SCORED, columns=["q_id", "doc_id", "score"])
    frame.to_parquet("run.parquet")
    expected = read_run(put("run.trec", cells(RUN, " ")))
    assert_frame_equal(read_run("run.parquet"), expected)
    scored = {"7": {"d1": np.float32(9.5), "d2": np.int64(3)}, "9": {"d2": np.float64(2)}}
    assert_frame_equal(read_run(scored), expected)
    gold = make_verdicts([("7", 0, "d1", 1, True)], "gold")
    assert bd.evaluate(frame, gold, [Question("7", "?", ("p",))], "P@1").iloc[0, 0] == 1


def test_what_is_not_certain_of_a_run_is_said(caplog):
    read_run(put("ranks.tsv", RUNS["msmarco.tsv"]))
    assert "ranks.tsv" in caplog.text and len(caplog.records) == 1
    caplog.clear()
    read_run(put("distances.trec", cells([(q, z, d, r, -s, t) for q, z, d, r, s, t in RUN], " ")))
    assert "distances.trec" in caplog.text and len(caplog.records) == 1
    caplog.clear()
    read_run(put("fine.trec", RUNS["blanks.trec"]))
    assert not caplog.records


BAD = [  # what reads it, the file, line, field
    (read_verdicts, "q.txt", "q Q0 a 1\nq 1 b 1\n", 1, "subtopic"),
    (read_verdicts, "q.txt", "q 0 a 1\nq 0 b high\n", 2, "relevance"),
    (read_verdicts, "q.txt", "q 0 a 1\nq 0 a 2\n", 2, "docno"),
    (read_verdicts, "q.txt", "q 0 a 1\nq 0 b\n", 2, None),
    (read_verdicts, "q.csv", "qid,docno,label\nq,,1\n", 2, "docno"),
    (read_verdicts, "q.csv", "qid,docno,text\nq,a,b\n", 2, "relevance"),
    (read_verdicts, "run.trec", RUNS["blanks.trec"], 1, None),
    (read_verdicts, "v.csv", "qid,pid,docno,p_yes,grade\nq,0,a,1,high\n", 2, "grade"),
    (read_run, "q.txt", cells(ROWS, " "), 1, None),
    (read_run, "r.txt", "q Q0 a 1 9 x\nq Q0 b 2\n", 2, None),
    (read_run, "r.txt", "q Q0 a 1 high x\n", 1, "score"),
    (read_run, "r.csv", "qid,docno,score\nq,a,\n", 2, "score"),
    (read_run, "r.csv", "qid,docno\nq,a\n", 2, "score"),
]


@pytest.mark.parametrize(("read", "name", "text", "line", "field"), BAD)
def test_what_is_no_run_or_qrels_is_refused_with_line_and_field(read, name, text, line, field):
    with pytest.raises(InputError) as refused:
        read(put(name, text))
    assert (refused.value.path, refused.value.line, refused.value.field) == (name, line, field)


def test_what_another_program_compressed_is_refused():
    with open("run.json.lz4", "wb") as file:
        file.write(b"\x04\x22\x4d\x18\xff\xff\0")
    with pytest.raises(InputError) as refused:
        read_run("run.json.lz4")
    assert refused.value.path == "run.json.lz4"


def test_the_number_of_the_first_subtopic_is_none_or_0_or_1():
    for wrong in (2, "1", True, -1):
        with pytest.raises(InputError) as refused:
            verdicts_from_qrels(Qrels(pd.DataFrame()), first_subtopic=wrong)
        assert refused.value.field == "first_subtopic"


# ---------------------------------------------------------------- what loading says

PASSAGES = [Passage("a", "Trams cut traffic."), Passage("b", "trams  CUT traffic. "), Passage("c", "Parks are calm.")]


def sentences(caplog, **given):
    caplog.clear()
    found = bd.load(**given)
    return found, [record.getMessage() for record in caplog.records]


def test_loading_says_what_is_missing_with_counts(caplog):
    gold = put("q.txt", "q0 0 a 1\nq1 0 gone 1\nq1 0 away 1\nq1 0 c 0\nq9 0 c 1\n")
    found, said = sentences(caplog, name=table(*asked(0, 0, 0, 0)), passages=PASSAGES, gold=gold)
    assert found.missing == (4, 2, 1, 4, 2, "away")
    assert len(said) == 5  # unjudged, absent, unanswerable, copies, not asked
    for numbers in (("2", "4"), ("2", "4", "away"), ("1", "4"), ("1",), ("1", "q9")):
        assert any(all(number in sentence for number in numbers) for sentence in said)
    assert "2 without a verdict" in repr(found) and "2 of 4" in repr(found)
    whole = put("whole.txt", "q0 0 c 1\n")
    assert sentences(caplog, name=table(*asked(0)), passages=PASSAGES, gold=whole)[1] == []


def test_a_corpus_on_disk_is_asked_for_docnos_only(tmp_path, caplog, monkeypatch):
    from berdslib.data.corpus import Corpus, write_corpus

    write_corpus(PASSAGES, tmp_path / "corpus")
    monkeypatch.setattr(Corpus, "__iter__", None)
    gold = put("q.txt", "q0 0 a 1\nq0 0 gone 1\n")
    found, said = sentences(caplog, name=table(*asked(0)), passages=str(tmp_path / "corpus"), gold=gold)
    assert found.missing.absent == 1 and len(said) == 1


def test_splits_of_a_file_are_told_where_none_was_named(caplog):
    rows = [row | {"split": "dev" if i else "test"} for i, row in enumerate(table(*asked(1, 1, 1)))]
    gold = put("q.txt", "q0 0 a 1\nq1 0 a 1\nq2 0 a 1\n")
    found, said = sentences(caplog, name=rows, gold=gold)
    assert len(found.questions) == 3 and len(said) == 1 and "dev 2" in said[0] and "test 1" in said[0]
    found, said = sentences(caplog, name=rows, gold=gold, split="dev")
    assert {q.split for q in found.questions} == {"dev"} and said == []  # the others are of another split
    assert sentences(caplog, name=table(*asked(1)), gold=put("one.txt", "q0 0 a 1\n"))[1] == []


def test_what_comes_with_the_package_is_loaded_without_a_word(caplog):
    for name in ("sample", "pir-sample:location"):
        assert sentences(caplog, name=name)[1] == []
