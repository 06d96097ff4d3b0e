"""A support desk: an agent over HTTP with sessions, approvals by a colleague, and a page.

    python examples/support_desk/service.py        # http://127.0.0.1:8010, with a local model, no key needed
    WESICHAIN_MODEL=openai:gpt-5-mini python examples/support_desk/service.py

Sign in as ann and ask "Refund order A-7": the refund waits. Ben, of the same team, sees it and decides. Eve
is of another team: to her there is no such run.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from wesichain import Agent, Budget, Finish, ModelSettings, ToolContext, ToolError, tool
from wesichain.agent import SqliteConversations
from wesichain.edge import create_app

MODEL = "local:qwen2.5-coder-1.5b"
TEAMS = {"ann": "north", "ben": "north", "eve": "south"}
HERE = Path(__file__).parent


@dataclass
class Shop:
    """The data of a team, for its tools."""

    orders: dict[str, int] = field(default_factory=lambda: {"A-7": 20, "B-2": 120})
    refunds: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Caller:
    """The user and their shop, for the tools: `ctx.deps`."""

    name: str
    shop: Shop


@tool(effect="pure")
async def find_order(ctx: ToolContext[Caller], order: str) -> Finish[str]:
    """Look up an order and what was paid for it, by its number, such as A-7."""
    if order not in ctx.deps.shop.orders:
        raise ToolError(f"there is no order {order!r}; there are {', '.join(ctx.deps.shop.orders)}")
    return Finish(f"{ctx.deps.shop.orders[order]} was paid for order {order}.")


@tool(approval=True, effect="once")
async def refund(ctx: ToolContext[Caller], order: str) -> Finish[str]:
    """Give a customer back what they have paid for an order. A person has to approve it."""
    shop = ctx.deps.shop
    if order in shop.refunds or order not in shop.orders:
        return Finish(f"Order {order} cannot be refunded.")
    shop.refunds.append(order)
    return Finish(f"{shop.orders[order]} paid back for {order}, approved by {ctx.deps.name}.")


def make_agent(model: Any) -> Agent[Caller, str]:
    """An agent that chooses a tool. Tools end the run, so that no model writes about money."""
    return Agent(
        model,
        deps_type=Caller,
        tools=[find_order, refund],
        name="desk",
        description="Answers customers about their orders and gives money back.",
        instructions="You work at the support desk of a shop. Use the tools. Be brief.",
        settings=ModelSettings(tool_choice="required"),  # in the first step: a call is required
        budget=Budget(steps=8, seconds=300),
    )


class Service:
    """The shop's own web application, with the agent mounted in it."""

    def __init__(self, agent: Agent[Caller, str], folder: Path) -> None:
        self._sessions: dict[str, str] = {}
        self._shops = {team: Shop() for team in TEAMS.values()}
        self.app = Starlette(
            routes=[
                Route("/", lambda _: FileResponse(HERE / "page.html")),
                Route("/page.js", lambda _: FileResponse(HERE / "page.js")),
                Route("/login", self.login, methods=["POST"]),
                Mount(
                    "/agent",
                    create_app(
                        agent,
                        authorize=self.team,
                        deps=self.caller,
                        conversations=SqliteConversations(folder / "talks.db"),
                    ),
                ),
            ]
        )

    async def login(self, request: Request) -> Response:
        user = (await request.json()).get("user")
        if user not in TEAMS:  # a real application would authenticate the user
            return JSONResponse({"error": "nobody of that name"}, 401)
        session = secrets.token_urlsafe()
        self._sessions[session] = user
        answer = JSONResponse({"user": user, "team": TEAMS[user]})
        answer.set_cookie("session", session, httponly=True, samesite="strict")
        return answer

    def user(self, request: Request) -> str | None:
        return self._sessions.get(request.cookies.get("session", ""))

    def team(self, request: Request) -> str | None:
        """Runs belong to the team, so that colleagues can decide on them; None is a 401."""
        return TEAMS.get(self.user(request) or "")

    def caller(self, request: Request) -> Caller:
        user = self.user(request) or ""
        return Caller(user, self._shops[TEAMS[user]])


def main() -> None:
    agent = make_agent(os.environ.get("WESICHAIN_MODEL", MODEL))
    print("http://127.0.0.1:8010: sign in as ann, ben or eve")
    uvicorn.run(Service(agent, Path.cwd()).app, port=8010, log_level="warning")


if __name__ == "__main__":
    main()
