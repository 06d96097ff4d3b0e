"""The ReAct loop as a graph: model calls and batches of tool calls are nodes, each followed by a checkpoint.

The nodes advance one run of the agent with `Drive.step`. The run stays in memory while the graph runs. With a
checkpointer it is also stored after each node: its messages and steps as keys of the state, the rest of it
as a snapshot from which `resume()` reopens it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypedDict, cast

from wesichain.agent import (
    Acting,
    AgentRuntime,
    ApproveWith,
    Completed,
    Conversation,
    Decision,
    Failed,
    Interrupted,
    LoopGuard,
    RunOptions,
)
from wesichain.agent.internal import OpenRun
from wesichain.core import ErrorStep, Event, Message, PromptTemplate, ReActStep, Role, ToolCallingLlm
from wesichain.core.internal import Clock, PendingCall, read_state, replace, to_plain, write_state
from wesichain.errors import ConfigError, GraphError, NodeFailedError
from wesichain.graph.builder import GraphBuilder
from wesichain.graph.checkpoints.checkpointer import Checkpointer
from wesichain.graph.context import DEFAULTS, ExecutionOptions, GraphContext, Sinks
from wesichain.graph.definition import END
from wesichain.graph.graph import Graph
from wesichain.graph.nodes.frame import Frame
from wesichain.graph.questions import CURRENT, pause, recall
from wesichain.graph.state.kinds import is_mapping
from wesichain.graph.state.reducers import Append, Overwrite, Untracked
from wesichain.graph.state.schema import StateValues, copies
from wesichain.graph.watch.report import ScopedSink
from wesichain.policy import Budget
from wesichain.tools import RunContext, ToolRegistry
from wesichain.tools.internal import PreparedCall

from .agent_run import (
    ToolFailurePolicy,
    approval_question,
    decisions_of,
    graph_error,
    instructions,
    node_runtime,
    read_interrupted,
    run_id_in,
    run_options,
    seconds_left,
)
from .recorded import NodeRecording

_GUARD = LoopGuard()
_STATE = "state"  # the form of a thread whose input was an object, rather than a text or a mapping


class ReActStateForm:
    """Converts the inputs of a ReAct graph (a text, a mapping or an object) to its state, and results back.

    `invoke` and `stream` return a dict for a text or a mapping, and an instance of its class for an object.
    `resume` has no such object: it returns a `ReActState` for it.
    """

    def read(self, given: Any) -> Any:
        """Return the input as keys of the state. Empty fields do not change the values of the thread."""
        if given is None:
            return None
        if isinstance(given, str):
            return {"input": given, "form": "dict"}
        if is_mapping(given):
            return {"form": "dict", **given}
        read = read_state(given)
        state: dict[str, Any] = {"input": read.user_input, "form": _STATE}
        if read.scratchpad:
            state["agent_scratchpad"] = read.scratchpad
        if read.iteration_count:
            state["iteration_count"] = read.iteration_count
        return state

    def write(self, state: Any, given: Any) -> Any:
        """Return the output keys of a state, in the form of the input."""
        if not is_mapping(state) or "input" not in state:
            return state
        output = {key: state[key] for key in ReActGraphOutput.__annotations__ if key in state}
        is_object = not (given is None or isinstance(given, str) or is_mapping(given))
        if not is_object and state.get("form") != _STATE:
            return output
        read = read_state(output)
        read.stopped_by = output.get("stopped_by")
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
    """Build a ReAct agent as a graph with the nodes `prepare`, `model` and `tools`: `graph.invoke("...")`.

    A checkpoint follows every model call and every batch of tool calls. `interrupt_before=["tools"]` stops
    the run before tools are called; a tool with `approval=True` raises `GraphInterruptedError` before each
    of its calls. When a thread is invoked again, the model receives the earlier questions and answers of the
    thread: all of them, or the newest that fit in `max_tokens`. The `context` of a run is the tools' deps.
    """
    runtime = node_runtime(
        llm, tools, policy=tool_failure_policy, loop_guard=loop_guard, tool_concurrency=tool_concurrency
    )
    budget = Budget(steps=max_iterations)
    nodes = ReActNodes(runtime, prompt=prompt, budget=budget, stream=stream, max_tokens=max_tokens)
    builder = GraphBuilder(ReActGraphState, output_type=ReActGraphOutput)
    builder.add_node("prepare", nodes.prepare, blocking=False)
    builder.add_node("model", nodes.model, blocking=False).add_node("tools", nodes.tools, blocking=False)
    builder.set_entry("prepare").add_edge("prepare", "model").add_edge("tools", "model")
    builder.add_conditional_edges("model", after_model, {"tools": "tools", "end": END})
    # The loop guard detects repeated calls, and a state that contains a growing conversation never repeats.
    defaults = ExecutionOptions(max_steps=max(100, 2 * max_iterations + 3), cycle_detection=False)
    return Graph(
        builder.build().definition,
        defaults=defaults.over(DEFAULTS),
        checkpointer=checkpointer,
        events=events,
        clock=clock,
        new_id=new_id,
        form=ReActStateForm(),
    )


# --- the nodes --------------------------------------------------------------------------------------

_NO_DECISIONS: Mapping[str, Decision] = {}
_STATE_FIELDS = ("messages", "steps")  # fields of a run that are stored as keys of the state
_MIN_MESSAGE_TOKENS = 4  # of any message, however short
_UNFINISHED = "the run before this one was left unfinished"


class ReActGraphOutput(TypedDict, total=False):
    """The output of a ReAct graph."""

    input: str
    agent_scratchpad: Annotated[list[ReActStep], Append]
    final_output: str | None
    iteration_count: int
    stopped_by: str | None


class ReActGraphState(ReActGraphOutput, total=False):
    """The state of a ReAct graph: its output, and the data of its run.

    `conversation` has the questions and answers of earlier runs, `messages` the messages of the current one.
    `run` is the rest of its snapshot, `live` the run in memory. `form` is the form of the input.
    """

    conversation: Annotated[list[Message], Append]
    messages: Annotated[list[Message], Append]
    run: dict[str, Any] | None
    live: Annotated[Any, Untracked]
    form: str


class LiveRun:
    """A run of the agent in memory, for one run of the graph; the next one reopens it from the state.

    `messages` and `steps` count those already written to the state. Without a checkpointer and listeners
    (`is_private`), they are written at the end only.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._is_new = True
        self._sink: ScopedSink | None = None
        self._recording: NodeRecording | None = None
        self.drive: OpenRun[str]
        self.messages = 0
        self.steps = 0
        is_watched = frame.options.observer is not None or frame.log.tap is not None
        self.is_private = frame.journal is None and not is_watched
        self.is_changed = False  # an approval has changed messages that the state already contains
        frame.on_stop.append(self._stop)

    def _stop(self, error: BaseException, values: StateValues) -> None:
        """End the agent's run when the run of the graph stops between two nodes."""
        if values.get("live") is not self:
            return
        self.drive.stop(str(error) or type(error).__name__)
        if isinstance(error, GraphError) and error.state is None and self.drive.outcome is not None:
            so_far = self.frame.definition.schema.build(copies(values))
            error.state = write_state(so_far, read_state(self.drive.outcome.state))

    def added_to(self, update: dict[str, Any]) -> dict[str, Any]:
        """Return the update; the first one also writes this run to the state."""
        if self._is_new:
            self._is_new = False
            update["live"] = self
        return update

    def begin_visit(self, ctx: GraphContext, *, records: bool) -> None:
        """Send events to this visit's sink; with `records`, record replies and results in its task."""
        if ctx.events is not None:  # one run has one scope, whichever node advances it
            self._sink = ScopedSink(self.frame.report, self.frame.within("model"), node=ctx.node)
        if self._recording is not None:
            self._recording.record = ctx.record if records else None

    def options(self, ctx: GraphContext, *, budget: Budget, stream: bool) -> dict[str, Any]:
        """Return the options with which the run is opened, within the graph's limits."""
        if ctx.record is not None:
            self._recording = NodeRecording(ctx.record)
        emit = self._receive if ctx.events is not None else None
        return run_options(ctx, emit, self._recording, budget=budget, stream=stream)

    def memo(self, waiting: Interrupted[str]) -> Any:
        """Return a run that waits for approval as data, to be stored with its question."""
        return to_plain(waiting) if self.is_changed else _run_without_state_fields(waiting)

    def check(self) -> None:
        """Raise the error of the thread that stopped the run, if there was one."""
        if self._recording is not None:
            self._recording.check()

    def _receive(self, event: Event) -> None:
        if self._sink is not None:
            self._sink.emit(event)


class ReActNodes:
    """The nodes of a ReAct graph."""

    def __init__(
        self,
        runtime: AgentRuntime[str],
        *,
        prompt: str | PromptTemplate | None,
        budget: Budget,
        stream: bool,
        max_tokens: int | None,
    ) -> None:
        Conversation(max_tokens)  # rejects a wrong number now, rather than at the second question
        self._max_tokens = max_tokens
        self._prompt = prompt
        self._budget = budget
        self._stream = stream
        self._runtime = runtime

    # --- the nodes ---------------------------------------------------------------------------------

    def prepare(self, state: ReActGraphState) -> Mapping[str, Any]:
        """Start a new run; the question and the answer of the previous one are added to the conversation."""
        read_state({key: state.get(key) for key in ("input", "iteration_count") if key in state})
        update: dict[str, Any] = {"messages": Overwrite([]), "run": None, "live": None, "final_output": None}
        if "stopped_by" in state:
            update["stopped_by"] = None
        answer, messages = state.get("final_output"), state.get("messages")
        if messages and answer is not None:
            question = [message for message in messages if message.role is Role.USER][:1]
            update["conversation"] = [*question, Message(Role.ASSISTANT, answer)]
        elif state.get("run") is not None:
            update["agent_scratchpad"] = [ErrorStep(_UNFINISHED)]
        return update

    async def model(self, state: ReActGraphState, ctx: GraphContext) -> Mapping[str, Any] | None:
        """Call the model until it returns tool calls or an answer."""
        live = self._live_run(state)
        if live is None:
            if state.get("final_output") is not None:  # a tool's result was the answer
                return None
            rest = state.get("run")
            live = (
                self._open(state, ctx)
                if rest is None
                else self._reopen(_run_from_state(state, rest), _NO_DECISIONS, ctx)
            )
        live.begin_visit(ctx, records=False)  # a reply is stored with the checkpoint that follows it
        drive = live.drive
        try:
            phase = await drive.step()
            while drive.outcome is None and not isinstance(phase, Acting):
                phase = await drive.step()
        finally:
            live.check()
        return _update(live, state, ctx)

    async def tools(self, state: ReActGraphState, ctx: GraphContext) -> Mapping[str, Any] | None:
        """Run the calls of the last reply, once those that need approval have a decision."""
        live, waiting, decisions = self._live_run(state), None, _NO_DECISIONS
        if live is None:
            waiting, decisions = self._read_answer(state, ctx)
            live = self._reopen(waiting, decisions, ctx)
        live.begin_visit(ctx, records=True)
        try:
            await live.drive.step()
        except ConfigError as error:  # a run inside a call cannot follow the decision: ask for another one
            if waiting is None or not decisions:
                raise
            pause(approval_question(waiting.pending), live.memo(waiting), problem=str(error))
        finally:
            live.check()
        outcome = live.drive.outcome
        if isinstance(outcome, Interrupted) and outcome.pending:
            pause(approval_question(outcome.pending), live.memo(outcome))
        return _update(live, state, ctx)

    # --- the run -----------------------------------------------------------------------------------

    def _live_run(self, state: ReActGraphState) -> LiveRun | None:
        """Return the run in memory, if it belongs to this run of the graph."""
        live: LiveRun | None = state.get("live")
        return live if live is not None and live.frame is _frame() else None

    def _open(self, state: ReActGraphState, ctx: GraphContext) -> LiveRun:
        live, given = LiveRun(_frame()), read_state(state)
        options = live.options(ctx, budget=self._limits(ctx), stream=self._stream)
        live.drive = self._runtime.open(
            given,
            history=self._history(state),
            instructions=instructions(self._prompt, state),
            run_id=run_id_in(ctx),
            **options,
        )
        live.steps = len(given.scratchpad)
        return live

    def _history(self, state: ReActGraphState) -> Sequence[Message]:
        """Return the earlier conversation of the thread: all of it, or the newest messages that fit."""
        messages = state.get("conversation", [])
        if self._max_tokens is None:
            return messages
        conversation = Conversation(self._max_tokens)
        conversation.add(*messages[-(self._max_tokens // _MIN_MESSAGE_TOKENS + 1) :])
        return conversation.window()

    def _reopen(
        self, interrupted: Interrupted[str], decisions: Mapping[str, Decision], ctx: GraphContext
    ) -> LiveRun:
        """Open a stored run again, with the decisions on its calls."""
        live = LiveRun(_frame())
        budget = self._limits(ctx, before=interrupted.spent.seconds)
        options = RunOptions(**live.options(ctx, budget=budget, stream=self._stream))
        live.drive = self._runtime.reopen(interrupted, decisions, options)
        live.messages, live.steps = len(interrupted.messages), len(interrupted.steps)
        unfinished = interrupted.unfinished
        all_decisions = {**({} if unfinished is None else unfinished.decisions), **decisions}
        live.is_changed = any(isinstance(decision, ApproveWith) for decision in all_decisions.values())
        return live

    def _limits(self, ctx: GraphContext, *, before: float = 0.0) -> Budget:
        left = seconds_left(ctx)
        return self._budget if left is None else replace(self._budget, seconds=before + left)

    def _read_answer(
        self, state: ReActGraphState, ctx: GraphContext
    ) -> tuple[Interrupted[str], Mapping[str, Decision]]:
        """Return the stored run; if it waited for approval, with the decisions on its calls."""
        answer = recall()
        if answer is None:
            return _run_from_state(state, state.get("run")), _NO_DECISIONS
        memo = answer.question.memo
        waiting = _run_from_state(state, state.get("run") if memo is None else memo)
        # Threads of the first version have no memo, and all of their calls are pending, approval or not.
        asked = waiting.pending if memo is not None else tuple(filter(self._asks_approval, waiting.pending))
        memo = _run_without_state_fields(waiting) if memo is None else memo
        return waiting, decisions_of(answer, asked, self._runtime, now=ctx.clock.time(), memo=memo)

    def _asks_approval(self, one: PendingCall) -> bool:
        prepared = self._runtime.registry.prepare(one.call)
        return isinstance(prepared, PreparedCall) and prepared.asks_approval(RunContext())


def after_model(state: ReActGraphState) -> str:
    """Choose what follows a model call: its tool calls, or the end."""
    return "tools" if state.get("final_output") is None else "end"


def _frame() -> Frame:
    task = CURRENT.get()
    assert task is not None, "a node runs in a task"
    return cast("Frame", task.frame)


# --- the state -------------------------------------------------------------------------------------


def _update(live: LiveRun, state: ReActGraphState, ctx: GraphContext) -> Mapping[str, Any] | None:
    """Return what a visit writes to the state; raise the error of a run that failed."""
    drive = live.drive
    outcome = drive.outcome
    if isinstance(outcome, Failed):
        so_far = write_state(state, read_state(outcome.state))
        raise graph_error(outcome.error, node=ctx.node, state=so_far) from outcome.error
    if isinstance(outcome, Interrupted):
        raise NodeFailedError(f"node {ctx.node!r}: the run stopped: {outcome.reason}", node=ctx.node)
    if outcome is None and live.is_private:
        return live.added_to({}) or None
    ended = drive.snapshot() if outcome is None else outcome
    messages, steps = ended.messages, ended.steps
    update: dict[str, Any] = {}
    if ended.iteration_count != state.get("iteration_count"):
        update["iteration_count"] = ended.iteration_count
    if live.is_changed:
        update["messages"] = Overwrite(_without_history(messages, ended.info.first_new))
        update["agent_scratchpad"] = Overwrite([*steps])
        live.is_changed = False
    else:
        first_new = ended.info.first_new
        is_first = live.messages < first_new
        new = _without_history(messages, first_new) if is_first else messages[live.messages :]
        update["messages"], update["agent_scratchpad"] = new, steps[live.steps :]
    live.messages, live.steps = len(messages), len(steps)
    if isinstance(ended, Completed):
        update |= {"final_output": ended.text, "run": None, "live": None}
        if ended.stopped_by is not None:
            update["stopped_by"] = ended.stopped_by
        return update
    if ctx.record is not None:  # there is a thread, which another process may resume
        update["run"] = _run_without_state_fields(ended)
    return live.added_to(update)


def _run_without_state_fields(outcome: Interrupted[str]) -> Any:
    """Return a run as data, without the fields that are stored as keys of the state."""
    return to_plain({name: item for name, item in outcome.to_plain().items() if name not in _STATE_FIELDS})


def _run_from_state(state: ReActGraphState, rest: Any) -> Interrupted[str]:
    """Rebuild a run from the rest of its snapshot and the messages and steps in the state."""
    if rest is None:
        raise GraphError("the thread has no unfinished run of the agent; start one with an input")
    if "messages" in rest:  # an approval has changed them
        return read_interrupted(rest)
    own = state.get("messages", [])
    conversation = state.get("conversation", [])
    system = _count_instructions(own)
    history = conversation[len(conversation) - max(0, rest["first_new"] - system) :]
    messages = [*own[:system], *history, *own[system:]]
    return read_interrupted(
        {**rest, "messages": to_plain(messages), "steps": to_plain(state.get("agent_scratchpad", []))}
    )


def _without_history(messages: Sequence[Message], first_new: int) -> list[Message]:
    """Return the messages of a run without those of earlier runs."""
    return [*messages[: _count_instructions(messages)], *messages[first_new:]]


def _count_instructions(messages: Sequence[Message]) -> int:
    """Return 1 if the first message has the instructions, else 0."""
    return int(bool(messages) and messages[0].role is Role.SYSTEM)
