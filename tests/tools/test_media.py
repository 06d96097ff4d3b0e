"""Media: a tool may return a part, or a list of texts and parts, wherever it runs."""

from __future__ import annotations

from typing import Any

import pytest

from wesichain.core import Audio, Document, Image, Text, ToolCall
from wesichain.errors import ToolSerializationError
from wesichain.tools import Finish, JsonTool, ToolSet, tool
from wesichain.tools.results import PreparedCall

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 400_000  # more than a result may have as text
IMAGE = Image(PNG)
SOUND = Audio(b"RIFF", "audio/wav")


async def picture() -> Image:
    return IMAGE


def several() -> list[str | Image | Audio]:
    return ["first", IMAGE, SOUND]


def several_and_done() -> Finish[list[Any]]:
    return Finish(["first", IMAGE, SOUND])


@pytest.mark.parametrize("options", [{}, {"blocking": False}, {"isolate": True}], ids=str)
async def test_parts_come_whole_and_are_told_in_words(options: Any) -> None:
    registry = ToolSet.of([tool(several, description="d", **options)]).build()
    result = await registry.dispatch(ToolCall("c", "several", {}))
    assert result.error is None
    assert result.parts == (Text("first"), IMAGE, SOUND)
    assert result.value == f"first\n[image (image/png, {len(PNG):,} bytes)]\n[audio (audio/wav, 4 bytes)]"


@pytest.mark.parametrize("options", [{}, {"isolate": True}], ids=str)
async def test_a_part_alone_and_in_a_finish(options: Any) -> None:
    made: list[Any] = [
        tool(picture, description="d", **options),
        tool(several_and_done, description="d", **options),
    ]
    registry = ToolSet.of(made).build()
    alone = await registry.dispatch(ToolCall("c", "picture", {}))
    assert (alone.parts, alone.finish) == ((IMAGE,), False)
    done = await registry.dispatch(ToolCall("c", "several_and_done", {}))
    assert (done.parts, done.finish) == ((Text("first"), IMAGE, SOUND), True)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([IMAGE, 5], id="no-part"),
        pytest.param([Document(b"x" * 17_000_000, media_type="a/b")], id="huge"),
    ],
)
async def test_what_cannot_be_taken_is_refused(value: Any) -> None:
    registry = ToolSet.of([JsonTool("j", "d", {"type": "object"}, lambda _: value)]).build()
    assert isinstance((await registry.dispatch(ToolCall("c", "j", {}))).error, ToolSerializationError)


def test_what_is_provided_may_have_parts() -> None:
    registry = ToolSet.of([JsonTool("j", "d", {"type": "object"}, external=True)]).build()
    prepared = registry.prepare(ToolCall("c", "j", {}))
    assert isinstance(prepared, PreparedCall)
    assert registry.provide(prepared, IMAGE).parts == (IMAGE,)
