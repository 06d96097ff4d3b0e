"""Requests of the Responses API: the body for an `LlmRequest`, with its items. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wesichain.core import Audio, Image, JsonValue, LlmRequest, Message, Role, ToolCall, to_json
from wesichain.core.internal import Media
from wesichain.llm.block_turns import instructions_of, layout_of, with_calls
from wesichain.llm.calls import ToolNames, require_ids, with_settings, write_args
from wesichain.llm.media_blocks import Block, blocks_of, content_of, data_url, text_in
from wesichain.llm.strict_forms import strict_form

from .settings import response_settings

OPAQUE = "responses"  # the key of this provider's data in `Message.opaque`


def to_items(
    request: LlmRequest,
    names: ToolNames,
    *,
    model: str,
    options: Mapping[str, JsonValue],
    stream: bool,
    reasons: bool,
    omitted: list[str],
) -> dict[str, Any]:
    """The body for a request. The provider stores nothing: the whole conversation is sent each time.

    `reasons`: the model reasons, and its encrypted thoughts are requested, to be sent back.
    """
    require_ids(request.messages)
    body: dict[str, Any] = {
        "model": model,
        "input": [item for message in request.messages for item in _items(message, names, omitted)],
        "store": False,
    }
    if instructions := instructions_of(request):
        body["instructions"] = instructions
    if reasons:
        body["include"] = ["reasoning.encrypted_content"]
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": names.to_wire(tool.name),
                "description": tool.description,
                "parameters": strict_form(tool.parameters) or tool.parameters,
                "strict": strict_form(tool.parameters) is not None,  # the default would be true
            }
            for tool in request.tools
        ]
    if request.output_schema is not None:
        form = strict_form(request.output_schema)
        answer = {"name": "answer", "schema": form or request.output_schema, "strict": form is not None}
        body["text"] = {"format": {"type": "json_schema", **answer}}
    if stream:
        body["stream"] = True
    return with_settings(body, options, request, response_settings(request, names))


def _items(message: Message, names: ToolNames, omitted: list[str]) -> Iterator[dict[str, Any]]:
    match message.role:
        case Role.SYSTEM:
            return
        case Role.USER:
            yield {"role": "user", "content": content_of(message.content, _media, _text, omitted)}
        case Role.TOOL:
            output = content_of(message.content, _media, _text, omitted)
            yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": output}
        case Role.ASSISTANT:
            yield from _assistant(message, names, omitted)


def _assistant(message: Message, names: ToolNames, omitted: list[str]) -> Iterator[dict[str, Any]]:
    """The items of a reply; the provider's own are sent as they were received, in their places."""
    calls = [_call(call, names) for call in message.tool_calls]
    layout = layout_of(message, OPAQUE)
    if layout is not None:
        yield from with_calls(layout, calls, lambda item: item.get("type") == "function_call")
        return
    why = "only text can be sent for an assistant"
    texts = [block["text"] for block in blocks_of(message.content, lambda _: why, _text, omitted)]
    if any(texts):
        yield {"role": "assistant", "content": "\n".join(texts)}
    yield from calls


def _call(call: ToolCall, names: ToolNames) -> dict[str, Any]:
    arguments = to_json(write_args(call.args))
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": names.to_wire(call.name),
        "arguments": arguments,
    }


def _text(text: str) -> Block:
    return {"type": "input_text", "text": text}


def _media(part: Media) -> Block | str:
    """The block for a part, or the reason why it cannot be sent."""
    if isinstance(part, Audio):
        return "this provider takes no audio here"
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": part.url or data_url(part)}
    if (text := text_in(part)) is not None:
        return _text(text)
    if part.data is None:
        return {"type": "input_file", "file_url": part.url}
    if part.media_type != "application/pdf":
        return "this provider takes only PDF and text"
    return {"type": "input_file", "filename": part.name or "document.pdf", "file_data": data_url(part)}
