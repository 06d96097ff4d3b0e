"""A flight booking: typed deps, an approval rule, and a union as output type; the model is scripted."""

import asyncio
from dataclasses import dataclass, field

from pydantic import BaseModel

from wesichain import Agent, Approve, RunContext, RunInterruptedError, ToolContext, tool
from wesichain.testing import ScriptedLlm, calls

FLIGHTS = {"Oslo": [("WN 412", 340), ("WN 87", 95)]}


@dataclass
class Traveller:
    name: str
    limit: int
    booked: list[str] = field(default_factory=list)


class Booked(BaseModel):
    flight: str


class NotBooked(BaseModel):
    reason: str


@tool
async def find(ctx: ToolContext[Traveller], city: str) -> list[tuple[str, int]]:
    """The flights to a city that the traveller can pay, with their prices."""
    return [flight for flight in FLIGHTS.get(city, []) if flight[1] <= ctx.deps.limit]


@tool(effect="once", approval=lambda ctx, args: args["price"] > ctx.deps.limit // 4)
async def book(ctx: ToolContext[Traveller], flight: str, price: int) -> str:
    """Book a seat. A dear one waits for a person."""
    ctx.deps.booked.append(flight)
    return f"{flight} is booked for {ctx.deps.name} at {price}"


def check(ctx: RunContext[Traveller], output: Booked | NotBooked) -> Booked | NotBooked:
    if isinstance(output, Booked) and output.flight not in ctx.deps.booked:
        raise ValueError(f"{output.flight} was not booked: book it first, or say why not")
    return output


ANN, SEAT = Traveller("Ann", limit=200), {"flight": "WN 87", "price": 95}
CLAIM = calls(("final_Booked", {"flight": "WN 87"}))
SCRIPT = [calls(("find", {"city": "Oslo"})), CLAIM, calls(("book", SEAT)), CLAIM]  # claims it too early
MODEL = ScriptedLlm(SCRIPT)
agent = Agent(
    MODEL, deps_type=Traveller, output_type=Booked | NotBooked, tools=[find, book], output_checks=[check]
)
try:
    result = agent.run_sync("Get me to Oslo.", deps=ANN)
except RunInterruptedError as waiting:
    yes = {item.token: Approve() for item in waiting.outcome.pending}
    result = asyncio.run(agent.resume(waiting.outcome, yes, deps=ANN))
print(result.output, ANN.booked)
