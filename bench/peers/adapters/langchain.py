"""LangChain's create_agent, which is a LangGraph graph."""

from importlib.metadata import version

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from pydantic import ConfigDict

from bench.peers.script import Call, Script

NAME = "LangChain create_agent"
VERSION = version("langchain")
IMPORT = "from langchain.agents import create_agent"
NOTE = (
    "its agents are LangGraph graphs; no checkpointer is set. Broken JSON ends a run with an empty text, and "
    "with `invalid_tool_calls` in the last message for those who look there. Its step limit is 9,999."
)


class Scripted(BaseChatModel):
    script: Script
    model_config = ConfigDict(arbitrary_types_allowed=True)

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        raise RuntimeError("the benchmark is asynchronous")

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        last = messages[-1]
        reply = await self.script.next(last.content if isinstance(last, ToolMessage) else None)
        if isinstance(reply, Call):
            call = {"name": "add", "args": reply.args, "id": reply.id, "type": "tool_call"}
            message = AIMessage(content="", tool_calls=[call])
        else:
            message = AIMessage(content=reply.text)
        return ChatResult(generations=[ChatGeneration(message=message)])


def stub(script):
    ask = asker(
        create_agent(Scripted(script=script), tools=[tool(script.tool)]),
        {"recursion_limit": 2 * script.steps},
    )

    async def run(question):
        return (await ask(question)).content

    return run


def online(url, tools, *, tool_timeout, middleware=()):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="stub", base_url=url, api_key="none")
    agent = create_agent(model, tools=[tool(function) for function in tools], middleware=[*middleware])
    agent.step_timeout = tool_timeout
    ask = asker(agent, None)

    async def run(question):
        last = await ask(question)
        return last.content, "invalid_tool_calls" if last.invalid_tool_calls else None

    return run


def asker(agent, config):
    async def run(question):
        state = await agent.ainvoke({"messages": [{"role": "user", "content": question}]}, config)
        return state["messages"][-1]

    return run


BEST = "ModelRetryMiddleware, ToolRetryMiddleware, ModelCallLimitMiddleware(run_limit=12), as errors"


def best(url, tools, *, tool_timeout):
    from langchain.agents.middleware import (
        ModelCallLimitMiddleware,
        ModelRetryMiddleware,
        ToolRetryMiddleware,
    )

    middleware = [
        ModelCallLimitMiddleware(run_limit=12, exit_behavior="error"),
        ModelRetryMiddleware(on_failure="error"),
        ToolRetryMiddleware(on_failure="continue"),
    ]
    return online(url, tools, tool_timeout=tool_timeout, middleware=middleware)
