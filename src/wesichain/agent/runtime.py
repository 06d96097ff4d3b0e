"""The runtime: a model, tools, a policy and a budget, ready to run tasks through the one loop."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, cast, overload

from typing_extensions import Unpack

from wesichain.core import (
    Approve,
    ApproveWith,
    Clock,
    Decided,
    Decision,
    Message,
    ReActStep,
    Refuse,
    Role,
    SystemClock,
    ToolCall,
    ToolCallingLlm,
    ToolSpec,
    maker,
    read_state,
    traits_of,
)
from wesichain.errors import ConfigError
from wesichain.policy import Account, Budget, FailFast, ObserveErrors, PolicyEngine, Spent
from wesichain.tools import CancellationToken, ToolContext, ToolRegistry, ToolSet

from .drive import Drive
from .effects import Effects, LiveEffects
from .history import clean_history, is_over, messages_of
from .narrate import Narrator, Sinks, as_sinks, listeners
from .phases import Idle, Interrupted, Outcome, RunInfo, begin, go_on
from .rules import GUARD, Judge, LoopGuard, Rejected, Tally, output_form
from .running import OnLimit, Running, Settings, check_options
from .trail import Trail

if TYPE_CHECKING:
    from wesichain.trace import Redactor

OutT = TypeVar("OutT")

_REMEMBERED_TOKENS = 10_000
_CLOCK: Clock = SystemClock()
_NOTHING = Spent()
_message, _info = maker(Message), maker(RunInfo)


class DriveOptions(TypedDict, total=False):
    """What a run may be told, whether it begins or goes on; see `AgentRuntime.run`."""

    cancellation: CancellationToken | None
    events: Sinks
    budget: Budget | None
    parent: ToolContext | None
    effects: Callable[[Effects], Effects] | None
    clock: Clock | None


class ResumeOptions(DriveOptions, total=False):
    """What a run that goes on may be told."""

    stream: bool


class AgentRuntime(Generic[OutT]):
    """Runs tasks. Holds no state of a run: the same runtime runs any number of them at once."""

    @overload
    def __init__(
        self: AgentRuntime[str],
        llm: ToolCallingLlm,
        tools: Iterable[Any] | ToolRegistry = (),
        *,
        policy: PolicyEngine | None = None,
        budget: Budget = ...,
        instructions: str | None = None,
        on_limit: OnLimit = "fail",
        events: Sinks = None,
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
        llm: ToolCallingLlm,
        tools: Iterable[Any] | ToolRegistry = (),
        *,
        output_type: type[OutT],
        policy: PolicyEngine | None = None,
        budget: Budget = ...,
        instructions: str | None = None,
        on_limit: OnLimit = "fail",
        events: Sinks = None,
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
        llm: ToolCallingLlm,
        tools: Iterable[Any] | ToolRegistry = (),
        *,
        output_type: Any = str,
        policy: PolicyEngine | None = None,
        budget: Budget = Budget(),
        instructions: str | None = None,
        on_limit: OnLimit = "fail",
        events: Sinks = None,
        tool_concurrency: int = 1,
        exclude_after: int | None = 3,
        loop_guard: LoopGuard | None = GUARD,
        approval_ttl: float | None = None,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        check_options(
            policy=policy,
            budget=budget,
            instructions=instructions,
            on_limit=on_limit,
            tool_concurrency=tool_concurrency,
            exclude_after=exclude_after,
            loop_guard=loop_guard,
        )
        if not hasattr(llm, "complete") or isinstance(llm, type):
            kind = f"the class {llm.__name__}" if isinstance(llm, type) else type(llm).__name__
            raise ConfigError(
                f"{kind} is not a model: pass an object with complete(request); "
                f"a plain text model goes into wesichain.llm.react_text.TextReAct"
            )
        registry = tools if isinstance(tools, ToolRegistry) else ToolSet.of(tools).build()
        traits = traits_of(llm)
        output = output_form(output_type, traits)
        if output.final_tool is not None and output.final_tool.name in registry:
            raise ConfigError(
                f"a tool is named {output.final_tool.name!r}, which output_type needs; rename it"
            )
        model = str(getattr(llm, "model", "") or type(llm).__name__)
        if budget.cost is not None and model not in budget.prices:
            raise ConfigError(f"a budget with a cost needs the prices of {model!r}: Budget(prices={{...}})")
        self._llm = llm
        self._live = LiveEffects(llm, registry)
        self._budget = budget
        self._instructions = instructions
        self._sinks = as_sinks(events)
        self._redactor = redactor
        self._new_id = new_id or _random_id
        self._used_tokens: OrderedDict[str, None] = OrderedDict()
        self._settings: Settings[OutT] = Settings(
            model=model,
            registry=registry,
            judge=Judge(registry, output),
            policy=policy or (ObserveErrors() if traits.observes_errors else FailFast()),
            clock=clock or _CLOCK,
            on_limit=on_limit,
            tool_concurrency=tool_concurrency,
            exclude_after=exclude_after,
            loop_guard=loop_guard,
            approval_ttl=approval_ttl,
        )

    @property
    def registry(self) -> ToolRegistry:
        return self._settings.registry

    def offered(self) -> tuple[ToolSpec, ...]:
        """The tools that a run begins with, the one for its typed answer included."""
        final = self._settings.judge.output.final_tool
        return self.registry.specs() if final is None else (*self.registry.specs(), final)

    def read_output(self, text: str) -> OutT:
        """The typed answer that a text stands for; one that does not is a `CodecError`."""
        return self._settings.judge.output.read(text)

    @property
    def model(self) -> str:
        return self._settings.model

    @property
    def budget(self) -> Budget:
        return self._budget

    def start(
        self,
        task: object,
        *,
        history: Sequence[Message] = (),
        run_id: str | None = None,
        instructions: str | None = None,
        advice: str = "",
    ) -> Idle[OutT]:
        """The first phase of a run of a task, or of a state that has one (`read_state`).

        `advice` is shown to the model right after the task, and is no part of it.
        """
        question, scratchpad, counted = (task, (), 0) if isinstance(task, str) else _read(task)
        over = bool(scratchpad) and is_over(scratchpad)
        messages: list[Message] = []
        text = self._instructions if instructions is None else instructions
        if text:
            messages.append(_message(Role.SYSTEM, text))
        if history:
            own = messages.copy()  # a history that has the instructions too is shown them once
            messages += [message for message in clean_history(history) if message not in own]
        first_new = len(messages)
        messages.append(_message(Role.USER, f"{question}\n\n{advice}" if advice else question))
        if scratchpad and not over:
            messages += messages_of(scratchpad)
        info = _info(
            run_id or self._new_id(),
            question,
            task,
            first_new=first_new,
            earlier=counted if over else 0,
            before=Spent(steps=counted) if counted and not over else _NOTHING,
        )
        return begin(info, Trail.of(messages, scratchpad))

    def run(
        self,
        task: object,
        *,
        history: Sequence[Message] = (),
        cancellation: CancellationToken | None = None,
        run_id: str | None = None,
        instructions: str | None = None,
        advice: str = "",
        stream: bool = False,
        events: Sinks = None,
        budget: Budget | None = None,
        parent: ToolContext | None = None,
        effects: Callable[[Effects], Effects] | None = None,
        clock: Clock | None = None,
    ) -> Coroutine[Any, Any, Outcome[OutT]]:
        """Carry a task, a state or an `Idle` phase to its end. Never raises for what the run meets.

        `parent` makes it a nested run, which draws on the caller's budget, stops with it and reports
        into its log; `effects` wraps what answers the loop, for replays and durable runs.
        """
        if isinstance(task, Idle):
            idle = cast("Idle[OutT]", task)
        else:
            idle = self.start(task, history=history, run_id=run_id, instructions=instructions, advice=advice)
        drive = self._drive(
            idle.info,
            cancellation=cancellation,
            events=events,
            budget=budget,
            parent=parent,
            effects=effects,
            clock=clock,
        )
        return drive.carry(idle, stream=stream)

    async def resume(
        self,
        interrupted: Interrupted[OutT],
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[ResumeOptions],
    ) -> Outcome[OutT]:
        """Go on with an interrupted run, with a decision for each call that waits for one."""
        given: Any = interrupted
        if not isinstance(given, Interrupted):
            raise ConfigError(f"a {type(given).__name__} cannot go on; pass the Interrupted outcome of a run")
        clock = options.get("clock") or self._settings.clock
        self._check_decisions(interrupted, decisions or {}, clock.time())
        return await self.go_on(interrupted, decisions or {}, **options)

    def go_on(
        self,
        interrupted: Interrupted[OutT],
        decisions: Mapping[str, Decision],
        *,
        stream: bool = False,
        **options: Unpack[DriveOptions],
    ) -> Coroutine[Any, Any, Outcome[OutT]]:
        """The same for decisions that were checked, and may have been used before, as in a replay."""
        phase = go_on(interrupted)
        drive = self._drive(phase.info, tally=interrupted.tally, **options)
        done = interrupted.unfinished.done if interrupted.unfinished else ()
        decided = tuple(
            Decided(item.token, item.call.name, decisions[item.token])
            for item in interrupted.pending
            if item.token in decisions
        )
        return drive.go_on(phase, decided, done, stream=stream)

    def _check_decisions(
        self, interrupted: Interrupted[Any], decisions: Mapping[str, Decision], now: float
    ) -> None:
        """Every waiting call has its decision, none is stale, none is used twice."""
        waiting = {item.token: item for item in interrupted.pending}
        unknown = [token for token in decisions if token not in waiting]
        if unknown:
            raise ConfigError(f"no call waits for the token {unknown[0]!r}; take tokens from outcome.pending")
        missing = [item.call.name for token, item in waiting.items() if token not in decisions]
        if missing:
            raise ConfigError(f"decide on every waiting call: {', '.join(missing)} has no decision yet")
        for token, item in waiting.items():
            if item.expires_at is not None and now > item.expires_at:
                raise ConfigError(f"the approval of {item.call.name!r} has expired; run the task again")
            if token in self._used_tokens:
                raise ConfigError(f"the approval of {item.call.name!r} was used already; a token works once")
            self._check_decision(item.call, decisions[token])
        for token in waiting:
            self._used_tokens[token] = None
        while len(self._used_tokens) > _REMEMBERED_TOKENS:
            self._used_tokens.popitem(last=False)

    def _check_decision(self, call: ToolCall, decision: Any) -> None:
        """A decision that cannot be followed is refused before it uses up its token."""
        match decision:
            case Approve() | Refuse():
                pass
            case ApproveWith(args=args):
                found = self._settings.judge.prepare(ToolCall(call.id, call.name, args), 0)
                if isinstance(found, Rejected):
                    raise ConfigError(f"the approved arguments do not fit: {found.error}")
            case _:
                raise ConfigError(
                    f"{decision!r} is no decision on {call.name!r}; "
                    f"use Approve(), ApproveWith(args) or Refuse(reason)"
                )

    def _drive(
        self,
        info: RunInfo,
        *,
        cancellation: CancellationToken | None = None,
        events: Sinks = None,
        budget: Budget | None = None,
        parent: ToolContext | None = None,
        effects: Callable[[Effects], Effects] | None = None,
        clock: Clock | None = None,
        tally: Tally | None = None,
    ) -> Drive[OutT]:
        settings = self._settings if clock is None else replace(self._settings, clock=clock)
        sinks = self._sinks if events is None else self._sinks + as_sinks(events)
        above, told = None, listeners(info.run_id, sinks, self._redactor) if sinks else None
        if parent is not None:
            above = parent.budget
            cancellation = cancellation or parent.cancellation
            told = listeners(info.run_id, sinks, self._redactor, relay=parent.emit)
        narrator = Narrator(info.run_id, info.events, settings.clock.time, info.last_seq, told)
        account = Account(
            budget or self._budget,
            settings.model,
            settings.clock.monotonic(),
            above if isinstance(above, Account) else None,
            info.before,
        )
        live = self._live if effects is None else effects(self._live)
        running = Running(settings, live, narrator, account, cancellation)
        running.tally = tally or running.tally
        return Drive(running)


def _read(state: object) -> tuple[str, Sequence[ReActStep], int]:
    read = read_state(state)
    return read.user_input, read.scratchpad, read.iteration_count


_ids: list[str] = []  # random ids that wait for their run: to ask the system for each alone takes longer
os.register_at_fork(after_in_child=_ids.clear)


def _random_id() -> str:
    try:
        return _ids.pop()
    except IndexError:
        drawn = os.urandom(16 * 64).hex()
        _ids.extend(drawn[start : start + 32] for start in range(32, len(drawn), 32))
        return drawn[:32]
