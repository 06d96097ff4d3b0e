"""Resources, prompts and completions of a server: the whole answer to every request."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import MCPError, types

from wesichain.core import Image
from wesichain.tools.mcp import ServedPrompt, ServedResource
from wesichain.tools.mcp.resources import Contents


async def later(name: str) -> str:
    return f"notes of {name}"


CONTENTS = Contents(
    [
        ServedResource(
            "notes://today", lambda: "buy milk", description="Of today.", media_type="text/markdown"
        ),
        ServedResource("notes://{name}", later, complete={"name": ["Ann", "anna", "Ben"]}),
        ServedResource("bytes://all", lambda: b"\0", media_type="application/x"),
        ServedResource("odd://one", lambda: 5),
    ],
    [
        ServedPrompt("plain", lambda: "Do it.", description="Does it."),
        ServedPrompt(
            "both",
            lambda a, b="x": [f"{a} and {b}", Image(b"\0", media_type="image/png")],
            complete={
                "a": lambda typed: [typed * 2],
                "b": lambda typed, given: (typed + given["a"] for _ in range(101)),
            },
        ),
    ],
)


async def asked(handler: str, params: Any = None) -> Any:
    """The answer, as a client gets it; an error by its words."""
    function = CONTENTS.handlers(lambda given: given)[f"on_{handler}"]
    try:
        answer = await (
            function(params) if handler in ("read_resource", "get_prompt") else function(None, params)
        )
    except MCPError as error:
        return f"{error.code}: {error.message}"
    plain = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {name: value for name, value in plain.items() if name not in ("ttlMs", "cacheScope", "resultType")}


def read(uri: str) -> tuple[str, Any]:
    return "read_resource", types.ReadResourceRequestParams(uri=uri)


def prompt(name: str, **arguments: str) -> tuple[str, Any]:
    return "get_prompt", types.GetPromptRequestParams(name=name, arguments=arguments or None)


def complete(ref: str, name: str, value: str, **given: str) -> tuple[str, Any]:
    to: Any = types.ResourceTemplateReference(uri=ref) if "://" in ref else types.PromptReference(name=ref)
    context = types.CompletionContext(arguments=given) if given else None
    return "completion", types.CompleteRequestParams(
        ref=to, argument=types.CompletionArgument(name=name, value=value), context=context
    )


def user(**content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def values(*found: str, total: int = -1) -> dict[str, Any]:
    number = len(found) if total < 0 else total
    return {"completion": {"values": [*found], "total": number, "hasMore": number > len(found)}}


TODAY = {
    "name": "notes://today",
    "uri": "notes://today",
    "description": "Of today.",
    "mimeType": "text/markdown",
}


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (
            read("notes://today"),
            {"contents": [{"uri": "notes://today", "mimeType": "text/markdown", "text": "buy milk"}]},
        ),
        (
            read("notes://Ann"),
            {"contents": [{"uri": "notes://Ann", "mimeType": "text/plain", "text": "notes of Ann"}]},
        ),
        (
            read("bytes://all"),
            {"contents": [{"uri": "bytes://all", "mimeType": "application/x", "blob": "AA=="}]},
        ),
        (read("odd://one"), "-32603: the resource 'odd://one' returned 5; it has to return text or bytes"),
        (read("none://x"), "-32602: there is no resource 'none://x'"),
        (prompt("plain"), {"description": "Does it.", "messages": [user(type="text", text="Do it.")]}),
        (
            prompt("both", a="1"),
            {
                "messages": [
                    user(type="text", text="1 and x"),
                    user(type="image", data="AA==", mimeType="image/png"),
                ]
            },
        ),
        (prompt("both", a="1", b="2"), None),
        (prompt("both"), "-32602: the prompt 'both' takes a, b"),
        (prompt("both", a="1", c="2"), "-32602: the prompt 'both' takes a, b"),
        (prompt("plain", a="1"), "-32602: the prompt 'plain' takes no arguments"),
        (prompt("none"), "-32602: there is no prompt 'none'"),
        (complete("notes://{name}", "name", "AN"), values("Ann", "anna")),
        (complete("notes://{name}", "other", "a"), values()),
        (complete("both", "a", "x"), values("xx")),
        (complete("both", "b", "x", a="y"), values(*["xy"] * 100, total=101)),
        (complete("none", "a", "x"), "-32602: there is no prompt 'none'"),
        (complete("none://x", "a", "x"), "-32602: there is no resource 'none://x'"),
    ],
)
async def test_the_answer_to_a_request(request_: tuple[str, Any], answer: Any) -> None:
    found = await asked(*request_)
    if answer is None:
        assert found["messages"][0] == user(type="text", text="1 and 2")
    else:
        assert found == answer


async def test_what_is_listed() -> None:
    listed = await asked("list_resources")
    assert [one["uri"] for one in listed["resources"]] == ["notes://today", "bytes://all", "odd://one"]
    assert listed["resources"][0] == TODAY
    assert [one["uriTemplate"] for one in (await asked("list_resource_templates"))["resourceTemplates"]] == [
        "notes://{name}"
    ]
    plain, both = (await asked("list_prompts"))["prompts"]
    assert plain == {"name": "plain", "description": "Does it.", "arguments": []}
    assert both["arguments"] == [{"name": "a", "required": True}, {"name": "b", "required": False}]


def test_what_is_not_offered_is_not_announced() -> None:
    def names(*contents: Any) -> set[str]:
        return {*Contents(*contents).handlers(lambda given: given)}

    assert names([], []) == set()
    assert names([ServedResource("a://b", str)], []) == {
        "on_list_resources",
        "on_list_resource_templates",
        "on_read_resource",
    }
    assert names([], [ServedPrompt("p", str)]) == {"on_list_prompts", "on_get_prompt"}
    assert "on_completion" in names([ServedResource("a://{b}", str, complete={"b": ["c"]})], [])
