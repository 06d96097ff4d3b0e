"""Programs of functions for laws: written as data, run by one function, with a world that counts effects.

A program is a list of steps. A world answers questions, sends signals, and knows how often each effect was
done. Whatever happens to the process, a program has to end with the same value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from wesichain.errors import OutcomeUnknownError, PerformFailedError, RunInterruptedError
from wesichain.journal import Journal, Journals
from wesichain.policy import Backoff
from wesichain.store import Entry, Logs, MemoryLogs
from wesichain.testing import FakeClock


class Step(NamedTuple):
    """One step of a program. `inside` are the branches of a gather, or the steps of a part below."""

    kind: str  # perform, once, reconciled, fails, retried, ask, receive, sleep, gather, below
    inside: tuple[tuple[Step, ...], ...] = ()


KINDS = ("perform", "once", "reconciled", "unique", "fails", "retried", "ask", "receive", "sleep")


class World:
    """What a program acts on. It outlives processes."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()

    def act(self, name: str) -> Callable[[], Awaitable[str]]:
        async def act() -> str:
            self.effects[name] += 1
            return f"did {name}"

        return act

    def fail(self, name: str) -> Callable[[], Awaitable[str]]:
        async def fail() -> str:
            self.effects[name] += 1
            raise LookupError(name)

        return fail

    def fail_twice(self, name: str) -> Callable[[], Awaitable[str]]:
        async def fail() -> str:
            self.effects[name] += 1
            if self.effects[name] <= 2:
                raise ConnectionError(name)
            return f"did {name}"

        return fail

    def reconcile(self, about: str, _: Any) -> str | None:
        """What came of an effect that a killed process had begun."""
        name = about.removeprefix("unique:")
        return f"did {name}" if self.effects[name] else None


class Program:
    """A program, as a function that `Journals.run` takes."""

    def __init__(self, steps: Sequence[Step], world: World) -> None:
        self.steps = steps
        self.world = world

    async def __call__(self, journal: Journal) -> Any:
        return await self._run(journal, self.steps, "")

    async def _run(self, journal: Journal, steps: Sequence[Step], place: str) -> list[Any]:
        return [await self._step(journal, step, f"{place}{number}") for number, step in enumerate(steps)]

    async def _step(self, journal: Journal, step: Step, name: str) -> Any:
        match step.kind:
            case "ask":
                return await journal.ask(name, f"{name}?", expects=str)
            case "receive":
                return await journal.receive("signal")
            case "sleep":
                return await journal.sleep(name, 10.0)
            case "below":
                return await self._run(journal.below(name), step.inside[0], f"{name}.")
            case "gather":
                parts = [journal.below(f"{name}.{number}") for number in range(len(step.inside))]
                runs = zip(parts, step.inside, strict=True)
                return await journal.gather(
                    *(
                        self._run(part, steps, f"{name}.{number}.")
                        for number, (part, steps) in enumerate(runs)
                    )
                )
            case kind:
                return await self._act(journal, kind, name)

    async def _act(self, journal: Journal, kind: str, name: str) -> Any:
        world = self.world
        act, reconcile = world.act(name), world.reconcile
        match kind:
            case "perform":
                return await journal.perform(name, act)
            case "once":
                try:
                    return await journal.perform(name, act, effect="once")
                except OutcomeUnknownError:
                    return "unknown"
            case "reconciled":
                return await journal.perform(name, act, effect="once", reconcile=reconcile)
            case "unique":
                return await journal.perform(name, act, unique=f"unique:{name}", reconcile=reconcile)
            case "retried":
                return await journal.perform(name, world.fail_twice(name), retry=Backoff(0.0, 1.0, 0.0))
            case _:
                try:
                    return await journal.perform(name, world.fail(name))
                except PerformFailedError as error:
                    return f"failed {error.is_a(KeyError)} {error.is_a(LookupError)} {error}"


class Crash(BaseException):
    """The process of a run has died."""


class CrashingLogs:
    """Logs whose appends end in a crash at one of them: before it is stored, or after."""

    def __init__(self, logs: Logs, crash: Callable[[], object]) -> None:
        self._logs = logs
        self._crash = crash
        self.appends = 0
        self.crash_at: int | None = None
        self.stores_first = False
        self.is_dead = False

    async def append(self, log: str, entries: Sequence[Entry], **options: Any) -> None:
        if self.is_dead:
            self._crash()
        is_last = self.appends == self.crash_at
        self.appends += 1
        if not is_last or self.stores_first:
            await self._logs.append(log, entries, **options)
        if is_last:
            self.is_dead = True
            self._crash()

    def restart(self) -> None:
        """A new process begins, which does not crash."""
        self.is_dead, self.crash_at = False, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logs, name)


def crash() -> None:
    raise Crash


def crashing(clock: FakeClock) -> Any:
    """Logs in memory that crash. Their type is that of what they wrap."""
    return CrashingLogs(MemoryLogs(clock=clock), crash)


async def drive(
    logs: Logs, clock: FakeClock, program: Program, *, most: int = 100, lease: float = 0.001
) -> Any:
    """Carry a run to its end, and give it what it waits for."""
    for _ in range(most):
        journals = Journals(logs, clock=clock, lease=lease)
        try:
            return await journals.run(program, run_id="run")
        except RunInterruptedError as interrupted:
            if not interrupted.outcome.pending:
                raise  # it was stopped
            for pending in interrupted.outcome.pending:
                await give(journals, pending.kind, pending.name)
        finally:
            await journals.close()
    raise AssertionError("the run does not end")


async def give(journals: Journals, kind: str, name: str) -> None:
    """Give a run what it waits for."""
    if kind == "question":
        await journals.answer("run", {name: f"answer to {name}"}, by="ann")
    elif kind == "signal":
        await journals.signal("run", name, "signalled")
