"""Wrong calls of the front door: each gets one line that says what is wrong and what would do."""

import pandas as pd
import pytest

import berdslib as bd
from berdslib.data.catalogue import DATASETS
from berdslib.errors import InputError
from berdslib.judging.registry import JUDGES
from berdslib.retrieval.retrievers import RETRIEVERS


@pytest.fixture(autouse=True)
def own_places(user_cache, monkeypatch, tmp_path):
    """A cache and a folder of the test's own; names that it adds are gone after it."""
    for registry in (RETRIEVERS, JUDGES, DATASETS):
        monkeypatch.setattr(registry, "_things", dict(registry))
    monkeypatch.chdir(tmp_path)


QUESTIONS = [
    bd.Question("q", "Cats?", ("Cats purr.", "Cats bite.")),
    bd.Question("p", "Dogs?", ("Dogs bark.",)),
]
PASSAGES = [bd.Passage("a", "Cats purr."), bd.Passage("b", "Cats bite."), bd.Passage("c", "Dogs bark.")]
GOLD = pd.DataFrame({"qid": ["q", "q", "p"], "pid": [0, 1, 0], "docno": ["a", "b", "c"], "p_yes": 1.0})
PETS = bd.Collection("pets", QUESTIONS, PASSAGES, GOLD)
UNSEEN = bd.Collection("unseen", QUESTIONS, gold=GOLD)
UNJUDGED = bd.Collection("unjudged", QUESTIONS, PASSAGES)
RUN = pd.DataFrame({"qid": ["q", "p"], "docno": ["a", "c"], "score": [1.0, 1.0]})
ELSEWHERE = RUN.assign(qid=["x", "y"])


class Own:
    """Somebody's retriever, which returns what it was told to."""

    name = "own"

    def __init__(self, frame=None):
        self.frame = frame

    def search(self, questions, k):
        return self.frame


def registered(kind, make, call):
    bd.register(kind, "mine", make)
    return call()


def judged_by(function):
    return bd.experiment("bm25", PETS, judge=function)


MISTAKES = {
    # names that are misspelt
    "a system": (lambda: bd.experiment("bm52", PETS), "unknown retriever 'bm52'. Did you mean 'bm25'? Known: bm25, "),
    "a measure": (
        lambda: bd.experiment("bm25", PETS, "MRecal@5"),
        "unknown measure 'MRecal'. Did you mean 'MRecall'? Known: Coverage, ",
    ),
    "a judge": (lambda: bd.judge(RUN, PETS, "latpop"), "unknown judge 'latpop'. Did you mean 'laptop'? Known: "),
    "a data set": (
        lambda: bd.experiment("bm25", "smaple"),
        "unknown data set 'smaple'. Did you mean 'sample'? Known: argkp, ",
    ),
    "a baseline": (
        lambda: bd.experiment(["bm25", "rank-bm25"], PETS, baseline="bm52"),
        "unknown baseline 'bm52'. Did you mean 'bm25'? Known: bm25, rank-bm25",
    ),
    "a kind of name": (
        lambda: bd.names("retriver"),
        "unknown kind 'retriver'. Did you mean 'retriever'? Known: dataset, diversifier, judge, measure, retriever",
    ),
    # arguments
    "a keyword": (
        lambda: bd.experiment("bm25", PETS, measure="MRecall@5"),
        "experiment: got an unexpected keyword argument 'measure'; it takes systems, data, measures, judge, baseline, ",
    ),
    "one too many": (lambda: bd.names("judge", "dataset"), "names: too many positional arguments; it takes kind"),
    "systems and data exchanged": (
        lambda: bd.experiment(PETS, "bm25"),
        "[systems]: a system is a string such as 'minilm+mmr:0.9', a finished run, or has a method search(questions, "
        "k); 'pets' is of type Collection",
    ),
    "run and verdicts exchanged": (
        lambda: bd.evaluate(GOLD, RUN, PETS),
        "a run needs columns qid, docno and score (or rank); missing: score or rank",
    ),
    # numbers
    "k = 0": (lambda: bd.search("bm25", PETS, 0), "[k]: k must be at least 1, not 0"),
    "a depth": (lambda: bd.experiment("bm25", PETS, depth=0), "[depth]: depth must be at least 1, not 0"),
    "a cut-off": (
        lambda: bd.experiment("bm25", PETS, "MRecall@0"),
        "'MRecall@0': the cut-off after @ must be a whole number from 1",
    ),
    "no cut-off": (lambda: bd.experiment("bm25", PETS, "MRecall"), "MRecall needs a cut-off, such as MRecall@5"),
    "a seed": (lambda: bd.experiment("bm25", PETS, seed="x"), "[seed]: a whole number is needed, not 'x'"),
    # nothing at all, or something else
    "no systems": (lambda: bd.experiment([], PETS), "[systems]: at least one system is needed, such as 'bm25'"),
    "no collections": (
        lambda: bd.experiment("bm25", []),
        "[data]: at least one collection is needed, such as bd.load('sample')",
    ),
    "a class as a system": (lambda: bd.experiment([Own], PETS), "[systems]: Own is a class; give what it makes"),
    "a number as a system's name": (
        lambda: bd.experiment({1: "bm25"}, PETS),
        "[systems]: a system is called by text, not by int: 1",
    ),
    "two systems of one name": (
        lambda: bd.experiment(["bm25", "bm25"], PETS),
        "two systems are called 'bm25'; give a mapping, name → system",
    ),
    "several systems to search": (
        lambda: bd.search(["bm25", "rank-bm25"], PETS),
        "[system]: one system is searched at a time; bd.experiment takes several",
    ),
    "a run to search": (
        lambda: bd.search(RUN, PETS),
        "[system]: a finished run has been searched already; give it to judge or evaluate",
    ),
    "a run in a list": (
        lambda: bd.experiment([RUN], PETS),
        "a finished run has no name; give a mapping, {'theirs': run}",
    ),
    "questions in place of a collection": (
        lambda: bd.experiment("bm25", QUESTIONS),
        "[data]: questions alone cannot be searched or judged; bd.Collection(name, questions, passages) makes one",
    ),
    "a table in place of a store": (
        lambda: bd.judge(RUN, PETS, "overlap", store=RUN),
        "[store]: a store of verdicts or its file is needed, not DataFrame",
    ),
    # data that lacks something
    "a collection without passages": (
        lambda: bd.experiment("bm25", UNSEEN),
        "[passages]: 'unseen' has questions only; name the corpus to search",
    ),
    "a judge without passages": (
        lambda: bd.judge(RUN, UNSEEN, "overlap"),
        "[passages]: 'unseen' has questions only; a judge reads passages: name the corpus",
    ),
    "a collection without gold": (
        lambda: bd.experiment("bm25", UNJUDGED),
        "[judge]: 'unjudged' has no recorded verdicts; name one, such as 'laptop'",
    ),
    "questions without perspectives": (
        lambda: bd.experiment("bm25", PETS.only([QUESTIONS[0]._replace(perspectives=())])),
        "[perspectives]: question 'q' has no perspectives, so it cannot be scored",
    ),
    # frames
    "a run without columns": (
        lambda: bd.evaluate(pd.DataFrame({"query": ["q"]}), GOLD, PETS),
        "a run needs columns qid, docno and score (or rank); missing: qid, docno",
    ),
    "a named run without scores": (
        lambda: bd.experiment({"theirs": RUN.drop(columns="score")}, PETS),
        "theirs: a run needs columns qid, docno and score (or rank); missing: score or rank",
    ),
    "a run that is a file's name": (
        lambda: bd.judge("run.trec", PETS),
        "a run is a data frame with columns qid, docno, rank, score, not str",
    ),
    "verdicts that are none": (
        lambda: bd.evaluate(RUN, None, PETS),
        "verdicts are a data frame with columns qid, pid, docno, p_yes, supports, judge, not NoneType",
    ),
    "a run of other questions": (
        lambda: bd.judge(ELSEWHERE, PETS, None),
        "[run]: the run and the questions do not belong together: 'x' against 'q' …",
    ),
    "verdicts of other questions": (
        lambda: bd.evaluate(RUN, GOLD.assign(qid="x"), PETS),
        "the verdicts and the questions do not belong together: 'x' against 'q' …",
    ),
    "a passage of another corpus": (
        lambda: bd.judge(RUN.assign(docno="zzz"), PETS, "overlap"),
        "the run lists passage 'zzz', which is not in the corpus",
    ),
    "a run without lists of perspectives": (
        lambda: bd.evaluate(RUN, GOLD, PETS, "pRecall@5"),
        "pRecall needs a list for each perspective, under ids such as 'q#0'; berdslib.search(…, perspectives=True)",
    ),
    # things of one's own
    "a retriever that finds nothing": (
        lambda: bd.search(Own(None), PETS),
        "own: a run is a data frame with columns qid, docno, rank, score, not NoneType",
    ),
    "a retriever that answers what was not asked": (
        lambda: bd.search(Own(ELSEWHERE), PETS),
        "[qid]: own: lists passages for 'x', which was not asked",
    ),
    "a judge that says no number": (
        lambda: judged_by(lambda pairs: ["yes"] * len(pairs)),
        "judge '<lambda>' must return 5 probabilities from 0 to 1, not ['yes', 'yes', ",
    ),
    "a judge of two arguments": (
        lambda: judged_by(lambda passage, perspective: 1.0),
        "the judge '<lambda>' is called with the pairs: missing a required argument: 'perspective'",
    ),
    "verdicts as a judge": (
        lambda: judged_by(GOLD),
        "[judge]: a judge is a name, an object with p_yes(pairs), or a function from pairs to probabilities, not ",
    ),
    "gold as a judge of aspects": (
        lambda: bd.search("bm25+coverage:0.5", PETS, aspect_judge="gold"),
        "recorded verdicts cover only the perspectives used for scoring; choose another judge",
    ),
    "a name that is taken": (
        lambda: bd.register("retriever", "bm25", Own),
        "[name]: the retriever 'bm25' is built in; choose another name",
    ),
    "a collection in place of a function": (
        lambda: bd.register("dataset", "mine", PETS),
        "[make]: a dataset is added as a function, not as Collection",
    ),
    "a function that makes no collection": (
        lambda: registered("dataset", lambda: None, lambda: bd.load("mine")),
        "the data set 'mine' must make a Collection, not NoneType",
    ),
    "a retriever of one corpus for two": (
        lambda: bd.experiment(Own(RUN), [PETS, PETS.only([QUESTIONS[1]])]),
        "[systems]: 'own' searches one corpus, and there are several; bd.register('retriever', …) a function that",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_one_line(mistake):
    call, said = MISTAKES[mistake]
    with pytest.raises(InputError) as caught:
        call()
    told = str(caught.value)
    assert said in told and "\n" not in told
