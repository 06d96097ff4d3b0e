"""Runs inside a call: the link between a run and the call that started it.

A tool may run agents: an agent used as a tool, or any number of runs with `parent=ctx`, in any task or
thread. An inner run has a place in the log of the outermost one: that of the call and its own key, or its
number among the runs of its agent. It spends from the account of the run above and is cancelled with it. A
call that is made again, after an interruption, finds what its runs have done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from wesichain.agent.phases import Completed, Failed, Interrupted, Outcome
from wesichain.agent.run_state import CALL_ENDED, RunState, Settings
from wesichain.core import Message, ToolCall
from wesichain.core.internal import (
    CallToken,
    CancellationToken,
    Clock,
    Decision,
    Mutable,
    Question,
    Spent,
    Suspended,
    ToolProgress,
    field,
)
from wesichain.errors import (
    BudgetExceededError,
    ConfigError,
    JournalMismatchError,
    RunEndedError,
    RunInterruptedError,
    ToolError,
    ToolErrorKind,
)
from wesichain.journal.internal import Answer, JournalLog, call_place
from wesichain.policy import Budget
from wesichain.policy.internal import Account, chain_of
from wesichain.tools import ToolContext

from .questions import asked_about

if TYPE_CHECKING:
    from wesichain.journal import Journal
    from wesichain.journal.internal import Claims


class OpenCall(Mutable):
    """One attempt at one call that has not ended. It is made on first use: most calls need none."""

    run: RunState[Any]
    messages: Sequence[Message]
    call: ToolCall
    attempt: int
    failure: Exception | None = None  # a mistake of the program, which no policy decides on
    limit: BudgetExceededError | None = None  # of a run above, met by a run inside
    token: CallToken = field(init=False)
    place: str = field(init=False)  # of this attempt
    _waits: bool = False  # whether the call asks a person, or waits for something
    _is_closed: bool = False
    _claims: Claims | None = None
    _journal: Journal | None = None
    _live: dict[str, RunState[Any]] = field(default_factory=dict[str, Any])  # runs inside, by place
    _ended: dict[str, Outcome[Any]] = field(default_factory=dict[str, Any])  # those that have ended
    _idle: asyncio.Future[None] | None = None

    def __post_init__(self) -> None:
        self.token = CallToken(self.run)
        self.place = call_place(self.run.log.place, self.call.id, self.attempt)

    # --- runs inside ---------------------------------------------------------------------------------

    def claim(self, agent: str, task: str, key: str | None = None, *, alone: bool = False) -> str:
        """The place of a run inside (see `Claims`). What cannot be found again fails the run above."""
        if self._is_closed:
            raise RunEndedError(
                f"the call of {self.call.name!r} has ended, and a run of {agent!r} was to start inside it; await "
                f"the run before the tool returns, or start it without parent="
            )
        if self._claims is None:
            from wesichain.journal.internal import Claims  # loaded with the first run inside a call

            keyed = call_place(self.run.log.place, self.call.id)
            what = f"the call of {self.call.name!r}"
            self._claims = Claims(self.run.log.log, self.place, keyed, what=what)
        try:
            return self._claims.claim(agent, task, key, alone=alone)
        except (ConfigError, JournalMismatchError) as error:
            self.run_failed(error)
            raise

    def run_began(self, place: str, run: RunState[Any]) -> None:
        self._live[place] = run

    def run_ended(self, place: str, outcome: Outcome[Any]) -> None:
        error = outcome.error if isinstance(outcome, Failed) else None
        if isinstance(error, BudgetExceededError) and self.account.is_above(error.owner):
            self.limit = error
        self._ended[place] = outcome
        self._live.pop(place, None)
        if not isinstance(outcome, Interrupted):
            self._log.settle(place)
        if self._idle is not None and not self._live:
            idle = self._idle
            idle.get_loop().call_soon_threadsafe(lambda: None if idle.done() else idle.set_result(None))

    def run_failed(self, error: Exception) -> None:
        """Record that a run failed by a mistake of the program, which also ends the run above."""
        self.failure = self.failure or error

    @property
    def journal(self) -> Journal:
        """Where steps and waits of the tool have names."""
        if self._journal is None:
            from .call_frame import journal_of  # loaded with the first step of a tool

            self._journal = journal_of(self)
        return self._journal

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def flow(self) -> Any:
        """The rule of the run above, which holds for runs inside too."""
        return self.run.flow

    @property
    def _log(self) -> JournalLog:
        return self.run.log.log

    @property
    def log(self) -> JournalLog:
        """The log of the tree of runs."""
        return self.run.log.log

    @property
    def account(self) -> Account:
        return self.run.account

    @property
    def clock(self) -> Clock:
        return self.run.settings.clock

    @property
    def run_token(self) -> CancellationToken:
        """The token that stops the run above."""
        return self.run.token

    @property
    def pressure(self) -> Any:
        """Waits for a slow reader of the run above."""
        return self.run.pressure

    suspends = False  # a run inside that waits raises in the tool

    @property
    def settings(self) -> Settings[Any]:
        """The settings of the agent that acts in the run above."""
        return self.run.settings

    @property
    def by(self) -> str:
        """Who asked for the outermost run."""
        begin = self._log.begin_of()
        return "" if begin is None else begin.by

    @property
    def spent(self) -> Spent:
        return self.run.spent()

    @property
    def scope(self) -> tuple[str, ...]:
        """The agents above a run inside this call."""
        run = self.run
        return (*run.scope, run.name)

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
            "emit": None,
        }

    # --- questions of the call itself ----------------------------------------------------------------

    @property
    def was_waiting_for_answer(self) -> bool:
        """Whether the call was made before, and waited for the answer to a question of its own."""
        return any(name.startswith(f"{self.place}asked ") for name in self._log.names_inside(self.place))

    def ask(self, question: Question, number: int = 0) -> Decision:
        """Return a person's answer. Without an answer yet, raise, so that the call waits for it.

        `number` counts equal questions of this call, from 0.
        """
        run, call = self.run, self.call
        asked = asked_about(run, call, form=question, number=number)
        answer = self._log.find(f"{self.place}answer {asked.token}", Answer)
        if answer is not None and answer.decision is not None:
            return answer.decision
        if not self._log.has(f"{self.place}asked {asked.token}"):
            self._log.ask(f"{self.place}asked {asked.token}", asked)
        self._waits = True
        raise Suspended(f"{call.name!r} waits for an answer to: {question.message}")

    async def sample(self, messages: Sequence[Message], ctx: ToolContext) -> tuple[str, str]:
        """The reply of the run's own model to messages, and the model's name. It takes a run of one step."""
        below = self.run.settings.beside(budget=Budget(steps=1), name="sampling")
        *before, last = messages
        outcome = await below.run(last.content, history=before, parent=ctx)
        if isinstance(outcome, Completed):
            return outcome.text, below.model
        why = outcome.error if isinstance(outcome, Failed) else outcome.reason
        raise ToolError(f"the model could not be asked: {why}", ToolErrorKind.UNAVAILABLE)

    def progress(self, done: float, total: float | None, message: str) -> None:
        run = self.run
        if not self.token.is_abandoned:
            run.log.announce(ToolProgress, run.step, self.call.id, done, total, message)

    # --- the end -----------------------------------------------------------------------------------

    @property
    def has_runs(self) -> bool:
        """Whether a run inside has begun."""
        return bool(self._live or self._ended)

    @property
    def has_live_runs(self) -> bool:
        return bool(self._live)

    @property
    def is_interrupted(self) -> bool:
        """Whether a run inside was interrupted, so that the call is entered again."""
        return self._waits or any(isinstance(one, Interrupted) for one in [*self._ended.values()])

    @property
    def why_interrupted(self) -> str:
        """The reason of a run inside that was interrupted."""
        return next((one.reason for one in self._ended.values() if isinstance(one, Interrupted)), "")

    def waits(self, error: BaseException | None) -> bool:
        """Whether a call that ended with this error, or without one, is entered again.

        It is if a run inside waits for people or was stopped with the run above, whatever the tool did then;
        and if the call waits itself, or a run was interrupted, and the tool raises that.
        """
        if error is not None and any(isinstance(one, Suspended) for one in _causes(error)):
            return True
        if not self.is_interrupted:
            return False
        interrupted = [one for one in self._ended.values() if isinstance(one, Interrupted)]
        if self._waits or self.run.is_stopped or any(one.pending for one in interrupted):
            return True
        return error is not None and any(isinstance(one, RunInterruptedError) for one in _causes(error))

    async def wait_until_idle(self) -> None:
        """Wait until all runs inside have ended."""
        self._idle = asyncio.get_running_loop().create_future()
        if self._live:
            await self._idle

    def close(self) -> None:
        """End the call. Runs inside that still work are stopped; what they did stays in the log."""
        self._is_closed = True
        for run in [*self._live.values()]:
            run.give_up(CALL_ENDED)
        self.token.abandon(CALL_ENDED)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, the causes behind it, and those inside groups of errors."""
    for cause in chain_of(error):
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            group: BaseExceptionGroup[BaseException] = cast("Any", cause)
            for one in group.exceptions:
                yield from _causes(one)
