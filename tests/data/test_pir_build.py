"""The six PIR tasks, built from small files in the formats of their sources, and from two real ones."""

import json
from types import SimpleNamespace

import pytest

from berdslib.data.pir import PirQuery, PirTask, load_pir, passages_of, pir_statistics, write_pir
from berdslib.data.pir_build import (
    agnews_groups,
    build_agnews,
    build_allsides,
    build_ambigqa,
    build_exfever,
    build_perspectrum,
    build_story,
    check_perspectives,
    similar_by,
)
from berdslib.errors import InputError


def saved(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def answers(task):
    """(root, label) → the gold texts."""
    text = {p.docno: p.text for p in task.passages}
    return {(q.root, q.label): [text[d] for d in q.gold] for q in task.queries}


# ---------------------------------------------------------------- what all tasks share


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([("for", ("0",))], "the root 'tea' has a single perspective"),
        ([("for", ("0",)), ("for", ("1",))], "the root 'tea' has a single perspective"),
        ([("for", ("0", "1")), ("against", ("1",))], "text '1' is gold for 'for tea' and for 'against tea'"),
    ],
)
def test_perspectives_are_two_and_exclude_each_other(asked, message):
    queries = tuple(PirQuery(str(i), f"{p} tea", "tea", p, gold) for i, (p, gold) in enumerate(asked))
    with pytest.raises(InputError, match=message):
        check_perspectives(PirTask("t", queries, passages_of(["a", "b"])))


def test_a_text_may_answer_two_roots():
    queries = tuple(
        PirQuery(f"{root}{p}", f"{p} {root}", root, p, (gold,))
        for root, order in (("tea", "01"), ("coffee", "10"))
        for p, gold in zip(("for", "against"), order, strict=True)
    )
    task = PirTask("t", queries, passages_of(["a", "b"]))
    assert check_perspectives(task) == task


# ---------------------------------------------------------------- Perspectrum

POOL = [{"pId": i, "text": text, "source": "x"} for i, text in enumerate(["calms", "warms", "stains", "rusts", " "])]
CLAIMS = [
    {
        "cId": 7,
        "text": "Tea is good",
        "perspectives": [
            {"pids": [0], "stance_label_3": "SUPPORT"},
            {"pids": [1, 4], "stance_label_3": "SUPPORT"},
            {"pids": [2], "stance_label_3": "UNDERMINE"},
        ],
    },
    {"cId": 8, "text": "Iron is good", "perspectives": [{"pids": [3], "stance_label_3": "UNDERMINE"}]},
]


def perspectrum(folder, claims=CLAIMS):
    saved(folder / "perspectrum_with_answers_v1.0.json", claims)
    saved(folder / "perspective_pool_v1.0.json", POOL)
    saved(folder / "dataset_split_v1.0.json", {"7": "train", "8": "test"})
    return folder


def test_perspectrum_asks_once_for_each_side(tmp_path):
    task = build_perspectrum(perspectrum(tmp_path), balance=False)
    assert answers(task) == {("Tea is good", "support"): ["calms", "warms"], ("Tea is good", "undermine"): ["stains"]}
    assert [q.text for q in task.queries] == [
        "Which claims speak for this position: Tea is good",
        "Which claims speak against this position: Tea is good",
    ]
    assert len({q.perspective for q in task.queries}) == 2


def test_perspectrum_in_balance(tmp_path):
    task = build_perspectrum(perspectrum(tmp_path))
    assert answers(task) == {("Tea is good", "support"): ["calms"], ("Tea is good", "undermine"): ["stains"]}
    assert [p.text for p in task.passages] == ["calms", "stains"]


def test_perspectrum_by_cluster_as_in_the_release(tmp_path):
    task = build_perspectrum(perspectrum(tmp_path), split="train", clusters=True)
    texts = [p.text for p in task.passages]
    assert [(q.label, [texts[int(d)] for d in q.gold]) for q in task.queries] == [
        ("support", ["calms"]),
        ("support", ["warms"]),
        ("undermine", ["stains"]),
        ("general", ["calms", "warms", "stains"]),
    ]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"stance_label_3": "MAYBE"}, {}, r"\[stance_label_3\]: 'maybe' is no stance"),
        ({"pids": [99]}, {}, r"\[pids\]: 99 is not in the pool"),
        ({"pids": None}, {}, r"\[pids\]: None is not in the pool"),
        ({"pids": [2]}, {"balance": False}, "perspectives of one root must exclude each other"),
        ({}, {"split": "dev"}, "unknown split 'dev'"),
        ({}, {"split": "test"}, "has no queries"),
    ],
)
def test_perspectrum_refuses(tmp_path, change, options, message):
    claims = json.loads(json.dumps(CLAIMS))
    claims[0]["perspectives"][1].update(change)
    with pytest.raises(InputError, match=message):
        build_perspectrum(perspectrum(tmp_path, claims), **options)


# ---------------------------------------------------------------- AmbigQA


def pair(question, *answer):
    return {"question": question, "answer": list(answer)}


SONG = {
    "id": "1",
    "question": "Who sings it?",
    "annotations": [
        {"type": "singleAnswer", "answer": ["Ann"]},
        {
            "type": "multipleQAs",
            "qaPairs": [pair("Which group sings it?", "The Choir"), pair("Who is the lead singer?", "Ann")],
        },
        {"type": "multipleQAs", "qaPairs": [pair("Who sang it live?", "Bob")]},
    ],
    "used_queries": [
        {
            "query": "song",
            "results": [
                {"title": "S", "snippet": "Annie wrote it."},
                {"title": "S", "snippet": "Sung by The Choir, led by Ann."},
                {"title": "A", "snippet": "ANN leads."},
            ],
        }
    ],
}
CLEAR = {"id": "2", "question": "Where?", "annotations": [{"type": "singleAnswer", "answer": ["Rome"]}]}


@pytest.mark.parametrize("name", ["dev.json", "dev.jsonl"])
def test_ambigqa_finds_evidence_in_the_searches_of_the_full_release(tmp_path, name):
    rows = [SONG, CLEAR]
    task = build_ambigqa(saved(tmp_path / name, rows if name.endswith(".json") else jsonl(rows)))
    text = {p.docno: p.text for p in task.passages}
    assert [(q.text, q.root, q.perspective, [text[d] for d in q.gold]) for q in task.queries] == [
        ("Which group sings it?", "Who sings it?", "Which group sings it?", ["Sung by The Choir, led by Ann."]),
        ("Who is the lead singer?", "Who sings it?", "Who is the lead singer?", ["ANN leads."]),
    ]
    assert "Annie wrote it." in text.values()  # still there to be searched


def test_ambigqa_takes_evidence_from_elsewhere(tmp_path):
    light = {key: value for key, value in SONG.items() if key != "used_queries"}
    evidence = {"Which group sings it?": "The Choir.", "Who is the lead singer?": "Ann."}
    task = build_ambigqa(saved(tmp_path / "light.json", [light]), evidence)
    assert sorted(p.text for p in task.passages) == ["Ann.", "The Choir."]
    with pytest.raises(InputError, match="the light release needs it as an argument"):
        build_ambigqa(tmp_path / "light.json")
    with pytest.raises(InputError, match="must exclude each other"):
        build_ambigqa(tmp_path / "light.json", dict.fromkeys(evidence, "The same."))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "Who?"}, r":1 \[annotations\]: a list of annotations"),
        (SONG | {"annotations": [{"type": "multipleQAs"}]}, r"\[qaPairs\]: a list of questions"),
        (SONG | {"annotations": [{"type": "multipleQAs", "qaPairs": ["x"]}]}, r"\[qaPairs\]"),
        (SONG | {"annotations": [{"type": "multipleQAs", "qaPairs": [{"question": "x"}]}]}, r"\[answer\]: missing"),
        (SONG | {"used_queries": {"query": ["x"], "results": ["y"]}}, r"\[used_queries\]: a list of"),
        (SONG | {"used_queries": [{"query": "x"}]}, r"\[used_queries\]: a list of"),
        (SONG | {"used_queries": 3}, r"\[used_queries\]: a list of"),
    ],
)
def test_ambigqa_refuses(tmp_path, row, message):
    with pytest.raises(InputError, match=message):
        build_ambigqa(saved(tmp_path / "dev.jsonl", jsonl([row])))


# ---------------------------------------------------------------- AllSides


def article(topic, bias, content):
    return {"topic": topic, "bias": {"left": 0, "center": 1, "right": 2}[bias], "bias_text": bias, "content": content}


ARTICLES = [
    article("taxes", "left", "Raise them."),
    article("taxes", "right", "Cut them."),
    article("taxes", "left", "Raise them soon."),
    article("weather", "center", "It rains."),
]


@pytest.mark.parametrize("form", ["folder", "json", "csv", "numbers"])
def test_allsides_asks_each_leaning_about_a_topic(tmp_path, form):
    path = tmp_path / "news"
    if form == "folder":
        for i, row in enumerate(ARTICLES):
            saved(path / f"{i}.json", row)
    elif form == "json":
        path = saved(tmp_path / "news.json", ARTICLES)
    elif form == "csv":
        rows = "".join(f"{a['topic']},{a['bias_text']},{a['content']}\n" for a in ARTICLES)
        path = saved(tmp_path / "news.csv", "topic,bias_text,content\n" + rows)
    else:
        path = saved(tmp_path / "news.jsonl", jsonl({k: v for k, v in a.items() if k != "bias_text"} for a in ARTICLES))
    task = build_allsides(path)
    assert answers(task) == {("taxes", "left"): ["Raise them."], ("taxes", "right"): ["Cut them."]}
    assert task.queries[0].text == "What does the left-leaning press report on taxes?"
    everything = answers(build_allsides(path, balance=False))
    assert everything["taxes", "left"] == ["Raise them.", "Raise them soon."]


def test_allsides_refuses(tmp_path):
    with pytest.raises(InputError, match=r"\[bias_text\]: 'up' is no leaning; accepted: left, center, right"):
        build_allsides(saved(tmp_path / "a.jsonl", jsonl([ARTICLES[0] | {"bias_text": "up"}])))
    with pytest.raises(InputError, match=r"\[content\]: missing"):
        build_allsides(saved(tmp_path / "a.jsonl", jsonl([{"topic": "t", "bias": 0}])))
    with pytest.raises(InputError, match="must exclude each other"):
        build_allsides(saved(tmp_path / "a.jsonl", jsonl([article("t", s, "same") for s in ("left", "right")])))
    with pytest.raises(InputError, match="holds no JSON files"):
        build_allsides(saved(tmp_path / "empty" / "x.txt", "").parent)
    with pytest.raises(InputError, match="one article was expected"):
        build_allsides(saved(tmp_path / "lists" / "x.json", []).parent)


# ---------------------------------------------------------------- Ex-FEVER


def fever(*rows):
    return "claim,explanation,label\n" + "".join(f"{c},{e},{label}\n" for c, e, label in rows)


def test_exfever_gathers_the_versions_of_a_claim(tmp_path):
    path = saved(
        tmp_path / "test.csv",
        fever(
            ("Ann was born in old Rome", "Ann was not born there.", "REFUTE"),
            ("Ann was born in new Rome", "Ann is from new Rome.", "SUPPORT"),
            ("Ann was born in big Rome", "Nobody knows how big.", "NOT ENOUGH INFO"),
            ("Bob swims", "Bob is a swimmer.", "SUPPORT"),
            ("Ann was born in old Paris then", "Not there.", "REFUTE"),
        ),
    )
    task = build_exfever(path)
    assert answers(task) == {
        ("Ann is from new Rome.", "support"): ["Ann was born in new Rome"],
        ("Ann is from new Rome.", "refute"): ["Ann was born in old Rome"],
        ("Ann is from new Rome.", "not enough info"): ["Ann was born in big Rome"],
    }
    assert len(task.passages) == 5
    # Five of seven words in common: 0.71.
    assert len(build_exfever(path, least_overlap=5 / 7).queries) == 3
    with pytest.raises(InputError, match="no supported claim has a version"):
        build_exfever(path, least_overlap=0.72)


def test_exfever_gives_a_claim_away_once(tmp_path):
    rows = [("a b c d", "one.", "SUPPORT"), ("a b c e", "two.", "SUPPORT"), ("a b c f", "three.", "REFUTE")]
    task = build_exfever(saved(tmp_path / "t.csv", fever(*rows)))
    assert {q.root for q in task.queries} == {"one."}


def test_exfever_refuses(tmp_path):
    with pytest.raises(InputError, match=r":2 \[label\]: 'maybe' is no label"):
        build_exfever(saved(tmp_path / "t.csv", fever(("a", "b", "MAYBE"))))
    with pytest.raises(InputError, match=r"\[explanation\]: missing"):
        build_exfever(saved(tmp_path / "t.csv", "claim,label\na,SUPPORT\n"))


# ---------------------------------------------------------------- StoryAnalogy

STORIES = (
    "s1,s2,EntSim,RelSim\n"
    "The virus invades cells.,Burglars break in.,0.5,2.9\n"
    "The sun melts snow.,The sun melts ice.,2.8,3.0\n"
    "Rain feeds rivers.,Taxes fill a treasury.,0.1,2.0\n"
)


def test_story_takes_the_pairs_that_run_alike_among_other_things(tmp_path):
    written = []

    def similar(story):
        written.append(story)
        return f"{story} Again."

    task = build_story(saved(tmp_path / "s.csv", STORIES), similar, n=2)
    assert answers(task) == {
        ("The virus invades cells.", "analogy"): ["Burglars break in."],
        ("The virus invades cells.", "entities"): ["The virus invades cells. Again."],
        ("Rain feeds rivers.", "analogy"): ["Taxes fill a treasury."],
        ("Rain feeds rivers.", "entities"): ["Rain feeds rivers. Again."],
    }
    assert written == ["The virus invades cells.", "Rain feeds rivers."]


def test_a_chat_model_writes_similar_stories():
    seen = []

    def complete(messages):
        seen.extend(messages)
        return SimpleNamespace(text="A new one.")

    assert similar_by(SimpleNamespace(id="m", complete=complete))("Rain falls.") == "A new one."
    assert len(seen) == 1 and seen[0]["content"].endswith("Story: Rain falls.")


def test_story_refuses(tmp_path):
    path = saved(tmp_path / "s.csv", STORIES)
    with pytest.raises(InputError, match=r"the story similar to 'The virus invades cells\.' is 'The virus"):
        build_story(path, lambda story: story)
    with pytest.raises(InputError, match=r"\[RelSim\]: 'high' is not a number"):
        build_story(saved(tmp_path / "t.csv", STORIES.replace("2.9", "high")), str.upper)
    with pytest.raises(InputError, match=r"\[s2\]: missing"):
        build_story(saved(tmp_path / "u.csv", "s1,EntSim,RelSim\na,1,2\n"), str.upper)


# ---------------------------------------------------------------- AGNews


def news(text, topic, location, style):
    return {"text": text, "attributes": {"topic": topic, "location": location, "style": style}}


NEWS = [
    news("A", "health", "India", "report"),
    news("B", "health", "Canada", "report"),
    news("C", "floods", "India", "report"),
    news("D", "health", "Brazil", "report"),
    news("E", "health", "Canada", "essay"),
    news("F", "trade", "India", "report"),
    news("G", "trade", "India", "report"),
]


def test_agnews_changes_one_attribute_at_a_time(tmp_path):
    task = build_agnews(saved(tmp_path / "news.jsonl", jsonl(NEWS)))
    # Two articles share trade, India and report, so neither is ever asked for.
    assert answers(task) == {("A", "floods"): ["C"], ("A", "Canada"): ["B"]}
    assert [q.text for q in task.queries] == [
        "Which news on floods comes from the place of this: A",
        "Which news from Canada is on the topic of this: A",
    ]
    assert sorted(p.text for p in task.passages) == list("ABCDEFG")


def test_agnews_by_location_alone(tmp_path):
    path = saved(tmp_path / "news.json", [row["attributes"] | {"text": row["text"]} for row in NEWS])
    task = build_agnews(path, kinds=["location"], per_kind=0)
    assert answers(task) == {
        ("A", "Canada"): ["B"],
        ("A", "Brazil"): ["D"],
        ("B", "India"): ["A"],
        ("B", "Brazil"): ["D"],
        ("D", "India"): ["A"],
        ("D", "Canada"): ["B"],
    }
    groups = agnews_groups(path, task)
    assert {p.text: groups[p.docno] for p in task.passages} == {r["text"]: r["attributes"]["location"] for r in NEWS}
    assert set(agnews_groups(path, task, "topic").values()) == {"health", "floods", "trade"}


def test_agnews_refuses(tmp_path):
    path = saved(tmp_path / "news.jsonl", jsonl(NEWS))
    with pytest.raises(InputError, match="unknown kind of perspective 'style'"):
        build_agnews(path, kinds=["style"])
    with pytest.raises(InputError, match=r"\[location\]: no article has two perspectives"):
        build_agnews(path, kinds=["location"])
    with pytest.raises(InputError, match=r"\[location\]: missing"):
        build_agnews(saved(tmp_path / "n.jsonl", jsonl([{"text": "A", "topic": "health", "style": "x"}])))
    with pytest.raises(InputError, match=r"\[attributes\]: an object"):
        build_agnews(saved(tmp_path / "n.jsonl", jsonl([{"text": "A", "attributes": "x"}])))
    with pytest.raises(InputError, match="was the task built from it"):
        agnews_groups(saved(tmp_path / "n.jsonl", jsonl(NEWS[:2])), build_agnews(path))


def test_a_brace_in_a_text_is_no_placeholder(tmp_path):
    rows = [r | {"text": "A {value} {root}"} if r["text"] == "A" else r for r in NEWS]
    task = build_agnews(saved(tmp_path / "news.jsonl", jsonl(rows)))
    assert task.queries[1].text == "Which news from Canada is on the topic of this: A {value} {root}"


# ---------------------------------------------------------------- real files


@pytest.mark.real_data
def test_real_perspectrum(real_data, tmp_path):
    task = build_perspectrum(real_data / "perspectrum")
    facts = pir_statistics(task)
    assert (facts["queries"], facts["roots"], facts["mean_perspectives"]) == (1368, 684, 2.0)
    sizes = {(q.root, q.label): len(q.gold) for q in task.queries}
    assert all(sizes[root, "support"] == sizes[root, "undermine"] for root, _ in sizes)
    write_pir(task, tmp_path / "p.json")
    assert load_pir(tmp_path / "p.json") == task


@pytest.mark.real_data
def test_real_perspectrum_by_cluster_has_the_size_of_table_1(real_data):
    task = build_perspectrum(real_data / "perspectrum", split="test", clusters=True)
    assert len(task.queries) == 1431
    # Table 1 has 2,773: the release lists some texts twice, and a text that is there twice can be found once only.
    assert len(task.passages) == 2574
    # The same claims as in the demo release, with the same texts.
    ours: dict[str, set] = {}
    for (root, _), texts in answers(build_perspectrum(real_data / "perspectrum", balance=False)).items():
        ours.setdefault(root, set()).update(texts)
    demo = load_pir("pir-demo", "perspectrum")
    text = {p.docno: p.text.strip() for p in demo.passages}
    shared = [q for q in demo.queries if q.root in ours and q.label != "general"]
    assert len(shared) > 60
    assert all({text[d] for d in q.gold} <= ours[q.root] for q in shared)


@pytest.mark.real_data
def test_real_ex_fever(real_data):
    task = build_exfever(real_data / "support" / "ex_fever.csv")
    facts = pir_statistics(task)
    assert (facts["queries"], facts["roots"], facts["corpus"]) == (312, 154, 4568)
    words = {p.docno: set(p.text.lower().split()) for p in task.passages}
    by_root: dict[str, list] = {}
    for q in task.queries:
        by_root.setdefault(q.root, []).append(words[q.gold[0]])
    assert all(len(found[0] & other) > len(found[0]) / 3 for found in by_root.values() for other in found[1:])
