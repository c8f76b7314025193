"""Rebuilds two PIR tasks from their source data sets, Perspectrum and EX-FEVER (Zhao et al., A.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from berdslib.data.collection import Collection
from berdslib.data.formats import write_beir
from berdslib.data.leaks import similar_sets
from berdslib.data.pir import PirQuery, pir_collection
from berdslib.data.records import Passage, make_verdicts
from berdslib.data.tables import Row, read_table, write_jsonl
from berdslib.errors import InputError, known
from berdslib.words import compared_words

PERSPECTRUM = ("perspectrum_with_answers_v1.0.json", "perspective_pool_v1.0.json", "dataset_split_v1.0.json")
PERSPECTIVES = {
    "support": "a claim that supports the argument",
    "undermine": "a claim that opposes the argument",
    "general": "a claim that relates to the argument",
    "SUPPORT": "claim that this sentence supports",
    "REFUTE": "claim that this sentence refutes",
    "NOT ENOUGH INFO": "claim that this sentence relates but has no information about",
}
ALIKE = 2 / 3  # two claims of ten words that differ in two share 8 of 12
Asked = tuple[str, str, str, list[Passage]]  # id of a query, root, label, and the passages that answer it


def build_pir(builder: str, raw: Path, folder: Path) -> Collection:
    """Build a PIR task from its source and write it to a folder that ``berdslib.load`` reads.

    Args:
        builder: "pir-perspectrum" or "pir-exfever".
        raw: the folder with Perspectrum's three files, or a table of EX-FEVER with claim, explanation and label.
        folder: a new or empty folder; an existing BEIR folder is never overwritten.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InputError("is not empty; name a new folder", path=folder)
    builders = {"pir-perspectrum": _perspectrum, "pir-exfever": _exfever}
    queries: list[PirQuery] = []
    passages: dict[str, Passage] = {}
    for qid, root, label, answers in builders[known("builder", builder, builders)](raw):
        found = {passage.docno: passage for passage in answers}
        perspective = PERSPECTIVES[label]
        asks = perspective.removeprefix("a ").replace("that relates", "relates")  # the exact words of the release
        queries.append(PirQuery(qid, f"Find a {asks}: {root}", root, perspective, tuple(found), label))
        passages |= found
    if not queries:
        raise InputError("holds nothing that a query could be made of", path=raw)
    task = pir_collection(builder.removeprefix("pir-"), queries, tuple(passages.values()))
    gold = [(query.qid, 0, docno, 1.0, True) for query in queries for docno in query.gold]
    write_beir(folder, (), task.passages, make_verdicts(gold, "gold"), "test")
    write_jsonl(folder / "queries.jsonl", ({"_id": query.qid} | query._asdict() for query in queries))
    return task


def _perspectrum(folder: Path) -> Iterator[Asked]:
    """Yield, for each test claim in id order, a query for each cluster of its texts and one for all of them."""
    claims, pool, splits = (folder / name for name in PERSPECTRUM)
    text_of = {row.text("pId"): row.text("text") for _, row in read_table(pool, ("pId", "text"))}
    tested = {row.text("key") for _, row in read_table(splits, ("key", "text")) if row.text("text") == "test"}
    rows = [row for _, row in read_table(claims, ("cId", "text", "perspectives")) if row.text("cId") in tested]
    for claim in sorted(rows, key=lambda row: row.number("cId")):
        everything: list[Passage] = []
        clusters = claim.listed("perspectives")
        if not isinstance(clusters, list) or not all(isinstance(cluster, dict) for cluster in clusters):
            raise claim.wrong("perspectives", "a list of objects was expected, each with pids and stance_label_3")
        for place, held in enumerate(clusters):
            cluster = Row(held, claim.path, claim.line, within=f"perspectives[{place}].")
            qid = f"{claim.text('cId')}-{place}"
            if unknown := [pid for pid in cluster.ids("pids") if pid not in text_of]:
                raise cluster.wrong("pids", f"{unknown[0]!r} is not in {pool.name}")
            answers = [Passage(f"{qid}-{pid}", text_of[pid]) for pid in cluster.ids("pids")]
            label = _label(cluster, "stance_label_3", ("SUPPORT", "UNDERMINE"))
            yield qid, claim.text("text"), label.lower(), answers
            everything += answers
        yield claim.text("cId"), claim.text("text"), "general", everything


def _exfever(table: Path) -> Iterator[Asked]:
    """Yield each explanation's queries: for its supported claim, and for the most similar refuted and open claims.

    Each of these similar claims is used once, with the explanation of the claim that it resembles most.
    """
    rows = [row for _, row in read_table(table, ("claim", "explanation", "label"))]
    labels = [_label(row, "label", ("SUPPORT", "REFUTE", "NOT ENOUGH INFO")) for row in rows]
    words = [frozenset(compared_words(row.text("claim"))) for row in rows]
    alike = similar_sets(words, ALIKE)
    alike = alike.sort_values(["overlap", "i", "j"], ascending=[False, True, True])
    claims: dict[int, dict[str, int]] = {}  # row of an explanation → label → row of the claim
    taken: set[int] = set()
    for pair in alike[["i", "j"]].itertuples(index=False):
        for own, other in (pair, pair[::-1]):
            found = claims.get(own, {"SUPPORT": own})
            if labels[own] == "SUPPORT" and labels[other] not in found and other not in taken:
                claims[own] = found | {labels[other]: other}
                taken.add(other)
    for own, found in sorted(claims.items()):
        for label, place in found.items():
            yield str(place), rows[own].text("explanation"), label, [Passage(str(place), rows[place].text("claim"))]


def _label(row: Row, field: str, labels: Sequence[str]) -> str:
    if (label := row.text(field)) not in labels:
        raise row.wrong(field, f"{label!r} is not one of {', '.join(labels)}")
    return label
