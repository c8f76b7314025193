"""Notes below a table of scores: the share of judged places, short lists, and the ceiling of MRecall."""

from __future__ import annotations

from collections.abc import Collection as Members
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from berdslib.data.corpus import Corpus
from berdslib.data.gold import are_copies_of_judged
from berdslib.data.records import GRADE, Passage, Question, read_pairs, some_of
from berdslib.evaluation.measures import Measure, MRecall, cutoff_of, lists_looked_at, nDCG
from berdslib.evaluation.tables import pair_index
from berdslib.stats import macro_mean

Runs = Mapping[str, pd.DataFrame]
_MOST_SYSTEMS = 4  # with more, a note names only the lowest and the highest share


def shares_judged(
    runs: Runs,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    measures: Sequence[Measure],
) -> dict[int | None, pd.Series]:
    """Return for each cut-off of the measures system → the share of its places within it that have a verdict.

    A system that lists nothing has no share.
    """
    judged = pair_index(read_pairs(verdicts))
    lists = lists_looked_at(questions, measures)
    rows = pd.concat([run[["qid", "docno", "rank"]].assign(system=name) for name, run in runs.items()])
    rows = rows.assign(qid=rows["qid"].map(lists)).dropna(subset="qid")
    rows["judged"] = pair_index(rows).isin(judged)
    shares = {}
    for k in _cutoffs(measures):
        top = rows if k is None else rows[rows["rank"] <= k]
        shares[k] = top.groupby("system", sort=False)["judged"].mean()
    return shares


def places_judged(
    runs: Runs,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    measures: Sequence[Measure],
) -> str:
    """Describe the share of places within the measures' cut-offs that have a verdict; "" if all of them do."""
    parts = []
    for k, shares in shares_judged(runs, verdicts, questions, measures).items():
        if (shares < 1).any():
            where = f"the first {k}" if k else "whole lists"
            parts.append(f"in {where}: {_shares(shares)}")
    return "Judged " + "; ".join(parts) if parts else ""


def copies_listed(
    runs: Runs,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    measures: Sequence[Measure],
    passages: Sequence[Passage],
) -> dict[str, int]:
    """Return system → how many of the places that the measures look at hold an unjudged copy of a judged passage."""
    lists = lists_looked_at(questions, measures)
    deepest = max(k or np.inf for k in _cutoffs(measures))
    of_questions = verdicts[verdicts["qid"].isin({q.qid for q in questions})]
    copies = {}
    for name, run in runs.items():
        top = run[(run["rank"] <= deepest) & run["qid"].isin(lists)]
        places = top.assign(qid=top["qid"].map(lists))
        copies[name] = int(are_copies_of_judged(places, of_questions, passages).sum())
    return copies


def short_lists(
    runs: Runs,
    questions: Sequence[Question],
    measures: Sequence[Measure],
    finished: Members[str],
    most: int = 0,
) -> list[str]:
    """Describe finished runs that end before a measure's cut-off, and unequal lengths of lists that are scored whole.

    `most` is the number of passages in the corpus, the longest possible list; 0 if the number is unknown.
    """
    lists = lists_looked_at(questions, measures)
    notes = []
    lengths = {}
    for name, run in runs.items():
        if len(run):
            lengths[name] = int(run.loc[run["qid"].isin(lists), "rank"].max())
    for name in finished:
        length = lengths.get(name, 0)
        deeper = [str(measure) for measure in measures if (cutoff_of(measure) or 0) > length]
        if length and deeper and length != most:
            verb = "looks" if len(deeper) == 1 else "look"
            notes.append(f"{name}: lists of {length}, but {', '.join(deeper)} {verb} deeper")
    whole = [str(measure) for measure in measures if cutoff_of(measure) is None]
    if whole and finished and len(set(lengths.values())) > 1:
        each = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        notes.append(f"{', '.join(whole)} of whole lists, as long as {each}")
    return notes


def grades_used(verdicts: pd.DataFrame, measures: Sequence[Measure]) -> str:
    """Describe the lowest grade that counts as a yes, and the measures that use grades; "" without grades."""
    if GRADE not in verdicts.columns or verdicts[GRADE].isin([0, 1]).all() or not verdicts["supports"].any():
        return ""
    level = verdicts.loc[verdicts["supports"], GRADE].min()
    graded = [str(measure) for measure in measures if measure.NAME == nDCG.NAME]
    gains = f"; the gains of {', '.join(graded)} are the grades" if graded else ""
    return f"A yes is relevance ≥ {level:g}{gains}"


def pairs_unread(verdicts: pd.DataFrame) -> str:
    """Describe how many pairs got an unreadable answer; "" if all were readable."""
    unread = len(verdicts) - len(read_pairs(verdicts))
    return f"{unread} of {len(verdicts)} pairs unread" if unread else ""


def within_reach(
    questions: Sequence[Question],
    verdicts: pd.DataFrame,
    passages: Sequence[Passage],
    runs: Runs,
) -> pd.DataFrame:
    """Return the verdicts on relevant passages that are in the corpus or in a run; only docnos are compared."""
    yes = verdicts[verdicts["supports"] & verdicts["qid"].isin({q.qid for q in questions})]
    available = in_corpus(yes["docno"], passages)
    for run in runs.values():
        available.update(run["docno"].unique())
    return yes[yes["docno"].isin(available)]


def in_corpus(docnos: Iterable[str], passages: Sequence[Passage]) -> set[str]:
    """Return the docnos that a corpus contains."""
    if isinstance(passages, Corpus):
        return {docno for docno in set(docnos) if passages.position(docno) is not None}
    return set(docnos) & {p.docno for p in passages}


def ceiling(questions: Sequence[Question], reachable: pd.DataFrame, measures: Sequence[Measure]) -> str:
    """Describe the highest mean of MRecall that the relevant passages within reach allow, and why; "" for 100 %."""
    pids_by_qid = reachable.groupby("qid")["pid"].nunique()
    within = np.array([pids_by_qid.get(q.qid, 0) for q in questions])
    sizes = np.array([len(q.perspectives) for q in questions])
    limits = []
    incomplete = np.zeros(len(questions), dtype=bool)
    for measure in measures:
        k = cutoff_of(measure)
        if measure.NAME != MRecall.NAME or not k:
            continue
        # k passages, one for each perspective, show as many perspectives as MRecall requires.
        possible = within >= np.minimum(sizes, k)
        highest = macro_mean(possible, [q.source for q in questions])
        if highest < 1:
            limits.append(f"{measure} can reach {100 * highest:.1f}")
        incomplete |= ~possible & (within > 0)
    n = len(questions)
    without = int((within == 0).sum())
    reasons = []
    if without:
        reasons.append(f"{some_of(without, n, 'question', 'have')} no passage judged relevant in the corpus")
    if incomplete.any():
        some = some_of(int(incomplete.sum()), n, "question", "have")
        reasons.append(f"{some} no passage judged relevant for some perspective")
    why = " and ".join(reasons)
    return f"{', '.join(limits)} ({why})" if limits else why


def _cutoffs(measures: Sequence[Measure]) -> list[int | None]:
    """Return the cut-offs of measures, the smallest first, None (whole lists) last."""
    return sorted({cutoff_of(m) for m in measures}, key=lambda k: k or np.inf)


def percent_down(share: float) -> str:
    """Write a share in percent as tables do, but 100% only for all.

    >>> percent_down(28 / 60), percent_down(0.99999)
    ('46.7%', '99.9%')
    """
    percent = round(100 * share, 1)
    return f"{percent if share == 1 else min(percent, 99.9):g}%"


def _shares(shares: pd.Series) -> str:
    """Write shares in percent, a single one if all systems agree."""
    percent = {str(name): percent_down(share) for name, share in shares.items()}
    if len(set(percent.values())) == 1:
        return next(iter(percent.values()))
    if len(percent) > _MOST_SYSTEMS:
        low = str(shares.idxmin())
        high = str(shares.idxmax())
        return f"from {percent[low]} ({low}) to {percent[high]} ({high})"
    return ", ".join(f"{name} {share}" for name, share in percent.items())
