"""The record of an agent in a node, by itself: no call is repeated, and damaged records are errors."""

from __future__ import annotations

from typing import Any, cast

import pytest
from typing_extensions import override

from tests.agent.kit import call, say
from wesichain import Agent, AgentRuntime, LlmRequest, ObserveErrors, ToolContext, tool
from wesichain.agent import Failed, Interrupted, Outcome
from wesichain.core import Image, JsonValue, Role, TextDelta
from wesichain.errors import CheckpointError, GraphError, ModelTransportError, ToolFailedError
from wesichain.graph import GraphBuilder, RetryPolicy
from wesichain.graph.context import TaskRecord
from wesichain.graph.react.recorded import NodeRecording
from wesichain.policy import FailFast, N, PolicyEngine, Recovery, Reprompt, Retry
from wesichain.testing import FunctionLlm, ScriptedLlm, calls
from wesichain.trace import CollectingSink


class Record:
    """The record of a task, in memory."""

    def __init__(self) -> None:
        self.done: dict[str, Any] = {}
        self.once: dict[str, Any] = {}
        self.is_full = False

    def read(self, name: str) -> JsonValue:
        return self.done.get(name)

    def read_once(self, once: str) -> JsonValue:
        return self.once.get(once)

    async def write(self, name: str, data: JsonValue, *, once: str | None = None) -> None:
        if self.is_full:
            raise CheckpointError("somebody else has written to the thread")
        self.done[name] = data
        if once is not None:
            self.once[once] = data


class World:
    """Counts its calls."""

    def __init__(self) -> None:
        self.happened: list[str] = []

    async def reply(self, request: LlmRequest) -> Any:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        self.happened.append(f"ask {turn}")
        return [calls(("look", {"n": 1}), ("break_it", {})), calls(("pay", {"n": 2})), "the end"][turn]

    def runtime(self, policy: PolicyEngine | None = None) -> AgentRuntime[str]:
        @tool(effect="pure")
        async def look(n: int) -> list[Any]:
            """Look."""
            self.happened.append("look")
            return ["seen", Image(b"\x89PNG", media_type="image/png")]

        @tool
        async def break_it() -> str:
            """Break."""
            self.happened.append("break")
            raise ValueError("it broke")

        @tool(effect="once")
        async def pay(n: int, ctx: ToolContext) -> str:
            """Pay."""
            self.happened.append(f"pay {ctx.idempotency_key}")
            return "paid"

        return AgentRuntime(FunctionLlm(self.reply), [look, break_it, pay], policy=policy or ObserveErrors())

    async def run(
        self, record: Record, policy: PolicyEngine | None = None, **options: Any
    ) -> tuple[Outcome[str], NodeRecording]:
        recording = NodeRecording(cast("TaskRecord", record))
        outcome = await self.runtime(policy).run(
            "go", run_id="r", effects=recording.effects, cancellation=recording.cancellation, **options
        )
        return outcome, recording


ALL = ["ask 0", "look", "break", "ask 1", "pay r:2:pay-0", "ask 2"]


async def test_what_was_done_is_not_done_again_and_is_the_same() -> None:
    world, record = World(), Record()
    first, _ = await world.run(record)
    assert world.happened == ALL
    again, _ = await world.run(record)
    assert world.happened == ALL
    assert again.messages == first.messages
    assert (again.text, again.usage) == ("the end", first.usage)  # type: ignore[union-attr]
    assert [type(event) for event in again.events] == [type(event) for event in first.events]


async def test_a_recorded_error_has_the_five_fields_that_0_2_0_reads() -> None:
    class Unreliable(World):
        @override
        async def reply(self, request: LlmRequest) -> Any:
            if not self.happened:
                self.happened.append("disconnect")
                raise ConnectionError("the connection was lost")
            return await super().reply(request)

    policy = Recovery({ModelTransportError: Retry(), ToolFailedError: Reprompt(N(3))})
    world, record = Unreliable(), Record()
    outcome, _ = await world.run(record, policy=policy)
    raised = [done["raised"] for done in record.done.values() if "raised" in done]
    assert outcome.text == "the end"  # type: ignore[union-attr]
    assert [one["error"] for one in raised] == ["ConnectionError", "ToolExecutionError"]
    assert all(one.keys() == {"error", "message", "retryable", "retry_after", "cause"} for one in raised)


async def test_it_goes_on_where_the_record_ends() -> None:
    for cut in range(6):
        world, record = World(), Record()
        await world.run(record)
        names = [*record.done]
        record.done = {name: record.done[name] for name in names[:cut]}
        done, world.happened = len(world.happened), []
        outcome, _ = await world.run(record)
        assert outcome.text == "the end"  # type: ignore[union-attr]
        assert len(world.happened) <= done - cut + 1
        assert not any(line.startswith("pay") for line in world.happened), "what is done once is the thread's"


async def test_what_is_no_reply_is_not_recorded() -> None:
    class Odd(World):
        @override
        def runtime(self, policy: PolicyEngine | None = None) -> AgentRuntime[str]:
            class Model:
                model = "odd"

                async def complete(self, request: LlmRequest) -> Any:
                    return ["no reply"]

            return AgentRuntime(Model(), policy=FailFast())

    record = Record()
    outcome, _ = await Odd().run(record)
    assert isinstance(outcome, Failed)
    assert "the model returned list, not an LlmResponse" in str(outcome.error)
    assert "ask 1 0" not in record.done


async def test_the_text_of_a_recorded_reply_is_streamed_again() -> None:
    world, record, sink = World(), Record(), CollectingSink()
    await world.run(record)
    await world.run(record, stream=True, events=[sink])
    assert "".join(event.text for event in sink.events if isinstance(event, TextDelta)) == "the end"


async def test_a_damaged_record_ends_the_run_whatever_its_policy_makes_of_errors() -> None:
    world, record = World(), Record()
    await world.run(record)
    record.done["ask 1 0"] = 5
    outcome, recording = await world.run(record)
    assert isinstance(outcome, Interrupted)
    assert outcome.reason == "the record of 'ask 1 0' is damaged: 5"
    with pytest.raises(CheckpointError, match="the record of 'ask 1 0' is damaged: 5"):
        recording.check()
    assert world.happened == ALL


async def test_an_intent_alone_is_an_outcome_that_nobody_knows() -> None:
    world, record = World(), Record()
    await world.run(record)
    kept = record.once["r:2:pay-0"]
    for place in (record.done, record.once):
        for name, data in place.items():
            if data == kept:
                place[name] = {**kept, "did": "intent"}
    del record.done["ask 3 0"]
    outcome, _ = await world.run(record)
    assert world.happened == [*ALL, "ask 2"]
    (told,) = [message.text for message in outcome.messages if message.tool_call_id == "pay-0"]
    assert "unknown" in told


async def test_a_model_that_returns_no_reply_is_not_recorded() -> None:
    record = Record()

    class Odd:
        async def complete(self, _: LlmRequest) -> Any:
            return 5

    recording = NodeRecording(cast("TaskRecord", record))
    outcome = await AgentRuntime(cast("Any", Odd())).run("go", run_id="r", effects=recording.effects)
    assert isinstance(outcome, Failed)
    assert record.done == {}


async def test_a_thread_that_somebody_else_writes_to_stops_the_run() -> None:
    world, record = World(), Record()
    record.is_full = True
    outcome, recording = await world.run(record)
    assert isinstance(outcome, Interrupted)
    assert recording.cancellation.reason == "another run has written to its thread"
    with pytest.raises(CheckpointError, match="somebody else has written to the thread"):
        recording.check()
    assert world.happened == ["ask 0"]


async def test_without_a_record_nothing_is_wrapped() -> None:
    recording = NodeRecording(None)
    assert (recording.effects, recording.read("x"), recording.read_once("x")) == (None, None, None)
    await recording.write("x", 1)
    recording.check()


async def test_a_node_that_is_tried_again_asks_nothing_twice() -> None:
    tries: list[int] = []
    looks: list[int] = []

    @tool
    async def flaky() -> str:
        """Fails the first time."""
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("down")
        return "up"

    @tool
    async def look() -> str:
        """May be run again, and need not be."""
        looks.append(1)
        return "seen"

    below = ScriptedLlm(["three"])
    above = ScriptedLlm([say(call("inner", {"task": "t"}), call("look")), say(call("flaky")), "fine"])
    inner = Agent(below, name="inner", policy=FailFast())
    agent = Agent(above, tools=[inner.as_tool(), look, flaky], policy=FailFast())
    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    builder.add_node("work", agent, retry=RetryPolicy(attempts=2, on=GraphError, backoff=0.0)).set_entry(
        "work"
    )
    done = await builder.build().invoke({"input": "q"})
    assert done["output"] == "fine"
    assert (len(above.requests), len(below.requests), len(looks), len(tries)) == (3, 1, 1, 2)
