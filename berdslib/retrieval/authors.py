"""Systems that look at who wrote a passage: what the parts "+profile:…" of a system string do, and groups as aspects.

They know the profiles that a :class:`~berdslib.data.scenario.Handout` holds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.arguments import PROPERTIES, Profile, in_words
from berdslib.data.collection import Collection
from berdslib.data.records import Passage, Question, make_run
from berdslib.data.scenario import BASELINE, EXPLICIT, IMPLICIT, Handout
from berdslib.errors import InputError
from berdslib.retrieval.base import Ours, Retriever, check_search, checked_search, joined
from berdslib.retrieval.diversify import ASPECT_COLUMNS, AspectsOf, normalised, starts_of

logger = logging.getLogger(__name__)

FILTER, TEMPLATE, FUSION = "filter", "template", "fusion"
USES = (FILTER, TEMPLATE, FUSION)

DEEPER = 10  # times as many candidates: an author group may be a fiftieth of the corpus
MOST_QUERIES = 300  # of the training split that the weights of a fusion are learnt on
_ROWS_AT_ONCE = 500_000  # of a run


# ---------------------------------------------------------------- what is asked for, and where


def check_use(use: str, collection: Collection, system: str) -> Handout:
    """Return the handout that a part "profile:USE" works on."""
    part = f"{system!r}: profile:{use}"
    if not isinstance(collection, Handout):
        raise InputError(
            f"{part} is for the scenarios of PerspectiveArg, whose queries name a property of the author, and "
            f"{collection.name!r} is none; berdslib.data.scenario.open_scenario makes one of a release"
        )
    if collection.rule == BASELINE:
        works = f"{EXPLICIT} and {IMPLICIT}" if use == TEMPLATE else EXPLICIT
        raise InputError(f"{part} needs the property that a query names, and in the baseline scenario none does; "
                         f"it works in: {works}")  # fmt: skip
    if use != TEMPLATE and collection.profiles is None:
        raise InputError(f"{part} reads authors' profiles, which the {collection.rule} scenario hides")
    if use == FUSION:
        known_answers(collection.training, f"{part} learns its weights")
    return collection


def asked_for(handout: Handout, question: Question) -> Profile:
    """Return the properties that a query, or the one it was made of, names."""
    asked = handout.asked.get(question.owner or question.qid)
    if not asked:
        raise InputError(f"no property is known that question {question.qid!r} asks for", field="qid")
    return asked


# ---------------------------------------------------------------- who the authors are


class Authors:
    """Who wrote the passages of a corpus: for each (property, value) a column of p, float64 (corpus,).

    A p is 1 or 0, or NaN where a profile does not say.
    """

    def __init__(self, handout: Handout) -> None:
        assert handout.profiles is not None  # a system that needs them is refused where they are hidden
        self.handout = handout
        self._docnos = pd.Index([passage.docno for passage in handout.passages])
        self._profiles = [handout.profiles[passage.docno] for passage in handout.passages]
        stated = {(name, value) for profile in self._profiles for name, values in profile.items() for value in values}
        self.groups = tuple(sorted(stated))
        self.p = cache(self._p)

    def _p(self, name: str, value: str) -> np.ndarray:
        return np.array([float(value in profile[name]) if name in profile else np.nan for profile in self._profiles])

    def rows(self, docnos: pd.Series) -> np.ndarray:
        """Return where passages stand in the corpus, int (n,)."""
        found = self._docnos.get_indexer(pd.Index(docnos))
        if (found < 0).any():
            stray = docnos.iloc[int((found < 0).argmax())]
            raise InputError(f"{stray!r} is not among the passages of the scenario", field="docno")
        return found

    def evidence(self, asked: Profile) -> np.ndarray:
        """Return whether each author has all that is asked for, and whether that is not known, float64 (corpus, 2)."""
        p = np.array([self.p(name, value) for name, values in asked.items() for value in values])
        return np.column_stack([(p == 1).all(axis=0), np.isnan(p).any(axis=0)]).astype(np.float64)

    def membership(self) -> np.ndarray:
        """Return whether each author is known to belong to each group, 1 or 0, float64 (corpus, groups)."""
        return np.nan_to_num(np.column_stack([self.p(*group) for group in self.groups]))


# ---------------------------------------------------------------- filter and fusion


class Weights(NamedTuple):
    """What a fusion adds up: ``text`` times the place on a `scale` (a key of ``SCALES``), and each evidence weighed."""

    scale: str
    text: float
    evidence: tuple[float, ...]


@dataclass
class ByAuthors(Ours):
    """A retriever that orders its candidates by what is known of their authors: a filter, or with weights a fusion.

    A fusion adds up scores, standardised within each list, and evidence on the authors. A filter lists the group asked
    for first; where it `deepens`, it looks deeper until the list is full of the group or the corpus is listed.
    """

    retriever: Retriever
    authors: Authors
    weights: Weights | None
    depth: int
    deepens: bool
    name: str

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        check_search(questions, k)
        found, waiting, deep = [], list(questions), max(k, self.depth)
        while waiting:
            not_full: list[Question] = []
            size = max(1, _ROWS_AT_ONCE // deep)
            for start in range(0, len(waiting), size):
                some = waiting[start : start + size]
                run = checked_search(self.retriever, some, deep)
                evidence = _evidence(run, some, self.authors)
                if self.deepens and deep < len(self.authors.handout.passages):
                    of = run.assign(ahead=evidence[:, 0] > 0).groupby("qid")["ahead"].agg(["size", "sum"])
                    more = of.index[(of["size"] == deep) & (of["sum"] < k)]
                    not_full += [q for q in some if q.qid in more]
                    kept = ~run["qid"].isin(more).to_numpy()
                    run, evidence = run[kept], evidence[kept]
                fused = make_run(run["qid"].tolist(), run["docno"].tolist(), self._scores(run, evidence).tolist())
                found.append(fused[fused["rank"] <= k])
            waiting, deep = not_full, deep * DEEPER
        return joined(found)

    def _scores(self, run: pd.DataFrame, evidence: np.ndarray) -> np.ndarray:
        if self.weights:
            features = np.column_stack([SCALES[self.weights.scale](run), evidence])
            return features @ np.array([self.weights.text, *self.weights.evidence])
        lists = run.groupby("qid")["score"]
        # Twice the spread: once would put the best of the others beside the last of the group.
        lower = 2 * (lists.transform("max") - lists.transform("min"))
        return (run["score"] - np.where(evidence[:, 0] > 0, 0, lower)).to_numpy()


# ---------------------------------------------------------------- template


@dataclass
class Templated(Ours):
    """A retriever that is asked for the property in words, before the text."""

    retriever: Retriever
    handout: Handout
    name: str

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        check_search(questions, k)
        asking = [q._replace(text=_before(asked_for(self.handout, q), q.text)) for q in questions]
        return checked_search(self.retriever, asking, k)


def templated(handout: Handout) -> Sequence[Passage]:
    """Return the passages with their authors' profiles in words before the text, or as they are if these are hidden."""
    profiles = handout.profiles
    if profiles is None:
        return handout.passages
    return [p._replace(text=_before(profiles[p.docno], p.text)) for p in handout.passages]


def _before(profile: Profile, text: str) -> str:
    """Put a profile in front of a text.

    >>> _before({"age": ("18-34",)}, "Is sugar bad?")
    'age: 18-34. Is sugar bad?'
    """
    in_order = {name: profile[name] for name in PROPERTIES if name in profile}
    return f"{in_words(in_order)}. {text}" if in_order else text


# ---------------------------------------------------------------- the weights of a fusion


def known_answers(training: Handout | None, what: str) -> tuple[Handout, pd.DataFrame]:
    """Return a training split and the answers to its queries."""
    if training is None or training.gold is None:
        lacks = "there is none" if training is None else "its answers are kept back"
        how = "open_scenario(release, rule, split, training=RELEASE) takes that of another release"
        raise InputError(f"{what} from the answers of the training split, and {lacks}; {how}", field="training")
    return training, training.gold[training.gold["supports"]]


def lessons_of(training: Handout | None) -> Handout:
    """Return the training split with at most ``MOST_QUERIES`` of its answered queries."""
    training, gold = known_answers(training, "a fusion learns its weights")
    answers = set(gold["qid"])
    answered = [q for q in training.questions if q.qid in answers and q.qid in training.asked]
    if len(answered) > MOST_QUERIES:
        chosen = np.sort(np.random.default_rng(0).choice(len(answered), MOST_QUERIES, replace=False))
        answered = [answered[i] for i in chosen]
    if not answered:
        raise InputError("no query of the training split names a property and has answers", field="training")
    return replace(training, questions=answered)


def learn_weights(retriever: Retriever, authors: Authors, *, depth: int) -> Weights:
    """Learn the weights of a fusion by logistic regression on `depth` candidates of each query of :func:`lessons_of`.

    The text counts by its standardised score, or by its rank, whichever explains the training answers better.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    lessons, gold = known_answers(authors.handout, "a fusion learns its weights")
    run = checked_search(retriever, lessons.questions, depth)
    y = pd.MultiIndex.from_frame(run[["qid", "docno"]]).isin(pd.MultiIndex.from_frame(gold[["qid", "docno"]]))
    if y.all() or not y.any():
        few = "nothing" if not y.any() else "everything"
        raise InputError(f"{few} that is found for the training queries is an answer; no weights can be learnt of that",
                         field="training")  # fmt: skip
    evidence, fitted = _evidence(run, lessons.questions, authors), {}
    for scale, of in SCALES.items():
        x = np.column_stack([of(run), evidence])
        model = LogisticRegression(tol=1e-8, max_iter=1000).fit(x, y)
        fitted[scale] = (float(log_loss(y, model.predict_proba(x)[:, 1])), model.coef_[0].tolist())
    scale = min(fitted, key=lambda name: fitted[name][0])
    weights = Weights(scale, fitted[scale][1][0], tuple(fitted[scale][1][1:]))
    logger.info("weights learnt from %d candidates of %d training queries: %s", len(y), len(lessons.questions), weights)
    return weights


def _by_rank(run: pd.DataFrame) -> np.ndarray:
    """Return the negated logarithm of the rank; passages of nearly equal scores share one, whichever comes first."""
    near = pd.Series(normalised(run, "zscore").round(3))
    return -np.log(near.groupby(run["qid"].to_numpy()).rank(ascending=False).to_numpy() + 1)


# Scores of a fused list are ranks: standardised over a thousand, they hardly tell the first from the hundredth.
SCALES: Mapping[str, Callable[[pd.DataFrame], np.ndarray]] = {
    "score": partial(normalised, how="zscore"),
    "rank": _by_rank,
}


# ---------------------------------------------------------------- groups as aspects


def group_aspects(authors: Authors) -> AspectsOf:
    """Return what makes the aspects of a run for a diversifier: frame qid, pid (place in ``authors.groups``), docno, p.

    Every author group of a property that the query does not ask for is an aspect, and all weigh the same.
    """

    def aspects(run: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
        asked = {q.qid: asked_for(authors.handout, q) for q in questions}
        run = run[run["qid"].isin(asked)].reset_index(drop=True)
        p = authors.membership()[authors.rows(run["docno"])]
        listed = p > 0
        for qid, here in _lists(run):
            counts = np.array([name not in asked[qid] for name, _ in authors.groups])
            listed[here] &= counts
            listed[here.start] = counts  # also where nobody listed belongs to it: then it is an aspect not covered
        rows, pids = np.nonzero(listed)
        columns = (run["qid"].to_numpy()[rows], pids, run["docno"].to_numpy()[rows], p[rows, pids])
        return pd.DataFrame(dict(zip(ASPECT_COLUMNS, columns, strict=True)))

    return aspects


# ---------------------------------------------------------------- small parts


def _lists(run: pd.DataFrame) -> Iterator[tuple[str, slice]]:
    """Yield the rows of each question of a clean run."""
    for start, long in zip(*starts_of(run), strict=True):
        yield str(run["qid"].iloc[start]), slice(int(start), int(start + long))


def _evidence(run: pd.DataFrame, questions: Sequence[Question], authors: Authors) -> np.ndarray:
    """Return the evidence on the author of each row of a run, float64 (rows, 2)."""
    asked = {q.qid: asked_for(authors.handout, q) for q in questions}
    rows = authors.rows(run["docno"])
    of_lists = [authors.evidence(asked[qid])[rows[here]] for qid, here in _lists(run)]
    return np.concatenate(of_lists) if of_lists else np.empty((0, 2))
