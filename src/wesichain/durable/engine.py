"""The engine: runs queued runs in this process, and requeues the runs of dead processes.

Reading a status, deciding on a call or queueing a run needs a `Store` alone, which starts nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from wesichain.agent import Outcome
from wesichain.tools import CancellationToken

from .journal.inner_runs import InnerRuns
from .store.children import keep_children
from .store.database import UNREACHABLE, brief
from .store.leases import Lease, this_machine
from .store.ledger import NewRun, Note, WorkflowResult
from .store.queue import Claimed
from .store.step_table import CANCELLED, LostRunError, Step, StepRow
from .store.store import Store
from .store.watch import LivenessMonitor, start_poller
from .work import ServedProgram, Work
from .workflow_ids import run_of, workflow_ids_of

if TYPE_CHECKING:
    import sqlalchemy as sa

_log = logging.getLogger("wesichain.durable")
T = TypeVar("T")

# Seconds between two polls of the database: while runs are queued or have just ended, while runs are active
# in this process, and while it is idle: an idle process polls less than once a second.
_QUICK, _BUSY, _IDLE = 0.2, 0.5, 1.05
_LINGER = 1.0  # seconds after a run ended or was claimed, in which polls stay quick
_THREADS = 16  # that write to the database
_MISSED_POLLS = 3  # polls that find a row of this process which it does not run, before it is requeued


class Engine:
    """The runs of this process on one database, with the agents that it serves."""

    def __init__(self, url: str, *, lease: float, machine: str | None = None) -> None:
        """`machine` is the name of the machine; by default `this_machine()`."""
        self.url = url
        self.active: dict[str, CancellationToken] = {}
        self.users: set[int] = set()
        self.loop = asyncio.get_running_loop()
        self.process = _process_of(self.loop)
        self.store = Store(url)
        self._services: dict[tuple[str, str], ServedProgram] = {}
        self._claimed: dict[str, tuple[ServedProgram, str]] = {}  # rows that this process runs, with owners
        self._suspects: set[str] = set()  # of those, suspects that have not finished a step yet
        self._endings: dict[str, asyncio.Future[Outcome[Any] | None]] = {}  # of runs that began here
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(_THREADS, "wesichain-durable")
        self._is_closing = False
        self._claiming = threading.RLock()
        self._executor = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._lease = Lease(self._executor, machine or this_machine(), os.getpid(), 0, lease)
        self._pause = min(_IDLE, lease / 5)
        self._last_active = self.loop.time()
        self._is_watcher = False
        self._others = LivenessMonitor(seconds=lease, period=self._pause)
        self._watchers = LivenessMonitor(seconds=lease / 2, period=self._pause)
        self._may_have_lost_claims = False  # the database may list claims whose answer did not arrive
        self._missed_polls: dict[str, int] = {}
        try:
            with self.store.database.transaction() as db:
                self.store.leases.beat(db, self._lease)
        except BaseException:
            self.store.close()
            raise
        self._poller = start_poller(self.loop, self._poll, on_failure=self._on_poll_failure)

    def wake(self) -> None:
        """Poll the queues now."""
        self._last_active = self.loop.time()
        self._poller.wake()

    # --- polling -------------------------------------------------------------------------------------

    def _poll(self) -> float:
        """Renew the lease, watch other processes if elected, and claim runs; the seconds until the next poll.

        The poll of an idle process is one transaction.
        """
        store, active = self.store, [*self.active]
        with store.database.polling_transaction() as db:
            store.leases.beat(db, self._lease)
            dead = self._watch_others(db)
            missed = self._lost_claims(db)
            waiting = [one for one in [*self._services.values()] if store.queue.has_waiting(db, one.agent)]
            cancelled = store.ledger.cancelled(db, active)
        for executor in dead:
            for workflow_id in store.leases.recover(executor):
                _log.warning("the run %s is given up: each process that ran it died", workflow_id)
        if missed:
            store.leases.put_back(self._executor, missed)
        for workflow_id in cancelled:
            if token := self.active.get(workflow_id):
                token.cancel(CANCELLED)
        number = sum(self._claim_runs(service) for service in waiting)
        return self._next_pause(is_quick=bool(number or waiting or dead or missed))

    def _next_pause(self, *, is_quick: bool) -> float:
        now = self.loop.time()
        if is_quick:
            self._last_active = now
        if now - self._last_active < _LINGER:
            return min(_QUICK, self._pause)
        if self.active:
            return min(_BUSY, self._pause)
        self.store.database.shrink()
        return self._pause

    def _watch_others(self, db: sa.Connection) -> set[str]:
        """The processes that have died; none unless this process is the elected watcher."""
        leases, now = self.store.leases, self.loop.time()
        if self._is_watcher:
            self._is_watcher = leases.watch(db, self._executor)
        if not self._is_watcher:
            watcher = leases.watcher(db)
            is_well = watcher is not None and watcher.executor in self._watchers.living([watcher], now)
            if is_well or not leases.elect(db, self._lease, watcher):
                return set()
            self._is_watcher = True
            self._others.forget()
        leases.release_delayed(db)
        known = leases.all(db)
        living = self._others.living(known, now)
        return ({lease.executor for lease in known} | leases.orphaned(db)) - living - {self._executor}

    def _lost_claims(self, db: sa.Connection) -> list[str]:
        """Rows that are claimed by this process but not run: the answer to their claim was lost."""
        if not self._may_have_lost_claims:
            return []
        mine = self.store.leases.runs_of(db, self._executor) - self._claimed.keys()
        self._missed_polls = {row_id: self._missed_polls.get(row_id, 0) + 1 for row_id in mine}
        self._may_have_lost_claims = bool(mine)
        return [row_id for row_id, looks in self._missed_polls.items() if looks > _MISSED_POLLS]

    def _on_poll_failure(self) -> None:
        """Discard what is known about other processes, and look for claims whose answer was lost."""
        self._others.forget()
        self._watchers.forget()
        self._may_have_lost_claims = True

    # --- claiming runs -------------------------------------------------------------------------------

    async def serve(self, service: ServedProgram) -> None:
        """Run the agent's runs in this process: those started here and those in its queue."""
        key = service.agent, service.serving.version
        if self._services.get(key) == service:
            return
        await self._in_thread(partial(self.store.leases.serve, self._executor, service.serving))
        self._services[key] = service
        self.wake()

    def _claim_runs(self, service: ServedProgram) -> int:
        """Claim as many queued runs of an agent as its limits allow; return their number."""
        with self._claiming:
            if self._is_closing:
                return 0
            running = sum(owner is service for owner, _ in [*self._claimed.values()])
            claimed = self.store.queue.claim(
                self._executor,
                service.serving,
                free=service.serving.concurrency.worker - running,
                takes_suspect=not self._suspects,
            )
            self._track(service, claimed)
        if claimed:
            try:
                payloads = self.store.payloads([row.id for row in claimed])
                orders = [payload.order for payload in payloads]
                self.loop.call_soon_threadsafe(self._begin, claimed, orders)
            except BaseException:
                self._untrack(claimed)
                raise
        return len(claimed)

    def _track(self, service: ServedProgram, claimed: Sequence[Claimed]) -> None:
        for row in claimed:
            self._claimed[row.id] = service, row.owner
            if row.is_suspect:
                self._suspects.add(row.id)

    def _untrack(self, claimed: Sequence[Claimed]) -> None:
        """Forget rows that could not be read after the claim: a later poll requeues them."""
        self._may_have_lost_claims = True
        for row in claimed:
            self._claimed.pop(row.id, None)
            self._suspects.discard(row.id)

    def _begin(self, claimed: Sequence[Claimed], orders: Sequence[str]) -> None:
        """Run claimed rows. Called in the loop."""
        for row, order in zip(claimed, orders, strict=True):
            self.create_task(self._run(row.id, order))

    def create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def start(self, service: ServedProgram, new: NewRun) -> asyncio.Future[Outcome[Any] | None] | None:
        """Begin a new run in this process; None if its id is taken.

        The future's result is the outcome, or None if it has to be read from the database.
        """
        claimed: list[Claimed] = []

        def begin() -> bool:
            def claim(db: Any) -> None:
                claimed[:] = [self.store.queue.take(db, self._executor, new.version, new.run_id)]

            return self.store.ledger.begin(new, claim)

        beginning = asyncio.ensure_future(self._in_thread(begin))
        try:
            is_new = await asyncio.shield(beginning)
        except BaseException as error:
            self._may_have_lost_claims = True
            # The thread continues after its caller is cancelled, so a run that it has stored is cancelled.
            if isinstance(error, asyncio.CancelledError) and await beginning:
                await self.retry_until_reachable(partial(self.store.ledger.cancel, new.run_id))
            raise
        if not is_new:
            return None
        ending = self._endings[new.run_id] = self.loop.create_future()
        self._track(service, claimed)
        self._begin(claimed, [new.order])
        return ending

    # --- running -------------------------------------------------------------------------------------

    async def _run(self, workflow_id: str, order: str) -> None:
        """Run a row to its end and store the ending."""
        claim = self._claimed.get(workflow_id)
        token = self.active[workflow_id] = CancellationToken()
        outcome: Outcome[Any] | None = None
        try:
            if claim is not None:
                outcome = await self._execute(*claim, workflow_id, order, token)
        finally:
            if self.active.get(workflow_id) is token:
                del self.active[workflow_id]
            self._claimed.pop(workflow_id, None)
            self._suspects.discard(workflow_id)
            ending = self._endings.pop(workflow_id, None)
            if ending is not None and not ending.done():
                ending.set_result(outcome)
            self.wake()

    async def _execute(
        self, service: ServedProgram, owner: str, workflow_id: str, order: str, token: CancellationToken
    ) -> Outcome[Any] | None:
        """The outcome of the row; None if the run was refused, or another process stores its ending."""
        writer = _RowWriter(self, workflow_id, owner)
        try:
            first, earlier, steps = await self._in_thread(partial(self._read_earlier, workflow_id))
            writer.number = max((done.number for done in steps), default=0)
            recorded = {done.name: done.text for done in steps}
            work = Work(workflow_id, order, earlier, recorded, writer.step, token, writer.inner_runs, first)
            try:
                ended = await service.execute(work)
            finally:
                await writer.settle()
        except (LostRunError, *UNREACHABLE):
            self._may_have_lost_claims = True
            return None  # the run has not ended here: it is claimed again, or another process ended it
        except Exception as error:  # noqa: BLE001  # any error that refuses a run is stored as its ending
            _log.warning("the run %s was refused: %s: %s", workflow_id, type(error).__name__, error)
            refused = type(error).__name__, str(error)
            await writer.end(WorkflowResult("", None, Note(": ".join(refused)), refused))
            return None
        if token.cancelled and token.reason == CANCELLED and ended.outcome == "interrupted":
            ledger, run_id = self.store.ledger, run_of(workflow_id)
            await self.retry_until_reachable(
                partial(ledger.save_cancelled_ending, run_id, workflow_id, ended.text or "")
            )
            return None
        if writer.is_lost or (self._is_closing and token.cancelled):
            return None  # no ending is stored: another process continues the run
        is_stored = await writer.end(ended)
        return ended.value if is_stored else None  # it was cancelled and claimed again

    async def clear(self, workflow_id: str) -> None:
        """Remove a run that has finished a step from the suspects."""
        if workflow_id in self._suspects:
            self._suspects.discard(workflow_id)
            await self.retry_until_reachable(partial(self.store.leases.clear, workflow_id))

    def _read_earlier(self, workflow_id: str) -> tuple[str, list[str], Sequence[Step]]:
        """The first order, the endings of earlier stretches, and the finished steps of this one."""
        _, _, number = workflow_id.partition("/")
        earlier = workflow_ids_of(run_of(workflow_id), int(number) - 1) if number else []
        payloads = self.store.payloads(earlier) if earlier else []
        endings = [payload.ending or "" for payload in payloads]
        return payloads[0].order if payloads else "", endings, self.store.steps.read(workflow_id)

    async def _in_thread(self, ask: Callable[[], T]) -> T:
        return await self.loop.run_in_executor(self._threads, ask)

    async def retry_until_reachable(self, write: Callable[[], T]) -> T:
        """Write, again and again until the database can be reached."""
        while True:
            try:
                return await self._in_thread(write)
            except UNREACHABLE as error:
                _log.debug("the database cannot be reached: %s", brief(error))
            await asyncio.sleep(0.5)

    # --- ending --------------------------------------------------------------------------------------

    async def close(self, *, grace: float) -> None:
        """Claim no more runs, wait `grace` seconds for active ones to end, and requeue the rest.

        If the call is cancelled, the active runs are requeued at once.
        """
        await self._in_thread(self._stop_claiming)
        try:
            await self.until_idle(grace)
        finally:
            for token in [*self.active.values()]:
                token.cancel("the process is shutting down")
            await self.until_idle(2.0)
            await self._in_thread(self.destroy)

    def _stop_claiming(self) -> None:
        with self._claiming:
            self._is_closing = True

    async def until_idle(self, seconds: float, workflow_id: str | None = None) -> None:
        """Wait until no run, or not the given one, is active here; for `seconds` at most."""
        deadline = self.loop.time() + seconds
        while self.active if workflow_id is None else workflow_id in self.active:
            if self.loop.time() > deadline:
                return
            await asyncio.sleep(0.02)

    def destroy(self) -> None:
        """Stop polling, requeue claimed runs, and close the store."""
        self._is_closing = True
        self._poller.stop()
        try:
            self.store.leases.put_back(self._executor)
            self.store.leases.forget(self._executor)
        finally:
            with suppress(RuntimeError):  # the loop has ended, and its tasks with it
                self.loop.call_soon_threadsafe(self._abandon)
            self._threads.shutdown(wait=False)
            self.store.close()

    def _abandon(self) -> None:
        for task in self._tasks:
            task.cancel()


class _RowWriter:
    """Writes the steps and the ending of a row, in order, while this process owns the row.

    A reader that sees a step sees all steps before it.
    """

    def __init__(self, engine: Engine, workflow_id: str, owner: str) -> None:
        self.is_lost = False
        self.number = 0  # of the last step
        self.inner_runs = InnerRuns()
        self._engine = engine
        self._store = engine.store
        self._id = workflow_id
        self._owner = owner
        self._in_order = asyncio.Lock()

    async def step(self, name: str, act: Callable[[], Awaitable[str]]) -> str:
        """Perform a step and write its text; raises `LostRunError` if another process owns the row."""
        began = time.time_ns() // 1_000_000
        text = await act()
        self.number += 1
        ended = time.time_ns() // 1_000_000
        row = StepRow(self._id, self._owner, self.number, name, text, began, ended, self.inner_runs.take())
        # A finished step is written even if its caller is cancelled.
        await asyncio.shield(self._engine.create_task(self._write(partial(self._store.steps.keep, row))))
        await self._engine.clear(self._id)
        return text

    async def end(self, ended: WorkflowResult) -> bool:
        """Write the ending of the row; False if another process owns the row."""
        run_id = run_of(self._id)
        also = partial(keep_children, self._store.database, run_id=run_id, changes=self.inner_runs.take())
        end = partial(self._store.ledger.end, run_id, self._id, ended, owner=self._owner, also=also)
        return await self._write(end)

    async def settle(self) -> None:
        """Wait until all finished steps are written."""
        async with self._in_order:
            pass

    async def _write(self, write: Callable[[], T]) -> T:
        try:
            async with self._in_order:
                return await self._engine.retry_until_reachable(write)
        except LostRunError:
            self.is_lost = True
            raise


_engines: dict[tuple[str, int], Engine] = {}


def _process_of(loop: asyncio.AbstractEventLoop) -> object:
    """The owner of an engine: its loop, or the current process of a loop that simulates several."""
    return getattr(loop, "process", loop)


async def engine_for(url: str, *, lease: float) -> Engine:
    """The engine of this event loop on this database."""
    for key, engine in [*_engines.items()]:
        if engine.loop.is_closed():
            del _engines[key]
            engine.destroy()
    key = url, id(_process_of(asyncio.get_running_loop()))
    if key not in _engines:
        _engines[key] = Engine(url, lease=lease)
    return _engines[key]


async def release(engine: Engine, user: int, *, grace: float) -> None:
    """Remove a user of an engine; the engine is closed with its last user."""
    engine.users.discard(user)
    key = engine.url, id(engine.process)
    if not engine.users and _engines.get(key) is engine:
        del _engines[key]
        await engine.close(grace=grace)
