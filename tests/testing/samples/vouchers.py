"""A voucher desk whose runs are durable: issue a voucher, have it approved, mail it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copy
from tempfile import mkdtemp
from typing import Any

from tests.testing.samples.model import Seen
from wesichain import Agent, LlmRequest, LlmResponse, ToolContext, tool
from wesichain.agent import Approve
from wesichain.durable import DurableAgent, DurableRuns
from wesichain.testing import FunctionLlm, Scenario, Trace


@dataclass
class Office:
    database_url: str
    vouchers: dict[str, int] = field(default_factory=dict)  # by key
    mails: list[str] = field(default_factory=list)


@tool
async def issue(ctx: ToolContext[Office]) -> str:
    """Issue a voucher: one for a call, however often that is run."""
    await asyncio.sleep(0.3)
    ctx.deps.vouchers.setdefault(ctx.idempotency_key, 50)
    return "OK issued"


@tool(effect="once", approval=True)
async def mail(ctx: ToolContext[Office]) -> str:
    """Mail the voucher."""
    ctx.deps.mails.append("your voucher")
    await asyncio.sleep(0.2)
    return "OK mailed"


def model(request: LlmRequest) -> LlmResponse:
    seen = Seen(request)
    for name in ("issue", "mail"):
        if not seen.good(name):
            return seen.call((name, {})) if not seen.failed(name) else seen.say("It could not be done.")
    return seen.say("Your voucher is in the mail.")


def one_voucher(trace: Trace) -> None:
    assert len(trace.world.vouchers) <= 1, f"{len(trace.world.vouchers)} vouchers"


def one_mail(trace: Trace) -> None:
    assert len(trace.world.mails) <= 1, f"{len(trace.world.mails)} mails"


# --- the same desk with mistakes --------------------------------------------------------------------------


@tool(name="issue")
async def issue_each_time(ctx: ToolContext[Office]) -> str:
    """Issue a voucher."""
    await asyncio.sleep(0.3)
    ctx.deps.vouchers[f"{len(ctx.deps.vouchers)}"] = 50  # a call that was cut off is run again
    return "OK issued"


@tool(name="mail", approval=True)
async def mail_each_time(ctx: ToolContext[Office]) -> str:
    """Mail the voucher."""
    ctx.deps.mails.append("your voucher")  # and the default effect says that this may be run again
    await asyncio.sleep(0.2)
    return "OK mailed"


MISTAKES: dict[str, tuple[str, list[Any]]] = {
    "issues whenever it is run": ("one_voucher", [issue_each_time, mail]),
    "mails whenever it is run": ("one_mail", [issue, mail_each_time]),
}


def make_tables(database: Path) -> None:
    """Make the tables once: that takes longer than a simulated run."""

    async def make() -> None:
        async with DurableRuns(f"sqlite:///{database}", create=True) as runs:
            await runs.list()

    asyncio.run(make())


def scenario(folder: Path, mistake: str | None = None, **options: Any) -> Scenario:
    """The desk; the database of each simulated run is a file of its own in the folder."""
    tools = MISTAKES[mistake][1] if mistake else [issue, mail]
    empty = folder / "runs.db"
    make_tables(empty)

    def make(office: Office) -> DurableAgent[str]:
        desk = Agent(FunctionLlm(model), tools=tools, deps_type=Office, name="vouchers", **options)
        return DurableAgent(desk, deps=lambda: office, database_url=office.database_url)

    def world() -> Office:
        return Office(f"sqlite:///{copy(empty, mkdtemp(dir=folder))}")

    return Scenario(
        make,
        "A voucher for Ann.",
        world=world,
        people=lambda pending: Approve(),
        invariants=[one_voucher, one_mail],
    )
