"""Streams: a run event by event, also one that goes on after a person's word; what is left early can go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.agent.kit import add, call, check_events, say
from tests.draws import draws
from wesichain.agent import Agent, Approve, ApproveWith, Completed, Conversation, Interrupted, Refuse
from wesichain.core import (
    Event,
    LlmRequest,
    LlmResponse,
    Role,
    RunCompleted,
    RunStarted,
    TextChunk,
    TextDelta,
    ToolDispatched,
    from_json,
    to_json,
)
from wesichain.core.events import OutputDelta
from wesichain.core.internal import Provide
from wesichain.errors import ConfigError, RunInterruptedError
from wesichain.policy import Budget
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm
from wesichain.tools import tool

SCRIPT = [say(call("delete", {"path": "a"}), call("look", {})), say(call("ask", {"text": "why"})), "all done"]


class Unhurried(ScriptedLlm):
    """Lets others have their turn before it answers."""

    async def complete(self, request: LlmRequest) -> LlmResponse:
        await asyncio.sleep(0)
        return await super().complete(request)


class World:
    """Tools whose effects are counted, and that take their time after it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self) -> list[Any]:
        @tool(approval=True, effect="once")
        async def delete(path: str) -> str:
            """Delete a file."""
            self.done.append(f"delete {path}")
            await asyncio.sleep(0.001)
            return f"deleted {path}"

        @tool
        async def look() -> str:
            """Look around."""
            self.done.append("look")
            await asyncio.sleep(0.001)
            return "nothing"

        @tool(external=True)
        async def ask(text: str) -> str:
            """Ask somebody."""
            raise AssertionError(text)

        return [delete, look, ask]


def agent_of(world: World, replies: Any = SCRIPT, **options: Any) -> Agent[Any, Any]:
    return Agent(
        Unhurried(list(replies)), tools=world.tools(), clock=FakeClock(), new_id=lambda: "r1", **options
    )


def decisions_on(outcome: Interrupted[Any], word: Any) -> dict[str, Any]:
    return {item.token: Provide("because") if item.external else word for item in outcome.pending}


def through_json(outcome: Interrupted[Any]) -> Interrupted[Any]:
    return from_json(Interrupted, to_json(outcome))


async def resumed(agent: Agent[Any, Any], outcome: Any, word: Any, via: Callable[[Any], Any]) -> Any:
    """To the end, by `resume`; and the events of all parts."""
    events: list[Event] = []
    while True:
        try:
            result = await agent.resume(via(outcome), decisions_on(outcome, word))
        except RunInterruptedError as waiting:
            outcome = waiting.outcome
            events += outcome.events
            continue
        return result, [*events, *result.events]


async def streamed(agent: Agent[Any, Any], outcome: Any, word: Any, via: Callable[[Any], Any]) -> Any:
    """To the end, by `stream`; and the events that were heard."""
    events: list[Event] = []
    while True:
        async with agent.stream(via(outcome), decisions=decisions_on(outcome, word)) as run:
            part = [event async for event in run]
        assert run.outcome is not None
        assert [*run.outcome.events] == bare(part)
        events += part
        if isinstance(run.outcome, Interrupted):
            with pytest.raises(RunInterruptedError):
                _ = run.result
            outcome = run.outcome
            continue
        return run.result, events


def bare(events: list[Event]) -> list[Event]:
    """What both have: a stream tells text as it comes besides."""
    return [event for event in events if not isinstance(event, TextDelta | OutputDelta)]


def shape(event: Event) -> tuple[Any, ...]:
    return (
        type(event).__name__,
        event.step_id,
        getattr(event, "call_id", None),
        getattr(event, "value", None),
    )


@pytest.mark.parametrize("via", [lambda outcome: outcome, through_json], ids=["in-memory", "through-json"])
@pytest.mark.parametrize("word", [Approve(), ApproveWith({"path": "b"}), Refuse("no")])
def test_the_stream_of_a_resume_is_the_resume(word: Any, via: Callable[[Any], Any]) -> None:
    async def main(resume_run: Any) -> tuple[Any, ...]:
        world = World()
        agent = agent_of(world)
        outcome = await agent.outcome("q")
        assert isinstance(outcome, Interrupted)
        result, events = await resume_run(agent, outcome, word, via)
        check = [shape(event) for event in bare(events)]
        return result.output, [*result.messages], result.outcome.spent, result.outcome.step, world.done, check

    assert asyncio.run(main(streamed)) == asyncio.run(main(resumed))


def test_text_and_typed_answers_are_told_as_they_come() -> None:
    class City(BaseModel):
        name: str
        people: int

    async def main() -> list[Event]:
        script = [
            say(call("delete", {"path": "a"})),
            say(call("final_answer", {"name": "Oslo", "people": 7})),
        ]
        agent = agent_of(World(), script, output_type=City)
        outcome = await agent.outcome("q")
        assert isinstance(outcome, Interrupted)
        async with agent.stream(outcome, decisions=decisions_on(outcome, Approve())) as run:
            events = [event async for event in run]
        assert run.result.output == City(name="Oslo", people=7)
        return events

    events = asyncio.run(main())
    assert isinstance(events[0], RunStarted)
    assert events[0].resumed
    assert [event.value for event in events if isinstance(event, OutputDelta)] == [
        {"name": "Oslo", "people": 7}
    ]
    assert isinstance(events[-1], RunCompleted)


@draws(15)
@given(leave_after=st.integers(0, 9), stored=st.booleans())
def test_what_is_left_early_can_go_on_and_nothing_is_run_twice(leave_after: int, stored: bool) -> None:
    async def main() -> None:
        world = World()
        agent = agent_of(world)
        outcome: Any = await agent.outcome("q")
        log: list[Event] = [*outcome.events]
        left = False
        while not isinstance(outcome, Completed):
            given = through_json(outcome) if stored else outcome
            async with agent.stream(given, decisions=decisions_on(outcome, Approve())) as run:
                heard = 0
                async for _ in run:
                    heard += 1
                    if heard > leave_after and not left:
                        left = True
                        break
            assert run.outcome is not None
            outcome = run.outcome
            log += outcome.events
        assert outcome.output == "all done"
        assert world.done.count("delete a") == 1  # it may run once, and was not begun again where it was cut
        assert world.done.count("look") in (1, 2)  # it may be run again
        assert [event.seq for event in log] == [*range(1, len(log) + 1)]
        (told,) = (message.text for message in outcome.messages if message.tool_call_id == "delete-id")
        assert told == "deleted a" or told.startswith("[OUTCOME UNKNOWN]")

    asyncio.run(main())


async def test_a_plain_stream_that_is_left_early_can_go_on_too() -> None:
    world = World()
    agent = agent_of(world, [say(call("look", {})), "done"])
    async with agent.stream("q") as run:
        async for event in run:
            if isinstance(event, ToolDispatched):
                break
    assert isinstance(run.outcome, Interrupted)
    check_events(run.outcome.events)
    with pytest.raises(ConfigError, match="see its outcome"):
        _ = run.result
    assert (await agent.resume(run.outcome)).output == "done"
    assert world.done == ["look", "look"]  # it was cut off, and may be run again


@pytest.mark.parametrize("pieces", range(56, 68))
async def test_a_run_that_is_left_while_it_waits_for_its_reader_has_an_outcome(pieces: int) -> None:
    class Streaming(ScriptedLlm):
        async def stream(self, request: LlmRequest) -> AsyncIterator[TextChunk | LlmResponse]:
            for _ in range(pieces):  # as many as fill the queue, and one more or less
                yield TextChunk("a ")
            yield await self.complete(request)

    async with Agent(Streaming(["a " * pieces])).stream("q") as run:
        await anext(aiter(run))
        await asyncio.sleep(0.01)
    assert run.outcome is not None
    check_events(run.outcome.events)
    if isinstance(run.outcome, Completed):
        assert run.result.output == "a " * pieces


async def test_the_conversation_is_extended_at_the_end_and_once() -> None:
    conversation = Conversation()
    agent = agent_of(World())
    outcome: Any = await agent.outcome("q", conversation=conversation)
    while isinstance(outcome, Interrupted):
        assert await conversation.read() == ()
        async with agent.stream(
            outcome, decisions=decisions_on(outcome, Approve()), conversation=conversation
        ) as run:
            async for _ in run:
                pass
        outcome = run.outcome
    said = [(message.role, message.text) for message in await conversation.read()]
    assert said == [(Role.USER, "q"), (Role.ASSISTANT, "all done")]


@pytest.mark.parametrize("wrong", ["decisions", "history", "missing", "unknown"])
async def test_misuse_is_named(wrong: str) -> None:
    agent = agent_of(World())
    outcome = await agent.outcome("q")
    assert isinstance(outcome, Interrupted)
    right = decisions_on(outcome, Approve())
    if wrong == "decisions":
        with pytest.raises(ConfigError, match="pass its outcome as the task"):
            agent.stream("q", decisions=right)
    elif wrong == "history":
        with pytest.raises(ConfigError, match="leave history= out"):
            agent.stream(outcome, outcome.messages, decisions=right)
    else:
        bad = {} if wrong == "missing" else {**right, "forged": Approve()}
        async with agent.stream(outcome, decisions=bad) as run:
            with pytest.raises(ConfigError, match=r"decide on every waiting call|no call waits"):
                _ = [event async for event in run]
        with pytest.raises(ConfigError, match=r"decide on every waiting call|no call waits"):
            _ = run.result
        async with agent.stream(outcome, decisions=right) as run:  # nothing was used up
            assert len([event async for event in run]) > 1


async def test_a_run_without_pieces_waits_for_its_reader_too() -> None:
    read, ahead = 0, list[int]()

    def reply(request: LlmRequest) -> LlmResponse:
        steps = sum(message.role is Role.TOOL for message in request.messages)
        ahead.append(4 * steps - read)  # of each step's events there are four
        return say(call("add", {"a": steps, "b": 1}, id=f"c{steps}")) if steps < 40 else LlmResponse("done")

    async with Agent(FunctionLlm(reply), tools=[add], budget=Budget(50)).stream("q") as run:
        async for _ in run:
            read += 1
    assert run.result.output == "done"
    assert read > len(run.result.events) > 160  # text that is streamed is not in the log
    assert max(ahead) < 70, "it may be 64 events ahead, and its step"


async def test_a_stream_has_one_reader() -> None:
    agent = agent_of(World(), [say(call("look", {})), "done"])
    async with agent.stream("q") as run:
        events = aiter(run)
        read = [await anext(events)]
        with pytest.raises(ConfigError, match="events=") as refused:
            _ = [event async for event in run]
        assert "aiter(run)" in str(refused.value)
        read += [event async for event in events]  # the first one has missed nothing
    assert bare(read) == [*run.result.events]
