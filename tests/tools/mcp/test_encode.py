"""Values on the wire: what a client gets of a result, a failure and a part, and what it makes of it again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import types

from wesichain import tool
from wesichain.core import Audio, Document, Image, Message, Role, Text
from wesichain.errors import InvalidArgsError, ToolError, ToolErrorKind, ToolExecutionError, UnknownToolError
from wesichain.tools import ToolResult
from wesichain.tools.mcp.decode import (
    McpPrompt,
    McpResource,
    read_content,
    read_prompt,
    read_resource,
    read_result,
    to_prompt,
    to_resource,
)
from wesichain.tools.mcp.encode import refused, to_block, to_contents, to_listed, to_result
from wesichain.tools.mcp.text import bounded, clean, clean_schema, has_controls, label


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


BLOB = {"uri": "document:plan.pdf", "mimeType": "application/pdf", "blob": "AAE="}


@pytest.mark.parametrize(
    ("value", "block", "back"),
    [
        ("hello", text("hello"), "hello"),
        (Text("hello"), text("hello"), "hello"),
        ([1, {"a": None}], text('[1,{"a":null}]'), '[1,{"a":null}]'),
        (
            Image(b"\0\1", media_type="image/png"),
            {"type": "image", "data": "AAE=", "mimeType": "image/png"},
            Image(b"\0\1", media_type="image/png"),
        ),
        (
            Audio(b"\0\1", "audio/wav"),
            {"type": "audio", "data": "AAE=", "mimeType": "audio/wav"},
            Audio(b"\0\1", "audio/wav"),
        ),
        (
            Document(b"\0\1", media_type="application/pdf", name="plan.pdf"),
            {"type": "resource", "resource": BLOB},
            Document(b"\0\1", media_type="application/pdf", name="document:plan.pdf"),
        ),
        (
            Document(b"\0\1", media_type="application/pdf", name="http://x/plan.pdf"),
            {"type": "resource", "resource": {**BLOB, "uri": "http://x/plan.pdf"}},
            Document(b"\0\1", media_type="application/pdf", name="plan.pdf"),
        ),
        (
            Document(b"caf\xe9", media_type="text/plain", name="n"),
            {
                "type": "resource",
                "resource": {"uri": "document:n", "mimeType": "text/plain", "text": "caf\ufffd"},
            },
            "caf\ufffd",
        ),
        (
            Image(url="http://x/y.png", media_type="image/png"),
            {"type": "resource_link", "name": "image", "uri": "http://x/y.png", "mimeType": "image/png"},
            "[resource: image, http://x/y.png]",
        ),
        (
            Document(url="http://x/y.pdf", name="y"),
            {"type": "resource_link", "name": "y", "uri": "http://x/y.pdf", "mimeType": "application/pdf"},
            "[resource: y, http://x/y.pdf]",
        ),
    ],
)
def test_a_value_as_a_block_and_back(value: Any, block: Any, back: Any) -> None:
    made = to_block(value)
    assert plain(made) == block
    assert read_content(made) == back


def test_a_resource_is_text_where_its_type_says_so() -> None:
    kinds = ("text/x", "application/json", "application/x")
    sent = [to_contents("u:x", b"1", kind) for kind in kinds]
    assert [plain(one).get("text") for one in sent] == ["1", "1", None]
    assert read_resource(types.ReadResourceResult(contents=sent)) == ("1", "1", b"1")
    unnamed: Any = to_block(Document(b"1", media_type="text/plain"))
    assert str(unnamed.resource.uri) == "document:document"
    broken = types.BlobResourceContents(uri="u:x", blob="A")
    with pytest.raises(ToolError, match="the server sent bytes that are not base64: ") as caught:
        read_resource(types.ReadResourceResult(contents=[broken]))
    assert caught.value.kind is ToolErrorKind.SERIALIZATION


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        ("A", "image/png", "[image: image/png that cannot be read: "),
        ("A", "", "[image: bytes that cannot be read: "),
    ],
)
def test_media_that_cannot_be_read_is_named(data: str, kind: str, said: str) -> None:
    read = read_content(types.ImageContent(data=data, mime_type=kind))
    assert isinstance(read, str)
    assert read.startswith(said)


@tool(effect="pure")
def look() -> dict[str, int]:
    """Look."""
    return {}


@tool(approval=True, effect="once")
def wipe(path: str) -> str:
    """Wipe."""
    return path


def test_a_tool_as_it_is_listed() -> None:
    hints = [
        plain(to_listed(one, one.spec).annotations)
        for one in (look, wipe, tool(lambda: 1, name="t", description="d"))
    ]
    names = ("readOnlyHint", "idempotentHint", "destructiveHint")
    assert [[one[name] for name in names] for one in hints] == [
        [True, True, False],
        [False, False, True],
        [False, True, False],
    ]
    assert plain(to_listed(wipe, wipe.spec)) == {
        "name": "wipe",
        "description": "Wipe.",
        "inputSchema": wipe.spec.parameters,
        "annotations": hints[1],
    }
    assert plain(to_listed(look, look.spec))["outputSchema"] == look.returns


SQUARE = Image(b"\0", media_type="image/png")


@pytest.mark.parametrize(
    ("value", "any_data", "sent", "back"),
    [
        ("hi", True, {"content": [text("hi")], "structuredContent": "hi"}, "hi"),
        ("hi", False, {"content": [text("hi")]}, "hi"),
        (None, True, {"content": []}, None),
        (None, False, {"content": []}, None),
        (5, True, {"content": [text("5")], "structuredContent": 5}, 5),
        (
            5,
            False,
            {
                "content": [text("5")],
                "structuredContent": {"result": 5},
                "_meta": {"wesichain/wrapped": True},
            },
            5,
        ),
        ({"a": 1}, True, {"content": [text('{"a":1}')], "structuredContent": {"a": 1}}, {"a": 1}),
        ({"a": 1}, False, {"content": [text('{"a":1}')], "structuredContent": {"a": 1}}, {"a": 1}),
    ],
)
def test_a_result_on_the_wire_and_back(value: Any, any_data: bool, sent: Any, back: Any) -> None:
    made = to_result(ToolResult("c", "wipe", value=value), wipe, any_data=any_data)
    shown = plain(made)
    shown.pop("resultType", None)
    assert shown == {"isError": False, **sent}
    assert read_result(made) == back


@pytest.mark.parametrize(
    ("error", "data", "kind"),
    [
        ("no", {"message": "no"}, ToolErrorKind.EXECUTION_FAILED),
        (
            InvalidArgsError("no path", tool_name="wipe", call_id="c", issues=("path: no",)),
            {"type": "InvalidArgsError", "kind": "invalid_input", "issues": ["path: no"]},
            ToolErrorKind.INVALID_INPUT,
        ),
        (
            ToolExecutionError("busy", kind=ToolErrorKind.UNAVAILABLE, tool_name="wipe", call_id="c"),
            {"type": "ToolExecutionError", "kind": "unavailable"},
            ToolErrorKind.UNAVAILABLE,
        ),
        (
            UnknownToolError("no such tool", tool_name="wipe", call_id="c"),
            {"type": "UnknownToolError", "kind": "not_found"},
            ToolErrorKind.NOT_FOUND,
        ),
    ],
)
def test_a_failure_has_words_and_data(error: Any, data: dict[str, Any], kind: ToolErrorKind) -> None:
    made = refused(error)
    assert (made.is_error, made.structured_content) == (True, {"error": {"message": str(error), **data}})
    with pytest.raises(ToolError, match="^" + str(error).partition("\n")[0]) as caught:
        read_result(made)
    assert caught.value.kind is kind


def test_what_is_read_of_a_result_with_media() -> None:
    words, picture = to_block("a square"), to_block(SQUARE)

    def read(*blocks: Any, data: Any = None, **more: Any) -> Any:
        return read_result(types.CallToolResult(content=list(blocks), structured_content=data, **more))

    assert read(words, picture) == ["a square", SQUARE]
    assert read(picture, data={"w": 3}) == [SQUARE, '{"w":3}']
    assert read(to_block('{"w": 3}'), picture, data={"w": 3}) == ['{"w": 3}', SQUARE]
    assert read(words, words) == "a square\na square"
    assert read(words, picture, data={"w": 3}) == ["a square", SQUARE, '{"w":3}']
    for data in ({"w": 3}, {"result": [1]}):  # which only looks as if it had been wrapped
        assert read(words, data=data) == data
    for blocks, said in (
        ((words, picture), "a square\n["),
        ((), "the tool failed without a message"),
    ):
        with pytest.raises(ToolError) as caught:
            read(*blocks, is_error=True)
        assert str(caught.value).startswith(said)
        assert caught.value.kind is ToolErrorKind.EXECUTION_FAILED


PICTURE = Image(b"\x89PNG" + b"p" * 60_000, media_type="image/png")
PICTURE_LABEL = f"[{PICTURE.label}]"
PICTURE_BLOCK = {"type": "image", "data": PICTURE.base64, "mimeType": "image/png"}
FILE = Document(b"%PDF" + b"f" * 60_000, media_type="application/pdf", name="plan.pdf")


@pytest.mark.parametrize(
    ("content", "data", "value"),
    [
        pytest.param(
            [to_block(PICTURE)],
            {"picture": PICTURE.base64, "width": 3},
            [PICTURE, f'{{"picture":"{PICTURE_LABEL}","width":3}}'],
            id="a-copy-of-a-block",
        ),
        pytest.param(
            [to_block(PICTURE)],
            {"url": f"data:image/png;base64,{PICTURE.base64}"},
            [PICTURE, f'{{"url":"{PICTURE_LABEL}"}}'],
            id="a-copy-as-a-data-url",
        ),
        pytest.param(
            [to_block(PICTURE)],
            {"result": [PICTURE_BLOCK, 7]},
            [
                PICTURE,
                f'{{"result":[{{"type":"image","data":"{PICTURE_LABEL}","mimeType":"image/png"}},7]}}',
            ],
            id="the-blocks-again",
        ),
        pytest.param(
            [text(json.dumps({"screen": PICTURE_BLOCK}))],
            {"screen": PICTURE_BLOCK},
            [f'{{"screen":{{"type":"image","data":"{PICTURE_LABEL}","mimeType":"image/png"}}}}', PICTURE],
            id="only-inside-and-as-text",
        ),
        pytest.param(
            [],
            {"file": {"uri": "file:///plan.pdf", "mimeType": "application/pdf", "blob": FILE.base64}},
            [
                f'{{"file":{{"uri":"file:///plan.pdf","mimeType":"application/pdf","blob":"[{FILE.label}]"}}}}',
                FILE,
            ],
            id="a-document-only-inside",
        ),
        pytest.param(
            [to_block(PICTURE)],
            {"other": "AAAA", "none": "", "mimeType": "image/png", "data": "not base64 é"},
            [PICTURE, '{"other":"AAAA","none":"","mimeType":"image/png","data":"not base64 é"}'],
            id="other-strings-are-kept",
        ),
        pytest.param(
            [],
            {"data": PICTURE.base64, "name": "no media type"},
            {"data": PICTURE.base64, "name": "no media type"},
            id="data-of-no-known-type-is-kept",
        ),
    ],
)
def test_base64_of_media_in_structured_content_is_not_shown(content: Any, data: Any, value: Any) -> None:
    sent = {"content": [each if isinstance(each, dict) else plain(each) for each in content]}
    assert read_result(types.CallToolResult.model_validate({**sent, "structuredContent": data})) == value


def test_what_a_server_lists_is_cleaned_and_bounded() -> None:
    listed = types.Resource(uri="u:x", name="a\nb\x1b[1m", description="d" * 99, mime_type="text/x", size=3)
    cut = "d" * 9 + " [cut here: the server sent 99 bytes]"
    assert to_resource(listed, 46) == McpResource("u:x", "a b", cut, "text/x", 3)
    template = types.ResourceTemplate(uri_template="u:{x}", name="t")
    assert to_resource(template, 46) == McpResource("u:{x}", "t")
    arguments = [types.PromptArgument(name="a", required=True), types.PromptArgument(name="b")]
    prompt = types.Prompt(name="p", description="d" * 99, arguments=arguments)
    assert to_prompt(prompt, 46) == McpPrompt("p", cut, (("a", True), ("b", False)))
    messages = [
        types.PromptMessage(role="user", content=types.TextContent(text="hi")),
        types.PromptMessage(role="assistant", content=types.ImageContent(data="AA==", mime_type="image/png")),
    ]
    assert read_prompt(types.GetPromptResult(messages=messages)) == (
        Message(Role.USER, "hi"),
        Message(Role.ASSISTANT, (SQUARE,)),
    )


def test_text_is_cut_at_a_letter_and_keeps_what_joins_letters() -> None:
    assert bounded("é" * 20, 40) == "é" * 20
    assert bounded("é" * 21, 41) == "éé [cut here: the server sent 42 bytes]"
    assert bounded("x" * 9, 5) == " [cut here: the server sent 9 bytes]"
    assert clean("a\x1b[31mb\x9b1mc\x1b]0;t\x07d\x1bce\x00f\u200bg\u200dh\ti\nj") == "abcdefg\u200dh\ti\nj"
    assert label("a\n  b" + "x" * 300) == "a b" + "x" * 157 + " [cut here: the server sent 305 bytes]"
    schema = {"description": "\x07d", "x": [{"title": "\x07t", "default": "\x07"}], "$comment": 5}
    assert clean_schema(schema, 50) == {
        "description": "d",
        "x": [{"title": "t", "default": "\x07"}],
        "$comment": 5,
    }
    dirty = ["\x07", {"\x07": 1}, {"a": ["\x07"]}, ["a", "\x07"]]
    assert [has_controls(value) for value in [*dirty, "a\n\t", {"a": ["b"]}, 5, None]] == [True] * 4 + [
        False
    ] * 4
