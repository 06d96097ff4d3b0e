"""CrewAI: an agent alone, without a crew, by its native function calling."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

from crewai import Agent, BaseLLM
from crewai.events.utils.console_formatter import set_suppress_console_output
from crewai.tools import tool

from bench.peers.script import Call

NAME = "CrewAI Agent"
VERSION = version("crewai")
IMPORT = "from crewai import Agent; from crewai.tools import tool"
NOTE = (
    "an agent alone (`akickoff`), without crew, task, memory or planning; runs at once have an agent each. "
    "Its panels on the console and its estimate of tokens are off. It calls the model in threads."
)
set_suppress_console_output(True)  # it draws panels otherwise, verbose or not
ROLE = {"role": "counter", "goal": "count", "backstory": "You count.", "verbose": False, "cache": False}


class Scripted(BaseLLM):
    script: Any = None

    def supports_function_calling(self):
        return True

    def get_input_tokens_count(self, *args, **kwargs):
        return 1  # the question has no need of an estimate, which would warn at every step

    def call(self, messages, *args, **kwargs):
        results = [message["content"] for message in messages if message["role"] == "tool"]
        reply = self.script.next_blocking(results[-1] if results else None)
        if isinstance(reply, Call):
            function = {"name": "add", "arguments": reply.arguments}
            return [{"id": reply.id, "type": "function", "function": function}]
        return reply.text


def stub(script):
    model = Scripted(model="scripted", script=script)
    function = tool(script.tool)

    def build():
        return Agent(**ROLE, llm=model, tools=[function], max_iter=script.steps)

    agent = build()
    threads = script.gate and ThreadPoolExecutor(2 * script.gate.runs)

    async def run(question):
        if script.gate is not None:  # the default executor has fewer threads than there are runs
            asyncio.get_running_loop().set_default_executor(threads)
        one = agent if script.gate is None else build()
        return (await one.akickoff(question)).raw

    return run


def online(url, tools, *, tool_timeout, **options):
    from crewai import LLM

    model = LLM(model="openai/stub", base_url=url, api_key="none")
    functions = [tool(each) for each in tools]

    async def run(question):
        agent = Agent(**ROLE, llm=model, tools=functions, max_execution_time=whole(tool_timeout), **options)
        return (await agent.akickoff(question)).raw, None

    return run


def whole(seconds):
    return None if seconds is None else int(seconds)  # the limit is the whole run's, in whole seconds


BEST = "max_iter=12, max_retry_limit=2"


def best(url, tools, *, tool_timeout):
    return online(url, tools, tool_timeout=tool_timeout, max_iter=12, max_retry_limit=2)
