"""Rules that negate a statement, and that turn a question into the statements of its two sides."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from berdslib.errors import InputError
from berdslib.statements.grammar import (
    AUXILIARIES,
    BE,
    DO,
    HAVE,
    PERSONAL,
    RELATIVES,
    SUBORDINATORS,
    bare,
    base_of,
    end_of_subject,
    finite_verb,
    is_adverb,
    is_base,
    is_only_verb,
    is_plural,
    is_title,
    listed,
    past,
    tag,
    third_person,
)


def _any_of(words: Iterable[str]) -> str:
    """Return a pattern that matches any of the words."""
    return f"(?:{'|'.join(sorted(words))})"


# ---------------------------------------------------------------- statements

_AUXILIARY = "|".join(sorted(AUXILIARIES))
# A text that contains one of these is negative already; another "not" would make a double negative.
_NEGATIVE = re.compile(
    r"\b(?:never|neither|nor|nobody|no one|nothing|none|no|not|cannot|hardly|nowhere)\b|n['’]t\b", re.I
)
_UNTRUE = "It is not true that "
_WRONG = "It is wrong to say: "
_NEGATED = (
    (re.compile(r"\bneed not\b(?! to\b)"), "must"),
    (re.compile(r"\bmust(?: not\b|n['’]t\b)"), "may"),
    (re.compile(r"\bno longer\b"), "still"),
    (re.compile(rf"\b({_AUXILIARY}) not\b"), r"\1"),
    (re.compile(r"\b([Cc]a)nnot\b"), r"\1n"),
    (re.compile(r"\b([Cc]a)n['’]t\b"), r"\1n"),
    (re.compile(r"\b([Ww])on['’]t\b"), r"\1ill"),
    (re.compile(rf"\b({_AUXILIARY})n['’]t\b"), r"\1"),
)
# The opposite of "all may" is "not all may". Behind "only", "few" or "almost all", a "not" does not deny the statement.
_ALL = re.compile(r"(?:all|every|everyone|everybody|everything|many)\b", re.I)
_ONLY = re.compile(r"(?:only|few|fewer|almost|nearly)\b", re.I)
# After "have" or "do" these words begin an object, so "have" or "do" itself is the main verb.
_OBJECT = re.compile(rf"{_any_of(listed('objects'))}\b")
# "There is no doubt", but "there is not a great deal" and "there are not enough".
_THING = re.compile(rf"(?:(?:an?|any) )?(?!{_any_of(listed('no_things'))}\b|\w+ly\b|\d\b)(\w.*)")
# A verb after these words may belong to another part of the sentence ("people who do not vote", "… and it does not").
_CLAUSE = re.compile(rf"\b{_any_of(listed('clauses'))}\b", re.I)
# "Not only cars but bikes" denies nothing.
_NOT_ONLY = re.compile(r"\s+(?:only|just|merely|simply|solely)\b.*(?:[,;]|\b(?:but|also)\b)")
_EMPHASIS = re.compile(r"(?:indeed|almost) ")
_LONGEST = 600


def negate(statement: str) -> str:
    """Return the opposite of a statement: its verb is negated, or its negation is removed.

    If the rules cannot identify the verb, the result is "It is not true that …". A request becomes "Do not …", and a
    question or heading becomes "It is wrong to say: …".

    Raises:
        InputError: a text without words.

    >>> negate("Schools should ban phones.")
    'Schools should not ban phones.'
    >>> negate("Schools should not ban phones.")
    'Schools should ban phones.'
    >>> negate("Phones distract pupils.")
    'Phones do not distract pupils.'
    >>> negate("The cost of war")
    'It is wrong to say: The cost of war'
    """
    text = statement.strip()
    if answer := re.match(r"(?:yes|no)[,:;.!]+\s+", text, re.I):
        text = _capital(text[answer.end() :])
    if not re.search(r"\w", text):
        raise InputError("the text contains no words to negate")
    return _opposite(text)


def _opposite(text: str) -> str:
    for denial in (_UNTRUE, _WRONG):
        if text.startswith(denial) and text != denial:
            return _capital(text[len(denial) :])
    if text.endswith("?"):
        return f"{_WRONG}{text}"
    if refused := re.match(r"(?:do not|don['’]?t)\s+", text, re.I):
        return _capital(text[refused.end() :])
    if _is_request(text.split()) and not _NEGATIVE.search(text):
        return f"Do not {_small(text)}"
    return _without_negation(text) or _with_negation(text) or _as_a_whole(text)


def _is_request(words: list[str]) -> bool:
    """Return whether a text requests an action: "Let children play", "End the war"."""
    first, second = [*map(bare, words[:2]), "", ""][:2]
    asks = is_only_verb(first) or (is_base(first) and tag(first) != "IN" and tag(second) in ("DT", "PRP$"))
    return first == "let" or (asks and finite_verb(words) is None)


def _as_a_whole(text: str) -> str:
    return f"{_UNTRUE}{_small(text)}" if _is_clause(text.split()) else f"{_WRONG}{text}"


def _is_clause(words: list[str]) -> bool:
    """Return whether words contain a subject and a verb, unlike "The cost of war" or "Laws that harm"."""
    low = [bare(w) for w in words]
    own = low[: next((i for i, w in enumerate(low) if w in RELATIVES | SUBORDINATORS), len(low))]
    sure = AUXILIARIES - {"will", "may", "might", "can"}  # these four can also be nouns
    verbs = [w for w in own[1:] if w in sure or tag(w) in ("VBZ", "VBD") or "n't" in w]
    return bool(verbs) or re.sub("'.*", "", low[0]) in PERSONAL or finite_verb(words) is not None


def _without_negation(text: str) -> str | None:
    """Return the text without the negation of its main verb; None if that verb has none, or may have none."""
    found: dict[int, tuple[re.Match[str], str]] = {}
    for pattern, kept in reversed(_NEGATED):  # if two patterns match at a place, the first decides
        found |= {match.start(): (match, match.expand(kept)) for match in pattern.finditer(text)}
    words = _affirmed(text).split()
    at = finite_verb(words) if found else None
    for start in sorted(found):
        match, verb = found[start]
        before = text[:start]
        after = text[match.end() :]
        if not _is_main(len(_affirmed(before).split()), at, words, before):
            continue
        if _NOT_ONLY.match(after):
            return None
        following = bare(after.split()[0]) if after.split() else ""
        if verb in DO and is_base(following) and before.strip():
            form = _inflected(following, verb)
            return before + re.sub(rf"^\s+{following}", form, after, count=1, flags=re.I) if form else None
        return _capital(f"{before}{verb}{after}")
    return None


def _affirmed(text: str) -> str:
    """Return the text with each negated verb replaced by one plain word: the grammar cannot read "don't"."""
    for pattern, kept in _NEGATED:
        text = pattern.sub("still" if kept == "still" else "should", text)
    return text


def _is_main(place: int, at: int | None, words: list[str], before: str) -> bool:
    """Return whether the negation at a place belongs to the main verb, or to an adverb of it ("no longer")."""
    if at is None or place < 2:  # a single word before it cannot contain another verb
        return not _CLAUSE.search(before)
    return all(is_adverb(bare(word)) for word in words[min(at, place) + 1 : max(at, place)])


def _with_negation(text: str) -> str | None:
    if _NEGATIVE.search(text) or len(text) > _LONGEST:
        return None
    words = text.split()
    at = finite_verb(words)
    if at is None:
        return None
    subject = " ".join(words[:at])
    verb = words[at]
    rest = " ".join(words[at + 1 :])
    if not verb.strip(".").isalpha() or re.match(r"(?:and|or|but)\b", rest):  # "is, in part, …", "can and should"
        return None
    if bare(verb) in AUXILIARIES and not (verb in HAVE | DO and _OBJECT.match(rest)):
        return _denied(subject, verb.lower() if verb.istitle() else verb, rest)
    low = bare(verb)
    base = base_of(low)
    if low == base:
        helper = "do"
    elif low == past(base):
        helper = "did"
    else:
        helper = "does"
    start = at - 1 if at > 1 and is_adverb(bare(words[at - 1])) else at  # "do not usually decide"
    said = [*words[start:at], re.sub(rf"^{low}", base, verb, flags=re.I), *words[at + 1 :]]
    return _denied(" ".join(words[:start]), helper, " ".join(said))


def _denied(subject: str, verb: str, rest: str) -> str:
    """Return the negative statement in idiomatic form: "cannot", "there is no", "can never"."""
    if _ALL.match(subject):
        return f"Not {_small(_said(subject, verb, rest))}"
    if _ONLY.match(subject):
        return f"{_UNTRUE}{_small(_said(subject, verb, rest))}"
    verb = "need" if verb == "must" else verb  # "must not" would forbid
    if re.match(r"some \w", subject, re.I):
        return f"No {_said(subject[5:], verb, rest)}"
    if bare(subject) == "there" and verb in BE and (thing := _THING.fullmatch(rest)):
        return f"{subject} {verb} no {thing[1]}"
    rest = _EMPHASIS.sub("", rest, count=1) if _EMPHASIS.match(rest) else rest
    if rest.lower().startswith("ever "):
        never = "can never be" if verb in ("is", "are") else f"{verb} never"
        return _said(f"{subject} never", verb, rest[5:]) if verb in DO else f"{subject} {never} {rest[5:]}"
    if rest.lower().startswith("still "):
        return _said(f"{subject} no longer", verb, rest[6:]) if verb in DO else f"{subject} {verb} no longer {rest[6:]}"
    negated = "cannot" if verb == "can" else f"{verb} not"
    return f"{subject} {negated} {rest}"


def _said(subject: str, verb: str, rest: str) -> str:
    """Return subject, verb and rest as a statement; "does cause" becomes "causes"."""
    if rest.lower().startswith("ever "):
        verb = "can be" if verb in ("is", "are") else verb
        rest = rest[5:]
    if bare(subject) == "there" and rest.startswith("any "):
        rest = f"some {rest[4:]}"
    if verb in DO:
        words = rest.split(" ")
        at = _main(words)
        shared = any(one == "and" and is_only_verb(bare(two)) for one, two in pairwise(words))  # "creates … and reduce"
        if not shared and (form := _inflected(bare(words[at]), verb)):
            words[at] = re.sub(rf"^{bare(words[at])}", form, words[at], flags=re.I)
            return f"{subject} {' '.join(words)}"
    return f"{subject} {verb} {rest}"


def _main(words: list[str]) -> int:
    """Return the index of the verb among the words after the subject: the first word that is not an adverb."""
    return next((i for i, word in enumerate(words) if not is_adverb(bare(word))), 0)


def _inflected(base: str, auxiliary: str) -> str | None:
    if auxiliary == "do":
        return base
    return third_person(base) if auxiliary == "does" else past(base)


def _capital(text: str) -> str:
    return re.sub(r"^\W*\w", lambda m: m[0].upper(), text)


def _small(text: str) -> str:
    """Return the text with a small first letter, to follow other words; an acronym, a name or "I" keeps its capital."""
    first = text.split(" ", 1)[0]
    word = bare(first)
    keeps = (not first[1:].islower() and word != "a") or word.startswith("i'") or tag(word).startswith("NNP")
    return text if keeps else text[:1].lower() + text[1:]


# ---------------------------------------------------------------- yes/no questions

_ASKING = re.compile(rf"({_AUXILIARY})(?:n['’]t)? (.+)", re.I)
_THINK = _any_of(listed("think"))
_OPINION = re.compile(
    rf"(?:do|would|did|don['’]t|wouldn['’]t) you (?:(?:also|really|personally|generally|honestly|still) )?"
    rf"{_THINK}(?: or disagree)?(?P<that> that)? (?!(?:in|of|about|like|with)\b)(?P<clause>\S+ .+)",
    re.I,
)
_SEEING = re.compile(
    r"(?:do|would) you (?:consider|describe|rate|regard|see|view) (.+?) (?:as|to be) (?:being )?(.+)", re.I
)
_LEAD = re.compile(
    rf"((?:now that|given|if|when|since|although|in|on|for|to|after|before|under|with|considering|despite|as|at|"
    rf"generally|overall|all in all)\b[^,?]*), ((?:{_AUXILIARY})\b.+)",
    re.I,
)
_TOPIC = re.compile(rf"(?:the perspective on )?([^:?]{{2,80}}?)(?::| [-–—]) ((?:{_AUXILIARY})\b .+)", re.I)
# A question that offers two answers cannot be answered with yes or no.
_CHOICE = re.compile(r"\bor\b(?! (?:not|other|more|less)\b)|\bvs?\b|\bversus\b", re.I)
# After these words an "or" separates examples, not answers.
_ANY_OF = re.compile(r"\b(?:regardless of|based on|such as|including|without|in the form of|whether)\b.*", re.I)
_OR_NOT = re.compile(r",? or not$| or not(?= )", re.I)
_OPENING = re.compile(r"^in your (?:opinion|view),? ", re.I)
_STAND_INS = listed("stand_ins")
_NO_TOPICS = listed("no_topics")
_SECOND = re.compile(
    rf"(?:,|\band\b|\bor\b|[.?!;]) +(?:and +|if so,? *)?(?:{_AUXILIARY}|what|how|why|which|who) ", re.I
)
# Two sentences, or text around the question that does not belong to it.
_SENTENCES = re.compile(r"[a-z]{3}[.?!]+\s+\S|\?\W*\w|[<>{}]")


def _yes_and_no(question: str) -> tuple[str, str] | None:
    """Return the statements that answer a yes/no question with yes and with no.

    A statement in place of a question is its own yes. The result is None if no rule is certain: for a choice, another
    kind of question, or a subject without a clear end.
    """
    text = _OPENING.sub("", _OR_NOT.sub("", " ".join(question.split()).rstrip("?.! ")))
    if _SENTENCES.search(text) or text.isupper() or not re.search(r"\w", text):
        return None
    if _CHOICE.search(_ANY_OF.sub("", text)):
        return None
    sides = _asked(text) if "?" in question or _ASKING.match(text) else _stated(text)
    return sides if sides and _WRONG not in sides[1] else None


def _asked(text: str) -> tuple[str, str] | None:
    """Return the yes and the no to a question without its question mark; the shape of the question decides how."""
    if lead := _LEAD.fullmatch(text):
        pair = _asked(lead[2])
        return (f"{lead[1]}, {_small(pair[0])}", f"{lead[1]}, {_small(pair[1])}") if pair else None
    if topic := _TOPIC.fullmatch(text):
        verb, pronoun, rest = [*topic[2].split(" ", 2), ""][:3]
        if pronoun.lower() not in _STAND_INS:
            return _asked(topic[2])
        known = rest and _can_be_subject(topic[1])
        return (_said(topic[1], verb.lower(), rest), _denied(topic[1], verb.lower(), rest)) if known else None
    if opinion := _OPINION.fullmatch(text):
        clause = _capital(_mine(opinion["clause"]))
        # "Do you feel safe" does not contain a clause.
        if opinion["that"] or finite_verb(clause.split()) is not None:
            return clause, _opposite(clause)
    if (seen := _SEEING.fullmatch(text)) and tag(bare(seen[2].split()[0])) != "VBG":
        verb = "are" if is_plural(seen[1]) else "is"
        return f"{seen[1]} {verb} {seen[2]}", f"{seen[1]} {verb} not {seen[2]}"
    asking = _ASKING.fullmatch(text)
    return _turned(asking[1].lower(), asking[2]) if asking else None


def _turned(verb: str, behind: str) -> tuple[str, str] | None:
    """Return the yes and the no to a question, given its auxiliary verb and the words behind it."""
    if _SECOND.search(behind) or ":" in behind:
        return None
    words = _no_title(behind.split())
    end = end_of_subject(verb, words)
    if end is None:
        return None
    subject = " ".join(words[:end])
    rest = " ".join(words[end:])
    if re.match(r"(?:any(?:one|body|thing)?|either)\b", subject, re.I):
        return None  # "anyone needs" would claim more than the question asks
    if subject.endswith(" no longer") or _NEGATIVE.match(subject) or _NEGATIVE.search(" ".join(rest.split()[:2])):
        return None  # another negation would make a double negative
    if bare(subject) == "you" and verb in (*DO, "are", "were", "have", "had", "would"):
        subject = "I"
        rest = _mine(rest)
        verb = {"are": "am", "were": "was"}.get(verb, verb)
    if re.match(r"your\b", subject, re.I) or (subject.lower() == "it" and re.match(r"\w+ you\b", rest)):
        subject = _mine(subject)
        rest = _mine(rest)
    rest = _main_verb_small(rest) if verb not in BE else rest
    return _said(subject, verb, rest), _denied(subject, verb, rest)


def _no_title(words: list[str]) -> list[str]:
    """Return the words of A Title with function words such as "a" and "of" in lower case; other texts unchanged."""
    if not is_title(words):
        return words
    closed = ("DT", "IN", "TO", "PRP", "PRP$", "CC", "MD", "VBP")
    small = [tag(bare(w)) in closed or bare(w) in AUXILIARIES | {"be", "been", "not"} for w in words]
    return [w.lower() if is_small and w.istitle() else w for w, is_small in zip(words, small, strict=True)]


def _main_verb_small(rest: str) -> str:
    """Return the words after the subject of "should" or "does", with the verb in lower case: it cannot be a name."""
    words = rest.split(" ")
    at = _main(words)
    return " ".join([w.lower() if i <= at and w.istitle() else w for i, w in enumerate(words)])


def _can_be_subject(topic: str) -> bool:
    """Return whether "it" can refer to these words; it cannot refer to "in short", "honestly" or "a question"."""
    low = [bare(w) for w in topic.split()]
    return tag(low[0]) not in ("IN", "TO", "RB", "UH", "WRB") and low[-1] not in _NO_TOPICS


def _stated(text: str) -> tuple[str, str] | None:
    """Return a statement that was given in place of a question, and its opposite; None if its verb is uncertain."""
    first, *others = text.split(" ")
    text = " ".join([first, *_no_title(others)])
    no = _opposite(text)
    sure = not no.startswith(("Do not ", _UNTRUE)) or (_NEGATIVE.search(text) and finite_verb(text.split()) is not None)
    return (text, no) if sure and ":" not in text else None


_YOU_DO = re.compile(
    rf"(?:^|(?<=\bthat )|(?<=\bhow )|(?<=\bwhat )|(?<=\bway )|(?<=\bif )|(?<=\bwhen )|(?<=\bwhere ))you\b|"
    rf"\byou(?= (?:{_AUXILIARY}|want|need)\b)",
    re.I,
)
_PERSONS = {"you": "me", "your": "my", "yours": "mine", "yourself": "myself"}


def _mine(text: str) -> str:
    """Return a text that addresses "you" in the first person.

    >>> _mine("you trust your friends more than they trust you")
    'I trust my friends more than they trust me'
    """
    text = re.sub(r"\byou (are|were)\b", lambda m: f"I {'am' if m[1] == 'are' else 'was'}", text, flags=re.I)
    text = _YOU_DO.sub("I", text)
    return re.sub(r"\b(?:yourself|yours|your|you)\b", lambda m: _PERSONS[m[0].lower()], text, flags=re.I)


def _sentence(text: str) -> str:
    return f"{_capital(text)}."


# ---------------------------------------------------------------- questions between two answers

_BEST = r"(?:\w+ )?(?:better|worse|best|worst|great\w+|\w+er|\w+est|more \w+|most \w+)"
_WHICH = re.compile(
    rf"(?:which|who|what)(?:['’]s| is| are) (?:considered )?(?P<best>(?:the )?{_BEST})\b(?P<behind>[^,:?]*)", re.I
)
_TWO = re.compile(r"(?P<one>[^,:?]{2,60}?) (?:or|vs?\.?|versus) (?P<two>[^,:?]{2,60})", re.I)
_PARTS = re.compile(r"(?: ?:| [-–—]|,) ")
_ARTICLES = listed("before_answers")


def two_sides(question: str, *, choices: bool = True) -> tuple[str, str] | None:
    """Return the statements of a question's two sides: yes and no, or the two answers to "A or B?".

    A statement in place of a question is its own yes. The result is None if no rule is certain and, without `choices`,
    for "A or B?", whose two answers need not exclude each other.

    >>> two_sides("Should rich people pay more tax?")
    ('Rich people should pay more tax.', 'Rich people should not pay more tax.')
    >>> two_sides("Do you think that zoos are cruel?")
    ('Zoos are cruel.', 'Zoos are not cruel.')
    >>> two_sides("Was Napoleon a hero or a villain?")
    ('Napoleon was a hero.', 'Napoleon was a villain.')
    >>> two_sides("Tea or coffee: which is better?")
    ('Tea is better than coffee.', 'Coffee is better than tea.')
    >>> two_sides("Tea or coffee: which is better?", choices=False) is None
    True
    """
    if len(question) > _LONGEST:
        return None
    sides = _yes_and_no(question) or (_choice(question) if choices else None)
    return (_sentence(sides[0]), _sentence(sides[1])) if sides else None


def _choice(question: str) -> tuple[str, str] | None:
    """Return the statements of the two answers that a question names."""
    text = re.sub(r"^the perspective on ", "", " ".join(question.split()).rstrip("?. "), flags=re.I)
    if text.isupper() or _SENTENCES.search(text) or len(_CHOICE.findall(text)) != 1:
        return None
    return _compared(text) or _chosen(text)


def _compared(text: str) -> tuple[str, str] | None:
    """Return the answers to "Which is better, A or B?", in either order."""
    parts = _PARTS.split(text)
    if len(parts) != 2:
        return None
    for asked, named in (parts, parts[::-1]):
        which = _WHICH.fullmatch(asked)
        two = _TWO.fullmatch(named)
        if which and two:
            return _ahead(two["one"], two["two"], which), _ahead(two["two"], two["one"], which)
    return None


def _ahead(one: str, other: str, which: re.Match[str]) -> str:
    """Return "A is better than B", or "A is the best"."""
    than = "" if which["best"].lower().endswith("st") else f" than {_small(other)}"
    return f"{one} {'are' if is_plural(one) else 'is'} {which['best']}{than}{which['behind']}"


def _chosen(text: str) -> tuple[str, str] | None:
    """Return the answers to "Is X A or B?", "X: A or B?" and "X: is it A or B?"."""
    parsed = _parsed(text)
    options = parsed and _options(parsed[2], parsed[1])
    if not parsed or not options or " or " in parsed[0]:
        return None
    subject, verb, _ = parsed
    if bare(subject) == "you":
        subject = "I"
        options = (_mine(options[0]), _mine(options[1]))
    first, second = options if verb in BE else map(_main_verb_small, options)
    return _said(subject, verb, first), _said(subject, verb, second)


def _parsed(text: str) -> tuple[str, str, str] | None:
    """Return the subject, the verb and the rest of a question; a missing verb becomes "is" or "are"."""
    *topics, choice = re.split(r": | [-–—] ", text, maxsplit=1)
    topic = topics[0] if topics else ""
    asking = _ASKING.fullmatch(choice)
    if not asking:
        first = bare(choice.split()[0])
        can_follow = tag(first) in ("DT", "JJ", "JJR", "VBN") or first in ("too", "more", "less")
        return (topic, "are" if is_plural(topic) else "is", choice) if topic and can_follow else None
    verb = asking[1].lower()
    words = _no_title(asking[2].split())
    if topic and bare(words[0]) in _STAND_INS:
        return (topic, verb, " ".join(words[1:])) if _can_be_subject(topic) else None
    end = end_of_subject(verb, words)
    return None if end is None else (" ".join(words[:end]), verb, " ".join(words[end:]))


def _options(said: str, verb: str) -> tuple[str, str] | None:
    """Return the two options, each with the words that they share: "safe for us" and "risky for us".

    The result is None if it is unclear which words they share.
    """
    one, _, two = re.sub(r"\beither ", "", said, flags=re.I).partition(" or ")
    first = one.split()
    second = two.split()
    if not first or not second:
        return None
    if verb in BE and bare(first[0]) in _ARTICLES and bare(second[0]) in _ARTICLES:
        return one, two
    shared = ["be"] if verb not in BE and bare(first[0]) == "be" else []
    if len(first) == len(shared) + 1 and _alike(bare(first[-1]), bare(second[0])):
        return " ".join([one, *second[1:]]), " ".join([*shared, *second])
    two_verbs = verb not in BE and is_base(bare(first[0])) and is_only_verb(bare(second[0]))
    return (one, two) if two_verbs and len(first) > 1 and len(second) > 1 else None


def _alike(one: str, two: str) -> bool:
    return tag(one)[:2] == tag(two)[:2] or (is_base(one) and is_base(two))
