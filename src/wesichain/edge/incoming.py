"""Incoming: the tasks, files and tools that frontends send, as those of a run."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Any

from starlette.exceptions import HTTPException

from wesichain.core import Audio, Document, Image, Text
from wesichain.core import Part as ContentPart
from wesichain.errors import CodecError, ConfigError
from wesichain.tools import JsonTool

from .bodies import task_of
from .runs import error_text


def task_with(text: str, files: Sequence[tuple[str, str]]) -> str | tuple[ContentPart, ...]:
    """The task of a message: its text and its files, each a media type and base64.

    A file that cannot be read is an HTTPException (400).
    """
    if not files:
        return task_of(text)
    try:
        media = [_media(kind, b64decode(data, validate=True)) for kind, data in files]
    except (ValueError, CodecError) as error:
        raise HTTPException(400, f"a file of the message cannot be read: {error_text(error)}") from None
    return (*((Text(task_of(text)),) if text.strip() else ()), *media)


def _media(media_type: str, data: bytes) -> ContentPart:
    match media_type.partition("/")[0]:
        case "image":
            return Image(data, media_type=media_type)
        case "audio":
            return Audio(data, media_type)
        case _:
            return Document(data, media_type=media_type)


def frontend_tools(given: Iterable[tuple[Any, Any, Any]]) -> tuple[JsonTool, ...]:
    """The tools that a client runs, from their names, descriptions (which are cut) and schemas.

    A tool that is not valid is an HTTPException (400).
    """
    tools: list[JsonTool] = []
    for name, description, schema in given:
        if not isinstance(name, str) or not isinstance(description, str | None):
            raise HTTPException(400, "a tool has a name and a description")
        if len(tools) == _MOST_TOOLS:
            raise HTTPException(400, f"a client may send at most {_MOST_TOOLS} tools")
        about = (description or name)[:_LONGEST_DESCRIPTION]
        try:
            tools.append(JsonTool(name, about, schema or _NO_ARGS, external=True))
        except ConfigError as error:
            raise HTTPException(400, error_text(error)) from None
    return tuple(tools)


_LONGEST_DESCRIPTION = 20_000  # characters
_NO_ARGS: dict[str, Any] = {"type": "object", "properties": {}}
_MOST_TOOLS = 128  # of one client
