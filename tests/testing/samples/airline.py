"""An airline's support bot, as tutorials build it: look up, rebook, cancel for a voucher, with approvals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.testing.samples.model import Seen
from wesichain import Agent, LlmRequest, LlmResponse, ToolContext, tool
from wesichain.agent import Approve
from wesichain.testing import FunctionLlm, Scenario, Trace


@dataclass
class Airline:
    tickets: dict[str, str] = field(default_factory=lambda: {"T1": "LX10", "T2": "LX10"})
    seats: dict[str, int] = field(default_factory=lambda: {"LX10": 0, "LX22": 1})  # free ones
    vouchers: dict[str, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    async def query(self) -> None:
        """A round trip to the database."""
        await asyncio.sleep(0.05)


@tool(effect="pure")
async def lookup(ctx: ToolContext[Airline], ticket: str) -> str:
    """Look a ticket up."""
    await ctx.deps.query()
    return f"OK {ticket} is for {ctx.deps.tickets.get(ticket, 'no flight')}"


@tool(approval=True)
async def rebook(ctx: ToolContext[Airline], ticket: str, flight: str) -> str:
    """Move a ticket to another flight."""
    airline = ctx.deps
    await airline.query()
    if airline.tickets.get(ticket) == flight:
        return "OK rebooked"
    if airline.seats[flight] < 1:
        return f"OK there is no seat on {flight}"
    # One transaction: both tables change, or none.
    old = airline.tickets[ticket]
    airline.seats[flight] -= 1
    airline.seats[old] += 1
    airline.tickets[ticket] = flight
    return "OK rebooked"


@tool(approval=True)
async def voucher(ctx: ToolContext[Airline], ticket: str) -> str:
    """Give a voucher for the delay of a ticket's flight, once for a ticket."""
    await ctx.deps.query()
    ctx.deps.vouchers[ticket] = 50
    return "OK 50 euros"


def model(request: LlmRequest) -> LlmResponse:
    seen = Seen(request)
    if not seen.good("lookup"):
        return seen.call(("lookup", {"ticket": "T1"}))
    if len(seen.good("rebook")) < 2 and seen.failed("rebook") < 2:
        return seen.call(*(("rebook", {"ticket": ticket, "flight": "LX22"}) for ticket in ("T1", "T2")))
    if not seen.good("voucher") and seen.failed("voucher") < 3:
        return seen.call(("voucher", {"ticket": "T1"}))
    return seen.say("You have been rebooked.")


def nobody_loses_a_ticket(trace: Trace) -> None:
    assert {*trace.world.tickets} == {"T1", "T2"}, f"tickets: {trace.world.tickets}"


def no_flight_is_oversold(trace: Trace) -> None:
    assert min(trace.world.seats.values()) >= 0, f"seats: {trace.world.seats}"


def seats_add_up(trace: Trace) -> None:
    world = trace.world
    taken = [*world.tickets.values()].count("LX22")
    assert world.seats["LX22"] + taken == 1, f"{taken} tickets, {world.seats['LX22']} seats free"


def one_voucher(trace: Trace) -> None:
    assert trace.world.vouchers.get("T1", 0) <= 50, f"vouchers: {trace.world.vouchers}"


# --- mistakes as people make them -------------------------------------------------------------------------


@tool(name="rebook", approval=True)
async def rebook_in_two_writes(ctx: ToolContext[Airline], ticket: str, flight: str) -> str:
    """Move a ticket to another flight."""
    airline = ctx.deps
    await airline.query()
    if airline.tickets.get(ticket) == flight:
        return "OK rebooked"
    if airline.seats[flight] < 1:
        return f"OK there is no seat on {flight}"
    airline.seats[flight] -= 1
    airline.seats[airline.tickets.pop(ticket)] += 1  # DELETE FROM tickets ...
    await airline.query()
    airline.tickets[ticket] = flight  # INSERT INTO tickets ...
    return "OK rebooked"


@tool(name="rebook", approval=True)
async def rebook_after_a_look(ctx: ToolContext[Airline], ticket: str, flight: str) -> str:
    """Move a ticket to another flight."""
    airline = ctx.deps
    free = airline.seats[flight]  # SELECT ...
    await airline.query()
    if airline.tickets.get(ticket) == flight:
        return "OK rebooked"
    if free < 1:
        return f"OK there is no seat on {flight}"
    airline.seats[flight] -= 1  # UPDATE ..., whatever has happened meanwhile
    airline.seats[airline.tickets[ticket]] += 1
    airline.tickets[ticket] = flight
    return "OK rebooked"


@tool(name="rebook", approval=True)
async def rebook_and_count_later(ctx: ToolContext[Airline], ticket: str, flight: str) -> str:
    """Move a ticket to another flight."""
    airline = ctx.deps
    await airline.query()
    if airline.tickets.get(ticket) == flight:
        return "OK rebooked"
    if airline.seats[flight] < 1:
        return f"OK there is no seat on {flight}"
    airline.tickets[ticket] = flight
    await airline.query()  # two statements, and no transaction around them
    airline.seats[flight] -= 1
    return "OK rebooked"


@tool(name="voucher", approval=True)
async def voucher_added_up(ctx: ToolContext[Airline], ticket: str) -> str:
    """Give a voucher for the delay of a ticket's flight."""
    await ctx.deps.query()
    ctx.deps.vouchers[ticket] = ctx.deps.vouchers.get(ticket, 0) + 50
    return "OK 50 euros"


MISTAKES: dict[str, tuple[str, Callable[[], Any]]] = {
    "deletes, then inserts": ("nobody_loses_a_ticket", lambda: [lookup, rebook_in_two_writes, voucher]),
    "checks, then acts": ("no_flight_is_oversold", lambda: [lookup, rebook_after_a_look, voucher]),
    "no transaction": ("seats_add_up", lambda: [lookup, rebook_and_count_later, voucher]),
    "adds on every delivery": ("one_voucher", lambda: [lookup, rebook, voucher_added_up]),
}


def scenario(mistake: str | None = None) -> Scenario:
    tools: Callable[[], Any] = MISTAKES[mistake][1] if mistake else lambda: [lookup, rebook, voucher]
    return Scenario(
        lambda: Agent(FunctionLlm(model), tools=tools(), deps_type=Airline, tool_concurrency=4),
        "My flight is late. Put T1 and T2 on LX22.",
        world=Airline,
        people=lambda pending: Approve(),
        invariants=[nobody_loses_a_ticket, no_flight_is_oversold, seats_add_up, one_voucher],
    )
