"""Versions: which program a run belongs to, and what becomes of it when the program changes."""

from __future__ import annotations

import re
from typing import Any, Literal

from wesichain.agent import Agent
from wesichain.errors import ConfigError

from .journal import fingerprint

OnChange = Literal["wait", "adopt"]
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")


def version_of(agent: Agent[Any]) -> str:
    """A name for the program: a hash of its instructions, tools and output type.

    Instructions from a function are recorded when a run begins, and are no part of it.
    """
    offered = [[spec.name, spec.description, spec.parameters] for spec in agent.runtime.offered()]
    return fingerprint([agent.fixed_instructions, offered])[:12]


def checked_version(version: str) -> str:
    if not _VERSION.fullmatch(version):
        raise ConfigError(f"{version[:80]!r} is no version: use letters, digits and _ . + - (64 at most)")
    return version


def checked_on_change(on_change: str) -> bool:
    """Whether runs of other versions are adopted."""
    if on_change not in ("wait", "adopt"):
        raise ConfigError(f"on_change={on_change!r} must be 'wait' or 'adopt'")
    return on_change == "adopt"
