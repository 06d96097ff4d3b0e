"""The runtime: a model, tools, a policy and a budget, ready to run tasks through the one loop."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from typing_extensions import Unpack

from wesichain.context import counter_of
from wesichain.core import (
    Advice,
    Approve,
    ApproveWith,
    CancellationToken,
    Clock,
    Content,
    Decided,
    Decision,
    Message,
    PendingCall,
    Provide,
    Refuse,
    Role,
    Spent,
    SystemClock,
    ToolCall,
    ToolCallingLlm,
    ToolSpec,
    around,
    maker,
    traits_of,
)
from wesichain.errors import ConfigError
from wesichain.middleware import Middleware
from wesichain.policy import Account, Budget, FailFast, ObserveErrors
from wesichain.tools import ToolRegistry, ToolSet

from .calls import Site, site_of, token_for, with_decided_args
from .drive import Drive
from .effects import Effects, LiveEffects
from .handing import Stage, acting_in, present_of
from .memory import clean_history, is_over, messages_of, question_of
from .narrate import Narrator, listeners
from .options import AgentKeywords, RunKeywords, RunOptions, agent_options, as_sinks, random_id, run_options
from .phases import Active, Idle, Interrupted, Outcome, RunInfo, begin, resumed
from .rules import Checks, Tally, judge_of, output_form
from .running import Running, Settings
from .trail import Trail
from .wrapping import WrappedDrive, WrappedEffects, overriding

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # a type, or a union of types

OutT = TypeVar("OutT")

_REMEMBERED_TOKENS = 10_000
_CLOCK: Clock = SystemClock()
_WRAPPED = ("wrap_run", "wrap_model", "wrap_tool")
_message, _info = maker(Message), maker(RunInfo)


class AgentRuntime(Stage[OutT], Generic[OutT]):
    """Runs tasks. Holds no state of a run: the same runtime runs any number of them at once."""

    @overload
    def __init__(
        self: AgentRuntime[str],
        llm: ToolCallingLlm,
        tools: Iterable[Any] | ToolRegistry = (),
        **options: Unpack[AgentKeywords],
    ) -> None: ...
    @overload
    def __init__(
        self,
        llm: ToolCallingLlm,
        tools: Iterable[Any] | ToolRegistry = (),
        *,
        output_type: TypeForm[OutT],
        **options: Unpack[AgentKeywords],
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
        traits = traits_of(llm)
        has_tools = bool(registry.names or registry.sources or given.handoffs)
        output = output_form(output_type, traits, mode=given.output_mode, has_tools=has_tools)
        model = str(getattr(llm, "model", "") or type(llm).__name__)
        Account(given.budget, model)  # a cost without a price is found here, not at the first run
        counter_of(given.context)  # likewise
        self._llm = llm
        self._live = LiveEffects(llm, registry)
        self._around, *inside = (overriding(given.middleware, name) for name in _WRAPPED)
        self._inside = tuple(inside) if any(inside) else None
        self._budget = given.budget
        self._instructions = given.instructions
        self._sinks = as_sinks(given.events)
        self._redactor = given.redactor
        self._new_id = given.new_id or random_id
        self._used_tokens: OrderedDict[str, None] = OrderedDict()
        self._settings: Settings[OutT] = Settings(
            name=given.name,
            model=model,
            registry=registry,
            judge=judge_of(registry, output),
            checks=Checks.of(output, given.output_checks) if given.output_checks else None,
            policy=given.policy or (ObserveErrors() if traits.observes_errors else FailFast()),
            clock=given.clock or _CLOCK,
            on_limit=given.on_limit,
            tool_concurrency=given.tool_concurrency,
            exclude_after=given.exclude_after,
            loop_guard=given.loop_guard,
            approval_ttl=given.approval_ttl,
            context=tuple(given.context),
        )
        self._prepare_handoffs(given.handoffs, output_type, given.output_mode)

    def offered(self) -> tuple[ToolSpec, ...]:
        """The tools that a run begins with, those for its typed answer included."""
        return self.registry.specs() + self._settings.judge.output.final_tools

    def read_output(self, text: str) -> OutT:
        """The typed answer that a text stands for; one that does not is a `CodecError`."""
        return self._settings.judge.output.read(text)

    def new_id(self) -> str:
        """The id of a run that has none yet."""
        return self._new_id()

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
        over = bool(scratchpad) and is_over(scratchpad)
        messages: list[Message] = []
        text = self._instructions if instructions is None else instructions
        if advice is not None:
            text = advice.under(text)
        text = self.system(text)
        if text:
            messages.append(_message(Role.SYSTEM, text))
        if history:
            own = messages.copy()  # instructions are the agent's, not the history's: those of others go
            messages += [one for one in clean_history(history) if not own or one.role is not Role.SYSTEM]
        first_new = len(messages)
        messages.append(_message(Role.USER, question if content is None else content))
        if scratchpad and not over:
            messages += messages_of(scratchpad)
        info = _info(run_id or self._new_id(), question, task, first_new, agent=self._settings.name)
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
        return self.opened(task, history, run_options(options)).carry()

    def open(
        self, task: object, *, history: Sequence[Message] = (), **options: Unpack[RunKeywords]
    ) -> Drive[OutT]:
        """A run that is taken a step at a time: `await drive.step()` until it has an `outcome`."""
        return self.opened(task, history, run_options(options))

    def opened(self, task: object, history: Sequence[Message], given: RunOptions) -> Drive[OutT]:
        """The same, with the options as one value."""
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
                run_id=given.run_id,
                instructions=given.instructions,
                advice=given.advice,
            )
        start = None
        if self._around and isinstance(task, str | list | tuple):
            start = partial(self.start, history=history, instructions=given.instructions, advice=given.advice)
        drive = self._drive(idle, given, site, start=start)
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
        clock = options.get("clock") or self._settings.clock
        acting_in(self, interrupted.info)
        tokens = self._check_decisions(interrupted, decisions or {}, clock.time())
        try:
            return await self.go_on(interrupted, decisions or {}, **options)
        except ConfigError:  # a decision that a run inside could not follow may be given again
            for token in tokens:
                self._used_tokens.pop(token, None)
            raise

    def go_on(
        self,
        interrupted: Interrupted[OutT],
        decisions: Mapping[str, Decision],
        **options: Unpack[RunKeywords],
    ) -> Coroutine[Any, Any, Outcome[OutT]]:
        """The same for decisions that were checked, and may have been used before, as in a replay."""
        return self.reopen(interrupted, decisions, run_options(options)).carry()

    def reopen(
        self, interrupted: Interrupted[OutT], decisions: Mapping[str, Decision], options: RunOptions
    ) -> Drive[OutT]:
        """An interrupted run, to be taken a step at a time from where it was."""
        phase = resumed(interrupted, reply=with_decided_args(interrupted, decisions))
        drive = self._drive(phase, options, site_of(options.parent), tally=interrupted.tally)
        decided = tuple(
            Decided(item.token, item.call.name, decisions[item.token])
            for item in interrupted.pending
            if item.token in decisions
        )
        drive.goes_on_from(interrupted, decided, decisions)
        return drive

    def _check_decisions(
        self, interrupted: Interrupted[Any], decisions: Mapping[str, Decision], now: float
    ) -> list[str]:
        """Every waiting call has its decision, none is stale, none is used twice; the tokens are used now."""
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
            self._check_decision(item, decisions[token])
        for token in waiting:
            self._used_tokens[token] = None
        while len(self._used_tokens) > _REMEMBERED_TOKENS:
            self._used_tokens.popitem(last=False)
        return [*waiting]

    def _check_decision(self, item: PendingCall, decision: Any) -> None:
        """A decision that cannot be followed is refused before it uses up its token."""
        call = item.call
        match decision:
            case Refuse():
                pass
            case Provide() if item.external:
                pass
            case Approve() if not item.external:
                pass
            case ApproveWith(args=args) if not item.external:
                if item.scope == ():  # the arguments of calls further down are checked by their own run
                    refusal = self.refusal_of(ToolCall(call.id, call.name, args))
                    if refusal is not None:
                        raise ConfigError(f"the approved arguments do not fit: {refusal}")
            case _:
                use = (
                    "Provide(value), Provide(error=...)" if item.external else "Approve(), ApproveWith(args)"
                )
                raise ConfigError(
                    f"{decision!r} is no decision on {call.name!r}; use {use} or Refuse(reason)"
                )

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
        told = listeners(info.run_id, sinks, self._redactor) if sinks else None
        token, above, wrap = options.cancellation, None, options.effects
        if parent is not None:
            token, relay = token_for(token, parent), parent.emit
            if site is not None:
                above, wrap = site.account, wrap or site.effects
                relay = None if relay is None else site.open_relay(relay)
            told = listeners(info.run_id, sinks, self._redactor, relay=relay)
        elif token is not None:
            token = token.child()
        narrator = Narrator(info.run_id, info.events, settings.clock.time, info.last_seq, told)
        try:
            account = Account(
                options.budget or self._budget, settings.model, settings.clock.monotonic(), above, info.before
            )
            changing = self._is_changing or info.opened_by
            present = present_of(self, info, account) if changing else None
        except ConfigError as error:
            if site is not None:
                site.failure = error
            raise
        deps = options.deps
        if site is not None:
            site.living.append(narrator)
            deps = deps if deps is not None or parent is None else parent.deps
        live: Effects = self._live if self._inside is None else WrappedEffects(self._live, *self._inside)
        live = live if present is None else present
        effects = live
        around_run: Sequence[Middleware] = self._around
        if wrap is not None:
            effects = wrap(live)
            around_run = effects.around_run(around_run)
            stops = getattr(effects, "cancellation", None)
            if stops is not None:
                token = CancellationToken(*([token] if token else []), stops)
        scope = () if site is None else site.scope
        running = Running(settings, effects, narrator, account, token, info.step, tally, deps, scope)
        if effects is not self._live:
            live.attach(running)
            effects.attach(running)
        if not around_run:
            return Drive(running, phase, site, stream=True) if options.stream else Drive(running, phase, site)
        again = None if start is None else partial(self._again, options, site, start)
        wrapped = (around_run, start, again)
        return WrappedDrive(running, phase, stream=options.stream, site=site, wrapped=wrapped)

    def _again(self, options: RunOptions, site: Site | None, start: Any, task: object) -> Drive[OutT]:
        return self._drive(start(task), options, site, start=start)
