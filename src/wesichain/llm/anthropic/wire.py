"""The messages API on the wire: what is sent for a request. Pure: the client sends it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never

from wesichain.core import (
    Audio,
    Content,
    Image,
    JsonValue,
    LlmRequest,
    Media,
    Message,
    Role,
    ToolCall,
    is_array,
    is_object,
)
from wesichain.llm.calls import ToolNames, require_ids, with_settings, write_args
from wesichain.llm.media_blocks import Block, blocks_of, text_in
from wesichain.llm.supported_settings import ReasoningForm

from .settings import message_settings

OPAQUE = "anthropic"  # whose data `Message.opaque` is: another provider's is not ours to send

_PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_ILLEGAL_IN_ID = re.compile(r"[^A-Za-z0-9_-]")


def to_wire(
    request: LlmRequest,
    names: ToolNames,
    *,
    model: str,
    max_tokens: int,
    options: Mapping[str, JsonValue],
    stream: bool,
    caching: bool = False,
    form: ReasoningForm = "budget",
    omitted: list[str] | None = None,
) -> dict[str, Any]:
    """The body for a request; its output schema must be one that the provider takes.

    `caching` marks the prefixes that the next request will have too; `form` is how an effort of reasoning is
    put to the model. What cannot be sent is replaced by a line, which `omitted` is told as well.
    """
    require_ids(request.messages)
    turns = _turns(request.messages, names, [] if omitted is None else omitted)
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "messages": turns}
    instructions = [message.text for message in request.messages if message.role is Role.SYSTEM]
    if any(instructions):
        body["system"] = "\n\n".join(filter(None, instructions))
    if request.tools:
        body["tools"] = [
            {
                "name": names.to_wire(tool.name),
                "description": tool.description,
                "input_schema": tool.parameters,
            }
            for tool in request.tools
        ]
    if request.output_schema is not None:
        answer = {"type": "json_schema", "schema": request.output_schema}
        body["output_config"] = {"format": answer}
    if stream:
        body["stream"] = True
    cache = request.settings.cache
    if cache != "off" and (caching or cache != "auto"):
        _mark(body, {} if cache == "auto" else {"ttl": cache})
    written = message_settings(request, names, max_tokens=max_tokens, form=form)
    return with_settings(body, options, request, written)


def _mark(body: dict[str, Any], lifetime: dict[str, str]) -> None:
    """Mark the ends of prefixes to be cached: the tools and instructions, and the last two user turns.

    A request is found again at the mark that the one before it set, so both stand: the last turn of then, and
    that of now. A provider looks back twenty blocks only, which many calls in one reply would exceed.
    """
    keep = {"cache_control": {"type": "ephemeral", **lifetime}}
    if "system" in body:
        body["system"] = [{"type": "text", "text": body["system"], **keep}]
    elif "tools" in body:
        body["tools"][-1] |= keep
    asked = [turn for turn in body["messages"] if turn["role"] == "user"]
    for turn in asked[-2:]:
        last = turn["content"][-1]
        if last.get("text") != "":  # an empty text cannot be marked
            last |= keep


def _turns(messages: Sequence[Message], names: ToolNames, omitted: list[str]) -> list[dict[str, Any]]:
    """User and assistant in turn: results of parallel calls belong into one user turn."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if blocks := _blocks(message, names, omitted):
            role = "assistant" if message.role is Role.ASSISTANT else "user"
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"].extend(blocks)
            else:
                turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message, names: ToolNames, omitted: list[str]) -> list[dict[str, Any]]:
    match message.role:
        case Role.SYSTEM:
            return []
        case Role.USER:
            return _content(message.content, omitted)
        case Role.TOOL:
            return [_result(message, omitted)]
        case Role.ASSISTANT:
            return _assistant(message, names, omitted)
        case _:
            assert_never(message.role)


def _content(content: Content, omitted: list[str]) -> list[Block]:
    if isinstance(content, str):
        return [_text(content)]
    return blocks_of(content, _media, _text, omitted)


def _result(message: Message, omitted: list[str]) -> Block:
    text = isinstance(message.content, str)
    content = message.content if text else _content(message.content, omitted)
    failed = {"is_error": True} if message.is_error else {}
    call_id = _id(message.tool_call_id or "")
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **failed}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _media(part: Media) -> Block | str:
    """The block for a part, or why there is none."""
    if isinstance(part, Audio):
        return "this provider takes no audio"
    source: dict[str, Any] = {"type": "base64", "media_type": part.media_type, "data": part.base64}
    if part.data is None:
        source = {"type": "url", "url": part.url}
    if isinstance(part, Image):
        if part.data is not None and part.media_type not in _PICTURES:
            return "this provider takes JPEG, PNG, GIF and WebP alone"
        return {"type": "image", "source": source}
    named = {"title": part.name} if part.name else {}
    if part.data is not None and part.media_type != "application/pdf":
        text = text_in(replace(part, name=""))
        if text is None:
            return "this provider takes PDF and text alone"
        source = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "source": source, **named}


def _assistant(message: Message, names: ToolNames, omitted: list[str]) -> list[dict[str, Any]]:
    """The blocks of a reply: signed ones as they came and where they stood among the others."""
    calls = [_tool_use(call, names) for call in message.tool_calls]
    layout = message.opaque.get(OPAQUE) if is_object(message.opaque) else None
    if not is_array(layout):
        said = blocks_of(message.content, lambda _: "an assistant says text alone here", _text, omitted)
        return [*(block for block in said if block["text"].strip()), *calls]
    waiting = iter(calls)
    blocks: list[dict[str, Any]] = []
    for block in filter(is_object, layout):
        if block.get("type") == "tool_use":
            blocks.extend(call for call in [next(waiting, None)] if call)
        elif block.get("type") != "text" or str(block.get("text")).strip():
            blocks.append(block)
    return [*blocks, *waiting]


def _tool_use(call: ToolCall, names: ToolNames) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": _id(call.id),
        "name": names.to_wire(call.name),
        "input": write_args(call.args),
    }


def _id(id: str) -> str:
    """Another provider's ids may hold what this one refuses; a call and its result change alike."""
    return _ILLEGAL_IN_ID.sub("_", id)
