"""Releases of PerspectiveArg and predictions files: what is read, and what is said of each file that cannot be."""

import gzip
import json

import pytest
from tiny_release import (
    ISSUES,
    SECRET,
    argument,
    baseline_query,
    cut_gzip,
    jsonl,
    perspective_queries,
    predicted,
    release_files,
    write_files,
)

from berdslib.data.arguments import in_words, read_release, summarise
from berdslib.data.scenario import open_scenario, read_predictions
from berdslib.errors import InputError

CORPUS, PREDICTIONS, MANIFEST = "corpus.jsonl", "predictions.jsonl", "release.json"
BASELINE_DEV, DEV = "baseline-queries/queries_dev.jsonl", "perspective-queries/queries_dev.jsonl"
FIRST, SECOND = jsonl(argument(0)), argument(1)
GOOD = {**release_files(), PREDICTIONS: jsonl(*predicted("dev"))}
PROFILE = SECOND["demographic_profile"]
TWICE = "occurs twice, first in line 1; each must be unique"
CUT = "damaged gzip file, readable up to line 0: Compressed file ended before the end-of-stream marker was reached"
KNOWN = "age, civil_status, denomination, education, gender, political_attitude, political_issues, residence"
QUERY_FILES = "queries_train.jsonl, queries_dev.jsonl, queries_test.jsonl"


def corpus(**fields):
    """The corpus with other fields in line 2; a field of None is left out."""
    row = {name: value for name, value in {**SECOND, **fields}.items() if value is not None}
    return {CORPUS: FIRST + jsonl(row, *map(argument, range(2, 30)))}


def profile(**properties):
    return corpus(demographic_profile={**PROFILE, **properties})


def queries(**fields):
    """The dev queries with other fields in line 2."""
    first, second, third = perspective_queries("dev")
    row = {name: value for name, value in {**second, **fields}.items() if value is not None}
    return {DEV: jsonl(first, row, third)}


def answers(**fields):
    """The predictions with other fields in line 2."""
    first, second, third = predicted("dev")
    row = {name: value for name, value in {**second, **fields}.items() if value is not None}
    return {PREDICTIONS: jsonl(first, row, third)}


def listed(*ids):
    return answers(relevant_candidates=[*ids, *range(2019000, 2019020 - len(ids))])


# What is wrong, the files that replace good ones, and the whole message but for the name of the folder.
RELEASES = [
    ("no corpus", {CORPUS: None}, f"{CORPUS}: no such file"),
    ("an empty corpus", {CORPUS: ""}, f"{CORPUS}: holds no arguments"),
    (
        "a row that was cut off within a profile",
        {CORPUS: FIRST + jsonl(SECOND)[: jsonl(SECOND).index(SECRET) + 3]},
        f"{CORPUS}:2: not valid JSON: Unterminated string starting at (column 203)",
    ),
    ("a gzip file that was cut off", {CORPUS: cut_gzip(GOOD[CORPUS])},
     f"{CORPUS}: {CUT}"),
    ("a list with a number in it", {CORPUS: f"[{FIRST}, 7]"}, f"{CORPUS}:2: a JSON object was expected, not int"),
    ("an argument id that is true", corpus(argument_id=True),
     f"{CORPUS}:2 [argument_id]: text or a whole number was expected, not True"),
    ("an argument id that is a profile", corpus(argument_id=PROFILE),
     f"{CORPUS}:2 [argument_id]: text or a whole number was expected, not dict"),
    ("an argument twice", corpus(argument_id="2019000"), f"{CORPUS}:2 [argument_id]: argument '2019000' {TWICE}"),
    ("an argument without text", corpus(text=None),
     f"{CORPUS}:2 [text]: missing; looked for text, argument; the row has: "
     "argument_id, target, stance, demographic_profile"),
    ("an argument without a profile", corpus(demographic_profile=None),
     f"{CORPUS}:2 [demographic_profile]: missing; the row has: argument_id, text, target, stance"),
    ("a profile that is a text", corpus(demographic_profile=SECRET),
     f"{CORPUS}:2 [demographic_profile]: an object was expected, not str"),
    ("an unknown property", profile(shoe_size="38"),
     f"{CORPUS}:2 [demographic_profile]: a key is not a property; known: {KNOWN}"),
    ("a value where a property should be", corpus(demographic_profile={SECRET: True}),
     f"{CORPUS}:2 [demographic_profile]: a key is not a property; known: {KNOWN}"),
    ("a value where a query's property should be", queries(demographic_properties={SECRET: True}),
     f"{DEV}:2 [demographic_properties]: a key is not a property; known: {KNOWN}"),
    ("a property that is an object", profile(residence={"town": SECRET}),
     f"{CORPUS}:2 [demographic_profile.residence]: text was expected, not dict"),
    ("political issues with a number", profile(political_issues=[SECRET, 3]),
     f"{CORPUS}:2 [demographic_profile.political_issues]: a list of non-blank texts was expected"),
    ("a property by two names", profile(political_spectrum=SECRET),
     f"{CORPUS}:2 [demographic_profile]: political_attitude is there twice"),
    ("no queries", {name: None for name in GOOD if "queries" in name},
     "holds no queries; looked for baseline-queries/queries_{train,dev,test}.jsonl, "
     "perspective-queries/queries_{train,dev,test}.jsonl"),
    ("queries of a split by another name", {"baseline-queries/queries_val.jsonl": jsonl(baseline_query("dev"))},
     f"baseline-queries/queries_val.jsonl: unknown file of queries; known: {QUERY_FILES}"),
    ("a query id twice", queries(query_id="110"), f"{DEV}:2 [query_id]: query '110' {TWICE}"),
    ("a query of two splits", queries(query_id=100),
     "perspective-queries [query_id]: '100' is a query of train and of dev"),
    ("a perspective query without a property", queries(demographic_properties=None),
     f"{DEV}:2 [demographic_properties]: missing; "
     "looked for demographic_properties, demographic_property; the row has: query_id, text, relevant_candidates"),
    ("a perspective query whose property is null", queries(demographic_properties={"age": None}),
     f"{DEV}:2 [demographic_properties]: names no property"),
    ("a baseline query with a property",
     {BASELINE_DEV: jsonl(baseline_query("dev") | {"demographic_property": PROFILE})},
     f"{BASELINE_DEV}:1 [demographic_property]: a baseline query names no property"),
    ("an issue of two splits", {BASELINE_DEV: jsonl(baseline_query("dev") | {"text": ISSUES[0]})},
     "baseline-queries [text]: the issue of query '1' (dev) is also in train; the splits of a release share no issue"),
    ("an issue of baseline queries in another split of perspective queries",
     {"perspective-queries/queries_test.jsonl": None, DEV: jsonl(perspective_queries("dev")[1] | {"text": ISSUES[2]})},
     "perspective-queries [text]: the issue of query '111' (dev) is also in test; "
     "the splits of a release share no issue"),
    ("an answer that is no argument", queries(relevant_candidates=[2019010, 7]),
     f"{DEV}:2 [relevant_candidates]: '7' is not in the corpus"),
    ("an answer with its profile", queries(relevant_candidates=[PROFILE]),
     f"{DEV}:2 [relevant_candidates]: dict is not an argument id"),
    ("a manifest that is a list", {MANIFEST: "[]"}, f"{MANIFEST}: an object was expected, not list"),
    ("a key of a manifest in other letters", {MANIFEST: '{"rankedfor": "reader"}'},
     f"{MANIFEST}: unknown key 'rankedfor'. Did you mean 'ranked_for'? Known: name, ranked_for, seed, synthetic"),
    ("ranked for nobody", {MANIFEST: '{"ranked_for": "nobody"}'},
     f"{MANIFEST} [ranked_for]: 'author' or 'reader' was expected"),
    ("synthetic in words", {MANIFEST: '{"synthetic": "yes"}'}, f"{MANIFEST} [synthetic]: true or false was expected"),
]  # fmt: skip
FILES = [
    ("no predictions file", {PREDICTIONS: None}, f"{PREDICTIONS}: no such file"),
    ("a blank predictions file", {PREDICTIONS: "\n\n"}, f"{PREDICTIONS}: holds no predictions"),
    ("predictions in one JSON list", {PREDICTIONS: json.dumps(predicted("dev"))},
     f"{PREDICTIONS}:1: a JSON object was expected, not list"),
    ("no query id", answers(query_id=None),
     f"{PREDICTIONS}:2 [query_id]: missing; the row has: relevant_candidates"),
    ("a query id that is true", answers(query_id=True), f"{PREDICTIONS}:2 [query_id]: text was expected, not bool"),
    ("an unknown query", answers(query_id=7), f"{PREDICTIONS}:2 [query_id]: '7' is not a query of the release"),
    ("a query of another split", answers(query_id=121),
     f"{PREDICTIONS}:2 [query_id]: '121' is a perspective query of 'test'; "
     "this scenario asks the perspective queries of 'dev'"),
    ("a query of another scenario", answers(query_id=1),
     f"{PREDICTIONS}:2 [query_id]: '1' is a baseline query of 'dev'; "
     "this scenario asks the perspective queries of 'dev'"),
    ("a query answered twice", answers(query_id="110"), f"{PREDICTIONS}:2 [query_id]: query '110' {TWICE}"),
    ("a query without an answer", {PREDICTIONS: jsonl(*predicted("dev")[1:])},
     f"{PREDICTIONS} [query_id]: answers 2 of 3 queries of 'dev'; the first without an answer is '110'"),
    ("candidates by another name", answers(relevant_candidates=None, candidates=[1]),
     f"{PREDICTIONS}:2 [relevant_candidates]: missing; the row has: query_id, candidates"),
    ("too few candidates", answers(relevant_candidates=[*range(2019000, 2019019)]),
     f"{PREDICTIONS}:2 [relevant_candidates]: lists 19 different arguments; at least 20 are needed"),
    ("a candidate twice", listed(2019003), f"{PREDICTIONS}:2 [relevant_candidates]: '2019003' is listed twice"),
    ("a candidate that is true", listed(True), f"{PREDICTIONS}:2 [relevant_candidates]: True is not an argument id"),
    ("a candidate with its profile", listed(argument(3)),
     f"{PREDICTIONS}:2 [relevant_candidates]: dict is not an argument id"),
    ("an unknown candidate", listed(7), f"{PREDICTIONS}:2 [relevant_candidates]: '7' is not in the corpus"),
]  # fmt: skip
CASES = [*RELEASES, *FILES]


def read_all(folder):
    scenario = open_scenario(read_release(folder), "explicit", "dev")
    return read_predictions(folder / PREDICTIONS, scenario)


@pytest.mark.parametrize(("files", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(tmp_path, files, message):
    write_files(tmp_path, GOOD | files)
    with pytest.raises(InputError) as caught:
        read_all(tmp_path)
    where = f"{tmp_path}: " if message.startswith("holds") else f"{tmp_path}/"
    assert str(caught.value) == where + message
    assert SECRET not in str(caught.value)


def test_the_cases_differ_and_start_from_good_files(tmp_path):
    assert len({case[0] for case in CASES}) == len({str(case[1]) for case in CASES}) == len(CASES)
    run = read_all(write_files(tmp_path, GOOD))
    assert run["docno"].tolist() == [str(2019000 + i) for i in range(20)] * 3


# ---------------------------------------------------------------- releases


def test_each_file_of_queries_that_cannot_be_used_is_a_problem_of_its_own(tmp_path):
    bad = {"baseline-queries/queries_val.jsonl": "", DEV: "7", "perspective-queries/queries_test.jsonl": ""}
    problems = []
    read = read_release(write_files(tmp_path, GOOD | bad), problems=problems)
    assert [one.path.name for one in problems] == ["queries_val.jsonl", "queries_dev.jsonl", "queries_test.jsonl"]
    assert len(read.baseline) == 3 and {q.split for q in read.perspective} == {"train"}


def renamed(row, **names):
    return {names.get(name, name): value for name, value in row.items()}


def test_either_set_of_field_names_reads_the_same(tmp_path):
    one = read_release(write_files(tmp_path / "a", GOOD), "release")
    other = {CORPUS: jsonl(*(renamed(argument(i), text="argument", target="topic") for i in range(30)))}
    for name, content in GOOD.items():
        if "queries" in name:
            rows = [renamed(json.loads(line), text="argument", demographic_properties="demographic_property")
                    for line in content.splitlines()]  # fmt: skip
            other[name] = jsonl(*rows)
    two = read_release(write_files(tmp_path / "b", other), "release")
    assert two.arguments == one.arguments and two.baseline == one.baseline and two.perspective == one.perspective
    assert one.arguments[11].issue == ISSUES[1] and in_words(one.perspective[3].asked) == "political attitude: left"


def test_a_list_over_many_lines_reads_as_lines_do(tmp_path):
    lists = {
        name: json.dumps([json.loads(line) for line in content.splitlines()], indent=1)
        for name, content in GOOD.items()
    }
    one, two = (read_release(write_files(tmp_path / name, files), "r") for name, files in (("a", GOOD), ("b", lists)))
    assert two.arguments == one.arguments and two.perspective == one.perspective


def test_gzipped_files_are_read(tmp_path):
    zipped = {name: gzip.compress(content.encode()) for name, content in GOOD.items()}
    assert len(read_all(write_files(tmp_path / "a", zipped))) == 60
    by_name = {name if name == PREDICTIONS else f"{name}.gz": content for name, content in zipped.items()}
    assert len(read_all(write_files(tmp_path / "b", by_name))) == 60


def test_a_property_that_is_not_known_is_not_there(tmp_path):
    missing = {"gender": None, "age": "", "residence": float("nan"), "political_issues": []}
    read = read_release(write_files(tmp_path, GOOD | profile(**missing)))
    assert read.arguments[1].profile == {"political_attitude": ("left",)}
    unknown = summarise(read)["unknown"]
    assert (unknown["gender"], unknown["political_attitude"], unknown["denomination"]) == (1, 0, 30)


def test_names_of_properties_from_either_release_are_one(tmp_path):
    theirs = {"Civil Status": "single", "political_spectrum": "left", "important_political_issues": "law & order"}
    read = read_release(write_files(tmp_path, GOOD | corpus(demographic_profile=theirs)))
    assert read.arguments[1].profile == {
        "civil_status": ("single",), "political_attitude": ("left",), "political_issues": ("law & order",)
    }  # fmt: skip


def test_answers_that_are_kept_back_are_none(tmp_path):
    held = [{k: v for k, v in q.items() if k != "relevant_candidates"} for q in perspective_queries("test")]
    read = read_release(write_files(tmp_path, GOOD | {"perspective-queries/queries_test.jsonl": jsonl(*held)}))
    assert [q.relevant for q in read.perspective if q.split == "test"] == [None] * 3
    assert open_scenario(read, "explicit", "test").gold is None


def test_what_is_shown_of_a_release_holds_no_profile(tmp_path):
    read = read_release(write_files(tmp_path, GOOD))
    opened = open_scenario(read, "explicit", "dev")
    shown = [repr(read), repr(read.arguments), repr(opened), repr(opened.handout), json.dumps(summarise(read))]
    assert SECRET not in "".join(shown)


def test_contradictions_are_counted_and_what_is_not_known_is_none(tmp_path):
    left, right, young = perspective_queries("dev")
    wrong = left | {"relevant_candidates": [2019010, 2019011, 2019012]}  # by the right, the left, and somebody
    rows = [argument(i) for i in range(30)]
    rows[12]["demographic_profile"]["political_attitude"] = None
    read = read_release(write_files(tmp_path, GOOD | {CORPUS: jsonl(*rows), DEV: jsonl(wrong, right, young)}))
    total = sum(len(q.relevant) for q in read.perspective)
    assert summarise(read)["contradictions"] == {"relevant": total, "contradicting": 1, "queries": 1}


def test_a_release_for_readers_has_no_contradictions(tmp_path):
    read = read_release(write_files(tmp_path, GOOD | {MANIFEST: '{"ranked_for": "reader", "synthetic": true}'}))
    assert summarise(read)["contradictions"] is None and "SYNTHETIC" in repr(read)
