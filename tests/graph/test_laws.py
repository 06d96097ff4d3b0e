"""Laws: a run does not depend on timing, and a run that is cut anywhere comes to the same end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from tests.draws import draws
from wesichain.errors import ConflictingUpdateError, GraphError
from wesichain.graph import (
    END,
    Add,
    Append,
    Checkpointer,
    Entry,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    Merge,
    PerStep,
    Send,
    SetUnion,
)


class State(TypedDict, total=False):
    log: Annotated[list[str], Append]
    total: Annotated[int, Add]
    tags: Annotated[set[str], SetUnion]
    facts: Annotated[dict[str, list[int]], Merge]
    best: Annotated[int, max]
    now: Annotated[list[str], Append, PerStep]
    last: str
    turns: int


@dataclass
class Plan:
    """A random graph: what the nodes write, where they lead, how long each visit takes."""

    writes: list[list[str]]
    edges: list[tuple[int, int]]
    joins: list[tuple[frozenset[int], int]]
    sends: dict[int, tuple[int, int]]
    rounds: int
    inner: set[int]
    delays: dict[int, list[int]] = field(default_factory=dict)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    size = draw(st.integers(3, 6))
    keys = st.lists(
        st.sampled_from(["log", "total", "tags", "facts", "best", "now", "last"]), max_size=3, unique=True
    )
    later = st.integers(0, size - 2).flatmap(lambda i: st.tuples(st.just(i), st.integers(i + 1, size - 1)))
    sources = st.frozensets(st.integers(0, size - 2), min_size=2, max_size=3)
    sends = {
        source: (target, draw(st.integers(1, 4))) for source, target in draw(st.lists(later, max_size=2))
    }
    return Plan(
        writes=[draw(keys) for _ in range(size)],
        edges=draw(st.lists(later, max_size=8, unique=True)),
        joins=[(nodes, size - 1) for nodes in draw(st.lists(sources, max_size=1))],
        sends=sends,
        rounds=draw(st.integers(1, 2)),
        inner=draw(st.sets(st.integers(0, size - 1), max_size=2)) - {target for target, _ in sends.values()},
    )


class Machine:
    """Builds the graph of a plan, and counts what its nodes do."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.delays: dict[int, list[int]] = {}
        self.finished: Counter[str] = Counter()

    def node(self, index: int, inner: bool) -> Any:
        async def call(state: Any) -> Any:
            waits = self.delays.get(index, [])
            for _ in range(waits.pop() if waits else 0):
                await asyncio.sleep(0)
            name = f"n{index}" if isinstance(state, dict) and "i" not in state else f"n{index}/{state['i']}"
            self.finished[name] += 1
            seen = len(state.get("log", []))
            values = {
                "log": [f"{name}:{seen}"],
                "total": index + 1,
                "tags": {name, f"t{seen % 3}"},
                "facts": {name: [seen, index]},
                "best": seen + index,
                "now": [name, *state.get("now", [])[:1]],
                "last": name,
            }
            return {key: values[key] for key in self.plan.writes[index]}

        if not inner:
            return call
        return GraphBuilder(State).add_node("one", call).set_entry("one").build()

    def build(self, store: Checkpointer | None = None) -> Graph[State]:
        plan, size = self.plan, len(self.plan.writes)
        builder = GraphBuilder(State)
        for index in range(size):
            builder.add_node(f"n{index}", self.node(index, index in plan.inner))
        for source, target in plan.edges:
            builder.add_edge(f"n{source}", f"n{target}")
        for nodes, target in plan.joins:
            builder.add_edge([f"n{index}" for index in sorted(nodes)], f"n{target}")
        for source, (target, count) in plan.sends.items():
            builder.add_conditional_edges(
                f"n{source}", lambda s, t=target, c=count: [Send(f"n{t}", {"i": i}) for i in range(c)]
            )
        builder.add_node("turn", lambda s: {"turns": s.get("turns", 0) + 1}, defer=True)
        builder.add_conditional_edges(
            "turn", lambda s: "n0" if s["turns"] < plan.rounds else END, ["n0", END]
        )
        for index in range(size):
            builder.add_edge(f"n{index}", "turn")
            builder.add_conditional_edges("__start__", lambda _: [], [f"n{index}"])
        return builder.set_entry("n0").build(store, defaults=ExecutionOptions(cycle_detection=False))


async def outcome(running: Any) -> Any:
    """How a run ends: its state, or its conflict."""
    try:
        return await running
    except ConflictingUpdateError as error:
        return error.key, error.nodes, error.state


LAW = draws(60)


@LAW
@given(plans(), st.lists(st.lists(st.integers(0, 6), min_size=6, max_size=6), min_size=2, max_size=2))
def test_the_end_does_not_depend_on_the_order_in_which_nodes_finish(
    plan: Plan, waits: list[list[int]]
) -> None:
    async def run() -> list[Any]:
        ends: list[Any] = []
        for delays in ([], *waits):
            machine = Machine(plan)
            machine.delays = {index: [delay] * 9 for index, delay in enumerate(delays)}
            ends.append(await outcome(machine.build().invoke({})))
        return ends

    first, *others = asyncio.run(run())
    assert all(other == first for other in others)


class Cut(Exception):
    """The process is gone."""


class Mortal(MemoryCheckpointer):
    """A store that takes so many writes and then cuts the run."""

    lives = 10**9

    @override
    async def append(
        self, thread_id: str, entries: Sequence[Entry], *, after: int, settles: str | None = None
    ) -> None:
        if self.lives == 0:
            raise Cut
        self.lives -= 1
        await super().append(thread_id, entries, after=after, settles=settles)


@LAW
@given(plans(), st.integers(1, 40), st.integers(1, 10))
def test_a_run_that_is_cut_anywhere_is_resumed_to_the_same_end(plan: Plan, first: int, again: int) -> None:
    async def run() -> tuple[Any, Any, Machine, Machine]:
        whole = Machine(plan)
        end = await outcome(whole.build(MemoryCheckpointer()).invoke({}, ExecutionOptions(thread_id="t")))
        cut, store = Machine(plan), Mortal()
        store.lives = first
        running: Any = cut.build(store).invoke({}, ExecutionOptions(thread_id="t"))
        while True:
            try:
                return end, await outcome(running), whole, cut
            except Cut:
                store.lives = again
                running = cut.build(store).resume("t")

    end, resumed, whole, cut = asyncio.run(run())
    assert resumed == end
    assert set(cut.finished) == set(whole.finished)


@LAW
@given(plans())
def test_every_checkpoint_leads_to_the_same_end(plan: Plan) -> None:
    async def run() -> None:
        graph = Machine(plan).build(MemoryCheckpointer())
        end = await outcome(graph.invoke({}, ExecutionOptions(thread_id="t")))
        for snapshot in await graph.history("t"):
            fork = await graph.fork("t", snapshot.checkpoint_id)
            assert (await graph.get_state(fork)).values == snapshot.values
            assert await outcome(graph.resume(fork)) == end

    asyncio.run(run())


@LAW
@given(plans(), st.integers(1, 12))
def test_no_super_step_is_taken_beyond_the_limit(plan: Plan, limit: int) -> None:
    async def run() -> None:
        graph = Machine(plan).build(MemoryCheckpointer())
        try:
            await graph.invoke({}, ExecutionOptions(thread_id="t", max_steps=limit))
        except GraphError:
            pass
        assert (await graph.get_state("t")).step <= limit

    asyncio.run(run())
