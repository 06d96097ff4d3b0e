"""A server of ours whose tools ask a person or a model: over stdio, or over HTTP at the port that is given.

What it begins and ends is noted in the file $NOTES.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wesichain import tool
from wesichain.tools.mcp import ServedChanges, ServedResource, elicit, sample, serve_http, serve_stdio

SIZE: dict[str, Any] = {
    "type": "object",
    "properties": {"size": {"type": "integer"}, "colour": {"type": "string", "default": "red"}},
    "required": ["size"],
}


def note(text: str) -> None:
    with Path(os.environ["NOTES"]).open("a", encoding="utf-8") as notes:
        notes.write(f"{text}\n")


@tool
async def order(item: str) -> str:
    """Order an item; its size is asked for."""
    note(f"began {item}")
    try:
        answer = await elicit(f"Which size of {item}?", SIZE)
    except asyncio.CancelledError:
        note(f"gave up {item}")
        raise
    note(f"ended {item}")
    return f"no {item}" if answer is None else f"{answer.get('colour', 'red')} {item} in {answer['size']}"


@tool
async def think(text: str, times: int = 1) -> str:
    """Ask the client's model."""
    return "; ".join([await sample(text) for _ in range(times)])


@tool
async def slow(seconds: float) -> str:
    """Take some time."""
    note("began slow")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("gave up slow")
        raise
    return "slept"


OFFERED = [order, think, slow]


async def serve(announce: Callable[[str], object], port: int = 0) -> None:
    """Over HTTP."""
    resources = [ServedResource("notes://today", lambda: "nothing yet")]
    await serve_http(OFFERED, port, resources=resources, changes=ServedChanges(), announce=announce)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(serve(lambda url: print(url, file=sys.stderr, flush=True), int(sys.argv[1])))
    else:
        asyncio.run(serve_stdio(OFFERED))
