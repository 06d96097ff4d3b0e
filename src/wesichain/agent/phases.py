"""The machine: the phases of a run, each with exactly its legal transitions.

    Idle --think--> Thinking --act--> Acting --observe--> Observing --think--> Thinking
                    Thinking --complete--> Completed
    any active phase --fail--> Failed        any active phase --interrupt--> Interrupted

A phase is an immutable value; a transition is a method that returns the next one, and its return
annotation is the transition table. Nothing here waits, reads a clock or calls anybody. The phases
of a run share append-only logs (`Trail`): going on costs what is new, not what went before.
Only `Idle` can be made from outside, with `AgentRuntime.start(task)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeAlias, TypeVar, cast

from wesichain.core import Citation, ErrorStep, LlmResponse, Message, ModelSettings, Role
from wesichain.core.internal import PendingCall, Spent, constructor_of, dataclass, turn_of
from wesichain.errors import AgentError, CodecError
from wesichain.policy import Budget

from .outcomes import (
    AnyPhase,
    Child,
    Completed,
    Failed,
    Interrupted,
    LimitName,
    Outcome,
    RunInfo,
    Unfinished,
    completed_phase,
    failed_phase,
    interrupted_phase,
)
from .rules import Tally
from .trail import Observed, Trail

__all__ = [
    "Acting",
    "Active",
    "Child",
    "Completed",
    "Failed",
    "Idle",
    "Interrupted",
    "LimitName",
    "Observing",
    "Outcome",
    "Phase",
    "RunInfo",
    "Thinking",
    "Unfinished",
    "begin",
    "handed_over",
    "resumed",
]

OutT = TypeVar("OutT")


@dataclass(frozen=True, slots=True)
class _Active(AnyPhase, Generic[OutT]):
    """A phase of a run that goes on: it can always fail or be interrupted."""

    def fail(self, error: AgentError, *, spent: Spent, step: int = 0) -> Failed[OutT]:
        return failed_phase(self.info, self.trail.grown((), (ErrorStep(str(error)),)), spent, step, error)

    def interrupt(
        self,
        reason: str,
        *,
        spent: Spent,
        step: int = 0,
        told: int = 0,
        pending: tuple[PendingCall, ...] = (),
        unfinished: Unfinished | None = None,
        tally: Tally | None = None,
    ) -> Interrupted[OutT]:
        """Stop here; `told` is how many of the messages the events have."""
        held = (reason, pending, unfinished, tally or Tally(), told)
        return interrupted_phase(self.info, self.trail, spent, step, *held)

    def to_plain(self) -> Mapping[str, Any]:
        raise CodecError("a phase can be written once its run has ended; before, write its steps or messages")


@dataclass(frozen=True, slots=True)
class Idle(_Active[OutT]):
    """A run that has not begun."""

    def think(self) -> Thinking[OutT]:
        return _thinking(self.info, self.trail)


@dataclass(frozen=True, slots=True)
class Thinking(_Active[OutT]):
    """The phase before a model call."""

    def act(self, reply: LlmResponse) -> Acting[OutT]:
        """Take the reply's calls. A reply without any goes on too, with an error for the model."""
        text, calls = reply.content, reply.tool_calls
        is_kept = text or calls or reply.finish_reason == "pause"  # a pause may have no text
        turn = (turn_of(reply),) if is_kept else ()
        return _acting(self.info, self.trail.grown(turn, (reply,)), reply)

    def complete(
        self,
        output: OutT,
        *,
        text: str,
        spent: Spent,
        step: int = 0,
        stopped_by: LimitName | None = None,
        citations: tuple[Citation, ...] = (),
    ) -> Completed[OutT]:
        """End with an answer; `stopped_by` names the limit that made it the last word."""
        answer = _message(_ASSISTANT, text, citations=citations) if citations else _message(_ASSISTANT, text)
        trail = self.trail.grown((answer,), (text,))
        return completed_phase(self.info, trail, spent, step, output, text, stopped_by)


@dataclass(frozen=True, slots=True)
class Acting(_Active[OutT]):
    """The reply's calls are to be run."""

    reply: LlmResponse

    def observe(self, observed: Sequence[Observed]) -> Observing[OutT]:
        """Take what came of the calls, one for each call and in their order, then any notes."""
        messages: list[Message] = []
        for item in observed:
            call_id, content = item.call_id, item.parts or item.text
            if call_id is None:
                messages.append(_message(Role.USER, content))
            elif item.ok:
                messages.append(_message(_TOOL, content, call_id))
            else:  # a provider may want to know
                messages.append(_message(_TOOL, content, call_id, is_error=True))
        return _observing(self.info, self.trail.grown(messages, observed))


@dataclass(frozen=True, slots=True)
class Observing(_Active[OutT]):
    """The results are in; the model has not seen them yet."""

    def think(self) -> Thinking[OutT]:
        return _thinking(self.info, self.trail)


_message = constructor_of(Message)
_ASSISTANT, _TOOL = Role.ASSISTANT, Role.TOOL  # to look a member up takes a third of making the message
# What only transitions may do: their makers know nothing of what nobody can give.
begin = cast("Callable[[RunInfo, Trail], Idle[Any]]", constructor_of(Idle))  # the first phase of a run
_thinking = cast("Callable[[RunInfo, Trail], Thinking[Any]]", constructor_of(Thinking))
_acting = cast("Callable[[RunInfo, Trail, LlmResponse], Acting[Any]]", constructor_of(Acting))
_observing = cast("Callable[[RunInfo, Trail], Observing[Any]]", constructor_of(Observing))

Active: TypeAlias = Idle[OutT] | Thinking[OutT] | Acting[OutT] | Observing[OutT]
Phase: TypeAlias = (
    Idle[OutT]
    | Thinking[OutT]
    | Acting[OutT]
    | Observing[OutT]
    | Completed[OutT]
    | Failed[OutT]
    | Interrupted[OutT]
)


def handed_over(
    phase: Observing[OutT], agent: str, messages: list[Message], first_new: int
) -> Thinking[OutT]:
    """The phase in which another agent goes on, which is shown these messages; what happened stays."""
    opened_by = phase.info.opened_by or phase.info.agent
    info = replace(phase.info, agent=agent, opened_by=opened_by, first_new=first_new)
    return _thinking(info, phase.trail.with_messages(messages))


def resumed(
    outcome: Interrupted[OutT],
    *,
    reply: LlmResponse | None = None,
    model: str = "",
    settings: ModelSettings | None = None,
    budget: Budget | None = None,
) -> Thinking[OutT] | Acting[OutT]:
    """The phase that an interrupted run goes on from: the calls in hand, or else the next question.

    `reply` takes the place of the one in hand, where people have changed the arguments of its calls.
    """
    info = replace(
        outcome.info,
        events=[],
        last_seq=outcome.last_seq,
        step=outcome.step,
        told=outcome.told,
        before=outcome.spent,
        model=model,
        settings=settings,
        budget=budget,
    )
    unfinished = outcome.unfinished
    if unfinished is None or not unfinished.judged:
        return _thinking(info, outcome.trail)
    if reply is None:
        return _acting(info, outcome.trail, unfinished.reply)
    trail = outcome.trail.with_last_reply(turn_of(reply), reply, instead_of=unfinished.reply)
    return _acting(info, trail, reply)
