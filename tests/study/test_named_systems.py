"""Chains and PIR from the shell: the same numbers as their parts in Python."""

import json

import numpy as np
import pytest
from shell import berds, tried

from berdslib.data.datasets import load_expansions, load_passages, load_questions
from berdslib.data.pir import full_queries, write_pir
from berdslib.data.pir_sample import location_task
from berdslib.data.records import Passage, Question
from berdslib.data.trec import read_trec_run
from berdslib.errors import InputError
from berdslib.evaluation.perspective_recall import p_recall
from berdslib.models.cards import CARDS, ModelCard
from berdslib.retrieval.expansion import expanded_search
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


def test_an_experiment_takes_chains_of_every_kind():
    names = "bm25,bm25+expand:rule,bm25+coverage:0.5"
    table = json.loads(berds("experiment", "-q", "sample", "--split", "dev", "-r", names, "--json").stdout)
    assert {row["system"] for row in table} == set(names.split(","))


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
