"""Hosting an agent's run inside a node: its options, its events, its questions and its failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from wesichain.agent import AgentRuntime, Completed, Failed, Interrupted, LoopGuard, Outcome
from wesichain.core import Event, PromptTemplate, ToolCallingLlm
from wesichain.core.internal import to_plain
from wesichain.errors import NodeFailedError
from wesichain.graph.context import GraphContext
from wesichain.graph.questions import pause, recall
from wesichain.graph.state.kinds import is_mapping
from wesichain.graph.watch.narrate import RunLog
from wesichain.graph.watch.report import RunReport, ScopedSink
from wesichain.policy import Budget
from wesichain.tools import ToolContext, ToolRegistry, ToolSet

from .approvals import decided, question, stored
from .failures import ToolFailurePolicy, graph_error
from .recorded import NodeRecording


def node_runtime(
    llm: ToolCallingLlm,
    tools: Iterable[Any] | ToolRegistry,
    *,
    policy: ToolFailurePolicy,
    loop_guard: LoopGuard | None,
    tool_concurrency: int,
) -> AgentRuntime[str]:
    """The runtime of an agent that a graph makes itself: out of steps, its last content is the answer."""
    return AgentRuntime(
        llm,
        tools if isinstance(tools, ToolRegistry) else ToolSet.of(tools).build(),
        policy=ToolFailurePolicy(policy).engine(),
        on_limit="partial",
        tool_concurrency=tool_concurrency,
        exclude_after=None,
        loop_guard=loop_guard,
    )


def instructions(prompt: str | PromptTemplate | None, state: Any) -> str | None:
    """The prompt as a text; a template's placeholders are filled from the state."""
    if not isinstance(prompt, PromptTemplate):
        return prompt
    if is_mapping(state):
        return prompt.render(**{name: state[name] for name in prompt.variables if name in state})
    return prompt.render(**{name: getattr(state, name) for name in prompt.variables if hasattr(state, name)})


def seconds_left(ctx: GraphContext) -> float | None:
    return None if ctx.deadline is None else max(0.0, ctx.deadline - ctx.clock.monotonic())


def run_id_in(ctx: GraphContext) -> str | None:
    """The id of the run that begins in a visit: the same when the visit is made again."""
    return f"{ctx.run_id}:{ctx.scope}:{ctx.step}" if ctx.run_id else None


def run_options(
    ctx: GraphContext,
    emit: Callable[[Event], None] | None,
    recording: NodeRecording | None,
    *,
    budget: Budget,
    stream: bool,
) -> dict[str, Any]:
    """The options of an agent's run in a node: it reports to `emit`, and spends from the graph's account."""
    parent = None
    if emit is not None or ctx.account is not None:
        parent = ToolContext(correlation_id=ctx.run_id, emit=emit, budget=ctx.account)
    return {
        "deps": ctx.context,
        "budget": budget,
        "parent": parent,
        "stream": stream or ctx.is_streamed,
        "effects": None if recording is None else recording.effects,
        "clock": ctx.clock,
    }


async def run_in_node(
    runtime: AgentRuntime[Any],
    ctx: GraphContext,
    begin: Callable[..., Awaitable[Outcome[Any]]],
    *,
    budget: Budget,
    stream: bool = False,
    state_of: Callable[[Failed[Any]], Any],
) -> Completed[Any]:
    """Run an agent in a visit to a node, or the rest of its run after a person was asked.

    `begin` is called with the options of a new run. A run that waits for a person pauses the node; one that
    failed raises the graph's error, with the state that `state_of` makes of the outcome.
    """
    events, report, recording = ctx.events, None, NodeRecording(ctx.record)
    if ctx.observer is not None and not isinstance(events, ScopedSink):  # there is no graph around to call it
        report = RunReport(RunLog(ctx.run_id, clock=ctx.clock), observer=ctx.observer)

    def receive(event: Event) -> None:
        if events is not None:
            events.emit(event)
        if report is not None:
            report.observe(event, ctx.node)

    if ctx.record is not None:
        ctx = replace(ctx, account=ctx.record.open_account(ctx.account))
    emit = None if events is None and report is None else receive
    options = run_options(ctx, emit, recording, budget=budget, stream=stream)
    try:
        if (answer := recall()) is None:
            outcome = await begin(run_id=run_id_in(ctx), **options)
        else:
            waiting = stored(answer.question.memo)
            memo, now = answer.question.memo, ctx.clock.time()
            decisions = decided(answer, waiting.pending, runtime, now=now, memo=memo)
            outcome = await runtime.resume_run(waiting, decisions, **options)
    finally:
        if report is not None:
            await report.settle()
        recording.check()
    if isinstance(outcome, Failed):
        raise graph_error(outcome.error, node=ctx.node, state=state_of(outcome)) from outcome.error
    if isinstance(outcome, Interrupted) and not outcome.pending:
        raise NodeFailedError(f"node {ctx.node!r}: the run stopped: {outcome.reason}", node=ctx.node)
    if ctx.record is not None:
        ctx.record.close_account()
    if isinstance(outcome, Interrupted):
        pause(question(outcome.pending), to_plain(outcome))
    return outcome
