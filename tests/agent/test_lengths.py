"""How much of a value an error quotes, and how long the names of tools are that are made of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from pydantic import BaseModel

from wesichain import Agent, Handoff, Middleware, tool
from wesichain.agent import Approve, Interrupted
from wesichain.agent.rules.answers import output_form
from wesichain.core import Image, LlmResponse, Message, Role, from_json, to_json
from wesichain.core.codec.reading import preview
from wesichain.llm import LlmTraits
from wesichain.testing import FunctionLlm, ScriptedLlm, calls

LONG = "x" * 300


class Total(BaseModel):
    n: int


class Rewriting(Middleware):
    """Begins with another task each time, also where a run goes on."""

    def __init__(self) -> None:
        self._times = count()

    async def wrap_run(self, ctx: Any, task: Any, call_next: Any) -> Any:
        return await call_next(f"{LONG}{next(self._times)}")


def run(agent: Agent[Any, Any], **options: Any) -> str:
    """What the run says of its end."""
    outcome = asyncio.run(agent.outcome("q", **options))
    events: list[Any] = [*outcome.events]
    return str(getattr(outcome, "error", "")) + "".join(
        event.message for event in events if event.kind == "step_failed"
    )


@tool(approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def resumed() -> Any:
    agent = Agent(ScriptedLlm([calls(("pay", {})), "3"]), tools=[pay], middleware=[Rewriting()])
    waiting = asyncio.run(agent.outcome("q"))
    assert isinstance(waiting, Interrupted)
    return asyncio.run(agent.resume(waiting, {one.token: Approve() for one in waiting.pending}))


def of_another_kind() -> Any:
    saved = to_json(asyncio.run(Agent(FunctionLlm(lambda _: "3")).outcome("q")))
    return from_json(Interrupted, saved.replace('"completed"', f'"{LONG}"', 1))


def handed_over() -> str:
    other = Agent(FunctionLlm(lambda _: "3"), name="other", middleware=[Rewriting()])
    return run(Agent(ScriptedLlm([calls(("transfer_to_other", {}))]), handoffs=[other]))


QUOTED: list[tuple[str, int, Callable[[], Any]]] = [
    ("data of a wrong type", 60, lambda: preview(LONG)),
    ("an outcome of another kind", 60, of_another_kind),
    ("an address", 60, lambda: Image(url=LONG)),
    ("a content", 38, lambda: Message(Role.USER, {LONG})),  # type: ignore[arg-type]
    ("a call that is none", 80, lambda: run(Agent(ScriptedLlm([LlmResponse("", (LONG,)), "3"])))),  # type: ignore[arg-type]
    ("a reply that is an error", 200, lambda: run(Agent(ScriptedLlm([LlmResponse(LONG, finish_reason="error"), "3"])))),
    ("a wrong answer", 79, lambda: output_form(Total, traits=LlmTraits()).read(f'{{"n":"{LONG}"}}')),
    ("a task after a handoff", 100, handed_over),
    ("a task of a run that goes on", 100, resumed),
]  # fmt: skip


@pytest.mark.parametrize(("quoted", "make"), [pytest.param(*row[1:], id=row[0]) for row in QUOTED])
def test_an_error_quotes_so_much(quoted: int, make: Callable[[], Any]) -> None:
    try:
        said = str(make())
    except Exception as error:
        said = str(error)
    assert said.count("x" * quoted) == 1, said
    assert "x" * (quoted + 1) not in said, said


def test_the_name_of_a_tool_has_at_most_64_letters() -> None:
    agent = Agent(FunctionLlm(lambda _: "3"), handoffs=[Handoff(Agent(FunctionLlm(str), name="a" * 60))])
    agent.run_sync("q")
    (spec,) = agent.llm.requests[0].tools  # type: ignore[attr-defined]
    assert spec.name == "transfer_to_" + "a" * 52
