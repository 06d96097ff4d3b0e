"""Tools of all sorts, as `wesichain mcp` takes them: the file is served, and imported by the test."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import Any, Literal

from wesichain import JsonTool, ToolContext, ToolError, tool
from wesichain.tools import ToolErrorKind

print("this file prints when it is loaded")


@dataclass
class Point:
    x: int
    y: float = 0.5


@tool(effect="pure")
def echo(value: Any) -> Any:
    """Give back what came."""
    return value


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: the first
        b: the second
    """
    print("adding")
    os.write(1, b"and a line that goes around sys.stdout\n")
    return a + b


@tool(effect="once")
async def move(point: Point, how: Literal["up", "down"], ctx: ToolContext) -> Point:
    """Move a point."""
    return Point(point.x + (1 if how == "up" else -1), point.y)


@tool(isolate=True, timeout=5)
def alone() -> str:
    """Run in a process of its own."""
    print("from the child")
    return "alone"


@tool(timeout=0.2)
def slow() -> str:
    """Take too long."""
    time.sleep(1)
    return "late"


@tool
def refuse() -> None:
    """Fail on purpose."""
    raise ToolError("no such thing", ToolErrorKind.NOT_FOUND)


@tool
def leave() -> None:
    """Fail badly."""
    sys.exit(5)


@tool(max_output=100)
def much() -> list[int]:
    """Return more than is taken."""
    return [*range(1000)]


@tool(approval=True)
def erase(path: str) -> str:
    """Erase a file."""
    return f"erased {path}"


@tool(approval=lambda args: args["amount"] > 100)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


find = JsonTool(
    "find",
    "Find a text.",
    {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    lambda args: {"found": [args["q"], None]},
)
