"""Can one query vector suffice? The tables of docs/results.md on real data.

Usage: BERDS_ENGINE=openvino BERDS_DATA=FOLDER python scripts/one_vector.py [minilm mpnet]

theperspective (its site's two columns), the theses of the ArguAna corpus (its own labels: which argument is for, which
is against) and the four tasks of PIR's demo release. Beside each question's gold passages as many random ones: what any
vector can tell apart says little if it can tell those apart as well.
"""

import argparse
import json

import numpy as np
import pandas as pd
import single_vector as one_vector

import berdslib as bd
from berdslib.data.datasets import load_passages, passage_file
from berdslib.data.records import make_verdicts
from berdslib.models.cards import model_card
from berdslib.models.encoders import get_encoder
from berdslib.statements import negate

KS = [5, 10, 100]
TASKS = [f"pir-demo:{name}" for name in ("perspectrum", "ambigqa", "allsides", "exfever")]


def arguana_theses():
    """Return the theses of the ArguAna corpus as questions, with the arguments for and against each as gold."""
    sides = {"pro": 0, "con": 1}
    facts = [(row["_id"], row["metadata"]) for row in map(json.loads, passage_file("arguana-corpus").open())]
    theses = {meta["debate"]: meta["thesis"] for _, meta in facts}
    questions = [bd.Question(debate, text, (text, negate(text))) for debate, text in theses.items()]
    gold = [(meta["debate"], sides[meta["stance"]], docno, 1.0, True) for docno, meta in facts]
    return bd.Collection("arguana theses", questions, load_passages("arguana-corpus"), make_verdicts(gold, "gold"))


def at_random(data):
    """Return gold verdicts with each passage exchanged for a random one, the same one everywhere."""
    docnos = [p.docno for p in data.passages]
    other = dict(zip(docnos, np.random.default_rng(0).permutation(docnos), strict=True))
    return data.gold.assign(docno=data.gold["docno"].map(other).fillna(data.gold["docno"]))


def diameters(data, encoder, text_of):
    """Return how far each question's gold vectors lie apart, and the median distance to their k-th neighbours."""
    texts, of_question = one_vector.gold_rows(data.questions, data.gold, data.passages, text_of)
    corpus, rows = one_vector.unit(encoder.encode_passages(texts)), []
    for qid, by_pid in of_question.items():
        every = np.unique(np.concatenate(by_pid))
        similar = -np.sort(-(corpus[every] @ corpus.T), axis=1)
        apart = distance(corpus[every] @ corpus[every].T).max()
        near = [np.median(distance(similar[:, k])) if k < len(corpus) else np.nan for k in KS]
        rows.append((qid, len(every), apart, *near))
    return pd.DataFrame(rows, columns=["qid", "gold", "diameter", *KS])


def distance(cosine):
    return np.sqrt(np.maximum(2 - 2 * cosine, 0))


def tables(data, encoder):
    """Print what vectors reach, how far gold lies apart, and what any vector makes of random passages."""
    options = {"encoder": get_encoder(encoder), "text_of": model_card(encoder).passage_text}
    shares = one_vector.share_within(one_vector.places_needed(data.questions, data.gold, data.passages, **options), KS)
    apart = diameters(data, **options)
    wider = {k: f"{(apart['diameter'] > apart[k]).mean():.1%}" for k in KS}
    print(f"\n{data.name}, {encoder}: n = {len(apart)}, {apart['gold'].mean():.1f} gold passages, diameter "
          f"{apart['diameter'].mean():.2f}, k-th neighbour {apart[KS].mean().round(2).to_dict()}, "
          f"questions whose gold lies wider apart {wider}")  # fmt: skip
    print((shares.set_index(["target", "vector", "n"]) * 100).round(1).to_string())
    needed = one_vector.places_needed(data.questions, at_random(data), data.passages, **options)
    chance = one_vector.share_within(needed, KS)
    kept = chance["vector"].isin([one_vector.ANY, "mean of its gold"]) & (chance["target"] == one_vector.ALL_GOLD)
    print("random passages in place of gold:")
    print((chance[kept].set_index(["target", "vector", "n"]) * 100).round(1).to_string(), flush=True)


if __name__ == "__main__":
    pd.set_option("display.width", 200)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoders", nargs="*", default=["minilm", "mpnet"])
    for name in parser.parse_args().encoders:
        for one in (bd.load("theperspective"), arguana_theses(), *map(bd.load, TASKS)):
            tables(one, name)
