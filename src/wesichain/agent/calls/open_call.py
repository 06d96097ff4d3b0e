"""Runs inside a call: the link between a run and the call that started it.

A tool may run agents: an agent used as a tool, or any number of runs started with `parent=ctx`, one after
the other or gathered. Each has a number within the attempt. An inner run spends from the account of the run
above, is part of its log and is cancelled with it. Outcomes are kept until the call ends. When the call is
made again after an interruption, completed runs return their outcome, and interrupted ones are resumed.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from wesichain.agent.effects import Effects
from wesichain.agent.phases import Child, Completed, Failed, Interrupted, Outcome, RunInfo, interrupted_phase
from wesichain.agent.run_state import CALL_ENDED, RunState, Settings
from wesichain.agent.trail import Trail
from wesichain.core import Event, Message, ToolCall
from wesichain.core.internal import (
    CallToken,
    Decision,
    LogView,
    Mutable,
    PendingCall,
    Question,
    Spent,
    ToolProgress,
    field,
    replace,
    running_loop,
)
from wesichain.errors import BudgetExceededError, RunInterruptedError, ToolError, ToolErrorKind
from wesichain.policy import Budget
from wesichain.policy.internal import Account, chain_of
from wesichain.tools import ToolContext

from .call_approvals import question_token

ITSELF = ""  # in place of an agent's name: the call itself waits for an answer to its question
_NUMBERING = threading.RLock()  # runs may be started from a tool's thread


class InnerRun(Mutable):
    """The place of one run inside a call: its number within the attempt, and its previous outcome."""

    call: OpenCall
    number: int
    branch: int
    outcome: Outcome[Any] | None = None  # from before an interruption

    @property
    def run_id(self) -> str:
        """The id of the run. It is the same whenever this attempt is made."""
        run, again = self.call.run, "" if self.number == 1 else f"~{self.number}"
        return f"{run.run_id}:{run.step}:{self.call.name}{again}"

    @property
    def effects(self) -> Callable[[Effects], Effects] | None:
        """The wrapper for the effects of this run, from the effects of the run above."""
        return self.call.run.effects.below(self.call.name, self.number)

    def relay(self, emit: Callable[[Event], None]) -> Callable[[Event], None]:
        """The function that receives the events of this run. Every run but the first has its own scope."""
        if self.number == 1:
            return emit
        mark = f"~{self.number}"
        return lambda event: emit(replace(event, scope=f"{mark}/{event.scope}" if event.scope else mark))

    def fail(self, error: Exception) -> None:
        """Record that the run failed by a mistake of the program, which also ends the run above."""
        self.call.failure = self.call.failure or error

    def ended(self, agent: str, outcome: Outcome[Any]) -> None:
        call, level = self.call, 0
        error = outcome.error if isinstance(outcome, Failed) else None
        if isinstance(error, BudgetExceededError):
            level = call.account.level_of(error.owner)
            call.limit = error if level else call.limit
        call.run_ended(
            Child(call.call.id, agent, call.attempt, outcome, self.number, self.branch, limit_level=level)
        )


class OpenCall(Mutable):
    """One attempt at one call that has not ended. It is made on first use: most calls need none."""

    run: RunState[Any]
    messages: LogView[Message]
    decisions: Mapping[str, Decision]
    call: ToolCall
    attempt: int
    _kept: list[Child]  # runs from before an interruption that were not resumed or reused yet
    failure: Exception | None = None  # a mistake of the program, which no policy decides on
    must_wait: bool = False  # set by a replay: the call waited in the recording
    limit: BudgetExceededError | None = None  # of a run above, met by a run inside
    token: CallToken = field(init=False)
    # For each task that starts runs: its number, and the number of its runs.
    _branches: dict[object, list[int]] = field(default_factory=dict[object, list[int]])
    _runs: dict[int, Child] = field(default_factory=dict[int, Child])  # runs that have ended, by number
    _begun: dict[int, RunState[Any]] = field(default_factory=dict[int, Any])  # runs inside, by number
    _idle: asyncio.Future[None] | None = None
    _places: dict[tuple[int, int], Child] = field(init=False)
    _last: int = field(init=False)

    def __post_init__(self) -> None:
        self.token = CallToken(self.run)
        self._places = _places(self._kept)
        self._last = max((child.number for child in self._kept), default=0)

    # --- starting runs inside ----------------------------------------------------------------------

    def place(self, agent: str = "", task: str = "") -> InnerRun:
        """The place of the next run inside.

        A previous run is identified by its agent and task. If no task is equal (it may contain the time), or
        several are, the run is identified by its branch (each gathered task of the tool is one, in the order
        in which they start runs) and by the number of runs before it in that branch.
        """
        with _NUMBERING:
            branch = self._branches.setdefault(_starter(), [len(self._branches) + 1, 0])
            branch[1] += 1
            kept = self._from_before(agent, task, (branch[0], branch[1]))
            if kept is not None:
                self._kept.remove(kept)
                self._restore_limit(kept)
                return InnerRun(self, kept.number, kept.branch, kept.outcome)
            self._last += 1
            return InnerRun(self, self._last, branch[0])

    def _from_before(self, agent: str, task: str, place: tuple[int, int]) -> Child | None:
        own = [child for child in self._kept if child.agent == agent]
        same = [child for child in own if child.outcome.info.task == task]
        here = [child for child in same or own if child is self._places.get(place)]
        return min(here or same, key=_number, default=None)

    def _restore_limit(self, kept: Child) -> None:
        """Attach the limit that a kept run had met to the present account of the run that owns it."""
        error = kept.outcome.error if isinstance(kept.outcome, Failed) else None
        if kept.limit_level and isinstance(error, BudgetExceededError):
            error.owner = self.account.at_level(kept.limit_level)

    @property
    def account(self) -> Account:
        return self.run.account

    @property
    def settings(self) -> Settings[Any]:
        """The settings of the agent that acts in the run above."""
        return self.run.settings

    @property
    def spent(self) -> Spent:
        return self.run.spent()

    @property
    def scope(self) -> tuple[str, ...]:
        """The agents above a run inside this call."""
        run = self.run
        return (*run.scope, run.name)

    @property
    def name(self) -> str:
        """The call as a scope of events. Every attempt has its own."""
        return self.call.id if self.attempt == 1 else f"{self.call.id}#{self.attempt}"

    def late(self, step: int) -> dict[str, Any]:
        """The fields of the call's context that few tools read, and that take most of the time to make."""
        run = self.run
        return {
            "correlation_id": run.run_id,
            "cancellation": self.token,
            "idempotency_key": f"{run.run_id}:{step}:{self.call.id}",
            "scope": run.scope,
            "link": self,
            "budget": run.account,
            "emit": self.emit,
        }

    # --- questions of the call itself ----------------------------------------------------------------

    @property
    def was_waiting_for_answer(self) -> bool:
        """Whether the call was made before, and waited for the answer to a question of its own."""
        return any(child.agent == ITSELF for child in self._kept)

    def ask(self, question: Question, number: int = 0) -> Decision:
        """Return a person's answer. Without an answer yet, raise, so that the call waits for it.

        `number` counts equal questions of this call, from 0.
        """
        run, call = self.run, self.call
        token = question_token(run.run_id, run.step, call, question, number)
        decision = self.decisions.get(token)
        if decision is not None:
            return decision
        ttl = run.settings.approval_ttl
        expires_at = None if ttl is None else run.settings.clock.time() + ttl
        pending = PendingCall(call, token, expires_at, run.scope, external=True, question=question)
        waiting = waiting_for((pending,), run.run_id, run.step)
        self.run_ended(Child(call.id, ITSELF, self.attempt, waiting, 0))
        raise RunInterruptedError(f"{call.name!r} waits for an answer to: {question.message}", waiting)

    async def sample(self, messages: Sequence[Message], ctx: ToolContext) -> tuple[str, str]:
        """The reply of the run's own model to messages, and the model's name. It takes a run of one step."""
        below = self.run.settings.beside(budget=Budget(steps=1), name="sampling")
        *before, last = messages
        outcome = await below.run(last.content, history=before, parent=ctx)
        if isinstance(outcome, Completed):
            return outcome.text, below.model
        why = outcome.error if isinstance(outcome, Failed) else outcome.reason
        raise ToolError(f"the model could not be asked: {why}", ToolErrorKind.UNAVAILABLE)

    # --- called by runs inside ---------------------------------------------------------------------

    def run_began(self, number: int, run: RunState[Any]) -> None:
        self._begun[number] = run

    def run_ended(self, child: Child) -> None:
        """Keep the outcome of a run while the call is open, so that the run is not made again."""
        self._runs[child.number] = child
        if self._idle is not None and not self.has_live_runs:
            idle = self._idle
            idle.get_loop().call_soon_threadsafe(lambda: None if idle.done() else idle.set_result(None))

    def emit(self, event: Event) -> None:
        """Relay an event of a run inside, from a tool's thread to the thread of the event loop."""
        task = self.run.task
        loop = None if task is None else task.get_loop()
        if loop is None or loop is running_loop():
            self._relay(event)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._relay, event)

    def _relay(self, event: Event) -> None:
        if not self.token.is_abandoned:
            self.run.emitter.relay(event, self.name)

    def progress(self, done: float, total: float | None, message: str) -> None:
        run = self.run
        if not self.token.is_abandoned:
            run.emitter.emit(ToolProgress, run.step, self.call.id, done, total, message)

    # --- the end -----------------------------------------------------------------------------------

    @property
    def has_runs(self) -> bool:
        """Whether a run inside has begun."""
        return bool(self._begun)

    @property
    def has_live_runs(self) -> bool:
        return any(not run.emitter.is_closed for run in [*self._begun.values()])

    @property
    def kept(self) -> tuple[Child, ...]:
        """The runs of this attempt that have ended, and previous ones that were not used again."""
        runs = {child.number: child for child in self._kept} | self._runs
        return tuple(runs[number] for number in sorted(runs))

    @property
    def is_interrupted(self) -> bool:
        """Whether a run inside was interrupted, so that the call can be resumed."""
        return any(isinstance(child.outcome, Interrupted) for child in self._runs.values())

    def waits(self, error: BaseException | None) -> bool:
        """Whether a call that ended with this error, or without one, waits to be resumed.

        It does if a run inside has pending calls or was stopped with the run above, whatever the tool did
        then; and if a run was interrupted and the tool raises that.
        """
        interrupted = [
            child.outcome for child in self._runs.values() if isinstance(child.outcome, Interrupted)
        ]
        if self.must_wait or not interrupted:
            return self.must_wait
        if self.run.is_stopped or any(outcome.pending for outcome in interrupted):
            return True
        return error is not None and any(isinstance(one, RunInterruptedError) for one in _causes(error))

    async def wait_until_idle(self) -> None:
        """Wait until all runs inside have ended."""
        self._idle = asyncio.get_running_loop().create_future()
        if self.has_live_runs:
            await self._idle

    def close(self) -> None:
        """End the call. Runs inside that still work are stopped, and their events are dropped."""
        for run in self._begun.values():
            if not run.emitter.is_closed:
                run.give_up(CALL_ENDED)
        self.token.abandon(CALL_ENDED)


def waiting_for(pending: tuple[PendingCall, ...], run_id: str, step: int) -> Interrupted[Any]:
    """A stand-in outcome for a call that waits for an answer to its own question."""
    return interrupted_phase(RunInfo(run_id, "", ""), Trail.of([]), Spent(), step, "external", pending)


def _number(child: Child) -> int:
    return child.number


def _places(kept: Sequence[Child]) -> dict[tuple[int, int], Child]:
    """The previous runs, by their branch and their position in it."""
    counts: Counter[int] = Counter()
    places: dict[tuple[int, int], Child] = {}
    for child in sorted(kept, key=_number):
        counts[child.branch] += 1
        places[child.branch, counts[child.branch]] = child
    return places


def _starter() -> object:
    """The task that starts a run, or the thread if there is no task."""
    loop = running_loop()
    return (loop and asyncio.current_task(loop)) or threading.current_thread()


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, the causes behind it, and those inside groups of errors."""
    for cause in chain_of(error):
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            group: BaseExceptionGroup[BaseException] = cast("Any", cause)
            for one in group.exceptions:
                yield from _causes(one)
