"""The contents of checkpoints: values by their declared types, deltas, and nothing that could create an object."""

from __future__ import annotations

import json
import pickle
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, Json
from typing_extensions import TypeAliasType

from tests.core import values
from tests.graph.behaviours import behaviour
from tests.graph.kit import T
from wesichain.core import (
    Action,
    ErrorStep,
    FinalAnswer,
    Message,
    Observation,
    ReActState,
    ReActStep,
    Role,
    Thought,
    ToolCall,
    Usage,
)
from wesichain.core.internal import dump_json, parse_json, same
from wesichain.errors import CheckpointError, CodecError, GraphError
from wesichain.graph import (
    Append,
    GraphBuilder,
    MemoryCheckpointer,
    Send,
    SetUnion,
    StateUpdate,
    ThreadEntry,
    interrupt,
)
from wesichain.graph.checkpoints.coding import ANYTHING, coder_of
from wesichain.graph.checkpoints.deltas import delta, undelta
from wesichain.graph.state.owned import AppendOnlyList


class Colour(Enum):
    RED = "red"
    BLUE = 2


class Level(IntEnum):
    LOW = 1


class Place(Enum):
    HOME = (0, 0)


class Right(Flag):
    READ = 1
    WRITE = 2


class Kind(StrEnum):
    A = "a"


@dataclass
class Point:
    x: int
    y: float = 0.0
    names: list[str] = field(default_factory=list)
    next: Point | None = None


@dataclass(frozen=True, slots=True)
class Late:
    a: int
    b: int = field(init=False, default=0)


class Model(BaseModel):
    when: datetime
    tags: set[str] = set()
    inner: Point | None = None


class Holder(BaseModel):
    thing: Any


class Renamed(BaseModel):
    place: str = Field(alias="Place")
    raw: Json[list[int]] = []


class Record(TypedDict):
    id: int
    name: NotRequired[str]


@dataclass(frozen=True)
class Cat:
    name: str


@dataclass(frozen=True)
class Dog:
    name: str


MESSAGES = [
    Message(Role.USER, "hi ü"),
    Message(Role.ASSISTANT, "", tool_calls=(ToolCall("1", "f", {"a": [1]}),)),
    Message(Role.TOOL, "x", "1"),
]
STEPS: list[ReActStep] = [
    Thought("t"),
    Action(ToolCall("1", "f", "raw")),
    Observation({"v": 1}, "1"),
    FinalAnswer("t"),
    ErrorStep("e"),
]


@behaviour("K16")
@pytest.mark.parametrize(
    ("type_", "value"),
    [
        pytest.param(str, "ü😀", id="text"),
        pytest.param(int, 2**80, id="a-large-number"),
        pytest.param(float, 1.5, id="a-float"),
        pytest.param(float, 3, id="a-whole-float"),
        pytest.param(bool, True, id="a-truth"),
        pytest.param(None, None, id="none"),
        pytest.param(bytes, b"\x00\xff", id="bytes"),
        pytest.param(datetime, datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC), id="a-datetime"),
        pytest.param(datetime, datetime(2024, 2, 29), id="a-naive-datetime"),  # noqa: DTZ001  # that is the point
        pytest.param(date, date(2024, 2, 29), id="a-date"),
        pytest.param(time, time(1, 2, 3), id="a-time"),
        pytest.param(timedelta, timedelta(days=-3, microseconds=7), id="a-timedelta"),
        pytest.param(Decimal, Decimal("1.10"), id="a-decimal"),
        pytest.param(UUID, UUID(int=7), id="a-uuid"),
        pytest.param(Colour, Colour.BLUE, id="an-enum"),
        pytest.param(Level, Level.LOW, id="an-int-enum"),
        pytest.param(Kind, Kind.A, id="a-str-enum"),
        pytest.param(Place, Place.HOME, id="an-enum-of-tuples"),
        pytest.param(Right, Right.READ | Right.WRITE, id="flags-together"),
        pytest.param(Right | bool, True, id="a-truth-or-a-flag"),
        pytest.param(Literal["a", 1], 1, id="a-literal"),
        pytest.param(list[int], [1, 2], id="a-list"),
        pytest.param(list, [1, {"a": None}], id="a-bare-list"),
        pytest.param(deque[int], deque([1, 2]), id="a-deque"),
        pytest.param(set[str], {"a", "b"}, id="a-set"),
        pytest.param(frozenset[int], frozenset({1}), id="a-frozenset"),
        pytest.param(tuple[int, str], (1, "a"), id="a-tuple"),
        pytest.param(tuple[int, ...], (1, 2, 3), id="a-long-tuple"),
        pytest.param(tuple, (1, "a"), id="a-bare-tuple"),
        pytest.param(dict[str, date], {"$x": date(2024, 1, 1)}, id="a-dict"),
        pytest.param(dict[int, str], {1: "a"}, id="a-dict-of-numbers"),
        pytest.param(dict[tuple[int, int], str], {(1, 2): "a"}, id="a-dict-of-tuples"),
        pytest.param(Point, Point(1, 2.5, ["n"], Point(3)), id="a-dataclass-of-itself"),
        pytest.param(Late, Late(1), id="a-frozen-dataclass"),
        pytest.param(Model, Model(when=datetime(2024, 1, 1, tzinfo=UTC), tags={"a"}, inner=Point(1)), id="a-pydantic-model"),
        pytest.param(Renamed, Renamed.model_validate({"Place": "x", "raw": "[1]"}), id="a-pydantic-model-of-foreign-data"),
        pytest.param(Record, {"id": 1}, id="a-TypedDict"),
        pytest.param(int | None, None, id="an-option-that-is-not-there"),
        pytest.param(Optional[Point], Point(1), id="an-option"),  # noqa: UP045  # both spellings
        pytest.param(Union[int, str], "1", id="a-union-of-scalars"),  # noqa: UP007  # likewise
        pytest.param(Cat | Dog | None, Dog("rex"), id="a-union-of-classes-that-look-alike"),
        pytest.param(list[Cat | Dog], [Dog("a"), Cat("a")], id="a-list-of-them"),
        pytest.param(Message, MESSAGES[1], id="a-message"),
        pytest.param(list[Message], MESSAGES, id="messages"),
        pytest.param(list[ReActStep], STEPS, id="steps"),
        pytest.param(ReActStep | None, FinalAnswer("x"), id="perhaps-a-step"),
        pytest.param(list[ReActStep | Cat], [*STEPS, Cat("x")], id="steps-beside-another-type"),
        pytest.param(Usage, Usage(1, 2), id="usage"),
        pytest.param(ReActState, ReActState("q", STEPS, "a", 2), id="a-ReActState"),
        pytest.param(Annotated[list[int], Append], [1], id="annotated"),
        pytest.param(Annotated[list[int], ["unhashable"]], [1], id="annotated-with-what-has-no-hash"),
        pytest.param(Any, {"a": [1, (2, {3}), b"x", STEPS, MESSAGES, {"$set": 1}, {1: 2}]}, id="anything"),
        pytest.param(dict[str, Any], {"when": datetime(2024, 1, 1, tzinfo=UTC), "d": Decimal(1)}, id="a-dict-of-anything"),
    ],
)  # fmt: skip
def test_values_are_read_back_as_they_were(type_: Any, value: Any) -> None:
    coder = coder_of(type_)
    stored = parse_json(dump_json(coder.encode(value)))
    assert same(coder.decode(stored), value) or coder.decode(stored) == value
    assert type(coder.decode(stored)) is type(value)


class Foreign:
    """Not data."""


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        pytest.param(int, "1", id="a-text-for-a-number"),
        pytest.param(str, 1, id="a-number-for-a-text"),
        pytest.param(float, float("nan"), id="nan"),
        pytest.param(float, float("inf"), id="infinity"),
        pytest.param(list[int], (1,), id="a-tuple-for-a-list"),
        pytest.param(list[int], ["a"], id="an-item-of-another-type"),
        pytest.param(tuple[int, int], (1,), id="a-tuple-too-short"),
        pytest.param(dict[str, int], {1: 1}, id="a-key-that-is-not-text"),
        pytest.param(Point, Cat("x"), id="another-class"),
        pytest.param(Record, {"idd": 1}, id="an-unknown-entry"),
        pytest.param(Record, [], id="a-list-for-a-TypedDict"),
        pytest.param(dict[str, int], ["a"], id="a-list-for-a-dict"),
        pytest.param(Holder, Holder(thing=object()), id="a-model-without-JSON"),
        pytest.param(Colour, "red", id="a-value-for-its-enum"),
        pytest.param(Literal["a"], "b", id="not-one-of-the-literals"),
        pytest.param(Cat | Dog, Point(1), id="none-of-a-union"),
        pytest.param(list[ReActStep], ["thought"], id="a-text-for-a-step"),
        pytest.param(Any, Foreign(), id="an-object"),
        pytest.param(Any, Point(1), id="a-dataclass-that-is-not-declared"),
        pytest.param(Any, Colour.RED, id="an-enum-that-is-not-declared"),
        pytest.param(Any, Kind.A, id="a-str-enum-that-is-not-declared"),
        pytest.param(Any, lambda: 1, id="a-function"),
        pytest.param(Any, {"a": [Foreign()]}, id="an-object-deep-inside"),
    ],
)
def test_what_is_not_of_the_type_is_refused(type_: Any, value: Any) -> None:
    with pytest.raises(CodecError):
        coder_of(type_).encode(value)


@pytest.mark.parametrize("type_", [Foreign, list[Foreign], type[int], "unresolved"])
def test_a_type_that_is_not_data_is_refused(type_: Any) -> None:
    with pytest.raises(CodecError, match="not a type that can be stored"):
        coder_of(type_)


@pytest.mark.parametrize(
    "data",
    [
        {"$class": "os.system"},
        {"$object": ["builtins.eval", "1"]},
        {"$step": {"kind": "thought"}},
        {"$datetime": "never"},
        {"$bytes": "?"},
        {"$set": 5},
        {"$dict": [1]},
        {"$timedelta": ["x"]},
    ],
    ids=str,
)
def test_stored_marks_are_a_closed_set(data: Any) -> None:
    with pytest.raises(CodecError):
        ANYTHING.decode(data)


@pytest.mark.parametrize(
    ("type_", "data"),
    [
        pytest.param(dict[str, int], ["a"], id="a-list-for-a-dict"),
        pytest.param(set[tuple[Any, Any]], [[[], 1]], id="a-list-in-a-set"),
        pytest.param(Point, [1], id="a-list-for-a-dataclass"),
        pytest.param(Point, {"y": 1.0}, id="a-dataclass-without-a-field"),
        pytest.param(int | str, [1.5], id="none-of-a-union"),
        pytest.param(Colour, "green", id="no-member-of-the-enum"),
        pytest.param(Literal["a"], "b", id="none-of-the-literals"),
        pytest.param(tuple[int, int], [1], id="a-tuple-too-short"),
        pytest.param(list[int], 5, id="a-number-for-a-list"),
    ],
)
def test_stored_data_of_another_form_is_refused(type_: Any, data: Any) -> None:
    with pytest.raises(CodecError):
        coder_of(type_).decode(data)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text()
        | values.message
        | values.step
        | values.decision
        | values.part
        | values.call
        | values.usage
        | st.binary(max_size=4)
        | st.datetimes(timezones=st.none() | st.just(UTC))
        | st.dates()
        | st.times()
        | st.timedeltas()
        | st.uuids()
        | st.decimals(allow_nan=False),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.text(max_size=3) | st.sampled_from(["$set", "$", "$dict"]), inner, max_size=3
            )
            | st.tuples(inner, inner)
            | st.sets(st.integers() | st.text(max_size=2), max_size=3)
            | st.dictionaries(st.integers(), inner, max_size=2)
        ),
        max_leaves=10,
    )
)
def test_any_plain_data_is_read_back_as_it_was(value: Any) -> None:
    try:
        stored = dump_json(ANYTHING.encode(value))
    except CodecError:
        return
    assert same(ANYTHING.decode(parse_json(stored)), value) or ANYTHING.decode(parse_json(stored)) == value


# --- deltas ----------------------------------------------------------------------------------------

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "$c"]), inner, max_size=3)
        | st.sets(st.integers(0, 3), max_size=3)
    ),
    max_leaves=12,
)


@given(PLAIN, PLAIN)
def test_a_delta_turns_the_old_into_the_new(old: Any, new: Any) -> None:
    change = json.loads(json.dumps(delta(ANYTHING, old, new)))
    assert same(ANYTHING.decode(undelta(ANYTHING.encode(old), change)), new)


@given(st.lists(PLAIN, max_size=4), st.lists(PLAIN, max_size=4))
def test_a_list_that_grew_costs_what_was_added(old: list[Any], more: list[Any]) -> None:
    grown = AppendOnlyList(old).extend(more)
    assert delta(ANYTHING, AppendOnlyList(old), grown, kept=len(old)) == {
        "+": [len(old), [ANYTHING.encode(item) for item in more]]
    }
    change = delta(ANYTHING, old, old + more)
    assert same(ANYTHING.decode(undelta(ANYTHING.encode(old), change)), old + more)


# --- bad states ------------------------------------------------------------------------------------


class Typed(TypedDict, total=False):
    n: int
    names: Annotated[list[str], Append]
    tags: Annotated[set[str], SetUnion]
    when: datetime
    colour: Colour
    point: Point
    model: Model
    thing: Any


async def save(node: Any, given: Any = None) -> Any:
    builder = GraphBuilder(Typed).add_node("first", lambda _: {"n": 1}).add_node("second", node)
    graph = builder.add_edge("first", "second").set_entry("first").build(MemoryCheckpointer())
    try:
        await graph.invoke(given or {}, T)
    finally:
        earlier = await graph.get_state("t")
        assert earlier.values["n"] == 1, "earlier checkpoints stay readable"
    return graph


@pytest.mark.parametrize(
    ("update", "key"),
    [
        pytest.param({"n": "one"}, "n", id="a-text-for-a-number"),
        pytest.param({"names": [1]}, "names", id="a-number-among-texts"),
        pytest.param({"thing": object()}, "thing", id="an-object"),
        pytest.param({"thing": {"deep": [object()]}}, "thing", id="an-object-deep-inside"),
        pytest.param({"thing": float("nan")}, "thing", id="nan"),
        pytest.param({"thing": "\ud800"}, "thing", id="a-lone-surrogate"),
        pytest.param({"point": Cat("x")}, "point", id="another-class"),
        pytest.param({"thing": Cat("x")}, "thing", id="a-class-that-is-not-declared"),
    ],
)
async def test_a_state_that_cannot_be_kept_names_the_node_and_the_key(update: Any, key: str) -> None:
    with pytest.raises(
        CheckpointError, match=f"node 'second': the key '{key}' cannot be stored in the checkpoint"
    ) as e:
        await save(lambda _: update)
    assert e.value.node == "second"
    assert e.value.state["n"] == 1


async def test_a_state_that_nests_too_deeply_is_refused_by_name() -> None:
    for depth in (300, 900):
        with pytest.raises(GraphError, match=r"node 'second'.*'thing'.*nest") as caught:
            await save(lambda _, depth=depth: {"thing": json.loads("[" * depth + "]" * depth)})
        assert caught.value.node == "second"


async def test_a_payload_that_cannot_be_kept_names_its_node() -> None:
    builder = GraphBuilder(Typed).add_node("work", lambda _: None)
    builder.add_conditional_edges("__start__", lambda _: [Send("work", object())], ["work"])
    with pytest.raises(CheckpointError, match="node 'work': the key 'payload'"):
        await builder.build(MemoryCheckpointer()).invoke({}, T)


async def test_an_answer_that_cannot_be_kept_is_refused() -> None:
    graph = GraphBuilder(Typed).add_node("ask", lambda _: {"thing": interrupt("?")}).set_entry("ask")
    built = graph.build(MemoryCheckpointer())
    with pytest.raises(Exception, match="waits for an answer"):
        await built.invoke({}, T)
    with pytest.raises(CheckpointError, match="the answer to 'ask' cannot be stored"):
        await built.resume("t", object())
    assert (await built.resume("t", 5))["thing"] == 5


async def test_a_huge_state_is_kept_and_read() -> None:
    graph = await save(lambda _: {"thing": "x" * 500_000, "names": [str(i) for i in range(5_000)]})
    saved = await graph.get_state("t")
    assert (len(saved.values["thing"]), len(saved.values["names"])) == (500_000, 5_000)


async def test_everything_that_is_declared_comes_back_as_it_was() -> None:
    update = {
        "names": ["a"],
        "tags": {"t"},
        "when": datetime(2024, 1, 1, tzinfo=UTC),
        "colour": Colour.RED,
        "point": Point(1, next=Point(2)),
        "model": Model(when=datetime(2024, 1, 1, tzinfo=UTC), tags={"m"}),
        "thing": {"steps": STEPS, "messages": MESSAGES, "bytes": b"x", 3: (1, 2)},
    }
    graph = await save(lambda _: update)
    assert (await graph.get_state("t")).values == {"n": 1, **update}


class Loose(TypedDict, total=False):
    items: Annotated[tuple[int, ...], Append]
    bare: Annotated[Any, Append]


async def test_a_list_that_is_declared_as_something_else_comes_back_as_a_list() -> None:
    builder = GraphBuilder(Loose).add_node("a", lambda _: {"items": (1, 2), "bare": "x"}).set_entry("a")
    graph = builder.build(MemoryCheckpointer())
    await graph.invoke({}, T)
    assert (await builder.build(graph.checkpointer).get_state("t")).values == {"items": [1, 2], "bare": ["x"]}


async def test_results_of_siblings_come_back_as_they_were() -> None:
    broken = True

    def fail(_: Any) -> None:
        if broken:
            raise ValueError("no")

    update = {"tags": ["t", "u"], "point": Point(1), "thing": STEPS[0], "names": "one"}
    goto: list[str | Send] = ["more", Send("work", {"item": 7})]
    builder = GraphBuilder(Typed).add_node("good", lambda _: StateUpdate(update, goto), goto=["more", "work"])
    builder.add_node("bad", fail).add_node("more", lambda _: {"n": 3})
    builder.add_node("work", lambda task: {"names": str(task["item"])})
    builder.add_edge("__start__", "good").add_edge("__start__", "bad")
    with pytest.raises(Exception, match="no"):
        await builder.build(store := MemoryCheckpointer()).invoke({}, T)
    broken = False
    done = await builder.build(store).resume("t")
    kept = {"tags": {"t", "u"}, "point": Point(1), "thing": STEPS[0], "names": ["one", "7"], "n": 3}
    assert done == kept


async def test_a_result_of_a_sibling_that_cannot_be_kept_is_refused() -> None:
    builder = (
        GraphBuilder(Typed).add_node("good", lambda _: {"point": 5}).add_node("ask", lambda _: interrupt(1))
    )
    graph = builder.add_edge("__start__", "good").add_edge("__start__", "ask").build(MemoryCheckpointer())
    with pytest.raises(CheckpointError, match="node 'good': the key 'point' cannot be stored"):
        await graph.invoke({}, T)


# --- stored data -----------------------------------------------------------------------------------


def body(**extra: Any) -> str:
    return json.dumps(
        {"step": 0, "source": "input", "run": "r", "format": 1, "next": ["a"], "values": {}, **extra}
    )


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        pytest.param("not json", "is damaged", id="not-json"),
        pytest.param("[]", "is damaged", id="not-an-object"),
        pytest.param(body(format=4), "format 4; this version reads up to 3", id="of-a-newer-format"),
        pytest.param(body(values={"n": {"?": 1}}), "is damaged", id="an-unknown-delta"),
        pytest.param(body(values=[1]), "is damaged", id="values-that-are-none"),
        pytest.param(body(values={"n": {"=": "x"}}), "the key 'n' could not be read", id="a-value-of-another-type"),
        pytest.param(body(values={"thing": {"=": {"$os": "x"}}}), "'\\$os' is not a mark", id="an-unknown-mark"),
        pytest.param(body(next=None), "'t' is damaged", id="nothing-that-runs-next"),
        pytest.param(body(next=[[]]), "'t' is damaged", id="a-task-that-is-none"),
        pytest.param(body(step=None), "'t' is damaged", id="a-step-that-is-no-number"),
        pytest.param(body(format=None), "'t' is damaged", id="a-format-that-is-no-number"),
        pytest.param(body(next=["gone"]), "the node 'gone'", id="a-node-that-is-not-there"),
        pytest.param(body(parent=7, format=0).replace("1", "1"), "", id="fine"),
    ],
)  # fmt: skip
async def test_a_damaged_checkpoint_is_an_error_of_ours(stored: str, message: str) -> None:
    store = MemoryCheckpointer()
    await store.append("t", [ThreadEntry(1, "", 1, 0.0, stored)], after=0)
    graph = GraphBuilder(Typed).add_node("a", lambda _: None).set_entry("a").build(store)
    if message:
        with pytest.raises(CheckpointError, match=message):
            await graph.resume("t")
    else:
        assert (await graph.get_state("t")).next == ("a",)


@pytest.mark.parametrize(
    "note",
    [
        pytest.param({"task": "a", "node": "a", "asked": ["id"]}, id="a-question-without-its-parts"),
        pytest.param({"node": "a", "asked": ["id", "q", None]}, id="a-question-of-no-task"),
        pytest.param({"task": "a", "node": "a", "asked": ["id", "q", None], "event": []}, id="no-number"),
    ],
)
async def test_a_damaged_note_is_an_error_of_ours(note: dict[str, Any]) -> None:
    store = MemoryCheckpointer()
    entries = [ThreadEntry(1, "", 1, 0.0, body()), ThreadEntry(2, "1", 1, 0.0, json.dumps(note))]
    await store.append("t", entries, after=0)
    graph = GraphBuilder(Typed).add_node("a", lambda _: None).set_entry("a").build(store)
    with pytest.raises(CheckpointError, match="'t' is damaged"):
        await graph.get_state("t")


async def test_a_checkpoint_whose_base_is_gone_is_an_error_of_ours() -> None:
    store = MemoryCheckpointer()
    await store.append("t", [ThreadEntry(5, "", 3, 0.0, body(parent=4))], after=0)
    graph = GraphBuilder(Typed).add_node("a", lambda _: None).set_entry("a").build(store)
    with pytest.raises(CheckpointError, match=r"its base \(3\) is missing"):
        await graph.get_state("t")


async def test_nothing_that_is_stored_can_be_unpickled_or_evaluated() -> None:
    store = MemoryCheckpointer()
    evil = pickle.dumps(Point(1))
    builder = GraphBuilder(Typed).add_node(
        "a", lambda _: {"thing": [evil, "__import__('os')", {"$eval": "1"}]}
    )
    graph = builder.set_entry("a").build(store)
    done = await graph.invoke({}, T)
    assert (await graph.get_state("t")).values == done


Names = TypeAliasType("Names", list[str])


def test_an_alias_is_kept_as_what_it_stands_for() -> None:
    assert coder_of(Names).decode(["a"]) == ["a"]
    with pytest.raises(CodecError):
        coder_of(Names).decode([1])


class Hue(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        (str | date, "x", "x"),
        (str | date, date(2026, 1, 2), ["date", "2026-01-02"]),
        (int | Hue, 5, 5),
        (int | Hue, Hue.RED, ["Hue", "red"]),
        (int | list[int], [5], ["list", [5]]),
        (int | None, None, None),
    ],
)
def test_a_member_of_a_union_is_named_where_json_does_not_tell_it(kind: Any, value: Any, data: Any) -> None:
    assert coder_of(kind).encode(value) == data
    assert coder_of(kind).decode(data) == value
