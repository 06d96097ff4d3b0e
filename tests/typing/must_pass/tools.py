"""What users write around tools is typed."""

from pydantic import BaseModel

from typing import Any

from wesichain import Agent, TypedTool, ToolContext, tool
from wesichain.core import ToolCallingLlm


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool(name="fetch", timeout=5.0, effect="pure")
async def fetch_page(url: str, ctx: ToolContext) -> str:
    """Fetch a page."""
    return f"{url} {ctx.step_id}"


class WeatherArgs(BaseModel):
    city: str


class WeatherOut(BaseModel):
    degrees: float


class Weather(TypedTool[WeatherArgs, WeatherOut]):
    name = "weather"
    description = "The weather in a city."

    async def run(self, args: WeatherArgs, ctx: ToolContext) -> WeatherOut:
        return WeatherOut(degrees=len(args.city))


def build(llm: ToolCallingLlm) -> Agent[Any, str]:
    return Agent(llm, tools=[add, fetch_page, Weather()])
