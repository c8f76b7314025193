"""Which side lists show, and what changes that: the tables of docs/results.md (BeRDS Figures 2 and 3) on real data.

Usage: BERDS_ENGINE=openvino BERDS_DATA=FOLDER python scripts/sides_tables.py theperspective
       … theses                    the theses of the ArguAna corpus: its own labels say which argument is for or against
       … arguana --judge laptop    development questions of BeRDS over the ArguAna corpus [--limit 70]
       … wikipedia --judge laptop --passages 5000      the same over so many random passages of Wikipedia articles
       … judges --judge laptop     a judge beside the labels, on the lists of the first theses [--limit 150]

Prints both figures as tables, one-sided lists by data set, flips, leaning by rank, by the passage's length and by
negation words, and, where verdicts cost nothing, how re-ranking, expansion and projection change it.
"""

import argparse
import re
from dataclasses import replace

import numpy as np
import pandas as pd
from one_vector import arguana_theses

import berdslib as bd
from berdslib.data.corpus import by_docno
from berdslib.evaluation.sides import leaning
from berdslib.retrieval.retrievers import is_dense

RETRIEVERS = ["bm25", "minilm", "mpnet"]
DEV = ["arguana", "kialo", "opinionqa"]
CORPORA = {"arguana": "arguana-corpus", "wikipedia": "wikipedia-articles:words"}
NEGATION = re.compile(r"\b(?:not|no|never|none|nor|neither|cannot|without)\b|n['’]t\b", re.IGNORECASE)
CHANGES = ["", "+mmr:0.75", "+mmr:0.5", "+dpp:0.5", "+expand:rule"]  # behind the first dense system


def collection(what, limit, n):
    """Return the questions and what is searched, n passages of it at random."""
    if what == "theperspective":
        return bd.load(what, limit=limit)
    if what in ("theses", "judges"):
        found = arguana_theses()
        sided = [q._replace(stances=("support", "oppose"), source="theses") for q in found.questions]
        return found.only(sided[: limit or None])
    found = bd.load(DEV, passages=CORPORA[what], split="dev", limit=limit)
    if not n:
        return found
    rows = np.random.default_rng(0).permutation(len(found.passages))[:n]
    return replace(found, passages=[found.passages[int(i)] for i in rows])


def described(result, data):
    """Add to each listed passage the third of all listed ones that its length is in, and whether words deny in it."""
    corpus, listed = by_docno(data.passages), result.listed.copy()
    words = {docno: len(corpus[docno].text.split()) for docno in listed["docno"].unique()}
    thirds = pd.qcut(pd.Series(words).rank(method="first"), 3, labels=["short", "middle", "long"])
    listed["length"] = listed["docno"].map(thirds).astype(str)
    denies = {docno: bool(NEGATION.search(corpus[docno].full_text)) for docno in words}
    listed["passage denies"] = listed["docno"].map(denies)
    stated = {(q.qid, s): t for q in result.questions for s, t in zip(q.stances, q.perspectives, strict=True)}
    stance = {"supporting": "support", "opposing": "oppose"}
    listed["query denies"] = [
        asked in stance and bool(NEGATION.search(stated[qid, stance[asked]]))
        for qid, asked in zip(listed["qid"], listed["asked"], strict=True)
    ]
    return listed


def show(title, table):
    """Print a table with its title."""
    print(f"\n{title}\n{table.round(3).to_string(index=False)}", flush=True)


def yes_rates(verdicts, gold):
    """Return how often a judge says yes, by label and by stance, of labelled passages."""
    keys = ["qid", "docno"]
    labelled = pd.MultiIndex.from_frame(verdicts[keys]).isin(pd.MultiIndex.from_frame(gold[keys]))
    right = pd.MultiIndex.from_frame(verdicts[[*keys, "pid"]]).isin(pd.MultiIndex.from_frame(gold[[*keys, "pid"]]))
    of_stance = verdicts.assign(perspective=np.where(verdicts["pid"] == 0, "supporting", "opposing"), label=right)
    return of_stance[labelled].groupby(["label", "perspective"])["supports"].agg(yes="mean", pairs="size").reset_index()


def tables(result, data):
    """Print everything about the lists of some systems."""
    print(f"\n{data.name}: {len(result.questions)} questions, {len(data.passages):,} passages\n{result}")
    show("one-sided lists", result.asymmetry)
    show("leaning, also as printed", result.leaning)
    show("sycophancy", result.sycophancy)
    show("flips", result.flips)
    listed = described(result, data)
    for column in ("rank", "length", "passage denies"):
        own = listed[listed["asked"] == "question"]
        show(f"questions' lists, by {column}", leaning(own, ["system", column], resamples=2000))
    show("by negation in the query", leaning(listed, ["system", "asked", "query denies"], resamples=2000))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["theperspective", "theses", *CORPORA, "judges"])
    parser.add_argument("--systems", default=",".join(RETRIEVERS))
    parser.add_argument("--judge", help="for BeRDS' questions; the others have labels")
    parser.add_argument("--limit", type=int, default=0, help="questions of each data set; 0 = all")
    parser.add_argument("--passages", type=int, default=0, help="search that many at random; 0 = all")
    asked = parser.parse_args()
    pd.set_option("display.width", 250)
    data = collection(asked.what, asked.limit, asked.passages)
    systems = asked.systems.split(",")
    if asked.what == "judges":
        for judge in (None, asked.judge):
            found = bd.sides(systems, data, judge=judge)
            print(f"\n{judge or 'labels'}\n{found}", flush=True)
        show(f"how often {asked.judge} says yes", yes_rates(found.verdicts, data.gold))
        raise SystemExit
    labelled = asked.what in ("theperspective", "theses")
    options = {} if labelled else {"judge": asked.judge, "stances": "by order"}
    tables(bd.sides(systems, data, **options), data)
    dense = [system for system in systems if is_dense(system)]
    if labelled and dense:
        print("\nWhat changes it")
        print(bd.sides([dense[0] + change for change in CHANGES], data), flush=True)
        projected = [system + pap for system in dense for pap in ("", "+pap:1.0")]
        print(bd.sides(["bm25", *projected], data, form="question first"))
