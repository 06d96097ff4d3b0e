"""The whole thread of a graph, entry by entry, with all items of its streams and its snapshots, for each kind of graph.

The expected threads are in `whole_threads/` (see `tests/expected.py`). Each case also runs with graphs
that are built again for every call, without a stream: they store the same entries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel
from typing_extensions import override

from tests import expected
from tests.agent.kit import add, boom, call, say
from tests.draws import sampled
from tests.graph.behaviours import behaviour
from wesichain import Agent, tool
from wesichain.agent import Approve, ApproveWith, Refuse
from wesichain.core import LlmRequest, Message, Role, StepFailed, ToolCompleted, ToolSpec
from wesichain.errors import LlmTransportError, ToolFailedError, WesichainError
from wesichain.graph import (
    END,
    START,
    Add,
    Append,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    GraphContext,
    GraphInterrupt,
    MemoryCheckpointer,
    Merge,
    Migration,
    Observer,
    Overwrite,
    PerStep,
    ReActAgentNode,
    RetryPolicy,
    Send,
    SetUnion,
    StateUpdate,
    StreamItem,
    Untracked,
    compact,
    interrupt,
    react_graph,
)
from wesichain.policy import Budget, OnceWithToolCatalog, Recovery, Reprompt, Retry
from wesichain.testing import FakeClock, FunctionLlm

THREADS = Path(__file__).parent / "whole_threads"
MODES: Any = ("events", "values", "updates", "messages", "custom")


class State(TypedDict, total=False):
    log: Annotated[list[Any], Append]
    total: Annotated[int, Add]
    tags: Annotated[set[str], SetUnion]
    facts: Annotated[dict[str, Any], Merge]
    now: Annotated[list[str], Append, PerStep]
    secret: Annotated[Any, Untracked]
    last: str
    output: str


@dataclass
class World:
    """The environment of a graph; all of its builds share the clock, the ids and the store."""

    clock: FakeClock = field(default_factory=lambda: FakeClock(1000.0))
    ids: Any = field(default_factory=lambda: count(1))
    store: MemoryCheckpointer = field(default_factory=MemoryCheckpointer)
    asked: list[GraphInterrupt] = field(default_factory=list[GraphInterrupt])
    tries: Any = field(default_factory=lambda: count(1))
    made: dict[str, Any] = field(default_factory=dict[str, Any])

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """An object that outlives a graph: a model with its script."""
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]


@dataclass(frozen=True)
class Do:
    """A call of a method of the graph; from this call on, `program` builds the graph."""

    method: str
    args: Sequence[Any] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    program: str = ""


def invoke(state: Any = None, *, context: Any = None, **options: Any) -> Do:
    given = ExecutionOptions(**{"thread_id": "t", **options})
    return Do("stream", (state,), {"options": given, "context": context})


def resume(*answer: Any, by: str | None = None, checkpoint_id: str | None = None, **options: Any) -> Do:
    """An answer may be a function of the open questions."""
    given = {"by": by, "checkpoint_id": checkpoint_id, "options": ExecutionOptions(**options)}
    return Do("stream_resume", ("t", *answer), given)


def update(value: Any, as_node: str | None = None, **options: Any) -> Do:
    return Do("update_state", ("t", value, as_node), options)


def state(checkpoint_id: str) -> Do:
    return Do("get_state", ("t", checkpoint_id))


LOOK = Do("get_state", ("t",))


def fork(checkpoint_id: str) -> Do:
    return Do("fork", ("t", checkpoint_id))


def later(seconds: float) -> Do:
    return Do("later", (seconds,))


SHORT = Do("compact")


def deploy(program: str) -> Do:
    return Do("deploy", program=program)


@dataclass(frozen=True)
class Kind:
    """A graph, in one or more programs, and the calls of its methods."""

    build: Callable[[World], Any] | Mapping[str, Callable[[World], Any]]
    calls: Sequence[Do]

    def program(self, name: str) -> Callable[[World], Any]:
        return self.build[name] if isinstance(self.build, Mapping) else self.build


# --- nodes -------------------------------------------------------------------------------------------


def note(name: str, **more: Any) -> Any:
    async def node(_: Any) -> Any:
        return {"log": [name], **more}

    return node


def ask(question: Any, **terms: Any) -> Any:
    async def node(_: Any) -> Any:
        return {"log": [interrupt(question, **terms)]}

    return node


def slow(world: World) -> Any:
    """Takes two seconds, and emits a value."""

    def node(state: Any, ctx: GraphContext) -> Any:
        world.clock.advance(2)
        ctx.emit({"left": ctx.remaining_steps, "step": ctx.step, "for": ctx.context})
        return {"log": ["slow"], "total": 1}

    return node


def fails(world: World, times: int) -> Any:
    """Fails a number of times."""

    def node(_: Any) -> Any:
        if (number := next(world.tries)) <= times:
            raise OSError(f"down {number}")
        return {"log": ["up"]}

    return node


def line(**nodes: Any) -> GraphBuilder[State]:
    """Nodes one after the other."""
    builder = GraphBuilder(State).set_entry(next(iter(nodes)))
    for name, node in nodes.items():
        builder.add_node(name, node)
    for one, other in zip(nodes, [*nodes][1:], strict=False):
        builder.add_edge(one, other)
    return builder


def every_key(_: World) -> Any:
    first = note(
        "a", total=2, tags={"x"}, facts={"k": [1]}, now=["a"], secret=object(), last="a", output="whole"
    )
    second = note("b", total=3, tags={"y"}, facts={"k": [1, 2], "m": None}, last="b")
    third = note("c", now=["c"], facts=Overwrite({"z": 0}), log=Overwrite(["anew"]))
    return line(a=first, b=second, c=third)


def fan(_: World) -> Any:
    builder = GraphBuilder(State).add_node("a", note("a")).add_node("b", note("b")).add_node("c", note("c"))
    builder.add_node("work", lambda task: {"log": [f"work {task['n']}"], "total": task["n"]}, blocking=False)
    builder.add_node("both", note("both")).add_node("last", note("last"), defer=True)
    builder.add_edge(START, "a").add_edge(START, "b").add_edge("b", "c").add_edge("a", "last")
    builder.add_conditional_edges("a", lambda _: [Send("work", {"n": n}) for n in (1, 2)], ["work"])
    return builder.add_edge(["a", "c"], "both")


def asking(world: World) -> Any:
    builder = (
        GraphBuilder(State).add_node("one", ask("first?")).add_node("two", ask("second?", name="the-two"))
    )
    builder.add_node("quick", note("quick")).add_node("end", note("end"))
    builder.add_edge(START, "one").add_edge(START, "two").add_edge(START, "quick")
    return builder.add_edge(["one", "two", "quick"], "end")


class Size(BaseModel):
    n: int


def typed(_: World) -> Any:
    def node(_: Any) -> Any:
        size = interrupt("how many?", expects=Size, timeout=60.0, default={"n": 7})
        return {"total": size.n, "last": type(size).__name__}

    return line(node=node)


def three_times(_: World) -> Any:
    return line(asks=lambda _: {"log": [interrupt(f"q{n}") for n in range(3)]}, end=note("end"))


class Inner(TypedDict, total=False):
    log: Annotated[list[Any], Append]
    last: str
    own: Annotated[list[int], Append]
    total: Annotated[int, Add]


def nested(keep: bool, *, deep: bool = False) -> Callable[[World], Any]:
    def build(_: World) -> Any:
        inner = GraphBuilder(Inner).add_node("x", lambda state: {"log": ["x"], "own": [1], "total": 1})
        inner.add_node("ask", lambda state: {"log": [interrupt("inside?")], "last": f"{len(state['own'])}"})
        inner.set_entry("x").add_edge("x", "ask")
        if deep:
            middle = (
                GraphBuilder(Inner).add_node("in/ner", inner.build(), keep_state=keep).set_entry("in/ner")
            )
            inner = middle.add_node("y", note("y")).add_edge("in/ner", "y")
        builder = GraphBuilder(State)
        builder.add_node("before", note("before")).add_node("sub", inner.build(), keep_state=keep)
        builder.add_node("after", note("after")).set_entry("before").add_edge("before", "sub")
        return builder.add_edge("sub", "after")

    return build


def upwards(_: World) -> Any:
    def leave(_: Any) -> Any:
        return [{"log": ["leaving"], "own": [5]}, StateUpdate({"last": "told"}, goto="there", up=1)]

    inner = (
        GraphBuilder(Inner).add_node("x", note("x")).add_node("leave", leave).add_node("never", note("no"))
    )
    inner.set_entry("x").add_edge("x", "leave").add_edge("leave", "never")
    builder = GraphBuilder(State).add_node("sub", inner.build(), goto=["there"], keep_state=True)
    return builder.add_node("there", note("there")).set_entry("sub")


def failing(world: World) -> Any:
    builder = GraphBuilder(State).add_node("good", lambda _: {"log": ["good"]}, blocking=False)
    builder.add_node("bad", fails(world, 1), blocking=False)
    builder.add_edge(START, "good").add_edge(START, "bad").add_node("end", note("end"))
    return builder.add_edge(["good", "bad"], "end")


def tried_again(world: World) -> Any:
    retry = [
        RetryPolicy(attempts=3, on=OSError, backoff=0.5, jitter=0.0),
        RetryPolicy(attempts=2, on=ValueError, backoff=9.0),
    ]
    return GraphBuilder(State).add_node("bad", fails(world, 2), retry=retry).set_entry("bad")


def stood_in(world: World) -> Any:
    def instead(state: Any, error: Any) -> Any:
        return {"log": [f"{type(error).__name__}: {error}"]}

    return GraphBuilder(State).add_node("bad", fails(world, 9), on_error=instead).set_entry("bad")


def loop(_: World) -> Any:
    builder = GraphBuilder(State).add_node("a", note("a")).add_node("b", lambda _: None)
    return builder.set_entry("a").add_edge("a", "b").add_edge("b", "a")


def turning(_: World) -> Any:
    builder = GraphBuilder(State).add_node("a", lambda _: {"last": "same"}).add_node("b", lambda _: None)
    return builder.set_entry("a").add_edge("a", "b").add_edge("b", "a")


def stepping(_: World) -> Any:
    return line(a=note("a"), b=note("b"), c=note("c"))


def choosing(_: World) -> Any:
    builder = line(a=note("a"))
    builder.add_node("b", note("b")).add_node(
        "c", lambda _: StateUpdate({"log": ["c"]}, goto=["b", Send("d", 5)])
    )
    builder.add_node("d", lambda task: {"total": task})
    return builder.add_conditional_edges(
        "a", lambda state: state.get("last"), {"x": "b", "y": "c", "z": "d", "e": END}
    )


class First(TypedDict, total=False):
    log: Annotated[list[Any], Append]
    count: int


class Second(TypedDict, total=False):
    log: Annotated[list[Any], Append]
    total: int
    era: str


def old_program(_: World) -> Any:
    inner = GraphBuilder(First).add_node("ask", ask("inside?")).set_entry("ask")
    builder = GraphBuilder(First).add_node("a", note("a", count=1)).add_node("b", ask("?"))
    builder.add_node("sub", inner.build()).add_node("c", note("c")).add_node("d", note("d"))
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge("a", "sub")
    return builder.add_edge(["b", "c", "sub"], "d")


def new_program(_: World) -> Any:
    def migrate(state: Any) -> Any:
        return {"log": state["log"], "total": state.get("count", 0) + 10, "era": "new"}

    inner = GraphBuilder(Second, migrations={2: Migration(migrate, rename={"ask": "asks"})})
    inner.add_node("asks", ask("inside?")).set_entry("asks")
    renamed = Migration(migrate, rename={"b": "c", "c": "b", "sub": "below"})
    builder = GraphBuilder(Second, migrations={2: renamed})
    builder.add_node("a", note("a")).add_node("c", ask("?")).add_node("below", inner.build())
    builder.add_node("b", note("b")).add_node("d", note("d")).add_edge(START, "a")
    builder.add_edge("a", "b").add_edge("a", "c").add_edge("a", "below")
    return builder.add_edge(["b", "c", "below"], "d")


def lacking(_: World) -> Any:
    """A program that has neither the nodes nor the join of `old_program`."""
    builder = GraphBuilder(First).add_node("a", note("a")).add_node("z", note("z"))
    return builder.set_entry("a").add_edge("a", "z")


def big(_: World) -> Any:
    """Writes enough for a new base."""

    def grow(state: Any) -> Any:
        return {"last": "x" * 30_000, "log": ["g"], "total": 1}

    builder = GraphBuilder(State).add_node("grow", grow).add_node("ask", ask("?")).set_entry("grow")
    builder.add_conditional_edges("grow", lambda s: "grow" if s["total"] < 12 else "ask", ["grow", "ask"])
    return builder


# --- agents ------------------------------------------------------------------------------------------


@tool(approval=True, effect="once")
async def pay(euros: int) -> str:
    """Pay."""
    return f"{euros} paid"


def scripted(world: World, name: str, *replies: Any) -> Any:
    """A model that answers from a list; each call takes a second."""
    left = world.once(name, lambda: iter(replies))

    def answer(_: LlmRequest) -> Any:
        world.clock.advance(1)
        reply = next(left)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return FunctionLlm(answer, model="m")


BOOM = call("boom", {"why": "rain"}, id="c0")
ADD = call("add", {"a": 1, "b": 2}, id="c1")
PAY = call("pay", {"euros": 5}, id="c2")


def with_agent(world: World) -> Any:
    llm = scripted(world, "m", say(ADD, content="I add"), say(PAY), "all done", say(PAY), "paid twice")
    builder = GraphBuilder(State).add_node("agent", Agent(llm, tools=[add, pay]), task=lambda _: "pay it")
    return builder.add_node("end", note("end")).set_entry("agent").add_edge("agent", "end")


def agent_that_fails(world: World) -> Any:
    llm = scripted(world, "m", say(ADD), say(call("boom", id="c2")), say(call("boom", id="c3")), "fine")
    node = ReActAgentNode(llm=llm, tools=[add, boom], prompt="be quick")
    builder: Any = GraphBuilder()
    return builder.add_node("agent", node).set_entry("agent")


def agent_that_goes_on(world: World) -> Any:
    """Errors that did not end the run are part of the record."""
    replies = [LlmTransportError("busy", retryable=True), say(BOOM), say(ADD), KeyError("odd"), "fine"]
    policy = Recovery({LlmTransportError: Retry(), ToolFailedError: Reprompt(OnceWithToolCatalog())})
    agent = Agent(
        scripted(world, "m", *replies), tools=[add, boom], policy=policy, instructions=lambda _: "be quick"
    )
    return GraphBuilder(State).add_node("output", agent, task=lambda _: "add").set_entry("output")


class Talk(TypedDict, total=False):
    messages: Annotated[list[Message], Append]
    question: str


def talking(world: World) -> Any:
    """The task of an agent is a message, a key, or the payload of a Send."""
    agent = Agent(scripted(world, "m", "one", "two", "three", "four"), instructions="be quick")
    builder = GraphBuilder(Talk).add_node("message", agent).add_node("key", agent).add_node("sent", agent)
    builder.set_entry("message").add_node("ask", lambda _: {"question": "and now?"})
    builder.add_edge("message", "ask").add_edge("ask", "key")
    builder.add_conditional_edges("key", lambda _: [Send("sent", "a text")], ["sent"])
    return builder.add_node("none", agent).add_conditional_edges(
        "sent", lambda _: [Send("none", {})], ["none"]
    )


def two_agents(world: World) -> Any:
    one = Agent(scripted(world, "one", say(ADD), "three"), tools=[add], name="one")
    other = Agent(scripted(world, "other", say(PAY), "paid"), tools=[pay], name="other")
    builder = GraphBuilder(State).add_node("output", one, task=lambda _: "add")
    builder.add_node("last", other, task=lambda _: "pay").add_edge(START, "output").add_edge(START, "last")
    return builder.add_node("end", note("end")).add_edge(["output", "last"], "end")


def stepwise(world: World) -> Any:
    llm = scripted(world, "m", say(ADD, content="I add"), say(PAY, content="now pay"), "all done", "again")
    return lambda **options: react_graph(llm=llm, tools=[add, pay], prompt="be exact", stream=True, **options)


KINDS: dict[str, Kind] = {
    "every-kind-of-key": Kind(every_key, [invoke({"log": ["in"], "total": 1}), invoke({"log": ["more"]})]),
    "time-and-context": Kind(
        lambda world: line(a=slow(world), b=slow(world)),
        [invoke({}, context="ann", max_duration=9.0), invoke({}, max_duration=3.0)],
    ),
    "side-by-side": Kind(fan, [invoke({"log": []}, max_concurrency=2)]),
    "two-questions": Kind(
        asking,
        [
            invoke({}),
            resume(),
            resume("x"),
            resume(lambda asked: {asked[1].id: "2"}, by="ann"),
            resume("1"),
            resume("3"),
            resume(checkpoint_id="1"),
            resume(lambda asked: {one.id: one.value for one in asked}),
        ],
    ),
    "a-question-that-expects-a-type": Kind(
        typed, [invoke({}), resume({"n": "x"}), resume(), resume({"n": 3}, by="bob")]
    ),
    "a-question-that-is-over": Kind(typed, [invoke({}), later(59.0), resume(), later(1.0), resume()]),
    "one-node-asks-often": Kind(
        three_times, [invoke({}), resume("a"), resume("b"), state("2"), resume("c"), resume()]
    ),
    "a-graph-inside": Kind(nested(False), [invoke({}), resume("yes"), invoke({"total": 5}), resume("no")]),
    "a-graph-inside-that-keeps-its-state": Kind(
        nested(True), [invoke({}), resume("yes"), invoke({}), resume("no")]
    ),
    "a-graph-inside-a-graph": Kind(
        nested(True, deep=True), [invoke({}), resume("yes", by="ann"), invoke({}), SHORT, resume("no")]
    ),
    "an-update-for-the-graph-outside": Kind(upwards, [invoke({})]),
    "a-node-that-fails": Kind(failing, [invoke({}), LOOK, SHORT, LOOK, invoke({}), resume()]),
    "a-node-that-is-tried-again": Kind(tried_again, [invoke({})]),
    "a-node-that-is-stood-in-for": Kind(stood_in, [invoke({})]),
    "limits": Kind(
        loop,
        [
            invoke({}, max_steps=3),
            resume(max_visits=2),
            resume(max_visits=3, max_steps=5),
            invoke({}, thread_id="other", max_visits=1),
        ],
    ),
    "a-cycle": Kind(turning, [invoke({}), resume(cycle_window=2, max_steps=12)]),
    "stops": Kind(
        stepping,
        [
            invoke({}, interrupt_before=["b"]),
            resume(interrupt_after=["b"]),
            update({"log": ["by hand"]}),
            resume(),
            invoke({}, interrupt_before=["a"], restart=True),
        ],
    ),
    "going-back": Kind(
        stepping,
        [
            invoke({}),
            resume(checkpoint_id="4"),
            resume(checkpoint_id="2"),
            update({"log": ["other"]}, "a", checkpoint_id="2"),
            resume(),
            resume(checkpoint_id="99"),
            fork("3"),
            SHORT,
            invoke({"log": ["more"]}),
        ],
    ),
    "routes": Kind(
        choosing,
        [
            invoke({"last": "x"}),
            invoke({"last": "y"}),
            invoke({"last": "e"}),
            invoke({"last": "w"}),
            update(StateUpdate({"last": "x"}, goto="d"), None),
            update({}, "nobody"),
            update({"z": 1}),
        ],
    ),
    "another-program": Kind(
        {"old": old_program, "new": new_program, "lacking": lacking},
        [
            invoke({"log": ["in"]}),
            deploy("lacking"),
            resume(),
            deploy("new"),
            state("2"),
            resume(lambda asked: {asked[0].id: "yes"}, by="ann"),
            deploy("old"),
            resume("no"),
            deploy("new"),
            resume("no"),
        ],
    ),
    "a-whole-state-again": Kind(big, [invoke({}), resume("yes", by="ann")]),
    "an-agent": Kind(
        with_agent,
        [
            invoke({}),
            resume("odd"),
            resume(ApproveWith({"euros": 4})),
            resume(checkpoint_id="1"),
            resume(Approve()),
        ],
    ),
    "an-agent-that-fails": Kind(agent_that_fails, [invoke({"input": "add"}), resume(), resume()]),
    "an-agent-that-goes-on": Kind(agent_that_goes_on, [invoke({}), resume()]),
    "agents-that-talk": Kind(talking, [invoke({"messages": [Message(Role.USER, "hello")]})]),
    "agents-side-by-side": Kind(two_agents, [invoke({}, budget=Budget(tokens=1000)), resume(Refuse("no"))]),
    "the-loop-as-a-graph": Kind(
        stepwise, [invoke("1 + 2"), resume(Approve()), invoke("and now?"), state("3"), resume()]
    ),
    "the-loop-in-stops": Kind(
        stepwise,
        [
            invoke("1 + 2", interrupt_before=["tools"]),
            resume(),
            resume(lambda asked: {one["token"]: True for one in asked[0].value["calls"]}),
        ],
    ),
}


# --- running -----------------------------------------------------------------------------------------


class Watching(Observer):
    """Records every call of the observer as a line."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    @override
    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        return lambda *args: self._lines.append(f"  {name}{shown([*map(_keys, args)])}")


def _keys(value: Any) -> Any:
    """The keys of a state or an update; the stream has the values."""
    return sorted(value) if isinstance(value, Mapping) else value


async def run(kind: Kind, *, is_kept: bool) -> list[str]:
    """The lines of the calls and of the final threads; with one graph, or a new one for each call."""
    world, shows = World(), list[str]()
    program = next(iter(kind.build)) if isinstance(kind.build, Mapping) else ""

    def made() -> Graph[Any]:
        build = kind.program(program)(world)
        build = build.build if isinstance(build, GraphBuilder) else build
        return build(checkpointer=world.store, clock=world.clock, new_id=lambda: f"id{next(world.ids)}")

    graph = made()
    for do in kind.calls:
        program = do.program or program
        graph = graph if is_kept and not do.program else made()
        shows.append(" ".join([do.method, do.program, *map(shown, do.args), shown(do.options)]))
        try:
            shows.append(f"= {shown(await called(graph, do, world, shows))}")
        except WesichainError as error:
            world.asked = [*getattr(error, "interrupts", ())] or world.asked
            known = {
                name: getattr(error, name, None) for name in ("node", "thread_id", "interrupts", "state")
            }
            shows += [f"! {shown(error)}", f"! {shown(known)}"]
    for info in sorted(await world.store.threads(), key=lambda one: one.thread_id):
        shows.append(f"thread {shown(info)}")
        for entry in await world.store.read(info.thread_id, since=1):
            body = shown(json.loads(entry.body))
            shows.append(f"{entry.seq} {entry.owner or '-'} {entry.base} {entry.at} {body}")
        shows.append(shown(await graph.get_state(info.thread_id, inner=True)))
        shows += [shown(one) for one in await graph.history(info.thread_id)]
    return shows


async def called(graph: Graph[Any], do: Do, world: World, shows: list[str]) -> Any:
    """Make a call; add the items of its stream to the lines, and return the result."""
    args = [one(world.asked) if callable(one) else one for one in do.args]
    match do.method:
        case "later":
            return world.clock.advance(do.args[0])
        case "deploy":
            return None
        case "compact":
            return await compact(world.store, "t", clock=world.clock)
        case "stream" | "stream_resume":
            given = {**do.options, "options": replace(do.options["options"], observer=Watching(shows))}
            stream = getattr(graph, do.method)(*args, modes=MODES, **given)
            async for item in stream:
                shows.append(f"  {shown(item)}")  # noqa: PERF401  # in their order, whatever is raised then
            return stream.result
        case _:
            return await getattr(graph, do.method)(*args, **do.options)


def shown(value: Any) -> str:
    """Format as JSON, with long texts shortened."""
    if isinstance(value, StreamItem):
        where = "" if value.mode == "events" else f"{value.node or '-'} {value.subgraph or '-'} "
        is_asked = isinstance(value.data, GraphInterrupt) and value.mode != "events"
        return f"{value.mode} {where}{value.data.id if is_asked else shown(value.data)}"
    return json.dumps(plain(value), ensure_ascii=False)


def plain(value: Any) -> Any:
    match value:
        case str() if len(value) > 2000:
            return f"{value[:20]}... ({len(value)})"
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(name): "..." if name == "ms" else plain(value[name]) for name in sorted(value)}
        case set() | frozenset():
            return {"set": sorted(map(plain, value), key=repr)}
        case Sequence():
            return [plain(one) for one in value]
        case BaseException():
            return f"{type(value).__name__}: {value}"
        case ToolSpec():
            return value.name
        case _ if is_dataclass(value):
            return {
                one.name: plain(item)
                for one in fields(value)
                if one.name not in LEFT_OUT.get(type(value), ())
                and (item := getattr(value, one.name)) != one.default
            }
        case _:
            return "..." if callable(value) else type(value).__name__


# Values that differ in each run, and those that the thread contains already.
LEFT_OUT: Mapping[Any, Sequence[str]] = {
    ToolCompleted: ("duration_ms",),
    StepFailed: ("duration_ms",),
    GraphInterrupt: ("memo",),
}


@behaviour(
    *("G04", "G05", "G08", "G11", "G12", "G14", "G26", "G27", "G31", "G32", "G35", "G40", "G41", "G42"),
    *("G60", "G61", "G62", "G64", "G70", "G80", "G81", "G82", "G83", "G84", "G85", "G86", "G92", "G100"),
    *("G101", "G102", "G103", "G112", "G113", "K03", "K14"),
)
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        *(pytest.param(name, True, id=f"{name}-one-graph") for name in KINDS),
        *(pytest.param(name, False, id=f"{name}-a-graph-for-each-call") for name in sampled([*KINDS], 14)),
    ],
)
async def test_a_thread_of_each_kind_is_as_it_was(name: str, is_kept: bool) -> None:
    expected.check(THREADS / f"{name}.txt", await run(KINDS[name], is_kept=is_kept))


def test_no_thread_is_left_over() -> None:
    expected.check_names(THREADS, KINDS)
