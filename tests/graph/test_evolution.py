"""Evolution: a newer version of the program reads threads of an older one, or refuses them with an error."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Annotated, Any, TypedDict

import numpy as np
import pytest

from tests.graph.kit import T, stopped
from wesichain.errors import CheckpointError, GraphDefinitionError
from wesichain.graph import (
    START,
    Append,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    Send,
    interrupt,
)
from wesichain.graph.checkpoints.coding import coder_of, text_of

make_typed_dict: Any = TypedDict


class Kind(StrEnum):
    GOOD = "good"


class Level(IntEnum):
    LOW = 1


@dataclass
class Point:
    x: int
    y: int = 0


# --- widened types ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        pytest.param(str, str | int, "a", id="str-to-str-or-int"),
        pytest.param(int, str | int, 5, id="int-to-str-or-int"),
        pytest.param(int, float, 5, id="int-to-float"),
        pytest.param(str, str | None, "a", id="str-to-optional"),
        pytest.param(str | None, str | int | None, None, id="optional-to-more"),
        pytest.param(list[str], list[str | int], ["a", "b"], id="inside-a-list"),
        pytest.param(dict[str, int], dict[str, int | str], {"a": 1}, id="inside-a-dict"),
        pytest.param(Point, Point | str, Point(1, 2), id="a-dataclass-or-text"),
        pytest.param(list[Point], list[Point | None], [Point(1)], id="a-dataclass-or-none"),
        pytest.param(str, Any, "a", id="anything"),
        pytest.param(list[int] | list[str], list[int] | list[str] | None, [1], id="lists-of-two-kinds"),
        pytest.param(list[int] | list[str], list[int] | list[str] | None, ["a"], id="lists-of-two-kinds-2"),
    ],
)
async def test_a_widened_type_reads_what_was_written_before(old: Any, new: Any, value: Any) -> None:
    def build(kind: Any, store: Any) -> Graph[Any]:
        state: Any = make_typed_dict("state", {"key": kind}, total=False)
        builder = GraphBuilder(state).add_node("a", lambda _: {"key": value}).add_node("b", lambda _: None)
        return builder.add_edge("a", "b").set_entry("a").build(store)

    store = MemoryCheckpointer()
    await stopped(build(old, store).invoke({}, ExecutionOptions(thread_id="t", interrupt_before=["b"])))
    assert await build(new, store).resume("t") == {"key": value}


async def test_a_changed_type_says_which_key_and_what_to_do() -> None:
    class Old(TypedDict, total=False):
        amount: str

    class New(TypedDict, total=False):
        amount: int

    store = MemoryCheckpointer()
    await (
        GraphBuilder(Old).add_node("a", lambda _: None).set_entry("a").build(store).invoke({"amount": "5"}, T)
    )
    new = GraphBuilder(New).add_node("a", lambda _: None).set_entry("a").build(store)
    assert dict((await new.get_state("t")).values) == {"amount": "5"}
    for going in (new.invoke({}, T), new.update_state("t", {})):
        with pytest.raises(
            CheckpointError, match=r"the key 'amount' could not be read .* migrations=\{2: func"
        ):
            await going
    assert await new.invoke({"amount": 6}, replace(T, restart=True)) == {"amount": 6}


@pytest.mark.parametrize(
    ("kind", "value", "plain"),
    [
        pytest.param(str, Kind.GOOD, "good", id="str-enum"),
        pytest.param(int, Level.LOW, 1, id="int-enum"),
        pytest.param(int, True, True, id="a-truth-for-a-number"),
        pytest.param(int, np.int64(7), 7, id="numpy-int"),
        pytest.param(float, np.float32(0.5), 0.5, id="numpy-float32"),
        pytest.param(float, np.float64(0.1), 0.1, id="numpy-float64"),
        pytest.param(bool, np.bool_(True), True, id="numpy-bool"),
        pytest.param(Any, np.int32(3), 3, id="numpy-where-nothing-is-declared"),
        pytest.param(dict[str, int], {Kind.GOOD: 1}, {"good": 1}, id="str-enum-as-a-key"),
        pytest.param(list[str], [Kind.GOOD, "x"], ["good", "x"], id="inside-a-list"),
        pytest.param(str | int, Kind.GOOD, "good", id="inside-a-union"),
    ],
)
async def test_a_value_that_is_equal_to_what_is_declared_is_taken(kind: Any, value: Any, plain: Any) -> None:
    coder = coder_of(kind)
    text_of(coder.encode(value))
    read = coder.decode(coder.encode(value))
    assert read == plain == value
    assert type(read) is type(plain)


# --- migrations ------------------------------------------------------------------------------------


class V1(TypedDict, total=False):
    name: str
    log: Annotated[list[str], Append]


class V3(TypedDict, total=False):
    title: str
    size: int
    log: Annotated[list[str], Append]


def to_2(state: dict[str, Any]) -> dict[str, Any]:
    return {**{key: item for key, item in state.items() if key != "name"}, "title": state.get("name", "")}


def to_3(state: dict[str, Any]) -> None:
    state["size"] = len(state["title"])


def v1(store: Any) -> Graph[V1]:
    builder = GraphBuilder(V1).add_node("a", lambda _: {"name": "Oslo", "log": ["a"]})
    builder.add_node("by", lambda _: {"log": ["by"], "name": "Bergen"})
    builder.add_node("ask", lambda _: {"log": [interrupt("?")]}).add_edge("a", "by").add_edge("a", "ask")
    return builder.set_entry("a").build(store)


def v3(store: Any) -> Graph[V3]:
    builder = GraphBuilder(V3, migrations={3: to_3, 2: to_2})
    builder.add_node("a", lambda _: {"log": ["a"]}).add_node("by", lambda _: {"log": ["never"]})
    builder.add_node("ask", lambda s: {"log": [f"{s['title']} {s['size']} {interrupt('?')}"]})
    return builder.add_edge("a", "by").add_edge("a", "ask").set_entry("a").build(store)


async def test_migrations_run_in_order_also_under_a_waiting_question() -> None:
    store = MemoryCheckpointer()
    await stopped(v1(store).invoke({}, T))
    new = v3(store)
    saved = await new.get_state("t", (await new.get_state("t")).checkpoint_id)
    assert saved.values == {"title": "Oslo", "size": 4, "log": ["a"]}
    assert [asked.value for asked in saved.interrupts] == ["?"]
    done = await new.resume("t", "yes")
    assert done == {"title": "Bergen", "size": 6, "log": ["a", "by", "Oslo 4 yes"]}
    history = await new.history("t")
    assert [one.values.get("title") for one in history] == ["Bergen", "Oslo", ""]


async def test_a_thread_is_migrated_from_the_version_that_it_has() -> None:
    def doubled(state: dict[str, Any]) -> None:
        state["n"] *= 2

    def increased(state: dict[str, Any]) -> None:
        state["n"] += 1

    store = MemoryCheckpointer()
    seen: list[Any] = []
    for migrations in ({}, {2: doubled}, {2: doubled, 3: increased}):
        builder = GraphBuilder(dict, migrations=migrations).add_node("a", lambda _: None)
        graph = builder.set_entry("a").build(store)
        seen.append(await graph.invoke({} if seen else {"n": 5}, T))
    assert seen == [{"n": 5}, {"n": 10}, {"n": 11}]


async def test_going_back_migrates_what_is_pending_there() -> None:
    store = MemoryCheckpointer()
    old = v1(store)
    await stopped(old.invoke({}, T))
    waiting, begun = [one.checkpoint_id for one in await old.history("t")]
    await stopped(old.resume("t", checkpoint_id=begun))
    done = await v3(store).resume("t", "yes", checkpoint_id=waiting)
    assert done == {"title": "Bergen", "size": 6, "log": ["a", "by", "Oslo 4 yes"]}


async def test_what_is_written_after_a_migration_is_not_migrated() -> None:
    """In one process, the writes of siblings of the second question have the new version."""

    def ask_twice(state: V3) -> dict[str, Any]:
        return {"log": [interrupt("again?")]}

    store = MemoryCheckpointer()
    await stopped(v1(store).invoke({}, T))
    builder = GraphBuilder(V3, migrations={3: to_3, 2: to_2})
    builder.add_node("a", lambda _: {}).add_node("by", lambda _: {}).add_node(
        "ask", lambda _: {"log": [interrupt("?")]}
    )
    builder.add_node("write", lambda _: {"title": "Alta", "size": 100}).add_node("last", ask_twice)
    builder.add_edge("a", "by").add_edge("a", "ask").add_edge("ask", "write").add_edge("ask", "last")
    graph = builder.set_entry("a").build(store)
    await stopped(graph.resume("t", "yes"))
    done = await graph.resume("t", "no")
    assert done == {"title": "Alta", "size": 100, "log": ["a", "by", "yes", "no"]}


async def test_a_migration_may_return_data_or_values_of_the_new_types() -> None:
    class Old(TypedDict, total=False):
        x: int
        when: str

    class New(TypedDict, total=False):
        point: Point
        tags: set[str]
        other: Point

    store = MemoryCheckpointer()
    await GraphBuilder(Old).add_node("a", lambda _: None).set_entry("a").build(store).invoke({"x": 3}, T)
    builder = GraphBuilder(
        New, migrations={2: lambda s: {"point": {"x": s["x"]}, "other": Point(s["x"], 1), "tags": {"t"}}}
    )
    new = builder.add_node("a", lambda _: None).set_entry("a").build(store)
    assert (await new.get_state("t")).values == {"point": Point(3), "other": Point(3, 1), "tags": {"t"}}
    assert await new.invoke({}, T) == {"point": Point(3), "other": Point(3, 1), "tags": {"t"}}


async def test_payloads_that_are_whole_states_are_migrated_too() -> None:
    @dataclass
    class Old:
        name: str = ""
        log: Annotated[list[str], Append] = field(default_factory=list)

    @dataclass
    class New:
        title: str = ""
        log: Annotated[list[str], Append] = field(default_factory=list)

    def build(kind: Any, node: Any, **more: Any) -> Graph[Any]:
        builder = GraphBuilder(kind, **more).add_node("work", node)
        builder.add_conditional_edges(START, lambda _: [Send("work", kind(str(n))) for n in (1, 2)], ["work"])
        return builder.build(store)

    store = MemoryCheckpointer()
    stop = ExecutionOptions(thread_id="t", interrupt_before=["work"])
    await stopped(build(Old, lambda s: {"log": [s.name]}).invoke(Old(), stop))
    new = build(
        New,
        lambda s: {"log": [f"new {s.title}"]},
        migrations={2: lambda s: {"title": s.pop("name"), **s}},
    )
    assert (await new.resume("t")).log == ["new 1", "new 2"]


async def test_what_this_version_needs_and_the_thread_has_not_is_refused_by_name() -> None:
    @dataclass
    class Old:
        log: Annotated[list[str], Append] = field(default_factory=list)

    @dataclass
    class New:
        name: str
        log: Annotated[list[str], Append] = field(default_factory=list)

    def build(kind: Any, payload: Any, **more: Any) -> Graph[Any]:
        builder = GraphBuilder(kind, **more).add_node("work", lambda s: {"log": [s["name"]]})
        builder.add_conditional_edges(START, lambda _: Send("work", payload), ["work"])
        return builder.build(store)

    store = MemoryCheckpointer()
    stop = ExecutionOptions(thread_id="t", interrupt_before=["work"])
    await stopped(build(Old, Old(["x"])).invoke(Old(), stop))
    new = build(New, None)
    assert (await new.get_state("t")).values == {"log": []}, "what is there is shown as data"
    with pytest.raises(CheckpointError, match=r"the key 'payload' could not be read .* 'name'"):
        await new.resume("t")
    await new.update_state("t", {"log": ["y"]}, as_node="work")
    await stopped(build(Old, {"name": "z"}).invoke(Old(), replace(stop, thread_id="u")))
    with pytest.raises(
        CheckpointError, match="has no value for 'name', which this version of the state requires"
    ):
        await new.resume("u")
    assert (await build(New, None, migrations={2: lambda s: {**s, "name": "n"}}).resume("u")).log == ["z"]


@pytest.mark.parametrize(
    ("migration", "message"),
    [
        pytest.param(
            lambda s: s["gone"], r"migration to version 2 raised KeyError.*the keys 'x'", id="raises"
        ),
        pytest.param(lambda s: 5, "returned int; return the whole state", id="returns-something-else"),
        pytest.param(lambda s: {"x": "no"}, "the key 'x' could not be read", id="of-the-wrong-type"),
    ],
)
async def test_a_migration_that_fails_says_so(migration: Any, message: str) -> None:
    class State(TypedDict, total=False):
        x: int

    store = MemoryCheckpointer()
    await GraphBuilder(State).add_node("a", lambda _: None).set_entry("a").build(store).invoke({"x": 1}, T)
    new = GraphBuilder(State, migrations={2: migration}).add_node("a", lambda _: None).set_entry("a")
    assert (await new.build(store).get_state("t")).values == {"x": 1}
    with pytest.raises(CheckpointError, match=message):
        await new.build(store).resume("t")


@pytest.mark.parametrize(
    "migrations", [{1: to_2}, {"2": to_2}, {2: None}, {True: to_2}], ids=lambda given: repr([*given])
)
def test_a_wrong_migration_is_refused_when_it_is_declared(migrations: Any) -> None:
    with pytest.raises(GraphDefinitionError, match="the version that it leads to, 2 or more"):
        GraphBuilder(V1, migrations=migrations)
