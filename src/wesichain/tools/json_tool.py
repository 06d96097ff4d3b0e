"""JsonTool: a tool with a JSON schema that is known only at run time, as with MCP and OpenAPI."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack, override

from wesichain.core import JsonValue, ToolSpec
from wesichain.core.internal import dump_json, is_object, parse_json, positions_of
from wesichain.errors import CodecError, ToolDefinitionError, ToolSerializationError

from .context import ToolContext
from .definition import Tool, ToolOptions
from .json_schema.issues import RejectedError, as_text, preview
from .schema.describe import signature_line
from .schema.output import Output
from .schema.plan import SchemaPlan
from .schema.signature import is_or_calls

if TYPE_CHECKING:
    from .json_schema.compile import Validator


class JsonTool(Tool[object]):
    """A tool with a JSON schema; `invoke(args)` or `invoke(args, ctx)`, sync or async, runs it.

    Arguments are validated, and results too if `returns`, their schema, is given. An external tool needs no
    function.
    """

    def __init__(
        self,
        name: str,
        description: str,
        schema: Mapping[str, Any],
        invoke: Callable[..., Any] | None = None,
        *,
        returns: Mapping[str, Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        self.configure(name, description, **options)
        if invoke is None and self.external:
            invoke = never_run
        if not callable(invoke):
            raise ToolDefinitionError(
                f"tool {name!r}: invoke is {preview(invoke)}; pass a function of the arguments"
            )
        parameters = _copy(name, schema)
        result_schema = None if returns is None else _copy(name, returns)
        self._arguments = _compile(name, parameters)
        self._result = None if result_schema is None else _compile(name, result_schema)
        self._uncut, self._cut = Output(limit=sys.maxsize), Output(limit=self.max_output)
        self._plan = SchemaPlan(
            ToolSpec(name, description, parameters),
            signature_line(name, parameters),
            self._check_args,
            self._render_result if self._result else self._cut.render,
            lambda: result_schema,
        )
        self.invoke = invoke
        self.takes_context = positions_of(invoke)[0] > 1
        self.is_async = is_or_calls(inspect.iscoroutinefunction, invoke)

    @override
    def plan(self) -> SchemaPlan:
        return self._plan

    @override
    def call(self, args: Any, ctx: ToolContext | None) -> Any:
        return self.invoke(args, ctx or ToolContext()) if self.takes_context else self.invoke(args)

    def _check_args(self, args: JsonValue) -> Any:
        plain = parse_json(as_text(args))  # a copy, which the tool may change
        issues = self._arguments.issues(plain)
        if issues:
            raise RejectedError(*issues)
        return plain

    def _render_result(self, value: Any) -> JsonValue:
        rendered = self._uncut.render(value)  # checked before it is cut to the limit
        issues = self._result.issues(rendered) if self._result else []
        if issues:
            raise ToolSerializationError(f"its result does not match its schema: {issues[0]}")
        return self._cut.render(rendered)


async def never_run(_: JsonValue) -> JsonValue:
    """The function of an external tool, which is never called."""
    raise AssertionError


def _copy(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the schema as plain data."""
    try:
        copied: Any = parse_json(dump_json(schema, default=dict))
    except CodecError as error:
        raise ToolDefinitionError(f"tool {name!r}: its schema is not JSON: {error}") from None
    if not is_object(copied):
        raise ToolDefinitionError(f"tool {name!r}: its schema is {preview(copied)}, not an object")
    return copied


def _compile(name: str, schema: dict[str, Any]) -> Validator:
    from .json_schema.compile import compile_schema

    try:
        return compile_schema(schema)
    except ToolDefinitionError as error:
        raise ToolDefinitionError(f"tool {name!r}: {error}") from None


def validate_json(schema: Mapping[str, Any] | bool, value: Any) -> list[str]:
    """Validate a JSON value, and return its errors as messages; an empty list means that it is valid.

    Schemas are JSON Schema, draft 2020-12; an invalid schema raises `ToolDefinitionError`. Remote references
    are never fetched.
    """
    from .json_schema.compile import validate

    return validate(schema, value)
