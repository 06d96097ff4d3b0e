"""Where a model is: addresses of servers, files by name, threads, and work off the loop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from wesichain.errors import ConfigError
from wesichain.llm.local.places import ModelFile, RemoteServer, choose_threads, off_loop


@pytest.mark.parametrize(
    ("given", "root"),
    [
        ("http://h:8080", "http://h:8080"),
        ("https://h/", "https://h"),
        ("http://h/v1", "http://h"),
        (" http://h/a/v1/ ", "http://h/a"),
        ("http://h/v1/v1", "http://h/v1"),
    ],
)
async def test_a_server_is_asked_at_its_root_with_the_key_that_it_was_given(given: str, root: str) -> None:
    place = RemoteServer("m", given, api_key=" k\n", deadline=None)
    async with place.reach() as address:
        assert (address.url, address.key, address.elsewhere) == (root, "k", True)
    assert (place.name, place.deadline) == ("m", 600.0)
    assert RemoteServer("m", given, api_key=None, deadline=5.0).deadline == 5.0
    place.close()
    with pytest.raises(ConfigError, match="the local model 'm' was closed; make a new LocalLlm"):
        async with place.reach():
            pytest.fail("it was reached")


@pytest.mark.parametrize(
    ("variable", "given", "threads"), [("", None, 0), ("3", None, 3), ("3", 2, 2), ("many", 2, 2)]
)
def test_threads_are_given_or_of_the_environment_or_measured(
    variable: str, given: int | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WESICHAIN_THREADS", variable)
    assert choose_threads(given) == threads
    monkeypatch.setenv("WESICHAIN_THREADS", "many")
    with pytest.raises(ConfigError, match="WESICHAIN_THREADS is 'many'"):
        choose_threads(None)


def test_a_model_of_the_manifest_is_found_in_the_cache(smol: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WESICHAIN_MODELS", str(smol.parent))
    file = ModelFile("smollm2-135m", None)
    assert (file.name, file.locate()) == ("smollm2-135m", smol)
    assert ModelFile(smol, None).locate() == smol.resolve()
    assert ModelFile("folder/toy.gguf", None).name == "toy"


def test_a_file_is_known_as_a_model_by_its_first_bytes(tmp_path: Path) -> None:
    model, other = tmp_path / "toy.gguf", tmp_path / "other.gguf"
    model.write_bytes(b"GGUF and more")
    other.write_bytes(b"GGU")
    assert ModelFile(model, None).locate() == model
    with pytest.raises(ConfigError, match="is not a GGUF model: it begins with b'GGU'"):
        ModelFile(other, None).locate()


async def test_work_off_the_loop_is_told_to_stop_when_nobody_waits() -> None:
    begun, told = threading.Event(), threading.Event()

    def work(stop: threading.Event) -> None:
        begun.set()
        if stop.wait(20):
            told.set()

    task = asyncio.ensure_future(off_loop(work))
    await asyncio.to_thread(begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(told.wait, 20)


async def test_work_off_the_loop_gives_its_result_or_raises() -> None:
    assert await off_loop(lambda _: 3) == 3
    with pytest.raises(ZeroDivisionError):
        await off_loop(lambda _: 1 / 0)
