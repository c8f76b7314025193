"""Print what judges are worth as instruments: on pairs that people labelled elsewhere, on systems, on everyday pairs.

    BERDS_DATA=../shared/data python scripts/judge_tables.py similarity laptop            (half A: for trying out)
    BERDS_DATA=../shared/data python scripts/judge_tables.py JUDGE … --half B -o FOLDER   (the last look)

Half A is for trying things out; half B is looked at once, when nothing is changed any more. Theperspective is asked
with the questions of the same half, or with all of them (--questions all). Verdicts are kept in the user's cache (or
--store), so that a run that was cut off goes on where it was; name the fast judges first. Of BeRDS' own labelled pairs
nothing is read.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from judge_kinds import agreement_by, answers_by, length_bucket, negation_report
from stance import HALVES, NEGATED, PROPOSAL, StancePair, half_of, held_out
from training.laptop import like_the_web
from training.pairs import LAPTOP_SHARES

import berdslib as bd
from berdslib.data.collection import Collection
from berdslib.data.datasets import dataset
from berdslib.data.fetch import candidate_paths, first_existing
from berdslib.data.records import Passage, ranked_run
from berdslib.data.tables import read_jsonl
from berdslib.evaluation.judges import agreement_report, calibration_table
from berdslib.judging.base import HOW_SURE, Pair, how_sure
from berdslib.judging.registry import make_judge
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.paths import local_data_dir
from berdslib.retrieval.expansion import reciprocal_rank_fusion
from berdslib.study.figures import save_figure, use_style
from berdslib.study.figures.values import judged_systems_figure
from berdslib.study.raters import (
    JudgedSystems,
    as_asked,
    judge_systems,
    measured_by_labels,
    order_table,
    question_clusters,
    score_sheet,
)

PAIRS = Path(__file__).parent / "everyday_pairs.jsonl"
SYSTEMS = (
    "bm25,rank-bm25,bm25+mmr:0.75,bm25+mmr:0.5,bm25+expand:rule,minilm,minilm+mmr:0.9,minilm+mmr:0.75,minilm+mmr:0.5,"
    "minilm+mmr:0.25,minilm+dpp:0.5,minilm+msd:0.5,minilm+expand:rule,minilm+expand:rule+mmr:0.75"
)
CHOSEN_BY = ("fake news, related", "iam stance", "iam evidence", "points", "held-out topics")
MEASURES = ("MRecall@5", "Precision@5")
PARTS = ("everyday", "held-out", "theperspective", "sample")  # what is done unless --only says more


# ---------------------------------------------------------------- all about one judge


class JudgeReport(NamedTuple):
    """What labelled pairs say about one judge.

    ``measures`` measure, value, low, high: those of :func:`judge_table`. ``by_length`` its agreement by length of the
    document, ``by_how_sure`` by its answer and by how sure it says it is, ``by_kind`` what it answers to each kind of
    pair. ``calibration`` a reliability table. ``negation`` whether it tells a proposal from its negation; no rows where
    the pairs hold no such two. Each as the function returns it that it comes from.
    """

    judge: str
    threshold: float
    n: int
    measures: pd.DataFrame
    by_length: pd.DataFrame
    by_how_sure: pd.DataFrame
    by_kind: pd.DataFrame
    calibration: pd.DataFrame
    negation: pd.DataFrame


def judge_report(
    pairs: Sequence[StancePair], judge: str, store: VerdictStore | None = None, *, bins: int = 10
) -> JudgeReport:
    """Return all that labelled pairs say about one judge: F1, AUC, calibration, negation, by length and by kind."""
    chosen = make_judge(judge)
    p_yes = judge_pairs(chosen, as_asked(pairs), store)[0]
    frame = pd.DataFrame(pairs, columns=list(StancePair._fields)).rename(columns={"question": "qid"})
    frame["label"] = frame["label"].astype(bool)
    frame = frame.assign(
        p_yes=p_yes,
        answer=p_yes >= chosen.threshold,
        length=length_bucket(frame["document"].tolist()),
        how_sure=pd.Categorical(how_sure(p_yes, chosen.threshold), HOW_SURE, ordered=True),
    )
    return JudgeReport(
        judge,
        chosen.threshold,
        len(pairs),
        measured_by_labels(pairs, p_yes, chosen.threshold),
        agreement_by(frame, "length"),
        agreement_by(frame.assign(said_yes=frame["answer"]), ["said_yes", "how_sure"]),
        answers_by(frame, "kind"),
        calibration_table(frame["label"].to_numpy(), p_yes, bins),
        negation_of(frame, chosen.threshold),
    )


def negation_of(frame: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Compare the answers to a proposal and to its negation, for the documents that were asked both."""
    both = frame[frame["kind"].isin([PROPOSAL, NEGATED])].drop_duplicates(["qid", "document", "kind"])
    wide = both.pivot(index=["qid", "document"], columns="kind", values=["label", "p_yes"])
    wide = wide.reindex(columns=pd.MultiIndex.from_product([["label", "p_yes"], [PROPOSAL, NEGATED]])).dropna()
    true, p = wide["label"].to_numpy(dtype=bool), wide["p_yes"].to_numpy(dtype=np.float64)
    one = true[:, 0] != true[:, 1]
    if not one.any():
        return pd.DataFrame(columns=["measure", "value", "low", "high"])
    right, rows = true[one, 1].astype(int), np.arange(int(one.sum()))
    clusters = wide.index.get_level_values("qid")[one].tolist()
    return negation_report(p[one][rows, right], p[one][rows, 1 - right], clusters, threshold=threshold)


# ---------------------------------------------------------------- pairs that people labelled elsewhere


def of_held_out(judges: Sequence[str], half: str, most: int, store: VerdictStore, folder: Path | None) -> None:
    root = local_data_dir()
    if root is None:
        sys.exit("set BERDS_DATA to the folder that holds stance/, theperspective/ and the sources of training pairs")
    sources = held_out(root, half, most)
    web = [StancePair(e.topic, e.document, e.statement, e.supports, e.kind) for e in like_the_web(LAPTOP_SHARES)]
    sources["held-out topics"] = web  # the same for both halves: no judge's training holds these topics
    reports: dict[str, list[JudgeReport]] = {}
    for judge in judges:
        for name, pairs in sources.items():
            print(f"{judge}: {name}, {len(pairs)} pairs", file=sys.stderr, flush=True)
            reports.setdefault(name, []).append(judge_report(pairs, judge, store))
    heading(f"On pairs that people labelled elsewhere, half {half}", "intervals draw whole stories or topics")
    rows = []
    for name, pairs in sources.items():
        labels = np.array([p.label for p in pairs])
        row = {"pairs": name, "judge": "yes to everything", "n": len(pairs), "positive": percent(labels.mean())}
        rows.append(row | {"F1": percent(2 * labels.mean() / (1 + labels.mean())), "AUC": ".500"})
        rows += [{"pairs": name, "n": r.n, **measures(r)} for r in reports[name]]
    show(pd.DataFrame(rows), folder, "held_out")
    heading(f"What judges are chosen by on half A; this is half {half}", f"mean AUC over {', '.join(CHOSEN_BY)}")
    means = [
        {"judge": judge, "mean AUC": f"{np.mean([auc_of(reports[name][i]) for name in CHOSEN_BY]):.3f}"}
        for i, judge in enumerate(judges)
    ]
    show(pd.DataFrame(means), folder, "chosen_by")
    heading("What each kind is answered", "mean probability, and share of yes")
    kinds = [
        {"pairs": name, "judge": r.judge, "kind": k.kind, "n": k.n, "mean p": interval(k.mean_p, k.mean_p_low,
         k.mean_p_high), "yes, %": interval(k.said_yes, k.said_yes_low, k.said_yes_high, 100)}
        for name in sources if name != "fake news, related"
        for r in reports[name] for k in r.by_kind.itertuples()
    ]  # fmt: skip
    show(pd.DataFrame(kinds), folder, "kinds")
    heading("By length of the document", "F1, in percent")
    lengths = [
        {"pairs": name, "judge": r.judge, "length": b.length, "n": b.n, "positive": percent(b.labelled_yes),
         "F1": interval(b.f1, b.f1_low, b.f1_high, 100)}
        for name in sources if name != "fake news"
        for r in reports[name] for b in r.by_length.itertuples()
    ]  # fmt: skip
    show(pd.DataFrame(lengths), folder, "lengths")
    heading("How sure, and how often right", "of 100 answers")
    words = [
        {"pairs": name, "judge": r.judge, "answer": "yes" if b.said_yes else "no", "how sure": b.how_sure, "n": b.n,
         "right": interval(b.accuracy, b.accuracy_low, b.accuracy_high, 100)}
        for name in CHOSEN_BY for r in reports[name] for b in r.by_how_sure.itertuples()
    ]  # fmt: skip
    show(pd.DataFrame(words), folder, "how_sure")
    heading("Negation", "claims of IAM against a proposal and its negation; sum_of_p should be 1")
    negation = [
        {"judge": r.judge, **{m.measure: interval(m.value, m.low, m.high) for m in r.negation.itertuples()}}
        for r in reports["iam stance"]
    ]
    show(pd.DataFrame(negation), folder, "negation")
    if folder:
        bins = [r.calibration.assign(pairs=n, judge=r.judge) for n, several in reports.items() for r in several]
        pd.concat(bins).to_csv(folder / "calibration.csv", index=False)


def auc_of(report: JudgeReport) -> float:
    return float(report.measures.set_index("measure").loc["auc", "value"])


def measures(report: JudgeReport) -> dict[str, str]:
    found = report.measures.set_index("measure")
    said = {"judge": report.judge}
    for name, title, scale in (
        ("f1", "F1", 100), ("auc", "AUC", 1), ("calibration_error", "calibration error", 1),
        ("precision", "precision", 100), ("recall", "recall", 100), ("said_yes", "said yes", 100),
    ):  # fmt: skip
        value, low, high = found.loc[name, ["value", "low", "high"]].tolist()
        said[title] = interval(value, low, high, scale)
    return said


# ---------------------------------------------------------------- everyday pairs


def of_everyday(judges: Sequence[str], store: VerdictStore, folder: Path | None) -> None:
    rows = [row for _, row in read_jsonl(PAIRS)]
    pairs = [Pair(row["perspective"], 0, Passage(str(i), row["document"]), row["perspective"])
             for i, row in enumerate(rows)]  # fmt: skip
    table = pd.DataFrame({"perspective": [r["perspective"] for r in rows], "supports": [r["supports"] for r in rows]})
    table["document"] = [r["document"][:60] + " …" for r in rows]
    summary = []
    for name in judges:
        judge = make_judge(name)
        p = judge_pairs(judge, pairs, store)[0]
        yes, true = p >= judge.threshold, table["supports"].to_numpy(dtype=bool)
        table[name] = [f"{value:.2f} {'yes' if y else 'no'}{'' if y == t else ' (wrong)'}"
                       for value, y, t in zip(p, yes, true, strict=True)]  # fmt: skip
        first = p[0::2] > p[1::2]  # two documents for each statement, the one that supports it first
        right = yes == true
        summary.append({
            "judge": name,
            "right, of 20": int(right.sum()),
            "both right, of 10": int((right[0::2] & right[1::2]).sum()),
            "supporting one first, of 10": int(first.sum()),
        })  # fmt: skip
    heading("Everyday pairs", "written before any judge was trained; probability and verdict")
    show(table, folder, "everyday")
    print()
    show(pd.DataFrame(summary), folder, "everyday_summary")


# ---------------------------------------------------------------- systems


def theperspective(half: str) -> Collection:
    """Return Theperspective with the questions of one half; halves go by the ids of its file."""
    whole = bd.load("theperspective")
    one = dataset("theperspective")
    ids = [row["id"] for _, row in read_jsonl(first_existing(one, candidate_paths(one, one.local[:1]), "questions"))]
    id_of = {"theperspective-" + re.sub(r"\s", "-", i): i for i in ids}
    clusters = question_clusters(whole)
    first: dict[str, str] = {}  # questions that are there twice are in one half, that of the first id, as their points
    for q, cluster in zip(whole.questions, clusters, strict=True):
        first[cluster] = min(first.get(cluster, id_of[q.qid]), id_of[q.qid])
    chosen = zip(whole.questions, clusters, strict=True)
    return whole.only([q for q, cluster in chosen if half in ("all", half_of(first[cluster]))])


def plain_orders(first: pd.DataFrame, second: pd.DataFrame, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Return orders that no system string makes: two lists fused, one reversed, and two shuffled."""
    draw = np.random.default_rng(seed)

    def reordered(run: pd.DataFrame, depth: int, shuffle: bool) -> pd.DataFrame:
        top = run[run["rank"] <= depth].sort_values(["qid", "rank"])
        lists = {str(qid): part["docno"].tolist() for qid, part in top.groupby("qid")}
        return ranked_run({qid: draw.permutation(d).tolist() if shuffle else d[::-1] for qid, d in lists.items()})

    return {
        "bm25 and minilm fused": reciprocal_rank_fusion([first, second]),
        "minilm, first 10 reversed": reordered(second, 10, shuffle=False),
        "minilm, first 20 shuffled": reordered(second, 20, shuffle=True),
        "bm25, first 20 shuffled": reordered(first, 20, shuffle=True),
    }


def of_systems(
    title: str, collection: Collection, systems: Sequence[str], judges: Sequence[str], depth: int,
    store: VerdictStore, folder: Path | None,
) -> None:  # fmt: skip
    wanted = [m.replace("@5", f"@{depth}") for m in MEASURES]
    runs = [bd.search(name, collection, 20) for name in ("bm25", "minilm")]
    named = {**{name: name for name in systems}, **plain_orders(*runs)}
    result = judge_systems(named, collection, judges, wanted, store=store)
    asked, compared = len(collection.questions), len(result.runs)
    remark = f"{asked} questions, {compared} systems with the oracle, {result.pairs} pairs judged; in percent"
    heading(f"Systems on {title}", remark)
    sheet = score_sheet(result).set_index("system")
    show((sheet * 100).round(1).reset_index(), folder, f"{title}_systems")
    heading(f"Order of systems on {title}", "tau-b with gold; pairs of systems that differ by gold (p < .05)")
    show(orders(result.order), folder, f"{title}_order")
    heading("The same without the four orders that no system string makes", "")
    strings = order_table(result.scores, question_clusters(collection), list(systems), judges, wanted)
    show(orders(strings), folder, f"{title}_order_strings")
    heading("What a few labels add", "means over systems; tau with the true order")
    few = result.labels[result.labels["system"] == "all"].drop(columns="system")
    show(few.round(3), folder, f"{title}_labels")
    if folder:
        use_style()
        for measure in wanted:
            table = result.table[result.table["measure"] == measure]
            save_figure(judged_systems_figure(table, measure), table, folder, f"{title}_{measure.replace('@', '_')}")
        write_all(result, folder, title)


def orders(table: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for row in table.itertuples():
        same, kappa, tau = ([getattr(row, f"{n}{e}") for e in ("", "_low", "_high")] for n in ("same", "kappa", "tau"))
        rows.append({
            "judge": row.judge, "measure": row.measure, "systems": row.systems, "tau": interval(*tau),
            "pairs that differ": int(row.pairs), "alike, %": percent(row.alike), "reversed, %": percent(row.reversed),
            "same for a question, %": interval(*same, 100), "kappa": interval(*kappa),
        })  # fmt: skip
    return pd.DataFrame(rows)


def write_all(result: JudgedSystems, folder: Path, title: str) -> None:
    for name in ("table", "order", "labels"):
        getattr(result, name).to_csv(folder / f"{title}_{name}_full.csv", index=False)


# ---------------------------------------------------------------- lists


def of_lists(
    collection: Collection, judges: Sequence[str], depth: int, store: VerdictStore, folder: Path | None
) -> None:
    """Compare judges with gold on all that each retriever lists first: the shape of BeRDS Table 18."""
    rows, clusters = [], dict(zip((q.qid for q in collection.questions), question_clusters(collection), strict=True))
    pair = ["qid", "pid", "docno"]
    for retriever in ("bm25", "minilm"):
        run = bd.search(retriever, collection, depth)
        gold = bd.judge(run, collection, judge="gold", k=depth)
        drawn, labels = gold["qid"].map(clusters).tolist(), gold["supports"].to_numpy(dtype=bool)
        for judge in judges:
            said = gold[pair].merge(bd.judge(run, collection, judge=judge, k=depth, store=store), on=pair)
            found = agreement_report(labels, said["supports"].to_numpy(dtype=bool), drawn).set_index("measure")
            told = {name: interval(*found.loc[name], 100) for name in ("accuracy", "f1", "said_yes")}
            rows.append({"retriever": retriever, "judge": judge, "n": len(gold)} | told)
            rows[-1]["positive"] = percent(labels.mean())
    heading("Beside gold, on lists", f"first {depth} places, {len(collection.questions)} questions; in percent")
    show(pd.DataFrame(rows), folder, "lists")


# ---------------------------------------------------------------- printing


def percent(value: float) -> str:
    return "" if np.isnan(value) else f"{value * 100:.1f}"


def interval(value: float, low: float, high: float, scale: float = 1) -> str:
    if np.isnan(value):
        return "none"
    digits = 1 if scale == 100 else 3
    if np.isnan(low):  # all of one cluster
        return f"{value * scale:.{digits}f}"
    return f"{value * scale:.{digits}f} [{low * scale:.{digits}f}, {high * scale:.{digits}f}]"


def heading(text: str, remark: str) -> None:
    print(f"\n## {text}\n\n{remark}\n" if remark else f"\n## {text}\n")


def show(table: pd.DataFrame, folder: Path | None, name: str) -> None:
    """Print a table in Markdown, and write it as CSV."""
    table = table.fillna("")
    lines = [list(table.columns), ["---"] * len(table.columns), *table.to_numpy().tolist()]
    print("\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines), flush=True)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        table.to_csv(folder / f"{re.sub(r'[^a-z0-9_]+', '_', name.lower())}.csv", index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judges", nargs="+", help="names, such as laptop or laptop+overlap")
    parser.add_argument("--half", choices=HALVES, default="A")
    parser.add_argument("--questions", choices=HALVES, help="half of theperspective's questions [as --half]")
    parser.add_argument("--most", type=int, default=2500, help="pairs of each kind, drawn at random; 0 for all")
    parser.add_argument("--depth", type=int, default=5, help="how deep systems are judged and scored")
    parser.add_argument("--systems", default=SYSTEMS, help="comma-separated")
    parser.add_argument("--store", type=Path, help="verdict store [user cache]")
    parser.add_argument("--only", choices=(*PARTS, "lists"), action="append")
    parser.add_argument("-o", "--output", type=Path, help="folder for the tables as CSV, and the figures")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    store, chosen = VerdictStore(given.store), given.only or PARTS
    systems = [name.strip() for name in given.systems.split(",") if name.strip()]
    for name in given.judges:
        make_judge(name)  # a name that is wrong, or a model that is missing, is found before hours are spent
    if "everyday" in chosen:
        of_everyday(given.judges, store, given.output)
    if "held-out" in chosen:
        of_held_out(given.judges, given.half, given.most, store, given.output)
    if "theperspective" in chosen:
        found = theperspective(given.questions or given.half)
        of_systems("theperspective", found, systems, given.judges, given.depth, store, given.output)
    if "sample" in chosen:
        found = bd.load("sample", split="all")
        of_systems("sample", found, systems, given.judges, given.depth, store, given.output)
    if "lists" in chosen:
        of_lists(theperspective(given.questions or given.half), given.judges, given.depth, store, given.output)


if __name__ == "__main__":
    main()
