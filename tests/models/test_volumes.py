"""Models in volumes: tiny fake packages on the path, joined once, and every way in which a volume can be wrong."""

import hashlib
import importlib
import io
import threading
import zipfile

import pytest

from berdslib.errors import InputError, MissingDataError
from berdslib.models import volumes
from berdslib.models.loading import load_model, package_folder
from berdslib.models.volumes import MPNET, Stamp, Volumes, install_command, unpacked

FILES = {
    "config.json": b'{"model_type": "tiny"}',
    "1_Pooling/config.json": b"{}",
    "model.safetensors": b"weights" * 500,
}


def stamp(content):
    return Stamp(len(content), hashlib.sha256(content).hexdigest())


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
    return Volumes(
        "org/tiny",
        {f"tiny-{i}==1": (f"tiny-part_{i}", f"tiny.zip.{i}") for i in range(3)},
        tuple(map(stamp, cut)),
        "tiny",
        {name: stamp(content) for name, content in FILES.items()},
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


def test_without_volumes_the_hub_is_named(model, volume, tmp_path):
    for i in range(3):
        volume(i).unlink()
    assert unpacked(model) == "org/tiny"
    assert not (tmp_path / "cache").exists()


def test_a_missing_volume_is_named(model, volume, left):
    volume(1).unlink()
    with pytest.raises(MissingDataError, match=r"of the 3 volumes of tiny, 1 are not .*--no-deps tiny-1==1$"):
        unpacked(model)
    assert left() == []


def test_a_volume_cut_short(model, volume, left):
    volume(2).write_bytes(volume(2).read_bytes()[:-1])
    with pytest.raises(InputError, match=r"tiny\.zip\.2: has \d+ bytes, not \d+; install the package anew"):
        unpacked(model)
    assert left() == []


def test_a_changed_volume(model, volume, left):
    changed = bytearray(volume(0).read_bytes())
    changed[700] ^= 1
    volume(0).write_bytes(changed)
    with pytest.raises(InputError, match=r"tiny\.zip\.0: is not the file that was published"):
        unpacked(model)
    assert left() == []


def test_a_file_that_is_not_the_published_one(model, left):
    wrong = model._replace(files={**model.files, "config.json": stamp(b"{}")})
    with pytest.raises(InputError, match=r"tiny/config\.json: is not the file"):
        unpacked(wrong)
    assert left() == []


def test_what_changed_after_unpacking_is_told(model, tmp_path):
    folder = tmp_path / "cache" / "models" / "tiny"
    unpacked(model)
    (folder / "model.safetensors").write_bytes(b"short")
    with pytest.raises(InputError, match=r"model\.safetensors is not as it was unpacked; delete the folder"):
        unpacked(model)


def test_what_a_kill_left_is_removed(model, tmp_path, left):
    half = tmp_path / "cache" / "models" / ".tiny.0123"
    half.mkdir(parents=True)
    (half / "model.safetensors").write_bytes(b"half")
    unpacked(model)
    assert left() == ["tiny"]


def test_several_at_once_unpack_once(model, monkeypatch):
    times, own = [], volumes._unpack
    monkeypatch.setattr(volumes, "_unpack", lambda *given: (times.append(1), own(*given)))
    threads = [threading.Thread(target=unpacked, args=(model,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert times == [1]


def test_the_package_of_a_card_is_unpacked(model, monkeypatch, tmp_path):
    monkeypatch.setitem(volumes.IN_VOLUMES, "all_tiny", model)
    assert package_folder("all_tiny") == str(tmp_path / "cache" / "models" / "tiny")


def test_where_there_is_neither_network_nor_package_both_ways_are_told(monkeypatch):
    def load(local):
        raise OSError("not here")

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(MissingDataError) as error:
        load_model(MPNET.checkpoint, load)
    assert f"hf download {MPNET.checkpoint}" in str(error.value)
    assert install_command(MPNET) in str(error.value)


def test_the_published_weights_are_asked_for():
    published = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
    assert MPNET.files["model.safetensors"] == Stamp(437971872, published)
    assert len(MPNET.packages) == len(MPNET.volumes) == 5
