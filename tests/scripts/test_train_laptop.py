"""Training a laptop judge: a teacher's word, what calibration rests on, a run that is asked for again."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from training.contrast import UNLABELLED
from training.laptop import like_the_web, run_kept, taught, train_laptop
from training.pairs import build, is_held_out
from training.stance import StanceRecipe, Training

from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.judging.base import Pair
from berdslib.judging.examples import Example
from berdslib.judging.laptop import Laptop, learned, load_laptop, new_model, save_laptop
from berdslib.judging.refit import Calibration


class Teacher:
    """Stands in for a judge: what it thinks is its logit, whatever it reads."""

    id, threshold, calibration = "teacher(test)", 0.5, Calibration(0.8, -1.0, 0.5)

    def __init__(self, logit):
        self.logit, self.asked = logit, 0

    def p_yes(self, pairs):
        self.asked += len(pairs)
        return self.calibration.p_yes(np.full(len(pairs), self.logit))


def test_a_pupil_learns_the_label_and_what_the_teacher_thinks():
    asked = [Example("d", "s", True, "t", "debate:claim"), Example("d", "s2", False, "t", UNLABELLED)]
    p = 1 / (1 + math.exp(-1.5))
    assert [e.p for e in taught(asked, Teacher(1.5), own_share=0.25)] == pytest.approx([0.25 + 0.75 * p, p])
    assert [e[:5] for e in taught(asked, Teacher(1.5))] == [e[:5] for e in asked]
    assert taught([], Teacher(0.0)) == []
    knows_one = Teacher(1.5)
    assert [e.p for e in taught(asked, knows_one, own_share=1)] == pytest.approx([1.0, p]) and knows_one.asked == 1
    with pytest.raises(InputError, match="own_share"):
        taught(asked, Teacher(0.0), own_share=1.5)
    with pytest.raises(InputError, match=r"\[unlabelled\]: nobody has labelled these pairs"):
        train_laptop(Path("nowhere"), {UNLABELLED: 1.0})


def test_held_out_passages_are_all_there_are_whatever_share_is_trained_on():
    whole, half = like_the_web({"sample": 1.0}, one_in=4), like_the_web({"sample": 0.5}, one_in=4)
    assert whole == half and whole
    assert all(is_held_out(e.topic, 4) for e in whole)
    everything = [e for e in build(["sample"]) if is_held_out(e.topic, 4)]
    assert sorted(whole) == sorted(everything)
    with pytest.raises(InputError, match=r"\[shares\]: of stances, no held-out topic"):
        like_the_web({"stances": 1.0})


def toy(number=0):
    """Documents that praise or damn a thing, and a statement on each."""
    return [
        Example(f"plan {i} {'helps' if i % 2 else 'harms'} everyone.", f"plan {i} is good.", i % 2 == 1, str(i), "toy")
        for i in range(96)
    ]


@pytest.mark.slow
def test_a_training_that_broke_off_goes_on_and_ends_like_an_unbroken_one(tmp_path, monkeypatch):
    recipe, steps, left = StanceRecipe(passes=2, documents=24), Training._step, [3]

    def step(self, batch):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return steps(self, batch)

    def run(folder):
        one = Training(new_model(), toy, recipe)
        return one.model, run_kept(one, folder, save_every=2)

    whole, losses = run(tmp_path / "whole")
    monkeypatch.setattr(Training, "_step", step)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken")
    left[0] = taken = 99
    torch.manual_seed(999)
    again, resumed = run(tmp_path / "broken")
    assert taken - left[0] == len(losses) - 2 and np.allclose(resumed, losses, atol=2e-3)
    assert all(torch.allclose(w, learned(whole)[name], atol=2e-3) for name, w in learned(again).items())


@pytest.mark.slow
def test_training_learns_a_toy_task_and_leaves_word_embeddings_alone(tmp_path):
    model = new_model()
    before = model.encoder.embeddings.word_embeddings.weight.clone()
    losses = Training(model, toy, StanceRecipe(passes=8, documents=16, learning_rate=3e-4)).run()
    assert np.mean(losses[-4:]) < 0.35 < np.mean(losses[:4])
    assert torch.equal(model.encoder.embeddings.word_embeddings.weight, before)
    judge = Laptop(model, Calibration(1.0, 0.0, 0.5), "toy")
    again = load_laptop(save_laptop(model, judge.calibration, tmp_path / "judge", {"note": "toy"}))
    asked = [Pair("q", 0, Passage("d", e.document), e.statement) for e in toy()[:10]]
    assert np.abs(again.p_yes(asked) - judge.p_yes(asked)).max() < 0.01  # half precision on disk
    with pytest.raises(InputError, match="both labels"):
        Training(model, lambda _: [e for e in toy() if e.supports], StanceRecipe())
