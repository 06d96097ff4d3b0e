"""Stored runs: runs of a `DurableAgent`, which any process with the same database can read and resume."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from starlette.exceptions import HTTPException
from typing_extensions import override

from wesichain.agent import Outcome, RunMemory
from wesichain.core import Event, TextDelta
from wesichain.core.internal import Decision, OutputDelta, Prices, replace
from wesichain.errors import ConfigError, DurableError, RunIdConflictError
from wesichain.tools import CancellationToken
from wesichain.trace import redact

from .outgoing import OutgoingEvents
from .runs import (
    ConversationDirectory,
    CostMeter,
    Order,
    Run,
    RunEnd,
    RunRegistry,
    conversation_of,
    error_text,
    history_of,
    missing_decisions,
    status_of,
    thread_of,
)

if TYPE_CHECKING:
    from wesichain.durable import PendingDecision, RunSummary


_PAGE = 100  # runs


@runtime_checkable
class DurableRunner(Protocol):
    """The methods of a `DurableAgent` that the app uses; an app of plain agents does not import it."""

    @property
    def name(self) -> str: ...
    @property
    def enqueue(self) -> Callable[..., Awaitable[str]]: ...
    async def outcome(self, run_id: str) -> Outcome[Any]: ...
    async def status(self, run_id: str) -> str: ...
    async def show(self, run_id: str) -> RunSummary: ...
    async def conversation(self, run_id: str) -> str | None: ...
    async def follow(self, run_id: str, conversation: RunMemory) -> None: ...
    async def list(
        self, status: str, limit: int, *, after: str | None, search: str
    ) -> Sequence[RunSummary]: ...
    async def pending(self, run_id: str | None = None) -> Sequence[PendingDecision]: ...
    def events(self, run_id: str, *, after: int) -> AsyncIterator[Event]: ...
    async def decide(self, run_id: str, decisions: Mapping[str, Decision]) -> None: ...
    async def cancel(self, run_id: str) -> None: ...
    async def serve(self, stop: CancellationToken, *, grace: float) -> None: ...


class DurableRun(Run):
    """A run in the database. It continues whether a client is connected or not."""

    def __init__(
        self,
        agent: DurableRunner,
        run_id: str,
        conversation: str | None,
        memory: RunMemory | None,
        prices: Prices | None,
    ) -> None:
        self.run_id = run_id
        self.conversation = conversation
        self._agent = agent
        self._memory = memory
        self._prices = prices

    @override
    async def follow(self, after: int) -> AsyncIterator[Sequence[Event]]:
        outgoing = OutgoingEvents()
        async for event in self._agent.events(self.run_id, after=after):
            yield outgoing.release(redact(event))  # those of a plain run are redacted by its stream
        yield outgoing.flush()

    @override
    def number(self, event: Event) -> int | None:
        """The number of an event; None for pieces of text, which are not stored."""
        return None if isinstance(event, TextDelta | OutputDelta) else event.seq

    @override
    async def ending(self) -> RunEnd:
        try:
            outcome = await self._agent.outcome(self.run_id)
        except DurableError as error:
            raise HTTPException(500, error_text(error)) from None
        is_cancelled = await self._agent.status(self.run_id) == "cancelled"
        end = RunEnd(outcome, is_dropped=is_cancelled)
        return replace(end, cost=await self._cost(end))

    async def _cost(self, end: RunEnd) -> float | None:
        """The cost of the run, from its stored events: the outcome has only those since the last decision."""
        meter = CostMeter(self._prices)
        stored = cast("AsyncGenerator[Event]", self._agent.events(self.run_id, after=0))
        async with aclosing(stored) as events:
            async for event in events:
                meter.add(event)
                if event.seq >= end.last_seq:
                    break
        return meter.cost(end.outcome)

    @override
    async def now(self) -> RunEnd | None:
        status = await self._agent.status(self.run_id)
        return None if status in ("pending", "running") else await self.ending()

    @override
    async def decide(
        self, decisions: Mapping[str, Decision], options: Mapping[str, Any], *, is_streamed: bool
    ) -> None:
        wrong = missing_decisions(await self._agent.pending(self.run_id), decisions)
        if wrong is not None:
            raise HTTPException(409, wrong)
        try:
            await self._agent.decide(self.run_id, decisions)
        except DurableError as error:
            refusal = error.__cause__  # a ConfigError, if a decision does not fit its call
            status = status_of(refusal) if isinstance(refusal, ConfigError) else 409
            raise HTTPException(status, error_text(error)) from None
        if self._memory is not None:  # the process that began the run may have ended
            await self._agent.follow(self.run_id, self._memory)

    @override
    async def cancel(self) -> None:
        if await self._agent.status(self.run_id) in ("completed", "failed", "cancelled"):
            raise HTTPException(409, "the run has ended")
        await self._agent.cancel(self.run_id)

    @override
    def join(self) -> None:
        pass

    @override
    def leave(self) -> None:
        pass


class StoredRuns(RunRegistry):
    """The runs of one durable agent. Their owner is stored as the `key` of the queue.

    The app serves the queue: it runs its own runs, and continues those of dead processes.
    """

    def __init__(
        self, agent: DurableRunner, conversations: ConversationDirectory, *, prices: Prices | None
    ) -> None:
        self._agent = agent
        self._conversations = conversations
        self._prices = prices
        self._stop: CancellationToken | None = None
        self._serving: asyncio.Task[None] | None = None

    def serve(self) -> None:
        """Serve the queue, unless it is being served."""
        if self._serving is None or self._serving.done():
            self._stop = CancellationToken()
            self._serving = asyncio.create_task(self._agent.serve(self._stop, grace=5.0))

    async def close(self) -> None:
        """Stop serving the queue; other processes continue runs that do not end in a few seconds."""
        if self._stop is not None and self._serving is not None:
            self._stop.cancel("the service is shutting down")
            await asyncio.wait([self._serving])

    @override
    async def start(self, order: Order) -> DurableRun:
        self.serve()
        await self._check_owner(order)
        await self._conversations.cut(order.owner, order.conversation, order.said)
        memory = self._conversations.open(order.owner, order.conversation)
        options = {name: value for name, value in order.options.items() if name != "deps"}  # it has its own
        try:
            await self._agent.enqueue(
                order.task,
                run_id=order.run_id,
                history=await history_of(order, memory),
                conversation=memory,
                tools=order.tools,
                key=order.owner or None,
                **options,
            )
        except RunIdConflictError as error:
            raise HTTPException(409, str(error)) from None
        except ConfigError as error:
            raise HTTPException(400, error_text(error)) from None
        except DurableError as error:
            raise HTTPException(503, error_text(error)) from None
        await self._check_owner(order)  # another owner may have queued a run with this id in the meantime
        return DurableRun(self._agent, order.run_id, order.conversation, memory, self._prices)

    @override
    async def find(self, owner: str, run_id: str) -> DurableRun | None:
        summary = await self._summary(run_id)
        if summary is None or (summary.key or "") != owner:
            return None
        self.serve()
        stored = await self._agent.conversation(run_id)
        conversation = None if stored is None else conversation_of(stored)
        memory = self._conversations.open(owner, conversation)
        return DurableRun(self._agent, run_id, conversation, memory, self._prices)

    @override
    async def waiting(self, owner: str, conversation: str) -> DurableRun | None:
        return await self._newest(owner, conversation, "interrupted")

    @override
    async def active(self, owner: str, conversation: str) -> DurableRun | None:
        running = await self._newest(owner, conversation, "running")
        return running or await self._newest(owner, conversation, "pending")

    async def _newest(self, owner: str, conversation: str, state: str) -> DurableRun | None:
        """The newest run of a conversation in a state."""
        thread, after, rows = thread_of(owner, conversation), None, None
        while rows is None or len(rows) == _PAGE:  # another owner's runs may contain the same words
            rows = await self._agent.list(state, _PAGE, after=after, search=thread)
            for row in rows:
                is_own = row.parent is None and row.run_id.startswith(thread)
                if is_own and (row.key or "") == owner:
                    return await self.find(owner, row.run_id)
                after = row.run_id
        return None

    async def _summary(self, run_id: str) -> RunSummary | None:
        """The run with that id, unless it is inside another; None if there is none."""
        try:
            summary = await self._agent.show(run_id)
        except DurableError:
            return None
        return summary if summary.parent is None else None

    async def _check_owner(self, order: Order) -> None:
        summary = await self._summary(order.run_id)
        if summary is not None and (summary.key or "") != order.owner:
            raise HTTPException(404, "there is no such run")
