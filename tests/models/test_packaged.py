"""Models in packages: tiny fake packages on the path, joined once, and every way in which a volume can be wrong."""

import hashlib
import importlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tiny import pair as pair_of

from berdslib.errors import InputError, MissingDataError
from berdslib.models import packaged
from berdslib.models.encoders import get_encoder
from berdslib.models.loading import load_model, package_folder
from berdslib.models.packaged import PACKAGED, Packaged, install_command, unpacked

MPNET = PACKAGED["all_mpnet_base_v2"]
FILES = {
    "config.json": b'{"model_type": "tiny"}',
    "1_Pooling/config.json": b"{}",
    "model.safetensors": b"weights" * 500,
}


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Three packages with a volume each; the zip also holds a file that is not unpacked."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in {**FILES, "desktop.ini": b"[x]"}.items():
            archive.writestr(f"tiny/{name}", content)
    whole = packed.getvalue()
    cut = [whole[:1500], whole[1500:3000], whole[3000:]]
    for i, part in enumerate(cut):
        module = tmp_path / "site" / f"tiny-part_{i}"
        module.mkdir(parents=True)
        (module / "__init__.py").touch()
        (module / f"tiny.zip.{i}").write_bytes(part)
    monkeypatch.syspath_prepend(tmp_path / "site")
    importlib.invalidate_caches()
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "cache"))
    return Packaged(
        "org/tiny",
        {f"tiny-{i}==1": (f"tiny-part_{i}", f"tiny.zip.{i}") for i in range(3)},
        tuple(map(sha256, cut)),
        "tiny",
        tuple(FILES),
        sha256(FILES["model.safetensors"]),
    )


@pytest.fixture
def volume(tmp_path):
    return lambda i: tmp_path / "site" / f"tiny-part_{i}" / f"tiny.zip.{i}"


@pytest.fixture
def left(tmp_path):
    """Return the names of what the cache holds beside the lock."""
    return lambda: sorted(p.name for p in (tmp_path / "cache" / "models").glob("*") if p.suffix != ".lock")


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_volumes_are_joined_once(model, volume, tmp_path, left):
    folder = tmp_path / "cache" / "models" / "tiny"
    assert unpacked(model) == str(folder)
    assert content(folder) == FILES
    for i in range(3):
        volume(i).unlink()
    assert unpacked(model) == str(folder)  # the volumes are not needed again
    assert left() == ["tiny"]


def test_a_missing_volume_is_named_and_without_volumes_the_hub(model, volume, tmp_path):
    volume(1).unlink()
    with pytest.raises(MissingDataError, match=r"of the 3 volumes of tiny, 1 are not .*--no-deps tiny-1==1$"):
        unpacked(model)
    for i in (0, 2):
        volume(i).unlink()
    assert unpacked(model) == "org/tiny"
    assert not (tmp_path / "cache").exists()


def test_a_volume_that_is_not_the_published_one_is_named_and_its_repair_is_all_that_is_needed(model, volume, left):
    whole = volume(2).read_bytes()
    volume(2).write_bytes(bytes([*whole[:-700], whole[-700] ^ 1, *whole[-699:]]))
    with pytest.raises(InputError, match=r"tiny\.zip\.2: "):
        unpacked(model)
    assert left() == []
    volume(2).write_bytes(whole)
    assert unpacked(model).endswith("tiny")


def test_a_gguf_file_that_is_not_the_published_one_is_not_read(model, volume, left, monkeypatch):
    """A model of one file has nothing to unpack; it is read by transformers, once, and only if it is the right one."""
    need, place = next(iter(model.packages.items()))
    gguf = Packaged("", {need: place}, model.volumes[:1], "tiny")
    monkeypatch.setattr(
        packaged, "_convert", lambda path, folder, _: (folder / "config.json").write_bytes(path.read_bytes())
    )
    changed_content = volume(0).read_bytes()
    volume(0).write_bytes(changed_content[:-1])
    with pytest.raises(InputError, match=r"tiny\.zip\.0: "):
        unpacked(gguf)
    assert left() == []
    volume(0).write_bytes(changed_content)
    assert content(Path(unpacked(gguf))) == {"config.json": changed_content}
    with pytest.raises(MissingDataError, match="--no-deps tiny-0==1 reader==2"):
        unpacked(gguf._replace(folder="other", also={"reader==2": "no_such_reader"}))


def test_a_gguf_file_in_volumes_is_joined_and_compared_with_the_published_one(model, volume, left, monkeypatch):
    """The table may list volumes in a wrong order; each then has its own hash, and only the whole file's is wrong."""
    converted = {}
    monkeypatch.setattr(
        packaged, "_convert", lambda path, folder, numbers: converted.update({numbers: path.read_bytes()})
        or (folder / "config.json").touch()
    )  # fmt: skip
    whole = b"".join(volume(i).read_bytes() for i in range(3))
    gguf = model._replace(checkpoint="", files=(), weights=sha256(whole), numbers="bfloat16")
    swapped = dict(reversed(gguf.packages.items()))
    with pytest.raises(InputError, match=r"joined\.gguf: "):
        unpacked(gguf._replace(packages=swapped, volumes=gguf.volumes[::-1]))
    assert left() == [] and not converted
    unpacked(gguf)
    assert converted == {"bfloat16": whole}


def test_weights_that_are_not_the_published_ones(model, left):
    with pytest.raises(InputError, match=r"model\.safetensors: "):
        unpacked(model._replace(weights=sha256(b"other")))
    assert left() == []


def test_what_a_kill_left_is_removed(model, tmp_path, left):
    half = tmp_path / "cache" / "models" / f".tiny.{'0123456789abcdef' * 2}"
    half.mkdir(parents=True)
    (half / "model.safetensors").write_bytes(b"half")
    unpacked(model)
    assert left() == ["tiny"]


def test_a_cache_that_cannot_be_written(model, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(InputError, match=r"models: cannot be written \(.+\); name another folder in BERDS_CACHE"):
        unpacked(model)


def test_where_there_is_neither_network_nor_package_both_ways_are_told(monkeypatch):
    def load(local):
        raise OSError("not here")

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(MissingDataError) as error:
        load_model(MPNET.checkpoint, load)
    assert f"hf download {MPNET.checkpoint}" in str(error.value)
    assert install_command(MPNET) in str(error.value)


# ---------------------------------------------------------------- the real ones, where they are installed


@pytest.fixture(scope="module")
def mpnet_folder(tmp_path_factory):
    """The real model, unpacked now from the packages that hold it."""
    if not packaged._volume_paths(MPNET):
        pytest.skip(f"needs the weights: {install_command(MPNET)}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERDS_CACHE", str(tmp_path_factory.mktemp("mpnet")))
        yield Path(package_folder("all_mpnet_base_v2"))


@pytest.mark.slow
def test_the_real_volumes_hold_what_the_table_says(mpnet_folder):
    found = content(mpnet_folder)
    assert set(found) == set(MPNET.files) and sha256(found["model.safetensors"]) == MPNET.weights


@pytest.mark.slow
def test_mpnet_is_the_model_of_sentence_transformers(mpnet_folder, monkeypatch):
    """The card asks for nothing beyond the checkpoint's own files: the same vectors, of length 1, texts cut alike."""
    from sentence_transformers import SentenceTransformer

    monkeypatch.setenv("BERDS_CACHE", str(mpnet_folder.parents[1]))
    texts = ["Cities should ban cars.", "word " * 600, "a"]
    encoder = get_encoder("mpnet", cached=False, number_format="float32", engine="torch")
    theirs = SentenceTransformer(str(mpnet_folder), device="cpu").encode(texts)
    for ours in (encoder.encode_passages(texts), encoder.encode_queries(texts)):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(theirs, axis=1), 1, atol=1e-5)


@pytest.mark.slow
def test_qwen_coder_is_the_published_file_and_writes_and_judges(tmp_path, monkeypatch):
    """Where its packages are installed; minutes, 11 GB of memory and 4 GB in the cache."""
    import torch

    from berdslib.judging.causal import load_causal
    from berdslib.models.chat import LocalChat

    qwen = packaged.PACKAGED["qwen-coder"]
    if not packaged._volume_paths(qwen):
        pytest.skip("needs the model: make qwen")
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path))
    judge = load_causal("qwen-coder")
    assert judge.model.num_parameters() == 1_777_088_000 and judge.model.dtype in (torch.float32, torch.bfloat16)
    document = "Zoos must close. Their animals suffer in small cages, far from home."
    yes, no = judge.p_yes([pair_of(document, "Zoos should be closed."), pair_of(document, "Bread should be cheaper.")])
    assert yes > no
    chat = LocalChat(judge.model, judge.tokenizer, "qwen-coder", max_tokens=8)  # a second copy would take 6 GB more
    assert "tea" in chat.complete([{"role": "user", "content": "Say the word tea, nothing else."}]).text.lower()
