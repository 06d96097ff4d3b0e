"""An agent as a node: one visit is one whole run of the loop, and one update of the state at its end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wesichain.agent import AgentRuntime, Failed, Interrupted, LoopGuard, Outcome
from wesichain.core import (
    PromptTemplate,
    ToolCallingLlm,
    read_state,
    state_update,
    to_plain,
    write_state,
)
from wesichain.errors import ConfigError, GraphError, NodeFailedError
from wesichain.graph.context import GraphContext, pause, recall
from wesichain.graph.state import StateUpdate
from wesichain.policy import Budget
from wesichain.tools import ToolRegistry, ToolSet

from .approvals import decisions, question, stored
from .failures import ToolFailurePolicy, raise_failure
from .hosting import Listener, instructions, seconds_left
from .recorded import NodeRecording


class ReActAgentNode:
    """A ReAct agent as a node of a graph.

    Works on a `ReActState`, on a class with its attributes, or on a dict with the keys `input`,
    `agent_scratchpad`, `final_output` and `iteration_count`. Each model call counts against
    `max_iterations` and the steps that the graph has left; out of them, the last content is the answer.
    """

    def __init__(
        self,
        *,
        llm: ToolCallingLlm,
        tools: Iterable[Any] | ToolRegistry = (),
        prompt: str | PromptTemplate | None = None,
        max_iterations: int = 12,
        tool_failure_policy: ToolFailurePolicy = ToolFailurePolicy.FAIL_FAST,
        loop_guard: LoopGuard | None = None,
        tool_concurrency: int = 1,
        stream: bool = False,
    ) -> None:
        """`prompt` says how to behave; a template's placeholders are filled from the state."""
        if max_iterations < 1:
            raise ConfigError(f"max_iterations={max_iterations}: an agent needs at least one")
        self._llm = llm
        self._registry = tools if isinstance(tools, ToolRegistry) else ToolSet.of(tools).build()
        self._prompt = prompt
        self._max_iterations = max_iterations
        self._policy = ToolFailurePolicy(tool_failure_policy).engine()
        self._loop_guard = loop_guard
        self._tool_concurrency = tool_concurrency
        self._stream = stream
        self._runtime()  # a wrong setting is found here, not at the first visit

    def _runtime(self) -> AgentRuntime[str]:
        """A runtime for one visit: what a token was used for is the journal's to know, not its."""
        return AgentRuntime(
            self._llm,
            self._registry,
            policy=self._policy,
            on_limit="partial",
            tool_concurrency=self._tool_concurrency,
            exclude_after=None,
            loop_guard=self._loop_guard,
        )

    async def invoke(self, state: Any, ctx: GraphContext | None = None) -> StateUpdate:
        """Run the agent on the state."""
        ctx = ctx or GraphContext()
        listener, recording = Listener(ctx), NodeRecording(ctx.record)
        try:
            outcome = await self._run(state, ctx, listener, recording)
        finally:
            await listener.settle()
            recording.check()
        read = read_state(state if outcome is None else outcome.state)
        if isinstance(outcome, Failed):
            raise_failure(outcome, node=ctx.node, state=write_state(state, read))
        if isinstance(outcome, Interrupted):
            if not outcome.pending:
                raise NodeFailedError(f"node {ctx.node!r}: the run stopped: {outcome.reason}", node=ctx.node)
            pause(question(outcome.pending), to_plain(outcome))
        if outcome is None:
            read.final_output, read.stopped_by = "", "steps"
        else:
            read.stopped_by = outcome.stopped_by
        return StateUpdate(state_update(state, read), whole=True)

    async def _run(
        self, state: Any, ctx: GraphContext, listener: Listener, recording: NodeRecording
    ) -> Outcome[str] | None:
        """The run of one visit, or the rest of it after a person was asked; None if nothing may be spent."""
        runtime, parent = self._runtime(), listener.context()
        run_id = f"{ctx.run_id}:{ctx.scope}:{ctx.step}" if ctx.run_id else None
        idle = runtime.start(state, instructions=instructions(self._prompt, state), run_id=run_id)
        limit = self._max_iterations
        if ctx.remaining_steps is not None:
            limit = min(limit, idle.info.step + ctx.remaining_steps)
        if limit < 1:
            return None
        budget = Budget(steps=limit, seconds=seconds_left(ctx))
        stream, effects = self._stream or ctx.is_streamed, recording.effects
        if (answered := recall()) is None:
            return await runtime.run(
                idle, budget=budget, parent=parent, stream=stream, effects=effects, clock=ctx.clock
            )
        interrupted = stored(answered.memo)
        try:
            decided = decisions(answered.value, interrupted.pending, runtime.refusal_of)
        except GraphError as error:
            pause(question(interrupted.pending), answered.memo, problem=str(error))
        return await runtime.resume(
            interrupted, decided, budget=budget, parent=parent, stream=stream, effects=effects
        )
