"""Check the shipped sample: ids, lengths, balance, near-duplicates, openings, and that no perspective stands verbatim.

Usage: python scripts/check_sample.py [FOLDER]      (exit status 1 if anything is wrong)
"""

import argparse
import collections
import itertools
import json
import re
import sys
from pathlib import Path

from berdslib.data.formats import iter_passages, read_questions
from berdslib.data.trec import read_verdicts

STYLES = ("sample-arguana", "sample-kialo", "sample-opinionqa")


def shingles(text, n=5):
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


def problems(folder):
    """Yield one line for each thing that is wrong."""
    questions = read_questions(folder / "questions.jsonl")
    passages = list(iter_passages(folder / "passages.jsonl"))
    verdicts = read_verdicts(folder / "verdicts.tsv")
    rows = [json.loads(line) for line in (folder / "passages.jsonl").read_text(encoding="utf-8").splitlines()]
    home = {row["_id"]: row["qid"] for row in rows}
    expansions = [json.loads(line) for line in (folder / "expansions.jsonl").read_text(encoding="utf-8").splitlines()]

    by_style = collections.Counter(q.source for q in questions)
    if len(questions) < 24 or any(by_style[s] < 8 for s in STYLES):
        yield f"too few questions: {dict(by_style)}"
    if sum(len(q.perspectives) >= 3 for q in questions if q.source == "sample-kialo") < 4:
        yield "fewer than 4 kialo-like questions have three perspectives or more"
    if {q.split for q in questions} != {"dev", "test"}:
        yield "the split needs dev and test questions"
    if len(passages) < 360 or len(home) != len(passages):
        yield f"{len(passages)} passages, {len(home)} ids"
    for p in passages:
        if not 60 <= len(p.text.split()) <= 120:
            yield f"{p.docno}: {len(p.text.split())} words"

    expected = {(q.qid, i, d) for q in questions for i in range(len(q.perspectives)) for d in home if home[d] == q.qid}
    found = set(zip(verdicts["qid"], verdicts["pid"], verdicts["docno"], strict=True))
    if expected != found:
        yield f"{len(expected - found)} verdicts are missing, {len(found - expected)} are too many"
    counts = collections.Counter(e["qid"] for e in expansions)
    for q in questions:
        if counts[q.qid] != 6:
            yield f"{q.qid}: {counts[q.qid]} expansions instead of 6"

    for (a, sa), (b, sb) in itertools.combinations([(p.docno, shingles(p.text)) for p in passages], 2):
        if len(sa & sb) > 0.1 * min(len(sa), len(sb)):
            yield f"{a} and {b} share more than a tenth of their five-word sequences"
    openings = collections.Counter(" ".join(p.text.lower().split()[:3]) for p in passages)
    for opening, n in openings.items():
        if n > 2:
            yield f"{n} passages open with {opening!r}"
    for p, q in itertools.product(passages, questions):
        for perspective in q.perspectives:
            if perspective.rstrip(".").lower() in p.full_text.lower():
                yield f"{p.docno} contains a perspective of {q.qid} word for word"

    yes = verdicts[verdicts["supports"]]
    first, second = (len(yes[(yes["pid"] == i) & yes["qid"].str.match("[ao]")]) for i in (0, 1))
    if first <= second:
        yield f"the supporting side should be argued more often: {first} to {second}"
    argued = set(zip(yes["qid"], yes["pid"], strict=True))
    if all((q.qid, i) in argued for q in questions for i in range(len(q.perspectives))):
        yield "some question should have a perspective that no passage argues"
    kinds = collections.Counter(row["kind"] for row in rows)
    for kind in ("argues", "both", "neutral", "lexical", "negates"):
        if kinds[kind] < 20:
            yield f"only {kinds[kind]} passages of kind {kind}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1] / "data" / "sample")
    found = list(problems(parser.parse_args().folder))
    print("\n".join(found) if found else "the sample is as it should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
