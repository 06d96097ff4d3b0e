"""The durable agent: an agent whose runs outlive their process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from typing_extensions import Unpack, override

from wesichain.agent import Agent, AnyModel, Completed, Decision, Interrupted, Outcome, RunMemory, RunResult
from wesichain.agent.internal import result_of
from wesichain.core import Event, EventSink, Message, ModelSettings, Part, to_json
from wesichain.core.internal import Clock, SystemClock, replace
from wesichain.errors import ConfigError, DurableError, RunIdConflictError
from wesichain.policy import Budget
from wesichain.tools import Tool

from .conversation_turns import ConversationTurns
from .engine import Engine
from .execution import Execution
from .journal.step_journal import MAX_STEP, Program
from .live_text import LiveText
from .runs import mapped
from .served import ServedRuns
from .states import task_preview
from .store.ledger import NewRun
from .store.queue import Concurrency, Rate
from .versions import checked_version, version_of
from .work import PRIORITY, DepsFactory, OnChange, ServiceSettings, Work, checked_factory
from .workflow_ids import BeginWorkflow, NewTask, asked_of_begin, begin_order, new_id, read_order

OutT = TypeVar("OutT")
_PAUSE = 0.02  # seconds between two polls for a run that is about to be stored
Task: TypeAlias = str | Part | Sequence[str | Part]


class DurableAgent(ServedRuns, Generic[OutT]):
    """Runs an agent's tasks as DBOS workflows: finished steps are kept when a process dies.

    Runs are stored under `name`: use the same one in every process that runs, queues or watches them.
    Without a `database_url` they are stored in a SQLite file in the user's data folder. A process that has
    called `run`, `resume` or `serve` also takes runs from the agent's queue, as `concurrency` and `rate`
    allow; the other methods run nothing. Other processes continue the runs of a dead one after about `lease`
    seconds; a run whose process died more than `max_recoveries` times at the same step fails.

    `version` names the program; by default it is a hash of its instructions, tools and output type. Runs in
    progress stay with workers of their version (`on_change="wait"`), or continue under this one after their
    last finished step ("adopt"). `deps` is a function or a context manager, without parameters or of the
    run's id, that makes the `ctx.deps` of a run: it is called in the process that runs it, and its result is
    never stored.
    `events` are sinks beside the agent's own; where a run continues in another process, the sinks there
    receive its events from the first one on. A step may have at most `max_step` bytes.
    """

    def __init__(
        self,
        agent: Agent[Any, OutT],
        name: str | None = None,
        *,
        deps: DepsFactory | None = None,
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
        if max_step < 1:
            raise ConfigError(f"max_step={max_step} must be above zero")
        self.agent = agent
        make_deps = checked_factory(deps, "deps of a DurableAgent")
        sinks = (events,) if isinstance(events, EventSink) else tuple(events or ())
        clock = clock or SystemClock()
        named = agent.name if name is None else name
        program = Program(version_of(agent) if version is None else checked_version(version), version is None)
        self._live = LiveText(clock)
        self._turns = ConversationTurns(self.outcome, self.status)
        self._execution = Execution(agent, program, named, sinks, clock, max_step, self._live, make_deps)
        super().__init__(
            named,
            program.version,
            self._execution.run_to_end,
            database_url=database_url,
            on_change=on_change,
            concurrency=concurrency,
            rate=rate,
            max_recoveries=max_recoveries,
            lease=lease,
            clock=clock,
            own={"deps": deps, "version": version, "max_step": max_step, "events": sinks},
        )

    def configured(self, **changes: Unpack[ServiceSettings]) -> DurableAgent[OutT]:
        """Return a copy with other settings. `events` are sinks beside its own."""
        return DurableAgent(self.agent, **self._changed(changes))

    # --- running -------------------------------------------------------------------------------------

    async def run(
        self,
        task: Task,
        *,
        run_id: str | None = None,
        history: Sequence[Message] = (),
        conversation: RunMemory | None = None,
        model: AnyModel | None = None,
        budget: Budget | None = None,
        settings: ModelSettings | None = None,
        tools: Sequence[Tool[Any]] = (),
    ) -> RunResult[OutT]:
        """Run a task and return its result. An existing `run_id` is continued.

        `task` is a text, or a list of texts and parts. `conversation` is read when the run begins. Once the
        run has completed, its question and answer are added, once, by this process; if it has died, a call
        with the same id adds them. `model`, `budget`, `settings` and `tools` (external ones, beside the
        agent's) apply to this run, in any process that continues it. A `model` that is an object and not
        "PROVIDER:NAME" exists in this process only: another process cannot continue the run until it is
        called there with the same id, task and model. Raises as `Agent.run` does, and `RunIdConflictError`
        if the id belongs to a run with another task. Cancelling the call that began a run cancels the run.
        A run that another version began waits for a worker of that version.
        """
        given = NewTask(task, history, conversation, model, budget, settings, tools)
        with self._live.begun(chosen := new_id(run_id)):
            order = await self._order(given)
            engine = await self._serving()
            new = self._new(order, chosen)
            if model is not None and not isinstance(model, str):
                self._execution.models[chosen] = model
            ending = await mapped(engine.start(self._service, new))
            if ending is None:
                outcome = await self._there(new)
            else:
                outcome = await self._here(engine, chosen, ending)
        is_new = ending is not None
        order = order if is_new else replace(order, earlier=())  # its turn may be among those read now
        if conversation is not None and isinstance(outcome, Completed):
            await self._turns.add(chosen, conversation, order, outcome, is_new=is_new)
        elif conversation is not None and isinstance(outcome, Interrupted):
            self._turns.follow(new.run_id, conversation, order, is_new=is_new)
        return self._result(outcome)

    async def enqueue(
        self,
        task: Task,
        *,
        run_id: str | None = None,
        history: Sequence[Message] = (),
        conversation: RunMemory | None = None,
        model: str | None = None,
        budget: Budget | None = None,
        settings: ModelSettings | None = None,
        tools: Sequence[Tool[Any]] = (),
        priority: int = PRIORITY,
        delay: float | None = None,
        key: str | None = None,
    ) -> str:
        """Queue a task for the workers that serve the agent, and return the id of its run.

        `task`, `conversation`, `model`, `budget`, `settings` and `tools` are as in `run`. Runs of `priority`
        1 are served before those of 2; the default is 10. `delay` is in seconds. `key` names a customer or a
        tenant: keys take turns, and limits per key count the runs of each key.
        """
        if model is not None and not isinstance(model, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may
            raise ConfigError(
                f"model={model!r:.60}: another process may run a queued task, so use a name, "
                f"'PROVIDER:NAME', or give the object to the Agent"
            )
        given = NewTask(task, history, conversation, model, budget, settings, tools)
        order = await self._order(given)
        new = replace(self._new(order, run_id), priority=priority)
        is_new = await self._queue(new, delay=delay, key=key)
        order = order if is_new else replace(order, earlier=())  # its turn may be among those read now
        if conversation is not None:
            self._turns.follow(new.run_id, conversation, order, is_new=is_new)
        return new.run_id

    @override
    async def events(self, run_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Yield the events of a run, in any process, as they arrive, until it ends or is interrupted.

        For a run in this process, the model's text is streamed in `TextDelta` events, which are not stored
        and have no number (`seq` 0). `after` is the number of the last event that a reader has received: it
        receives later events, and the model's text from now on.
        """
        stored, last = self._stored_events(run_id), after
        upcoming: asyncio.Future[Event | None] = asyncio.ensure_future(anext(stored, None))
        arrival: asyncio.Future[None] | None = None
        with self._live.listening(run_id, is_new=not after) as live:
            try:
                while True:
                    event = live.next(last)
                    if event is None and upcoming.done():
                        event = upcoming.result()
                        if event is None:
                            return
                        upcoming = asyncio.ensure_future(anext(stored, None))
                        if event.seq <= last:
                            continue
                    if event is not None:
                        last = max(last, event.seq)
                        yield event
                        continue
                    arrival = asyncio.ensure_future(live.wait())
                    await asyncio.wait((upcoming, arrival), return_when=asyncio.FIRST_COMPLETED)
                    arrival.cancel()
            finally:
                upcoming.cancel()
                if arrival is not None:
                    arrival.cancel()

    async def _stored_events(self, run_id: str) -> AsyncIterator[Event]:
        """Yield the stored events; wait for a run that `run` is about to store in this process."""
        is_there = False
        while not is_there:
            try:
                async for event in super().events(run_id):
                    is_there = True
                    yield event
                return
            except DurableError:
                if is_there or not self._live.is_begun(run_id):
                    raise
            await asyncio.sleep(_PAUSE)

    async def resume(self, run_id: str) -> RunResult[OutT]:
        """Continue a run that was cancelled or refused, or interrupted and decided on; return its result."""
        await self._runs.status(run_id)
        await self._serving()
        await self._runs.resume(run_id)
        self._wake()
        return self._result(await self.outcome(run_id))

    # --- deciding ------------------------------------------------------------------------------------

    async def approve(self, run_id: str, token: str, decision: Decision) -> None:
        """Decide on a waiting call, once. The last decision requeues the run."""
        await self.decide(run_id, {token: decision})

    async def decide(self, run_id: str, decisions: Mapping[str, Decision]) -> None:
        """Decide on several waiting calls by their tokens: on all of them, or on none if it raises."""
        await self._runs.decide(run_id, decisions, refusal_of=self.agent.runtime.refusal_of)
        self._wake()

    async def outcome(self, run_id: str, *, timeout: float | None = None) -> Outcome[OutT]:
        """Wait for the end or the interruption of a run and return its outcome; raises if it was refused."""
        run = await self._runs.finished(run_id, timeout=timeout)
        outcome = await self._runs.ask(lambda store: self._execution.read_outcome(store, run))
        return await self._execution.replay(outcome) if isinstance(outcome, Work) else outcome

    async def result(self, run_id: str, *, timeout: float | None = None) -> RunResult[OutT]:
        """Wait for a run and return its result; raises as `run` does."""
        return self._result(await self.outcome(run_id, timeout=timeout))

    async def conversation(self, run_id: str) -> str | None:
        """Return the id of the conversation that the run is part of, or None."""
        payloads = await self._runs.ask(lambda store: store.payloads([run_id]))
        order = read_order(payloads[0].order) if payloads else None
        return (order.conversation or None) if isinstance(order, BeginWorkflow) else None

    async def follow(self, run_id: str, conversation: RunMemory) -> None:
        """Add the turn of a run to its conversation when it has completed, whichever process began it."""
        payloads = await self._runs.ask(lambda store: store.payloads([run_id]))
        order = read_order(payloads[0].order) if payloads else None
        if isinstance(order, BeginWorkflow):
            self._turns.follow(run_id, conversation, order, is_new=False)

    # --- inside --------------------------------------------------------------------------------------

    async def _order(self, given: NewTask) -> BeginWorkflow:
        if given.tools:
            self.agent.with_tools(*given.tools)  # raises where one has the name of a tool of the agent
        if given.conversation is not None:
            await self._turns.catch_up(given.conversation)
        return await begin_order(given)

    def _new(self, order: BeginWorkflow, run_id: str | None) -> NewRun:
        asked, shown = asked_of_begin(order), task_preview(order.task)
        return NewRun(new_id(run_id), self.name, self.version, to_json(order), asked, task=shown)

    async def _here(
        self, engine: Engine, run_id: str, ending: asyncio.Future[Outcome[OutT] | None]
    ) -> Outcome[OutT]:
        """Wait for the outcome of a run that began here. If the caller is cancelled, so is the run."""
        try:
            outcome = await asyncio.shield(ending)
            return await self.outcome(run_id) if outcome is None else outcome
        except asyncio.CancelledError:
            await self.cancel(run_id)
            await engine.until_idle(2.0, run_id)
            raise

    async def _there(self, new: NewRun) -> Outcome[OutT]:
        """Wait for the outcome of a run that existed before this call; forget its model when it has ended."""
        models = self._execution.models
        try:
            await self._check(new)
        except RunIdConflictError:
            models.pop(new.run_id, None)
            raise
        outcome = await self.outcome(new.run_id)
        if not isinstance(outcome, Interrupted):
            models.pop(new.run_id, None)
        return outcome

    def _result(self, outcome: Outcome[OutT]) -> RunResult[OutT]:
        return result_of(outcome, decide=f"approve({outcome.run_id!r}, token, Approve())")

    @override
    async def cancel(self, run_id: str) -> None:
        """Cancel a run in any process and phase. It stays cancelled until it is resumed."""
        await super().cancel(run_id)
        self._execution.models.pop(run_id, None)

    @override
    async def close(self, *, grace: float = 5.0) -> None:
        """Close the database. Runs have `grace` seconds to end; other processes continue the rest."""
        await self._turns.close()
        await super().close(grace=grace)
        self._execution.models.clear()
