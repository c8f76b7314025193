#!/usr/bin/env python
"""Write a made-up release to the schema of PerspectiveArg 2024, in its size or any other, for tests, teaching and load.

    python scripts/synthetic_release.py FOLDER --arguments 600 --issues 12 --seed 3

The shared task's own data is given out on request only. This generator makes as much as anybody wants of the same form:
arguments in German, French and Italian with profiles of authors who do not exist, and the queries of the three
scenarios. Text follows profile by SIGNALS, so that a system can learn to tell authors from what they write, and never
fully. Scores on it show how methods behave, and are no finding about people or about the shared task.

The data set "perspectivearg-sample" (data/perspectivearg-sample, its files compressed) was made by:

    python scripts/synthetic_release.py FOLDER --arguments 1800 --issues 60 --seed 0 --name perspectivearg-sample
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from berdslib.data.arguments import (
    AUTHOR,
    CORPUS,
    ISSUES,
    MANIFEST,
    PROPERTIES,
    READER,
    SPLITS,
    Argument,
    ArgumentQuery,
    Profile,
    Release,
    read_manifest,
)
from berdslib.data.tables import write_jsonl
from berdslib.errors import BerdsError, InputError, known
from berdslib.files import StrPath, atomic_path, write_text

WORDS = Path(__file__).with_name("synthetic_words")

# ---------------------------------------------------------------- what is argued about

# An issue is one thing with one measure that suits it. All things are plural, so that one wording of a measure fits
# each: German nouns stand without an article (and in the dative behind "von", "mit", "bei"), French ones behind "les",
# Italian ones behind the article that they are written with.

LANGUAGES = ("de", "fr", "it")

# What a measure does, which some sentences depend on: restrict; expand or pay for; loosen or lower.
RESTRICT, EXPAND, LOOSEN = "R", "E", "L"


# The eight political issues of a profile, each by a word of our own.
EIGHT_ISSUES = {
    "abroad": "open foreign policy",
    "economy": "liberal economic policy",
    "finances": "restrictive financial policy",
    "order": "law & order",
    "migration": "restrictive migration policy",
    "environment": "expanded environmental protection",
    "welfare": "expanded welfare state",
    "society": "liberal society",
}
# Kind of thing → which of the eight political issues somebody would bring up in an argument about it.
GROUNDS = {
    "harm": "environment economy society order abroad",
    "vice": "economy society order welfare",
    "service": "welfare finances economy society migration",
    "energy": "environment economy finances abroad welfare",
    "price": "welfare economy finances migration",
    "income": "welfare finances economy migration",
    "tax": "finances economy welfare",
    "levy": "environment finances economy abroad welfare",
    "security": "order society migration finances abroad",
    "entry": "migration abroad society order economy",
    "right": "society order economy welfare",
    "nature": "environment order economy society",
    "trade": "abroad economy environment order",
}


class Thing(NamedTuple):
    """A plural noun: its kind, German (nominative and dative), French, Italian; and the side that a measure pleases.

    ``side`` turns the lean of a measure round where it is negative: lower rents please the left, lower taxes the right.
    """

    kind: str
    german: str
    dative: str
    french: str
    italian: str
    side: float = 1.0


class Measure(NamedTuple):
    """What could be done about things of some kinds.

    Args:
        kinds: of things, with blanks between them.
        does: RESTRICT, EXPAND or LOOSEN.
        lean: who is for it, from -1 (the left) to 1 (the right).
        de: an infinitive, the same with "zu", a question in the passive, a noun (feminine or neuter).
        fr: an infinitive, a noun (singular, not with "le").
        it: an infinitive, a noun (singular, with an indefinite article).
    """

    kinds: str
    does: str
    lean: float
    de: tuple[str, str, str, str]
    fr: tuple[str, str]
    it: tuple[str, str]


_ISSUES = tomllib.loads((WORDS / "measures.toml").read_text(encoding="utf-8"))
MEASURES = tuple(
    Measure(row["kinds"], row["does"], row["lean"], tuple(row["de"]), tuple(row["fr"]), tuple(row["it"]))
    for row in _ISSUES["measures"]
)
# How an issue is asked; {ask} is the passive, which only German has.
QUESTIONS: Mapping[str, Sequence[str]] = _ISSUES["questions"]

_WITH_ARTICLE = {
    "i": ("dei", "ai", "sui", "nei"),
    "gli": ("degli", "agli", "sugli", "negli"),
    "le": ("delle", "alle", "sulle", "nelle"),
}


def things() -> list[Thing]:
    """Return what can be argued about.

    Below each kind: German | dative where it differs | French | Italian | side where it is not 1.
    """
    found, kind = [], ""
    for line in (WORDS / "things.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            kind = line.lstrip("# ")
            continue
        german, dative, french, italian, *side = (part.strip() for part in line.split("|"))
        found.append(Thing(kind, german, dative or german, french, italian, *map(float, side)))
    return found


def grounds(thing: Thing) -> tuple[str, ...]:
    """Return the political issues from which one would argue about a thing."""
    return tuple(EIGHT_ISSUES[short] for short in GROUNDS[thing.kind].split())


def forms(thing: Thing, measure: Measure) -> dict[str, dict[str, str]]:
    """Return language → slot → words for one issue: what sentences and questions are filled with.

    >>> both = forms(things()[0], MEASURES[0])
    >>> both["de"]["zu"], both["fr"]["dinf"], both["it"]["noun"]
    ('Kurzstreckenflüge zu verbieten', "d'interdire les vols de courte distance", 'un divieto dei voli a corto raggio')
    """
    article, _, bare = thing.italian.partition(" ")
    of, to, on, into = _WITH_ARTICLE[article]
    german = {"o": thing.german, "dat": thing.dative}
    french = {"les": f"les {thing.french}", "des": f"des {thing.french}", "aux": f"aux {thing.french}"}
    italian = {
        "le": thing.italian,
        "delle": f"{of} {bare}",
        "alle": f"{to} {bare}",
        "sulle": f"{on} {bare}",
        "nelle": f"{into} {bare}",
    }
    german |= _filled(zip(("inf", "zu", "ask", "noun"), measure.de, strict=True), german)
    french |= _filled(zip(("inf", "noun"), measure.fr, strict=True), french)
    italian |= _filled(zip(("inf", "noun"), measure.it, strict=True), italian)
    french["dinf"] = ("d'" if re.match("[aeiouéèêh]", french["inf"]) else "de ") + french["inf"]
    return {"de": german, "fr": french, "it": italian}


def _filled(wordings: zip[tuple[str, str]], slots: dict[str, str]) -> dict[str, str]:
    return {name: wording.format_map(slots) for name, wording in wordings}


class Line(NamedTuple):
    """A sentence with open places, and the letters of the measures that it suits."""

    text: str
    suits: str = RESTRICT + EXPAND + LOOSEN


@cache
def banks(language: str) -> Mapping[str, tuple[Line, ...]]:
    """Return the banks of sentences of "de", "fr" or "it", by name; the three languages have the same.

    In a file, "#" begins the name of a bank, and each line below it is a sentence: ``[a|b]`` stands for one of several
    wordings, ``{slot}`` for words of the issue (see :func:`forms`), and ``RE:`` in front says that it only suits a
    measure that restricts (R), expands (E) or loosens (L). Nothing in the first person says whether a woman or a man
    speaks, apart from the bank of their own ("gender").

    >>> banks("it")["closing plain CON"][0].text
    'Quindi no.'
    """
    found: dict[str, tuple[Line, ...]] = {}
    name = ""
    for line in (WORDS / f"{language}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            name = line.lstrip("# ")
            found[name] = ()
        elif line:
            suits, text = re.fullmatch(r"(?:([REL]+): )?(.+)", line).groups()  # type: ignore[union-attr]
            found[name] += (Line(text, suits) if suits else Line(text),)
    return found


def swaps(language: str) -> Mapping[str, str]:
    """Return word → another for it that fits wherever it stands: how an edited copy differs."""
    return dict(line.text.split(" -> ") for line in banks(language)["swap"])


# ---------------------------------------------------------------- how text follows profile


class Signal(NamedTuple):
    """How far text follows a property: a probability, and in words what happens with it."""

    strength: float
    how: str


# The one place to turn: at 0 a property leaves no trace of its own in the wording. (Attitude also decides the stance.)
SIGNALS: Mapping[str, Signal] = {
    "political_attitude": Signal(
        0.45, "a sentence of values in the words of the author's camp (left-liberals borrow from both neighbours)"
    ),
    ISSUES: Signal(0.75, "the ground argued from is one of the author's issues, if the topic touches any of them"),
    "education": Signal(0.8, "the register is drawn for the author's education; otherwise for anybody's"),
    "age": Signal(0.3, "a sentence from the author's time of life"),
    "residence": Signal(0.25, "a sentence with places of the village or of the city"),
    "civil_status": Signal(0.06, "a sentence about living alone or together: nearly unlearnable, but for age"),
    "denomination": Signal(0.04, "a sentence on faith, the same for every faith: nearly unlearnable, but for language"),
    "gender": Signal(0.03, 'a sentence such as "als Bürgerin": nearly unlearnable'),
}
STRAY_ATTITUDE = 0.15  # where the author's own camp is not heard: a sentence of any camp, which misleads
PRO, CON = "PRO", "CON"
REGISTERS = ("plain", "middle", "academic")
# Of 100 texts by somebody with this education: how many are in which register.
_REGISTER_OF = {
    "apprenticeship": (70, 27, 3),
    "high school": (45, 45, 10),
    "bachelor": (20, 55, 25),
    "master": (10, 45, 45),
    "doctorate": (4, 26, 70),
}
_SECOND_GROUND = {"plain": 0.05, "middle": 0.2, "academic": 0.4}
_OPENING, _CLOSING, _FILLER = 0.85, 0.2, 0.1
# How an opening names the issue: by what is to be done with what, by the thing alone, or not at all.
_NAMED = {"measure": 0.35, "thing": 0.3, "nothing": 0.35}
_MEASURE_SLOTS = ("{inf}", "{zu}", "{noun}", "{dinf}")
_MOST_PERSONAL = 2  # sentences about oneself in one text

# ---------------------------------------------------------------- who writes

Shares = Mapping[str, float]
_LANGUAGE: Shares = {"de": 70, "fr": 22, "it": 8}
_GENDER: Shares = {"male": 56.5, "female": 42, "other": 1.5}
_AGE: Shares = {"18-34": 24, "35-49": 31, "50-64": 30, "65+": 15}
_RESIDENCE: Shares = {"countryside": 46, "city": 54}
_EDUCATION: Mapping[str, Shares] = {
    "countryside": {"apprenticeship": 38, "high school": 13, "bachelor": 24, "master": 21, "doctorate": 4},
    "city": {"apprenticeship": 22, "high school": 13, "bachelor": 25, "master": 31, "doctorate": 9},
}
_CIVIL_STATUS: Mapping[str, Shares] = {
    "18-34": {"single": 76, "married": 19, "divorced": 2, "widowed": 0.2, "registered partnership": 2.8},
    "35-49": {"single": 28, "married": 58, "divorced": 10, "widowed": 0.8, "registered partnership": 3.2},
    "50-64": {"single": 12, "married": 64, "divorced": 19, "widowed": 3.5, "registered partnership": 1.5},
    "65+": {"single": 7, "married": 62, "divorced": 16, "widowed": 14, "registered partnership": 1},
}
_DENOMINATION: Mapping[str, Shares] = {
    "de": {"catholic": 30, "protestant": 31, "none": 31, "muslim": 2.5, "jewish": 1.2, "other": 4.3},
    "fr": {"catholic": 37, "protestant": 20, "none": 33, "muslim": 3.5, "jewish": 1.2, "other": 5.3},
    "it": {"catholic": 58, "protestant": 6, "none": 28, "muslim": 2.5, "jewish": 1, "other": 4.5},
}
_ATTITUDE: Mapping[str, Shares] = {
    "countryside": {"left": 18, "left-liberal": 10, "centre": 19, "liberal": 21, "conservative": 32},
    "city": {"left": 33, "left-liberal": 18, "centre": 15, "liberal": 20, "conservative": 14},
}
# attitude → of each of the eight issues, how likely it is to matter
_MATTERS = {
    "left": (0.45, 0.04, 0.04, 0.05, 0.03, 0.7, 0.75, 0.5),
    "left-liberal": (0.6, 0.25, 0.12, 0.08, 0.05, 0.6, 0.4, 0.6),
    "centre": (0.35, 0.35, 0.3, 0.28, 0.2, 0.35, 0.35, 0.3),
    "liberal": (0.4, 0.75, 0.55, 0.22, 0.2, 0.15, 0.06, 0.45),
    "conservative": (0.06, 0.4, 0.45, 0.6, 0.65, 0.1, 0.12, 0.06),
}
VALUES: Mapping[str, tuple[str, ...]] = {
    "gender": tuple(_GENDER),
    "age": tuple(_AGE),
    "residence": tuple(_RESIDENCE),
    "education": tuple(_REGISTER_OF),
    "civil_status": tuple(_CIVIL_STATUS["65+"]),
    "denomination": tuple(_DENOMINATION["de"]),
    "political_attitude": tuple(_MATTERS),
    ISSUES: tuple(EIGHT_ISSUES.values()),
}
# From left to right: where two attitudes stand says how near they are, and who is for what.
_PLACE = {"left": -1.0, "left-liberal": -0.5, "centre": 0.0, "liberal": 0.5, "conservative": 1.0}
_LEANING = 0.4  # of 1, how much the chance that somebody is for a measure moves from .5
# How often a property is not given. Texts follow it all the same.
MISSING: Shares = {
    "gender": 0.05,
    "age": 0.06,
    "residence": 0.08,
    "education": 0.12,
    "civil_status": 0.15,
    "denomination": 0.3,
    "political_attitude": 0.1,
    ISSUES: 0.18,
}

# ---------------------------------------------------------------- how much there is

_ARGUMENTS_EACH = 10  # by one author, on different issues
_COPIED, _WORD_FOR_WORD = 0.05, 0.2  # of arguments, how many are copies; of these, how many are exact
_SAME_CAMP = 0.7  # of copies, how many are taken from somebody of the same attitude where there is one
QUERIES_EACH = 56 / 3  # perspective queries for an issue: 5,600 for 300
_TEST, _DEV = 0.2, 0.1
_QUESTION_LANGUAGE: Shares = {"de": 84, "fr": 12, "it": 4}
_FIRST_ID = 2019_000_001

# ---------------------------------------------------------------- readers

PANEL = 5  # readers with the property of a query; an argument is relevant if more than half of them pick it
# How likely a reader is to pick an argument: so much for anybody's, and up to so much more for a like-minded author's.
_ANYBODY, _LIKE_ATTITUDE, _LIKE_ISSUES = 0.05, 0.4, 0.45


# ---------------------------------------------------------------- the release


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticRelease(Release):
    """A release that remembers the seed it was made from."""

    seed: int = 0


class _Author(NamedTuple):
    language: str
    traits: Profile  # all eight
    shown: Profile  # those that are given

    @property
    def attitude(self) -> str:
        return self.traits["political_attitude"][0]


class _Issue(NamedTuple):
    question: str
    split: str
    does: str  # RESTRICT, EXPAND or LOOSEN
    lean: float  # -1: the left is for it; 1: the right is
    grounds: Sequence[str]  # the political issues that it touches
    words: Mapping[str, Mapping[str, str]]  # language → slot → words


class _Draft(NamedTuple):
    stance: str
    sentences: list[str]


class _Written(NamedTuple):
    """An argument before it has an id: on which issue, by which author (both by number)."""

    issue: int
    author: int
    stance: str
    text: str


class _Corpus(NamedTuple):
    topics: Sequence[_Issue]
    authors: Sequence[_Author]
    written: Sequence[_Written]  # in the order of their ids
    docnos: Sequence[str]
    on_issue: Sequence[Sequence[int]]  # of each topic, the numbers of the arguments on it


def make_release(
    *,
    seed: int = 0,
    arguments: int = 26_000,
    issues: int = 300,
    name: str = "synthetic",
    ranked_for: str = AUTHOR,
) -> Release:
    """Return a made-up release, always the same for the same parameters.

    There are :data:`QUERIES_EACH` perspective queries for an issue, for values that are drawn from those that some
    author on it has. With the same seed and sizes, the release ranked for readers has the same arguments as the one
    ranked for authors, and queries of the test split only.

    Args:
        seed: any whole number.
        arguments: how many; at least as many as issues.
        issues: how many, from 3 (one for each split) up to the 602 that the vocabulary has.
        name: what the release is called.
        ranked_for: "author" or "reader", see the card of "perspectivearg-sample".

    Raises:
        InputError: a number out of range, or an unknown `ranked_for`.
    """
    known("ranked_for", ranked_for, (AUTHOR, READER))
    _check_sizes(seed, arguments, issues)
    corpus = _make_corpus(seed, arguments, issues)
    splits = ("test",) if ranked_for == READER else SPLITS
    baseline = [_query(corpus, n + 1, n, {}, there) for n, there in enumerate(corpus.on_issue)]
    perspective = _perspective(corpus, seed)
    if ranked_for == READER:
        on = {topic.question: there for topic, there in zip(corpus.topics, corpus.on_issue, strict=True)}
        perspective = [_for_readers(corpus, on[q.text], q, seed) for q in perspective if q.split in splits]
    return SyntheticRelease(
        name,
        tuple(
            Argument(docno, one.text, corpus.topics[one.issue].question, one.stance, corpus.authors[one.author].shown)
            for docno, one in zip(corpus.docnos, corpus.written, strict=True)
        ),
        tuple(query for split in splits for query in baseline if query.split == split),
        tuple(query for split in splits for query in perspective if query.split == split),
        ranked_for,
        synthetic=True,
        number_ids=(True, True),
        seed=seed,
    )


def _check_sizes(seed: int, arguments: int, issues: int) -> None:
    for field, number in (("seed", seed), ("arguments", arguments), ("issues", issues)):
        if isinstance(number, bool) or not isinstance(number, int):
            raise InputError(f"a whole number was expected, not {number!r}", field=field)
    most = len(_suited())
    if not len(SPLITS) <= issues <= most:
        raise InputError(f"{issues} is out of range: from {len(SPLITS)} to {most}", field="issues")
    if arguments < issues:
        raise InputError(f"{arguments:,} are too few for {issues:,} issues: at least one for each", field="arguments")


def _dice(seed: int, what: str) -> random.Random:
    """Return dice of their own for each step, so that a change to one leaves the others as they fall."""
    return random.Random(f"{seed} {what}")


def _draw(shares: Shares, dice: random.Random) -> str:
    return dice.choices(tuple(shares), tuple(shares.values()))[0]


# ---------------------------------------------------------------- issues and authors


@cache
def _suited() -> list[tuple[Thing, Measure]]:
    return [(thing, measure) for thing in things() for measure in MEASURES if thing.kind in measure.kinds.split()]


def _make_issues(count: int, dice: random.Random) -> list[_Issue]:
    tests, devs = max(1, round(count * _TEST)), max(1, round(count * _DEV))
    splits = ["test"] * tests + ["dev"] * devs + ["train"] * (count - tests - devs)
    dice.shuffle(splits)
    found = []
    for (thing, measure), split in zip(dice.sample(_suited(), count), splits, strict=True):
        words = forms(thing, measure)
        language = _draw(_QUESTION_LANGUAGE, dice)
        question = _capital(dice.choice(QUESTIONS[language]).format_map(words[language]))
        found.append(_Issue(question, split, measure.does, measure.lean * thing.side, grounds(thing), words))
    return found


def _issue_sizes(arguments: int, issues: int, dice: random.Random) -> list[int]:
    """Return how many arguments each issue gets: one at least, some several times as many as others."""
    weights = [dice.lognormvariate(0, 0.45) for _ in range(issues)]
    reached = [0.0, *accumulate(weights)]
    ends = [round(end / reached[-1] * (arguments - issues)) for end in reached]
    return [1 + end - start for start, end in pairwise(ends)]


def _make_author(dice: random.Random) -> _Author:
    language, residence, age = _draw(_LANGUAGE, dice), _draw(_RESIDENCE, dice), _draw(_AGE, dice)
    attitude = _draw(_ATTITUDE[residence], dice)
    matter = [issue for issue, p in zip(VALUES[ISSUES], _MATTERS[attitude], strict=True) if dice.random() < p]
    single = {
        "gender": _draw(_GENDER, dice),
        "age": age,
        "residence": residence,
        "education": _draw(_EDUCATION[residence], dice),
        "civil_status": _draw(_CIVIL_STATUS[age], dice),
        "denomination": _draw(_DENOMINATION[language], dice),
        "political_attitude": attitude,
    }
    traits = {name: (value,) for name, value in single.items()} | {
        ISSUES: tuple(matter or [dice.choice(VALUES[ISSUES])])
    }
    shown = {name: values for name, values in traits.items() if dice.random() >= MISSING[name]}
    return _Author(language, MappingProxyType(traits), MappingProxyType(shown))


# ---------------------------------------------------------------- texts


def _make_corpus(seed: int, arguments: int, issues: int) -> _Corpus:
    topics = _make_issues(issues, _dice(seed, "issues"))
    sizes = _issue_sizes(arguments, issues, _dice(seed, "sizes"))
    dice = _dice(seed, "authors")
    authors = [_make_author(dice) for _ in range(max(arguments // _ARGUMENTS_EACH, 2 * max(sizes)))]
    dice = _dice(seed, "texts")
    written = [
        one for n, topic in enumerate(topics) for one in _write_on(topic, n, _some(authors, sizes[n], dice), dice)
    ]
    # Ids say nothing of issue or author: they are given in an order that has been shuffled.
    _dice(seed, "order").shuffle(written)
    on_issue: list[list[int]] = [[] for _ in topics]
    for number, one in enumerate(written):
        on_issue[one.issue].append(number)
    return _Corpus(topics, authors, written, [str(_FIRST_ID + number) for number in range(arguments)], on_issue)


def _some(authors: Sequence[_Author], count: int, dice: random.Random) -> list[tuple[int, _Author]]:
    return [(number, authors[number]) for number in dice.sample(range(len(authors)), count)]


def _write_on(
    topic: _Issue, number: int, writers: Sequence[tuple[int, _Author]], dice: random.Random
) -> Iterator[_Written]:
    """Yield one argument of each writer; some copy from a writer before them, in the same language."""
    originals: dict[str, list[tuple[_Author, _Draft]]] = {language: [] for language in LANGUAGES}
    for at, author in writers:
        there = originals[author.language]
        if there and dice.random() < _COPIED:
            draft = _copy(there, author, dice)
        else:
            draft = _make_draft(author, topic, dice)
            there.append((author, draft))
        yield _Written(number, at, draft.stance, " ".join(draft.sentences))


def _copy(originals: Sequence[tuple[_Author, _Draft]], author: _Author, dice: random.Random) -> _Draft:
    camp = [draft for other, draft in originals if other.attitude == author.attitude]
    everybody = [draft for _, draft in originals]
    draft = dice.choice(camp if camp and dice.random() < _SAME_CAMP else everybody)
    return draft if dice.random() < _WORD_FOR_WORD else _edited(draft, author.language, dice)


def _edited(draft: _Draft, language: str, dice: random.Random) -> _Draft:
    """Return a text with some words changed, or where there are none to change, with one more sentence."""
    other = swaps(language)
    pattern = _any_of(language)
    changed = [pattern.sub(lambda m: other[m[0]] if dice.random() < 0.7 else m[0], one) for one in draft.sentences]
    if changed == draft.sentences:
        endings = [line.text for line in banks(language)[f"closing plain {draft.stance}"]]
        changed.append(dice.choice([one for one in endings if one not in changed]))
    return _Draft(draft.stance, changed)


@cache
def _any_of(language: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, swaps(language)), key=len, reverse=True))})\b")


def _make_draft(author: _Author, topic: _Issue, dice: random.Random) -> _Draft:
    """Return a text as :data:`SIGNALS` say."""
    stance = PRO if dice.random() < 0.5 + _LEANING * topic.lean * _PLACE[author.attitude] else CON
    register = _register(author, dice)

    def say(bank: str, among: Sequence[Line] | None = None) -> str:
        lines = banks(author.language)[bank] if among is None else among
        line = dice.choice([one for one in lines if topic.does in one.suits])
        wording = _CHOICE.sub(lambda m: dice.choice(m[1].split("|")), line.text)
        return _capital(wording.format_map(topic.words[author.language]))

    beginning = []
    if dice.random() < _OPENING:
        bank = f"opening {register} {stance}"
        beginning.append(say(bank, _by_naming(author.language, bank)[_draw(_NAMED, dice)]))
    middle = [say(f"ground {ground} {stance}") for ground in _grounds(author, topic, register, dice)]
    if camp := _camp(author, dice):
        middle.append(say(f"attitude {camp} {stance}"))
    dice.shuffle(middle)
    end = [say(bank) for bank in _personal(author, dice)]
    if dice.random() < _FILLER:
        end.append(say("filler"))
    if dice.random() < _CLOSING:
        end.append(say(f"closing {register} {stance}"))
    return _Draft(stance, beginning + middle + end)


_CHOICE = re.compile(r"\[([^]]*)\]")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


@cache
def _by_naming(language: str, bank: str) -> Mapping[str, Sequence[Line]]:
    """Return what an opening names of the issue → the openings of a bank that do."""
    found: dict[str, list[Line]] = {named: [] for named in _NAMED}
    for line in banks(language)[bank]:
        measure = any(slot in line.text for slot in _MEASURE_SLOTS)
        found["measure" if measure else "thing" if "{" in line.text else "nothing"].append(line)
    return found


def _register(author: _Author, dice: random.Random) -> str:
    (education,) = author.traits["education"]
    if dice.random() >= SIGNALS["education"].strength:
        education = dice.choice(VALUES["education"])
    return dice.choices(REGISTERS, _REGISTER_OF[education])[0]


def _grounds(author: _Author, topic: _Issue, register: str, dice: random.Random) -> list[str]:
    """Return one or two of the political issues that a topic touches, to argue from: mostly the author's own."""
    fitting = [one for one in author.traits[ISSUES] if one in topic.grounds] or topic.grounds
    count = 2 if dice.random() < _SECOND_GROUND[register] else 1
    own = SIGNALS[ISSUES].strength
    chosen = [dice.choice(fitting if dice.random() < own else topic.grounds) for _ in range(count)]
    return list(dict.fromkeys(chosen))


def _camp(author: _Author, dice: random.Random) -> str | None:
    """Return whose values a text speaks of, if it speaks of any."""
    if dice.random() < SIGNALS["political_attitude"].strength:
        return dice.choice(_CAMPS.get(author.attitude, (author.attitude,)))
    return dice.choice(_WITH_SENTENCES) if dice.random() < STRAY_ATTITUDE else None


# Left-liberals have no sentences of their own.
_CAMPS = {"left-liberal": ("left", "liberal")}
_WITH_SENTENCES = tuple(attitude for attitude in VALUES["political_attitude"] if attitude not in _CAMPS)


def _personal(author: _Author, dice: random.Random) -> list[str]:
    """Return the banks of the sentences that a text says about its author."""
    found = []
    for name in ("age", "residence", "civil_status", "denomination", "gender"):
        if dice.random() < SIGNALS[name].strength:
            (value,) = author.traits[name]
            if name == "denomination" and value != "none":
                value = "believer"
            found.append(f"{name} {value}")
    return found if len(found) <= _MOST_PERSONAL else dice.sample(found, _MOST_PERSONAL)


# ---------------------------------------------------------------- queries and answers


def _query(corpus: _Corpus, qid: int, issue: int, asked: Profile, relevant: Sequence[int]) -> ArgumentQuery:
    topic = corpus.topics[issue]
    docnos = tuple(corpus.docnos[number] for number in relevant)
    return ArgumentQuery(str(qid), topic.question, topic.split, MappingProxyType(asked), docnos)


def _perspective(corpus: _Corpus, seed: int) -> list[ArgumentQuery]:
    found: list[ArgumentQuery] = []
    for issue, there in enumerate(corpus.on_issue):
        holders = _holders(corpus, there)
        wanted = round((issue + 1) * QUERIES_EACH) - round(issue * QUERIES_EACH)
        for name, value in _some_values(holders, wanted, _dice(seed, f"queries {issue}")):
            qid = len(corpus.topics) + len(found) + 1
            found.append(_query(corpus, qid, issue, {name: (value,)}, holders[name, value]))
    return found


def _holders(corpus: _Corpus, there: Sequence[int]) -> dict[tuple[str, str], list[int]]:
    """Return (property, value) → the arguments among these whose author gives it."""
    found: dict[tuple[str, str], list[int]] = {}
    for number in there:
        for name, values in corpus.authors[corpus.written[number].author].shown.items():
            for value in values:
                found.setdefault((name, value), []).append(number)
    return found


def _some_values(held: Collection[tuple[str, str]], count: int, dice: random.Random) -> list[tuple[str, str]]:
    every = [(name, value) for name in PROPERTIES for value in VALUES[name] if (name, value) in held]
    return [every[at] for at in sorted(dice.sample(range(len(every)), min(count, len(every))))]


def _for_readers(corpus: _Corpus, there: Sequence[int], query: ArgumentQuery, seed: int) -> ArgumentQuery:
    """Return a query with other answers: what most of a panel pick on its issue, or the one argument most picked."""
    dice = _dice(seed, f"readers {query.qid}")
    ((name, (value,)),) = query.asked.items()
    panel = dice.choices([one for one in corpus.authors if value in one.traits[name]], k=PANEL)
    picks = {}
    for number in there:
        author = corpus.authors[corpus.written[number].author]
        picks[corpus.docnos[number]] = sum(dice.random() < _appeal(author, reader) for reader in panel)
    chosen = [docno for docno, count in picks.items() if count > PANEL / 2]
    return query._replace(relevant=tuple(chosen or [max(picks, key=picks.__getitem__)]))


def _appeal(author: _Author, reader: _Author) -> float:
    """Return how likely a reader is to pick an argument of this author."""
    near = 1 - abs(_PLACE[author.attitude] - _PLACE[reader.attitude]) / 2
    ours, theirs = set(reader.traits[ISSUES]), set(author.traits[ISSUES])
    return _ANYBODY + _LIKE_ATTITUDE * near + _LIKE_ISSUES * len(ours & theirs) / len(ours | theirs)


# ---------------------------------------------------------------- writing


def write_release(folder: StrPath, release: Release) -> None:
    """Write a release as its owners lay it out, so that :func:`~berdslib.data.arguments.read_release` reads it.

    The folder appears under its name only when it is complete.

    Args:
        folder: to make; one that holds an earlier synthetic release is replaced.
        release: arguments and queries.

    Raises:
        InputError: nothing can be written there, or another folder is there.
    """
    _check_replaceable(Path(folder))
    with atomic_path(Path(folder), MANIFEST) as unfinished:
        number, query_number = (int if numbers else str for numbers in release.number_ids)
        write_jsonl(unfinished / CORPUS, (_argument_row(one, number) for one in release.arguments))
        for kind, queries in (("baseline", release.baseline), ("perspective", release.perspective)):
            for split in SPLITS:
                if rows := [_query_row(one, number, query_number) for one in queries if one.split == split]:
                    write_jsonl(unfinished / f"{kind}-queries" / f"queries_{split}.jsonl", rows)
        about = {"name": release.name, "synthetic": release.synthetic, "ranked_for": release.ranked_for}
        if isinstance(release, SyntheticRelease):
            about["seed"] = release.seed
        with write_text(unfinished / MANIFEST) as file:
            file.write(json.dumps(about, ensure_ascii=False) + "\n")


def _check_replaceable(folder: Path) -> None:
    """Refuse a folder with a release that cannot be made again; its owners' data may have a manifest, too."""
    manifest = folder / MANIFEST
    if manifest.is_file() and not read_manifest(manifest).get("synthetic", False):
        raise InputError("holds a release that is not synthetic; it is not replaced", path=folder)


_Number = Callable[[str], int | str]


def _argument_row(one: Argument, number: _Number) -> dict[str, Any]:
    row: dict[str, Any] = {"argument_id": number(one.docno), "text": one.text, "target": one.issue}
    if one.stance:
        row["stance"] = one.stance
    return row | {"demographic_profile": _plain(one.profile)}


def _query_row(one: ArgumentQuery, number: _Number, query_number: _Number) -> dict[str, Any]:
    row: dict[str, Any] = {"query_id": query_number(one.qid), "text": one.text}
    if one.asked:
        row["demographic_properties"] = _plain(one.asked)
    if one.relevant is not None:
        row["relevant_candidates"] = [number(docno) for docno in one.relevant]
    return row


def _plain(profile: Profile) -> dict[str, Any]:
    return {name: list(values) if name == ISSUES else values[0] for name, values in profile.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a synthetic release of PerspectiveArg to a folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arguments", type=int, default=26_000, help="how many [26000]")
    parser.add_argument("--issues", type=int, default=300, help="questions that they answer [300]")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same release [0]")
    parser.add_argument("--name", default="synthetic", help="what it is called [synthetic]")
    parser.add_argument("--ranked-for", choices=(AUTHOR, READER), default=AUTHOR, help=f"[{AUTHOR}]")
    options = vars(parser.parse_args())
    folder = options.pop("folder")
    try:
        release = make_release(**options)
        write_release(folder, release)
    except BerdsError as error:
        parser.error(str(error))
    print(f"{release!r} → {folder}")


if __name__ == "__main__":
    main()
