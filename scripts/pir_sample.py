#!/usr/bin/env python
"""Write data/pir-sample: two small tasks in PIR's form, news by place and stories by kind of likeness.

    python scripts/pir_sample.py

They stand for the two kinds of perspective that the sample's questions lack: one that names what is sought (AGNews'
"in Brazil") and one that asks for another relation to the root (StoryAnalogy's "is an analogy to"). Both are tiny and
made from templates or by hand: they show how methods behave, not how good they are.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

from berdslib.files import write_text

# Country → a city in it. An article names the city only, so that no word of the query gives it away.
PLACES = {
    "Canada": "Ottawa",
    "Brazil": "Recife",
    "Egypt": "Cairo",
    "France": "Lyon",
    "India": "Pune",
    "Japan": "Osaka",
    "Kenya": "Nairobi",
    "Mexico": "Puebla",
    "Norway": "Bergen",
    "Poland": "Gdansk",
    "Spain": "Valencia",
    "Turkey": "Izmir",
    "Vietnam": "Hanoi",
    "Chile": "Santiago",
    "Italy": "Naples",
    "Ghana": "Accra",
    "Ireland": "Cork",
    "Greece": "Athens",
    "Peru": "Lima",
    "Thailand": "Bangkok",
}
ARTICLES = (
    "Nurses walked out of the hospital in {city} over pay and shifts. The health ministry called the strike unlawful.",
    "A new tram line opened in {city} after years of delay. The transport minister took the first ride.",
    "Floods cut off villages near {city} after three days of rain. The army is flying in food and blankets.",
    "The central bank raised its interest rate again to slow inflation. Wages in {city} no longer cover food.",
    "A wildfire destroyed forest outside {city}. Firefighters worked through the night to keep the flames from houses.",
    "Teachers and parents in {city} protest against larger school classes. The budget is to shrink by a tenth.",
    "A court in {city} sent a former mayor to prison for taking bribes. Prosecutors had followed the money for years.",
    "Football fans filled the streets of {city} after the team won its semi-final. The coach praised his defenders.",
    "A museum in {city} shows paintings that were thought to be lost. Restorers found them under a layer of varnish.",
    "Farmers drove tractors into {city} to protest against cheap grain imports. The government promised to talk.",
    "A dam near {city} will be repaired after engineers found cracks. Power supply is not in danger, they say.",
    "Scientists at a university in {city} tested a vaccine against malaria. The trial included four thousand children.",
    "A bank in {city} was closed by the regulator after heavy losses. Savers are insured up to a limit.",
    "Students in {city} occupy a lecture hall to demand cheaper rooms. Rents for students doubled within ten years.",
    "A ferry ran aground close to {city} in thick fog. All passengers were brought ashore unhurt.",
    "A start-up from {city} builds batteries out of salt. Investors put forty million into its first factory.",
    "Police in {city} seized two tonnes of smuggled ivory. Customs officers had been tipped off.",
    "The election commission in {city} ordered a recount after a close vote. Its losers speak of fraud.",
    "Bees are dying in orchards around {city}. Growers blame a pesticide that is banned elsewhere.",
    "A film festival in {city} gave its first prize to a documentary about fishermen. Its director took six years.",
)

# A story, one about the same things, and one of the same shape about other things.
STORIES = (
    (
        "The virus enters the cell. It makes copies of itself.",
        "The virus dies outside the cell. The cell stays healthy.",
        "Burglars break into a house. They hand the keys to more burglars.",
    ),
    (
        "Fertilize the soil. Mix seeds into the fertilized soil.",
        "The soil is dry. The seeds lie unused in a bag of fertilizer.",
        "Oil the pan. Pour the batter into the hot pan.",
    ),
    (
        "The dam holds back the river. When it cracks, the valley is flooded.",
        "Engineers visit the river. They measure the height of the dam.",
        "He swallowed his anger for years. One evening he shouted at everyone.",
    ),
    (
        "The battery stores charge. The lamp uses it at night.",
        "The lamp is broken. The battery is thrown away.",
        "The squirrel buries nuts. It eats them in winter.",
    ),
    (
        "The teacher explains the sum. The pupils then solve it alone.",
        "The teacher is ill. The pupils play in the yard.",
        "The bird shows its young how to fly. Soon they leave the nest.",
    ),
    (
        "Rust eats the iron bridge. In the end it falls.",
        "The iron bridge is painted red. Rust is nowhere to be seen.",
        "Small lies wore down their marriage. One day it was over.",
    ),
    (
        "The filter catches the sand. Clean water runs out.",
        "The water is warm. There is sand on the beach.",
        "The editor strikes out weak sentences. A clear article is printed.",
    ),
    (
        "The captain reads the compass. The ship finds the harbour.",
        "The captain sleeps in the harbour. The ship's compass is sold.",
        "The manager studies the figures. The firm reaches its goal.",
    ),
    (
        "The kidney cleans the blood. The waste leaves the body.",
        "The doctor takes blood. The patient has one kidney.",
        "The sweepers clear the streets. The rubbish leaves the town.",
    ),
    (
        "The ice melts in spring. The river rises.",
        "Children skate on the ice. The river is narrow here.",
        "The shops drop their prices. The crowds grow.",
    ),
    (
        "The spark falls on dry grass. The whole field burns.",
        "The grass is green and wet. Cows stand in the field.",
        "A rumour reaches a nervous town. Everyone runs to the bank.",
    ),
    (
        "The root takes up water. The leaves grow.",
        "The gardener sweeps up leaves. The roots are cut.",
        "The port brings in goods. The city prospers.",
    ),
    (
        "The guard checks every ticket. Nobody gets in without one.",
        "The guard drinks tea. A ticket lies on the floor.",
        "The immune system tests each cell. Strangers are turned away.",
    ),
    (
        "The sculptor chips at the stone. Slowly a face appears.",
        "The stone is heavy. The sculptor hires a truck.",
        "The detective rules out suspects. Slowly the truth comes out.",
    ),
    (
        "The sun warms the ground. The air above it rises.",
        "The sun sets behind clouds. The ground is flat.",
        "The crowd cheers the singer. His voice grows bolder.",
    ),
    (
        "The bees visit the flowers. The flowers bear fruit.",
        "The bees stay in the hive. The flowers are made of paper.",
        "The traders call at the villages. The villages grow rich.",
    ),
    (
        "The anchor holds the boat. The storm cannot carry it off.",
        "The boat is new. The anchor was bought second-hand.",
        "Her friends stood by her. The grief did not break her.",
    ),
    (
        "The lens bends the light. A picture falls on the film.",
        "The light is off. The lens lies in its case.",
        "The translator turns the speech. Its sense reaches the hall.",
    ),
    (
        "The company borrows money. It cannot pay and closes.",
        "The company moves house. The money is kept in a safe.",
        "The climber goes too high. His air runs out and he falls.",
    ),
    (
        "The clouds gather. Then the rain pours down.",
        "The clouds are white. It has not rained for weeks.",
        "The troops line up at the border. Then the attack begins.",
    ),
)


class Query(NamedTuple):
    """A row of a task."""

    text: str
    root: str
    perspective: str
    gold: int  # the place of the text that answers it
    label: str


def location_task() -> dict[str, Any]:
    """Return 400 articles on 20 events, each set in 20 cities, and 100 queries for one event in a named country.

    A root is one of the articles, and is in the corpus as well; five other countries are asked for. The labels of the
    perspectives are the countries, and the groups say of which country each article is.
    """
    names = list(PLACES)
    texts = [article.format(city=city) for article in ARTICLES for city in PLACES.values()]
    queries = []
    for t, article in enumerate(ARTICLES):
        root = article.format(city=PLACES[names[7 * t % 20]])
        for j in range(1, 6):
            at = (7 * t + 3 * j) % 20
            text = f"Find a news article that happened in {names[at]} and has the same topic as: {root}"
            perspective = f"a news article that happened in {names[at]}"
            queries.append(Query(text, root, perspective, 20 * t + at, names[at]))
    return _task(texts, queries) | {"groups": [names[i % len(names)] for i in range(len(texts))]}


def story_task() -> dict[str, Any]:
    """Return 20 stories, each asked for the story about the same things and for the one of the same shape.

    All 40 answers are the corpus. The perspectives have the labels "entities" and "analogy".
    """
    wanted = (
        ("has similar entities with", "a story that has similar entities", "entities"),
        ("is an analogy to", "a story that is an analogy", "analogy"),
    )
    queries = [
        Query(f"Find a story that {asks}: {story}", story, perspective, 2 * i + j, label)
        for i, (story, *_) in enumerate(STORIES)
        for j, (asks, perspective, label) in enumerate(wanted)
    ]
    return _task([text for _, *both in STORIES for text in both], queries)


def _task(texts: list[str], queries: list[Query]) -> dict[str, Any]:
    """Return a task in the authors' layout; docnos are places without leading zeros, as they have always been here."""
    return {
        "corpus": texts,
        "docnos": [str(i) for i in range(len(texts))],
        "queries": [q.text for q in queries],
        "source_queries": [q.root for q in queries],
        "perspectives": [q.perspective for q in queries],
        "query_labels": [q.label for q in queries],
        "key_ref": {str(i): [q.gold] for i, q in enumerate(queries)},
    }


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with write_text(Path(__file__).resolve().parents[1] / "data" / "pir-sample" / "tasks.json") as file:
        json.dump({"location": location_task(), "stories": story_task()}, file, ensure_ascii=False, indent=0)
        file.write("\n")
