"""What judges refuse, in one table: names, arguments, tables, pairs, recipes; each says what is wrong."""

import numpy as np
import pytest
from tiny import pair

from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.errors import BerdsError
from berdslib.evaluation.judges import agreement
from berdslib.judging.base import document_text, pairs_of
from berdslib.judging.baselines import Committee, Gold, Overlap
from berdslib.judging.examples import detection_pairs, draw_questions
from berdslib.judging.registry import as_judge, make_judge, own_judge
from berdslib.judging.store import judge_pairs


class Saying:
    """A judge that answers with what it is given."""

    def __init__(self, answer, id="saying", threshold=0.5):
        self.answer, self.id, self.threshold = answer, id, threshold

    def p_yes(self, pairs):
        return self.answer


ASKED = [Question("q", "Is it?", ("It is.", "It is not."), (), "ponds")]
RUN, GOLD = ranked_run({"q": ["ghost"]}), make_verdicts([("q", 0, "d", 1.0, True), ("q", 1, "d", 0.0, False)], "gold")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_judge("nobody"), "unknown judge 'nobody'"),
        (lambda: make_judge("gold"), "needs verdicts"),
        (lambda: make_judge("random", title_position="after"), "does not read titles"),
        (lambda: make_judge("overlap", title_position="above").p_yes([pair()]), "title position"),
        (lambda: make_judge("similarity:dpr"), r"encoder with a threshold .*minilm"),
        (lambda: make_judge("gold+overlap", GOLD), "recorded verdicts cannot be a member"),
        (lambda: make_judge("chat:recorded:"), "is not a chat model"),
        (lambda: make_judge("chat:local:nowhere"), "'nowhere' is neither on this machine"),
        (lambda: Committee([Overlap()]), "two or more different judges"),
        (lambda: Committee([Overlap(), Overlap()]), "two or more different judges"),
        (lambda: Gold(GOLD.assign(pid=0)), "two verdicts"),
        (lambda: document_text(Passage("d", "Text.", "Title"), "above"), "title position"),
        (lambda: as_judge(7), r"\[judge\]: a judge is a name"),
        (lambda: as_judge(Saying(1, id=3)), r"\[judge\]: the judge Saying .*`id`"),
        (lambda: as_judge(Saying(1, threshold="high")), "and a `threshold`"),
        (lambda: as_judge(Saying(1, threshold=float("nan"))), r"\[threshold\]"),
        (lambda: as_judge(Saying(1, threshold=5)), r"\[threshold\]"),
        (lambda: as_judge(Saying(1, threshold=-0.1)), r"\[threshold\]"),
        (lambda: own_judge("x", "mine"), "not as str"),
        (lambda: as_judge(lambda pairs: ["perhaps"]).p_yes([pair()]), "must return 1 probabilities from 0 to 1, not"),
        (lambda: as_judge(lambda pairs: [10**400]).p_yes([pair()]), "must return 1 probabilities from 0 to 1, not"),
        (lambda: as_judge(lambda pairs: np.array([1j])).p_yes([pair()]), "must return 1 probabilities"),
        (lambda: as_judge(lambda pairs: np.array([0], "M8[s]")).p_yes([pair()]), "must return 1 probabilities"),
        (lambda: judge_pairs(Saying(np.array([np.nan])), [pair()]), "must return 1 probabilities"),
        (lambda: judge_pairs(Saying(np.array([1.5])), [pair()]), "must return 1 probabilities"),
        (lambda: judge_pairs(Saying(np.array([0.5, 0.5])), [pair()]), "must return 1 probabilities"),
        (lambda: judge_pairs(Overlap(), [pair("broken \ud83d")]), r"\[text\]: passage 'd'"),
        (lambda: pairs_of(RUN, ASKED, {}, 5), "'ghost', which is not in the corpus"),
        (lambda: draw_questions(ASKED, 2), r"'ponds' has 1 questions with 2 perspectives; 2 cannot be drawn"),
        (lambda: draw_questions([], 1), "no questions"),
        (lambda: detection_pairs(ASKED, [RUN[:0]], {}), "run"),
        (lambda: detection_pairs([Question("q", "Q?")], [RUN], {}), "no perspectives"),
        (lambda: agreement(np.array([]), np.array([])), "of one length, at least 1"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(BerdsError, match=message):
        call()
