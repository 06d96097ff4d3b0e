"""One simulated run: a scenario with one seed, from its first process to its last."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from wesichain.testing.seams import installed

from .agent_runs import run_agent
from .durable_runs import run_durable
from .faults import Faults
from .graph_runs import is_graph, run_graph
from .scenario import Scenario, Trace, is_durable
from .simulated_run import SimulatedRun

_SETTLED = 86_400.0  # seconds after the end of a run in which what it left behind may still act


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
