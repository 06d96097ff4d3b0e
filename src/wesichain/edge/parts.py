"""Parts: what a frontend shows of a run, read from its events: steps, text, reasoning, calls and results."""

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
from .runs import Run, RunEnd, RunRegistry, words_of


class StepEnded(Value):
    """The calls of the step have their results, or there are none."""

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
    """A call of a tool, or one that waits for a decision."""

    id: str
    name: str
    args: JsonValue


class CallEnded(Value):
    """The result of a call, or the error that came of it, or that a person refused it."""

    id: str
    value: JsonValue = None
    error: str | None = None
    is_refused: bool = False


RunEnded: TypeAlias = RunCompleted | RunFailed | RunInterrupted
Part: TypeAlias = StepStarted | StepEnded | TextPiece | ReasoningPiece | CallBegan | CallEnded | RunEnded


def id_of(item: PendingCall) -> str:
    """The id of a waiting call, as clients know it: below the top it begins with the names of the agents."""
    return "/".join((*item.scope, item.call.id))


class PartReader:
    """Reads the parts of the run at the top from its events. What agents below it do is their own.

    Calls that wait were shown before the run stopped; when it is resumed they are not shown again.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._has_text = False
        self._shown: set[str] = set()

    def resumed(
        self, waiting: Sequence[PendingCall], decisions: Mapping[str, Decision]
    ) -> Iterator[CallEnded]:
        """The calls that have ended by a decision alone: no event tells of them."""
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
        """The parts that an event stands for."""
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
            yield TextPiece(event.step_id, str(event.output))  # of a tool that has ended the run
        yield from self._end_step()
        yield event

    def _end_step(self) -> Iterator[StepEnded]:
        if self._step is not None:
            yield StepEnded(self._step)
            self._step = None


class Exchange:
    """One request of a frontend and the part of a run that answers it: a new run, or one that is resumed."""

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
        keeper: RunRegistry,
        owner: str,
        conversation: str,
        decide: Callable[[Sequence[PendingCall]], Mapping[str, Decision | None]],
        options: Mapping[str, Any],
    ) -> Exchange:
        """Resume the run of a conversation that waits; an HTTPException where there is none.

        `decide` gives the decisions on the calls that wait, None where the client has sent none.
        """
        run = await keeper.waiting(owner, conversation)
        end = None if run is None else await run.now()
        if run is None or end is None or not end.pending:
            raise HTTPException(409, "no run of this conversation waits for an answer")
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
        """Resume a run that waits; an HTTPException where the decisions are refused."""
        await run.decide(decisions, options, is_streamed=is_streamed)
        parts = PartReader()
        return cls(run, end.last_seq, [*parts.resumed(end.pending, decisions)], parts)

    async def __aiter__(self) -> AsyncIterator[Sequence[Part]]:
        """The parts in batches, as they come, until nobody works on the run."""
        if self._first:
            yield self._first
        async for batch in self.run.follow(self._after):
            yield [part for event in batch for part in self._parts.of(event)]


def value_of(event: RunCompleted) -> JsonValue:
    """The answer of a run: a text, or the object or list that a typed answer is."""
    output = event.output
    found = provided(output) if isinstance(output, str) else output
    return found if is_object(found) or is_array(found) else output


def provided(text: str) -> JsonValue:
    """The value of a result that a client sends as text: JSON where it is, else the text."""
    try:
        value: JsonValue = parse_json(text)
    except CodecError:
        return text
    return value


def task_with(text: str, files: Sequence[tuple[str, str]]) -> str | tuple[ContentPart, ...]:
    """The task of a message: its text and, where it has files, these, each a media type and base64.

    A file that cannot be read is an HTTPException (400).
    """
    if not files:
        return task_of(text)
    try:
        media = [_media(kind, b64decode(data, validate=True)) for kind, data in files]
    except (ValueError, CodecError) as error:
        raise HTTPException(400, f"a file of the message cannot be read: {words_of(error)}") from None
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
    """Tools that the client runs, each a name, a description, which is bounded, and a schema.

    Where one of them is wrong, an HTTPException (400).
    """
    tools: list[JsonTool] = []
    for name, description, schema in given:
        if not isinstance(name, str) or not isinstance(description, str | None):
            raise HTTPException(400, "a tool has a name and a description")
        if len(tools) == _MOST_TOOLS:
            raise HTTPException(400, f"a client brings at most {_MOST_TOOLS} tools")
        about = (description or name)[:_LONGEST_DESCRIPTION]
        try:
            tools.append(JsonTool(name, about, schema or _NO_ARGS, external=True))
        except ConfigError as error:
            raise HTTPException(400, words_of(error)) from None
    return tuple(tools)


_LONGEST_DESCRIPTION = 20_000  # characters
_NO_ARGS: dict[str, Any] = {"type": "object", "properties": {}}
_MOST_TOOLS = 128  # of one client
