"""A refund desk: look an order up, pay it back with a person's approval, write a mail."""

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
class Shop:
    total: int = 80
    status: str = "paid"
    paid_back: list[tuple[str, int]] = field(default_factory=list)  # (key, amount), as the bank has it
    mails: list[str] = field(default_factory=list)

    async def bank(self, key: str, amount: int) -> None:
        """The bank pays once for a key."""
        await asyncio.sleep(0.5)
        if key not in {known for known, _ in self.paid_back}:
            self.paid_back.append((key, amount))


@tool
async def order(ctx: ToolContext[Shop], number: str) -> str:
    """Look an order up."""
    return f"OK {number} is {ctx.deps.status}, {ctx.deps.total} euros"


@tool(approval=True)
async def refund(ctx: ToolContext[Shop], number: str) -> str:
    """Pay an order back."""
    shop = ctx.deps
    await shop.bank(f"refund {number}", shop.total)
    shop.status = "refunded"
    return "OK paid back"


@tool(effect="once")
async def mail(ctx: ToolContext[Shop], text: str) -> str:
    """Write to the customer."""
    await asyncio.sleep(0.1)
    ctx.deps.mails.append(text)
    return "OK sent"


def model(request: LlmRequest) -> LlmResponse:
    seen = Seen(request)
    if not seen.good("order"):
        return seen.call(("order", {"number": "A7"}))
    if not seen.good("refund"):
        return seen.call(("refund", {"number": "A7"}))
    if not seen.good("mail") and not seen.failed("mail"):
        return seen.call(("mail", {"text": "Your money is on its way."}))
    return seen.say("The order A7 was paid back.")


def paid_back_once(trace: Trace) -> None:
    amounts = [amount for _, amount in trace.world.paid_back]
    assert sum(amounts) <= trace.world.total, f"{sum(amounts)} euros were paid back for {trace.world.total}"


def refunded_means_paid(trace: Trace) -> None:
    assert trace.world.status != "refunded" or trace.world.paid_back, "refunded, and no money was sent"


def one_mail(trace: Trace) -> None:
    assert len(trace.world.mails) <= 1, f"{len(trace.world.mails)} mails"


# --- the same desk with mistakes --------------------------------------------------------------------------


@tool(name="refund", approval=True)
async def refund_without_a_look(ctx: ToolContext[Shop], number: str) -> str:
    """Pay an order back."""
    shop = ctx.deps
    await asyncio.sleep(0.5)
    shop.paid_back.append((f"refund {number}", shop.total))  # whatever was paid before
    shop.status = "refunded"
    return "OK paid back"


def refund_with_a_memory() -> Any:
    """Each process remembers what it has paid: the next one knows nothing of it."""
    paid: set[str] = set()

    @tool(name="refund", approval=True)
    async def refund(ctx: ToolContext[Shop], number: str) -> str:
        """Pay an order back."""
        shop = ctx.deps
        if number not in paid:
            paid.add(number)
            await asyncio.sleep(0.5)
            shop.paid_back.append((ctx.idempotency_key, shop.total))
        shop.status = "refunded"
        return "OK paid back"

    return refund


@tool(name="refund", approval=True)
async def refund_noted_first(ctx: ToolContext[Shop], number: str) -> str:
    """Pay an order back."""
    shop = ctx.deps
    if shop.status == "refunded":
        return "OK paid back"
    shop.status = "refunded"  # noted before it is done
    await shop.bank(f"refund {number}", shop.total)
    return "OK paid back"


@tool(name="mail")
async def mail_again(ctx: ToolContext[Shop], text: str) -> str:
    """Write to the customer."""  # idempotent by default, and it is not
    await asyncio.sleep(0.1)
    ctx.deps.mails.append(text)
    return "OK sent"


MISTAKES: dict[str, tuple[str, Callable[[], Any]]] = {
    "refunds without a look": ("paid_back_once", lambda: [order, refund_without_a_look, mail]),
    "remembers in the process": ("paid_back_once", lambda: [order, refund_with_a_memory(), mail]),
    "notes before it pays": ("refunded_means_paid", lambda: [order, refund_noted_first, mail]),
    "sends mails again": ("one_mail", lambda: [order, refund, mail_again]),
}


def scenario(mistake: str | None = None) -> Scenario:
    tools: Callable[[], Any] = MISTAKES[mistake][1] if mistake else lambda: [order, refund, mail]
    return Scenario(
        lambda: Agent(
            FunctionLlm(model), tools=tools(), deps_type=Shop, instructions="You run a refund desk."
        ),
        "Pay the order A7 back.",
        world=Shop,
        people=lambda pending: Approve(),
        invariants=[paid_back_once, refunded_means_paid, one_mail],
    )
