"""The registry: what is offered, found, called, counted."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from wesichain.core import ToolCall, ToolSpec
from wesichain.errors import (
    ConfigError,
    InvalidArgsError,
    ToolError,
    ToolErrorKind,
    ToolExecutionError,
    ToolSerializationError,
    ToolTimeoutError,
    UnknownToolError,
)
from wesichain.tools import ToolRegistry, ToolResult, ToolSet, ToolWarning, tool
from wesichain.tools.internal import PreparedCall


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


@tool
async def fail(how: str) -> str:
    """Fail."""
    match how:
        case "on purpose":
            raise ToolError("no such city", ToolErrorKind.NOT_FOUND)
        case "by mistake":
            raise KeyError("oops")
        case "silently":
            raise ValueError
        case "loudly":
            raise ValueError("x" * 1_000_000)
        case "unprintably":
            raise Unprintable
        case "with a surrogate":
            raise ValueError("\ud800")
        case "like an exit":
            raise SystemExit(3)
        case "in a group":
            async with asyncio.TaskGroup() as group:
                group.create_task(fail.function("by mistake"))
        case "with a lie":
            return 5  # type: ignore[return-value]  # that is the point
        case _:
            return "fine"
    return "never"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def registry() -> ToolRegistry:
    return ToolSet().register(add).register(greet).register(fail).build()


def run(name: str, args: Any, tools: ToolRegistry | None = None) -> ToolResult:
    return asyncio.run((tools or registry()).dispatch(ToolCall("c1", name, args)))


# --- looking -------------------------------------------------------------------------------------


def test_a_registry_is_a_collection_of_tools() -> None:
    tools = registry()
    assert tools.names == ("add", "greet", "fail")
    assert len(tools) == 3
    assert "add" in tools
    assert "sub" not in tools
    assert list(tools) == [add, greet, fail]
    assert tools.get("add") is add
    assert tools.get("sub") is None
    assert ToolSet.of(tools).build().names == tools.names


def test_specs_are_made_once() -> None:
    tools = registry()
    assert tools.specs() is tools.specs()
    assert tools.specs(exclude=frozenset({"add"})) is tools.specs(exclude=frozenset({"add"}))
    assert tools.specs(strict=True) is tools.specs(strict=True)
    assert tools.specs()[0] is add.spec
    assert [spec.name for spec in tools.specs(exclude=frozenset({"add", "other"}))] == ["greet", "fail"]
    assert all(isinstance(spec, ToolSpec) for spec in tools.specs(strict=True))
    pure = ToolSet.of([tool(add.function, name="pure", effect="pure"), add]).build()
    assert [spec.pure for spec in pure.specs()] == [True, False]


def test_many_questions_do_not_fill_the_memory() -> None:
    tools = registry()
    for number in range(1000):
        tools.specs(exclude=frozenset({str(number)}))
    assert len(tools._offers) <= 64


def test_the_catalog_is_plain_data() -> None:
    catalog = registry().catalog()
    assert catalog[0] == {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": add.spec.parameters,
        "returns": {"type": "integer"},
        "deprecated": False,
    }
    json.dumps(catalog)


# --- preparing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param(
            "ad",
            "there is no tool \"ad\"; did you mean 'add'? the tools are add, greet or fail",
            id="a-near-miss",
        ),
        pytest.param("zzz", 'there is no tool "zzz"; the tools are add, greet or fail', id="far-away"),
        pytest.param("", 'there is no tool ""; the tools', id="nothing"),
        pytest.param("x" * 100_000, 'there is no tool "xxx', id="a-novel"),
        pytest.param("\ud800", "there is no tool", id="a-lone-surrogate"),
    ],
)
def test_an_unknown_tool_is_told_with_the_names(name: str, words: str) -> None:
    found = registry().prepare(ToolCall("c1", name, {}))
    assert isinstance(found, UnknownToolError)
    assert words in str(found)
    assert len(str(found)) < 500
    assert (found.tool_name, found.call_id, found.available) == (name, "c1", ("add", "greet", "fail"))
    dispatched = run(name, {}).error
    assert isinstance(dispatched, UnknownToolError)
    assert str(dispatched) == str(found)


@pytest.mark.parametrize("name", [None, 5, ["add"]])
def test_a_name_that_is_no_text_is_an_unknown_tool(name: Any) -> None:
    assert isinstance(run(name, {}).error, UnknownToolError)


def test_many_tools_make_no_endless_message() -> None:
    tools = ToolSet.of(tool(add.function, name=f"tool_{n}") for n in range(60)).build()
    found = tools.prepare(ToolCall("1", "tool_600", {}))
    assert len(str(found)) < 500


# --- running -------------------------------------------------------------------------------------


def test_a_result_has_everything() -> None:
    result = run("add", {"a": 1})
    assert result.ok
    assert (result.call_id, result.name, result.value, result.error) == ("c1", "add", 3, None)
    assert 0 <= result.duration_ms < 10_000
    assert result == ToolResult("c1", "add", 3, duration_ms=result.duration_ms)
    with pytest.raises(AttributeError):
        result.value = 4  # type: ignore[misc]  # that is the point
    assert repr(result).startswith("ToolResult(call_id='c1', name='add', value=3, error=None")


@pytest.mark.parametrize(
    ("how", "words", "kind"),
    [
        pytest.param("on purpose", "no such city", ToolErrorKind.NOT_FOUND, id="what-it-says-on-purpose"),
        pytest.param(
            "by mistake",
            "tool 'fail' failed: KeyError: 'oops'",
            ToolErrorKind.EXECUTION_FAILED,
            id="a-mistake",
        ),
        pytest.param(
            "silently", "tool 'fail' failed: ValueError", ToolErrorKind.EXECUTION_FAILED, id="without-a-word"
        ),
        pytest.param(
            "loudly", "tool 'fail' failed: ValueError: xxxx", ToolErrorKind.EXECUTION_FAILED, id="a-novel"
        ),
        pytest.param("unprintably", "cannot be read", ToolErrorKind.EXECUTION_FAILED, id="a-broken-str"),
        pytest.param(
            "with a surrogate", "ValueError: ?", ToolErrorKind.EXECUTION_FAILED, id="a-lone-surrogate"
        ),
        pytest.param("like an exit", "SystemExit: 3", ToolErrorKind.EXECUTION_FAILED, id="sys-exit"),
        pytest.param("in a group", "ExceptionGroup", ToolErrorKind.EXECUTION_FAILED, id="a-task-group"),
    ],
)
def test_a_failure_is_a_value(how: str, words: str, kind: ToolErrorKind) -> None:
    result = run("fail", {"how": how})
    assert not result.ok
    assert result.value is None
    error = result.error
    assert isinstance(error, ToolExecutionError)
    assert words in str(error)
    assert len(str(error)) < 2100
    assert (error.kind, error.tool_name, error.call_id) == (kind, "fail", "c1")
    assert error.__cause__ is not None


def test_the_five_errors_are_five() -> None:
    @tool(timeout=0.01)
    async def slow() -> None:
        """Be slow."""
        await asyncio.sleep(60)

    tools = ToolSet.of([add, fail, slow]).build()
    calls = [
        ("nope", {}),
        ("add", {}),
        ("fail", {"how": "by mistake"}),
        ("slow", {}),
        ("fail", {"how": "with a lie"}),
    ]
    errors = [type(run(name, args, tools).error) for name, args in calls]
    assert errors == [
        UnknownToolError,
        InvalidArgsError,
        ToolExecutionError,
        ToolTimeoutError,
        ToolSerializationError,
    ]


def test_a_keyboard_interrupt_is_not_swallowed() -> None:
    @tool
    async def stop() -> None:
        """Stop everything."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("stop", {}, ToolSet().register(stop).build())


# --- counting ------------------------------------------------------------------------------------


def test_calls_are_counted() -> None:
    tools = registry()
    assert tools.stats("add").count == 0
    for how in ("fine", "by mistake", "on purpose"):
        run("fail", {"how": how}, tools)
    run("add", {}, tools)
    stats = tools.stats("fail")
    assert (stats.successes, stats.failures, stats.count) == (1, 2, 3)
    assert 0 < stats.min_ms <= stats.p50_ms <= stats.p95_ms <= stats.max_ms <= stats.total_ms
    assert stats.mean_ms == pytest.approx(stats.total_ms / 3)
    assert tools.stats("add").count == 0  # what does not enter the tool does not count


async def test_counting_many_calls_takes_little_memory() -> None:
    tools = registry()
    call = ToolCall("1", "add", {"a": 1})
    for _ in range(3000):
        await tools.dispatch(call)
    assert len(tools._counters["add"].successes) <= 1001
    assert tools.stats("add").successes == 3000
    await tools.dispatch(ToolCall("1", "fail", {"how": "by mistake"}))
    assert tools._counters["fail"].failures == []
    assert tools.stats("fail").failures == 1


def test_several_threads_lose_no_call() -> None:
    tools = registry()

    async def many() -> None:
        for _ in range(300):
            assert (await tools.dispatch(ToolCall("1", "add", {"a": 1}))).value == 3

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tools.stats("add").successes == 1200


def test_counters_of_unknown_tools_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="there is no tool 'sub'; the tools are add, greet or fail"):
        registry().stats("sub")
    with pytest.raises(ConfigError):
        registry().deprecate("sub")


# --- deprecating ---------------------------------------------------------------------------------


def test_a_deprecated_tool_is_no_longer_offered_and_still_works() -> None:
    tools = registry()
    before = tools.specs()
    tools.deprecate("add")
    tools.deprecate("add")
    assert len(before) == 3
    assert [spec.name for spec in tools.specs()] == ["greet", "fail"]
    assert tools.catalog()[0]["deprecated"]
    unknown = tools.prepare(ToolCall("1", "sub", {}))
    assert isinstance(unknown, UnknownToolError)
    assert unknown.available == ("greet", "fail")
    with pytest.warns(ToolWarning, match="'add' is deprecated"):
        assert run("add", {"a": 1}, tools).value == 3
    prepared = tools.prepare(ToolCall("1", "add", {"a": 1}))
    assert isinstance(prepared, PreparedCall)
    with pytest.warns(ToolWarning, match="'add' is deprecated"):
        assert asyncio.run(tools.run(prepared)).value == 3
    assert tools.stats("add").successes == 2


def test_where_warnings_are_errors_a_deprecated_call_is_one() -> None:
    tools = registry()
    tools.deprecate("add")
    assert isinstance(run("add", {"a": 1}, tools).error, ToolExecutionError)
