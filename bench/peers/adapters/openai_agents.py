"""The OpenAI Agents SDK."""

from importlib.metadata import version

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from bench.peers.script import Call

NAME = "OpenAI Agents SDK"
VERSION = version("openai-agents")
IMPORT = "from agents import Agent, Runner, function_tool"
NOTE = "tracing is off."


class Scripted(Model):
    def __init__(self, script):
        self.script = script

    async def get_response(self, system_instructions, input, *args, **kwargs):
        last = {} if isinstance(input, str) else input[-1]
        reply = await self.script.next(last.get("output"))
        if isinstance(reply, Call):
            item = ResponseFunctionToolCall(
                type="function_call", name="add", call_id=reply.id, arguments=reply.arguments
            )
        else:
            text = ResponseOutputText(type="output_text", text=reply.text, annotations=[])
            item = ResponseOutputMessage(
                id="message", type="message", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise RuntimeError("the benchmark does not stream")


def stub(script):
    agent = Agent(name="counter", model=Scripted(script), tools=[function_tool(script.tool)])
    return asker(agent, max_turns=script.steps)


def online(url, tools, *, tool_timeout, config=None, **limits):
    from agents import OpenAIChatCompletionsModel
    from openai import AsyncOpenAI

    model = OpenAIChatCompletionsModel("stub", AsyncOpenAI(base_url=url, api_key="none"))
    functions = [function_tool(tool, timeout=tool_timeout) for tool in tools]
    ask = asker(Agent(name="counter", model=model, tools=functions), config, **limits)

    async def run(question):
        return await ask(question), None

    return run


def asker(agent, config=None, **limits):
    config = config or RunConfig(tracing_disabled=True)

    async def run(question):
        return (await Runner.run(agent, question, run_config=config, **limits)).final_output

    return run


BEST = "tool_not_found_behavior='return_error_to_model', max_turns=12"


def best(url, tools, *, tool_timeout):
    config = RunConfig(tracing_disabled=True, tool_not_found_behavior="return_error_to_model")
    return online(url, tools, tool_timeout=tool_timeout, config=config, max_turns=12)
