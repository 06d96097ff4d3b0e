"""An agent is typed to its answer: one type, a type with arguments, or a union."""

from typing import assert_type

from pydantic import BaseModel

from wesichain import Agent, AgentRuntime
from wesichain.core import ToolCallingLlm
from wesichain.tools import RunContext


class Flight(BaseModel):
    price: int


class NoFlight(BaseModel):
    reason: str


def cheap(output: Flight | NoFlight) -> Flight | NoFlight:
    return output


async def known(ctx: RunContext[int], output: Flight | NoFlight) -> Flight | NoFlight:
    return output


async def answers(llm: ToolCallingLlm) -> None:
    assert_type((await Agent(llm).run("q")).output, str)
    assert_type((await Agent(llm, output_type=Flight).run("q")).output, Flight)
    assert_type((await Agent(llm, output_type=list[Flight]).run("q")).output, list[Flight])
    assert_type((await Agent(llm, output_type=Flight | None).run("q")).output, Flight | None)
    either = Agent(llm, output_type=Flight | NoFlight, output_mode="tool", output_checks=[cheap, known])
    assert_type((await either.run("q")).output, Flight | NoFlight)
    runtime = AgentRuntime(llm, output_type=Flight | NoFlight, output_checks=(cheap,))
    assert_type(runtime.read_output("{}"), Flight | NoFlight)
