"""Plain runs: runs of an `Agent` in this process, kept with their events for a limited time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from starlette.exceptions import HTTPException
from typing_extensions import override

from wesichain.agent import Agent, Interrupted, Outcome, RunStream
from wesichain.core import Event, EventSink, Message
from wesichain.core.internal import Decision, Prices, replace
from wesichain.errors import (
    ConfigError,
    DuplicateToolError,
    RunFailedError,
    RunInterruptedError,
    ToolDefinitionError,
    WesichainError,
)
from wesichain.tools import CancellationToken

from .event_log import EventLog
from .kept_runs import KeptRuns
from .limits import Limits
from .outgoing import OutgoingEvents
from .runs import (
    Begin,
    ConversationDirectory,
    CostMeter,
    DepsMaker,
    Inbox,
    Order,
    Run,
    RunEnd,
    RunRegistry,
    error_text,
    history_of,
    missing_decisions,
    status_of,
)

_log = logging.getLogger("wesichain.edge")


class PlainRun(Run):
    """A run in this process. It is cancelled when its last client disconnects, unless `stay` is true."""

    def __init__(self, agent: Agent[Any], order: Order, conversation: Any, *, registry: PlainRuns) -> None:
        limits = registry.limits
        self.order = order
        self.run_id = order.run_id
        self.conversation = order.conversation
        self.log = EventLog(most=limits.tail, patience=limits.write_seconds)
        self._agent = agent
        self._conversation = conversation
        self._registry = registry
        self._meter = CostMeter(registry.prices)
        self.is_running = False
        self._clients = 0
        self._token = CancellationToken()
        self._task: asyncio.Task[None] | None = None
        self._ending: RunEnd | None = None
        self._problem: HTTPException | None = None

    @property
    def owner(self) -> str:
        return self.order.owner

    @property
    def size(self) -> int:
        """The bytes of its events, about."""
        return self.log.size

    @property
    def is_waiting(self) -> bool:
        return self._ending is not None and self._ending.state == "waiting"

    @property
    def interrupted(self) -> Interrupted[Any] | None:
        """The outcome of an interrupted run; None for any other run."""
        outcome = None if self._ending is None else self._ending.outcome
        return outcome if isinstance(outcome, Interrupted) else None

    async def begin(self, history: Sequence[Message]) -> None:
        """Start the run, and wait for its first event; raises HTTPException if there is none."""
        order = self.order

        def begin(options: dict[str, Any]) -> RunStream[Any]:
            return self._agent.stream(order.task, history, **options)

        await self._work(order.begin or begin, order.options, is_streamed=order.is_streamed)

    @override
    async def decide(
        self, decisions: Mapping[str, Decision], options: Mapping[str, Any], *, is_streamed: bool
    ) -> None:
        ending, outcome = self._ending, self.interrupted
        wrong = missing_decisions(() if ending is None else ending.pending, decisions)
        if outcome is None or wrong is not None:
            raise HTTPException(409, wrong)
        self._registry.check_room()
        self._claim(decisions)
        given = {**self.order.options, **options}
        try:
            await self._work(
                lambda more: self._agent.stream(outcome, decisions=decisions, **more),
                given,
                is_streamed=is_streamed,
            )
        except HTTPException:
            self._ending = ending  # the run still waits
            self._registry.ended(self)
            raise

    @override
    async def cancel(self) -> None:
        if self.is_running:
            await self.stop("cancelled by the client")
        elif self.is_waiting:
            self.drop()
        else:
            raise HTTPException(409, "the run has ended")

    async def stop(self, reason: str) -> None:
        """Cancel an active run, and wait for its end."""
        self._token.cancel(reason)
        if self._task is not None:
            await asyncio.wait([self._task])

    def drop(self) -> None:
        """Cancel a waiting run: its tokens are not accepted any more."""
        assert self._ending is not None
        self._ending = replace(self._ending, is_dropped=True)
        if self._registry.inbox is not None:
            with suppress(ConfigError):  # another program has removed it
                self._registry.inbox.take(self.run_id)
        self._registry.ended(self)

    @override
    def join(self) -> None:
        self._clients += 1

    @override
    def leave(self) -> None:
        self._clients -= 1
        if not self._clients and self.is_running and not self.order.stay:
            self._token.cancel("the client left")

    @override
    def follow(self, after: int) -> AsyncIterator[Sequence[Event]]:
        return self.log.follow(after)

    @override
    def number(self, event: Event) -> int | None:
        return event.seq

    @override
    async def ending(self) -> RunEnd:
        if self._task is not None and not self._task.done():  # a finished task may belong to another loop
            await asyncio.wait([self._task])
        if self._ending is None:
            raise self._refusal()
        return self._ending

    @override
    async def now(self) -> RunEnd | None:
        return None if self.is_running else await self.ending()

    # --- inside --------------------------------------------------------------------------------------

    def _claim(self, decisions: Mapping[str, Decision]) -> None:
        if self._registry.inbox is not None:
            try:
                self._registry.inbox.claim(self.run_id, decisions)
            except ConfigError as error:
                raise HTTPException(409, str(error)) from None

    async def _work(self, begin: Begin, given: Mapping[str, Any], *, is_streamed: bool) -> None:
        token = self._token = CancellationToken()
        options: dict[str, Any] = {**given, "cancellation": token, "run_id": self.run_id}
        options["events"] = self._registry.sinks
        if self._conversation is not None:
            options["conversation"] = self._conversation
        self._ending = self._problem = None
        self.is_running = True
        self._registry.running(self)
        self.log.open(for_reader=is_streamed)
        began = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._execute(begin, options, token, began))
        if not await asyncio.shield(began):
            await asyncio.wait([self._task])
            raise self._refusal()

    def _refusal(self) -> HTTPException:
        return self._problem or HTTPException(500, "the run did not begin")

    async def _execute(
        self,
        begin: Begin,
        options: dict[str, Any],
        token: CancellationToken,
        began: asyncio.Future[bool],
    ) -> None:
        """Run to the end or the next interruption, and add the events to the log."""
        timeout = asyncio.get_running_loop().call_later(
            self._registry.limits.run_seconds, token.cancel, "the run has reached the limit of run_seconds"
        )
        outcome: Outcome[Any] | None = None
        outgoing = OutgoingEvents()
        try:
            async with self._with_deps(options), begin(options) as run:
                async for event in run:
                    self._meter.add(event)
                    for one in outgoing.release(event):
                        await self.log.append(one)
                    if not began.done():
                        began.set_result(True)
            outcome = run.outcome
            _ = run.result  # raises errors outside the run itself
        except (RunFailedError, RunInterruptedError) as error:
            outcome = error.outcome
        except HTTPException as error:  # of the function that makes its deps
            self._problem = error
        except WesichainError as error:
            _log.warning("the run %s was refused: %s", self.run_id, error)
            self._problem = HTTPException(status_of(error), error_text(error))
        except Exception:  # noqa: BLE001  # a bug of ours or of the agent must not end the service
            _log.exception("the run %s failed unexpectedly", self.run_id)
            self._problem = HTTPException(500, "something went wrong; the server's log says what")
        finally:
            timeout.cancel()
            for one in outgoing.flush():
                await self.log.append(one)
            if outcome is not None:
                self._ending = RunEnd(outcome, self._meter.cost(outcome))
            self.is_running = False
            if not began.done():
                began.set_result(False)
            self._registry.ended(self)
            self.log.close()

    @asynccontextmanager
    async def _with_deps(self, options: dict[str, Any]) -> AsyncGenerator[None]:
        """Open the deps of the run, for the block."""
        async with AsyncExitStack() as stack:
            maker = options.get("deps")
            if isinstance(maker, DepsMaker):
                try:
                    options["deps"] = await stack.enter_async_context(maker.open())
                except HTTPException:
                    raise
                except Exception:  # noqa: BLE001  # of a function of the user; its text may contain secrets
                    _log.exception("the deps of the run %s could not be made", self.run_id)
                    raise HTTPException(500, "the service could not prepare this request") from None
            yield


class PlainRuns(RunRegistry):
    """The plain runs of one agent: active, waiting, and recently ended ones."""

    def __init__(
        self,
        agent: Agent[Any],
        conversations: ConversationDirectory,
        *,
        limits: Limits,
        prices: Prices | None,
        sinks: Sequence[EventSink] = (),
        inbox: Inbox | None = None,
    ) -> None:
        self.limits = limits
        self.prices = prices
        self.sinks = sinks
        self.inbox = inbox
        self._agent = agent
        self._conversations = conversations
        self._running: dict[str, PlainRun] = {}
        self._kept: KeptRuns[PlainRun] = KeptRuns(limits, lambda: asyncio.get_running_loop().time())

    @override
    async def start(self, order: Order) -> PlainRun:
        await self._conversations.cut(order.owner, order.conversation, order.said)
        memory = self._conversations.open(order.owner, order.conversation)
        history = await history_of(order, memory)
        # No await from here until the run is registered as running: two equal orders at once start one run.
        known = self._known(order.run_id)
        if known is not None:
            if known.order.owner != order.owner:
                raise HTTPException(404, "there is no such run")
            if known.order.task != order.task:
                raise HTTPException(409, "the run id is taken by a run with another task")
            return known
        self.check_room()
        try:
            agent = self._agent.with_tools(*order.tools) if order.tools else self._agent
        except (DuplicateToolError, ToolDefinitionError) as error:
            raise HTTPException(400, error_text(error)) from None
        run = PlainRun(agent, order, memory, registry=self)
        if order.conversation is not None:
            before = await self.waiting(order.owner, order.conversation)
            if before is not None:  # the new task replaces it
                before.drop()
        await run.begin(history)
        return run

    @override
    async def find(self, owner: str, run_id: str) -> PlainRun | None:
        run = self._known(run_id)
        return run if run is not None and run.owner == owner else None

    @override
    async def waiting(self, owner: str, conversation: str) -> PlainRun | None:
        runs = self._kept.waiting()
        return next((run for run in runs if (run.owner, run.conversation) == (owner, conversation)), None)

    @override
    async def active(self, owner: str, conversation: str) -> PlainRun | None:
        runs = reversed(self._running.values())
        return next((run for run in runs if (run.owner, run.conversation) == (owner, conversation)), None)

    def check_room(self) -> None:
        if len(self._running) >= self.limits.runs:
            raise HTTPException(503, "too many runs at once; try again", {"retry-after": "1"})

    def running(self, run: PlainRun) -> None:
        """Register a run as running."""
        self._kept.remove(run.run_id)
        self._running[run.run_id] = run

    def ended(self, run: PlainRun) -> None:
        """Keep a run that has ended or waits for a limited time; a run that never began is not kept."""
        self._running.pop(run.run_id, None)
        if run.is_waiting or run.log.last_seq:
            self._kept.add(run)
        if run.is_waiting:
            self._offer(run)

    def _offer(self, run: PlainRun) -> None:
        """Add a waiting run to the inbox."""
        if self.inbox is not None and run.interrupted is not None:
            try:
                self.inbox.put(run.interrupted)
            except (OSError, WesichainError):
                _log.exception("the waiting run %s could not be added to the inbox", run.run_id)

    async def close(self) -> None:
        """Cancel the active runs, and wait for their end."""
        for run in [*self._running.values()]:
            await run.stop("the service is shutting down")

    def _known(self, run_id: str) -> PlainRun | None:
        return self._running.get(run_id) or self._kept.get(run_id)
