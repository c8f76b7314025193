"""Scores corrected for the errors of the judge, with error bars that own up to them.

A judge scores everything, people label a little. The judge's mean is precise and may be biased; the mean of the labels
is unbiased and imprecise. Prediction-powered inference takes the judge's mean and adds the mean error seen on the
labelled part (Angelopoulos et al., Science 382:669, 2023; with a weight on the judge, PPI++: Angelopoulos, Duchi and
Zrnic, 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_run, check_verdicts
from berdslib.errors import InputError
from berdslib.evaluation.measures import Measure, evaluate
from berdslib.evaluation.significance import bootstrap_interval, macro_mean
from berdslib.judging.trust import bin_edges, which_bin


class Corrected(NamedTuple):
    """A mean that allows for the judge's errors, and what the judge alone would have said.

    ``value`` with interval ``low`` to ``high``; ``judge_value`` with ``judge_low`` to ``judge_high`` trusts the judge;
    ``n`` things scored (questions or pairs), ``labelled`` what people labelled; ``weight`` how much the judge counts, 0
    (labels only) to 1 (NaN where there is no such weight; the mean weight of several groups). Intervals are not cut off
    at 0 and 1: one that reaches beyond says that there are too few questions or labels.
    """

    value: float
    low: float
    high: float
    judge_value: float
    judge_low: float
    judge_high: float
    n: int
    labelled: int
    weight: float


class _Part(NamedTuple):
    """Estimate for one group: value, its variance with degrees of freedom, and the judge's weight."""

    value: float
    variance: float
    freedom: int
    weight: float


def corrected_mean(
    judge_scores: np.ndarray,
    human_scores: np.ndarray,
    *,
    clusters: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    level: float = 0.95,
    tune: bool = True,
) -> Corrected:
    """Correct the mean of a judge's scores by what people say of a random part.

    With f the judge's and h the people's scores, N things of which n are labelled, the estimate is
    ``w * mean_N(f) + mean_n(h - w * f)``, unbiased for any fixed weight w; the tuned w has the smallest variance. The
    labelled things are among the N, so the two means are not independent and their variances do not simply add: the
    variance is that of the sum of each question's whole influence on the estimate (cluster-robust, linearised). It is
    right as well where a question has labelled and unlabelled pairs. The interval is Student's, with as many degrees of
    freedom as there are labelled questions (clusters), less 1 per group (Welch and Satterthwaite).

    Two uses: one score a question (Precision or MRecall, see :func:`human_scores`), or one answer a pair with the
    question as cluster: the share of supporting pairs. What is labelled must be drawn at random, whole questions or
    pairs of the same lists; labels of another retriever's lists say nothing here. A labelled part in which the judge
    happens to make no error passes for an errorless judge, so label enough that some errors are seen.

    Args:
        judge_scores: (N,) the judge's score of everything.
        human_scores: (N,) people's score, NaN where there is none.
        clusters: (N,) what was drawn independently, such as the question of each pair; None if each is its own.
        groups: (N,) the data set of each; the means of the groups then count equally (BeRDS "macro-average").
        level: coverage of the interval.
        tune: choose the weight from the data, for each group its own; False for weight 1 (plain PPI).

    Raises:
        InputError: different lengths, a judge's score that is not finite, a cluster in two groups, or a group with
            fewer than 2 labelled clusters.

    >>> judge, human = np.array([1.0, 1, 0, 0, 1, 0]), np.array([1.0, 0, 0, 0, np.nan, np.nan])
    >>> corrected_mean(judge, human, tune=False).value  # 0.5 + (-1) / 4
    0.25
    """
    f, h = np.asarray(judge_scores, dtype=np.float64), np.asarray(human_scores, dtype=np.float64)
    owner = np.arange(len(f)) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    member = np.full(len(f), "") if groups is None else np.asarray(groups)
    _check(f, h, owner, member)
    masks = [member == group for group in np.unique(member)]
    parts = [_part(f[mask], h[mask], owner[mask], tune) for mask in masks]
    trusting = [_part(f[mask], f[mask], owner[mask], tune) for mask in masks]
    weight = float(np.mean([part.weight for part in parts]))
    labelled = int((~np.isnan(h)).sum())
    return Corrected(*_interval(parts, level), *_interval(trusting, level), len(f), labelled, weight)


def human_scores(
    run: pd.DataFrame, labels: pd.DataFrame, questions: Sequence[Question], measure: Measure
) -> np.ndarray:
    """Score those questions of which people labelled the whole top k, and give NaN to the others.

    Args:
        run: the run to score.
        labels: verdict frame of people.
        questions: all asked questions.
        measure: a measure with a cut-off that depends on the top k alone: MRecall, Precision or Coverage.

    Returns:
        (n,) in the order of `questions`; a question is labelled if every passage in its top k has a label for each of
        its perspectives, and it has at least one passage.

    Raises:
        InputError: a measure without a cut-off.
    """
    if "cutoff" not in measure.params:
        raise InputError(f"{measure} needs a cut-off, such as {measure}@5")
    run, labels = check_run(run), check_verdicts(labels)
    top = run.loc[run["rank"] <= measure["cutoff"], ["qid", "docno"]]
    have = top.merge(labels, on=["qid", "docno"]).groupby("qid").size()
    need = top.groupby("qid").size() * pd.Series({q.qid: len(q.perspectives) for q in questions})
    complete = set(need.index[need == have.reindex(need.index)])
    asked = [q for q in questions if q.qid in complete]
    scores = np.full(len(questions), np.nan)
    if asked:
        scores[[q.qid in complete for q in questions]] = evaluate(run, labels, asked, [measure])[str(measure)]
    return scores


def corrected_measure(
    measure: Callable[[pd.DataFrame], np.ndarray],
    verdicts: pd.DataFrame,
    labels: np.ndarray,
    p_yes: np.ndarray,
    *,
    clusters: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    bins: int = 5,
    draws: int = 500,
    level: float = 0.95,
    seed: int = 0,
) -> Corrected:
    """Correct any measure of verdicts with labels of single pairs, by simulating what the truth may be.

    MRecall is about all pairs of a question at once, and single labelled pairs give no score of it to compare with. So
    each draw (1) draws, for each bin of the judge's probability, a share of true yes from its Beta posterior given the
    labelled pairs (prior: one pair with the overall share), (2) draws a true answer for every verdict from the share of
    its bin, and (3) scores these. The estimate is the mean over the draws; its interval also holds the chance of which
    questions were asked: their expected scores are drawn with replacement, one bootstrap sample a draw.

    It is as good as its assumptions, which :func:`corrected_mean` on whole labelled questions does not need: the share
    of true yes among pairs of one bin is that of the labelled pairs (they come from the same kind of lists), and given
    the judge's probabilities the true answers are independent. Where the passages of one question are alike in a way
    that the probabilities do not tell, the estimate is biased: for MRecall upwards, because misses that in truth crowd
    in a few questions are spread over all of them.

    Args:
        measure: verdict frame → (q,) one score per question, such as
            ``lambda v: evaluate(run, v, questions, [MRecall @ 5])["MRecall@5"].to_numpy()``.
        verdicts: verdict frame of the judge on everything that the measure needs.
        labels: (n,) bool, people's label of each labelled pair, of both kinds.
        p_yes: (n,) the same judge's probability for these pairs.
        clusters: (n,) the question of each labelled pair; its pairs are then not counted as independent evidence
            (a Bayesian bootstrap, which is the Beta posterior where each pair is its own cluster).
        groups: (q,) the data set of each question, for the macro-average.
        bins: of the labelled probabilities, about equally full.
        draws: how many.
        level: coverage of the interval.
        seed: of the draws.

    Raises:
        InputError: labels and probabilities of different lengths, labels all alike, or something that is not a
            probability.
    """
    labels, p_yes = np.asarray(labels, dtype=bool), np.asarray(p_yes, dtype=np.float64)
    if labels.shape != p_yes.shape or len(set(labels.tolist())) < 2:
        raise InputError(f"needs labels of both kinds, and as many probabilities; got {len(labels)} and {len(p_yes)}")
    if not ((p_yes >= 0) & (p_yes <= 1)).all():
        raise InputError("probabilities must be numbers from 0 to 1")
    rng = np.random.default_rng(seed)
    edges = bin_edges(p_yes, bins)
    shares = _draw_shares(labels, which_bin(p_yes, edges), bins, clusters, draws, rng)
    place = which_bin(verdicts["p_yes"].to_numpy(), edges)
    scores = []
    for share in _bar(shares):
        truth = rng.random(len(verdicts)) < share[place]
        scores.append(np.asarray(measure(verdicts.assign(supports=truth, p_yes=truth.astype(np.float64)))))
    means = np.array([macro_mean(one, groups) for one in scores])
    value, expected = float(means.mean()), np.mean(scores, axis=0)
    asked = np.array([_mean_of_redrawn(expected, groups, rng) for _ in range(draws)])
    low, high = np.quantile(asked + means - value, [(1 - level) / 2, (1 + level) / 2])
    trusting = np.asarray(measure(verdicts))
    interval = bootstrap_interval(trusting, groups, level=level, seed=seed)
    judge_value = macro_mean(trusting, groups)
    return Corrected(value, float(low), float(high), judge_value, *interval, len(trusting), len(labels), float("nan"))


# ---------------------------------------------------------------- prediction-powered inference


def _part(f: np.ndarray, h: np.ndarray, owner: np.ndarray, tune: bool) -> _Part:
    """Estimate the mean of one group; see :func:`corrected_mean`."""
    has = ~np.isnan(h)
    # The influence of each thing on the estimate is a + w * b: a through its label, b through the judge's score.
    a, b = np.zeros(len(f)), (f - f.mean()) / len(f)
    a[has] = (h[has] - h[has].mean()) / has.sum()
    b[has] -= (f[has] - f[has].mean()) / has.sum()
    # A cluster's influence is that of all its members.
    a, b = (np.bincount(owner, weights=influence).astype(np.float64) for influence in (a, b))
    weight = 1.0
    if tune:
        # A judge without spread, or labels on everything: b is 0 up to rounding, and no weight changes anything.
        weight = float(np.clip(-(a @ b) / (b @ b), 0.0, 1.0)) if b @ b > 1e-24 else 0.0
    labelled = len(np.unique(owner[has]))
    value = weight * f.mean() + (h[has] - weight * f[has]).mean()
    variance = ((a + weight * b) ** 2).sum() * labelled / (labelled - 1)
    return _Part(float(value), float(variance), labelled - 1, weight)


def _interval(parts: Sequence[_Part], level: float) -> tuple[float, float, float]:
    """Return the mean of the parts' values and its interval; the parts are independent."""
    from scipy.stats import t

    value = float(np.mean([part.value for part in parts]))
    variances = np.array([part.variance for part in parts])
    total = variances.sum()
    if total == 0:
        return value, value, value
    freedom = total**2 / sum(part.variance**2 / part.freedom for part in parts)
    half = float(t.ppf((1 + level) / 2, freedom) * np.sqrt(total) / len(parts))
    return value, value - half, value + half


def _check(f: np.ndarray, h: np.ndarray, owner: np.ndarray, member: np.ndarray) -> None:
    if not len(f) or {len(h), len(owner), len(member)} != {len(f)}:
        raise InputError(
            f"scores, clusters and groups must be of one length, at least 1; "
            f"got {len(f)}, {len(h)}, {len(owner)} and {len(member)}"
        )
    if not np.isfinite(f).all() or np.isinf(h).any():
        raise InputError("every score of the judge must be a finite number, and every label one or NaN")
    if len(set(zip(owner.tolist(), member.tolist(), strict=True))) > len(np.unique(owner)):
        raise InputError("a cluster lies in two groups; each question belongs to one data set")
    has = ~np.isnan(h)
    for group in np.unique(member):
        labelled = len(np.unique(owner[has & (member == group)]))
        if labelled < 2:
            where = f"{str(group)!r} has" if group != "" else "there are"
            raise InputError(f"labels are needed in at least 2 questions (clusters) of a group; {where} {labelled}")


# ---------------------------------------------------------------- simulation


def _draw_shares(
    labels: np.ndarray,
    place: np.ndarray,
    bins: int,
    clusters: Sequence[str] | None,
    draws: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw the share of true yes in each bin, (draws, bins)."""
    owner = np.arange(len(labels)) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    if len(owner) != len(labels):
        raise InputError(f"{len(labels)} labels, but {len(owner)} clusters")
    # A Beta variable is a ratio of Gamma variables, and those are sums of exponential ones, one a pair. Pairs of one
    # cluster share theirs.
    weights = rng.exponential(size=(draws, owner.max() + 1))

    def mass(of: np.ndarray, prior: float) -> np.ndarray:
        counts = np.zeros((owner.max() + 1, bins))
        np.add.at(counts, (owner[of], place[of]), 1.0)
        return weights @ counts + rng.gamma(prior, size=(draws, bins))

    yes, no = mass(labels, labels.mean()), mass(~labels, 1 - labels.mean())
    return np.asarray(yes / (yes + no))


def _mean_of_redrawn(scores: np.ndarray, groups: Sequence[str] | None, rng: np.random.Generator) -> float:
    """Return the (macro) mean of the scores of as many questions, drawn with replacement within their data set."""
    names = np.zeros(len(scores)) if groups is None else np.asarray(groups)
    parts = [scores[names == name] for name in np.unique(names)]
    return float(np.mean([rng.choice(part, len(part)).mean() for part in parts]))


def _bar(shares: np.ndarray) -> Sequence[np.ndarray]:
    from tqdm.auto import tqdm

    bar: Sequence[np.ndarray] = tqdm(shares, desc="simulating", unit="draw", delay=2, leave=False)
    return bar
