"""Outgoing events: when a reply leaves the service, decided here for every route and protocol.

A reply leaves after it was accepted: a guard may refuse an answer that the model gave.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from wesichain.core import (
    Event,
    JsonValue,
    LlmResponse,
    Message,
    ModelResponded,
    Role,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCompleted,
    ToolDispatched,
)
from wesichain.core.internal import OutputDelta, replace

_NO_TEXT = LlmResponse()
_REFUSED = "[refused]"
_SHORTEST = 4  # characters of a text that is masked in errors
_RECENT = 64  # events: the last reply of a failed run is among them


class OutgoingEvents:
    """Holds a reply back until the next event of its run tells whether it was accepted.

    A run goes on with the calls of a reply, or ends with its answer; then the reply leaves as it is.
    Otherwise it leaves without its content and is marked as `refused`, unless its text has been streamed. The
    result of a tool that ends the run is held back in the same way. Later events wait behind a held one: the
    order of the events does not change.
    """

    def __init__(self) -> None:
        self._queue: deque[Event] = deque()
        self._sent = 0  # the number of events that have left the queue
        self._held: dict[str, int] = {}  # by scope, the number of a reply or result in the queue
        self._streamed: set[tuple[str, int]] = set()  # the steps whose text has been streamed
        self._refused: list[str] = []  # the texts of answers that were refused, of agents below too

    def release(self, event: Event) -> list[Event]:
        """Add the next event, and return the events that may leave now."""
        if isinstance(event, TextDelta):
            self._streamed.add((event.scope, event.step_id))
        self._decide(event)
        event = self._without_refused(event)
        if _may_be_refused(event):
            self._held[event.scope] = self._sent + len(self._queue)
        self._queue.append(event)
        ready = min(self._held.values(), default=self._sent + len(self._queue)) - self._sent
        self._sent += ready
        return [self._queue.popleft() for _ in range(ready)]

    def flush(self) -> list[Event]:
        """The events that are left when the run has stopped; what is still held back was not accepted."""
        for scope in [*self._held]:
            self._refuse(scope, is_final=True)
        ready = [*self._queue]
        self._sent += len(ready)
        self._queue.clear()
        return ready

    def _decide(self, event: Event) -> None:
        """Let the held event of this scope go, or empty it, if this event tells which."""
        if event.scope not in self._held:
            return
        is_result = isinstance(self._queue[self._held[event.scope] - self._sent], ToolCompleted)
        match event:
            case RunCompleted():
                del self._held[event.scope]
            case RunInterrupted(pending=pending) if pending and not is_result:
                del self._held[event.scope]
            case ToolDispatched() | TextDelta() | OutputDelta() if not is_result:
                del self._held[event.scope]
            case RunFailed() | RunInterrupted():
                self._refuse(event.scope, is_final=isinstance(event, RunFailed))
            case StepStarted() | ModelResponded():
                self._refuse(event.scope, is_final=False)
            case StepFailed(call_id=None):
                self._refuse(event.scope, is_final=False)
            case _:
                pass

    def _refuse(self, scope: str, *, is_final: bool) -> None:
        index = self._held.pop(scope) - self._sent
        event = self._queue[index]
        if isinstance(event, ToolCompleted):
            self._refused += _texts(event.value)
            self._queue[index] = replace(event, value=None, parts=(), refused=True)
        elif isinstance(event, ModelResponded):
            reply = event.response
            if (scope, event.step_id) in self._streamed and not is_final:
                return
            self._refused += _texts([reply.content, *(call.args for call in reply.tool_calls)])
            calls = () if is_final else reply.tool_calls
            about = {"usage": reply.usage, "finish_reason": reply.finish_reason, "model": reply.model}
            empty = replace(_NO_TEXT, tool_calls=calls, **about)
            self._queue[index] = replace(event, response=empty, refused=True)

    def _without_refused(self, event: Event) -> Event:
        """The event without the texts that were refused: later requests and errors may repeat them."""
        texts = self._refused
        if not texts:
            return event
        match event:
            case StepStarted(messages=messages) if messages:
                return replace(event, messages=tuple(_without(texts, message) for message in messages))
            case StepFailed(message=message) | RunFailed(message=message):
                return replace(event, message=_masked(texts, message))
            case _:
                return event


def failure_of(events: Sequence[Event]) -> str | None:
    """The message of a failed run without refused texts; None if its last event is no failure."""
    outgoing = OutgoingEvents()
    sent = [one for event in events[-_RECENT:] for one in outgoing.release(event)]
    return sent[-1].message if sent and isinstance(sent[-1], RunFailed) else None


def _may_be_refused(event: Event) -> bool:
    return isinstance(event, ModelResponded) or (isinstance(event, ToolCompleted) and event.finish)


def _texts(value: JsonValue) -> Iterator[str]:
    """The texts in an answer that are long enough to be recognised elsewhere."""
    match value:
        case str() if len(text := value.strip()) >= _SHORTEST:
            yield text
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for item in value.values():
                yield from _texts(item)
        case _:
            pass


def _without(texts: Sequence[str], message: Message) -> Message:
    if not isinstance(message.content, str):
        return message
    if message.role is Role.ASSISTANT and message.content.strip() in texts:
        return replace(message, content="")
    if message.role is Role.TOOL:  # the error of an agent below
        return replace(message, content=_masked(texts, message.content))
    return message


def _masked(texts: Sequence[str], message: str) -> str:
    for text in texts:
        message = message.replace(text, _REFUSED)
    return message
