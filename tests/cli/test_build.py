"""`berds build`, `berds data add` and `validate`, as a user meets them."""

import json

import pytest
from chat_server import SECRET, Billing, chat_server
from debater import Debater, write_arguments
from shell import berds, tried
from tiny import mistral_tokenizer

from berdslib.data.tables import read_jsonl
from berdslib.paths import shipped

pytestmark = pytest.mark.usefixtures("own_place")


@pytest.fixture
def tiny_chat(tmp_path):
    """The folder of a chat model with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    tokenizer = mistral_tokenizer(["Should zoos close? statement negation"])
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=4096, **shape))
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "my.txt"
    path.write_text("Should zoos close?\nWill trams help?\nWhat is best?\n", encoding="utf-8")
    return path


def test_from_a_text_file_to_an_experiment_in_four_commands(questions):
    said = berds("build", "questions", questions, "mine", "--licence", "CC0-1.0", "--source", "us", "-c", "sample")
    assert "2 questions (0 dev, 0 test), 2.00 perspectives" in said.stderr
    assert "nothing is wrong" in berds("data", "validate", "mine").stderr
    berds("data", "add", "mine")
    assert "my" not in berds("data", "card", "mine").output.partition("\n")[0]
    shown = berds("experiment", "-q", "mine", "-r", "bm25", "-j", "overlap", "--json").stdout
    assert json.loads(shown)[0]["n"] == 2


def test_counts_and_examples(questions):
    said = berds("build", "questions", questions, "mine", "--examples", 2).output
    assert [line.split() for line in said.splitlines()[:3]] == [
        ["step", "items", "asked", "left_out", "unanswered"],
        ["read", "3", "0", "0", "0"],
        ["statements", "3", "2", "0", "0"],
    ]
    assert "no rule (positions) my-3: a chat model is needed\n    What is best?" in said
    facts = json.loads(berds("build", "questions", questions, "mine", "--examples", 1, "--json").output)
    assert facts["questions"]["n"] == 2
    assert [row["reason"] for row in facts["examples"]] == ["no rule"]
    assert facts["steps"][-1] == {"step": "labels", "items": 2, "asked": 2, "left_out": 0, "unanswered": 0}


def test_texts_of_others_do_not_steer_the_terminal(tmp_path):
    (tmp_path / "my.txt").write_text("Should zoos close?\nWhat is \x1b[31mbest?\n", encoding="utf-8")
    said = berds("build", "questions", "my.txt", "mine", "--examples", 1).output
    assert "\x1b" not in said and "\\x1b[31m" in said


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["build", "quest", "my.txt", "mine"], "'quest' is not one of"),
        (["build", "questions", "none.txt", "mine"], "does not exist"),
        (["build", "questions", "my.txt", "mine", "--prices", "cheap"], "not two numbers with a comma"),
        (["build", "questions", "my.txt", "mine", "--model", "x", "--budget", "1"], "needs the prices"),
        (["build", "questions", "my.txt", "mine", "--dry-run"], "the rules ask nobody"),
        (["build", "questions", "my.txt", "mine", "--sample", "9"], "a sample of 1 to 3 items"),
        (["build", "questions", "my.txt", "mine", "--name", "a b"], "letters, digits"),
        (["build", "questions", "my.txt", "mine", "--licence", " "], "needs a licence"),
        (["build", "questions", "my.txt", "mine", "--wording", "published"], "statement_and_negation"),
        (["build", "questions", "my.txt", "mine", "--model", "recorded:none.jsonl"], "cannot be read"),
        (["data", "validate", "."], "no such file"),
        (["data", "add", "."], "no such file"),
    ],
)
def test_what_is_refused(questions, arguments, problem):
    result = tried(*arguments)
    assert result.exit_code in (1, 2)
    assert problem in result.output
    assert not (questions.parent / "mine" / "dataset.json").exists()


def test_a_dry_run_and_the_real_one(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    raw = write_arguments(tmp_path / "arguments.jsonl")
    options = ["build", "arguana", raw, "bans", "--model", "some-model", "--prices", "30,60"]
    rows = json.loads(berds(*options, "--dry-run", "--json").output)
    assert [row["to_ask"] for row in rows] == [8, 8, 8, 24]
    assert not (tmp_path / "bans").exists()
    till = Billing(says=lambda _: "")
    with chat_server() as server:
        monkeypatch.setenv("BERDS_CHAT_URL", f"http://127.0.0.1:{server.server_port}/v1")
        till.says = lambda _: Debater().complete(till.body["messages"]).text

        def answered(body):
            till.body = body
            return till(body)

        server.script = [answered]
        said = berds(*options, "--budget", 3, "--workers", 1).stderr
    assert "8 questions (2 dev, 6 test)" in said
    assert f"cost {till.cost((30.0, 60.0)):.4f}" in said
    rows = json.loads(berds(*options, "--dry-run", "--json").output)
    assert (rows[-1]["recorded"], rows[-1]["to_ask"]) == (24, 0)


def test_a_model_of_this_machine(tmp_path, tiny_chat, monkeypatch):
    """A tiny one with random weights: it says nothing that can be read, and the build says so for each item."""
    monkeypatch.setattr("berdslib.construction.build.MAX_TOKENS", 8)
    (tmp_path / "my.txt").write_text("Should zoos close?\n", encoding="utf-8")
    result = tried("build", "questions", "my.txt", "mine", "--model", f"local:{tiny_chat}")
    assert result.exit_code == 1
    assert "nothing is left of 1 items" in result.output
    assert next(read_jsonl(tmp_path / "mine" / "failed.jsonl"))[1]["reason"] == "unreadable answer"
    assert len(list(read_jsonl(tmp_path / "mine" / "exchanges.jsonl"))) == 2


def test_reviewers_see_what_the_questions_are_made_of(tmp_path):
    raw = shipped("raw")
    model = f"recorded:{raw / 'recorded.jsonl'}"
    berds("build", "arguana", raw / "arguments.jsonl", "bans", "--model", model)
    said = berds("rate", "questions", "bans", "--split", "all", "-n", 5, "-o", "sheet.csv").stderr
    assert "5 items, 5 of them with sources" in said
