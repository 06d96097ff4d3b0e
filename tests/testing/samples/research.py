"""A research desk: a tool that runs several agents at once, an agent as a tool below it, and a report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.testing.samples.model import Seen
from wesichain import Agent, FailFast, LlmRequest, LlmResponse, ToolContext, tool
from wesichain.agent import Approve
from wesichain.testing import FunctionLlm, Scenario, Trace

TOPICS = ("price", "market")


@dataclass
class Desk:
    notes: dict[str, str] = field(default_factory=dict)
    published: list[tuple[str, ...]] = field(default_factory=list)
    asked: int = 0


@tool
async def note(ctx: ToolContext[Desk], topic: str) -> str:
    """Write down what was found on a topic."""
    await asyncio.sleep(0.1)
    ctx.deps.notes[topic] = f"{topic} is fine"
    return "OK noted"


@tool(approval=True)
async def publish(ctx: ToolContext[Desk]) -> str:
    """Publish the report: there is one, and the last version counts."""
    desk = ctx.deps
    missing = [topic for topic in TOPICS if topic not in desk.notes]
    if missing:
        return f"there is no note on {missing}"
    desk.published[:] = [tuple(desk.notes[topic] for topic in TOPICS)]
    return "OK published"


def reading(desk: Desk, tools: Any = None, **options: Any) -> Agent[Any, str]:
    """An agent that reads about one topic."""

    def model(request: LlmRequest) -> LlmResponse:
        desk.asked += 1
        seen = Seen(request)
        if not seen.good("note"):
            return seen.call(("note", {"topic": seen.task}))
        return seen.say(f"OK {seen.task}")

    return Agent(FunctionLlm(model), tools=tools or [note], name="reader", deps_type=Desk, **options)


@tool
async def research(ctx: ToolContext[Desk]) -> str:
    """Read about all topics at once."""
    runs = (reading(ctx.deps).run(topic, deps=ctx.deps, parent=ctx) for topic in TOPICS)
    return "OK " + ", ".join(one.output for one in await asyncio.gather(*runs))


def editor(request: LlmRequest) -> LlmResponse:
    seen = Seen(request)
    if not seen.good("publish") and seen.failed("publish") < 3:
        return seen.call(("publish", {}))
    return seen.say("OK published" if seen.good("publish") else "It could not be published.")


def editing(tools: list[Any]) -> Agent[Any, str]:
    return Agent(FunctionLlm(editor), tools=tools, name="editor", deps_type=Desk)


def chief(request: LlmRequest) -> LlmResponse:
    seen = Seen(request)
    if not seen.good("research") and seen.failed("research") < 3:
        return seen.call(("research", {}))
    if seen.good("research") and not seen.good("editor") and seen.failed("editor") < 2:
        return seen.call(("editor", {"task": "Publish it."}))
    return seen.say("Done.")


def one_report(trace: Trace) -> None:
    assert len(trace.world.published) <= 1, f"{len(trace.world.published)} reports"


def the_report_is_whole(trace: Trace) -> None:
    for report in trace.world.published:
        assert len(report) == len(TOPICS), f"a report of {len(report)} of {len(TOPICS)} notes"


def every_call_is_counted(trace: Trace) -> None:
    replies = sum(event.kind == "model_responded" for event in trace.events)
    assert trace.world.asked <= replies, (
        f"the model was asked {trace.world.asked} times, {replies} are in the log"
    )


# --- the same desk with mistakes --------------------------------------------------------------------------


@tool(name="publish", approval=True)
async def publish_another(ctx: ToolContext[Desk]) -> str:
    """Publish the report."""
    desk = ctx.deps
    missing = [topic for topic in TOPICS if topic not in desk.notes]
    if missing:
        return f"there is no note on {missing}"
    desk.published.append(tuple(desk.notes[topic] for topic in TOPICS))
    return "OK published"


@tool(name="research")
async def research_outside(ctx: ToolContext[Desk]) -> str:
    """Read about all topics at once, in runs that nobody accounts for."""
    runs = (reading(ctx.deps).run(topic, deps=ctx.deps) for topic in TOPICS)  # parent=ctx was forgotten
    return "OK " + ", ".join(one.output for one in await asyncio.gather(*runs))


def tools_with_a_memory() -> list[Any]:
    """The notes are kept in the process."""
    notes: dict[str, str] = {}

    @tool(name="note")
    async def note(topic: str) -> str:
        """Write down what was found on a topic."""
        await asyncio.sleep(0.1)
        notes[topic] = f"{topic} is fine"
        return "OK noted"

    @tool(name="research")
    async def research(ctx: ToolContext[Desk]) -> str:
        """Read about all topics at once."""
        runs = (reading(ctx.deps, tools=[note]).run(topic, deps=ctx.deps, parent=ctx) for topic in TOPICS)
        return "OK " + ", ".join(one.output for one in await asyncio.gather(*runs))

    @tool(name="publish", approval=True)
    async def publish(ctx: ToolContext[Desk]) -> str:
        """Publish the report."""
        ctx.deps.published[:] = [tuple(notes[topic] for topic in TOPICS if topic in notes)]
        return "OK published"

    return [research, editing([publish]).as_tool()]


@tool(name="research")
async def research_what_works(ctx: ToolContext[Desk]) -> str:
    """Read about all topics at once; what fails is left out, and it fails at the first fault."""
    readers = (reading(ctx.deps, policy=FailFast()) for _ in TOPICS)
    runs = (
        reader.run(topic, deps=ctx.deps, parent=ctx) for reader, topic in zip(readers, TOPICS, strict=True)
    )
    found = await asyncio.gather(*runs, return_exceptions=True)
    return "OK " + ", ".join(one.output for one in found if not isinstance(one, BaseException))


@tool(name="publish", approval=True)
async def publish_what_is_there(ctx: ToolContext[Desk]) -> str:
    """Publish the report."""
    desk = ctx.deps
    desk.published[:] = [tuple(desk.notes[topic] for topic in TOPICS if topic in desk.notes)]
    return "OK published"


MISTAKES: dict[str, tuple[str, Callable[[], Any]]] = {
    "publishes again": ("one_report", lambda: [research, editing([publish_another]).as_tool()]),
    "runs agents outside the tree": (
        "every_call_is_counted",
        lambda: [research_outside, editing([publish]).as_tool()],
    ),
    "keeps notes in the process": ("the_report_is_whole", tools_with_a_memory),
    "leaves out what fails": (
        "the_report_is_whole",
        lambda: [research_what_works, editing([publish_what_is_there]).as_tool()],
    ),
}


def scenario(mistake: str | None = None) -> Scenario:
    tools: Callable[[], Any] = (
        MISTAKES[mistake][1] if mistake else lambda: [research, editing([publish]).as_tool()]
    )
    return Scenario(
        lambda: Agent(FunctionLlm(chief), tools=tools(), name="chief", deps_type=Desk),
        "Write the report.",
        world=Desk,
        people=lambda pending: Approve(),
        invariants=[one_report, the_report_is_whole, every_call_is_counted],
    )
