"""Replies of Bedrock's Converse, from one body or from the events of a stream. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from wesichain.core import LlmResponse, TextChunk, ToolCallChunk, Usage
from wesichain.core.internal import StreamItem, is_array, is_object
from wesichain.llm import citations
from wesichain.llm.block_turns import usage_of
from wesichain.llm.calls import ToolNames, as_object, as_objects, as_string, read_args, sealed
from wesichain.llm.finish_reasons import CONVERSE
from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.http import Reply, event_object
from wesichain.llm.transport.sse import SseEvent

from .wire import OPAQUE


class ConverseReply(Reply):
    """One reply."""

    def __init__(self, names: ToolNames, endpoint: Endpoint) -> None:
        super().__init__(names, endpoint)
        self._blocks: dict[int, dict[str, Any]] = {}
        self._stop: str | None = None
        self._usage: Mapping[str, Any] = {}

    @override
    def feed_body(self, body: object) -> None:
        given = as_object(body)
        content = as_object(as_object(given.get("output")).get("message")).get("content")
        if not is_array(content):
            if given.get("message"):
                raise self._endpoint.reported(given)
            raise self._endpoint.unreadable("JSON that is not a reply of Converse")
        self._blocks = {place: block for place, block in enumerate(content) if is_object(block)}
        self._stop, self._usage = as_string(given.get("stopReason")), as_object(given.get("usage"))

    @override
    def feed(self, event: SseEvent) -> Iterator[StreamItem]:
        data = event_object(event, self._endpoint)
        if event.name == "error":
            raise self._endpoint.reported(data)
        match event.name:
            case "contentBlockStart":
                yield from self._start(data)
            case "contentBlockDelta":
                yield from self._grow(data)
            case "messageStop":
                self._stop = as_string(data.get("stopReason"))
            case "metadata":  # the last event
                self._usage = as_object(data.get("usage"))
                self.is_over = self._stop is not None
            case _:
                pass  # the start of the message, ends of blocks, and unknown events

    @override
    def response(self) -> LlmResponse:
        if (stop := self._stop) is None:
            raise self._endpoint.cut()
        blocks = [_read_input(block) for _, block in sorted(self._blocks.items())]
        uses = [block["toolUse"] for block in blocks if is_object(block.get("toolUse"))]
        calls = (self.tool_call(use.get("toolUseId"), use.get("name"), use.get("input")) for use in uses)
        is_own = any(block.keys() - {"text", "toolUse"} for block in blocks)
        response = LlmResponse(
            content="".join(_text_of(block) for block in blocks),
            tool_calls=tuple(calls),
            usage=_usage(self._usage),
            reasoning="".join(_thought_of(block) for block in blocks),
            opaque=sealed({OPAQUE: _layout(blocks) if is_own else []}),
            citations=citations.of_converse(blocks),
        )
        return self.with_finish_reason(response, stop, CONVERSE)

    def _start(self, data: dict[str, Any]) -> Iterator[StreamItem]:
        index, start = self._index(data), as_object(data.get("start"))
        if not is_object(use := start.get("toolUse")):
            return
        self._blocks[index] = {"toolUse": {**use, "input": ""}}
        name = self._names.from_wire(as_string(use.get("name")))
        yield ToolCallChunk(self._place(index), id=as_string(use.get("toolUseId")), name=name)

    def _grow(self, data: dict[str, Any]) -> Iterator[StreamItem]:
        index, delta = self._index(data), as_object(data.get("delta"))
        block = self._blocks.setdefault(index, {})
        if isinstance(text := delta.get("text"), str):
            block["text"] = as_string(block.get("text")) + text
            yield TextChunk(text)
        elif is_object(use := delta.get("toolUse")) and "toolUse" in block:
            piece = as_string(use.get("input"))
            block["toolUse"]["input"] += piece
            yield ToolCallChunk(self._place(index), args=piece)
        elif is_object(thought := delta.get("reasoningContent")):
            _grow_thought(block.setdefault("reasoningContent", {}), thought)
        elif is_object(cited := delta.get("citation")):
            block.setdefault("citations", []).append(cited)

    def _index(self, data: Mapping[str, Any]) -> int:
        index = data.get("contentBlockIndex")
        if not isinstance(index, int):
            raise self._endpoint.unreadable("a piece of no content block")
        return index

    def _place(self, index: int) -> int:
        """The number of the call in block `index`."""
        return sum("toolUse" in block for at, block in self._blocks.items() if at < index)


def _grow_thought(thought: dict[str, Any], delta: Mapping[str, Any]) -> None:
    if isinstance(hidden := delta.get("redactedContent"), str):
        thought["redactedContent"] = hidden
        return
    text = thought.setdefault("reasoningText", {"text": ""})
    for key in ("text", "signature"):
        if isinstance(piece := delta.get(key), str):
            text[key] = text.get(key, "") + piece


def _read_input(block: dict[str, Any]) -> dict[str, Any]:
    """A streamed block in the form of an unstreamed one: arguments parsed, citations around their text."""
    if is_object(use := block.get("toolUse")) and isinstance(use.get("input"), str):
        return {"toolUse": {**use, "input": read_args(use["input"])}}
    if "citations" in block:
        content = [{"text": block.get("text", "")}]
        return {"citationsContent": {"content": content, "citations": block["citations"]}}
    return block


def _text_of(block: Mapping[str, Any]) -> str:
    parts = as_objects(as_object(block.get("citationsContent")).get("content"))
    return as_string(block.get("text")) + "".join(as_string(part.get("text")) for part in parts)


def _thought_of(block: Mapping[str, Any]) -> str:
    return as_string(as_object(as_object(block.get("reasoningContent")).get("reasoningText")).get("text"))


def _layout(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks to send back; calls are only marked, since the message has them."""
    return [{"toolUse": {}} if "toolUse" in block else block for block in blocks]


def _usage(usage: Mapping[str, Any]) -> Usage:
    return usage_of(
        fresh=usage.get("inputTokens"),
        cached=usage.get("cacheReadInputTokens"),
        stored=usage.get("cacheWriteInputTokens"),
        written=usage.get("outputTokens"),
    )
