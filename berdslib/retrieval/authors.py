"""Systems that look at who wrote a passage: what the parts "+profile:…" of a system string do, and groups as aspects.

They know what a :class:`~berdslib.data.scenario.Handout` holds: profiles, or texts for :class:`AuthorClassifier`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from berdslib.data.arguments import PROPERTIES, Profile, in_words, property_name
from berdslib.data.collection import Collection
from berdslib.data.corpus import by_docno
from berdslib.data.records import Passage, Question, make_run
from berdslib.data.scenario import BASELINE, EXPLICIT, IMPLICIT, Handout
from berdslib.errors import InputError
from berdslib.models.cards import Encoder
from berdslib.models.corpus_vectors import full_text
from berdslib.retrieval.base import Ours, Retriever, check_search, checked_search, joined
from berdslib.retrieval.diversify import ASPECT_COLUMNS, AspectsOf, normalised, starts_of

logger = logging.getLogger(__name__)

FILTER, TEMPLATE, FUSION = "filter", "template", "fusion"
USES = (FILTER, TEMPLATE, FUSION)

DEEPER = 10  # times as many candidates: an author group may be a fiftieth of the corpus
MOST_QUERIES = 300  # of the training split that the weights of a fusion are learnt on
FOLDS = 5  # of the issues that a classifier of authors learns from
_ROWS_AT_ONCE = 500_000  # of a run
_SURE = 1e-6  # a probability is no nearer to 0 or 1


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
        works = EXPLICIT if use == FILTER else f"{EXPLICIT} and {IMPLICIT}"
        raise InputError(f"{part} needs the property that a query names, and in the baseline scenario none does; "
                         f"it works in: {works}")  # fmt: skip
    if use == FILTER and collection.rule == IMPLICIT:
        raise InputError(f"{part} reads authors' profiles, which the implicit scenario hides; profile:fusion guesses "
                         "them from the text")  # fmt: skip
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

    Known p are 1, 0 or NaN (a profile does not say); guessed ones lie between, and have a `prior`.
    """

    def __init__(
        self,
        handout: Handout,
        groups: Sequence[tuple[str, str]],
        p: Callable[[str, str], np.ndarray],
        prior: Callable[[str, str], float] | None = None,
    ) -> None:
        self.handout, self._docnos = handout, pd.Index([passage.docno for passage in handout.passages])
        self.groups, self.p, self._prior = tuple(groups), cache(p), prior
        self.columns = 2 if prior is None else 1  # of evidence

    @classmethod
    def known(cls, handout: Handout) -> Authors:
        """Return those whose profiles are there."""
        profiles = handout.profiles or {}
        of_each = [profiles[p.docno] for p in handout.passages]

        def p(name: str, value: str) -> np.ndarray:
            return np.array([float(value in one[name]) if name in one else np.nan for one in of_each])

        return cls(handout, sorted({(name, v) for one in of_each for name, values in one.items() for v in values}), p)

    @classmethod
    def guessed(cls, handout: Handout, classifier: AuthorClassifier) -> Authors:
        """Return those that a classifier guesses."""
        groups = [(name, value) for name, values in classifier.values.items() for value in values]
        return cls(handout, groups, partial(classifier.p, passages=handout.passages), classifier.prior)

    def rows(self, docnos: pd.Series) -> np.ndarray:
        """Return where passages stand in the corpus, int (n,)."""
        found = self._docnos.get_indexer(pd.Index(docnos))
        if (found < 0).any():
            stray = docnos.iloc[int((found < 0).argmax())]
            raise InputError(f"{stray!r} is not among the passages of the scenario", field="docno")
        return found

    def evidence(self, asked: Profile) -> np.ndarray:
        """Return what speaks for each author's having all that is asked for, float64 (corpus, columns).

        Of known authors: who has it, and of whom it is not known; of guessed ones the log-odds above the prior's,
        summed.
        """
        groups = [(name, value) for name, values in asked.items() for value in values]
        p = np.array([self.p(*group) for group in groups])
        if self._prior is None:
            return np.column_stack([(p == 1).all(axis=0), np.isnan(p).any(axis=0)]).astype(np.float64)
        prior = np.array([self._prior(*group) for group in groups])
        return (_log_odds(p) - _log_odds(prior)[:, None]).sum(axis=0)[:, None]

    def membership(self) -> np.ndarray:
        """Return the probability that each author belongs to each group, float64 (corpus, groups)."""
        return np.nan_to_num(np.column_stack([self.p(*group) for group in self.groups]))


def _log_odds(p: np.ndarray) -> np.ndarray:
    clipped = np.clip(p, _SURE, 1 - _SURE)
    return np.log(clipped) - np.log1p(-clipped)


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


def lessons_of(training: Handout | None) -> Handout:
    """Return the training split, as its own training split, with at most ``MOST_QUERIES`` of its answered queries."""
    training, gold = known_answers(training, "a fusion learns its weights")
    answers = set(gold["qid"])
    answered = [q for q in training.questions if q.qid in answers and q.qid in training.asked]
    if len(answered) > MOST_QUERIES:
        chosen = np.sort(np.random.default_rng(0).choice(len(answered), MOST_QUERIES, replace=False))
        answered = [answered[i] for i in chosen]
    if not answered:
        raise InputError("no query of the training split names a property and has answers", field="training")
    return replace(training, questions=answered, training=training)


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
    """Return the evidence on the author of each row of a run, float64 (rows, columns)."""
    asked = {q.qid: asked_for(authors.handout, q) for q in questions}
    rows = authors.rows(run["docno"])
    of_lists = [authors.evidence(asked[qid])[rows[here]] for qid, here in _lists(run)]
    return np.concatenate(of_lists) if of_lists else np.empty((0, authors.columns))


# ---------------------------------------------------------------- guesses


class AuthorClassifier:
    """The probability that the author of a passage states a value of a property, given the text.

    For each value a logistic regression on an encoder's vectors, calibrated by a sigmoid (Platt) on issues that it did
    not learn from; a passage that was learnt from is judged by the model of the fold that left its issue out. A value
    that cannot be learnt has its prior: (answers by authors with it + 1) / (answers on issues where it is asked for +
    2).

    `answers` is a frame docno, issue, property, value; a row whose property is "" says only that the passage is on the
    issue.
    """

    def __init__(
        self,
        answers: pd.DataFrame,
        passages: Sequence[Passage],
        encoder: Encoder,
        text_of: Callable[[Passage], str],
    ) -> None:
        corpus, docnos = by_docno(passages), sorted(answers["docno"].unique())
        self._encoder, self._text_of = encoder, text_of
        texts = [text_of(corpus[docno]) for docno in docnos]
        self._docnos, self._vectors, self._answers = pd.Index(docnos), encoder.encode_passages(texts), answers
        # By text, since the passages to judge may be of another release.
        self._row_of = {text: row for row, text in reversed(list(enumerate(texts)))}
        self._lesson, self._fitted = cache(self._find_lesson), cache(self._fit)
        self._vectors_of = lru_cache(maxsize=1)(self._encoded)

    @classmethod
    def learn(
        cls, training: Handout | None, encoder: Encoder, text_of: Callable[[Passage], str] = full_text
    ) -> AuthorClassifier:
        """Make one from ``handout.training``; of answers to a query of several values, only the issue is learnt."""
        lessons, gold = known_answers(training, "a classifier of authors learns")
        queries = []
        for q in lessons.questions:
            values = [(name, v) for name, several in lessons.asked.get(q.qid, {}).items() for v in several]
            queries.append((q.qid, q.text, *(values[0] if len(values) == 1 else ("", ""))))
        named = pd.DataFrame(queries, columns=["qid", "issue", "property", "value"])
        answers = gold[["qid", "docno"]].merge(named, on="qid").drop(columns="qid")
        if not answers["property"].any():
            raise InputError("no query of the training split names one value and has answers", field="training")
        return cls(answers, lessons.passages, encoder, text_of)

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """Property → the values that the training split knows."""
        asked = self._answers[self._answers["property"] != ""]
        return {str(name): tuple(sorted(values.unique())) for name, values in asked.groupby("property")["value"]}

    def prior(self, name: str, value: str) -> float:
        """Return what p is where the text says nothing: the smoothed share of authors with a value."""
        _, _, has = self._lesson(property_name(name), value)
        return (int(has.sum()) + 1) / (len(has) + 2)

    def p(self, name: str, value: str, passages: Sequence[Passage]) -> np.ndarray:
        """Return the probability that each author has a value, float64 (n,)."""
        model, fold_of = self._fitted(property_name(name), value)
        if model is None:
            return np.full(len(passages), self.prior(name, value))
        vectors, rows = self._vectors_of(tuple(passages))
        p = np.asarray(model.predict_proba(vectors)[:, 1], dtype=np.float64)
        fold = np.where(rows >= 0, fold_of[rows], -1)
        for k, without_it in enumerate(model.calibrated_classifiers_):
            if (here := fold == k).any():
                p[here] = without_it.predict_proba(vectors[here])[:, 1]
        return p

    def _encoded(self, passages: tuple[Passage, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors (n, d) and the row, int (n,), of each passage among those learnt from, or -1."""
        texts = [self._text_of(p) for p in passages]
        rows = np.array([self._row_of.get(text, -1) for text in texts], dtype=np.int64)
        return self._encoder.encode_passages(texts), rows

    def _fit(self, name: str, value: str) -> tuple[Any, np.ndarray]:
        """Return a model of one value, over all folds, and which of these left a vector out, int (rows,); or -1."""
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.linear_model import LogisticRegression

        rows, issues, has = self._lesson(name, value)
        fold = np.full(len(self._vectors), -1)
        splits = _splits(has, issues)
        if not splits:
            logger.warning("a value of %r cannot be learnt from the training split: its p is a prior", name)
            return None, fold
        for k, (_, left_out) in enumerate(splits):
            fold[rows[left_out]] = k
        model = CalibratedClassifierCV(LogisticRegression(max_iter=1000), method="sigmoid", cv=splits, ensemble=True)
        with threadpool_limits(1, "blas"):  # the products are small: threads would wait for each other, and no more
            return model.fit(self._vectors[rows], has), fold

    def _find_lesson(self, name: str, value: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what is known of one value: rows of the vectors, their issues, and who has it, each (n,)."""
        answers = self._answers
        asking = (answers["property"] == name) & (answers["value"] == value)
        # A passage on two issues counts for the first.
        on_issue = answers[answers["issue"].isin(answers["issue"][asking])].drop_duplicates("docno")
        has = on_issue["docno"].isin(answers["docno"][asking]).to_numpy()
        return self._docnos.get_indexer(pd.Index(on_issue["docno"])), pd.factorize(on_issue["issue"])[0], has


def known_answers(training: Handout | None, what: str) -> tuple[Handout, pd.DataFrame]:
    """Return a training split and the answers to its queries."""
    if training is None or training.gold is None:
        lacks = "there is none" if training is None else "its answers are kept back"
        how = "open_scenario(release, rule, split, training=RELEASE) takes that of another release"
        raise InputError(f"{what} from the answers of the training split, and {lacks}; {how}", field="training")
    return training, training.gold[training.gold["supports"]]


def _splits(has: np.ndarray, issues: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return folds of whole issues; with and without each there are authors who have it and who do not. Or none."""
    from sklearn.model_selection import StratifiedGroupKFold

    most = min(FOLDS, len(np.unique(issues[has])), len(np.unique(issues[~has])))
    for n in range(most, 1, -1):
        splits = list(StratifiedGroupKFold(n).split(has, has, issues))
        if all(0 < has[part].sum() < len(part) for split in splits for part in split):
            return splits
    return []
