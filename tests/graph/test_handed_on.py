"""The writes of inner graphs, of whole states and of Sends reach the reducers as writes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import add
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from wesichain.errors import ConflictingUpdateError
from wesichain.graph import (
    START,
    Add,
    Append,
    GraphBuilder,
    MemoryCheckpointer,
    Merge,
    PerStep,
    Send,
    SetUnion,
)
from wesichain.graph.state.reducers import ReplacedValue
from wesichain.graph.state.schema import schema_of
from wesichain.graph.state.updates import difference


def times(old: int, new: int) -> int:
    return old * new


def longest(old: str, new: str) -> str:
    return max(old, new, key=len)


class State(TypedDict, total=False):
    total: Annotated[int, Add]
    best: Annotated[int, max]
    product: Annotated[int, times]
    text: Annotated[str, longest]
    tags: Annotated[set[str], SetUnion]
    facts: Annotated[dict[str, int], Merge]
    log: Annotated[list[str], Append]
    item: int


def inner(write: Any) -> Any:
    return GraphBuilder(State).add_node("one", write).set_entry("one").build()


async def test_keys_that_an_inner_graph_did_not_write_are_not_written() -> None:
    @dataclass
    class Data:
        n: int = 0
        mode: str = "default"
        log: Annotated[list[str], Append] = field(default_factory=list)

    one = GraphBuilder(Data).add_node("one", lambda s: {"log": [f"{s.n} {s.mode}"]}).set_entry("one").build()
    builder = GraphBuilder(Data).add_node("sub", one)
    builder.add_conditional_edges(START, lambda _: [Send("sub", {"n": n}) for n in range(3)], ["sub"])
    done = await builder.build().invoke(Data(9, "mine"))
    assert done == Data(9, "mine", ["0 default", "1 default", "2 default"])


async def test_a_value_that_is_written_is_written_though_it_is_the_default() -> None:
    one = GraphBuilder(State).add_node("one", lambda _: {"item": 0}).set_entry("one").build()
    builder = GraphBuilder(State).add_node("sub", one)
    builder.add_conditional_edges(START, lambda _: Send("sub", {"log": []}), ["sub"])
    assert (await builder.build().invoke({"item": 5}))["item"] == 0


# --- whole states ----------------------------------------------------------------------------------


@dataclass
class Record:
    total: Annotated[int, Add] = 0
    sum: Annotated[float, add] = 0.0
    best: Annotated[int, max] = 0
    product: Annotated[int, times] = 1
    text: Annotated[str, Add] = ""
    log: Annotated[list[str], Append] = field(default_factory=list)
    now: Annotated[list[str], Append, PerStep] = field(default_factory=list)
    plain: int = 0


def grown(state: Record) -> Record:
    state.total += 1
    state.sum += 0.1
    state.best = 7
    state.text += "!"
    state.log.append("whole")
    return state


async def test_a_whole_state_is_folded_beside_a_siblings_writes() -> None:
    builder = (
        GraphBuilder(Record)
        .add_node("whole", grown)
        .add_node("by", lambda _: {"total": 100, "sum": 1.0, "best": 9, "text": "?", "log": ["by"]})
    )
    graph = builder.add_edge(START, "whole").add_edge(START, "by").build()
    done = await graph.invoke(Record(total=10, sum=0.2, best=5, text="a"))
    assert (done.total, done.best, done.text, done.log) == (111, 9, "a!?", ["whole", "by"])
    assert done.sum == pytest.approx(1.3)


async def test_a_whole_state_alone_is_the_state() -> None:
    end = Record(7, 0.5, 3, 11, "z", ["other"], ["n"], 4)
    graph = GraphBuilder(Record).add_node("a", lambda _: replace(end)).set_entry("a").build()
    assert await graph.invoke(Record(10, 0.2, 5, 2, "a", ["x"], [], 1)) == end


async def test_what_no_write_can_say_conflicts_with_a_siblings_write_instead_of_undoing_it() -> None:
    builder = GraphBuilder(Record).add_node("whole", lambda s: replace(s, product=13))
    builder.add_node("by", lambda _: {"product": 5})
    graph = builder.add_edge(START, "whole").add_edge(START, "by").build()
    with pytest.raises(ConflictingUpdateError, match="'product' was written by 'whole' and 'by'"):
        await graph.invoke(Record(product=2))


async def test_whole_states_through_send_are_compared_with_what_was_sent() -> None:
    def work(state: Record) -> Record:
        return replace(state, total=state.total + 1, log=[*state.log, "w"])

    builder = GraphBuilder(Record).add_node("work", work)
    builder.add_conditional_edges(
        START, lambda s: [Send("work", replace(s, total=100 * n)) for n in (1, 2, 3)], ["work"]
    )
    for store in (None, MemoryCheckpointer()):
        done = await builder.build(store).invoke(Record(total=10, log=["x"]))
        assert (done.total, done.log) == (13, ["x", "w", "w", "w"])


KEYS = schema_of(Record).keys
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "total": st.integers(-99, 99),
    "best": st.integers(-99, 99),
    "product": st.integers(-9, 9),
    "text": st.text("ab", max_size=4),
    "log": st.lists(st.sampled_from("ab"), max_size=4),
    "plain": st.integers(0, 3),
}


@draws(30)
@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_the_write_of_a_whole_state_gives_that_state(data: st.DataObject, name: str) -> None:
    """Folded alone, the write derived from a whole state gives just that state."""
    old, new = data.draw(VALUES[name]), data.draw(VALUES[name])
    builder = GraphBuilder(Record).add_node("a", lambda s: replace(s, **{name: new})).set_entry("a")
    done = builder.build().invoke_sync(Record(**{name: old}))
    assert getattr(done, name) == new
    written = difference(KEYS[name], old, new)
    assert len(written) == (old != new)
    if name in ("total", "best") and written and (name == "total" or new > old):
        assert not isinstance(written[0][1], ReplacedValue)
