"""The result of a run: its answer, messages, cost and sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from typing_extensions import override

from wesichain._elsewhere import Translated
from wesichain.agent.phases import Completed, Failed, Outcome
from wesichain.core import (
    Citation,
    Event,
    JsonValue,
    Message,
    ReActStep,
    Role,
    ToolCompleted,
    ToolDispatched,
    Usage,
)
from wesichain.core.internal import LogView, Value
from wesichain.errors import RunFailedError, RunInterruptedError

OutT = TypeVar("OutT")
_LONGEST = 120  # characters of an output in `repr`


class Source(Value):
    """The output of a tool, as a source of the answer."""

    tool_name: str
    args: JsonValue
    value: JsonValue


class RunResult(Value, Translated, Generic[OutT]):
    """The result of a completed run."""

    outcome: Completed[OutT]

    @override
    def __str__(self) -> str:
        """The answer, as text."""
        return self.outcome.text

    @override
    def __repr__(self) -> str:
        outcome = self.outcome
        parts = {"output": _excerpt(outcome.output), "steps": outcome.step, "tokens": self.usage.total_tokens}
        shown = ", ".join(f"{name}={value}" for name, value in parts.items())
        return f"RunResult({shown}, run_id={outcome.run_id!r})"

    @property
    def output(self) -> OutT:
        return self.outcome.output

    @property
    def steps(self) -> LogView[ReActStep]:
        return self.outcome.steps

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the run, without the instructions: pass them as the history of the next run."""
        all_messages, first_new = self.outcome.messages, self.outcome.info.first_new
        if not any(all_messages[index].role is Role.SYSTEM for index in range(1, first_new)):
            return all_messages[1:] if all_messages and all_messages[0].role is Role.SYSTEM else all_messages
        before = [all_messages[index] for index in range(first_new)]  # a history that has instructions
        return (*(one for one in before if one.role is not Role.SYSTEM), *self.outcome.new_messages)

    @property
    def agent(self) -> str:
        """The name of the agent that answered."""
        return self.outcome.info.agent

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """The messages of this run, without its history."""
        return self.outcome.new_messages

    @property
    def usage(self) -> Usage:
        return self.outcome.usage

    @property
    def events(self) -> tuple[Event, ...]:
        return self.outcome.events

    @property
    def cost(self) -> float | None:
        """The cost of the run in dollars, with the runs below it; None if the price of a model is unknown."""
        return self.outcome.cost

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources that the model cited in this run, in order."""
        return tuple(one for message in self.new_messages for one in message.citations)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The outputs of the tools that the run called, in order."""
        own = [event for event in self.events if not event.scope]
        args = {event.call.id: event.call.args for event in own if isinstance(event, ToolDispatched)}
        return tuple(
            Source(event.tool_name, args.get(event.call_id), event.value)
            for event in own
            if isinstance(event, ToolCompleted)
        )


def _excerpt(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def question_of(outcome: Completed[Any]) -> Message:
    """The user's message with the task of the run, and its parts."""
    first = outcome.messages[outcome.info.first_new]
    is_task = first.role is Role.USER and first.text == outcome.user_input
    return first if is_task else Message(Role.USER, outcome.user_input)


def result_of(
    outcome: Outcome[OutT], *, decide: str = "agent.resume(error.outcome, {token: Approve()})"
) -> RunResult[OutT]:
    """The result of a completed run; raises for any other. `decide` is the code in the error message."""
    if isinstance(outcome, Completed):
        return RunResult(outcome)
    if isinstance(outcome, Failed):
        error = outcome.error
        raise RunFailedError(f"the run failed in step {error.step_id}: {error}", outcome) from error
    waiting = ", ".join(item.call.name for item in outcome.pending)
    hint = f"; decide on {waiting} with {decide}" if waiting else ""
    raise RunInterruptedError(f"the run was interrupted: {outcome.reason}{hint}", outcome)
