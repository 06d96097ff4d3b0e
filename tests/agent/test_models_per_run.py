"""Another model or budget for one run: its price, name and traits, and what a resume goes on with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests.agent.kit import call, failed_with, say
from wesichain.agent import Agent, AgentRuntime, Approve, Completed, Failed, Interrupted, replay
from wesichain.core import CompletionLlm, LlmResponse, RunStarted, ToolCompleted, Usage, from_json, to_json
from wesichain.errors import BudgetExceededError, ConfigError
from wesichain.llm import LlmTraits
from wesichain.policy import Budget, Price
from wesichain.testing import ScriptedLlm
from wesichain.tools import tool
from wesichain.trace import Recorder, load


class Named(ScriptedLlm):
    """A scripted model with a name of its own."""

    def __init__(self, model: str, replies: Any, traits: LlmTraits | None = None) -> None:
        super().__init__(replies)
        self.model = model
        if traits is not None:
            self.traits = traits


class City(BaseModel):
    name: str


@tool(approval=True)
def delete(name: str) -> str:
    """Delete a file."""
    return f"deleted {name}"


def models_of(result: Any) -> list[str]:
    return [event.model for event in result.events if isinstance(event, RunStarted)]


def test_every_door_takes_it() -> None:
    async def main() -> list[str]:
        own = Named("own", [])
        agent = Agent(own)
        heard = [(await agent.run("q", model=Named("a", ["from a"]))).output]
        outcome = await agent.outcome("q", model=Named("b", ["from b"]))
        assert isinstance(outcome, Completed)
        heard.append(outcome.output)
        async with agent.stream("q", model=Named("c", ["from c"])) as stream:
            async for _ in stream:
                pass
        heard.append(stream.result.output)
        async with agent.iterate("q", model=Named("d", ["from d"])) as steps:
            async for _ in steps:
                pass
        assert isinstance(steps.outcome, Completed)
        heard.append(steps.outcome.output)
        ended = await AgentRuntime(own).run("q", model=Named("e", ["from e"]))
        assert isinstance(ended, Completed)
        heard.append(ended.output)
        assert own.requests == []
        return heard

    assert asyncio.run(main()) == ["from a", "from b", "from c", "from d", "from e"]
    agent = Agent(Named("own", ["from own"]))
    assert agent.run_sync("q", model=Named("f", ["from f"])).output == "from f"
    assert agent.run_sync("q").output == "from own"


def test_a_name_is_a_client_and_the_same_one_for_every_run() -> None:
    runtime = Agent(Named("own", [])).runtime
    first = runtime.with_model("openai:gpt-x")
    assert first is runtime.with_model("openai:" + "GPT-X".lower()), "by its letters, whichever object it is"
    assert runtime.with_model("openai:gpt-x").model == "gpt-x"
    assert runtime.with_model("openai:gpt-y") is not runtime.with_model("openai:gpt-x")
    for number in range(16):
        runtime.with_model(f"openai:other-{number}")
    assert runtime.with_model("openai:gpt-x") is not first, "as many as are used at a time are kept"
    with pytest.raises(ConfigError, match="names no provider"):
        runtime.with_model("gpt-x")
    with pytest.raises(ConfigError, match="is not a model"):
        asyncio.run(runtime.run("q", model=5))  # type: ignore[arg-type]  # what a newcomer may try


def test_its_own_price_and_none_is_refused_before_it_is_asked() -> None:
    budget = Budget(cost=1.0, prices={"own": (1.0, 1.0), "dear": (1000.0, 1000.0)})
    agent = Agent(Named("own", ["x"]), budget=budget)
    asked = LlmResponse("x", usage=Usage(1_000, 0))
    assert agent.run_sync("q", model=Named("dear", [asked])).outcome.spent.cost == pytest.approx(1.0)
    unknown = Named("unknown", ["x"])
    with pytest.raises(ConfigError, match="prices of 'unknown'"):
        agent.run_sync("q", model=unknown)
    assert unknown.requests == []
    with pytest.raises(ConfigError, match="prices of 'unknown'"):
        Agent(Named("own", [])).run_sync("q", model=unknown, budget=budget)


def test_how_a_typed_answer_is_asked_for_follows_the_model() -> None:
    native = Named("native", ['{"name": "Oslo"}'], LlmTraits(native_output=True))
    agent: Agent[Any, City] = Agent(
        Named("own", [say(call("final_answer", {"name": "Rome"}))]), output_type=City
    )
    assert agent.run_sync("q", model=native).output == City(name="Oslo")
    assert native.requests[0].output_schema is not None
    assert native.requests[0].tools == ()
    assert agent.run_sync("q").output == City(name="Rome")


class Parrot(CompletionLlm):
    """A plain text model."""

    async def complete_text(self, prompt: str, *, stop: Any) -> str:
        del prompt, stop
        return "Thought: I know.\nFinal Answer: Oslo"


def test_a_text_model_is_one_too() -> None:
    assert Agent(Named("own", [])).run_sync("q", model=Parrot()).output == "Oslo"


@pytest.mark.parametrize("typed", [False, True])
def test_it_is_recorded_and_replayed_under_its_name_and_price(tmp_path: Path, typed: bool) -> None:
    budget = Budget(cost=10.0, prices={"own": (1.0, 1.0), "other": (50.0, 1.0)})
    traits = LlmTraits(native_output=True, output_with_tools=True) if typed else None
    replies = [LlmResponse('{"name": "Oslo"}', usage=Usage(1_000, 0))]

    def agent(**options: Any) -> Agent[Any, Any]:
        output: Any = City if typed else str
        return Agent(Named("own", []), tools=[delete], output_type=output, budget=budget, **options)

    live = agent(events=Recorder(tmp_path)).run_sync("q", model=Named("other", replies, traits))
    recording = load(next(tmp_path.glob("*.jsonl")))
    again = asyncio.run(replay(recording, agent()))
    assert isinstance(again, Completed)
    assert again.output == live.output
    assert models_of(again) == ["other"]
    assert again.spent == live.outcome.spent
    assert again.spent.cost == pytest.approx(0.05)


def waiting(agent: Agent[Any, str], **options: Any) -> Interrupted[str]:
    outcome = asyncio.run(agent.outcome("delete it", **options))
    assert isinstance(outcome, Interrupted)
    return outcome


class TestAResume:
    def test_goes_on_with_the_model_that_it_began_with(self) -> None:
        own, other = Named("own", []), Named("other", [say(call("delete", {"name": "x"})), "done"])
        agent = Agent(own, tools=[delete])
        outcome = waiting(agent, model=other)
        result = asyncio.run(agent.resume(outcome, {outcome.pending[0].token: Approve()}))
        assert result.output == "done"
        assert len(other.requests) == 2
        assert own.requests == []
        assert models_of(result) == ["other"]

    def test_in_another_process_asks_for_it_and_does_not_take_another(self) -> None:
        other = Named("other", [say(call("delete", {"name": "x"}))])
        text = to_json(waiting(Agent(Named("own", []), tools=[delete]), model=other))
        read = from_json(Interrupted, text)
        own = Named("own", ["from own"])
        agent = Agent(own, tools=[delete])
        decisions = {read.pending[0].token: Approve()}
        with pytest.raises(ConfigError, match=r"'other'.*pass model="):
            asyncio.run(agent.resume(read, decisions))
        third = Named("third", ["from third"])
        result = asyncio.run(agent.resume(read, decisions, model=third))  # the token was not used up
        assert result.output == "from third"
        assert own.requests == []
        assert [event.tool_name for event in result.events if isinstance(event, ToolCompleted)] == ["delete"]

    def test_a_name_is_found_again_in_another_process(self) -> None:
        outcome = waiting(Agent(Named("own", [say(call("delete", {"name": "x"}))]), tools=[delete]))
        assert '"own_model"' not in to_json(outcome)  # an agent's own model may be changed
        told = Agent(Named("own", []), tools=[delete]).runtime.with_model("openai:gpt-x")
        idle = told.start("q")
        assert idle.info.model == "openai:gpt-x"
        assert Agent(Named("own", [])).runtime._models.known("openai:gpt-x") == "openai:gpt-x"

    def test_may_change_it_and_the_next_one_remembers(self) -> None:
        own = Named("own", [say(call("delete", {"name": "x"}))])
        agent = Agent(own, tools=[delete])
        first = waiting(agent)
        other = Named("other", [say(call("delete", {"name": "y"}, id="2")), "done"])
        second = asyncio.run(agent.runtime.resume(first, {first.pending[0].token: Approve()}, model=other))
        assert isinstance(second, Interrupted)
        assert second.info.model == "other"
        third = asyncio.run(agent.runtime.resume(second, {second.pending[0].token: Approve()}))
        assert isinstance(third, Completed)
        assert third.output == "done"
        assert len(other.requests) == 2

    @pytest.mark.parametrize("steps", [2, 30])
    def test_goes_on_with_the_budget_that_it_began_with(self, steps: int) -> None:
        asks = [say(call("delete", {"name": str(number)}, id=str(number))) for number in range(15)]
        agent = Agent(Named("own", [*asks, say(content="done")]), tools=[delete], budget=Budget(steps=12))
        outcome: Any = waiting(agent, budget=Budget(steps=steps, cost=9.0, prices={"own": Price(1, 2, 3, 4)}))
        while isinstance(outcome, Interrupted):
            read = from_json(Interrupted, to_json(outcome))
            outcome = asyncio.run(agent.runtime.resume(read, {read.pending[0].token: Approve()}))
        assert isinstance(outcome, Completed if steps == 30 else Failed)
        assert outcome.spent.steps == min(steps, 16)

    def test_may_be_given_another_budget_and_the_next_one_remembers(self) -> None:
        asks = [say(call("delete", {"name": str(number)}, id=str(number))) for number in range(9)]
        agent = Agent(Named("own", [*asks, "done"]), tools=[delete])
        first = waiting(agent, budget=Budget(steps=30))
        resume = agent.runtime.resume
        second = asyncio.run(resume(first, {first.pending[0].token: Approve()}, budget=Budget(steps=2)))
        assert isinstance(second, Interrupted)
        third = asyncio.run(resume(second, {second.pending[0].token: Approve()}))
        failed_with(third, BudgetExceededError)
