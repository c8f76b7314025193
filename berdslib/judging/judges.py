"""Judges: how likely is it that a passage supports a perspective?

A judge turns (passage, perspective) pairs into probabilities, and its id names everything that its answers depend on.
The four here need no language model; they are the honest baselines that better judges have to beat.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from berdslib.data.records import Passage, Question, check_k, check_run, check_verdicts
from berdslib.errors import InputError, known
from berdslib.retrieval.bm25 import analyser
from berdslib.retrieval.encoders import Encoder, get_encoder

# Each threshold is the one with the best F1 over what bm25 and minilm list in their top 10 for the 8 development
# questions of the sample (318 pairs; tests/test_judges.py computes both anew). Nothing else was looked at.
OVERLAP_THRESHOLD = 0.12
SIMILARITY_THRESHOLD = 0.41
# Share of positive labels that the paper reports for its human-labelled pairs (BeRDS v2, Table 4).
PUBLISHED_POSITIVE_SHARE = 0.168


class Pair(NamedTuple):
    """One thing to judge: does `passage` support `perspective`, number `pid` of question `qid`?"""

    qid: str
    pid: int
    passage: Passage
    perspective: str


class Judge(Protocol):
    """Says how likely each passage supports its perspective; at `threshold` and above the answer is yes."""

    id: str
    threshold: float

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), each from 0 to 1."""
        ...


def document_text(passage: Passage, title_position: str) -> str:
    """Return what a judge reads: the text with its title "before", "after" or "none" (DIVERGENCES B6).

    Raises:
        InputError: another position.

    >>> document_text(Passage("d", "Text.", "Title"), "after")
    'Text. Title'
    """
    known("title position", title_position, ("before", "after", "none"))
    if not passage.title or title_position == "none":
        return passage.text
    parts = (passage.title, passage.text) if title_position == "before" else (passage.text, passage.title)
    return " ".join(parts)


class Gold:
    """Answers from a verdict table, by question, perspective and docno; what is not in the table is a no.

    Args:
        verdicts: verdict frame, see :func:`berdslib.data.records.check_verdicts`.

    Raises:
        InputError: a frame that holds no verdicts.
    """

    threshold = 0.5

    def __init__(self, verdicts: pd.DataFrame) -> None:
        self.verdicts = verdicts = check_verdicts(verdicts)
        columns = zip(verdicts["qid"], verdicts["pid"], verdicts["docno"], strict=True)
        self._table = dict(zip(columns, verdicts["supports"].astype(float), strict=True))
        lines = "\n".join(f"{key} {value}" for key, value in sorted(self._table.items()))
        self.id = f"gold({_digest(lines)})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return 1.0 where the table says yes, else 0.0."""
        return np.array([self._table.get((p.qid, p.pid, p.passage.docno), 0.0) for p in pairs], dtype=np.float64)


class Random:
    """Says yes at random, as often as the label distribution does: the floor of BeRDS Table 4.

    The draw depends on the pair's texts and the seed only, so that order and repetition change nothing.

    Args:
        positive_share: share of yes.
        seed: another seed, another draw.
    """

    threshold = 0.5

    def __init__(self, positive_share: float = PUBLISHED_POSITIVE_SHARE, seed: int = 0) -> None:
        if not 0 <= positive_share <= 1:
            raise InputError(f"the positive share must be from 0 to 1, not {positive_share}")
        self.positive_share, self.seed = positive_share, seed
        self.id = f"random(share={positive_share},seed={seed})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return 1.0 or 0.0 for each pair."""
        return np.array([float(self._draw(p) < self.positive_share) for p in pairs], dtype=np.float64)

    def _draw(self, pair: Pair) -> float:
        text = f"{self.seed}\0{pair.passage.full_text}\0{pair.perspective}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


class Overlap:
    """Share of the perspective's words (stemmed, no stop words) that the passage contains. Blind to negation.

    Args:
        threshold: yes at this share and above.
        title_position: see :func:`document_text`.
    """

    def __init__(self, threshold: float = OVERLAP_THRESHOLD, title_position: str = "before") -> None:
        self.threshold, self.title_position = threshold, title_position
        self.id = f"overlap(english-stem,title={title_position},threshold={threshold})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the share for each pair; a perspective made of stop words only gets 0."""
        words = analyser("english-stem")
        shares = []
        for pair in pairs:
            wanted = set(words(pair.perspective))
            have = set(words(document_text(pair.passage, self.title_position)))
            shares.append(len(wanted & have) / len(wanted) if wanted else 0.0)
        return np.array(shares, dtype=np.float64)


class Similarity:
    """Cosine of the passage's and the perspective's vectors, cut off at 0. It finds the topic, hardly the side.

    Args:
        encoder: any encoder; the cosine with a vector of zeros is 0.
        threshold: yes at this cosine and above.
        title_position: see :func:`document_text`.
    """

    def __init__(
        self, encoder: Encoder, threshold: float = SIMILARITY_THRESHOLD, title_position: str = "before"
    ) -> None:
        self.encoder, self.threshold, self.title_position = encoder, threshold, title_position
        self.id = f"similarity(cosine,{encoder.id},title={title_position},threshold={threshold})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the cosine of each pair, from 0 to 1."""
        if not pairs:
            return np.empty(0, dtype=np.float64)
        texts, text_rows = np.unique(
            [document_text(p.passage, self.title_position) for p in pairs], return_inverse=True
        )
        claims, claim_rows = np.unique([p.perspective for p in pairs], return_inverse=True)
        documents = _unit(self.encoder.encode_passages(texts.tolist()))[text_rows]
        perspectives = _unit(self.encoder.encode_passages(claims.tolist()))[claim_rows]
        return np.clip(np.einsum("nd,nd->n", documents, perspectives), 0.0, 1.0)


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors (n, d) at length 1, in float64; one of zeros stays as it is."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)


# Built-in judges; "gold" needs a verdict table, see make_judge.
JUDGES = ("gold", "random", "overlap", "similarity", "laptop")

# Causal judges with their adapter and the wording they were trained on.
CAUSAL_PRESETS = {
    "mistral-berds": ("mistralai/Mistral-7B-Instruct-v0.2", "timchen0618/Mistral_BERDS_evaluator", "published"),
}


def make_judge(name: str, gold: pd.DataFrame | None = None, title_position: str | None = None) -> Judge:
    """Return a judge by name.

    Args:
        name: one of ``JUDGES`` or ``CAUSAL_PRESETS``, or "causal:MODEL" for any causal language model,
            zero-shot on our prompt, "vllm:MODEL" for the same on vLLM (MODEL may be one of ``CAUSAL_PRESETS``),
            "nli:MODEL" for any natural-language-inference classifier, "nli-t5" for the T5-11B of BeRDS Table 4 (22 GB
            of GPU memory), "nli-t5:MODEL" for another model that writes "1" for entailed, "cross:MODEL" for a
            fine-tuned cross-encoder, or "chat:MODEL" for a model behind an OpenAI-compatible endpoint
            (BERDS_CHAT_URL, OPENAI_API_KEY); "overlap+similarity" is the committee of the two.
        gold: the verdict table, needed for "gold".
        title_position: "before", "after" (as the official code) or "none"; None for the judge's own default, which is
            "after" for causal judges, whose prompts come from there, and "before" for the others (DIVERGENCES B6).

    Raises:
        InputError: an unknown name, "gold" without a table, or a title position for a judge that reads no text.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    if "+" in name and ":" not in name:
        from berdslib.judging.committee import Committee

        return Committee([make_judge(member.strip(), gold, title_position) for member in name.split("+")])
    options: dict[str, Any] = {} if title_position is None else {"title_position": title_position}
    if name.startswith("chat:"):
        from berdslib.judging.chat import Chat
        from berdslib.llm.chat import Endpoint

        return Chat(Endpoint(name.removeprefix("chat:")), **options)
    if name.startswith("nli:"):
        from berdslib.judging.encoder import load_nli

        return load_nli(name.removeprefix("nli:"), **options)
    if name.startswith("cross:"):
        from berdslib.judging.crossencoder import load_cross_encoder

        return load_cross_encoder(name.removeprefix("cross:"), **options)
    if name == "nli-t5" or name.startswith("nli-t5:"):
        from berdslib.judging.encoder import NLI_T5, load_nli_t5

        return load_nli_t5(name.removeprefix("nli-t5").removeprefix(":") or NLI_T5, **options)
    if name.startswith("vllm:"):
        from berdslib.judging.vllm import load_vllm

        checkpoint, adapter, wording = _causal_model(name.removeprefix("vllm:"))
        return load_vllm(checkpoint, adapter=adapter, wording=wording, **options)
    if name.startswith("causal:") or name in CAUSAL_PRESETS:
        from berdslib.judging.causal import load_causal

        checkpoint, adapter, wording = _causal_model(name.removeprefix("causal:"))
        return load_causal(checkpoint, adapter=adapter, wording=wording, **options)
    known("judge", name, [*JUDGES, "nli-t5", *CAUSAL_PRESETS])
    if name in ("overlap", "similarity"):
        where = title_position or "before"
        return Overlap(title_position=where) if name == "overlap" else Similarity(get_encoder(), title_position=where)
    if name == "laptop":
        from berdslib.judging.laptop import load_laptop

        return load_laptop(**options)
    if title_position is not None:
        raise InputError(f"the judge {name!r} reads no titles")
    if name == "random":
        return Random()
    if gold is None:
        raise InputError("the judge 'gold' needs verdicts; this data set has none. Name a judge such as 'similarity'")
    return Gold(gold)


def _causal_model(name: str) -> tuple[str, str, str]:
    """Return (checkpoint, adapter, wording); a model that is no preset is asked zero-shot on our prompt."""
    return CAUSAL_PRESETS.get(name, (name, "", "ours"))


def pairs_of(run: pd.DataFrame, questions: Sequence[Question], passages: Mapping[str, Passage], k: int) -> list[Pair]:
    """Return what there is to judge in the top k of a run: each passage with each perspective of its question.

    Args:
        run: frame qid, docno and score (or rank).
        questions: the asked questions; rows of others are left out.
        passages: docno → passage.
        k: how deep to judge, by the run's scores.

    Raises:
        InputError: a frame that is no run, k is no whole number from 1, or a docno in the run that is not among the
            passages.
    """
    check_k(k)
    run, by_qid = check_run(run), {q.qid: q for q in questions}
    top = run[(run["rank"] <= k) & run["qid"].isin(list(by_qid))]
    unknown = [d for d in top["docno"] if d not in passages]
    if unknown:
        raise InputError(f"the run lists passage {unknown[0]!r}, which the corpus does not hold")
    return [
        Pair(qid, pid, passages[docno], perspective)
        for qid, docno in zip(top["qid"], top["docno"], strict=True)
        for pid, perspective in enumerate(by_qid[qid].perspectives)
    ]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
