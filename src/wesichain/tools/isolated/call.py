"""Call: one tool's calls in processes of their own: what is sent, how long it may take, what comes back."""

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

_CONTEXT = (
    "correlation_id",
    "step_id",
    "idempotency_key",
    "call_id",
    "attempt",
)  # facts; it is stopped by a kill
_MOST = 33_554_432  # bytes of an answer: parts as base64; all else has the tool's own limit
_KINDS = {kind.kind: kind for kind in MEDIA}


class IsolatedCalls:
    """The calls of one tool: it is made in another process, where its arguments are checked once more."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._isolation = tool.isolate if isinstance(tool.isolate, Isolation) else Isolation()
        self._recipe = recipe_of(tool)
        self._name = name_of(self._recipe.function) if self._recipe else None
        self._sent()  # to refuse now what could never be run

    async def run(self, raw: JsonValue, ctx: ToolContext | None) -> Any:
        """The result as JSON; raises what the tool raised, as far as another process can say it."""
        keeper = await self._keeper()
        head = {
            "cwd": _working_folder(),
            "context": {name: getattr(ctx, name) for name in _CONTEXT if hasattr(ctx, name)},
        }
        # In a text of its own: inside another value it would be a level deeper than it may be.
        request = f"{dump_json(head)}\n{dump_json(raw)}".encode()
        answer = _parsed(await self._reply(keeper, request))
        value = _read(answer)
        return Finish(value) if answer["finish"] else value

    async def _keeper(self) -> Keeper:
        try:
            return await pool.take(self._rules())
        except ToolRebuildError as error:
            if self._name is None or not self._name.is_main:
                raise
            # The program's own file cannot be read again: it runs, or needs what only the program has.
            self._name = None
            try:
                return await pool.take(self._rules())
            except ConfigError as refusal:
                raise error from refusal

    def _rules(self) -> dict[str, JsonValue]:
        """What a keeper is made with: two calls with the same may have the same keeper."""
        limits = self._isolation
        return {
            "tool": self._sent(),
            "env": environment(limits.env),
            "limits": {
                "memory_mb": limits.memory_mb,
                "cpu_seconds": limits.cpu_seconds,
                "file_mb": limits.file_mb,
            },
            "limit": _MOST,
        }

    def _sent(self) -> dict[str, JsonValue]:
        """The tool for another process: by the name of its function, or by value as it is now."""
        if self._recipe is not None and self._name is not None:
            return {"kind": self._recipe.kind, "name": list(self._name), "options": self._recipe.options}
        from .by_value import dump  # it needs cloudpickle

        return {"pickle": b64encode(dump(self._tool)).decode()}

    async def _reply(self, keeper: Keeper, request: bytes) -> bytes:
        """The answer within the tool's time; when this returns or raises, the process is gone."""
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
                keeper.close()  # it sees that, and ends all that it has
            pool.give_back(keeper)
        if expired:
            raise OutOfTimeError(abandoned=not reply.done())
        answer = reply.result()
        if answer is None or answer[:1] == KILLED:
            raise ChildDiedError("its process was killed from outside")
        if answer[:1] == DIED:
            raise ChildDiedError(answer[1:].decode(errors="replace"))
        assert answer[:1] == ANSWERED
        return answer[1:]


def _parsed(answer: bytes) -> Any:
    """What a worker answered; it can only be data, whatever the worker wrote."""
    try:
        head, _, value = answer.decode().partition("\n")
        found: Any = parse_json(head)
        return {**found, "value": parse_json(value)} if value else found
    except (TypeError, ValueError) as error:
        raise ChildDiedError(f"its answer is not JSON: {error}") from error


def _read(answer: Any) -> Any:
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
        return os.getcwd()  # noqa: PTH109  # a text is sent
    except OSError:  # it has been deleted
        return "/"
