"""Every recorded reply of the Responses API, JSON and SSE, comes out of its client as the provider meant it."""

from __future__ import annotations

import pytest

from tests.conftest import OUTSIDE, each_origin
from tests.llm.toxic_server import ToxicServer, black_hole
from tests.llm.wire_corpus import mismatches, rows
from wesichain.llm.openai import ResponsesClient

# Rows that come out otherwise than the corpus says, and why.
EXCEPTIONS = {
    "wire-129": "a response that is still being made is no answer",
    "wire-130": "a response that is still being made is no answer",
    "wire-221": "a refusal is a refusal, whatever the API says",
    "wire-230": "a refusal is a refusal, whatever the API says",
}


@pytest.mark.parametrize(
    "size", [pytest.param(None, id="whole"), pytest.param(7, id="seven-bytes-at-a-time")]
)
@each_origin
async def test_every_row_comes_out_as_recorded(size: int | None, origin: str) -> None:
    told = rows(origin, "openai-responses")
    assert len(told) > (50 if origin == OUTSIDE else 18)
    for row in told:  # the corpus leaves out a usage that the provider did not give
        row["expected"]["usage"] = row["expected"].get("usage") or {"input_tokens": 0, "output_tokens": 0}
    async with ToxicServer(black_hole) as server, ResponsesClient("m", base_url=server.url, retries=0) as llm:
        found = await mismatches(server, llm, told, size=size)
    wrong = {
        row: [one for one in said if not one.startswith("reasoning is")]  # which the corpus does not tell
        for row, said in found.items()
    }
    assert {row for row, said in wrong.items() if said} == (
        EXCEPTIONS.keys() if origin == OUTSIDE else set()
    ), wrong
