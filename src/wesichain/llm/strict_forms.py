"""Strict schemas: the strict form of a request's schemas, and the replies to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from wesichain.core import LlmRequest, LlmResponse, ToolCall
from wesichain.core.internal import dump_json, is_object, parse_json, replace, strict_schema, without_nulls
from wesichain.errors import CodecError

Make: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any] | None]
_made: dict[tuple[int, Make], tuple[Mapping[str, Any], dict[str, Any] | None]] = {}
_MOST = 1024


def strict_form(schema: Mapping[str, Any], make: Make = strict_schema) -> dict[str, Any] | None:
    """The strict form of a schema, or None if it has none. Cached: a run sends the same schemas in each step.

    `make` writes the form that one provider takes.
    """
    found = _made.get((id(schema), make))
    if found is None or found[0] is not schema:
        if len(_made) >= _MOST:
            _made.clear()
        found = _made[id(schema), make] = schema, make(schema)
    return found[1]


def without_unset_nulls(reply: LlmResponse, request: LlmRequest) -> LlmResponse:
    """The reply without the nulls by which a strict form says that a value is not given."""
    strict = [tool for tool in request.tools if strict_form(tool.parameters) is not None]
    schemas = {tool.name: tool.parameters for tool in strict}
    calls = tuple(_call(call, schemas.get(call.name)) for call in reply.tool_calls)
    content = reply.content
    if not calls and request.output_schema is not None and strict_form(request.output_schema) is not None:
        content = _answer(content, request.output_schema)
    if calls == reply.tool_calls and content == reply.content:
        return reply
    return replace(reply, tool_calls=calls, content=content)


def _call(call: ToolCall, schema: Mapping[str, Any] | None) -> ToolCall:
    if schema is None or not is_object(call.args):
        return call
    return replace(call, args=without_nulls(schema, call.args))


def _answer(content: str, schema: Mapping[str, Any]) -> str:
    try:
        answer = parse_json(content)
    except CodecError:
        return content
    fuller = without_nulls(schema, answer)
    return content if fuller == answer else dump_json(fuller)
