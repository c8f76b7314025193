"""Fine-tuning on tiny random models: what the loss is, that it learns, that a killed run ends like an unbroken one."""

import random
import shutil
import socket
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from tiny import mistral_tokenizer
from tokenizers import processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
)

from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.evaluation.judges import agreement, auc
from berdslib.judging import finetune as finetuning
from berdslib.judging import memory
from berdslib.judging.base import Pair
from berdslib.judging.causal import Causal, load_causal
from berdslib.judging.examples import Example
from berdslib.judging.finetune import (
    Recipe,
    fine_tune_causal,
    fine_tune_encoder,
    last_checkpoint,
    split_by_question,
)
from berdslib.llm.prompting import Prompt
from berdslib.models.pair_classifier import encode_pairs

PROMPT = Prompt("short", "", "{document} | {statement} ? Answer:")
FOR, AGAINST = ("splendid", "helpful"), ("dreadful", "harmful")
FILLING = ("the", "town", "said", "on", "monday", "people", "talk", "much", "of", "it", "and", "more")
QUICK = Recipe(learning_rate=5e-3, epochs=8, rank=8, batch_size=8, dropout=0.05, save_every=1000)


def toy(questions=24, each=8, seed=0):
    """A task that one word decides: documents that praise a thing or blame it, a statement that it is good."""
    draw, made = random.Random(seed), []
    for q in range(questions):
        for i in range(each):
            words = draw.choices(FILLING, k=draw.randint(2, 10))
            words.insert(draw.randint(0, len(words)), draw.choice(AGAINST if i % 2 else FOR))
            made.append(Example(" ".join(words), f"thing {q} is good", not i % 2, f"Is thing {q} good?", "toy"))
    return made


def make_tokenizer():
    texts = [f"{e.document} | {e.statement} ? Answer: Yes No" for e in toy()]
    made = mistral_tokenizer(texts, marks=["<pad>"], words=["Yes", "No", " Yes", " No"], starts=False)
    made.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made.backend_tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        pad_token="<pad>", model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder with a causal model, one that 4-bit blocks fit into, and an encoder with one output."""
    folder, tokenizer = tmp_path_factory.mktemp("base"), make_tokenizer()
    torch.manual_seed(0)
    for name, size in (("causal", 64), ("causal128", 128)):
        config = MistralConfig(
            vocab_size=len(tokenizer), hidden_size=size, intermediate_size=size, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.25,
        )  # fmt: skip
        MistralForCausalLM(config).save_pretrained(folder / name)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=128, num_labels=1, initializer_range=0.1, hidden_dropout_prob=0.05,
        attention_probs_dropout_prob=0.05,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder / "encoder")
    for name in ("causal", "causal128", "encoder"):
        tokenizer.save_pretrained(folder / name)
    return folder


@pytest.fixture(autouse=True)
def _plain_floats(monkeypatch):
    """One thread and single precision, so that equal runs are equal to the bit on every machine."""
    monkeypatch.setattr(memory, "has_bf16", lambda: False)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def causal(base, name="causal", **options):
    judge = load_causal(str(base / name), **options)
    judge.prompt = PROMPT
    return judge


def encoder(base):
    return (
        BertForSequenceClassification.from_pretrained(base / "encoder"),
        PreTrainedTokenizerFast.from_pretrained(base / "encoder"),
    )


def still(loaded):
    """Return an encoder without dropout, and its tokenizer."""
    for module in loaded[0].modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return loaded


def pairs_of(examples):
    return [Pair(e.topic, 0, Passage("d", e.document), e.statement) for e in examples]


def f1(judge, examples):
    labels = np.array([e.supports for e in examples])
    return agreement(labels, judge.p_yes(pairs_of(examples)) >= judge.threshold).f1


def encoder_logits(model, tokenizer, examples):
    model.eval()
    with torch.inference_mode():
        inputs = encode_pairs(tokenizer, [(e.statement, e.document) for e in examples], 128)
        return np.array([float(model(**{k: torch.tensor([v]) for k, v in i.items()}).logits) for i in inputs])


def work(folder):
    (found,) = folder.glob("checkpoints-*")
    return found


def adapter(trained):
    return load_file(trained.folder / "adapter_model.safetensors")


def assert_same(a, b, **tolerance):
    assert a.keys() == b.keys() and a
    for name in a:
        torch.testing.assert_close(a[name], b[name], msg=lambda m, n=name: f"{n}: {m}", **tolerance)


EXACTLY = {"rtol": 0, "atol": 0}

# ---------------------------------------------------------------- the loss


AT_ONCE = Recipe(learning_rate=1e-6, rank=4, dropout=0, batch_size=64, epochs=1)  # one step on all examples


def test_causal_loss_is_that_of_the_answer_token_alone(base, tmp_path):
    """By hand: one prompt at a time, nothing padded, all logits computed, probabilities added up."""
    judge, examples, by_hand = causal(base), toy(3), []
    for example in examples:
        ids = judge.tokenizer(f"{example.document} | {example.statement} ? Answer:")["input_ids"]
        with torch.inference_mode():
            chances = judge.model(torch.tensor([ids])).logits[0, -1].double().softmax(0)
        spellings = ("Yes", " Yes") if example.supports else ("No", " No")
        tokens = judge.tokenizer.convert_tokens_to_ids(list(spellings))
        assert judge.tokenizer.unk_token_id not in tokens and len(set(tokens)) == 2
        by_hand.append(-np.log(float(chances[tokens].sum())))
    ((_, loss),) = fine_tune_causal(judge, examples, AT_ONCE, tmp_path).losses
    assert loss == pytest.approx(np.mean(by_hand), abs=1e-4) and np.ptp(by_hand) > 0.05


def test_a_judge_that_is_asked_by_another_prompt_than_it_was_trained_with_says_so(base, tmp_path, caplog):
    judge = load_causal(str(base / "causal"))  # trained and asked by ours
    own = str(fine_tune_causal(judge, toy(3), AT_ONCE, tmp_path / "own").folder)
    load_causal(str(base / "causal"), adapter=own)
    assert not [record for record in caplog.records if own in record.getMessage()]
    load_causal(str(base / "causal"), adapter=own, wording="short")
    [record] = [record for record in caplog.records if own in record.getMessage()]
    assert record.levelname == "WARNING"


def test_what_all_prompts_begin_with_is_read_once_and_nothing_else_changes(base, tmp_path, monkeypatch):
    """Against whole rows, as a checkpointed pass needs them: losses, those of held-out questions, and gradients."""
    monkeypatch.setattr(memory, "has_bf16", lambda: False)
    prompt = Prompt("long", "", "the town said on monday people talk {document} | {statement} ? Answer:")
    recipe, found, read = replace(AT_ONCE, learning_rate=1e-2, batch_size=8, epochs=2), [], []
    for apart in (False, True):
        judge = causal(base)
        judge.prompt = prompt
        # Not on the model itself: some versions of peft go past its hooks.
        judge.model.get_input_embeddings().register_forward_pre_hook(lambda _, given: read.append(given[0].numel()))
        settings = replace(recipe, checkpoint_gradients=apart)
        found.append(fine_tune_causal(judge, toy(5), settings, tmp_path / str(apart), toy(2, seed=1)))
        found.append(sum(read))
        read.clear()
    once, tokens_once, whole, tokens_whole = found
    assert tokens_once < 0.8 * tokens_whole
    np.testing.assert_allclose(once.losses, whole.losses, rtol=1e-4)
    pd.testing.assert_frame_equal(once.held_out, whole.held_out, rtol=1e-4)
    assert_same(adapter(once), adapter(whole), rtol=2e-3, atol=2e-4)
    assert once.held_out["step"].tolist() == [0, 2, 4, 6, 8, 10] and once.held_out["loss"].nunique() > 1


def test_encoder_loss_is_binary_cross_entropy_of_one_logit(base, tmp_path):
    model, tokenizer = still(encoder(base))
    examples = toy(3)
    chance = 1 / (1 + np.exp(-encoder_logits(model, tokenizer, examples)))
    by_hand = [-np.log(p if e.supports else 1 - p) for p, e in zip(chance, examples, strict=True)]
    ((_, loss),) = fine_tune_encoder(model, tokenizer, examples, AT_ONCE, tmp_path).losses
    assert loss == pytest.approx(np.mean(by_hand), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["causal", "encoder"])
def test_accumulated_batches_move_the_weights_as_one_large_batch(base, tmp_path, kind):
    """The last step of an epoch has 6 examples, in batches of 4 and 2: a mean of means would weigh them unequally."""
    examples, states, losses = toy(6, 9), [], []  # 54 = 3 steps of 16 and one of 6
    for batch_size, accumulate in ((16, 1), (4, 4)):
        recipe = Recipe(learning_rate=1e-2, rank=4, dropout=0, batch_size=batch_size, accumulate=accumulate, epochs=2)
        folder = tmp_path / str(batch_size)
        if kind == "causal":
            trained = fine_tune_causal(causal(base), examples, recipe, folder)
        else:
            trained = fine_tune_encoder(*still(encoder(base)), examples, recipe, folder)
        assert trained.steps == 8
        states.append(adapter(trained))
        losses.append(trained.losses)
    assert_same(*states, rtol=2e-3, atol=2e-4)
    assert max(float((states[0][n]).abs().max()) for n in states[0] if "lora_B" in n) > 0.02  # far from where it began
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


# ---------------------------------------------------------------- learning


@pytest.mark.slow
def test_lora_learns_and_what_is_saved_is_what_was_trained(base, tmp_path, monkeypatch, capfd):
    training, held_out = split_by_question(toy(40), 0.25)
    judge = causal(base)
    before = f1(judge, held_out)
    frozen = {n: p.clone() for n, p in judge.model.named_parameters()}
    capfd.readouterr()
    with monkeypatch.context() as offline:
        offline.setattr(socket.socket, "connect", lambda *_: pytest.fail("nothing may be downloaded"))
        trained = fine_tune_causal(judge, training, QUICK, tmp_path)
    assert capfd.readouterr().out == ""
    tuned = Causal(trained.model, judge.tokenizer, "tuned", prompt=PROMPT)
    assert f1(tuned, held_out) > 0.95 > before + 0.2
    weights = {n.replace(".base_layer", "").removeprefix("base_model.model."): p
               for n, p in trained.model.named_parameters() if "lora" not in n}  # fmt: skip
    assert_same(weights, frozen, **EXACTLY)
    loaded = causal(base, adapter=str(trained.folder))
    np.testing.assert_allclose(loaded.p_yes(pairs_of(held_out)), tuned.p_yes(pairs_of(held_out)), atol=1e-4)


def turned(examples):
    """The same pairs with the other label: the more is learnt from the others, the worse on these."""
    return [e._replace(supports=not e.supports) for e in examples]


@pytest.mark.slow
def test_b23_of_all_checkpoints_the_best_on_other_pairs_is_kept(base, tmp_path):
    training = toy(6, 4)
    recipe = replace(QUICK, save_every=4)
    trained = fine_tune_causal(causal(base), training, recipe, tmp_path, turned(training))
    scores = trained.held_out.set_index("step")
    assert scores.index.tolist() == [0, 4, 8, 12, 16, 20, 24] and trained.steps == 24
    [kept] = scores.index[scores["kept"]]
    of_checkpoints = scores.drop(index=0).sort_values(["f1", "auc"], kind="stable", ascending=False)
    assert kept == of_checkpoints.index[0] < trained.steps
    assert_same(adapter(trained), load_file(work(tmp_path) / f"checkpoint-{kept}/adapter_model.safetensors"), **EXACTLY)
    # By the judge that is loaded from there, and another implementation of both measures.
    labels = np.array([e.supports for e in turned(training)])
    p_yes = causal(base, adapter=str(trained.folder)).p_yes(pairs_of(training))
    assert scores.loc[kept, "f1"] == pytest.approx(agreement(labels, p_yes >= 0.5).f1)
    assert scores.loc[kept, "auc"] == pytest.approx(auc(labels, p_yes))
    written = pd.read_csv(tmp_path / "checkpoints.csv")
    pd.testing.assert_frame_equal(written, trained.held_out)
    again = fine_tune_causal(causal(base), training, recipe, tmp_path, turned(training))
    pd.testing.assert_frame_equal(again.held_out, trained.held_out)
    assert_same(adapter(again), adapter(trained), **EXACTLY)


@pytest.mark.slow
def test_without_other_pairs_the_last_checkpoint_is_kept(base, tmp_path):
    trained = fine_tune_causal(causal(base), toy(3), replace(QUICK, epochs=1), tmp_path)
    assert trained.held_out.empty and not (tmp_path / "checkpoints.csv").exists()
    assert_same(adapter(trained), load_file(last_checkpoint(work(tmp_path)) / "adapter_model.safetensors"), **EXACTLY)


def test_other_pairs_of_one_label_cannot_choose(base, tmp_path):
    with pytest.raises(InputError, match="held_out"):
        fine_tune_causal(causal(base), toy(3), QUICK, tmp_path, [e for e in toy(2) if e.supports])


def test_several_cards_are_refused(base, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InputError, match=r"2.*CUDA_VISIBLE_DEVICES|CUDA_VISIBLE_DEVICES.*2"):
        fine_tune_causal(causal(base), toy(3), QUICK, tmp_path)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(InputError, match="4"):
        fine_tune_encoder(*encoder(base), toy(3), QUICK, tmp_path)


def test_b24_lora_as_the_published_code_has_it(base):
    model = finetuning._with_lora(causal(base).model, Recipe(), "CAUSAL_LM")
    layers = [module for module in model.modules() if hasattr(module, "lora_A")]
    assert len(layers) == 2 * 7  # two blocks: four matrices of attention, three behind it
    for layer in layers:
        assert layer.lora_A["default"].weight.shape == (64, layer.base_layer.in_features)
        assert (layer.scaling["default"], layer.lora_dropout["default"].p) == (16 / 64, 0.1)


@pytest.mark.slow
def test_qlora_on_the_cpu(base, tmp_path):
    pytest.importorskip("bitsandbytes")
    judge, examples = causal(base, "causal128", four_bit=True), toy(8)
    packed = {n: p.clone() for n, p in judge.model.named_parameters() if p.dtype == torch.uint8}
    assert packed
    recipe = Recipe(learning_rate=5e-3, rank=4, batch_size=8, epochs=3, save_every=4, checkpoint_gradients=True)
    trained = fine_tune_causal(judge, examples, recipe, tmp_path)
    losses = dict(trained.losses)
    assert losses[24] < 0.5 * losses[4]
    names = {n.removeprefix("base_model.model.").replace(".base_layer", ""): p
             for n, p in trained.model.named_parameters()}  # fmt: skip
    assert all(torch.equal(names[n], p) for n, p in packed.items())
    tuned = Causal(trained.model, judge.tokenizer, "tuned", prompt=PROMPT)
    loaded = causal(base, "causal128", four_bit=True, adapter=str(trained.folder))
    np.testing.assert_allclose(loaded.p_yes(pairs_of(examples)), tuned.p_yes(pairs_of(examples)), atol=1e-4)


@pytest.mark.slow
def test_lora_on_an_encoder_trains_and_saves_the_head(base, tmp_path):
    from peft import PeftModel

    training, held_out = split_by_question(toy(40), 0.25)
    model, tokenizer = encoder(base)
    head = model.classifier.weight.detach().clone()
    trained = fine_tune_encoder(model, tokenizer, training, replace(QUICK, epochs=14), tmp_path)
    logits = encoder_logits(trained.model, tokenizer, held_out)
    labels = np.array([e.supports for e in held_out])
    assert agreement(labels, logits >= 0).f1 > 0.95
    saved = adapter(trained)
    assert not torch.equal(saved["base_model.model.classifier.weight"], head)
    assert any("query.lora_A" in n for n in saved) and any("output.dense.lora_B" in n for n in saved)
    loaded = PeftModel.from_pretrained(encoder(base)[0], trained.folder)
    np.testing.assert_allclose(encoder_logits(loaded, tokenizer, held_out), logits, atol=1e-5)


@pytest.mark.slow
def test_all_weights_of_an_encoder_but_the_word_embeddings(base, tmp_path):
    training, held_out = split_by_question(toy(40), 0.25)
    model, tokenizer = encoder(base)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    recipe = Recipe(learning_rate=1e-3, rank=0, batch_size=8, epochs=6)
    trained = fine_tune_encoder(model, tokenizer, training, recipe, tmp_path)
    loaded = BertForSequenceClassification.from_pretrained(trained.folder)
    for name, weight in loaded.named_parameters():
        assert torch.equal(weight, before[name]) == ("embeddings" in name), name
    logits = encoder_logits(loaded, PreTrainedTokenizerFast.from_pretrained(trained.folder), held_out)
    assert agreement(np.array([e.supports for e in held_out]), logits >= 0).f1 > 0.9


_TOPICS = st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=60)


@given(_TOPICS, st.floats(0.01, 0.99), st.integers(0, 5))
def test_no_question_is_on_both_sides(drawn, share, seed):
    examples = [Example(f"d{i}", "s", label, f"question {topic}", "") for i, (topic, label) in enumerate(drawn)]
    questions = {e.topic for e in examples}
    if len(questions) < 2:
        with pytest.raises(InputError, match="two questions"):
            split_by_question(examples, share, seed)
        return
    training, validation = split_by_question(examples, share, seed)
    sides = [{e.topic for e in side} for side in (training, validation)]
    assert all(sides) and not sides[0] & sides[1] and sides[0] | sides[1] == questions
    assert sorted(training + validation) == sorted(examples)
    assert abs(len(sides[1]) - share * len(questions)) <= 1
    assert split_by_question(examples[::-1], share, seed)[1][::-1] == validation


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("learning_rate", 0), ("epochs", -1), ("batch_size", 0), ("accumulate", 0), ("max_length", 0), ("alpha", 0),
        ("save_every", 0), ("save_every", 1.5), ("weight_decay", -0.1), ("rank", -1), ("dropout", 1),
        ("dropout", -0.1), ("warmup", 1), ("warmup", -0.1), ("learning_rate", float("nan")),
    ],
)  # fmt: skip
def test_recipes_that_cannot_be(field, value):
    with pytest.raises(InputError, match=rf"\[{field}\]"):
        Recipe(**{field: value})


def test_b10_one_label_only_is_an_error(base, tmp_path):
    # divergences.md B10: the published script reads every label of the released file as a no, and trains on that.
    examples = [e for e in toy(3) if not e.supports]
    with pytest.raises(InputError, match="B10"):
        fine_tune_causal(causal(base), examples, QUICK, tmp_path)
    with pytest.raises(InputError, match="B10"):
        fine_tune_encoder(*encoder(base), examples, QUICK, tmp_path)


def test_models_and_arguments_that_cannot_be_used(base, tmp_path):
    model, tokenizer = encoder(base)
    model.config.num_labels = 3
    with pytest.raises(InputError, match=r"num_labels.*3"):
        fine_tune_encoder(model, tokenizer, toy(3), QUICK, tmp_path / "b")
    with pytest.raises(InputError, match="share"):
        split_by_question(toy(3), 1.0)
    judge = causal(base)
    judge.model.is_loaded_in_4bit = True
    with pytest.raises(InputError, match="4-bit"):
        fine_tune_causal(judge, toy(3), Recipe(rank=0), tmp_path / "c")


# ---------------------------------------------------------------- going on after a kill

LONG = Recipe(learning_rate=1e-2, epochs=3, rank=4, alpha=8, batch_size=4, accumulate=2, save_every=4)


def long_training(base, folder):
    return fine_tune_causal(causal(base), toy(10, 6), LONG, folder)


@pytest.fixture(scope="module")
def unbroken(base, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "has_bf16", lambda: False)
        torch.set_num_threads(1)
        return long_training(base, tmp_path_factory.mktemp("unbroken"))


@pytest.mark.slow
@pytest.mark.parametrize("kept", [8, 12])
def test_going_on_from_a_checkpoint_ends_like_the_unbroken_run(base, tmp_path, unbroken, kept):
    """At the end of an epoch (8) and within the second (12): order, dropout and optimiser are restored."""
    from transformers import Trainer

    class StopError(Exception):
        pass

    step, done = Trainer.training_step, [0]

    def stopping(*args, **rest):
        done[0] += 1
        if done[0] > 2 * kept + 1:
            raise StopError
        return step(*args, **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "training_step", stopping)
        with pytest.raises(StopError):
            long_training(base, tmp_path)
    assert last_checkpoint(work(tmp_path)).name == f"checkpoint-{kept}"
    torch.manual_seed(999)
    again = long_training(base, tmp_path)
    assert again.steps == 24 and again.losses == unbroken.losses
    assert_same(adapter(again), adapter(unbroken), **EXACTLY)


def test_a_checkpoint_that_was_cut_short_is_passed_over(tmp_path):
    assert last_checkpoint(tmp_path) is None
    for step, state in ((4, "{}"), (20, "{}"), (100, '{"log'), (120, None)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if state:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
    (tmp_path / "checkpoint-best").mkdir()
    assert last_checkpoint(tmp_path).name == "checkpoint-20"
    shutil.rmtree(tmp_path / "checkpoint-20")
    assert last_checkpoint(tmp_path).name == "checkpoint-4"
