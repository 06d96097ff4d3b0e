"""`Agent`: a model with tools and instructions, and a typed answer."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, cast, overload

from typing_extensions import TypeVar, Unpack

from wesichain._elsewhere import AGENT, Translated, names_ours
from wesichain.core import EventSink, Message, Part, Role, StrategySource, ToolCallingLlm
from wesichain.core.internal import (
    Advice,
    CancellationToken,
    Decision,
    Suspended,
    advise,
    around,
    positions_of,
    replace,
    running_loop,
)
from wesichain.errors import ConfigError, ConversationError
from wesichain.journal.internal import Begin, register_result
from wesichain.policy import SelfCorrect
from wesichain.tools import Effect, RunContext, ToolContext, ToolRegistry
from wesichain.tools.internal import Offered

from .drive import OpenRun
from .model_names import AnyModel, resolve_model
from .options import (
    NO_OPTIONS,
    AgentOptions,
    RunOptions,
    as_sinks,
    memory_in,
    option_names,
    run_options,
    signature_with,
)
from .phases import Completed, Interrupted, Outcome
from .results import RunResult, question_of, result_of
from .runtime import AgentRuntime

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # a type, or a union of types

    from wesichain.journal import Journals

    from .bounds import Bounds
    from .calls.agent_tool import AgentTool
    from .capability import Capabilities, Capability
    from .handoffs.handoff import Actor, Handoff
    from .keywords import CommonKeywords, ConversationKeywords, LoopKeywords
    from .memory.stores import RunMemory
    from .results.stream import RunSteps, RunStream
    from .run_place import RunPlace

OutT = TypeVar("OutT", default=Any)
DepsT_contra = TypeVar("DepsT_contra", contravariant=True, default=Any)
AnyDeps = TypeVar("AnyDeps", default=Any)
GivenDeps = TypeVar("GivenDeps")
GivenOut = TypeVar("GivenOut")

_log = logging.getLogger("wesichain")

Task: TypeAlias = str | Sequence[str | Part]
Text: TypeAlias = str | Awaitable[str | None] | None
Instructions: TypeAlias = (
    str | Callable[[], Text] | Callable[[RunContext[AnyDeps]], Text] | Callable[[str], Text] | None
)


# The defaults of `Agent` that differ from those of `AgentRuntime`.
AGENT_DEFAULTS: Mapping[str, Any] = {"tool_concurrency": 8, "exclude_after": None}


class Agent(Translated, Generic[DepsT_contra, OutT]):
    """A model with tools and instructions. Holds no state of a run: one agent can run many tasks at once."""

    @overload
    def __init__(
        self: Agent[Any, str],
        model: AnyModel,
        *,
        tools: Iterable[Any] | ToolRegistry = (),
        instructions: Instructions[Any] = None,
        **options: Unpack[CommonKeywords[str, Any]],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Any, GivenOut],
        model: AnyModel,
        *,
        output_type: TypeForm[GivenOut],
        tools: Iterable[Any] | ToolRegistry = (),
        instructions: Instructions[Any] = None,
        **options: Unpack[CommonKeywords[GivenOut, Any]],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[GivenDeps, str],
        model: AnyModel,
        *,
        deps_type: TypeForm[GivenDeps],
        tools: Iterable[Offered[GivenDeps]] | ToolRegistry = (),
        instructions: Instructions[GivenDeps] = None,
        **options: Unpack[CommonKeywords[str, GivenDeps]],
    ) -> None: ...
    @overload
    def __init__(
        self,
        model: AnyModel,
        *,
        deps_type: TypeForm[DepsT_contra],
        output_type: TypeForm[OutT],
        tools: Iterable[Offered[DepsT_contra]] | ToolRegistry = (),
        instructions: Instructions[DepsT_contra] = None,
        **options: Unpack[CommonKeywords[OutT, DepsT_contra]],
    ) -> None: ...
    @names_ours(AGENT, option_names(AgentOptions))
    def __init__(
        self,
        model: AnyModel,
        *,
        deps_type: Any = None,
        output_type: Any = str,
        tools: Iterable[Any] | ToolRegistry = (),
        instructions: Instructions[Any] = None,
        name: str = "agent",
        description: str = "",
        playbook: StrategySource | None = None,
        domain: str = "general",
        capabilities: Sequence[Capability] = (),
        **options: Unpack[LoopKeywords[Any, Any]],
    ) -> None:
        """`model`: a model, or its name, `PROVIDER:NAME`. `tools`: functions and tools, mixed.

        `output_type`: the type of the answer; text by default. `instructions`: text, or a function that takes
        nothing, the `RunContext` or the task. `name` and `description`: used in events, and when the agent
        is a tool. `playbook`: the source of advice from earlier runs; `domain`: the part that is searched.
        `capabilities`: values that add tools, instructions, middleware and context views to the agent's own.
        `AgentOptions` explains the other options.
        """
        given: Any = instructions
        if not (given is None or isinstance(given, str) or callable(given)):
            raise ConfigError(f"instructions={given!r}: use text, or a function that returns it")
        if playbook is not None and not hasattr(playbook, "retrieve"):
            raise ConfigError(
                f"playbook={playbook!r}: use an object with retrieve(task, ...), such as Playbook.open(path)"
            )
        self.name = name
        self.description = description
        self._instructions = instructions
        self._playbook = playbook
        self._domain = domain
        self._capabilities: Capabilities | None = None
        given_options: Any = {**AGENT_DEFAULTS, "default_policy": SelfCorrect(), **options}
        if capabilities:
            from .capability import Capabilities  # loaded with the first of them

            added = Capabilities(capabilities)
            tools, given_options = added.tools(tools), added.options(given_options)
            self._capabilities = added if added.instruct else None
        self._asks_for_instructions = callable(instructions) or self._capabilities is not None
        self.runtime: AgentRuntime[OutT] = AgentRuntime(
            resolve_model(model),
            tools,
            output_type=output_type,
            deps_type=deps_type,
            name=name,
            instructions=self.fixed_instructions,
            **given_options,
        )

    @property
    def llm(self) -> ToolCallingLlm:
        """The model of the agent."""
        return self.runtime.llm

    @property
    def has_instructions(self) -> bool:
        return self._instructions is not None or self._capabilities is not None

    @property
    def has_playbook(self) -> bool:
        return self._playbook is not None

    @property
    def fixed_instructions(self) -> str | None:
        """The instructions if they are text, and so the same for every run."""
        own = self._instructions
        return own if isinstance(own, str) and self._capabilities is None else None

    def add_handoff(self, other: Actor | Handoff) -> None:
        """Add an agent that a run may be handed off to. Two agents can hand off to each other in this way."""
        self.runtime.add_handoff(other)

    async def run(
        self,
        task: Task,
        history: Sequence[Message] = (),
        **options: Unpack[ConversationKeywords[DepsT_contra]],
    ) -> RunResult[OutT]:
        """Run a task to its answer. If the run does not complete, it raises an error with the outcome.

        In journals (`journals=`), the same line with the same `run_id` continues the run in any process, or
        returns the result that it had.
        """
        outcome = await self.outcome(task, history, **options)
        if "parent" in options:
            _suspend(options["parent"], outcome)
        return result_of(outcome)

    def run_sync(
        self,
        task: Task,
        history: Sequence[Message] = (),
        **options: Unpack[ConversationKeywords[DepsT_contra]],
    ) -> RunResult[OutT]:
        """Synchronous version of `run()`."""
        if running_loop() is not None:
            raise ConfigError(
                "run_sync() was called inside a running event loop; use 'await agent.run(...)' there"
            )
        return asyncio.run(self.run(task, history, **options))

    def stream(
        self,
        task: Task | Interrupted[OutT],
        history: Sequence[Message] = (),
        *,
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[ConversationKeywords[DepsT_contra]],
    ) -> RunStream[RunResult[OutT]]:
        """Run a task and iterate over its events.

        `async with agent.stream(task) as run: async for event in run: ...`

        With an interrupted outcome as the task, and `decisions` on its calls, it resumes that run.
        """
        sinks = as_sinks(options.get("events"))
        if isinstance(task, Interrupted) and history:
            raise ConfigError("an interrupted run has its history already; leave history= out")
        if decisions is not None and not isinstance(task, Interrupted):
            raise ConfigError(
                "decisions= are for the calls of an interrupted run: pass its outcome as the task"
            )

        async def run(sink: EventSink, opened: Callable[[OpenRun[Any]], None]) -> RunResult[OutT]:
            own: Any = {**options, "stream": True, "events": (*sinks, sink), "on_open": opened}
            if isinstance(task, Interrupted):
                return await self.resume(task, decisions, **own)
            return result_of(await self.outcome(task, history, **own))

        from .results.stream import RunStream

        return RunStream(run)

    def iterate(
        self,
        task: Task,
        history: Sequence[Message] = (),
        **options: Unpack[ConversationKeywords[DepsT_contra]],
    ) -> RunSteps[OutT]:
        """Run a task step by step: `async with agent.iterate(task) as run: async for phase in run: ...`."""
        from .results.stream import RunSteps

        return RunSteps(self._opened(task, history, options), self._ended_of(options))

    def outcome(
        self,
        task: Task,
        history: Sequence[Message] = (),
        **options: Unpack[ConversationKeywords[DepsT_contra]],
    ) -> Coroutine[Any, Any, Outcome[OutT]]:
        """Run a task and return the phase in which it ends. Unlike `run()`, it does not raise on failure."""
        if "conversation" in options or self._playbook is not None or self._asks_for_instructions:
            return self._prepared(task, history, options)
        if self._journals_of(options) is not None:
            return self._prepared(task, history, options)
        given = run_options(options) if options else NO_OPTIONS
        return self.runtime.open_with(task, history, given).run_to_end()

    async def _prepared(
        self, task: Task | None, history: Sequence[Message], options: ConversationKeywords[DepsT_contra]
    ) -> Outcome[OutT]:
        """Run a task that has a conversation, a playbook, journals, or instructions made by a function."""
        journals = self._journals_of(options)
        while True:
            async with self._opened(task, history, options) as run:
                was_over = run.outcome is not None
                outcome = await run.run_to_end()
                if not was_over:
                    await self._ended_of(options)(outcome)
            if journals is None:
                return outcome
            from .journaled import goes_on

            options = {**options, "run_id": outcome.run_id}
            if not await goes_on(journals, outcome):
                return outcome

    def _journals_of(self, options: ConversationKeywords[DepsT_contra]) -> Journals | None:
        """Where the log of a run is stored; None for a run inside another, whose log it is part of."""
        if options.get("parent") is not None or options.get("place") is not None:
            return None
        return options.get("journals") or self.runtime.journals

    @asynccontextmanager
    async def _opened(
        self, task: Task | None, history: Sequence[Message], options: ConversationKeywords[DepsT_contra]
    ) -> AsyncGenerator[OpenRun[OutT]]:
        """Open a run, with its instructions, advice and history, in its journals if it has any."""
        journals, rest = self._journals_of(options), cast("dict[str, Any]", {**options})
        conversation = memory_in(rest)
        given = run_options(rest)
        if journals is None:
            assert task is not None, "only a run in journals is continued without its task"
            given = replace(given, place=self.runtime.place_of(task, given))
            yield await self.open_in_place(task, history, given, conversation)
            return
        from .journaled import journaled  # loaded with the first run in journals

        async with journaled(self, journals, task, history, given, conversation) as run:
            yield run

    async def open_in_place(
        self,
        task: Task,
        history: Sequence[Message],
        given: RunOptions,
        conversation: RunMemory | None = None,
    ) -> OpenRun[OutT]:
        """Open a run in its place in a log: one that the log has is continued."""
        place: RunPlace = given.place
        if place.begin is not None:
            return self.runtime.open_with(task, (), given)  # the run has its instructions and history already
        if conversation is not None:
            history = (*await conversation.read(), *history)
        words = task if isinstance(task, str) else Message(Role.USER, cast("Any", tuple(task))).text
        if self._asks_for_instructions and given.instructions is None:
            given = replace(given, instructions=await self._instruct(words, given, place.run_id))
        if self._playbook is not None and given.advice is None:
            given = replace(given, advice=await self.advise(words, place.run_id))
        known: Any = getattr(conversation, "id", None)
        if around.hook is None or not isinstance(known, str):
            return self.runtime.open_with(task, history, given)
        with around.hook.conversation(known):
            return self.runtime.open_with(task, history, given)

    def check_recorded(self, first: Begin, options: RunOptions) -> None:
        """Raise a `ReplayMismatchError` if this agent would begin a recorded run in another way."""
        from .recorded_start import check_start  # loaded with the first replay

        check_start(self, first, options)

    def _ended_of(
        self, options: ConversationKeywords[DepsT_contra]
    ) -> Callable[[Outcome[OutT]], Awaitable[None]]:
        """The hook for the end of a run, which adds the task and the answer to the conversation."""
        conversation = options.get("conversation")

        async def ended(outcome: Outcome[OutT]) -> None:
            if conversation is None or not isinstance(outcome, Completed):
                return
            from .memory.stores import add_turn  # loaded with the first conversation

            turn = question_of(outcome), Message(Role.ASSISTANT, outcome.text)
            key = outcome.info.run_id if outcome.info.place else ""
            try:
                await add_turn(conversation, turn, key=key)
            except ConversationError as error:
                error.outcome = outcome  # so that the answer is not lost
                raise

        return ended

    async def advise(self, task: str, run_id: str) -> Advice:
        """Advice from earlier runs for the run with this id. An error of the source is logged, not raised."""
        tools = [tool.spec for tool in self.runtime.registry]
        advice = await advise(self._playbook, task, run_id=run_id, domain=self._domain, tools=tools)
        if advice.trouble:
            _log.warning("run %s continues without the playbook's advice: %s", run_id, advice.trouble)
        return advice

    async def _instruct(self, task: str, given: RunOptions, run_id: str) -> str | None:
        """The instructions of a run that has not begun."""
        parent = given.parent
        scope = (*parent.scope, parent.agent) if isinstance(parent, ToolContext) else ()
        token, deps = given.cancellation or CancellationToken(), self.runtime.deps_of(given)
        ctx = RunContext(run_id, 0, token, deps=deps, agent=self.name, scope=scope)
        return await self.prompt(task, ctx)

    async def prompt(self, task: str, ctx: RunContext[Any] | None = None) -> str | None:
        """The instructions for a run of the task: the agent's own, then those of its capabilities.

        A function of instructions is called with nothing, the `RunContext`, or the task (a str).
        """
        own = await self._own_prompt(task, ctx)
        if self._capabilities is None:
            return own
        return await self._capabilities.text(own, ctx or RunContext(agent=self.name))

    async def _own_prompt(self, task: str, ctx: RunContext[Any] | None) -> str | None:
        instructions = self._instructions
        if callable(instructions):
            ask: Callable[..., Any] = instructions
            # Annotations are not evaluated: a module may import their names for its type checker only.
            first = next(iter(inspect.signature(instructions).parameters.values()), None)
            if first is None or positions_of(instructions)[1] == 0:
                text = ask()
            elif first.name == "task" or first.annotation in (str, "str"):
                text = ask(task)
            else:
                text = ask(ctx or RunContext(agent=self.name))
            instructions = await text if inspect.isawaitable(text) else text
            given: Any = instructions
            if not (given is None or isinstance(given, str)):
                raise ConfigError(f"the instructions function returned {given!r}; return text, or None")
        return instructions

    async def resume(
        self,
        run: Interrupted[OutT] | str,
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[ConversationKeywords[DepsT_contra]],
    ) -> RunResult[OutT]:
        """Resume an interrupted run, with a decision for each call that waits for one.

        `run` is the outcome of a `RunInterruptedError`, or the id of a run in journals, which is also
        continued if it was stopped or has failed. `by` is who decides.
        """
        journals, run_id = self._journals_of(options), run if isinstance(run, str) else run.run_id
        if isinstance(run, Interrupted):
            journals = run.info.log.journals
        elif journals is None:
            raise ConfigError(f"resume({run!r}): the run is in journals: pass journals=, or Agent(journals=)")
        if journals is not None:
            from .journaled import prepare_resume

            await prepare_resume(self, journals, run_id, decisions, options.get("by"))
            own: Any = {**options, "journals": journals, "run_id": run_id}
            return result_of(await self._prepared(None, (), own))
        assert isinstance(run, Interrupted), "it has no journals"
        rest: Any = {**options}
        memory_in(rest)
        outcome = await self.runtime.resume(run, decisions, **rest)
        await self._ended_of(options)(outcome)
        return result_of(outcome)

    def bounds(self) -> Bounds:
        """The most that a run of this agent and all below it can spend, and what outside text can reach."""
        from .bounds import bounds_of, limits_of
        from .flow.labelled_tools import outside_reach

        return replace(bounds_of(limits_of(self)), outside_reach=outside_reach(self.runtime))

    def with_playbook(self, playbook: StrategySource | None, domain: str = "general") -> Self:
        """A copy of this agent that takes advice from a playbook."""
        made = copy(self)
        made._playbook, made._domain = playbook, domain
        return made

    def with_tools(self, *tools: Any) -> Self:
        """A copy of this agent with further tools.

        A name that the agent already has is a `DuplicateToolError`. Agents that a run is handed off to do
        not get these tools.
        """
        made = copy(self)
        made.runtime = self.runtime.with_tools(tools)
        return made

    def as_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        input_type: Any = str,
        *,
        effect: Effect = "once",
    ) -> AgentTool:
        """This agent as a tool of another agent, whose budget, cancellation and log it shares.

        If `input_type` is an object type, its fields are the tool's parameters, and this agent gets them as
        JSON text. The tool returns the answer as the JSON value of its `output_type`. With the default
        effect, "once", a failed call is not retried; with "idempotent", a policy may run the agent again.
        """
        from .calls.agent_tool import AgentTool

        described = description or self.description or f"Ask the agent {self.name!r}."
        return AgentTool(self, name=name or self.name, description=described, effect=effect, takes=input_type)


def _suspend(parent: Any, outcome: Outcome[Any]) -> None:
    """Suspend the function that an agent runs inside, if the agent waits for something."""
    link = getattr(parent, "link", None)
    if not isinstance(outcome, Interrupted) or not getattr(link, "suspends", False):
        return
    info = outcome.info
    if outcome.pending or info.log.waits(info.place) or parent.cancellation.cancelled:
        raise Suspended(f"the agent {info.agent!r} waits: {outcome.reason}")


def _result_in(log: Any) -> RunResult[Any]:
    from .journaled import result_in  # loaded with the first result that is read

    return result_in(log)


register_result("agent", _result_in)


def _show_options() -> None:
    """Show every option, with its default, in `help()` and `inspect.signature()`."""
    agent, runtime = cast("Any", Agent), cast("Any", AgentRuntime)
    defaults = {**AGENT_DEFAULTS, "policy": SelfCorrect()}
    _show_on(agent, signature_with(agent.__init__, AgentOptions, defaults))
    _show_on(runtime, signature_with(runtime.__init__, AgentOptions))
    for name in ("run", "run_sync", "stream", "iterate", "outcome", "resume"):
        method = getattr(agent, name)
        method.__signature__ = signature_with(method, RunOptions, {"conversation": None})
    for name in ("run", "resume"):
        method = getattr(runtime, name)
        method.__signature__ = signature_with(method, RunOptions)


def _show_on(made: Any, shown: inspect.Signature) -> None:
    made.__init__.__signature__ = shown
    made.__signature__ = shown.replace(parameters=[*shown.parameters.values()][1:])


_show_options()
