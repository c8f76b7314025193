"""What measures, tables of sides, judges and statistics refuse, and what the errors name."""

import numpy as np
import pandas as pd
import pytest
from small_scenarios import listing, small_scenario

from berdslib import stats
from berdslib.data.records import Question, make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.evaluation import arguments, compare, judge_error, judges, oracle, sides, system_order
from berdslib.evaluation.measures import official_cutoff, parse_measure, score_run

ASKED = [Question("q", "Is it?", ("It is.", "It is not."), labels=("for", "against"), stances=("support", "oppose"))]
YES = make_verdicts([("q", 0, "a", 1.0, True), ("q", 1, "b", 1.0, True)], "hand")
OTHER = make_verdicts([("x", 0, "a", 1.0, True)], "hand")
RUN = ranked_run({"q": ["a", "b"], "q#0": ["a"], "q#1": ["b"]})
OWN, ROOT, ELSEWHERE = RUN[RUN["qid"] != "q"], RUN[RUN["qid"] == "q"], ranked_run({"x": ["a"]})
TWICE = pd.DataFrame({"qid": "q", "docno": ["a", "a"], "score": [2.0, 1.0]})
SCORES = pd.DataFrame({"one": [1.0, 0], "two": [0.0, 1]}, index=["q", "r"])
SYSTEMS = {name: SCORES[[name]].set_axis(["M"], axis=1) for name in SCORES}
BOTH = [*ASKED, Question("r", "And?", ("Yes.",))]
OF_THREE = make_verdicts([("q", 2, "a", 1.0, True)], "hand")
SMALL, HIDDEN = small_scenario("AAB", [0]), small_scenario("AB", [0], asked={"age": ("18-34",)}, rule="implicit")
LISTED, KEPT_BACK = listing(SMALL, [0, 1]), small_scenario("AAB", None)
SIDES = sides.listed_sides({"s": RUN[RUN["qid"] != "q#1"]}, YES, ASKED)


def strange_gold():
    scenario = small_scenario("AAB", [0])
    object.__setattr__(scenario, "gold", make_verdicts([("q", 0, "elsewhere", 1.0, True)], "gold"))
    return arguments.evaluate_arguments(LISTED, scenario)


def score(run=RUN, verdicts=YES, questions=ASKED, measures="MRecall@2"):
    return score_run(run, verdicts, questions, measures)


def argued(run=LISTED, scenario=SMALL, measures="rKL@4"):
    return arguments.evaluate_arguments(run, scenario, measures)


TABLE = [
    # runs, verdicts and questions that do not fit
    (lambda: score(ELSEWHERE), "'x'.*'q'"),
    (lambda: score(verdicts=OTHER), "verdicts.*'x'.*'q'"),
    (lambda: score(verdicts=OF_THREE), r"pid\b.*'q' has 2 .* 2$"),
    (lambda: score(TWICE), "'a'.*'q'"),
    (lambda: score({"q": ["a"]}), "frame"),
    (lambda: score(OWN), "'q#0'"),
    (lambda: score(questions=[Question("q", "?")]), "perspectives"),
    (lambda: score(measures=["nDCG@5", "rKL@20"]), r"measures.*rKL@20.*perspectivearg-sample:explicit"),
    (lambda: official_cutoff(RUN, [Question("3", "?")]), "'3'"),
    # what is no measure
    *((lambda wrong=wrong: score(measures=wrong), "measure") for wrong in (5, "MRecal@5", [])),
    *((lambda k=k: parse_measure(f"MRecall@{k}"), "MRecall@.*1 to 1000000") for k in (0, "9" * 5000)),
    (lambda: parse_measure("ERR_IA@1000000000"), "ERR_IA@.*1 to 1000000"),
    (lambda: score(measures="alpha_nDCG(alpha=1.01)@3"), "alpha=1.01.*0 to 1"),
    (lambda: parse_measure("pRecall(hit='any')@5"), "hit='success' or 'recall'"),
    (lambda: parse_measure("rKL@1"), "rKL@1: .*2"),
    (lambda: parse_measure("rKL(step=1)@20"), "step.*2"),
    *((lambda name=name: parse_measure(name), f"{name} @ 20") for name in ("P", "rKL")),
    *(
        (lambda name=name: parse_measure(name), name.partition("(")[0].partition("@")[0])
        for name in ("Rprec", "nDCG(dcg='exp-log2')@5", "P(rel=2)@5")
    ),
    # how many documents, and the best list
    (lambda: oracle.oracle(RUN, YES, ASKED, 1, depth=True), "depth"),
    # sides
    (lambda: sides.root_versus_full(ROOT, YES, ASKED, [1]), "'q#0'"),
    (lambda: sides.two_sided(BOTH[1:]), "stances"),
    (lambda: sides.sycophancy(SIDES), "asked.*'s'.*opposing"),
    (lambda: sides.leaning(SIDES, ["site"]), "by.*'site'"),
    (lambda: sides.leaning(SIDES.assign(dataset="all")), "source.*'all'"),
    # systems and judges
    (lambda: compare.all_pairs({"one": SYSTEMS["one"]}, BOTH, "M"), "systems.*1"),
    (lambda: compare.letters(SYSTEMS, BOTH, "N"), "'N'"),
    (lambda: compare.all_pairs(SYSTEMS, BOTH[::-1], "M"), "'one'"),
    (lambda: system_order.labelling_trials(SCORES, SCORES, ["q", "r"], 1), "2 to 2.*1"),
    (lambda: judges.calibration_table([1, 0], [0.5]), "one length"),
    (lambda: judges.calibration_table([1, 0], [0.5, np.nan]), "0 to 1"),
    (lambda: judges.calibration_table([1, 0], [0.5, 0.1], 0), "1 bin.*0"),
    (lambda: judges.auc([1, 1], [0.1, 0.2]), "labels"),
    (lambda: judge_error.corrected_mean([1, 0], [1, 0], clusters=["a"]), "one length"),
    (lambda: judge_error.corrected_mean([1, 0, 1], [1, np.nan, np.nan]), "2 .*1"),
    # scenarios
    (lambda: argued(ranked_run({"q": ["z"]}), HIDDEN), r"docno.*'z'.*'small:implicit'$"),
    (lambda: argued(ranked_run({"q": ["d1"]}), HIDDEN), r"docno.*'d1'.*id of the release"),
    (lambda: argued(ranked_run({"x": ["d0"]})), "'x'.*'q'"),
    (strange_gold, r"gold.*'elsewhere'"),
    (lambda: argued(scenario=KEPT_BACK, measures="rKL@4,official_P@4"), "official_P@4.*'small:baseline'.*rKL"),
    (lambda: arguments.by_property(LISTED, SMALL, "P@4"), "measure.*rKL.*P@4"),
    # statistics
    (lambda: stats.macro_mean([]), "score"),
    (lambda: stats.macro_mean([0.5, np.nan]), "1 is nan"),
    (lambda: stats.macro_mean([0.5, 1.0], ["a"]), "2 scores.*1 groups"),
    (lambda: stats.difference_interval([0.5, 1.0], level=1.5), r"level.*1\.5"),
    (lambda: stats.wilson_interval(6, 5), "6 of 5"),
    (lambda: stats.paired_test([1.0, 0, 1], [1.0, 0]), "3 and 2"),
    (lambda: stats.holm([0.01, np.nan]), "0 to 1.*nan"),
    (lambda: stats.power(0.1, np.nan, 10), "spread"),
    (lambda: stats.power(0.1, 1, 1), r"\[n\].*1"),
    (lambda: stats.questions_needed(0, 1), "difference.*0"),
    (lambda: stats.questions_needed(0.1, 1, wanted=0.05), r"wanted.*0\.05"),
    (lambda: stats.cluster_bootstrap(np.ones((0, 2)), None, stats.ratio_of_sums), "0 rows"),
    (lambda: stats.cluster_bootstrap(np.ones((3, 2)), None, stats.ratio_of_sums, resamples=0), r"resamples.*0"),
    (lambda: stats.choose_threshold([1, 1], [0.5, 0.6]), "labels"),
    (lambda: stats.choose_threshold([1, 0], [0.5, 1.5]), "0 to 1"),
    (lambda: stats.choose_threshold([1, 0], [0.5, 0.6], 1.0), "positive_share"),
]


@pytest.mark.parametrize(("call", "named"), TABLE)
def test_what_cannot_be_computed_is_refused(call, named):
    with pytest.raises(InputError, match=named) as refused:
        call()
    assert len(str(refused.value)) < 500
