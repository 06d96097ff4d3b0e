"""Engines: each a table of fault -> decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from wesichain.core import ReActStep
from wesichain.errors import (
    AgentError,
    InvalidModelActionError,
    LlmRejectedError,
    LlmTransportError,
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
        pytest.param(
            RepromptOnceWithToolCatalog(),
            MALFORMED,
            Reprompt(OnceWithToolCatalog()),
            id="once-with-the-tools-shown",
        ),
        pytest.param(RepromptOnceWithToolCatalog(), TOOL, Fail(), id="once-does-not-cover-tools"),
        pytest.param(RepromptN(2), MALFORMED, Reprompt(N(2)), id="n-times"),
        pytest.param(RepromptN(2), TOOL, Fail(), id="n-does-not-cover-tools"),
        pytest.param(ObserveErrors(), DENIED, Fail(), id="observing-cannot-help-a-wrong-key"),
        pytest.param(
            ObserveErrors(), BUSY, Retry(delay=7.0), id="a-busy-provider-is-asked-again-when-it-says"
        ),
        pytest.param(ObserveErrors(), FOREIGN, Retry(), id="a-foreign-fault-is-tried-again"),
        pytest.param(
            Recovery({ModelTransportError: Fail(), RuntimeError: Retry()}),
            FOREIGN,
            Retry(),
            id="of-two-as-near-the-cause-decides",
        ),
        pytest.param(
            Recovery({AgentError: Fail(), RuntimeError: Retry()}), FOREIGN, Retry(), id="the-nearest-decides"
        ),
        pytest.param(Recovery({ToolFailedError: Retry()}), TOOL, Retry(), id="a-row-fits"),
        pytest.param(Recovery({ToolFailedError: Retry()}), MALFORMED, Fail(), id="no-row-fits"),
        pytest.param(Recovery({OSError: Retry()}), RAISED, Retry(), id="what-the-tool-raised-fits"),
        pytest.param(
            Recovery({ToolFailedError: Retry()}, backoff=0.25), TOOL, Retry(delay=0.25), id="seconds-to-wait"
        ),
        pytest.param(Recovery({ToolTimeoutError: Retry()}), SLOW, Retry(), id="the-cause-fits"),
        pytest.param(
            Recovery({ToolFailedError: Fail(), ToolTimeoutError: Retry()}),
            SLOW,
            Retry(),
            id="the-cause-says-more",
        ),
        pytest.param(
            Recovery({WesichainError: Interrupt(), ToolFailedError: Retry()}),
            TOOL,
            Retry(),
            id="the-deepest-class-wins",
        ),
        pytest.param(
            Recovery({ModelTransportError: Retry()}), BUSY, Retry(delay=7.0), id="retry-after-is-honoured"
        ),
        pytest.param(
            Recovery({ToolFailedError: Retry()}, backoff=Backoff(1.0)),
            TOOL,
            Retry(delay=1.0),
            id="the-first-wait",
        ),
    ],
)
def test_the_decision_is(engine: PolicyEngine, error: Any, decision: object) -> None:
    decide = engine.on_tool_error if isinstance(error, ToolFailedError) else engine.on_model_error
    assert decide(View(), error) == decision


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


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: N(0), id="reprompt-no-times"),
        pytest.param(lambda: N(-1), id="reprompt-less-than-no-times"),
        pytest.param(lambda: N("3"), id="a-text-for-times"),  # type: ignore[arg-type]
        pytest.param(lambda: N(1.5), id="one-and-a-half-times"),  # type: ignore[arg-type]
        pytest.param(lambda: RepromptN(0), id="an-engine-that-never-reprompts"),
        pytest.param(lambda: Recovery([ToolFailedError]), id="a-list-for-a-table"),  # type: ignore[arg-type]
        pytest.param(
            lambda: Recovery({ToolFailedError: Retry()}, backoff=(1, 2)),  # type: ignore[arg-type]
            id="a-pair-for-a-backoff",
        ),
        pytest.param(
            lambda: Recovery({ToolFailedError: Retry()}, on_exhausted="fail"),  # type: ignore[arg-type]
            id="a-word-when-exhausted",
        ),
        pytest.param(lambda: SelfCorrect(attempts=0), id="no-attempts"),
        pytest.param(lambda: SelfCorrect(attempts=True), id="a-flag-for-attempts"),
        pytest.param(lambda: Recovery({}), id="an-empty-table"),
        pytest.param(lambda: Recovery({ToolFailedError: "retry"}), id="a-word-for-a-decision"),  # type: ignore[dict-item]
        pytest.param(lambda: Recovery({"ToolFailedError": Retry()}), id="a-name-for-a-class"),  # type: ignore[dict-item]
        pytest.param(lambda: Recovery({ToolFailedError: Rule(Retry(), limit=0)}), id="a-limit-of-none"),
        pytest.param(
            lambda: Recovery({ToolFailedError: Retry()}, on_exhausted=Retry()), id="exhausted-for-ever"
        ),
        pytest.param(lambda: Backoff(initial=-1), id="waiting-backwards"),
        pytest.param(lambda: Backoff(factor=0.5), id="waiting-less-and-less"),
    ],
)
def test_a_contradiction_fails_at_build(make: Any) -> None:
    with pytest.raises(PolicyConfigError):
        make()
