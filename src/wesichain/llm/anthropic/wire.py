"""The messages API on the wire: what is sent for a request. Pure: the client sends it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from wesichain.core import JsonValue, LlmRequest, Message, Role, ToolCall, is_array, is_object
from wesichain.llm.calls import ToolNames, require_ids, with_options, write_args

OPAQUE = "anthropic"  # whose data `Message.opaque` is: another provider's is not ours to send

_ILLEGAL_IN_ID = re.compile(r"[^A-Za-z0-9_-]")


def to_wire(
    request: LlmRequest,
    names: ToolNames,
    *,
    model: str,
    max_tokens: int,
    options: Mapping[str, JsonValue],
    stream: bool,
) -> dict[str, Any]:
    """The body for a request; its output schema must be one that the provider takes."""
    require_ids(request.messages)
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max_tokens,
        "messages": _turns(request.messages, names),
    }
    instructions = [message.content for message in request.messages if message.role is Role.SYSTEM]
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
    if request.stop:
        body["stop_sequences"] = [*request.stop]
    if stream:
        body["stream"] = True
    return with_options(body, options)


def _turns(messages: Sequence[Message], names: ToolNames) -> list[dict[str, Any]]:
    """User and assistant in turn: results of parallel calls belong into one user turn."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if blocks := _blocks(message, names):
            role = "assistant" if message.role is Role.ASSISTANT else "user"
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"].extend(blocks)
            else:
                turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message, names: ToolNames) -> list[dict[str, Any]]:
    match message.role:
        case Role.SYSTEM:
            return []
        case Role.USER:
            return [{"type": "text", "text": message.content}]
        case Role.TOOL:
            call_id = _id(message.tool_call_id or "")
            return [{"type": "tool_result", "tool_use_id": call_id, "content": message.content}]
        case Role.ASSISTANT:
            return _assistant(message, names)
        case _:
            assert_never(message.role)


def _assistant(message: Message, names: ToolNames) -> list[dict[str, Any]]:
    """The blocks of a reply: signed ones as they came and where they stood among the others."""
    calls = [_tool_use(call, names) for call in message.tool_calls]
    layout = message.opaque.get(OPAQUE) if is_object(message.opaque) else None
    if not is_array(layout):
        text = [{"type": "text", "text": message.content}] if message.content.strip() else []
        return [*text, *calls]
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
