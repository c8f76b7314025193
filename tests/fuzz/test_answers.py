"""What a model or its server answers is untrusted too; and what is handed to bd.load in place of a file."""

import json
import os
import tempfile
from pathlib import Path
from unittest.mock import patch

import pandas as pd
from chat_server import ASK, SECRET, Saying, chat_server
from debater import TOPICS, Debater, write_arguments
from fuzz.hostile import NUMBERS, PIECES, TEXTS, VALUES, fuzzed
from hypothesis import strategies as st

import berdslib as bd
from berdslib.data.records import check_questions
from berdslib.errors import BerdsError
from berdslib.judging.chat import Chat, probability_of_yes
from berdslib.llm.chat import Endpoint, Reply
from berdslib.retrieval.expansion import chat_expansions

DATA = bd.Collection(
    "c",
    [bd.Question("q1", "Is tea better?", ("Tea is.", "Coffee is."))],
    [bd.Passage("d1", "Tea is better."), bd.Passage("d2", "Coffee is.")],
)
SHAPES = st.one_of(
    TEXTS,
    st.builds(json.dumps, st.recursive(PIECES, lambda deeper: st.lists(deeper) | st.dictionaries(PIECES, deeper))),
    st.builds("```json\n{}\n```".format, st.builds(json.dumps, st.dictionaries(TEXTS, TEXTS))),
    st.builds("<think>{}</think>{}".format, TEXTS, TEXTS),
    st.builds("Zoos{} should close.\nZoos should{} stay open.\nThe {} should decide.".format, PIECES, PIECES, PIECES),
    st.builds("1. {}\n2. {}\nstatement: {}\nnegation: {}".format, TEXTS, TEXTS, TEXTS, TEXTS),
    st.just("[" * 50_000),
    st.just('{"perspectives": ' + "9" * 5_000 + "}"),
)


@fuzzed("answers", st.tuples(SHAPES, st.sampled_from(["judge", "expand"])))
def test_answers(case):
    """An answer of any form becomes verdicts or queries; or an error that quotes it."""
    text, use = case
    model = Saying(text)
    try:
        if use == "judge":
            run = bd.search("bm25", DATA, k=2)
            p_yes = bd.judge(run, DATA, Chat(model), k=2).p_yes
            assert (p_yes.between(0, 1) | p_yes.isna()).all()
        else:
            queries = chat_expansions(DATA.questions, model)
            assert all(text.strip() for pairs in queries.values() for _, text in pairs)
            bd.search("bm25+expand:recorded", bd.Collection("c", DATA.questions, DATA.passages, None, queries), k=2)
    except BerdsError as error:
        assert len(str(error)) < 3000
        return f"{use}: refused"
    return f"{use}: taken"


class Erring(Debater):
    """Builds well but for drawn answers, which may make a question that no longer says what it is about."""

    def complete(self, messages):
        try:
            return super().complete(messages)
        except StopIteration:
            return Reply(next(iter(self.faults.values())))


STEPS = st.tuples(st.sampled_from([*TOPICS][:6]), st.sampled_from(["question", "statements", "labels"]))
SAID = st.one_of(
    SHAPES,
    st.builds("Should {}?".format, TEXTS),
    st.builds("{}statement: It is right{}.\n{}negation: It is not{}.".format, PIECES, PIECES, PIECES, PIECES),
)


@fuzzed("builds", st.dictionaries(STEPS, SAID, min_size=1, max_size=4))
def test_builds(faults):
    """What a model says wrong of some is kept with a reason; the others make a data set that loads as it was made."""
    with tempfile.TemporaryDirectory() as place:
        rows = write_arguments(Path(place, "arguments.jsonl"))
        built = bd.build("arguana", rows, Path(place, "made"), Erring(faults=faults))
        assert sorted(os.listdir(place)) == ["arguments.jsonl", "made"]
        loaded = bd.load(Path(place, "made"), split="all").questions
    check_questions(loaded, need_perspectives=True)
    assert list(loaded) == list(built.collection.questions)
    made, wrong = {q.qid for q in loaded}, {topic for topic, _ in faults}
    assert made >= {f"{topic}-pro01" for topic in TOPICS if topic not in wrong}
    assert len(made) + len(built.rejected) + len(built.unanswered) == len(TOPICS) + 1
    return f"{len(built.rejected) - 1} rejected of {len(wrong)} answered wrongly"


TOPS = st.lists(st.fixed_dictionaries({"token": st.one_of(VALUES, st.sampled_from(["Yes", " no"])), "logprob": VALUES}))
BODIES = st.one_of(
    st.builds(
        lambda text, tops, usage: {
            "choices": [{"message": {"content": text}, "logprobs": {"content": [{"top_logprobs": tops}]}}],
            "usage": usage,
        },
        VALUES, TOPS, VALUES,
    ),
    st.dictionaries(st.sampled_from(["choices", "usage", "error", "message"]), st.recursive(VALUES, st.lists)),
    VALUES,
)  # fmt: skip
RAW = st.one_of(
    BODIES.map(lambda body: json.dumps(body, default=repr).encode("utf-8", "surrogatepass")),
    st.sampled_from([b"", b"[" * 100_000, b"<html>", b"\xff\xfe{", b'{"choices": [' + b"9" * 5_000 + b"]}"]),
)


@fuzzed("bodies of responses", st.tuples(st.sampled_from([200, 200, 200, 204, 302, 400, 401, 429, 500]), RAW, TEXTS))
def test_bodies_of_responses(case):
    """A server may send anything: an answer, or an error without the key; a probability is one, or there is none."""
    status, raw, wait = case
    headers = {"Retry-After": "".join(c for c in wait if c.isascii() and c.isprintable())}
    with chat_server() as server, patch.dict(os.environ, {"OPENAI_API_KEY": SECRET}):
        server.script = [(status, headers, raw)]
        model = Endpoint("m", base_url=f"http://127.0.0.1:{server.server_port}/v1", max_retries=0, deadline=5)
        try:
            reply = model.complete(ASK)
        except BerdsError as error:
            assert SECRET not in str(error) and len(str(error)) < 2000
            return f"{status}: an error"
    assert isinstance(reply, Reply) and isinstance(reply.text, str)
    p = probability_of_yes(reply)
    assert p is None or 0 <= p <= 1
    return f"{status}: an answer"


ROWS = st.lists(
    st.dictionaries(
        st.one_of(
            st.sampled_from(["qid", "query_id", "question", "text", "perspectives", "ctxs", "_id", "split"]), TEXTS
        ),
        st.one_of(VALUES, st.lists(VALUES, max_size=3), st.lists(TEXTS, min_size=2, max_size=2)),
        max_size=5,
    ),
    max_size=3,
)
GOOD_ROWS = st.builds(
    lambda ids, texts, ps: [
        {"qid": i, "question": t, "perspectives": list(p)} for i, t, p in zip(ids, texts, ps, strict=False)
    ],
    st.lists(st.one_of(TEXTS, NUMBERS, st.integers(0, 9)), min_size=1, max_size=3),
    st.lists(TEXTS, min_size=3, max_size=3),
    st.lists(st.lists(TEXTS, max_size=3), min_size=3, max_size=3),
)


@fuzzed("rows in memory", st.tuples(st.one_of(ROWS, GOOD_ROWS), st.one_of(st.none(), ROWS), st.booleans()))
def test_rows_in_memory(case):
    """Lists of dicts and frames of any content load as questions and passages, or are refused."""
    rows, passages, frame = case
    try:
        given = pd.DataFrame(rows) if frame else rows
        corpus = pd.DataFrame(passages) if frame and passages is not None else passages
    except (ValueError, OverflowError):
        return "no frame"
    try:
        data = bd.load(given, passages=corpus)
    except (bd.InputError, bd.MissingDataError) as error:
        assert len(str(error)) < 2000
        return "refused"
    check_questions(data.questions)
    assert all(isinstance(p.docno, str) and isinstance(p.text, str) for p in data.passages)
    return "loaded"
