"""The runtime: a model, tools, a policy and a budget, ready to run tasks through the one loop."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast, overload

from wesichain.core import (
    Clock,
    Event,
    EventSink,
    Message,
    ReActState,
    ReActStep,
    Role,
    SystemClock,
    ToolCallingLlm,
    ToolSpec,
    read_state,
    traits_of,
)
from wesichain.errors import ConfigError, PolicyConfigError
from wesichain.policy import Account, Budget, FailFast, ObserveErrors, PolicyEngine, Spent
from wesichain.tools import CancellationToken, ToolContext, ToolRegistry, ToolSet
from wesichain.trace import Redactor

from .drive import Drive
from .effects import Effects, LiveEffects
from .history import clean_history, is_over, messages_of
from .narrate import Narrator
from .phases import Idle, Interrupted, Observed, Outcome, RunInfo, begin, go_on
from .rules import GUARD, Decision, Judge, LoopGuard, Tally, output_form
from .running import OnLimit, Running, Settings
from .trail import Trail

OutT = TypeVar("OutT")
Sinks = EventSink | Iterable[EventSink] | None

_REMEMBERED_TOKENS = 10_000
_CLOCK: Clock = SystemClock()
_NOTHING = Spent()


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
        if tool_concurrency < 1:
            raise PolicyConfigError(f"tool_concurrency={tool_concurrency}: at least one tool runs at a time")
        if on_limit not in ("fail", "partial", "answer"):
            raise PolicyConfigError(f"on_limit={on_limit!r}: use 'fail', 'partial' or 'answer'")
        if exclude_after is not None and exclude_after < 1:
            raise PolicyConfigError(
                f"exclude_after={exclude_after}: use 1 or more, or None to exclude no tool"
            )
        if not hasattr(llm, "complete"):
            raise ConfigError(
                f"{type(llm).__name__} is not a model: it has no complete(request); "
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
        self._sinks = _sinks(events)
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
        read = ReActState(task) if isinstance(task, str) else read_state(task)
        over = is_over(read.scratchpad)
        messages: list[Message] = []
        text = self._instructions if instructions is None else instructions
        if text:
            messages.append(Message(Role.SYSTEM, text))
        if history:
            messages += clean_history(history)
        first_new = len(messages)
        messages.append(Message(Role.USER, f"{read.user_input}\n\n{advice}" if advice else read.user_input))
        if read.scratchpad and not over:
            messages += messages_of(read.scratchpad)
        steps: list[ReActStep] = list(read.scratchpad)
        info = RunInfo(
            run_id or self._new_id(),
            read.user_input,
            read if isinstance(task, str) else task,
            first_new=first_new,
            earlier=read.iteration_count if over else 0,
            before=Spent(steps=read.iteration_count) if read.iteration_count and not over else _NOTHING,
        )
        return begin(info, Trail(messages, steps))

    async def run(
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
    ) -> Outcome[OutT]:
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
            Tally(),
            cancellation=cancellation,
            stream=stream,
            events=events,
            budget=budget,
            parent=parent,
            effects=effects,
            clock=clock,
        )
        return await drive.carry(idle)

    async def resume(
        self,
        interrupted: Interrupted[OutT],
        decisions: Mapping[str, Decision] | None = None,
        *,
        cancellation: CancellationToken | None = None,
        stream: bool = False,
        events: Sinks = None,
        budget: Budget | None = None,
        parent: ToolContext | None = None,
        effects: Callable[[Effects], Effects] | None = None,
    ) -> Outcome[OutT]:
        """Go on with an interrupted run, with a decision for each call that waits for one."""
        decisions = dict(decisions or {})
        self._check_decisions(interrupted, decisions)
        phase = go_on(interrupted)
        unfinished = interrupted.unfinished
        drive = self._drive(
            phase.info,
            interrupted.tally,
            cancellation=cancellation,
            stream=stream,
            events=events,
            budget=budget,
            parent=parent,
            effects=effects,
            decisions=decisions,
            done=unfinished.done if unfinished else (),
        )
        return await drive.carry(phase, resumed=True)

    def _check_decisions(self, interrupted: Interrupted[Any], decisions: Mapping[str, Decision]) -> None:
        """Every waiting call has its decision, none is stale, none is used twice."""
        waiting = {item.token: item for item in interrupted.pending}
        unknown = [token for token in decisions if token not in waiting]
        if unknown:
            raise ConfigError(f"no call waits for the token {unknown[0]!r}; take tokens from outcome.pending")
        missing = [item.call.name for token, item in waiting.items() if token not in decisions]
        if missing:
            raise ConfigError(f"decide on every waiting call: {', '.join(missing)} has no decision yet")
        now = self._settings.clock.time()
        for token, item in waiting.items():
            if item.expires_at is not None and now > item.expires_at:
                raise ConfigError(f"the approval of {item.call.name!r} has expired; run the task again")
            if token in self._used_tokens:
                raise ConfigError(f"the approval of {item.call.name!r} was used already; a token works once")
        for token in waiting:
            self._used_tokens[token] = None
        while len(self._used_tokens) > _REMEMBERED_TOKENS:
            self._used_tokens.popitem(last=False)

    def _drive(
        self,
        info: RunInfo,
        tally: Tally,
        *,
        cancellation: CancellationToken | None,
        stream: bool,
        events: Sinks,
        budget: Budget | None,
        parent: ToolContext | None,
        effects: Callable[[Effects], Effects] | None,
        clock: Clock | None = None,
        decisions: Mapping[str, Decision] | None = None,
        done: tuple[Observed, ...] = (),
    ) -> Drive[OutT]:
        settings = self._settings if clock is None else replace(self._settings, clock=clock)
        sinks = self._sinks + _sinks(events)
        above = parent.budget if parent is not None else None
        relay: Callable[[Event], None] | None = parent.emit if parent is not None else None
        if cancellation is None and parent is not None:
            cancellation = parent.cancellation
        live = self._live
        running = Running(
            settings,
            effects=live if effects is None else effects(live),
            narrator=Narrator(
                info.run_id,
                info.events,
                clock=settings.clock,
                last_seq=info.last_seq,
                sinks=sinks,
                redactor=(self._redactor or Redactor()) if sinks else None,
                own_rules=self._redactor is not None,
                relay=relay,
            ),
            account=Account(
                budget or self._budget,
                model=settings.model,
                now=settings.clock.monotonic(),
                parent=above if isinstance(above, Account) else None,
                spent=info.before,
            ),
            tally=tally,
            token=cancellation,
        )
        return Drive(running, stream=stream, decisions=decisions, done=done)


def _random_id() -> str:
    return os.urandom(16).hex()


def _sinks(events: Sinks) -> tuple[EventSink, ...]:
    if events is None:
        return ()
    if isinstance(events, EventSink):
        return (events,)
    return tuple(events)
