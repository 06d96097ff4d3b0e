"""What the tests of the loop share: a few tools, and the rules that every log of events obeys."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

from wesichain.agent import Agent, AgentRuntime, Failed, replay
from wesichain.core import (
    Event,
    LlmResponse,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    Usage,
)
from wesichain.core.events import AdviceShown, OutputDelta
from wesichain.errors import AgentError
from wesichain.testing import FakeClock, ScriptedLlm
from wesichain.tools import tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def boom(why: str = "no reason") -> str:
    """Always fails."""
    raise ValueError(why)


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


def call(name: str, args: Any = None, *, id: str = "") -> ToolCall:
    return ToolCall(id or f"{name}-id", name, {} if args is None else args)


def say(*calls: ToolCall, content: str = "") -> LlmResponse:
    return LlmResponse(content, calls, usage=Usage(3, 2), finish_reason="tool_calls" if calls else "stop")


ADD = call("add", {"a": 1, "b": 2})


def runtime(replies: Sequence[Any], *tools: Any, **options: Any) -> AgentRuntime[str]:
    """A runtime over a script, with the tools `add`, `boom` and `echo` unless others are named."""
    return AgentRuntime(ScriptedLlm(replies), tools or (add, boom, echo), clock=FakeClock(), **options)


def run(replies: Sequence[Any], *tools: Any, task: Any = "q", **options: Any) -> Any:
    return asyncio.run(runtime(replies, *tools, **options).run(task))


class LogSink:
    """A sink that keeps the log of its last run, as a recorder does."""

    def __init__(self) -> None:
        self.log: Any = None

    def emit(self, event: Event) -> None:
        """It reads the log itself."""

    def follow(self, log: Any) -> LogSink:
        self.log = log
        return self

    def added(self) -> None:
        """The log has more records."""

    def show(self, piece: Any) -> None:
        """A piece of a streamed reply has come."""


async def replayed(outcome: Any, agent: Agent[Any, str]) -> Any:
    """The outcome of a replay of a run."""
    return await replay(outcome, agent)


def kinds(events: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


ErrorT = TypeVar("ErrorT", bound=AgentError)


def failed_with(outcome: object, kind: type[ErrorT]) -> ErrorT:
    """The error of a run that failed, which is one of this kind."""
    assert isinstance(outcome, Failed), outcome
    assert isinstance(outcome.error, kind), outcome.error
    return outcome.error


ENDS = (RunCompleted, RunFailed, RunInterrupted)


def check_events(events: Sequence[Event]) -> None:
    """The rules of the design's section on events."""
    assert isinstance(events[0], RunStarted)
    counted = [event for event in events if not isinstance(event, TextDelta | OutputDelta)]  # pieces are not
    assert [event.seq for event in counted] == list(range(events[0].seq, events[0].seq + len(counted)))
    assert len({event.run_id for event in events}) == 1
    own = [event for event in events if not event.scope]
    assert isinstance(own[-1], ENDS)
    assert sum(isinstance(event, ENDS) for event in own) == 1
    started = {event.step_id for event in own if isinstance(event, StepStarted)}
    if events[0].resumed:
        started.add(own[1].step_id)  # it goes on in the step that it was interrupted in
    for event in own:
        if isinstance(event, AdviceShown) and not event.agent:
            assert event.step_id == 0  # told with the beginning
        elif not isinstance(event, (RunStarted, *ENDS)):
            assert event.step_id in started
    steps = [event.step_id for event in own if isinstance(event, StepStarted)]
    assert steps == sorted(set(steps))
    dispatched = Counter(event.call_id for event in own if isinstance(event, ToolDispatched))
    ended = Counter(
        event.call_id
        for event in own
        if isinstance(event, ToolCompleted | StepFailed) and event.call_id is not None
    )
    assert dispatched == ended
    open_calls: set[str] = set()
    for event in own:
        if isinstance(event, ToolDispatched):
            assert event.call_id not in open_calls
            open_calls.add(event.call_id)
        elif isinstance(event, ToolCompleted | StepFailed) and event.call_id is not None:
            assert event.call_id in open_calls, "a call ends after it began"
            open_calls.discard(event.call_id)
    assert not open_calls
