"""An agent as a node: one visit is one whole run of the loop, and one update of the state at its end."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from wesichain.agent import LoopGuard
from wesichain.core import PromptTemplate, ToolCallingLlm
from wesichain.core.internal import read_state, state_update, write_state
from wesichain.errors import ConfigError
from wesichain.graph.context import GraphContext
from wesichain.graph.state.updates import StateUpdate
from wesichain.policy import Budget
from wesichain.tools import ToolRegistry

from .failures import ToolFailurePolicy
from .hosting import instructions, node_runtime, run_id_in, run_in_node, seconds_left


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
        self._prompt = prompt
        self._max_iterations = max_iterations
        self._stream = stream
        self._runtime = node_runtime(
            llm,
            tools,
            policy=tool_failure_policy,
            loop_guard=loop_guard,
            tool_concurrency=tool_concurrency,
        )

    async def invoke(self, state: Any, ctx: GraphContext | None = None) -> StateUpdate:
        """Run the agent on the state."""
        ctx = ctx or GraphContext()
        text = instructions(self._prompt, state)
        idle = self._runtime.start(state, instructions=text, run_id=run_id_in(ctx))
        limit = self._max_iterations
        if ctx.remaining_steps is not None:
            limit = min(limit, idle.info.step + ctx.remaining_steps)
        if limit < 1:
            read = read_state(state)
            read.final_output, read.stopped_by = "", "steps"
            return StateUpdate(state_update(state, read), whole=True)
        outcome = await run_in_node(
            self._runtime,
            ctx,
            partial(self._runtime.run, idle),
            budget=Budget(steps=limit, seconds=seconds_left(ctx)),
            stream=self._stream,
            state_of=lambda failed: write_state(state, read_state(failed.state)),
        )
        read = read_state(outcome.state)
        read.stopped_by = outcome.stopped_by
        return StateUpdate(state_update(state, read), whole=True)
