"""Nuggets and aspects as perspectives: what is read, what is refused, and measures worked out by hand.

The published files are not at hand. FreshStack's layout is that of its own loader (package freshstack, 0.0.6); every
sentence here is ours.
"""

import json
import logging
from math import log2

import pandas as pd
import pytest

import berdslib as bd
from berdslib.data.datasets import card, fetch, load, load_gold, load_passages, load_questions
from berdslib.data.formats import export_collection
from berdslib.data.readers import nuggets_at, read_nuggets
from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.data.tables import write_jsonl
from berdslib.errors import InputError, MissingDataError
from berdslib.evaluation.measures import Coverage, MRecall, Precision, alpha_nDCG, score_run


@pytest.fixture(autouse=True)
def own_places(monkeypatch, tmp_path, user_cache):
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("BERDS_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("BERDS_HF_DIR", raising=False)


def nugget(number, text, yes, no=()):
    return {"_id": f"7_{number}", "text": text, "relevant_corpus_ids": list(yes), "non_relevant_corpus_ids": list(no)}


QUERY = {
    "query_id": 7,
    "query_title": "My chain forgets.",
    "query_text": "How do I keep what was said?",
    "answer_id": 8,
    "answer_text": "Give it a memory, and save that to a file.",
    "nuggets": [
        nugget(0, "A chain takes a memory.", ["docs/memory.md_0_90", "docs/chain.md_0_80"], ["docs/save.md_0_70"]),
        nugget(1, "A memory can be saved to a file.", ["docs/save.md_0_70", "docs/memory.md_0_90"]),
        nugget(2, "Old turns can be summed up.", ["docs/sum.md_0_60"], ["docs/other.md_0_50"]),
    ],
}
TEXTS = {
    "docs/memory.md_0_90": "class Memory: ...",
    "docs/chain.md_0_80": "Chain(memory=...)",
    "docs/save.md_0_70": "memory.save(path)",
    "docs/sum.md_0_60": "memory.sum_up()",
    "docs/other.md_0_50": "def unrelated(): ...",
}
CORPUS = [{"_id": docno, "title": "", "text": text, "metadata": {"size": 1}} for docno, text in TEXTS.items()]


def written(folder, *rows):
    write_jsonl(folder / "queries.jsonl", rows)
    write_jsonl(folder / "corpus.jsonl", CORPUS)
    return folder


def edited(**fields):
    return {name: value for name, value in (QUERY | fields).items() if value is not None}


# ---------------------------------------------------------------- FreshStack


def assert_is_freshstack(found, name):
    assert list(found.questions) == [
        Question(
            "7",
            "My chain forgets. How do I keep what was said?",
            ("A chain takes a memory.", "A memory can be saved to a file.", "Old turns can be summed up."),
            (None,) * 3,
            name,
        )
    ]
    assert [passage[:3] for passage in found.passages] == [(docno, text, "") for docno, text in TEXTS.items()]
    assert found.gold[["qid", "pid", "docno", "supports"]].values.tolist() == [
        ["7", 0, "docs/chain.md_0_80", True],
        ["7", 0, "docs/memory.md_0_90", True],
        ["7", 0, "docs/save.md_0_70", False],
        ["7", 1, "docs/memory.md_0_90", True],
        ["7", 1, "docs/save.md_0_70", True],
        ["7", 2, "docs/other.md_0_50", False],
        ["7", 2, "docs/sum.md_0_60", True],
    ]


def test_a_topic_by_its_name(tmp_path):
    written(tmp_path / "data" / "freshstack" / "langchain", QUERY)
    found = load("freshstack-langchain")
    assert found.name == "freshstack-langchain"
    assert_is_freshstack(found, "freshstack-langchain")
    with pytest.raises(MissingDataError, match="'freshstack-yolo'"):
        load("freshstack-yolo")
    with pytest.raises(InputError, match="freshstack-langchain"):
        load("freshstack-langchain", split="test")


def test_a_folder_by_its_path(tmp_path):
    folder = written(tmp_path / "mine", QUERY)
    assert_is_freshstack(load(folder), "mine")
    assert_is_freshstack(load(str(folder)), "mine")
    assert len(load_questions(folder)) == 1 and len(load_gold(folder)) == 7 and len(load_passages(folder)) == 5
    assert load_questions(str(folder), "all")[0].source == "mine"


def test_a_file_by_its_path_searches_a_corpus_that_is_named(tmp_path):
    folder = written(tmp_path / "mine", QUERY)
    found = load(folder / "queries.jsonl", passages=folder / "corpus.jsonl")
    assert_is_freshstack(found, "queries")
    assert len(load(folder / "queries.jsonl").passages) == 0
    with pytest.raises(InputError, match="'queries'"):
        load_passages(folder / "queries.jsonl")


def hub_clone(folder, repo, **configs):
    """A local clone of a Hugging Face repository whose subsets have one split each."""
    listed = [
        f"- config_name: {name}\n  data_files:\n  - split: {split}\n    path: {name}/rows.jsonl"
        for name, (split, _) in configs.items()
    ]
    for name, (_, rows) in configs.items():
        write_jsonl(folder / repo / name / "rows.jsonl", rows)
    (folder / repo / "README.md").write_text("---\nconfigs:\n" + "\n".join(listed) + "\n---\n")


@pytest.mark.slow
def test_a_topic_is_fetched_from_its_two_repositories(tmp_path, monkeypatch, user_cache):
    clones = tmp_path / "clones"
    other = edited(query_id=9)
    hub_clone(clones, "freshstack/queries-oct-2024", langchain=("test", [QUERY]), yolo=("test", [other]))
    hub_clone(clones, "freshstack/corpus-oct-2024", langchain=("train", CORPUS), yolo=("validation", CORPUS))
    monkeypatch.setenv("BERDS_HF_DIR", str(clones))
    assert "berds data fetch freshstack-langchain" in card("freshstack-langchain")
    cached = user_cache / "data" / "freshstack-langchain"
    assert fetch("freshstack-langchain") == [cached / "queries.jsonl", cached / "corpus.jsonl"]
    assert_is_freshstack(load("freshstack-langchain"), "freshstack-langchain")
    with pytest.raises(MissingDataError, match=r"yolo.*'train'.*validation"):
        fetch("freshstack-yolo")
    with pytest.raises(MissingDataError, match="clones/freshstack/queries-oct-2024"):
        fetch("freshstack-godot")


def test_a_passage_listed_both_ways_does_not_support_and_is_counted(tmp_path, caplog):
    both = nugget(0, "A chain takes a memory.", ["a", "b", "a"], ["b"])
    path = written(tmp_path, edited(nuggets=[both, nugget(1, "Nothing says so.", [], ["a"])])) / "queries.jsonl"
    with caplog.at_level(logging.WARNING):
        _, gold = read_nuggets(path)
    assert gold[["pid", "docno", "p_yes", "supports"]].values.tolist() == [
        [0, "a", 1.0, True],
        [0, "b", 0.0, False],
        [1, "a", 0.0, False],
    ]
    assert ["1" in record.message for record in caplog.records] == [True, True]


# ---------------------------------------------------------------- BRIGHT-Pro and others


BRIGHT = {
    "examples": [{"id": 0, "query": "Why do moths circle a lamp?", "gold_ids": ["flight.txt", "lamp.txt"]}],
    "aspects": [
        {
            "id": "earth-0-a1",
            "content": "How they hold a course",
            "weight": 3,
            "supporting_docs": ["flight.txt", "moon.txt"],
        },
        {"id": "earth-0-a2", "content": "What a near light does", "weight": 1, "supporting_docs": ["lamp.txt"]},
    ],
    "documents": [{"id": name, "content": "Moths."} for name in ("flight.txt", "moon.txt", "lamp.txt")],
}


def assert_is_bright(found, name):
    texts = ("How they hold a course", "What a near light does")
    asked = Question("0", "Why do moths circle a lamp?", texts, source=name, weights=(0.75, 0.25))
    assert found.questions == (asked,) and found.gold["supports"].all()
    assert found.gold[["pid", "docno"]].values.tolist() == [[0, "flight.txt"], [0, "moon.txt"], [1, "lamp.txt"]]
    assert found.passages[1] == Passage("moon.txt", "Moths.")
    scores = score_run(ranked_run({"0": ["moon.txt", "lamp.txt", "flight.txt"]}), found.gold, found.questions, _WEIGHED)
    # A-Recall; then gains of .75, .25 and, the first aspect again, .375, whose best order is .75, .375, .25.
    ratio = (0.75 + 0.25 / log2(3) + 0.375 / 2) / (0.75 + 0.375 / log2(3) + 0.25 / 2)
    assert scores.loc["0"].tolist() == pytest.approx([0.75, 1, 1, ratio])


_WEIGHED = [Coverage @ 1, Coverage @ 2, Coverage @ 3, alpha_nDCG(alpha=0.5) @ 3]


def test_aspects_with_weights_by_name_and_by_path(tmp_path):
    folder = tmp_path / "data" / "bright-pro" / "earth-science"
    folder.mkdir(parents=True)
    for name, rows in BRIGHT.items():
        pd.DataFrame(rows).to_parquet(folder / f"{name}.parquet")
    assert_is_bright(load("bright-pro-earth-science"), "bright-pro-earth-science")
    assert_is_bright(load(folder), "earth-science")
    with pytest.raises(MissingDataError, match="'bright-pro-biology'"):
        load("bright-pro-biology")


@pytest.mark.parametrize("ending", [".json", ".parquet", "-00000-of-00001.parquet"])
def test_aspects_as_downloaded(tmp_path, ending):
    """A task is a file in three folders; both spellings of an aspect's id are published."""
    spelt = [{**aspect, "id": aspect["id"].replace("-a", "-aspect-")} for aspect in BRIGHT["aspects"]]
    for name, rows in {**BRIGHT, "aspects": spelt}.items():
        (tmp_path / name).mkdir()
        for task in ("earth-science", "robotics"):
            path = tmp_path / name / f"{task}{ending}"
            if ending == ".json":
                path.write_text(json.dumps(rows), encoding="utf-8")
            else:
                pd.DataFrame(rows).to_parquet(path)
    assert_is_bright(load(tmp_path / "earth-science"), "earth-science")
    with pytest.raises(InputError, match=r"earth-science, robotics"):
        load(tmp_path)
    with pytest.raises(InputError, match=r"no such task.* earth-science, robotics"):
        load(tmp_path / "earthscience")
    for name in BRIGHT:
        (tmp_path / name / f"robotics{ending}").unlink()
    assert_is_bright(load(tmp_path), "earth-science")  # the only one
    (tmp_path / "documents" / f"earth-science{ending}").unlink()
    with pytest.raises(InputError, match="documents"):
        load(tmp_path)


def test_aspects_whose_task_is_a_folder_of_each_table(tmp_path):
    for name, rows in BRIGHT.items():
        (tmp_path / name / "earth-science").mkdir(parents=True)
        pd.DataFrame(rows).to_parquet(tmp_path / name / "earth-science" / "test-00000-of-00001.parquet")
    assert_is_bright(load(tmp_path / "earth-science"), "earth-science")
    write_jsonl(tmp_path / "aspects" / "earth-science" / "more.jsonl", BRIGHT["aspects"])
    with pytest.raises(InputError, match="not 2"):
        load(tmp_path / "earth-science")


def test_b26_a_document_that_supports_two_aspects_counts_for_both():
    """BRIGHT-Pro's scripts count it for the first aspect that lists it, and only if it is in gold_ids."""
    gold = {"a": [0, 1], "b": [1], "c": [0]}  # document → aspects
    verdicts = make_verdicts([("q", pid, docno, 1.0, True) for docno, pids in gold.items() for pid in pids], "gold")
    questions = [Question("q", "Why?", ("one", "two"))]
    run = ranked_run({"q": ["a", "c"]})
    assert score_run(run, verdicts, questions, [Coverage @ 2]).loc["q"].tolist() == [1.0]
    theirs = {gold[docno][0] for docno in ["a", "c"]}
    assert len(theirs) / 2 == 0.5


@pytest.mark.slow
def test_aspects_are_fetched_from_three_subsets(tmp_path, monkeypatch, user_cache):
    configs = {name: ("earth_science", rows) for name, rows in BRIGHT.items()}
    hub_clone(tmp_path / "clones", "yale-nlp/Bright-Pro", **configs)
    monkeypatch.setenv("BERDS_HF_DIR", str(tmp_path / "clones"))
    assert [path.name for path in fetch("bright-pro-earth-science")] == [f"{name}.jsonl" for name in BRIGHT]
    assert_is_bright(load("bright-pro-earth-science"), "bright-pro-earth-science")


@pytest.mark.parametrize(
    ("table", "change", "line", "field"),
    [
        ("aspects", {"id": "earth-7-a1"}, 1, "id"),
        ("aspects", {"id": "earth-0-a2"}, 2, "id"),
        ("aspects", {"weight": "much"}, 1, "weight"),
        ("aspects", {"weight": -1}, None, "weights"),
        ("aspects", {"supporting_docs": "flight.txt"}, 1, "supporting_docs"),
        ("examples", {"id": 1}, 1, "id"),
    ],
)
def test_aspects_that_are_refused(tmp_path, table, change, line, field):
    for name, rows in BRIGHT.items():
        changed = [{**rows[0], **change}, *rows[1:]] if name == table else rows
        write_jsonl(tmp_path / f"{name}.jsonl", changed)
    with pytest.raises(InputError) as refused:
        load(tmp_path)
    assert (refused.value.line, refused.value.field) == (line, field)


def test_an_example_without_aspects_is_refused(tmp_path):
    rows = {**BRIGHT, "examples": [*BRIGHT["examples"], {"id": 5, "query": "Why do they burn?"}]}
    for name, listed in rows.items():
        write_jsonl(tmp_path / f"{name}.jsonl", listed)
    with pytest.raises(InputError, match="'5'"):
        load(tmp_path)


def test_nuggets_that_are_texts_alone_have_no_verdicts_yet(tmp_path):
    row = {
        "topic_id": 12,
        "query": "Should zoos close?",
        "nuggets": ["Animals suffer in cages.", "Zoos breed rare animals."],
    }
    path = tmp_path / "coverage.jsonl"
    write_jsonl(path, [row])
    found = load(path)
    assert (
        found.gold is None
        and found.questions[0].perspectives == tuple(row["nuggets"])
        and found.questions[0].qid == "12"
    )
    judged = [
        {"text": "Animals suffer.", "docnos": ["a"], "weight": 2},
        {"text": "They breed.", "docnos": ["b"], "weight": 1},
    ]
    write_jsonl(path, [{**row, "nuggets": judged}])
    assert load(path).questions[0].weights == (2.0, 1.0) and len(load(path).gold) == 2


def test_what_is_taken_for_nuggets(tmp_path):
    folder = written(tmp_path / "mine", QUERY)
    assert nuggets_at(folder) and nuggets_at(folder / "queries.jsonl")
    for row in (
        {"question": "Is it?", "perspectives": ["So."], "aspects": [{"text": "So."}]},  # a set of the usual kind
        {"question": "Is it?", "aspects": ["sound", "light"]},
        {"question": "Is it?"},
        {"topic_id": "7", "question": "Is it?"},
    ):
        write_jsonl(tmp_path / "other.jsonl", [row])
        assert not nuggets_at(tmp_path / "other.jsonl")
    (tmp_path / "broken.jsonl").write_text("{\n")
    assert not any(nuggets_at(tmp_path / name) for name in ("broken.jsonl", "nothing.jsonl", "", "mine/corpus.jsonl"))
    with pytest.raises(InputError, match=r"broken\.jsonl:1"):
        load(tmp_path / "broken.jsonl")


# ---------------------------------------------------------------- nugget banks of AutoNuggetizer and AutoJudge


SHORT = {"Why do they circle?": ["OR", {"a light": ["d1", "d2"], "the moon": ["d3"]}],
         "Where do they live?": ["AND", {"in woods": ["d1"], "in towns": ["d4"]}]}  # fmt: skip
V3 = {
    "query_id": "7",
    "title_query": "Why do moths circle a lamp?",
    "format_version": "v3",
    "nugget_bank": {
        "Why do they circle?": {
            "question": "Why do they circle?",
            "answers": {
                "a light": {"answer": "a light", "references": [{"doc_id": "d1"}, {"doc_id": "d2"}]},
                "the moon": {"answer": "the moon", "references": ["d3"]},
            },
        },
        "Where do they live?": {
            "question": "Where do they live?",
            "answers": [{"answer": "in woods", "references": ["d1"]}, {"answer": "in towns", "references": ["d4"]}],
            "aggregator_type": "AND",
        },
    },
    "claim_bank": {"Moths are blind.": {"claim": "Moths are blind.", "references": [{"doc_id": "d5"}]}},
}
PERSPECTIVES = ("Why do they circle?", "Where do they live? in woods", "Where do they live? in towns")
SUPPORTED = [[0, "d1"], [0, "d2"], [0, "d3"], [1, "d1"], [2, "d4"]]


def test_a_bank_in_the_short_form_has_its_topic_in_the_name_of_its_file(tmp_path):
    for qid in ("7", "x1"):
        (tmp_path / f"nuggets_{qid}.json").write_text(json.dumps(SHORT), encoding="utf-8")
    found = load(tmp_path)
    assert [q.qid for q in found.questions] == ["7", "x1"] and found.questions[0].perspectives == PERSPECTIVES
    assert found.gold.query("qid == '7'")[["pid", "docno"]].values.tolist() == SUPPORTED
    assert len(load(tmp_path / "nuggets_7.json").questions) == 1


def test_banks_as_the_gold_of_questions_with_texts(tmp_path):
    """The questions get the nuggets, also an unsupported one; other perspectives are refused, the same ones are not."""
    bank = SHORT | {"Can they see?": ["OR", {"no": []}]}
    (tmp_path / "nuggets_7.json").write_text(json.dumps(bank), encoding="utf-8")
    topics = [{"qid": "7", "question": "Why do moths circle?"}, {"qid": "8", "question": "Why do they burn?"}]
    found = load(topics, gold=tmp_path)
    asked, other = found.questions
    assert (asked.text, asked.perspectives) == ("Why do moths circle?", (*PERSPECTIVES, "Can they see?"))
    assert other.perspectives == (other.text,) and found.gold[["pid", "docno"]].values.tolist() == SUPPORTED
    same = [{**topics[0], "perspectives": [*asked.perspectives]}]
    assert load(same, gold=tmp_path).questions[0].perspectives == asked.perspectives
    with pytest.raises(InputError, match="'Moths err"):
        load([{**topics[0], "perspectives": ["Moths err.", *asked.perspectives[1:]]}], gold=tmp_path)


def test_ids_that_stand_in_for_texts_are_noted(tmp_path, caplog):
    (tmp_path / "nuggets_7.json").write_text(json.dumps(SHORT), encoding="utf-8")
    load([{"qid": "7", "question": "Why do moths circle?"}], gold=tmp_path)
    assert "stand in" not in caplog.text
    load(tmp_path)
    assert "stand in" in caplog.text


def test_a_caption_says_that_ids_were_searched_for(tmp_path):
    (tmp_path / "nuggets_7.json").write_text(json.dumps(SHORT), encoding="utf-8")
    passages = [Passage(docno, f"Moths, text 7 of {docno}") for _, docno in SUPPORTED[:3]]
    said = "id was searched for"
    alone = load(tmp_path, passages=passages)
    result = bd.experiment("bm25", alone, "Coverage@3")
    assert said in result.caption
    assert said not in bd.experiment(result.runs, alone, "Coverage@3").caption
    topics = [{"qid": "7", "question": "Why do moths circle?"}]
    assert said not in bd.experiment("bm25", load(topics, passages=passages, gold=tmp_path), "Coverage@3").caption


@pytest.mark.parametrize("name", ["banks.json", "banks.jsonl", "nuggets_7.json"])
def test_a_bank_of_the_third_version(tmp_path, name):
    indent = None if name.endswith("l") else 1
    (tmp_path / name).write_text(json.dumps(V3, indent=indent) + "\n", encoding="utf-8")
    found = load(tmp_path / name)
    assert found.questions == (
        Question("7", V3["title_query"], (*PERSPECTIVES, "Moths are blind."), (None,) * 4, name.split(".")[0]),
    )
    assert found.gold[["pid", "docno"]].values.tolist() == [*SUPPORTED, [3, "d5"]]


def test_perspectives_are_written_as_banks_and_read_back(tmp_path):
    sample = load("sample")
    export_collection(tmp_path / "banks", sample.questions, [], sample.gold, layout="nuggets")
    found = load(tmp_path / "banks")
    pairs = ["qid", "pid", "docno"]
    yes = sample.gold[sample.gold["supports"] & sample.gold["qid"].isin([q.qid for q in sample.questions])]
    assert found.gold[pairs].values.tolist() == yes.sort_values(pairs)[pairs].values.tolist()
    assert {q.qid: q.perspectives for q in found.questions} == {q.qid: q.perspectives for q in sample.questions}


@pytest.mark.parametrize(
    ("bank", "field"),
    [
        ({"Why?": ["XOR", {"a": ["d1"]}]}, "Why?"),
        ({"Why?": {"a": ["d1"]}}, "Why?"),
        ({"Why?": ["OR", {"a": "d1"}]}, "Why?.a"),
        ({}, "nuggets"),
        (["Why?"], None),
        ("Why?", None),
        ({**V3, "nugget_bank": "none"}, "nugget_bank"),
        ({**V3, "nugget_bank": [{"answers": []}]}, "nugget_bank[0].question"),
        ({**V3, "claim_bank": [{"claim": "So.", "references": [{"id": 1}]}]}, "claim_bank[0].references[0].doc_id"),
        ({**V3, "query_id": None}, "query_id"),
    ],
)
def test_banks_that_are_refused(tmp_path, bank, field):
    (tmp_path / "nuggets_7.json").write_text(json.dumps(bank), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load(tmp_path)
    assert refused.value.field == field


# ---------------------------------------------------------------- measures, by hand


def scores(found, *docnos):
    run = ranked_run({"7": docnos})
    measures = [Coverage @ 2, Coverage @ 3, MRecall @ 2, MRecall @ 3, Precision @ 3, alpha_nDCG(alpha=0.5) @ 3]
    return score_run(run, found.gold, found.questions, measures).loc["7"].tolist()


def test_measures_of_nuggets(tmp_path):
    found = load(written(tmp_path / "mine", QUERY))
    memory, chain, save, summed, other = TEXTS
    # memory has nuggets 0 and 1, chain 0, save 1, summed 2. Gains with alpha 1/2, each repeat of a nugget halved:
    best = 2 / log2(2) + 1 / log2(3) + 0.5 / log2(4)  # memory, summed, then chain or save
    assert scores(found, memory, summed, chain) == pytest.approx([1, 1, 1, 1, 1, 1])
    # memory shows 2 of 3 nuggets, chain none that is new, save neither; nobody shows the third. With two passages for
    # three nuggets MRecall asks for two of them.
    worse = 2 / log2(2) + 0.5 / log2(3) + 0.5 / log2(4)
    assert scores(found, memory, chain, save) == pytest.approx([2 / 3, 2 / 3, 1, 0, 1, worse / best])
    # save was judged not to support nugget 0, and other not nugget 2.
    late = 0 / log2(2) + 1 / log2(3) + 1 / log2(4)
    assert scores(found, other, save, chain) == pytest.approx([1 / 3, 2 / 3, 0, 0, 2 / 3, late / best])
