"""A corpus for each question, as a web search gives: each question is searched for in its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import overload

from berdslib.data.records import Passage
from berdslib.errors import InputError


class OwnCorpora(Sequence[Passage]):
    """Corpora by question and, as a sequence, all their passages, each once.

    Whatever takes a corpus takes these. :func:`berdslib.retrieval.retrievers.make_retriever` searches each question in
    its own, one at a time. As a sequence, which a judge needs, all are held in memory: about a kilobyte a passage, and
    4.5 MB a question at the size of BeRDS Table 2.

    Args:
        corpora: qid → its passages; none at all where the web gave no text. A page that was found for two questions has
            the same docnos in both, and its text is that of the first.
    """

    def __init__(self, corpora: Mapping[str, Sequence[Passage]]) -> None:
        self._corpora = corpora

    def of(self, qid: str) -> Sequence[Passage]:
        """Return the passages of a question; see :meth:`owner`."""
        return self._corpora[self.owner(qid)]

    def owner(self, qid: str) -> str:
        """Return the question whose corpus a query is searched in: itself, or QID of a query made of it, "NUMBER:QID".

        Raises:
            InputError: it has none.
        """
        number, _, made_of = qid.partition(":")  # query expansion names its queries so
        for one in (qid, made_of if number.isdecimal() else qid):
            if one in self._corpora:
                return one
        there = ", ".join(map(repr, list(self._corpora)[:3]))
        raise InputError(f"question {qid!r} has no corpus of its own; these have: {there} …", field="qid")

    @cached_property
    def _all(self) -> list[Passage]:
        by_docno: dict[str, Passage] = {}
        for passages in self._corpora.values():
            for passage in passages:
                by_docno.setdefault(passage.docno, passage)
        return list(by_docno.values())

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, index: int) -> Passage: ...

    @overload
    def __getitem__(self, index: slice) -> list[Passage]: ...

    def __getitem__(self, index: int | slice) -> Passage | list[Passage]:
        return self._all[index]
