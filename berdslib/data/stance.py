"""Pairs that people labelled elsewhere, for asking how a judge does on text that it was never taught on.

Four sources, close to the judge's task but not the same: the Fake News Challenge (does an article agree with a
headline?), two parts of IAM (which side is a claim on, is a sentence evidence for a claim?), and theperspective (which
of a question's points does a passage make?). Each is in two halves, told by the hash of the article, topic or question:
what is tried is tried on half A, and half B is looked at once, at the end.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from berdslib.data.negation import negate
from berdslib.data.tables import read_jsonl, read_table, text_field, text_list
from berdslib.errors import InputError, known
from berdslib.files import StrPath, read_lines

HALVES = ("A", "B", "all")
AGREE, UNRELATED = "agree", "unrelated"
FAKE_NEWS_KINDS = (AGREE, "disagree", "discuss", UNRELATED)
PROPOSAL, NEGATED = "proposal", "negated proposal"
OWN, SAME_SIDE, OTHER_SIDE = "own point", "same side", "other side"
EVIDENCE, NO_EVIDENCE = "evidence", "no evidence"
# An article of the Fake News Challenge says in its first words what it reports.
ARTICLE_WORDS = 300
_SHORTEST_SENTENCE = 4  # words; shorter ones are headings
_ASKED = "should we "


class StancePair(NamedTuple):
    """A document, a statement, and whether the document supports it; ``kind`` as the source has it.

    ``question`` is what pairs have in common that are not independent: the article or the topic.
    """

    question: str
    document: str
    perspective: str
    label: bool
    kind: str


def half_of(text: str) -> str:
    """Return the half, "A" or "B", of what an article, topic or question is called.

    >>> half_of("1"), half_of("3")
    ('B', 'A')
    """
    return "AB"[int(hashlib.sha256(text.encode()).hexdigest(), 16) % 2]


def of_half(pairs: Sequence[StancePair], half: str) -> list[StancePair]:
    """Return the pairs of half "A" or "B", or "all" of them.

    Raises:
        InputError: another half.
    """
    known("half", half, HALVES)
    return [pair for pair in pairs if half in ("all", half_of(pair.question))]


def at_most(pairs: Sequence[StancePair], most: int, seed: int = 0) -> list[StancePair]:
    """Draw at most so many pairs of each kind, and return them in their order.

    Where kinds are cut, the share of positive pairs is no longer the source's, and F1 with it; AUC is.

    Args:
        pairs: to draw from.
        most: of each kind; 0 for all.
        seed: of the draw.

    Raises:
        InputError: a negative number.
    """
    if most < 0:
        raise InputError(f"must be at least 0, which stands for all, not {most}", field="most")
    if most == 0:
        return list(pairs)
    draw = random.Random(seed)
    places: list[int] = []
    for kind in dict.fromkeys(pair.kind for pair in pairs):
        of_kind = [i for i, pair in enumerate(pairs) if pair.kind == kind]
        places += draw.sample(of_kind, min(most, len(of_kind)))
    return [pairs[i] for i in sorted(places)]


# ---------------------------------------------------------------- Fake News Challenge


def fake_news(stances: StrPath, bodies: StrPath, words: int = ARTICLE_WORDS) -> list[StancePair]:
    """Read the Fake News Challenge: the article is the document, the headline the statement; only "agree" supports.

    Args:
        stances: CSV with the columns Headline, Body ID, Stance.
        bodies: CSV with the columns Body ID, articleBody.
        words: how much of an article is kept.

    Returns:
        The pairs, those of one article together: a judge that reads a text once then need not read it again.

    Raises:
        InputError: a missing column, a blank cell, another stance, an article that is there twice or not at all.
    """
    articles: dict[str, str] = {}
    for line, row in read_table(bodies):
        body = text_field(row, ("Body ID",), bodies, line)
        if body in articles:
            raise InputError(f"article {body!r} is there twice", path=bodies, line=line, field="Body ID")
        articles[body] = " ".join(text_field(row, ("articleBody",), bodies, line).split()[:words])
    pairs = []
    for line, row in read_table(stances):
        headline, body, kind = (
            text_field(row, (name,), stances, line).strip() for name in ("Headline", "Body ID", "Stance")
        )
        if kind not in FAKE_NEWS_KINDS:
            problem = f"{kind!r} is not a stance; accepted: {', '.join(FAKE_NEWS_KINDS)}"
            raise InputError(problem, path=stances, line=line, field="Stance")
        if body not in articles:
            raise InputError(f"there is no article {body!r} in {bodies}", path=stances, line=line, field="Body ID")
        pairs.append(StancePair(body, articles[body], headline, kind == AGREE, kind))
    return sorted(_some(pairs, stances), key=lambda pair: pair.question)


# ---------------------------------------------------------------- IAM


def iam_stance(path: StrPath) -> list[StancePair]:
    """Read the claims of IAM with their side: each against the proposal that its question asks, and its negation.

    Questions that do not ask "Should we …" make no proposal, and are left out.

    Args:
        path: five columns without a header: C, the question, the claim, the article, and 1 (for) or -1 (against).

    Raises:
        InputError: another number of columns, a blank cell, another side, or no pairs.
    """
    pairs = []
    for line, (_, question, claim, _, side) in _rows(path, ("label", "question", "claim", "article", "side")):
        if side not in ("1", "-1"):
            raise InputError(f"{side!r} is not a side; accepted: 1, -1", path=path, line=line, field="side")
        if proposal := _proposal(question):
            pairs.append(StancePair(question, claim, proposal, side == "1", PROPOSAL))
            pairs.append(StancePair(question, claim, negate(proposal), side == "-1", NEGATED))
    return _some(pairs, path)


def iam_evidence(path: StrPath) -> list[StancePair]:
    """Read the sentences of IAM that are, or are not, evidence for a claim; headings of a few words are left out.

    Args:
        path: seven columns without a header: whether the sentence is a claim, the question, E (evidence) or O, the
            claim, the sentence, the article, and a tag; blank lines between articles.

    Raises:
        InputError: another number of columns, a blank cell, another label, or no pairs.
    """
    pairs = []
    columns = ("claim label", "question", "evidence label", "claim", "sentence", "article", "tag")
    for line, (_, question, label, claim, sentence, _, _) in _rows(path, columns):
        if label not in ("E", "O"):
            raise InputError(f"{label!r} is not a label; accepted: E, O", path=path, line=line, field="evidence label")
        if len(sentence.split()) >= _SHORTEST_SENTENCE:
            kind = EVIDENCE if label == "E" else NO_EVIDENCE
            pairs.append(StancePair(question, sentence, claim, label == "E", kind))
    return _some(pairs, path)


def _rows(path: StrPath, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of a tab-separated file without header and quotation; blank lines are passed over."""
    for line, text in read_lines(path):
        if not text.strip():
            continue
        cells = [cell.strip() for cell in text.rstrip("\r\n").split("\t")]
        if len(cells) != len(columns):
            problem = f"{len(cells)} columns, not {len(columns)} ({', '.join(columns)})"
            raise InputError(problem, path=path, line=line)
        if blank := next((name for name, cell in zip(columns, cells, strict=True) if not cell), None):
            raise InputError("is blank", path=path, line=line, field=blank)
        yield line, cells


def _proposal(question: str) -> str:
    text = question.strip().rstrip("?")
    return f"We should {text[len(_ASKED) :]}" if text.lower().startswith(_ASKED) else ""


def _some(pairs: list[StancePair], path: StrPath) -> list[StancePair]:
    if not pairs:
        raise InputError("holds no pairs", path=path)
    return pairs


# ---------------------------------------------------------------- theperspective


def points(queries: StrPath, corpus: StrPath) -> list[StancePair]:
    """Read the passages of theperspective, each against every point that is made on its question, on either side.

    Args:
        queries: JSONL with id, response1 and response2 (the points of either side), and favor_ids and against_ids (the
            passage that makes each of them).
        corpus: JSONL with id and content.

    Raises:
        InputError: a missing or blank field, a side with another number of passages than points, an unknown passage,
            or no pairs.
    """
    texts = {
        text_field(row, ("id",), corpus, line): " ".join(text_field(row, ("content",), corpus, line).split())
        for line, row in read_jsonl(corpus)
    }
    pairs = []
    for line, row in read_jsonl(queries):
        question = text_field(row, ("id",), queries, line)
        made = []  # (point, passage, side)
        for side, (said, listed) in enumerate((("response1", "favor_ids"), ("response2", "against_ids"))):
            ids = [str(one) for one in row.get(listed, [])]
            said_here = text_list(row, said, queries, line)
            if len(ids) != len(said_here):
                problem = f"{len(ids)} passages for {len(said_here)} points"
                raise InputError(problem, path=queries, line=line, field=listed)
            if unknown := next((one for one in ids if one not in texts), None):
                raise InputError(f"no passage {unknown!r} in {corpus}", path=queries, line=line, field=listed)
            made += [(point, docno, side) for point, docno in zip(said_here, ids, strict=True)]
        for point, own, side in made:
            for _, docno, other in made:
                kind = OWN if docno == own else SAME_SIDE if other == side else OTHER_SIDE
                pairs.append(StancePair(question, texts[docno], point, kind == OWN, kind))
    return _some(pairs, queries)


# ---------------------------------------------------------------- all of them


def held_out(folder: Path, half: str, most: int = 0, seed: int = 0) -> dict[str, list[StancePair]]:
    """Return what no shipped judge was taught on: name → pairs of one half.

    Of the Fake News Challenge twice: the articles on the headline's topic, and all, which adds the unrelated.

    Args:
        folder: with stance/fnc1_stances.csv, fnc1_bodies.csv, iam_stance.tsv and iam_evidence.tsv, and
            theperspective/queries.jsonl and corpus.jsonl.
        half: "A" for trying things out, "B" for the last look, or "all".
        most: pairs of each kind, drawn at random; 0 for all.
        seed: of the draw.

    Raises:
        InputError: an unknown half, a file that is missing or cannot be read, or a half without pairs.
    """
    known("half", half, HALVES)
    stance, theperspective = folder / "stance", folder / "theperspective"
    sources: dict[str, Callable[[], list[StancePair]]] = {
        "fake news": lambda: fake_news(stance / "fnc1_stances.csv", stance / "fnc1_bodies.csv"),
        "iam stance": lambda: iam_stance(stance / "iam_stance.tsv"),
        "iam evidence": lambda: iam_evidence(stance / "iam_evidence.tsv"),
        "points": lambda: points(theperspective / "queries.jsonl", theperspective / "corpus.jsonl"),
    }
    found = {name: at_most(of_half(read(), half), most, seed) for name, read in sources.items()}
    found = {"fake news, related": related(found["fake news"]), **found}
    if empty := [name for name, pairs in found.items() if not pairs]:
        raise InputError(f"there are no pairs of half {half!r} in {empty[0]}", path=folder)
    return found


def related(pairs: Sequence[StancePair]) -> list[StancePair]:
    """Return the pairs of the Fake News Challenge whose article is on the topic of the headline."""
    return [pair for pair in pairs if pair.kind != UNRELATED]
