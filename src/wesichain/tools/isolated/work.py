"""Work: creates a tool in a child process, and runs a call whose result is JSON."""

from __future__ import annotations

import asyncio
import inspect
import os
from base64 import b64decode
from contextlib import suppress
from typing import Any

from wesichain.core.internal import dump_json, parse_json, to_plain, without_nulls
from wesichain.errors import InvalidArgsError, ToolError, ToolSerializationError
from wesichain.tools.context import ToolContext
from wesichain.tools.definition import Tool
from wesichain.tools.failures import clean, describe
from wesichain.tools.json_schema.compile import compile_schema
from wesichain.tools.return_values import Finish, parts_in
from wesichain.tools.schema.arguments import arguments_from, arguments_of

from .names import FunctionName, Recipe, find

PRELOADED = (compile_schema, arguments_from, arguments_of)  # imported once by the server, with pydantic


class IsolatedWork:
    """A tool in a keeper or worker, ready to be called."""

    def __init__(self, sent: dict[str, Any]) -> None:
        self._tool = _create_tool(sent)
        self._parts = self._tool.parts()
        _ = self._tool.returns  # created here, so that not every worker creates it

    def answer(self, request: bytes) -> bytes:
        """Run a call. The reply is an object with parts or an error, or one line with a value after it."""
        try:
            head, _, args = request.decode().partition("\n")
            answer = self._run_call(parse_json(head), parse_json(args))
            value = f"\n{dump_json(answer.pop('value'))}" if "value" in answer else ""
        except BaseException as error:  # noqa: BLE001  # raised in the program
            answer, value = _failure(error), ""
        return (dump_json(answer) + value).encode()

    def _run_call(self, head: Any, raw: Any) -> dict[str, Any]:
        with suppress(OSError):
            os.chdir(head["cwd"])
        check, call, render, by_name, _ = self._parts
        try:
            args = check(raw)
        except Exception:  # noqa: BLE001  # `_check` decides
            args = self._check(raw)
        value = _collect(call(**args) if by_name else self._tool.call(args, ToolContext(**head["context"])))
        finish = isinstance(value, Finish)
        if isinstance(value, Finish):
            value = value.value  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  # any value at all
        parts = parts_in(value)
        return {"finish": finish, **({"parts": to_plain(parts)} if parts else {"value": render(value)})}

    def _check(self, args: Any) -> Any:
        with suppress(InvalidArgsError):
            return self._tool.check(args)
        # The program may have offered the strict form of the tool.
        return self._tool.check(without_nulls(self._tool.spec.parameters, args))


def _create_tool(sent: dict[str, Any]) -> Tool:
    if "pickle" in sent:
        from .by_value import load

        return load(b64decode(sent["pickle"]))
    return Recipe(sent["kind"], find(FunctionName(*sent["name"])), sent["options"]).make()


def rebuild_failure(error: BaseException) -> bytes:
    """Return the reply for a tool that cannot be created in the worker."""
    return dump_json({"error": "rebuild", "message": describe(error)}).encode()


def _failure(error: BaseException) -> dict[str, Any]:
    if isinstance(error, ToolSerializationError):
        return {"error": "result", "message": clean(str(error))}
    if isinstance(error, ToolError):
        return {"error": error.kind.value, "message": clean(str(error))}
    return {"error": "raised", "message": describe(error)}


def _collect(value: Any) -> Any:
    """Collect the items of a generator, or await a value."""
    if inspect.isgenerator(value):
        return list(value)
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value
