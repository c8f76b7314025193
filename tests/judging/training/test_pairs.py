"""Training pairs: negation by a table, windows, each source on a small file written here, the split by topic."""

import json
import random
import re
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.data.datasets import dataset, load_gold, load_passages, load_questions
from berdslib.errors import InputError, MissingDataError
from berdslib.judging.training import pairs as training_pairs
from berdslib.judging.training.pairs import (
    SOURCES,
    Example,
    build,
    is_held_out,
    other,
    plain_motion,
    split_by_topic,
    window,
)
from berdslib.statements.negation import negate

# ---------------------------------------------------------------- negation


@pytest.mark.parametrize(
    ("statement", "negated"),
    [
        ("Schools should ban phones.", "Schools should not ban phones."),
        ("Schools should not ban phones.", "Schools should ban phones."),
        ("Vaccination must be made compulsory", "Vaccination need not be made compulsory"),
        ("Zoos are prisons, and will be.", "Zoos are not prisons, and will be."),
        ("Lotteries have harmed the poor.", "Lotteries have not harmed the poor."),
        ("Schools can't ban phones.", "Schools can ban phones."),
        ("Schools can’t ban phones.", "Schools can ban phones."),
        ("Schools cannot ban phones.", "Schools can ban phones."),
        ("Cannot be done.", "Can be done."),
        ("Schools won't ban phones.", "Schools will ban phones."),
        ("It isn't fair.", "It is fair."),
        ("Phones don’t distract.", "Phones distract."),
        ("Phones do not distract.", "Phones distract."),
        # No auxiliary verb.
        ("Phones distract pupils.", "Phones do not distract pupils."),
        ("They're wrong", "It is not true that they're wrong"),
        ("It is not true that phones distract pupils.", "Phones distract pupils."),
        # Words that only look like auxiliaries.
        ("Canned food wastes isotopes.", "Canned food does not waste isotopes."),
        # One negation of two goes.
        ("It isn't not true.", "It is not true."),
        ("We should not not vote.", "We should not vote."),
        # Neither capitals nor the white space around matter.
        ("  we SHOULD vote \n", "It is not true that we SHOULD vote"),
        ("People who are rich should pay", "People who are rich should not pay"),
        ("All have the right to vote", "It is not true that all have the right to vote"),
        ("War does more harm than good", "War does not do more harm than good"),
        ("No one should smoke", "It is not true that no one should smoke"),
        ("UBI works", "It is wrong to say: UBI works"),
        # Neither a statement nor a request.
        ("Cats", "It is wrong to say: Cats"),
        ("Won't it rain?", "It is wrong to say: Won't it rain?"),
    ],
)
def test_negation_by_hand(statement, negated):
    assert negate(statement) == negated


@pytest.mark.parametrize("verb", ["should", "must", "is", "are", "was", "has", "do", "can", "might", "would"])
def test_negating_twice_gives_the_statement(verb):
    statement = f"Free trade {verb} good for people."
    assert negate(statement) != statement == negate(negate(statement))


@given(st.text(st.sampled_from("acnot'’ AISwil.?"), max_size=30).filter(lambda text: re.search(r"\w", text)))
def test_negation_never_fails_nor_leaves_a_statement_as_it_is(statement):
    assert negate(statement).strip() != statement.strip()


def test_motions_become_statements():
    assert plain_motion(" This house would ban boxing ") == "We should ban boxing"
    assert plain_motion("this house BELIEVES that size matters") == "Size matters"
    assert plain_motion("This house believes in God") == "This house believes in God"
    assert plain_motion("Boxing is bad") == "Boxing is bad"


# ---------------------------------------------------------------- windows


@given(st.integers(0, 300), st.integers(0, 99), st.integers(1, 120))
def test_a_window_is_neighbouring_words(n, seed, words):
    text = "  ".join(f"w{i}" for i in range(n))
    found = window(text, random.Random(seed), words).split()
    assert len(found) == min(n, words)
    if found:
        first = int(found[0][1:])
        assert found == [f"w{i}" for i in range(first, first + len(found))]


def test_windows_start_at_the_start_half_of_the_time_else_anywhere():
    text, draw = " ".join(f"w{i}" for i in range(199)), random.Random(0)
    starts = Counter(int(window(text, draw).split()[0][1:]) for _ in range(4000))
    assert set(starts) == set(range(100))
    assert 0.46 < starts[0] / 4000 < 0.55
    assert max(n for start, n in starts.items() if start) < 45  # 20 expected


def test_another_text_is_another_text():
    draw = random.Random(0)
    found = Counter(other("b", ["a", "b", "c"], draw) for _ in range(600))
    assert set(found) == {"a", "c"} and min(found.values()) > 240


# ---------------------------------------------------------------- the sources, on small files


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Write a file of a data set where BERDS_DATA has it; what is not written is not there."""
    monkeypatch.setenv("BERDS_DATA", str(tmp_path))
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "cache"))

    def write(name, content, number=0):
        path = tmp_path / dataset(name).local[number]
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")

    return write


def debate(claim, side, title, text):
    return {"_id": title, "title": title, "text": text, "metadata": {"claim": claim, "stance": side}}


def test_debates(place):
    zoos, cars = "Zoos should close", "Cars are bad"
    place("perspectrum-debates", [
        debate(zoos, "pro", "Cages are cruel", "Animals suffer."),
        debate(zoos, "con", " Zoos save species ", "They breed."),
        debate(cars, "pro", "Smoke is deadly", "Smoke kills."), debate(cars, "con", "", "They are fast."),
    ])  # fmt: skip
    titles = {
        "Cages are cruel": "Animals suffer.",
        "Zoos save species": "They breed.",
        "Smoke is deadly": "Smoke kills.",
    }
    examples = build(["debates"])
    plain = [e for e in examples if e.document in ("Animals suffer.", "They breed.", "Smoke kills.", "They are fast.")]
    titled = [e for e in examples if e not in plain]
    # The document may begin with its title; then it is judged by the claim only.
    assert {e.document for e in titled} <= {f"{title} {text}" for title, text in titles.items()}
    assert {e.kind for e in titled} <= {"debate:claim", "debate:negated claim"}

    def bare(text):
        return next((untitled for title, untitled in titles.items() if text == f"{title} {untitled}"), text)

    assert sorted((bare(e.document), e.statement, e.supports, e.topic, e.kind) for e in examples) == sorted([
        ("Animals suffer.", zoos, True, zoos, "debate:claim"),
        ("Animals suffer.", "Zoos should not close", False, zoos, "debate:negated claim"),
        ("Animals suffer.", cars, False, zoos, "debate:other claim"),
        ("Animals suffer.", "Cages are cruel", True, zoos, "debate:point"),
        ("Animals suffer.", "Cages are not cruel", False, zoos, "debate:negated point"),
        ("Animals suffer.", "Zoos save species", False, zoos, "debate:opposite point"),
        ("They breed.", zoos, False, zoos, "debate:claim"),
        ("They breed.", "Zoos should not close", True, zoos, "debate:negated claim"),
        ("They breed.", cars, False, zoos, "debate:other claim"),
        ("They breed.", "Zoos save species", True, zoos, "debate:point"),
        ("They breed.", "Zoos do not save species", False, zoos, "debate:negated point"),
        ("They breed.", "Cages are cruel", False, zoos, "debate:opposite point"),
        ("Smoke kills.", cars, True, cars, "debate:claim"),
        ("Smoke kills.", "Cars are not bad", False, cars, "debate:negated claim"),
        ("Smoke kills.", zoos, False, cars, "debate:other claim"),
        ("Smoke kills.", "Smoke is deadly", True, cars, "debate:point"),
        ("Smoke kills.", "Smoke is not deadly", False, cars, "debate:negated point"),
        # An argument without a title argues no point of its own, and is no opposite of others.
        ("They are fast.", cars, False, cars, "debate:claim"),
        ("They are fast.", "Cars are not bad", True, cars, "debate:negated claim"),
        ("They are fast.", zoos, False, cars, "debate:other claim"),
        ("They are fast.", "Smoke is deadly", False, cars, "debate:opposite point"),
    ])  # fmt: skip


def test_stances(place):
    claim = {"text": " Zoos should close ", "perspectives": [
        {"pids": [1, 2], "stance_label_3": "SUPPORT"}, {"pids": [3], "stance_label_3": "UNDERMINE"},
        {"pids": [4, 99], "stance_label_3": "SUPPORT"},
    ]}  # fmt: skip
    pool = {1: "Cages are cruel", 2: " Cages are inhumane ", 3: "Zoos can teach", 4: "Zoos are dear"}
    place("perspectrum", json.dumps([claim, {"text": "Empty", "perspectives": []}]))
    place("perspectrum", json.dumps([{"pId": i, "text": text} for i, text in pool.items()]), number=1)
    examples = build(["stances"])
    assert {e.topic for e in examples} == {"Zoos should close"}
    found = Counter((e.kind, e.supports) for e in examples)
    assert found == {
        ("stance:claim", True): 3, ("stance:claim", False): 1, ("stance:negated claim", False): 3,
        ("stance:negated claim", True): 1, ("stance:paraphrase", True): 1, ("stance:negated paraphrase", False): 1,
        ("stance:opposite", False): 3, ("stance:other point", False): 2,
    }  # fmt: skip
    by_kind = {kind: {(e.document, e.statement) for e in examples if e.kind == kind} for kind, _ in found}
    cruel, inhumane, teach, dear = (text.strip() for text in pool.values())
    closed = "Zoos should close"
    assert by_kind["stance:claim"] == {(t, closed) for t in (cruel, inhumane, teach, dear)}
    assert by_kind["stance:negated claim"] == {(t, "Zoos should not close") for t in (cruel, inhumane, teach, dear)}
    assert by_kind["stance:paraphrase"] <= {(cruel, inhumane), (inhumane, cruel)}
    assert {s for _, s in by_kind["stance:negated paraphrase"]} <= {"Cages are not cruel", "Cages are not inhumane"}
    sides = {cruel: "for", inhumane: "for", dear: "for", teach: "against"}
    assert all(sides[d] != sides[s] for d, s in by_kind["stance:opposite"])
    assert all(sides[d] == sides[s] and (dear in (d, s)) and d != s for d, s in by_kind["stance:other point"])


def test_key_points(place):
    place("argkp", "topic,argument,key_point,stance,label\n"
          'We should vote,"It, too, helps",Voting helps,1,1\nWe should vote,"It, too, helps",Voting is free,1,0\n'
          "We should vote,It bores,Voting is dull,-1,1\n")  # fmt: skip
    vote, not_vote = "We should vote", "We should not vote"
    seen = {False: 0, True: 0}
    for seed in range(20):
        examples = build(["key_points"], seed)
        negated = [e for e in examples if e.kind == "negated key point"]
        assert {e[:3] for e in negated} <= {
            ("It, too, helps", "Voting does not help", False), ("It bores", "Voting is not dull", False)
        }  # fmt: skip
        seen[bool(negated)] += 1
        assert sorted(e for e in examples if e not in negated) == sorted([
            Example("It, too, helps", "Voting helps", True, vote, "key point"),
            Example("It, too, helps", "Voting is free", False, vote, "key point"),
            Example("It, too, helps", vote, True, vote, "key point:topic"),
            Example("It, too, helps", not_vote, False, vote, "key point:negated topic"),
            Example("It bores", "Voting is dull", True, vote, "key point"),
            Example("It bores", vote, False, vote, "key point:topic"),
            Example("It bores", not_vote, True, vote, "key point:negated topic"),
        ])  # fmt: skip
    assert min(seen.values()) > 0


_CLAIMS = "topicText,claims.stance,claims.claimCorrectedText,claims.claimOriginalText,claims.article.rawFile\n"
_MOTION = "This house would ban boxing"


def test_claims(place):
    words = [f"w{i}" for i in range(300)]
    place("claim-stance", _CLAIMS + f"{_MOTION},PRO,Boxing kills men.,W150   w151,articles/t1/raw_7.txt\n"
          f"{_MOTION},CON,It is a sport.,not in there,articles/t1/raw_7.txt\n")  # fmt: skip
    place("wikipedia-articles", [{"_id": "t1/7", "title": "", "text": "\n ".join(words)}])
    ban, allow = "We should ban boxing", "We should not ban boxing"
    examples = build(["claims"])
    assert {e.topic for e in examples} == {ban} and len(examples) == 8
    windows = [e for e in examples if e.document.startswith("w")]
    assert {(e.statement, e.supports, e.kind) for e in windows} == {
        (ban, True, "claim:window"), (allow, False, "claim:window, negated topic")
    }  # fmt: skip
    (document,) = {e.document for e in windows}
    first = words.index(document.split()[0])
    assert document.split() == words[first : first + 100] and 100 <= first <= 145
    assert sorted(e[:3] + e[4:5] for e in examples if e not in windows) == sorted([
        ("W150 w151", ban, True, "claim:bare"), ("W150 w151", allow, False, "claim:bare, negated topic"),
        # A claim that its article does not hold stands alone, as its corrected text.
        ("It is a sport.", ban, False, "claim:window"), ("It is a sport.", allow, True, "claim:window, negated topic"),
        ("not in there", ban, False, "claim:bare"), ("not in there", allow, True, "claim:bare, negated topic"),
    ])  # fmt: skip


def test_neutral_windows_hold_no_claim(place):
    place("claim-stance", _CLAIMS + f"{_MOTION},PRO,c,W150 w151,articles/t1/raw_7.txt\n")
    place("wikipedia-articles", [
        {"_id": "t1/7", "title": "", "text": " ".join(f"w{i}" for i in range(300))},
        {"_id": "t1/8", "title": "", "text": "too short to say anything"},
        {"_id": "t1/9", "title": "", "text": " ".join(f"w{i}" for i in range(300))},  # nobody found the claim here
        {"_id": "t2/1", "title": "", "text": " ".join(f"v{i}" for i in range(300))},  # nor labelled this topic
    ])  # fmt: skip
    examples = [e for seed in range(30) for e in build(["neutral"], seed)]
    assert {e.statement for e in examples} == {"We should ban boxing", "We should not ban boxing"}
    assert not any(e.supports for e in examples) and {e.topic for e in examples} == {"We should ban boxing"}
    assert all(len(e.document.split()) == 100 and e.document.startswith("w") for e in examples)
    both_articles = sum("w150 w151" in e.document for e in examples)
    assert 120 < len(examples) < 240 and 0 < both_articles < 120  # 120 from t1/9, those without the claim from t1/7


def test_beliefs(place):
    place("explagraphs", "belief\targument\tstance\nRome is fun\tIt bores.\tcounter\nRome is fun\tIt sings.\tsupport\n")
    assert sorted(build(["beliefs"])) == sorted([
        Example("It bores.", "Rome is fun", False, "Rome is fun", "belief"),
        Example("It bores.", "Rome is not fun", True, "Rome is fun", "belief:negated"),
        Example("It sings.", "Rome is fun", True, "Rome is fun", "belief"),
        Example("It sings.", "Rome is not fun", False, "Rome is fun", "belief:negated"),
    ])  # fmt: skip


def test_only_development_questions_of_our_sample():
    examples = build(["sample"])
    dev, gold = {q.qid: q for q in load_questions("sample", "dev")}, load_gold("sample")
    texts = {p.docno: p.full_text for p in load_passages("sample")}
    wanted = [
        Example(texts[r.docno], dev[r.qid].perspectives[r.pid], bool(r.supports), dev[r.qid].text, "sample")
        for r in gold.itertuples() if r.qid in dev
    ]  # fmt: skip
    assert sorted(examples) == sorted(wanted) and 0 < len(wanted) < len(gold)
    assert not {e.topic for e in examples} & {q.text for q in load_questions("sample", "test")}


def test_same_seed_same_examples(place):
    place("perspectrum-debates", [
        debate(f"Claim {i % 4} is true", "con" if i % 3 else "pro", f"Point {i} is good",
               " ".join(f"t{i}w{j}" for j in range(200)))
        for i in range(24)
    ])  # fmt: skip
    place("explagraphs", "belief\targument\tstance\nRome is fun\tIt bores.\tcounter\n")
    first = build(["debates", "beliefs"], seed=3)
    assert first == build(["debates", "beliefs"], seed=3)
    assert first != build(["debates", "beliefs"], seed=4)
    # What a source gives does not depend on which others are asked.
    assert sorted(build(["beliefs", "debates"], seed=3)) == sorted(first)
    assert sorted(e for e in first if e.kind.startswith("debate")) == sorted(build(["debates"], seed=3))
    assert first != sorted(first)  # in a drawn order


def test_what_cannot_be_built(place):
    with pytest.raises(InputError, match=r"unknown source of training pairs 'debate'.*'debates'"):
        build(["debate"])
    with pytest.raises(MissingDataError, match="'argkp', training pairs: not on this machine"):
        build(["key_points"])
    place("explagraphs", "belief\targument\tstance\nRome is fun\t \tcounter\n")
    with pytest.raises(InputError, match=r"explagraphs.tsv:2 \[argument\]: is blank"):
        build(["beliefs"])


# ---------------------------------------------------------------- the split


def topic_examples(n):
    return [Example(f"doc {i} {j}", f"s {i}", j == 0, f"Topic {i}?", "t") for i in range(n) for j in range(2)]


def encode(texts):
    """Vectors on a circle: topic 10k + 1 is near to topic 10k, cosine 0.98; all else is far."""
    numbers = [int("".join(filter(str.isdigit, t))) for t in texts]
    vectors = np.zeros((len(texts), 500), dtype=np.float32)
    for row, n in enumerate(numbers):
        if n % 10 == 1:
            vectors[row, n - 1], vectors[row, n] = 0.98, np.sqrt(1 - 0.98**2)
        else:
            vectors[row, n] = 1
    return vectors


def test_neither_held_out_topics_nor_near_ones_are_trained_on():
    examples = topic_examples(500)
    training, held = split_by_topic(examples, encode, one_in=5)
    trained, held_topics = {e.topic for e in training}, {e.topic for e in held}
    assert held_topics == {e.topic for e in examples if is_held_out(e.topic, 5)}
    assert not trained & held_topics
    dropped = {e.topic for e in examples} - trained - held_topics
    by_hand = {f"Topic {i + d}?" for i in range(0, 500, 10) for d in (0, 1)
               if f"Topic {i + 1 - d}?" in held_topics and f"Topic {i + d}?" not in held_topics}  # fmt: skip
    assert dropped == by_hand and len(dropped) > 3
    cosine = encode(sorted(trained)) @ encode(sorted(held_topics)).T
    assert cosine.max() < training_pairs.NEAR_TOPIC
    # In the order they came, nothing twice, nothing lost but the near ones.
    assert training == [e for e in examples if e.topic in trained] and held == [
        e for e in examples if e.topic in held_topics
    ]
    assert split_by_topic(examples, encode, one_in=5, near=2.0)[0] != training


def test_a_held_out_text_is_not_trained_on_under_another_topic():
    examples = topic_examples(60)
    held = next(e for e in split_by_topic(examples, encode)[1])
    other = next(e for e in split_by_topic(examples, encode)[0])
    copies = [other._replace(document=held.document), other._replace(statement=held.statement),
              other._replace(statement=held.topic)]  # fmt: skip
    training, held_out = split_by_topic([*examples, *copies], encode)
    assert not set(copies) & {*training, *held_out} and other in training and held in held_out


def test_what_counts_as_near_is_an_argument():
    examples = topic_examples(100)
    sizes = [len(split_by_topic(examples, encode, near=near)[0]) for near in (0.1, 0.97, 0.99)]
    assert sizes[0] == sizes[1] < sizes[2] == len([e for e in examples if not is_held_out(e.topic)])


def test_a_topic_is_held_out_by_its_words_alone():
    assert is_held_out("Ban boxing!") == is_held_out("  ban   BOXING") and not is_held_out("Zoos", one_in=10**9)
    assert all(is_held_out(f"t{i}", 1) for i in range(5))
    share = np.mean([is_held_out(f"topic {i}") for i in range(3000)])
    assert 0.08 < share < 0.12


def test_too_few_topics_are_refused():
    for examples in (topic_examples(1), []):
        with pytest.raises(InputError, match="too few to hold one in 10 out"):
            split_by_topic(examples, encode)


# ---------------------------------------------------------------- the real data

_OPENED: list[str] | None = None


def _listen(event, arguments):
    if event == "open" and _OPENED is not None:
        _OPENED.append(str(arguments[0]))


@pytest.fixture
def opened():
    """The path of every file that Python opens while the test runs."""
    global _OPENED
    if not hasattr(sys, "_berds_listening"):
        sys.addaudithook(_listen)
        sys._berds_listening = True
    _OPENED = []
    yield _OPENED
    _OPENED = None


# (examples, share that support) of each source on the files of BERDS_DATA.
REAL = {
    "debates": (23482, 0.335), "stances": (39098, 0.380), "key_points": (37596, 0.287), "claims": (6948, 0.500),
    "neutral": (2478, 0.0), "beliefs": (5532, 0.500), "sample": (326, 0.319),
}  # fmt: skip


@pytest.mark.real_data
@pytest.mark.parametrize("name", SOURCES)
def test_sources_on_the_real_data(real_data, opened, name):
    examples = build([name])
    share = np.mean([e.supports for e in examples])
    assert len(examples) == pytest.approx(REAL[name][0], rel=0.03) and share == pytest.approx(REAL[name][1], abs=0.02)
    assert {e.supports for e in examples} == ({False} if name == "neutral" else {True, False})
    assert all(e.document.strip() and e.statement.strip() and e.topic.strip() for e in examples)
    # What judges are measured on is never opened, nor are the development questions of the paper.
    read = {path for path in opened if path.startswith(str(real_data))}
    assert bool(read) == (name != "sample")
    assert not any("/berds/" in path or "pers_det" in path for path in opened)


@pytest.mark.real_data
def test_a_pair_has_one_label(real_data):
    """But for a handful: one title stands over arguments of both sides."""
    labels = {}
    for e in build(SOURCES):
        labels.setdefault(e[:2], set()).add(e.supports)
    assert len(labels) > 100_000
    assert sum(len(both) > 1 for both in labels.values()) <= 10


def test_what_quotes_a_held_out_passage_is_not_trained_on():
    """A window on another topic that overlaps with a held-out passage by a dozen words would teach it."""
    held = next(f"topic {i}" for i in range(100) if is_held_out(f"topic {i}"))
    others = [f"topic {i}" for i in range(100) if not is_held_out(f"topic {i}")]
    words = [f"w{i}" for i in range(40)]
    passage = " ".join(words[:30])
    rows = [
        Example(passage, "s0", True, held, "x"),
        Example("A start. " + " ".join(words[10:22]).upper() + ", an end.", "s1", True, others[0], "quotes twelve"),
        Example("A start. " + " ".join(words[10:21]) + ", an end.", "s2", True, others[1], "quotes eleven"),
        Example("Nothing of it.", "s3", True, others[2], "other"),
    ]

    def encode(texts):
        return np.eye(128, dtype=np.float32)[[int(re.sub(r"\D", "", t)) for t in texts]]

    training, held_out = split_by_topic(rows, encode)
    assert [e.kind for e in training] == ["quotes eleven", "other"] and held_out == rows[:1]
    beside = [Example("Nothing of it.", "s", True, others[3], "measured as well")]
    assert [e.kind for e in split_by_topic(rows, encode, beside=beside)[0]] == ["quotes eleven"]
    same_topic = [Example("Something else.", "s", True, others[1], "measured as well")]
    assert [e.kind for e in split_by_topic(rows, encode, beside=same_topic)[0]] == ["other"]
