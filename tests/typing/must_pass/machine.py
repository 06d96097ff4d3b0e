"""The legal ways through the machine, typed from end to end."""

from dataclasses import dataclass
from typing import assert_never, assert_type

from wesichain.agent import (
    Acting,
    Agent,
    AgentRuntime,
    Approve,
    Completed,
    Failed,
    Idle,
    Interrupted,
    Observed,
    Observing,
    Outcome,
    RunResult,
    Thinking,
)
from wesichain.core import LlmResponse, ToolCallingLlm
from wesichain.errors import AgentError
from wesichain.policy import Spent

spent = Spent()


@dataclass
class Weather:
    city: str


def all_the_way(idle: Idle[Weather]) -> Completed[Weather]:
    thinking = assert_type(idle.think(), Thinking[Weather])
    acting = assert_type(thinking.act(LlmResponse("x")), Acting[Weather])
    observing = assert_type(acting.observe([Observed("x", "x")]), Observing[Weather])
    again = assert_type(observing.think(), Thinking[Weather])
    return assert_type(again.complete(Weather("Oslo"), text="x", spent=spent), Completed[Weather])


def any_active_phase_may_fail(phase: Idle[str] | Thinking[str] | Acting[str] | Observing[str]) -> Failed[str]:
    return phase.fail(AgentError("x"), spent=spent)


def any_active_phase_may_stop(phase: Idle[str] | Thinking[str] | Acting[str] | Observing[str]) -> Interrupted[str]:
    return phase.interrupt("x", spent=spent)


async def typed_output(llm: ToolCallingLlm) -> None:
    agent = Agent(llm, output_type=Weather)
    assert_type(await agent.run("x"), RunResult[Weather])
    assert_type((await agent.run("x")).output, Weather)
    assert_type((await Agent(llm).run("x")).output, str)
    assert_type(await AgentRuntime(llm).run("x"), Outcome[str])


async def every_outcome(runtime: AgentRuntime[Weather]) -> str:
    outcome = await runtime.run("x")
    match outcome:
        case Completed():
            return assert_type(outcome.output, Weather).city
        case Failed():
            return str(assert_type(outcome.error, AgentError))
        case Interrupted():
            again = await runtime.resume(outcome, {item.token: Approve() for item in outcome.pending})
            return type(again).__name__
        case _:
            assert_never(outcome)
