"""What the sessions in `screens/` run: each has a copy of this file in its folder, as `program.py`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from wesichain import Agent, FailFast, Recovery, Role, ToolCall, ToolContext, tool
from wesichain.core import LlmRequest
from wesichain.core.internal import dump_json
from wesichain.errors import ConfigError, InvalidModelActionError
from wesichain.policy import Interrupt
from wesichain.testing import FunctionLlm, Scenario, calls
from wesichain.testing.models import Reply

RULE = "Amounts are in cents: 1 euro is 100."


def turn(request: LlmRequest) -> int:
    return sum(message.role is Role.ASSISTANT for message in request.messages)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@tool(name="pay", approval=True)
def pay_approved(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(external=True)
def ask_the_bank(amount: int) -> str:
    """Ask the bank."""
    raise AssertionError(amount)


def greet(request: LlmRequest) -> Reply:
    """Greet; a task in capitals asks for more."""
    match request.messages[-1].text:
        case "FAIL":
            raise ValueError("there is no model")
        case "BANK":
            return calls(("ask_the_bank", {"amount": 3}))
        case text:
            return f"hello, {text}"


agent = Agent(FunctionLlm(greet), tools=[ask_the_bank], policy=FailFast())
stopped = Agent(FunctionLlm(lambda _: ""), policy=Recovery({InvalidModelActionError: Interrupt()}))
not_an_agent = 5


def make() -> Agent[Any, str]:
    return agent


def buyer() -> Agent[Any, str]:
    """Pays twice in one turn, once a person has approved both."""

    def reply(request: LlmRequest) -> Reply:
        return "done" if turn(request) else calls(("pay", {"amount": 3}), ("pay", {"amount": 4}))

    return Agent(FunctionLlm(reply), tools=[pay_approved])


def lender() -> Agent[Any, str]:
    """Has a clerk who waits for the bank."""
    clerk = FunctionLlm(lambda request: "done" if turn(request) else calls(("ask_the_bank", {"amount": 3})))
    lead = FunctionLlm(lambda request: "done" if turn(request) else calls(("clerk", {"task": "borrow"})))
    return Agent(lead, tools=[Agent(clerk, tools=[ask_the_bank], name="clerk").as_tool()])


def clerk(request: LlmRequest) -> Reply:
    """Pays in euros, unless the instructions say cents; rewrites instructions so that they do."""
    last = request.messages[-1]
    if last.role is Role.TOOL:
        return last.text
    system = " ".join(one.text for one in request.messages if one.role is Role.SYSTEM)
    if not last.text.startswith("Pay "):
        return dump_json({"instructions": RULE, "tools": []})
    euros = int(last.text.split()[1])
    return calls(("pay", {"amount": euros * 100 if "cents" in system else euros}))


payer = Agent(FunctionLlm(clerk, model="gpt-4o-mini"), tools=[pay])
taught = Agent(FunctionLlm(clerk, model="gpt-4o-mini"), tools=[pay], instructions=RULE)


def short(case: Any, outcome: Any) -> bool | str:
    """A check of an evaluation."""
    return len(outcome.output) < 8 or f"{case.id} is too long"


class World:
    """What was sent."""

    sent = 0


@tool
async def send(ctx: ToolContext[World]) -> str:
    """Send it."""
    ctx.deps.sent += 1
    return "sent"


def sender(request: LlmRequest) -> Reply:
    if any(one.role is Role.TOOL and one.text == "sent" for one in request.messages):
        return "done"
    return ToolCall(f"c{len(request.messages)}", "send", {})


def sent_once(trace: Any) -> None:
    assert trace.world.sent <= 1


def runs_at_all(trace: Any) -> None:
    assert trace.world.sent >= 0


def sending() -> Agent[Any, str]:
    return Agent(FunctionLlm(sender), tools=[send])


scenario = Scenario(sending, "send", world=World, invariants=[sent_once])
sound = Scenario(sending, "send", world=World, invariants=[runs_at_all])


def broken() -> Agent[Any, str]:
    raise RuntimeError("no such host")


def unset() -> Agent[Any, str]:
    raise ConfigError("set HOST first")


async def later() -> Agent[Any, str]:
    raise RuntimeError("no such host")


@asynccontextmanager
async def inside() -> AsyncGenerator[None]:
    yield
