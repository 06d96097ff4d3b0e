"""Served calls: requests of clients, and the requests and notifications that tools send to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, TypeVar, get_args
from uuid import uuid4

from pydantic import BaseModel, ValidationError
from typing_extensions import override

from wesichain.core import Message, Role
from wesichain.core.internal import (
    Approve,
    Decision,
    Mutable,
    PendingCall,
    Provide,
    Question,
    Refuse,
    dump_json,
    field,
)
from wesichain.errors import ToolError, ToolErrorKind
from wesichain.tools.json_schema.compile import validate

from .callbacks import CONSENT
from .decode import read_content
from .encode import to_block
from .sdk import MODERN_PROTOCOL_VERSIONS, MCPError, ServerMessageMetadata, ServerRequestContext, types

R = TypeVar("R", bound=BaseModel)
LOGGER = "wesichain.mcp"  # its records, and those of child loggers, are sent to the client during a call
RESULT = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)  # from debug to emergency
_current: ContextVar[ServedCall | None] = ContextVar("wesichain.mcp.served_call", default=None)


class MissingCapabilityError(ToolError):
    """The client lacks a capability that the tool needs: elicitation, sampling or roots."""

    def __init__(self, capability: str, message: str) -> None:
        super().__init__(message, ToolErrorKind.UNAVAILABLE)
        self.capability = capability

    def to_wire(self) -> MCPError:
        """Convert it to the error of the protocol (2026-07-28)."""
        data: dict[str, Any] = {"requiredCapabilities": {self.capability: {}}}
        return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, str(self), data)


class ServedCall(Mutable):
    """One request and its client. Messages to the client are sent in order, and before the result.

    It is the `link` of a tool's context, and sends `ctx.progress(...)`. With protocol 2026-07-28 a question
    ends the request: the client repeats it with the answer and with `state`, and the work continues.
    """

    messages: ClassVar[tuple[()]] = ()
    spent: ClassVar[None] = None

    _ctx: ServerRequestContext[Any]
    _level: types.LoggingLevel | None
    _approved: bool
    state: str = ""
    _last: asyncio.Task[None] | None = None
    _task: asyncio.Task[Any] | None = None
    _asked: int = 0
    _questions: dict[str, tuple[types.InputRequest, asyncio.Future[Any]]] = field(
        default_factory=dict[str, Any]
    )
    _event: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    @property
    def is_modern(self) -> bool:
        return self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start the work in a task, which can outlive a request of the client."""
        _current.set(self)
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(lambda _: self._event.set())
        _current.set(None)

    async def result(self) -> Any:
        """Return the result of the work, or its questions for a client that receives questions as results."""
        assert self._task is not None
        try:
            while not self._task.done():
                if self._questions:
                    await asyncio.sleep(0)  # collect questions that are asked at the same time
                    self.state = uuid4().hex
                    asked = {key: request for key, (request, _) in self._questions.items()}
                    return types.InputRequiredResult(input_requests={**asked}, request_state=self.state)
                self._event.clear()
                await self._event.wait()
        except asyncio.CancelledError:
            await self.cancel()
            raise
        return self._task.result()

    def resume(self, ctx: ServerRequestContext[Any], answers: Mapping[str, Any]) -> None:
        """Continue with a repeated request and its answers; questions without an answer are sent again."""
        self._ctx = ctx
        for key, answer in answers.items():
            _, future = self._questions.pop(key, (None, None))
            if future is not None and not future.done():
                future.set_result(answer)

    async def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    # --- messages to the client --------------------------------------------------------------------

    def progress(self, done: float, total: float | None, message: str) -> None:
        self._send(self._ctx.session.report_progress(done, total, message or None))

    def log(self, level: types.LoggingLevel, text: str, logger: str) -> None:
        if self._level is not None and _LEVELS.index(level) >= _LEVELS.index(self._level):
            params = types.LoggingMessageNotificationParams(level=level, data=text, logger=logger)
            message = types.LoggingMessageNotification(params=params)
            self._send(self._ctx.session.send_notification(message, related_request_id=self._ctx.request_id))

    def _send(self, sending: Coroutine[Any, Any, None]) -> None:
        self._loop.call_soon_threadsafe(self._queue, sending)

    def _queue(self, sending: Coroutine[Any, Any, None]) -> None:
        self._last = self._loop.create_task(_after(self._last, sending))

    async def close(self) -> None:
        """Wait until all messages have been sent."""
        await asyncio.sleep(0)  # messages that a thread has just sent
        while (last := self._last) is not None:
            await asyncio.wait({last})
            if self._last is last:
                return

    async def end_stream(self) -> None:
        """Close the stream of this call; the client reconnects for the result."""
        if self._ctx.close_sse_stream is not None:
            await self._ctx.close_sse_stream()

    # --- questions to the client -------------------------------------------------------------------

    @property
    def can_ask(self) -> bool:
        return self._has_capability(types.ClientCapabilities(elicitation=types.ElicitationCapability()))

    def _has_capability(self, capability: types.ClientCapabilities) -> bool:
        return self._ctx.session.check_client_capability(capability)

    async def ask(self, question: Question, number: int = 0) -> Decision:
        """Return the answer of the client's user to a question of an inner call."""
        del number
        answer = await self.elicit(question.message, question.schema)
        return Refuse("the user declined") if answer is None else Provide(answer)

    async def decide(self, pending: Sequence[PendingCall]) -> dict[str, Decision]:
        """Return the decisions of the client's user on the pending calls of an agent, at any depth."""
        return {item.token: await self._decision(item) for item in pending}

    async def _decision(self, item: PendingCall) -> Decision:
        if item.question is not None:
            return await self.ask(item.question)
        if self._approved and not item.external:
            return Approve()
        call = f"{item.call.name}({dump_json(item.call.args)})"
        if not self.can_ask:
            need = "an external result" if item.external else "human approval"
            raise ToolError(
                f"{call} needs {need}, and this client cannot ask its user", ToolErrorKind.PERMISSION
            )
        who = f" (for {' > '.join(item.scope)})" if item.scope else ""
        if item.external:
            answer = await self.elicit(f"What is the result of {call}{who}?", RESULT)
            return Refuse("the user declined") if answer is None else Provide(answer["result"])
        answer = await self.elicit(f"Allow {call}{who}?", CONSENT)
        return Approve() if answer and answer["approve"] else Refuse("the user declined")

    async def elicit(self, message: str, schema: Mapping[str, Any], key: str = "") -> dict[str, Any] | None:
        """Return the answer of the client's user; None if they decline."""
        if not self.can_ask:
            raise MissingCapabilityError("elicitation", "the client cannot ask its user")
        params = types.ElicitRequestFormParams(message=message, requested_schema=dict(schema))
        result = await self._ask_client(types.ElicitRequest(params=params), types.ElicitResult, key)
        if result.action != "accept":
            return None
        answer = dict(result.content or {})
        issues = validate(dict(schema), answer)
        if issues:
            raise ToolError(f"the user's answer does not match the schema: {issues[0]}")
        return answer

    async def sample(
        self, messages: Sequence[Message], *, max_tokens: int, system: str = "", key: str = ""
    ) -> str:
        """Return the reply of the client's model."""
        if not self._has_capability(types.ClientCapabilities(sampling=types.SamplingCapability())):
            raise MissingCapabilityError("sampling", "the client has no model for servers")
        blocks: list[Any] = [
            types.SamplingMessage(role="assistant" if each.role is Role.ASSISTANT else "user", content=block)
            for each in messages
            for block in map(to_block, [each.content] if isinstance(each.content, str) else each.content)
            if isinstance(block, types.TextContent | types.ImageContent | types.AudioContent)
        ]
        params = types.CreateMessageRequestParams(
            messages=blocks, max_tokens=max_tokens, system_prompt=system or None
        )
        request = types.CreateMessageRequest(params=params)
        result = await self._ask_client(request, types.CreateMessageResult, key)
        reply = read_content(result.content)
        return reply if isinstance(reply, str) else f"[{reply.label}]"

    async def roots(self, key: str = "") -> tuple[str, ...]:
        """Return the URIs of the folders that the client works in."""
        if not self._has_capability(types.ClientCapabilities(roots=types.RootsCapability())):
            raise MissingCapabilityError("roots", "the client does not offer the folders that it works in")
        result = await self._ask_client(types.ListRootsRequest(), types.ListRootsResult, key)
        return tuple(str(root.uri) for root in result.roots)

    async def _ask_client(self, request: Any, result_type: type[R], key: str) -> R:
        """Return the client's answer: by a request to it or, since 2026-07-28, by its repeated request."""
        try:
            if not self.is_modern:
                related = ServerMessageMetadata(related_request_id=self._ctx.request_id)
                return await self._ctx.session.send_request(request, result_type, metadata=related)
            self._asked += 1
            key = key or f"input-{self._asked}"
            while key in self._questions:  # two open questions need two keys
                key = f"{key}-{self._asked}"
            answer: asyncio.Future[Any] = self._loop.create_future()
            self._questions[key] = (request, answer)
            self._event.set()
            response = await answer
            return response if isinstance(response, result_type) else result_type.model_validate(response)
        except MCPError as error:
            raise ToolError(
                f"the request to the client failed: {error.message}", ToolErrorKind.UNAVAILABLE
            ) from error
        except ValidationError:
            raise ToolError("the client's answer is not valid") from None


async def _after(before: asyncio.Task[None] | None, sending: Coroutine[Any, Any, None]) -> None:
    if before is not None:
        await asyncio.wait({before})
    try:
        await sending
    except (MCPError, OSError, RuntimeError):  # the client has left
        return


def _call() -> ServedCall:
    call = _current.get()
    if call is None:
        raise ToolError("this needs a call by an MCP client", ToolErrorKind.UNAVAILABLE)
    return call


async def elicit(message: str, schema: Mapping[str, Any], *, key: str = "") -> dict[str, Any] | None:
    """Ask the user of the client, in a served tool, prompt or resource; returns None if they decline.

    The answer has the fields of `schema`. `key` identifies the question to clients of protocol 2026-07-28.
    """
    return await _call().elicit(message, schema, key)


async def sample(
    prompt: str | Sequence[Message], *, max_tokens: int = 1_000, system: str = "", key: str = ""
) -> str:
    """Call the client's model, in a served tool, prompt or resource; returns the text of its reply."""
    messages = [Message(Role.USER, prompt)] if isinstance(prompt, str) else prompt
    return await _call().sample(messages, max_tokens=max_tokens, system=system, key=key)


async def roots(*, key: str = "") -> tuple[str, ...]:
    """Return the URIs of the client's folders, in a served tool, prompt or resource."""
    return await _call().roots(key)


async def release_stream() -> None:
    """Close the connection of a long call, in a served tool; the client fetches the result later."""
    await _call().end_stream()


class ToClients(logging.Handler):
    """Sends log records to the client whose call is running."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        call = _current.get()
        if call is not None:
            level = record.levelname.lower()
            call.log(level if level in _LEVELS else "info", record.getMessage(), record.name)
