"""Requests of the messages API: the body for an `LlmRequest`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wesichain.core import Audio, Image, JsonValue, LlmRequest, Message, Role, ToolCall, ToolSpec
from wesichain.core.internal import Media, replace
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
from wesichain.llm.media_blocks import PICTURES, Block, content_of, text_in, typed_text
from wesichain.llm.supported_settings import ReasoningForm

OPAQUE = "anthropic"  # the key of this provider's data in `Message.opaque`


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
    strict: Mapping[str, Mapping[str, Any]] | None = None,
    omitted: list[str] | None = None,
) -> dict[str, Any]:
    """The body for a request; its output schema must be one that the provider accepts.

    `caching` marks the prefixes that the next request will share; `form` is the form in which the effort of
    reasoning is sent; `strict` has the strict schemas of tools, by name. Content that cannot be sent is
    replaced by a line of text, which is added to `omitted`.
    """
    require_ids(request.messages)
    left_out = [] if omitted is None else omitted
    turns = turns_of(request.messages, lambda message: _blocks(message, names, left_out))
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "messages": turns}
    if instructions := instructions_of(request):
        body["system"] = instructions
    if request.tools:
        body["tools"] = [_tool(tool, names, (strict or {}).get(tool.name)) for tool in request.tools]
    if request.output_schema is not None:
        answer = {"type": "json_schema", "schema": request.output_schema}
        body["output_config"] = {"format": answer}
    if stream:
        body["stream"] = True
    if (lifetime := cache_lifetime(request, caching=caching)) is not None:
        _mark(body, lifetime)
    written = _settings(request, names, max_tokens=max_tokens, form=form)
    return with_settings(body, options, request, written)


def _tool(tool: ToolSpec, names: ToolNames, form: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "name": names.to_wire(tool.name),
        "description": tool.description,
        "input_schema": form or tool.parameters,
        **({"strict": True} if form else {}),
    }


def _mark(body: dict[str, Any], lifetime: dict[str, str]) -> None:
    """Mark the ends of the prefixes to cache: the tools and instructions, and the user's last turns."""
    keep = {"cache_control": {"type": "ephemeral", **lifetime}}
    if "system" in body:
        body["system"] = [{"type": "text", "text": body["system"], **keep}]
    elif "tools" in body:
        body["tools"][-1] |= keep
    for turn in marked_turns(body):
        last = turn["content"][-1]
        if last.get("text") != "":  # the API rejects a mark on an empty text
            last |= keep


def _blocks(message: Message, names: ToolNames, omitted: list[str]) -> list[Block]:
    if message.role is Role.USER:
        said = content_of(message.content, _media, typed_text, omitted)
        return [typed_text(said)] if isinstance(said, str) else said
    if message.role is Role.TOOL:
        return [_result(message, omitted)]
    calls = [_tool_use(call, names) for call in message.tool_calls]
    return assistant_blocks(message, calls, owner=OPAQUE, text=typed_text, is_call=_is_call, omitted=omitted)


def _is_call(block: Block) -> bool:
    return block.get("type") == "tool_use"


def _result(message: Message, omitted: list[str]) -> Block:
    content = content_of(message.content, _media, typed_text, omitted)
    failed = {"is_error": True} if message.is_error else {}
    call_id = legal_id(message.tool_call_id or "")
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **failed}


def _media(part: Media) -> Block | str:
    """The block for a part, or the reason why it cannot be sent."""
    if isinstance(part, Audio):
        return "this provider takes no audio"
    source: dict[str, Any] = {"type": "base64", "media_type": part.media_type, "data": part.base64}
    if part.data is None:
        source = {"type": "url", "url": part.url}
    if isinstance(part, Image):
        if part.data is not None and part.media_type not in PICTURES:
            return "this provider takes only JPEG, PNG, GIF and WebP"
        return {"type": "image", "source": source}
    named = {"title": part.name} if part.name else {}
    if part.data is not None and part.media_type != "application/pdf":
        text = text_in(replace(part, name=""))
        if text is None:
            return "this provider takes only PDF and text"
        source = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "source": source, **named}


def _tool_use(call: ToolCall, names: ToolNames) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": legal_id(call.id),
        "name": names.to_wire(call.name),
        "input": write_args(call.args),
    }


# --- settings ---------------------------------------------------------------------------------------


def _settings(
    request: LlmRequest, names: ToolNames, *, max_tokens: int, form: ReasoningForm
) -> dict[str, Any]:
    """The fields for the settings of a request; None for those that are not set."""
    settings = request.settings
    thinking, effort = thinking_of(settings, form)
    return {
        "max_tokens": reply_limit(settings, thinking, default=max_tokens),
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop_sequences": stops_of(request) or None,
        "thinking": thinking,
        **({} if effort is None else {"output_config": {"effort": effort}}),
        "tool_choice": _tool_choice(request, names),
        "service_tier": settings.service_tier,
    }


def _tool_choice(request: LlmRequest, names: ToolNames) -> dict[str, Any] | None:
    choice, parallel = tool_choice(request, names), request.settings.parallel_tool_calls
    if not request.tools or (choice is None and parallel is None):
        return None
    kind = "auto" if choice is None else {"required": "any"}.get(choice.kind, choice.kind)
    named = {"name": choice.name} if choice is not None and choice.name else {}
    one_at_a_time = {} if parallel is None or kind == "none" else {"disable_parallel_tool_use": not parallel}
    return {"type": kind, **named, **one_at_a_time}
