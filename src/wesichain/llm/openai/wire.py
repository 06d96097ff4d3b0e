"""Chat completions on the wire: what is sent for a request. Pure: the client sends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from wesichain.core import JsonValue, LlmRequest, Message, Role, ToolSpec, is_array, is_object, to_json
from wesichain.llm.calls import REFUSAL, ToolNames, require_ids, with_options, write_args

OPAQUE = "openai"  # whose data `Message.opaque` is: another provider's is not ours to send


def to_wire(
    request: LlmRequest, names: ToolNames, *, model: str, options: Mapping[str, JsonValue], stream: bool
) -> dict[str, Any]:
    """The body for a request."""
    require_ids(request.messages)
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message, names) for message in request.messages],
    }
    if request.tools:
        body["tools"] = [_tool(tool, names) for tool in request.tools]
    if request.output_schema is not None:
        answer = {"name": "answer", "schema": request.output_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": answer}
    if request.stop:
        body["stop"] = [*request.stop]
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return with_options(body, options)


def _tool(tool: ToolSpec, names: ToolNames) -> dict[str, Any]:
    function = {
        "name": names.to_wire(tool.name),
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _message(message: Message, names: ToolNames) -> dict[str, Any]:
    match message.role:
        case Role.SYSTEM | Role.USER:
            return {"role": message.role.value, "content": message.content}
        case Role.TOOL:
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
        case Role.ASSISTANT:
            return _assistant(message, names)
        case _:
            assert_never(message.role)


def _assistant(message: Message, names: ToolNames) -> dict[str, Any]:
    opaque = message.opaque if is_object(message.opaque) else {}
    if not message.tool_calls:
        refusal = {"refusal": opaque[REFUSAL]} if REFUSAL in opaque else {}
        return {"role": "assistant", "content": message.content, **refusal}
    calls: list[dict[str, Any]] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": names.to_wire(call.name), "arguments": to_json(write_args(call.args))},
        }
        for call in message.tool_calls
    ]
    kept = opaque.get(OPAQUE)
    kept = kept if is_object(kept) else {}
    extras = kept.get("calls")
    for call, extra in zip(calls, extras if is_array(extras) else (), strict=False):
        if extra:
            call["extra_content"] = extra
    # Reasoning is asked back only while its turn goes on; some providers refuse it afterwards.
    fields = kept.get("message")
    own = fields if is_object(fields) else {}
    return {**own, "role": "assistant", "content": message.content or None, "tool_calls": calls}
