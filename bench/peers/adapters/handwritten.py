"""The hand-written loop, as the yardstick."""

from bench.handwritten import Message, describe
from bench.handwritten import run as loop
from bench.peers.script import Call, threaded

NAME = "hand-written loop"
VERSION = ""
IMPORT = "from bench.handwritten import run, describe"


def stub(script):
    tools = describe(threaded(script.tool))

    async def model(messages, specs) -> Message:
        last = messages[-1]
        reply = await script.next(last["content"] if last["role"] == "tool" else None)
        if isinstance(reply, Call):
            function = {"name": "add", "arguments": reply.arguments}
            calls = [{"id": reply.id, "type": "function", "function": function}]
            return {"role": "assistant", "content": None, "tool_calls": calls}
        return {"role": "assistant", "content": reply.text}

    async def run(question):
        return await loop(model, tools, question, max_steps=script.steps)

    return run


def online(url, tools, *, tool_timeout):
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="none")

    async def model(messages, specs) -> Message:
        reply = await client.chat.completions.create(model="stub", messages=messages, tools=specs)
        return reply.choices[0].message.model_dump(exclude_none=True)

    async def run(question):
        return await loop(model, describe(*tools), question), None

    return run
