"""Statements made by rule of yes/no questions against the reference perspectives of BeRDS, and what they do to search.

Usage: python benchmarks/bench_rule_statements.py [--old FILE] [--half first|second|both] [--failed] [--search]

The questions are the 610 of development (BERDS_DATA says where they are); a hash of its text puts each in a half, so
that rules can be written on the first and measured on the second. Texts count as equal if they are once case,
punctuation and contractions are taken away, and a "not true that" is put in front. --old compares with an earlier
version of negation.py, as `git worktree` gives it. --failed lists questions without a statement. --search scores
expansion by rule on theperspective (gold verdicts): MRecall@5 and Precision@5 with intervals and paired tests.
"""

import argparse
import hashlib
import importlib.util
import re
from collections import Counter
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

import berdslib as bd
from berdslib.retrieval import expansion
from berdslib.statements import negation
from berdslib.stats import paired_test

SOURCES = ("arguana", "kialo", "opinionqa")
CONTRACTIONS = {"’": "'", "can't": "can not", "cannot": "can not", "won't": "will not", "n't": " not"}


def half(text):
    return "second" if int(hashlib.sha256(text.encode()).hexdigest(), 16) % 2 else "first"


def plain(text):
    """Return the words of a text without case, punctuation, contractions."""
    text = text.lower()
    for short, long in CONTRACTIONS.items():
        text = text.replace(short, long)
    return re.findall(r"\w+", re.sub(r"^it is not true that", "not", text))


def f1(ours, theirs):
    a, b = Counter(plain(ours)), Counter(plain(theirs))
    return 2 * (a & b).total() / (a.total() + b.total())


def rate(made, questions):
    """Return the share of questions answered, and of those answered: equal texts and token F1, for yes and for no."""
    pairs = [(pair, q.perspectives) for q in questions if (pair := made[q.qid])]
    found = {"questions": len(questions), "answered": len(pairs) / len(questions)}
    for i, name in enumerate(("yes", "no")):
        equal = [plain(pair[i]) == plain(gold[i]) for pair, gold in pairs]
        found[f"{name}: equal of answered"] = sum(equal) / len(pairs)
        found[f"{name}: equal of all"] = sum(equal) / len(questions)
        found[f"{name}: F1 of answered"] = sum(f1(pair[i], gold[i]) for pair, gold in pairs) / len(pairs)
        found[f"{name}: F1 of all"] = found[f"{name}: F1 of answered"] * found["answered"]
    both = [all(plain(one) == plain(two) for one, two in zip(pair, gold, strict=False)) for pair, gold in pairs]
    found["both equal of answered"] = sum(both) / len(pairs)
    found["no equal where yes is"] = sum(both) / max(1, round(found["yes: equal of answered"] * len(pairs)))
    return found


def statements(versions, chosen, show_failed):
    data = {name: [q for q in bd.load(name, split="dev").questions if chosen in ("both", half(q.text))]
            for name in SOURCES}  # fmt: skip
    data["all"] = [q for questions in data.values() for q in questions]
    rows = {}
    for version, rule in versions.items():
        made = {q.qid: rule(q.text) for q in data["all"]}
        for source, questions in data.items():
            rows[source, version] = rate(made, questions)
        if show_failed:
            print(f"without a statement, {version}:", *(q.text for q in data["all"] if not made[q.qid]), sep="\n  ")
    return pd.DataFrame(rows).T.sort_index(level=0, sort_remaining=False)


def search(versions):
    data = bd.load("theperspective")
    for name in ("bm25", "minilm"):
        runs = {name: bd.search(name, data, k=5)}
        for version, rule in versions.items():
            expansion._templates.cache_clear()  # of the version before
            with mock.patch.object(expansion, "two_sides", rule):
                runs[f"expand:rule, {version}"] = bd.search(f"{name}+expand:rule", data, k=5)
        result = bd.experiment(runs, data, ["MRecall@5", "Precision@5"], baseline=name)
        print("", result, sep="\n")
        _, before, *others = runs
        for label in others:
            for measure in result.scores[label]:
                ours, theirs = (100 * result.scores[one][measure].to_numpy() for one in (label, before))
                more = ours - theirs
                drawn = np.random.default_rng(0).integers(0, len(more), (10_000, len(more)))
                low, high = np.quantile(more[drawn].mean(axis=1), [0.025, 0.975])
                p = paired_test(ours, theirs)
                print(f"{label} less {before}, {measure}: {more.mean():+.1f} [{low:.1f}, {high:.1f}], p = {p:.2f}, "
                      f"{(more > 0).sum()} up, {(more < 0).sum()} down")  # fmt: skip
    for version, rule in versions.items():
        print(f"{version}: {sum(rule(q.text) is not None for q in data.questions)} questions with statements")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--old", type=Path)
    options.add_argument("--half", choices=("first", "second", "both"), default="both")
    options.add_argument("--failed", action="store_true")
    options.add_argument("--search", action="store_true")
    chosen = options.parse_args()
    versions = {"yes and no": partial(negation.two_sides, choices=False), "two sides": negation.two_sides}
    if chosen.old:
        spec = importlib.util.spec_from_file_location("old_negation", chosen.old)
        old = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(old)
        versions = {"old": partial(old.two_sides, choices=False), **versions}
    with pd.option_context("display.width", 200, "display.max_columns", 20, "display.float_format", "{:.3f}".format):
        print(statements(versions, chosen.half, chosen.failed).T)
    if chosen.search:
        search(versions)


if __name__ == "__main__":
    main()
