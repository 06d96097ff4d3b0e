"""The runtime: a model, tools, a policy and a budget, ready to run tasks through the one loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from typing_extensions import Unpack

from wesichain.context import counter_of
from wesichain.core import (
    Advice,
    Clock,
    Content,
    Decided,
    Decision,
    LlmTraits,
    Message,
    Role,
    Spent,
    SystemClock,
    ToolCallingLlm,
    ToolSpec,
    around,
    constructor_of,
    traits_of,
)
from wesichain.errors import ConfigError
from wesichain.middleware import Middleware
from wesichain.policy import Account, Budget, ObserveErrors
from wesichain.tools import ToolContext, ToolRegistry, ToolSet

from .calls import Site, UsedTokens, site_of, token_for, with_decided_args
from .drive import Drive
from .effects import Effects, LiveEffects
from .emitter import Emitter, listeners, signed
from .handing import Stage
from .memory.history import is_over, messages_of, opening, question_of
from .model_names import AnyModel, Models, name_of_model
from .options import Deps, RunOptions, agent_options, as_sinks, random_id, run_options
from .phases import Active, Idle, Interrupted, Outcome, RunInfo, begin, resumed
from .rules import Checks, Tally, judge_of, output_form
from .run_under_way import Running, Settings
from .trail import Trail

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # a type, or a union of types

    from .keywords import AgentKeywords, RunKeywords

OutT = TypeVar("OutT")

_CLOCK: Clock = SystemClock()
_WRAPPED = ("wrap_run", "wrap_model", "wrap_tool")
_message, _info = constructor_of(Message), constructor_of(RunInfo)
_USER = Role.USER  # to look a member up takes a third of making the message


class AgentRuntime(Stage[OutT], Generic[OutT]):
    """Runs tasks. Holds no state of a run: the same runtime runs any number of them at once."""

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
        """A runtime; `AgentOptions` says what each of the options is."""
        given = agent_options(options)
        if not hasattr(llm, "complete") or isinstance(llm, type):
            kind = f"the class {llm.__name__}" if isinstance(llm, type) else type(llm).__name__
            raise ConfigError(
                f"{kind} is not a model: pass an object with complete(request); "
                f"a plain text model goes into wesichain.llm.react_text.TextReAct"
            )
        registry = tools if isinstance(tools, ToolRegistry) else ToolSet.of(tools).build()
        counter_of(given.context)  # what cannot be counted is found here, not at the first run
        self._given = given
        self._deps = Deps(given.deps_type)
        self._around = ()
        self._inside = None
        if given.middleware:
            from .wrapping import overriding

            self._around, *inside = (overriding(given.middleware, name) for name in _WRAPPED)
            self._inside = tuple(inside) if any(inside) else None
        self._budget = given.budget
        self._instructions = given.instructions
        self._sinks = as_sinks(given.events)
        self._redactor = given.redactor
        self._new_id = given.new_id or random_id
        self._used_tokens = UsedTokens()
        self._models: Models[AgentRuntime[OutT]] = Models()
        self._reported = ""  # the name of a model that a run was told in place of the agent's
        self.output_type = output_type
        self._take(llm, registry)
        Account(given.budget, self.model)  # a cost without a price is found here
        self._prepare_handoffs(given.handoffs, output_type, given.output_mode)

    def _take(self, llm: ToolCallingLlm, registry: ToolRegistry) -> None:
        """Take a model: how a typed answer is asked for, and what is made of faults, depends on it."""
        given, traits = self._given, traits_of(llm)
        has_tools = bool(registry.names or registry.sources or given.handoffs)
        output = output_form(self.output_type, traits, mode=given.output_mode, has_tools=has_tools)
        policy = ObserveErrors() if traits.observes_errors else given.default_policy
        self._llm = llm
        self._live = LiveEffects(llm, registry)
        self._settings: Settings[OutT] = Settings(
            name=given.name,
            model=name_of_model(llm),
            registry=registry,
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
        )

    @property
    def llm(self) -> ToolCallingLlm:
        """The model of the runtime."""
        return self._llm

    def with_model(self, model: AnyModel) -> AgentRuntime[OutT]:
        """The same with another model, for one run or several: a client, or its name."""

        def make(llm: ToolCallingLlm) -> AgentRuntime[OutT]:
            made = copy(self)
            made._take(llm, self.registry)
            made._reported = model if isinstance(model, str) else made.model
            return made

        return self._models.get(model, make)

    def _for(self, given: RunOptions, before: str = "") -> AgentRuntime[OutT]:
        """The runtime for a run: this one, unless it is told another model, or was `before`."""
        model = given.model or self._models.known(before)
        return self if model is None else self.with_model(model)

    def deps_of(self, options: RunOptions) -> Any:
        """The deps of a run, its own or its caller's; a `ConfigError` where they are of another type."""
        return self._deps_of(options, needed=options.effects is None)

    def _deps_of(self, options: RunOptions, *, needed: bool) -> Any:
        deps = self._deps.of(options, self._settings.name, needed=needed)
        if self.transfers:
            from .handing.team import check_deps  # with the first handoff

            check_deps(self, deps, needed=needed)
        return deps

    def check_deps(self, deps: Any, *, needed: bool) -> None:
        """See that a run with these deps can be handed to this agent; a `ConfigError` where it cannot."""
        self._deps.check(deps, self._settings.name, needed=needed)

    def offered(self) -> tuple[ToolSpec, ...]:
        """The tools that a run begins with, those for its typed answer included."""
        return self.registry.specs() + self._settings.judge.output.final_tools

    def read_output(self, text: str) -> OutT:
        """The typed answer that a text stands for; one that does not is a `CodecError`."""
        return self._settings.judge.output.read(text)

    def new_id(self, parent: ToolContext | None = None) -> str:
        """The id of a run that has none yet; inside a call, the same whenever that call is run."""
        site = site_of(parent)
        return self._new_id() if site is None else site.new_id()

    @property
    def traits(self) -> LlmTraits:
        return traits_of(self._llm)

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
        advice: Advice | None = None,
    ) -> Idle[OutT]:
        """The first phase of a run of a task: a text, texts and parts, or a state that has one."""
        content: Content | None = None
        if type(task) is list or type(task) is tuple:
            asked = Message(Role.USER, cast("Any", task))
            content, task = asked.content, asked.text
        question, scratchpad, counted = (task, (), 0) if isinstance(task, str) else question_of(task)
        over = is_over(scratchpad) if scratchpad else False
        text = self._instructions if instructions is None else instructions
        messages = opening(text, advice, self._settings.judge.output.prompt, history)
        first_new = len(messages)
        messages.append(_message(_USER, question if content is None else content))
        if scratchpad and not over:
            messages += messages_of(scratchpad)
        name, told = self._settings.name, self._reported
        info = _info(run_id or self._new_id(), question, task, first_new, agent=name, model=told)
        if counted or content is not None:
            info = replace(
                info,
                earlier=counted if over else 0,
                step=0 if over else counted,
                before=Spent(steps=counted) if counted and not over else None,
                parts=() if content is None else cast("Any", content),
            )
        return begin(info, Trail.of(messages, scratchpad))

    def run(
        self, task: object, *, history: Sequence[Message] = (), **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, Outcome[OutT]]:
        """Carry a task, a state or an `Idle` phase to its end. Never raises for what the run meets.

        `RunOptions` says what each of the options is.
        """
        return self.opened(task, history, run_options(options)).run_to_end()

    def open(
        self, task: object, *, history: Sequence[Message] = (), **options: Unpack[RunKeywords]
    ) -> Drive[OutT]:
        """A run that is taken a step at a time: `await drive.step()` until it has an `outcome`."""
        return self.opened(task, history, run_options(options))

    def opened(self, task: object, history: Sequence[Message], given: RunOptions) -> Drive[OutT]:
        """The same, with the options as one value."""
        if given.model is not None and (other := self._for(given)) is not self:
            return other.opened(task, history, given)
        site = None if given.parent is None else site_of(given.parent)
        if site is not None:
            waiting = site.take_waiting(self._settings.name)
            if waiting is not None:
                return self.reopen(waiting, site.decisions, given)
        if isinstance(task, Idle):
            idle = cast("Idle[OutT]", task)
        else:
            idle = self.start(
                task,
                history=history,
                run_id=given.run_id or (self._new_id() if site is None else site.new_id()),
                instructions=given.instructions,
                advice=given.advice,
            )
        start = None
        if self._around and isinstance(task, str | list | tuple):
            start = partial(self.start, history=history, instructions=given.instructions, advice=given.advice)
        advised = () if given.advice is None else given.advice.tools
        tally = Tally(advised=advised) if advised else None
        drive = self._drive(idle, given, site, tally=tally, start=start)
        drive.advice = given.advice
        return drive

    async def resume(
        self,
        interrupted: Interrupted[OutT],
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[RunKeywords],
    ) -> Outcome[OutT]:
        """Go on with an interrupted run, with a decision for each call that waits for one."""
        given: Any = interrupted
        if not isinstance(given, Interrupted):
            raise ConfigError(f"a {type(given).__name__} cannot go on; pass the Interrupted outcome of a run")
        clock, decided = options.get("clock") or self._settings.clock, decisions or {}
        if interrupted.info.opened_by:
            from .handing.team import acting_in

            acting_in(self, interrupted.info)
        with self._used_tokens.used(interrupted, decided, clock.time(), self.refusal_of):
            return await self.resume_run(interrupted, decided, **options)

    def resume_run(
        self,
        interrupted: Interrupted[OutT],
        decisions: Mapping[str, Decision],
        **options: Unpack[RunKeywords],
    ) -> Coroutine[Any, Any, Outcome[OutT]]:
        """The same for decisions that were checked, and may have been used before, as in a replay."""
        return self.reopen(interrupted, decisions, run_options(options)).run_to_end()

    def reopen(
        self, interrupted: Interrupted[OutT], decisions: Mapping[str, Decision], options: RunOptions
    ) -> Drive[OutT]:
        """An interrupted run, to be taken a step at a time from where it was."""
        other = self._for(options, interrupted.info.model)
        if other is not self:
            return other.reopen(interrupted, decisions, options)
        phase = resumed(interrupted, reply=with_decided_args(interrupted, decisions), model=self._reported)
        drive = self._drive(phase, options, site_of(options.parent), tally=interrupted.tally)
        decided = tuple(
            Decided(item.token, item.call.name, decisions[item.token])
            for item in interrupted.pending
            if item.token in decisions
        )
        drive.resume_from(interrupted, decided, decisions)
        return drive

    def _drive(
        self,
        phase: Active[OutT],
        options: RunOptions,
        site: Site | None,
        *,
        tally: Tally | None = None,
        start: Callable[..., Idle[OutT]] | None = None,
    ) -> Drive[OutT]:
        """A run in its place: its account, its token and its log hang below those of its parent."""
        info, parent = phase.info, options.parent
        clock = options.clock or (None if site is None else site.clock)  # a run inside lives in its time
        settings = self._settings if clock is None else replace(self._settings, clock=clock)
        sinks = self._sinks if options.events is None else self._sinks + as_sinks(options.events)
        sinks = sinks if around.hook is None else (*sinks, around.hook.listener(self._settings.name))
        told = listeners(info, sinks, self._redactor) if sinks else None
        token, above, wrap = options.cancellation, None, options.effects
        if parent is not None:
            token, relay = token_for(token, parent), parent.emit
            if site is not None:
                above, wrap = site.account, wrap or site.effects
                relay = None if relay is None else site.open_relay(relay)
            told = listeners(info, sinks, self._redactor, relay=signed(relay, info.run_id, settings.name))
        elif token is not None:
            token = token.child()
        emitter = Emitter(info.run_id, info.events, settings.clock.time, info.last_seq, told)
        around_run: Sequence[Middleware] = self._around
        try:
            account = Account(
                options.budget or self._budget, settings.model, settings.clock.monotonic(), above, info.before
            )
            is_plain = not self._is_changing and self._inside is None and not info.opened_by
            effects = live = self._live if is_plain else self._world(info, account)
            if wrap is not None:
                effects = wrap(live)
                around_run = effects.around_run(around_run)
                token = effects.token(token)
            deps = options.deps
            if parent is not None or self._deps.is_declared or self.transfers:
                deps = self._deps_of(options, needed=effects.needs_deps)
        except ConfigError as error:
            if site is not None:
                site.failure = error
            raise
        if site is not None:
            site.living += (emitter,)
        scope = () if site is None else site.scope
        running = Running(settings, effects, emitter, account, token, info.step, tally, deps, scope)
        if effects is not self._live:
            live.attach(running)
            effects.attach(running)
        if not around_run and not (running.present is not None and running.present.has_parts):
            drive = (
                Drive(running, phase, site, stream=True) if options.stream else Drive(running, phase, site)
            )
        else:
            from .wrapping import WrappedDrive

            again = None if start is None else partial(self._again, options, site, start)
            wrapped = (around_run, start, again)
            drive = WrappedDrive(running, phase, stream=options.stream, site=site, wrapped=wrapped)
        if options.on_open is not None:
            options.on_open(drive)
        return drive

    def _world(self, info: RunInfo, account: Account) -> Effects:
        """The model and the tools of a run, with what stands around them, and whoever acts in it."""
        if self._is_changing or info.opened_by:
            from .handing.team import present_of

            return present_of(self, info, account)
        return self._wrapped(self._live)

    def _again(self, options: RunOptions, site: Site | None, start: Any, task: object) -> Drive[OutT]:
        return self._drive(start(task), options, site, start=start)
