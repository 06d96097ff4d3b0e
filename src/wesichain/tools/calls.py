"""Calls: a tool is run where it belongs (the loop, a thread, a process), and its failure is named."""

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
from wesichain.core.internal import CallToken, Value, described
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
Attempt: TypeAlias = Callable[[Any, ToolContext | None, DraftResult], Iterable[Any]]
Elsewhere: TypeAlias = Callable[[JsonValue, Any, ToolContext | None, DraftResult], Coroutine[Any, Any, None]]

_log = logging.getLogger("wesichain.tools")
_EXPECTED = (WesichainError, OutOfTimeError, asyncio.CancelledError)  # what a tool, or its caller, meant
_PLAIN = frozenset({str, int, float, bool, type(None), dict})  # surely no part, nothing to wait for


def compile_call(tool: Tool, counter: Counter, check: Callable[[ToolCall], Any]) -> Perform:
    """One coroutine function for all calls of a tool: what never changes is looked up once, here.

    `check` judges the arguments of a call: it returns them as the tool takes them, or the error.
    """
    if tool.external:
        return _refusing(tool, check)
    parts = tool.parts()
    attempt = _attempt(parts) if tool.is_async else _attempt_at_once(parts)
    elsewhere = _elsewhere(tool)
    check_plainly = parts.check
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
        draft = DraftResult()
        draft.finish, draft.parts = False, ()
        waits = False
        started = perf_counter()
        try:
            if elsewhere is not None:
                waits = True
                await elsewhere(call.args, args, ctx, draft)
            else:
                steps = attempt(args, ctx, draft)
                for waits_for in steps:  # the first time that the tool waits, if it does at all
                    waits = True
                    await CallDrive(cast("Steps[None]", steps), waits_for, seconds=timeout)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # whatever a tool does, the caller gets a value
            duration_ms = (perf_counter() - started) * 1000
            if waits and isinstance(error, asyncio.CancelledError):
                raise  # the caller's own
            counter.failures.append(duration_ms)
            counter.sum_up()
            _log_unexpected(name, error)
            return ToolResult(call.id, name, None, failure(tool, call.id, error), duration_ms)
        duration_ms = (perf_counter() - started) * 1000
        note(duration_ms)
        if len(durations) > 1000:
            counter.sum_up()
        return ToolResult(call.id, name, draft.value, None, duration_ms, draft.finish, draft.parts)

    return perform


def _log_unexpected(name: str, error: BaseException) -> None:
    """Log what a tool raised and did not mean: the model may make something of it, and nobody would see.

    Its kind and where it was raised are logged, never its text, which may hold a secret: that is in the run's
    events, where it is redacted.
    """
    if _is_expected(error):
        return
    kind = type(error)
    wordless = ToolError(f"{kind.__name__}, whose text is in the events of the run")
    _log.warning(
        "tool %r raised %s", name, clean(kind.__name__), exc_info=(kind, wordless, error.__traceback__)
    )


def _is_expected(error: BaseException) -> bool:
    """Whether a tool, or its caller, meant it; a task group raises what its tasks raised, in a group."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(map(_is_expected, group.exceptions))
    return isinstance(error, _EXPECTED)


def _refusing(tool: Tool, check: Callable[[ToolCall], Any]) -> Perform:
    """Calls of an external tool: checked, and then for somebody else to answer."""

    async def refuse(
        call: ToolCall, _: ToolContext | None, prepared: PreparedCall | None = None
    ) -> ToolResult:
        args = check(call) if prepared is None else prepared.args
        if isinstance(args, ToolDispatchError):
            return ToolResult(call.id, tool.name, error=args)
        said = "is external: its result is provided from outside, by Provide(value), and not run here"
        return ToolResult(
            call.id, tool.name, error=failure(tool, call.id, ToolError(f"tool {tool.name!r} {said}"))
        )

    return refuse


def provided(prepared: PreparedCall, value: Any, *, error: str | None) -> ToolResult:
    """The result of a call that somebody outside has answered."""
    call, tool = prepared.call, prepared.tool
    if error is not None:
        return ToolResult(call.id, tool.name, error=failure(tool, call.id, ToolError(error)))
    draft = DraftResult()
    draft.finish = False
    try:
        _settle(draft, value, tool.render)
    except Exception as fault:  # noqa: BLE001  # a value that does not fit; serializers may raise anything
        return ToolResult(call.id, tool.name, error=failure(tool, call.id, fault))
    return ToolResult(call.id, tool.name, draft.value, finish=draft.finish, parts=draft.parts)


def _elsewhere(tool: Tool) -> Elsewhere | None:
    """The way to where a tool runs, if that is not the loop."""
    if tool.isolate:
        return _isolated(tool)
    return None if tool.is_async or not tool.blocking else _threaded(tool)


def _isolated(tool: Tool) -> Elsewhere:
    from .isolated import IsolatedCalls  # loaded with the first such tool

    calls = IsolatedCalls(tool)

    async def perform(raw: JsonValue, _: Any, ctx: ToolContext | None, result: DraftResult) -> None:
        _settle(result, await calls.run(raw, ctx), _as_it_is)

    return perform


def _attempt(parts: Parts) -> Attempt:
    """Run one call and write its value into the result.

    A generator that returns nothing can be stepped by hand without the StopIteration in which a coroutine
    ends, and which costs as much as the rest of a quick call.
    """
    _, call, render, by_name, context_first = parts

    @coroutine
    def attempt(args: Any, ctx: ToolContext | None, result: DraftResult) -> Generator[Any, Any, None]:
        if by_name:
            called = call(**args)
        elif context_first:
            called = call(ctx or ToolContext(), **args)
        else:
            called = call(args, ctx)
        value: Any = yield from called  # pyright: ignore[reportUnknownVariableType]  # any value at all
        if type(value) in _PLAIN:  # pyright: ignore[reportUnknownArgumentType]  # any value at all
            result.value = render(value)
        else:
            _settle(result, value, render)

    return cast("Attempt", attempt)


def _settle(result: DraftResult, value: Any, render: Callable[[Any], JsonValue]) -> None:
    """Write what a tool gave into its result: the run's own, parts, or a value."""
    if isinstance(value, Finish):
        finish: Finish[Any] = value  # pyright: ignore[reportUnknownVariableType]  # any value at all
        result.finish, value = True, finish.value
    result.parts = parts_in(value)
    result.value = described(result.parts) if result.parts else render(value)


def _attempt_at_once(parts: Parts) -> Attempt:
    """Run one call of a function that does not block, here and now; only what it returns may wait."""
    _, call, render, by_name, _ = parts

    def attempt(args: Any, ctx: ToolContext | None, result: DraftResult) -> Iterable[Any]:
        value = call(**args) if by_name else call(args, ctx)
        if type(value) in _PLAIN:
            result.value = render(value)
            return ()
        if inspect.isawaitable(value):
            rest: Awaitable[Any] = value
            return _attempt(Parts(parts.check, lambda _args, _ctx: _finish(rest), render))(args, ctx, result)  # pyright: ignore[reportUnknownLambdaType]  # any value at all
        _settle(result, list(value) if inspect.isgenerator(value) else value, render)
        return ()

    return attempt


def _as_it_is(value: Any) -> JsonValue:
    return value  # type: ignore[no-any-return]  # it was rendered over there


class _TokenAbove(Value):
    """Has the token of the call that a thread works for: to cancel in the thread ends the run, too."""

    token: CancellationToken


def _threaded(tool: Tool) -> Elsewhere:
    """Run one call of a blocking tool. A thread cannot be stopped, but its context says that nobody waits."""
    _, call, render, by_name, _ = tool.parts()
    seconds, takes_context = tool.timeout, tool.takes_context

    async def perform(_: JsonValue, args: Any, ctx: ToolContext | None, result: DraftResult) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        given_up: CallToken | None = None
        if by_name:
            work = partial(_called, call, **args)
        elif takes_context:
            ctx = ctx or ToolContext()
            given_up = CallToken(_TokenAbove(ctx.cancellation))
            work = partial(_called, call, args, replace(ctx, cancellation=given_up))
        else:
            work = partial(_called, call, args, ctx)
        answer = in_thread(work)
        timer = loop.call_later(seconds, _give_up, answer) if seconds < inf else None
        try:
            value = await answer
        except (asyncio.CancelledError, OutOfTimeError):
            if given_up is not None:
                given_up.abandon("the call was abandoned")
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if type(value) not in _PLAIN and inspect.isawaitable(value):
            value = await _within(value, seconds - (loop.time() - started))
        _settle(result, value, render)

    return perform


async def _within(value: Awaitable[Any], seconds: float) -> Any:
    """Await what a function has returned, in the time that is left."""
    rest = _finish(value)
    try:
        waits_for = rest.send(None)
    except StopIteration as end:
        return end.value
    return await CallDrive(rest, waits_for, seconds=max(seconds, 0.0))


def _called(call: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """In the thread: call, and take what a generator gives."""
    value = call(*args, **named)
    return list(value) if inspect.isgenerator(value) else value


def _give_up(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(OutOfTimeError(abandoned=True))


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
