"""Encode: converts tools and results to the types of the protocol."""

from __future__ import annotations

from binascii import b2a_base64
from typing import Any

from wesichain.core import Audio, Image, Text, ToolSpec
from wesichain.core.internal import MEDIA, Media, dump_json, is_object
from wesichain.errors import InvalidArgsError, RunInterruptedError, ToolDispatchError
from wesichain.tools.definition import Tool
from wesichain.tools.results import ToolResult

from .sdk import types

WRAPPED = "wesichain/wrapped"  # the data is wrapped in an object, which older protocols require


def to_listed(tool: Tool, spec: ToolSpec) -> types.Tool:
    """Convert a tool for the list of tools, with the schema of its results if they are objects."""
    return types.Tool(
        name=spec.name,
        description=spec.description,
        input_schema=dict(spec.parameters),
        output_schema=output_schema(tool),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.effect == "pure" and not tool.approval,
            idempotent_hint=tool.effect != "once",
            destructive_hint=bool(tool.approval),
        ),
    )


def output_schema(tool: Tool) -> dict[str, Any] | None:
    """Return the schema of a tool's results if they are objects: the protocol supports no others."""
    returns = tool.returns
    return dict(returns) if returns is not None and returns.get("type") == "object" else None


def to_result(result: ToolResult, tool: Tool, *, any_data: bool) -> types.CallToolResult:
    """Convert a result to content and data; without `any_data`, data has to be an object."""
    if result.error is not None:
        return refused(result.error)
    value: Any = result.value
    if result.parts:
        return types.CallToolResult(content=[to_block(part) for part in result.parts])
    if output_schema(tool) is not None and not is_object(value):
        return refused("the result exceeds the limit of the tool, and cannot be cut to match its schema")
    content = [] if value is None else [to_block(value)]
    if any_data or is_object(value) or value is None or isinstance(value, str):
        is_data = any_data or is_object(value)
        return types.CallToolResult(content=content, structured_content=value if is_data else None)
    return types.CallToolResult(content=content, structured_content={"result": value}, _meta={WRAPPED: True})


def refused(why: ToolDispatchError | str) -> types.CallToolResult:
    """Return the result of a call that failed or was refused, with the error as text and as data."""
    error: dict[str, Any] = {"message": str(why)}
    if isinstance(why, ToolDispatchError):
        error |= {"type": type(why).__name__, "kind": why.kind.value}
    if isinstance(why, InvalidArgsError):
        error["issues"] = list(why.issues)
    waiting = why.__cause__ if isinstance(why, ToolDispatchError) else None
    if isinstance(waiting, RunInterruptedError):  # of a tool that runs an agent without `parent=ctx`
        pending = getattr(waiting.outcome, "pending", ())
        error["needs_a_person"] = [{"tool": each.call.name, "args": each.call.args} for each in pending]
    return types.CallToolResult(
        content=[types.TextContent(text=str(why))], structured_content={"error": error}, is_error=True
    )


def to_block(value: Any) -> types.ContentBlock:
    """Convert a text, a part or another value to a block of content."""
    if isinstance(value, Text):
        value = value.text
    if not isinstance(value, MEDIA):
        return types.TextContent(text=value if isinstance(value, str) else dump_json(value))
    part: Media = value
    media_type = part.media_type or "application/octet-stream"
    name = getattr(part, "name", "") or part.kind
    if part.data is None:
        return types.ResourceLink(name=name, uri=str(part.url), mime_type=media_type)
    if isinstance(part, Image):
        return types.ImageContent(data=part.base64, mime_type=media_type)
    if isinstance(part, Audio):
        return types.AudioContent(data=part.base64, mime_type=media_type)
    uri = name if "://" in name else f"document:{name}"
    return types.EmbeddedResource(resource=to_contents(uri, part.data, media_type))


def to_contents(
    uri: str, data: bytes | str, media_type: str
) -> types.BlobResourceContents | types.TextResourceContents:
    """Return the contents of a resource: text as text, other data as base64."""
    if isinstance(data, bytes) and (media_type.startswith("text/") or media_type == "application/json"):
        data = data.decode("utf-8", "replace")
    if isinstance(data, str):
        return types.TextResourceContents(uri=uri, mime_type=media_type, text=data)
    blob = b2a_base64(data, newline=False).decode("ascii")
    return types.BlobResourceContents(uri=uri, mime_type=media_type, blob=blob)
