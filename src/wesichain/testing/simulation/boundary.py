"""The boundaries of a simulated run: every model call and tool call, at any depth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from types import coroutine
from typing import Any, NamedTuple

from typing_extensions import override

from wesichain.core import Event, EventSink, LlmRequest, LlmResponse, ToolCall
from wesichain.core.internal import CancellationToken, replace, running_loop
from wesichain.errors import LlmTransportError, ToolExecutionError, ToolTimeoutError
from wesichain.testing.seams import RunTool, Seam
from wesichain.tools import Tool, ToolContext, ToolResult
from wesichain.tools.internal import PreparedCall

from .faults import FaultPlan
from .loop import OWNER, Owner, VirtualLoop
from .scenario import Effect

_DIED = "the process died"
_MODEL = ("model_errs", "model_cut", "model_malformed")


class Process(Owner):
    """One simulated process. Its code stops when it dies.

    After its death (`is_dying`) the code of tools no longer runs. The runtime still runs until the stored
    state is read (`is_dead`), so that it can write its state.
    """

    def __init__(self, number: int) -> None:
        self.process = self
        self.number = number
        self.token = CancellationToken()
        self.task: asyncio.Task[Any] | None = None  # cancelled for a run without a token
        self.death: asyncio.Future[None] | None = None
        self.is_dying = False
        self.is_dead = False

    @property
    @override
    def is_frozen(self) -> bool:
        return self.is_dead

    def dies_at_once(self) -> asyncio.Future[None]:
        """Stop the runtime too when the process dies, and return a future for its death."""
        if self.death is None:
            self.death = asyncio.get_running_loop().create_future()
        return self.death

    def die(self) -> None:
        self.is_dying = True
        self.token.cancel(_DIED)
        if self.death is not None:
            self.is_dead = True
            self.death.set_result(None)

    def cancel(self) -> None:
        """Cancel the run, as a user does."""
        self.token.cancel("cancelled by the user")
        if self.task is not None:
            self.task.cancel()


class CallOwner(Owner):
    """One call of a tool, which owns all that its code starts. `has_runs`: agents have run inside it."""

    def __init__(self, process: Process, path: str, above: CallOwner | None) -> None:
        self.process: Process = process
        self.path = path
        self.has_runs = False
        self._above = above

    @property
    @override
    def is_frozen(self) -> bool:
        return self.process.is_dead or (self.process.is_dying and not self.has_runs)

    def note_run(self) -> None:
        self.has_runs = True
        if self._above is not None:
            self._above.note_run()


class _Call(NamedTuple):
    """A call whose code is running: the name of its boundary, its tool, and its start time."""

    place: str
    tool: Tool
    started: float


class Boundary(Seam):
    """Delays calls, injects the planned faults, and records the effects of tools."""

    def __init__(self, loop: VirtualLoop, plan: FaultPlan) -> None:
        self._loop = loop
        self._plan = plan
        self._left: list[Coroutine[Any, Any, Any]] = []  # tool code of dead processes
        self.effects: list[Effect] = []
        self._with_runs: set[str] = set()  # the paths of calls inside which agents ran, in any process
        self._again: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for code in self._left:
            with suppress(BaseException):  # user code of a dead process
                code.close()

    # --- events --------------------------------------------------------------------------------------

    def sink(self, process: Process, keep: Callable[[Event], None]) -> EventSink:
        """The sink for the events of one process, which may crash or be cancelled at each event."""
        return _Sink(self, process, keep)

    def event(self, process: Process, event: Event) -> None:
        is_end = event.kind in _ENDS and not event.scope
        if not is_end:
            self._stops_at(process, self._plan.visit(_place_of(event)), ("crash", "cancel"))

    def database_call(self, moment: str) -> None:
        """Let the process crash before or after (`moment`) a database call, if the plan says so."""
        owner = OWNER.get()
        if isinstance(owner, Process):
            self.crash_here(owner, f"{self._plan.visit(f'{moment} a database call')}")

    def crash_here(self, process: Process, place: str) -> bool:
        """Let the process crash at this place if the plan says so; returns whether it does."""
        return self._stops_at(process, place, ("crash",)) == "crash"

    def _stops_at(self, process: Process, place: str, kinds: Sequence[str]) -> str | None:
        """Crash the process or cancel its run at this place, if the plan says so."""
        if process.is_dying or process.token.cancelled:
            return None
        kind = self._plan.at(place, kinds)
        if kind == "crash":
            process.die()
        elif kind == "cancel":
            process.cancel()
        return kind

    # --- the runs of this simulation -----------------------------------------------------------------

    @override
    def is_active(self) -> bool:
        return running_loop() is self._loop

    @override
    def opened(self, agent: str) -> None:
        owner = OWNER.get()
        if isinstance(owner, CallOwner):
            owner.note_run()
            self._with_runs.add(owner.path)

    # --- the model -----------------------------------------------------------------------------------

    @override
    async def model(self, llm: object, request: LlmRequest, reply: Coroutine[Any, Any, Any]) -> Any:
        owner = OWNER.get()
        path = owner.path if isinstance(owner, CallOwner) else "top"
        place = self._plan.visit(f"model call of {path}")
        kind = self._plan.at(place, _MODEL)
        try:
            await asyncio.sleep(self._plan.number(place, low=0.2, high=4.0))
        except BaseException:
            reply.close()
            raise
        if kind == "model_errs":
            reply.close()
            raise LlmTransportError("simulated: the provider closed the connection", retryable=True)
        answer: Any = await self._steps(reply, owner, None)
        if kind is None or not isinstance(answer, LlmResponse):
            return answer
        return _cut(answer) if kind == "model_cut" else _malformed(answer)

    # --- tools ---------------------------------------------------------------------------------------

    @override
    async def tool(self, run: RunTool, prepared: PreparedCall, ctx: ToolContext | None) -> ToolResult:
        above, call = OWNER.get(), prepared.call
        if isinstance(above, CallOwner):
            owner = CallOwner(above.process, f"{above.path}/{call.id}", above)
        else:
            assert isinstance(above, Process), "a simulated run belongs to a process"
            owner = CallOwner(above, call.id, None)
        place = self._plan.visit(f"tool {call.name} {owner.path}")
        started = self._loop.time()
        kind = self._plan.at(place, _kinds_for(prepared))
        await asyncio.sleep(self._plan.number(place, "begins", low=0.0, high=0.2))
        if kind == "tool_raises":
            error = ToolExecutionError(
                f"tool {call.name!r} failed: ConnectionError: simulated: the connection was reset",
                tool_name=call.name,
                call_id=call.id,
            )
            error.__cause__ = ConnectionError("simulated: the connection was reset")
            return ToolResult(call.id, call.name, None, error, self._since(started))
        if kind == "tool_hangs":
            return await self._timed_out(prepared, started)
        result = await self._execute(run(prepared, ctx), owner, prepared, ctx, place)
        if kind == "tool_late" and result.error is None:
            return await self._timed_out(prepared, started)
        await asyncio.sleep(self._plan.number(place, "ends", low=0.0, high=1.0))
        # A process that resumes may reuse these runs, and then none of them starts again.
        if kind == "tool_twice" and owner.path not in self._with_runs:
            again = self._deliver_again(run, prepared, _detached(ctx), owner, place)
            task = self._loop.create_task(again)
            self._again.add(task)
            task.add_done_callback(self._again.discard)
        return replace(result, duration_ms=self._since(started))

    async def _deliver_again(
        self, run: RunTool, prepared: PreparedCall, ctx: ToolContext | None, owner: CallOwner, place: str
    ) -> None:
        await asyncio.sleep(self._plan.number(place, "again", low=0.0, high=5.0))
        await self._execute(run(prepared, ctx), owner, prepared, ctx, f"{place}, delivered again")

    async def _execute(
        self,
        code: Coroutine[Any, Any, ToolResult],
        owner: CallOwner,
        prepared: PreparedCall,
        ctx: ToolContext | None,
        place: str,
    ) -> ToolResult:
        """Run the tool's code; the process may crash whenever it waits, and when it has ended."""
        index, at = len(self.effects), self._loop.clock.time()
        self.effects.append(_effect(owner, prepared.call, ctx, at))
        result: ToolResult = await self._steps(code, owner, _Call(place, prepared.tool, self._loop.time()))
        ended = "returned" if result.error is None else "raised"
        self.effects[index] = replace(self.effects[index], ended=ended)
        if self.crash_here(owner.process, f"{place}, after its work"):
            await self._loop.create_future()  # the result never leaves the process
        return result

    @coroutine
    def _steps(self, code: Any, owner: Owner | None, call: _Call | None) -> Generator[Any, Any, Any]:
        """Run a coroutine step by step for its owner; a coroutine of a dead process takes no more steps."""
        value: Any = None
        error: BaseException | None = None
        waits = 0
        while True:
            if owner is not None and _is_stopped(owner):
                self._left.append(code)
                raise asyncio.CancelledError
            token = OWNER.set(owner)
            try:
                yielded = code.send(value) if error is None else code.throw(error)
            except StopIteration as end:
                return end.value
            finally:
                OWNER.reset(token)
            waits += 1
            kind: str | None = None
            if call is not None and isinstance(owner, CallOwner):
                kind = self._at_wait(owner, call, waits)
            value, error = None, None
            try:
                value = yield yielded
                if kind == "tool_hangs" and call is not None:  # until after its timeout
                    until = call.started + call.tool.timeout + _AFTER
                    yield from asyncio.sleep(max(0.0, until - self._loop.time())).__await__()
            except BaseException as caught:  # noqa: BLE001  # passed on to the code
                error = caught

    def _at_wait(self, owner: CallOwner, call: _Call, waits: int) -> str | None:
        """The fault at the n-th wait of a tool's code."""
        place = f"{call.place}, wait {waits}"
        kind = self._stops_at(owner.process, place, ("crash", "cancel"))
        can_hang = not (owner.has_runs or call.tool.is_agent or call.tool.timeout > _LONGEST)
        if kind is None and can_hang and not owner.process.token.cancelled:
            kind = self._plan.at(place, ("tool_hangs",))
        return kind

    async def _timed_out(self, prepared: PreparedCall, started: float) -> ToolResult:
        tool, call = prepared.tool, prepared.call
        await asyncio.sleep(max(0.0, started + tool.timeout - self._loop.time()))
        message = f"tool {call.name!r} did not finish within {tool.timeout:g} s and was stopped"
        error = ToolTimeoutError(message, seconds=tool.timeout, tool_name=call.name, call_id=call.id)
        return ToolResult(call.id, call.name, None, error, self._since(started))

    def _since(self, started: float) -> float:
        return round((self._loop.time() - started) * 1000, 3)


_ENDS = ("run_completed", "run_failed", "run_interrupted")
_LONGEST = 40 * 86_400.0  # seconds; a longer timeout counts as none
_AFTER = 0.1  # seconds after its timeout when a hanging tool continues, so that it can clean up


def _effect(owner: CallOwner, call: ToolCall, ctx: ToolContext | None, at: float) -> Effect:
    """The effect of code that has started and not yet ended."""
    key, attempt = ("", 1) if ctx is None else (ctx.idempotency_key, ctx.attempt)
    number = owner.process.number
    return Effect(call.name, call.args, key or owner.path, call.id, attempt, number, at, "cut")


def _place_of(event: Event) -> str:
    """The name of an event as a place, without its sequence number.

    Removing a fault while shrinking changes the numbers of all later events, but few of these names.
    """
    about = getattr(event, "call_id", None) or getattr(event, "task_id", None)
    return " ".join(filter(None, ("event", event.kind, "/".join(filter(None, (event.scope, about))))))


def _is_stopped(owner: Owner) -> bool:
    """Whether the code of an owner takes no more steps."""
    return owner.is_dying if isinstance(owner, Process) else owner.is_frozen


def _kinds_for(prepared: PreparedCall) -> tuple[str, ...]:
    """The faults that can happen to a call. An agent is not a boundary; its model and tool calls are."""
    tool = prepared.tool
    if tool.is_agent:
        return ()
    timed = () if tool.timeout > _LONGEST else ("tool_hangs", "tool_late")
    return ("tool_raises", *timed, *(() if tool.effect == "once" else ("tool_twice",)))


def _detached(ctx: ToolContext | None) -> ToolContext | None:
    """The context of a second delivery: the same call and key, but not linked to the run."""
    if ctx is None:
        return None
    return ToolContext(
        ctx.correlation_id,
        ctx.step_id,
        idempotency_key=ctx.idempotency_key,
        deps=ctx.deps,
        agent=ctx.agent,
        scope=ctx.scope,
        call_id=ctx.call_id,
        attempt=ctx.attempt,
    )


def _cut(reply: LlmResponse) -> LlmResponse:
    return replace(
        reply, content=reply.content[: len(reply.content) // 2], tool_calls=(), finish_reason="length"
    )


def _malformed(reply: LlmResponse) -> LlmResponse:
    if not reply.tool_calls:
        return replace(reply, content="")
    first, *rest = reply.tool_calls
    return replace(reply, tool_calls=(replace(first, args='{"simulated": '), *rest))


class _Sink:
    __slots__ = ("_boundary", "_keep", "_process")

    def __init__(self, boundary: Boundary, process: Process, keep: Callable[[Event], None]) -> None:
        self._boundary = boundary
        self._process = process
        self._keep = keep

    def emit(self, event: Event) -> None:
        self._keep(event)
        self._boundary.event(self._process, event)
