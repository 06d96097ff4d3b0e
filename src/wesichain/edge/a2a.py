"""A2A 1.0: `GET /.well-known/agent-card.json` and `POST /a2a` (JSON-RPC), for other agents.

A task is a run, a context is a conversation. A waiting run is a task that requires input: its status has the
waiting calls, and a message to the task with `{token: {"kind": "approve"}}` as data resumes it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from a2a import types as a2a
from google.protobuf.json_format import (  # type: ignore[import-untyped]  # protobuf brings no types
    MessageToDict,
    ParseDict,
    ParseError,
)
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wesichain._version import __version__
from wesichain.agent import Completed, Failed
from wesichain.core import JsonValue, RunCompleted, to_json
from wesichain.core.internal import PendingCall, is_object, to_plain

from .bodies import checked_conversation, checked_run_id, decisions_of
from .display import Ended, TextPiece, value_of
from .event_stream import json_frames
from .exchange import Exchange
from .http_api import pending_of
from .incoming import task_with
from .runs import Order, Run, RunEnd, error_text, new_run_id
from .service import Service

_STATES = {
    "running": a2a.TaskState.TASK_STATE_WORKING,
    "waiting": a2a.TaskState.TASK_STATE_INPUT_REQUIRED,
    "completed": a2a.TaskState.TASK_STATE_COMPLETED,
    "failed": a2a.TaskState.TASK_STATE_FAILED,
    "cancelled": a2a.TaskState.TASK_STATE_CANCELED,
}
CARD = "/.well-known/agent-card.json"
_ANSWER = "answer"  # the id of the one artifact
_NOT_FOUND, _NOT_CANCELABLE, _UNSUPPORTED, _CONTENT, _VERSION = -32001, -32002, -32004, -32005, -32009
_INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMS, _INTERNAL = -32600, -32601, -32602, -32603
_CODES = {404: _NOT_FOUND, 400: _INVALID_PARAMS, 409: _INVALID_PARAMS}


class _RpcError(Exception):
    """A JSON-RPC error, which is sent as the response."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class A2a:
    """The endpoints. `agents` has the description of each agent by its name."""

    def __init__(self, service: Service, *, agents: Mapping[str, str]) -> None:
        self._service = service
        self._agents = agents

    async def card(self, request: Request) -> Response:
        """The agent card. Several agents have one card, with an interface (`tenant`) and a skill for each."""
        url = f"{str(request.url.replace(query='')).removesuffix(CARD)}/a2a"  # also where it is mounted
        name, description = next(iter(self._agents.items()))
        card = a2a.AgentCard(
            name=name,
            description=description,
            version=__version__,
            supported_interfaces=[
                a2a.AgentInterface(
                    url=url,
                    protocol_binding="JSONRPC",
                    protocol_version="1.0",
                    tenant=agent if len(self._agents) > 1 else "",
                )
                for agent in self._agents
            ],
            capabilities=a2a.AgentCapabilities(streaming=True),
            default_input_modes=["text/plain", "application/json", "image/*", "audio/*", "application/pdf"],
            default_output_modes=["text/plain", "application/json"],
            skills=[
                a2a.AgentSkill(id=agent, name=agent, description=about, tags=["agent"])
                for agent, about in self._agents.items()
            ],
        )
        return JSONResponse(MessageToDict(card))

    async def __call__(self, request: Request) -> Response:
        """Handle a JSON-RPC call."""
        owner, body = await self._service.receive(request, is_chat=True)
        number = body.get("id")
        if (
            body.get("jsonrpc") != "2.0"
            or isinstance(number, bool)
            or not isinstance(number, str | int | None)
        ):
            return _error(None, _INVALID_REQUEST, "this is not a JSON-RPC 2.0 request")
        if request.headers.get("a2a-version", "1.0").partition(".")[0] not in ("1", ""):
            return _error(number, _VERSION, "this server supports A2A 1.0")
        try:
            return await self._answer(request, owner, number, body)
        except _RpcError as error:
            return _error(number, error.code, str(error))
        except HTTPException as error:
            return _error(number, _CODES.get(error.status_code, _INTERNAL), error.detail)

    async def _answer(
        self, request: Request, owner: str, id: str | int | None, body: Mapping[str, JsonValue]
    ) -> Response:
        params = body.get("params")
        match body.get("method"):
            case "SendMessage":
                asked = _parsed(params, a2a.SendMessageRequest())
                exchange = await self._exchange(request, owner, asked, is_streamed=False)
                if not asked.configuration.return_immediately:
                    await exchange.run.ending()
                result: Any = a2a.SendMessageResponse(task=await _task(exchange.run))
            case "SendStreamingMessage":
                asked = _parsed(params, a2a.SendMessageRequest())
                return self._stream(await self._exchange(request, owner, asked, is_streamed=True), id)
            case "SubscribeToTask":
                run = await self._find(owner, _parsed(params, a2a.SubscribeToTaskRequest()).id)
                if await run.now() is not None:
                    raise _RpcError(_UNSUPPORTED, "this task is not running: use GetTask")
                return self._stream(Exchange(run), id)
            case "GetTask":
                result = await _task(await self._find(owner, _parsed(params, a2a.GetTaskRequest()).id))
            case "CancelTask":
                run = await self._find(owner, _parsed(params, a2a.CancelTaskRequest()).id)
                try:
                    await run.cancel()
                except HTTPException as error:
                    raise _RpcError(_NOT_CANCELABLE, error.detail) from None
                result = await _task(run)
            case _:
                raise _RpcError(_NO_METHOD, "this method is not supported")
        return JSONResponse({"jsonrpc": "2.0", "id": id, "result": MessageToDict(result)})

    async def _find(self, owner: str, id: str) -> Run:
        return await self._service.runs.get(owner, checked_run_id(id))

    async def _exchange(
        self, request: Request, owner: str, asked: a2a.SendMessageRequest, *, is_streamed: bool
    ) -> Exchange:
        """The run that a message starts or resumes. It continues if the client disconnects."""
        message = asked.message
        options = await self._service.options(request)
        if not message.task_id:
            context = checked_conversation(message.context_id or uuid4().hex)
            order = Order(
                run_id=new_run_id(owner, context),
                owner=owner,
                task=task_with("\n".join(filter(None, map(_text, message.parts))), _files(message)),
                conversation=context,
                stay=True,
                is_streamed=is_streamed,
                options=options,
            )
            return Exchange(await self._service.runs.keeper(asked.tenant or None).start(order))
        run = await self._find(owner, message.task_id)
        if message.context_id not in ("", _context(run)):
            raise _RpcError(_INVALID_PARAMS, "the task belongs to another context")
        end = await run.now()
        if end is None or not end.pending:
            raise _RpcError(_UNSUPPORTED, "the task does not wait for input")
        data = [_received(part) for part in message.parts if part.HasField("data")]
        given = next((one for one in data if is_object(one)), None)
        if given is None:
            raise _RpcError(_INVALID_PARAMS, 'answer with data: {token: {"kind": "approve"}} for each call')
        decisions = decisions_of(given)
        return await Exchange.resume(run, end, decisions, options, is_streamed=is_streamed)

    def _stream(self, exchange: Exchange, id: str | int | None) -> Response:
        return self._service.stream(exchange.run, _frames(exchange, id))


def _parsed(params: JsonValue, into: Any) -> Any:
    try:
        return ParseDict(params if is_object(params) else {}, into, ignore_unknown_fields=True)
    except (ParseError, RecursionError) as error:
        raise _RpcError(_INVALID_PARAMS, f"the parameters are not valid: {error_text(error)}") from None


def _text(part: a2a.Part) -> str:
    """The text of a part, or its data as JSON; empty for a file."""
    match part.WhichOneof("content"):
        case "text":
            return part.text
        case "data":
            return to_json(_received(part))
        case _:
            return ""


def _files(message: a2a.Message) -> list[tuple[str, str]]:
    """The files of a message. URLs are refused: nothing is fetched for a client."""
    if any(part.HasField("url") for part in message.parts):
        raise _RpcError(_CONTENT, "send the files of a message as data, not as a URL")
    return [(part.media_type, b64encode(part.raw).decode()) for part in message.parts if part.HasField("raw")]


def _error(id: str | int | None, code: int, message: str) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


# --- tasks -------------------------------------------------------------------------------------------


async def _task(run: Run) -> a2a.Task:
    """The run in its present state, as a task."""
    end = await run.now()
    task = a2a.Task(id=run.run_id, context_id=_context(run), status=_status(run, end))
    if end is not None and isinstance(end.outcome, Completed):
        task.artifacts.append(_artifact(end.output))
    return task


def _context(run: Run) -> str:
    return run.conversation or run.run_id


def _status(run: Run, end: RunEnd | None) -> a2a.TaskStatus:
    if end is None:
        return a2a.TaskStatus(state=_STATES["running"])
    status = a2a.TaskStatus(state=_STATES[end.state])
    if end.pending:
        status.message.CopyFrom(_message(run, _question(end.pending)))
    elif isinstance(end.outcome, Failed):
        status.message.CopyFrom(_message(run, [a2a.Part(text=end.failure)]))
    return status


def _question(pending: Sequence[PendingCall]) -> list[a2a.Part]:
    names = ", ".join(item.call.name for item in pending)
    asked = _data({"pending": [pending_of(item) for item in pending]})
    return [a2a.Part(text=f"decide on: {names}"), asked]


def _data(value: object) -> a2a.Part:
    part = a2a.Part(media_type="application/json")
    sent: Any = _each_number(_exact, to_plain(value))
    ParseDict(sent, part.data)
    return part


def _received(part: a2a.Part) -> JsonValue:
    return _each_number(_integer_if_equal, MessageToDict(part.data))


# Numbers in protobuf values are floats.


def _exact(number: float) -> JsonValue:
    """The number, or its text if it is an integer that no float is equal to."""
    try:
        return number if float(number) == number else str(number)
    except OverflowError:
        return str(number)


def _integer_if_equal(number: float) -> JsonValue:
    return int(number) if int(number) == number else number


def _each_number(change: Callable[[float], JsonValue], value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {name: _each_number(change, item) for name, item in value.items()}
        case list():
            return [_each_number(change, item) for item in value]
        case bool():
            return value
        case int() | float():
            return change(value)
        case _:
            return value


def _message(run: Run, parts: Sequence[a2a.Part]) -> a2a.Message:
    return a2a.Message(
        message_id=uuid4().hex,
        task_id=run.run_id,
        context_id=_context(run),
        role=a2a.Role.ROLE_AGENT,
        parts=parts,
    )


def _artifact(value: JsonValue) -> a2a.Artifact:
    part = a2a.Part(text=value) if isinstance(value, str) else _data(value)
    return a2a.Artifact(artifact_id=_ANSWER, parts=[part])


# --- streams -----------------------------------------------------------------------------------------


async def _frames(exchange: Exchange, id: str | int | None) -> AsyncIterator[bytes]:
    """Yield the task, the pieces of the answer as they arrive, and the status at the end."""
    run = exchange.run
    names: Any = {"task_id": run.run_id, "context_id": _context(run)}

    def frame(*found: a2a.StreamResponse) -> bytes:
        return json_frames([{"jsonrpc": "2.0", "id": id, "result": MessageToDict(one)} for one in found])

    def piece(artifact: a2a.Artifact, *, append: bool, last: bool = False) -> a2a.StreamResponse:
        update = a2a.TaskArtifactUpdateEvent(**names, artifact=artifact, append=append, last_chunk=last)
        return a2a.StreamResponse(artifact_update=update)

    working = a2a.TaskStatus(state=_STATES["running"])
    yield frame(a2a.StreamResponse(task=a2a.Task(id=run.run_id, context_id=_context(run), status=working)))
    text, text_id = "", ""  # of the artifact: the next text replaces it
    async for batch in exchange:
        found: list[a2a.StreamResponse] = []
        for part in batch:
            match part:
                case TextPiece(id=text_of, text=more):
                    is_more = text_of == text_id
                    found.append(piece(_artifact(more), append=is_more))
                    text, text_id = text + more if is_more else more, text_of
                case Ended(event=RunCompleted() as event) if value_of(event) != text:
                    found.append(piece(_artifact(value_of(event)), append=False, last=True))
                case _:
                    pass
        yield frame(*found)
    status = _status(run, await run.ending())
    yield frame(a2a.StreamResponse(status_update=a2a.TaskStatusUpdateEvent(**names, status=status)))
