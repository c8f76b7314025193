"""Who may have written a passage, guessed from its text: what the implicit scenario leaves a system to find out.

Profiles are hidden there, but for the training split it is known which passages answer which query, and so, of some
passages, that their authors have a property. That is all that is learnt from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from berdslib.data.arguments import property_name
from berdslib.data.corpus import by_docno
from berdslib.data.records import Passage
from berdslib.data.scenario import Handout
from berdslib.errors import InputError
from berdslib.models.base import Encoder
from berdslib.models.corpus_vectors import full_text

logger = logging.getLogger(__name__)

FOLDS = 5


class _Lesson(NamedTuple):
    """What is known of one value: ``rows`` int (n,) of the vectors, their ``issues`` int (n,), and who ``has`` it."""

    rows: np.ndarray
    issues: np.ndarray
    has: np.ndarray


class _Fitted(NamedTuple):
    """A model of one value: ``model`` over all folds, and ``fold`` int (rows,), which one left a vector out; or -1."""

    model: Any
    fold: np.ndarray


class AuthorClassifier:
    """The probability that the author of a passage states a value of a property, given the text.

    Answers to a training query that asks for a value, on an issue, have authors who state it; all other answers to the
    queries on that issue have authors who do not. Issues on which no query asks for it tell nothing: a release need not
    ask for every value on each. A model for each value by itself, so that a list of values, such as political issues,
    needs no other treatment: logistic regression on the vectors of an encoder, calibrated by a sigmoid (Platt) on
    issues that it did not learn from, because it will be used on others.

    A passage that it learnt from is judged by the model of the fold that left its issue out: for it, too, p is a guess.

    A value that cannot be learnt, because it is not asked for on two issues at least, has its prior: (answers by
    authors with it + 1) / (answers on issues where it is asked for + 2), which is 1/2 where nothing is known.

    Models are fitted when they are first asked for; :meth:`learn` makes one.

    Args:
        answers: frame docno, issue, property, value: the authors of which passages have what; a row whose property is
            "" says no more than that the passage is on the issue.
        passages: those that answers are about, and any others.
        encoder: makes the vectors.
        text_of: what is encoded of a passage, such as ``card.passage_text``.
    """

    def __init__(
        self,
        answers: pd.DataFrame,
        passages: Sequence[Passage],
        encoder: Encoder,
        *,
        text_of: Callable[[Passage], str] = full_text,
    ) -> None:
        corpus, docnos = by_docno(passages), sorted(answers["docno"].unique())
        self._encoder, self._text_of = encoder, text_of
        texts = [text_of(corpus[docno]) for docno in docnos]
        self._docnos, self._vectors, self._answers = pd.Index(docnos), encoder.encode_passages(texts), answers
        # By text, since the passages to judge may be of another release.
        self._row_of = {text: row for row, text in reversed(list(enumerate(texts)))}
        self._lessons: dict[tuple[str, str], _Lesson] = {}
        self._fitted: dict[tuple[str, str], _Fitted | None] = {}
        self._read: tuple[tuple[Passage, ...], np.ndarray, np.ndarray] | None = None

    @classmethod
    def learn(
        cls, training: Handout | None, encoder: Encoder, *, text_of: Callable[[Passage], str] = full_text
    ) -> AuthorClassifier:
        """Make one from the training split as a handout holds it (``handout.training``); no profile is read.

        Args:
            training: its queries, what they ask for, and its gold; of answers to a query that names several values, no
                more is taken than that they are on its issue.
            encoder: see :func:`berdslib.models.encoders.get_encoder`.
            text_of: what is encoded of a passage.

        Raises:
            InputError: there is no training split, or its answers are not known.
        """
        lessons, gold = known_answers(training, "a classifier of authors learns")
        answers = _answers(lessons, gold)
        if not answers["property"].any():
            raise InputError("no query of the training split names one value and has answers", field="training")
        return cls(answers, lessons.passages, encoder, text_of=text_of)

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """Property → the values that the training split knows."""
        asked = self._answers[self._answers["property"] != ""]
        return {str(name): tuple(sorted(values.unique())) for name, values in asked.groupby("property")["value"]}

    def prior(self, name: str, value: str) -> float:
        """Return what p is where the text says nothing: the smoothed share of authors with a value."""
        has = self._lesson(property_name(name), value).has
        return (int(has.sum()) + 1) / (len(has) + 2)

    def p(self, name: str, value: str, passages: Sequence[Passage]) -> np.ndarray:
        """Return the probability that each author has a value, float64 (n,).

        Args:
            name: of the property.
            value: of the property.
            passages: any; of a tuple, such as a handout's, the vectors are kept until another is asked about.

        Raises:
            InputError: there is no such property.
        """
        fitted = self._fitted_for(property_name(name), value)
        if fitted is None:
            return np.full(len(passages), self.prior(name, value))
        vectors, rows = self._vectors_of(passages)
        p = np.asarray(fitted.model.predict_proba(vectors)[:, 1], dtype=np.float64)
        fold = np.where(rows >= 0, fitted.fold[rows], -1)
        for k, without_it in enumerate(fitted.model.calibrated_classifiers_):
            if (here := fold == k).any():
                p[here] = without_it.predict_proba(vectors[here])[:, 1]
        return p

    def _vectors_of(self, passages: Sequence[Passage]) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors (n, d) and the row, int (n,), of each passage among those learnt from, or -1."""
        if self._read is not None and self._read[0] is passages:
            return self._read[1], self._read[2]
        texts = [self._text_of(p) for p in passages]
        rows = np.array([self._row_of.get(text, -1) for text in texts], dtype=np.int64)
        vectors = self._encoder.encode_passages(texts)
        if isinstance(passages, tuple):  # a list may hold other passages the next time
            self._read = passages, vectors, rows
        return vectors, rows

    def _fitted_for(self, name: str, value: str) -> _Fitted | None:
        if (name, value) not in self._fitted:
            self._fitted[name, value] = self._fit(name, value)
        return self._fitted[name, value]

    def _fit(self, name: str, value: str) -> _Fitted | None:
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.linear_model import LogisticRegression

        lesson = self._lesson(name, value)
        splits = _splits(lesson.has, lesson.issues)
        if not splits:
            logger.warning("a value of %r cannot be learnt from the training split: its p is a prior", name)
            return None
        model = CalibratedClassifierCV(LogisticRegression(max_iter=1000), method="sigmoid", cv=splits, ensemble=True)
        fold = np.full(len(self._vectors), -1)
        for k, (_, left_out) in enumerate(splits):
            fold[lesson.rows[left_out]] = k
        with threadpool_limits(1, "blas"):  # the products are small: threads would wait for each other, and no more
            return _Fitted(model.fit(self._vectors[lesson.rows], lesson.has), fold)

    def _lesson(self, name: str, value: str) -> _Lesson:
        if (name, value) not in self._lessons:
            answers = self._answers
            asking = (answers["property"] == name) & (answers["value"] == value)
            # A passage on two issues counts for the first.
            on_issue = answers[answers["issue"].isin(answers["issue"][asking])].drop_duplicates("docno")
            has = on_issue["docno"].isin(answers["docno"][asking]).to_numpy()
            rows = self._docnos.get_indexer(pd.Index(on_issue["docno"]))
            self._lessons[name, value] = _Lesson(rows, pd.factorize(on_issue["issue"])[0], has)
        return self._lessons[name, value]


def known_answers(training: Handout | None, what: str) -> tuple[Handout, pd.DataFrame]:
    """Return a training split and the answers to its queries.

    Raises:
        InputError: it is not there, or its answers are not; the message begins with `what`, which learns from it.
    """
    if training is None or training.gold is None:
        lacks = "there is none" if training is None else "its answers are kept back"
        how = "open_scenario(release, rule, split, training=RELEASE) takes that of another release"
        raise InputError(f"{what} from the answers of the training split, and {lacks}; {how}", field="training")
    return training, training.gold[training.gold["supports"]]


def _answers(training: Handout, gold: pd.DataFrame) -> pd.DataFrame:
    """Return docno, issue, property, value of every answer; the last two are "" if its query names several values."""
    queries = []
    for q in training.questions:
        values = [(name, v) for name, several in training.asked.get(q.qid, {}).items() for v in several]
        queries.append((q.qid, q.text, *(values[0] if len(values) == 1 else ("", ""))))
    frame = pd.DataFrame(queries, columns=["qid", "issue", "property", "value"])
    return gold[["qid", "docno"]].merge(frame, on="qid").drop(columns="qid")


def _splits(has: np.ndarray, issues: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return folds of whole issues; with and without each there are authors who have it and who do not. Or none."""
    from sklearn.model_selection import StratifiedGroupKFold

    most = min(FOLDS, len(np.unique(issues[has])), len(np.unique(issues[~has])))
    for n in range(most, 1, -1):
        splits = list(StratifiedGroupKFold(n).split(has, has, issues))
        if all(0 < has[part].sum() < len(part) for split in splits for part in split):
            return splits
    return []
