"""The state of one run: its settings, account and tally; waiting with limits; calling the policy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import zip_longest
from math import inf
from typing import Any, Generic, TypeGuard, TypeVar

from wesichain.context import ContextView
from wesichain.core import LlmRequest, LlmResponse, Message, ModelSettings, ToolCall, ToolSpec
from wesichain.core.internal import (
    NO_SETTINGS,
    ApproveWith,
    CancellationToken,
    Clock,
    Decision,
    Identity,
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
    JournalError,
    PolicyViolationError,
    ReplayMismatchError,
    ToolFailedError,
)
from wesichain.journal.internal import (
    Answer,
    Asked,
    Decide,
    Limit,
    Rule,
    Say,
    escape_id,
    fault_of,
    fingerprint,
    revived,
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

from .backend import Backend
from .calls.questions import approval_token
from .flow.flow import Flow
from .options import LoopGuard, OnLimit
from .phases import Active, AnyPhase
from .rules import sentences
from .rules.checks import Checks
from .rules.reply_judge import CallPlan, ReplyJudge, Verdict
from .rules.tally import PolicyView, Tally
from .run_log import RunLog

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
    """The decision on an error: the run goes on, with a retry or with a text for the model."""

    kind: str  # "retry", "reprompt", or "interrupt" of an earlier leg
    free: bool = False  # whether the next model call spends no step
    delay: float = 0.0
    text: str = ""  # that is returned to the model
    again: bool = False  # whether the request is sent, or the call is run, again


class Settled(Value):
    """What follows from a policy's decision.

    `text` is for the model; `again` says that the request is sent, or the call is run, again, and `steps` are
    what that spends at once.
    """

    text: str = ""
    again: bool = False
    steps: int = 0


class LimitAbove(Exception):  # noqa: N818  # carries the error
    """A limit of a run above this one. It ends this run, whatever its `on_limit`, and then that one."""

    def __init__(self, error: BudgetExceededError, *, is_recorded: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_recorded = is_recorded


class Stopped(Exception):  # noqa: N818  # not an error: it was requested
    """The run has to end as Interrupted, for the reason given."""


class CutOff(Exception):  # noqa: N818  # not an error: it was requested
    """The task that drives the run was cancelled, and user code suppressed the CancelledError."""


class Told(Exception):  # noqa: N818  # not an error: it was requested
    """A message has come that is to be read in place of the model call under way."""


_MAKING = threading.RLock()
PASSING = (AgentError, ConfigError, JournalError, LimitAbove)  # errors that do not come from a model


class RunState(Mutable, Generic[OutT]):
    """The state of one run, owned by the loop."""

    settings: Settings[OutT]
    backend: Backend
    log: RunLog
    account: Account
    _token: CancellationToken | None
    step: int
    tally: Tally
    deps: Any
    scope: tuple[str, ...]
    own_settings: ModelSettings | None  # of this run; they override those of the acting agent
    now: Callable[[], float]
    has_own_clock: bool  # durations are measured by an injected clock
    is_bare: bool  # without a token and a time limit: a wait ends only with its effect
    # Whether the log may have what the run does next, and whether it has to be the same program.
    is_recorded: bool = False
    is_compared: bool = False
    answers: Mapping[str, Decision] = field(default_factory=dict[str, Decision])  # by call of this step
    denied: Mapping[str, int] = field(default_factory=dict[str, int])  # decisions that do not hold, by call
    paid: tuple[float, str] | None = (
        None  # of a reply that a middleware has charged: cost, model without price
    )
    # A set, as a dict that the garbage collector does not track.
    used_ids: dict[str, None] = field(default_factory=dict[str, None], init=False)
    task: asyncio.Task[Any] | None = field(default=None, init=False)
    # Waits for a slow reader.
    pressure: Callable[[], Coroutine[Any, Any, None]] | None = field(default=None, init=False)
    # Pieces of an answer that are held back until it is checked.
    pending_deltas: list[tuple[Any, int, Any]] | None = field(default=None, init=False)
    turn: Any = field(default=None, init=False)  # the `ModelTurn`
    batch: Any = field(default=None, init=False)  # the `Batch` of calls that are being run
    current_agent: Any = field(default=None, init=False)  # if the agent or its tools can change
    shared: Any = field(default=None, init=False)  # the `SharedAccount`, if there are shared limits
    background: Any = field(default=None, init=False)  # the `BackgroundCalls`, if there are any
    flow: Any = field(default=None, init=False)  # the `FlowRule`, if outside text may decide nothing
    asked_at: float = field(default=0.0, init=False)  # when the model was last called
    _cancels: int = field(default=0, init=False)
    _offer: tuple[tuple[ToolSpec, ...], int, tuple[ToolSpec, ...]] = field(default=((), -1, ()), init=False)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def run_id(self) -> str:
        return self.log.run_id

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

    def judged(self, reply: LlmResponse, is_settled: Callable[[str], bool] | None = None) -> Verdict[OutT]:
        """What a reply of the present step is."""
        return self.settings.judge.judge(
            reply,
            step_id=self.step,
            used_ids=self.used_ids,
            excluded=self.tally.excluded,
            is_settled=is_settled,
        )

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
        self.log.step_started(self.step, (), follows=False)
        self.asked_at = self.now()

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
        """End a run that still works after its call has ended, and detach its account."""
        if self.batch is not None:
            self.batch.give_up()
        elif self.turn is not None:
            self.turn.give_up()
        self.log.interrupted(0, reason, Spent())
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

    async def watch(
        self,
        effect: Coroutine[Any, Any, R],
        *,
        grace: Callable[[], float] | None = None,
        cut_by_messages: bool = False,
    ) -> R:
        """Wait for the effect as `wait()` does; one with runs inside has `grace` seconds to stop by itself.

        A result that arrives while the effect or the waiting task is being cancelled is still returned, and
        the next `check_stop()` stops the run. With `cut_by_messages`, a message that interrupts raises `Told`.
        """
        task = asyncio.ensure_future(effect)
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        unsubscribe = self.token.on_cancel(lambda: None if stop.done() else stop.set_result(None))
        unlisten = self._on_interrupt(stop) if cut_by_messages else None
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
            if unlisten is not None:
                unlisten()
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
        if cut_by_messages and stop in ended:
            raise Told
        raise self.out_of_time()

    def _on_interrupt(self, stop: asyncio.Future[None]) -> Callable[[], None]:
        """Set a future when a message comes that is to be read at once."""
        place, loop = self.log.place, asyncio.get_running_loop()

        def came(_: str, body: Any) -> None:
            if isinstance(body, Say) and body.when == "interrupt" and body.place == place:
                loop.call_soon_threadsafe(lambda: None if stop.done() else stop.set_result(None))

        return self.log.log.listen(came)

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
            self.log.show(kind, step, value)

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

    # --- what the log has --------------------------------------------------------------------------

    def is_settled(self, call_id: str) -> bool:
        """Whether the log says what came of a call of the present reply, or that it had begun."""
        name, log = f"{self.step} {escape_id(call_id)} 1", self.log
        return log.has(f"call {name}") or log.has(f"call {name} ?") or log.has(f"decide {name}")

    def has_rejections(self, reply: LlmResponse) -> bool:
        """Whether the log has calls of a reply that could not be run."""
        names = (f"{self.step} {escape_id(call.id)} 1" for call in reply.tool_calls)
        return any(self.log.has(f"decide {name}") and not self.log.has(f"call {name}") for name in names)

    def with_decisions(self, plan: CallPlan) -> CallPlan:
        """The calls of a reply after the decisions of people on them; they may have changed arguments."""
        asked, calls = list(plan.reply.tool_calls), list(plan.calls)
        for index, call in enumerate(asked):
            answer = self._answer_to(call, calls[index])
            if answer is None or answer.decision is None:
                continue
            self.answers = {**self.answers, call.id: answer.decision}
            if isinstance(answer.decision, ApproveWith):
                asked[index] = replace(call, args=answer.decision.args)
                calls[index] = None
        if asked == list(plan.reply.tool_calls):
            return plan
        return replace(plan, reply=replace(plan.reply, tool_calls=tuple(asked)), calls=calls)

    def _answer_to(self, call: ToolCall, prepared: Any) -> Answer | None:
        """The decision on a call, by somebody who may decide; others do not hold, and it is asked again."""
        number = 0
        while True:
            token = approval_token(self.run_id, self.step, call, number)
            answer = self.log.find(f"answer {token}", Answer)
            if answer is None or self._may_decide(answer, call, prepared, number):
                return answer
            number += 1
            self.denied = {**self.denied, call.id: number}

    def _may_decide(self, answer: Answer, call: ToolCall, prepared: Any, number: int) -> bool:
        """Whether the decision of this identity holds; what the rule of approvers says is recorded."""
        if not isinstance(prepared, PreparedCall) or prepared.tool.approvers is None:
            return True
        name = f"rule {self.step} {escape_id(call.id)} {number + 1}"
        known = self.log.find(name, Rule)
        if known is None:
            self.log.refuse(name)
            identity = Identity(answer.by, answer.roles)
            may = prepared.may_decide(identity, self.context(tuple))
            known = Rule(not may, "" if may else f"{answer.by or 'nobody named'} may not decide on it")
            self.log.write(name, known)
        return not known.asks

    def is_under_way(self, name: str) -> bool:
        """Whether a call of this reply, by its full name in the log, is being made now."""
        return self.batch is not None and self.batch.is_open(name)

    def question(self, asked: Asked) -> Asked:
        """The question as the log has it; a new one is recorded."""
        name = f"asked {asked.token}"
        known = self.log.find(name, Asked)
        if known is None:
            self.log.refuse(name)
            self.log.log.ask(self.log.place + name, asked)
        return known or asked

    def goes_on_inside(self, place: str, name: str) -> bool:
        """Whether a `once` call that has no result goes on when it is entered again.

        It does if it was left while something inside it waited, or was stopped; and if nothing was stored
        after a question inside it. Else its outcome is unknown.
        """
        return self.log.log.was_left_inside(f"{self.log.place}call {name}", place)

    def was_left(self, name: str) -> bool:
        """Whether a call was left while something inside it waited, or was stopped."""
        return self.is_recorded and self.log.log.was_left(f"{self.log.place}call {name}")

    def check_same_request(self, name: str, expected: Sequence[Message], actual: Sequence[Message]) -> None:
        """Raise if a request has other messages than the recorded one, though the program is the same."""
        if not self.is_compared:
            return
        pairs = zip_longest(expected, actual)
        there, here = next(((one, two) for one, two in pairs if one != two), (None, None))
        raise ReplayMismatchError(
            f"step {self.step + 1} of {self.name!r} sends other messages than the recorded ones: recorded "
            f"{_shown(there)}, now {_shown(here)}; continue with the program that was recorded, or record anew",
            step_id=self.step + 1,
            name=self.log.place + name,
            expected=_shown(there),
            actual=_shown(here),
        )

    def check_same_tools(self, name: str, expected: object, request: LlmRequest) -> None:
        """Raise if a request differs from the recorded one in its model, tools, settings or answer form."""
        actual = fingerprint(request)
        there = fingerprint(expected) if isinstance(expected, LlmRequest) else expected
        if there and there != actual:
            raise ReplayMismatchError(
                f"step {self.step} of {self.name!r} sends another request than the recorded one: the model, "
                f"the tools, the settings or the form of the answer differ; continue with the program that was "
                f"recorded, or record anew",
                step_id=self.step,
                name=self.log.place + name,
                expected=str(there),
                actual=actual,
            )

    def in_background(self) -> Any:
        """The calls that go on beside the run."""
        if self.background is None:
            from .calls.background import BackgroundCalls  # loaded with the first of them

            self.background = BackgroundCalls(self)
        return self.background

    # --- limits --------------------------------------------------------------------------------------

    def refused(self, name: str, limit: BudgetExceededError, *, steps: int = 0, step: int = 0) -> None:
        """Record the refusal of an act by a limit.

        `steps` were spent by a request that it cut off, and `step` is then the number of the last step.
        """
        if self.log.has(f"limit {name}"):
            return
        owner = limit.owner
        place = owner.place if isinstance(owner, Account) else self.log.place
        self.log.write(
            f"limit {name}", Limit(limit.resource, float(limit.limit), float(limit.used), place, steps, step)
        )

    def refuse_retry(self, name: str, refusal: Exception) -> None:
        """Record that a limit refused another attempt at a call."""
        limit: Any = refusal.error if isinstance(refusal, LimitAbove) else refusal
        self.refused(name, limit)

    def recorded_limit(self, name: str) -> BudgetExceededError | None:
        """The limit that has refused an act before."""
        known = self.log.find(f"limit {name}", Limit)
        if known is None:
            return None
        self.step = known.step or self.step
        return self.account.recorded(known.resource, known.limit, known.used, known.owner)

    # --- the policy --------------------------------------------------------------------------------

    def decide(
        self,
        phase: Active[OutT],
        error: AgentError,
        name: str,
        settle: Callable[[Retry | Reprompt, bool], Settled],
        *,
        text: str = "",
        duration_ms: float = 0.0,
        is_rejection: bool = False,
    ) -> FaultDecision:
        """The policy's decision on an error, within its bounds, recorded as `decide NAME`.

        `settle` is called with a decision that lets the run go on, and with whether it is free. An error that
        ends the run is raised; `text` is then what the model would have read. `is_rejection`: the error is
        that of a call which cannot be run.
        """
        fault = fault_of(error)
        self.tally.count_fault(fault)
        tool = getattr(error, "tool_name", None) or ""
        body = Decide(fault, "fail", text=text, tool=tool, ms=duration_ms, is_rejection=is_rejection)
        try:
            decision = self._ask_policy(phase, error)
        except PolicyViolationError as violation:
            self.log.write(f"decide {name}", replace(body, raised=fault_of(violation)))
            raise
        if isinstance(decision, Reprompt) and not self.tally.may_reprompt(fault, decision.strategy):
            decision = Fail()
        kind = type(decision).__name__.lower()
        if not isinstance(decision, Retry | Reprompt):
            self.log.write(f"decide {name}", replace(body, decision=kind))
            if isinstance(decision, Interrupt):
                raise Stopped(f"the policy stopped the run: {error}")
            raise error
        free = not decision.consume_budget and self.account.take_free_retry()
        settled = settle(decision, free)
        found = FaultDecision(kind, free, decision.delay, settled.text or text, settled.again)
        self.log.write(
            f"decide {name}",
            replace(
                body,
                decision=kind,
                delay=decision.delay,
                free=free,
                text=settled.text or text,
                again=settled.again,
                steps=settled.steps,
                reprompt=isinstance(decision, Reprompt),
            ),
        )
        return found

    def recorded_decision(self, name: str, keep: Callable[[str], None] | None = None) -> FaultDecision | None:
        """The decision that was made before on this error. One that ended the run is raised again.

        `keep` is called with the text of a decision that is raised.
        """
        known = self.log.find(f"decide {name}", Decide)
        if known is None:
            return None
        if not known.shared:
            self.tally.count_fault(known.fault)
            if known.reprompt:
                self.tally.count_reprompt(known.fault)
        if known.decision == "fail":
            if keep is not None:
                keep(known.text)
            raise revived(known.raised or known.fault)
        again = known.again or (known.decision == "interrupt" and not known.tool)
        return FaultDecision(known.decision, known.free, known.delay, known.text, again)

    def recorded_rejection(self, name: str) -> FaultDecision | None:
        """The decision that was made before on a call that could not be run."""
        return None if self.log.has(f"call {name}") else self.recorded_decision(name)

    def share_decision(self, name: str, error: AgentError, decided: FaultDecision, text: str) -> None:
        """Record an error that shares the decision on another one of the same reply."""
        tool = getattr(error, "tool_name", None) or ""
        body = Decide(fault_of(error), decided.kind, text=text, tool=tool, shared=True, is_rejection=True)
        self.log.write(f"decide {name}", body)

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
        """The error text that is returned to the model, with the tools if the strategy lists them."""
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


def _shown(message: Message | None) -> str:
    """A message in an error."""
    return "none" if message is None else f"{message.role.value} {message.text[:200]!r}"


class _Link(Mutable):
    """Access of a context to its run."""

    _run: RunState[Any]
    _look: Callable[[], Sequence[Message]]

    @property
    def messages(self) -> Sequence[Message]:
        return self._look()

    @property
    def by(self) -> str:
        begin = self._run.log.log.begin_of()
        return "" if begin is None else begin.by

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
