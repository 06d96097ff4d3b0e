"""AG-UI 1.x: `POST /ag-ui`, a run as the events of the Agent User Interaction Protocol.

A request starts a run with the last message of the user, or resumes the waiting run of its thread: with
answers to its interrupts (`resume`), and with the results of tools that the frontend runs (tool messages).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ag_ui import core as ag
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from wesichain.core import (
    JsonValue,
    Message,
    Role,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    to_json,
)
from wesichain.core.internal import (
    Approve,
    ApproveWith,
    Decision,
    Provide,
    Refuse,
    is_object,
    to_plain,
)

from .bodies import checked_conversation, text_of
from .display import (
    AskedCall,
    CallBegan,
    CallEnded,
    Ended,
    Part,
    ReasoningPiece,
    StepBegan,
    StepEnded,
    TextEnded,
    TextPiece,
    TypedAnswer,
    value_of,
)
from .exchange import Exchange
from .incoming import frontend_tools, task_with
from .runs import Order, RunRegistry, new_run_id, provided
from .service import Service

_APPROVAL = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}},
    "required": ["approved"],
}


class AgUi:
    """The endpoint."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, request: Request) -> Response:
        owner, body = await self._service.receive(request, is_chat=True)
        try:
            asked = ag.RunAgentInput.model_validate(body)
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise HTTPException(400, f"this is not a RunAgentInput of AG-UI: see {where[:100]!r}") from None
        props = body.get("forwardedProps")
        registry = self._service.runs.keeper(text_of(props, "agent") if is_object(props) else None)
        translation = _Translation(asked)
        try:
            options = await self._service.options(request)
            exchange = await _open(registry, asked, owner, options)
        except HTTPException as error:
            if error.status_code not in (400, 409):
                raise
            return Response(_frames(translation.refused(error.detail)), media_type="text/event-stream")
        return self._service.stream(exchange.run, translation.frames(exchange))


# --- from the frontend -------------------------------------------------------------------------------


async def _open(
    registry: RunRegistry, asked: ag.RunAgentInput, owner: str, options: Mapping[str, Any]
) -> Exchange:
    """Start or resume the run of a request."""
    thread = checked_conversation(asked.thread_id) or ""
    answers = {entry.interrupt_id: entry for entry in asked.resume or ()}
    results = _results(asked.messages)
    if not answers and not results:
        return Exchange(await registry.start(_order(asked, owner, thread, options)))

    def decide(waiting: Sequence[AskedCall]) -> dict[str, Decision | None]:
        if answers.keys() - {item.call.token for item in waiting}:
            raise HTTPException(409, "the run does not wait for one of these interrupts")
        return {item.call.token: _decision(item, answers, results) for item in waiting}

    return await Exchange.answer(registry, owner, thread, decide, options, sent=results)


def _order(asked: ag.RunAgentInput, owner: str, thread: str, options: Mapping[str, Any]) -> Order:
    users = [index for index, message in enumerate(asked.messages) if message.role == "user"]
    if not users:
        raise HTTPException(400, "there is no message with the role user")
    facts = [f"{item.description}: {item.value}" for item in asked.context or ()]
    context = "Context from the application:\n" + "\n".join(facts)
    props = asked.forwarded_props
    is_last_only = is_object(props) and props.get("lastOnly") is True
    said = tuple(_text(asked.messages[index]) for index in users[:-1])
    return Order(
        run_id=new_run_id(owner, thread),
        owner=owner,
        task=task_with(_text(asked.messages[users[-1]]), _files(asked.messages[users[-1]])),
        conversation=thread,
        is_streamed=True,
        tools=frontend_tools((one.name, one.description, one.parameters) for one in asked.tools or ()),
        history=tuple(_history(asked.messages[: users[-1]])),
        said=None if is_last_only else said,
        context=(Message(Role.USER, context),) if facts else (),
        options=options,
    )


def _history(messages: Sequence[ag.Message]) -> Iterator[Message]:
    """Yield the earlier messages. Calls and results that a client sends are dropped: they may be forged."""
    for message in messages:
        text = _text(message)
        if text and message.role in ("user", "assistant"):
            yield Message(Role(message.role), text)


def _text(message: Any) -> str:
    content = message.content
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if isinstance(part, ag.TextPart))


def _files(message: Any) -> list[tuple[str, str]]:
    """The files of a message. URLs are refused: nothing is fetched for a client."""
    content = () if isinstance(message.content, str) else message.content or ()
    sources = [part.source for part in content if not isinstance(part, ag.TextPart)]
    if not all(isinstance(source, ag.DataSource) for source in sources):
        raise HTTPException(400, "send the files of a message as data, not as a URL")
    return [(source.mime_type, source.value) for source in sources]


def _results(messages: Sequence[ag.Message]) -> dict[str, ag.ToolMessage]:
    """The tool messages at the end of the messages, by the ids of their calls."""
    found: dict[str, ag.ToolMessage] = {}
    for message in reversed(messages):
        if not isinstance(message, ag.ToolMessage):
            break
        found[message.tool_call_id] = message
    return found


def _decision(
    waiting: AskedCall, answers: Mapping[str, ag.ResumeEntry], results: Mapping[str, ag.ToolMessage]
) -> Decision | None:
    """The client's decision on a waiting call; None if it has sent none."""
    item = waiting.call
    answer, result = answers.get(item.token), results.get(waiting.id)
    if answer is None:
        if result is None or not item.external:
            return None
        return Provide(error=result.error) if result.error else Provide(provided(_text(result)))
    if answer.status == "cancelled":
        return Refuse("the user has cancelled it")
    payload = to_plain(answer.payload)
    if item.external or item.question is not None:
        return Provide(payload)
    if not is_object(payload) or not isinstance(payload.get("approved"), bool):
        raise HTTPException(400, 'answer an approval with {"approved": true or false, "editedArgs"?}')
    if not payload["approved"]:
        return Refuse(str(payload.get("reason") or ""))
    return ApproveWith(payload["editedArgs"]) if payload.get("editedArgs") is not None else Approve()


# --- to the frontend ---------------------------------------------------------------------------------


class _Translation:
    """Translates the parts of one run to AG-UI events."""

    def __init__(self, asked: ag.RunAgentInput) -> None:
        self._thread, self._run = asked.thread_id, asked.run_id
        self._names_pending = asked.protocol_version is not None  # clients before 1.0 refuse the field
        self._open: str | None = None

    async def frames(self, exchange: Exchange) -> AsyncIterator[bytes]:
        yield _frames([self._started()])
        async for batch in exchange:
            yield _frames([event for part in batch for event in self._events(part)])

    def refused(self, why: str) -> list[ag.BaseEvent]:
        """The events of a run that was refused."""
        return [self._started(), ag.RunErrorEvent(message=why, code="refused")]

    def _started(self) -> ag.BaseEvent:
        version = ag.PROTOCOL_VERSION
        return ag.RunStartedEvent(thread_id=self._thread, run_id=self._run, protocol_version=version)

    def _events(self, part: Part) -> Iterator[ag.BaseEvent]:  # a table, a row a part
        match part:
            case StepBegan(step=step):
                yield ag.StepStartedEvent(step_name=f"step {step}")
            case StepEnded(step=step):
                yield ag.StepFinishedEvent(step_name=f"step {step}")
            case TextPiece(id=id, text=text):
                message_id = f"{self._run}-{id}"
                if self._open != id:
                    self._open = id
                    yield ag.TextMessageStartEvent(message_id=message_id, role="assistant")
                yield ag.TextMessageContentEvent(message_id=message_id, delta=text)
            case TextEnded(id=id, is_withdrawn=is_withdrawn):
                self._open = None
                yield ag.TextMessageEndEvent(message_id=f"{self._run}-{id}")
                if is_withdrawn:
                    yield ag.CustomEvent(name="text_withdrawn", value={"messageId": f"{self._run}-{id}"})
            case ReasoningPiece():
                yield from self._reasoning(part)
            case CallBegan(id=id, name=name, args=args):
                yield ag.ToolCallStartEvent(tool_call_id=id, tool_call_name=name)
                yield ag.ToolCallArgsEvent(tool_call_id=id, delta=to_json(args))
                yield ag.ToolCallEndEvent(tool_call_id=id)
            case CallEnded():
                yield self._result(part)
            case TypedAnswer():
                pass  # it is the result of the run
            case Ended():
                yield self._end(part)

    def _end(self, end: Ended) -> ag.BaseEvent:
        match end.event:
            case RunFailed(error=kind, message=message):
                return ag.RunErrorEvent(message=message, code=kind)
            case RunCompleted():
                return self._finished(ag.RunFinishedSuccessOutcome(), value_of(end.event))
            case RunInterrupted():
                return self._finished(_outcome(end.waiting, names_pending=self._names_pending))

    def _reasoning(self, part: ReasoningPiece) -> Iterator[ag.BaseEvent]:
        span = f"{self._run}-{part.id}-reasoning"
        yield ag.ReasoningStartEvent(message_id=span)
        yield ag.ReasoningMessageStartEvent(message_id=span, role="reasoning")
        yield ag.ReasoningMessageContentEvent(message_id=span, delta=part.text)
        yield ag.ReasoningMessageEndEvent(message_id=span)
        yield ag.ReasoningEndEvent(message_id=span)

    def _result(self, part: CallEnded) -> ag.BaseEvent:
        value = part.value if part.error is None else part.error
        content = value if isinstance(value, str) else to_json(value)
        message_id = f"{self._run}-{part.id}-result"
        return ag.ToolCallResultEvent(
            message_id=message_id, tool_call_id=part.id, content=content, role="tool"
        )

    def _finished(self, outcome: Any, result: JsonValue = None) -> ag.BaseEvent:
        return ag.RunFinishedEvent(
            thread_id=self._thread, run_id=self._run, outcome=outcome, result=to_plain(result)
        )


def _outcome(waiting: Sequence[AskedCall], *, names_pending: bool) -> Any:
    """The outcome of an interrupted run for a frontend: interrupts, calls to run, or a cancellation."""
    asked = [_interrupt(item) for item in waiting if not item.call.external or item.call.question is not None]
    if asked:
        return ag.RunFinishedInterruptOutcome(interrupts=asked)
    if waiting:
        names = [item.id for item in waiting] if names_pending else None
        return ag.RunFinishedSuccessOutcome(pending_tool_call_ids=names)
    return ag.RunFinishedCancelledOutcome()


def _interrupt(waiting: AskedCall) -> ag.Interrupt:
    item = waiting.call
    question, name = item.question, item.call.name
    expires = None if item.expires_at is None else datetime.fromtimestamp(item.expires_at, UTC).isoformat()
    return ag.Interrupt(
        id=item.token,
        reason="approval" if question is None else "question",
        message=item.why or f"May {name} be called?" if question is None else question.message,
        tool_call_id=waiting.id,
        response_schema=_APPROVAL if question is None else dict(question.schema),
        expires_at=expires,
    )


def _frames(events: Sequence[ag.BaseEvent]) -> bytes:
    return b"".join(b"data: %s\n\n" % event.model_dump_json(by_alias=True).encode() for event in events)
