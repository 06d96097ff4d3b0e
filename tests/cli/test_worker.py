"""wesichain worker: serves a queue until it is told to stop, and says in one line what is wrong."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.durable.databases import database_in
from tests.durable.work import agent
from tests.warm import python
from wesichain.cli.durable_runs import _handling_signals, _Shutdown, open_durable
from wesichain.cli.target import Target
from wesichain.durable import DurableAgent, RunState

MAIN = "from wesichain.cli import main; main()"


DURABLE = """
from wesichain.core import Event
from wesichain.durable import Concurrency, DurableAgent, Rate
from tests.durable.work import agent

class Listener:
    def emit(self, event: Event) -> None: ...

durable = DurableAgent(agent, "mine", database_url="sqlite:///{folder}/mine.db", version="v7", on_change="adopt",
    concurrency=Concurrency(3, queue=5, key=2), rate=Rate(9, 60.0), max_recoveries=2, lease=1.5, max_step=1000,
    events=[Listener()])
"""


async def test_a_worker_keeps_the_settings_of_the_object_that_it_serves(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(DURABLE.format(folder=tmp_path))
    async with open_durable(Target.of(f"{tmp_path}/settings.py:durable")) as found:
        pass
    assert isinstance(found, DurableAgent)
    plain = found.configured()
    assert settings_of(plain) == settings_of(found)
    other = found.configured(concurrency=8, on_change="wait", database_url="sqlite:///x.db", name="other")
    ours, theirs = other._service.serving, found._service.serving
    assert ours.concurrency == replace(theirs.concurrency, worker=8)
    assert (other.name, other.version, ours.adopts) == ("other", "v7", False)
    assert (ours.rates, ours.max_recoveries) == (theirs.rates, theirs.max_recoveries)
    assert (other._lease, other._own) == (found._lease, found._own)


def settings_of(durable: DurableAgent[Any]) -> dict[str, Any]:
    made = {"_runs", "_engine", "_execution", "_service", "_live", "_turns"}  # of the others
    own = {name: value for name, value in vars(durable).items() if name not in made}
    return {**own, "serving": durable._service.serving}


GRAPH = """
import os
from typing import TypedDict
from wesichain.durable import DurableGraph
from wesichain.graph import GraphBuilder
from wesichain.graph.sqlite import SqliteCheckpointer

class Notes(TypedDict, total=False):
    said: str

def note(state):
    return {"said": "noted"}

graph = GraphBuilder(Notes).add_node("note", note).set_entry("note").build(
    SqliteCheckpointer(os.environ["THREADS"]))
durable = DurableGraph(graph, "notes")
"""


async def test_a_worker_serves_a_graph(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, program = database_in(tmp_path), tmp_path / "notes.py"
    program.write_text(GRAPH)
    monkeypatch.setenv("THREADS", str(tmp_path / "threads.db"))
    async with open_durable(Target.of(f"{program}:durable")) as found:
        durable: Any = found
    async with durable.configured(database_url=url) as client:
        run_id = await client.enqueue({"said": ""})
        worker = subprocess.Popen(
            [*python(), "-c", MAIN, "worker", f"{program}:durable", "--database-url", url], cwd=ROOT
        )
        try:
            assert await client.result(run_id, timeout=60) == {"said": "noted"}
            assert (await client.status(run_id)).version == client.version
            worker.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(worker.wait, 30) == 0
        finally:
            worker.kill()
            worker.wait()
    (recorded,) = (home / "runs").glob(f"*{run_id}.jsonl")
    assert "node_completed" in recorded.read_text()


FACTORIES = """
from contextlib import asynccontextmanager
from pathlib import Path

from tests.durable.work import agent
from wesichain.durable import DurableAgent

here = Path(__file__).parent

def plain():
    return agent

async def awaited():
    return DurableAgent(agent, "awaited")

@asynccontextmanager
async def managed():
    (here / "opened").touch()
    yield DurableAgent(agent, "managed")
    (here / "closed").touch()

class Manager:
    async def __aenter__(self):
        return agent
    async def __aexit__(self, *exc):
        (here / "left").touch()

def wrong():
    return 3
"""


@pytest.mark.parametrize(
    ("name", "serves", "leaves"),
    [
        ("plain", "work", None),
        ("awaited", "awaited", None),
        ("managed", "managed", "closed"),
        ("Manager", "work", "left"),
    ],
)
async def test_a_factory_makes_what_is_served(
    tmp_path: Path, name: str, serves: str, leaves: str | None
) -> None:
    (tmp_path / "factories.py").write_text(FACTORIES)
    async with open_durable(Target.of(f"{tmp_path}/factories.py:{name}")) as found:
        assert found.name == serves
        assert leaves is None or not (tmp_path / leaves).exists()
    assert leaves is None or (tmp_path / leaves).exists()


async def test_a_worker_leaves_its_factory_and_three_times_ctrl_c_is_status_130(
    tmp_path: Path, home: Path
) -> None:
    (tmp_path / "factories.py").write_text(FACTORIES)
    url = database_in(tmp_path)
    environment = {**os.environ, "EFFECTS": str(tmp_path / "effects"), "PACE": "60", "NO_COLOR": "1"}
    async with DurableAgent(agent, "managed", database_url=url) as client:
        run_id = await client.enqueue("a long task")
        worker = subprocess.Popen(
            [*python(), "-c", MAIN, "worker", f"{tmp_path}/factories.py:managed", "--database-url", url],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert worker.stderr is not None
        try:
            async with asyncio.timeout(60):
                while not (tmp_path / "effects").exists():
                    await asyncio.sleep(0.1)
            worker.send_signal(signal.SIGINT)
            assert "serving" in await asyncio.to_thread(worker.stderr.readline)
            assert "stopping" in await asyncio.to_thread(worker.stderr.readline)
            worker.send_signal(signal.SIGINT)
            assert "not waiting any longer" in await asyncio.to_thread(worker.stderr.readline)
            worker.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(worker.wait, 30) == 130
        finally:
            worker.kill()
            worker.communicate()
        assert await client.status(run_id) in (RunState.PENDING, RunState.RUNNING), "others go on with it"


def test_a_worker_is_asked_to_stop_then_to_hurry_and_ends_as_the_signal_says(capsys: Any) -> None:
    end = _Shutdown(2.5)
    end.signal(signal.SIGTERM)
    assert (end.stop.reason, end.hurry.cancelled, end.status) == ("the worker was stopped", False, 0)
    end.signal(signal.SIGINT)
    assert (end.hurry.reason, end.status) == ("the worker was stopped twice", 130)
    assert capsys.readouterr().err == (
        "stopping: runs have 2.5 s to end; other workers continue the rest\n"
        "not waiting any longer: other workers continue the runs\n"
    )


def test_a_signal_after_the_end_of_a_worker_is_ignored() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]

    async def work() -> None:
        with _handling_signals(0.0):
            pass

    try:
        asyncio.run(work())
        assert [signal.getsignal(number) for number in numbers] == [signal.SIG_IGN, signal.SIG_IGN]
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
