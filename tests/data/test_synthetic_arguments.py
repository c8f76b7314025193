"""Made-up releases: to the schema, in proportion, always the same, with as much of the profile in the text as said."""

import hashlib
import json
import os
import re
import string
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from itertools import combinations, pairwise

import pytest
from tiny_release import release_files, write_files

from berdslib.data import synthetic_arguments as synthetic
from berdslib.data.arguments import PROPERTIES, Release, read_release
from berdslib.data.catalogue import DATASETS
from berdslib.data.scenario import open_scenario
from berdslib.data.synthetic_arguments import CARD, SIGNALS, VALUES, make_release, write_release
from berdslib.data.synthetic_topics import GROUNDS, LANGUAGES, MEASURES, forms, things
from berdslib.data.synthetic_words import banks, swaps
from berdslib.errors import InputError

SIZES = {"arguments": 3_000, "issues": 60}


@pytest.fixture(scope="module")
def release():
    return make_release(**SIZES)


@pytest.fixture(scope="module")
def for_readers():
    return make_release(**SIZES, ranked_for="reader")


def by_issue(release):
    found = {}
    for one in release.arguments:
        found.setdefault(one.issue, []).append(one)
    return found


def shares(release, name):
    counts = Counter(value for one in release.arguments for value in one.profile.get(name, ()))
    known = sum(name in one.profile for one in release.arguments)
    return {value: counts[value] / known for value in counts}


def digest(release):
    return hashlib.sha256(repr([getattr(release, f.name) for f in fields(Release)]).encode()).hexdigest()


# ---------------------------------------------------------------- what there is


def test_sizes_and_splits(release):
    assert (release.synthetic, release.name, release.ranked_for) == (True, "synthetic", "author")
    assert len(release.arguments) == 3_000
    assert Counter(q.split for q in release.baseline) == {"train": 42, "dev": 6, "test": 12}
    assert len(release.perspective) == 1_120  # 56 for three issues
    assert {q.split for q in release.perspective} == {"train", "dev", "test"}
    on_issue = [len(there) for there in by_issue(release).values()]
    assert len(on_issue) == 60 and min(on_issue) < 30 and max(on_issue) > 80  # unequal
    assert "SYNTHETIC" in repr(release)


def test_the_smallest_release_has_one_issue_a_split():
    tiny = make_release(arguments=3, issues=3)
    assert sorted(q.split for q in tiny.baseline) == ["dev", "test", "train"]
    assert all(q.relevant for q in tiny.baseline + tiny.perspective)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"issues": 2}, "issues"),
        ({"issues": 100_000, "arguments": 100_000}, "issues"),
        ({"issues": 10, "arguments": 9}, "arguments"),
        ({"arguments": 99.5}, "arguments"),
        ({"seed": "1"}, "seed"),
    ],
)
def test_sizes_out_of_range_are_refused(given, field):
    with pytest.raises(InputError) as error:
        make_release(**given)
    assert error.value.field == field


def test_ranked_for_is_author_or_reader():
    with pytest.raises(InputError, match="author, reader"):
        make_release(ranked_for="both")


def test_no_issue_is_in_two_splits(release):
    splits = {}
    for query in release.baseline + release.perspective:
        splits.setdefault(query.text, set()).add(query.split)
    assert len(splits) == 60 and all(len(there) == 1 for there in splits.values())
    assert {one.issue for one in release.arguments} == set(splits)


def test_ids_are_numbers_in_an_order_that_goes_by_nothing(release):
    numbers = [int(one.docno) for one in release.arguments]
    assert release.number_ids == (True, True) and all(a < b for a, b in pairwise(numbers))
    qids = [int(q.qid) for q in release.baseline + release.perspective]
    assert len(set(qids)) == len(qids)
    for about in (lambda one: one.issue, lambda one: one.profile.get("denomination"), lambda one: one.stance):
        neighbours = sum(about(a) == about(b) for a, b in pairwise(release.arguments)) / 2_999
        by_chance = sum((n / 3_000) ** 2 for n in Counter(map(about, release.arguments)).values())
        assert neighbours == pytest.approx(by_chance, abs=0.03)


# ---------------------------------------------------------------- answers, by brute force


def test_all_arguments_on_an_issue_answer_its_baseline_query(release):
    there = by_issue(release)
    for query in release.baseline:
        assert not query.asked and query.relevant == tuple(one.docno for one in there[query.text])


def test_those_by_authors_with_the_value_answer_a_perspective_query(release):
    there = by_issue(release)
    for query in release.perspective:
        ((name, (value,)),) = query.asked.items()
        wanted = tuple(one.docno for one in there[query.text] if value in one.profile.get(name, ()))
        assert query.relevant == wanted != ()


def test_each_value_is_asked_for_at_most_once_an_issue_and_every_property_somewhere(release):
    asked = [(q.text, name, *values) for q in release.perspective for name, values in q.asked.items()]
    assert len(set(asked)) == len(asked)
    assert {name for _, name, _ in asked} == set(PROPERTIES)
    assert max(Counter(issue for issue, *_ in asked).values()) == 19


def test_the_release_for_readers_has_the_same_arguments_and_only_test_queries(release, for_readers):
    assert for_readers.arguments == release.arguments and for_readers.ranked_for == "reader"
    of_authors = {q.qid: q for q in release.baseline + release.perspective if q.split == "test"}
    assert [q.qid for q in for_readers.baseline + for_readers.perspective] == list(of_authors)
    assert for_readers.baseline == tuple(q for q in release.baseline if q.split == "test")
    there = by_issue(release)
    for query in for_readers.perspective:
        same = of_authors[query.qid]
        assert (query.text, query.asked) == (same.text, same.asked)
        assert query.relevant and set(query.relevant) <= {one.docno for one in there[query.text]}
    changed = sum(set(q.relevant) != set(of_authors[q.qid].relevant) for q in for_readers.perspective)
    assert changed > 0.9 * len(for_readers.perspective)


def test_readers_pick_what_like_minded_authors_wrote_and_likeness_in_the_rest_plays_no_part(release, for_readers):
    profiles, there = {one.docno: one.profile for one in release.arguments}, by_issue(release)

    def lift(*names):
        """How much more common the value that is asked for is among what readers pick than among what they leave."""
        picked, left = [], []
        for query in for_readers.perspective:
            ((name, (value,)),) = query.asked.items()
            for docno in (one.docno for one in there[query.text] if name in names and name in one.profile):
                (picked if docno in query.relevant else left).append(value in profiles[docno][name])
        assert len(picked) > 200
        return sum(picked) / len(picked) - sum(left) / len(left)

    assert lift("political_attitude") > 0.15 and lift("political_issues") > 0.15
    assert abs(lift("gender", "age", "residence", "education", "civil_status", "denomination")) < 0.05


# ---------------------------------------------------------------- profiles


def test_there_are_small_groups_and_properties_that_hang_together(release):
    assert 0 < shares(release, "gender")["other"] < 0.03
    denominations, civil = shares(release, "denomination"), shares(release, "civil_status")
    assert 0 < denominations["jewish"] < 0.03 and 0.01 < denominations["muslim"] < 0.06
    assert 0 < civil["registered partnership"] < 0.05

    def share(of, among):
        chosen = [one.profile for one in release.arguments if among(one.profile) and of[0] in one.profile]
        return sum(of[1] in profile[of[0]] for profile in chosen) / len(chosen)

    single = ("civil_status", "single")
    young, old = (lambda p, v=v: p.get("age") == (v,) for v in ("18-34", "65+"))
    assert share(single, young) > 0.5 > 0.2 > share(single, old)
    welfare = ("political_issues", "expanded welfare state")
    left, liberal = (lambda p, v=v: p.get("political_attitude") == (v,) for v in ("left", "liberal"))
    assert share(welfare, left) > 0.5 > 0.2 > share(welfare, liberal)


def test_all_values_are_known_ones_and_some_are_missing(release):
    for name in PROPERTIES:
        assert set(shares(release, name)) <= set(VALUES[name])
        missing = sum(name not in one.profile for one in release.arguments) / len(release.arguments)
        assert missing == pytest.approx(synthetic.MISSING[name], abs=0.06) and missing > 0.01


# ---------------------------------------------------------------- texts


def test_three_languages_in_their_shares(release):
    telling = {"de": {"der", "die", "und", "ich", "ist", "nicht"}, "fr": {"le", "les", "et", "je", "des", "est"},
               "it": {"il", "che", "per", "di", "è", "non"}}  # fmt: skip
    found = Counter()
    for one in release.arguments:
        words = Counter(re.findall(r"\w+", one.text.lower()))
        found[max(telling, key=lambda lang: sum(words[w] for w in telling[lang]))] += 1 / len(release.arguments)
    assert found["de"] == pytest.approx(0.7, abs=0.08)
    assert found["fr"] == pytest.approx(0.22, abs=0.08)
    assert found["it"] == pytest.approx(0.08, abs=0.05)


def test_texts_are_whole_sentences(release):
    for text in [one.text for one in release.arguments] + [q.text for q in release.baseline]:
        assert not re.search(r"[\[\]{}|]|  |\s$|[a-z]:|\b[Dd]e les?\b|\b[Qq]ue [hiaeoué]", text), text
        assert re.match(r"[A-ZÀ-Ü]", text) and re.search(r"[.?]$", text), text


def test_the_three_languages_have_the_same_banks_and_each_suits_every_measure():
    assert len({tuple(banks(language)) for language in LANGUAGES}) == 1
    slots = forms(things()[0], MEASURES[0])
    for language in LANGUAGES:
        for name, lines in banks(language).items():
            if name == "swap":
                continue
            assert {letter for line in lines for letter in line.suits} == set("REL"), (language, name)
            for line in lines:
                plain = re.sub(r"\[[^][]*\|[^][]*\]", "x", line.text)
                assert not set("[]|") & set(plain), line.text
                used = {slot for _, slot, _, _ in string.Formatter().parse(line.text) if slot is not None}
                assert used <= set(slots[language]), line.text
        assert all(old != new for old, new in swaps(language).items())


def test_every_opening_bank_names_the_measure_the_thing_or_nothing():
    for language in LANGUAGES:
        for name in banks(language):
            if name.startswith("opening"):
                assert all(synthetic._by_naming(language, name).values()), (language, name)


def test_every_thing_has_measures_and_grounds():
    kinds = {kind for measure in MEASURES for kind in measure.kinds.split()}
    assert {thing.kind for thing in things()} == kinds == set(GROUNDS)
    assert len({thing.german for thing in things()}) == len(things())


def test_every_issue_that_can_be_asked_for_is_asked_in_other_words():
    topics = synthetic._make_issues(602, synthetic._dice(0, "test"))
    assert len({topic.question for topic in topics}) == 602


def test_arguments_name_their_issue_often_and_not_always(release):
    def named(one):
        words = {word.lower() for word in re.findall(r"\w{7,}", one.issue)}
        return bool(words & set(re.findall(r"\w+", one.text.lower())))

    share = sum(map(named, release.arguments)) / len(release.arguments)
    assert 0.3 < share < 0.7  # those in another language do not


def likeness(a, b):
    return len(a & b) / len(a | b)


def copies(release):
    """Return the shares of arguments with an exact and with a lightly changed double on their issue."""
    exact, near = set(), set()
    checked = list(by_issue(release).values())[:15]
    for there in checked:
        bags = [frozenset(re.findall(r"\w+", one.text.lower())) for one in there]
        for (one, bag), (other, others) in combinations(zip(there, bags, strict=True), 2):
            if one.text == other.text:
                exact.add(other.docno)
            elif min(len(bag), len(others)) > 8 and likeness(bag, others) >= 0.75:
                near.add(other.docno)
    number = sum(map(len, checked))
    return len(exact) / number, len(near - exact) / number


def test_some_arguments_are_copies(release, monkeypatch):
    exact, near = copies(release)
    assert 0.005 < exact < 0.02 and 0.02 < near < 0.06
    monkeypatch.setattr(synthetic, "_COPIED", 0)
    by_chance = copies(make_release(**SIZES))
    assert by_chance[0] < exact / 3 and by_chance[1] < near / 3


def test_an_edited_copy_is_never_the_same():
    draft = synthetic._Draft("PRO", ["Das ist so.", "Darum Ja."])
    for number in range(20):
        assert synthetic._edited(draft, "de", synthetic._dice(number, "test")).sentences != draft.sentences


def test_a_signal_that_is_turned_off_leaves_nothing_in_the_text(release, monkeypatch):
    starts = [re.split(r"[\[{]", line.text)[0] for line in banks("de")["age 35-49"]]
    starts = [start for start in starts if len(start) > 8]

    def share(release):
        return sum(any(start in one.text for start in starts) for one in release.arguments) / len(release.arguments)

    assert share(release) > 0.03
    monkeypatch.setattr(synthetic, "SIGNALS", SIGNALS | {"age": SIGNALS["age"]._replace(strength=0)})
    assert share(make_release(arguments=500, issues=10)) == 0


# ---------------------------------------------------------------- always the same, and on disk


def test_a_seed_gives_the_same_release_in_another_process():
    small = {"arguments": 200, "issues": 10, "seed": 3}
    code = f"""
import sys; sys.path[:0] = {sys.path!r}
import hashlib
from dataclasses import fields
from berdslib.data.synthetic_arguments import make_release
from berdslib.data.arguments import Release
made = make_release(**{small!r})
print(hashlib.sha256(repr([getattr(made, f.name) for f in fields(Release)]).encode()).hexdigest())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "12345"},
    )
    assert done.stdout.strip() == digest(make_release(**small))


def test_another_seed_gives_another_release():
    one, other = (make_release(arguments=200, issues=10, seed=seed) for seed in (0, 1))
    assert {a.issue for a in one.arguments} != {a.issue for a in other.arguments}
    assert {a.text for a in one.arguments} != {a.text for a in other.arguments}


@pytest.mark.parametrize("ranked_for", ["author", "reader"])
def test_what_is_written_is_read_back(tmp_path, ranked_for):
    made = make_release(arguments=300, issues=10, seed=5, name="mine", ranked_for=ranked_for)
    write_release(tmp_path / "new" / "release", made)
    back = read_release(tmp_path / "new" / "release")
    for field in fields(Release):
        assert getattr(back, field.name) == getattr(made, field.name), field.name
    manifest = json.loads((tmp_path / "new" / "release" / "release.json").read_text())
    assert manifest == {"name": "mine", "synthetic": True, "ranked_for": ranked_for, "seed": 5}


def test_the_files_have_the_published_fields(tmp_path):
    made = make_release(arguments=300, issues=10)
    write_release(tmp_path / "r", made)

    def rows(name):
        return [json.loads(line) for line in (tmp_path / "r" / name).read_text(encoding="utf-8").splitlines()]

    (argument, *_), (baseline, *_) = rows("corpus.jsonl"), rows("baseline-queries/queries_dev.jsonl")
    assert list(argument) == ["argument_id", "text", "target", "stance", "demographic_profile"]
    assert argument["argument_id"] == int(made.arguments[0].docno) and argument["stance"] in ("PRO", "CON")
    assert list(baseline) == ["query_id", "text", "relevant_candidates"]
    queries = rows("perspective-queries/queries_train.jsonl")
    assert list(queries[0]) == ["query_id", "text", "demographic_properties", "relevant_candidates"]
    assert all(isinstance(one, int) for query in queries for one in query["relevant_candidates"])


def test_answers_that_are_kept_back_stay_so(tmp_path):
    made = make_release(arguments=300, issues=10)
    hidden = tuple(q._replace(relevant=None) if q.split == "test" else q for q in made.baseline)
    write_release(tmp_path / "r", Release("r", made.arguments, hidden, number_ids=(True, True)))
    back = read_release(tmp_path / "r")
    assert back.baseline == hidden and not back.synthetic


def test_a_release_replaces_an_earlier_one_and_no_other_folder(tmp_path):
    made = make_release(arguments=100, issues=5)
    write_release(tmp_path / "r", made)
    write_release(tmp_path / "r", make_release(arguments=60, issues=4, ranked_for="reader"))
    assert len(read_release(tmp_path / "r").arguments) == 60
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "corpus.jsonl").write_text("{}\n")
    with pytest.raises(InputError):
        write_release(tmp_path / "mine", made)
    assert (tmp_path / "mine" / "corpus.jsonl").read_text() == "{}\n"


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ('{"ranked_for": "reader"}', "owners: holds a release that is not synthetic; it is not replaced"),
        ('{"synthetic": false}', "owners: holds a release that is not synthetic; it is not replaced"),
        ("{", "release.json:1: not valid JSON"),
    ],
)
def test_the_owners_data_are_never_replaced(tmp_path, manifest, problem):
    owners = write_files(tmp_path / "owners", release_files() | {"release.json": manifest})
    before = {file: file.read_bytes() for file in owners.rglob("*") if file.is_file()}
    with pytest.raises(InputError, match=problem):
        write_release(owners, make_release(arguments=60, issues=4))
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_the_scenarios_open():
    release, for_readers = (make_release(arguments=100, issues=5, ranked_for=who) for who in ("author", "reader"))
    for rule in ("baseline", "explicit", "implicit"):
        scenario = open_scenario(release, rule, "dev")
        assert len(scenario.passages) == 100 and scenario.training is not None
    assert open_scenario(for_readers, "implicit", "test", training=release).training is not None


def test_the_card_says_how_strong_each_signal_is():
    flat = " ".join(CARD.split())
    for name, signal in SIGNALS.items():
        assert f"- {name.replace('_', ' ')} ({signal.strength:g}): {signal.how}" in flat
    assert set(SIGNALS) == set(PROPERTIES)


def test_the_card_of_a_small_release_does_not_say_that_it_is_as_large_as_the_original():
    assert "schema of PerspectiveArg 2024, and can be made in its size." in " ".join(
        DATASETS["perspectivearg-sample"].note.split()
    )


# ---------------------------------------------------------------- as large as the original, and what can be learnt


@pytest.mark.slow
def test_by_default_it_is_as_large_as_the_original():
    release = make_release()
    assert (len(release.arguments), len(release.baseline), len(release.perspective)) == (26_000, 300, 5_600)


@pytest.mark.slow
def test_attitude_is_learnt_across_issues_and_gender_hardly():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import balanced_accuracy_score

    release = make_release(arguments=6_000, issues=75)
    train = {q.text for q in release.baseline if q.split == "train"}

    def learnt(name, values):
        known = [one for one in release.arguments if one.profile.get(name, ("",))[0] in values]
        lessons, exam = ([one for one in known if (one.issue in train) is wanted] for wanted in (True, False))
        words = TfidfVectorizer(min_df=3, sublinear_tf=True)
        model = LogisticRegression(max_iter=200, class_weight="balanced")
        model.fit(words.fit_transform([one.text for one in lessons]), [one.profile[name][0] for one in lessons])
        found = model.predict(words.transform([one.text for one in exam]))
        return balanced_accuracy_score([one.profile[name][0] for one in exam], found)

    assert 0.4 < learnt("political_attitude", VALUES["political_attitude"]) < 0.7  # .2 by chance
    assert 0.6 < learnt("residence", VALUES["residence"]) < 0.8  # .5 by chance
    assert 0.45 < learnt("gender", ("female", "male")) < 0.56  # .5 by chance


@pytest.mark.slow
def test_bm25_finds_some_arguments_and_not_all():
    from berdslib.retrieval.retrievers import make_retriever

    release = make_release(arguments=8_000, issues=100)
    scenario = open_scenario(release, "baseline", "train")
    run = make_retriever("bm25", scenario.passages).search(scenario.questions, 10)
    answers = {q.qid: set(q.relevant) for q in release.baseline}
    hits = [scenario.ids[docno] in answers[qid] for qid, docno in zip(run["qid"], run["docno"], strict=True)]
    assert 0.45 < sum(hits) / (10 * len(scenario.questions)) < 0.9
