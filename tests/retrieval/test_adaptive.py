"""The adaptive rule: in both regimes on vectors made by hand, its parts, and on the tasks of the benchmark script."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from berdslib.data.records import Passage, Question
from berdslib.errors import InputError
from berdslib.retrieval.adaptive import adaptive_form, choose, contrast, half_of_roots, loudness
from berdslib.retrieval.projection import Projected, apply_form, make_form, scores, unit_vectors


def regime(perspective_is_content, seed=0, topics=12, sides=8, d=64):
    """Vectors of `topics` x `sides` passages, and a query for each: query, root, perspective, passages, gold.

    Content: a passage holds its side's vector, quietly, as an article names its place. Otherwise the perspectives are
    variants of one phrase that says nothing of any passage, but passages sound more or less like it, at random.
    """
    rng = np.random.default_rng(seed)
    topic, side, noise = (unit_vectors(rng.standard_normal((n, d))) for n in (topics, sides, topics * sides))
    phrase = unit_vectors(rng.standard_normal((1, d)))
    of_topic, of_side = np.repeat(np.arange(topics), sides), np.tile(np.arange(sides), topics)
    if perspective_is_content:
        perspective = unit_vectors(side[of_side] + 0.5 * phrase)
        passages = topic[of_topic] + 0.25 * side[of_side] + 0.1 * noise
    else:
        perspective = unit_vectors(phrase + 0.1 * side[of_side])
        passages = (
            0.4 * topic[of_topic] + 0.2 * noise + rng.permutation(np.linspace(-2, 2, topics * sides))[:, None] * phrase
        )
    root = topic[of_topic]
    return unit_vectors(root + perspective), root, perspective, unit_vectors(passages), np.arange(topics * sides)


def found_in_top(values, gold, k):
    return float(np.mean([g in np.argsort(-row, kind="stable")[:k] for row, g in zip(values, gold, strict=True)]))


def test_the_rule_keeps_what_is_sought_and_projects_what_only_disturbs():
    *content, gold = regime(perspective_is_content=True)
    top1 = {m: found_in_top(scores(m, *content), gold, 1) for m in ("baseline", "pap")}
    assert top1["baseline"] > 0.95 and top1["pap"] < 0.5  # projection ruins it
    assert found_in_top(apply_form(adaptive_form(*content), content[3]), gold, 1) == top1["baseline"]
    *phrase, gold = regime(perspective_is_content=False)
    top8 = {m: found_in_top(scores(m, *phrase), gold, 8) for m in ("baseline", "pap")}
    assert top8["pap"] > top8["baseline"] + 0.3  # projection saves it
    assert found_in_top(apply_form(adaptive_form(*phrase), phrase[3]), gold, 8) == top8["pap"]


def test_each_query_is_decided_by_itself():
    *a, _ = regime(perspective_is_content=True)
    *b, _ = regime(perspective_is_content=False)
    passages = np.concatenate([a[3], b[3]])
    joint = [np.concatenate([x, y]) for x, y in zip(a[:3], b[:3], strict=True)]
    together = apply_form(adaptive_form(*joint, passages), passages)
    alone = [
        apply_form(adaptive_form(*(v[i : i + 1] for v in joint), passages), passages)[0] for i in (0, 50, 120, 190)
    ]
    np.testing.assert_allclose(together[[0, 50, 120, 190]], alone, atol=1e-12)


def test_extreme_thresholds_are_the_two_methods_it_chooses_from():
    *v, _ = regime(perspective_is_content=True)
    np.testing.assert_array_equal(apply_form(adaptive_form(*v, loud=1e9), v[3]), scores("baseline", *v))
    np.testing.assert_array_equal(apply_form(adaptive_form(*v, loud=-1), v[3]), scores("pap", *v))


def test_a_perspective_that_repeats_its_root_is_replaced_by_the_difference():
    rng = np.random.default_rng(0)
    root, passages = rng.standard_normal((5, 16)), rng.standard_normal((40, 16))
    query = root + 0.3 * rng.standard_normal((5, 16))
    projected = apply_form(adaptive_form(query, root, query, passages, loud=-1), passages)
    np.testing.assert_allclose(projected, scores("pap", query, root, query, passages, source="difference"), atol=1e-12)
    np.testing.assert_array_equal(scores("pap", query, root, query, passages), 0)  # its text would leave nothing
    same = adaptive_form(query, query, query, passages, loud=-1)  # no difference at all: q as it is
    np.testing.assert_allclose(
        apply_form(same, passages), scores("baseline", query, query, query, passages), atol=1e-12
    )


def test_loudness_by_hand():
    passages = np.array([[1.0, 0, 0], [-1, 0, 0], [0.6, 0.8, 0], [0.6, -0.8, 0]])
    # Along x: 1, -1, .6, .6; along y: 0, 0, .8, -.8.
    along = {"x": np.std([1, -1, 0.6, 0.6]), "y": np.std([0, 0, 0.8, -0.8])}
    root, perspective = np.array([[3.0, 0, 0]] * 3), np.array([[0, 5.0, 0], [0, 0, 1], [0, 0, 0]])
    assert loudness(root, perspective, passages) == pytest.approx([along["y"] / along["x"], 0, 0])
    assert loudness(np.array([[0.0, 0, 1]]), root[:1], passages) == [0]  # a root that spreads nothing
    every_second = loudness(root, perspective, passages, sample=2)  # 1 and .6 along x, 0 and .8 along y
    assert every_second == pytest.approx([0.4 / 0.2, 0, 0])


def test_contrast_by_hand():
    p = np.array([[1.0, 0], [0, 1], [1, 0], [2, 2], [5, 5]])
    roots = ["a", "a", "a", "b", "c"]  # a repeat in "a"; "b" and "c" have one perspective
    assert contrast(p, roots).tolist() == [[1, -1], [-1, 1], [1, -1], [0, 0], [0, 0]]
    three = contrast(np.eye(3), ["a"] * 3)
    assert three[0].tolist() == [1, -0.5, -0.5]
    # What two perspectives share is no part of their contrast, so projection along it leaves that part of a query.
    shared, own = np.array([[0, 0, 7.0]] * 2), np.eye(3)[:2]
    assert (contrast(own + shared, ["a", "a"])[:, 2] == 0).all()


def test_half_of_roots_splits_by_root():
    roots = [f"root {i // 3}" for i in range(33)]
    mask = half_of_roots(roots)
    chosen = {r for r, m in zip(roots, mask, strict=True) if m}
    assert len(chosen) == 6 and not chosen & {r for r, m in zip(roots, mask, strict=True) if not m}
    shuffled = np.random.default_rng(1).permutation(33)
    assert (half_of_roots([roots[i] for i in shuffled]) == mask[shuffled]).all()
    assert (half_of_roots(roots, seed=1) != mask).any()


def test_choose_needs_more_than_luck():
    base = np.array([0.5, 0.5, 0.5, 0.5])
    lucky = np.array([1.0, 0.5, 0.5, 0.0]) + 0.05  # mean gain .05, standard error .20
    steady = np.array([0.6, 0.6, 0.5, 0.6])  # .075, .025
    assert choose({0: base, 1: lucky}, default=0) == 0
    assert choose({0: base, 1: lucky, 2: steady}, default=0) == 2
    assert choose({0: base, 1: base - 0.1}, default=0) == 0
    for options, default, message in (
        ({1: base}, 0, "not among"),
        ({0: base[:1]}, 0, "two roots"),
        ({0: base, 1: base[:2]}, 0, "one score"),
    ):
        with pytest.raises(InputError, match=message):
            choose(options, default=default)


class Fixed:
    """An encoder that knows a few texts."""

    id = "fixed"

    def __init__(self, known):
        self.known = known

    def encode_queries(self, texts):
        return np.array([self.known[t] for t in texts], dtype=np.float32)

    encode_passages = encode_queries


def test_the_rule_is_a_method_of_the_projected_retriever():
    q, r, p, c, gold = regime(perspective_is_content=False)
    names = [f"{kind}{i}" for kind in "qrp" for i in range(len(q))] + [f"c{i:03}" for i in range(len(c))]
    encoder = Fixed(dict(zip(names, np.concatenate([q, r, p, c]), strict=True)))
    passages = [Passage(f"c{i:03}", f"c{i:03}") for i in range(len(c))]
    roles = {f"q{i}": (f"r{i}", f"p{i}") for i in range(len(q))}
    retriever = Projected(passages, encoder, roles, method=adaptive_form)
    run = retriever.search([Question(f"q{i}", f"q{i}") for i in range(len(q))], 8)
    hit = np.mean([f"c{g:03}" in set(run[run["qid"] == f"q{i}"]["docno"]) for i, g in enumerate(gold)])
    assert hit == pytest.approx(found_in_top(scores("pap", q, r, p, c), gold, 8), abs=0.03)
    assert retriever.name == "adaptive_form"


# ---------------------------------------------------------------- the benchmark's tasks


@pytest.fixture(scope="module")
def bench():
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "bench_projection.py"
    spec = importlib.util.spec_from_file_location("bench_projection", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_place_is_kept(bench):
    """PAP ruins the task whose perspectives are places, as it does AGNews; the rule does not."""
    v = bench.Vectors(bench.location_task(), bench.get_encoder("minilm"))
    got = {m: v.per_root(scores(m, *v.args())).mean() for m in ("baseline", "pap")}
    assert got["pap"] < got["baseline"] - 40
    assert v.per_root(apply_form(adaptive_form(*v.args()), v.passages)).mean() == got["baseline"]


@pytest.mark.real_data
@pytest.mark.slow
def test_no_demo_task_falls_below_the_baseline(real_data, bench):
    encoder, means = bench.get_encoder("minilm"), []
    for name in bench.DEMO:
        v = bench.Vectors(bench.load_pir("pir-demo", name), encoder)
        base = v.per_root(scores("baseline", *v.args())).mean()
        ours = v.per_root(apply_form(adaptive_form(*v.args()), v.passages)).mean()
        assert ours >= base - 1, name
        means.append(ours - base)
    assert np.mean(means) > 1.5
    assert make_form("pap", *v.args()[:3]).query.shape == v.query.shape


def test_written_tasks_hang_together(bench):
    for task, texts in ((bench.story_task(), 40), (bench.location_task(), 400)):
        assert len({p.text for p in task.passages}) == len(task.passages) == texts
        assert len({q.qid for q in task.queries}) == len(task.queries)
        docnos = {p.docno: p.text for p in task.passages}
        assert all(set(q.gold) <= set(docnos) for q in task.queries)
    for q in task.queries:  # of the places
        assert bench.PLACES[q.label] in docnos[q.gold[0]]
