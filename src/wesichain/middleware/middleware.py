"""`Middleware`: user code around runs, model calls and tool calls."""

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
    """The base class of middleware. Override the methods that you need; the others cost nothing.

    A method may change the argument or the result of `call_next`, not call it at all, or call it again. One
    object serves all runs of its agent, also concurrent ones: the state of a run is in `ctx`. Raising a
    `GuardrailError` ends the run as Failed; so does any other exception, in an error that names the
    middleware. `Middleware[Desk]` declares the type of the deps. With `holds_stream`, the pieces of a
    streamed answer are held back until `wrap_run` has returned.
    """

    holds_stream: bool = False

    async def wrap_run(self, ctx: RunContext[DepsT_contra], task: Any, call_next: CallRun) -> Any:
        """Called around a run, or around its resumption: `await call_next(task)` returns the outcome.

        The log and a recording have the run's own outcome; if this method returns another, only the caller
        gets it. After a handoff to this agent, it wraps the rest of the run, or the part until the next
        handoff: the outcome is then an Interrupted, and the run continues when this method returns.
        """
        del ctx
        return await call_next(task)

    async def wrap_model(
        self, ctx: RunContext[DepsT_contra], request: LlmRequest, call_next: CallModel
    ) -> LlmResponse:
        """Called around a model call: `await call_next(request)` calls the model, and raises its errors.

        Every call of the model spends a step, its tokens and its cost, and emits an event. An error of the
        model, or an `LlmError` raised here, goes to the policy; any other exception ends the run.
        """
        del ctx
        return await call_next(request)

    async def wrap_tool(
        self, ctx: ToolContext[DepsT_contra], call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        """Called around a tool call that was checked and approved: `await call_next(call)` runs the tool.

        A failed call returns a result with an error. Changed arguments are checked again; another tool, or a
        second call of a tool whose effect is "once", is refused. A `ToolError` raised here fails the call;
        any other exception ends the run.
        """
        del ctx
        return await call_next(call)
