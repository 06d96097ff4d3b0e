"""smolagents' ToolCallingAgent, which is synchronous: runs at once are threads, each with an agent."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from smolagents import LogLevel, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

from bench.peers.script import Call, add_blocking

NAME = "smolagents ToolCallingAgent"
VERSION = version("smolagents")
IMPORT = "from smolagents import ToolCallingAgent, tool"
NOTE = (
    "it is synchronous: runs at once are threads, each with an agent of its own, since an agent holds its "
    "run. Its status is there for those who pass `return_full_result=True`, as was done under fire; by "
    "default there is only the text."
)
BLOCKING = True


class Scripted(Model):
    def __init__(self, script):
        super().__init__(model_id="scripted")
        self.script = script

    def generate(self, messages, **kwargs):
        last = messages[-1]
        text = last.content[0]["text"]
        asked = last.role == MessageRole.USER and text.startswith("New task")
        reply = self.script.next_blocking(None if asked else text.removeprefix("Observation:\n"))
        if isinstance(reply, Call):
            function = ChatMessageToolCallFunction(name="add_blocking", arguments=reply.args)
            call = ChatMessageToolCall(id=reply.id, type="function", function=function)
        else:
            function = ChatMessageToolCallFunction(name="final_answer", arguments={"answer": reply.text})
            call = ChatMessageToolCall(id="call_answer", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def stub(script):
    model, function = Scripted(script), tool(add_blocking)

    def build():
        return ToolCallingAgent(
            tools=[function], model=model, max_steps=script.steps, verbosity_level=LogLevel.OFF
        )

    agent = build()
    threads = script.gate and ThreadPoolExecutor(script.gate.runs)

    async def run(question):
        if threads is None:
            return agent.run(question)
        # An agent keeps its run in itself: one each, when there are several at once.
        return await asyncio.get_running_loop().run_in_executor(threads, lambda: build().run(question))

    return run


def online(url, tools, *, tool_timeout, client=None, **options):
    from smolagents import OpenAIModel

    model = OpenAIModel(model_id="stub", api_base=url, api_key="none", client_kwargs=client)
    made = [tool(each) for each in tools]
    agent = ToolCallingAgent(tools=made, model=model, verbosity_level=LogLevel.OFF, **options)

    async def run(question):
        result = agent.run(question, return_full_result=True)
        return result.output, None if result.state == "success" else result.state

    return run


BEST = "max_steps=12, five retries of its client"


def best(url, tools, *, tool_timeout):
    return online(url, tools, tool_timeout=tool_timeout, client={"max_retries": 5}, max_steps=12)
