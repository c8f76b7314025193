"""All that was never done for want of a GPU, in one command: each part timed, recorded as JSON, and gone on with.

    BERDS_DATA=../shared/data python scripts/on_gpu.py -o FOLDER        (about 40 minutes; run it again after a break)
    python scripts/on_gpu.py --rehearse                                 (every part at toy size, on any processor)

FOLDER/PART.json is what a part found. A part that has one is not run again; training goes on from its checkpoints.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import torch
from training.stance import StanceRecipe
from transformers import MistralConfig, MistralForCausalLM

from berdslib.data.datasets import load_pairs, load_passages
from berdslib.data.records import Passage
from berdslib.errors import BerdsError, MissingDataError
from berdslib.files import write_text
from berdslib.judging.base import Pair
from berdslib.judging.causal import load_causal
from berdslib.judging.examples import Example, sample_examples
from berdslib.judging.finetune import Recipe, fine_tune, split_by_question
from berdslib.judging.laptop import FAST, Design, load_laptop
from berdslib.judging.memory import Machine, empty_model, estimate, largest_batch
from berdslib.judging.registry import make_judge
from berdslib.models.encoders import get_encoder
from berdslib.models.loading import located
from berdslib.study.raters import as_asked, measured_by_labels

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from bench_causal import SIZES, make_pairs, make_tokenizer, one_by_one
from training import lora
from training.laptop import held_out_scores, like_the_web, train_laptop
from training.pairs import LAPTOP_SHARES


class Sizes(NamedTuple):
    """How much each part does; ``TOY`` is the rehearsal's."""

    shape: str = "7b"
    pairs: int = 512
    plain_pairs: int = 64
    training_steps: int = 20
    tuned: str = "smollm2"
    tuned_larger: str = "qwen-coder"
    judge: Design = Design("mpnet", "apart", 16)
    passes: int = 8
    encoders: tuple[str, ...] = ("minilm", "mpnet")
    passages: int = 1_000_000


TOY = Sizes("tiny", 24, 24, 2, "", "", FAST, 1, ("minilm",), 60)
SERVER_STARTS_WITHIN = 300  # seconds


class SkippedError(Exception):
    """A part that cannot be done on this machine, and why."""


# ---------------------------------------------------------------- a 7B of Mistral's shape


def random_mistral(sizes: Sizes, folder: Path) -> Path:
    """Return a folder with a Mistral of random weights, in bfloat16: what its answers are does not change the work."""
    place = folder / f"mistral-{sizes.shape}"
    if not (place / "tokenizer_config.json").is_file():
        torch.manual_seed(0)
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            config = MistralConfig(vocab_size=32_000, max_position_embeddings=8192, **SIZES[sizes.shape])
            MistralForCausalLM(config).save_pretrained(place)
        torch.set_default_dtype(torch.float32)
        make_tokenizer().save_pretrained(place)  # last: the folder is whole
    return place


def judging(sizes: Sizes, folder: Path, *, four_bit: bool) -> dict[str, Any]:
    """Pairs a second of the causal judge against a plain loop of forward passes, and the memory of each."""
    judge = load_causal(str(random_mistral(sizes, folder)), four_bit=four_bit)
    pairs = make_pairs(sizes.pairs)
    one_by_one(judge, pairs[:2])  # the first pass compiles kernels
    with measured() as plain:
        expected = one_by_one(judge, pairs[: sizes.plain_pairs])
    with measured() as ours:
        found = judge.p_yes(pairs)
    rate, plain_rate = sizes.pairs / ours["seconds"], sizes.plain_pairs / plain["seconds"]
    return {
        "pairs": sizes.pairs,
        "pairs_a_second": rate,
        "plain_loop": plain_rate,
        "times": rate / plain_rate,
        "gigabytes": ours["gigabytes"],
        "largest_difference": float(np.abs(found[: sizes.plain_pairs] - expected).max()),
    }


# Each is a step of 16 pairs, the paper's; those in small batches take less memory.
SMALL = {"batch_size": 4, "accumulate": 4, "checkpoint_gradients": True}
TRAININGS: dict[str, tuple[bool, dict[str, Any]]] = {
    "training-bf16": (False, {}),
    "training-bf16-small": (False, SMALL),
    "training-4bit": (True, {}),
    "training-4bit-small": (True, SMALL),
}


def training(name: str, sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Steps of fine-tuning at the paper's settings: memory, computed and measured, and what its 3,000 pairs take."""
    four_bit, settings = TRAININGS[name]
    recipe = Recipe(epochs=1, save_every=10**6, **settings)
    examples = (sample_examples() * 10)[: sizes.training_steps * 16]
    checkpoint = str(random_mistral(sizes, folder))
    shutil.rmtree(folder / name, ignore_errors=True)  # its steps are timed: none may come from a checkpoint
    judge = load_causal(checkpoint, four_bit=four_bit)
    pairs = [Pair(e.topic, 0, Passage("", e.document), e.statement) for e in examples]
    batch = largest_batch([judge.token_ids(pair) for pair in pairs], recipe)
    computed = estimate(empty_model(checkpoint), recipe, batch, Machine.here(), four_bit=four_bit)
    with measured() as spent:
        trained = fine_tune(examples, folder / name, judge, held_out=0, **asdict(recipe))
    step = spent["seconds"] / trained.steps
    hours = Recipe().epochs * lora.QUESTIONS * lora.PAIRS_EACH / 16 * step / 3600
    found = {"steps": trained.steps, "batch": batch._asdict(), "gigabytes_computed": sum(computed) / 1e9}
    return {**found, "seconds_a_step": step, "hours_of_the_paper": hours, **spent}


# ---------------------------------------------------------------- judges of our own


def lora_in_full(name: str, sizes: Sizes, folder: Path) -> dict[str, Any]:
    """The published recipe on a chat model that comes as packages; what people's labels say of it, once."""
    place = folder / name
    checkpoint = sizes.tuned_larger if name == "lora-qwen" else sizes.tuned
    if checkpoint:
        try:
            located(checkpoint)
        except MissingDataError as error:
            raise SkippedError(str(error)) from error
        pairs, held_out = lora.examples()
        lora.tune(checkpoint, place, replace(Recipe(), save_every=50), pairs, held_out[:1000])
        lora.measure(place)
        people = json.loads((place / "people.json").read_text(encoding="utf-8"))
    else:
        pairs, held_out = split_by_question(sample_examples(), 0.25)
        checkpoint, recipe = str(random_mistral(sizes, folder)), replace(Recipe(), epochs=1, rank=4)
        lora.tune(checkpoint, place, recipe, [*pairs[:16], flipped(pairs[0])], [*held_out[:8], flipped(held_out[0])])
        people = {}
    return {**json.loads((place / "result.json").read_text(encoding="utf-8")), "people": people}


def flipped(example: Example) -> Example:
    """Return an example with the other label: a draw this small may lack one."""
    return example._replace(supports=not example.supports, statement=f"Not: {example.statement}")


def long_training(sizes: Sizes, folder: Path) -> dict[str, Any]:
    """The laptop judge on mpnet, trained about ten times as long; chosen on held-out topics, then measured once."""
    real = sizes != TOY
    shares = LAPTOP_SHARES if real else {"sample": 1.0}
    recipe = StanceRecipe(learning_rate=2e-4, passes=sizes.passes, documents=32 if real else 4)
    made = train_laptop(folder / "judge", shares, recipe, sizes.judge, one_in=10 if real else 4)
    found: dict[str, Any] = {"steps": len(made.losses), "held_out": made.scores}
    if real:
        shipped = held_out_scores(make_judge("laptop-mpnet"), like_the_web(shares))  # type: ignore[arg-type]
        found["shipped"] = shipped
        if made.scores["laptop_auc"] > shipped["laptop_auc"]:
            pairs, judge = load_pairs("pers-det"), load_laptop(folder / "judge" / "judge")
            p_yes = judge.p_yes(as_asked(pairs))
            found["people"] = measured_by_labels(pairs, p_yes, judge.threshold).to_dict("records")
    return found


# ---------------------------------------------------------------- encoding, and a server


def encoding(sizes: Sizes, _: Path) -> dict[str, Any]:
    """A million passages, those of the sample with a number each, through every encoder."""
    texts, found = [p.full_text for p in load_passages("sample")], {}
    for name in sizes.encoders:
        encoder, numbers = get_encoder(name, cached=False), iter(range(sizes.passages))
        with measured() as spent:
            while block := [f"{texts[i % len(texts)]} ({i})" for i, _ in zip(numbers, range(50_000), strict=False)]:
                encoder.encode_passages(block)
        found[name] = {"passages": sizes.passages, "a_second": sizes.passages / spent["seconds"], **spent}
    return found


def server(sizes: Sizes, folder: Path) -> dict[str, Any]:
    """The judge "chat:MODEL" on a vLLM server of this machine: pairs a second, and P(yes) beside the causal judge's."""
    if find_spec("vllm") is None:
        raise SkippedError("vLLM is not installed")
    checkpoint = str(located(sizes.tuned)) if sizes.tuned else str(random_mistral(sizes, folder))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, log = f"http://127.0.0.1:{port}", (folder / "vllm.log").open("w", encoding="utf-8")
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", checkpoint]
    command += ["--served-model-name", "served", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT) as process:
        try:
            wait_for(f"{address}/health", process)
            os.environ["BERDS_CHAT_URL"] = f"{address}/v1"
            pairs, judge = make_pairs(sizes.pairs), make_judge("chat:served")
            with measured() as spent:
                p_yes = np.asarray(judge.p_yes(pairs))
            beside = load_causal(checkpoint, wording="ours").p_yes(pairs)
        finally:
            process.terminate()
    return {"pairs_a_second": len(pairs) / spent["seconds"], "difference": float(np.abs(p_yes - beside).mean())}


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers."""
    end = time.monotonic() + SERVER_STARTS_WITHIN
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(address, timeout=5).is_success:
                return
        except httpx.TransportError:
            time.sleep(1)
    raise SkippedError("vLLM's server did not start; vllm.log says why")


# ---------------------------------------------------------------- running them


PARTS: dict[str, Callable[[Sizes, Path], dict[str, Any]]] = {
    "judging-bf16": lambda sizes, folder: judging(sizes, folder, four_bit=False),
    "judging-4bit": lambda sizes, folder: judging(sizes, folder, four_bit=True),
    **{name: partial(training, name) for name in TRAININGS},
    "lora": partial(lora_in_full, "lora"),
    "lora-qwen": partial(lora_in_full, "lora-qwen"),
    "encoding": encoding,
    "vllm": server,
    "mpnet-judge": long_training,
}


@contextmanager
def measured() -> Iterator[dict[str, Any]]:
    """Put seconds, and on a GPU the most gigabytes, into the dict that it gives."""
    found: dict[str, Any] = {"gigabytes": None}
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    yield found
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        found["gigabytes"] = torch.cuda.max_memory_allocated() / 1e9
    found["seconds"] = time.perf_counter() - start


def run_part(name: str, sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Run a part and record what it found, or why not; one that failed is tried again in the next run."""
    start, found = time.perf_counter(), dict[str, Any](part=name, toy=sizes == TOY)
    try:
        found["found"] = PARTS[name](sizes, folder)
    except SkippedError as reason:
        found["skipped"] = str(reason)
    except (BerdsError, RuntimeError, OSError, ValueError) as error:
        found["failed"] = f"{type(error).__name__}: {error}"
        traceback.print_exc()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    found |= {"minutes": (time.perf_counter() - start) / 60, "at": time.strftime("%Y-%m-%dT%H:%M:%S"), **machine()}
    with write_text(folder / (f"{name}.failed.json" if "failed" in found else f"{name}.json")) as file:
        json.dump(found, file, indent=1)
    return found


def machine() -> dict[str, Any]:
    """Return processor, GPU and versions; no names or paths."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {"gpu": gpu, "cores": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, help="a folder for what is found and for checkpoints")
    parser.add_argument("--only", default=",".join(PARTS), help=f"comma-separated: {', '.join(PARTS)}")
    parser.add_argument("--rehearse", action="store_true", help="every part at toy size; without -o in a new folder")
    asked = parser.parse_args()
    if not asked.rehearse and not torch.cuda.is_available():
        parser.error("there is no GPU here; --rehearse runs every part at toy size")
    if not asked.rehearse and asked.out is None:
        parser.error("-o FOLDER is needed: there each part is recorded, and gone on with")
    if unknown := set(asked.only.split(",")) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    logging.basicConfig(level=logging.WARNING)
    folder = asked.out or Path(tempfile.mkdtemp(prefix="berdslib-rehearsal-"))
    folder.mkdir(parents=True, exist_ok=True)
    done = []
    for name in asked.only.split(","):
        kept = folder / f"{name}.json"
        found = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else None
        if found is None or found["toy"] != asked.rehearse:
            found = run_part(name, TOY if asked.rehearse else Sizes(), folder)
        done.append(found)
        print(json.dumps(found), flush=True)
    print(f"{sum(d['minutes'] for d in done):.1f} minutes; recorded in {folder}")
    if any("failed" in d for d in done):
        sys.exit(1)


if __name__ == "__main__":
    main()
