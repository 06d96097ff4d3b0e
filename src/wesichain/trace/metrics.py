"""Metrics: what runs, model calls and tools cost, counted as events go by."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import TypeAlias

from wesichain.core import (
    Event,
    ModelResponded,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    ToolCompleted,
    ToolDispatched,
    Usage,
)
from wesichain.core.internal import HandedOff, Prices, cost_of

from .recordings.format import STATUS_OF
from .terminal import neutralise

QUANTILES = (0.5, 0.95, 0.99)
_SAMPLES = 10_000
_NAMES = 1_000  # a model can invent tools without end
_OTHER = "(other)"
_Scope: TypeAlias = tuple[str, str]  # a run, and the nested run in it


class Figures:
    """How often something happened and how long it took, in milliseconds.

    `quantile` looks at the last ten thousand times; counts and the sum at all of them.
    """

    __slots__ = ("_recent", "count", "failures", "total_ms")

    def __init__(self) -> None:
        self.count = 0
        self.failures = 0
        self.total_ms = 0.0
        self._recent: deque[float] = deque(maxlen=_SAMPLES)

    def add(self, duration_ms: float, *, ok: bool = True) -> None:
        self.count += 1
        self.failures += not ok
        self.total_ms += max(0.0, duration_ms)  # a clock may jump back
        self._recent.append(max(0.0, duration_ms))

    def quantile(self, share: float) -> float:
        """The time that `share` of them did not exceed; 0 while there are none."""
        ordered = sorted(self._recent)
        return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0.0

    @property
    def p50(self) -> float:
        return self.quantile(0.5)

    @property
    def p95(self) -> float:
        return self.quantile(0.95)

    @property
    def p99(self) -> float:
        return self.quantile(0.99)


_FREE = (0.0, 0.0)


class Metrics:
    """A sink that counts runs by status, model calls, tool calls, faults by error, and tokens by model.

    `prices` are per million tokens, by model: (input, output), or a `Price` with those of the cache.
    Nested runs count as runs.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        self.prices = dict(prices or {})
        self.runs: Counter[str] = Counter()
        self.run_times = Figures()
        self.models: dict[str, Figures] = {}
        self.tools: dict[str, Figures] = {}
        self.faults: Counter[str] = Counter()
        self.tokens: dict[str, Usage] = {}
        self._began: dict[_Scope, float] = {}
        self._models: dict[_Scope, str] = {}  # of the agent that acts in each run
        self._asked: set[_Scope] = set()
        self._called: dict[_Scope, set[str]] = {}
        self._lock = threading.RLock()

    def emit(self, event: Event) -> None:
        with self._lock:
            self._count(event, (event.run_id, event.scope))

    def _count(self, event: Event, run: _Scope) -> None:
        match event:
            case RunStarted():
                self._began[run], self._models[run] = event.at, event.model
            case HandedOff():
                self._models[run] = event.model
            case StepStarted():
                self._asked.add(run)
            case ModelResponded():
                self._asked.discard(run)
                model = event.response.model or self._models.get(run, "")
                _figures(self.models, model).add(event.duration_ms)
                self.tokens[model] = self.tokens.get(model, Usage()) + event.response.usage
            case ToolDispatched():
                self._called.setdefault(run, set()).add(event.call.id)
            case ToolCompleted():
                _figures(self.tools, event.tool_name).add(event.duration_ms)
            case StepFailed() if event.decision != "waiting":  # else the call is run again
                self._count_fault(event, run)
            case RunCompleted() | RunFailed() | RunInterrupted():
                self._count_end(event, run)
            case _:
                pass

    def _count_fault(self, event: StepFailed, run: _Scope) -> None:
        self.faults[event.error] += 1
        if event.call_id is not None and event.call_id in self._called.get(run, ()):
            _figures(self.tools, event.tool_name or "").add(event.duration_ms, ok=False)
        elif run in self._asked:  # no reply came; one that came and was wrong has been counted
            self._asked.discard(run)
            _figures(self.models, self._models.get(run, "")).add(event.duration_ms, ok=False)

    def _count_end(self, event: RunCompleted | RunFailed | RunInterrupted, run: _Scope) -> None:
        self.runs[STATUS_OF[type(event)]] += 1
        began = self._began.pop(run, None)
        if began is not None:
            self.run_times.add((event.at - began) * 1000, ok=isinstance(event, RunCompleted))
        self._models.pop(run, None)
        self._asked.discard(run)
        self._called.pop(run, None)

    def cost(self, prices: Prices | None = None) -> float:
        """Cost of the tokens, by the prices given here or at the start; models without a price are free."""
        prices = self.prices if prices is None else prices
        return sum(cost_of(usage, prices.get(model, _FREE)) for model, usage in self.tokens.items())

    def table(self) -> str:
        """Everything as a table of plain text."""
        with self._lock:
            tokens = sum(self.tokens.values(), Usage())
            runs = ", ".join(f"{count} {status}" for status, count in sorted(self.runs.items())) or "none"
            rows = [
                ("", "count", "failed", "p50 ms", "p95 ms", "p99 ms"),
                _row("runs", self.run_times),
                *(_row(f"model {name}", figures) for name, figures in sorted(self.models.items())),
                *(_row(f"tool {name}", figures) for name, figures in sorted(self.tools.items())),
            ]
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        lines = [
            "  ".join(
                [
                    row[0].ljust(widths[0]),
                    *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
                ]
            )
            for row in rows
        ]
        lines.append(f"runs: {runs}")
        cost = f", cost {self.cost():.6f}" if self.prices else ""
        cached = f" ({tokens.cache_read_tokens} from a cache)" if tokens.cache_read_tokens else ""
        lines.append(f"tokens: {tokens.input_tokens} in{cached}, {tokens.output_tokens} out{cost}")
        lines += [f"fault {_plain(error)}: {count}" for error, count in self.faults.most_common()]
        return "\n".join(lines)

    def prometheus(self) -> str:
        """Everything in the text format that Prometheus reads."""
        with self._lock:
            spent = [
                (model, usage, cost_of(usage, self.prices.get(model, _FREE)))
                for model, usage in self.tokens.items()
            ]
            blocks = [
                _counter(
                    "runs", "Runs by how they ended.", (({"status": s}, n) for s, n in self.runs.items())
                ),
                _summary("run_seconds", "How long runs took.", [({}, self.run_times)]),
                *_timed("model", "model", self.models),
                *_timed("tool", "tool", self.tools),
                _counter("faults", "Faults by error.", (({"error": e}, n) for e, n in self.faults.items())),
                _counter(
                    "tokens",
                    "Tokens by model and direction.",
                    (
                        ({"model": model, "direction": way}, count)
                        for model, usage, _ in spent
                        for way, count in (("input", usage.input_tokens), ("output", usage.output_tokens))
                    ),
                ),
                _counter("cost", "Cost by model.", (({"model": model}, cost) for model, _, cost in spent)),
            ]
        return "".join(f"{line}\n" for block in blocks for line in block)


def _figures(table: dict[str, Figures], name: str) -> Figures:
    if name not in table and len(table) >= _NAMES:
        name = _OTHER
    return table.setdefault(name, Figures())


def _plain(text: str) -> str:
    return neutralise(text, newlines=False)


def _row(name: str, figures: Figures) -> tuple[str, str, str, str, str, str]:
    p50, p95, p99 = (f"{figures.quantile(share):.1f}" for share in QUANTILES)
    return _plain(name), str(figures.count), str(figures.failures), p50, p95, p99


def _timed(kind: str, label: str, table: Mapping[str, Figures]) -> Iterator[list[str]]:
    outcomes = (
        ({label: name, "outcome": outcome}, count)
        for name, figures in table.items()
        for outcome, count in (("ok", figures.count - figures.failures), ("failed", figures.failures))
    )
    yield _counter(f"{kind}_calls", f"Calls by {label} and outcome.", outcomes)
    yield _summary(
        f"{kind}_seconds", f"How long calls took, by {label}.", [({label: n}, f) for n, f in table.items()]
    )


def _counter(name: str, help_: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> list[str]:
    full = f"wesichain_{name}_total"
    head = [f"# HELP {full} {help_}", f"# TYPE {full} counter"]
    return head + [f"{full}{_labels(labels)} {_number(value)}" for labels, value in samples]


def _summary(name: str, help_: str, samples: Sequence[tuple[Mapping[str, str], Figures]]) -> list[str]:
    full = f"wesichain_{name}"
    lines = [f"# HELP {full} {help_}", f"# TYPE {full} summary"]
    for labels, figures in samples:
        for share in QUANTILES:
            at = _labels({**labels, "quantile": f"{share:g}"})
            lines.append(f"{full}{at} {_number(figures.quantile(share) / 1000)}")
        lines.append(f"{full}_sum{_labels(labels)} {_number(figures.total_ms / 1000)}")
        lines.append(f"{full}_count{_labels(labels)} {figures.count}")
    return lines


def _number(value: float) -> str:
    """All digits that a float holds: with fewer, a counter of millions grows in jumps."""
    return f"{value:.15g}"


def _labels(labels: Mapping[str, str]) -> str:
    return (
        "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}" if labels else ""
    )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
