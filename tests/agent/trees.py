"""Random trees of runs: agents and tools that fail, retry, wait, sleep, stream and are stopped.

A tree is data (`AgentSpec`), so that hypothesis can draw it and another process can make it again. Its models
are functions of what they are shown: the same whenever, and wherever, they are asked.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from wesichain.agent import Agent, Approve, Decision, Interrupted, Outcome, Provide, Refuse
from wesichain.core import (
    LlmResponse,
    PendingCall,
    Role,
    TextChunk,
    ToolCall,
    Usage,
    from_json,
    to_json,
)
from wesichain.errors import ToolFailedError
from wesichain.policy import Budget, ObserveErrors, PolicyEngine, Recovery, Reprompt, Retry, Rule
from wesichain.policy import N as Times
from wesichain.tools import CancellationToken, ToolContext, tool

Kind = Literal["ok", "sync", "sleep", "fail", "flaky", "once", "approval", "external", "nested", "child"]
NAMES = ("ann", "bob", "cleo")
KINDS: tuple[Kind, ...] = ("ok", "sync", "sleep", "fail", "flaky", "once", "approval", "external", "nested")


@dataclass(frozen=True)
class CallSpec:
    kind: Kind
    n: int
    child: AgentSpec | None = None


@dataclass(frozen=True)
class AgentSpec:
    name: str
    turns: tuple[tuple[CallSpec, ...], ...]  # the calls of each reply; then it answers
    concurrency: int = 1
    retries: bool = False
    idempotent: bool = False  # as a tool


PRICES = {"model-leaf": (9.0, 2.0)} | {
    f"model-{name}{depth}": (depth + 1.0, 2.0) for name in NAMES for depth in range(3)
}


@dataclass
class World:
    """What the tools of a tree have done: for each call, by its key, how often."""

    effects: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    asked: int = 0


def tree_of(seed: int) -> AgentSpec:
    """The tree of a seed."""
    return _agent(random.Random(seed), 2)


def cuts_of(seed: int, count: int = 3) -> list[tuple[int, ...]]:
    """Where the runs of a tree are stopped: each is a run, stopped up to three times."""
    draw = random.Random(f"cuts {seed}")
    return [tuple(draw.randrange(400) for _ in range(draw.randint(1, 3))) for _ in range(count)]


def _agent(draw: random.Random, depth: int) -> AgentSpec:
    return AgentSpec(
        f"{draw.choice(NAMES)}{depth}",
        tuple(
            tuple(_call(draw, depth) for _ in range(draw.randint(1, 3)))
            for _ in range(draw.choice((0, 1, 1, 2, 3)))
        ),
        draw.choice((1, 2, 8)),
        draw.random() < 0.5,
        draw.random() < 0.5,
    )


def _call(draw: random.Random, depth: int) -> CallSpec:
    if depth > 0 and draw.random() < 0.3:
        return CallSpec("child", draw.randrange(4), _agent(draw, depth - 1))
    return CallSpec(draw.choice(KINDS), draw.randrange(4))


class TreeLlm:
    """Says what its spec says, by how often it has spoken since the question."""

    def __init__(self, spec: AgentSpec) -> None:
        self.model = f"model-{spec.name}"
        self._spec = spec

    async def complete(self, request: Any) -> LlmResponse:
        WORLD.asked += 1
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        await asyncio.sleep(0)
        return self._reply(turn, request.messages)

    async def stream(self, request: Any) -> Any:
        reply = await self.complete(request)
        for word in reply.content.split():
            yield TextChunk(word)
            await asyncio.sleep(0)
        yield reply

    def _reply(self, turn: int, messages: Any) -> LlmResponse:
        if turn >= len(self._spec.turns):
            heard = sum(len(message.text) for message in messages if message.role is Role.TOOL)
            return LlmResponse(f"{self._spec.name} heard {heard}", usage=Usage(5, 3))
        calls = tuple(
            ToolCall(
                f"t{turn}c{index}",
                _tool_of(spec),
                {"task": f"{turn}.{index}.{spec.n}"} if spec.child else {"n": spec.n},
            )
            for index, spec in enumerate(self._spec.turns[turn])
        )
        return LlmResponse(f"turn {turn}", calls, Usage(7, 2), "tool_calls")


def _tool_of(spec: CallSpec) -> str:
    return spec.child.name if spec.child is not None else spec.kind


def policy_of(spec: AgentSpec) -> PolicyEngine:
    """What fails once is run again; the rest is told. (A limit that calls side by side share would go by their
    order, which is nobody's to promise.)
    """
    if not spec.retries:
        return ObserveErrors()
    again = Rule(Retry(consume_budget=spec.idempotent), limit=99)
    return Recovery({ConnectionError: again, ToolFailedError: Rule(Reprompt(Times(99)), limit=99)})


WORLD = World()  # of the run under way: tools are made once, since their schemas take longest


@contextmanager
def over(world: World) -> Iterator[None]:
    """Let the tools and models act on a world."""
    global WORLD  # noqa: PLW0603  # the one place that changes it
    before, WORLD = WORLD, world
    try:
        yield
    finally:
        WORLD = before


@tool
async def ok(n: int, ctx: ToolContext) -> int:
    """Works."""
    WORLD.effects[ctx.idempotency_key] += 1
    return n


@tool
def sync(n: int) -> int:
    """Works in a thread."""
    return n * 2


@tool
async def sleep(n: int, ctx: ToolContext) -> str:
    """Takes a few turns of the loop."""
    for _ in range(n + 1):
        await asyncio.sleep(0)
    WORLD.effects[ctx.idempotency_key] += 1
    return "z" * n


@tool
async def fail(n: int) -> str:
    """Fails."""
    await asyncio.sleep(0)
    raise ValueError(f"no {n}")


@tool
async def flaky(n: int, ctx: ToolContext) -> str:
    """Fails once, the first time that it comes so far."""
    await asyncio.sleep(0)
    if not WORLD.failures[ctx.idempotency_key]:
        WORLD.failures[ctx.idempotency_key] += 1
        raise ConnectionError("again")
    return f"at last {n}"


@tool(effect="once")
async def once(n: int, ctx: ToolContext) -> str:
    """Does harm if it is run twice."""
    WORLD.effects[ctx.idempotency_key] += 1
    return f"done {n}"


@tool(approval=True)
async def approval(n: int, ctx: ToolContext) -> str:
    """Asks first."""
    WORLD.effects[ctx.idempotency_key] += 1
    return f"approved {n}"


@tool(external=True)
async def external(n: int) -> str:
    """Is run elsewhere."""
    raise AssertionError("never here")


LEAF = AgentSpec("leaf", ((CallSpec("ok", 1), CallSpec("approval", 2)),))


@tool
async def nested(n: int, ctx: ToolContext) -> str:
    """Runs an agent itself."""
    leaf = Agent(TreeLlm(LEAF), tools=[ok, approval], name="leaf", policy=ObserveErrors())
    return (await leaf.run(f"nested {n}", parent=ctx)).output


TOOLS = [ok, sync, sleep, fail, flaky, once, approval, external, nested]


def build(spec: AgentSpec) -> Agent[Any, str]:
    """The agent of a spec."""
    children = {call.child.name: call.child for turn in spec.turns for call in turn if call.child is not None}
    below = [
        build(child).as_tool(effect="idempotent" if child.idempotent else "once")
        for child in children.values()
    ]
    return Agent(
        TreeLlm(spec),
        tools=[*TOOLS, *below],
        name=spec.name,
        policy=policy_of(spec),
        budget=Budget(steps=60, free_retries=30, cost=1e9, prices=PRICES),
        tool_concurrency=spec.concurrency,
        exclude_after=None,
        loop_guard=None,
    )


def decide(item: PendingCall) -> Decision:
    """A person who always says the same of the same call."""
    args: Any = item.call.args
    if item.external:
        return Provide({"from": "outside", "n": args["n"]}) if args["n"] % 2 else Provide(error="none")
    return Refuse("no") if args == {"n": 3} else Approve()


class StopAt:
    """A sink that stops the run at its k-th event."""

    def __init__(self, k: int, token: CancellationToken) -> None:
        self._left = k
        self._token = token

    def emit(self, event: object) -> None:
        self._left -= 1
        if self._left == 0:
            self._token.cancel("stopped by a test")


def through_json(outcome: Interrupted[str]) -> Interrupted[str]:
    kind: Any = Interrupted
    read: Interrupted[str] = from_json(kind, to_json(outcome))
    return read


async def to_the_end(
    spec: AgentSpec,
    *,
    stop_at: tuple[int, ...] = (),
    write: bool = False,
    stream: bool = False,
) -> tuple[Outcome[str], list[Any]]:
    """Carry a tree to its end, deciding what waits; stopped at events, written and read in between if told so."""
    stops = [*stop_at]
    events: list[Any] = []

    def options() -> dict[str, Any]:
        if not stops:
            return {"stream": stream}
        token = CancellationToken()
        return {"cancellation": token, "events": StopAt(stops.pop(0), token), "stream": stream}

    agent = build(spec)
    outcome = await agent.outcome("the question", run_id="run", **options())
    events += outcome.events
    for _ in range(200):
        if not isinstance(outcome, Interrupted):
            return outcome, events
        decisions = {item.token: decide(item) for item in outcome.pending}
        if write:
            outcome = through_json(outcome)
            agent = build(spec)  # another process: nothing is left but the data
        outcome = await agent.runtime.resume(outcome, decisions, **options())
        events += outcome.events
    raise AssertionError("the run goes on for ever")
