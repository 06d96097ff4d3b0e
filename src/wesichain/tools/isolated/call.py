"""Call: one tool's calls in processes of their own: what is sent, how long it may take, what comes back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from math import inf
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from wesichain.core import MEDIA, JsonValue, Text, dump_json, is_object, parse_json
from wesichain.errors import ToolDefinitionError, ToolError, ToolErrorKind, ToolSerializationError
from wesichain.tools.context import ToolContext
from wesichain.tools.definition import Tool
from wesichain.tools.failures import RemoteError, clean
from wesichain.tools.finish import Finish
from wesichain.tools.function import FunctionTool
from wesichain.tools.isolation import Isolation
from wesichain.tools.json_tool import JsonTool
from wesichain.tools.running import GRACE, OutOfTimeError, in_thread

from . import pool
from .frames import ANSWERED, DIED, KILLED
from .plain import is_plain
from .pool import ChildDiedError, Keeper
from .portable import Encoder, NotPortableError, of_function

_CONTEXT = object()  # stands for the tool's context among its arguments
_TOLD = ("correlation_id", "step_id", "idempotency_key", "call_id", "attempt")  # of the context
_MOST = 33_554_432  # bytes of an answer: parts as base64; all else has the tool's own limit
_JSON = (str, int, float, bool, None, NoneType, dict, list, Any)
_JSON_OF = (dict, list, Union, UnionType)
_DECORATED = "wesichain.tools.schema.signature"  # what a module loads that makes a tool
_WHOLE = "wesichain.tools.isolated.work"
_KINDS = {kind.kind: kind for kind in MEDIA}


class IsolatedCalls:
    """The calls of one tool. Where it takes and gives JSON, its function alone is made there, and its result
    is checked here. Else, where its function can be named, the whole tool is made there, types and all; a
    function without a name elsewhere gets its arguments as they were checked here."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        given = tool.isolate if isinstance(tool.isolate, Isolation) else Isolation()
        self._names = given.env
        self._limits = {
            "memory_mb": given.memory_mb,
            "cpu_seconds": given.cpu_seconds,
            "file_mb": given.file_mb,
        }
        self._recipe()  # to refuse now what could never be run
        self._is_plain = _takes_and_gives_json(tool)

    async def run(self, raw: JsonValue, checked: Any, ctx: ToolContext | None) -> Any:
        """The result, rendered; raises what the tool raised, as far as it can be told across processes."""
        recipe, render = self._recipe()
        is_light = self._is_plain = self._is_plain and is_plain(checked)
        recipe["is_plain"] = is_light
        rules = {
            "recipe": recipe,
            "env": pool.environment(self._names),
            "limits": self._limits,
            "limit": _MOST,
        }
        key = dump_json(rules)
        keeper = pool.pool.take(key)
        if keeper is None:
            preload = _needed(recipe, self._tool) if is_light else _WHOLE
            keeper = await _made(in_thread(partial(pool.pool.make, key, rules, preload=preload)))
        request: dict[str, Any] = {"cwd": pool.cwd()}
        if is_light:
            request["args"] = checked
        else:
            request |= self._arguments(raw, checked, is_whole="tool" in recipe)
            request["context"] = _context_facts(ctx)
        try:
            answer = parse_json((await self._answer(keeper, dump_json(request).encode())).decode())
        except (OutOfTimeError, ChildDiedError):
            self._is_plain = False  # to load what an odd result needs may have been too much for it
            raise
        if "plain" in answer:
            return self._tool.render(answer["plain"])
        self._is_plain = self._is_plain and answer.get("error") not in (None, "result", "made")
        value = _read(answer, render)
        return Finish(value) if answer["finish"] else value

    def _recipe(self) -> tuple[dict[str, JsonValue], Callable[[Any], JsonValue]]:
        """How the tool is made elsewhere, and what is still to be done to its results here."""
        tool, encoder = self._tool, Encoder()
        try:
            if isinstance(tool, JsonTool):
                function: Any = encoder.encode(tool.invoke, "its function")
                return {"function": function, "main": encoder.main}, tool.render
            if isinstance(tool, FunctionTool):
                function = encoder.encode(tool.function, "its function")
                if _has_code(function):
                    return {"function": function, "main": encoder.main}, tool.render
                return {"tool": of_function(tool, function), "main": encoder.main}, _as_it_is
            return {"tool": encoder.encode(tool, "it"), "main": encoder.main}, _as_it_is
        except (NotPortableError, RecursionError) as error:
            raise ToolDefinitionError(f"tool {tool.name!r} cannot be isolated: {error}") from error

    def _arguments(self, raw: JsonValue, checked: Any, *, is_whole: bool) -> dict[str, Any]:
        tool = self._tool
        if is_whole:  # what is JSON after its check is sent as it is; all else is made of JSON over there
            is_checked = is_plain(checked)
            return {"args": checked if is_checked else raw, "is_checked": is_checked}
        if not isinstance(tool, FunctionTool):
            return {
                "positional": [Encoder().encode(checked)],
                "named": {},
                "inject": 1 if tool.takes_context else None,
            }
        positional, named = tool.plan().signature.bind(checked, _CONTEXT)
        inject: str | int | None = next((name for name, value in named.items() if value is _CONTEXT), None)
        if isinstance(inject, str):
            del named[inject]
        elif _CONTEXT in positional:
            inject = positional.index(_CONTEXT)
            del positional[inject]
        try:
            return {
                "positional": Encoder().encode(positional),
                "named": Encoder().encode(named),
                "inject": inject,
            }
        except NotPortableError as error:
            raise ToolError(f"tool {tool.name!r} cannot be given its arguments: {error}") from error

    async def _answer(self, keeper: Keeper, request: bytes) -> bytes:
        """The answer within the tool's time; when this returns or raises, the process is gone."""
        seconds = self._tool.timeout
        reply = keeper.reply(request)
        expired = False
        try:
            await asyncio.wait({reply}, timeout=None if seconds == inf else seconds)
            expired = not reply.done()
        finally:
            if not reply.done():  # out of time, or cancelled
                keeper.kill()
                await _settled(reply)
            if not reply.done():
                keeper.close()  # it sees that, and ends all that it has
            pool.pool.give_back(keeper)
        if expired:
            raise OutOfTimeError(abandoned=not reply.done())
        said = reply.result()
        if said is None or said[:1] == KILLED:
            raise ChildDiedError("its process was killed from outside")
        if said[:1] == DIED:
            raise ChildDiedError(said[1:].decode(errors="replace"))
        assert said[:1] == ANSWERED
        return said[1:]


async def _made(making: asyncio.Future[Keeper]) -> Keeper:
    """A keeper that is being made; cancelled meanwhile, it is there for the next call."""
    try:
        await asyncio.wait({making})
    except asyncio.CancelledError:
        making.add_done_callback(_keep)
        raise
    return making.result()


def _keep(made: asyncio.Future[Keeper]) -> None:
    if made.exception() is None:
        pool.pool.give_back(made.result())


async def _settled(reply: asyncio.Future[Any]) -> None:
    """Wait a moment for the end of a process that was killed, also when cancelled meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    deadline = asyncio.get_running_loop().time() + GRACE
    while not reply.done() and (left := deadline - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.wait({reply}, timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _read(answer: Any, render: Callable[[Any], JsonValue]) -> Any:
    if "value" in answer:
        return render(answer["value"])
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
    if kind == "made":
        raise ChildDiedError(f"it cannot be made in a process of its own: {message}")
    raise ToolError(message, ToolErrorKind(kind))


def _context_facts(ctx: ToolContext | None) -> dict[str, JsonValue]:
    """The facts that an isolated tool learns of its call: names and numbers; to stop it, it is killed."""
    return {} if ctx is None else {name: getattr(ctx, name) for name in _TOLD if hasattr(ctx, name)}


def _has_code(plain: Any) -> bool:
    """Whether a function, or the one inside it, has no name elsewhere."""
    return is_object(plain) and (plain.get("$") in ("code", "sent") or _has_code(plain.get("function")))


def _takes_and_gives_json(tool: Tool) -> bool:
    """Whether a tool is a function that can be called with JSON as it is, and says that it returns JSON."""
    if not isinstance(tool, FunctionTool) or tool.is_async:
        return False
    signature = tool.plan().signature
    return signature.is_simple and signature.returns is not Any and _is_json(signature.returns)


def _is_json(annotation: Any) -> bool:
    if any(annotation is kind for kind in _JSON):
        return True
    return get_origin(annotation) in _JSON_OF and all(map(_is_json, get_args(annotation)))


def _needed(recipe: dict[str, Any], tool: Tool) -> str:
    """The module of ours that a tool's own loads, as far as its names tell; a wrong guess costs time."""
    if recipe.get("function", {}).get("$") == "sent":
        return ""
    function: Any = tool.function if isinstance(tool, FunctionTool) else tool
    names: list[Any] = list(vars(sys.modules.get(str(function.__module__), sys)).values())
    homes = {str(getattr(each, "__module__", "")) for each in (*names, *map(type, names))}
    if any(home.startswith("pydantic") for home in homes):
        return _WHOLE
    return _DECORATED if any(home.startswith("wesichain") for home in homes) else ""


def _as_it_is(value: Any) -> JsonValue:
    return value  # type: ignore[no-any-return]  # it was rendered over there
