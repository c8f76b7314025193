"""Does a judge order systems as gold does? Comparisons of the scores of the same runs by gold and by a judge.

Scores are frames of one measure, questions x systems: `gold` by recorded verdicts, `judged` by a judge's verdicts, with
the same rows and columns. Clusters are those of the rows.
Intervals resample whole clusters of questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError
from berdslib.evaluation.judge_error import corrected_mean
from berdslib.evaluation.judges import ratio_or_nan, same_and_kappa
from berdslib.stats import cluster_bootstrap, paired_test

_DIGITS = 12  # means of equal scores may differ in their last bits
JUDGE_ALONE = "judge alone"
LABELS_ALONE = "labels alone"
CORRECTED = "corrected"


class Estimate(NamedTuple):
    """A number with its interval; undefined values are NaN, such as the interval for a single cluster."""

    value: float
    low: float
    high: float


# ---------------------------------------------------------------- the order of systems


def system_tau(
    gold: pd.DataFrame,
    judged: pd.DataFrame,
    clusters: Sequence[str],
    **drawing: Any,
) -> Estimate:
    """Return Kendall's tau-b between the systems' means by gold and by a judge (Kendall, 1945; Voorhees, 2000).

    Systems with nearly equal means change places in resamples, so the interval tends to lie a little low.
    """
    by_gold = gold.to_numpy(dtype=np.float64)
    by_judge = judged.to_numpy(dtype=np.float64)
    m = by_gold.shape[1]

    def tau(sums: np.ndarray) -> np.ndarray:
        means = (sums[:, :-1] / sums[:, -1:]).round(_DIGITS)
        return _tau_b(means[:, :m], means[:, m:])[:, None]

    rows = np.column_stack([by_gold, by_judge, np.ones(len(by_gold))])
    value, low, high = cluster_bootstrap(rows, clusters, tau, **drawing)
    return Estimate(float(value[0]), float(low[0]), float(high[0]))


def _tau_b(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return tau-b between the rows of x and of y, (r, m) each: (r,), NaN if all values of a row are equal."""
    first, second = np.triu_indices(x.shape[1], 1)
    signs_x = np.sign(x[:, first] - x[:, second])
    signs_y = np.sign(y[:, first] - y[:, second])
    agreement = (signs_x * signs_y).sum(axis=1)
    untied_x = np.abs(signs_x).sum(axis=1)
    untied_y = np.abs(signs_y).sum(axis=1)
    return ratio_or_nan(agreement, np.sqrt(untied_x * untied_y))


def system_pairs(gold: pd.DataFrame, clusters: Sequence[str]) -> pd.DataFrame:
    """Test all pairs of systems by gold: frame first, second, difference, p_value (uncorrected)."""
    rows = []
    for first, second in combinations(gold.columns, 2):
        x = gold[first].to_numpy()
        y = gold[second].to_numpy()
        difference = round(float(x.mean() - y.mean()), _DIGITS)
        rows.append((first, second, difference, paired_test(x, y, clusters=list(clusters))))
    return pd.DataFrame(rows, columns=["first", "second", "difference", "p_value"])


def ordered_alike(pairs: pd.DataFrame, judged: pd.DataFrame) -> dict[str, float]:
    """Return how many pairs of :func:`system_pairs` differ by gold, and how a judge orders them.

    The keys are pairs (their number) and the shares alike, reversed and tied, which are NaN if no pair differs.
    """
    differ = pairs[pairs["p_value"] < 0.05]
    means = judged.mean()
    by_judge = (means[differ["first"]].to_numpy() - means[differ["second"]].to_numpy()).round(_DIGITS)
    agreeing = np.sign(by_judge) * np.sign(differ["difference"].to_numpy())
    counts: dict[str, float] = {"pairs": len(differ)}
    for name, sign in (("alike", 1), ("reversed", -1), ("tied", 0)):
        counts[name] = float((agreeing == sign).mean()) if len(differ) else np.nan
    return counts


# ---------------------------------------------------------------- single questions


def question_agreement(
    gold: pd.DataFrame,
    judged: pd.DataFrame,
    clusters: Sequence[str],
    **drawing: Any,
) -> dict[str, Estimate]:
    """Return how often a judge's score of a question and system equals gold's: same (share) and kappa (Cohen's)."""
    by_gold = gold.to_numpy(dtype=np.float64)
    by_judge = judged.to_numpy(dtype=np.float64)
    n = len(by_gold)
    values, place = np.unique(np.concatenate([by_gold, by_judge]).round(_DIGITS), return_inverse=True)
    of_gold, of_judge = np.split(place.reshape(2 * n, -1), 2)
    c = len(values)
    counts = np.zeros((n, c * c))  # for each question, a table of scores by gold x scores by the judge
    np.add.at(counts, (np.arange(n)[:, None], of_gold * c + of_judge), 1)

    def statistic(sums: np.ndarray) -> np.ndarray:
        return same_and_kappa(sums.reshape(-1, c, c))

    same, kappa = np.transpose(cluster_bootstrap(counts, clusters, statistic, **drawing)).tolist()
    return {"same": Estimate(*same), "kappa": Estimate(*kappa)}


# ---------------------------------------------------------------- with a few labels


def labelling_trials(
    gold: pd.DataFrame,
    judged: pd.DataFrame,
    clusters: Sequence[str],
    labelled: int,
    *,
    draws: int = 200,
) -> pd.DataFrame:
    """Simulate labels on a few questions, and compare prediction-powered means with labels alone or the judge alone.

    Each trial resamples the clusters with replacement; the judge scores all of them, and people label random clusters
    until `labelled` questions have a label.

    Returns:
        One row for each estimate ("judge alone", "labels alone", "corrected") and system, or "all": labelled, estimate,
        system, bias (mean of estimate - truth), error (root mean square), width, coverage (share of trials whose
        interval holds the truth), weight (mean) and, over all systems only, tau (of the estimates with the true means).
    """
    by_gold = gold.to_numpy(dtype=np.float64)
    by_judge = judged.to_numpy(dtype=np.float64)
    n = len(by_gold)
    if not 2 <= labelled <= n or draws < 1:
        raise InputError(f"labelled must be from 2 to {n}, and draws at least 1; got {labelled} and {draws}")
    names, owner = np.unique(np.asarray(clusters), return_inverse=True)
    if len(names) < 2:
        raise InputError("all questions belong to one cluster; labels need at least 2 clusters")
    members = [np.flatnonzero(owner == i) for i in range(len(names))]
    rng = np.random.default_rng(0)
    rows = []
    for trial in range(draws):
        drawn = [members[i] for i in rng.integers(0, len(members), len(members))]
        ids = np.repeat(np.arange(len(drawn)), [len(cluster) for cluster in drawn])
        at = np.concatenate(drawn)
        # The clusters are in random order, so the first clusters are a random choice; at least two are labelled.
        last = max(1, int(ids[min(labelled, len(ids)) - 1]))
        for i, system in enumerate(gold.columns):
            human = np.where(ids <= last, by_gold[at, i], np.nan)
            estimates = _estimates(by_judge[at, i], human, ids.tolist())
            rows += [(trial, system, by_gold[:, i].mean(), *estimate) for estimate in estimates]
    columns = ["trial", "system", "truth", "estimate", "value", "low", "high", "weight"]
    trials = pd.DataFrame(rows, columns=columns)
    return _summary(trials).assign(labelled=labelled)[list(SUMMARY)]


def _estimates(
    judge: np.ndarray,
    human: np.ndarray,
    clusters: list[int],
) -> list[tuple[str, float, float, float, float]]:
    """Return the name, the value, the ends of the interval and the weight of the judge of each estimate."""
    both = corrected_mean(judge, human, clusters=clusters)
    alone = corrected_mean(np.zeros_like(judge), human, clusters=clusters)
    return [
        (JUDGE_ALONE, both.judge_value, both.judge_low, both.judge_high, 1.0),
        (LABELS_ALONE, alone.value, alone.low, alone.high, 0.0),
        (CORRECTED, both.value, both.low, both.high, both.weight),
    ]


SUMMARY = ("labelled", "estimate", "system", "bias", "error", "width", "coverage", "weight", "tau")


def _summary(trials: pd.DataFrame) -> pd.DataFrame:
    """Average over trials for each estimate: a row for all systems (with the mean size of the bias), then each."""
    miss = trials["value"] - trials["truth"]
    holds = (trials["low"] <= trials["truth"] + 1e-9) & (trials["truth"] - 1e-9 <= trials["high"])
    width = trials["high"] - trials["low"]
    trials = trials.assign(bias=miss, error=miss**2, width=width, coverage=holds)
    parts = []
    for estimate, part in trials.groupby("estimate", sort=False):
        own = part.groupby("system", sort=False)[["bias", "error", "width", "coverage", "weight"]].mean()
        own["error"] **= 0.5
        wide = part.pivot(index="trial", columns="system", values=["value", "truth"]).round(_DIGITS)
        taus = _tau_b(wide["value"].to_numpy(), wide["truth"].to_numpy())
        defined = taus[np.isfinite(taus)]
        tau = defined.mean() if len(defined) else np.nan
        sizes = own.assign(bias=own["bias"].abs())
        overall = sizes.mean().to_frame("all").T.assign(tau=tau)
        parts.append(pd.concat([overall, own]).assign(estimate=estimate))
    return pd.concat(parts).rename_axis("system").reset_index()
