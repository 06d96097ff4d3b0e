"""Translate: results and tools, between what MCP calls them and what we do."""

from __future__ import annotations

from typing import Any, assert_never

from wesichain.core import JsonValue, ToolSpec, dump_json
from wesichain.errors import ToolError
from wesichain.tools.definition import Tool
from wesichain.tools.results import ToolResult

from .sdk import types

# --- from a server -------------------------------------------------------------------------------


def read_result(result: types.CallToolResult) -> JsonValue:
    """What a call gave: the structured content, else its text; an error result raises `ToolError`."""
    text = "\n".join(_told(block) for block in result.content)
    if result.is_error:
        raise ToolError(text or "the tool failed, and its server does not say why")
    if result.structured_content is not None:
        return result.structured_content  # type: ignore[no-any-return]  # it came as JSON
    return text if result.content else None


def _told(block: types.ContentBlock) -> str:
    """A block as text: what a model cannot read is named."""
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return f"[{block.type}: {block.mime_type}, {_size(block.data)}]"
        case types.ResourceLink():
            return f"[resource: {block.name}, {block.uri}]"
        case types.EmbeddedResource(resource=resource):
            if isinstance(resource, types.TextResourceContents):
                return resource.text
            return f"[resource: {resource.uri}, {_size(resource.blob)}]"
        case _:
            assert_never(block)


def _size(data: str) -> str:
    return f"{len(data) * 3 // 4:,} bytes"  # of base64


# --- to a client ---------------------------------------------------------------------------------


def to_listed(tool: Tool, spec: ToolSpec) -> types.Tool:
    """A tool as a server lists it. Without a schema for results: one that is too large is cut to a text."""
    return types.Tool(
        name=spec.name,
        description=spec.description,
        input_schema=dict(spec.parameters),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.effect == "pure" and not tool.approval,
            idempotent_hint=tool.effect != "once",
            destructive_hint=bool(tool.approval),
        ),
    )


def to_result(result: ToolResult, *, any_data: bool) -> types.CallToolResult:
    """What became of a call, as text and as data; before `any_data`, only objects could be sent as data."""
    if result.error is not None:
        return refused(str(result.error))
    value: Any = result.value
    text = value if isinstance(value, str) else dump_json(value)
    return types.CallToolResult(
        content=[] if value is None else [types.TextContent(text=text)],
        structured_content=value if any_data or isinstance(value, dict) else None,
    )


def refused(why: str) -> types.CallToolResult:
    """The result of a call that failed, or was not made."""
    return types.CallToolResult(content=[types.TextContent(text=why)], is_error=True)
