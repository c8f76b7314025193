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
    # arguments
    "a keyword": (
        lambda: bd.experiment("bm25", PETS, measure="MRecall@5"),
        "experiment: got an unexpected keyword argument 'measure'; it takes systems, data, measures, judge, baseline, ",
    ),
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
    "no cut-off": (lambda: bd.experiment("bm25", PETS, "MRecall"), "MRecall needs a cut-off, such as MRecall@5"),
    "a seed": (lambda: bd.experiment("bm25", PETS, seed="x"), "[seed]: a whole number is needed, not 'x'"),
    # nothing at all, or something else
    "no systems": (lambda: bd.experiment([], PETS), "[systems]: at least one system is needed, such as 'bm25'"),
    "two systems of one name": (
        lambda: bd.experiment(["bm25", "bm25"], PETS),
        "two systems are called 'bm25'; give a mapping, name → system",
    ),
    "several systems to search": (
        lambda: bd.search(["bm25", "rank-bm25"], PETS),
        "[system]: one system that searches is needed; bd.experiment takes several, and a finished run goes to judge",
    ),
    "a run to search": (
        lambda: bd.search(RUN, PETS),
        "[system]: one system that searches is needed; bd.experiment takes several, and a finished run goes to judge",
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
    "a collection without gold": (
        lambda: bd.experiment("bm25", UNJUDGED),
        "[judge]: 'unjudged' has no recorded verdicts; name one, such as 'laptop'",
    ),
    # frames
    "a run without columns": (
        lambda: bd.evaluate(pd.DataFrame({"query": ["q"]}), GOLD, PETS),
        "a run needs columns qid, docno and score (or rank); missing: qid, docno",
    ),
    "verdicts that are none": (
        lambda: bd.evaluate(RUN, None, PETS),
        "verdicts are a data frame with columns qid, pid, docno, p_yes, supports, judge, not NoneType",
    ),
    "a run of other questions": (
        lambda: bd.judge(ELSEWHERE, PETS, None),
        "[qid]: the run and the questions do not belong together: 'x' against 'q' …",
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
    "a retriever that answers what was not asked": (
        lambda: bd.search(Own(ELSEWHERE), PETS),
        "[qid]: own: lists passages for 'x', which was not asked",
    ),
    "a judge that says no number": (
        lambda: judged_by(lambda pairs: ["yes"] * len(pairs)),
        "judge '<lambda>' must return 5 probabilities from 0 to 1, not ['yes', 'yes', ",
    ),
    "verdicts as a judge": (
        lambda: judged_by(GOLD),
        "[judge]: a judge is a name, an object with p_yes(pairs), or a function from pairs to probabilities, not ",
    ),
    "a name that is taken": (
        lambda: bd.register("retriever", "bm25", Own),
        "[name]: the retriever 'bm25' is built in; choose another name",
    ),
    "a function that makes no collection": (
        lambda: registered("dataset", lambda: None, lambda: bd.load("mine")),
        "the data set 'mine' must make a Collection, not NoneType",
    ),
    "a retriever of one corpus for two": (
        lambda: bd.experiment(Own(RUN), [PETS, PETS.only([QUESTIONS[1]])]),
        "[systems]: 'own' searches one corpus, and there are several; bd.register('retriever', …) a function that",
    ),
    "no text": (lambda: bd.supports([], "a", "overlap"), "[perspectives]: a text or several are needed, not none"),
    "a blank text": (lambda: bd.supports("a", ["b", " "]), "[passages]: a text is needed, not ' ' (number 1)"),
    "a mapping in place of texts": (
        lambda: bd.supports({"a": 1}, "b"),
        "[perspectives]: a text or several are needed, not dict",
    ),
    "texts beside gold": (lambda: bd.supports("a", "b", "gold"), "recorded verdicts belong to ids"),
    "a probability beyond 1": (
        lambda: bd.supports("a", "b", lambda pairs: [1.7]),
        "must return 1 probabilities from 0 to 1",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_one_line(mistake):
    call, said = MISTAKES[mistake]
    with pytest.raises(InputError) as caught:
        call()
    told = str(caught.value)
    assert said in told and "\n" not in told
