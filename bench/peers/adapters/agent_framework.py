"""Microsoft Agent Framework."""

from importlib.metadata import version

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)

from bench.peers.script import Call

NAME = "Microsoft Agent Framework"
VERSION = version("agent-framework-core")
IMPORT = "from agent_framework import Agent, tool"
NOTE = (
    "the stub leaves out the telemetry and chat middleware layers that its own clients carry. Its time limit "
    "is looked at between calls: it does not end a slow tool."
)


class Scripted(FunctionInvocationLayer, BaseChatClient):
    def __init__(self, script):
        super().__init__(function_invocation_configuration={"max_iterations": script.steps})
        self.script = script

    async def _inner_get_response(self, *, messages, stream, options, **kwargs):
        last = messages[-1].contents[-1]
        reply = await self.script.next(str(last.result) if last.type == "function_result" else None)
        if isinstance(reply, Call):
            content = Content.from_function_call(reply.id, "add", arguments=reply.arguments)
        else:
            content = Content.from_text(reply.text)
        return ChatResponse(messages=[Message(role="assistant", contents=[content])])


def stub(script):
    return asker(Agent(Scripted(script), tools=[tool(script.tool)]))


def online(url, tools, *, tool_timeout, limits=None):
    from agent_framework.openai import OpenAIChatCompletionClient

    if tool_timeout is not None:
        limits = {**(limits or {}), "max_duration_seconds": tool_timeout}
    client = OpenAIChatCompletionClient(
        model="stub", base_url=url, api_key="none", function_invocation_configuration=limits
    )
    ask = asker(Agent(client, tools=[tool(each) for each in tools]))

    async def run(question):
        return await ask(question), None

    return run


def asker(agent):
    async def run(question):
        return (await agent.run(question)).text

    return run


LIMITS = {"max_iterations": 12, "max_consecutive_errors_per_request": 3, "include_detailed_errors": True}
BEST = "max_iterations=12, max_consecutive_errors_per_request=3, include_detailed_errors=True"


def best(url, tools, *, tool_timeout):
    return online(url, tools, tool_timeout=tool_timeout, limits=LIMITS)
