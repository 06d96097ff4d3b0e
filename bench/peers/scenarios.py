"""Scenarios for all contestants; standard library only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from .script import Gate, Script

Run = Callable[[str], Awaitable[str]]  # a question in, the answer out


class Adapter(Protocol):
    """The protocol of the modules in `adapters/`."""

    NAME: str  # as its makers write it
    VERSION: str
    IMPORT: str  # what a user writes to get at an agent
    # NOTE, where the page should say how it is used; BLOCKING = True, where tools must be plain functions;
    # QUICK, the setting by which a sync tool is run at once; BEST and best(), the second row under fire

    def stub(self, script: Script) -> Run:
        """An agent with a model class of the framework that follows the script."""
        ...

    def online(
        self, url: str, tools: list[Callable[..., object]], *, tool_timeout: float | None
    ) -> Callable[[str], Awaitable[tuple[str, str | None]]]:
        """An agent over the framework's own OpenAI client, with its usual settings.

        Besides the text comes the typed sign of failure in the result, if there is one. The time
        limit is for tools; where there is none of the kind, it bounds the step or the run.
        """
        ...


@dataclass(frozen=True, slots=True)
class Scenario:
    """One question; the tool must run `hops` times before the answer is right."""

    name: str
    title: str
    hops: int
    malformed: bool = False
    blocking: bool = False  # its tool is a sync function
    quick: bool = False  # which is declared to return at once; for those that have a setting for it

    def script(self, gate: Gate | None = None) -> Script:
        return Script(
            self.hops, malformed=self.malformed, blocking=self.blocking, quick=self.quick, gate=gate
        )


SCENARIOS = (
    Scenario("short", "short answer, no tool", hops=0),
    Scenario("hop", "one tool hop", hops=1),
    Scenario("malformed", "malformed call, recovered", hops=1, malformed=True),
    Scenario("sync", "one tool hop, sync tool", hops=1, blocking=True),
    Scenario("quick", "one tool hop, sync tool declared quick", hops=1, blocking=True, quick=True),
    Scenario("chain10", "chain of 10 hops", hops=10),
    Scenario("sync10", "chain of 10 hops, sync tool", hops=10, blocking=True),
    Scenario("quick10", "chain of 10 hops, sync tool declared quick", hops=10, blocking=True, quick=True),
    Scenario("chain100", "chain of 100 hops", hops=100),
    Scenario("sync100", "chain of 100 hops, sync tool", hops=100, blocking=True),
    Scenario("quick100", "chain of 100 hops, sync tool declared quick", hops=100, blocking=True, quick=True),
    Scenario("chain1000", "chain of 1,000 hops", hops=1000),
)
CONCURRENT = Scenario("concurrent", "many runs of one hop at once", hops=1)
