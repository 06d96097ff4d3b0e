"""Work: in a child process, a tool is made from what it was sent as, and a call of it is answered in JSON."""

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

LOADED = (compile_schema, arguments_from, arguments_of)  # by the server, with pydantic, for every keeper


class IsolatedWork:
    """One tool, ready to be called."""

    def __init__(self, sent: dict[str, Any]) -> None:
        self._tool = _tool_of(sent)
        self._parts = self._tool.parts()
        _ = self._tool.returns  # its schema is made when it is first needed, and each worker would make it

    def answer(self, request: bytes) -> bytes:
        """Make a call; the answer has "finish" and "parts", or an error; a value is on a line of its own."""
        try:
            head, _, args = request.decode().partition("\n")
            answer = self._called(parse_json(head), parse_json(args))
            value = f"\n{dump_json(answer.pop('value'))}" if "value" in answer else ""
        except BaseException as error:  # noqa: BLE001  # the program decides what it means
            answer, value = _failure(error), ""
        return (dump_json(answer) + value).encode()

    def _called(self, head: Any, raw: Any) -> dict[str, Any]:
        with suppress(OSError):
            os.chdir(head["cwd"])
        check, call, render, by_name, _ = self._parts
        try:
            args = check(raw)
        except Exception:  # noqa: BLE001  # what is not plainly right gets a second look
            args = self._checked(raw)
        value = _collected(call(**args) if by_name else self._tool.call(args, ToolContext(**head["context"])))
        finish = isinstance(value, Finish)
        if isinstance(value, Finish):
            value = value.value  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  # any value at all
        parts = parts_in(value)
        return {"finish": finish, **({"parts": to_plain(parts)} if parts else {"value": render(value)})}

    def _checked(self, args: Any) -> Any:
        with suppress(InvalidArgsError):
            return self._tool.check(args)
        # The program may have offered the tool in its strict form.
        return self._tool.check(without_nulls(self._tool.spec.parameters, args))


def _tool_of(sent: dict[str, Any]) -> Tool:
    if "pickle" in sent:
        from .by_value import load

        return load(b64decode(sent["pickle"]))
    return Recipe(sent["kind"], find(FunctionName(*sent["name"])), sent["options"]).make()


def rebuild_failure(error: BaseException) -> bytes:
    """The answer of a tool that cannot be made where it should run."""
    return dump_json({"error": "rebuild", "message": describe(error)}).encode()


def _failure(error: BaseException) -> dict[str, Any]:
    if isinstance(error, ToolSerializationError):
        return {"error": "result", "message": clean(str(error))}
    if isinstance(error, ToolError):
        return {"error": error.kind.value, "message": clean(str(error))}
    return {"error": "raised", "message": describe(error)}


def _collected(value: Any) -> Any:
    """The result of a tool that gives it one by one, or later, all at once."""
    if inspect.isgenerator(value):
        return list(value)
    return asyncio.run(_result(value)) if inspect.isawaitable(value) else value


async def _result(value: Any) -> Any:
    return await value
