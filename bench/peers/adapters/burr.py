"""Burr has state machines but no agent: its graph around the model call and the checked tool call."""

from importlib.metadata import version

from burr.core import ApplicationBuilder, GraphBuilder, State, action, default, when

from bench.handwritten import call_tool, describe
from bench.peers.script import Call, threaded

NAME = "Burr with a hand-written agent"
VERSION = version("apache-burr")
IMPORT = "from burr.core import ApplicationBuilder, GraphBuilder, State, action"
NOTE = (
    "a library of state machines, which has no agent: its graph holds the model call and the tool call of "
    "the hand-written loop, and appends to its state as documented. It sets no limit to the steps; what "
    "it does under fire is the hand-written code's doing."
)


def build(model, tools, limit=None):
    specs = [tool.spec for tool in tools.values()]

    @action(reads=["messages"], writes=["messages", "calls"])
    async def ask(state: State) -> State:
        if limit is not None and len(state["messages"]) > 2 * limit:
            raise RuntimeError(f"no answer after {limit} model calls")
        reply = await model(state["messages"], specs)
        return state.append(messages=reply).update(calls=reply.get("tool_calls") or [])

    @action(reads=["calls", "messages"], writes=["messages"])
    async def act(state: State) -> State:
        for call in state["calls"]:
            result = await call_tool(tools, call["function"])
            state = state.append(messages={"role": "tool", "tool_call_id": call["id"], "content": result})
        return state

    @action(reads=["messages"], writes=["answer"])
    async def answer(state: State) -> State:
        return state.update(answer=state["messages"][-1]["content"])

    graph = (
        GraphBuilder()
        .with_actions(ask, act, answer)
        .with_transitions(("ask", "answer", when(calls=[])), ("ask", "act", default), ("act", "ask"))
        .build()
    )

    async def run(question):
        messages = [{"role": "user", "content": question}]
        app = (
            ApplicationBuilder()
            .with_graph(graph)
            .with_state(messages=messages, calls=[])
            .with_entrypoint("ask")
            .build()
        )
        *_, state = await app.arun(halt_after=["answer"])
        return state["answer"]

    return run


def stub(script):
    async def model(messages, specs):
        last = messages[-1]
        reply = await script.next(last["content"] if last["role"] == "tool" else None)
        if isinstance(reply, Call):
            function = {"name": "add", "arguments": reply.arguments}
            calls = [{"id": reply.id, "type": "function", "function": function}]
            return {"role": "assistant", "content": None, "tool_calls": calls}
        return {"role": "assistant", "content": reply.text}

    return build(model, describe(threaded(script.tool)))


def online(url, tools, *, tool_timeout, limit=None):
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="none")

    async def model(messages, specs):
        reply = await client.chat.completions.create(model="stub", messages=messages, tools=specs)
        return reply.choices[0].message.model_dump(exclude_none=True)

    ask = build(model, describe(*tools), limit)

    async def run(question):
        return await ask(question), None

    return run


BEST = "a limit of 12 model calls, looked at in its action"


def best(url, tools, *, tool_timeout):
    return online(url, tools, tool_timeout=tool_timeout, limit=12)
