"""The context of a run: passed to invoke and resume, available to nodes and routers at any depth, never stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from tests.graph.kit import Log, T
from wesichain.errors import ConfigError, GraphDefinitionError, GraphInterruptedError
from wesichain.graph import (
    ExecutionOptions,
    Graph,
    GraphBuilder,
    GraphContext,
    MemoryCheckpointer,
    MemoryStore,
    interrupt,
)


@dataclass
class User:
    name: str
    connection: object = None


def greet(_: Log, ctx: GraphContext[User]) -> Any:
    return {"log": [f"hello {ctx.context.name}"]}


def graph(store: Any = None) -> Graph[Log]:
    inner = GraphBuilder(Log, context_type=User).add_node("greet", greet).set_entry("greet").build()
    builder = GraphBuilder(Log, context_type=User).add_node("sub", inner)

    def ask(_: Log, ctx: GraphContext[User]) -> Any:
        return {"log": [f"{ctx.context.name}: {interrupt('?')}"]}

    builder.add_node("ask", ask)
    return builder.add_edge("sub", "ask").set_entry("sub").build(store)


async def test_nodes_and_inner_graphs_have_the_context_and_a_resume_has_its_own() -> None:
    store = MemoryCheckpointer()
    with pytest.raises(GraphInterruptedError):
        await graph(store).invoke({}, T, context=User("Ann", object()))
    done = await graph(store).resume("t", "yes", context=User("Bob"))
    assert done["log"] == ["hello Ann", "Bob: yes"]
    assert "Ann" not in "".join(entry.body for entry in await store.read("t") if "hello" not in entry.body)


async def test_a_graph_that_a_node_invokes_inherits_the_context_or_has_another() -> None:
    inner = GraphBuilder(Log, context_type=User).add_node("greet", greet).set_entry("greet").build()

    async def both(_: Log) -> Any:
        mine = await inner.invoke({})
        other = await inner.invoke({}, context=User("Eve"))
        return {"log": [*mine["log"], *other["log"]]}

    outer = GraphBuilder(Log).add_node("both", both).set_entry("both").build()
    assert (await outer.invoke({}, context=User("Ann")))["log"] == ["hello Ann", "hello Eve"]


@pytest.mark.parametrize("context", ["Ann", {"name": "Ann"}, 5, User], ids=repr)
async def test_a_context_of_another_type_is_refused(context: Any) -> None:
    with pytest.raises(ConfigError, match="the graph was built with context_type=User"):
        await graph().invoke({}, context=context)
    with pytest.raises(ConfigError, match="context_type=User"):
        await graph(MemoryCheckpointer()).resume("t", context=context)


async def test_a_context_may_be_a_typed_dict_or_undeclared() -> None:
    class Ctx(TypedDict):
        name: str

    def node(_: Log, ctx: GraphContext[Any]) -> Any:
        return {"log": [ctx.context["name"]]}

    for declared in (Ctx, None):
        built = GraphBuilder(Log, context_type=declared).add_node("a", node).set_entry("a").build()
        assert (await built.invoke({}, context={"name": "x"}))["log"] == ["x"]


async def test_a_store_outlives_threads_and_reaches_inner_graphs() -> None:
    async def remember(state: dict[str, Any], ctx: GraphContext) -> dict[str, Any]:
        assert ctx.store is not None
        seen = await ctx.store.get(("users", "ann"), "seen") or 0
        await ctx.store.put(("users", "ann"), "seen", seen + 1)
        return {"seen": seen + 1}

    inner = GraphBuilder().add_node("remember", remember).set_entry("remember").build()
    store = MemoryStore()
    graph = (
        GraphBuilder().add_node("inner", inner).set_entry("inner").build(MemoryCheckpointer(), store=store)
    )
    ends = [await graph.invoke({}, ExecutionOptions(thread_id=thread)) for thread in ("a", "b", "c")]
    assert [end["seen"] for end in ends] == [1, 2, 3]
    assert await store.get(("users", "ann"), "seen") == 3


def test_what_is_no_store_is_refused() -> None:
    builder = GraphBuilder().add_node("a", lambda _: None).set_entry("a")
    with pytest.raises(GraphDefinitionError, match="is not a store"):
        builder.build(store=MemoryStore)  # type: ignore[arg-type]
