"""Events, streams, observers and drawings."""

from __future__ import annotations

import asyncio
import gc
import io
import logging
from typing import Any

import pytest
from typing_extensions import override

from tests.graph.behaviours import behaviour
from tests.graph.kit import Log, chain, note, stopped
from tests.waiting import until
from wesichain.core import (
    Event,
    EventSink,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    from_json,
    to_json,
)
from wesichain.core.internal import NodeCompleted, NodeStarted
from wesichain.errors import ConfigError, NodeFailedError
from wesichain.graph import (
    END,
    START,
    CollectingObserver,
    ConsoleObserver,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    Observer,
    Send,
    interrupt,
)


class Keep(EventSink):
    def __init__(self) -> None:
        self.events: list[Event] = []

    @override
    def emit(self, event: Event) -> None:
        self.events.append(event)


def told(events: list[Event]) -> list[Any]:
    return [(type(event).__name__, event.node or None, event.scope) for event in events]


def check_log(events: list[Event]) -> None:
    """One run has one sequence; each scope starts and ends once; each started node ended or was cancelled."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len({event.run_id for event in events}) == 1
    for scope in {event.scope for event in events}:
        inside = [event for event in events if event.scope == scope]
        assert isinstance(inside[0], RunStarted)
        assert isinstance(inside[-1], RunCompleted | RunFailed | RunInterrupted)
        assert sum(isinstance(event, RunStarted) for event in inside) == 1
    for event in events:
        assert from_json(Event, to_json(event)) == event


# --- events ----------------------------------------------------------------------------------------


async def test_secrets_do_not_reach_a_sink() -> None:
    key = "sk-proj-" + "a1B2" * 12
    sink = Keep()
    with pytest.raises(NodeFailedError):
        await chain(lambda _: (_ for _ in ()).throw(ValueError(f"bad key {key}"))).invoke(
            {}, ExecutionOptions(events=sink)
        )
    assert key not in "".join(map(to_json, sink.events))


async def test_a_sink_that_fails_does_not_hurt_the_run(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(EventSink):
        @override
        def emit(self, event: Event) -> None:
            raise RuntimeError("full")

    sink = Keep()
    with caplog.at_level(logging.ERROR, "wesichain"):
        assert await chain(note("a")).invoke({}, ExecutionOptions(events=[Broken(), sink]))
    check_log(sink.events)
    assert len([record for record in caplog.records if "event sink" in record.message]) == 1


# --- streams ---------------------------------------------------------------------------------------


@behaviour("G110", "G111")
async def test_a_stream_yields_events_while_the_run_goes_on() -> None:
    gate = asyncio.Event()

    async def wait(_: Log) -> Any:
        await gate.wait()
        return {"log": ["slow"]}

    builder = GraphBuilder(Log).add_node("fast", note("fast")).add_node("slow", wait)
    stream = builder.add_edge(START, "fast").add_edge(START, "slow").build().stream({})
    seen: list[Event] = []
    async for event in stream:
        seen.append(event)
        if isinstance(event, NodeCompleted) and event.node == "fast":
            assert not gate.is_set()
            gate.set()
    check_log(seen)
    assert stream.result == {"log": ["fast", "slow"]}


@behaviour("G114")
async def test_a_stream_ends_as_the_run_does() -> None:
    stream = chain(lambda _: interrupt("?"), checkpointer=MemoryCheckpointer()).stream({})
    seen: list[Event] = []

    async def read() -> None:
        async for event in stream:
            seen.append(event)  # noqa: PERF401  # they are to be there when it raises

    await stopped(read())
    assert isinstance(seen[-1], RunInterrupted)
    with pytest.raises(ConfigError, match="no result"):
        _ = stream.result


@behaviour("G115")
@pytest.mark.parametrize("leave", ["break-and-close", "context", "drop"])
async def test_leaving_a_stream_stops_the_run(leave: str) -> None:
    ended: list[str] = []

    async def wait(_: Log) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("stopped")

    stream = chain(wait).stream({})
    if leave == "context":
        async with stream:
            async for event in stream:
                if isinstance(event, NodeStarted):
                    await asyncio.sleep(0)
                    break
    else:
        async for event in stream:
            if isinstance(event, NodeStarted):
                await asyncio.sleep(0)
                break
        if leave == "break-and-close":
            await stream.aclose()
    del stream
    gc.collect()
    await until(lambda: len(asyncio.all_tasks()) == 1)
    assert ended == ["stopped"]


# --- observers -------------------------------------------------------------------------------------


async def test_an_observer_hears_of_every_node() -> None:
    observer = CollectingObserver()
    await chain(note("a"), note("b")).invoke({}, ExecutionOptions(observer=observer))
    assert observer.events == ["start:n0", "end:n0", "start:n1", "end:n1"]
    observer = CollectingObserver()
    with pytest.raises(NodeFailedError):
        await chain(note("a"), lambda _: 1 / 0, checkpointer=MemoryCheckpointer()).invoke(
            {}, ExecutionOptions(observer=observer)
        )
    assert observer.events == ["start:n0", "end:n0", "checkpoint:n0", "start:n1", "error:n1"]


async def test_an_observer_that_raises_never_hurts_the_run(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Observer):
        @override
        def on_node_start(self, node: str, input: Any) -> None:
            raise RuntimeError("sync")

        @override
        async def on_node_end(self, node: str, output: Any, duration_ms: float) -> None:
            raise RuntimeError("async")

    with caplog.at_level(logging.ERROR, "wesichain"):
        done = await chain(note("a"), note("b")).invoke({}, ExecutionOptions(observer=Broken()))
    assert done["log"] == ["a", "b"]
    assert len(caplog.records) == 1


async def test_a_node_and_an_inner_graph_know_the_observer() -> None:
    seen: list[Any] = []
    observer = CollectingObserver()
    inner = chain(lambda s, ctx: seen.append(ctx.observer))
    graph = GraphBuilder(Log).add_node("sub", inner).set_entry("sub").build()
    await graph.invoke({}, ExecutionOptions(observer=observer))
    assert seen == [observer]
    assert observer.events == ["start:sub", "start:n0", "end:n0", "end:sub"]


def test_the_console_shows_a_run_and_nothing_that_a_terminal_would_act_on() -> None:
    out = io.StringIO()
    observer = ConsoleObserver(out)
    graph = GraphBuilder(Log).add_node("evil\x1b[2J", lambda _: 1 / 0).set_entry("evil\x1b[2J").build()
    with pytest.raises(NodeFailedError):
        graph.invoke_sync({}, ExecutionOptions(observer=observer))
    observer.on_tool_call("n", "search", "\x1b]0;title\x07\u202eevil\nend")
    observer.on_tool_result("n", "search", "x" * 5000)
    observer.on_node_end("n", None, 1.5)
    observer.on_checkpoint_saved("n")
    assert out.getvalue().split("\n") == [
        "▶ evil␛[2J",
        "✘ evil␛[2J: NodeFailedError: node 'evil\\x1b[2J': raised ZeroDivisionError: division by zero",
        "→ n: search(␛]0;title␇<U+202E>evil⏎end)",
        f"← n: search = {'x' * 486}…",
        "✔ n: 1.5 ms",
        "● n: saved",
        "",
    ]


# --- drawings --------------------------------------------------------------------------------------


def drawn() -> Graph[Log]:
    builder = (
        GraphBuilder(Log)
        .add_node("a", note("a"))
        .add_node('say "hi" <b>|', note("b"))
        .add_node("c", note("c"))
    )
    builder.add_node("w", lambda s: {"log": [s]}).add_node("join", note("join"), goto=["c"])
    builder.add_edge("a", 'say "hi" <b>|').add_edge(["a", 'say "hi" <b>|'], "join")
    builder.add_conditional_edges("join", lambda _: "stop", {"again": "a", "stop": END})
    builder.add_conditional_edges("c", lambda _: [Send("w", 1)], ["w"])
    return builder.set_entry("a").build()


def test_a_graph_is_drawn_as_a_flowchart() -> None:
    assert drawn().to_mermaid() == (
        "flowchart TD\n"
        "    start([start])\n"
        "    end_([end])\n"
        '    n0["a"]\n'
        '    n1["say #34;hi#34; #60;b#62;#124;"]\n'
        '    n2["c"]\n'
        '    n3["w"]\n'
        '    n4["join"]\n'
        "    start --> n0\n"
        "    n0 --> n1\n"
        "    n0 --> n4\n"
        "    n1 --> n4\n"
        "    n2 -.-> n3\n"
        "    n3 --> end_\n"
        '    n4 -.->|"again"| n0\n'
        '    n4 -.->|"stop"| end_\n'
        "    n4 -.-> n2\n"
    )


async def test_a_graph_that_a_node_invokes_may_have_an_observer_of_its_own() -> None:
    inner = GraphBuilder().add_node("deep", lambda _: {"x": 1}).set_entry("deep").build()
    mine, theirs = CollectingObserver(), CollectingObserver()

    async def call(_: Any) -> Any:
        return await inner.invoke({}, ExecutionOptions(observer=theirs))

    graph = GraphBuilder().add_node("call", call).set_entry("call").build()
    await graph.invoke({}, ExecutionOptions(observer=mine))
    assert mine.events == ["start:call", "end:call"]
    assert theirs.events == ["start:deep", "end:deep"]


async def test_an_async_observer_has_heard_of_a_node_before_it_runs() -> None:
    told: list[str] = []

    class Slow(Observer):
        @override
        async def on_node_start(self, node: str, input: Any) -> None:
            await asyncio.sleep(0.01)
            told.append(f"start {node}")

        @override
        async def on_node_end(self, node: str, output: Any, duration_ms: float) -> None:
            told.append(f"end {node}")

    def work(state: Any) -> Any:
        told.append(f"run {state['n']}")

    builder: GraphBuilder[dict[str, Any]] = GraphBuilder().add_node("work", work, blocking=False)
    builder.add_conditional_edges(START, lambda _: [Send("work", {"n": n}) for n in range(3)], ["work"])
    await builder.build().invoke({}, ExecutionOptions(observer=Slow()))
    assert told[:3] == ["start work"] * 3
    assert sorted(told[3:]) == ["end work"] * 3 + ["run 0", "run 1", "run 2"]
