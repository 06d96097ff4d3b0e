"""Bounds: what a run and all below it can spend at most, never exceeded and not far from the worst case."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import pytest

from tests.agent import trees
from tests.draws import chosen
from wesichain import Agent, Budget, LlmRequest, LlmResponse, ToolCall, tool
from wesichain.agent import Completed, Failed, Interrupted
from wesichain.agent.bounds import AgentLimits, Bounds, bounds_of, limits_of
from wesichain.core import Usage
from wesichain.errors import LlmTransportError, ModelTransportError, ToolFailedError
from wesichain.policy import N, ObserveErrors, Recovery, Reprompt, Retry, Rule, SelfCorrect
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm

FREE = Recovery(
    {
        ModelTransportError: Rule(Retry(consume_budget=False), limit=99, backoff=0.0),
        ToolFailedError: Rule(Retry(consume_budget=False), limit=2, backoff=0.0),
        Exception: Rule(Reprompt(N(99)), limit=99),
    }
)


@pytest.fixture(autouse=True)
def replays() -> None:
    """The runs are not replayed when a test ends: their models draw, and one run id is used many times."""


class Greedy:
    """A model that is as expensive as chance lets it be."""

    def __init__(self, draw: random.Random, tools: list[str], counts: dict[str, int]) -> None:
        self.model = "greedy"
        self._draw = draw
        self._tools = tools
        self._counts = counts
        self._ids = 0

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self._counts["models"] += 1
        await asyncio.sleep(0)
        if self._draw.random() < 0.3:
            raise LlmTransportError("busy", retryable=True)
        if not request.tools or self._draw.random() < 0.15:
            return LlmResponse("done", usage=Usage(3, 2))
        calls = []
        for _ in range(self._draw.randint(1, 4)):
            self._ids += 1
            name = self._draw.choice(self._tools)
            args: Any = {"n": self._ids} if name == "work" else {"task": f"task {self._ids}"}
            calls.append(ToolCall(f"c{self._ids}", name, args))
        return LlmResponse("", tuple(calls), Usage(3, 2), "tool_calls")


def tree(draw: random.Random, depth: int, counts: dict[str, int]) -> Agent[Any, str]:
    @tool
    async def work(n: int) -> int:
        """Work, or fail."""
        counts["tools"] += 1
        await asyncio.sleep(0)
        if draw.random() < 0.3:
            raise ConnectionError("again")
        return n

    below = [tree(draw, depth - 1, counts) for _ in range(draw.randint(0, 2))] if depth else []
    tools = [work, *(one.as_tool(name=f"agent_{place}") for place, one in enumerate(below))]
    names = ["work", *(f"agent_{place}" for place in range(len(below)))]
    return Agent(
        Greedy(draw, names, counts),
        tools=tools,
        budget=Budget(
            steps=draw.randint(1, 6),
            free_retries=draw.randint(0, 3),
            tool_calls=draw.choice((None, None, 0, 3, 8)),
        ),
        on_limit=draw.choice(("fail", "partial", "answer")),
        policy=draw.choice((FREE, ObserveErrors(), SelfCorrect())),
        tool_concurrency=draw.choice((1, 8)),
        loop_guard=None,
        clock=FakeClock(),
    )


def check(bounds: Bounds, outcome: Any, counts: dict[str, int]) -> None:
    spent = outcome.spent
    assert spent.steps <= bounds.steps
    assert counts["models"] <= bounds.model_calls, f"{counts['models']} calls, {bounds}"
    if bounds.tool_calls is not None:
        assert spent.tool_calls <= bounds.tool_calls
    else:
        assert "tool_calls" in bounds.reasons


def never_exceeded(seeds: Iterable[int]) -> None:
    async def run() -> None:
        for seed in seeds:
            draw, counts = random.Random(seed), {"models": 0, "tools": 0}
            agent = tree(draw, 2, counts)
            bounds = bounds_of(limits_of(agent))
            outcome = await agent.outcome("go")
            assert isinstance(outcome, Completed | Failed | Interrupted)
            check(bounds, outcome, counts)

    asyncio.run(run())


def test_bounds_are_never_exceeded() -> None:
    never_exceeded(chosen(range(10_000), 100))


@pytest.mark.slow
def test_bounds_are_never_exceeded_in_ten_thousand_trees() -> None:
    never_exceeded(range(10_000))


def test_the_trees_of_the_laws_stay_below_their_bounds() -> None:
    async def run() -> None:
        for seed in chosen(range(1_000), 25):
            spec, world = trees.tree_of(seed), trees.World()
            with trees.over(world):
                agent = trees.build(spec)
                outcome, _ = await trees.to_the_end(spec)
            check(bounds_of(limits_of(agent)), outcome, {"models": world.asked})

    asyncio.run(run())


def failing_for_ever(request: LlmRequest) -> LlmResponse:
    raise LlmTransportError("busy", retryable=True)


def asking_for_ever(request: LlmRequest) -> LlmResponse:
    if not request.tools:
        return LlmResponse("the last word")
    return LlmResponse(
        "",
        (ToolCall(f"c{len(request.messages)}", request.tools[0].name, _args(request)),),
        finish_reason="tool_calls",
    )


def _args(request: LlmRequest) -> Any:
    return {"task": "go on"} if "task" in str(request.tools[0].parameters) else {}


@tool
async def look() -> str:
    """Look."""
    return "something"


def worst_of_retries() -> tuple[Agent[Any, str], Any]:
    llm = FunctionLlm(failing_for_ever)
    return Agent(llm, policy=FREE, budget=Budget(steps=1, free_retries=9), clock=FakeClock()), llm


def worst_of_answers() -> tuple[Agent[Any, str], Any]:
    llm = FunctionLlm(asking_for_ever)
    options: Any = {"loop_guard": None, "on_limit": "answer"}
    child = Agent(llm, tools=[look], name="child", budget=Budget(steps=1), **options)
    return Agent(llm, tools=[child.as_tool()], budget=Budget(steps=12), **options), llm


@pytest.mark.parametrize("make", [worst_of_retries, worst_of_answers])
def test_the_worst_case_is_near_the_bound(make: Any) -> None:
    agent, llm = make()
    bounds = bounds_of(limits_of(agent))
    asyncio.run(agent.outcome("go"))
    made = len(llm.requests)
    assert made <= bounds.model_calls <= 1.5 * made


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param(AgentLimits(Budget(steps=5)), (5, 5, None, None, None, None), id="steps-alone"),
        pytest.param(
            AgentLimits(Budget(steps=5), has_tools=False), (5, 5, 0, None, None, None), id="no-tools"
        ),
        pytest.param(
            AgentLimits(Budget(steps=5, tool_calls=7), answers=True),
            (5, 6, 7, None, None, None),
            id="last-answer",
        ),
        pytest.param(
            AgentLimits(Budget(steps=5, free_retries=3), free_retries=3),
            (5, 8, None, None, None, None),
            id="free",
        ),
        pytest.param(
            AgentLimits(Budget(steps=5), below=(AgentLimits(Budget(steps=2), answers=True),)),
            (5, 7, None, None, None, None),
            id="answers-below",
        ),
        pytest.param(
            AgentLimits(
                Budget(steps=5, seconds=10), request_tokens=1000, reply_tokens=100, prices=((1.0, 2.0),)
            ),
            (5, 5, None, 5500, 0.011, 12.0),
            id="tokens-cost-and-time",
        ),
        pytest.param(
            AgentLimits(Budget(steps=5, tokens=2000), request_tokens=1000, reply_tokens=100),
            (5, 5, None, 3100, None, None),
            id="a-budget-of-tokens-and-one-reply",
        ),
    ],
)
def test_what_bounds_what(limits: AgentLimits, expected: tuple[Any, ...]) -> None:
    bounds = bounds_of(limits)
    found = (
        bounds.steps,
        bounds.model_calls,
        bounds.tool_calls,
        bounds.tokens,
        bounds.cost,
        bounds.seconds,
    )
    assert found == pytest.approx(expected)
    open_ones = {
        name for name in ("tool_calls", "tokens", "cost", "seconds") if getattr(bounds, name) is None
    }
    assert {*bounds.reasons} == open_ones


def test_handoffs_share_one_run() -> None:
    other = Agent(ScriptedLlm([]), name="other", policy=FREE, on_limit="answer")
    agent = Agent(ScriptedLlm([]), name="first", handoffs=[other], budget=Budget(steps=4, free_retries=2))
    assert bounds_of(limits_of(agent)).model_calls == 4 + 2 + 1
