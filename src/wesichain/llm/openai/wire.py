"""Requests of chat completions: the body for an `LlmRequest`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wesichain.core import (
    Audio,
    Content,
    Document,
    Image,
    JsonValue,
    LlmRequest,
    Message,
    Role,
    ToolSpec,
    to_json,
)
from wesichain.core.internal import Media, is_array
from wesichain.llm.calls import REFUSAL, ToolNames, as_object, require_ids, with_settings, write_args
from wesichain.llm.media_blocks import Block, blocks_of, content_of, data_url, media_in, text_in, typed_text
from wesichain.llm.strict_forms import strict_form

from .settings import chat_settings

OPAQUE = "openai"  # the key of this provider's data in `Message.opaque`
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def to_wire(
    request: LlmRequest,
    names: ToolNames,
    *,
    model: str,
    options: Mapping[str, JsonValue],
    stream: bool,
    provider: str = "chat",
    strict: bool = False,
    omitted: list[str] | None = None,
) -> dict[str, Any]:
    """The body for a request. With `strict`, schemas are sent in their strict form if they have one.

    `provider` decides the names of the settings. Content that cannot be sent is replaced by a line of text,
    which is added to `omitted`.
    """
    require_ids(request.messages)
    left_out = [] if omitted is None else omitted
    body: dict[str, Any] = {"model": model, "messages": _messages(request.messages, names, left_out)}
    if request.tools:
        body["tools"] = [_tool(tool, names, strict=strict) for tool in request.tools]
    if request.output_schema is not None:
        form = strict_form(request.output_schema) if strict else None
        answer = {"name": "answer", "schema": form or request.output_schema} | _marked(form)
        body["response_format"] = {"type": "json_schema", "json_schema": answer}
    if stream:
        body["stream"] = True
        if provider != "cohere":  # which rejects the field
            body["stream_options"] = {"include_usage": True}
    return with_settings(body, options, request, chat_settings(request, names, provider=provider))


def _tool(tool: ToolSpec, names: ToolNames, *, strict: bool) -> dict[str, Any]:
    form = strict_form(tool.parameters) if strict else None
    function: dict[str, Any] = {
        "name": names.to_wire(tool.name),
        "description": tool.description,
        "parameters": form or tool.parameters,
    }
    return {"type": "function", "function": function | _marked(form)}


def _marked(form: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if form is None else {"strict": True}


def _messages(messages: Iterable[Message], names: ToolNames, omitted: list[str]) -> list[dict[str, Any]]:
    """The messages. A tool message can only have text here: other parts follow after the results."""
    wire: list[dict[str, Any]] = []
    shown: list[Block] = []  # the media of consecutive results
    for message in messages:
        if message.role is not Role.TOOL and shown:
            wire.append({"role": "user", "content": shown})
            shown = []
        if message.role is Role.ASSISTANT:
            wire.append(_assistant(message, names, omitted))
        elif message.role is Role.TOOL:
            text, more = _result(message, omitted)
            wire.append({"role": "tool", "tool_call_id": message.tool_call_id, "content": text})
            shown += more
        else:
            wire.append(
                {
                    "role": message.role.value,
                    "content": content_of(message.content, _media, typed_text, omitted),
                }
            )
    return [*wire, {"role": "user", "content": shown}] if shown else wire


def _result(message: Message, omitted: list[str]) -> tuple[str, list[Block]]:
    """A tool's result: its text, and the blocks for its other parts."""
    if isinstance(message.content, str):
        return message.content, []
    blocks = blocks_of(media_in(message.content), _media, typed_text, omitted)
    if not blocks:
        return message.text, []
    below = f"[{len(blocks)} part(s) of this result follow in the next message]"
    head = typed_text(f"From the result of call {message.tool_call_id}:")
    return f"{message.text}\n{below}" if message.text else below, [head, *blocks]


def _media(part: Media) -> Block | str:
    """The block for a part, or the reason why it cannot be sent."""
    if isinstance(part, Image):
        return {"type": "image_url", "image_url": {"url": part.url or data_url(part)}}
    if isinstance(part, Audio):
        form = _SOUNDS.get(part.media_type)
        if form is None:
            return "this provider takes only WAV and MP3"
        return {"type": "input_audio", "input_audio": {"data": part.base64, "format": form}}
    return _document(part)


def _document(part: Document) -> Block | str:
    if (text := text_in(part)) is not None:
        return typed_text(text)
    if part.data is None:
        return "this provider takes no document URLs; pass the bytes"
    if part.media_type != "application/pdf":
        return "this provider takes only PDF and text"
    return {"type": "file", "file": {"filename": part.name or "document.pdf", "file_data": data_url(part)}}


def _assistant(message: Message, names: ToolNames, omitted: list[str]) -> dict[str, Any]:
    opaque = as_object(message.opaque)
    said = _assistant_text(message.content, omitted)
    if not message.tool_calls:
        refusal = {"refusal": opaque[REFUSAL]} if REFUSAL in opaque else {}
        return {"role": "assistant", "content": said, **refusal}
    calls: list[dict[str, Any]] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": names.to_wire(call.name), "arguments": to_json(write_args(call.args))},
        }
        for call in message.tool_calls
    ]
    kept = as_object(opaque.get(OPAQUE))
    extras = kept.get("calls")
    for call, extra in zip(calls, extras if is_array(extras) else (), strict=False):
        if extra:
            call["extra_content"] = extra
    # Reasoning is required only within its turn; some providers reject it afterwards.
    return {
        **as_object(kept.get("message")),
        "role": "assistant",
        "content": said or None,
        "tool_calls": calls,
    }


def _assistant_text(content: Content, omitted: list[str]) -> str:
    """The text of an assistant message, which can only have text here."""
    if isinstance(content, str):
        return content
    blocks = blocks_of(
        content, lambda _: "this provider takes only text from an assistant", typed_text, omitted
    )
    return "\n".join(str(block["text"]) for block in blocks)
