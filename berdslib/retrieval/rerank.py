"""Two-stage retrieval: a fast retriever finds candidates, and a cross-encoder re-ranks them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data.corpus import by_docno
from berdslib.data.records import AnyQuery, Passage, check_k, make_run
from berdslib.errors import InputError
from berdslib.models.loading import NO_CODE, load_model, load_weights, read_tokenizer
from berdslib.models.pair_classifier import PairClassifier, load_classifier
from berdslib.retrieval.base import Retriever

# Asai et al. (2023). BeRDS re-ranks the first 100 passages of Contriever with it (section 6).
TART_FULL = "facebook/tart-full-flan-t5-xl"
TART_INSTRUCTION = "Retrieve passages that argue about this question"

# Maps (question, passage) texts to scores, float64 (n,); higher is more relevant.
Scorer = Callable[[Sequence[tuple[str, str]]], np.ndarray]


class CrossEncoderRetriever:
    """Re-ranks `depth` candidates of another retriever by scores of (question, passage); docnos break ties."""

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
        self.name = name
        self.depth = depth
        self._first = first
        self._scorer = scorer
        # Passages of a corpus on disk are read when they are needed.
        self._passages = by_docno(passages)

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        if k > self.depth:
            problem = f"k = {k} exceeds the {self.depth} candidates that are scored; raise depth"
            raise InputError(problem, field="k")
        candidates = self._first.search(questions, self.depth)
        texts = {question.qid: question.text for question in questions}
        pairs = []
        for qid, docno in zip(candidates["qid"], candidates["docno"], strict=True):
            passage = self._passages.get(docno)
            if passage is None:
                raise InputError(f"the first retriever found {docno!r}, which is not in the corpus")
            pairs.append((texts[qid], passage.full_text))
        # Equal texts are scored once: padding changes the last digit of a score, and equal texts must tie.
        distinct = list(dict.fromkeys(pairs))
        score_of = dict(zip(distinct, self._scorer(distinct), strict=True))
        scores = [float(score_of[pair]) for pair in pairs]
        run = make_run(candidates["qid"].tolist(), candidates["docno"].tolist(), scores)
        return run[run["rank"] <= k].reset_index(drop=True)


class PairScorer(PairClassifier):
    """Scores pairs with a classifier: the logit of its one output, or the log-odds of the second of two, "relevant"."""

    def __init__(self, model: Any, tokenizer: Any, **options: Any) -> None:
        outputs = model.config.num_labels
        if outputs not in (1, 2):
            raise InputError(f"a scorer needs one output, or two with 'relevant' second; this model has {outputs}")
        super().__init__(model, tokenizer, **options)

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return float64 (n,), higher is more relevant."""
        return self.scores(pairs)


class EncT5Scorer(PairScorer):
    """Scores pairs with the encoder half of T5 and two classes on its first vector, as TART-full does.

    A pair is encoded as <s> question </s> passage </s>; plain T5 has no <s>, and no </s> between the texts.
    """

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[dict[str, list[int]]]:
        """Return the unpadded input for each pair; only passages are truncated, and marks in a text are dropped."""
        start, end = self.tokenizer.convert_tokens_to_ids(["<s>", "</s>"])
        if start in (None, self.tokenizer.unk_token_id):
            raise InputError("the tokenizer has no token <s>, whose vector this kind of model classifies")
        marks = set(self.tokenizer.all_special_ids) - {self.tokenizer.unk_token_id}
        texts = [text for pair in pairs for text in pair]
        tokenized = []
        if texts:
            tokenized = self.tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        # T5's tokenizer also turns the spelling of a mark into the mark.
        ids = [[token for token in tokens if token not in marks] for tokens in tokenized]
        room = self.max_length - 3
        inputs = []
        for question, passage in zip(ids[::2], ids[1::2], strict=True):
            if len(question) >= room:
                raise InputError(f"a question of {len(question)} tokens leaves no room for a passage in {room}")
            inputs.append({"input_ids": [start, *question, end, *passage[: room - len(question)], end]})
        return inputs


def load_scorer(checkpoint: str, **options: Any) -> PairScorer:
    """Load a scorer by id or folder: a sequence-pair classifier, or an encoder-only T5 such as TART-full."""
    from transformers import AutoConfig, T5Tokenizer

    config = load_model(
        checkpoint, lambda local: AutoConfig.from_pretrained(checkpoint, local_files_only=local, **NO_CODE)
    )
    if "EncT5ForSequenceClassification" in (config.architectures or []):
        # TART's files name a tokenizer class that is not in the library; its vocabulary is T5's.
        tokenizer = load_model(checkpoint, lambda local: read_tokenizer(T5Tokenizer, checkpoint, local))
        return EncT5Scorer(load_weights(_enc_t5(), checkpoint), tokenizer, **options)
    model, tokenizer = load_classifier(checkpoint)
    return PairScorer(model, tokenizer, **options)


def _enc_t5() -> Any:
    """Return the class of an encoder-only T5 with a linear classifier; defined here so that torch is imported late."""
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
