"""Values are immutable records and compare by their fields; states change; `dataclasses` knows both."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
import typing
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.draws import draws
from wesichain.core import from_json, to_json
from wesichain.core.internal import Mutable, Value, field, force_setattr, replace
from wesichain.errors import CodecError

T = TypeVar("T")


class Point(Value):
    kind: ClassVar[str] = "p"
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list[int])


class Child(Point, Generic[T]):
    extra: T | None = None

    @property
    def double(self) -> int:
        return 2 * self.a


class Named(Value, kw_only=True):
    name: str = "n"


class NamedPoint(Named):
    a: int


class Checked(Value):
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("negative")
        force_setattr(self, "n", int(self.n))


class Empty(Value):
    pass


class Annotated(Value):
    __aside__: ClassVar[tuple[str, ...]] = ("note",)

    a: int
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Plain:
    a: int
    b: str = "b"
    c: list[int] = dataclasses.field(default_factory=list)


@draws(15)
@given(st.integers(), st.text(), st.lists(st.integers()))
def test_dataclasses_knows_it_as_a_dataclass_of_these_fields(a: int, b: str, c: list[int]) -> None:
    value, plain = Point(a, b, c), Plain(a, b, c)
    assert dataclasses.asdict(value) == dataclasses.asdict(plain)
    assert dataclasses.replace(value, a=a + 1) == replace(value, a=a + 1) == Point(a + 1, b, c)
    assert repr(value).removeprefix("Point") == repr(plain).removeprefix("Plain")
    assert copy.copy(value) == value == copy.deepcopy(value) == pickle.loads(pickle.dumps(value))  # our own


def test_its_fields_have_the_types_and_defaults_of_a_dataclass() -> None:
    ours, plain = dataclasses.fields(Point), dataclasses.fields(Plain)
    assert [(one.name, one.type, one.default) for one in ours] == [
        (one.name, one.type if one.name != "c" else "list[int]", one.default) for one in plain
    ]
    assert dataclasses.is_dataclass(Point)
    assert ours[2].default_factory is not dataclasses.MISSING
    assert [one.kw_only for one in dataclasses.fields(NamedPoint)] == [False, True]
    assert [(one.compare, one.repr) for one in dataclasses.fields(Annotated)] == [
        (True, True),
        (False, False),
    ]


def test_a_default_factory_is_called_for_each_value() -> None:
    first, second = Point(1), Point(1)
    assert first.c == []
    assert first.c is not second.c


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(Point, id="a-missing-argument"),
        pytest.param(lambda: Point(1, z=2), id="an-unknown-argument"),  # type: ignore[call-arg]
        pytest.param(lambda: NamedPoint(1, "n"), id="a-keyword-argument-by-position"),  # type: ignore[call-arg]
    ],
)
def test_wrong_arguments_are_type_errors(wrong: Any) -> None:
    with pytest.raises(TypeError):
        wrong()


@pytest.mark.parametrize("value", [Point(1), Annotated(1), Child(1), Empty()], ids=repr)
def test_a_value_cannot_be_changed(value: Any) -> None:
    for name in (*(one.name for one in dataclasses.fields(value)), "new"):
        with pytest.raises(AttributeError):
            setattr(value, name, 2)
        with pytest.raises(AttributeError):
            delattr(value, name)
    assert not hasattr(value, "__dict__")


def test_it_inherits() -> None:
    child: Child[str] = Child(1, extra="x")
    assert (child.b, child.extra, child.double, child.kind) == ("b", "x", 2, "p")
    assert child != Point(1)
    assert [one.name for one in dataclasses.fields(child)] == ["a", "b", "c", "extra"]


def test_it_hashes_by_value_where_its_fields_can() -> None:
    assert len({Checked(1), Checked(1), Checked(2)}) == 2
    with pytest.raises(TypeError):
        hash(Point(1))


def test_fields_that_are_set_aside_are_neither_compared_nor_shown() -> None:
    one, other = Annotated(1, "x"), Annotated(1, "y")
    assert one == other
    assert hash(one) == hash(other)
    assert one != Annotated(2, "x")
    assert one != Checked(1)  # type: ignore[comparison-overlap]  # the point of the line
    assert repr(one) == "Annotated(a=1)"


@pytest.mark.parametrize(
    "make", [Checked, lambda n: replace(Checked(0), n=n), lambda n: dataclasses.replace(Checked(0), n=n)]
)
def test_post_init_runs_for_every_way_to_make_a_value(make: Callable[[int], Checked]) -> None:
    with pytest.raises(ValueError, match="negative"):
        make(-1)
    assert make(True).n == 1


def test_a_value_without_fields() -> None:
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    assert repr(Empty()) == "Empty()"


def test_it_can_be_matched_and_inspected() -> None:
    match Checked(3):
        case Checked(n):
            assert n == 3
    assert list(inspect.signature(Point).parameters) == ["a", "b", "c"]


class Counter(Mutable):
    first: int
    items: list[int] = field(default_factory=list[int])
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = self.first + sum(self.items)


def test_a_state_can_be_changed_and_equals_itself_alone() -> None:
    state, other = Counter(1, [2]), Counter(1, [2])
    assert state.total == 3
    assert state != other
    assert hash(state) != hash(other)
    state.first = 5
    assert state.first == 5
    assert Counter(1).items is not Counter(1).items
    assert not hasattr(state, "__dict__")
    assert dataclasses.is_dataclass(state)


# --- what stands in the JSON of a value -----------------------------------------------------------------


class Sparse(Value, omit_defaults=True):
    __always__: ClassVar[tuple[str, ...]] = ("shown",)
    __unwritten__: ClassVar[tuple[str, ...]] = ("secret",)

    a: int
    shown: str = ""
    text: str = ""
    number: float = 0.0
    items: tuple[int, ...] = ()
    about: dict[str, int] = field(default_factory=dict[str, int])
    secret: str = ""


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Sparse(1), {"a": 1, "shown": ""}),
        (Sparse(0, number=1.0 - 1.0, items=(), about={}), {"a": 0, "shown": ""}),
        (
            Sparse(1, "x", "y", 0.5, (1,), {"k": 2}, "s"),
            {"a": 1, "shown": "x", "text": "y", "number": 0.5, "items": [1], "about": {"k": 2}},
        ),
        (Point(1), {"kind": "p", "a": 1, "b": "b", "c": []}),
    ],
)
def test_defaults_are_left_out_where_the_class_says_so(value: Value, written: Any) -> None:
    assert json.loads(to_json(value)) == written
    assert from_json(type(value), to_json(value)) == (
        replace(value, secret="") if isinstance(value, Sparse) else value
    )


def test_what_is_read_is_checked_as_what_is_made() -> None:
    assert from_json(Checked, '{"n": 3}') == Checked(3)
    with pytest.raises(CodecError, match="negative"):
        from_json(Checked, '{"n": -1}')
    with pytest.raises(CodecError, match="only the fields of its kind"):
        from_json(Checked, '{"n": 1, "m": 2}')


def test_pydantic_reads_describes_and_writes_it_as_a_dataclass() -> None:
    adapter, plain = TypeAdapter(list[Point]), TypeAdapter(list[Plain])
    read = adapter.validate_python([{"a": 1}, Point(2, "x")])
    assert read == [Point(1), Point(2, "x")]
    assert adapter.dump_json(read) == plain.dump_json([Plain(1), Plain(2, "x")])
    assert (
        adapter.json_schema()["$defs"]["Point"]["properties"]
        == plain.json_schema()["$defs"]["Plain"]["properties"]
    )
    with pytest.raises(ValidationError):
        adapter.validate_python([{"a": "one"}])
    with pytest.raises(ValidationError, match="negative"):
        TypeAdapter(Checked).validate_python({"n": -1})


def test_a_value_in_the_metadata_of_a_field_does_not_change_how_pydantic_reads_it() -> None:
    adapter = TypeAdapter(typing.Annotated[list[int], Point(1)])
    assert adapter.validate_python(["1"]) == [1]
