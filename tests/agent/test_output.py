"""Structured output: by the model's own schema mode, or by a final tool; checked either way."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from pydantic import BaseModel

from tests.agent.kit import ADD, add, call, check_events, failed_with, say
from wesichain.agent import AgentRuntime, Completed, Failed, Interrupted
from wesichain.core import FinalAnswer, LlmRequest, LlmResponse, TextChunk, ToolCallChunk, from_json, to_json
from wesichain.core.events import OutputDelta
from wesichain.core.internal import CancellationToken
from wesichain.errors import (
    BudgetExceededError,
    ConfigError,
    InvalidModelActionError,
    ToolError,
    TruncatedReplyError,
)
from wesichain.llm import LlmTraits, StreamingLlm, StreamItem
from wesichain.policy import Budget, RepromptN
from wesichain.testing import ScriptedLlm
from wesichain.tools import Finish, RunContext, tool


class City(BaseModel):
    name: str
    people: int


@dataclass
class Point:
    x: int
    y: int


OSLO = {"name": "Oslo", "people": 700_000}


def final(args: Any) -> LlmResponse:
    return say(call("final_answer", args))


@pytest.mark.parametrize(
    ("output_type", "args", "output"),
    [
        pytest.param(City, OSLO, City(name="Oslo", people=700_000), id="a-pydantic-model"),
        pytest.param(Point, {"x": 1, "y": 2}, Point(1, 2), id="a-dataclass"),
        pytest.param(int, {"value": 5}, 5, id="a-number"),
        pytest.param(
            list[City], {"value": [OSLO]}, [City(name="Oslo", people=700_000)], id="a-list-of-models"
        ),
        pytest.param(bool | None, {"value": None}, None, id="perhaps-nothing"),
        pytest.param(dict[str, int], {"a": 1}, {"a": 1}, id="a-mapping"),
    ],
)
def test_by_a_final_tool(output_type: Any, args: Any, output: Any) -> None:
    llm = ScriptedLlm([say(ADD), final(args)])
    outcome = asyncio.run(AgentRuntime(llm, [add], output_type=output_type).run("q"))
    assert isinstance(outcome, Completed)
    assert outcome.output == output
    assert isinstance(outcome.steps[-1], FinalAnswer)
    assert [spec.name for spec in llm.requests[0].tools] == ["add", "final_answer"]
    assert llm.requests[0].output_schema is None
    check_events(outcome.events)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(final({"name": "Oslo"}), ["people", "required"], id="a-missing-field"),
        pytest.param(final({"name": "Oslo", "people": "many"}), ["people", "many"], id="a-wrong-type"),
        pytest.param(final("{cut"), ["not JSON"], id="arguments-that-are-no-json"),
        pytest.param("Oslo", ["call the tool 'final_answer'"], id="plain-text"),
    ],
)
def test_an_invalid_answer_is_reprompted_under_the_same_policy(reply: Any, words: list[str]) -> None:
    llm = ScriptedLlm([reply, final(OSLO)])
    outcome = asyncio.run(AgentRuntime(llm, output_type=City, policy=RepromptN(1)).run("q"))
    assert isinstance(outcome, Completed)
    for word in words:
        assert word in llm.requests[1].messages[-1].content
    failed = asyncio.run(AgentRuntime(ScriptedLlm([reply]), output_type=City).run("q"))
    failed_with(failed, InvalidModelActionError)


def test_the_first_valid_answer_wins_and_calls_beside_it_do_not_run() -> None:
    runs: list[int] = []

    @tool
    async def spy() -> str:
        """Counts."""
        runs.append(1)
        return "x"

    reply = say(call("spy"), call("final_answer", {"name": 1}, id="1"), call("final_answer", OSLO, id="2"))
    outcome = asyncio.run(AgentRuntime(ScriptedLlm([reply]), [spy], output_type=City).run("q"))
    assert isinstance(outcome, Completed)
    assert outcome.output.name == "Oslo"
    assert runs == []


def test_at_the_limit_a_typed_answer_is_asked_for_or_the_run_fails() -> None:
    replies = [say(ADD), final(OSLO)]
    outcome = asyncio.run(
        AgentRuntime(ScriptedLlm(replies), [add], output_type=City, budget=Budget(1), on_limit="answer").run(
            "q"
        )
    )
    assert isinstance(outcome, Completed)
    assert outcome.output.name == "Oslo"
    partial = asyncio.run(
        AgentRuntime(ScriptedLlm(replies), [add], output_type=City, budget=Budget(1), on_limit="partial").run(
            "q"
        )
    )
    assert isinstance(partial, Failed), "text that is no City must not pass for one"


def test_a_tool_may_not_take_the_final_tool_s_name() -> None:
    @tool(name="final_answer")
    async def clash() -> str:
        """Clashes."""
        return "x"

    with pytest.raises(ConfigError, match="final_answer"):
        AgentRuntime(ScriptedLlm([]), [clash], output_type=City)


class Flight(BaseModel):
    price: int
    note: str = ""


class NoFlight(BaseModel):
    reason: str = ""


class Refund(BaseModel):
    price: int = 0


FLIGHT = Flight(price=350)
UNION: Any = Flight | NoFlight


def told(llm: ScriptedLlm, request: int = 1) -> tuple[Any, ...]:
    """The messages that are new in a request, as (role, text, call ids)."""
    messages = llm.requests[request].messages[len(llm.requests[request - 1].messages) :]
    return tuple(
        (one.role.value, one.text, [call.id for call in one.tool_calls] or one.tool_call_id)
        for one in messages
    )


class TestUnion:
    @pytest.mark.parametrize(
        "output", [Flight(price=1), Refund(price=1), NoFlight(reason="x"), 5, None, "x", ["y"]]
    )
    def test_the_text_of_an_answer_is_read_as_the_same(self, output: Any) -> None:
        union: Any = Flight | Refund | NoFlight | int | list[str] | str | None
        kind = "None" if output is None else "list_str" if isinstance(output, list) else type(output).__name__
        args = output.model_dump() if isinstance(output, BaseModel) else {"value": output}
        runtime = AgentRuntime(ScriptedLlm([say(call(f"final_{kind}", args))]), output_type=union)
        outcome = asyncio.run(runtime.run("q"))
        assert isinstance(outcome, Completed)
        assert (outcome.output, type(outcome.output)) == (output, type(output))
        again = runtime.read_output(outcome.text)
        assert (again, type(again)) == (output, type(output))

    @pytest.mark.parametrize("mode", ["native", "prompted"])
    def test_without_tools_the_answer_says_which_it_is(self, mode: Any) -> None:
        llm = ScriptedLlm(
            ['{"kind": "Flight", "value": {"price": "350"}}', '{"kind": "Flight", "value": {"price": 350}}'],
            traits=LlmTraits(native_output=True),
        )
        made = AgentRuntime(llm, output_type=UNION, output_mode=mode, policy=RepromptN(1))
        outcome = asyncio.run(made.run("q"))
        assert isinstance(outcome, Completed)
        assert outcome.output == FLIGHT
        assert [one[0] for one in told(llm)] == ["assistant", "user"]
        assert (llm.requests[0].output_schema is None) is (mode == "prompted")
        assert ("JSON schema" in llm.requests[0].messages[0].text) is (mode == "prompted")


def test_a_check_takes_the_answer() -> None:
    with pytest.raises(ConfigError, match="takes"):
        AgentRuntime(ScriptedLlm([]), output_checks=[lambda: 5])  # type: ignore[list-item]  # that is the point


def test_a_wrong_answer_stays_in_the_history_with_the_calls_beside_it() -> None:
    reply = say(call("add", {"a": 1, "b": 2}), call("final_answer", {"name": "Oslo"}, id="f"))
    llm = ScriptedLlm([reply, final(OSLO)])
    outcome = asyncio.run(AgentRuntime(llm, [add], output_type=City, policy=RepromptN(1)).run("q"))
    assert isinstance(outcome, Completed)
    (_, _, made), first, second = told(llm)
    assert made == ["add-id", "f"]
    assert (first[0], first[2]) == ("tool", "add-id")
    assert "[NOT RUN]" in first[1]
    assert (second[0], second[2]) == ("tool", "f")
    assert "people" in second[1]
    assert 'got {"name":"Oslo"}' in second[1].replace(": ", ":")


@pytest.mark.parametrize(
    "reply", [final('{"name": "Os'), final({}), LlmResponse('{"name": "Os')], ids=["call", "empty", "text"]
)
def test_a_typed_answer_that_was_cut_is_a_truncated_reply(reply: LlmResponse) -> None:
    llm = ScriptedLlm([replace(reply, finish_reason="length")])
    outcome = asyncio.run(AgentRuntime(llm, output_type=City).run("q"))
    failed_with(outcome, TruncatedReplyError)


class TestChecks:
    def test_the_model_is_told_what_a_check_refuses(self) -> None:
        seen: list[Any] = []

        def is_known(output: City) -> City:
            if output.name != "Oslo":
                raise ValueError("there is no such city")
            return output

        async def rounded(ctx: RunContext[Any], output: City) -> City:
            seen.append((ctx.deps, ctx.run_id, ctx.step_id, ctx.agent, len(ctx.messages)))
            return output.model_copy(update={"people": ctx.deps * 1000})

        llm = ScriptedLlm([final({"name": "Olso", "people": 1}), final(OSLO)])
        checks: list[Any] = [is_known, rounded]
        runtime = AgentRuntime(llm, output_type=City, output_checks=checks, policy=RepromptN(1))
        outcome = asyncio.run(runtime.run("q", deps=700, run_id="r"))
        assert isinstance(outcome, Completed)
        assert outcome.output == City(name="Oslo", people=700_000)
        assert runtime.read_output(outcome.text) == outcome.output
        assert seen == [(700, "r", 2, "agent", 3)], "and not again when it is replayed"
        assert "there is no such city" in told(llm)[1][1]

    def test_text_answers_are_checked_too(self) -> None:
        def brief(output: str) -> str:
            if len(output) > 5:
                raise ToolError("at most five letters")
            return output.upper()

        llm = ScriptedLlm(["much too long", "ok"])
        outcome = asyncio.run(AgentRuntime(llm, output_checks=[brief], policy=RepromptN(1)).run("q"))
        assert isinstance(outcome, Completed)
        assert (outcome.output, outcome.text) == ("OK", "OK")
        assert [one[0] for one in told(llm)] == ["assistant", "user"]

    def test_what_is_changed_in_place_is_in_the_text(self) -> None:
        def grow(output: City) -> City:
            output.people += 1
            return output

        runtime = AgentRuntime(ScriptedLlm([final(OSLO)]), output_type=City, output_checks=[grow])
        outcome = asyncio.run(runtime.run("q"))
        assert isinstance(outcome, Completed)
        assert runtime.read_output(outcome.text).people == 700_001

    def test_the_last_word_is_checked(self) -> None:
        def never(output: Any) -> Any:
            raise ValueError("no")

        for on_limit in ("answer", "partial"):
            llm = ScriptedLlm([say(ADD, content="3"), final({"value": 3})])
            options: Any = {"budget": Budget(1), "on_limit": on_limit, "output_checks": [never]}
            outcome = asyncio.run(AgentRuntime(llm, [add], output_type=int, **options).run("q"))
            failed_with(outcome, BudgetExceededError)

    def test_a_tool_s_last_word_is_checked(self) -> None:
        @tool
        async def finish() -> Any:
            """Ends."""
            return Finish({"name": "Olso", "people": 1})

        def is_known(output: City) -> City:
            if output.name != "Oslo":
                raise ValueError("there is no such city")
            return output

        llm = ScriptedLlm([say(call("finish")), final(OSLO)])
        options: Any = {"output_checks": [is_known], "policy": RepromptN(1)}
        outcome = asyncio.run(AgentRuntime(llm, [finish], output_type=City, **options).run("q"))
        assert isinstance(outcome, Completed)
        assert outcome.output.name == "Oslo"

    def test_a_check_that_forgets_to_return_is_the_caller_s_mistake(self) -> None:
        def forgets(output: City) -> None:
            assert output.name

        with pytest.raises(ConfigError, match=r"forgets.*return the output"):
            asyncio.run(
                AgentRuntime(
                    ScriptedLlm([final(OSLO)]), output_type=City, output_checks=[cast("Any", forgets)]
                ).run("q")
            )

    def test_a_check_that_breaks_ends_the_run_by_its_name(self) -> None:
        def broken(output: City) -> City:
            raise KeyError("x")

        runtime = AgentRuntime(ScriptedLlm([final(OSLO)]), output_type=City, output_checks=[broken])
        outcome = asyncio.run(runtime.run("q"))
        assert isinstance(outcome, Failed)
        assert "'broken' raised KeyError" in str(outcome.error)

    def test_a_run_stopped_in_a_check_goes_on_with_the_answer_it_had(self) -> None:
        token, times = CancellationToken(), list[int]()

        async def slow(output: City) -> City:
            times.append(1)
            if len(times) == 1:
                token.cancel("stop")
                await asyncio.sleep(60)
            return output

        llm = ScriptedLlm([final(OSLO)])
        runtime = AgentRuntime(llm, output_type=City, output_checks=[slow])

        async def both() -> Any:
            stopped = await runtime.run("q", cancellation=token)
            assert isinstance(stopped, Interrupted)
            return await runtime.resume(from_json(Interrupted, to_json(stopped)))

        outcome = asyncio.run(both())
        assert isinstance(outcome, Completed)
        assert outcome.output.name == "Oslo"
        assert (len(llm.requests), len(times)) == (1, 2)


class InPieces(ScriptedLlm, StreamingLlm):
    """Streams the text and the calls of its replies, a few characters at a time."""

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamItem]:
        reply = await self.complete(request)
        for start in range(0, len(reply.content), 7):
            yield TextChunk(reply.content[start : start + 7])
        for index, one in enumerate(reply.tool_calls):
            yield ToolCallChunk(index, one.id, one.name)
            args = json.dumps(one.args)
            for start in range(0, len(args), 7):
                yield ToolCallChunk(index, args=args[start : start + 7])
        yield reply


def deltas(outcome: Any) -> list[Any]:
    return [event.value for event in outcome.events if isinstance(event, OutputDelta)]


class TestDeltas:
    CITIES = tuple({"name": f"City number {n}", "people": n} for n in range(400))

    @pytest.mark.parametrize("native", [False, True])
    def test_what_is_readable_so_far_is_told(self, native: bool) -> None:
        whole = {"value": [*self.CITIES]}
        reply = LlmResponse(json.dumps(whole)) if native else final(whole)
        llm = InPieces([reply], traits=LlmTraits(native_output=native))
        outcome = asyncio.run(AgentRuntime(llm, output_type=list[City]).run("q", stream=True))
        assert isinstance(outcome, Completed)
        seen = deltas(outcome)
        assert seen[-1] == whole["value"]
        assert len(seen) > 20
        lengths = [len(value) for value in seen]
        assert lengths == sorted(lengths)
        written = sum(len(json.dumps(value)) for value in seen)
        assert written < 12 * len(json.dumps(whole)), "all of them together are linear in the answer"
        check_events(outcome.events)

    def test_none_without_a_stream_and_none_of_plain_text(self) -> None:
        quiet = asyncio.run(AgentRuntime(InPieces([final(OSLO)]), output_type=City).run("q"))
        text = asyncio.run(
            AgentRuntime(InPieces(['{"a": "plain text that looks like JSON"}'])).run("q", stream=True)
        )
        words = InPieces([say(call("final_answer", OSLO), content="Let me think about this, city by city.")])
        thought = asyncio.run(AgentRuntime(words, output_type=City).run("q", stream=True))
        assert deltas(quiet) == deltas(text) == []
        assert deltas(thought)[-1] == OSLO
        assert all(value.keys() <= OSLO.keys() for value in deltas(thought))

    def test_a_number_that_json_lacks_is_never_told(self) -> None:
        reply = LlmResponse('{"value": [1.0, 2.5, 3.25, 4.75, NaN, Infinity, 5.5, 6.5]}')
        llm = InPieces([reply], traits=LlmTraits(native_output=True))
        outcome = asyncio.run(AgentRuntime(llm, output_type=list[float]).run("q", stream=True))
        assert deltas(outcome)
        assert all(math.isfinite(number) for value in deltas(outcome) for number in value)

    def test_a_model_that_cannot_stream_shows_the_whole(self) -> None:
        outcome = asyncio.run(
            AgentRuntime(ScriptedLlm([final(OSLO)]), output_type=City).run("q", stream=True)
        )
        assert deltas(outcome) == [OSLO]
