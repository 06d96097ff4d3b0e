"""The tree of runs: how a run hangs below the call that began it.

A call may run other agents: an agent as a tool, or a tool that runs one with `parent=ctx`. Such a run spends
from the account of the run above, is told in its log, is cancelled with it, and waits with it: when it is
interrupted, its outcome is kept with the call, and the run above, when it goes on, goes on with it too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from wesichain.agent.effects import Effects
from wesichain.agent.emitter import Emitter
from wesichain.agent.outcomes import RunInfo, interrupted_phase
from wesichain.agent.phases import Child, Completed, Failed, Interrupted, Outcome
from wesichain.agent.rules import question_token
from wesichain.agent.run_under_way import Running
from wesichain.agent.trail import Trail
from wesichain.core import (
    CallToken,
    CancellationToken,
    Clock,
    Decision,
    Event,
    LogView,
    Message,
    PendingCall,
    Question,
    Spent,
    ToolCall,
    ToolProgress,
)
from wesichain.errors import RunInterruptedError, ToolError, ToolErrorKind
from wesichain.policy import Account, Budget
from wesichain.tools import ToolContext

ITSELF = ""  # in place of an agent's name: the call itself waits, with a question of its own
_GIVEN_UP = "the call that it ran in was given up"


class Host(Protocol):
    """The batch that a call belongs to, as far as its site needs it."""

    @property
    def run(self) -> Running[Any]: ...

    @property
    def messages(self) -> LogView[Message]: ...

    @property
    def decisions(self) -> Mapping[str, Decision]: ...


class Site(CallToken):
    """One attempt at one call: what the runs inside it know of the run above, and it of them.

    It is also the token that the call is given. Most calls need neither: it is made when somebody looks.
    """

    __slots__ = (
        "_host",
        "_named",
        "_started",
        "_waiting",
        "attempt",
        "call",
        "failure",
        "interrupted",
        "living",
    )

    def __init__(self, host: Host, call: ToolCall, attempt: int, waiting: Sequence[Child]) -> None:
        self._run, self._reason, self._watchers = host.run, None, None  # as its class does
        self._host = host
        self._waiting = waiting  # runs from before an interruption, to go on with
        self._started = 0
        self._named = 0
        self.call = call
        self.attempt = attempt
        self.living: tuple[Emitter, ...] = ()
        self.interrupted: tuple[Child, ...] = ()  # runs inside that have ended so this time
        self.failure: Exception | None = None  # a mistake of the program's, which no policy decides on

    # --- what a run inside is given ----------------------------------------------------------------

    @property
    def account(self) -> Account:
        return self._host.run.account

    @property
    def clock(self) -> Clock:
        return self._host.run.settings.clock

    @property
    def messages(self) -> LogView[Message]:
        return self._host.messages

    @property
    def spent(self) -> Spent:
        run = self._host.run
        return run.account.spent(run.now())

    @property
    def scope(self) -> tuple[str, ...]:
        """The agents above a run inside this call."""
        run = self._host.run
        return (*run.scope, run.name)

    @property
    def decisions(self) -> Mapping[str, Decision]:
        return self._host.decisions

    @property
    def effects(self) -> Callable[[Effects], Effects] | None:
        below = getattr(self._host.run.effects, "below", None)
        return None if below is None else below(self.name)

    @property
    def name(self) -> str:
        """The call, as the scope of events: another attempt is another."""
        return self.call.id if self.attempt == 1 else f"{self.call.id}#{self.attempt}"

    def late(self, step: int) -> dict[str, Any]:
        """The fields of the call's context that few tools look at: with a site, they are most of its cost."""
        run, call_id = self._host.run, self.call.id
        return {
            "correlation_id": run.run_id,
            "cancellation": self,
            "idempotency_key": f"{run.run_id}:{step}:{call_id}",
            "scope": run.scope,
            "link": self,
            "budget": run.account,
            "emit": self.emit,
        }

    @property
    def was_asking(self) -> bool:
        """Whether the call has begun before, and waited for the answer to a question of its own."""
        return any(child.agent == ITSELF for child in self._waiting)

    def ask(self, question: Question, number: int = 0) -> Decision:
        """A person's answer. Where nobody has answered yet, the call ends here, and waits for it.

        `number` counts the questions of this call that are the same, from 0.
        """
        run, call = self._host.run, self.call
        token = question_token(run.run_id, run.step, call, question, number)
        decision = self._host.decisions.get(token)
        if decision is not None:
            return decision
        ttl = run.settings.approval_ttl
        expires_at = None if ttl is None else run.settings.clock.time() + ttl
        pending = PendingCall(call, token, expires_at, run.scope, external=True, question=question)
        held = waiting_for((pending,), run.run_id, run.step)
        self.ended(ITSELF, held)
        raise RunInterruptedError(f"{call.name!r} waits for an answer to: {question.message}", held)

    async def sample(self, messages: Sequence[Message], ctx: ToolContext) -> tuple[str, str]:
        """The reply of the run's own model to messages, and its name: a run of one step below this call."""
        below = self._host.run.settings.beside(budget=Budget(steps=1), name="sampling")
        *before, last = messages
        outcome = await below.run(last.content, history=before, parent=ctx)
        if isinstance(outcome, Completed):
            return outcome.text, below.model
        why = outcome.error if isinstance(outcome, Failed) else outcome.reason
        raise ToolError(f"the model could not be asked: {why}", ToolErrorKind.UNAVAILABLE)

    def new_id(self) -> str:
        """The id of a further run inside: the same whenever this attempt is made."""
        run, self._named = self._host.run, self._named + 1
        again = "" if self._named == 1 else f"~{self._named}"
        return f"{run.run_id}:{run.step}:{self.name}{again}"

    def take_waiting(self, agent: str) -> Interrupted[Any] | None:
        """A run of this agent that was interrupted in this call, and goes on now."""
        for child in self._waiting:
            if child.agent == agent:
                self._waiting = [other for other in self._waiting if other is not child]
                return child.outcome
        return None

    # --- what runs inside tell ---------------------------------------------------------------------

    def open_relay(self, emit: Callable[[Event], None]) -> Callable[[Event], None]:
        """The relay that a further run inside tells its events to: each has a scope of its own."""
        self._started += 1
        if self._started == 1:
            return emit
        mark = f"~{self._started}"
        return lambda event: emit(replace(event, scope=f"{mark}/{event.scope}" if event.scope else mark))

    def emit(self, event: Event) -> None:
        """Tell an event of a run inside. A run in a sync tool's thread tells it to the loop's own thread."""
        task = self._host.run.task
        try:
            here: object = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        loop = None if task is None else task.get_loop()
        if loop is None or here is loop:
            self._relay(event)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._relay, event)

    @property
    def _is_open(self) -> bool:
        return self._reason is None  # nothing but `close` sets it: to cancel the token is to cancel the run's

    def _relay(self, event: Event) -> None:
        if self._is_open:
            self._host.run.emitter.relay(event, self.name)

    def progress(self, done: float, total: float | None, message: str) -> None:
        run = self._host.run
        if self._is_open:
            run.emitter.tell(ToolProgress, run.step, self.call.id, done, total, message)

    def ended(self, agent: str, outcome: Outcome[Any]) -> None:
        """A run inside has ended; one that was interrupted is kept, so that it can go on."""
        if isinstance(outcome, Interrupted):
            self.interrupted += (Child(self.call.id, agent, self.attempt, outcome),)

    # --- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """The call is over: runs inside that go on all the same are stopped, and are told no more."""
        if self._reason is not None:
            return
        for emitter in self.living:
            if not emitter.is_closed:
                emitter.run_interrupted(0, _GIVEN_UP, Spent())
        self.abandon(_GIVEN_UP)


def site_of(parent: ToolContext | None) -> Site | None:
    """The call that a run is begun in, if the run above is one of ours."""
    link = None if parent is None else parent.link
    return link if isinstance(link, Site) else None


def token_for(given: CancellationToken | None, parent: ToolContext | None) -> CancellationToken | None:
    """A token of the run's own, below those that it was given; None where nobody gave one."""
    above = [
        token for token in (given, parent.cancellation if parent is not None else None) if token is not None
    ]
    return CancellationToken(*above) if above else None


def waiting_for(pending: tuple[PendingCall, ...], run_id: str, step: int) -> Interrupted[Any]:
    """A stand-in for a call that waits, as if it were a run inside."""
    return interrupted_phase(RunInfo(run_id, "", ""), Trail.of([]), Spent(), step, "external", pending)
