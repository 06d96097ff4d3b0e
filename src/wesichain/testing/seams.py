"""Seams: let a test intercept the model calls and tool calls of the runs in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol

from typing_extensions import override

from wesichain.core import Event, EventSink, LlmRequest, ToolCall
from wesichain.core.internal import CallHook, around
from wesichain.tools import ToolContext, ToolRegistry, ToolResult
from wesichain.tools.internal import PreparedCall

RunTool = Callable[[PreparedCall, ToolContext | None], Coroutine[Any, Any, ToolResult]]


class Seam(Protocol):
    """Intercepts the calls of the runs that it `is_active` for."""

    def is_active(self) -> bool:
        """Whether the current code belongs to a run of this seam."""
        ...

    def model(
        self, llm: object, request: LlmRequest, reply: Coroutine[Any, Any, Any]
    ) -> Coroutine[Any, Any, Any]:
        """Return the reply to a request; await `reply` to call the model itself."""
        ...

    def tool(
        self, run: RunTool, prepared: PreparedCall, ctx: ToolContext | None
    ) -> Coroutine[Any, Any, ToolResult]:
        """Return the result of a call; `run` runs the tool itself."""
        ...

    def opened(self, agent: str) -> EventSink | None:
        """Called when a run of this agent starts or resumes; returns a sink for its events."""
        ...


_seams: list[Seam] = []
_lock = threading.RLock()
_run_tool = ToolRegistry.run
_before: CallHook | None = None


def _active() -> Seam | None:
    for seam in reversed(_seams):
        if seam.is_active():
            return seam
    return None


@contextmanager
def installed(seam: Seam) -> Generator[None]:
    """Intercept the calls of the runs that the seam is active for; other runs are not affected."""
    global _before  # noqa: PLW0603  # the hook is global to the process
    with _lock:
        if not _seams:
            _before = around.hook
            around.hook = _Hook(_before)
            setattr(ToolRegistry, "run", _run)  # noqa: B010  # a method, in the eyes of type checkers
        _seams.append(seam)
    try:
        yield
    finally:
        with _lock:
            _seams.remove(seam)
            if not _seams:
                around.hook = _before
                setattr(ToolRegistry, "run", _run_tool)  # noqa: B010  # a method, in the eyes of type checkers


def _run(
    self: ToolRegistry, prepared: PreparedCall, ctx: ToolContext | None = None
) -> Coroutine[Any, Any, ToolResult]:
    seam = _active()
    if seam is None:
        return _run_tool(self, prepared, ctx)
    return seam.tool(partial(_run_tool, self), prepared, ctx)


class _Hook(CallHook):
    """The hook around every call in the process, inside a hook that was set before."""

    def __init__(self, before: CallHook | None) -> None:
        self._before = before

    @override
    def listener(self, agent: str) -> EventSink:
        seam = _active()
        sinks = [
            None if seam is None else seam.opened(agent),
            None if self._before is None else self._before.listener(agent),
        ]
        return _Sinks([sink for sink in sinks if sink is not None])

    @override
    def model(
        self, llm: object, request: LlmRequest, reply: Coroutine[Any, Any, Any]
    ) -> Coroutine[Any, Any, Any]:
        seam = _active()
        answer = reply if seam is None else seam.model(llm, request, reply)
        return answer if self._before is None else self._before.model(llm, request, answer)

    @override
    def tool(
        self, call: ToolCall, description: str, result: Coroutine[Any, Any, Any]
    ) -> Coroutine[Any, Any, Any]:
        return result if self._before is None else self._before.tool(call, description, result)

    @override
    def responded(self, *, id: str, model: str) -> None:
        if self._before is not None:
            self._before.responded(id=id, model=model)

    @override
    def conversation(self, id: str) -> AbstractContextManager[None]:
        return nullcontext() if self._before is None else self._before.conversation(id)

    @override
    def workflow(self, run_id: str) -> Any:
        return nullcontext(_ignore) if self._before is None else self._before.workflow(run_id)

    @override
    def node(self, name: str, step: int) -> Any:
        return nullcontext(_ignore) if self._before is None else self._before.node(name, step)


class _Sinks:
    def __init__(self, sinks: list[EventSink]) -> None:
        self._sinks = sinks

    def emit(self, event: Event) -> None:
        for sink in self._sinks:
            sink.emit(event)


def _ignore(error: BaseException) -> None:
    del error
