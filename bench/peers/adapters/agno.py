"""Agno."""

from dataclasses import dataclass
from importlib.metadata import version

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.run.base import RunStatus
from agno.tools import tool

from bench.peers.script import Call, Script

NAME = "Agno"
VERSION = version("agno")
IMPORT = "from agno.agent import Agent"
NOTE = "it sets no limit to the tool calls by itself; `tool_call_limit` does."


@dataclass
class Scripted(Model):
    id: str = "scripted"
    script: Script | None = None

    async def ainvoke(self, messages, *args, **kwargs):
        last = messages[-1]
        reply = await self.script.next(str(last.content) if last.role == "tool" else None)
        if isinstance(reply, Call):
            function = {"name": "add", "arguments": reply.arguments}
            calls = [{"id": reply.id, "type": "function", "function": function}]
            return ModelResponse(role="assistant", tool_calls=calls)
        return ModelResponse(role="assistant", content=reply.text)

    def _unused(self, *args, **kwargs):
        raise RuntimeError("the benchmark is asynchronous and does not stream")

    invoke = invoke_stream = ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = (
        _unused
    )


def stub(script):
    agent = Agent(model=Scripted(script=script), tools=[tool(script.tool)], telemetry=False)

    async def run(question):
        return (await agent.arun(question)).content

    return run


def online(url, tools, *, tool_timeout, **options):
    from agno.models.openai.like import OpenAILike

    model = OpenAILike(id="stub", base_url=url, api_key="none")
    agent = Agent(model=model, tools=[tool(each) for each in tools], telemetry=False, **options)

    async def run(question):
        result = await agent.arun(question)
        return (
            result.content,
            None if result.status == RunStatus.completed else f"status {result.status.value}",
        )

    return run


BEST = "tool_call_limit=12, retries=2, exponential_backoff=True"


def best(url, tools, *, tool_timeout):
    return online(
        url, tools, tool_timeout=tool_timeout, tool_call_limit=12, retries=2, exponential_backoff=True
    )
