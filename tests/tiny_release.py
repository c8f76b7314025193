"""A release of PerspectiveArg in its published layout, small enough to read: 30 arguments on 3 issues."""

import gzip
from pathlib import Path

from layouts import jsonl

# Part of every profile, and of nothing else: a text that holds it shows a profile.
SECRET = "Zwischenbergen"
ISSUES = ("Should sugar be taxed?", "Should trams be free?", "Should zoos close?")
TOPICS = ("sugar", "trams", "zoos")
SPLITS = ("train", "dev", "test")
BASELINE, PERSPECTIVE = ("baseline-queries/queries_{}.jsonl", "perspective-queries/queries_{}.jsonl")


def argument(i):
    """Argument 0 to 29: ten for each issue, by authors who are in turn left and right, young and old."""
    return {
        "argument_id": 2019000 + i,
        "text": f"Reason number {i} on the matter of {TOPICS[i // 10]}.",
        "target": ISSUES[i // 10],
        "stance": "PRO" if i % 3 else "CON",
        "demographic_profile": {
            "gender": "female" if i % 4 else "male",
            "age": "18-34" if i % 5 < 3 else "65+",
            "residence": SECRET,
            "political_attitude": "left" if i % 2 else "right",
            "political_issues": ["law & order", SECRET],
        },
    }


def matching(split, **asked):
    """Return the ids of the arguments on a split's issue whose profile has these values."""
    own = [argument(i) for i in range(30) if i // 10 == SPLITS.index(split)]
    return [a["argument_id"] for a in own if all(a["demographic_profile"][p] == v for p, v in asked.items())]


def baseline_query(split):
    at = SPLITS.index(split)
    return {"query_id": at, "text": ISSUES[at], "relevant_candidates": matching(split)}


def perspective_queries(split):
    """Three queries a split, with ids from 100, 110 and 120."""
    at = SPLITS.index(split)
    asked = ({"political_attitude": "left"}, {"political_attitude": "right"}, {"age": "18-34"})
    return [
        {
            "query_id": 100 + 10 * at + n,
            "text": ISSUES[at],
            "demographic_properties": one,
            "relevant_candidates": matching(split, **one),
        }
        for n, one in enumerate(asked)
    ]


def release_files():
    """Return name → content of the files of the release."""
    files = {"corpus.jsonl": jsonl(*map(argument, range(30)))}
    for split in SPLITS:
        files[BASELINE.format(split)] = jsonl(baseline_query(split))
        files[PERSPECTIVE.format(split)] = jsonl(*perspective_queries(split))
    return files


def write_files(folder, files):
    """Write files, text or bytes, under a folder; one whose content is None is left out."""
    for name, content in files.items():
        if content is not None:
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Path(folder)


def predicted(split, first=0, n=20):
    """Return rows of a predictions file: n arguments in the order of the corpus, from one of them on."""
    ids = [2019000 + (first + i) % 30 for i in range(n)]
    return [{"query_id": q["query_id"], "relevant_candidates": ids} for q in perspective_queries(split)]


def cut_gzip(text):
    """Return the beginning of a gzip file, less than its first line."""
    return gzip.compress(text.encode())[:30]
