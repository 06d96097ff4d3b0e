"""Served runs: what a durable agent and a durable graph do alike with the runs of their name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Self

from typing_extensions import Unpack

from wesichain.core import Event
from wesichain.core.internal import Clock, replace
from wesichain.errors import ConfigError, RunIdConflictError
from wesichain.tools import CancellationToken

from .engine import Engine, engine_for, release
from .runs import DurableRuns, Pending, mapped
from .states import RunStatus, RunSummary, checked_name
from .store.ledger import NewRun, RunFilters
from .store.queue import Concurrency, Rate, Serving, concurrency_of, rates_of
from .store.step_table import CANCELLED
from .work import Execute, ServedProgram, ServiceSettings
from .workflow_ids import run_of


class ServedRuns:
    """The runs of one name: looked at from any process, run by those that serve them."""

    def __init__(
        self,
        name: str,
        version: str,
        execute: Execute,
        *,
        database_url: str | None,
        on_change: str,
        concurrency: int | Concurrency,
        rate: Rate | tuple[int, float] | Sequence[Rate] | None,
        max_recoveries: int,
        lease: float,
        clock: Clock,
        own: Mapping[str, Any],
    ) -> None:
        """`own` are the settings that only an agent or only a graph has, and the sinks of events."""
        if on_change not in ("wait", "adopt"):
            raise ConfigError(f"on_change={on_change!r} must be 'wait' or 'adopt'")
        if max_recoveries < 0:
            raise ConfigError(f"max_recoveries={max_recoveries} must not be below zero")
        if lease <= 0:
            raise ConfigError(f"lease={lease} must be above zero")
        self.name, self.version = checked_name(name), version
        limits = concurrency_of(concurrency), rates_of(rate)
        serving = Serving(self.name, version, max_recoveries, on_change == "adopt", *limits)
        self._service = ServedProgram(serving, execute)
        self._lease = lease
        self._clock = clock
        self._own = own
        self._runs = DurableRuns(database_url, agent=self.name, clock=clock, create=True)
        self._engine: Engine | None = None

    def _changed(self, changes: ServiceSettings) -> dict[str, Any]:
        """The settings of another one like this: these, and otherwise its own."""
        serving, own = self._service.serving, self._service.serving.concurrency
        worker = changes.get("concurrency")
        return {
            **self._own,
            "events": (*self._own["events"], *changes.get("events", ())),
            "name": changes.get("name") or self.name,
            "database_url": changes.get("database_url") or self.database_url,
            "on_change": changes.get("on_change") or ("adopt" if serving.adopts else "wait"),
            "concurrency": own if worker is None else replace(own, worker=worker),
            "rate": serving.rates,
            "max_recoveries": serving.max_recoveries,
            "lease": self._lease,
            "clock": changes.get("clock") or self._clock,
        }

    @property
    def database_url(self) -> str:
        return self._runs.database_url

    async def serve(self, stop: CancellationToken, *, grace: float = 30.0) -> None:
        """Run what is in the queue until the token is cancelled; then as `close`."""
        await self._serving()
        await stop.wait()
        await self.close(grace=grace)

    async def status(self, run_id: str) -> RunStatus:
        """Where the run stands, as text (a `RunState`), and which version of its program it belongs to."""
        return await self._runs.status(run_id)

    async def list(
        self,
        status: str | None = None,
        limit: int = 100,
        *,
        after: str | None = None,
        **filters: Unpack[RunFilters],
    ) -> list[RunSummary]:
        """The runs of this name and those inside them, the newest first: all, or those in a state.

        `after` is the id of the last run of the page before; the others are as `RunFilters` says.
        """
        return await self._runs.list(status, limit, after=after, **filters)

    async def show(self, run_id: str) -> RunSummary:
        """One run, as it is listed: its state, its version, whether a worker serves that."""
        return await self._runs.show(run_id)

    async def pending(self, run_id: str | None = None) -> Pending:
        """What waits for a person, of one run or of all: calls, and the questions of a graph's nodes."""
        return await self._runs.pending(run_id)

    def events(self, run_id: str) -> AsyncIterator[Event]:
        """Yield the events of a run as they come, whichever process runs it, until nobody works on it."""
        return self._runs.events(run_id)

    async def cancel(self, run_id: str) -> None:
        """Cancel a run in any process and phase. It stays cancelled until it is resumed."""
        await self._runs.cancel(run_id)
        if self._engine is not None:
            for workflow_id, token in [*self._engine.active.items()]:
                if run_of(workflow_id) == run_id:
                    token.cancel(CANCELLED)

    async def delete(self, run_id: str) -> None:
        """Erase a run that is over, and all that is kept of it; a graph's thread is its checkpointer's."""
        await self._runs.delete(run_id)

    async def prune(self, *, older_than: float) -> int:
        """Erase the runs of this name that ended more than so many seconds ago; how many."""
        return await self._runs.prune(older_than=older_than)

    async def close(self, *, grace: float = 5.0) -> None:
        """Close the database. Runs have `grace` seconds to end; other processes continue the rest."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await release(engine, id(self), grace=grace)
        await self._runs.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _serving(self) -> Engine:
        engine = await mapped(engine_for(self.database_url, lease=self._lease))
        if engine is not self._engine:
            engine.users.add(id(self))
            self._engine = engine
        await mapped(engine.serve(self._service))
        return engine

    async def _queue(self, new: NewRun, *, delay: float | None, key: str | None) -> bool:
        """Leave a run to whoever serves it; False if there is one with its id already."""
        if type(new.priority) is not int or not 1 <= new.priority <= 1_000_000:
            raise ConfigError(
                f"priority={new.priority!r} must be a whole number from 1 (served first) to 1000000"
            )
        if delay is not None and not 0 <= delay < 10**9:
            raise ConfigError(f"delay={delay!r} must be seconds, 0 or more")
        new = replace(new, delay=delay or None, key=key or None)
        is_new = await self._runs.ask(lambda store: store.ledger.begin(new))
        if not is_new:
            await self._check(new)
        self._wake()
        return is_new

    def _wake(self) -> None:
        """Have this process look into its queues now, if it serves."""
        if self._engine is not None:
            self._engine.wake()

    async def _check(self, new: NewRun) -> None:
        """See that the run with this id is of this name and was given the same."""
        there = await self._runs.ask(lambda store: store.ledger.find(new.run_id))
        if there is None or there.run.agent != self.name or there.asked != new.asked:
            raise RunIdConflictError(
                f"the run id {new.run_id!r} is taken by a run with other input; choose another id"
            )
