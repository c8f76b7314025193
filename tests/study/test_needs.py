"""What a grid lacks on this machine: each thing with the command that gets it, and gone once it is there."""

import shlex

import pytest
from shell import berds

from berdslib.data.tables import write_jsonl
from berdslib.errors import BerdsError
from berdslib.llm.prompting import TASKS, import_prompt
from berdslib.paths import PACKAGE
from berdslib.study.grid import read_grid, run_grid, status
from berdslib.study.needs import lacks
from berdslib.study.notebooks import inputs_of

GRIDS = PACKAGE.parent / "papermill_runs" / "grids"
JUDGES_PROMPT = "published wording of perspective_detection"


@pytest.fixture
def bare(tmp_path, monkeypatch, user_cache):
    """A machine without data, prompts, weights of the hub, a key and a GPU."""
    for name in ("BERDS_DATA", "OPENAI_API_KEY", "BERDS_CHAT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("berdslib.study.needs._gpus_here", lambda: 0)
    return tmp_path


def commands(settings, gpus=0):
    return {lack.what: lack.get for lack in lacks(settings, gpus)}


def of_grid(name, profile=""):
    grid = read_grid(GRIDS / f"{name}.yaml", profile)
    return commands(grid.values, grid.gpus)


def test_a_grid_of_the_paper_lists_all_that_it_needs(bare):
    found = of_grid("berds_diversity")
    assert {found[name] for name in ("arguana", "kialo", "opinionqa", "wikipedia")} == {
        f"berds data fetch {name}" for name in ("arguana", "kialo", "opinionqa", "wikipedia")
    }
    assert found["google-search"] == "berds data card google-search"  # no command fetches it
    assert found[JUDGES_PROMPT] == "berds prompts fetch perspective_detection"
    models = {get.removeprefix("hf download ") for what, get in found.items() if what.startswith("weights of")}
    assert {"timchen0618/Mistral_BERDS_evaluator", "facebook/dpr-ctx_encoder-single-nq-base"} < models
    assert "WhereIsAI/UAE-Large-V1" in models and len(models) == 6
    assert {"a key for gpt-4-0613", "1 GPU for each run"} < found.keys()


def test_what_ships_lacks_nothing(bare):
    assert of_grid("smoke") == {} and of_grid("berds_diversity", "laptop") == {}


def test_what_is_there_is_not_listed(bare, monkeypatch):
    of_paper = {"judge": f"causal:{bare}/model+adapter:{bare}/adapter@published", "retriever": "chat-free"}
    assert set(commands([of_paper])) == {JUDGES_PROMPT, f"weights of {bare}/model", f"weights of {bare}/adapter"}
    for name in ("model/model.safetensors", "adapter/adapter_model.safetensors"):
        (bare / name).parent.mkdir()
        (bare / name).touch()
    (bare / "wording.txt").write_text("[Document] [Statement]")
    import_prompt("perspective_detection", bare / "wording.txt", TASKS["perspective_detection"])
    (other,) = lacks([of_paper])  # another text than the authors'
    assert other.what.startswith(JUDGES_PROMPT) and not other.stops
    monkeypatch.setattr("berdslib.llm.prompting.PUBLISHED", {})  # without a checksum on record nothing is known of it
    assert commands([of_paper]) == {}
    chat = {"systems": ["bm25+expand:chat:gpt-x"]}
    assert set(commands([chat])) == {"a key for gpt-x"}
    monkeypatch.setenv("BERDS_CHAT_URL", "http://localhost:1")
    assert commands([chat]) == {}


def test_a_split_and_the_recorded_expansions_of_a_split_are_looked_for(bare, monkeypatch):
    row = {"question": "Should zoos close?", "perspectives": ["Zoos should close.", "Zoos should stay."]}
    folder = bare / "berds"
    folder.mkdir()
    write_jsonl(folder / "kialo.dev.jsonl", [row])
    monkeypatch.setenv("BERDS_DATA", str(bare))
    run = {"data": ["kialo"], "split": "test", "retriever": "bm25", "then": ""}
    assert commands([run | {"split": "dev"}]) == {}
    assert commands([run]) == {"kialo, split test": "berds data fetch kialo"}
    recorded = commands([run | {"split": "dev", "then": "+expand:recorded"}])
    assert recorded == {"kialo, recorded expansions of split dev": "berds data fetch kialo"}


def test_made_files_indexes_and_packages(bare):
    run = {"sources": ["gpt4.tsv"], "stances": "sided/questions.jsonl", "judge": "nli:mine/deep/folder"}
    found = commands([run, {"systems": ["minilm+index:ivf-pq:no.index", "pyserini:robust04"]}])
    assert "berds rate pairs" in found["gpt4.tsv"] and "build stances" in found["sided/questions.jsonl"]
    assert found["weights of mine/deep/folder"] == "no such folder"
    assert found["the package pyserini"] == "pip install 'berdslib[pyserini]'"


def test_a_run_refuses_until_its_index_is_built_by_the_printed_command(bare, monkeypatch):
    (bare / "pyproject.toml").write_text('[project]\nname = "berdslib"\n')
    (bare / "notebooks").mkdir()
    monkeypatch.chdir(bare)
    monkeypatch.setenv("BERDS_PROJECT", str(bare))
    write_jsonl(bare / "my corpus.jsonl", [{"docno": "d", "text": "Zoos keep rare animals."}])
    (bare / "some.index").mkdir()  # an empty folder is no index
    notebook = PACKAGE.parent / "papermill_runs" / "system.ipynb"
    (bare / "small.yaml").write_text(
        f"notebook: {notebook}\nfixed: {{corpus: my corpus.jsonl, then: '+index:flat:some.index'}}\n"
        "grid: {retriever: [tart-dual]}\n"
    )
    planned = read_grid(bare / "small.yaml")
    (lack,) = [lack for lack in planned.lacks() if lack.what.startswith("some.index")]
    *words, encoder = shlex.split(lack.get)
    assert lack.stops and encoder == "tart-dual"
    with pytest.raises(BerdsError):
        run_grid(planned)
    assert [row["state"] for row in status(planned)] == ["not started"]
    berds(*words[1:], "minilm")  # weights of tart-dual are not shipped
    assert lack not in read_grid(bare / "small.yaml").lacks()


def test_an_index_is_asked_for_once_for_each_corpus(bare):
    run = {"data": ["sample", "theperspective"], "corpus": "", "systems": ["minilm+index:hnsw:no.index+mmr:0.9"]}
    assert {get for what, get in commands([run]).items() if what.startswith("no.index")} == {
        "berds data index sample hnsw:no.index -m minilm",
        "berds data index theperspective hnsw:no.index -m minilm",
    }


def test_an_index_without_all_its_parts_is_missing(bare):
    index = bare / "half.index"
    run = {"data": "sample", "corpus": "sample", "systems": [f"minilm+index:flat:{index}"]}
    second = f"berds data index sample flat:{index} -m minilm --part 2/2"
    for made, missing in (("1-of-2", [second]), ("2-of-2", [])):
        (index / made).mkdir(parents=True)
        for folder in (index, index / made):
            (folder / "manifest.json").write_text("{}")
        assert [get for what, get in commands([run]).items() if "half.index" in what] == missing


@pytest.mark.parametrize("index", ["flat:made", "numpy:made", "milvus:made.db"])
def test_the_printed_command_makes_the_index_as_a_search_leaves_it(bare, own_place, index):
    write_jsonl("my corpus.jsonl", [{"docno": "d", "text": "Zoos keep rare animals."}])
    system = f"minilm+index:{index.replace('made', f'{bare}/made')}"
    run = {"corpus": str(bare / "my corpus.jsonl"), "retriever": system}
    (command,) = commands([run]).values()
    berds(*shlex.split(command)[1:])
    assert commands([run]) == {}
    before = inputs_of(run.values())
    berds("retrieve", "-q", "sample", "-c", run["corpus"], "-r", system, "-o", "run.trec")
    assert inputs_of(run.values()) == before and len(before) == 2
