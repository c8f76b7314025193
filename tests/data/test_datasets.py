"""Data sets by name: pins of what is there, honest errors about what is not."""

import gzip
import hashlib
import socket
import sys

import numpy as np
import pandas as pd
import pytest
from layouts import write_questions

from berdslib.data import fetch as fetching
from berdslib.data.catalogue import DATASETS
from berdslib.data.datasets import (
    card,
    dataset,
    fetch,
    load,
    load_expansions,
    load_gold,
    load_passages,
    load_questions,
    passage_file,
    statistics,
)
from berdslib.data.formats import write_passages
from berdslib.data.readers import READERS
from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question
from berdslib.data.tables import write_jsonl
from berdslib.errors import InputError, MissingDataError


@pytest.fixture(autouse=True)
def own_places(monkeypatch, tmp_path):
    """No variable of the user, a cache of this test's own, no name server."""
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "cache"))
    for name in ("BERDS_DATA", "BERDS_HF_DIR", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", _no_network)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("berdslib.data.fetch.BACK_OFF", 0.0)


def _no_network(*args, **kwargs):
    raise socket.gaierror(-2, "Name or service not known")


@pytest.fixture
def data(monkeypatch, tmp_path):
    """An empty BERDS_DATA."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("BERDS_DATA", str(folder))
    return folder


def rows(n, start=None):
    """Rows of an official BeRDS file; numbered from `start` if it is given."""
    return [
        ({} if start is None else {"id": start + i})
        | {"question": f"Question {i}?", "perspectives": [f"Yes, {i}.", f"No, {i}."]}
        for i in range(n)
    ]


def hub_clone(monkeypatch, tmp_path, repo, **splits):
    """A local clone of a Hugging Face repository with one JSONL file a split."""
    monkeypatch.setenv("BERDS_HF_DIR", str(tmp_path / "hf"))
    for split, content in splits.items():
        write_jsonl(tmp_path / "hf" / repo / f"{split}.jsonl", content)


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# ---------------------------------------------------------------- the table


def test_entries_are_complete_and_their_cards_print(data):
    for name in DATASETS:
        one, text = dataset(name), card(name)
        assert one.name == name and one.paper in ("berds", "pir", "perspectivearg", "support")
        assert one.kind in ("questions", "passages", "both", "pairs")
        assert all((one.title, one.source, one.licence, one.size))
        assert one.fetchable or one.how or one.shipped
        assert set(one.passages) <= set(one.local) and not any(path.startswith(("/", "..")) for path in one.local)
        assert set(one.parts) <= set(READERS.get(one.reader, ()))
        assert all(f.url.startswith("https://") for f in one.files)
        assert text.startswith(f"{name}: {one.title}\n") and all(f in text for f in (one.source, one.licence, one.size))
        assert ("loader:" in text) == bool(one.parts) and (not one.local or one.shipped or str(data) in text)


def test_a_card_says_what_is_there(data, monkeypatch):
    path = data / "berds" / "kialo.dev.jsonl"
    assert f"{path}: not there" in card("kialo")
    write_jsonl(path, rows(1))
    assert f"{path}: there" in card("kialo")
    assert "berds data fetch kialo" in card("kialo") and "FOR MEASURING ONLY" in card("pers-det")
    assert dataset("kialo").loaders == ["load_questions", "load_expansions"]
    monkeypatch.delenv("BERDS_DATA")
    assert "berds/kialo.dev.jsonl: BERDS_DATA is not set" in card("kialo")


def test_the_sample():
    questions, whole = load_questions("sample", "all"), load("sample", split="all")
    assert (len(questions), len(load_passages("sample")), len(load_gold("sample"))) == (24, 373, 907)
    assert load_questions("sample") == [q for q in questions if q.split == "dev"]
    assert load_questions("sample", "test", limit=2) == [q for q in questions if q.split == "test"][:2]
    assert load_expansions("sample").keys() == {q.qid for q in load_questions("sample")}
    assert load_passages("sample", limit=1) == list(load_passages("sample"))[:1]
    assert passage_file("sample") in fetch("sample")
    assert list(whole.questions) == questions and list(whole.passages) == list(load_passages("sample"))
    assert whole.expansions == load_expansions("sample", "all") and whole.gold.equals(load_gold("sample"))


# ---------------------------------------------------------------- paths


def test_questions_and_passages_of_a_file(tmp_path):
    questions = [
        Question(f"q{i}", "Is it?", ("Yes.",), (None,), "mine", s) for i, s in enumerate(("dev", "test", "test"))
    ]
    write_questions(tmp_path / "mine.jsonl", questions)
    assert load_questions(tmp_path / "mine.jsonl") == questions
    assert load_questions(str(tmp_path / "mine.jsonl"), "test", limit=1) == questions[1:2]
    with pytest.raises(InputError, match="'train'"):
        load_questions(tmp_path / "mine.jsonl", "train")
    write_passages(tmp_path / "corpus.jsonl", [Passage("d1", "one"), Passage("d2", "two")])
    for place in (tmp_path, tmp_path / "corpus.jsonl", str(tmp_path)):
        assert [p.docno for p in load_passages(place)] == ["d1", "d2"]
    assert [p.docno for p in load_passages(tmp_path, limit=1)] == ["d1"]
    with pytest.raises(InputError, match=r"nothing\.jsonl"):
        load_questions("nothing.jsonl")
    with pytest.raises(InputError, match=r"nothing\.jsonl"):
        load_passages(tmp_path / "nothing.jsonl")
    (tmp_path / "empty.jsonl").touch()
    for limit in (0, 5):
        with pytest.raises(InputError, match=r"empty\.jsonl"):
            load_passages(tmp_path / "empty.jsonl", limit)


# ---------------------------------------------------------------- BeRDS: order of places


def expansions_file(data, n):
    texts = [(i, t) for i in range(n) for t in ("for", "against")]
    made = [
        {"org_id": str(774 + i), "org_q": f"Question {i}?", "perspective": f"{t}_name", "text": f"{t} {i}"}
        | {"perspectives": [f"Yes, {i}.", f"No, {i}."]}
        for i, t in texts
    ]
    write_jsonl(data / "berds" / "kialo_query_exp.dev.jsonl", made)


def test_a_complete_file_wherever_it_is_goes_before_a_part_of_it(data, tmp_path, caplog):
    expansions_file(data, 2)
    assert len(load_questions("kialo")) == 2
    assert "2 questions of the recorded expansions stand in" in caplog.text and "data fetch kialo" in caplog.text
    caplog.clear()
    fetched, given = tmp_path / "cache" / "data" / "kialo" / "dev.jsonl", data / "berds" / "kialo.dev.jsonl"
    for n, path in ((3, fetched), (4, given)):  # below BERDS_DATA first, then the cache
        write_jsonl(path, rows(n))
        assert len(load_questions("kialo")) == n and not caplog.text
        with caplog.at_level("INFO"):
            load_questions("kialo")
        assert str(path) in caplog.text
        caplog.clear()
    assert "only where the official file is neither in BERDS_DATA nor fetched" in card("kialo")


def test_expansions(data):
    expansions_file(data, 2)
    expected = {f"kialo-{774 + i}": [("for_name", f"for {i}"), ("against_name", f"against {i}")] for i in (0, 1)}
    assert load_expansions("kialo") == expected
    assert load_expansions("kialo").keys() == {q.qid for q in load_questions("kialo")}
    with pytest.raises(MissingDataError, match="kialo"):
        load_expansions("kialo", "all")


# ---------------------------------------------------------------- BeRDS: what is missing


def test_a_missing_data_set_says_where_it_was_looked_for_and_how_to_get_it(data, tmp_path):
    with pytest.raises(MissingDataError) as caught:
        load_questions("opinionqa")
    message = str(caught.value)
    assert message.startswith("'opinionqa', dev split: not on this machine.")
    cached = tmp_path / "cache" / "data" / "opinionqa" / "dev.jsonl"
    for place in (*(data / "berds" / f"opinionqa{n}.dev.jsonl" for n in ("", "_query_exp")), cached):
        assert f"{place}: not there" in message
    assert message.endswith("berds data fetch opinionqa")


@pytest.mark.parametrize("split", ["test", "all"])
def test_dev_never_stands_in_for_test(data, split):
    expansions_file(data, 2)
    with pytest.raises(MissingDataError, match=r"'kialo'(.|\n)*kialo_query_exp\.dev\.jsonl"):
        load_questions("kialo", split)


def test_what_cannot_be_fetched():
    for name in ("google-search", "perspectivearg-2019"):
        with pytest.raises(MissingDataError, match=name):
            fetch(name)


# ---------------------------------------------------------------- Hugging Face


def test_splits_of_a_repository_are_fetched_anew_and_files_once(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(fetching, "download", lambda url, target, **_: asked.append(url) or target)
    hub_clone(monkeypatch, tmp_path, "timchen0618/Kialo", validation=rows(2), test=rows(3))
    assert [p.name for p in fetch("kialo")] == ["dev.jsonl", "test.jsonl", "kialo_query_exp.dev.jsonl"]
    questions = load_questions("kialo", "all")
    assert [q.qid for q in questions] == ["kialo-774", "kialo-775", "kialo-0", "kialo-1", "kialo-2"]
    assert questions[0].perspectives == ("Yes, 0.", "No, 0.")
    hub_clone(monkeypatch, tmp_path, "timchen0618/Kialo", validation=rows(1))
    fetch("kialo")
    assert len(load_questions("kialo")) == 1
    assert asked == [dataset("kialo").files[0].url] * 2


def test_a_repository_with_other_splits_or_fields(monkeypatch, tmp_path):
    hub_clone(monkeypatch, tmp_path, "timchen0618/Kialo", train=rows(3))
    with pytest.raises(MissingDataError, match="train"):
        fetch("kialo")
    hub_clone(monkeypatch, tmp_path, "timchen0618/Arguana", test=[{"asked": "Is it?", "perspectives": ["Yes."]}])
    monkeypatch.setattr(fetching, "download", lambda url, target, **_: target)
    fetch("arguana")
    with pytest.raises(InputError) as refused:
        load_questions("arguana", "test")
    assert (refused.value.line, refused.value.field) == (1, "question")


def test_fetch_of_a_whole_repository(monkeypatch, tmp_path):
    repo = dataset("pir-ambigqa").hf_repo
    with pytest.raises(MissingDataError, match=repo):
        fetch("pir-ambigqa")
    hub_clone(monkeypatch, tmp_path, repo, corpus=rows(1))
    (tmp_path / "hf" / repo / ".git").mkdir()
    (tmp_path / "hf" / repo / ".git" / "config").touch()
    assert fetch("pir-ambigqa") == [tmp_path / "cache" / "data" / "pir-ambigqa" / "corpus.jsonl"]


def test_a_hub_that_refuses(monkeypatch):
    import datasets
    import huggingface_hub

    def refuse(*args, **kwargs):
        raise ConnectionError("403 Forbidden")

    monkeypatch.setattr(socket, "getaddrinfo", lambda *args: [])
    monkeypatch.setattr(datasets, "load_dataset", refuse)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(MissingDataError, match=r"timchen0618/Kialo.*403"):
        fetch("kialo")
    with pytest.raises(MissingDataError, match=r"pir-story.*403"):
        fetch("pir-story")


def test_what_fetching_needs_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingDataError, match=r"berdslib\[hub\]"):
        fetch("kialo")


# ---------------------------------------------------------------- Theperspective and passages


def test_theperspective(data):
    content = {"id": "some thing_1", "title": "Cats?", "t1": "Cats.", "t2": "No cats.", "favor_ids": [2]}
    content["against_ids"] = [0, 1]
    name, path = "theperspective", data / "theperspective" / "queries.jsonl"
    write_jsonl(path, [content])
    write_jsonl(path.with_name("corpus.jsonl"), [{"id": i, "content": f"text {i}"} for i in range(3)])
    question = Question(f"{name}-some-thing_1", "Cats?", ("Cats.", "No cats."), (SUPPORT, OPPOSE), name, "")
    assert load_questions(name) == load_questions(name, "all") == [question]
    assert load_passages(name)[2] == Passage("2", "text 2")
    gold = load_gold(name)
    assert gold[["pid", "docno"]].values.tolist() == [[0, "2"], [1, "0"], [1, "1"]]
    assert set(gold["qid"]) == {question.qid}
    with pytest.raises(InputError, match=r"'theperspective'.*'dev'"):
        load_questions(name, "dev")
    for field, ids in (("against_ids", [1, "1"]), ("favor_ids", "2")):
        write_jsonl(path, [content | {field: ids}])
        with pytest.raises(InputError) as refused:
            load_gold(name)
        assert (refused.value.line, refused.value.field) == (1, field)


def test_the_dpr_dump_is_read_as_it_is(tmp_path):
    folder = tmp_path / "cache" / "data" / "wikipedia"
    folder.mkdir(parents=True)
    with gzip.open(folder / "psgs_w100.tsv.gz", "wt") as file:
        file.write('id\ttext\ttitle\n1\t"a ""quoted"" text"\tOne\n2\tplain text\tTwo\n')
    assert load_passages("wikipedia", limit=1) == [Passage("1", 'a "quoted" text', "One")]
    assert len(load_passages("wikipedia")) == 2


# ---------------------------------------------------------------- statistics


def test_statistics_by_hand():
    questions = [
        Question("1", "Is it?", ("It isn't so.", "It is."), (None, None), "", "dev"),  # It | is | n't | so | .
        Question("2", "Is it?", ("Yes, it is.",), (None,), "", "test"),
        Question("3", "Is it?", (), (), "", ""),
    ]
    assert statistics(questions) == {"n": 3, "dev": 1, "test": 1, "mean_perspectives": 1.0, "mean_words": 13 / 3}
    assert np.isnan(statistics(questions[2:])["mean_words"])
    with pytest.raises(InputError):
        statistics([])


# ---------------------------------------------------------------- pins of the real data


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "n", "first", "last", "perspectives", "words", "expansions"),
    [
        ("arguana", 177, ("753", "239b81ea0901"), ("998", "0eff7dbc8240"), 2.0, 12.80, 1065),
        ("kialo", 202, ("774", "354354f0c326"), ("1031", "0e07e98bca48"), 2.416, 15.62, 1232),
        ("opinionqa", 231, ("883", "592b4678d396"), ("1174", "1290f544c713"), 2.0, 15.24, 1401),
    ],
)
def test_berds_dev_questions(real_data, name, n, first, last, perspectives, words, expansions):
    questions, recorded = load_questions(name, "dev"), load_expansions(name)
    ends = [(q.qid, digest("\n".join((q.text, *q.perspectives)))) for q in (questions[0], questions[-1])]
    assert ends == [(f"{name}-{number}", text) for number, text in (first, last)]
    table = statistics(questions)
    assert (table["n"], table["dev"], table["test"]) == (n, n, 0) and {q.source for q in questions} == {name}
    assert table["mean_perspectives"] == pytest.approx(perspectives, abs=0.001)
    assert table["mean_words"] == pytest.approx(words, abs=0.01)
    assert recorded.keys() == {q.qid for q in questions} and sum(map(len, recorded.values())) == expansions


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "n", "first", "last"),
    [
        ("theperspective", 4107, ("0", "490723c21a16"), ("4106", "31abfb4a4883")),
        ("arguana-corpus", 8561,
         ("arts-human-rights-thbt-social-disgust-legitimate-grounds-res-con01a-point", "b3ecd4b7ec2f"),
         ("olympics-house-would-ban-countries-very-harsh-training-metho-pro04b-counter", "35517ccbba5b")),
        ("wikipedia-articles", 1019, ("t1/1", "96f8a6d44e5f"), ("t994/3518", "5123d164809f")),
        ("perspectrum-debates", 3939, ("debatewise-0-for-0", "028544962bc4"), ("procon-49-against-2", "593f9504c86e")),
    ],
)  # fmt: skip
def test_passages(real_data, name, n, first, last):
    passages = load_passages(name)
    assert len(passages) == n
    assert [(p.docno, digest(p.text)) for p in (passages[0], passages[-1])] == [first, last]


@pytest.mark.real_data
def test_theperspective_questions_and_gold(real_data):
    questions, gold = load_questions("theperspective"), load_gold("theperspective")
    ends = [(q.qid.removeprefix("theperspective-"), digest(q.text)) for q in (questions[0], questions[-1])]
    assert ends == [("Entertainment_2", "81eeea3f21cb"), ("businessandtechnology_41", "97fbac61515b")]
    assert len(questions) == 134 and not any(" " in q.qid for q in questions)
    assert {q.stances for q in questions} == {(SUPPORT, OPPOSE)}
    assert gold["pid"].value_counts().to_dict() == {0: 448, 1: 449}  # 399 and 400 in the file, and their copies
    assert set(gold["qid"]) == {q.qid for q in questions}
    assert set(gold["docno"]) <= {p.docno for p in load_passages("theperspective")}
    assert gold.iloc[0][["qid", "pid", "docno"]].tolist() == ["theperspective-Entertainment_10", 0, "1027"]


@pytest.mark.real_data
def test_what_the_cards_say_about_files_without_a_loader(real_data):
    sizes = {"argkp": 23_015, "ex-fever": 4_568, "explagraphs": 2_766, "pers-det": 274, "claim-stance": 1_737}
    for name, n in sizes.items():
        path = next(p for p in (real_data / local for local in dataset(name).local) if p.is_file())
        assert len(pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")) == n, name
    assert len(load_passages("wikipedia-articles:words")) == 32_828


# ---------------------------------------------------------------- BEIR folders


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "nfcorpus"
    write_jsonl(folder / "queries.jsonl", [{"_id": i, "text": f"{i}?"} for i in ("q1", "q2", "q3")])
    write_passages(folder / "corpus.jsonl", [Passage("d1", "t"), Passage("d2", "u")])
    (folder / "qrels").mkdir()
    head = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "test.tsv").write_text(f"{head}q1\td1\t1\n")
    (folder / "qrels" / "dev.tsv").write_text(f"{head}q2\td1\t0\nq2\td2\t2\nq1\td1\t0\n")
    return folder


def test_a_beir_folder_is_a_data_set(beir):
    assert load_questions(beir) == [Question("q1", "q1?", ("q1?",), (None,), "nfcorpus", "test")]
    assert [q.qid for q in load_questions(str(beir), "dev")] == ["q1", "q2"]
    assert [(q.qid, q.split) for q in load_questions(beir, "all")] == [("q1", "test"), ("q2", "dev")]
    assert load_questions(beir, "all", limit=1)[0].qid == "q1"
    assert [p.docno for p in load_passages(beir)] == ["d1", "d2"]
    gold = load_gold(beir)[["qid", "docno", "supports"]].values.tolist()  # of q1, which two splits judge, test counts
    assert gold == [["q1", "d1", True], ["q2", "d1", False], ["q2", "d2", True]]
    with pytest.raises(InputError, match="train"):
        load_questions(beir, "train")
    (beir / "qrels" / "test.tsv").rename(beir / "qrels" / "train.tsv")
    assert [q.qid for q in load_questions(beir)] == ["q1", "q2"]  # the first, as with every data set
