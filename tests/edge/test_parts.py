"""Parts: what a page is shown of a run, and what a page sends."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, cast

import pytest
from starlette.exceptions import HTTPException

from tests.edge.kit import say, scripted
from wesichain.agent import Interrupted
from wesichain.core import Audio, Document, Image, Text, ToolCall
from wesichain.core.internal import Approve
from wesichain.edge.parts import CallBegan, PartReader, frontend_tools, task_with
from wesichain.trace import CollectingSink

PIXEL = b64encode(b"\x89PNG\r\n\x1a\n").decode()


@pytest.mark.parametrize(
    ("media", "part"),
    [
        ("image/png", Image(b"\x89PNG\r\n\x1a\n", media_type="image/png")),
        ("audio/wav", Audio(b"\x89PNG\r\n\x1a\n", "audio/wav")),
        ("application/pdf", Document(b"\x89PNG\r\n\x1a\n", media_type="application/pdf")),
    ],
)
def test_a_file_is_the_part_that_its_type_says(media: str, part: Any) -> None:
    assert task_with("look", [(media, PIXEL)]) == (Text("look"), part)
    assert task_with(" ", [(media, PIXEL)]) == (part,)
    assert task_with("look", []) == "look"
    with pytest.raises(HTTPException, match="400: a file of the message cannot be read: "):
        task_with("look", [(media, "no base64!")])


async def test_a_call_that_waits_is_shown_once_though_the_run_is_resumed() -> None:
    sink = CollectingSink()
    agent = scripted(say(ToolCall("c1", "refund", {"amount": 9})), "done", events=[sink])
    waits = await agent.outcome("pay")
    assert isinstance(waits, Interrupted)
    (waiting,) = waits.pending
    await agent.resume(waits, decisions={waiting.token: Approve()})
    reader = PartReader()
    began = [part for event in sink.events for part in reader.of(event) if isinstance(part, CallBegan)]
    assert began == [CallBegan("c1", "refund", {"amount": 9})]


def test_the_tools_that_a_page_brings_are_bounded() -> None:
    tool = ("t", "x" * 30_000, None)
    (made,) = frontend_tools([tool])
    assert (made.external, len(made.spec.description)) == (True, 20_000)
    assert made.spec.parameters == {"type": "object", "properties": {}}
    assert frontend_tools([("t", None, None)])[0].spec.description == "t"
    many = [(f"t{number}", "", None) for number in range(129)]
    assert len(frontend_tools(many[:128])) == 128
    for given, says in [
        (many, "a client may send at most 128 tools"),
        ([(5, "", None)], "a tool has a name and a description"),
        ([("t", 5, None)], "a tool has a name and a description"),
        ([("t", "", {"type": "array"})], ""),
    ]:
        with pytest.raises(HTTPException) as refused:
            frontend_tools(cast("Any", given))
        assert refused.value.status_code == 400
        assert says in refused.value.detail
