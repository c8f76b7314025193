"""Sentence encoders run by OpenVINO: the same network, fused for this CPU, in float32 or bfloat16."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from berdslib.errors import InputError, MissingDataError
from berdslib.models.loading import quiet_loading, token_batches

if TYPE_CHECKING:
    import torch

VectorsOfIds = Callable[[list[list[int]]], np.ndarray]
# Word pieces in a forward pass, padding included: enough to keep the cores busy, few enough for their caches.
TOKENS = 1024


def require_openvino() -> None:
    """Raise MissingDataError if the package is not installed."""
    if importlib.util.find_spec("openvino") is None:
        raise MissingDataError("engine='openvino' needs the package openvino: pip install 'berdslib[openvino]'")


def openvino_vectors(model: Any, number_format: str) -> Callable[[list[str], str], np.ndarray]:
    """Return the function that makes vectors, as :func:`berdslib.models.encoders.load_checkpoint` does.

    It uses as many threads as torch would (``torch.set_num_threads``, OMP_NUM_THREADS).

    Args:
        model: a sentence-transformers model on the CPU in float32: a transformer and its pooling.
        number_format: "float32" or "bfloat16".
    """
    if not hasattr(model[0], "auto_model"):
        raise InputError("OpenVINO supports only transformers here; use engine='torch'")
    vectors = openvino_reader(_whole(model), model.tokenizer, number_format)

    def vectors_of(texts: list[str], prefix: str) -> np.ndarray:
        if prefix and not all(getattr(part, "include_prompt", True) for part in model):
            raise InputError("this checkpoint leaves prefixes out of the mean, which OpenVINO does not support here")
        prefixed = [prefix + text for text in texts]
        inputs = model.tokenizer(prefixed, truncation=True, max_length=model.max_seq_length)
        return vectors(inputs["input_ids"])

    return vectors_of


def openvino_reader(module: torch.nn.Module, tokenizer: Any, number_format: str) -> VectorsOfIds:
    """Return a function from the word pieces of texts to the vectors of a module.

    Args:
        module: maps ``input_ids`` and ``attention_mask``, both (n, tokens), to vectors (n, d); in float32 on the CPU.
        tokenizer: the tokenizer of its texts, for padding.
        number_format: "float32" or "bfloat16".
    """
    with _no_telemetry():
        import openvino
    import torch

    # Padded, because the library drops the mask from the network if all texts have the same length.
    example = dict(tokenizer(["one", "two words", "a few words more"], padding=True, return_tensors="pt"))
    example = {name: example[name] for name in ("input_ids", "attention_mask")}
    shapes: list[tuple[str, list[int]]] = [(name, [-1, -1]) for name in example]
    # Tracing makes transformers warn about training code.
    with torch.inference_mode(), _no_telemetry(), quiet_loading():
        network = openvino.convert_model(module.eval(), example_input=example, input=shapes)
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if number_format == "bfloat16" else "f32",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(network, "CPU", settings)
    width = compiled.output(0).partial_shape[1].get_length()

    def vectors_of(ids: list[list[int]]) -> np.ndarray:
        vectors = np.empty((len(ids), width), dtype=np.float32)
        request = compiled.create_infer_request()
        for rows in token_batches([len(pieces) for pieces in ids], TOKENS):
            batch = tokenizer.pad({"input_ids": [ids[i] for i in rows]}, return_tensors="np")
            vectors[rows] = request.infer({name: batch[name] for name in ("input_ids", "attention_mask")})[0]
        return vectors

    return vectors_of


def _whole(model: Any) -> torch.nn.Module:
    """Return a whole sentence-transformers model, pooling included, as a module of two tensors."""
    import torch

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            features = {"input_ids": input_ids, "attention_mask": attention_mask}
            vectors: torch.Tensor = self.model(features)["sentence_embedding"]
            return vectors

    return Whole()


@contextmanager
def _no_telemetry() -> Iterator[None]:
    """Stop OpenVINO from sending usage statistics, which it does by default, and hide warnings.

    It sends nothing if the environment says CI. The warnings are about branches that are the same for all texts, which
    the tests check.
    """
    with patch.dict(os.environ, {"CI": "true"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
