"""An order desk as a graph: reserve and charge side by side, a person signs, ship."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict

from wesichain.errors import GraphTimeoutError
from wesichain.graph import (
    END,
    START,
    Graph,
    GraphBuilder,
    GraphContext,
    MemoryCheckpointer,
    RetryPolicy,
    interrupt,
)
from wesichain.testing import Scenario, Trace


class Order(TypedDict, total=False):
    number: str
    reserved: str
    charged: str
    signed: str
    shipped: str


@dataclass
class Company:
    checkpoints: Any = field(default_factory=MemoryCheckpointer)
    charges: list[tuple[str, int]] = field(default_factory=list)
    parcels: list[str] = field(default_factory=list)
    visits: list[str] = field(default_factory=list)
    database_url: str = ""  # where the graph is durable


RETRY = RetryPolicy(attempts=2, on=(ConnectionError, GraphTimeoutError))


async def reserve(state: Order, ctx: GraphContext) -> Order:
    ctx.context.visits.append("reserve")
    await asyncio.sleep(0.3)
    return {"reserved": "yes"}


async def charge(state: Order, ctx: GraphContext) -> Order:
    """The bank charges once for a key: the order's."""
    await asyncio.sleep(0.5)
    if state["number"] not in {key for key, _ in ctx.context.charges}:
        ctx.context.charges.append((state["number"], 80))
    return {"charged": "yes"}


async def sign(state: Order, ctx: GraphContext) -> Order:
    return {"signed": interrupt("Ship it?")}


async def ship(state: Order, ctx: GraphContext) -> Order:
    await asyncio.sleep(0.2)
    if state["number"] not in ctx.context.parcels:
        ctx.context.parcels.append(state["number"])
    return {"shipped": "yes"}


# --- the same desk with mistakes --------------------------------------------------------------------------


async def charge_each_time(state: Order, ctx: GraphContext) -> Order:
    await asyncio.sleep(0.5)
    ctx.context.charges.append((state["number"], 80))  # a node that was cut off is run again
    return {"charged": "yes"}


async def ship_each_time(state: Order, ctx: GraphContext) -> Order:
    ctx.context.parcels.append(state["number"])
    await asyncio.sleep(0.2)
    return {"shipped": "yes"}


async def sign_and_ship(state: Order, ctx: GraphContext) -> Order:
    """What stands before an interrupt is run again with the answer."""
    ctx.context.parcels.append(state["number"])
    return {"signed": interrupt("Ship it?")}


MISTAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "charges whenever it is run": ("charged_once", {"charge": charge_each_time}),
    "ships whenever it is run": ("shipped_once", {"ship": ship_each_time}),
    "ships before the question": ("shipped_once", {"sign": sign_and_ship}),
}


def charged_once(trace: Trace) -> None:
    assert len(trace.world.charges) <= 1, f"{len(trace.world.charges)} charges"


def shipped_once(trace: Trace) -> None:
    assert len(trace.world.parcels) <= 1, f"{len(trace.world.parcels)} parcels"


def shipped_means_charged(trace: Trace) -> None:
    assert not trace.world.parcels or trace.world.charges, "shipped, and nobody has paid"


def make(nodes: dict[str, Any]) -> Callable[[Company], Graph[Any]]:
    used = {"reserve": reserve, "charge": charge, "sign": sign, "ship": ship} | nodes

    def graph(company: Company) -> Graph[Any]:
        builder = GraphBuilder(Order)
        for name, node in used.items():
            builder.add_node(name, node, timeout=10.0, retry=RETRY if name == "charge" else ())
        builder.add_edge(START, "reserve").add_edge(START, "charge")
        builder.add_edge(("reserve", "charge"), "sign")
        builder.add_edge("sign", "ship")
        builder.add_edge("ship", END)
        return builder.build(company.checkpoints)

    return graph


def scenario(mistake: str | None = None, world: Callable[[], Company] = Company) -> Scenario:
    return Scenario(
        make(MISTAKES[mistake][1] if mistake else {}),
        {"number": "A7"},
        world=world,
        people=lambda question: "signed",
        invariants=[charged_once, shipped_once, shipped_means_charged],
    )
