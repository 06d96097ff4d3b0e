"""Work: a stretch of a run, what it came to, and the agent that it is run for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from wesichain.agent import Outcome
from wesichain.core import dataclass
from wesichain.tools import CancellationToken

from .journal import Inside, Step
from .store import Concurrency, Rate, Serving

CANCELLED = "the run was cancelled"


@dataclass(frozen=True, slots=True)
class Work:
    """A stretch of a run, to be carried to its end: what was given and done before, and how to do more."""

    workflow_id: str
    order: str
    earlier: Sequence[str]  # the texts of the endings of earlier stretches
    recorded: Mapping[str, str]
    step: Step
    token: CancellationToken
    inside: Inside | None = None


@dataclass(frozen=True, slots=True)
class WorkResult:
    """The outcome of a stretch of work, and the text by which it is kept."""

    outcome: Outcome[Any]
    text: str


Execute: TypeAlias = Callable[[Work], Awaitable[WorkResult]]


@dataclass(frozen=True, slots=True)
class Service:
    """An agent as it is served here."""

    serving: Serving
    adopts: bool
    concurrency: Concurrency
    rates: tuple[Rate, ...]
    execute: Execute

    @property
    def agent(self) -> str:
        return self.serving.agent
