"""The stance model that reads both texts together: its definition, LoRA, what is saved, and its training."""

import json
import math

import numpy as np
import pytest
import torch

from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.judging.base import Pair
from berdslib.judging.laptop import SETTINGS, TENSORS, Calibration, Laptop, load_laptop, load_trained, save_laptop
from berdslib.judging.registry import make_judge
from berdslib.judging.stance import DOCUMENT_TOKENS, STATEMENT_TOKENS, Design, learned, merged, new_model
from berdslib.judging.training.pairs import Example
from berdslib.judging.training.stance import StanceRecipe, batches_of_pairs, train

SMALL = Design("minilm", "together", 2)
PAIRS = [
    ("Cities should ban cars.", "Removing private cars from downtown cuts pollution."),
    ("Cities should not ban cars.", "Removing private cars from downtown cuts pollution. " * 40),
    ("Nobody reads long statements " * 30, "Short."),
    ("Zoos should close.", ""),
]


def moved(seed=1):
    """A model whose LoRA matrices add something, as after training."""
    model = new_model(SMALL).eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight += 0.02 * torch.randn_like(weight)
    return model


def by_definition(model, statement, document):
    """One pair, float32, no padding: token ids put together by hand, each text's mean, scaled cosine plus the head."""
    word = model.tokenizer
    said = word(statement, add_special_tokens=False)["input_ids"][:STATEMENT_TOKENS]
    read = word(document, add_special_tokens=False)["input_ids"]
    read = read[: STATEMENT_TOKENS + DOCUMENT_TOKENS - 3 - len(said)]
    ids = [word.cls_token_id, *said, word.sep_token_id, *read, word.sep_token_id]
    kinds = [0] * (len(said) + 2) + [1] * (len(read) + 1)
    with torch.no_grad():
        hidden = model.encoder(
            input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([kinds]), attention_mask=torch.ones(1, len(ids))
        ).last_hidden_state[0]
        u = hidden[1 : 1 + len(said)].mean(0)
        v = hidden[2 + len(said) : -1].mean(0) if read else torch.zeros_like(u)
        u, v = u / u.norm(), v / v.norm().clamp(min=1e-9)
        features = torch.cat([u, v, (u - v).abs(), u * v]) * 4
        return float(model.scale * (u @ v - 0.5) + features @ model.head.weight[0] + model.head.bias[0])


def test_logits_equal_the_definition_pair_by_pair():
    model = moved()
    with torch.no_grad():
        found = model(*zip(*PAIRS, strict=True))
    want = [by_definition(model, *pair) for pair in PAIRS]
    assert np.allclose(found.numpy(), want, atol=1e-4)
    assert np.ptp(want) > 0.1


def test_merging_changes_no_score_and_leaves_no_extra_layers():
    model = moved()
    with torch.no_grad():
        before = model(*zip(*PAIRS, strict=True)).numpy()
        plain = merged(model)
        assert np.allclose(plain(*zip(*PAIRS, strict=True)).numpy(), before, atol=1e-4)
    assert not any("lora" in name for name, _ in plain.named_parameters())
    assert merged(plain) is plain


def test_a_statement_sees_the_document():
    """What sets it apart from the model that reads texts apart: the statement's vector depends on the document."""
    together, apart = moved(), new_model()
    together.compare = apart.compare = lambda u, v: u[:, 0]  # the statement's vector alone
    said = ["Cities should ban cars."] * 2
    read = ["Cars kill.", "Bananas are rich in potassium."]
    with torch.no_grad():
        assert abs(float(together(said, read) @ torch.tensor([1.0, -1.0]))) > 1e-4
        assert abs(float(apart.eval()(said, read) @ torch.tensor([1.0, -1.0]))) < 1e-6


def test_the_judge_reads_equal_pairs_once_and_in_any_order(monkeypatch):
    judge, asked = Laptop(moved(), Calibration(1.0, 0.0, 0.5), "together", batch_size=2), []
    inner = type(judge.model).forward
    monkeypatch.setattr(
        type(judge.model), "forward", lambda self, s, d: asked.extend(zip(s, d, strict=True)) or inner(self, s, d)
    )
    pairs = [Pair("q", 0, Passage("d", document), statement) for statement, document in [*PAIRS, PAIRS[0]]]
    first = judge.p_yes(pairs)
    assert len(asked) == len(set(asked)) == len(PAIRS)
    assert first[0] == first[-1] and np.abs(judge.p_yes(pairs[::-1])[::-1] - first).max() < 0.01
    assert judge.p_yes([]).shape == (0,)


def test_only_the_matrices_and_the_head_are_saved(tmp_path):
    model = moved()
    save_laptop(model, Calibration(1.0, 0.0, 0.5), tmp_path / "judge", {"design": SMALL._asdict()})
    names = list(learned(model))
    assert names and all("lora" in n or n.startswith(("head", "scale")) for n in names)
    assert (tmp_path / "judge" / TENSORS).stat().st_size < 600_000
    again, pairs = load_laptop(tmp_path / "judge"), [Pair("q", 0, Passage("d", d), s) for s, d in PAIRS]
    logits = [by_definition(model, s, d) for s, d in PAIRS]
    assert np.abs(again.p_yes(pairs) - [1 / (1 + math.exp(-z)) for z in logits]).max() < 0.02  # as stored
    assert make_judge(f"laptop:{tmp_path / 'judge'}").id == again.id
    goes_on, calibration = load_trained(tmp_path / "judge")
    assert calibration == Calibration(1.0, 0.0, 0.5) and goes_on.design == SMALL
    assert {n: w.shape for n, w in learned(goes_on).items()} == {n: w.shape for n, w in learned(model).items()}


def test_the_same_weights_read_in_another_way_are_another_judge():
    apart, together = (
        Laptop(new_model(Design("minilm", reading, 0)), Calibration(1.0, 0.0, 0.5), "x")
        for reading in ("apart", "together")
    )
    assert apart.id != together.id and "together" in together.id


def test_weights_of_another_design_are_refused(tmp_path):
    save_laptop(moved(), Calibration(1.0, 0.0, 0.5), tmp_path / "judge", {"design": SMALL._asdict()})
    path = tmp_path / "judge" / SETTINGS
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "design": {**SMALL._asdict(), "rank": 4}}))
    with pytest.raises(InputError, match=r"model.safetensors: holds other weights than the design"):
        load_laptop(tmp_path / "judge")
    with pytest.raises(InputError, match="reading 'sideways'"):
        new_model(Design(reading="sideways"))
    with pytest.raises(InputError, match=r"\[rank\]: must be 0 or more"):
        new_model(Design(rank=-1))


# ---------------------------------------------------------------- training


def rows(n=60):
    """Short documents and long ones, of two answers."""
    found = []
    for i in range(n):
        good = bool((i * 7) % 3)
        words = "is excellent and helps everyone" if good else "is terrible and harms everyone"
        found.append(Example(f"plan {i} {words}. " * (1 if i % 2 else 12), "The plan is good.", good, f"{i}", "toy"))
    return found


def test_batches_are_of_like_length_and_hold_each_pair_once():
    recipe = StanceRecipe(documents=8)
    first, second = (list(batches_of_pairs(rows(), recipe, number)) for number in (0, 1))
    for found in (first, second):
        assert sorted(e for batch in found for e in batch) == sorted(rows())
        for batch in found:
            lengths = [len(e.document) + len(e.statement) for e in batch]
            assert len(batch) <= 8 and max(lengths) - min(lengths) < 60
    long = [len(batch[0].document) > 350 for batch in first]
    assert long == sorted(long) and any(long) and not all(long)  # short ones first, in the first pass
    assert [len(b[0].document) > 350 for b in second] != sorted(len(b[0].document) > 350 for b in second)
    widest = max(len(b) * max(len(e.document) for e in b) for b in batches_of_pairs(rows(600), StanceRecipe(), 0))
    assert widest <= 9_000


@pytest.mark.slow
def test_lora_learns_a_toy_task_and_leaves_the_base_alone(tmp_path):
    model = new_model(SMALL)
    before = {n: w.clone() for n, w in model.named_parameters() if not w.requires_grad}
    recipe = StanceRecipe(passes=4, documents=8, learning_rate=2e-3)
    losses = train(model, lambda _: [r for r in rows() if len(r.document) < 300], recipe, tmp_path, progress=False)
    assert np.mean(losses[-4:]) < 0.35 < np.mean(losses[:2])
    assert all(torch.equal(w, before[n]) for n, w in model.named_parameters() if n in before)


def test_the_loss_of_a_soft_label_is_its_cross_entropy(tmp_path):
    """At the first step nothing has moved yet: the loss can be worked out from the scores of the new model."""
    asked = [row._replace(p=0.2 + 0.6 * row.supports) for row in rows(8)]
    model = new_model(SMALL).eval()
    with torch.no_grad():
        z = [by_definition(model, e.statement, e.document) for e in asked]
    want = np.mean([math.log1p(math.exp(v)) - e.p * v for v, e in zip(z, asked, strict=True)])
    recipe = StanceRecipe(passes=1, documents=64)
    found = train(new_model(SMALL), lambda _: asked, recipe, tmp_path, progress=False)
    sizes = [len(batch) for batch in batches_of_pairs(asked, recipe, 0)]
    assert np.average(found, weights=sizes) == pytest.approx(want, abs=0.05)  # bfloat16, and a step in between
