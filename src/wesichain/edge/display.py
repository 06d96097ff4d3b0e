"""Shown: what a client is shown of a run, read from its events, the same for every protocol.

The law: when the run has ended, the text that was shown last ends with its output.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from wesichain.core import (
    Event,
    JsonValue,
    ModelResponded,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
)
from wesichain.core.internal import (
    Decision,
    PendingCall,
    Provide,
    Refuse,
    Value,
    is_array,
    is_object,
)

from .runs import RunEnd, provided


class StepBegan(Value):
    """A step begins: a model call and the calls of its reply, or the calls that wait for a decision."""

    step: int


class StepEnded(Value):
    """A step has ended."""

    step: int


class TextPiece(Value):
    """A piece of a text. A text ends before the next one begins."""

    id: str
    text: str


class TextEnded(Value):
    """The end of a text. A text that is `withdrawn` is no part of the answer: its attempt failed."""

    id: str
    is_withdrawn: bool = False


class ReasoningPiece(Value):
    """The reasoning of the model in a step."""

    id: str
    text: str


class CallBegan(Value):
    """A tool call, or one that waits for a decision."""

    id: str
    name: str
    args: JsonValue


class CallEnded(Value):
    """The result of a call, its error, or its refusal by a person."""

    id: str
    value: JsonValue = None
    error: str | None = None
    is_refused: bool = False


class TypedAnswer(Value):
    """The answer of a run that returns an object or a list."""

    value: JsonValue


class AskedCall(Value):
    """A call that waits for a decision, and its id for clients."""

    id: str
    call: PendingCall


class Ended(Value):
    """The end of a run, with the calls that it waits for."""

    event: RunEnded
    waiting: tuple[AskedCall, ...] = ()


RunEnded: TypeAlias = RunCompleted | RunFailed | RunInterrupted
Part: TypeAlias = (
    StepBegan
    | StepEnded
    | TextPiece
    | TextEnded
    | ReasoningPiece
    | CallBegan
    | CallEnded
    | TypedAnswer
    | Ended
)


class ClientIds:
    """The ids of calls for clients: the run, and the ids of the calls from the outermost to the call itself.

    They are unique in a conversation: models repeat the ids of their calls in every run, and two calls of an
    agent make calls with equal ids.
    """

    def __init__(self) -> None:
        self._places: dict[str, str] = {}  # by token, the place of a call that waits

    def of(self, event: Event, call_id: str) -> str:
        """The id of a call of the run that the event belongs to."""
        place = f"{event.scope}/{call_id}" if event.scope else call_id
        return f"{event.run_id[-_TAG:]}/{place}"

    def read(self, event: Event) -> None:
        """Take note of the place of calls that wait: the innermost run is interrupted first."""
        if isinstance(event, RunInterrupted):
            for item in event.pending:
                self._places.setdefault(item.token, self.of(event, item.call.id))

    def waiting(self, pending: Sequence[PendingCall]) -> tuple[AskedCall, ...]:
        """The waiting calls with their ids."""
        return tuple(AskedCall(self._places.get(item.token, item.token), item) for item in pending)


def waiting_in(end: RunEnd) -> tuple[AskedCall, ...]:
    """The calls that a run waits for, with their ids for clients."""
    ids = ClientIds()
    for event in end.outcome.events:
        ids.read(event)
    return ids.waiting(end.pending)


class DisplayReader:
    """Reads what is shown of the run at the top from its events, from any point of its log.

    The events of agents below it are not shown, except for their calls that wait for a decision. What has
    been shown is not shown again when the run is resumed.
    """

    def __init__(self) -> None:
        self._ids = ClientIds()
        self._step: int | None = None
        self._text: list[str] = []  # of the open text
        self._last_text = ""  # the last one that was not withdrawn
        self._text_id = ""
        self._has_calls = False  # the last reply
        self._calls: dict[str, bool] = {}  # the calls that were shown, and whether their end was
        self._is_resumed = False  # other calls were shown before

    def resumed(
        self, waiting: Sequence[AskedCall], decisions: Mapping[str, Decision], sent: Collection[str] = ()
    ) -> Iterator[CallEnded]:
        """The results of calls that a decision has ended, except for those that the client `sent` itself."""
        self._is_resumed = True
        for item in waiting:
            self._calls[item.id] = item.id in sent and item.call.question is None
            match decisions.get(item.call.token):
                case Refuse(reason=reason):
                    yield from self._end_call(CallEnded(item.id, error=reason or "refused", is_refused=True))
                case Provide(value=value, error=error) if item.call.question is None:
                    yield from self._end_call(CallEnded(item.id, value, error))
                case _:
                    pass

    def of(self, event: Event) -> Iterator[Part]:  # a table, a row an event
        """Yield the parts of an event."""
        self._ids.read(event)
        match event:
            case ToolCompleted(call_id=call_id, value=value, refused=refused):
                error = "its result was refused as the answer" if refused else None
                yield from self._end_call(CallEnded(self._ids.of(event, call_id), value, error), event)
            case StepFailed(call_id=str(call_id), message=message, decision=decision):
                if decision not in ("waiting", "retry"):
                    yield from self._end_call(CallEnded(self._ids.of(event, call_id), error=message), event)
            case _ if event.scope:
                pass
            case StepStarted(step_id=step):
                yield from self._end_step()
                self._step, self._has_calls = step, False
                yield StepBegan(step)
            case TextDelta(step_id=step, text=text) if text:
                yield self._piece(f"{step}", text)
            case ModelResponded():
                yield from self._reply(event)
            case ToolDispatched(call=call, attempt=attempt, resumed=resumed):
                yield from self._end_text()
                if attempt == 1 and not resumed:
                    yield from self._begin_call(self._ids.of(event, call.id), call)
            case StepFailed():
                yield from self._end_text(is_withdrawn=not self._has_calls)
            case RunCompleted() | RunFailed() | RunInterrupted():
                yield from self._end(event)
            case _:
                pass

    def _reply(self, event: ModelResponded) -> Iterator[Part]:
        reply, step = event.response, event.step_id
        self._has_calls = bool(reply.tool_calls)
        if event.set_aside:
            yield from self._end_text(is_withdrawn=True)
            return
        if reply.reasoning:
            yield ReasoningPiece(f"{step}", reply.reasoning)
        if reply.content and not self._text:
            yield self._piece(f"{step}", reply.content)

    def _end(self, event: RunEnded) -> Iterator[Part]:
        waiting: tuple[AskedCall, ...] = ()
        if isinstance(event, RunCompleted):
            yield from self._answer(event)
        else:
            yield from self._end_text(is_withdrawn=isinstance(event, RunFailed))
        if isinstance(event, RunInterrupted):
            waiting = self._ids.waiting(event.pending)
            yield from self._ask(waiting, event.step_id)
        yield from self._end_step()
        yield Ended(event, waiting)

    def _answer(self, event: RunCompleted) -> Iterator[Part]:
        """Show the answer, unless it is the text that was shown last."""
        value = value_of(event)
        if not isinstance(value, str):
            yield from self._end_text()
            yield TypedAnswer(value)
            return
        # A text model streams its thoughts before the answer, in one text.
        shown = "".join(self._text or [self._last_text]).strip()
        is_shown = bool(value.strip()) and shown.endswith(value.strip())
        yield from self._end_text(is_withdrawn=not is_shown)
        if value and not is_shown:
            yield self._piece(f"{event.step_id}-answer", value)
            yield from self._end_text()

    def _ask(self, waiting: Sequence[AskedCall], step: int) -> Iterator[Part]:
        """Show the waiting calls, in a step of their own if calls around them have not ended."""
        new = [item for item in waiting if item.id not in self._calls]
        if new and self._step is not None and not all(self._calls.values()):
            yield from self._end_step()
            self._step = step
            yield StepBegan(step)
        for item in new:
            yield from self._begin_call(item.id, item.call.call)

    def _begin_call(self, id: str, call: ToolCall) -> Iterator[CallBegan]:
        if id not in self._calls:
            self._calls[id] = False
            yield CallBegan(id, call.name, call.args)

    def _end_call(self, ended: CallEnded, event: Event | None = None) -> Iterator[CallEnded]:
        """Show the end of a call that was shown, by this reader or by the one before it."""
        is_old = self._is_resumed and event is not None and not event.scope
        if self._calls.get(ended.id, not is_old) is False:
            self._calls[ended.id] = True
            yield ended

    def _piece(self, id: str, text: str) -> TextPiece:
        self._text.append(text)
        self._text_id = id
        return TextPiece(id, text)

    def _end_text(self, *, is_withdrawn: bool = False) -> Iterator[TextEnded]:
        if self._text:
            if not is_withdrawn:
                self._last_text = "".join(self._text)
            self._text = []
            yield TextEnded(self._text_id, is_withdrawn)

    def _end_step(self) -> Iterator[Part]:
        yield from self._end_text()
        if self._step is not None:
            yield StepEnded(self._step)
            self._step = None


def value_of(event: RunCompleted) -> JsonValue:
    """The answer of a run: a text, or the object or list of a typed answer."""
    output = event.output
    found = provided(output) if isinstance(output, str) else output
    return found if is_object(found) or is_array(found) else output


_TAG = 12  # characters of a run's id, enough to tell the runs of a conversation apart
