"""Search where every question has a corpus of its own, such as what a web search gave for it (BeRDS section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
from tqdm.auto import tqdm

from berdslib.data.records import Passage, Question, make_run, ranked_run
from berdslib.data.web import OwnCorpora
from berdslib.retrieval.base import Retriever, check_search, checked_search

# From a corpus to a retriever over it; a model that it needs has been loaded, once for however many corpora.
Maker = Callable[[Sequence[Passage]], Retriever]


class InOwnCorpora:
    """Searches each question in its own corpus; one whose corpus is empty finds nothing.

    What a retriever knows of its corpus, such as how rare a word is, it knows of this one only.

    Args:
        name: what the retriever is called in tables.
        make: builds it over one corpus; that is done anew in each search.
        corpora: by question.
    """

    def __init__(self, name: str, make: Maker, corpora: OwnCorpora) -> None:
        self.name, self._make, self._corpora = name, make, corpora

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question; queries made from one question share its corpus.

        Raises:
            InputError: k < 1, no questions, a repeated qid, or a question without a corpus.
        """
        check_search(questions, k)
        queries: dict[str, list[Question]] = {}
        for question in questions:
            queries.setdefault(self._corpora.owner(question), []).append(question)
        bar = tqdm(queries.items(), desc=f"{self.name}, a corpus a question", unit="corpus", delay=2, leave=False)
        corpora = ((self._corpora.of(asked[0]), asked) for _, asked in bar)
        runs = [checked_search(self._make(corpus), asked, k) for corpus, asked in corpora if corpus]
        run = pd.concat(runs) if runs else ranked_run({})
        return make_run(run["qid"].tolist(), run["docno"].tolist(), run["score"].tolist())
