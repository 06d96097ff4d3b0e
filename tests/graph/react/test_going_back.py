"""Going back and `effect="once"`: a branch or fork that repeats a call receives its recorded result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.draws import sampled
from tests.graph.kit import T
from wesichain import Agent, ReActAgentNode, ToolContext, tool
from wesichain.core import LlmRequest, LlmResponse, Role, ToolCall
from wesichain.graph import (
    Checkpointer,
    GraphBuilder,
    MemoryCheckpointer,
    compact,
    react_graph,
)
from wesichain.graph.postgres import PostgresCheckpointer
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.testing import FunctionLlm

KINDS = ("steps", "steps-node", "node", "agent", "inside", "steps-inside")
# The contract of stores covers the differences between stores: few kinds run in other stores than memory.
DATABASES = sampled([(store, kind) for store in ("sqlite", "postgres") for kind in KINDS], 2)
every_kind = pytest.mark.parametrize(
    ("store", "kind"), [*(("memory", kind) for kind in sampled(KINDS, 4)), *DATABASES], indirect=["store"]
)
some_kinds = pytest.mark.parametrize(
    ("store", "kind"), [("memory", kind) for kind in sampled(KINDS, 3)], indirect=["store"]
)
pytestmark = pytest.mark.sampled


class World:
    """Payments, their idempotency keys, and the calls of the model."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.keys: list[str] = []
        self.amount = 5
        self.dies = False
        self.has_paid = asyncio.Event()

    def pay(self) -> Any:
        @tool(effect="once")
        async def pay(amount: int, ctx: ToolContext) -> str:
            """Pay an amount."""
            self.paid.append(amount)
            self.keys.append(ctx.idempotency_key)
            if self.dies:
                self.has_paid.set()
                await asyncio.sleep(3600)  # the result is lost
            return f"paid {amount}"

        return pay

    def model(self, name: str) -> FunctionLlm:
        """Calls the tool twice in sequence, always with the same call ids."""

        def reply(request: LlmRequest) -> LlmResponse:
            told = [message.text for message in request.messages if message.role is Role.TOOL]
            if len(told) == (2 if name == "pay" else 1):
                return LlmResponse(f"told: {told}")
            args: Any = {"amount": self.amount + len(told)} if name == "pay" else {"task": "pay"}
            return LlmResponse("", (ToolCall(f"call-{len(told)}", name, args),))

        return FunctionLlm(reply)

    def graph(self, kind: str, store: Checkpointer) -> Any:
        tools = [self.pay()]
        clerk = Agent(self.model("pay"), tools=tools, name="clerk").as_tool()
        if kind == "steps":
            return react_graph(llm=self.model("pay"), tools=tools, checkpointer=store)
        nodes: dict[str, Any] = {
            "steps-node": react_graph(llm=self.model("pay"), tools=tools),
            "node": ReActAgentNode(llm=self.model("pay"), tools=tools),
            "agent": Agent(self.model("pay"), tools=tools),
            "inside": Agent(self.model("clerk"), tools=[clerk]),
            "steps-inside": react_graph(llm=self.model("clerk"), tools=[clerk]),
        }
        builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
        builder.add_node("before", lambda _: {"begun": True}).add_node("work", nodes[kind])
        return builder.add_edge("before", "work").set_entry("before").build(store)


def answer(done: Any) -> str:
    found: str = done.get("final_output") or done.get("output")
    return found


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checkpointer]:
    if request.param == "memory":
        yield MemoryCheckpointer()
    elif request.param == "sqlite":
        found = SqliteCheckpointer(tmp_path / "t.db")
        yield found
        found.close()
    else:
        url = request.getfixturevalue("postgres")
        with psycopg.connect(url) as db:
            db.execute("DROP TABLE IF EXISTS wesichain_entries, wesichain_threads, wesichain_schema CASCADE")
        kept = PostgresCheckpointer(url)
        yield kept
        asyncio.run(kept.close())


@every_kind
async def test_no_branch_and_no_fork_pays_again(kind: str, store: Checkpointer) -> None:
    world = World()
    graph = world.graph(kind, store)
    whole = await graph.invoke({"input": "pay"}, T)
    assert world.paid == [5, 6]
    history = await graph.history("t")
    for moment in history:
        again = world.graph(kind, store)
        assert answer(await again.resume("t", checkpoint_id=moment.checkpoint_id)) == answer(whole)
        fork = await world.graph(kind, store).fork("t", moment.checkpoint_id)
        if moment.next:
            assert answer(await world.graph(kind, store).resume(fork)) == answer(whole)
    branch = (await graph.history("t"))[1]
    await world.graph(kind, store).resume("t", checkpoint_id=branch.checkpoint_id)
    assert world.paid == [5, 6]


@some_kinds
async def test_a_branch_from_before_a_lost_payment_is_told_so(kind: str, store: Checkpointer) -> None:
    """The run was killed inside the tool; the thread goes back instead of resuming it."""
    world = World()
    world.dies = True
    graph = world.graph(kind, store)
    run = asyncio.ensure_future(graph.invoke({"input": "pay"}, T))
    await world.has_paid.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    world.dies = False
    first = (await graph.history("t"))[-1]
    done = await world.graph(kind, store).resume("t", checkpoint_id=first.checkpoint_id)
    assert world.paid == [5, 6]
    assert "is unknown" in answer(done)


@pytest.mark.parametrize("is_compact", [False, True], ids=["whole", "compacted"])
@some_kinds
async def test_an_update_of_the_past_does_not_pay_again(
    kind: str, is_compact: bool, store: Checkpointer
) -> None:
    world = World()
    graph = world.graph(kind, store)
    await graph.invoke({"input": "pay"}, T)
    moment = (await graph.history("t"))[-1]
    update: Any = {"iteration_count": 0} if kind == "steps" else {"note": "changed"}
    await world.graph(kind, store).update_state("t", update, checkpoint_id=moment.checkpoint_id)
    if is_compact:
        await compact(store, "t")
    await world.graph(kind, store).resume("t")
    assert world.paid == [5, 6]


@some_kinds
async def test_another_call_on_a_branch_is_made_once_under_a_key_of_its_own(
    kind: str, store: Checkpointer
) -> None:
    """The model is called again on the branch, and uses the same call id with other arguments."""
    world = World()
    graph = world.graph(kind, store)
    await graph.invoke({"input": "pay"}, T)
    first = (await graph.history("t"))[-1].checkpoint_id
    world.amount = 70
    inside = kind in ("inside", "steps-inside")
    for _ in range(2):
        done = await world.graph(kind, store).resume("t", checkpoint_id=first)
        if inside:  # the agent was called with the same task: it is the same call, with the recorded answer
            assert world.paid == [5, 6]
        else:
            assert "paid 70" in answer(done)
            assert world.paid == [5, 6, 70, 71]
    assert len(set(world.keys)) == len(world.keys)


@pytest.mark.parametrize("store", sampled(["memory", "sqlite", "postgres"], 1), indirect=True)
async def test_a_large_thread_still_knows_what_was_done_once(store: Checkpointer) -> None:
    """A base checkpoint has all records of the thread."""
    world = World()
    world.amount = 5
    graph = world.graph("steps", store)
    for turn in range(4):
        await graph.invoke({"input": f"{turn} " + "x" * 40_000}, T)
    assert world.paid == [5, 6] * 4
    history = await graph.history("t")
    for moment in history[::5]:
        await world.graph("steps", store).resume("t", checkpoint_id=moment.checkpoint_id)
    assert world.paid == [5, 6] * 4
