"""Tokens of plain tool calling against code mode, on tasks of 20 calls: `python -m bench.code_mode`.

Both sides are scripted: the calls that a good model makes, and the program that a good model writes. What is
counted is every request as it is sent (messages, arguments and the specs of tools), in the estimate that the
runtime uses. It is the size of the requests, and says nothing about how well a real model writes programs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wesichain import Agent, LlmRequest, ToolCall, tool
from wesichain.context import estimate_tokens
from wesichain.core import to_json
from wesichain.kit import CodeMode
from wesichain.policy import Budget
from wesichain.testing import ScriptedLlm

CALLS = 20
NAMES = [f"item-{number:02}" for number in range(CALLS)]


@tool(effect="pure")
def stock(item: str) -> dict[str, Any]:
    """How many pieces of an item there are."""
    return {"item": item, "pieces": NAMES.index(item) * 7 % 13, "warehouse": "north"}


@tool(effect="pure")
def follow(place: str) -> str:
    """The place that comes after a place."""
    return f"place-{int(place.partition('-')[2]) * 31 % 997}"


@tool(effect="pure")
def report(item: str) -> str:
    """The report on an item: about 2,000 characters, with its score."""
    return f"score: {NAMES.index(item) % 7}\n" + "A sentence about the item that nobody needs. " * 45


@tool(effect="pure")
def page(number: int) -> dict[str, Any]:
    """A page of the list of orders: ten orders, and whether there are more."""
    orders = [{"id": number * 10 + place, "open": (number + place) % 9 == 0} for place in range(10)]
    return {"orders": orders, "more": number < CALLS - 1}


@tool(effect="pure")
def entries(folder: str) -> list[str]:
    """The folders in a folder."""
    return [f"{folder}/{name}" for name in "abcd"] if folder.count("/") < 2 else []


@tool
def reorder(item: str, pieces: int) -> str:
    """Order more pieces of an item."""
    return f"{pieces} pieces of {item} were ordered"


@dataclass(frozen=True, slots=True)
class Task:
    """A task: its tools, its calls in rounds that depend on each other, and the program for it."""

    name: str
    tools: Sequence[Any]
    rounds: Sequence[Sequence[tuple[str, dict[str, Any]]]]
    program: str
    answer: str


def _places() -> list[str]:
    places = ["place-1"]
    while len(places) < CALLS:
        places.append(follow(places[-1]))
    return places


def _folders() -> list[list[str]]:
    top = ["root"]
    below = entries("root")
    return [top, below, [deep for one in below for deep in entries(one)]]


LOW = [name for name in NAMES[:14] if stock(name)["pieces"] < 6][:6]

TASKS = [
    Task(
        "add up 20 values",
        [stock],
        [[("stock", {"item": name}) for name in NAMES]],
        f"""import asyncio
found = await asyncio.gather(*[stock(item=f"item-{{n:02}}") for n in range({CALLS})])
sum(one["pieces"] for one in found)""",
        str(sum(stock(name)["pieces"] for name in NAMES)),
    ),
    Task(
        "follow a chain of 20 places",
        [follow],
        [[("follow", {"place": place})] for place in _places()],
        f"""place = "place-1"
for _ in range({CALLS}):
    place = await follow(place=place)
place""",
        follow(_places()[-1]),
    ),
    Task(
        "one line out of 20 long reports",
        [report],
        [[("report", {"item": name}) for name in NAMES]],
        f"""import asyncio
names = [f"item-{{n:02}}" for n in range({CALLS})]
texts = await asyncio.gather(*[report(item=name) for name in names])
[name for name, text in zip(names, texts) if text.startswith("score: 6")]""",
        to_json([name for name in NAMES if report(name).startswith("score: 6")]),
    ),
    Task(
        "read 20 pages, each after the other",
        [page],
        [[("page", {"number": number})] for number in range(CALLS)],
        """number, found, more = 0, [], True
while more:
    one = await page(number=number)
    found += [order["id"] for order in one["orders"] if order["open"]]
    number, more = number + 1, one["more"]
len(found)""",
        str(sum(order["open"] for number in range(CALLS) for order in page(number)["orders"])),
    ),
    Task(
        "check 14 values, act on 6",
        [stock, reorder],
        [
            [("stock", {"item": name}) for name in NAMES[:14]],
            [("reorder", {"item": name, "pieces": 12}) for name in LOW],
        ],
        """import asyncio
names = [f"item-{n:02}" for n in range(14)]
found = await asyncio.gather(*[stock(item=name) for name in names])
low = [one["item"] for one in found if one["pieces"] < 6][:6]
for name in low:
    await reorder(item=name, pieces=12)
low""",
        to_json(LOW),
    ),
    Task(
        "walk a tree of folders",
        [entries],
        [[("entries", {"folder": folder}) for folder in level] for level in _folders()],
        """import asyncio
level, count = ["root"], 0
while level:
    count += len(level)
    below = await asyncio.gather(*[entries(folder=one) for one in level])
    level = [one for some in below for one in some]
count""",
        str(sum(map(len, _folders()))),
    ),
]


@dataclass(frozen=True, slots=True)
class Cost:
    """The number of requests for a task, and the sum of their tokens."""

    requests: int
    tokens: int
    calls: int


def tokens_of(request: LlmRequest) -> int:
    return sum(map(estimate_tokens, map(to_json, (*request.messages, *request.tools))))


async def cost_of(task: Task, replies: Sequence[Any], **options: Any) -> Cost:
    llm = ScriptedLlm([*replies, "Done."])
    result = await Agent(llm, instructions="You work in a shop.", budget=Budget(steps=60), **options).run(
        task.name
    )
    if options.get("capabilities"):
        assert llm.requests[-1].messages[-1].text == task.answer, llm.requests[-1].messages[-1].text
    spent = result.outcome.spent
    return Cost(len(llm.requests), sum(map(tokens_of, llm.requests)), spent.tool_calls)


async def costs_of(task: Task) -> dict[str, Cost]:
    """The cost of a task: one call per reply, all independent calls in one reply, and a program."""
    rounds = [
        [ToolCall(f"c{number}-{place}", name, args) for place, (name, args) in enumerate(calls)]
        for number, calls in enumerate(task.rounds)
    ]
    program = ToolCall("p", "run_code", {"code": task.program})
    return {
        "one call a reply": await cost_of(
            task, [call for calls in rounds for call in calls], tools=task.tools
        ),
        "parallel calls": await cost_of(task, rounds, tools=task.tools),
        "code mode": await cost_of(task, [program], capabilities=[CodeMode(task.tools)]),
    }


async def main() -> None:
    print("| task | calls | one call a reply | parallel calls | code mode |\n|---|---|---|---|---|")
    for task in TASKS:
        costs = await costs_of(task)
        cells = [f"{cost.requests} requests, {cost.tokens:,} tokens" for cost in costs.values()]
        print(f"| {task.name} | {costs['parallel calls'].calls} | {' | '.join(cells)} |")


if __name__ == "__main__":
    asyncio.run(main())
