"""Quality of a judge: agreement with labels, and calibration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError
from berdslib.evaluation.tables import ratio
from berdslib.stats import both_kinds, cluster_bootstrap, yes_or_no

_BINS = 10  # of a calibration error

# The reports below take `level` (coverage of the intervals), `resamples` and `seed` (of the bootstrap). The bootstrap
# draws whole questions, since the pairs of a question are similar; intervals are NaN if all pairs are of one question.


# ---------------------------------------------------------------- agreement


class Agreement(NamedTuple):
    """Agreement of yes/no answers with labels over ``n`` pairs, from 0 to 1 (kappa from -1, or NaN). BeRDS Table 4."""

    n: int
    accuracy: float
    f1: float
    precision: float
    recall: float
    said_yes: float
    kappa: float


def agreement(labels: np.ndarray, answers: np.ndarray) -> Agreement:
    """Compare yes/no answers, (n,) bool, with labels, (n,) bool.

    >>> agreement(np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool)).f1
    0.5
    """
    outcomes = _outcomes(labels, answers)
    counts = outcomes.sum(axis=0, keepdims=True)
    return Agreement(len(outcomes), *_measures(counts)[0].tolist())


def agreement_report(
    labels: np.ndarray,
    answers: np.ndarray,
    clusters: Sequence[str],
    **drawing: Any,
) -> pd.DataFrame:
    """Return the fields of :class:`Agreement` except n, one per row: measure, value, low, high."""
    return _report(Agreement._fields[1:], _outcomes(labels, answers), clusters, _measures, **drawing)


def f1_difference(
    labels: np.ndarray, first: np.ndarray, second: np.ndarray, clusters: Sequence[str], **drawing: Any
) -> tuple[float, float, float]:
    """Return how much higher the F1 of the second answers is, and its interval, from the same draws of questions."""
    rows = np.hstack([_outcomes(labels, first), _outcomes(labels, second)])

    def difference(counts: np.ndarray) -> np.ndarray:
        return (_measures(counts[:, 4:]) - _measures(counts[:, :4]))[:, [Agreement._fields.index("f1") - 1]]

    value, low, high = cluster_bootstrap(rows, clusters, difference, **drawing)
    return float(value[0]), float(low[0]), float(high[0])


def _report(
    names: Iterable[str],
    rows: Any,
    clusters: Sequence[str],
    statistic: Any,
    **drawing: Any,
) -> pd.DataFrame:
    value, low, high = cluster_bootstrap(rows, clusters, statistic, **drawing)
    return pd.DataFrame({"measure": list(names), "value": value, "low": low, "high": high})


def _outcomes(labels: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return for each pair whether it is a true yes, a false yes, a false no or a true no, (n, 4) bool."""
    labels = yes_or_no(labels)
    answers = yes_or_no(answers, "answers")
    if labels.shape != answers.shape or not len(labels):
        raise InputError(f"labels and answers must be of one length, at least 1; got {len(labels)} and {len(answers)}")
    return np.stack([labels & answers, ~labels & answers, labels & ~answers, ~labels & ~answers], axis=1)


def _measures(counts: np.ndarray) -> np.ndarray:
    """Turn (r, 4) counts into (r, 6) measures, in the order of Agreement's fields after n."""
    true_yes, false_yes, false_no, _ = counts.T.astype(np.float64)
    answered = true_yes + false_yes
    labelled = true_yes + false_no
    same, kappa = same_and_kappa(counts.reshape(-1, 2, 2)).T
    f1 = ratio(2 * true_yes, answered + labelled)
    precision = ratio(true_yes, answered)
    recall = ratio(true_yes, labelled)
    said_yes = answered / counts.sum(axis=1)
    return np.stack([same, f1, precision, recall, said_yes, kappa], axis=1)


def same_and_kappa(tables: np.ndarray) -> np.ndarray:
    """Return the share on the diagonal of tables (r, c, c) and Cohen's kappa, (r, 2); NaN if chance always agrees."""
    n = tables.sum(axis=(1, 2))
    same = np.trace(tables, axis1=1, axis2=2) / n
    margins = tables.sum(axis=1) * tables.sum(axis=2)
    by_chance = margins.sum(axis=1) / n**2
    kappa = ratio_or_nan(same - by_chance, (1 - by_chance).round(12))
    return np.column_stack([same, kappa])


def ratio_or_nan(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return part / whole, NaN where the whole is not positive."""
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=whole > 0)


# ---------------------------------------------------------------- calibration


def calibration_table(labels: np.ndarray, p_yes: np.ndarray, bins: int = _BINS) -> pd.DataFrame:
    """Compare a judge's probabilities with the labels: one row per bin.

    The columns are low, high (low < p <= high), n, mean_p, share_yes. Bins hold about equally many pairs; pairs of
    equal probability share a bin. Empty bins are left out.

    >>> calibration_table([0, 0, 1, 1], [0.0, 0.2, 0.6, 1.0], 2)[["n", "mean_p", "share_yes"]].values.tolist()
    [[2.0, 0.1, 0.0], [2.0, 0.8, 1.0]]
    """
    labels, p_yes = _probabilities(labels, p_yes)
    edges = _bin_edges(p_yes, bins)
    frame = pd.DataFrame({"bin": _bin_index(p_yes, edges), "p": p_yes, "yes": labels})
    columns = {"n": ("p", "size"), "mean_p": ("p", "mean"), "share_yes": ("yes", "mean")}
    table = frame.groupby("bin").agg(**columns).reset_index()
    table.insert(0, "low", edges[table["bin"]])
    table.insert(1, "high", edges[table["bin"] + 1])
    return table.drop(columns="bin")


def calibration_error(labels: np.ndarray, p_yes: np.ndarray) -> float:
    """Return the expected calibration error (never negative), with the bins of :func:`calibration_table`."""
    table = calibration_table(labels, p_yes)
    gaps = (table["mean_p"] - table["share_yes"]).abs()
    return float(np.average(gaps, weights=table["n"]))


def _bin_edges(p_yes: np.ndarray, bins: int) -> np.ndarray:
    """Return the edges of bins, (bins + 1,) ascending: quantiles of `p_yes`."""
    if bins < 1:
        raise InputError(f"expected at least 1 bin, not {bins}")
    return np.asarray(np.quantile(p_yes, np.linspace(0, 1, bins + 1)))


def _bin_index(p_yes: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the bin of each probability, (n,) from 0; probabilities beyond the edges are in the first or last bin."""
    return np.searchsorted(edges[1:-1], p_yes)


def auc(labels: np.ndarray, p_yes: np.ndarray) -> float:
    """Return the area under the ROC curve: how often a yes has a higher probability than a no; a tie counts half.

    >>> auc([1, 0, 1, 0], [0.9, 0.1, 0.4, 0.4])
    0.875
    """
    labels, p_yes = both_kinds(labels, p_yes)
    counts = _by_value(labels, p_yes).sum(axis=0)
    return float(_auc(counts[None])[0, 0])


def probability_report(
    labels: np.ndarray,
    p_yes: np.ndarray,
    clusters: Sequence[str],
    **drawing: Any,
) -> pd.DataFrame:
    """Return AUC and calibration error as rows measure, value, low, high; the labels must include yes and no.

    Resampling adds noise to each bin, so the interval of the calibration error lies a little high.
    """
    labels, p_yes = both_kinds(labels, p_yes)
    _probabilities(labels, p_yes)
    # The error is the sum over bins of |sum of p - sum of yes|, divided by the number of pairs (the last column).
    excess = np.zeros((len(labels), _BINS + 1))
    bin_of = _bin_index(p_yes, _bin_edges(p_yes, _BINS))
    excess[np.arange(len(labels)), bin_of] = p_yes - labels
    excess[:, -1] = 1
    reports = [
        _report(["auc"], _by_value(labels, p_yes), clusters, _auc, **drawing),
        _report(["calibration_error"], excess, clusters, _error_of_bins, **drawing),
    ]
    return pd.concat(reports, ignore_index=True)


def _by_value(labels: np.ndarray, p_yes: np.ndarray) -> Any:
    """Return each pair as a row with a single 1, (n, 2 g) sparse: a column for each p, first of yes, then of no."""
    from scipy.sparse import csr_array

    values, place = np.unique(p_yes, return_inverse=True)
    n = len(labels)
    columns = np.where(labels, place, len(values) + place)
    return csr_array((np.ones(n), (np.arange(n), columns)), shape=(n, 2 * len(values)))


def _auc(counts: np.ndarray) -> np.ndarray:
    """Return the AUC (r, 1) of sums of rows of :func:`_by_value`; NaN if a sum lacks one label."""
    yes, no = np.split(counts, 2, axis=1)
    below = np.cumsum(no, axis=1) - no / 2
    ordered = (yes * below).sum(axis=1)
    return ratio_or_nan(ordered, yes.sum(axis=1) * no.sum(axis=1))[:, None]


def _error_of_bins(sums: np.ndarray) -> np.ndarray:
    errors = np.abs(sums[:, :-1]).sum(axis=1, keepdims=True)
    return errors / sums[:, -1:]


def _probabilities(labels: np.ndarray, p_yes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return labels as bool, and numbers from 0 to 1 as float64."""
    labels = yes_or_no(labels)
    p_yes = np.asarray(p_yes, dtype=np.float64)
    if labels.shape != p_yes.shape or labels.ndim != 1 or not len(labels):
        raise InputError(f"both columns must be of one length, at least 1; got {labels.shape} and {p_yes.shape}")
    if not ((p_yes >= 0) & (p_yes <= 1)).all():
        raise InputError("probabilities must be numbers from 0 to 1", field="p_yes")
    return labels, p_yes
