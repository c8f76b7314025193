"""Labelled (document, statement) pairs to train a judge on, from public sets of arguments, claims and stances.

Every set says in its own way what supports what; here each becomes pairs of a kind that perspectives meet on the web:
a passage of about 100 words, cut anywhere, and a statement it supports, opposes, or only shares words with. Negated
statements are made by rule, so that a judge cannot do well by topic alone. The shipped judges learnt from these. For a
training of your own, write some to a file, which notebook 05 takes as a source:

    BERDS_DATA=../shared/data python scripts/training/pairs.py debates,stances -o pairs.tsv
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from berdslib.data.datasets import dataset
from berdslib.data.fetch import candidate_paths, first_existing
from berdslib.data.tables import read_jsonl, read_table
from berdslib.errors import InputError, known
from berdslib.judging.examples import Example, sample_examples, write_examples
from berdslib.statements import negate

# A web snippet of BeRDS has 100 words (BeRDS section 4.2).
WINDOW_WORDS = 100
# Topics this near to a held-out one (cosine of the encoder) are left out of training.
NEAR_TOPIC = 0.7


def window(text: str, draw: random.Random, words: int = WINDOW_WORDS) -> str:
    """Return `words` neighbouring words of a text, from its start or anywhere with equal chance."""
    parts = text.split()
    last = max(0, len(parts) - words)
    start = draw.randint(0, last) if draw.random() < 0.5 else 0
    return " ".join(parts[start : start + words])


# ---------------------------------------------------------------- the sources


def debates(draw: random.Random) -> Iterator[Example]:
    """Debate arguments: for or against a claim, and each under the perspective that is its title."""
    rows = [row for _, row in read_jsonl(data_file("perspectrum-debates"))]
    sides: dict[str, dict[bool, list[str]]] = defaultdict(lambda: {True: [], False: []})
    for row in rows:
        if row["title"].strip():
            sides[row["metadata"]["claim"]][row["metadata"]["stance"] == "pro"].append(row["title"].strip())
    claims = sorted({row["metadata"]["claim"] for row in rows})
    for row in rows:
        claim, pro = row["metadata"]["claim"], row["metadata"]["stance"] == "pro"
        title, text = row["title"].strip(), window(row["text"], draw)
        document = f"{title} {text}" if title and draw.random() < 0.3 else text
        yield Example(document, claim, pro, claim, "debate:claim")
        yield Example(document, negate(claim), not pro, claim, "debate:negated claim")
        if len(claims) > 1:
            yield Example(text, other(claim, claims, draw), False, claim, "debate:other claim")
        if title:
            yield Example(text, title, True, claim, "debate:point")
            yield Example(text, negate(title), False, claim, "debate:negated point")
        if sides[claim][not pro]:
            yield Example(text, draw.choice(sides[claim][not pro]), False, claim, "debate:opposite point")


def stances(draw: random.Random) -> Iterator[Example]:
    """Perspectrum's claims and one-sentence perspectives on them: short, many, and all about which side."""
    claims_file, pool_file = data_file("perspectrum", 0), data_file("perspectrum", 1)
    pool = {row["pId"]: row["text"].strip() for row in read_json(pool_file)}
    for claim in read_json(claims_file):
        text = claim["text"].strip()
        by_side: dict[bool, list[list[str]]] = {True: [], False: []}
        for cluster in claim["perspectives"]:
            pro = cluster["stance_label_3"] == "SUPPORT"
            by_side[pro].append([pool[pid] for pid in cluster["pids"] if pool.get(pid)])
            for perspective in by_side[pro][-1]:
                yield Example(perspective, text, pro, text, "stance:claim")
                yield Example(perspective, negate(text), not pro, text, "stance:negated claim")
        for pro, clusters in by_side.items():
            for i, cluster_texts in enumerate(clusters):
                if len(cluster_texts) > 1:
                    one, same = draw.sample(cluster_texts, 2)
                    yield Example(one, same, True, text, "stance:paraphrase")
                    yield Example(one, negate(same), False, text, "stance:negated paraphrase")
                against = [t for c in by_side[not pro] for t in c]
                if cluster_texts and against:
                    yield Example(draw.choice(cluster_texts), draw.choice(against), False, text, "stance:opposite")
                beside = [t for j, c in enumerate(clusters) if j != i for t in c]
                if cluster_texts and beside:
                    yield Example(draw.choice(cluster_texts), draw.choice(beside), False, text, "stance:other point")


def key_points(draw: random.Random) -> Iterator[Example]:
    """ArgKP-2021: people's labels of arguments and key points, and the side of each argument in its debate."""
    seen = set()
    for _, row in read_table(data_file("argkp")):
        argument, point, topic = (row.text(f) for f in ("argument", "key_point", "topic"))
        yield Example(argument, point, row["label"] == "1", topic, "key point")
        if row["label"] == "1" and draw.random() < 0.5:
            yield Example(argument, negate(point), False, topic, "negated key point")
        if argument not in seen:
            seen.add(argument)
            pro = row["stance"] == "1"
            yield Example(argument, topic, pro, topic, "key point:topic")
            yield Example(argument, negate(topic), not pro, topic, "key point:negated topic")


def claims(draw: random.Random) -> Iterator[Example]:
    """Wikipedia around a labelled claim (IBM claim stance): the window holds the claim, and is cut anywhere."""
    articles = _articles()
    for _, row in read_table(data_file("claim-stance")):
        topic = plain_motion(row.text("topicText"))
        claim = " ".join(row.text("claims.claimOriginalText").split())
        article = articles.get(article_id(row["claims.article.rawFile"]), "")
        pro = row["claims.stance"] == "PRO"
        around = _around(article, claim, draw) or row.text("claims.claimCorrectedText")
        for document, kind in ((around, "claim:window"), (claim, "claim:bare")):
            yield Example(document, topic, pro, topic, kind)
            yield Example(document, negate(topic), not pro, topic, f"{kind}, negated topic")


def neutral(draw: random.Random) -> Iterator[Example]:
    """Wikipedia on a debate's topic in which nobody found a claim: it supports neither side."""
    articles = _articles()
    motions, found = {}, defaultdict(set)
    for _, row in read_table(data_file("claim-stance")):
        article = article_id(row["claims.article.rawFile"])
        motions[article.split("/")[0]] = plain_motion(row.text("topicText"))
        found[article].add(" ".join(row["claims.claimOriginalText"].split()).lower())
    for article, text in articles.items():
        topic = motions.get(article.split("/")[0])
        for _ in range(4 if topic else 0):
            document = window(text, draw)
            if len(document.split()) > 50 and not any(claim in document.lower() for claim in found[article]):
                statement = topic if draw.random() < 0.5 else negate(str(topic))
                yield Example(document, str(statement), False, str(topic), "neutral")


def beliefs(draw: random.Random) -> Iterator[Example]:  # noqa: ARG001 - one signature for all sources
    """ExplaGraphs: arguments that support or counter a belief."""
    for _, row in read_table(data_file("explagraphs")):
        belief, argument = (row.text(f) for f in ("belief", "argument"))
        pro = row["stance"] == "support"
        yield Example(argument, belief, pro, belief, "belief")
        yield Example(argument, negate(belief), not pro, belief, "belief:negated")


SOURCES: dict[str, Callable[[random.Random], Iterator[Example]]] = {
    "debates": debates,
    "stances": stances,
    "key_points": key_points,
    "claims": claims,
    "neutral": neutral,
    "beliefs": beliefs,
    "sample": lambda _: iter(sample_examples()),
}

# What the shipped `laptop` judge learnt from.
LAPTOP_SHARES = {
    "stances": 1.0,
    "beliefs": 1.0,
    "key_points": 0.5,
    "debates": 1.0,
    "claims": 1.0,
    "neutral": 0.3,
}


def build(names: Iterable[str], seed: int = 0) -> list[Example]:
    """Return the examples of the named sources, in a drawn order.

    Args:
        names: of ``SOURCES``.
        seed: of every draw: windows, partners, order.

    Raises:
        InputError: an unknown source.
        MissingDataError: a data set that is not on this machine.
    """
    examples: list[Example] = []
    for name in names:
        draw = random.Random(f"{seed} {name}")
        found = SOURCES[known("source of training pairs", name, SOURCES)](draw)
        # A question cannot be negated by rule. What two rows of a source say alike is said once.
        examples += dict.fromkeys(e for e in found if not ("negated" in e.kind and e.statement.endswith("?")))
    random.Random(seed).shuffle(examples)
    return examples


def mixture(shares: Mapping[str, float], seed: int = 0) -> list[Example]:
    """Return a drawn share of each source's documents, each with all its statements, in a drawn order.

    Args:
        shares: source → share of its documents, above 0 to 1.
        seed: of every draw; another seed cuts other windows.

    Raises:
        InputError: a share that is none.
    """
    chosen = []
    for name, share in shares.items():
        if not 0 < share <= 1:
            raise InputError(f"must be above 0 and at most 1, not {share}", field=name)
        chosen += share_of(build([name], seed), share)
    random.Random(seed).shuffle(chosen)
    return chosen


def share_of(examples: Sequence[Example], share: float) -> list[Example]:
    """Return the examples of the first documents, which are in a drawn order; a document is not parted from itself."""
    documents = list(dict.fromkeys(e.document for e in examples))
    kept = set(documents[: round(share * len(documents))])
    return [e for e in examples if e.document in kept]


# ---------------------------------------------------------------- split by topic


def split_by_topic(
    examples: Sequence[Example],
    encode: Callable[[list[str]], np.ndarray],
    *,
    beside: Sequence[Example] = (),
    one_in: int = 10,
    near: float = NEAR_TOPIC,
) -> tuple[list[Example], list[Example]]:
    """Split into (training, held out) so that no held-out topic, nor one near it, is trained on (divergences.md B11).

    A topic is held out by the hash of its text, the same in every call and every source. What is left is trained on
    unless its topic is near to a held-out one: "We should abolish capital punishment" may not teach what
    "The death penalty is just" tests. Nor is it if its document shares a run of 12 words with one that is held out:
    debates quote each other, and passages are cut from the same articles more than once.

    Args:
        examples: any examples.
        encode: texts → float32 (n, d) of length 1.
        beside: examples that are measured on as well, and so are held out like those of the held-out topics.
        one_in: one topic in so many is held out.
        near: cosine from which two topics count as near.

    Raises:
        InputError: nothing is left on one side.
    """
    topics = sorted({e.topic for e in examples})
    held = sorted({t for t in topics if is_held_out(t, one_in)} | {e.topic for e in beside})
    rest = sorted(set(topics) - set(held))
    if not held or not rest:
        raise InputError(f"{len(topics)} topics are too few to hold one in {one_in} out")
    vectors = encode(held).T
    nearest = np.concatenate(
        [(part @ vectors).max(axis=1) for part in np.array_split(encode(rest), max(1, len(rest) // 500))]
    )
    trained = {t for t, cosine in zip(rest, nearest, strict=True) if cosine < near}
    held_out = [e for e in examples if is_held_out(e.topic, one_in)]
    measured = [*held_out, *beside]
    kept_back = {*held, *(e.document for e in measured), *(e.statement for e in measured)}
    left = [e for e in examples if e.topic in trained and not kept_back & {e.document, e.statement}]
    runs = set().union(*(word_runs(text) for text in {e.document for e in measured}))
    quoting = {text for text in {e.document for e in left} if not runs.isdisjoint(word_runs(text))}
    return [e for e in left if e.document not in quoting], held_out


def word_runs(text: str, words: int = 12) -> set[str]:
    """Return all runs of so many neighbouring words, whatever their case and punctuation; of a shorter text, all of it.

    >>> sorted(word_runs("One, two three.", words=2))
    ['one two', 'two three']
    """
    parts = re.findall(r"\w+", text.lower())
    return {" ".join(parts[i : i + words]) for i in range(max(1, len(parts) - words + 1))}


def is_held_out(topic: str, one_in: int = 10) -> bool:
    """Say whether a topic is held out, by the hash of its words."""
    words = " ".join(re.findall(r"\w+", topic.lower()))
    return int(hashlib.sha256(words.encode()).hexdigest(), 16) % one_in == 0


# ---------------------------------------------------------------- small things


def other(own: str, texts: Sequence[str], draw: random.Random) -> str:
    """Return one of the texts that is not `own`."""
    return draw.choice([t for t in draw.sample(texts, 2) if t != own])


def plain_motion(motion: str) -> str:
    """Return a motion ("This house would …", "This house believes that …") as a statement.

    >>> plain_motion("This house would ban boxing")
    'We should ban boxing'
    >>> plain_motion("This house believes that physical education should be compulsory")
    'Physical education should be compulsory'
    """
    text = re.sub(r"^This house believes that ", "", motion.strip(), flags=re.IGNORECASE)
    text = re.sub(r"^This house would\b", "We should", text, flags=re.IGNORECASE)
    return text[:1].upper() + text[1:]


def _around(article: str, claim: str, draw: random.Random) -> str:
    """Return a window of the article around the claim; "" where the article does not hold it."""
    at = article.lower().find(claim.lower())
    if at < 0:
        return ""
    before, rest = article[:at].split(), article[at:].split()
    lead = draw.randint(5, 50)
    return " ".join(before[-lead:] + rest[: WINDOW_WORDS - lead])


def _articles() -> dict[str, str]:
    return {row["_id"]: " ".join(row["text"].split()) for _, row in read_jsonl(data_file("wikipedia-articles"))}


def article_id(raw_file: str) -> str:
    """Return "t1/5" for "articles/t1/raw_5.txt", "" for other names."""
    found = re.search(r"(t\d+)/raw_(\d+)", raw_file)
    return f"{found[1]}/{found[2]}" if found else ""


def data_file(name: str, number: int = 0) -> Path:
    """Return a file of a data set of the catalogue: the first of its files, or another by its number.

    Raises:
        MissingDataError: it is not on this machine.
    """
    one = dataset(name)
    return first_existing(one, candidate_paths(one, one.local[number : number + 1]), "training pairs")


def read_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", help=f"comma-separated: {', '.join(SOURCES)}")
    parser.add_argument("-o", "--out", type=Path, required=True, help="a TSV file")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    write_examples(asked.out, build(asked.sources.split(","), asked.seed))


if __name__ == "__main__":
    main()
