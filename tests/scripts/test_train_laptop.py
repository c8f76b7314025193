"""Training a laptop judge: a teacher's word, what calibration rests on, a run that is asked for again."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from training import laptop as training
from training.contrast import UNLABELLED
from training.laptop import digest_of, like_the_web, run_kept, taught, train_laptop
from training.pairs import build, is_held_out

from berdslib.errors import InputError
from berdslib.judging.examples import Example
from berdslib.judging.laptop import FAST, WEIGHTS, Calibration, Design, learned, load_laptop, new_model
from berdslib.judging.stance_training import StanceRecipe, Training


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


@pytest.mark.slow
def test_training_with_a_teacher_goes_on_without_asking_again(tmp_path, monkeypatch):
    """A second call after the first has ended: the teacher's answers, the checkpoint and the judge are all found."""
    teacher, asked, trained = load_laptop(), [], []
    inner, plain = teacher.p_yes, training.Training
    monkeypatch.setattr(teacher, "p_yes", lambda pairs: asked.extend(pairs) or inner(pairs))

    def spy(model, examples, recipe):
        trained.append(examples(0))
        return plain(model, examples, recipe)

    monkeypatch.setattr(training, "Training", spy)
    recipe = StanceRecipe(passes=1, documents=16)

    def run():
        return training.train_laptop(tmp_path, {"sample": 0.5}, recipe, start=WEIGHTS, teacher=teacher, one_in=4)

    first, n = run(), len(asked)
    assert n == len({(e.document, e.statement) for e in trained[0]}) > 50
    assert not any(is_held_out(e.topic, 4) for e in trained[0])
    assert all(e.p is not None and abs(e.p - e.supports) <= 0.5 for e in trained[0])
    again = run()
    assert len(asked) == n and trained[1] == trained[0]
    assert again.losses == first.losses and again.judge.id == first.judge.id
    settings = json.loads((tmp_path / "judge" / "settings.json").read_text())
    assert settings["design"] == FAST._asdict() and settings["teacher"]["judge"] == teacher.id


def test_going_on_from_a_judge_of_another_design_is_refused_before_training(tmp_path):
    with pytest.raises(
        InputError, match=r"\[design\]: .*weights.laptop is made of Design\(base='minilm', reading='apart'"
    ):
        train_laptop(tmp_path, {"sample": 1.0}, design=Design("minilm", "together", 2), start=WEIGHTS)
    assert not list(tmp_path.iterdir())


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


def test_each_training_has_a_checkpoint_of_its_own():
    def digest(examples=None, scale=5.0, **recipe):
        model = new_model()
        model.scale.data.fill_(scale)
        return digest_of(Training(model, lambda _: toy() if examples is None else examples, StanceRecipe(**recipe)))

    soft = [e._replace(p=0.5) for e in toy()]
    others = [digest(toy()[2:]), digest(soft), digest(weight_decay=0.5), digest(scale=6.0)]
    assert digest() == digest() and len({digest(), *others}) == 5
