"""This project."""

from bench.peers.script import Call
from wesichain import (
    Agent,
    Budget,
    LlmRequest,
    LlmResponse,
    Role,
    ToolCall,
    __version__,
    tool,
)

NAME = "Wesichain"
VERSION = __version__
IMPORT = "from wesichain import Agent, tool"
NOTE = "as it comes; only the budget of steps is raised."
QUICK = "blocking=False"


class Scripted:
    def __init__(self, script):
        self.script = script

    async def complete(self, request: LlmRequest) -> LlmResponse:
        last = request.messages[-1]
        reply = await self.script.next(last.content if last.role == Role.TOOL else None)
        if isinstance(reply, Call):
            return LlmResponse(
                tool_calls=(ToolCall(reply.id, "add", reply.args),), finish_reason="tool_calls"
            )
        return LlmResponse(reply.text)


def stub(script):
    function = tool(blocking=False)(script.tool) if script.quick else tool(script.tool)
    agent = Agent(Scripted(script), tools=[function], budget=Budget(steps=script.steps))

    async def run(question):
        return (await agent.run(question)).output

    return run


def online(url, tools, *, tool_timeout, **options):
    from wesichain.llm.openai import OpenAiClient

    limit = {} if tool_timeout is None else {"timeout": tool_timeout}
    model = OpenAiClient("stub", base_url=url, api_key="none")
    agent = Agent(model, tools=[tool(**limit)(each) for each in tools], **options)

    async def run(question):
        return (await agent.run(question)).output, None

    return run
