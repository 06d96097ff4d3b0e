"""Replies of chat completions, from one body or from the chunks of a stream. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typing_extensions import override

from wesichain.core import Citation, JsonValue, LlmResponse, TextChunk, ToolCallChunk, Usage
from wesichain.core.internal import Mutable, StreamItem, dump_json, field, is_array, is_object, replace
from wesichain.llm import citations
from wesichain.llm.calls import (
    REFUSAL,
    ToolNames,
    as_object,
    as_objects,
    as_string,
    read_args,
    sealed,
)
from wesichain.llm.finish_reasons import CHAT
from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.http import Reply, event_object
from wesichain.llm.transport.sse import SseEvent

from .usage import usage_of
from .wire import OPAQUE

# Fields of a provider's message that it requires back in the same turn.
_ECHOED = ("extra_content", "thought_signature")


class _Call(Mutable):
    """A call whose chunks are being received."""

    place: int
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    extra: JsonValue = None


class ChatReply(Reply):
    """One reply; only its first choice is read."""

    def __init__(self, names: ToolNames, endpoint: Endpoint, *, is_own: bool = False) -> None:
        super().__init__(names, endpoint)
        self._is_own = is_own  # OpenAI itself: other servers have finish reasons of their own
        self._has_begun = False
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_content: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._echoed: dict[str, JsonValue] = {}
        self._calls: list[_Call] = []
        self._by_index: dict[int | None, _Call] = {}
        self._finish = ""
        self._usage = Usage()
        self._citations: tuple[Citation, ...] = ()

    @override
    def feed_body(self, body: object) -> None:
        choices = body.get("choices") if is_object(body) else None
        if not is_object(body) or not is_array(choices) or not choices:
            raise self.unreadable(body, "JSON that is not a chat completion")
        self._take_usage(body)
        for _ in self._take_choice(choices[0], part="message"):
            pass
        self.is_over = True

    @override
    def feed(self, event: SseEvent) -> Iterator[StreamItem]:
        data = event.data.strip()
        if data.startswith("[DONE]"):
            self.is_over = True
        elif data:
            chunk = event_object(event, self._endpoint)
            fault = chunk.get("error") or (chunk if event.name == "error" else None)
            if fault and not self._finish:  # after the finish reason, the reply is complete
                raise self._endpoint.reported(fault)
            yield from self._take_chunk(chunk)

    @override
    def response(self) -> LlmResponse:
        if not self.is_over:  # after a finish reason alone, more may have been lost
            raise self._endpoint.cut()
        if not self._has_begun:
            raise self._endpoint.unreadable("no choice in it")
        calls = (self.tool_call(call.id, call.name, read_args("".join(call.pieces))) for call in self._calls)
        response = LlmResponse(
            content="".join(self._text),
            tool_calls=tuple(calls),
            usage=self._usage,
            reasoning="".join(self._reasoning) or "".join(self._reasoning_content),
            opaque=self._opaque(),
            citations=self._citations,
        )
        is_known = self._is_own or self._finish in CHAT or not self._finish
        response = self.with_finish_reason(response, self._finish if is_known else "stop", CHAT)
        if self._refusal and response.finish_reason == "stop":  # the API always says stop
            return replace(response, finish_reason="refusal")
        return response

    def _opaque(self) -> JsonValue:
        message: dict[str, JsonValue] = dict(self._echoed)
        if self._reasoning_content:
            message["reasoning_content"] = "".join(self._reasoning_content)
        if self._details:
            message["reasoning_details"] = self._details
        kept: dict[str, JsonValue] = {"message": message} if message else {}
        if any(call.extra for call in self._calls):
            kept["calls"] = [call.extra for call in self._calls]
        return sealed({OPAQUE: kept, REFUSAL: "".join(self._refusal)})

    def _take_chunk(self, chunk: dict[str, Any]) -> Iterator[StreamItem]:
        self._take_usage(chunk)
        for choice in as_objects(chunk.get("choices")):
            if choice.get("index") in (0, None):
                yield from self._take_choice(choice, part="delta")

    def _take_usage(self, body: dict[str, Any]) -> None:
        if is_object(usage := body.get("usage")):
            self._usage = usage_of(usage, reading="prompt", writing="completion")

    def _take_choice(self, choice: object, *, part: str) -> Iterator[StreamItem]:
        if is_object(choice):
            self._has_begun = True
            self._finish = as_string(choice.get("finish_reason")) or self._finish
            if is_object(message := choice.get(part)):
                yield from self._take_message(message, is_whole=part == "message")

    def _take_message(self, message: dict[str, Any], *, is_whole: bool) -> Iterator[StreamItem]:
        text, thought = _text_and_thought(message.get("content"))
        if text:
            self._text.append(text)
            yield TextChunk(text)
        for pieces, piece in (
            (self._reasoning, thought),
            (self._reasoning, message.get("reasoning")),
            (self._reasoning_content, message.get("reasoning_content")),
            (self._refusal, message.get("refusal")),
        ):
            if isinstance(piece, str) and piece:
                pieces.append(piece)
        self._citations += citations.of_chat(message.get("annotations"))
        _extend(self._details, message.get("reasoning_details"))
        self._echoed |= {key: message[key] for key in _ECHOED if message.get(key) is not None}
        for place, call in enumerate(as_objects(message.get("tool_calls"))):
            yield self._take_call(call, index=place if is_whole else call.get("index"))

    def _take_call(self, given: dict[str, Any], *, index: object) -> ToolCallChunk:
        function = as_object(given.get("function"))
        call_id, name = as_string(given.get("id")), as_string(function.get("name"))
        call = self._call_for(index if isinstance(index, int) else None, id=call_id, name=name)
        call_id, name = "" if call.id else call_id, "" if call.name else name  # each is emitted once
        call.id += call_id
        call.name += name
        arguments = function.get("arguments")
        piece = dump_json(arguments) if is_object(arguments) else as_string(arguments)
        call.pieces.append(piece)
        call.extra = given.get("extra_content") or call.extra
        return ToolCallChunk(call.place, id=call_id, name=self._names.from_wire(name), args=piece)

    def _call_for(self, index: int | None, *, id: str, name: str) -> _Call:
        """The call that a chunk belongs to, by its index, unless it begins a new call."""
        call = self._by_index.get(index)
        is_new_id = call is not None and id and call.id and id != call.id
        is_new_name = call is not None and index is None and name and call.name
        if call is None or is_new_id or is_new_name:
            call = self._by_index[index] = _Call(place=len(self._calls))
            self._calls.append(call)
        return call


def _text_and_thought(content: object) -> tuple[str, str]:
    """The text and the thoughts of a content: a string, or a list of texts and thoughts."""
    if isinstance(content, str):
        return content, ""
    text, thought = "", ""
    for part in content if is_array(content) else ():
        if isinstance(part, str):
            text += part
        elif is_object(part) and part.get("type") == "thinking":
            thought += "".join(_text_and_thought(part.get("thinking")))
        elif is_object(part):
            text += as_string(part.get("text"))
    return text, thought


def _extend(details: list[dict[str, Any]], new: object) -> None:
    """Add reasoning details; one with the type and index of the detail before continues it."""
    for item in as_objects(new):
        last = details[-1] if details else {}
        if "type" not in last or any(last.get(key) != item.get(key) for key in ("type", "index")):
            details.append(dict(item))
            continue
        for key, value in item.items():
            if key in ("text", "summary", "data") and isinstance(value, str):
                last[key] = as_string(last.get(key)) + value
            elif value is not None:
                last[key] = value
