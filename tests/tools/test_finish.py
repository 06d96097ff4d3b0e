"""Finish, Id, external, blocking=False, Isolation: what a tool says of itself reaches whoever runs it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from wesichain.core import ToolCall
from wesichain.errors import (
    InvalidArgsError,
    ToolDefinitionError,
    ToolExecutionError,
    ToolSerializationError,
    ToolTimeoutError,
)
from wesichain.tools import Finish, Id, JsonTool, ToolContext, ToolSet, TypedTool, tool
from wesichain.tools.results import PreparedCall


class Report(BaseModel):
    title: str


class Ask(BaseModel):
    title: str


async def call(made: Any, **args: Any) -> Any:
    registry = ToolSet.of([made]).build()
    return await registry.dispatch(ToolCall("c", registry.names[0], args))


# --- Finish --------------------------------------------------------------------------------------


@tool(description="d")
async def report(title: str) -> Finish[Report]:
    return Finish(Report(title=title))


@tool(description="d")
def report_in_a_thread(title: str) -> str | Finish[Report]:
    return Finish(Report(title=title))


@tool(description="d", blocking=False)
def report_at_once(title: str) -> Finish[Any]:
    return Finish({"title": title})


class TypedReport(TypedTool[Ask, Finish[Report]]):
    """Report."""

    async def run(self, args: Ask, ctx: ToolContext) -> Finish[Report]:
        return Finish(Report(title=args.title))


ASK = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}


@pytest.mark.parametrize(
    "made",
    [
        report,
        report_in_a_thread,
        report_at_once,
        TypedReport,
        JsonTool("j", "d", ASK, lambda args: Finish(args)),
    ],
    ids=["async", "thread", "at-once", "typed", "json"],
)
async def test_a_finish_is_its_value_and_a_flag(made: Any) -> None:
    result = await call(made, title="x")
    assert (result.value, result.finish, result.ok) == ({"title": "x"}, True, True)


async def test_the_value_of_a_finish_is_checked_against_the_declared_type() -> None:
    @tool(description="d")
    async def wrong() -> Finish[int]:
        return Finish("text")  # type: ignore[arg-type]  # the point

    result = await call(wrong)
    assert isinstance(result.error, ToolSerializationError)


def test_a_finish_is_not_in_the_schema_of_the_result() -> None:
    assert report.returns == {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
    }


# --- blocking=False ------------------------------------------------------------------------------


async def test_a_function_that_does_not_block_runs_in_the_thread_of_the_loop() -> None:
    @tool(description="d", blocking=False)
    def where() -> int:
        return threading.get_ident()

    @tool(description="d")
    def elsewhere() -> int:
        return threading.get_ident()

    assert (await call(where)).value == threading.get_ident()
    assert (await call(elsewhere)).value != threading.get_ident()


async def test_at_once_takes_context_generators_awaitables_and_failures_as_ever() -> None:
    @tool(description="d", blocking=False)
    def told(ctx: ToolContext) -> str:
        return ctx.correlation_id

    @tool(description="d", blocking=False)
    def several() -> Iterator[int]:
        yield from (1, 2)

    async def later() -> int:
        await asyncio.sleep(0)
        return 3

    @tool(description="d", blocking=False)
    def waits() -> Any:
        return later()

    @tool(description="d", blocking=False)
    def fails() -> int:
        raise KeyError("x")

    @tool(description="d", blocking=False, timeout=0.05)
    def stuck() -> Any:
        return asyncio.sleep(3600)

    registry = ToolSet.of([told]).build()
    assert (await registry.dispatch(ToolCall("c", "told", {}), ToolContext("run"))).value == "run"
    assert (await call(several)).value == [1, 2]
    assert (await call(waits)).value == 3
    failed = await call(fails)
    assert isinstance(failed.error, ToolExecutionError)
    assert isinstance(failed.error.__cause__, KeyError)
    assert isinstance((await call(stuck)).error, ToolTimeoutError)


async def test_a_function_in_a_thread_may_return_what_waits_and_is_bounded_as_a_whole() -> None:
    async def later(seconds: float) -> int:
        await asyncio.sleep(seconds)
        return 3

    def waits(seconds: float) -> Any:
        return later(seconds)

    patient, hasty = (tool(waits, description="d", timeout=seconds) for seconds in (30.0, 0.2))

    async def at_once() -> int:
        return 4

    @tool(description="d")
    def does_not() -> Any:
        return at_once()

    assert (await call(patient, seconds=0.0)).value == 3
    assert isinstance((await call(hasty, seconds=60.0)).error, ToolTimeoutError)
    assert (await call(does_not)).value == 4


async def test_a_cancellation_that_a_function_in_a_thread_raises_is_its_own_failure() -> None:
    @tool(description="d")
    def odd() -> int:
        raise asyncio.CancelledError

    result = await call(odd)
    assert isinstance(result.error, ToolExecutionError)
    assert "CancelledError" in str(result.error)


async def test_a_parameter_may_have_any_name() -> None:
    @tool(description="d")
    def named(call: int, args: int, self: int) -> int:
        return call + args + self

    registry = ToolSet.of([named]).build()
    result = await registry.dispatch(ToolCall("c", "named", {"call": 1, "args": 2, "self": 3}))
    assert result.value == 6


# --- external ------------------------------------------------------------------------------------


@tool(external=True, description="d")
def ask_the_user(question: str) -> int:
    raise AssertionError


async def test_an_external_tool_is_checked_and_never_run() -> None:
    assert isinstance((await call(ask_the_user, question=1)).error, InvalidArgsError)
    result = await call(ask_the_user, question="?")
    assert isinstance(result.error, ToolExecutionError)
    assert "Provide" in str(result.error)


def test_what_is_provided_is_checked_like_a_result() -> None:
    registry = ToolSet.of([ask_the_user]).build()
    prepared = registry.prepare(ToolCall("c", "ask_the_user", {"question": "?"}))
    assert isinstance(prepared, PreparedCall)
    assert prepared.tool.external
    assert registry.provide(prepared, 42).value == 42
    assert isinstance(registry.provide(prepared, "many").error, ToolSerializationError)
    failed = registry.provide(prepared, error="nobody there")
    assert isinstance(failed.error, ToolExecutionError)
    assert (str(failed.error), failed.error.call_id) == ("nobody there", "c")


def test_an_external_json_tool_needs_no_function() -> None:
    assert JsonTool("form", "d", ASK, external=True).external
    with pytest.raises(ToolDefinitionError, match="invoke"):
        JsonTool("form", "d", ASK)


# --- options that do not fit, ids, names -------------------------------------------------------------


async def test_an_id_is_told_in_the_schema_and_is_otherwise_its_type() -> None:
    @tool(description="d")
    async def find(order: Annotated[str, Id], others: list[Annotated[str, Id]] | None = None) -> str:
        return order

    fields = find.spec.parameters["properties"]
    assert fields["order"] == {"type": "string", "format": "id"}
    assert fields["others"]["anyOf"][0]["items"] == {"type": "string", "format": "id"}
    assert find.signature.startswith("find(order: str (id)")
    assert (await call(find, order="A-1")).value == "A-1"
    assert isinstance((await call(find, order=1)).error, InvalidArgsError)
    strict = ToolSet.of([find]).build().specs(strict=True)[0]
    assert strict.parameters["properties"]["order"] == {"type": "string"}


def test_a_typed_tool_that_is_named_nothing_is_refused_and_one_that_is_not_named_has_its_class_s_name() -> (
    None
):
    class Nameless(TypedTool[Ask, str]):
        """D."""

        name = ""

        async def run(self, args: Ask, ctx: ToolContext) -> str:
            return ""

    class Unnamed(TypedTool[Ask, str]):
        """D."""

        async def run(self, args: Ask, ctx: ToolContext) -> str:
            return ""

    with pytest.raises(ToolDefinitionError, match="name"):
        Nameless().spec  # noqa: B018  # it is read
    assert Unnamed().spec.name == "Unnamed"


async def test_arguments_that_are_refused_have_a_cause() -> None:
    for made in (report, TypedReport, JsonTool("j", "d", ASK, lambda args: args)):
        for args in ({}, {"title": 1}, {"title": "x", "more": float("nan")}):
            error = (await call(made, **args)).error
            if error is not None:
                assert error.__cause__ is not None, args
    for sent in ("text", None):
        error = (await ToolSet.of([report]).build().dispatch(ToolCall("c", "report", sent))).error
        assert error is not None
        assert error.__cause__ is not None
