"""The child process that holds a model: how many threads it takes, and how its end is told."""

from __future__ import annotations

import tempfile
import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("xllamacpp")

from wesichain.llm.local import llama_server
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


@pytest.mark.parametrize(("busy", "begun"), [(1.71, [2]), (1.70, [2, 1])])
def test_threads_that_all_had_their_cores_are_left_as_they_are(
    busy: float, begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    monkeypatch.setattr(llama_server, "measure", lambda _: (1.0, busy))
    assert start_measured(lambda *, threads: started.append(threads), 2)[1] == begun[-1]
    assert started == begun


def test_a_measurement_is_requests_a_second_and_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(time, "monotonic", iter([10.0, 12.0]).__next__)
    monkeypatch.setattr(time, "process_time", iter([1.0, 4.0]).__next__)
    server = SimpleNamespace(handle_completions=asked.append)
    assert llama_server.measure(server) == (0.5, 1.5)
    assert [probe["max_tokens"] for probe in asked] == [8, 8]


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


@pytest.mark.parametrize(
    ("devices", "batches"), [([], {"n_batch": 32, "n_ubatch": 32}), ([{"type": "gpu"}], {})]
)
def test_the_server_is_made_for_one_conversation_at_a_time_on_loopback(
    monkeypatch: pytest.MonkeyPatch, devices: list[Any], batches: dict[str, int]
) -> None:
    def params() -> Any:
        return SimpleNamespace(
            model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
        )

    kinds = SimpleNamespace(GGML_BACKEND_DEVICE_TYPE_GPU="gpu", GGML_BACKEND_DEVICE_TYPE_IGPU="igpu")
    llama = SimpleNamespace(
        CommonParams=params, Server=vars, get_device_info=lambda: devices, ggml_backend_dev_type=kinds
    )
    monkeypatch.setattr(llama_server, "llama", llama)
    made: Any = llama_server.start("p", "n", 512, 7, "k", threads=3)
    assert made == {
        "model": SimpleNamespace(path="p"), "cpuparams": SimpleNamespace(n_threads=3),
        "cpuparams_batch": SimpleNamespace(n_threads=3), "model_alias": {"n"}, "hostnames": ["127.0.0.1"], "port": 7,
        "api_keys": ["k"], "ui": False, "endpoint_slots": False, "verbosity": 1, "n_ctx": 512, "n_parallel": 1,
        "cache_ram_mib": 256, "fit_params": False, "warmup": False, **batches,
    }  # fmt: skip
    assert llama_server.start("p", "n", 512, 7, "", threads=3)["api_keys"] == []
