"""The durable agent: an agent whose runs outlive their process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Self, TypeVar

from wesichain.agent import (
    Agent,
    ApproveWith,
    Completed,
    Decision,
    Interrupted,
    Outcome,
    RunResult,
    result_of,
)
from wesichain.core import (
    Clock,
    EventSink,
    Message,
    PendingCall,
    SystemClock,
    ToolCall,
    from_json,
    home_folder,
    to_json,
)
from wesichain.errors import (
    ConfigError,
    DurableError,
    ReplayMismatchError,
    RunIdConflictError,
    ToolDispatchError,
)
from wesichain.policy import Spent
from wesichain.tools import CancellationToken

from .effects import DurableEffects
from .engine import Engine, Row, Runs, engine_for, release
from .journal import MAX_STEP, Journal, Step
from .ledger import AWAY, brief, checked_url
from .records import Deed, fingerprint
from .states import RunState, checked_name
from .stretches import (
    Begin,
    Ending,
    GoOn,
    cancel,
    ending_of,
    last,
    new_run,
    next_id,
    run_of,
    standing,
    state_of,
    waiting,
)

OutT = TypeVar("OutT")
R = TypeVar("R")


class DurableAgent(Generic[OutT]):
    """Runs an agent's tasks as DBOS workflows: what was done stays done, whichever process dies.

    `name` is what the runs are found by: the same in every process that runs, queues or watches them.
    Without a `database_url` they are kept in a SQLite file in the user's data folder. A process that has
    called `run`, `resume` or `serve` also takes runs from the agent's queue, `concurrency` at a time;
    the other methods run nothing. A dead process's runs are taken over after about `lease` seconds.
    `events` hear every run, beside the agent's own sinks; a run that goes on in another process is told
    to the sinks there from its beginning. The output of a step has at most `max_step` bytes.
    """

    def __init__(
        self,
        agent: Agent[OutT],
        name: str | None = None,
        *,
        database_url: str | None = None,
        concurrency: int = 10,
        lease: float = 5.0,
        max_step: int = MAX_STEP,
        events: EventSink | Iterable[EventSink] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if concurrency < 1 or lease <= 0 or max_step < 1:
            raise ConfigError("concurrency, lease and max_step of a DurableAgent must be above zero")
        self.agent = agent
        self.name = checked_name(agent.name if name is None else name)
        self._url = None if database_url is None else checked_url(database_url)
        self._concurrency = concurrency
        self._lease = lease
        self._max_step = max_step
        self._sinks = (events,) if isinstance(events, EventSink) else tuple(events or ())
        self._clock = clock or SystemClock()
        self._engine: Engine | None = None
        self._opened: Runs | None = None
        self._opening = threading.Lock()

    @property
    def database_url(self) -> str:
        return self._url or checked_url(f"sqlite:///{home_folder() / 'durable.db'}")

    # --- running -------------------------------------------------------------------------------------

    async def run(
        self, task: str, *, run_id: str | None = None, history: Sequence[Message] = ()
    ) -> RunResult[OutT]:
        """The answer to a task. A `run_id` that exists goes on, or gives its result again.

        Raises as `Agent.run` does; with an id that has another task, `RunIdConflictError`. Cancelling
        the call that began a run cancels the run.
        """
        run_id, order = new_run(task, run_id, history)
        row = await self._ask(lambda runs: runs.row(run_id))
        engine = await self._serving()
        if row is None:
            await self._start(engine, run_id, order)
        await self._check(run_id, order)
        return self._result(await self.outcome(run_id))

    async def enqueue(self, task: str, *, run_id: str | None = None, history: Sequence[Message] = ()) -> str:
        """Leave a task to whoever serves the agent; returns the id of its run."""
        run_id, order = new_run(task, run_id, history)
        await self._ask(lambda runs: runs.enqueue(self.name, run_id, order))
        await self._check(run_id, order)
        return run_id

    async def serve(self, stop: CancellationToken, *, grace: float = 30.0) -> None:
        """Run what is in the agent's queue until the token is cancelled; then as `close`."""
        await self._serving()
        await stop.wait()
        await self.close(grace=grace)

    async def resume(self, run_id: str) -> RunResult[OutT]:
        """Go on with a run that was cancelled or refused, or interrupted and decided on; then as `run`."""
        row = await self._ask(lambda runs: last(runs, run_id))
        engine = await self._serving()
        match state_of(row):
            case RunState.CANCELLED:
                await self._ask(lambda runs: runs.uncancel(row))
            case RunState.FAILED if row.ending is None:
                await self._ask(lambda runs: runs.retry(row))
            case RunState.INTERRUPTED:
                await self._ask(lambda runs: runs.ledger.uncancel(run_id))
                order = await self._ask(lambda runs: self._order_to_go_on(runs, row))
                if order is not None:
                    await self._start(engine, next_id(row.id), order)
            case _:
                pass
        return self._result(await self.outcome(run_id))

    # --- looking and deciding ------------------------------------------------------------------------

    async def status(self, run_id: str) -> RunState:
        """Where the run stands."""
        return await self._ask(lambda runs: standing(runs, last(runs, run_id)))

    async def pending(self, run_id: str) -> tuple[PendingCall, ...]:
        """The calls of the run that wait for a person, each with its token."""

        def undecided(runs: Runs) -> tuple[PendingCall, ...]:
            row = last(runs, run_id)
            decided = runs.ledger.decisions(run_id)
            return tuple(item for item in waiting(runs, row) if item.token not in decided)

        return await self._ask(undecided)

    async def approve(self, run_id: str, token: str, decision: Decision) -> None:
        """Decide on a waiting call, once. With the last decision the run goes back to its queue."""
        await self._ask(lambda runs: self._decide(runs, run_id, token, decision))

    async def cancel(self, run_id: str) -> None:
        """Stop a run, whatever it is doing and wherever. It stays so, unless somebody resumes it."""
        row = await self._ask(lambda runs: cancel(runs, run_id))
        if self._engine is not None and (token := self._engine.active.get(row.id)):
            token.cancel("the run was cancelled")

    async def outcome(self, run_id: str, *, timeout: float | None = None) -> Outcome[OutT]:
        """How the run ended or was interrupted, waiting for that. A run that was refused raises why."""
        async with asyncio.timeout(timeout):
            pause = 0.02
            while not (row := await self._ask(lambda runs: last(runs, run_id), patient=True)).is_over:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.5)
        return await self._ask(lambda runs: self._ended(runs, row))

    async def result(self, run_id: str, *, timeout: float | None = None) -> RunResult[OutT]:
        """What the run gave, waiting for it; raises as `run` does."""
        return self._result(await self.outcome(run_id, timeout=timeout))

    async def close(self, *, grace: float = 5.0) -> None:
        """Let go of the database. Runs have `grace` seconds to end; other processes go on with the rest."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await release(engine, id(self), grace=grace)
        runs, self._opened = self._opened, None
        if runs is not None:
            runs.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # --- inside --------------------------------------------------------------------------------------

    async def _ask(self, question: Callable[[Runs], R], *, patient: bool = False) -> R:
        """Ask the database, in a thread; a patient one waits until it can be reached."""

        def ask() -> R:
            with self._opening:
                runs = self._opened = self._opened or Runs(self.database_url)
            return question(runs)

        while True:
            try:
                return await asyncio.to_thread(ask)
            except AWAY as error:
                if not patient:
                    raise DurableError(f"the database cannot be reached: {brief(error)}") from error
            await asyncio.sleep(0.5)

    async def _serving(self) -> Engine:
        engine = await engine_for(
            self.database_url, self.name, lease=self._lease, concurrency=self._concurrency
        )
        if engine is not self._engine:
            engine.users.add(id(self))
            self._engine = engine
        await engine.serve(self.name, self._execute)
        return engine

    async def _start(self, engine: Engine, workflow_id: str, order: str) -> None:
        """Run a stretch of a run here, to its end. A caller who is cancelled cancels the run."""
        over = await engine.start(self.name, workflow_id, order)
        try:
            await over
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                return  # the engine was closed: another process goes on with it
            await self.cancel(run_of(workflow_id))
            await engine.until_idle(2.0, workflow_id)
            raise

    async def _check(self, run_id: str, order: str) -> None:
        """See that the run with this id is of this agent and task."""
        row = await self._ask(lambda runs: runs.row(run_id))
        if row is None or row.agent != self.name or row.order != order:
            raise RunIdConflictError(
                f"the run id {run_id!r} is taken by a run with another task; choose another id"
            )

    async def _execute(
        self, workflow_id: str, order: str, recorded: Mapping[str, str], step: Step, token: CancellationToken
    ) -> str:
        """Carry out an order, as far as that was not done before."""
        runtime = self.agent.runtime
        given: Begin | GoOn = from_json(Begin | GoOn, order)
        at = given.at if isinstance(given, GoOn) else 0.0
        journal = Journal(recorded, step, clock=self._clock, at=at, max_step=self._max_step)
        effects = partial(DurableEffects, journal)
        match given:
            case GoOn(outcome=interrupted, decisions=decisions):
                journal.token = token
                outcome = await runtime.go_on(
                    interrupted,
                    decisions,
                    cancellation=token,
                    events=self._sinks,
                    effects=effects,
                    clock=journal,
                )
            case Begin(task=task, history=history):

                async def begin() -> Deed:
                    return Deed(value=await self.agent.prompt(task))

                asked = fingerprint([order, self.agent.fixed_instructions])
                begun: Any = (await journal.perform("begin", asked, begin)).value
                journal.token = token
                outcome = await runtime.run(
                    task,
                    history=history,
                    instructions=begun[0],
                    advice=begun[1],
                    run_id=run_of(workflow_id),
                    cancellation=token,
                    events=self._sinks,
                    effects=effects,
                    clock=journal,
                )
        return to_json(Ending(outcome, outcome.events))

    def _decide(self, runs: Runs, run_id: str, token: str, decision: Decision) -> None:
        row = last(runs, run_id)
        found = next((item for item in waiting(runs, row) if item.token == token), None)
        if found is None:
            raise DurableError(f"no call of the run {run_id!r} waits for the token {token[:64]!r}")
        if found.expires_at is not None and self._clock.time() > found.expires_at:
            raise DurableError(f"the approval of {found.call.name!r} has expired; run the task again")
        if isinstance(decision, ApproveWith):
            call = ToolCall(found.call.id, found.call.name, decision.args)
            refused = self.agent.runtime.registry.prepare(call)
            if isinstance(refused, ToolDispatchError):
                raise DurableError(f"the approved arguments do not fit: {refused}") from refused
        if not runs.ledger.decide(run_id, token, to_json(decision)):
            raise DurableError(f"the approval of {found.call.name!r} was decided already")
        order = self._order_to_go_on(runs, row)
        if order is not None:
            runs.enqueue(self.name, next_id(row.id), order)
            if runs.ledger.is_cancelled(run_id):
                runs.cancel(next_id(row.id))

    def _order_to_go_on(self, runs: Runs, row: Row) -> str | None:
        """The order for the next stretch of an interrupted run, once each of its calls is decided."""
        outcome = ending_of(row).outcome
        assert isinstance(outcome, Interrupted)
        decided = runs.ledger.decisions(run_of(row.id))
        decisions = {item.token: decided[item.token] for item in outcome.pending if item.token in decided}
        if len(decisions) < len(outcome.pending):
            return None
        read = {token: from_json(Decision, text) for token, text in decisions.items()}
        return to_json(GoOn(outcome, read, self._clock.time()))

    def _ended(self, runs: Runs, row: Row) -> Outcome[OutT]:
        if standing(runs, row) is RunState.CANCELLED:
            base = runs.row(run_of(row.id))
            given: Begin | GoOn = from_json(Begin | GoOn, row.order if base is None else base.order)
            task = given.task if isinstance(given, Begin) else given.outcome.info.task
            idle = self.agent.runtime.start(task, run_id=run_of(row.id))
            return idle.interrupt("the run was cancelled", spent=Spent())
        if row.ending is None:
            kind, message = row.error or ("DurableError", f"DBOS gave it up: {row.status}")
            if kind == ReplayMismatchError.__name__:
                raise ReplayMismatchError(message)
            raise DurableError(f"the run {run_of(row.id)!r} could not go on: {kind}: {message}")
        ending = ending_of(row)
        outcome: Outcome[Any] = ending.outcome
        outcome.info.events.extend(ending.events)
        if isinstance(outcome, Completed):
            return replace(outcome, output=self.agent.runtime.read_output(outcome.text))
        return outcome

    def _result(self, outcome: Outcome[OutT]) -> RunResult[OutT]:
        return result_of(outcome, decide=f"approve({outcome.run_id!r}, token, Approve())")
