"""The loop as a graph: each model call and each batch of tools is a node, with a checkpoint after it.

It is the same loop. Every tool is made to wait for approval, so that the loop stops before a batch; the
node `tools` approves what no person has to, and stops the loop again when the batch is done. Between
the nodes the run is an `Interrupted` outcome: kept as it is while the process lives, and made again from
the state in another one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, TypedDict

from typing_extensions import override

from wesichain.agent import (
    AgentRuntime,
    Approve,
    Caller,
    Completed,
    Decision,
    Effects,
    Failed,
    Interrupted,
    LoopGuard,
    Outcome,
    Refuse,
)
from wesichain.core import (
    Action,
    Clock,
    ErrorStep,
    Event,
    LlmRequest,
    LlmResponse,
    Message,
    PromptTemplate,
    ReActStep,
    RunInterrupted,
    ToolCall,
    ToolCallingLlm,
    read_state,
    to_plain,
    write_state,
)
from wesichain.errors import CycleDetectedError
from wesichain.graph.builder import GraphBuilder
from wesichain.graph.checkpoints import Checkpointer
from wesichain.graph.context import DEFAULTS, ExecutionOptions, GraphContext, Sinks
from wesichain.graph.definition import END
from wesichain.graph.graph import Graph
from wesichain.graph.state import Append, Overwrite, Untracked, is_mapping
from wesichain.policy import Budget
from wesichain.tools import (
    CancellationToken,
    PreparedCall,
    Tool,
    ToolRegistry,
    ToolResult,
    ToolSet,
)

from .approvals import decide, stored
from .failures import ToolFailurePolicy, raise_failure
from .listening import Listener
from .prompt import instructions, seconds_left

_NEXT = "the next node goes on"
_GUARD = LoopGuard()


class ReActOutput(TypedDict, total=False):
    """What a ReAct graph gives back."""

    input: str
    agent_scratchpad: Annotated[list[ReActStep], Append]
    final_output: str | None
    iteration_count: int


class ReActSteps(ReActOutput, total=False):
    """And what it needs on the way: the messages, the rest of the run, and the run itself while it lives."""

    messages: Annotated[list[Message], Append]
    run: dict[str, Any] | None
    live: Annotated[Any, Untracked]


class ReActGraph(Graph[Any]):
    """A graph that takes a question as a text, a dict or any state that a ReAct run reads, and gives back
    the same kind of state.
    """

    @override
    async def invoke(self, state: Any = None, options: ExecutionOptions | None = None) -> Any:
        if state is None or is_mapping(state):
            return await super().invoke(state, options)
        if isinstance(state, str):
            return await super().invoke({"input": state}, options)
        read = read_state(state)
        ended = await super().invoke(
            {
                "input": read.user_input,
                "agent_scratchpad": read.scratchpad,
                "iteration_count": read.iteration_count,
            },
            options,
        )
        return write_state(state, read_state(ended))


def react_graph(
    *,
    llm: ToolCallingLlm,
    tools: Iterable[Any] | ToolRegistry = (),
    checkpointer: Checkpointer | None = None,
    prompt: str | PromptTemplate | None = None,
    max_iterations: int = 12,
    tool_failure_policy: ToolFailurePolicy = ToolFailurePolicy.FAIL_FAST,
    loop_guard: LoopGuard | None = _GUARD,
    tool_concurrency: int = 1,
    stream: bool = False,
    events: Sinks = None,
    clock: Clock | None = None,
    new_id: Callable[[], str] | None = None,
) -> ReActGraph:
    """A ReAct agent as the nodes `prepare`, `model` and `tools`: `graph.invoke({"input": "..."})`.

    There is a checkpoint after every model call and every batch of tools, `interrupt_before=["tools"]`
    stops before they run, and a tool with `approval=True` asks (`GraphInterruptedError`) before it does.
    """
    steps = _Steps(
        llm,
        tools if isinstance(tools, ToolRegistry) else ToolSet.of(tools).build(),
        prompt=prompt,
        budget=Budget(steps=max_iterations),
        policy=tool_failure_policy,
        loop_guard=loop_guard,
        tool_concurrency=tool_concurrency,
        stream=stream,
    )
    builder = GraphBuilder(ReActSteps, output_type=ReActOutput)
    builder.add_node("prepare", steps.prepare).add_node("model", steps.model).add_node("tools", steps.tools)
    builder.set_entry("prepare").add_edge("prepare", "model").add_edge("tools", "model")
    builder.add_conditional_edges("model", _after_model, ["tools", END])
    # The loop guard sees to repeated calls, and a state with a conversation in it never comes again.
    defaults = ExecutionOptions(max_steps=max(100, 2 * max_iterations + 3), cycle_detection=False)
    return ReActGraph(
        builder.build().definition,
        defaults=defaults.over(DEFAULTS),
        checkpointer=checkpointer,
        events=events,
        clock=clock,
        new_id=new_id,
    )


class _Steps:
    """The nodes."""

    def __init__(
        self,
        llm: ToolCallingLlm,
        registry: ToolRegistry,
        *,
        prompt: str | PromptTemplate | None,
        budget: Budget,
        policy: ToolFailurePolicy,
        loop_guard: LoopGuard | None,
        tool_concurrency: int,
        stream: bool,
    ) -> None:
        self._llm = llm
        self._given = registry
        self._waiting = ToolRegistry(_that_waits(tool) for tool in registry)
        self._prompt = prompt
        self._budget = budget
        self._policy = ToolFailurePolicy(policy).engine()
        self._loop_guard = loop_guard
        self._tool_concurrency = tool_concurrency
        self._stream = stream
        self._runtime()  # a wrong setting is found here, not at the first visit

    def _runtime(self) -> AgentRuntime[str]:
        return AgentRuntime(
            self._llm,
            self._waiting,
            policy=self._policy,
            on_limit="partial",
            tool_concurrency=self._tool_concurrency,
            exclude_after=None,
            loop_guard=None,  # each leg of a run would count anew: `_check_repeats` looks at all of them
        )

    def prepare(self, state: ReActSteps) -> Mapping[str, Any]:
        """Begin anew: what a run before this one left on the thread is not this one's."""
        read_state(state)
        return {"messages": Overwrite([]), "run": None, "live": None, "final_output": None}

    async def model(self, state: ReActSteps, ctx: GraphContext) -> Mapping[str, Any]:
        """Ask the model; go on with its calls, or end with its answer."""
        runtime, listener = self._runtime(), Listener(ctx, _leg)
        budget = replace(self._budget, seconds=seconds_left(ctx))
        run, parent = _run_of(state), listener.context()
        try:
            if run is None:
                outcome = await runtime.run(
                    read_state(state),
                    instructions=instructions(self._prompt, state),
                    run_id=ctx.run_id,
                    budget=budget,
                    parent=parent,
                    stream=self._stream,
                )
            else:
                outcome = await runtime.resume(run, budget=budget, parent=parent, stream=self._stream)
        finally:
            await listener.settle()
        return _update(state, outcome, ctx)

    async def tools(self, state: ReActSteps, ctx: GraphContext) -> Mapping[str, Any]:
        """Run the calls of the last reply, after a person's word on those that need it."""
        run = _run_of(state)
        assert run is not None, "the model led here"
        if self._loop_guard is not None:
            _check_repeats(state, self._loop_guard, ctx.node)
        asked = [one for one in run.pending if self._needs_person(one.call)]
        decided: dict[str, Decision] = {one.token: Approve() for one in run.pending}
        if asked:
            decided |= decide(asked, self._given)
        approved = sum(not isinstance(decision, Refuse) for decision in decided.values())
        token, listener = CancellationToken(), Listener(ctx, _leg)
        if approved == 0:
            token.cancel(_NEXT)
        try:
            outcome = await self._runtime().resume(
                run,
                decided,
                cancellation=token,
                budget=replace(self._budget, seconds=seconds_left(ctx)),
                parent=listener.context(),
                effects=lambda live: _UntilDone(live, approved, token),
            )
        finally:
            await listener.settle()
        return _update(state, outcome, ctx)

    def _needs_person(self, call: ToolCall) -> bool:
        prepared = self._given.prepare(call)
        if not isinstance(prepared, PreparedCall):
            return False
        rule = prepared.tool.approval
        return rule(prepared.args) if callable(rule) else rule


def _after_model(state: ReActSteps) -> str:
    return "tools" if state.get("run") else END


class _UntilDone(Effects):
    """Runs tools, and stops the loop when the last of them is done: the model is asked by another node."""

    def __init__(self, live: Effects, calls: int, token: CancellationToken) -> None:
        self._live = live
        self._left = calls
        self._token = token

    @override
    async def ask(
        self, request: LlmRequest, *, step_id: int, on_text: Callable[[str], None] | None
    ) -> LlmResponse:
        return await self._live.ask(request, step_id=step_id, on_text=on_text)

    @override
    async def call(self, prepared: PreparedCall, caller: Caller) -> ToolResult:
        result = await self._live.call(prepared, caller)
        self._left -= 1
        if self._left == 0:
            self._token.cancel(_NEXT)
        return result


def _that_waits(tool: Tool) -> Tool:
    waiting = copy.copy(tool)
    waiting.approval = True
    return waiting


def _leg(event: Event) -> Event:
    """An event of one leg of the run: that it stops for the next node is nobody's business."""
    return replace(event, reason=_NEXT, pending=()) if isinstance(event, RunInterrupted) else event


def _check_repeats(state: ReActSteps, guard: LoopGuard, node: str) -> None:
    """End the run where the model has asked for the same call again and again."""
    times, last = 0, None
    for step in state.get("agent_scratchpad", []):
        if isinstance(step, Action):
            asked = (step.call.name, step.call.args)
            times, last = (times + 1 if asked == last else 1), asked
    if times < guard.stop_at:
        return
    message = f"cycle detected: the same call, with the same arguments, was asked for {times} times in a row"
    read = read_state(state)
    read.scratchpad.append(ErrorStep(message))
    raise CycleDetectedError(message, node=node, state=write_state(state, read))


def _run_of(state: ReActSteps) -> Interrupted[str] | None:
    """The run that the state holds, if one is under way."""
    live, rest = state.get("live"), state.get("run")
    if live is not None or rest is None:
        return live
    messages, steps = state.get("messages", []), state.get("agent_scratchpad", [])
    return stored({**rest, "messages": to_plain(messages), "steps": to_plain(steps)})


def _update(state: ReActSteps, outcome: Outcome[str], ctx: GraphContext) -> Mapping[str, Any]:
    """What one leg added to the state."""
    ended = read_state(outcome.state)
    if isinstance(outcome, Failed):
        raise_failure(outcome, node=ctx.node, state=write_state(state, ended))
    update: dict[str, Any] = {
        "messages": outcome.messages[len(state.get("messages", [])) :],
        "agent_scratchpad": outcome.steps[len(state.get("agent_scratchpad", [])) :],
        "iteration_count": ended.iteration_count,
        "final_output": ended.final_output,
    }
    if isinstance(outcome, Completed):
        return {**update, "run": None, "live": None}
    rest = {name: item for name, item in outcome.to_plain().items() if name not in ("messages", "steps")}
    return {**update, "run": to_plain(rest), "live": outcome}
