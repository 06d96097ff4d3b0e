"""`AgentRuntime`: a model with tools, a policy and a budget, which opens, runs and resumes runs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from typing_extensions import Unpack

from wesichain.context.internal import counter_of
from wesichain.core import Content, Message, Role, ToolCallingLlm, ToolSpec
from wesichain.core.internal import (
    Advice,
    CancellationToken,
    Clock,
    Decided,
    Decision,
    LlmTraits,
    PendingCall,
    Spent,
    SystemClock,
    around,
    check_settings,
    other_models,
    replace,
    traits_of,
)
from wesichain.errors import ConfigError, DuplicateToolError
from wesichain.middleware import Middleware
from wesichain.policy import Budget, ObserveErrors
from wesichain.policy.internal import Account
from wesichain.tools import Tool, ToolContext, ToolRegistry, ToolSet

from .calls.call_approvals import UsedTokens, with_decided_args
from .calls.open_call import InnerRun, OpenCall
from .drive import Drive, OpenRun, PastRun, calls_before
from .effects import Effects, LiveEffects, complete_effects
from .emitter import Emitter, Listener, listeners, signed
from .flow.flow import READ_SEALED, Flow
from .memory.history import is_over, messages_of, opening, question_of
from .model_names import AnyModel, Models, name_of_model
from .model_turn import ModelTurn
from .options import Deps, RunOptions, agent_options, as_sinks, random_id, run_options
from .phases import Active, Completed, Idle, Interrupted, Outcome, RunInfo, begin, resumed, with_output
from .rules.answers import OutputForm, output_form
from .rules.checks import Checks
from .rules.reply_judge import judge_of
from .rules.tally import Tally
from .run_state import RunState, Settings
from .trail import Trail

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # a type, or a union of types

    from .flow.rule import FlowRule
    from .handoffs.handoff import Actor, Handoff, Transfer
    from .keywords import AgentKeywords, RunKeywords

OutT = TypeVar("OutT")

_CLOCK: Clock = SystemClock()
_WRAPPED = ("wrap_run", "wrap_model", "wrap_tool")
_USER = Role.USER  # looking the member up takes a third of the time of making the message


class AgentRuntime(Generic[OutT]):
    """Runs tasks. Holds no state of a run: one runtime can run many tasks at once."""

    adapt: Callable[[ToolRegistry], ToolRegistry] | None = None  # the tools of agents that runs are handed to

    @overload
    def __init__(
        self: AgentRuntime[str],
        llm: ToolCallingLlm,
        tools: Iterable[Any] | ToolRegistry = (),
        **options: Unpack[AgentKeywords[str]],
    ) -> None: ...
    @overload
    def __init__(
        self,
        llm: ToolCallingLlm,
        tools: Iterable[Any] | ToolRegistry = (),
        *,
        output_type: TypeForm[OutT],
        **options: Unpack[AgentKeywords[OutT]],
    ) -> None: ...
    def __init__(
        self,
        llm: ToolCallingLlm,
        tools: Iterable[Any] | ToolRegistry = (),
        *,
        output_type: Any = str,
        **options: Unpack[AgentKeywords],
    ) -> None:
        """`AgentOptions` explains the options."""
        given = agent_options(options)
        if not hasattr(llm, "complete") or isinstance(llm, type):
            kind = f"the class {llm.__name__}" if isinstance(llm, type) else type(llm).__name__
            raise ConfigError(
                f"{kind} is not a model: pass an object with complete(request); "
                f"a plain text model goes into wesichain.llm.react_text.TextReAct"
            )
        registry = tools if isinstance(tools, ToolRegistry) else ToolSet.of(tools).build()
        counter_of(given.context)  # raises here, not in the first run, if the views count in different ways
        self._given = given
        self.deps = Deps(given.deps_type)
        self.run_middleware: Sequence[Middleware] = ()  # around whole runs
        self._call_middleware: tuple[Any, ...] | None = None
        if given.middleware:
            from .middleware_calls import overriding

            self.run_middleware, *inside = (overriding(given.middleware, name) for name in _WRAPPED)
            self._call_middleware = tuple(inside) if any(inside) else None
        self.budget = given.budget
        self._instructions = given.instructions
        self._sinks = as_sinks(given.events)
        self._redactor = given.redactor
        self._new_id = given.new_id or random_id
        self._used_tokens = UsedTokens()
        self._models: Models[AgentRuntime[OutT]] = Models()
        self._reported = ""  # the name of a model that is used in place of the agent's
        self.output_type = output_type
        self.identity = object()  # copies of this runtime share it
        self.transfers: dict[str, Transfer] = {}
        self._equip(llm, registry)
        account = Account(given.budget, self.model)  # raises if the cost is limited and a price is missing
        for other in self.settings.other_models:
            account.price_of(other)
        self._may_change = bool(self.registry.sources)  # whether the acting agent or its tools can change
        for handoff in given.handoffs:
            self.add_handoff(handoff)

    def _equip(self, llm: ToolCallingLlm, registry: ToolRegistry) -> None:
        """Set the model, the tools and the settings that depend on them."""
        given, traits = self._given, traits_of(llm)
        if given.flow is not None and given.flow.seal and READ_SEALED not in registry:
            registry = self._with_reader(registry, given.flow)
        output = self._output_form(llm, has_tools=bool(registry.names or registry.sources or given.handoffs))
        policy = ObserveErrors() if traits.observes_errors else given.default_policy
        self.llm = llm
        self._live = LiveEffects(llm, registry)
        self.settings: Settings[OutT] = Settings(
            name=given.name,
            model=name_of_model(llm),
            judge=judge_of(registry, output),
            checks=Checks.of(output, given.output_checks) if given.output_checks else None,
            policy=given.policy or policy,
            clock=given.clock or _CLOCK,
            on_limit=given.on_limit,
            tool_concurrency=given.tool_concurrency,
            exclude_after=given.exclude_after,
            loop_guard=given.loop_guard,
            approval_ttl=given.approval_ttl,
            context=tuple(given.context),
            beside=partial(AgentRuntime, llm),
            model_settings=given.settings,
            flow=given.flow,
            middleware=tuple(given.middleware),
            other_models=other_models(llm),
            free_steps=traits.free_steps,
        )
        check_settings(llm, given.settings)

    def _with_reader(self, registry: ToolRegistry, flow: Flow) -> ToolRegistry:
        """The tools, and the one that asks a model without tools about sealed text."""
        from .flow.sealed import ReadSealed  # it loads pydantic

        reader: AgentRuntime[str] | None = None
        if flow.reader is not None:
            one_step = Budget(steps=1, prices=self._given.budget.prices)
            reader = AgentRuntime(flow.reader, budget=one_step, name="reader")
        return registry.with_tools({READ_SEALED: ToolSet.of([ReadSealed(reader)]).build()})

    def _output_form(self, llm: ToolCallingLlm, *, has_tools: bool) -> OutputForm[OutT]:
        mode = self._given.output_mode
        return output_form(self.output_type, traits_of(llm), mode=mode, has_tools=has_tools)

    def add_handoff(self, other: Actor | Handoff) -> None:
        """Add an agent, or a `Handoff`, that the model may hand its runs off to."""
        from .handoffs.current_agent import check_handoff, team_of
        from .handoffs.handoff import Transfer  # loaded with the first handoff

        transfer = Transfer(check_handoff(self, other))
        settings, before = self.settings, self.transfers
        registry = settings.registry.with_tools({transfer.name: ToolRegistry([transfer])})
        self.transfers = {**before, transfer.name: transfer}
        try:
            team_of(self)
        except ConfigError:
            self.transfers = before
            raise
        output = settings.judge.output
        if not settings.registry.names:  # its first tool: some models take no schema together with tools
            output = self._output_form(self.llm, has_tools=True)
        checks = settings.checks and replace(settings.checks, form=output)
        self.settings = replace(settings, judge=judge_of(registry, output), checks=checks)
        self._live = LiveEffects(self.llm, registry)
        self._may_change = True
        self._models.invalidate()

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def model(self) -> str:
        return self.settings.model

    @property
    def registry(self) -> ToolRegistry:
        return self.settings.registry

    def with_model(self, model: AnyModel) -> AgentRuntime[OutT]:
        """A copy of this runtime with another model, given as a client or by name."""

        def make(llm: ToolCallingLlm) -> AgentRuntime[OutT]:
            made = copy(self)
            made._equip(llm, self.registry)
            made._reported = model if isinstance(model, str) else made.model
            return made

        return self._models.get(model, make)

    def with_tools(self, tools: Iterable[Any]) -> AgentRuntime[OutT]:
        """A copy of this runtime with further tools; a name that is taken is a `DuplicateToolError`."""
        added = ToolSet.of(tools).build()
        for name in added.names:
            if any(spec.name == name for spec in self.offered()):
                raise DuplicateToolError(name)
        made = copy(self)
        made._models = Models()
        made._equip(self.llm, self.registry.with_tools(dict.fromkeys(added.names, added)))
        return made

    def _for(self, given: RunOptions, before: str = "") -> AgentRuntime[OutT]:
        """The runtime for a run: this one, or a copy if the run has another model now or had one `before`."""
        model = given.model or self._models.known(before)
        return self if model is None else self.with_model(model)

    def deps_of(self, options: RunOptions, *, needed: bool | None = None) -> Any:
        """The deps of a run, its own or its caller's; the wrong type is a `ConfigError`.

        By default they are `needed` if the run has no effects of its own.
        """
        needed = options.effects is None if needed is None else needed
        deps = options.deps
        if deps is None and options.parent is not None:
            deps = options.parent.deps
        self.deps.check(deps, self.settings.name, needed=needed)
        if self.transfers:
            from .handoffs.current_agent import check_deps  # loaded with the first handoff

            check_deps(self, deps, needed=needed)
        return deps

    def offered(self) -> tuple[ToolSpec, ...]:
        """The tools that are offered at the start of a run, with those for its typed answer."""
        return self.settings.judge.offered

    def read_output(self, text: str) -> OutT:
        """Parse text as the typed answer; raises `CodecError`."""
        return self.settings.judge.output.read(text)

    def place(self, task: object, parent: ToolContext | None) -> InnerRun | None:
        """The place of a run of this task inside the call of `parent`; None without a parent."""
        if parent is None:
            return None
        if isinstance(task, str):
            text = task
        elif isinstance(task, Idle):
            text = task.info.task
        elif isinstance(task, list | tuple):
            text = Message(Role.USER, cast("Any", task)).text
        else:
            text = question_of(task)[0]
        link = parent.link
        return link.place(self.settings.name, text) if isinstance(link, OpenCall) else None

    def new_id(self, inner: InnerRun | None = None) -> str:
        """An id for a run without one. Inside a call, a repeated call gets the same id."""
        return self._new_id() if inner is None else inner.run_id

    @property
    def traits(self) -> LlmTraits:
        return traits_of(self.llm)

    def start(
        self,
        task: object,
        history: Sequence[Message] = (),
        run_id: str | None = None,
        *,
        instructions: str | None = None,
        advice: Advice | None = None,
    ) -> Idle[OutT]:
        """The first phase of a run. The task is text, a list of texts and parts, or a state."""
        content: Content | None = None
        if type(task) is list or type(task) is tuple:
            asked = Message(Role.USER, cast("Any", task))
            content, task = asked.content, asked.text
        question, scratchpad, counted = (task, (), 0) if isinstance(task, str) else question_of(task)
        over = is_over(scratchpad) if scratchpad else False
        text = self._instructions if instructions is None else instructions
        messages = opening(text, advice, self.settings.judge.output.prompt, history)
        first_new = len(messages)
        messages.append(Message(_USER, question if content is None else content))
        if scratchpad and not over:
            messages += messages_of(scratchpad)
        name, model = self.settings.name, self._reported
        info = RunInfo(run_id or self._new_id(), question, task, first_new, agent=name, model=model)
        if counted or content is not None:
            info = replace(
                info,
                earlier=counted if over else 0,
                step=0 if over else counted,
                before=Spent(steps=counted) if counted and not over else None,
                parts=() if content is None else cast("Any", content),
            )
        return begin(info, Trail.of(messages, scratchpad))

    def _start_with(
        self, given: RunOptions, history: Sequence[Message], task: object, run_id: str | None
    ) -> Idle[OutT]:
        """The first phase of a run of a task with these options."""
        idle = self.start(task, history, run_id, instructions=given.instructions, advice=given.advice)
        if given.settings is None and given.budget is None:
            return idle
        return begin(replace(idle.info, settings=given.settings, budget=given.kept_budget), idle.trail)

    def run(
        self, task: object, *, history: Sequence[Message] = (), **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, Outcome[OutT]]:
        """Run a task, a state or an `Idle` phase to its end. A failed run is returned, not raised.

        `RunOptions` explains the options.
        """
        return self.open_with(task, history, run_options(options)).run_to_end()

    def open(
        self, task: object, *, history: Sequence[Message] = (), **options: Unpack[RunKeywords]
    ) -> OpenRun[OutT]:
        """Open a run to take it step by step: call `await run.step()` until it has an `outcome`."""
        return self.open_with(task, history, run_options(options))

    def open_with(self, task: object, history: Sequence[Message], given: RunOptions) -> OpenRun[OutT]:
        """Open a run that has not begun, with its options as one value."""
        if given.model is not None and (other := self._for(given)) is not self:
            return other.open_with(task, history, given)
        settings = self._given.settings
        if given.settings is not None:
            settings = settings.merge(given.settings)
            check_settings(self.llm, settings)
        if settings.tool_choice is not None:
            self._check_tool_choice(settings.tool_choice)
        inner = given.inner or (None if given.parent is None else self.place(task, given.parent))
        if inner is not None and inner.outcome is not None:
            return self._reenter(inner, inner.outcome, given)
        advice, instructions = given.advice, given.instructions
        if type(task) is Idle:
            idle = cast("Idle[OutT]", task)
        else:
            run_id = given.run_id or (None if inner is None else inner.run_id)
            idle = self._start_with(given, history, task, run_id)
        tally = None if advice is None or not advice.tools else Tally(advised=advice.tools)
        drive, middleware = self._drive(idle, given, inner, tally)
        if advice is not None:
            drive.advice = advice
        if instructions is not None and instructions != self._instructions:
            drive.instructions = instructions
        if not middleware and drive.run.current_agent is None and given.on_open is None:
            return drive
        start = None
        if middleware and isinstance(task, str | list | tuple):  # middleware may change or repeat the task
            start = partial(self._start_with, given, history)
        return self._opened(drive, middleware, given, start)

    def _check_tool_choice(self, choice: str) -> None:
        """Raise a `ConfigError` if the agent does not have the tool that the model has to call."""
        registry = self.settings.registry
        if choice in ("auto", "required", "none") or registry.sources:
            return
        names = [spec.name for spec in registry.specs() + self.settings.judge.output.final_tools]
        if choice not in names:
            known = f"it has {', '.join(names)}" if names else "it has no tools"
            raise ConfigError(
                f"tool_choice={choice!r}: the agent {self.settings.name!r} has no such tool; {known}"
            )

    def journal_of(self, options: RunOptions) -> Effects:
        """The effects of a run before it is opened: they record its instructions and advice."""
        wrap = options.effects or (None if options.inner is None else options.inner.effects)
        return self._live if wrap is None else complete_effects(wrap(self._live))

    def _reenter(self, inner: InnerRun, outcome: Outcome[OutT], given: RunOptions) -> OpenRun[OutT]:
        """Resume a run inside a call that is made again, or return the run as it had ended."""
        if isinstance(outcome, Interrupted):
            return self.reopen(outcome, inner.call.decisions, replace(given, inner=inner))
        if isinstance(outcome, Completed):
            outcome = with_output(outcome, self.read_output(outcome.text))
        inner.ended(outcome.info.opened_by or outcome.info.agent, outcome)
        ended: PastRun[OutT] = PastRun(outcome)
        if given.on_open is not None:
            given.on_open(ended)
        return ended

    async def resume(
        self,
        interrupted: Interrupted[OutT],
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[RunKeywords],
    ) -> Outcome[OutT]:
        """Resume an interrupted run, with a decision for each call that waits for one."""
        given: Any = interrupted
        if not isinstance(given, Interrupted):
            raise ConfigError(
                f"resume() needs the Interrupted outcome of a run, got {type(given).__name__}; "
                f"it is error.outcome of a RunInterruptedError"
            )
        clock, decided = options.get("clock") or self.settings.clock, decisions or {}
        if interrupted.info.opened_by:
            from .handoffs.current_agent import acting_in

            acting_in(self, interrupted.info)
        with self._used_tokens.used(interrupted, decided, clock.time(), self.refusal_of):
            return await self.resume_run(interrupted, decided, **options)

    def resume_run(
        self,
        interrupted: Interrupted[OutT],
        decisions: Mapping[str, Decision],
        **options: Unpack[RunKeywords],
    ) -> Coroutine[Any, Any, Outcome[OutT]]:
        """Resume without the checks of `resume()`: a replay uses decisions that were used before."""
        return self.reopen(interrupted, decisions, run_options(options)).run_to_end()

    def reopen(
        self, interrupted: Interrupted[OutT], decisions: Mapping[str, Decision], options: RunOptions
    ) -> OpenRun[OutT]:
        """Open an interrupted run, to continue it from where it was."""
        other = self._for(options, interrupted.info.model)
        if other is not self:
            return other.reopen(interrupted, decisions, options)
        inner = options.inner
        scope = () if inner is None else inner.call.scope
        reply = with_decided_args(interrupted, decisions, scope)
        settings = interrupted.info.settings
        if options.settings is not None:
            settings = options.settings if settings is None else settings.merge(options.settings)
            check_settings(self.llm, self._given.settings.merge(settings))
        budget = options.kept_budget or interrupted.info.budget
        phase = resumed(interrupted, reply=reply, model=self._reported, settings=settings, budget=budget)
        drive, middleware = self._drive(phase, options, inner, copy(interrupted.tally))
        decided = tuple(
            Decided(item.token, item.call.name, decisions[item.token])
            for item in interrupted.pending
            if item.token in decisions
        )
        drive.resume_from(interrupted, decided, decisions)
        return self._opened(drive, middleware, options, None)

    def _drive(
        self, phase: Active[OutT], options: RunOptions, inner: InnerRun | None, tally: Tally | None
    ) -> tuple[Drive[OutT], Sequence[Middleware]]:
        """The `Drive` of a run, and the middleware around the run."""
        above: FlowRule | None = None if inner is None else inner.call.run.flow
        if above is not None and above.reader is not None and not self._reads_sealed:
            return self._sealing(above.reader)._drive(phase, options, inner, tally)
        try:
            run, middleware = self._state_of(phase.info, options, inner, tally)
        except ConfigError as error:
            if inner is not None:
                inner.fail(error)
            raise
        if options.stream or inner is not None:
            self._attach_reader(run, options, inner, middleware)
        if phase.info.step or phase.trail.length > 2:  # a run from before, or a history: its ids are taken
            run.used_ids.update((call.id, None) for call in calls_before(phase))
        return Drive(run, phase, inner, ModelTurn(run, phase, options.stream)), middleware

    @property
    def _reads_sealed(self) -> bool:
        return self.registry.get(READ_SEALED) is not None or self.settings.free_steps

    def _sealing(self, reader: Tool) -> AgentRuntime[OutT]:
        """A copy of this runtime with the tool that reads sealed text."""
        made = copy(self)
        tools = {READ_SEALED: ToolSet.of([reader]).build()}
        made._equip(self.llm, self.registry.with_tools(tools))
        return made

    def _opened(
        self,
        drive: Drive[OutT],
        middleware: Sequence[Middleware],
        options: RunOptions,
        start: Callable[..., Idle[OutT]] | None,
    ) -> OpenRun[OutT]:
        """Put the middleware around a run; `start` makes the first phase of another task."""
        agent = drive.run.current_agent
        opened: OpenRun[OutT] = drive
        if middleware or (agent is not None and agent.has_parts):
            from .middleware_run import MiddlewareRun  # loaded with the first middleware

            again = None if start is None else partial(self._run_again, drive.inner, options, start)
            opened = MiddlewareRun(drive, middleware, start, again)
        if options.on_open is not None:
            options.on_open(opened)
        return opened

    def _run_again(
        self, inner: InnerRun | None, options: RunOptions, start: Callable[..., Idle[OutT]], task: object
    ) -> Drive[OutT]:
        """A further run, for middleware that calls `call_next` again."""
        place = None if inner is None else inner.call.place()
        idle = start(task, None if place is None else place.run_id)
        return self._drive(idle, options, place, None)[0]

    def _state_of(
        self, info: RunInfo, options: RunOptions, inner: InnerRun | None, tally: Tally | None
    ) -> tuple[RunState[OutT], Sequence[Middleware]]:
        """The state of a run that has not begun, and the middleware around it."""
        parent, clock = options.parent, options.clock
        above: Account | None = None
        scope: tuple[str, ...] = ()
        wrap = options.effects
        if inner is not None:  # it has the clock of the run above
            clock, above, scope = clock or inner.call.settings.clock, inner.call.account, inner.call.scope
            wrap = wrap or inner.effects
        elif parent is not None and isinstance(parent.budget, Account):
            above = parent.budget  # the account of a graph, which is no run
        settings = self.settings if clock is None else replace(self.settings, clock=clock)
        token = options.cancellation
        if parent is not None:
            token = CancellationToken(*filter(None, (token, parent.cancellation)))
        elif token is not None:
            token = token.child()
        listen = None
        if self._sinks or options.events is not None or parent is not None or around.hook is not None:
            listen = self._listeners(info, options, inner)
        emitter = Emitter(info.run_id, info.events, settings.clock.time, info.last_seq, listen)
        account = Account(
            options.budget or info.budget or self.budget,
            settings.model,
            settings.clock.monotonic(),
            above,
            info.before,
        )
        for name in settings.other_models:
            account.price_of(name)  # a limited cost needs one
        middleware = self.run_middleware
        is_plain = not self._may_change and self._call_middleware is None and not info.opened_by
        effects = live = _metered(self._live, account) if is_plain else self._effects(info, account)
        if wrap is not None:
            effects = complete_effects(wrap(live))
            middleware, token = effects.around(middleware), effects.token(token)
        deps = options.deps
        if parent is not None or self.deps.is_declared or self.transfers:
            deps = self.deps_of(options, needed=effects.needs_deps)
        remembers = effects.remembers
        run = RunState(
            settings,
            effects,
            emitter,
            account,
            token,
            info.step,
            Tally() if tally is None else tally,
            deps,
            scope,
            info.settings,
            settings.clock.monotonic,
            remembers,
            type(settings.clock) is not SystemClock and not remembers,
            token is None and not account.is_timed,
        )
        if inner is not None:
            inner.call.run_began(inner.number, run)
        rule: FlowRule | None = None if inner is None else inner.call.run.flow
        flow = settings.flow if rule is None else rule.flow
        if flow is not None:
            run.flow = self._rule(flow, rule)
        if effects is not self._live:
            live.attach(run)
            effects.attach(run)
        return run, middleware

    def _rule(self, flow: Flow, above: FlowRule | None) -> FlowRule:
        """The rule of a run, from its own flow or from the one of the run above it."""
        from .flow.rule import FlowRule  # loaded with the first flow

        reader: Any = self.registry.get(READ_SEALED) if above is None else above.reader
        return FlowRule(flow, self, reader, above)

    def _listeners(
        self, info: RunInfo, options: RunOptions, inner: InnerRun | None
    ) -> tuple[Listener, Listener | None] | None:
        """The functions that receive the events of a run, for its sinks and for the run above it."""
        name = self.settings.name
        sinks = self._sinks if options.events is None else self._sinks + as_sinks(options.events)
        sinks = sinks if around.hook is None else (*sinks, around.hook.listener(name))
        if options.parent is None:
            return listeners(info, sinks, self._redactor) if sinks else None
        relay = options.parent.emit
        if inner is not None and relay is not None:
            relay = inner.relay(relay)
        return listeners(info, sinks, self._redactor, relay=signed(relay, info.run_id, name))

    def _attach_reader(
        self, run: RunState[OutT], options: RunOptions, inner: InnerRun | None, around: Sequence[Middleware]
    ) -> None:
        """Make the run wait for a slow reader, and hold back an answer that a guard checks first."""
        if inner is not None:
            run.pressure = inner.call.run.pressure
        if options.stream:
            run.pending_deltas = [] if any(one.holds_stream for one in around) else None
            ready = (getattr(sink, "ready", None) for sink in as_sinks(options.events))
            run.pressure = next(filter(None, ready), run.pressure)

    def _effects(self, info: RunInfo, account: Account) -> Effects:
        """The effects of a run whose agent or tools can change, or whose calls have middleware."""
        if self._may_change or info.opened_by:
            from .handoffs.current_agent import current_agent_of

            return current_agent_of(self, info, account)
        return self._wrapped(_metered(self._live, account))

    def effects_with(self, tools: ToolRegistry, account: Account) -> Effects:
        """The effects of the model and these tools, with the middleware around both."""
        return self._wrapped(_metered(LiveEffects(self.llm, tools), account))

    def _wrapped(self, live: Effects) -> Effects:
        if self._call_middleware is None:
            return live
        from .middleware_calls import WrappedEffects

        return WrappedEffects(live, *self._call_middleware)

    def system(self, instructions: str | None) -> str:
        """The system message: the instructions, and how to answer if that is said in the prompt."""
        return "\n\n".join(filter(None, (instructions, self.settings.judge.output.prompt)))

    def refusal_of(self, pending: PendingCall) -> Exception | None:
        """Why the tool of a pending call does not take its arguments; None if it does, or is not known."""
        from .handoffs.current_agent import refusal_in

        return refusal_in(self, pending)


def _metered(live: Effects, account: Account) -> Effects:
    """The effects with a check of each reply's usage, if the account limits the cost."""
    if not account.limits_cost:
        return live
    from .metered_effects import MeteredEffects

    return MeteredEffects(live, account)
