"""The runs of a database, for operators: needs no agent, and runs nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Self, TypeAlias, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from typing_extensions import Unpack

from wesichain.core import Event, from_json, to_json
from wesichain.core.internal import (
    Clock,
    Decision,
    RefusalOf,
    SystemClock,
    check_decisions,
    home_folder,
    replace,
)
from wesichain.errors import ConfigError, DurableError

from .questions import answers_order, check_decision, graph_ending
from .run_records import (
    ChildEvents,
    FinishedRun,
    erase,
    finished_run_of,
    new_events,
    served_of,
    summary_of,
    top_of,
    waiting_of,
)
from .states import PendingDecision, RunState, RunStatus, RunSummary, checked_id
from .store.children import ChildRow
from .store.database import as_durable, checked_url, is_unreachable
from .store.ledger import Follow, RunFilters, RunPage, RunStats, RunTotal, WorkflowRow
from .store.store import Store
from .workflow_ids import Resume

R = TypeVar("R")
_WAIT = 0.02  # seconds before the first poll of a run; the pauses grow
_PAUSE = 0.1  # seconds between two polls for the ending of a cancelled run
_INBOX = 10_000  # waiting runs, at most, whose calls are listed
_BATCH = 500  # runs that are pruned at once
_LET_GO = 15.0  # seconds that a process has to end a run which another process has cancelled

Pending: TypeAlias = list[PendingDecision]
Rows: TypeAlias = list[WorkflowRow | ChildRow]
Stats: TypeAlias = list[RunStats]
Totals: TypeAlias = list[RunTotal]


class DurableRuns:
    """The durable runs of a database: lists, shows, decides on, cancels, resumes and deletes them.

    `agent` limits it to the runs of one agent. The default database is the file in the user's data folder. A
    database that does not exist is a `DurableError`, unless `create` is true.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        agent: str | None = None,
        clock: Clock | None = None,
        create: bool = False,
    ) -> None:
        self._create = create
        self._url = None if database_url is None else checked_url(database_url)
        self._agent = agent
        self._clock = clock or SystemClock()
        self._opened: Store | None = None
        self._opening = threading.RLock()

    @property
    def database_url(self) -> str:
        return self._url or checked_url(f"sqlite:///{home_folder() / 'durable.db'}")

    # --- reading -------------------------------------------------------------------------------------

    async def list(
        self,
        status: str | None = None,
        limit: int = 100,
        *,
        after: str | None = None,
        **filters: Unpack[RunFilters],
    ) -> list[RunSummary]:
        """Return the runs, the newest first: all, or those in a state. Runs inside others name their parent.

        `after` is the id of the last run of the page before; `filters` are the fields of `RunFilters`.
        """
        state = None if status is None else _state(status)
        if limit < 1:
            raise ConfigError(f"limit={limit} must be above zero")
        if unknown := sorted(filters.keys() - RunFilters.__annotations__.keys()):
            known = ", ".join(RunFilters.__annotations__)
            raise ConfigError(f"{unknown[0]!r} is not a filter of runs; use one of: {known}")

        def listed(store: Store) -> list[RunSummary]:
            last = None if after is None else store.ledger.place(after)
            page = RunPage(limit, state, self._agent, last, filters)
            served = served_of(store)
            rows: Rows = [*store.ledger.listed(page), *store.children.listed(page)]
            rows.sort(key=lambda row: (row.run.created_at, row.run.run_id), reverse=True)
            return [summary_of(store, row, served) for row in rows[:limit]]

        return await self.ask(listed)

    async def stats(self) -> Stats:
        """Return the numbers of queued, running and waiting runs of each queue, and of its living workers."""

        def stats(store: Store) -> Stats:
            workers: dict[str, set[str]] = {}
            for one in store.leases.served():
                workers.setdefault(one.agent, set()).add(one.executor)
            found = {one.queue: one for one in store.ledger.stats()}
            names = sorted({*found, *workers}) if self._agent is None else [self._agent]
            return [
                replace(found.get(name, RunStats(name, 0, 0, 0, 0.0)), workers=len(workers.get(name, ())))
                for name in names
            ]

        return await self.ask(stats)

    async def totals(self) -> Totals:
        """Return the number of runs in each state, and the sum of their costs."""
        return await self.ask(lambda store: store.ledger.totals())

    async def known(self, run_ids: Sequence[str]) -> set[str]:
        """Return the given ids that belong to runs of this database."""
        return await self.ask(lambda store: store.ledger.known(run_ids))

    async def show(self, run_id: str) -> RunSummary:
        """Return one run, as lists show it."""

        def read(store: Store) -> RunSummary:
            return summary_of(store, self._find(store, run_id), served_of(store))

        return await self.ask(read)

    async def status(self, run_id: str) -> RunStatus:
        """Return the state of a run, a text with the attributes `state`, `version` and `served`."""
        run = await self.show(run_id)
        return RunStatus(run.status, run.version, served=run.served)

    async def pending(self, run_id: str | None = None) -> Pending:
        """Return the calls that wait for a decision, of one run or of all, the oldest first."""

        def undecided(store: Store) -> Pending:
            if run_id is not None:
                found = [self._row(store, run_id)]
            else:
                found = store.ledger.listed(RunPage(_INBOX, "interrupted", self._agent))
            decided = store.ledger.decided()
            waiting = (row for row in found[::-1] if row.run.status == "interrupted")
            calls = (item for row in waiting for item in waiting_of(store, row))
            return [item for item in calls if (item.run_id, item.token) not in decided]

        return await self.ask(undecided)

    async def finished(self, run_id: str, *, timeout: float | None = None) -> FinishedRun:
        """Wait until the run ends or is interrupted, and return it with its endings."""
        async with asyncio.timeout(timeout):
            pause = _WAIT
            while True:
                row = await self.ask(lambda store: self._row(store, run_id), patient=True)
                if row.is_over:
                    break
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.5)
        if row.dbos_status == "CANCELLED" and row.executor:
            await self.wait_for_ending(run_id, row.executor)
        return await self.ask(lambda store: finished_run_of(store, row), patient=True)

    async def wait_for_ending(self, run_id: str, executor: str, *, patience: float = 3.0) -> None:
        """Wait up to `patience` seconds for the process that ran a cancelled run to store its ending."""

        def has_ending(store: Store) -> bool:
            return not store.leases.is_living(executor) or store.ledger.cancelled_ending(run_id) is not None

        for _ in range(round(patience / _PAUSE)):
            if await self.ask(has_ending):
                return
            await asyncio.sleep(_PAUSE)

    async def events(self, run_id: str, *, wait: bool = True) -> AsyncIterator[Event]:
        """Yield the events of a run, in any process, as they arrive, until it ends or is interrupted.

        With `wait=False`, yield the events so far.
        """
        found = await self.ask(lambda store: self._find(store, run_id), patient=True)
        if isinstance(found, ChildRow):
            inner = ChildEvents(found)
            async for event in self.events(found.top.run.run_id, wait=wait):
                own = inner.of(event)
                if own is not None:
                    yield own
            return
        stretch, pause, seen, last = 0, _WAIT, 0, 0
        while True:
            row = await self.ask(lambda store: self._row(store, run_id), patient=True)
            is_over = row.is_over or stretch < row.stretch
            read = partial(new_events, run_id=run_id, stretch=stretch, after=seen, is_over=is_over)
            seen, events = await self.ask(read, patient=True)
            for event in events:
                if event.seq > last:
                    last, pause = event.seq, _WAIT
                    yield event
            if stretch == row.stretch and (is_over or not wait):
                return
            if is_over:
                stretch, seen = stretch + 1, 0
                continue
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.5)

    # --- deciding ------------------------------------------------------------------------------------

    async def approve(self, run_id: str, token: str, decision: Decision) -> None:
        """Decide on a waiting call, once. The last decision requeues the run."""
        await self.decide(run_id, {token: decision})

    async def decide(
        self, run_id: str, decisions: Mapping[str, Decision], *, refusal_of: RefusalOf | None = None
    ) -> None:
        """Decide on waiting calls by their tokens, once: on all of these calls, or on none if it raises.

        The last decision requeues the run, in the same transaction. `refusal_of` returns the reason why the
        program cannot run a call; without it, arguments are checked against the schema of the call only.
        """
        check_decisions(decisions)
        for decision in decisions.values():
            if not isinstance(decision, Decision):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's
                raise ConfigError(
                    f"{decision!r} is not a decision: use Approve(), ApproveWith(args) or Refuse(reason)"
                )

        def decide(store: Store) -> None:
            before = self._row(store, run_id)
            waiting = waiting_of(store, before)
            follow = self._following(store, before, waiting)

            def checked(row: WorkflowRow, decided: Mapping[str, str]) -> Mapping[str, str]:
                is_late = row.current != before.current or row.is_cancelled
                calls = {} if is_late else {item.token: item for item in waiting}
                for token, decision in decisions.items():
                    if token not in calls:
                        raise DurableError(
                            f"no call of the run {run_id!r} waits for the token {token[:64]!r}"
                        )
                    if token in decided:
                        raise DurableError(f"the approval of {calls[token].call.name!r} was decided already")
                    check_decision(calls[token], decision, self._clock.time(), refusal_of)
                return {token: to_json(decision) for token, decision in decisions.items()}

            store.ledger.decide(run_id, checked, follow)

        await self.ask(decide)

    async def cancel(self, run_id: str) -> None:
        """Cancel a run in any process and phase. It stays cancelled until it is resumed."""

        def cancel(store: Store) -> None:
            self._row(store, run_id)
            store.ledger.cancel(run_id)

        await self.ask(cancel)

    async def resume(self, run_id: str) -> RunState:
        """Requeue a run that was cancelled, refused, given up, or interrupted and decided on.

        Returns its new state. A process that is still ending the cancelled run is waited for, so that no two
        processes run it.
        """
        before = await self.ask(lambda store: self._row(store, run_id))
        if before.dbos_status == "CANCELLED":
            await self.wait_for_ending(run_id, before.executor, patience=_LET_GO)

        def resume(store: Store) -> RunState:
            row = self._row(store, run_id)
            match row.dbos_status, row.run.status:
                case "SUCCESS", "cancelled" | "interrupted":
                    follow = self._following(store, row, waiting_of(store, row))
                    store.ledger.follow(run_id, follow)
                case _, "cancelled":
                    store.ledger.uncancel(run_id)
                case "ERROR" | "MAX_RECOVERY_ATTEMPTS_EXCEEDED", _:
                    store.leases.clear(row.current)
                    store.rewind(row.current, row.run.agent)
                case _:
                    pass
            return self._row(store, run_id).run.status

        return await self.ask(resume)

    # --- cleaning up ---------------------------------------------------------------------------------

    async def delete(self, run_id: str) -> None:
        """Erase a run that has ended or waits. An active run is a `DurableError`: cancel it first."""
        await self.ask(lambda store: erase(store, self._row(store, run_id)))

    async def prune(self, *, older_than: float) -> int:
        """Erase the runs that ended more than `older_than` seconds ago, but no waiting ones; their number."""
        if not older_than >= 0:
            raise ConfigError(f"older_than={older_than} must be seconds, 0 or more")

        def erase_batch(store: Store) -> int:
            found = store.ledger.listed(RunPage(_BATCH, None, self._agent), over=older_than)
            for row in found:
                erase(store, row)
            return len(found)

        number = 0
        while found := await self.ask(erase_batch):
            number += found
        return number

    async def close(self) -> None:
        """Close the database."""
        store, self._opened = self._opened, None
        if store is not None:
            await asyncio.to_thread(store.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # --- inside --------------------------------------------------------------------------------------

    async def ask(self, question: Callable[[Store], R], *, patient: bool = False) -> R:
        """Call a function with the open database, in a thread; `patient` retries until it can be reached."""

        def ask() -> R:
            with self._opening:
                store = self._opened = self._opened or Store(
                    self.database_url, create=self._create, connections=1
                )
            return question(store)

        while True:
            try:
                return await asyncio.to_thread(ask)
            except SQLAlchemyError as error:
                if not (patient and is_unreachable(error)):
                    raise as_durable(error) from error
            await asyncio.sleep(0.5)

    def _find(self, store: Store, run_id: str) -> WorkflowRow | ChildRow:
        """The run of this id, at the top or inside another run."""
        found = store.ledger.find(checked_id(run_id, may_be_inside=True)) or store.children.find(run_id)
        if found is None:
            raise DurableError(f"there is no run {run_id!r} in this database")
        agent, place = top_of(found).run.agent, "inside a run" if isinstance(found, ChildRow) else "a run"
        if self._agent not in (None, agent):
            raise DurableError(f"the run {run_id!r} is {place} of {agent!r}, not of {self._agent!r}")
        return found

    def _row(self, store: Store, run_id: str) -> WorkflowRow:
        """The run of this id, at the top."""
        found = self._find(store, run_id)
        if isinstance(found, ChildRow):
            raise DurableError(f"the run {run_id!r} is inside {found.top.run.run_id!r}: use that id")
        return found

    def _following(self, store: Store, row: WorkflowRow, waiting: Pending) -> Follow:
        """The function that makes the order to continue after an interruption, from the decisions."""
        is_graph = graph_ending(finished_run_of(store, row).texts) is not None

        def follow(decided: Mapping[str, str]) -> str | None:
            if any(item.token not in decided for item in waiting):
                return None
            read = {item.token: from_json(Decision, decided[item.token]) for item in waiting}
            return answers_order(read) if is_graph else to_json(Resume(read, self._clock.time()))

        return follow


async def mapped(work: Awaitable[R]) -> R:
    """Await the work; a failure of the database becomes a `DurableError`."""
    try:
        return await work
    except SQLAlchemyError as error:
        raise as_durable(error) from error


def _state(status: str) -> str:
    try:
        return RunState(status).value
    except ValueError:
        known = ", ".join(RunState)
        raise ConfigError(f"{status!r} is not a state of a run; use one of: {known}") from None
