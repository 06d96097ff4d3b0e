"""LlamaIndex's FunctionAgent."""

import inspect
from importlib.metadata import version

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool, ToolSelection
from pydantic import ConfigDict

from bench.peers.script import Call, Script

NAME = "LlamaIndex FunctionAgent"
VERSION = version("llama-index-core")
IMPORT = "from llama_index.core.agent.workflow import FunctionAgent"
NOTE = "streaming is off."


class Scripted(FunctionCallingLLM):
    script: Script
    model_config = ConfigDict(arbitrary_types_allowed=True)

    @property
    def metadata(self):
        return LLMMetadata(
            context_window=10_000_000,
            is_chat_model=True,
            is_function_calling_model=True,
            model_name="scripted",
        )

    def _prepare_chat_with_tools(self, tools, user_msg=None, chat_history=None, **kwargs):
        return {"messages": chat_history}

    async def achat(self, messages, **kwargs):
        last = messages[-1]
        reply = await self.script.next(last.content if last.role == "tool" else None)
        if isinstance(reply, Call):
            return ChatResponse(
                message=ChatMessage(role="assistant", content="", additional_kwargs={"call": reply})
            )
        return ChatResponse(message=ChatMessage(role="assistant", content=reply.text))

    def get_tool_calls_from_response(self, response, error_on_no_tool_call=True, **kwargs):
        call = response.message.additional_kwargs.get("call")
        return [ToolSelection(tool_id=call.id, tool_name="add", tool_kwargs=call.args)] if call else []

    def _unused(self, *args, **kwargs):
        raise RuntimeError("the benchmark is asynchronous and does not stream")

    chat = stream_chat = astream_chat = complete = acomplete = stream_complete = astream_complete = _unused


def as_tool(function):
    if inspect.iscoroutinefunction(function):
        return FunctionTool.from_defaults(async_fn=function)
    return FunctionTool.from_defaults(fn=function)


def stub(script):
    agent = FunctionAgent(
        llm=Scripted(script=script),
        tools=[as_tool(script.tool)],
        streaming=False,
        num_concurrent_runs=None,
    )
    return asker(agent, max_iterations=script.steps)


def online(url, tools, *, tool_timeout, retries=None, **limits):
    from llama_index.llms.openai_like import OpenAILike

    again = {} if retries is None else {"max_retries": retries}
    kind = {"is_chat_model": True, "is_function_calling_model": True}
    model = OpenAILike(model="stub", api_base=url, api_key="none", **kind, **again)
    functions = [FunctionTool.from_defaults(async_fn=tool) for tool in tools]
    # The limit is the whole run's: tools have none.
    ask = asker(FunctionAgent(llm=model, tools=functions, streaming=False, timeout=tool_timeout), **limits)

    async def run(question):
        return await ask(question), None

    return run


def asker(agent, **limits):
    async def run(question):
        return (await agent.run(question, **limits)).response.content

    return run


BEST = "max_iterations=12, max_retries=5"


def best(url, tools, *, tool_timeout):
    return online(url, tools, tool_timeout=tool_timeout, retries=5, max_iterations=12)
