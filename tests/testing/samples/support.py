"""A support desk: a front agent that hands over to one that may close accounts, with approval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.testing.samples.model import Seen
from wesichain import Agent, LlmRequest, LlmResponse, ToolContext, tool
from wesichain.agent import Approve, Refuse
from wesichain.core.internal import Decision, PendingCall
from wesichain.testing import FunctionLlm, Scenario, Trace


@dataclass
class Service:
    account: str = "open"
    is_locked: bool = False
    has_data: bool = True
    tickets: list[tuple[int, str]] = field(default_factory=list)


@tool
async def ticket(ctx: ToolContext[Service], subject: str) -> str:
    """Open a ticket; there is one for each subject."""
    await asyncio.sleep(0.2)
    tickets = ctx.deps.tickets
    number = next((n for n, known in tickets if known == subject), len(tickets) + 1)
    if (number, subject) not in tickets:
        tickets.append((number, subject))
    return f"OK ticket {number}"


@tool(approval=True)
async def close(ctx: ToolContext[Service]) -> str:
    """Close the account and delete its data."""
    await asyncio.sleep(0.2)
    ctx.deps.account, ctx.deps.has_data = "closed", False
    return "OK closed"


def front(request: LlmRequest) -> LlmResponse:
    seen = Seen(request)
    if len(seen.good("ticket")) < 2 and seen.failed("ticket") < 6:
        return seen.call(("ticket", {"subject": "closing"}), ("ticket", {"subject": "billing"}))
    return seen.call(("transfer_to_closer", {"reason": "wants to leave"}))


def closer(request: LlmRequest) -> LlmResponse:
    seen = Seen(request)
    if "lock" in seen.offered and not seen.good("lock") and not seen.failed("lock"):
        return seen.call(("lock", {}))
    if not seen.good("close") and seen.failed("close") < 2:
        also: list[tuple[str, dict[str, object]]] = [("delete", {})] if "delete" in seen.offered else []
        return seen.call(("close", {}), *also)
    return seen.say("Closed." if seen.good("close") else "It stays open.")


def locked_only_to_close(trace: Trace) -> None:
    assert not trace.world.is_locked or trace.world.account == "closed", "the account stays locked"


def data_goes_with_the_account(trace: Trace) -> None:
    assert trace.world.has_data or trace.world.account == "closed", "the data is gone, the account is open"


def tickets_have_numbers_of_their_own(trace: Trace) -> None:
    numbers = [number for number, _ in trace.world.tickets]
    assert len(numbers) == len({*numbers}), f"tickets {trace.world.tickets}"


def one_ticket_for_a_subject(trace: Trace) -> None:
    subjects = [subject for _, subject in trace.world.tickets]
    assert len(subjects) == len({*subjects}), f"tickets {trace.world.tickets}"


# --- the same desk with mistakes --------------------------------------------------------------------------


@tool
async def lock(ctx: ToolContext[Service]) -> str:
    """Lock the account until it is closed."""
    ctx.deps.is_locked = True
    return "OK locked"


@tool
async def delete(ctx: ToolContext[Service]) -> str:
    """Delete the data of the account."""
    await asyncio.sleep(0.2)
    ctx.deps.has_data = False
    return "OK deleted"


@tool(name="ticket")
async def ticket_by_count(ctx: ToolContext[Service], subject: str) -> str:
    """Open a ticket; there is one for each subject."""
    tickets = ctx.deps.tickets
    number = next((n for n, known in tickets if known == subject), len(tickets) + 1)
    await asyncio.sleep(0.2)  # the number may be somebody else's by now
    if (number, subject) not in tickets:
        tickets.append((number, subject))
    return f"OK ticket {number}"


def ticket_by_key() -> Any:
    """The key of the call is kept in the world: but a model that saw a timeout calls once more."""

    @tool(name="ticket")
    async def ticket(ctx: ToolContext[Service], subject: str) -> str:
        """Open a ticket."""
        known: dict[str, int] = ctx.deps.__dict__.setdefault("by_key", {})
        await asyncio.sleep(0.2)
        if ctx.idempotency_key not in known:
            known[ctx.idempotency_key] = len(ctx.deps.tickets) + 1
            ctx.deps.tickets.append((known[ctx.idempotency_key], subject))
        return f"OK ticket {known[ctx.idempotency_key]}"

    return ticket


MISTAKES: dict[str, tuple[str, Callable[[], Any]]] = {
    "locks before it asks": ("locked_only_to_close", lambda: ([ticket], [lock, close])),
    "deletes beside the question": ("data_goes_with_the_account", lambda: ([ticket], [close, delete])),
    "numbers by counting": ("tickets_have_numbers_of_their_own", lambda: ([ticket_by_count], [close])),
    "goes by the key of the call": ("one_ticket_for_a_subject", lambda: ([ticket_by_key()], [close])),
}


def scenario(mistake: str | None = None) -> Scenario:
    tools: Callable[[], Any] = MISTAKES[mistake][1] if mistake else lambda: ([ticket], [close])

    def make() -> Agent[Any, str]:
        first, second = tools()
        closing = Agent(FunctionLlm(closer), tools=second, name="closer", deps_type=Service)
        return Agent(FunctionLlm(front), tools=first, name="front", handoffs=[closing], deps_type=Service)

    def decide(pending: PendingCall) -> Decision:
        return Approve() if sum(map(ord, pending.token)) % 2 else Refuse("the customer was called")

    return Scenario(
        make,
        "I want to leave.",
        world=Service,
        people=decide,
        invariants=[
            locked_only_to_close,
            data_goes_with_the_account,
            tickets_have_numbers_of_their_own,
            one_ticket_for_a_subject,
        ],
    )
