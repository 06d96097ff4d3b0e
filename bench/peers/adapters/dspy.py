"""DSPy's ReAct: a text protocol, and one more model call at the end that writes the answer."""

from importlib.metadata import version

import dspy
from dspy import lm15

from bench.peers.script import Answer

NAME = "DSPy ReAct"
VERSION = version("dspy")
IMPORT = "from dspy import ReAct, LM"
NOTE = "a text protocol, and one more model call at the end of a run, which writes the answer."
OBSERVATION = "[[ ## observation_"


class Scripted:
    def __init__(self, script):
        self.script = script

    async def complete(self, request):
        text = request.messages[-1].parts[-1].text
        at = text.rfind(OBSERVATION)
        if "`[[ ## next_tool_name ## ]]`" not in text[-400:]:  # after `finish`: write the answer
            total = observation(text, text.rfind(OBSERVATION, 0, at)) or "0"
            return say(reasoning="done", answer=f"the sum is {total}")
        reply = await self.script.next(observation(text, at))
        if isinstance(reply, Answer):
            return say(next_thought="done", next_tool_name="finish", next_tool_args="{}")
        return say(next_thought="add", next_tool_name="add", next_tool_args=reply.arguments)


def observation(text, at):
    return None if at < 0 else text[text.index("\n", at) + 1 : text.index("\n\n", at)]


class Blocking:
    def complete(self, request):
        raise RuntimeError("the benchmark is asynchronous")


def say(**fields):
    text = "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items())
    message = lm15.Message("assistant", (lm15.TextPart(text + "\n\n[[ ## completed ## ]]"),))
    return lm15.Response(None, "scripted", message, "stop", lm15.Usage())


def stub(script):
    model = dspy.LM("scripted/scripted", engine=Blocking(), async_engine=Scripted(script), cache=False)
    return asker(model, [script.tool], max_iters=script.steps)


def online(url, tools, *, tool_timeout, retries=None, **limits):
    again = {} if retries is None else {"num_retries": retries}
    model = dspy.LM("openai/stub", api_base=url, api_key="none", cache=False, **again)
    ask = asker(model, tools, **limits)

    async def run(question):
        return await ask(question), None

    return run


def asker(model, tools, **limits):
    dspy.configure(lm=model, disable_history=True)
    agent = dspy.ReAct("question -> answer", tools=tools, **limits)

    async def run(question):
        return (await agent.acall(question=question)).answer

    return run


BEST = "max_iters=12, num_retries=5"


def best(url, tools, *, tool_timeout):
    return online(url, tools, tool_timeout=tool_timeout, retries=5, max_iters=12)
