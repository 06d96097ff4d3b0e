"""The friendly face: an agent in ten lines, typed to the answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast, overload

from typing_extensions import Unpack

from wesichain.core import (
    Advice,
    CancellationToken,
    CompletionLlm,
    Decision,
    Event,
    EventSink,
    JsonValue,
    LogView,
    Message,
    Part,
    ReActStep,
    Role,
    StrategySource,
    ToolCallingLlm,
    ToolCompleted,
    ToolDispatched,
    Usage,
    advise,
    dataclass,
    maker,
    traits_of,
)
from wesichain.errors import ConfigError, ConversationError, RunFailedError, RunInterruptedError
from wesichain.policy import SelfCorrect
from wesichain.tools import Effect, RunContext, ToolContext, ToolRegistry

from .calls import AgentTool
from .drive import Drive
from .memory import RunMemory, checked_memory
from .models import resolve_model
from .options import LoopKeywords, RunKeywords, as_sinks, run_options
from .phases import Completed, Failed, Interrupted, Outcome
from .rules import Actor, Handoff
from .runtime import AgentRuntime
from .stream import RunSteps, RunStream

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # a type, or a union of types

OutT = TypeVar("OutT")


class ConversationKeywords(RunKeywords, total=False):
    """What one run of an agent may be told, beside its task and what every run may be told."""

    conversation: RunMemory | None


Task: TypeAlias = str | Sequence[str | Part]
Instructions: TypeAlias = str | Callable[..., str | Awaitable[str | None] | None] | None


@dataclass(frozen=True, slots=True)
class Source:
    """Where an answer comes from: one tool's output."""

    tool_name: str
    args: JsonValue
    value: JsonValue


@dataclass(frozen=True, slots=True)
class RunResult(Generic[OutT]):
    """What a completed run gave."""

    outcome: Completed[OutT]

    @property
    def output(self) -> OutT:
        return self.outcome.output

    @property
    def steps(self) -> LogView[ReActStep]:
        return self.outcome.steps

    @property
    def messages(self) -> Sequence[Message]:
        """What was said, without the instructions: pass it as the history of the next run."""
        said = self.outcome.messages
        return said[1:] if said and said[0].role is Role.SYSTEM else said

    @property
    def agent(self) -> str:
        """The name of the agent that answered."""
        return self.outcome.info.agent

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """The messages of this run alone: pass `messages`, or these after the old ones, as history."""
        return self.outcome.new_messages

    @property
    def usage(self) -> Usage:
        return self.outcome.usage

    @property
    def events(self) -> tuple[Event, ...]:
        return self.outcome.events

    @property
    def sources(self) -> tuple[Source, ...]:
        """The outputs of the tools that the run called, in order."""
        args = {event.call.id: event.call.args for event in self.events if isinstance(event, ToolDispatched)}
        return tuple(
            Source(event.tool_name, args.get(event.call_id), event.value)
            for event in self.events
            if isinstance(event, ToolCompleted) and not event.scope
        )


_run_result = maker(RunResult[Any])


class Agent(Generic[OutT]):
    """A model with tools and instructions. Holds no state of a run, so that many can run at once."""

    @overload
    def __init__(
        self: Agent[str],
        model: ToolCallingLlm | CompletionLlm | str,
        *,
        tools: Iterable[Any] | ToolRegistry = (),
        instructions: Instructions = None,
        name: str = "agent",
        description: str = "",
        playbook: StrategySource | None = None,
        domain: str = "general",
        **options: Unpack[LoopKeywords],
    ) -> None: ...
    @overload
    def __init__(
        self,
        model: ToolCallingLlm | CompletionLlm | str,
        *,
        output_type: TypeForm[OutT],
        tools: Iterable[Any] | ToolRegistry = (),
        instructions: Instructions = None,
        name: str = "agent",
        description: str = "",
        playbook: StrategySource | None = None,
        domain: str = "general",
        **options: Unpack[LoopKeywords],
    ) -> None: ...
    def __init__(
        self,
        model: ToolCallingLlm | CompletionLlm | str,
        *,
        output_type: Any = str,
        tools: Iterable[Any] | ToolRegistry = (),
        instructions: Instructions = None,
        name: str = "agent",
        description: str = "",
        playbook: StrategySource | None = None,
        domain: str = "general",
        **options: Unpack[LoopKeywords],
    ) -> None:
        """`model`: a model, or its name, `PROVIDER:NAME`. `tools`: functions and tools, mixed.

        `output_type`: what an answer is; text unless told. `instructions`: a text, or a function of nothing,
        of the `RunContext` or of the task. `name` and `description`: what events, tools and other agents
        call it. `playbook`: where advice from earlier runs comes from, `domain` the part of it to look in.
        `AgentOptions` explains the other options.
        """
        given: Any = instructions
        if not (given is None or isinstance(given, str) or callable(given)):
            raise ConfigError(f"instructions={given!r}: use text, or a function that gives it")
        self.name = name
        self.description = description
        self._instructions = instructions
        self._playbook = playbook
        self._domain = domain
        llm = resolve_model(model)
        given_options: Any = {"tool_concurrency": 8, "exclude_after": None, **options}
        if given_options.get("policy") is None and not traits_of(llm).observes_errors:
            given_options["policy"] = SelfCorrect()
        self.runtime: AgentRuntime[OutT] = AgentRuntime(
            llm,
            tools,
            output_type=output_type,
            name=name,
            instructions=instructions if isinstance(instructions, str) else None,
            **given_options,
        )

    @property
    def has_instructions(self) -> bool:
        return self._instructions is not None

    @property
    def has_playbook(self) -> bool:
        return self._playbook is not None

    @property
    def fixed_instructions(self) -> str | None:
        """The instructions, where they are a text and so the same for every run."""
        return self._instructions if isinstance(self._instructions, str) else None

    def add_handoff(self, other: Actor | Handoff) -> None:
        """Let runs be handed to another agent as well; so two agents can hand over to each other."""
        self.runtime.add_handoff(other)

    async def run(
        self, task: Task, history: Sequence[Message] = (), **options: Unpack[ConversationKeywords]
    ) -> RunResult[OutT]:
        """The answer to a task. A run that does not complete raises, with the outcome in the error."""
        outcome = await self._outcome(task, history, options)
        return _run_result(outcome) if isinstance(outcome, Completed) else self._result(outcome)

    def run_sync(
        self, task: Task, history: Sequence[Message] = (), **options: Unpack[ConversationKeywords]
    ) -> RunResult[OutT]:
        """The same from code that is not async."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run(task, history, **options))
        raise ConfigError(
            "run_sync() was called inside a running event loop; use 'await agent.run(...)' there"
        )

    def stream(
        self, task: Task, history: Sequence[Message] = (), **options: Unpack[ConversationKeywords]
    ) -> RunStream[RunResult[OutT]]:
        """The run, event by event: `async with agent.stream(task) as run: async for event in run: ...`."""
        sinks = as_sinks(options.get("events"))

        async def run(sink: EventSink) -> RunResult[OutT]:
            streamed: ConversationKeywords = {**options, "stream": True, "events": (*sinks, sink)}
            return self._result(await self.outcome(task, history=history, **streamed))

        return RunStream(run)

    def iterate(
        self, task: Task, history: Sequence[Message] = (), **options: Unpack[ConversationKeywords]
    ) -> RunSteps[OutT]:
        """The run, step by step: `async with agent.iterate(task) as run: async for phase in run: ...`."""
        return RunSteps(lambda: self._open(task, history, options), self._ended_of(options))

    def outcome(
        self, task: Task, *, history: Sequence[Message] = (), **options: Unpack[ConversationKeywords]
    ) -> Coroutine[Any, Any, Outcome[OutT]]:
        """The phase in which a run of the task ends, whatever it is: `run` without raising."""
        return self._outcome(task, history, options)

    def _outcome(
        self, task: Task, history: Sequence[Message], options: ConversationKeywords
    ) -> Coroutine[Any, Any, Outcome[OutT]]:
        instructions = self._instructions
        if "conversation" in options or callable(instructions) or self._playbook is not None:
            return self._prepared(task, history, options)
        return self.runtime.opened(task, history, run_options(options)).carry()

    async def _prepared(
        self, task: Task, history: Sequence[Message], options: ConversationKeywords
    ) -> Outcome[OutT]:
        """A run whose instructions have to be asked for, or that is part of a conversation."""
        outcome = await (await self._open(task, history, options)).carry()
        await self._ended_of(options)(outcome)
        return outcome

    async def _open(
        self, task: Task, history: Sequence[Message], options: ConversationKeywords
    ) -> Drive[OutT]:
        """A run that has not begun, with its instructions and what came before it."""
        rest: Any = {**options}
        conversation = checked_memory(rest.pop("conversation", None))
        if conversation is not None:
            history = (*await conversation.read(), *history)
        words = task if isinstance(task, str) else Message(Role.USER, cast("Any", tuple(task))).text
        if callable(self._instructions) and rest.get("instructions") is None:
            rest["run_id"] = rest.get("run_id") or self.runtime.new_id()
            rest["instructions"] = await self.prompt(words, self._context(rest))
        if self._playbook is not None and rest.get("advice") is None:
            rest["run_id"] = rest.get("run_id") or self.runtime.new_id()
            rest["advice"] = await self.advise(words, rest["run_id"])
        return self.runtime.open(task, history=history, **rest)

    def _ended_of(self, options: ConversationKeywords) -> Callable[[Outcome[OutT]], Awaitable[None]]:
        """What is done when a run has ended: its question and answer become part of the conversation."""
        conversation = options.get("conversation")

        async def ended(outcome: Outcome[OutT]) -> None:
            if conversation is None or not isinstance(outcome, Completed):
                return
            try:
                await conversation.extend(_question(outcome), Message(Role.ASSISTANT, outcome.text))
            except ConversationError as error:
                error.outcome = outcome  # the answer is not lost with the turn
                raise

        return ended

    async def advise(self, task: str, run_id: str) -> Advice:
        """What earlier runs have taught, for a run of this id: off the loop, and never an error."""
        tools = [tool.spec for tool in self.runtime.registry]
        return await advise(self._playbook, task, run_id=run_id, domain=self._domain, tools=tools)

    def _context(self, options: Mapping[str, Any]) -> RunContext[Any]:
        """A run that has not begun, as its instructions see it."""
        parent: ToolContext | None = options.get("parent")
        deps: Any = options.get("deps")
        scope: tuple[str, ...] = ()
        if parent is not None:
            deps = parent.deps if deps is None else deps
            scope = (*parent.scope, parent.agent)
        token = options.get("cancellation") or CancellationToken()
        return RunContext(options.get("run_id") or "", 0, token, deps=deps, agent=self.name, scope=scope)

    async def prompt(self, task: str, ctx: RunContext[Any] | None = None) -> str | None:
        """The instructions that a run of the task begins with, asked for now.

        They are a text, or a function of nothing, of the `RunContext`, or of the task (a str).
        """
        instructions = self._instructions
        if callable(instructions):
            given_to = [*inspect.signature(instructions, eval_str=True).parameters.values()]
            if given_to and (given_to[0].annotation is str or given_to[0].name == "task"):
                text = instructions(task)
            else:
                text = instructions(ctx or self._context({})) if given_to else instructions()
            instructions = await text if inspect.isawaitable(text) else text
            given: Any = instructions
            if not (given is None or isinstance(given, str)):
                raise ConfigError(f"the instructions gave {given!r}; a function of them gives text, or None")
        return instructions

    async def resume(
        self,
        interrupted: Interrupted[OutT],
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[ConversationKeywords],
    ) -> RunResult[OutT]:
        """Go on with the outcome that a RunInterruptedError carries, as a part of the conversation."""
        rest: Any = {**options}
        checked_memory(rest.pop("conversation", None))
        outcome = await self.runtime.resume(interrupted, decisions, **rest)
        await self._ended_of(options)(outcome)
        return self._result(outcome)

    def as_tool(
        self, *, name: str | None = None, description: str | None = None, effect: Effect = "once"
    ) -> AgentTool:
        """This agent as a tool of another one, on whose budget, cancellation and log it draws.

        It is run once, unless it is declared `effect="idempotent"`: then a policy may have it begun anew.
        """
        return AgentTool(
            self.outcome,
            agent=self.name,
            name=name or self.name,
            description=description or self.description or f"Ask the agent {self.name!r}.",
            effect=effect,
        )

    def _result(self, outcome: Outcome[OutT]) -> RunResult[OutT]:
        return result_of(outcome, decide="agent.resume(error.outcome, {token: Approve()})")


def _question(outcome: Completed[Any]) -> Message:
    """The user's message that began the run, with its parts."""
    first = outcome.messages[outcome.info.first_new]
    is_it = first.role is Role.USER and first.text == outcome.user_input
    return first if is_it else Message(Role.USER, outcome.user_input)


def result_of(outcome: Outcome[OutT], *, decide: str) -> RunResult[OutT]:
    """What a completed run gave; any other raises. `decide`: how a person's word on its calls is given."""
    match outcome:
        case Completed():
            return _run_result(outcome)
        case Failed(error=error):
            raise RunFailedError(f"the run failed in step {error.step_id}: {error}", outcome) from error
        case Interrupted(reason=reason):
            waiting = ", ".join(item.call.name for item in outcome.pending)
            wants = f"; decide on {waiting} with {decide}" if waiting else ""
            raise RunInterruptedError(f"the run was interrupted: {reason}{wants}", outcome)
