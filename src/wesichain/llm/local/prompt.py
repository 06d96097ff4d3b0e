"""The prompt format for small models: short rules, and one JSON object per turn.

A call is `{"tool": "add", "args": {"a": 1}}`, an answer `{"answer": "..."}`; both begin with `"thought"` if
those of the examples do. The constant parts (rules, tools, instructions, examples) are first and always
written identically, so that llama.cpp reuses them from its cache and reads only the new part in each step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from wesichain.core import LlmRequest, LlmResponse, Message, Role, ToolCall, ToolSpec, Usage
from wesichain.core.internal import FinishReason, content_as_text, is_object, parse_json
from wesichain.errors import CodecError
from wesichain.llm.calls import spaced_json
from wesichain.llm.families import UNKNOWN, Family, without_controls

_RULES = """\
Answer the question. Use a tool for every fact, date or number that you were not told.
Reply with one JSON object: {"tool": ..., "args": {...}} to call a tool, {"answer": ...} once you know."""
_THINKING_RULES = _RULES.replace('{"tool"', '{"thought": ..., "tool"').replace(
    '{"answer"', '{"thought": ..., "answer"'
)

_ANSWER = re.compile(r'\s*\{\s*(?:"thought"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*)?"answer"\s*:\s*"')


def has_thoughts(examples: Sequence[Message]) -> bool:
    """Whether the calls of the examples have thoughts; the model then has to write them too."""
    return any(message.content and message.tool_calls for message in examples)


def chat_messages(
    request: LlmRequest, examples: Sequence[Message] = (), *, family: Family = UNKNOWN
) -> list[dict[str, str]]:
    """The request as chat turns: one system turn, then user and assistant in alternation.

    No text, such as a tool's result, contains a turn of the family's template; of an unknown one, of any
    template.
    """
    plain = not request.tools
    messages = request.messages if plain else [*examples, *request.messages]
    turns = [("system", _system(request, thoughts=has_thoughts(examples)))]
    turns += [_turn(message, plain=plain) for message in messages if message.role is not Role.SYSTEM]
    merged: list[dict[str, str]] = []
    for role, content in turns:
        text = without_controls(content, family)
        if merged and merged[-1]["role"] == role:  # some chat templates require alternation
            merged[-1]["content"] += "\n" + text
        elif text or role != "system":
            merged.append({"role": role, "content": text})
    return merged


def _system(request: LlmRequest, *, thoughts: bool) -> str:
    parts: list[str] = []
    if request.tools:
        parts += [
            _THINKING_RULES if thoughts else _RULES,
            "Tools:\n" + "\n".join(map(_signature, request.tools)),
        ]
    parts += [message.text for message in request.messages if message.role is Role.SYSTEM]
    if request.output_schema is not None:
        schema = spaced_json(dict(request.output_schema))
        parts.append(f"The answer is JSON that follows this schema: {schema}")
    return "\n".join(part for part in parts if part)


def _turn(message: Message, *, plain: bool) -> tuple[str, str]:
    said = content_as_text(message.content)
    if message.role is Role.TOOL:
        return "user", f"Result: {said}"
    if message.role is not Role.ASSISTANT:
        return "user", said if plain else f"Question: {said}"
    if message.tool_calls:
        calls = [{"tool": call.name, "args": call.args} for call in message.tool_calls]
        return "assistant", "\n".join(_reply(call, said) for call in calls)
    if plain:
        return "assistant", said
    return "assistant", _reply({"answer": said}, message.reasoning)


def _reply(reply: dict[str, Any], thought: str) -> str:
    return spaced_json({"thought": thought, **reply} if thought else reply)


def _signature(tool: ToolSpec) -> str:
    """`convert(value: number, unit: "km"|"mile", to?: string): Convert a value.`"""
    fields = _fields(dict(tool.parameters), tool.parameters.get("$defs") or {}, depth=0)
    return f"- {tool.name}({fields}): {' '.join(tool.description.split())}"


def _fields(schema: dict[str, Any], defs: Mapping[str, Any], *, depth: int) -> str:
    required = schema.get("required") or ()
    properties = schema.get("properties")
    return ", ".join(
        f"{name}{'' if name in required else '?'}: {_kind(inner, defs, depth=depth)}"
        for name, inner in (properties if is_object(properties) else {}).items()
    )


def _kind(schema: Any, defs: Mapping[str, Any], *, depth: int) -> str:
    if not is_object(schema) or depth > 3:
        return "any"
    if "$ref" in schema:
        return _kind(defs.get(str(schema["$ref"]).removeprefix("#/$defs/")), defs, depth=depth + 1)
    if "enum" in schema:
        return "|".join(map(spaced_json, schema["enum"]))
    if "const" in schema:
        return spaced_json(schema["const"])
    kind = schema.get("type")
    if kind == "array":
        return f"[{_kind(schema.get('items'), defs, depth=depth + 1)}]"
    if kind == "object" and is_object(schema.get("properties")):
        return "{" + _fields(schema, defs, depth=depth + 1) + "}"
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return "|".join(dict.fromkeys(_kind(choice, defs, depth=depth + 1) for choice in choices))
    return schema.get("format") or (kind if isinstance(kind, str) else "any")


# --- reading a reply ------------------------------------------------------------------------------


def read_reply(text: str, *, request: LlmRequest, usage: Usage, cut: bool) -> LlmResponse:
    """The response in a reply. Text that is neither a call nor an answer is kept; the runtime judges it."""
    finish: FinishReason = "length" if cut else "stop"
    if not request.tools:
        return LlmResponse(text, usage=usage, finish_reason=finish)
    try:
        reply = parse_json(text)
    except CodecError:
        return LlmResponse(partial_answer(text) if cut else text, usage=usage, finish_reason=finish)
    thought = str(reply.get("thought", "")) if is_object(reply) else ""
    if is_object(reply) and "tool" in reply:
        number = sum(len(message.tool_calls) for message in request.messages)
        call = ToolCall(f"call_{number + 1}", str(reply["tool"]), reply.get("args", {}))
        return LlmResponse(thought, tool_calls=(call,), usage=usage, finish_reason="tool_calls")
    if is_object(reply) and "answer" in reply:
        answer = reply["answer"]
        content = answer if request.output_schema is None and isinstance(answer, str) else spaced_json(answer)
        return LlmResponse(content, usage=usage, finish_reason=finish, reasoning=thought)
    return LlmResponse(text, usage=usage, finish_reason=finish)


def partial_answer(text: str) -> str:
    """The part of the answer in an unfinished reply."""
    found = _ANSWER.match(text)
    if found is None:
        return ""
    raw = text[found.end() :]
    end = re.match(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*', raw)
    whole = raw[: end.end()] if end else ""
    try:
        answer = parse_json(f'"{whole}"')
    except CodecError:
        return ""  # the first half of a surrogate pair
    return str(answer)
