"""The record of a node that runs again: the same steps at the same cost, and no repeated call."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from tests.graph.react.test_react import Keep
from wesichain import Agent, Conversation, Message, Middleware, ToolContext, tool
from wesichain.core import LlmRequest, LlmResponse, Role, RunCompleted, ToolCall, ToolCallingLlm, Usage
from wesichain.errors import GraphError, LlmTransportError, ModelTransportError
from wesichain.graph import ExecutionOptions, GraphBuilder, MemoryCheckpointer
from wesichain.graph import RetryPolicy as NodeRetry
from wesichain.policy import Budget, FailFast, Recovery, Retry
from wesichain.testing import FunctionLlm


class World:
    """A bank, a provider that is down at first, an odd tool that fails once, and a flaky one that may too."""

    def __init__(self, flaky_fails: int) -> None:
        self.flaky_fails = flaky_fails
        self.asks = 0
        self.paid: list[int] = []
        self.odd = 0

    def tools(self) -> list[Any]:
        @tool(effect="once")
        def pay(amount: int) -> str:
            """Pay an amount."""
            self.paid.append(amount)
            return "paid"

        @tool
        def odd(text: str) -> str:
            """Fails the first time."""
            self.odd += 1
            if self.odd == 1:
                raise ValueError("odd")
            return text

        @tool
        def flaky(text: str) -> str:
            """Fails a number of times."""
            if self.flaky_fails:
                self.flaky_fails -= 1
                raise ConnectionError("down")
            return text

        return [pay, odd, flaky]


class Model(ToolCallingLlm):
    """Calls the tools in sequence, with a new call id each time."""

    def __init__(self, world: World) -> None:
        self.model = "model"
        self._world = world

    @override
    async def complete(self, request: LlmRequest) -> LlmResponse:
        self._world.asks += 1
        if self._world.asks == 1:
            raise LlmTransportError("the provider is down", retryable=True)
        told = sum(message.role is Role.TOOL for message in request.messages)
        used = Usage(100 * self._world.asks, 1)
        if told == 3:
            return LlmResponse("done", usage=used)
        tools: list[tuple[str, Any]] = [
            ("pay", {"amount": 5}),
            ("odd", {"text": "x"}),
            ("flaky", {"text": "y"}),
        ]
        name, args = tools[told]
        return LlmResponse("", (ToolCall(f"{name}-{self._world.asks}", name, args),), usage=used)


class Twice(Middleware):
    """Calls the model twice, and returns the second reply."""

    @override
    async def wrap_model(self, ctx: Any, request: LlmRequest, call_next: Any) -> LlmResponse:
        await call_next(request)
        second: LlmResponse = await call_next(request)
        return second


def graph_of(world: World, store: Any, *, middleware: bool, retry: Any = (), steps: int = 12) -> Any:
    agent: Agent[Any] = Agent(
        Model(world),
        tools=world.tools(),
        middleware=[Twice()] if middleware else [],
        policy=Recovery({ModelTransportError: Retry(), ValueError: Retry()}),
        budget=Budget(steps=steps),
    )
    return GraphBuilder().add_node("work", agent, retry=retry).set_entry("work").build(store)


def ended(sink: Keep) -> tuple[int, Usage]:
    (event,) = [one for one in sink.events if isinstance(one, RunCompleted) and one.scope == "work"]
    return event.step_id, event.usage


async def whole(*, middleware: bool) -> tuple[World, tuple[int, Usage]]:
    world, sink = World(0), Keep()
    options = ExecutionOptions(thread_id="t", events=sink)
    await graph_of(world, MemoryCheckpointer(), middleware=middleware).invoke({"input": "q"}, options)
    return world, ended(sink)


@pytest.mark.parametrize("middleware", [False, True], ids=["plain", "asked-twice"])
@pytest.mark.parametrize("fails", [1, 2])
async def test_a_run_that_is_done_again_takes_the_same_way_at_the_same_price(
    fails: int, middleware: bool
) -> None:
    """The run recovered from the errors of the provider and the odd tool; that of the flaky tool ended it."""
    expected, end = await whole(middleware=middleware)
    world, sink, store = World(fails), Keep(), MemoryCheckpointer()
    options = ExecutionOptions(thread_id="t", events=sink)
    with pytest.raises(GraphError, match="down"):
        await graph_of(world, store, middleware=middleware).invoke({"input": "q"}, options)
    for _ in range(fails - 1):
        with pytest.raises(GraphError, match="down"):
            await graph_of(world, store, middleware=middleware).resume("t", options=options)
    done = await graph_of(world, store, middleware=middleware).resume("t", options=options)
    assert done["output"] == "done"
    assert world.paid == [5]
    assert (world.asks, world.odd) == (expected.asks, expected.odd), "nothing was asked or done again"
    assert ended(sink) == end


@pytest.mark.parametrize("middleware", [False, True], ids=["plain", "asked-twice"])
async def test_a_node_that_is_tried_again_does_so_too(middleware: bool) -> None:
    expected, end = await whole(middleware=middleware)
    world, sink = World(2), Keep()
    retry = NodeRetry(attempts=3, on=GraphError, backoff=0.0)
    graph = graph_of(world, None, middleware=middleware, retry=retry)
    await graph.invoke({"input": "q"}, ExecutionOptions(events=sink))
    assert (world.paid, world.asks, world.odd) == ([5], expected.asks, expected.odd)
    assert ended(sink) == end


async def test_the_calls_of_a_middleware_count_against_the_budget_after_a_resume() -> None:
    _, (last_step, _) = await whole(middleware=True)
    world, store = World(1), MemoryCheckpointer()
    options = ExecutionOptions(thread_id="t")
    with pytest.raises(GraphError, match="down"):
        await graph_of(world, store, middleware=True, steps=last_step).invoke({"input": "q"}, options)
    tight = graph_of(world, store, middleware=True, steps=last_step - 1)
    with pytest.raises(GraphError, match=r"budget|steps"):
        await tight.resume("t", options=options)
    assert world.paid == [5]


async def test_a_run_that_was_handed_over_goes_on_as_the_other_agent() -> None:
    """The other agent has its recorded instructions; their function is not called again."""
    world, store, said = World(1), MemoryCheckpointer(), [0]
    world.asks = 1  # the provider is up

    def instructions() -> str:
        said[0] += 1
        return f"version {said[0]}"

    def make() -> Any:
        asked: list[LlmRequest] = []

        def greet(request: LlmRequest) -> LlmResponse:
            asked.append(request)
            return LlmResponse("", (ToolCall("over", "transfer_to_clerk", {}),))

        clerk: Agent[Any] = Agent(
            Model(world),
            tools=world.tools(),
            name="clerk",
            instructions=instructions,
            policy=Recovery({ValueError: Retry()}),
        )
        desk: Agent[Any] = Agent(FunctionLlm(greet), name="desk", handoffs=[clerk])
        return GraphBuilder().add_node("work", desk).set_entry("work").build(store), asked

    graph, asked = make()
    with pytest.raises(GraphError, match="down"):
        await graph.invoke({"input": "q"}, ExecutionOptions(thread_id="t"))
    assert (len(asked), said[0]) == (1, 1)
    graph, asked = make()
    assert (await graph.resume("t"))["output"] == "done"
    assert (asked, said[0], world.odd) == ([], 1, 2)


async def test_a_run_inside_a_call_goes_on_with_the_history_that_it_began_with() -> None:
    talk, store, histories = Conversation(), MemoryCheckpointer(), list[list[str]]()

    def inner_reply(request: LlmRequest) -> Any:
        histories.append([message.text for message in request.messages if message.role is Role.USER])
        if request.messages[-1].role is Role.USER:
            return ToolCall("look-1", "look", {})
        if len(histories) == 2:
            raise LlmTransportError("the provider is down")
        return "it is so"

    @tool(effect="pure")
    def look() -> str:
        """Look."""
        return "seen"

    inner = Agent(FunctionLlm(inner_reply), name="inner", tools=[look])

    @tool(effect="idempotent")
    async def research(ctx: ToolContext) -> str:
        """Research."""
        return (await inner.run("is it?", conversation=talk, parent=ctx)).output

    def reply(request: LlmRequest) -> Any:
        return request.messages[-1].text if len(request.messages) > 1 else ToolCall("c", "research", {})

    agent = Agent(FunctionLlm(reply), tools=[research], policy=FailFast())
    graph = GraphBuilder().add_node("work", agent).set_entry("work").build(store)
    talk.add(Message(Role.USER, "hello"), Message(Role.ASSISTANT, "hi"))
    with pytest.raises(GraphError, match="down"):
        await graph.invoke({"input": "go"}, ExecutionOptions(thread_id="t"))
    talk.add(Message(Role.USER, "by the way"), Message(Role.ASSISTANT, "yes"))
    assert (await graph.resume("t"))["output"] == "it is so"
    assert histories == [["hello", "is it?"]] * 3
    assert [message.text for message in talk.messages].count("is it?") == 1
