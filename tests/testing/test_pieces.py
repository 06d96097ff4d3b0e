"""The pieces of simulation, each on its own: shrinking, and the virtual loop."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any

import pytest

from wesichain import Agent, Budget, LlmRequest, LlmResponse, ObserveErrors, ToolContext, tool
from wesichain.core import Role
from wesichain.testing import Fault, Faults, FunctionLlm, Scenario, Trace, calls, simulate_sync
from wesichain.testing.simulation import loop as loops
from wesichain.testing.simulation.loop import StuckError, virtual_loop
from wesichain.testing.simulation.simulate import simulated


@tool(effect="idempotent")
async def work(number: int, ctx: ToolContext[list[int]]) -> str:
    """Do a piece of work."""
    ctx.deps.append(number)
    return "done"


def six(request: LlmRequest) -> LlmResponse | str:
    turn = sum(message.role is Role.ASSISTANT for message in request.messages)
    return calls(("work", {"number": turn})) if turn < 6 else "done"


def scenario(least: int) -> Scenario:
    def enough(trace: Trace) -> None:
        assert len(trace.world) >= least, "too little was done"

    def make() -> Agent[Any, Any]:
        return Agent(
            FunctionLlm(six),
            tools=[work],
            deps_type=list[int],
            policy=ObserveErrors(),
            budget=Budget(steps=9),
        )

    return Scenario(make, "go", world=list, invariants=[enough])


def faulty(least: int, **more: float) -> list[str]:
    """The faults of the one violation, where every call raises."""
    report = simulate_sync(scenario(least), seeds=[5], faults=Faults.none(tool_raises=1.0, **more))
    (violation,) = report.violations
    return [fault.kind for fault in violation.faults]


@pytest.mark.parametrize(("least", "count"), [(6, 1), (5, 2), (4, 3)])
def test_a_violation_is_shrunk_to_the_fewest_of_its_faults(least: int, count: int) -> None:
    assert faulty(least) == ["tool_raises"] * count


def test_where_many_faults_are_needed_one_at_another_place_may_do_as_well() -> None:
    """Three of six would have to be done: four calls raise, or the run is cancelled once."""
    (kind,) = faulty(3)
    assert kind != "tool_raises"


def test_the_faults_that_happen_are_those_that_are_given() -> None:
    with simulated(scenario(0), 1, Faults.none(tool_raises=1.0)) as trace:
        pass
    assert {fault.kind for fault in trace.faults} <= {"tool_raises"}
    with simulated(scenario(0), 1, Faults(only=trace.faults[:1])) as fewer:
        assert len(fewer.world) == 6 - len(trace.faults[:1])
    assert {fault.kind for fault in fewer.possible} >= {"tool_raises", "model_errs", "cancel", "crash"}
    assert all(isinstance(fault, Fault) for fault in fewer.possible)


# --- the virtual loop --------------------------------------------------------------------------------


def test_a_loop_that_turns_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_MOST_TURNS", 50)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(StuckError, match="no end after 50 turns of the event loop"):
        virtual_loop(1).run(spin())


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_program_ends_the_loop(error: type[BaseException]) -> None:
    async def main() -> None:
        def leave() -> None:
            raise error

        asyncio.get_running_loop().call_soon(leave)
        await asyncio.sleep(1)

    with pytest.raises(error):
        virtual_loop(1).run(main())


def test_a_callback_that_fails_does_not_end_the_loop() -> None:
    async def main() -> str:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(5)
        return "went on"

    assert virtual_loop(1).run(main()) == "went on"


def test_code_of_a_dead_process_leaves_nothing_that_was_never_awaited() -> None:
    async def inner() -> None: ...

    async def outer(waiting: Any) -> None:
        await waiting

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except BaseException:
                ended.append("")
                if len(ended) > 2:
                    raise

    ended: list[str] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        loops._close(outer(inner()))

        async def main() -> None:
            code = stubborn()
            code.send(None)
            loops._close(code)

        virtual_loop(1).run(main())
        gc.collect()
    assert (len(ended), [str(one.message) for one in warned]) == (3, [])
