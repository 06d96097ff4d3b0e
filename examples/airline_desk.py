"""An airline's desk: an agent hands the run over to another that can help; a refund needs human approval."""

import asyncio
import sys
from dataclasses import dataclass

from wesichain import Agent, Approve, RunContext, RunInterruptedError, ToolContext, tool
from wesichain.testing import ScriptedLlm, calls
from wesichain.trace import ConsoleSink


@dataclass
class Booking:  # the deps of the run, which are not in its log
    reference: str
    seat: str
    fare: int


@tool
def move_seat(seat: str, ctx: ToolContext[Booking]) -> str:
    """Move the passenger to another seat, such as 14C."""
    ctx.deps.seat = seat
    return f"Booking {ctx.deps.reference}: seat {seat}."


@tool(approval=True, effect="once")
def refund(euros: int, ctx: ToolContext[Booking]) -> str:
    """Pay back a part of the fare. A person has to agree."""
    return f"{euros} of {ctx.deps.fare} euros go back to {ctx.deps.reference}."


def seating(ctx: RunContext[Booking]) -> str:
    return f"You assign seats; the passenger has {ctx.deps.seat}. Money is the cashier's."


# Scripted, unless the command line names a model, such as openai:gpt-5-mini.
greeting = ScriptedLlm([calls(("transfer_to_seats", {}))])
moving = ScriptedLlm([calls(("move_seat", {"seat": "14C"})), calls(("transfer_to_cashier", {}))])
paying = ScriptedLlm([calls(("refund", {"euros": 40})), "You have 14C, and 40 euros are on their way."])
model = sys.argv[1] if len(sys.argv) > 1 else ""

cashier = Agent(model or paying, name="cashier", description="Pays refunds.", tools=[refund])
seats = Agent(model or moving, name="seats", instructions=seating, tools=[move_seat], handoffs=[cashier])
desk = Agent(model or greeting, name="desk", instructions="Greet and hand over.", handoffs=[seats, cashier])
cashier.add_handoff(desk)


async def main() -> None:
    booking = Booking("QX7K2P", "3A", 210)
    task = "My seat is broken. May I have 14C, and something back?"
    try:
        result = await desk.run(task, deps=booking, events=ConsoleSink())
    except RunInterruptedError as waiting:  # a call of any of the three waits for approval
        agreed = {item.token: Approve() for item in waiting.outcome.pending}
        result = await desk.resume(waiting.outcome, agreed, deps=booking, events=ConsoleSink())
    print(f"{result.agent} answered; the passenger has {booking.seat}.")


asyncio.run(main())
