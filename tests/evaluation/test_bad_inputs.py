"""What measures, tables of sides, judges and statistics refuse, and in which words."""

import numpy as np
import pandas as pd
import pytest
from small_scenarios import listing, small_scenario

from berdslib import stats
from berdslib.data.records import Question, make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.evaluation import arguments, compare, judge_error, judges, oracle, sides, system_order
from berdslib.evaluation.measures import evaluate, official_cutoff, parse_measure

ASKED = [Question("q", "Is it?", ("It is.", "It is not."), labels=("for", "against"), stances=("support", "oppose"))]
YES = make_verdicts([("q", 0, "a", 1.0, True), ("q", 1, "b", 1.0, True)], "hand")
OTHER = make_verdicts([("x", 0, "a", 1.0, True)], "hand")
RUN = ranked_run({"q": ["a", "b"], "q#0": ["a"], "q#1": ["b"]})
OWN, ROOT, ELSEWHERE = RUN[RUN["qid"] != "q"], RUN[RUN["qid"] == "q"], ranked_run({"x": ["a"]})
TWICE = pd.DataFrame({"qid": "q", "docno": ["a", "a"], "score": [2.0, 1.0]})
GROUPS = {"a": "for", "b": "against"}
SCORES = pd.DataFrame({"one": [1.0, 0], "two": [0.0, 1]}, index=["q", "r"])
SYSTEMS = {name: SCORES[[name]].set_axis(["M"], axis=1) for name in SCORES}
BOTH = [*ASKED, Question("r", "And?", ("Yes.",))]
OF_THREE = make_verdicts([("q", 2, "a", 1.0, True)], "hand")
SMALL, HIDDEN = small_scenario("AAB", [0]), small_scenario("AB", [0], asked={"age": ("18-34",)}, rule="implicit")
LISTED, KEPT_BACK = listing(SMALL, [0, 1]), small_scenario("AAB", None)
SIDES = sides.listed_sides({"s": RUN[RUN["qid"] != "q#1"]}, YES, ASKED)


def called(name):
    return [ASKED[0]._replace(source=name)]


def strange_gold():
    scenario = small_scenario("AAB", [0])
    object.__setattr__(scenario, "gold", make_verdicts([("q", 0, "elsewhere", 1.0, True)], "gold"))
    return arguments.evaluate_arguments(LISTED, scenario)


def score(run=RUN, verdicts=YES, questions=ASKED, measures="MRecall@2"):
    return evaluate(run, verdicts, questions, measures)


def argued(run=LISTED, scenario=SMALL, measures="rKL@4"):
    return arguments.evaluate_arguments(run, scenario, measures)


TABLE = [
    # runs, verdicts and questions that do not fit
    (lambda: score(ELSEWHERE), "run and the questions do not belong together: 'x' against 'q'"),
    (lambda: score(verdicts=OTHER), "verdicts and the questions do not belong together"),
    (lambda: score(verdicts=OF_THREE), "'q' has 2 perspectives, but a verdict has pid 2"),
    (lambda: score(TWICE), "passage 'a' is listed twice for question 'q'"),
    (lambda: score({"q": ["a"]}), "a run is a data frame"),
    (lambda: score(OWN), "lists of single perspectives only, such as 'q#0'"),
    (lambda: score(ROOT, measures="pRecall@2"), "needs a list for each perspective, under ids such as 'q#0'"),
    (lambda: score(questions=[Question("q", "?")]), "no perspectives"),
    (lambda: score(measures=["nDCG@5", "rKL@20"]), r"needs the groups of all passages.*perspectivearg-sample:explicit"),
    (lambda: official_cutoff(RUN, [Question("3", "?")]), "'3' has no passages in the run"),
    # what is no measure
    *((lambda wrong=wrong: score(measures=wrong), "measure") for wrong in (5, None, "MRecal@5", ["MRecall@5", 5], [])),
    *((lambda k=k: parse_measure(f"MRecall@{k}"), "whole number from 1") for k in (0, "x", "9" * 5000)),
    (lambda: parse_measure("ERR_IA@1000000000"), "k must be from 1 to 1000000"),
    (lambda: score(measures="alpha_nDCG(alpha=1.01)@3"), "alpha must be from 0 to 1"),
    (lambda: parse_measure("pRecall(hit='any')@5"), "accepted: hit='success' or 'recall'"),
    (lambda: parse_measure("rKL@1"), "k must be at least 2, as in rKL @ 20; the discount of the first place"),
    (lambda: parse_measure("rKL(step=1)@20"), "step must be at least 2"),
    *((lambda name=name: parse_measure(name), "needs a cut-off, as in") for name in ("P", "rKL", "official_P")),
    *(
        (lambda name=name: parse_measure(name), name.partition("(")[0].partition("@")[0])
        for name in ("Rprec", "nDCG(dcg='exp-log2')@5", "P(rel=2)@5", "MRecall(rel=2)@5", "rKL(step=2.5)@20")
    ),
    # how many documents, and the best list
    (lambda: oracle.oracle(RUN, YES, ASKED, 1, depth=True), "depth must be a whole number"),
    # sides
    (lambda: sides.root_versus_full(ROOT, YES, ASKED, [1]), "a list for each perspective"),
    (lambda: sides.group_heatmap(RUN, ASKED, {"a": "for"}, 2), "'q#1' asks for 'against', and no passage is of that"),
    (lambda: sides.two_sided(BOTH[1:]), "no question has recorded which"),
    (lambda: sides.sycophancy(SIDES), "'s' was not searched with the opposing"),
    (lambda: sides.leaning(SIDES, ["site"]), "no column 'site'"),
    (lambda: sides.leaning(SIDES.assign(dataset="all")), "a data set is called 'all'"),
    # systems and judges
    (lambda: compare.all_pairs({"one": SYSTEMS["one"]}, BOTH, "M"), "two systems"),
    (lambda: compare.letters(SYSTEMS, BOTH, "N"), "measure 'N'"),
    (lambda: compare.all_pairs(SYSTEMS, BOTH[::-1], "M"), "other questions"),
    (lambda: compare.all_pairs(SYSTEMS, BOTH, "M", baselines="uno"), "baseline 'uno'"),
    (lambda: system_order.labelling_trials(SCORES, SCORES, ["q", "r"], 1), "from 2 to 2 questions"),
    (lambda: judges.calibration_table([1, 0], [0.5]), "one length"),
    (lambda: judges.calibration_table([1, 0], [0.5, np.nan]), "from 0 to 1"),
    (lambda: judges.calibration_table([1, 0], [0.5, 0.1], 0), "at least 1 bin"),
    (lambda: judges.auc([1, 1], [0.1, 0.2]), "both a yes and a no"),
    (lambda: system_order.system_tau(SCORES, SCORES[::-1], ["q", "r"]), "same questions and systems"),
    (lambda: system_order.system_tau(SCORES[["one"]], SCORES[["one"]], ["q", "r"]), "two systems at least, not 1"),
    (lambda: system_order.question_agreement(SCORES, SCORES, ["q"]), "2 questions, but 1 clusters"),
    (lambda: judge_error.corrected_mean([1, 0], [1, 0], clusters=["a"]), "one length"),
    (lambda: judge_error.corrected_mean([1, 0, 1], [1, np.nan, np.nan]), "there are 1"),
    # scenarios
    (lambda: argued(ranked_run({"q": ["z"]}), HIDDEN), r"'z' is not a docno of 'small:implicit'$"),
    (lambda: argued(ranked_run({"q": ["d1"]}), HIDDEN), "'d1' is not a docno.*; it is an id of the release"),
    (lambda: argued(ranked_run({"x": ["d0"]})), "do not belong together: 'x' against 'q'"),
    (strange_gold, r"\[gold\]: 'elsewhere' is not a docno"),
    (lambda: argued(scenario=KEPT_BACK, measures="rKL@4,official_P@4"), "needs the answers.*are kept back; rKL alone"),
    (lambda: argued(measures="pRecall@5"), "not computed over a scenario"),
    (lambda: arguments.by_property(LISTED, SMALL, "P@4"), "one measure that looks at groups is needed"),
    # statistics
    (lambda: stats.macro_mean([]), "no scores"),
    (lambda: stats.macro_mean([0.5, np.nan]), "score 1 is nan; every score must be a finite number"),
    (lambda: stats.macro_mean([0.5, 1.0], ["a"]), "2 scores, but 1 groups"),
    (lambda: stats.difference_interval([0.5, 1.0], level=1.5), r"\[level\]: must be between 0 and 1"),
    (lambda: stats.wilson_interval(6, 5), "some trials and from 0 to n successes"),
    (lambda: stats.paired_test([1.0, 0, 1], [1.0, 0]), "one length; got 3 and 2"),
    (lambda: stats.holm([0.01, np.nan]), "a p-value is from 0 to 1, not nan"),
    (lambda: stats.power(0.1, np.nan, 10), "spread"),
    (lambda: stats.power(0.1, 1, 1), "two questions"),
    (lambda: stats.questions_needed(0, 1), "not 0"),
    (lambda: stats.questions_needed(0.1, 1, wanted=0.05), r"\[wanted\]: must be between alpha, 0.05, and 1"),
    (lambda: stats.cluster_bootstrap(np.ones((0, 2)), None, stats.ratio_of_sums), "there are 0 rows"),
    (lambda: stats.cluster_bootstrap(np.ones((3, 2)), None, stats.ratio_of_sums, resamples=0), r"\[resamples\]: must"),
    (lambda: stats.choose_threshold([1, 1], [0.5, 0.6]), "both a yes and a no"),
    (lambda: stats.choose_threshold([1, 0], [0.5, 1.5]), "from 0 to 1"),
    (lambda: stats.choose_threshold([1, 0], [0.5, 0.6], 1.0), "positive_share"),
]


@pytest.mark.parametrize(("call", "words"), TABLE)
def test_what_cannot_be_computed_is_refused(call, words):
    with pytest.raises(InputError, match=words) as refused:
        call()
    assert len(str(refused.value)) < 500
