"""The engine: takes runs out of their queues and runs them here, and goes on with those of the dead.

DBOS is one for a process, and so is the `Engine`. Those who only ask (status, approvals, the queue) need a
`Store` alone, which launches nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from wesichain.agent import Outcome
from wesichain.errors import DurableError
from wesichain.tools import CancellationToken

from .journal import CancelledRunError, Inside, LostRunError
from .store import (
    AWAY,
    Claimed,
    Kept,
    Lease,
    NewChild,
    NewRun,
    NotOursError,
    Step,
    Wanted,
    brief,
    end_children,
)
from .store.watch import LOOKS, Census, StoreWatch, this_machine
from .stretches import run_of, stretches_of
from .work import CANCELLED, Service, Work, WorkResult
from .workflows import Store, Workflows, free_the_loop

_log = logging.getLogger("wesichain.durable")
T = TypeVar("T")

_POLL = 0.2  # seconds between two looks into the queues


class Engine:
    """DBOS in this process, on one database, with the agents that it serves."""

    def __init__(self, url: str, *, lease: float) -> None:
        self.url = url
        self.active: dict[str, CancellationToken] = {}
        self.users: set[int] = set()
        self.loop = asyncio.get_running_loop()
        self.store = Store(url)
        self._services: dict[tuple[str, str], Service] = {}
        self._registered: set[str] = set()
        self._claimed: dict[str, tuple[Service, str]] = {}  # rows that are ours until they have ended
        self._suspects: set[str] = set()  # of those, the ones that have not finished a step since
        self._waiting: dict[str, asyncio.Future[Outcome[Any] | None]] = {}
        self._begun: dict[tuple[str, str], deque[float]] = {}
        self._is_closing = False
        self._claiming = threading.Lock()
        self._executor = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._lease = Lease(self._executor, this_machine(), os.getpid(), 0)
        try:
            self.store.leases.beat(self._lease)
            self._workflows = Workflows(self.store, self._executor)
        except BaseException:
            with suppress(Exception):
                self.store.leases.forget(self._executor)
            self.store.close()
            raise
        self._census = Census()
        self._idle: dict[str, int] = {}  # rows of ours that we do not run, and how often that was seen
        self._watch = StoreWatch(self._look, seconds=lease / LOOKS, on_failure=self._census.forget)
        self._dispatch = StoreWatch(self._take, seconds=_POLL, on_failure=lambda: None)
        self._watch.start()
        self._dispatch.start()

    # --- who lives -----------------------------------------------------------------------------------

    def _look(self) -> None:
        """Say that this process lives; queue the runs of the dead; stop what was cancelled elsewhere."""
        leases = self.store.leases
        leases.beat(self._lease)
        busy = leases.busy()  # before the leases: who has a row has had a lease
        known = leases.all()
        living = self._census.living(known)
        for executor in (busy | {lease.executor for lease in known}) - living - {self._executor}:
            for workflow_id in leases.recover(executor):
                _log.warning("the run %s has ended the processes that ran it, and is given up", workflow_id)
        if self._executor in busy:
            mine = leases.runs_of(self._executor) - self._claimed.keys()
            self._idle = {row_id: self._idle.get(row_id, 0) + 1 for row_id in mine}
            for row_id, looks in self._idle.items():
                if looks > LOOKS:
                    leases.put_back(self._executor, row_id)
        for workflow_id in self.store.ledger.cancelled([*self.active]) if self.active else ():
            if token := self.active.get(workflow_id):
                token.cancel(CANCELLED)

    # --- taking runs ---------------------------------------------------------------------------------

    async def serve(self, service: Service) -> None:
        """Run this agent's runs here: those that are started here, and those in its queue."""
        key = service.agent, service.serving.version
        if self._services.get(key) == service:
            return
        if service.agent not in self._registered:
            self._registered.add(service.agent)
            self._workflows.register(service.agent, self._run)
        await asyncio.to_thread(self.store.leases.serve, self._executor, service.serving)
        self._services[key] = service

    def _take(self) -> None:
        """Take what may be taken, for each agent that is served."""
        for service in [*self._services.values()]:
            with self._claiming:
                if self._is_closing:
                    return
                claimed = self.store.queue.claim(self._executor, self._wanted(service))
                self._mine(service, claimed)
            self._begin(claimed)

    def _wanted(self, service: Service) -> Wanted:
        key = service.agent, service.serving.version
        running = sum(owner is service for owner, _ in [*self._claimed.values()])
        free = service.concurrency.worker - running
        begun = self._begun.setdefault(key, deque())
        for rate in service.rates:
            if rate.per == "worker":
                since = time.monotonic() - rate.seconds
                free = min(free, rate.runs - sum(at > since for at in begun))
        return Wanted(
            service.agent,
            service.serving.version,
            service.adopts,
            free,
            not self._suspects,
            service.concurrency,
            service.rates,
        )

    def _mine(self, service: Service, claimed: Sequence[Claimed]) -> None:
        begun = self._begun.setdefault((service.agent, service.serving.version), deque())
        longest = max((rate.seconds for rate in service.rates if rate.per == "worker"), default=0.0)
        while begun and begun[0] < time.monotonic() - longest:
            begun.popleft()
        for row in claimed:
            self._claimed[row.id] = service, row.owner
            if row.is_suspect:
                self._suspects.add(row.id)
            if longest:
                begun.append(time.monotonic())

    def _begin(self, claimed: Sequence[Claimed]) -> None:
        if not claimed:
            return
        try:
            self._workflows.execute(claimed)
        except BaseException:
            for row in claimed:
                if row.id not in self.active:
                    self._claimed.pop(row.id, None)
                    self._suspects.discard(row.id)
            raise  # the row is put back by `_look`, since nobody runs it

    async def start(self, service: Service, new: NewRun) -> bool:
        """Begin a new run here, now; False if there is one with its id already."""
        claimed: list[Claimed] = []

        def begin() -> bool:
            def claim(db: Any) -> None:
                claimed.append(self.store.queue.claim_new(db, self._executor, new.version, new.run_id))

            is_new = self.store.ledger.begin(new, claim)
            if is_new:
                self._mine(service, claimed)
                self._begin(claimed)
            return is_new

        self._waiting.setdefault(new.run_id, self.loop.create_future())
        is_new = await asyncio.to_thread(begin)
        if not is_new:
            self._waiting.pop(new.run_id, None)
        return is_new

    async def ended_here(self, run_id: str) -> Outcome[Any] | None:
        """Wait for the outcome of a run that was begun here; None if the database must be asked."""
        waiting = self._waiting.get(run_id)
        if waiting is None:
            return None
        try:
            return await asyncio.shield(waiting)
        finally:
            if waiting.done():
                self._waiting.pop(run_id, None)

    # --- running them --------------------------------------------------------------------------------

    async def _run(self, workflow_id: str, order: str) -> str:
        """The workflow of a row, run by DBOS: in this process, or in one that goes on where another was."""
        taken = self._claimed.get(workflow_id)
        token = self.active[workflow_id] = CancellationToken()
        outcome: Outcome[Any] | None = None
        try:
            if taken is None:
                raise DurableError(f"the run {workflow_id!r} was not taken by this process")
            ended = await self._execute(*taken, workflow_id, order, token)
            outcome = ended.outcome
            return ended.text
        finally:
            if self.active.get(workflow_id) is token:
                del self.active[workflow_id]
            self._claimed.pop(workflow_id, None)
            self._suspects.discard(workflow_id)
            waiting = self._waiting.get(workflow_id)
            if waiting is not None and not waiting.done():
                waiting.set_result(outcome)

    async def _execute(
        self, service: Service, owner: str, workflow_id: str, order: str, token: CancellationToken
    ) -> WorkResult:
        lost = False
        number = 0
        run_id = run_of(workflow_id)

        async def begin_inside(child: NewChild) -> None:
            begin = partial(self.store.children.begin, run_id, child, workflow_id=workflow_id, owner=owner)
            await self._insist(begin)

        inside = Inside(begin_inside)

        async def step(name: str, act: Callable[[], Awaitable[str]]) -> str:
            nonlocal lost, number
            began = time.time_ns() // 1_000_000
            text = await act()
            number += 1
            ended_at = time.time_ns() // 1_000_000
            kept = Kept(workflow_id, owner, number, name, text, began, ended_at, inside.take())
            keep = partial(self.store.steps.keep, kept)
            try:
                await self._insist(keep)
            except NotOursError as error:
                lost = True
                if error.is_cancelled:
                    raise CancelledRunError(CANCELLED) from error
                raise LostRunError("another process has taken the run over") from error
            if workflow_id in self._suspects:
                self._suspects.discard(workflow_id)
                await self._insist(partial(self.store.leases.clear, workflow_id))
            return text

        try:
            earlier, steps = await asyncio.to_thread(self._before, workflow_id)
            number = max((done.number for done in steps), default=0)
            recorded = {done.name: done.text for done in steps}
            work = Work(workflow_id, order, earlier, recorded, step, token, inside)
            ended = await service.execute(work)
        except (LostRunError, *AWAY):
            raise asyncio.CancelledError from None  # no end of the run: it is taken up again, or is over
        except Exception as error:
            _log.warning("the run %s was refused: %s: %s", workflow_id, type(error).__name__, error)
            raise
        if token.cancelled and token.reason == CANCELLED and ended.outcome.kind == "interrupted":
            await self._insist(partial(self.store.ledger.keep_ending, run_id, workflow_id, ended.text))
            lost = True
        if lost or (self._is_closing and token.cancelled):
            raise asyncio.CancelledError  # nothing is recorded: another process goes on with it
        also = partial(end_children, self.store.database, run_id=run_id, ended=inside.take())
        note = partial(
            self.store.ledger.ended, run_id, workflow_id, ended.outcome.kind, owner=owner, also=also
        )
        if not await self._insist(note):
            raise asyncio.CancelledError  # it was cancelled and taken up again: the end is another's to tell
        return ended

    def _before(self, workflow_id: str) -> tuple[list[str], Sequence[Step]]:
        """The endings of earlier stretches, and the steps that were finished in this one."""
        _, _, number = workflow_id.partition("/")
        earlier = stretches_of(run_of(workflow_id), int(number) - 1) if number else []
        endings = [payload.ending or "" for payload in self.store.payloads(earlier)] if earlier else []
        return endings, self.store.steps.read(workflow_id)

    async def _insist(self, write: Callable[[], T]) -> T:
        """Write, for as long as it takes to reach the database."""
        while True:
            try:
                return await asyncio.to_thread(write)
            except AWAY as error:
                _log.debug("the database is away: %s", brief(error))
            await asyncio.sleep(0.5)

    # --- ending --------------------------------------------------------------------------------------

    async def close(self, *, grace: float) -> None:
        """Take no more, let runs end for `grace` seconds, and hand on to others what goes on after that."""
        await asyncio.to_thread(self._take_no_more)
        await self.until_idle(grace)
        for token in [*self.active.values()]:
            token.cancel("the process that runs it ends")
        await self.until_idle(2.0)
        with ThreadPoolExecutor(1) as own:  # a thread of DBOS may be waiting for the loop
            await asyncio.get_running_loop().run_in_executor(own, self.destroy)
        free_the_loop()

    def _take_no_more(self) -> None:
        with self._claiming:
            self._is_closing = True

    async def until_idle(self, seconds: float, workflow_id: str | None = None) -> None:
        """Wait until nothing runs here, or one row does not; for so many seconds at most."""
        deadline = self.loop.time() + seconds
        while self.active if workflow_id is None else workflow_id in self.active:
            if self.loop.time() > deadline:
                return
            await asyncio.sleep(0.02)

    def destroy(self) -> None:
        """End DBOS here. What it still had in hand is queued for others."""
        self._is_closing = True
        self._dispatch.stop()
        self._watch.stop()
        self._workflows.destroy()
        try:
            self.store.leases.put_back(self._executor)
            self.store.leases.forget(self._executor)
        finally:
            self.store.close()


_engine: Engine | None = None


async def engine_for(url: str, *, lease: float) -> Engine:
    """The engine of this process on this database: one at a time; another once it has nothing to do."""
    global _engine  # noqa: PLW0603  # DBOS is one for a process
    current = _engine
    if current is not None:
        is_alive = current.loop.is_running()
        if current.url == url and is_alive:
            return current
        if is_alive and current.active:
            raise DurableError(
                f"this process runs {len(current.active)} runs on another database, and DBOS has one a "
                f"process; wait for them, or use a process for each database"
            )
        _engine = None
        current.destroy()  # not in a thread, as the launch below: nobody else may come in between
        free_the_loop()
    _engine = Engine(url, lease=lease)
    return _engine


async def release(engine: Engine, user: int, *, grace: float) -> None:
    """Let go of an engine; the last one to do so ends it."""
    global _engine  # noqa: PLW0603  # as above
    engine.users.discard(user)
    if not engine.users and _engine is engine:
        _engine = None
        await engine.close(grace=grace)
