"""Whether to project: the tables of docs/projection_rule.md, where the protocol is.

Usage: BERDS_DATA=FOLDER python scripts/projection_rule.py      (minutes on two cores, less when vectors are cached)
"""

import argparse
import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from projection_tasks import tasks_by_value
from simulate_statistics import bootstrap_interval

from berdslib.data.datasets import load, load_gold, load_passages, load_questions
from berdslib.models.encoders import get_encoder
from berdslib.retrieval.base import docno_order, top_k
from berdslib.retrieval.projection import perspective_vectors, scores, unit_vectors
from berdslib.study.rag import stance_task

DEMO = ("perspectrum", "ambigqa", "allsides", "exfever")
KINDS = {
    "perspectrum": "stance", "stances": "stance", "ambigqa": "question", "allsides": "leaning", "exfever": "inference",
    "stories": "likeness", "location": "place", "news-place": "place", "wiki-place": "place", "news-year": "year",
    "wiki-year": "year", "news-topic": "topic", "wiki-topic": "topic",
}  # fmt: skip
K, NEAR, SPLITS, ALLOWED = 5, 50, 20, 1.0  # cut-off; candidates that features look at; halves; points a task may lose
# 0 is the query as it is, 1 is PAP; below 0 the perspective is made louder than the query has it.
STRENGTHS = (-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)
STEPS = np.arange(0.05, 0.99, 0.05)
LOUD, SAME = 0.6, 0.3  # of the old rule


class Measured(NamedTuple):
    """A task, measured: `root_of` (n,) numbers the root of each query, `hits` {strength: (n,) 0 or 100}.

    `features` is {name: (n,)}, `old` the mask (n,) of the queries that the old rule projects, `old_hits` its scores.
    """

    name: str
    root_of: np.ndarray
    hits: dict[float, np.ndarray]
    features: dict[str, np.ndarray]
    old: np.ndarray
    old_hits: np.ndarray

    def per_root(self, values):
        """Return the mean of each root's queries, (roots,); NaN is no value."""
        return pd.Series(values).groupby(self.root_of).mean().to_numpy()


# ---------------------------------------------------------------- measuring


def measure(task, encoder):
    source = "difference" if task.name == "ambigqa" else "text"
    parts = task_vectors(task, encoder)
    by_strength = {s: scores("pap", *parts, strength=s, source=source) for s in STRENGTHS}
    old, old_scores = old_rule(*parts, by_text=scores("pap", *parts), baseline=by_strength[0.0])
    root_of = pd.factorize(np.array([q.question.qid for q in task.queries], dtype=object))[0]
    return Measured(
        task.name,
        root_of,
        {s: hits(task, values) for s, values in by_strength.items()},
        features(*parts, source, by_strength[0.0], by_strength[1.0]),
        old,
        hits(task, old_scores),
    )


def task_vectors(task, encoder):
    """Return the vectors of queries, roots and perspectives, (n, d) each, and of the passages, (m, d)."""
    texts = zip(*((q.text, q.question.text, q.perspective) for q in task.queries), strict=True)
    return *(encoder.encode_queries(list(part)) for part in texts), encoder.encode_passages(
        [p.full_text for p in task.passages]
    )


def hits(task, values):
    """Return 100 for each query that has a gold text among its best, else 0, (n,); p-Recall is a root's mean of it."""
    docnos = np.array([p.docno for p in task.passages], dtype=object)
    gold = task.gold.groupby(["qid", "pid"])["docno"].agg(set)
    wanted = [gold[q.qid, pid] for q in task.questions for pid in range(len(q.perspectives))]
    order = docno_order(list(docnos))
    best = (docnos[top_k(row, K, order)] for row in values)
    return np.array([100.0 * bool(texts & set(found)) for texts, found in zip(wanted, best, strict=True)])


def cosine(a, b):
    return np.einsum("ij,ij->i", unit_vectors(a), unit_vectors(b))


def loudness(root, perspective, passages):
    """Return the spread of the perspective's cosines with all passages, divided by that of the root's, (n,)."""
    unit = unit_vectors(passages)
    by_root, by_perspective = ((unit_vectors(v) @ unit.T).std(axis=1) for v in (root, perspective))
    return np.divide(by_perspective, by_root, out=np.zeros(len(root)), where=by_root > 0)


def old_rule(query, root, perspective, passages, *, by_text, baseline):
    """Return which queries the old rule projects (n,), and its scores (n, m).

    Loud perspectives are projected out; where the perspective's text repeats its root, query - root is.
    """
    repeats = cosine(root, perspective) > SAME
    difference = perspective_vectors(query, root, perspective, "difference")
    loud = loudness(root, np.where(repeats[:, None], difference, perspective), passages) > LOUD
    by_difference = scores("pap", query, root, perspective, passages, source="difference")
    projected = np.where(repeats[:, None], by_difference, by_text)
    return loud, np.where(loud[:, None], projected, baseline)


def features(query, root, perspective, passages, source, baseline, pap):
    """Return {name: (n,)} of what the protocol lists; none sees a label."""
    p = perspective_vectors(query, root, perspective, source)
    unit = unit_vectors(passages)
    by_root, by_perspective = unit_vectors(root) @ unit.T, unit_vectors(p) @ unit.T
    best = {"query": ordered(baseline), "pap": ordered(pap), "root": ordered(by_root), "p": ordered(by_perspective)}
    near_query = [np.take_along_axis(v, best["query"][:, :NEAR], axis=1) for v in (baseline, by_perspective)]
    near_root = np.take_along_axis(by_perspective, best["root"][:, :NEAR], axis=1)
    spread = by_perspective.std(axis=1)
    return {
        "loudness": loudness(root, p, passages),
        "query-perspective": cosine(query, p),
        "root-perspective": cosine(root, p),
        "query-root": cosine(query, root),
        "explained": np.array([np.corrcoef(a, b)[0, 1] ** 2 for a, b in zip(*near_query, strict=True)]),
        "agreement": shared(best["query"][:, :10], best["pap"][:, :10]),
        "peak": (by_perspective.max(axis=1) - by_perspective.mean(axis=1)) / spread,
        "spread": near_root.std(axis=1) / spread,
        "both": shared(best["query"][:, :10], best["root"][:, :NEAR], best["p"][:, :NEAR]),
    }


def ordered(values):
    return np.argsort(-values, axis=1, kind="stable")


def shared(first, *others):
    """Return which part of each row of `first` is in that row of all others, (n,)."""
    inside = [np.array([np.isin(a, b) for a, b in zip(first, other, strict=True)]) for other in others]
    return np.logical_and.reduce(inside).mean(axis=1)


# ---------------------------------------------------------------- rules


class Rule(NamedTuple):
    """Project by `strength` where the feature is above the threshold (sign 1) or below it (-1); "" is everywhere."""

    strength: float
    feature: str = ""
    sign: int = 1
    threshold: float = 0.0
    whole_task: bool = False

    def values(self, task):
        """Return the score of each query of a task, (n,)."""
        if not self.feature:
            return task.hits[self.strength]
        seen = task.features[self.feature]
        seen = np.full(len(seen), seen.mean()) if self.whole_task else seen
        return np.where(self.sign * seen > self.sign * self.threshold, task.hits[self.strength], task.hits[0.0])

    def __str__(self):
        if not self.feature:
            return {0.0: "never", 1.0: "always PAP"}.get(self.strength, f"strength {self.strength:g} everywhere")
        over = "mean of the task's " if self.whole_task else ""
        return f"PAP if {over}{self.feature} {'>' if self.sign > 0 else '<'} {self.threshold:.2f}"


def candidates(training):
    """Return all rules, never projecting first; thresholds come from the training tasks' queries."""
    rules = [Rule(0.0), Rule(1.0), *(Rule(s) for s in STRENGTHS if s not in (0.0, 1.0))]
    for feature in training[0].features:
        steps = np.quantile(np.concatenate([t.features[feature] for t in training]), STEPS)
        rules += [Rule(1.0, feature, sign, at, whole) for whole in (False, True) for sign in (1, -1) for at in steps]
    return rules


def choose_rule(training):
    """Return the rule with the best mean difference to the baseline that costs no training task more than a point."""

    def gains(rule):
        return np.array([t.per_root(rule.values(t) - t.hits[0.0]).mean() for t in training])

    measured = [(rule, gains(rule)) for rule in candidates(training)]
    safe = [(rule, gain.mean()) for rule, gain in measured if gain.min() >= -ALLOWED]
    return max(safe, key=lambda pair: pair[1])[0]


def dev_mask(roots, seed=0):
    """Return a mask (n,) of what to choose on: half of the different roots, drawn at random whatever their order."""
    names = np.unique(np.asarray(roots))
    drawn = np.random.default_rng(seed).permutation(names)[: (len(names) + 1) // 2]
    return np.isin(roots, drawn)


def choose_option(options, default):
    """Return the option with the best mean over development roots; the default unless it is beaten by a standard error.

    `options` hold for each (n,) scores, roots in one order; the best of many options is partly the luckiest.
    """
    gains = {key: np.asarray(values) - options[default] for key, values in options.items()}
    # Where a single root gains, the gain is one standard error exactly; rounding must not decide.
    errors = {key: gain.std(ddof=1) / np.sqrt(len(gain)) for key, gain in gains.items()}
    sure = [key for key, gain in gains.items() if gain.mean() > errors[key] * (1 + 1e-9)]
    return max(sure, key=lambda key: gains[key].mean(), default=default)


def with_strength_chosen(task):
    """Return each root's mean score over the halves in which it is scored, (roots,), and the strengths chosen."""
    by_root = {s: task.per_root(values) for s, values in task.hits.items()}
    total, times, chosen = np.zeros(len(by_root[0.0])), np.zeros(len(by_root[0.0])), []
    for seed in range(SPLITS):
        half = dev_mask([f"{i:03}" for i in range(len(total))], seed)
        chosen.append(choose_option({s: values[half] for s, values in by_root.items()}, default=0.0))
        total[~half] += by_root[chosen[-1]][~half]
        times[~half] += 1
    return total / np.where(times > 0, times, np.nan), chosen


# ---------------------------------------------------------------- tables


def all_tasks(folder):
    loaded = [load(f"pir-demo:{name}") for name in DEMO]
    loaded += [stance_task(load_questions("sample", "all"), load_gold("sample"), load_passages("sample"))]
    return [*loaded, load("pir-sample:stories"), load("pir-sample:location"), *tasks_by_value(folder).values()]


def with_interval(values):
    low, high = bootstrap_interval(values)
    return f"{values.mean():.1f} [{low:.1f}, {high:.1f}]"


def systems_of(tasks):
    """Return {system: {task: (roots,) scores}} and the rules chosen, a frame."""
    systems = {
        "baseline": {t.name: t.per_root(t.hits[0.0]) for t in tasks},
        "PAP": {t.name: t.per_root(t.hits[1.0]) for t in tasks},
        "old rule": {t.name: t.per_root(t.old_hits) for t in tasks},
        "rule, task left out": {},
        "rule, kind left out": {},
        "strength from half": {},
    }
    choices = {}
    for t in tasks:
        by_task = choose_rule([other for other in tasks if other.name != t.name])
        by_kind = choose_rule([other for other in tasks if KINDS[other.name] != KINDS[t.name]])
        systems["rule, task left out"][t.name] = t.per_root(by_task.values(t))
        systems["rule, kind left out"][t.name] = t.per_root(by_kind.values(t))
        systems["strength from half"][t.name], strengths = with_strength_chosen(t)
        times = pd.Series(strengths).value_counts()
        choices[t.name] = {
            "task left out": str(by_task),
            "kind left out": str(by_kind),
            "strengths (times)": ", ".join(f"{s:g} ({n})" for s, n in times.items()),
        }
    return systems, pd.DataFrame(choices).T


GROUPS = {
    "all 13": tuple(KINDS),
    "the demo's 4": DEMO,
    "Wikipedia's 3": ("wiki-place", "wiki-year", "wiki-topic"),
    "the other 6, ours": ("stances", "stories", "location", "news-place", "news-year", "news-topic"),
}


def gains(systems):
    """Return the differences to the baseline: mean over groups of tasks, and the task that loses most."""
    rows = {}
    for name, of_task in systems.items():
        differences = {t: values - systems["baseline"][t] for t, values in of_task.items()}
        rows[name] = {group: gain({t: differences[t] for t in names}) for group, names in GROUPS.items()}
        means = {t: values.mean() for t, values in differences.items()}
        worst = min(means, key=means.get)
        rows[name]["worst task"] = f"{worst}, {means[worst]:+.1f}"
    return pd.DataFrame(rows).T.drop(index="baseline")


def gain(differences):
    """Return the mean of the tasks' means with its interval, roots being drawn within their task."""
    groups = [task for task, values in differences.items() for _ in values]
    low, high = bootstrap_interval(np.concatenate(list(differences.values())), groups)
    mean = np.mean([values.mean() for values in differences.values()])
    mean, low, high = np.round([mean, low, high], 1) + 0.0  # rounding may leave a -0
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


def markdown(frame):
    lines = [["", *frame.columns], ["---"] * (len(frame.columns) + 1), *([i, *row] for i, *row in frame.itertuples())]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if not os.environ.get("BERDS_DATA"):
        sys.exit("BERDS_DATA must name the folder with pir/demo_pir_dataset.json and wikipedia/")
    encoder = get_encoder("minilm")
    tasks = [measure(task, encoder) for task in all_tasks(Path(os.environ["BERDS_DATA"]))]
    systems, choices = systems_of(tasks)
    table = pd.DataFrame({s: {t: with_interval(v) for t, v in of.items()} for s, of in systems.items()})
    table.insert(0, "roots", [len(v) for v in systems["baseline"].values()])
    projected = pd.Series({t.name: f"{100 * t.old.mean():.0f} %" for t in tasks})
    chosen = systems["strength from half"]
    table["gain of that strength"] = [gain({t: v - systems["baseline"][t]}) for t, v in chosen.items()]
    for part in (table, gains(systems), choices.assign(**{"old rule projects": projected})):
        print(markdown(part), end="\n\n")


if __name__ == "__main__":
    main()
