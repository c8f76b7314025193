"""Many fusions of the same searches: by hand, and against plain loops with exact fractions."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berdslib.data.collection import Collection
from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.retrieval.expansion import Expanded
from berdslib.study.figures.curves import fusion_curves
from berdslib.study.tuning import Fusion, fusion_runs, fusion_sweep

ASKED = Question("q", "Should zoos close?", ("Yes.", "No."))
FOUND = {"": ["a", "b", "c"], "one": ["b", "d"], "two": ["e", "b", "a"]}  # by statement; "" is the question's own list
MADE = {"q": [("first", "one"), ("second", "two")]}


class Lists:
    """Finds what a table says for each statement behind the question, and remembers what it was asked."""

    name = "lists"

    def __init__(self, found):
        self.found, self.calls = found, []

    def search(self, questions, k):
        self.calls.append(([q.text for q in questions], k))
        texts = {q.qid: q.text.removeprefix(ASKED.text).strip() for q in questions}
        return ranked_run({qid: self.found[text][:k] for qid, text in texts.items()})


def order(run):
    return run["docno"].tolist()


def test_each_list_is_searched_once_and_fused_in_every_way():
    lists = Lists(FOUND)
    runs = fusion_runs(lists, [ASKED], MADE, numbers=(0, 1, 2), constants=(0, 60), depth=9)
    assert lists.calls == [([ASKED.text, f"{ASKED.text} one", f"{ASKED.text} two"], 9)]
    assert len(runs) == (1 + 2 + 2) * 3  # the question alone, then without and with it
    assert order(runs[Fusion(0, True, None)]) == order(runs[Fusion(0, True, 0)]) == FOUND[""]
    assert order(runs[Fusion(1, False, 60)]) == ["b", "d"]
    assert order(runs[Fusion(1, True, None)]) == ["a", "b", "d", "c"]
    # Without the question: b 1 + 1/2, e 1, d 1/2, a 1/3. With it: b 2, a 4/3, e 1, d 1/2, c 1/3.
    assert order(runs[Fusion(2, False, 0)]) == ["b", "e", "d", "a"]
    assert order(runs[Fusion(2, True, 0)]) == ["b", "a", "e", "d", "c"]
    assert order(runs[Fusion(2, True, None)]) == ["a", "b", "e", "d", "c"]
    # With 60: b 1/62 + 1/61 + 1/62, a 1/61 + 1/63, e 1/61, d 1/62, c 1/63.
    assert order(runs[Fusion(2, True, 60)]) == ["b", "a", "e", "d", "c"]


def test_a_sweep_scores_every_fusion_and_says_how_far_it_is_from_the_usual_constant(tmp_path):
    # "a" argues yes, "e" no: round robin of all three has both in its first three, so has every sum of reciprocals;
    # of one expansion and the question, nothing shows "no".
    gold = make_verdicts([("q", 0, "a", 1.0, True), ("q", 1, "e", 1.0, True)], "gold")
    data = Collection("zoo", [ASKED], [Passage(d, d) for d in "abcde"], gold=gold, expansions=MADE)
    table = fusion_sweep(Lists(FOUND), data, ["MRecall@3", "Precision@3"], numbers=(0, 1, 2), constants=(0,),
                         store=tmp_path / "v.sqlite")  # fmt: skip
    assert set(table["fusion"]) == {"round robin", "rrf:0", "rrf:60"} and set(table["n"]) == {1}
    means = table.set_index(["measure", "number", "original", "fusion"])["mean"]
    assert means["MRecall@3", 2, True, "round robin"] == means["MRecall@3", 2, True, "rrf:60"] == 1
    assert means["MRecall@3", 1, True, "rrf:60"] == 0
    assert means["Precision@3", 2, True, "rrf:0"] == pytest.approx(2 / 3)
    assert means["Precision@3", 2, False, "rrf:0"] == pytest.approx(1 / 3)  # b, e, d
    assert means["Precision@3", 2, False, "round robin"] == pytest.approx(1 / 3)  # b, e, d
    assert means["Precision@3", 1, True, "round robin"] == pytest.approx(1 / 3)  # a, b, c
    assert means["Precision@3", 1, False, "round robin"] == 0
    differences = table.set_index(["measure", "number", "original", "fusion"])["difference"]
    usual = table["fusion"].eq("rrf:60")
    assert (differences[usual.to_numpy()] == 0).all() and table["difference_low"].isna().equals(usual)
    assert differences["Precision@3", 1, False, "round robin"] == 0  # b, d: the same list
    assert differences["MRecall@3", 2, True, "round robin"] == 0
    figure = fusion_curves(table, "Precision@3")
    drawn = {line.get_label(): list(line.get_ydata()) for line in figure.axes[1].lines}
    assert drawn["rrf:0"] == pytest.approx([100 / 3, 200 / 3]) and len(drawn) == 4  # and the question alone


def rrf_plain(lists, constant):
    docnos = {d for one in lists for d in one}
    score = {d: sum(Fraction(1, constant + one.index(d) + 1) for one in lists if d in one) for d in docnos}
    return sorted(docnos, key=lambda d: (-score[d], d))


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8), min_size=2, max_size=5))
def test_any_lists_against_exact_fractions_and_the_system_that_does_the_same(found):
    made = {"q": [(f"name {i}", f"s{i}") for i in range(1, len(found))]}
    lists = Lists({"" if i == 0 else f"s{i}": one for i, one in enumerate(found)})
    numbers = (0, 2, 5)  # the last is more than there are: then all are used
    for fusion, run in fusion_runs(lists, [ASKED], made, numbers=numbers, constants=(0, 7)).items():
        chosen = found[0 if fusion.original else 1 : 1 + fusion.number]
        if fusion.constant is not None:
            assert order(run) == rrf_plain(chosen, fusion.constant)
        elif fusion.number:
            system = Expanded(lists, made, number=fusion.number, original=fusion.original)
            assert order(run) == order(system.search([ASKED], 8 * len(found)))


def test_what_cannot_be_swept_is_refused_before_a_search():
    lists = Lists(FOUND)
    with pytest.raises(InputError, match="1 questions have no expansions, the first is 'p'"):
        fusion_runs(lists, [ASKED, ASKED._replace(qid="p")], MADE)
    for numbers in ((), (1, -1)):
        with pytest.raises(InputError, match="numbers of expansions from 0"):
            fusion_runs(lists, [ASKED], MADE, numbers=numbers)
    with pytest.raises(InputError, match="depth"):
        fusion_runs(lists, [ASKED], MADE, depth=0)
    assert lists.calls == []
    with pytest.raises(InputError, match="at least 0"):
        fusion_runs(lists, [ASKED], MADE, constants=(-1,))
