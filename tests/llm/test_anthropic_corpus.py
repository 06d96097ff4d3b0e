"""Every recorded message, JSON and SSE, comes out of the adapter as its provider meant it."""

from __future__ import annotations

import pytest

from tests.conftest import OUTSIDE, each_origin
from tests.llm.toxic_server import ToxicServer, black_hole
from tests.llm.wire_corpus import check_pieces, mismatches, replay, rows
from wesichain.llm.anthropic import AnthropicClient

# Rows that come out otherwise than the corpus says, and why.
EXCEPTIONS: dict[str, str] = {
    "wire-001": "a reply that ends with compaction is asked on",
    "wire-016": "its text ends in a block of thinking, and what was read from the cache counts as read",
    "wire-318": "its text begins with a block of thinking, which is reasoning and not the answer",
    "wire-018": "what was read from the cache counts as read",
    "wire-265": "a refusal is a refusal, not a filter",
    "wire-312": "a refusal is a refusal, not a filter",
    "wire-313": "a refusal is a refusal, not a filter",
    "wire-314": "a refusal is a refusal, not a filter",
}


@pytest.mark.parametrize("size", [pytest.param(None, id="whole"), pytest.param(61, id="in-small-pieces")])
@each_origin
async def test_every_row_comes_out_as_recorded(size: int | None, origin: str) -> None:
    async with ToxicServer(black_hole) as server, AnthropicClient("m", base_url=server.url, retries=0) as llm:
        found = await mismatches(server, llm, rows(origin, "anthropic", "error"), size=size)
    assert found.keys() == (EXCEPTIONS.keys() if origin == OUTSIDE else set()), found


@each_origin
async def test_pieces_add_up_to_the_whole(origin: str) -> None:
    spliced = {"wire-320"}  # two messages in one stream: the pieces of the first were out before the second
    async with ToxicServer(black_hole) as server, AnthropicClient("m", base_url=server.url, retries=0) as llm:
        await check_pieces(
            server, llm, [row for row in rows(origin, "anthropic") if row["id"] not in spliced]
        )


@each_origin
async def test_errors_mean_the_same_to_a_stream(origin: str) -> None:
    errors = [row for row in rows(origin, "anthropic", "error") if row["status"] != 200]
    assert len(errors) > (40 if origin == OUTSIDE else 14)
    async with ToxicServer(black_hole) as server, AnthropicClient("m", base_url=server.url, retries=0) as llm:
        for row in errors:
            asked, streamed = [await replay(server, llm, row, transport=how) for how in ("json", "sse")]
            assert repr(streamed) == repr(asked), row["id"]
