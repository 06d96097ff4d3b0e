"""Building: every invalid definition is an error of `build`, before anything runs."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, cast

import pytest

import wesichain.graph as graph_room
from tests.graph.behaviours import behaviour
from tests.graph.kit import Log
from wesichain.errors import (
    ConfigError,
    GraphDefinitionError,
    InvalidEdgeError,
    MissingNodeError,
)
from wesichain.graph import (
    END,
    START,
    ExecutionOptions,
    GraphBuilder,
    GraphContext,
    MemoryCheckpointer,
    StateUpdate,
)


def noop(state: Any) -> None:
    """Do nothing."""


def builder(*names: str) -> GraphBuilder[dict[str, Any]]:
    made: GraphBuilder[dict[str, Any]] = GraphBuilder()
    for name in names:
        made.add_node(name, noop)
    return made


def begun(*names: str) -> GraphBuilder[dict[str, Any]]:
    return builder(*names).set_entry(names[0])


@behaviour("G36")
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        pytest.param(lambda: builder("a").add_node("a", noop), GraphDefinitionError, "node 'a' is added twice", id="twice"),
        pytest.param(lambda: builder(START), GraphDefinitionError, "cannot be a node's name", id="named-START"),
        pytest.param(lambda: builder(END), GraphDefinitionError, "cannot be a node's name", id="named-END"),
        pytest.param(lambda: builder(""), GraphDefinitionError, "cannot be a node's name", id="without-a-name"),
        pytest.param(lambda: builder().build(), GraphDefinitionError, "has no nodes", id="empty"),
        pytest.param(lambda: builder("a").build(), GraphDefinitionError, "has no entry", id="without-an-entry"),
        pytest.param(lambda: builder("a").set_entry("b").build(), MissingNodeError, "there is no node 'b'", id="entry-unknown"),
        pytest.param(lambda: begun("a", "b").set_entry("b"), GraphDefinitionError, "the entry is 'a' already", id="two-entries"),
        pytest.param(lambda: begun("a").add_edge("a", "x").build(), MissingNodeError, "edge 'a' -> 'x': there is no node 'x'; the nodes: 'a'", id="edge-to-nowhere"),
        pytest.param(lambda: begun("a").add_edge("x", "a").build(), MissingNodeError, "edge 'x' -> 'a': there is no node 'x'", id="edge-from-nowhere"),
        pytest.param(lambda: begun("a").add_edge(END, "a").build(), InvalidEdgeError, "nothing comes after END", id="edge-out-of-END"),
        pytest.param(lambda: begun("a").add_edge("a", START).build(), InvalidEdgeError, "no edge leads back to START", id="edge-into-START"),
        pytest.param(lambda: builder("a").add_edge(START, END).build(), InvalidEdgeError, "between them", id="START-to-END"),
        pytest.param(
            lambda: builder("a", "b", "c").add_edge("a", cast("Any", ["b", "c"])),
            InvalidEdgeError,
            "for several targets add an edge for each",
            id="edge-to-a-list",
        ),
        pytest.param(lambda: builder("a").add_edge(cast("Any", None), "a"), InvalidEdgeError, r"add_edge\(None, 'a'\)", id="edge-from-nothing"),
        pytest.param(
            lambda: begun("a").build(cast("Any", "threads.db")),
            GraphDefinitionError,
            "'threads.db' is not a checkpointer",
            id="a-path-for-a-checkpointer",
        ),
        pytest.param(
            lambda: begun("a").build(cast("Any", MemoryCheckpointer)),
            GraphDefinitionError,
            "MemoryCheckpointer'> is not a checkpointer",
            id="a-class-for-a-checkpointer",
        ),
        pytest.param(lambda: begun("a", "b").add_edge(["a", START], "b").build(), InvalidEdgeError, "a join has several nodes", id="join-with-START"),
        pytest.param(lambda: begun("a", "b").build(), GraphDefinitionError, "nothing leads to 'b'", id="island"),
        pytest.param(
            lambda: begun("a", "b", "c").add_edge("b", "c").add_edge("c", "b").build(),
            GraphDefinitionError,
            "nothing leads to 'b', 'c'",
            id="island-with-a-loop",
        ),
        pytest.param(
            lambda: begun("a").add_conditional_edges("a", noop, ["x"]).build(),
            MissingNodeError,
            "the router after 'a': there is no node 'x'",
            id="target-unknown",
        ),
        pytest.param(
            lambda: begun("a").add_conditional_edges("x", noop, ["a"]).build(),
            MissingNodeError,
            "conditional edges: there is no node 'x'",
            id="router-after-nowhere",
        ),
        pytest.param(lambda: begun("a").add_conditional_edges(END, noop, ["a"]).build(), InvalidEdgeError, "nothing comes after END", id="router-after-END"),
        pytest.param(
            lambda: builder("a").add_node("b", noop, goto=["x"]).set_entry("a").add_edge("a", "b").build(),
            MissingNodeError,
            r"node 'b' \(goto\): there is no node 'x'",
            id="goto-unknown",
        ),
        pytest.param(lambda: builder().add_node("a", 5), GraphDefinitionError, "node 'a': 5 is not a callable", id="not-callable"),
        pytest.param(lambda: builder().add_node("a", lambda: None), GraphDefinitionError, "takes no argument", id="no-argument"),
        pytest.param(lambda: builder().add_node("a", lambda s, c, x: None), GraphDefinitionError, "more than", id="too-many"),
        pytest.param(lambda: builder().add_node("a", noop, keep_state=True), GraphDefinitionError, "keep_state", id="keep-state"),
        pytest.param(
            lambda: begun("a").build(defaults=ExecutionOptions(interrupt_before=["x"])),
            MissingNodeError,
            "an interrupt: there is no node 'x'",
            id="interrupt-unknown",
        ),
        pytest.param(
            lambda: (
                begun("a").build().invoke_sync({}, ExecutionOptions(interrupt_after=["x"]))
            ),
            MissingNodeError,
            "an interrupt: there is no node 'x'; the nodes: 'a'",
            id="interrupt-unknown-to-the-run",
        ),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        make()
    assert isinstance(caught.value, ConfigError)


def test_a_node_is_reached_by_edges_joins_routers_and_goto() -> None:
    made = builder("a", "b", "c", "d", "e").add_node("f", noop, goto=["e"]).set_entry("a")
    made.add_edge("a", "b").add_edge(["a", "b"], "c").add_conditional_edges("c", lambda _: "d", {"x": "d"})
    made.add_conditional_edges("d", lambda _: END, ["f", END])
    assert list(made.build().definition.nodes) == ["a", "b", "c", "d", "e", "f"]


def test_a_router_without_targets_may_go_anywhere_and_one_with_a_literal_says_where() -> None:
    builder("a", "b").set_entry("a").add_conditional_edges("a", lambda _: "b").build()

    def choose(state: Any) -> Literal["b", "__end__"]:
        return "b"

    graph = builder("a", "b").set_entry("a").add_conditional_edges("a", choose).build()
    assert list(graph.definition.leads_to("a")) == ["b", END]


class Invokable:
    """An object with `invoke`."""

    async def invoke(self, state: dict[str, Any]) -> dict[str, Any]:
        return {"n": state["n"] + 1}


class Callable_:
    async def __call__(self, state: dict[str, Any]) -> dict[str, Any]:
        return {"n": state["n"] + 1}

    def method(self, state: dict[str, Any], ctx: GraphContext) -> dict[str, Any]:
        assert ctx.node == "node"
        return {"n": state["n"] + 1}


async def by_name(state: dict[str, Any], context: Any) -> dict[str, Any]:
    assert isinstance(context, GraphContext)
    return {"n": state["n"] + 1}


def with_default(state: dict[str, Any], step: int = 1) -> dict[str, Any]:
    return {"n": state["n"] + step}


def with_optional_context(state: dict[str, Any], ctx: GraphContext | None = None) -> dict[str, Any]:
    assert ctx is not None
    return {"n": state["n"] + 1}


def add(by: int, state: dict[str, Any]) -> dict[str, Any]:
    return {"n": state["n"] + by}


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(lambda s: {"n": s["n"] + 1}, id="a-lambda"),
        pytest.param(lambda s, ctx: {"n": s["n"] + len(ctx.node) - 3}, id="a-lambda-with-a-context"),
        pytest.param(by_name, id="a-coroutine-function-with-a-context"),
        pytest.param(with_default, id="a-function-with-a-default-that-is-no-context"),
        pytest.param(with_optional_context, id="a-function-with-a-context-by-annotation"),
        pytest.param(partial(add, 1), id="a-partial"),
        pytest.param(Invokable(), id="an-object-with-invoke"),
        pytest.param(Callable_(), id="an-object-with-an-async-call"),
        pytest.param(Callable_().method, id="a-method"),
        pytest.param(lambda s: Invokable().invoke(s), id="a-function-that-returns-a-coroutine"),
        pytest.param(lambda s: StateUpdate({"n": s["n"] + 1}), id="one-that-returns-a-StateUpdate"),
    ],
)
def test_a_node_may_be(node: Any) -> None:
    graph = GraphBuilder().add_node("node", node).set_entry("node").build()
    assert graph.invoke_sync({"n": 1}) == {"n": 2}


@pytest.mark.parametrize("name", ["max_steps", "max_duration", "node_timeout", "max_visits", "cycle_window"])
@pytest.mark.parametrize("value", [0, -1, True, "3", float("nan")])
def test_limits_are_numbers_above_nought(name: str, value: Any) -> None:
    number = "number" if name in ("max_duration", "node_timeout") else "whole number"
    with pytest.raises(ConfigError, match=rf"ExecutionOptions\({name}={value!r}\): use a {number} above 0"):
        ExecutionOptions(**{name: value})


@pytest.mark.parametrize("name", ["interrupt_before", "interrupt_after"])
def test_an_interrupt_names_nodes(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"ExecutionOptions\({name}=3\): use the names of nodes"):
        ExecutionOptions(**{name: cast("Any", 3)})


def test_options_go_over_the_graphs_defaults_and_those_over_the_projects() -> None:
    seen: list[Any] = []
    made = builder().add_node("a", lambda s, ctx: seen.append(ctx.remaining_steps)).set_entry("a")
    made.build().invoke_sync({})
    graph = made.build(defaults=ExecutionOptions(max_steps=7))
    graph.invoke_sync({})
    graph.invoke_sync({}, ExecutionOptions(max_steps=3))
    assert seen == [100, 7, 3]


def test_one_name_will_do_for_an_interrupt() -> None:
    assert ExecutionOptions(interrupt_before="tools").interrupt_before == ("tools",)


@pytest.mark.parametrize(("earlier", "now"), [("Retry", "RetryPolicy"), ("Interrupt", "GraphInterrupt")])
def test_an_earlier_name_works_and_warns(earlier: str, now: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"called {now} now"):
        found = getattr(graph_room, earlier)
    assert found is getattr(graph_room, now)


def test_a_name_that_the_room_never_had() -> None:
    with pytest.raises(AttributeError, match=r"module 'wesichain.graph' has no attribute 'Nothing'"):
        _ = graph_room.Nothing  # type: ignore[attr-defined]


def test_a_router_whose_annotation_cannot_be_read_may_go_anywhere() -> None:
    def router(state: Log) -> Unknown:  # type: ignore[name-defined]  # noqa: F821
        return "b"

    builder = GraphBuilder(Log).add_node("a", lambda _: None).add_node("b", lambda _: {"n": 2})
    built = builder.set_entry("a").add_conditional_edges("a", router).build()
    assert built.invoke_sync({})["n"] == 2
