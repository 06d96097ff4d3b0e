"""Statistics over the newest runs: tools, models and faults counted, and a curve of steps over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from wesichain.errors import CodecError
from wesichain.trace import Figures, Metrics, load

from .runs import RunStore

CURVE = 500  # runs
_READ = 64 * 1024 * 1024  # bytes of recordings that are read for the figures


def statistics(store: RunStore, *, limit: int = 200) -> dict[str, Any]:
    """What the newest runs took: the curve from their summaries, the figures from at most `limit` files."""
    runs = store.runs(CURVE)
    metrics = Metrics(store.prices)
    counted: Counter[str] = Counter()
    left = _READ
    for run in runs[:limit]:
        left -= run.size
        if left < 0:
            break
        try:
            events = load(run.path).events
        except (OSError, CodecError):
            continue
        counted[run.status] += 1
        for event in events:
            metrics.emit(event)
    names = store.newest()
    return {
        "runs": counted.total(),
        "statuses": dict(counted),
        "tools": _table(metrics.tools),
        "models": [
            row | {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
            for row in _table(metrics.models)
            if (usage := metrics.tokens.get(row["name"])) is not None
        ],
        "faults": [{"name": name, "count": count} for name, count in metrics.faults.most_common(50)],
        "cost": metrics.cost() if store.prices else None,
        "curve": [store.plain(run, names) for run in reversed(runs)],
    }


def _table(figures: Mapping[str, Figures]) -> list[dict[str, Any]]:
    rows = [
        {
            "name": name,
            "count": one.count,
            "failures": one.failures,
            "p50": one.p50,
            "p95": one.p95,
            "p99": one.p99,
            "total_ms": one.total_ms,
        }
        for name, one in figures.items()
    ]
    return sorted(rows, key=lambda row: (-int(row["count"]), str(row["name"])))
