"""Converse on the wire: a reply, read whole or put together from its events. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wesichain.core import LlmResponse, StreamItem, TextChunk, ToolCall, ToolCallChunk, Usage
from wesichain.core.internal import is_array, is_object, parse_json
from wesichain.errors import CodecError
from wesichain.llm import citations
from wesichain.llm.calls import ToolNames, read_args, sealed, whole_number
from wesichain.llm.finish_reasons import CONVERSE, ending_of, with_ending
from wesichain.llm.transport import Endpoint, SseEvent

from .wire import OPAQUE


class ConverseReply:
    """One reply. Tool names are given back as the request knew them."""

    def __init__(self, names: ToolNames, endpoint: Endpoint, omitted: Sequence[str] = ()) -> None:
        self.is_over = False
        self._names = names
        self._endpoint = endpoint
        self._omitted = tuple(omitted)
        self._blocks: dict[int, dict[str, Any]] = {}
        self._stop: str | None = None
        self._usage: Mapping[str, Any] = {}

    @staticmethod
    def read(
        body: object, *, names: ToolNames, endpoint: Endpoint, omitted: Sequence[str] = ()
    ) -> LlmResponse:
        """The response in a body that came in one piece."""
        output = _object(body.get("output") if is_object(body) else None)
        content = _object(output.get("message")).get("content")
        if not is_object(body) or not is_array(content):
            if is_object(body) and body.get("message"):
                raise endpoint.reported(body)
            raise endpoint.unreadable("JSON that is not a reply of Converse")
        blocks = [block for block in content if is_object(block)]
        stop = _string(body.get("stopReason"))
        return _response(
            blocks,
            stop=stop,
            usage=_object(body.get("usage")),
            names=names,
            omitted=omitted,
            host=endpoint.host,
        )

    def take(self, event: SseEvent) -> Iterator[StreamItem]:
        try:
            data = parse_json(event.data)
        except CodecError as error:
            raise self._endpoint.unreadable(f"an event that is not JSON ({error})") from None
        if not is_object(data):
            raise self._endpoint.unreadable("an event that is not an object")
        if event.name == "error":
            raise self._endpoint.reported(data)
        match event.name:
            case "contentBlockStart":
                yield from self._start(data)
            case "contentBlockDelta":
                yield from self._grow(data)
            case "messageStop":
                self._stop = _string(data.get("stopReason"))
            case "metadata":  # the last one: what it cost
                self._usage = _object(data.get("usage"))
                self.is_over = self._stop is not None
            case _:
                pass  # the start of the message, ends of blocks, and what is yet to be invented

    def whole(self) -> LlmResponse:
        if self._stop is None:
            raise self._endpoint.cut()
        blocks = [_read_input(block) for _, block in sorted(self._blocks.items())]
        return _response(
            blocks,
            stop=self._stop,
            usage=self._usage,
            names=self._names,
            omitted=self._omitted,
            host=self._endpoint.host,
        )

    def _start(self, data: dict[str, Any]) -> Iterator[StreamItem]:
        index, start = self._index(data), _object(data.get("start"))
        if not is_object(use := start.get("toolUse")):
            return
        self._blocks[index] = {"toolUse": {**use, "input": ""}}
        name = self._names.from_wire(_string(use.get("name")))
        yield ToolCallChunk(self._place(index), id=_string(use.get("toolUseId")), name=name)

    def _grow(self, data: dict[str, Any]) -> Iterator[StreamItem]:
        index, delta = self._index(data), _object(data.get("delta"))
        block = self._blocks.setdefault(index, {})
        if isinstance(text := delta.get("text"), str):
            block["text"] = _string(block.get("text")) + text
            yield TextChunk(text)
        elif is_object(use := delta.get("toolUse")) and "toolUse" in block:
            piece = _string(use.get("input"))
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
    told = thought.setdefault("reasoningText", {"text": ""})
    for key in ("text", "signature"):
        if isinstance(piece := delta.get(key), str):
            told[key] = told.get(key, "") + piece


def _read_input(block: dict[str, Any]) -> dict[str, Any]:
    """A streamed block as one that came whole: the arguments read, the citations around their text."""
    if "toolUse" in block:
        return {"toolUse": {**block["toolUse"], "input": read_args(block["toolUse"]["input"])}}
    if "citations" in block:
        content = [{"text": block.get("text", "")}]
        return {"citationsContent": {"content": content, "citations": block["citations"]}}
    return block


def _response(
    blocks: Sequence[dict[str, Any]],
    *,
    stop: str,
    usage: Mapping[str, Any],
    names: ToolNames,
    omitted: Sequence[str],
    host: str,
) -> LlmResponse:
    calls = tuple(_call(block["toolUse"], names) for block in blocks if is_object(block.get("toolUse")))
    is_own = any(block.keys() - {"text", "toolUse"} for block in blocks)
    response = LlmResponse(
        content="".join(_text_of(block) for block in blocks),
        tool_calls=calls,
        usage=_usage(usage),
        reasoning="".join(_thought_of(block) for block in blocks),
        opaque=sealed({OPAQUE: _layout(blocks) if is_own else []}),
        omitted=tuple(omitted),
        citations=citations.of_converse(blocks),
    )
    ending = ending_of(stop, CONVERSE, host=host) if stop else ("tool_calls" if calls else "stop")
    return with_ending(response, ending, word=stop)


def _text_of(block: Mapping[str, Any]) -> str:
    cited = _object(block.get("citationsContent")).get("content")
    parts = [_object(part) for part in cited] if is_array(cited) else []
    return _string(block.get("text")) + "".join(_string(part.get("text")) for part in parts)


def _thought_of(block: Mapping[str, Any]) -> str:
    return _string(_object(_object(block.get("reasoningContent")).get("reasoningText")).get("text"))


def _call(use: dict[str, Any], names: ToolNames) -> ToolCall:
    args = use.get("input")
    name = names.from_wire(_string(use.get("name")))
    return ToolCall(_string(use.get("toolUseId")), name, {} if args is None else args)


def _layout(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks as they go back; calls are only marked, since the message itself holds them."""
    return [{"toolUse": {}} if "toolUse" in block else block for block in blocks]


def _usage(usage: Mapping[str, Any]) -> Usage:
    """Converse counts what was read fresh, from the cache and into it, each without the others."""
    cached = whole_number(usage.get("cacheReadInputTokens"))
    stored = whole_number(usage.get("cacheWriteInputTokens"))
    read = whole_number(usage.get("inputTokens")) + cached + stored
    return Usage(read, whole_number(usage.get("outputTokens")), cached, stored)


def _object(value: object) -> dict[str, Any]:
    return value if is_object(value) else {}


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
