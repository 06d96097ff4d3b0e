"""An agent's run inside a node: its options, its events, its approvals and its errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum
from sys import maxsize
from typing import Any

from typing_extensions import override

from wesichain.agent import (
    AgentRuntime,
    Approve,
    ApproveWith,
    Completed,
    Decision,
    Failed,
    Interrupted,
    LoopGuard,
    Outcome,
    Provide,
    Refuse,
)
from wesichain.agent.internal import check_decision
from wesichain.core import Event, PromptTemplate, ToolCallingLlm
from wesichain.core.internal import PendingCall, RefusalOf, from_plain, replace, to_plain
from wesichain.errors import (
    CodecError,
    ConfigError,
    CycleDetectedError,
    GraphError,
    InvalidModelActionError,
    InvalidToolCallResponseError,
    LoopDetectedError,
    NodeFailedError,
    ToolCallFailedError,
    ToolFailedError,
)
from wesichain.graph.context import GraphContext
from wesichain.graph.questions import Answered, pause, recall
from wesichain.graph.state.kinds import is_mapping
from wesichain.graph.watch.report import RunLog, RunReport, ScopedSink
from wesichain.policy import Budget, FailFast, N, PolicyDecision, PolicyEngine, Reprompt, RunView
from wesichain.tools import ToolContext, ToolRegistry, ToolSet

from .recorded import NodeRecording


def node_runtime(
    llm: ToolCallingLlm,
    tools: Iterable[Any] | ToolRegistry,
    *,
    policy: ToolFailurePolicy,
    loop_guard: LoopGuard | None,
    tool_concurrency: int,
) -> AgentRuntime[str]:
    """Build the runtime of an agent node. When its steps are used up, the last content is the answer."""
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
    """Return the prompt as a text, with a template's placeholders filled from the state."""
    if not isinstance(prompt, PromptTemplate):
        return prompt
    if is_mapping(state):
        return prompt.render(**{name: state[name] for name in prompt.variables if name in state})
    return prompt.render(**{name: getattr(state, name) for name in prompt.variables if hasattr(state, name)})


def seconds_left(ctx: GraphContext) -> float | None:
    return None if ctx.deadline is None else max(0.0, ctx.deadline - ctx.clock.monotonic())


def run_id_in(ctx: GraphContext) -> str | None:
    """Return the id of the run that starts in a visit; a repeated visit has the same id."""
    return f"{ctx.run_id}:{ctx.scope}:{ctx.step}" if ctx.run_id else None


def run_options(
    ctx: GraphContext,
    emit: Callable[[Event], None] | None,
    recording: NodeRecording | None,
    *,
    budget: Budget,
    stream: bool,
) -> dict[str, Any]:
    """Build the options of an agent's run in a node: events go to `emit`, spending to the graph's account."""
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
    """Run an agent in a visit to a node, or resume its run with the decisions on its calls.

    `begin` is called with the options of a new run. A run that waits for approval pauses the node. A failed
    one raises a graph error, whose state `state_of` makes from the outcome.
    """
    events, report, recording = ctx.events, None, NodeRecording(ctx.record)
    if ctx.observer is not None and not isinstance(events, ScopedSink):  # no graph around it calls it
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
            memo, now = answer.question.memo, ctx.clock.time()
            waiting = read_interrupted(memo)
            decisions = decisions_of(answer, waiting.pending, runtime, now=now, memo=memo)
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
        pause(approval_question(outcome.pending), to_plain(outcome))
    return outcome


# --- approvals --------------------------------------------------------------------------------------

_RESTART = "start over with graph.invoke(..., ExecutionOptions(thread_id=..., restart=True))"


def approval_question(pending: Sequence[PendingCall]) -> dict[str, Any]:
    """Build the question to a human: each call, with the token that identifies its decision."""
    return {
        "reason": "external" if all(one.external for one in pending) else "approval",
        "calls": [_call_data(one) for one in pending],
    }


def _call_data(one: PendingCall) -> dict[str, Any]:
    data: dict[str, Any] = {"token": one.token, "id": one.call.id, "tool": one.call.name}
    data |= {"args": one.call.args, "scope": [*one.scope], "external": one.external}
    if one.expires_at is not None:
        data["expires_at"] = one.expires_at
    if one.why:
        data["why"] = one.why
    if one.question is not None:
        data["question"] = {"message": one.question.message, "schema": dict(one.question.schema)}
    return data


def decisions_of(
    answered: Answered, pending: Sequence[PendingCall], runtime: AgentRuntime[Any], *, now: float, memo: Any
) -> dict[str, Decision]:
    """Return the decisions in an answer; if the answer is not valid, ask the question again."""
    try:
        return read_decisions(answered.answer, pending, runtime.refusal_of, now=now)
    except (ConfigError, GraphError) as error:
        pause(approval_question(pending), memo, problem=str(error))


def read_decisions(
    answer: Any, pending: Sequence[PendingCall], refusal_of: RefusalOf, *, now: float
) -> dict[str, Decision]:
    """Read an answer: one decision for all calls, or a mapping from their tokens to decisions.

    A decision is `Approve()`, `ApproveWith(args)` or `Refuse(reason)`, or for short True or False. For a call
    that is executed elsewhere it is `Provide(value)`, `Provide(error=...)` or `Refuse(reason)`.
    """
    by_token = _decisions_by_token(answer, pending)
    for one in pending:
        check_decision(one, by_token[one.token], refusal_of, now=now, remedy=_RESTART)
    return by_token


def _decisions_by_token(answer: Any, pending: Sequence[PendingCall]) -> dict[str, Decision]:
    tokens = [one.token for one in pending]
    if is_mapping(answer) and answer and answer.keys() <= set(tokens):
        missing = [one.call.name for one in pending if one.token not in answer]
        if missing:
            raise GraphError(f"decide on every pending call: {', '.join(missing)} has no decision yet")
        return {token: _decision(answer[token]) for token in tokens}
    return dict.fromkeys(tokens, _decision(answer))


def read_interrupted(data: Any) -> Interrupted[str]:
    """Read an interrupted run from its stored data."""
    kind: Any = Interrupted
    interrupted: Interrupted[str] = from_plain(kind, data)
    return interrupted


def _decision(answer: Any) -> Decision:
    if isinstance(answer, Approve | ApproveWith | Refuse | Provide):
        return answer
    if answer is True:
        return Approve()
    if answer is False:
        return Refuse()
    try:
        decision: Decision = from_plain(Decision, answer)
    except CodecError as error:
        raise GraphError(
            f"{answer!r} is not a decision; answer with Approve(), ApproveWith(args), Refuse(reason), True "
            f"or False, for all calls or for each token"
        ) from error
    return decision


# --- failures ---------------------------------------------------------------------------------------


class ToolFailurePolicy(StrEnum):
    """Whether a failing tool ends the run. A malformed call always ends it."""

    FAIL_FAST = "fail_fast"
    APPEND_ERROR_AND_CONTINUE = "append_error_and_continue"

    @classmethod
    @override
    def _missing_(cls, value: object) -> ToolFailurePolicy:
        known = ", ".join(repr(one.value) for one in cls)
        raise ConfigError(f"{value!r} is not a tool_failure_policy; use one of {known}")

    def engine(self) -> PolicyEngine:
        return FailFast() if self is ToolFailurePolicy.FAIL_FAST else _AppendToolErrors()


class _AppendToolErrors(FailFast):
    """Returns tool errors to the model; every other error ends the run."""

    @override
    def on_tool_error(self, state: RunView, error: ToolFailedError) -> PolicyDecision:
        return Reprompt(N(maxsize))


def graph_error(error: Exception, *, node: str, state: Any) -> GraphError:
    """Convert the error of a failed run to a graph error. The scratchpad of `state` ends in an ErrorStep."""
    match error:
        case ToolFailedError():
            reason = str(error).removeprefix(f"tool {error.tool_name!r} failed: ")
            return ToolCallFailedError(error.tool_name, reason, node=node, state=state)
        case InvalidModelActionError():
            return InvalidToolCallResponseError(str(error), node=node, state=state)
        case LoopDetectedError():
            return CycleDetectedError(f"cycle detected: {error}", node=node, state=state)
        case _:
            return NodeFailedError(f"node {node!r}: the run failed: {error}", node=node, state=state)
