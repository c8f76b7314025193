"""Fine-tuning judges: LoRA, QLoRA or all weights, for causal language models and for cross-encoders (BeRDS A.5).

Both kinds learn the same thing, yes or no for a (document, statement) pair, from the same
:class:`~berdslib.judging.training.pairs.Example` rows. The loop is transformers' Trainer: gradient checkpointing, going
on after a kill, and several GPUs (start the script with ``accelerate launch``) come from there.
"""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.judging.base import Pair
from berdslib.judging.causal import Causal
from berdslib.judging.training.pairs import Example
from berdslib.judging.yesno import answer_tokens
from berdslib.models.loading import has_bf16, padded
from berdslib.models.pair_classifier import encode_pairs

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

# Steps' worth of examples that are sorted by length together: more waste less padding and shuffle less.
_STEPS_SORTED = 50


@dataclass(frozen=True)
class Recipe:
    """How to train. The defaults are the published recipe (BeRDS A.5; rank, alpha and dropout of its code).

    AdamW, a rate that rises and then falls to 0 in straight lines, gradients clipped to length 1.

    Args:
        learning_rate: at its peak.
        warmup: share of the steps over which the rate rises.
        epochs: passes over the examples; may be a fraction.
        weight_decay: of AdamW.
        rank: of the LoRA matrices, on all linear layers; 0 trains the weights themselves.
        alpha: LoRA scale.
        dropout: before the LoRA matrices.
        batch_size: examples that go through a device together.
        accumulate: batches whose gradients are added up before the weights move.
        max_length: tokens a cross-encoder's pair may have; documents are cut, statements never. A causal judge has a
            limit of its own.
        checkpoint_gradients: recompute activations instead of keeping them: less memory, a third more time.
        save_every: steps between two checkpoints, from which a killed run goes on.
        seed: of shuffling, dropout and LoRA's first weights.

    Raises:
        InputError: a value that cannot be.
    """

    learning_rate: float = 1e-4
    warmup: float = 0.1
    epochs: float = 2.0
    weight_decay: float = 0.001
    rank: int = 64
    alpha: int = 16
    dropout: float = 0.1
    batch_size: int = 16
    accumulate: int = 1
    max_length: int = 512
    checkpoint_gradients: bool = False
    save_every: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        positive = "learning_rate", "epochs", "alpha", "batch_size", "accumulate", "max_length", "save_every"
        for name, value in asdict(self).items():
            if name in positive and not value > 0:
                raise InputError(f"must be above 0, not {value}", field=name)
            if name in ("weight_decay", "rank") and not value >= 0:
                raise InputError(f"must be 0 or more, not {value}", field=name)
            if name in ("warmup", "dropout") and not 0 <= value < 1:
                raise InputError(f"must be from 0 to below 1, not {value}", field=name)


class Trained(NamedTuple):
    """What a training run left.

    Fields: ``model``, the trained model, adapter included, ready to be asked; ``folder``, what it can be loaded from
    (with LoRA: the adapter, for ``load_causal(…, adapter=folder)``); ``steps``, how often the weights moved;
    ``losses``, (step, loss of that step).
    """

    model: Any
    folder: Path
    steps: int
    losses: list[tuple[int, float]]


class _Kind(NamedTuple):
    """What differs between kinds of model: tokens of an example, batch of them, loss of each example of a batch."""

    tokens: Callable[[Example], dict[str, Any]]
    collate: Callable[[list[dict[str, Any]]], dict[str, Any]]
    losses: Callable[[Any, dict[str, Any]], torch.Tensor]


def fine_tune_causal(judge: Causal, examples: Sequence[Example], recipe: Recipe, folder: Path) -> Trained:
    """Train a causal judge's model on the answer token only, with the prompts that it will judge with.

    Args:
        judge: the judge before training; its prompt, shots, chat template and length limit are used. Its model is
            changed in place: load it anew for another training.
        examples: what to learn from, both labels among them.
        recipe: how. A model loaded in 4 bits is trained as QLoRA.
        folder: where checkpoints and the result go; a run that was killed there goes on.

    Raises:
        InputError: examples of one label only, or a 4-bit model with rank 0.
    """
    model = judge.model
    if getattr(model, "is_loaded_in_4bit", False):
        from peft import prepare_model_for_kbit_training

        if not recipe.rank:
            raise InputError("4-bit weights cannot be trained directly; use a LoRA rank above 0", field="rank")
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)  # the Trainer sets that
    made_of = _digest(recipe, examples, judge.id)
    model = _with_lora(model, recipe, "CAUSAL_LM") if recipe.rank else model.float()
    return _train(model, judge.tokenizer, examples, recipe, folder, made_of, _causal(judge))


def fine_tune_encoder(
    model: Any, tokenizer: Any, examples: Sequence[Example], recipe: Recipe, folder: Path, *, freeze: str = "embeddings"
) -> Trained:
    """Train a cross-encoder whose one output is the log-odds that the document supports the statement.

    Args:
        model: a sequence classifier with ``num_labels=1``; changed in place.
        tokenizer: its tokenizer.
        examples: what to learn from, both labels among them.
        recipe: how; with LoRA the classification head is trained in full.
        folder: where checkpoints and the result go; a run that was killed there goes on.
        freeze: with ``rank=0``, weights whose name holds this stay as they are; "" for none.

    Raises:
        InputError: examples of one label only, a model with several outputs, a statement that alone is too long, or no
            weight to freeze.
    """
    if model.config.num_labels != 1:
        raise InputError(f"the classifier has {model.config.num_labels} outputs; one is needed (num_labels=1)")
    made_of = _digest(recipe, examples, f"{type(model).__name__}({model.config.name_or_path}),freeze={freeze}")
    if recipe.rank:
        model = _with_lora(model, recipe, "SEQ_CLS")
    else:
        _freeze(model.float(), freeze)
    return _train(model, tokenizer, examples, recipe, folder, made_of, _encoder(tokenizer, recipe.max_length))


def split_by_question(examples: Sequence[Example], share: float, seed: int = 0) -> tuple[list[Example], list[Example]]:
    """Split examples into (training, validation); all examples of a question are on one side (divergences.md B11).

    Args:
        examples: the question is their ``topic``.
        share: of the questions that go to validation; at least one does, and at least one stays.
        seed: of the draw.

    Raises:
        InputError: fewer than two questions, or a share that is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise InputError(f"must be above 0 and below 1, not {share}", field="share")
    questions = sorted({e.topic for e in examples})
    if len(questions) < 2:
        raise InputError(f"a split by question needs two questions or more, not {len(questions)}")
    size = min(len(questions) - 1, max(1, round(share * len(questions))))
    chosen = set(np.random.default_rng(seed).permutation(len(questions))[:size].tolist())
    validation = {q for i, q in enumerate(questions) if i in chosen}
    return [e for e in examples if e.topic not in validation], [e for e in examples if e.topic in validation]


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint; None if there is none.

    The Trainer writes trainer_state.json last: a checkpoint without a readable one was cut short by a kill.
    """
    found = {int(p.name.removeprefix("checkpoint-")): p for p in folder.glob("checkpoint-*") if p.name[11:].isdigit()}
    for _, checkpoint in sorted(found.items(), reverse=True):
        try:
            json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            logger.warning("%s is incomplete; using the previous one", checkpoint)
            continue
        return checkpoint
    return None


# ---------------------------------------------------------------- the two kinds of model


def _encoder(tokenizer: Any, max_length: int) -> _Kind:
    import torch

    def tokens(example: Example) -> dict[str, Any]:
        return encode_pairs(tokenizer, [(example.statement, example.document)], max_length)[0]

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        return dict(tokenizer.pad(rows, return_tensors="pt"))

    def losses(model: Any, batch: dict[str, Any]) -> torch.Tensor:
        logits = model(**{k: v for k, v in batch.items() if k != "supports"}).logits[:, 0].float()
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, batch["supports"].float(), reduction="none")

    return _Kind(tokens, collate, losses)


def _causal(judge: Causal) -> _Kind:
    import torch

    answers = {True: answer_tokens(judge.tokenizer, "yes"), False: answer_tokens(judge.tokenizer, "no")}

    def tokens(example: Example) -> dict[str, Any]:
        pair = Pair(example.topic, 0, Passage("", example.document), example.statement)
        return {"input_ids": judge.token_ids(pair)}

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        ids, mask = padded([row["input_ids"] for row in rows])
        return {"input_ids": ids, "attention_mask": mask, "supports": torch.tensor([row["supports"] for row in rows])}

    def losses(model: Any, batch: dict[str, Any]) -> torch.Tensor:
        mask = batch["attention_mask"]
        logits = model(
            input_ids=batch["input_ids"],
            attention_mask=mask,
            position_ids=(mask.cumsum(1) - 1).clamp(min=0),
            logits_to_keep=1,  # the loss is on the answer only, so no other position needs 32,000 logits
            use_cache=False,
        ).logits[:, -1].float()  # fmt: skip
        # Any spelling of the right answer will do, since the judge adds them up as well.
        yes, no = (logits[:, answers[answer]].logsumexp(1) for answer in (True, False))
        return logits.logsumexp(1) - torch.where(batch["supports"], yes, no)

    return _Kind(tokens, collate, losses)


# ---------------------------------------------------------------- training


def _with_lora(model: Any, recipe: Recipe, task: str) -> Any:
    """Put LoRA matrices on all linear layers; peft trains and saves the head of a "SEQ_CLS" in full."""
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(recipe.seed)
    config = LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=recipe.dropout,
        target_modules="all-linear",
        task_type=task,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)  # peft asks by the old name
        return get_peft_model(model, config)


def _freeze(model: Any, part: str) -> None:
    names = [name for name, _ in model.named_parameters() if part and part in name]
    if part and not names:
        raise InputError(f"no weight of {type(model).__name__} has {part!r} in its name", field="freeze")
    for name, weight in model.named_parameters():
        weight.requires_grad_(name not in names)


def _train(
    model: Any, tokenizer: Any, examples: Sequence[Example], recipe: Recipe, folder: Path, made_of: str, kind: _Kind
) -> Trained:
    rows = [{**kind.tokens(e), "supports": e.supports} for e in examples]
    work, result = folder / f"checkpoints-{made_of}", folder / "model"
    trainer = _trainer_class(kind)(
        model=model, args=_arguments(recipe, work), train_dataset=rows, data_collator=kind.collate
    )
    _use_progress_bar(trainer)
    checkpoint = last_checkpoint(work)
    if checkpoint:
        logger.info("going on from %s", checkpoint)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    trainer.save_model(str(result))
    if trainer.is_world_process_zero():
        tokenizer.save_pretrained(result)
    losses = [(int(row["step"]), float(row["loss"])) for row in trainer.state.log_history if "loss" in row]
    return Trained(trainer.model.eval(), result, trainer.state.global_step, losses)


def _digest(recipe: Recipe, examples: Sequence[Example], model: str) -> str:
    """Return what names a training's checkpoints: those of another one are never gone on from."""
    if len({e.supports for e in examples}) < 2:
        raise InputError("there are no examples of one of the two labels; nothing can be learnt (divergences.md B10)")
    made_of = [asdict(recipe), model, [(e.document, e.statement, e.supports) for e in examples]]
    return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:12]


def _arguments(recipe: Recipe, folder: Path) -> Any:
    import torch
    from transformers import TrainingArguments

    on_gpu = torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(folder),
        use_cpu=not on_gpu,
        # In hardware since Ampere; torch also says yes to cards that only emulate it.
        bf16=torch.cuda.get_device_capability()[0] >= 8 if on_gpu else has_bf16(),
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=recipe.warmup,  # below 1 it is a share
        num_train_epochs=recipe.epochs,
        weight_decay=recipe.weight_decay,
        per_device_train_batch_size=recipe.batch_size,
        gradient_accumulation_steps=recipe.accumulate,
        activation_checkpointing=recipe.checkpoint_gradients,
        save_steps=recipe.save_every,
        save_total_limit=2,
        logging_steps=1,
        seed=recipe.seed,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=on_gpu,
        remove_unused_columns=False,
    )


def _trainer_class(kind: _Kind) -> Any:
    """Return a Trainer with our loss and order of examples."""
    import torch
    from transformers import Trainer

    class AnswerTrainer(Trainer):
        # Says that the loss below is divided by all examples of a step already, however many batches it has.
        loss_is_scaled_for_ga = True

        def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> tuple[list[Any], Any]:
            batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
            n = torch.tensor(sum(len(b["supports"]) for b in batches), device=device)
            return batches, self.accelerator.gather(n).sum()

        def compute_loss(
            self,
            model: Any,
            inputs: Any,
            return_outputs: bool = False,  # noqa: ARG002 - for evaluation, which is not done here
            num_items_in_batch: Any = None,
        ) -> Any:
            # Gradients are averaged over processes, so each counts its sum as many times as there are processes.
            return kind.losses(model, inputs).sum() * self.accelerator.num_processes / num_items_in_batch

        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            return _ByLength(
                [len(row["input_ids"]) for row in train_dataset],
                step=self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size,
                seed=self.args.seed,
                epoch=lambda: int(self.state.epoch or 0),
            )

    return AnswerTrainer


class _ByLength:
    """The order of examples in an epoch: steps of like length, in an order that seed and epoch alone decide.

    The Trainer's own sampler draws from torch's global generator, so a run that goes on in its second epoch would see
    that epoch in another order: some examples twice, others never.

    Args:
        lengths: tokens of each example.
        step: examples between two moves of the weights, on all devices together.
        seed: of the order.
        epoch: returns the number of the epoch that begins.
    """

    def __init__(self, lengths: Sequence[int], step: int, seed: int, epoch: Callable[[], int]) -> None:
        self.lengths, self.step, self.seed, self.epoch = np.asarray(lengths), step, seed, epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        draw = np.random.default_rng((self.seed, self.epoch()))
        order = draw.permutation(len(self))
        starts = range(0, len(self), self.step * _STEPS_SORTED)
        parts = [order[s : s + self.step * _STEPS_SORTED] for s in starts]
        order = np.concatenate([part[np.argsort(-self.lengths[part], kind="stable")] for part in parts])
        steps = [order[s : s + self.step] for s in range(0, len(self), self.step)]
        # A short last step stays last; elsewhere it would shift the bounds of all steps after it.
        whole = len(self) // self.step
        shuffled = [*draw.permutation(whole).tolist(), *range(whole, len(steps))]
        yield from np.concatenate([steps[i] for i in shuffled]).tolist()


def _use_progress_bar(trainer: Any) -> None:
    """Replace the Trainer's printed lines by a bar, shown once the training has taken two seconds."""
    from tqdm.auto import tqdm
    from transformers import TrainerCallback
    from transformers.trainer_callback import PrinterCallback

    class Bar(TrainerCallback):
        # An event is (arguments, state, control).
        def on_train_begin(self, *event: Any, **_: Any) -> None:
            total, hidden = event[1].max_steps, not event[1].is_world_process_zero
            self.bar = tqdm(total=total, desc="fine-tuning", unit="step", delay=2, leave=False, disable=hidden)

        def on_step_end(self, *event: Any, **_: Any) -> None:
            self.bar.update(event[1].global_step - self.bar.n)

        def on_train_end(self, *_: Any, **_rest: Any) -> None:
            self.bar.close()

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Bar)
