"""A thousand honest runs: nobody is asked about a value that the user named or a trusted result has."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Annotated, Any

from wesichain import Agent, Flow, tool
from wesichain.agent import Completed
from wesichain.core import LlmResponse, ToolCall
from wesichain.testing import ScriptedLlm
from wesichain.tools import FromUser

NAMES = ("ann", "bob.miller", "li-wei", "o.brien", "zoë")
TEXTS = (
    "It rains.",
    "Prices rose by 7 % in 2025.",
    "Write to press@paper.example.",
    "Totals: 12, 300 and 4,000.",
)
RUNS = 1_000


@tool(trust="outside", effect="pure")
def read_page(text: str) -> str:
    """Read a page."""
    return text


@tool(effect="pure")
def find_address(name: str) -> str:
    """Look a person up in the user's own address book."""
    return f"{name}@firm.example"


@tool
def send_mail(to: Annotated[list[str], FromUser], body: str) -> str:
    """Send a mail."""
    return "sent"


@tool
def pay(iban: str, amount: float) -> str:
    """Pay an amount."""
    return "paid"


def test_no_question_that_the_labels_do_not_explain() -> None:
    chance = Random(7)
    asked = [why for _ in range(RUNS) if (why := asyncio.run(one_run(chance)))]
    assert asked == []


async def one_run(chance: Random) -> str:
    name, text = chance.choice(NAMES), chance.choice(TEXTS)
    iban, amount = f"DE{chance.randrange(10**19, 10**20)}", chance.randrange(5_000, 99_999)
    shown = chance.choice([f"{amount}", f"{amount:,}", f"€{amount:,}.00", f"{amount}.00"])
    steps: list[tuple[str, dict[str, Any]]] = [
        ("read_page", {"text": text}),
        ("send_mail", {"to": [f"{name}@firm.example"], "body": f"It says: {text}"}),
        ("pay", {"iban": iban, "amount": amount}),
        ("find_address", {"name": name}),
    ]
    chance.shuffle(steps)
    words = f"Read {text!r}, tell {name.upper()}@firm.example ({name}) and pay {shown} to {iban}."
    replies = [
        LlmResponse("", (ToolCall(f"c{number}", tool_name, args),), finish_reason="tool_calls")
        for number, (tool_name, args) in enumerate(steps)
    ]
    agent: Agent[Any, str] = Agent(
        ScriptedLlm([*replies, LlmResponse("done")]),
        tools=[read_page, find_address, send_mail, pay],
        flow=Flow(),
    )
    outcome = await agent.outcome(words)
    return "" if isinstance(outcome, Completed) else str(outcome)
