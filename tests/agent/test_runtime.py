"""The loop, as a table: a script of replies, and how the run ends."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from tests.agent.kit import ADD, add, boom, call, check_events, echo, failed_with, run, runtime, say
from wesichain.agent import AgentRuntime, Completed, Failed, Interrupted
from wesichain.core import (
    Action,
    ErrorStep,
    FinalAnswer,
    LlmRequest,
    LlmResponse,
    Observation,
    ReActState,
    Role,
    Thought,
    ToolCall,
)
from wesichain.errors import (
    BudgetExceededError,
    ConfigError,
    InvalidArgsError,
    InvalidModelActionError,
    LlmTransportError,
    ModelTransportError,
    PolicyViolationError,
    ToolFailedError,
    UnknownToolError,
)
from wesichain.policy import (
    Budget,
    Fail,
    FailFast,
    Interrupt,
    N,
    ObserveErrors,
    Recovery,
    Reprompt,
    RepromptN,
    RepromptOnceWithToolCatalog,
    Retry,
    Rule,
)
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm

UNKNOWN = say(call("subtract", {"a": 1}))
BAD_ARGS = say(call("add", {"a": "one"}))
NOT_JSON = say(call("add", "{oops"))
EMPTY = LlmResponse()
BOOM = say(call("boom"))
DOWN = LlmTransportError("503", retryable=True)


@pytest.mark.parametrize(
    ("replies", "options", "ending", "model_calls"),
    [
        pytest.param(["hi"], {}, Completed, 1, id="an-answer-without-tools"),
        pytest.param([say(ADD), "3"], {}, Completed, 2, id="one-hop"),
        pytest.param([say(ADD, content="let me see"), "3"], {}, Completed, 2, id="text-and-a-call-goes-on"),
        pytest.param([say(call("echo", {"text": str(n)})) for n in range(9)] + ["ok"], {}, Completed, 10, id="nine-hops"),
        pytest.param([UNKNOWN, "x"], {}, InvalidModelActionError, 1, id="an-unknown-tool-fails-fast"),
        pytest.param([BAD_ARGS, "x"], {}, InvalidModelActionError, 1, id="wrong-arguments-fail-fast"),
        pytest.param([NOT_JSON, "x"], {}, InvalidModelActionError, 1, id="arguments-that-are-no-json-fail-fast"),
        pytest.param([EMPTY, "x"], {}, InvalidModelActionError, 1, id="an-empty-reply-fails-fast"),
        pytest.param([BOOM, "x"], {}, ToolFailedError, 1, id="a-failing-tool-fails-fast"),
        pytest.param([DOWN, "x"], {}, ModelTransportError, 1, id="a-dead-provider-fails-fast"),
        pytest.param([KeyError("?"), "x"], {}, ModelTransportError, 1, id="a-foreign-error-of-the-model"),
        pytest.param([LlmResponse("x", finish_reason="error")], {}, ModelTransportError, 1, id="a-reply-that-is-an-error"),
        pytest.param([UNKNOWN, "x"], {"policy": RepromptN(1)}, Completed, 2, id="reprompt-mends-an-unknown-tool"),
        pytest.param([BAD_ARGS, "x"], {"policy": RepromptN(1)}, Completed, 2, id="reprompt-mends-arguments"),
        pytest.param([EMPTY, "x"], {"policy": RepromptN(1)}, Completed, 2, id="reprompt-mends-an-empty-reply"),
        pytest.param([UNKNOWN] * 3, {"policy": RepromptN(2)}, InvalidModelActionError, 3, id="reprompt-twice-then-fail"),
        pytest.param([BOOM, "x"], {"policy": RepromptN(3)}, ToolFailedError, 1, id="reprompt-does-not-cover-tools"),
        pytest.param([UNKNOWN, "x"], {"policy": RepromptOnceWithToolCatalog()}, Completed, 2, id="once-with-catalog"),
        pytest.param([UNKNOWN] * 2, {"policy": RepromptOnceWithToolCatalog()}, InvalidModelActionError, 2, id="only-once"),
        pytest.param([UNKNOWN, BAD_ARGS, EMPTY, BOOM, DOWN, "x"], {"policy": ObserveErrors()}, Completed, 6, id="observe-them-all"),
        pytest.param([UNKNOWN] * 20, {"policy": ObserveErrors(), "budget": Budget(5)}, BudgetExceededError, 5, id="observe-in-bounds"),
        pytest.param([DOWN] * 20, {"policy": ObserveErrors(), "budget": Budget(4)}, BudgetExceededError, 4, id="dead-in-bounds"),
        pytest.param([DOWN, "x"], {"policy": Recovery({LlmTransportError: Retry()})}, Completed, 2, id="retry-the-model"),
        pytest.param(
            [DOWN] * 9,
            {"policy": Recovery({LlmTransportError: Rule(Retry(), limit=2)})},
            ModelTransportError,
            3,
            id="retry-twice-then-fail",
        ),
        pytest.param(
            [DOWN] * 9,
            {"policy": Recovery({LlmTransportError: Retry()}, on_exhausted=Interrupt()), "budget": Budget(9)},
            Interrupted,
            4,
            id="exhausted-means-interrupt",
        ),
        pytest.param(
            [DOWN] * 99,
            {
                "policy": Recovery({LlmTransportError: Rule(Retry(consume_budget=False), limit=50)}),
                "budget": Budget(2, free_retries=3),
            },
            BudgetExceededError,
            5,
            id="free-retries-are-few",
        ),
        pytest.param([BOOM, "x"], {"policy": Recovery({ValueError: Fail()})}, ToolFailedError, 1, id="no-row-for-it"),
    ],
)  # fmt: skip
def test_a_run_ends(replies: list[Any], options: dict[str, Any], ending: type, model_calls: int) -> None:
    llm = ScriptedLlm(replies)
    engine = AgentRuntime(llm, [add, boom, echo], clock=FakeClock(), **options)
    outcome = asyncio.run(engine.run("q"))
    check_events(outcome.events)
    assert len(llm.requests) == model_calls
    if isinstance(outcome, Failed):
        assert isinstance(outcome.error, ending), outcome.error
        assert outcome.steps[-1] == ErrorStep(str(outcome.error))
        assert outcome.error.step_id > 0
    else:
        assert isinstance(outcome, ending)


def test_a_slow_model_is_cut_off_by_the_budget_of_seconds() -> None:
    async def forever(_: Any) -> str:
        await asyncio.sleep(30)
        return "late"

    outcome = asyncio.run(AgentRuntime(FunctionLlm(forever), budget=Budget(seconds=0.05)).run("q"))
    assert failed_with(outcome, BudgetExceededError).resource == "seconds"
    check_events(outcome.events)


def test_an_invalid_action_carries_its_data() -> None:
    outcome = run([BAD_ARGS])
    error = outcome.error
    assert isinstance(error, InvalidModelActionError)
    assert (error.step_id, error.tool_name, error.received_args) == (1, "add", {"a": "one"})
    assert error.raw_response.tool_calls == BAD_ARGS.tool_calls
    assert isinstance(error.__cause__, InvalidArgsError)
    assert isinstance(run([UNKNOWN]).error.__cause__, UnknownToolError)


def test_complete_arguments_run_even_when_the_reply_was_cut() -> None:
    reply = LlmResponse(tool_calls=(ADD,), finish_reason="length")
    assert run([reply, "3"]).output == "3"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(None, id="nothing"),
        pytest.param({"content": "x"}, id="a-dict"),
        pytest.param(LlmResponse(content=None), id="content-that-is-none"),  # type: ignore[arg-type]
        pytest.param(LlmResponse("x", usage=None), id="usage-that-is-none"),  # type: ignore[arg-type]
        pytest.param(LlmResponse(tool_calls=({"name": "add"},)), id="a-dict-for-a-call"),  # type: ignore[arg-type]
        pytest.param(LlmResponse(tool_calls=(ToolCall(1, "add", {}),)), id="a-number-for-an-id"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_reply_of_the_wrong_shape_is_malformed(reply: Any, stream: bool) -> None:
    class Odd:
        async def complete(self, request: Any) -> Any:
            return reply

    outcome = asyncio.run(AgentRuntime(Odd(), [add]).run("q", stream=stream))
    failed_with(outcome, InvalidModelActionError)
    check_events(outcome.events)


def test_a_failed_run_keeps_the_results_of_its_last_batch() -> None:
    outcome = run(
        [
            say(
                call("add", {"a": 1, "b": 2}, id="1"),
                call("boom", id="2"),
                call("echo", {"text": "x"}, id="3"),
            )
        ]
    )
    assert isinstance(outcome, Failed)
    observed = {step.call_id: step.value for step in outcome.steps if isinstance(step, Observation)}
    assert observed["1"] == 3
    assert str(observed["2"]).startswith("[TOOL ERROR]")
    assert str(observed["3"]).startswith("[NOT RUN]")
    assert isinstance(outcome.steps[-1], ErrorStep)


def test_a_call_in_between_breaks_the_row() -> None:
    replies = [say(ADD), say(ADD), say(call("echo", {"text": "x"})), say(ADD), say(ADD), "ok"]
    assert run(replies).output == "ok"


def test_exclusion_is_of_one_run() -> None:
    engine = runtime(
        [say(call("boom", {"why": str(n)})) for n in range(3)] + ["ok", "again"], policy=ObserveErrors()
    )
    asyncio.run(engine.run("q"))
    asyncio.run(engine.run("q"))
    assert len(engine.llm.requests[-1].tools) == 3  # type: ignore[attr-defined]  # the script's own record


def test_an_endless_retry_of_a_tool_is_bounded_by_the_budget() -> None:
    policy = Recovery({ToolFailedError: Rule(Retry(), limit=10**6)})
    outcome = run([BOOM], policy=policy, budget=Budget(6), exclude_after=None)
    failed_with(outcome, BudgetExceededError)
    check_events(outcome.events)


class Raises:
    def on_model_error(self, state: Any, error: Any) -> Any:
        raise RuntimeError("policy bug")

    on_tool_error = on_model_error


class Nonsense:
    def __init__(self, decision: Any) -> None:
        self.decision = decision

    def on_model_error(self, state: Any, error: Any) -> Any:
        return self.decision

    on_tool_error = on_model_error


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(Raises(), id="raises"),
        pytest.param(Nonsense("retry"), id="says-a-word"),
        pytest.param(Nonsense(Reprompt("x")), id="has-no-such-strategy"),  # type: ignore[arg-type]
        pytest.param(Nonsense(Retry(delay=None)), id="waits-for-no-time"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("reply", [pytest.param(UNKNOWN, id="model"), pytest.param(BOOM, id="tool")])
def test_a_broken_policy_is_a_violation_and_the_state_is_kept(policy: Any, reply: Any) -> None:
    outcome = run([say(ADD), reply], policy=policy)
    failed_with(outcome, PolicyViolationError)
    assert Observation(3, "add-id") in outcome.steps
    check_events(outcome.events)


def test_a_policy_sees_the_run() -> None:
    seen: list[Any] = []

    class Watching(FailFast):
        def on_model_error(self, state: Any, error: Any) -> Any:
            seen.append(
                (state.user_input, len(state.scratchpad), state.iteration_count, state.faults(type(error)))
            )
            return Reprompt(N(9))

    run([UNKNOWN, UNKNOWN, "ok"], policy=Watching())
    assert seen == [("q", 0, 1, 1), ("q", 2, 2, 2)]


def test_an_unfinished_state_goes_on() -> None:
    over: list[Any] = [
        Thought("old"),
        FinalAnswer("was"),
        Thought("and then"),
        ErrorStep("it broke"),
    ]  # of runs before
    before = ReActState("q", [*over, Thought("hm"), Action(ADD), Observation(3, "add-id")], None, 2)
    llm = ScriptedLlm(["3"])
    outcome = asyncio.run(AgentRuntime(llm, [add], budget=Budget(3)).run(before))
    assert isinstance(outcome, Completed)
    shown = [(message.role.value, message.text) for message in llm.requests[0].messages]
    said = [("assistant", text) for text in ("old", "was", "and then", "hm")]
    assert shown == [("user", "q"), *said, ("tool", "3")]
    assert outcome.state.iteration_count == 3
    assert isinstance(
        asyncio.run(AgentRuntime(ScriptedLlm([say(ADD)]), [add], budget=Budget(2)).run(before)), Failed
    )


def test_a_finished_state_starts_anew_and_keeps_counting() -> None:
    before = ReActState("q", [FinalAnswer("old")], "old", 2)
    llm = ScriptedLlm(["new"])
    outcome = asyncio.run(AgentRuntime(llm, budget=Budget(1)).run(before))
    assert outcome.state == ReActState("q", [FinalAnswer("old"), FinalAnswer("new")], "new", 3)
    assert len(llm.requests[0].messages) == 1


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a model"):
        AgentRuntime(object())  # type: ignore[call-overload]  # the point of the test


async def test_a_run_that_has_ended_is_freed_at_once() -> None:
    """Objects that have each other wait for the garbage collector, whose pauses others then notice."""

    def reply(request: LlmRequest) -> LlmResponse:
        hops = sum(message.role is Role.TOOL for message in request.messages)
        return LlmResponse("done") if hops > 2 else say(call("add", {"a": hops, "b": 1}, id=f"c{hops}"))

    runtime = AgentRuntime(FunctionLlm(reply), [add])
    await runtime.run("q")
    while gc.collect():  # what finalizers of earlier tests leave is collected by the next one
        pass
    gc.disable()
    try:
        for _ in range(20):
            await runtime.run("q")
        assert gc.collect() == 0
    finally:
        gc.enable()
