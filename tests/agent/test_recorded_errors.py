"""Recorded errors that are raised again, and what a replay charges for the recorded events of a call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.agent.kit import call, replayed, say
from tests.agent.test_tree import DOWN, PRICES, priced
from wesichain.agent import Agent, Completed
from wesichain.agent.internal import RaisedError
from wesichain.core import Event, StepFailed, from_json, to_json
from wesichain.errors import LlmTransportError, ToolExecutionError, ToolTimeoutError
from wesichain.policy import Budget, N, Recovery, Reprompt, Retry
from wesichain.testing import ScriptedLlm
from wesichain.tools import ToolContext, tool


class QuotaError(LlmTransportError):
    """An error of a user's own client, whose constructor takes other arguments."""

    def __init__(self, limit: int, unit: str) -> None:
        super().__init__(f"more than {limit} {unit}")


def refused_value() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python("x")
    return caught.value


def raised_from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "classes"),
    [
        pytest.param(LlmTransportError("down"), (LlmTransportError,), id="of-the-framework"),
        pytest.param(KeyError("city"), (KeyError,), id="built-in"),
        pytest.param(
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), (UnicodeDecodeError,), id="of-arguments"
        ),
        pytest.param(QuotaError(5, "tokens"), (QuotaError,), id="of-the-user"),
        pytest.param(
            raised_from(LlmTransportError("down"), QuotaError(5, "tokens")),
            (LlmTransportError, QuotaError),
            id="raised-from-another",
        ),
        pytest.param(refused_value(), (ValueError,), id="that-cannot-be-created"),
        pytest.param(ExceptionGroup("several", [ValueError()]), (ExceptionGroup,), id="a-group"),
    ],
)
def test_a_recorded_error_has_its_class_and_text_again(
    error: Exception, classes: tuple[type[Exception], ...]
) -> None:
    again = from_json(RaisedError, to_json(RaisedError.of(error))).revived()
    assert (type(again).__name__, str(again)) == (type(error).__name__, str(error))
    chain = [again] if again.__cause__ is None else [again, again.__cause__]
    assert all(isinstance(one, kind) for one, kind in zip(chain, classes, strict=True))
    twice = RaisedError.of(again).revived()
    assert isinstance(twice, classes[0]), "of a run that was replayed"
    assert (type(twice).__module__, type(twice).__qualname__) == (
        type(error).__module__,
        type(error).__qualname__,
    )


def test_a_recorded_error_of_a_class_that_is_gone_is_an_exception() -> None:
    again = RaisedError("gone.module:Outer.LostError", "lost", cause="gone.module:LostError").revived()
    assert (type(again).__name__, str(again), again.__cause__) == ("LostError", "lost", None)
    assert RaisedError("LostError", "lost").revived().args == ("lost",), "of a recording without modules"


def test_a_tool_error_is_raised_again_from_a_class_that_cannot_be_created() -> None:
    name = f"{ValidationError.__module__}:{ValidationError.__qualname__}"
    again = RaisedError("ToolExecutionError", "no number", cause=name).revived_for(call("count"))
    assert isinstance(again.__cause__, ValueError)


@pytest.mark.parametrize("name", ["LlmTransportError", "QuotaError", "__doc__"])
def test_a_tool_error_of_another_kind_is_raised_again_as_the_failure_of_a_tool(name: str) -> None:
    again = RaisedError(name, "no").revived_for(call("count", id="c1"))
    assert type(again) is ToolExecutionError
    assert (str(again), again.tool_name, again.call_id) == ("no", "count", "c1")
    late = RaisedError("ToolTimeoutError", "late").revived_for(call("count"))
    assert type(late) is ToolTimeoutError


FREELY = Recovery({Exception: Retry(consume_budget=False)}, limit=99)


async def test_a_replay_charges_what_a_tool_ran_at_its_own_price() -> None:
    inner = Agent(priced([DOWN, "three"], "inner"), name="inner", policy=FREELY)

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Ask the other one."""
        return (await inner.run("t", parent=ctx)).output

    def program() -> Agent[Any, str]:
        llm = priced([say(call("delegate")), "x"], "outer")
        return Agent(llm, tools=[delegate], budget=Budget(cost=50.0, prices=PRICES))

    outcome = await program().outcome("q")
    assert outcome.spent.cost == pytest.approx(10.2)
    assert (outcome.spent.steps, outcome.state.iteration_count) == (3, 2)
    again = await replayed(outcome, program())
    assert (again.spent.steps, again.spent.cost) == (outcome.spent.steps, pytest.approx(outcome.spent.cost))
    assert again.spent.unpriced == outcome.spent.unpriced == {}


class OutOfPaperError(ConnectionError):
    """An error of a user's own model, or of an output check, of no class of the framework."""

    def __init__(self, printer: str, *, pages: int) -> None:
        super().__init__(f"{printer} has no paper for {pages} pages")


async def test_a_policy_finds_the_class_of_a_users_model_error_in_a_replay() -> None:
    def program(*replies: Any) -> Agent[Any, str]:
        policy = Recovery({QuotaError: Retry(), OutOfPaperError: Retry(), LlmTransportError: Reprompt(N(2))})
        return Agent(ScriptedLlm(replies), policy=policy)

    outcome = await program(QuotaError(5, "tokens"), OutOfPaperError("p1", pages=3), "x").outcome("q")
    assert isinstance(outcome, Completed)
    failed = [event for event in outcome.events if isinstance(event, StepFailed)]
    assert [(event.error, event.decision) for event in failed] == [
        ("QuotaError", "retry"),
        ("OutOfPaperError", "retry"),
    ]
    events = from_json(tuple[Event, ...], to_json(outcome.events))
    again = await replayed(SimpleNamespace(events=events, run_id=outcome.run_id), program())
    assert again.events == outcome.events


class WrongAnswerError(ValueError):
    """An error of a user's output check."""


async def test_a_policy_finds_the_class_of_an_output_checks_error_in_a_replay() -> None:
    def program(*replies: str) -> Agent[Any, str]:
        def check(text: str) -> str:
            if text == "short":
                raise WrongAnswerError("too short")
            return text

        policy = Recovery({WrongAnswerError: Reprompt(N(2))})
        return Agent(ScriptedLlm(replies), policy=policy, output_checks=[check])

    outcome = await program("short", "long").outcome("q")
    assert isinstance(outcome, Completed)
    again = await replayed(outcome, program())
    assert again.events == outcome.events
