"""A bank desk: three transfers between two accounts, asked for side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.testing.samples.model import Seen
from wesichain import Agent, LlmRequest, LlmResponse, ToolContext, tool
from wesichain.testing import FunctionLlm, Scenario, Trace

ORDERS = {"rent": 60, "gas": 50, "phone": 20}
LIMIT = 100  # a day


@dataclass
class Bank:
    accounts: dict[str, int] = field(default_factory=lambda: {"ann": 120, "landlord": 0})
    done: dict[str, int] = field(default_factory=dict)  # what: amount


@tool
async def transfer(ctx: ToolContext[Bank], what: str) -> str:
    """Pay an order of Ann's."""
    bank, amount = ctx.deps, ORDERS[what]
    await asyncio.sleep(0.2)
    # From here to the end nothing waits: all of it happens, or none.
    if what in bank.done:
        return "OK done"
    if sum(bank.done.values()) + amount > LIMIT or bank.accounts["ann"] < amount:
        return "not enough left today"
    bank.accounts["ann"] -= amount
    bank.accounts["landlord"] += amount
    bank.done[what] = amount
    return "OK done"


def model(request: LlmRequest) -> LlmResponse:
    seen = Seen(request)
    tries = seen.failed("transfer") + len(seen.good("transfer"))
    if tries == 0:
        return seen.call(("transfer", {"what": "rent"}), ("transfer", {"what": "gas"}))
    if tries < 6:
        return seen.call(("transfer", {"what": "phone"}), ("transfer", {"what": "gas"}))
    return seen.say("Done what could be done.")


def no_money_is_lost(trace: Trace) -> None:
    total = sum(trace.world.accounts.values())
    assert total == 120, f"there are {total} euros, and there were 120"


def nobody_is_overdrawn(trace: Trace) -> None:
    assert min(trace.world.accounts.values()) >= 0, trace.world.accounts


def the_limit_holds(trace: Trace) -> None:
    moved = trace.world.accounts["landlord"]
    assert moved <= LIMIT, f"{moved} euros in a day"


# --- the same desk with mistakes --------------------------------------------------------------------------


@tool(name="transfer")
async def transfer_in_halves(ctx: ToolContext[Bank], what: str) -> str:
    """Pay an order of Ann's."""
    bank, amount = ctx.deps, ORDERS[what]
    if what in bank.done:
        return "OK done"
    if sum(bank.done.values()) + amount > LIMIT:
        return "not enough left today"
    bank.done[what] = amount
    bank.accounts["ann"] -= amount
    await asyncio.sleep(0.2)  # and if nothing comes after this
    bank.accounts["landlord"] += amount
    return "OK done"


@tool(name="transfer")
async def transfer_after_a_look(ctx: ToolContext[Bank], what: str) -> str:
    """Pay an order of Ann's."""
    bank, amount = ctx.deps, ORDERS[what]
    if what in bank.done:
        return "OK done"
    left = bank.accounts["ann"] - amount
    if left < 0 or sum(bank.done.values()) + amount > LIMIT:
        return "not enough left today"
    bank.done[what] = amount
    await asyncio.sleep(0.2)
    bank.accounts["ann"] = left  # whatever happened meanwhile
    bank.accounts["landlord"] += amount
    return "OK done"


def transfer_with_a_memory() -> Any:
    """The sum of the day is kept in the process."""
    today: list[int] = []

    @tool(name="transfer")
    async def transfer(ctx: ToolContext[Bank], what: str) -> str:
        """Pay an order of Ann's."""
        bank, amount = ctx.deps, ORDERS[what]
        if what in bank.done:
            return "OK done"
        if sum(today) + amount > LIMIT or bank.accounts["ann"] < amount:
            return "not enough left today"
        today.append(amount)
        bank.accounts["ann"] -= amount
        bank.accounts["landlord"] += amount
        bank.done[what] = amount
        await asyncio.sleep(0.2)
        return "OK done"

    return transfer


@tool(name="transfer")
async def transfer_that_takes_back(ctx: ToolContext[Bank], what: str) -> str:
    """Pay an order of Ann's; one that is cancelled is undone."""
    bank, amount = ctx.deps, ORDERS[what]
    if what in bank.done:
        return "OK done"
    if sum(bank.done.values()) + amount > LIMIT or bank.accounts["ann"] < amount:
        return "not enough left today"
    before = bank.accounts["ann"]
    bank.accounts["ann"] -= amount
    bank.accounts["landlord"] += amount
    bank.done[what] = amount
    try:
        await asyncio.sleep(0.2)
    except asyncio.CancelledError:
        bank.accounts["ann"] = before  # the other account keeps the money
        raise
    return "OK done"


MISTAKES: dict[str, tuple[str, Callable[[], Any]]] = {
    "moves in two halves": ("no_money_is_lost", lambda: [transfer_in_halves]),
    "looks, waits, writes": ("no_money_is_lost", lambda: [transfer_after_a_look]),
    "keeps the day in the process": ("the_limit_holds", lambda: [transfer_with_a_memory()]),
    "takes back the half": ("no_money_is_lost", lambda: [transfer_that_takes_back]),
}


def scenario(mistake: str | None = None) -> Scenario:
    tools: Callable[[], Any] = MISTAKES[mistake][1] if mistake else lambda: [transfer]
    return Scenario(
        lambda: Agent(FunctionLlm(model), tools=tools(), deps_type=Bank, loop_guard=None),
        "Pay what is due.",
        world=Bank,
        invariants=[no_money_is_lost, nobody_is_overdrawn, the_limit_holds],
    )
