"""What cannot be a tool, or be given to one, and the whole words that say so.

`refusals.txt` has an expression a line, and below it what comes of it: an error, or the tool. Expressions are read
from there; `tests.expected` says how the rest is written anew.
"""

from __future__ import annotations

import asyncio
import math
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests import expected
from wesichain import tools
from wesichain.errors import WesichainError
from wesichain.tools import Tool, ToolContext, TypedTool, mcp, tool

FILE = Path(__file__).with_name("refusals.txt")


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


class Item(BaseModel):
    name: str


def two_contexts(one: ToolContext, two: ToolContext) -> None:
    """Take two."""


def nowhere(a: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821  # that is the point
    """Use a class that does not exist."""
    return 1


class Box:
    @tool
    def put(self, a: int) -> int:
        """Put."""
        return a


class Untyped(TypedTool):  # type: ignore[type-arg]  # that is the point
    def run(self, args: Any, ctx: ToolContext) -> Any: ...


class Listed(TypedTool[list[int], int]):
    """Takes a list."""

    def run(self, args: list[int], ctx: ToolContext) -> int: ...  # type: ignore[empty-body]


class Needs(TypedTool[Item, int]):
    """Needs something."""

    def __init__(self, what: int) -> None: ...

    def run(self, args: Item, ctx: ToolContext) -> int: ...  # type: ignore[empty-body]


NAMES = {
    **{name: getattr(room, name) for room in (tools, mcp) for name in room.__all__},
    "asyncio": asyncio,
    "math": math,
    "OBJECT": {"type": "object"},
    **{one.__name__: one for one in (add, two_contexts, nowhere, Box, Untyped, Listed, Needs)},
}


def comes_of(expression: str) -> str:
    try:
        made = eval(expression, NAMES)  # our own file
    except WesichainError as error:
        return f"{type(error).__name__}: {error}"
    return f"a tool: {made.signature}" if isinstance(made, Tool) else type(made).__name__


@pytest.mark.filterwarnings("ignore:tool .* has no docstring")
def test_what_comes_of_each() -> None:
    lines: list[str] = []
    for expression in re.findall(r"^\S.*", FILE.read_text(encoding="utf-8"), re.MULTILINE):
        lines += [expression, *(f"    {line}" for line in comes_of(expression).splitlines())]
    expected.check(FILE, lines)
