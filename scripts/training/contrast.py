"""Training pairs in which one thing decides: a sentence more or less, who says it, one word of the statement.

In most pairs of ``pairs.py`` the topic, the length or the style gives the answer away. Here
both answers come with the same words around them. All of it is made by rule from the same public sources, so a few
labels in a hundred are wrong; a neighbouring passage that argues after all is the commonest reason.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from berdslib.data.tables import read_jsonl, read_table
from berdslib.errors import InputError, known
from berdslib.judging.examples import Example
from berdslib.statements import negate
from training.pairs import SOURCES, WINDOW_WORDS, article_id, data_file, mixture, read_json, share_of, window

# Draws of each kind from each side of a debate.
DRAWS = 3


class Debate(NamedTuple):
    """A claim and what is said for it (``points[True]``) and against it, in groups that make the same point."""

    claim: str
    points: dict[bool, list[list[str]]]


class Trio(NamedTuple):
    """A sentence, one for the other side, and one for the same side that makes another point."""

    own: str
    opposing: str
    beside: str


# ---------------------------------------------------------------- material


def debates() -> list[Debate]:
    """Return the debates of Perspectrum and ArgKP-2021 in which both sides make at least two points."""
    found = [d._replace(claim=proposal(d.claim)) for d in (*_perspectrum(), *_argkp()) if not _ASKING.match(d.claim)]
    return [d for d in found if all(len(d.points[side]) > 1 for side in (True, False))]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ASKING = re.compile(r"(?:should|does|do you|is|are|can|what|which|who|how|why)\b|.*\?$", re.IGNORECASE)
# Verbs that claims begin with ("Abolish …"), which no rule can negate as they stand.
_DEMANDS = _words(
    "abolish act allow ban boycott build create cut deny disclose discipline eliminate encourage force grant "
    "institute introduce invest keep kill legalize make open pay penalise permit prioritize promote protect provide "
    "put raise remove send stop store subsidise subsidize take throw treat use widen"
)

# "Force has to be used": there the verb is a noun.
_AFTER_NOUNS = _words("has have is are was were will would should must can could may of and or in")


def proposal(claim: str) -> str:
    """Return a claim that demands something as one that says so; other claims as they are.

    >>> proposal("Abolish nuclear weapons"), proposal("Force has to be used")
    ('We should abolish nuclear weapons', 'Force has to be used')
    """
    first, second = [*claim.lower().split(), "", ""][:2]
    demanded = first in _DEMANDS and second not in _AFTER_NOUNS
    return f"We should {clause(claim)}" if demanded else claim


def _perspectrum() -> Iterator[Debate]:
    pool = {row["pId"]: row["text"].strip() for row in read_json(data_file("perspectrum", 1))}
    for claim in read_json(data_file("perspectrum", 0)):
        points: dict[bool, list[list[str]]] = {True: [], False: []}
        for cluster in claim["perspectives"]:
            texts = [pool[pid] for pid in cluster["pids"] if pool.get(pid)]
            if texts:
                points[cluster["stance_label_3"] == "SUPPORT"].append(texts)
        yield Debate(claim["text"].strip(), points)


def _argkp() -> Iterator[Debate]:
    path = data_file("argkp")
    groups: dict[str, dict[bool, dict[str, list[str]]]] = defaultdict(lambda: {True: {}, False: {}})
    for _, row in read_table(path):
        topic, argument, point = (row.text(f) for f in ("topic", "argument", "key_point"))
        if row["label"] == "1":
            groups[topic][row["stance"] == "1"].setdefault(point, [point]).append(argument)
    for topic, sides in groups.items():
        yield Debate(topic, {side: list(texts.values()) for side, texts in sides.items()})


class Surroundings:
    """Neutral Wikipedia text: windows in which nobody found a claim; near a topic, or anywhere.

    Args:
        windows: texts of about 100 words.
        near: so many of the windows that share most with a topic are drawn from.
    """

    def __init__(self, windows: Sequence[str], near: int = 20) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._windows, self._near = list(windows), near
        self._weigh = TfidfVectorizer(stop_words="english", sublinear_tf=True)
        self._weights = self._weigh.fit_transform(self._windows)
        self._known: dict[str, list[str]] = {}

    def about(self, topic: str, draw: random.Random) -> str:
        """Return a window that shares words with the topic."""
        if topic not in self._known:
            scores = (self._weights @ self._weigh.transform([topic]).T).toarray()[:, 0]
            self._known[topic] = [self._windows[i] for i in scores.argsort(kind="stable")[::-1][: self._near]]
        return draw.choice(self._known[topic])

    def anywhere(self, draw: random.Random) -> str:
        """Return any window."""
        return draw.choice(self._windows)


def neutral_windows(draw: random.Random, per_article: int = 12) -> list[str]:
    """Return windows of Wikipedia articles that hold none of the claims that people found in them."""
    found: dict[str, set[str]] = defaultdict(set)
    for _, row in read_table(data_file("claim-stance")):
        found[article_id(row["claims.article.rawFile"])].add(" ".join(row["claims.claimOriginalText"].split()).lower())
    windows = []
    for _, row in read_jsonl(data_file("wikipedia-articles")):
        text = " ".join(row["text"].replace("[REF]", " ").split()).replace(" .", ".").replace(" ,", ",")
        for _ in range(per_article):
            part = window(text, draw)
            prose = len(part.split()) == WINDOW_WORDS and "|" not in part
            if prose and not any(claim in part.lower() for claim in found[row["_id"]]):
                windows.append(part)
    return list(dict.fromkeys(windows))


# ---------------------------------------------------------------- putting passages together


def place(core: str, around: str, draw: random.Random, words: int = WINDOW_WORDS) -> str:
    """Return a passage of at most so many words with the core between two sentences of what is around it.

    Args:
        core: what the passage is about; never cut.
        around: other text.
        draw: where the core goes.
        words: of the passage.
    """
    room = max(0, words - len(core.split()))
    sentences = split_sentences(around)
    at = draw.randint(0, len(sentences))
    before, after = " ".join(sentences[:at]).split(), " ".join(sentences[at:]).split()
    lead = min(len(before), draw.randint(0, room))
    lead = max(lead, min(len(before), room - len(after)))  # what the end does not fill, the beginning does
    return " ".join([*before[len(before) - lead :], core, *after[: room - lead]])


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, as far as a rule can tell.

    >>> split_sentences("Dr. Low won. Was it fair? It was.")
    ['Dr. Low won.', 'Was it fair?', 'It was.']
    """
    rough = re.split(r"(?<=[.!?])\s+(?=[A-Z\"“'])", text.strip())
    found: list[str] = []
    for part in rough:
        if found and re.search(r"\b(?:[A-Z]|[DMS]rs?|vs|e\.g|i\.e|U\.S|No|Inc|St)\.$", found[-1]):
            found[-1] += f" {part}"
        else:
            found.append(part)
    return [part for part in found if part]


def sentence(text: str) -> str:
    """Return a text that begins with a capital and ends with a full stop or its like."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")


def clause(text: str) -> str:
    """Return a text as it stands behind "that": no full stop, no capital but of an acronym or "I".

    >>> clause("Zoos are cruel."), clause("UBI works"), clause("A cage is no home.")
    ('zoos are cruel', 'UBI works', 'a cage is no home')
    """
    text = text.strip().rstrip(".!? ")
    lowered = text[1:2].islower() or text.startswith("A ")
    return (text[:1].lower() if lowered else text[:1]) + text[1:]


def trios(debate: Debate, draw: random.Random, side: bool) -> Iterator[Trio]:
    """Yield sentences that one side of a debate says, with others to tell them from."""
    own, other = debate.points[side], debate.points[not side]
    for _ in range(DRAWS):
        one, beside = draw.sample(own, 2)
        found = Trio(draw.choice(one), draw.choice(draw.choice(other)), draw.choice(beside))
        # A question asserts nothing, and what is said on both sides, or makes both points, tells nothing.
        both = found.own in beside or found.beside in one
        if len(set(found)) == 3 and not both and not any(text.endswith("?") for text in found):
            yield found


# ---------------------------------------------------------------- the kinds


def inserted(debate: Debate, trio: Trio, side: bool, around: Surroundings, draw: random.Random) -> Iterator[Example]:
    """Neutral text on the topic with one arguing sentence; with one of the other side; and as it was."""
    context, claim = around.about(debate.claim, draw), debate.claim
    yes = claim if side else negate(claim)
    argued = place(sentence(trio.own), context, draw)
    yield Example(argued, yes, True, claim, "contrast:inserted")
    yield Example(argued, trio.beside, False, claim, "contrast:inserted, other point")
    yield Example(place(sentence(trio.opposing), context, draw), yes, False, claim, "contrast:inserted, other side")
    yield Example(context, yes, False, claim, "contrast:cut")


_CITED = (
    "Some say that {}.", "Critics argue that {}.", "It is often claimed that {}.", "Opponents say that {}.",
    "Many people believe that {}.", "The usual argument is that {}.", "One often hears that {}.",
    "Those on the other side insist that {}.", "According to its advocates, {}.", "We are told that {}.",
)  # fmt: skip
_REFUTED = (
    "This is wrong. {}", "But {}", "However, {}", "That does not hold up. {}", "In fact, {}", "Yet {}",
    "The evidence says otherwise: {}", "This argument fails. {}", "Not so: {}", "This overlooks something. {}",
)  # fmt: skip
_ENDORSED = (
    "They are right. {}", "There is much truth in that. {}", "Indeed, {}", "And it is true: {}",
    "The evidence bears this out: {}", "We agree. {}",
)  # fmt: skip
_ALSO = ("Others say that {}.", "Opponents reply that {}.", "On the other hand, {}.", "Others object that {}.")


def _behind(pattern: str, text: str) -> str:
    """Return the pattern with a sentence in its place: small behind a comma or colon, capital behind a full stop."""
    return pattern.format(sentence(text) if pattern.endswith(". {}") else f"{clause(text)}.")


def refuted(debate: Debate, trio: Trio, side: bool, around: Surroundings, draw: random.Random) -> Iterator[Example]:
    """Cites a point of the other side in order to refute it; or one of its own in order to agree."""
    claim = debate.claim
    yes, no = (claim, negate(claim)) if side else (negate(claim), claim)
    against = f"{draw.choice(_CITED).format(clause(trio.opposing))} {_behind(draw.choice(_REFUTED), trio.own)}"
    agreeing = f"{draw.choice(_CITED).format(clause(trio.beside))} {_behind(draw.choice(_ENDORSED), trio.own)}"
    refuting, endorsing = (_sometimes_placed(text, claim, around, draw) for text in (against, agreeing))
    yield Example(refuting, yes, True, claim, "contrast:refutes the other side")
    yield Example(refuting, no, False, claim, "contrast:refuted side")
    yield Example(refuting, trio.opposing, False, claim, "contrast:refuted point")
    yield Example(endorsing, yes, True, claim, "contrast:cites its own side")
    yield Example(endorsing, trio.beside, True, claim, "contrast:endorsed point")


def both_sides(debate: Debate, trio: Trio, side: bool, around: Surroundings, draw: random.Random) -> Iterator[Example]:
    """Reports both sides: each point that is there is argued, and none that is not."""
    claim = debate.claim
    first = draw.choice(_CITED).format(clause(trio.own))
    also = draw.choice(_ALSO).format(clause(trio.opposing))
    document = _sometimes_placed(f"{first} {also}", claim, around, draw)
    yield Example(document, claim if side else negate(claim), True, claim, "contrast:both sides")
    yield Example(document, trio.opposing, True, claim, "contrast:both sides, second point")
    yield Example(document, trio.beside, False, claim, "contrast:both sides, other point")


_DENIED = (
    "It is false that {}.",
    "Nobody has ever shown that {}.",
    "It is not the case that {}.",
    "Is it true that {}?",
)


def copied(debate: Debate, trio: Trio, side: bool, around: Surroundings, draw: random.Random) -> Iterator[Example]:
    """Text on something else with the statement itself in it, copied or denied; and with an argument for it."""
    claim, elsewhere = debate.claim, around.anywhere(draw)
    statement = draw.choice([claim if side else negate(claim), trio.own])
    yield Example(place(sentence(statement), elsewhere, draw), statement, False, claim, "contrast:copied")
    denied = draw.choice(_DENIED).format(clause(statement))
    yield Example(place(denied, elsewhere, draw), statement, False, claim, "contrast:denied")
    if statement != trio.own:
        argued = f"{sentence(statement)} {sentence(trio.own)}"
        yield Example(place(argued, elsewhere, draw), statement, True, claim, "contrast:copied and argued")


# Each pair turns the other way round what it relates.
_OPPOSITES = (
    "increases decreases", "increase decrease", "raises lowers", "improves worsens", "improve worsen",
    "helps harms", "help harm", "good bad", "better worse", "best worst", "more less", "effective ineffective",
    "safe dangerous", "fair unfair", "legal illegal", "necessary unnecessary", "encourages discourages",
    "encourage discourage", "strengthens weakens", "strengthen weaken", "creates destroys", "create destroy",
    "positive negative", "advantages disadvantages", "benefits harms", "moral immoral", "ethical unethical",
    "healthy unhealthy", "causes prevents", "cause prevent", "promotes hinders", "promote hinder", "easy hard",
    "protects endangers", "protect endanger", "most few", "many few", "always never", "often rarely", "everyone nobody",
    "ban allow", "banned allowed", "cheaper dearer", "important unimportant",
    "useful useless", "successful unsuccessful", "responsible irresponsible", "beneficial harmful",
)  # fmt: skip
_SWAPS = {a: b for pair in _OPPOSITES for a, b in (pair.split(), reversed(pair.split()))}
_SWAPS |= {"reduces": "increases", "reduce": "increase"}  # what increases was turned into above has another opposite
_SWAPPED = re.compile(rf"\b(?:{'|'.join(sorted(_SWAPS, key=len, reverse=True))})\b")


def turned(statement: str) -> str | None:
    """Return the statement with one word in its opposite; None unless exactly one word is there to turn.

    >>> turned("Zoos are good for animals."), turned("Zoos educate.")
    ('Zoos are bad for animals.', None)
    """
    if len(_SWAPPED.findall(statement)) != 1:
        return None
    return _SWAPPED.sub(lambda found: _SWAPS[found[0]], statement)


def relation(debate: Debate, trio: Trio, side: bool, around: Surroundings, draw: random.Random) -> Iterator[Example]:
    """The statement, or what is said of it, with one word turned into its opposite: increases, decreases."""
    claim = debate.claim
    group = next(texts for texts in debate.points[side] if trio.own in texts)
    document = _sometimes_placed(sentence(trio.own), claim, around, draw)
    for statement in (draw.choice(group), claim if side else negate(claim)):
        changed = turned(statement)
        if changed and statement != trio.own and not _ASKING.match(statement):
            yield Example(document, statement, True, claim, "contrast:relation kept")
            yield Example(document, changed, False, claim, "contrast:relation turned")


KINDS: dict[str, Callable[[Debate, Trio, bool, Surroundings, random.Random], Iterator[Example]]] = {
    "inserted": inserted,
    "refuted": refuted,
    "both sides": both_sides,
    "copied": copied,
    "relation": relation,
}


def _sometimes_placed(core: str, topic: str, around: Surroundings, draw: random.Random) -> str:
    """Return the core alone or in neutral text on the topic, with equal chance."""
    return place(core, around.about(topic, draw), draw) if draw.random() < 0.5 else core


# ---------------------------------------------------------------- entailment


def explanations(draw: random.Random) -> Iterator[Example]:
    """EX-FEVER: sentences that support a claim together, and not without one of them; a claim with another number."""
    path = data_file("ex-fever")
    for _, row in read_table(path):
        claim, explanation = (row.text(f) for f in ("claim", "explanation"))
        supported = row["label"] == "SUPPORT"
        yield Example(explanation, claim, supported, claim, "explanation")
        if supported:
            yield Example(explanation, negate(claim), False, claim, "explanation:negated")
            without = drop_needed(explanation, claim, draw)
            if without:
                yield Example(without, claim, False, claim, "explanation:one sentence dropped")
            changed = other_number(claim, explanation, draw)
            if changed:
                yield Example(explanation, changed, False, claim, "explanation:other number")


def drop_needed(explanation: str, claim: str, draw: random.Random) -> str | None:
    """Return the explanation without one sentence that alone says some of the claim's words; None if there is none.

    Args:
        explanation: several sentences.
        claim: what they support together.
        draw: which of the needed sentences goes.
    """
    sentences = split_sentences(explanation)
    words = [_content(one) for one in sentences]
    wanted = _content(claim)
    needed = []
    for i, own in enumerate(words):
        rest = set().union(*words[:i], *words[i + 1 :])
        if len((own - rest) & wanted) >= 2:
            needed.append(i)
    if len(sentences) < 2 or not needed:
        return None
    gone = draw.choice(needed)
    return " ".join(sentences[:gone] + sentences[gone + 1 :])


def other_number(claim: str, explanation: str, draw: random.Random) -> str | None:
    """Return the claim with a number changed that the explanation confirms; None without such a number."""
    numbers = [n for n in re.findall(r"\b\d{2,4}\b", claim) if re.search(rf"\b{n}\b", explanation)]
    if not numbers:
        return None
    old = draw.choice(numbers)
    new = str(max(10, int(old) + draw.choice([-9, -5, -3, -2, 2, 3, 4, 7])))
    return None if new == old else re.sub(rf"\b{old}\b", new, claim, count=1)


def _content(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) > 3 or word.isdigit()}


# ---------------------------------------------------------------- for a pupil

UNLABELLED = "unlabelled"


def unlabelled(draw: random.Random, windows: int = 4, points: int = 3) -> Iterator[Example]:
    """Passages that share words with a claim, with the claim, its negation and points on it, for a teacher to label.

    Half of the passages are debate arguments on this claim or another, half are from Wikipedia.

    Args:
        draw: of passages and points.
        windows: passages for each claim, an even number.
        points: of those made on the claim, for each passage.
    """
    arguments = [window(row["text"], draw) for _, row in read_jsonl(data_file("perspectrum-debates"))]
    around = [Surroundings(arguments), Surroundings(neutral_windows(draw))]
    for debate in debates():
        said = [text for side in (True, False) for group in debate.points[side] for text in group]
        for i in range(windows):
            document = around[i % 2].about(debate.claim, draw)
            for statement in (debate.claim, negate(debate.claim), *draw.sample(said, min(points, len(said)))):
                yield Example(document, statement, False, debate.claim, UNLABELLED)


# ---------------------------------------------------------------- all of it


def contrasts(names: Iterable[str] = tuple(KINDS), seed: int = 0, *, per_article: int = 12) -> list[Example]:
    """Return the contrasts of the named kinds, in a drawn order; both sides of every debate are drawn from alike.

    Args:
        names: of ``KINDS``.
        seed: of every draw.
        per_article: windows drawn from each Wikipedia article for what is put around sentences.

    Raises:
        InputError: an unknown kind, or no debates.
        MissingDataError: a data set that is not on this machine.
    """
    found = [e for of_kind in _by_name(names, seed, per_article).values() for e in of_kind]
    random.Random(seed).shuffle(found)
    return found


def _by_name(names: Iterable[str], seed: int, per_article: int = 12) -> dict[str, list[Example]]:
    """Return name → contrasts of that kind, the same whatever others are asked for with it."""
    kinds = {name: KINDS[known("kind of contrast", name, KINDS)] for name in names}
    around = Surroundings(neutral_windows(random.Random(f"{seed} around"), per_article))
    there = debates()
    if not there:
        raise InputError("no debate has two points on either side")
    found: dict[str, list[Example]] = {}
    for name, kind in kinds.items():
        draw = random.Random(f"{seed} {name}")
        drawn = [
            example
            for debate in there
            for side in (True, False)
            for trio in trios(debate, draw, side)
            for example in kind(debate, trio, side, around, draw)
        ]
        found[name] = list(dict.fromkeys(drawn))
    return found


_DRAWN = {"entailment": explanations, UNLABELLED: unlabelled}


def mixed(shares: Mapping[str, float], seed: int = 0) -> list[Example]:
    """Return a drawn share of the documents of each source and of each kind of contrast, in a drawn order.

    Args:
        shares: source of pairs, kind of contrast, "entailment" (:func:`explanations`) or "unlabelled"
            (:func:`unlabelled`) → share, above 0 to 1.
        seed: of every draw; another seed cuts other windows.

    Raises:
        InputError: an unknown name, or a share that is none.
        MissingDataError: a data set that is not on this machine.
    """
    for name, share in shares.items():
        known("source of training pairs", name, [*SOURCES, *_DRAWN, *KINDS])
        if not 0 < share <= 1:
            raise InputError(f"must be above 0 and at most 1, not {share}", field=name)
    chosen = mixture({name: share for name, share in shares.items() if name in SOURCES}, seed)
    made = {
        name: list(dict.fromkeys(_DRAWN[name](random.Random(f"{seed} {name}")))) for name in shares if name in _DRAWN
    }
    if of_kinds := [name for name in shares if name in KINDS]:
        made |= _by_name(of_kinds, seed)
    for name, found in made.items():
        random.Random(seed).shuffle(found)
        chosen += share_of(found, shares[name])
    random.Random(seed).shuffle(chosen)
    return chosen
