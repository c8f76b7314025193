"""Compare the trials' encoders with transformers: python check.py FOLDER-OF-MPNET FOLDER-OF-MINILM."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from encoders import Encoder
from transformers import AutoModel, AutoTokenizer

TEXTS = ["Cities should ban cars.", "Removing private cars from downtown cuts pollution. " * 12, "x"]

for folder in sys.argv[1:]:
    theirs = AutoModel.from_pretrained(folder).float().eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ours = Encoder(Path(folder), rank=4, scale=1.0).eval()
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    mask = batch["attention_mask"].bool()
    with torch.inference_mode():
        a = theirs(**batch).last_hidden_state[mask]
        b = ours(batch["input_ids"], mask)[mask]
    print(folder, tuple(a.shape), "largest difference", float((a - b).abs().max()), "of", float(a.abs().max()))
