"""What a reader of a table has to know: how much was judged, which lists are short, how high scores can get."""

from __future__ import annotations

from collections.abc import Collection as Members
from collections.abc import Iterable, Mapping, Sequence
from math import floor

import numpy as np
import pandas as pd

from berdslib.data.corpus import Corpus
from berdslib.data.gold import are_copies_of_judged
from berdslib.data.records import GRADE, Passage, Question, read_pairs
from berdslib.evaluation.measures import Measure, MRecall, cutoff_of, lists_looked_at, nDCG
from berdslib.evaluation.tables import pairs_of
from berdslib.stats import macro_mean

Runs = Mapping[str, pd.DataFrame]
_MOST_SYSTEMS = 4  # of more, the lowest and the highest share are named


def places_judged(
    runs: Runs, verdicts: pd.DataFrame, questions: Sequence[Question], measures: Sequence[Measure]
) -> str:
    """Say what share of the first places that the measures look at was judged; "" where all were."""
    judged, lists = pairs_of(read_pairs(verdicts)), lists_looked_at(questions, measures)
    rows = pd.concat([run[["qid", "docno", "rank"]].assign(system=name) for name, run in runs.items()])
    rows = rows.assign(qid=rows["qid"].map(lists)).dropna(subset="qid")
    rows["judged"] = pairs_of(rows).isin(judged)
    said = []
    for k in _cutoffs(measures):
        shares = (rows if k is None else rows[rows["rank"] <= k]).groupby("system", sort=False)["judged"].mean()
        if (shares < 1).any():
            said.append(f"in {f'the first {k}' if k else 'whole lists'}: {_shares(shares)}")
    return "Judged " + "; ".join(said) if said else ""


def copies_listed(
    runs: Runs,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    measures: Sequence[Measure],
    passages: Sequence[Passage],
) -> dict[str, int]:
    """Return system → how many of its places that the measures look at hold an unjudged copy of a judged passage."""
    lists, k = lists_looked_at(questions, measures), max(k or np.inf for k in _cutoffs(measures))
    asked = verdicts[verdicts["qid"].isin({q.qid for q in questions})]
    found = {}
    for name, run in runs.items():
        top = run[(run["rank"] <= k) & run["qid"].isin(lists)]
        found[name] = int(are_copies_of_judged(top.assign(qid=top["qid"].map(lists)), asked, passages).sum())
    return found


def short_lists(
    runs: Runs, questions: Sequence[Question], measures: Sequence[Measure], finished: Members[str], most: int = 0
) -> list[str]:
    """Say which finished runs end before a measure's cut-off, and where measures of whole lists see unlike lengths.

    `most` is the number of passages in the corpus, 0 where that is not known: no list can be longer.
    """
    lists = lists_looked_at(questions, measures)
    said = []
    lengths = {name: int(run.loc[run["qid"].isin(lists), "rank"].max()) for name, run in runs.items() if len(run)}
    for name in finished:
        length = lengths.get(name, 0)
        deeper = [str(m) for m in measures if (cutoff_of(m) or 0) > length]
        if length and deeper and length != most:
            said.append(f"{name}: lists of {length}, but {', '.join(deeper)} look{'s' * (len(deeper) == 1)} deeper")
    whole = [str(m) for m in measures if cutoff_of(m) is None]
    if whole and finished and len(set(lengths.values())) > 1:
        each = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        said.append(f"{', '.join(whole)} of whole lists, as long as {each}")
    return said


def grades_used(verdicts: pd.DataFrame, measures: Sequence[Measure]) -> str:
    """Say from which grade on a verdict is a yes, and what measures use the grades; "" without grades."""
    if GRADE not in verdicts.columns or verdicts[GRADE].isin([0, 1]).all() or not verdicts["supports"].any():
        return ""
    level = verdicts.loc[verdicts["supports"], GRADE].min()
    gains = [str(m) for m in measures if m.NAME == nDCG.NAME]
    return f"A yes is relevance ≥ {level:g}" + (f"; the gains of {', '.join(gains)} are the grades" if gains else "")


def pairs_unread(verdicts: pd.DataFrame) -> str:
    """Say how many pairs got an answer that could not be read; "" for none."""
    unread = len(verdicts) - len(read_pairs(verdicts))
    return f"{unread} of {len(verdicts)} pairs unread" if unread else ""


def within_reach(
    questions: Sequence[Question], verdicts: pd.DataFrame, passages: Sequence[Passage], runs: Runs
) -> pd.DataFrame:
    """Return the verdicts on relevant passages that could be listed: those in the corpus, or in some run.

    Of a corpus only docnos are looked up.
    """
    yes = verdicts[verdicts["supports"] & verdicts["qid"].isin({q.qid for q in questions})]
    listed = {docno for run in runs.values() for docno in run["docno"].unique()}
    return yes[yes["docno"].isin(listed) | yes["docno"].isin(in_corpus(yes["docno"], passages))]


def in_corpus(docnos: Iterable[str], passages: Sequence[Passage]) -> set[str]:
    """Return those of the docnos that a corpus holds."""
    if isinstance(passages, Corpus):
        return {docno for docno in set(docnos) if passages.position(docno) is not None}
    return set(docnos) & {p.docno for p in passages}


def ceiling(questions: Sequence[Question], reachable: pd.DataFrame, measures: Sequence[Measure]) -> str:
    """Say how high the mean of MRecall can get with the relevant passages within reach, and why; "" for 100 %."""
    shown = reachable.groupby("qid")["pid"].nunique()
    within = np.array([shown.get(q.qid, 0) for q in questions])
    of_question = np.array([len(q.perspectives) for q in questions])
    reached = []
    incomplete = np.zeros(len(questions), dtype=bool)
    for measure in measures:
        if measure.NAME == MRecall.NAME and (k := cutoff_of(measure)):
            # k passages, one for each perspective, show as many as MRecall asks for.
            possible = within >= np.minimum(of_question, k)
            highest = macro_mean(possible, [q.source for q in questions])
            reached += [f"{measure} can reach {100 * highest:.1f}"] if highest < 1 else []
            incomplete |= ~possible & (within > 0)
    n = len(questions)
    hopeless = int((within == 0).sum())
    reasons = []
    if hopeless:
        lack = "has" if hopeless == 1 else "have"
        reasons.append(f"{hopeless} of {n} questions {lack} no relevant passage in the corpus")
    if incomplete.any():
        lack = "has" if incomplete.sum() == 1 else "have"
        reasons.append(f"{incomplete.sum()} of {n} questions {lack} no relevant passage for some perspective")
    why = " and ".join(reasons)
    return f"{', '.join(reached)} ({why})" if reached else why


def _cutoffs(measures: Sequence[Measure]) -> list[int | None]:
    """Return the cut-offs of measures, the smallest first, None (whole lists) last."""
    return sorted({cutoff_of(m) for m in measures}, key=lambda k: k or np.inf)


def _shares(shares: pd.Series) -> str:
    """Write shares in percent, rounded down so that 100% is all, of each system where they differ."""
    percent = {str(name): f"{floor(1000 * share + 1e-9) / 10:g}%" for name, share in shares.items()}
    if len(set(percent.values())) == 1:
        return next(iter(percent.values()))
    if len(percent) > _MOST_SYSTEMS:
        low, high = (str(name) for name in (shares.idxmin(), shares.idxmax()))
        return f"from {percent[low]} ({low}) to {percent[high]} ({high})"
    return ", ".join(f"{name} {share}" for name, share in percent.items())
