"""Every snippet of the README, docs/everyday.md and docs/explorer.md runs as it stands, in Python and in the shell."""

import ast
import json
import re
from pathlib import Path

import pytest
from shell import berds

import berdslib as bd
from berdslib.data.catalogue import DATASETS
from berdslib.data.records import ranked_run
from berdslib.data.trec import write_trec_run
from berdslib.evaluation.measures import MEASURES
from berdslib.judging.registry import JUDGES
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.retrievers import RETRIEVERS

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/everyday.md", "docs/explorer.md")


def blocks(page, language):
    """Return the code blocks of a page as test parameters, numbered."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.S | re.M)
    code = [text for kind, text in found if kind == language]
    return [pytest.param(text, id=f"{Path(page).stem}-{i}") for i, text in enumerate(code)]


PYTHON = [block for page in (*PAGES, "docs/judges.md") for block in blocks(page, "python")]
COMMANDS = [
    line.partition("#")[0].strip()
    for page in PAGES
    for block in blocks(page, "")
    for line in block.values[0].splitlines()
    if line.startswith("berds ")
]


@pytest.fixture(autouse=True)
def _names_are_forgotten(warm_cache):
    """What a snippet registers is gone after it."""
    kept = [(registry, dict(registry._things)) for registry in (RETRIEVERS, JUDGES, DATASETS, DIVERSIFIERS, MEASURES)]
    yield
    for registry, things in kept:
        registry._things.clear()
        registry._things.update(things)


@pytest.fixture
def own_files(tmp_path, monkeypatch):
    """The folder of a user: questions, a corpus, verdicts and somebody else's run."""
    monkeypatch.chdir(tmp_path)
    question = {"_id": "q", "question": "Are cities good?", "perspectives": ["Cities are good.", "They are loud."]}
    Path("my_questions.jsonl").write_text(json.dumps(question) + "\n")
    texts = ["Cities are good for people.", "They are loud and dirty.", "Trains run late."]
    lines = [json.dumps({"_id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    Path("my_corpus.jsonl").write_text("\n".join(lines) + "\n")
    Path("my_list.txt").write_text("Are cities good?\nShould trains run at night?\n")
    Path("my_verdicts.tsv").write_text("qid\tpid\tdocno\tp_yes\nq\t0\td0\t1\nq\t1\td1\t1\n")
    for name, docnos in (("a.trec", ["d0", "d2", "d1"]), ("b.trec", ["d0", "d1", "d2"])):
        write_trec_run(name, ranked_run({"q": docnos}))
    write_trec_run("their_run.trec", run := bd.search("bm25", "sample", 20), tag="theirs")
    lists = {qid: dict(zip(part["docno"], part["score"], strict=True)) for qid, part in run.groupby("qid")}
    Path("their_predictions.json").write_text(json.dumps({"mteb_model_meta": {}, "default": {"test": lists}}))
    asked = {q.qid: q.text for q in bd.load("sample").questions}
    hits = {qid: [{"corpus_id": d, "score": s} for d, s in listed.items()] for qid, listed in lists.items()}
    predicted = [{"query_id": qid, "query": text, "results": hits[qid]} for qid, text in asked.items()]
    Path("their_predictions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in predicted))
    Path("topics.jsonl").write_text('{"qid": "51", "question": "horse hooves"}\n')
    Path("qrels.txt").write_text("51 1 d0 1\n51 2 d1 1\n")
    Path("graded_qrels.txt").write_text("51 0 d0 3\n51 0 d1 1\n")
    Path("run.trec").write_text("51 Q0 d0 1 9 theirs\n51 Q0 d1 2 8 theirs\n")
    found = bd.experiment(["bm25", "rank-bm25"], "sample", "MRecall@5", baseline="bm25")
    found.save("results")
    step = {"query_id": "k03", "round": 1, "query": "who pays?", "docnos": ["s001", "s002"]}
    Path("trace.jsonl").write_text(json.dumps(step) + "\n")
    Path("their_qrels.txt").write_text("".join(f"{qid} 0 {hits[qid][1]['corpus_id']} 1\n" for qid in asked))


def test_everyday_tasks_are_of_five_lines_at_most_and_one_import():
    """Beside a class or function of the user's, whose length is the user's business."""
    tasks = [ast.parse(block.values[0]) for block in blocks("docs/everyday.md", "python")]
    assert len(tasks) == 21
    for task in tasks:
        ours = [part for part in task.body if not isinstance(part, ast.ClassDef | ast.FunctionDef)]
        assert sum(part.end_lineno - part.lineno + 1 for part in ours) <= 5
        imports = [ast.unparse(part) for part in ast.walk(task) if isinstance(part, ast.Import | ast.ImportFrom)]
        assert imports == ["import berdslib as bd"]


@pytest.mark.slow
@pytest.mark.parametrize("code", PYTHON)
def test_python(code, own_files, capsys):
    exec(compile(code, "snippet", "exec"), {})
    printed = capsys.readouterr().out
    if "print(" in code:
        results = (
            "MRecall@5",
            "pRecall@5",
            "alpha_nDCG@20",
            "Leaning",
            "Useless@5",
            "Distinct@5",
            "Recent@5",
            "docno",
            "round",
        )
        assert any(said in printed for said in (*results, "computed once"))


@pytest.mark.slow
def test_commands_one_after_another(own_files):
    assert len(COMMANDS) >= 9
    for command in COMMANDS:
        berds(*command.removeprefix("berds ").split())


@pytest.mark.slow
def test_the_readme_says_in_the_shell_what_it_says_in_python(own_files, capsys):
    (code,) = (block.values[0] for block in blocks("README.md", "python"))
    exec(compile(code, "README", "exec"), {})
    shell = [command for command in COMMANDS if "--split test" in command]
    assert berds(*shell[0].removeprefix("berds ").split()).stdout == capsys.readouterr().out


def test_every_page_that_the_readme_names_is_there():
    for page in ("README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))):
        place = (ROOT / page).parent
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text(encoding="utf-8")):
            assert "://" in link or (place / link).exists(), f"{page}: {link}"
