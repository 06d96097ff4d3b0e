"""Bounds: what a run and all below it can spend at most, never exceeded and not far from the worst case."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.agent import trees
from tests.draws import chosen
from wesichain import Agent, Budget, Capability, LlmRequest, LlmResponse, ToolCall, tool
from wesichain.agent import Completed, Failed, Interrupted
from wesichain.agent.bounds import AgentLimits, Bounds, bounds_of, limits_of
from wesichain.context import ClearToolResults, Summarise, Window
from wesichain.core import ModelSettings, Usage
from wesichain.errors import LlmTransportError, ModelTransportError, ToolFailedError
from wesichain.kit import CodeMode, Subagents
from wesichain.llm.fallback import Fallback
from wesichain.policy import N, ObserveErrors, Price, Recovery, Reprompt, Retry, Rule, SelfCorrect
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm
from wesichain.tools import ToolSearch

FREE = Recovery(
    {
        ModelTransportError: Rule(Retry(consume_budget=False), limit=99, backoff=0.0),
        ToolFailedError: Rule(Retry(consume_budget=False), limit=2, backoff=0.0),
        Exception: Rule(Reprompt(N(99)), limit=99),
    }
)


class Greedy:
    """A model that is as expensive as chance lets it be."""

    def __init__(
        self, draw: random.Random, tools: list[tuple[str, dict[str, Any]]], counts: dict[str, int]
    ) -> None:
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
            name, args = self._draw.choice(self._tools)
            last: Any = {"n": self._ids} if name == "work" else {"task": f"task {self._ids}"}
            calls.append(ToolCall(f"c{self._ids}", name, {**args, **last}))
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

    tools: list[Any] = [work]
    calls: list[tuple[str, dict[str, Any]]] = [("work", {})]
    kit: list[Capability] = []
    below = [tree(draw, depth - 1, counts) for _ in range(draw.randint(0, 2))] if depth else []
    if below and draw.random() < 0.5:
        kit.append(Subagents({f"agent_{place}": one for place, one in enumerate(below)}))
        calls += [("delegate", {"agent": f"agent_{place}"}) for place in range(len(below))]
    else:
        tools += [one.as_tool(name=f"agent_{place}") for place, one in enumerate(below)]
        calls += [(f"agent_{place}", {}) for place in range(len(below))]
    models = [Greedy(draw, calls, counts) for _ in range(draw.choice((1, 1, 3)))]
    return Agent(
        models[0] if len(models) == 1 else Fallback(models),
        tools=tools,
        capabilities=kit,
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
    never_exceeded(chosen(range(10_000), 20))


@pytest.mark.slow
def test_bounds_are_never_exceeded_in_ten_thousand_trees() -> None:
    never_exceeded(range(10_000))


async def test_the_trees_of_the_laws_stay_below_their_bounds() -> None:
    for seed in chosen(range(1_000), 5):
        spec, world = trees.tree_of(seed), trees.World()
        with trees.over(world):
            agent = trees.build(spec)
            outcome, _ = await trees.to_the_end(spec)
        check(bounds_of(limits_of(agent)), outcome, {"models": world.asked})


def failing_for_ever(request: LlmRequest) -> LlmResponse:
    raise LlmTransportError("busy", retryable=True)


def asking_for_ever(request: LlmRequest) -> LlmResponse:
    if not request.tools:
        return LlmResponse("the last word")
    return LlmResponse(
        "",
        (ToolCall(f"c{len(request.messages)}", request.tools[-1].name, _args(request)),),
        finish_reason="tool_calls",
    )


def _args(request: LlmRequest) -> Any:
    fields = {"task": "go on", "agent": "child", "query": "child", "code": "await child(task='go on')"}
    asked: Any = request.tools[-1].parameters
    return {name: value for name, value in fields.items() if name in asked["properties"]}


@tool
async def look() -> str:
    """Look."""
    return "something"


def worst_of_retries() -> tuple[Agent[Any, str], Any]:
    llm = FunctionLlm(failing_for_ever)
    return Agent(llm, policy=FREE, budget=Budget(steps=1, free_retries=9), clock=FakeClock()), llm


def worst_of(give: Callable[[Agent[Any, str]], Any]) -> Callable[[], tuple[Agent[Any, str], Any]]:
    """The worst case of answers, with the child given to the agent in another way."""

    def make() -> tuple[Agent[Any, str], Any]:
        llm = FunctionLlm(asking_for_ever)
        options: Any = {"loop_guard": None, "on_limit": "answer"}
        child = Agent(llm, tools=[look], name="child", budget=Budget(steps=1), **options)
        return Agent(llm, **give(child), budget=Budget(steps=12), **options), llm

    return make


def worst_of_fallbacks() -> tuple[Agent[Any, str], Any]:
    llm = FunctionLlm(failing_for_ever)
    models = Fallback([llm, llm, llm])
    return Agent(models, policy=FREE, budget=Budget(steps=1, free_retries=9), clock=FakeClock()), llm


@pytest.mark.parametrize(
    "make",
    [
        worst_of_retries,
        worst_of_fallbacks,
        pytest.param(worst_of(lambda child: {"tools": [child.as_tool()]}), id="answers"),
        pytest.param(worst_of(lambda child: {"capabilities": [Subagents({"child": child})]}), id="subagents"),
        pytest.param(worst_of(lambda child: {"capabilities": [CodeMode([child.as_tool()])]}), id="code-mode"),
        pytest.param(worst_of(lambda child: {"tools": [ToolSearch([child.as_tool()])]}), id="search"),
    ],
)
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
        pytest.param(AgentLimits(Budget(steps=5), has_tools=False), (5, 5, 0, None, None, None), id="no-tools"),
        pytest.param(AgentLimits(Budget(steps=5, tool_calls=7), answers=True), (5, 6, 7, None, None, None), id="last-answer"),
        pytest.param(AgentLimits(Budget(steps=5, free_retries=3), free_retries=3), (5, 8, None, None, None, None), id="free"),
        pytest.param(
            AgentLimits(Budget(steps=5), below=(AgentLimits(Budget(steps=2), answers=True),)),
            (5, 7, None, None, None, None),
            id="answers-below",
        ),
        pytest.param(
            AgentLimits(Budget(steps=5), below=(AgentLimits(Budget(steps=2), free_retries=3),)),
            (5, 17, None, None, None, None),
            id="free-retries-below",
        ),
        pytest.param(
            AgentLimits(
                Budget(steps=5, seconds=10), request_tokens=1000, reply_tokens=100, prices=((1.0, 2.0),)
            ),
            (5, 5, None, 5500, 0.011, 12.0),
            id="tokens-cost-and-time",
        ),
        pytest.param(AgentLimits(Budget(steps=5), request_tokens=1000), (5, 5, None, None, None, None), id="replies-of-any-length"),
        pytest.param(
            AgentLimits(
                Budget(steps=5), request_tokens=1000, reply_tokens=100, prices=(Price(1.0, 2.0, 0.1, 4.0),)
            ),
            (5, 5, None, 5500, 0.022, None),
            id="a-price-with-a-cache",
        ),
        pytest.param(
            AgentLimits(Budget(steps=5, tokens=2000), request_tokens=1000, reply_tokens=100),
            (5, 5, None, 3100, None, None),
            id="a-budget-of-tokens-and-one-reply",
        ),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("options", "why"),
    [
        pytest.param({"context": [Summarise(900, 100), Window(1000)]}, "summary", id="summaries"),
        pytest.param(
            {"model": Fallback([ScriptedLlm([]), FunctionLlm(failing_for_ever)])}, "price", id="prices"
        ),
    ],
)
def test_what_leaves_the_cost_open(options: dict[str, Any], why: str) -> None:
    known: Any = {"model": ScriptedLlm([]), "context": [Window(1000)]} | options
    prices = {ScriptedLlm([]).model: (1.0, 1.0)}
    settings = ModelSettings(max_tokens=100)
    bounds = Agent(**known, settings=settings, budget=Budget(steps=4, prices=prices)).bounds()
    assert bounds.cost is None
    assert why in bounds.reasons["cost"]


@pytest.mark.parametrize(
    ("context", "tokens"),
    [
        pytest.param([Window(1000)], 4 * 1100, id="a-window"),
        pytest.param([ClearToolResults(900), Window(1000)], 4 * 1100, id="a-window-after-another-view"),
        pytest.param([Window(1000), Window(500)], 4 * 600, id="the-smallest-window"),
        pytest.param([ClearToolResults(900)], None, id="no-window"),
        pytest.param([], None, id="no-view"),
    ],
)
def test_the_window_of_an_agent_limits_its_requests(context: list[Any], tokens: int | None) -> None:
    settings = ModelSettings(max_tokens=100)
    agent = Agent(ScriptedLlm([]), context=context, settings=settings, budget=Budget(steps=4))
    assert agent.bounds().tokens == tokens


def test_handoffs_share_one_run() -> None:
    other = Agent(ScriptedLlm([]), name="other", policy=FREE, on_limit="answer")
    agent = Agent(ScriptedLlm([]), name="first", handoffs=[other], budget=Budget(steps=4, free_retries=2))
    assert bounds_of(limits_of(agent)).model_calls == 4 + 2 + 1
    assert agent.bounds().tool_calls is None, "to hand over is a call"
    assert Agent(ScriptedLlm([])).bounds().tool_calls == 0
