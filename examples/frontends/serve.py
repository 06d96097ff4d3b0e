"""The service of the two pages: `npm install && npm run build`, then `python examples/frontends/serve.py`.

http://127.0.0.1:8020/chat.html       the AI SDK's useChat
http://127.0.0.1:8020/copilot.html    CopilotKit, over AG-UI
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from wesichain import Agent, tool
from wesichain.edge import create_app

PAGES = Path(__file__).parent / "dist"
MODEL = "local:qwen2.5-coder-1.5b"


@tool(effect="pure")
async def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool(approval=True, effect="once")
async def book(city: str) -> str:
    """Book a journey to a city. A person has to approve it."""
    return f"booked: {city}"


def service(model: Any) -> Starlette:
    agent = Agent(model, tools=[weather, book], name="default")
    pages = StaticFiles(directory=PAGES, html=True)
    return Starlette(routes=[Mount("/agent", create_app(agent)), Mount("/", pages)])


if __name__ == "__main__":
    uvicorn.run(service(os.environ.get("WESICHAIN_MODEL", MODEL)), port=8020, log_level="warning")
