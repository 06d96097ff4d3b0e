"""The agent: no tool, one hop, chains, a malformed call, many runs at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from .scenario import Scenario


def _counting(name: str, title: str, hops: int, *, malformed: bool = False) -> Scenario:
    def setup(_: Path) -> Any:
        from .counting import count, counting_agent

        return count, counting_agent(hops, malformed=malformed)

    async def run(made: Any) -> int:
        count, agent = made
        steps: int = await count(agent, hops)
        return steps

    return Scenario(name, title, setup, run)


def _concurrent(name: str, title: str, runs: int, *, gated: bool) -> Scenario:
    def setup(_: Path) -> Any:
        from .counting import count, counting_agent

        return count, counting_agent(1, waits=True)  # all of them are alive at once

    async def run(made: Any) -> int:
        count, agent = made
        return sum(await asyncio.gather(*(count(agent, 1) for _ in range(runs))))

    return Scenario(name, title, setup, run, gated=gated)


AGENTS = (
    _counting("short", "short answer, no tool", 0),
    _counting("hop", "one tool hop", 1),
    _counting("chain10", "chain of 10 hops", 10),
    _counting("chain100", "chain of 100 hops", 100),
    _counting("chain1000", "chain of 1,000 hops", 1000),
    _counting("malformed", "malformed call, recovered", 1, malformed=True),
    _concurrent("concurrent100", "100 runs at once", 100, gated=True),
    _concurrent("concurrent10000", "10,000 runs at once", 10_000, gated=False),
)
