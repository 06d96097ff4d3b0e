"""What is no type, no mode and no such answer is an error before anything runs."""

from wesichain import Agent
from wesichain.core import ToolCallingLlm


class Flight:
    price: int


class NoFlight:
    reason: str


async def answers(llm: ToolCallingLlm) -> None:
    Agent(llm, output_mode="json")  # error
    Agent(llm, output_type=5)  # error
    result = await Agent(llm, output_type=Flight | NoFlight).run("q")
    print(result.output.price)  # error
    wrong: Flight = result.output  # error
    print(wrong)
