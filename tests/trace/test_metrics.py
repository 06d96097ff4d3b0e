"""Metrics: counts, times, tokens and cost, as a table and for Prometheus."""

from __future__ import annotations

import re

import pytest

from tests.trace.runs import NOON, run
from wesichain.core import (
    Event,
    LlmResponse,
    ModelResponded,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    Usage,
)
from wesichain.core.events import HandedOff
from wesichain.core.internal import Price
from wesichain.trace import Figures, Metrics


@pytest.fixture
def metrics() -> Metrics:
    """A run that completes, one that fails in a tool after its model was down, one that is stopped."""
    counted = Metrics({"scripted": (1.0, 10.0)})
    failed: list[Event] = [
        RunStarted("f", 0, 0, NOON, "q", "scripted"),
        StepStarted("f", 1, 1, NOON),
        StepFailed("f", 1, 2, NOON, "LlmTransportError", "down", "retry", duration_ms=9.0),
        StepStarted("f", 2, 3, NOON),
        ToolDispatched("f", 2, 4, NOON, ToolCall("c", "weather", {})),
        StepFailed("f", 2, 5, NOON, "ToolTimeoutError", "late", "fail", "c", "weather", 700.0),
        StepFailed("f", 2, 6, NOON, "UnknownToolError", "none", "fail", "d", "other"),
        RunFailed("f", 2, 7, NOON + 10, "ToolFailedError", "late", Usage()),
    ]
    stopped: list[Event] = [
        RunStarted("s", 0, 0, NOON, "q", "scripted"),
        RunInterrupted("s", 0, 1, NOON - 3600, "cancelled", Usage()),  # the clock went back
    ]
    for event in (*run("c", 2), *failed, *stopped):
        counted.emit(event)
    return counted


def test_tokens_and_cost(metrics: Metrics) -> None:
    assert metrics.tokens == {"scripted": Usage(400, 25)}
    assert metrics.cost() == pytest.approx((400 * 1.0 + 25 * 10.0) / 1e6)
    assert metrics.cost({"scripted": (2.0, 0.0)}) == pytest.approx(0.0008)
    assert metrics.cost({"other": (2.0, 0.0)}) == 0.0


def test_the_table_is_for_people(metrics: Metrics) -> None:
    assert (
        metrics.table()
        == """\
                count  failed  p50 ms   p95 ms   p99 ms
runs                3       2  4000.0  10000.0  10000.0
model scripted      5       2   500.0    500.0    500.0
tool weather        3       1   100.0    700.0    700.0
runs: 1 completed, 1 failed, 1 interrupted
tokens: 400 in, 25 out, cost 0.000650
fault LlmTransportError: 1
fault ToolTimeoutError: 1
fault UnknownToolError: 1"""
    )
    assert Metrics().table().splitlines()[-2:] == ["runs: none", "tokens: 0 in, 0 out"]


SAMPLE = re.compile(
    r'[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*\})? [0-9.e+-]+'
)


def test_the_text_for_prometheus(metrics: Metrics) -> None:
    text = metrics.prometheus()
    assert text.endswith("\n")
    for line in text.splitlines():
        assert line.startswith(("# HELP wesichain_", "# TYPE wesichain_")) or SAMPLE.fullmatch(line), line
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'wesichain_runs_total{status="completed"} 1',
        'wesichain_runs_total{status="failed"} 1',
        'wesichain_runs_total{status="interrupted"} 1',
        'wesichain_run_seconds{quantile="0.5"} 4',
        'wesichain_run_seconds{quantile="0.95"} 10',
        'wesichain_run_seconds{quantile="0.99"} 10',
        "wesichain_run_seconds_sum 14",
        "wesichain_run_seconds_count 3",
        'wesichain_model_calls_total{model="scripted",outcome="ok"} 3',
        'wesichain_model_calls_total{model="scripted",outcome="failed"} 2',
        'wesichain_model_seconds{model="scripted",quantile="0.5"} 0.5',
        'wesichain_model_seconds{model="scripted",quantile="0.95"} 0.5',
        'wesichain_model_seconds{model="scripted",quantile="0.99"} 0.5',
        'wesichain_model_seconds_sum{model="scripted"} 1.509',
        'wesichain_model_seconds_count{model="scripted"} 5',
        'wesichain_tool_calls_total{tool="weather",outcome="ok"} 2',
        'wesichain_tool_calls_total{tool="weather",outcome="failed"} 1',
        'wesichain_tool_seconds{tool="weather",quantile="0.5"} 0.1',
        'wesichain_tool_seconds{tool="weather",quantile="0.95"} 0.7',
        'wesichain_tool_seconds{tool="weather",quantile="0.99"} 0.7',
        'wesichain_tool_seconds_sum{tool="weather"} 0.9',
        'wesichain_tool_seconds_count{tool="weather"} 3',
        'wesichain_faults_total{error="LlmTransportError"} 1',
        'wesichain_faults_total{error="ToolTimeoutError"} 1',
        'wesichain_faults_total{error="UnknownToolError"} 1',
        'wesichain_tokens_total{model="scripted",direction="input"} 400',
        'wesichain_tokens_total{model="scripted",direction="output"} 25',
        'wesichain_cost_total{model="scripted"} 0.00065',
    ]


def test_a_counter_of_millions_has_all_its_digits() -> None:
    metrics = Metrics()
    metrics.emit(ModelResponded("r", 1, 1, NOON, LlmResponse(usage=Usage(123_456_789, 1)), 1_234_567.5))
    assert 'direction="input"} 123456789' in metrics.prometheus()
    assert 'wesichain_model_seconds_sum{model=""} 1234.5675' in metrics.prometheus()


def test_tokens_are_those_of_the_model_that_answered() -> None:
    """After a hand-off that is the other agent's, and behind a fallback the one that a reply names."""
    metrics = Metrics()
    for event in (
        RunStarted("r", 0, 0, NOON, "q", "first"),
        ModelResponded("r", 1, 1, NOON, LlmResponse(usage=Usage(1)), 1.0),
        HandedOff("r", 1, 2, NOON, "a", "b", "second"),
        StepStarted("r", 2, 3, NOON),
        ModelResponded("r", 2, 3, NOON, LlmResponse(usage=Usage(2)), 1.0),
        ModelResponded("r", 3, 4, NOON, LlmResponse(usage=Usage(4), model="third"), 1.0),
        StepStarted("r", 4, 5, NOON),
        StepFailed("r", 4, 6, NOON, "E", "down", "fail"),
        RunFailed("r", 4, 7, NOON, "E", "down", Usage()),
    ):
        metrics.emit(event)
    assert metrics.tokens == {"first": Usage(1), "second": Usage(2), "third": Usage(4)}
    assert {name: (one.count, one.failures) for name, one in metrics.models.items()} == {
        "first": (1, 0),
        "second": (2, 1),
        "third": (1, 0),
    }


def test_names_that_a_model_made_up() -> None:
    metrics = Metrics()
    evil = 'a"b\\c\nd\x1b[2J'
    metrics.emit(ToolCompleted("r", 1, 1, NOON, "c", evil, None, 1.0))
    for number in range(3000):
        metrics.emit(ToolCompleted("r", 1, 1, NOON, "c", f"tool-{number}", None, 1.0))
    assert len(metrics.tools) <= 1001
    assert 'tool="a\\"b\\\\c\\nd' in metrics.prometheus()
    assert 'tool a"b\\c⏎d␛[2J ' in metrics.table()
    assert all(
        SAMPLE.fullmatch(line) for line in metrics.prometheus().splitlines() if not line.startswith("#")
    )
    assert "\x1b" not in metrics.table()


def test_nothing_is_kept_of_runs_that_ended(metrics: Metrics) -> None:
    assert not metrics._began
    assert not metrics._models
    assert not metrics._asked
    assert not metrics._called


def test_a_fault_after_the_reply_is_none_of_the_model() -> None:
    """A request that failed is counted once, and an error after its reply, or in a tool, is not another one."""
    counted = Metrics()
    refused = StepFailed("r", 1, 2, NOON, "BudgetError", "spent", "fail")
    for event in (
        RunStarted("r", 0, 0, NOON, "q", "m"),
        StepStarted("r", 1, 1, NOON),
        StepFailed("r", 1, 2, NOON, "LlmTransportError", "down", "retry", duration_ms=9.0),
        refused,
        StepStarted("r", 2, 3, NOON),
        ModelResponded("r", 2, 4, NOON, LlmResponse("hi"), 5.0),
        refused,
        StepStarted("r", 3, 5, NOON),
        RunFailed("r", 3, 6, NOON, "BudgetError", "spent", Usage()),
    ):
        counted.emit(event)
    assert (counted.models["m"].count, counted.models["m"].failures) == (2, 1)
    assert not counted._asked


@pytest.mark.parametrize(
    ("durations", "p50", "p95", "p99"),
    [
        pytest.param([], 0, 0, 0, id="none"),
        pytest.param([5], 5, 5, 5, id="one"),
        pytest.param(list(range(1, 101)), 50, 95, 99, id="a hundred"),
        pytest.param([1, 1, 1, 100], 1, 100, 100, id="one slow of four"),
        pytest.param(list(range(30_000)), 24_999, 29_499, 29_899, id="the last ten thousand of many"),
    ],
)
def test_quantiles(durations: list[int], p50: float, p95: float, p99: float) -> None:
    figures = Figures()
    for duration in durations:
        figures.add(duration)
    assert (figures.p50, figures.p95, figures.p99) == (p50, p95, p99)
    assert figures.count == len(durations)


def test_what_the_cache_held_costs_what_the_cache_costs() -> None:
    metrics = Metrics({"m": Price(3, 15, 0.3, 3.75)})
    usage = Usage(1_000_000, 0, cache_read_tokens=900_000)
    metrics.emit(RunStarted("r", 0, 0, 0.0, "hi", "m"))
    metrics.emit(ModelResponded("r", 1, 1, 0.0, LlmResponse("yes", usage=usage), 1.0))
    assert metrics.cost() == pytest.approx(0.3 + 0.27)
    assert "1000000 in (900000 from a cache)" in metrics.table()
