"""Replies of the messages API, from one body or from the events of a stream. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from wesichain.core import LlmResponse, TextChunk, ToolCallChunk, Usage
from wesichain.core.internal import Mutable, StreamItem, field, is_array, is_object
from wesichain.llm import citations
from wesichain.llm.block_turns import usage_of
from wesichain.llm.calls import REFUSAL, ToolNames, as_object, as_objects, as_string, read_args, sealed
from wesichain.llm.finish_reasons import ANTHROPIC
from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.http import Reply, event_object
from wesichain.llm.transport.sse import SseEvent

from .wire import OPAQUE


class _Block(Mutable):
    """A content block that is being received: text, a thought, or the arguments of a call."""

    data: dict[str, Any]
    pieces: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return str(self.data.get("type"))

    def complete(self) -> dict[str, Any]:
        text = "".join(self.pieces)
        if self.kind in ("text", "thinking"):
            return {**self.data, self.kind: as_string(self.data.get(self.kind)) + text}
        return {**self.data, "input": read_args(text)} if text.strip() else self.data

    def cite(self, citation: object) -> None:
        self.data["citations"] = [*as_objects(self.data.get("citations")), citation]

    def grow(self, fields: dict[str, Any]) -> None:
        """Append to strings; replace any other field."""
        for key, value in fields.items():
            before = self.data.get(key)
            self.data[key] = before + value if isinstance(before, str) and isinstance(value, str) else value


class MessageReply(Reply):
    """One reply."""

    def __init__(self, names: ToolNames, endpoint: Endpoint) -> None:
        super().__init__(names, endpoint)
        self._has_begun = False
        self._blocks: dict[int, _Block] = {}
        self._stop: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}

    @override
    def feed_body(self, body: object) -> None:
        content = body.get("content") if is_object(body) else None
        if not is_object(body) or not is_array(content):
            raise self.unreadable(body, "JSON that is not a message")
        self._blocks = {place: _Block(block) for place, block in enumerate(content) if is_object(block)}
        self._stop = body
        self._count(body)
        self.is_over = self._has_begun = True

    @override
    def feed(self, event: SseEvent) -> Iterator[StreamItem]:
        data = event_object(event, self._endpoint)
        match data.get("type"):
            case "message_start":
                # A second one begins another message: the first is discarded.
                self._has_begun = True
                self._blocks.clear()
                self._stop = {}
                self._count(data.get("message"))
            case "content_block_start":
                yield from self._start(data)
            case "content_block_delta":
                yield from self._grow(data)
            case "message_delta":
                self._stop |= as_object(data.get("delta"))
                self._count(data)
            case "message_stop":
                self.is_over = True
            case "error":
                raise self._endpoint.reported(data.get("error"))
            case _:
                pass  # pings, ends of blocks, and unknown events

    @override
    def response(self) -> LlmResponse:
        if not self.is_over:
            raise self._endpoint.cut()
        if not self._has_begun:
            raise self._endpoint.unreadable("no message in it")
        blocks = [block.complete() for _, block in sorted(self._blocks.items())]
        texts = [as_string(block.get("text")) for block in blocks if block.get("type") == "text"]
        thoughts = [as_string(block.get("thinking")) for block in blocks if block.get("type") == "thinking"]
        calls = tuple(
            self.tool_call(block.get("id"), block.get("name"), block.get("input"))
            for block in blocks
            if block.get("type") == "tool_use"
        )
        stop = self._stop.get("stop_reason")
        details = as_object(self._stop.get("stop_details"))
        refusal = as_string(details.get("explanation")) if stop == "refusal" else ""
        # Signed thoughts, and blocks of the provider's own tools, are sent back as they were received.
        is_own = any(block.get("type") not in ("text", "tool_use") for block in blocks)
        layout = _layout(blocks) if is_own else []
        response = LlmResponse(
            content="".join(texts),
            tool_calls=calls,
            usage=_usage(self._usage),
            reasoning="".join(thoughts),
            opaque=sealed({OPAQUE: layout, REFUSAL: refusal}),
            citations=citations.of_blocks(blocks),
        )
        return self.with_finish_reason(response, str(stop or ""), ANTHROPIC)

    def _start(self, data: dict[str, Any]) -> Iterator[StreamItem]:
        block = data.get("content_block")
        index = data.get("index")
        if not is_object(block) or not isinstance(index, int):
            raise self._endpoint.unreadable("a content block without its content")
        self._blocks[index] = _Block(block)
        if block.get("type") == "tool_use":
            name = self._names.from_wire(as_string(block.get("name")))
            yield ToolCallChunk(self._place(index), id=as_string(block.get("id")), name=name)
        elif block.get("type") == "text" and block.get("text"):
            yield TextChunk(as_string(block["text"]))

    def _grow(self, data: dict[str, Any]) -> Iterator[StreamItem]:
        delta, index = data.get("delta"), data.get("index")
        if not is_object(delta) or not isinstance(index, int) or index not in self._blocks:
            raise self._endpoint.unreadable("a piece of no content block")
        block = self._blocks[index]
        match delta.get("type"):
            case "text_delta":
                piece = as_string(delta.get("text"))
                block.pieces.append(piece)
                yield TextChunk(piece)
            case "input_json_delta":
                piece = as_string(delta.get("partial_json"))
                block.pieces.append(piece)
                if block.kind == "tool_use":
                    yield ToolCallChunk(self._place(index), args=piece)
            case "thinking_delta":
                block.pieces.append(as_string(delta.get("thinking")))
            case "citations_delta":
                block.cite(delta.get("citation"))
            case _:  # signatures, and fields of the provider's own blocks
                block.grow({key: value for key, value in delta.items() if key != "type"})

    def _place(self, index: int) -> int:
        """The number of the call in block `index`."""
        return sum(block.kind == "tool_use" for at, block in self._blocks.items() if at < index)

    def _count(self, data: object) -> None:
        usage = as_object(as_object(data).get("usage"))
        self._usage |= {key: value for key, value in usage.items() if value is not None}


def _usage(usage: Mapping[str, Any]) -> Usage:
    return usage_of(
        fresh=usage.get("input_tokens"),
        cached=usage.get("cache_read_input_tokens"),
        stored=usage.get("cache_creation_input_tokens"),
        written=usage.get("output_tokens"),
        thought=as_object(usage.get("output_tokens_details")).get("thinking_tokens"),
    )


def _layout(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks to send back; calls are only marked, since the message has them."""
    return [{"type": "tool_use"} if block.get("type") == "tool_use" else block for block in blocks]
