"""The runs of a database, for those who operate them. Knows no agent, and runs nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Self, TypeAlias, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from typing_extensions import Unpack

from wesichain.core import Clock, Event, from_json, to_json
from wesichain.core.internal import Decision, Provide, Refuse, SystemClock, home_folder
from wesichain.errors import ConfigError, DurableError

from .questions import answers_order, check_answer, graph_ending
from .run_records import (
    ChildEvents,
    EventMerger,
    FinishedRun,
    erase,
    finished_run_of,
    last_events,
    served_of,
    summary_of,
    summary_of_child,
    undecided_of,
    waiting_of,
)
from .states import PendingDecision, RunState, RunStatus, RunSummary, checked_id
from .store import (
    ChildRun,
    Follow,
    RunFilters,
    RunPage,
    RunStats,
    RunStatusRow,
    RunTotal,
    Step,
    Store,
    checked_url,
)
from .store.database import as_durable, is_away
from .workflow_ids import GoOn, workflow_ids_of

R = TypeVar("R")
_WAIT = 0.02  # seconds before the first look at a run that is waited for; then ever more
_PAUSE = 0.1  # seconds between two looks at a run that is let go
_INBOX = 10_000  # runs that wait, at most, of which all is listed
_SOME = 500  # runs that are deleted between two looks
_LET_GO = 15.0  # seconds that a process has to end a run which was cancelled elsewhere

Check = Callable[[PendingDecision, Decision], None]
Pending: TypeAlias = list[PendingDecision]
Stats: TypeAlias = list[RunStats]
Totals: TypeAlias = list[RunTotal]


def default_url() -> str:
    """The file that runs are kept in where no database is named."""
    return checked_url(f"sqlite:///{home_folder() / 'durable.db'}")


class DurableRuns:
    """The durable runs of a database: lists, shows, decides, cancels, resumes and deletes them.

    `agent` limits it to the runs of one. Without a `database_url` it is the file in the user's data folder. A
    database that is not there is a `DurableError`, unless it may be created.
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
        self._opening = threading.Lock()

    @property
    def database_url(self) -> str:
        return self._url or default_url()

    # --- looking -------------------------------------------------------------------------------------

    async def list(
        self,
        status: str | None = None,
        limit: int = 100,
        *,
        after: str | None = None,
        **filters: Unpack[RunFilters],
    ) -> list[RunSummary]:
        """The runs, the newest first: all, or those in a state. Runs inside others name their parent.

        `after` is the id of the last run of the page before; the others are as `RunFilters` says.
        """
        state = None if status is None else _state(status)
        if limit < 1:
            raise ConfigError(f"limit={limit} must be above zero")

        def listed(store: Store) -> list[RunSummary]:
            last = None if after is None else store.ledger.place(after)
            page = RunPage(limit, state, self._agent, last, filters)
            served = served_of(store)
            rows = [summary_of(store, standing, served) for standing in store.ledger.listed(page)]
            rows += [summary_of_child(child, served) for child in store.children.listed(page)]
            return sorted(rows, key=lambda row: (row.created_at, row.run_id), reverse=True)[:limit]

        return await self.ask(listed)

    async def stats(self) -> Stats:
        """What each queue has to do, and how many living workers serve it."""

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
        """How many runs are in each state, and what they have cost in sum."""
        return await self.ask(lambda store: store.ledger.totals())

    async def known(self, run_ids: Sequence[str]) -> set[str]:
        """Those of the ids that belong to runs of this database."""
        return await self.ask(lambda store: store.ledger.known(run_ids))

    async def show(self, run_id: str) -> RunSummary:
        """One run, as it is listed."""

        def shown(store: Store) -> RunSummary:
            child = self._child(store, run_id)
            if child is not None:
                return summary_of_child(child, served_of(store))
            return summary_of(store, self._status_row(store, run_id), served_of(store))

        return await self.ask(shown)

    async def status(self, run_id: str) -> RunStatus:
        """Where the run stands, as text (a `RunState`), and which version of its program it belongs to."""

        def status(store: Store) -> RunStatus:
            child = self._child(store, run_id)
            standing = self._status_row(store, run_id) if child is None else child.top
            state = standing.state if child is None else child.state
            served = (standing.agent, standing.version) in served_of(store)
            return RunStatus(RunState(state), standing.version, served=served)

        return await self.ask(status)

    async def pending(self, run_id: str | None = None) -> Pending:
        """The calls that wait for a person, of one run or of all, the oldest first."""

        def waiting(store: Store) -> Pending:
            if run_id is not None:
                found = [self._status_row(store, run_id)]
            else:
                found = store.ledger.listed(RunPage(_INBOX, "interrupted", self._agent))
            return undecided_of(store, found[::-1], store.ledger.decided())

        return await self.ask(waiting)

    async def found(self, run_id: str, *, timeout: float | None = None) -> FinishedRun:
        """Wait until the run is not active in any process, and return it."""
        async with asyncio.timeout(timeout):
            pause = _WAIT
            while True:
                standing = await self.ask(lambda store: self._status_row(store, run_id), patient=True)
                if standing.is_over:
                    break
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.5)
        return await self.ask(lambda store: finished_run_of(store, standing), patient=True)

    async def wait_for_ending(self, run_id: str, executor: str, *, patience: float = 3.0) -> None:
        """Wait some seconds for the process that ran a cancelled run to say what it had come to."""

        def has_ending(store: Store) -> bool:
            return not store.leases.is_living(executor) or store.ledger.cancelled_ending(run_id) is not None

        for _ in range(round(patience / _PAUSE)):
            if await self.ask(has_ending):
                return
            await asyncio.sleep(_PAUSE)

    async def events(self, run_id: str, *, wait: bool = True) -> AsyncIterator[Event]:
        """The events of a run, as they come, whichever process runs it; ends when nobody works on it.

        Without `wait` it ends with the last event so far.
        """
        child = await self.ask(lambda store: self._child(store, run_id), patient=True)
        if child is not None:
            heard = ChildEvents(child)
            async for event in self.events(child.top.run_id, wait=wait):
                own = heard.of(event)
                if own is not None:
                    yield own
            return
        stretch, pause = 0, _WAIT
        told = EventMerger()
        while True:
            standing = await self.ask(lambda store: self._status_row(store, run_id), patient=True)
            workflow_id = workflow_ids_of(run_id, stretch)[-1]
            is_over = standing.is_over or stretch < standing.stretch
            seen = told.after

            def new_steps(store: Store, workflow_id: str = workflow_id, seen: int = seen) -> Sequence[Step]:
                return store.steps.read(workflow_id, after=seen)

            rows = await self.ask(new_steps, patient=True)
            told.take(rows)
            if is_over:
                last = partial(last_events, run_id=run_id, stretch=stretch)
                told.take_all(await self.ask(last, patient=True))
            for event in told.ready(everything=is_over):
                pause = _WAIT
                yield event
            if stretch == standing.stretch and (is_over or not wait):
                return
            if is_over:
                stretch, told = stretch + 1, EventMerger()
                continue
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.5)

    # --- deciding ------------------------------------------------------------------------------------

    async def approve(self, run_id: str, token: str, decision: Decision) -> None:
        """Decide on a waiting call, once. With the last decision the run goes back to its queue."""
        await self.decide(run_id, {token: decision})

    async def decide(
        self, run_id: str, decisions: Mapping[str, Decision], *, check: Check | None = None
    ) -> None:
        """Decide on waiting calls by their tokens, once: on all of these calls or, where it raises, on none.

        With the last decision the run goes back to its queue. Both happen in one transaction. `check` may
        look at each call, and raise.
        """
        for decision in decisions.values():
            if not isinstance(decision, Decision):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's
                raise ConfigError(
                    f"{decision!r} is no decision: use Approve(), ApproveWith(args) or Refuse(reason)"
                )

        def decide(store: Store) -> None:
            before = self._status_row(store, run_id)
            waiting = waiting_of(store, before)
            follow, is_graph = self._following(store, before, waiting)

            def checked(standing: RunStatusRow, decided: Mapping[str, str]) -> Mapping[str, str]:
                is_late = standing.current != before.current or standing.is_cancelled
                calls = {} if is_late else {item.token: item for item in waiting}
                for token, decision in decisions.items():
                    if token not in calls:
                        raise DurableError(
                            f"no call of the run {run_id!r} waits for the token {token[:64]!r}"
                        )
                    if token in decided:
                        raise DurableError(f"the approval of {calls[token].call.name!r} was decided already")
                    self._check_decision(calls[token], decision)
                    if is_graph:
                        check_answer(decision, calls[token])
                    if check is not None:
                        check(calls[token], decision)
                return {token: to_json(decision) for token, decision in decisions.items()}

            store.ledger.decide(run_id, checked, follow)

        await self.ask(decide)

    def _check_decision(self, call: PendingDecision, decision: Decision) -> None:
        """See that the decision is one that the call takes, in time."""
        name = call.call.name
        if not isinstance(decision, Refuse) and isinstance(decision, Provide) is not call.external:
            use = "Provide(value)" if call.external else "Approve(), ApproveWith(args)"
            raise DurableError(f"{decision!r} is no decision on {name!r}; use {use} or Refuse(reason)")
        if call.expires_at is not None and self._clock.time() > call.expires_at:
            raise DurableError(f"the approval of {name!r} has expired; run the task again")

    async def cancel(self, run_id: str) -> None:
        """Cancel a run in any process and phase. It stays cancelled until it is resumed."""

        def cancel(store: Store) -> None:
            self._status_row(store, run_id)
            store.ledger.cancel(run_id)

        await self.ask(cancel)

    async def resume(self, run_id: str) -> RunState:
        """Queue a run that was cancelled, refused, given up, or interrupted and decided on; its new state.

        A process that still runs what was cancelled is waited for: two would carry the run.
        """
        before = await self.ask(lambda store: self._status_row(store, run_id))
        if before.status == "CANCELLED":
            await self.wait_for_ending(run_id, before.executor, patience=_LET_GO)

        def resume(store: Store) -> RunState:
            standing = self._status_row(store, run_id)
            match standing.status, standing.state:
                case "SUCCESS", "cancelled" | "interrupted":
                    follow, _ = self._following(store, standing, waiting_of(store, standing))
                    store.ledger.follow(run_id, follow)
                case _, "cancelled":
                    store.ledger.uncancel(run_id)
                case "ERROR" | "MAX_RECOVERY_ATTEMPTS_EXCEEDED", _:
                    store.leases.clear(standing.current)
                    store.rewind(standing.current, standing.agent)
                case _:
                    pass
            return RunState(store.ledger.status_row(run_id).state)

        return await self.ask(resume)

    # --- cleaning up ---------------------------------------------------------------------------------

    async def delete(self, run_id: str) -> None:
        """Erase a run that is over. One that is under way is a `DurableError`: cancel it first."""
        await self.ask(lambda store: erase(store, self._status_row(store, run_id)))

    async def prune(self, *, older_than: float) -> int:
        """Erase the runs that ended more than so many seconds ago; how many. Those that wait stay."""
        if not older_than >= 0:
            raise ConfigError(f"older_than={older_than} must be seconds, 0 or more")

        def some(store: Store) -> int:
            found = store.ledger.listed(RunPage(_SOME, None, self._agent), over=older_than)
            for standing in found:
                erase(store, standing)
            return len(found)

        number = 0
        while found := await self.ask(some):
            number += found
        return number

    async def close(self) -> None:
        """Let go of the database."""
        store, self._opened = self._opened, None
        if store is not None:
            await asyncio.to_thread(store.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # --- inside --------------------------------------------------------------------------------------

    async def ask(self, question: Callable[[Store], R], *, patient: bool = False) -> R:
        """Ask the database, in a thread; a patient one waits until it can be reached."""

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
                if not (patient and is_away(error)):
                    raise as_durable(error) from error
            await asyncio.sleep(0.5)

    def _child(self, store: Store, run_id: str) -> ChildRun | None:
        """The run inside another that has this id."""
        found = store.ledger.find(checked_id(run_id, may_be_inside=True))
        child = None if found is not None else store.children.find(run_id)
        if child is not None and self._agent not in (None, child.top.agent):
            top = child.top
            raise DurableError(f"the run {run_id!r} is inside one of {top.agent!r}, not of {self._agent!r}")
        return child

    def _status_row(self, store: Store, run_id: str) -> RunStatusRow:
        standing = store.ledger.find(checked_id(run_id, may_be_inside=True))
        if standing is None:
            child = self._child(store, run_id)
            if child is not None:
                raise DurableError(f"the run {run_id!r} is inside {child.top.run_id!r}: name that one")
            raise DurableError(f"there is no run {run_id!r} in this database")
        if self._agent is not None and standing.agent != self._agent:
            raise DurableError(f"the run {run_id!r} is one of {standing.agent!r}, not of {self._agent!r}")
        return standing

    def _following(self, store: Store, standing: RunStatusRow, waiting: Pending) -> tuple[Follow, bool]:
        """The function that gives the order for what follows an interruption; whether it is of a graph."""
        is_graph = graph_ending(finished_run_of(store, standing).texts) is not None

        def follow(decided: Mapping[str, str]) -> str | None:
            if any(item.token not in decided for item in waiting):
                return None
            read = {item.token: from_json(Decision, decided[item.token]) for item in waiting}
            return answers_order(read) if is_graph else to_json(GoOn(read, self._clock.time()))

        return follow, is_graph


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
        raise ConfigError(f"{status!r} is no state of a run: {known}") from None
