"""Running: super-steps, branches, joins, limits, failures, timeouts, cancellation."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any, TypedDict

import pytest

from tests.graph.behaviours import behaviour
from tests.virtual_time import in_virtual_time
from tests.waiting import PATIENCE, until
from wesichain.errors import (
    CycleDetectedError,
    GraphError,
    GraphTimeoutError,
    LlmTransportError,
    MaxStepsExceededError,
    MaxVisitsExceededError,
    NodeFailedError,
)
from wesichain.graph import (
    END,
    Append,
    ExecutionOptions,
    GraphBuilder,
    GraphContext,
    MemoryCheckpointer,
    PerStep,
    RetryPolicy,
    Send,
    StateUpdate,
)


class Log(TypedDict, total=False):
    log: Annotated[list[str], Append]
    n: int
    x: Any


def note(name: str) -> Any:
    return lambda _: {"log": [name]}


def note_on_the_loop(name: str) -> Any:
    """In virtual time, no thread may be needed while a timer is set."""

    async def call(_: Any) -> Any:
        return {"log": [name]}

    return call


def build(*edges: str, entry: str | None = None, **nodes: Any) -> GraphBuilder[Log]:
    """A graph of nodes that add their names to the log: `a>b` is an edge, `a+b>c` a join."""
    builder = GraphBuilder(Log)
    names = dict.fromkeys(name for edge in edges for part in edge.split(">") for name in part.split("+"))
    for name in {**names, **nodes}:
        builder.add_node(name, nodes.get(name) or note(name))
    for edge in edges:
        source, target = edge.split(">")
        sources = source.split("+")
        builder.add_edge(sources if len(sources) > 1 else source, target)
    return builder.set_entry(entry or next(iter({**names, **nodes})))


def log_of(builder: GraphBuilder[Log], given: Any = None) -> list[str]:
    return builder.build().invoke_sync(given or {})["log"]


# --- super-steps -----------------------------------------------------------------------------------


@behaviour("G20")
async def test_siblings_run_at_the_same_time() -> None:
    together = asyncio.Barrier(5)

    async def wait(_: Log) -> None:
        await together.wait()

    nodes: dict[str, Any] = dict.fromkeys("bcdef", wait)
    graph = build("a>b", "a>c", "a>d", "a>e", "a>f", a=note("a"), **nodes).build()
    async with asyncio.timeout(PATIENCE):
        await graph.invoke({})


@behaviour("G26")
@pytest.mark.parametrize(
    ("answer", "targets", "expected"),
    [
        pytest.param("b", None, ["a", "b"], id="a-name"),
        pytest.param(["b", "c"], None, ["a", "b", "c"], id="several-names"),
        pytest.param(["c", "b", "c"], None, ["a", "b", "c"], id="names-in-any-order-each-once"),
        pytest.param(END, None, ["a"], id="END"),
        pytest.param([], None, ["a"], id="nothing"),
        pytest.param("left", {"left": "b", "right": "c"}, ["a", "b"], id="a-label-of-a-table"),
        pytest.param(True, {True: "b", False: "c"}, ["a", "b"], id="a-truth-of-a-table"),
        pytest.param(["right", "left"], {"left": "b", "right": "c"}, ["a", "b", "c"], id="several-labels"),
        pytest.param("b", ["b", "c"], ["a", "b"], id="a-name-of-a-list"),
        pytest.param("stop", {"stop": END, "b": "b", "c": "c"}, ["a"], id="a-label-for-END"),
    ],
)
def test_a_router_may_return(answer: Any, targets: Any, expected: list[str]) -> None:
    builder = build(a=note("a"), b=note("b"), c=note("c")).add_conditional_edges(
        "a", lambda _: answer, targets
    )
    if targets is not None:
        builder.add_conditional_edges("a", lambda _: [], ["b", "c"])
    assert log_of(builder) == expected


async def test_a_router_may_be_async_and_take_a_context() -> None:
    async def choose(state: Log, ctx: GraphContext) -> str:
        await asyncio.sleep(0)
        return "b" if ctx.node == "a" else END

    graph = build(a=note("a"), b=note("b")).add_conditional_edges("a", choose, ["b", END]).build()
    assert (await graph.invoke({}))["log"] == ["a", "b"]


def test_a_node_that_goes_nowhere_it_can_says_so() -> None:
    with pytest.raises(GraphError, match="node 'a' leads to 'nowhere', which is not a node"):
        log_of(build(a=lambda _: StateUpdate(goto="nowhere")))
    assert build(a=lambda _: StateUpdate({"log": ["a"]}, goto=END)).build().invoke_sync({})["log"] == ["a"]


# --- limits ----------------------------------------------------------------------------------------


def test_a_run_that_ends_at_its_limit_is_fine() -> None:
    builder = build("a>b", "b>c")
    assert builder.build().invoke_sync({}, ExecutionOptions(max_steps=3))["log"] == ["a", "b", "c"]


class Loop(TypedDict, total=False):
    n: int
    flag: bool
    log: Annotated[list[int], Append]
    now: Annotated[list[int], Append, PerStep]


def loop(step: Any, **options: Any) -> int:
    """Return how often a node that makes this change runs before the run ends."""
    visits: list[int] = []

    def node(state: Loop) -> Any:
        visits.append(1)
        return step(state, len(visits))

    builder = GraphBuilder(Loop).add_node("a", node).add_edge("a", "a").set_entry("a")
    with pytest.raises((CycleDetectedError, MaxStepsExceededError)) as caught:
        builder.build().invoke_sync({"n": 0}, ExecutionOptions(**{"max_steps": 60, **options}))
    return len(visits) if isinstance(caught.value, CycleDetectedError) else -1


@pytest.mark.parametrize(
    ("step", "options", "expected"),
    [
        pytest.param(lambda s, i: None, {}, 2, id="nothing-changes"),
        pytest.param(lambda s, i: {"n": 0}, {}, 2, id="the-same-is-written"),
        pytest.param(lambda s, i: {"n": 1}, {}, 3, id="it-settles"),
        pytest.param(lambda s, i: {"flag": i % 2 == 0}, {}, 5, id="it-toggles"),
        pytest.param(lambda s, i: {"n": i % 9}, {}, 18, id="it-comes-back-after-nine"),
        pytest.param(lambda s, i: {"n": i % 11}, {}, -1, id="it-comes-back-after-more-than-the-window"),
        pytest.param(lambda s, i: {"n": i % 11}, {"cycle_window": 40}, 22, id="a-larger-window-sees-it"),
        pytest.param(lambda s, i: {"n": i}, {}, -1, id="a-counter-is-no-cycle"),
        pytest.param(lambda s, i: {"log": [0]}, {}, -1, id="a-list-that-grows-is-no-cycle"),
        pytest.param(lambda s, i: {"n": -1 - i % 2}, {}, 5, id="minus-one-and-minus-two-differ"),
        pytest.param(lambda s, i: {"n": (True, 1, 1.0)[i % 3]}, {}, 7, id="true-and-one-differ"),
        pytest.param(lambda s, i: {"now": [i]} if i < 3 else {}, {}, 4, id="what-lasts-a-step-is-gone-then"),
        pytest.param(lambda s, i: None, {"cycle_detection": False}, -1, id="switched-off"),
    ],
)
def test_a_cycle_is_the_third_time_that_a_node_sees_the_same_state(
    step: Any, options: Any, expected: int
) -> None:
    assert loop(step, **options) == expected


def test_three_equal_tasks_of_one_super_step_are_no_cycle() -> None:
    builder = build(a=note("a"), work=lambda s: {"log": ["w"]})
    builder.add_conditional_edges("a", lambda _: [Send("work", 1)] * 5, ["work", "a"])
    assert log_of(builder) == ["a", "w", "w", "w", "w", "w"]


# --- failures --------------------------------------------------------------------------------------


def boom(_: Any) -> None:
    raise ValueError("boom")


@pytest.mark.parametrize(
    ("node", "message"),
    [
        pytest.param(boom, "node 'a': raised ValueError: boom", id="it-raises"),
        pytest.param(lambda _: 5, "node 'a': it returned int, which is not an update", id="it-returns-a-number"),
        pytest.param(lambda _: "x", "node 'a': it returned str", id="it-returns-a-text"),
        pytest.param(lambda _: False, "node 'a': it returned bool", id="it-returns-false"),
        pytest.param(lambda _: [{"n": 1}, 3], "node 'a': it returned int", id="one-of-its-updates-is-none"),
        pytest.param(lambda _: {"nn": 1}, "node 'a': it wrote the key 'nn', which Log does not have; its keys: log, n, x", id="unknown-key"),
        pytest.param(lambda _: {1: 1}, "node 'a': it wrote the key 1", id="a-key-that-is-not-text"),
        pytest.param(lambda _: Send("a", 1), "return StateUpdate", id="it-returns-a-Send"),
        pytest.param(lambda _: StateUpdate(up=1), "this graph has no outer graph", id="it-addresses-a-graph-that-is-not-there"),
        pytest.param(lambda _: StateUpdate(5), "it returned int", id="a-StateUpdate-of-a-number"),
    ],
)  # fmt: skip
def test_a_node_that_does_wrong_is_named(node: Any, message: str) -> None:
    with pytest.raises(NodeFailedError, match=message) as caught:
        build(a=node).build().invoke_sync({"n": 1})
    assert caught.value.node == "a"
    assert caught.value.state == {"n": 1, "log": []}
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("router", "targets", "message"),
    [
        pytest.param(boom, ["b"], "the router after 'a' raised ValueError: boom", id="it-raises"),
        pytest.param(lambda _: "x", None, "node 'a' leads to 'x', which is not a node; the nodes: 'a', 'b'", id="unknown"),
        pytest.param(lambda _: None, None, "node 'a' leads to None", id="it-returns-none"),
        pytest.param(lambda _: Send("x", 1), None, "node 'a' leads to 'x'", id="it-sends-to-nowhere"),
        pytest.param(lambda _: Send(END, 1), None, "node 'a' leads to", id="it-sends-to-END"),
        pytest.param(lambda _: "x", ["b"], "returned 'x', which is none of its targets: 'b'", id="not-a-target"),
        pytest.param(lambda _: {"b": 1}, ["b"], "is none of its targets", id="it-returns-a-dict"),
    ],
)  # fmt: skip
def test_a_router_that_does_wrong_is_named(router: Any, targets: Any, message: str) -> None:
    builder = build("a>b", a=note("a"), b=note("b")).add_conditional_edges("a", router, targets)
    with pytest.raises(GraphError, match=message) as caught:
        builder.build().invoke_sync({"n": 1})
    assert caught.value.node == "a"
    assert caught.value.state == {"n": 1, "log": []}


def test_an_error_of_ours_reaches_the_caller_as_it_is() -> None:
    def fail(_: Any) -> None:
        raise MaxVisitsExceededError("mine", state={"own": 1})

    with pytest.raises(MaxVisitsExceededError, match="mine") as caught:
        build(a=fail).build().invoke_sync({})
    assert (caught.value.node, caught.value.state) == ("a", {"own": 1})


@in_virtual_time
async def test_a_failure_stops_the_siblings_and_leaves_no_task() -> None:
    stopped: list[str] = []

    async def slow(_: Any) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            stopped.append("slow")
            raise

    async def fail(_: Any) -> None:
        await asyncio.sleep(0.01)
        raise ValueError("boom")

    graph = build("a>b", "a>c", a=note("a"), b=slow, c=fail).build()
    with pytest.raises(NodeFailedError, match="node 'c'"):
        await graph.invoke({})
    assert stopped == ["slow"]
    assert len(asyncio.all_tasks()) == 1


# --- retries ---------------------------------------------------------------------------------------


class Flaky:
    """Fails a number of times, each time after changing its state in place."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self, state: Log) -> Any:
        self.calls += 1
        state["log"].append("spoilt")
        if self.errors:
            raise self.errors.pop(0)
        return state


def quick(**options: Any) -> RetryPolicy:
    return RetryPolicy(**{"backoff": 0.001, **options})


@behaviour("G43", "G44", "G45")
@pytest.mark.parametrize(
    ("errors", "retry", "calls", "ends"),
    [
        pytest.param([ConnectionError()], quick(), 2, "well", id="a-lost-connection-is-tried-again"),
        pytest.param([TimeoutError()] * 2, quick(), 3, "well", id="so-is-a-timeout"),
        pytest.param(
            [LlmTransportError("busy", retryable=True)], quick(), 2, "well", id="and-what-is-retryable"
        ),
        pytest.param([LlmTransportError("no")], quick(), 1, "badly", id="and-not-what-is-not"),
        pytest.param([ValueError()], quick(), 1, "badly", id="a-bug-is-not-tried-again"),
        pytest.param([ValueError()], quick(on=ValueError), 2, "well", id="unless-it-is-named"),
        pytest.param([KeyError()], quick(on=(ValueError, KeyError)), 2, "well", id="or-one-of-several"),
        pytest.param([ValueError("x")], quick(on=lambda e: str(e) == "x"), 2, "well", id="or-by-a-predicate"),
        pytest.param([ConnectionError()] * 3, quick(), 3, "badly", id="so-often-and-no-more"),
        pytest.param(
            [ValueError(), KeyError(), KeyError()],
            [quick(on=ValueError, attempts=2), quick(on=KeyError, attempts=4)],
            4,
            "well",
            id="the-first-policy-that-applies",
        ),
    ],
)
async def test_retries(errors: list[BaseException], retry: Any, calls: int, ends: str) -> None:
    node = Flaky(*errors)
    graph = GraphBuilder(Log).add_node("a", node, retry=retry).set_entry("a").build()
    if ends == "well":
        assert (await graph.invoke({"log": ["0"]}))["log"] == ["0", "spoilt"]
    else:
        with pytest.raises(NodeFailedError) as caught:
            await graph.invoke({"log": ["0"]})
        assert caught.value.state["log"] == ["0"]
    assert node.calls == calls


def test_pauses_grow_up_to_a_limit_with_a_little_chance() -> None:
    retry = RetryPolicy(backoff=1.0, factor=3.0, max_pause=20.0, jitter=0.5)
    assert [retry.pause(n, chance=0.0) for n in (1, 2, 3, 4)] == [1.0, 3.0, 9.0, 20.0]
    assert retry.pause(1, chance=1.0) == 1.5


@behaviour("G49")
async def test_an_error_handler_stands_in_for_a_node_that_has_failed_for_good() -> None:
    node = Flaky(ConnectionError(), ConnectionError(), ConnectionError())

    def handle(state: Log, error: BaseException) -> Any:
        assert state["log"] == ["0"]
        return StateUpdate({"log": [type(error).__name__]}, goto="c")

    builder = GraphBuilder(Log).add_node("a", node, retry=quick(), on_error=handle, goto=["c"])
    builder.add_node("b", note("b")).add_node("c", note("c")).add_edge("a", "b").set_entry("a")
    assert (await builder.build().invoke({"log": ["0"]}))["log"] == ["0", "ConnectionError", "b", "c"]
    assert node.calls == 3

    def worse(state: Log, error: BaseException) -> Any:
        raise RuntimeError("worse")

    graph = GraphBuilder(Log).add_node("a", Flaky(ValueError()), on_error=worse).set_entry("a").build()
    with pytest.raises(NodeFailedError, match="RuntimeError: worse"):
        await graph.invoke({})


# --- time ------------------------------------------------------------------------------------------


async def stubborn(_: Any) -> Any:
    """Ignores its cancellation and continues for a long time."""
    for _ in range(15):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            continue
    return {"log": ["too late"]}


async def sleep_long(_: Any) -> None:
    await asyncio.sleep(5)


async def swallow(_: Any) -> Any:
    try:
        await asyncio.sleep(5)
    except BaseException:
        return {"log": ["swallowed"]}


@behaviour("G46")
@pytest.mark.parametrize("node", [stubborn, swallow, sleep_long])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside-another"])
@in_virtual_time
async def test_a_node_cannot_swallow_its_timeout(node: Any, beside: bool) -> None:
    builder = build("a>b", a=note_on_the_loop("a"), b=node)
    if beside:
        builder.add_node("c", note_on_the_loop("c")).add_edge("a", "c")
    with pytest.raises(GraphTimeoutError, match=r"node 'b' did not finish within 0\.5 s") as caught:
        await builder.build().invoke({}, ExecutionOptions(node_timeout=0.5))
    assert asyncio.get_running_loop().time() < 2
    assert caught.value.node == "b"
    assert caught.value.state["log"] == ["a"]


@in_virtual_time
async def test_a_timeout_of_the_nodes_own_is_its_own_failure() -> None:
    async def own(_: Any) -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)

    with pytest.raises(NodeFailedError, match="raised TimeoutError") as caught:
        await build(a=own).build().invoke({}, ExecutionOptions(node_timeout=5))
    assert isinstance(caught.value.__cause__, TimeoutError)


@in_virtual_time
async def test_a_node_may_have_a_timeout_of_its_own() -> None:
    builder = GraphBuilder(Log).add_node("a", sleep_long, timeout=0.03).set_entry("a")
    with pytest.raises(GraphTimeoutError, match=r"within 0.03 s"):
        await builder.build().invoke({}, ExecutionOptions(node_timeout=9))


@pytest.mark.parametrize("where", ["alone", "beside-another", "inside"])
@in_virtual_time
async def test_the_whole_run_has_a_time_too(where: str) -> None:
    builder = build("a>b", a=note_on_the_loop("a"), b=stubborn)
    if where == "beside-another":
        builder.add_node("c", sleep_long).add_edge("a", "c")
    if where == "inside":
        builder = build(c=builder.build())
    with pytest.raises(GraphTimeoutError, match=r"out of time at node '[bc]'"):  # has the earlier time limit
        await builder.build().invoke({}, ExecutionOptions(max_duration=1.0))
    assert asyncio.get_running_loop().time() < 2.5


@pytest.mark.parametrize("blocking", [None, False])
def test_a_run_of_sync_nodes_ends_at_the_next_super_step(blocking: bool | None) -> None:
    builder = GraphBuilder(Log).add_node("a", lambda s: {"n": s["n"] + 1}, blocking=blocking)
    builder.add_edge("a", "a").set_entry("a")
    with pytest.raises(GraphTimeoutError, match=r"max_duration=0.05"):
        builder.build().invoke_sync({"n": 0}, ExecutionOptions(max_duration=0.05, max_steps=10**9))


@pytest.mark.parametrize(
    ("node", "options"),
    [
        pytest.param({"timeout": 0.05}, {}, id="its-own-time"),
        pytest.param({}, {"node_timeout": 0.05}, id="every-node's-time"),
        pytest.param({}, {"max_duration": 0.05}, id="the-run's-time"),
    ],
)
async def test_a_sync_node_that_has_a_time_to_keep_is_held_to_it(
    node: dict[str, Any], options: dict[str, Any]
) -> None:
    release = threading.Event()
    builder = GraphBuilder(Log).add_node("a", lambda _: release.wait(30) and None, **node).set_entry("a")
    with pytest.raises(GraphTimeoutError, match="node 'a'"):
        await builder.build().invoke({}, ExecutionOptions(**options))
    release.set()
    assert (
        await build(a=lambda _: stay({"log": ["b"]})).build().invoke({}, ExecutionOptions(max_duration=9))
    )["log"] == ["b"], "what it returns is awaited where it may be"


async def stay(update: Any) -> Any:
    return update


async def test_quick_nodes_leave_time_for_others() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticker = asyncio.ensure_future(tick())
    builder = build(a=lambda s: {"n": s["n"] + 1})
    builder.add_conditional_edges("a", lambda s: "a" if s["n"] < 300 else END, ["a", END])
    await builder.build().invoke({"n": 0}, ExecutionOptions(max_steps=9999))
    ticker.cancel()
    assert ticks > 3


# --- cancellation ----------------------------------------------------------------------------------


@behaviour("G48")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside-another"])
@pytest.mark.parametrize(
    "node", [lambda _: asyncio.sleep(9), swallow, stubborn], ids=["polite", "swallows", "goes-on"]
)
async def test_cancelling_the_caller_cancels_the_run(node: Any, beside: bool) -> None:
    begun: list[str] = []

    async def hang(state: Any) -> Any:
        begun.append("b")
        return await node(state)

    async def hang_beside(_: Any) -> None:
        begun.append("c")
        await asyncio.sleep(9)

    builder = build("a>b", "b>d", a=note("a"), b=hang)
    if beside:
        builder.add_node("c", hang_beside).add_edge("a", "c")
    task = asyncio.ensure_future(builder.build().invoke({}))
    await until(lambda: len(begun) == 1 + beside)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


@pytest.mark.parametrize("is_inner", [False, True], ids=["outer", "inner"])
async def test_what_finishes_while_the_run_is_cancelled_is_not_run_again(is_inner: bool) -> None:
    """A node in a thread cannot be stopped: the run waits for it, and its result is kept."""
    calls: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def work(_: Any) -> dict[str, Any]:
        calls.append("work")
        begun.set()
        go.wait(PATIENCE)
        return {"done": True}

    builder = GraphBuilder().add_node("work", work, blocking=True).set_entry("work")
    if is_inner:
        builder = GraphBuilder().add_node("inner", builder.build()).set_entry("inner")
    graph = builder.build(MemoryCheckpointer())
    options = ExecutionOptions(thread_id="t")
    task = asyncio.create_task(graph.invoke({}, options))
    await until(begun.is_set)
    task.cancel()
    asyncio.get_running_loop().call_soon(go.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await graph.resume("t"))["done"] is True
    assert calls == ["work"]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside-another"])
async def test_a_cancellation_that_a_node_raises_itself_is_its_failure(beside: bool) -> None:
    async def odd(_: Any) -> None:
        raise asyncio.CancelledError

    def odder(_: Any) -> None:
        raise asyncio.CancelledError

    for node in (odd, odder):
        builder = build("a>b", a=note("a"), b=node)
        if beside:
            builder.add_node("c", lambda _: asyncio.sleep(0.01)).add_edge("a", "c")
        with pytest.raises(NodeFailedError, match=r"node 'b': raised .*CancelledError"):
            await builder.build().invoke({})
