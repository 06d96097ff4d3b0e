"""Listening to an agent inside a node: its events join what the graph reports."""

from __future__ import annotations

from wesichain.core import Event
from wesichain.graph.context import GraphContext
from wesichain.graph.watch import RunLog, RunReport, ScopedSink
from wesichain.tools import ToolContext


class Listener:
    """Takes the events of one run. Where no graph is around, an observer is told of its tools here."""

    def __init__(self, ctx: GraphContext) -> None:
        self._ctx = ctx
        self._report: RunReport | None = None
        if ctx.observer is not None and not isinstance(ctx.events, ScopedSink):
            self._report = RunReport(RunLog(ctx.run_id, clock=ctx.clock), observer=ctx.observer)

    def context(self) -> ToolContext | None:
        """The tool context that makes a run report here; None where nobody listens."""
        if self._ctx.events is None and self._report is None:
            return None
        return ToolContext(correlation_id=self._ctx.run_id, emit=self.hear)

    def hear(self, event: Event) -> None:
        if self._ctx.events is not None:
            self._ctx.events.emit(event)
        if self._report is not None:
            self._report.observe(event, self._ctx.node)

    async def settle(self) -> None:
        """Wait for an observer that is async; where a graph is around, its visit does."""
        if self._report is not None:
            await self._report.settle()
