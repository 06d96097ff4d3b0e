"""Agents as nodes: one visit runs the agent to its end and then updates the state once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeGuard, runtime_checkable

from wesichain.agent import Agent, LoopGuard
from wesichain.core import Message, PromptTemplate, Role, ToolCallingLlm
from wesichain.core.internal import positions_of, read_state, replace, state_update, write_state
from wesichain.errors import ConfigError, GraphDefinitionError, NodeFailedError
from wesichain.graph.context import GraphContext
from wesichain.graph.state.kinds import is_items, is_mapping
from wesichain.graph.state.reducers import Append
from wesichain.graph.state.schema import Schema
from wesichain.graph.state.updates import StateUpdate
from wesichain.policy import Budget
from wesichain.tools import ToolRegistry

from .agent_run import ToolFailurePolicy, instructions, node_runtime, run_id_in, run_in_node, seconds_left


class ReActAgentNode:
    """A ReAct agent as a node of a graph.

    The state is a `ReActState`, an object with its attributes, or a dict with the keys `input`,
    `agent_scratchpad`, `final_output` and `iteration_count`. Each model call counts against
    `max_iterations` and the remaining steps of the graph. When they are used up, the content of the last
    reply becomes the final output.
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
        """`prompt` has the instructions; a template's placeholders are filled from the state."""
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
        else:
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


# --- an Agent as a node -----------------------------------------------------------------------------

_TASKS = ("input", "task", "question", "user_input")
_OUTPUTS = ("output", "answer", "final_output")
_MESSAGES = "messages"


@runtime_checkable
class AgentLike(Protocol):
    """An object with an agent's `run` method."""

    async def run(self, task: str, *, deps: Any = None) -> Any: ...


class AgentNode:
    """An agent as a node of a graph.

    It reads its task from the key `input`, `task` or `question`, or else from the last message in `messages`;
    the messages before it are its history. It writes its answer to the key named like the node, or to
    `output`, `answer` or `final_output`, and its new messages to `messages`.
    """

    def __init__(
        self, agent: AgentLike, name: str, schema: Schema, task: Callable[..., Any] | None = None
    ) -> None:
        """`task` makes the agent's task from the state, or from the state and the context."""
        self._agent = agent
        self._name = name
        self._make_task = task
        self._output = next((key for key in (name, *_OUTPUTS) if key in schema.keys), None)
        if schema.is_open:
            self._output = "output"
        key = schema.keys.get(_MESSAGES)
        self._has_messages = key is not None and key.reducer is Append
        if self._output is None and not self._has_messages:
            raise GraphDefinitionError(
                f"node {name!r}: the state {schema.type.__name__} has no key for an agent's answer; add one "
                f"of {', '.join(map(repr, (name, *_OUTPUTS)))}, or messages: Annotated[list[Message], Append]"
            )

    async def invoke(self, state: Any, ctx: GraphContext) -> dict[str, Any]:
        """Run the agent on the state."""
        if self._make_task is None:
            task, history, is_message = self._task(state)
        else:
            task, history, is_message = await self._task_from_function(self._make_task, state, ctx), (), False
        agent = self._agent
        if not _is_wesichain_agent(agent):
            result = await agent.run(task, deps=ctx.context)
            return {} if self._output is None else {self._output: getattr(result, "output", result)}
        outcome = await run_in_node(
            agent.runtime,
            ctx,
            partial(agent.outcome, task, history=history),
            budget=_within_graph_limits(agent.runtime.budget, ctx),
            state_of=lambda _: state,
        )
        update: dict[str, Any] = {} if self._output is None else {self._output: outcome.output}
        if self._has_messages:
            new = [message for message in outcome.new_messages if message.role is not Role.SYSTEM]
            update[_MESSAGES] = new[1:] if is_message else new
        return update

    async def _task_from_function(self, make: Callable[..., Any], state: Any, ctx: GraphContext) -> Any:
        """Return the task that the node's task function makes: a text, or parts."""
        task = make(state, ctx) if positions_of(make)[0] > 1 else make(state)
        task = await task if inspect.isawaitable(task) else task
        if not task:
            raise NodeFailedError(
                f"node {self._name!r}: its task function returned {task!r}", node=self._name
            )
        return task

    def _task(self, state: Any) -> tuple[Any, Sequence[Message], bool]:
        """Return the agent's task, the history, and whether the task is the last message of the state."""
        if isinstance(state, str):
            return state, (), False
        value = _value(state, _MESSAGES)
        messages: list[Message] = [*value] if is_items(value) else []
        for key in _TASKS:
            task = _value(state, key)
            if isinstance(task, str) and task:
                return task, messages, False
        if messages and messages[-1].role is Role.USER:
            return messages[-1].content, messages[:-1], True
        raise NodeFailedError(
            f"node {self._name!r}: the state has no task for the agent; set one of "
            f"{', '.join(map(repr, _TASKS))}, or let its messages end with one of a user",
            node=self._name,
        )


def _within_graph_limits(budget: Budget, ctx: GraphContext) -> Budget:
    """Limit the agent's budget to the steps and seconds that the graph has left."""
    seconds = seconds_left(ctx)
    if ctx.remaining_steps is not None:
        budget = replace(budget, steps=max(1, min(budget.steps, ctx.remaining_steps)))
    if seconds is not None:
        budget = replace(budget, seconds=min(seconds, budget.seconds or seconds))
    return budget


def _value(state: Any, key: str) -> Any:
    return state.get(key) if is_mapping(state) else getattr(state, key, None)


def _is_wesichain_agent(agent: object) -> TypeGuard[Agent[Any]]:
    return isinstance(agent, Agent)


def is_agent(node: Any) -> TypeGuard[AgentLike]:
    """Whether a node is an agent, rather than a callable, a graph or an object with `invoke`."""
    return not callable(node) and not hasattr(node, "invoke") and isinstance(node, AgentLike)
