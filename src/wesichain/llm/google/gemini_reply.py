"""Replies of Gemini, from one body or from the pieces of a stream. Pure."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from wesichain.core import Audio, Image, LlmResponse, Part, TextChunk, ToolCall, ToolCallChunk, Usage
from wesichain.core.internal import StreamItem, dump_json, is_array, is_object
from wesichain.errors import CodecError
from wesichain.llm import citations
from wesichain.llm.calls import REFUSAL, ToolNames, as_object, as_objects, sealed, token_count
from wesichain.llm.finish_reasons import GEMINI, Ending, ending_of, with_ending
from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.http import Reply, event_object
from wesichain.llm.transport.sse import SseEvent

from .wire import OPAQUE


class GeminiReply(Reply):
    """One reply; only its first candidate is read."""

    def __init__(self, names: ToolNames, endpoint: Endpoint) -> None:
        super().__init__(names, endpoint)
        self._parts: list[dict[str, Any]] = []
        self._finish = ""
        self._said = ""  # the explanation of its finish reason
        self._blocked = ""
        self._token = ""  # continues the reply in another request
        self._usage: dict[str, Any] = {}
        self._usage_before = Usage()  # of the earlier requests that this reply continues
        self._calls = 0
        self._grounding: dict[str, Any] = {}

    @override
    def feed_body(self, body: object) -> None:
        if not is_object(body):
            raise self._endpoint.unreadable("JSON that is not a reply of Gemini")
        for _ in self._take_piece(body):
            pass
        self.is_over = True

    @override
    def feed(self, event: SseEvent) -> Iterator[StreamItem]:
        return self._take_piece(event_object(event, self._endpoint))

    @override
    def next_request(self, wire: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The request with the token by which Gemini continues a reply that filled one of its turns."""
        config, token = wire["config"], self._token
        if GEMINI.get(self._finish) != "pause" or not token or config.get("automatic_continuation") is False:
            return None
        self._usage_before += _usage(self._usage)
        self._finish, self._token, self._usage = "", "", {}
        return {**wire, "config": {**config, "continuation_token": token}}

    def _take_piece(self, body: Mapping[str, Any]) -> Iterator[StreamItem]:
        """Parse a piece of a stream, or a whole body."""
        if body.get("error"):
            raise self._endpoint.reported(body["error"])
        self._usage |= as_object(body.get("usageMetadata"))
        self._blocked = str(as_object(body.get("promptFeedback")).get("blockReason") or self._blocked)
        candidates = body.get("candidates")
        first = candidates[0] if is_array(candidates) and candidates else None
        if not is_object(first):
            return
        self._finish = str(first.get("finishReason") or self._finish)
        self._token = str(first.get("continuationToken") or self._token)
        self._said = str(first.get("finishMessage") or self._said)
        self._grounding |= as_object(first.get("groundingMetadata"))
        for part in as_objects(as_object(first.get("content")).get("parts")):
            yield from self._take(part)

    @override
    def response(self) -> LlmResponse:
        if not self._finish and not self._blocked:
            is_empty = self.is_over and not self._parts
            raise self._endpoint.unreadable("no candidate in it") if is_empty else self._endpoint.cut()
        calls = tuple(self._call(part) for part in self._parts if "functionCall" in part)
        texts = [part for part in self._parts if "text" in part]
        is_own = any("thought" in part or "thoughtSignature" in part for part in self._parts) or any(
            part.keys().isdisjoint(("text", "functionCall", "inlineData")) for part in self._parts
        )
        content = "".join(part["text"] for part in texts if not part.get("thought"))
        response = LlmResponse(
            content=content,
            tool_calls=calls,
            usage=self._usage_before + _usage(self._usage),
            reasoning="".join(part["text"] for part in texts if part.get("thought")),
            opaque=sealed({OPAQUE: _layout(self._parts) if is_own else [], REFUSAL: self._said}),
            parts=tuple(_media(self._parts)),
            citations=citations.of_grounding(self._grounding, content),
        )
        return with_ending(response, self._ending(has_calls=bool(calls)), word=self._finish, why=self._said)

    def _take(self, given: Mapping[str, Any]) -> Iterator[StreamItem]:
        last = self._parts[-1] if self._parts else {}
        text = given.get("text")
        part = {key: value for key, value in given.items() if value is not None}
        if not isinstance(text, str):
            part.pop("text", None)
        is_same = "text" in last and last.get("thought") == part.get("thought")
        if isinstance(text, str) and is_same and "thoughtSignature" not in last:  # a signature ends a text
            last["text"] += text
            last |= {key: value for key, value in part.items() if key != "text"}
        else:
            self._parts.append(part)
        if isinstance(text, str) and text and not part.get("thought"):
            yield TextChunk(text)
        if "functionCall" in part:
            call = self._call(part)
            yield ToolCallChunk(self._calls, id=call.id, name=call.name, args=dump_json(call.args))
            self._calls += 1

    def _call(self, part: dict[str, Any]) -> ToolCall:
        call = as_object(part["functionCall"])
        return self.tool_call(call.get("id"), call.get("name"), call.get("args"))

    def _ending(self, *, has_calls: bool) -> Ending:
        if self._blocked:
            return "content_filter"
        ending = ending_of(self._finish, GEMINI, self._endpoint)
        return "tool_calls" if ending == "stop" and has_calls else ending


def _layout(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts to send back; calls are only marked, with their id and signature."""
    layout: list[dict[str, Any]] = []
    for part in parts:
        if "functionCall" in part:
            known = {"id": ""} if is_object(part["functionCall"]) and part["functionCall"].get("id") else {}
            layout.append({**part, "functionCall": known})
        elif "inlineData" not in part:  # the media are in the parts of the reply
            layout.append(part)
    return layout


def _media(parts: Sequence[dict[str, Any]]) -> Iterator[Part]:
    for data in as_objects([part.get("inlineData") for part in parts]):
        kind = str(data.get("mimeType") or "")
        make = Image if kind.startswith("image/") else Audio if kind.startswith("audio/") else None
        try:
            if make is not None:
                # The API writes standard base64, its SDK the URL-safe alphabet.
                text = str(data.get("data")).replace("-", "+").replace("_", "/")
                yield make(a2b_base64(text), media_type=kind)
        except (ValueError, CodecError):
            continue


def _usage(usage: Mapping[str, Any]) -> Usage:
    prompt = token_count(usage.get("promptTokenCount"))
    read = prompt + token_count(usage.get("toolUsePromptTokenCount"))
    thought = token_count(usage.get("thoughtsTokenCount"))
    written = token_count(usage.get("candidatesTokenCount")) + thought
    return Usage(read, written, min(token_count(usage.get("cachedContentTokenCount")), read), 0, thought)
