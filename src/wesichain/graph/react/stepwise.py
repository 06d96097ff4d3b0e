"""The loop as a graph: each model call and each batch of tools is a node, with a checkpoint after it.

It is the same loop, taken in steps (`Drive.step`): each visit to a node takes steps of one run of the agent.
Between the visits the run is kept as it is while the graph's run lives. With a checkpointer it is also
stored, as a snapshot whose messages and steps are keys of the state: whoever resumes the thread opens it.
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
    OpenRun,
    RunOptions,
)
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
from wesichain.tools import PreparedCall, RunContext, ToolRegistry

from .hosting import (
    ToolFailurePolicy,
    decided,
    graph_error,
    instructions,
    node_runtime,
    question,
    run_id_in,
    run_options,
    seconds_left,
    stored,
)
from .recorded import NodeRecording

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


# --- the nodes --------------------------------------------------------------------------------------

_NONE: Mapping[str, Decision] = {}
_KEYS = ("messages", "steps")  # of a run, which the state has keys for
_LEAST = 4  # tokens of a message, however short: no more than that many fit
_LEFT = "the run before this one was left unfinished"


class ReActOutput(TypedDict, total=False):
    """The output of a ReAct graph."""

    input: str
    agent_scratchpad: Annotated[list[ReActStep], Append]
    final_output: str | None
    iteration_count: int
    stopped_by: str | None


class ReActSteps(ReActOutput, total=False):
    """And what it needs on the way: what was said in earlier runs and in this one, the rest of the run, the
    run itself while it lives, and the form in which its state was given.
    """

    conversation: Annotated[list[Message], Append]
    messages: Annotated[list[Message], Append]
    run: dict[str, Any] | None
    live: Annotated[Any, Untracked]
    form: str


class Live:
    """A run of the agent under way, in one run of the graph: another one opens it again from the state.

    `messages` and `steps` say how many of them the state has already: where nobody can look at it between two
    nodes (`is_private`), it has none of them before the end.
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
        self.is_changed = False  # people have changed what the state has of it already
        frame.on_stop.append(self._stop)

    def _stop(self, error: BaseException, values: StateValues) -> None:
        """End the agent's run with the graph's, wherever between two nodes that stopped."""
        if values.get("live") is not self:
            return
        self.drive.stop(str(error) or type(error).__name__)
        if isinstance(error, GraphError) and error.state is None and self.drive.outcome is not None:
            so_far = self.frame.definition.schema.build(copies(values))
            error.state = write_state(so_far, read_state(self.drive.outcome.state))

    def kept(self, update: dict[str, Any]) -> dict[str, Any]:
        """The update, with this in it where the state has it not."""
        if self._is_new:
            self._is_new = False
            update["live"] = self
        return update

    def visited(self, ctx: GraphContext, *, records: bool) -> None:
        """From here on this visit listens, and keeps what was done if it `records`."""
        if ctx.events is not None:  # the run is one, whichever node takes its steps: so is its scope
            self._sink = ScopedSink(self.frame.report, self.frame.within("model"), node=ctx.node)
        if self._recording is not None:
            self._recording.record = ctx.record if records else None

    def options(self, ctx: GraphContext, *, budget: Budget, stream: bool) -> dict[str, Any]:
        """The options with which the run is opened: the graph's limits are its limits too."""
        if ctx.record is not None:
            self._recording = NodeRecording(ctx.record)
        emit = self._receive if ctx.events is not None else None
        return run_options(ctx, emit, self._recording, budget=budget, stream=stream)

    def memo(self, waiting: Interrupted[str]) -> Any:
        """The run as data, for as long as it waits for a person."""
        return to_plain(waiting) if self.is_changed else _run_without_state_keys(waiting)

    def check(self) -> None:
        """Raise what stopped the run from this side."""
        if self._recording is not None:
            self._recording.check()

    def _receive(self, event: Event) -> None:
        if self._sink is not None:
            self._sink.emit(event)


class ReactSteps:
    """The nodes."""

    def __init__(
        self,
        runtime: AgentRuntime[str],
        *,
        prompt: str | PromptTemplate | None,
        budget: Budget,
        stream: bool,
        max_tokens: int | None,
    ) -> None:
        Conversation(max_tokens)  # a wrong number is found here, not at the second question
        self._max_tokens = max_tokens
        self._prompt = prompt
        self._budget = budget
        self._stream = stream
        self._runtime = runtime

    # --- the nodes ---------------------------------------------------------------------------------

    def prepare(self, state: ReActSteps) -> Mapping[str, Any]:
        """Begin anew: of the run before on the thread, its question and its answer are remembered."""
        read_state({key: state.get(key) for key in ("input", "iteration_count") if key in state})
        update: dict[str, Any] = {"messages": Overwrite([]), "run": None, "live": None, "final_output": None}
        if "stopped_by" in state:
            update["stopped_by"] = None
        answer, said = state.get("final_output"), state.get("messages")
        if said and answer is not None:
            asked = [message for message in said if message.role is Role.USER][:1]
            update["conversation"] = [*asked, Message(Role.ASSISTANT, answer)]
        elif state.get("run") is not None:
            update["agent_scratchpad"] = [ErrorStep(_LEFT)]
        return update

    async def model(self, state: ReActSteps, ctx: GraphContext) -> Mapping[str, Any] | None:
        """Ask the model, until there are calls to run, or an answer."""
        live = self._under_way(state)
        if live is None:
            if state.get("final_output") is not None:  # a tool's result was the answer
                return None
            rest = state.get("run")
            live = (
                self._opened(state, ctx)
                if rest is None
                else self._again(_run_from_state(state, rest), {}, ctx)
            )
        live.visited(ctx, records=False)  # a reply is stored with the checkpoint that follows it
        drive = live.drive
        try:
            phase = await drive.step()
            while drive.outcome is None and not isinstance(phase, Acting):
                phase = await drive.step()
        finally:
            live.check()
        return _written(live, state, ctx)

    async def tools(self, state: ReActSteps, ctx: GraphContext) -> Mapping[str, Any] | None:
        """Run the calls of the last reply, after a person's word on those that need it."""
        live, waiting, decisions = self._under_way(state), None, _NONE
        if live is None:
            waiting, decisions = self._answered(state, ctx)
            live = self._again(waiting, decisions, ctx)
        live.visited(ctx, records=True)
        try:
            await live.drive.step()
        except ConfigError as error:  # a decision that a run inside cannot follow may be given again
            if waiting is None or not decisions:
                raise
            pause(question(waiting.pending), live.memo(waiting), problem=str(error))
        finally:
            live.check()
        outcome = live.drive.outcome
        if isinstance(outcome, Interrupted) and outcome.pending:
            pause(question(outcome.pending), live.memo(outcome))
        return _written(live, state, ctx)

    # --- the run -----------------------------------------------------------------------------------

    def _under_way(self, state: ReActSteps) -> Live | None:
        """The run as the node before has left it, if that was in this run of the graph."""
        live: Live | None = state.get("live")
        return live if live is not None and live.frame is _frame() else None

    def _opened(self, state: ReActSteps, ctx: GraphContext) -> Live:
        live, given = Live(_frame()), read_state(state)
        options = live.options(ctx, budget=self._limits(ctx), stream=self._stream)
        live.drive = self._runtime.open(
            given,
            history=self._remembered(state),
            instructions=instructions(self._prompt, state),
            run_id=run_id_in(ctx),
            **options,
        )
        live.steps = len(given.scratchpad)
        return live

    def _remembered(self, state: ReActSteps) -> Sequence[Message]:
        """The earlier conversation of the thread as the model sees it: all, or the newest that fits."""
        said = state.get("conversation", [])
        if self._max_tokens is None:
            return said
        memory = Conversation(self._max_tokens)
        memory.add(*said[-(self._max_tokens // _LEAST + 1) :])
        return memory.window()

    def _again(
        self, interrupted: Interrupted[str], decisions: Mapping[str, Decision], ctx: GraphContext
    ) -> Live:
        """A run that the state holds, opened where it was, with what people have decided."""
        live = Live(_frame())
        budget = self._limits(ctx, before=interrupted.spent.seconds)
        options = RunOptions(**live.options(ctx, budget=budget, stream=self._stream))
        live.drive = self._runtime.reopen(interrupted, decisions, options)
        live.messages, live.steps = len(interrupted.messages), len(interrupted.steps)
        unfinished = interrupted.unfinished
        known = {**({} if unfinished is None else unfinished.decisions), **decisions}
        live.is_changed = any(isinstance(decision, ApproveWith) for decision in known.values())
        return live

    def _limits(self, ctx: GraphContext, *, before: float = 0.0) -> Budget:
        left = seconds_left(ctx)
        return self._budget if left is None else replace(self._budget, seconds=before + left)

    def _answered(
        self, state: ReActSteps, ctx: GraphContext
    ) -> tuple[Interrupted[str], Mapping[str, Decision]]:
        """The run that the state holds, or that waited for a person, and then what was decided."""
        answer = recall()
        if answer is None:
            return _run_from_state(state, state.get("run")), _NONE
        memo = answer.question.memo
        waiting = _run_from_state(state, state.get("run") if memo is None else memo)
        # In threads of the first version there is no memo, and every call waits, asked about or not.
        asked = waiting.pending if memo is not None else tuple(filter(self._asks, waiting.pending))
        kept = _run_without_state_keys(waiting) if memo is None else memo
        return waiting, decided(answer, asked, self._runtime, now=ctx.clock.time(), memo=kept)

    def _asks(self, one: PendingCall) -> bool:
        prepared = self._runtime.registry.prepare(one.call)
        return isinstance(prepared, PreparedCall) and prepared.asks_approval(RunContext())


def after_model(state: ReActSteps) -> str:
    """Where a model call leads: to its calls, or to the end."""
    return "tools" if state.get("final_output") is None else "end"


def _frame() -> Frame:
    asking = CURRENT.get()
    assert asking is not None, "a node runs in a task"
    return cast("Frame", asking.frame)


# --- the state -------------------------------------------------------------------------------------


def _written(live: Live, state: ReActSteps, ctx: GraphContext) -> Mapping[str, Any] | None:
    """The writes of the visit to the state."""
    drive = live.drive
    outcome = drive.outcome
    if isinstance(outcome, Failed):
        so_far = write_state(state, read_state(outcome.state))
        raise graph_error(outcome.error, node=ctx.node, state=so_far) from outcome.error
    if isinstance(outcome, Interrupted):
        raise NodeFailedError(f"node {ctx.node!r}: the run stopped: {outcome.reason}", node=ctx.node)
    if outcome is None and live.is_private:
        return live.kept({}) or None
    ended = drive.snapshot() if outcome is None else outcome
    messages, steps = ended.messages, ended.steps
    update: dict[str, Any] = {}
    if ended.iteration_count != state.get("iteration_count"):
        update["iteration_count"] = ended.iteration_count
    if live.is_changed:
        update["messages"] = Overwrite(_own(messages, ended.info.first_new))
        update["agent_scratchpad"] = Overwrite([*steps])
        live.is_changed = False
    else:
        first_new = ended.info.first_new
        own = _own(messages, first_new) if live.messages < first_new else messages[live.messages :]
        update["messages"], update["agent_scratchpad"] = own, steps[live.steps :]
    live.messages, live.steps = len(messages), len(steps)
    if isinstance(ended, Completed):
        update |= {"final_output": ended.text, "run": None, "live": None}
        if ended.stopped_by is not None:
            update["stopped_by"] = ended.stopped_by
        return update
    if ctx.record is not None:  # there is a thread, which another process may go on with
        update["run"] = _run_without_state_keys(ended)
    return live.kept(update)


def _run_without_state_keys(outcome: Interrupted[str]) -> Any:
    """The run as data, without what the state has keys for."""
    return to_plain({name: item for name, item in outcome.to_plain().items() if name not in _KEYS})


def _run_from_state(state: ReActSteps, rest: Any) -> Interrupted[str]:
    """The run again: the rest of it, with its messages, those of earlier runs among them, and its steps."""
    if rest is None:
        raise GraphError(
            "the thread has no run of the agent under way whose calls could be run; begin one with an input"
        )
    if "messages" in rest:  # people have changed them
        return stored(rest)
    own = state.get("messages", [])
    said = state.get("conversation", [])
    system = _system(own)
    earlier = said[len(said) - max(0, rest["first_new"] - system) :]
    messages = [*own[:system], *earlier, *own[system:]]
    return stored(
        {**rest, "messages": to_plain(messages), "steps": to_plain(state.get("agent_scratchpad", []))}
    )


def _own(messages: Sequence[Message], first_new: int) -> list[Message]:
    """The messages of a run without those of earlier ones."""
    return [*messages[: _system(messages)], *messages[first_new:]]


def _system(messages: Sequence[Message]) -> int:
    """How many of the first messages are instructions: one or none."""
    return int(bool(messages) and messages[0].role is Role.SYSTEM)
