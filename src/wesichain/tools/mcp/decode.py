"""Decode: converts results, resources and prompts of a server to values of this library."""

from __future__ import annotations

from binascii import a2b_base64
from typing import Any, assert_never

from wesichain.core import Audio, Document, Image, Message, Role
from wesichain.core.internal import Media, Value, dump_json, is_array, is_object, parse_json
from wesichain.errors import CodecError, ToolError, ToolErrorKind

from .encode import WRAPPED
from .sdk import types
from .text import bounded, label


class McpResource(Value):
    """A resource of a server. The `uri` of a template has placeholders: `notes://{day}`."""

    uri: str
    name: str
    description: str = ""
    media_type: str = ""
    size: int | None = None


class McpPrompt(Value):
    """A prompt of a server; `arguments` are names, and whether each is required."""

    name: str
    description: str = ""
    arguments: tuple[tuple[str, bool], ...] = ()


def read_result(result: types.CallToolResult) -> Any:
    """Return the structured content of a result, or its text; with media, a list of texts and parts.

    The structured content of a result with media is added as JSON text, unless a text contains it. Media
    inside it become parts too, and leave a label: as text, their base64 would cost thousands of tokens. An
    error result raises `ToolError`.
    """
    items = [read_content(block) for block in result.content]
    if result.is_error:
        text = "\n".join(item if isinstance(item, str) else f"[{item.label}]" for item in items)
        raise ToolError(text or "the tool failed without a message", _kind(result))
    sent: Any = result.structured_content
    if sent is not None and (result.meta or {}).get(WRAPPED):
        sent = sent["result"]
    media = {item.base64: item for item in items if not isinstance(item, str)}
    data = _labelled(sent, media)
    shown = {id(item) for item in items}
    inside = [part for part in media.values() if id(part) not in shown]
    if media:
        copies = [isinstance(item, str) and data is not None and _is_json_of(sent, item) for item in items]
        if data != sent:
            items = [dump_json(data) if copy else item for item, copy in zip(items, copies, strict=True)]
        return [*items, *([] if data is None or any(copies) else [dump_json(data)]), *inside]
    if data is not None:
        return data
    return "\n".join(item for item in items if isinstance(item, str)) if items else None


def _labelled(data: Any, media: dict[str, Media]) -> Any:
    """Replace the base64 of media in structured content by labels, and add new media to `media`."""
    if isinstance(data, str):
        known = media.get(data.rpartition(";base64,")[2]) if data else None
        return data if known is None else f"[{known.label}]"
    if is_array(data):
        return [_labelled(each, media) for each in data]
    if not is_object(data):
        return data
    kind, encoded = data.get("mimeType"), data.get("data", data.get("blob"))
    is_media = isinstance(kind, str) and ("blob" in data or kind.startswith(("image/", "audio/")))
    if is_media and isinstance(encoded, str) and encoded and encoded not in media:
        part = _media(encoded, str(kind), str(data.get("uri", "")))
        if not isinstance(part, str):
            media[encoded] = part
    return {key: _labelled(each, media) for key, each in data.items()}


def _is_json_of(data: Any, text: str) -> bool:
    try:
        return bool(parse_json(text) == data)
    except CodecError:
        return False


def _kind(result: types.CallToolResult) -> ToolErrorKind:
    """Return the kind of an error, if the server sends one as `serve_http` does."""
    data: Any = result.structured_content
    try:
        return ToolErrorKind(data["error"]["kind"])
    except (KeyError, TypeError, ValueError):
        return ToolErrorKind.EXECUTION_FAILED


def read_content(block: types.ContentBlock) -> str | Media:
    """Convert a block to text or a part; a link to a resource becomes text."""
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return _media(block.data, block.mime_type, block.type)
        case types.ResourceLink():
            return f"[resource: {block.name}, {block.uri}]"
        case types.EmbeddedResource(resource=resource):
            if isinstance(resource, types.TextResourceContents):
                return resource.text
            return _media(resource.blob, resource.mime_type or "", str(resource.uri))
        case _:
            assert_never(block)


def _media(data: str, media_type: str, name: str) -> str | Media:
    """Convert data to a part; invalid data becomes a text that names it."""
    try:
        content = a2b_base64(data)
        if media_type.startswith("image/"):
            return Image(content, media_type=media_type)
        if media_type.startswith("audio/"):
            return Audio(content, media_type)
        kind = media_type or "application/octet-stream"  # the type is optional
        return Document(content, media_type=kind, name=name.rpartition("/")[2])
    except (CodecError, ValueError) as error:
        return f"[{name}: {media_type or 'bytes'} that cannot be read: {error}]"


def to_resource(listed: types.Resource | types.ResourceTemplate, limit: int) -> McpResource:
    """Convert a listed resource or template; `limit` is the maximum size of its description in bytes."""
    uri, size = (
        (listed.uri, listed.size) if isinstance(listed, types.Resource) else (listed.uri_template, None)
    )
    description = bounded(listed.description or "", limit)
    return McpResource(str(uri), label(listed.name), description, label(listed.mime_type or ""), size)


def read_resource(result: types.ReadResourceResult) -> tuple[str | bytes, ...]:
    """Return the contents of a resource: text as str, other data as bytes."""
    return tuple(
        content.text if isinstance(content, types.TextResourceContents) else _bytes(content.blob)
        for content in result.contents
    )


def _bytes(blob: str) -> bytes:
    try:
        return a2b_base64(blob)
    except ValueError as error:
        raise ToolError(
            f"the server sent bytes that are not base64: {error}", ToolErrorKind.SERIALIZATION
        ) from error


def to_prompt(listed: types.Prompt, limit: int) -> McpPrompt:
    """Convert a listed prompt; `limit` is the maximum size of its description in bytes."""
    arguments = tuple((each.name, bool(each.required)) for each in listed.arguments or ())
    return McpPrompt(listed.name, bounded(listed.description or "", limit), arguments)


def read_prompt(result: types.GetPromptResult) -> tuple[Message, ...]:
    """Return the messages of a prompt."""
    messages = [(Role(message.role), read_content(message.content)) for message in result.messages]
    return tuple(Message(role, item if isinstance(item, str) else (item,)) for role, item in messages)
