"""The built-in policies. Each is a pure function of the run and the error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sys import maxsize
from typing import Any, Protocol, TypeAlias

from typing_extensions import override

from wesichain.core import ReActStep
from wesichain.core.internal import Value, backoff_delay, field, replace
from wesichain.errors import (
    AgentError,
    InvalidModelActionError,
    LlmError,
    ModelRefusedError,
    ModelTransportError,
    PolicyConfigError,
    ToolFailedError,
)

from .decisions import Fail, Interrupt, N, OnceWithToolCatalog, PolicyDecision, Reprompt, Retry

_MAX_CAUSES = 8
_PROVIDER_TRIES = 2  # beside the first


def chain_of(error: BaseException) -> list[BaseException]:
    """The error and its causes. The exception of a tool is the cause of two errors of this package."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and len(chain) <= _MAX_CAUSES:
        chain.append(cause)
    return chain


class RunView(Protocol):
    """A policy's view of a run."""

    @property
    def user_input(self) -> str: ...

    @property
    def scratchpad(self) -> Sequence[ReActStep]: ...

    @property
    def iteration_count(self) -> int: ...

    def faults(self, error_class: type[BaseException]) -> int:
        """The number of errors of this class, or caused by one, in the run so far, with the present one."""
        ...

    def faults_in_row(self, error_class: type[BaseException]) -> int:
        """The number of such errors since the last valid reply of the model."""
        ...


class PolicyEngine(Protocol):
    """Decides what a run does after an error. The runtime counts the errors and enforces the budget."""

    def on_model_error(self, state: RunView, error: AgentError) -> PolicyDecision:
        """Called for a provider that fails, an empty reply, an unknown tool, and malformed or wrong calls."""
        ...

    def on_tool_error(self, state: RunView, error: ToolFailedError) -> PolicyDecision:
        """Called for a tool that failed, timed out or returned an invalid result."""
        ...


class FailFast(Value):
    """Ends the run after every error."""

    def on_model_error(self, state: RunView, error: AgentError) -> PolicyDecision:
        return Fail()

    def on_tool_error(self, state: RunView, error: ToolFailedError) -> PolicyDecision:
        return Fail()


class RepromptOnceWithToolCatalog(FailFast):
    """Returns errors and a list of the tools to the model, once for each class. A failed tool ends a run."""

    @override
    def on_model_error(self, state: RunView, error: AgentError) -> PolicyDecision:
        return Reprompt(OnceWithToolCatalog())


class RepromptN(FailFast):
    """Returns errors to the model, n times for each class of error; a failing tool ends the run."""

    n: int

    def __post_init__(self) -> None:
        N(self.n)

    @override
    def on_model_error(self, state: RunView, error: AgentError) -> PolicyDecision:
        return Reprompt(N(self.n))


class ObserveErrors(Value):
    """Returns every error to the model as an observation, as long as the budget lasts.

    A request that fails at the provider is sent again instead, unless the error is not retryable.
    """

    def on_model_error(self, state: RunView, error: AgentError) -> PolicyDecision:
        if not isinstance(error, ModelTransportError):
            return Reprompt(N(maxsize))
        refused = isinstance(error.__cause__, LlmError) and not error.retryable
        return Fail() if refused else Retry(delay=error.retry_after or 0.0)

    def on_tool_error(self, state: RunView, error: ToolFailedError) -> PolicyDecision:
        return Reprompt(N(maxsize))


class Backoff(Value):
    """The seconds to wait before a retry: `initial`, then times `factor` each time, at most `maximum`.

    `attempts` is how often a step of a journal is tried in all; policies have bounds of their own.
    """

    initial: float = 0.5
    factor: float = 2.0
    maximum: float = 30.0
    attempts: int = 5

    def __post_init__(self) -> None:
        if self.initial < 0 or self.factor < 1 or self.maximum < self.initial:
            raise PolicyConfigError(
                f"{self}: waiting times must grow; use initial >= 0, factor >= 1, maximum >= initial"
            )
        if self.attempts < 1:
            raise PolicyConfigError(f"{self}: use attempts >= 1")

    def delay(self, attempt: int) -> float:
        """Seconds to wait after the given attempt, counted from one."""
        return backoff_delay(attempt, initial=self.initial, factor=self.factor, maximum=self.maximum)


class SelfCorrect(Value):
    """Returns errors to the model that it can correct; others end the run. The default of `Agent`.

    These are malformed or unknown calls, bad arguments, empty or truncated replies and invalid typed answers:
    at most `attempts` in a row. The error of a tool is an observation. A request that fails at the provider
    is sent again twice, after a wait. A refusal ends the run.
    """

    attempts: int = 3
    backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        given: Any = self.attempts
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise PolicyConfigError(f"SelfCorrect(attempts={given!r}): use 1 or more, or FailFast()")

    def on_model_error(self, state: RunView, error: AgentError) -> PolicyDecision:
        if isinstance(error, ModelRefusedError):
            return Fail()
        if isinstance(error, ModelTransportError):
            times = state.faults_in_row(ModelTransportError)
            refused = isinstance(error.__cause__, LlmError) and not error.retryable
            if refused or times > _PROVIDER_TRIES:
                return Fail()
            return Retry(delay=max(self.backoff.delay(times), error.retry_after or 0.0))
        if state.faults_in_row(InvalidModelActionError) > self.attempts:
            return Fail()
        return Reprompt(N(maxsize))

    def on_tool_error(self, state: RunView, error: ToolFailedError) -> PolicyDecision:
        return Reprompt(N(maxsize))


class Rule(Value):
    """A row of a `Recovery` table with settings of its own, in place of those of the table."""

    decision: PolicyDecision
    limit: int | None = None
    backoff: Backoff | float | None = None
    on_exhausted: PolicyDecision | None = None


Table: TypeAlias = Mapping[type[BaseException], PolicyDecision | Rule]


class Recovery(Value):
    """A table of decisions by class of error.

    The row with the nearest base class of the exception decides; a tool's own exception comes before
    `ToolFailedError`. Each row is used for `limit` errors of its class in a run (with `Reprompt(N(n))`, for
    n), and `on_exhausted` after that. An error without a row ends the run. A `backoff` in seconds is the
    first wait, which doubles each time.
    """

    table: Table
    limit: int = 3
    backoff: Backoff | float | None = None
    on_exhausted: PolicyDecision = field(default_factory=Fail)

    def __post_init__(self) -> None:
        if not self.table:
            raise PolicyConfigError("Recovery({}): an empty table recovers nothing; use FailFast()")
        given: Any = self.table
        if not isinstance(given, Mapping):
            raise PolicyConfigError(
                f"Recovery takes a table {{ErrorClass: decision}}, not {type(given).__name__}"
            )
        for error_class, row in self.table.items():
            _check_row(error_class, row)
            rule = self._rule(row)
            if rule.limit is not None and rule.limit < 1:
                raise PolicyConfigError(
                    f"Recovery: a limit of {rule.limit} for {error_class.__name__}; use >= 1"
                )
            if not isinstance(rule.on_exhausted, Fail | Retry | Reprompt | Interrupt):
                raise PolicyConfigError(
                    f"Recovery: on_exhausted={rule.on_exhausted!r} is not a decision; "
                    f"use Fail(), Interrupt() or a Reprompt"
                )
            if isinstance(rule.on_exhausted, Retry):
                raise PolicyConfigError(
                    f"Recovery: on_exhausted=Retry() for {error_class.__name__} would never end; "
                    f"use Fail(), Interrupt() or a Reprompt"
                )

    def on_model_error(self, state: RunView, error: AgentError) -> PolicyDecision:
        return self._decide(state, error)

    def on_tool_error(self, state: RunView, error: ToolFailedError) -> PolicyDecision:
        return self._decide(state, error)

    def _decide(self, state: RunView, error: AgentError) -> PolicyDecision:
        fitting = self._fitting_class(error)
        if fitting is None:
            return Fail()
        rule = self._rule(self.table[fitting])
        times = state.faults(fitting)
        if times > (rule.limit or self.limit):
            return rule.on_exhausted or self.on_exhausted
        decision = rule.decision
        if (
            isinstance(decision, Retry | Reprompt)
            and (wait := self._wait(rule, error, times)) > decision.delay
        ):
            return replace(decision, delay=wait)
        return decision

    def _rule(self, row: PolicyDecision | Rule) -> Rule:
        rule = row if isinstance(row, Rule) else Rule(row)
        match rule.decision:
            case Reprompt(strategy=N(n=n)):
                own = n
            case Reprompt(strategy=OnceWithToolCatalog()):
                own = 1
            case _:
                own = self.limit
        return Rule(
            rule.decision,
            limit=own if rule.limit is None else rule.limit,
            backoff=_backoff(self.backoff if rule.backoff is None else rule.backoff),
            on_exhausted=rule.on_exhausted or self.on_exhausted,
        )

    def _fitting_class(self, error: AgentError) -> type[BaseException] | None:
        """The class in the table that is the nearest base class of the error or of one of its causes.

        For a failed tool, the tool's own exception is looked up first, by every class that is not also a base
        of `ToolFailedError`. Of two equally near classes, that of the cause is used.
        """
        if isinstance(error, ToolFailedError):
            for found in reversed(chain_of(error)):
                own = (cls for cls in type(found).__mro__ if cls not in ToolFailedError.__mro__)
                known = next((cls for cls in own if cls in self.table), None)
                if known is not None:
                    return known
        fits = [
            (type(found).__mro__.index(known), -depth, known)
            for depth, found in enumerate(chain_of(error))
            for known in self.table
            if known in type(found).__mro__
        ]
        return min(fits, key=lambda fit: fit[:2])[2] if fits else None

    def _wait(self, rule: Rule, error: AgentError, times: int) -> float:
        wait = rule.backoff.delay(times) if isinstance(rule.backoff, Backoff) else 0.0
        after = error.retry_after if isinstance(error, ModelTransportError) else None
        return max(wait, after or 0.0)


def _backoff(given: object) -> Backoff | None:
    if given is None or isinstance(given, Backoff):
        return given
    if isinstance(given, int | float):
        return Backoff(given, maximum=max(given, Backoff().maximum))
    raise PolicyConfigError(f"backoff={given!r}: use seconds, or Backoff(initial, factor, maximum)")


def _check_row(error_class: object, row: object) -> None:
    """Check a row of a table, which is often written without a type checker."""
    if not (isinstance(error_class, type) and issubclass(error_class, BaseException)):
        raise PolicyConfigError(f"Recovery: {error_class!r} is not a class of errors")
    decision = row.decision if isinstance(row, Rule) else row
    if not isinstance(decision, Fail | Retry | Reprompt | Interrupt):
        raise PolicyConfigError(
            f"Recovery: {decision!r} for {error_class.__name__} is not a decision; "
            f"use Fail(), Retry(), Reprompt(...) or Interrupt()"
        )
