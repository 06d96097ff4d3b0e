"""A server made with the official SDK whose tools ask: a person, twice, or a model.

Over stdio as a program; what it begins and ends is noted in the file $NOTES.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel


class Size(BaseModel):
    size: int
    colour: str = "red"


def note(text: str) -> None:
    with Path(os.environ["NOTES"]).open("a", encoding="utf-8") as notes:
        notes.write(f"{text}\n")


async def order(item: str, ctx: Context) -> str:
    """Order an item; its size is asked for."""
    note(f"began {item}")
    try:
        answer = await ctx.elicit(f"Which size of {item}?", Size)
    except asyncio.CancelledError:
        note(f"gave up {item}")
        raise
    note(f"ended {item}")
    if answer.action != "accept":
        return f"no {item}: {answer.action}"
    return f"{answer.data.colour} {item} in {answer.data.size}"


async def guess(ctx: Context) -> str:
    """Ask the same twice."""
    note("began guess")
    sizes = [await ctx.elicit("Your guess?", Size) for _ in range(2)]
    note("ended guess")
    return " then ".join(str(one.data.size) if one.action == "accept" else one.action for one in sizes)


FORM = {
    "type": "object",
    "properties": {
        "name": {
            "type": "string",
            "title": "Your name",
            "minLength": 2,
            "description": "<b>As</b> on the card",
        },
        "mail": {"type": "string", "format": "email"},
        "nights": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
        "room": {"type": "string", "enum": ["s", "d"], "enumNames": ["single", "double"]},
        "pets": {"type": "boolean"},
        "meals": {"type": "array", "items": {"type": "string", "enum": ["lunch", "dinner"]}},
        "note": {"type": "string"},
    },
    "required": ["name", "nights", "room", "pets"],
}


async def check_in(ctx: Context) -> str:
    """Ask for all that a hotel wants to know."""
    answer = await ctx.session.elicit_form("Who comes?", FORM, related_request_id=ctx.request_id)
    said = f"{answer.action} {json.dumps(answer.content, sort_keys=True)}"
    note(said)
    return said


async def slow(seconds: float) -> str:
    """Take some time."""
    note("began slow")
    await asyncio.sleep(seconds)
    return "slept"


async def think(text: str, ctx: Context) -> str:
    """Ask the client's model."""
    said = SamplingMessage(role="user", content=TextContent(text=text))
    try:
        answer = await ctx.session.create_message(
            [said], max_tokens=50, system_prompt="Be brief.", related_request_id=ctx.request_id
        )
    except Exception as error:
        return f"no model: {error}"
    return f"{answer.model} says {getattr(answer.content, 'text', '')}"


def made() -> MCPServer:
    server = MCPServer("asking")
    for function in (order, guess, check_in, slow, think):
        server.add_tool(function, structured_output=False)
    return server


async def serve(announce: Callable[[str], object]) -> None:
    """Over HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        announce(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
        config = uvicorn.Config(made().streamable_http_app(), log_level="warning")
        server = uvicorn.Server(config)
        try:
            await server.serve(sockets=[listener])
        finally:
            for each in server.servers:
                each.close()
            await server.lifespan.shutdown()


if __name__ == "__main__":
    made().run("stdio")
