"""Build a judge on a chat model step by step: what the model says, what its states hold, and a stack of judges.

    BERDS_DATA=../shared/data python scripts/judge_ladder.py read dev train shifted people -o FOLDER
    BERDS_DATA=../shared/data python scripts/judge_ladder.py report -o FOLDER
    BERDS_DATA=../shared/data python scripts/judge_ladder.py fit -o FOLDER           (writes the judge `qwen-probe`)
    BERDS_DATA=../shared/data python scripts/judge_ladder.py people -o FOLDER        (once, at the very end)

`read` keeps P(Yes) and hidden states of each pair, and P(Yes) of its negated statement; a killed run goes on. The
probe learns from `train`, whose topics neither `dev` nor `shifted` has. The stack learns from `dev` (web-like pairs of
held-out topics) and is measured on topics that it did not learn from. `shifted` (half A of theperspective) shows how
thresholds carry to other pairs. The labels of people's pairs are used by the step `people` only.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stance import StancePair, held_out
from training.lora import examples

from berdslib.data.datasets import load_pairs
from berdslib.data.records import Passage
from berdslib.evaluation.judges import auc
from berdslib.judging.base import PUBLISHED_POSITIVE_SHARE, Pair
from berdslib.judging.causal import Causal, load_causal
from berdslib.judging.probe import WEIGHTS
from berdslib.judging.refit import logits_of
from berdslib.judging.registry import make_judge
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.llm.prompting import Prompt
from berdslib.paths import local_data_dir
from berdslib.statements import negate
from berdslib.stats import choose_threshold
from berdslib.study.raters import measured_by_labels

SETS = {"dev": 300, "train": 1200, "shifted": 300, "people": 0}
LAYERS = (20, 22, 24, 26)
BATCH = 30  # pairs whose results are written together
PLAIN = Prompt(
    "plain",
    "",
    "{document}\n\n{statement}\n\nDoes the document contain or support this perspective? Answer Yes or No.",
)
OTHERS = ("similarity:mpnet", "laptop", "laptop-mpnet")


def pairs_of(name: str) -> list[StancePair]:
    """Return the pairs of one of ``SETS``, in a drawn order."""
    if name == "people":
        return [StancePair(p.question, p.document, p.perspective, p.label, "people") for p in load_pairs("pers-det")]
    if name == "shifted":
        found = held_out(local_data_dir(), "A", 0)["points"]
        return random.Random(0).sample(found, SETS[name])
    train, dev = examples()
    chosen = random.Random(0).sample(train, SETS[name]) if name == "train" else dev[: SETS[name]]
    return [StancePair(e.topic, e.document, e.statement, e.supports, e.kind) for e in chosen]


def asked(pairs: Sequence[StancePair], *, negated: bool = False) -> list[Pair]:
    """Return the pairs as a judge gets them."""
    change: Callable[[str], str] = negate if negated else str
    return [Pair(p.question, 0, Passage("", p.document), change(p.perspective)) for p in pairs]


# ---------------------------------------------------------------- reading


class Reader(Causal):
    """A causal judge that also returns the hidden states behind its answer."""

    def read(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, np.ndarray]:
        """Return P(Yes), (n,), and the last token's states, (n, layers, width)."""
        found = self.answers(pairs)
        return found[:, 0], found[:, 1:].reshape(len(pairs), len(LAYERS), -1)

    def _judge_batch(self, groups: list[list[list[int]]], opening: Any) -> np.ndarray:
        kept: dict[int, np.ndarray] = {}

        def keep(layer: int) -> Callable[..., None]:
            def hook(_module: Any, _inputs: Any, output: Any) -> None:
                states = output[0] if isinstance(output, tuple) else output
                kept[layer] = states[:, -1].float().cpu().numpy()

            return hook

        hooks = [self.model.model.layers[layer - 1].register_forward_hook(keep(layer)) for layer in LAYERS]
        try:
            says_yes = super()._judge_batch(groups, opening)
        finally:
            for hook in hooks:
                hook.remove()
        return np.column_stack([says_yes, *(kept[layer] for layer in LAYERS)])


def reader(model: str, wording: str) -> Reader:
    """Load the model behind a judge with a wording: "ours", "short" or "plain"."""
    judge = load_causal(model, wording="ours" if wording == "plain" else wording)
    prompt = PLAIN if wording == "plain" else judge.prompt
    return Reader(judge.model, judge.tokenizer, judge.name, prompt=prompt, batch_tokens=4096)


def read(judge: Reader, name: str, wording: str, folder: Path, most: int, *, negated: bool) -> None:
    """Write what the judge finds in a set of pairs (and their negated statements), a file for each batch."""
    pairs = pairs_of(name)[: most or None]
    for start in range(0, len(pairs), BATCH):
        path = folder / f"{wording}-{name}{'-both' if negated else ''}-{start:05}.npz"
        if path.exists():
            continue
        began = time.perf_counter()
        some = pairs[start : start + BATCH]
        both = asked(some) + (asked(some, negated=True) if negated else [])
        p_yes, states = judge.read(both)
        partial = path.with_suffix(".part.npz")
        np.savez(partial, p_yes=p_yes.reshape(-1, len(some)), states=states[: len(some)].astype(np.float16))
        partial.rename(path)
        took = time.perf_counter() - began
        print(f"{path.stem}: {len(both)} statements, {took / len(both):.2f} s each", flush=True)


class Found(NamedTuple):
    """What was read of a set: ``p_yes`` (1 or 2, n), of statement and negation; ``states`` (n, layers, width)."""

    pairs: list[StancePair]
    labels: np.ndarray
    p_yes: np.ndarray
    states: np.ndarray


def found(name: str, wording: str, folder: Path, *, both: bool = True) -> Found:
    """Read back what :func:`read` wrote."""
    files = sorted(folder.glob(f"{wording}-{name}{'-both' if both else ''}-[0-9]*[0-9].npz"))
    if not files:
        sys.exit(f"nothing of {name} was read with the wording {wording}: run the step `read` first")
    parts = [np.load(path) for path in files]
    p_yes = np.concatenate([part["p_yes"] for part in parts], axis=1)
    pairs = pairs_of(name)[: p_yes.shape[1]]
    states = np.concatenate([part["states"] for part in parts]).astype(np.float32)
    return Found(pairs, np.array([p.label for p in pairs]), p_yes, states)


# ---------------------------------------------------------------- the steps


def fitted_probe(train: Found, layer: int) -> Any:
    """Fit the linear probe: from the states of one layer to yes."""
    probe = make_pipeline(StandardScaler(), LogisticRegression(C=1e-3, max_iter=2000))
    return probe.fit(train.states[:, LAYERS.index(layer)], train.labels)


def features(some: Found, probe: Any, layer: int, store: VerdictStore) -> pd.DataFrame:
    """Return the stack's features, a column each, as logits: "yes" to the statement, "no" to its negation."""
    columns = {name: judge_pairs(make_judge(name), asked(some.pairs), store)[0] for name in OTHERS}
    columns["yes"], columns["no"] = some.p_yes
    columns["probe"] = probe.predict_proba(some.states[:, LAYERS.index(layer)])[:, 1]
    return pd.DataFrame({name: logits_of(p) for name, p in columns.items()})


def stack() -> Any:
    """Return an unfitted stack: logistic regression over standardised features."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000))


def interval(pairs: Sequence[StancePair], labels: np.ndarray, p_yes: np.ndarray) -> str:
    """Return AUC with its interval, which draws whole questions."""
    row = measured_by_labels(pairs, p_yes, 0.5).set_index("measure").loc["auc"]
    return f"{auc(labels, p_yes):.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def thresholds(labels: np.ndarray, p_yes: np.ndarray) -> dict[str, float]:
    """Return the threshold of each rule, chosen on labelled pairs weighted to the published share of yes."""
    share = PUBLISHED_POSITIVE_SHARE
    weights = np.where(labels, share / labels.mean(), (1 - share) / (1 - labels.mean()))
    order = np.argsort(-p_yes)
    as_many = p_yes[order][np.searchsorted(np.cumsum(weights[order]), share * len(labels))]
    # The posterior at the pairs' own share of yes, moved to the published share.
    moved = logit(share) - logit(labels.mean())
    half = expit(-moved)
    return {
        "best F1": choose_threshold(labels, p_yes, share),
        "as many yes": float(as_many),
        "half": float(half),
    }


def f1_at(labels: np.ndarray, p_yes: np.ndarray, threshold: float) -> tuple[float, float]:
    """Return F1 and the share of yes at the published share of positive pairs."""
    share = PUBLISHED_POSITIVE_SHARE
    said = p_yes >= threshold
    recall, false = said[labels].mean(), said[~labels].mean()
    yes = share * recall + (1 - share) * false
    return 2 * share * recall / (share + yes), yes


def report(folder: Path, wording: str, layer: int, store: VerdictStore) -> None:
    """Print each step on development pairs, and how each rule's threshold carries to the shifted ones."""
    for other in ("ours", "short", "plain"):
        if any(folder.glob(f"{other}-dev-[0-9]*.npz")):
            some = found("dev", other, folder, both=False)
            print(f"P(yes), wording {other}: {interval(some.pairs, some.labels, some.p_yes[0])}, n {len(some.labels)}")
    train = found("train", wording, folder, both=False)
    dev, shifted = (found(name, wording, folder) for name in ("dev", "shifted"))
    for each in LAYERS:
        p_yes = fitted_probe(train, each).predict_proba(dev.states[:, LAYERS.index(each)])[:, 1]
        print(f"probe, layer {each}: {interval(dev.pairs, dev.labels, p_yes)}")
    probe = fitted_probe(train, layer)
    on_dev, on_shifted = (features(some, probe, layer, store) for some in (dev, shifted))
    rows = []
    for name in on_dev:
        both = ((dev, on_dev), (shifted, on_shifted))
        own = [interval(some.pairs, some.labels, expit(f[name].to_numpy())) for some, f in both]
        rows.append((name, *own))
    topics = [p.question for p in dev.pairs]
    columns = list(on_dev)
    for chosen in (columns, [c for c in columns if c not in OTHERS], ["laptop-mpnet", "probe"], list(OTHERS)):
        inside = out_of_topic(on_dev[chosen], dev.labels, topics)
        outside = stack().fit(on_dev[chosen], dev.labels).predict_proba(on_shifted[chosen])[:, 1]
        own = [interval(dev.pairs, dev.labels, inside), interval(shifted.pairs, shifted.labels, outside)]
        rows.append((f"stack of {', '.join(chosen)}", *own))
        for rule, threshold in thresholds(dev.labels, inside).items():
            figures = [f1_at(labels, p, threshold) for labels, p in ((dev.labels, inside), (shifted.labels, outside))]
            told = [f"F1 {100 * f1:.1f}, {100 * yes:.0f} % yes" for f1, yes in figures]
            rows.append((f"   {rule} ({threshold:.2f})", *told))
    print(pd.DataFrame(rows, columns=["judge", "dev", "shifted"]).to_string(index=False))


def out_of_topic(values: pd.DataFrame, labels: np.ndarray, topics: Sequence[str]) -> np.ndarray:
    """Return each pair's probability from a stack that did not learn from its topic."""
    folds = GroupKFold(10)
    return cross_val_predict(stack(), values, labels, groups=topics, cv=folds, method="predict_proba")[:, 1]


def people(folder: Path, wording: str, layer: int, rule: str, store: VerdictStore) -> None:
    """Print what people's labels say about P(Yes), the probe and the stack, with thresholds from development pairs."""
    train = found("train", wording, folder, both=False)
    dev, last = (found(name, wording, folder) for name in ("dev", "people"))
    probe = fitted_probe(train, layer)
    on_dev, on_last = (features(some, probe, layer, store) for some in (dev, last))
    inside = out_of_topic(on_dev, dev.labels, [p.question for p in dev.pairs])
    ways = {"stack": (inside, stack().fit(on_dev, dev.labels).predict_proba(on_last)[:, 1])}
    for name in ("yes", "probe"):
        ways[name] = tuple(expit(f[name].to_numpy()) for f in (on_dev, on_last))
    for name, (on_development, p_yes) in ways.items():
        threshold = thresholds(dev.labels, on_development)[rule]
        table = measured_by_labels(last.pairs, p_yes, threshold).set_index("measure")
        print(f"{name}: n {len(p_yes)}, threshold {threshold:.2f}, {100 * (p_yes >= threshold).mean():.0f} % yes")
        print(table.to_string())


def fit(folder: Path, wording: str, layer: int, rule: str, store: VerdictStore) -> None:
    """Write probe and stack as the judges `qwen-probe` and `qwen-stack`, with the scaling folded into the weights."""
    train, dev = (found(name, wording, folder, both=name == "dev") for name in ("train", "dev"))
    probe = fitted_probe(train, layer)
    on_dev = features(dev, probe, layer, store)
    fitted = stack().fit(on_dev, dev.labels)
    inside = out_of_topic(on_dev, dev.labels, [p.question for p in dev.pairs])
    settings = {"model": "qwen-coder", "wording": wording, "layer": layer}
    settings |= folded(probe) | {"threshold": chosen(dev.labels, expit(on_dev["probe"].to_numpy()), rule)}
    settings["stack"] = folded(fitted) | {"judges": OTHERS, "threshold": chosen(dev.labels, inside, rule)}
    settings["stack"]["weights"] = dict(zip(on_dev, settings["stack"]["weights"], strict=True))
    WEIGHTS.parent.mkdir(exist_ok=True)
    WEIGHTS.write_text(json.dumps(settings) + "\n", encoding="utf-8")
    print(f"{WEIGHTS}: {settings['stack']}")


def folded(fitted: Any) -> dict[str, Any]:
    """Return the weights and the bias of a regression behind a scaler, for values that are not scaled."""
    scaler, regression = fitted.steps[0][1], fitted.steps[1][1]
    weights = regression.coef_[0] / scaler.scale_
    bias = float(regression.intercept_[0] - weights @ scaler.mean_)
    return {"weights": [float(f"{weight:.6g}") for weight in weights], "bias": bias}


def chosen(labels: np.ndarray, p_yes: np.ndarray, rule: str) -> float:
    """Return the threshold of a rule, with two digits."""
    return round(thresholds(labels, p_yes)[rule], 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("step", choices=("read", "report", "fit", "people"))
    parser.add_argument("sets", nargs="*", choices=[*SETS, []], help="sets to read, in this order")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder of what was read")
    parser.add_argument("--model", default="qwen-coder")
    parser.add_argument("--wording", choices=("ours", "short", "plain"), default="short")
    parser.add_argument("--once", action="store_true", help="read without the negated statements")
    parser.add_argument("--most", type=int, default=0, help="read at most so many pairs of a set; 0: all")
    parser.add_argument("--layer", type=int, choices=LAYERS, default=22, help="layer of the probe")
    parser.add_argument("--rule", choices=("best F1", "as many yes", "half"), default="as many yes")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    store = VerdictStore(options.out / "verdicts")
    if options.step == "read":
        judge = reader(options.model, options.wording)
        for name in options.sets:
            negated = name != "train" and not options.once  # the probe learns from statements as they are
            read(judge, name, options.wording, options.out, options.most, negated=negated)
    elif options.step == "report":
        report(options.out, options.wording, options.layer, store)
    elif options.step == "fit":
        fit(options.out, options.wording, options.layer, options.rule, store)
    else:
        people(options.out, options.wording, options.layer, options.rule, store)


if __name__ == "__main__":
    main()
