"""The contract suites: a sound part passes every test of its suite, and each mistake fails one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

from wesichain import LlmRequest, LlmResponse, tool
from wesichain.core import ToolCallingLlm
from wesichain.testing import (
    FunctionLlm,
    ModelContract,
    ScriptedLlm,
    SinkContract,
    StreamingScriptedLlm,
    ToolContract,
)
from wesichain.tools import JsonTool
from wesichain.trace import CollectingSink


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def lax(args: Any) -> int:
    return len(args)


class ByHalves(StreamingScriptedLlm):
    """Streams the whole response twice."""

    @override
    async def stream(self, request: LlmRequest) -> Any:
        yield LlmResponse("he")
        yield LlmResponse("hello")


class Deaf:
    def emit(self, event: object) -> None:
        raise OSError("the disk is full")


def models(make: Callable[[], ToolCallingLlm]) -> Any:
    return type("Suite", (ModelContract,), {"make_model": staticmethod(make)})()


def tools(made: Any, **args: Any) -> Any:
    given = {"make_tool": lambda _: made, "good_args": lambda _: args}
    return type("Suite", (ToolContract,), given)()


def sinks(sink: Any) -> Any:
    return type("Suite", (SinkContract,), {"make_sink": lambda _: sink})()


@pytest.mark.parametrize(
    ("suite", "fails"),
    [
        pytest.param(models(lambda: ScriptedLlm(["hello"])), (), id="a-model"),
        pytest.param(models(lambda: StreamingScriptedLlm(["hello"])), (), id="a-model-that-streams"),
        pytest.param(models(lambda: FunctionLlm(lambda _: "")), ("answers_or_calls",), id="a-silent-model"),
        pytest.param(models(lambda: ByHalves(["hello"])), ("a_stream_ends",), id="a-stream-without-an-end"),
        pytest.param(tools(add, a=1, b=2), (), id="a-tool"),
        pytest.param(tools(add, a=1), ("good_arguments",), id="arguments-that-are-not-good"),
        pytest.param(tools(JsonTool("lax", "", {"type": "object"}, lax)), ("its_schema", "an_unknown_argument"), id="a-tool-that-takes-anything"),
        pytest.param(sinks(CollectingSink()), (), id="a-sink"),
        pytest.param(sinks(Deaf()), ("every_event",), id="a-sink-that-raises"),
    ],
)  # fmt: skip
def test_a_suite_fails_for_the_mistakes_of_a_part(suite: Any, fails: tuple[str, ...]) -> None:
    failed: list[str] = []
    for name in (name for name in dir(suite) if name.startswith("test_")):
        try:
            getattr(suite, name)()
        except Exception:  # a failed test, whatever it raised
            failed.append(name)
    for part in fails:
        assert any(part in name for name in failed), (part, failed)
    assert fails or not failed, failed
