"""Calls side by side: in call order, capped, with barriers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.kit import call, check_events, runtime, say
from tests.virtual_time import run as run_virtually
from wesichain.agent import Completed, Failed
from wesichain.core import Observation
from wesichain.tools import tool


class Meter:
    """Counts how many run at once, and in which order they end."""

    def __init__(self, unit: float = 0.04) -> None:
        self.unit = unit
        self.now = 0
        self.most = 0
        self.ended: list[int] = []

    def tools(self) -> list[Any]:
        @tool
        async def wait(n: int) -> int:
            """Waits longer for smaller n."""
            await self._take(n)
            return n

        @tool(sequential=True)
        async def alone(n: int) -> int:
            """Runs alone."""
            assert self.now == 0
            await self._take(n)
            return n

        @tool
        async def fail(n: int) -> int:
            """Fails soon."""
            await asyncio.sleep(0.001)
            raise ValueError(str(n))

        return [wait, alone, fail]

    async def _take(self, n: int) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.unit / (n + 1))
        self.now -= 1
        self.ended.append(n)


def run(replies: list[Any], *tools: Any, **options: Any) -> Any:
    return run_virtually(runtime(replies, *tools, **options).run("q"))


def batch(*names: str) -> Any:
    return say(*(call(name, {"n": index}, id=str(index)) for index, name in enumerate(names)))


@pytest.mark.parametrize(
    ("concurrency", "most"),
    [pytest.param(1, 1, id="one"), pytest.param(2, 2, id="two"), pytest.param(9, 4, id="all")],
)
def test_results_stay_in_call_order_and_the_cap_holds(concurrency: int, most: int) -> None:
    meter = Meter()
    outcome = run([batch("wait", "wait", "wait", "wait"), "ok"], *meter.tools(), tool_concurrency=concurrency)
    assert isinstance(outcome, Completed)
    assert [step.value for step in outcome.steps if isinstance(step, Observation)] == [0, 1, 2, 3]
    assert meter.most == most
    if concurrency == 9:
        assert meter.ended == [3, 2, 1, 0]
    check_events(outcome.events)


def test_a_sequential_tool_is_a_barrier() -> None:
    meter = Meter()
    outcome = run([batch("wait", "wait", "alone", "wait"), "ok"], *meter.tools(), tool_concurrency=4)
    assert isinstance(outcome, Completed)
    assert meter.ended == [1, 0, 2, 3]
    check_events(outcome.events)


def test_a_failure_that_ends_the_run_stops_the_siblings_and_is_the_first_in_call_order() -> None:
    meter = Meter(unit=4.0)
    outcome = run([batch("fail", "wait", "fail", "wait")], *meter.tools(), tool_concurrency=4)
    assert isinstance(outcome, Failed)
    assert "0" in str(outcome.error)
    assert meter.ended == []
    check_events(outcome.events)


def test_calls_in_the_queue_do_not_start_after_a_fatal_failure() -> None:
    meter = Meter()
    outcome = run([batch("fail", "fail", "wait", "wait")], *meter.tools(), tool_concurrency=2)
    assert isinstance(outcome, Failed)
    assert meter.most == 0
    check_events(outcome.events)
