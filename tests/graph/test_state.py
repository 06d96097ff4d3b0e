"""States: reducers, the copies that nodes receive, their return values, and how values are compared."""

from __future__ import annotations

import copy
import json
import operator
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tests.graph.behaviours import behaviour
from wesichain.core.internal import common_prefix, same
from wesichain.errors import (
    ConflictingUpdateError,
    GraphDefinitionError,
    GraphError,
    NodeFailedError,
)
from wesichain.graph import (
    END,
    Add,
    Append,
    GraphBuilder,
    Merge,
    Overwrite,
    Send,
    SetUnion,
    StateUpdate,
)
from wesichain.graph.nodes.cycles import fingerprint, grow
from wesichain.graph.state.owned import AppendOnlyList, StateView, clone
from wesichain.graph.state.reducers import Reducer, ReplacedValue
from wesichain.graph.state.schema import Key
from wesichain.graph.state.updates import difference


def run(state_type: Any, node: Any, given: Any = None) -> Any:
    """Run a graph of one node; return its state."""
    return GraphBuilder(state_type).add_node("node", node).set_entry("node").build().invoke_sync(given)


class Folds(TypedDict, total=False):
    items: Annotated[list[Any], Append]
    total: Annotated[int, Add]
    text: Annotated[str, Add]
    tags: Annotated[set[str], SetUnion]
    facts: Annotated[dict[str, int], Merge]
    best: Annotated[int, max]
    joined: Annotated[list[int], operator.add]
    plain: Annotated[Any, Overwrite]
    one: Any


@pytest.mark.parametrize(
    ("given", "update", "key", "expected"),
    [
        pytest.param({"items": [1]}, {"items": [2, 3]}, "items", [1, 2, 3], id="append-extends-by-a-list"),
        pytest.param({"items": [1]}, {"items": "ab"}, "items", [1, "ab"], id="append-takes-a-text-as-one-item"),
        pytest.param({"items": [1]}, {"items": {"a": 1}}, "items", [1, {"a": 1}], id="append-takes-a-dict-as-one"),
        pytest.param({}, {"items": (1, 2)}, "items", [1, 2], id="append-begins-with-an-empty-list"),
        pytest.param({"total": 2}, {"total": 3}, "total", 5, id="add-adds-numbers"),
        pytest.param({}, {"total": 3}, "total", 3, id="add-begins-with-zero"),
        pytest.param({"text": "a"}, {"text": "b"}, "text", "ab", id="add-joins-texts"),
        pytest.param({"tags": {"a"}}, {"tags": ["b", "a"]}, "tags", {"a", "b"}, id="union-takes-any-items"),
        pytest.param({"tags": {"a"}}, {"tags": "bc"}, "tags", {"a", "bc"}, id="union-takes-a-text-as-one"),
        pytest.param({"facts": {"a": 1}}, {"facts": {"b": 2}}, "facts", {"a": 1, "b": 2}, id="merge-adds-entries"),
        pytest.param({"facts": {"a": 1}}, {"facts": {"a": 2}}, "facts", {"a": 2}, id="merge-replaces-entries"),
        pytest.param({"best": 7}, {"best": 3}, "best", 7, id="any-function-of-two-is-a-reducer"),
        pytest.param({"joined": [1]}, {"joined": [2]}, "joined", [1, 2], id="operators-are-functions"),
        pytest.param({"plain": 1}, {"plain": 2}, "plain", 2, id="overwrite-is-the-default-said-aloud"),
        pytest.param({"one": 1}, {"one": None}, "one", None, id="a-key-without-a-reducer-is-replaced"),
    ],
)  # fmt: skip
def test_reducers(given: Any, update: Any, key: str, expected: Any) -> None:
    assert run(Folds, lambda _: update, given)[key] == expected


@behaviour("G06", "G07")
@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        pytest.param(None, {"a": 1, "b": [1]}, id="None-changes-nothing"),
        pytest.param({}, {"a": 1, "b": [1]}, id="an-empty-update-changes-nothing"),
        pytest.param({"a": 0}, {"a": 0, "b": [1]}, id="zero-is-a-value"),
        pytest.param({"a": ""}, {"a": "", "b": [1]}, id="an-empty-text-is-a-value"),
        pytest.param({"a": False}, {"a": False, "b": [1]}, id="false-is-a-value"),
        pytest.param({"a": None}, {"a": None, "b": [1]}, id="none-is-a-value"),
        pytest.param({"b": []}, {"a": 1, "b": []}, id="an-empty-list-is-a-value"),
        pytest.param(StateUpdate({"a": 5}), {"a": 5, "b": [1]}, id="a-StateUpdate-is-an-update"),
        pytest.param([{"a": 5}, {"a": 6}, None], {"a": 6, "b": [1]}, id="several-updates-are-made-in-order"),
        pytest.param(
            [{"a": Overwrite(5)}, {"a": 6}, {"a": 7}], {"a": 7, "b": [1]}, id="also-after-an-overwrite"
        ),
    ],
)
def test_what_a_node_may_return(returned: Any, expected: Any) -> None:
    assert run(dict, lambda _: returned, {"a": 1, "b": [1]}) == expected


def test_a_merge_takes_a_mapping() -> None:
    with pytest.raises(
        NodeFailedError, match="the reducer Merge of the key 'facts' raised TypeError: Merge takes"
    ):
        run(Folds, lambda _: {"facts": 5})


def two(first: Any, second: Any, state_type: Any = Folds) -> Any:
    builder = GraphBuilder(state_type).add_node("a", lambda _: first).add_node("b", lambda _: second)
    return builder.add_edge("__start__", "a").add_edge("__start__", "b").build()


@behaviour("G09")
def test_an_overwrite_beats_the_writes_of_siblings() -> None:
    graph = two({"items": [1]}, {"items": Overwrite([7])})
    assert graph.invoke_sync({"items": [0]})["items"] == [7]


@behaviour("G02", "G10")
@pytest.mark.parametrize(
    ("first", "second", "key"),
    [
        pytest.param({"one": 1}, {"one": 2}, "one", id="of-a-key-without-a-reducer"),
        pytest.param({"one": 1}, {"one": 1}, "one", id="even-of-the-same-value"),
        pytest.param({"items": Overwrite([1])}, {"items": Overwrite([2])}, "items", id="of-two-overwrites"),
    ],
)
def test_two_writers_are_a_conflict(first: Any, second: Any, key: str) -> None:
    with pytest.raises(ConflictingUpdateError, match=f"key '{key}' was written by 'a' and 'b'") as caught:
        two(first, second).invoke_sync({"items": [0]})
    assert (caught.value.key, caught.value.nodes) == (key, ("a", "b"))
    assert caught.value.state == {
        "items": [0],
        "total": 0,
        "text": "",
        "tags": set(),
        "facts": {},
        "best": 0,
        "joined": [],
    }


@behaviour("G13")
def test_a_key_that_was_never_written_is_not_there() -> None:
    class Empty(TypedDict):
        given: NotRequired[int]
        folded: Annotated[list[int], Append]
        odd: Annotated[Any, lambda old, new: ("folded", old, new)]

    assert run(Empty, lambda state: {"odd": sorted(state)}) == {"folded": [], "odd": ["folded"]}
    assert run(Empty, lambda _: [{"odd": 1}, {"odd": 2}])["odd"] == ("folded", 1, 2)
    with pytest.raises(NodeFailedError, match="KeyError: 'given'") as caught:
        run(Empty, lambda state: {"odd": state["given"]})
    assert isinstance(caught.value.__cause__, KeyError)


# --- isolation -------------------------------------------------------------------------------------


class Inner(BaseModel):
    deep: list[int] = Field(default_factory=list)


@dataclass
class Box:
    items: list[Any] = field(default_factory=list)
    nested: dict[str, Any] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)


class BoxModel(BaseModel):
    items: list[Any] = []
    nested: dict[str, Any] = {}
    inner: Inner = Inner()


class BoxDict(TypedDict):
    items: list[Any]
    nested: dict[str, Any]
    inner: Inner


def contents() -> dict[str, Any]:
    return {"items": [1, [2]], "nested": {"a": {"b": [3]}}, "inner": Inner(deep=[4])}


def get(state: Any, name: str) -> Any:
    return state[name] if isinstance(state, dict) else getattr(state, name)


def spoil(state: Any) -> None:
    """Change everything in place, at every depth."""
    get(state, "items").append("leak")
    get(state, "items")[1].append("leak")
    get(state, "nested")["a"]["b"].append("leak")
    get(state, "nested")["new"] = "leak"
    get(state, "inner").deep.append("leak")


@behaviour("G15")
@pytest.mark.parametrize("state_type", [dict, BoxDict, Box, BoxModel], ids=lambda one: str(one.__name__))
def test_what_a_node_does_to_its_state_stays_with_it(state_type: Any) -> None:
    seen: list[Any] = []
    builder = GraphBuilder(state_type)
    builder.add_node("spoil", spoil).add_node("look", lambda state: seen.append(clone(state))).add_edge(
        "spoil", "look"
    )
    given = contents()
    done = builder.set_entry("spoil").build().invoke_sync(given)
    read = (lambda state: dict(state)) if state_type in (dict, BoxDict) else (lambda state: dict(vars(state)))
    assert read(done) == contents() == given
    assert read(seen[0]) == contents()


@pytest.mark.parametrize("state_type", [dict, BoxDict, Box, BoxModel], ids=lambda one: str(one.__name__))
def test_a_state_that_is_changed_and_returned_is_an_update(state_type: Any) -> None:
    def node(state: Any) -> Any:
        spoil(state)
        return state

    done = run(state_type, node, contents())
    assert get(done, "items") == [1, [2, "leak"], "leak"]
    assert get(done, "nested") == {"a": {"b": [3, "leak"]}, "new": "leak"}
    assert get(done, "inner").deep == [4, "leak"]


def test_a_list_of_the_state_that_is_changed_and_returned_is_not_added_twice() -> None:
    def node(state: Folds) -> dict[str, Any]:
        state["items"].append(2)
        return {"items": state["items"]}

    assert run(Folds, node, {"items": [1]})["items"] == [1, 2]


def test_a_value_that_is_changed_after_it_was_returned_does_not_change_the_state() -> None:
    kept: list[int] = [1]
    builder: GraphBuilder[Any] = GraphBuilder().add_node("give", lambda _: {"x": kept})
    builder.add_node("spoil", lambda _: kept.append(2)).add_edge("give", "spoil").set_entry("give")
    assert builder.build().invoke_sync({}) == {"x": [1]}


def test_a_reducer_that_changes_the_old_value_in_place_does_no_harm() -> None:
    def careless(old: list[int], new: list[int]) -> list[int]:
        old.extend(new)
        return old

    class Careless(TypedDict):
        items: Annotated[list[int], careless]
        other: int

    graph = (
        GraphBuilder(Careless)
        .add_node("a", lambda _: {"items": [2]})
        .add_node("b", lambda _: {"other": 1 / 0})
    )
    with pytest.raises(NodeFailedError) as caught:
        graph.add_edge("a", "b").set_entry("a").build().invoke_sync({"items": [1], "other": 0})
    assert caught.value.state["items"] == [1, 2]


@behaviour("G38")
def test_a_state_of_defaults_is_an_input_and_the_defaults_stay_as_they_are() -> None:
    @dataclass
    class Defaults:
        items: list[int] = field(default_factory=list)
        shared: tuple[int, ...] = ()

    class Model(BaseModel):
        items: list[int] = []

    def node(state: Any) -> Any:
        state.items.append(len(state.items))
        return state

    for _ in range(2):
        assert run(Defaults, node, Defaults()).items == [0]
        assert run(Defaults, node, None).items == [0]
        assert run(Model, node, {}).items == [0]


# --- whole states ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frozen:
    count: int = 0
    log: Annotated[list[str], Append] = field(default_factory=list)
    total: Annotated[int, Add] = 0
    tags: Annotated[set[str], SetUnion] = field(default_factory=set)
    facts: Annotated[dict[str, int], Merge] = field(default_factory=dict)


# --- types of state --------------------------------------------------------------------------------


class Number(TypedDict):
    n: int


class X(TypedDict):
    x: int


def of_three(old: int, new: int, other: int) -> int:
    return old + new + other


class OfThree(TypedDict):
    x: Annotated[int, of_three]


class Unreadable(TypedDict):
    x: Nowhere  # type: ignore[name-defined]  # noqa: F821  # that is the point


class Twice(TypedDict):
    x: Annotated[list[str], Append, Add]


@behaviour("G16")
@pytest.mark.parametrize(
    ("state_type", "given", "field_of"),
    [
        pytest.param(dict, {"n": 1}, lambda s: s["n"], id="dict"),
        pytest.param(dict[str, int], {"n": 1}, lambda s: s["n"], id="dict-with-arguments"),
        pytest.param(Number, {"n": 1}, lambda s: s["n"], id="TypedDict"),
        pytest.param(Frozen, {"count": 1}, lambda s: s.count, id="dataclass-from-a-mapping"),
        pytest.param(Frozen, Frozen(1), lambda s: s.count, id="dataclass"),
    ],
)
def test_a_state_may_be(state_type: Any, given: Any, field_of: Any) -> None:
    key = "count" if state_type is Frozen else "n"
    done = run(state_type, lambda state: {key: field_of(state) + 1}, given)
    assert field_of(done) == 2
    assert isinstance(done, dict if state_type is not Frozen else Frozen)


def test_a_class_variable_of_a_dataclass_is_not_a_key() -> None:
    @dataclass
    class Length:
        n: int
        unit: ClassVar[str] = "m"

    assert run(Length, lambda state: {"n": state.n + 1}, Length(1)) == Length(2)
    with pytest.raises(NodeFailedError, match="the key 'unit', which Length does not have; its keys: n"):
        run(Length, lambda _: {"unit": "km"}, Length(1))


class Strict(BaseModel):
    n: int = Field(ge=0)
    names: Annotated[list[str], Append] = []


def test_a_pydantic_state_is_validated_on_entry_and_at_every_write() -> None:
    assert run(Strict, lambda s: {"n": "2", "names": ["b"]}, {"n": 1, "names": ["a"]}) == Strict(
        n=2, names=["a", "b"]
    )
    assert run(Strict, lambda s: Strict(n=s.n + 1), Strict(n=1)) == Strict(n=2)
    with pytest.raises(GraphError, match="the input is not a Strict"):
        run(Strict, lambda _: None, {"n": -1})
    with pytest.raises(GraphError, match="the input is not a Strict"):
        run(Strict, lambda _: None, {})
    with pytest.raises(NodeFailedError, match="node 'node': it wrote a wrong value to the key 'n'"):
        run(Strict, lambda _: {"n": -5}, {"n": 1})
    with pytest.raises(NodeFailedError, match="wrong value to the key 'names'"):
        run(Strict, lambda _: {"names": [3]}, {"n": 1})


def test_a_pydantic_state_may_be_frozen_and_refer_to_its_other_fields() -> None:
    class Frozen(BaseModel):
        model_config = ConfigDict(frozen=True)
        n: int

    assert run(Frozen, lambda s: {"n": s.n + 1}, Frozen(n=1)) == Frozen(n=2)


@behaviour("G17")
def test_a_node_sees_the_keys_of_its_input_type_and_the_output_is_filtered() -> None:
    class Whole(TypedDict):
        question: str
        secret: str
        answer: str

    class Part(TypedDict):
        question: str

    class Out(TypedDict):
        answer: str

    seen: list[Any] = []

    def node(state: Part) -> Any:
        seen.append(dict(state))
        return {"answer": state["question"].upper(), "secret": "s"}

    builder = GraphBuilder(Whole, output_type=Out).add_node("node", node, input_type=Part).set_entry("node")
    assert builder.build().invoke_sync({"question": "q", "secret": "x"}) == {"answer": "Q"}
    assert seen == [{"question": "q"}]
    with pytest.raises(
        GraphDefinitionError,
        match="node 'x': Whole has the key 'question', which the state Out does not have",
    ):
        GraphBuilder(Out).add_node("x", node, input_type=Whole)


def test_a_class_inside_a_function_is_read_as_far_as_it_can_be() -> None:
    class Local:
        pass

    class Here(TypedDict):
        items: Annotated[list[str], Append]
        thing: Local

    assert run(Here, lambda _: {"items": ["b"]}, {"items": ["a"]})["items"] == ["a", "b"]


@pytest.mark.parametrize(
    ("state_type", "message"),
    [
        pytest.param(int, "'int' cannot be a graph's state", id="a-number"),
        pytest.param(list[str], "cannot be a graph's state", id="a-list"),
        pytest.param(object(), "cannot be a graph's state", id="no-type"),
        pytest.param(Twice, "'x' has two reducers", id="two-reducers"),
        pytest.param(Unreadable, "its annotations cannot be read", id="a-name-that-is-not-there"),
        pytest.param(OfThree, "the reducer of_three of the key 'x' does not take two", id="a-reducer-of-three"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_state_says_so(state_type: Any, message: str) -> None:
    with pytest.raises(GraphDefinitionError, match=message):
        GraphBuilder(state_type)


@pytest.mark.parametrize(
    ("state_type", "given", "message"),
    [
        pytest.param(
            Frozen, {"cuont": 1}, "it wrote the key 'cuont', which Frozen does not have", id="unknown-key"
        ),
        pytest.param(Frozen, 5, "int is not a state; pass a Frozen or a mapping", id="a-number"),
        pytest.param(Frozen, ["count"], "list is not a state", id="a-list"),
        pytest.param(X, {"y": 1}, "the key 'y', which X does not have; its keys: x", id="dict"),
        pytest.param(dict, {1: 2}, "it wrote the key 1", id="a-key-that-is-not-text"),
    ],
)
def test_a_wrong_input_says_so(state_type: Any, given: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run(state_type, lambda _: None, given)


def test_an_input_without_a_required_field_says_so() -> None:
    @dataclass
    class Needs:
        name: str
        age: int = 0

    with pytest.raises(GraphError, match="the input lacks 'name'"):
        run(Needs, lambda _: None, {"age": 3})


def test_a_state_class_that_refuses_its_values_is_the_nodes_failure() -> None:
    @dataclass
    class Picky:
        n: int = 0

        def __post_init__(self) -> None:
            if self.n > 1:
                raise ValueError("too many")

    builder = GraphBuilder(Picky).add_node("a", lambda s: {"n": s.n + 1}).add_edge("a", "a").set_entry("a")
    with pytest.raises(NodeFailedError, match="node 'a': raised ValueError: too many"):
        builder.build().invoke_sync(Picky())


def test_an_overwrite_of_a_list_by_one_item_is_a_list_of_it() -> None:
    assert run(Folds, lambda _: {"items": Overwrite("one")}, {"items": [1]})["items"] == ["one"]


# --- the view --------------------------------------------------------------------------------------


def view(**values: Any) -> StateView:
    return StateView(values, {key: value for key, value in values.items() if not isinstance(value, int)})


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda v: v["a"], id="by-key"),
        pytest.param(lambda v: v.get("a"), id="get"),
        pytest.param(lambda v: dict(v)["a"], id="dict"),
        pytest.param(lambda v: {**v}["a"], id="unpacked"),
        pytest.param(lambda v: (lambda **k: k)(**v)["a"], id="as-keyword-arguments"),
        pytest.param(lambda v: (v | {"z": 1})["a"], id="or"),
        pytest.param(lambda v: ({"z": 1} | v)["a"], id="or-from-the-right"),
        pytest.param(lambda v: v.copy()["a"], id="copy"),
        pytest.param(lambda v: copy.copy(v)["a"], id="copy-module"),
        pytest.param(lambda v: copy.deepcopy(v)["a"], id="deepcopy"),
        pytest.param(lambda v: dict(v.items())["a"], id="items"),
        pytest.param(lambda v: next(iter(v.values())), id="values"),
        pytest.param(lambda v: v.pop("a"), id="pop"),
        pytest.param(lambda v: v.setdefault("a", []), id="setdefault"),
        pytest.param(lambda v: json.loads(json.dumps(v))["a"], id="json"),
        pytest.param(lambda v: eval(repr(v))["a"], id="repr"),
        pytest.param(lambda v: next(iter(v.values())), id="starred"),
    ],
)
def test_every_way_to_read_a_view_gives_a_copy(read: Any) -> None:
    shared = [1, [2]]
    lent = view(a=shared, n=1)
    found = read(lent)
    assert found == [1, [2]]
    found.append("leak")
    found[1].append("leak")
    assert shared == [1, [2]]


def test_readers_in_c_find_lists_too() -> None:
    values = {"a": AppendOnlyList([1, 2])}
    lent = StateView(values, dict(values))
    assert TypeAdapter(dict[str, list[int]]).validate_python(lent) == {"a": [1, 2]}
    assert isinstance(lent, dict)
    assert lent == {"a": [1, 2]}
    assert lent != {"a": [1]}
    assert len(lent) == 1
    assert "a" in lent


def test_a_view_can_be_written_like_any_dict() -> None:
    lent = view(a=[1], b=[2], c=[3], n=1)
    lent["a"] = 5
    del lent["b"]
    lent.update({"d": 4})
    lent |= {"e": 5}
    assert lent == {"a": 5, "c": [3], "n": 1, "d": 4, "e": 5}
    match lent:
        case {"c": [found]}:
            assert found == 3
        case _:
            raise AssertionError
    lent.clear()
    assert not lent


# --- comparing -------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["", "a", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
        | st.tuples(inner)
        | st.sets(st.integers(-2, 2), max_size=2)
    ),
    max_leaves=6,
)


@given(VALUES, VALUES)
def test_values_are_the_same_exactly_when_they_read_the_same(one: Any, other: Any) -> None:
    def text(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ",".join(f"{key}:{text(value[key])}" for key in sorted(value)) + "}"
        if isinstance(value, set):
            return "set" + repr(sorted(value))
        if isinstance(value, list | tuple):
            return type(value).__name__ + "[" + ",".join(map(text, value)) + "]"
        return repr(value)

    assert same(one, other) == (text(one) == text(other)) or repr(one) in ("-0.0", "0.0")
    if text(one) == text(other):
        assert fingerprint(one) == fingerprint(other)
    else:
        assert fingerprint(one) != fingerprint(other)


@given(st.lists(VALUES, max_size=5), st.lists(VALUES, max_size=5))
def test_a_fingerprint_grows_with_its_list(first: list[Any], more: list[Any]) -> None:
    assert (
        grow(fingerprint(first), more)
        == fingerprint(first + more)
        == fingerprint(AppendOnlyList(first).extend(more))
    )
    assert common_prefix(first, first + more) == len(first)


@given(VALUES)
def test_a_copy_is_the_same_and_shares_nothing_that_can_change(value: Any) -> None:
    mine = clone(value)
    assert same(value, mine)

    def containers(one: Any) -> list[int]:
        if isinstance(one, list | tuple | set | dict):
            parts = one.values() if isinstance(one, dict) else one
            here = [] if isinstance(one, tuple) else [id(one)]
            return here + [found for part in parts for found in containers(part)]
        return []

    assert not set(containers(value)) & set(containers(mine))


def test_copies_keep_the_class_and_leave_what_is_not_data_alone() -> None:
    handle = object()
    lists = defaultdict(list, a=[1])
    special = {"d": deque([[1]], maxlen=3), "h": handle, "m": Inner(deep=[1]), "b": Box([1]), "l": lists}
    mine = clone(special)
    assert mine == special
    assert mine["h"] is handle
    assert mine["d"].maxlen == 3
    mine["d"][0].append(2)
    mine["m"].deep.append(2)
    mine["b"].items.append(2)
    mine["l"]["a"].append(2)
    mine["l"]["new"].append(3)
    assert special == {"d": deque([[1]]), "h": handle, "m": Inner(deep=[1]), "b": Box([1]), "l": {"a": [1]}}


def test_growing_lists_share_their_past_and_part_where_they_must() -> None:
    first = AppendOnlyList([1])
    second = first.extend([2])
    third = second.extend([3])
    other = first.extend([9])
    assert [one.items() for one in (first, second, third, other)] == [[1], [1, 2], [1, 2, 3], [1, 9]]
    assert third.items(1) == [2, 3]
    assert len(second) == 2


def test_sent_payloads_are_each_tasks_own() -> None:
    payload = {"seen": []}  # type: ignore[var-annotated]

    def work(state: Any) -> Any:
        state["seen"].append(1)
        return {"out": [len(state["seen"])]}

    class Out(TypedDict):
        out: Annotated[list[int], Append]

    builder = GraphBuilder(Out).add_node("work", work)
    builder.add_conditional_edges(
        "__start__", lambda _: [Send("work", payload), Send("work", payload)], ["work", END]
    )
    assert builder.build().invoke_sync({}) == {"out": [1, 1]}
    assert payload == {"seen": []}


@pytest.mark.parametrize(
    ("reducer", "old", "new", "write"),
    [
        pytest.param(None, 1, 1, None, id="the-same"),
        pytest.param(None, 1, 2, 2, id="without-a-reducer"),
        pytest.param(None, 1, True, True, id="equal-and-not-the-same"),
        pytest.param(Append, AppendOnlyList([1]), [1, 2, 3], [2, 3], id="items-added"),
        pytest.param(Append, AppendOnlyList([1, 2]), [2], ReplacedValue([2]), id="items-gone"),
        pytest.param(
            Merge, {"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}, {"b": 3, "c": 4}, id="entries-changed"
        ),
        pytest.param(Merge, {"a": 1, "b": 2}, {"a": 1}, ReplacedValue({"a": 1}), id="entries-gone"),
        pytest.param(SetUnion, {1}, {1, 2}, {2}, id="members-added"),
        pytest.param(Add, 5, 7, 2, id="a-sum"),
        pytest.param(Add, 0.1, 0.3, pytest.approx(0.2), id="a-sum-of-floats"),
        pytest.param(Add, "ab", "abc", "c", id="a-text-that-goes-on"),
        pytest.param(Add, (1,), (1, 2), (2,), id="a-tuple-that-goes-on"),
        pytest.param(Add, "ab", "cd", ReplacedValue("cd"), id="another-text"),
        pytest.param(Reducer("max", max), 5, 7, 7, id="where-what-was-added-is-none"),
        pytest.param(Reducer("max", max), 5, 3, ReplacedValue(3), id="where-no-write-gives-it"),
        pytest.param(Reducer("last", lambda _, new: new), None, object, object, id="of-no-known-type"),
    ],
)
def test_the_write_that_makes_the_new_value_of_the_old_one(
    reducer: Any, old: Any, new: Any, write: Any
) -> None:
    found = difference(Key("k", reducer=reducer), old, new)
    assert found == ([] if write is None else [("k", write)])
    assert all(type(value) is type(write) for _, value in found if not isinstance(value, float))


def test_a_key_that_lasts_for_a_step_is_folded_from_its_beginning() -> None:
    key = Key("k", reducer=Append, start=AppendOnlyList, per_step=True)
    assert difference(key, AppendOnlyList([1]), [1, 2]) == [("k", [1, 2])]
    assert difference(Key("k", reducer=Add, per_step=True), 1, 2) == [("k", ReplacedValue(2))]


def test_a_number_that_is_folded_from_a_list_is_right_of_a_shorter_one_too() -> None:
    def add(start: int, items: Any) -> int:
        folded.append([*items])
        return start + sum(int(item) for item in items)

    folded: list[list[int]] = []
    short = AppendOnlyList([1, 2])
    longer = short.extend([3])
    assert (longer.folded(add, 10), longer.folded(add, 10), short.folded(add, 10)) == (16, 16, 13)
    assert folded == [[1, 2, 3], [], [1, 2]], "no item twice, unless a longer one was asked for before"
