"""Parts: the steps, texts, reasoning, calls and results of a run, read from its events for frontends."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from starlette.exceptions import HTTPException

from wesichain.core import (
    Audio,
    Document,
    Event,
    Image,
    JsonValue,
    ModelResponded,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    StepFailed,
    StepStarted,
    Text,
    TextDelta,
    ToolCompleted,
    ToolDispatched,
)
from wesichain.core import Part as ContentPart
from wesichain.core.internal import (
    Decision,
    PendingCall,
    Provide,
    Refuse,
    Value,
    is_array,
    is_object,
    parse_json,
)
from wesichain.errors import CodecError, ConfigError
from wesichain.tools import JsonTool

from .bodies import task_of
from .runs import Run, RunEnd, RunRegistry, error_text


class StepEnded(Value):
    """The end of a step: all of its calls have results, or it has none."""

    step: int


class TextPiece(Value):
    """A piece of the model's text in a step."""

    step: int
    text: str


class ReasoningPiece(Value):
    """The model's reasoning in a step."""

    step: int
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


RunEnded: TypeAlias = RunCompleted | RunFailed | RunInterrupted
Part: TypeAlias = StepStarted | StepEnded | TextPiece | ReasoningPiece | CallBegan | CallEnded | RunEnded


def id_of(item: PendingCall) -> str:
    """The id of a waiting call for clients; the id of an inner call begins with the names of the agents."""
    return "/".join((*item.scope, item.call.id))


class PartReader:
    """Reads the parts of the run at the top from its events; events of inner agents are skipped.

    Waiting calls were shown before the run stopped; when it is resumed they are not shown again.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._has_text = False
        self._shown: set[str] = set()

    def resumed(
        self, waiting: Sequence[PendingCall], decisions: Mapping[str, Decision]
    ) -> Iterator[CallEnded]:
        """The results of calls that a decision has ended, for which there is no event."""
        for item in waiting:
            self._shown.add(id_of(item))
            match decisions.get(item.token):
                case Refuse(reason=reason):
                    yield CallEnded(id_of(item), error=reason or "refused", is_refused=True)
                case Provide(value=value, error=error) if item.question is None:
                    yield CallEnded(id_of(item), value, error)
                case _:
                    pass

    def of(self, event: Event) -> Iterator[Part]:  # a table, a row an event
        """Yield the parts of an event."""
        if event.scope:
            return
        match event:
            case StepStarted(step_id=step):
                yield from self._end_step()
                self._step, self._has_text = step, False
                yield event
            case TextDelta(step_id=step, text=text) if text:
                self._has_text = True
                yield TextPiece(step, text)
            case ModelResponded(step_id=step, response=response) if not event.set_aside:
                if response.reasoning:
                    yield ReasoningPiece(step, response.reasoning)
                if response.content and not self._has_text:
                    yield TextPiece(step, response.content)
            case ToolDispatched(call=call) if call.id not in self._shown:
                self._shown.add(call.id)
                yield CallBegan(call.id, call.name, call.args)
            case ToolCompleted(call_id=call_id, value=value):
                self._shown.discard(call_id)  # a later call may have the same id
                yield CallEnded(call_id, value)
            case StepFailed(call_id=str(call_id), message=message) if call_id in self._shown:
                if not event.decision.startswith("retry"):
                    self._shown.discard(call_id)
                    yield CallEnded(call_id, error=message)
            case RunCompleted() | RunFailed() | RunInterrupted():
                yield from self._end(event)
            case _:
                pass

    def _end(self, event: RunEnded) -> Iterator[Part]:
        for item in event.pending if isinstance(event, RunInterrupted) else ():
            if id_of(item) not in self._shown:
                self._shown.add(id_of(item))
                yield CallBegan(id_of(item), item.call.name, item.call.args)
        if isinstance(event, RunCompleted) and not self._has_text and isinstance(value_of(event), str):
            yield TextPiece(event.step_id, str(event.output))  # the result of a tool that ended the run
        yield from self._end_step()
        yield event

    def _end_step(self) -> Iterator[StepEnded]:
        if self._step is not None:
            yield StepEnded(self._step)
            self._step = None


class Exchange:
    """The events of a run that answer one request of a frontend, which has started or resumed the run."""

    def __init__(
        self, run: Run, after: int = 0, first: Sequence[Part] = (), parts: PartReader | None = None
    ) -> None:
        self.run = run
        self._first = first
        self._parts = parts or PartReader()
        self._after = after

    @classmethod
    async def answer(
        cls,
        registry: RunRegistry,
        owner: str,
        conversation: str,
        decide: Callable[[Sequence[PendingCall]], Mapping[str, Decision | None]],
        options: Mapping[str, Any],
    ) -> Exchange:
        """Resume the waiting run of a conversation; an HTTPException if there is none.

        `decide` returns the decisions on the waiting calls, with None for those that the client left out.
        """
        run = await registry.waiting(owner, conversation)
        end = None if run is None else await run.now()
        if run is None or end is None or not end.pending:
            raise HTTPException(409, "no run of this conversation waits for a decision")
        found = decide(end.pending)
        decisions = {token: decision for token, decision in found.items() if decision is not None}
        return await cls.resume(run, end, decisions, options)

    @classmethod
    async def resume(
        cls,
        run: Run,
        end: RunEnd,
        decisions: Mapping[str, Decision],
        options: Mapping[str, Any],
        *,
        is_streamed: bool = True,
    ) -> Exchange:
        """Resume a waiting run; an HTTPException if the decisions are refused."""
        await run.decide(decisions, options, is_streamed=is_streamed)
        parts = PartReader()
        return cls(run, end.last_seq, [*parts.resumed(end.pending, decisions)], parts)

    async def __aiter__(self) -> AsyncIterator[Sequence[Part]]:
        """Yield the parts in batches, as they arrive, until the run has ended or waits."""
        if self._first:
            yield self._first
        async for batch in self.run.follow(self._after):
            yield [part for event in batch for part in self._parts.of(event)]


def value_of(event: RunCompleted) -> JsonValue:
    """The answer of a run: a text, or the object or list of a typed answer."""
    output = event.output
    found = provided(output) if isinstance(output, str) else output
    return found if is_object(found) or is_array(found) else output


def provided(text: str) -> JsonValue:
    """The value of a result that a client sends as text: parsed if it is JSON, otherwise the text."""
    try:
        value: JsonValue = parse_json(text)
    except CodecError:
        return text
    return value


def task_with(text: str, files: Sequence[tuple[str, str]]) -> str | tuple[ContentPart, ...]:
    """The task of a message: its text and its files, each a media type and base64.

    A file that cannot be read is an HTTPException (400).
    """
    if not files:
        return task_of(text)
    try:
        media = [_media(kind, b64decode(data, validate=True)) for kind, data in files]
    except (ValueError, CodecError) as error:
        raise HTTPException(400, f"a file of the message cannot be read: {error_text(error)}") from None
    return (*((Text(task_of(text)),) if text.strip() else ()), *media)


def _media(media_type: str, data: bytes) -> ContentPart:
    match media_type.partition("/")[0]:
        case "image":
            return Image(data, media_type=media_type)
        case "audio":
            return Audio(data, media_type)
        case _:
            return Document(data, media_type=media_type)


def frontend_tools(given: Iterable[tuple[Any, Any, Any]]) -> tuple[JsonTool, ...]:
    """The tools that a client runs, from their names, descriptions (which are cut) and schemas.

    A tool that is not valid is an HTTPException (400).
    """
    tools: list[JsonTool] = []
    for name, description, schema in given:
        if not isinstance(name, str) or not isinstance(description, str | None):
            raise HTTPException(400, "a tool has a name and a description")
        if len(tools) == _MOST_TOOLS:
            raise HTTPException(400, f"a client may send at most {_MOST_TOOLS} tools")
        about = (description or name)[:_LONGEST_DESCRIPTION]
        try:
            tools.append(JsonTool(name, about, schema or _NO_ARGS, external=True))
        except ConfigError as error:
            raise HTTPException(400, error_text(error)) from None
    return tuple(tools)


_LONGEST_DESCRIPTION = 20_000  # characters
_NO_ARGS: dict[str, Any] = {"type": "object", "properties": {}}
_MOST_TOOLS = 128  # of one client
