"""The state of one run: its settings, account and tally; waiting with limits; calling the policy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any, Generic, TypeGuard, TypeVar

from wesichain.context import ContextView
from wesichain.core import LlmResponse, Message, ModelResponded, ModelSettings, ToolSpec
from wesichain.core.internal import (
    NO_SETTINGS,
    CancellationToken,
    Clock,
    Mutable,
    Spent,
    Value,
    abandon,
    field,
    replace,
    stray_cancel,
)
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    ConfigError,
    PolicyViolationError,
    ReplayMismatchError,
    ToolFailedError,
)
from wesichain.middleware import Middleware
from wesichain.policy import (
    Fail,
    Interrupt,
    N,
    OnceWithToolCatalog,
    PolicyDecision,
    PolicyEngine,
    Reprompt,
    Retry,
)
from wesichain.policy.internal import Account
from wesichain.tools import RunContext, ToolRegistry
from wesichain.tools.internal import PreparedCall

from .effects import Effects
from .emitter import Emitter
from .flow.flow import Flow
from .options import LoopGuard, OnLimit
from .phases import Active, AnyPhase
from .rules import sentences
from .rules.checks import Checks
from .rules.reply_judge import ReplyJudge
from .rules.tally import PolicyView, Tally

OutT = TypeVar("OutT")
TASK_CANCELLED = "the task that ran it was cancelled"
CALL_ENDED = "the call that it ran in has ended"
R = TypeVar("R")


class Settings(Value, Generic[OutT]):
    """The settings of a runtime, made once for all its runs."""

    name: str
    model: str
    judge: ReplyJudge[OutT]
    checks: Checks | None  # of the output
    policy: PolicyEngine
    clock: Clock
    on_limit: OnLimit
    tool_concurrency: int
    exclude_after: int | None
    loop_guard: LoopGuard | None
    approval_ttl: float | None
    beside: Callable[..., Any]  # makes another runtime with the same model
    context: tuple[ContextView, ...] = ()
    model_settings: ModelSettings = NO_SETTINGS
    flow: Flow | None = None
    middleware: tuple[Middleware[Any], ...] = ()
    other_models: tuple[str, ...] = ()  # that may reply in place of `model`
    free_steps: bool = False  # whether replies spend no step, since a program makes them

    @property
    def registry(self) -> ToolRegistry:
        return self.judge.registry


class FaultDecision(Value):
    """The policy's decision on an error, and whether the next model call is free."""

    decision: Retry | Reprompt
    free: bool


class LimitAbove(Exception):  # noqa: N818  # carries the error
    """A limit of a run above this one. It ends this run, whatever its `on_limit`, and then that one."""

    def __init__(self, error: BudgetExceededError) -> None:
        super().__init__(str(error))
        self.error = error


class Stopped(Exception):  # noqa: N818  # not an error: it was requested
    """The run has to end as Interrupted, for the reason given."""


class CutOff(Exception):  # noqa: N818  # not an error: it was requested
    """The task that drives the run was cancelled, and user code suppressed the CancelledError."""


_MAKING = threading.RLock()
PASSING = (AgentError, ConfigError, ReplayMismatchError, LimitAbove)  # errors that do not come from a model


class RunState(Mutable, Generic[OutT]):
    """The state of one run, owned by the loop."""

    settings: Settings[OutT]
    effects: Effects
    emitter: Emitter
    account: Account
    _token: CancellationToken | None
    step: int
    tally: Tally
    deps: Any
    scope: tuple[str, ...]
    own_settings: ModelSettings | None  # of this run; they override those of the acting agent
    now: Callable[[], float]
    remembers: bool
    has_own_clock: bool  # durations are measured by an injected clock, not by a journal
    is_bare: bool  # without a token and a time limit: a wait ends only with its effect
    # A set, as a dict that the garbage collector does not track.
    used_ids: dict[str, None] = field(default_factory=dict[str, None], init=False)
    task: asyncio.Task[Any] | None = field(default=None, init=False)
    # Waits for a slow reader.
    pressure: Callable[[], Coroutine[Any, Any, None]] | None = field(default=None, init=False)
    # Pieces of an answer that are held back until it is checked.
    pending_deltas: list[tuple[Any, int, Any]] | None = field(default=None, init=False)
    batch: Any = field(default=None, init=False)  # the `Batch` of calls that are being run
    current_agent: Any = field(default=None, init=False)  # if the agent or its tools can change
    flow: Any = field(default=None, init=False)  # the `FlowRule`, if outside text may decide nothing
    asked_at: float = field(default=0.0, init=False)  # when the model was last called
    _cancels: int = field(default=0, init=False)
    _offer: tuple[tuple[ToolSpec, ...], int, tuple[ToolSpec, ...]] = field(default=((), -1, ()), init=False)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def run_id(self) -> str:
        return self.emitter.run_id

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools that are now offered to the model."""
        judge, tally = self.settings.judge, self.tally
        if not tally.excluded and not tally.advised:
            return judge.offered
        own, excluded, offer = self._offer
        if own is not judge.offered or excluded != len(tally.excluded):
            tools = judge.registry.specs(exclude=frozenset(tally.excluded))
            offer = tally.in_order(tools) + judge.output.final_tools
            self._offer = (judge.offered, len(tally.excluded), offer)
        return offer

    def model_settings(self) -> ModelSettings:
        """The settings of the next request. A forced `tool_choice` is for the first step only."""
        settings, own = self.settings.model_settings, self.own_settings
        if own is not None:
            settings = settings.merge(own)
        if settings.tool_choice in (None, "auto", "none") or self.step <= 1:
            return settings
        return replace(settings, tool_choice=None)

    def spent(self) -> Spent:
        return self.account.spent(self.now())

    def refusal(self, *, free: bool = False) -> Exception | None:
        """The limit, of this run or one above, that forbids another model call; None without one."""
        now = self.now() if self.account.is_timed else 0.0
        own = self.account.own_refusal(now, free=free)
        if own is not None:
            return own
        above = self.account.refusal_above(now, free=free)
        return None if above is None else LimitAbove(above)

    def step_again(self) -> None:
        """Begin another step, for a further model call of a middleware."""
        self.account.spend_step()
        self.step += 1
        self.emitter.step_started(self.step, (), follows=False)
        self.asked_at = self.now()

    def set_aside(self, step: int, reply: LlmResponse, duration_ms: float) -> None:
        """Charge the tokens of a reply that the loop does not receive, and emit its event."""
        cost = self.account.spend_reply(reply)
        self.emitter.emit(ModelResponded, step, reply, duration_ms, cost, True)

    def driven_by(self, task: asyncio.Task[Any] | None) -> None:
        """Set the task that takes the next steps. Cancelling it stops the run."""
        self.task = task
        self._cancels = 0 if task is None else task.cancelling()

    @property
    def token(self) -> CancellationToken:
        token = self._token
        return self._new_token() if token is None else token

    def _new_token(self) -> CancellationToken:
        with _MAKING:  # a tool in a thread may be the first to use it
            if self._token is None:
                self._token = CancellationToken()
            return self._token

    def stop_below(self, reason: str) -> None:
        """Stop everything that this run started, after its end."""
        self.token.cancel(reason)

    def give_up(self, reason: str) -> None:
        """End the log of a run that continues after its call has ended, and detach its account."""
        if self.batch is not None:
            self.batch.give_up()
        self.emitter.run_interrupted(0, reason, Spent())
        self.account.detach()

    @property
    def is_stopped(self) -> bool:
        token, task = self._token, self.task
        return (token is not None and token.cancelled) or (
            task is not None and task.cancelling() > self._cancels
        )

    def check_stop(self) -> None:
        token = self._token
        if token is not None and token.cancelled:
            raise Stopped(token.reason or "cancelled")
        if self.task is not None and self.task.cancelling() > self._cancels:
            raise CutOff

    def wait(self, effect: Coroutine[Any, Any, R]) -> Coroutine[Any, Any, R]:
        """Wait for the effect, unless the run is stopped or runs out of time first."""
        return effect if self.is_bare else self.watch(effect)

    async def watch(self, effect: Coroutine[Any, Any, R], *, grace: Callable[[], float] | None = None) -> R:
        """Wait for the effect as `wait()` does; one with runs inside has `grace` seconds to stop by itself.

        A result that arrives while the effect or the waiting task is being cancelled is still returned, and
        the next `check_stop()` stops the run.
        """
        task = asyncio.ensure_future(effect)
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        unsubscribe = self.token.on_cancel(lambda: None if stop.done() else stop.set_result(None))
        deadline = self.account.deadline
        ended: set[asyncio.Future[Any]] = {task}
        try:
            timeout = None if deadline == inf else max(0.0, deadline - self.now())
            both: set[asyncio.Future[Any]] = {task, stop}
            ended, _ = await asyncio.wait(both, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await abandon((task,))
            if not _has_result(task):
                raise
        finally:
            unsubscribe()
            stop.cancel()
        if not task.done():
            await _stop(task, grace() if grace else 0.0)
        if task.done() and not task.cancelled():
            error = task.exception()
            if error is None:
                return task.result()
            if not self.token.cancelled and task in ended:
                raise error
        self.check_stop()
        if task in ended:
            raise stray_cancel()
        raise self.out_of_time()

    def fault_of(self, cause: BaseException) -> BaseException:
        """The error for a `CancelledError` in a task that was not cancelled; any other cause is returned."""
        if not isinstance(cause, asyncio.CancelledError):
            return cause  # a coroutine that nobody awaits any more is closed outside of a loop
        task, token = asyncio.current_task(), self._token  # middleware may call from a task of its own
        if task is None:
            return cause
        if task.cancelling() > (self._cancels if task is self.task else 0):
            return cause
        if token is not None and token.cancelled:
            return Stopped(token.reason or "cancelled")
        return stray_cancel(cause).with_traceback(cause.__traceback__)

    def out_of_time(self) -> Exception:
        """The error for a time limit, of this run or of one above."""
        own, above = self.account.deadlines
        return self.account.out_of_time() if own <= above else LimitAbove(self.account.time_above())

    def release_deltas(self) -> None:
        """Emit the pieces of an answer that were held back until it was checked."""
        held, self.pending_deltas = self.pending_deltas or (), None
        for kind, step, value in held:
            self.emitter.emit(kind, step, value)

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            await self.wait(self.settings.clock.sleep(seconds))

    def context(
        self,
        look: Callable[[], Sequence[Message]],
        *,
        step: int | None = None,
        token: CancellationToken | None = None,
    ) -> RunContext[Any]:
        """The context of the run for rules, checks and middleware; `look` returns its messages."""
        return RunContext(
            self.run_id,
            self.step if step is None else step,
            self.token if token is None else token,
            deps=self.deps,
            agent=self.name,
            scope=self.scope,
            link=_Link(self, look),
        )

    def needs_approval(self, prepared: PreparedCall, phase: AnyPhase) -> bool:
        """Whether the call needs approval."""
        return prepared.asks_approval(self.context(lambda: phase.messages))

    # --- the policy --------------------------------------------------------------------------------

    def decide(
        self, phase: Active[OutT], error: AgentError, *, call_id: str | None = None, duration_ms: float = 0.0
    ) -> FaultDecision:
        """The policy's decision on an error, within its bounds. An error that ends the run is raised."""
        self.tally.count_fault(error)
        tool_name = getattr(error, "tool_name", None)
        try:
            decision = self._ask_policy(phase, error)
        except PolicyViolationError:
            self.emitter.step_failed(self.step, error, "fail", call_id=call_id, tool_name=tool_name)
            raise
        if isinstance(decision, Reprompt) and not self.tally.may_reprompt(error, decision.strategy):
            decision = Fail()
        free = (
            isinstance(decision, Retry | Reprompt)
            and not decision.consume_budget
            and self.account.take_free_retry()
        )
        self.emitter.step_failed(
            self.step,
            error,
            type(decision).__name__.lower(),
            call_id=call_id,
            tool_name=tool_name,
            duration_ms=duration_ms,
            free=free,
        )
        match decision:
            case Fail():
                raise error
            case Interrupt():
                raise Stopped(f"the policy stopped the run: {error}")
            case Retry() | Reprompt():
                return FaultDecision(decision, free)

    def emit_fault(self, error: AgentError, decided: FaultDecision) -> None:
        """Emit an error that shares the policy's decision on another one."""
        decision = type(decided.decision).__name__.lower()
        tool_name = getattr(error, "tool_name", None)
        self.emitter.step_failed(self.step, error, decision, tool_name=tool_name)

    def _ask_policy(self, phase: Active[OutT], error: AgentError) -> PolicyDecision:
        policy, view = self.settings.policy, PolicyView(phase, self.tally, phase.info.earlier + self.step)
        try:
            decide: Any = (
                policy.on_tool_error if isinstance(error, ToolFailedError) else policy.on_model_error
            )
            decision = decide(view, error)
        except Exception as cause:
            raise PolicyViolationError(
                f"the policy {type(policy).__name__} raised {type(cause).__name__}: {cause}",
                step_id=self.step,
            ) from cause
        if not _is_decision(decision):
            raise PolicyViolationError(
                f"the policy {type(policy).__name__} decided {decision!r}, which is not a decision",
                step_id=self.step,
            )
        return decision

    def fault_text(self, text: str, decision: Retry | Reprompt) -> str:
        """The error text that is returned to the model, with the tools where the strategy lists them."""
        lists_tools = isinstance(decision, Reprompt) and isinstance(decision.strategy, OnceWithToolCatalog)
        return text + sentences.catalog(self.specs()) if lists_tools else text


def _is_decision(decision: Any) -> TypeGuard[PolicyDecision]:
    """Whether the return value of a policy is a decision."""
    match decision:
        case Fail() | Interrupt() | Retry(delay=float() | int()):
            return True
        case Reprompt(strategy=OnceWithToolCatalog() | N(), delay=float() | int()):
            return True
        case _:
            return False


class _Link(Mutable):
    """Access of a context to its run."""

    _run: RunState[Any]
    _look: Callable[[], Sequence[Message]]

    @property
    def messages(self) -> Sequence[Message]:
        return self._look()

    @property
    def spent(self) -> Spent:
        return self._run.spent()


async def _stop(task: asyncio.Future[Any], grace: float) -> None:
    try:
        await abandon((task,), grace=grace)
    except asyncio.CancelledError:
        await abandon((task,))
        if not _has_result(task):
            raise


def _has_result(task: asyncio.Future[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
