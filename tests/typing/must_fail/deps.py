"""Deps of another kind than the agent's are an error, wherever they are wanted or given."""

from dataclasses import dataclass

from pydantic import BaseModel

from wesichain import Agent, Middleware, RunContext, ToolContext, TypedTool, tool
from wesichain.core import ToolCallingLlm
from wesichain.middleware import InputGuard


@dataclass
class Desk:
    customer: str


@dataclass
class Shop:
    owner: str


class Args(BaseModel):
    city: str


@tool
async def wants_shop(ctx: ToolContext[Shop], city: str) -> str:
    """A tool of a shop."""
    return ctx.deps.customer  # error


@tool(timeout=3.0)
def wants_shop_too(ctx: RunContext[Shop]) -> str:
    """A tool of a shop."""
    return ctx.deps.owner


class OfShop(TypedTool[Args, str, Shop]):
    name = "of_shop"
    description = "A tool of a shop."

    async def run(self, args: Args, ctx: ToolContext[Shop]) -> str:
        return ctx.deps.owner


class AroundShop(Middleware[Shop]):
    pass


def prompt(ctx: RunContext[Shop]) -> str:
    return ctx.deps.owner


def check(ctx: RunContext[Shop], output: str) -> str:
    return output


def guard(ctx: RunContext[Shop], task: str) -> bool:
    return bool(task)


def makes_no_number(output: str) -> int:
    return len(output)


async def wrong(llm: ToolCallingLlm) -> None:
    Agent(llm, deps_type=Desk, tools=[wants_shop])  # error
    Agent(llm, deps_type=Desk, tools=[wants_shop_too])  # error
    Agent(llm, deps_type=Desk, tools=[OfShop()])  # error
    Agent(llm, deps_type=Desk, middleware=[AroundShop()])  # error
    Agent(llm, deps_type=Desk, middleware=[InputGuard(guard)])  # error
    Agent(llm, deps_type=Desk, instructions=prompt)  # error
    Agent(llm, deps_type=Desk, output_checks=[check])  # error
    Agent(llm, output_checks=[makes_no_number])  # error
    agent = Agent(llm, deps_type=Desk)
    await agent.run("q", deps=Shop("Bob"))  # error
    agent.run_sync("q", deps="Ann")  # error
    agent.stream("q", deps=5)  # error
    await agent.run("q", model=5)  # error
