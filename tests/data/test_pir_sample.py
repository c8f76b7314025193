"""The two small tasks: what they ask for is there once, and nothing but meaning gives it away."""

import re

from layouts import write_pir

from berdslib.data.load import load
from berdslib.data.pir import pir_statistics
from berdslib.data.pir_sample import ARTICLES, PLACES, STORIES, location_groups, location_task, story_task


def words(text):
    return set(re.findall(r"\w+", text.lower()))


def test_sizes():
    location, stories = pir_statistics(location_task()), pir_statistics(story_task())
    assert (location["roots"], location["queries"], location["corpus"]) == (20, 100, 400)
    assert (stories["roots"], stories["queries"], stories["corpus"]) == (20, 40, 40)
    assert location["mean_perspectives"] == 5 and stories["mean_perspectives"] == 2


def test_the_gold_article_is_the_root_in_the_city_of_the_country_that_is_asked_for():
    task = location_task()
    texts = {p.docno: p.text for p in task.passages}
    assert len(set(texts.values())) == len(texts)
    home = {text: city for a in ARTICLES for city in PLACES.values() for text in [a.format(city=city)]}
    gold = task.gold["docno"].tolist()  # one text a query, in the order of their roots' ids
    by_root = sorted(task.queries, key=lambda q: q.qid)
    assert len(gold) == len(by_root)
    for q, docno in zip(by_root, gold, strict=True):
        (perspective,), (country,) = q.perspectives, q.labels
        assert texts[docno] == q.root.replace(home[q.root], PLACES[country]) != q.root
        assert country in q.text and country in perspective and country not in texts[docno]


def test_groups_are_the_countries_of_the_cities():
    task, groups = location_task(), location_groups()
    assert set(groups) == {p.docno for p in task.passages}
    for p in task.passages:
        named = [country for country, city in PLACES.items() if city in p.text]
        assert named == [groups[p.docno]]


def test_a_story_shares_words_with_the_one_about_the_same_things_and_hardly_any_with_the_analogy():
    small = {"the", "a", "it", "in", "of", "is", "are", "to", "at", "and", "into", "its", "no", "his", "for"}
    shared = [[len((words(root) & words(other)) - small) for other in both] for root, *both in STORIES]
    assert all(entities >= 1 and analogy <= 1 for entities, analogy in shared)
    assert sum(analogy for _, analogy in shared) <= 0.2 * sum(entities for entities, _ in shared)


def test_it_can_be_written_and_read_as_the_authors_do(tmp_path):
    for task in (location_task(), story_task()):
        write_pir(task, tmp_path / "task.json")
        back = load(f"{tmp_path / 'task.json'}:{task.name}")
        assert back.questions == task.questions and back.expansions == task.expansions
        texts = [{p.docno: p.text for p in t.passages} for t in (task, back)]
        gold = [
            {(qid, pid): of[docno] for qid, pid, docno in t.gold[["qid", "pid", "docno"]].itertuples(index=False)}
            for t, of in zip((task, back), texts, strict=True)
        ]
        assert gold[0] == gold[1]


def test_both_are_loaded_by_name():
    for name, task in (("location", location_task()), ("stories", story_task())):
        loaded = load(f"pir-sample:{name}")
        assert (loaded.questions, loaded.passages) == (task.questions, task.passages)
        assert loaded.gold.equals(task.gold)
