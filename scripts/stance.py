"""Pairs that people labelled elsewhere, for asking how a judge does on text that it was never taught on.

Four sources, close to the judge's task but not the same: the Fake News Challenge (does an article agree with a
headline?), two parts of IAM (which side is a claim on, is a sentence evidence for a claim?), and theperspective (which
of a question's points does a passage make?). Each is in two halves, told by the hash of the story, topic or question:
what is tried is tried on half A, and half B is looked at once, at the end.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from berdslib.data.tables import read_jsonl, read_table
from berdslib.errors import InputError, known
from berdslib.files import StrPath, read_lines
from berdslib.statements import negate

HALVES = ("A", "B", "all")
AGREE, UNRELATED = "agree", "unrelated"
FAKE_NEWS_KINDS = (AGREE, "disagree", "discuss", UNRELATED)
OWN, SAME_SIDE, OTHER_SIDE = "own point", "same side", "other side"
EVIDENCE, NO_EVIDENCE = "evidence", "no evidence"
# An article of the Fake News Challenge says in its first words what it reports.
ARTICLE_WORDS = 300
_SHORTEST_SENTENCE = 4  # words; shorter ones are headings
_ASKED = "should we "
PROPOSAL, NEGATED = "proposal", "negated proposal"


class StancePair(NamedTuple):
    """A document, a statement, and whether the document supports it; ``kind`` as the source has it.

    ``question`` is what pairs have in common that are not independent: the story, the topic or the question.
    """

    question: str
    document: str
    perspective: str
    label: bool
    kind: str


def half_of(text: str) -> str:
    """Return the half, "A" or "B", of what a story, topic or question is called.

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

    One headline is held against many articles, and one article against many headlines, so that neither is independent
    of the others. What belongs together is the story: articles of one text, or with a headline on their topic in
    common, and so on from one to the next. It is called by the first of its articles' ids, in the order of texts. A
    headline on another topic stands with the story of the article.

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
    seen: dict[Any, int] = {}
    for _, row in read_table(bodies):
        body = row.text("Body ID")
        row.check_new(seen, body, f"article {body!r}", "Body ID")
        articles[body] = " ".join(row.text("articleBody").split()[:words])
    told = []  # (article, headline, stance)
    for line, row in read_table(stances):
        headline, body, kind = (row.text(name).strip() for name in ("Headline", "Body ID", "Stance"))
        if kind not in FAKE_NEWS_KINDS:
            problem = f"{kind!r} is not a stance; accepted: {', '.join(FAKE_NEWS_KINDS)}"
            raise InputError(problem, path=stances, line=line, field="Stance")
        if body not in articles:
            raise InputError(f"there is no article {body!r} in {bodies}", path=stances, line=line, field="Body ID")
        told.append((body, headline, kind))
    in_common = [(body, ("text", text)) for body, text in articles.items()]
    in_common += [(body, ("headline", headline)) for body, headline, kind in told if kind != UNRELATED]
    story = _together(in_common)
    told.sort(key=lambda one: (story[one[0]], one[0]))
    pairs = [StancePair(story[body], articles[body], headline, kind == AGREE, kind) for body, headline, kind in told]
    return _some(pairs, stances)


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

    So are sentences that are labelled both as evidence for a claim and as none.

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


def _some(pairs: Iterable[StancePair], path: StrPath) -> list[StancePair]:
    """Return each pair once: files repeat some. One that is labelled in two ways says nothing, and is left out."""
    once = list(dict.fromkeys(pairs))
    labels = Counter(pair[:3] for pair in once)  # of a question, a document and a perspective
    if not (clear := [pair for pair in once if labels[pair[:3]] == 1]):
        raise InputError("holds no pairs", path=path)
    return clear


def _together(in_common: Sequence[tuple[str, Hashable]]) -> dict[str, str]:
    """Return each name → the first name, in the order of texts, of all that something in common leads to.

    Args:
        in_common: (name, something that it has), each name once at least.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    names = sorted({name for name, _ in in_common})
    place = {name: i for i, name in enumerate(names)}
    first: dict[Hashable, str] = {}  # what has it first; an edge leads there from each of the others
    edges = [(place[name], place[first.setdefault(what, name)]) for name, what in in_common]
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(len(in_common)), (ends[0], ends[1])), shape=(len(names), len(names)))
    components = connected_components(graph, directed=False)[1].tolist()
    called: dict[int, str] = {}
    return {name: called.setdefault(component, name) for name, component in zip(names, components, strict=True)}


# ---------------------------------------------------------------- theperspective


def points(queries: StrPath, corpus: StrPath) -> list[StancePair]:
    """Read the passages of theperspective, each against every point that is made on its question, on either side.

    A passage may make several points, which are all its own; passages with the same words are one. Questions that share
    a point or a passage are one question, which is called by the first of their ids, in the order of texts.

    Args:
        queries: JSONL with id, response1 and response2 (the points of either side), and favor_ids and against_ids (the
            passage that makes each of them).
        corpus: JSONL with id and content.

    Raises:
        InputError: a missing or blank field, a side with another number of passages than points, an unknown passage,
            one that is there twice, or no pairs.
    """
    texts: dict[str, str] = {}
    seen: dict[Any, int] = {}
    for _, row in read_jsonl(corpus):
        docno = row.text("id")
        row.check_new(seen, docno, f"passage {docno!r}", "id")
        texts[docno] = " ".join(row.text("content").split())
    made: dict[str, list[tuple[str, str, int]]] = {}  # question → (point, text, side)
    for line, row in read_jsonl(queries):
        question = row.text("id")
        for side, (said, listed) in enumerate((("response1", "favor_ids"), ("response2", "against_ids"))):
            ids, said_here = row.ids(listed), row.texts(said)
            if len(ids) != len(said_here):
                problem = f"{len(ids)} passages for {len(said_here)} points"
                raise InputError(problem, path=queries, line=line, field=listed)
            if unknown := next((one for one in ids if one not in texts), None):
                raise InputError(f"no passage {unknown!r} in {corpus}", path=queries, line=line, field=listed)
            for point, docno in zip(said_here, ids, strict=True):
                made.setdefault(question, []).append((point, texts[docno], side))
    called = _together([(question, what) for question, rows in made.items() for row in rows for what in row[:2]])
    merged: dict[str, list[tuple[str, str, int]]] = {}
    for question, rows in made.items():
        merged.setdefault(called[question], []).extend(rows)
    return _some((pair for question, rows in merged.items() for pair in _against_every_point(question, rows)), queries)


def _against_every_point(question: str, made: Sequence[tuple[str, str, int]]) -> Iterator[StancePair]:
    """Yield each text of a question with each of its points, given (point, text, side) for each point that is made."""
    own = {(point, text) for point, text, _ in made}
    for point, _, side in made:
        for _, text, other in made:
            kind = OWN if (point, text) in own else SAME_SIDE if other == side else OTHER_SIDE
            yield StancePair(question, text, point, kind == OWN, kind)


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
