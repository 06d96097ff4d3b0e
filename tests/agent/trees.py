"""Random trees of runs: agents and tools that fail, retry, wait, sleep, stream, hand over and are stopped.

A tree is data (`AgentSpec`), so that hypothesis can draw it and another process can make it again. Its models
are functions of what they are shown: the same whenever, and wherever, they are asked.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from wesichain.agent import (
    Advice,
    Agent,
    Approve,
    ApproveWith,
    Decision,
    Handoff,
    Interrupted,
    Outcome,
    Provide,
    Refuse,
)
from wesichain.context import Window
from wesichain.core import LlmResponse, Message, Role, TextChunk, ToolCall, Usage, from_json, to_json
from wesichain.core.internal import PendingCall
from wesichain.errors import ToolFailedError
from wesichain.middleware import Middleware
from wesichain.policy import Budget, ObserveErrors, PolicyEngine, Recovery, Reprompt, Retry, Rule
from wesichain.policy import N as Times
from wesichain.tools import (
    CancellationToken,
    DynamicTools,
    Finish,
    RunContext,
    ToolContext,
    ToolSearch,
    tool,
)

Kind = Literal[
    "ok",
    "sync",
    "sleep",
    "fail",
    "flaky",
    "once",
    "approval",
    "external",
    "nested",
    "child",
    "handoff",
    "search",
    "several",
    "gathered",
    "swallowed",
    "several_once",
    "finish",
    "deep",
    "threaded",
    "again",
    "streamed",
    "stepped",
    "caught",
    "grouped",
]
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
    changing: bool = False  # its tools are found, or given anew in each step
    forgetful: bool = False  # whoever hands over to it shows it the task and the last turn alone
    anonymous: bool = False  # its model gives its calls no ids
    instructed: bool = False  # its instructions are a function of the context
    advised: bool = False  # it has a playbook
    wrapped: bool = False  # middleware around its runs, model calls and tool calls
    window: bool = False  # a view cuts what it is shown
    steps: int = 60  # that a run of it may take
    on_limit: Literal["fail", "partial", "answer"] = "fail"


PRICES = {f"model-{name}": (9.0, 2.0) for name in ("leaf", "twig", "twin", "pair", "quiet", "deep")} | {
    f"model-{name}{depth}{'h' * hands}": (depth + 1.0, 2.0 + hands)
    for name in NAMES
    for depth in range(3)
    for hands in range(4)
}
HANDED = "Handed over to "


@dataclass
class World:
    """What the tools of a tree have done: for each call, by its key, how often."""

    effects: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    is_replayed: bool = False  # nobody may be asked for anything


def tree_of(seed: int) -> AgentSpec:
    """The tree of a seed."""
    return _agent(random.Random(seed), 2)


def team_of(seed: int) -> AgentSpec:
    """The tree of a seed, in which agents also hand over to others, and have tools that change."""
    draw = random.Random(f"team {seed}")
    return _with_handoffs(_agent(draw, draw.choice((0, 1, 2))), draw, 3)


def grove_of(seed: int) -> AgentSpec:
    """The tree of a seed whose tools run several agents, and whose agents are made of everything that there is."""
    draw = random.Random(f"grove {seed}")
    spec = _with_everything(_agent(draw, draw.choice((0, 1, 1, 2))), draw)
    return _with_handoffs(spec, draw, 2) if draw.random() < 0.3 else spec


MANY: tuple[Kind, ...] = ("several", "gathered", "swallowed", "several_once")
RARE: tuple[Kind, ...] = ("deep", "threaded", "again", "streamed", "stepped", "caught", "grouped")


def wood_of(seed: int) -> AgentSpec:
    """The tree of a seed whose tools run agents in every way there is: in threads, in steps, streamed, again after a
    failure, in groups of tasks, and agents whose own tools run agents.
    """
    draw = random.Random(f"wood {seed}")
    return _with_rare(_with_everything(_agent(draw, draw.choice((0, 0, 1))), draw), draw)


def _with_rare(spec: AgentSpec, draw: random.Random) -> AgentSpec:
    turns = tuple(tuple(_rare(call, draw) for call in turn) for turn in spec.turns)
    # A run in a thread has spent before the log says so: who is refused at a limit is nobody's to promise.
    has_threads = any(call.kind == "threaded" for turn in turns for call in turn)
    return replace(spec, turns=turns, steps=60 if has_threads else spec.steps)


def _rare(call: CallSpec, draw: random.Random) -> CallSpec:
    if call.child is not None:
        return replace(call, child=_with_rare(call.child, draw))
    return CallSpec(draw.choice(RARE), draw.randint(1, 3)) if draw.random() < 0.6 else call


def _with_everything(spec: AgentSpec, draw: random.Random) -> AgentSpec:
    turns = tuple(tuple(_equipped(call, draw) for call in turn) for turn in spec.turns)
    has_children = any(call.child or call.kind in MANY for turn in turns for call in turn)
    return replace(
        spec,
        turns=turns or ((CallSpec(draw.choice(MANY), draw.randint(1, 3)),),),
        anonymous=draw.random() < 0.3,
        instructed=draw.random() < 0.4,
        advised=draw.random() < 0.3,
        wrapped=draw.random() < 0.3,
        window=draw.random() < 0.3,
        # Runs side by side share what is above them in an order that is nobody's to promise.
        steps=60 if has_children or draw.random() < 0.7 else draw.randint(1, 2),
        on_limit=draw.choice(("fail", "partial", "answer")),
    )


def _equipped(call: CallSpec, draw: random.Random) -> CallSpec:
    if call.child is not None:
        return replace(call, child=_with_everything(call.child, draw))
    if draw.random() < 0.45:
        return CallSpec(draw.choice(MANY), draw.randrange(4))
    return CallSpec("finish", call.n) if draw.random() < 0.06 else call


def _with_handoffs(spec: AgentSpec, draw: random.Random, left: int) -> AgentSpec:
    """The same agent, some of whose calls hand over, to up to `left` others in a row, or search for tools."""
    turns = tuple(tuple(_changed(call, spec.name, draw, left) for call in turn) for turn in spec.turns)
    if left == 3 and not turns:
        turns = ((_changed(CallSpec("handoff", 0), spec.name, draw, left),),)
    return replace(spec, turns=turns, changing=draw.random() < 0.4, forgetful=draw.random() < 0.3)


def _changed(call: CallSpec, name: str, draw: random.Random, left: int) -> CallSpec:
    if call.kind == "child":
        assert call.child is not None
        return replace(call, child=_with_handoffs(call.child, draw, left))
    if left and (call.kind == "handoff" or draw.random() < 0.2):
        depth = 0 if draw.random() < 0.7 else 1
        other = replace(_agent(draw, depth), name=f"{name}h")
        return CallSpec("handoff", call.n, _with_handoffs(other, draw, left - 1))
    return CallSpec("search", call.n) if draw.random() < 0.15 else call


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
        turn = 0
        for message in request.messages:
            turn += message.role is Role.ASSISTANT
            if message.role is Role.TOOL and message.text.startswith(HANDED):
                turn = 0  # what was said before was said by another
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
        hands = "h" * self._spec.name.count("h")
        calls = tuple(
            ToolCall(
                "" if self._spec.anonymous else f"{hands}t{turn}c{index}",
                _tool_of(spec),
                _args_of(spec, f"{turn}.{index}.{spec.n}"),
            )
            for index, spec in enumerate(self._spec.turns[turn])
        )
        return LlmResponse(f"turn {turn}", calls, Usage(7, 2), "tool_calls")


def _tool_of(spec: CallSpec) -> str:
    if spec.child is not None:
        return f"transfer_to_{spec.child.name}" if spec.kind == "handoff" else spec.child.name
    return "search_tools" if spec.kind == "search" else spec.kind


def _args_of(spec: CallSpec, task: str) -> Any:
    if spec.kind == "handoff":
        return {"reason": task}
    if spec.kind == "search":
        return {"query": ("does harm", "works", "takes turns", "nothing")[spec.n]}
    return {"task": task} if spec.child else {"n": spec.n}


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


TWIG = AgentSpec("twig", ((CallSpec("ok", 1), CallSpec("approval", 2)),))
LEAF = AgentSpec("leaf", TWIG.turns)
BOUGH = AgentSpec("leaf", ((CallSpec("child", 1, TWIG), CallSpec("ok", 2)),))


@tool
async def nested(n: int, ctx: ToolContext) -> str:
    """Runs an agent itself, which may have another as its tool."""
    spec = BOUGH if n == 3 else LEAF
    twig = Agent(TreeLlm(TWIG), tools=[ok, approval], name="twig", policy=ObserveErrors())
    tools = [ok, twig.as_tool()] if n == 3 else [ok, approval]
    leaf = Agent(TreeLlm(spec), tools=tools, name="leaf", policy=ObserveErrors())
    return (await leaf.run(f"nested {n}", parent=ctx)).output


TWIN = AgentSpec("twin", ((CallSpec("once", 1), CallSpec("sleep", 1)), (CallSpec("approval", 1),)))
PAIR = AgentSpec("pair", ((CallSpec("once", 2),),))
QUIET = AgentSpec("quiet", ())


def _runs(n: int, ctx: ToolContext, kind: str) -> list[Callable[[], Any]]:
    """Runs inside a call: n of them, of the same agents and of others, which ask, send and sleep."""
    specs = [TWIN, PAIR, TWIN][:n] if kind != "swallowed" else [QUIET, TWIN, TWIN][:n]
    agents = [
        Agent(TreeLlm(spec), tools=[ok, once, sleep, approval], name=spec.name, policy=ObserveErrors())
        for spec in specs
    ]
    return [
        partial(agent.run, f"{kind} {n} part {number}", parent=ctx) for number, agent in enumerate(agents)
    ]


@tool
async def several(n: int, ctx: ToolContext) -> str:
    """Runs agents one after the other."""
    return " and ".join([(await run()).output for run in _runs(n, ctx, "several")])


@tool(effect="once")
async def several_once(n: int, ctx: ToolContext) -> str:
    """Runs agents one after the other, and does harm if it is run twice."""
    return " and ".join([(await run()).output for run in _runs(n, ctx, "several_once")])


@tool
async def gathered(n: int, ctx: ToolContext) -> str:
    """Runs agents side by side, two runs to a branch."""

    async def branch(run: Any, number: int) -> str:
        first = (await run()).output
        twin = Agent(TreeLlm(PAIR), tools=[once], name="pair", policy=ObserveErrors())
        return f"{first}, {(await twin.run(f'after {number}: {first}', parent=ctx)).output}"

    runs = _runs(n, ctx, "gathered")
    return " and ".join(await asyncio.gather(*[branch(run, number) for number, run in enumerate(runs)]))


@tool
async def swallowed(n: int, ctx: ToolContext) -> str:
    """Runs agents side by side, and makes little of those that fail."""
    results = await asyncio.gather(*[run() for run in _runs(n, ctx, "swallowed")], return_exceptions=True)
    return " and ".join("lost" if isinstance(one, BaseException) else one.output for one in results)


@tool(effect="once")
async def finish(n: int, ctx: ToolContext) -> Finish[str]:
    """Ends the run."""
    WORLD.effects[ctx.idempotency_key] += 1
    return Finish(f"finished {n}")


DEEP = AgentSpec("deep", ((CallSpec("several", 2), CallSpec("gathered", 1)),))


@tool
async def deep(n: int, ctx: ToolContext) -> str:
    """Runs agents whose tools run agents."""
    tools = [several, gathered, swallowed]
    agents = [
        Agent(TreeLlm(DEEP), tools=tools, name="deep", policy=ObserveErrors()) for _ in range(min(n, 2))
    ]
    runs = [agent.run(f"deep {number}", parent=ctx) for number, agent in enumerate(agents)]
    return " and ".join([one.output for one in await asyncio.gather(*runs)])


@tool
def threaded(n: int, ctx: ToolContext) -> str:
    """Runs agents one after the other, in a thread."""
    return " and ".join([asyncio.run(run()).output for run in _runs(n, ctx, "threaded")])


@tool
async def again(n: int, ctx: ToolContext) -> str:
    """Runs agents, and fails after the first of them, the first time that it comes so far."""
    first, *rest = [(await run()).output for run in _runs(n, ctx, "again")]
    if not WORLD.failures[ctx.idempotency_key]:
        WORLD.failures[ctx.idempotency_key] += 1
        raise ConnectionError("again")
    return " and ".join([first, *rest])


def _agents(n: int) -> list[Agent[Any, str]]:
    tools = [ok, once, sleep, approval]
    return [
        Agent(TreeLlm(spec), tools=tools, name=spec.name, policy=ObserveErrors())
        for spec in [TWIN, PAIR, TWIN][:n]
    ]


@tool
async def streamed(n: int, ctx: ToolContext) -> str:
    """Runs agents one after the other, and reads what they stream."""
    answers: list[str] = []
    for number, agent in enumerate(_agents(n)):
        async with agent.stream(f"streamed {number}", parent=ctx) as run:
            async for _ in run:
                pass
        answers.append(run.result.output)
    return " and ".join(answers)


@tool
async def stepped(n: int, ctx: ToolContext) -> str:
    """Runs agents one after the other, a step at a time."""
    answers: list[str] = []
    for number, agent in enumerate(_agents(n)):
        async with agent.iterate(f"stepped {number}", parent=ctx) as run:
            async for _ in run:
                await asyncio.sleep(0)
        answers.append(str(getattr(run.outcome, "text", "")))
    return " and ".join(answers)


@tool
async def caught(n: int, ctx: ToolContext) -> str:
    """Runs agents one after the other, and takes whatever their outcomes are."""
    outcomes = [
        await agent.outcome(f"caught {number}", parent=ctx) for number, agent in enumerate(_agents(n))
    ]
    return " and ".join(str(getattr(one, "text", type(one).__name__)) for one in outcomes)


@tool
async def grouped(n: int, ctx: ToolContext) -> str:
    """Runs agents in a group of tasks."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run()) for run in _runs(n, ctx, "grouped")]
    return " and ".join(task.result().output for task in tasks)


TOOLS = [ok, sync, sleep, fail, flaky, once, approval, external, nested]
EVERYTHING: list[Any] = [
    *[*TOOLS, several, several_once, gathered, swallowed, finish],
    *[deep, threaded, again, streamed, stepped, caught, grouped],
]


class Advising:
    """A playbook that says one thing, and nothing in a replay."""

    def retrieve(self, task: str, *, domain: str, k: int = 3) -> Any:
        return []

    async def advise(self, task: str, *, run_id: str, domain: str, tools: Any) -> Advice:
        assert not WORLD.is_replayed, "a replay looks nothing up"
        return Advice()


class PassingOn(Middleware):
    """Middleware that looks on."""

    async def wrap_run(self, ctx: Any, task: Any, call_next: Any) -> Any:
        return await call_next(task)

    async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(request)

    async def wrap_tool(self, ctx: Any, call: Any, call_next: Any) -> Any:
        return await call_next(call)


def _instructions_of(spec: AgentSpec) -> Any:
    def instructions(ctx: RunContext[Any]) -> str:
        assert not WORLD.is_replayed, "a replay asks for no instructions"
        return f"You are {spec.name}, below {len(ctx.scope)}."

    return instructions if spec.instructed else f"You are {spec.name}."


def _given(ctx: RunContext[Any]) -> list[Any]:
    """Tools by what was said before the step. (The number of a step is another where one was cut off.)"""
    return [sync, external, nested] if len(ctx.messages) % 4 else [sync, flaky]


CHANGING = [ok, approval, DynamicTools(_given), ToolSearch([sleep, fail, once], k=2)]


def last_turn(messages: Sequence[Message]) -> list[Message]:
    """The task, and the reply that handed over with its results."""
    last = max(place for place, message in enumerate(messages) if message.role is Role.ASSISTANT)
    return [messages[0], *messages[last:]]


def _tools_of(spec: AgentSpec) -> list[Any]:
    """Those that it calls: it would take longer to offer all of them than to run the tree."""
    called = {call.kind for turn in spec.turns for call in turn}
    return [one for one in EVERYTHING if one.name in called]


def build(spec: AgentSpec) -> Agent[Any, str]:
    """The agent of a spec."""
    calls = [call for turn in spec.turns for call in turn if call.child is not None]
    children = {call.child.name: call.child for call in calls if call.child and call.kind == "child"}
    others = {call.child.name: call.child for call in calls if call.child and call.kind == "handoff"}
    below = [
        build(child).as_tool(effect="idempotent" if child.idempotent else "once")
        for child in children.values()
    ]
    return Agent(
        TreeLlm(spec),
        tools=[*(CHANGING if spec.changing else _tools_of(spec)), *below],
        handoffs=[
            Handoff(build(other), history=last_turn if other.forgetful else None) for other in others.values()
        ],
        instructions=_instructions_of(spec),
        name=spec.name,
        policy=policy_of(spec),
        playbook=Advising() if spec.advised else None,
        middleware=[PassingOn()] if spec.wrapped else [],
        context=[Window(400)] if spec.window else [],
        on_limit=spec.on_limit,
        budget=Budget(steps=spec.steps, free_retries=30, cost=1e9, prices=PRICES),
        tool_concurrency=spec.concurrency,
        exclude_after=None,
        loop_guard=None,
    )


def decide(item: PendingCall) -> Decision:
    """A person who always says the same of the same call."""
    args: Any = item.call.args
    if item.external:
        return Provide({"from": "outside", "n": args["n"]}) if args["n"] % 2 else Provide(error="none")
    if args == {"n": 2}:
        return ApproveWith({"n": 5})
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


async def left_after(agent: Agent[Any, str], steps: int) -> Outcome[str]:
    """Take so many steps of a run, and leave it there."""
    async with agent.iterate("the question", run_id="run") as run:
        for _ in range(steps):
            await run.step()
    assert run.outcome is not None
    return run.outcome


async def to_the_end(
    spec: AgentSpec,
    *,
    stop_at: tuple[int, ...] = (),
    leave_after: int | None = None,
    write: bool = False,
    stream: bool = False,
) -> tuple[Outcome[str], list[Any]]:
    """Carry a tree to its end, deciding what waits.

    Told so, it is stopped at events, or left after some of its steps, and written and read in between.
    """
    stops = [*stop_at]
    events: list[Any] = []

    def options() -> dict[str, Any]:
        if not stops:
            return {"stream": stream}
        token = CancellationToken()
        return {"cancellation": token, "events": StopAt(stops.pop(0), token), "stream": stream}

    agent = build(spec)
    if leave_after is None:
        outcome = await agent.outcome("the question", run_id="run", **options())
    else:
        outcome = await left_after(agent, leave_after)
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
