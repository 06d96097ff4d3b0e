"""A team: the agents that a run may be handed to, and what must hold of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wesichain.agent.phases import RunInfo
from wesichain.core import ToolCall
from wesichain.errors import ConfigError
from wesichain.policy import Account
from wesichain.tools import PreparedCall, ToolSearch

from .current_agent import CurrentAgent, TeamMember
from .handoff import Actor, Handoff, as_handoff


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
    return CurrentAgent(first, team, acting_in(first, info, team))


def check_deps(first: TeamMember, deps: Any, *, needed: bool) -> None:
    """See that the deps of a run suit every agent that it may be handed to, before it begins."""
    for agent in team_of(first).values():
        try:
            agent.runtime.check_deps(deps, needed=needed)
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
