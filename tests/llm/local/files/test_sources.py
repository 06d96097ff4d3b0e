"""Slow and silent hubs: given up within their limits."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

from tests.llm.local.files.hub import serve
from wesichain.llm.local import ModelCard
from wesichain.llm.local.files.progress import FetchProgress
from wesichain.llm.local.files.sources import SourceError, _reason, from_hub


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        pytest.param("silent", "did not answer in time", id="accepts-and-says-nothing"),
        pytest.param("drip", "less than a kilobyte per second", id="a-byte-at-a-time"),
    ],
)
def test_a_hub_that_is_too_slow_is_given_up(tmp_path: Path, mode: str, said: str) -> None:
    card = ModelCard("toy", "toy.gguf", 400, "", "MIT", "")
    began = time.monotonic()
    with serve(b"x" * 400, mode=mode) as hub, pytest.raises(SourceError, match=said):
        from_hub(card, hub.url, part=tmp_path / "part", watch=FetchProgress(), timeout=0.5, patience=0.5)
    assert time.monotonic() - began < 10


def test_a_hub_that_is_just_fast_enough_is_used(tmp_path: Path) -> None:
    card = ModelCard("toy", "toy.gguf", 6, "", "MIT", "")
    with serve(b"x" * 6, mode="drip") as hub:  # at least a byte whenever the limit of one byte is checked
        from_hub(card, hub.url, part=tmp_path / "part", watch=FetchProgress(), patience=1 / 1024)
    assert (tmp_path / "part").read_bytes() == b"x" * 6


def test_a_reply_that_is_an_error_is_closed(tmp_path: Path) -> None:
    card = ModelCard("toy", "toy.gguf", 6, "", "MIT", "")
    with (
        serve(b"", mode="missing") as hub,
        pytest.raises(SourceError, match="answered 404 Not Found") as caught,
    ):
        from_hub(card, hub.url, part=tmp_path / "part", watch=FetchProgress())
    assert isinstance(caught.value.__context__, HTTPError)
    assert caught.value.__context__.closed


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (URLError(socket.gaierror(-2, "unknown")), "cannot be resolved"),
        (URLError(TimeoutError()), "did not answer in time"),
        (TimeoutError(), "did not answer in time"),
        (ConnectionResetError(), "ConnectionResetError"),
        (URLError("refused"), "refused"),
    ],
)
def test_why_a_hub_gives_nothing(error: Exception, said: str) -> None:
    assert said in _reason(error)
