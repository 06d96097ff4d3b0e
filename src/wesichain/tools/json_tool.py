"""JsonTool: a tool whose schema is known only at run time, as with MCP and OpenAPI."""

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
    """A JSON schema and a function of the arguments: `invoke(args)` or `invoke(args, ctx)`, sync or async.

    `returns` is the schema of the result, if there is one; both are checked. An external tool needs no
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
        parameters = _copied(name, schema)
        declared = None if returns is None else _copied(name, returns)
        self._arguments = _compiled(name, parameters)
        self._result = None if declared is None else _compiled(name, declared)
        self._whole, self._cut = Output(limit=sys.maxsize), Output(limit=self.max_output)
        self._plan = SchemaPlan(
            ToolSpec(name, description, parameters),
            signature_line(name, parameters),
            self._checked,
            self._rendered if self._result else self._cut.render,
            lambda: declared,
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

    def _checked(self, args: JsonValue) -> Any:
        plain = parse_json(as_text(args))  # the tool's own copy: it may change it
        issues = self._arguments.issues(plain)
        if issues:
            raise RejectedError(*issues)
        return plain

    def _rendered(self, value: Any) -> JsonValue:
        whole = self._whole.render(value)  # what is cut to its limit is no longer what was declared
        issues = self._result.issues(whole) if self._result else []
        if issues:
            raise ToolSerializationError(f"its result is not what it declares: {issues[0]}")
        return self._cut.render(whole)


async def never_run(_: JsonValue) -> JsonValue:
    """Stands where an external tool would have a function."""
    raise AssertionError


def _copied(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as plain data that nobody else can change."""
    try:
        copy: Any = parse_json(dump_json(schema, default=dict))
    except CodecError as error:
        raise ToolDefinitionError(f"tool {name!r}: its schema is not JSON: {error}") from None
    if not is_object(copy):
        raise ToolDefinitionError(f"tool {name!r}: its schema is {preview(copy)}, not an object")
    return copy


def _compiled(name: str, schema: dict[str, Any]) -> Validator:
    from .json_schema.compile import compile_schema

    try:
        return compile_schema(schema)
    except ToolDefinitionError as error:
        raise ToolDefinitionError(f"tool {name!r}: {error}") from None


def validate_json(schema: Mapping[str, Any] | bool, value: Any) -> list[str]:
    """The faults of a JSON value, in words with the place; an empty list means that it is valid.

    JSON Schema, draft 2020-12; an invalid schema is a `ToolDefinitionError`. Nothing is ever fetched.
    """
    from .json_schema.compile import validate

    return validate(schema, value)
