"""Simulate: run a scenario with many seeds, check its invariants, and shrink the faults that break them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Any, TypeAlias

from wesichain.core import to_json
from wesichain.core.internal import Mutable, replace
from wesichain.errors import ConfigError
from wesichain.testing.seams import installed

from .agent_runs import run_agent
from .durable_runs import run_durable
from .faults import Fault, Faults
from .graph_runs import is_graph, run_graph
from .scenario import Invariant, Scenario, Trace, check_invariants, is_durable
from .simulated_run import SimulatedRun
from .violations import Report, Violation, name_of

_DEFAULT_SEEDS = range(200)
_SETTLED = 86_400.0  # seconds after the end of a run in which its remaining tasks may run
_MOST_SHRUNK = 8  # seeds that are shrunk for one invariant, to find one with fewer faults
_MOST_TRIES = 120  # runs for shrinking one violation
_FEW = 3  # if more faults are left, faults that did not happen are tried instead
_MOST_ELSEWHERE = 1_000  # runs for that
_MOST_TURNS = 2_000_000  # of event loops in all shrinking; a run that never ends takes a tenth


async def simulate(
    scenario: Scenario,
    *,
    seeds: Iterable[int] = _DEFAULT_SEEDS,
    faults: Faults = Faults(),  # noqa: B008  # a frozen value
    invariants: Sequence[Invariant] = (),
) -> Report:
    """Run the scenario once for each seed, in virtual time, with faults drawn from the seed.

    Each run is checked with the invariants of the scenario and those given here, and has to end without an
    unexpected error. A seed that breaks an invariant is repeated with fewer faults, and reported as one
    `Violation` per invariant. A seed always gives the same run. There is no network: the agent's model has to
    be a function of the request, such as `FunctionLlm`.
    """
    return await asyncio.to_thread(simulate_sync, scenario, seeds=seeds, faults=faults, invariants=invariants)


def simulate_sync(
    scenario: Scenario,
    *,
    seeds: Iterable[int] = _DEFAULT_SEEDS,
    faults: Faults = Faults(),  # noqa: B008  # a frozen value
    invariants: Sequence[Invariant] = (),
) -> Report:
    """Synchronous version of `simulate()`."""
    if asyncio._get_running_loop() is not None:
        raise ConfigError(
            "simulate_sync() was called inside a running event loop; use 'await simulate(...)' there"
        )
    given: Any = scenario
    if not isinstance(given, Scenario):
        raise ConfigError(f"simulate() needs a Scenario(agent, task), got {given!r}")
    given = seeds
    if not isinstance(given, Iterable):
        raise ConfigError(f"seeds={given!r}: use the seeds themselves, such as range({given!r})")
    if faults == Faults():
        faults = scenario.faults or faults
    check_invariants(invariants)
    functions = (*scenario.invariants, *invariants)
    runs = 0
    found: dict[str, Violation] = {}
    turns_left = _MOST_TURNS
    for seed in seeds:
        with simulated(scenario, seed, faults) as trace:
            broken = _broken(trace, functions)
        if runs == 0:
            _check_repeats(scenario, trace, faults)
        runs += 1
        for name, error in broken:
            known = found.get(name)
            if known is None or (known.count < _MOST_SHRUNK and len(known.faults) > 1):
                shrinker = _Shrinker(scenario, functions, trace, name, turns_left)
                shrunk = _violation(scenario, functions, name, *shrinker.fewest(error))
                turns_left = shrinker.turns_left
                fewer = known is None or len(shrunk.faults) < len(known.faults)
                found[name] = shrunk if known is None or fewer else known
            found[name] = replace(found[name], count=1 if known is None else known.count + 1)
    return Report(runs, tuple(found.values()), faults)


def _broken(trace: Trace, functions: Sequence[Invariant]) -> list[tuple[str, BaseException]]:
    """The names and errors of the invariants that do not hold."""
    broken: list[tuple[str, BaseException]] = []
    if trace.error is not None:
        broken.append(("the run ends without an error", trace.error))
    for function in functions:
        try:
            function(trace)
        except Exception as error:  # noqa: BLE001  # an invariant may raise anything
            broken.append((name_of(function), error))
    return broken


def _check_repeats(scenario: Scenario, trace: Trace, faults: Faults) -> None:
    """Check that a seed gives the same events twice, so that violations can be reproduced."""
    with simulated(scenario, trace.seed, faults) as again:
        pass
    for number, (first, second) in enumerate(zip(trace.events, again.events, strict=False), start=1):
        if to_json(first) != to_json(second):
            raise ConfigError(
                f"seed {trace.seed} cannot be repeated: event {number} ({first.kind}) differs next time; "
                f"take time, random numbers and ids from the world or the context, and keep nothing "
                f"between runs outside the world\n"
                f"{to_json(first):.400}\n{to_json(second):.400}"
            )
    if len(trace.events) != len(again.events):
        raise ConfigError(
            f"seed {trace.seed} gave {len(trace.events)} events, and {len(again.events)} the second time; "
            f"keep nothing between runs outside the world, and pass a function that makes the agent"
        )


@contextmanager
def simulated(scenario: Scenario, seed: int, faults: Faults) -> Generator[Trace]:
    """Run the scenario once. Errors of the run do not raise; they are in the trace.

    The code of dead processes is closed after the `with` block. Its `finally` blocks only run then, so that
    they do not change the world before.
    """
    run = SimulatedRun(scenario, seed, faults)
    try:
        with installed(run.boundary):
            try:
                run.loop.run(_run_to_end(run))
                run.loop.settle(_SETTLED)
            except Exception as error:  # noqa: BLE001  # reported as a violation
                run.error = run.error or error
        yield run.trace()
    finally:
        run.close()


async def _run_to_end(run: SimulatedRun) -> None:
    if run.scenario.world is not None:
        run.world = run.scenario.world()
    process, program = run.new_process()
    if is_graph(program):
        await run_graph(run, process, program)
    elif is_durable(program):
        await run_durable(run, process, program)
    else:
        await run_agent(run, process, program)


# --- shrinking -------------------------------------------------------------------------------------------

_Failing: TypeAlias = tuple[Trace, BaseException]


class _Shrinker(Mutable):
    """Looks for the fewest faults that still break an invariant with this seed."""

    scenario: Scenario
    functions: Sequence[Invariant]
    trace: Trace
    name: str
    turns_left: int
    tries: int = 0

    def fewest(self, error: BaseException) -> _Failing:
        happened = self.trace.faults
        for size in range(min(3, len(happened) + 1)):  # none, one alone, two
            failing = self._first(combinations(happened, size), _MOST_TRIES)
            if failing is not None:
                return failing
        failing = self._without_unneeded() or (self.trace, error)
        if len(failing[0].faults) <= _FEW:
            return failing
        return self._with_another(failing[0].faults) or failing

    def _without_unneeded(self) -> _Failing | None:
        """Remove faults one by one while the invariant is still broken."""
        best: _Failing | None = None
        left = [*self.trace.faults]
        for fault in reversed(self.trace.faults):
            fewer = [one for one in left if one != fault]
            failing = self._first([fewer], 2 * _MOST_TRIES)
            if failing is not None:
                best, left = failing, [one for one in failing[0].faults if one in fewer]
        return best

    def _with_another(self, needed: Sequence[Fault]) -> _Failing | None:
        """Try each possible fault alone, and together with one of the needed faults.

        One fault at another place may replace many.
        """
        for given in ((), *((one,) for one in needed)):
            with simulated(self.scenario, self.trace.seed, Faults(only=given)) as other:
                possible = other.possible
            failing = self._first(((*given, one) for one in possible), _MOST_ELSEWHERE)
            if failing is not None:
                return failing
        return None

    def _first(self, choices: Iterable[Sequence[Fault]], most: int) -> _Failing | None:
        """The first choice of faults that breaks the invariant, in `most` tries of all shrinking."""
        for chosen in choices:
            if self.tries >= most or self.turns_left <= 0:
                return None
            self.tries += 1
            with simulated(self.scenario, self.trace.seed, Faults(only=tuple(chosen))) as again:
                self.turns_left -= again.turns
                for name, error in _broken(again, self.functions):
                    if name == self.name:
                        return again, error
        return None


def _violation(
    scenario: Scenario, functions: Sequence[Invariant], name: str, trace: Trace, error: BaseException
) -> Violation:
    return Violation(
        trace.seed,
        name,
        error,
        trace.faults,
        trace.recording,
        scenario=scenario,
        functions=tuple(functions),
    )
