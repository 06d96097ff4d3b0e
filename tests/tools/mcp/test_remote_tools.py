"""What is offered of a server's tools: under which names, which of them, and with how much care."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.core.internal import dump_json
from wesichain.errors import ConfigError
from wesichain.tools.mcp.remote_tools import ToolSelection, local_names
from wesichain.tools.mcp.sdk import types

HASH, AGAIN = "b3dda5b6", "bea2ba2b"  # of "a/"
LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@pytest.mark.parametrize(
    ("names", "prefix", "called"),
    [
        pytest.param(["search", "a.b-c"], "", ["search", "a.b-c"], id="legal-names-stay"),
        pytest.param(["search"], "gh_", ["gh_search"], id="a-prefix-goes-before"),
        pytest.param(["get/it"], "", ["get_it"], id="what-is-not-allowed-becomes-a-line"),
        pytest.param(["1st"], "", ["_1st"], id="a-digit-does-not-come-first"),
        pytest.param(["1st"], "n", ["n1st"], id="unless-the-prefix-does"),
        pytest.param(["get/it", "get_it"], "", ["get_it_4ee187c1", "get_it"], id="a-legal-name-wins"),
        pytest.param(["x" * 70], "", ["x" * 55 + "_c71bd109"], id="a-long-name-is-cut"),
        pytest.param(
            ["a", "a/", "a_", f"a__{HASH}"],
            "",
            ["a", f"a__{AGAIN}", "a_", f"a__{HASH}"],
            id="even-against-malice",
        ),
        pytest.param([""], "", ["_"], id="no-name-at-all"),
    ],
)
def test_names(names: list[str], prefix: str, called: list[str]) -> None:
    assert [*local_names(names, prefix=prefix).values()] == called


@given(st.lists(st.text(max_size=80), unique=True, max_size=20), st.text(max_size=10))
def test_whatever_a_server_calls_its_tools_the_names_are_legal_and_distinct(
    names: list[str], prefix: str
) -> None:
    called = local_names(names, prefix=prefix)
    assert [*called] == names
    assert all(LEGAL.fullmatch(name) for name in called.values())
    assert len({*called.values()}) == len(names)


async def nothing(tool: str, args: Any, ctx: Any) -> None:
    """A call that is not made."""


def listed(name: str, *, destructive: bool | None = None) -> types.Tool:
    hints = types.ToolAnnotations(destructive_hint=destructive, read_only_hint=True, idempotent_hint=True)
    return types.Tool(name=name, input_schema={"type": "object"}, annotations=hints)


LIST = [listed("wipe", destructive=True), listed("look"), listed("edit")]


@pytest.mark.parametrize(
    ("approval", "asked"),
    [
        pytest.param((), ["wipe"], id="by-default-where-the-server-says-destructive"),
        pytest.param(["edit"], ["wipe", "edit"], id="names-add-to-it"),
        pytest.param("edit", ["wipe", "edit"], id="one-name-will-do"),
        pytest.param(True, ["wipe", "look", "edit"], id="for-all"),
        pytest.param(False, [], id="for-none"),
    ],
)
def test_approval(approval: Any, asked: list[str]) -> None:
    tools, _ = ToolSelection(approval=approval).choose(LIST, "s", nothing)
    assert [tool.name for tool in tools if tool.approval] == asked


@pytest.mark.parametrize(
    ("hints", "asks"),
    [
        (None, True),
        ({}, True),
        ({"read_only_hint": False}, True),
        ({"read_only_hint": True}, False),
        ({"destructive_hint": False}, False),
        ({"read_only_hint": True, "destructive_hint": True}, True),
    ],
)
def test_what_may_destroy_something_waits_for_a_person(hints: Any, asks: bool) -> None:
    annotations = None if hints is None else types.ToolAnnotations(**hints)
    one = types.Tool(name="t", input_schema={"type": "object"}, annotations=annotations)
    (made,), _ = ToolSelection().choose([one], "s", nothing)
    assert made.approval is asks


def test_hints_never_make_us_less_careful() -> None:
    tools, _ = ToolSelection().choose(LIST, "s", nothing)
    assert {tool.effect for tool in tools} == {"once"}
    tools, _ = ToolSelection(effect="pure").choose(LIST, "s", nothing)
    assert {tool.effect for tool in tools} == {"pure"}


@pytest.mark.parametrize(
    ("only", "offered"),
    [
        pytest.param(None, ["wipe", "look", "edit"], id="all"),
        pytest.param(["edit", "look"], ["look", "edit"], id="by-name-in-the-servers-order"),
        pytest.param("look", ["look"], id="one-name"),
        pytest.param(lambda name: "i" in name, ["wipe", "edit"], id="by-a-question"),
        pytest.param([], [], id="none"),
    ],
)
def test_only(only: Any, offered: list[str]) -> None:
    tools, left_out = ToolSelection(only=only).choose(LIST, "s", nothing)
    assert [tool.name for tool in tools] == offered
    assert left_out == {}


@pytest.mark.parametrize("option", ["only", "approval"])
def test_an_option_that_names_no_tool_is_a_mistake(option: str) -> None:
    with pytest.raises(
        ConfigError, match=f"'s' has no tool 'wpe', which {option}= names; its tools are wipe, look"
    ):
        ToolSelection(**{option: ["wpe"]}).choose(LIST, "s", nothing)  # type: ignore[arg-type]  # either takes names


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"timeout": 0}, "timeout is 0", id="no-time"),
        pytest.param({"effect": "safe"}, "effect is 'safe'", id="an-effect-that-is-none"),
        pytest.param({"max_output": -1}, "max_output is -1", id="less-than-nothing"),
    ],
)
def test_options_are_those_of_a_tool(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ToolSelection(**options)


TWICE = "it is listed more than once; the first is used"
WRONG: dict[str, tuple[Any, str]] = {
    "bad": ({"properties": {"a": {"pattern": "("}}}, "tool 'bad': schema: the pattern '(' cannot be used: "),
    "far": (
        {"$ref": "http://127.0.0.1:9/x"},
        "tool 'far': schema: $ref 'http://127.0.0.1:9/x' is a remote reference",
    ),
    "bell": (
        {"properties": {"a\x07": {}}},
        "tool 'bell': its schema has control characters in a name or a value",
    ),
    "half": ({"default": "\ud800"}, "tool 'half': its schema is not JSON: "),
    "huge": ({"default": "x" * 199_971}, "tool 'huge': its schema has 200,001 bytes, more than 200,000"),
}


def test_what_is_left_out_and_why() -> None:
    wrong = [
        types.Tool(name=name, input_schema={"type": "object", **schema})
        for name, (schema, _) in WRONG.items()
    ]
    task = listed("task")
    task.execution = types.ToolExecution(task_support="required")
    more = [listed("fine"), listed("fine"), listed("other"), listed("last")]
    tools, left_out = ToolSelection(max_tools=8).choose([*wrong, task, *more], "s", nothing)
    assert [tool.name for tool in tools] == ["fine", "other"]
    for name, (_, why) in WRONG.items():
        assert left_out.pop(name).startswith(why)
    assert left_out == {
        "task": "tool 'task' can only be run as a task, which is not supported",
        "fine": TWICE,
        "1 more": "the server lists 9 tools, and max_tools is 8; choose with only=, or increase it",
    }
    wordy = types.Tool(name="wordy", input_schema={"type": "object", "properties": {"x" * 2_000: 5}})
    assert len(ToolSelection().choose([wordy], "s", nothing)[1]["wordy"]) == 1_000
    just_fits = types.Tool(name="t", input_schema={"type": "object", "default": "x" * 199_970})
    (fits,), _ = ToolSelection().choose([just_fits], "s", nothing)
    assert len(dump_json(fits.spec.parameters)) == 200_000
