"""Chains and PIR from the shell: the same numbers as their parts in Python."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from layouts import write_pir
from shell import berds, tried

from berdslib.data.datasets import load_expansions, load_passages, load_questions
from berdslib.data.pir import full_queries, load_pir
from berdslib.data.pir_sample import location_task
from berdslib.data.records import Passage, Question
from berdslib.data.trec import read_trec_run
from berdslib.errors import InputError
from berdslib.evaluation.perspective_recall import extend_gold, p_recall
from berdslib.llm.chat import Reply
from berdslib.llm.extraction import extract, extract_with
from berdslib.llm.recorded import Recording
from berdslib.models.cards import CARDS, ModelCard
from berdslib.retrieval.expansion import chat_expansions, expanded_search, hyde_expansions
from berdslib.retrieval.retrievers import make_retriever
from berdslib.study import named_systems as named_systems_module
from berdslib.study.named_systems import known_expansions, named_systems
from berdslib.study.pir import score_methods


@pytest.fixture(autouse=True)
def _own_cache(user_cache):
    pass


def test_a_chain_is_a_retriever_in_the_shell(tmp_path):
    out = str(tmp_path / "run.trec")
    berds("retrieve", "-q", "sample", "--split", "dev", "-r", "bm25+expand:recorded", "-k", "5", "-o", out)
    questions, passages = load_questions("sample", "dev"), load_passages("sample")
    expected = expanded_search(make_retriever("bm25", passages), questions, load_expansions("sample", "dev"), 5)
    assert read_trec_run(out)[["qid", "docno"]].values.tolist() == expected[["qid", "docno"]].values.tolist()


@pytest.mark.slow
def test_an_experiment_takes_chains_of_every_kind():
    names = "bm25,bm25+expand:rule,bm25+coverage:0.5"
    table = json.loads(berds("experiment", "-q", "sample", "--split", "dev", "-r", names, "--json").stdout)
    assert {row["system"] for row in table} == set(names.split(","))


@pytest.mark.slow
def test_the_python_of_the_readme_runs_as_it_is_printed(capsys):
    page = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.M | re.S)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 2 and "MRecall@5" in capsys.readouterr().out
    assert list(names["systems"]) == ["bm25+mmr:0.9", "bm25+expand:rule", "minilm+expand:recorded+coverage:0.5"]
    assert set(names["run"]["qid"]) == {q.qid for q in load_questions("sample", "test")}


@pytest.mark.slow
def test_depth_says_how_many_candidates_are_chosen_from(tmp_path):
    def found(*more):
        out = str(tmp_path / "run.trec")
        berds("retrieve", "-q", "sample", "--split", "dev", "-r", "bm25+cover:0.1", "-k", "5", "-o", out, *more)
        return read_trec_run(out).groupby("qid")["docno"].agg(set)

    plain = make_retriever("bm25", load_passages("sample")).search(load_questions("sample", "dev"), 5)
    assert found("--depth", "5").to_dict() == plain.groupby("qid")["docno"].agg(set).to_dict()
    assert found().to_dict() != found("--depth", "5").to_dict()


def test_depth_reaches_a_cross_encoder(monkeypatch):
    monkeypatch.setattr("berdslib.retrieval.retrievers.load_scorer", lambda *_, **__: lambda pairs: range(len(pairs)))
    questions, passages = load_questions("sample", "dev"), load_passages("sample")
    for name, depth in (("bm25+cross:any/model", 3), ("bm25", 300)):
        run = named_systems([name], passages, {}, depth=depth)[name].search(questions, 3)
        assert run["rank"].max() == 3
    with pytest.raises(InputError, match="raise depth"):
        named_systems(["bm25+cross:any/model"], passages, {}, depth=3)["bm25+cross:any/model"].search(questions, 4)


def test_an_unknown_part_is_named_before_anything_is_built():
    result = tried("experiment", "-q", "sample", "-r", "bm25+mrm:0.5")
    assert result.exit_code != 0 and "bm25+mrm:0.5" in result.output


def test_files_have_no_recorded_expansions_and_rules_are_always_there(tmp_path):
    questions = load_questions("sample", "dev")
    assert set(known_expansions(["sample"], "dev", questions)) == {"recorded", "rule"}
    assert set(known_expansions([str(tmp_path)], "dev", questions)) == {"rule"}


@pytest.mark.slow
def test_pir_in_the_shell_is_score_methods(tmp_path):
    task = location_task()
    write_pir(task, tmp_path / "pir.json")
    table = json.loads(berds("pir", "-d", str(tmp_path / "pir.json"), "-m", "baseline,pap", "-k", "3", "--json").stdout)
    expected = score_methods(str(tmp_path / "pir.json"), [], ["baseline", "pap"], k=3)
    assert [row["mean"] for row in table] == pytest.approx(expected["mean"].tolist())
    # The baseline is what the retriever itself finds.
    run = make_retriever("minilm", task.passages).search(full_queries(task), 3)
    assert table[0]["mean"] == pytest.approx(p_recall(run, task.queries, 3)["p_recall"].mean())
    assert table[1]["mean"] < table[0]["mean"]  # where places are sought, PAP ruins


def test_the_judge_that_scores_and_re_ranks_is_told_off():
    said = berds("experiment", "-q", "sample", "--split", "dev", "-r", "bm25,bm25+coverage:0.5", "-j", "overlap",
                 "--aspect-judge", "overlap", "--limit", "2").stderr  # fmt: skip
    assert "any gain is circular" in said


def test_a_diversifier_reads_the_text_that_the_retriever_encoded(monkeypatch):
    """A card's title separator holds for both, so that no passage is encoded twice."""
    read = []

    class Listening:
        id = "listening"

        def encode_passages(self, texts):
            read.extend(texts)
            return np.eye(len(texts), 4, dtype=np.float32)

        encode_queries = encode_passages

    card = ModelCard("listening", "nowhere", title_separator=" [SEP] ")
    monkeypatch.setitem(CARDS, "listening", card)
    monkeypatch.setattr(named_systems_module, "get_encoder", lambda *_: Listening())
    passages = [Passage("d1", "Yes.", "Title"), Passage("d2", "No.", "Other")]
    systems = named_systems(["bm25+mmr:0.5"], passages, {}, encoder="listening")
    systems["bm25+mmr:0.5"].search([Question("q", "title other yes no")], 2)
    assert set(read) == {"Title [SEP] Yes.", "Other [SEP] No."}


# ---------------------------------------------------------------- made by a chat model, from recorded answers


class Model:
    """Says the same to all; what it was asked is kept."""

    id = "some-model"

    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    def complete(self, messages):
        self.asked += 1
        return Reply(self.answer(messages) if callable(self.answer) else self.answer)


@pytest.fixture
def two(monkeypatch, tmp_path):
    """The first two questions of the sample, and a folder to work in."""
    monkeypatch.chdir(tmp_path)
    return load_questions("sample", "dev", 2), load_passages("sample")


def listed(path):
    return read_trec_run(path)[["qid", "docno"]].values.tolist()


def retrieved(system):
    berds("retrieve", "-q", "sample", "--split", "dev", "--limit", "2", "-r", system, "-k", "5", "-o", "run.trec")
    return listed("run.trec")


def test_perspectives_of_a_chat_model_are_part_of_a_system_in_the_shell(two):
    questions, passages = two
    model = Model('{"For": "It helps many people.", "Against": "It costs too much money."}')
    made = chat_expansions(questions, Recording(model, Path("answers.jsonl")))
    first = make_retriever("bm25", passages)
    expected = expanded_search(first, questions, made, 5)[["qid", "docno"]].values.tolist()
    assert retrieved("bm25+expand:chat:recorded:answers.jsonl") == expected
    assert expected != first.search(questions, 5)[["qid", "docno"]].values.tolist()
    weighted = retrieved("bm25+expand:chat:recorded:answers.jsonl+mmr:1")
    assert weighted == expected


def test_a_hypothetical_passage_is_searched_alone(two):
    questions, passages = two
    made = hyde_expansions(questions, Recording(Model("Trams and buses run late."), Path("answers.jsonl")))
    expected = expanded_search(make_retriever("bm25", passages), questions, made, 5, merge="statement only")
    found = retrieved("bm25+expand:hyde:recorded:answers.jsonl")
    assert found == expected[["qid", "docno"]].values.tolist()
    assert [d for q, d in found if q == questions[0].qid] == [d for q, d in found if q == questions[1].qid]


def test_several_systems_ask_once(two, monkeypatch):
    questions, _ = two
    model = Model('{"For": "It helps."}')
    monkeypatch.setattr("berdslib.retrieval.expansion.make_chat", lambda *_, **__: model)
    names = ["bm25+expand:chat:m", "bm25+expand:chat:m+mmr:0.9", "bm25+expand:rule"]
    assert set(known_expansions([], None, questions, names)) == {"rule", "chat:m"}
    assert model.asked == len(questions)
    kept = Path("kept.jsonl")
    for _ in range(2):
        known_expansions([], None, questions, names, recordings=kept)
    assert model.asked == 2 * len(questions) == 2 * len(kept.read_text().splitlines())


def test_diversifiers_use_the_perspectives_of_the_model_and_never_a_hypothetical_passage(two, monkeypatch):
    _, passages = two
    used = []
    monkeypatch.setattr(named_systems_module, "judged_aspects", lambda generated, *_: used.append(generated))
    made = {
        "chat:m": {"q": [("For", "Yes.")]},
        "hyde:m": {"q": [("", "A passage.")]},
        "rule": {"q": [("Yes", "It is.")]},
    }
    names = [f"bm25+expand:{kind}+coverage:0.5" for kind in made]
    named_systems(names, passages, made, aspect_judge="overlap")
    assert used == [made["chat:m"], made["rule"], made["rule"]]


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("bm25+expand:chat:recorded:none.jsonl", "none.jsonl: cannot be read"),
        ("bm25+expand:chat:", "'' is not a chat model"),
        ("bm25+expand:caht:gpt", "unknown set of expansions 'caht:gpt'. Known: chat:MODEL, hyde:MODEL, recorded, rule"),
        ("bm25+coverage:0.5+expand:chat:gpt", "expand must come before coverage"),
    ],
)
def test_what_no_chat_model_can_make_is_said(two, system, said):
    result = tried("retrieve", "-q", "sample", "--split", "dev", "-r", system, "-o", "run.trec")
    assert result.exit_code == 1 and said in result.stderr and result.stderr.count("\n") == 1


# ---------------------------------------------------------------- PIR, its queries taken apart


def by_rule(messages):
    query = messages[-1]["content"].partition("<request>\n")[2].partition("\n</request>")[0]
    found = extract(query)
    return f"angle: {found.perspective}\ntopic: {found.root}"


@pytest.mark.slow
def test_pir_takes_queries_apart(tmp_path):
    task, path, answers = location_task(), tmp_path / "pir.json", tmp_path / "answers.jsonl"
    # The data set's own columns say nothing: what is found comes from the queries.
    blind = task._replace(queries=tuple(q._replace(perspective="something") for q in task.queries))
    write_pir(blind, path)
    asked = ("pir", "-d", path, "-m", "pap", "-k", "3", "--json")

    def mean(*more):
        return json.loads(berds(*asked, *more).stdout)[0]["mean"]

    perspectives = tuple(q._replace(**extract(q.text)._asdict()) for q in task.queries)
    write_pir(task._replace(queries=perspectives), tmp_path / "whole.json")
    expected = json.loads(berds("pir", "-d", tmp_path / "whole.json", *asked[3:]).stdout)[0]["mean"]
    assert mean("--extract", "rule") == expected != mean()
    recording = Recording(Model(by_rule), answers)
    extract_with(recording, [q.text for q in task.queries])
    assert mean("--extract", f"chat:recorded:{answers}") == expected
    assert (
        "unknown way to take queries apart 'rules'. Did you mean 'rule'?" in tried(*asked, "--extract", "rules").stderr
    )


@pytest.mark.slow
def test_queries_that_are_taken_apart_are_scored_under_the_roots_of_the_data_set(tmp_path):
    task = location_task()
    write_pir(task, tmp_path / "pir.json")
    roots = json.loads(berds("pir", "-d", tmp_path / "pir.json", "-m", "pap", "--extract", "rule", "--json").stdout)
    assert roots[0]["roots"] == len({q.root for q in task.queries})


@pytest.mark.slow
def test_official_gold_adds_that_of_the_other_queries_of_a_root(tmp_path):
    task = location_task()
    write_pir(task, tmp_path / "pir.json")
    read = load_pir(tmp_path / "pir.json")
    run = make_retriever("minilm", read.passages).search(full_queries(read), 3)
    for gold, queries in (("own", read.queries), ("official", extend_gold(read.queries))):
        asked = ("pir", "-d", tmp_path / "pir.json", "-m", "baseline", "-k", "3", "--gold", gold, "--json")
        mean = p_recall(run, queries, 3)["p_recall"].mean()
        assert json.loads(berds(*asked).stdout)[0]["mean"] == pytest.approx(mean)
    assert extend_gold(read.queries) != read.queries
