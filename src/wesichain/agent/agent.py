"""The friendly face: an agent in ten lines, typed to the answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

from typing_extensions import Unpack

from wesichain.core import (
    Clock,
    CompletionLlm,
    Decision,
    Event,
    EventSink,
    JsonValue,
    LogView,
    Message,
    ReActStep,
    Role,
    StrategySource,
    ToolCallingLlm,
    ToolCompleted,
    ToolDispatched,
    Usage,
    dataclass,
    maker,
)
from wesichain.errors import ConfigError, RunFailedError, RunInterruptedError, ToolError, ToolErrorKind
from wesichain.policy import Budget, PolicyEngine
from wesichain.tools import CancellationToken, JsonTool, ToolContext, ToolRegistry

from .conversation import Conversation
from .effects import Effects
from .models import resolve_model
from .narrate import Sinks, as_sinks
from .phases import Completed, Failed, Interrupted, Outcome
from .rules import LoopGuard
from .running import OnLimit
from .runtime import AgentRuntime, ResumeOptions
from .stream import RunStream

if TYPE_CHECKING:
    from wesichain.trace import Redactor

OutT = TypeVar("OutT")
_DAY = 86_400.0


class LoopOptions(ResumeOptions, total=False):
    """What the loop may be told of one run."""

    run_id: str | None


class RunOptions(LoopOptions, total=False):
    """What one run of an agent may be told, beside its task."""

    conversation: Conversation | None


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
    def messages(self) -> LogView[Message]:
        return self.outcome.messages

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
        policy: PolicyEngine | None = None,
        budget: Budget = ...,
        events: Sinks = None,
        playbook: StrategySource | None = None,
        domain: str = "general",
        on_limit: OnLimit = "fail",
        tool_concurrency: int = 1,
        exclude_after: int | None = 3,
        loop_guard: LoopGuard | None = ...,
        approval_ttl: float | None = None,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        model: ToolCallingLlm | CompletionLlm | str,
        *,
        output_type: type[OutT],
        tools: Iterable[Any] | ToolRegistry = (),
        instructions: Instructions = None,
        name: str = "agent",
        description: str = "",
        policy: PolicyEngine | None = None,
        budget: Budget = ...,
        events: Sinks = None,
        playbook: StrategySource | None = None,
        domain: str = "general",
        on_limit: OnLimit = "fail",
        tool_concurrency: int = 1,
        exclude_after: int | None = 3,
        loop_guard: LoopGuard | None = ...,
        approval_ttl: float | None = None,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
        new_id: Callable[[], str] | None = None,
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
        **options: Any,
    ) -> None:
        given: Any = instructions
        if not (given is None or isinstance(given, str) or callable(given)):
            raise ConfigError(f"instructions={given!r}: use text, or a function that gives it")
        self.name = name
        self.description = description
        self._instructions = instructions
        self._playbook = playbook
        self._domain = domain
        self.runtime: AgentRuntime[OutT] = AgentRuntime(
            resolve_model(model), tools, output_type=output_type, **options
        )

    @property
    def has_instructions(self) -> bool:
        return self._instructions is not None

    @property
    def fixed_instructions(self) -> str | None:
        """The instructions, where they are a text and so the same for every run."""
        return self._instructions if isinstance(self._instructions, str) else None

    async def run(
        self, task: str, history: Sequence[Message] = (), **options: Unpack[RunOptions]
    ) -> RunResult[OutT]:
        """The answer to a task. A run that does not complete raises, with the outcome in the error."""
        return self._result(await self.outcome(task, history=history, **options))

    def run_sync(
        self, task: str, history: Sequence[Message] = (), **options: Unpack[RunOptions]
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
        self, task: str, history: Sequence[Message] = (), **options: Unpack[RunOptions]
    ) -> RunStream[RunResult[OutT]]:
        """The run, event by event: `async with agent.stream(task) as run: async for event in run: ...`."""
        sinks = as_sinks(options.get("events"))

        async def run(sink: EventSink) -> RunResult[OutT]:
            streamed: RunOptions = {**options, "stream": True, "events": (*sinks, sink)}
            return self._result(await self.outcome(task, history=history, **streamed))

        return RunStream(run)

    def outcome(
        self,
        task: str,
        *,
        history: Sequence[Message] = (),
        conversation: Conversation | None = None,
        cancellation: CancellationToken | None = None,
        run_id: str | None = None,
        stream: bool = False,
        events: Sinks = None,
        budget: Budget | None = None,
        parent: ToolContext | None = None,
        effects: Callable[[Effects], Effects] | None = None,
        clock: Clock | None = None,
    ) -> Coroutine[Any, Any, Outcome[OutT]]:
        """The phase in which a run of the task ends, whatever it is: `run` without raising."""
        instructions = self._instructions
        if conversation is not None or callable(instructions):
            memory: Any = conversation
            if not (memory is None or isinstance(memory, Conversation)):
                raise ConfigError(f"conversation={memory!r}: pass a Conversation")
            options = LoopOptions(
                cancellation=cancellation,
                run_id=run_id,
                stream=stream,
                events=events,
                budget=budget,
                parent=parent,
                effects=effects,
                clock=clock,
            )
            return self._prepared(task, history, conversation, options)
        return self.runtime.run(
            task,
            history=history,
            instructions=instructions,
            advice="" if self._playbook is None else self._advise(self._playbook, task),
            cancellation=cancellation,
            run_id=run_id,
            stream=stream,
            events=events,
            budget=budget,
            parent=parent,
            effects=effects,
            clock=clock,
        )

    async def _prepared(
        self,
        task: str,
        history: Sequence[Message],
        conversation: Conversation | None,
        options: LoopOptions,
    ) -> Outcome[OutT]:
        """A run whose instructions have to be asked for, or that is part of a conversation."""
        instructions, advice = await self.prompt(task)
        if conversation is not None:
            history = (*conversation.window(), *history)
        outcome = await self.runtime.run(
            task, history=history, instructions=instructions, advice=advice, **options
        )
        if conversation is not None and isinstance(outcome, Completed):
            conversation.add(Message(Role.USER, task), Message(Role.ASSISTANT, outcome.text))
        return outcome

    async def prompt(self, task: str) -> tuple[str | None, str]:
        """The instructions and the advice that a run of the task begins with, asked for now."""
        instructions = self._instructions
        if callable(instructions):
            takes_task = bool(inspect.signature(instructions).parameters)
            text = instructions(task) if takes_task else instructions()
            instructions = await text if inspect.isawaitable(text) else text
            given: Any = instructions
            if not (given is None or isinstance(given, str)):
                raise ConfigError(f"the instructions gave {given!r}; a function of them gives text, or None")
        return instructions, "" if self._playbook is None else self._advise(self._playbook, task)

    async def resume(
        self,
        interrupted: Interrupted[OutT],
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[ResumeOptions],
    ) -> RunResult[OutT]:
        """Go on with the outcome that a RunInterruptedError carries."""
        return self._result(await self.runtime.resume(interrupted, decisions, **options))

    def as_tool(self, *, name: str | None = None, description: str | None = None) -> JsonTool:
        """This agent as a tool of another one, on whose budget, cancellation and log it draws."""

        async def ask(args: Any, ctx: ToolContext) -> JsonValue:
            # A call that is run again is the same run again: its own calls keep their idempotency keys.
            outcome = await self.outcome(args["task"], parent=ctx, run_id=ctx.idempotency_key or None)
            match outcome:
                case Completed(text=text):
                    return text
                case Failed(error=error):
                    raise ToolError(f"the agent {self.name!r} failed: {error}") from error
                case Interrupted(reason=reason):
                    kind = ToolErrorKind.PERMISSION if outcome.pending else ToolErrorKind.CANCELLED
                    raise ToolError(f"the agent {self.name!r} was interrupted: {reason}", kind)

        return JsonTool(
            name or self.name,
            description or self.description or f"Ask the agent {self.name!r}.",
            {
                "type": "object",
                "properties": {"task": {"type": "string", "description": "What it should do or find out."}},
                "required": ["task"],
                "additionalProperties": False,
            },
            ask,
            timeout=_DAY,  # the caller's budget and cancellation are what bounds it
            effect="once" if any(tool.effect == "once" for tool in self.runtime.registry) else "idempotent",
        )

    def _advise(self, playbook: StrategySource, task: str) -> str:
        """What earlier runs have taught, as sentences, where its tools are here."""
        known = set(self.runtime.registry.names)
        found = playbook.retrieve(task, domain=self._domain, k=3)
        return "\n".join(item.text for item in found if known.issuperset(item.tool_sequence))

    def _result(self, outcome: Outcome[OutT]) -> RunResult[OutT]:
        return result_of(outcome, decide="agent.resume(error.outcome, {token: Approve()})")


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
