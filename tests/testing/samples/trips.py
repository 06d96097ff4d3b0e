"""A travel desk: two seats reserved side by side, a price asked for, and the trip paid."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.testing.samples.model import Seen
from wesichain import Agent, LlmRequest, LlmResponse, ToolContext, tool
from wesichain.testing import FunctionLlm, Scenario, Trace

HOLD = 900.0  # seconds for which a seat is held


@dataclass
class Airline:
    seats: int = 1
    taken: dict[str, float] = field(default_factory=dict)  # passenger: until when, or for ever
    locked_until: float = 0.0
    price: int = 120
    payments: dict[str, int] = field(default_factory=dict)


def now() -> float:
    return asyncio.get_running_loop().time()


@tool
async def reserve(ctx: ToolContext[Airline], passenger: str) -> str:
    """Hold a seat for a while."""
    airline = ctx.deps
    await asyncio.sleep(0.3)
    held = {name for name, until in airline.taken.items() if until > now()}
    if passenger not in held and len(held) >= airline.seats:
        return "no seat is left"
    airline.taken[passenger] = now() + HOLD
    return f"OK a seat for {passenger}"


@tool
async def quote(ctx: ToolContext[Airline]) -> str:
    """The price of the trip."""
    return f"OK {ctx.deps.price}"


@tool
async def pay(ctx: ToolContext[Airline], price: int) -> str:
    """Pay the trip, once."""
    airline = ctx.deps
    if now() < airline.locked_until:
        return "the till is busy"
    airline.locked_until = now() + 60.0  # a lease: whoever dies with it blocks nobody for long
    try:
        await asyncio.sleep(0.4)
        airline.payments["trip"] = price
        for passenger in airline.taken:
            airline.taken[passenger] = float("inf")
    finally:
        airline.locked_until = 0.0
    return "OK paid"


def model(request: LlmRequest) -> LlmResponse:
    seen = Seen(request)
    if not seen.good("reserve"):
        if seen.failed("reserve") >= 6:
            return seen.say("There was no seat.")
        return seen.call(("reserve", {"passenger": "ann"}), ("reserve", {"passenger": "bob"}))
    if not seen.good("quote"):
        return seen.call(("quote", {}))
    if not seen.good("pay") and seen.failed("pay") < 3:
        return seen.call(("pay", {"price": int(seen.good("quote")[0].split()[1])}))
    return seen.say("Booked." if seen.good("pay") else "It could not be paid.")


def no_seat_is_sold_twice(trace: Trace) -> None:
    assert len(trace.world.taken) <= trace.world.seats or min(trace.world.taken.values()) < 1e9
    held = [name for name, until in trace.world.taken.items() if until == float("inf")]
    assert len(held) <= trace.world.seats, f"{held} have one seat"


def seats_are_given_back(trace: Trace) -> None:
    if not trace.world.payments:
        kept = [name for name, until in trace.world.taken.items() if until == float("inf")]
        assert not kept, f"{kept} keep seats that nobody paid"


def the_till_opens_again(trace: Trace) -> None:
    assert trace.world.locked_until < 1e9, "the till is locked for ever"


def the_price_is_right(trace: Trace) -> None:
    paid = trace.world.payments.get("trip", trace.world.price)
    assert paid == trace.world.price, f"paid {paid} for {trace.world.price}"


# --- the same desk with mistakes --------------------------------------------------------------------------


@tool(name="reserve")
async def reserve_after_a_wait(ctx: ToolContext[Airline], passenger: str) -> str:
    """Hold a seat for a while."""
    airline = ctx.deps
    if passenger not in airline.taken and len(airline.taken) >= airline.seats:
        return "no seat is left"
    await asyncio.sleep(0.3)  # between the look and the act
    airline.taken[passenger] = float("inf")
    airline.payments.setdefault("deposit", 10)
    return f"OK a seat for {passenger}"


@tool(name="reserve")
async def reserve_for_ever(ctx: ToolContext[Airline], passenger: str) -> str:
    """Hold a seat until it is paid."""
    airline = ctx.deps
    if passenger not in airline.taken and len(airline.taken) >= airline.seats:
        return "no seat is left"
    airline.taken[passenger] = float("inf")
    await asyncio.sleep(0.3)
    return f"OK a seat for {passenger}"


@tool(name="pay")
async def pay_with_a_lock(ctx: ToolContext[Airline], price: int) -> str:
    """Pay the trip, once."""
    airline = ctx.deps
    if airline.locked_until:
        return "the till is busy"
    airline.locked_until = float("inf")  # given back below; not by a process that dies here
    try:
        await asyncio.sleep(0.4)
        airline.payments["trip"] = price
    finally:
        airline.locked_until = 0.0
    return "OK paid"


def tools_with_a_memory() -> list[Any]:
    """The price is kept in the process, and the one that pays may be another."""
    quoted: list[int] = []

    @tool(name="quote")
    async def quote(ctx: ToolContext[Airline]) -> str:
        """The price of the trip."""
        quoted.append(ctx.deps.price)
        return f"OK {ctx.deps.price}"

    @tool(name="pay")
    async def pay(ctx: ToolContext[Airline], price: int) -> str:
        """Pay the trip, once."""
        await asyncio.sleep(0.4)
        ctx.deps.payments["trip"] = sum(quoted[-1:])
        return "OK paid"

    return [reserve, quote, pay]


MISTAKES: dict[str, tuple[str, Callable[[], Any]]] = {
    "looks, waits, takes": ("no_seat_is_sold_twice", lambda: [reserve_after_a_wait, quote, pay]),
    "holds for ever": ("seats_are_given_back", lambda: [reserve_for_ever, quote, pay]),
    "locks until it comes back": ("the_till_opens_again", lambda: [reserve, quote, pay_with_a_lock]),
    "keeps the price in the process": ("the_price_is_right", tools_with_a_memory),
}


def scenario(mistake: str | None = None) -> Scenario:
    tools: Callable[[], Any] = MISTAKES[mistake][1] if mistake else lambda: [reserve, quote, pay]
    return Scenario(
        lambda: Agent(FunctionLlm(model), tools=tools(), deps_type=Airline),
        "Book the trip for Ann or Bob.",
        world=Airline,
        invariants=[no_seat_is_sold_twice, seats_are_given_back, the_till_opens_again, the_price_is_right],
    )
