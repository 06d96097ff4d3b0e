"""The quick dataclass is a dataclass: everything the standard one does, it does."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from wesichain.core.internal import constructor_of, dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Quick:
    kind: ClassVar[str] = "q"
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list)
    hidden: int = field(default=0, repr=False, compare=False)
    named: str = field(default="n", kw_only=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Plain:
    kind: ClassVar[str] = "q"
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list)
    hidden: int = field(default=0, repr=False, compare=False)
    named: str = field(default="n", kw_only=True)


@dataclass(frozen=True, slots=True)
class Child(Quick, Generic[T]):
    extra: T | None = None

    @property
    def double(self) -> int:
        return 2 * self.a


@dataclass(frozen=True, slots=True)
class Checked:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("negative")


@dataclass(frozen=True, slots=True)
class Empty:
    pass


@draws(15)
@given(st.integers(), st.text(), st.lists(st.integers()), st.text())
def test_it_behaves_as_the_standard_one(a: int, b: str, c: list[int], named: str) -> None:
    quick, plain = Quick(a, b, c, named=named), Plain(a, b, c, named=named)
    assert dataclasses.asdict(quick) == dataclasses.asdict(plain)
    assert repr(quick).removeprefix("Quick") == repr(plain).removeprefix("Plain")
    assert quick == Quick(a, b, list(c), hidden=1, named=named)
    assert quick != plain  # type: ignore[comparison-overlap]  # the point of the line
    assert copy.copy(quick) == quick == copy.deepcopy(quick)
    assert dataclasses.replace(quick, a=a + 1).a == a + 1


def test_defaults_are_fresh() -> None:
    first, second = Quick(1), Quick(1)
    assert first.c == []
    assert first.c is not second.c


def test_a_default_that_can_change_is_refused() -> None:
    with pytest.raises(ValueError, match="the default of 'a' can change; use a default_factory"):

        @dataclass(frozen=True, slots=True)
        class Shared:
            a: list[int] = []  # noqa: RUF012  # that is the point


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(Quick, id="a-missing-argument"),
        pytest.param(lambda: Quick(1, z=2), id="an-unknown-argument"),  # type: ignore[call-arg]
        pytest.param(lambda: Quick(1, "b", [], 0, "n"), id="a-named-argument-by-position"),  # type: ignore[call-arg]
    ],
)
def test_wrong_arguments_are_type_errors(wrong: Any) -> None:
    with pytest.raises(TypeError):
        wrong()


def test_it_is_frozen_and_slotted() -> None:
    one = Quick(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.a = 2  # type: ignore[misc]  # the point of the test
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.a
    assert not hasattr(one, "__dict__")


def test_it_inherits() -> None:
    child: Child[str] = Child(1, extra="x")
    assert (child.b, child.extra, child.double, child.kind) == ("b", "x", 2, "q")
    assert child != Quick(1)
    assert [one.name for one in dataclasses.fields(child)] == ["a", "b", "c", "hidden", "named", "extra"]


def test_it_hashes_by_value_where_its_fields_can() -> None:
    assert len({Checked(1), Checked(1), Checked(2)}) == 2
    with pytest.raises(TypeError):
        hash(Quick(1))


def test_post_init_runs() -> None:
    with pytest.raises(ValueError, match="negative"):
        Checked(-1)


def test_a_value_without_fields() -> None:
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    assert repr(Empty()) == "Empty()"


def test_it_can_be_matched_and_inspected() -> None:
    match Checked(3):
        case Checked(n):
            assert n == 3
    assert list(inspect.signature(Quick).parameters) == ["a", "b", "c", "hidden", "named"]


def test_only_values_and_states_are_made() -> None:
    with pytest.raises(TypeError, match="eq=False"):
        dataclass(slots=True)
    with pytest.raises(TypeError, match="slotted"):
        dataclass(frozen=True, slots=False)


@dataclass(slots=True, eq=False)
class State:
    first: int
    items: list[int] = field(default_factory=list[int])
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = self.first + sum(self.items)


def test_a_state_can_be_changed_and_is_itself() -> None:
    state, other = State(1, [2]), State(1, [2])
    assert state.total == 3
    assert state != other
    assert hash(state) != hash(other)
    state.first = 5
    assert state.first == 5
    assert State(1).items is not State(1).items
    assert not hasattr(state, "__dict__")
    assert list(inspect.signature(State).parameters) == ["first", "items"]


@dataclass(frozen=True, slots=True)
class Awkward:
    """Names that the code of a constructor might use itself."""

    own: int
    draft: int
    new: int
    put: int
    make: int
    become: int = 6
    cls: int = field(default=7, kw_only=True)


class TestMaker:
    @draws(15)
    @given(st.integers(), st.text(), st.lists(st.integers()), st.text())
    def test_it_makes_what_the_class_makes(self, a: int, b: str, c: list[int], named: str) -> None:
        make = constructor_of(Quick)
        made = make(a, b, c, named=named)
        assert made == Quick(a, b, c, named=named)
        assert type(made) is Quick
        assert make(a) == Quick(a)
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.a = 2  # type: ignore[misc]  # the point of the line

    def test_it_takes_what_the_class_takes(self) -> None:
        make: Any = constructor_of(Quick)
        with pytest.raises(TypeError):
            make()
        with pytest.raises(TypeError):
            make(1, "b", [], 0, "too many")
        with pytest.raises(TypeError):
            make(1, nobody=2)

    def test_of_a_generic_class_with_its_types(self) -> None:
        child = constructor_of(Child[int])(1, extra=3)
        assert (type(child), child.double, child.extra) == (Child, 2, 3)

    def test_it_leaves_the_check_out(self) -> None:
        assert constructor_of(Checked)(-1).n == -1

    @pytest.mark.parametrize("make", [Awkward, constructor_of(Awkward)], ids=["the class", "its maker"])
    def test_no_name_of_a_field_is_in_the_way(self, make: Any) -> None:
        made = make(1, 2, 3, 4, 5)
        assert dataclasses.astuple(made) == (1, 2, 3, 4, 5, 6, 7)

    def test_many_threads_may_use_it_first(self) -> None:
        for _ in range(50):
            make = constructor_of(Quick)
            with ThreadPoolExecutor(8) as pool:
                assert list(pool.map(make, range(8))) == [Quick(n) for n in range(8)]
