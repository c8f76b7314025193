"""English grammar for the rules: where a sentence's subject ends, where its verb stands, and the forms of verbs.

Parts of speech come from the lexicon of TextBlob's tagger (tags of the Penn Treebank), and from a word's other forms.
The tagger itself is not used, because it expects statements and these rules also read questions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

_WORDS = Path(__file__).with_name("words.txt")


@lru_cache(maxsize=2)
def word_lists(path: Path = _WORDS) -> dict[str, str]:
    """Return the lists of a file such as words.txt: name → words separated by white space."""
    text = path.read_text(encoding="utf-8")
    parts = re.split(r"^\[(\w+)\]$", re.sub(r"^#.*$", "", text, flags=re.M), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def listed(name: str) -> frozenset[str]:
    """Return the words of a list."""
    return frozenset(word_lists()[name].split())


def listed_pairs(name: str) -> list[tuple[str, str]]:
    """Return the pairs of a list that separates its pairs by semicolons."""
    return [(one, other) for one, other in map(str.split, word_lists()[name].split(";"))]


BE, HAVE, DO, MODALS = map(listed, ("be", "have", "do", "modals"))
AUXILIARIES = BE | HAVE | DO | MODALS
PERSONAL = listed("personal")
SUBORDINATORS = listed("subordinators")
RELATIVES = listed("relatives")
_PRONOUNS = PERSONAL | listed("other_pronouns")
_PLURALS, _DETERMINERS, _PREPOSITIONS = map(listed, ("plurals", "determiners", "prepositions"))
_ADVERBS, _MOSTLY_VERBS, _STAND_ALONE = map(listed, ("adverbs", "mostly_verbs", "stand_alone"))
_BEHIND_VERBS, _UNFINISHED, _POINTING = map(listed, ("behind_verbs", "unfinished", "pointing"))
_ARTICLES, _DEGREES, _CALLED, _MADE = map(listed, ("articles", "degrees", "called", "made"))
_PAST_FORMS = dict(listed_pairs("past_forms"))
_STRONG = {"has": "have", **{form: verb for verb, form in _PAST_FORMS.items() if form != verb}}
_PARTICIPLES = frozenset(_PAST_FORMS.values()) | listed("participles")
_NO_NAMES = _DETERMINERS | _PREPOSITIONS | _PRONOUNS
_VOWELS = "aeiou"


# ---------------------------------------------------------------- words


@lru_cache(maxsize=1)
def _lexicon() -> dict[str, str]:
    from textblob.en import lexicon

    lexicon.load()
    return {str(word): str(tag) for word, tag in lexicon.items()}


def bare(word: str) -> str:
    """Return a word in lower case, without the punctuation around it; an acronym keeps its capitals.

    >>> bare("(Schools),"), bare("US?")
    ('schools', 'US')
    """
    word = re.sub(r"^\W+|\W+$", "", word.replace("’", "'"))
    return word if len(word) > 1 and word.isupper() else word.lower()


@lru_cache(maxsize=50_000)
def tag(word: str) -> str:
    """Return the usual part of speech of a bare word; if the lexicon lacks the word, its ending decides."""
    known = _lexicon()
    if word in known and not word.isupper():
        return known[word].split("|")[0]
    if word.istitle() or known.get(word.capitalize(), "").startswith("NNP"):
        return "NNP"
    if word.isupper() or word[:1].isdigit():
        return "CD" if word[:1].isdigit() else "NNP"
    if "-" in word.strip("-"):
        return tag(word.rsplit("-", 1)[1])
    for ending, found in (("'s", "POS"), ("s'", "POS"), ("ly", "RB"), ("ing", "VBG"), ("ed", "VBN"), ("isation", "NN")):
        if word.endswith(ending):
            return found
    if re.fullmatch(r"[a-z]{3,}(?:i[sz]e|yse|ify)", word):
        return "VB"
    if word.endswith(("ful", "able", "ible", "ive", "ous", "ical", "less", "ish", "ic", "ial", "ional", "ary")):
        return "JJ"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return "NNS"
    return "NN"


def third_person(verb: str) -> str:
    """Return the third person singular of a verb: "carry" → "carries".

    >>> [third_person(v) for v in ("cause", "pass", "carry", "play", "have", "go")]
    ['causes', 'passes', 'carries', 'plays', 'has', 'goes']
    """
    if verb == "have":
        return "has"
    if verb == "be":
        return "is"
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2:-1] not in _VOWELS:
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def past(verb: str) -> str | None:
    """Return the past tense of a verb; None if neither the list of irregular verbs nor the lexicon has it.

    >>> past("win"), past("cause"), past("ban"), past("carry"), past("xyzzy")
    ('won', 'caused', 'banned', 'carried', None)
    """
    if verb in _PAST_FORMS:
        return _PAST_FORMS[verb]
    return next((form for form in _with_ending(verb, "ed") if tag_known(form) in ("VBD", "VBN")), None)


def tag_known(word: str) -> str:
    """Return the part of speech that the lexicon gives for a word, or "" if the lexicon lacks the word."""
    return _lexicon().get(word, "")


def _with_ending(verb: str, ending: str) -> list[str]:
    """Return the possible spellings of a verb with "-ed" or "-ing": "ban" → "baned", "banned"."""
    if verb.endswith("e") and not verb.endswith("ee"):
        return [verb[:-1] + ending]
    if verb.endswith("y") and verb[-2:-1] not in _VOWELS and ending == "ed":
        return [f"{verb[:-1]}ied"]
    return [verb + ending, verb + verb[-1:] + ending]


@lru_cache(maxsize=50_000)
def is_base(word: str) -> bool:
    """Return whether a word can be the base form of a verb, as after "should"."""
    if not word.isascii() or not word.isalpha() or not word.islower() or word in _PREPOSITIONS - {"like"}:
        return False
    if word in AUXILIARIES - {"have", "do"}:
        return False
    if word in ("like", "need") or word in _PAST_FORMS or tag(word) in ("VB", "VBP"):
        return True
    if tag(word) not in ("NN", "JJ", "NNP") or len(word) < 3:
        return False
    forms = [third_person(word), *_with_ending(word, "ing"), *_with_ending(word, "ed")]
    return any(tag_known(form)[:2] == "VB" for form in forms)


@lru_cache(maxsize=50_000)
def is_only_verb(word: str) -> bool:
    """Return whether a word can only be a verb: "improve", but not "cause" or "offer"."""
    return is_base(word) and (
        word in ("be", "have", "do") or (tag(word) in ("VB", "VBP") and tag_known(third_person(word)) != "NNS")
    )


def is_adverb(word: str) -> bool:
    """Return whether a word can be an adverb before a verb: "truly", "still"."""
    return word in _ADVERBS or word == "not" or (word.endswith("ly") and word != "only" and tag(word) == "RB")


def is_participle(word: str) -> bool:
    """Return whether a word can follow "has"; the lexicon lists some words in "-ed" as adjectives only."""
    formed = word.endswith("ed")
    return word not in AUXILIARIES and (word in _PARTICIPLES or tag(word) in ("VBN", "VBD") or formed)


def is_adjective(word: str) -> bool:
    """Return whether a word can be an adjective."""
    return tag(word) in ("JJ", "JJR", "JJS")


def is_plural(subject: str) -> bool:
    """Return whether a subject takes "are" rather than "is".

    >>> is_plural("the roads of Rome"), is_plural("the end of all roads"), is_plural("bread and butter")
    (True, False, True)
    """
    low = [word for word in map(bare, subject.split()) if word]
    if not low:
        return False
    if tag(low[0]) == "VBG" and len(low) > 1 and not is_noun(low[1]):
        return False
    head = low[: next((i for i, w in enumerate(low) if i and (w in _PREPOSITIONS or w in RELATIVES)), len(low))]
    if "and" in head or low[0] in ("we", "they", "you", "these", "those"):
        return True
    last = next((w for w in reversed(head) if tag(w).startswith("NN")), "")
    return tag(last) in ("NNS", "NNPS") or last in _PLURALS


def is_noun(word: str) -> bool:
    """Return whether a word can be the last word of a subject: "tax", "schools", "they", "2024"."""
    return tag(word)[:2] in ("NN", "PR", "CD", "FW")


# ---------------------------------------------------------------- the end of the subject


def is_title(words: Sequence[str]) -> bool:
    """Return whether Most Words Have a Capital, so that a capital does not mark a name."""
    long = [w[0].isupper() for w in words if len(w) > 3 and w[0].isalpha()]
    needed = 0.75 if all(long[-1:]) else 0.8  # "Die Hard a Bruce Willis film" is not a title
    return sum(long) >= needed * len(long)


def _read(words: Sequence[str], names_from: int) -> list[str]:
    """Return the bare words; from word `names_from` on, a word with a capital is a name and keeps it ("Die Hard").

    Every word between quotation marks becomes "Quotation", which counts as a name.
    """
    title = is_title(words)
    quoted = _quoted(words)
    low = [bare(w) for w in words]
    for i, word in enumerate(words):
        if i in quoted:
            low[i] = "Quotation"
        elif i >= names_from and word.istitle() and not title and low[i] not in _NO_NAMES:
            low[i] = low[i].capitalize()
    return low


def _quoted(words: Sequence[str]) -> set[int]:
    """Return the indexes of the words between quotation marks."""
    found: set[int] = set()
    opened: int | None = None
    for i, word in enumerate(words):
        if opened is None and word[0] in '"“':
            opened = i
        if opened is not None and re.search(r"\w\W*[\"”]\W*$", word):
            found |= set(range(opened, i + 1))
            opened = None
    return found


def end_of_subject(auxiliary: str, words: Sequence[str]) -> int | None:
    """Return how many of the words after a question's auxiliary form its subject; None if that is uncertain.

    >>> end_of_subject("should", "the use of force be allowed".split())
    4
    >>> end_of_subject("is", "banning the burqa justified".split())
    3
    """
    low = _read(words, 0)
    if len(low) < 2 or not all(low[:2]):
        return None
    if low[0] in _PRONOUNS or (low[0] in _POINTING and (len(low) == 2 or low[1] in _ARTICLES)):
        return 1
    if auxiliary in BE:
        end = _predicate(low)
    elif auxiliary in HAVE:
        end = _participle(low)
    else:
        end = _main_verb(low)
    while end is not None and end > 1 and is_adverb(low[end - 1]):
        end -= 1
    return end


def _complete(low: Sequence[str], i: int) -> bool:
    """Return whether a subject can end before word i; it cannot end in "the", "of", "and" or "more"."""
    while i > 1 and is_adverb(low[i - 1]):
        i -= 1
    last = low[i - 1]
    if last in _DETERMINERS | _PREPOSITIONS | _UNFINISHED | RELATIVES | SUBORDINATORS:
        return False
    if last.endswith("'s"):  # "McDonald's pay its workers": "pay" is a verb here, since a noun does not precede "its"
        return low[i] in _ARTICLES or (is_base(low[i]) and low[i + 1] in _ARTICLES if i + 1 < len(low) else False)
    if tag(last) == "MD":
        return i > 1 and is_adjective(low[i - 2])  # "free will"
    return tag(last) not in ("POS", "PRP$", "CC", "JJR", "RBR")


def _after_relative(low: Sequence[str], i: int) -> int:
    """Return where the search for the main verb continues after "who …", whose clause takes the first verb."""
    helped = False  # "who are rich", "who cannot afford"
    for j in range(i + 1, len(low)):
        if low[j] in AUXILIARIES or low[j] == "cannot":
            helped = True
        elif not is_adverb(low[j]) and (helped or tag(low[j])[:2] == "VB" or (j == i + 1 and is_base(low[j]))):
            return j + 1
    return len(low)


def _main_verb(low: Sequence[str]) -> int | None:
    """Return the index of the main verb after "should" or "does"; None if it is uncertain."""
    sure: int | None = None
    perhaps: list[int] = []  # words that can also be nouns: "cause", "offer"
    i = 1
    while i < len(low) and not (low[i] in SUBORDINATORS | RELATIVES and perhaps):
        if low[i] in RELATIVES:
            i = _after_relative(low, i)
            continue
        # "paid leave be mandatory", "high pay attract talent"
        a_noun = low[i + 1 : i + 2] == ["be"] or (i == 1 and is_adjective(low[0]) and any(map(is_only_verb, low[2:3])))
        if _complete(low, i) and is_only_verb(low[i]) and not a_noun:
            sure = i
            break
        if _complete(low, i) and is_base(low[i]):
            perhaps.append(i)
        i += 1
    if sure == len(low) - 1 and sure - 1 in perhaps and low[sure] not in _STAND_ALONE:  # "evening tea ruin sleep"
        return None
    scores = {i: _acts(low, i) for i in perhaps}
    likely = {i: score for i, score in scores.items() if score}
    best = next((i for i in likely if likely[i] == max(likely.values())), None)
    if sure is None:
        return perhaps[0] if best is None and len(perhaps) == 1 else best
    # A word right before a verb is a noun: "climate change be taught". A verb can have an object there: "force the poor
    # to move".
    acts = best is not None and likely[best] == 2 and any(not is_adverb(w) for w in low[best + 1 : sure])
    return best if acts else sure


def _plural_before(low: Sequence[str], i: int) -> bool:
    while i > 1 and is_adverb(low[i - 1]):
        i -= 1
    return tag(low[i - 1]) in ("NNS", "NNPS") or low[i - 1] in _PLURALS | {"we", "they"}


def _acts(low: Sequence[str], i: int) -> int:
    """Rate how strongly the context makes word i a verb rather than a noun: 2 clearly, 1 perhaps, 0 not at all."""
    following = next((w for w in low[i + 1 :] if not is_adverb(w)), "")
    if not following:
        return int(low[i] in _STAND_ALONE)
    if _plural_before(low, i) or is_adverb(low[i - 1]) or tag(following) in ("DT", "PRP", "PRP$"):
        return 2
    if low[i] in _MOSTLY_VERBS and not is_only_verb(following):
        return 2
    if is_base(following) and not is_adjective(following):
        return int(tag(low[i]) in ("VB", "VBP") and not is_only_verb(following))
    return int(tag(following) in _BEHIND_VERBS or tag(low[i]) in ("VB", "VBP"))


def _participle(low: Sequence[str]) -> int | None:
    """Return the index of the participle after "has"; None if it is uncertain."""
    found = [i for i in range(1, len(low)) if is_participle(low[i]) and _complete(low, i)]
    if not found or (len(found) > 1 and low[found[0] + 1] == "by"):  # "the money raised by charities helped"
        return None
    return found[0]


def _predicate(low: Sequence[str]) -> int | None:
    """Return where the predicate after "is" starts: "a …", an adjective or participle without a noun, or "in …"."""
    starts: list[tuple[int, str]] = []
    for i in range(1, len(low)):
        if low[i] in SUBORDINATORS | RELATIVES and starts:
            break
        kind = _starts_predicate(low, i)
        if kind:
            starts.append((i, kind))
    if not starts:
        return _where(low)
    (first, kind), *later = starts
    doing = first == 1 and low[0].endswith("ing")  # "banning the burqa justified", but "fracking a threat"
    clause = not RELATIVES.isdisjoint(low[1:first])  # "the man who sold the world guilty"
    rival = next(
        (i for i, other in later if not _has_infinitive(low[first:i]) and (other != "verb" or i == len(low) - 1)),
        None,
    )
    if rival is None or kind == "adjective" or (kind == "noun" and not doing and not clause):
        return first
    if kind == "noun":
        return rival
    if low[first] in _CALLED or (low[first] in _MADE and low[first + 1] not in _PREPOSITIONS):
        return first
    # "people living in cities happier", but "the state doing the right thing"
    object_follows = low[first + 1] in _DETERMINERS
    relative = low[first + 1] == "by" or (low[first].endswith("ing") and not object_follows)
    # "drugs sold online dangerous", but "people born gay" and "workers paid far too little"
    plain = rival > first + 1 and low[rival] not in _DEGREES and low[rival] not in _ARTICLES
    return rival if relative or plain or low[first] == "being" else None


def _has_infinitive(low: Sequence[str]) -> bool:
    return any(one == "to" and is_base(two) for one, two in pairwise(low))


def _where(low: Sequence[str]) -> int | None:
    """Return where a predicate such as "on the right track" starts, after a subject that is a simple noun phrase."""
    found = [i for i in range(1, len(low)) if low[i] in _PREPOSITIONS - {"of", "to", "than"} and _complete(low, i)]
    if len(found) != 1 or not is_noun(low[found[0] - 1]):
        return None
    return found[0] if all(w in _DETERMINERS or is_adjective(w) for w in low[: found[0] - 1]) else None


def _starts_predicate(low: Sequence[str], i: int) -> str:
    """Return "noun", "adjective" or "verb" if a predicate of this kind can start with word i, otherwise ""."""
    word = low[i]
    before = low[i - 1]
    after_doing = tag(before) == "VBG" and i > 1 and low[i - 2] not in _DETERMINERS  # "of making a"
    after_to = i > 1 and low[i - 2] == "to" and is_base(before)  # "to help a"
    if not _complete(low, i) or after_doing or after_to:
        return ""
    if word in _ARTICLES or low[i : i + 2] in (["one", "of"], ["part", "of"]):
        return "noun"
    following = next((w for w in low[i + 1 :] if not is_adverb(w)), "")
    if word in ("over", "here", "online", "just") and not following:
        return "adjective"
    if word in _DEGREES and low[0].endswith("ing") and _has_object(low, i):
        return ""
    if is_adverb(word) or word in _DEGREES:
        return "adjective" if following and not (i + 1 < len(low) and low[i + 1] in _PREPOSITIONS) else ""
    ends = not following or following in _PREPOSITIONS | SUBORDINATORS | RELATIVES | {"and", "or", "but", "enough"}
    if is_adjective(word) and not is_participle(word) and (ends or tag(following) in ("DT", "PRP", "RB", "TO", "IN")):
        return "adjective"
    return "verb" if (tag(word) == "VBG" and following) or is_participle(word) else ""


def _has_object(low: Sequence[str], i: int) -> bool:
    """Return whether "too" or "more" at word i begins an object: "watching too much television".

    In "teaching too hard a job" it begins the predicate.
    """
    one, two = [*low[i + 1 : i + 3], "", ""][:2]
    return one in ("much", "many", "little", "few") or is_noun(one) or tag(one) == "JJR" or is_noun(two)


# ---------------------------------------------------------------- the verb of a statement


def finite_verb(words: Sequence[str]) -> int | None:
    """Return the index of a statement's finite verb, which agrees with its subject; None if it is uncertain.

    >>> finite_verb("People who are rich should pay".split())
    4
    >>> finite_verb("Phones distract pupils".split())
    1
    """
    low = _read(words, 1)
    if any(w.isupper() and w.lower() in AUXILIARIES for w in words):
        return None
    sure: list[int] = []
    perhaps: list[int] = []  # words that can also be nouns: "causes", "tests"
    i = _after_opening_clause(words, low)
    while i < len(low) and not ((sure or perhaps) and low[i] in RELATIVES | SUBORDINATORS):
        # "the life a dog has": this article begins a relative clause without "that"
        unsaid = low[0] == "the" and low[i] in ("a", "an", "the") and words[i - 1].isalpha() and is_noun(low[i - 1])
        if low[i] in RELATIVES or (unsaid and not sure and not perhaps):
            i = _after_relative(low, i + 1 if unsaid else i)
            continue
        if sure and (low[i] in ("and", "or", "but", "to", "than") or words[i - 1].endswith(",")):
            break
        if _is_auxiliary(words, low, i):
            if low[i - 1] in PERSONAL and perhaps:  # "works well as it is"
                break
            return None if sure else i
        if _complete(low, i):
            kind = _finite(low, i)
            if kind == "sure":
                sure.append(i)
            elif kind == "perhaps":
                perhaps.append(i)
        i += 1
    # "gas prices contribute": a word right before a verb is a noun
    perhaps = [i for i in perhaps if i + 1 not in sure and not (sure and i > sure[0])]
    return (sure + perhaps)[0] if len(sure) + len(perhaps) == 1 else None


def _is_auxiliary(words: Sequence[str], low: Sequence[str], i: int) -> bool:
    """Return whether word i is an auxiliary such as "is" or "will", and not the month May or part of "free will"."""
    a_noun = words[i] == "May" or (low[i] in ("will", "can", "might") and is_adjective(low[i - 1]))
    return (low[i] in AUXILIARIES or low[i] == "cannot") and not a_noun and _complete(low, i)


def _after_opening_clause(words: Sequence[str], low: Sequence[str]) -> int:
    """Return where the search for the verb begins: after the comma of an opening "If …,"."""
    if low and (low[0] in SUBORDINATORS or low[0] in _PREPOSITIONS):
        return next((i + 2 for i, w in enumerate(words) if w.endswith(",")), len(low) if low[0] in SUBORDINATORS else 1)
    return 1


def _finite(low: Sequence[str], i: int) -> str:
    """Return "sure" or "perhaps" if word i can be the finite verb of the words before it, otherwise ""."""
    plural = _plural_before(low, i) or low[i - 1] in ("i", "you") or is_plural(" ".join(low[:i]))
    word = low[i]
    if i > 1 and low[i - 1] in PERSONAL | _PLURALS and tag(low[i - 2])[:2] == "NN":  # "the choices people make"
        return ""
    if tag(word) == "VBZ":  # "shows" in "reality shows make" is not a verb
        return "" if i + 1 < len(low) and is_only_verb(low[i + 1]) else "sure"
    if plural and is_base(word):
        return "sure" if is_only_verb(word) else "perhaps"
    following = low[i + 1] if i + 1 < len(low) else ""
    if (
        not plural
        and tag(word) == "NNS"
        and is_base(base_of(word))
        and following not in ("", "why")  # "three reasons why"
        and tag(following) not in ("IN", "TO")
    ):
        return "perhaps"
    return "sure" if tag(word) == "VBD" and base_of(word) != word else ""


def base_of(form: str) -> str:
    """Return the base form of a verb: "causes" and "caused" → "cause"; other words are returned unchanged.

    >>> [base_of(w) for w in ("causes", "carries", "passes", "has", "won", "hoped", "banned", "tea")]
    ['cause', 'carry', 'pass', 'have', 'win', 'hope', 'ban', 'tea']
    """
    if form in _STRONG:
        return _STRONG[form]
    ends = [2, 1] if form.endswith("s") else [1, 2, 3]
    for verb in [*(form[:-end] for end in ends), f"{form[:-3]}y"]:
        if tag_known(verb) and is_base(verb) and form in (third_person(verb), *_with_ending(verb, "ed")):
            return verb
    return form
