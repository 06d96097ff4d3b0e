"""Strands Agents: an agent holds one conversation, so every run begins with an empty one."""

from importlib.metadata import version

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models import Model

from bench.peers.script import Call

NAME = "Strands Agents"
VERSION = version("strands-agents")
IMPORT = "from strands import Agent, tool"
NOTE = (
    "an agent holds one conversation, which is emptied before each run; runs at once have an agent each. It "
    "sets no limit to the turns by itself; `limits` of a call does."
)


class Scripted(Model):
    def __init__(self, script):
        self.script = script

    def update_config(self, **model_config):
        pass

    def get_config(self):
        return {}

    def structured_output(self, output_model, prompt, system_prompt=None, **kwargs):
        raise RuntimeError("the benchmark has no structured output")

    async def stream(self, messages, tool_specs=None, system_prompt=None, **kwargs):
        result = messages[-1]["content"][-1].get("toolResult")
        reply = await self.script.next(result and result["content"][0]["text"])
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(reply, Call):
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": reply.id, "name": "add"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": reply.arguments}}}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": reply.text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if isinstance(reply, Call) else "end_turn"}}


def stub(script):
    model, function = Scripted(script), tool(script.tool)

    def build():
        return Agent(
            model,
            tools=[function],
            callback_handler=None,
            conversation_manager=NullConversationManager(),
        )

    agent = build()

    async def run(question):
        if script.gate is not None:  # an agent serves one run at a time
            return answer(await build().invoke_async(question))
        agent.messages.clear()
        return answer(await agent.invoke_async(question))

    return run


def online(url, tools, *, tool_timeout, **options):
    from strands.models.openai import OpenAIModel

    model = OpenAIModel(client_args={"base_url": url, "api_key": "none"}, model_id="stub")
    agent = Agent(model, tools=[tool(each) for each in tools], callback_handler=None)

    async def run(question):
        result = await agent.invoke_async(question, **options)
        return answer(
            result
        ), None if result.stop_reason == "end_turn" else f"stop_reason {result.stop_reason}"

    return run


def answer(result):
    return str(result).strip()


BEST = "limits of 12 turns"


def best(url, tools, *, tool_timeout):
    return online(url, tools, tool_timeout=tool_timeout, limits={"turns": 12})
