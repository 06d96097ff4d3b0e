"""The durable graph: runs by id, questions, and processes that end, over a checkpointer in a file."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import AfterValidator

from tests.durable.looks import let_sleep
from tests.durable.test_agent import turns
from wesichain import Agent, ToolContext, tool
from wesichain.agent import Approve, ApproveWith, Provide
from wesichain.core import RunCompleted, Usage, from_json
from wesichain.core.internal import SystemClock
from wesichain.durable import DurableGraph, DurableRuns, RunState
from wesichain.durable.graph import EventJournal
from wesichain.durable.journal.inner_runs import InnerRuns
from wesichain.durable.journal.records import JournalRecord
from wesichain.errors import (
    ConfigError,
    DurableError,
    GraphInterruptedError,
    RunIdConflictError,
)
from wesichain.graph import END, Append, ExecutionOptions, Graph, GraphBuilder, interrupt, react_graph
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.testing import calls
from wesichain.trace import CollectingSink


class Notes(TypedDict, total=False):
    said: Annotated[list[str], Append]


def graph(folder: Path, *, asks: bool = False, dies: bool = False) -> Graph[Any]:
    def note(name: str) -> None:
        with (folder / "effects").open("a") as file:
            file.write(f"{name}\n")

    def first(state: Notes) -> Any:
        note("first")
        return {"said": ["first"]}

    def second(state: Notes) -> Any:
        note("second")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"said": [str(interrupt("well?")) if asks else "second"]}

    builder = GraphBuilder(Notes).add_node("first", first).add_node("second", second)
    builder.set_entry("first").add_edge("first", "second")
    return builder.build(SqliteCheckpointer(folder / "threads.db"))


async def test_a_graphs_run_is_found_by_its_id(url: str, tmp_path: Path) -> None:
    async with DurableGraph[Any](graph(tmp_path), "notes", database_url=url) as durable:
        given = {"said": ["zero"]}
        expected = {"said": ["zero", "first", "second"]}
        assert await durable.run(given, run_id="r") == expected
        assert await durable.run(given, run_id="r") == expected
        assert await durable.status("r") == RunState.COMPLETED
        with pytest.raises(RunIdConflictError):
            await durable.run({"said": ["other"]}, run_id="r")
        assert [run.run_id for run in await durable.list()] == ["r"]
        assert len(durable.version) == 12
    assert (tmp_path / "effects").read_text().split() == ["first", "second"]


def test_a_graph_without_a_checkpointer_is_refused() -> None:
    def only(state: Notes) -> Any:
        return {}

    with pytest.raises(ConfigError, match="checkpointer"):
        DurableGraph(GraphBuilder(Notes).add_node("only", only).set_entry("only").build())


# --- agents in nodes ---------------------------------------------------------------------------------


class Desk(TypedDict, total=False):
    input: str
    rounds: int
    output: str


class Yard:
    """A graph that asks its agent twice; the agent has another one for a tool, which may wait or ask."""

    def __init__(self, folder: Path) -> None:
        self.checkpointer = SqliteCheckpointer(folder / "threads.db")
        self.dug: list[str] = []
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    def graph(self, *, approval: bool = False) -> Graph[Any]:
        @tool(approval=approval)
        async def dig(depth: int, ctx: ToolContext) -> str:
            """Dig."""
            self.dug.append(ctx.idempotency_key)
            self.begun.set()
            await self.gate.wait()
            return f"dug {depth}"

        miner = Agent(turns(calls(("dig", {"depth": 1})), "gold"), tools=[dig], name="miner")
        boss = Agent(turns(calls(("miner", {"task": "x"})), "rich"), tools=[miner.as_tool()], name="boss")
        builder = GraphBuilder(Desk).add_node("mine", boss).add_node("count", self._count)
        builder.set_entry("mine").add_edge("mine", "count")
        builder.add_conditional_edges("count", lambda at: "mine" if at["rounds"] < 2 else END, ["mine", END])
        return builder.build(self.checkpointer)

    @staticmethod
    def _count(state: Desk) -> Any:
        return {"rounds": state.get("rounds", 0) + 1}

    def durable(self, url: str, **options: Any) -> DurableGraph[Any]:
        return DurableGraph[Any](self.graph(**options), "yard", database_url=url)


VISITS = [f"r:mine:{step}{rest}" for step in (0, 2) for rest in ("", ":1:miner-0")]


async def test_an_agent_in_a_node_is_a_run_of_its_own_at_each_visit(url: str, tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    yard.gate.clear()
    async with yard.durable(url) as durable, DurableRuns(url) as runs:
        running = asyncio.create_task(durable.run({"input": "go"}, run_id="r"))
        await asyncio.wait_for(yard.begun.wait(), 30)
        async with asyncio.timeout(60):
            while len(rows := await runs.list("running")) < 3:  # told a moment after it has begun
                await asyncio.sleep(0.02)
        assert {(row.run_id, row.agent, row.parent) for row in rows} == {
            ("r", "yard", None),
            ("r:mine:0", "boss", "r"),
            ("r:mine:0:1:miner-0", "miner", "r:mine:0"),
        }
        assert rows[-1].run_id == "r", "the newest are first, those inside others among them"
        yard.gate.set()
        assert (await running)["output"] == "rich"
        rows = [row for row in await durable.list("completed") if row.parent]
        assert sorted(row.run_id for row in rows) == VISITS
        assert await runs.list("running") == []
        told = [event async for event in runs.events("r")]
        for run_id in VISITS:
            own = [event async for event in runs.events(run_id)]
            assert [event.seq for event in own] == [*range(1, len(own) + 1)]
            assert {event.run_id for event in own} == {run_id}
            assert (own[0].kind, own[-1].kind) == ("run_started", "run_completed")
            assert (own[0].scope, own[-1].scope) == ("", "")
        nested = [event.kind async for event in runs.events(VISITS[2]) if event.scope == "miner-0"]
        at = next(number for number, event in enumerate(told) if event.kind == "node_started" and number > 9)
        assert nested == [event.kind for event in told[at:] if event.scope == "mine/miner-0"]
        with pytest.raises(DurableError, match="is inside 'r'"):
            await runs.cancel(VISITS[1])
        await runs.delete("r")
        assert await runs.list() == []
    assert yard.dug == [f"{run_id}:1:dig-0" for run_id in (VISITS[1], VISITS[3])]


async def test_a_cancelled_run_of_a_graph_tells_all_that_it_came_to_and_goes_on(
    url: str, tmp_path: Path
) -> None:
    yard, sink = Yard(tmp_path), CollectingSink()
    yard.gate.clear()
    made = DurableGraph[Any](yard.graph(), "yard", database_url=url, lease=1.0, events=[sink])
    async with made as durable, DurableRuns(url) as runs:
        running = asyncio.create_task(durable.run({"input": "go"}, run_id="r"))
        await asyncio.wait_for(yard.begun.wait(), 30)
        await runs.cancel("r")
        with pytest.raises(DurableError, match="cancelled"):
            await running
        async with asyncio.timeout(60):
            while not sink.events or sink.events[-1].kind != "run_interrupted":
                await asyncio.sleep(0.02)
            while [event async for event in runs.events("r")] != [*sink.events]:
                await asyncio.sleep(0.05)
        assert {row.status for row in await runs.list()} == {RunState.CANCELLED}
        yard.gate.set()
        assert (await durable.resume("r"))["output"] == "rich"
        rows = [row for row in await durable.list("completed") if row.parent]
        assert sorted(row.run_id for row in rows) == VISITS
        assert [event.kind async for event in runs.events("r")][-1] == "run_completed"


async def test_what_is_being_kept_when_a_run_ends_is_kept_and_the_rest_is_its_ending_s() -> None:
    first, second = (RunCompleted("r", 0, number, 0.0, "x", Usage()) for number in (1, 2))
    kept: list[str] = []
    begun, gate = asyncio.Event(), asyncio.Event()

    async def step(name: str, act: Any) -> str:
        begun.set()
        await gate.wait()
        kept.append(await act())
        return kept[-1]

    telling = EventJournal({}, step, clock=SystemClock(), version="v", inner_runs=InnerRuns())
    telling.emit(first)
    keeping = asyncio.create_task(telling.flush())
    await begun.wait()
    telling.emit(second)
    rest = asyncio.create_task(telling.rest())
    await asyncio.sleep(0.01)
    assert not rest.done(), "the order of events is that of the steps"
    gate.set()
    assert await rest == (second,)
    await keeping
    assert [from_json(JournalRecord, text).told for text in kept] == [(first,)]


async def test_events_of_a_resumed_run_are_stored_beside_the_earlier_ones() -> None:
    kept: dict[str, str] = {}

    async def step(name: str, act: Any) -> str:
        assert name not in kept, "a step with this name is read instead of written"
        kept[name] = await act()
        return kept[name]

    events = [RunCompleted("r", 0, number, 0.0, "x", Usage()) for number in range(6)]
    for process in (events[:2], events[2:5], events[5:]):
        journal = EventJournal({**kept}, step, clock=SystemClock(), version="v", inner_runs=InnerRuns())
        for event in process:
            journal.emit(event)
            await journal.flush()
    assert [from_json(JournalRecord, text).told for text in kept.values()] == [(event,) for event in events]


async def test_arguments_that_do_not_fit_are_asked_about_again(url: str, tmp_path: Path) -> None:
    @tool(approval=True)
    def send(to: str) -> str:
        """Send."""
        return f"sent to {to}"

    agent = Agent(turns(calls(("send", {"to": "Ann"})), "done"), tools=[send], name="post")
    builder = GraphBuilder(Desk).add_node("post", agent).set_entry("post")
    graph = builder.build(SqliteCheckpointer(tmp_path / "threads.db"))
    async with DurableGraph[Any](graph, "post", database_url=url) as durable:
        with pytest.raises(GraphInterruptedError):
            await durable.run({"input": "go"}, run_id="r")
        (first,) = await durable.pending()
        await durable.approve("r", first.token, ApproveWith({"to": 7}))
        with pytest.raises(GraphInterruptedError):
            await durable.result("r", timeout=30)
        (second,) = await durable.pending()
        await durable.approve("r", second.token, Approve())
        assert (await durable.result("r", timeout=30))["output"] == "done"
        (answered,) = (await graph.get_state("r")).answered
        assert "approve_with" not in str(answered.answer), "what was no decision has settled nothing"


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("it has to be even")
    return value


Even = Annotated[int, AfterValidator(_even)]


async def test_a_question_that_is_asked_again_is_answered_by_its_own_token(url: str, tmp_path: Path) -> None:
    def pay(state: Any) -> Any:
        return {"output": str(interrupt("how much?", expects=Even))}

    builder = GraphBuilder(Desk).add_node("pay", pay).set_entry("pay")
    graph = builder.build(SqliteCheckpointer(tmp_path / "threads.db"))
    async with DurableGraph[Any](graph, "pay", database_url=url) as durable:
        with pytest.raises(GraphInterruptedError):
            await durable.run({"input": "go"}, run_id="r")
        (asked,) = await durable.pending()
        await durable.approve("r", asked.token, Provide(3))
        with pytest.raises(GraphInterruptedError):
            await durable.result("r", timeout=30)
        (again,) = await durable.pending()
        assert again.token == asked.token
        await durable.approve("r", again.token, Provide(4))
        assert (await durable.result("r", timeout=30))["output"] == "4"
        assert [one.answer for one in (await graph.get_state("r")).answered] == [4]


async def test_the_loop_in_steps_is_one_run_inside_over_all_its_nodes(url: str, tmp_path: Path) -> None:
    @tool(approval=True)
    def send(to: str) -> str:
        """Send."""
        return f"sent to {to}"

    def made() -> DurableGraph[Any]:
        llm = turns(calls(("send", {"to": "Ann"})), calls(("send", {"to": "Bob"})), "done")
        graph = react_graph(llm=llm, tools=[send], checkpointer=SqliteCheckpointer(tmp_path / "threads.db"))
        return DurableGraph[Any](graph, "loop", database_url=url)

    async with made() as durable:
        with pytest.raises(GraphInterruptedError):
            await durable.run({"input": "go"}, run_id="r")
    for _ in range(2):
        async with made() as durable:
            (waiting,) = await durable.pending("r")
            await durable.approve("r", waiting.token, Approve())
            state = await durable.status("r")
            with suppress(GraphInterruptedError):
                await durable.run({"input": "go"}, run_id="r")
            assert state == "pending"
    async with made() as durable:
        (child,) = [row for row in await durable.list() if row.parent]
        assert (child.status, child.parent) == ("completed", "r")
        kinds = [event.kind async for event in durable.events(child.run_id)]
        assert kinds.count("tool_completed") == 2
        assert (kinds[0], kinds[-1]) == ("run_started", "run_completed")


async def test_a_question_that_was_asked_before_its_process_died_waits_for_its_answer(
    url: str, tmp_path: Path
) -> None:
    asking = graph(tmp_path, asks=True)
    with pytest.raises(GraphInterruptedError):
        await asking.invoke({}, ExecutionOptions(thread_id="r"))  # its run was not ended
    async with DurableGraph[Any](asking, "notes", database_url=url) as durable:
        with pytest.raises(GraphInterruptedError, match="the run 'r' waits for an answer"):
            await durable.run({}, run_id="r")
        assert (await durable.show("r")).error == "it waits for an answer"
        assert [item.call.args for item in await durable.pending("r")] == ["well?"]
        assert await durable.resume("r", "yes") == {"said": ["first", "yes"]}
        with pytest.raises(DurableError, match="the run 'r' does not wait for an answer"):
            await durable.answer("r", "no")
    assert (tmp_path / "effects").read_text().split() == ["first", "second", "second"]


@pytest.mark.parametrize(
    "asked",
    [
        {"reason": "why", "calls": "none"},
        {"reason": "why", "calls": [{"token": 1}]},
    ],
    ids=["a-text", "other-fields"],
)
async def test_a_question_that_only_looks_like_one_about_calls_is_answered_as_a_whole(
    url: str, tmp_path: Path, asked: Any
) -> None:
    def ask(_: Notes) -> Any:
        return {"said": [str(interrupt(asked))]}

    made = GraphBuilder(Notes).add_node("ask", ask).set_entry("ask")
    asking = made.build(SqliteCheckpointer(tmp_path / "threads.db"))
    async with DurableGraph[Any](asking, "notes", database_url=url) as durable:
        with pytest.raises(GraphInterruptedError):
            await durable.run({}, run_id="r")
        (item,) = await durable.pending("r")
        assert (item.call.name, item.call.args, item.external) == ("ask", asked, True)
        await durable.approve("r", item.token, Provide("yes"))
        assert await durable.result("r") == {"said": ["yes"]}


@pytest.mark.parametrize("act", ["answer", "resume", "resume-a-cancelled-one", "approve", "enqueue"])
async def test_what_continues_a_run_wakes_an_engine_that_waits(url: str, tmp_path: Path, act: str) -> None:
    async with DurableGraph[Any](graph(tmp_path, asks=True), "notes", database_url=url) as durable:
        with pytest.raises(GraphInterruptedError):
            await durable.run({}, run_id="r")
        engine = durable._engine
        assert engine is not None
        if act == "resume-a-cancelled-one":
            await durable.enqueue({}, run_id="other", delay=3600.0)
            await durable.cancel("other")
        await let_sleep(engine)
        async with asyncio.timeout(60):
            match act:
                case "answer":
                    await durable.answer("r", "yes")
                case "approve":
                    (asked,) = await durable.pending("r")
                    await durable.approve("r", asked.token, Provide("yes"))
                case "resume":
                    await durable.resume("r", "yes")
                case "enqueue":
                    await durable.enqueue({}, run_id="other")
                    with pytest.raises(GraphInterruptedError):
                        await durable.result("other")
                    return
                case _:
                    with pytest.raises(GraphInterruptedError):
                        await durable.resume("other")
                    return
            assert await durable.result("r") == {"said": ["first", "yes"]}
