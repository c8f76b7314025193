"""Tasks in PIR's form whose perspective is what is sought: a place, a year, a topic.

Three are cut from Wikipedia articles at run time (BERDS_DATA), three are written by a generator with sentences of our
own. In each, about 50 roots are asked with up to four values of the perspective, and the corpus holds both ways of
going wrong: the same matter with another value, and other matters with the value asked for. A text that names no value,
or two, is left out, so that relevance is known without a judge. The generated ones show that something works or breaks,
never how well it works.
"""

import csv
import json
import re
from collections import defaultdict

import numpy as np
from pir_sample import ARTICLES, PLACES

from berdslib.data.pir import PirQuery, pir_collection
from berdslib.data.records import Passage

ROOTS, VALUES, OTHERS = 50, 4, 300  # roots, perspectives of a root at most, passages that are gold of nothing
COUNTRIES = (
    "Argentina", "Australia", "Austria", "Belgium", "Brazil", "Canada", "Chile", "China", "Cuba", "Denmark",
    "Egypt", "Finland", "France", "Germany", "Ghana", "Greece", "India", "Indonesia", "Iran", "Iraq", "Ireland",
    "Israel", "Italy", "Japan", "Kenya", "Mexico", "Netherlands", "Nigeria", "Norway", "Pakistan", "Peru",
    "Poland", "Portugal", "Russia", "Spain", "Sweden", "Switzerland", "Thailand", "Turkey", "Vietnam",
)  # fmt: skip
WORDS_LOW, WORDS_HIGH = 30, 150  # of a paragraph

# (perspective, query) of each kind; {value} is what is asked for, {root} the text that it starts from.
NEWS_WORDINGS = {
    "place": ("news that happened in {value}", "Find news similar to the following that happened in {value}: {root}"),
    "year": ("news from the year {value}", "Find news similar to the following from the year {value}: {root}"),
    "topic": ("news about {value}", "Find news about {value} from the same place as the following: {root}"),
}
WIKI_WORDINGS = {
    "place": ("a passage about {value}", "Find a passage on the same matter as the following, about {value}: {root}"),
    "year": (
        "a passage about the year {value}",
        "Find a passage on the same matter as the following, about the year {value}: {root}",
    ),
    "topic": (
        "a passage about {value}",
        "Find a passage about {value}, concerning the same country as the following: {root}",
    ),
}


def tasks_by_value(folder):
    """Return the six tasks: {name: task}.

    Args:
        folder: the data sets of others, with wikipedia/articles.jsonl and wikipedia/claim_stance.csv.
    """
    paragraphs = list(wikipedia_paragraphs(folder / "wikipedia" / "articles.jsonl"))
    topics = topic_names(folder / "wikipedia" / "claim_stance.csv")
    by_place = [(article, place, text) for article, _, place, _, text in paragraphs if place]
    by_year = [(article, year, text) for article, _, _, year, text in paragraphs if year]
    by_topic = [(place, topics[topic], text) for _, topic, place, _, text in paragraphs if place and topic in topics]
    made = {
        "wiki-place": ask("wiki-place", by_place, WIKI_WORDINGS["place"]),
        "wiki-year": ask("wiki-year", by_year, WIKI_WORDINGS["year"]),
        "wiki-topic": ask("wiki-topic", by_topic, WIKI_WORDINGS["topic"]),
    }
    return made | {name: news_task(name) for name in ("news-place", "news-year", "news-topic")}


def ask(name, texts, wording, seed=0):
    """Make a task of (matter, value, text): a root is a text, its gold are texts on its matter with the value asked.

    Each matter gives one root, and a second or third only where there are fewer than 50 matters.
    """
    rng = np.random.default_rng(seed)
    table = defaultdict(lambda: defaultdict(list))
    for matter, value, text in dict.fromkeys(texts):  # articles repeat paragraphs of each other
        table[matter][value].append(text)
    fit = [matter for matter in sorted(table) if len(table[matter]) > VALUES]
    rng.shuffle(fit)
    chosen, taken = [], set()
    while len(chosen) < ROOTS:
        before = len(chosen)
        for matter in fit:
            root_value = rng.choice(sorted(table[matter]))
            unused = [t for t in table[matter][root_value] if t not in taken]
            if unused and len(chosen) < ROOTS:
                chosen.append((matter, root_value, unused[rng.integers(len(unused))]))
                taken.add(chosen[-1][2])
        if len(chosen) == before:
            break
    asked = []
    for matter, own, root in chosen:
        others = sorted(set(table[matter]) - {own})
        for value in rng.permutation(others)[:VALUES]:
            gold = [t for t in table[matter][value] if t not in taken]
            if gold:
                asked.append((root, matter, str(value), gold))
    return assemble(name, asked, table, taken, wording, rng)


def assemble(name, asked, table, taken, wording, rng):
    """Number the texts and write the queries; the corpus is the gold and distractors of both kinds."""
    gold = {text for *_, texts in asked for text in texts}
    matters, values = {m for _, m, _, _ in asked}, {v for _, _, v, _ in asked}
    same, other = [], []
    for matter in sorted(table):
        for value in sorted(table[matter]):
            rest = [t for t in table[matter][value] if t not in gold and t not in taken]
            if matter in matters:
                same += rest
            elif value in values:
                other += rest
    drawn = [rng.permutation(sorted(set(part)))[: OTHERS // 2].tolist() for part in (same, other)]
    corpus = sorted(gold) + sorted(set(drawn[0] + drawn[1]))
    docno = {text: str(i) for i, text in enumerate(corpus)}
    roots = {root: i for i, root in enumerate(dict.fromkeys(root for root, *_ in asked))}
    perspective, query = wording
    rows = [
        PirQuery(
            f"{roots[root]:02}-{value}",
            query.format(value=value, root=root),
            root,
            perspective.format(value=value),
            tuple(docno[t] for t in texts),
            value,
        )
        for root, _, value, texts in asked
    ]
    return pir_collection(name, rows, [Passage(d, t) for t, d in docno.items()])


# ---------------------------------------------------------------- cut from Wikipedia


def wikipedia_paragraphs(path):
    """Yield (article, topic, place, year, text) of each paragraph; a place or year that is not the only one is ""."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            article = json.loads(line)
            for paragraph in dict.fromkeys(re.split(r"\s*\n\s*", article["text"])):
                if WORDS_LOW <= len(paragraph.split()) <= WORDS_HIGH:
                    place = only(re.findall(rf"\b({'|'.join(COUNTRIES)})\b", paragraph))
                    year = only(re.findall(r"\b(1[89]\d\d|20[01]\d)\b", paragraph))
                    yield article["_id"], article["metadata"]["topic"], place, year, paragraph


def only(found):
    distinct = set(found)
    return distinct.pop() if len(distinct) == 1 else ""


def topic_names(path):
    """Return what the debate behind each topic of the articles is about: {"t1": "the sale of …"}."""
    with path.open(encoding="utf-8", newline="") as file:
        return {f"t{row['topicId']}": row["topicTarget"] for row in csv.DictReader(file)}


# ---------------------------------------------------------------- written by a generator

# What each of pir_sample.ARTICLES is about.
TOPICS = (
    "a strike of hospital staff", "local transport", "a flood", "interest rates", "a forest fire", "school budgets",
    "corruption", "football", "an exhibition", "a protest of farmers", "a dam", "medical research", "a bank failure",
    "student housing", "an accident at sea", "a new company", "smuggling", "an election", "beekeeping", "cinema",
)  # fmt: skip
OPENINGS = (
    "It was the talk of the week.", "Few had seen it coming.", "Our correspondent was there.",
    "Local papers had warned of it for months.", "The mayor spoke of a turning point.",
    "It is the third case of its kind.", "Neighbours had gathered before dawn.", "Opinions on it differ.",
)  # fmt: skip
CLOSINGS = (
    "A spokeswoman declined to comment on the cost, which is put at {n} million.",
    "About {n} thousand people are affected, more than was thought at first.",
    "Parliament will debate it next week, and {n} members have asked to speak.",
    "An inquiry is to report within {n} days. Until then, nothing will change.",
    "Asked in a survey, {n} per cent of residents said that it mattered to them.",
    "The opposition wants {n} questions answered, and has called for a hearing.",
)
YEARS = [str(year) for year in range(1996, 2016)]


def news_task(name, seed=0):
    """Return one of three tasks over 400 generated articles, each on one of 20 topics, in one place and year.

    An article names a city, its query the country, so that no word gives the place away; a year is given as such.
    """
    rng = np.random.default_rng(seed)
    texts = []
    for t, topic in enumerate(TOPICS):
        for place, year in zip(PLACES, rng.permutation(YEARS), strict=True):
            keys = {"place": (topic, place), "year": (topic, str(year)), "topic": (place, topic)}
            texts.append((*keys[name.removeprefix("news-")], article(t, place, year, rng)))
    return ask(name, texts, NEWS_WORDINGS[name.removeprefix("news-")], seed)


def article(t, place, year, rng):
    first = ARTICLES[t].format(city=PLACES[place])
    closing = CLOSINGS[rng.integers(len(CLOSINGS))].format(n=rng.integers(2, 90))
    return f"In {year}: {OPENINGS[rng.integers(len(OPENINGS))]} {first} {closing}"
