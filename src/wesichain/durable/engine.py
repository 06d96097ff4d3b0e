"""The engine: the one place that knows DBOS. It runs runs as workflows, and finds them again.

DBOS is one for a process, and so is the `Engine`. Those who only ask (status, approvals, the queue) need
`Runs` alone, which launches nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from wesichain.core import dataclass
from wesichain.errors import DurableError, MissingDependencyError
from wesichain.tools import CancellationToken

try:
    from dbos import (
        DBOS,
        DBOSClient,
        DBOSConfig,
        DBOSPortableJSONSerializer,
        PortableWorkflowError,
        SetWorkflowID,
    )
    from dbos._error import (
        DBOSConflictingWorkflowError,
        DBOSException,
        DBOSWorkflowCancelledError,
        DBOSWorkflowConflictIDError,
    )
    from dbos._serialization import DBOSDefaultSerializer
except ModuleNotFoundError as missing:
    if missing.name != "dbos":
        raise
    raise MissingDependencyError("a durable run", package="dbos", extra="durable") from missing

# After it, because the ledger needs what comes with it.
from .journal import LostRunError, Step
from .ledger import AWAY, Lease, Ledger, brief, insist
from .watch import LOOKS, Census, Watch, this_machine

_log = logging.getLogger("wesichain.durable")

Execute: TypeAlias = Callable[[str, str, Mapping[str, str], Step, CancellationToken], Awaitable[str]]

_APPLICATION, _FORMAT = "wesichain", "1"
_PREFIX = "wesichain."
_LOSSES = (DBOSWorkflowCancelledError, DBOSWorkflowConflictIDError)
_LOST = "lost"  # stands in for a step that was under way, beside others, when its process died
_POLL = 0.2  # seconds between two looks into a queue
_PATIENCE = 0.5  # seconds between two tries to reach the database


def _refuse(_: object, serialized_data: str) -> Any:
    raise TypeError(f"a pickle in the database ({len(serialized_data)} characters) is not read")


# What is stored is data. DBOS reads JSON here, but would load a pickle if a row said that it is one.
DBOSDefaultSerializer.deserialize = _refuse.__get__(DBOSDefaultSerializer)  # type: ignore[method-assign]  # see above


@dataclass(frozen=True, slots=True)
class Row:
    """A workflow: one stretch of a run, from its start or a resumption to its end or an interruption."""

    id: str
    agent: str
    status: str  # as DBOS has it
    order: str = ""  # what it was given
    executor: str = ""
    ending: str | None = None  # what it came to
    error: tuple[str, str] | None = None  # class and message, of one that was refused

    @property
    def is_over(self) -> bool:
        return self.status not in ("ENQUEUED", "DELAYED", "PENDING")


class Runs:
    """The runs in a database, for those who look on. Blocks; any thread may use it."""

    def __init__(self, url: str) -> None:
        self.ledger = Ledger(url)
        try:
            insist(lambda: DBOS.migrate(url))
            self._client = DBOSClient(
                system_database_url=url,
                serializer=DBOSPortableJSONSerializer(),
                application_name=_APPLICATION,
            )
        except Exception as error:
            raise DurableError(f"the database cannot be used: {brief(error)}") from error

    def close(self) -> None:
        self._client.destroy()
        self.ledger.close()

    def row(self, workflow_id: str) -> Row | None:
        found = self._client.list_workflows(workflow_ids=[workflow_id])
        return _row(found[0]) if found else None

    def under_way(self, agents: Iterable[str]) -> list[Row]:
        """The rows of these agents that a process runs, or ran when it died."""
        names = [_PREFIX + agent for agent in [*agents]]
        if not names:
            return []  # and not those of everybody
        found = self._client.list_workflows(status="PENDING", name=names, load_input=False, load_output=False)
        return [_row(status) for status in found]

    def cancelled(self, workflow_ids: Iterable[str]) -> list[str]:
        found = self._client.list_workflows(
            workflow_ids=[*workflow_ids], status="CANCELLED", load_input=False, load_output=False
        )
        return [status.workflow_id for status in found]

    def steps(self, workflow_id: str) -> Mapping[int, str]:
        """The names of the finished steps, by number."""
        found = self._client.list_workflow_steps(workflow_id, load_output=False)
        return {step["function_id"]: step["function_name"] for step in found}

    def open_queue(self, agent: str, *, concurrency: int) -> str:
        """See that the agent has a queue, of which a process takes so many at once; returns its name."""
        self._client.register_queue(
            _PREFIX + agent,
            worker_concurrency=concurrency,
            polling_interval_sec=_POLL,
            on_conflict="always_update",
        )
        return _PREFIX + agent

    def enqueue(self, agent: str, workflow_id: str, order: str) -> None:
        """Put a row into its agent's queue; one that is there already stays as it is."""
        name = _PREFIX + agent
        with suppress(DBOSConflictingWorkflowError):  # another agent's row, which the caller will see
            self._client.enqueue(
                {"workflow_name": name, "queue_name": name, "workflow_id": workflow_id}, order
            )

    def cancel(self, workflow_id: str) -> None:
        self._client.cancel_workflow(workflow_id)

    def uncancel(self, row: Row) -> None:
        self._client.resume_workflow(row.id, queue_name=_PREFIX + row.agent)

    def retry(self, row: Row) -> None:
        """Queue a row that was refused again, with all its steps."""
        after = max(self.steps(row.id), default=0) + 1
        self._client.rewind_workflow(row.id, start_step=after, queue_name=_PREFIX + row.agent)

    def adopt(self, row: Row) -> bool:
        """Queue a row whose process is dead: of several that try, one does, and a cancelled row stays so."""
        # resume_workflow knows neither of these conditions.
        database = self._client._sys_db  # pyright: ignore[reportPrivateUsage]  # no public form has them
        return database.reenqueue_for_recovery(row.id, [row.executor], _PREFIX + row.agent)


def _row(status: Any) -> Row:
    given: Any = status.input or {"args": ("",)}
    if isinstance(given, str):
        raise DurableError(f"what the run {status.workflow_id!r} was given cannot be read: it is not JSON")
    error = status.error
    return Row(
        status.workflow_id,
        status.name.removeprefix(_PREFIX),
        status.status,
        str(given["args"][0]),
        status.executor_id or "",
        status.output,
        None if error is None else (str(getattr(error, "name", type(error).__name__)), str(error)),
    )


async def _recorded(name: str, act: Callable[[], Awaitable[str]]) -> str:
    """Do a step and have DBOS record it, for as long as that takes: what was done is not done again."""
    done: list[str] = []

    async def act_once() -> str:
        if not done:
            done.append(await act())
        return done[0]

    while True:
        try:
            return await DBOS.run_step_async({"name": name}, act_once)
        except AWAY:  # each try has a number of its own; those without a record are filled by `_recalled`
            await asyncio.sleep(_PATIENCE)


async def _recalled(names: Mapping[int, str]) -> Mapping[str, str]:
    """The texts of the steps that were finished before, by name.

    DBOS numbers steps in the order in which they begin, and wants to be asked for each again. Where one is
    missing in the middle (calls ran side by side when the process died) its number is filled.
    """

    async def nothing() -> str:
        return ""

    recorded: dict[str, str] = {}
    for number in range(1, max(names, default=0) + 1):
        name = names.get(number, _LOST)
        with suppress(PortableWorkflowError):  # one that broke is done again
            recorded[name] = await DBOS.run_step_async({"name": name}, nothing)
    return recorded


class Engine:
    """DBOS in this process, on one database, with the agents that it serves."""

    def __init__(self, url: str, agent: str, *, lease: float, concurrency: int) -> None:
        self.url = url
        self.runs = Runs(url)
        self.active: dict[str, CancellationToken] = {}
        self.users: set[int] = set()
        self.loop = asyncio.get_running_loop()
        self._concurrency = concurrency
        self._executes: dict[str, Execute] = {}
        self._workflows: dict[str, Any] = {}
        self._is_closing = False
        executor = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._lease = Lease(executor, this_machine(), os.getpid(), 0)
        self.runs.ledger.beat(self._lease)
        config: DBOSConfig = {
            "name": _APPLICATION,
            "system_database_url": url,
            "serializer": DBOSPortableJSONSerializer(),
            "executor_id": executor,
            "application_version": _FORMAT,
            "notification_listener_polling_interval_sec": 0.1,  # nobody waits for one but our end
            "log_level": "CRITICAL",  # what goes wrong is told by the run, or by the watch
        }
        self._dbos: Any = DBOS(config=config)
        try:
            DBOS.listen_queues([self.runs.open_queue(agent, concurrency=concurrency)])
        except DBOSException as error:
            self.runs.close()
            raise DurableError(f"DBOS is used by other code of this process already: {error}") from error
        DBOS.launch()
        self._census = Census()
        self._idle: dict[str, int] = {}  # rows of ours that we do not run, and how often that was seen
        self._watch = Watch(self._look, seconds=lease / LOOKS, on_failure=self._census.forget)
        self._watch.start()

    def _look(self) -> None:
        """Say that this process lives; queue the rows that nobody runs; stop what was cancelled elsewhere."""
        self.runs.ledger.beat(self._lease)
        rows = self.runs.under_way(self._executes)  # before the leases: who has a row has had a lease
        living = self._census.living(self.runs.ledger.leases())
        mine = {row.id for row in rows if row.executor == self._lease.executor}
        self._idle = {row_id: self._idle.get(row_id, 0) + 1 for row_id in mine - self.active.keys()}
        for row in rows:
            if row.executor not in living or self._idle.get(row.id, 0) > LOOKS:
                self.runs.adopt(row)
        for workflow_id in self.runs.cancelled(self.active) if self.active else ():
            if token := self.active.get(workflow_id):
                token.cancel("the run was cancelled")

    async def serve(self, agent: str, execute: Execute) -> None:
        """Run this agent's runs here: those that are started here, and those in its queue."""
        self._executes[agent] = execute
        if agent in self._workflows:
            return

        async def run(order: str) -> str:
            return await self._run(agent, order)

        self._workflows[agent] = DBOS.workflow(name=_PREFIX + agent)(run)
        open_queue = partial(self.runs.open_queue, agent, concurrency=self._concurrency)
        queue = await asyncio.to_thread(open_queue)
        listened = self._dbos._listening_queues  # listen_queues can only be told before the launch
        if queue not in listened:
            listened.append(queue)

    async def start(self, agent: str, workflow_id: str, order: str) -> Awaitable[None]:
        """Start a row here; what is returned waits until it is over. One that exists is not started again."""
        try:
            with SetWorkflowID(workflow_id):
                handle = await DBOS.start_workflow_async(self._workflows[agent], order)
        except DBOSException as error:
            raise DurableError(f"the run {workflow_id!r} cannot be started: {error}") from error

        async def over() -> None:
            with suppress(Exception):  # the row tells what came of it
                await handle.get_result()

        return over()

    async def _run(self, agent: str, order: str) -> str:
        """What DBOS runs for a row: in this process, or in one that goes on where another was."""
        workflow_id = DBOS.workflow_id or ""
        token = self.active[workflow_id] = CancellationToken()
        lost: list[BaseException] = []

        async def step(name: str, act: Callable[[], Awaitable[str]]) -> str:
            try:
                return await _recorded(name, act)
            except _LOSSES as error:
                lost.append(error)
                is_cancelled = isinstance(error, DBOSWorkflowCancelledError)
                why = "the run was cancelled" if is_cancelled else "another process has taken the run over"
                raise LostRunError(why) from error

        try:
            recorded = await _recalled(await asyncio.to_thread(self.runs.steps, workflow_id))
            ending = await self._executes[agent](workflow_id, order, recorded, step, token)
        except LostRunError:
            raise lost[0] from None
        except AWAY:
            raise asyncio.CancelledError from None  # no end of the run: it is taken up again
        except Exception as error:
            _log.warning("the run %s was refused: %s: %s", workflow_id, type(error).__name__, error)
            raise
        finally:
            if self.active.get(workflow_id) is token:
                del self.active[workflow_id]
        if lost:
            raise lost[0]
        if self._is_closing and token.cancelled:
            raise asyncio.CancelledError  # nothing is recorded: another process goes on with it
        return ending

    async def close(self, *, grace: float) -> None:
        """Take no more, let runs end for `grace` seconds, and hand on to others what goes on after that."""
        self._is_closing = True
        for event in self._dbos.background_thread_stop_events:
            event.set()
        await self.until_idle(grace)
        for token in [*self.active.values()]:
            token.cancel("the process that runs it ends")
        await self.until_idle(2.0)
        with ThreadPoolExecutor(1) as own:  # a thread of DBOS may be waiting for the loop
            await asyncio.get_running_loop().run_in_executor(own, self.destroy)
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())  # DBOS had put its own there

    async def until_idle(self, seconds: float, workflow_id: str | None = None) -> None:
        """Wait until nothing runs here, or one row does not; for so many seconds at most."""
        deadline = self.loop.time() + seconds
        while self.active if workflow_id is None else workflow_id in self.active:
            if self.loop.time() > deadline:
                return
            await asyncio.sleep(0.02)

    def destroy(self) -> None:
        """End DBOS here. What it still had in hand is queued for others."""
        self._watch.stop()
        DBOS.destroy()
        try:
            for row in self.runs.under_way(self._executes):
                if row.executor == self._lease.executor:
                    self.runs.adopt(row)
            self.runs.ledger.forget(self._lease.executor)
        finally:
            self.runs.close()


_engine: Engine | None = None


async def engine_for(url: str, agent: str, *, lease: float, concurrency: int) -> Engine:
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
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
    _engine = Engine(url, agent, lease=lease, concurrency=concurrency)
    return _engine


async def release(engine: Engine, user: int, *, grace: float) -> None:
    """Let go of an engine; the last one to do so ends it."""
    global _engine  # noqa: PLW0603  # as above
    engine.users.discard(user)
    if not engine.users and _engine is engine:
        _engine = None
        await engine.close(grace=grace)
