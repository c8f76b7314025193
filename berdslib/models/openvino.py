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
# Word pieces in a forward pass, padding included: enough to keep the cores busy, few enough to stay near them.
TOKENS = 1024


def require_openvino() -> None:
    """Raise MissingDataError where the package is not here; the message says how to get it."""
    if importlib.util.find_spec("openvino") is None:
        raise MissingDataError("this needs openvino: pip install 'berdslib[openvino]'")


def openvino_vectors(model: Any, number_format: str) -> Callable[[list[str], str], np.ndarray]:
    """Return the function that makes vectors, as :func:`berdslib.models.encoders.load_checkpoint` does.

    It uses as many threads as torch would (``torch.set_num_threads``, OMP_NUM_THREADS).

    Args:
        model: a sentence-transformers model on the CPU in float32, of a transformer and what pools it.
        number_format: "float32" or "bfloat16".
    """
    if not hasattr(model[0], "auto_model"):
        raise InputError("only transformers are run by OpenVINO here; take engine='torch'")
    vectors = openvino_reader(_whole(model), model.tokenizer, number_format)

    def vectors_of(texts: list[str], prefix: str) -> np.ndarray:
        if prefix and not all(getattr(part, "include_prompt", True) for part in model):
            raise InputError("this checkpoint leaves prefixes out of the mean, which OpenVINO does not do here")
        inputs = model.tokenizer([prefix + t for t in texts], truncation=True, max_length=model.max_seq_length)
        return vectors(inputs["input_ids"])

    return vectors_of


def openvino_reader(module: torch.nn.Module, tokenizer: Any, number_format: str) -> VectorsOfIds:
    """Return a function that does what a module does, and takes the word pieces of texts.

    Args:
        module: from ``input_ids`` and ``attention_mask``, both (n, tokens), to vectors (n, d); in float32 on the CPU.
        tokenizer: of its texts, which pads.
        number_format: "float32" or "bfloat16".
    """
    with _no_telemetry():
        import openvino
    import torch

    # Padded, because the library leaves the mask out of the network where all texts are of one length.
    example = dict(tokenizer(["one", "two words", "a few words more"], padding=True, return_tensors="pt"))
    example = {name: example[name] for name in ("input_ids", "attention_mask")}
    shapes: list[tuple[str, list[int]]] = [(name, [-1, -1]) for name in example]
    # Tracing touches what the network would be trained by, which transformers then comments on.
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
        found = np.empty((len(ids), width), dtype=np.float32)
        request = compiled.create_infer_request()
        for rows in token_batches([len(one) for one in ids], TOKENS):
            batch = tokenizer.pad({"input_ids": [ids[i] for i in rows]}, return_tensors="np")
            found[rows] = request.infer({name: batch[name] for name in ("input_ids", "attention_mask")})[0]
        return found

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
    """Let no usage statistics be sent to OpenVINO's makers, as would be unless a user objects, and hide warnings.

    It sends nothing where the environment says that this is a test. The warnings are of branches that go the
    same way for all texts, which the tests check.
    """
    with patch.dict(os.environ, {"CI": "true"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
