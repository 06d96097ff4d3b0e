"""Simulate: run a scenario with many seeds, check its invariants, and shrink what breaks them."""

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
_SETTLED = 86_400.0  # seconds after the end of a run in which what it left behind may still act
_MOST_SHRUNK = 8  # seeds that are shrunk for one invariant, to find one with fewer faults
_MOST_TRIES = 120  # runs that shrinking one violation may take
_FEW = 3  # faults: with more, others than those that happened are tried, in so many runs altogether
_MOST_ELSEWHERE = 1_000
_MOST_TURNS = (
    2_000_000  # of event loops in all shrinking of a simulation: a run that never ends takes a tenth
)


async def simulate(
    scenario: Scenario,
    *,
    seeds: Iterable[int] = _DEFAULT_SEEDS,
    faults: Faults = Faults(),  # noqa: B008  # a frozen value
    invariants: Sequence[Invariant] = (),
) -> Report:
    """Run the scenario once for each seed, in virtual time, with faults drawn from the seed.

    Every run is checked by the invariants of the scenario and those given here, and has to end without an
    error of the program. The first seed that breaks an invariant is repeated with ever fewer faults, and
    reported as one `Violation`. The same seed gives the same run, in every process. No network is reached:
    the agent's model has to be a function of the request, such as `FunctionLlm`.
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
                shrinking = _Shrinking(scenario, functions, trace, name, turns_left)
                shrunk = _violation(scenario, functions, name, *shrinking.fewest(error))
                turns_left = shrinking.turns_left
                fewer = known is None or len(shrunk.faults) < len(known.faults)
                found[name] = shrunk if known is None or fewer else known
            found[name] = replace(found[name], count=1 if known is None else known.count + 1)
    return Report(runs, tuple(found.values()), faults)


def _broken(trace: Trace, functions: Sequence[Invariant]) -> list[tuple[str, BaseException]]:
    """The invariants that do not hold, by name, each with what it raised."""
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
    """See that a seed gives the same events twice: otherwise nothing that is found could be repeated."""
    with simulated(scenario, trace.seed, faults) as again:
        pass
    for number, (first, second) in enumerate(zip(trace.events, again.events, strict=False), start=1):
        if to_json(first) != to_json(second):
            raise ConfigError(
                f"seed {trace.seed} gave another run the second time: event {number} ({first.kind}) differs; "
                f"let models and tools take time, chance and ids from the world or the context, and keep "
                f"nothing between runs outside the world\n"
                f"{to_json(first):.400}\n{to_json(second):.400}"
            )
    if len(trace.events) != len(again.events):
        raise ConfigError(
            f"seed {trace.seed} gave {len(trace.events)} events, and {len(again.events)} the second time; "
            f"keep nothing between runs outside the world, and pass a function that makes the agent"
        )


@contextmanager
def simulated(scenario: Scenario, seed: int, faults: Faults) -> Generator[Trace]:
    """One run of the scenario; it never raises for what the run does.

    Inside, the world is as the run left it: the code of processes that died is closed afterwards, and what
    stands in its `finally` blocks is run then.
    """
    run = SimulatedRun(scenario, seed, faults)
    try:
        with installed(run.boundary):
            try:
                run.loop.run(_run_to_end(run))
                run.loop.settle(_SETTLED)
            except Exception as error:  # noqa: BLE001  # a run that never ends, or that raises, is a finding
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

_Shown: TypeAlias = tuple[Trace, BaseException]


class _Shrinking(Mutable):
    """Looks for the fewest faults that still break an invariant with this seed."""

    scenario: Scenario
    functions: Sequence[Invariant]
    trace: Trace
    name: str
    turns_left: int
    tries: int = 0

    def fewest(self, error: BaseException) -> _Shown:
        happened = self.trace.faults
        for size in range(min(3, len(happened) + 1)):  # none, one alone, two
            shown = self._first(combinations(happened, size), _MOST_TRIES)
            if shown is not None:
                return shown
        shown = self._thinned() or (self.trace, error)
        if len(shown[0].faults) <= _FEW:
            return shown
        return self._one_elsewhere(shown[0].faults) or shown

    def _thinned(self) -> _Shown | None:
        """The faults that happened, less those without which it still breaks, taken out one by one."""
        best: _Shown | None = None
        left = [*self.trace.faults]
        for fault in reversed(self.trace.faults):
            fewer = [one for one in left if one != fault]
            shown = self._first([fewer], 2 * _MOST_TRIES)
            if shown is not None:
                best, left = shown, [one for one in shown[0].faults if one in fewer]
        return best

    def _one_elsewhere(self, needed: Sequence[Fault]) -> _Shown | None:
        """One fault that this seed did not draw: at any boundary of a run without faults, or with one of
        those that seem to be needed. Each of many may be needed where one at another place does as well.
        """
        for given in ((), *((one,) for one in needed)):
            with simulated(self.scenario, self.trace.seed, Faults(only=given)) as other:
                possible = other.possible
            shown = self._first(((*given, one) for one in possible), _MOST_ELSEWHERE)
            if shown is not None:
                return shown
        return None

    def _first(self, choices: Iterable[Sequence[Fault]], most: int) -> _Shown | None:
        """The first choice of faults that breaks the invariant, in `most` tries of the whole shrinking."""
        for chosen in choices:
            if self.tries >= most or self.turns_left <= 0:
                return None
            self.tries += 1
            with simulated(self.scenario, self.trace.seed, Faults(only=tuple(chosen))) as again:
                self.turns_left -= again.turns
                for what, why in _broken(again, self.functions):
                    if what == self.name:
                        return again, why
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
