"""Replies of the Responses API, from one body or from the events of a stream. Pure."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from wesichain.core import Image, LlmResponse, Part, TextChunk, ToolCallChunk
from wesichain.core.internal import FinishReason, StreamItem, is_array, is_object, media_type_of
from wesichain.errors import LlmResponseError
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
from wesichain.llm.finish_reasons import INCOMPLETE_RESPONSES, RESPONSES, ending_of
from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.http import Reply, event_object
from wesichain.llm.transport.sse import SseEvent

from .items import OPAQUE
from .usage import usage_of

# Items, other than function calls, that the client would have to answer; a run cannot.
_UNANSWERED = {
    "computer_call": "computer use",
    "custom_tool_call": "a custom tool",
    "mcp_approval_request": "the approval of a hosted MCP tool",
    "local_shell_call": "a local shell",
    "shell_call": "a shell",
    "apply_patch_call": "a patch to apply",
}
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class ResponseReply(Reply):
    """One reply."""

    def __init__(self, names: ToolNames, endpoint: Endpoint) -> None:
        super().__init__(names, endpoint)
        self._items: dict[int, dict[str, Any]] = {}  # the completed ones
        self._places: dict[int, int] = {}  # by index of the item: the number of the call
        self._end: dict[str, Any] = {}

    @override
    def feed_body(self, body: object) -> None:
        if not is_object(body) or not (is_array(body.get("output")) or body.get("error")):
            raise self._endpoint.unreadable("JSON that is not a response")
        self._end, self.is_over = body, True

    @override
    def feed(self, event: SseEvent) -> Iterator[StreamItem]:
        if event.data.lstrip().startswith("[DONE]"):
            return
        body = event_object(event, self._endpoint)
        kind = body.get("type")
        index = body.get("output_index")
        place = index if isinstance(index, int) else -1
        if kind == "error":
            raise self._endpoint.reported(body.get("error") or body)
        if kind == "response.output_text.delta":
            yield TextChunk(as_string(body.get("delta")))
        elif kind == "response.output_item.added":
            yield from self._start(body.get("item"), place)
        elif kind == "response.function_call_arguments.delta" and place in self._places:
            yield ToolCallChunk(self._places[place], args=as_string(body.get("delta")))
        elif kind == "response.output_item.done" and is_object(item := body.get("item")):
            self._items[place] = item
        elif kind in _ENDS:
            self.is_over = True
            self._end = as_object(body.get("response"))

    @override
    def response(self) -> LlmResponse:
        if not self.is_over:
            raise self._endpoint.cut()
        body = dict(self._end)
        if not is_array(body.get("output")) or not body["output"]:
            body["output"] = [item for _, item in sorted(self._items.items())]
        status = body.get("status") or "completed"
        ending = ending_of(status, RESPONSES, self._endpoint)
        if ending == "error" or (body.get("error") and not body["output"]):
            raise self._endpoint.reported(body.get("error") or {"message": f"the response is {status}"})
        items = as_objects(body["output"])
        _check_answerable(items, self._endpoint)
        messages = [item for item in items if item.get("type") == "message"]
        said = [part for message in messages for part in as_objects(message.get("content"))]
        refusal = "".join(as_string(part.get("refusal")) for part in said if part.get("type") == "refusal")
        calls = tuple(
            self.tool_call(item.get("call_id"), item.get("name"), read_args(as_string(item.get("arguments"))))
            for item in items
            if item.get("type") == "function_call"
        )
        return LlmResponse(
            content="".join(
                as_string(part.get("text")) for part in said if part.get("type") == "output_text"
            ),
            tool_calls=calls,
            usage=usage_of(as_object(body.get("usage")), reading="input", writing="output"),
            finish_reason=_finish(body, self._endpoint, has_calls=bool(calls), is_refused=bool(refusal)),
            reasoning="\n".join(_thoughts(items)),
            opaque=sealed({OPAQUE: _layout(items), REFUSAL: refusal}),
            parts=tuple(_pictures(items)),
            citations=citations.of_response(items),
        )

    def _start(self, item: object, place: int) -> Iterator[StreamItem]:
        if is_object(item) and item.get("type") == "function_call":
            number = self._places[place] = len(self._places)
            name = self._names.from_wire(as_string(item.get("name")))
            yield ToolCallChunk(number, id=as_string(item.get("call_id")), name=name)


def _check_answerable(items: Sequence[dict[str, Any]], endpoint: Endpoint) -> None:
    """Raise `LlmResponseError` for a call that the run cannot answer and the provider did not."""
    outputs = [item for item in items if str(item.get("type")).endswith(("_output", "_response"))]
    answered = {as_string(item.get("call_id") or item.get("approval_request_id")) for item in outputs} - {""}
    for item in items:
        kind = str(item.get("type"))
        if kind in _UNANSWERED and not {as_string(item.get("call_id")), as_string(item.get("id"))} & answered:
            name = item.get("name")
            which = f" {endpoint.line(name)!r}" if isinstance(name, str) and name else ""
            raise LlmResponseError(
                f"the reply of {endpoint.host} is a call that this run cannot answer: "
                f"{_UNANSWERED[kind]}{which} ({kind}); take that tool out of options={{'tools': ...}}, "
                f"or offer a function instead"
            )


def _finish(
    body: Mapping[str, Any], endpoint: Endpoint, *, has_calls: bool, is_refused: bool
) -> FinishReason:
    if body.get("status") == "incomplete":
        reason = as_object(body.get("incomplete_details")).get("reason")
        if reason is None:
            return "length"
        ending = ending_of(reason, INCOMPLETE_RESPONSES, endpoint)
        return "error" if ending == "malformed" else ending
    if is_refused:
        return "refusal"
    return "tool_calls" if has_calls else "stop"


def _layout(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items to send back, if some are not messages or calls; calls are only marked."""
    if all(item.get("type") in ("message", "function_call") for item in items):
        return []
    return [
        {"type": "function_call"} if item.get("type") == "function_call" else item
        for item in items
        if item.get("type") != "image_generation_call"  # the picture is in the parts
    ]


def _thoughts(items: Sequence[dict[str, Any]]) -> Iterator[str]:
    for item in items:
        if item.get("type") == "reasoning":
            for part in (*as_objects(item.get("summary")), *as_objects(item.get("content"))):
                if text := as_string(part.get("text")):
                    yield text


def _pictures(items: Sequence[dict[str, Any]]) -> Iterator[Part]:
    for item in items:
        if item.get("type") == "image_generation_call" and (held := as_string(item.get("result"))):
            try:
                data = a2b_base64(held)
            except ValueError:
                continue
            if media_type_of(data).startswith("image/"):
                yield Image(data)
