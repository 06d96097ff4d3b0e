"""Chat completions on the server side: a body as a request, a response as a body. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from wesichain.core import LlmRequest, LlmResponse, Message, ModelSettings, Role, ToolCall, ToolSpec
from wesichain.core.internal import Value, dump_json, field, is_array, is_object, parse_json
from wesichain.errors import CodecError, ConfigError

_EXTRA = ("top_k", "min_p", "presence_penalty", "frequency_penalty")  # llama.cpp has the same names


class ChatRequest(Value):
    """A request with tools, and whether the reply is streamed, with its usage."""

    request: LlmRequest
    stream: bool
    include_usage: bool


def parse_request(body: bytes) -> ChatRequest | None:
    """The request in a body; None if it has no tools, or content other than text.

    Raises `CodecError` for an invalid one.
    """
    asked = parse_json(body)
    if not is_object(asked) or not is_array(asked.get("tools")) or not asked["tools"]:
        return None
    choice = asked.get("tool_choice", "auto")
    if choice == "none" or not is_array(asked.get("messages")):
        return None
    if asked.get("n") not in (None, 1):
        raise CodecError("n: only one choice is possible in a request with tools")
    tools = tuple(map(_tool, asked["tools"]))
    if is_object(choice):
        named = _field(choice.get("function"), "name")
        tools = tuple(tool for tool in tools if tool.name == named)
        if not tools:
            raise CodecError(f"tool_choice: no tool named {named!r} is offered")
    messages = [_message(message) for message in asked["messages"]]
    if None in messages:
        return None
    stop = asked.get("stop") or ()
    options = asked.get("stream_options")
    return ChatRequest(
        LlmRequest(
            str(asked.get("model") or ""),
            tuple(message for message in messages if message is not None),
            tools,
            _schema(asked.get("response_format")),
            stop=(stop,) if isinstance(stop, str) else tuple(map(str, stop)),
            settings=_settings(asked, must_call=choice == "required" or is_object(choice)),
        ),
        stream=asked.get("stream") is True,
        include_usage=is_object(options) and options.get("include_usage") is True,
    )


def _settings(asked: Mapping[str, Any], *, must_call: bool) -> ModelSettings:
    most = asked.get("max_completion_tokens") or asked.get("max_tokens")
    try:
        return ModelSettings(
            temperature=asked.get("temperature"),
            max_tokens=most if isinstance(most, int) else None,
            top_p=asked.get("top_p"),
            seed=asked.get("seed"),
            tool_choice="required" if must_call else None,
            extra={name: asked[name] for name in _EXTRA if asked.get(name) is not None},
        )
    except ConfigError as error:
        raise CodecError(str(error)) from None


def _tool(tool: object) -> ToolSpec:
    function = tool.get("function") if is_object(tool) else None
    if not is_object(function):
        raise CodecError("tools: each is {'type': 'function', 'function': {...}}")
    parameters: Any = function.get("parameters") or {"type": "object", "properties": {}}
    return ToolSpec(_field(function, "name"), str(function.get("description") or ""), parameters)


def _field(value: object, name: str) -> str:
    found = value.get(name) if is_object(value) else None
    if not isinstance(found, str) or not found:
        raise CodecError(f"a function has no {name}")
    return found


def _schema(form: object) -> dict[str, Any] | None:
    if not is_object(form) or form.get("type") not in ("json_schema", "json_object"):
        return None
    inner = form.get("json_schema")
    schema = inner.get("schema") if is_object(inner) else form.get("schema")
    return schema if is_object(schema) else {"type": "object"}


def _message(message: object) -> Message | None:
    """A message; None if it has content other than text."""
    if not is_object(message):
        raise CodecError("messages: each is an object with a role")
    content = message.get("content")
    if is_array(content):
        texts = [part.get("text") if is_object(part) else None for part in content]
        if not all(isinstance(text, str) for text in texts):
            return None
        content = "\n".join(map(str, texts))
    role = "system" if message.get("role") == "developer" else message.get("role")
    if role not in ("system", "user", "assistant", "tool"):
        raise CodecError(f"messages: unknown role {role!r}")
    calls = message.get("tool_calls") or ()
    return Message(
        Role(role),
        str(content or ""),
        str(message.get("tool_call_id") or "") or None,
        tuple(map(_call, calls if is_array(calls) else ())),
    )


def _call(call: object) -> ToolCall:
    function = call.get("function") if is_object(call) else None
    name = _field(function, "name")
    given = function.get("arguments") if is_object(function) else None
    try:
        args = parse_json(given or "{}") if isinstance(given, str | None) else given
    except CodecError:
        args = given  # as the model wrote it
    return ToolCall(str(call.get("id") or "") if is_object(call) else "", name, args)


# --- the reply ------------------------------------------------------------------------------------


class ReplyWriter(Value):
    """Writes one reply, as a body or as the chunks of a stream."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def body(self, reply: LlmResponse) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": reply.content or None}
        if reply.tool_calls:
            message["tool_calls"] = [self._call(call) for call in reply.tool_calls]
        choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
        body = {**self._head("chat.completion"), "choices": [choice], "usage": _usage(reply)}
        return dump_json(body).encode()

    def text(self, text: str) -> bytes:
        return self._chunk({"role": "assistant", "content": text}, None)

    def end(self, reply: LlmResponse, *, usage: bool) -> Iterator[bytes]:
        """The last chunks of a stream: the calls, the finish reason, and the usage if requested."""
        for index, call in enumerate(reply.tool_calls):
            yield self._chunk(
                {"role": "assistant", "tool_calls": [{"index": index, **self._call(call)}]}, None
            )
        yield self._chunk({}, reply.finish_reason)
        if usage:
            yield _event({**self._head("chat.completion.chunk"), "choices": [], "usage": _usage(reply)})
        yield b"data: [DONE]\n\n"

    def _call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": call.name, "arguments": dump_json(call.args)}
        return {"id": f"call_{self.id[-16:]}_{call.id}", "type": "function", "function": function}

    def _chunk(self, delta: dict[str, Any], finish: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + dump_json(body).encode() + b"\n\n"


def _usage(reply: LlmResponse) -> dict[str, int]:
    read, written = reply.usage.input_tokens, reply.usage.output_tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def error_body(status: int, message: str) -> bytes:
    """The body of an error."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return dump_json({"error": {"code": status, "message": message, "type": kind}}).encode()
