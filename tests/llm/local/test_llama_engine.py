"""One process for all who use a file of a model in the same way; the last of them ends it."""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wesichain.errors import ConfigError
from wesichain.llm.local.llama_engine import LlamaEngine, _reason, lease, release


def leased(path: Path, *, context: int = 512) -> LlamaEngine:
    return lease(path, name="m", context=context, threads=1)


def test_an_engine_is_shared_until_its_last_user_has_left(tmp_path: Path) -> None:
    one, two, other = leased(tmp_path / "a"), leased(tmp_path / "a"), leased(tmp_path / "a", context=256)
    assert one is two is not other
    assert (one.users, one.pid, one.address) == (2, None, None)
    release(one)
    third = leased(tmp_path / "a")
    assert third is two
    release(third)
    release(two)
    again = leased(tmp_path / "a")
    assert again is not two
    assert (again.users, two.users) == (1, 0)
    assert again.settings.key != two.settings.key
    for engine in (again, other):
        release(engine)


def test_a_model_that_does_not_load_in_time_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wesichain.llm.local.llama_engine.LOAD_SECONDS", 0.5)
    path = tmp_path / "m.gguf"
    os.mkfifo(path)  # the child waits for a writer when it opens this file
    engine = leased(path)
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(engine.start)
        try:
            error = starting.exception(timeout=20)
        finally:
            os.close(os.open(path, os.O_RDWR))
    assert isinstance(error, ConfigError)
    assert "ended with signal 9" in str(error)
    assert engine.pid is None
    release(engine)


@pytest.mark.parametrize(
    ("said", "status", "reason"),
    [
        pytest.param(b"no", 1, "no", id="its-only-line"),
        pytest.param(b"loading\n  wrong magic \n \n", 1, "wrong magic", id="its-last-line"),
        pytest.param(b"\xff" + b"x" * 300, 1, "\ufffd" + "x" * 199, id="a-line-that-is-too-long"),
        pytest.param(b"\n", 3, "it ended with status 3", id="no-line"),
        pytest.param(b"", 0, "it ended with status 0", id="nothing"),
        pytest.param(b"loading", -9, "it ended with signal 9", id="a-signal"),
    ],
)
def test_why_a_model_was_not_loaded(said: bytes, status: int, reason: str) -> None:
    output = io.BytesIO()
    output.write(said)
    assert _reason(output, status) == reason
