"""The loop as a graph: each model call and each batch of tools is a node, with a checkpoint after it.

It is the same loop, taken in steps (`Drive.step`): see `steps` for its nodes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from typing_extensions import override

from wesichain.agent import LoopGuard
from wesichain.core import Clock, PromptTemplate, ReActState, ToolCallingLlm, read_state, write_state
from wesichain.errors import GraphError
from wesichain.graph.builder import GraphBuilder
from wesichain.graph.checkpoints import Checkpointer
from wesichain.graph.context import DEFAULTS, ExecutionOptions, Sinks
from wesichain.graph.definition import END
from wesichain.graph.graph import Graph
from wesichain.graph.state import StateValues, is_mapping
from wesichain.policy import Budget
from wesichain.tools import ToolRegistry, ToolSet

from .failures import ToolFailurePolicy
from .loop_nodes import ReActOutput, ReActSteps, ReactSteps, after_model

_GUARD = LoopGuard()
_STATE = "state"  # the form of a thread that was begun with an object, rather than a text or a mapping


class ReActGraph(Graph[Any]):
    """A graph that takes a question as a text, a mapping, or an object that a ReAct run reads.

    A text and a mapping come back as a dict, an object as one of its class, from `invoke` and `stream` alike.
    `resume` knows the thread, not the object: it gives a dict, or a `ReActState` where an object was given.
    """

    @override
    async def invoke(
        self, state: Any = None, options: ExecutionOptions | None = None, *, context: Any = None
    ) -> Any:
        return await _in_form(state, super().invoke(_taken(state), options, context=context))

    @override
    async def _invoke(self, given: Any, how: Any) -> Any:
        return await _in_form(given, super()._invoke(_taken(given), how))

    @override
    async def _resume(self, thread_id: str, value: Any, checkpoint_id: str | None, how: Any) -> Any:
        return await _in_form(None, super()._resume(thread_id, value, checkpoint_id, how))

    @override
    def _out(self, values: StateValues) -> Any:
        ended = super()._out(values)
        return _as_state(ended) if values.data.get("form") == _STATE else ended


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
    max_tokens: int | None = None,
    events: Sinks = None,
    clock: Clock | None = None,
    new_id: Callable[[], str] | None = None,
) -> ReActGraph:
    """A ReAct agent as the nodes `prepare`, `model` and `tools`: `graph.invoke("...")`.

    There is a checkpoint after every model call and every batch of tools, `interrupt_before=["tools"]`
    stops before they run, and a tool with `approval=True` asks (`GraphInterruptedError`) before it does.
    A thread that is asked again remembers what was asked and answered on it: all of it, or with `max_tokens`
    the newest that fits. `context` is the tools' deps.
    """
    steps = ReactSteps(
        llm,
        tools if isinstance(tools, ToolRegistry) else ToolSet.of(tools).build(),
        prompt=prompt,
        budget=Budget(steps=max_iterations),
        policy=tool_failure_policy,
        loop_guard=loop_guard,
        tool_concurrency=tool_concurrency,
        stream=stream,
        max_tokens=max_tokens,
    )
    builder = GraphBuilder(ReActSteps, output_type=ReActOutput)
    builder.add_node("prepare", steps.prepare, blocking=False)
    builder.add_node("model", steps.model, blocking=False).add_node("tools", steps.tools, blocking=False)
    builder.set_entry("prepare").add_edge("prepare", "model").add_edge("tools", "model")
    builder.add_conditional_edges("model", after_model, {"tools": "tools", "end": END})
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


# --- forms of the state ----------------------------------------------------------------------------


def _is_object(state: Any) -> bool:
    return not (state is None or isinstance(state, str) or is_mapping(state))


def _taken(state: Any) -> Any:
    """The input, as keys of the state. A part that says nothing leaves the thread's own alone."""
    if state is None:
        return None
    if isinstance(state, str):
        return {"input": state, "form": "dict"}
    if is_mapping(state):
        return {"form": "dict", **state}
    read = read_state(state)
    taken: dict[str, Any] = {"input": read.user_input, "form": _STATE}
    if read.scratchpad:
        taken["agent_scratchpad"] = read.scratchpad
    if read.iteration_count:
        taken["iteration_count"] = read.iteration_count
    return taken


async def _in_form(given: Any, run: Awaitable[Any]) -> Any:
    """The end state of a run, or its error's, in the form of the state that it was given."""
    try:
        return _alike(given, await run)
    except GraphError as error:
        error.state = _alike(given, _shown(error.state))
        raise


def _alike(given: Any, ended: Any) -> Any:
    """The end state, as an object of the class that was given, if it was an object."""
    return write_state(given, _as_state(ended)) if _is_object(given) and ended is not None else ended


def _shown(state: Any) -> Any:
    """The state that an error carries, without what the graph needs for itself."""
    if not is_mapping(state) or "input" not in state:
        return state
    shown = {key: state[key] for key in ReActOutput.__annotations__ if key in state}
    return _as_state(shown) if state.get("form") == _STATE else shown


def _as_state(ended: Any) -> ReActState:
    read = read_state(ended)
    read.stopped_by = ended.get("stopped_by") if is_mapping(ended) else getattr(ended, "stopped_by", None)
    return read
