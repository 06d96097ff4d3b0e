"""Pydantic AI."""

from importlib.metadata import version

from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart, UsageLimits, UserPromptPart
from pydantic_ai.models import Model

from bench.peers.script import Call

NAME = "Pydantic AI"
VERSION = version("pydantic-ai-slim")
IMPORT = "from pydantic_ai import Agent"
NOTE = (
    "a model class of its own, not FunctionModel, which estimates the tokens of the whole history"
    " at every step."
)


class Scripted(Model):
    """Not FunctionModel, which guesses the tokens of the whole history at every step."""

    def __init__(self, script):
        super().__init__()
        self.script = script

    @property
    def model_name(self):
        return "scripted"

    @property
    def system(self):
        return "scripted"

    async def request(self, messages, model_settings, model_request_parameters):
        last = messages[-1].parts[-1]
        if isinstance(last, UserPromptPart):
            reply = await self.script.next(None)
        else:  # what the tool returned, or the request to try the call again
            reply = await self.script.next(str(last.content))
        if isinstance(reply, Call):
            return ModelResponse(parts=[ToolCallPart("add", reply.args, tool_call_id=reply.id)])
        return ModelResponse(parts=[TextPart(reply.text)])


def stub(script):
    agent = Agent(Scripted(script), tools=[script.tool])
    limits = UsageLimits(request_limit=script.steps)

    async def run(question):
        return (await agent.run(question, usage_limits=limits)).output

    return run


def online(url, tools, *, tool_timeout, limits=None, **options):
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key="none")
    agent = Agent(
        OpenAIChatModel("stub", provider=provider), tools=tools, tool_timeout=tool_timeout, **options
    )

    async def run(question):
        return (await agent.run(question, usage_limits=limits)).output, None

    return run


BEST = "retries=3, UsageLimits(request_limit=12)"


def best(url, tools, *, tool_timeout):
    from pydantic_ai.usage import UsageLimits

    limits = UsageLimits(request_limit=12)
    return online(url, tools, tool_timeout=tool_timeout, limits=limits, retries=3)
