"""Listening to an agent inside a node: its events join the graph's log, its tool calls reach the observer."""

from __future__ import annotations

import asyncio
from typing import Any

from wesichain.core import Event, StepFailed, ToolCompleted, ToolDispatched
from wesichain.graph.context import GraphContext
from wesichain.graph.watch import Watcher
from wesichain.tools import ToolContext


class Listener:
    """Takes the events of one run. `settle` waits for an observer that is async."""

    def __init__(self, ctx: GraphContext) -> None:
        self._ctx = ctx
        self._watcher = None if ctx.observer is None else Watcher(ctx.observer)
        self._tools: dict[str, str] = {}
        self._pending: list[asyncio.Future[Any]] = []

    def context(self) -> ToolContext | None:
        """What makes a run report here; None where nobody listens."""
        if self._ctx.events is None and self._watcher is None:
            return None
        return ToolContext(correlation_id=self._ctx.run_id, emit=self.hear)

    def hear(self, event: Event) -> None:
        if self._ctx.events is not None:
            self._ctx.events.emit(event)
        if self._watcher is not None:
            self._observe(event)

    def _observe(self, event: Event) -> None:
        match event:
            case ToolDispatched(call=call):
                self._tools[call.id] = call.name
                self._tell("on_tool_call", call.name, call.args)
            case ToolCompleted(tool_name=name, value=value):
                self._tell("on_tool_result", name, value)
            case StepFailed(call_id=str(call_id), message=message) if call_id in self._tools:
                self._tell("on_tool_result", self._tools[call_id], message)
            case _:
                pass

    def _tell(self, what: str, *args: Any) -> None:
        assert self._watcher is not None, "asked for before"
        self._pending.append(asyncio.ensure_future(self._watcher.tell(what, self._ctx.node, *args)))

    async def settle(self) -> None:
        if self._pending:
            await asyncio.wait(self._pending)
