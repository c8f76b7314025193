"""`berds rate pairs`: what it writes is what `berds rate judge` reads; and how judges order systems."""

import json

import pandas as pd
import pytest
from shell import berds, tried
from sklearn.metrics import accuracy_score, f1_score

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.readers import read_labelled_pairs
from berdslib.judging.examples import Example, detection_pairs, write_examples
from berdslib.judging.registry import make_judge
from berdslib.llm.chat import Reply
from berdslib.llm.prompting import TASKS, import_prompt
from berdslib.llm.recorded import Recorded
from berdslib.retrieval.retrievers import make_retriever
from berdslib.study.raters import as_asked

TASK = "perspective_detection"
SHOWN = "=== example ===\nFerries sail. // They fly.\n=== answer ===\nNo\n=== user ===\n{document} // {statement}"
DEV = ("-q", "sample", "--split", "dev")


@pytest.fixture(scope="module")
def found():
    questions, passages = load_questions("sample", "dev"), load_passages("sample")
    run = make_retriever("bm25", passages).search(questions, 3)
    return questions, run, {p.docno: p for p in passages}


def test_pairs_labelled_by_gold_are_read_by_judge_eval(found, tmp_path):
    questions, run, passages = found
    out = tmp_path / "pairs.tsv"
    done = json.loads(berds("rate", "pairs", *DEV, "-r", "bm25", "-k", "3", "-j", "gold", "-o", out, "--json").stdout)
    want = detection_pairs(questions, [run], passages, k=3)
    gold = load_gold("sample").set_index(["qid", "pid", "docno"])["supports"]
    written = read_labelled_pairs(out)
    assert [(p.document, p.perspective) for p in written] == [(p.passage.full_text, p.perspective) for p in want]
    assert [p.label for p in written] == [bool(gold.get((p.qid, p.pid, p.passage.docno), False)) for p in want]
    assert done["pairs"] == len(want) and done["questions"] == len(questions) and done["judge"].startswith("gold(")
    rated = ("rate", "judge", "--data", out, "-j", "random")
    long = {(row["judge"], row["measure"]): row for row in json.loads(berds(*rated, "--json").stdout)}
    head, *lines = berds(*rated).stdout.splitlines()
    measures = ["said_yes", "accuracy", "f1", "precision", "recall", "auc", "calibration_error"]
    assert head.replace(", %", "").split() == ["judge", *measures]
    for judge, line in zip(dict.fromkeys(judge for judge, _ in long), lines, strict=True):
        want = []
        for measure in measures:
            row = long[judge, measure]
            ends = (row["value"], row["low"], row["high"])
            value, low, high = (f"{one:.3f}" if measure == "auc" else f"{100 * one:.1f}" for one in ends)
            want += [value, f"[{low},", f"{high}]"] if row["low"] < row["high"] else [value]
        assert line.split() == [*judge.split(), *want]


def test_questions_are_drawn_from_each_data_set(tmp_path):
    out = tmp_path / "pairs.tsv"
    asked = ("rate", "pairs", "-q", "sample", "--split", "all", "-r", "bm25", "-k", "1", "-o", out, "--json")
    sources = {q.source for q in load_questions("sample", "all")}
    assert json.loads(berds(*asked, "--draw", "1").stdout)["questions"] == len(sources)
    assert "cannot be drawn" in tried(*asked, "--draw", "100").stderr


def test_a_sheet_of_doubtful_pairs_has_the_doubt_and_the_most_doubtful_first(tmp_path, user_cache):
    out = tmp_path / "sheet.tsv"
    berds("rate", "pairs", *DEV, "-r", "bm25", "--pairs", "20", "--doubt", "overlap,random", "-o", out)
    sheet = pd.read_csv(out, sep="\t")
    assert sheet["doubt"].is_monotonic_decreasing and sheet["doubt"].between(0, 1).all() and len(sheet) == 20
    assert sheet.columns[-1] == "label" and sheet["label"].isna().all()


def test_a_fitted_judge_is_compared_and_warns_when_it_is_measured_on_its_own_pairs(tmp_path, user_cache, caplog):
    out, folder = tmp_path / "pairs.tsv", tmp_path / "mine"
    berds("rate", "pairs", "-q", "sample", "--split", "all", "-r", "bm25", "-j", "gold", "-o", out)
    said = berds("rate", "fit", out, "-j", "overlap", "-o", folder)
    assert said.stdout.split()[0] == "judge" and "auc" not in said.stdout
    n = len(read_labelled_pairs(out))
    berds("rate", "judge", "--data", out, "-j", f"overlap,refit:{folder}")
    (warning,) = [record.args for record in caplog.records if record.levelname == "WARNING"]
    assert warning == (f"refit:{folder}", n, n)


class Answering:
    """A chat model that answers what a test says of the (document, statement) it is shown."""

    def __init__(self, id, answers):
        self.id, self.answers = id, answers

    def complete(self, messages):
        document, _, statement = messages[-1]["content"].partition(" // ")
        return Reply(self.answers[document, statement])


@pytest.fixture
def two_judges(found, tmp_path, user_cache):
    """A file of labelled pairs whose labels are all wrong, and recordings of two judges by two wordings."""
    questions, run, passages = found
    for wording, user in (("published", "{document} // {statement}"), ("published-one-shot", SHOWN)):
        (tmp_path / "wording.txt").write_text(user)
        import_prompt(TASK, tmp_path / "wording.txt", TASKS[TASK], wording)
    pairs = detection_pairs(questions, [run], passages, k=3, near=None)
    gold = load_gold("sample").set_index(["qid", "pid", "docno"])["supports"]
    labels = [bool(gold.get((p.qid, p.pid, p.passage.docno), False)) for p in pairs]
    said = {"first": ["Yes" if label else "No" for label in labels]}
    said["second"] = ["No" if i % 5 == 0 else answer for i, answer in enumerate(said["first"])]
    said["first"][7] = "Perhaps"
    texts = {q.qid: q.text for q in questions}
    examples = [
        Example(p.passage.full_text, p.perspective, not label, texts[p.qid], "")
        for p, label in zip(pairs, labels, strict=True)
    ]
    write_examples(tmp_path / "wrong.tsv", examples)
    for name, wording in (("first", "published-one-shot"), ("second", "published")):
        asker = make_judge(f"chat:nobody@{wording}")
        for listed in (pairs, as_asked(read_labelled_pairs(tmp_path / "wrong.tsv"))):
            asked = [asker.messages(pair) for pair in listed]
            shown = [tuple(turns[-1]["content"].split(" // ")) for turns in asked]
            kept = Recorded(tmp_path / f"{name}.jsonl", Answering(name, dict(zip(shown, said[name], strict=True))))
            for turns in asked:
                kept.complete(turns)
    return pairs, said


def measured(*arguments):
    """Return the measures of the last judge that `berds rate judge` prints."""
    rows = json.loads(berds("rate", "judge", *arguments, "--json").stdout)
    return {row["measure"]: row["value"] for row in rows if row["judge"] == rows[-1]["judge"]}


def test_one_recorded_judge_against_another_on_pairs_drawn_of_a_setting(two_judges, tmp_path):
    """BeRDS Table 18, and the 94 % of section 5.2, without a network: what is printed is what sklearn says."""
    pairs, said = two_judges
    first, second = (f"chat:recorded:{tmp_path / name}.jsonl" for name in ("first", "second"))
    out, setting = tmp_path / "pairs.tsv", (*DEV, "-r", "bm25", "-k", "3", "--near", "1")
    ask = ("rate", "pairs", *setting, "-j", f"{first}@published-one-shot", "-o", out, "--json")
    answers = {(p.passage.full_text, p.perspective): (one, two)
               for p, one, two in zip(pairs, said["first"], said["second"], strict=True)}  # fmt: skip
    drawn = {}
    for seed in ("0", "1"):
        done = json.loads(berds(*ask, "--pairs", "40", "--seed", seed).stdout)
        drawn[seed] = [(p.document, p.perspective) for p in read_labelled_pairs(out)]
        of_first = [p.label for p in read_labelled_pairs(out)]
        assert of_first == [answers[shown][0] == "Yes" for shown in drawn[seed]]
        assert all(answers[shown][0] in ("Yes", "No") for shown in drawn[seed])  # the unread pair is left out
        assert done["pairs"] == len(drawn[seed]) == len(set(drawn[seed])) and done["pairs"] in (39, 40)
        of_second = [answers[shown][1] == "Yes" for shown in drawn[seed]]
        found = measured("--data", out, "-j", f"{second}@published")
        assert found["accuracy"] == pytest.approx(accuracy_score(of_first, of_second)) and found["accuracy"] < 1
        assert found["f1"] == pytest.approx(f1_score(of_first, of_second))
        assert found["said_yes"] == pytest.approx(sum(of_second) / len(of_second))
    assert drawn["0"] != drawn["1"]
    assert tried(*ask, "--pairs", "4000").exit_code == 1
    both = zip(said["first"], said["second"], strict=True)
    read = [(one == "Yes", two == "Yes") for one, two in both if one in ("Yes", "No")]
    against = measured(
        "--data", tmp_path / "wrong.tsv", "--against", f"{first}@published-one-shot", "-j", f"{second}@published"
    )
    assert len(read) == len(pairs) - 1
    assert against["accuracy"] == pytest.approx(accuracy_score(*zip(*read, strict=True)), abs=1e-9)
    assert against["f1"] == pytest.approx(f1_score(*zip(*read, strict=True)), abs=1e-9)


SYSTEMS = ("rate", "systems", *DEV, "-r", "bm25,rank-bm25,bm25+expand:rule", "-j", "overlap")


def test_judge_systems_prints_tables_and_draws(tmp_path, caplog):
    out = tmp_path / "judged"
    done = berds(*SYSTEMS, "-m", "Precision@5", "-o", out)
    assert "8 questions, 3 systems" in done.stderr and "fewer than 12" in caplog.text
    assert "Precision@5 gold" in done.stdout and "tau_low" in done.stdout
    assert {path.name for path in out.iterdir()} == {
        "order.csv", "labels.csv", "table.csv", *(f"systems_Precision-5.{end}" for end in ("png", "pdf", "csv"))
    }  # fmt: skip
