"""Choosing how much to project: the choice itself, and by an experiment."""

import numpy as np
import pytest

from berdslib.data.datasets import load
from berdslib.errors import InputError
from berdslib.retrieval.projection import scores
from berdslib.retrieval.strength import STRENGTHS, choose_option, dev_mask
from berdslib.study.experiment import experiment


def test_a_perspective_that_drowns_in_its_root_is_made_louder():
    root, perspective = np.array([[1.0, 0, 0]] * 2), np.array([[0, 1.0, 0], [0, 0, 1.0]])
    passages = np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 1]])  # the root alone, and seen from either perspective
    query = root + 0.3 * perspective  # cosine .96 with the first passage, .88 with the one sought
    of_each = {s: scores("pap", query, root, perspective, passages, strength=s) for s in STRENGTHS}
    hits = {s: (values.argmax(axis=1) == [1, 2]).astype(float) for s, values in of_each.items()}
    assert choose_option(hits, default=0.0) == -1


@pytest.mark.slow
def test_a_strength_is_chosen_by_an_experiment_on_half_of_the_roots():
    """As the module says it: places are what is sought here, so nothing is projected out."""
    task = load("pir-sample:location")
    systems = {s: f"minilm+pap:{s:g}" for s in STRENGTHS}
    found = experiment(list(systems.values()), task, "pRecall@5").scores
    half = dev_mask([q.text for q in task.questions])
    assert half.sum() == 10
    by_root = {s: found[name]["pRecall@5"].to_numpy() for s, name in systems.items()}
    strength = choose_option({s: values[half] for s, values in by_root.items()}, default=0.0)
    assert strength <= 0 and by_root[strength][~half].mean() > by_root[1.0][~half].mean() + 0.4
    plain = experiment("minilm", task, "pRecall@5").scores["minilm"]["pRecall@5"]
    assert by_root[0.0].tolist() == plain.tolist()  # strength 0 is the query as it is


def test_half_of_roots_splits_by_root():
    roots = [f"root {i // 3}" for i in range(33)]
    mask = dev_mask(roots)
    chosen = {r for r, m in zip(roots, mask, strict=True) if m}
    assert len(chosen) == 6 and not chosen & {r for r, m in zip(roots, mask, strict=True) if not m}
    shuffled = np.random.default_rng(1).permutation(33)
    assert (dev_mask([roots[i] for i in shuffled]) == mask[shuffled]).all()
    assert (dev_mask(roots, seed=1) != mask).any()


def test_choose_needs_more_than_luck():
    base = np.array([0.5, 0.5, 0.5, 0.5])
    lucky = np.array([1.0, 0.5, 0.5, 0.0]) + 0.05  # mean gain .05, standard error .20
    steady = np.array([0.6, 0.6, 0.5, 0.6])  # .075, .025
    assert choose_option({0: base, 1: lucky}, default=0) == 0
    assert choose_option({0: base, 1: lucky, 2: steady}, default=0) == 2
    assert choose_option({0: base, 1: base - 0.1}, default=0) == 0
    for n in range(2, 60):  # one root that gains is one standard error exactly, whatever the rounding says
        assert choose_option({0: np.zeros(n), 1: np.eye(n)[0] * 100}, default=0) == 0
    for n in (0, 1):  # the default wins a draw
        assert choose_option({s: np.full(4, n) for s in reversed(STRENGTHS)}, default=0.0) == 0
    for options, default, message in (
        ({1: base}, 0, "not among"),
        ({0: base[:1]}, 0, "two roots"),
        ({0: base, 1: base[:2]}, 0, "one score"),
    ):
        with pytest.raises(InputError, match=message):
            choose_option(options, default=default)
