"""Train and measure one judge of the trials: see jobs.py for what a job says, data.py for what it reads.

    python trial.py JOB.json DATA BASES OUT

A killed run goes on from its last checkpoint (OUT/NAME.state) and ends, on one CPU, with the same weights bit by bit.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from encoders import Encoder, Judge
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

STATEMENT, DOCUMENT, STEP = 64, 192, 16
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FNC, HALVES = "fnc", ("A",)
APART = ("two", "late")  # documents are read alone


class Data:
    """Texts as token ids, and rows of (document, statement, label, …) by name."""

    def __init__(self, folder: Path, base: str) -> None:
        stored = json.loads((folder / "pairs.json").read_text(encoding="utf-8"))
        self.pairs = stored["pairs"]
        flat = np.load(folder / f"{base}.npz")
        self.ids, self.ends = torch.from_numpy(flat["ids"].astype(np.int64)), flat["ends"]
        self.lengths = np.diff(self.ends, prepend=0)
        self.first, self.last = int(flat["first"]), int(flat["last"])

    def text(self, number: int) -> torch.Tensor:
        """Return the token ids of a text, without the marks around it."""
        end = self.ends[number]
        return self.ids[end - self.lengths[number] : end]

    def rows(self, name: str) -> tuple[np.ndarray, np.ndarray, list[Any]]:
        """Return documents, statements, and the rows as they are stored."""
        rows = self.pairs[name]
        return np.array([r[0] for r in rows]), np.array([r[1] for r in rows]), rows


def shape(length: int) -> int:
    return -(-length // STEP) * STEP


class Joint:
    """Batches of both texts in one reading: <s> statement </s></s> document </s>; BERT has one mark between them."""

    def __init__(self, data: Data) -> None:
        self.data, self.between = data, 2 if data.first == 0 else 1  # mpnet's first token is 0

    def lengths(self, documents: np.ndarray, statements: np.ndarray) -> np.ndarray:
        """Return the tokens of each pair, before padding."""
        d, s = self.data.lengths[documents], self.data.lengths[statements]
        return np.minimum(s, STATEMENT) + np.minimum(d, DOCUMENT) + 2 + self.between

    def batch(self, documents: np.ndarray, statements: np.ndarray, length: int) -> tuple[torch.Tensor, ...]:
        """Return ids, mask, and the part that each token is of: 1 statement, 2 document."""
        ids = torch.full((len(documents), length), 1 if self.between == 2 else 0, dtype=torch.long)
        part = torch.zeros(len(documents), length, dtype=torch.long)
        mask = torch.zeros(len(documents), length, dtype=torch.bool)
        for i, (d, s) in enumerate(zip(documents, statements, strict=True)):
            said, doc = self.data.text(s)[:STATEMENT], self.data.text(d)[:DOCUMENT]
            at = 1 + len(said) + self.between
            end = at + len(doc)
            ids[i, 0] = self.data.first
            ids[i, 1 : 1 + len(said)], part[i, 1 : 1 + len(said)] = said, 1
            ids[i, 1 + len(said) : at] = self.data.last
            ids[i, at:end], part[i, at:end] = doc, 2
            ids[i, end] = self.data.last
            mask[i, : end + 1] = True
        return ids, mask, part


def moved(tensors: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [t.pin_memory().to(DEVICE, non_blocking=True) if DEVICE == "cuda" else t for t in tensors]


def alone(data: Data, texts: np.ndarray, limit: int, pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and mask of texts that are read alone."""
    length = shape(int(min(limit - 2, data.lengths[texts].max())) + 2)
    ids = torch.full((len(texts), length), pad, dtype=torch.long)
    mask = torch.zeros(len(texts), length, dtype=torch.bool)
    for i, t in enumerate(texts):
        one = data.text(t)[: limit - 2]
        ids[i, 0], ids[i, 1 : 1 + len(one)], ids[i, 1 + len(one)] = data.first, one, data.last
        mask[i, : len(one) + 2] = True
    return ids, mask


def scores(judge: Judge, data: Data, documents: np.ndarray, statements: np.ndarray) -> torch.Tensor:
    """Return the logits of one batch."""
    if judge.mode not in APART:
        joint = Joint(data)
        length = shape(int(joint.lengths(documents, statements).max()))
        return judge.joint(*moved(joint.batch(documents, statements, length)))
    pad = 1 if data.first == 0 else 0
    d, at_d = np.unique(documents, return_inverse=True)
    s, at_s = np.unique(statements, return_inverse=True)
    if judge.mode == "late":
        said, read = moved(alone(data, s, STATEMENT, pad)), moved(alone(data, d, DOCUMENT, pad))
        return judge.late(said, read, torch.from_numpy(at_s).to(DEVICE), torch.from_numpy(at_d).to(DEVICE))
    v = judge.vectors(*moved(alone(data, d, DOCUMENT, pad)))
    u = judge.vectors(*moved(alone(data, s, STATEMENT, pad)))
    return judge.compare(u[torch.from_numpy(at_s).to(DEVICE)], v[torch.from_numpy(at_d).to(DEVICE)])


def batches(
    data: Data, mode: str, rows: np.ndarray, d: np.ndarray, s: np.ndarray, tokens: int, most: int, draw: Any
) -> list[np.ndarray]:
    """Return row numbers by batch, in a drawn order: pairs of one padded length, or documents with their statements."""
    rows = draw.permutation(rows)
    if mode not in APART:
        lengths = -(-Joint(data).lengths(d[rows], s[rows]) // STEP)
        found = []
        for length in np.unique(lengths):
            group = rows[lengths == length]
            size = int(min(most, max(8, tokens // (length * STEP))))
            found += [group[i : i + size] for i in range(0, len(group), size)]
    else:
        size_of = np.minimum(data.lengths[d[rows]], DOCUMENT) // 24
        order = np.lexsort((d[rows], size_of))
        rows = rows[order]
        size = min(most, 256)
        found = [rows[i : i + size] for i in range(0, len(rows), size)]
    return [found[i] for i in draw.permutation(len(found))]


def plan(job: dict[str, Any], data: Data) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return documents, statements and targets of all rows, and the batches in their order."""
    draw = np.random.default_rng(job.get("seed", 0))
    parts, stages, kinds = [], [], []
    for name in ("train0", "train1"):
        rows = data.pairs[name]
        parts += [(r[0], r[1], float(r[2])) for r in rows]
        stages += [f"{name} {r[4]}" for r in rows]
        kinds += [r[3] for r in rows]
    d, s, y = (np.array(column) for column in zip(*parts, strict=True))
    stages, kept = np.array(stages), np.ones(len(parts), dtype=bool)
    if job.get("without"):
        kept &= np.array([not re.search(job["without"], k) for k in kinds])
    for pattern, share in job.get("shares", {}).items():
        kept &= np.array([not re.search(pattern, k) for k in kinds]) | (draw.random(len(parts)) < share)
    for pattern, share in job.get("documents", {}).items():  # whole documents, with all their statements
        drawn = draw.random(int(d.max()) + 1) < share
        kept &= np.array([not re.search(pattern, stage) for stage in stages]) | drawn[d]
    target = y
    if job.get("teachers"):
        soft = np.mean([np.load(f"{job['out']}/{t}.soft.npy") for t in job["teachers"]], axis=0)
        temper = job.get("temperature", 1.0)
        p = 1 / (1 + np.exp(-soft / temper))
        n = len(parts)
        target = job["soft"] * p[:n] + (1 - job["soft"]) * y
        d, s = np.append(d, data.rows("unlabelled")[0]), np.append(s, data.rows("unlabelled")[1])
        target = np.append(target, p[n:])
        stages = np.append(stages, ["unlabelled window"] * (len(p) - n))
        kept = np.append(kept, np.ones(len(p) - n, dtype=bool))
    found: list[np.ndarray] = []
    for names in job["stages"]:
        rows = np.flatnonzero(np.isin(stages, names) & kept)
        found += batches(data, job["mode"], rows, d, s, job["tokens"], job["most"], draw)
    return d, s, target.astype(np.float32), found


# ---------------------------------------------------------------- training


def new(job: dict[str, Any], bases: Path) -> Judge:
    torch.manual_seed(job.get("seed", 0))
    base = bases / job["base"]
    judge = Judge(
        Encoder(base, job["rank"], job.get("alpha", 32) / max(1, job["rank"]), job.get("dropout", 0.1)), job["mode"]
    )
    if job.get("start"):
        judge.load_state_dict({**judge.state_dict(), **load_file(base / job["start"])})
    if job.get("zero head"):
        torch.nn.init.zeros_(judge.head.weight), torch.nn.init.zeros_(judge.head.bias)
    return judge.to(DEVICE)


def train(job: dict[str, Any], judge: Judge, data: Data, state: Path) -> dict[str, Any]:
    d, s, y, order = plan(job, data)
    head = {id(p) for p in (*judge.head.parameters(), judge.scale)}
    free = [p for p in judge.parameters() if p.requires_grad]
    rate = job["rate"]
    groups = [{"params": [p for p in free if id(p) not in head], "lr": rate},
              {"params": [p for p in free if id(p) in head], "lr": job.get("head rate", rate * 5)}]  # fmt: skip
    optimiser = torch.optim.AdamW(groups, weight_decay=0.01, fused=DEVICE == "cuda")
    steps = len(order)
    rise = max(1.0, 0.06 * steps)
    most = 60 * job.get("minutes", 0)  # of a trial at equal minutes: of this process's own time, not resumable

    def pace(i: int) -> float:
        done = (time.process_time() - clock) / most if most else i / steps
        return min(1.0, done / 0.06 if most else (i + 1) / rise) * max(0.0, 1 - done)

    clock = time.process_time()
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, pace)
    begin, losses, seconds = 0, [], 0.0
    if state.exists():
        kept = torch.load(state, weights_only=False)
        judge.load_state_dict(kept["judge"], strict=False)
        optimiser.load_state_dict(kept["optimiser"]), schedule.load_state_dict(kept["schedule"])
        torch.set_rng_state(kept["draws"])
        if DEVICE == "cuda":
            torch.cuda.set_rng_state(kept["gpu draws"])
        begin, losses, seconds = kept["step"], kept["losses"], kept["seconds"]
    judge.train()
    told: list[int] = []  # to stop, by whoever started this
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    started, saved = time.monotonic(), time.monotonic()
    for i in range(begin, steps):
        if most and time.process_time() - clock > most:
            order = order[:i]
            break
        rows = order[i]
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = scores(judge, data, d[rows], s[rows])
        loss = F.binary_cross_entropy_with_logits(logits.float(), torch.from_numpy(y[rows]).to(DEVICE))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(free, 1.0)
        optimiser.step(), schedule.step(), optimiser.zero_grad()
        losses.append(loss.detach())
        stop = bool(told) or job.get("stop") == i + 1
        if stop or time.monotonic() - saved > job.get("save every", 120):
            losses = [float(x) for x in losses]
            now = {
                "judge": {k: p.detach() for k, p in judge.named_parameters() if p.requires_grad},
                "optimiser": optimiser.state_dict(),
                "schedule": schedule.state_dict(),
                "draws": torch.get_rng_state(),
                "gpu draws": torch.cuda.get_rng_state() if DEVICE == "cuda" else None,
                "step": i + 1,
                "losses": losses,
                "seconds": seconds + time.monotonic() - started,
            }
            torch.save(now, state.with_suffix(".new"))
            state.with_suffix(".new").replace(state)
            saved = time.monotonic()
            if stop:
                sys.exit(9)
    losses, steps = [float(x) for x in losses], len(order)
    seconds += time.monotonic() - started
    pairs = int(sum(len(r) for r in order))
    tenth = max(1, steps // 10)
    means = [round(float(np.mean(losses[i : i + tenth])), 4) for i in range(0, steps, tenth)]
    return {
        "steps": steps,
        "pairs": pairs,
        "train_s": round(seconds, 1),
        "pairs_per_s": round(pairs / seconds),
        "losses": means,
    }


@torch.inference_mode()
def logits_of(judge: Judge, data: Data, d: np.ndarray, s: np.ndarray, tokens: int) -> np.ndarray:
    judge.eval()
    found = np.empty(len(d), dtype=np.float32)
    draw = np.random.default_rng(0)
    for rows in batches(data, judge.mode, np.arange(len(d)), d, s, 4 * tokens, 2048, draw):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            found[rows] = scores(judge, data, d[rows], s[rows]).float().cpu().numpy()
    return found


# ---------------------------------------------------------------- measuring


def auc(labels: np.ndarray, values: np.ndarray) -> float:
    """Return the area under the ROC curve, ties counted half; nan with one kind of label."""
    labels = np.asarray(labels, dtype=bool)
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    ranks[order] = np.arange(1, len(values) + 1)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.bincount(inverse, ranks) / counts)[inverse]
    p, n = labels.sum(), (~labels).sum()
    return float((ranks[labels].sum() - p * (p + 1) / 2) / (p * n)) if p and n else float("nan")


def best_f1(labels: np.ndarray, values: np.ndarray, share: float = 0.0) -> tuple[float, float]:
    """Return the best F1 and its threshold; with a share, positives are weighted to be that share of all."""
    labels = np.asarray(labels, dtype=bool)
    order = np.argsort(-values, kind="stable")
    p = labels.mean()
    w = np.where(labels, share / p, (1 - share) / (1 - p)) if share else np.ones(len(labels))
    hit = np.cumsum((w * labels)[order])
    f1 = 2 * hit / (np.cumsum(w[order]) + (w * labels).sum())
    best = int(f1.argmax())
    return float(f1[best]), float(values[order][best])


def measure_more(labelled: Any, threshold: float) -> dict[str, float]:
    """Return the figures of what was made by rule: contrasts, explanations, sides, attacks."""
    out: dict[str, float] = {}
    y, z, kind = labelled("held contrast")
    out["contrast"] = auc(y == "1", z)
    for name in np.unique(kind):
        of = kind == name
        out[f"{name} right"] = float(((z[of] > 0) == (y[of] == "1")).mean())
    y, z, kind = labelled("held explanation")
    out["ex-fever"] = auc((y == "1")[kind == "explanation"], z[kind == "explanation"])
    out["ex-fever contrasts"] = auc(y == "1", z)
    y, z, _ = labelled("held short")
    out["short"] = auc(y == "1", z)
    y, z, group = labelled("side")
    by = {(g, name): value for g, name, value in zip(group, y, z, strict=True)}
    marks = sorted({g for g, _ in by})
    right = [by[g, "own0"] > by[g, "own1"] if (g, "own0") in by else by[g, "other0"] < by[g, "other1"] for g in marks]
    out["side"] = float(np.mean(right))
    y, z, _ = labelled("attacked")
    for name in ("plain", "copied", "denied"):
        out[f"attacked {name} pass"] = float((z[y == name] >= threshold).mean())
    return out


def measured_rows(data: Data, name: str, most: int) -> np.ndarray:
    """Return the rows of half A (of sets without halves: all), or so many of them."""
    rows = data.pairs[name]
    order = np.random.default_rng(0).permutation(len(rows))
    whole = name in ("side", "attacked", "everyday")
    chosen = [i for i in order if rows[i][3] in HALVES]
    return np.sort(np.arange(len(rows)) if whole else chosen[:most])


def measure(found: dict[str, np.ndarray], data: Data, most: int) -> dict[str, Any]:
    """Return the figures of the rows that :func:`measured_rows` names; `found` has their logits."""
    out: dict[str, Any] = {}

    def labelled(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = [data.pairs[name][i] for i in measured_rows(data, name, most)]
        return np.array([r[2] for r in rows]), found[name], np.array([str(r[4]) for r in rows])

    y, z, kind = labelled("web-like")
    threshold = best_f1(y == "1", z, 0.168)[1]
    out["web auc"], out["web f1"] = auc(y == "1", z), best_f1(y == "1", z)[0]
    out["web f1 at .168"] = best_f1(y == "1", z, 0.168)[0]
    for name in ("debate", "claim:window"):
        of = np.char.startswith(kind, name)
        out[f"web auc {name}"] = auc((y == "1")[of], z[of])
    y, z, _ = labelled(FNC)
    related = y != "unrelated"
    out["fnc agree/rest related"] = auc((y == "agree")[related], z[related])
    out["fnc f1"] = best_f1((y == "agree")[related], z[related])[0]
    for other in ("disagree", "discuss"):
        two = (y == "agree") | (y == other)
        out[f"fnc agree/{other}"] = auc((y == "agree")[two], z[two])
    out["fnc related/unrelated"] = auc(related, z)
    y, z, _ = labelled("iam stance")
    out["iam stance"] = auc(y == "1", z)
    y, z, _ = labelled("iam evidence")
    out["iam evidence"] = auc(y == "E", z)
    y, z, _ = labelled("theperspective")
    out["theperspective own/rest"] = auc(y == "own", z)
    out["theperspective f1"] = best_f1(y == "own", z)[0]
    for other in ("same side", "other side"):
        two = (y == "own") | (y == other)
        out[f"theperspective own/{other}"] = auc((y == "own")[two], z[two])
    y, z, _ = labelled("everyday")
    out["everyday auc"], out["everyday pairs right"] = auc(y == "1", z), float((z[0::2] > z[1::2]).mean())
    out["everyday right at threshold"] = float(((z >= threshold) == (y == "1")).mean())
    out["threshold"] = threshold
    if "side" in found:
        out |= measure_more(labelled, threshold)
    chosen = ("web auc", "fnc agree/rest related", "iam stance", "iam evidence", "theperspective own/rest")
    out["chosen by"] = float(np.mean([out[name] for name in chosen]))
    return {k: round(v, 4) for k, v in out.items()}


CHOSEN_BY = ("web-like", FNC, "iam stance", "iam evidence", "theperspective", "everyday")
MEASURED = (*CHOSEN_BY, "held contrast", "held explanation", "held short", "side", "attacked")


def main(job: dict[str, Any], folder: Path, bases: Path, out: Path) -> None:
    begun = time.monotonic()
    torch.backends.cuda.matmul.allow_tf32 = True
    data = Data(folder, job["base"])
    name, row = job["name"], {"job": job, "device": DEVICE}
    judge = new({**job, "out": str(out)}, bases)
    row["trained weights"] = sum(p.numel() for p in judge.parameters() if p.requires_grad)
    if job.get("stages"):
        row |= train({**job, "out": str(out)}, judge, data, out / f"{name}.state")
    at = time.monotonic()
    measured = {"all": MEASURED, "chosen by": CHOSEN_BY, "none": ()}[job.get("measured", "all")]
    most = job.get("most measured", 10**9)
    found = {}
    for m in measured:
        rows, (d, s, _) = measured_rows(data, m, most), data.rows(m)
        found[m] = logits_of(judge, data, d[rows], s[rows], job["tokens"])
    row["measured pairs/s"] = round(sum(map(len, found.values())) / (time.monotonic() - at))
    row["scores"] = measure(found, data, most) if measured else {}
    if job.get("stages"):
        kept = {k: v.half().contiguous().cpu() for k, v in judge.learned().items()}
        save_file(kept, out / f"{name}.safetensors")
    np.savez(out / f"{name}.logits.npz", **{k: v.astype(np.float16) for k, v in found.items()})
    if job.get("label"):
        rows = [data.rows(n)[:2] for n in ("train0", "train1", "unlabelled")]
        d, s = (np.concatenate([r[i] for r in rows]) for i in (0, 1))
        np.save(out / f"{name}.soft.npy", logits_of(judge, data, d, s, job["tokens"]))
    row["all_s"] = round(time.monotonic() - begun, 1)
    if DEVICE == "cuda":
        row["gpu GB"] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
    with open(out / "log.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    given = Path(sys.argv[1])
    main(json.loads(given.read_text()), *map(Path, sys.argv[2:5]))
