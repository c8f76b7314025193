"""Does a judge order systems as gold does? Scores of the same runs by gold and by a judge, compared.

All functions take two frames of one measure, questions x systems, the second scored with a judge's verdicts; intervals
draw whole clusters of questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError
from berdslib.evaluation.judge_error import corrected_mean
from berdslib.evaluation.judges import same_and_kappa
from berdslib.stats import cluster_bootstrap, paired_test

_DIGITS = 12  # means of equal scores differ in their last bits
JUDGE_ALONE, LABELS_ALONE, CORRECTED = "judge alone", "labels alone", "corrected"


class Estimate(NamedTuple):
    """A number with its interval; NaN where it is not defined, as is the interval of a single cluster."""

    value: float
    low: float
    high: float


# ---------------------------------------------------------------- the order of systems


def system_tau(gold: pd.DataFrame, judged: pd.DataFrame, clusters: Sequence[str], **drawing: Any) -> Estimate:
    """Return Kendall's tau-b between the systems' means by gold and by a judge (Kendall, 1945; Voorhees, 2000).

    Near ties turn in a drawn sample, so that the interval tends to lie a little low.
    """
    true, found = _matched(gold, judged, clusters)
    m = true.shape[1]

    def tau(sums: np.ndarray) -> np.ndarray:
        means = (sums[:, :-1] / sums[:, -1:]).round(_DIGITS)
        return _tau_b(means[:, :m], means[:, m:])[:, None]

    rows = np.column_stack([true, found, np.ones(len(true))])
    value, low, high = cluster_bootstrap(rows, clusters, tau, **drawing)
    return Estimate(float(value[0]), float(low[0]), float(high[0]))


def _tau_b(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return tau-b of each row of one and other, (r, m) each: (r,), NaN where a row is all ties."""
    first, second = np.triu_indices(one.shape[1], 1)
    a, b = np.sign(one[:, first] - one[:, second]), np.sign(other[:, first] - other[:, second])
    untied = np.sqrt(np.abs(a).sum(axis=1) * np.abs(b).sum(axis=1))
    return np.divide((a * b).sum(axis=1), untied, out=np.full(len(one), np.nan), where=untied > 0)


def system_pairs(gold: pd.DataFrame, clusters: Sequence[str], *, seed: int = 0) -> pd.DataFrame:
    """Test every two systems against each other by gold: frame first, second, difference, p_value (uncorrected)."""
    rows = []
    for first, second in combinations(gold.columns, 2):
        one, other = gold[first].to_numpy(), gold[second].to_numpy()
        p = paired_test(one, other, clusters=list(clusters), seed=seed)
        rows.append((first, second, round(float(one.mean() - other.mean()), _DIGITS), p))
    return pd.DataFrame(rows, columns=["first", "second", "difference", "p_value"])


def ordered_alike(pairs: pd.DataFrame, judged: pd.DataFrame) -> dict[str, float]:
    """Return how many pairs of :func:`system_pairs` differ by gold, and how a judge orders them.

    The keys are pairs, and the shares alike, reversed and tied; NaN where none differs.
    """
    differ = pairs[pairs["p_value"] < 0.05]
    means = judged.mean()
    theirs = (means[differ["first"]].to_numpy() - means[differ["second"]].to_numpy()).round(_DIGITS)
    agreeing = np.sign(theirs) * np.sign(differ["difference"].to_numpy())
    names = {"alike": 1, "reversed": -1, "tied": 0}
    shares = {name: float((agreeing == sign).mean()) if len(differ) else np.nan for name, sign in names.items()}
    return {"pairs": len(differ), **shares}


# ---------------------------------------------------------------- single questions


def question_agreement(
    gold: pd.DataFrame, judged: pd.DataFrame, clusters: Sequence[str], **drawing: Any
) -> dict[str, Estimate]:
    """Return how often a judge gives one question and system gold's score: same (share) and Cohen's kappa."""
    true, found = _matched(gold, judged, clusters)
    values, place = np.unique(np.concatenate([true, found]).round(_DIGITS), return_inverse=True)
    a, b = np.split(place.reshape(2 * len(true), -1), 2)
    c = len(values)
    counts = np.zeros((len(true), c * c))
    np.add.at(counts, (np.arange(len(true))[:, None], a * c + b), 1)
    ends = np.transpose(
        cluster_bootstrap(counts, clusters, lambda sums: same_and_kappa(sums.reshape(-1, c, c)), **drawing)
    )
    return {name: Estimate(*map(float, row)) for name, row in zip(("same", "kappa"), ends, strict=True)}


# ---------------------------------------------------------------- with a few labels


def labelling_trials(
    gold: pd.DataFrame,
    judged: pd.DataFrame,
    clusters: Sequence[str],
    labelled: int,
    *,
    draws: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Try out what people's labels on a few questions give: prediction-powered means against labels or judge alone.

    In each trial as many clusters as there are are drawn from them with repetition, the judge scores them all, and
    people label random ones until there are `labelled` questions.

    Returns:
        One row for each estimate ("judge alone", "labels alone", "corrected") and system, or "all": labelled, estimate,
        system, bias (mean of estimate - truth), error (root mean square), width, coverage (share of trials whose
        interval holds the truth), weight (mean) and, over all systems only, tau (of the estimates with the true means).
    """
    true, found = _matched(gold, judged, clusters)
    if not 2 <= labelled <= len(true) or draws < 1:
        raise InputError(
            f"from 2 to {len(true)} questions can be labelled, in at least 1 draw; got {labelled}, {draws}"
        )
    names, owner = np.unique(np.asarray(clusters), return_inverse=True)
    if len(names) < 2:
        raise InputError("all questions overlap; labels say how others turn out only from 2 that do not")
    members = [np.flatnonzero(owner == i) for i in range(len(names))]
    rng, rows = np.random.default_rng(seed), []
    for trial in range(draws):
        drawn = [members[i] for i in rng.integers(0, len(members), len(members))]
        ids, at = np.repeat(np.arange(len(drawn)), [len(d) for d in drawn]), np.concatenate(drawn)
        # Clusters are drawn in random order already, so the first ones are a random choice; two at least.
        last = max(1, int(ids[min(labelled, len(ids)) - 1]))
        for i, system in enumerate(gold.columns):
            judge, human = found[at, i], np.where(ids <= last, true[at, i], np.nan)
            both = corrected_mean(judge, human, clusters=ids.tolist())
            alone = corrected_mean(np.zeros_like(judge), human, clusters=ids.tolist())
            key = trial, system, true[:, i].mean()
            rows += [
                (*key, JUDGE_ALONE, both.judge_value, both.judge_low, both.judge_high, 1.0),
                (*key, LABELS_ALONE, alone.value, alone.low, alone.high, 0.0),
                (*key, CORRECTED, both.value, both.low, both.high, both.weight),
            ]
    columns = ["trial", "system", "truth", "estimate", "value", "low", "high", "weight"]
    return _summary(pd.DataFrame(rows, columns=columns)).assign(labelled=labelled)[list(SUMMARY)]


SUMMARY = ("labelled", "estimate", "system", "bias", "error", "width", "coverage", "weight", "tau")


def _summary(trials: pd.DataFrame) -> pd.DataFrame:
    """Average over trials, by estimate: a row for all systems (of the size of the bias), then one for each."""
    miss = trials["value"] - trials["truth"]
    holds = (trials["low"] <= trials["truth"] + 1e-9) & (trials["truth"] - 1e-9 <= trials["high"])
    width = trials["high"] - trials["low"]
    trials = trials.assign(bias=miss, error=miss**2, width=width, coverage=holds)
    parts = []
    for estimate, part in trials.groupby("estimate", sort=False):
        own = part.groupby("system", sort=False)[["bias", "error", "width", "coverage", "weight"]].mean()
        own["error"] **= 0.5
        values, truth = (
            part.pivot(index="trial", columns="system", values=v).round(_DIGITS) for v in ("value", "truth")
        )
        taus = _tau_b(values.to_numpy(), truth.to_numpy())
        tau = taus[np.isfinite(taus)].mean() if np.isfinite(taus).any() else np.nan
        every = own.assign(bias=own["bias"].abs()).mean().to_frame("all").T.assign(tau=tau)
        parts.append(pd.concat([every, own]).assign(estimate=estimate))
    return pd.concat(parts).rename_axis("system").reset_index()


# ---------------------------------------------------------------- checks


def _matched(gold: pd.DataFrame, judged: pd.DataFrame, clusters: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    if list(gold.index) != list(judged.index) or list(gold.columns) != list(judged.columns):
        raise InputError("gold and judge must have scored the same questions and systems, in the same order")
    if len(gold.columns) < 2:
        raise InputError(f"an order needs two systems at least, not {len(gold.columns)}", field="systems")
    if len(clusters) != len(gold):
        raise InputError(f"there are {len(gold)} questions, but {len(clusters)} clusters")
    true, found = gold.to_numpy(dtype=np.float64), judged.to_numpy(dtype=np.float64)
    if not len(true) or not (np.isfinite(true).all() and np.isfinite(found).all()):
        raise InputError("every score must be a finite number, and there must be some")
    return true, found
