"""Two tasks of PIR from their sources, by hand, by a property of the pairing, and beside the demo release."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berdslib.construction.pir_tasks import ALIKE, PERSPECTRUM, build_pir
from berdslib.data.datasets import load
from berdslib.data.tables import write_jsonl
from berdslib.errors import InputError
from berdslib.evaluation.measures import score_run
from berdslib.retrieval.bm25 import RankBM25

POOL = {11: "Tea calms.", 12: "Tea soothes.", 13: "Tea stains.", 21: "Cars are quick.", 31: "Rain is wet."}
CLAIMS = [
    {"cId": 20, "text": "Ban cars", "perspectives": [{"pids": [21], "stance_label_3": "UNDERMINE"}]},
    {"cId": 3, "text": "Umbrellas help", "perspectives": [{"pids": [31], "stance_label_3": "SUPPORT"}]},
    {
        "cId": 9,
        "text": "Drink tea",
        "perspectives": [
            {"pids": [11, 12], "stance_label_3": "SUPPORT"},
            {"pids": [13], "stance_label_3": "UNDERMINE"},
        ],
    },
]
SPLITS = {"20": "test", "3": "train", "9": "test"}


def perspectrum(folder, claims=CLAIMS, splits=SPLITS):
    pool = [{"pId": pid, "text": text} for pid, text in POOL.items()]
    folder.mkdir()
    for name, content in zip(PERSPECTRUM, (claims, pool, splits), strict=True):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def asked(task):
    """Return (root, label, texts that answer) of each query, in the order of the questions."""
    text_of = {passage.docno: passage.text for passage in task.passages}
    gold = {key: sorted(part["docno"].map(text_of)) for key, part in task.gold.groupby(["qid", "pid"])}
    return [(q.text, label, gold[q.qid, pid]) for q in task.questions for pid, label in enumerate(q.labels)]


def test_perspectrum_by_hand(tmp_path):
    build_pir("pir-perspectrum", perspectrum(tmp_path / "raw"), tmp_path / "task")
    task = load(tmp_path / "task")
    assert asked(task) == [  # claims in order of ids
        ("Drink tea", "support", ["Tea calms.", "Tea soothes."]),
        ("Drink tea", "undermine", ["Tea stains."]),
        ("Drink tea", "general", ["Tea calms.", "Tea soothes.", "Tea stains."]),
        ("Ban cars", "undermine", ["Cars are quick."]),
        ("Ban cars", "general", ["Cars are quick."]),
    ]
    assert [p.text for p in task.passages] == ["Tea calms.", "Tea soothes.", "Tea stains.", "Cars are quick."]
    for query in task.queries:
        assert query.text.endswith(f": {query.question.text}")


def exfever(path, *rows):
    write_jsonl(path, ({"claim": claim, "explanation": f"why {claim}", "label": label} for claim, label in rows))
    return path


def test_exfever_by_hand(tmp_path):
    table = exfever(
        tmp_path / "rows.jsonl",
        ("a b c d e f", "SUPPORT"),
        ("a b c d e g", "REFUTE"),  # 5 words of 7 are those of the first, and of the next
        ("a b c d g h", "SUPPORT"),
        ("a b c d e f k", "NOT ENOUGH INFO"),
        ("a b c x y z", "REFUTE"),  # too little
        ("q r s", "SUPPORT"),  # nothing like it
        ("a b c d h g.", "REFUTE"),  # the same words as the third
    )
    task = build_pir("pir-exfever", table, tmp_path / "task")
    assert asked(task) == [
        ("why a b c d e f", "SUPPORT", ["a b c d e f"]),
        ("why a b c d e f", "NOT ENOUGH INFO", ["a b c d e f k"]),
        ("why a b c d e f", "REFUTE", ["a b c d e g"]),
        ("why a b c d g h", "SUPPORT", ["a b c d g h"]),
        ("why a b c d g h", "REFUTE", ["a b c d h g."]),
    ]
    back = load(tmp_path / "task")
    assert asked(back) == asked(task) and back.queries[1].text.endswith("why a b c d e f")


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from("abcdef"), min_size=3), st.sampled_from(["SUPPORT", "REFUTE"])), min_size=2
    )
)
def test_no_two_claims_are_more_alike_than_what_they_were_paired_with(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("drawn")
    table = folder / "rows.jsonl"
    write_jsonl(
        table,
        (
            {"claim": " ".join(sorted(words)), "explanation": f"row {i}", "label": label}
            for i, (words, label) in enumerate(rows)
        ),
    )

    def overlap(i, j):
        return len(rows[i][0] & rows[j][0]) / len(rows[i][0] | rows[j][0])

    sides = {side: [i for i, (_, label) in enumerate(rows) if label == side] for side in ("SUPPORT", "REFUTE")}
    alike = [(i, j) for i in sides["SUPPORT"] for j in sides["REFUTE"] if overlap(i, j) >= ALIKE - 1e-9]
    try:
        task = build_pir("pir-exfever", table, folder / "task")
    except InputError:
        assert not alike
        return
    refuted = [query for query in task.queries if query.question.labels[query.pid] == "REFUTE"]
    gold = {(verdict.qid, verdict.pid): int(verdict.docno) for verdict in task.gold.itertuples()}
    pairs = {int(q.question.text.split()[1]): gold[q.question.qid, q.pid] for q in refuted}
    assert len(set(pairs.values())) == len(pairs) and set(pairs.items()) <= set(alike)
    back = {j: i for i, j in pairs.items()}
    for i, j in alike:
        kept = [overlap(i, pairs[i])] if i in pairs else []
        kept += [overlap(back[j], j)] if j in back else []
        assert kept and max(kept) >= overlap(i, j) - 1e-9


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"pids": [99]}, "perspectives[0].pids"),
        ({"stance_label_3": "MAYBE"}, "perspectives[0].stance_label_3"),
    ],
)
def test_clusters_that_cannot_be_used(tmp_path, change, field):
    cluster = {"pids": [11], "stance_label_3": "SUPPORT"} | change
    raw = perspectrum(tmp_path / "raw", [{"cId": 9, "text": "Drink tea", "perspectives": [cluster]}])
    with pytest.raises(InputError) as caught:
        build_pir("pir-perspectrum", raw, tmp_path / "task")
    assert (caught.value.path, caught.value.line, caught.value.field) == (raw / PERSPECTRUM[0], 1, field)
    assert not (tmp_path / "task").exists()


@pytest.mark.parametrize("perspectives", [None, "all", ["all"]])
def test_claims_without_a_list_of_clusters(tmp_path, perspectives):
    raw = perspectrum(tmp_path / "raw", [{"cId": 9, "text": "Drink tea", "perspectives": perspectives}])
    with pytest.raises(InputError) as caught:
        build_pir("pir-perspectrum", raw, tmp_path / "task")
    assert (caught.value.line, caught.value.field) == (1, "perspectives")


def test_what_cannot_be_built_or_written(tmp_path):
    with pytest.raises(InputError) as caught:
        build_pir("pir-exfever", exfever(tmp_path / "rows.jsonl", ("a b", "PERHAPS")), tmp_path / "task")
    assert (caught.value.line, caught.value.field) == (1, "label")
    raw = perspectrum(tmp_path / "raw", splits={"9": "dev", "20": "train"})
    with pytest.raises(InputError):
        build_pir("pir-perspectrum", raw, tmp_path / "task")  # no claim of the test split
    table = exfever(tmp_path / "two.jsonl", ("a b c", "SUPPORT"), ("a b c", "REFUTE"))
    for name in ("thesis.tex", "corpus.jsonl"):  # the second could be somebody's own BEIR folder
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("mine")
        with pytest.raises(InputError):
            build_pir("pir-exfever", table, folder)
        assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(name, "mine")]


# ---------------------------------------------------------------- beside the release


@pytest.mark.slow
@pytest.mark.real_data
def test_p11_perspectrum_is_the_released_task(real_data, tmp_path):
    task = build_pir("pir-perspectrum", real_data / "perspectrum", tmp_path / "task")
    assert (len(task.queries), len(task.passages)) == (1431, 2773)  # PIR's Table 1
    demo = load("pir-demo:perspectrum")
    assert [p.text for p in task.passages[:500]] == [p.text for p in demo.passages]
    assert asked(task)[:100] == asked(demo)
    run = RankBM25(task.passages, analyser="whitespace").search(task.queries, 5)
    means = [
        100 * score_run(run, task.gold, task.questions, measure).iloc[:, 0].mean()
        for measure in ("pRecall(gold='official')@5", "pRecall@5")
    ]
    assert means == pytest.approx([39.1, 33.9], abs=0.2)  # 39.1 in PIR's Table 2; ties there fall by chance
    said = [(query.text, query.perspective) for query in task.queries[:100]]
    assert said == [(query.text, query.perspective) for query in demo.queries]


@pytest.mark.slow
@pytest.mark.real_data
def test_p12_claims_that_are_alike_are_those_that_the_release_groups(real_data, tmp_path):
    """The demo's claims, not in its order: which of them stand together?"""
    demo = sorted(asked(load("pir-demo:exfever")), key=lambda one: one[2])
    table = tmp_path / "rows.jsonl"
    write_jsonl(table, ({"claim": claim, "explanation": root, "label": label} for root, label, (claim,) in demo))
    ours = [(root, label, claim) for root, label, (claim,) in asked(build_pir("pir-exfever", table, tmp_path / "task"))]
    assert set(ours) <= {(root, label, claim) for root, label, (claim,) in demo}
    assert Counter(label for _, label, _ in ours) == {"SUPPORT": 31, "REFUTE": 31, "NOT ENOUGH INFO": 11}
