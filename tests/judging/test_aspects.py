"""Aspects: a judge's view of generated perspectives, for diversifiers."""

import numpy as np

from berdslib.data.records import Passage, Question, ranked_run
from berdslib.judging.aspects import judged_aspects


class Yes:
    id, threshold = "yes", 0.5

    def p_yes(self, pairs):
        return np.ones(len(pairs))


def test_every_passage_is_judged_wherever_ranks_start():
    """PyTerrier's start at 0; what is asked for again is only looked up."""
    corpus = [Passage(docno, f"text {docno}") for docno in "abc"]
    aspects = judged_aspects({"q": [("one", "One."), ("two", "Two.")]}, corpus, Yes())
    run = ranked_run({"q": list("abc")})
    found = aspects(run.assign(rank=run["rank"] - 1), [Question("q", "Is it?")])
    assert set(zip(found["docno"], found["pid"], strict=True)) == {(d, pid) for d in "abc" for pid in (0, 1)}
