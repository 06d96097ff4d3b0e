"""Reports of what happens in one graph of a run: events for its log, and calls of the observer."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Sequence
from typing import Any

from typing_extensions import override

from wesichain.core import Event, EventSink, StepFailed, ToolCompleted, ToolDispatched
from wesichain.core.internal import CheckpointSaved, NodeCompleted, NodeFailed, NodeStarted

from .narrate import RunLog
from .observer import Observer

_log = logging.getLogger("wesichain")
_METHODS = [name for name in vars(Observer) if name.startswith("on_")]


class RunReport:
    """Emits events to the log and calls the observer; neither can make the run fail.

    `has_listeners`: where nobody listens, nothing is reported. `is_awaited`: the observer is async, and
    nodes wait for it: what its methods return is `owed` until `settle`.
    """

    def __init__(self, log: RunLog, *, scope: str = "", observer: Observer | None = None) -> None:
        self.log = log
        self._scope = scope
        self._observer = observer
        self.owed: list[Awaitable[Any]] = []
        self.has_listeners = observer is not None or log.has_listeners
        self.is_awaited = observer is not None and any(
            inspect.iscoroutinefunction(getattr(observer, name, None)) for name in _METHODS
        )
        self._lock: asyncio.Lock | None = None
        self._tools: dict[str, str] = {}
        self._is_broken = False

    @property
    def is_observed(self) -> bool:
        return self._observer is not None

    # --- what happens ------------------------------------------------------------------------------

    def node_started(self, step: int, node: str, task: str, view: Any) -> None:
        self.log.emit(NodeStarted, self._scope, step, node, task_id=task)
        self._call("on_node_start", node, view)

    def node_completed(
        self, step: int, node: str, task: str, *, duration_ms: float, keys: tuple[str, ...], returned: Any
    ) -> None:
        self.log.emit(NodeCompleted, self._scope, step, node, duration_ms, keys, task_id=task)
        self._call("on_node_end", node, returned, duration_ms)

    def node_failed(self, step: int, node: str, task: str, error: BaseException) -> None:
        self.log.emit(NodeFailed, self._scope, step, node, type(error).__name__, str(error), task_id=task)
        self._call("on_error", node, error)

    def checkpoint_saved(self, step: int, checkpoint: str, nodes: Sequence[str]) -> None:
        self.log.emit(CheckpointSaved, self._scope, step, checkpoint)
        for node in dict.fromkeys(nodes):
            self._call("on_checkpoint_saved", node)

    def take(self, event: Event, node: str, scope: str, task: str) -> None:
        """Take an event of an agent that runs in a node."""
        if self.log.has_listeners:
            self.log.take(event, scope, node, task)
        if self.log.tap is not None:
            self.log.tap.receive(event, node, self._scope)
        self.observe(event, node)

    def observe(self, event: Event, node: str) -> None:
        """Call the observer for the tool calls of an agent."""
        if self._observer is None:
            return
        match event:
            case ToolDispatched(call=call):
                self._tools[call.id] = call.name
                self._call("on_tool_call", node, call.name, call.args)
            case ToolCompleted(tool_name=name, value=value):
                self._call("on_tool_result", node, name, value)
            case StepFailed(call_id=str(call_id), message=message) if call_id in self._tools:
                self._call("on_tool_result", node, self._tools[call_id], message)
            case _:
                pass

    # --- the observer ------------------------------------------------------------------------------

    def _call(self, method: str, *args: Any) -> None:
        if self._observer is None:
            return
        try:
            pending = getattr(self._observer, method)(*args)
        except Exception:  # noqa: BLE001  # an observer must never change the run
            self._complain()
        else:
            if pending is not None and hasattr(pending, "__await__"):
                self.owed.append(pending)

    async def settle(self) -> None:
        """Await what the methods of an async observer returned, in the order of the calls."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            while self.owed:
                try:
                    await self.owed[0]
                except Exception:  # noqa: BLE001  # likewise
                    self._complain()
                finally:
                    del self.owed[0]

    def _complain(self) -> None:
        if not self._is_broken:
            self._is_broken = True
            _log.exception("the observer %r failed; the run goes on without its report", self._observer)


class ScopedSink(EventSink):
    """The sink of an agent inside a node: its events join the report of the graph, under the node's scope."""

    __slots__ = ("_node", "_report", "_scope", "_task")

    def __init__(self, report: RunReport, scope: str, *, node: str = "", task: str = "") -> None:
        self._report = report
        self._scope = scope
        self._node = node
        self._task = task or node

    @override
    def emit(self, event: Event) -> None:
        self._report.take(event, self._node, self._scope, self._task)
