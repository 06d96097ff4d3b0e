"""The caller's world is typed: tools, instructions, rules, checks and middleware know `ctx.deps`."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, assert_type

from pydantic import BaseModel
from typing_extensions import override

from wesichain import Agent, Approve, JsonTool, Middleware, RunContext, ToolContext, TypedTool, tool
from wesichain.agent import Interrupted, RunResult
from wesichain.core import LlmRequest, LlmResponse, ToolCallingLlm
from wesichain.middleware import CallModel, InputGuard, ToolGuard


@dataclass
class Desk:
    customer: str
    limit: int = 10


class FrontDesk(Desk):
    """More than is asked for."""


class Flight(BaseModel):
    price: int


class NoFlight(BaseModel):
    reason: str


@tool
async def whoami(ctx: ToolContext[Desk]) -> str:
    """Say who is asking."""
    return assert_type(ctx.deps, Desk).customer


@tool
def scope_of(ctx: RunContext[Desk], depth: int = 1) -> list[str]:
    """The agents above."""
    return [*ctx.scope, ctx.agent][:depth]


def too_much(ctx: RunContext[Desk], args: Any) -> bool:
    return bool(args["amount"] > assert_type(ctx.deps, Desk).limit)


@tool(approval=too_much, effect="once")
async def pay(ctx: ToolContext[Desk], amount: int) -> str:
    """Pay."""
    return f"{ctx.deps.customer} paid {amount}"


def plain(ctx: ToolContext[Desk], city: str) -> str:
    """A function that is no tool yet."""
    return ctx.deps.customer + city


@tool
def add(a: int, b: int) -> int:
    """A tool that wants no deps."""
    return a + b


class Search(BaseModel):
    city: str


class Flights(TypedTool[Search, list[int], Desk]):
    name = "flights"
    description = "Flights to a city."

    @override
    async def run(self, args: Search, ctx: ToolContext[Desk]) -> list[int]:
        return [len(args.city), assert_type(ctx.deps, Desk).limit]


class Anything(TypedTool[Search, int]):
    name = "anything"
    description = "A tool without deps."

    @override
    async def run(self, args: Search, ctx: ToolContext) -> int:
        return len(args.city)


def prompt(ctx: RunContext[Desk]) -> str:
    return f"You serve {assert_type(ctx.deps, Desk).customer}."


def affordable(ctx: RunContext[Desk], output: Flight | NoFlight) -> Flight | NoFlight:
    if isinstance(output, Flight) and output.price > ctx.deps.limit:
        raise ValueError("too dear")
    return output


class Named(Middleware[Desk]):
    @override
    async def wrap_model(
        self, ctx: RunContext[Desk], request: LlmRequest, call_next: CallModel
    ) -> LlmResponse:
        assert_type(ctx.deps, Desk)
        return await call_next(request)


class Plain(Middleware):
    pass


def known(ctx: RunContext[Desk], task: str) -> bool:
    return bool(ctx.deps.customer and task)


def short(task: str) -> Awaitable[bool] | bool:
    return len(task) < 100


async def all_of_it(llm: ToolCallingLlm) -> None:
    agent = Agent(
        llm,
        deps_type=Desk,
        output_type=Flight | NoFlight,
        tools=[whoami, scope_of, pay, plain, add, JsonTool("x", "x", {"type": "object"}, plain), Flights(), Flights],
        instructions=prompt,
        output_checks=[affordable],
        middleware=[Named(), InputGuard(known)],
    )
    assert_type(agent, Agent[Desk, Flight | NoFlight])
    assert_type((await agent.run("q", deps=Desk("Ann"))).output, Flight | NoFlight)
    assert_type(agent.run_sync("q", deps=FrontDesk("Ann")), RunResult[Flight | NoFlight])
    assert_type(await Agent(llm, deps_type=Desk).run("q", deps=Desk("Ann"), model="openai:x"), RunResult[str])
    front: Agent[FrontDesk, Flight | NoFlight] = agent  # whoever takes a desk takes a front desk
    async with front.stream("q", deps=FrontDesk("Ann")) as run:
        async for _ in run:
            pass
        assert_type(run.result.output, Flight | NoFlight)


async def goes_on(agent: Agent[Desk, str], outcome: Interrupted[str]) -> str:
    decisions = {item.token: Approve() for item in outcome.pending}
    return (await agent.resume(outcome, decisions, deps=Desk("Ann"), model="openai:x")).output


def parts_that_do_not_say(llm: ToolCallingLlm) -> Agent[Desk, str]:
    guards = [InputGuard(short), ToolGuard(lambda call: True)]
    return Agent(llm, deps_type=Desk, tools=[Anything(), whoami], middleware=[Plain(), Named(), *guards])


def without_deps(llm: ToolCallingLlm) -> None:
    assert_type(Agent(llm, tools=[whoami, add], instructions=prompt), Agent[Any, str])
    Agent(llm, instructions=lambda: "Be short.", tools=[print, short])
