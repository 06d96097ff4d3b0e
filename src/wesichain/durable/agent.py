"""The durable agent: an agent whose runs outlive their process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

from wesichain.agent import Agent, ApproveWith, Decision, Outcome, RunResult, result_of
from wesichain.core import Clock, Event, EventSink, Message, SystemClock, ToolCall
from wesichain.errors import ConfigError, DurableError, RunIdConflictError
from wesichain.tools import CancellationToken

from .engine import Engine, engine_for, release
from .execution import Execution
from .findings import Found
from .journal import MAX_STEP, Program
from .runs import DurableRuns, Pending, mapped
from .states import PendingDecision, RunStatus, RunSummary, checked_name
from .store import Concurrency, NewRun, Rate, Serving, concurrency_of, rates_of
from .stretches import asked_of, new_order, run_of
from .versions import OnChange, checked_on_change, checked_version, version_of
from .work import CANCELLED, MakeWorld, Service, Work, checked_maker

OutT = TypeVar("OutT")
PRIORITY = 10


class DurableAgent(Generic[OutT]):
    """Runs an agent's tasks as DBOS workflows: what was done stays done, whichever process dies.

    `name` is what the runs are found by: the same in every process that runs, queues or watches them.
    Without a `database_url` they are kept in a SQLite file in the user's data folder. A process that has
    called `run`, `resume` or `serve` also takes runs from the agent's queue, as `concurrency` and `rate`
    allow; the other methods run nothing. A dead process's runs are taken over after about `lease` seconds;
    one that has ended the process that ran it `max_recoveries` times more than once is failed.

    `version` names the program; by default it is a hash of its instructions, tools and output type. Runs
    under way stay with workers of their version (`on_change="wait"`), or go on under this one from their last
    finished step ("adopt"). `deps` is a function of nothing, or of the run's id, that makes what `ctx.deps`
    is: the process that runs a run calls it, for each; deps are never stored. `events` hear every run, beside
    the agent's own sinks; a run that goes on in another process is told to the sinks there from its
    beginning. A step has at most `max_step` bytes.
    """

    def __init__(
        self,
        agent: Agent[Any, OutT],
        name: str | None = None,
        *,
        deps: MakeWorld | None = None,
        database_url: str | None = None,
        version: str | None = None,
        on_change: OnChange = "wait",
        concurrency: int | Concurrency = 10,
        rate: Rate | tuple[int, float] | Sequence[Rate] | None = None,
        max_recoveries: int = 5,
        lease: float = 5.0,
        max_step: int = MAX_STEP,
        events: EventSink | Iterable[EventSink] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if lease <= 0 or max_step < 1 or max_recoveries < 0:
            raise ConfigError(
                "lease and max_step of a DurableAgent must be above zero, max_recoveries not below"
            )
        self.agent = agent
        self._deps = checked_maker(deps, "deps of a DurableAgent")
        self.name = checked_name(agent.name if name is None else name)
        self.version = version_of(agent) if version is None else checked_version(version)
        self._is_exact = version is None
        self._adopts = checked_on_change(on_change)
        self._concurrency = concurrency_of(concurrency)
        self._rates = rates_of(rate)
        self._max_recoveries = max_recoveries
        self._lease = lease
        self._max_step = max_step
        self._sinks = (events,) if isinstance(events, EventSink) else tuple(events or ())
        self._clock = clock or SystemClock()
        self._runs = DurableRuns(database_url, agent=self.name, clock=self._clock)
        self._engine: Engine | None = None
        self._execution = Execution(
            agent,
            Program(self.version, self._is_exact),
            sinks=self._sinks,
            clock=self._clock,
            max_step=max_step,
            deps=self._deps,
        )
        self._service = Service(
            Serving(self.name, self.version, max_recoveries),
            self._adopts,
            self._concurrency,
            self._rates,
            self._execution.run_to_end,
        )

    @property
    def database_url(self) -> str:
        return self._runs.database_url

    def configured(
        self,
        *,
        name: str | None = None,
        database_url: str | None = None,
        concurrency: int | None = None,
        on_change: OnChange | None = None,
        events: Iterable[EventSink] = (),
    ) -> DurableAgent[OutT]:
        """The same with other settings: those that are given. `events` hear its runs as well."""
        worker = self._concurrency if concurrency is None else replace(self._concurrency, worker=concurrency)
        return DurableAgent(
            self.agent,
            name or self.name,
            deps=self._deps,
            database_url=database_url or self.database_url,
            version=None if self._is_exact else self.version,
            on_change=on_change or ("adopt" if self._adopts else "wait"),
            concurrency=worker,
            rate=self._rates,
            max_recoveries=self._max_recoveries,
            lease=self._lease,
            max_step=self._max_step,
            events=(*self._sinks, *events),
            clock=self._clock,
        )

    # --- running -------------------------------------------------------------------------------------

    async def run(
        self, task: str, *, run_id: str | None = None, history: Sequence[Message] = ()
    ) -> RunResult[OutT]:
        """The answer to a task. A `run_id` that exists goes on, or gives its result again.

        Raises as `Agent.run` does; with an id that has another task, `RunIdConflictError`. Cancelling
        the call that began a run cancels the run. One that another version began waits for a worker of it.
        """
        run_id, order = new_order(task, run_id, history)
        engine = await self._serving()
        new = NewRun(run_id, self.name, self.version, order, asked_of(order), priority=PRIORITY)
        if not await mapped(engine.start(self._service, new)):
            await self._check(new)
            return self._result(await self.outcome(run_id))
        return self._result(await self._here(engine, run_id))

    async def enqueue(
        self,
        task: str,
        *,
        run_id: str | None = None,
        history: Sequence[Message] = (),
        priority: int = PRIORITY,
        delay: float | None = None,
        key: str | None = None,
    ) -> str:
        """Leave a task to whoever serves the agent; returns the id of its run.

        `priority` 1 is served before 2 (10 unless told). `delay` is in seconds. `key` is what limits per
        key count by: a customer, a tenant.
        """
        if type(priority) is not int or not 1 <= priority <= 1_000_000:
            raise ConfigError(
                f"priority={priority!r} must be a whole number from 1 (served first) to 1000000"
            )
        if delay is not None and not 0 <= delay < 10**9:
            raise ConfigError(f"delay={delay!r} must be seconds, 0 or more")
        run_id, order = new_order(task, run_id, history)
        asked = asked_of(order)
        new = NewRun(
            run_id,
            self.name,
            self.version,
            order,
            asked,
            priority=priority,
            delay=delay or None,
            key=key or None,
        )
        if not await self._runs.ask(lambda store: store.ledger.begin(new)):
            await self._check(new)
        return run_id

    async def serve(self, stop: CancellationToken, *, grace: float = 30.0) -> None:
        """Run what is in the agent's queue until the token is cancelled; then as `close`."""
        await self._serving()
        await stop.wait()
        await self.close(grace=grace)

    async def resume(self, run_id: str) -> RunResult[OutT]:
        """Go on with a run that was cancelled or refused, or interrupted and decided on; then as `run`."""
        await self._runs.status(run_id)
        await self._serving()
        await self._runs.resume(run_id)
        return self._result(await self.outcome(run_id))

    # --- looking and deciding ------------------------------------------------------------------------

    async def status(self, run_id: str) -> RunStatus:
        """Where the run stands, as text (a `RunState`), and which version of its program it belongs to."""
        return await self._runs.status(run_id)

    async def list(self, status: str | None = None, limit: int = 100) -> list[RunSummary]:
        """The agent's runs and those inside them, the newest first: all, or those in a state."""
        return await self._runs.list(status, limit)

    async def show(self, run_id: str) -> RunSummary:
        """One run, as it is listed: its state, its version, whether a worker serves that."""
        return await self._runs.show(run_id)

    async def pending(self, run_id: str | None = None) -> Pending:
        """The calls that wait for a person, of one run or of all, each with its run and its token."""
        return await self._runs.pending(run_id)

    async def approve(self, run_id: str, token: str, decision: Decision) -> None:
        """Decide on a waiting call, once. With the last decision the run goes back to its queue."""
        await self._runs.approve(run_id, token, decision, check=self._fits)

    def events(self, run_id: str) -> AsyncIterator[Event]:
        """The events of a run, as they come, whichever process runs it; ends when nobody works on it."""
        return self._runs.events(run_id)

    async def cancel(self, run_id: str) -> None:
        """Stop a run, whatever it is doing and wherever. It stays so, unless somebody resumes it."""
        await self._runs.cancel(run_id)
        if self._engine is not None:
            for workflow_id, token in [*self._engine.active.items()]:
                if run_of(workflow_id) == run_id:
                    token.cancel(CANCELLED)

    async def outcome(self, run_id: str, *, timeout: float | None = None) -> Outcome[OutT]:
        """How the run ended or was interrupted, waiting for that. A run that was refused raises why."""
        return await self._ended(await self._runs.found(run_id, timeout=timeout))

    async def result(self, run_id: str, *, timeout: float | None = None) -> RunResult[OutT]:
        """Wait for the run, and return its result; raises as `run` does."""
        return self._result(await self.outcome(run_id, timeout=timeout))

    async def delete(self, run_id: str) -> None:
        """Erase a run that is over, and all that is kept of it."""
        await self._runs.delete(run_id)

    async def prune(self, *, older_than: float) -> int:
        """Erase the agent's runs that ended more than so many seconds ago; how many."""
        return await self._runs.prune(older_than=older_than)

    async def close(self, *, grace: float = 5.0) -> None:
        """Let go of the database. Runs have `grace` seconds to end; other processes go on with the rest."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await release(engine, id(self), grace=grace)
        await self._runs.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # --- inside --------------------------------------------------------------------------------------

    async def _serving(self) -> Engine:
        engine = await mapped(engine_for(self.database_url, lease=self._lease))
        if engine is not self._engine:
            engine.users.add(id(self))
            self._engine = engine
        await mapped(engine.serve(self._service))
        return engine

    async def _here(self, engine: Engine, run_id: str) -> Outcome[OutT]:
        """Wait for the outcome of a run that was begun here. A caller who is cancelled cancels the run."""
        try:
            outcome = await engine.ended_here(run_id)
            found = await self._runs.found(run_id)
        except asyncio.CancelledError:
            await self.cancel(run_id)
            await engine.until_idle(2.0, run_id)
            raise
        is_told = outcome is not None and found.standing.status == "SUCCESS" and not found.standing.stretch
        return outcome if is_told and outcome is not None else await self._ended(found)

    async def _check(self, new: NewRun) -> None:
        """See that the run with this id is of this agent and task."""
        there = await self._runs.ask(lambda store: store.ledger.find(new.run_id))
        if there is None or there.agent != self.name or there.asked != new.asked:
            raise RunIdConflictError(
                f"the run id {new.run_id!r} is taken by a run with another task; choose another id"
            )

    def _fits(self, waiting: PendingDecision, decision: Decision) -> None:
        if isinstance(decision, ApproveWith) and not waiting.scope:  # further down, its own run checks them
            call = ToolCall(waiting.call.id, waiting.call.name, decision.args)
            refused = self.agent.runtime.refusal_of(call)
            if refused is not None:
                raise DurableError(f"the approved arguments do not fit: {refused}") from refused

    async def _ended(self, found: Found) -> Outcome[OutT]:
        if found.standing.status == "CANCELLED" and found.standing.executor:
            await self._runs.told_of(found.standing.run_id, found.standing.executor)
        outcome = await self._runs.ask(lambda store: self._execution.found(store, found))
        return await self._execution.look_through(outcome) if isinstance(outcome, Work) else outcome

    def _result(self, outcome: Outcome[OutT]) -> RunResult[OutT]:
        return result_of(outcome, decide=f"approve({outcome.run_id!r}, token, Approve())")
