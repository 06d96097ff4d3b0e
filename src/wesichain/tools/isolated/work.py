"""Work: calls of any tool, types and all: it is made from its recipe, and a call of it answered in JSON."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

from wesichain.core import dump_json, to_plain, without_nulls
from wesichain.errors import InvalidArgsError
from wesichain.tools.context import ToolContext
from wesichain.tools.definition import Parts, Tool
from wesichain.tools.finish import Finish
from wesichain.tools.json_schema.compile import compile_schema
from wesichain.tools.media import parts_in
from wesichain.tools.schema.output import Output
from wesichain.tools.schema.plan import plan_function, plan_types

from .plain import failure
from .remake import decode, fill_main

LOADED = (compile_schema, plan_function, plan_types)  # by the server, with pydantic, for every keeper
_PLAIN = frozenset({str, int, float, bool, type(None), dict})


class IsolatedWork:
    """One tool, ready to be called. `run` gives `{"value", "finish"}`, or `{"error", "message"}`."""

    def __init__(self, recipe: dict[str, Any]) -> None:
        if recipe["main"] is not None:
            fill_main(recipe["main"])
        self._tool: Tool | None = decode(recipe["tool"]) if "tool" in recipe else None
        self._function: Any = decode(recipe["function"]) if "function" in recipe else None
        self._parts = self._tool.parts() if self._tool else None
        self._render = self._parts.render if self._parts else Output(limit=sys.maxsize).render

    def warm_up(self) -> None:
        """Do once, here, what every worker would otherwise do for the first time."""
        if self._tool is not None:
            _ = self._tool.returns  # its schema is made when it is first needed
        ToolContext()
        dump_json({"value": None, "finish": False})

    def prepare(self, request: dict[str, Any]) -> Callable[[], Any]:
        """The call, as far as it can be made ready without running anything of the tool's.

        In the keeper: what is done before the fork need not be copied by the worker.
        """
        parts = self._parts
        if parts and parts.by_name and request["is_checked"]:
            return partial(parts.call, **request["args"])
        return partial(self._called, request)

    def run(self, call: Callable[[], Any]) -> bytes:
        """In the worker: make the call, and say in JSON what came of it."""
        try:
            value = call()
            if type(value) not in _PLAIN:
                value = _whole(value)
            finish = isinstance(value, Finish)
            if isinstance(value, Finish):
                given: Finish[Any] = value  # pyright: ignore[reportUnknownVariableType]  # any value at all
                value = given.value
            parts = parts_in(value)
            answer: dict[str, Any] = {"finish": finish}
            answer |= {"parts": to_plain(parts)} if parts else {"value": self._render(value)}
        except BaseException as error:  # noqa: BLE001  # the program decides what it means
            answer = failure(error)
        return dump_json(answer).encode()

    def _called(self, request: dict[str, Any]) -> Any:
        parts = self._parts
        if parts is None:
            return self._call_function(request)
        args: Any = request["args"] if request["is_checked"] else self._checked(request["args"], parts)
        return parts.call(**args) if parts.by_name else parts.call(args, ToolContext(**request["context"]))

    def _checked(self, args: Any, parts: Parts) -> Any:
        assert self._tool is not None
        try:
            return parts.check(args)
        except Exception:  # noqa: BLE001  # what is not plainly right gets a second look
            with suppress(InvalidArgsError):
                return self._tool.check(args)
        # As the program has done, where it offered the tool in its strict form.
        return self._tool.check(without_nulls(self._tool.spec.parameters, args))

    def _call_function(self, request: dict[str, Any]) -> Any:
        positional, named, inject = decode(request["positional"]), decode(request["named"]), request["inject"]
        if isinstance(inject, int):
            positional.insert(inject, ToolContext(**request["context"]))
        elif inject is not None:
            named[inject] = ToolContext(**request["context"])
        return self._function(*positional, **named)


def _whole(value: Any) -> Any:
    """The whole result of a tool that gives it one by one, or later."""
    if inspect.isgenerator(value):
        return list(value)
    if inspect.isasyncgen(value):
        return asyncio.run(_collect(cast("AsyncGenerator[Any, Any]", value)))
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]  # any value at all
    return asyncio.run(_finish(value)) if hasattr(kind, "__await__") else value


async def _collect(items: AsyncGenerator[Any, Any]) -> list[Any]:
    return [item async for item in items]


async def _finish(value: Any) -> Any:
    return await value
