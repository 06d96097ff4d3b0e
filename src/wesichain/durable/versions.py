"""Versions: which program a run belongs to, and what becomes of it when the program changes."""

from __future__ import annotations

import re
from typing import Any, Literal

from wesichain.agent import Agent, team_of
from wesichain.errors import ConfigError
from wesichain.tools import ToolSearch

from .journal import fingerprint

OnChange = Literal["wait", "adopt"]
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")


def version_of(agent: Agent[Any]) -> str:
    """A name for the program: a hash of its instructions, tools and output type, and of the agents below.

    Instructions from a function are recorded when a run begins, and are no part of it; nor are tools that a
    function gives. The agents that a run may be handed to are.
    """
    others = [[name, *_program_of(other)] for name, other in sorted(team_of(agent.runtime).items())]
    return fingerprint([*_program_of(agent), *others])[:12]


def _program_of(agent: Any, above: tuple[Any, ...] = ()) -> list[Any]:
    specs = [*agent.runtime.offered()]
    for source in agent.runtime.registry.sources:
        if isinstance(source, ToolSearch):
            specs += source.registry.specs()
    parts = [agent.fixed_instructions, [[spec.name, spec.description, spec.parameters] for spec in specs]]
    used: list[Any] = [getattr(tool, "agent", None) for tool in agent.runtime.registry if tool.is_agent]
    inner = [_program_of(one, (*above, agent)) for one in used if _is_agent(one) and one not in above]
    return [*parts, inner] if inner else parts


def _is_agent(found: object) -> bool:
    return isinstance(found, Agent)


def checked_version(version: str) -> str:
    if not _VERSION.fullmatch(version):
        raise ConfigError(f"{version[:80]!r} is no version: use letters, digits and _ . + - (64 at most)")
    return version


def checked_on_change(on_change: str) -> bool:
    """Whether runs of other versions are adopted."""
    if on_change not in ("wait", "adopt"):
        raise ConfigError(f"on_change={on_change!r} must be 'wait' or 'adopt'")
    return on_change == "adopt"
