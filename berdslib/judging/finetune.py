"""Fine-tuning judges: LoRA, QLoRA or all weights, for causal language models and for cross-encoders (BeRDS A.5).

The training loop is transformers' Trainer. This module imports torch; judging does not need it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import f1_score, roc_auc_score
from torch.nn.functional import binary_cross_entropy_with_logits

from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.files import StrPath, write_text
from berdslib.judging.base import Pair
from berdslib.judging.causal import TRAINED_BY, Causal, answer_tokens, common_start, load_causal
from berdslib.judging.examples import Example, build_examples
from berdslib.judging.memory import in_bf16, require_memory
from berdslib.judging.recipe import Recipe
from berdslib.models.loading import padded, quiet_loading, quiet_peft, weights_hash
from berdslib.models.pair_classifier import encode_pairs
from berdslib.progress import begin

with quiet_loading():  # the import reports missing kernels
    from transformers import EvalPrediction, Trainer, TrainingArguments
    from transformers.trainer_callback import PrinterCallback, ProgressCallback

logger = logging.getLogger(__name__)

_CHOICE = "f1_then_auc"
_LITTLE = 1e-9  # of AUC, so that it decides only between checkpoints of equal F1


class Trained(NamedTuple):
    """The result of a training: the model, the folder of its weights or its adapter, and (step, loss) pairs.

    ``held_out`` has the scores of every checkpoint on the held-out examples, from before the first step on: ``step``,
    ``loss``, ``f1`` of a yes from 0.5 on, ``auc``, and whether it was ``kept``. FOLDER/checkpoints.csv holds it, too.
    """

    model: Any
    folder: Path
    steps: int
    losses: list[tuple[int, float]]
    held_out: pd.DataFrame


def fine_tune(
    pairs: StrPath | Sequence[Example],
    folder: StrPath,
    model: str | Causal = "smollm2",
    *,
    held_out: float | StrPath | Sequence[Example] = 0.1,
    four_bit: bool = False,
    wording: str = "ours",
    **recipe: Any,
) -> Trained:
    """Fine-tune a causal language model as a judge on labelled pairs, with LoRA, as BeRDS trained its own.

    The new judge is "causal:MODEL+adapter:FOLDER/model", or "causal:FOLDER/model" if `rank` is 0, followed by @WORDING
    for a wording other than "ours". Call it again to resume a run that was killed.

    Args:
        pairs: a table (TSV, CSV or JSONL) with the columns question, document, perspective and label (1 or 0), as
            `berds rate pairs` writes it; "sample", the pairs of its development questions; or a list of examples.
        folder: the folder for checkpoints and, in FOLDER/model, the adapter.
        model: a model on Hugging Face, a folder, "smollm2", "qwen-coder", or a loaded judge, whose model is changed in
            place.
        held_out: labelled pairs on which every checkpoint is scored, to keep the one with the best F1: a share of the
            questions, from 0 to below 1, or a table or list of other pairs. Without these, the last checkpoint is kept.
        four_bit: QLoRA, on weights of 4 bits.
        wording: the wording of the prompt, for training and for judging.
        recipe: fields of :class:`Recipe` to change; the others are the paper's: learning rate 1e-4, warm-up 0.1 of the
            steps, 2 epochs, weight decay 0.001.

    Returns:
        The model, its folder, the number of steps, `losses`, a list of (step, mean loss in nats), and `held_out`, a
        table of the checkpoints' scores.

    Raises:
        InputError: an unreadable table, pairs of one label only, a value of the recipe out of its range, several
            visible cards, or too little memory.
        MissingDataError: the model is neither on this machine nor reachable.

    Source:
        BeRDS sections 5.1 and A.5. Rank 64, alpha 16 and dropout 0.1 are those of its code.
    """
    settings = Recipe(**recipe)
    examples = _examples(pairs)
    checked: Sequence[Example] = []
    if not isinstance(held_out, float | int):
        checked = _examples(held_out)
        if both := {e.topic for e in examples} & {e.topic for e in checked}:
            logger.warning("%d questions are trained on and held out, such as %r", len(both), min(both))
    elif held_out:
        examples, checked = split_by_question(examples, held_out, settings.seed)
    if isinstance(model, str):
        require_memory(model, [*examples, *checked], settings, four_bit=four_bit, wording=wording)
        model = load_causal(model, four_bit=four_bit, wording=wording)
    return fine_tune_causal(model, examples, settings, Path(folder), checked)


def _examples(pairs: StrPath | Sequence[Example]) -> list[Example]:
    return build_examples([pairs]) if isinstance(pairs, str | os.PathLike) else list(pairs)


def fine_tune_causal(
    judge: Causal, examples: Sequence[Example], recipe: Recipe, folder: Path, held_out: Sequence[Example] = ()
) -> Trained:
    """Train a causal judge's model in place on the answer token only, with the prompts that it will judge with.

    A model loaded in 4 bits is trained as QLoRA. The common start of all prompts is read once a batch. The
    checkpoint with the best F1 on `held_out` is kept. A killed run in this folder is resumed.
    """
    _require_one_card()
    if held_out and len({example.supports for example in held_out}) < 2:
        raise InputError("must contain both labels, or no checkpoint can be chosen", field="held_out")
    model = judge.model
    tokenizer = judge.tokenizer
    made_of = _digest(recipe, examples, judge.id, held_out)
    answers = [answer_tokens(tokenizer, answer) for answer in ("no", "yes")]
    if getattr(model, "is_loaded_in_4bit", False):
        from peft import prepare_model_for_kbit_training

        if not recipe.rank:
            raise InputError("4-bit weights cannot be trained directly; use a LoRA rank above 0", field="rank")
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)  # the Trainer sets it

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        ids, mask = padded([row["input_ids"][shared:] for row in rows])
        mask = torch.cat([mask.new_ones(len(rows), shared), mask], dim=1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, shared:]
        # The loss is on the answer only, so no other position needs 32,000 logits.
        batch = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "logits_to_keep": 1}
        opening = {"opening": torch.tensor([rows[0]["input_ids"][:shared]])} if shared else {}
        return {**batch, **opening, "labels": _labels(rows), "use_cache": False}

    def of_answers(logits: torch.Tensor) -> list[torch.Tensor]:
        # Like the judge, the loss adds up the probabilities of all spellings of an answer.
        return [logits[:, spellings].logsumexp(1) for spellings in answers]

    def losses(outputs: Any, supports: torch.Tensor) -> torch.Tensor:
        logits = outputs.logits[:, -1].float()
        no, yes = of_answers(logits)
        return logits.logsumexp(1) - torch.where(supports > 0, yes, no)

    def p_yes(logits: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        no, yes = of_answers(logits[:, -1].double())
        return torch.sigmoid(yes - no)

    def rows(examples: Sequence[Example]) -> _Rows:
        pairs = [Pair(example.topic, 0, Passage("", example.document), example.statement) for example in examples]
        return _Rows([{"input_ids": judge.token_ids(pair)} for pair in pairs], examples, recipe.seed)

    train = rows(examples)
    test = rows(held_out)
    # A cache cannot be used with gradient checkpointing.
    shared = 0 if recipe.checkpoint_gradients else common_start([row["input_ids"] for row in train + test])
    model = _with_lora(model, recipe, "CAUSAL_LM") if recipe.rank else model.float()
    scored = {"eval_dataset": test, "preprocess_logits_for_metrics": p_yes, "compute_metrics": _scores} if test else {}
    parts = {"train_dataset": train, "data_collator": collate} | scored
    trained = _train(model, tokenizer, parts, losses, recipe, folder / f"checkpoints-{made_of}")
    (trained.folder / TRAINED_BY).write_text(f"{judge.prompt.name}:{judge.prompt.hash}", encoding="utf-8")
    return trained


def fine_tune_encoder(model: Any, tokenizer: Any, examples: Sequence[Example], recipe: Recipe, folder: Path) -> Trained:
    """Train a classifier with one output, in place: the log-odds that the document supports the statement.

    With LoRA, the head is trained in full; without it, all layers but the word embeddings. A killed run is resumed.
    """
    _require_one_card()
    if model.config.num_labels != 1:
        raise InputError(f"the classifier must have one output (num_labels=1), not {model.config.num_labels}")
    made_of = _digest(recipe, examples, f"{type(model).__name__}({weights_hash(model)})")

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        inputs = [{key: value for key, value in row.items() if key != "labels"} for row in rows]
        return {**tokenizer.pad(inputs, return_tensors="pt"), "labels": _labels(rows)}

    def losses(outputs: Any, supports: torch.Tensor) -> torch.Tensor:
        return binary_cross_entropy_with_logits(outputs.logits[:, 0].float(), supports.float(), reduction="none")

    if recipe.rank:
        model = _with_lora(model, recipe, "SEQ_CLS")
    else:
        for name, weight in model.float().named_parameters():
            weight.requires_grad_("embeddings" not in name)
    texts = [(example.statement, example.document) for example in examples]
    tokens = encode_pairs(tokenizer, texts, recipe.max_length)
    parts = {"train_dataset": _Rows(tokens, examples, recipe.seed), "data_collator": collate}
    return _train(model, tokenizer, parts, losses, recipe, folder / f"checkpoints-{made_of}")


def split_by_question(examples: Sequence[Example], share: float, seed: int = 0) -> tuple[list[Example], list[Example]]:
    """Split examples by ``topic`` into (training, validation), each getting at least one (divergences.md B11)."""
    if not 0 < share < 1:
        raise InputError(f"must be above 0 and below 1, not {share}", field="share")
    questions = sorted({example.topic for example in examples})
    if len(questions) < 2:
        raise InputError(f"a split by question needs two questions or more, not {len(questions)}")
    size = min(len(questions) - 1, max(1, round(share * len(questions))))
    chosen = np.random.default_rng(seed).permutation(len(questions))[:size].tolist()
    held_out = {questions[i] for i in chosen}
    training = [example for example in examples if example.topic not in held_out]
    validation = [example for example in examples if example.topic in held_out]
    return training, validation


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest checkpoint with a readable trainer_state.json, which the Trainer writes last, or None."""
    by_step = {}
    for path in folder.glob("checkpoint-*"):
        step = path.name.removeprefix("checkpoint-")
        if step.isdigit():
            by_step[int(step)] = path
    for _, checkpoint in sorted(by_step.items(), reverse=True):
        try:
            json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            logger.warning("%s is incomplete; using the previous one", checkpoint)
            continue
        return checkpoint
    return None


# ---------------------------------------------------------------- training


def _digest(recipe: Recipe, examples: Sequence[Example], model: str, held_out: Sequence[Example] = ()) -> str:
    """Return the name of a training's checkpoints, so that a run never resumes from another run's checkpoints."""
    if len({example.supports for example in examples}) < 2:
        raise InputError("training needs examples of both labels (divergences.md B10)")
    of_examples = [[(e.document, e.statement, e.supports) for e in part] for part in (examples, held_out)]
    made_of = [asdict(recipe), model, of_examples]
    return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:12]


def _require_one_card() -> None:
    """Refuse several cards: the Trainer would multiply the batch, and the loss, by their number."""
    cards = max(torch.cuda.device_count(), int(os.environ.get("WORLD_SIZE", "1")))
    if cards > 1:
        raise InputError(f"training uses one card, but {cards} are visible; set it to 0", field="CUDA_VISIBLE_DEVICES")


def _scores(found: EvalPrediction) -> dict[str, float]:
    """Return F1 at the judge's threshold, AUC, and the number by which the best checkpoint is chosen."""
    supports = np.asarray(found.label_ids)[:, 1]
    p_yes = np.asarray(found.predictions)
    f1 = float(f1_score(supports, p_yes >= Causal.threshold, zero_division=0))
    auc = float(roc_auc_score(supports, p_yes))
    return {"f1": f1, "auc": auc, _CHOICE: f1 + _LITTLE * auc}


def _with_lora(model: Any, recipe: Recipe, task: str) -> Any:
    """Add LoRA matrices to all linear layers; peft trains and saves the head of a "SEQ_CLS" model in full."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(recipe.seed)
    scale: dict[str, Any] = {"r": recipe.rank, "lora_alpha": recipe.alpha, "lora_dropout": recipe.dropout}
    with quiet_peft():
        return get_peft_model(model, LoraConfig(**scale, target_modules="all-linear", task_type=task))


class _Rows(list[dict[str, Any]]):
    """Tokens and labels; seed and epoch alone fix their order, so that a resumed epoch reads each row once."""

    def __init__(self, tokens: Sequence[dict[str, Any]], examples: Sequence[Example], seed: int) -> None:
        rows = zip(tokens, examples, strict=True)
        super().__init__({**row, "labels": int(example.supports)} for row, example in rows)
        self.seed = seed

    def set_epoch(self, epoch: int) -> None:
        torch.manual_seed(self.seed + epoch)


def _labels(rows: Sequence[dict[str, Any]]) -> torch.Tensor:
    """Return labels (n, 2) with an ignored first column, which the Trainer does not count for a causal model."""
    return torch.tensor([[-100, row["labels"]] for row in rows])


class _Bar(ProgressCallback):
    """The Trainer's own bar, without a line for each step above it."""

    def on_log(self, *_: Any, **_rest: Any) -> None: ...


class _Trainer(Trainer):
    """A Trainer that reads the common start of a batch's prompts once."""

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        if "opening" in inputs:
            cache = model(input_ids=inputs.pop("opening"), use_cache=True, logits_to_keep=1).past_key_values
            cache.batch_repeat_interleave(len(inputs["input_ids"]))
            inputs |= {"past_key_values": cache, "use_cache": True}
        return super().compute_loss(model, inputs, *args, **options)


def _train(
    model: Any,
    tokenizer: Any,
    parts: dict[str, Any],
    losses: Callable[[Any, torch.Tensor], torch.Tensor],
    recipe: Recipe,
    work: Path,
) -> Trained:
    folder = work.parent
    arguments = _arguments(recipe, work, measured="compute_metrics" in parts)

    def loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any) -> torch.Tensor:
        # The mean over all examples of a step, however many batches it has.
        return losses(outputs, labels[:, 1]).sum() / (num_items_in_batch or len(labels))

    trainer = _Trainer(model, arguments, compute_loss_func=loss, **parts)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(_Bar)
    checkpoint = last_checkpoint(work)
    if checkpoint:
        begin(f"resuming from {checkpoint}")
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    trainer.save_model(str(folder / "model"))
    tokenizer.save_pretrained(folder / "model")
    state = trainer.state
    logged = [(int(row["step"]), float(row["loss"])) for row in state.log_history if "loss" in row]
    measured = [row for row in state.log_history if "eval_loss" in row]
    held_out = pd.DataFrame(measured, columns=["step", "eval_loss", "eval_f1", "eval_auc"])
    held_out = held_out.rename(columns=lambda name: name.removeprefix("eval_"))
    kept = state.best_global_step if state.best_model_checkpoint else state.global_step
    held_out["kept"] = held_out["step"] == kept
    if measured:
        with write_text(folder / "checkpoints.csv") as file:
            held_out.to_csv(file, index=False, lineterminator="\n")
    return Trained(model.eval(), folder / "model", state.global_step, logged, held_out)


def _arguments(recipe: Recipe, work: Path, *, measured: bool) -> TrainingArguments:
    """Return the Trainer's arguments; where `measured`, checkpoints are scored and the best is kept."""
    on_gpu = torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(work.resolve()),  # a run that resumes elsewhere reads the path of the best checkpoint
        use_cpu=not on_gpu,
        bf16=in_bf16(),
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=recipe.warmup,  # a share of the steps if below 1
        num_train_epochs=recipe.epochs,
        weight_decay=recipe.weight_decay,
        per_device_train_batch_size=recipe.batch_size,
        gradient_accumulation_steps=recipe.accumulate,
        activation_checkpointing=recipe.checkpoint_gradients,
        train_sampling_strategy="group_by_length",
        save_steps=recipe.save_every,
        save_total_limit=2,
        per_device_eval_batch_size=recipe.batch_size,
        eval_strategy="steps" if measured else "no",
        eval_steps=recipe.save_every,
        eval_on_start=measured and last_checkpoint(work) is None,
        load_best_model_at_end=measured,
        metric_for_best_model=_CHOICE if measured else None,
        greater_is_better=True,
        logging_steps=1,
        seed=recipe.seed,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=on_gpu,
        remove_unused_columns=False,
    )
