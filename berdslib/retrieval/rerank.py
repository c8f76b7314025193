"""Two-stage retrieval: a fast retriever finds candidates; a model that reads question and passage together re-ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data.corpus import by_docno
from berdslib.data.records import Passage, Question, check_k, make_run
from berdslib.errors import InputError
from berdslib.models.loading import NO_CODE, load_model, load_weights, read_tokenizer
from berdslib.models.pair_classifier import PairClassifier, load_classifier
from berdslib.retrieval.base import Retriever

# Asai et al. (2023); BeRDS lets it sort the first hundred of Contriever (section 6).
TART_FULL = "facebook/tart-full-flan-t5-xl"
TART_INSTRUCTION = "Retrieve passages that argue about this question"

# From (question, passage) texts to float64 (n,), higher is more relevant.
Scorer = Callable[[Sequence[tuple[str, str]]], np.ndarray]


class CrossEncoderRetriever:
    """Re-ranks `depth` candidates of another retriever by a joint score of question and passage; ties go by docno."""

    def __init__(
        self,
        first: Retriever,
        passages: Sequence[Passage],
        scorer: Scorer,
        depth: int = 100,
        *,
        name: str = "cross-encoder",
    ) -> None:
        check_k(depth, "depth")
        self.name, self.depth = name, depth
        self._first, self._scorer = first, scorer
        # A corpus on disk stays there.
        self._passages = by_docno(passages)

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        if k > self.depth:
            problem = f"k = {k} is more than the {self.depth} candidates that are scored; raise depth"
            raise InputError(problem, field="k")
        candidates = self._first.search(questions, self.depth)
        asked, pairs = {q.qid: q.text for q in questions}, []
        for qid, docno in zip(candidates["qid"], candidates["docno"], strict=True):
            passage = self._passages.get(docno)
            if passage is None:
                raise InputError(f"the first retriever found {docno!r}, which is not among the passages")
            pairs.append((asked[qid], passage.full_text))
        # Scored once, equal texts get equal scores; in batches of unlike padding they could part in the last digit.
        distinct = list(dict.fromkeys(pairs))
        score_of = dict(zip(distinct, self._scorer(distinct), strict=True))
        run = make_run(candidates["qid"].tolist(), candidates["docno"].tolist(), [float(score_of[p]) for p in pairs])
        return run[run["rank"] <= k].reset_index(drop=True)


class PairScorer(PairClassifier):
    """Scores pairs with a classifier of one output (its logit) or two (log-odds of the second, "relevant")."""

    def __init__(self, model: Any, tokenizer: Any, **options: Any) -> None:
        outputs = model.config.num_labels
        if outputs not in (1, 2):
            raise InputError(f"a scorer needs one output, or two with the second for 'relevant'; this has {outputs}")
        super().__init__(model, tokenizer, **options)

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return float64 (n,), higher is more relevant."""
        return self.scores(pairs)


class EncT5Scorer(PairScorer):
    """Scores pairs with the encoder half of T5 and two classes on its first vector, as TART-full does.

    A pair is written <s> question </s> passage </s>; T5 itself has neither the first mark nor the middle one.
    """

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[dict[str, list[int]]]:
        """Return the model's input for each pair, not padded; only passages are cut, and no text may hold a mark."""
        start, end = self.tokenizer.convert_tokens_to_ids(["<s>", "</s>"])
        if start in (None, self.tokenizer.unk_token_id):
            raise InputError("the tokenizer has no token <s>, which this kind of model reads its answer from")
        marks = set(self.tokenizer.all_special_ids) - {self.tokenizer.unk_token_id}
        texts = [text for pair in pairs for text in pair]
        cut = self.tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"] if texts else []
        ids = [[i for i in of_text if i not in marks] for of_text in cut]  # T5 finds marks by their spelling, too
        room, inputs = self.max_length - 3, []
        for question, passage in zip(ids[::2], ids[1::2], strict=True):
            if len(question) >= room:
                raise InputError(f"a question of {len(question)} tokens leaves no room for a passage in {room}")
            inputs.append({"input_ids": [start, *question, end, *passage[: room - len(question)], end]})
        return inputs


def load_scorer(checkpoint: str, **options: Any) -> PairScorer:
    """Load the scorer of a sequence-pair classifier, or of an encoder-only T5 such as TART-full, by id or folder."""
    from transformers import AutoConfig, T5Tokenizer

    config = load_model(
        checkpoint, lambda local: AutoConfig.from_pretrained(checkpoint, local_files_only=local, **NO_CODE)
    )
    if "EncT5ForSequenceClassification" in (config.architectures or []):
        # TART's files name a tokenizer class of its authors' own; the vocabulary is T5's.
        tokenizer = load_model(checkpoint, lambda local: read_tokenizer(T5Tokenizer, checkpoint, local))
        return EncT5Scorer(load_weights(_enc_t5(), checkpoint), tokenizer, **options)
    model, tokenizer = load_classifier(checkpoint)
    return PairScorer(model, tokenizer, **options)


def _enc_t5() -> Any:
    """Return the class of an encoder-only T5 with a linear classifier; made here because torch is imported late."""
    import torch
    from transformers import T5Config, T5EncoderModel
    from transformers.modeling_outputs import SequenceClassifierOutput

    class EncT5(T5EncoderModel):
        def __init__(self, config: T5Config) -> None:
            super().__init__(config)
            self.classifier = torch.nn.Linear(config.d_model, 2)
            self.post_init()

        def forward(self, **inputs: Any) -> Any:
            first = super().forward(**inputs).last_hidden_state[:, 0]
            return SequenceClassifierOutput(logits=self.classifier(first))

    return EncT5
