"""Elicitation: what a served tool says to its client while it runs: progress, log lines, questions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, get_args
from uuid import uuid4

from typing_extensions import override

from wesichain.core import Approve, Decision, PendingCall, Provide, Question, Refuse, dump_json
from wesichain.errors import ToolError, ToolErrorKind
from wesichain.tools.json_schema.compile import validate

from .sdk import MODERN_PROTOCOL_VERSIONS, MCPError, ServerRequestContext, types

LOGGER = "wesichain.mcp"  # what is logged there, or below, while a tool is called goes to the client
CONSENT = {"type": "object", "properties": {"approve": {"type": "boolean"}}, "required": ["approve"]}
RESULT = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)  # from debug to emergency
_calls: ContextVar[ServedCall | None] = ContextVar("wesichain.mcp.call", default=None)


class ServedCall:
    """One call, and its client. What is said goes out in order, and before the call's result.

    It is the `link` of the tool's context: `ctx.progress(...)` comes here.
    """

    messages: tuple[()] = ()
    spent = None

    def __init__(
        self, ctx: ServerRequestContext[Any], *, level: types.LoggingLevel | None, approved: bool = False
    ) -> None:
        self._ctx = ctx
        self._approved = approved
        self._level = level
        self._loop = asyncio.get_running_loop()
        self._last: asyncio.Task[None] | None = None
        self._questions: dict[str, tuple[types.ElicitRequest, asyncio.Future[Any]]] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[types.CallToolResult] | None = None
        self.state = uuid4().hex  # what a client that comes back with answers names it by

    def begin(self, work: Coroutine[Any, Any, types.CallToolResult]) -> None:
        """Run the call, which may go on while its client comes and goes."""
        _calls.set(self)
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(lambda _: self._news.set())
        _calls.set(None)

    async def result(self) -> types.CallToolResult | types.InputRequiredResult:
        """The result of the call; or its question, for a client that takes questions as results alone."""
        assert self._task is not None
        try:
            while not self._task.done():
                if self._questions:
                    asked = {key: request for key, (request, _) in self._questions.items()}
                    return types.InputRequiredResult(input_requests={**asked}, request_state=self.state)
                self._news.clear()
                await self._news.wait()
        except asyncio.CancelledError:
            await self.cancel()
            raise
        return self._task.result()

    def resume(self, ctx: ServerRequestContext[Any], answers: Mapping[str, Any]) -> None:
        """The client has come back, with answers."""
        self._ctx = ctx
        for key, answer in answers.items():
            _, future = self._questions.pop(key, (None, None))
            if future is not None and not future.done():
                future.set_result(answer)

    async def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def progress(self, done: float, total: float | None, message: str) -> None:
        self._say(self._ctx.session.report_progress(done, total, message or None))

    def log(self, level: types.LoggingLevel, text: str, logger: str) -> None:
        if self._level is not None and _LEVELS.index(level) >= _LEVELS.index(self._level):
            params = types.LoggingMessageNotificationParams(level=level, data=text, logger=logger)
            said = types.LoggingMessageNotification(params=params)
            self._say(self._ctx.session.send_notification(said, related_request_id=self._ctx.request_id))

    def _say(self, saying: Coroutine[Any, Any, None]) -> None:
        """In the loop, after what was said before; from any thread."""
        self._loop.call_soon_threadsafe(self._queue, saying)

    def _queue(self, saying: Coroutine[Any, Any, None]) -> None:
        self._last = self._loop.create_task(_after(self._last, saying))

    async def close(self) -> None:
        """Wait until all has been said."""
        await asyncio.sleep(0)  # what a thread has just said is on its way
        while (last := self._last) is not None:
            await asyncio.wait({last})
            if self._last is last:
                return

    @property
    def can_ask(self) -> bool:
        capability = types.ClientCapabilities(elicitation=types.ElicitationCapability())
        return self._ctx.session.check_client_capability(capability)

    async def ask(self, question: Question, number: int = 0) -> Decision:
        """The answer to a question of a call below this one: the client's user gives it."""
        del number
        answer = await self.elicit(question.message, question.schema)
        return Refuse("the user declined") if answer is None else Provide(answer)

    async def decide(self, pending: Sequence[PendingCall]) -> dict[str, Decision]:
        """The decisions of the client's user on the calls that an agent waits with, at any depth."""
        return {item.token: await self._decision(item) for item in pending}

    async def _decision(self, item: PendingCall) -> Decision:
        if item.question is not None:
            return await self.ask(item.question)
        if self._approved and not item.external:
            return Approve()
        call = f"{item.call.name}({dump_json(item.call.args)})"
        if not self.can_ask:
            need = "a result from outside" if item.external else "a person's approval"
            raise ToolError(
                f"{call} needs {need}, and this client cannot ask its user", ToolErrorKind.PERMISSION
            )
        who = f" (for {' > '.join(item.scope)})" if item.scope else ""
        if item.external:
            given = await self.elicit(f"What is the result of {call}{who}?", RESULT)
            return Refuse("the user declined") if given is None else Provide(given["result"])
        given = await self.elicit(f"Allow {call}{who}?", CONSENT)
        return Approve() if given and given["approve"] else Refuse("the user declined")

    async def elicit(self, message: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer of the person behind the client; None where they would not."""
        if not self.can_ask:
            raise ToolError("the client cannot ask its user anything", ToolErrorKind.UNAVAILABLE)
        try:
            result = await self._elicited(message, dict(schema))
        except MCPError as error:
            raise ToolError(
                f"the user could not be asked: {error.message}", ToolErrorKind.UNAVAILABLE
            ) from error
        if result.action != "accept":
            return None
        answer = dict(result.content or {})
        issues = validate(dict(schema), answer)
        if issues:
            raise ToolError(f"the user's answer is not what was asked for: {issues[0]}")
        return answer

    async def _elicited(self, message: str, schema: dict[str, Any]) -> types.ElicitResult:
        if self._ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await self._ctx.session.elicit_form(
                message, schema, related_request_id=self._ctx.request_id
            )
        params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
        answer: asyncio.Future[Any] = self._loop.create_future()
        key = uuid4().hex
        self._questions[key] = (types.ElicitRequest(params=params), answer)
        self._news.set()
        given = await answer
        return given if isinstance(given, types.ElicitResult) else types.ElicitResult(action="cancel")

    async def end_stream(self) -> None:
        """Close the stream of this call; the client comes back for the rest."""
        if self._ctx.close_sse_stream is not None:
            await self._ctx.close_sse_stream()


async def _after(before: asyncio.Task[None] | None, saying: Coroutine[Any, Any, None]) -> None:
    if before is not None:
        await asyncio.wait({before})
    try:
        await saying
    except (MCPError, OSError, RuntimeError):  # the client has left: nobody is there to be told
        return


def _current() -> ServedCall:
    call = _calls.get()
    if call is None:
        raise ToolError("this tool asks its MCP client, and was called by none", ToolErrorKind.UNAVAILABLE)
    return call


async def elicit(message: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """In a served tool: ask the person behind the client for the fields of a schema; None if they decline."""
    return await _current().elicit(message, schema)


async def release_stream() -> None:
    """In a served tool that takes long: let the connection go; the client asks for the result later."""
    await _current().end_stream()


class ToClients(logging.Handler):
    """Sends what is logged during a call to the client that makes it."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        call = _calls.get()
        if call is not None:
            level = record.levelname.lower()
            call.log(level if level in _LEVELS else "info", record.getMessage(), record.name)
