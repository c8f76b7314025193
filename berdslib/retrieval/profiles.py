"""Systems that look at who wrote a passage: what the parts "+profile:…" of a system string do, and groups as aspects.

They know what a :class:`~berdslib.data.scenario.Handout` holds and nothing else: profiles in the explicit scenario, in
the implicit one a guess by :class:`~berdslib.retrieval.author_groups.AuthorClassifier`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from berdslib.data.arguments import PROPERTIES, Profile, in_words
from berdslib.data.collection import Collection
from berdslib.data.records import Passage, Question, check_run, make_run
from berdslib.data.scenario import BASELINE, EXPLICIT, IMPLICIT, Handout
from berdslib.errors import InputError
from berdslib.models.cards import model_card
from berdslib.models.encoders import get_encoder
from berdslib.retrieval.author_groups import AuthorClassifier, known_answers
from berdslib.retrieval.base import Retriever, check_search, checked_search
from berdslib.retrieval.candidates import ASPECT_COLUMNS, normalised

logger = logging.getLogger(__name__)

FILTER, TEMPLATE, FUSION = "filter", "template", "fusion"
USES = (FILTER, TEMPLATE, FUSION)

DEEPER = 10  # times as many candidates: an author group may be a fiftieth of the corpus
MOST_QUERIES = 300  # of the training split that the weights of a fusion are learnt on
_ROWS_AT_ONCE = 500_000  # of a run
_SURE = 1e-6  # a probability is no nearer to 0 or 1


# ---------------------------------------------------------------- what is asked for, and where


def check_use(use: str, collection: Collection, system: str) -> Handout:
    """Return the handout that a part "profile:USE" works on.

    Raises:
        InputError: the collection is none, or its rule does not allow what the part does; the message says what is.
    """
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
    """Return the properties that a query, or the one it was made of, names.

    Raises:
        InputError: it names none, or is not of this scenario.
    """
    asked = handout.asked.get(question.owner or question.qid)
    if not asked:
        raise InputError(f"no property is known that question {question.qid!r} asks for", field="qid")
    return asked


# ---------------------------------------------------------------- who the authors are


class Authors(Protocol):
    """What a system knows, or guesses, of the authors of a corpus."""

    @property
    def evidence_names(self) -> tuple[str, ...]:
        """What the columns of evidence are."""
        ...

    @property
    def groups(self) -> tuple[tuple[str, str], ...]:
        """All (property, value) that can be told apart."""
        ...

    def rows(self, docnos: pd.Series) -> np.ndarray:
        """Return where passages stand in the corpus, int (n,)."""
        ...

    def evidence(self, asked: Profile) -> np.ndarray:
        """Return what speaks for each author's having all that is asked for, float64 (corpus, columns)."""
        ...

    def membership(self) -> np.ndarray:
        """Return the probability that each author belongs to each group, float64 (corpus, groups)."""
        ...


class _Corpus:
    """Where each passage of a corpus stands."""

    def __init__(self, docnos: Sequence[str]) -> None:
        self._docnos = pd.Index(list(docnos))

    def rows(self, docnos: pd.Series) -> np.ndarray:
        """Return where passages stand in the corpus, int (n,)."""
        found = self._docnos.get_indexer(pd.Index(docnos))
        if (found < 0).any():
            stray = docnos.iloc[int((found < 0).argmax())]
            raise InputError(f"{stray!r} is not among the passages of the scenario", field="docno")
        return found


class KnownAuthors(_Corpus):
    """Authors whose profiles are there: one column says who has what is asked for, one of whom that is not known.

    Args:
        passages: the corpus.
        profiles: docno → profile.
    """

    evidence_names = ("has it", "not known")

    def __init__(self, passages: Sequence[Passage], profiles: Mapping[str, Profile]) -> None:
        super().__init__([p.docno for p in passages])
        of_each = [profiles[p.docno] for p in passages]
        self.groups = tuple(sorted({(name, v) for one in of_each for name, values in one.items() for v in values}))
        column = {group: i for i, group in enumerate(self.groups)}
        self._has = np.zeros((len(of_each), len(self.groups)))
        self._states = {name: np.array([name in one for one in of_each]) for name in PROPERTIES}
        for row, one in enumerate(of_each):
            for name, values in one.items():
                for value in values:
                    self._has[row, column[name, value]] = 1
        self._column = column

    def evidence(self, asked: Profile) -> np.ndarray:
        """Return who has all of it, and of whom that is not known; 1 or 0."""
        nobody = np.zeros(len(self._has))
        wanted = [self._column.get((name, value)) for name, values in asked.items() for value in values]
        has = np.all([nobody if column is None else self._has[:, column] for column in wanted], axis=0)
        states = np.all([self._states[name] for name in asked], axis=0)
        return np.column_stack([has, ~states]).astype(np.float64)

    def membership(self) -> np.ndarray:
        """Return 1 for members."""
        return self._has


class GuessedAuthors(_Corpus):
    """Authors as a classifier guesses them: the evidence is the log-odds minus those of the prior.

    Args:
        passages: the corpus.
        classifier: guesses.
    """

    evidence_names = ("log-odds",)

    def __init__(self, passages: Sequence[Passage], classifier: AuthorClassifier) -> None:
        super().__init__([p.docno for p in passages])
        self._passages, self._classifier = passages, classifier
        self.groups = tuple((name, value) for name, values in classifier.values.items() for value in values)
        self._guesses: dict[tuple[str, str], np.ndarray] = {}

    def evidence(self, asked: Profile) -> np.ndarray:
        """Return the sum of the log-odds of all that is asked for."""
        # As if one property said nothing of another.
        return np.sum([self._of(name, v) for name, values in asked.items() for v in values], axis=0)[:, None]

    def _of(self, name: str, value: str) -> np.ndarray:
        return _log_odds(self._p(name, value)) - _log_odds(np.array(self._classifier.prior(name, value)))

    def _p(self, name: str, value: str) -> np.ndarray:
        if (name, value) not in self._guesses:
            self._guesses[name, value] = self._classifier.p(name, value, self._passages)
        return self._guesses[name, value]

    def membership(self) -> np.ndarray:
        """Return the classifier's p."""
        return self._membership

    @cached_property
    def _membership(self) -> np.ndarray:
        return np.column_stack([self._p(name, value) for name, value in self.groups])


class AuthorsOf:
    """The authors of the passages of a handout, as its rule has them: known, or guessed; made when first asked for.

    Args:
        handout: whose queries name properties.
        classifiers: by encoder; those that are not there are learnt from the training split, and added.
    """

    def __init__(self, handout: Handout, classifiers: dict[str, AuthorClassifier]) -> None:
        self.handout, self._classifiers = handout, classifiers
        self._made: dict[str, Authors] = {}

    def check(self, system: str) -> None:
        """Raise InputError if the authors cannot be guessed, for a system that must."""
        if self.handout.profiles is None:
            known_answers(self.handout.training, f"{system!r} covers groups of authors, and guesses them")

    def by(self, encoder: str) -> Authors:
        """Return them; the encoder, a key of ``CARDS`` or "hf:…", plays no part where they are known."""
        passages, profiles = self.handout.passages, self.handout.profiles
        name = encoder if profiles is None else ""
        if name not in self._made:
            self._made[name] = self._guessed(name) if profiles is None else KnownAuthors(passages, profiles)
        return self._made[name]

    def _guessed(self, encoder: str) -> GuessedAuthors:
        if encoder not in self._classifiers:
            text_of = model_card(encoder).passage_text
            learnt = AuthorClassifier.learn(self.handout.training, get_encoder(encoder), text_of=text_of)
            self._classifiers[encoder] = learnt
        return GuessedAuthors(self.handout.passages, self._classifiers[encoder])


def _log_odds(p: np.ndarray) -> np.ndarray:
    clipped = np.clip(p, _SURE, 1 - _SURE)
    return np.log(clipped) - np.log1p(-clipped)


# ---------------------------------------------------------------- filter


class Filtered:
    """A retriever that lists authors who have what the query asks for first, in their order, all others behind them.

    A small group fills no list of a hundred candidates: where the retriever can search as deep as it is asked to, it
    is asked for ten times as many until the list is full of the group, or the whole corpus is listed. Then the list
    begins as a search of the group alone would. Scores of the others are lowered to stand below.

    Args:
        retriever: finds the candidates.
        handout: says what queries ask for.
        authors: known ones.
        depth: how many candidates to begin with.
        deepens: whether to ask for more.
        name: what it is called in tables.
    """

    def __init__(
        self, retriever: Retriever, handout: Handout, authors: Authors, *, depth: int, deepens: bool, name: str
    ) -> None:
        self.name = name
        self._retriever, self._handout, self._authors = retriever, handout, authors
        self._depth, self._deepens = depth, deepens

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        check_search(questions, k)
        asked = {q.qid: asked_for(self._handout, q) for q in questions}
        found, waiting, deep = [], list(questions), max(k, self._depth)
        while waiting:
            not_full: list[Question] = []
            for some, run in _in_batches(self._retriever, waiting, deep):
                ahead = self._ahead(run, asked)
                if self._deepens and deep < len(self._handout.passages):
                    more = _more_may_follow(run, ahead, k, deep)
                    not_full += [q for q in some if q.qid in more]
                    kept = ~run["qid"].isin(more).to_numpy()
                    run, ahead = run[kept], ahead[kept]
                found.append(_moved_ahead(run, ahead, k))
            waiting, deep = not_full, deep * DEEPER
        return check_run(pd.concat(found, ignore_index=True))

    def _ahead(self, run: pd.DataFrame, asked: Mapping[str, Profile]) -> np.ndarray:
        rows, ahead = self._authors.rows(run["docno"]), np.zeros(len(run), dtype=bool)
        for qid, here in _lists(run):
            ahead[here] = self._authors.evidence(asked[qid])[rows[here], 0] > 0
        return ahead


def _more_may_follow(run: pd.DataFrame, ahead: np.ndarray, k: int, deep: int) -> set[str]:
    """Return the questions that have fewer than k of the group, in lists as deep as they were asked for."""
    of = run.assign(ahead=ahead).groupby("qid")["ahead"].agg(["size", "sum"])
    return set(of.index[(of["size"] == deep) & (of["sum"] < k)])


def _moved_ahead(run: pd.DataFrame, ahead: np.ndarray, k: int) -> pd.DataFrame:
    lists = run.groupby("qid")["score"]
    # Twice the spread: once would put the best of the others beside the last of the group.
    lower = 2 * (lists.transform("max") - lists.transform("min")).to_numpy()
    scores = np.where(ahead, run["score"], run["score"] - lower)
    moved = make_run(run["qid"].tolist(), run["docno"].tolist(), scores.tolist())
    return moved[moved["rank"] <= k]


# ---------------------------------------------------------------- template


class Templated:
    """A retriever that is asked for the property in words, before the text.

    Args:
        retriever: searches; in the explicit scenario it is over :func:`templated` passages.
        handout: says what queries ask for.
        name: what it is called in tables.
    """

    def __init__(self, retriever: Retriever, handout: Handout, *, name: str) -> None:
        self.name, self._retriever, self._handout = name, retriever, handout

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        check_search(questions, k)
        asking = [q._replace(text=_before(asked_for(self._handout, q), q.text)) for q in questions]
        return checked_search(self._retriever, asking, k)


def templated(handout: Handout) -> Sequence[Passage]:
    """Return the passages with their authors' profiles in words before the text, or as they are where these are hidden.

    Properties come in the order of :data:`~berdslib.data.arguments.PROPERTIES`.
    """
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


# ---------------------------------------------------------------- fusion


class Weights(NamedTuple):
    """What a fusion adds up: ``text`` times the place on a `scale` (a key of ``SCALES``), and each evidence weighed."""

    scale: str
    text: float
    evidence: tuple[float, ...]


class Fused:
    """A retriever that orders its candidates by a weighted sum of their scores and of evidence on their authors.

    Args:
        retriever: finds the candidates; scores are standardised within each list.
        handout: says what queries ask for.
        authors: known or guessed.
        weights: see :func:`learn_weights`.
        depth: how many candidates to choose from.
        name: what it is called in tables.
    """

    def __init__(
        self, retriever: Retriever, handout: Handout, authors: Authors, weights: Weights, *, depth: int, name: str
    ) -> None:
        self.name, self.weights = name, weights
        self._retriever, self._handout, self._authors, self._depth = retriever, handout, authors, depth

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        check_search(questions, k)
        weights, found = np.array([self.weights.text, *self.weights.evidence]), []
        for some, run in _in_batches(self._retriever, questions, max(k, self._depth)):
            scores = _features(run, some, self._handout, self._authors, self.weights.scale) @ weights
            fused = make_run(run["qid"].tolist(), run["docno"].tolist(), scores.tolist())
            found.append(fused[fused["rank"] <= k])
        return check_run(pd.concat(found, ignore_index=True))


def lessons_of(training: Handout | None, seed: int = 0) -> Handout:
    """Return the training split with those of its queries that weights are learnt on.

    These have answers, and are drawn if there are more than ``MOST_QUERIES``. The split stands for itself as its own
    training split, so that a chain that learns from one is the same there.

    Raises:
        InputError: no such split, or no such query.
    """
    training, gold = known_answers(training, "a fusion learns its weights")
    answers = set(gold["qid"])
    answered = [q for q in training.questions if q.qid in answers and q.qid in training.asked]
    if len(answered) > MOST_QUERIES:
        chosen = np.sort(np.random.default_rng(seed).choice(len(answered), MOST_QUERIES, replace=False))
        answered = [answered[i] for i in chosen]
    if not answered:
        raise InputError("no query of the training split names a property and has answers", field="training")
    return replace(training, questions=answered, training=training)


def learn_weights(retriever: Retriever, lessons: Handout, authors: Authors, *, depth: int) -> Weights:
    """Learn the weights of a fusion: logistic regression on what a chain finds for training queries.

    The text counts by its standardised score, or by its rank, whichever explains the training answers better.

    Args:
        retriever: the chain, over the passages of the training split.
        lessons: training queries and their answers, see :func:`lessons_of`.
        authors: of these passages.
        depth: how many candidates of each query.

    Raises:
        InputError: nothing that was found is an answer, or everything.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    _, gold = known_answers(lessons, "a fusion learns its weights")
    answers = pd.MultiIndex.from_frame(gold[["qid", "docno"]])
    features: dict[str, list[np.ndarray]] = {scale: [] for scale in SCALES}
    right = []
    for some, run in _in_batches(retriever, lessons.questions, depth):
        for scale, of_scale in features.items():
            of_scale.append(_features(run, some, lessons, authors, scale))
        right.append(pd.MultiIndex.from_frame(run[["qid", "docno"]]).isin(answers))
    y = np.concatenate(right)
    if y.all() or not y.any():
        few = "nothing" if not y.any() else "everything"
        raise InputError(f"{few} that is found for the training queries is an answer; no weights can be learnt of that",
                         field="training")  # fmt: skip
    fitted = {}
    for scale, of_scale in features.items():
        x = np.concatenate(of_scale)
        model = LogisticRegression(tol=1e-8, max_iter=1000).fit(x, y)
        fitted[scale] = (float(log_loss(y, model.predict_proba(x)[:, 1])), model.coef_[0].tolist())
    scale = min(fitted, key=lambda name: fitted[name][0])
    text, *evidence = fitted[scale][1]
    said = ", ".join(f"{name} {w:.3f}" for name, w in zip(authors.evidence_names, evidence, strict=True))
    logger.info("weights learnt from %d candidates of %d training queries: text (%s) %.3f, %s",
                len(y), len(lessons.questions), scale, text, said)  # fmt: skip
    return Weights(scale, text, tuple(evidence))


def _standardised(run: pd.DataFrame) -> np.ndarray:
    return normalised(run, "zscore")


def _by_rank(run: pd.DataFrame) -> np.ndarray:
    """Return the negated logarithm of the rank; passages of nearly equal scores share one, whichever comes first."""
    near = pd.Series(_standardised(run).round(3))
    return -np.log(near.groupby(run["qid"].to_numpy()).rank(ascending=False).to_numpy() + 1)


# Scores of a fused list are ranks: standardised over a thousand, they hardly tell the first from the hundredth.
SCALES: Mapping[str, Callable[[pd.DataFrame], np.ndarray]] = {"score": _standardised, "rank": _by_rank}


def _features(
    run: pd.DataFrame, questions: Sequence[Question], handout: Handout, authors: Authors, scale: str
) -> np.ndarray:
    """Return each row of a run on a scale, and the evidence on its author, float64 (n, 1 + columns)."""
    asked = {q.qid: asked_for(handout, q) for q in questions}
    rows = authors.rows(run["docno"])
    features = np.empty((len(run), 1 + len(authors.evidence_names)))
    features[:, 0] = SCALES[scale](run)
    for qid, here in _lists(run):
        features[here, 1:] = authors.evidence(asked[qid])[rows[here]]
    return features


# ---------------------------------------------------------------- groups as aspects


def group_aspects(handout: Handout, authors: Authors) -> Callable[[pd.DataFrame, Sequence[Question]], pd.DataFrame]:
    """Return what tells a diversifier which author groups passages belong to: those of properties not asked for.

    Every group is an aspect and weighs the same. Since the groups of a property share its authors among them, so do
    properties, but for political issues, of which an author may name several.

    Args:
        handout: says what queries ask for.
        authors: known, where p is 1 for members, or guessed.

    Returns:
        From a run and its questions to a frame qid, pid (place in ``authors.groups``), docno, p (0 to 1).
    """

    def aspects(run: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
        run = check_run(run)
        asked = {q.qid: asked_for(handout, q) for q in questions}
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


def _in_batches(
    retriever: Retriever, questions: Sequence[Question], deep: int
) -> Iterator[tuple[Sequence[Question], pd.DataFrame]]:
    """Search some questions at a time, as many as keep a run of so deep lists small."""
    size = max(1, _ROWS_AT_ONCE // deep)
    for start in range(0, len(questions), size):
        some = questions[start : start + size]
        yield some, checked_search(retriever, some, deep)


def _lists(run: pd.DataFrame) -> Iterator[tuple[str, slice]]:
    """Yield the rows of each question of a clean run."""
    starts = np.flatnonzero(run["rank"].to_numpy() == 1)
    for start, end in zip(starts, np.append(starts[1:], len(run)), strict=True):
        yield str(run["qid"].iloc[start]), slice(int(start), int(end))
