"""Middleware: code of the program's own around a run, its model calls and its tool calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeAlias

from typing_extensions import TypeVar

from wesichain.core import LlmRequest, LlmResponse, ToolCall
from wesichain.tools import RunContext, ToolContext, ToolResult

DepsT_contra = TypeVar("DepsT_contra", contravariant=True, default=Any)

CallRun: TypeAlias = Callable[[Any], Awaitable[Any]]
CallModel: TypeAlias = Callable[[LlmRequest], Awaitable[LlmResponse]]
CallTool: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]


class Middleware(Generic[DepsT_contra]):
    """Stands around the runs of an agent. Override what is needed; the rest calls on, and costs nothing.

    A method may change what it hands on or what it gives back, answer without calling on, or call on again.
    One object serves all the runs of its agent, also at the same time: what belongs to one run is in `ctx`.
    To raise a `GuardrailError` ends the run as Failed; any other exception does too, in an error that names
    the middleware. `Middleware[Desk]` says what deps it wants of a run. `holds_stream` keeps the pieces of a
    streamed answer back until `wrap_run` has returned.
    """

    holds_stream: bool = False

    async def wrap_run(self, ctx: RunContext[DepsT_contra], task: Any, call_next: CallRun) -> Any:
        """Around a run, or the part of it that is resumed: `await call_next(task)` gives its outcome.

        The log and a recording have the run's own outcome; another one is for the caller alone. After a
        hand-off to this agent, it wraps the run from there to the end, or until the agent hands it off: the
        outcome is then an Interrupted one that says so, and the run continues when this method returns.
        """
        del ctx
        return await call_next(task)

    async def wrap_model(
        self, ctx: RunContext[DepsT_contra], request: LlmRequest, call_next: CallModel
    ) -> LlmResponse:
        """Around a model call: `await call_next(request)` calls the model, and raises what the model raises.

        Every call of the model spends a step, its tokens and its cost, and is an event. What the model
        raises, or an `LlmError` raised here, goes to the policy; any other exception ends the run.
        """
        del ctx
        return await call_next(request)

    async def wrap_tool(
        self, ctx: ToolContext[DepsT_contra], call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        """Around a tool call that was checked and approved: `await call_next(call)` runs it.

        A tool that fails gives a result with an error. Other arguments are checked again; another tool, or a
        second run of one whose effect is "once", is refused. A `ToolError` raised here is a failure of the
        call; any other exception ends the run.
        """
        del ctx
        return await call_next(call)
