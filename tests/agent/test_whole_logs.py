"""The whole log of a run, field by field, and its outcome: one small run of every kind, beside what it was.

A log is in `whole_logs/` (see `tests/expected.py`), a line for each event. Every run is replayed from its log, too.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from tests import expected
from tests.agent.kit import add, boom, call, check_events, echo, say
from wesichain import Agent, CancellationToken, Handoff, Image, Middleware, ModelSettings, RunContext
from wesichain.agent import (
    Approve,
    ApproveWith,
    Decision,
    Interrupted,
    LoopGuard,
    Outcome,
    Provide,
    Refuse,
    replay,
)
from wesichain.context import ClearToolResults, Summarise, TrimResults, Window
from wesichain.core import (
    Action,
    Event,
    LlmRequest,
    LlmResponse,
    Message,
    Observation,
    Role,
    TextChunk,
    Thought,
    ToolCallChunk,
    Usage,
    from_json,
    to_json,
)
from wesichain.core.events import HandedOff
from wesichain.errors import (
    GuardrailError,
    LlmRejectedError,
    LlmTransportError,
    ToolFailedError,
    UnknownToolError,
)
from wesichain.llm import LlmTraits
from wesichain.middleware import OutputGuard
from wesichain.policy import (
    Backoff,
    Budget,
    FailFast,
    Interrupt,
    ObserveErrors,
    OnceWithToolCatalog,
    Price,
    Recovery,
    Reprompt,
    RepromptN,
    Retry,
)
from wesichain.testing import FakeClock, FunctionLlm
from wesichain.testing.models import as_response
from wesichain.tools import DynamicTools, Finish, JsonTool, ToolContext, ToolError, tool
from wesichain.trace import Recording

LOGS = Path(__file__).parent / "whole_logs"


@dataclass
class Kind:
    """A run: the agent, its task, and the decisions of those who are asked, one set for each time."""

    agent: Callable[[FakeClock], Agent[Any, Any]]
    task: Any = "q"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    decisions: Sequence[Sequence[Decision]] = ()
    is_replayed: bool = True


class Clocked(FunctionLlm):
    """Answers from a list; each call takes a second."""

    def __init__(self, clock: FakeClock, replies: Sequence[Any], **options: Any) -> None:
        self._clock, self._left = clock, iter(replies)
        super().__init__(self._answer, **{"model": "m", **options})

    def _answer(self, request: LlmRequest) -> Any:
        self._clock.advance(1)
        reply = next(self._left)
        return reply(request) if callable(reply) else reply


class Streaming(Clocked):
    """Answers piece by piece, arguments too."""

    async def stream(self, request: LlmRequest) -> Any:
        whole = as_response(self._answer(request))
        for start in range(0, len(whole.content), 7):
            yield TextChunk(whole.content[start : start + 7])
        for index, one in enumerate(whole.tool_calls):
            text = json.dumps(one.args)
            for start in range(0, len(text), 12):
                yield ToolCallChunk(index, one.id, one.name, text[start : start + 12])
        yield whole


def agent(*replies: Any, llm: Any = Clocked, traits: Any = None, **options: Any) -> Any:
    """Makes an agent over a script, with the tools `add`, `boom` and `echo` unless it is given others."""
    known: dict[str, Any] = {"tools": [add, boom, echo], "tool_concurrency": 1, **options}
    given = {} if traits is None else {"traits": traits}
    return lambda clock: Agent(llm(clock, replies, **given), clock=clock, **known)


ADD = call("add", {"a": 1, "b": 2}, id="c1")
AGAIN = call("add", {"a": 1, "b": 2}, id="c2")


def hop(number: int, size: int = 400) -> LlmResponse:
    return say(call("page", {"n": number, "size": size}, id=f"p{number}"), content=f"page {number}")


@tool
async def page(n: int, size: int) -> str:
    """A page."""
    return f"page {n}: ".ljust(size, "x")


@tool(approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"{euros} paid"


@tool(external=True)
async def measure(place: str) -> float:
    """Measured elsewhere."""
    raise NotImplementedError


@tool
async def stop(word: str) -> Any:
    """End the run."""
    return Finish(word)


@tool
async def picky(n: int) -> int:
    """Takes small numbers."""
    if n > 9:
        raise ToolError("too large; take one below 10")
    return n


@tool(effect="idempotent")
async def flaky(ctx: ToolContext) -> str:
    """Fails at the first attempt."""
    if ctx.attempt == 1:
        raise OSError("down")
    return f"attempt {ctx.attempt}"


@tool
async def draw() -> Any:
    """A picture with words."""
    return ["a dot", Image(data=b"\x89PNG\r\n", media_type="image/png")]


@tool
async def looks(ctx: ToolContext) -> str:
    """Runs an agent on a picture."""
    inside = Agent(FunctionLlm(lambda _: "a dot", model="m"), name="eye")
    seen = await inside.run(["what is it?", Image(data=b"\x89PNG\r\n", media_type="image/png")], parent=ctx)
    assert ctx.spent is not None
    return f"{seen.output} for {ctx.spent.steps} steps, {ctx.spent.tool_calls} call"


class Sum(BaseModel):
    a: int
    total: int


class Excuse(BaseModel):
    why: Literal["busy", "tired"]


def final(name: str, args: Any, id: str = "f1") -> LlmResponse:
    return say(call(name, args, id=id))


def check_total(output: Sum) -> Sum:
    if output.total < 3:
        raise ValueError("the total is too small")
    return output


def inner(*replies: Any, **options: Any) -> Any:
    return agent(*replies, **{"name": "inner", "description": "Asks another.", **options})


def outer(*replies: Any, below: Any, **options: Any) -> Any:
    """An agent with another as a tool."""

    def make(clock: FakeClock) -> Any:
        return agent(*replies, **{"tools": [below(clock).as_tool(effect="idempotent"), add], **options})(
            clock
        )

    return make


def team(*replies: Any, other: Any, **options: Any) -> Any:
    """An agent that may hand over to another."""

    def make(clock: FakeClock) -> Any:
        given = Handoff(other(clock), description="Knows sums.", history=lambda messages: messages[:1])
        return agent(*replies, handoffs=[given], name="desk", **options)(clock)

    return make


class Twice(Middleware):
    """Asks twice, changes what goes in, and answers for one tool."""

    async def wrap_run(self, ctx: Any, task: Any, call_next: Any) -> Any:
        return await call_next(f"{task}, please")

    async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
        first = await call_next(request)
        return first if first.tool_calls else await call_next(request)

    async def wrap_tool(self, ctx: Any, call: Any, call_next: Any) -> Any:
        if call.name == "boom":
            raise ToolError("not today")
        return await call_next(call)


class Refusing(Middleware):
    async def wrap_tool(self, ctx: Any, call: Any, call_next: Any) -> Any:
        raise GuardrailError("no tools on Sundays")


class Shelf:
    """A playbook with one lesson."""

    def retrieve(self, task: str, *, domain: str, k: int) -> list[Any]:
        return [SimpleNamespace(id="l1", text=f"Add slowly ({domain}, {k}).", tool_sequence=("add",))]


def offered(ctx: RunContext[Any]) -> list[Any]:
    return [add] if ctx.step_id < 2 else [echo]


@tool
async def busy(ctx: ToolContext) -> str:
    """Reports its progress."""
    await ctx.progress(1, 2, "half")
    return "done"


def summary(request: LlmRequest) -> Any:
    return LlmResponse("what was seen", usage=Usage(50, 5))


async def cancels(ctx: ToolContext) -> str:
    """Stop the run from inside."""
    ctx.cancellation.cancel("enough")
    return "stopped"


def several(clock: FakeClock, **options: Any) -> Any:
    """A tool that runs an agent twice, the second time for what the first has said."""
    asked = agent(
        say(ADD), "3", say(call("pay", {"euros": 3}, id="b1")), "paid", tools=[add, pay], name="inner"
    )(clock)

    @tool(effect="idempotent")
    async def both(ctx: ToolContext) -> str:
        """Ask twice."""
        first = await asked.run("1 + 2", parent=ctx)
        return f"{first.output}, {(await asked.run('pay it', parent=ctx)).output}"

    return agent(say(call("both", id="c1")), "done", tools=[both], **options)(clock)


def polling(clock: FakeClock) -> Any:
    """The same call again and again, whose result changes."""
    numbers = iter(range(9))
    count = JsonTool("count", "Count.", {"type": "object"}, lambda args: next(numbers))
    return agent(*[say(call("count", id=f"c{n}")) for n in range(5)], "5", tools=[count])(clock)


class Broken(FailFast):
    def on_model_error(self, state: Any, error: Any) -> Any:
        raise KeyError("odd")


class Odd(FailFast):
    def on_tool_error(self, state: Any, error: Any) -> Any:
        return "again"


def fails(request: LlmRequest) -> Any:
    raise LlmTransportError("busy")


PRICED = Budget(cost=9.0, prices={"m": Price(1e6, 2e6, 1e5, 3e6)})
CACHED = Usage(10, 4, cache_read_tokens=6, cache_write_tokens=2)

KINDS: dict[str, Kind] = {
    "an-answer": Kind(agent("3", instructions="be exact")),
    "two-calls-in-order": Kind(agent(say(ADD, call("echo", {"text": "a"}, id="c2"), content="hm"), "3")),
    "calls-at-once": Kind(agent(say(ADD, call("boom", id="c2"), AGAIN), "3", tool_concurrency=8)),
    "bad-calls-in-one-reply": Kind(
        agent(say(call("nope", id="c1"), call("add", {"a": "x"}, id="c2"), AGAIN), "3")
    ),
    "ids-that-are-taken": Kind(agent(say(ADD, ADD, call("echo", {"text": "a"}, id="")), say(ADD), "3")),
    "arguments-that-are-text": Kind(agent(say(call("add", '{"a": 1, "b"', id="c1")), "3")),
    "replies-that-are-none": Kind(
        agent(
            "",
            LlmResponse("half", finish_reason="length"),
            LlmResponse("so far ", finish_reason="pause"),
            "and on",
        )
    ),
    "a-refusal": Kind(agent(LlmResponse("no", finish_reason="refusal"))),
    "a-filter": Kind(agent(LlmResponse("", finish_reason="content_filter"))),
    "too-many-bad-replies": Kind(agent("", "", "", "")),
    "a-provider-that-fails": Kind(
        agent(LlmTransportError("503", retryable=True), LlmResponse("x", finish_reason="error"), "3")
    ),
    "a-provider-that-refuses": Kind(agent(LlmRejectedError("400: no such model"))),
    "a-model-that-breaks": Kind(agent(KeyError("odd"), "3", policy=ObserveErrors())),
    "tools-that-fail": Kind(
        agent(
            say(call("picky", {"n": 12}, id="c1")),
            say(call("boom", {"why": "rain"}, id="c2")),
            say(call("boom", id="c3")),
            "3",
            tools=[picky, boom],
            exclude_after=2,
        )
    ),
    "a-tool-that-ends-the-run": Kind(agent(say(call("boom", id="c1")), policy=FailFast())),
    "a-table-of-recoveries": Kind(
        agent(
            say(call("flaky", id="c1")),
            say(call("nope", id="c2")),
            LlmTransportError("503"),
            say(ADD),
            "3",
            tools=[flaky, add],
            policy=Recovery(
                {
                    OSError: Retry(),
                    UnknownToolError: Reprompt(OnceWithToolCatalog(), consume_budget=False),
                    LlmTransportError: Retry(consume_budget=False),
                },
                backoff=Backoff(2.0),
            ),
        )
    ),
    "a-policy-that-stops": Kind(
        agent(say(call("boom", id="c1")), "3", policy=Recovery({ToolFailedError: Interrupt()})),
        decisions=[[]],
    ),
    "reprompted-so-often": Kind(agent(say(call("nope")), say(call("nope")), policy=RepromptN(1))),
    "a-loop": Kind(agent(*[say(call("add", {"a": 1, "b": 2}, id=f"c{n}")) for n in range(9)])),
    "a-loop-of-one": Kind(agent(*[say(ADD)] * 3, loop_guard=LoopGuard(1, 2))),
    **{
        f"out-of-{name}-{on_limit}": Kind(
            agent(say(ADD, content="I add"), say(AGAIN), "then 3", budget=budget, on_limit=on_limit)
        )
        for name, budget in {
            "steps": Budget(2),
            "tokens": Budget(tokens=8),
            "cost": Budget(cost=8.0, prices={"m": (1e6, 1e6)}),
            "tool-calls": Budget(tool_calls=1),
            "seconds": Budget(seconds=1.5),
        }.items()
        for on_limit in ("fail", "partial", "answer")
    },
    "priced": Kind(agent(LlmResponse("3", usage=CACHED), budget=PRICED)),
    "approvals": Kind(
        agent(
            say(*(call("pay", {"euros": n}, id=f"c{n}") for n in range(4)), ADD),
            "paid",
            tools=[pay, add],
            tool_concurrency=8,
            approval_ttl=60.0,
        ),
        decisions=[[Approve(), ApproveWith({"euros": 9}), Refuse("too much"), Refuse()]],
    ),
    "calls-that-are-made-elsewhere": Kind(
        agent(
            say(call("measure", {"place": "a"}, id="c1"), call("measure", {"place": "b"}, id="c2")),
            "3",
            tools=[measure],
        ),
        decisions=[[Provide(1.5), Provide(error="out of reach")]],
    ),
    "progress": Kind(agent(say(call("busy", id="c1")), "3", tools=[busy])),
    "a-call-that-ends-the-run": Kind(
        agent(say(call("stop", {"word": "enough"}, id="c1"), ADD), tools=[stop, add])
    ),
    "a-picture": Kind(
        agent(say(call("draw", id="c1")), "a dot", tools=[draw], traits=LlmTraits(images=True)),
        task=["What is it?", Image(url="https://example.org/a.png")],
    ),
    "a-history": Kind(
        agent("4", instructions="be exact"),
        options={
            "history": [
                Message(Role.SYSTEM, "of before"),
                Message(Role.USER, "1 + 2?"),
                Message(Role.ASSISTANT, "", None, (ADD,)),
                Message(Role.TOOL, "3", "c1"),
                Message(Role.ASSISTANT, "3"),
                Message(Role.TOOL, "orphan", "c9"),
            ]
        },
    ),
    "a-history-of-two": Kind(  # the id of its call is taken
        agent(say(ADD), "3"),
        options={"history": [Message(Role.ASSISTANT, "", None, (ADD,)), Message(Role.TOOL, "3", "c1")]},
    ),
    "options-of-a-run": Kind(
        agent(say(ADD), "3", settings=ModelSettings(temperature=0.5, tool_choice="required")),
        options={
            "settings": ModelSettings(seed=7),
            "budget": Budget(3),
            "instructions": "be quick",
            "deps": object(),
        },
    ),
    "advice": Kind(agent(say(ADD), "3", playbook=Shelf(), instructions="be exact")),
    "tools-that-change": Kind(
        agent(say(ADD), say(call("add", {"a": 2, "b": 2}, id="c2")), "3", tools=[DynamicTools(offered)])
    ),
    "an-answer-by-a-final-tool": Kind(
        agent(
            final("final_Sum", {"a": 1}),
            say(call("final_Sum", {"a": 1, "total": 2}, id="f2"), ADD),
            final("final_Excuse", {"why": "busy"}, "f3"),
            output_type=Sum | Excuse,
            output_checks=[lambda output: check_total(output) if isinstance(output, Sum) else output],
        )
    ),
    "an-answer-by-a-schema": Kind(
        agent(
            '{"a": 1, "total": "x"}',
            '{"a": 1, "total": 2}',
            '{"a": 1, "total": 3}',
            output_type=Sum,
            tools=[],
            output_checks=[check_total],
            traits=LlmTraits(native_output=True),
        )
    ),
    "an-answer-in-words": Kind(
        agent("three", '```json\n{"a": 1, "total": 3}\n```', output_type=Sum, output_mode="prompted")
    ),
    "a-stream": Kind(
        agent(say(ADD, content="I add it up"), "the sum is 3", llm=Streaming), options={"stream": True}
    ),
    "a-stream-of-a-typed-answer": Kind(
        agent(
            final("final_answer", {"a": 1, "total": 2}),
            final("final_answer", {"a": 1, "total": 1234567}),
            llm=Streaming,
            output_type=Sum,
            output_checks=[check_total],
        ),
        options={"stream": True},
    ),
    "a-stream-that-is-held": Kind(
        agent(
            say(ADD, content="I add it up"),
            "the sum is 3",
            llm=Streaming,
            middleware=[OutputGuard(lambda output: True)],
        ),
        options={"stream": True},
    ),
    "a-stream-that-is-refused": Kind(
        agent("the sum is 3", llm=Streaming, middleware=[OutputGuard(lambda output: "no sums")]),
        options={"stream": True},
    ),
    "middleware": Kind(
        agent(
            say(ADD, call("boom", id="c2")), LlmResponse("3", usage=Usage(2, 1)), "four", middleware=[Twice()]
        )
    ),
    "a-guard": Kind(agent(say(ADD), "3", middleware=[Refusing()])),
    "a-hand-off": Kind(
        team(
            say(call("transfer_to_sums", id="t1"), ADD, content="over to you"),
            other=agent(say(AGAIN), "3", name="sums", instructions="add"),
            instructions="hand over",
        )
    ),
    "an-agent-inside": Kind(
        outer(
            say(call("inner", {"task": "1 + 2"}, id="c1"), AGAIN),
            "3",
            below=inner(say(call("boom", id="b1")), "3"),
            tool_concurrency=8,
        )
    ),
    "an-agent-inside-that-fails": Kind(
        outer(say(call("inner", {"task": "1 + 2"}, id="c1")), "3", below=inner("", budget=Budget(1)))
    ),
    "an-agent-inside-that-waits": Kind(
        outer(
            say(call("inner", {"task": "1 + 2"}, id="c1")),
            say(content="3"),
            below=inner(say(call("pay", {"euros": 1}, id="b1")), say(content="paid"), tools=[pay]),
            budget=Budget(cost=99.0, prices={"m": (1e6, 1e6)}),
        ),
        decisions=[[Approve()]],
    ),
    "results-that-are-cleared": Kind(
        agent(*map(hop, range(4)), "3", tools=[page], context=[ClearToolResults(300, keep=1)])
    ),
    "a-window": Kind(agent(*map(hop, range(5)), "3", tools=[page], context=[Window(400)])),
    "results-that-are-cut": Kind(agent(hop(0, 900), "3", tools=[page], context=[TrimResults(100)])),
    "a-summary": Kind(
        agent(
            *map(hop, range(3)),
            summary,
            "3",
            tools=[page],
            context=[Summarise(350, keep_tokens=150)],
        )
    ),
    "a-tool-of-json": Kind(
        agent(
            say(call("take", {"n": 3}, id="c1")),
            "3",
            tools=[JsonTool("take", "Take.", {"type": "object"}, lambda args: {"took": args, "none": None})],
        )
    ),
    **{
        f"a-summary-that-{name}": Kind(
            agent(*map(hop, range(3)), reply, "3", tools=[page], context=[Summarise(350, keep_tokens=150)])
        )
        for name, reply in {
            "is-empty": LlmResponse(" ", usage=Usage(7, 1)),
            "ends-in-an-error": LlmResponse("x", finish_reason="error", usage=Usage(9, 1)),
        }.items()
    },
    "a-summary-that-fails": Kind(
        agent(
            *map(hop, range(3)),
            fails,
            LlmResponse(" ", usage=Usage(7, 1)),
            LlmResponse("x", finish_reason="error", usage=Usage(9, 1)),
            "3",
            "4",
            tools=[page],
            context=[Summarise(350, keep_tokens=150), Window(600)],
        )
    ),
    "no-summary-for-the-last-answer": Kind(
        agent(
            *map(hop, range(3)),
            "3",
            tools=[page],
            budget=Budget(3),
            on_limit="answer",
            context=[Summarise(350, keep_tokens=150), Window(600)],
        )
    ),
    "no-summary-when-calls-are-spent": Kind(
        agent(
            *map(hop, range(2)),
            say(call("page", {"n": 2, "size": 9}, id="p2"), content="x" * 400),
            "3",
            tools=[page],
            budget=Budget(9, tool_calls=2),
            on_limit="answer",
            context=[Summarise(350, keep_tokens=150), Window(600)],
        )
    ),
    "parts-inside-and-what-was-spent": Kind(
        agent(
            say(call("looks", id="c1")),
            "3",
            tools=[looks],
        )
    ),
    "the-last-answer-is-none": Kind(
        agent(say(ADD), say(AGAIN), budget=Budget(1), on_limit="answer", output_type=Sum)
    ),
    "the-last-answer-is-refused": Kind(
        agent(
            say(ADD),
            LlmResponse(
                "no", tool_calls=(call("final_answer", {"a": 1, "total": 3}),), finish_reason="refusal"
            ),
            budget=Budget(1),
            on_limit="answer",
            output_type=Sum,
        )
    ),
    "an-answer-that-was-cut": Kind(
        agent(
            LlmResponse(tool_calls=(call("final_answer", '{"a": 1, "to', id="f1"),), finish_reason="length"),
            LlmResponse(
                tool_calls=(call("final_answer", {"a": 1, "total": 3}, id="f2"),), finish_reason="refusal"
            ),
            output_type=Sum,
        )
    ),
    "stopped-from-inside": Kind(
        agent(say(call("cancels", id="c1"), ADD), "3", tools=[tool(cancels), add]), decisions=[[]]
    ),
    "a-tool-with-several-runs": Kind(several, decisions=[[Approve()]]),
    "a-limit-above-met-in-a-tool": Kind(lambda clock: several(clock, budget=Budget(3), on_limit="answer")),
    "a-policy-that-breaks": Kind(agent("", policy=Broken())),
    "a-policy-that-decides-nothing": Kind(agent(say(call("boom", id="c1")), policy=Odd())),
    "a-state": Kind(
        agent(say(AGAIN), "3"),
        task={
            "input": "q",
            "agent_scratchpad": [Thought("hm"), Action(ADD), Observation(3, "c1")],
            "iteration_count": 2,
        },
        is_replayed=False,  # a recording has no scratchpad
    ),
    "polling-is-no-loop": Kind(polling),
    "an-agent-inside-that-is-tried-again": Kind(
        outer(
            say(call("inner", {"task": "1 + 2"}, id="c1")),
            "3",
            below=inner(KeyError("odd"), KeyError("odd"), KeyError("odd"), "3"),
            policy=Recovery({ToolFailedError: Retry()}),
        )
    ),
    "a-cost-above": Kind(
        outer(
            say(call("inner", {"task": "1 + 2"}, id="c1")),
            below=inner(say(ADD), say(AGAIN), "3"),
            budget=PRICED,
        )
    ),
    "a-limit-above": Kind(
        outer(
            say(call("inner", {"task": "1 + 2"}, id="c1")),
            "3",
            below=inner(say(ADD), say(AGAIN), "3"),
            budget=Budget(2),
            on_limit="answer",
        )
    ),
}


async def run(kind: Kind, **options: Any) -> tuple[Agent[Any, Any], list[Event], Outcome[Any]]:
    made = kind.agent(FakeClock(1000.0))
    outcome = await made.outcome(kind.task, run_id="r", **{**options, **kind.options})
    events = [*outcome.events]
    check_events(events)
    for decisions in kind.decisions:
        assert isinstance(outcome, Interrupted), outcome
        back = from_json(Interrupted, to_json(outcome))
        given = {one.token: each for one, each in zip(back.pending, decisions, strict=True)}
        outcome = await made.runtime.resume(back, given, **options)
        events += outcome.events
    return made, events, outcome


def as_text(events: Sequence[Event], outcome: Outcome[Any]) -> str:
    """A line for each event, and one for the outcome; without what differs whenever the run is run again."""
    lines = [_line(event, "run_id", "duration_ms" if hasattr(event, "tool_name") else "") for event in events]
    return "".join(f"{line}\n" for line in [*lines, _line(outcome, "run_id", "settings", "budget")])


def _line(value: Any, *left_out: str) -> str:
    plain = json.loads(to_json(value))
    if "tools" in plain:
        plain["tools"] = [one if isinstance(one, str) else one["name"] for one in plain["tools"]]
    return json.dumps({name: plain[name] for name in plain if name not in left_out}, ensure_ascii=False)


def check_requests(llm: Any, events: Sequence[Event]) -> None:
    """What a log says that the model was sent is what it was sent."""
    sent = [tuple(one.messages) for one in llm.requests if "You condense" not in one.messages[0].text]
    if sent and not any(
        isinstance(event, HandedOff) for event in events
    ):  # after that, another model is asked
        assert [one.messages for one in Recording("r", tuple(events)).requests()] == sent


@pytest.mark.parametrize("name", KINDS)
async def test_a_run_of_each_kind_is_logged_as_it_was(name: str) -> None:
    made, events, outcome = await run(KINDS[name])
    expected.check(LOGS / f"{name}.txt", as_text(events, outcome))
    check_requests(made.llm, events)
    if KINDS[name].is_replayed:
        again = await replay(Recording("r", tuple(events)), made)
        expected.check(LOGS / f"{name}.txt", as_text(again.events, again))


async def test_a_run_with_a_token_is_logged_so_too_and_leaves_nothing_behind() -> None:
    """No task, no error that nobody looked at, nothing that waits for the token."""
    loop, lost = asyncio.get_running_loop(), list[Any]()
    loop.set_exception_handler(lambda _, context: lost.append(context))
    for name, kind in KINDS.items():
        token = CancellationToken()
        _, events, outcome = await run(kind, cancellation=token)
        logged = (LOGS / f"{name}.txt").read_text(encoding="utf-8")
        assert _unordered(as_text(events, outcome)) == _unordered(logged), name
        assert not token._watchers, name
        assert asyncio.all_tasks() == {asyncio.current_task()}, name
    gc.collect()
    assert lost == []


def _unordered(log: str) -> list[str]:
    """The lines without numbers and times: calls that run at once may end in any order."""
    return sorted(re.sub(r'"(?:seq|at)": [\d.]+, ', "", line) for line in log.split("\n"))


def test_no_log_is_left_over() -> None:
    expected.check_names(LOGS, KINDS)
