"""The two small tasks: what they ask for is there once, and nothing but meaning gives it away."""

import re

from layouts import write_pir

from berdslib.data.pir import load_pir, pir_statistics
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
    for q in task.queries:
        (gold,) = q.gold
        assert texts[gold] == q.root.replace(home[q.root], PLACES[q.label]) != q.root
        assert q.label in q.text and q.label in q.perspective and q.label not in texts[gold]


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


def test_ids_start_with_the_number_of_the_root():
    for task in (location_task(), story_task()):
        numbers = {(q.root, q.qid.partition("-")[0]) for q in task.queries}
        assert len(numbers) == len({root for root, _ in numbers}) == len({n for _, n in numbers}) == 20


def test_it_can_be_written_and_read_as_the_authors_do(tmp_path):
    for task in (location_task(), story_task()):
        write_pir(task, tmp_path / "task.json")
        back = load_pir(tmp_path / "task.json", task.name)
        texts = [{p.docno: p.text for p in t.passages} for t in (task, back)]
        for a, b in zip(task.queries, back.queries, strict=True):
            assert a[1:4] == b[1:4] and texts[0][a.gold[0]] == texts[1][b.gold[0]]
