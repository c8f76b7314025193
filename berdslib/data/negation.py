"""A statement and its opposite, made by rule: from a statement, and from a yes/no question."""

from __future__ import annotations

import re

_AUXILIARY = r"(?:should|must|will|would|can|could|is|are|was|were|does|do|did|has|have|had|may|might|shall|ought)"
# Behind "have" or "do" as the main verb ("have the right", "do more harm") a "not" would be no English.
_NO_AUXILIARY_BEFORE = r"\s+(?:the|an?|to|no|any|some|more|less|much|many|little|their|its|his|her|our|rights?|harm)\b"
# A verb behind these belongs to a part of the sentence only ("people who are rich should pay").
_UNSAFE = re.compile(
    r"\b(?:who|whose|whom|which|that|if|when|because|where|while|of the (?:will|can|may|might))\b|\bMay\b"
)
# What is negative already would become a double negative.
_NEGATIVE = re.compile(r"\b(?:never|neither|nor|nobody|no one|nothing|none|no|not|hardly)\b", re.IGNORECASE)


def negate(statement: str) -> str:
    """Return the statement with its first verb negated, or with its negation taken away.

    A rule of a few words: where it finds no auxiliary verb, or none that it is safe to touch, it says "It is not true
    that …". Meant for training and for search, where a few odd sentences in a hundred do no harm.

    >>> negate("Schools should ban phones.")
    'Schools should not ban phones.'
    >>> negate("Schools should not ban phones.")
    'Schools should ban phones.'
    >>> negate("Phones distract pupils.")
    'It is not true that phones distract pupils.'
    """
    text = statement.strip()
    for pattern, kept in (
        (rf"\b({_AUXILIARY}) not\b", r"\1"),
        (r"\b([Cc]a)nnot\b", r"\1n"),
        (r"\b([Cc]a)n['’]t\b", r"\1n"),
        (r"\b([Ww])on['’]t\b", r"\1ill"),
        (rf"\b({_AUXILIARY})n['’]t\b", r"\1"),
        (r"^It is not true that ", ""),
    ):
        if re.search(pattern, text):
            bare = re.sub(pattern, kept, text, count=1)
            return bare[:1].upper() + bare[1:]
    found = re.search(rf"\b{_AUXILIARY}\b(?!{_NO_AUXILIARY_BEFORE})", text)
    if found and not _UNSAFE.search(text[: found.end()]) and not _NEGATIVE.search(text):
        return f"{text[: found.end()]} not{text[found.end() :]}"
    # An acronym, or "I", keeps its capital.
    small = text[:1].lower() if text[1:2].islower() else text[:1]
    return f"It is not true that {small}{text[1:]}"


# ---------------------------------------------------------------- yes/no questions


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ASKING = re.compile(r"(should|would|will|can|could|must|do|does|did|is|are|was|were|has|have|had)\s+(.+)", re.I)
_OPINION = re.compile(
    r"(?:do|would|did) you (?:also )?(?:(?:think|believe|say)(?: that)?|(?:agree|feel) that) (?!(?:in|of|about)\b)(.+)",
    re.I,
)
_SAYING = re.compile(rf"[^?:]*\b{_AUXILIARY}\b[^?:]*", re.I)
# What is asked between two answers has no yes and no no.
_CHOICE = re.compile(r"\bor\b(?! not\b)|\bvs?\b", re.I)
_PRONOUNS = _words("i we you he she it they there this everyone anyone someone nobody")
# A word behind these belongs to what they begin: no verb can stand there.
_OPENERS = _words(
    "a an the to of in on at for from with by about between against without under over into through and or my your "
    "his her its our their this that these those no some any all each every more most less such as than whether"
)
# An adjective before these has no noun of its own.
_LINKS = _words(
    "to of in on at for from with by about between against without under over into through but than as that if when "
    "because within among across during toward towards enough today now here anymore"
)
_VERBS = _words(
    "abandon abolish accept acquire act add admit adopt advance affect aid allow apply appear attract avoid ban be "
    "become begin believe belong benefit bother break bring build call care carry cause cease change choose close "
    "come compete comply conduct consider continue contribute control cost count cover create cut deal decide decline "
    "decrease defend deliver demand deny depend deserve destroy develop disclose discourage discriminate do drop earn "
    "educate eliminate embrace empower encourage end enforce engage enhance ensure enter exclude exist expand expect "
    "extend face fail fall favor favour feel fight file focus follow force foster fund gain get give go govern grant "
    "grow happen harm have help hinder hold honor honour hurt ignore impact impose improve include increase infringe "
    "influence inhibit interfere intervene introduce invade invest join keep know lead learn leave let lie lift limit "
    "live look lose lower maintain make matter mean meet need negotiate offer outweigh own participate pass pay "
    "permit play pose present preserve prevent procreate prohibit promote protect prove provide punish pursue push "
    "put raise reach read receive reduce refrain refuse regulate reject rely remain remove replace represent require "
    "respect respond restrict result return rule run save see seek sell serve share show solve speak spend stand "
    "start stay stimulate stop strengthen strive succeed suffer supervise support survive take tax teach tell think "
    "threaten train transform travel treat trust try turn undermine understand use violate vote wait want watch "
    "weaken withdraw work worry"
)
# Verbs that are as often nouns: before another verb they are that ("should climate change be taught").
_NOUNS_TOO = _words(
    "act aid ban benefit care cause change control cost cover cut deal decline decrease demand drop end fall favor "
    "favour fight focus force fund gain grant harm help hold honor honour hurt impact increase influence leave limit "
    "matter need offer own pass play present push respect result return rule run share show stand start stop support "
    "tax train travel treat trust turn use vote work"
)
_MADE_VERBS = re.compile(r"[a-z]{3,}(?:i[sz]e|ify)")
_NO_VERBS = _words("exercise enterprise expertise promise premise paradise franchise merchandise otherwise")
_PARTICIPLES = _words(
    "been become begun broken brought built caught chosen come done drawn driven fallen felt found given gone got "
    "grown had held kept known led left lost made met paid proven put run seen sent set shown spent taken taught told "
    "won worked written"
)
_ADJECTIVES = _words(
    "bad better best clear crucial dead effective evil fair false free good great guilty hard healthy honest just key "
    "large likely mature new obsolete overrated racist real right safe sexist similar smart sound strong true unfair "
    "unjust vital weak worse worst worth wrong"
)
_ENDINGS = tuple(_words("ful able ible ive ous ary ical ant ent ed less ic ial ional ental"))
_ADVERBS = _words("also always ever still never truly")


def yes_and_no(question: str) -> tuple[str, str] | None:
    """Return a yes/no question as the statement that says yes, and as the one that says no.

    The verb moves behind the subject, whose end is guessed from a few hundred common words: there is no grammar here,
    and a few sentences in a hundred come out odd. A statement in place of a question is the yes itself. None for what
    no rule is sure of: a choice ("cats or dogs"), another kind of question, a subject without clear end.

    >>> yes_and_no("Should rich people pay more tax?")
    ('Rich people should pay more tax.', 'Rich people should not pay more tax.')
    >>> yes_and_no("Do you think that zoos are cruel?")
    ('Zoos are cruel.', 'Zoos are not cruel.')
    >>> yes_and_no("Which is better, tea or coffee?") is None
    True
    """
    text = " ".join(question.split()).rstrip("?. ")
    if _CHOICE.search(text):
        return None
    if opinion := _OPINION.fullmatch(text):
        yes = _sentence(opinion[1])
        return yes, negate(yes)
    asking = _ASKING.fullmatch(text)
    if not asking:
        said = "?" not in question and _SAYING.fullmatch(text)
        return (_sentence(text), negate(_sentence(text))) if said else None
    verb, words = asking[1].lower(), asking[2].split()
    end = _end_of_subject(verb, words)
    if end is None:
        return None
    subject, rest = " ".join(words[:end]), re.sub(r"^ever ", "", " ".join(words[end:]))
    return _sentence(f"{subject} {verb} {rest}"), _sentence(f"{subject} {verb} not {rest}")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _end_of_subject(verb: str, words: list[str]) -> int | None:
    """Return how many words the subject has, at least one and not all; None where no word tells."""
    low = [re.sub(r"[^\w'’-]", "", w).lower() for w in words]
    if low[0] in _PRONOUNS and len(low) > 1:
        return 1
    begins = _begins_is if verb in ("is", "are", "was", "were") else _begins_has if verb[:2] == "ha" else _begins_verb
    for i in range(1, len(low)):
        if low[i - 1] not in _OPENERS and begins(low, i):
            while i > 1 and (low[i - 1].endswith("ly") or low[i - 1] in _ADVERBS):
                i -= 1
            return i
    return None


def _begins_verb(low: list[str], i: int) -> bool:
    """Whether the verb behind "should" or "does" stands at i."""
    if not _is_verb(low[i]):
        return False
    # "democracies offer support", but "climate change be taught"
    after_plural = low[i - 1].endswith("s") and not low[i - 1].endswith(("ss", "us", "is"))
    return low[i] not in _NOUNS_TOO or after_plural or i + 1 == len(low) or not _is_verb(low[i + 1])


def _is_verb(word: str) -> bool:
    return word in _VERBS or (_MADE_VERBS.fullmatch(word) is not None and word not in _NO_VERBS)


def _begins_has(low: list[str], i: int) -> bool:
    """Whether the participle behind "has" stands at i."""
    return low[i] in _PARTICIPLES or low[i].endswith("ed")


def _begins_is(low: list[str], i: int) -> bool:
    """Whether what is said behind "is" starts at i: "a …", "the …", an adjective or participle without noun."""
    after_doing = low[i - 1].endswith("ing")  # "banning the", "making a": an object
    if low[i] in ("a", "an", "the"):
        return not after_doing
    following = low[i + 1] if i + 1 < len(low) else ""
    if low[i].endswith("ly"):
        return following not in _LINKS and not after_doing
    if low[i] in ("more", "less", "better", "worse", "too", "worth"):
        return not after_doing
    alone = not following or following in _LINKS
    return alone and (low[i] in _ADJECTIVES or (low[i].endswith(_ENDINGS) and not low[i].endswith("ment")))
