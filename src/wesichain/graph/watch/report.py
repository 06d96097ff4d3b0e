"""Reports of a run: its event log, and for each of its graphs the calls of the observer."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from typing_extensions import override

from wesichain.core import Event, EventSink, StepFailed, ToolCompleted, ToolDispatched
from wesichain.core.internal import CheckpointSaved, Clock, NodeCompleted, NodeFailed, NodeStarted, replace
from wesichain.trace import Redactor

from .observer import Observer
from .stream import Mode, Tap

_log = logging.getLogger("wesichain")
_METHODS = [name for name in vars(Observer) if name.startswith("on_")]


class RunReport:
    """Emits events to the log and calls the observer; neither can make the run fail.

    Without listeners (`has_listeners`), nothing is reported. `is_awaited`: the observer is async, and nodes
    wait for it: the awaitables that its methods return are `owed` until `settle`.
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

    # --- events ------------------------------------------------------------------------------------

    def node_started(self, step: int, node: str, task: str, view: Any) -> None:
        self.log.emit(NodeStarted, self._scope, step, node=node, task_id=task)
        self._call("on_node_start", node, view)

    def node_completed(
        self, step: int, node: str, task: str, *, duration_ms: float, keys: tuple[str, ...], returned: Any
    ) -> None:
        about = {"node": node, "task_id": task}
        self.log.emit(NodeCompleted, self._scope, step, duration_ms, keys, **about)
        self._call("on_node_end", node, returned, duration_ms)

    def node_failed(self, step: int, node: str, task: str, error: BaseException) -> None:
        about = {"node": node, "task_id": task}
        self.log.emit(NodeFailed, self._scope, step, type(error).__name__, str(error), **about)
        self._call("on_error", node, error)

    def checkpoint_saved(self, step: int, checkpoint: str, nodes: Sequence[str]) -> None:
        self.log.emit(CheckpointSaved, self._scope, step, checkpoint)
        for node in dict.fromkeys(nodes):
            self._call("on_checkpoint_saved", node)

    def take(self, event: Event, node: str, scope: str, task: str) -> None:
        """Add an event of an agent that runs in a node."""
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
            self._log_exception()
        else:
            if pending is not None and hasattr(pending, "__await__"):
                self.owed.append(pending)

    async def settle(self) -> None:
        """Await the calls of an async observer, in order."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            while self.owed:
                try:
                    await self.owed[0]
                except Exception:  # noqa: BLE001  # an observer must never change the run
                    self._log_exception()
                finally:
                    del self.owed[0]

    def _log_exception(self) -> None:
        if not self._is_broken:
            self._is_broken = True
            _log.exception("the observer %r failed; the run continues", self._observer)


class ScopedSink(EventSink):
    """The sink of an agent inside a node: adds its events to the graph's report, under the node's scope."""

    __slots__ = ("_node", "_report", "_scope", "_task")

    def __init__(self, report: RunReport, scope: str, *, node: str = "", task: str = "") -> None:
        self._report = report
        self._scope = scope
        self._node = node
        self._task = task or node

    @override
    def emit(self, event: Event) -> None:
        self._report.take(event, self._node, self._scope, self._task)


# --- the log of a run -------------------------------------------------------------------------------


class RunLog:
    """The event log of a run, with one run id and sequence for a graph, its subgraphs and its agents."""

    def __init__(
        self,
        run_id: str,
        *,
        clock: Clock,
        sinks: Iterable[EventSink] = (),
        tap: Tap | None = None,
        last_seq: int = 0,
    ) -> None:
        self.run_id = run_id
        self.tap = tap
        self._clock = clock
        has_ending = tap is not None and (tap.wants("events") or tap.wants("messages"))
        self._sinks = (*sinks, tap) if tap is not None and has_ending else tuple(sinks)
        self.has_listeners = bool(self._sinks)  # without listeners, no events are created
        self._redactor = Redactor() if self._sinks else None
        self.last_seq = last_seq
        self._broken: set[int] = set()

    def is_asked(self, mode: Mode) -> bool:
        """Whether the run is streamed with this mode."""
        return self.tap is not None and self.tap.wants(mode)

    def give(self, mode: Mode, node: str, subgraph: str, data: Any) -> None:
        """Send an item to the stream of the run, if it has this mode."""
        if self.tap is not None and self.tap.wants(mode):
            self.tap.give(mode, node, subgraph, data)

    def take(self, event: Event, scope: str, node: str, task: str) -> None:
        """Add an event of an inner run to this log, with the node and task that it runs in."""
        inner = f"{scope}/{event.scope}" if scope and event.scope else scope or event.scope
        node, task = event.node or node, event.task_id or task
        seq = self._next()
        self._emit(replace(event, run_id=self.run_id, seq=seq, scope=inner, node=node, task_id=task))

    def emit(self, kind: Callable[..., Event], scope: str, step: int, *fields: Any, **more: Any) -> None:
        """Emit an event of this run, if there are listeners."""
        if self.has_listeners:
            self._emit(
                kind(self.run_id, step, self._next(), self._clock.time(), *fields, scope=scope, **more)
            )

    def _next(self) -> int:
        self.last_seq += 1
        return self.last_seq

    def _emit(self, event: Event) -> None:
        if self._redactor is not None:
            event = self._redactor.event(event)
        for index, sink in enumerate(self._sinks):
            try:
                sink.emit(event)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001  # a sink must never change the run
                if index not in self._broken:
                    self._broken.add(index)
                    _log.exception("the event sink %r failed; the run continues", sink)
