"""Calls: a tool is run where it belongs (the loop, a thread, a process), and its failure is named."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator
from dataclasses import replace
from functools import partial
from time import perf_counter
from types import coroutine
from typing import Any, TypeAlias, cast

from wesichain.core import JsonValue, ToolCall, dump_json, parse_json
from wesichain.errors import (
    ToolDispatchError,
    ToolError,
    ToolErrorKind,
    ToolExecutionError,
    ToolSerializationError,
    ToolTimeoutError,
)

from .context import CancellationToken, ToolContext
from .definition import Parts, Tool
from .json_schema import shorten
from .results import Counter, DraftResult, PreparedCall, ToolResult
from .running import ChildDiedError, Drive, OutOfTimeError, in_process, in_thread

Perform: TypeAlias = Callable[..., Coroutine[Any, Any, ToolResult]]
Attempt: TypeAlias = Callable[[Any, ToolContext | None, DraftResult], Generator[Any, Any, None]]

_MAX_MESSAGE = 2_000


def compile_call(tool: Tool, counter: Counter, check: Callable[[ToolCall], Any]) -> Perform:
    """One coroutine function for all calls of a tool: what never changes is looked up once, here.

    `check` judges the arguments of a call: it returns them as the tool takes them, or the error.
    """
    parts = _route(tool)
    attempt, check_plainly = _attempt(parts), parts.check
    name, timeout = tool.name, tool.timeout
    durations, note = counter.successes, counter.successes.append

    async def perform(
        call: ToolCall, ctx: ToolContext | None, prepared: PreparedCall | None = None
    ) -> ToolResult:
        if prepared is None:
            try:
                args = check_plainly(call.args)
            except Exception:  # noqa: BLE001  # what is not plainly right gets a second look
                args = check(call)
                if isinstance(args, ToolDispatchError):
                    return ToolResult(call.id, name, error=args)
        else:
            args = prepared.args
        result: Any = DraftResult()
        waits = False
        started = perf_counter()
        try:
            steps = attempt(args, ctx, result)
            for waits_for in steps:  # the first time that the tool waits, if it does at all
                waits = True
                await Drive(steps, waits_for, seconds=timeout)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # whatever a tool does, the caller gets a value
            duration_ms = (perf_counter() - started) * 1000
            if waits and isinstance(error, asyncio.CancelledError):
                raise  # the caller's own
            counter.failures.append(duration_ms)
            counter.sum_up()
            return ToolResult(call.id, name, None, failure(tool, call.id, error), duration_ms)
        result.call_id = call.id
        result.name = name
        result.error = None
        result.duration_ms = duration_ms = (perf_counter() - started) * 1000
        result.__class__ = ToolResult
        note(duration_ms)
        if len(durations) > 1000:
            counter.sum_up()
        return result  # type: ignore[no-any-return]  # it is one now

    return perform


def _route(tool: Tool) -> Parts:
    """The parts of a call, with the way to where the tool runs."""
    parts = tool.parts()
    if tool.isolate:  # its result is rendered in its own process
        return Parts(parts.check, partial(_isolated, tool), _as_it_is)
    if not tool.is_async:
        return Parts(parts.check, partial(_threaded, tool), parts.render)
    return parts


def _as_it_is(value: JsonValue) -> JsonValue:
    return value


def _attempt(parts: Parts) -> Attempt:
    """Run one call and write its value into the result.

    A generator that returns nothing can be stepped by hand without the StopIteration in which a coroutine
    ends, and which costs as much as the rest of a quick call.
    """
    _, call, render, by_name = parts

    @coroutine
    def attempt(args: Any, ctx: ToolContext | None, result: DraftResult) -> Generator[Any, Any, None]:
        result.value = render((yield from call(args, ctx)))

    @coroutine
    def attempt_by_name(args: Any, _: ToolContext | None, result: DraftResult) -> Generator[Any, Any, None]:
        result.value = render((yield from call(**args)))

    return cast("Attempt", attempt_by_name if by_name else attempt)


async def _threaded(tool: Tool, args: Any, ctx: ToolContext | None) -> Any:
    """Run a blocking tool. A thread cannot be stopped, but its context says that nobody waits any more."""
    ctx = ctx or ToolContext()
    token = CancellationToken()
    forget = ctx.cancellation.on_cancel(lambda: token.cancel(ctx.cancellation.reason or "cancelled"))
    try:
        value = await in_thread(partial(_call, tool, args, replace(ctx, cancellation=token)))
    except asyncio.CancelledError:
        token.cancel("the call was given up")
        raise
    finally:
        forget()
    return await value if inspect.isawaitable(value) else value


def _call(tool: Tool, args: Any, ctx: ToolContext | None) -> Any:
    value = tool.call(args, ctx)
    return list(value) if inspect.isgenerator(value) else value


# --- isolation -----------------------------------------------------------------------------------


class RemoteError(Exception):
    """What an isolated tool raised, as far as it can be told across processes."""


async def _isolated(tool: Tool, args: Any, ctx: ToolContext | None) -> Any:
    limit = tool.max_output + 16_384  # a little more than the tool's own limit, for notes and messages
    answer = parse_json(
        await in_process(partial(_answer, tool, args, ctx), limit=limit, seconds=tool.timeout)
    )
    if "value" in answer:
        return answer["value"]
    kind, message = answer["error"], answer["message"]
    if kind == "result":
        raise ToolSerializationError(message)
    if kind == "raised":
        raise RemoteError(message)
    raise ToolError(message, ToolErrorKind(kind))


def _answer(tool: Tool, args: Any, ctx: ToolContext | None) -> bytes:
    """In the child: run the tool, and say in JSON what came of it."""
    try:
        value = _call(tool, args, ctx)
        if inspect.isawaitable(value):
            value = asyncio.run(_finish(value))
        answer = {"value": tool.render(value)}
    except ToolSerializationError as error:
        answer = {"error": "result", "message": clean(str(error))}
    except ToolError as error:
        answer = {"error": error.kind.value, "message": clean(str(error))}
    except BaseException as error:  # noqa: BLE001  # the parent decides what it means
        answer = {"error": "raised", "message": describe(error)}
    return dump_json(answer).encode()


async def _finish(value: Any) -> Any:
    return await value


# --- failures ------------------------------------------------------------------------------------


def failure(tool: Tool, call_id: str, error: BaseException) -> ToolDispatchError:
    """The one of our errors that says what happened; the original is its cause."""
    name = tool.name
    failed: ToolDispatchError
    if isinstance(error, OutOfTimeError):
        # A thread runs on, whatever is done.
        abandoned = error.abandoned or not (tool.is_async or tool.isolate)
        end = "would not stop; it was abandoned" if abandoned else "was stopped"
        message = f"tool {name!r} did not finish within {tool.timeout:g} s and {end}"
        failed = ToolTimeoutError(message, seconds=tool.timeout, abandoned=abandoned)
    elif isinstance(error, ToolSerializationError):
        failed = ToolSerializationError(f"tool {name!r}: {error}")
    elif isinstance(error, ToolError):
        failed = ToolExecutionError(clean(str(error)), kind=error.kind)
    else:
        failed = ToolExecutionError(f"tool {name!r} failed: {describe(error)}")
    failed.tool_name, failed.call_id = name, call_id
    is_ours = isinstance(error, OutOfTimeError | ToolSerializationError)
    failed.__cause__ = error.__cause__ if is_ours else error
    return failed


def describe(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "it raised CancelledError, though nobody had cancelled it"
    if isinstance(error, RemoteError | ChildDiedError):
        return str(error)
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # a broken __str__ must not hide the error
        text = "(its message cannot be read)"
    return clean(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def clean(text: str) -> str:
    """A message of bounded length that JSON can hold."""
    return shorten(text, _MAX_MESSAGE).encode("utf-8", "replace").decode("utf-8")
