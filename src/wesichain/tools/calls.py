"""Calls: running a tool on the event loop, in a thread or in a process, and converting its errors."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from dataclasses import replace  # a context is a dataclass
from functools import partial
from math import inf
from time import perf_counter
from types import coroutine
from typing import Any, TypeAlias, cast

from wesichain.core import JsonValue, ToolCall
from wesichain.core.internal import CallToken, Suspended, Value, described
from wesichain.errors import (
    ToolDispatchError,
    ToolError,
    ToolExecutionError,
    ToolSerializationError,
    ToolTimeoutError,
    WesichainError,
)

from .context import CancellationToken, ToolContext
from .definition import Parts, Tool
from .failures import clean, describe
from .results import Counter, DraftResult, PreparedCall, ToolResult
from .return_values import Finish, parts_in
from .running import CallDrive, OutOfTimeError, Steps, in_thread

Perform: TypeAlias = Callable[..., Coroutine[Any, Any, ToolResult]]
StartCall: TypeAlias = Callable[[Any, ToolContext | None, DraftResult], Iterable[Any]]
RunOffLoop: TypeAlias = Callable[[JsonValue, Any, ToolContext | None, DraftResult], Coroutine[Any, Any, None]]

_log = logging.getLogger("wesichain.tools")
_EXPECTED = (WesichainError, OutOfTimeError, Suspended, asyncio.CancelledError)  # raised on purpose
_JSON_TYPES = frozenset({str, int, float, bool, type(None), dict})  # neither parts nor awaitables


def compile_call(tool: Tool, counter: Counter, check: Callable[[ToolCall], Any]) -> Perform:
    """Return a coroutine function that runs calls of a tool. Everything constant is looked up once, here.

    `check` returns the arguments of a call as the tool takes them, or an error.
    """
    if tool.external:
        return _refuse_external(tool, check)
    parts = tool.parts()
    start = _async_steps(parts) if tool.is_async else _sync_steps(parts)
    run_off_loop = _run_off_loop(tool)
    quick_check = parts.check
    name, timeout = tool.name, tool.timeout
    durations, record_success = counter.successes, counter.successes.append

    async def perform(
        call: ToolCall, ctx: ToolContext | None, prepared: PreparedCall | None = None
    ) -> ToolResult:
        if prepared is None:
            try:
                args = quick_check(call.args)
            except Exception:  # noqa: BLE001  # `check` decides
                args = check(call)
                if isinstance(args, ToolDispatchError):
                    return ToolResult(call.id, name, error=args)
        else:
            args = prepared.args
        draft = DraftResult()
        draft.finish, draft.parts = False, ()
        is_waiting = False
        started = perf_counter()
        try:
            if run_off_loop is not None:
                is_waiting = True
                await run_off_loop(call.args, args, ctx, draft)
            else:
                steps = start(args, ctx, draft)
                for waits_for in steps:  # the tool waits for the first time
                    is_waiting = True
                    await CallDrive(cast("Steps[None]", steps), waits_for, seconds=timeout)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # the error is a part of the result
            duration_ms = (perf_counter() - started) * 1000
            if is_waiting and isinstance(error, asyncio.CancelledError):
                raise  # the caller was cancelled
            if not isinstance(error, Suspended):  # it waits for something, and will be called again
                counter.failures.append(duration_ms)
                counter.sum_up()
            _log_unexpected(name, error)
            return ToolResult(call.id, name, None, failure(tool, call.id, error), duration_ms)
        duration_ms = (perf_counter() - started) * 1000
        record_success(duration_ms)
        if len(durations) > 1000:
            counter.sum_up()
        return ToolResult(call.id, name, draft.value, None, duration_ms, draft.finish, draft.parts)

    return perform


def _log_unexpected(name: str, error: BaseException) -> None:
    """Log an exception that a tool did not raise on purpose: the model may hide it from the user.

    The class and the traceback are logged without the message, which may contain a secret; the message is in
    the events of the run, where it is redacted.
    """
    if _is_expected(error):
        return
    kind = type(error)
    without_message = ToolError(f"{kind.__name__}, whose text is in the events of the run")
    _log.warning(
        "tool %r raised %s", name, clean(kind.__name__), exc_info=(kind, without_message, error.__traceback__)
    )


def _is_expected(error: BaseException) -> bool:
    """Whether an exception, or every exception of a group, was raised on purpose."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(map(_is_expected, group.exceptions))
    return isinstance(error, _EXPECTED)


def _refuse_external(tool: Tool, check: Callable[[ToolCall], Any]) -> Perform:
    """Return a coroutine function for an external tool, which checks calls and does not run them."""

    async def refuse(
        call: ToolCall, _: ToolContext | None, prepared: PreparedCall | None = None
    ) -> ToolResult:
        args = check(call) if prepared is None else prepared.args
        if isinstance(args, ToolDispatchError):
            return ToolResult(call.id, tool.name, error=args)
        error = ToolError(
            f"tool {tool.name!r} is external: its result has to be provided with Provide(value)"
        )
        return ToolResult(call.id, tool.name, error=failure(tool, call.id, error))

    return refuse


def provided_result(prepared: PreparedCall, value: Any, *, error: str | None) -> ToolResult:
    """Return the result of an external call, from the value or the error that was provided."""
    call, tool = prepared.call, prepared.tool
    if error is not None:
        return ToolResult(call.id, tool.name, error=failure(tool, call.id, ToolError(error)))
    draft = DraftResult()
    draft.finish = False
    try:
        _write_result(draft, value, tool.render)
    except Exception as fault:  # noqa: BLE001  # serializers may raise anything
        return ToolResult(call.id, tool.name, error=failure(tool, call.id, fault))
    return ToolResult(call.id, tool.name, draft.value, finish=draft.finish, parts=draft.parts)


def _run_off_loop(tool: Tool) -> RunOffLoop | None:
    """Return the function that runs a tool in a process or a thread; None for a tool of the event loop."""
    if tool.isolate:
        return _run_isolated(tool)
    return None if tool.is_async or not tool.blocking else _run_in_thread(tool)


def _run_isolated(tool: Tool) -> RunOffLoop:
    from .isolated import IsolatedCalls  # imported with the first isolated tool

    calls = IsolatedCalls(tool)

    async def perform(raw: JsonValue, _: Any, ctx: ToolContext | None, result: DraftResult) -> None:
        _write_result(result, await calls.run(raw, ctx), _identity)

    return perform


def _async_steps(parts: Parts) -> StartCall:
    """Return a function that runs one call and writes its value into the result.

    It is a generator because the StopIteration at the end of a coroutine costs as much as the rest of a
    quick call.
    """
    _, call, render, by_name, context_first = parts

    @coroutine
    def start(args: Any, ctx: ToolContext | None, result: DraftResult) -> Generator[Any, Any, None]:
        if by_name:
            called = call(**args)
        elif context_first:
            called = call(ctx or ToolContext(), **args)
        else:
            called = call(args, ctx)
        value: Any = yield from called  # pyright: ignore[reportUnknownVariableType]  # any value at all
        if type(value) in _JSON_TYPES:  # pyright: ignore[reportUnknownArgumentType]  # any value at all
            result.value = render(value)
        else:
            _write_result(result, value, render)

    return cast("StartCall", start)


def _write_result(result: DraftResult, value: Any, render: Callable[[Any], JsonValue]) -> None:
    """Write the return value of a tool into its result: a value, parts, or one of them in a `Finish`."""
    if isinstance(value, Finish):
        finish: Finish[Any] = value  # pyright: ignore[reportUnknownVariableType]  # any value at all
        result.finish, value = True, finish.value
    result.parts = parts_in(value)
    result.value = described(result.parts) if result.parts else render(value)


def _sync_steps(parts: Parts) -> StartCall:
    """Return a function that calls a non-blocking sync function directly; its value may be an awaitable."""
    _, call, render, by_name, _ = parts

    def start(args: Any, ctx: ToolContext | None, result: DraftResult) -> Iterable[Any]:
        value = call(**args) if by_name else call(args, ctx)
        if type(value) in _JSON_TYPES:
            result.value = render(value)
            return ()
        if inspect.isawaitable(value):
            rest: Awaitable[Any] = value
            waiting = Parts(parts.check, lambda _args, _ctx: _await(rest), render)  # pyright: ignore[reportUnknownLambdaType]  # any value at all
            return _async_steps(waiting)(args, ctx, result)
        _write_result(result, list(value) if inspect.isgenerator(value) else value, render)
        return ()

    return start


def _identity(value: Any) -> JsonValue:
    return value  # type: ignore[no-any-return]  # it was rendered in the other process


class _RunToken(Value):
    """The token of the call that runs in a thread: a cancel in the thread also cancels the run."""

    token: CancellationToken


def _run_in_thread(tool: Tool) -> RunOffLoop:
    """Return a function that runs a blocking tool in a thread, whose context is cancelled on a timeout."""
    _, call, render, by_name, _ = tool.parts()
    seconds, takes_context = tool.timeout, tool.takes_context

    async def perform(_: JsonValue, args: Any, ctx: ToolContext | None, result: DraftResult) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        call_token: CallToken | None = None
        if by_name:
            work = partial(_call_and_collect, call, **args)
        elif takes_context:
            ctx = ctx or ToolContext()
            call_token = CallToken(_RunToken(ctx.cancellation))
            work = partial(_call_and_collect, call, args, replace(ctx, cancellation=call_token))
        else:
            work = partial(_call_and_collect, call, args, ctx)
        answer = in_thread(work)
        timer = loop.call_later(seconds, _expire, answer) if seconds < inf else None
        try:
            value = await answer
        except (asyncio.CancelledError, OutOfTimeError):
            if call_token is not None:
                call_token.abandon("the call was abandoned")
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if type(value) not in _JSON_TYPES and inspect.isawaitable(value):
            value = await _await_within(value, seconds - (loop.time() - started))
        _write_result(result, value, render)

    return perform


async def _await_within(value: Awaitable[Any], seconds: float) -> Any:
    """Await the return value of a function in the remaining time."""
    rest = _await(value)
    try:
        waits_for = rest.send(None)
    except StopIteration as end:
        return end.value
    return await CallDrive(rest, waits_for, seconds=max(seconds, 0.0))


def _call_and_collect(call: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """Call a function in the thread, and collect the items of a generator."""
    value = call(*args, **named)
    return list(value) if inspect.isgenerator(value) else value


def _expire(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(OutOfTimeError(abandoned=True))


async def _await(value: Any) -> Any:
    return await value


# --- failures ------------------------------------------------------------------------------------


def failure(tool: Tool, call_id: str, error: BaseException) -> ToolDispatchError:
    """Convert an exception to the error of a call, whose cause is the original."""
    name = tool.name
    failed: ToolDispatchError
    if isinstance(error, OutOfTimeError):
        # A thread cannot be stopped.
        abandoned = error.abandoned or not (tool.is_async or tool.isolate)
        end = "could not be stopped; it was abandoned" if abandoned else "was stopped"
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
