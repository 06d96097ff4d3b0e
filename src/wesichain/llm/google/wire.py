"""Requests of Gemini: contents and configuration for an `LlmRequest`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wesichain.core import JsonValue, LlmRequest, Message, ModelSettings, Role, ToolCall
from wesichain.core.internal import Media, is_object
from wesichain.llm.block_turns import instructions_of, layout_of
from wesichain.llm.calls import ToolNames, require_ids, stops_of, tool_choice, with_settings, write_args
from wesichain.llm.media_blocks import Block, bare_text, blocks_of, media_in
from wesichain.llm.supported_settings import ReasoningForm

OPAQUE = "google"  # the key of this provider's data in `Message.opaque`


def to_wire(
    request: LlmRequest,
    names: ToolNames,
    *,
    options: Mapping[str, JsonValue],
    omitted: list[str],
    stream: bool = False,
    form: ReasoningForm = "budget",
) -> dict[str, Any]:
    """The contents and the configuration for a request, streamed or not."""
    del stream
    return {
        "contents": to_contents(request.messages, names, omitted),
        "config": to_config(request, names, options, form),
    }


def to_contents(messages: Sequence[Message], names: ToolNames, omitted: list[str]) -> list[dict[str, Any]]:
    """The turns of a conversation. Results of parallel calls are one turn, and their media the next one."""
    require_ids(messages)
    called: dict[str, tuple[str, bool]] = {}  # by call id: the name, and whether Gemini made the id
    contents: list[dict[str, Any]] = []
    shown: list[Block] = []
    for message in messages:
        if message.role is not Role.TOOL and shown:
            contents.append({"role": "user", "parts": shown})
            shown = []
        match message.role:
            case Role.SYSTEM:
                continue
            case Role.USER:
                parts = blocks_of(message.content, _media, bare_text, omitted)
                contents.append({"role": "user", "parts": parts or [bare_text("")]})
            case Role.ASSISTANT:
                if parts := _assistant(message, names, called):
                    contents.append({"role": "model", "parts": parts})
            case Role.TOOL:
                response, more = _result(message, called, omitted)
                shown += more
                if contents and "functionResponse" in contents[-1]["parts"][-1]:
                    contents[-1]["parts"].append(response)
                else:
                    contents.append({"role": "user", "parts": [response]})
    return [*contents, {"role": "user", "parts": shown}] if shown else contents


def to_config(
    request: LlmRequest, names: ToolNames, options: Mapping[str, JsonValue], form: ReasoningForm = "budget"
) -> dict[str, Any]:
    """The configuration: instructions, tools, output schema, settings, and the user's own fields."""
    config: dict[str, Any] = {"automatic_function_calling": {"disable": True}}
    if instructions := instructions_of(request):
        config["system_instruction"] = {"parts": [bare_text(instructions)]}
    if request.tools:
        declared = [
            {
                "name": names.to_wire(tool.name),
                "description": tool.description,
                "parameters_json_schema": dict(tool.parameters),
            }
            for tool in request.tools
        ]
        config["tools"] = [{"function_declarations": declared}]
    if request.output_schema is not None:
        config["response_mime_type"] = "application/json"
        config["response_json_schema"] = dict(request.output_schema)
    return with_settings(config, options, request, _settings(request, names, form))


def _assistant(message: Message, names: ToolNames, called: dict[str, tuple[str, bool]]) -> list[Block]:
    """The parts of a reply; thoughts and signatures are sent as they were received, in their places."""
    layout = layout_of(message, OPAQUE)
    waiting = iter(message.tool_calls)
    parts: list[Block] = []
    if layout is not None:
        for part in layout:
            if "functionCall" not in part:
                parts.append(part)
            elif (call := next(waiting, None)) is not None:
                is_known = is_object(part["functionCall"]) and "id" in part["functionCall"]
                written = {"functionCall": _call(call, names, called, is_known=is_known)}
                parts.append({**part, **written})
    else:
        parts += blocks_of(message.content, _media, bare_text, [])
    return [*parts, *({"functionCall": _call(call, names, called, is_known=False)} for call in waiting)]


def _call(
    call: ToolCall, names: ToolNames, called: dict[str, tuple[str, bool]], *, is_known: bool
) -> dict[str, Any]:
    name = names.to_wire(call.name)
    called[call.id] = name, is_known
    return {"name": name, "args": write_args(call.args), **({"id": call.id} if is_known else {})}


def _result(
    message: Message, called: dict[str, tuple[str, bool]], omitted: list[str]
) -> tuple[Block, list[Block]]:
    """A tool's result: its text, and the blocks for its other parts."""
    call_id = message.tool_call_id or ""
    name, is_known = called.get(call_id, ("unknown", False))
    field = "error" if message.is_error else "result"
    response = {"name": name, "response": {field: message.text}, **({"id": call_id} if is_known else {})}
    blocks = blocks_of(media_in(message.content), _media, bare_text, omitted)
    head = [bare_text(f"From the result of {name}:")] if blocks else []
    return {"functionResponse": response}, [*head, *blocks]


def _media(part: Media) -> Block | str:
    if not part.media_type:
        return "its media type is unknown; pass media_type="
    if part.data is None:
        return {"fileData": {"fileUri": part.url, "mimeType": part.media_type}}
    return {"inlineData": {"mimeType": part.media_type, "data": part.base64}}


# --- settings ---------------------------------------------------------------------------------------


_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE", "tool": "ANY"}
_BUDGETS = {"off": 0, "low": 1024, "medium": 8192, "high": 24_576}  # Google's own, for models without levels


def _settings(request: LlmRequest, names: ToolNames, form: ReasoningForm) -> dict[str, Any]:
    """The fields for the settings of a request; None for those that are not set."""
    settings = request.settings
    return {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_output_tokens": settings.max_tokens,
        "seed": settings.seed,
        "stop_sequences": stops_of(request) or None,
        "thinking_config": _thinking(settings, form),
        "tool_config": _tool_config(request, names),
        "service_tier": settings.service_tier,
    }


def _thinking(settings: ModelSettings, form: ReasoningForm) -> dict[str, Any] | None:
    match settings.reasoning:
        case None:
            return None
        case int() as budget:
            return {"thinking_budget": budget}
        case effort if form == "level" and effort != "off":
            return {"thinking_level": effort.upper()}
        case effort:
            return {"thinking_budget": _BUDGETS[effort]}


def _tool_config(request: LlmRequest, names: ToolNames) -> dict[str, Any] | None:
    choice = tool_choice(request, names)
    if choice is None:
        return None
    only = {"allowed_function_names": [choice.name]} if choice.name else {}
    return {"function_calling_config": {"mode": _MODES[choice.kind], **only}}
