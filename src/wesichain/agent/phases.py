"""The state machine: the phases of a run, each with exactly its legal transitions.

    Idle --think--> Thinking --act--> Acting --observe--> Observing --think--> Thinking
                    Thinking --complete--> Completed
    any active phase --fail--> Failed        any active phase --interrupt--> Interrupted

A phase is an immutable value. A transition is a method that returns the next phase, and the return
annotations are the transition table. Nothing here waits, reads a clock or does I/O. The phases of a run
share append-only logs (`Trail`), so that the cost of a transition depends only on what it adds.
Users can create only an `Idle` phase, with `AgentRuntime.start(task)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Never, Self, TypeAlias, TypeVar

from msgspec import StructMeta
from typing_extensions import override

from wesichain.core import Citation, ErrorStep, Event, LlmResponse, Message, ReActStep, Role, Usage
from wesichain.core.internal import (
    Clock,
    LogView,
    PendingCall,
    Spent,
    SystemClock,
    Value,
    force_setattr,
    is_array,
    replace,
    turn_of,
)
from wesichain.errors import AgentError, CodecError
from wesichain.journal.internal import JournalLog, Left, revived
from wesichain.policy.internal import cost_of_spent

from .run_info import RunInfo
from .trail import Observed, Trail

if TYPE_CHECKING:
    from wesichain.journal import Pending

OutT = TypeVar("OutT")
LimitName: TypeAlias = Literal["steps", "tokens", "cost", "seconds", "tool_calls"]


class _PhaseType(StructMeta):
    """The metaclass of the phases: calling the class of a phase raises a TypeError."""

    if not TYPE_CHECKING:  # type checkers refuse the call because of a field of the type Never

        def __call__(cls, *_: object, **__: object) -> Never:  # noqa: N805  # a metaclass has `cls`
            raise TypeError(f"{cls.__name__} is made by a transition; begin with runtime.start(task)")


def _maker_of(phase: Any) -> Any:
    """The function that makes a phase, for transitions and for outcomes that are read from data."""
    return partial(StructMeta.__call__, phase)


class AnyPhase(Value, metaclass=_PhaseType):
    """The base of every phase. Only a transition can make a phase."""

    if TYPE_CHECKING:  # a field without a value, so that type checkers refuse the call of the class
        only_a_transition_makes_one: Never
    info: RunInfo
    trail: Trail

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), tuple(getattr(self, name) for name in self.__struct_fields__))

    @property
    def run_id(self) -> str:
        return self.info.run_id

    @property
    def user_input(self) -> str:
        return self.info.task

    @property
    def messages(self) -> LogView[Message]:
        """All messages of the run, with the instructions. `RunResult.messages` is without them."""
        return self.trail.messages

    @property
    def steps(self) -> LogView[ReActStep]:
        return self.trail.steps


class _Ended(AnyPhase, Generic[OutT]):
    """A phase that ends the run."""

    kind: ClassVar[str] = "ended"
    spent: Spent
    step: int  # the number of the last step

    @property
    def usage(self) -> Usage:
        return self.spent.usage

    @property
    def cost(self) -> float | None:
        """The cost of the run in dollars, with the runs below it; None if the price of a model is unknown."""
        return cost_of_spent(self.spent)

    @property
    def iteration_count(self) -> int:
        """The model calls of this run, without runs below it, and those counted in the caller's state."""
        return self.info.earlier + self.step

    @property
    def state(self) -> Any:
        """The caller's state, updated with the run."""
        from wesichain.core import ReActState
        from wesichain.core.internal import write_state  # loaded with the first state

        given = self.info.state
        return write_state(
            ReActState(given) if isinstance(given, str) else given,
            ReActState(
                user_input=self.info.task,
                scratchpad=list(self.trail.steps),
                final_output=getattr(self, "text", None),  # only a completed run has one
                iteration_count=self.iteration_count,
                stopped_by=getattr(self, "stopped_by", None),
            ),
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of this leg of the work, with those of the runs inside."""
        from wesichain.journal.internal import events_of  # loaded when somebody reads them

        info = self.info
        found = events_of(
            info.log, info.place, run_id=info.run_id, since=info.since, until=self.until or None
        )
        return tuple(found)

    @property
    def unclaimed(self) -> tuple[str, ...]:
        """The names of recorded entries that the program did not ask for when it continued the run."""
        return self.info.log.unclaimed

    @property
    def new_messages(self) -> tuple[Message, ...]:
        return self.trail.messages_since(self.info.first_new)

    @property
    def last_seq(self) -> int:
        events = self.events
        return events[-1].seq if events else 0

    def sealed(self, until: int) -> Self:
        """The outcome with the number of records that its log has now."""
        return replace(self, until=until)

    def to_plain(self) -> Mapping[str, Any]:
        """The log of the run as data, for `from_plain()`."""
        info = self.info
        if info.place:
            raise CodecError(
                "a run inside a call has its log with the outermost run; write the outcome of that"
            )
        from wesichain.journal.internal import log_to_plain  # loaded when the first outcome is written

        log = log_to_plain(info.log, self.until or None)
        return {"kind": self.kind, "run_id": info.log.run_id, "log": log}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The outcome from the data of `to_plain()`."""
        if plain.get("kind") != cls.kind:
            raise CodecError(f"kind: expected {cls.kind!r}, got {str(plain.get('kind'))[:60]!r}")
        restored: Any = outcome_of(log_from_plain(plain))
        if not isinstance(restored, cls):
            raise CodecError(f"the log is that of a run which is {restored.kind}, not {cls.kind}")
        return restored


class Completed(_Ended[OutT]):
    """The run ended with an answer."""

    kind: ClassVar[str] = "completed"
    output: OutT
    text: str
    stopped_by: LimitName | None = None
    until: int = 0  # the number of records that the log had at the end


class Failed(_Ended[OutT]):
    """The run ended with an error; the scratchpad ends in an ErrorStep."""

    kind: ClassVar[str] = "failed"
    error: AgentError
    until: int = 0  # the number of records that the log had at the end


class Interrupted(_Ended[OutT]):
    """The run was stopped, or waits for approval; `AgentRuntime.resume()` continues it.

    It can be written with `to_json` and read in another process: it is the log of the run. The caller's state
    is stored only if it is a dict; any other state is read back as a `ReActState`.
    """

    kind: ClassVar[str] = "interrupted"
    reason: str
    pending: tuple[PendingCall, ...] = ()
    until: int = 0  # the number of records that the log had at the end

    @property
    def waits(self) -> tuple[Pending, ...]:
        """All that the run waits for: the questions of `pending`, signals and moments."""
        from wesichain.journal.internal import pending_of

        last = self.info.log.last
        return tuple(map(pending_of, last.waits)) if isinstance(last, Left) else ()


def _rebuild(phase: Any, fields: tuple[Any, ...]) -> Any:
    """Restore a phase that was pickled or deep-copied."""
    return _maker_of(phase)(*fields)


# Called by transitions, and to read outcomes from their logs.
completed_phase: Callable[..., Completed[Any]] = _maker_of(Completed)
failed_phase: Callable[..., Failed[Any]] = _maker_of(Failed)
interrupted_phase: Callable[..., Interrupted[Any]] = _maker_of(Interrupted)

Outcome: TypeAlias = Completed[OutT] | Failed[OutT] | Interrupted[OutT]


def outcome_of(log: JournalLog, place: str = "") -> Outcome[Any]:
    """The outcome of a run from its log alone. A typed answer is its text."""
    from .fold import fold

    found = fold(log, place)
    info, trail, spent, step, end = found.info, found.trail, found.spent, found.step, found.end
    until = len(log.records)
    if end is None:
        reason = found.reason or "its process ended"
        return interrupted_phase(info, trail, spent, step, reason, found.pending, until=until)
    if end.fault is not None:
        error = revived(end.fault)
        failure = error if isinstance(error, AgentError) else AgentError(str(error))
        ended = trail.grown((), (ErrorStep(str(error)),))
        return failed_phase(info, ended, spent, step, failure, until=until)
    return completed_phase(info, trail, spent, step, end.text, end.text, end.stopped_by, until=until)


def log_from_plain(plain: Mapping[str, Any], clock: Clock | None = None) -> JournalLog:
    """The log in the data of an outcome."""
    entries, run_id = plain.get("log"), plain.get("run_id")
    if not is_array(entries) or not isinstance(run_id, str):
        raise CodecError(
            "this is no outcome of this version: it has no log; run the task again, or resume it with the "
            "version that wrote it"
        )
    from wesichain.journal.internal import entry_from_plain, read_log

    log = JournalLog(run_id, clock or SystemClock())
    read_log(log, map(entry_from_plain, entries))
    return log


# --- the phases before the end ---------------------------------------------------------------------


class _Active(AnyPhase, Generic[OutT]):
    """A phase of a run that has not ended: it can fail or be interrupted."""

    def fail(self, error: AgentError, *, spent: Spent, step: int = 0) -> Failed[OutT]:
        return failed_phase(self.info, self.trail.grown((), (ErrorStep(str(error)),)), spent, step, error)

    def interrupt(
        self, reason: str, *, spent: Spent, step: int = 0, pending: tuple[PendingCall, ...] = ()
    ) -> Interrupted[OutT]:
        return interrupted_phase(self.info, self.trail, spent, step, reason, pending)

    def to_plain(self) -> Mapping[str, Any]:
        raise CodecError("a phase can be written once its run has ended; before, write its steps or messages")


class Idle(_Active[OutT]):
    """A run that has not begun."""

    def think(self) -> Thinking[OutT]:
        return replace(_THINKING, info=self.info, trail=self.trail)


class Thinking(_Active[OutT]):
    """The phase before a model call."""

    def with_tail(self, since: int, messages: Sequence[Message]) -> Thinking[OutT]:
        """The phase with other messages from number `since` on: those that a recorded request had."""
        return replace(self, trail=self.trail.with_tail(since, messages))

    def act(self, reply: LlmResponse) -> Acting[OutT]:
        """Run the calls of a reply. After one without calls, an error is returned to the model."""
        text, calls = reply.content, reply.tool_calls
        is_kept = text or calls or reply.finish_reason == "pause"  # a pause may have no text
        turn = (turn_of(reply),) if is_kept else ()
        return replace(_ACTING, info=self.info, trail=self.trail.grown(turn, (reply,)), reply=reply)

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
        """End with an answer; `stopped_by` names the limit that ended the run."""
        answer = Message(_ASSISTANT, text, citations=citations) if citations else Message(_ASSISTANT, text)
        trail = self.trail.grown((answer,), (text,))
        return replace(
            _COMPLETED,
            info=self.info,
            trail=trail,
            spent=spent,
            step=step,
            output=output,
            text=text,
            stopped_by=stopped_by,
        )


class Acting(_Active[OutT]):
    """The phase in which the calls of a reply are run."""

    reply: LlmResponse

    def observe(self, observed: Sequence[Observed]) -> Observing[OutT]:
        """Add the results of the calls, one for each call and in order, then any notes."""
        messages: list[Message] = []
        for item in observed:
            call_id, content = item.call_id, item.parts or item.text
            if call_id is None:
                messages.append(Message(Role.USER, content))
            elif item.ok:
                messages.append(Message(_TOOL, content, call_id))
            else:  # some providers mark errors
                messages.append(Message(_TOOL, content, call_id, is_error=True))
        return replace(_OBSERVING, info=self.info, trail=self.trail.grown(messages, observed))


class Observing(_Active[OutT]):
    """The phase in which the results of all calls are known, and not yet sent to the model."""

    def think(self) -> Thinking[OutT]:
        return replace(_THINKING, info=self.info, trail=self.trail)


_ASSISTANT, _TOOL = Role.ASSISTANT, Role.TOOL  # a lookup takes a third of the time of creating a message
# Transitions replace the fields of these: calling `_maker_of(...)` takes three times as long.
_IDLE: Idle[Any] = _maker_of(Idle)(None, None)
_THINKING: Thinking[Any] = _maker_of(Thinking)(None, None)
_ACTING: Acting[Any] = _maker_of(Acting)(None, None, None)
_OBSERVING: Observing[Any] = _maker_of(Observing)(None, None)
_COMPLETED: Completed[Any] = _maker_of(Completed)(None, None, None, 0, None, "")


def begin(info: RunInfo, trail: Trail) -> Idle[Any]:
    """The first phase of a run."""
    return replace(_IDLE, info=info, trail=trail)


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
    """The phase in which another agent takes over with these messages; the log of the run stays."""
    opened_by = phase.info.opened_by or phase.info.agent
    info = replace(phase.info, agent=agent, opened_by=opened_by, first_new=first_new)
    return replace(_THINKING, info=info, trail=phase.trail.with_messages(messages))


def with_messages(phase: Thinking[OutT], messages: Sequence[Message]) -> Thinking[OutT]:
    """The phase with messages that have come from outside, which the next request has."""
    items = [Observed(message.text, message.text) for message in messages]
    return replace(phase, trail=phase.trail.grown(messages, items))


def with_output(outcome: Completed[Any], output: OutT, *, text: str | None = None) -> Completed[OutT]:
    """A copy of the outcome with another output, such as the parsed output of an outcome read from data."""
    again: Any = copy(outcome)
    force_setattr(again, "output", output)
    if text is not None:
        force_setattr(again, "text", text)
    return again  # type: ignore[no-any-return]  # of the same class
