"""Every recorded reply, JSON and SSE, comes out of its client as the provider meant it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import OUTSIDE, each_origin
from tests.draws import sampled
from tests.llm.toxic_server import ToxicServer, black_hole
from tests.llm.wire_corpus import Row, check_pieces, mismatches, replay, rows
from wesichain.errors import LlmError, LlmResponseError
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.openai import OpenAiClient, ResponsesClient

_REFUSAL = "a refusal is a refusal, whatever the API says"
_UNFINISHED = "a response that is still being made is no answer"


@dataclass(frozen=True)
class Api:
    """An API, its client, and the rows that come out otherwise than the corpus says, each with the reason."""

    make: Any
    formats: tuple[str, ...]
    exceptions: dict[str, str]
    refusals: tuple[int, int] = (0, 0)  # that the corpus of the outside, and ours, has more of
    spliced: frozenset[str] = frozenset()
    piece: int = 61  # bytes of a reply that is cut into small pieces

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[tuple[ToxicServer, Any], None]:
        async with ToxicServer(black_hole) as server, self.make("m", base_url=server.url, retries=0) as llm:
            yield server, llm

    def rows(self, origin: str) -> list[Row]:
        found = rows(origin, *self.formats)
        for row in found:  # the corpus leaves out a usage that the provider did not give
            if "content" in row["expected"]:
                row["expected"]["usage"] = row["expected"].get("usage") or _NO_USAGE
        return found


_NO_USAGE = {"input_tokens": 0, "output_tokens": 0}
CHAT = Api(
    OpenAiClient,
    ("openai-chat", "error"),
    {
        **dict.fromkeys(("wire-210", "wire-217", "wire-234", "wire-237", "wire-254"), _REFUSAL),
        "wired-016": "its arguments came in one fragment and are whole; whole arguments run, whatever the reason",
        "wired-020": "its arguments '{}' are whole too, so there is nothing that is truncated",
        "wire-092": "its text is a block of thinking, which is reasoning and not the answer",
    },
    refusals=(60, 13),
)
MESSAGES = Api(
    AnthropicClient,
    ("anthropic", "error"),
    {
        "wire-001": "a reply that ends with compaction is asked on",
        "wire-016": "its text ends in a block of thinking, and what was read from the cache counts as read",
        "wire-018": "what was read from the cache counts as read",
        **dict.fromkeys(("wire-265", "wire-312", "wire-313", "wire-314"), _REFUSAL),
    },
    refusals=(40, 14),
    spliced=frozenset({"wire-320"}),  # two messages: the pieces of the first were out before the second
)
RESPONSES = Api(
    ResponsesClient,
    ("openai-responses",),
    {
        **dict.fromkeys(("wire-129", "wire-130"), _UNFINISHED),
        **dict.fromkeys(("wire-221", "wire-230"), _REFUSAL),
    },
    piece=7,
)
# Formats that chat completions do not speak, and what its client makes of them.
FOREIGN = {
    "openai-responses": "the Responses API has other bodies and events; the client never asks for them",
    "ollama-native": "Ollama's own /api/chat; the client asks its /v1, which speaks chat completions",
}

each_api = pytest.mark.parametrize("api", [CHAT, MESSAGES, RESPONSES], ids=["chat", "messages", "responses"])
with_refusals = pytest.mark.parametrize("api", [CHAT, MESSAGES], ids=["chat", "messages"])


@pytest.mark.sampled
@pytest.mark.parametrize("is_cut", [False, True], ids=["whole", "in-small-pieces"])
@each_api
@each_origin
async def test_every_row_comes_out_as_recorded(api: Api, is_cut: bool, origin: str) -> None:
    recorded = api.rows(origin)
    assert len(recorded) > (50 if origin == OUTSIDE else 18)
    recorded = sampled(recorded, 25 if is_cut else 60)
    async with api.served() as (server, llm):
        found = await mismatches(server, llm, recorded, size=api.piece if is_cut else None)
    if api is RESPONSES:  # of which the corpus does not tell the reasoning
        found = {
            row: [one for one in said if not one.startswith("reasoning is")] for row, said in found.items()
        }
    wrong = {row: said for row, said in found.items() if said}
    exceptions = api.exceptions.keys() if origin == OUTSIDE else set()
    assert wrong.keys() == exceptions & {row["id"] for row in recorded}, wrong


@pytest.mark.sampled
@with_refusals
@each_origin
async def test_pieces_add_up_to_the_whole(api: Api, origin: str) -> None:
    whole = [row for row in rows(origin, api.formats[0]) if row["id"] not in api.spliced]
    async with api.served() as (server, llm):
        await check_pieces(server, llm, sampled(whole, 25))


@pytest.mark.sampled
@with_refusals
@each_origin
async def test_errors_mean_the_same_to_a_stream(api: Api, origin: str) -> None:
    errors = [row for row in api.rows(origin) if row["status"] != 200]
    assert len(errors) > api.refusals[origin != OUTSIDE]
    async with api.served() as (server, llm):
        for row in sampled(errors, 10):
            asked, streamed = [await replay(server, llm, row, transport=how) for how in ("json", "sse")]
            assert isinstance(asked, LlmError), row["id"]
            assert repr(streamed) == repr(asked), row["id"]
            has_date = row["id"] == "wired-044"  # and the clock ran
            assert vars(streamed) == vars(asked) or has_date, row["id"]


@pytest.mark.sampled
@pytest.mark.parametrize("format", FOREIGN)
@each_origin
async def test_a_format_it_does_not_speak_is_an_error_and_never_a_reply(format: str, origin: str) -> None:
    async with CHAT.served() as (server, llm):
        for row in sampled(rows(origin, format), 5):
            got = await replay(server, llm, row)
            assert isinstance(got, LlmResponseError), row["id"]
            assert got.retryable, row["id"]
