"""The current agent of a run and its tools, and the team of agents that the run may be handed off to.

Only a run with handoffs or changing tools needs a `CurrentAgent`. It provides the model and the tools of the
agent that acts. The name of this agent, and the tools that searches have found, are part of the run's state;
everything else follows from these and from the functions of `DynamicTools`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from typing_extensions import override

from wesichain.agent.effects import (
    Caller,
    Effects,
    OnText,
    RecordedInput,
    advice_at,
    instructions_at,
)
from wesichain.agent.memory.history import clean_history
from wesichain.agent.phases import Acting, AnyPhase, Observing, RunInfo, Thinking, handed_over
from wesichain.agent.rules import sentences
from wesichain.agent.run_state import RunState, Settings
from wesichain.agent.trail import Observed
from wesichain.core import JsonValue, LlmRequest, LlmResponse, Message, Role, ToolCall, ToolSpec
from wesichain.core.internal import (
    AdviceShown,
    HandedOff,
    LogView,
    PendingCall,
    ToolsOffered,
    from_plain,
    replace,
    to_plain,
)
from wesichain.errors import AgentError, ConfigError, DuplicateToolError
from wesichain.middleware import Middleware
from wesichain.policy.internal import Account
from wesichain.tools import DynamicTools, JsonTool, RunContext, ToolRegistry, ToolResult, ToolSearch, ToolSet
from wesichain.tools.internal import PreparedCall

from .handoff import Actor, Handoff, Transfer, as_handoff


class TeamMember(Protocol):
    """The part of an agent's runtime that handoffs need."""

    identity: object  # shared by copies of the runtime
    output_type: Any
    settings: Settings[Any]
    run_middleware: Sequence[Middleware]
    adapt: Callable[[ToolRegistry], ToolRegistry] | None

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def registry(self) -> ToolRegistry: ...

    @property
    def transfers(self) -> Mapping[str, Transfer]: ...

    def effects_with(self, tools: ToolRegistry, account: Account) -> Effects:
        """The effects of its model and these tools, with its middleware around both."""
        ...

    def system(self, instructions: str | None) -> str:
        """The system message: the instructions, and how to answer if that is said in the prompt."""
        ...


class CurrentAgent(Effects):
    """The effects of one run whose agent or tools can change."""

    __slots__ = (
        "_base",
        "_first",
        "_live",
        "_made",
        "_opener",
        "_reported",
        "_run",
        "_runtime",
        "_team",
        "_tools",
    )

    _run: RunState[Any]
    _first: Settings[Any]  # of the agent that opened the run, whose clock and limits hold for the whole run
    _base: Settings[Any]
    _live: Effects

    def __init__(self, opener: TeamMember, team: Mapping[str, Actor], runtime: TeamMember) -> None:
        self._opener = opener  # perhaps a copy with another model or with stand-ins for tools
        self._team = team
        self._runtime = runtime  # of the agent that acts now
        self._reported: tuple[ToolSpec, ...] = ()  # the tools that were last reported by an event
        self._tools: dict[str, ToolRegistry] = {}  # in addition to the agent's own
        self._made: dict[int, tuple[Any, str, ToolRegistry]] = {}  # the last dynamic tools, compiled

    @override
    def attach(self, run: RunState[Any]) -> None:
        self._run = run
        self._first = run.settings
        run.current_agent = self
        self._act_as(self._runtime)
        self._reported = run.specs()

    @override
    def ask(
        self, request: LlmRequest, *, step_id: int, on_text: OnText | None
    ) -> Coroutine[Any, Any, LlmResponse]:
        return self._live.ask(request, step_id=step_id, on_text=on_text)

    @override
    def call(self, prepared: PreparedCall, caller: Caller) -> Coroutine[Any, Any, ToolResult]:
        return self._live.call(prepared, caller)

    @property
    def has_parts(self) -> bool:
        """Whether an agent that the run may be handed off to has middleware around its part of the run."""
        return any(agent.runtime.run_middleware for agent in self._team.values())

    @property
    def part_middleware(self) -> Sequence[Middleware]:
        """The middleware around the current agent's part. That of the first agent is around the whole run."""
        runtime = self._runtime
        return () if runtime.identity is self._opener.identity else runtime.run_middleware

    def _act_as(self, runtime: TeamMember) -> None:
        run, first = self._run, self._first
        self._runtime = runtime
        base = replace(runtime.settings, clock=first.clock, on_limit=first.on_limit)
        adapt = self._opener.adapt
        if adapt is not None and runtime is not self._opener:
            tools = adapt(base.registry)
            base = replace(base, judge=base.judge.with_tools(tools))
        if run.flow is not None:
            base = replace(base, judge=base.judge.with_tools(run.flow.equipped(base.registry)))
        self._base = base
        run.account.use_model(runtime.model)
        self._made = {}
        self._offer(self._discovered_tools())

    # --- tools -------------------------------------------------------------------------------------

    async def offer(self, phase: AnyPhase, *, again: bool = False) -> None:
        """Offer the tools of the next step or, with `again`, those of a step that had begun before."""
        run, sources = self._run, self._base.registry.sources
        if not sources:
            return
        if not again and run.account.refusal(run.now(), free=run.tally.free) is not None:
            return  # there will be no next step
        step = run.step if again else run.step + 1
        tools, made = self._discovered_tools(), dict[int, tuple[Any, str, ToolRegistry]]()
        dynamic = [source for source in sources if isinstance(source, DynamicTools)]
        if dynamic:
            ask = partial(self._ask_sources, dynamic, self._context(phase, step))
            items = await run.wait(run.effects.remember(self._offer_at(step), ask))
            run.check_stop()
            for item in items:
                one = made[id(item)] = self._made.get(id(item)) or _compiled(item)
                if one[1] in tools:
                    raise DuplicateToolError(one[1])
                tools[one[1]] = one[2]
        self._made = made
        if tools != self._tools:
            self._offer(tools)
        offered = run.specs()
        if offered != self._reported:
            self._reported = offered
            run.emitter.emit(ToolsOffered, step, offered)
            if not again:
                run.check_stop()  # a listener may have stopped the run

    async def _ask_sources(self, sources: Sequence[DynamicTools], ctx: RunContext[Any]) -> list[Any]:
        items: list[Any] = []
        for source in sources:
            items += await source.tools(ctx)
            self._run.check_stop()
        return items

    def _offer_at(self, step: int) -> RecordedInput[list[Any]]:
        """The journal entry for the tools that functions return for a step.

        A recording has only their specs and the names of external tools. Without specs, the tools are those
        of the previous step.
        """
        own = {spec.name for spec in self._base.judge.offered}
        own.update(self._discovered_tools())

        def read(recorded: Any) -> list[Any]:
            specs, external = recorded["tools"], recorded["external"]
            offered = self._reported if specs is None else from_plain(tuple[ToolSpec, ...], specs)
            tools = [spec for spec in offered if spec.name not in own]
            return [_recorded_tool(spec, external=spec.name in external) for spec in tools]

        return RecordedInput("offer", step, _specs_of, read)

    def _discovered_tools(self) -> dict[str, ToolRegistry]:
        """The tools of the current agent that searches have found in this run."""
        searches = [source for source in self._base.registry.sources if isinstance(source, ToolSearch)]
        return {
            name: search.registry
            for name in self._run.tally.found
            for search in searches
            if name in search.registry
        }

    def _offer(self, tools: dict[str, ToolRegistry]) -> None:
        run, base = self._run, self._base
        registry = base.registry.with_tools(tools) if tools else base.registry
        for name in base.judge.final_names:
            if name in tools:
                raise DuplicateToolError(name)
        self._tools = tools
        run.settings = replace(base, judge=base.judge.with_tools(registry))
        self._live = self._runtime.effects_with(registry, run.account)
        self._live.attach(run)

    def take(self, observed: Sequence[Observed]) -> None:
        """Store the tools that the searches of a step have found; they are offered from the next step on."""
        tally = self._run.tally
        for source in self._base.registry.sources:
            if isinstance(source, ToolSearch):
                for item in observed:
                    if item.ok and item.tool_name == source.tool.name:
                        new = [name for name in source.tools_named_in(item.value) if name not in tally.found]
                        tally.found += tuple(dict.fromkeys(new))

    def _context(self, phase: AnyPhase, step: int) -> RunContext[Any]:
        """The context of the run at the start of the step, before its reply."""
        run, trail = self._run, phase.trail
        has_reply = isinstance(phase, Acting) and trail.length and phase.messages[-1].role is Role.ASSISTANT
        seen = LogView(trail.log.messages, trail.length - 1 if has_reply else trail.length)
        return run.context(lambda: seen, step=step)

    # --- handing over ------------------------------------------------------------------------------

    def keep_one_transfer(self, calls: Sequence[ToolCall], slots: list[Any]) -> None:
        """Reject all handoffs in a reply but the first."""
        transfers, has_one = self._runtime.transfers, False
        for index, call in enumerate(calls):
            if call.name in transfers and not (isinstance(slots[index], Observed) and not slots[index].ok):
                if has_one:
                    text = sentences.not_run(sentences.ONE_TRANSFER)
                    slots[index] = Observed(text, text, call.id, call.name, ok=False)
                has_one = True

    def transfer_in(self, observed: Sequence[Observed]) -> Handoff | None:
        """The handoff that the model has called for; None without one."""
        transfers = self._runtime.transfers
        if not transfers:
            return None
        named = (transfers.get(item.tool_name) for item in observed if item.ok)
        return next((transfer.handoff for transfer in named if transfer is not None), None)

    async def hand_over(self, phase: Observing[Any], handoff: Handoff) -> Thinking[Any]:
        """Continue the run as another agent, with that agent's instructions."""
        run, info, agent = self._run, phase.info, handoff.agent
        source, target = run.name, self._staged(agent)
        shown, task_at = await self._messages_for(phase, handoff)
        ctx = dataclasses.replace(self._context(phase, run.step), agent=agent.name)
        asked = run.effects.remember(instructions_at(run.step), lambda: self._prompt(agent, info.task, ctx))
        words, advice = await run.wait(asked), None
        if agent.has_playbook:
            look_up = run.effects.remember(advice_at(run.step), lambda: agent.advise(info.task, run.run_id))
            advice = await run.wait(look_up)
        text = target.system(words if advice is None else advice.under(words))
        run.check_stop()
        messages = [Message(Role.SYSTEM, text), *shown] if text else shown
        run.tally.cuts = ()
        run.tally.advised = () if advice is None else advice.tools
        self._act_as(target)
        self._reported = run.specs()
        following = handed_over(phase, agent.name, messages, len(messages) - len(shown) + task_at)
        returned = words or "" if agent.fixed_instructions is None else ""
        fields = (source, run.name, run.settings.model, self._reported, returned)
        run.emitter.emit(HandedOff, run.step, *fields)
        if advice is not None:
            given = (advice.shown, advice.text, advice.held, run.name, advice.tools)
            run.emitter.emit(AdviceShown, run.step, *given)
        return following

    async def _messages_for(self, phase: Observing[Any], handoff: Handoff) -> tuple[list[Message], int]:
        """The messages that the other agent receives, without instructions, and the place of the task."""
        before = phase.messages[: phase.info.first_new]
        spoken = [message for message in before if message.role is not Role.SYSTEM]
        task_at = len(spoken)
        spoken += phase.trail.messages_since(len(before))  # these have no instructions
        if handoff.history is None:
            return spoken, task_at
        task = spoken[task_at]
        chosen = clean_history(await self._run.wait(handoff.messages_for(tuple(spoken))))
        shown = [message for message in chosen if message.role is not Role.SYSTEM]
        if not shown:
            name = handoff.agent.name
            raise AgentError(f"the history function of the handoff to {name!r} left nothing to see")
        return shown, next((place for place, message in enumerate(shown) if message is task), 0)

    def _staged(self, agent: Actor) -> TeamMember:
        staged: TeamMember = agent.runtime
        return self._opener if staged.identity is self._opener.identity else staged

    async def _prompt(self, agent: Actor, task: str, ctx: RunContext[Any]) -> str | None:
        try:
            return await agent.prompt(task, ctx)
        except (AgentError, ConfigError):
            raise
        except Exception as cause:
            raise AgentError(
                f"the instructions of the agent {agent.name!r} raised {type(cause).__name__}: {cause}"
            ) from cause


def _recorded_tool(spec: ToolSpec, *, external: bool) -> JsonTool:
    """A stand-in, for a replay, for a tool that a function returned. It is not run.

    Its approval rule is answered from the recording, like all rules.
    """
    asks = False if external else _not_here
    return JsonTool(spec.name, spec.description, spec.parameters, _not_here, external=external, approval=asks)


def _not_here(_: Any) -> Any:
    raise ConfigError("a tool that is known from a recording cannot be run")


def _specs_of(items: Sequence[Any]) -> JsonValue:
    plain: JsonValue = to_plain([tool.spec for tool in ToolSet.of(items).build()])
    return plain


def _compiled(item: Any) -> tuple[Any, str, ToolRegistry]:
    """A tool with its name and registry. The item is kept alive, so that its id stays its own."""
    registry = ToolSet.of([item]).build()
    return item, registry.names[0], registry


def check_handoff(first: TeamMember, given: Any) -> Handoff:
    """The handoff, if the agent can have it; else raises a `ConfigError`."""
    handoff = as_handoff(given)
    agent = handoff.agent
    if agent.runtime.identity is first.identity:
        raise ConfigError(f"the agent {first.name!r} cannot hand off to itself")
    if agent.runtime.output_type != first.output_type:
        raise ConfigError(
            f"the agent {first.name!r} has the output_type {_named(first.output_type)}, and {agent.name!r}, "
            f"which it would hand off to, has {_named(agent.runtime.output_type)}; all agents of a run need "
            f"the same output_type"
        )
    return handoff


def _named(output_type: Any) -> str:
    return getattr(output_type, "__name__", None) or str(output_type)


def team_of(first: TeamMember) -> dict[str, Actor]:
    """The agents, by name, that runs of this one may be handed off to, directly or by other agents."""
    team: dict[str, Actor] = {}
    known: dict[str, object] = {first.name: first.identity}
    waiting = [*first.transfers.values()]
    while waiting:
        agent = waiting.pop(0).handoff.agent
        identity = known.setdefault(agent.name, agent.runtime.identity)
        if identity is not agent.runtime.identity:
            raise ConfigError(
                f"two agents of one run are called {agent.name!r}; give each a name of its own: "
                f"Agent(..., name=...)"
            )
        if agent.name not in team:
            team[agent.name] = agent
            waiting += agent.runtime.transfers.values()
    return team


def current_agent_of(first: TeamMember, info: RunInfo, account: Account) -> CurrentAgent:
    """The current agent of a run: the one that opens it, or the one that it was handed off to before."""
    team = team_of(first)
    for agent in team.values():
        for model in (agent.runtime.model, *agent.runtime.settings.other_models):
            account.price_of(model)  # raises if the cost is limited and there is no price
    name = acting_in(first, info, team)
    return CurrentAgent(first, team, first if name == first.name else team[name].runtime)


def check_deps(first: TeamMember, deps: Any, *, needed: bool) -> None:
    """Check, before a run begins, that its deps fit every agent that it may be handed off to."""
    for agent in team_of(first).values():
        try:
            agent.runtime.deps.check(deps, agent.name, needed=needed)
        except ConfigError as error:
            raise ConfigError(f"{error}; a run of {first.name!r} may be handed off to it") from None


def acting_in(first: TeamMember, info: RunInfo, team: Mapping[str, Actor] | None = None) -> str:
    """The name of the agent that acts in a run that this agent opens or resumes; raises if it is unknown."""
    name = info.agent if info.opened_by else first.name
    if name != first.name:
        team = team_of(first) if team is None else team
        if name not in team:
            others = ", ".join(map(repr, team)) or "no agent"
            raise ConfigError(
                f"the run was handed off to the agent {name!r}, which {first.name!r} does not know: it hands "
                f"off to {others}; resume the run with a program that has that agent"
            )
    return name


def refusal_in(first: TeamMember, pending: PendingCall) -> Exception | None:
    """Why the tool of a pending call does not take its arguments; None if it does, or is not known.

    Several agents of a team may have tools of the same name: it is the one with the schema of the call.
    """
    call = pending.call
    registries = [first.registry, *(agent.runtime.registry for agent in team_of(first).values())]
    sources = [source for registry in registries for source in registry.sources]
    registries += [source.registry for source in sources if isinstance(source, ToolSearch)]
    named = [(registry, tool) for registry in registries if (tool := registry.get(call.name)) is not None]
    own = [registry for registry, tool in named if tool.spec.parameters == pending.parameters]
    if not own and not (sources and pending.parameters):  # an old call, or the tool was changed since
        own = [registry for registry, _ in named]
    found = [registry.prepare(call) for registry in own]
    if any(isinstance(one, PreparedCall) for one in found) or (sources and not found):
        return None
    refused: Any = found[0] if found else first.registry.prepare(call)
    return refused  # type: ignore[no-any-return]  # one of the two errors
