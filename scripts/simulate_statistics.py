"""Print how often the intervals of berdslib.stats hold the truth, and how often its tests find what is not there.

python scripts/simulate_statistics.py [--trials 2000] [--test-trials 1000]

A cell is the share of simulated samples, in percent; an exclamation mark is behind intervals that are outside 93 to
97, and tests that find more than 6 where there is nothing. Where fewer than about three scores are expected to be
other than the rest, only a few samples can be had, hence few intervals, and no rule makes 95 % of them hold the truth.
"""

import argparse
from functools import partial

import numpy as np

from berdslib.stats import (
    difference_interval,
    effect_size,
    holm,
    mean_interval,
    paired_test,
    percentiles,
    power,
    questions_needed,
)

SIZES = (24, 40, 134, 306)
SHARES = (0.02, 0.1, 0.5, 0.9, 0.98)
DATA_SETS = (24, 40, 70)  # questions of three data sets, as those of BeRDS are of unlike size


def bootstrap_interval(values, groups=None, *, level=0.95, resamples=10_000, seed=0):
    """Return the percentile bootstrap interval of the (macro) mean; questions are drawn within their group."""
    rng, names = np.random.default_rng(seed), np.zeros(len(values)) if groups is None else np.asarray(groups)
    parts = [np.asarray(values, dtype=np.float64)[names == name] for name in np.unique(names)]
    means = np.zeros(resamples)
    for part in parts:
        # In batches, so that 10,000 resamples of 3,000 questions do not need 240 MB at once.
        for start in range(0, resamples, 1000):
            size = (min(1000, resamples - start), len(part))
            means[start : start + 1000] += part[rng.integers(0, len(part), size)].mean(axis=1) / len(parts)
    return percentiles(means, level)


# ---------------------------------------------------------------- worlds: (rng, n) → scores, and their true mean


def precision(rng, n, a, b):
    """Precision@5 of questions that are unlike: five passages, each right with the question's own chance."""
    return rng.binomial(5, rng.beta(a, b, n)) / 5


def shares(rng, n, p):
    return (rng.random(n) < p).astype(float)


def alike(rng, n, p, size=5):
    """0/1 scores in clusters of five, whose chances scatter as a beta with a + b = 2 does."""
    return (rng.random((n // size, size)) < rng.beta(2 * p, 2 * (1 - p), (n // size, 1))).astype(float).ravel()


def graded_alike(rng, n, size=5):
    chance = np.repeat(rng.beta(1.3, 0.7, n // size), size)
    return rng.binomial(5, chance) / 5


def changes(rng, n, up, down):
    """Differences of 0/1 scores."""
    return rng.choice([1.0, -1.0, 0.0], n, p=[up, down, 1 - up - down])


def graded_changes(rng, n, changed, more):
    """Differences of Precision@5 where a share of the lists is changed: each passage gets `more` chance."""
    chance = rng.uniform(0, 1 - more, n)
    before, after = rng.binomial(5, chance) / 5, rng.binomial(5, chance + more) / 5
    return np.where(rng.random(n) < changed, after - before, 0.0)


MEANS = {
    "beta(2, 3)": (lambda rng, n: rng.beta(2, 3, n), 0.4),
    **{f"Precision@5, {m}": (partial(precision, a=2 * m, b=2 * (1 - m)), m) for m in (0.3, 0.65, 0.9, 0.97)},
    "any number (gamma)": (lambda rng, n: rng.gamma(2, 0.5, n), 1.0),
}
BINARY = {f"0/1, {p}": (partial(shares, p=p), p) for p in SHARES}
DIFFERENCES = {
    "continuous, .05 +- .2": (lambda rng, n: rng.normal(0.05, 0.2, n), 0.05),
    **{
        f"Precision@5, {changed:.0%} changed": (partial(graded_changes, changed=changed, more=0.1), 0.1 * changed)
        for changed in (1, 0.3, 0.05)
    },
    **{
        f"0/1, {up:.0%} up, {down:.0%} down": (partial(changes, up=up, down=down), up - down)
        for up, down in ((0.2, 0.2), (0.3, 0.05), (0.1, 0.1), (0.15, 0.05), (0.05, 0), (0.01, 0.01))
    },
}


# ---------------------------------------------------------------- how often an interval holds the truth


def coverage(draw, truth, interval, trials, seed=0):
    """Return the share of samples whose interval holds the truth, in percent, and its mean width."""
    rng = np.random.default_rng(seed)
    ends = np.array([interval(draw(rng)) for _ in range(trials)])
    held = (ends[:, 0] <= truth + 1e-12) & (truth - 1e-12 <= ends[:, 1])
    return 100 * held.mean(), (ends[:, 1] - ends[:, 0]).mean()


def three(rng, draw):
    """Return scores of three data sets one after the other."""
    return np.concatenate([draw(rng, n) for n in DATA_SETS])


GROUPS = [name for name, n in zip("abc", DATA_SETS, strict=True) for _ in range(n)]


def clusters_of(n):
    return [str(i // 5) for i in range(n)]


def print_worlds(title, worlds, interval, trials, bootstrap):
    """Print a row a world: each size, three data sets, and what the percentile bootstrap makes of the smallest."""
    print(f"\n## {title}\n")
    print("| | " + " | ".join(f"n = {n}" for n in SIZES) + f" | macro of {', '.join(map(str, DATA_SETS))} |", end="")
    print(f" *percentile bootstrap, n = {SIZES[0]}* |" if bootstrap else "")
    print("|---" * (len(SIZES) + 2 + bool(bootstrap)) + "|")
    for name, (draw, truth) in worlds.items():
        cells = [cell(*coverage(partial(draw, n=n), truth, interval, trials)) for n in SIZES]
        cells.append(cell(*coverage(partial(three, draw=draw), truth, partial(interval, groups=GROUPS), trials)))
        if bootstrap:
            fewer = partial(bootstrap_interval, resamples=500)
            cells.append(f"*{cell(*coverage(partial(draw, n=SIZES[0]), truth, fewer, bootstrap))}*")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def cell(held, width):
    return f"{held:.1f}{'' if 93 <= held <= 97 else ' !'} ({100 * width:.1f})"


def print_clusters(trials):
    print("\n## Means of questions in clusters of five (in brackets: as if they were unrelated)\n")
    sizes = (40, 60, 135, 305)
    print("| | " + " | ".join(f"n = {n}" for n in sizes) + " |\n" + "|---" * (len(sizes) + 1) + "|")
    worlds = {f"0/1, {p}": (partial(alike, p=p), p) for p in SHARES}
    worlds["Precision@5, 0.65"] = (graded_alike, 0.65)
    for name, (draw, truth) in worlds.items():
        cells = []
        for n in sizes:
            related = partial(mean_interval, clusters=clusters_of(n))
            held, naive = (coverage(partial(draw, n=n), truth, f, trials)[0] for f in (related, mean_interval))
            cells.append(f"{held:.1f}{'' if 93 <= held <= 97 else ' !'} ({naive:.1f})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


# ---------------------------------------------------------------- how often a test finds what is not there


def found(draw, test, trials, seed=1):
    """Return the share of samples in which a test says p < .05, in percent."""
    rng = np.random.default_rng(seed)
    return 100 * np.mean([test(draw(rng), seed=i) < 0.05 for i, _ in enumerate(range(trials))])


def against_nothing(differences, seed, **options):
    return paired_test(differences, np.zeros(len(differences)), resamples=499, seed=seed, **options)


def graded(rng, n):
    return precision(rng, n, 1.3, 0.7) - precision(rng, n, 1.3, 0.7)


def graded_in_clusters(rng, n):
    return graded_alike(rng, n) - graded_alike(rng, n)


def smallest_of_family(scores, seed):
    """Return the smallest p of four systems against the first, Holm-corrected."""
    return min(holm([paired_test(one, scores[0], resamples=499, seed=seed) for one in scores[1:]]))


def five_systems(rng, n):
    chance = rng.beta(1.3, 0.7, n)
    return rng.binomial(5, chance, (5, n)) / 5


def print_tests(trials):
    print("\n## p < .05 where there is no difference\n\n| test | share |\n|---|---|")
    n, total = 40, sum(DATA_SETS)
    tests = {
        f"Precision@5, n = {n}": (partial(graded, n=n), against_nothing),
        f"0/1 (McNemar), 20 % differ, n = {n}": (partial(changes, n=n, up=0.1, down=0.1), against_nothing),
        "0/1 (McNemar), 20 % differ, n = 306": (partial(changes, n=306, up=0.1, down=0.1), against_nothing),
        f"Precision@5, macro, n = {total}": (partial(graded, n=total), partial(against_nothing, groups=GROUPS)),
        f"0/1, macro, n = {total}": (
            partial(changes, n=total, up=0.1, down=0.1), partial(against_nothing, groups=GROUPS)
        ),
        "Precision@5, 12 clusters of 5": (
            partial(graded_in_clusters, n=60), partial(against_nothing, clusters=clusters_of(60))
        ),
        "any of 4 systems against a fifth, Holm": (partial(five_systems, n=n), smallest_of_family),
    }  # fmt: skip
    for name, (draw, test) in tests.items():
        share = found(draw, test, trials)
        print(f"| {name} | {share:.1f}{'' if share <= 6 else ' !'} |", flush=True)
    naive = found(partial(graded_in_clusters, n=60), against_nothing, trials)
    print(f"| *12 clusters of 5, as if they were unrelated* | *{naive:.1f}* |")


# ---------------------------------------------------------------- power and effect sizes


def print_power(trials):
    print("\n## Power: the formula and the share of p < .05\n\n| differences | questions needed | power | found |")
    print("|---|---|---|---|")
    worlds = {
        "continuous, .1 +- .2": (lambda rng, n: rng.normal(0.1, 0.2, n), 0.1, 0.2),
        "continuous, .05 +- .2": (lambda rng, n: rng.normal(0.05, 0.2, n), 0.05, 0.2),
        "0/1, 15 % up, 5 % down": (partial(changes, up=0.15, down=0.05), 0.1, np.sqrt(0.2 - 0.1**2)),
    }
    for name, (draw, difference, spread) in worlds.items():
        n = questions_needed(difference, spread, binary=name.startswith("0/1"))
        share = found(partial(draw, n=n), against_nothing, trials)
        print(f"| {name} | {n} | {100 * power(difference, spread, n):.1f} | {share:.1f} |", flush=True)
    print(
        "\n## Interval of the effect size d_z, 0.25 and 0.8\n\n| true | " + " | ".join(f"n = {n}" for n in SIZES) + " |"
    )
    print("|---" * (len(SIZES) + 1) + "|")
    for truth in (0.25, 0.8):
        cells = []
        for n in SIZES:
            draw = partial(np.random.Generator.normal, loc=truth, scale=1, size=n)
            cells.append(cell(*coverage(draw, truth, lambda d: effect_size(d)[1:], trials)))
        print(f"| {truth} | " + " | ".join(cells) + " |")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--trials", type=int, default=2000, help="samples for each cell")
    options.add_argument("--test-trials", type=int, default=1000, help="samples for each test")
    chosen = options.parse_args()
    few = min(chosen.trials, 500)
    print("Share of 95 % intervals that hold the truth, in percent; in brackets their mean width in points.")
    print_worlds("Means of 0/1 scores", BINARY, mean_interval, chosen.trials, few)
    print_worlds("Means of other scores", MEANS, mean_interval, chosen.trials, few)
    print_clusters(chosen.trials)
    print_worlds("Paired differences", DIFFERENCES, difference_interval, chosen.trials, few)
    print_tests(chosen.test_trials)
    print_power(chosen.test_trials)


if __name__ == "__main__":
    main()
