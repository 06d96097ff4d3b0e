"""Call: runs the calls of an isolated tool in separate processes, within its timeout."""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from math import inf
from typing import Any

from wesichain.core import JsonValue, Text
from wesichain.core.internal import MEDIA, dump_json, parse_json
from wesichain.errors import ConfigError, ToolError, ToolErrorKind, ToolSerializationError
from wesichain.tools.context import ToolContext
from wesichain.tools.definition import Isolation, Tool
from wesichain.tools.failures import RemoteError, clean
from wesichain.tools.return_values import Finish
from wesichain.tools.running import GRACE, OutOfTimeError, settled

from .frames import ANSWERED, DIED, KILLED
from .names import name_of, recipe_of
from .pool import ChildDiedError, Keeper, ToolRebuildError, environment, pool

_CONTEXT_FIELDS = (
    "correlation_id",
    "step_id",
    "idempotency_key",
    "call_id",
    "attempt",
)  # plain data; a call is cancelled by killing its process
_MAX_BYTES = 33_554_432  # of a result, with parts as base64; other values have the limit of the tool
_KINDS = {kind.kind: kind for kind in MEDIA}


class IsolatedCalls:
    """The calls of one tool. It is created in another process, where the arguments are checked again."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._isolation = tool.isolate if isinstance(tool.isolate, Isolation) else Isolation()
        self._recipe = recipe_of(tool)
        self._name = name_of(self._recipe.function) if self._recipe else None
        self._serialized()  # raises now if the tool cannot be sent

    async def run(self, raw: JsonValue, ctx: ToolContext | None) -> Any:
        """Return the result as JSON. Raises `ToolError` or `RemoteError` for exceptions of the tool."""
        keeper = await self._keeper()
        head = {
            "cwd": _working_folder(),
            "context": {name: getattr(ctx, name) for name in _CONTEXT_FIELDS if hasattr(ctx, name)},
        }
        # A separate JSON text: inside another value the arguments could exceed the depth limit.
        request = f"{dump_json(head)}\n{dump_json(raw)}".encode()
        answer = _parse(await self._reply(keeper, request))
        value = _value_of(answer)
        return Finish(value) if answer["finish"] else value

    async def _keeper(self) -> Keeper:
        try:
            return await pool.take(self._rules())
        except ToolRebuildError as error:
            if self._name is None or not self._name.is_main:
                raise
            # The program's file cannot be imported again: it runs the program, or needs its state.
            self._name = None
            try:
                return await pool.take(self._rules())
            except ConfigError as refusal:
                raise error from refusal

    def _rules(self) -> dict[str, JsonValue]:
        """Return the configuration of a keeper. Calls with equal rules can use the same keeper."""
        limits = self._isolation
        return {
            "tool": self._serialized(),
            "env": environment(limits.env),
            "limits": {
                "memory_mb": limits.memory_mb,
                "cpu_seconds": limits.cpu_seconds,
                "file_mb": limits.file_mb,
            },
            "limit": _MAX_BYTES,
        }

    def _serialized(self) -> dict[str, JsonValue]:
        """Return the tool in a form for another process: by the name of its function, or pickled."""
        if self._recipe is not None and self._name is not None:
            return {"kind": self._recipe.kind, "name": list(self._name), "options": self._recipe.options}
        from .by_value import dump  # needs cloudpickle

        return {"pickle": b64encode(dump(self._tool)).decode()}

    async def _reply(self, keeper: Keeper, request: bytes) -> bytes:
        """Return the reply within the tool's timeout. The process has ended when this returns or raises."""
        seconds = self._tool.timeout
        reply = asyncio.ensure_future(keeper.ask(request))
        expired = False
        try:
            await asyncio.wait({reply}, timeout=None if seconds == inf else seconds)
            expired = not reply.done()
        finally:
            if not reply.done():  # out of time, or cancelled
                keeper.kill()
                await settled(reply, seconds=GRACE)
            if not reply.done():
                reply.cancel()
                keeper.close()  # the keeper ends its processes and itself
            pool.give_back(keeper)
        if expired:
            raise OutOfTimeError(abandoned=not reply.done())
        answer = reply.result()
        if answer is None or answer[:1] == KILLED:
            raise ChildDiedError("its process was killed by another process")
        if answer[:1] == DIED:
            raise ChildDiedError(answer[1:].decode(errors="replace"))
        assert answer[:1] == ANSWERED
        return answer[1:]


def _parse(answer: bytes) -> Any:
    """Parse the reply of a worker, which is JSON and cannot be trusted."""
    try:
        head, _, value = answer.decode().partition("\n")
        found: Any = parse_json(head)
        return {**found, "value": parse_json(value)} if value else found
    except (TypeError, ValueError) as error:
        raise ChildDiedError(f"its result is not JSON: {error}") from error


def _value_of(answer: Any) -> Any:
    if "value" in answer:
        return answer["value"]
    if "parts" in answer:
        return [
            Text(part["text"]) if part["kind"] == Text.kind else _KINDS[part["kind"]].from_plain(part)
            for part in answer["parts"]
        ]
    kind, message = answer["error"], clean(answer["message"])
    if kind == "result":
        raise ToolSerializationError(message)
    if kind == "raised":
        raise RemoteError(message)
    if kind == "rebuild":
        raise ToolRebuildError(message)
    raise ToolError(message, ToolErrorKind(kind))


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  # sent as text
    except OSError:  # it has been deleted
        return "/"
