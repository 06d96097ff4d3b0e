"""The yardstick does what the measurement takes for granted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from bench.handwritten import Message, Model, describe, run


async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def fail() -> int:
    """Fail."""
    raise RuntimeError("boom")


TOOLS = describe(add, fail)


def call(name: str, arguments: str) -> Message:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def say(text: str) -> Message:
    return {"role": "assistant", "content": text}


def scripted(*replies: Message | Callable[[list[Message]], Message]) -> Model:
    left = iter(replies)

    async def model(messages: list[Message], tools: Sequence[Message]) -> Message:
        reply = next(left)
        return reply(messages) if callable(reply) else reply

    return model


def echo(messages: list[Message]) -> Message:
    """Answer with what the tool said."""
    return say(messages[-1]["content"])


async def test_an_answer_without_tools_is_returned() -> None:
    assert await run(scripted(say("hello")), TOOLS, "hi") == "hello"


@pytest.mark.parametrize(
    ("reply", "seen"),
    [
        pytest.param(call("add", '{"a": 1, "b": 2}'), "3", id="a call is run and its result goes back"),
        pytest.param(call("add", '{"a": 1}'), "2", id="a default is filled in"),
        pytest.param(call("add", '{"a": "x"}'), "error: ", id="wrong arguments are told to the model"),
        pytest.param(call("add", '{"a": 1, "c": 2}'), "error: ", id="unknown arguments are refused"),
        pytest.param(call("add", '{"a": '), "error: ", id="broken JSON is told to the model"),
        pytest.param(
            call("subtract", "{}"), "error: there is no tool", id="an unknown tool is told to the model"
        ),
        pytest.param(
            call("fail", "{}"), "error: RuntimeError: boom", id="a failing tool is told to the model"
        ),
    ],
)
async def test_what_becomes_of_a_call(reply: Message, seen: str) -> None:
    assert (await run(scripted(reply, echo), TOOLS, "go")).startswith(seen)


async def test_the_number_of_steps_is_bounded() -> None:
    asked = 0

    async def restless(messages: list[Message], tools: Sequence[Message]) -> Message:
        nonlocal asked
        asked += 1
        return call("add", '{"a": 1}')

    with pytest.raises(RuntimeError, match="3 model calls"):
        await run(restless, TOOLS, "go", max_steps=3)
    assert asked == 3


async def test_the_model_is_told_of_the_tools() -> None:
    offered: list[Any] = []

    async def model(messages: list[Message], tools: Sequence[Message]) -> Message:
        offered.extend(tools)
        return say("")

    await run(model, TOOLS, "go")
    assert [tool["function"]["name"] for tool in offered] == ["add", "fail"]
    assert offered[0]["function"]["parameters"]["required"] == ["a"]
