"""Incoming: what a page sends."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, cast

import pytest
from starlette.exceptions import HTTPException

from wesichain.core import Audio, Document, Image, Text
from wesichain.edge.incoming import frontend_tools, task_with

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
