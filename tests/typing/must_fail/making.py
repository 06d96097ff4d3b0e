"""Phases cannot be made by hand, and an output keeps its type."""

from dataclasses import dataclass

from wesichain.agent import (Agent, AgentRuntime, Completed, Idle, Thinking)
from wesichain.agent.internal import RunInfo, Trail
from wesichain.core import ToolCallingLlm
from wesichain.policy import Spent


@dataclass
class Weather:
    city: str


def by_hand(idle: Idle[str]) -> None:
    Thinking()  # error
    Thinking(idle.info, idle.trail)  # error
    Thinking(None, idle.info, idle.trail)  # error
    Completed(object(), idle.info, idle.trail, "x", "x")  # error
    Idle(idle.info, idle.trail)  # error


async def wrong_output(phase: Thinking[Weather], llm: ToolCallingLlm) -> None:
    phase.complete("text", text="x", spent=Spent())  # error
    agent = Agent(llm, output_type=Weather)
    number: int = (await agent.run("x")).output  # error
    runtime = AgentRuntime(llm)
    outcome = await runtime.run("x")
    if isinstance(outcome, Completed):
        count: int = outcome.output  # error
    print(number, count, RunInfo, Trail)


def not_a_model() -> None:
    AgentRuntime(5)  # error
    Agent(5)  # error
