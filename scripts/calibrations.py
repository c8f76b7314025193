"""Platt's curve beside Venn-Abers: does a judge refitted to few labels gain by steps in place of a curve?

python scripts/calibrations.py [--judges laptop,similarity] [--draws 200]     (needs theperspective: BERDS_DATA)

From bm25's first ten of theperspective, pairs of random questions are drawn; each form is fitted to them and measured
on the other questions. The last columns are the difference of the two with the middle 95 % of the draws.
"""

import argparse
from typing import NamedTuple

import numpy as np
import pandas as pd

import berdslib as bd
from berdslib.data.corpus import by_docno
from berdslib.evaluation.judges import agreement, calibration_error
from berdslib.judging.examples import detection_pairs
from berdslib.judging.refit import calibrate, logits_of
from berdslib.judging.registry import make_judge
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.stats import both_kinds, choose_threshold

SIZES = ((30, 2), (60, 4))  # questions, and pairs of each
FEWEST = 10  # labels of either kind, as `berds rate fit` asks


class VennAbers(NamedTuple):
    """Calibration by the order of fitted logits alone (inductive Venn-Abers: Vovk and Petej, 2014).

    A new pair joins the fitted ones, once as a no and once as a yes. The two isotonic fits give p0 and p1 at its logit,
    and P is p1 / (1 - p0 + p1). `labels` are 0 and 1, `weights` those of a no and of a yes.
    """

    logits: np.ndarray
    labels: np.ndarray
    weights: tuple[float, float]
    threshold: float

    def p_yes(self, logits):
        """Return float64 (n,)."""
        values, place = np.unique(self.logits, return_inverse=True)
        weight = np.where(self.labels, self.weights[1], self.weights[0])
        total = np.append(0, np.bincount(place, weight).cumsum())
        yes = np.append(0, np.bincount(place, weight * self.labels).cumsum())

        def isotonic(logit, label):
            # The fit at a place is the largest, over starts, of the smallest mean of a block that holds it.
            starts = np.searchsorted(values, logit) + 1
            end = np.searchsorted(values, logit, "right")
            own = self.weights[label]
            means = (yes[end:] - yes[:starts, None] + label * own) / (total[end:] - total[:starts, None] + own)
            return means.min(axis=1).max()

        different, which = np.unique(logits, return_inverse=True)
        p0, p1 = (np.array([isotonic(logit, label) for logit in different])[which] for label in (0, 1))
        return p1 / (1 - p0 + p1)


def calibrate_venn_abers(logits, labels, positive_share):
    """Fit by Venn-Abers, and the threshold with the best F1 on the same pairs, with positives weighted to a share."""
    labels, logits = both_kinds(labels, logits)
    weights = ((1 - positive_share) / (1 - labels.mean()), positive_share / labels.mean())
    fitted = VennAbers(logits, labels, weights, 0.5)
    return fitted._replace(threshold=choose_threshold(labels, fitted.p_yes(logits), positive_share))


def drawn(qids, questions, per, rng):
    """Return the questions of a draw, and the places of its pairs."""
    chosen = rng.choice(np.unique(qids), questions, replace=False)
    pairs = [rng.choice(np.flatnonzero(qids == qid), per, replace=False) for qid in chosen]
    return chosen, np.concatenate(pairs)


def measured(logits, labels, qids, size, draws):
    """Return a row for each draw with enough labels: calibration error and F1 of each form on the other questions."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(draws):
        questions, fitted = drawn(qids, *size, rng)
        if min(labels[fitted].sum(), (~labels[fitted]).sum()) < FEWEST:
            continue
        others = ~np.isin(qids, questions)
        share = labels[fitted].mean()
        platt = calibrate(logits[fitted], labels[fitted], share, 1.0)
        steps = calibrate_venn_abers(logits[fitted], labels[fitted], share)
        row = {}
        for name, form in (("Platt", platt), ("Venn-Abers", steps)):
            p_yes = form.p_yes(logits[others])
            row["calibration error", name] = calibration_error(labels[others], p_yes)
            row["F1", name] = agreement(labels[others], p_yes >= form.threshold).f1
        rows.append(row)
    table = pd.DataFrame(rows)
    table.columns = pd.MultiIndex.from_tuples(table.columns)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judges", default="laptop,similarity")
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    data = bd.load("theperspective", split="all")
    yes = set(data.gold.loc[data.gold["supports"], ["qid", "pid", "docno"]].itertuples(index=False, name=None))
    run = bd.search("bm25", data, 10)
    pairs = detection_pairs(list(data.questions), [run], by_docno(data.passages), k=10)
    labels = np.array([(pair.qid, pair.pid, pair.passage.docno) in yes for pair in pairs])
    qids = np.array([pair.qid for pair in pairs])
    print(f"{len(pairs)} pairs, {100 * labels.mean():.1f} % yes")
    for name in options.judges.split(","):
        judge = make_judge(name)
        p_yes, _ = judge_pairs(judge, pairs, VerdictStore())
        f1 = agreement(labels, p_yes >= judge.threshold).f1
        print(f"{name} as it is: calibration error {100 * calibration_error(labels, p_yes):.1f}, F1 {100 * f1:.1f}")
        for size in SIZES:
            table = 100 * measured(logits_of(p_yes), labels, qids, size, options.draws)
            print(f"{size[0] * size[1]} labels, {len(table)} draws")
            for measure in ("calibration error", "F1"):
                forms = table[measure]
                more = forms["Venn-Abers"] - forms["Platt"]
                low, high = more.quantile([0.025, 0.975])
                means = f"Platt {forms['Platt'].mean():.1f}, Venn-Abers {forms['Venn-Abers'].mean():.1f}"
                print(f"  {measure}: {means}, difference {more.mean():+.1f} [{low:.1f}, {high:.1f}]")


if __name__ == "__main__":
    main()
