"""The child process that holds a model: how many threads it takes, and how its end is told."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import pytest

pytest.importorskip("xllamacpp")

from wesichain.llm.local.llama_engine import _reason
from wesichain.llm.local.llama_server import start_measured


class Sleeps:
    """Stands where llama.cpp would: a request takes some time, and no core."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def handle_completions(self, _: Any) -> None:
        time.sleep(self.seconds)


@pytest.mark.parametrize(
    ("cores", "all_of_them", "one", "chosen", "begun"),
    [
        pytest.param(1, Sleeps(0), None, 1, [1], id="one-core"),
        pytest.param(2, Sleeps(0.02), Sleeps(0.002), 1, [2, 1], id="one-is-faster"),
        pytest.param(2, Sleeps(0.002), Sleeps(0.03), 2, [2, 1, 2], id="all-are"),
    ],
)
def test_the_number_of_threads_is_what_is_faster_now(
    cores: int, all_of_them: Any, one: Any, chosen: int, begun: list[int]
) -> None:
    started: list[int] = []

    def begin(*, threads: int) -> Any:
        started.append(threads)
        return all_of_them if threads == cores else one

    server, threads = start_measured(begin, cores)
    assert (threads, started) == (chosen, begun)
    assert server is (all_of_them if chosen == cores else one)


@pytest.mark.parametrize(
    ("said", "status", "reason"),
    [
        (b"", 1, "it ended with status 1"),
        (b"loading\nbad magic \n\n", 1, "bad magic"),
        (b"loading", -9, "it ended with signal 9"),
        (b"x" * 300, 1, "x" * 200),
    ],
)
def test_the_reason_of_its_end_is_one_line(said: bytes, status: int, reason: str) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(said)
        assert _reason(file, status) == reason
