"""The current agent of a run and its tools, and the team of agents that the run may be handed off to.

Only a run with handoffs or changing tools needs a `CurrentAgent`. It provides the model and the tools of the
agent that acts. The handoffs of a run, and what functions offered in each step, are entries of its log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from typing_extensions import override

from wesichain.agent.backend import Backend, Caller, OnText
from wesichain.agent.memory.history import clean_history
from wesichain.agent.phases import Acting, AnyPhase, Observing, Thinking, handed_over
from wesichain.agent.rules import sentences
from wesichain.agent.run_info import RunInfo
from wesichain.agent.run_state import RunState, Settings
from wesichain.agent.trail import Observed
from wesichain.core import LlmRequest, LlmResponse, Message, Role, ToolCall, ToolSpec
from wesichain.core.internal import Advice, LogView, PendingCall, ToolsOffered, replace
from wesichain.errors import AgentError, ConfigError, DuplicateToolError, ReplayMismatchError
from wesichain.journal.internal import Hand, Offer
from wesichain.middleware import Middleware
from wesichain.policy.internal import Account
from wesichain.tools import DynamicTools, RunContext, ToolRegistry, ToolResult, ToolSearch, ToolSet
from wesichain.tools.internal import PreparedCall

from .handoff import Actor, Handoff, Transfer, as_handoff


class TeamMember(Protocol):
    """The part of an agent's runtime that handoffs need."""

    identity: object  # shared by copies of the runtime
    output_type: Any
    settings: Settings[Any]
    run_middleware: Sequence[Middleware]

    @property
    def fingerprint(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def registry(self) -> ToolRegistry: ...

    @property
    def transfers(self) -> Mapping[str, Transfer]: ...

    def backend_with(self, tools: ToolRegistry, account: Account) -> Backend:
        """Its model and these tools, with its middleware around both."""
        ...

    def system(self, instructions: str | None) -> str:
        """The system message: the instructions, and how to answer if that is said in the prompt."""
        ...


class CurrentAgent(Backend):
    """The model and the tools of one run whose agent or tools can change."""

    __slots__ = (
        "_base",
        "_first",
        "_live",
        "_made",
        "_offered_step",
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
    _live: Backend

    def __init__(self, opener: TeamMember, team: Mapping[str, Actor], runtime: TeamMember) -> None:
        self._opener = opener  # perhaps a copy with another model
        self._team = team
        self._runtime = runtime  # of the agent that acts now
        self._offered_step = 0  # the recorded step whose tools were offered again
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
    def ask(self, request: LlmRequest, *, on_text: OnText | None) -> Coroutine[Any, Any, LlmResponse]:
        return self._live.ask(request, on_text=on_text)

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

    @property
    def holds_stream(self) -> bool:
        """Whether a guard of an agent that may act in this run checks the answer before it is streamed."""
        runtimes = [self._opener, *(agent.runtime for agent in self._team.values())]
        return any(one.holds_stream for runtime in runtimes for one in runtime.run_middleware)

    def _act_as(self, runtime: TeamMember) -> None:
        run, first = self._run, self._first
        self._runtime = runtime
        base = replace(runtime.settings, clock=first.clock, on_limit=first.on_limit)
        if run.flow is not None:
            base = replace(base, judge=base.judge.with_tools(run.flow.equipped(base.registry)))
        self._base = base
        run.account.use_model(runtime.model)
        self._made = {}
        self._offer(self._discovered_tools())

    # --- tools -------------------------------------------------------------------------------------

    async def offer(self, phase: AnyPhase) -> None:
        """Offer the tools of the next step."""
        run = self._run
        if not self._base.registry.sources:
            return
        if run.account.refusal(run.now(), free=run.tally.free) is not None:
            return  # there will be no next step
        step = run.step + 1
        if self._dynamic:
            name = f"offer {step}"
            known = run.log.find(name, Offer)
            items = await self._ask_sources(phase, step)
            if known is None:
                run.log.refuse(name)
                run.log.write(name, _offer_of(items))
            self._offer_items(items if known is None else _offered_again(items, known))
        else:
            self._offer_items([])
        offered = run.specs()
        if offered != self._reported:
            self._reported = offered
            run.log.announce(ToolsOffered, step, offered)
            run.check_stop()  # a listener may have stopped the run

    def offer_recorded(self) -> None:
        """Take the tools that were offered in a recorded step; functions are not called again."""
        if self._base.registry.sources and not self._dynamic:
            self._offer_items([])
            self._reported = self._run.specs()

    async def offer_again(self, phase: AnyPhase) -> None:
        """Offer the tools of a recorded step, for calls of which the log has no result.

        The functions are called again for the code; their tools are taken by the recorded names.
        """
        step = self._run.step
        known = self._run.log.find(f"offer {step}", Offer) if step != self._offered_step else None
        if known is not None:
            self._offered_step = step
            self._offer_items(_offered_again(await self._ask_sources(phase, step), known))

    @property
    def is_dynamic(self) -> bool:
        """Whether functions return tools for each step."""
        return bool(self._dynamic)

    @property
    def _dynamic(self) -> list[DynamicTools]:
        return [source for source in self._base.registry.sources if isinstance(source, DynamicTools)]

    async def _ask_sources(self, phase: AnyPhase, step: int) -> list[Any]:
        run, ctx = self._run, self._context(phase, step)
        items: list[Any] = []
        for source in self._dynamic:
            items += await run.wait(_tools_of(source, ctx))
            run.check_stop()
        return items

    def _offer_items(self, items: Sequence[Any]) -> None:
        """Offer these tools beside the agent's own, and those that searches have found."""
        tools, made = self._discovered_tools(), dict[int, tuple[Any, str, ToolRegistry]]()
        for item in items:
            one = made[id(item)] = self._made.get(id(item)) or _compiled(item)
            if one[1] in tools:
                raise DuplicateToolError(one[1])
            tools[one[1]] = one[2]
        self._made = made
        if tools != self._tools:
            self._offer(tools)

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
        self._live = self._runtime.backend_with(registry, run.account)
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

    def recorded_handoff(self) -> Hand | None:
        """The handoff that the log has in the present step."""
        run = self._run
        return run.log.find(f"hand {run.step}", Hand) if run.is_recorded else None

    async def hand_over(
        self,
        phase: Observing[Any],
        handoff: Handoff | None,
        hand: Hand | None,
        unsent: tuple[bool, tuple[Message, ...]],
    ) -> Thinking[Any]:
        """Continue the run as another agent, with its instructions, or as the log has it (`hand`).

        `unsent` are the messages that no request had.
        """
        run = self._run
        if hand is None:
            assert handoff is not None, "one of the two is given"
            name, target = f"hand {run.step}", self._staged(handoff.agent)
            run.log.refuse(name)
            hand = await self._handoff(phase, handoff, target)
            self._act_as(target)
            hand = replace(hand, tools=run.specs(), follows=unsent[0], unsent=unsent[1])
            run.log.write(name, hand)
        else:
            self._check_instructions(hand)
            self._act_as(self._member(hand.target))
        run.tally.advised = () if hand.advice is None else hand.advice.tools
        self._reported = run.specs()
        spoken, _ = _spoken(phase)
        shown = spoken if hand.messages is None else [*hand.messages]
        messages = [Message(Role.SYSTEM, hand.system), *shown] if hand.system else shown
        first_new = len(messages) - len(shown) + hand.task_at
        return handed_over(phase, hand.target, messages, first_new)

    def _check_instructions(self, hand: Hand) -> None:
        """In a replay, raise if the other agent has other instructions than the recorded ones."""
        run, agent = self._run, self._team.get(hand.target)
        if not run.log.log.strict or agent is None or agent.fixed_instructions is None:
            return
        words = agent.fixed_instructions
        text = self._staged(agent).system(words if hand.advice is None else hand.advice.under(words))
        if text != hand.system:
            raise ReplayMismatchError(
                f"the instructions of {hand.target!r} are others than the recorded ones: recorded "
                f"{hand.system[:200]!r}, now {text[:200]!r}",
                step_id=run.step,
                name=f"{run.log.place}hand {run.step}",
                expected=hand.system,
                actual=text,
            )

    async def _handoff(self, phase: Observing[Any], handoff: Handoff, target: TeamMember) -> Hand:
        """What the other agent begins with: the messages, its instructions, and its advice."""
        run, info, agent = self._run, phase.info, handoff.agent
        messages, task_at = await self._messages_for(phase, handoff)
        ctx = dataclasses.replace(self._context(phase, run.step), agent=agent.name)
        words = await run.wait(self._prompt(agent, info.task, ctx))
        advice: Advice | None = None
        if agent.has_playbook:
            advice = await run.wait(agent.advise(info.task, run.run_id))
        text = target.system(words if advice is None else advice.under(words))
        run.check_stop()
        instructions = words or "" if agent.fixed_instructions is None else ""
        return Hand(
            run.name,
            agent.name,
            target.fingerprint,
            target.model,
            (),
            None if messages is None else tuple(messages),
            text,
            task_at,
            instructions,
            advice,
        )

    async def _messages_for(
        self, phase: Observing[Any], handoff: Handoff
    ) -> tuple[list[Message] | None, int]:
        """The messages that the `history` function chose, or None for all; and the place of the task."""
        spoken, task_at = _spoken(phase)
        if handoff.history is None:
            return None, task_at
        task = spoken[task_at]
        chosen = clean_history(await self._run.wait(handoff.messages_for(tuple(spoken))))
        shown = [message for message in chosen if message.role is not Role.SYSTEM]
        if not shown:
            name = handoff.agent.name
            raise AgentError(f"the history function of the handoff to {name!r} left nothing to see")
        return shown, next((place for place, message in enumerate(shown) if message is task), 0)

    def _member(self, name: str) -> TeamMember:
        """The agent of a recorded handoff, by its name."""
        if name == self._opener.name:
            return self._opener
        if name not in self._team:
            raise _unknown_agent(name, self._opener.name, self._team)
        return self._staged(self._team[name])

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


def _spoken(phase: Observing[Any]) -> tuple[list[Message], int]:
    """The messages of a run without instructions, and the place of the task among them."""
    before = phase.messages[: phase.info.first_new]
    spoken = [message for message in before if message.role is not Role.SYSTEM]
    task_at = len(spoken)
    return [*spoken, *phase.trail.messages_since(len(before))], task_at  # the latter have no instructions


async def _tools_of(source: DynamicTools, ctx: RunContext[Any]) -> Sequence[Any]:
    return await source.tools(ctx)


def _offer_of(items: Sequence[Any]) -> Offer:
    tools = [*ToolSet.of(items).build()]
    return Offer(tuple(tool.spec for tool in tools), tuple(tool.name for tool in tools if tool.external))


def _offered_again(items: Sequence[Any], offer: Offer) -> list[Any]:
    """The tools that functions return today, as far as they were offered; others are answered by name."""
    names = {spec.name for spec in offer.tools}
    return [item for item in items if not names.isdisjoint(ToolSet.of([item]).build().names)]


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


def current_agent_of(first: TeamMember, account: Account) -> CurrentAgent:
    """The current agent of a run, which is the one that opens it."""
    team = team_of(first)
    for agent in team.values():
        for model in (agent.runtime.model, *agent.runtime.settings.other_models):
            account.price_of(model)  # raises if the cost is limited and there is no price
    return CurrentAgent(first, team, first)


def check_deps(first: TeamMember, deps: Any, *, needed: bool) -> None:
    """Check, before a run begins, that its deps fit every agent that it may be handed off to."""
    for agent in team_of(first).values():
        try:
            agent.runtime.deps.check(deps, agent.name, needed=needed)
        except ConfigError as error:
            raise ConfigError(f"{error}; a run of {first.name!r} may be handed off to it") from None


def check_acting(first: TeamMember, info: RunInfo) -> None:
    """Raise if the agent that acts in an interrupted run is not known to this program."""
    name = info.agent if info.opened_by else first.name
    if name != first.name:
        team = team_of(first)
        if name not in team:
            raise _unknown_agent(name, first.name, team)


def _unknown_agent(name: str, opener: str, team: Mapping[str, Actor]) -> ConfigError:
    others = ", ".join(map(repr, team)) or "no agent"
    return ConfigError(
        f"the run was handed off to the agent {name!r}, which {opener!r} does not know: it hands off to "
        f"{others}; resume the run with a program that has that agent"
    )


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
