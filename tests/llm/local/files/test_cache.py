"""The cache: where it is, and what it believes."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from wesichain.errors import ConfigError
from wesichain.llm.local import MODELS, ModelCard, cached_model, find_model, models_folder
from wesichain.llm.local.files.cache import only_writer, sync, write_atomically

DATA = b"model bytes"
CARD = ModelCard("toy", "toy.gguf", len(DATA), hashlib.sha256(DATA).hexdigest(), "MIT", "a toy")


@pytest.mark.skipif(sys.platform != "linux", reason="the names of the variables are those of Linux")
@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        pytest.param({"WESICHAIN_MODELS": "/m", "WESICHAIN_HOME": "/h"}, "/m", id="models-wins"),
        pytest.param({"WESICHAIN_HOME": "/h"}, "/h/models", id="then-home"),
        pytest.param({"XDG_DATA_HOME": "/x"}, "/x/wesichain/models", id="then-the-data-folder"),
        pytest.param({"HOME": "/u"}, "/u/.local/share/wesichain/models", id="then-the-users"),
    ],
)
def test_where_models_are(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: str) -> None:
    for name in ("WESICHAIN_MODELS", "WESICHAIN_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert models_folder() == Path(folder)


def test_a_proven_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    path.write_bytes(DATA)
    assert cached_model(CARD, tmp_path) == path
    stamp = path.stat()
    path.write_bytes(b"other bytes")  # the same size and, put back, the same time: only reading could tell
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert cached_model(CARD, tmp_path) == path


@pytest.mark.parametrize(
    "proof",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[1]", id="no-object"),
        pytest.param(b'{"size": 11, "mtime_ns": 1, "sha256": "x"}', id="of-another-file"),
    ],
)
def test_a_note_that_does_not_fit_is_ignored(tmp_path: Path, proof: bytes) -> None:
    (tmp_path / "toy.gguf").write_bytes(b"other bytes")
    (tmp_path / "toy.gguf.verified").write_bytes(proof)
    assert cached_model(CARD, tmp_path) is None


def test_a_changed_file_is_read_again_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    path.write_bytes(DATA)
    assert cached_model(CARD, tmp_path) == path
    path.write_bytes(b"other bytes")
    os.utime(path, ns=(1, 1))
    assert cached_model(CARD, tmp_path) is None


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"'gpt-9'; use one of .*smollm2-135m.* or the path of a \.gguf file"
    ):
        find_model("gpt-9")


def test_the_manifest_is_complete() -> None:
    assert len({card.name for card in MODELS}) == len({card.file for card in MODELS}) == len(MODELS)
    for card in MODELS:
        assert len(bytes.fromhex(card.sha256)) == 32
        assert card.hub is not None
        assert card.wheels is not None
        assert all("==" in requirement for requirement in card.wheels.requirements)


def test_what_is_forced_onto_the_disk_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: forced.append(os.fstat(handle).st_ino))
    before = [*Path("/dev/fd").iterdir()]
    write_atomically(tmp_path / "a", b"x")
    for path in (tmp_path, tmp_path / "a"):
        sync(path)
    assert forced == [tmp_path.stat().st_ino, (tmp_path / "a").stat().st_ino]
    with only_writer(tmp_path / "lock", waiting=lambda: None):
        assert not _try_locked(tmp_path / "lock")
    assert _try_locked(tmp_path / "lock")
    assert [*Path("/dev/fd").iterdir()] == before
    assert (tmp_path / "a").read_bytes() == b"x"


def _try_locked(path: Path) -> bool:
    """Whether somebody else gets the lock at once."""

    def refuse() -> None:
        raise BlockingIOError

    try:
        with only_writer(path, waiting=refuse):
            return True
    except BlockingIOError:
        return False
