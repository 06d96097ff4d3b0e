"""Functions that take values of every type that people write."""

import collections
import datetime as dt
import decimal
import functools
import pathlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Optional, TypeVar, Union

from pydantic import AnyUrl, BeforeValidator, Field, PositiveInt, StringConstraints
from typing_extensions import Doc

from tests.tools.callables.models import (
    Address,
    Cat,
    Closed,
    Color,
    Dog,
    Level,
    Line,
    Movie,
    Pair,
    Person,
    Point,
    Tree,
    Unit,
)

T = TypeVar("T", bound=Callable[..., Any])


def logged(function: T) -> T:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]  # it stands for the function


def nothing() -> str:
    """Take nothing."""
    return "done"


def text(a: str) -> str:
    """Take text."""
    return a


def integer(a: int) -> int:
    """Take an integer."""
    return a


def number(a: float) -> float:
    """Take a number."""
    return a


def flag(a: bool) -> bool:
    """Take a flag."""
    return a


def null(a: None) -> None:
    """Take null."""


def several(a: int, b: str, c: float = 1.5, d: bool = False) -> str:
    """Take several."""
    return f"{a} {b} {c} {d}"


def optional(a: int | None = None) -> int | None:
    """Take an optional integer."""
    return a


def old_optional(a: Optional[str] = None) -> Optional[str]:  # noqa: UP045
    """Take an optional text."""
    return a


def nullable(a: int | None) -> int | None:
    """Take an integer or null, but take it."""
    return a


def union(a: int | str) -> str:
    """Take an integer or text."""
    return type(a).__name__


def old_union(a: Union[int, list[str]]) -> str:  # noqa: UP007
    """Take an integer or texts."""
    return type(a).__name__


def literal(a: Literal["x", "y"]) -> str:
    """Take a choice."""
    return a


def literal_numbers(a: Literal[1, 2] = 1) -> int:
    """Take a number of two."""
    return a


def literal_mixed(a: Literal["auto", 0, None]) -> Any:
    """Take one of three kinds."""
    return a


def colour(a: Color) -> str:
    """Take a colour."""
    return a.name


def level(a: Level = Level.LOW) -> str:
    """Take a level."""
    return a.name


def unit(a: Unit = Unit.C) -> str:
    """Take a unit."""
    return a.name


def words(a: list[str]) -> int:
    """Take texts."""
    return len(a)


def bare_list(a: list) -> int:  # type: ignore[type-arg]  # people write it
    """Take any list."""
    return len(a)


def counts(a: dict[str, int]) -> int:
    """Take counts."""
    return sum(a.values())


def bare_dict(a: dict) -> list[str]:  # type: ignore[type-arg]  # people write it
    """Take any object."""
    return sorted(a)


def int_keys(a: dict[int, str]) -> list[int]:
    """Take an object with numbers for keys."""
    return sorted(a)


def pair(a: tuple[int, str]) -> str:
    """Take a pair."""
    return f"{a[0]}{a[1]}"


def many(a: tuple[int, ...]) -> int:
    """Take a tuple of any length."""
    return sum(a)


def unique(a: set[int]) -> int:
    """Take a set."""
    return len(a)


def frozen(a: frozenset[str]) -> list[str]:
    """Take a frozen set."""
    return sorted(a)


def sequence(a: Sequence[int]) -> int:
    """Take a sequence."""
    return sum(a)


def iterable(a: Iterable[int]) -> int:
    """Take an iterable."""
    return sum(a)


def mapping(a: Mapping[str, float]) -> float:
    """Take a mapping."""
    return sum(a.values())


def nested_lists(a: list[list[int]]) -> int:
    """Take lists in a list."""
    return sum(map(sum, a))


def queue(a: collections.deque[int]) -> int:
    """Take a deque."""
    return a[0]


def anything(a: Any) -> Any:
    """Take anything."""
    return a


def whatever(a: object) -> str:
    """Take any object."""
    return type(a).__name__


def day(a: dt.date) -> str:
    """Take a day."""
    return a.strftime("%d.%m.%Y")


def moment(a: dt.datetime) -> int:
    """Take a moment."""
    return a.year


def clock(a: dt.time) -> int:
    """Take a time of day."""
    return a.hour


def duration(a: dt.timedelta) -> float:
    """Take a duration."""
    return a.total_seconds()


def money(a: decimal.Decimal) -> str:
    """Take an amount."""
    return str(a * 2)


def identity(a: uuid.UUID) -> int:
    """Take a UUID."""
    return a.int


def path(a: pathlib.Path) -> str:
    """Take a path."""
    return a.name


def url(a: AnyUrl) -> str | None:
    """Take a URL."""
    return a.host


def data(a: bytes) -> int:
    """Take bytes."""
    return len(a)


def address(a: Address) -> str:
    """Take a model."""
    return a.street


def person(a: Person, b: Person | None = None) -> Person:
    """Take nested models."""
    return b or a


def closed(a: Closed) -> int:
    """Take a model without further fields."""
    return a.x


def tree(a: Tree) -> int:
    """Take a recursive model."""
    return a.value + sum(tree(kid) for kid in a.kids)


def people(a: list[Person]) -> list[str]:
    """Take a list of models."""
    return [one.name for one in a]


def by_name(a: dict[str, Point]) -> int:
    """Take an object of dataclasses."""
    return sum(point.x for point in a.values())


def pet(a: Annotated[Cat | Dog, Field(discriminator="kind")]) -> str:
    """Take a tagged union."""
    return a.kind


def point(a: Point) -> int:
    """Take a dataclass."""
    return a.x + a.y


def line(a: Line) -> bool:
    """Take a nested dataclass."""
    return a.end is None


def movie(a: Movie) -> str:
    """Take a TypedDict."""
    return a["title"]


def named_pair(a: Pair) -> str:
    """Take a NamedTuple."""
    return f"{a.left}{a.right}"


def bounded(a: Annotated[int, Field(ge=1, le=9, description="one digit")]) -> int:
    """Take a digit."""
    return a


def positive(a: PositiveInt) -> int:
    """Take a positive integer."""
    return a


def pattern(a: Annotated[str, StringConstraints(pattern="^[a-z]+$", max_length=5)]) -> str:
    """Take lower case."""
    return a


def short_list(a: Annotated[list[int], Field(min_length=1, max_length=3)]) -> int:
    """Take a short list."""
    return len(a)


def field_default(a: int = Field(default=3, gt=0, description="how many")) -> int:
    """Take a field for a default."""
    return a


def field_required(a: int = Field(description="how many")) -> int:
    """Take a field that has no default."""
    return a


def field_factory(a: list[int] = Field(default_factory=lambda: [7])) -> list[int]:  # noqa: B008
    """Take a field with a factory."""
    return a


def aliased(a: Annotated[int, Field(alias="theA")]) -> int:
    """Take a field by another name."""
    return a


def said(a: Annotated[str, "the text to say"], b: Annotated[int, Doc("how often")] = 1) -> str:
    """Take annotations that are words."""
    return a * b


def trimmed(a: Annotated[str, BeforeValidator(str.strip)]) -> str:
    """Take text through a validator."""
    return a
