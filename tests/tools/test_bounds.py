"""Limits of texts, lists and results, each tried at its bound and one beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from wesichain.core import Document
from wesichain.errors import ToolDefinitionError, ToolSerializationError
from wesichain.tools import JsonTool
from wesichain.tools.json_schema.issues import Issue, closest, one_of, preview, shorten
from wesichain.tools.json_schema.pattern import compile_pattern
from wesichain.tools.mcp import ServedPrompt
from wesichain.tools.mcp.remote_tools import ToolSelection
from wesichain.tools.mcp.resources import Contents
from wesichain.tools.mcp.sdk import types
from wesichain.tools.mcp.subscriptions import ResourceChanges
from wesichain.tools.return_values import parts_in
from wesichain.tools.schema.describe import MAX_NODES, tidy, type_text
from wesichain.tools.tool_search import words_of


def test_words_for_people_and_models_are_short() -> None:
    names = [f"n{number}" for number in range(13)]
    assert one_of(names[:12]) == ", ".join(names[:11]) + " or n11"
    assert one_of(names) == ", ".join(names[:12]) + " or one of 1 more"
    assert (one_of(["a"]), one_of([])) == ("a", "")
    assert preview(dict.fromkeys("abcde")) == 'an object with the keys "a", "b", "c", "d", "e"'
    assert preview(dict.fromkeys("abcdef")).endswith('"e", ...')
    assert (preview(2**511 - 1)[:3], preview(2**512)) == ("670", "a huge number")
    assert (preview([]), preview([1]), preview([1, 2])) == (
        "an empty list", "a list of 1 item", "a list of 2 items"
    )  # fmt: skip
    assert (preview({}), preview(b""), preview(object())) == ("an empty object", "a bytes", "an object")
    assert (shorten("x" * 80), shorten("x" * 81)) == ("x" * 80, "x" * 77 + "...")
    assert closest("y" * 80, ["y" * 79 + "x"]) is not None
    assert closest("y" * 80, ["y" * 81]) is None
    nested: dict[str, Any] = {"type": "string"}
    for _ in range(6):
        nested = {"type": "array", "items": nested}
    assert type_text(nested["items"]) == "list[list[list[list[list[Any]]]]]"
    assert type_text(nested["items"]["items"]) == "list[list[list[list[str]]]]"
    assert type_text(True) == "Any"
    choices = {"enum": list(range(12))}
    assert type_text(choices).endswith("11")
    assert type_text({"enum": list(range(13))}).endswith("11 | ...")


@pytest.mark.parametrize(("count", "last"), [(10, "- i9"), (11, "- and 1 more")])
def test_ten_issues_are_told(count: int, last: str) -> None:
    made = JsonTool("t", "d", {"type": "object"}, print)
    told = str(made.rejected([Issue((), f"i{number}") for number in range(count)])).splitlines()
    assert told[-2].replace("the value: ", "") == last


def test_references_are_written_out_as_long_as_the_schema_stays_small() -> None:
    def schema(fields: int) -> dict[str, Any]:
        both = {"$ref": "#/$defs/Leaf"}
        return {"properties": {f"f{n}": both for n in range(fields)}, "$defs": {"Leaf": {"type": "null"}}}

    most = (MAX_NODES - 1) // 2  # each reference, what it refers to, and the whole
    assert "$defs" not in tidy(schema(most))
    assert "$defs" in tidy(schema(most + 1))


def test_parts_of_a_result_have_16_megabytes() -> None:
    assert parts_in(Document(b"x" * 16_777_216, media_type="a/b"))
    with pytest.raises(ToolSerializationError, match="16,777,217 bytes"):
        parts_in(Document(b"x" * 16_777_217, media_type="a/b"))


def test_a_pattern_has_2000_characters() -> None:
    assert compile_pattern("a" * 2_000).matches("a" * 2_000)
    with pytest.raises(ToolDefinitionError, match="2001 characters"):
        compile_pattern("a" * 2_001)


def test_a_foreign_schema_has_200_000_bytes() -> None:
    selection = ToolSelection(max_description=300_000)
    room = 200_000 - len('{"type":"object","description":""}')
    assert selection._schema("t", {"type": "object", "description": "x" * room})
    with pytest.raises(ToolDefinitionError, match="200,001 bytes"):
        selection._schema("t", {"type": "object", "description": "x" * (room + 1)})


@pytest.mark.parametrize("count", [100, 101])
async def test_a_completion_has_a_hundred_values(count: int) -> None:
    prompt = ServedPrompt("p", lambda a: a, complete={"a": [f"v{number}" for number in range(count)]})
    asked = types.CompleteRequestParams(
        ref=types.PromptReference(name="p"), argument=types.CompletionArgument(name="a", value="")
    )
    found = (await Contents([], [prompt])._complete(None, asked)).completion
    assert (len(found.values), found.total, found.has_more) == (100, count, count > 100)


async def test_changes_that_nobody_takes_are_bounded_and_told_once() -> None:
    changes = ResourceChanges(("a://b",))
    for number in range(1_025):
        for uri in (f"a://b/{number}", f"a://b/{number}", "a://bc", "a://b"):
            changes.announce(uri)
    changes.close()
    found = [uri async for uri in changes]
    assert len(found) == len({*found}) == 1_024
    assert {"a://b", "a://b/0"} <= {*found}
    assert "a://bc" not in found


def test_words_are_found_by_their_stems() -> None:
    text = "theFlies of getWeather_forecasts, ties, gas, cats, class"
    assert words_of(text) == ["fly", "weather", "forecast", "tie", "gas", "cat", "class"]
