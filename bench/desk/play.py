"""One run: an agent at a desk with fresh records, from the question to the judgement."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field, replace
from typing import Any

from wesichain.agent import Agent, Completed, Failed, Outcome
from wesichain.core import (
    Advice,
    ModelResponded,
    Role,
    StepFailed,
    StepStarted,
    ToolCallingLlm,
    ToolCompleted,
    ToolDispatched,
    ToolSpec,
    to_plain,
)
from wesichain.errors import BudgetExceededError, LlmTransportError, RunFailedError, RunInterruptedError
from wesichain.learning import ReasoningStep, TaskOutput, ToolInvocation
from wesichain.learning.entities import fingerprints_of
from wesichain.policy import Budget, ObserveErrors
from wesichain.tools import JsonTool

from .checker import Checked, check, open_records
from .values import Desk, DeskTool, Task

STEPS = 10
_NONE = Advice()


@dataclass(frozen=True, slots=True)
class Played:
    """A run and its judgement, as it is kept."""

    arm: str
    part: str
    world: str
    desk: str
    family: str
    task: str
    success: bool
    why: str
    steps: int
    read: int
    written: int
    ended: str
    answer: str
    prompt: str  # the instructions, with what an arm adds to them
    question: str  # as it was shown, with what an arm adds to it
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    order: int = 0
    shown: list[str] = field(default_factory=list[str])
    held: list[str] = field(default_factory=list[str])
    learning: dict[str, Any] = field(default_factory=dict[str, Any])
    revision: str = ""  # of the product that learned; "" before there were two


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run belongs in the experiment."""

    arm: str
    part: str
    world: str


@dataclass(frozen=True, slots=True)
class Seat:
    """Who plays, and what an arm gives to it."""

    llm: ToolCallingLlm
    instructions: str
    advice: Advice = _NONE
    run_id: str | None = None


async def play(
    seat: Seat, desk: Desk, task: Task, place: Place, *, question: str | None = None
) -> tuple[Played, Outcome[str]]:
    """Run the task once. `question` replaces the task's own words (a poisoned one)."""
    db = open_records(desk)
    try:
        agent = Agent(
            seat.llm,
            tools=[_tool(tool, db) for tool in desk.tools],
            instructions=seat.instructions,
            policy=ObserveErrors(),
            budget=Budget(steps=STEPS),
            exclude_after=None,
        )
        try:
            asked = question or task.question
            outcome: Outcome[str] = (await agent.run(asked, run_id=seat.run_id, advice=seat.advice)).outcome
        except (RunFailedError, RunInterruptedError) as error:
            outcome = error.outcome
        _check_reached(outcome)
        answer = outcome.text if isinstance(outcome, Completed) else None
        run = _played(task, outcome, check(desk, task.goal, db, answer), place)
        return replace(run, shown=list(seat.advice.shown), held=list(seat.advice.held)), outcome
    finally:
        db.close()


def output_of(run: Played, desk: Desk) -> TaskOutput:
    """A kept run as a learner takes it: what was learned can be learned again from the log alone."""
    steps: list[ReasoningStep] = []
    for call in (call for call in run.calls if "tool" in call):
        name, error = call["tool"], call.get("error")
        made = ToolInvocation(name, call["args"], call.get("result"), error is None, error)
        at = len(steps) + 1
        steps.append(ReasoningStep(at, f"call {name}", "call_tool", name, call["args"], invocations=(made,)))
    if run.ended == "completed":
        steps.append(ReasoningStep(len(steps) + 1, "answer", "finish", observation=run.answer))
    tools = [ToolSpec(tool.name, tool.description, tool.schema) for tool in desk.tools]
    notes: dict[str, Any] = {
        "run_id": f"{run.part}/{run.arm}/{run.task}/{run.order}",
        "task": run.question,
        "specs": [to_plain(tool) for tool in tools],
        "tools": fingerprints_of(tools),
        "shown": run.shown,
        "held": run.held,
    }
    return TaskOutput(
        run.task,
        run.answer,
        metadata=notes if run.ended == "completed" else {**notes, "error": run.ended},
        structured_trace=tuple(steps),
        tools_used=tuple(dict.fromkeys(call["tool"] for call in run.calls if "tool" in call)),
        total_iterations=len(steps),
    )


def _tool(tool: DeskTool, db: sqlite3.Connection) -> JsonTool:
    async def invoke(args: dict[str, Any]) -> Any:
        return tool.act(db, args)

    return JsonTool(tool.name, tool.description, tool.schema, invoke)


def _played(task: Task, outcome: Outcome[str], checked: Checked, place: Place) -> Played:
    events = outcome.events
    replies = [event.response for event in events if isinstance(event, ModelResponded)]
    first = next((event.messages for event in events if isinstance(event, StepStarted)), ())
    return Played(
        arm=place.arm,
        part=place.part,
        world=place.world,
        desk=task.desk,
        family=task.family,
        task=task.id,
        success=checked.success,
        why=checked.why,
        steps=len(replies),
        read=sum(reply.usage.input_tokens for reply in replies),
        written=sum(reply.usage.output_tokens for reply in replies),
        ended=_ended(outcome),
        answer=outcome.text if isinstance(outcome, Completed) else "",
        prompt="\n".join(message.text for message in first if message.role is Role.SYSTEM),
        question="\n".join(message.text for message in first if message.role is Role.USER),
        calls=_calls(outcome),
    )


def _check_reached(outcome: Outcome[str]) -> None:
    """A run whose model was away to its end says nothing: the experiment stops, and can go on later."""
    lost = [
        event.message
        for event in outcome.events
        if isinstance(event, StepFailed) and event.error == LlmTransportError.__name__
    ]
    if lost and isinstance(outcome, Failed) and isinstance(outcome.error, BudgetExceededError):
        raise RuntimeError(f"{lost[-1]}; start the same command again to go on")


def _ended(outcome: Outcome[str]) -> str:
    match outcome:
        case Completed():
            return "completed"
        case Failed():
            return type(outcome.error).__name__
        case _:
            return "interrupted"


def _calls(outcome: Outcome[str]) -> list[dict[str, Any]]:
    """The calls in order, each with its result or its error; a fault that is no call's stands alone."""
    found: list[dict[str, Any]] = []
    by_id: dict[str, dict[str, Any]] = {}
    for event in outcome.events:
        match event:
            case ToolDispatched():
                by_id[event.call_id] = {"tool": event.call.name, "args": event.call.args}
                found.append(by_id[event.call_id])
            case ToolCompleted() if event.call_id in by_id:
                by_id[event.call_id]["result"] = event.value
            case StepFailed() if event.call_id in by_id:
                by_id[event.call_id]["error"] = event.message
            case StepFailed():
                found.append({"fault": event.message})
            case _:
                pass
    return found
