"""The current agent of a run and its tools, and the team of agents that the run may be handed to.

Most runs need none: neither ever changes. A `CurrentAgent` stands between the loop and the world of the agent
that acts. Which agent that is, and which tools searches have found, is part of the run's state; the rest
follows from it and from the functions of `DynamicTools`.
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
    JournalEntry,
    OnText,
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
    ToolsOffered,
    from_plain,
    replace,
    to_plain,
)
from wesichain.errors import AgentError, ConfigError, DuplicateToolError
from wesichain.middleware import Middleware
from wesichain.policy import Account
from wesichain.tools import (
    DynamicTools,
    JsonTool,
    PreparedCall,
    RunContext,
    ToolRegistry,
    ToolResult,
    ToolSearch,
    ToolSet,
)

from .handoff import Actor, Handoff, Transfer, as_handoff


class TeamMember(Protocol):
    """The runtime of an agent, as far as those who act in its place need it."""

    identity: object  # of the agent, whatever copies there are
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

    def effects_with(self, tools: ToolRegistry) -> Effects:
        """Its model, these tools, and its middleware around both."""
        ...

    def system(self, instructions: str | None) -> str:
        """Its first message: the instructions, and the form of the answer where it is asked for in words."""
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
    _first: Settings[Any]  # whose time and limits are those of the whole run
    _base: Settings[Any]
    _live: Effects

    def __init__(self, opener: TeamMember, team: Mapping[str, Actor], runtime: TeamMember) -> None:
        self._opener = opener  # with the model of this run, or with stand-ins for tools
        self._team = team
        self._runtime = runtime  # of the agent that acts now
        self._reported: tuple[ToolSpec, ...] = ()  # the tools that the log has last
        self._tools: dict[str, ToolRegistry] = {}  # beside the agent's own
        self._made: dict[int, tuple[Any, str, ToolRegistry]] = {}  # what dynamic tools gave last, compiled

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
        """Whether somebody whom the run may be handed to has middleware around its part of it."""
        return any(agent.runtime.run_middleware for agent in self._team.values())

    @property
    def part_middleware(self) -> Sequence[Middleware]:
        """The middleware around the part of whoever acts now; that of the opener is around the whole."""
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
        self._base = base
        run.account.use_model(runtime.model)
        self._made = {}
        self._offer(self._discovered_tools())

    # --- tools -------------------------------------------------------------------------------------

    async def offer(self, phase: AnyPhase, *, again: bool = False) -> None:
        """Ask for the tools of the coming step, or `again` for those of a step that was begun before."""
        run, sources = self._run, self._base.registry.sources
        if not sources:
            return
        if not again and run.account.refusal(run.now(), free=run.tally.free) is not None:
            return  # there will be no such step
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
                run.check_stop()  # by a listener

    async def _ask_sources(self, sources: Sequence[DynamicTools], ctx: RunContext[Any]) -> list[Any]:
        items: list[Any] = []
        for source in sources:
            items += await source.tools(ctx)
            self._run.check_stop()
        return items

    def _offer_at(self, step: int) -> JournalEntry[list[Any]]:
        """The tools that functions return for a step, of which a recording has the specs alone.

        It also has the names of those that somebody else carries out; without tools, they are those before.
        """
        own = {spec.name for spec in self._base.judge.offered}
        own.update(self._discovered_tools())

        def read(recorded: Any) -> list[Any]:
            specs, external = recorded["tools"], recorded["external"]
            offered = self._reported if specs is None else from_plain(tuple[ToolSpec, ...], specs)
            tools = [spec for spec in offered if spec.name not in own]
            return [_recorded_tool(spec, external=spec.name in external) for spec in tools]

        return JournalEntry("offer", step, _specs_of, read)

    def _discovered_tools(self) -> dict[str, ToolRegistry]:
        """The tools that searches have found in this run, of those that are the present agent's to find."""
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
        self._live = self._runtime.effects_with(registry)
        self._live.attach(run)

    def take(self, observed: Sequence[Observed]) -> None:
        """Keep what the searches of a step have found: it is offered from the next one on."""
        tally = self._run.tally
        for source in self._base.registry.sources:
            if isinstance(source, ToolSearch):
                for item in observed:
                    if item.ok and item.tool_name == source.tool.name:
                        new = [name for name in source.tools_named_in(item.value) if name not in tally.found]
                        tally.found += tuple(dict.fromkeys(new))

    def _context(self, phase: AnyPhase, step: int) -> RunContext[Any]:
        """The run as it was when the step began: its reply has not come yet."""
        run, trail = self._run, phase.trail
        has_reply = isinstance(phase, Acting) and trail.length and phase.messages[-1].role is Role.ASSISTANT
        seen = LogView(trail.log.messages, trail.length - 1 if has_reply else trail.length)
        return run.context(lambda: seen, step=step)

    # --- handing over ------------------------------------------------------------------------------

    def keep_one_transfer(self, calls: Sequence[ToolCall], slots: list[Any]) -> None:
        """A run is handed to one agent: of several such calls in a reply, the first is run."""
        transfers, has_one = self._runtime.transfers, False
        for index, call in enumerate(calls):
            if call.name in transfers and not (isinstance(slots[index], Observed) and not slots[index].ok):
                if has_one:
                    text = sentences.not_run(sentences.ONE_TRANSFER)
                    slots[index] = Observed(text, text, call.id, call.name, ok=False)
                has_one = True

    def transfer_in(self, observed: Sequence[Observed]) -> Handoff | None:
        """The handoff that the model has asked for, if it has."""
        transfers = self._runtime.transfers
        if not transfers:
            return None
        named = (transfers.get(item.tool_name) for item in observed if item.ok)
        return next((transfer.handoff for transfer in named if transfer is not None), None)

    async def hand_over(self, phase: Observing[Any], handoff: Handoff) -> Thinking[Any]:
        """Go on as another agent: the same run, with that one's instructions in the place of these."""
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
        spoken += phase.trail.messages_since(len(before))  # none of them is an instruction
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
    """Stands for a tool that a function had returned for a step of a recording; it is not run.

    Whether a call of it was approved by somebody is a question to the recording, as with every rule.
    """
    asks = False if external else _not_here
    return JsonTool(spec.name, spec.description, spec.parameters, _not_here, external=external, approval=asks)


def _not_here(_: Any) -> Any:
    raise ConfigError("a tool that is known from a recording cannot be run")


def _specs_of(items: Sequence[Any]) -> JsonValue:
    plain: JsonValue = to_plain([tool.spec for tool in ToolSet.of(items).build()])
    return plain


def _compiled(item: Any) -> tuple[Any, str, ToolRegistry]:
    """A tool with its registry; the item itself is kept, so that nothing else takes its place in memory."""
    registry = ToolSet.of([item]).build()
    return item, registry.names[0], registry


def check_handoff(first: TeamMember, given: Any) -> Handoff:
    """A handoff that the agent can have; what cannot be is a `ConfigError`."""
    handoff = as_handoff(given)
    agent = handoff.agent
    if agent.runtime.identity is first.identity:
        raise ConfigError(f"the agent {first.name!r} cannot hand over to itself")
    if agent.runtime.output_type != first.output_type:
        raise ConfigError(
            f"the agent {first.name!r} answers with {_named(first.output_type)}, and {agent.name!r}, to whom "
            f"it would hand over, with {_named(agent.runtime.output_type)}; all agents of a run have one "
            f"output_type"
        )
    return handoff


def _named(output_type: Any) -> str:
    return getattr(output_type, "__name__", None) or str(output_type)


def team_of(first: TeamMember) -> dict[str, Actor]:
    """The agents that runs of this one may be handed to, in one or more steps, by their names."""
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
    """Who acts in a run, and with which tools: the agent that opens it, or that it was handed to before."""
    team = team_of(first)
    for agent in team.values():
        for model in (agent.runtime.model, *agent.runtime.settings.other_models):
            account.price_of(model)  # a limited cost needs one
    name = acting_in(first, info, team)
    return CurrentAgent(first, team, first if name == first.name else team[name].runtime)


def check_deps(first: TeamMember, deps: Any, *, needed: bool) -> None:
    """See that the deps of a run suit every agent that it may be handed to, before it begins."""
    for agent in team_of(first).values():
        try:
            agent.runtime.deps.check(deps, agent.name, needed=needed)
        except ConfigError as error:
            raise ConfigError(f"{error}; a run of {first.name!r} may be handed to it") from None


def acting_in(first: TeamMember, info: RunInfo, team: Mapping[str, Actor] | None = None) -> str:
    """Who acts in a run that this agent opens, or goes on with; one that is not known here is an error."""
    name = info.agent if info.opened_by else first.name
    if name != first.name:
        team = team_of(first) if team is None else team
        if name not in team:
            others = ", ".join(map(repr, team)) or "nobody"
            raise ConfigError(
                f"the run was handed to the agent {name!r}, which {first.name!r} does not know: it hands "
                f"over to {others}; resume it with a program that has that agent"
            )
    return name


def refusal_in(first: TeamMember, call: ToolCall) -> Exception | None:
    """Why no agent of the team could run a call with these arguments; None where one could, or might."""
    registries = [first.registry, *(agent.runtime.registry for agent in team_of(first).values())]
    sources = [source for registry in registries for source in registry.sources]
    registries += [source.registry for source in sources if isinstance(source, ToolSearch)]
    found = [registry.prepare(call) for registry in registries if call.name in registry]
    if any(isinstance(one, PreparedCall) for one in found) or (sources and not found):
        return None
    refused: Any = found[0] if found else first.registry.prepare(call)
    return refused  # type: ignore[no-any-return]  # one of the two errors
