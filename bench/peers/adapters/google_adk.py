"""Google's Agent Development Kit, with the in-memory session service."""

from importlib.metadata import version

from google.adk.agents import LlmAgent, RunConfig
from google.adk.models import BaseLlm, LlmResponse
from google.adk.plugins import ReflectAndRetryToolPlugin
from google.adk.runners import InMemoryRunner
from google.genai import types

from bench.peers.script import Call, Script

NAME = "Google ADK"
VERSION = version("google-adk")
IMPORT = "from google.adk.agents import LlmAgent; from google.adk.runners import InMemoryRunner"
NOTE = (
    "with the in-memory session service, one session a run; the malformed call is recovered by "
    "its ReflectAndRetryToolPlugin, without which the run ends. Its limit is 500 model calls."
)
USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, candidates_token_count=1)


class Scripted(BaseLlm):
    model: str = "scripted"
    script: Script

    async def generate_content_async(self, llm_request, stream=False):
        result = llm_request.contents[-1].parts[-1].function_response
        reply = await self.script.next(result and str(result.response.get("result")))
        if isinstance(reply, Call):
            part = types.Part(function_call=types.FunctionCall(id=reply.id, name="add", args=reply.args))
        else:
            part = types.Part(text=reply.text)
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=USAGE)


def stub(script):
    agent = LlmAgent(name="counter", model=Scripted(script=script), tools=[script.tool])
    # By itself it ends the run at the first failing tool; this plugin is its way to recover.
    plugins = [ReflectAndRetryToolPlugin()] if script.malformed else []
    return asker(agent, RunConfig(max_llm_calls=script.steps), plugins)


def online(url, tools, *, tool_timeout, config=None, plugins=()):
    from google.adk.models.lite_llm import LiteLlm

    model = LiteLlm(model="openai/stub", api_base=url, api_key="none")
    agent = LlmAgent(name="counter", model=model, tools=tools, timeout=tool_timeout)
    return asker(agent, config or RunConfig(), [*plugins], with_status=True)


def asker(agent, config, plugins, *, with_status=False):
    runner = InMemoryRunner(agent=agent, app_name="bench", plugins=plugins)

    async def run(question):
        session = await runner.session_service.create_session(app_name="bench", user_id="user")
        message = types.Content(role="user", parts=[types.Part(text=question)])
        answer, status = "", None
        events = runner.run_async(
            user_id="user", session_id=session.id, new_message=message, run_config=config
        )
        async for event in events:
            status = event.error_code and f"error_code {event.error_code}"
            if event.is_final_response() and event.content and event.content.parts:
                answer = event.content.parts[-1].text
        await runner.session_service.delete_session(app_name="bench", user_id="user", session_id=session.id)
        return (answer, status) if with_status else answer

    return run


BEST = "ReflectAndRetryToolPlugin(max_retries=3), max_llm_calls=12"


def best(url, tools, *, tool_timeout):
    return online(
        url,
        tools,
        tool_timeout=tool_timeout,
        config=RunConfig(max_llm_calls=12),
        plugins=[ReflectAndRetryToolPlugin(max_retries=3)],
    )
