"""Recorded provider bodies, replayed over a real socket through the real SDKs and compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.conftest import OUTSIDE, corpus
from tests.llm.toxic_server import ToxicServer, reply
from wesichain.core import LlmRequest, LlmResponse, Message, Role, TextChunk, ToolCallChunk
from wesichain.errors import LlmError, LlmRejectedError, LlmResponseError, LlmTransportError
from wesichain.llm import StreamingLlm
from wesichain.llm.calls import read_args

REQUEST = LlmRequest("model-under-test", (Message(Role.USER, "hello"),))

Row = dict[str, Any]


def rows(origin: str, *formats: str) -> list[Row]:
    """The rows of this origin in these formats; of the outside there are two files."""
    both = corpus("wire_responses.jsonl", origin)
    if origin == OUTSIDE:
        both += corpus("wire_derived.jsonl", origin)
    return [row for row in both if row["format"] in formats]


async def collect(llm: StreamingLlm, request: LlmRequest) -> LlmResponse:
    """The last item of a stream, which must be the only response in it."""
    items = [item async for item in llm.stream(request)]
    assert [item for item in items if isinstance(item, LlmResponse)] == items[-1:]
    last = items[-1]
    assert isinstance(last, LlmResponse)
    return last


async def outcome(llm: StreamingLlm, *, transport: str) -> LlmResponse | LlmError:
    try:
        return await (llm.complete(REQUEST) if transport == "json" else collect(llm, REQUEST))
    except LlmError as error:
        return error


async def replay(
    server: ToxicServer, llm: StreamingLlm, row: Row, *, size: int | None = None, transport: str = ""
) -> LlmResponse | LlmError:
    """What the adapter makes of a row, its body cut into chunks of `size` bytes."""
    server.answer_with(reply(row["status"], row["body"], row.get("headers"), size=size))
    return await outcome(llm, transport=transport or row["transport"])


async def mismatches(
    server: ToxicServer, llm: StreamingLlm, some: Iterable[Row], *, size: int | None = None
) -> dict[str, list[str]]:
    """The rows that do not come out as they should, each with what is wrong."""
    found = {row["id"]: differences(row, await replay(server, llm, row, size=size)) for row in some}
    return {row_id: wrong for row_id, wrong in found.items() if wrong}


async def check_pieces(server: ToxicServer, llm: StreamingLlm, some: Iterable[Row]) -> None:
    """The chunks of every good stream are its response, told in pieces."""
    for row in some:
        if (
            row["transport"] == "sse"
            and "finish_reason_raw" in row["expected"]
            and "error" not in row.get("tags", ())
        ):
            server.answer_with(reply(200, row["body"]))
            *chunks, response = [item async for item in llm.stream(REQUEST)]
            assert isinstance(response, LlmResponse)
            text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
            assert text == response.content, row["id"]
            for place, call in enumerate(response.tool_calls):
                mine = [each for each in chunks if isinstance(each, ToolCallChunk) and each.index == place]
                told = ["".join(getattr(chunk, part) for chunk in mine) for part in ("id", "name", "args")]
                assert (told[0], told[1], read_args(told[2])) == (call.id, call.name, call.args), row["id"]


def differences(row: Row, got: LlmResponse | LlmError) -> list[str]:
    expected = row["expected"]
    match expected.get("outcome"):
        case "incomplete_stream":
            fine = isinstance(got, LlmResponseError) and got.retryable
            return [] if fine else [f"a cut stream gave {got!r}"]
        case "truncated_tool_call":
            return _truncated(got)
        case "http_error":
            return _error(row, got, expected["wait_seconds"])
        case _:
            pass
    if row["status"] != 200 or expected["finish_reason"] == "error":
        return _error(row, got, None)
    return _response(expected, got)


def _response(expected: Mapping[str, Any], got: LlmResponse | LlmError) -> list[str]:
    if isinstance(got, LlmError):
        return [f"{type(got).__name__}: {got}"]
    calls = [{"id": call.id, "name": call.name, "args": call.args} for call in got.tool_calls]
    pairs: list[tuple[str, object, object]] = [
        ("content", got.content, expected["content"]),
        ("tool_calls", calls, [_as_handed_over(call) for call in expected["tool_calls"]]),
        ("finish_reason", got.finish_reason, expected["finish_reason"]),
        ("input_tokens", got.usage.input_tokens, expected["usage"]["input_tokens"]),
        ("output_tokens", got.usage.output_tokens, expected["usage"]["output_tokens"]),
        ("reasoning", got.reasoning, expected.get("reasoning", "")),
    ]
    return [f"{name} is {is_!r}, not {should!r}" for name, is_, should in pairs if is_ != should]


def _as_handed_over(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """The corpus wraps arguments that are not JSON; an adapter hands over the text itself."""
    args = call["args"]
    return {**call, "args": args["__invalid_json__"]} if "__invalid_json__" in args else call


def _truncated(got: LlmResponse | LlmError) -> list[str]:
    if isinstance(got, LlmError):
        return [f"{type(got).__name__}: {got}"]
    raw = all(isinstance(call.args, str) for call in got.tool_calls)
    fine = got.finish_reason == "length" and got.tool_calls and raw
    return [] if fine else [f"cut arguments gave {got!r}"]


def _error(row: Row, got: LlmResponse | LlmError, wait: float | None) -> list[str]:
    if isinstance(got, LlmResponse):
        return [f"an error became {got!r}"]
    status = row["status"]
    kind: type[LlmError] = LlmRejectedError
    if status in (408, 409, 429) or status >= 500:
        kind = LlmTransportError
    elif status == 200 and row["format"] != "error" and row["expected"].get("outcome"):
        kind = LlmResponseError
    wrong = [] if isinstance(got, kind) else [f"it is a {type(got).__name__}, not a {kind.__name__}"]
    if got.retryable is not row["expected"].get("retryable", False):
        wrong.append(f"retryable is {got.retryable}")
    if wait is not None and got.retry_after != wait:
        wrong.append(f"retry_after is {got.retry_after}, not {wait}")
    if "\n" in str(got):
        wrong.append("the message has several lines")
    return wrong
