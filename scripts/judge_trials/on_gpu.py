"""What this project's encoder does on a GPU: close to the CPU, and how many passages a second.

python on_gpu.py BASES DATA PIECES
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import torch

from berdslib.models.cards import ModelCard
from berdslib.models.encoders import SentenceEncoder


def main(bases: Path, data: Path) -> None:
    stored = json.loads((data / "pairs.json").read_text("utf-8"))
    texts = list(dict.fromkeys(stored["texts"][r[0]] for r in stored["pairs"]["unlabelled"]))
    texts = [t for t in texts if 90 <= len(t.split()) <= 110][:6000]
    for name in ("minilm", "mpnet"):
        card = ModelCard(name, str(bases / name), max_length=384)
        exact = SentenceEncoder(card._replace(number_format="float32"))
        a = exact.encode_passages(texts[:500])
        torch.cuda.synchronize()
        for size in (32, 256):
            fast = SentenceEncoder(card, batch_size=size)
            b = fast.encode_passages(texts[:500])
            at = time.monotonic()
            fast.encode_passages(texts)
            rate = len(texts) / (time.monotonic() - at)
            print(f"{name}: {fast.id}, batch {size}: {rate:.0f} passages/s; cosine with float32 on the GPU: "
                  f"mean {np.mean((a * b).sum(1)):.5f}, least {np.min((a * b).sum(1)):.5f}")  # fmt: skip
    print("GPU", torch.cuda.get_device_name(), "torch", torch.__version__, "on", len(texts), "passages")


if __name__ == "__main__":
    for name in ("mpnet", "minilm"):
        shutil.copy(Path(sys.argv[3]) / f"{name}.tokenizer.json", Path(sys.argv[1]) / name / "tokenizer.json")
        cls, sep, pad = ("<s>", "</s>", "<pad>") if name == "mpnet" else ("[CLS]", "[SEP]", "[PAD]")
        kind = {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": cls, "sep_token": sep, "pad_token": pad,
                "model_max_length": 512}  # fmt: skip
        (Path(sys.argv[1]) / name / "tokenizer_config.json").write_text(json.dumps(kind))
    main(Path(sys.argv[1]), Path(sys.argv[2]))
