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
    StepStarted,
    to_json,
)
from wesichain.core.internal import (
    Approve,
    ApproveWith,
    Decision,
    PendingCall,
    Provide,
    Refuse,
    is_object,
    to_plain,
)

from .bodies import checked_conversation, text_of
from .parts import (
    CallBegan,
    CallEnded,
    Exchange,
    Part,
    ReasoningPiece,
    StepEnded,
    TextPiece,
    frontend_tools,
    id_of,
    provided,
    task_with,
)
from .runs import Order, RunRegistry, new_run_id
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
        owner, body = await self._service.receive(request)
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

    def decide(pending: Sequence[PendingCall]) -> dict[str, Decision | None]:
        if answers.keys() - {item.token for item in pending}:
            raise HTTPException(409, "the run does not wait for one of these interrupts")
        return {item.token: _decision(item, answers, results) for item in pending}

    return await Exchange.answer(registry, owner, thread, decide, options)


def _order(asked: ag.RunAgentInput, owner: str, thread: str, options: Mapping[str, Any]) -> Order:
    users = [index for index, message in enumerate(asked.messages) if message.role == "user"]
    if not users:
        raise HTTPException(400, "there is no message with the role user")
    facts = [f"{item.description}: {item.value}" for item in asked.context or ()]
    context = "Context from the application:\n" + "\n".join(facts)
    return Order(
        run_id=new_run_id(owner, thread),
        owner=owner,
        task=task_with(_text(asked.messages[users[-1]]), _files(asked.messages[users[-1]])),
        conversation=thread,
        is_streamed=True,
        tools=frontend_tools((one.name, one.description, one.parameters) for one in asked.tools or ()),
        history=tuple(_history(asked.messages[: users[-1]])),
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
    item: PendingCall, answers: Mapping[str, ag.ResumeEntry], results: Mapping[str, ag.ToolMessage]
) -> Decision | None:
    """The client's decision on a waiting call; None if it has sent none."""
    answer, result = answers.get(item.token), results.get(id_of(item))
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
    """Translates the parts of one run to AG-UI events. A text message is open while its step yields text."""

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

    def _events(self, part: Part) -> Iterator[ag.BaseEvent]:
        if isinstance(part, TextPiece):
            if self._open is None:
                self._open = f"{self._run}-{part.step}"
                yield ag.TextMessageStartEvent(message_id=self._open, role="assistant")
            yield ag.TextMessageContentEvent(message_id=self._open, delta=part.text)
            return
        if self._open is not None:
            yield ag.TextMessageEndEvent(message_id=self._open)
            self._open = None
        match part:
            case ReasoningPiece():
                yield from self._reasoning(part)
            case StepStarted(step_id=step):
                yield ag.StepStartedEvent(step_name=f"step {step}")
            case StepEnded(step=step):
                yield ag.StepFinishedEvent(step_name=f"step {step}")
            case CallBegan(id=id, name=name, args=args):
                yield ag.ToolCallStartEvent(tool_call_id=id, tool_call_name=name)
                yield ag.ToolCallArgsEvent(tool_call_id=id, delta=to_json(args))
                yield ag.ToolCallEndEvent(tool_call_id=id)
            case CallEnded():
                yield self._result(part)
            case RunFailed(error=kind, message=message):
                yield ag.RunErrorEvent(message=message, code=kind)
            case RunCompleted(output=output):
                yield self._finished(ag.RunFinishedSuccessOutcome(), output)
            case RunInterrupted(pending=pending):
                yield self._finished(_outcome(pending, names_pending=self._names_pending))

    def _reasoning(self, part: ReasoningPiece) -> Iterator[ag.BaseEvent]:
        span = f"{self._run}-{part.step}-reasoning"
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


def _outcome(pending: Sequence[PendingCall], *, names_pending: bool) -> Any:
    """The outcome of an interrupted run for a frontend: interrupts, calls to run, or a cancellation."""
    asked = [_interrupt(item) for item in pending if not item.external or item.question is not None]
    if asked:
        return ag.RunFinishedInterruptOutcome(interrupts=asked)
    if pending:
        names = [id_of(item) for item in pending] if names_pending else None
        return ag.RunFinishedSuccessOutcome(pending_tool_call_ids=names)
    return ag.RunFinishedCancelledOutcome()


def _interrupt(item: PendingCall) -> ag.Interrupt:
    question, name = item.question, item.call.name
    expires = None if item.expires_at is None else datetime.fromtimestamp(item.expires_at, UTC).isoformat()
    return ag.Interrupt(
        id=item.token,
        reason="approval" if question is None else "question",
        message=f"May {name} be called?" if question is None else question.message,
        tool_call_id=id_of(item),
        response_schema=_APPROVAL if question is None else dict(question.schema),
        expires_at=expires,
    )


def _frames(events: Sequence[ag.BaseEvent]) -> bytes:
    return b"".join(b"data: %s\n\n" % event.model_dump_json(by_alias=True).encode() for event in events)
