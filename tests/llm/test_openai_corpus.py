"""Every recorded chat completion, JSON and SSE, comes out of the adapter as its provider meant it."""

from __future__ import annotations

import pytest

from tests.conftest import OUTSIDE, each_origin
from tests.llm.toxic_server import ToxicServer, black_hole
from tests.llm.wire_corpus import check_pieces, mismatches, replay, rows
from wesichain.errors import LlmError, LlmResponseError
from wesichain.llm.openai import OpenAiClient

# Rows that come out otherwise than the corpus says, and why.
EXCEPTIONS: dict[str, str] = {
    **dict.fromkeys(
        ("wire-210", "wire-217", "wire-234", "wire-237", "wire-254"),
        "a refusal is a refusal, whatever the API says",
    ),
    "wired-016": "its arguments came in one fragment and are whole; whole arguments run, whatever the reason",
    "wired-020": "its arguments '{}' are whole too, so there is nothing that is truncated",
    "wire-092": "its text is a block of thinking, which is reasoning and not the answer",
}

# Formats that this adapter does not speak, and what it makes of them.
FOREIGN = {
    "openai-responses": "the Responses API has other bodies and events; the client never asks for them",
    "ollama-native": "Ollama's own /api/chat; the client asks its /v1, which speaks chat completions",
}


@pytest.mark.parametrize("size", [pytest.param(None, id="whole"), pytest.param(61, id="in-small-pieces")])
@each_origin
async def test_every_row_comes_out_as_recorded(size: int | None, origin: str) -> None:
    async with ToxicServer(black_hole) as server, OpenAiClient("m", base_url=server.url, retries=0) as llm:
        found = await mismatches(server, llm, rows(origin, "openai-chat", "error"), size=size)
    assert found.keys() == (EXCEPTIONS.keys() if origin == OUTSIDE else set()), found


@pytest.mark.parametrize("format", FOREIGN)
@each_origin
async def test_a_format_it_does_not_speak_is_an_error_and_never_a_reply(format: str, origin: str) -> None:
    async with ToxicServer(black_hole) as server, OpenAiClient("m", base_url=server.url, retries=0) as llm:
        for row in rows(origin, format):
            got = await replay(server, llm, row)
            assert isinstance(got, LlmResponseError), row["id"]
            assert got.retryable, row["id"]


@each_origin
async def test_boundaries_make_no_difference_down_to_single_bytes(origin: str) -> None:
    short = [
        row for row in rows(origin, "openai-chat") if row["transport"] == "sse" and len(row["body"]) < 3000
    ]
    assert len(short) > (10 if origin == OUTSIDE else 8)
    async with ToxicServer(black_hole) as server, OpenAiClient("m", base_url=server.url, retries=0) as llm:
        for row in short[:12]:
            whole, bytewise = [await replay(server, llm, row, size=size) for size in (None, 1)]
            assert repr(bytewise) == repr(whole), row["id"]


@each_origin
async def test_errors_mean_the_same_to_a_stream(origin: str) -> None:
    errors = [row for row in rows(origin, "openai-chat", "error") if row["status"] != 200]
    assert len(errors) > (60 if origin == OUTSIDE else 13)
    async with ToxicServer(black_hole) as server, OpenAiClient("m", base_url=server.url, retries=0) as llm:
        for row in errors:
            asked, streamed = [await replay(server, llm, row, transport=how) for how in ("json", "sse")]
            assert isinstance(asked, LlmError), row["id"]
            assert repr(streamed) == repr(asked), row["id"]
            assert vars(streamed) == vars(asked) or row["id"] == "wired-044", row[
                "id"
            ]  # a date: the clock ran


@each_origin
async def test_pieces_add_up_to_the_whole(origin: str) -> None:
    async with ToxicServer(black_hole) as server, OpenAiClient("m", base_url=server.url, retries=0) as llm:
        await check_pieces(server, llm, rows(origin, "openai-chat"))
