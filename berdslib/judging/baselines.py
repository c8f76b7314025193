"""Judges without a language model: recorded verdicts, simple baselines, and committees."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data.records import check_verdicts
from berdslib.errors import InputError, known
from berdslib.judging.base import PUBLISHED_POSITIVE_SHARE, Judge, Pair, document_text, threshold_at_half
from berdslib.models.cards import Encoder
from berdslib.models.encoders import get_encoder
from berdslib.retrieval.bm25 import analyser

# Each threshold has the best F1 on the top 10 of bm25 and minilm for the 8 development questions of the sample
# (318 pairs; tests/judging/test_baselines.py recomputes both). No other data was used.
OVERLAP_THRESHOLD = 0.12
SIMILARITY_THRESHOLDS = {"minilm": 0.41, "mpnet": 0.44}


class Gold:
    """Looks verdicts up in a table by question, perspective and docno; a pair that is not in the table is a no."""

    threshold = 0.5

    def __init__(self, verdicts: pd.DataFrame) -> None:
        self.verdicts = verdicts = check_verdicts(verdicts)
        keys = zip(verdicts["qid"], verdicts["pid"], verdicts["docno"], strict=True)
        self._table = dict(zip(keys, verdicts["supports"].astype(float), strict=True))
        lines = "\n".join(f"{key} {value}" for key, value in sorted(self._table.items()))
        self.id = f"gold({hashlib.sha256(lines.encode()).hexdigest()[:12]})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return 1.0 where the table says yes, else 0.0."""
        keys = [(pair.qid, pair.pid, pair.passage.docno) for pair in pairs]
        return np.array([self._table.get(key, 0.0) for key in keys], dtype=np.float64)


class Random:
    """Says yes to a random share of the pairs (BeRDS Table 4); a pair's texts and the seed fix the answer."""

    threshold = 0.5

    def __init__(self, seed: int = 0, share: float = PUBLISHED_POSITIVE_SHARE) -> None:
        self.seed = seed
        self.share = share
        self.id = f"random(share={share},seed={seed})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return 1.0 or 0.0 for each pair."""
        return np.array([float(self._draw(pair) < self.share) for pair in pairs], dtype=np.float64)

    def _draw(self, pair: Pair) -> float:
        text = f"{self.seed}\0{pair.passage.full_text}\0{pair.perspective}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


class Overlap:
    """Share of the perspective's words (stemmed, without stop words) that the passage contains; ignores negation."""

    def __init__(self, threshold: float = OVERLAP_THRESHOLD, title_position: str = "before") -> None:
        self.threshold = threshold
        self.title_position = title_position
        self.id = f"overlap(english-stem,title={title_position},threshold={threshold})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the share for each pair; a perspective made of stop words only gets 0."""
        words = analyser("english-stem")
        shares = []
        for pair in pairs:
            in_perspective = set(words(pair.perspective))
            in_passage = set(words(document_text(pair.passage, self.title_position)))
            shared = in_perspective & in_passage
            shares.append(len(shared) / len(in_perspective) if in_perspective else 0.0)
        return np.array(shares, dtype=np.float64)


class Similarity:
    """Cosine of the passage's and the perspective's vectors, at least 0: sensitive to topic, hardly to stance."""

    def __init__(
        self, encoder: Encoder, threshold: float = SIMILARITY_THRESHOLDS["minilm"], title_position: str = "before"
    ) -> None:
        self.encoder = encoder
        self.threshold = threshold
        self.title_position = title_position

    @property
    def id(self) -> str:
        """Names everything that the answers depend on."""
        return f"similarity(cosine,{self.encoder.id},title={self.title_position},threshold={self.threshold})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the cosine of each pair, from 0 to 1."""
        if not pairs:
            return np.empty(0, dtype=np.float64)
        documents = self._vectors([document_text(pair.passage, self.title_position) for pair in pairs])
        perspectives = self._vectors([pair.perspective for pair in pairs])
        return np.clip(np.einsum("nd,nd->n", documents, perspectives), 0.0, 1.0)

    def _vectors(self, texts: list[str]) -> np.ndarray:
        """Return a vector of length 1 for each text; equal texts are encoded once."""
        place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        vectors = _unit(self.encoder.encode_passages(list(place)))
        return vectors[[place[text] for text in texts]]


def load_similarity(name: str, **options: Any) -> Similarity:
    """Return the judge on an encoder by name, with the threshold that was chosen for it; see :class:`Similarity`."""
    known("encoder with a threshold for the judge 'similarity'", name, SIMILARITY_THRESHOLDS)
    return Similarity(get_encoder(name), SIMILARITY_THRESHOLDS[name], **options)


class Committee:
    """The mean of several judges' probabilities, each mapped so that the judge's threshold becomes one half.

    The mapping keeps every member's yes and no; it does not calibrate the probabilities.
    """

    threshold = 0.5

    def __init__(self, judges: Sequence[Judge]) -> None:
        ids = [judge.id for judge in judges]
        if len(ids) < 2 or len(set(ids)) < len(ids):
            raise InputError(f"a committee needs two or more different judges, not {ids}")
        if any(isinstance(judge, Gold) for judge in judges):
            raise InputError("recorded verdicts cannot be a member of a committee: they are found by id, not by text")
        self.judges = list(judges)

    @property
    def id(self) -> str:
        """Names the members and their current thresholds, in any order."""
        members = sorted(f"{judge.id}@{judge.threshold}" for judge in self.judges)
        digest = hashlib.sha256("\n".join(members).encode()).hexdigest()[:12]
        return f"committee({len(members)} judges:{digest})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the members' mean, float64 (n,)."""
        return self.mean([judge.p_yes(pairs) for judge in self.judges])

    def mean(self, p_yes: Sequence[np.ndarray]) -> np.ndarray:
        """Return the mean of the members' probabilities, each (n,), with their thresholds at one half: float64 (n,)."""
        answers = zip(self.judges, p_yes, strict=True)
        shifted = [threshold_at_half(of_judge, judge.threshold) for judge, of_judge in answers]
        return np.asarray(np.mean(shifted, axis=0))


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors (n, d) to length 1, in float64; a zero vector stays zero."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)
