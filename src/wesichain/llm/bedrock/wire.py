"""Requests of Bedrock's Converse: the body for an `LlmRequest`, for any model. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    ToolCall,
    to_json,
)
from wesichain.core.internal import Media, is_array
from wesichain.llm.block_turns import (
    assistant_blocks,
    cache_lifetime,
    instructions_of,
    legal_id,
    marked_turns,
    reply_limit,
    thinking_of,
    turns_of,
)
from wesichain.llm.calls import ToolNames, require_ids, stops_of, tool_choice, with_settings, write_args
from wesichain.llm.media_blocks import PICTURES, Block, bare_text, blocks_of, text_in
from wesichain.llm.strict_forms import strict_form
from wesichain.llm.supported_settings import SupportedSettings

OPAQUE = "bedrock"  # the key of this provider's data in `Message.opaque`

_ILLEGAL_IN_NAME = re.compile(r"[^A-Za-z0-9()\[\] -]+")


def to_converse(
    request: LlmRequest,
    names: ToolNames,
    *,
    support: SupportedSettings,
    max_tokens: int | None,
    options: Mapping[str, JsonValue],
    caching: bool,
    omitted: list[str],
) -> dict[str, Any]:
    """The body for a request; content that cannot be sent is replaced by a line, added to `omitted`."""
    require_ids(request.messages)
    turns = turns_of(request.messages, lambda message: _blocks(message, names, omitted))
    body: dict[str, Any] = {"messages": turns}
    if instructions := instructions_of(request):
        body["system"] = [{"text": instructions}]
    tools = [_tool(tool.name, tool.description, tool.parameters, names) for tool in request.tools]
    own = options.get("tools")
    if tools or own:
        body["toolConfig"] = {"tools": [*tools, *(own if is_array(own) else ())]}
    if request.output_schema is not None:
        schema = to_json(strict_form(request.output_schema) or request.output_schema)
        structure = {"jsonSchema": {"name": "answer", "schema": schema}}
        body["outputConfig"] = {"textFormat": {"type": "json_schema", "structure": structure}}
    if max_tokens is not None:
        body["inferenceConfig"] = {"maxTokens": max_tokens}
    if (lifetime := cache_lifetime(request, caching=caching)) is not None:
        _mark(body, lifetime)
    rest = {name: value for name, value in options.items() if name != "tools"}
    return with_settings(body, rest, request, _settings(request, names, support, body))


def _tool(name: str, description: str, schema: Mapping[str, Any], names: ToolNames) -> dict[str, Any]:
    described = {"description": description} if description else {}
    return {"toolSpec": {"name": names.to_wire(name), **described, "inputSchema": {"json": schema}}}


def _mark(body: dict[str, Any], lifetime: Mapping[str, str]) -> None:
    """Mark the ends of the prefixes to cache: the tools and instructions, and the user's last turns."""
    point = {"cachePoint": {"type": "default", **lifetime}}
    if "system" in body:
        body["system"].append(point)
    elif "toolConfig" in body:
        body["toolConfig"]["tools"].append(point)
    for turn in marked_turns(body):
        turn["content"].append(point)


def _blocks(message: Message, names: ToolNames, omitted: list[str]) -> list[Block]:
    if message.role is Role.ASSISTANT:
        calls = [_tool_use(call, names) for call in message.tool_calls]
        return assistant_blocks(
            message,
            calls,
            owner=OPAQUE,
            text=bare_text,
            is_call=lambda block: "toolUse" in block,
            omitted=omitted,
        )
    content = _content(message.content, omitted)
    if message.role is Role.USER:
        return content
    status = "error" if message.is_error else "success"
    result = {"toolUseId": legal_id(message.tool_call_id or "")[:64], "content": content, "status": status}
    return [{"toolResult": result}]


def _content(content: Content, omitted: list[str]) -> list[Block]:
    """The blocks. The API rejects empty ones, so that an empty content becomes "(empty)"."""
    given = (
        [{"text": content}] if isinstance(content, str) else blocks_of(content, _media, bare_text, omitted)
    )
    kept = [block for block in given if "text" not in block or str(block["text"]).strip()]
    return kept or [bare_text("(empty)")]


def _media(part: Media) -> Block | str:
    """The block for a part, or the reason why it cannot be sent."""
    if isinstance(part, Audio):
        return "this provider takes no audio here"
    if part.data is None:
        return "this provider takes no URLs; pass the bytes"
    if isinstance(part, Image):
        form = PICTURES.get(part.media_type)
        if form is None:
            return "this provider takes only JPEG, PNG, GIF and WebP"
        return {"image": {"format": form, "source": {"bytes": part.base64}}}
    return _document(part)


def _document(part: Document) -> Block | str:
    if (text := text_in(part)) is not None:
        return bare_text(text)
    if part.media_type != "application/pdf":
        return "this provider takes only PDF and text"
    name = _ILLEGAL_IN_NAME.sub("-", part.name).strip() or "document"
    return {"document": {"format": "pdf", "name": name[:200], "source": {"bytes": part.base64}}}


def _tool_use(call: ToolCall, names: ToolNames) -> Block:
    return {
        "toolUse": {
            "toolUseId": legal_id(call.id)[:64],
            "name": names.to_wire(call.name),
            "input": write_args(call.args),
        }
    }


# --- settings ---------------------------------------------------------------------------------------


_REPLY = 4096  # tokens of an answer, in addition to a budget of thoughts


def _settings(
    request: LlmRequest, names: ToolNames, support: SupportedSettings, body: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields for the settings of a request; None for those that are not set."""
    settings = request.settings
    own, limit = _reasoning(request, support)
    inference = {
        "maxTokens": limit,
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "stopSequences": stops_of(request) or None,
    }
    given = {name: value for name, value in inference.items() if value is not None}
    return {
        "inferenceConfig": given or None,
        "toolConfig": _tool_choice(request, names, body),
        "additionalModelRequestFields": own or None,
        "serviceTier": None if settings.service_tier is None else {"type": settings.service_tier},
    }


def _reasoning(request: LlmRequest, support: SupportedSettings) -> tuple[dict[str, Any], int | None]:
    """The model's own fields for reasoning, and the token limit of its reply."""
    settings = request.settings
    effort, form = settings.reasoning, support.reasoning
    if effort is None or form in ("effort", "nova"):
        return _open_model(effort, form), settings.max_tokens
    thinking, level = thinking_of(settings, form)
    own = {"thinking": thinking} | ({} if level is None else {"output_config": {"effort": level}})
    return own, reply_limit(settings, thinking, default=_REPLY)


def _open_model(effort: object, form: str) -> dict[str, Any]:
    if effort is None:
        return {}
    if form == "effort":
        return {"reasoning_effort": effort}
    kind = {"type": "disabled"} if effort == "off" else {"type": "enabled", "maxReasoningEffort": effort}
    return {"reasoningConfig": kind}


def _tool_choice(request: LlmRequest, names: ToolNames, body: Mapping[str, Any]) -> dict[str, Any] | None:
    choice = tool_choice(request, names)
    if choice is None or "toolConfig" not in body:
        return None
    if choice.kind == "tool":
        return {"toolChoice": {"tool": {"name": choice.name}}}
    return {"toolChoice": {"any" if choice.kind == "required" else "auto": {}}}
