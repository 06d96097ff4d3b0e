"""One run under way: its settings, its account and tally, its waits, and its dealings with the policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any, Generic, Literal, TypeAlias, TypeGuard, TypeVar

from wesichain.core import Clock, ReActStep, ToolSpec, dataclass
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    PolicyConfigError,
    PolicyViolationError,
    ToolFailedError,
)
from wesichain.policy import (
    Account,
    Budget,
    Fail,
    Interrupt,
    N,
    OnceWithToolCatalog,
    PolicyDecision,
    PolicyEngine,
    Reprompt,
    Retry,
)
from wesichain.tools import CancellationToken, ToolRegistry

from .effects import Effects
from .narrate import Narrator
from .phases import Active
from .rules import Judge, LoopGuard, Tally, wording

OutT = TypeVar("OutT")
R = TypeVar("R")
OnLimit: TypeAlias = Literal["fail", "partial", "answer"]

GRACE = 0.5  # seconds that a model or a tool has to clean up after it was cancelled


@dataclass(frozen=True, slots=True)
class Settings(Generic[OutT]):
    """What a runtime was told once, for all its runs."""

    model: str
    registry: ToolRegistry
    judge: Judge[OutT]
    policy: PolicyEngine
    clock: Clock
    on_limit: OnLimit
    tool_concurrency: int
    exclude_after: int | None
    loop_guard: LoopGuard | None
    approval_ttl: float | None


_OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "policy": (lambda value: not isinstance(value, type), "an instance, such as FailFast()"),
    "budget": (lambda value: isinstance(value, Budget), "a Budget, such as Budget(steps=5)"),
    "instructions": (lambda value: value is None or isinstance(value, str), "text, or None"),
    "on_limit": (lambda value: value in ("fail", "partial", "answer"), "'fail', 'partial' or 'answer'"),
    "tool_concurrency": (lambda value: isinstance(value, int) and value >= 1, "1 or more"),
    "exclude_after": (
        lambda value: value is None or (isinstance(value, int) and value >= 1),
        "1 or more, or None to exclude no tool",
    ),
    "loop_guard": (
        lambda value: value is None or isinstance(value, LoopGuard),
        "LoopGuard(tell_at, stop_at), or None",
    ),
}


def check_options(**options: object) -> None:
    """Refuse what a run could not work with, before there is one."""
    for name, value in options.items():
        is_right, expected = _OPTIONS[name]
        if not is_right(value):
            raise PolicyConfigError(f"{name}={value!r}: use {expected}")


class Stopped(Exception):  # noqa: N818  # not an error: somebody asked for it
    """The run is to end in Interrupted, for the reason given."""


class Running(Generic[OutT]):
    """The bookkeeping of one run. The loop is the only one that holds it."""

    __slots__ = (
        "_excluded",
        "_specs",
        "_token",
        "account",
        "effects",
        "free",
        "is_bare",
        "is_timed",
        "narrator",
        "now",
        "settings",
        "step",
        "tally",
        "used_ids",
    )

    def __init__(
        self,
        settings: Settings[OutT],
        effects: Effects,
        narrator: Narrator,
        account: Account,
        token: CancellationToken | None,
    ) -> None:
        self.settings = settings
        self.effects = effects
        self.narrator = narrator
        self.account = account
        self.tally = Tally()
        self._token = token
        self.step = account.steps
        self.used_ids: dict[str, None] = {}  # a set, but one that the garbage collector need not look at
        self.free = False  # the next model call spends no step: the policy said so, and there was one left
        self._excluded = -1  # how many tools were excluded when `_specs` was made
        self._specs: tuple[ToolSpec, ...] = ()
        self.now = settings.clock.monotonic
        self.is_timed = account.deadline != inf
        self.is_bare = token is None and not self.is_timed  # nothing but its end can end a wait

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools that the model is offered now."""
        if self._excluded != len(self.tally.excluded):
            self._excluded = len(self.tally.excluded)
            offered = self.settings.registry.specs(exclude=frozenset(self.tally.excluded))
            final = self.settings.judge.output.final_tool
            self._specs = offered if final is None else (*offered, final)
        return self._specs

    def refusal(self) -> BudgetExceededError | None:
        """Why another model call may not be made, or None."""
        return self.account.refusal(self.now() if self.is_timed else 0.0)

    @property
    def token(self) -> CancellationToken:
        if self._token is None:
            self._token = CancellationToken()  # nobody holds it yet who could cancel the run
        return self._token

    def check_stop(self) -> None:
        if self._token is not None and self._token.cancelled:
            raise Stopped(self._token.reason or "cancelled")

    # --- waiting -----------------------------------------------------------------------------------

    def wait(self, effect: Coroutine[Any, Any, R]) -> Coroutine[Any, Any, R]:
        """What the effect gives, unless the run is stopped or out of time first."""
        return effect if self.is_bare else self._watch(effect)

    async def _watch(self, effect: Coroutine[Any, Any, R]) -> R:
        task = asyncio.ensure_future(effect)
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        unsubscribe = self.token.on_cancel(lambda: None if stop.done() else stop.set_result(None))
        deadline = self.account.deadline
        try:
            timeout = None if deadline == inf else max(0.0, deadline - self.now())
            both: set[asyncio.Future[Any]] = {task, stop}
            ended, _ = await asyncio.wait(both, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            unsubscribe()
            stop.cancel()
            await put_down([task])
        if task.done() and not task.cancelled():
            return task.result()
        self.check_stop()
        if task in ended:
            raise RuntimeError("it raised CancelledError, though nobody had cancelled it")
        raise self.account.out_of_time()

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            await self.wait(self.settings.clock.sleep(seconds))

    # --- the policy --------------------------------------------------------------------------------

    def decide(
        self, phase: Active[OutT], error: AgentError, *, call_id: str | None = None, duration_ms: float = 0.0
    ) -> Retry | Reprompt:
        """What the policy makes of a fault, within its bounds. What ends the run is raised."""
        self.tally.count_fault(error)
        tool_name = getattr(error, "tool_name", None)
        try:
            decision = self._ask_policy(phase, error)
        except PolicyViolationError:
            self.narrator.step_failed(self.step, error, "fail", call_id=call_id, tool_name=tool_name)
            raise
        if isinstance(decision, Reprompt) and not self.tally.may_reprompt(error, decision.strategy):
            decision = Fail()
        self.narrator.step_failed(
            self.step,
            error,
            type(decision).__name__.lower(),
            call_id=call_id,
            tool_name=tool_name,
            duration_ms=duration_ms,
        )
        match decision:
            case Fail():
                raise error
            case Interrupt():
                raise Stopped(f"the policy stopped the run: {error}")
            case Retry() | Reprompt():
                self.free = not decision.consume_budget and self.account.take_free_retry()
                return decision

    def _ask_policy(self, phase: Active[OutT], error: AgentError) -> PolicyDecision:
        policy, view = self.settings.policy, _View(phase, self.tally, self.account)
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

    def told(self, text: str, decision: Retry | Reprompt) -> str:
        """What the model reads of a fault, with the tools where the strategy shows them."""
        shown = isinstance(decision, Reprompt) and isinstance(decision.strategy, OnceWithToolCatalog)
        return text + wording.catalog(self.specs()) if shown else text


def _is_decision(decision: Any) -> TypeGuard[PolicyDecision]:
    """Whether a policy, which may be anybody's code, said one of the things that it may say."""
    match decision:
        case Fail() | Interrupt() | Retry(delay=float() | int()):
            return True
        case Reprompt(strategy=OnceWithToolCatalog() | N(), delay=float() | int()):
            return True
        case _:
            return False


class _View:
    """What the policy sees of a run."""

    __slots__ = ("_account", "_phase", "_tally")

    def __init__(self, phase: Active[Any], tally: Tally, account: Account) -> None:
        self._phase = phase
        self._tally = tally
        self._account = account

    @property
    def user_input(self) -> str:
        return self._phase.user_input

    @property
    def scratchpad(self) -> Sequence[ReActStep]:
        return self._phase.steps

    @property
    def final_output(self) -> None:
        return None

    @property
    def iteration_count(self) -> int:
        return self._account.steps

    def faults(self, error_class: type[BaseException]) -> int:
        return self._tally.times(error_class)


async def put_down(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel what still runs and give it a moment to clean up; what will not stop is left behind."""
    running = [task for task in tasks if not task.done()]
    for task in tasks:
        if task.cancel():
            task.add_done_callback(_swallow)
        else:
            _swallow(task)
    if running:
        await asyncio.wait(running, timeout=GRACE)


def _swallow(task: asyncio.Future[Any]) -> None:
    """Look at what it raised, since nobody else will: asyncio complains about what nobody has seen."""
    if not task.cancelled():
        task.exception()
