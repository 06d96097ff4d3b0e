"""Durable graphs, eight runs at a time: each in the caller's world made for it, cancelled, killed, and replayed."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from tests.conftest import ROOT
from tests.draws import sampled
from tests.durable.test_agent import turns
from tests.warm import python
from wesichain import Agent, ToolContext, tool
from wesichain.agent import replay
from wesichain.core import to_json
from wesichain.core.internal import dump_json
from wesichain.durable import DurableGraph, DurableRuns, RunState
from wesichain.durable.journal.inner_runs import InnerRuns
from wesichain.durable.store.step_table import CancelledRunError, LostRunError
from wesichain.durable.work import Work
from wesichain.errors import DurableError
from wesichain.graph import Append, Graph, GraphBuilder, GraphContext
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.testing import calls
from wesichain.tools import CancellationToken
from wesichain.trace import CollectingSink, Recording

RUNS = [f"r{number}" for number in range(8)]
CANARY = "canary-7f3a"  # stands in every world, and must not be stored


@dataclass
class World:
    """The caller's world of one run, and all that it has seen of it."""

    run_id: str
    secret: str = CANARY
    seen: list[str] = field(default_factory=list[str])


class Paper(TypedDict, total=False):
    input: str
    said: Annotated[list[str], Append]
    output: str


@tool
async def stamp(ctx: ToolContext[World]) -> str:
    """Stamp it."""
    ctx.deps.seen.append("stamped")
    return f"stamped by {ctx.deps.run_id}"


def clerk() -> Agent[Any, str]:
    return Agent(turns(calls(("stamp", {})), "filed"), deps_type=World, tools=[stamp], name="clerk")


class Office:
    """A graph of three nodes that need the world: the second waits at a gate, the third is an agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: list[World] = []
        self.waiting: Counter[str] = Counter()  # how often a run has come to the gate
        self.gate = asyncio.Event()
        self.sink = CollectingSink()

    async def world(self, run_id: str) -> World:
        await asyncio.sleep(0)
        self.made.append(World(run_id))
        return self.made[-1]

    def graph(self) -> Graph[Any]:
        def opened(state: Paper, ctx: GraphContext[World]) -> Any:
            self.note(f"opened {ctx.context.run_id}")
            return {"said": [f"opened in {ctx.context.run_id} of {ctx.thread_id}"], "input": "file it"}

        async def waits(state: Paper, ctx: GraphContext[World]) -> Any:
            self.waiting[ctx.context.run_id] += 1
            self.note(f"waits {ctx.context.run_id}")
            await self.gate.wait()
            return {"said": [f"passed in {ctx.context.run_id} of {ctx.thread_id}"]}

        builder = GraphBuilder(Paper, context_type=World).add_node("opened", opened).add_node("waits", waits)
        builder.add_node("clerk", clerk()).set_entry("opened")
        builder.add_edge("opened", "waits").add_edge("waits", "clerk")
        return builder.build(SqliteCheckpointer(self.folder / "threads.db"))

    def note(self, text: str) -> None:
        with (self.folder / "effects").open("a") as file:
            file.write(f"{text}\n")

    def effects(self) -> Counter[str]:
        return Counter((self.folder / "effects").read_text().splitlines())

    def durable(self, url: str, **options: Any) -> DurableGraph[Any]:
        options = {"lease": 1.0, "concurrency": 8, "events": [self.sink], **options}
        return DurableGraph[Any](self.graph(), "office", context=self.world, database_url=url, **options)

    async def until_all_wait(self, runs: list[str] = RUNS) -> None:
        async with asyncio.timeout(120):
            while not all(self.waiting[run_id] for run_id in runs):
                await asyncio.sleep(0.02)


def ended(run_id: str) -> dict[str, Any]:
    said = [f"{what} in {run_id} of {run_id}" for what in ("opened", "passed")]
    return {"said": said, "input": "file it", "output": "filed"}


def is_right(state: Any, run_id: str) -> bool:
    """Whether the run came to its own end, in its own world."""
    return {key: state[key] for key in ended(run_id)} == ended(run_id)


async def check_log(runs: DurableRuns, office: Office, run_id: str) -> None:
    """What is kept of a run is what was heard of it, each event once; the runs inside replay to the same."""
    heard = [event for event in office.sink.events if event.run_id == run_id]
    async with asyncio.timeout(60):
        while (kept := [event async for event in runs.events(run_id)]) != heard:
            await asyncio.sleep(0.05)
    assert [event.seq for event in kept] == [*range(1, len(kept) + 1)]
    (inside,) = [row.run_id for row in await runs.list(limit=200) if row.parent == run_id]
    told = tuple([event async for event in runs.events(inside)])
    again = await replay(Recording(inside, told), clerk())
    assert to_json([*again.events]) == to_json([*told])


@pytest.mark.sampled
@pytest.mark.parametrize("lease", sampled([1.0, 60.0], 1), ids=str)
async def test_four_of_eight_are_cancelled_and_go_on_and_the_others_never_hear_of_it(
    url: str, tmp_path: Path, lease: float
) -> None:
    office = Office(tmp_path)
    cancelled, others = RUNS[::2], RUNS[1::2]
    async with office.durable(url, lease=lease) as durable, DurableRuns(url) as runs:
        running = {run_id: asyncio.create_task(durable.run({}, run_id=run_id)) for run_id in RUNS}
        await office.until_all_wait()
        await asyncio.gather(*(runs.cancel(run_id) for run_id in cancelled))
        for run_id in cancelled:
            with pytest.raises(DurableError, match="is cancelled"):
                await running[run_id]
        assert {await durable.status(run_id) for run_id in cancelled} == {RunState.CANCELLED}
        assert not any(running[run_id].done() for run_id in others)
        office.gate.set()
        states = await asyncio.gather(*(running[run_id] for run_id in others))
        assert all(map(is_right, states, others))
        before = Counter(world.run_id for world in office.made)
        again = await asyncio.gather(*(durable.resume(run_id) for run_id in cancelled))
        assert all(map(is_right, again, cancelled))
        made = Counter(world.run_id for world in office.made) - before
        assert made == Counter(cancelled), "a run that goes on has its world made anew"
        assert {row.status for row in await runs.list(limit=200)} == {RunState.COMPLETED}
        for run_id in others:
            await check_log(runs, office, run_id)
    for path in (*tmp_path.glob("runs.db*"), *tmp_path.glob("threads.db*")):
        assert CANARY.encode() not in path.read_bytes()
    effects = office.effects()
    assert {effects[f"opened {run_id}"] for run_id in RUNS} == {1}, "what has a checkpoint is not run again"
    assert {effects[f"waits {run_id}"] for run_id in others} == {1}
    assert {effects[f"waits {run_id}"] for run_id in cancelled} <= {1, 2}


@pytest.mark.parametrize("kind", [CancelledRunError, LostRunError])
async def test_that_a_run_was_cancelled_is_known_by_the_kind_of_error_whatever_it_says(
    url: str, tmp_path: Path, kind: type[BaseException]
) -> None:
    async def step(name: str, act: Any) -> str:
        raise kind("the run was cancelled")

    office = Office(tmp_path)
    work = Work("r", dump_json({"state": {}}), (), {}, step, CancellationToken(), InnerRuns())
    durable: Any = office.durable(url)
    running: Any = asyncio.ensure_future(durable._service.execute(work))
    if kind is CancelledRunError:
        ended = await running
        assert ended.outcome == "interrupted"
        assert work.token.cancelled
    else:  # another process has it
        with pytest.raises(LostRunError):
            await running
        assert not work.token.cancelled


@pytest.mark.sampled
@pytest.mark.parametrize("lease", sampled([1.0, 20.0], 1))
async def test_an_operator_who_cancels_and_resumes_at_once_has_them_carried_by_one_alone(
    url: str, tmp_path: Path, lease: float
) -> None:
    office = Office(tmp_path)
    async with office.durable(url, lease=lease) as durable, DurableRuns(url) as runs:
        running = [asyncio.create_task(durable.run({}, run_id=run_id)) for run_id in RUNS]
        await office.until_all_wait()

        async def again(run_id: str) -> None:
            await runs.cancel(run_id)
            await runs.resume(run_id)

        await asyncio.gather(*map(again, RUNS))
        async with asyncio.timeout(120):
            while not all(office.waiting[run_id] == 2 for run_id in RUNS):
                await asyncio.sleep(0.02)
        office.gate.set()
        assert all(map(is_right, await asyncio.gather(*(durable.result(run_id) for run_id in RUNS)), RUNS))
        await asyncio.gather(*running, return_exceptions=True)
        seen = Counter(world.run_id for world in office.made for _ in world.seen)
        assert seen == Counter(RUNS), "nobody stamps twice"


PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.durable.test_graph_together import Office, RUNS

async def main():
    office = Office(Path(sys.argv[1]))
    async with office.durable(sys.argv[2]) as durable:
        running = [asyncio.create_task(durable.run({}, run_id=run_id)) for run_id in RUNS]
        await office.until_all_wait()
        print("all wait", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_eight_that_were_killed_go_on_in_another_process_four_of_them_after_a_cancel(
    url: str, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [*python(), "-c", PROGRAM, str(tmp_path), url], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == "all wait\n"
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    process.stdout.close()
    office = Office(tmp_path)
    office.gate.set()
    async with DurableRuns(url) as runs:
        await asyncio.gather(*(runs.cancel(run_id) for run_id in RUNS[::2]))
        async with office.durable(url) as durable:
            states = await asyncio.gather(*(durable.run({}, run_id=run_id) for run_id in RUNS[1::2]))
            assert all(map(is_right, states, RUNS[1::2]))
            assert {await durable.status(run_id) for run_id in RUNS[::2]} == {RunState.CANCELLED}
            assert sorted(world.run_id for world in office.made) == RUNS[1::2], (
                "nobody runs what was cancelled"
            )
            again = await asyncio.gather(*(durable.resume(run_id) for run_id in RUNS[::2]))
            assert all(map(is_right, again, RUNS[::2]))
            for run_id in RUNS:
                kept = [event async for event in runs.events(run_id)]
                assert [event.seq for event in kept] == sorted({event.seq for event in kept})
                assert kept[-1].kind == "run_completed"
    effects = office.effects()
    assert {effects[f"opened {run_id}"] for run_id in RUNS} == {1}
    assert {effects[f"waits {run_id}"] for run_id in RUNS} == {2}, "once in each process"
    assert json.dumps([world.seen for world in office.made]) == json.dumps([["stamped"]] * 8)
