"""Can this judge be trusted? Calibration, weak spots, negation, and agreement with a second judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_k, check_questions, check_run, check_verdicts
from berdslib.errors import InputError
from berdslib.evaluation.agreement import agreement, agreement_report
from berdslib.stats import ratio_interval, sum_by_cluster, yes_or_no

PAIR_KEY = ["qid", "pid", "docno"]
ALL = "all"
# In words. BeRDS cuts its corpora into passages of about 100 words; whole web pages are much longer.
LENGTH_EDGES = (50, 100, 200, 400)


# ---------------------------------------------------------------- do the probabilities mean what they say?


def calibration_table(
    labels: np.ndarray, p_yes: np.ndarray, bins: int = 10, *, equal_counts: bool = True
) -> pd.DataFrame:
    """Compare a judge's probabilities with the labels, in bins (a reliability table).

    Bins hold about equally many pairs by default: supporting passages are rare, most probabilities crowd near 0, and
    of ten equally wide bins eight would hold a handful of pairs. Pairs of equal probability share a bin, so that a
    judge that says 0 or 1 only has two bins.

    Args:
        labels: (n,) bool, the truth.
        p_yes: (n,) probabilities.
        bins: how many at most; empty ones are left out.
        equal_counts: False for equally wide bins.

    Returns:
        Frame with columns low, high (a bin is low < p <= high, the first one holds its low as well), n, mean_p,
        share_yes; one row per bin.

    Raises:
        InputError: no pairs, different lengths, fewer than one bin, or something that is not a probability.

    >>> calibration_table([0, 0, 1, 1], [0.0, 0.2, 0.6, 1.0], 2)[["n", "mean_p", "share_yes"]].values.tolist()
    [[2.0, 0.1, 0.0], [2.0, 0.8, 1.0]]
    """
    labels, p_yes = _probabilities(yes_or_no(labels), p_yes)
    edges = bin_edges(p_yes, bins, equal_counts=equal_counts)
    frame = pd.DataFrame({"bin": bin_index(p_yes, edges), "p": p_yes, "yes": labels.astype(np.float64)})
    table = frame.groupby("bin").agg(n=("p", "size"), mean_p=("p", "mean"), share_yes=("yes", "mean")).reset_index()
    table.insert(0, "low", edges[table["bin"]])
    table.insert(1, "high", edges[table["bin"] + 1])
    return table.drop(columns="bin")


def calibration_error(labels: np.ndarray, p_yes: np.ndarray, bins: int = 10, *, equal_counts: bool = True) -> float:
    """Return the expected calibration error: by how much the mean probability of a pair's bin misses the share of yes.

    It is never negative, so that a small sample makes even a perfect judge look a little off.

    Args:
        labels: (n,) bool.
        p_yes: (n,) probabilities.
        bins: see :func:`calibration_table`.
        equal_counts: see :func:`calibration_table`.
    """
    table = calibration_table(labels, p_yes, bins, equal_counts=equal_counts)
    return float(np.average((table["mean_p"] - table["share_yes"]).abs(), weights=table["n"]))


def brier_score(labels: np.ndarray, p_yes: np.ndarray) -> float:
    """Return the mean squared distance of the probabilities from the truth; 0 is best. Brier (1950).

    >>> brier_score([1, 0], [0.5, 0.0])
    0.125
    """
    labels, p_yes = _probabilities(yes_or_no(labels), p_yes)
    return float(np.mean((p_yes - labels) ** 2))


def bin_edges(p_yes: np.ndarray, bins: int, *, equal_counts: bool = True) -> np.ndarray:
    """Return the edges of bins, (bins + 1,) ascending: quantiles of `p_yes`, or equal steps from 0 to 1."""
    if bins < 1:
        raise InputError(f"there must be at least 1 bin, not {bins}")
    steps = np.linspace(0, 1, bins + 1)
    return np.asarray(np.quantile(p_yes, steps)) if equal_counts else steps


def bin_index(p_yes: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the bin of each probability, (n,) from 0; what lies outside the edges belongs to the first or last."""
    return np.searchsorted(edges[1:-1], p_yes)


# ---------------------------------------------------------------- where is it weak?


def agreement_by(
    pairs: pd.DataFrame,
    by: str | Sequence[str],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Break a judge's agreement with labels down by any column: data set, retriever, length of the document.

    Args:
        pairs: frame with columns qid (the question, drawn as a whole), label (bool), answer (bool) and those of `by`.
        by: one column or several.
        level: coverage of the intervals.
        resamples: bootstrap samples.
        seed: of the draws.

    Returns:
        One row per value of `by`, with the columns of `by` and n, questions, labelled_yes (share of pairs whose label
        is yes), accuracy, accuracy_low, accuracy_high, f1, f1_low, f1_high. An interval over few questions is too
        narrow, and over one it has no width: `questions` says how many there were.

    Raises:
        InputError: no pairs, a missing column, or a label or answer that is no truth value (1 and 0 are).
    """
    columns = [by] if isinstance(by, str) else list(by)
    _need(pairs, ["qid", "label", "answer", *columns])
    pairs = pairs.assign(**{column: yes_or_no(pairs[column], column) for column in ("label", "answer")})
    rows = []
    for values, part in pairs.groupby(columns, sort=True, observed=True, dropna=False):
        said = part["label"].to_numpy(), part["answer"].to_numpy()
        report = agreement_report(*said, part["qid"].tolist(), level=level, resamples=resamples, seed=seed)
        report = report.set_index("measure")
        spread = [report.loc[m, c] for m in ("accuracy", "f1") for c in ("value", "low", "high")]
        rows.append((*values, len(part), part["qid"].nunique(), part["label"].mean(), *spread))
    measured = [f"{m}{end}" for m in ("accuracy", "f1") for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=[*columns, "n", "questions", "labelled_yes", *measured])


def length_bucket(texts: Sequence[str], edges: Sequence[int] = LENGTH_EDGES) -> pd.Categorical:
    """Return for each text a bucket of its length in words, such as "51-100 words"; the buckets are in order.

    Args:
        texts: (n,) documents.
        edges: the largest length of each bucket but the last, ascending.

    Raises:
        InputError: edges that do not ascend from 1.

    >>> length_bucket(["one two", "one two three four"], [3]).tolist()
    ['1-3 words', '4 words and more']
    """
    starts = [1, *(e + 1 for e in edges)]
    if any(b <= a for a, b in pairwise(starts)):
        raise InputError(f"edges must be ascending whole numbers from 1, not {list(edges)}")
    names = [f"{start}-{edge} words" for start, edge in zip(starts, edges, strict=False)]
    words = np.array([len(text.split()) for text in texts], dtype=np.int64)
    names.append(f"{starts[-1]} words and more")
    places = np.searchsorted(np.asarray(edges), words)
    return pd.Categorical([names[place] for place in places], categories=names, ordered=True)


# ---------------------------------------------------------------- does it see a "not"?


def opposed_pairs(verdicts: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Find documents that argue one of a question's two perspectives, and a judge's verdicts on both.

    Args:
        verdicts: verdict frame of the judge.
        labels: verdict frame of the truth. Perspectives 0 and 1 of its questions must be a statement and its negation;
            leave other questions out.

    Returns:
        Frame with columns qid, docno, p_right (p_yes of the perspective that the document supports) and p_wrong; the
        documents that support exactly one of the two and were judged for both.

    Raises:
        InputError: a frame that is no verdicts, or a question with a third perspective.
    """
    verdicts, labels = check_verdicts(verdicts), check_verdicts(labels)
    both = labels.merge(verdicts, on=PAIR_KEY, suffixes=("_true", ""))
    if (both["pid"] > 1).any():
        at = both[both["pid"] > 1].iloc[0]
        raise InputError(f"question {at.qid!r} has more than two perspectives; which of them are opposed?", field="pid")
    wide = both.pivot(index=["qid", "docno"], columns="pid", values=["supports_true", "p_yes"])
    wide = wide.reindex(columns=pd.MultiIndex.from_product([["supports_true", "p_yes"], [0, 1]])).dropna()
    true, p = wide["supports_true"].to_numpy(dtype=bool), wide["p_yes"].to_numpy(dtype=np.float64)
    one = true[:, 0] != true[:, 1]
    frame = wide.index[one].to_frame(index=False, name=["qid", "docno"])
    right = true[one, 1].astype(int)
    rows = np.arange(len(right))
    return frame.assign(p_right=p[one][rows, right], p_wrong=p[one][rows, 1 - right])


def negation_report(
    p_right: np.ndarray,
    p_wrong: np.ndarray,
    clusters: Sequence[str],
    *,
    threshold: float = 0.5,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Measure whether a judge distinguishes a statement from its negation, on the same documents.

    A judge of topics, blind to sides, is right in half of the cases and says yes, or no, to both.

    Args:
        p_right: (n,) its probability for the one of the two that the document supports.
        p_wrong: (n,) that for the other.
        clusters: (n,) the question of each document; whole questions are drawn.
        threshold: of the judge; yes at this probability and above.
        level: coverage of the intervals.
        resamples: bootstrap samples.
        seed: of the draws.

    Returns:
        Frame with columns measure, value, low, high; rows right_higher (the right one has the higher probability, a
        tie counts half; chance is 0.5), both_yes, both_no, and sum_of_p (mean of the two probabilities' sum; that of a
        document that argues one of the two should be 1).

    Raises:
        InputError: no documents, different lengths, or something that is not a probability.
    """
    p_right, p_wrong = _probabilities(p_right, p_wrong)
    yes = np.stack([p_right, p_wrong]) >= threshold
    columns = {
        "right_higher": (p_right > p_wrong) + 0.5 * (p_right == p_wrong),
        "both_yes": yes.all(axis=0),
        "both_no": ~yes.any(axis=0),
        "sum_of_p": p_right + p_wrong,
    }
    values = np.column_stack([*columns.values(), np.ones(len(p_right))]).astype(np.float64)
    sums = sum_by_cluster(values, clusters)  # the last column counts the documents
    low, high = ratio_interval(sums[:, :-1], sums[:, -1], level=level, resamples=resamples, seed=seed)
    means = values[:, :-1].mean(axis=0)
    return pd.DataFrame({"measure": list(columns), "value": means, "low": low, "high": high})


# ---------------------------------------------------------------- what does a second judge say?


def judge_agreement_table(
    verdicts: pd.DataFrame,
    reference: pd.DataFrame,
    runs: Mapping[str, pd.DataFrame],
    k: int,
    questions: Sequence[Question] = (),
) -> pd.DataFrame:
    """Compare two judges on what each retriever lists, one of them taken as the truth. BeRDS Table 18.

    A judge that was tuned on the output of one retriever may be worse on that of another. The paper draws 300 pairs per
    corpus and retriever and takes GPT-4 as the reference; here every pair counts that both judges judged, so that the
    reference, which costs more, may have judged a sample.

    Args:
        verdicts: verdict frame of the judge.
        reference: verdict frame of the judge it is compared with.
        runs: name → run, all over the corpus that was judged; for several corpora join the tables.
        k: how deep to look.
        questions: adds rows for each of their data sets (`source`); the paper has none.

    Returns:
        Frame with columns run, dataset ("all" first), n, accuracy, f1, positive_share (of the reference); from 0 to 1.

    Raises:
        InputError: k is no whole number from 1, no runs, a frame that is no run or no verdicts, or a run of which both
            judges have judged nothing.
    """
    check_k(k)
    if not runs:
        raise InputError("there are no runs")
    if questions:
        check_questions(questions)
    verdicts, reference = check_verdicts(verdicts), check_verdicts(reference)
    sources = {q.qid: q.source for q in questions}
    pairs = verdicts.merge(reference, on=PAIR_KEY, suffixes=("", "_reference"))
    rows = []
    for name, listed in runs.items():
        run = check_run(listed)
        mine = pairs.merge(run.loc[run["rank"] <= k, ["qid", "docno"]], on=["qid", "docno"])
        if mine.empty:
            raise InputError(f"no pair in the top {k} of the run {name!r} was judged by both judges")
        source = mine["qid"].map(sources)
        for dataset in [ALL, *dict.fromkeys(q.source for q in questions)]:
            part = mine if dataset == ALL else mine[source == dataset]
            if len(part):
                found = agreement(part["supports_reference"].to_numpy(), part["supports"].to_numpy())
                positive = part["supports_reference"].mean()
                rows.append((name, dataset, found.n, found.accuracy, found.f1, positive))
    return pd.DataFrame(rows, columns=["run", "dataset", "n", "accuracy", "f1", "positive_share"])


def _probabilities(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two columns of numbers from 0 to 1 (labels count as 0 and 1) as float64."""
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise InputError(f"the columns must be of one length, at least 1; got {first.shape} and {second.shape}")
    for column in (first, second):
        if not ((column >= 0) & (column <= 1)).all():
            raise InputError("labels and probabilities must be numbers from 0 to 1")
    return first, second


def _need(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    missing = [c for c in columns if c not in frame.columns]
    if missing or frame.empty:
        raise InputError(f"needs pairs with the columns {', '.join(columns)}; missing: {', '.join(missing) or 'pairs'}")
