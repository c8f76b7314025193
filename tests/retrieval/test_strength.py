"""Choosing how much to project: the choice itself in both regimes, and the script that shows why a rule does not do."""

import sys
from pathlib import Path

import numpy as np
import pytest

from berdslib.data.load import load
from berdslib.errors import InputError
from berdslib.retrieval.projection import scores, unit_vectors
from berdslib.retrieval.strength import STRENGTHS, choose_option, dev_mask
from berdslib.study.experiment import experiment


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


def chosen(query, root, perspective, passages, gold, k):
    """Choose a strength by hits, one a query: whether its gold passage is among its best k."""
    options = {}
    for strength in STRENGTHS:
        values = scores("pap", query, root, perspective, passages, strength=strength)
        best = np.argsort(-values, axis=1, kind="stable")[:, :k]
        options[strength] = (best == np.asarray(gold)[:, None]).any(axis=1).astype(float)
    return choose_option(options, default=0.0)


def test_what_only_disturbs_is_projected_out():
    assert chosen(*regime(perspective_is_content=False), 8) >= 0.75


def test_what_is_sought_is_never_projected_out():
    assert chosen(*regime(perspective_is_content=True), 1) <= 0


def test_a_perspective_that_drowns_in_its_root_is_made_louder():
    root, perspective = np.array([[1.0, 0, 0]] * 2), np.array([[0, 1.0, 0], [0, 0, 1.0]])
    passages = np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 1]])  # the root alone, and seen from either perspective
    query = root + 0.3 * perspective  # cosine .96 with the first passage, .88 with the one sought
    assert chosen(query, root, perspective, passages, [1, 2], 1) == -1


def test_the_default_wins_a_draw():
    assert choose_option({s: np.zeros(4) for s in STRENGTHS}, default=0.0) == 0
    assert choose_option({s: np.ones(4) for s in reversed(STRENGTHS)}, default=0.0) == 0


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
    for options, default, message in (
        ({1: base}, 0, "not among"),
        ({0: base[:1]}, 0, "two roots"),
        ({0: base, 1: base[:2]}, 0, "one score"),
    ):
        with pytest.raises(InputError, match=message):
            choose_option(options, default=default)


# ---------------------------------------------------------------- scripts/projection_rule.py


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "scripts"))
    import projection_rule

    yield projection_rule
    for name in ("projection_rule", "projection_tasks"):
        sys.modules.pop(name, None)


def measured(script, name, plain, pap, feature):
    """A task of one query a root, measured by hand."""
    plain, pap = np.array(plain, dtype=float), np.array(pap, dtype=float)
    hits = {s: pap if s == 1 else plain for s in script.STRENGTHS}
    return script.Measured(
        name, np.arange(len(plain)), hits, {"f": np.array(feature)}, np.zeros(len(plain), bool), plain
    )


def test_a_rule_by_hand(script):
    task = measured(script, "t", plain=[0, 0, 100], pap=[100, 100, 0], feature=[0.1, 0.5, 0.9])
    assert script.Rule(0.0).values(task).tolist() == [0, 0, 100]
    assert script.Rule(1.0).values(task).tolist() == [100, 100, 0]
    assert script.Rule(1.0, "f", 1, 0.4).values(task).tolist() == [0, 100, 0]
    assert script.Rule(1.0, "f", -1, 0.7).values(task).tolist() == [100, 100, 100]
    assert script.Rule(1.0, "f", 1, 0.4, whole_task=True).values(task).tolist() == [100, 100, 0]  # the mean is .5
    assert script.Rule(1.0, "f", 1, 0.6, whole_task=True).values(task).tolist() == [0, 0, 100]


def test_the_rule_that_is_chosen_costs_no_training_task_more_than_a_point(script):
    wins = measured(script, "a", plain=[0] * 20, pap=[100] * 20, feature=[0.2] * 20)
    loses = measured(script, "b", plain=[100] * 20, pap=[0] * 20, feature=[0.8] * 20)
    chosen = script.choose_rule([wins, loses])
    assert (chosen.feature, chosen.sign) == ("f", -1) and 0.2 < chosen.threshold <= 0.8
    alike = measured(script, "b", plain=[100] * 20, pap=[0] * 20, feature=[0.2] * 20)
    assert chosen_name(script, [wins, alike]) == "never"  # always PAP has the same mean, and ruins "b"
    assert chosen_name(script, [wins]) == "always PAP"


def chosen_name(script, training):
    return str(script.choose_rule(training))


def test_as_many_candidates_as_the_protocol_says(script):
    task = measured(script, "t", [0.0], [0.0], [0.0])
    assert len(script.candidates([task._replace(features={f: np.zeros(1) for f in "abcdefghi"})])) == 692


def test_a_root_is_scored_only_in_halves_that_it_did_not_choose(script):
    better = measured(script, "t", plain=[0.0] * 12, pap=[100.0] * 11 + [0.0], feature=[0.0] * 12)
    values, strengths = script.with_strength_chosen(better)
    assert set(strengths) == {1.0} and values.tolist() == [100.0] * 11 + [0.0]
    # With one lucky root a half gains, yet by no more than a standard error, so nothing is projected.
    lucky = measured(script, "t", plain=[0.0] * 12, pap=[100.0] + [0.0] * 11, feature=[0.0] * 12)
    assert set(script.with_strength_chosen(lucky)[1]) == {0.0}


def test_features_by_hand(script):
    assert script.shared(np.array([[1, 2, 3, 4]]), np.array([[4, 3, 9]]), np.array([[3, 1]])).tolist() == [0.25]
    passages = np.array([[1.0, 0, 0], [-1, 0, 0], [0.6, 0.8, 0], [0.6, -0.8, 0]])
    along = {"x": np.std([1, -1, 0.6, 0.6]), "y": np.std([0, 0, 0.8, -0.8])}
    root, perspective = np.array([[3.0, 0, 0]] * 2), np.array([[0, 5.0, 0], [0, 0, 1]])
    assert script.loudness(root, perspective, passages) == pytest.approx([along["y"] / along["x"], 0])
    assert script.loudness(np.array([[0.0, 0, 1]]), root[:1], passages) == [0]  # a root that spreads nothing


@pytest.mark.slow
def test_generated_news_hold_both_ways_of_going_wrong(script):
    import projection_tasks

    for name, kind in (("news-place", "place"), ("news-year", "year"), ("news-topic", "topic")):
        task = projection_tasks.news_task(name)
        texts = {p.docno: p.text for p in task.passages}
        assert len(set(texts.values())) == len(texts) and len(task.questions) == 50
        assert not {q.text for q in task.questions} & set(texts.values())
        matters, values = zip(*(parts(projection_tasks, kind, text) for text in texts.values()), strict=True)
        for q, (gold,) in gold_of(task):
            matter, value = parts(projection_tasks, kind, texts[gold])
            assert q.labels == (value,) and matter == parts(projection_tasks, kind, q.root)[0]
            assert sum(m == matter for m in matters) >= 5  # the same matter with another value
            assert sum(v == value for v in values) >= 5  # another matter with this value
        again = projection_tasks.news_task(name)  # the draw is seeded
        assert (task.questions, task.passages, task.expansions) == (again.questions, again.passages, again.expansions)
        assert task.gold.equals(again.gold)


def gold_of(task):
    """Return each query with the docnos that answer it."""
    gold = {key: part["docno"].tolist() for key, part in task.gold.groupby(["qid", "pid"])}
    keys = [(q.qid, pid) for q in task.questions for pid in range(len(q.perspectives))]
    return [(query, gold[key]) for query, key in zip(task.queries, keys, strict=True)]


def parts(module, kind, text):
    """Return (matter, value) of a generated article, read off its words."""
    city = next(c for c in module.PLACES.values() if c in text)
    place = next(p for p, c in module.PLACES.items() if c == city)
    topic = next(t for a, t in zip(module.ARTICLES, module.TOPICS, strict=True) if a.format(city=city) in text)
    year = text.removeprefix("In ")[:4]
    return {"place": (topic, place), "year": (topic, year), "topic": (place, topic)}[kind]


@pytest.mark.slow
def test_the_rule_that_failed_fails_where_a_place_is_sought_and_the_chosen_strength_does_not(script):
    import projection_tasks

    task = script.measure(projection_tasks.news_task("news-place"), script.get_encoder("minilm"))
    baseline = task.per_root(task.hits[0.0]).mean()
    assert 30 < baseline < 80
    assert task.per_root(task.hits[1.0]).mean() < baseline - 30
    assert task.per_root(task.old_hits).mean() < baseline - 20
    values, strengths = script.with_strength_chosen(task)
    assert max(strengths) <= 0 and values.mean() >= baseline - 1


@pytest.mark.real_data
@pytest.mark.slow
def test_a_strength_chosen_on_half_of_the_demo_s_roots_costs_no_task_more_than_a_point(real_data, script):
    for name in script.DEMO:
        task = script.measure(script.load(f"pir-demo:{name}"), script.get_encoder("minilm"))
        values, _ = script.with_strength_chosen(task)
        assert values.mean() >= task.per_root(task.hits[0.0]).mean() - 1, name


@pytest.mark.real_data
def test_wikipedia_s_tasks_name_one_value_and_keep_roots_out(real_data, script):
    import projection_tasks

    tasks = projection_tasks.tasks_by_value(real_data)
    assert list(tasks) == ["wiki-place", "wiki-year", "wiki-topic", "news-place", "news-year", "news-topic"]
    for name in ("wiki-place", "wiki-year"):
        texts = {p.docno: p.text for p in tasks[name].passages}
        assert len(tasks[name].questions) == 50
        assert not {q.text for q in tasks[name].questions} & set(texts.values())
        for q, gold in gold_of(tasks[name]):
            (value,) = q.labels
            assert all(value in texts[docno] for docno in gold) and value not in q.root
