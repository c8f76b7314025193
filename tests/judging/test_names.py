"""Judges by name: a wording of the prompt, an adapter and 4 bits behind a model's name."""

import pytest
import torch
from tiny import mistral_tokenizer, pair
from transformers import MistralConfig, MistralForCausalLM

from berdslib.data.records import Question
from berdslib.errors import InputError
from berdslib.judging import registry
from berdslib.judging.baselines import Committee
from berdslib.judging.causal import load_causal
from berdslib.judging.registry import check_judge, make_judge
from berdslib.llm.chat import Reply
from berdslib.llm.extraction import extract_by
from berdslib.llm.prompting import TASKS, import_prompt, load_prompt, wordings
from berdslib.llm.recorded import Recorded
from berdslib.models.chat import make_chat
from berdslib.retrieval.expansion import expansions_by

TASK = "perspective_detection"
USER = "<|im_start|>user\nText: [Document]\nClaim: [Statement]\nRight? <|im_end|>"
SHOWN = "<|im_start|>user\nText: Ferries sail.\nClaim: They fly.\nRight?<|im_end|><|im_start|>assistant\nNo<|im_end|>"


@pytest.fixture
def published(user_cache, tmp_path):
    """Wordings of two kinds, invented here, in the places of the published ones."""
    for wording, text in (("published", USER), ("published-one-shot", SHOWN + USER)):
        path = tmp_path / f"{wording}.txt"
        path.write_text(f"<|im_start|>system\nSay one word.<|im_end|>{text}")
        import_prompt(TASK, path, TASKS[TASK], wording)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A tiny model in a folder with an @ in its name, and a LoRA adapter to it in another."""
    from peft import LoraConfig, get_peft_model

    place = tmp_path_factory.mktemp("names")
    tokenizer = mistral_tokenizer(["Text: cats are kind. Claim: Cats are kind. Right?"], words=["Yes", "No"])
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, initializer_range=0.5,
    )  # fmt: skip
    model = MistralForCausalLM(config)
    model.save_pretrained(place / "tiny@2")
    tokenizer.save_pretrained(place / "tiny@2")
    lora = LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    get_peft_model(model, lora).save_pretrained(place / "adapter@3")
    return place


# ---------------------------------------------------------------- what a name is read as


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("causal:org/m", ("org/m", "", False, "ours")),
        ("causal:org/m@published", ("org/m", "", False, "published")),
        ("causal:org/m+4bit@short", ("org/m", "", True, "short")),
        ("causal:org/m+adapter:org/a", ("org/m", "org/a", False, "ours")),
        ("causal:org/m+adapter:org/a+4bit", ("org/m", "org/a", True, "ours")),
        ("causal:org/m+adapter:org/a@published-one-shot", ("org/m", "org/a", False, "published-one-shot")),
        ("causal:org/m+adapter:org/a+4bit@published", ("org/m", "org/a", True, "published")),
        ("causal:run@3/m", ("run@3/m", "", False, "ours")),
        ("causal:run@3/m@published", ("run@3/m", "", False, "published")),
    ],
)
@pytest.mark.parametrize("members", ["{}", "overlap+{}", "{}+overlap", "overlap + {} +random"])
def test_what_is_added_to_a_model_stays_with_it(monkeypatch, name, read, members):
    loaded = []

    def load(checkpoint, *, adapter="", four_bit=False, wording="ours"):
        loaded.append((checkpoint, adapter, four_bit, wording))
        return make_judge("similarity")

    monkeypatch.setattr(registry, "load_causal", load)
    made = make_judge(members.format(name))
    assert loaded == [read]
    others = members.count("overlap") + members.count("random")
    assert len(made.judges) == 1 + others if others else not isinstance(made, Committee)


def test_a_wording_that_is_not_there_is_refused_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr(registry, "load_causal", None)
    for name in ("causal:org/m@publishd", "causal:org/m+4bit@5", "chat:m@publishd", "causal:m+adapter:a@b"):
        with pytest.raises(InputError) as caught:
            make_judge(name)
        assert name.rpartition("@")[2] in str(caught.value)
        assert all(wording in str(caught.value) for wording in wordings(TASK))


@pytest.mark.parametrize(
    "name",
    [
        "overlap",
        "overlap+causal:m@published",
        "causal:m+adapter:a+4bit@short+chat:n@published-one-shot+laptop",
        "nli:a@b",
    ],
)
def test_a_name_is_checked_without_loading_anything(monkeypatch, name):
    monkeypatch.setattr(registry, "load_causal", None)
    check_judge(name)
    with pytest.raises(InputError):
        check_judge(f"{name}+causal:m@nothing")


def test_a_folder_with_an_at_in_its_name_loads(folders, published, monkeypatch):
    monkeypatch.chdir(folders)
    plain, tuned = load_causal("tiny@2"), load_causal("tiny@2", adapter="adapter@3")
    assert make_judge("causal:tiny@2").id == plain.id != tuned.id
    assert make_judge(f"causal:{folders / 'tiny@2'}").p_yes([pair()]) == plain.p_yes([pair()])
    assert make_judge("causal:tiny@2+adapter:adapter@3").id == tuned.id
    asked = make_judge("causal:tiny@2+adapter:adapter@3@published")
    assert asked.prompt == load_prompt(TASK, "published") and "adapter@3" in asked.id


@pytest.mark.slow
def test_four_bits_by_name(folders, published, monkeypatch):
    pytest.importorskip("bitsandbytes")
    monkeypatch.chdir(folders)
    want = load_causal("tiny@2", adapter="adapter@3", four_bit=True, wording="published")
    assert make_judge("causal:tiny@2+adapter:adapter@3+4bit@published").id == want.id
    assert make_judge("causal:tiny@2+adapter:adapter@3+4bit").id not in (want.id, load_causal("tiny@2").id)


# ---------------------------------------------------------------- what is asked, and what the id says


def test_each_wording_is_another_judge_and_an_example_is_a_shot(folders, published):
    place, listed = folders / "tiny@2", ("ours", "published", "published-one-shot")
    named = {wording: make_judge(f"causal:{place}@{wording}") for wording in listed}
    assert named["ours"].id == make_judge(f"causal:{place}").id
    assert len({judge.id for judge in named.values()}) == 3
    for wording, judge in named.items():
        text = judge.tokenizer.decode(judge.token_ids(pair()))
        shots = int(wording == "published-one-shot")
        assert f"prompt={TASK}/{wording}:" in judge.id and f"shots={shots}," in judge.id
        assert text.count("They fly.") == shots and text.count("Cats are kind.") == 1
        assert text.count("Say one word.") == (wording != "ours")


@pytest.mark.parametrize(
    "name",
    [
        "chat:m@http://me:pass-word@host/v1",
        "chat:m@https://host/v1@published",
        "chat:m?base_url=http://me:pass-word@host",
        "chat:https://me:pass-word@host/v1",
    ],
)
def test_an_address_in_a_models_name_is_refused_before_anything_is_sent(name):
    """A shared grid file could send the key anywhere."""
    uses = [check_judge, make_judge, lambda name: extract_by(name, ["Find a book"], make_chat=make_chat)]
    uses += [lambda name: expansions_by(name, [Question("q", "Is tea better?")])]
    for use in uses:
        with pytest.raises(InputError, match="BERDS_CHAT_URL") as caught:
            use(name)
        assert "pass-word" not in str(caught.value)


class Always:
    id = "always"

    def complete(self, messages):
        return Reply("Yes")


def test_recorded_answers_are_those_to_the_wording_that_is_named(published, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one_shot = make_judge("chat:never-asked@published-one-shot")
    Recorded(tmp_path / "said@2.jsonl", Always()).complete(one_shot.messages(pair()))
    replayed = make_judge("chat:recorded:said@2.jsonl@published-one-shot")
    assert replayed.p_yes([pair()]).tolist() == [1.0]
    assert make_judge("chat:recorded:said@2.jsonl").prompt.name == f"{TASK}/ours"


# ---------------------------------------------------------------- a wording that weights were not trained with


def test_weights_that_are_asked_by_another_wording_than_theirs_say_so(folders, published, tmp_path, caplog):
    """The paper's evaluator by the name of its adapter; others by what their training noted beside them."""
    adapter = tmp_path / "Mistral_BERDS_evaluator"
    (folders / "adapter@3").rename(adapter)

    def warned():
        return [record for record in caplog.records if str(adapter) in record.getMessage()]

    try:
        name = f"causal:{folders / 'tiny@2'}+adapter:{adapter}"
        make_judge(f"{name}@published")
        assert not warned()
        for wording in ("", "@short", "@published-one-shot"):
            make_judge(name + wording)
            [record] = warned()
            assert record.levelname == "WARNING"
            caplog.clear()
    finally:
        adapter.rename(folders / "adapter@3")
