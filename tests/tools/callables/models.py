"""Classes that tools take and return."""

import dataclasses
import enum
from typing import Literal, NamedTuple, NotRequired

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Unit(enum.StrEnum):
    C = "celsius"
    F = "fahrenheit"


class Address(BaseModel):
    """Where somebody lives."""

    street: str = Field(description="street and number")
    zip: int = 0


class Person(BaseModel):
    name: str
    home: Address
    tags: list[str] = []


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int


class Tree(BaseModel):
    value: int
    kids: list["Tree"] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool = True


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True)
class Line:
    start: Point
    end: Point | None = None


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Options(TypedDict, total=False):
    depth: int
    name: str
