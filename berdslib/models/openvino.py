"""Sentence encoders run by OpenVINO: the same network, fused for this CPU, in float32, bfloat16 or 8-bit integers.

In 8 bits (static quantisation after training, by NNCF) the ranges of activations are measured once, on the texts of the
packaged sample, and the network is kept in the user's cache: what was measured is part of every later vector.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from berdslib.data.datasets import load_passages
from berdslib.errors import InputError, MissingDataError
from berdslib.files import atomic_path
from berdslib.models.loading import cpu_flags, has_bf16, token_batches
from berdslib.paths import cache_dir

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

VectorsOfIds = Callable[[list[list[int]]], np.ndarray]
# Word pieces in a forward pass, padding included: enough to keep the cores busy, few enough to stay near them.
TOKENS = 1024
# Texts of the packaged sample from which the ranges of activations are read; NNCF's own default is 300.
CALIBRATION_TEXTS = 300
# Names that Linux gives to products of 8-bit integers: Intel and AMD, then ARM.
_INT8_FLAGS = ("vnni", "amx_int8", "asimddp", "i8mm")


def require_openvino(number_format: str) -> None:
    """Raise MissingDataError where the packages are not here; the message says how to get them."""
    packages = ("openvino", "nncf") if number_format == "int8" else ("openvino",)
    lacking = [package for package in packages if importlib.util.find_spec(package) is None]
    if lacking:
        raise MissingDataError(f"this needs {' and '.join(lacking)}: pip install 'berdslib[openvino]'")


def openvino_vectors(model: Any, number_format: str) -> Callable[[list[str], str, int], np.ndarray]:
    """Return the function that makes vectors, as :func:`berdslib.models.encoders.load_checkpoint` does.

    It uses as many threads as torch would (``torch.set_num_threads``, OMP_NUM_THREADS).

    Args:
        model: a sentence-transformers model on the CPU in float32, of a transformer and what pools it.
        number_format: "float32", "bfloat16", or "int8": most products with weights in 8 bits, the rest in bfloat16
            where the CPU has it.
    """
    if not hasattr(model[0], "auto_model"):
        raise InputError("only transformers are run by OpenVINO here; take engine='torch'")
    flags = cpu_flags()
    if number_format == "int8" and flags and not any(flag in flags for flag in _INT8_FLAGS):
        logger.warning("this CPU has no products of 8-bit integers in hardware: encoding in int8 gains little")
    network = _quantised(model) if number_format == "int8" else _converted_whole(model)
    vectors = _compiled(network, model.tokenizer, number_format)

    def vectors_of(texts: list[str], prefix: str, batch_size: int) -> np.ndarray:  # noqa: ARG001 - counts tokens
        if prefix and not all(getattr(part, "include_prompt", True) for part in model):
            raise InputError("this checkpoint leaves prefixes out of the mean, which OpenVINO does not do here")
        return vectors(_token_ids(model, [prefix + t for t in texts]))

    return vectors_of


def openvino_reader(module: torch.nn.Module, tokenizer: Any, number_format: str) -> VectorsOfIds:
    """Return a function that does what a module does, and takes the word pieces of texts.

    Args:
        module: from ``input_ids`` and ``attention_mask``, both (n, tokens), to vectors (n, d); in float32 on the CPU.
        tokenizer: of its texts, which pads.
        number_format: "float32" or "bfloat16".
    """
    return _compiled(_converted(module, tokenizer), tokenizer, number_format)


def _compiled(network: Any, tokenizer: Any, number_format: str) -> VectorsOfIds:
    """Return the function from word pieces of n texts to float32 (n, d)."""
    with _no_telemetry():
        import openvino
    import torch

    short = number_format == "bfloat16" or (number_format == "int8" and has_bf16())
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if short else "f32",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(network, "CPU", settings)
    width = compiled.output(0).partial_shape[1].get_length()

    def vectors_of(ids: list[list[int]]) -> np.ndarray:
        found = np.empty((len(ids), width), dtype=np.float32)
        request = compiled.create_infer_request()
        for rows in token_batches([len(one) for one in ids], TOKENS):
            batch = tokenizer.pad({"input_ids": [ids[i] for i in rows]}, return_tensors="np")
            found[rows] = request.infer({name: batch[name] for name in ("input_ids", "attention_mask")})[0]
        return found

    return vectors_of


def _token_ids(model: Any, texts: list[str]) -> list[list[int]]:
    ids: list[list[int]] = model.tokenizer(texts, truncation=True, max_length=model.max_seq_length)["input_ids"]
    return ids


def _converted_whole(model: Any) -> Any:
    """Return a whole sentence-transformers model, pooling included, as OpenVINO's network."""
    import torch

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            features = {"input_ids": input_ids, "attention_mask": attention_mask}
            vectors: torch.Tensor = self.model(features)["sentence_embedding"]
            return vectors

    return _converted(Whole(), model.tokenizer)


def _converted(module: torch.nn.Module, tokenizer: Any) -> Any:
    """Return a module as OpenVINO's network from input_ids and attention_mask to vectors."""
    with _no_telemetry():
        import openvino
    import torch

    # Padded, because the library leaves the mask out of the network where all texts are of one length.
    example = dict(tokenizer(["one", "two words", "a few words more"], padding=True, return_tensors="pt"))
    example = {name: example[name] for name in ("input_ids", "attention_mask")}
    shapes: list[tuple[str, list[int]]] = [(name, [-1, -1]) for name in example]
    with torch.inference_mode(), _no_telemetry():
        return openvino.convert_model(module.eval(), example_input=example, input=shapes)


def _quantised(model: Any) -> Any:
    """Return the network in 8 bits, from the user's cache or made now (about a minute)."""
    with _no_telemetry():
        import openvino
    from filelock import FileLock

    texts = [p.full_text for p in load_passages("sample")]
    step = max(1, len(texts) // CALIBRATION_TEXTS)
    texts = texts[::step][:CALIBRATION_TEXTS]
    folder = cache_dir() / "openvino"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _key(model, texts)
    with FileLock(folder / ".lock"):
        if not path.exists():
            logger.info("quantising to 8 bits, once; the result is kept in %s", path)
            with atomic_path(path) as unfinished:
                openvino.save_model(_quantise(model, texts), unfinished / "network.xml")
    return openvino.Core().read_model(path / "network.xml")


def _quantise(model: Any, texts: list[str]) -> Any:
    with _no_telemetry():
        import nncf

    nncf.set_log_level(logging.ERROR)
    inputs = [
        {"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), dtype=np.int64)}
        for ids in _token_ids(model, texts)
    ]
    network = _converted_whole(model)
    return nncf.quantize(
        network,
        nncf.Dataset(inputs),
        ignored_scope=nncf.IgnoredScope(names=_narrowing(network)),
        model_type=nncf.ModelType.TRANSFORMER,
        preset=nncf.QuantizationPreset.MIXED,
        subset_size=len(inputs),
    )


def _narrowing(network: Any) -> list[str]:
    """Return the names of products whose weights make a wide vector narrow, the second half of each feed-forward part.

    Their inputs have far outliers; in 8 bits they alone cost three quarters of the loss (1 - cosine) of MiniLM.
    """
    products = [op for op in network.get_ops() if op.get_type_name() == "MatMul"]
    weighted = [op for op in products if op.input(1).get_partial_shape().is_static]
    shapes = {op.get_friendly_name(): list(op.input(1).get_shape()) for op in weighted}
    # As torch keeps them: (out, in).
    return [name for name, shape in shapes.items() if len(shape) == 2 and shape[0] < shape[1]]


@contextmanager
def _no_telemetry() -> Iterator[None]:
    """Let no usage statistics be sent to OpenVINO's makers, as would be unless a user objects, and hide warnings.

    Both packages send nothing where the environment says that this is a test. The warnings are of branches that go the
    same way for all texts, which the tests check.
    """
    with patch.dict(os.environ, {"CI": "true", "NNCF_CI": "true"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _key(model: Any, texts: list[str]) -> str:
    """Return a hash of everything that the quantised network was made of."""
    versions = [importlib.metadata.version(package) for package in ("openvino", "nncf")]
    hashed = hashlib.sha256(repr((versions, texts, str(model), model.max_seq_length)).encode())
    for name, weight in sorted(model.state_dict().items()):
        hashed.update(name.encode() + np.ascontiguousarray(weight.numpy()).tobytes())
    return hashed.hexdigest()[:16]
