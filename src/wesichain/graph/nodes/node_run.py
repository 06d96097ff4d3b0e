"""One visit to a node: call it, wait within its time limit, retry it, and read the value it returned."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from random import random
from typing import Any, NamedTuple, TypeAlias

from wesichain.core import JsonValue
from wesichain.core.internal import GRACE, TEXT_LISTENER, CallHook, Mutable, around, field, replace
from wesichain.errors import GraphError, GraphTimeoutError, NodeFailedError
from wesichain.graph.checkpoints.thread_journal import OuterWrites
from wesichain.graph.context import IN_PLACE, GraphContext, TaskRecord
from wesichain.graph.definition import Node
from wesichain.graph.questions import CURRENT, Answered, Paused, TaskQuestions, paused_in
from wesichain.graph.state.kinds import is_list, is_mapping
from wesichain.graph.state.owned import clone
from wesichain.graph.state.schema import HIDDEN
from wesichain.graph.state.updates import NOTHING, NodeResult, NotAnUpdateError, StateUpdate, read_result
from wesichain.graph.superstep import Done, NodeTask, Position
from wesichain.tools.internal import in_thread

from .frame import Frame, within


class OuterUpdate(BaseException):  # not an Exception: no node between may catch it
    """Raised when a node of an inner graph updates an outer graph.

    `done` are the writes of the tasks of its super-step. `ended` are the values of the inner graph at that
    moment, and its writes to the outer graph.
    """

    def __init__(self, update: StateUpdate, before: NodeResult = NOTHING) -> None:
        super().__init__("an update for the outer graph")
        self.update = update
        self.before = before  # the node's writes to its own graph
        self.done: Sequence[Done] = ()
        self.ended: tuple[dict[str, Any], OuterWrites] = {}, OuterWrites()


Outcome: TypeAlias = NodeResult | Paused | OuterUpdate | GraphError

_NO_LIMITS = (None, None, None)
_LAST_MOMENT = 0.8 * GRACE  # seconds for a node in a thread to return after its run was cancelled


def _is_cancelled() -> bool:
    """Whether the current task was cancelled, rather than the node raising `CancelledError` itself."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _wake(waiter: asyncio.Future[None], _: asyncio.Future[Any]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _retrieve_exception(running: asyncio.Future[Any]) -> None:
    """Retrieve the exception of an abandoned thread call, so that asyncio does not log it."""
    if not running.cancelled():
        running.exception()


def close_coroutine(awaitable: object) -> None:
    """Close a coroutine that will never be awaited."""
    if inspect.iscoroutine(awaitable) and inspect.getcoroutinestate(awaitable) == inspect.CORO_CREATED:
        awaitable.close()


def _outcome_of_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Reduce an exception group to its questions, or to its errors if it contains any."""
    if (pause := paused_in(group)) is not None:
        return pause
    _, others = group.split((Paused, OuterUpdate))
    return group if others is None else others


class _Limit(NamedTuple):
    seconds: float
    late: GraphTimeoutError


class _ThreadCall:
    """A call of a node in a thread. If it is abandoned, it closes the coroutine that the node returns."""

    __slots__ = ("_asking", "_call", "_is_abandoned", "_returned")

    def __init__(self, call: Callable[[TaskQuestions], Any], asking: TaskQuestions) -> None:
        self._call = call
        self._asking = asking
        self._returned: Any = None
        self._is_abandoned = False

    def __call__(self) -> Any:
        returned = self._returned = self._call(self._asking)
        if self._is_abandoned:
            close_coroutine(returned)
        return returned

    def abandon(self, running: asyncio.Future[Any]) -> None:
        """Stop waiting for the call."""
        self._is_abandoned = True
        close_coroutine(self._returned)
        running.add_done_callback(_retrieve_exception)


class NodeRun(Mutable):
    """One run of one task. `is_alone`: nothing else on the event loop can wait while the node runs."""

    frame: Frame
    at: Position
    task: NodeTask
    node: Node
    answers: Mapping[str, Answered]
    done: Mapping[str, JsonValue]
    is_alone: bool
    _record: TaskRecord | None = field(init=False, default=None)
    _asked: TaskQuestions | None = field(init=False, default=None)  # of the last attempt
    _view: Any = field(init=False, default=None)
    _started: float = field(init=False, default=0.0)

    @property
    def is_plain(self) -> bool:
        """Whether the node can be called directly, without an asyncio task of its own."""
        node = self.node
        if around.hook is not None or node.is_async or self._has_thread or node.retry or node.on_error:
            return False
        return not self.frame.report.is_awaited

    @property
    def _has_thread(self) -> bool:
        """Whether the node is called in a thread: it is not async and could block the event loop."""
        node = self.node
        if node.is_async or node.blocking is False:
            return False
        if node.blocking or not self.is_alone:
            return True
        return self._is_bounded

    @property
    def is_in_place(self) -> bool:
        """Whether an async node that runs alone needs no asyncio task of its own."""
        return self.node.is_async and self.node.blocking is False and not self._is_bounded

    @property
    def _is_bounded(self) -> bool:
        frame = self.frame
        return (self.node.timeout, frame.options.node_timeout, frame.deadline) != _NO_LIMITS

    def run_plain(self) -> Outcome | Awaitable[Any]:
        """Run a plain task. If its function returns an awaitable, that is still to be awaited."""
        try:
            self._begin()
            returned = self._call(self._open_question())
            if returned.__class__ is not dict and inspect.isawaitable(returned):
                return returned
            return self._completed(returned)
        except (Paused, OuterUpdate) as bubble:
            return bubble
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # a failure is a value here
            return self._failed(error)

    def run(self, awaitable: Awaitable[Any] | None) -> Coroutine[Any, Any, Outcome]:
        """Run any task, or await what `run_plain` has started, inside the process-wide hook for nodes."""
        hook = around.hook
        return self._run(awaitable) if hook is None else self._run_in_hook(hook, awaitable)

    async def _run_in_hook(self, hook: CallHook, awaitable: Awaitable[Any] | None) -> Outcome:
        with hook.node(self.node.name, self.at.step) as failing:
            outcome = await self._run(awaitable)
            if isinstance(outcome, GraphError):
                failing(outcome.__cause__ or outcome)
            return outcome

    async def _run(self, awaitable: Awaitable[Any] | None = None) -> Outcome:
        """Run the node and return its outcome. Raises only when the task is cancelled."""
        report = self.frame.report
        try:
            if awaitable is None:
                self._begin()
            if report.owed:
                await report.settle()
            if report.log.tap is not None:
                TEXT_LISTENER.set(self._listener())  # in the context of this task only
            try:
                returned = await self._attempts(awaitable)
            except OuterUpdate as inner:
                returned = inner.update
            except BaseExceptionGroup as group:  # of a TaskGroup in the node
                raise _outcome_of_group(group) from group
            outcome: Outcome = self._completed(returned)
        except (Paused, OuterUpdate) as bubble:
            outcome = bubble
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            outcome = self._failed(error)
        if report.owed:
            await report.settle()
        return outcome

    # --- attempts ----------------------------------------------------------------------------------

    async def _attempts(self, awaitable: Awaitable[Any] | None) -> Any:
        """Call the node, with its retries; after the last failure, call its error handler."""
        node, failures = self.node, 0
        while True:
            try:
                return await self._attempt(awaitable)
            except Exception as error:
                failures += 1
                awaitable = None
                self._make_view()  # discards changes that this attempt made to its copy of the state
                retry = next((retry for retry in node.retry if retry.applies(error)), None)
                if retry is None or failures >= retry.attempts:
                    if node.on_error is None:
                        raise
                    return await self._handle(node.on_error, error)
                await self.frame.clock.sleep(retry.pause(failures, chance=random()))  # noqa: S311  # no secret

    async def _handle(self, on_error: Callable[..., Any], error: Exception) -> Any:
        """Call the node's error handler. Its questions are numbered after those of the node."""
        token = CURRENT.set(self._asked or self._open_question())
        try:
            handled = on_error(self._view, error)
            return await handled if inspect.isawaitable(handled) else handled
        finally:
            CURRENT.reset(token)

    async def _attempt(self, awaitable: Awaitable[Any] | None) -> Any:
        asking = self._asked = self._open_question()
        if awaitable is None and self._has_thread:
            returned = await self._call_in_thread(asking)
        else:
            returned = self._call(asking) if awaitable is None else awaitable
        if not inspect.isawaitable(returned):
            return returned
        token = CURRENT.set(asking)
        try:
            return await (self._bounded(returned) if self._is_bounded else returned)
        finally:
            CURRENT.reset(token)

    async def _call_in_thread(self, asking: TaskQuestions) -> Any:
        """Call the node in a thread, within its time limit. A late call is abandoned."""
        call, limit = _ThreadCall(self._call, asking), self._limit()
        running = in_thread(call)
        try:
            if limit is None:
                waiter: asyncio.Future[None] = running.get_loop().create_future()
                running.add_done_callback(partial(_wake, waiter))
                await waiter
            else:
                await asyncio.wait((running,), timeout=limit.seconds)
        except asyncio.CancelledError:
            # If it is about to finish, its result is kept, so that it need not run again.
            await asyncio.wait((running,), timeout=_LAST_MOMENT)
            if not running.done() or running.cancelled() or running.exception() is not None:
                call.abandon(running)
                raise
        if limit is not None and not running.done():
            call.abandon(running)
            raise limit.late
        return running.result()

    def _call(self, asking: TaskQuestions) -> Any:
        token, in_place = CURRENT.set(asking), IN_PLACE.set(not self.node.is_async)
        try:
            if not self.node.wants_context:
                return self.node.call(self._view)
            return self.node.call(self._view, self._context())
        finally:
            IN_PLACE.reset(in_place)
            CURRENT.reset(token)

    def _listener(self) -> Callable[[str], None] | None:
        """The function that receives the text of models that the node calls; agents stream their own."""
        log = self.frame.report.log
        if log.tap is None or not log.tap.wants("messages") or self.node.is_agent:
            return None
        return partial(log.give, "messages", self.node.name, self.frame.scope)

    def _context(self) -> GraphContext:
        """The context of the node. All attempts share one record."""
        frame, node, journal = self.frame, self.node, self.frame.journal
        if self._record is None and (journal is not None or node.retry):
            self._record = TaskRecord(journal, self.task, dict(self.done), frame.unfinished)
        return frame.context_of(node.name, self.at.step, self.task.id, self._record)

    def _limit(self) -> _Limit | None:
        """The node's own limit. The performer of the super-step enforces that of the run."""
        node = self.node
        seconds = node.timeout if node.timeout is not None else self.frame.options.node_timeout
        if seconds is None:
            return None
        late = GraphTimeoutError(f"node {node.name!r} did not finish within {seconds} s", node=node.name)
        return _Limit(seconds, late)

    async def _bounded(self, returned: Awaitable[Any]) -> Any:
        """Await a node within its time limit."""
        limit = self._limit()
        return await (returned if limit is None else within(returned, limit.seconds, limit.late))

    def _open_question(self) -> TaskQuestions:
        return TaskQuestions(self.frame, self.at.step, self.task, self.answers, self.is_alone)

    # --- before and after --------------------------------------------------------------------------

    def _begin(self) -> None:
        frame = self.frame
        self._make_view()
        if frame.report.has_listeners:
            frame.report.node_started(self.at.step, self.node.name, self.task.id, self._view)
        self._started = frame.clock.monotonic()

    def _make_view(self) -> None:
        task = self.task
        self._view = clone(task.payload) if task.is_sent else self.node.schema.view(self.at.values)

    def _completed(self, returned: Any) -> NodeResult:
        result = self._read(returned)
        report = self.frame.report
        if report.log.tap is not None:
            self._emit_update(result)
        if report.has_listeners:
            keys = tuple(dict.fromkeys(name for name, _ in result.writes))
            report.node_completed(
                self.at.step,
                self.node.name,
                self.task.id,
                duration_ms=(self.frame.clock.monotonic() - self._started) * 1000,
                keys=keys,
                returned=returned,
            )
        return result

    def _emit_update(self, result: NodeResult) -> None:
        """Emit the writes of the node in the mode "updates"; several writes to a key as a list."""
        frame = self.frame
        if frame.log.is_asked("updates"):
            written: dict[str, list[Any]] = {}
            for name, value in result.writes:
                if not name.startswith(HIDDEN):
                    written.setdefault(name, []).append(clone(value))
            shown = {name: values[0] if len(values) == 1 else values for name, values in written.items()}
            frame.log.give("updates", self.node.name, frame.scope, shown)

    def _read(self, returned: Any) -> NodeResult:
        if returned.__class__ is not dict:
            *others, last = returned if is_list(returned) and returned else (returned,)
            if isinstance(last, StateUpdate) and last.up > 0:
                if not self.frame.is_inner:
                    raise NotAnUpdateError(f"it returned up={last.up}, but this graph has no outer graph")
                raise OuterUpdate(replace(last, up=last.up - 1), self._read(others))
        schema, values = self.frame.definition.schema, self.at.values
        if not self.task.is_sent:
            return read_result(schema, returned, view=self._view, values=values)
        payload = self.task.payload
        is_state = schema.holds(payload) or is_mapping(payload)
        before: Mapping[str, Any] = schema.contents(payload) if is_state else {}
        return read_result(schema, returned, view=None, values=values, before=before)

    def _failed(self, error: BaseException) -> GraphError:
        name = self.node.name
        if isinstance(error, GraphError):
            failure = error
            failure.node = failure.node or name
        else:
            what = (
                str(error)
                if isinstance(error, NotAnUpdateError)
                else f"raised {type(error).__name__}: {error}"
            )
            failure = NodeFailedError(f"node {name!r}: {what}", node=name)
            failure.__cause__ = error
        if self.frame.report.has_listeners:
            self.frame.report.node_failed(self.at.step, name, self.task.id, failure)
        return failure
