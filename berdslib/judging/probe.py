"""Judges on a language model's hidden states: a linear probe, and a stack of the probe with other judges.

A small model's hidden states tell more about a pair than its Yes and No do (docs/laptop_judge.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from berdslib.errors import MissingDataError
from berdslib.judging.base import Judge, Pair
from berdslib.judging.causal import Causal, load_causal
from berdslib.judging.refit import logits_of
from berdslib.statements import negate

WEIGHTS = Path(__file__).parent / "weights" / "qwen-probe" / "settings.json"


class Probe(Causal):
    """Answers by logistic regression on the state of the last token behind one layer of a causal judge's model.

    The fitted settings have `layer` (from 1), `weights`, `bias` and `threshold`; `digest` stands for them in the id.
    """

    def __init__(self, *judge: Any, fitted: Mapping[str, Any], digest: str, **options: Any) -> None:
        super().__init__(*judge, least_share=0.0, **options)  # how likely Yes and No are does not matter
        self.threshold = fitted["threshold"]
        self._layer = fitted["layer"]
        self._weights_of_states = np.array(fitted["weights"])
        self._bias = fitted["bias"]
        self._digest = digest

    @property
    def id(self) -> str:
        """Name the probe, and everything that the model's states depend on."""
        return f"probe({self._digest},{super().id})"

    def _judge_batch(self, groups: list[list[list[int]]], opening: Any) -> np.ndarray:
        """Return (n, 2): the probe's probability, and that of the answer Yes."""
        from scipy.special import expit

        states = []

        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            tokens = output[0] if isinstance(output, tuple) else output
            states.append(tokens[:, -1].double().cpu().numpy())

        hook = self.model.model.layers[self._layer - 1].register_forward_hook(keep)
        try:
            says_yes = super()._judge_batch(groups, opening)
        finally:
            hook.remove()
        # The last pass reads the end of every prompt; passes before it read what prompts share.
        p_yes = expit(states[-1] @ self._weights_of_states + self._bias)
        return np.column_stack([p_yes, says_yes])


class Stack:
    """Logistic regression on logits: the probe's, its model's Yes to statement and negated statement, other judges'."""

    def __init__(self, probe: Probe, others: Mapping[str, Judge], fitted: Mapping[str, Any]) -> None:
        self.probe = probe
        self.others = others
        self.threshold = fitted["threshold"]
        self._weights = fitted["weights"]
        self._bias = fitted["bias"]

    @property
    def id(self) -> str:
        """Name all members."""
        members = ",".join([self.probe.id, *(judge.id for judge in self.others.values())])
        return f"stack({hashlib.sha256(members.encode()).hexdigest()[:12]})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), the probability if a third of the pairs are yes, as it was fitted on."""
        from scipy.special import expit

        if not pairs:  # such as passages that hold nothing but copies of the perspective
            return np.empty(0)
        logits = self.logits(pairs)
        return np.asarray(expit(sum(logits[name] * weight for name, weight in self._weights.items()) + self._bias))

    def logits(self, pairs: Sequence[Pair]) -> dict[str, np.ndarray]:
        """Return the logits (n,) of each member's answer."""
        negated = [pair._replace(perspective=negate(pair.perspective)) for pair in pairs]
        probed, says_yes = self.probe.answers([*pairs, *negated]).T
        answers = {name: judge.p_yes(pairs) for name, judge in self.others.items()}
        answers |= {"probe": probed[: len(pairs)], "yes": says_yes[: len(pairs)], "no": says_yes[len(pairs) :]}
        return {name: logits_of(p_yes) for name, p_yes in answers.items()}


def load_probe(path: Path = WEIGHTS, **options: Any) -> Probe:
    """Load a probe and its language model, by default the shipped one on `qwen-coder`."""
    written = _read(path)
    fitted = json.loads(written)
    make = partial(Probe, fitted=fitted, digest=hashlib.sha256(written).hexdigest()[:12])
    return cast(Probe, load_causal(fitted["model"], wording=fitted["wording"], make=make, **options))


def load_stack(make_judge: Callable[[str], Judge], path: Path = WEIGHTS) -> Stack:
    """Load a probe with the other judges of its stack, which `make_judge` makes by name."""
    fitted = json.loads(_read(path))["stack"]
    others = {name: make_judge(name) for name in fitted["judges"]}
    return Stack(load_probe(path), others, fitted)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MissingDataError(f"no probe in {path} ({error.strerror}); scripts/judge_ladder.py fits one") from None
