"""Write what the trials of bigger judges are trained and measured on: ids of texts, so that each text is there once.

    BERDS_DATA=../shared/data python scripts/judge_trials/data.py FOLDER

Training comes from the sources that shipped weights may learn from; what people labelled elsewhere (Fake News
Challenge, IAM, theperspective) is for choosing and measuring, in two halves by article, topic or question: variants are
chosen on half A, and half B is looked at once, at the end. Nothing of BeRDS is read.
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from berdslib.data.negation import negate
from berdslib.data.tables import read_jsonl
from berdslib.judging.training.contrast import KINDS, Surroundings, contrasts, debates, explanations
from berdslib.judging.training.pairs import (
    LAPTOP_SHARES,
    Example,
    data_file,
    mixture,
    split_by_topic,
    window,
)
from berdslib.models.encoders import get_encoder
from berdslib.paths import local_data_dir

csv.field_size_limit(10**9)


class Row(NamedTuple):
    """A pair for measuring: ``label`` as its source names it, ``half`` "A" (for choosing) or "B" (kept back)."""

    document: str
    statement: str
    label: str
    half: str
    group: str


def half(text: str) -> str:
    return "AB"[int(hashlib.sha256(text.encode()).hexdigest(), 16) % 2]


# ---------------------------------------------------------------- training


def stage(example: Example) -> str:
    """Say in which part of the training an example comes first: entailment, short stance, or windows."""
    if example.kind.startswith("explanation") or example.kind in ("stance:paraphrase", "stance:negated paraphrase"):
        return "entailment"
    return "short" if len(example.document.split()) <= 60 else "window"


def examples(seed: int) -> list[Example]:
    draw = random.Random(f"{seed} explanations")
    entailment = list(dict.fromkeys(explanations(draw)))
    return [*mixture(LAPTOP_SHARES, seed), *entailment, *contrasts(KINDS, seed)]


# ---------------------------------------------------------------- measuring


def fake_news(folder: Path) -> list[Row]:
    """Headline against the first 300 words of the article: agree, disagree, discuss, and one in nine unrelated."""
    bodies = {row["Body ID"]: " ".join(row["articleBody"].split()[:300]) for row in _csv(folder / "fnc1_bodies.csv")}
    rows = []
    for i, row in enumerate(_csv(folder / "fnc1_stances.csv")):
        if row["Stance"] != "unrelated" or i % 9 == 0:
            body = row["Body ID"]
            rows.append(Row(bodies[body], row["Headline"], row["Stance"], half(body), body))
    return rows


def iam_stance(folder: Path) -> list[Row]:
    """A claim of an article against the question as a proposal, and against its negation."""
    rows = []
    for line in (folder / "iam_stance.tsv").read_text(encoding="utf-8").splitlines():
        kind, question, claim, _, side = line.split("\t")
        statement = _proposal(question)
        if kind == "C" and statement:
            for said, label in ((statement, side == "1"), (negate(statement), side == "-1")):
                rows.append(Row(claim, said, str(int(label)), half(question), question))
    return rows


def iam_evidence(folder: Path) -> list[Row]:
    """A sentence of an article against a claim: is it evidence for it?"""
    rows = []
    for line in (folder / "iam_evidence.tsv").read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if len(fields) >= 5 and fields[2] in "EO" and len(fields[4].split()) > 3:
            rows.append(Row(fields[4], fields[3], fields[2], half(fields[1]), fields[1]))
    return rows


def the_perspective(folder: Path) -> list[Row]:
    """Each passage of a question against each of its six points: its own, one of its side, one of the other."""
    passages = {row["id"]: " ".join(row["content"].split()) for _, row in read_jsonl(folder / "corpus.jsonl")}
    rows = []
    for _, row in read_jsonl(folder / "queries.jsonl"):
        sides = [
            list(zip(row[f"response{n}"], row[f"{which}_ids"], strict=False))
            for n, which in ((1, "favor"), (2, "against"))
        ]
        points = [(point, docid, n) for n, side in enumerate(sides) for point, docid in side]
        for point, docid, n in points:
            for _, other, m in points:
                label = "own" if other == docid else "same side" if m == n else "other side"
                rows.append(Row(passages[other], point, label, half(row["id"]), row["id"]))
    return rows


def everyday() -> list[Row]:
    path = Path(__file__).parent / "everyday_pairs.jsonl"
    return [Row(r["document"], r["perspective"], str(int(r["supports"])), "A", "") for _, r in read_jsonl(path)]


def attacked(held_out: list[Example], draw: random.Random) -> list[Row]:
    """Off-topic passages as they are, with the statement in front, and with its denial in front: never support."""
    statements = sorted({e.statement for e in held_out if e.kind == "debate:claim"})
    documents = sorted({e.document for e in held_out if e.kind == "neutral"})
    rows = []
    for statement in statements * 2:
        document = draw.choice(documents)
        small = statement[:1].lower() + statement[1:]
        for label, front in (("plain", ""), ("copied", f"{statement} "), ("denied", f"It is false that {small} ")):
            rows.append(Row(front + document, statement, label, "A", ""))
    return rows


def _proposal(question: str) -> str:
    text = question.strip().rstrip("?")
    return f"We should {text[10:]}" if text.lower().startswith("should we ") else ""


def _csv(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# ---------------------------------------------------------------- unlabelled pairs, for a pupil


def unlabelled(training: list[Example], draw: random.Random, a_claim: int = 120) -> list[tuple[str, str]]:
    """Training claims, negations and points against windows that share words with them, as a search would find them."""
    windows = sorted(
        {e.document for e in training if len(e.document.split()) > 60 and not e.kind.startswith("contrast")}
    )
    for _, row in read_jsonl(data_file("wikipedia-articles")):
        text = " ".join(row["text"].replace("[REF]", " ").split())
        windows += [window(text, draw) for _ in range(3)]
    near = Surroundings(windows, near=60)
    topics = {e.topic for e in training}
    rows = []
    for debate in debates():
        if debate.claim in topics:
            points = [text for side in (True, False) for group in debate.points[side] for text in group]
            for _ in range(a_claim):
                statement = draw.choice([debate.claim, negate(debate.claim), *draw.sample(points, min(3, len(points)))])
                rows.append((near.about(statement, draw), statement))
    return list(dict.fromkeys(rows))


# ---------------------------------------------------------------- files


def main(folder: Path) -> None:
    encode = get_encoder().encode_passages
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(" ".join(text.split()), len(texts))

    stored: dict[str, list[list[object]]] = {}
    for seed in (0, 1):
        training, held = split_by_topic(examples(seed), encode)
        stored[f"train{seed}"] = [
            [number(e.document), number(e.statement), int(e.supports), e.kind, stage(e)] for e in training
        ]
        print(seed, len(training), Counter(stage(e) for e in training), sum(e.supports for e in training))
        if seed == 0:
            held_out, first = held, training
    web = split_by_topic(mixture(LAPTOP_SHARES, 0), encode)[1]
    web = [e for e in web if e.kind.startswith(("debate", "claim:window", "neutral"))]
    draw = random.Random(0)
    others = {
        "held contrast": [e for e in held_out if e.kind.startswith("contrast")],
        "held explanation": [e for e in held_out if e.kind.startswith("explanation")],
        "held short": [e for e in held_out if e.kind.startswith(("stance", "belief", "key", "negated key"))],
        "web-like": web,
    }
    for name, rows in others.items():
        kept = rows if name == "web-like" else draw.sample(rows, min(3000, len(rows)))
        stored[name] = [[number(e.document), number(e.statement), str(int(e.supports)), "A", e.kind] for e in kept]
    root = local_data_dir()
    assert root is not None
    measured = {
        "fnc": fake_news(root / "stance"),
        "iam stance": iam_stance(root / "stance"),
        "iam evidence": iam_evidence(root / "stance"),
        "theperspective": the_perspective(root / "theperspective"),
        "everyday": everyday(),
        "attacked": attacked(web, draw),
    }
    side = [e for e in web if e.kind.endswith((":claim", "claim:window"))]
    measured["side"] = [
        Row(e.document, s, f"{'own' if e.supports else 'other'}{n}", "A", str(i))
        for i, e in enumerate(side)
        for n, s in enumerate((e.statement, negate(e.statement)))
    ]
    for name, rows in measured.items():
        stored[name] = [[number(r.document), number(r.statement), r.label, r.half, r.group] for r in rows]
    stored["unlabelled"] = [[number(d), number(s)] for d, s in unlabelled(first, draw)]
    for name, rows in stored.items():
        print(name, len(rows), Counter(r[2] for r in rows).most_common(5) if len(rows[0]) > 2 else "")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pairs.json").write_text(json.dumps({"texts": list(texts), "pairs": stored}, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
