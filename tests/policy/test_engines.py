"""Engines: each a table of fault -> decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from sys import maxsize
from typing import Any

import pytest

from wesichain.core import ReActStep
from wesichain.errors import (
    AgentError,
    InvalidModelActionError,
    LlmRejectedError,
    LlmTransportError,
    ModelRefusedError,
    ModelTransportError,
    PolicyConfigError,
    ToolExecutionError,
    ToolFailedError,
    ToolTimeoutError,
    WesichainError,
)
from wesichain.policy import (
    Backoff,
    Fail,
    FailFast,
    Interrupt,
    N,
    ObserveErrors,
    OnceWithToolCatalog,
    PolicyEngine,
    Recovery,
    Reprompt,
    RepromptN,
    RepromptOnceWithToolCatalog,
    Retry,
    Rule,
    SelfCorrect,
)
from wesichain.policy.engines import chain_of


@dataclass
class View:
    counts: dict[type, int] = field(default_factory=dict)
    user_input: str = "q"
    scratchpad: Sequence[ReActStep] = ()
    iteration_count: int = 1

    def faults(self, error_class: type[BaseException]) -> int:
        return self.counts.get(error_class, 1)

    faults_in_row = faults


def caused(error: Exception, cause: Exception) -> Any:
    error.__cause__ = cause
    return error


MALFORMED = InvalidModelActionError("bad")
TOOL = ToolFailedError("broke")
SLOW = caused(ToolFailedError("slow"), ToolTimeoutError("slow"))
RAISED = caused(ToolFailedError("broke"), caused(ToolExecutionError("broke"), ConnectionError("gone")))
BUSY = caused(ModelTransportError("busy"), LlmTransportError("429", retryable=True, retry_after=7.0))
DENIED = caused(ModelTransportError("denied"), LlmRejectedError("401"))
FOREIGN = caused(ModelTransportError("?"), RuntimeError("?"))


@pytest.mark.parametrize(
    ("engine", "error", "decision"),
    [
        pytest.param(FailFast(), MALFORMED, Fail(), id="fail-fast-on-a-bad-call"),
        pytest.param(FailFast(), TOOL, Fail(), id="fail-fast-on-a-tool"),
        pytest.param(RepromptOnceWithToolCatalog(), MALFORMED, Reprompt(OnceWithToolCatalog()), id="once-with-the-tools-shown"),
        pytest.param(RepromptOnceWithToolCatalog(), TOOL, Fail(), id="once-does-not-cover-tools"),
        pytest.param(RepromptN(2), MALFORMED, Reprompt(N(2)), id="n-times"),
        pytest.param(RepromptN(2), TOOL, Fail(), id="n-does-not-cover-tools"),
        pytest.param(ObserveErrors(), DENIED, Fail(), id="observing-cannot-help-a-wrong-key"),
        pytest.param(ObserveErrors(), BUSY, Retry(delay=7.0), id="a-busy-provider-is-asked-again-when-it-says"),
        pytest.param(ObserveErrors(), FOREIGN, Retry(), id="a-foreign-fault-is-tried-again"),
        pytest.param(Recovery({ModelTransportError: Fail(), RuntimeError: Retry()}), FOREIGN, Retry(), id="of-two-as-near-the-cause-decides"),
        pytest.param(Recovery({AgentError: Fail(), RuntimeError: Retry()}), FOREIGN, Retry(), id="the-nearest-decides"),
        pytest.param(Recovery({ToolFailedError: Retry()}), TOOL, Retry(), id="a-row-fits"),
        pytest.param(Recovery({ToolFailedError: Retry()}), MALFORMED, Fail(), id="no-row-fits"),
        pytest.param(Recovery({OSError: Retry(), ToolFailedError: Fail()}), RAISED, Retry(), id="what-the-tool-raised"),
        pytest.param(Recovery({ToolFailedError: Retry()}, backoff=0.25), TOOL, Retry(delay=0.25), id="seconds-to-wait"),
        pytest.param(Recovery({ToolTimeoutError: Retry()}), SLOW, Retry(), id="the-cause-fits"),
        pytest.param(Recovery({ToolFailedError: Fail(), ToolTimeoutError: Retry()}), SLOW, Retry(), id="the-cause-says-more"),
        pytest.param(Recovery({WesichainError: Interrupt(), ToolFailedError: Retry()}), TOOL, Retry(), id="the-deepest-class-wins"),
        pytest.param(Recovery({ModelTransportError: Retry()}), BUSY, Retry(delay=7.0), id="retry-after-is-honoured"),
        pytest.param(Recovery({ModelTransportError: Retry(delay=8.0)}), BUSY, Retry(delay=8.0), id="or-longer"),
        pytest.param(Recovery({ModelTransportError: Reprompt(N(1))}, backoff=40), BUSY, Reprompt(N(1), delay=40), id="the-longer-of-two-waits"),
        pytest.param(Recovery({ToolFailedError: Retry()}, backoff=Backoff(1.0)), TOOL, Retry(delay=1.0), id="the-first-wait"),
    ],
)  # fmt: skip
def test_the_decision_is(engine: PolicyEngine, error: Any, decision: object) -> None:
    decide = engine.on_tool_error if isinstance(error, ToolFailedError) else engine.on_model_error
    assert decide(View(), error) == decision


@pytest.mark.parametrize(
    ("error", "times", "decision"),
    [
        (MALFORMED, 3, Reprompt(N(maxsize))),
        (MALFORMED, 4, Fail()),
        (ModelRefusedError("no"), 1, Fail()),
        (FOREIGN, 1, Retry(delay=0.5)),
        (FOREIGN, 2, Retry(delay=1.0)),
        (FOREIGN, 3, Fail()),
        (BUSY, 1, Retry(delay=7.0)),
        (DENIED, 1, Fail()),
        (TOOL, 99, Reprompt(N(maxsize))),
    ],
)
def test_what_a_model_can_correct_is_returned_to_it_three_times(
    error: Any, times: int, decision: object
) -> None:
    engine, view = SelfCorrect(), View({InvalidModelActionError: times, ModelTransportError: times})
    decide = engine.on_tool_error if error is TOOL else engine.on_model_error
    assert decide(view, error) == decision


def test_of_the_causes_of_an_error_eight_are_looked_at() -> None:
    error: Any = ValueError()
    for _ in range(9):
        error = caused(ValueError(), error)
    assert len(chain_of(error)) == 9
    assert chain_of(TOOL) == [TOOL]


@pytest.mark.parametrize(
    ("times", "decision"),
    [
        pytest.param(1, Retry(delay=1.0), id="first"),
        pytest.param(2, Retry(delay=2.0), id="second"),
        pytest.param(3, Interrupt(), id="then-what-comes-when-exhausted"),
    ],
)
def test_a_rule_counts_and_waits_longer(times: int, decision: object) -> None:
    engine = Recovery(
        {ToolExecutionError: Rule(Retry(), limit=2, backoff=Backoff(1.0), on_exhausted=Interrupt())}
    )
    error = caused(ToolFailedError("x"), ToolExecutionError("x"))
    assert engine.on_tool_error(View({ToolExecutionError: times}), error) == decision


def test_the_n_of_a_reprompt_is_its_limit() -> None:
    engine = Recovery({ToolFailedError: Reprompt(N(5))})
    assert engine.on_tool_error(View({ToolFailedError: 5}), TOOL) == Reprompt(N(5))
    assert engine.on_tool_error(View({ToolFailedError: 6}), TOOL) == Fail()
    engine = Recovery({ToolFailedError: Reprompt(OnceWithToolCatalog())})
    assert engine.on_tool_error(View({ToolFailedError: 2}), TOOL) == Fail()


ONCE = "a model is reprompted at least once; use n >= 1, or Fail()"
DECISION = "is not a decision; use Fail(), Retry(), Reprompt(...) or Interrupt()"
ENDING = "use Fail(), Interrupt() or a Reprompt"
GROWING = "waiting times must grow; use initial >= 0, factor >= 1, maximum >= initial"
WRONG: list[tuple[Any, str]] = [
    *((lambda n=n: N(n), f"N({n!r}): {ONCE}") for n in (0, -1, "3", 1.5)),
    (lambda: RepromptN(0), f"N(0): {ONCE}"),
    *(
        (lambda n=n: SelfCorrect(n), f"SelfCorrect(attempts={n!r}): use 1 or more, or FailFast()")
        for n in (0, True, "3")
    ),
    (lambda: Backoff(-1), f"Backoff(initial=-1, factor=2.0, maximum=30.0, attempts=5): {GROWING}"),
    (lambda: Backoff(factor=0.5), f"Backoff(initial=0.5, factor=0.5, maximum=30.0, attempts=5): {GROWING}"),
    (lambda: Backoff(maximum=0.4), f"Backoff(initial=0.5, factor=2.0, maximum=0.4, attempts=5): {GROWING}"),
    (lambda: Recovery({}), "Recovery({}): an empty table recovers nothing; use FailFast()"),
]  # fmt: skip
TABLES: list[tuple[Any, dict[str, Any], str]] = [
    ([ToolFailedError], {}, "Recovery takes a table {ErrorClass: decision}, not list"),
    ({ToolFailedError: "retry"}, {}, f"Recovery: 'retry' for ToolFailedError {DECISION}"),
    ({"ToolFailedError": Retry()}, {}, "Recovery: 'ToolFailedError' is not a class of errors"),
    ({int: Retry()}, {}, "Recovery: <class 'int'> is not a class of errors"),
    ({ToolFailedError: Rule(Retry(), limit=0)}, {}, "Recovery: a limit of 0 for ToolFailedError; use >= 1"),
    ({ToolFailedError: Retry()}, {"limit": 0}, "Recovery: a limit of 0 for ToolFailedError; use >= 1"),
    ({ToolFailedError: Retry()}, {"backoff": (1, 2)}, "backoff=(1, 2): use seconds, or Backoff(initial, factor, maximum)"),
    ({ToolFailedError: Retry()}, {"on_exhausted": "fail"}, f"Recovery: on_exhausted='fail' is not a decision; {ENDING}"),
    ({ToolFailedError: Retry()}, {"on_exhausted": Retry()}, f"Recovery: on_exhausted=Retry() for ToolFailedError would never end; {ENDING}"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "why"),
    [*WRONG, *((lambda given=given: Recovery(given[0], **given[1]), given[2]) for given in TABLES)],
)
def test_a_contradiction_fails_at_build(make: Any, why: str) -> None:
    with pytest.raises(PolicyConfigError) as refused:
        make()
    assert str(refused.value) == why


def test_at_their_bounds_engines_are_made() -> None:
    N(1), SelfCorrect(1), Backoff(0, 1, 0), Recovery({ToolFailedError: Rule(Retry(), limit=1)})
