"""Take what the trials need to a machine that can only be handed small files, and unpack it there.

    python travel.py pack MPNET MINILM DATA PIECES     weights in bfloat16, cut in pieces; the data, compressed
    python travel.py unpack PIECES LAPTOP DATA BASES    also cuts all texts into tokens

bfloat16 costs nothing here: training and judging multiply in it. Exponents, which repeat, are compressed; the rest is
not.
"""

from __future__ import annotations

import json
import lzma
import shutil
import sys
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np

PIECE = 39_200_000
_EMBEDDINGS = "embeddings."


def squeeze(bits: np.ndarray) -> bytes:
    """Return uint16 bfloat16 values as their signs and mantissas, and then, compressed, their exponents."""
    exponents = ((bits >> 7) & 0xFF).astype(np.uint8)
    rest = (((bits >> 8) & 0x80) | (bits & 0x7F)).astype(np.uint8)
    return rest.tobytes() + zlib.compress(exponents.tobytes(), 6)


def stretch(packed: bytes, n: int) -> np.ndarray:
    rest = np.frombuffer(packed[:n], dtype=np.uint8).astype(np.uint16)
    exponents = np.frombuffer(zlib.decompress(packed[n:]), dtype=np.uint8).astype(np.uint16)
    return ((rest & 0x80) << 8) | (exponents << 7) | (rest & 0x7F)


def pack_weights(tensors: dict, target: Path) -> None:
    import torch

    shapes = {name: list(t.shape) for name, t in tensors.items()}
    flat = (
        torch.cat([t.float().bfloat16().flatten() for t in tensors.values()]).view(torch.int16).numpy().view(np.uint16)
    )
    packed = squeeze(flat)
    assert (stretch(packed, len(flat)) == flat).all()
    head = json.dumps({"shapes": shapes, "n": len(flat)}).encode()
    target.write_bytes(len(head).to_bytes(8, "little") + head + packed)


def unpack_weights(source: bytes, target: Path) -> None:
    import torch
    from safetensors.torch import save_file

    size = int.from_bytes(source[:8], "little")
    head = json.loads(source[8 : 8 + size])
    flat = torch.from_numpy(stretch(source[8 + size :], head["n"]).view(np.int16).copy()).view(torch.bfloat16)
    tensors, at = {}, 0
    for name, shape in head["shapes"].items():
        n = int(np.prod(shape))
        tensors[name] = flat[at : at + n].reshape(shape).contiguous()
        at += n
    save_file(tensors, target)


def pack(mpnet: Path, minilm: Path, data: Path, pieces: Path) -> None:
    from safetensors.torch import load_file

    shutil.rmtree(pieces, ignore_errors=True)
    first = pieces / "1"
    first.mkdir(parents=True)
    for name, folder in (("mpnet", mpnet), ("minilm", minilm)):
        for file in ("config.json", "tokenizer.json"):
            shutil.copy(folder / file, first / f"{name}.{file}")
    (first / "pairs.json.xz").write_bytes(lzma.compress((data / "pairs.json").read_bytes(), preset=3))
    kept = {
        k: v
        for k, v in load_file(minilm / "model.safetensors").items()
        if k.startswith(_EMBEDDINGS) and v.is_floating_point()
    }
    pack_weights(kept, first / "minilm.weights")
    for script in Path(__file__).parent.glob("*.py"):
        shutil.copy(script, first / script.name)
    weights = load_file(mpnet / "model.safetensors")
    pack_weights({k: v for k, v in weights.items() if v.is_floating_point() and "pooler" not in k}, pieces / "whole")
    whole = (pieces / "whole").read_bytes()
    room = PIECE - sum(p.stat().st_size for p in first.iterdir())
    cuts = [0, *range(room, len(whole), PIECE), len(whole)]
    for i, (a, b) in enumerate(pairwise(cuts), start=1):
        (pieces / str(i)).mkdir(exist_ok=True)
        (pieces / str(i) / f"mpnet.part{i}").write_bytes(whole[a:b])
    (pieces / "whole").unlink()
    for folder in sorted(pieces.iterdir()):
        print(folder.name, sum(p.stat().st_size for p in folder.iterdir()))


def unpack(pieces: Path, laptop: Path, data: Path, bases: Path) -> None:
    """Pieces: one folder with what came; laptop: the shipped weights."""
    from safetensors.torch import load_file, save_file
    from tokenizers import Tokenizer

    data.mkdir(parents=True, exist_ok=True)
    (data / "pairs.json").write_bytes(lzma.decompress((pieces / "pairs.json.xz").read_bytes()))
    texts = json.loads((data / "pairs.json").read_text("utf-8"))["texts"]
    for name, first, last in (("mpnet", 0, 2), ("minilm", 101, 102)):
        (bases / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(pieces / f"{name}.config.json", bases / name / "config.json")
        tokenizer = Tokenizer.from_file(str(pieces / f"{name}.tokenizer.json"))
        tokenizer.enable_truncation(256)
        tokenizer.no_padding()
        ids = [one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=False)]
        ends = np.cumsum([len(one) for one in ids])
        flat = np.concatenate([np.array(one, dtype=np.uint16) for one in ids])
        np.savez(data / f"{name}.npz", ids=flat, ends=ends, first=first, last=last)
    parts = sorted(pieces.glob("mpnet.part*"))
    unpack_weights(b"".join(p.read_bytes() for p in parts), bases / "mpnet" / "model.safetensors")
    unpack_weights((pieces / "minilm.weights").read_bytes(), bases / "minilm" / "embeddings.safetensors")
    learnt = load_file(laptop / "model.safetensors")
    layers = {k.removeprefix("encoder."): v for k, v in learnt.items() if k.startswith("encoder.")}
    save_file(
        {**layers, **load_file(bases / "minilm" / "embeddings.safetensors")}, bases / "minilm" / "model.safetensors"
    )
    head = {k: v.float() for k, v in learnt.items() if not k.startswith("encoder.")}
    save_file(head, bases / "minilm" / "head.safetensors")


if __name__ == "__main__":
    {"pack": pack, "unpack": unpack}[sys.argv[1]](*map(Path, sys.argv[2:]))
