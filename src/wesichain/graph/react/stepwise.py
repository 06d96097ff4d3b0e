"""The loop as a graph: each model call and each batch of tools is a node, with a checkpoint after it.

It is the same loop, taken in steps (`Drive.step`): see `steps` for its nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wesichain.agent import LoopGuard
from wesichain.core import Clock, PromptTemplate, ToolCallingLlm
from wesichain.core.internal import read_state, write_state
from wesichain.graph.builder import GraphBuilder
from wesichain.graph.checkpoints.checkpointer import Checkpointer
from wesichain.graph.context import DEFAULTS, ExecutionOptions, Sinks
from wesichain.graph.definition import END
from wesichain.graph.graph import Graph
from wesichain.graph.state.kinds import is_mapping
from wesichain.policy import Budget
from wesichain.tools import ToolRegistry

from .failures import ToolFailurePolicy
from .hosting import node_runtime
from .loop_nodes import ReActOutput, ReActSteps, ReactSteps, after_model

_GUARD = LoopGuard()
_STATE = "state"  # the form of a thread that was begun with an object, rather than a text or a mapping


class ReActForm:
    """States as a ReAct run reads them: a question as a text, a mapping, or an object.

    A text and a mapping come back as a dict, an object as one of its class, from `invoke` and `stream` alike.
    `resume` knows the thread, not the object: it gives a dict, or a `ReActState` where an object was given.
    """

    def read(self, given: Any) -> Any:
        """The input, as keys of the state. A part that says nothing leaves the thread's own alone."""
        if given is None:
            return None
        if isinstance(given, str):
            return {"input": given, "form": "dict"}
        if is_mapping(given):
            return {"form": "dict", **given}
        read = read_state(given)
        taken: dict[str, Any] = {"input": read.user_input, "form": _STATE}
        if read.scratchpad:
            taken["agent_scratchpad"] = read.scratchpad
        if read.iteration_count:
            taken["iteration_count"] = read.iteration_count
        return taken

    def write(self, state: Any, given: Any) -> Any:
        """The state without what the graph needs for itself, in the form of what was given."""
        if not is_mapping(state) or "input" not in state:
            return state
        shown = {key: state[key] for key in ReActOutput.__annotations__ if key in state}
        is_object = not (given is None or isinstance(given, str) or is_mapping(given))
        if not is_object and state.get("form") != _STATE:
            return shown
        read = read_state(shown)
        read.stopped_by = shown.get("stopped_by")
        return write_state(given, read) if is_object else read


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
) -> Graph[Any]:
    """A ReAct agent as the nodes `prepare`, `model` and `tools`: `graph.invoke("...")`.

    There is a checkpoint after every model call and every batch of tools, `interrupt_before=["tools"]`
    stops before they run, and a tool with `approval=True` asks (`GraphInterruptedError`) before it does.
    A thread that is asked again remembers what was asked and answered on it: all of it, or with `max_tokens`
    the newest that fits. `context` is the tools' deps.
    """
    runtime = node_runtime(
        llm, tools, policy=tool_failure_policy, loop_guard=loop_guard, tool_concurrency=tool_concurrency
    )
    budget = Budget(steps=max_iterations)
    steps = ReactSteps(runtime, prompt=prompt, budget=budget, stream=stream, max_tokens=max_tokens)
    builder = GraphBuilder(ReActSteps, output_type=ReActOutput)
    builder.add_node("prepare", steps.prepare, blocking=False)
    builder.add_node("model", steps.model, blocking=False).add_node("tools", steps.tools, blocking=False)
    builder.set_entry("prepare").add_edge("prepare", "model").add_edge("tools", "model")
    builder.add_conditional_edges("model", after_model, {"tools": "tools", "end": END})
    # The loop guard sees to repeated calls, and a state with a conversation in it never comes again.
    defaults = ExecutionOptions(max_steps=max(100, 2 * max_iterations + 3), cycle_detection=False)
    return Graph(
        builder.build().definition,
        defaults=defaults.over(DEFAULTS),
        checkpointer=checkpointer,
        events=events,
        clock=clock,
        new_id=new_id,
        form=ReActForm(),
    )
