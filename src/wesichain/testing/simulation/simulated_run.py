"""The state of a simulated run, for agents and graphs."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from wesichain.core import Event
from wesichain.core.internal import Spent
from wesichain.errors import WesichainError

from .boundary import Boundary, Process
from .faults import FaultPlan, Faults
from .loop import OWNER, virtual_loop
from .scenario import Scenario, ToolEffects, Trace


class SimulatedRun:
    """The loop, the faults, the processes and the events of one simulated run."""

    def __init__(self, scenario: Scenario, seed: int, faults: Faults) -> None:
        self.scenario = scenario
        self.id = f"simulated-{seed}"
        self.loop = virtual_loop(seed)
        self.events: list[Event] = []
        self.plan = FaultPlan(seed, faults, self.events)
        self.boundary = Boundary(self.loop, self.plan)
        self.world: Any = None
        self.outcome: Any = None
        self.spent = Spent()
        self.error: BaseException | None = None
        self.on_close: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._seed = seed
        self._processes = 0
        self._ids = 0
        self._background: set[asyncio.Task[Any]] = set()

    def trace(self) -> Trace:
        return Trace(
            self._seed,
            self.id,
            tuple(self.events),
            ToolEffects(self.boundary.effects),
            self.spent,
            self.outcome,
            self.world,
            tuple(self.plan.happened),
            self._processes,
            self.error,
            tuple(self.plan.possible),
            self.loop.turns,
        )

    def close(self) -> None:
        """Close the code and the resources of dead processes."""
        for close in self.on_close:
            with suppress(Exception):  # the simulation has ended
                self.loop.run(close())
        self.boundary.close()
        self.loop.close()

    def new_id(self) -> str:
        """Make an id that depends on the seed."""
        self._ids += 1
        return f"{self.id}-{self._ids}"

    def new_process(self) -> tuple[Process, Any]:
        """Make a process, and its agent or graph."""
        self._processes += 1
        return Process(self._processes), self.scenario.new_program(self.world)

    async def restart(self) -> tuple[Process, Any]:
        """Wait a while after a crash, and make the next process."""
        await asyncio.sleep(self.plan.number("restart", self._processes, low=1.0, high=60.0))
        return self.new_process()

    def task_of(self, process: Process, code: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run code in a process."""
        context = contextvars.copy_context()
        context.run(OWNER.set, process)
        return self.loop.create_task(code, context=context)

    def answer_again(self, process: Process, resume: Coroutine[Any, Any, Any]) -> None:
        """Give the same answer again a little later; the runtime has to refuse it."""

        async def again() -> None:
            try:
                await asyncio.sleep(self.plan.number("again", len(self.events), low=0.0, high=30.0))
            except BaseException:
                resume.close()
                raise
            with suppress(WesichainError):
                await resume

        task = self.task_of(process, again())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
