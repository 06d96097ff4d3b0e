"""A shop's triage desk, as tutorials build it: hand over to refunds or to sales; refund items, apply a discount."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.testing.samples.model import Seen
from wesichain import Agent, LlmRequest, LlmResponse, ToolContext, tool
from wesichain.agent import Approve
from wesichain.errors import ToolError
from wesichain.testing import FunctionLlm, Scenario, Trace

PRICES = {"lamp": 30, "chair": 50}


@dataclass
class Shop:
    paid: int = 80
    refunds: dict[str, int] = field(default_factory=dict)  # by key, as the bank has them
    refunded: int = 0  # as the shop has it
    mails: list[str] = field(default_factory=list)
    stock: dict[str, int] = field(default_factory=lambda: {"lamp": 0, "chair": 0})

    async def bank(self, key: str, amount: int) -> None:
        """Pays once for a key."""
        await asyncio.sleep(0.4)
        self.refunds.setdefault(key, amount)

    async def send(self, text: str) -> None:
        await asyncio.sleep(0.1)
        self.mails.append(text)


@tool(approval=True)
async def refund(ctx: ToolContext[Shop], item: str) -> str:
    """Refund an item of the order, and write to the customer."""
    shop, key = ctx.deps, f"order 7, {item}"
    await shop.bank(key, PRICES[item])
    if f"refunded: {item}" not in shop.mails:
        await shop.send(f"refunded: {item}")
    return f"OK {item}"


@tool(effect="once")
async def restock(ctx: ToolContext[Shop], item: str) -> str:
    """Count an item that came back."""
    await asyncio.sleep(0.1)
    ctx.deps.stock[item] += 1
    return f"OK {item}"


def refunds_model(request: LlmRequest) -> LlmResponse:
    seen = Seen(request)
    done = {text.split()[1] for text in seen.good("refund")}
    left = [item for item in PRICES if item not in done]
    if left and seen.failed("refund") < 4:
        return seen.call(*(("refund", {"item": item}) for item in left))
    back = {text.split()[1] for text in seen.good("restock")}
    if not back and not seen.failed("restock"):
        return seen.call(("restock", {"item": "lamp"}))
    return seen.say("Your money is on its way.")


def desk_model(request: LlmRequest) -> LlmResponse:
    return Seen(request).call(("transfer_to_refunds", {}))


def money_is_right(trace: Trace) -> None:
    total = sum(trace.world.refunds.values())
    assert total <= trace.world.paid, f"{total} euros were refunded of {trace.world.paid}"


def a_mail_means_money(trace: Trace) -> None:
    for mail in trace.world.mails:
        item = mail.removeprefix("refunded: ")
        assert any(item in key for key in trace.world.refunds), f"{mail!r}, and no money was sent"


def the_books_agree(trace: Trace) -> None:
    books, bank = trace.world.refunded, sum(trace.world.refunds.values())
    assert books <= bank, f"{books} euros in the books, {bank} at the bank"


def stock_is_counted_once(trace: Trace) -> None:
    assert max(trace.world.stock.values()) <= 1, f"stock: {trace.world.stock}"


# --- mistakes as people make them -------------------------------------------------------------------------


@tool(name="refund", approval=True)
async def refund_with_a_fresh_key(ctx: ToolContext[Shop], item: str) -> str:
    """Refund an item of the order."""
    key = f"{item} {asyncio.get_running_loop().time()}"  # as others write str(uuid4())
    await ctx.deps.bank(key, PRICES[item])
    return f"OK {item}"


@tool(name="refund", approval=True)
async def refund_mails_first(ctx: ToolContext[Shop], item: str) -> str:
    """Refund an item of the order, and write to the customer."""
    shop = ctx.deps
    if f"refunded: {item}" not in shop.mails:
        await shop.send(f"refunded: {item}")
    await shop.bank(f"order 7, {item}", PRICES[item])
    return f"OK {item}"


@tool(name="refund", approval=True)
async def refund_loses_an_update(ctx: ToolContext[Shop], item: str) -> str:
    """Refund an item of the order, and keep the books."""
    shop = ctx.deps
    if shop.refunded + PRICES[item] > shop.paid:
        raise ToolError("that is more than was paid")
    shop.refunded += PRICES[item]  # reserved in the books, and never taken back
    await shop.bank(f"order 7, {item}", PRICES[item])
    return f"OK {item}"


@tool(name="restock")
async def restock_each_time(ctx: ToolContext[Shop], item: str) -> str:
    """Count an item that came back."""
    ctx.deps.stock[item] += 1  # and the default effect says that this may be run again
    await asyncio.sleep(0.1)
    return f"OK {item}"


MISTAKES: dict[str, tuple[str, Callable[[], Any]]] = {
    "a fresh key for each attempt": ("money_is_right", lambda: [refund_with_a_fresh_key, restock]),
    "mails before it pays": ("a_mail_means_money", lambda: [refund_mails_first, restock]),
    "reserves and never takes back": ("the_books_agree", lambda: [refund_loses_an_update, restock]),
    "counts again": ("stock_is_counted_once", lambda: [refund, restock_each_time]),
}


def scenario(mistake: str | None = None) -> Scenario:
    tools: Callable[[], Any] = MISTAKES[mistake][1] if mistake else lambda: [refund, restock]

    def make() -> Agent[Any, str]:
        refunds = Agent(
            FunctionLlm(refunds_model), name="refunds", tools=tools(), deps_type=Shop, tool_concurrency=4
        )
        return Agent(FunctionLlm(desk_model), name="desk", deps_type=Shop, handoffs=[refunds])

    return Scenario(
        make,
        "I want my money back for the lamp and the chair.",
        world=Shop,
        people=lambda pending: Approve(),
        invariants=[money_is_right, a_mail_means_money, the_books_agree, stock_is_counted_once],
    )
