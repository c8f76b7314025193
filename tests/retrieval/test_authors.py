"""Profile-aware systems: against brute force and by hand."""

import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from berdslib.data.arguments import ISSUES, Argument, ArgumentQuery, Release, in_words
from berdslib.data.collection import Collection
from berdslib.data.records import Passage, Question, ranked_run
from berdslib.data.scenario import open_scenario
from berdslib.errors import InputError
from berdslib.models.cards import CARDS, ModelCard
from berdslib.retrieval import retrievers as retrievers_module
from berdslib.retrieval import systems as systems_module
from berdslib.retrieval.authors import Authors, group_aspects
from berdslib.retrieval.bm25 import BM25
from berdslib.retrieval.diversify import diversify
from berdslib.retrieval.retrievers import RETRIEVERS, own_retriever
from berdslib.retrieval.systems import Workshop


class Words:
    """Adds up a random vector for each word: as dense as a sentence encoder, and loads nothing."""

    id = "words"

    def encode_passages(self, texts):
        vectors = np.array([np.sum([word(w) for w in text.split()], axis=0) for text in texts])
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    encode_queries = encode_passages


@cache
def word(text):
    return np.random.default_rng(zlib.crc32(text.encode())).normal(size=48)


@pytest.fixture(autouse=True)
def _words(monkeypatch):
    """The encoder "words"; retrievers that a test adds are gone after it."""
    monkeypatch.setitem(CARDS, "words", ModelCard("words", "nowhere"))
    monkeypatch.setattr(retrievers_module, "get_encoder", lambda name: {"words": Words()}[name])
    monkeypatch.setattr(RETRIEVERS, "_things", {**RETRIEVERS, "words": RETRIEVERS["minilm"]})


# ---------------------------------------------------------------- releases

VALUES = {"gender": ["female", "male"], "age": ["18-34", "35-64", "65+"], ISSUES: ["law and order", "migration"]}
SHARES = {"gender": [0.4, 0.6], "age": [0.2, 0.5, 0.3]}


@cache
def planted(issues=10, each=16, seed=0, told=0.6, ask="have"):
    """A release whose texts tell something of their authors: each value has words of its own.

    The first three fifths of the issues are for training, the next fifth for dev, the others for test. Texts name their
    issue twice, and another once. Authors keep their age to themselves once in ten.
    """
    random, arguments = np.random.default_rng(seed), []
    names = [f"Should we {ask} topic{i}a and topic{i}b and topic{i}c?" for i in range(issues)]
    for i in range(issues):
        for _ in range(each):
            profile = {name: (str(random.choice(VALUES[name], p=p)),) for name, p in SHARES.items()}
            profile |= {ISSUES: tuple(v for v in VALUES[ISSUES] if random.random() < 0.5)}
            if random.random() < 0.1:
                del profile["age"]
            words = [f"topic{n}{random.choice(list('abc'))}" for n in (i, i, random.integers(issues))]
            words += [f"word{n}" for n in random.integers(200, size=6)]
            for name, values in VALUES.items():
                words += [
                    f"of{name}{values.index(v)}{random.integers(2)}" for v in values
                    if random.random() < (told if v in profile.get(name, ()) else 0.1)
                ]  # fmt: skip
            random.shuffle(words)
            stated = {name: values for name, values in profile.items() if values}
            arguments.append(Argument(f"a{len(arguments):04}", " ".join(words), names[i], "PRO", stated))
    return release_of(arguments, names)


def release_of(arguments, names):
    """All queries that these arguments answer, over three fifths, a fifth and a fifth of the issues."""
    baseline, perspective, n = [], [], len(names)
    for i, text in enumerate(names):
        split = "train" if i < 0.6 * n else "dev" if i < 0.8 * n else "test"
        own = [a for a in arguments if a.issue == text]
        baseline.append(ArgumentQuery(f"b{i}", text, split, relevant=tuple(a.docno for a in own)))
        for name, value in sorted({(name, v) for a in own for name, values in a.profile.items() for v in values}):
            answers = tuple(a.docno for a in own if value in a.profile.get(name, ()))
            perspective.append(ArgumentQuery(f"p{len(perspective):03}", text, split, {name: (value,)}, answers))
    return Release("planted", tuple(arguments), tuple(baseline), tuple(perspective), synthetic=True)


PLANTED = planted()
opened = cache(open_scenario)


def system(text, collection, **options):
    return Workshop(collection, **{"encoder": "words", **options}).make([text])[text]


def listed(run, qid):
    return run[run["qid"] == qid]["docno"].tolist()


class Spy:
    """Lists passages in the order of the corpus, and keeps what it read and was asked."""

    def __init__(self):
        self.read, self.asked, self.depths = [], [], []

    def __call__(self, passages):
        self.read.append([p.text for p in passages])
        self.docnos = [p.docno for p in passages]
        return self

    def search(self, questions, k):
        self.asked += [q.text for q in questions]
        self.depths.append((len(questions), k))
        return ranked_run({q.qid: self.docnos[:k] for q in questions})


@pytest.fixture
def spy():
    one = Spy()
    RETRIEVERS.add("spy", own_retriever(lambda passages: one(passages)))
    return one


# ---------------------------------------------------------------- filter


@pytest.mark.parametrize(("k", "depth"), [(3, 1), (20, 7), (3, 100), (60, 7)])
def test_filter_is_a_search_of_the_group_with_all_others_behind(k, depth):
    """Against a list of the whole corpus, which is gone through twice; whatever the depth is."""
    scenario = opened(PLANTED, "explicit")
    run = system("bm25+profile:filter", scenario, depth=depth).search(scenario.questions, k)
    plain = BM25(scenario.passages).search(scenario.questions, len(scenario.passages))
    for question in scenario.questions:
        (name, (value,)) = next(iter(scenario.asked[question.qid].items()))
        everybody = listed(plain, question.qid)
        group = [d for d in everybody if value in scenario.authors[d].get(name, ())]
        assert group and listed(run, question.qid) == (group + [d for d in everybody if d not in group])[:k]
    scores = run.merge(plain, on=["qid", "docno"], suffixes=("", "_plain"))
    ahead = [all(v in scenario.authors[d].get(n, ()) for n, vs in scenario.asked[q].items() for v in vs)
             for q, d in zip(scores["qid"], scores["docno"], strict=True)]  # fmt: skip
    assert (scores["score"] == scores["score_plain"])[ahead].all()  # so that what comes behind weighs them as they were


def corpus_of(n, members):
    """One training and one dev issue; of n passages the members (by position) are by women, all others by men."""
    names = ["One?", "Two?", "Three?", "Four?", "Five?"]
    made = [
        Argument(f"d{i:04}", f"text {i}", names[3], "", {"gender": ("female" if i in members else "male",)})
        for i in range(n)
    ]
    return release_of(made, names)


@pytest.mark.parametrize(
    ("before", "found", "women", "depths"),
    [
        # Both, then the one that is not full, and no more once the corpus is through.
        ("spy", 300, ["d0005", "d0150", "d0290", "d0000"], [(2, 10), (1, 100), (1, 1000)]),
        # BM25 lists no passage that shares no word with the query: a deeper search would find the same.
        ("spy", 8, ["d0005", "d0000", "d0001", "d0002"], [(2, 10)]),
        # What chooses among candidates would list others if it were asked for more.
        ("spy+mmr:1", 300, ["d0005", "d0000", "d0001", "d0002"], [(2, 10)]),
        ("spy+cross:m", 300, ["d0005", "d0000", "d0001", "d0002"], [(2, 10)]),
    ],
)
def test_filter_looks_ten_times_as_deep_until_the_list_is_full(spy, monkeypatch, before, found, women, depths):
    monkeypatch.setattr(systems_module, "load_scorer", lambda _: lambda pairs: -np.arange(len(pairs), dtype=float))
    scenario = open_scenario(corpus_of(300, {5, 150, 290}), "explicit")
    female, male = [q.qid for q in scenario.questions]
    filtering = system(f"{before}+profile:filter", scenario, depth=10)
    spy.docnos = spy.docnos[:found]
    run = filtering.search(scenario.questions, 4)
    assert listed(run, female) == women and listed(run, male) == ["d0000", "d0001", "d0002", "d0003"]
    assert spy.depths == depths


# ---------------------------------------------------------------- template


@pytest.mark.parametrize("rule", ["explicit", "implicit"])
def test_template_puts_the_property_before_the_query_and_profiles_before_passages(spy, rule):
    """Properties come in one order, and none where none is known; where profiles are hidden, passages stay."""
    profiles = [{ISSUES: ("x", "y"), "civil_status": ("single",), "age": ("18-34",)}, {}, {"gender": ("male",)}]
    release = corpus_of(3, {1})
    told = tuple(a._replace(profile=p) for a, p in zip(release.arguments, profiles, strict=True))
    scenario = open_scenario(replace(release, arguments=told), rule)
    system("spy+profile:template", scenario).search(scenario.questions, 2)
    assert spy.asked == ["gender: female. Four?", "gender: male. Four?"]
    before = ["age: 18-34; civil status: single; political issues: x, y. ", "", "gender: male. "]
    written = [f"{said}text {i}" for i, said in enumerate(before)]
    assert spy.read == [written if rule == "explicit" else [p.text for p in scenario.passages]]


# ---------------------------------------------------------------- hidden profiles


def in_ids(run, scenario):
    """A run with ids of the release, ready to be compared: docnos break ties, and those are of another key."""
    frame = run.assign(docno=run["docno"].map(scenario.ids), score=run["score"].round(5))
    return frame.set_index(["qid", "docno"])["score"].sort_index()


class Forbidden(Mapping):
    """Profiles that nobody may look at."""

    def __getitem__(self, key):
        raise AssertionError("a profile was read")

    def __iter__(self):
        raise AssertionError("profiles were read")

    def __len__(self):
        raise AssertionError("profiles were counted")


@pytest.mark.parametrize("text", ["bm25+profile:template", "bm25+profile:template+mmr:0.5"])
def test_no_profile_is_read_in_the_implicit_scenario(text):
    """Not of those who measure, if a system is handed their scenario; and with other authors the lists are the same."""
    scenario = opened(PLANTED, "implicit")
    plain = system(text, scenario.handout).search(scenario.questions, 10)
    blind = replace(scenario, authors=Forbidden(), ids=Forbidden(), gold=None)
    pd.testing.assert_frame_equal(system(text, blind).search(scenario.questions, 10), plain)

    shuffled = [a.profile for a in PLANTED.arguments][::-1]
    others = tuple(a._replace(profile=p) for a, p in zip(PLANTED.arguments, shuffled, strict=True))
    there = open_scenario(replace(PLANTED, arguments=others), "implicit")
    run = system("bm25+profile:template", there).search(there.questions, len(there.passages))
    assert set(there.docnos.values()).isdisjoint(scenario.docnos.values())
    here = system("bm25+profile:template", scenario).search(scenario.questions, len(there.passages))
    pd.testing.assert_series_equal(in_ids(run, there), in_ids(here, scenario), atol=1e-4)


# ---------------------------------------------------------------- groups as aspects


def test_aspects_are_the_groups_by_every_property_but_the_one_asked_for():
    people = {
        "x": {"gender": ("female",), "age": ("65+",)},
        "y": {"gender": ("male",), ISSUES: ("law", "tax")},
        "z": {},
    }
    made = [Argument(docno, f"text {docno}", "Four?", "", profile) for docno, profile in people.items()]
    scenario = open_scenario(release_of(made, ["One?", "Two?", "Three?", "Four?", "Five?"]), "explicit")
    by = {in_words(asked): qid for qid, asked in scenario.asked.items()}
    age, law = by["age: 65+"], by["political issues: law"]
    authors = Authors(scenario)
    assert authors.groups == (
        ("age", "65+"), ("gender", "female"), ("gender", "male"), (ISSUES, "law"), (ISSUES, "tax")
    )  # fmt: skip
    run = ranked_run({age: ["z", "y", "x"], law: ["x"]})
    asking = [q for q in scenario.questions if q.qid in (age, law)]
    table = group_aspects(authors)(run, asking)
    got = {(r.qid, r.docno, r.pid): r.p for r in table.itertuples() if r.p}
    assert got == {(age, "x", 1): 1, (age, "y", 2): 1, (age, "y", 3): 1, (age, "y", 4): 1, (law, "x", 0): 1,
                   (law, "x", 1): 1}  # fmt: skip
    # Groups that nobody listed belongs to are aspects, too.
    pids = table.groupby("qid")["pid"].unique().map(sorted)
    assert pids[age] == [1, 2, 3, 4] and pids[law] == [0, 1, 2]


@pytest.mark.parametrize("method", ["xquad", "pm2", "coverage"])
def test_a_diversifier_covers_groups_of_authors(method):
    """The same as diversify() on a table made by two loops."""
    scenario = opened(PLANTED, "explicit")
    groups = [(name, value) for name in sorted(VALUES) for value in sorted(VALUES[name])]
    run = BM25(scenario.passages).search(scenario.questions, 30)
    rows = [
        (qid, pid, docno, float(v in scenario.profiles[docno].get(name, ())))
        for qid, docno in zip(run["qid"], run["docno"], strict=True)
        for pid, (name, v) in enumerate(groups)
        if name not in scenario.asked[qid]
    ]
    table = pd.DataFrame(rows, columns=["qid", "pid", "docno", "p"])
    want = diversify(run, method, relevance_weight=0.5, aspects=table, k=10)
    got = system(f"bm25+{method}:0.5", scenario, depth=30).search(scenario.questions, 10)
    assert got[["qid", "docno"]].values.tolist() == want[["qid", "docno"]].values.tolist()
    assert got["docno"].tolist() != run[run["rank"] <= 10]["docno"].tolist()


# ---------------------------------------------------------------- chains, and what is refused


@pytest.mark.parametrize(
    "text", ["bm25+profile:template+profile:filter+mmr:0.9", "bm25+xquad:0.5+cross:m+profile:filter"]
)
def test_parts_chain_as_any_other(text, monkeypatch, caplog):
    monkeypatch.setattr(
        systems_module, "load_scorer", lambda _: lambda pairs: np.array([len(t) for _, t in pairs], float)
    )
    scenario = replace(opened(PLANTED, "explicit"), ranked_for="reader")
    built = system(text, scenario, depth=20)
    run = built.search(scenario.questions, 10)
    assert built.name == text and run.groupby("qid").size().tolist() == [10] * len(scenario.questions)
    assert "reader" in caplog.text


# ---------------------------------------------------------------- what is refused


def plain():
    return Collection("zoo", [Question("q", "are zoos cruel", ("yes", "no"))], [Passage("a", "zoos are cruel")])


WRONG = [
    ("spy+profile:filter", plain, "'zoo'"),
    ("spy+profile:filter", lambda: opened(PLANTED, "baseline"), "baseline"),
    ("spy+profile:filter", lambda: opened(PLANTED, "implicit"), "implicit"),
    ("spy+xquad:0.5", lambda: opened(PLANTED, "implicit"), "implicit"),
    ("spy+xquad:0.5", lambda: opened(PLANTED, "baseline"), "aspects_by"),
]


@pytest.mark.parametrize(("text", "collection", "words"), WRONG)
def test_what_a_scenario_forbids_is_refused_before_anything_is_built(text, collection, words, spy):
    with pytest.raises(InputError, match=words):
        system(text, collection())
    assert spy.read == [] or "aspects_by" in words
