"""Scores of a scenario of PerspectiveArg at full size against plain loops over queries, properties and cut-offs.

Usage: OMP_NUM_THREADS=1 python benchmarks/bench_argument_task.py [--arguments 26000] [--loop-over 1.0]

The release is made up, in the size of the shared task: 26,000 arguments and 5,600 queries that name a property, here
all in one split. The run lists 20 arguments for each, about half of them answers where there are so many. Everybody
computes nDCG, P, alpha-nDCG and rKL at 4, 8, 16 and 20 from the same run. The plain loop is dictionaries and lists, and
takes each query, each property and each cut-off by itself. The second loop shares whatever can be shared: gains and
sums of all cut-offs, the ideal list where groups do not overlap, and each group's maximum of rKL. Ours starts from
frames, and checks them; the first time it also reads the profiles. Times are of the CPU, ours the best of five, but for
the first; the loops run once, over the given share of the queries. The published definitions have no loop beside them.

The table after that says what each measure makes of a random order, of the answers alone, and of answers among which a
minority comes last, or first.
"""

import argparse
import math
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from berdslib.data.arguments import PROPERTIES
from berdslib.data.records import ranked_run
from berdslib.data.scenario import open_scenario
from berdslib.evaluation.arguments import (
    ARGUMENT_MEASURES,
    KS,
    OFFICIAL_MEASURES,
    by_property,
    evaluate_arguments,
    group_shares,
)
from berdslib.evaluation.measures import rKL

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from synthetic_release import make_release

DEEPEST = max(KS)
ALPHA = 0.5


# ---------------------------------------------------------------- the plain loop


def dcg(gains, k):
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:k], start=1))


def novel(groups):
    seen, gains = {}, []
    for several in groups:
        gains.append(sum((1 - ALPHA) ** seen.get(group, 0) for group in several))
        for group in several:
            seen[group] = seen.get(group, 0) + 1
    return gains


def ideal(groups, k):
    left, worth, gains = list(groups), {}, []
    while left and len(gains) < k:
        values = [sum(worth.get(group, 1.0) for group in several) for several in left]
        best = max(range(len(left)), key=values.__getitem__)
        gains.append(values[best])
        for group in left.pop(best):
            worth[group] = worth.get(group, 1.0) * (1 - ALPHA)
    return gains


def divergence(p, q):
    heads = p * math.log2(p / q) if p > 0 else 0.0
    return heads + ((1 - p) * math.log2((1 - p) / (1 - q)) if p < 1 else 0.0)


def minorities(sizes):
    largest = max(sizes.values())
    return {group: n for group, n in sizes.items() if n < largest} or sizes


def rkl(groups, sizes, total, k):
    scores = []
    for group, n in minorities(sizes).items():
        found = first = last = 0.0
        for i in range(2, k + 1, 2):
            found += divergence(sum(group in several for several in groups[:i]) / i, n / total) / math.log2(i)
            first += divergence(min(i, n) / i, n / total) / math.log2(i)
            last += divergence(max(0, i - total + n) / i, n / total) / math.log2(i)
        scores.append(found / max(first, last))
    return mean(scores)


def mean(scores):
    return sum(scores) / len(scores) if scores else 0.0


def plain_loop(lists, scenario, queries):
    """Score queries, one after the other: qid → the scores in the order of ARGUMENT_MEASURES."""
    sizes, answers = group_sizes(scenario), answers_to(scenario)
    found = {}
    for q in queries:
        top, pool = lists[q.qid], sorted(answers[q.qid], reverse=True)
        relevant = set(pool)
        hits = [docno in relevant for docno in top]
        scores = [dcg(hits, k) / dcg([1] * len(pool), k) for k in KS] + [sum(hits[:k]) / k for k in KS]
        properties = [name for name in PROPERTIES if name not in scenario.asked[q.qid]]
        groups = {name: [scenario.authors[docno].get(name, ()) for docno in top] for name in properties}
        of_pool = {name: [scenario.authors[docno].get(name, ()) for docno in pool] for name in properties}
        for k in KS:
            diversity = []
            for name in properties:
                if any(of_pool[name]):
                    shown = [several if hit else () for several, hit in zip(groups[name], hits, strict=True)]
                    diversity.append(dcg(novel(shown[:k]), k) / dcg(ideal(of_pool[name], k), k))
            scores.append(mean(diversity))
        for k in KS:
            scores.append(mean([rkl(groups[name], sizes[name], len(scenario.passages), k) for name in properties]))
        found[q.qid] = scores
    return found


def group_sizes(scenario):
    sizes = {name: {} for name in PROPERTIES}
    for profile in scenario.authors.values():
        for name, several in profile.items():
            for group in several:
                sizes[name][group] = sizes[name].get(group, 0) + 1
    return sizes


def answers_to(scenario):
    answers = {}
    for qid, docno in zip(scenario.gold["qid"], scenario.gold["docno"], strict=True):
        answers.setdefault(qid, []).append(docno)
    return answers


# ---------------------------------------------------------------- the loop that shares what can be shared


def sums(gains):
    """Return the DCG at each cut-off."""
    found, total = [], 0.0
    for rank in range(1, DEEPEST + 1):
        total += gains[rank - 1] / math.log2(rank + 1) if rank <= len(gains) else 0.0
        found.append(total)
    return [found[k - 1] for k in KS]


def divided(values, by):
    return [value / best for value, best in zip(values, by, strict=True)]


def maxima(sizes, total):
    """Return minority → (its share of the corpus, the largest sum at each cut-off)."""
    found = {}
    for group, n in minorities(sizes).items():
        ends = [[], []]
        for i in range(2, DEEPEST + 1, 2):
            for end, count in zip(ends, (min(i, n), max(0, i - total + n)), strict=True):
                end.append(divergence(count / i, n / total) / math.log2(i))
        found[group] = n / total, [max(sum(end[: k // 2]) for end in ends) for k in KS]
    return found


def shared_rkl(groups, protected):
    scores = []
    for group, (share, most) in protected.items():
        count, total, found = 0, 0.0, []
        for i, several in enumerate(groups, start=1):
            count += group in several
            if i % 2 == 0:
                total += divergence(count / i, share) / math.log2(i)
            if i in KS:
                found.append(total)
        scores.append(divided(found, most))
    return scores


def sharing_loop(lists, scenario, queries):
    """The same as :func:`plain_loop`."""
    sizes, answers = group_sizes(scenario), answers_to(scenario)
    protected = {name: maxima(sizes[name], len(scenario.passages)) for name in PROPERTIES}
    found = {}
    for q in queries:
        top, pool = lists[q.qid], sorted(answers[q.qid], reverse=True)
        relevant = set(pool)
        hits = [docno in relevant for docno in top]
        diversity, fairness = [], []
        for name in PROPERTIES:
            if name in scenario.asked[q.qid]:
                continue
            groups = [scenario.authors[docno].get(name, ()) for docno in top]
            of_pool = [scenario.authors[docno].get(name, ()) for docno in pool]
            if any(of_pool):
                overlap = any(len(several) > 1 for several in of_pool)
                best = ideal(of_pool, DEEPEST) if overlap else sorted(novel(of_pool), reverse=True)
                shown = [several if hit else () for several, hit in zip(groups, hits, strict=True)]
                diversity.append(divided(sums(novel(shown)), sums(best)))
            fairness.append(means(shared_rkl(groups, protected[name])))
        relevance = divided(sums(hits), sums([1] * len(pool))), [sum(hits[:k]) / k for k in KS]
        found[q.qid] = [*relevance[0], *relevance[1], *means(diversity), *means(fairness)]
    return found


def means(rows):
    return [mean(column) for column in zip(*rows, strict=True)] if rows else [0.0] * len(KS)


# ---------------------------------------------------------------- runs


def in_one_split(release):
    """Return the explicit scenario of all queries of a release that name a property."""
    queries = tuple(q._replace(split="dev") for q in release.perspective)
    return open_scenario(replace(release, perspective=queries), "explicit")


def half_right(scenario, rng):
    """Return qid → 20 docnos, about half of them answers where there are so many."""
    answers, docnos, lists = answers_to(scenario), [p.docno for p in scenario.passages], {}
    for q in scenario.questions:
        some = rng.permutation(answers[q.qid])[: DEEPEST // 2].tolist()
        others = [docnos[i] for i in rng.integers(len(docnos), size=2 * DEEPEST)]
        chosen = list(dict.fromkeys([*some, *others]))[:DEEPEST]
        lists[q.qid] = [chosen[i] for i in rng.permutation(len(chosen))]
    return lists


def rankers(scenario, name, rng):
    """Return ranker → run, and the minority: a random order, and three orders of answers: random, it last, it first.

    The minority is the smallest group of the property `name` that at least a hundredth of the corpus is of. After the
    answers come other arguments in random order.
    """
    sizes = group_sizes(scenario)[name]
    minority = min((g for g in sizes if sizes[g] >= len(scenario.passages) / 100), key=sizes.__getitem__)
    of_group = {docno for docno, profile in scenario.authors.items() if minority in profile.get(name, ())}
    answers, docnos = answers_to(scenario), [p.docno for p in scenario.passages]
    lists = {"random order": {}, "answers first": {}, "minority last": {}, "minority first": {}}
    for q in scenario.questions:
        own = rng.permutation(answers[q.qid]).tolist()
        others = [docnos[i] for i in rng.choice(len(docnos), size=2 * DEEPEST, replace=False)]
        orders = [], own, sorted(own, key=of_group.__contains__), sorted(own, key=lambda d: d not in of_group)
        for found, first in zip(lists.values(), orders, strict=True):
            found[q.qid] = list(dict.fromkeys([*first, *others]))[:DEEPEST]
    return {label: ranked_run(found) for label, found in lists.items()}, minority


def what_measures_say(scenario, name="political_attitude", k=8, seed=0):
    """Return measure x ranker: the means, those by one property alone, and how often its minority is shown."""
    runs, minority = rankers(scenario, name, np.random.default_rng(seed))
    columns = {}
    for label, run in runs.items():
        wanted = [m for m in (*ARGUMENT_MEASURES, *OFFICIAL_MEASURES) if m["cutoff"] == k]
        scores = evaluate_arguments(run, scenario, wanted).mean().to_dict()
        shares = group_shares(run, scenario, k, smallest=1, resamples=10)
        shown = shares[(shares["property"] == name) & (shares["group"] == minority)]["ratio"].iloc[0]
        alone = {f"rKL@{k}, {name} alone": by_property(run, scenario, rKL @ k)[name].mean()}
        columns[label] = {**scores, **alone, "minority shown, times its share": shown}
    return pd.DataFrame(columns)


# ---------------------------------------------------------------- in one run


def cpu(work):
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(options):
    scenario = in_one_split(make_release(arguments=options.arguments))
    lists = half_right(scenario, np.random.default_rng(0))
    run = ranked_run(lists)
    queries = scenario.questions[: math.ceil(options.loop_over * len(scenario.questions))]
    print(repr(scenario))
    print(f"{len(scenario.gold):,} answers, a run of {len(run):,} rows, {len(ARGUMENT_MEASURES)} measures")
    before = peak_mb()
    first, table = cpu(lambda: evaluate_arguments(run, scenario))
    ours = min(cpu(lambda: evaluate_arguments(run, scenario))[0] for _ in range(5))
    official = min(cpu(lambda: evaluate_arguments(run, scenario, OFFICIAL_MEASURES))[0] for _ in range(5))
    print(f"peak memory {peak_mb():,.0f} MB, of which scoring took {peak_mb() - before:,.0f} MB; seconds of the CPU:")
    print(f"  {'ours: evaluate_arguments':<50}{ours:8.2f}   the first time {first:.2f}")
    print(f"  {'ours, the published definitions':<50}{official:8.2f}")
    for name, loop in (("plain loop", plain_loop), ("loop that shares what can be shared", sharing_loop)):
        took, found = cpu(lambda loop=loop: loop(lists, scenario, queries))
        plain = pd.DataFrame(found, index=table.columns).T
        worst = float((table.loc[plain.index] - plain).abs().max(axis=None))
        assert worst < 1e-9, f"they disagree by {worst}"
        seconds = took * len(scenario.questions) / len(queries)
        ratio = f"{seconds / ours:6.1f} times ours, {seconds / first:.1f} times the first"
        print(f"  {f'{name}, {len(queries):,} queries':<50}{seconds:8.2f}   {ratio}; equal to {worst:.0e}")
    print("\nwhat each measure says of four rankers, means over 1,000 queries")
    part = scenario.only(scenario.questions[:: max(1, len(scenario.questions) // 1000)][:1000])
    with pd.option_context("display.width", 200):
        print(what_measures_say(part).round(3).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arguments", type=int, default=26_000)
    parser.add_argument("--loop-over", type=float, default=1.0, help="share of the queries")
    main(parser.parse_args())
