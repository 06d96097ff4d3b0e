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
    Decision,
    LlmTraits,
    PendingCall,
    Spent,
    SystemClock,
    around,
    check_settings,
    is_object,
    other_models,
    replace,
    traits_of,
)
from wesichain.errors import ConfigError, DuplicateToolError
from wesichain.journal.internal import FORMAT, Answer, Begin, Go, JournalLog, numbered_place
from wesichain.middleware import Middleware
from wesichain.policy import Budget, ObserveErrors, find_price
from wesichain.policy.internal import Account
from wesichain.tools import Tool, ToolContext, ToolRegistry, ToolSet

from .backend import Backend, LiveBackend
from .calls.questions import check_all_decided
from .drive import Drive, FirstEntry, OpenRun, PastRun, calls_before
from .flow.flow import READ_SEALED, Flow
from .memory.history import is_over, messages_of, opening, question_of
from .model_names import AnyModel, Models, name_of_model
from .model_turn import ModelTurn
from .options import Deps, RunOptions, agent_options, as_sinks, random_id, run_options
from .phases import Completed, Failed, Idle, Interrupted, Outcome, begin, outcome_of, with_output
from .rules.answers import OutputForm, output_form
from .rules.checks import Checks
from .rules.reply_judge import judge_of
from .rules.tally import Tally
from .run_info import RunInfo
from .run_log import RunLog
from .run_place import RunAgain, RunPlace
from .run_state import RunState, Settings
from .trail import Trail

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # a type, or a union of types

    from .flow.rule import FlowRule
    from .handoffs.handoff import Actor, Handoff, Transfer
    from .keywords import AgentKeywords, RunKeywords

OutT = TypeVar("OutT")

_CLOCK: Clock = SystemClock()
_HERE = "memory"  # who works on a run that has no store
_WRAPPED = ("wrap_run", "wrap_model", "wrap_tool")
_STATE_KEYS = frozenset({"input", "agent_scratchpad", "final_output", "iteration_count", "stopped_by"})
_USER = Role.USER  # looking the member up takes a third of the time of making the message


class AgentRuntime(Generic[OutT]):
    """Runs tasks. Holds no state of a run: one runtime can run many tasks at once."""

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
        self.journals = given.journals  # where the logs of runs are stored that have no journals of their own
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
        self._fingerprint = ""
        self._writer: Go | None = None
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
        self._fingerprint = ""
        output = self._output_form(llm, has_tools=bool(registry.names or registry.sources or given.handoffs))
        policy = ObserveErrors() if traits.observes_errors else given.default_policy
        self.llm = llm
        self._live = LiveBackend(llm, registry)
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
        self._live = LiveBackend(self.llm, registry)
        self._fingerprint = ""
        self._may_change = True
        self._models.invalidate()

    @property
    def name(self) -> str:
        return self.settings.name

    def _go_with(self, options: RunOptions, *, is_first: bool) -> Go:
        """The entry with which this process begins to work on a run."""
        writer = options.place.log.writer if options.place is not None else None
        name = _HERE if writer is None else writer.name
        if not is_first:
            settings, budget = options.settings, options.budget
            return Go(name, self.settings.name, self.settings.model, self._reported, settings, budget)
        if self._writer is None or self._writer.writer != name:
            self._writer = Go(name, self.settings.name)
        return self._writer

    @property
    def instructions(self) -> str | None:
        """The instructions, if they are the same for every run."""
        return self._instructions

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
        if given.model is None and (self._reported or not before):  # a copy for this run, or its own model
            return self
        model = given.model or self._models.known(before)
        return self if model is None else self.with_model(model)

    def deps_of(self, options: RunOptions, *, needed: bool = True) -> Any:
        """The deps of a run, its own or its caller's; the wrong type is a `ConfigError`."""
        deps = options.deps
        if deps is None and options.parent is not None:
            deps = getattr(options.parent, "deps", None)
        self.deps.check(deps, self.settings.name, needed=needed)
        if self.transfers:
            from .handoffs.current_agent import check_deps  # loaded with the first handoff

            check_deps(self, deps, needed=needed)
        return deps

    @property
    def fingerprint(self) -> str:
        """Identifies what this agent sends to its model: a program with another one is another program."""
        if not self._fingerprint:
            from .fingerprints import fingerprint_of  # loaded when a log is written or continued

            self._fingerprint = fingerprint_of(self)
        return self._fingerprint

    def offered(self) -> tuple[ToolSpec, ...]:
        """The tools that are offered at the start of a run, with those for its typed answer."""
        return self.settings.judge.offered

    def read_output(self, text: str) -> OutT:
        """Parse text as the typed answer; raises `CodecError`."""
        return self.settings.judge.output.read(text)

    def place_of(self, task: object, given: RunOptions) -> RunPlace:
        """The place of a run of this task: in the log of its parent, or in a log of its own."""
        if given.place is not None:
            return given.place
        clock = given.clock or self.settings.clock
        link = None if given.parent is None else given.parent.link
        if hasattr(link, "claim"):
            where = link.claim(self.settings.name, _text_of(task), given.key)
            return RunPlace(link.log, where, link)
        if given.key is not None:
            raise ConfigError("key= names a run inside a call: pass parent= too, the context of the call")
        run_id = given.run_id or (task.info.run_id if type(task) is Idle else self._new_id())
        return RunPlace(JournalLog(run_id, clock))

    def new_run_id(self) -> str:
        """An id for a run that was given none."""
        return self._new_id()

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
        given = RunOptions(instructions=instructions, advice=advice, run_id=run_id)
        return self._start_at(self.place_of(task, given), given, history, task)

    def _start_at(
        self, place: RunPlace, given: RunOptions, history: Sequence[Message], task: object
    ) -> Idle[OutT]:
        """The first phase of a run in a place."""
        content: Content | None = None
        if type(task) is list or type(task) is tuple:
            asked = Message(Role.USER, cast("Any", task))
            content, task = asked.content, asked.text
        question, scratchpad, counted = (task, (), 0) if isinstance(task, str) else question_of(task)
        over = is_over(scratchpad) if scratchpad else False
        text = self._instructions if given.instructions is None else given.instructions
        messages = opening(text, given.advice, self.settings.judge.output.prompt, history)
        first_new = len(messages)
        messages.append(Message(_USER, question if content is None else content))
        if scratchpad and not over:
            messages += messages_of(scratchpad)
        name, log = self.settings.name, place.log
        info = RunInfo(
            place.run_id, question, task, log, place.place, len(log.records), first_new,
            agent=name, model=self._reported, settings=given.settings, budget=given.kept_budget,
        )  # fmt: skip
        if counted or content is not None:
            info = replace(
                info,
                earlier=counted if over else 0,
                step=0 if over else counted,
                before=Spent(steps=counted) if counted and not over else None,
                parts=() if content is None else cast("Any", content),
            )
        return begin(info, Trail.of(messages, scratchpad))

    def _first_entry(
        self, idle: Idle[OutT], given: RunOptions, settings: Settings[OutT], tools: tuple[ToolSpec, ...]
    ) -> Begin:
        """The entry that a run begins with, of the settings that it began with."""
        info, trail = idle.info, idle.trail
        instructions, state = given.instructions, info.state
        budget = info.budget or self.budget
        model = settings.model
        if budget.cost is not None and model not in budget.prices:
            price = find_price(model)
            budget = budget if price is None else replace(budget, prices={**budget.prices, model: price})
        return Begin(
            FORMAT,
            settings.name,
            "agent",
            info.task,
            given.by or "",
            budget=budget,
            run_id=info.run_id,
            fingerprint=self,
            parts=info.parts,
            messages=trail.messages_since(0)[: info.first_new],
            steps=None if trail.item_count == 0 else list(idle.steps),
            instructions=instructions or "" if instructions != self._instructions else "",
            advice=given.advice,
            model=model,
            own_model=info.model,
            tools=tools,
            settings=info.settings,
            typed=bool(settings.judge.output.members),
            wrapped=bool(self.run_middleware),
            state=_caller_state(info.state),
            counted=info.step,
            earlier=info.earlier,
        )

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
        """Open a run, with its options as one value. One that its log has is continued, or has ended."""
        place = self.place_of(task, given)
        first = place.begin
        other = self._for(given, "" if first is None else place.options.model)
        if other is not self:
            return other.open_with(task, history, replace(given, model=None, place=place))
        if first is not None:
            return self._reopen(place, first, given)
        settings = self._given.settings
        if given.settings is not None:
            settings = settings.merge(given.settings)
            check_settings(self.llm, settings)
        if settings.tool_choice is not None:
            self._check_tool_choice(settings.tool_choice)
        if type(task) is Idle:
            idle = cast("Idle[OutT]", task)
        else:
            idle = self._start_at(place, given, history, task)
        advised = () if given.advice is None else given.advice.tools
        tally = Tally(advised=advised) if advised else Tally()
        drive, middleware = self._drive(
            idle, place, partial(self._first_entry, idle, given, self.settings), given, tally
        )
        if not middleware and drive.run.current_agent is None and given.on_open is None:
            return drive
        start = None
        if middleware and isinstance(task, str | list | tuple):  # middleware may change or repeat the task
            start = partial(self._start_again, place, given, history)
        return self._opened(drive, middleware, given, start)

    def _start_again(
        self, place: RunPlace, given: RunOptions, history: Sequence[Message], task: object
    ) -> tuple[Idle[OutT], FirstEntry]:
        """The first phase of a run of another task, which middleware has passed on."""
        idle = self._start_at(place, given, history, task)
        return idle, partial(self._first_entry, idle, given, self.settings)

    def _reopen(self, place: RunPlace, first: Begin, given: RunOptions) -> OpenRun[OutT]:
        """Open a run that its log has: it takes the recorded steps again, and goes on where they end."""
        if place.has_ended:
            return self._past(place, given)
        if place.log.refuse is not None and place.run_again is not None:  # a replay runs no middleware
            return self.open_with(first.task, (), replace(given, place=place.run_again))
        known, go = place.options, self._go_with(given, is_first=False)
        settings = given.settings
        if known.settings is not None:
            settings = known.settings if settings is None else known.settings.merge(settings)
        if settings is not None:
            check_settings(self.llm, self._given.settings.merge(settings))
        given = replace(given, settings=settings, budget=given.budget or known.kept_budget)
        idle = self._recorded_start(place, first, given)
        advised = () if first.advice is None else first.advice.tools
        drive, middleware = self._drive(idle, place, lambda _: first, given, Tally(advised=advised))
        drive.go = None if place.link is not None else go
        if place.log.refuse is not None:
            middleware = ()
        start = partial(self._start_again, place, given, ()) if middleware else None
        return self._opened(drive, middleware, given, start)

    def _recorded_start(self, place: RunPlace, first: Begin, given: RunOptions) -> Idle[OutT]:
        """The first phase of a run, as its log has it."""
        from .fold import fold_begin  # loaded when the first run is continued

        found = fold_begin(place.log, place.place, first)
        info = replace(
            found.info,
            since=0 if place.log.strict else place.log.known,
            settings=given.settings,
            budget=given.kept_budget,
            before=None,
            model=self._reported,
        )
        return begin(info, found.trail)

    def _past(self, place: RunPlace, given: RunOptions) -> OpenRun[OutT]:
        """A run that its log has to its end."""
        outcome: Outcome[Any] = outcome_of(place.log, place.place)
        if place.link is not None and isinstance(outcome, Failed):
            place.attach_limit(outcome.error)
        if isinstance(outcome, Completed):
            outcome = with_output(outcome, self.read_output(outcome.text))
        if place.link is not None:
            place.link.run_ended(place.place, outcome)
        ended: PastRun[OutT] = PastRun(outcome)
        if given.on_open is not None:
            given.on_open(ended)
        return ended

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

    async def resume(
        self,
        interrupted: Interrupted[OutT],
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[RunKeywords],
    ) -> Outcome[OutT]:
        """Resume an interrupted run, with a decision for each call that waits for one."""
        return await self.open_resumed(interrupted, decisions or {}, run_options(options)).run_to_end()

    def open_resumed(
        self, interrupted: Interrupted[OutT], decisions: Mapping[str, Decision], options: RunOptions
    ) -> OpenRun[OutT]:
        """Open an interrupted run: record the decisions on its calls, and run it again over its log."""
        given: Any = interrupted
        if not isinstance(given, Interrupted):
            raise ConfigError(
                f"resume() needs the Interrupted outcome of a run, got {type(given).__name__}; "
                f"it is error.outcome of a RunInterruptedError"
            )
        clock = options.clock or self.settings.clock
        if interrupted.info.opened_by:
            from .handoffs.current_agent import check_acting

            check_acting(self, interrupted.info)
        log = interrupted.info.log
        for item in interrupted.pending:
            if log.is_answered(item.token):
                raise ConfigError(f"the approval of {item.call.name!r} was used already; a token works once")
        check_all_decided(interrupted.pending, decisions, self.refusal_of, now=clock.time())
        if options.parent is not None or interrupted.info.place:
            raise ConfigError(
                "a run inside a call is continued by the call: resume the outermost run, with the decisions "
                "on all pending calls"
            )
        first = log.begin_of("")
        if first is None:
            raise ConfigError("the outcome has no log; run the task again")
        other = self._for(options, RunPlace(log).options.model)
        if other is not self:
            return other.open_resumed(interrupted, decisions, replace(options, model=None))
        self.deps_of(options)
        log = log.continued(interrupted.until, clock)
        for token, decision in decisions.items():
            log.answer(token, Answer(decision=decision, by=options.by or ""))
        log.reopened()
        place = RunPlace(log)
        return self.open_with(first.task, (), replace(options, place=place))

    def _drive(
        self, phase: Idle[OutT], place: RunPlace, first: FirstEntry, options: RunOptions, tally: Tally
    ) -> tuple[Drive[OutT], Sequence[Middleware]]:
        """The `Drive` of a run, and the middleware around the run."""
        link = place.link
        above: FlowRule | None = getattr(link, "flow", None)
        if above is not None and above.reader is not None and not self._reads_sealed:
            return self._sealing(above.reader)._drive(phase, place, first, options, tally)
        try:
            run, middleware = self._state_of(phase.info, place, options, tally)
        except ConfigError as error:
            if link is not None:
                link.run_failed(error)
            raise
        if options.stream or link is not None:
            self._attach_reader(run, options, link)
        if phase.info.step or phase.trail.length > 2:  # a history: its ids are taken
            run.used_ids.update((call.id, None) for call in calls_before(phase))
        go = None if link is not None else self._go_with(options, is_first=True)
        return Drive(run, phase, link, ModelTurn(run, phase, options.stream), first, go), middleware

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
        start: Callable[[Any], tuple[Idle[OutT], FirstEntry]] | None,
    ) -> OpenRun[OutT]:
        """Put the middleware around a run; `start` makes the first phase of another task."""
        agent = drive.run.current_agent
        opened: OpenRun[OutT] = drive
        if middleware or (agent is not None and agent.has_parts):
            from .middleware_run import MiddlewareRun  # loaded with the first middleware

            again = None if start is None else partial(self._run_again, drive, options)
            opened = MiddlewareRun(drive, middleware, start, again)
        if options.on_open is not None:
            options.on_open(opened)
        return opened

    def _run_again(self, drive: Drive[OutT], options: RunOptions, task: object, number: int) -> Drive[OutT]:
        """A further run, for middleware that calls `call_next` again. It stands inside the first one."""
        run = drive.run
        where = numbered_place(run.log.place, self.settings.name, number)
        place = RunPlace(run.log.log, where, RunAgain(run))
        given = replace(options, place=place, on_open=None, parent=None)
        begun = place.begin
        if begun is not None:
            idle = self._recorded_start(place, begun, given)
            return self._drive(idle, place, lambda _: begun, given, Tally())[0]
        idle = self._start_at(place, given, (), task)
        first = partial(self._first_entry, idle, given, self.settings)
        return self._drive(idle, place, first, given, Tally())[0]

    def _state_of(
        self, info: RunInfo, place: RunPlace, options: RunOptions, tally: Tally
    ) -> tuple[RunState[OutT], Sequence[Middleware]]:
        """The state of a run that has not begun, and the middleware around it."""
        parent, clock, link = options.parent, options.clock, place.link
        above: Account | None = None
        scope: tuple[str, ...] = ()
        if link is not None:  # it has the clock of the run above
            clock, above, scope = clock or link.clock, link.account, link.scope
        elif isinstance(parent, ToolContext) and isinstance(parent.budget, Account):
            above = parent.budget  # the account of a graph, which is no run
        settings = self.settings if clock is None else replace(self.settings, clock=clock)
        token = options.cancellation
        if parent is not None:
            token = CancellationToken(*filter(None, (token, parent.cancellation)))
        elif token is not None:
            token = token.child()
        if link is not None and parent is None:
            token = link.token
        log = RunLog(place.log, place.place, info.run_id)
        if self._sinks or options.events is not None or around.hook is not None:
            self._follow(place, info, options)
        account = Account(
            options.budget or info.budget or self.budget,
            settings.model,
            settings.clock.monotonic(),
            above,
            place.spent or info.before,
            place.place,
        )
        for name in settings.other_models:
            account.price_of(name)  # a limited cost needs one
        may_change = self._may_change or place.has_handoffs
        is_plain = not (may_change or account.limits_cost or self._call_middleware or options.wrap)
        backend = self._live if is_plain else self._backend(account, options, may_change=may_change)
        deps = options.deps
        if parent is not None or self.deps.is_declared or self.transfers:
            deps = self.deps_of(options, needed=place.log.refuse is None)
        is_recorded = log.is_recorded
        run = RunState(
            settings,
            backend,
            log,
            account,
            token,
            info.step,
            tally,
            deps,
            scope,
            info.settings,
            settings.clock.monotonic,
            type(settings.clock) is not SystemClock,
            token is None and not account.is_timed,
            is_recorded,
            is_recorded and (place.log.strict or self._began(place)),
        )
        if account.budget.shared or account.is_nested:
            run.shared = self._shared(run)
        rule: FlowRule | None = getattr(link, "flow", None)
        flow = settings.flow if rule is None else rule.flow
        if flow is not None:
            run.flow = self._rule(flow, rule)
        if link is not None:
            link.run_began(place.place, run)
        if backend is not self._live:
            backend.attach(run)
        return run, self.run_middleware

    def _shared(self, run: RunState[OutT]) -> Any:
        """The account of a run with its shared limits, if there are any."""
        limits = run.account.shared
        if not limits or run.log.is_replayed:
            return None
        from .shared_account import SharedAccount  # loaded with the first shared limit

        return SharedAccount(run, limits)

    def _rule(self, flow: Flow, above: FlowRule | None) -> FlowRule:
        """The rule of a run, from its own flow or from the one of the run above it."""
        from .flow.rule import FlowRule  # loaded with the first flow

        reader: Any = self.registry.get(READ_SEALED) if above is None else above.reader
        return FlowRule(flow, self, reader, above)

    def _began(self, place: RunPlace) -> bool:
        """Whether it was this program that began the run."""
        return place.begin is not None and place.begin.program_fingerprint == self.fingerprint

    def _follow(self, place: RunPlace, info: RunInfo, options: RunOptions) -> None:
        """Let the sinks of a run receive its events."""
        from .listeners import follow  # loaded with the first sink

        sinks = self._sinks if options.events is None else self._sinks + as_sinks(options.events)
        if around.hook is not None:
            sinks = (*sinks, around.hook.listener(self.settings.name))
        follow(place.log, sinks, self._redactor, place=place.place, run_id=info.run_id if place.place else "")

    def _attach_reader(self, run: RunState[OutT], options: RunOptions, link: Any) -> None:
        """Make the run wait for a slow reader, and hold back an answer that a guard checks first."""
        if link is not None:
            run.pressure = link.pressure
        if options.stream:
            agent = run.current_agent
            holds = any(one.holds_stream for one in self.run_middleware) or (
                agent is not None and agent.holds_stream
            )
            run.pending_deltas = [] if holds else None
            ready = (getattr(sink, "ready", None) for sink in as_sinks(options.events))
            run.pressure = next(filter(None, ready), run.pressure)

    def _backend(self, account: Account, options: RunOptions, *, may_change: bool) -> Backend:
        """The backend of a run whose agent or tools can change, or whose calls are wrapped."""
        if may_change:
            from .handoffs.current_agent import current_agent_of

            return current_agent_of(self, account)
        live = self._live if options.wrap is None else options.wrap(self._live)
        return self._wrapped(_metered(live, account))

    def backend_with(self, tools: ToolRegistry, account: Account) -> Backend:
        """The model and these tools, with the middleware around both."""
        return self._wrapped(_metered(LiveBackend(self.llm, tools), account))

    def _wrapped(self, live: Backend) -> Backend:
        if self._call_middleware is None:
            return live
        from .middleware_calls import WrappedBackend

        return WrappedBackend(live, *self._call_middleware)

    def system(self, instructions: str | None) -> str:
        """The system message: the instructions, and how to answer if that is said in the prompt."""
        return "\n\n".join(filter(None, (instructions, self.settings.judge.output.prompt)))

    def refusal_of(self, pending: PendingCall) -> Exception | None:
        """Why the tool of a pending call does not take its arguments; None if it does, or is not known."""
        from .handoffs.current_agent import refusal_in

        return refusal_in(self, pending)


def _caller_state(state: Any) -> Any:
    """The part of a caller's state that the run does not make itself; None for one that is no dict."""
    if not is_object(state):
        return None
    return {key: one for key, one in state.items() if key not in _STATE_KEYS}


def _metered(live: Backend, account: Account) -> Backend:
    """The backend with a check of each reply's usage, if the account limits the cost."""
    if not account.limits_cost:
        return live
    from .metered import MeteredBackend

    return MeteredBackend(live, account)


def _text_of(task: object) -> str:
    """The text of a task, by which a run inside a call is found again."""
    if isinstance(task, str):
        return task
    if isinstance(task, Idle):
        return task.info.task
    if isinstance(task, list | tuple):
        return Message(Role.USER, cast("Any", task)).text
    return question_of(task)[0]
