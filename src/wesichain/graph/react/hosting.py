"""Hosting an agent's run inside a node: its instructions, the time it has, and an ear for its events."""

from __future__ import annotations

from typing import Any

from wesichain.core import Event, PromptTemplate
from wesichain.graph.context import GraphContext
from wesichain.graph.state import is_mapping
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
        """The tool context that makes a run report here, and spend from the graph's account."""
        is_heard = self._ctx.events is not None or self._report is not None
        if not is_heard and self._ctx.account is None:
            return None
        emit = self.hear if is_heard else None
        return ToolContext(correlation_id=self._ctx.run_id, emit=emit, budget=self._ctx.account)

    def hear(self, event: Event) -> None:
        if self._ctx.events is not None:
            self._ctx.events.emit(event)
        if self._report is not None:
            self._report.observe(event, self._ctx.node)

    async def settle(self) -> None:
        """Wait for an observer that is async; where a graph is around, its visit does."""
        if self._report is not None:
            await self._report.settle()


def instructions(prompt: str | PromptTemplate | None, state: Any) -> str | None:
    """The prompt as a text; a template's placeholders are filled from the state."""
    if not isinstance(prompt, PromptTemplate):
        return prompt
    if is_mapping(state):
        return prompt.render(**{name: state[name] for name in prompt.variables if name in state})
    return prompt.render(**{name: getattr(state, name) for name in prompt.variables if hasattr(state, name)})


def seconds_left(ctx: GraphContext) -> float | None:
    return None if ctx.deadline is None else max(0.0, ctx.deadline - ctx.clock.monotonic())
